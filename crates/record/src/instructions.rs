//! What a trial executed in its window, where the clock counts instructions, and the price of string instructions.
//!
//! The emulator executes a REP string instruction one iteration at a time, and counts each as an instruction. A CPU moves 8 to 64
//! bytes in that time. So a string instruction is charged for its start and for the bytes that it moves:
//! ```text
//! charged = executed - iterations + bytes * price of a byte + starts * price of a start
//! ```
//! Figures that follow from the number of instructions are computed from charged instructions (`charged`). The figures by the guest's
//! clock are kept as well, so that a run can be judged at other prices.

use std::collections::BTreeMap;

use plan::StringPrice;
use serde::{Deserialize, Serialize};

use crate::curve::Curve;
use crate::metric::{Direction, Figure, Role};

/// What was executed between two instants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executed {
    /// Instructions as the clock counts them, each iteration of a string instruction as one.
    pub instructions: u64,
    /// Starts of REP string instructions that move or fill, by bytes of an iteration: 1, 2, 4, 8.
    pub starts: [u64; 4],
    /// Their iterations after the first, by bytes of an iteration.
    pub repeats: [u64; 4],
}

impl Executed {
    /// Iterations of string instructions.
    pub fn iterations(&self) -> u64 {
        self.starts().saturating_add(sum(&self.repeats))
    }

    /// Bytes that string instructions move or fill.
    pub fn bytes(&self) -> u64 {
        let counts = self.starts.iter().zip(&self.repeats).zip([1, 2, 4, 8_u64]);
        counts.fold(0, |sum: u64, ((starts, repeats), bytes)| {
            sum.saturating_add(starts.saturating_add(*repeats).saturating_mul(bytes))
        })
    }

    /// Starts of string instructions.
    pub fn starts(&self) -> u64 {
        sum(&self.starts)
    }

    /// The share of iterations among all instructions.
    pub fn string_share(&self) -> f64 {
        self.iterations() as f64 / (self.instructions as f64).max(1.0)
    }

    /// Instructions at a price.
    pub fn charged(&self, price: StringPrice) -> f64 {
        let others = self.instructions as f64 - self.iterations() as f64;
        others + self.bytes() as f64 * price.byte + self.starts() as f64 * price.start
    }

    /// Charged over executed instructions.
    fn factor(&self, price: StringPrice) -> f64 {
        match self.instructions {
            0 => 1.0,
            instructions => self.charged(price) / instructions as f64,
        }
    }
}

fn sum(counts: &[u64; 4]) -> u64 {
    counts.iter().copied().fold(0, u64::saturating_add)
}

/// What one trial executed, and its figures before string instructions were charged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Instructions {
    /// In the whole window.
    pub window: Executed,
    /// In each step of a ramp, from its beginning to that of the next step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Executed>,
    /// In the window by control group: one for each service, `clients` for the agent and its clients, `/` for the kernel's tasks. Empty
    /// if the kernel does not report its tasks' groups.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, Executed>,
    /// Length of the window by the guest's clock, in nanoseconds.
    pub window_ns: u64,
    /// Guest nanoseconds of an instruction.
    pub ns_per_instruction: u32,
    /// Whether the plan names the primary metric.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub decider_is_named: bool,
    /// Whether the plan simulates a drive or limits the disk's rate: then waits are the drive's, and work can overlap with them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drive_is_simulated: bool,
    /// Figures by the guest's clock, which counts each iteration.
    pub figures: Vec<Figure>,
    /// Curves by the guest's clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Curve>,
}

/// The control group of the agent and its clients.
pub const CLIENTS: &str = "clients";

/// The root control group, which holds the kernel's tasks.
pub const ROOT: &str = "/";

/// Busy share of a window below which it is not saturated: its throughput does not follow from its instructions.
pub const SATURATED: f64 = 0.9;

/// The server's charged instructions per unit of work.
pub const SERVER_INSTRUCTIONS: &str = "server-instructions";

/// The server's throughput if its clients ran on another machine: instructions per second over those per unit of work.
pub const CAPACITY: &str = "capacity";

