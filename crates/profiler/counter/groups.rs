//! Counts by control group: the group of the task that runs executes the instructions.

use std::collections::{BTreeMap, HashMap};

use crate::qemu::word;
use crate::{Counts, qemu};

/// Number of groups counted separately; all others are counted together.
const MOST_GROUPS: usize = 256;

/// Number of group sets whose names are cached.
const MOST_SETS: usize = 1 << 14;

/// Number of bytes read of a name.
const NAME_BYTES: usize = 32;

/// Where a task keeps its control group; fields are 0 if unknown.
#[derive(Debug, Clone, Copy, Default)]
pub struct Layout {
    /// `cgroups` in `task_struct`.
    pub cgroups: u64,
    /// `dfl_cgrp` in `css_set`.
    pub default_cgroup: u64,
    /// `kn` in `cgroup`.
    pub node: u64,
    /// `name` in `kernfs_node`.
    pub name: u64,
}

/// Counts of each group since the start.
pub struct Groups {
    layout: Layout,
    last: Counts,
    /// Names by the address of their group set, cached since the last mark.
    names: HashMap<u64, String>,
    sums: BTreeMap<String, Counts>,
}

impl Groups {
    /// Empty counts.
    pub fn new(layout: Layout) -> Self {
        Self {
            layout,
            last: Counts::default(),
            names: HashMap::new(),
            sums: BTreeMap::new(),
        }
    }

    /// Attributes everything counted since the last call to the task that ran until now.
    pub fn attribute(&mut self, task: u64, now: &Counts) {
        let Some(name) = self.name_of(task) else {
            return;
        };
        let since = now.since(&self.last);
        self.last = *now;
        let is_counted = self.sums.contains_key(&name);
        let name = if is_counted || self.sums.len() < MOST_GROUPS {
            name
        } else {
            "...".into()
        };
        self.sums.entry(name).or_default().add(&since);
    }

    /// Clears the cached names, because a new set may get the address of an old one.
    pub fn forget_names(&mut self) {
        self.names.clear();
    }

    /// Counts by group name.
    pub fn sums(&self) -> &BTreeMap<String, Counts> {
        &self.sums
    }

    fn name_of(&mut self, task: u64) -> Option<String> {
        let layout = self.layout;
        if task == 0 || layout.cgroups == 0 {
            return None;
        }
        let set = word(task.wrapping_add(layout.cgroups))?;
        if let Some(name) = self.names.get(&set) {
            return Some(name.clone());
        }
        let group = word(set.wrapping_add(layout.default_cgroup))?;
        let node = word(group.wrapping_add(layout.node))?;
        let text = qemu::read_memory(word(node.wrapping_add(layout.name))?, NAME_BYTES)?;
        let name = clean(&text);
        if self.names.len() >= MOST_SETS {
            self.names.clear();
        }
        self.names.insert(set, name.clone());
        Some(name)
    }
}

/// A name as one word; the root's is `/`.
fn clean(text: &[u8]) -> String {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-@:".contains(byte);
    let plain = text[..end].iter().map(|byte| if is_plain(byte) { *byte as char } else { '?' });
    match plain.collect::<String>() {
        name if name.is_empty() => "/".into(),
        name => name,
    }
}

impl Counts {
    /// The difference to earlier counts.
    pub fn since(&self, earlier: &Self) -> Self {
        let difference = |now: [u64; 4], then: [u64; 4]| std::array::from_fn(|at| now[at] - then[at]);
        Self {
            executed: self.executed - earlier.executed,
            starts: difference(self.starts, earlier.starts),
            repeats: difference(self.repeats, earlier.repeats),
            unknown: self.unknown - earlier.unknown,
        }
    }

    fn add(&mut self, other: &Self) {
        self.executed += other.executed;
        for at in 0..4 {
            self.starts[at] += other.starts[at];
            self.repeats[at] += other.repeats[at];
        }
        self.unknown += other.unknown;
    }
}
