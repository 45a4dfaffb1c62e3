//! Connected peers that have not yet proved that they know the secret.
//!
//! Anyone on the network can connect, so the number of waiting peers is limited, reads never block, and each peer has one deadline for
//! its whole line. If too many wait, the address with the most connections loses its oldest one, so a host with many connections
//! displaces only its own.

use std::io::{ErrorKind, Read};
use std::net::SocketAddr;
use std::time::Duration;

/// Most peers that wait at the same time.
pub const MOST_PEERS: usize = 32;

/// Time that a peer has for its line, from its connection on.
pub const LIMIT: Duration = Duration::from_secs(10);

/// The waiting peers; `S` is a non-blocking stream.
#[derive(Debug)]
pub struct Lobby<S> {
    peers: Vec<Peer<S>>,
    /// Longest line, in bytes, including its end.
    most_bytes: usize,
}

/// A peer that waits, or has sent its line.
#[derive(Debug)]
pub struct Peer<S> {
    /// Its connection.
    pub stream: S,
    /// Its address.
    pub from: SocketAddr,
    /// The nonce of its greeting.
    pub nonce: String,
    /// What it has sent, without the line's end.
    pub line: Vec<u8>,
    deadline: Duration,
}

/// Result for a peer.
#[derive(Debug)]
pub enum Heard<S> {
    /// It has sent its line and nothing more; more is not allowed before the answer.
    Line(Peer<S>),
    /// It is dropped, for this reason.
    LetGo(Peer<S>, &'static str),
}

impl<S: Read> Lobby<S> {
    /// An empty lobby. Longer lines than `most_bytes` are not read.
    pub fn new(most_bytes: usize) -> Self {
        Self {
            peers: Vec::new(),
            most_bytes,
        }
    }

    /// Adds a peer that was greeted with `nonce`. Returns a peer that is dropped for it, if any.
    pub fn enter(
        &mut self,
        stream: S,
        from: SocketAddr,
        nonce: String,
        now: Duration,
    ) -> Option<Heard<S>> {
        let dropped = (self.peers.len() == MOST_PEERS).then(|| {
            let most = self.peers.iter().map(|peer| self.count(peer.from)).max();
            let mut peers = self.peers.iter();
            let oldest = peers.position(|peer| Some(self.count(peer.from)) == most);
            let oldest = self.peers.remove(oldest.expect("one has the most"));
            Heard::LetGo(oldest, "too many wait")
        });
        self.peers.push(Peer {
            stream,
            from,
            nonce,
            line: Vec::new(),
            deadline: now + LIMIT,
        });
        dropped
    }

    /// Reads available data, and returns the peers that have sent their line or are dropped.
    pub fn look(&mut self, now: Duration) -> Vec<Heard<S>> {
        let (mut waiting, mut results) = (Vec::new(), Vec::new());
        for mut peer in self.peers.drain(..) {
            match peer.read(self.most_bytes) {
                Ok(true) => results.push(Heard::Line(peer)),
                Ok(false) if now < peer.deadline => waiting.push(peer),
                Ok(false) => results.push(Heard::LetGo(peer, "no proof in time")),
                Err(why) => results.push(Heard::LetGo(peer, why)),
            }
        }
        self.peers = waiting;
        results
    }

