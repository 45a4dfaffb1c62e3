//! The engine that every kernel has: edge-triggered epoll.
//!
//! Budget per keep-alive request: one read, one write, a share of one wait. A socket is added once, with all
//! that may ever happen to it. The next request is written right after the answer is read. A read that
//! leaves room in the buffer has emptied the socket, so no second read asks for more.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, Result};
use record::load::Fault;

use crate::clients::{Clients, Step, Tail};
use crate::clock::now_ns;
use crate::line::Line;
use crate::sys::{self, Event, Poll};
use crate::target::Target;
use crate::thread::{Engine, Sockets};
use crate::wheel::Wheel;

/// Most events taken at once: enough to share the wait, few enough that timers are looked at often.
const BATCH: u16 = 256;
/// One read takes at most this much; most answers fit.
const BUFFER_BYTES: usize = 128 << 10;

/// One read in so many asks when its bytes came.
const STAMPED: u8 = 64;

/// The sockets of one client thread.
pub(crate) struct Epoll {
    poll: Poll,
    target: Target,
    sockets: Vec<Socket>,
    buffer: Vec<u8>,
    /// Slow lines, one per slot; none when all clients read as fast as they can.
    lines: Vec<Line>,
    line_timers: Wheel,
    /// Reads until the next one that asks for its stamp; none where the kernel gives no stamps.
    until_stamp: Option<u8>,
}

/// A slot's connection. `life` counts its connections, so that news of an earlier one is not mistaken for its own.
struct Socket {
    stream: Option<TcpStream>,
    life: u32,
}

impl Epoll {
    fn happened(&mut self, clients: &mut Clients<'_>, event: Event) {
        let (slot, life) = (event.key as u32, (event.key >> 32) as u32);
        if self.sockets[slot as usize].life != life {
            return;
        }
        if clients.is_connecting(slot) {
            return self.connecting(clients, slot, event);
        }
        if event.is_writable() && clients.is_sending(slot) {
            self.perform(clients, slot, Step::Send);
        }
        if event.is_readable() && self.sockets[slot as usize].life == life {
            self.readable(clients, slot, event);
        }
    }

    fn connecting(&mut self, clients: &mut Clients<'_>, slot: u32, event: Event) {
        let stream = self.sockets[slot as usize].stream.as_ref();
        let error = match stream.map(TcpStream::take_error) {
            Some(Ok(error)) if event.is_broken() => error,
            Some(Err(error)) => Some(error),
            Some(Ok(_)) | None => None,
        };
        let step = match error {
            Some(error) => clients.failed(slot, sys::connect_fault(&error), now_ns()),
            None if event.is_writable() => clients.connected(slot, now_ns()),
            None => return,
        };
        self.perform(clients, slot, step);
        // An answer may have come with the news that the connection is open.
        if event.is_readable() && !event.is_broken() {
            self.readable(clients, slot, event);
        }
    }

    fn readable(&mut self, clients: &mut Clients<'_>, slot: u32, event: Event) {
        let tail = match event {
            event if event.is_broken() => Tail::Reset,
            event if event.is_ended() => Tail::Closed,
            _ => Tail::Open,
        };
        let Some(line) = self.lines.get_mut(slot as usize) else {
            return self.read(clients, slot, tail);
        };
        // An event is told once: what it says must be kept until the bytes before it have been read.
        if tail != Tail::Open {
            line.tail = tail;
        }
        if !line.waits {
            // Amid an answer the line was open all the time: what it could have brought it may bring now.
            if !clients.is_reading(slot) {
                line.begin(now_ns());
            }
            line.waits = true;
            self.line_timers.set(slot, line.next_ns(clients.left(slot)));
        }
    }

