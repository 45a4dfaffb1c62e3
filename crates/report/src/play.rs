//! A played run for tests: ten blocks of Apache on two kernels, one of them with a boot that
//! failed and was retried, and text that would like to be markup.

use std::collections::BTreeMap;
use std::time::Duration;

use record::curve::{Curve, Point};
use record::evidence::{Facts, Usage};
use record::journal::{Accounting, Entry, Event, Opening};
use record::kernel::KernelRef;
use record::latency::Latency;
use record::load::{Fault, LoadResult, Second};
use record::metric::{Direction, Figure, MetricSpec, Role};
use record::plan::{
    Arm, Clock, Design, DiskSpeed, ImagePlan, MachineKind, MachinePlan, Mode, Plan, Tuning,
    WorkloadPlan,
};
use record::rundir::{Run, TRIAL_VERSION, TrialRecord};
use record::trial::{Measurement, Outcome, Trial, Void, VoidReason};
use record::verdict::Judgement;

/// Text that would like to be markup.
pub(crate) const HOSTILE: &str = "Web <script>alert(1)</script> & \"quotes\" | [a](b) 'x'";

const PLAN: &str =
    "title = \"Web <script>alert(1)</script>\"\nbaseline = \"6.1\"\n# </pre></script>\n";

/// Pages per second of each block: baseline, arm.
const BLOCKS: [[f64; 2]; 10] = [
    [2285.0, 2451.0],
    [2285.3, 2464.0],
    [2285.9, 2448.0],
    [2284.1, 2453.2],
    [2286.0, 2455.1],
    [2284.9, 2452.0],
    [2285.2, 2450.6],
    [2286.3, 2454.4],
    [2284.6, 2457.0],
    [2285.5, 2453.3],
];

/// The run and its judgement; the last block is not whole yet.
pub(crate) fn run() -> (Run, Judgement) {
    let (mut run, _) = empty();
    run.entries.push(entry("2026-01-01T10:20:00Z", looked()));
    let closed = Event::Closed {
        reason: "all primary metrics decided".into(),
    };
    run.entries.push(entry("2026-01-01T10:41:00Z", closed));
    for (index, figures) in BLOCKS.iter().enumerate() {
        let block = index as u32 + 1;
        let flip = index % 2;
        for slot in 0..2 {
            let place = (slot + flip) % 2;
            let trial = trial(&run, block, slot as u32 + 1, place);
            if block == 3 && place == 1 {
                add(&mut run, trial.clone(), 1, Outcome::Void(void()), None);
            }
            if block == 10 && place == 1 {
                add(&mut run, trial, 1, Outcome::Void(void()), None);
                continue;
            }
            let outcome = Outcome::Measured(Box::new(measurement(place, figures[place], block)));
            let attempt = if block == 3 && place == 1 { 2 } else { 1 };
            add(&mut run, trial, attempt, outcome, Some(facts(place, block)));
        }
    }
    let judgement = verdict::judge(&run);
    (run, judgement)
}

/// Three arms and two workloads: the run above with a twin of its second arm, and all of it twice.
pub(crate) fn wide() -> (Run, Judgement) {
    let (mut run, _) = run();
    let twin = Arm {
        line: 1,
        name: "7.2-tuned".into(),
        ..run.plan.arms[1].clone()
    };
    let other = WorkloadPlan {
        id: "web-nginx".into(),
        ..run.plan.workloads[0].clone()
    };
    repeat(&mut run, |trial| {
        (trial.arm == "7.2").then(|| trial.arm.clone_from(&twin.name))
    });
    repeat(&mut run, |trial| {
        trial.workload.clone_from(&other.id);
        Some(())
    });
    run.plan.arms.push(twin);
    run.plan.workloads.push(other);
    let judgement = verdict::judge(&run);
    (run, judgement)
}

