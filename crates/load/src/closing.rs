//! Connections whose last response is complete and that the server has yet to close.
//!
//! The side that closes first keeps the port for a minute (`TIME_WAIT`). As with browsers that
//! should be the server, but clients do not wait for it: they put the connection aside here. If the
//! server leaves it open, the client closes it. If there are many, the client resets them, which
//! keeps no port.

use std::collections::VecDeque;

/// How long the server may take to close a finished connection.
const PATIENCE_NS: u64 = 100_000_000;

/// Most connections of one thread that wait for the server to close them.
pub(crate) const MAX_CLOSING: usize = 64;

/// Connections of one thread that are closed normally per minute; twice as many in the first
/// minute. A system has 28,232 ports for each server address, enough for seven threads.
const PORTS: u64 = 2000;
const MINUTE_NS: u64 = 60_000_000_000;

/// How the client ends a connection that the server leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Close normally. Keeps the port for a minute.
    Close,
    /// Reset, to save ports. The server sees an error.
    Reset,
}

/// Finished connections, the oldest in front.
pub(crate) struct ClosingConnections<T> {
    all: VecDeque<Closing<T>>,
    /// When all ports kept by closed connections are free again, if they are freed at an even rate.
    ports_free_ns: u64,
}

struct Closing<T> {
    key: u64,
    until_ns: u64,
    connection: T,
}

impl<T> ClosingConnections<T> {
    pub(crate) fn new() -> Self {
        Self {
            all: VecDeque::with_capacity(MAX_CLOSING),
            ports_free_ns: 0,
        }
    }

    /// Puts a connection aside.
    pub(crate) fn add(&mut self, key: u64, connection: T, now_ns: u64) {
        self.all.push_back(Closing {
            key,
            until_ns: now_ns + PATIENCE_NS,
            connection,
        });
    }

    /// Takes a connection whose time is up or for which there is no room, and how to end it.
    pub(crate) fn expire(&mut self, now_ns: u64) -> Option<(T, Ending)> {
        let oldest = self.all.front()?;
        if now_ns < oldest.until_ns && self.all.len() < MAX_CLOSING {
            return None;
        }
        let connection = self.take_oldest()?;
        Some((connection, self.ending(now_ns)))
    }

    fn ending(&mut self, now_ns: u64) -> Ending {
        let free_ns = self.ports_free_ns.max(now_ns) + MINUTE_NS / PORTS;
        if now_ns + MINUTE_NS < free_ns {
            return Ending::Reset;
        }
        self.ports_free_ns = free_ns;
        Ending::Close
    }

    /// Takes the connection that was put aside first.
    pub(crate) fn take_oldest(&mut self) -> Option<T> {
        self.all.pop_front().map(|closing| closing.connection)
    }

    /// Takes the connection with this key, which the server has closed.
    pub(crate) fn take(&mut self, key: u64) -> Option<T> {
        let place = self.all.iter().position(|closing| closing.key == key)?;
        self.all.remove(place).map(|closing| closing.connection)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_waits_for_its_server_for_a_limited_time() {
        let mut closing = ClosingConnections::new();
        closing.add(1, 'a', 0);
        closing.add(2, 'b', 5);
        closing.add(3, 'c', 9);
        assert_eq!(closing.take(2), Some('b'));
        assert_eq!(closing.take(2), None);
        assert_eq!(closing.expire(PATIENCE_NS - 1), None);
        assert_eq!(closing.expire(PATIENCE_NS), Some(('a', Ending::Close)));
        assert_eq!(closing.expire(PATIENCE_NS), None);
        assert_eq!(closing.expire(PATIENCE_NS + 9), Some(('c', Ending::Close)));
        assert!(closing.is_empty());
    }

    #[test]
    fn the_oldest_connection_ends_when_there_is_no_room() {
        let mut closing = ClosingConnections::new();
        for key in 0..MAX_CLOSING as u64 {
            assert_eq!(closing.expire(0), None);
            closing.add(key, key, 0);
        }
        assert_eq!(closing.expire(0), Some((0, Ending::Close)));
        assert_eq!(closing.expire(0), None);
    }

    #[test]
    fn connections_left_open_take_a_limited_share_of_the_ports() {
        let mut closing = ClosingConnections::new();
        let mut count = |from_s: u64, to_s: u64| {
            // A thousand a second.
            let mut closed = 0;
            for number in from_s * 1000..to_s * 1000 {
                let now_ns = number * 1_000_000;
                closing.add(number, (), now_ns);
                let ((), ending) = closing.expire(now_ns + PATIENCE_NS).unwrap();
                closed += u64::from(ending == Ending::Close);
            }
            closed
        };
        let first_minute = count(0, 60);
        assert!((2000..=4001).contains(&first_minute), "{first_minute}");
        for minute in 1..5 {
            let later = count(minute * 60, (minute + 1) * 60);
            assert!(later.abs_diff(PORTS) < 10, "{later}");
        }
    }
}
