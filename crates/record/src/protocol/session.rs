//! The host's end of the line to a guest: whatever is heard is checked here before anything is made of it.
//!
//! A guest runs somebody's kernel and somebody's server, so its agent may say anything. What passes has its
//! figures finite, its lists and texts bounded, its times in order, and came in its turn:
//! ```text
//! Hello -> (Phase | Defect | KernelLog)* -> (Phase | Tick | Sample | Counters | Disturbance | Seconds | Facts | Code | Profile)* -> Done
//!                    from WarmingUp on
//! Failed at any time
//! ```

use std::collections::BTreeMap;

use crate::counters::Counters;
use crate::defect::{DefectKey, DefectSource, FoundDefect, KernelLog, LINES_BYTES, MOST_DEFECTS};
use crate::disturbances::BegunDisturbance;
use crate::evidence::{Facts, Sample};
use crate::load::{Second, Tick};
use crate::protocol::code::Code;
use crate::protocol::{FromAgent, Greeting, ProfilePart};
use crate::trial::{JobResult, Phase, VoidReason};
use crate::{thinned, validate};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// What a guest said, checked.
#[derive(Debug, Clone, PartialEq)]
pub enum CheckedMessage {
    /// It is up, and of our build.
    Hello,
    /// What it does now.
    Phase(Phase),
    /// A second of load has passed.
    Tick(Tick),
    /// The system over some time of the load.
    Sample(Box<Sample>),
    /// A defect of its kernel or services: new, or told more often.
    Defect(Box<FoundDefect>),
    /// How far it reads its kernel's log.
    KernelLog(KernelLog),
    /// What may grow, at an instant.
    Counters(Box<Counters>),
    /// What is done to the system on purpose has begun, or has ended.
    Disturbance(BegunDisturbance),
    /// A part of the result, kept here until all of it has come.
    Part,
    /// The job is done; the result with all its parts.
    Done(Box<JobResult>),
    /// The job failed.
    Failed {
        /// What kind of failure: one that an agent can know of.
        reason: VoidReason,
        /// What happened.
        detail: String,
    },
}

/// How far a conversation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Silent,
    Greeted,
    In(Phase),
    Over,
}

/// One conversation.
#[derive(Debug)]
pub struct Session {
    ours: Greeting,
    stage: Stage,
    sampled_ms: i64,
    defects: BTreeMap<DefectKey, u64>,
    /// Bytes of lines of defects so far.
    defect_bytes: usize,
    counted_ms: i64,
    /// Words on disturbances so far.
    disturbed: usize,
    seconds: Vec<Second>,
    facts: Option<Facts>,
    code: Code,
    profile: Result<Vec<u8>, String>,
}

/// Between two readings of counters, in milliseconds, at the least; agents wait for longer.
const COUNTERS_MS: i64 = 4000;

/// Longest profile that is taken, packed: some hundred times one of ten seconds.
const PROFILE_BYTES: usize = 32 << 20;

impl Session {
    /// A conversation that has not begun. `ours` is what the guest must greet with.
    pub fn new(ours: Greeting) -> Self {
        Self {
            ours,
            stage: Stage::Silent,
            sampled_ms: i64::MIN,
            defects: BTreeMap::new(),
            defect_bytes: 0,
            counted_ms: i64::MIN,
            disturbed: 0,
            seconds: Vec::new(),
            facts: None,
            code: Code::default(),
            profile: Ok(Vec::new()),
        }
    }

    /// Checks what was said.
    ///
    /// # Errors
    /// Why it is refused. The conversation is over then.
    pub fn accept(&mut self, message: FromAgent) -> Result<CheckedMessage, String> {
        let heard = self.take(message);
        if heard.is_err() {
            self.stage = Stage::Over;
        }
        heard
    }

    /// Where the guest has its code, as far as it has told.
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// The profile that the guest has made, as far as it has told, unread.
    ///
    /// # Errors
    /// Why there is none, in the guest's words.
    pub fn profile(&self) -> Result<Vec<u8>, String> {
        match &self.profile {
            Ok(bytes) if bytes.is_empty() => Err("the guest told none".into()),
            told => told.clone(),
        }
    }

