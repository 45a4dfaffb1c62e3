//! The protocol of coordinator and workers: JSON, one message a line, over plain TCP.
//!
//! ```text
//! worker:      hello(protocol, build, nonce)
//! coordinator: proof(nonce, HMAC)          the secret itself is never sent
//! worker:      proof(HMAC)                 or refused(why)
//! coordinator: prepare(part of the load)
//! worker:      ready                       or refused(why)
//! coordinator: ping ...                    worker: pong(its clock) ...
//! coordinator: start(time of the worker's clock)
//! worker:      tick(counts) ... result     or refused(why)
//! coordinator: stop                        at any time; the worker's result follows
//! ```
//! The messages after the proofs are neither encrypted nor signed, so the network must be trusted.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use record::load::{LoadResult, Tick};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::load_cli::worker_spec::WorkerSpec;

/// Version of the protocol; raised whenever a message changes.
pub(crate) const PROTOCOL: u32 = 5;

/// Longest line from a peer that has not proved that it knows the secret.
pub(crate) const MAX_UNTRUSTED_BYTES: usize = 4096;

/// Longest line after the proof: it may contain expected bodies.
pub(crate) const MAX_TRUSTED_BYTES: u64 = 256 << 20;

/// How long the other side may take to respond.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Coordinator to worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ToWorker {
    Proof { nonce: String, proof: String },
    Prepare(Box<WorkerSpec>),
    Ping,
    Start { at_ns: u64 },
    Stop,
}

/// Worker to coordinator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ToCoordinator {
    Hello {
        protocol: u32,
        build: String,
        nonce: String,
    },
    Proof {
        proof: String,
    },
    Refused {
        why: String,
    },
    Ready,
    Pong {
        at_ns: u64,
    },
    Tick(Tick),
    Result(Box<LoadResult>),
}

/// One end of a connection between coordinator and worker.
pub(crate) struct Channel {
    inward: BufReader<TcpStream>,
    outward: TcpStream,
    /// Longest accepted line.
    pub(crate) limit_bytes: u64,
}

impl Channel {
    pub(crate) fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true).context("cannot send at once")?;
        let channel = Self {
            outward: stream.try_clone().context("no descriptor left")?,
            inward: BufReader::new(stream),
            limit_bytes: MAX_UNTRUSTED_BYTES as u64,
        };
        channel.set_timeout(Some(RESPONSE_TIMEOUT))?;
        Ok(channel)
    }

    /// Sets the longest wait for a message; `None` waits forever.
    pub(crate) fn set_timeout(&self, timeout: Option<Duration>) -> Result<()> {
        self.outward
            .set_read_timeout(timeout)
            .and_then(|()| self.outward.set_write_timeout(Some(RESPONSE_TIMEOUT)))
            .context("cannot limit the time to wait")
    }

    /// The sending side, for use in another thread.
    pub(crate) fn sender(&self) -> Result<TcpStream> {
        self.outward.try_clone().context("no descriptor left")
    }

    pub(crate) fn send<T: Serialize>(&mut self, message: &T) -> Result<()> {
        send(&mut self.outward, message)
    }

    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = Vec::new();
        let mut limited = (&mut self.inward).take(self.limit_bytes);
        limited.read_until(b'\n', &mut line).context("silent")?;
        ensure!(!line.is_empty(), "gone");
        ensure!(
            line.ends_with(b"\n"),
            "line too long or torn: {} bytes (is it bakeoff?)",
            line.len()
        );
        serde_json::from_slice(&line).context("not a message of bakeoff")
    }
}

/// Sends one message.
pub(crate) fn send<T: Serialize>(outward: &mut TcpStream, message: &T) -> Result<()> {
    let mut line = serde_json::to_vec(message).context("message has no text form")?;
    line.push(b'\n');
    outward.write_all(&line).context("gone")
}

/// Refuses another build, whose messages may have another meaning.
pub(crate) fn check_build(protocol: u32, build: &str, our_build: &str) -> Result<()> {
    if (protocol, build) == (PROTOCOL, our_build) {
        return Ok(());
    }
    bail!("another bakeoff: {build}, protocol {protocol} (put {our_build} on all hosts)")
}
