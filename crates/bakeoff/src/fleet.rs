//! Runs blocks as jobs of a cluster: the job on a node, and the submitter, which submits jobs and waits for their blocks.
//!
//! ```text
//! RUN/fleet.json -> sbatch --array -> bakeoff run PLAN --out RUN --block K -> RUN/blocks/K -> lab::fleet::run
//! ```
//! A job may be lost, cancelled, run twice at once or moved to another node. A lock keeps two jobs from running the same block,
//! and only a block's files determine whether it is done (`record::fleet`). So the submitter needs no persistent state: after a
//! restart it finds jobs by their names, and blocks by their directories.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base::input::tree::Tree;
use machine::slurm::{Array, Job, State};
use plan::{Claim, Plan};
use record::fleet;
use record::fleet::{BlockLock, Failure, Fleet};
use record::hash::{sha256, sha256_of};
use record::node::Node;
use record::rundir;
use record::rundir::RunDir;
use stats::interim::fewest_blocks;
use std::ffi::OsString;

use crate::lab::Finish;
use crate::lab::fleet::{Scheduler, Waited};

/// Limit on failures of a block, after which the run stops.
const MAX_FAILURES: usize = 4;

/// Failures after which a node gets no more jobs, as long as other nodes are left.
const MAX_NODE_FAILURES: u32 = 2;

/// Blocks in the queue for each job that can run. Blocks in the queue are wasted if the run is decided meanwhile.
const BLOCKS_AHEAD: u32 = 4;

/// Minimum number of blocks in the queue.
const MIN_BLOCKS_AHEAD: u32 = 8;

/// Lines of a job's output that are shown if the job reported no failure.
const OUTPUT_LINES: usize = 3;

/// Bytes at the end of a job's output that are searched for these lines.
const OUTPUT_BYTES: u64 = 64 << 10;

/// Reads the last `OUTPUT_BYTES` of a file.
fn read_end(dir: &Tree, name: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut file = dir.open(name)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(OUTPUT_BYTES)))?;
    base::input::file::read_all(file.take(OUTPUT_BYTES), OUTPUT_BYTES)
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEnd {
    /// The block is done, by this job or by one before.
    Done,
    /// Another job runs the block.
    AtWork,
    /// The job was stopped before the block was done.
    Interrupted,
    /// The block failed, but may succeed on another node or later.
    Failed(String),
    /// The node has another program, with which no job of the run can succeed.
    Refused(String),
}

/// Prepares a run for jobs: writes the file that they read. All blocks of a run are run by the same program.
///
/// # Errors
/// The run was begun with another program.
pub fn begin(run: &Path, build: &str, program: &Path) -> Result<Fleet> {
    let cannot_read = || format!("cannot read {}", program.display());
    let body = fs::File::open(program).with_context(cannot_read)?;
    let program_sha256 = sha256_of(body).with_context(cannot_read)?;
    if Tree::at(run).has(fleet::FLEET)
        && let before = Fleet::read(run)?.program_sha256
        && before != program_sha256
    {
        bail!(
            "jobs would run another program than that which the run began with: {}, SHA-256 {}, was {} (name that one with --program, or \
             begin a new run with --out DIR)",
            program.display(),
            &program_sha256[..12],
            &before[..12]
        );
    }
    let path = run
        .canonicalize()
        .with_context(|| format!("cannot find {}", run.display()))?;
    let fleet = Fleet {
        version: fleet::VERSION,
        id: sha256(path.as_os_str().as_encoded_bytes())[..12].into(),
        build: build.into(),
        program_sha256,
    };
    let tree = Tree::to_write(run)
        .and_then(|tree| tree.make_dir("blocks").map(|_| tree))
        .with_context(|| format!("cannot create {}", run.join("blocks").display()))?;
    rundir::replace(&tree, fleet::FLEET, &serde_json::to_vec_pretty(&fleet)?)?;
    Ok(fleet)
}

/// This host, as a node of a cluster.
pub fn this_node() -> Node {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let hostname = read("/proc/sys/kernel/hostname").trim().to_string();
    let cpuinfo = read("/proc/cpuinfo");
    Node {
        name: std::env::var("SLURMD_NODENAME").unwrap_or_else(|_| hostname.clone()),
        hostname,
        cpu_model: base::hardware::cpu_model(&cpuinfo),
        cpus: machine::host::cpus().map_or(1, |cpus| cpus.len() as u32),
    }
}

