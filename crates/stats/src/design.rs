//! Design: the order in which the arms of a block run.
//!
//! The order is the randomisation that makes a verdict valid. So it must be a fair draw, reproducible years later,
//! and independent of what has been measured so far. Hence no state carries over from block to block: each block's
//! draw is keyed by seed, workload and block alone. A block that is run again keeps its order, because what
//! disturbed it came from outside and is independent of the draw.
//!
//! The orders of the opening, the first `min_blocks` blocks, are redrawn together while an arm is on one side of the
//! baseline in all of them (restricted randomisation), because such a run can decide nothing. Tests spend less error
//! in exchange (`Design::drawn_share`), so that a run is wrong no more often than its error rate.

use plan::Plan;
use record::hash::sha256;
use record::prng::SplitMix64;

/// After this many redraws an opening stays as it was drawn first.
const MAX_DRAWS: u32 = 1000;

/// The order of a block: a random permutation of the arms' names.
pub fn order(plan: &Plan, workload: &str, block: u32) -> Vec<String> {
    let opening = plan.design.opening();
    let draw = if block > opening {
        0
    } else {
        let is_two_sided = |draw: &u32| is_two_sided(plan, workload, *draw);
        (0..MAX_DRAWS).find(is_two_sided).unwrap_or(0)
    };
    drawn(plan, workload, block, draw)
}

fn drawn(plan: &Plan, workload: &str, block: u32, draw: u32) -> Vec<String> {
    let mut names: Vec<String> = plan.arms.iter().map(|arm| arm.name.clone()).collect();
    let mut key = format!("order\n{}\n{workload}\n{block}", plan.design.seed);
    if draw > 0 {
        key = format!("{key}\ndraw {draw}");
    }
    keyed(&key).shuffle(&mut names);
    names
}

/// Whether each arm runs before the baseline in some blocks of the opening, and after it in others.
fn is_two_sided(plan: &Plan, workload: &str, draw: u32) -> bool {
    let orders: Vec<Vec<String>> = (1..=plan.design.opening())
        .map(|block| drawn(plan, workload, block, draw))
        .collect();
    let is_first = |order: &Vec<String>, arm: &str| {
        let first = order
            .iter()
            .find(|name| *name == arm || **name == plan.baseline);
        first.is_some_and(|name| name == arm)
    };
    let mut others = plan.arms.iter().filter(|arm| arm.name != plan.baseline);
    others.all(|arm| {
        let firsts = orders.iter().filter(|order| is_first(order, &arm.name));
        (1..orders.len()).contains(&firsts.count())
    })
}

