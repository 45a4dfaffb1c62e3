//! What the CPUs' own counters say of a window by the wall clock, and the figures that follow from them.
//!
//! ```text
//! cycles of a request = instructions of a request (path length) * cycles of an instruction (CPI)
//! ```
//! Two scopes are counted: the control groups of the services, in which no client runs, and all tasks on the CPUs of the trial. Under
//! counted instructions none of this is there: the emulator's own count stands then (`instructions`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::check::{FIGURE_LIMIT, FIGURES};
use crate::instructions::SERVER_INSTRUCTIONS;
use crate::metric::{Direction, Figure, MetricSpec, Role};

/// Least share of the window that the events must have been on the counters; below it an estimate of the rest is none.
pub const LEAST_RUNNING: f64 = 0.25;

/// Share of the window above which nothing was estimated that anybody would notice.
pub const WHOLE_RUNNING: f64 = 0.99;

/// Names of the figures that follow, by scope: path length, cycles of an instruction, misses of a thousand instructions.
const OF_SERVER: [&str; 4] = [
    SERVER_INSTRUCTIONS,
    "server-cpi",
    "server-branch-misses",
    "server-llc-misses",
];
const OF_SYSTEM: [&str; 4] = ["instructions", "cpi", "branch-misses", "llc-misses"];

/// The unit of CPI, and that of misses.
const CPI: &str = "cycles/instruction";
const PER_THOUSAND: &str = "misses/1000 instructions";

/// Names of all figures of hardware counters.
pub fn metrics() -> impl Iterator<Item = &'static str> {
    OF_SERVER.into_iter().chain(OF_SYSTEM)
}

/// Names of those that are rates of an instruction.
pub fn rates() -> impl Iterator<Item = &'static str> {
    OF_SERVER[1..].iter().chain(&OF_SYSTEM[1..]).copied()
}

/// Whether a metric is such a rate. It says why a request costs what it costs, and is no cost itself: a system that leaves out cheap
/// instructions has more cycles and more misses for each of those that are left.
pub fn is_rate(spec: &MetricSpec) -> bool {
    [CPI, PER_THOUSAND].contains(&spec.unit.as_str()) && rates().any(|name| name == spec.name)
}

/// What the counters of a trial say, or why they say nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HardwareCounters {
    /// The window was counted.
    Counted(CountedWindow),
    /// It could not be counted.
    Missing(NoCounters),
}

/// Why a window was not counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum NoCounters {
    /// The system sees no performance monitoring unit, or none with these events.
    NoUnit,
    /// The agent may not count.
    Refused {
        /// `kernel.perf_event_paranoid`, where it can be read.
        paranoid: Option<i32>,
    },
    /// The kernel has no perf events.
    NoPerfEvents,
    /// The kernel counts no events by control group.
    NoCgroupEvents,
    /// Other events had the counters for most of the window.
    Shared,
    /// Something else failed.
    Failed {
        /// The system's error.
        error: String,
    },
}

/// Events of one window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CountedWindow {
    /// Events of each service's control group.
    pub services: BTreeMap<String, EventCounts>,
    /// Events of all tasks on the trial's CPUs: services, clients beside them, the kernel's own and whatever else ran.
    pub system: EventCounts,
}

/// Events of one scope. Where other events had the counters for a part of the time, they are estimates for the whole of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EventCounts {
    /// Instructions retired.
    pub instructions: f64,
    /// CPU cycles, halted ones left out.
    pub cycles: f64,
    /// Branches that were mispredicted; absent where the CPU does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_misses: Option<f64>,
    /// Misses of the last-level cache; absent where the CPU does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llc_misses: Option<f64>,
    /// Share of the scope's time on the CPUs in which the events were on the counters: 1 where nothing was estimated.
    pub running_share: f64,
}

impl Default for EventCounts {
    fn default() -> Self {
        Self {
            instructions: 0.0,
            cycles: 0.0,
            branch_misses: Some(0.0),
            llc_misses: Some(0.0),
            running_share: 1.0,
        }
    }
}

impl EventCounts {
    /// Both together; an event that one of them lacks is not known of the sum.
    fn with(self, other: Self) -> Self {
        let both = |one: Option<f64>, other: Option<f64>| Some(one? + other?);
        Self {
            instructions: self.instructions + other.instructions,
            cycles: self.cycles + other.cycles,
            branch_misses: both(self.branch_misses, other.branch_misses),
            llc_misses: both(self.llc_misses, other.llc_misses),
            running_share: self.running_share.min(other.running_share),
        }
    }
}

impl CountedWindow {
    /// Events of all services together.
    pub fn server(&self) -> EventCounts {
        let services = self.services.values();
        services.fold(EventCounts::default(), |sum, one| sum.with(*one))
    }

    /// The lowest share of the time that some scope's events were on the counters.
    pub fn running_share(&self) -> f64 {
        self.server().running_share.min(self.system.running_share)
    }

    /// Whether an event that can be missing is.
    pub fn lacks_events(&self) -> bool {
        let has_all = |counts: EventCounts| counts.branch_misses.and(counts.llc_misses).is_some();
        !has_all(self.server()) || !has_all(self.system)
    }

    /// Figures of a window of this length beside those of its workload, the server's first. A name that the workload itself uses stays the
    /// workload's.
    pub fn figures(&self, window_ns: u64, others: &[Figure]) -> Vec<Figure> {
        let throughput = others.iter().find(|one| one.spec.name == "throughput");
        let throughput = throughput.and_then(|one| {
            let unit = one.spec.unit.strip_suffix("/s")?;
            let unit = unit.strip_suffix('s').unwrap_or(unit);
            Some((one.value * window_ns as f64 / 1e9, unit))
        });
        let mut figures = figures_of(self.server(), OF_SERVER, throughput);
        figures.extend(figures_of(self.system, OF_SYSTEM, throughput));
        // Guests may say any number.
        figures.retain(|one| {
            let is_taken = others.iter().any(|other| other.spec.name == one.spec.name);
            !is_taken && one.value.is_finite() && one.value <= FIGURE_LIMIT
        });
        figures.truncate(FIGURES.saturating_sub(others.len()));
        figures
    }
}

