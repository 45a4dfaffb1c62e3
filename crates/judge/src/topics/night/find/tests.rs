//! Nights of simulated plans with known effects, which count both kinds of errors.

use std::ops::Range;

use record::fixtures::night::{run_summary, throughput};
use record::night::State;
use record::verdict::Pair;

use super::*;
use stats::counts::{least, most};
use stats::noise_models::{QUIET, REFERENCE, pairs};
use stats::rule::{self, decisions_at_stop};

/// Number of plans of a simulated night.
const PLANS: u64 = 20;

const RATES: Rates = Rates {
    gate: 0.05,
    fdr: 0.1,
};

/// A plan's run, with one comparison.
fn plan(name: &str, compared: Vec<Compared>) -> PlanSummary {
    PlanSummary {
        name: name.into(),
        dir: name.into(),
        planned: 1,
        state: State::Complete,
        why: None,
        run: Some(run_summary(name, compared)),
    }
}

fn compared(arm: &str, kernel: &str, ratio: f64, p_worse: f64) -> Compared {
    Compared {
        workload: "web".into(),
        arm: arm.into(),
        kernel: Some(kernel.into()),
        spec: throughput(),
        verdict: if p_worse < 1.0 {
            Verdict::Worse
        } else {
            Verdict::Undecided
        },
        headline: Some("undecided".into()),
        ratio: Some(ratio),
        low: None,
        high: None,
        confidence: None,
        blocks: 8,
        night: Some(unadjusted(PValues {
            worse: p_worse,
            better: 1.0,
        })),
    }
}

/// A plan that runs to its end; `effect` is the relative difference of its arm.
fn simulated(seed: u64, effect: f64, error_rate: f64) -> Compared {
    let noise = if seed.is_multiple_of(2) {
        QUIET
    } else {
        REFERENCE
    };
    let design = plan::Design {
        error_rate,
        max_blocks: 13,
        seed,
        ..plan::Design::DEFAULTS
    };
    let all: Vec<Pair> = pairs(noise, effect, 13, seed, 0);
    let series = |pairs| rule::Series {
        pairs,
        direction: Direction::Higher,
    };
    let decision = decisions_at_stop(&[series(&all)], &design, "")[0];
    let (verdict, blocks) = decision.map_or((Verdict::Undecided, all.len()), |decision| {
        (decision.verdict, decision.at_block)
    });
    let p_worse = match verdict {
        Verdict::Worse => p_value::of_series(series(&all[..blocks]), verdict, &design, "", false),
        Verdict::Better | Verdict::Equivalent | Verdict::Undecided => 1.0,
    };
    compared("7.2", "7.2", 1.0, p_worse)
}

/// Counts over simulated nights.
#[derive(Debug, Default)]
struct Nights {
    all: u32,
    /// Nights with a run that called an arm worse that is not.
    with_wrong_run: u32,
    /// Nights in which the gate tripped on an arm that is not worse.
    with_wrong_gate: u32,
    /// Sum over nights of the share of false positives in the list.
    false_share: f64,
    /// Arms that are worse.
    worse: u32,
    /// Arms that are worse and in the list.
    listed: u32,
    /// Arms that are worse and trip the gate.
    tripping: u32,
}

/// Simulates nights with these numbers. In each, the arms of the first `worse` plans are worse by 6 %.
fn nights(numbers: Range<u64>, worse: u64, error_rate: f64) -> Nights {
    let mut counts = Nights::default();
    for night in numbers {
        let effect = |number: u64| if number < worse { -0.06 } else { 0.0 };
        let mut plans: Vec<PlanSummary> = (0..PLANS)
            .map(|number| {
                let seed = 1 + night * PLANS + number;
                plan(
                    &number.to_string(),
                    vec![simulated(seed, effect(number), error_rate)],
                )
            })
            .collect();
        assert_eq!(adjust(&mut plans, RATES), PLANS as usize);
        let all: Vec<NightStanding> = plans
            .iter()
            .flat_map(|plan| plan.run.iter().flat_map(|run| &run.comparisons))
            .filter_map(|compared| compared.night)
            .collect();
        let (truly_worse, equal) = all.split_at(worse as usize);
        let listed = |standings: &[NightStanding]| {
            let listed = standings.iter().filter(|standing| standing.is_regression);
            listed.count()
        };
        counts.all += 1;
        counts.with_wrong_run += u32::from(equal.iter().any(|standing| standing.p_worse < 1.0));
        counts.with_wrong_gate += u32::from(equal.iter().any(|standing| standing.trips_gate));
        counts.false_share += listed(equal) as f64 / listed(&all).max(1) as f64;
        counts.worse += worse as u32;
        counts.listed += listed(truly_worse) as u32;
        let tripping = truly_worse.iter().filter(|standing| standing.trips_gate);
        counts.tripping += tripping.count() as u32;
    }
    counts
}

