//! Figures that workloads share: from what clients saw and what the system used meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use record::curve::Curve;
use record::evidence::Sample;
use record::load::{Fault, LoadResult};
use record::metric::{Direction, Figure, Role};

use crate::Driven;

/// The metric that a sampled profile sums to.
pub const CPU_TIME: &str = "cpu-time";

/// The metric of what a request costs the server's own processes.
pub(crate) const SERVER_CPU: &str = "server-cpu";

/// All that figures are made of.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'s> {
    /// What the drive yielded.
    pub driven: &'s Driven,
    /// What the system used in the window.
    pub meter: &'s Meter,
    /// The system second by second, warm-up included.
    pub samples: &'s [Sample],
    /// Guest nanoseconds per executed instruction, when the clock counts instructions.
    pub ns_per_instruction: Option<u32>,
}

impl Seen<'_> {
    /// CPU time of a service. `None` where the clock counts instructions: the kernel charges by its ticks, and with so few tasks that
    /// take turns at them a kernel charges its servers up to a tenth too much or too little, the same in every trial.
    pub(crate) fn cpu(&self, service: &str) -> Option<Duration> {
        match self.ns_per_instruction {
            Some(_) => None,
            None => self.meter.services.get(service).copied(),
        }
    }
}

/// What the system used between the window's two ends, read exactly there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meter {
    /// From one reading to the other.
    pub window: Duration,
    /// Time that all CPUs together were not idle; see the agent's sampler for its source.
    pub busy: Duration,
    /// CPU time of each service, ended processes included.
    pub services: BTreeMap<String, Duration>,
}

/// What clients saw, if it can be believed: some answers were right and none had wrong content.
/// Other faults are figures, not grounds to throw a trial away.
pub fn believe<'s>(seen: &Seen<'s>) -> Result<&'s LoadResult, String> {
    let load = seen.driven.load.as_ref().ok_or("the clients saw nothing")?;
    let wrong = load.faults.get(&Fault::BadContent).copied().unwrap_or(0);
    if wrong > 0 {
        return Err(format!(
            "answers of the right length with wrong content: {wrong}"
        ));
    }
    if load.ok == 0 {
        return Err(format!("no answer was right: {}", show_faults(load)));
    }
    Ok(load)
}

fn show_faults(load: &LoadResult) -> String {
    let faults: Vec<_> = load
        .faults
        .iter()
        .map(|(fault, count)| format!("{} {count}", fault.name()))
        .collect();
    match faults.as_slice() {
        [] => format!("{} requests begun, no fault seen", load.planned),
        some => some.join(", "),
    }
}

/// The figures of every web workload in a closed loop, throughput first.
pub fn web(seen: &Seen<'_>, server: &str) -> Result<Vec<Figure>, String> {
    let load = believe(seen)?;
    if load.ok_in_window == 0 {
        return Err(format!(
            "no successful request ended within the window: {} ended later (measure for longer)",
            load.ok
        ));
    }
    let us = |ns: f64| ns / 1e3;
    let guard = |name, unit, value| guard(name, unit, Direction::Lower, value);
    let latency = |quantile| us(load.latency.quantile_ns(quantile) as f64);
    let mut figures = vec![
        Figure::new(
            "throughput",
            "requests/s",
            Direction::Higher,
            Role::Primary,
            load.ok_per_s(),
        ),
        guard("latency-mean", "us", us(load.latency.mean_ns())),
        guard("latency-p50", "us", latency(0.5)),
        guard("latency-p99", "us", latency(0.99)),
    ];
    if let Some(cpu) = seen.cpu(server) {
        // The server's processes only. What the kernel does in the clients' context, such as delivering
        // to the server's socket, is in instructions per request.
        let per_request = cpu.as_nanos() as f64 / load.ok_in_window as f64;
        figures.push(guard(SERVER_CPU, "us/request", us(per_request)));
    }
    figures.extend(instructions(seen, load));
    let ended = load.ok + load.fault_count();
    let failed = load.fault_count() as f64 / ended as f64;
    figures.push(guard("failed", "share", failed));
    Ok(figures)
}

