//! Nights of simulated plans, with a known truth: both error rates are counted.

use record::fixtures::night::{run_summary, throughput};
use record::night::State;
use record::verdict::Pair;

use super::*;
use stats::counts::{least, most};
use stats::noise_models::{QUIET, REFERENCE, pairs};
use stats::rule;
use stats::rule::decisions_at_stop;

/// Plans of a simulated night.
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
        night: Some(alone(PValues {
            worse: p_worse,
            better: 1.0,
        })),
    }
}

/// A plan that runs to its end on a machine that makes `effect` of its arm, at an error rate of its own.
fn simulated(seed: u64, effect: f64, error_rate: f64) -> Compared {
    let noise = if seed.is_multiple_of(2) {
        QUIET
    } else {
        REFERENCE
    };
    let design = plan::Design {
        margin: 0.01,
        error_rate,
        min_blocks: 4,
        max_blocks: 13,
        more_blocks: 0,
        seed,
        arms: 0,
    };
    let all: Vec<Pair> = pairs(noise, effect, 13, (seed, 0));
    let series = |pairs| rule::Series {
        pairs,
        direction: Direction::Higher,
    };
    let decision = decisions_at_stop(&[series(&all)], &design, "")[0];
    let (verdict, blocks) = decision.map_or((Verdict::Undecided, all.len()), |one| {
        (one.verdict, one.at_block)
    });
    let p_worse = match verdict {
        Verdict::Worse => p_value::of_series(series(&all[..blocks]), verdict, &design, ("", false)),
        Verdict::Better | Verdict::Equivalent | Verdict::Undecided => 1.0,
    };
    compared("7.2", "7.2", 1.0, p_worse)
}

/// What came of some nights.
#[derive(Debug, Default)]
struct Nights {
    all: u32,
    /// With an arm that any run called worse and that is not.
    with_wrong_run: u32,
    /// In which the gate tripped on an arm that is not worse.
    with_wrong_gate: u32,
    /// Sum over nights of the share of false ones in the list.
    false_share: f64,
    /// Arms that are worse, and how many of them are in the list and trip the gate.
    worse: u32,
    listed: u32,
    tripping: u32,
}

/// Nights of plans of which the first few have an arm that is worse by 6 %; `first` is the number of the first night.
fn nights((first, count): (u64, u64), worse: u64, error_rate: f64) -> Nights {
    let mut found = Nights::default();
    for night in first..first + count {
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
        assert_eq!(stand(&mut plans, RATES), PLANS as usize);
        let all: Vec<NightStanding> = plans
            .iter()
            .flat_map(|plan| plan.run.iter().flat_map(|run| &run.comparisons))
            .filter_map(|one| one.night)
            .collect();
        let (truly, equal) = all.split_at(worse as usize);
        let listed = |some: &[NightStanding]| some.iter().filter(|one| one.is_regression).count();
        let is = |test: fn(&NightStanding) -> bool| u32::from(equal.iter().any(test));
        found.all += 1;
        found.with_wrong_run += is(|one| one.p_worse < 1.0);
        found.with_wrong_gate += is(|one| one.trips_gate);
        found.false_share += listed(equal) as f64 / listed(&all).max(1) as f64;
        found.worse += worse as u32;
        found.listed += listed(truly) as u32;
        found.tripping += truly.iter().filter(|one| one.trips_gate).count() as u32;
    }
    found
}

/// Nights of the ordinary tests, and of `make test-all`: the first night's number, and how many.
const FEW: (u64, u64) = (0, 40);