/// Two arms and two workloads of which `wide` tells: `7.2` serves more with a longer tail, `7.2-tuned` never boots.
pub(crate) fn torn() -> (Run, Judgement) {
    let (mut run, _) = wide();
    for record in &mut run.attempts {
        let is_tuned = record.trial.arm == "7.2-tuned";
        match &mut record.outcome {
            outcome if is_tuned => *outcome = Outcome::Void(void()),
            Outcome::Measured(measurement) if record.trial.arm == "7.2" => {
                let mut figures = measurement.figures.iter_mut();
                let tail = figures.find(|one| one.spec.name == "latency-p99");
                tail.expect("the play has a tail").value *= 3.6;
            }
            Outcome::Measured(_) | Outcome::Void(_) | Outcome::Skipped(_) => {}
        }
    }
    let judgement = verdict::judge(&run);
    (run, judgement)
}

/// A workload without simulated clients, too short to be sampled, on a plan like the first.
pub(crate) fn unserved() -> (Run, Judgement) {
    let (mut run, _) = run();
    for record in &mut run.attempts {
        if let Outcome::Measured(measurement) = &mut record.outcome {
            measurement.load = None;
            measurement.usage = Usage::default();
            measurement.server = String::new();
        }
    }
    let judgement = verdict::judge(&run);
    (run, judgement)
}

/// A ramp from one connection to 288, as in 1999: the baseline collapses past its peak, the other arm holds.
pub(crate) fn ramp() -> (Run, Judgement) {
    let (mut run, _) = run();
    for record in &mut run.attempts {
        if let Outcome::Measured(measurement) = &mut record.outcome {
            let wobble = 1.0 + 0.02 * f64::from(record.trial.block % 3);
            measurement.curves = curves(record.trial.arm == "6.1", wobble);
        }
    }
    let judgement = verdict::judge(&run);
    (run, judgement)
}

fn curves(collapses: bool, wobble: f64) -> Vec<Curve> {
    let steps = [
        (1.0, 300.0),
        (16.0, 900.0),
        (96.0, 980.0),
        (160.0, 1000.0),
        (288.0, 980.0),
    ];
    let last = |at: f64, rate: f64| if collapses && at > 200.0 { 70.0 } else { rate };
    let curve = |name: &str, unit: &str, direction, value: &dyn Fn(f64, f64) -> f64| Curve {
        name: name.into(),
        unit: unit.into(),
        direction,
        axis: "connections".into(),
        points: steps
            .iter()
            .map(|(at, rate)| Point {
                at: *at,
                value: value(*at, last(*at, *rate)) * wobble,
            })
            .collect(),
    };
    let (higher, lower) = (Direction::Higher, Direction::Lower);
    vec![
        curve("throughput", "requests/s", higher, &|_, rate| rate),
        curve("latency-p99", "us", lower, &|at, rate| 1.6e6 * at / rate),
    ]
}

/// Both arms on several numbers of CPUs, by a law that is known.
pub(crate) fn cpus(counts: &[u32]) -> (Run, Judgement) {
    let (mut run, _) = empty();
    let kernels = std::mem::take(&mut run.plan.arms);
    for (kernel, count) in kernels
        .iter()
        .flat_map(|kernel| counts.iter().map(move |count| (kernel, *count)))
    {
        let mut arm = kernel.clone();
        arm.name = format!("{}-{count}cpu", kernel.name);
        arm.cpus = Some(count);
        run.plan.arms.push(arm);
    }
    run.plan.baseline.clone_from(&run.plan.arms[0].name);
    run.opening.ns_per_instruction = None;
    for block in 1..=3 {
        for (index, arm) in run.plan.arms.clone().iter().enumerate() {
            let (old, n) = (index < counts.len(), f64::from(arm.cpus.unwrap_or(1)));
            let pair = n * (n - 1.0) * if old { 0.02 } else { 0.002 };
            let pace = 1000.0 + 10.0 * f64::from(block);
            let figure = pace * n / (1.0 + 0.05 * (n - 1.0) + pair);
            let outcome = measurement(usize::from(!old), figure, block);
            let trial = trial(&run, block, index as u32 + 1, index);
            add(
                &mut run,
                trial,
                1,
                Outcome::Measured(Box::new(outcome)),
                None,
            );
        }
    }
    let judgement = verdict::judge(&run);
    (run, judgement)
}

