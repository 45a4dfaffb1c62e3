//! One attempt at a trial: boot, greet, give the job, listen until the agent is done.
//!
//! ```text
//! boot -> Hello? -> Run -> (Phase | Tick | Sample | Disturbance | Part)* -> Done | Failed
//!           |                     |
//!       boot time-out        silence, overrun, panic, exit, refused: each its own Void
//! ```
//! Nothing that the guest says comes here unchecked: `record::protocol::session` stands before it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use base::input::text;
use base::input::units::show_duration;
use machine::clock::Clock;
use machine::guest::{Boot, Guest, GuestEvent, Machine, MachineGone};
use plan::{Arm, DisturbedBlocks, MachineKind, Plan, PlannedDisturbance, WorkloadPlan};
use profiler::format;
use profiler::profile::Profile;
use record::counters::Counters;
use record::defect::{DefectLog, DefectSource, DefectStream, FoundDefect};
use record::disturbances::DisturbanceStream;
use record::evidence::{EvidenceFile, Facts, Sample, Usage, UsageSum};
use record::hardware_counters::HardwareCounters;
use record::hash::sha256;
use record::instructions::Instructions;
use record::load::Second;
use record::prng::SplitMix64;
use record::protocol::session::{CheckedMessage, Session};
use record::protocol::{
    CeilingJob, FromAgent, Greeting, Job, Part, Profiling, ToAgent, WorkloadJob,
};
use record::rundir::{DEFECTS, DISTURBANCES, Evidence, ProfileNote, SECONDS, Series};
use record::streamed::Streamed;
use record::trial::{HostPhase, JobResult, Outcome, PhaseTime, Trial, Void, VoidReason};
use record::validate;

use super::{Activity, charging, guest_cpu};

/// Longest wait in one go, so that Ctrl-C is noticed.
const GLANCE: Duration = Duration::from_millis(200);

/// Lines of the console that a void trial keeps in its record.
const LAST_LINES: usize = 20;

/// Longest name of a guest's that is kept.
const NAME_BYTES: usize = 500;

/// What an attempt measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A trial.
    Trial,
    /// What its clients get from a null server.
    Ceiling,
    /// The same trial with one client fewer.
    OneFewer,
}

/// What an attempt needs of the lab; threads share it.
pub(crate) struct Bench<'b> {
    pub(crate) plan: &'b Plan,
    pub(crate) machine: &'b dyn Machine,
    pub(crate) clock: &'b dyn Clock,
    pub(crate) greeting: &'b Greeting,
    /// What the attempt is run for.
    pub(crate) series: Series,
    /// What is measured.
    pub(crate) purpose: Purpose,
    /// The user wants to stop.
    pub(crate) interrupted: &'b AtomicBool,
    /// The lab does not want the figures any more.
    pub(crate) cancelled: Arc<AtomicBool>,
}

impl Bench<'_> {
    fn profiling(&self) -> Profiling {
        match self.series {
            Series::Profiled => Profiling::Sampled,
            Series::Judged if self.machine.is_profiled() => Profiling::Counted,
            Series::Judged => Profiling::None,
        }
    }

    /// What is done to a trial's system on purpose; never to a null server's.
    fn disturbances(&self) -> Vec<PlannedDisturbance> {
        match self.purpose {
            Purpose::Trial | Purpose::OneFewer => self.plan.disturbances.clone(),
            Purpose::Ceiling => Vec::new(),
        }
    }

    fn is_stopped(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed) || self.cancelled.load(Ordering::Relaxed)
    }
}

/// An attempt that has ended.
pub(crate) struct Attempted {
    pub(crate) outcome: Outcome,
    pub(crate) evidence: Evidence,
    pub(crate) host_time: Vec<PhaseTime>,
    pub(crate) profile: Option<ProfileNote>,
    /// None where nothing was booted.
    pub(crate) defects: Option<DefectLog>,
}

impl Attempted {
    pub(crate) fn skipped(why: String) -> Self {
        Self::without_evidence(Outcome::Skipped(why))
    }

    fn without_evidence(outcome: Outcome) -> Self {
        Self {
            outcome,
            evidence: Evidence::default(),
            host_time: Vec::new(),
            profile: None,
            defects: None,
        }
    }
}

