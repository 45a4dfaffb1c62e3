//! Hardware counters of a trial whose window is by the wall clock, and the figures derived from them.
//!
//! ```text
//! cycles of a request = instructions of a request (path length) * cycles of an instruction (CPI)
//! ```
//! Two scopes are counted: the control groups of the services, which contain no client, and all tasks on the CPUs of the trial. Trials
//! with counted instructions have the emulator's counts instead (`instructions`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::check::{FIGURE_LIMIT, FIGURES};
use crate::instructions::SERVER_INSTRUCTIONS;
use crate::metric::{Direction, Figure, MetricSpec, Role};

/// Least share of the window for which events must have been on the counters; below it the extrapolation is not trusted.
pub const LEAST_RUNNING: f64 = 0.25;

/// Share of the window above which the extrapolation is negligible.
pub const WHOLE_RUNNING: f64 = 0.99;

/// Names of a scope's figures: path length, cycles per instruction, branch misses, cache misses.
const SERVER_FIGURES: [&str; 4] = [
    SERVER_INSTRUCTIONS,
    "server-cpi",
    "server-branch-misses",
    "server-llc-misses",
];
const SYSTEM_FIGURES: [&str; 4] = ["instructions", "cpi", "branch-misses", "llc-misses"];

/// Units of CPI and of misses.
const CPI: &str = "cycles/instruction";
const PER_THOUSAND: &str = "misses/1000 instructions";

/// Names of all figures of hardware counters.
pub fn metrics() -> impl Iterator<Item = &'static str> {
    SERVER_FIGURES.into_iter().chain(SYSTEM_FIGURES)
}

/// Names of the figures that are rates per instruction.
pub fn rates() -> impl Iterator<Item = &'static str> {
    SERVER_FIGURES[1..]
        .iter()
        .chain(&SYSTEM_FIGURES[1..])
        .copied()
}

/// Whether a metric is such a rate. Rates explain the cost of a request and are no cost themselves: a system that saves cheap
/// instructions has more cycles and more misses per remaining instruction.
pub fn is_rate(spec: &MetricSpec) -> bool {
    [CPI, PER_THOUSAND].contains(&spec.unit.as_str()) && rates().any(|name| name == spec.name)
}

/// Counters of a trial, or why there are none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HardwareCounters {
    /// The window was counted.
    Counted(CountedWindow),
    /// The window could not be counted.
    Missing(NoCounters),
}

/// Why a window was not counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum NoCounters {
    /// The system has no performance monitoring unit, or none with these events.
    NoUnit,
    /// The kernel does not allow the agent to count.
    Refused {
        /// `kernel.perf_event_paranoid`; `None` if it cannot be read.
        paranoid: Option<i32>,
    },
    /// The kernel has no perf events.
    NoPerfEvents,
    /// The kernel cannot count events by control group.
    NoCgroupEvents,
    /// Other events used the counters for most of the window.
    Shared,
    /// Another failure.
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
    /// Events of all tasks on the trial's CPUs: services, clients beside them, kernel threads and any other task.
    pub system: EventCounts,
}

/// Events of one scope, extrapolated to the whole time if other events used the counters for part of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EventCounts {
    /// Instructions retired.
    pub instructions: f64,
    /// CPU cycles, without halted ones.
    pub cycles: f64,
    /// Mispredicted branches; absent if the CPU does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_misses: Option<f64>,
    /// Misses of the last-level cache; absent if the CPU does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llc_misses: Option<f64>,
    /// Share of the scope's CPU time for which the events were on the counters; 1 if nothing was extrapolated.
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
    /// The sum of both; an event that either lacks is missing.
    fn with(self, other: Self) -> Self {
        let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
        Self {
            instructions: self.instructions + other.instructions,
            cycles: self.cycles + other.cycles,
            branch_misses: sum(self.branch_misses, other.branch_misses),
            llc_misses: sum(self.llc_misses, other.llc_misses),
            running_share: self.running_share.min(other.running_share),
        }
    }
}