/// Adds a changed copy of every attempt that `change` does not refuse.
fn repeat(run: &mut Run, change: impl Fn(&mut Trial) -> Option<()>) {
    for index in 0..run.attempts.len() {
        let (mut record, facts) = (run.attempts[index].clone(), run.facts[index].clone());
        if change(&mut record.trial).is_some() {
            run.attempts.push(record);
            run.facts.push(facts);
        }
    }
}

/// A run that has only begun.
pub(crate) fn empty() -> (Run, Judgement) {
    let opening = opening();
    let run = Run {
        plan: plan(),
        plan_text: PLAN.into(),
        entries: vec![entry(
            "2026-01-01T10:00:00Z",
            Event::Opened(opening.clone()),
        )],
        opening,
        attempts: Vec::new(),
        struck: Vec::new(),
        facts: Vec::new(),
        missing: Vec::new(),
        models: None,
    };
    let judgement = verdict::judge(&run);
    (run, judgement)
}

fn entry(at: &str, event: Event) -> Entry {
    Entry {
        at: at.into(),
        event,
    }
}

fn looked() -> Event {
    Event::Looked {
        blocks: 9,
        lines: vec!["web-static 7.2 better +7.40 % [+6.9 %, +7.9 %]".into()],
        undecided: Some(Vec::new()),
    }
}

fn opening() -> Opening {
    let inputs = [
        ("plan", "5f2a"),
        ("image", "77b1"),
        ("kernel 6.1", "0c1d"),
        ("kernel 7.2", "9e8f"),
    ];
    let inputs = inputs.map(|(name, hash)| (name.to_string(), hash.repeat(16)));
    Opening {
        version: 1,
        bakeoff: "0.1.0".into(),
        inputs: inputs.into(),
        machine: "QEMU 7.2.22, emulated, clock instructions, 1 CPU, 1 GiB".into(),
        ns_per_instruction: Some(2),
        host_cpus: Some(2),
        accounting: Some(Accounting::RepPer8Bytes),
    }
}

fn plan() -> Plan {
    let arm = |name: &str, suite: &str| Arm {
        line: 1,
        name: name.into(),
        kernel: KernelRef::Debian {
            suite: suite.into(),
            version: name.into(),
        },
        cmdline: String::new(),
        sysctl: BTreeMap::new(),
        cpus: None,
        tuning: Tuning::default(),
    };
    let machine = MachinePlan {
        kind: MachineKind::Qemu,
        cpus: 1,
        memory_bytes: 1 << 30,
        clock: Clock::Auto,
        boot_timeout: Duration::from_secs(120),
        silence: Duration::from_secs(120),
        trial_limit: Duration::from_secs(3600),
        disk: DiskSpeed::default(),
        cpu_model: None,
    };
    let workload = WorkloadPlan {
        id: "web-static".into(),
        kind: "web-static".into(),
        options: serde_json::Value::Null,
        length: Duration::from_secs(12),
        expected: None,
    };
    let design = Design {
        margin: 0.01,
        error_rate: 0.05,
        min_blocks: 4,
        max_blocks: 30,
        more_blocks: 0,
        seed: 7,
    };
    Plan {
        title: HOSTILE.into(),
        baseline: "6.1".into(),
        mode: Mode::Controlled,
        machine,
        image: Some(ImagePlan {
            recipe: "web".into(),
            suite: None,
        }),
        arms: vec![arm("6.1", "bookworm"), arm("7.2", "trixie-backports")],
        workloads: vec![workload],
        design,
    }
}

fn trial(run: &Run, block: u32, slot: u32, place: usize) -> Trial {
    Trial {
        number: (block - 1) * 2 + slot,
        block,
        slot,
        arm: run.plan.arms[place].name.clone(),
        workload: "web-static".into(),
    }
}

fn add(run: &mut Run, trial: Trial, attempt: u32, outcome: Outcome, facts: Option<Facts>) {
    run.attempts.push(TrialRecord {
        version: TRIAL_VERSION,
        trial,
        attempt,
        outcome,
        host_time: Vec::new(),
    });
    run.facts.push(facts);
}