/// What a system on the network used in the window, as it told; what it did not tell is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RemoteUse {
    /// CPUs that were busy, on average.
    pub busy_cpus: Option<f64>,
    /// Memory in use at the end, in bytes.
    pub memory_bytes: Option<f64>,
}

/// The figures of a system on the network.
pub fn remote(seen: &Seen<'_>, used: &RemoteUse) -> Vec<Figure> {
    let lower = |name, unit, value: Option<f64>| {
        value.map(|value| guard(name, unit, Direction::Lower, value))
    };
    let load = seen
        .driven
        .load
        .as_ref()
        .filter(|load| load.ok_in_window > 0);
    let per_request = used.busy_cpus.zip(load);
    let per_request = per_request
        .map(|(cpus, load)| cpus * load.window_ns as f64 / 1e3 / load.ok_in_window as f64);
    let memory = used.memory_bytes.map(|bytes| bytes / f64::from(1 << 20));
    let figures = [
        lower("system-cpu", "us/request", per_request),
        lower("system-memory", "MiB", memory),
    ];
    figures.into_iter().flatten().collect()
}

/// A figure that does not decide.
pub fn guard(name: &str, unit: &str, direction: Direction, value: f64) -> Figure {
    Figure::new(name, unit, direction, Role::Guard, value)
}

/// The same figures with another one to decide, which comes first then.
pub fn decided_by(mut figures: Vec<Figure>, name: &str) -> Vec<Figure> {
    for figure in &mut figures {
        figure.spec.role = if figure.spec.name == name {
            Role::Primary
        } else {
            Role::Guard
        };
    }
    figures.sort_by_key(|figure| figure.spec.role != Role::Primary);
    figures
}

/// The figures of clients that may have a rate: then the wait is what a server can be good at, and decides.
pub(crate) fn at_rate(rate_per_s: Option<u32>, web: Vec<Figure>) -> Vec<Figure> {
    match rate_per_s {
        Some(_) => decided_by(web, "latency-p99"),
        None => web,
    }
}

/// What a ramp of which more is better comes to, its peak first.
pub fn ramp(curve: &Curve) -> Result<Vec<Figure>, String> {
    let higher = |name, unit, value| guard(name, unit, Direction::Higher, value);
    let shape = curve
        .shape()
        .ok_or_else(|| format!("no step of the ramp had any {}", curve.name))?;
    Ok(vec![
        Figure::new(
            "peak",
            &curve.unit,
            curve.direction,
            Role::Primary,
            shape.peak.value,
        ),
        higher("peak-at", &curve.axis, shape.peak.at),
        higher("knee", &curve.axis, shape.knee),
        higher("kept-of-peak", "share", shape.kept),
    ])
}

/// CPU time that a sampled profile stands for, per right answer; nothing where none was served.
pub fn cpu_time(seen: &Seen<'_>, used: Duration) -> Option<Figure> {
    let load = seen.driven.load.as_ref()?;
    // Both sides per nanosecond, as of instructions.
    let per_ns = load.ok_in_window as f64 / load.window_ns as f64;
    let per_request = used.as_nanos() as f64 / (per_ns * seen.meter.window.as_nanos() as f64);
    per_request
        .is_finite()
        .then(|| guard(CPU_TIME, "ns/request", Direction::Lower, per_request))
}

