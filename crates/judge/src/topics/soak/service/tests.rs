use record::prng::SplitMix64;

use super::*;

/// A second with `ok` right answers, each after `latency_ms`.
fn second(at_s: u64, ok: u64, latency_ms: f64) -> Second {
    let mut latency = Latency::coarse();
    (0..ok).for_each(|_| latency.record((latency_ms * 1e6) as u64));
    Second {
        at_ms: at_s * 1000,
        ok,
        latency: latency.pack(),
        ..Second::default()
    }
}

/// `answers` gives the number of right answers in each second, and their latency in ms.
fn timeline(answers: impl Fn(u64) -> (u64, f64)) -> Vec<Second> {
    let second = |at_s| {
        let (ok, latency_ms) = answers(at_s);
        second(at_s, ok, latency_ms)
    };
    (0..300).map(second).collect()
}

fn recovery_after_100_s(answers: impl Fn(u64) -> (u64, f64)) -> Recovery {
    recovery(&timeline(answers), 100_000, &Band::default())
}

#[test]
fn service_that_stays_needs_no_recovery() {
    assert_eq!(recovery_after_100_s(|_| (50, 2.0)), Recovery::After(0));
    // Variation that was usual before is no disturbance.
    let varying = |at_s| (40 + at_s % 20, 2.0);
    assert_eq!(recovery_after_100_s(varying), Recovery::After(0));
}

#[test]
fn recovery_begins_with_the_first_second_of_those_that_hold() {
    let out = |at_s: u64| (100..123).contains(&at_s);
    let none = |at_s| if out(at_s) { (0, 0.0) } else { (50, 2.0) };
    assert_eq!(recovery_after_100_s(none), Recovery::After(23_000));
    let slow = |at_s| (50, if out(at_s) { 9.0 } else { 2.0 });
    assert_eq!(recovery_after_100_s(slow), Recovery::After(23_000));
    // A relapse within `hold_ms` restarts the time.
    let relapse = |at_s| {
        if out(at_s) || at_s == 130 {
            (5, 2.0)
        } else {
            (50, 2.0)
        }
    };
    assert_eq!(recovery_after_100_s(relapse), Recovery::After(31_000));
}

#[test]
fn service_that_stays_worse_never_recovers() {
    let never = |at_s| (if at_s < 100 { 50 } else { 20 }, 2.0);
    assert_eq!(recovery_after_100_s(never), Recovery::Never(200_000));
    assert_eq!(recovery(&[], 0, &Band::default()), Recovery::NotKnown);
    let all = timeline(|_| (50, 2.0));
    assert_eq!(recovery(&all, 0, &Band::default()), Recovery::NotKnown);
    assert_eq!(
        recovery(&all, 300_000, &Band::default()),
        Recovery::NotKnown
    );
}

#[test]
fn an_outage_is_found_and_idle_seconds_of_a_slow_load_are_none() {
    let out = |at_s: u64| (50..62).contains(&at_s);
    let outage = |timeline: &[Second]| outages(timeline, &[]).unplanned;
    let longest = outage(&timeline(|at_s| (if out(at_s) { 0 } else { 40 }, 2.0))).unwrap();
    assert_eq!((longest.at_ms, longest.length_ms), (50_000, 12_000));
    assert_eq!(outage(&timeline(|at_s| (at_s % 2, 2.0))), None);
    assert_eq!(outage(&timeline(|_| (40, 2.0))), None);
    assert_eq!(outage(&[]), None);
}

fn span(begin_ms: u64, until_ms: u64) -> PlannedSpan<'static> {
    PlannedSpan {
        name: "cable",
        begin_ms,
        until_ms,
    }
}

#[test]
fn an_outage_is_planned_while_a_disturbance_lasts() {
    // No answers from 50 to 62 s, and from 70 to 73 s.
    let out = |at_s: u64| (50..62).contains(&at_s) || (70..73).contains(&at_s);
    let seconds = timeline(|at_s| (if out(at_s) { 0 } else { 40 }, 2.0));
    // Begin and length in seconds, of the unplanned and the planned outage.
    let found = |seconds: &[Second], spans: &[PlannedSpan<'_>]| {
        let Outages { unplanned, planned } = outages(seconds, spans);
        let unplanned = unplanned.map(|outage| (outage.at_ms / 1000, outage.length_ms / 1000));
        let planned = planned.map(|outage| (outage.at_ms / 1000, outage.length_ms / 1000));
        (unplanned, planned)
    };
    let joined: Vec<Second> = seconds.chunks(20).map(Second::join).collect();
    for seconds in [&seconds, &joined] {
        assert_eq!(found(seconds, &[]), (Some((50, 12)), None));
        let all = [span(49_500, 62_000)];
        assert_eq!(found(seconds, &all), (Some((70, 3)), Some((50, 12))));
        // The outage outlasts the disturbance.
        let short = [span(50_000, 55_000)];
        assert_eq!(found(seconds, &short), (Some((55, 7)), Some((50, 5))));
        // Three seconds lie between two disturbances.
        let two = [
            span(49_500, 55_000),
            span(58_000, 62_100),
            span(70_000, 73_000),
        ];
        assert_eq!(found(seconds, &two), (Some((55, 3)), Some((50, 5))));
        let endless = [span(50_000, u64::MAX)];
        assert_eq!(found(seconds, &endless), (None, Some((50, 12))));
    }
}

/// An approximately normal random number.
fn normal(prng: &mut SplitMix64) -> f64 {
    (0..12).map(|_| prng.unit()).sum::<f64>() - 6.0
}

/// An AR(1) series: `correlation` is that of neighbours.
fn series(prng: &mut SplitMix64, correlation: f64) -> Vec<f64> {
    let innovation = (1.0 - correlation * correlation).sqrt();
    let mut value = normal(prng);
    let mut next = || {
        value = correlation * value + innovation * normal(prng);
        value
    };
    (0..BATCHES).map(|_| next()).collect()
}

/// False positives in 1000 series without a change, at an error rate of 1 %.
fn false_changes(correlation: f64) -> u32 {
    let mut prng = SplitMix64::new(41);
    let found = |prng: &mut SplitMix64| pettitt(&series(prng, correlation)).unwrap().1 <= 0.01;
    (0..1000).filter(|_| found(&mut prng)).count() as u32
}

#[test]
fn false_changes_are_few_at_any_autocorrelation() {
    for correlation in [0.0, 0.5, 0.9, 0.99, 1.0 - 1e-9] {
        let count = false_changes(correlation);
        // At most ten are expected; up to six more are chance.
        assert!(count <= 16, "{correlation}: {count} of 1000");
    }
}

#[test]
fn a_change_of_three_deviations_is_found_at_its_place() {
    let mut prng = SplitMix64::new(5);
    let mut detected = 0;
    for _ in 0..200 {
        let mut values = series(&mut prng, 0.0);
        values[32..].iter_mut().for_each(|value| *value += 3.0);
        let (place, p_value) = pettitt(&values).unwrap();
        detected += u32::from(p_value <= 0.005 && place.abs_diff(32) <= 2);
    }
    assert!(detected >= 160, "{detected} of 200");
}