    /// Reads what a slow line has brought by now.
    fn read_slowly(&mut self, clients: &mut Clients<'_>, slot: u32) {
        let (line, socket) = (
            &mut self.lines[slot as usize],
            &mut self.sockets[slot as usize],
        );
        let Some(stream) = socket.stream.as_mut() else {
            return;
        };
        let reading = socket.life;
        let room = line.through(now_ns()).clamp(1, self.buffer.len());
        let (step, emptied) = match stream.read(&mut self.buffer[..room]) {
            Ok(length) => {
                line.take(length);
                let tail = match length {
                    0 => Tail::Closed,
                    _ if length < room => line.tail,
                    _ => Tail::Open,
                };
                let bytes = &self.buffer[..length];
                let (ok, now_ns) = (clients.tally.ok(), now_ns());
                let step = clients.received(slot, bytes, tail, now_ns);
                // These were the last bytes of a right answer.
                if ok < clients.tally.ok() {
                    clients.tally.paced(line.error_ppm(now_ns));
                }
                (step, length < room)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => (Step::Wait, true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (Step::Wait, false),
            Err(_) => (clients.failed(slot, Fault::Reset, now_ns()), true),
        };
        self.perform(clients, slot, step);
        if self.sockets[slot as usize].life != reading {
            return;
        }
        // After the last byte of an answer nothing is there but, perhaps, the end of the connection.
        let line = &mut self.lines[slot as usize];
        line.waits = !emptied && (clients.is_reading(slot) || line.tail != Tail::Open);
        if line.waits {
            self.line_timers.set(slot, line.next_ns(clients.left(slot)));
        }
    }

    /// Reads until the socket is empty, closed or another one.
    fn read(&mut self, clients: &mut Clients<'_>, slot: u32, tail: Tail) {
        let life = self.sockets[slot as usize].life;
        loop {
            let socket = &mut self.sockets[slot as usize];
            let Some(stream) = socket.stream.as_mut().filter(|_| socket.life == life) else {
                return;
            };
            let read = match &mut self.until_stamp {
                Some(0) => sys::read_stamped(stream, &mut self.buffer),
                Some(_) | None => stream.read(&mut self.buffer).map(|length| (length, None)),
            };
            if let Some(left) = &mut self.until_stamp {
                *left = left.checked_sub(1).unwrap_or(STAMPED - 1);
            }
            let (step, more) = match read {
                Ok((length, waited_ns)) => {
                    let emptied = length < self.buffer.len();
                    if let Some(waited_ns) = waited_ns {
                        clients.tally.delayed(now_ns(), waited_ns);
                    }
                    let tail = match length {
                        0 => Tail::Closed,
                        _ if emptied => tail,
                        _ => Tail::Open,
                    };
                    let bytes = &self.buffer[..length];
                    (clients.received(slot, bytes, tail, now_ns()), !emptied)
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => (clients.failed(slot, Fault::Reset, now_ns()), false),
            };
            self.perform(clients, slot, step);
            if !more {
                return;
            }
        }
    }

    fn open(&mut self, slot: u32) -> io::Result<()> {
        let stream = sys::socket(self.target.server, self.target.source(slot))?;
        if let Some(line) = self.lines.get_mut(slot as usize) {
            line.open();
            sys::set_window(&stream, line.window_bytes())?;
        }
        if self.until_stamp.is_some() && sys::stamp(&stream).is_err() {
            self.until_stamp = None;
        }
        sys::connect(&stream, self.target.server)?;
        let socket = &mut self.sockets[slot as usize];
        socket.life = socket.life.wrapping_add(1);
        let key = u64::from(socket.life) << 32 | u64::from(slot);
        self.poll.add(&stream, key)?;
        socket.stream = Some(stream);
        Ok(())
    }

    /// Writes a slot's output; the next step, or `None` when the socket takes no more for now.
    fn write(&mut self, clients: &mut Clients<'_>, slot: u32) -> Option<Step> {
        let mut stream = self.sockets[slot as usize].stream.as_ref()?;
        match stream.write(clients.output(slot)) {
            Ok(length) => Some(clients.wrote(slot, length)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Some(Step::Send),
            Err(_) => Some(clients.failed(slot, Fault::WriteFailed, now_ns())),
        }
    }
}

impl Sockets for Epoll {
    const NAME: &'static str = "epoll";

    fn new(target: Target, slots: usize) -> Result<Self> {
        let socket = |_| Socket {
            stream: None,
            life: 0,
        };
        let line = |slot: u32| target.bits_per_s(slot).map(Line::new);
        let lines = (0..slots as u32).filter_map(line).collect();
        Ok(Self {
            poll: Poll::new(BATCH).context("cannot make an epoll instance")?,
            until_stamp: target.stamps.then_some(0),
            target,
            sockets: (0..slots).map(socket).collect(),
            buffer: vec![0; BUFFER_BYTES],
            lines,
            line_timers: Wheel::new(slots, now_ns()),
        })
    }
}

impl Engine for Epoll {
    fn perform(&mut self, clients: &mut Clients<'_>, slot: u32, mut step: Step) {
        loop {
            step = match step {
                Step::Wait => return,
                Step::Open => match self.open(slot) {
                    Ok(()) => return,
                    Err(error) => clients.failed(slot, sys::connect_fault(&error), now_ns()),
                },
                Step::Send => match self.write(clients, slot) {
                    Some(step) => step,
                    None => return,
                },
                Step::Close => {
                    let socket = &mut self.sockets[slot as usize];
                    socket.stream = None;
                    socket.life = socket.life.wrapping_add(1);
                    if !self.lines.is_empty() {
                        self.line_timers.clear(slot);
                    }
                    clients.closed(slot, now_ns())
                }
            };
        }
    }

    fn wait(&mut self, clients: &mut Clients<'_>, patience: Duration) -> Result<()> {
        let timer_ns = self.line_timers.next_ns().saturating_sub(now_ns());
        let patience = patience.min(Duration::from_nanos(timer_ns));
        let count = self
            .poll
            .wait(patience)
            .context("cannot wait for sockets")?;
        for index in 0..count {
            let event = self.poll.event(index);
            self.happened(clients, event);
        }
        while let Some(slot) = self.line_timers.ring(now_ns()) {
            self.read_slowly(clients, slot);
        }
        Ok(())
    }
}
