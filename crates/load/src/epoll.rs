//! The engine that works on every kernel: edge-triggered epoll.
//!
//! Budget per keep-alive request: one read, one write, a share of one wait. A socket is registered
//! once, for all events. The next request is written right after the response is read. A read that
//! does not fill the buffer has emptied the socket, so a second read is not needed.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, Result};
use record::load::Fault;

use crate::bandwidth::BandwidthLimit;
use crate::clients::{Action, Clients, PeerState};
use crate::clock::now_ns;
use crate::closing::{ClosingConnections, Ending};
use crate::sys::{self, Event, Poller};
use crate::target::Target;
use crate::thread::{Engine, Sockets};
use crate::timer_wheel::TimerWheel;

/// Most events per wait: enough to share its cost, few enough that timers are checked often.
const BATCH: u16 = 256;
/// Most bytes per read; most responses fit.
const BUFFER_BYTES: usize = 128 << 10;

/// One read in this many asks for the receive time stamp.
const STAMP_EVERY: u8 = 64;

/// The sockets of one client thread.
pub(crate) struct Epoll {
    poll: Poller,
    target: Target,
    sockets: Vec<Socket>,
    /// Connections that the server should close, by their event keys.
    closing: ClosingConnections<TcpStream>,
    buffer: Vec<u8>,
    /// Read speed of each slot; empty if speed is not limited.
    limits: Vec<BandwidthLimit>,
    read_timers: TimerWheel,
    /// Reads before the next one that asks for a time stamp; `None` without stamps.
    until_stamp: Option<u8>,
}

/// A slot's connection. `generation` counts the slot's connections, to recognise events of earlier
/// ones.
struct Socket {
    stream: Option<TcpStream>,
    generation: u32,
}

impl Epoll {
    fn handle(&mut self, clients: &mut Clients<'_>, event: Event) {
        let (slot, generation) = (event.key as u32, (event.key >> 32) as u32);
        if self.sockets[slot as usize].generation != generation {
            // A finished connection has only one more event: its end.
            if event.is_readable() {
                drop(self.closing.take(event.key));
            }
            return;
        }
        if clients.is_connecting(slot) {
            return self.handle_connecting(clients, slot, event);
        }
        if event.is_writable() && clients.is_sending(slot) {
            self.perform(clients, slot, Action::Send);
        }
        if event.is_readable() && self.sockets[slot as usize].generation == generation {
            self.handle_readable(clients, slot, event);
        }
    }

    fn handle_connecting(&mut self, clients: &mut Clients<'_>, slot: u32, event: Event) {
        let stream = self.sockets[slot as usize].stream.as_ref();
        let error = match stream.map(TcpStream::take_error) {
            Some(Ok(error)) if event.is_broken() => error,
            Some(Err(error)) => Some(error),
            Some(Ok(_)) | None => None,
        };
        let action = match error {
            Some(error) => clients.failed(slot, sys::connect_fault(&error), now_ns()),
            None if event.is_writable() => clients.connected(slot, now_ns()),
            None => return,
        };
        self.perform(clients, slot, action);
        // A response may have come with the same event.
        if event.is_readable() && !event.is_broken() {
            self.handle_readable(clients, slot, event);
        }
    }

    fn handle_readable(&mut self, clients: &mut Clients<'_>, slot: u32, event: Event) {
        let peer = match event {
            event if event.is_broken() => PeerState::Reset,
            event if event.is_ended() => PeerState::Closed,
            _ => PeerState::Open,
        };
        let Some(limit) = self.limits.get_mut(slot as usize) else {
            return self.read(clients, slot, peer);
        };
        // Events are edge-triggered: keep the state until the bytes before it have been read.
        if peer != PeerState::Open {
            limit.peer = peer;
        }
        if !limit.waits {
            // Within a response the budget keeps running.
            if !clients.is_reading(slot) {
                limit.begin(now_ns());
            }
            limit.waits = true;
            self.read_timers
                .set(slot, limit.next_ns(clients.left(slot)));
        }
    }

