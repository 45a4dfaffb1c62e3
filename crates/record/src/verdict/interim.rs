//! How far a run is at an interim analysis, as data. `report` puts it into words.

use serde::{Deserialize, Serialize};

use super::Verdict;

/// Result of an interim analysis for one primary metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum InterimResult {
    /// The metric of one arm.
    Metric(InterimMetric),
}

/// How far one primary metric of one arm is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterimMetric {
    /// The workload's id.
    pub workload: String,
    /// The metric.
    pub metric: String,
    /// The arm that is compared with the baseline.
    pub arm: String,
    /// The verdict so far.
    pub verdict: Verdict,
    /// Blocks in which both arms were measured.
    pub blocks: u32,
    /// Arm over baseline; `None` without a ratio.
    pub ratio: Option<f64>,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Level of that interval, a fraction; `None` without one.
    pub confidence: Option<f64>,
    /// How far it is to a verdict.
    pub remaining: Remaining,
}

/// How far it is to a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Remaining {
    /// It is there.
    Decided,
    /// Nothing is tested yet.
    FirstTest {
        /// The block after which it is.
        block: u32,
    },
    /// So many blocks would settle it at the noise so far.
    Blocks {
        /// Blocks more.
        more: u32,
        /// The margin that they would settle, a fraction.
        margin: f64,
        /// Blocks that the run may have in all.
        most: u32,
    },
    /// No number of blocks is known that would settle it.
    Unknown,
}

/// Between which numbers lie the blocks that are still needed, where `more` is what the noise of `so_far` blocks says. Blocks go by the
/// square of the noise, which few blocks show badly: 9 of 10 times it lies between these (chi-squared; Wilson and Hilferty 1931).
pub fn range(more: u32, so_far: u32) -> (u32, u32) {
    /// Quantile of the normal distribution that 5 % lie above.
    const FIVE_PERCENT: f64 = 1.645;
    let freedom = f64::from(so_far.max(2) - 1);
    let share = 2.0 / (9.0 * freedom);
    let over = |z: f64| (1.0 - share + z * share.sqrt()).max(0.1).powi(3);
    let in_all = f64::from(so_far + more);
    let needed = |z: f64| {
        (in_all / over(z) - f64::from(so_far))
            .round()
            .clamp(1.0, 1e6) as u32
    };
    (
        needed(FIVE_PERCENT).min(more),
        needed(-FIVE_PERCENT).max(more),
    )
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn what_few_blocks_say_of_more_is_vague() {
        // chi-squared of 29: 17.7 and 42.6; of 9: 3.33 and 16.9. Tables have these.
        assert_eq!(range(30, 30), (11, 68));
        assert_eq!(range(10, 10), (1, 44));
        let (few, many) = range(1, 8);
        assert!(few == 1 && many > 10, "{many}");
    }
}