/// Prefix of a unit of time that follows from the number of instructions.
pub const VIRTUAL: &str = "virtual-";

/// How a figure follows from the number of instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Work per time.
    Rate,
    /// Time of the whole run.
    Duration,
    /// Time or instructions of one request.
    Each,
    /// Not at all.
    None,
}

fn kind(unit: &str) -> Kind {
    match unit {
        "s" => Kind::Duration,
        "ms" | "us" | "ns" => Kind::Each,
        _ if unit.ends_with("/s") => Kind::Rate,
        _ if unit.starts_with("instructions/") || unit.starts_with("us/") => Kind::Each,
        _ => Kind::None,
    }
}

impl Instructions {
    /// The share of the window in which something was executed.
    pub fn busy(&self) -> f64 {
        let ns = self.window.instructions as f64 * f64::from(self.ns_per_instruction);
        ns / (self.window_ns as f64).max(1.0)
    }

    /// Figures at a price, with the server's instructions and its capacity if they are known.
    pub fn charged(&self, price: StringPrice) -> Vec<Figure> {
        let curve = self.charged_curves(price).into_iter().next();
        let shape = curve.as_ref().and_then(Curve::shape);
        let figures = self.figures.iter().map(|figure| {
            let mut figure = figure.clone();
            // Charging can move the peak of a ramp.
            let from_shape = shape.and_then(|shape| match figure.spec.name.as_str() {
                "peak" => Some(shape.peak.value),
                "peak-at" => Some(shape.peak.at),
                "knee" => Some(shape.knee),
                "kept-of-peak" => Some(shape.kept),
                _ => None,
            });
            let kind = kind(&figure.spec.unit);
            figure.value = from_shape.unwrap_or_else(|| figure.value * self.scale(kind, price));
            if kind == Kind::Each && !figure.spec.unit.contains('/') {
                figure.spec.unit.insert_str(0, VIRTUAL);
            }
            figure
        });
        let mut figures: Vec<Figure> = figures.collect();
        if let Some(server) = self.server_instructions(price) {
            let capacity = self.capacity(&server);
            figures.insert(1, server);
            if let Some(capacity) = capacity {
                figures[0].spec.role = Role::Secondary;
                figures.insert(0, capacity);
            }
        }
        figures
    }

    /// The capacity of a server whose clients share its CPU. It replaces the throughput as the primary metric, because the clients'
    /// share of the CPU differs between kernels, and clients of a real server run on other machines.
    fn capacity(&self, server: &Figure) -> Option<Figure> {
        let primary = self.figures.first()?;
        let is_ramp = !self.curves.iter().all(Curve::is_over_time);
        let is_saturated = !is_ramp && self.busy() >= SATURATED;
        let has_clients = self.groups.contains_key(CLIENTS);
        (is_saturated && has_clients && !self.decider_is_named).then(|| {
            let instructions_per_s = 1e9 / f64::from(self.ns_per_instruction);
            let unit = &primary.spec.unit;
            let value = instructions_per_s / server.value;
            Figure::new(CAPACITY, unit, Direction::Higher, Role::Primary, value)
        })
    }

    /// Curves at a price; each step is scaled by its executed instructions.
    pub fn charged_curves(&self, price: StringPrice) -> Vec<Curve> {
        let mut curves = self.curves.clone();
        for curve in &mut curves {
            let kind = kind(&curve.unit);
            for (index, point) in curve.points.iter_mut().enumerate() {
                let step = self.steps.get(index).unwrap_or(&self.window);
                point.value *= match kind {
                    Kind::Rate => 1.0 / step.factor(price),
                    Kind::Duration | Kind::Each => step.factor(price),
                    Kind::None => 1.0,
                };
            }
        }
        curves
    }

    fn scale(&self, kind: Kind, price: StringPrice) -> f64 {
        // Charging scales the busy part of the window; the idle part stays as it was.
        let busy = self.busy().min(1.0);
        let length = 1.0 - busy + busy * self.window.factor(price);
        match kind {
            Kind::Rate if busy < SATURATED => 1.0,
            Kind::Rate => 1.0 / length,
            // Work that overlaps with the drive's takes no time, so that charging cannot shorten it.
            Kind::Duration if self.drive_is_simulated && busy < SATURATED => 1.0,
            Kind::Duration => length,
            Kind::Each => self.window.factor(price),
            Kind::None => 1.0,
        }
    }

