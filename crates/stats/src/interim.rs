//! Planning of interim analyses: after which blocks they are, how much error they spend, and how many blocks a verdict will take.
//!
//! ```text
//! analyses   after every block from the plan's min_blocks to 24, then every second one, and the last;
//!            none before both orders of the arms have occurred
//! spent      a(n) = error rate * (n / max_blocks)^1.25
//!            for a run that got more blocks after it ended undecided: error rate * (2 - max_blocks / n) from there on
//! ```
//! Spending depends on counts alone, so it cannot favour an arm. Spending sooner when noise is small saves a few blocks on
//! quiet machines and costs power on all others. At the pace of its source, (margin / noise)^2 / 28 a block, 1872 of 2000
//! differences of one margin were found after 85 blocks on average; linearly 1906 after 81; slightly later, as here, 1924 after 81.
//!
//! More blocks have a price, because the error rate is spent at the plan's last block. A user who extends a run has seen that it
//! is undecided, and may choose the number accordingly. So analyses and spending beyond the plan's end do not depend on
//! that number; it only limits them. However often a run is extended, it spends less than twice the error rate in total.

use plan::{Design, MOST_BLOCKS, Plan};

use crate::design;
use crate::randomization::least_p_value;

/// Up to this block there is an analysis after every block.
const EVERY_BLOCK_UNTIL: u32 = 24;

/// Above 1, the error is spent later than linearly. 1.5 finds no more differences of one margin, and takes longer for large ones.
const SPENDING_EXPONENT: f64 = 1.25;

/// An interim analysis after `blocks` blocks, by which a share `spent` of the error rate is spent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InterimAnalysis {
    /// Number of blocks so far.
    pub blocks: usize,
    /// Share of the error rate, from 0.
    pub spent: f64,
}

/// The interim analyses of a series of blocks; `second` is 1 for a block in which the arm ran second, else -1.
pub fn schedule(second: &[f64], design: &Design) -> Vec<InterimAnalysis> {
    let due = due(second.len() as u32, design);
    let due = due.filter(|n| !is_one_way(&second[..*n as usize]));
    let analysis = |n| InterimAnalysis {
        blocks: n as usize,
        spent: design.drawn_share() * spent(n, design),
    };
    due.map(analysis).collect()
}

/// Whether the arm ran in one place of all blocks, so that its effect cannot be separated from the order effect.
pub fn is_one_way(second: &[f64]) -> bool {
    second.windows(2).all(|pair| pair[0] * pair[1] > 0.0)
}

/// Pairs of workload and arm whose order never changes in the whole plan under its seed, so that they can have no verdict.
pub fn never_swapped(plan: &Plan) -> Vec<(&str, &str)> {
    let pairs = plan.workloads.iter().flat_map(|workload| {
        let others = plan.arms.iter().filter(|arm| arm.name != plan.baseline);
        others.map(|arm| (&*workload.id, &*arm.name))
    });
    let is_never = |(workload, arm): &(&str, &str)| {
        let is_second = |block| {
            let order = design::order(plan, workload, block);
            let place = |name: &str| order.iter().position(|other| other == name);
            if place(arm) > place(&plan.baseline) {
                1.0
            } else {
                -1.0
            }
        };
        let second: Vec<f64> = (1..=plan.design.max_blocks).map(is_second).collect();
        is_one_way(&second)
    };
    pairs.filter(is_never).collect()
}

fn due(blocks: u32, design: &Design) -> impl Iterator<Item = u32> {
    let (first, last) = (design.min_blocks.max(1), design.max_blocks);
    let is_due = move |n: &u32| match n.checked_sub(last) {
        Some(beyond) => beyond <= EVERY_BLOCK_UNTIL || beyond.is_multiple_of(2),
        None => *n <= EVERY_BLOCK_UNTIL || (*n - EVERY_BLOCK_UNTIL).is_multiple_of(2),
    };
    (first..=blocks.min(design.most_blocks())).filter(is_due)
}

/// Share of the plan's error rate that is spent after this many blocks.
pub fn spent(blocks: u32, design: &Design) -> f64 {
    let (blocks, planned) = (f64::from(blocks), f64::from(design.max_blocks));
    if blocks <= planned {
        (blocks / planned).powf(SPENDING_EXPONENT)
    } else {
        2.0 - planned / blocks
    }
}