    fn take(&mut self, message: FromAgent) -> Result<CheckedMessage, String> {
        self.is_its_turn(&message)?;
        match message {
            FromAgent::Hello(theirs) => {
                crate::protocol::recognise(&self.ours, &theirs)?;
                self.stage = Stage::Greeted;
                Ok(CheckedMessage::Hello)
            }
            FromAgent::Phase(phase) => {
                self.stage = Stage::In(phase);
                Ok(CheckedMessage::Phase(phase))
            }
            FromAgent::Tick(tick) => {
                // They may go back: what a client saw late belongs to an earlier one.
                tick.ended.iter().try_for_each(live_second)?;
                Ok(CheckedMessage::Tick(tick))
            }
            FromAgent::Sample(sample) => {
                validate::sample(&sample, self.sampled_ms)?;
                self.sampled_ms = sample.at_ms;
                Ok(CheckedMessage::Sample(sample))
            }
            FromAgent::Defect(defect) => self.take_defect(defect),
            FromAgent::KernelLog(log) => kernel_log(log).map(CheckedMessage::KernelLog),
            FromAgent::Counters(counters) => self.add_counters(counters),
            FromAgent::Disturbance(begun) => self.add_disturbance(begun),
            FromAgent::Seconds(seconds) => self.add_seconds(seconds),
            FromAgent::Facts(facts) => self.add_facts(*facts),
            FromAgent::Code(code) => self.code.add(*code).map(|()| CheckedMessage::Part),
            FromAgent::Profile(part) => self.add_profile(part),
            FromAgent::Done(result) => self.complete(result),
            FromAgent::Failed { reason, detail } => self.fail(reason, &detail),
        }
    }

    fn is_its_turn(&self, message: &FromAgent) -> Result<(), String> {
        let stage = self.stage;
        let loads = Stage::In(Phase::WarmingUp) <= stage && stage < Stage::Over;
        let speaks = Stage::Greeted <= stage && stage < Stage::Over;
        let (name, is_due) = match message {
            FromAgent::Hello(_) => ("greeting", stage == Stage::Silent),
            FromAgent::Phase(next) => {
                let next = Stage::In(*next);
                ("phase", Stage::Greeted <= stage && stage < next)
            }
            FromAgent::Tick(_) => ("progress", loads),
            FromAgent::Sample(_) => ("sample", loads),
            FromAgent::Defect(_) => ("defect", speaks),
            FromAgent::KernelLog(_) => ("kernel log", speaks),
            FromAgent::Counters(_) => ("counters", loads),
            FromAgent::Disturbance(_) => ("disturbance", loads),
            FromAgent::Seconds(_) => ("seconds", loads),
            FromAgent::Facts(_) => ("facts", loads),
            FromAgent::Code(_) => ("code", loads),
            FromAgent::Profile(_) => ("profile", loads),
            FromAgent::Done(_) => ("result", loads),
            FromAgent::Failed { .. } => ("failure", stage < Stage::Over),
        };
        if is_due {
            return Ok(());
        }
        Err(format!("unexpected message: {name} {}", stage.words()))
    }

    fn take_defect(&mut self, mut defect: Box<FoundDefect>) -> Result<CheckedMessage, String> {
        validate::defect(&mut defect)?;
        if defect.source == DefectSource::Console || defect.ok_per_s.is_some() {
            return Err("a defect as only the host can see it".into());
        }
        self.defect_bytes += defect.lines.iter().map(String::len).sum::<usize>();
        if self.defect_bytes > LINES_BYTES {
            return Err(format!(
                "defects with more than {LINES_BYTES} bytes of lines"
            ));
        }
        let told = self.defects.insert(defect.key(), defect.count);
        if told.is_some_and(|told| defect.count < told) {
            return Err(format!(
                "defect told less often than before: {}",
                defect.count
            ));
        }
        if self.defects.len() > MOST_DEFECTS {
            return Err(format!("more than {MOST_DEFECTS} defects"));
        }
        Ok(CheckedMessage::Defect(defect))
    }

