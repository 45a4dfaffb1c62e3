//! Messages between host and agent. A message is a length, then JSON.
//!
//! The length has four bytes, little endian, and at most the value `LIMIT`. Memory is allocated only for bytes that have arrived, so
//! garbage on the connection is just an error. Data that grows with time is sent in parts. The first message of each side contains its
//! protocol and build; each side refuses a mismatch. Messages of a guest are checked by `session`.

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

/// Approximate size of a part in bytes: so far below `LIMIT` that escaped characters cannot exceed it.
const PART_BYTES: usize = 96 << 10;

/// Bytes that a guest may send in any trial: facts, figures, histograms.
const ALLOWANCE_BYTES: u64 = 64 << 20;

/// Bytes that a guest may send in addition per second. A sample and a second of the clients take 4 KiB.
const ALLOWANCE_BYTES_PER_S: u64 = 16 << 10;

/// Name of the virtio-serial port that the agent opens.
pub const PORT: &str = "bakeoff.agent";

/// Identifies the sender; exchanged before anything else.
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
    /// The first message.
    Hello(Greeting),
    /// The only job of this boot.
    Run(Box<Job>),
    /// Stop now and power off.
    Stop,
}

/// Agent to host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromAgent {
    /// The first message, once the agent is up.
    Hello(Greeting),
    /// A new phase has begun.
    Phase(Phase),
    /// Progress of the load, sent every second. It contains the last seconds, so that they survive a guest that dies.
    Tick(Tick),
    /// The system over an interval of the load, usually a second. Sent at once, so that it survives a guest that dies.
    Sample(Box<Sample>),
    /// Counters that may grow, about once a minute of a long load.
    Counters(Box<Counters>),
    /// A planned disturbance, sent when it begins and again when it ends.
    Disturbance(BegunDisturbance),
    /// Part of the clients' timeline, in order, thinned if it is long; after the load.
    Seconds(Vec<Second>),
    /// A defect of the kernel or the services: new, or with a higher count. Only the first report has lines.
    Defect(Box<FoundDefect>),
    /// How much of the kernel's log is read; sent again when messages were lost.
    KernelLog(KernelLog),
    /// Part of the facts.
    Facts(Box<Facts>),
    /// Part of the addresses of code, in profiled trials; before the result.
    Code(Box<Code>),
    /// Part of the profile, if the agent samples; before the result.
    Profile(ProfilePart),
    /// The job is done. Timeline and facts are left out, because they were sent in parts.
    Done(Box<JobResult>),
    /// The job failed.
    Failed {
        /// Kind of failure.
        reason: VoidReason,
        /// What happened, with the last lines of a log if there is one.
        detail: String,
    },
}

/// The agent's job. It does not reveal that there are other arms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The arm's additions to the kernel command line; empty if the kernel is already running.
    pub cmdline: String,
    /// Sysctls to set before anything is started, by dotted name.
    pub sysctl: BTreeMap<String, String>,
    /// The arm's changes to the services and their limits.
    pub tuning: Tuning,
    /// The workload.
    pub workload: WorkloadJob,
    /// A simulated disk with seeks for the workload; `None` for the machine's disk.
    pub disk: Option<SeekDisk>,
    /// Planned disturbances during the load.
    pub disturbances: Vec<PlannedDisturbance>,
    /// Seed of all data and schedules of this trial; the same for all arms.
    pub seed: u64,
    /// Guest nanoseconds per executed instruction, if the clock counts instructions.
    pub ns_per_instruction: Option<u32>,
    /// How the trial is profiled.
    pub profiling: Profiling,
    /// The system under test on the network; `None` if the agent starts servers.
    pub target: Option<Target>,
    /// Addresses of the servers' network cards for clients on another system. Empty if servers are in namespaces, or behind a card of
    /// QEMU, whose address both agents know.
    pub servers: Vec<Ipv4Addr>,
    /// The agent's part. The lab always sends `Whole`; a machine with two agents per trial divides the job.
    pub part: Part,
    /// Measures the clients' rate at a null server instead of the arm's server.
    pub ceiling: Option<CeilingJob>,
    /// Sends the same load from one client host fewer, or, with a single host, from one thread fewer.
    pub one_fewer: bool,
    /// Does not wait until a busy host is idle, because the plan accepts disturbed blocks.
    pub accepts_busy_host: bool,
    /// What is changed for clients beside the servers.
    pub clients_beside: ClientsBeside,
}

