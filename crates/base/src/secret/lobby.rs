//! Peers that have connected and have not proved yet that they know the secret.
//!
//! Anybody on the network can connect. So many wait at a time, none of them is waited for, and each has one deadline for all that it has
//! to say, however it spreads its bytes. Where too many wait, the address that has most of them loses the one that came first: a host with
//! many connections displaces its own.

use std::io::{ErrorKind, Read};
use std::net::SocketAddr;
use std::time::Duration;

/// Most peers that wait at a time.
pub const MOST_PEERS: usize = 32;

/// A peer has so long for its line, from its connection on.
pub const LIMIT: Duration = Duration::from_secs(10);

/// Those who wait; `S` is a stream that never blocks.
#[derive(Debug)]
pub struct Lobby<S> {
    peers: Vec<Peer<S>>,
    /// Longest line, in bytes, its end included.
    most_bytes: usize,
}

/// A peer that waits, or has said its line.
#[derive(Debug)]
pub struct Peer<S> {
    /// Its connection.
    pub stream: S,
    /// Where it is.
    pub from: SocketAddr,
    /// The number that it was greeted with.
    pub nonce: String,
    /// What it has said, without the line's end.
    pub line: Vec<u8>,
    until: Duration,
}

/// What came of a peer.
#[derive(Debug)]
pub enum Heard<S> {
    /// It has said its line, and no byte more: nobody may before it was answered.
    Line(Peer<S>),
    /// It is let go, and why.
    LetGo(Peer<S>, &'static str),
}

impl<S: Read> Lobby<S> {
    /// Nobody waits. Longer lines than `most_bytes` are not read.
    pub fn new(most_bytes: usize) -> Self {
        Self {
            peers: Vec::new(),
            most_bytes,
        }
    }

    /// Has a peer wait that was greeted with `nonce`. Returns the one that is let go for it.
    pub fn enter(
        &mut self,
        stream: S,
        from: SocketAddr,
        nonce: String,
        now: Duration,
    ) -> Option<Heard<S>> {
        let let_go = (self.peers.len() == MOST_PEERS).then(|| {
            let most = self.peers.iter().map(|peer| self.count(peer.from)).max();
            let mut peers = self.peers.iter();
            let first = peers.position(|peer| Some(self.count(peer.from)) == most);
            let first = self.peers.remove(first.expect("one has the most"));
            Heard::LetGo(first, "too many wait")
        });
        self.peers.push(Peer {
            stream,
            from,
            nonce,
            line: Vec::new(),
            until: now + LIMIT,
        });
        let_go
    }

    /// Reads what has come, and returns whoever has said its line or is let go.
    pub fn look(&mut self, now: Duration) -> Vec<Heard<S>> {
        let (mut waiting, mut heard) = (Vec::new(), Vec::new());
        for mut peer in self.peers.drain(..) {
            match peer.read(self.most_bytes) {
                Ok(true) => heard.push(Heard::Line(peer)),
                Ok(false) if now < peer.until => waiting.push(peer),
                Ok(false) => heard.push(Heard::LetGo(peer, "no proof in time")),
                Err(why) => heard.push(Heard::LetGo(peer, why)),
            }
        }
        self.peers = waiting;
        heard
    }

    fn count(&self, from: SocketAddr) -> usize {
        let same = |peer: &&Peer<S>| peer.from.ip() == from.ip();
        self.peers.iter().filter(same).count()
    }
}

impl<S: Read> Peer<S> {
    /// Takes what has come; whether the line is whole.
    fn read(&mut self, most_bytes: usize) -> Result<bool, &'static str> {
        let mut piece = [0; 512];
        while self.line.len() <= most_bytes {
            match self.stream.read(&mut piece) {
                Ok(0) => return Err("gone"),
                Ok(length) => self.line.extend_from_slice(&piece[..length]),
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

    /// What is there to read at each look; nothing means that it is silent.
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

    fn told(heard: &[Heard<Scripted>]) -> Vec<String> {
        let told = heard.iter().map(|heard| match heard {
            Heard::Line(peer) => format!(
                "{}: {}",
                peer.from.ip(),
                String::from_utf8_lossy(&peer.line)
            ),
            Heard::LetGo(peer, why) => format!("{}: let go: {why}", peer.from.ip()),
        });
        told.collect()
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
        told(&heard.into_iter().collect::<Vec<_>>())
    }

    fn look(lobby: &mut Lobby<Scripted>, now_s: u64) -> Vec<String> {
        told(&lobby.look(Duration::from_secs(now_s)))
    }

    #[test]
    fn who_is_silent_or_slow_holds_nobody_and_has_one_deadline() {
        let mut lobby = Lobby::new(64);
        enter(&mut lobby, at(1), &[], 0);
        // A byte at each look, each of them in time by itself.
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
    fn who_says_too_much_is_let_go() {
        let mut lobby = Lobby::new(8);
        enter(&mut lobby, at(1), &[b"a line without an end"], 0);
        enter(&mut lobby, at(2), &[b"proof\nmore"], 0);
        enter(&mut lobby, at(3), &[b"end"], 0);
        let told = [
            "10.0.0.1: let go: line too long",
            "10.0.0.2: let go: it says more than its proof",
            "10.0.0.3: let go: gone",
        ];
        assert_eq!(look(&mut lobby, 1), told);
    }

    #[test]
    fn a_flood_of_one_address_displaces_its_own() {
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
                .all(|one| one == "10.0.0.1: let go: too many wait")
        );
        assert_eq!(look(&mut lobby, 2), [""; 0]);
        assert_eq!(look(&mut lobby, 3), ["10.0.0.9: proof"]);
    }
}