fn many() -> (u64, u64) {
    (base::skip::seed(0), 600)
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

fn equal_arms_trip_their_gate(some: (u64, u64)) {
    let found = nights(some, 0, error_rate_of_plans(RATES.gate, PLANS as usize));
    println!("nights of 20 equal plans, --family-wise: {found:?}");
    let wrong = u64::from(found.with_wrong_gate);
    // Sign flips are few, so that not all of a plan's small error rate can be reached.
    let fewest = least(some.1, RATES.gate / 2.0);
    assert!(
        (fewest..=most(some.1, RATES.gate)).contains(&wrong),
        "{found:?}"
    );
    assert_eq!(found.with_wrong_gate, found.with_wrong_run, "{found:?}");
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

fn the_gate_holds(some: (u64, u64)) {
    let found = nights(some, 0, 0.05);
    println!("nights of 20 equal plans at 5 % each: {found:?}");
    let (count, runs) = (some.1, u64::from(found.with_wrong_run));
    // Half of the error rate is that of "worse": 1 - 0.975^20 of the nights at the most.
    assert!(
        runs > least(count, 0.3) && runs <= most(count, 0.4),
        "{found:?}"
    );
    let gates = u64::from(found.with_wrong_gate);
    assert!(gates <= most(count, RATES.gate), "{found:?}");
    // Where all are equal, the list's rate is the chance of any.
    let listed = most(count, RATES.fdr) as f64;
    assert!(found.false_share <= listed, "{found:?}");
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

fn regressions_are_listed(some: (u64, u64)) {
    let found = nights(some, 5, 0.02);
    println!("nights, 5 of 20 plans worse by 6 %, at 2 % each: {found:?}");
    // A night's share of false ones is one at the most, and its mean what is promised.
    let listed = most(some.1, RATES.fdr) as f64;
    assert!(found.false_share <= listed, "{found:?}");
    assert!(found.listed > found.worse / 4, "{found:?}");
    let gates = u64::from(found.with_wrong_gate);
    assert!(gates <= most(some.1, RATES.gate), "{found:?}");
}

#[test]
fn plans_at_the_error_rate_of_their_night_trip_the_gate_with_what_they_call_worse() {
    let error_rate = error_rate_of_plans(RATES.gate, PLANS as usize);
    assert!((error_rate - 0.005).abs() < 1e-12);
    let found = nights((0, 20), 5, error_rate);
    println!("20 nights, 5 of 20 plans worse by 6 %, --family-wise: {found:?}");
    assert_eq!(found.listed, found.tripping, "{found:?}");
    assert!(found.tripping > 25, "{found:?}");
}

#[test]
fn what_has_not_been_run_counts_among_the_comparisons() {
    let mut plans = vec![
        plan("a", vec![compared("7.2", "7.2", 0.9, 0.004)]),
        PlanSummary {
            planned: 19,
            state: State::NotBegun,
            run: None,
            ..plan("b", Vec::new())
        },
    ];
    assert_eq!(stand(&mut plans, RATES), 20);
    let standing = plans[0].run.as_ref().unwrap().comparisons[0].night.unwrap();
    assert!((standing.fwer_worse - 0.08).abs() < 1e-12 && !standing.trips_gate);
    assert!((standing.fdr_worse - 0.08).abs() < 1e-12 && standing.is_regression);
}

/// Nights of one plan: the kernel of its arm, and the ratio.
fn history(nights: &[(&str, f64)]) -> Index {
    let night = |(number, (kernel, ratio)): (usize, &(&str, f64))| {
        let mut its = plan("web-static", vec![compared("rc", kernel, *ratio, 1.0)]);
        let run = its.run.as_mut().unwrap();
        run.begun = format!("2026-11-{:02}T00:00:00Z", number + 1);
        if number >= 6 {
            run.machine = "another machine".into();
        }
        OfNight {
            name: format!("{:02}", number + 1),
            noted: String::new(),
            plans: vec![its],
        }
    };
    // Backwards: their order is that of their times.
    let nights = nights.iter().enumerate().map(night).rev().collect();
    index(nights, RATES).unwrap()
}

#[test]
fn a_night_in_which_no_plan_could_run_is_the_newest_all_the_same() {
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
    let order: Vec<&str> = index.nights.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(order, ["green", "failed"]);
    assert_eq!(
        (&*index.night, &*index.begun),
        ("failed", "2026-11-21T00:00:00Z")
    );
}

#[test]
fn a_change_over_nights_is_told_with_what_changed_beside_it() {
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
fn nights_of_a_kernel_each_go_by_version() {
    let index = history(&[("7.3.0", 1.0), ("7.3.0-rc2", 1.1), ("7.3.0-rc10", 1.2)]);
    let trend = &index.trends[0];
    assert_eq!(trend.along, Along::VersionsOfNights);
    let labels: Vec<&str> = trend.points.iter().map(|one| one.label.as_str()).collect();
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
