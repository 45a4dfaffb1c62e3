//! Blocks as jobs of a cluster: what a job does on its node, and who submits jobs and waits for their blocks.
//!
//! ```text
//! RUN/fleet.json -> sbatch --array -> bakeoff run PLAN --out RUN --block K -> RUN/blocks/K -> lab::fleet::run
//! ```
//! A job may be lost, cancelled, run twice at once or moved to another node: a lock decides between two, and whether a block is done
//! only its own files say (`record::fleet`). So nothing here has a state that must survive: a submitter that begins anew finds jobs by
//! their names, and blocks by their directories.

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
use stats::looks::fewest_blocks;
use std::ffi::OsString;

use crate::lab::Finish;
use crate::lab::fleet::{Scheduler, Waited};

/// How often a block is submitted again that its jobs end without.
const MOST_FAILURES: usize = 4;

/// Failures of a node after which it gets no more jobs, as long as others are left.
const PATIENCE: u32 = 2;

/// Blocks that are in the queue at a time, for each that can run: what is in the queue when all is decided was submitted in vain.
const AHEAD: u32 = 4;

/// The fewest blocks in the queue.
const FEWEST_AHEAD: u32 = 8;

/// Lines of a job's output that are shown where it says nothing else.
const LAST_LINES: usize = 3;

/// What is read at the end of a job's output for these, in bytes.
const END_BYTES: u64 = 64 << 10;

/// The end of a file.
fn end_of(dir: &Tree, name: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut file = dir.open(name)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(END_BYTES)))?;
    base::input::file::read_all(file.take(END_BYTES), END_BYTES)
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEnd {
    /// The block is done, by this job or by one before.
    Done,
    /// Another job is at work on it.
    AtWork,
    /// It was told to end before the block was done.
    Interrupted,
    /// Something is wrong that may be right elsewhere, or later.
    Failed(String),
    /// No job of the run can succeed with this program.
    Refused(String),
}

/// A run that blocks are submitted for: writes what its jobs read. All its blocks are made by one program.
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
    let model = cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then(|| value.trim().to_string())
    });
    Node {
        name: std::env::var("SLURMD_NODENAME").unwrap_or_else(|_| hostname.clone()),
        hostname,
        cpu_model: model,
        cpus: machine::host::cpus().map_or(1, |own| own.len() as u32),
    }
}

/// Runs a block of a run on this node, unless that is done, or being done; `work` runs what is left of it in its directory.
pub fn run_job(
    run: &Path,
    block: u32,
    (node, build): (&Node, &str),
    work: impl FnOnce(&RunDir) -> Result<Finish>,
) -> Result<JobEnd> {
    let fleet = Fleet::read(run)?;
    if fleet.build != build {
        let message = format!(
            "node {} has another bakeoff: {build}, the run needs {} (install that build there, or name one on a file system that \
             all nodes share with --program)",
            node.name, fleet.build
        );
        note(run, block, node, true, &message);
        return Ok(JobEnd::Refused(message));
    }
    let Some(_lock) = BlockLock::take(run, block)? else {
        return Ok(JobEnd::AtWork);
    };
    if fleet::ended(run, block)?.is_some() {
        return Ok(JobEnd::Done);
    }
    let opened = || -> Result<Finish> {
        let plan = run.join("plan.toml");
        let text = plan::read_text(&plan)
            .with_context(|| format!("cannot read plan: {}", plan.display()))?;
        work(&fleet::open_block(run, block, node, &text)?)
    };
    match opened() {
        Ok(Finish::Complete) => Ok(JobEnd::Done),
        Ok(Finish::Interrupted) => Ok(JobEnd::Interrupted),
        Err(why) => {
            let message = format!("{why:#}");
            note(run, block, node, false, &message);
            Ok(JobEnd::Failed(message))
        }
    }
}

/// Where this cannot be written either, the job's output has it.
fn note(run: &Path, block: u32, node: &Node, is_refusal: bool, message: &str) {
    let failure = Failure {
        node: node.name.clone(),
        is_refusal,
        message: message.into(),
    };
    let _ = fleet::note_failure(run, block, &failure);
}

/// What the user chose of the cluster.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// The partition; `None` for the default one.
    pub partition: Option<String>,
    /// The only nodes that jobs may run on; `None` for all of the partition.
    pub nodes: Option<String>,
    /// Jobs that may run at a time; `None` for as many as there are nodes.
    pub width: Option<u32>,
}

/// Asks Slurm whether it can be done.
///
/// # Errors
/// There is no Slurm, it has no such partition or node, or fewer nodes than the plan's claim takes.
pub fn check(choice: &Choice, plan: &Plan) -> Result<()> {
    let (nodes, _) = settle_nodes(choice)?;
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

/// What is told while jobs run.
#[derive(Clone, Copy)]
pub struct Tell<'t> {
    /// A line that stays.
    pub line: &'t dyn Fn(&str),
    /// What is going on.
    pub step: &'t dyn Fn(&str),
}