/// Runs a block on this node, unless the block is done or another job runs it. `work` runs the remaining trials in the block's
/// directory.
pub fn run_job(
    run: &Path,
    block: u32,
    node: &Node,
    build: &str,
    work: impl FnOnce(&RunDir) -> Result<Finish>,
) -> Result<JobEnd> {
    let fleet = Fleet::read(run)?;
    if fleet.build != build {
        let message = format!(
            "node {} has another bakeoff: {build}, the run needs {} (install that build there, or name one on a file system that \
             all nodes share with --program)",
            node.name, fleet.build
        );
        note_failure(run, block, node, true, &message);
        return Ok(JobEnd::Refused(message));
    }
    let Some(_lock) = BlockLock::take(run, block)? else {
        return Ok(JobEnd::AtWork);
    };
    if fleet::ended(run, block)?.is_some() {
        return Ok(JobEnd::Done);
    }
    let run_block = || -> Result<Finish> {
        let plan = run.join("plan.toml");
        let text = plan::read_text(&plan)
            .with_context(|| format!("cannot read plan: {}", plan.display()))?;
        work(&fleet::open_block(run, block, node, &text)?)
    };
    match run_block() {
        Ok(Finish::Complete) => Ok(JobEnd::Done),
        Ok(Finish::Interrupted) => Ok(JobEnd::Interrupted),
        Err(why) => {
            let message = format!("{why:#}");
            note_failure(run, block, node, false, &message);
            Ok(JobEnd::Failed(message))
        }
    }
}

/// Records a failure for the submitter. If that fails too, the failure is only in the job's output.
fn note_failure(run: &Path, block: u32, node: &Node, is_refusal: bool, message: &str) {
    let failure = Failure {
        node: node.name.clone(),
        is_refusal,
        message: message.into(),
    };
    let _ = fleet::note_failure(run, block, &failure);
}

/// The user's options about the cluster.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// The partition; `None` for the default one.
    pub partition: Option<String>,
    /// The only nodes that jobs may run on; `None` for all of the partition.
    pub nodes: Option<String>,
    /// Jobs that may run at a time; `None` for as many as there are nodes.
    pub width: Option<u32>,
}

/// Asks Slurm whether it can run the plan.
///
/// # Errors
/// There is no Slurm, it has no such partition or node, or fewer nodes than the plan's claim needs.
pub fn check(choice: &Choice, plan: &Plan) -> Result<()> {
    let (nodes, _) = choose_nodes(choice)?;
    let least = match plan.claim {
        Claim::Nodes => 1,
        Claim::Machines => fewest_blocks(plan.design.error_rate),
    };
    if nodes.len() < least {
        bail!(
            "claim = \"machines\" with {} nodes: an error rate of {} % takes {least} or more (remove claim, so that the verdict is about \
             these nodes, or add nodes)",
            nodes.len(),
            plan.design.error_rate * 100.0
        );
    }
    Ok(())
}

/// Callbacks for showing progress.
#[derive(Clone, Copy)]
pub struct Tell<'t> {
    /// Prints a permanent line.
    pub line: &'t dyn Fn(&str),
    /// Shows the current step.
    pub step: &'t dyn Fn(&str),
}

/// Submits blocks to Slurm, and waits for them.
pub struct SlurmFleet<'f> {
    run: PathBuf,
    id: String,
    /// The command of a job; the word `$block` is replaced by the block's number.
    command: Vec<String>,
    choice: Choice,
    /// Names of the nodes that may be used.
    nodes: Vec<String>,
    excluded: BTreeSet<String>,
    /// Pause between two queries of the queue.
    pause: Duration,
    interrupted: &'f AtomicBool,
    tell: Tell<'f>,
    /// Blocks that have ended.
    ended: BTreeSet<u32>,
    /// Submitted blocks, and how often a job of the block disappeared without finishing it.
    lost_jobs: BTreeMap<u32, usize>,
    /// Failures of earlier sessions, by block; they do not count, because their cause may be fixed.
    earlier_failures: BTreeMap<u32, usize>,
    /// Reported failures of this session, by block.
    reported_failures: BTreeMap<u32, usize>,
    node_failures: BTreeMap<String, u32>,
    is_answering: Cell<bool>,
}