    fn add_counters(&mut self, counters: Box<Counters>) -> Result<CheckedMessage, String> {
        validate::counters(&counters, self.counted_ms)?;
        if counters.joined.is_some() {
            let at_ms = counters.at_ms;
            return Err(format!("several readings for one: at_ms {at_ms}"));
        }
        if counters.at_ms < self.counted_ms.saturating_add(COUNTERS_MS) {
            let at_ms = counters.at_ms;
            return Err(format!("counters more often than can be kept: {at_ms} ms"));
        }
        self.counted_ms = counters.at_ms;
        Ok(CheckedMessage::Counters(counters))
    }

    fn add_disturbance(&mut self, mut begun: BegunDisturbance) -> Result<CheckedMessage, String> {
        validate::begun_disturbance(&mut begun)?;
        self.disturbed += 1;
        // Each has a beginning and an end.
        let most = 2 * plan::MOST_TIMES;
        if self.disturbed > most {
            return Err(format!("more than {most} words on disturbances"));
        }
        Ok(CheckedMessage::Disturbance(begun))
    }

    fn add_seconds(&mut self, seconds: Vec<Second>) -> Result<CheckedMessage, String> {
        let points = self.seconds.len() + seconds.len();
        if points > thinned::MOST_POINTS {
            return Err(format!("timeline that was not thinned: {points} points"));
        }
        let mut last_ms = self.seconds.last().map_or(0, |last| last.at_ms);
        for second in &seconds {
            validate::second(second, last_ms)?;
            last_ms = second.at_ms;
        }
        self.seconds.extend(seconds);
        Ok(CheckedMessage::Part)
    }

    fn add_facts(&mut self, mut part: Facts) -> Result<CheckedMessage, String> {
        validate::facts(&mut part)?;
        let Some(facts) = &mut self.facts else {
            self.facts = Some(part);
            return Ok(CheckedMessage::Part);
        };
        let Facts {
            version,
            values,
            sysctls,
            kernel_config,
            boot_log,
        } = part;
        if version != facts.version {
            return Err(format!("facts of two versions: {version}"));
        }
        for (all, some) in [
            (&mut facts.values, values),
            (&mut facts.sysctls, sysctls),
            (&mut facts.kernel_config, kernel_config),
        ] {
            for (key, value) in some {
                if let Some(twice) = all.insert(key.clone(), value) {
                    return Err(format!("fact told twice: {key:?} was {twice:?}"));
                }
            }
        }
        facts.boot_log.extend(boot_log);
        Ok(CheckedMessage::Part)
    }

    fn add_profile(&mut self, part: ProfilePart) -> Result<CheckedMessage, String> {
        match (part, &mut self.profile) {
            (ProfilePart::Bytes(text), Ok(bytes)) => {
                let more = BASE64.decode(text);
                bytes.extend(more.map_err(|why| format!("profile that is no base64: {why}"))?);
                if bytes.len() > PROFILE_BYTES {
                    return Err(format!("profile longer than {PROFILE_BYTES} bytes"));
                }
            }
            (ProfilePart::Missing(why), Ok(_)) => self.profile = Err(validate::detail(&why)),
            (_, Err(_)) => return Err("more of a profile that is not there".into()),
        }
        Ok(CheckedMessage::Part)
    }

    fn complete(&mut self, mut result: Box<JobResult>) -> Result<CheckedMessage, String> {
        let load = result.measurement.load.as_ref();
        let whole = load.map(|load| &load.timeline);
        if result.facts != Facts::default() || whole.is_some_and(|timeline| !timeline.is_empty()) {
            return Err("a result with what belongs into its parts".into());
        }
        validate::measurement(&mut result.measurement)?;
        result.facts = self.facts.take().unwrap_or_default();
        let seconds = std::mem::take(&mut self.seconds);
        match &mut result.measurement.load {
            Some(load) => load.timeline = seconds,
            None if seconds.is_empty() => {}
            None => return Err("seconds of clients, and no clients".into()),
        }
        self.stage = Stage::Over;
        Ok(CheckedMessage::Done(result))
    }

