//! Limits of a profile's size.
//!
//! A text is stored once in the file and referenced by a number, so few bytes can name much text: 88 bytes once requested 20 GiB.
//! The budget therefore counts what is named. Profiles are untrusted: guests make them, and run directories come from other people.

use crate::profile::Profile;

/// Longest name of a function or a file, in bytes; names of C++ templates can be this long.
pub const NAME_BYTES: usize = 1024;

/// Most texts: each node has two.
pub(crate) const MOST_TEXTS: u64 = 2 * MOST_NODES as u64;

/// Most texts about what a profile lacks.
pub(crate) const MOST_LACKS: u64 = 4096;

/// Most counters of a sampled profile.
pub(crate) const MOST_COUNTERS: u64 = 4096;

/// Most nodes. A profile of ten seconds has some ten thousand.
const MOST_NODES: usize = 1 << 19;

/// Total length of all nodes' names, in bytes.
const TEXT_BYTES: u64 = 32 << 20;

/// Most nodes on a path. The plugin follows 1024 calls.
const MOST_DEPTH: u32 = 2048;

/// Total length of all nodes' call paths, in bytes, as `folded` writes them.
const PATHS_BYTES: u64 = 1 << 30;

/// Total length of the call paths of all sleeps and the names of all tasks that ran meanwhile, in bytes.
const CAUSES_BYTES: u64 = 32 << 20;

/// Most windows, as many as the plugin writes marks.
const MOST_WINDOWS: usize = 4096;

/// Most rows of all windows together.
const MOST_ROWS: usize = 1 << 20;

/// What a profile has used so far.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// For each node but the first: its depth, and the length of its path in bytes.
    nodes: Vec<(u32, u32)>,
    text: u64,
    paths: u64,
    causes: u64,
    windows: usize,
    rows: usize,
}

type Within = Result<(), &'static str>;

impl Budget {
    /// Checks that a profile can be read back.
    pub(crate) fn check(profile: &Profile) -> Within {
        let mut budget = Self::default();
        for node in profile.nodes.iter().skip(1) {
            budget.node(node.parent, &node.name, &node.image)?;
        }
        for window in &profile.windows {
            budget.window()?;
            budget.rows(window.counts.len())?;
            budget.rows(window.queued.len() + window.blame.len() + window.asleep.len())?;
            budget.rows(window.preempted.len() + window.ran.len())?;
            for wait in &window.asleep {
                budget.asleep(wait.node)?;
            }
            for blame in &window.blame {
                budget.blame(&profile.nodes[blame.runner as usize].name)?;
            }
        }
        Ok(())
    }

    /// Counts the next node; its parent precedes it.
    pub(crate) fn node(&mut self, parent: u32, name: &str, image: &str) -> Within {
        let parent_index = (parent as usize).checked_sub(1);
        let (depth, path) = parent_index.map_or((0, 0), |parent_index| self.nodes[parent_index]);
        // A name is cut when it is written.
        let (name, image) = (name.len().min(NAME_BYTES), image.len().min(NAME_BYTES));
        let path = path + name.max(image) as u32 + 1;
        self.text += (name + image) as u64;
        self.paths += u64::from(path);
        self.nodes.push((depth + 1, path));
        within(self.nodes.len() < MOST_NODES, "too many nodes")?;
        within(depth < MOST_DEPTH, "node too deep in the tree")?;
        within(self.text <= TEXT_BYTES, "too much text in names")?;
        within(self.paths <= PATHS_BYTES, "call paths too long")
    }

    /// Counts a window.
    pub(crate) fn window(&mut self) -> Within {
        self.windows += 1;
        within(self.windows <= MOST_WINDOWS, "too many windows")
    }

    /// Counts rows.
    pub(crate) fn rows(&mut self, more: usize) -> Within {
        self.rows = self.rows.saturating_add(more);
        within(self.rows <= MOST_ROWS, "too many rows")
    }

    /// Counts a sleep, which an explanation names by its call path.
    pub(crate) fn asleep(&mut self, node: u32) -> Within {
        let above = (node as usize).checked_sub(1);
        let path = above.map_or(0, |above| self.nodes[above].1);
        self.cause(path.into())
    }

    /// Counts a task that ran while another one waited.
    pub(crate) fn blame(&mut self, runner: &str) -> Within {
        self.cause(runner.len() as u64)
    }

    fn cause(&mut self, bytes: u64) -> Within {
        self.causes += bytes;
        within(self.causes <= CAUSES_BYTES, "causes of waits too long")
    }
}

fn within(is_so: bool, what: &'static str) -> Within {
    if is_so { Ok(()) } else { Err(what) }
}
