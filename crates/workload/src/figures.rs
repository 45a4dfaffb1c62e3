//! Figures that workloads share, from the results of clients and the resource use of the system.

use std::collections::BTreeMap;
use std::time::Duration;

use record::curve::Curve;
use record::evidence::Sample;
use record::load::{Fault, LoadResult};
use record::metric::{Direction, Figure, Role};

use crate::Driven;

/// Metric of the CPU time in a sampled profile.
pub const CPU_TIME: &str = "cpu-time";

/// Metric of the CPU time of the server's processes per request.
pub(crate) const SERVER_CPU: &str = "server-cpu";

/// The inputs of figures.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'s> {
    /// Result of the drive.
    pub driven: &'s Driven,
    /// Resource use in the window.
    pub meter: &'s Meter,
    /// Samples of each second, including the warm-up.
    pub samples: &'s [Sample],
    /// Guest nanoseconds per instruction, if the clock counts instructions.
    pub ns_per_instruction: Option<u32>,
}

impl Seen<'_> {
    /// CPU time of a service. `None` if the clock counts instructions: then CPU time is sampled at
    /// timer ticks, with errors of up to a tenth that are the same in every trial.
    pub(crate) fn cpu(&self, service: &str) -> Option<Duration> {
        match self.ns_per_instruction {
            Some(_) => None,
            None => self.meter.services.get(service).copied(),
        }
    }
}

/// Resource use of the system within the window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meter {
    /// Time between the two readings.
    pub window: Duration,
    /// Busy time of all CPUs together; see the agent's sampler for the source.
    pub busy: Duration,
    /// CPU time of each service, including ended processes.
    pub services: BTreeMap<String, Duration>,
}

/// The load result, if some responses were correct and none had wrong content. Other faults are
/// figures and do not void a trial.
pub fn checked_load<'s>(seen: &Seen<'s>) -> Result<&'s LoadResult, String> {
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
    if load.faults.is_empty() {
        return format!("{} requests begun, no fault seen", load.planned);
    }
    let faults = load.faults.iter();
    let faults = faults.map(|(fault, count)| format!("{} {count}", fault.name()));
    faults.collect::<Vec<_>>().join(", ")
}

/// The figures of every web workload in a closed loop, throughput first.
pub fn web(seen: &Seen<'_>, server: &str) -> Result<Vec<Figure>, String> {
    let load = checked_load(seen)?;
    if load.ok_in_window == 0 {
        return Err(format!(
            "no successful request ended within the window: {} ended later (measure for longer)",
            load.ok
        ));
    }
    let us = |ns: f64| ns / 1e3;
    let secondary = |name, unit, value| secondary(name, unit, Direction::Lower, value);
    let latency = |quantile| us(load.latency.quantile_ns(quantile) as f64);
    let mut figures = vec![
        Figure::new(
            "throughput",
            "requests/s",
            Direction::Higher,
            Role::Primary,
            load.ok_per_s(),
        ),
        secondary("latency-mean", "us", us(load.latency.mean_ns())),
        secondary("latency-p50", "us", latency(0.5)),
        secondary("latency-p99", "us", latency(0.99)),
    ];
    if let Some(cpu) = seen.cpu(server) {
        // The server's processes only. What the kernel does in the clients' context, such as
        // delivering to the server's socket, is in instructions per request.
        let per_request = cpu.as_nanos() as f64 / load.ok_in_window as f64;
        figures.push(secondary(SERVER_CPU, "us/request", us(per_request)));
    }
    figures.extend(instructions(seen, load));
    let ended = load.ok + load.fault_count();
    let failed = load.fault_count() as f64 / ended as f64;
    figures.push(secondary("failed", "share", failed));
    Ok(figures)
}

/// Resource use that a remote system reported; missing values are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RemoteUse {
    /// Average number of busy CPUs.
    pub busy_cpus: Option<f64>,
    /// Memory in use at the end, in bytes.
    pub memory_bytes: Option<f64>,
}

/// Figures of a remote system.
pub fn remote(seen: &Seen<'_>, used: &RemoteUse) -> Vec<Figure> {
    let lower = |name, unit, value: Option<f64>| {
        value.map(|value| secondary(name, unit, Direction::Lower, value))
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

/// A figure that is not primary.
pub fn secondary(name: &str, unit: &str, direction: Direction, value: f64) -> Figure {
    Figure::new(name, unit, direction, Role::Secondary, value)
}

/// CPU time of a service beside the server, such as its database, for each request of the window.
pub(crate) fn cpu_per_request(seen: &Seen<'_>, service: &str, name: &str) -> Option<Figure> {
    let requests = seen.driven.load.as_ref()?.ok_in_window;
    let each = seen.cpu(service)?.as_nanos() as f64 / 1e3 / requests as f64;
    Some(secondary(name, "us/request", Direction::Lower, each))
}

/// Makes the figure `name` the primary one and moves it to the front.
pub fn decided_by(mut figures: Vec<Figure>, name: &str) -> Vec<Figure> {
    for figure in &mut figures {
        figure.spec.role = if figure.spec.name == name {
            Role::Primary
        } else {
            Role::Secondary
        };
    }
    figures.sort_by_key(|figure| figure.spec.role != Role::Primary);
    figures
}

/// Makes latency the primary figure if clients have a rate.
pub(crate) fn at_rate(rate_per_s: Option<u32>, web: Vec<Figure>) -> Vec<Figure> {
    match rate_per_s {
        Some(_) => decided_by(web, "latency-p99"),
        None => web,
    }
}

/// The figures of a ramp, its peak first.
pub fn ramp(curve: &Curve) -> Result<Vec<Figure>, String> {
    let higher = |name, unit, value| secondary(name, unit, Direction::Higher, value);
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

/// CPU time in a sampled profile per successful response; `None` without responses.
pub fn cpu_time(seen: &Seen<'_>, used: Duration) -> Option<Figure> {
    let load = seen.driven.load.as_ref()?;
    // Both rates per nanosecond, as in `instructions`.
    let per_ns = load.ok_in_window as f64 / load.window_ns as f64;
    let per_request = used.as_nanos() as f64 / (per_ns * seen.meter.window.as_nanos() as f64);
    per_request
        .is_finite()
        .then(|| secondary(CPU_TIME, "ns/request", Direction::Lower, per_request))
}

/// Instructions per successful response, including clients and sampler, but not the idle loop. The
/// clock advances by a fixed time per instruction, so busy time counts instructions.
fn instructions(seen: &Seen<'_>, load: &LoadResult) -> Option<Figure> {
    let per_instruction = f64::from(seen.ns_per_instruction?);
    let executed = seen.meter.busy.as_nanos() as f64 / per_instruction;
    // Both rates per nanosecond, because the windows of clients and meter may differ slightly.
    let per_ns = load.ok_in_window as f64 / load.window_ns as f64;
    let per_request = executed / (per_ns * seen.meter.window.as_nanos() as f64);
    let unit = "instructions/request";
    Some(secondary(
        "instructions",
        unit,
        Direction::Lower,
        per_request,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::latency::Latency;
    use expect_test::expect;
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
            faults,
            latency,
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
    fn figures_are_per_successful_response() {
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
    fn the_cost_of_a_request_is_instructions_or_cpu_time() {
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
    fn a_trial_without_success_is_void_with_its_faults() {
        let text = show(load(0, &[(Fault::BadStatus, 3)]), None);
        expect!["no answer was right: bad-status 3"].assert_eq(&text);
    }

    #[test]
    fn responses_after_the_window_do_not_count_as_throughput() {
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
    fn only_the_first_figure_is_primary() {
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