    fn fail(&mut self, reason: VoidReason, detail: &str) -> Result<CheckedMessage, String> {
        match reason {
            VoidReason::ServiceFailed
            | VoidReason::AgentFailed
            | VoidReason::CheckFailed
            | VoidReason::SettingRefused
            | VoidReason::SchedulerFailed => {}
            VoidReason::BootTimeout
            | VoidReason::Silent
            | VoidReason::Panic
            | VoidReason::MachineExit
            | VoidReason::StartFailed
            | VoidReason::Overrun
            | VoidReason::WrongMachine
            | VoidReason::Miscounted => {
                let claim = reason.words();
                return Err(format!("a failure that only the host can see: {claim}"));
            }
        }
        self.stage = Stage::Over;
        let detail = validate::detail(detail);
        Ok(CheckedMessage::Failed { reason, detail })
    }
}

/// Why a log is not read, fit to be shown.
fn kernel_log(log: KernelLog) -> Result<KernelLog, String> {
    match log {
        KernelLog::Read { .. } => Ok(log),
        KernelLog::Unread(why) => Ok(KernelLog::Unread(validate::detail(&why))),
        KernelLog::Console => Err("a kernel's log as only the host can see it".into()),
    }
}

/// Told as it passes, a second is one second.
fn live_second(second: &Second) -> Result<(), String> {
    if second.joined.is_some() {
        return Err(format!("several seconds for one: at_ms {}", second.at_ms));
    }
    validate::second(second, 0)
}