/// What is changed for clients beside the servers, so that sharing a CPU decides no figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ClientsBeside {
    /// Schedules servers and clients as one group, so that scheduling by session does not separate them.
    pub schedules_as_one: bool,
    /// Switches HyStart of TCP CUBIC off, which round trips with waits for the CPU would mislead.
    pub disables_hystart: bool,
}

/// An agent's part of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// All of it.
    Whole,
    /// Servers, samples and the result; another agent runs the clients.
    Servers,
    /// The clients.
    Clients,
}

/// Location of the null server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CeilingJob {
    /// Where services run; the agent starts it.
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
    /// The machine counts every instruction, and the agent sends the addresses of code.
    Counted,
    /// The agent samples what runs, and sends the profile.
    Sampled,
}

/// Part of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfilePart {
    /// Its next bytes (`profiler::format`), in base64.
    Bytes(String),
    /// There is no profile, with the reason.
    Missing(String),
}

impl ProfilePart {
    /// Divides a profile into messages below `LIMIT`.
    pub fn parts(profile: &[u8]) -> impl Iterator<Item = Self> {
        let parts = profile.chunks(PART_BYTES);
        parts.map(|part| Self::Bytes(BASE64.encode(part)))
    }
}

/// The workload of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadJob {
    /// `web-static`, ...
    pub kind: String,
    /// Its validated options, as the workload serialized them.
    pub options: serde_json::Value,
}

/// Messages with the result of a job: parts first, `Done` last.
pub fn result_messages(mut result: JobResult) -> impl Iterator<Item = FromAgent> {
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
    // Most bytes of a second's numbers and names.
    const FRAME: usize = 300;
    let mut rest = timeline.into_iter();
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
    let mut parts = FactParts {
        version: facts.version,
        full: Vec::new(),
        current: Facts::default(),
        bytes: 0,
    };
    for (key, value) in facts.values {
        let part = parts.part_for(key.len() + value.len());
        part.values.insert(key, value);
    }
    for (key, value) in facts.sysctls {
        let part = parts.part_for(key.len() + value.len());
        part.sysctls.insert(key, value);
    }
    for (key, value) in facts.kernel_config {
        let part = parts.part_for(key.len() + value.len());
        part.kernel_config.insert(key, value);
    }
    for line in facts.boot_log {
        parts.part_for(line.len()).boot_log.push(line);
    }
    parts.finish_part();
    parts.full
}

/// Divides facts into parts.
struct FactParts {
    version: u32,
    full: Vec<Facts>,
    current: Facts,
    bytes: usize,
}

impl FactParts {
    /// The part into which an item of `bytes` goes.
    fn part_for(&mut self, bytes: usize) -> &mut Facts {
        // Quotes, colon and comma.
        const FRAME: usize = 8;
        if self.bytes > 0 && self.bytes + bytes > PART_BYTES {
            self.finish_part();
        }
        self.bytes += bytes + FRAME;
        &mut self.current
    }

