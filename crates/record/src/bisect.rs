//! Formats of a bisection: a series of versions, the evidence of its blocks, and the step that it found.
//!
//! ```text
//! bisect.jsonl         the journal (`BisectEvent`), on disk before anything is shown
//! bisect.json          the state (`Bisection`); bisect.html the same as a page
//! blocks/007/          the run directory of block 7: three arms, one block
//! why-A-B/             the run directory of the step's two versions, profiled, if that was asked for
//! series.json, .html   in the run directory of a version series: `SeriesResult`
//! ```

use std::path::Path;

use anyhow::{Context, Result, bail};
use base::input::tree::Tree;
use serde::{Deserialize, Serialize};

use crate::lines::Lines;
use crate::metric::MetricSpec;
use crate::verdict::Verdict;

/// Version of `bisect.json` and of `bisect.jsonl`.
pub const VERSION: u32 = 1;

/// One version of the series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Its arm's name: `6.12.107`, or a commit's short hash.
    pub name: String,
    /// The expected output of `uname -r`, or a commit's subject.
    pub about: String,
    /// Its name in plans, `debian:SUITE/VERSION`, or a commit's full hash.
    pub source: String,
    /// Files that a commit touches; empty for other versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// Figures of one block: both ends of the series and one version between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BisectBlock {
    /// Index of the candidate in the series, neither the first nor the last.
    pub candidate: usize,
    /// Figure of the first version.
    pub from: f64,
    /// Figure of the candidate.
    pub value: f64,
    /// Figure of the last version.
    pub to: f64,
    /// Whether the last version ran before the first.
    pub to_first: bool,
}

/// An entry of `bisect.jsonl`, in chronological order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BisectEvent {
    /// A bisection began.
    Opened(Opened),
    /// A block begins, in the run directory `blocks/NUMBER`.
    Chosen {
        /// The block, counted from 1.
        number: u32,
        /// Index of the candidate in the series.
        candidate: usize,
    },
    /// A block was measured.
    Measured {
        /// The block, counted from 1.
        number: u32,
        /// The metric.
        metric: MetricSpec,
        /// Its figures.
        block: BisectBlock,
    },
    /// A version cannot be measured and is left out.
    Skipped {
        /// Index of the candidate in the series.
        candidate: usize,
        /// The reason.
        why: String,
    },
    /// A block lacks the figure of an end and does not count.
    Void {
        /// The block, counted from 1.
        number: u32,
        /// The reason.
        why: String,
    },
}

/// Inputs of a bisection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// Version of this format.
    pub version: u32,
    /// bakeoff's own version.
    pub bakeoff: String,
    /// SHA-256 of the plan's text.
    pub plan: String,
    /// The metric to follow; `None` for the workload's primary metric.
    pub metric: Option<String>,
    /// The configuration of the kernels that are built; `None` if none are built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<KernelConfig>,
    /// The versions in order.
    pub versions: Vec<Version>,
}

/// A kernel configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelConfig {
    /// The file as the user gave it; `None` for bakeoff's default.
    pub name: Option<String>,
    /// SHA-256 of its text and of whether it is bakeoff's default, which is applied differently.
    pub sha256: String,
}

/// Name of the journal.
pub const JOURNAL: &str = "bisect.jsonl";

/// The locked journal of a bisection.
#[derive(Debug)]
pub struct BisectJournal(Lines);

impl BisectJournal {
    /// Opens the journal of a directory, and creates both if necessary; returns the events so far. A torn last line is cut off.
    ///
    /// # Errors
    /// Another bakeoff process has the journal open, or it is damaged.
    pub fn open(dir: &Path) -> Result<(Self, Vec<BisectEvent>)> {
        let tree = Tree::to_write(dir)
            .with_context(|| format!("cannot create directory: {}", dir.display()))?;
        let lines = Lines::open(&tree, JOURNAL)?;
        if !lines.try_lock()? {
            bail!(
                "another bakeoff is at work there: {} (wait for it, or name another directory with --out)",
                dir.display()
            );
        }
        let events = lines.read()?;
        Ok((Self(lines), events))
    }