    fn count(&self, from: SocketAddr) -> usize {
        let same = |peer: &&Peer<S>| peer.from.ip() == from.ip();
        self.peers.iter().filter(same).count()
    }
}

impl<S: Read> Peer<S> {
    /// Reads available data; returns whether the line is complete.
    fn read(&mut self, most_bytes: usize) -> Result<bool, &'static str> {
        let mut buffer = [0; 512];
        while self.line.len() <= most_bytes {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err("gone"),
                Ok(length) => self.line.extend_from_slice(&buffer[..length]),
                Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err("gone"),
            }
            if let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
                if end + 1 < self.line.len() {
                    return Err("it says more than its proof");
                }
                self.line.pop();
                return Ok(true);
            }
        }
        Err("line too long")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io;

    use super::*;

    /// The data to read at each look; an empty entry means none.
    struct Scripted(VecDeque<&'static [u8]>);

    impl Read for Scripted {
        fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
            match self.0.pop_front() {
                None | Some(b"") => Err(ErrorKind::WouldBlock.into()),
                Some(b"end") => Ok(0),
                Some(bytes) => {
                    piece[..bytes.len()].copy_from_slice(bytes);
                    Ok(bytes.len())
                }
            }
        }
    }

    fn at(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 40_000))
    }

    fn described(heard: &[Heard<Scripted>]) -> Vec<String> {
        let lines = heard.iter().map(|heard| match heard {
            Heard::Line(peer) => format!(
                "{}: {}",
                peer.from.ip(),
                String::from_utf8_lossy(&peer.line)
            ),
            Heard::LetGo(peer, why) => format!("{}: let go: {why}", peer.from.ip()),
        });
        lines.collect()
    }

    fn enter(
        lobby: &mut Lobby<Scripted>,
        from: SocketAddr,
        script: &[&'static [u8]],
        now_s: u64,
    ) -> Vec<String> {
        let stream = Scripted(script.iter().copied().collect());
        let now = Duration::from_secs(now_s);
        let heard = lobby.enter(stream, from, String::new(), now);
        described(&heard.into_iter().collect::<Vec<_>>())
    }

    fn look(lobby: &mut Lobby<Scripted>, now_s: u64) -> Vec<String> {
        described(&lobby.look(Duration::from_secs(now_s)))
    }

    #[test]
    fn a_silent_or_slow_peer_delays_no_other_and_has_one_deadline() {
        let mut lobby = Lobby::new(64);
        enter(&mut lobby, at(1), &[], 0);
        // Sends a byte at each look, always within the limit of a single one.
        enter(
            &mut lobby,
            at(2),
            &[b"p", b"", b"r", b"", b"o", b"", b"o", b"", b"f", b""],
            0,
        );
        enter(&mut lobby, at(3), &[b"pro", b"", b"of\n"], 1);
        assert_eq!(look(&mut lobby, 4), [""; 0]);
        assert_eq!(look(&mut lobby, 8), ["10.0.0.3: proof"]);
        let late = [
            "10.0.0.1: let go: no proof in time",
            "10.0.0.2: let go: no proof in time",
        ];
        assert_eq!(look(&mut lobby, 12), late);
        assert_eq!(look(&mut lobby, 13), [""; 0]);
    }

    #[test]
    fn a_peer_that_sends_too_much_is_dropped() {
        let mut lobby = Lobby::new(8);
        enter(&mut lobby, at(1), &[b"a line without an end"], 0);
        enter(&mut lobby, at(2), &[b"proof\nmore"], 0);
        enter(&mut lobby, at(3), &[b"end"], 0);
        let dropped = [
            "10.0.0.1: let go: line too long",
            "10.0.0.2: let go: it says more than its proof",
            "10.0.0.3: let go: gone",
        ];
        assert_eq!(look(&mut lobby, 1), dropped);
    }

    #[test]
    fn a_flood_from_one_address_displaces_only_its_own() {
        let mut lobby = Lobby::new(64);
        enter(&mut lobby, at(9), &[b"", b"proof\n"], 0);
        let mut displaced = Vec::new();
        for _ in 0..3 * MOST_PEERS {
            displaced.extend(enter(&mut lobby, at(1), &[], 1));
        }
        assert_eq!(displaced.len(), 2 * MOST_PEERS + 1);
        assert!(
            displaced
                .iter()
                .all(|line| line == "10.0.0.1: let go: too many wait")
        );
        assert_eq!(look(&mut lobby, 2), [""; 0]);
        assert_eq!(look(&mut lobby, 3), ["10.0.0.9: proof"]);
    }
}
