//! Hardware of a Linux system, as facts by name: `cpu:model`, `numa`, `disk:sda:scheduler`, `nic:eth0:driver`.
//!
//! All files are read below a root directory, mostly `/`, so that tests can make up a machine. Only properties of network
//! cards that no file has, such as firmware, offloads and rings, come from the kernel (`ethtool`). Unknown facts are left
//! out, and so is what changes by itself, such as current frequencies, and what identifies one specimen, such as serial
//! numbers and hardware addresses.

mod cpus;
mod devices;
mod ethtool;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Facts by their names.
pub type Facts = BTreeMap<String, String>;

/// Facts of the system that this program runs on, by its own view of devices.
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

/// The same for a machine below another root, from files alone.
pub fn facts_below(root: &Path) -> Facts {
    let system = System::at(root);
    let mut facts = Facts::new();
    let dmi = |names: &[&str]| {
        let words = names
            .iter()
            .filter_map(|name| system.read(&format!("sys/class/dmi/id/{name}")));
        words.collect::<Vec<_>>().join(" ")
    };
    keep(
        &mut facts,
        "product",
        &dmi(&["sys_vendor", "product_name", "product_version"]),
    );
    keep(
        &mut facts,
        "firmware",
        &dmi(&["bios_vendor", "bios_version", "bios_date"]),
    );
    cpus::collect(&system, &mut facts);
    devices::collect(&system, &mut facts);
    facts
}

/// A system, by its root directory.
struct System {
    root: PathBuf,
}

impl System {
    fn at(root: &Path) -> Self {
        Self { root: root.into() }
    }

    /// A file's text without the space around it; `None` for one that is empty or cannot be read.
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

    /// The last part of what a link points at.
    fn target(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.root.join(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_string())
    }

    fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }
}

/// Longest value, in characters: a bond of many cards or a machine of many nodes fits.
const LONGEST: usize = 1000;

/// Inserts a value, unless it is empty.
fn keep(facts: &mut Facts, name: &str, value: &str) {
    if !value.is_empty() {
        facts.insert(name.into(), value.chars().take(LONGEST).collect());
    }
}

/// Numbers of `sda`, `node12`, `cpu3`: what follows `lead`, if it is one.
fn number(name: &str, lead: &str) -> Option<u32> {
    name.strip_prefix(lead)?.parse().ok()
}
