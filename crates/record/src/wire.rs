//! Messages between host and agent, and how they travel: a length, then JSON.
//!
//! The length is four bytes, little endian, and checked against `LIMIT` before anything is allocated, so
//! that garbage on the line is an error and not an outage. The first message of each side names its
//! protocol and build; a mismatch is refused by whoever sees it.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::curve::Curve;
use crate::evidence::{Facts, Sample};
use crate::load::LoadResult;
use crate::metric::Figure;
use crate::plan::Tuning;
use crate::trial::VoidReason;

/// Raised whenever a message changes.
pub const PROTOCOL: u32 = 4;

/// Longest message, in bytes: a second of what the clients saw takes 836, so that three days of it fit.
pub const LIMIT: u32 = 256 << 20;

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
    /// A second of load has passed: right answers and faults so far, warm-up included.
    Progress {
        /// Seconds since the load began.
        second: u32,
        /// Right answers so far.
        ok: u64,
        /// Faults so far.
        faults: u64,
    },
    /// The system over some time of the load, mostly a second; told as it passes, so that a guest that dies leaves them.
    Sample(Box<Sample>),
    /// The job is done.
    Done(Box<Yield>),
    /// The job failed.
    Failed {
        /// What kind of failure.
        reason: VoidReason,
        /// What happened, with the last lines of a log where there is one.
        detail: String,
    },
}

/// Steps of a job, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Modules, file systems, sysctls, namespaces.
    SettingUp,
    /// Data is made and services are started.
    Starting,
    /// The system is left alone until it is quiet.
    Settling,
    /// The load runs, not counted.
    WarmingUp,
    /// The load runs and counts.
    Measuring,
    /// Facts are collected and answers verified.
    Collecting,
}

impl Phase {
    /// The phase in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::SettingUp => "setting up",
            Self::Starting => "starting services",
            Self::Settling => "waiting until the system is quiet",
            Self::WarmingUp => "warming up",
            Self::Measuring => "measuring",
            Self::Collecting => "collecting",
        }
    }
}

/// What the agent is to do. It never learns that there is another arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Sysctls to set before anything is started, dotted names.
    pub sysctl: BTreeMap<String, String>,
    /// What the arm changes in the services, and what is taken from them.
    pub tuning: Tuning,
    /// The workload.
    pub workload: WorkloadJob,
    /// Seed of all data and schedules of this trial; the same for all arms.
    pub seed: u64,
    /// Guest nanoseconds per executed instruction, when the clock counts instructions.
    pub ns_per_instruction: Option<u32>,
}

/// The workload's share of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadJob {
    /// `web-static`, ...
    pub kind: String,
    /// Its validated options, in the form that the workload itself wrote.
    pub options: serde_json::Value,
}

/// What a finished job yields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Yield {
    /// Figures, the primary one first.
    pub figures: Vec<Figure>,
    /// Figures against the load, of workloads that climb.
    pub curves: Vec<Curve>,
    /// What the clients saw.
    pub load: Option<LoadResult>,
    /// What fairness checks compare.
    pub facts: Facts,
    /// `uname -r` and `-v`.
    pub kernel: String,
    /// Version string of the server.
    pub server: String,
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
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > LIMIT {
        return Err(too_long(length.into()));
    }
    let mut body = vec![0; length as usize];
    input.read_exact(&mut body)?;
    serde_json::from_slice(&body)
        .map_err(|why| io::Error::new(io::ErrorKind::InvalidData, format!("not a message: {why}")))
}

fn too_long(length: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("message longer than {LIMIT} bytes: {length}"),
    )
}

/// Refuses a peer of another protocol or build.
pub fn recognise(mine: &Greeting, theirs: &Greeting) -> Result<(), String> {
    if mine == theirs {
        return Ok(());
    }
    Err(format!(
        "host and agent are not of one build: host protocol {} build {}, agent protocol {} build {}",
        mine.protocol, mine.build, theirs.protocol, theirs.build
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_the_line() {
        let mut line = Vec::new();
        send(&mut line, &FromAgent::Phase(Phase::Measuring)).unwrap();
        send(
            &mut line,
            &FromAgent::Progress {
                second: 2,
                ok: 7,
                faults: 0,
            },
        )
        .unwrap();
        let mut line = line.as_slice();
        assert_eq!(
            receive::<FromAgent>(&mut line).unwrap(),
            FromAgent::Phase(Phase::Measuring)
        );
        let progress = FromAgent::Progress {
            second: 2,
            ok: 7,
            faults: 0,
        };
        assert_eq!(receive::<FromAgent>(&mut line).unwrap(), progress);
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
