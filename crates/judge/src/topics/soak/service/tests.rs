use record::prng::SplitMix64;

use super::*;

/// Seconds of so many right answers, each of so many milliseconds.
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

fn timeline(of: impl Fn(u64) -> (u64, f64)) -> Vec<Second> {
    let each = |at_s| {
        let (ok, latency_ms) = of(at_s);
        second(at_s, ok, latency_ms)
    };
    (0..300).map(each).collect()
}

fn recovered(of: impl Fn(u64) -> (u64, f64)) -> Recovery {
    recovery(&timeline(of), 100_000, &Band::default())
}

#[test]
fn service_that_stays_needs_no_recovery() {
    assert_eq!(recovered(|_| (50, 2.0)), Recovery::After(0));
    // Whatever was usual before is no disturbance.
    assert_eq!(recovered(|at_s| (40 + at_s % 20, 2.0)), Recovery::After(0));
}

#[test]
fn recovery_begins_with_the_first_second_of_those_that_hold() {
    let out = |at_s: u64| (100..123).contains(&at_s);
    let none = |at_s| if out(at_s) { (0, 0.0) } else { (50, 2.0) };
    assert_eq!(recovered(none), Recovery::After(23_000));
    let slow = |at_s| (50, if out(at_s) { 9.0 } else { 2.0 });
    assert_eq!(recovered(slow), Recovery::After(23_000));
    // A relapse within the time that it must hold begins the time anew.
    let relapse = |at_s| {
        if out(at_s) || at_s == 130 {
            (5, 2.0)
        } else {
            (50, 2.0)
        }
    };
    assert_eq!(recovered(relapse), Recovery::After(31_000));
}

#[test]
fn what_does_not_come_back_is_said_not_to() {
    let never = |at_s| (if at_s < 100 { 50 } else { 20 }, 2.0);
    assert_eq!(recovered(never), Recovery::Never(200_000));
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
    let found = outage(&timeline(|at_s| (if out(at_s) { 0 } else { 40 }, 2.0))).unwrap();
    assert_eq!((found.at_ms, found.length_ms), (50_000, 12_000));
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
fn an_outage_is_a_disturbances_for_as_long_as_that_lasts() {
    // Nothing is answered from 50 to 62, and from 70 to 73.
    let out = |at_s: u64| (50..62).contains(&at_s) || (70..73).contains(&at_s);
    let seconds = timeline(|at_s| (if out(at_s) { 0 } else { 40 }, 2.0));
    let told = |seconds: &[Second], spans: &[PlannedSpan<'_>]| {
        let Outages { unplanned, planned } = outages(seconds, spans);
        let unplanned = unplanned.map(|one| (one.at_ms / 1000, one.length_ms / 1000));
        let planned = planned.map(|one| (one.at_ms / 1000, one.length_ms / 1000));
        (unplanned, planned)
    };
    let joined: Vec<Second> = seconds.chunks(20).map(Second::join).collect();
    for seconds in [&seconds, &joined] {
        assert_eq!(told(seconds, &[]), (Some((50, 12)), None));
        let all = [span(49_500, 62_000)];
        assert_eq!(told(seconds, &all), (Some((70, 3)), Some((50, 12))));
        // It was over after five seconds, and service was not.
        let short = [span(50_000, 55_000)];
        assert_eq!(told(seconds, &short), (Some((55, 7)), Some((50, 5))));
        // Between two of them three seconds are nobody's.
        let two = [
            span(49_500, 55_000),
            span(58_000, 62_100),
            span(70_000, 73_000),
        ];
        assert_eq!(told(seconds, &two), (Some((55, 3)), Some((50, 5))));
        let endless = [span(50_000, u64::MAX)];
        assert_eq!(told(seconds, &endless), (None, Some((50, 12))));
    }
}

/// A normal number, nearly.
fn normal(prng: &mut SplitMix64) -> f64 {
    (0..12).map(|_| prng.unit()).sum::<f64>() - 6.0
}

/// A series in which each value keeps this share of the one before.
fn series(prng: &mut SplitMix64, keeps: f64) -> Vec<f64> {
    let fresh = (1.0 - keeps * keeps).sqrt();
    let mut now = normal(prng);
    let mut next = || {
        now = keeps * now + fresh * normal(prng);
        now
    };
    (0..BATCHES).map(|_| next()).collect()
}

/// How often a change is found at an error rate of 1 % where there is none.
fn false_changes(keeps: f64) -> u32 {
    let mut prng = SplitMix64::new(41);
    let found = |prng: &mut SplitMix64| pettitt(&series(prng, keeps)).unwrap().1 <= 0.01;
    (0..1000).filter(|_| found(&mut prng)).count() as u32
}

#[test]
fn few_changes_are_found_where_there_are_none_however_neighbours_hang_together() {
    for keeps in [0.0, 0.5, 0.9, 0.99, 1.0 - 1e-9] {
        let found = false_changes(keeps);
        // Ten are to be expected at the most; so many more are chance.
        assert!(found <= 16, "{keeps}: {found} of 1000");
    }
}

#[test]
fn a_change_of_three_deviations_is_found_at_its_place() {
    let mut prng = SplitMix64::new(5);
    let mut found = 0;
    for _ in 0..200 {
        let mut values = series(&mut prng, 0.0);
        values[32..].iter_mut().for_each(|value| *value += 3.0);
        let (place, p_value) = pettitt(&values).unwrap();
        found += u32::from(p_value <= 0.005 && place.abs_diff(32) <= 2);
    }
    assert!(found >= 160, "{found} of 200");
}