/// Submits blocks to Slurm, and waits for them.
pub struct SlurmFleet<'f> {
    run: PathBuf,
    id: String,
    /// The command of a job; the word `$block` stands for the block's number.
    words: Vec<String>,
    choice: Choice,
    /// Names of the nodes that may be used.
    nodes: Vec<String>,
    excluded: BTreeSet<String>,
    /// How long to wait between two looks at the queue.
    pause: Duration,
    interrupted: &'f AtomicBool,
    tell: Tell<'f>,
    /// Blocks that have ended.
    ended: BTreeSet<u32>,
    /// Blocks that were submitted, and how often a job was gone without the block.
    lost: BTreeMap<u32, usize>,
    /// Failures of earlier sessions, by block: what was wrong may have been mended.
    before: BTreeMap<u32, usize>,
    /// Failures of this one that were told, by block.
    told: BTreeMap<u32, usize>,
    failures_of_nodes: BTreeMap<String, u32>,
    is_answering: Cell<bool>,
}

impl<'f> SlurmFleet<'f> {
    /// Asks Slurm which nodes there are.
    ///
    /// # Errors
    /// There is no Slurm, or it has no such partition or node.
    pub fn open(
        run: &Path,
        words: Vec<String>,
        choice: Choice,
        (interrupted, tell): (&'f AtomicBool, Tell<'f>),
    ) -> Result<Self> {
        let id = Fleet::read(run)?.id;
        let (nodes, excluded) = settle_nodes(&choice)?;
        Ok(Self {
            run: run.canonicalize()?,
            id,
            words,
            choice,
            nodes,
            excluded,
            pause: Duration::from_secs(1),
            interrupted,
            tell,
            ended: BTreeSet::new(),
            lost: BTreeMap::new(),
            before: BTreeMap::new(),
            told: BTreeMap::new(),
            failures_of_nodes: BTreeMap::new(),
            is_answering: Cell::new(true),
        })
    }

    /// Takes jobs that wait out of the queue. Those that run end by themselves, and their blocks stay where they are.
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

    /// The block that a job runs: its array's name ends with the number before its first.
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

    /// Blocks that are to be in the queue.
    fn horizon(&self, block: u32, most: u32) -> std::ops::RangeInclusive<u32> {
        let at_a_time = self.choice.width.unwrap_or(self.nodes.len() as u32);
        let ahead = (AHEAD * at_a_time).clamp(FEWEST_AHEAD, machine::slurm::MOST_TASKS);
        block..=most.min(block.saturating_add(ahead - 1))
    }

    /// Tells why jobs ended without their blocks, and takes nodes on which they cannot succeed out of the choice; jobs that wait
    /// and might go there again leave the queue.
    fn tell_failures(&mut self, horizon: &[u32], jobs: &[Job]) -> Result<bool> {
        let mut unwanted: Vec<String> = Vec::new();
        for block in horizon {
            let failures = self.failures(*block);
            let told = self.told.insert(*block, failures.len()).unwrap_or(0);
            for failure in failures.iter().skip(told) {
                (self.tell.line)(&format!(
                    "  block {block:2}  failed on {}: {}",
                    failure.node, failure.message
                ));
                let is_new = self.count(failure);
                self.refuse_if_hopeless(*block, &failures, failure)?;
                let pending = jobs.iter().filter(|job| job.state == State::Pending);
                let unwanted_now = pending
                    .filter(|job| is_new || self.block_of(job) == Some(*block))
                    .map(|job| job.id.clone());
                unwanted.extend(unwanted_now);
            }
        }
        unwanted.sort();
        unwanted.dedup();
        // Those are not lost, and are submitted again in silence.
        for job in jobs.iter().filter(|job| unwanted.contains(&job.id)) {
            if let Some(block) = self.block_of(job) {
                self.lost.remove(&block);
            }
        }
        cancel(&unwanted);
        Ok(!unwanted.is_empty())
    }

    /// Failures of this session: what there is when a block is first asked for is of an earlier one.
    fn failures(&mut self, block: u32) -> Vec<Failure> {
        let mut all = fleet::failures(&self.run, block);
        let before = *self.before.entry(block).or_insert(all.len());
        all.split_off(before.min(all.len()))
    }

    /// Counts a failure against its node; whether the node gets no more jobs from now on.
    fn count(&mut self, failure: &Failure) -> bool {
        let count = self
            .failures_of_nodes
            .entry(failure.node.clone())
            .or_default();
        *count += 1;
        let is_enough = failure.is_refusal || PATIENCE <= *count;
        let others_are_left = self
            .nodes
            .iter()
            .any(|node| *node != failure.node && !self.excluded.contains(node));
        let is_new = is_enough
            && (others_are_left || failure.is_refusal)
            && self.excluded.insert(failure.node.clone());
        if is_new {
            (self.tell.line)(&format!("  node {} gets no more jobs", failure.node));
        }
        is_new
    }

