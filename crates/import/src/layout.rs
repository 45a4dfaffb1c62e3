//! How figures were taken, as far as the data shows it. It limits what may be concluded.
//!
//! ```text
//! paired in random order   blocks with both arms, in random order
//! paired                   blocks with both arms, in a fixed, regular or unknown order
//! unpaired                 runs of either arm that are not matched
//! one run                  samples inside one run of each arm
//! ```

use record::verdict::Pair;
use serde::Serialize;

/// From this many blocks on, a strictly alternating order is no coincidence: 1 in 32.
const MIN_ALTERNATING: usize = 6;

/// Below this p-value an order is too lopsided for a fair coin.
const MAX_LOPSIDED_P_VALUE: f64 = 0.001;

/// The figures of two arms on one metric.
#[derive(Debug, Clone, PartialEq)]
pub enum Layout {
    /// Paired by block.
    Blocks {
        /// The pairs in the order of the file; `arm_first` is valid only if the order is known.
        pairs: Vec<Pair>,
        /// The order in which the arms ran.
        order: ArmOrder,
    },
    /// Runs that are not matched.
    Unpaired {
        /// Figures of the baseline, one per run.
        baseline: Vec<f64>,
        /// Figures of the arm, one per run.
        arm: Vec<f64>,
    },
    /// Samples of one run of each arm.
    OneRun {
        /// Samples of the baseline's run.
        baseline: Vec<f64>,
        /// Samples of the arm's run.
        arm: Vec<f64>,
    },
}

/// Order in which the arms of a block ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArmOrder {
    /// Consistent with a fair coin.
    Random,
    /// One arm first in every block.
    Fixed,
    /// One arm first in nearly every block.
    Lopsided,
    /// Alternating from block to block.
    Alternating,
    /// Not stated in the file.
    Unknown,
}

impl ArmOrder {
    /// The order of these pairs, if all slots are known.
    pub(crate) fn of(pairs: &[Pair]) -> Self {
        let arm_first = pairs.iter().filter(|pair| pair.arm_first).count();
        let is_alternating = pairs
            .windows(2)
            .all(|pair| pair[0].arm_first != pair[1].arm_first);
        if arm_first == 0 || arm_first == pairs.len() {
            Self::Fixed
        } else if is_alternating && pairs.len() >= MIN_ALTERNATING {
            Self::Alternating
        } else if p_value(arm_first.min(pairs.len() - arm_first), pairs.len())
            < MAX_LOPSIDED_P_VALUE
        {
            Self::Lopsided
        } else {
            Self::Random
        }
    }

    /// The order in words, as the end of "12 blocks, ...".
    pub fn words(self) -> &'static str {
        match self {
            Self::Random => "both orders, as by a coin",
            Self::Fixed => "the same arm first in every block",
            Self::Lopsided => "the same arm first in nearly every block",
            Self::Alternating => "the arms first by turns",
            Self::Unknown => "which arm ran first is not said (a column slot would)",
        }
    }
}

/// Two-sided p-value of a fair coin: `few` or fewer of `all` tosses on one side.
fn p_value(few: usize, all: usize) -> f64 {
    // In logarithms, because 2^-1075 underflows to 0.
    let mut term = -(all as f64) * std::f64::consts::LN_2;
    let mut sum = term.exp();
    for count in 1..=few {
        term += ((all - count + 1) as f64 / count as f64).ln();
        sum += term.exp();
    }
    2.0 * sum
}

impl Layout {
    /// Name of the layout.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Blocks {
                order: ArmOrder::Random,
                ..
            } => "paired in random order",
            Self::Blocks { .. } => "paired",
            Self::Unpaired { .. } => "unpaired",
            Self::OneRun { .. } => "one run of each arm",
        }
    }

    /// Describes the data and what may be concluded from it.
    pub fn words(&self) -> String {
        match self {
            Self::Blocks { pairs, order } => {
                let limit = match order {
                    ArmOrder::Random => {
                        "drift and order pass for a difference no more often than the error rate says"
                    }
                    ArmOrder::Fixed
                    | ArmOrder::Lopsided
                    | ArmOrder::Alternating
                    | ArmOrder::Unknown => {
                        "an effect of the order is not excluded, so only differences beyond the \
                         margin are told, and never that arms are equivalent"
                    }
                };
                format!(
                    "{}: {} blocks, {}; {limit}",
                    self.name(),
                    pairs.len(),
                    order.words()
                )
            }
            Self::Unpaired { baseline, arm } => format!(
                "unpaired: {} and {} runs; confounded with machine drift, \
                 so only differences beyond the margin are told, and never that arms are equivalent",
                baseline.len(),
                arm.len()
            ),
            Self::OneRun { baseline, arm } => format!(
                "one run of each arm: {} and {} samples inside it, which say how steady that run was \
                 and not what the next would give; nothing is concluded",
                baseline.len(),
                arm.len()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(firsts: &str, want: ArmOrder) {
        let pair = |first: char| Pair {
            block: 1,
            baseline: 1.0,
            arm: 1.0,
            arm_first: first == 'a',
        };
        let pairs: Vec<Pair> = firsts.chars().map(pair).collect();
        assert_eq!(ArmOrder::of(&pairs), want, "{firsts}");
    }

    #[test]
    fn orders_are_classified() {
        check("bbbbbbbb", ArmOrder::Fixed);
        check("aaaaaaaa", ArmOrder::Fixed);
        check("abababab", ArmOrder::Alternating);
        check("abaababb", ArmOrder::Random);
        check("ab", ArmOrder::Random);
        check("bbbbbbbbbbbbbbbbbbba", ArmOrder::Lopsided);
        check(&"abaababb".repeat(250), ArmOrder::Random);
        check(&"abbbbbbb".repeat(250), ArmOrder::Lopsided);
    }

    #[test]
    fn the_p_value_is_binomial() {
        // 1 and 10 of 2^10, both sides.
        assert!((p_value(1, 10) - 2.0 * 11.0 / 1024.0).abs() < 1e-12);
    }
}
