//! What one boot of the fake machine measures.

use std::collections::BTreeMap;
use std::time::Duration;

use base::latency::Latency;
use record::evidence::{Cpu, Facts, Memory, Sample};
use record::fact;
use record::hardware_counters::HardwareCounters;
use record::load::{LoadResult, Second};
use record::metric::{Direction, Figure, Role};
use record::trial::{JobResult, Measurement, Metered};

use crate::guest::GuestEvent;

/// What one boot measures.
#[derive(Clone, Copy)]
pub(super) struct Truth<'t> {
    pub(super) arm: &'t str,
    pub(super) counters: Option<&'t HardwareCounters>,
    pub(super) rate_per_s: f64,
    pub(super) steal_ms: u64,
}

/// The messages that tell a result, a second after what came before.
pub(super) fn results(result: JobResult) -> impl Iterator<Item = (Duration, GuestEvent)> {
    let at_once = |word| (Duration::ZERO, GuestEvent::Said(Box::new(word)));
    let mut events: Vec<_> = record::protocol::result_messages(result)
        .map(at_once)
        .collect();
    events[0].0 = Duration::from_secs(1);
    events.into_iter()
}

/// A job that took less than no time.
pub(super) fn lie(truth: &Truth<'_>) -> JobResult {
    let mut result = done(truth);
    result.measurement.figures[1].value = -1.0;
    result
}

/// The system in the only second of a job.
pub(super) fn sample(steal_ms: u64) -> Sample {
    let cpu = Cpu {
        user_ms: 400 - steal_ms / 2,
        system_ms: 500 - steal_ms / 2,
        idle_ms: 100,
        steal_ms,
        ..Cpu::default()
    };
    let memory = Memory {
        total_bytes: 1 << 30,
        available_bytes: 1 << 29,
        ..Memory::default()
    };
    Sample {
        at_ms: 1000,
        interval_ms: 1000,
        cpu,
        memory,
        ..Sample::default()
    }
}

/// What a job of one second yields.
pub(super) fn done(truth: &Truth<'_>) -> JobResult {
    let Truth {
        arm,
        counters,
        rate_per_s,
        ..
    } = *truth;
    let mean_us = 1e6 / rate_per_s;
    let facts = BTreeMap::from([(
        fact::KERNEL_VERSION.to_string(),
        format!("fake kernel {arm}"),
    )]);
    let measurement = Measurement {
        figures: vec![
            Figure::new(
                "throughput",
                "requests/s",
                Direction::Higher,
                Role::Primary,
                rate_per_s,
            ),
            Figure::new(
                "latency-mean",
                "us",
                Direction::Lower,
                Role::Secondary,
                mean_us,
            ),
        ],
        load: Some(load(rate_per_s)),
        hardware_counters: counters.map(|counters| served(counters, rate_per_s / 1000.0)),
        kernel: format!("fake {arm}"),
        server: "fake server 1.0".into(),
        ..Measurement::default()
    };
    JobResult {
        measurement,
        metered: Metered {
            window_ns: 1_000_000_000,
            busy_ns: 900_000_000,
        },
        facts: Facts {
            version: 1,
            values: facts,
            ..Facts::default()
        },
    }
}

/// What counters say of so many times the work.
fn served(counters: &HardwareCounters, times: f64) -> HardwareCounters {
    let mut counters = counters.clone();
    if let HardwareCounters::Counted(window) = &mut counters {
        for counts in window.services.values_mut().chain([&mut window.system]) {
            counts.instructions *= times;
            counts.cycles *= times;
            for misses in [&mut counts.branch_misses, &mut counts.llc_misses] {
                *misses = misses.map(|misses| misses * times);
            }
        }
    }
    counters
}

/// One client for a second, latencies spread evenly around their mean.
fn load(rate_per_s: f64) -> LoadResult {
    let ok = rate_per_s.round() as u64;
    let mut latency = Latency::new();
    for step in 0..100 {
        latency.record((1e9 / rate_per_s * (0.5 + f64::from(step) / 100.0)) as u64);
    }
    LoadResult {
        window_ns: 1_000_000_000,
        planned: ok,
        ok,
        ok_in_window: ok,
        connections_asked: 1,
        connections_opened: 1,
        body_bytes: ok * 1000,
        latency,
        timeline: vec![Second {
            ok,
            body_bytes: ok * 1000,
            ..Second::default()
        }],
        client_cpu_ns: vec![100_000_000],
        engine: "fake".into(),
        ..LoadResult::default()
    }
}
