//! Messages between host and agent, and how they travel: a length, then JSON.
//!
//! The length is four bytes, little endian. It is checked against `LIMIT`, and memory is taken only for bytes
//! that have come, so that garbage on the line is an error and not an outage. What grows with the time travels in
//! parts. The first message of each side names its protocol and build; a mismatch is refused by whoever sees it.
//! What a guest says means nothing before `session` has checked it.

pub mod clients;
pub mod code;
pub mod drive;
pub mod hosts;
pub mod session;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::counters::Counters;
use crate::defect::{FoundDefect, KernelLog};
use crate::disturbances::BegunDisturbance;
use crate::evidence::{Facts, Sample};
use crate::load::{Second, Tick};
use crate::trial::{JobResult, Phase, VoidReason};
use base::input::text;
use code::Code;
use plan::{PlannedDisturbance, SeekDisk, Target, Tuning};

/// Raised whenever a message changes.
pub const PROTOCOL: u32 = 13;

/// Longest message, in bytes.
pub const LIMIT: u32 = 1 << 20;

/// Bytes of a part, about: far enough below `LIMIT` that escapes in a text cannot carry it past.
const PART_BYTES: usize = 96 << 10;

/// What a guest may say however short its trial is: facts, figures, histograms.
const ALLOWANCE_BYTES: u64 = 64 << 20;

/// What it may say besides in each second: a sample and a second of what the clients saw take 4 KiB.
const ALLOWANCE_BYTES_PER_S: u64 = 16 << 10;

/// Name of the virtio-serial port that the agent opens.
pub const PORT: &str = "bakeoff.agent";

/// Who speaks: exchanged before anything else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// `PROTOCOL` of the sender.
    pub protocol: u32,
    /// Version and content hash of the sender's binary.
    pub build: String,
}

/// Host to agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToAgent {
    /// First word.
    Hello(Greeting),
    /// The one job of this boot.
    Run(Box<Job>),
    /// Stop now and power off.
    Stop,
}

/// Agent to host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromAgent {
    /// First word, once the agent is up.
    Hello(Greeting),
    /// What it does now.
    Phase(Phase),
    /// A second of load has passed. The seconds in it are told as they pass, so that a guest that dies leaves them.
    Tick(Tick),
    /// The system over some time of the load, mostly a second; told as it passes, so that a guest that dies leaves them.
    Sample(Box<Sample>),
    /// What may grow, read about once a minute of a long load.
    Counters(Box<Counters>),
    /// What is done to the system on purpose: told when it begins, and again when it ends.
    Disturbance(BegunDisturbance),
    /// The timeline of what the clients saw, in its order, thinned where it is long; after the load.
    Seconds(Vec<Second>),
    /// A defect of its kernel or services: new, or told more often since. A later word on one leaves its lines out.
    Defect(Box<FoundDefect>),
    /// How far it reads its kernel's log; again when messages of it were lost.
    KernelLog(KernelLog),
    /// Some of the facts.
    Facts(Box<Facts>),
    /// Some of where code lies, where a profile is made; before the result.
    Code(Box<Code>),
    /// Some of the profile that the agent has made, where it was to sample; before the result.
    Profile(ProfilePart),
    /// The job is done. All of the timeline and the facts has been sent before, in parts, and is left out here.
    Done(Box<JobResult>),
    /// The job failed.
    Failed {
        /// What kind of failure.
        reason: VoidReason,
        /// What happened, with the last lines of a log where there is one.
        detail: String,
    },
}

