//! What leader and followers say to one another: JSON, one message a line, over plain TCP.
//!
//! ```text
//! follower: hello(protocol, build, nonce)
//! leader:   proof(nonce, HMAC)          the secret itself is never sent
//! follower: proof(HMAC)                 or refused(why)
//! leader:   prepare(part of the load)
//! follower: ready                       or refused(why)
//! leader:   ping ...                    follower: pong(its clock) ...
//! leader:   start(instant of the follower's clock)
//! follower: tick(counts) ... result     or refused(why)
//! leader:   stop                        at any time; the follower's result follows
//! ```
//! What follows the proofs is neither encrypted nor signed: the network between them must be trusted.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use record::latency::Packed;
use record::load::LoadResult;
use record::rundir::hex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::share::Share;

/// Raised whenever a message changes.
pub(super) const PROTOCOL: u32 = 2;

/// Longest line from somebody who has not proved that they know the secret.
pub(super) const SHORT_BYTES: u64 = 4096;

/// Longest line after that: bodies to compare with travel in it.
pub(super) const LONG_BYTES: u64 = 256 << 20;

/// How long the other side may take to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Leader to follower.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ToFollower {
    Proof { nonce: String, proof: String },
    Prepare(Box<Share>),
    Ping,
    Start { at_ns: u64 },
    Stop,
}

/// Follower to leader.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ToLeader {
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
    Tick {
        second: u32,
        ok: u64,
        faults: u64,
        latency: Packed,
        counting: bool,
    },
    Result(Box<LoadResult>),
}

/// One side of a connection.
pub(super) struct Wire {
    inward: BufReader<TcpStream>,
    outward: TcpStream,
    /// Longest line taken.
    pub(super) limit_bytes: u64,
}

impl Wire {
    pub(super) fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true).context("cannot send at once")?;
        let wire = Self {
            outward: stream.try_clone().context("no descriptor left")?,
            inward: BufReader::new(stream),
            limit_bytes: SHORT_BYTES,
        };
        wire.be_patient(Some(PATIENCE))?;
        Ok(wire)
    }

    /// Waits at most so long for each message.
    pub(super) fn be_patient(&self, patience: Option<Duration>) -> Result<()> {
        self.outward
            .set_read_timeout(patience)
            .and_then(|()| self.outward.set_write_timeout(Some(PATIENCE)))
            .context("cannot limit the time to wait")
    }

    /// The side that speaks, for another thread than the one that listens.
    pub(super) fn speaker(&self) -> Result<TcpStream> {
        self.outward.try_clone().context("no descriptor left")
    }

    pub(super) fn say<T: Serialize>(&mut self, message: &T) -> Result<()> {
        say(&mut self.outward, message)
    }

    pub(super) fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
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
pub(super) fn say<T: Serialize>(outward: &mut TcpStream, message: &T) -> Result<()> {
    let mut line = serde_json::to_vec(message).context("message has no text form")?;
    line.push(b'\n');
    outward.write_all(&line).context("gone")
}

/// What both sides know.
pub(super) struct Secret([u8; 64]);

/// Shorter secrets can be guessed from a proof that somebody has overheard.
const LEAST_BYTES: usize = 16;

impl Secret {
    /// The secret of a file, without blanks around it.
    pub(super) fn read(path: &std::path::Path) -> Result<Self, String> {
        let text = record::file::read_to_string(path)
            .map_err(|why| format!("cannot read {}: {why}", path.display()))?;
        let text = text.trim();
        if text.len() < LEAST_BYTES {
            let remedy = "make one of 16 or more: head -c 24 /dev/urandom | base64";
            return Err(format!(
                "secret too short: {} characters in {} ({remedy})",
                text.len(),
                path.display()
            ));
        }
        let mut key = [0; 64];
        key[..32].copy_from_slice(&Sha256::digest(text));
        Ok(Self(key))
    }

    /// Proof of the secret (HMAC-SHA-256, RFC 2104) for one conversation, in hexadecimal. Each side has its own
    /// words, so that neither can hand back what it was given.
    pub(super) fn proof(&self, side: Side, nonces: [&str; 2]) -> String {
        let pad = |byte: u8| self.0.map(|each| each ^ byte);
        let inner = Sha256::new()
            .chain_update(pad(0x36))
            .chain_update(side.word())
            .chain_update(nonces[0])
            .chain_update(nonces[1])
            .finalize();
        let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner);
        hex(&outer.finalize())
    }

    /// Whether a proof is right; takes as long for a wrong one.
    pub(super) fn proves(&self, side: Side, nonces: [&str; 2], proof: &str) -> bool {
        let right = self.proof(side, nonces);
        let pairs = right.bytes().zip(proof.bytes());
        let differences = pairs.fold(0, |sum, (one, other)| sum | (one ^ other));
        right.len() == proof.len() && differences == 0
    }
}

/// Who proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Leader,
    Follower,
}

impl Side {
    fn word(self) -> &'static str {
        match self {
            Self::Leader => "bakeoff leader 1 ",
            Self::Follower => "bakeoff follower 1 ",
        }
    }
}

/// A number that is used once, in hexadecimal.
pub(super) fn nonce() -> Result<String> {
    let mut bytes = [0; 16];
    let mut source = std::fs::File::open("/dev/urandom").context("no source of chance")?;
    source
        .read_exact(&mut bytes)
        .context("no source of chance")?;
    Ok(hex(&bytes))
}

/// Refuses another build: the two would not mean the same by the same words.
pub(super) fn check_build(protocol: u32, build: &str) -> Result<()> {
    let own = crate::greeting::build();
    if (protocol, build) == (PROTOCOL, &own) {
        return Ok(());
    }
    bail!("another bakeoff: {build}, protocol {protocol} (put {own} on all hosts)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_side_one_secret_and_one_conversation() {
        let dir = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let path = dir.path().join("secret");
            std::fs::write(&path, text).unwrap();
            Secret::read(&path)
        };
        let secret = read("a secret of sixteen\n").unwrap();
        let nonces = ["one", "two"];
        let proof = secret.proof(Side::Leader, nonces);
        assert!(secret.proves(Side::Leader, nonces, &proof));
        assert!(!secret.proves(Side::Follower, nonces, &proof));
        assert!(!secret.proves(Side::Leader, ["one", "owt"], &proof));
        assert!(!secret.proves(Side::Leader, nonces, &proof[1..]));
        let other = read("a secret of sixteeN").unwrap();
        assert!(!other.proves(Side::Leader, nonces, &proof));
        assert!(
            read("short")
                .err()
                .unwrap()
                .starts_with("secret too short: 5")
        );
    }
}
