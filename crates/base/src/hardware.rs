//! Hardware of a Linux system, as facts by name: `cpu:model`, `numa`, `disk:sda:scheduler`, `nic:eth0:driver`.
//!
//! All files are read below a root directory, usually `/`, so that tests can fake a machine. Only properties of network
//! cards without a file, such as firmware, offloads and rings, come from the kernel (`ethtool`). Left out are unknown
//! facts, values that change by themselves, such as current frequencies, and identifiers of a single device, such as
//! serial numbers and hardware addresses.

mod cpus;
mod devices;
mod ethtool;
#[cfg(test)]
mod tests;

pub use cpus::model as cpu_model;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Facts by their names.
pub type Facts = BTreeMap<String, String>;

/// Facts of the system that this program runs on.
pub fn facts() -> Facts {
    let mut facts = facts_below(Path::new("/"));
    let cards = devices::cards(&System::at(Path::new("/")));
    for card in cards {
        for (property, value) in ethtool::facts(&card) {
            facts.insert(format!("nic:{card}:{property}"), value);
        }
    }
    facts
}

/// Facts of a machine below another root directory, from files alone.
pub fn facts_below(root: &Path) -> Facts {
    let system = System::at(root);
    let mut facts = Facts::new();
    let dmi = |names: &[&str]| {
        let words = names
            .iter()
            .filter_map(|name| system.read(&format!("sys/class/dmi/id/{name}")));
        words.collect::<Vec<_>>().join(" ")
    };
    insert(
        &mut facts,
        "product",
        &dmi(&["sys_vendor", "product_name", "product_version"]),
    );
    insert(
        &mut facts,
        "firmware",
        &dmi(&["bios_vendor", "bios_version", "bios_date"]),
    );
    cpus::collect(&system, &mut facts);
    devices::collect(&system, &mut facts);
    facts
}

/// A system, given by its root directory.
struct System {
    root: PathBuf,
}

impl System {
    fn at(root: &Path) -> Self {
        Self { root: root.into() }
    }

    /// A file's trimmed text; `None` if it is empty or cannot be read.
    fn read(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_string())
    }

    /// Names in a directory, sorted; empty if it does not exist.
    fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        names.sort();
        names
    }

    /// The last part of a symlink's target.
    fn target(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.root.join(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_string())
    }

    fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }
}

/// Longest value, in characters. It suffices for a bond of many cards or a machine with many nodes.
const MAX_CHARS: usize = 1000;

/// Inserts a value, unless it is empty.
fn insert(facts: &mut Facts, name: &str, value: &str) {
    if !value.is_empty() {
        facts.insert(name.into(), value.chars().take(MAX_CHARS).collect());
    }
}

/// The number in `sda1`, `node12`, `cpu3`: what follows `prefix`, if it is one.
fn number(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.parse().ok()
}