/// What the agent is to do. It never learns that there is another arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The arm's words on the kernel's command line; empty where the kernel is one that runs already.
    pub cmdline: String,
    /// Sysctls to set before anything is started, dotted names.
    pub sysctl: BTreeMap<String, String>,
    /// What the arm changes in the services, and what is taken from them.
    pub tuning: Tuning,
    /// The workload.
    pub workload: WorkloadJob,
    /// The disk with seeks that the workload has to itself; `None` for what the machine gives.
    pub disk: Option<SeekDisk>,
    /// What is done to the system on purpose while it is loaded.
    pub disturbances: Vec<PlannedDisturbance>,
    /// Seed of all data and schedules of this trial; the same for all arms.
    pub seed: u64,
    /// Guest nanoseconds per executed instruction, when the clock counts instructions.
    pub ns_per_instruction: Option<u32>,
    /// How the trial is profiled.
    pub profiling: Profiling,
    /// The system on the network that is loaded; `None` where servers are started.
    pub target: Option<Target>,
    /// Addresses at which servers are reached by clients on another system, over the servers' own network cards; empty where they
    /// are in namespaces, or behind a card of QEMU's, at an address that both agents know.
    pub servers: Vec<Ipv4Addr>,
    /// How much of it is this agent's. Who gives jobs says `Whole`; a machine with two agents for a trial shares it out.
    pub part: Part,
    /// What the clients get from a null server is wanted, not what the arm's server does.
    pub ceiling: Option<CeilingJob>,
    /// The same load comes from one client host fewer, or where there is one from one thread fewer.
    pub one_fewer: bool,
    /// A busy host is loaded without waiting until it is idle: the plan keeps blocks that something outside disturbed.
    pub accepts_busy_host: bool,
    /// Clients beside the servers are scheduled with them, as one group: sessions do not part them.
    pub schedules_as_one: bool,
}

/// How much of a job an agent does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// All of it.
    Whole,
    /// Servers, samples and the result; the clients are another agent's.
    Servers,
    /// The clients.
    Clients,
}

/// Where the null server is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CeilingJob {
    /// The agent starts it where services run.
    Own,
    /// At this URL, on another host.
    At(String),
}

/// How a trial is profiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profiling {
    /// Not at all.
    None,
    /// The machine counts every instruction, and the agent tells where code lies.
    Counted,
    /// The agent samples what runs, and tells the profile.
    Sampled,
}

/// Some of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfilePart {
    /// The next bytes of it (`profiler::format`), in base64.
    Bytes(String),
    /// There is none, and why.
    Missing(String),
}

impl ProfilePart {
    /// A profile in messages that are not too long.
    pub fn parts(profile: &[u8]) -> impl Iterator<Item = Self> {
        let parts = profile.chunks(PART_BYTES);
        parts.map(|part| Self::Bytes(BASE64.encode(part)))
    }
}

/// The workload's share of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadJob {
    /// `web-static`, ...
    pub kind: String,
    /// Its validated options, in the form that the workload itself wrote.
    pub options: serde_json::Value,
}

/// What a job yields, as the messages that tell it: parts first, `Done` last.
pub fn told(mut result: JobResult) -> impl Iterator<Item = FromAgent> {
    let facts = std::mem::take(&mut result.facts);
    let load = result.measurement.load.as_mut();
    let timeline = load.map(|load| std::mem::take(&mut load.timeline));
    let seconds = seconds_in_parts(timeline.unwrap_or_default());
    facts_in_parts(facts)
        .into_iter()
        .map(|part| FromAgent::Facts(Box::new(part)))
        .chain(seconds.map(FromAgent::Seconds))
        .chain([FromAgent::Done(Box::new(result))])
}

fn seconds_in_parts(timeline: Vec<Second>) -> impl Iterator<Item = Vec<Second>> {
    // Numbers and names of a second take up to this much.
    const FRAME: usize = 300;
    let mut rest = timeline.into_iter().peekable();
    std::iter::from_fn(move || {
        let (mut part, mut bytes) = (Vec::new(), 0);
        while bytes < PART_BYTES
            && let Some(second) = rest.next()
        {
            bytes += FRAME + second.latency.text_bytes();
            part.push(second);
        }
        (!part.is_empty()).then_some(part)
    })
}

fn facts_in_parts(facts: Facts) -> Vec<Facts> {
    let mut parts = Parts {
        version: facts.version,
        full: Vec::new(),
        last: Facts::default(),
        bytes: 0,
    };
    for (key, value) in facts.values {
        parts
            .room(key.len() + value.len())
            .values
            .insert(key, value);
    }
    for (key, value) in facts.sysctls {
        parts
            .room(key.len() + value.len())
            .sysctls
            .insert(key, value);
    }
    for (key, value) in facts.kernel_config {
        let part = parts.room(key.len() + value.len());
        part.kernel_config.insert(key, value);
    }
    for line in facts.boot_log {
        parts.room(line.len()).boot_log.push(line);
    }
    parts.turn();
    parts.full
}

/// Facts on their way into parts.
struct Parts {
    version: u32,
    full: Vec<Facts>,
    last: Facts,
    bytes: usize,
}

