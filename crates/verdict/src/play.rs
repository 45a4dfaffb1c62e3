//! A played run for tests: arms `6.1` (baseline) and `7.2`, one workload `web`, figures as given.

use std::collections::BTreeMap;
use std::time::Duration;

use record::evidence::{Facts, Usage};
use record::journal::{Accounting, Opening};
use record::kernel::KernelRef;
use record::latency::Latency;
use record::load::{LoadResult, Second};
use record::metric::{Direction, Figure, MetricSpec, Role};
use record::plan::{
    Arm, Clock, Design, DiskSpeed, ImagePlan, MachineKind, MachinePlan, Mode, Plan, Tuning,
    WorkloadPlan,
};
use record::rundir::{Run, TRIAL_VERSION, TrialRecord};
use record::trial::{Measurement, Outcome, Trial, Void, VoidReason};

/// The primary metric of the play.
pub(crate) const THROUGHPUT: &str = "throughput";

/// A run in the making.
pub(crate) struct Play(Run);

impl Play {
    pub(crate) fn new() -> Self {
        let opening = Opening {
            version: 1,
            bakeoff: "0.1.0".into(),
            inputs: BTreeMap::new(),
            machine: "play".into(),
            ns_per_instruction: None,
            host_cpus: None,
            accounting: Some(Accounting::RepPer8Bytes),
        };
        Self(Run {
            plan: plan(),
            plan_text: String::new(),
            opening,
            entries: Vec::new(),
            attempts: Vec::new(),
            struck: Vec::new(),
            facts: Vec::new(),
            missing: Vec::new(),
            models: None,
        })
    }

    pub(crate) fn run(self) -> Run {
        self.0
    }

    /// One arm more.
    pub(crate) fn arm(self, name: &str) -> Self {
        self.with(|run| run.plan.arms.push(arm(name)))
    }

    /// Any other change.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Run)) -> Self {
        change(&mut self.0);
        self
    }

    /// Whole blocks, the baseline first in two of three.
    pub(crate) fn blocks(self, figures: &[[f64; 2]]) -> Self {
        (1..)
            .zip(figures)
            .fold(self, |play, (block, [base, other])| {
                let slots = if block % 3 == 0 { [2, 1] } else { [1, 2] };
                play.slotted((block, slots[0]), "6.1", *base).slotted(
                    (block, slots[1]),
                    "7.2",
                    *other,
                )
            })
    }

    fn slotted(self, (block, slot): (u32, u32), arm: &str, pages_per_s: f64) -> Self {
        self.measured(block, arm, pages_per_s).with(|run| {
            let last = run.attempts.last_mut().expect("an attempt was just added");
            last.trial.slot = slot;
        })
    }

    pub(crate) fn measured(self, block: u32, arm: &str, pages_per_s: f64) -> Self {
        let outcome = Outcome::Measured(Box::new(measurement(arm, pages_per_s)));
        self.attempt(block, arm, outcome, None)
    }

    /// A measured trial with facts.
    pub(crate) fn observed(self, block: u32, arm: &str, facts: Facts) -> Self {
        let outcome = Outcome::Measured(Box::new(measurement(arm, 100.0)));
        self.attempt(block, arm, outcome, Some(facts))
    }

    pub(crate) fn void(self, block: u32, arm: &str) -> Self {
        let void = Void {
            reason: VoidReason::Panic,
            detail: "VFS: unable to mount root".into(),
            console: vec!["last words".into()],
        };
        self.attempt(block, arm, Outcome::Void(void), None)
    }

    fn attempt(mut self, block: u32, arm: &str, outcome: Outcome, facts: Option<Facts>) -> Self {
        let trial = Trial {
            number: self.0.attempts.len() as u32 + 1,
            block,
            slot: if arm == "6.1" { 1 } else { 2 },
            arm: arm.into(),
            workload: "web".into(),
        };
        let record = TrialRecord {
            version: TRIAL_VERSION,
            trial,
            attempt: 1,
            outcome,
            host_time: Vec::new(),
        };
        self.0.attempts.push(record);
        self.0.facts.push(facts);
        self
    }
}

fn plan() -> Plan {
    Plan {
        title: "play".into(),
        baseline: "6.1".into(),
        mode: Mode::Controlled,
        machine: MachinePlan {
            kind: MachineKind::Qemu,
            cpus: 1,
            memory_bytes: 1 << 30,
            clock: Clock::Auto,
            boot_timeout: Duration::from_secs(120),
            silence: Duration::from_secs(120),
            trial_limit: Duration::from_secs(3600),
            disk: DiskSpeed::default(),
            cpu_model: None,
        },
        image: Some(ImagePlan {
            recipe: "web".into(),
            suite: None,
        }),
        arms: vec![arm("6.1"), arm("7.2")],
        workloads: vec![WorkloadPlan {
            id: "web".into(),
            kind: "web-static".into(),
            options: serde_json::Value::Null,
            length: Duration::from_secs(12),
            expected: None,
        }],
        design: Design {
            margin: 0.01,
            error_rate: 0.05,
            min_blocks: 4,
            max_blocks: 30,
            more_blocks: 0,
            seed: 7,
        },
    }
}

fn arm(name: &str) -> Arm {
    Arm {
        line: 1,
        name: name.into(),
        kernel: KernelRef::Debian {
            suite: "trixie".into(),
            version: name.into(),
        },
        cmdline: String::new(),
        sysctl: BTreeMap::new(),
        cpus: None,
        tuning: Tuning::default(),
    }
}

fn measurement(arm: &str, pages_per_s: f64) -> Measurement {
    let figure = |name: &str, unit: &str, direction, role, value| Figure {
        spec: MetricSpec {
            name: name.into(),
            unit: unit.into(),
            direction,
            role,
        },
        value,
    };
    Measurement {
        figures: vec![
            figure(
                "latency-p99",
                "us",
                Direction::Lower,
                Role::Guard,
                1e6 / pages_per_s,
            ),
            figure(
                THROUGHPUT,
                "requests/s",
                Direction::Higher,
                Role::Primary,
                pages_per_s,
            ),
        ],
        curves: Vec::new(),
        load: Some(load(pages_per_s)),
        usage: Usage {
            cpu_user: 0.4,
            cpu_system: 0.6,
            ..Usage::default()
        },
        boot_ms: 2000,
        spin_ns: 7_000_000,
        kernel: format!("{arm}-amd64"),
        server: "Apache/2.4".into(),
    }
}

/// Two seconds and a bit of load.
fn load(pages_per_s: f64) -> LoadResult {
    let ok = (pages_per_s * 2.0) as u64;
    let mut latency = Latency::new();
    (0..ok).for_each(|_| latency.record((1e9 / pages_per_s) as u64));
    let second = |at_ms, ok| Second {
        at_ms,
        ok,
        ..Second::default()
    };
    LoadResult {
        window_ns: 2_000_000_000,
        planned: ok,
        ok,
        unsent: 0,
        faults: BTreeMap::new(),
        connections_asked: 10,
        connections_opened: 10,
        body_bytes: ok * 25_000,
        latency,
        timeline: vec![
            second(0, ok / 2),
            second(1000, ok - ok / 2),
            second(2000, 0),
        ],
        client_cpu_ns: vec![1_000_000],
        engine: "epoll".into(),
        ..LoadResult::default()
    }
}