/// The accepted probability of a wrong "better" or "worse": the plan's error rate, plus the price of blocks added later.
pub fn error_rate(design: &Design) -> f64 {
    design.error_rate * spent(design.most_blocks(), design)
}

/// The block at which a run with up to `wanted` blocks ends: the first one from there on that has an analysis.
pub fn last_analysis(design: &Design, wanted: u32) -> u32 {
    let endless = Design {
        more_blocks: wanted,
        ..design.clone()
    };
    let mut due = due(wanted.saturating_add(1), &endless);
    due.find(|block| wanted <= *block).unwrap_or(wanted)
}

/// The fewest blocks that can show a difference at all. With fewer there are not enough sign flips for so small
/// a p-value, or too few of them are drawn. `None` if even the run's most blocks are too few.
pub fn smallest(error_rate: f64, design: &Design) -> Option<u32> {
    let first = design.min_blocks.max(1);
    let (planned, most) = (design.max_blocks as usize, design.most_blocks() as usize);
    (first..=design.most_blocks()).find(|blocks| {
        least_p_value(*blocks as usize, planned, most, error_rate)
            <= error_rate * design.drawn_share() * spent(*blocks, design)
    })
}

/// The fewest blocks that can show a difference in a single test; fewer have too few sign flips for so small a p-value.
pub fn fewest_blocks(error_rate: f64) -> usize {
    let is_enough =
        |blocks: &usize| least_p_value(*blocks, *blocks, *blocks, error_rate) <= error_rate;
    let most = MOST_BLOCKS as usize;
    (1..=most).find(is_enough).unwrap_or(most)
}

/// Probability of a wrong "equivalent" if the truth is exactly the margin. Below 1 in 100 it would cost equal arms more than
/// it saves unequal ones, because a difference of exactly the margin is on the border of what matters.
pub fn equivalence_error_rate(design: &Design) -> f64 {
    design.error_rate.max(0.01)
}

/// Blocks that find a difference of one margin in at least 95 of 100 runs, if paired log-ratios have a noise of
/// `scale`. Measured by simulation: 24 (s / margin)^2 at an error rate of 1 %, 20 at 5 %.
pub fn needed(scale: f64, margin: f64, error_rate: f64) -> u32 {
    (factor(error_rate) * (scale / margin).powi(2))
        .ceil()
        .clamp(1.0, f64::from(u32::MAX)) as u32
}

/// The smallest difference that `blocks` blocks show in at least 95 of 100 runs: the inverse of `needed`.
pub fn shown(scale: f64, blocks: u32, error_rate: f64) -> f64 {
    scale * (factor(error_rate) / f64::from(blocks)).sqrt()
}

/// Mean number of blocks to a verdict if the truth is `effect`. At an error rate of 1 %: 12.5 (s / effect)^2 for a
/// difference, 15 (s / slack)^2 for equivalence. The slack is the distance of the effect from the margin.
pub fn expected(scale: f64, effect: f64, margin: f64, error_rate: f64) -> u32 {
    let slack = margin - effect.abs();
    let for_difference = 12.5 * (scale / effect).powi(2);
    let for_equivalence = if slack > 0.0 {
        15.0 * (scale / slack).powi(2)
    } else {
        f64::INFINITY
    };
    let blocks = for_difference.min(for_equivalence) * factor(error_rate) / factor(0.01);
    blocks.ceil().clamp(1.0, f64::from(u32::MAX)) as u32
}

