//! A nightly run: several plans run by one command, below one directory, and their joint results (`index.json`).
//!
//! ```text
//! NIGHT/night.json       the plans, and why some could not be run
//! NIGHT/PLAN/...         the run directory of each plan
//! NIGHT/index.json       results of all plans, with joint error rates; index.html and index.md are made from it
//! ```

use anyhow::{Context, Result, bail};
use base::input::tree::Tree;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::bisect::SeriesResult;
use crate::json;
use crate::metric::MetricSpec;
use crate::verdict::Verdict;

/// Version of both formats, raised when a key is removed or changes its meaning, but not when one is added.
pub const VERSION: u32 = 1;

/// Longest list or index, in bytes.
const MOST_BYTES: u64 = 16 << 20;

/// Most values in such a file.
const MOST_VALUES: usize = 1 << 18;

/// File of the list of plans.
pub const NIGHT: &str = "night.json";

/// File of the index.
pub const INDEX: &str = "index.json";

/// The plans of a nightly run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Night {
    /// Version of this format.
    pub version: u32,
    /// When it was first started, RFC 3339.
    pub begun: String,
    /// The plans in their order.
    pub plans: Vec<NightPlan>,
}

/// A plan of a nightly run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NightPlan {
    /// Its file's name without the extension, also the name of its run directory.
    pub name: String,
    /// Number of compared primary metrics: its workloads, times its arms without the baseline.
    pub planned: u32,
    /// Why it could not be run or finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Night {
    /// Reads the list of a directory; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read, is damaged, or was written by a newer bakeoff.
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

/// State of a plan's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum State {
    /// It is over, and all arms are decided.
    Complete,
    /// It is over, and an arm is undecided.
    Undecided,
    /// A bakeoff process is working on it.
    Running,
    /// It is not over and can be resumed.
    Interrupted,
    /// It has a plan and nothing else.
    #[strum(serialize = "not begun")]
    NotBegun,
    /// It cannot be read.
    Damaged,
    /// Its plan could not be run or finished.
    Failed,
}

impl State {
    /// The state in a word or two.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// Results of a nightly run, and trends of its metrics over earlier ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Index {
    /// Version of this format.
    pub version: u32,
    /// bakeoff's own version.
    pub bakeoff: String,
    /// Name of the nightly run.
    pub night: String,
    /// When its first run began, RFC 3339; if none has, when the nightly run was started.
    pub begun: String,
    /// Probability that the gate trips on any comparison whose arm is not worse.
    pub error_rate: f64,
    /// Accepted average share of false positives in the list of regressions, and in that of improvements.
    pub fdr: f64,
    /// Number of comparisons that share these rates: the primary metrics of all plans, workloads and arms.
    pub family: u32,
    /// The plans in their order.
    pub plans: Vec<PlanSummary>,
    /// All nightly runs in the trends, oldest first, including this one.
    pub nights: Vec<NightName>,
    /// Metrics over versions, and over nightly runs.
    pub trends: Vec<Trend>,
}

/// A nightly run in trends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NightName {
    /// Its directory's name.
    pub name: String,
    /// When its first run began, or the nightly run was started.
    pub begun: String,
}

/// Results of one plan of a nightly run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanSummary {
    /// The plan's name.
    pub name: String,
    /// Its run directory, relative to the index.
    pub dir: String,
    /// Number of compared primary metrics: its workloads, times its arms without the baseline.
    pub planned: u32,
    /// State of its run.
    pub state: State,
    /// The problem, if there is one.
    pub why: Option<String>,
    /// Its results; `None` if the run has not begun or cannot be read.
    pub run: Option<RunSummary>,
}

impl PlanSummary {
    /// Reasons for which the gate trips.
    pub fn failures(&self) -> Vec<String> {
        let Some(run) = &self.run else {
            return Vec::new();
        };
        let worse = run
            .comparisons
            .iter()
            .filter(|compared| compared.night.is_some_and(|night| night.trips_gate));
        let worse = worse.map(|compared| {
            format!(
                "{}: {} of {} is worse",
                compared.workload, compared.spec.name, compared.arm
            )
        });
        run.failures.iter().cloned().chain(worse).collect()
    }

    /// Reasons for which the gate has no answer, if it does not trip.
    pub fn unanswered(&self) -> Vec<String> {
        let why = self.why.as_deref().unwrap_or_default();
        let Some(run) = &self.run else {
            let separator = if why.is_empty() { "" } else { ": " };
            return vec![format!("{}{separator}{why}", self.state.word())];
        };
        let failed = (self.state == State::Failed).then(|| why.to_string());
        run.unanswered.iter().cloned().chain(failed).collect()
    }
}

