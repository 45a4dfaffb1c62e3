//! A simulated machine: arms with a known truth, in simulated time.
//!
//! It lets a test run the whole pipeline - lab, journal, verdict, report - in a second, and know what the
//! verdict should be. Its guests use the real protocol; waiting for them advances a simulated clock.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};
use std::time::Duration;

use anyhow::{Result, bail};
use record::defect::{DefectSource, FoundDefect, KernelLog, Kind, Severity, When};
use record::hardware_counters::HardwareCounters;
use record::load::Tick;
use record::load_path::LoadPath;
use record::machine::MachineDescription;
use record::prng::{SplitMix64, fnv1a};
use record::protocol::{FromAgent, Greeting, Profiling, ToAgent};
use record::trial::{Phase, VoidReason};

use crate::clock::Clock;
use crate::guest::{Boot, Guest, GuestEvent, Machine, MachineGone};
use soak::{Load, Soak};
use truth::{Truth, done, lie, results, sample};

mod sampled;
pub mod soak;
mod truth;

/// Simulated time, which advances only by waits. Each thread has a separate clock, so that guests that run side by side take as
/// long as they would alone.
#[derive(Debug, Clone, Default)]
pub struct FakeClock(Arc<Mutex<HashMap<ThreadId, Duration>>>);

impl FakeClock {
    fn pass(&self, time: Duration) {
        *self.times().entry(thread::current().id()).or_default() += time;
    }

    fn times(&self) -> MutexGuard<'_, HashMap<ThreadId, Duration>> {
        self.0.lock().expect("nobody panics while time passes")
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Duration {
        let times = self.times();
        times
            .get(&thread::current().id())
            .copied()
            .unwrap_or_default()
    }

    fn stamp(&self) -> String {
        // The day goes on with whatever passes anywhere. It is 2001-09-09, which nobody takes for a real one.
        let passed: Duration = self.times().values().sum();
        let instant = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000) + passed;
        humantime::format_rfc3339_seconds(instant).to_string()
    }

    fn spin(&self) -> Duration {
        Duration::from_millis(7)
    }
}

/// The outcome of a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Runs the job to its end.
    Measures,
    /// The machine does not start.
    StartFails,
    /// The machine is gone.
    IsLost,
    /// The kernel boots, but the agent sends nothing.
    NeverSpeaks,
    /// The kernel panics while it boots.
    Panics,
    /// It measures, but waits ten minutes for a CPU before each of its first messages.
    Starves,
    /// The agent greets, begins and falls silent.
    FallsSilent,
    /// The machine ends in the middle of the load.
    Exits,
    /// The service does not start.
    ServiceFails,
    /// The kernel ejects the arm's scheduler under load, which the agent reports at its end.
    EjectsScheduler,
    /// The kernel lacks a setting of the arm.
    RefusesSetting,
    /// The agent's channel has invalid bytes.
    Garbles,
    /// The agent reports a negative latency.
    Lies,
    /// The agent is of another build.
    Foreign,
    /// It measures, but cannot sample.
    Unprofiled,
}

/// The truth about one arm.
#[derive(Debug, Clone)]
pub struct FakeArm {
    /// Requests per second without noise.
    pub rate_per_s: f64,
    /// Standard deviation of the logarithm of a trial's rate.
    pub noise: f64,
    /// The share of its figure with one client fewer; 1 if the server is the limit.
    pub one_fewer: f64,
    /// Outcomes of its boots in order; later boots measure.
    pub boots: Vec<Behaviour>,
}

/// The machine.
#[derive(Debug)]
pub struct FakeMachine {
    /// Truth by arm.
    pub arms: BTreeMap<String, FakeArm>,
    /// Its time.
    pub clock: FakeClock,
    /// The build that its agents claim to be.
    pub greeting: Greeting,
    /// Seed of the noise.
    pub seed: u64,
    /// Trials, by the names of their directories, from which the hypervisor steals: they serve half.
    pub robbed: BTreeSet<String>,
    /// What the CPUs' counters of arms say of a second in which 1000 requests are served; of others they were not asked.
    pub counters: BTreeMap<String, HardwareCounters>,
    /// Arms whose guests are loaded for long; all others for a second.
    pub soaks: BTreeMap<String, Soak>,
    /// Boots so far, by arm.
    pub booted: Mutex<BTreeMap<String, usize>>,
}

impl Machine for FakeMachine {
    fn describe(&self) -> MachineDescription {
        MachineDescription::Fake
    }

    fn ns_per_instruction(&self) -> Option<u32> {
        None
    }

