//! A night: several plans run by one command, below one directory, and what they come to together (`index.json`).
//!
//! ```text
//! NIGHT/night.json       which plans, and what became of those that could not be run
//! NIGHT/PLAN/...         the run directory of each plan
//! NIGHT/index.json       what all of them say, with the error rates of the whole; index.html and index.md are made of it
//! ```

use anyhow::{Context, Result, bail};
use base::input::tree::Tree;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::bisect::Walk;
use crate::json;
use crate::metric::MetricSpec;
use crate::verdict::Verdict;

/// Version of both formats: a key that goes or means something else makes a new one; a key that comes does not.
pub const VERSION: u32 = 1;

/// Longest list or index of a night, in bytes.
const MOST_BYTES: u64 = 16 << 20;

/// Most values in such a file.
const MOST_VALUES: usize = 1 << 18;

/// Name of the list of plans.
pub const NIGHT: &str = "night.json";

/// Name of the index.
pub const INDEX: &str = "index.json";

/// The plans of a night, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Night {
    /// Version of this format.
    pub version: u32,
    /// When it was first to be run, RFC 3339.
    pub begun: String,
    /// The plans.
    pub plans: Vec<NightPlan>,
}

/// A plan of a night.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NightPlan {
    /// Its file's name without the ending; its run directory is called so.
    pub name: String,
    /// Primary metrics that it compares: its workloads, times its arms beside the baseline.
    pub planned: u32,
    /// Why it could not be run, or not to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Night {
    /// The list in a directory; `None` where there is none.
    ///
    /// # Errors
    /// It cannot be read, is damaged, or of a newer bakeoff.
    pub fn read(dir: impl Into<Tree>) -> Result<Option<Self>> {
        let dir = dir.into();
        let path = dir.path().join(NIGHT);
        if !dir.has(NIGHT) {
            return Ok(None);
        }
        let body = dir
            .read(NIGHT, MOST_BYTES)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let night: Self = json::read(&body, MOST_VALUES)
            .with_context(|| format!("damaged: {}", path.display()))?;
        if night.version > VERSION {
            bail!("of a newer bakeoff: {} (use that version)", path.display());
        }
        Ok(Some(night))
    }
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum State {
    /// It is over, and all arms are decided.
    Complete,
    /// It is over, and an arm is not.
    Undecided,
    /// A bakeoff is at it.
    Running,
    /// It is not over, and can be gone on with.
    Interrupted,
    /// It has a plan and nothing else.
    #[strum(serialize = "not begun")]
    NotBegun,
    /// It cannot be read.
    Damaged,
    /// Its plan could not be run, or not to its end.
    Failed,
}

impl State {
    /// The state in a word or two.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// What a night comes to, and how its metrics have changed over the nights before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Index {
    /// Version of this format.
    pub version: u32,
    /// bakeoff's own version.
    pub bakeoff: String,
    /// Name of the night.
    pub night: String,
    /// When its first run began, RFC 3339; when it was to, where none has.
    pub begun: String,
    /// Chance that the gate trips on any comparison of the night whose arm is not worse.
    pub error_rate: f64,
    /// Share of false ones in the list of regressions that is accepted on average; the same of improvements.
    pub fdr: f64,
    /// Comparisons that share these rates: the primary metrics of all plans, workloads and arms.
    pub family: u32,
    /// The plans, in their order.
    pub plans: Vec<PlanSummary>,
    /// All nights that trends go over, the oldest first; this one is among them.
    pub nights: Vec<NightName>,
    /// Metrics over versions, and over nights.
    pub trends: Vec<Trend>,
}

/// A night among others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NightName {
    /// Its directory's name.
    pub name: String,
    /// When its first run began, or was to.
    pub begun: String,
}

/// What one run of a night came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanSummary {
    /// The plan's name.
    pub name: String,
    /// Its run directory, from the index.
    pub dir: String,
    /// Primary metrics that it compares: its workloads, times its arms beside the baseline.
    pub planned: u32,
    /// How far it is.
    pub state: State,
    /// What is wrong; `None` where nothing is.
    pub why: Option<String>,
    /// What it measured; `None` where it has not begun, or cannot be read.
    pub run: Option<RunSummary>,
}

impl PlanSummary {
    /// For which the gate trips.
    pub fn failures(&self) -> Vec<String> {
        let Some(run) = &self.run else {
            return Vec::new();
        };
        let worse = run
            .comparisons
            .iter()
            .filter(|one| one.night.is_some_and(|night| night.trips_gate));
        let worse = worse.map(|one| {
            format!(
                "{}: {} of {} is worse",
                one.workload, one.spec.name, one.arm
            )
        });
        run.failures.iter().cloned().chain(worse).collect()
    }

    /// Why the gate has no answer about it, where it does not trip; nothing where it has one.
    pub fn unanswered(&self) -> Vec<String> {
        let why = self.why.as_deref().unwrap_or_default();
        let Some(run) = &self.run else {
            let part = if why.is_empty() { "" } else { ": " };
            return vec![format!("{}{part}{why}", self.state.word())];
        };
        let failed = (self.state == State::Failed).then(|| why.to_string());
        run.unanswered.iter().cloned().chain(failed).collect()
    }
}