impl<'f> SlurmFleet<'f> {
    /// Asks Slurm for its nodes.
    ///
    /// # Errors
    /// There is no Slurm, or it has no such partition or node.
    pub fn open(
        run: &Path,
        command: Vec<String>,
        choice: Choice,
        interrupted: &'f AtomicBool,
        tell: Tell<'f>,
    ) -> Result<Self> {
        let id = Fleet::read(run)?.id;
        let (nodes, excluded) = choose_nodes(&choice)?;
        Ok(Self {
            run: run.canonicalize()?,
            id,
            command,
            choice,
            nodes,
            excluded,
            pause: Duration::from_secs(1),
            interrupted,
            tell,
            ended: BTreeSet::new(),
            lost_jobs: BTreeMap::new(),
            earlier_failures: BTreeMap::new(),
            reported_failures: BTreeMap::new(),
            node_failures: BTreeMap::new(),
            is_answering: Cell::new(true),
        })
    }

    /// Cancels pending jobs. Running jobs continue, and their blocks stay in their directories.
    pub fn stop(&self) -> Result<()> {
        let jobs = machine::slurm::jobs(&self.prefix())?;
        let (pending, running): (Vec<Job>, Vec<Job>) = jobs
            .into_iter()
            .partition(|job| job.state == State::Pending);
        let ids: Vec<String> = pending.into_iter().map(|job| job.id).collect();
        cancel(&ids);
        if !running.is_empty() {
            let blocks: Vec<String> = running
                .iter()
                .filter_map(|job| Some(self.block_of(job)?.to_string()))
                .collect();
            (self.tell.line)(&format!(
                "blocks that nodes still run: {} (they end by themselves, and are kept in {})",
                blocks.join(", "),
                self.run.join("blocks").display()
            ));
        }
        Ok(())
    }

    fn prefix(&self) -> String {
        format!("bakeoff-{}-", self.id)
    }

    /// The block that a job runs. The name of its array ends with the offset of block numbers from task numbers.
    fn block_of(&self, job: &Job) -> Option<u32> {
        let offset: u32 = job.name.strip_prefix(&self.prefix())?.parse().ok()?;
        Some(offset + job.task)
    }

    fn has_ended(&mut self, block: u32) -> Result<bool> {
        if !self.ended.contains(&block) && fleet::ended(&self.run, block)?.is_some() {
            self.ended.insert(block);
        }
        Ok(self.ended.contains(&block))
    }

    /// The blocks that should be in the queue.
    fn horizon(&self, block: u32, most: u32) -> std::ops::RangeInclusive<u32> {
        let parallel_jobs = self.choice.width.unwrap_or(self.nodes.len() as u32);
        let ahead =
            (BLOCKS_AHEAD * parallel_jobs).clamp(MIN_BLOCKS_AHEAD, machine::slurm::MOST_TASKS);
        block..=most.min(block.saturating_add(ahead - 1))
    }

    /// Reports failed blocks, excludes nodes that cannot succeed, and cancels pending jobs that might run there. Returns
    /// whether jobs were cancelled.
    fn handle_failures(&mut self, horizon: &[u32], jobs: &[Job]) -> Result<bool> {
        let mut unwanted: Vec<String> = Vec::new();
        for block in horizon {
            let failures = self.failures(*block);
            let reported = self.reported_failures.insert(*block, failures.len());
            for failure in failures.iter().skip(reported.unwrap_or(0)) {
                (self.tell.line)(&format!(
                    "  block {block:2}  failed on {}: {}",
                    failure.node, failure.message
                ));
                let is_excluded_now = self.count_node_failure(failure);
                self.check_can_succeed(*block, &failures, failure)?;
                let pending = jobs.iter().filter(|job| job.state == State::Pending);
                let to_cancel = pending
                    .filter(|job| is_excluded_now || self.block_of(job) == Some(*block))
                    .map(|job| job.id.clone());
                unwanted.extend(to_cancel);
            }
        }
        unwanted.sort();
        unwanted.dedup();
        // Cancelled jobs do not count as lost, and are submitted again without a message.
        for job in jobs.iter().filter(|job| unwanted.contains(&job.id)) {
            if let Some(block) = self.block_of(job) {
                self.lost_jobs.remove(&block);
            }
        }
        cancel(&unwanted);
        Ok(!unwanted.is_empty())
    }