/// Runs the attempt; `None` when it was stopped. An error ends the run: the machine is not there any more.
pub(crate) fn run(
    bench: &Bench<'_>,
    (workload, trial): (&WorkloadPlan, &Trial),
    dir: &Path,
    tell: &dyn Fn(Activity),
) -> Result<Option<Attempted>> {
    tell(Activity::Booting);
    let spin = Spin::begin(bench);
    let start = bench.clock.now();
    let mut guest = match bench.machine.boot(Boot {
        arm: &trial.arm,
        block: trial.block,
        dir,
        allowance_bytes: record::protocol::allowance(bench.plan.machine.trial_limit),
        stop: bench.interrupted,
    }) {
        Ok(guest) => guest,
        Err(_) if bench.is_stopped() => return Ok(None),
        Err(why) if why.is::<MachineGone>() => return Err(why),
        Err(why) => {
            let outcome = void(VoidReason::StartFailed, format!("{why:#}"), vec![]);
            return Ok(Some(Attempted::without_evidence(outcome)));
        }
    };
    let mut talk = Talk {
        bench,
        tell,
        guest: guest.as_mut(),
        session: Session::new(bench.greeting.clone()),
        start,
        last_word: start,
        starved: Duration::ZERO,
        boot: None,
        seen: Seen::new(dir),
        host_time: HostTime::begin(start),
    };
    let arm = bench.plan.arms.iter().find(|arm| arm.name == trial.arm);
    let arm = arm.expect("trials are made of the plan's arms");
    let end = talk.hold(&job(bench, (arm, trial.block), workload));
    talk.hear_console(&end)?;
    let Talk {
        seen,
        mut host_time,
        session,
        ..
    } = talk;
    let mut profile = None;
    let (outcome, facts) = match end {
        // What was seen is on disk, and stays there.
        End::Interrupted => return Ok(None),
        End::Broken(why) => return Err(why),
        End::Void(reason, detail) => (void(reason, detail, guest.console(LAST_LINES)), None),
        End::Done(mut done, boot) => {
            host_time.enter(HostPhase::Stopping, bench.clock.now());
            let written = guest.profiled();
            let counted = guest.counted();
            done.facts.values.extend(guest.host_facts());
            drop(guest);
            guest_cpu::note(bench.machine, &mut done.facts);
            let (outcome, facts) = match guest_cpu::obstacle(bench.machine, &done.facts) {
                Some(why) => (
                    void(VoidReason::WrongMachine, why, vec![]),
                    Some(done.facts),
                ),
                None => match charging::account(bench, workload, &mut done, counted) {
                    Ok(instructions) => {
                        let times = (boot, spin.end(bench));
                        measured(*done, instructions, seen.usage.usage(), times)
                    }
                    Err(why) => {
                        let why = format!("{why:#}");
                        (void(VoidReason::Miscounted, why, vec![]), Some(done.facts))
                    }
                },
            };
            // Nobody looks at the profile of a void trial, and it takes memory to read what a hostile guest has filled.
            if let Outcome::Measured(_) = outcome {
                profile = made(bench, &trial.arm, written, &session);
            }
            (outcome, facts)
        }
    };
    let (note, profile) = kept(profile);
    let (evidence, defects) = seen.evidence(facts, profile);
    Ok(Some(Attempted {
        outcome,
        evidence,
        host_time: host_time.end(bench.clock.now()),
        profile: note,
        defects: Some(defects),
    }))
}

/// Adds what the console of a guest told that could not tell it itself. What both tell is counted once: a kind of defect that the
/// guest has told is not taken from the console, which shows less of a report.
fn add_console(
    defects: &mut DefectStream,
    console: Vec<FoundDefect>,
    tell: &dyn Fn(Activity),
) -> Result<()> {
    let told = defects.kinds_of(DefectSource::Kernel);
    for mut found in console {
        if !told.contains(&found.kind) && validate::defect(&mut found).is_ok() {
            note(defects, found, tell)?;
        }
    }
    Ok(())
}

/// Keeps a defect, and shows it where it is new.
fn note(defects: &mut DefectStream, found: FoundDefect, tell: &dyn Fn(Activity)) -> Result<()> {
    if let Some((defect, true)) = defects.push(found)? {
        tell(Activity::Defect(Box::new(defect.clone())));
    }
    Ok(())
}

/// The profile that was asked for, from what the plugin wrote or the guest told; or why there is none.
fn made(
    bench: &Bench<'_>,
    arm: &str,
    written: Result<Vec<u8>>,
    session: &Session,
) -> Option<Result<Profile, String>> {
    let made = match bench.profiling() {
        Profiling::None => return None,
        Profiling::Counted => {
            written.and_then(|written| bench.machine.profile(arm, &written, session.code()))
        }
        Profiling::Sampled => sampled(session),
    };
    Some(made.map_err(|why| format!("{why:#}")))
}

