//! Blocks of a run that nodes of a cluster run: one job per block, each in a separate directory below the run's.
//!
//! ```text
//! fleet.json               the build that jobs must have, and the program that they run (`Fleet`)
//! blocks/007/              block 7: a run directory with only this block, and its node in `node.json`
//! blocks/007.lock          locked by the job that works on the block, so that a second job does nothing
//! blocks/007.failures.jsonl    why jobs ended without the block (`Failure`)
//! blocks/007.given-up-1/   files of an earlier node, which do not count
//! ```
//! Only these files show whether a block is done, not the cluster. The run merges blocks in their order (`RunDir::take_over`), so its
//! journal and trials look like those of a run on one host.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base::input::tree::Tree;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::journal;
use crate::journal::JOURNAL;
use crate::journal::{Entry, Event, Opening};
use crate::json;
use crate::node::Node;
use crate::rundir::RunDir;

/// Version of `fleet.json`.
pub const VERSION: u32 = 1;

/// Longest file described here, in bytes.
const MOST_BYTES: u64 = 4 << 20;

/// Most values in such a file.
const MOST_VALUES: usize = 1 << 17;

/// Name of the file that jobs read first.
pub const FLEET: &str = "fleet.json";

/// Name of the file with the node of a block.
pub(crate) const NODE: &str = "node.json";

/// The content of `fleet.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fleet {
    /// Version of this format.
    pub version: u32,
    /// Identifies the run's jobs on the cluster.
    pub id: String,
    /// The build that all jobs must have.
    pub build: String,
    /// SHA-256 of the program that jobs run.
    pub program_sha256: String,
}

impl Fleet {
    /// Reads the file of a run.
    pub fn read(run: &Path) -> Result<Self> {
        let path = run.join(FLEET);
        let body = Tree::at(run).read(FLEET, MOST_BYTES).with_context(|| {
            format!(
                "no run of a fleet: {} (begin it with --slurm)",
                path.display()
            )
        })?;
        let fleet: Self = json::read(&body, MOST_VALUES)
            .with_context(|| format!("damaged file: {}", path.display()))?;
        if fleet.version > VERSION {
            bail!(
                "file of a newer bakeoff: {} (use that version)",
                path.display()
            );
        }
        Ok(fleet)
    }
}

/// Why a job ended without its block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The node's name.
    pub node: String,
    /// Whether no job of this run can succeed on that node.
    pub is_refusal: bool,
    /// The error message.
    pub message: String,
}

/// A block that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedBlock {
    /// The node that ran it.
    pub node: Node,
    /// Nodes that began it earlier and did not finish it.
    pub given_up_on: Vec<String>,
    /// What its run was opened with.
    pub opening: Opening,
    /// Entries of its journal for the run's journal.
    pub entries: Vec<Entry>,
}

/// The directory of a block.
#[must_use]
pub fn block_dir(run: &Path, block: u32) -> PathBuf {
    run.join("blocks").join(format!("{block:03}"))
}

/// Name of a file or directory beside a block's directory, relative to the run's.
fn beside(block: u32, ending: &str) -> String {
    format!("blocks/{block:03}.{ending}")
}

/// The lock on a block; the kernel releases it when the process ends.
#[derive(Debug)]
pub struct BlockLock(File);

impl BlockLock {
    /// Takes the lock; `None` if another job is working on the block.
    pub fn take(run: &Path, block: u32) -> Result<Option<Self>> {
        let tree = Tree::to_write(run)
            .and_then(|tree| tree.make_dir("blocks").map(|_| tree))
            .with_context(|| format!("cannot write to run directory: {}", run.display()))?;
        let name = beside(block, "lock");
        let path = run.join(&name);
        let lock = tree
            .lock_file(&name)
            .with_context(|| format!("cannot create {}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(Self(lock))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(why)) => {
                Err(why).with_context(|| format!("cannot lock {}", path.display()))
            }
        }
    }
}

impl Drop for BlockLock {
    fn drop(&mut self) {
        // A child process that is just being started holds the file, and its lock, until it calls exec.
        let _ = self.0.unlock();
    }
}

/// Whether a job is working on a block, whatever the cluster reports.
#[must_use]
pub fn is_at_work(run: &Path, block: u32) -> bool {
    Tree::at(run).is_locked(beside(block, "lock"))
}

/// Opens a block's directory for its node; the caller must hold the lock. What another node began is moved aside, because all trials of a
/// block must run on one node.
pub fn open_block(run: &Path, block: u32, node: &Node, plan_text: &str) -> Result<RunDir> {
    let path = block_dir(run, block);
    let tree = Tree::at(run);
    let earlier: Option<Node> = read(&tree, &format!("blocks/{block:03}/{NODE}"))?;
    if earlier.is_some_and(|earlier| earlier != *node) {
        let mut names = (1_u32..).map(|n| beside(block, &format!("given-up-{n}")));
        let free = names.find(|name| !tree.has(name));
        let free = free.expect("there are more numbers than directories");
        tree.rename(format!("blocks/{block:03}"), free)
            .with_context(|| format!("cannot set aside {}", path.display()))?;
    }
    let dir = RunDir::open(&path, plan_text)?;
    dir.write(NODE, &serde_json::to_vec_pretty(node)?)?;
    Ok(dir)
}