    /// Failures of this session. Those that exist at the first query of a block are of earlier sessions.
    fn failures(&mut self, block: u32) -> Vec<Failure> {
        let mut all = fleet::failures(&self.run, block);
        let earlier = *self.earlier_failures.entry(block).or_insert(all.len());
        all.split_off(earlier.min(all.len()))
    }

    /// Counts a failure against its node. Returns whether the node is excluded from now on.
    fn count_node_failure(&mut self, failure: &Failure) -> bool {
        let count = self.node_failures.entry(failure.node.clone()).or_default();
        *count += 1;
        let is_enough = failure.is_refusal || MAX_NODE_FAILURES <= *count;
        let others_are_left = self
            .nodes
            .iter()
            .any(|node| *node != failure.node && !self.excluded.contains(node));
        let is_excluded_now = is_enough
            && (others_are_left || failure.is_refusal)
            && self.excluded.insert(failure.node.clone());
        if is_excluded_now {
            (self.tell.line)(&format!("  node {} gets no more jobs", failure.node));
        }
        is_excluded_now
    }

    fn check_can_succeed(&self, block: u32, all: &[Failure], last: &Failure) -> Result<()> {
        let none_left = self.nodes.iter().all(|node| self.excluded.contains(node));
        if none_left && last.is_refusal {
            bail!("no node can run this: {}", last.message);
        }
        let failures = all.iter().filter(|failure| !failure.is_refusal).count();
        if MAX_FAILURES <= failures {
            bail!(
                "block {block} failed {failures} times, the last time on {}: {} (mend that, and the same command goes on)",
                last.node,
                last.message
            );
        }
        Ok(())
    }

    /// Submits the blocks that should be in the queue and are not.
    fn submit_missing(&mut self, horizon: &[u32], jobs: &[Job]) -> Result<()> {
        let queued: BTreeSet<u32> = jobs.iter().filter_map(|job| self.block_of(job)).collect();
        let mut missing = Vec::new();
        for block in horizon {
            if queued.contains(block)
                || fleet::is_at_work(&self.run, *block)
                || self.has_ended(*block)?
            {
                continue;
            }
            missing.push(*block);
        }
        // Submitting few blocks at a time would make many arrays. But the block that the run waits for is urgent.
        let is_urgent = missing.first() == horizon.first();
        if missing.is_empty() || (!is_urgent && missing.len() * 2 < horizon.len()) {
            return Ok(());
        }
        for block in &missing {
            self.count_lost(*block)?;
        }
        self.submit(&missing)
    }

    /// Records the submission of a block. If it was submitted before without a result or a failure, its job was lost.
    fn count_lost(&mut self, block: u32) -> Result<()> {
        let reported = self.reported_failures.get(&block).copied().unwrap_or(0);
        let Some(lost) = self.lost_jobs.get_mut(&block) else {
            self.lost_jobs.insert(block, 0);
            return Ok(());
        };
        *lost += 1;
        let lost = *lost;
        if MAX_FAILURES + reported < lost {
            bail!(
                "jobs of block {block} end without it, {lost} times: {} (mend that, and the same command goes on)",
                self.last_output()
            );
        }
        if reported == 0 {
            (self.tell.line)(&format!(
                "  block {block:2}  its job is gone from the queue, and the block is not done: submitted again"
            ));
        }
        Ok(())
    }

    /// The end of the newest output of any job.
    fn last_output(&self) -> String {
        let blocks = Tree::at(&self.run).below("blocks");
        let names = blocks.list().unwrap_or_default().into_iter();
        let outputs = names.map(|entry| entry.name).filter(|name| {
            let name = name.to_string_lossy();
            name.starts_with("slurm-") && name.ends_with(".log")
        });
        let modified = |name: &OsString| {
            let metadata = blocks.metadata(name);
            metadata.and_then(|metadata| metadata.modified()).ok()
        };
        let newest = outputs.max_by_key(modified);
        let Some(newest) = newest else {
            return format!(
                "no job has written anything to {} (is that on a file system that all nodes share?)",
                blocks.path().display()
            );
        };
        let text = read_end(&blocks, &newest).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut lines: Vec<&str> = text.lines().rev().take(OUTPUT_LINES).collect();
        lines.reverse();
        format!(
            "{} ({})",
            lines.join(" / "),
            blocks.path().join(newest).display()
        )
    }

