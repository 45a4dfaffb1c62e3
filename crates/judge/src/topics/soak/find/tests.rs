use std::ops::Range;

use record::verdict::soak::GrowthPlace;

use super::*;
use crate::judge;
use record::fixtures::builder::{RunBuilder, measurement};

/// A run of one block: two trials of six hours, with a timeline by the minute and counters.
fn run(ok_per_s: [u64; 2], leak_bytes_per_h: [u64; 2]) -> Run {
    let rates = ok_per_s.map(|rate| rate as f64);
    RunBuilder::new()
        .blocks(&[rates])
        .with(|run| {
            run.plan.workloads[0].length = std::time::Duration::from_secs(6 * 3600);
            for (index, record) in run.attempts.iter_mut().enumerate() {
                let measurement = record.outcome.measured_mut().unwrap();
                let load = measurement.load.as_mut().unwrap();
                load.timeline = timeline(ok_per_s[index]);
                load.faults.clear();
                load.window_ns = 6 * 3600 * 1_000_000_000;
                run.long.push(LongEvidence {
                    trial: record.trial.clone(),
                    attempt: record.attempt,
                    counters: leaking(leak_bytes_per_h[index]),
                    seconds: Vec::new(),
                    disturbances: Vec::new(),
                });
            }
        })
        .run()
}

/// Six hours, by the minute.
fn timeline(ok_per_s: u64) -> Vec<Second> {
    let mut latency = base::latency::Latency::coarse();
    (0..60).for_each(|ms| latency.record(1_000_000 * (ms + 1)));
    let latency = latency.pack();
    let minute = |minute: u64| {
        // A little variation.
        let ok = 60 * ok_per_s + minute * 7919 % 13;
        Second {
            at_ms: minute * 60_000,
            ok,
            latency: latency.clone(),
            joined: Some(record::load::JoinedSeconds {
                length_ms: 60_000,
                least_ok: ok_per_s,
                most_ok: ok_per_s,
                ..record::load::JoinedSeconds::default()
            }),
            ..Second::default()
        }
    };
    (0..360).map(minute).collect()
}

fn leaking(per_h: u64) -> Vec<Counters> {
    let reading = |minute: u64| {
        let noise = minute * 7919 % 1000;
        let values = [
            ("slab:filp", (1 << 20) + per_h * minute / 60 + noise),
            ("slab:other", (1 << 20) + minute * 104_729 % 5000),
            (counters::MEMORY_USED, (200 << 20) + noise),
            (counters::SWAP_USED, 0),
        ];
        let limits = (minute == 0).then(|| (counters::MEMORY_TOTAL.to_string(), 1 << 30));
        Counters {
            at_ms: (minute * 60_000).cast_signed(),
            values: values.map(|(name, value)| (name.to_string(), value)).into(),
            limits: limits.into_iter().collect(),
            joined: None,
        }
    };
    (0..360).map(reading).collect()
}

fn soak(run: &Run) -> Soak {
    judge(run).soaks.remove(0)
}

#[test]
fn a_pair_of_long_trials_has_a_speed_without_a_verdict() {
    let soak = soak(&run([100, 110], [0, 0]));
    assert_eq!(soak.growth, []);
    let [speed] = &soak.speed[..] else {
        panic!("{:?}", soak.speed)
    };
    assert!(1.09 < speed.low && speed.low < speed.ratio, "{speed:?}");
    assert!(speed.ratio < speed.high && speed.high < 1.11, "{speed:?}");
    let arm = &soak.arms[0];
    assert_eq!((arm.hours, arm.failures, arm.failure_hours), (6, 0, 0));
    assert_eq!(arm.by_hour.len(), 6);
    assert_eq!(arm.by_hour[0].length_ms, HOUR_MS);
    assert_eq!(
        arm.by_hour[5].memory_used_bytes.map(|bytes| bytes >> 20),
        Some(200)
    );
    assert_eq!(arm.by_hour[0].swap_used_bytes, Some(0));
    assert!(arm.failure_bound.unwrap() < 1.5e-6);
    assert_eq!((arm.outage, arm.changes.len()), (None, 0));
    // A short run is no soak.
    assert_eq!(
        judge(&RunBuilder::new().blocks(&[[1.0, 2.0]]).run()).soaks,
        []
    );
}

#[test]
fn a_leak_is_found_in_its_arm() {
    let soak = soak(&run([100, 100], [0, 8 << 20]));
    let [grown] = &soak.growth[..] else {
        panic!("{:?}", soak.growth)
    };
    assert_eq!(grown.counter, "slab:filp");
    assert_eq!(grown.against[0].place, GrowthPlace::ArmOnly);
    let arm = &grown.arms[1];
    assert!(
        (arm.per_h / f64::from(8 << 20) - 1.0).abs() < 0.01,
        "{arm:?}"
    );
    // 8 MiB per hour for six hours, as a share of 1 GiB.
    assert!((arm.share_after.unwrap() - 48.0 / 1024.0).abs() < 0.001);
}

