//! The host's end of the connection to a guest: it checks every message before the host uses it.
//!
//! A guest runs any kernel and any server, so its agent may send anything. In accepted messages figures are finite, lists and texts are
//! bounded, and times are in order. Messages must have this order:
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

/// A checked message of a guest.
#[derive(Debug, Clone, PartialEq)]
pub enum CheckedMessage {
    /// The guest is up, and has the same build.
    Hello,
    /// A new phase has begun.
    Phase(Phase),
    /// Progress of the load.
    Tick(Tick),
    /// The system over an interval of the load.
    Sample(Box<Sample>),
    /// A defect of the kernel or the services: new, or with a higher count.
    Defect(Box<FoundDefect>),
    /// How much of the kernel's log is read.
    KernelLog(KernelLog),
    /// Counters that may grow, at an instant.
    Counters(Box<Counters>),
    /// A planned disturbance has begun or ended.
    Disturbance(BegunDisturbance),
    /// A part of the result, which the session keeps until it is complete.
    Part,
    /// The job is done; the result with all its parts.
    Done(Box<JobResult>),
    /// The job failed.
    Failed {
        /// Kind of failure, one that an agent can detect.
        reason: VoidReason,
        /// What happened.
        detail: String,
    },
}

/// Stage of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Silent,
    Greeted,
    In(Phase),
    Over,
}

/// The session of one trial.
#[derive(Debug)]
pub struct Session {
    greeting: Greeting,
    stage: Stage,
    /// Time of the last sample.
    last_sample_ms: i64,
    /// Number of reports of each defect.
    defects: BTreeMap<DefectKey, u64>,
    /// Bytes in the lines of all defects.
    defect_bytes: usize,
    /// Time of the last counters.
    last_counters_ms: i64,
    /// Number of messages on disturbances.
    disturbance_messages: usize,
    seconds: Vec<Second>,
    facts: Option<Facts>,
    code: Code,
    profile: Result<Vec<u8>, String>,
}

/// Least interval between two readings of counters, in milliseconds; agents wait longer.
const COUNTERS_MS: i64 = 4000;

/// Longest compressed profile, in bytes: about a hundred times one of ten seconds.
const PROFILE_BYTES: usize = 32 << 20;

impl Session {
    /// A session before the first message; the guest must send the same `greeting`.
    pub fn new(greeting: Greeting) -> Self {
        Self {
            greeting,
            stage: Stage::Silent,
            last_sample_ms: i64::MIN,
            defects: BTreeMap::new(),
            defect_bytes: 0,
            last_counters_ms: i64::MIN,
            disturbance_messages: 0,
            seconds: Vec::new(),
            facts: None,
            code: Code::default(),
            profile: Ok(Vec::new()),
        }
    }

    /// Checks a message.
    ///
    /// # Errors
    /// The message is refused; the session is over.
    pub fn accept(&mut self, message: FromAgent) -> Result<CheckedMessage, String> {
        let checked = self.check(message);
        if checked.is_err() {
            self.stage = Stage::Over;
        }
        checked
    }

    /// Addresses of the guest's code, as far as received.
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// The guest's profile, as far as received, not parsed yet.
    ///
    /// # Errors
    /// There is none; the error is the guest's reason.
    pub fn profile(&self) -> Result<Vec<u8>, String> {
        match &self.profile {
            Ok(bytes) if bytes.is_empty() => Err("the guest told none".into()),
            profile => profile.clone(),
        }
    }

