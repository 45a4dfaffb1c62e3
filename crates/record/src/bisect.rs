//! What a bisection is made of: a line of versions, what blocks said of them, and where the step lies.
//!
//! ```text
//! bisect.jsonl         what happened (`BisectEvent`), on disk before anything is shown
//! bisect.json          where it stands (`Bisection`); bisect.html the same as a page
//! blocks/007/          the run directory of block 7: three arms, one block
//! why-A-B/             that of the two versions of the step, profiled, where it was asked for
//! walk.json, .html     in the run directory of a walk: `Walk`
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

/// One version on the line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Its arm's name: `6.12.107`, or a commit's short hash.
    pub name: String,
    /// What `uname -r` will say, or a commit's subject.
    pub about: String,
    /// What a plan calls it: `debian:SUITE/VERSION`; a commit's full hash.
    pub source: String,
    /// Files that a commit touches; none for versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// What one block measured: both ends and one version between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BisectBlock {
    /// Place of the version on the line, from 1 to the one before the last.
    pub candidate: usize,
    /// Figure of the line's first version.
    pub from: f64,
    /// Figure of the candidate.
    pub value: f64,
    /// Figure of the line's last version.
    pub to: f64,
    /// Whether the last version ran before the first one.
    pub to_first: bool,
}

/// An entry of `bisect.jsonl`, in the order in which things happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BisectEvent {
    /// A bisection began.
    Opened(Opened),
    /// A block begins, in the run directory `blocks/NUMBER`.
    Chosen {
        /// Counted from 1.
        number: u32,
        /// Place on the line.
        candidate: usize,
    },
    /// A block was measured.
    Measured {
        /// Counted from 1.
        number: u32,
        /// The metric.
        metric: MetricSpec,
        /// What it measured.
        block: BisectBlock,
    },
    /// A version cannot be measured and is left out.
    Skipped {
        /// Place on the line.
        candidate: usize,
        /// Why.
        why: String,
    },
    /// A block gave no figure of an end; it counts for nothing.
    Void {
        /// Counted from 1.
        number: u32,
        /// Why.
        why: String,
    },
}

/// What a bisection stands on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// Version of this format.
    pub version: u32,
    /// bakeoff's own version.
    pub bakeoff: String,
    /// SHA-256 of the plan's text.
    pub plan: String,
    /// The metric that is followed; none for the workload's primary one.
    pub metric: Option<String>,
    /// The configuration of the kernels that are built for it; none where none are built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<KernelConfig>,
    /// The versions, the first end first.
    pub line: Vec<Version>,
}

/// What kernels are configured by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelConfig {
    /// The file, as it was typed; none for bakeoff's own.
    pub name: Option<String>,
    /// SHA-256 of its text and of whether it is bakeoff's own, which is applied in another way.
    pub sha256: String,
}

/// Name of the journal.
pub const JOURNAL: &str = "bisect.jsonl";

/// The journal of a bisection; nobody else writes it meanwhile.
#[derive(Debug)]
pub struct BisectJournal(Lines);

impl BisectJournal {
    /// Opens the journal of a directory, which is made where there is none, with the events so far. A line that was not written whole is cut
    /// off.
    ///
    /// # Errors
    /// Another bakeoff writes it, or it is damaged.
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

/// Where a bisection stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bisection {
    /// Version of this format.
    pub version: u32,
    /// The plan's title.
    pub title: String,
    /// What is followed; none before the first block.
    pub metric: Option<MetricSpec>,
    /// The versions, the first end first.
    pub line: Vec<Version>,
    /// What blocks said of each version.
    pub evidence: Vec<Evidence>,
    /// Probability of each step, in the direction that is the likelier one; step 0 lies between versions 0 and 1.
    pub steps: Vec<f64>,
    /// Probability that the ends do not differ at all. What it and the steps lack of one are steps in the other direction.
    pub no_difference: f64,
    /// Last over first version, typical over blocks.
    pub ratio: Option<f64>,
    /// Blocks so far.
    pub blocks: u32,
    /// Blocks that it may take at the most.
    pub max_blocks: u32,
    /// Chance of a wrong answer that is accepted.
    pub error_rate: f64,
    /// What follows.
    pub conclusion: Conclusion,
}

/// What is known of one version of the line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Place on the line.
    pub candidate: usize,
    /// Blocks in which it was nearer to the first version.
    pub like_from: u32,
    /// Blocks in which it was nearer to the last version.
    pub like_to: u32,
    /// Where it lies between the ends: 0 at the first, 1 at the last; typical over its blocks. The ends are where they are.
    pub position: Option<f64>,
    /// Whether each of at least five blocks has it on the same side beyond both ends.
    pub beyond: bool,
    /// Why it was left out.
    pub skipped: Option<String>,
}

/// What a bisection has found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Conclusion {
    /// Not yet anything: this version is asked next.
    Open {
        /// Place on the line.
        next: usize,
    },
    /// The difference came with one of these steps; with more than one where versions between them cannot be measured.
    Found {
        /// The version before.
        before: usize,
        /// The first version that surely has it.
        after: usize,
        /// Probability.
        probability: f64,
        /// Share of the whole difference that lies in this step; `None` where it is not known.
        share: Option<f64>,
    },
    /// The ends are equivalent within the plan's margin.
    Equivalent,
    /// No block more may be run, or no version is left to ask.
    Undecided,
}

/// All versions of a line measured side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Walk {
    /// Version of this format.
    pub version: u32,
    /// The plan's title.
    pub title: String,
    /// The versions' names, the first end first.
    pub line: Vec<String>,
    /// Blocks behind it.
    pub blocks: u32,
    /// Chance that any step of one metric is wrongly called significant.
    pub error_rate: f64,
    /// One for each metric.
    pub metrics: Vec<WalkMetric>,
}

/// One metric along the line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WalkMetric {
    /// Id of its workload.
    pub workload: String,
    /// The metric.
    pub spec: MetricSpec,
    /// Each version over the first, typical over blocks; `None` where it has no figure.
    pub ratios: Vec<Option<f64>>,
    /// Steps between neighbours that have figures.
    pub steps: Vec<WalkStep>,
    /// How the steps lie.
    pub shape: Shape,
}

/// One step of a walk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WalkStep {
    /// Place of the version before.
    pub before: usize,
    /// Place of the version after.
    pub after: usize,
    /// After over before: the quotient of their ratios, so that all steps together make the whole difference.
    pub ratio: f64,
    /// Its confidence interval, from the two neighbours alone; it holds for all steps together. `None` with too few blocks.
    pub interval: Option<(f64, f64)>,
    /// Level of that interval, a fraction; `None` without one.
    pub confidence: Option<f64>,
    /// Share of the whole difference, on the logarithm; shares add up to one. `None` where the ends do not differ.
    pub share: Option<f64>,
    /// What may be said of the two neighbours.
    pub verdict: Verdict,
}

/// How the significant steps of a metric lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// No step is significant.
    Flat,
    /// All significant steps go one way.
    Monotone,
    /// Some go up, some down.
    Mixed,
}