/// A block that has ended; `None` if it has not.
pub fn ended(run: &Path, block: u32) -> Result<Option<EndedBlock>> {
    let dir = Tree::at(run).below(format!("blocks/{block:03}"));
    let journal = dir.path().join(JOURNAL);
    if !dir.has(JOURNAL) {
        return Ok(None);
    }
    let mut entries = journal::read(&dir)?;
    let is_closed = |entry: &Entry| matches!(entry.event, Event::Closed { .. });
    if !entries.last().is_some_and(is_closed) {
        return Ok(None);
    }
    if let Err(why) = journal::check_whole(&entries) {
        bail!("damaged journal: {}: {why}", journal.display());
    }
    let Event::Opened(opening) = entries.remove(0).event else {
        bail!(
            "journal does not begin with its opening: {}",
            journal.display()
        );
    };
    let node: Option<Node> = read(&dir, NODE)?;
    let Some(node) = node else {
        bail!("no node in a block's directory: {}", dir.path().display());
    };
    entries.retain(|entry| is_taken_over(&entry.event));
    Ok(Some(EndedBlock {
        node,
        given_up_on: given_up_on(run, block)?,
        opening,
        entries,
    }))
}

/// Whether an entry of a block's journal is copied to the run's.
pub fn is_taken_over(event: &Event) -> bool {
    match event {
        Event::Started { .. } | Event::Ended { .. } | Event::Invalidated { .. } => true,
        Event::Opened(_)
        | Event::Resumed { .. }
        | Event::Ceiling { .. }
        | Event::OneFewer { .. }
        | Event::Merged { .. }
        | Event::InterimAnalysis { .. }
        | Event::Profiling { .. }
        | Event::Profiled { .. }
        | Event::Closed { .. }
        | Event::Extended { .. } => false,
    }
}

fn given_up_on(run: &Path, block: u32) -> Result<Vec<String>> {
    let mut nodes = Vec::new();
    for number in 1.. {
        let dir = Tree::at(run).below(beside(block, &format!("given-up-{number}")));
        if !dir.has_dir("") {
            break;
        }
        let node: Option<Node> = read(&dir, NODE)?;
        nodes.extend(node.map(|node| node.name));
    }
    Ok(nodes)
}

/// Records why a job ends without its block.
pub fn note_failure(run: &Path, block: u32, failure: &Failure) -> Result<()> {
    let name = beside(block, "failures.jsonl");
    let mut line = serde_json::to_vec(failure)?;
    line.push(b'\n');
    let file = Tree::to_write(run).and_then(|tree| tree.append(&name));
    file.and_then(|mut file| file.write_all(&line))
        .with_context(|| format!("cannot write {}", run.join(&name).display()))
}

/// Why jobs have ended without a block so far. Torn lines are ignored.
#[must_use]
pub fn failures(run: &Path, block: u32) -> Vec<Failure> {
    let text = Tree::at(run).read(beside(block, "failures.jsonl"), MOST_BYTES);
    let text = text.unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| json::read(line, MOST_VALUES).ok())
        .collect()
}

fn read<T: DeserializeOwned>(dir: &Tree, name: &str) -> Result<Option<T>> {
    let path = dir.path().join(name);
    match dir.read(name, MOST_BYTES) {
        Ok(body) => {
            let value = json::read(&body, MOST_VALUES);
            value
                .map(Some)
                .with_context(|| format!("damaged file: {}", path.display()))
        }
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
        Err(why) => Err(why).with_context(|| format!("cannot read {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use super::*;

    fn node(name: &str) -> Node {
        Node {
            name: name.into(),
            hostname: "host".into(),
            cpu_model: None,
            cpus: 2,
        }
    }

    #[test]
    fn a_block_is_locked_by_one_job() {
        let run = tempfile::tempdir().unwrap();
        assert!(!is_at_work(run.path(), 1));
        let first = BlockLock::take(run.path(), 1).unwrap();
        assert!(first.is_some() && is_at_work(run.path(), 1));
        assert!(BlockLock::take(run.path(), 1).unwrap().is_none());
        assert!(BlockLock::take(run.path(), 2).unwrap().is_some());
        drop(first);
        assert!(BlockLock::take(run.path(), 1).unwrap().is_some());
    }

    #[test]
    fn files_of_another_node_are_moved_aside_and_the_node_is_named() {
        let run = tempfile::tempdir().unwrap();
        let open = |name| drop(open_block(run.path(), 7, &node(name), "title = 1").unwrap());
        open("n1");
        fs::write(block_dir(run.path(), 7).join("trace"), "").unwrap();
        open("n1");
        assert!(block_dir(run.path(), 7).join("trace").exists());
        open("n2");
        assert!(!block_dir(run.path(), 7).join("trace").exists());
        assert!(run.path().join("blocks/007.given-up-1/trace").exists());
        open("n1");
        assert_eq!(given_up_on(run.path(), 7).unwrap(), ["n1", "n2"]);
        assert_eq!(ended(run.path(), 7).unwrap(), None);
    }

    #[test]
    fn failures_are_read_in_order_without_a_torn_one() {
        let run = tempfile::tempdir().unwrap();
        fs::create_dir_all(run.path().join("blocks")).unwrap();
        assert_eq!(failures(run.path(), 3), []);
        let failure = |node: &str| Failure {
            node: node.into(),
            is_refusal: false,
            message: "no space left".into(),
        };
        note_failure(run.path(), 3, &failure("n1")).unwrap();
        note_failure(run.path(), 3, &failure("n2")).unwrap();
        let path = run.path().join("blocks/003.failures.jsonl");
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(b"{\"node\":\"n").unwrap();
        assert_eq!(failures(run.path(), 3), [failure("n1"), failure("n2")]);
    }
}
