//! What a headline hangs on: one block, the margin, the metric that was called primary, the emulated CPU, the load.
//!
//! All of it describes a verdict that was reached otherwise. None of it is a test with an error rate of its own, but for
//! `ByLoad`, which says at which loads an arm is better.

use serde::{Deserialize, Serialize};

use super::Verdict;
use super::reason::Place;
use crate::metric::Direction;
use crate::models::Standing;

/// How a headline changes where something else is changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Robustness {
    /// The workload's id.
    pub workload: String,
    /// The arm.
    pub arm: String,
    /// Each block left out in turn: a jackknife.
    pub blocks: LeftOut,
    /// The margins for which the same is said; `None` where nothing is said.
    pub margins: Option<Margins>,
    /// Another metric in the place of the primary one; `None` where there is none.
    pub metric: Option<OtherMetric>,
    /// The primary metric at other prices of string instructions; `None` where the clock counts no instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<ByPrice>,
    /// Whether it stands on other CPU models, the worst of them; `None` where none was asked.
    pub models: Option<Standing>,
}

/// The primary metric at several prices of a byte that string instructions move.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ByPrice {
    /// Whether the verdict stands at all of them.
    pub standing: Standing,
    /// What would be said at each, the plan's price first.
    pub at: Vec<AtPrice>,
}

/// The primary metric at one price.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AtPrice {
    /// Instructions that a byte costs.
    pub byte: f64,
    /// What would be said.
    pub verdict: Verdict,
    /// Arm over baseline.
    pub ratio: Option<f64>,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Level of that interval, a fraction; `None` without one.
    pub confidence: Option<f64>,
}

/// What is said without each block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LeftOut {
    /// Nothing was said that could change.
    Undecided,
    /// With one block less nothing could be said, whatever the blocks show.
    TooFew {
        /// Blocks that are needed.
        needed: u32,
    },
    /// One block after the other was left out, and the others were analysed once.
    Tried {
        /// How many blocks were left out, one at a time.
        blocks: u32,
        /// The lowest and the highest ratio of arm to baseline; `None` where figures have no ratio.
        range: Option<(f64, f64)>,
        /// What one analysis of all blocks says of the primary metric.
        at_once: Verdict,
        /// The blocks without which something else is said.
        carried_by: Vec<CarryingBlock>,
    },
}

/// A block without which a headline is another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CarryingBlock {
    /// The block.
    pub block: u32,
    /// What the primary metric says without it.
    pub verdict: Verdict,
    /// Secondary metrics that do not speak against it any more.
    pub loses: Vec<String>,
    /// Where the arm ran in all other blocks, if in one place: then nothing can be told of them, whatever they show.
    #[serde(default)]
    pub always: Option<Place>,
}

/// The margins for which the same is said, fractions: a range around the plan's own, and others for which it is said again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Margins {
    /// The smallest of the plan's range; `None`: however small.
    pub from: Option<f64>,
    /// The largest of it; `None`: however large.
    pub to: Option<f64>,
    /// Other ranges, rising.
    #[serde(default)]
    pub again: Vec<Range>,
}

/// A range of margins, fractions; its ends belong to it, and have no more digits than they need.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// The smallest; `None`: however small.
    pub from: Option<f64>,
    /// The largest; `None`: however large.
    pub to: Option<f64>,
}

impl Range {
    /// Whether a margin lies in it.
    pub fn holds(&self, margin: f64) -> bool {
        self.from.is_none_or(|from| from <= margin) && self.to.is_none_or(|to| margin <= to)
    }
}

/// Another metric in the place of the primary one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OtherMetric {
    /// Its name.
    pub name: String,
    /// What it says at the primary one's error rate.
    pub verdict: Verdict,
    /// What that is beside the primary one's verdict.
    pub agreement: Agreement,
}

/// How two verdicts go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agreement {
    /// Both say the same.
    Same,
    /// One says better, the other worse.
    Opposite,
    /// One says equivalent, the other a difference.
    Other,
    /// One is undecided.
    Nothing,
}

/// An arm against the baseline at each load of a curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ByLoad {
    /// The workload's id.
    pub workload: String,
    /// The arm.
    pub arm: String,
    /// The curve's name.
    pub curve: String,
    /// Unit of its values.
    pub unit: String,
    /// Other curves that differ alike at each load: the same in other words.
    #[serde(default)]
    pub also: Vec<String>,
    /// Which way is better.
    pub direction: Direction,
    /// What the load is counted in.
    pub axis: String,
    /// Blocks in which both arms have the curve.
    pub blocks: u32,
    /// Blocks without which no load can be told apart.
    pub needed: u32,
    /// Level of the interval of each load by itself, a fraction.
    pub confidence: Option<f64>,
    /// Whether the arm is better at one load and worse at another, by more than the margin each.
    pub crosses: bool,
    /// The loads, lowest first.
    pub loads: Vec<AtLoad>,
}

/// An arm against the baseline at one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AtLoad {
    /// The load.
    pub at: f64,
    /// Better, worse, or undecided, all loads and curves of the workload taken together.
    pub verdict: Verdict,
    /// Arm over baseline, the mean of blocks on the logarithm's scale; `None` where figures are zero.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's interval, which is of this load by itself.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Whether the difference is beyond the margin.
    pub is_beyond_margin: bool,
}

impl ByLoad {
    /// Loads at which the arm is better (or worse) by more than the margin.
    pub fn beyond(&self, verdict: Verdict) -> impl Iterator<Item = &AtLoad> {
        let is_beyond = move |load: &&AtLoad| load.verdict == verdict && load.is_beyond_margin;
        self.loads.iter().filter(is_beyond)
    }
}