/// The profile that the guest itself has made. Its names are the guest's, so that they are cleaned.
fn sampled(session: &Session) -> Result<Profile> {
    let mut profile = format::read(&session.profile().map_err(anyhow::Error::msg)?)?;
    if profile.sampling.is_none() {
        bail!("a guest that was sampled sent a profile that was not");
    }
    let clean = |name: &mut String| *name = text::clean_line(text::cut(name, NAME_BYTES));
    for node in &mut profile.nodes {
        clean(&mut node.name);
        clean(&mut node.image);
    }
    let counters = profile.sampling.iter_mut();
    let counters = counters.flat_map(|sampling| &mut sampling.counters);
    counters.for_each(|counter| clean(&mut counter.name));
    profile.lacks.iter_mut().for_each(clean);
    Ok(profile)
}

/// What is noted of a profile, and its bytes.
fn kept(profile: Option<Result<Profile, String>>) -> (Option<ProfileNote>, Option<Vec<u8>>) {
    match profile {
        None => (None, None),
        Some(Err(why)) => (Some(ProfileNote::Missing(why)), None),
        Some(Ok(profile)) => {
            if let Some(why) = format::excess(&profile) {
                let why = format!("profile that is too large to be kept: {why}");
                return (Some(ProfileNote::Missing(why)), None);
            }
            let bytes = format::write(&profile);
            let sha256 = sha256(&bytes);
            let note = match &profile.sampling {
                None => ProfileNote::Kept {
                    sha256,
                    busy_instructions: profile.busy_instructions(),
                },
                Some(sampling) => ProfileNote::Sampled {
                    sha256,
                    samples: sampling.samples,
                    lost: sampling.lost,
                },
            };
            (Some(note), Some(bytes))
        }
    }
}

/// What was seen of the load, on disk as it comes.
struct Seen {
    samples: Streamed<Sample>,
    usage: UsageSum,
    seconds: Streamed<Second>,
    defects: DefectStream,
    counters: Streamed<Counters>,
    disturbances: DisturbanceStream,
}

impl Seen {
    fn new(dir: &Path) -> Self {
        Self {
            samples: Streamed::new(dir.join(EvidenceFile::Samples.name())),
            usage: UsageSum::default(),
            seconds: Streamed::new(dir.join(SECONDS)),
            defects: DefectStream::new(dir.join(DEFECTS)),
            counters: Streamed::new(dir.join(EvidenceFile::Counters.name())),
            disturbances: DisturbanceStream::new(dir.join(DISTURBANCES)),
        }
    }

    fn add_sample(&mut self, sample: Sample) -> Result<()> {
        self.usage.add(&sample);
        self.samples.push(&[sample])
    }

    fn add_seconds(&mut self, seconds: &[Second]) -> Result<()> {
        self.seconds.push(seconds)?;
        for second in seconds {
            self.defects.end_second(second);
        }
        Ok(())
    }

    fn evidence(self, facts: Option<Facts>, profile: Option<Vec<u8>>) -> (Evidence, DefectLog) {
        let evidence = Evidence {
            samples: self.samples.into_series().into_vec(),
            seconds: self.seconds.into_series().into_vec(),
            counters: self.counters.into_series().into_vec(),
            facts,
            profile,
        };
        (evidence, self.defects.into_log())
    }
}

/// The host's time by phase, as it passes.
struct HostTime {
    phase: HostPhase,
    since: Duration,
    ended: Vec<PhaseTime>,
}

impl HostTime {
    fn begin(now: Duration) -> Self {
        Self {
            phase: HostPhase::Booting,
            since: now,
            ended: Vec::new(),
        }
    }

    fn enter(&mut self, phase: HostPhase, now: Duration) {
        if phase != self.phase {
            self.leave(now);
            self.phase = phase;
        }
    }

    fn leave(&mut self, now: Duration) {
        self.ended.push(PhaseTime {
            phase: self.phase,
            host_ms: now.saturating_sub(self.since).as_millis() as u64,
        });
        self.since = now;
    }

    fn end(mut self, now: Duration) -> Vec<PhaseTime> {
        self.leave(now);
        self.ended
    }
}

/// How fast the host is, which nothing within a guest should decide on: its kernel is what is compared.
struct Spin(Duration);

impl Spin {
    fn begin(bench: &Bench<'_>) -> Self {
        Self(Self::now(bench))
    }

