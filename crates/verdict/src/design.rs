//! Design: in which order the arms of a block run.
//!
//! The order is the randomisation that later makes a verdict valid, so it must be a fair draw, the
//! same years later, and out of reach of what has been measured so far. Hence no state runs from
//! block to block: each block's draw is keyed by seed, workload and block alone.

use plan::Plan;
use record::prng::SplitMix64;
use record::rundir::sha256;

/// A random permutation of the arms' names anew for each time that a block is run again.
pub(crate) fn order(plan: &Plan, workload: &str, block: u32, redo: u32) -> Vec<String> {
    let mut names: Vec<String> = plan.arms.iter().map(|arm| arm.name.clone()).collect();
    let mut key = format!("order\n{}\n{workload}\n{block}", plan.design.seed);
    if redo > 0 {
        key = format!("{key}\nredo {redo}");
    }
    keyed(&key).shuffle(&mut names);
    names
}

/// Chance that depends on the text alone; SHA-256 keeps the numbers of near keys unrelated.
pub(crate) fn keyed(key: &str) -> SplitMix64 {
    let digest = sha256(key.as_bytes());
    let seed = u64::from_str_radix(&digest[..16], 16);
    SplitMix64::new(seed.expect("a SHA-256 begins with sixteen hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use expect_test::expect;

    use super::*;
    use fixtures::builder::RunBuilder;

    #[test]
    fn a_seed_lays_out_the_same_blocks_for_ever() {
        let plan = RunBuilder::new().run().plan;
        let layout: Vec<String> = (1..=6)
            .map(|block| order(&plan, "web", block, 0).join(" "))
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
            *seen.entry(order(&plan, "web", block, 0)).or_default() += 1;
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
        let same = |one: &dyn Fn(u32) -> Vec<String>, two: &dyn Fn(u32) -> Vec<String>| {
            (1..=4000)
                .filter(|block| one(*block) == two(*block))
                .count()
        };
        let base = |block| order(&plan, "web", block, 0);
        // 2000 agreements are expected with a standard deviation of 32.
        let fair = 1840..=2160;
        assert!(fair.contains(&same(&base, &|block| order(&plan, "web", block + 1, 0))));
        assert!(fair.contains(&same(&base, &|block| order(&plan, "cgi", block, 0))));
        assert!(fair.contains(&same(&base, &|block| order(&plan, "web", block, 1))));
        assert!(fair.contains(&same(&base, &|block| order(&other, "web", block, 0))));
    }
}
