//! One attempt at a trial: boot the machine, greet the agent, send the job, and receive messages until the agent is done.
//!
//! ```text
//! boot -> Hello? -> Run -> (Phase | Tick | Sample | Disturbance | Part)* -> Done | Failed
//!           |                     |
//!       boot timeout         silence, overrun, panic, exit, refused: each has a `VoidReason`
//! ```
//! `record::protocol::session` checks every message of the guest before it is used here.

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
    CeilingJob, ClientsBeside, FromAgent, Greeting, Job, Part, Profiling, ToAgent, WorkloadJob,
};
use record::rundir::{DEFECTS, DISTURBANCES, Evidence, ProfileNote, SECONDS, Series};
use record::streamed::Streamed;
use record::trial::{HostPhase, JobResult, Outcome, PhaseTime, Trial, Void, VoidReason};
use record::validate;

use super::{Activity, charging, guest_cpu};

/// Longest single wait for a message, so that Ctrl-C is noticed in time.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Console lines in the record of a void trial.
const CONSOLE_LINES: usize = 20;

/// Names in a guest's profile are cut to this length.
const MAX_NAME_BYTES: usize = 500;

/// What an attempt measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A trial.
    Trial,
    /// The load that the clients reach against a null server.
    Ceiling,
    /// The same trial with one client fewer.
    OneFewer,
}

/// What an attempt needs from the lab.
pub(crate) struct AttemptContext<'b> {
    pub(crate) plan: &'b Plan,
    pub(crate) machine: &'b dyn Machine,
    pub(crate) clock: &'b dyn Clock,
    pub(crate) greeting: &'b Greeting,
    pub(crate) series: Series,
    pub(crate) purpose: Purpose,
    /// Set when the user wants to stop.
    pub(crate) interrupted: &'b AtomicBool,
    /// Set when the lab cancels the attempt.
    pub(crate) cancelled: Arc<AtomicBool>,
}

impl AttemptContext<'_> {
    fn profiling(&self) -> Profiling {
        match self.series {
            Series::Profiled => Profiling::Sampled,
            Series::Judged if self.machine.is_profiled() => Profiling::Counted,
            Series::Judged => Profiling::None,
        }
    }

    /// The planned disturbances of a trial. A null server is never disturbed.
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
pub(crate) struct EndedAttempt {
    pub(crate) outcome: Outcome,
    pub(crate) evidence: Evidence,
    pub(crate) host_time: Vec<PhaseTime>,
    pub(crate) profile: Option<ProfileNote>,
    /// `None` if nothing was booted.
    pub(crate) defects: Option<DefectLog>,
}