/// A PRNG that depends on the text alone; SHA-256 makes similar keys independent.
pub fn keyed(key: &str) -> SplitMix64 {
    let digest = sha256(key.as_bytes());
    let seed = u64::from_str_radix(&digest[..16], 16);
    SplitMix64::new(seed.expect("a SHA-256 begins with sixteen hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use expect_test::expect;

    use super::*;
    use record::fixtures::builder::RunBuilder;
    use record::verdict::Verdict;

    #[test]
    fn a_seed_lays_out_the_same_blocks_for_ever() {
        let plan = RunBuilder::new().run().plan;
        let layout: Vec<String> = (1..=6)
            .map(|block| order(&plan, "web", block).join(" "))
            .collect();
        expect![[r#"
            [
                "6.1 7.2",
                "7.2 6.1",
                "7.2 6.1",
                "7.2 6.1",
                "7.2 6.1",
                "6.1 7.2",
            ]
        "#]]
        .assert_debug_eq(&layout);
    }

    #[test]
    fn every_order_of_three_arms_is_as_likely() {
        let plan = RunBuilder::new().arm("third").run().plan;
        let mut seen = BTreeMap::<Vec<String>, u32>::new();
        for block in 1..=6000 {
            *seen.entry(order(&plan, "web", block)).or_default() += 1;
        }
        assert_eq!(seen.len(), 6);
        // 1000 of each are expected with a standard deviation of 29; five of those are 144.
        assert!(
            seen.values().all(|count| (856..=1144).contains(count)),
            "{seen:?}"
        );
    }

    #[test]
    fn neighbouring_blocks_workloads_and_seeds_are_unrelated() {
        let plan = RunBuilder::new().run().plan;
        let mut other = plan.clone();
        other.design.seed += 1;
        let same = |first: &dyn Fn(u32) -> Vec<String>, second: &dyn Fn(u32) -> Vec<String>| {
            (1..=4000)
                .filter(|block| first(*block) == second(*block))
                .count()
        };
        let base = |block| order(&plan, "web", block);
        // 2000 agreements are expected with a standard deviation of 32.
        let fair = 1840..=2160;
        assert!(fair.contains(&same(&base, &|block| order(&plan, "web", block + 1))));
        assert!(fair.contains(&same(&base, &|block| order(&plan, "cgi", block))));
        assert!(fair.contains(&same(&base, &|block| order(&other, "web", block))));
    }

    /// Names of the arms that are on one side of the baseline in the whole opening.
    fn one_sided(plan: &Plan) -> Vec<&str> {
        let is_first = |arm: &str, block| {
            let order = order(plan, "web", block);
            let place = |name: &str| order.iter().position(|other| other == name);
            place(arm) < place(&plan.baseline)
        };
        let mut names = Vec::new();
        for arm in plan.arms.iter().filter(|arm| arm.name != plan.baseline) {
            let blocks = plan.design.opening();
            let firsts = (1..=blocks)
                .filter(|block| is_first(&arm.name, *block))
                .count();
            if blocks > 0 && (firsts == 0 || firsts == blocks as usize) {
                names.push(arm.name.as_str());
            }
        }
        names
    }

    #[test]
    fn no_seed_puts_an_arm_on_one_side_in_the_whole_opening() {
        for (arms, min_blocks) in [(2, 1), (2, 2), (2, 4), (2, 8), (3, 3), (4, 4), (6, 6)] {
            let names: Vec<String> = (2..arms).map(|number| number.to_string()).collect();
            let mut builder = RunBuilder::new();
            for name in &names {
                builder = builder.arm(name);
            }
            let mut plan = builder.run().plan;
            plan.design.arms = arms;
            plan.design.min_blocks = min_blocks;
            plan.design.max_blocks = 20;
            assert_eq!(plan.design.opening(), min_blocks.max(2));
            for seed in 1..=200 {
                plan.design.seed = seed;
                assert_eq!(one_sided(&plan), [""; 0], "{arms} arms, seed {seed}");
            }
        }
    }

    #[test]
    fn every_opening_with_both_orders_is_as_likely() {
        let mut plan = RunBuilder::new().run().plan;
        plan.design.arms = 2;
        plan.design.min_blocks = 3;
        let mut seen = BTreeMap::<Vec<String>, u32>::new();
        for seed in 1..=6000 {
            plan.design.seed = seed;
            let firsts = (1..=3).map(|block| order(&plan, "web", block).remove(0));
            *seen.entry(firsts.collect()).or_default() += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(
            seen.values().all(|count| (856..=1144).contains(count)),
            "{seen:?}"
        );
    }

    /// Wrong verdicts among all orders that six blocks may have, where the arms are the same.
    fn wrong_among(design: &plan::Design) -> (u32, u32) {
        let opening = (1 << design.opening()) - 1;
        let is_drawn = |orders: &u32| opening == 0 || ![0, opening].contains(&(orders & opening));
        let (mut drawn, mut wrong) = (0, 0);
        for orders in (0..64).filter(is_drawn) {
            let pair = |block: u32| {
                // What a place in the block adds is the machine's doing, and changes from block to block.
                let (first, second) = ([100.0, 120.0], [120.0, 100.0]);
                let [at_first, at_second] = if block.is_multiple_of(2) {
                    first
                } else {
                    second
                };
                let arm_first = orders >> block & 1 == 1;
                let [baseline, arm] = if arm_first {
                    [at_second, at_first]
                } else {
                    [at_first, at_second]
                };
                record::verdict::Pair {
                    block,
                    baseline,
                    arm,
                    arm_first,
                }
            };
            let pairs: Vec<_> = (0..6).map(pair).collect();
            let series = crate::rule::Series {
                pairs: &pairs,
                direction: record::metric::Direction::Higher,
            };
            let (verdict, _) = crate::rule::decide_primary(series, design, "same").unwrap();
            drawn += 1;
            wrong += u32::from(matches!(verdict, Verdict::Better | Verdict::Worse));
        }
        (wrong, drawn)
    }

    #[test]
    fn among_orders_that_can_be_drawn_a_run_is_wrong_no_more_often_than_its_error_rate_says() {
        let mut design = RunBuilder::new().run().plan.design;
        (design.min_blocks, design.max_blocks) = (4, 6);
        // Of 64 orders 2 are as extreme as can be: 0.031. Of the 56 that can be drawn they are 0.036.
        design.error_rate = 2.0 * 0.034;
        design.arms = 2;
        assert_eq!((design.opening(), wrong_among(&design)), (4, (0, 56)));
        design.error_rate = 2.0 * 0.037;
        assert_eq!(wrong_among(&design), (2, 56));
        // Where nothing is drawn again, all of them count.
        design.arms = 0;
        design.error_rate = 2.0 * 0.034;
        assert_eq!(wrong_among(&design), (2, 64));
    }
}