    fn submit(&self, blocks: &[u32]) -> Result<()> {
        let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else {
            return Ok(());
        };
        let offset = first - 1;
        let array = Array {
            name: format!("{}{offset}", self.prefix()),
            tasks: blocks.iter().map(|block| block - offset).collect(),
            width: self.choice.width,
            partition: self.choice.partition.clone(),
            excluded: self.excluded.iter().cloned().collect(),
            outputs: self.run.join("blocks"),
            directory: std::env::current_dir().context("cannot find the working directory")?,
            script: machine::slurm::script(&self.command, offset),
        };
        let id = machine::slurm::submit(&array)?;
        let what = if first == last {
            format!("block {first}")
        } else {
            format!("blocks {first} to {last}")
        };
        (self.tell.line)(&format!("{what} submitted as job {id}"));
        Ok(())
    }

    fn show_progress(&self, block: u32, jobs: &[Job]) {
        let running: Vec<&str> = jobs
            .iter()
            .filter(|job| job.state == State::Running)
            .map(|job| job.node.as_str())
            .collect();
        let pending: Vec<&Job> = jobs
            .iter()
            .filter(|job| job.state == State::Pending)
            .collect();
        let reason = pending.first().map_or(String::new(), |job| {
            format!(" ({}: {})", pending.len(), job.reason)
        });
        let nodes = running.join(", ");
        let nodes = if nodes.is_empty() { "no node" } else { &nodes };
        let waiting = if pending.is_empty() {
            "none waits"
        } else {
            "others wait"
        };
        (self.tell.step)(&format!(
            "waiting for block {block}: on {nodes}, {waiting}{reason}"
        ));
    }

    /// Queries the queue once, and updates it.
    fn update_queue(&mut self, block: u32, most: u32) -> Result<()> {
        let jobs = match machine::slurm::jobs(&self.prefix()) {
            Ok(jobs) => jobs,
            Err(why) => {
                // Running blocks do not depend on Slurm's answers.
                if self.is_answering.replace(false) {
                    (self.tell.line)(&format!("waiting for Slurm: {why:#}"));
                }
                return Ok(());
            }
        };
        if !self.is_answering.replace(true) {
            (self.tell.line)("Slurm answers again");
        }
        let horizon: Vec<u32> = self.horizon(block, most).collect();
        // Cancelled jobs disappear by the next query.
        if self.handle_failures(&horizon, &jobs)? {
            return Ok(());
        }
        self.show_progress(block, &jobs);
        self.submit_missing(&horizon, &jobs)
    }
}

impl Scheduler for SlurmFleet<'_> {
    fn wait(&mut self, block: u32, most: u32) -> Result<Waited> {
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return Ok(Waited::Interrupted);
            }
            if self.has_ended(block)? {
                return Ok(Waited::Ended);
            }
            self.update_queue(block, most)?;
            let begin = std::time::Instant::now();
            while begin.elapsed() < self.pause && !self.interrupted.load(Ordering::Relaxed) {
                thread::sleep(self.pause / 10);
            }
        }
    }
}

/// Cancels pending jobs. scancel fails if one of them has started or ended meanwhile; the next query of the queue shows the
/// remaining jobs.
fn cancel(ids: &[String]) {
    if !ids.is_empty() {
        let _ = machine::slurm::cancel_pending(ids);
    }
}

/// The nodes that may be used, and the other nodes of the partition.
fn choose_nodes(choice: &Choice) -> Result<(Vec<String>, BTreeSet<String>)> {
    let known = machine::slurm::nodes(choice.partition.as_deref())?;
    let known: Vec<String> = known.into_iter().map(|node| node.name).collect();
    let Some(list) = &choice.nodes else {
        return Ok((known, BTreeSet::new()));
    };
    let wanted = machine::slurm::expand(list)?;
    if let Some(unknown) = wanted.iter().find(|name| !known.contains(name)) {
        bail!(
            "no such node: {unknown} (the partition has: {})",
            known.join(", ")
        );
    }
    let excluded = known.iter().filter(|name| !wanted.contains(name));
    let excluded = excluded.cloned().collect();
    Ok((wanted, excluded))
}