impl Parts {
    /// The part that so many bytes more go into.
    fn room(&mut self, bytes: usize) -> &mut Facts {
        // Quotes, colon and comma.
        const FRAME: usize = 8;
        if self.bytes > 0 && self.bytes + bytes > PART_BYTES {
            self.turn();
        }
        self.bytes += bytes + FRAME;
        &mut self.last
    }

    fn turn(&mut self) {
        let mut part = std::mem::take(&mut self.last);
        part.version = self.version;
        self.full.push(part);
        self.bytes = 0;
    }
}

/// Writes one message.
pub fn send<M: Serialize>(out: &mut impl Write, message: &M) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len())
        .ok()
        .filter(|length| *length <= LIMIT);
    let length = length.ok_or_else(|| too_long(body.len() as u64))?;
    let mut frame = Vec::with_capacity(body.len() + 4);
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&body);
    out.write_all(&frame)?;
    out.flush()
}

/// Reads one message; `UnexpectedEof` when the other side has gone.
pub fn receive<M: DeserializeOwned>(input: &mut impl Read) -> io::Result<M> {
    let length = receive_length(input)?;
    let mut body = Vec::new();
    input.take(length.into()).read_to_end(&mut body)?;
    if body.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&body).map_err(|why| garbled(format!("not a message: {why}")))
}

fn receive_length(input: &mut impl Read) -> io::Result<u32> {
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > LIMIT {
        return Err(too_long(length.into()));
    }
    Ok(length)
}

/// How much a guest may say in a trial of at most so long, in bytes.
pub fn allowance(trial_limit: Duration) -> u64 {
    let seconds = trial_limit.as_secs().saturating_add(1);
    ALLOWANCE_BYTES.saturating_add(seconds.saturating_mul(ALLOWANCE_BYTES_PER_S))
}

/// A line that brings messages, and no more than its allowance.
#[derive(Debug)]
pub struct Inbox<R> {
    input: io::Take<R>,
    allowance_bytes: u64,
}

impl<R: Read> Inbox<R> {
    /// Takes at most so many bytes.
    pub fn new(input: R, allowance_bytes: u64) -> Self {
        Self {
            input: input.take(allowance_bytes),
            allowance_bytes,
        }
    }

    /// Reads one message, as `receive`.
    pub fn receive<M: DeserializeOwned>(&mut self) -> io::Result<M> {
        let received = receive(&mut self.input);
        if received.is_err() && self.input.limit() == 0 {
            let limit = self.allowance_bytes;
            return Err(garbled(format!(
                "more said than a trial can have: {limit} bytes"
            )));
        }
        received
    }
}