    fn finish_part(&mut self) {
        let mut part = std::mem::take(&mut self.current);
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

/// Reads one message; `UnexpectedEof` if the other side has closed the connection.
pub fn receive<M: DeserializeOwned>(input: &mut impl Read) -> io::Result<M> {
    let length = receive_length(input)?;
    let mut body = Vec::new();
    input.take(length.into()).read_to_end(&mut body)?;
    if body.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&body).map_err(|why| invalid_data(format!("not a message: {why}")))
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

/// Bytes that a guest may send in a trial with this time limit.
pub fn allowance(trial_limit: Duration) -> u64 {
    let seconds = trial_limit.as_secs().saturating_add(1);
    ALLOWANCE_BYTES.saturating_add(seconds.saturating_mul(ALLOWANCE_BYTES_PER_S))
}

/// A connection from which messages are read, up to an allowance of bytes.
#[derive(Debug)]
pub struct Inbox<R> {
    input: io::Take<R>,
    allowance_bytes: u64,
}

impl<R: Read> Inbox<R> {
    /// Reads at most `allowance_bytes`.
    pub fn new(input: R, allowance_bytes: u64) -> Self {
        Self {
            input: input.take(allowance_bytes),
            allowance_bytes,
        }
    }

    /// Reads one message, like the function `receive`.
    pub fn receive<M: DeserializeOwned>(&mut self) -> io::Result<M> {
        let received = receive(&mut self.input);
        if received.is_err() && self.input.limit() == 0 {
            let limit = self.allowance_bytes;
            return Err(invalid_data(format!(
                "more said than a trial can have: {limit} bytes"
            )));
        }
        received
    }
}

fn invalid_data(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn too_long(length: u64) -> io::Error {
    invalid_data(format!("message longer than {LIMIT} bytes: {length}"))
}

/// Refuses a peer with another protocol or build.
pub fn recognise(mine: &Greeting, theirs: &Greeting) -> Result<(), String> {
    if mine == theirs {
        return Ok(());
    }
    Err(format!(
        "host and agent are not of one build: host protocol {} build {}, agent protocol {} build {:?} \
         (the cache may hold another agent: run bakeoff again; build one of another architecture anew: make cross-arm64)",
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
    fn messages_are_received_as_sent() {
        let mut bytes = Vec::new();
        send(&mut bytes, &FromAgent::Phase(Phase::Measuring)).unwrap();
        let tick = FromAgent::Tick(Tick {
            second: 2,
            ok: 7,
            ..Tick::default()
        });
        send(&mut bytes, &tick).unwrap();
        let mut input = bytes.as_slice();
        assert_eq!(
            receive::<FromAgent>(&mut input).unwrap(),
            FromAgent::Phase(Phase::Measuring)
        );
        assert_eq!(receive::<FromAgent>(&mut input).unwrap(), tick);
        let end = receive::<FromAgent>(&mut input).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn garbage_is_refused() {
        let length = receive::<FromAgent>(&mut [0xff; 8].as_slice()).unwrap_err();
        assert!(length.to_string().contains("longer than"));
        let body = receive::<FromAgent>(&mut [2, 0, 0, 0, b'{', b'x'].as_slice()).unwrap_err();
        assert!(body.to_string().contains("not a message"));
    }

    #[test]
    fn memory_is_allocated_only_for_bytes_that_have_arrived() {
        /// Records the largest buffer that it is asked to fill.
        struct LargestRead(usize);
        impl Read for LargestRead {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0 = self.0.max(buffer.len());
                Ok(0)
            }
        }
        let mut largest = LargestRead(0);
        let length = LIMIT.to_le_bytes();
        let mut input = length.as_slice().chain(&mut largest);
        let end = receive::<FromAgent>(&mut input).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
        assert!(largest.0 <= 64 << 10, "{} bytes", largest.0);
    }

    #[test]
    fn an_endless_stream_is_an_error() {
        let mut message = Vec::new();
        send(&mut message, &FromAgent::Phase(Phase::Measuring)).unwrap();
        // Ten messages, and part of the next.
        let mut inbox = Inbox::new(
            io::Cursor::new(message.repeat(100)),
            10 * message.len() as u64 + 3,
        );
        for _ in 0..10 {
            inbox.receive::<FromAgent>().unwrap();
        }
        let why = inbox.receive::<FromAgent>().unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::InvalidData);
        assert!(why.to_string().contains("more said than"), "{why}");
    }

    #[test]
    fn the_allowance_grows_with_the_time_limit() {
        let day = Duration::from_secs(86_400);
        assert_eq!(allowance(Duration::from_secs(59)), (64 << 20) + (60 << 14));
        // A second of samples and clients takes about 4 KiB.
        assert!(allowance(15 * day) > 15 * 86_400 * 4096);
    }

    #[test]
    fn infinite_numbers_are_refused() {
        #[derive(Debug, Deserialize)]
        #[expect(dead_code, reason = "never created")]
        struct Points {
            points: Vec<crate::curve::Point>,
        }
        for value in ["1e999", "NaN", "null", "-Infinity"] {
            let body = format!(r#"{{"points":[{{"at":1.0,"value":{value}}}]}}"#);
            let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
            bytes.extend(body.as_bytes());
            let why = receive::<Points>(&mut bytes.as_slice()).unwrap_err();
            assert!(why.to_string().contains("not a message"), "{value}: {why}");
        }
    }

    #[test]
    fn long_results_are_sent_in_parts() {
        let mut latency = base::latency::Latency::coarse();
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
        for message in result_messages(result) {
            // Fails if the message is too long.
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
