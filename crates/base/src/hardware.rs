//! What a Linux system says of its hardware, as facts by name: `cpu:model`, `numa`, `disk:sda:scheduler`, `nic:eth0:driver`.
//!
//! All is read below one directory, mostly `/`, so that a machine can be made up; only what no file tells of a network card, such as its
//! firmware, its offloads and its rings, is asked of the kernel (`ethtool`). What a machine does not tell is left out. What changes by itself, such as frequencies
//! of the moment, and what names one specimen, such as serial numbers and hardware addresses, is not looked at.

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

/// The same of what lies below another root, as far as files tell.
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

/// A system by its files.
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

    /// Names in a directory, sorted; none where it is not there.
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

/// Keeps a value that says anything.
fn keep(facts: &mut Facts, name: &str, value: &str) {
    if !value.is_empty() {
        facts.insert(name.into(), value.chars().take(LONGEST).collect());
    }
}

/// Numbers of `sda`, `node12`, `cpu3`: what follows `lead`, if it is one.
fn number(name: &str, lead: &str) -> Option<u32> {
    name.strip_prefix(lead)?.parse().ok()
}