    /// The longer one of now and then.
    fn end(self, bench: &Bench<'_>) -> Duration {
        self.0.max(Self::now(bench))
    }

    /// Under counted instructions the host's speed does not matter.
    fn now(bench: &Bench<'_>) -> Duration {
        match bench.machine.ns_per_instruction() {
            None => bench.clock.spin(),
            Some(_) => Duration::ZERO,
        }
    }
}

fn job(bench: &Bench<'_>, (arm, block): (&Arm, u32), workload: &WorkloadPlan) -> Job {
    let WorkloadPlan { kind, options, .. } = workload.clone();
    let mut target = bench.plan.target(arm, block);
    if bench.purpose == Purpose::Ceiling
        && let Some(target) = &mut target
    {
        // It is not the system that is loaded then.
        target.evidence = None;
    }
    Job {
        cmdline: arm.cmdline.clone(),
        sysctl: arm.sysctl.clone(),
        tuning: arm.tuning.clone(),
        workload: WorkloadJob { kind, options },
        disk: bench.plan.machine.seek_disk.clone(),
        disturbances: bench.disturbances(),
        seed: seed(bench.plan, block),
        ns_per_instruction: bench.machine.ns_per_instruction(),
        profiling: bench.profiling(),
        target,
        servers: Vec::new(),
        part: Part::Whole,
        ceiling: (bench.purpose == Purpose::Ceiling).then(|| ceiling(bench.plan)),
        one_fewer: bench.purpose == Purpose::OneFewer,
        accepts_busy_host: bench.plan.machine.kind == MachineKind::Local
            && bench.plan.disturbed_blocks == DisturbedBlocks::Keep,
        schedules_as_one: bench.plan.machine.kind == MachineKind::Qemu
            && !bench.plan.machine.parts_sessions,
    }
}

/// Systems on the network are asked at other instants in each block, the same for all arms: a schedule that suits one of them by chance
/// would else do so in each. In guests the seed makes the data too, and under counted instructions blocks differ in nothing else.
fn seed(plan: &Plan, block: u32) -> u64 {
    match plan.machine.kind {
        MachineKind::Url => SplitMix64::new(plan.design.seed)
            .bits()
            .wrapping_add(u64::from(block)),
        MachineKind::Qemu | MachineKind::Local | MachineKind::Ssh => plan.design.seed,
    }
}

/// Where the null server is.
fn ceiling(plan: &Plan) -> CeilingJob {
    match &plan.machine.ceiling {
        Some(url) => CeilingJob::At(url.clone()),
        None => CeilingJob::Own,
    }
}

fn void(reason: VoidReason, detail: String, console: Vec<String>) -> Outcome {
    Outcome::Void(Void {
        reason,
        detail,
        console,
    })
}

fn measured(
    done: JobResult,
    instructions: Option<Box<Instructions>>,
    usage: Usage,
    (boot, spin): (Duration, Duration),
) -> (Outcome, Option<Facts>) {
    let JobResult {
        mut measurement,
        metered,
        facts,
    } = done;
    if let Some(HardwareCounters::Counted(window)) = &measurement.hardware_counters {
        let of_cpus = window.figures(metered.window_ns, &measurement.figures);
        measurement.figures.extend(of_cpus);
    }
    // What only the host can see, whatever the guest has said of it.
    measurement.instructions = instructions;
    measurement.usage = usage;
    measurement.boot_ms = boot.as_millis() as u64;
    measurement.spin_ns = spin.as_nanos() as u64;
    (Outcome::Measured(Box::new(measurement)), Some(facts))
}

enum End {
    Done(Box<JobResult>, Duration),
    Void(VoidReason, String),
    Interrupted,
    /// The host cannot keep what it hears.
    Broken(anyhow::Error),
}

/// The conversation with one guest.
struct Talk<'t> {
    bench: &'t Bench<'t>,
    tell: &'t dyn Fn(Activity),
    guest: &'t mut dyn Guest,
    session: Session,
    start: Duration,
    last_word: Duration,
    /// What the guest had waited for the host's CPUs when it spoke last.
    starved: Duration,
    boot: Option<Duration>,
    seen: Seen,
    host_time: HostTime,
}