#[test]
fn a_trial_that_was_cut_short_counts_up_to_its_end() {
    let mut run = run([100, 100], [0, 0]);
    run.attempts[1].outcome = Outcome::Void(record::trial::Void {
        reason: VoidReason::Silent,
        detail: String::new(),
        console: Vec::new(),
    });
    run.facts[1] = None;
    let mut seconds = timeline(100);
    seconds.truncate(90);
    seconds[80].faults = 5;
    run.long[1].seconds = seconds;
    let soak = soak(&run);
    let arm = &soak.arms[1];
    assert_eq!((arm.trials, arm.failures, arm.failure_hours), (1, 5, 1));
    assert_eq!(arm.cut_short[0].at_ms, 90 * 60_000);
    assert_eq!(arm.cut_short[0].reason, VoidReason::Silent);
    assert_eq!(soak.speed, []);
}

/// Adds a disturbance to a trial, during some minutes of its window.
fn disturb(run: &mut Run, index: usize, minutes: Range<usize>, failed: u64) {
    let measurement = measurement(run, index);
    measurement.disturbances.push(DisturbanceRecord {
        name: "loss".into(),
        begin_ms: minutes.start as u64 * 60_000,
        end_ms: minutes.end as u64 * 60_000,
        effect: record::disturbances::Effect::Unfelt {
            counts: BTreeMap::new(),
        },
        service: Some(record::disturbances::ServiceAround {
            before_per_s: 100.0,
            during_per_s: 50.0,
            failed,
            failed_after: 0,
            counted_before: 0,
            recovery_ms: Some(0),
            watched_ms: 60_000,
        }),
    });
    let load = measurement.load.as_mut().unwrap();
    load.faults.insert(record::load::Fault::Reset, failed);
    let failed_per_minute = failed / minutes.len() as u64;
    for minute in &mut load.timeline[minutes] {
        minute.ok /= 2;
        minute.faults = failed_per_minute;
    }
}

#[test]
fn the_failure_bound_excludes_requests_during_disturbances() {
    let mut run = run([100, 100], [0, 0]);
    disturb(&mut run, 1, 60..120, 600);
    let arm = &soak(&run).arms[1];
    assert_eq!((arm.failures, arm.planned_failures), (0, 600));
    let load = measurement(&mut run, 1).load.as_ref().unwrap();
    let ok: u64 = load.timeline[60..120].iter().map(|minute| minute.ok).sum();
    assert_eq!(arm.disturbed_requests, ok + 600);
    let others = arm.requests - arm.disturbed_requests;
    assert_eq!(arm.failure_bound, upper_bound(0, others));
}

/// A disturbance fills memory for an hour.
#[test]
fn readings_during_disturbances_hide_no_leak() {
    let mut run = run([100, 100], [0, 8 << 20]);
    disturb(&mut run, 1, 150..210, 0);
    for reading in &mut run.long[1].counters[150..210] {
        *reading.values.get_mut("slab:filp").unwrap() += 400 << 20;
    }
    let soak = soak(&run);
    let [grown] = &soak.growth[..] else {
        panic!("{:?}", soak.growth)
    };
    assert_eq!(grown.against[0].place, GrowthPlace::ArmOnly);
    let per_h = grown.arms[1].per_h / f64::from(8 << 20);
    assert!((0.99..1.01).contains(&per_h), "{per_h}");
}

#[test]
fn counters_that_end_early_leave_growth_unknown() {
    let mut run = run([100, 100], [0, 0]);
    run.long[1].counters.truncate(300);
    let soak = soak(&run);
    let known: Vec<bool> = soak.arms.iter().map(|arm| arm.has_counters).collect();
    assert_eq!(known, [true, false]);
}

/// A part of the window without any answer still has a mean rate.
#[test]
fn speed_is_shown_beside_an_outage() {
    let mut run = run([100, 100], [0, 0]);
    let measurement = measurement(&mut run, 1);
    let timeline = &mut measurement.load.as_mut().unwrap().timeline;
    for minute in &mut timeline[90..126] {
        minute.ok = 0;
    }
    let soak = soak(&run);
    let [speed] = &soak.speed[..] else {
        panic!("{:?}", soak.speed)
    };
    assert!((speed.ratio - 0.9).abs() < 0.001, "{speed:?}");
    assert!(speed.low < 0.9 && 0.9 < speed.high, "{speed:?}");
}
