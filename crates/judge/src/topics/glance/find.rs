//! Which figures come first, which follow from others, and where two latency curves cross.

use record::hardware_counters;
use record::instructions::{CAPACITY, SERVER_INSTRUCTIONS};
use record::metric::{MetricSpec, Role};
use record::rundir::Run;
use record::verdict::{ArmClients, Comparison};

/// What a metric is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// What users of the server get.
    Outcome,
    /// What each unit of work costs.
    Cost,
    /// Whether the work was done.
    Checks,
}

/// All groups, in the order of a report.
pub(crate) const GROUPS: [Group; 3] = [Group::Outcome, Group::Cost, Group::Checks];

/// The group of a metric. The primary metric is always an outcome.
pub(crate) fn group(spec: &MetricSpec) -> Group {
    const CHECKS: [&str; 4] = ["failed", "errors", "repeated", "conforming-share"];
    const COSTS: [&str; 4] = ["cpu", "instructions", "memory", "per-thread"];
    let name = spec.name.as_str();
    let is_cost = || {
        COSTS.iter().any(|cost| name.contains(cost))
            || hardware_counters::metrics().any(|counter| counter == name)
    };
    match spec.role {
        Role::Secondary if CHECKS.contains(&name) => Group::Checks,
        Role::Secondary if is_cost() => Group::Cost,
        Role::Primary | Role::Secondary => Group::Outcome,
    }
}

/// Number of main figures.
const MAIN: usize = 4;

/// The main figures of a workload: the primary one, the tail of latencies, the cost of a request, and failures. Others that follow
/// from none fill the places of missing ones.
pub(crate) fn main_figures<'c>(run: &Run, comparisons: &[&'c Comparison]) -> Vec<&'c MetricSpec> {
    let mut all: Vec<&MetricSpec> = Vec::new();
    let mut others: Vec<&MetricSpec> = Vec::new();
    for comparison in comparisons {
        if !all.contains(&&comparison.spec) {
            all.push(&comparison.spec);
            others.extend(
                follows_from(run, comparisons, comparison)
                    .is_none()
                    .then_some(&comparison.spec),
            );
        }
    }
    let first = |is_wanted: &dyn Fn(&MetricSpec) -> bool| {
        let mut specs = all.iter().copied();
        specs.find(|spec| is_wanted(spec))
    };
    let wanted = [
        first(&|spec| spec.role == Role::Primary),
        first(&|spec| spec.name.ends_with("-p99")),
        first(&|spec| group(spec) == Group::Cost),
        first(&|spec| group(spec) == Group::Checks),
    ];
    let mut main: Vec<&MetricSpec> = Vec::new();
    for spec in wanted.into_iter().flatten().chain(others) {
        if main.len() < MAIN && !main.contains(&spec) {
            main.push(spec);
        }
    }
    // The places of missing figures are filled in the order of the groups.
    main.sort_by_key(|spec| GROUPS.iter().position(|other| *other == group(spec)));
    main
}

/// The metric that determines another one, if the clients wait for each answer and share one CPU with the server.
const DETERMINED: [(&str, &str); 3] = [
    ("latency-mean", "throughput"),
    ("instructions", "throughput"),
    (SERVER_INSTRUCTIONS, CAPACITY),
];

/// Largest departure from the reciprocal of the other metric's change in any block.
const TOLERANCE: f64 = 0.005;

/// The metric of the same arm from which this one follows.
///
/// On one CPU with a fixed number of waiting clients, the mean latency is the number of clients over the throughput, and
/// instructions per request are instructions per second over it. Every block must agree with that.
pub(crate) fn follows_from<'c>(
    run: &Run,
    comparisons: &[&'c Comparison],
    comparison: &Comparison,
) -> Option<&'c Comparison> {
    let name = comparison.spec.name.as_str();
    let (_, other) = DETERMINED.iter().find(|(derived, _)| *derived == name)?;
    let mut candidates = comparisons.iter().copied();
    let base = candidates.find(|base| base.arm == comparison.arm && base.spec.name == *other)?;
    let is_on_one_cpu = run
        .plan
        .arms
        .iter()
        .all(|arm| run.plan.cpus(arm) == Some(1));
    let is_closed_loop = run.plan.workloads.iter().any(|workload| {
        workload.id == comparison.workload
            && workload
                .options
                .get("rate_per_s")
                .is_none_or(serde_json::Value::is_null)
    });
    let is_reciprocal = !comparison.pairs.is_empty()
        && comparison.pairs.len() == base.pairs.len()
        && comparison
            .pairs
            .iter()
            .zip(&base.pairs)
            .all(|(derived, base)| {
                let product = derived.arm / derived.baseline * (base.arm / base.baseline);
                (product - 1.0).abs() <= TOLERANCE
            });
    (is_on_one_cpu && is_closed_loop && is_reciprocal).then_some(base)
}

