//! How figures were taken, as far as the data shows it: what may be concluded hangs on it.
//!
//! ```text
//! paired in random order   blocks with both arms, now one first, now the other
//! paired                   blocks with both arms, in a fixed, regular or unknown order
//! unpaired                 runs of either arm, nothing says which belong together
//! one run                  samples inside one run of each arm
//! ```

use record::verdict::Pair;
use serde::Serialize;

/// From so many blocks on, orders that alternate strictly are no coincidence: 1 in 32.
const REGULAR: usize = 6;

/// Orders more uneven than this chance gives are not those of a fair coin.
const UNFAIR: f64 = 0.001;

/// The figures of two arms on one metric.
#[derive(Debug, Clone, PartialEq)]
pub enum Layout {
    /// Block by block.
    Blocks {
        /// The pairs in the order of the file; `arm_first` counts only where the order is known.
        pairs: Vec<Pair>,
        /// In which order the arms ran.
        order: ArmOrder,
    },
    /// Runs that do not belong together.
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

/// In which order the arms of a block ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArmOrder {
    /// As a coin would have it.
    Random,
    /// One arm first in every block.
    Fixed,
    /// One arm first in nearly every block.
    Lopsided,
    /// By turns.
    Alternating,
    /// The file does not say.
    Unknown,
}

impl ArmOrder {
    /// The order that the pairs show, all slots being known.
    pub(crate) fn of(pairs: &[Pair]) -> Self {
        let firsts = pairs.iter().filter(|pair| pair.arm_first).count();
        let by_turns = pairs
            .windows(2)
            .all(|two| two[0].arm_first != two[1].arm_first);
        if firsts == 0 || firsts == pairs.len() {
            Self::Fixed
        } else if by_turns && pairs.len() >= REGULAR {
            Self::Alternating
        } else if chance(firsts.min(pairs.len() - firsts), pairs.len()) < UNFAIR {
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

/// Chance that a fair coin falls so unevenly: `few` or fewer of `all` on one side.
fn chance(few: usize, all: usize) -> f64 {
    // By logarithms: 2^-1075 is 0 as a number of its own.
    let mut term = -(all as f64) * std::f64::consts::LN_2;
    let mut sum = term.exp();
    for count in 1..=few {
        term += ((all - count + 1) as f64 / count as f64).ln();
        sum += term.exp();
    }
    2.0 * sum
}

impl Layout {
    /// Its name in words.
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

    /// What there is, and what it can and cannot show.
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
    fn orders_are_told_apart() {
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
    fn a_chance_is_that_of_the_binomial() {
        // 1 and 10 of 2^10, both sides.
        assert!((chance(1, 10) - 2.0 * 11.0 / 1024.0).abs() < 1e-12);
    }
}