/// What is kept of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The plan's title.
    pub title: String,
    /// When it began, RFC 3339.
    pub begun: String,
    /// SHA-256 of the journal's bytes: a run whose journal is another one is read again.
    pub journal_sha256: String,
    /// SHA-256 of the plan's text.
    pub plan_sha256: String,
    /// What it ran on, in words.
    pub machine: String,
    /// The baseline's name.
    pub baseline: String,
    /// The baseline's kernel, where it is known.
    pub baseline_kernel: Option<String>,
    /// Differences below this are called equivalent; a fraction.
    pub margin: f64,
    /// The plan's own error rate.
    pub error_rate: f64,
    /// Complete blocks of the workload that has most.
    pub blocks: u32,
    /// Blocks that it may have.
    pub max_blocks: u32,
    /// What speaks against the run as a whole, or against an arm, whatever its figures: gates, arms without a figure.
    pub failures: Vec<String>,
    /// Why a gate on worse primary metrics would have no answer, where it does not trip.
    pub unanswered: Vec<String>,
    /// Arms against the baseline, by workload; primary metrics and all others.
    pub comparisons: Vec<Compared>,
    /// Its arms as a line of kernel versions, where they differ in nothing else and are three at the least.
    pub walk: Option<Walk>,
}

/// One arm against the baseline on one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// The workload's id.
    pub workload: String,
    /// The arm.
    pub arm: String,
    /// The arm's kernel, where it is known.
    pub kernel: Option<String>,
    /// The metric.
    pub spec: MetricSpec,
    /// What the run says of this metric.
    pub verdict: Verdict,
    /// What the run says of the arm, in a word; `None` of metrics other than the primary one.
    pub headline: Option<String>,
    /// Arm over baseline; `None` where that cannot be told.
    pub ratio: Option<f64>,
    /// Lower end of its confidence interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Level of that interval, a fraction; `None` without one.
    pub confidence: Option<f64>,
    /// Blocks behind it.
    pub blocks: u32,
    /// How it stands among all comparisons of the night; `None` of metrics other than the primary one.
    pub night: Option<NightStanding>,
}

/// A primary metric among all primary metrics of a night.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NightStanding {
    /// P-value of "not worse", valid whenever the run stopped; 1 unless the verdict is worse and the comparison is fair.
    pub p_worse: f64,
    /// The same of "not better".
    pub p_better: f64,
    /// `p_worse`, adjusted by Benjamini and Hochberg.
    pub fdr_worse: f64,
    /// `p_better`, likewise.
    pub fdr_better: f64,
    /// `p_worse`, adjusted by Holm.
    pub fwer_worse: f64,
    /// Whether it is in the list of regressions: `fdr_worse` is at or below the list's rate.
    pub is_regression: bool,
    /// Whether it is in the list of improvements.
    pub is_improvement: bool,
    /// Whether it trips the gate: `fwer_worse` is at or below the gate's rate.
    pub trips_gate: bool,
}

/// What a trend goes along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Along {
    /// Kernel versions that one run measured side by side.
    Versions,
    /// Kernel versions that separate nights measured, each against its own baseline.
    VersionsOfNights,
    /// Nights, by the time when they began.
    Nights,
}

/// A metric of one arm over time, or over versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// The plan's name.
    pub plan: String,
    /// The workload's id.
    pub workload: String,
    /// The metric.
    pub spec: MetricSpec,
    /// The arm; `None` where each point is an arm of its own.
    pub arm: Option<String>,
    /// What it goes along.
    pub along: Along,
    /// Its points, in order.
    pub points: Vec<TrendPoint>,
    /// Where its level changes.
    pub changes: Vec<TrendChange>,
    /// Chance that it shows any change where there is none.
    pub error_rate: f64,
    /// Points that it takes, at that rate, to show any.
    pub least_points: u32,
}

/// A point of a trend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrendPoint {
    /// The version, or the night.
    pub label: String,
    /// The night that measured it.
    pub night: String,
    /// The arm's kernel, where it is known.
    pub kernel: Option<String>,
    /// The arm over that night's own baseline; over the line's first version where the trend is one run's.
    pub ratio: f64,
    /// Lower end of the confidence interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Level of that interval, a fraction; `None` without one.
    pub confidence: Option<f64>,
    /// What its run says.
    pub verdict: Verdict,
}

/// A change of a trend's level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrendChange {
    /// Place of the last point before it.
    pub before: u32,
    /// Place of the first point after it.
    pub after: u32,
    /// The typical ratio after over the one before, each up to the next change.
    pub ratio: f64,
    /// How likely so clear a change is where there is none; `None` of versions side by side, which have a verdict.
    pub p_value: Option<f64>,
    /// Whether the way that it goes is the worse one.
    pub is_worse: bool,
    /// Whether it is larger than the plan's margin.
    pub is_beyond_margin: bool,
    /// What else changed between the two points: it may be the reason.
    pub beside: Vec<Beside>,
}

/// What may change between two nights beside the arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Beside {
    /// The baseline's kernel.
    Baseline,
    /// The machine.
    Machine,
    /// The plan's text.
    Plan,
}

/// The index in a directory; `None` where there is none that this version can use: it is made again then.
pub fn read_index(dir: impl Into<Tree>) -> Option<Index> {
    let body = dir.into().read(INDEX, MOST_BYTES).ok()?;
    let index: Index = json::read(&body, MOST_VALUES).ok()?;
    (index.version == VERSION && index.bakeoff == crate::VERSION).then_some(index)
}
