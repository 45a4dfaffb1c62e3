//! The engine that every kernel has: edge-triggered epoll.
//!
//! Budget per keep-alive request: one read, one write, a share of one wait. A socket is added once,
//! with all that may ever happen to it. The next request is written right after the response is
//! read. A read that leaves room in the buffer has emptied the socket, so no second read asks for
//! more.

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

/// Most events taken at once: enough to share the wait, few enough that timers are looked at often.
const BATCH: u16 = 256;
/// One read takes at most this much; most responses fit.
const BUFFER_BYTES: usize = 128 << 10;

/// One read in so many asks when its bytes came.
const STAMP_EVERY: u8 = 64;

/// The sockets of one client thread.
pub(crate) struct Epoll {
    poll: Poller,
    target: Target,
    sockets: Vec<Socket>,
    /// Connections that are the server's to close, by the keys of their events.
    closing: ClosingConnections<TcpStream>,
    buffer: Vec<u8>,
    /// How fast each slot may read; empty when all clients read as fast as they can.
    limits: Vec<BandwidthLimit>,
    read_timers: TimerWheel,
    /// Reads until the next one that asks for its stamp; none where the kernel gives no stamps.
    until_stamp: Option<u8>,
}

/// A slot's connection. `generation` counts its connections, so that an event of an earlier one is
/// not mistaken for its own.
struct Socket {
    stream: Option<TcpStream>,
    generation: u32,
}

impl Epoll {
    fn handle(&mut self, clients: &mut Clients<'_>, event: Event) {
        let (slot, generation) = (event.key as u32, (event.key >> 32) as u32);
        if self.sockets[slot as usize].generation != generation {
            // Nothing but its end is to be heard of a connection that is done.
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
        // A response may have come with the news that the connection is open.
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
        // An event is told once: what it says must be kept until the bytes before it have been
        // read.
        if peer != PeerState::Open {
            limit.peer = peer;
        }
        if !limit.waits {
            // Amid a response the slow link was open all the time: what it could have brought it
            // may bring now.
            if !clients.is_reading(slot) {
                limit.begin(now_ns());
            }
            limit.waits = true;
            self.read_timers
                .set(slot, limit.next_ns(clients.left(slot)));
        }
    }

    /// Reads what a slow link has brought by now.
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
                // These were the last bytes of a successful response.
                if ok < clients.counters.ok() {
                    let share_ppm = limit.share_ppm(scheduled_ns, now_ns);
                    clients
                        .counters
                        .record_speed(limit.error_ppm(now_ns), share_ppm);
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
        // After the last byte of a response nothing is there but, perhaps, the end of the
        // connection.
        let limit = &mut self.limits[slot as usize];
        limit.waits = !emptied && (clients.is_reading(slot) || limit.peer != PeerState::Open);
        if limit.waits {
            self.read_timers
                .set(slot, limit.next_ns(clients.left(slot)));
        }
    }

    /// Reads until the socket is empty, closed or another one.
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

    fn open(&mut self, slot: u32) -> io::Result<()> {
        let server = self.target.server(slot);
        let source = self.target.source(slot);
        let stream = match sys::socket(server, source) {
            // Connections that are done need no descriptors as much as new ones.
            Err(_) if !self.closing.is_empty() => {
                while let Some(stream) = self.closing.take_oldest() {
                    sys::reset(stream);
                }
                sys::socket(server, source)?
            }
            made => made?,
        };
        if let Some(limit) = self.limits.get_mut(slot as usize) {
            limit.open();
            sys::set_window(&stream, limit.window_bytes())?;
        }
        if self.until_stamp.is_some() && sys::stamp(&stream).is_err() {
            self.until_stamp = None;
        }
        sys::connect(&stream, server)?;
        let socket = &mut self.sockets[slot as usize];
        socket.generation = socket.generation.wrapping_add(1);
        self.poll.add(&stream, key(slot, socket.generation))?;
        socket.stream = Some(stream);
        Ok(())
    }

    /// Forgets a slot's connection; with it, what events of it are known by.
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

    /// Closes connections that servers have left open.
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

    /// Writes a slot's output; the next action, or `None` when the socket takes no more for now.
    fn write(&mut self, clients: &mut Clients<'_>, slot: u32) -> Option<Action> {
        let mut stream = self.sockets[slot as usize].stream.as_ref()?;
        match stream.write(clients.output(slot)) {
            Ok(length) => Some(clients.wrote(slot, length)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Some(Action::Send),
            Err(_) => Some(clients.failed(slot, Fault::WriteFailed, now_ns())),
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
    fn perform(&mut self, clients: &mut Clients<'_>, slot: u32, mut action: Action) {
        loop {
            action = match action {
                Action::Wait => return,
                Action::Open => match self.open(slot) {
                    Ok(()) => return,
                    Err(error) => clients.failed(slot, sys::connect_fault(&error), now_ns()),
                },
                Action::Send => match self.write(clients, slot) {
                    Some(action) => action,
                    None => return,
                },
                Action::Close => {
                    drop(self.take_stream(slot));
                    clients.closed(slot, now_ns())
                }
                Action::PutAside => {
                    let now_ns = now_ns();
                    if let Some((key, stream)) = self.take_stream(slot) {
                        self.end_left_open(clients);
                        self.closing.add(key, stream, now_ns);
                    }
                    clients.closed(slot, now_ns)
                }
            };
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

/// What events of a slot's connection are known by.
fn key(slot: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(slot)
}