    fn refuse_if_hopeless(&self, block: u32, all: &[Failure], last: &Failure) -> Result<()> {
        let is_used_up = self.nodes.iter().all(|node| self.excluded.contains(node));
        if is_used_up && last.is_refusal {
            bail!("no node can run this: {}", last.message);
        }
        let real = all.iter().filter(|one| !one.is_refusal).count();
        if MOST_FAILURES <= real {
            bail!(
                "block {block} failed {real} times, the last time on {}: {} (mend that, and the same command goes on)",
                last.node,
                last.message
            );
        }
        Ok(())
    }

    /// Submits what is not in the queue and should be.
    fn fill(&mut self, horizon: &[u32], jobs: &[Job]) -> Result<()> {
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
        // Few at a time would be many arrays; but the block that is waited for must not wait.
        let is_urgent = missing.first() == horizon.first();
        if missing.is_empty() || (!is_urgent && missing.len() * 2 < horizon.len()) {
            return Ok(());
        }
        for block in &missing {
            self.count_lost(*block)?;
        }
        self.submit(&missing)
    }

    /// Notes that a block is submitted; one that was before, and of which no job has said anything, was lost.
    fn count_lost(&mut self, block: u32) -> Result<()> {
        let told = self.told.get(&block).copied().unwrap_or(0);
        let Some(lost) = self.lost.get_mut(&block) else {
            self.lost.insert(block, 0);
            return Ok(());
        };
        *lost += 1;
        let lost = *lost;
        if MOST_FAILURES + told < lost {
            bail!(
                "jobs of block {block} end without it, {lost} times: {} (mend that, and the same command goes on)",
                self.last_words()
            );
        }
        if told == 0 {
            (self.tell.line)(&format!(
                "  block {block:2}  its job is gone from the queue, and the block is not done: submitted again"
            ));
        }
        Ok(())
    }

    /// The end of the newest output of any job.
    fn last_words(&self) -> String {
        let blocks = Tree::at(&self.run).below("blocks");
        let names = blocks.list().unwrap_or_default().into_iter();
        let outputs = names.map(|entry| entry.name).filter(|name| {
            let name = name.to_string_lossy();
            name.starts_with("slurm-") && name.ends_with(".log")
        });
        let modified = |name: &OsString| blocks.metadata(name).and_then(|own| own.modified()).ok();
        let newest = outputs.max_by_key(modified);
        let Some(newest) = newest else {
            return format!(
                "no job has written anything to {} (is that on a file system that all nodes share?)",
                blocks.path().display()
            );
        };
        let text = end_of(&blocks, &newest).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().rev().take(LAST_LINES).collect();
        let lines: Vec<&str> = lines.into_iter().rev().collect();
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
            script: machine::slurm::script(&self.words, offset),
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

    fn show(&self, block: u32, jobs: &[Job]) {
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

    /// One look at the queue.
    fn glance(&mut self, block: u32, most: u32) -> Result<()> {
        let jobs = match machine::slurm::jobs(&self.prefix()) {
            Ok(jobs) => jobs,
            Err(why) => {
                // Blocks go on without it.
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
        // What was cancelled is seen to be gone at the next look.
        if self.tell_failures(&horizon, &jobs)? {
            return Ok(());
        }
        self.show(block, &jobs);
        self.fill(&horizon, &jobs)
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
            self.glance(block, most)?;
            let begin = std::time::Instant::now();
            while begin.elapsed() < self.pause && !self.interrupted.load(Ordering::Relaxed) {
                thread::sleep(self.pause / 10);
            }
        }
    }
}

/// Takes jobs that wait out of the queue. scancel fails where one of them has begun or ended meanwhile, and the next look at the
/// queue shows what is left.
fn cancel(ids: &[String]) {
    if !ids.is_empty() {
        let _ = machine::slurm::cancel_pending(ids);
    }
}

/// The nodes that may be used, and those of the partition that may not.
fn settle_nodes(choice: &Choice) -> Result<(Vec<String>, BTreeSet<String>)> {
    let known = machine::slurm::nodes(choice.partition.as_deref())?;
    let known: Vec<String> = known.into_iter().map(|node| node.name).collect();
    let Some(list) = &choice.nodes else {
        return Ok((known, BTreeSet::new()));
    };
    let wanted = machine::slurm::expand(list)?;
    if let Some(stranger) = wanted.iter().find(|name| !known.contains(name)) {
        bail!(
            "no such node: {stranger} (the partition has: {})",
            known.join(", ")
        );
    }
    let excluded = known.iter().filter(|name| !wanted.contains(name));
    let excluded = excluded.cloned().collect();
    Ok((wanted, excluded))
}