    /// Reads the bytes that the speed limit allows by now.
    fn read_limited(&mut self, clients: &mut Clients<'_>, slot: u32) {
        let limit = &mut self.limits[slot as usize];
        let socket = &mut self.sockets[slot as usize];
        let Some(stream) = socket.stream.as_mut() else {
            return;
        };
        let generation = socket.generation;
        let room = limit.arrived(now_ns()).clamp(1, self.buffer.len());
        let (action, emptied) = match stream.read(&mut self.buffer[..room]) {
            Ok(length) => {
                limit.take(length);
                let peer = match length {
                    0 => PeerState::Closed,
                    _ if length < room => limit.peer,
                    _ => PeerState::Open,
                };
                let bytes = &self.buffer[..length];
                let (ok, now_ns) = (clients.counters.ok(), now_ns());
                let scheduled_ns = clients.scheduled_ns(slot);
                let action = clients.received(slot, bytes, peer, now_ns);
                let was_last_of_success = ok < clients.counters.ok();
                if was_last_of_success {
                    let share_ppm = limit.share_ppm(scheduled_ns, now_ns);
                    let error_ppm = limit.error_ppm(now_ns);
                    clients.counters.record_speed(error_ppm, share_ppm);
                }
                (action, length < room)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => (Action::Wait, true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (Action::Wait, false),
            Err(_) => (clients.failed(slot, Fault::Reset, now_ns()), true),
        };
        self.perform(clients, slot, action);
        if self.sockets[slot as usize].generation != generation {
            return;
        }
        // After the last byte of a response only the end of the connection may follow.
        let limit = &mut self.limits[slot as usize];
        limit.waits = !emptied && (clients.is_reading(slot) || limit.peer != PeerState::Open);
        if limit.waits {
            self.read_timers
                .set(slot, limit.next_ns(clients.left(slot)));
        }
    }

    /// Reads until the socket is empty, closed or replaced.
    fn read(&mut self, clients: &mut Clients<'_>, slot: u32, peer: PeerState) {
        let generation = self.sockets[slot as usize].generation;
        loop {
            let socket = &mut self.sockets[slot as usize];
            let Some(stream) = socket
                .stream
                .as_mut()
                .filter(|_| socket.generation == generation)
            else {
                return;
            };
            let read = match &mut self.until_stamp {
                Some(0) => sys::read_stamped(stream, &mut self.buffer),
                Some(_) | None => stream.read(&mut self.buffer).map(|length| (length, None)),
            };
            if let Some(left) = &mut self.until_stamp {
                *left = left.checked_sub(1).unwrap_or(STAMP_EVERY - 1);
            }
            let (action, more) = match read {
                Ok((length, waited_ns)) => {
                    let emptied = length < self.buffer.len();
                    if let Some(waited_ns) = waited_ns {
                        clients.counters.record_client_delay(now_ns(), waited_ns);
                    }
                    let peer = match length {
                        0 => PeerState::Closed,
                        _ if emptied => peer,
                        _ => PeerState::Open,
                    };
                    let bytes = &self.buffer[..length];
                    (clients.received(slot, bytes, peer, now_ns()), !emptied)
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => (clients.failed(slot, Fault::Reset, now_ns()), false),
            };
            self.perform(clients, slot, action);
            if !more {
                return;
            }
        }
    }

    /// Takes a slot's connection, with its event key.
    fn take_stream(&mut self, slot: u32) -> Option<(u64, TcpStream)> {
        let socket = &mut self.sockets[slot as usize];
        let key = key(slot, socket.generation);
        socket.generation = socket.generation.wrapping_add(1);
        if !self.limits.is_empty() {
            self.read_timers.clear(slot);
        }
        let stream = socket.stream.take()?;
        Some((key, stream))
    }

    /// Ends finished connections that the server has left open.
    fn end_left_open(&mut self, clients: &mut Clients<'_>) {
        if self.closing.is_empty() {
            return;
        }
        let now_ns = now_ns();
        while let Some((stream, ending)) = self.closing.expire(now_ns) {
            match ending {
                Ending::Close => drop(stream),
                Ending::Reset => sys::reset(stream),
            }
            clients.counters.left_open(now_ns);
        }
    }
}

impl Sockets for Epoll {
    const NAME: &'static str = "epoll";

    fn new(target: Target, slots: usize) -> Result<Self> {
        let sockets = (0..slots).map(|_| Socket {
            stream: None,
            generation: 0,
        });
        let speeds = (0..slots as u32).filter_map(|slot| target.bits_per_s(slot));
        Ok(Self {
            poll: Poller::new(BATCH).context("cannot make an epoll instance")?,
            until_stamp: target.stamps.then_some(0),
            sockets: sockets.collect(),
            closing: ClosingConnections::new(),
            buffer: vec![0; BUFFER_BYTES],
            limits: speeds.map(BandwidthLimit::new).collect(),
            target,
            read_timers: TimerWheel::new(slots, now_ns()),
        })
    }
}

impl Engine for Epoll {
    fn open(&mut self, slot: u32) -> io::Result<()> {
        let server = self.target.server(slot);
        let source = self.target.source(slot);
        let stream = match sys::socket(server, source) {
            // Perhaps out of descriptors: free those of finished connections.
            Err(_) if !self.closing.is_empty() => {
                while let Some(stream) = self.closing.take_oldest() {
                    sys::reset(stream);
                }
                sys::socket(server, source)?
            }
            result => result?,
        };
        if let Some(limit) = self.limits.get_mut(slot as usize) {
            limit.open();
            sys::set_window(&stream, limit.window_bytes())?;
        }
        if self.until_stamp.is_some() && sys::enable_stamps(&stream).is_err() {
            self.until_stamp = None;
        }
        sys::connect(&stream, server)?;
        let socket = &mut self.sockets[slot as usize];
        socket.generation = socket.generation.wrapping_add(1);
        self.poll.add(&stream, key(slot, socket.generation))?;
        socket.stream = Some(stream);
        Ok(())
    }

    fn send(&mut self, clients: &mut Clients<'_>, slot: u32) -> Option<Action> {
        let mut stream = self.sockets[slot as usize].stream.as_ref()?;
        match stream.write(clients.output(slot)) {
            Ok(length) => Some(clients.wrote(slot, length)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Some(Action::Send),
            Err(_) => Some(clients.failed(slot, Fault::WriteFailed, now_ns())),
        }
    }

    fn close(&mut self, slot: u32) {
        drop(self.take_stream(slot));
    }

    fn put_aside(&mut self, clients: &mut Clients<'_>, slot: u32, now_ns: u64) {
        if let Some((key, stream)) = self.take_stream(slot) {
            self.end_left_open(clients);
            self.closing.add(key, stream, now_ns);
        }
    }

    fn wait(&mut self, clients: &mut Clients<'_>, patience: Duration) -> Result<()> {
        let timer_ns = self.read_timers.next_ns().saturating_sub(now_ns());
        let patience = patience.min(Duration::from_nanos(timer_ns));
        let count = self
            .poll
            .wait(patience)
            .context("cannot wait for sockets")?;
        clients.counters.wake(now_ns());
        for index in 0..count {
            let event = self.poll.event(index);
            self.handle(clients, event);
        }
        while let Some(slot) = self.read_timers.expire(now_ns()) {
            self.read_limited(clients, slot);
        }
        self.end_left_open(clients);
        Ok(())
    }
}

/// Event key of a slot's connection.
fn key(slot: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(slot)
}