/// Figures of a scope; `done` is how much was done in the window, and of what. What nothing was executed for has none.
fn figures_of(counts: EventCounts, names: [&str; 4], done: Option<(f64, &str)>) -> Vec<Figure> {
    let [path_length, cpi, branch_misses, llc_misses] = names;
    let EventCounts { instructions, .. } = counts;
    if instructions <= 0.0 || counts.cycles <= 0.0 {
        return Vec::new();
    }
    let lower =
        |name, unit: &str, value| Figure::new(name, unit, Direction::Lower, Role::Guard, value);
    let mut figures = Vec::new();
    if let Some((done, unit)) = done.filter(|(done, _)| *done > 0.0) {
        let unit = format!("instructions/{unit}");
        figures.push(lower(path_length, &unit, instructions / done));
    }
    figures.push(lower(cpi, CPI, counts.cycles / instructions));
    for (name, misses) in [
        (branch_misses, counts.branch_misses),
        (llc_misses, counts.llc_misses),
    ] {
        let rate = misses.map(|misses| misses * 1e3 / instructions);
        figures.extend(rate.map(|rate| lower(name, PER_THOUSAND, rate)));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(instructions: f64, cycles: f64) -> EventCounts {
        EventCounts {
            instructions,
            cycles,
            branch_misses: Some(instructions / 200.0),
            llc_misses: Some(instructions / 1000.0),
            running_share: 1.0,
        }
    }

    /// Two services serve 1,000 requests in two seconds, and somebody else is there.
    fn window() -> CountedWindow {
        CountedWindow {
            services: [("nginx", counts(3e7, 4e7)), ("postgres", counts(1e7, 1e7))]
                .map(|(name, counts)| (name.to_string(), counts))
                .into(),
            system: counts(1e8, 2e8),
        }
    }

    fn shown(window: &CountedWindow, others: &[Figure]) -> Vec<String> {
        let figures = window.figures(2_000_000_000, others).into_iter();
        figures
            .map(|one| format!("{} {} {}", one.spec.name, one.value, one.spec.unit))
            .collect()
    }

    fn throughput(unit: &str) -> Figure {
        Figure::new("throughput", unit, Direction::Higher, Role::Primary, 500.0)
    }

    #[test]
    fn cost_is_path_length_by_cycles_of_an_instruction() {
        assert_eq!(
            shown(&window(), &[throughput("requests/s")]),
            [
                "server-instructions 40000 instructions/request",
                "server-cpi 1.25 cycles/instruction",
                "server-branch-misses 5 misses/1000 instructions",
                "server-llc-misses 1 misses/1000 instructions",
                "instructions 100000 instructions/request",
                "cpi 2 cycles/instruction",
                "branch-misses 5 misses/1000 instructions",
                "llc-misses 1 misses/1000 instructions",
            ]
        );
        let figures = window().figures(2_000_000_000, &[throughput("MB/s")]);
        assert_eq!(figures[0].spec.unit, "instructions/MB");
        let is_rate: Vec<_> = figures.iter().map(|one| is_rate(&one.spec)).collect();
        assert_eq!(is_rate, [false, true, true, true, false, true, true, true]);
        assert!(figures.iter().map(|one| &*one.spec.name).eq(metrics()));
    }

    #[test]
    fn a_name_that_the_workload_uses_stays_its_own() {
        let own = Figure::new("cpi", "index", Direction::Higher, Role::Guard, 7.0);
        let shown = shown(&window(), &[own]);
        assert!(shown.iter().all(|one| !one.starts_with("cpi")), "{shown:?}");
    }

    #[test]
    fn counts_beyond_all_measure_have_no_figure() {
        let mut window = window();
        window.system.cycles = f64::MAX;
        window.system.instructions = 1e-9;
        let figures = window.figures(2_000_000_000, &[throughput("requests/s")]);
        let is_fit = |one: &Figure| one.value <= FIGURE_LIMIT;
        assert!(figures.iter().all(is_fit), "{figures:?}");
    }

    #[test]
    fn work_without_a_rate_has_no_path_length() {
        let shown = shown(&window(), &[]);
        assert_eq!(shown[0], "server-cpi 1.25 cycles/instruction");
        assert_eq!(shown.len(), rates().count());
    }

    #[test]
    fn a_trial_without_services_has_figures_of_the_system_alone() {
        let alone = CountedWindow {
            services: BTreeMap::new(),
            ..window()
        };
        assert_eq!(shown(&alone, &[])[0], "cpi 2 cycles/instruction");
    }

    #[test]
    fn an_event_that_the_cpu_does_not_count_has_no_figure() {
        let mut window = window();
        window.services.get_mut("nginx").unwrap().llc_misses = None;
        assert!(window.lacks_events());
        let shown = shown(&window, &[]);
        assert!(shown[1].starts_with("server-branch-misses"), "{shown:?}");
        assert!(shown[2].starts_with("cpi"), "{shown:?}");
    }

    #[test]
    fn the_share_is_that_of_the_scope_that_was_counted_least() {
        let mut window = window();
        assert!((window.running_share() - 1.0).abs() < 1e-12);
        window.services.get_mut("nginx").unwrap().running_share = 0.5;
        assert!((window.running_share() - 0.5).abs() < 1e-12);
    }
}
