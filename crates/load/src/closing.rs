//! Connections that are done: the response is whole, the client has gone on, and the server has yet
//! to close.
//!
//! The side that closes first keeps the port for a minute (`TIME_WAIT`), so the server should be it,
//! as it is with browsers. But no client waits for it: a connection that is done is put aside here.
//! One that the server leaves open the client closes, and where these are many it resets them, which
//! keeps no port.

use std::collections::VecDeque;

/// How long a server may take to close a connection that is done.
const PATIENCE_NS: u64 = 100_000_000;

/// Most connections of one thread that wait for their servers to close them.
pub(crate) const MOST: usize = 64;

/// So many connections of one thread are closed in order in a minute, and twice as many in the first
/// one. A system has 28,232 ports for each address of a server: enough for seven threads.
const PORTS: u64 = 2000;
const MINUTE_NS: u64 = 60_000_000_000;

/// How the client ends a connection that the server leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// In order. It keeps the port for a minute.
    Close,
    /// At once, for want of ports. The server sees an error.
    Reset,
}

/// Connections that are done, the oldest in front.
pub(crate) struct ClosingConnections<T> {
    all: VecDeque<Closing<T>>,
    /// When all ports are free again that connections closed in order have kept, if they are given
    /// back one after the other.
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
            all: VecDeque::with_capacity(MOST),
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

    /// A connection that the server has had long enough to close, or for which there is no room, and
    /// how it is to end.
    pub(crate) fn expire(&mut self, now_ns: u64) -> Option<(T, Ending)> {
        let oldest = self.all.front()?;
        if now_ns < oldest.until_ns && self.all.len() < MOST {
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

    /// The connection that was put aside first.
    pub(crate) fn take_oldest(&mut self) -> Option<T> {
        self.all.pop_front().map(|closing| closing.connection)
    }

    /// The connection of this key, which the server has closed.
    pub(crate) fn take(&mut self, key: u64) -> Option<T> {
        let place = self.all.iter().position(|closing| closing.key == key)?;
        self.all.remove(place).map(|closing| closing.connection)
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_waits_for_its_server_and_not_for_ever() {
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
    fn the_oldest_goes_where_there_is_no_room() {
        let mut closing = ClosingConnections::new();
        for key in 0..MOST as u64 {
            assert_eq!(closing.expire(0), None);
            closing.add(key, key, 0);
        }
        assert_eq!(closing.expire(0), Some((0, Ending::Close)));
        assert_eq!(closing.expire(0), None);
    }

    #[test]
    fn connections_that_are_left_open_take_no_more_than_a_share_of_the_ports() {
        let mut closing = ClosingConnections::new();
        let mut count = |from_s: u64, to_s: u64| {
            // A thousand a second.
            let mut in_order = 0;
            for number in from_s * 1000..to_s * 1000 {
                let now_ns = number * 1_000_000;
                closing.add(number, (), now_ns);
                let ((), ending) = closing.expire(now_ns + PATIENCE_NS).unwrap();
                in_order += u64::from(ending == Ending::Close);
            }
            in_order
        };
        let first_minute = count(0, 60);
        assert!((2000..=4001).contains(&first_minute), "{first_minute}");
        for minute in 1..5 {
            let later = count(minute * 60, (minute + 1) * 60);
            assert!(later.abs_diff(PORTS) < 10, "{later}");
        }
    }
}