/// Path length: all instructions but those of the idle loop, clients and sampler included, per right
/// answer. The clock advances by a fixed time per instruction, so busy time counts instructions.
fn instructions(seen: &Seen<'_>, load: &LoadResult) -> Option<Figure> {
    let per_instruction = f64::from(seen.ns_per_instruction?);
    let executed = seen.meter.busy.as_nanos() as f64 / per_instruction;
    // Both sides per nanosecond: the clients' window and the meter's may differ by a thread's start.
    let per_ns = load.ok_in_window as f64 / load.window_ns as f64;
    let per_request = executed / (per_ns * seen.meter.window.as_nanos() as f64);
    let unit = "instructions/request";
    Some(Figure::new(
        "instructions",
        unit,
        Direction::Lower,
        Role::Guard,
        per_request,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use record::latency::Latency;
    use record::metric::MetricSpec;

    fn load(ok: u64, faults: &[(Fault, u64)]) -> LoadResult {
        let mut latency = Latency::new();
        (1..=ok).for_each(|index| latency.record(index * 1_000_000));
        let faults: BTreeMap<_, _> = faults.iter().copied().collect();
        LoadResult {
            window_ns: 2_000_000_000,
            planned: ok + faults.values().sum::<u64>(),
            ok,
            ok_in_window: ok,
            unsent: 0,
            faults,
            connections_asked: 1,
            connections_opened: 1,
            body_bytes: 0,
            latency,
            timeline: Vec::new(),
            client_cpu_ns: Vec::new(),
            engine: "epoll".into(),
            ..LoadResult::default()
        }
    }

    fn show(load: LoadResult, ns_per_instruction: Option<u32>) -> String {
        let driven = Driven {
            load: Some(load),
            ..Driven::default()
        };
        let meter = Meter {
            window: Duration::from_secs(2),
            busy: Duration::from_secs(1),
            services: [("nginx".into(), Duration::from_millis(500))].into(),
        };
        let seen = Seen {
            driven: &driven,
            meter: &meter,
            samples: &[],
            ns_per_instruction,
        };
        match web(&seen, "nginx") {
            Ok(figures) => figures.iter().fold(String::new(), |text, figure| {
                let MetricSpec { name, unit, .. } = &figure.spec;
                text + &format!("{name} {:.2} {unit}\n", figure.value)
            }),
            Err(why) => why,
        }
    }

    #[test]
    fn figures_are_per_right_answer() {
        let text = show(load(100, &[(Fault::Reset, 25)]), Some(2));
        expect![[r#"
            throughput 50.00 requests/s
            latency-mean 50499.20 us
            latency-p50 50003.97 us
            latency-p99 99024.90 us
            instructions 5000000.00 instructions/request
            failed 0.20 share
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn a_request_costs_instructions_where_they_are_counted_and_else_cpu_time() {
        let [counted, timed] = [Some(2), None].map(|clock| show(load(100, &[]), clock));
        assert!(timed.contains("server-cpu 5000.00 us/request") && !timed.contains("instructions"));
        assert!(counted.contains("instructions 5000000.00") && !counted.contains("server-cpu"));
    }

    #[test]
    fn wrong_content_voids_a_trial() {
        let text = show(load(100, &[(Fault::BadContent, 1)]), None);
        expect!["answers of the right length with wrong content: 1"].assert_eq(&text);
    }

    #[test]
    fn no_right_answer_voids_a_trial_and_says_what_came_instead() {
        let text = show(load(0, &[(Fault::BadStatus, 3)]), None);
        expect!["no answer was right: bad-status 3"].assert_eq(&text);
    }

    #[test]
    fn answers_after_the_window_are_no_throughput() {
        let late = LoadResult {
            ok_in_window: 40,
            ..load(100, &[])
        };
        let text = show(late, None);
        assert!(text.starts_with("throughput 20.00 requests/s\n"), "{text}");
        assert!(text.contains("server-cpu 12500.00 us/request"), "{text}");
        let later = LoadResult {
            ok_in_window: 0,
            ..load(100, &[])
        };
        expect![
            "no successful request ended within the window: 100 ended later (measure for longer)"
        ]
        .assert_eq(&show(later, None));
    }

    #[test]
    fn the_primary_figure_comes_first_and_is_the_only_one() {
        let driven = Driven {
            load: Some(load(3, &[])),
            ..Driven::default()
        };
        let seen = Seen {
            driven: &driven,
            meter: &Meter::default(),
            samples: &[],
            ns_per_instruction: None,
        };
        let figures = web(&seen, "apache2").unwrap();
        let primary: Vec<_> = figures
            .iter()
            .map(|figure| figure.spec.role == Role::Primary)
            .collect();
        assert!(primary[0] && !primary[1..].contains(&true));
    }
}