/// Numbers of the nights of ordinary tests.
const FEW: Range<u64> = 0..40;

/// Numbers of the nights of `make test-all`.
fn many() -> Range<u64> {
    let first = base::skip::seed(0);
    first..first + 600
}

fn count(nights: &Range<u64>) -> u64 {
    nights.end - nights.start
}

#[test]
fn a_night_of_equal_arms_trips_its_gate_as_seldom_as_promised() {
    equal_arms_trip_their_gate(FEW);
}

#[test]
#[ignore = "600 nights, another seed each time: make test-all"]
fn many_nights_of_equal_arms_trip_their_gate_as_seldom_as_promised() {
    equal_arms_trip_their_gate(many());
}

fn equal_arms_trip_their_gate(numbers: Range<u64>) {
    let count = count(&numbers);
    let counts = nights(numbers, 0, error_rate_of_plans(RATES.gate, PLANS as usize));
    println!("nights of 20 equal plans, --family-wise: {counts:?}");
    let wrong = u64::from(counts.with_wrong_gate);
    // A test of few sign flips cannot spend all of a plan's small error rate.
    let expected = least(count, RATES.gate / 2.0)..=most(count, RATES.gate);
    assert!(expected.contains(&wrong), "{counts:?}");
    assert_eq!(counts.with_wrong_gate, counts.with_wrong_run, "{counts:?}");
}

#[test]
fn the_gate_holds_whatever_plans_call_worse_by_themselves() {
    the_gate_holds(FEW);
}

#[test]
#[ignore = "600 nights, another seed each time: make test-all"]
fn the_gate_holds_in_many_nights_whatever_plans_call_worse() {
    the_gate_holds(many());
}

fn the_gate_holds(numbers: Range<u64>) {
    let count = count(&numbers);
    let counts = nights(numbers, 0, 0.05);
    println!("nights of 20 equal plans at 5 % each: {counts:?}");
    let runs = u64::from(counts.with_wrong_run);
    // "Worse" has half of the error rate: at most 1 - 0.975^20 of the nights.
    assert!(
        runs > least(count, 0.3) && runs <= most(count, 0.4),
        "{counts:?}"
    );
    let gates = u64::from(counts.with_wrong_gate);
    assert!(gates <= most(count, RATES.gate), "{counts:?}");
    // If all arms are equal, the false discovery rate is the probability of any false positive.
    let listed = most(count, RATES.fdr) as f64;
    assert!(counts.false_share <= listed, "{counts:?}");
}

#[test]
fn a_night_with_regressions_lists_them_and_few_others() {
    regressions_are_listed(FEW);
}

#[test]
#[ignore = "600 nights, another seed each time: make test-all"]
fn many_nights_with_regressions_list_them_and_few_others() {
    regressions_are_listed(many());
}

fn regressions_are_listed(numbers: Range<u64>) {
    let count = count(&numbers);
    let counts = nights(numbers, 5, 0.02);
    println!("nights, 5 of 20 plans worse by 6 %, at 2 % each: {counts:?}");
    // The mean share of false positives is at most the false discovery rate.
    let listed = most(count, RATES.fdr) as f64;
    assert!(counts.false_share <= listed, "{counts:?}");
    assert!(counts.listed > counts.worse / 4, "{counts:?}");
    let gates = u64::from(counts.with_wrong_gate);
    assert!(gates <= most(count, RATES.gate), "{counts:?}");
}

#[test]
fn plans_at_the_error_rate_of_their_night_trip_the_gate_with_what_they_call_worse() {
    let error_rate = error_rate_of_plans(RATES.gate, PLANS as usize);
    assert!((error_rate - 0.005).abs() < 1e-12);
    let counts = nights(0..20, 5, error_rate);
    println!("20 nights, 5 of 20 plans worse by 6 %, --family-wise: {counts:?}");
    assert_eq!(counts.listed, counts.tripping, "{counts:?}");
    assert!(counts.tripping > 25, "{counts:?}");
}