    /// Charged instructions of the services per unit of the primary figure's work.
    fn server_instructions(&self, price: StringPrice) -> Option<Figure> {
        let services = self
            .groups
            .iter()
            .filter(|(name, _)| *name != CLIENTS && *name != ROOT);
        let charged: f64 = services.map(|(_, executed)| executed.charged(price)).sum();
        let primary = self.figures.first()?;
        let unit = primary.spec.unit.strip_suffix("/s")?;
        let work = primary.value * self.window_ns as f64 / 1e9;
        if charged <= 0.0 || work <= 0.0 {
            return None;
        }
        let unit = format!("instructions/{}", unit.strip_suffix('s').unwrap_or(unit));
        Some(Figure::new(
            SERVER_INSTRUCTIONS,
            &unit,
            Direction::Lower,
            Role::Secondary,
            charged / work,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::Point;

    /// A million instructions: 200,000 of them are iterations that move a byte, in 1,000 starts.
    fn executed() -> Executed {
        Executed {
            instructions: 1_000_000,
            starts: [1_000, 0, 0, 0],
            repeats: [199_000, 0, 0, 0],
        }
    }

    fn figure(name: &str, unit: &str, role: Role, value: f64) -> Figure {
        Figure::new(name, unit, Direction::Lower, role, value)
    }

    fn instructions(window_ns: u64) -> Instructions {
        let groups = [("nginx", 600_000), (CLIENTS, 390_000), (ROOT, 10_000)];
        let executed_by = |instructions| Executed {
            instructions,
            ..Executed::default()
        };
        Instructions {
            window: executed(),
            steps: vec![executed(), executed_by(500_000)],
            groups: groups
                .map(|(name, count)| (name.to_string(), executed_by(count)))
                .into(),
            window_ns,
            ns_per_instruction: 2,
            decider_is_named: false,
            drive_is_simulated: false,
            figures: vec![
                figure("throughput", "requests/s", Role::Primary, 1000.0),
                figure("latency-p99", "us", Role::Secondary, 500.0),
                figure("total-time", "s", Role::Secondary, 10.0),
                figure(
                    "instructions",
                    "instructions/request",
                    Role::Secondary,
                    500_000.0,
                ),
                figure("failed", "share", Role::Secondary, 0.25),
                figure("peak", "requests/s", Role::Secondary, 1.0),
                figure("peak-at", "connections", Role::Secondary, 1.0),
            ],
            curves: Vec::new(),
        }
    }

    fn ramp() -> Instructions {
        Instructions {
            curves: vec![Curve {
                name: "throughput".into(),
                unit: "requests/s".into(),
                direction: Direction::Higher,
                axis: "connections".into(),
                points: [(8.0, 90.0), (16.0, 100.0)]
                    .map(|(at, value)| Point { at, value })
                    .into(),
            }],
            ..instructions(2_000_000)
        }
    }

    fn shown(instructions: &Instructions, price: StringPrice) -> Vec<(String, String, f64)> {
        let figures = instructions.charged(price).into_iter();
        figures
            .map(|Figure { spec, value }| (spec.name, spec.unit, (value * 1e6).round() / 1e6))
            .collect()
    }

    #[test]
    fn a_string_instruction_is_charged_for_its_bytes_and_its_start() {
        let executed = executed();
        assert_eq!(
            (executed.iterations(), executed.bytes(), executed.starts()),
            (200_000, 200_000, 1_000)
        );
        let price = |byte, start| executed.charged(StringPrice { byte, start }) as u64;
        assert_eq!(price(0.0, 0.0), 800_000);
        assert_eq!(price(0.125, 10.0), 835_000);
        // One instruction per byte and none per start is what the clock counts.
        assert_eq!(price(1.0, 0.0), 1_000_000);
        let wide = Executed {
            starts: [0, 0, 0, 10],
            repeats: [0, 0, 0, 990],
            instructions: 1000,
        };
        assert_eq!((wide.bytes(), wide.iterations()), (8000, 1000));
    }

    #[test]
    fn figures_that_follow_from_instructions_are_those_of_charged_ones() {
        // Busy throughout its two milliseconds: charged instructions take 0.835 of that time.
        let shown = shown(&instructions(2_000_000), StringPrice::USUAL);
        let want = [
            (CAPACITY, "requests/s", 1_666.666_667),
            ("throughput", "requests/s", 1_197.604_79),
            (SERVER_INSTRUCTIONS, "instructions/request", 300_000.0),
            ("latency-p99", "virtual-us", 417.5),
            ("total-time", "s", 8.35),
            ("instructions", "instructions/request", 417_500.0),
            ("failed", "share", 0.25),
        ];
        let want = want.map(|(name, unit, value)| (name.to_string(), unit.to_string(), value));
        for (shown, want) in shown.iter().zip(want) {
            assert_eq!((&shown.0, &shown.1), (&want.0, &want.1));
            assert!((shown.2 - want.2).abs() < 1e-3, "{shown:?} {want:?}");
        }
    }

    #[test]
    fn each_step_of_a_ramp_is_charged_what_it_executed() {
        let figures = ramp().charged(StringPrice::USUAL);
        let value = |name: &str| {
            let figure = figures.iter().find(|figure| figure.spec.name == name);
            figure.map(|figure| (figure.value * 1e6).round() / 1e6)
        };
        // Only the first step has string instructions. Charged, it becomes the peak.
        assert_eq!(
            (value("peak"), value("peak-at")),
            (Some(107.784_431), Some(8.0))
        );
        assert_eq!(value(CAPACITY), None, "a ramp has no single capacity");
    }

    #[test]
    fn curves_over_time_leave_the_capacity() {
        let mut soak = instructions(2_000_000);
        soak.curves = ramp().curves;
        let decides =
            |executed: &Instructions| executed.charged(StringPrice::USUAL)[0].spec.name == CAPACITY;
        assert!(!decides(&soak));
        soak.curves[0].axis = "s".into();
        assert!(decides(&soak));
    }

    #[test]
    fn a_primary_metric_that_the_plan_names_stays_primary() {
        let named = Instructions {
            decider_is_named: true,
            ..instructions(2_000_000)
        };
        let figures = named.charged(StringPrice::USUAL);
        assert_eq!(figures[0].spec.name, "throughput");
        assert_eq!(figures[0].spec.role, Role::Primary);
    }

    #[test]
    fn the_throughput_of_an_idle_system_does_not_follow_from_its_instructions() {
        let figures = instructions(8_000_000).charged(StringPrice::USUAL);
        let value = |name: &str| {
            let figure = figures.iter().find(|figure| figure.spec.name == name);
            figure.unwrap().value
        };
        assert!((value("throughput") - 1000.0).abs() < 1e-6);
        // It was idle for three quarters of the time, which stay as they were.
        assert!((value("total-time") - 9.5875).abs() < 1e-6);
        assert!((value("latency-p99") - 417.5).abs() < 1e-6);
    }

    #[test]
    fn a_system_that_waits_for_a_simulated_drive_takes_the_drives_time() {
        let total_time = |window_ns| {
            let waiting = Instructions {
                drive_is_simulated: true,
                ..instructions(window_ns)
            };
            let figures = waiting.charged(StringPrice::USUAL);
            let total = figures
                .iter()
                .find(|figure| figure.spec.name == "total-time");
            total.unwrap().value
        };
        assert!((total_time(8_000_000) - 10.0).abs() < 1e-6);
        // Without waits the CPU decides.
        assert!((total_time(2_000_000) - 8.35).abs() < 1e-6);
    }

    #[test]
    fn without_control_groups_there_are_no_server_instructions() {
        let mut unknown = instructions(2_000_000);
        unknown.groups.clear();
        let figures = unknown.charged(StringPrice::USUAL);
        assert!(
            figures
                .iter()
                .all(|figure| figure.spec.name != SERVER_INSTRUCTIONS)
        );
    }
}
