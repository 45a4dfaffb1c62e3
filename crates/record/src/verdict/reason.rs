//! Why a verdict is what it is, as data. `report` puts it into words.

use serde::{Deserialize, Serialize};

/// Why the rule for runs says what it says of one metric of one arm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Reason {
    /// "No difference" was rejected.
    Significant {
        /// After so many blocks.
        blocks: u32,
    },
    /// The whole confidence interval lies within the margin.
    WithinMargin {
        /// After so many blocks.
        blocks: u32,
        /// The plan's margin, a fraction.
        margin: f64,
    },
    /// Every figure of both arms is zero.
    AllZero,
    /// In no block were both arms measured.
    NoPairs,
    /// A figure is not a finite number.
    NotANumber {
        /// The block.
        block: u32,
    },
    /// The primary metric was measured in more blocks than this one.
    MissingInSomeBlocks,
    /// Too early for the first test.
    BeforeFirstTest {
        /// Blocks after which it is.
        first_test: u32,
        /// Blocks so far.
        blocks: u32,
    },
    /// The arm cannot be told from its place in the block.
    AlwaysInOnePlace {
        /// Its place.
        place: Place,
        /// Blocks so far, all alike.
        blocks: u32,
    },
    /// Of machines in general: "no difference" was rejected.
    SignificantOverNodes {
        /// Nodes, each with the mean of its blocks.
        nodes: u32,
    },
    /// Of machines in general: the whole confidence interval lies within the margin.
    WithinMarginOverNodes {
        /// Nodes, each with the mean of its blocks.
        nodes: u32,
        /// The plan's margin, a fraction.
        margin: f64,
    },
    /// Of machines in general: nothing was rejected.
    InconclusiveOverNodes {
        /// Nodes, each with the mean of its blocks.
        nodes: u32,
    },
    /// Too few nodes for any verdict on machines in general at this error rate.
    TooFewNodes {
        /// How many there are.
        nodes: u32,
        /// That would be enough.
        least: u32,
    },
    /// A time of the guest's clock, which passes each iteration of a string instruction, of arms that differ in their share.
    StringShares {
        /// Their share of instructions: the baseline's and the arm's.
        shares: [f64; 2],
    },
    /// Nothing was rejected so far.
    Inconclusive {
        /// Blocks so far.
        blocks: u32,
        /// What would settle it.
        outlook: Outlook,
    },
}

/// Where an arm ran in a block, beside the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// Before it.
    First,
    /// After it.
    Second,
}

/// What would settle an undecided metric at the noise so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Outlook {
    /// So many blocks in all, which the run may have.
    Within {
        /// Blocks in all.
        blocks: u32,
    },
    /// More blocks than the run may have.
    Beyond {
        /// Blocks in all.
        blocks: u32,
        /// Blocks that the run may have.
        most: u32,
    },
    /// No number of blocks that anyone would run.
    Never,
}

impl Outlook {
    /// Blocks more than there are; at least one. `None` where none would do.
    pub fn more(self, so_far: u32) -> Option<u32> {
        match self {
            Self::Within { blocks } | Self::Beyond { blocks, .. } => {
                Some(blocks.saturating_sub(so_far).max(1))
            }
            Self::Never => None,
        }
    }
}

/// Why a verdict on figures that others took is what it is: all of them exist before the analysis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SampleReason {
    /// The rule for runs decided.
    Rule {
        /// Why.
        reason: Reason,
    },
    /// One figure in all runs of both arms.
    RepeatedFigure,
    /// Both arms have the same figure in every block.
    RepeatedInBlocks,
    /// Too few for any verdict at this error rate.
    TooFew {
        /// Figures of the arm that has fewer.
        count: u32,
        /// That would be enough.
        least: u32,
        /// What is counted.
        unit: SampleUnit,
    },
    /// The whole interval lies beyond the margin, whatever else may have made a part of the difference.
    BeyondMargin {
        /// The margin, a fraction.
        margin: f64,
        /// What may have made a part of it.
        confounder: Confounder,
    },
    /// A difference, and something else than the arm may have made it.
    NotSurelyBeyondMargin {
        /// The margin, a fraction.
        margin: f64,
        /// What may have made it.
        confounder: Confounder,
    },
    /// No difference beyond the margin, and something else than the arm may have hidden one.
    NoneBeyondMargin {
        /// The margin, a fraction.
        margin: f64,
        /// What may have hidden it.
        confounder: Confounder,
    },
    /// The interval holds a difference beyond the margin and none.
    Inconclusive {
        /// The margin, a fraction.
        margin: f64,
        /// Figures that would settle it; `None` for more than anyone would take.
        needed: Option<u32>,
        /// What is counted.
        unit: SampleUnit,
    },
    /// One run of each arm: its samples say nothing about the next run.
    OneRunOfEach,
}

impl SampleReason {
    /// More blocks or runs than these are no advice.
    pub const MOST_NEEDED: u32 = 1000;
}

/// What figures of others are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SampleUnit {
    /// A figure of each arm.
    Blocks,
    /// Runs of each arm, which do not belong together.
    RunsOfEachArm,
}

/// What may make a difference beside the arms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confounder {
    /// The order in the block was not random.
    Order,
    /// The runs were not interleaved.
    Drift,
}