    fn boot(&self, boot: Boot<'_>) -> Result<Box<dyn Guest>> {
        let arm = &self.arms[boot.arm];
        let count = self.count_boot(boot.arm);
        let behaviour = arm.boots.get(count).copied().unwrap_or(Behaviour::Measures);
        if behaviour == Behaviour::StartFails {
            bail!("the fake machine does not start");
        }
        if behaviour == Behaviour::IsLost {
            return Err(MachineGone("the fake machine is lost".into()).into());
        }
        // A trial's noise depends only on its place, so a resumed run has the same results.
        let mut noise = SplitMix64::new(self.seed ^ fnv1a(place(boot.dir).as_bytes()));
        let is_robbed = self.robbed.contains(&place(boot.dir));
        let left = if is_robbed { 0.5 } else { 1.0 };
        let truth = Truth {
            arm: boot.arm,
            counters: self.counters.get(boot.arm),
            rate_per_s: left * arm.rate_per_s * (arm.noise * normal(&mut noise)).exp(),
            steal_ms: if is_robbed { 450 } else { 0 },
        };
        let soak = self.soaks.get(boot.arm);
        let soak = soak.filter(|_| behaviour == Behaviour::Measures);
        let script = match soak {
            None => script(behaviour, &self.greeting, truth),
            Some(_) => begins(&self.greeting).into(),
        };
        Ok(Box::new(FakeGuest {
            script,
            load: soak.map(|soak| Load::new(soak, &truth, boot.allowance_bytes)),
            clock: self.clock.clone(),
            one_fewer: arm.one_fewer,
            has_profile: behaviour != Behaviour::Unprofiled,
            is_starving: behaviour == Behaviour::Starves,
            panics: behaviour == Behaviour::Panics,
            starved: Duration::ZERO,
        }))
    }
}

impl FakeMachine {
    fn count_boot(&self, arm: &str) -> usize {
        let mut booted = self.booted.lock().expect("nobody panics while it counts");
        let count = booted.entry(arm.into()).or_default();
        *count += 1;
        *count - 1
    }
}

struct FakeGuest {
    /// What happens, and after how long.
    script: VecDeque<(Duration, GuestEvent)>,
    /// What happens after that, second by second.
    load: Option<Load>,
    clock: FakeClock,
    one_fewer: f64,
    has_profile: bool,
    is_starving: bool,
    panics: bool,
    starved: Duration,
}

impl FakeGuest {
    fn pass(&mut self, time: Duration) {
        self.clock.pass(time);
        if self.is_starving {
            self.starved += time;
        }
    }
}

impl Guest for FakeGuest {
    fn send(&mut self, message: &ToAgent) -> Result<()> {
        if let ToAgent::Run(job) = message {
            if let Some(load) = &mut self.load {
                load.disturb(&job.disturbances);
            }
            if job.profiling == Profiling::Sampled && self.has_profile {
                sampled::tell(&mut self.script);
            }
            if job.target.is_some() {
                let left = if job.one_fewer { self.one_fewer } else { 1.0 };
                drive_from_outside(&mut self.script, left);
            }
        }
        Ok(())
    }

    fn next(&mut self, limit: Duration) -> GuestEvent {
        if let (true, Some(load)) = (self.script.is_empty(), &mut self.load) {
            self.script = load.next();
        }
        match self.script.pop_front() {
            Some((delay, happening)) if delay <= limit => {
                self.pass(delay);
                happening
            }
            waited => {
                if let Some((delay, happening)) = waited {
                    self.script
                        .push_front((delay.saturating_sub(limit), happening));
                }
                self.pass(limit);
                GuestEvent::Quiet
            }
        }
    }

    fn starved(&self) -> Duration {
        self.starved
    }

    fn defects(&mut self) -> Vec<FoundDefect> {
        let panic = FoundDefect {
            source: DefectSource::Console,
            kind: Kind::Panic,
            severity: Severity::Defect,
            top: "fake".into(),
            count: 1,
            first: When::default(),
            last: When::default(),
            ok_per_s: None,
            lines: vec!["Kernel panic - not syncing: fake".into()],
        };
        self.panics.then_some(panic).into_iter().collect()
    }

    fn console(&self, lines: usize) -> Vec<String> {
        vec!["fake console".to_string(); lines.min(1)]
    }
}

/// Has the result be one of clients on CPUs of their own, who get `left` of the arm's figure.
fn drive_from_outside(script: &mut VecDeque<(Duration, GuestEvent)>, left: f64) {
    for (_, event) in script {
        if let GuestEvent::Said(word) = event
            && let FromAgent::Done(result) = &mut **word
        {
            result.measurement.path = Some(LoadPath::default());
            result.measurement.figures[0].value *= left;
        }
    }
}