impl CountedWindow {
    /// Events of all services together.
    pub fn server(&self) -> EventCounts {
        let services = self.services.values();
        services.fold(EventCounts::default(), |sum, counts| sum.with(*counts))
    }

    /// The lowest share of the time for which a scope's events were on the counters.
    pub fn running_share(&self) -> f64 {
        self.server().running_share.min(self.system.running_share)
    }

    /// Whether an optional event is missing.
    pub fn lacks_events(&self) -> bool {
        let has_all = |counts: EventCounts| counts.branch_misses.and(counts.llc_misses).is_some();
        !has_all(self.server()) || !has_all(self.system)
    }

    /// Figures of a window of `window_ns`, the server's first. A name that one of the workload's figures has is left to that figure.
    pub fn figures(&self, window_ns: u64, workload: &[Figure]) -> Vec<Figure> {
        let throughput = workload
            .iter()
            .find(|figure| figure.spec.name == "throughput");
        let work = throughput.and_then(|figure| {
            let unit = figure.spec.unit.strip_suffix("/s")?;
            let unit = unit.strip_suffix('s').unwrap_or(unit);
            Some((figure.value * window_ns as f64 / 1e9, unit))
        });
        let mut figures = figures_of(self.server(), SERVER_FIGURES, work);
        figures.extend(figures_of(self.system, SYSTEM_FIGURES, work));
        // Counts come from the guest and can be any number.
        figures.retain(|figure| {
            let is_taken = workload
                .iter()
                .any(|other| other.spec.name == figure.spec.name);
            !is_taken && figure.value.is_finite() && figure.value <= FIGURE_LIMIT
        });
        figures.truncate(FIGURES.saturating_sub(workload.len()));
        figures
    }
}

/// Figures of a scope; `work` is the amount of work in the window, and its unit. There are none if nothing was executed.
fn figures_of(counts: EventCounts, names: [&str; 4], work: Option<(f64, &str)>) -> Vec<Figure> {
    let [path_length, cpi, branch_misses, llc_misses] = names;
    let EventCounts { instructions, .. } = counts;
    if instructions <= 0.0 || counts.cycles <= 0.0 {
        return Vec::new();
    }
    let lower =
        |name, unit: &str, value| Figure::new(name, unit, Direction::Lower, Role::Secondary, value);
    let mut figures = Vec::new();
    if let Some((work, unit)) = work.filter(|(work, _)| *work > 0.0) {
        let unit = format!("instructions/{unit}");
        figures.push(lower(path_length, &unit, instructions / work));
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

    /// Two services serve 1,000 requests in two seconds, and other tasks run beside them.
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
            .map(|Figure { spec, value }| format!("{} {value} {}", spec.name, spec.unit))
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
        let is_rate: Vec<_> = figures.iter().map(|figure| is_rate(&figure.spec)).collect();
        assert_eq!(is_rate, [false, true, true, true, false, true, true, true]);
        assert!(
            figures
                .iter()
                .map(|figure| &*figure.spec.name)
                .eq(metrics())
        );
    }

    #[test]
    fn a_name_that_the_workload_uses_is_left_to_it() {
        let cpi = Figure::new("cpi", "index", Direction::Higher, Role::Secondary, 7.0);
        let shown = shown(&window(), &[cpi]);
        let is_cpi = |line: &String| line.starts_with("cpi");
        assert!(!shown.iter().any(is_cpi), "{shown:?}");
    }

    #[test]
    fn counts_out_of_range_have_no_figure() {
        let mut window = window();
        window.system.cycles = f64::MAX;
        window.system.instructions = 1e-9;
        let figures = window.figures(2_000_000_000, &[throughput("requests/s")]);
        let is_in_range = |figure: &Figure| figure.value <= FIGURE_LIMIT;
        assert!(figures.iter().all(is_in_range), "{figures:?}");
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
    fn the_running_share_is_the_lowest_of_the_scopes() {
        let mut window = window();
        assert!((window.running_share() - 1.0).abs() < 1e-12);
        window.services.get_mut("nginx").unwrap().running_share = 0.5;
        assert!((window.running_share() - 0.5).abs() < 1e-12);
    }
}