fn garbled(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn too_long(length: u64) -> io::Error {
    garbled(format!("message longer than {LIMIT} bytes: {length}"))
}

/// Refuses a peer of another protocol or build.
pub fn recognise(mine: &Greeting, theirs: &Greeting) -> Result<(), String> {
    if mine == theirs {
        return Ok(());
    }
    Err(format!(
        "host and agent are not of one build: host protocol {} build {}, agent protocol {} build {:?} \
         (the cache may hold another agent: run bakeoff again)",
        mine.protocol,
        mine.build,
        theirs.protocol,
        text::clean_line(text::cut(&theirs.build, 100))
    ))
}

#[cfg(test)]
mod tests {
    use crate::load::LoadResult;
    use crate::trial::Measurement;

    use super::*;

    #[test]
    fn a_message_survives_the_line() {
        let mut line = Vec::new();
        send(&mut line, &FromAgent::Phase(Phase::Measuring)).unwrap();
        let tick = FromAgent::Tick(Tick {
            second: 2,
            ok: 7,
            ..Tick::default()
        });
        send(&mut line, &tick).unwrap();
        let mut line = line.as_slice();
        assert_eq!(
            receive::<FromAgent>(&mut line).unwrap(),
            FromAgent::Phase(Phase::Measuring)
        );
        assert_eq!(receive::<FromAgent>(&mut line).unwrap(), tick);
        let end = receive::<FromAgent>(&mut line).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn garbage_is_refused_before_it_is_believed() {
        let boast = receive::<FromAgent>(&mut [0xff; 8].as_slice()).unwrap_err();
        assert!(boast.to_string().contains("longer than"));
        let noise = receive::<FromAgent>(&mut [2, 0, 0, 0, b'{', b'x'].as_slice()).unwrap_err();
        assert!(noise.to_string().contains("not a message"));
    }

    #[test]
    fn memory_is_taken_only_for_bytes_that_have_come() {
        /// Notes the largest piece that it is asked for.
        struct Stingy(usize);
        impl Read for Stingy {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0 = self.0.max(buffer.len());
                Ok(0)
            }
        }
        let mut nothing = Stingy(0);
        let length = LIMIT.to_le_bytes();
        let mut line = length.as_slice().chain(&mut nothing);
        let end = receive::<FromAgent>(&mut line).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
        assert!(nothing.0 <= 64 << 10, "{} bytes", nothing.0);
    }

    #[test]
    fn an_endless_stream_comes_to_an_end() {
        let mut word = Vec::new();
        send(&mut word, &FromAgent::Phase(Phase::Measuring)).unwrap();
        // As many words as fit, and a part of one.
        let mut inbox = Inbox::new(
            io::Cursor::new(word.repeat(100)),
            10 * word.len() as u64 + 3,
        );
        for _ in 0..10 {
            inbox.receive::<FromAgent>().unwrap();
        }
        let why = inbox.receive::<FromAgent>().unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::InvalidData);
        assert!(why.to_string().contains("more said than"), "{why}");
    }

    #[test]
    fn a_day_costs_more_than_a_minute_and_fifteen_days_are_no_limit() {
        let day = Duration::from_secs(86_400);
        assert_eq!(allowance(Duration::from_secs(59)), (64 << 20) + (60 << 14));
        // A second of samples and clients takes some 4 KiB.
        assert!(allowance(15 * day) > 15 * 86_400 * 4096);
    }

    #[test]
    fn numbers_beyond_all_measure_are_no_message() {
        #[derive(Debug, Deserialize)]
        #[expect(dead_code, reason = "never made")]
        struct Points {
            points: Vec<crate::curve::Point>,
        }
        for value in ["1e999", "NaN", "null", "-Infinity"] {
            let body = format!(r#"{{"points":[{{"at":1.0,"value":{value}}}]}}"#);
            let mut line = (body.len() as u32).to_le_bytes().to_vec();
            line.extend(body.as_bytes());
            let why = receive::<Points>(&mut line.as_slice()).unwrap_err();
            assert!(why.to_string().contains("not a message"), "{value}: {why}");
        }
    }

    #[test]
    fn what_grows_with_the_time_travels_in_parts() {
        let mut latency = crate::latency::Latency::coarse();
        (0..10_000).for_each(|step| latency.record(step * step));
        let second = |index: u64| Second {
            at_ms: index * 1000,
            latency: latency.pack(),
            ..Second::default()
        };
        let load = LoadResult {
            timeline: (0..2000).map(second).collect(),
            ..LoadResult::default()
        };
        let pair = |key: u32| (key.to_string(), "\u{1}".repeat(1000));
        let facts = Facts {
            version: 1,
            values: (0..300).map(pair).collect(),
            boot_log: vec!["line".into(); 10_000],
            ..Facts::default()
        };
        let result = JobResult {
            measurement: Measurement {
                load: Some(load.clone()),
                ..Measurement::default()
            },
            facts: facts.clone(),
            ..JobResult::default()
        };
        let (mut timeline, mut values, mut log) = (Vec::new(), BTreeMap::new(), 0);
        let mut messages = 0;
        for message in told(result) {
            // As the agent would: none is longer than it may be.
            send(&mut io::sink(), &message).unwrap();
            messages += 1;
            match message {
                FromAgent::Seconds(part) => timeline.extend(part),
                FromAgent::Facts(part) => {
                    values.extend(part.values);
                    log += part.boot_log.len();
                }
                FromAgent::Done(done) => assert_eq!(done.facts, Facts::default()),
                other => panic!("{other:?}"),
            }
        }
        assert!(messages > 10, "{messages}");
        assert_eq!((timeline, values), (load.timeline, facts.values));
        assert_eq!(log, facts.boot_log.len());
    }

    #[test]
    fn another_build_is_refused() {
        let mine = Greeting {
            protocol: PROTOCOL,
            build: "0.1.0-aa".into(),
        };
        let theirs = Greeting {
            protocol: PROTOCOL,
            build: "0.1.0-bb".into(),
        };
        assert_eq!(recognise(&mine, &mine), Ok(()));
        assert!(recognise(&mine, &theirs).unwrap_err().contains("0.1.0-bb"));
    }
}