    fn check(&mut self, message: FromAgent) -> Result<CheckedMessage, String> {
        self.check_order(&message)?;
        match message {
            FromAgent::Hello(greeting) => {
                crate::protocol::recognise(&self.greeting, &greeting)?;
                self.stage = Stage::Greeted;
                Ok(CheckedMessage::Hello)
            }
            FromAgent::Phase(phase) => {
                self.stage = Stage::In(phase);
                Ok(CheckedMessage::Phase(phase))
            }
            FromAgent::Tick(tick) => {
                // Not necessarily in order: a late part belongs to an earlier second.
                tick.ended.iter().try_for_each(live_second)?;
                Ok(CheckedMessage::Tick(tick))
            }
            FromAgent::Sample(sample) => {
                validate::sample(&sample, self.last_sample_ms)?;
                self.last_sample_ms = sample.at_ms;
                Ok(CheckedMessage::Sample(sample))
            }
            FromAgent::Defect(defect) => self.add_defect(defect),
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

    fn check_order(&self, message: &FromAgent) -> Result<(), String> {
        let stage = self.stage;
        let is_loaded = Stage::In(Phase::WarmingUp) <= stage && stage < Stage::Over;
        let has_greeted = Stage::Greeted <= stage && stage < Stage::Over;
        let (name, is_due) = match message {
            FromAgent::Hello(_) => ("greeting", stage == Stage::Silent),
            FromAgent::Phase(next) => {
                let next = Stage::In(*next);
                ("phase", Stage::Greeted <= stage && stage < next)
            }
            FromAgent::Tick(_) => ("progress", is_loaded),
            FromAgent::Sample(_) => ("sample", is_loaded),
            FromAgent::Defect(_) => ("defect", has_greeted),
            FromAgent::KernelLog(_) => ("kernel log", has_greeted),
            FromAgent::Counters(_) => ("counters", is_loaded),
            FromAgent::Disturbance(_) => ("disturbance", is_loaded),
            FromAgent::Seconds(_) => ("seconds", is_loaded),
            FromAgent::Facts(_) => ("facts", is_loaded),
            FromAgent::Code(_) => ("code", is_loaded),
            FromAgent::Profile(_) => ("profile", is_loaded),
            FromAgent::Done(_) => ("result", is_loaded),
            FromAgent::Failed { .. } => ("failure", stage < Stage::Over),
        };
        if is_due {
            return Ok(());
        }
        Err(format!("unexpected message: {name} {}", stage.words()))
    }

    fn add_defect(&mut self, mut defect: Box<FoundDefect>) -> Result<CheckedMessage, String> {
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
        let known_count = self.defects.insert(defect.key(), defect.count);
        if known_count.is_some_and(|known| defect.count < known) {
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
        validate::counters(&counters, self.last_counters_ms)?;
        if counters.joined.is_some() {
            let at_ms = counters.at_ms;
            return Err(format!("several readings for one: at_ms {at_ms}"));
        }
        if counters.at_ms < self.last_counters_ms.saturating_add(COUNTERS_MS) {
            let at_ms = counters.at_ms;
            return Err(format!("counters more often than can be kept: {at_ms} ms"));
        }
        self.last_counters_ms = counters.at_ms;
        Ok(CheckedMessage::Counters(counters))
    }

    fn add_disturbance(&mut self, mut begun: BegunDisturbance) -> Result<CheckedMessage, String> {
        validate::begun_disturbance(&mut begun)?;
        self.disturbance_messages += 1;
        // One for the beginning and one for the end of each.
        let most = 2 * plan::MOST_TIMES;
        if self.disturbance_messages > most {
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
        for (known, more) in [
            (&mut facts.values, values),
            (&mut facts.sysctls, sysctls),
            (&mut facts.kernel_config, kernel_config),
        ] {
            for (key, value) in more {
                if let Some(earlier) = known.insert(key.clone(), value) {
                    return Err(format!("fact told twice: {key:?} was {earlier:?}"));
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
        let has_timeline = load.is_some_and(|load| !load.timeline.is_empty());
        if result.facts != Facts::default() || has_timeline {
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

/// Checks the state of the kernel's log, and removes control characters from its reason.
fn kernel_log(log: KernelLog) -> Result<KernelLog, String> {
    match log {
        KernelLog::Read { .. } => Ok(log),
        KernelLog::Unread(why) => Ok(KernelLog::Unread(validate::detail(&why))),
        KernelLog::Console => Err("a kernel's log as only the host can see it".into()),
    }
}

/// Checks a second that was sent during the load, which must be a single one.
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
    use crate::metric::{Direction, Figure, Role};

    fn greeting(build: &str) -> Greeting {
        Greeting {
            protocol: crate::protocol::PROTOCOL,
            build: build.into(),
        }
    }

    fn figure(name: &str, value: f64) -> Figure {
        Figure::new(name, "s", Direction::Lower, Role::Secondary, value)
    }

    fn good() -> JobResult {
        JobResult {
            measurement: validate::tests::good(),
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
        let FromAgent::Defect(mut from_console) = defect("a", 1, 0) else {
            panic!("a defect");
        };
        from_console.source = DefectSource::Console;
        refused(
            loaded(vec![FromAgent::Defect(from_console)]),
            "a defect as only the host can see it",
        );
        refused(
            send(vec![defect("a", 1, 0)]),
            "unexpected message: defect before it greeted",
        );
    }

    #[test]
    fn control_characters_are_removed_from_defects() {
        let Ok(CheckedMessage::Defect(checked)) = loaded(vec![defect("\u{1b}[31mtcp_ack", 1, 0)])
        else {
            panic!("refused");
        };
        assert_eq!(checked.top, "tcp_ack");
    }

    fn facts(key: &str) -> FromAgent {
        let mut facts = Facts::default();
        facts.values.insert(key.into(), "value".into());
        FromAgent::Facts(Box::new(facts))
    }

    /// Sends all messages to a session; returns the result of the last one. All others must be accepted.
    fn send(messages: Vec<FromAgent>) -> Result<CheckedMessage, String> {
        let mut session = Session::new(greeting("a"));
        let mut results: Vec<_> = messages
            .into_iter()
            .map(|message| session.accept(message))
            .collect();
        let last = results.pop().unwrap();
        for (result, index) in results.into_iter().zip(0..) {
            assert!(result.is_ok(), "message {index}: {result:?}");
        }
        last
    }

    /// Sends messages during the load.
    fn loaded(messages: Vec<FromAgent>) -> Result<CheckedMessage, String> {
        let begin = [hello(), FromAgent::Phase(Phase::WarmingUp)];
        send(begin.into_iter().chain(messages).collect())
    }

    fn refused(result: Result<CheckedMessage, String>, why: &str) {
        assert_eq!(result.unwrap_err(), why);
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
        let why = send(vec![FromAgent::Hello(other)]).unwrap_err();
        assert!(why.contains("agent protocol 4 build \"a\""), "{why}");
        let why = send(vec![FromAgent::Hello(greeting("b"))]).unwrap_err();
        assert!(why.contains("not of one build"), "{why}");
    }

    #[test]
    fn unexpected_messages_are_refused() {
        let phase = FromAgent::Phase;
        let done = || FromAgent::Done(Box::new(good()));
        refused(
            send(vec![done()]),
            "unexpected message: result before it greeted",
        );
        refused(
            send(vec![hello(), hello()]),
            "unexpected message: greeting before its first phase",
        );
        refused(
            send(vec![hello(), phase(Phase::Starting), sample(0)]),
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
    fn after_a_refusal_no_message_is_accepted() {
        let mut session = Session::new(greeting("a"));
        assert!(session.accept(sample(0)).is_err());
        assert!(session.accept(hello()).is_err());
    }

    #[test]
    fn times_out_of_order_are_refused() {
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
    fn seconds_of_a_tick_may_be_out_of_order_and_are_checked() {
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
    fn the_timeline_is_bounded() {
        let many: Vec<u64> = (0..10_000).map(|second| second * 1000).collect();
        let more: Vec<u64> = (10_000..20_000).map(|second| second * 1000).collect();
        refused(
            loaded(vec![seconds(&many), seconds(&more)]),
            "timeline that was not thinned: 20000 points",
        );
    }

    #[test]
    fn a_profile_is_sent_in_parts_or_is_missing() {
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
        let garbage = FromAgent::Profile(ProfilePart::Bytes("?".into()));
        let why = loaded(vec![garbage]).unwrap_err();
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
    fn an_invalid_result_is_refused() {
        let mut bad = good();
        bad.measurement.figures.push(figure("latency", -5.0));
        refused(
            loaded(vec![FromAgent::Done(Box::new(bad))]),
            "figure below zero: latency -5",
        );
    }

    #[test]
    fn a_guest_may_fail_at_any_time_for_reasons_that_it_can_detect() {
        let failed = |reason| FromAgent::Failed {
            reason,
            detail: "\u{1b}[31mdied".into(),
        };
        let checked = CheckedMessage::Failed {
            reason: VoidReason::AgentFailed,
            detail: "died".into(),
        };
        assert_eq!(send(vec![failed(VoidReason::AgentFailed)]), Ok(checked));
        refused(
            send(vec![failed(VoidReason::Panic)]),
            "a failure that only the host can see: kernel panic",
        );
    }
}