impl EndedAttempt {
    pub(crate) fn skipped(reason: String) -> Self {
        Self::without_evidence(Outcome::Skipped(reason))
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

/// Runs the attempt; returns `None` if it was stopped.
///
/// # Errors
/// The machine is gone, or the host cannot write the evidence. Either ends the run.
pub(crate) fn run(
    context: &AttemptContext<'_>,
    workload: &WorkloadPlan,
    trial: &Trial,
    dir: &Path,
    on_activity: &dyn Fn(Activity),
) -> Result<Option<EndedAttempt>> {
    on_activity(Activity::Booting);
    let spin = Spin::begin(context);
    let start = context.clock.now();
    let mut guest = match context.machine.boot(Boot {
        arm: &trial.arm,
        block: trial.block,
        dir,
        allowance_bytes: record::protocol::allowance(context.plan.machine.trial_limit),
        stop: context.interrupted,
    }) {
        Ok(guest) => guest,
        Err(_) if context.is_stopped() => return Ok(None),
        Err(why) if why.is::<MachineGone>() => return Err(why),
        Err(why) => {
            let outcome = void(VoidReason::StartFailed, format!("{why:#}"), vec![]);
            return Ok(Some(EndedAttempt::without_evidence(outcome)));
        }
    };
    let mut conversation = Conversation {
        context,
        on_activity,
        guest: guest.as_mut(),
        session: Session::new(context.greeting.clone()),
        start,
        last_message_at: start,
        starved: Duration::ZERO,
        boot: None,
        observations: Observations::new(dir),
        host_time: HostTime::begin(start),
    };
    let arm = context.plan.arms.iter().find(|arm| arm.name == trial.arm);
    let arm = arm.expect("trials are made of the plan's arms");
    let end = conversation.run(&job(context, arm, trial.block, workload));
    conversation.add_console_defects(&end)?;
    let Conversation {
        observations,
        mut host_time,
        session,
        ..
    } = conversation;
    let mut profile = None;
    let (outcome, facts) = match end {
        // The observations so far stay on disk.
        End::Interrupted => return Ok(None),
        End::HostFailed(why) => return Err(why),
        End::Void(reason, detail) => (void(reason, detail, guest.console(CONSOLE_LINES)), None),
        End::Done(mut done, boot) => {
            host_time.enter(HostPhase::Stopping, context.clock.now());
            let plugin_profile = guest.profiled();
            let counted = guest.counted();
            done.facts.values.extend(guest.host_facts());
            drop(guest);
            guest_cpu::add_model(context.machine, &mut done.facts);
            let (outcome, facts) =
                match guest_cpu::wrong_cpu(context.machine, context.plan.machine.arch, &done.facts)
                {
                    Some(why) => (
                        void(VoidReason::WrongMachine, why, vec![]),
                        Some(done.facts),
                    ),
                    None => match charging::charge(context, workload, &mut done, counted) {
                        Ok(instructions) => {
                            let usage = observations.usage.usage();
                            measured(*done, instructions, usage, boot, spin.end(context))
                        }
                        Err(why) => {
                            let why = format!("{why:#}");
                            (void(VoidReason::Miscounted, why, vec![]), Some(done.facts))
                        }
                    },
                };
            // The profile of a void trial is not used, and reading a hostile guest's profile costs memory.
            if let Outcome::Measured(_) = outcome {
                profile = profile_result(context, &trial.arm, plugin_profile, &session);
            }
            (outcome, facts)
        }
    };
    let (note, profile) = encode_profile(profile);
    let (evidence, defects) = observations.evidence(facts, profile);
    Ok(Some(EndedAttempt {
        outcome,
        evidence,
        host_time: host_time.end(context.clock.now()),
        profile: note,
        defects: Some(defects),
    }))
}

/// Records a defect, and reports it if it is new.
fn record_defect(
    defects: &mut DefectStream,
    defect: FoundDefect,
    on_activity: &dyn Fn(Activity),
) -> Result<()> {
    if let Some((defect, true)) = defects.push(defect)? {
        on_activity(Activity::Defect(Box::new(defect.clone())));
    }
    Ok(())
}

/// The requested profile, read from the emulator's plugin or from the guest, or why there is none.
/// Returns `None` if no profile was requested.
fn profile_result(
    context: &AttemptContext<'_>,
    arm: &str,
    plugin_profile: Result<Vec<u8>>,
    session: &Session,
) -> Option<Result<Profile, String>> {
    let profile = match context.profiling() {
        Profiling::None => return None,
        Profiling::Counted => {
            plugin_profile.and_then(|bytes| context.machine.profile(arm, &bytes, session.code()))
        }
        Profiling::Sampled => read_sampled_profile(session),
    };
    Some(profile.map_err(|why| format!("{why:#}")))
}

/// The profile that the guest made. The guest chose its names, so they are cleaned.
fn read_sampled_profile(session: &Session) -> Result<Profile> {
    let mut profile = format::read(&session.profile().map_err(anyhow::Error::msg)?)?;
    if profile.sampling.is_none() {
        bail!("a guest that was sampled sent a profile that was not");
    }
    let clean = |name: &mut String| *name = text::clean_line(text::cut(name, MAX_NAME_BYTES));
    for node in &mut profile.nodes {
        clean(&mut node.name);
        clean(&mut node.image);
    }
    if let Some(sampling) = &mut profile.sampling {
        for counter in &mut sampling.counters {
            clean(&mut counter.name);
        }
    }
    profile.lacks.iter_mut().for_each(clean);
    Ok(profile)
}

/// The note about a profile for the trial's record, and the encoded profile.
fn encode_profile(
    profile: Option<Result<Profile, String>>,
) -> (Option<ProfileNote>, Option<Vec<u8>>) {
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

/// What the host observed of the trial. It is written to disk as it arrives.
struct Observations {
    samples: Streamed<Sample>,
    usage: UsageSum,
    seconds: Streamed<Second>,
    defects: DefectStream,
    counters: Streamed<Counters>,
    disturbances: DisturbanceStream,
}

impl Observations {
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

/// Host time spent in each phase of the attempt.
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

/// The time of a fixed loop on the host, which shows how fast the host is. A guest cannot measure this: its kernel is what
/// is compared.
struct Spin(Duration);

impl Spin {
    fn begin(context: &AttemptContext<'_>) -> Self {
        Self(Self::now(context))
    }

    /// The longer of the times at begin and end.
    fn end(self, context: &AttemptContext<'_>) -> Duration {
        self.0.max(Self::now(context))
    }

    /// Zero if instructions are counted, because the host's speed does not matter then.
    fn now(context: &AttemptContext<'_>) -> Duration {
        match context.machine.ns_per_instruction() {
            None => context.clock.spin(),
            Some(_) => Duration::ZERO,
        }
    }
}

fn job(context: &AttemptContext<'_>, arm: &Arm, block: u32, workload: &WorkloadPlan) -> Job {
    let served = workload::with_server(workload, arm.tuning.server.as_deref());
    let WorkloadPlan { kind, options, .. } = served.expect("plan is validated: it has the server");
    let mut target = context.plan.target(arm, block);
    if context.purpose == Purpose::Ceiling
        && let Some(target) = &mut target
    {
        // The clients load the null server, not this target.
        target.evidence = None;
    }
    Job {
        cmdline: arm.cmdline.clone(),
        sysctl: arm.sysctl.clone(),
        tuning: arm.tuning.clone(),
        workload: WorkloadJob { kind, options },
        disk: context.plan.machine.seek_disk.clone(),
        disturbances: context.disturbances(),
        seed: seed(context.plan, block),
        ns_per_instruction: context.machine.ns_per_instruction(),
        profiling: context.profiling(),
        target,
        servers: Vec::new(),
        part: Part::Whole,
        ceiling: (context.purpose == Purpose::Ceiling).then(|| ceiling(context.plan)),
        one_fewer: context.purpose == Purpose::OneFewer,
        accepts_busy_host: context.plan.machine.kind == MachineKind::Local
            && context.plan.disturbed_blocks == DisturbedBlocks::Keep,
        clients_beside: ClientsBeside {
            schedules_as_one: context.plan.machine.kind == MachineKind::Qemu
                && !context.plan.machine.parts_sessions,
            disables_hystart: context.plan.disables_hystart(),
        },
    }
}

/// Systems on the network get another request schedule in each block, the same for all arms. Otherwise a schedule that
/// favours one arm by chance would do so in every block. In guests the seed also determines the data, so it stays the same.
fn seed(plan: &Plan, block: u32) -> u64 {
    match plan.machine.kind {
        MachineKind::Url => SplitMix64::new(plan.design.seed)
            .bits()
            .wrapping_add(u64::from(block)),
        MachineKind::Qemu | MachineKind::Local | MachineKind::Ssh => plan.design.seed,
    }
}

/// The null server to use for a ceiling.
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
    boot: Duration,
    spin: Duration,
) -> (Outcome, Option<Facts>) {
    let JobResult {
        mut measurement,
        metered,
        facts,
    } = done;
    if let Some(HardwareCounters::Counted(window)) = &measurement.hardware_counters {
        let cpu_figures = window.figures(metered.window_ns, &measurement.figures);
        measurement.figures.extend(cpu_figures);
    }
    // Only the host can measure these, so whatever the guest sent is overwritten.
    measurement.instructions = instructions;
    measurement.usage = usage;
    measurement.boot_ms = boot.as_millis() as u64;
    measurement.spin_ns = spin.as_nanos() as u64;
    (Outcome::Measured(Box::new(measurement)), Some(facts))
}

enum End {
    /// The result, and how long the guest took to boot.
    Done(Box<JobResult>, Duration),
    Void(VoidReason, String),
    Interrupted,
    /// The host cannot write what it receives.
    HostFailed(anyhow::Error),
}

/// A limit on the time that the guest may take, and how the attempt ends when it is reached.
struct Timeout {
    left: Duration,
    reason: VoidReason,
    detail: String,
}

/// The conversation with one guest.
struct Conversation<'t> {
    context: &'t AttemptContext<'t>,
    on_activity: &'t dyn Fn(Activity),
    guest: &'t mut dyn Guest,
    session: Session,
    start: Duration,
    last_message_at: Duration,
    /// How long the guest had waited for the host's CPUs at its last message.
    starved: Duration,
    boot: Option<Duration>,
    observations: Observations,
    host_time: HostTime,
}

impl Conversation<'_> {
    /// Receives messages until the attempt ends.
    fn run(&mut self, job: &Job) -> End {
        loop {
            if self.context.is_stopped() {
                return End::Interrupted;
            }
            let timeout = self.next_timeout();
            if timeout.left.is_zero() {
                return End::Void(timeout.reason, timeout.detail);
            }
            let end = match self.guest.next(timeout.left.min(POLL_INTERVAL)) {
                GuestEvent::Quiet => None,
                GuestEvent::Said(message) => match self.accept(*message, job) {
                    Ok(end) => end,
                    Err(why) => Some(End::HostFailed(why)),
                },
                GuestEvent::Panicked(line) => Some(End::Void(VoidReason::Panic, line)),
                GuestEvent::Exited(status) => Some(End::Void(VoidReason::MachineExit, status)),
                GuestEvent::Refused(why) => Some(End::Void(VoidReason::AgentFailed, why)),
            };
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// The limit that is reached first if the guest stays silent.
    fn next_timeout(&self) -> Timeout {
        let machine = &self.context.plan.machine;
        let now = self.context.clock.now();
        // A guest cannot answer while it waits for CPUs of a busy host.
        let starved = self.guest.starved().saturating_sub(self.starved);
        let silence = if self.boot.is_none() {
            let limit = machine.boot_timeout;
            Timeout {
                left: (self.start + starved + limit).saturating_sub(now),
                reason: VoidReason::BootTimeout,
                detail: format!("no word from the agent in {}", show_duration(limit)),
            }
        } else {
            let limit = machine.silence;
            Timeout {
                left: (self.last_message_at + starved + limit).saturating_sub(now),
                reason: VoidReason::Silent,
                detail: format!("agent silent for {}", show_duration(limit)),
            }
        };
        let left = (self.start + machine.trial_limit).saturating_sub(now);
        if silence.left <= left {
            return silence;
        }
        let limit = show_duration(machine.trial_limit);
        Timeout {
            left,
            reason: VoidReason::Overrun,
            detail: format!("trial ran past its limit of {limit}"),
        }
    }

    /// Handles a message. Returns how the attempt ends, if the message ends it.
    ///
    /// # Errors
    /// The host cannot write what it received.
    fn accept(&mut self, message: FromAgent, job: &Job) -> Result<Option<End>> {
        self.last_message_at = self.context.clock.now();
        self.starved = self.guest.starved();
        let message = match self.session.accept(message) {
            Ok(message) => message,
            Err(why) => {
                let detail = format!("what the guest said is refused: {why}");
                return Ok(Some(End::Void(VoidReason::AgentFailed, detail)));
            }
        };
        match message {
            CheckedMessage::Hello => {
                self.boot = Some(self.last_message_at.saturating_sub(self.start));
                self.host_time
                    .enter(HostPhase::SettingUp, self.last_message_at);
                return Ok(self.send_job(job).err().map(|why| {
                    let detail = format!("the job could not be handed over: {why:#}");
                    End::Void(VoidReason::AgentFailed, detail)
                }));
            }
            CheckedMessage::Failed { reason, detail } => {
                return Ok(Some(End::Void(reason, detail)));
            }
            CheckedMessage::Done(done) => {
                let boot = self.boot.expect("a result comes only after a greeting");
                return Ok(Some(End::Done(done, boot)));
            }
            CheckedMessage::Phase(phase) => {
                self.host_time.enter(phase.into(), self.last_message_at);
                (self.on_activity)(Activity::Phase(phase));
            }
            CheckedMessage::Tick(tick) => {
                self.observations.add_seconds(&tick.ended)?;
                (self.on_activity)(Activity::Tick(tick));
            }
            CheckedMessage::Sample(sample) => self.observations.add_sample(*sample)?,
            CheckedMessage::Defect(defect) => {
                record_defect(&mut self.observations.defects, *defect, self.on_activity)?;
            }
            CheckedMessage::KernelLog(log) => self.observations.defects.set_kernel_log(log),
            CheckedMessage::Counters(counters) => self.observations.counters.push(&[*counters])?,
            CheckedMessage::Disturbance(begun) => self.observations.disturbances.push(&begun)?,
            CheckedMessage::Part => {}
        }
        Ok(None)
    }

    /// Adds defects from the console that the guest could not report. A kind of defect that the guest did report is
    /// skipped: the console shows less of it.
    fn add_console_defects(&mut self, end: &End) -> Result<()> {
        let defects = &mut self.observations.defects;
        if matches!(end, End::Done(..)) && defects.has_kernel_log() {
            return Ok(());
        }
        let reported = defects.kinds_of(DefectSource::Kernel);
        for mut defect in self.guest.defects() {
            if !reported.contains(&defect.kind) && validate::defect(&mut defect).is_ok() {
                record_defect(defects, defect, self.on_activity)?;
            }
        }
        Ok(())
    }

    fn send_job(&mut self, job: &Job) -> Result<()> {
        self.guest
            .send(&ToAgent::Hello(self.context.greeting.clone()))?;
        self.guest.send(&ToAgent::Run(Box::new(job.clone())))
    }
}