fn factor(error_rate: f64) -> f64 {
    (20.0 + 4.0 * (0.05 / error_rate).ln() / 5f64.ln()).max(10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design(min_blocks: u32, max_blocks: u32) -> Design {
        Design {
            margin: 0.02,
            error_rate: 0.01,
            min_blocks,
            max_blocks,
            ..Design::DEFAULTS
        }
    }

    #[test]
    fn each_block_is_looked_at_to_the_24th_then_every_second_and_the_last() {
        let all: Vec<u32> = due(31, &design(22, 31)).collect();
        assert_eq!(all, [22, 23, 24, 26, 28, 30, 31]);
        assert_eq!(due(29, &design(22, 31)).last(), Some(28));
    }

    #[test]
    fn all_error_is_spent_at_the_last_block() {
        let second: Vec<f64> = (0..60).map(|n| if n == 0 { 1.0 } else { -1.0 }).collect();
        let analyses = schedule(&second, &design(8, 60));
        let spent = |index: usize| (analyses[index].blocks, analyses[index].spent);
        assert_eq!(spent(0), (8, (8.0f64 / 60.0).powf(1.25)));
        assert_eq!(spent(analyses.len() - 1), (60, 1.0));
    }

    /// A user who chooses the number of further blocks may have seen all figures, so nothing else may depend on it.
    #[test]
    fn how_many_more_blocks_there_are_changes_no_look_and_no_spending() {
        let with = |more_blocks| Design {
            more_blocks,
            ..design(4, 10)
        };
        let second: Vec<f64> = (0..80).map(|n| f64::from(n % 2 * 2 - 1)).collect();
        let long = schedule(&second, &with(70));
        for more in [0, 1, 7, 30] {
            let some = schedule(&second, &with(more));
            assert_eq!(some, long[..some.len()], "{more} more");
            assert_eq!(some.last().unwrap().blocks as u32, 10 + more);
        }
        let spent: Vec<f64> = long.iter().map(|analysis| analysis.spent).collect();
        assert!(spent.is_sorted() && spent.iter().all(|share| *share < 2.0));
        let rate = |more| (error_rate(&with(more)) * 1e6).round() / 1e4;
        for (more, percent) in [(0, 1.0), (10, 1.5), (10_000, 1.999)] {
            assert!((rate(more) - percent).abs() < 1e-9, "{more} more");
        }
    }

    #[test]
    fn a_longer_run_ends_with_an_analysis() {
        let ends = |more: u32| last_analysis(&design(4, 10), 10 + more) - 10;
        assert_eq!([1u32, 24, 25, 26].map(ends), [1, 24, 26, 26]);
    }

    #[test]
    fn no_look_comes_before_both_orders_have_occurred() {
        let second: Vec<f64> = (0..12).map(|n| if n < 10 { 1.0 } else { -1.0 }).collect();
        let analyses = schedule(&second, &design(8, 60));
        assert_eq!(analyses[0].blocks, 11);
    }

    #[test]
    fn a_seed_that_never_swaps_the_arms_is_known_beforehand() {
        let mut plan = record::fixtures::builder::RunBuilder::new().run().plan;
        plan.design.max_blocks = 3;
        let never: Vec<u64> = (1..=40)
            .filter(|seed| {
                plan.design.seed = *seed;
                !never_swapped(&plan).is_empty()
            })
            .collect();
        // One in four of three fair draws.
        assert!((4..=18).contains(&never.len()), "{never:?}");
        plan.design.max_blocks = 60;
        assert_eq!(never_swapped(&plan), []);
    }

    #[test]
    fn the_fewest_blocks_follow_from_the_error_rate() {
        assert_eq!(smallest(0.005, &design(8, 150)), Some(14));
        assert_eq!(smallest(0.05, &design(2, 6)), Some(6));
        assert_eq!(smallest(0.005, &design(2, 6)), None);
        assert_eq!([0.05, 0.01, 0.005].map(fewest_blocks), [6, 8, 9]);
        // Of resampled sign flips the order itself is one, so that rare errors need more of them.
        assert_eq!(
            (smallest(1e-5, &design(4, 40)), fewest_blocks(1e-5)),
            (Some(21), 19)
        );
        assert_eq!(smallest(0.005, &design(2, 9)), Some(9));
    }

    #[test]
    fn a_quarter_of_the_noise_needs_a_sixteenth_of_the_blocks() {
        assert_eq!(needed(0.049, 0.02, 0.01), 145);
        assert_eq!(needed(0.049, 0.02, 0.05), 121);
        assert_eq!(needed(0.02, 0.02, 0.01), 24);
        assert!((shown(0.02, 24, 0.01) - 0.02).abs() < 1e-12);
    }
}