impl Stage {
    fn words(self) -> String {
        match self {
            Self::Silent => "before it greeted".into(),
            Self::Greeted => "before its first phase".into(),
            Self::In(phase) => format!("while {}", phase.words()),
            Self::Over => "after the end".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defect::When;
    use crate::load::LoadResult;
    use crate::metric::{Direction, Figure, Role};
    use crate::trial::Measurement;

    fn greeting(build: &str) -> Greeting {
        Greeting {
            protocol: crate::protocol::PROTOCOL,
            build: build.into(),
        }
    }

    fn figure(name: &str, value: f64) -> Figure {
        Figure::new(name, "s", Direction::Lower, Role::Guard, value)
    }

    fn good() -> JobResult {
        let measurement = Measurement {
            figures: vec![figure("time", 1.0)],
            load: Some(LoadResult {
                window_ns: 1_000_000_000,
                ..LoadResult::default()
            }),
            kernel: "6.1.0-40-cloud-amd64 #1 SMP Debian".into(),
            server: "nginx 1.22".into(),
            ..Measurement::default()
        };
        JobResult {
            measurement,
            ..JobResult::default()
        }
    }

    fn hello() -> FromAgent {
        FromAgent::Hello(greeting("a"))
    }

    fn sample(at_ms: i64) -> FromAgent {
        FromAgent::Sample(Box::new(Sample {
            at_ms,
            ..Sample::default()
        }))
    }

    fn seconds(at_ms: &[u64]) -> FromAgent {
        let second = |at_ms: &u64| Second {
            at_ms: *at_ms,
            ..Second::default()
        };
        FromAgent::Seconds(at_ms.iter().map(second).collect())
    }

    fn defect(top: &str, count: u64, lines: usize) -> FromAgent {
        FromAgent::Defect(Box::new(FoundDefect {
            source: DefectSource::Kernel,
            kind: crate::defect::Kind::Oops,
            severity: crate::defect::Severity::Defect,
            top: top.into(),
            count,
            first: When::default(),
            last: When::default(),
            ok_per_s: None,
            lines: vec!["x".repeat(240); lines],
        }))
    }

    #[test]
    fn defects_are_bounded_and_counted_upwards() {
        let log = FromAgent::KernelLog(KernelLog::Read { lost: 7 });
        assert!(loaded(vec![log, defect("a", 2, 48), defect("a", 3, 0)]).is_ok());
        refused(
            loaded(vec![defect("a", 2, 0), defect("a", 1, 0)]),
            "defect told less often than before: 1",
        );
        let tops = (0..=MOST_DEFECTS).map(|top| defect(&top.to_string(), 1, 0));
        refused(loaded(tops.collect()), "more than 512 defects");
        refused(
            loaded((0..23).map(|top| defect(&top.to_string(), 1, 48)).collect()),
            "defects with more than 262144 bytes of lines",
        );
        refused(
            loaded(vec![defect("a", 1, 49)]),
            "more than 48 lines of a defect: 49",
        );
        refused(
            loaded(vec![FromAgent::KernelLog(KernelLog::Console)]),
            "a kernel's log as only the host can see it",
        );
        let FromAgent::Defect(mut of_host) = defect("a", 1, 0) else {
            panic!("a defect");
        };
        of_host.source = DefectSource::Console;
        refused(
            loaded(vec![FromAgent::Defect(of_host)]),
            "a defect as only the host can see it",
        );
        refused(
            say(vec![defect("a", 1, 0)]),
            "unexpected message: defect before it greeted",
        );
    }

    #[test]
    fn a_defect_loses_what_a_terminal_would_obey() {
        let Ok(CheckedMessage::Defect(heard)) = loaded(vec![defect("\u{1b}[31mtcp_ack", 1, 0)])
        else {
            panic!("refused");
        };
        assert_eq!(heard.top, "tcp_ack");
    }

    fn facts(key: &str) -> FromAgent {
        let mut facts = Facts::default();
        facts.values.insert(key.into(), "value".into());
        FromAgent::Facts(Box::new(facts))
    }

    /// Says all of it; the last answer, which alone may be an error.
    fn say(messages: Vec<FromAgent>) -> Result<CheckedMessage, String> {
        let mut session = Session::new(greeting("a"));
        let mut answers: Vec<_> = messages
            .into_iter()
            .map(|said| session.accept(said))
            .collect();
        let last = answers.pop().unwrap();
        for (answer, index) in answers.into_iter().zip(0..) {
            assert!(answer.is_ok(), "message {index}: {answer:?}");
        }
        last
    }

    fn loaded(rest: Vec<FromAgent>) -> Result<CheckedMessage, String> {
        let begin = [hello(), FromAgent::Phase(Phase::WarmingUp)];
        say(begin.into_iter().chain(rest).collect())
    }

    fn refused(heard: Result<CheckedMessage, String>, why: &str) {
        assert_eq!(heard.unwrap_err(), why);
    }

    #[test]
    fn a_result_is_put_together_from_its_parts() {
        let done = FromAgent::Done(Box::new(good()));
        let parts = vec![
            seconds(&[0, 1000]),
            facts("a"),
            facts("b"),
            seconds(&[2000]),
            done,
        ];
        let Ok(CheckedMessage::Done(result)) = loaded(parts) else {
            panic!("refused");
        };
        assert_eq!(result.measurement.load.unwrap().timeline.len(), 3);
        assert_eq!(result.facts.values.len(), 2);
    }

    #[test]
    fn another_protocol_or_build_is_refused() {
        let other = Greeting {
            protocol: 4,
            build: "a".into(),
        };
        let why = say(vec![FromAgent::Hello(other)]).unwrap_err();
        assert!(why.contains("agent protocol 4 build \"a\""), "{why}");
        let why = say(vec![FromAgent::Hello(greeting("b"))]).unwrap_err();
        assert!(why.contains("not of one build"), "{why}");
    }

    #[test]
    fn who_speaks_out_of_turn_is_refused() {
        let phase = FromAgent::Phase;
        let done = || FromAgent::Done(Box::new(good()));
        refused(
            say(vec![done()]),
            "unexpected message: result before it greeted",
        );
        refused(
            say(vec![hello(), hello()]),
            "unexpected message: greeting before its first phase",
        );
        refused(
            say(vec![hello(), phase(Phase::Starting), sample(0)]),
            "unexpected message: sample while starting services",
        );
        refused(
            loaded(vec![phase(Phase::Starting)]),
            "unexpected message: phase while warming up",
        );
        refused(
            loaded(vec![done(), done()]),
            "unexpected message: result after the end",
        );
    }

    #[test]
    fn after_a_refusal_nothing_more_is_heard() {
        let mut session = Session::new(greeting("a"));
        assert!(session.accept(sample(0)).is_err());
        assert!(session.accept(hello()).is_err());
    }

    #[test]
    fn times_that_go_back_are_refused() {
        assert!(loaded(vec![sample(-1000), sample(0), sample(0)]).is_ok());
        refused(
            loaded(vec![sample(1000), sample(999)]),
            "samples go back: 999 ms after 1000 ms",
        );
        refused(
            loaded(vec![seconds(&[0, 1000]), seconds(&[0])]),
            "seconds go back: 0 ms after 1000 ms",
        );
    }

    #[test]
    fn seconds_that_have_ended_may_go_back_and_are_checked() {
        let second = |at_ms: &u64, ok| Second {
            at_ms: *at_ms,
            ok,
            ..Second::default()
        };
        let tick = |ended| {
            FromAgent::Tick(Tick {
                second: 1,
                ended,
                ..Tick::default()
            })
        };
        let progress =
            |at_ms: &[u64], ok| tick(at_ms.iter().map(|at_ms| second(at_ms, ok)).collect());
        assert!(loaded(vec![progress(&[1000], 1), progress(&[0, 2000], 1)]).is_ok());
        let why = loaded(vec![progress(&[0], 1 << 60)]).unwrap_err();
        assert!(why.contains("beyond all measure"), "{why}");
        let mut joined = second(&0, 1);
        joined.joined = Some(joined.extremes());
        let several = tick(vec![joined]);
        refused(loaded(vec![several]), "several seconds for one: at_ms 0");
    }

    #[test]
    fn a_timeline_has_an_end() {
        let many: Vec<u64> = (0..10_000).map(|second| second * 1000).collect();
        let more: Vec<u64> = (10_000..20_000).map(|second| second * 1000).collect();
        refused(
            loaded(vec![seconds(&many), seconds(&more)]),
            "timeline that was not thinned: 20000 points",
        );
    }

    #[test]
    fn a_profile_comes_in_parts_or_not_at_all() {
        let bytes: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
        let mut session = Session::new(greeting("a"));
        session.accept(hello()).unwrap();
        session.accept(FromAgent::Phase(Phase::WarmingUp)).unwrap();
        assert_eq!(session.profile().unwrap_err(), "the guest told none");
        for part in ProfilePart::parts(&bytes) {
            assert!(serde_json::to_vec(&part).unwrap().len() < crate::protocol::LIMIT as usize);
            session.accept(FromAgent::Profile(part)).unwrap();
        }
        assert_eq!(session.profile().unwrap(), bytes);
        let missing = || FromAgent::Profile(ProfilePart::Missing("\u{1b}[1mno rights".into()));
        session.accept(missing()).unwrap();
        assert_eq!(session.profile().unwrap_err(), "no rights");
        refused(
            session.accept(missing()),
            "more of a profile that is not there",
        );
        let noise = FromAgent::Profile(ProfilePart::Bytes("?".into()));
        let why = loaded(vec![noise]).unwrap_err();
        assert!(why.starts_with("profile that is no base64"), "{why}");
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        refused(
            loaded(vec![facts("a"), facts("a")]),
            "fact told twice: \"a\" was \"value\"",
        );
        let mut whole = good();
        whole.facts.version = 1;
        refused(
            loaded(vec![FromAgent::Done(Box::new(whole))]),
            "a result with what belongs into its parts",
        );
        let mut no_clients = good();
        no_clients.measurement.load = None;
        refused(
            loaded(vec![seconds(&[0]), FromAgent::Done(Box::new(no_clients))]),
            "seconds of clients, and no clients",
        );
    }

    #[test]
    fn a_result_that_cannot_be_believed_is_refused() {
        let mut bad = good();
        bad.measurement.figures.push(figure("latency", -5.0));
        refused(
            loaded(vec![FromAgent::Done(Box::new(bad))]),
            "figure below zero: latency -5",
        );
    }

    #[test]
    fn a_guest_may_fail_at_any_time_and_only_for_reasons_of_its_own() {
        let failed = |reason| FromAgent::Failed {
            reason,
            detail: "\u{1b}[31mdied".into(),
        };
        let word = CheckedMessage::Failed {
            reason: VoidReason::AgentFailed,
            detail: "died".into(),
        };
        assert_eq!(say(vec![failed(VoidReason::AgentFailed)]), Ok(word));
        refused(
            say(vec![failed(VoidReason::Panic)]),
            "a failure that only the host can see: kernel panic",
        );
    }
}
