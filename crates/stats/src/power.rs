//! Power: what a plan would find, how often and after how many blocks, before machine time is spent on it.
//!
//! A simulated run has one workload, on a machine of `noise_models`, and ends at the block after which all arms are
//! decided. Only primary metrics are simulated, because a run stops on them.

use plan::Design;
use record::metric::Direction;
use record::verdict::Verdict;

use crate::noise_models::{Noise, sides};
use crate::rule::{Series, decide_primary};

/// Parameters of a simulated run.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The machine.
    pub noise: Noise,
    /// Share by which each arm beside the baseline is better, above -1.
    pub effects: Vec<f64>,
    /// The plan's design; its seed is replaced.
    pub design: Design,
}

/// Result of one simulated run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The verdict on each arm, in the order of the effects.
    pub verdicts: Vec<Verdict>,
    /// Number of blocks until all arms were decided, or could not be any more.
    pub blocks: u32,
}

/// Simulates one run. The same seed gives the same result, and the same noise whatever the effects.
pub fn simulate(terms: &Terms, seed: u64) -> Ending {
    let design = Design {
        seed,
        // Simulated orders are drawn without restriction.
        arms: 0,
        ..terms.design.clone()
    };
    let sides = sides(terms.noise, &terms.effects, design.max_blocks, seed, 0);
    let end = |(arm, pairs): (usize, &Vec<_>)| {
        let series = Series {
            pairs,
            direction: Direction::Higher,
        };
        // Workloads measure several metrics, so the primary one has only its share of the error rate.
        let decided = decide_primary(series, &design, &format!("rehearsal\n{arm}"));
        decided.expect("values are above zero")
    };
    let ends: Vec<(Verdict, u32)> = sides.iter().enumerate().map(end).collect();
    Ending {
        verdicts: ends.iter().map(|(verdict, _)| *verdict).collect(),
        blocks: ends.iter().map(|(_, blocks)| *blocks).max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise_models::QUIET;

    fn ends(effects: &[f64], max_blocks: u32) -> Vec<Ending> {
        let design = Design {
            margin: 0.02,
            max_blocks,
            seed: 0,
            ..Design::DEFAULTS
        };
        let terms = Terms {
            noise: QUIET,
            effects: effects.into(),
            design,
        };
        (0..40).map(|seed| simulate(&terms, seed)).collect()
    }

    fn share(ends: &[Ending], arm: usize, verdict: Verdict) -> f64 {
        let count = ends.iter().filter(|end| end.verdicts[arm] == verdict);
        count.count() as f64 / ends.len() as f64
    }

    #[test]
    fn each_arm_is_found_to_be_what_it_is() {
        let ends = ends(&[0.0, -0.05, 0.05], 40);
        assert!(share(&ends, 0, Verdict::Equivalent) >= 0.8, "{ends:?}");
        assert!(share(&ends, 1, Verdict::Worse) >= 0.9, "{ends:?}");
        assert!(share(&ends, 2, Verdict::Better) >= 0.9, "{ends:?}");
        assert!(ends.iter().all(|end| end.blocks <= 40));
    }

    #[test]
    fn a_run_lasts_until_its_last_arm_is_decided() {
        let (first_arm, both_arms) = (ends(&[-0.2], 40), ends(&[-0.2, 0.0], 40));
        let mean = |ends: &[Ending]| ends.iter().map(|end| f64::from(end.blocks)).sum::<f64>();
        assert!(
            mean(&first_arm) < mean(&both_arms),
            "{first_arm:?} {both_arms:?}"
        );
    }

    #[test]
    fn a_plan_of_too_few_blocks_decides_nothing() {
        let ends = ends(&[-0.2], 4);
        assert!((share(&ends, 0, Verdict::Undecided) - 1.0).abs() < 1e-9);
        assert_eq!(ends[0].blocks, 4);
    }
}