/// Summary of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The plan's title.
    pub title: String,
    /// When it began, RFC 3339.
    pub begun: String,
    /// SHA-256 of the journal's bytes; if the journal changes, the run is read again.
    pub journal_sha256: String,
    /// SHA-256 of the plan's text.
    pub plan_sha256: String,
    /// Description of its machine.
    pub machine: String,
    /// The baseline's name.
    pub baseline: String,
    /// The baseline's kernel, if known.
    pub baseline_kernel: Option<String>,
    /// Equivalence margin, a fraction.
    pub margin: f64,
    /// The plan's error rate.
    pub error_rate: f64,
    /// Highest number of complete blocks of its workloads.
    pub blocks: u32,
    /// Limit of blocks.
    pub max_blocks: u32,
    /// Failures of the run or of an arm, independent of figures: gates, arms without a figure.
    pub failures: Vec<String>,
    /// Why a gate on worse primary metrics has no answer, if it does not trip.
    pub unanswered: Vec<String>,
    /// Arms against the baseline by workload, for primary and other metrics.
    pub comparisons: Vec<Compared>,
    /// Its arms as a version series, if they are at least three and differ only in the kernel version.
    pub series: Option<SeriesResult>,
}

/// Comparison of one arm with the baseline on one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// The workload's id.
    pub workload: String,
    /// The arm.
    pub arm: String,
    /// The arm's kernel, if known.
    pub kernel: Option<String>,
    /// The metric.
    pub spec: MetricSpec,
    /// The run's verdict on this metric.
    pub verdict: Verdict,
    /// The run's headline for the arm, in one word; `None` for metrics that are not primary.
    pub headline: Option<String>,
    /// Arm over baseline; `None` if unknown.
    pub ratio: Option<f64>,
    /// Lower end of its confidence interval.
    pub low: Option<f64>,
    /// Upper end of its confidence interval.
    pub high: Option<f64>,
    /// Level of that interval, a fraction; `None` without one.
    pub confidence: Option<f64>,
    /// Number of blocks.
    pub blocks: u32,
    /// Its significance among all comparisons of the nightly run; `None` for metrics that are not primary.
    pub night: Option<NightStanding>,
}

/// Significance of a primary metric among all those of a nightly run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NightStanding {
    /// P-value of "not worse", valid at any stopping time; 1 unless the verdict is worse and the comparison is fair.
    pub p_worse: f64,
    /// P-value of "not better", in the same way.
    pub p_better: f64,
    /// `p_worse`, adjusted by Benjamini-Hochberg.
    pub fdr_worse: f64,
    /// `p_better`, adjusted by Benjamini-Hochberg.
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

/// Axis of a trend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Along {
    /// Kernel versions measured side by side in one run.
    Versions,
    /// Kernel versions measured in separate nightly runs, each against the baseline of its run.
    VersionsOfNights,
    /// Nightly runs by their start.
    Nights,
}

/// A metric over versions, or of one arm over nightly runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// The plan's name.
    pub plan: String,
    /// The workload's id.
    pub workload: String,
    /// The metric.
    pub spec: MetricSpec,
    /// The arm; `None` if each point is a different arm.
    pub arm: Option<String>,
    /// Its axis.
    pub along: Along,
    /// Its points in order.
    pub points: Vec<TrendPoint>,
    /// Changes of its level.
    pub changes: Vec<TrendChange>,
    /// Probability of a false change.
    pub error_rate: f64,
    /// Least number of points that can show a change at that rate.
    pub least_points: u32,
}

/// A point of a trend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrendPoint {
    /// The version, or the nightly run.
    pub label: String,
    /// The nightly run that measured it.
    pub night: String,
    /// The arm's kernel, if known.
    pub kernel: Option<String>,
    /// The arm over the baseline of its run, or over the first version if the trend is that of a single run.
    pub ratio: f64,
    /// Lower end of its confidence interval.
    pub low: Option<f64>,
    /// Upper end of its confidence interval.
    pub high: Option<f64>,
    /// Level of that interval, a fraction; `None` without one.
    pub confidence: Option<f64>,
    /// The verdict of its run.
    pub verdict: Verdict,
}

/// A change of a trend's level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrendChange {
    /// Index of the last point before it.
    pub before: u32,
    /// Index of the first point after it.
    pub after: u32,
    /// The typical ratio after it over the typical ratio before it, each up to the next change.
    pub ratio: f64,
    /// Its p-value; `None` for versions of a single run, which have a verdict.
    pub p_value: Option<f64>,
    /// Whether the metric became worse.
    pub is_worse: bool,
    /// Whether it is larger than the plan's margin.
    pub is_beyond_margin: bool,
    /// Other changes between the two points, which may be the cause.
    pub beside: Vec<Beside>,
}

/// A change between two nightly runs other than that of the arm.
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

/// Reads the index of a directory; `None` if it must be made again, because it does not exist or another version wrote it.
pub fn read_index(dir: impl Into<Tree>) -> Option<Index> {
    let body = dir.into().read(INDEX, MOST_BYTES).ok()?;
    let index: Index = json::read(&body, MOST_VALUES).ok()?;
    (index.version == VERSION && index.bakeoff == crate::VERSION).then_some(index)
}