#[test]
fn plans_without_a_run_count_among_the_comparisons() {
    let mut plans = vec![
        plan("a", vec![compared("7.2", "7.2", 0.9, 0.004)]),
        PlanSummary {
            planned: 19,
            state: State::NotBegun,
            run: None,
            ..plan("b", Vec::new())
        },
    ];
    assert_eq!(adjust(&mut plans, RATES), 20);
    let standing = plans[0].run.as_ref().unwrap().comparisons[0].night.unwrap();
    assert!((standing.fwer_worse - 0.08).abs() < 1e-12 && !standing.trips_gate);
    assert!((standing.fdr_worse - 0.08).abs() < 1e-12 && standing.is_regression);
}

/// Nights of one plan: the kernel of its arm, and the ratio.
fn history(nights: &[(&str, f64)]) -> Index {
    let mut of_nights = Vec::new();
    for (number, (kernel, ratio)) in (1..).zip(nights) {
        let mut plan = plan("web-static", vec![compared("rc", kernel, *ratio, 1.0)]);
        let run = plan.run.as_mut().unwrap();
        run.begun = format!("2026-11-{number:02}T00:00:00Z");
        if number > 6 {
            run.machine = "another machine".into();
        }
        of_nights.push(OfNight {
            name: format!("{number:02}"),
            noted: String::new(),
            plans: vec![plan],
        });
    }
    // `index` must sort them.
    of_nights.reverse();
    index(of_nights, RATES).unwrap()
}

#[test]
fn a_night_without_any_run_can_be_the_newest() {
    let night = |name: &str, noted: &str, run: Option<RunSummary>| OfNight {
        name: name.into(),
        noted: noted.into(),
        plans: vec![PlanSummary {
            run,
            ..plan("web", Vec::new())
        }],
    };
    let mut run = run_summary("web", Vec::new());
    run.begun = "2026-11-20T00:00:00Z".into();
    let nights = vec![
        night("failed", "2026-11-21T00:00:00Z", None),
        night("green", "2026-11-22T00:00:00Z", Some(run)),
    ];
    let index = index(nights, RATES).unwrap();
    let order: Vec<&str> = index.nights.iter().map(|night| &*night.name).collect();
    assert_eq!(order, ["green", "failed"]);
    assert_eq!(
        (&*index.night, &*index.begun),
        ("failed", "2026-11-21T00:00:00Z")
    );
}

#[test]
fn a_change_over_nights_is_reported_with_what_else_changed() {
    let ratios = [
        1.0, 1.002, 0.999, 1.001, 1.003, 0.998, 0.95, 0.949, 0.951, 0.952, 0.948, 0.953,
    ];
    let index = history(&ratios.map(|ratio| ("7.2", ratio)));
    assert_eq!((index.night.as_str(), index.nights.len()), ("12", 12));
    let trend = &index.trends[0];
    assert_eq!((trend.along, trend.points.len()), (Along::Nights, 12));
    assert_eq!(trend.points[0].label, "01");
    let [change] = trend.changes.as_slice() else {
        panic!("{:?}", trend.changes);
    };
    assert_eq!((change.before, change.after), (5, 6));
    assert!(change.is_worse && change.is_beyond_margin);
    assert!((0.949..0.952).contains(&change.ratio), "{}", change.ratio);
    assert_eq!(change.beside, [Beside::Machine]);
}

#[test]
fn nights_with_different_kernels_are_ordered_by_version() {
    let index = history(&[("7.3.0", 1.0), ("7.3.0-rc2", 1.1), ("7.3.0-rc10", 1.2)]);
    let trend = &index.trends[0];
    assert_eq!(trend.along, Along::VersionsOfNights);
    let labels: Vec<&str> = trend.points.iter().map(|point| &*point.label).collect();
    assert_eq!(labels, ["7.3.0-rc2", "7.3.0-rc10", "7.3.0"]);
    assert!(trend.changes.is_empty() && trend.least_points == 8);
}

#[test]
fn kernels_are_named_as_their_makers_do() {
    let debian = "Linux version 6.17.8+deb13-cloud-amd64 (debian-kernel@lists.debian.org) (gcc-14) #1 SMP \
        PREEMPT_DYNAMIC Debian 6.17.8-1~bpo13+1 (2025-11-23)";
    assert_eq!(version(debian), "6.17.8-1~bpo13+1");
    assert_eq!(
        version("Linux version 7.3.0-rc2+ (me@here) (gcc) #12 SMP Mon"),
        "7.3.0-rc2+"
    );
    assert_eq!(by_version("6.9", "6.12.1-1"), Ordering::Less);
}