/// The agent's message for a scheduler that left a task without the CPU for too long.
pub const EJECTED: &str =
    "scheduler ejected by the kernel: o1 (runnable task stall: sh[412] failed to run for 30.004s)";

/// The agent's message for a setting that its kernel lacks.
const REFUSED: &str = "this kernel has no sysctl vm.x (remove it from the arm, or load its module)";

/// From the greeting to the window.
fn begins(greeting: &Greeting) -> [(Duration, GuestEvent); 5] {
    let message_after = |seconds, word| {
        let event = GuestEvent::Said(Box::new(word));
        (Duration::from_secs(seconds), event)
    };
    [
        message_after(2, FromAgent::Hello(greeting.clone())),
        message_after(0, FromAgent::Phase(Phase::SettingUp)),
        message_after(1, FromAgent::Phase(Phase::Starting)),
        message_after(0, FromAgent::KernelLog(KernelLog::Read { lost: 0 })),
        message_after(1, FromAgent::Phase(Phase::Measuring)),
    ]
}

fn fails(reason: VoidReason, detail: &str) -> (Duration, GuestEvent) {
    let detail = detail.to_string();
    let failed = FromAgent::Failed { reason, detail };
    (Duration::from_secs(1), GuestEvent::Said(Box::new(failed)))
}

fn script(
    behaviour: Behaviour,
    greeting: &Greeting,
    truth: Truth<'_>,
) -> VecDeque<(Duration, GuestEvent)> {
    let after = |seconds, happening| (Duration::from_secs(seconds), happening);
    let message_after = |seconds, word| after(seconds, GuestEvent::Said(Box::new(word)));
    let hello = message_after(2, FromAgent::Hello(greeting.clone()));
    let begin = [
        message_after(0, FromAgent::Phase(Phase::SettingUp)),
        message_after(1, FromAgent::Phase(Phase::Starting)),
        message_after(0, FromAgent::KernelLog(KernelLog::Read { lost: 0 })),
    ];
    let load = [
        message_after(1, FromAgent::Phase(Phase::Measuring)),
        message_after(
            1,
            FromAgent::Tick(Tick {
                second: 1,
                ok: truth.rate_per_s as u64,
                ..Tick::default()
            }),
        ),
        message_after(0, FromAgent::Sample(Box::new(sample(truth.steal_ms)))),
    ];
    let served = [hello.clone()].into_iter().chain(begin.clone()).chain(load);
    match behaviour {
        Behaviour::StartFails | Behaviour::IsLost | Behaviour::NeverSpeaks => VecDeque::new(),
        Behaviour::Panics => [after(
            1,
            GuestEvent::Panicked("Kernel panic - not syncing".into()),
        )]
        .into(),
        Behaviour::FallsSilent => [hello].into_iter().chain(begin).collect(),
        Behaviour::Exits => served
            .chain([after(0, GuestEvent::Exited("killed".into()))])
            .collect(),
        Behaviour::Garbles => [hello, after(0, GuestEvent::Refused("not a message".into()))].into(),
        Behaviour::ServiceFails => [hello]
            .into_iter()
            .chain(begin)
            .chain([fails(VoidReason::ServiceFailed, "apache2 ended at once")])
            .collect(),
        Behaviour::RefusesSetting => [hello]
            .into_iter()
            .chain(begin)
            .chain([fails(VoidReason::SettingRefused, REFUSED)])
            .collect(),
        Behaviour::EjectsScheduler => served
            .chain([fails(VoidReason::SchedulerFailed, EJECTED)])
            .collect(),
        Behaviour::Foreign => {
            let foreign = Greeting {
                build: "another".into(),
                ..greeting.clone()
            };
            [message_after(2, FromAgent::Hello(foreign))].into()
        }
        Behaviour::Lies => served.chain(results(lie(&truth))).collect(),
        Behaviour::Measures | Behaviour::Unprofiled => {
            served.chain(results(done(&truth))).collect()
        }
        Behaviour::Starves => {
            let rest = results(done(&truth));
            let late = |(at, (delay, happening))| match at {
                0..3 => (delay + Duration::from_secs(600), happening),
                _ => (delay, happening),
            };
            served.enumerate().map(late).chain(rest).collect()
        }
    }
}

/// Standard normal (Box and Muller 1958).
fn normal(prng: &mut SplitMix64) -> f64 {
    let (radius, angle) = (prng.unit(), prng.unit());
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

/// The attempt's name: the run directory may lie anywhere.
fn place(dir: &Path) -> String {
    dir.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}
