//! What a fake guest samples: a server whose requests all cost the same but for one function, which takes what is left of the time.

use std::collections::VecDeque;
use std::time::Duration;

use profiler::format;
use profiler::profile::{
    Clock, Count, Counter, CounterUnit, Kind, Node, Profile, Sampling, Window, mark,
};
use record::metric::{Direction, Figure, Role};
use record::protocol::{FromAgent, ProfilePart};
use record::trial::Measurement;

use crate::guest::GuestEvent;

/// What a request costs in the kernel, in nanoseconds.
const KERNEL_NS: u64 = 300_000;

/// What it costs where interrupts are switched on.
const BLIND_NS: u64 = 50_000;

/// Nanoseconds between samples.
const PERIOD_NS: u64 = 500_000;

/// Has the guest tell a profile before its result, whose figures then have the CPU time.
pub(super) fn tell(script: &mut VecDeque<(Duration, GuestEvent)>) {
    let is_done = |event: &GuestEvent| matches!(event, GuestEvent::Said(word) if matches!(**word, FromAgent::Done(_)));
    let Some(place) = script.iter().position(|(_, event)| is_done(event)) else {
        return;
    };
    let GuestEvent::Said(word) = &mut script[place].1 else {
        return;
    };
    let FromAgent::Done(result) = &mut **word else {
        return;
    };
    let served = result.measurement.load.as_ref().map_or(0, |load| load.ok);
    add_cpu_time(&mut result.measurement, served);
    let bytes = format::write(&profile(served));
    let parts: Vec<_> = ProfilePart::parts(&bytes).collect();
    for part in parts.into_iter().rev() {
        let word = Box::new(FromAgent::Profile(part));
        script.insert(place, (Duration::ZERO, GuestEvent::Said(word)));
    }
}

fn add_cpu_time(measurement: &mut Measurement, served: u64) {
    let per_request = 1e9 / served.max(1) as f64;
    let (lower, secondary) = (Direction::Lower, Role::Secondary);
    let cpu_time = Figure::new("cpu-time", "ns/request", lower, secondary, per_request);
    measurement.figures.push(cpu_time);
}

/// One second of one CPU that is always busy.
fn profile(served: u64) -> Profile {
    let node = |parent, kind, name: &str, image: &str| Node {
        parent,
        kind,
        name: name.into(),
        image: image.into(),
    };
    let (kernel, blind) = (served * KERNEL_NS, served * BLIND_NS);
    let rest = 1_000_000_000_u64.saturating_sub(kernel + blind);
    let count = |node, ns: u64| Count {
        node,
        instructions: ns / PERIOD_NS * PERIOD_NS,
        ..Count::default()
    };
    let counts = vec![count(2, kernel), count(3, blind), count(4, rest)];
    let weight = counts.iter().map(|count| count.instructions).sum();
    Profile {
        nodes: vec![
            node(0, Kind::All, "", ""),
            node(0, Kind::Task, "nginx", ""),
            node(1, Kind::Kernel, "tcp_sendmsg_locked", ""),
            node(1, Kind::Kernel, "finish_task_switch.isra.0", ""),
            node(1, Kind::User, "deflate", "libz.so.1"),
        ],
        windows: vec![Window {
            marks: (mark::BEGIN, mark::END),
            instructions: weight,
            counts,
            ..Window::default()
        }],
        lacks: vec!["no cycle counter".into()],
        sampling: Some(Sampling {
            clock: Clock::CpuClock,
            frequency_hz: 2000,
            samples: weight / PERIOD_NS,
            lost: 1,
            outside: 0,
            cpu_ns: 1_000_000_000,
            counters: vec![Counter {
                name: "context-switches".into(),
                unit: CounterUnit::Events,
                value: 2 * served,
            }],
        }),
    }
}