fn void() -> Void {
    Void {
        reason: VoidReason::Panic,
        detail: "Kernel panic - not syncing: <init> killed & gone".into(),
        console: vec![
            "[    2.1] Run /init as init process".into(),
            "</pre><script>alert(2)".into(),
        ],
    }
}

fn measurement(place: usize, pages_per_s: f64, block: u32) -> Measurement {
    let figure = |name: &str, unit: &str, role, direction, value| Figure {
        spec: MetricSpec {
            name: name.into(),
            unit: unit.into(),
            direction,
            role,
        },
        value,
    };
    let (guard, lower) = (Role::Guard, Direction::Lower);
    let us = 1e6 * 60.0 / pages_per_s;
    let odd = f64::from(block % 3);
    let load = load(pages_per_s, place, block);
    Measurement {
        figures: vec![
            figure(
                "throughput",
                "requests/s",
                Role::Primary,
                Direction::Higher,
                pages_per_s,
            ),
            figure("latency-p50", "us", guard, lower, us),
            figure("latency-p99", "us", guard, lower, us * (1.6 + odd / 5.0)),
            figure(
                "server-cpu",
                "us/request",
                guard,
                lower,
                402.0 - 3.0 * place as f64 + odd,
            ),
            figure("failed", "share", guard, lower, 0.0),
        ],
        curves: Vec::new(),
        load: Some(load),
        usage: Usage {
            cpu_user: 0.07 + 0.32 * place as f64,
            cpu_system: 0.93 - 0.33 * place as f64,
            memory_used_bytes: (180 + 20 * place as u64) << 20,
            sampling: 0.002,
            ..Usage::default()
        },
        boot_ms: 2100,
        spin_ns: 7_000_000,
        kernel: ["6.1.0-40-cloud-amd64", "7.2.3-cloud-amd64"][place].into(),
        server: "Apache/2.4.65 (Debian)".into(),
    }
}

/// Ten seconds of load, with a slow second and a tail.
fn load(pages_per_s: f64, place: usize, block: u32) -> LoadResult {
    let mut latency = Latency::new();
    let ok = (pages_per_s * 10.0) as u64;
    for page in 0..ok {
        let tail = 1.0 + 12.0 * ((page % 997) as f64 / 997.0).powf(40.0 - 10.0 * place as f64);
        latency
            .record((60e9 / pages_per_s * (0.8 + 0.4 * ((page % 89) as f64 / 89.0)) * tail) as u64);
    }
    let second = |at: u64| Second {
        at_ms: at * 1000,
        ok: (pages_per_s * (1.0 - 0.04 * f64::from(at as u32 % 4 + block % 2))) as u64,
        ..Second::default()
    };
    let faults = if block == 2 && place == 0 {
        [(Fault::Reset, 3)].into()
    } else {
        [].into()
    };
    LoadResult {
        window_ns: 10_000_000_000,
        planned: ok,
        ok,
        unsent: 0,
        faults,
        connections_asked: 60,
        connections_opened: 60,
        body_bytes: ok * 24_000,
        latency,
        timeline: (0..10).map(second).collect(),
        client_cpu_ns: vec![2_000_000_000],
        engine: "epoll".into(),
        ..LoadResult::default()
    }
}

fn facts(place: usize, block: u32) -> Facts {
    let version = [
        "Linux version 6.1.0 <gcc-12>",
        "Linux version 7.2.3 <gcc-15>",
    ][place];
    let some = |pairs: &[(&str, String)]| -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).into(), value.clone()))
            .collect()
    };
    let config = (0..120).map(|n| {
        (
            format!("CONFIG_OPTION_{n}"),
            ["y", "m"][(n + place) % 2].into(),
        )
    });
    Facts {
        version: 1,
        values: some(&[
            ("/proc/version", version.into()),
            (
                "/sys/kernel/mm/transparent_hugepage/enabled",
                ["always", "madvise"][place].into(),
            ),
            ("boot_id", format!("{place}{block}")),
        ]),
        sysctls: some(&[(
            "net.ipv4.tcp_rmem",
            ["4096 131072", "4096 262144"][place].into(),
        )]),
        kernel_config: config.collect(),
        boot_log: vec![["kvm: disabled", "spectre: vulnerable"][place].into()],
    }
}