    /// Appends an event and waits until it is on disk.
    pub fn append(&mut self, event: &BisectEvent) -> Result<()> {
        self.0.append(event)
    }
}

/// State of a bisection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bisection {
    /// Version of this format.
    pub version: u32,
    /// The plan's title.
    pub title: String,
    /// The metric; `None` before the first block.
    pub metric: Option<MetricSpec>,
    /// The versions in order.
    pub versions: Vec<Version>,
    /// Evidence of the blocks for each version.
    pub evidence: Vec<Evidence>,
    /// Probability of each step, in the likelier direction; step 0 is between versions 0 and 1.
    pub steps: Vec<f64>,
    /// Probability that the ends do not differ. The rest up to one is that of steps in the less likely direction.
    pub no_difference: f64,
    /// Last over first version, typical over blocks.
    pub ratio: Option<f64>,
    /// Blocks so far.
    pub blocks: u32,
    /// Highest number of blocks.
    pub max_blocks: u32,
    /// Accepted probability of a wrong answer.
    pub error_rate: f64,
    /// The result.
    pub conclusion: Conclusion,
}

/// Evidence for one version of the series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Index of the version in the series.
    pub candidate: usize,
    /// Blocks in which it was nearer to the first version.
    pub like_from: u32,
    /// Blocks in which it was nearer to the last version.
    pub like_to: u32,
    /// Position between the ends, typical over its blocks: 0 is the first version, 1 the last.
    pub position: Option<f64>,
    /// Whether it lies beyond both ends, on the same side, in each of at least five blocks.
    pub beyond: bool,
    /// Why it was left out.
    pub skipped: Option<String>,
}

/// Result of a bisection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Conclusion {
    /// None yet: this version is measured next.
    Open {
        /// Index of the version in the series.
        next: usize,
    },
    /// The difference is in the steps between two versions: several steps if the versions between them cannot be measured.
    Found {
        /// Index of the version before the step.
        before: usize,
        /// Index of the version after the step.
        after: usize,
        /// Probability of the step.
        probability: f64,
        /// Share of the whole difference in this step; `None` if unknown.
        share: Option<f64>,
    },
    /// The ends are equivalent within the plan's margin.
    Equivalent,
    /// No more blocks are allowed, or no version is left to measure.
    Undecided,
}

/// All versions of a series measured side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeriesResult {
    /// Version of this format.
    pub version: u32,
    /// The plan's title.
    pub title: String,
    /// The versions' names in order.
    pub versions: Vec<String>,
    /// Number of blocks.
    pub blocks: u32,
    /// Probability that any step of a metric is wrongly called significant.
    pub error_rate: f64,
    /// One entry per metric.
    pub metrics: Vec<SeriesMetric>,
}

/// One metric over the series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeriesMetric {
    /// Id of its workload.
    pub workload: String,
    /// The metric.
    pub spec: MetricSpec,
    /// Each version over the first, typical over blocks; `None` without a figure.
    pub ratios: Vec<Option<f64>>,
    /// Steps between neighbouring versions with figures.
    pub steps: Vec<SeriesStep>,
    /// Directions of the significant steps.
    pub shape: Shape,
}

/// One step of a version series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeriesStep {
    /// Index of the version before.
    pub before: usize,
    /// Index of the version after.
    pub after: usize,
    /// After over before: the quotient of their ratios, so that the steps multiply to the whole difference.
    pub ratio: f64,
    /// Confidence interval from the two neighbours alone, simultaneous for all steps. `None` with too few blocks.
    pub interval: Option<(f64, f64)>,
    /// Level of that interval, a fraction; `None` without one.
    pub confidence: Option<f64>,
    /// Share of the whole difference, on the logarithm; shares add up to one. `None` if the ends do not differ.
    pub share: Option<f64>,
    /// Verdict on the two neighbours.
    pub verdict: Verdict,
}

/// Directions of a metric's significant steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// No step is significant.
    Flat,
    /// All significant steps have one direction.
    Monotone,
    /// Some significant steps go up, some down.
    Mixed,
}