impl Talk<'_> {
    /// Listens and answers until the attempt has an end.
    fn hold(&mut self, job: &Job) -> End {
        loop {
            if self.bench.is_stopped() {
                return End::Interrupted;
            }
            let (left, late) = self.patience();
            if left.is_zero() {
                return late;
            }
            let end = match self.guest.next(left.min(GLANCE)) {
                GuestEvent::Quiet => None,
                GuestEvent::Said(message) => self.hear(*message, job),
                GuestEvent::Panicked(line) => Some(End::Void(VoidReason::Panic, line)),
                GuestEvent::Exited(status) => Some(End::Void(VoidReason::MachineExit, status)),
                GuestEvent::Refused(why) => Some(End::Void(VoidReason::AgentFailed, why)),
            };
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// How long to wait still, and what it is called when that is over.
    fn patience(&self) -> (Duration, End) {
        let machine = &self.bench.plan.machine;
        let now = self.bench.clock.now();
        let limit = |from: Duration, limit: Duration| (from + limit).saturating_sub(now);
        // On a host that is busy with others a guest has no time to speak in.
        let starved = self.guest.starved().saturating_sub(self.starved);
        let boot = (
            limit(self.start + starved, machine.boot_timeout),
            VoidReason::BootTimeout,
            format!(
                "no word from the agent in {}",
                show_duration(machine.boot_timeout)
            ),
        );
        let silence = (
            limit(self.last_word + starved, machine.silence),
            VoidReason::Silent,
            format!("agent silent for {}", show_duration(machine.silence)),
        );
        let overrun = (
            limit(self.start, machine.trial_limit),
            VoidReason::Overrun,
            format!(
                "trial ran past its limit of {}",
                show_duration(machine.trial_limit)
            ),
        );
        let first = if self.boot.is_none() { boot } else { silence };
        let (left, reason, detail) = if overrun.0 < first.0 { overrun } else { first };
        (left, End::Void(reason, detail))
    }

    fn hear(&mut self, message: FromAgent, job: &Job) -> Option<End> {
        self.last_word = self.bench.clock.now();
        self.starved = self.guest.starved();
        let word = match self.session.accept(message) {
            Ok(word) => word,
            Err(why) => {
                let detail = format!("what the guest said is refused: {why}");
                return Some(End::Void(VoidReason::AgentFailed, detail));
            }
        };
        match word {
            CheckedMessage::Hello => {
                self.boot = Some(self.last_word.saturating_sub(self.start));
                self.host_time.enter(HostPhase::SettingUp, self.last_word);
                return self.give(job).err().map(|why| {
                    let detail = format!("the job could not be handed over: {why:#}");
                    End::Void(VoidReason::AgentFailed, detail)
                });
            }
            CheckedMessage::Failed { reason, detail } => return Some(End::Void(reason, detail)),
            CheckedMessage::Done(done) => {
                let boot = self
                    .boot
                    .expect("a session has a result only after its greeting");
                return Some(End::Done(done, boot));
            }
            CheckedMessage::Phase(phase) => {
                self.host_time.enter(phase.into(), self.last_word);
                (self.tell)(Activity::Phase(phase));
            }
            CheckedMessage::Tick(tick) => {
                if let Err(why) = self.seen.add_seconds(&tick.ended) {
                    return Some(End::Broken(why));
                }
                (self.tell)(Activity::Tick(tick));
            }
            CheckedMessage::Sample(sample) => {
                if let Err(why) = self.seen.add_sample(*sample) {
                    return Some(End::Broken(why));
                }
            }
            CheckedMessage::Defect(defect) => {
                if let Err(why) = note(&mut self.seen.defects, *defect, self.tell) {
                    return Some(End::Broken(why));
                }
            }
            CheckedMessage::KernelLog(log) => self.seen.defects.set_kernel_log(log),
            CheckedMessage::Counters(counters) => {
                if let Err(why) = self.seen.counters.push(&[*counters]) {
                    return Some(End::Broken(why));
                }
            }
            CheckedMessage::Disturbance(begun) => {
                if let Err(why) = self.seen.disturbances.push(&begun) {
                    return Some(End::Broken(why));
                }
            }
            CheckedMessage::Part => {}
        }
        None
    }

    /// Takes from the console what a guest can no longer tell, or never could.
    fn hear_console(&mut self, end: &End) -> Result<()> {
        if matches!(end, End::Done(..)) && self.seen.defects.has_kernel_log() {
            return Ok(());
        }
        add_console(&mut self.seen.defects, self.guest.defects(), self.tell)
    }

    fn give(&mut self, job: &Job) -> Result<()> {
        self.guest
            .send(&ToAgent::Hello(self.bench.greeting.clone()))?;
        self.guest.send(&ToAgent::Run(Box::new(job.clone())))
    }
}