/// How an arm's latency curve lies to the baseline's. Percentages are of requests, the fastest first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Course {
    Alike,
    Faster { percent: f64 },
    Slower { percent: f64 },
    FasterThenSlower { until: f64 },
    SlowerThenFaster { until: f64 },
    Mixed { faster: f64, slower: f64 },
}

/// Two latencies that differ by at most this share count as equal.
const ALIKE: f64 = 0.01;

/// Compares two latency curves at each percent of requests; `None` without curves.
pub(crate) fn course(baseline: &ArmClients, arm: &ArmClients) -> Option<Course> {
    let mut signs = Vec::new();
    for percent in 0..100 {
        let quantile = (f64::from(percent) + 0.5) / 100.0;
        let ratio = latency_at(arm, quantile)? / latency_at(baseline, quantile)?;
        signs.push(match ratio {
            faster if faster < 1.0 / (1.0 + ALIKE) => -1,
            slower if slower > 1.0 + ALIKE => 1,
            _ => 0,
        });
    }
    let count = |sign: i32| signs.iter().filter(|other| **other == sign).count() as f64;
    let first = |sign: i32| {
        let place = signs.iter().position(|other| *other == sign);
        place.map_or(0.0, |place| place as f64)
    };
    let (faster, slower) = (count(-1), count(1));
    let mut turns: Vec<i32> = signs.iter().copied().filter(|sign| *sign != 0).collect();
    turns.dedup();
    Some(match turns.as_slice() {
        [] => Course::Alike,
        [-1] => Course::Faster { percent: faster },
        [1] => Course::Slower { percent: slower },
        [-1, 1] => Course::FasterThenSlower { until: first(1) },
        [1, -1] => Course::SlowerThenFaster { until: first(-1) },
        _ => Course::Mixed { faster, slower },
    })
}

/// The latency in milliseconds within which this share of requests was answered.
pub(crate) fn latency_at(clients: &ArmClients, quantile: f64) -> Option<f64> {
    let mut curve = clients.latency_curve.iter();
    let point = curve.find(|(share, _)| *share >= quantile - 1e-12)?;
    Some(point.1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use record::fixtures::web;

    use super::*;
    use crate::report::judged;

    fn clients(latency: impl Fn(f64) -> f64) -> ArmClients {
        let quantiles = (0..=1000).map(|share| f64::from(share) / 1000.0);
        ArmClients {
            served: 1000,
            served_per_s: 1.0,
            ok_by_address: BTreeMap::new(),
            mean_ms: 1.0,
            faults: BTreeMap::new(),
            over_time: Vec::new(),
            latency_curve: quantiles
                .map(|quantile| (quantile, latency(quantile)))
                .collect(),
        }
    }

    #[test]
    fn curves_that_cross_are_found() {
        let flat = clients(|_| 5.0);
        let course_of = |arm: &dyn Fn(f64) -> f64| course(&flat, &clients(arm)).unwrap();
        assert_eq!(course_of(&|_| 5.02), Course::Alike);
        assert_eq!(course_of(&|_| 4.0), Course::Faster { percent: 100.0 });
        assert_eq!(
            course_of(&|quantile| if quantile < 0.7 { 5.0 } else { 8.0 }),
            Course::Slower { percent: 30.0 }
        );
        assert_eq!(
            course_of(&|quantile| 2.5 + 5.0 * quantile),
            Course::FasterThenSlower { until: 51.0 }
        );
        assert_eq!(
            course_of(&|quantile| 5.0 + 2.0 * (20.0 * quantile).sin()),
            Course::Mixed {
                faster: 46.0,
                slower: 52.0
            }
        );
        let empty = ArmClients {
            latency_curve: Vec::new(),
            ..flat.clone()
        };
        assert_eq!(course(&flat, &empty), None);
    }

    #[test]
    fn the_main_figures_are_outcome_tail_cost_and_failures() {
        let (run, judgement) = judged(web::two_kernels());
        let comparisons: Vec<&Comparison> = judgement.comparisons.iter().collect();
        let names: Vec<&str> = main_figures(&run, &comparisons)
            .iter()
            .map(|spec| spec.name.as_str())
            .collect();
        assert_eq!(names, ["throughput", "latency-p99", "server-cpu", "failed"]);
    }

    #[test]
    fn a_figure_follows_from_another_only_if_every_block_agrees() {
        let (run, judgement) = judged(web::two_kernels());
        let throughput = &judgement.comparisons[0];
        let mut mean = throughput.clone();
        mean.spec.name = "latency-mean".into();
        for pair in &mut mean.pairs {
            (pair.baseline, pair.arm) = (1.0 / pair.baseline, 1.0 / pair.arm);
        }
        assert!(follows_from(&run, &[throughput], &mean).is_some());
        mean.pairs[0].arm *= 1.01;
        assert!(follows_from(&run, &[throughput], &mean).is_none());
        assert!(follows_from(&run, &[throughput], throughput).is_none());
    }
}
