//! The fast engine: `io_uring`, with one system call for many requests. Needs Linux 6.1.
//!
//! Budget per keep-alive request: one submitted send, one received completion, a share of one
//! system call. Sockets are in the ring's file table, so no descriptor is looked up. A receive is
//! armed once per connection and returns each response in a buffer from a shared ring. A send has a
//! completion only if it fails.
//! ```text
//! Open:  SOCKET -> CONNECT          (linked; with a source address the socket is made and bound before)
//! Send:  SEND, and the first time RECV (multishot)
//! Close: CANCEL all of the socket, CLOSE
//! Reset: CONNECT to no address, then as Close
//! ```
//! A connection that is put aside keeps its place in the file table until the server has closed it.
//! Its slot gets another place.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use io_uring::types::{BufRingEntry, CancelBuilder, DestinationSlot, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use record::load::Fault;

use crate::clients::{Action, Clients, PeerState};
use crate::clock::now_ns;
use crate::closing::{self, ClosingConnections, Ending};
use crate::sys::{self, Mapping};
use crate::target::Target;
use crate::thread::{Engine, Sockets};

/// Size of the submission queue.
const SUBMISSIONS: u32 = 1024;
/// Size of the completion queue; the kernel keeps the overflow.
const COMPLETIONS: u32 = 8192;
/// Most receive buffers; a power of two.
const BUFFERS: u16 = 1024;
/// Receive buffers at the start, and those added each time they run out. The kernel uses them in
/// turn, so few buffers stay in the caches: 32 instead of 256 make a request 6 % cheaper.
const FEW_BUFFERS: u16 = 32;
/// Size of a receive buffer. Most responses fit; unused pages take no memory.
const BUFFER_BYTES: usize = 32 << 10;
/// The only group of buffers.
const GROUP: u16 = 0;

/// An address of family `AF_UNSPEC`. Connecting to it drops the connection without `TIME_WAIT`
/// (connect(2)).
static UNSPECIFIED: [u64; 2] = [0; 2];

/// The ring and the sockets of one client thread.
pub(crate) struct Uring {
    ring: IoUring,
    buffers: Buffers,
    target: Target,
    server: Box<Address>,
    sockets: Vec<Socket>,
    /// Free places in the file table.
    free_places: Vec<u32>,
    /// Connections that the server should close, by the keys of their receives.
    closing: ClosingConnections<Socket>,
    batch: Vec<cqueue::Entry>,
}

/// A slot's connection. `generation` counts the slot's connections, to recognise completions of
/// earlier ones.
#[derive(Debug, Clone, Copy, Default)]
struct Socket {
    /// Place in the ring's file table.
    place: u32,
    generation: u32,
    /// Whether a connect is under way.
    connects: bool,
    /// Whether a receive is armed.
    receives: bool,
    /// Whether anything was submitted for this generation.
    is_used: bool,
}

impl Socket {
    /// A place that nobody uses.
    fn at(place: u32) -> Self {
        Self {
            place,
            ..Self::default()
        }
    }
}

/// What a completion is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Socket,
    Connect,
    Send,
    Receive,
    /// Cancel and close: the result does not matter.
    Last,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Socket,
        Self::Connect,
        Self::Send,
        Self::Receive,
        Self::Last,
    ];
}

/// Checks whether `io_uring` can be used here. The error is the reason why not.
pub(crate) fn probe() -> Result<(), String> {
    let refused = |error: io::Error| match error.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel has no io_uring".to_owned(),
        Some(libc::EPERM) => "io_uring is forbidden here".to_owned(),
        Some(libc::EINVAL) => "io_uring of this kernel is older than Linux 6.1".to_owned(),
        _ => format!("io_uring is refused: {error}"),
    };
    let ring = make_ring().map_err(refused)?;
    ring.submitter().register_files_sparse(1).map_err(refused)?;
    Buffers::new(&ring).map(drop).map_err(refused)
}

fn make_ring() -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_submit_all()
        .setup_clamp()
        .setup_cqsize(COMPLETIONS)
        .build(SUBMISSIONS)
}

impl Uring {
    fn handle(&mut self, clients: &mut Clients<'_>, entry: &cqueue::Entry) {
        let (slot, generation, kind) = unpack(entry.user_data());
        if kind == Kind::Receive {
            return self.received(clients, slot, generation, entry);
        }
        if self.sockets[slot as usize].generation != generation {
            return;
        }
        let error = (entry.result() < 0).then(|| io::Error::from_raw_os_error(-entry.result()));
        let action = match (kind, error) {
            (Kind::Connect, None) => {
                self.sockets[slot as usize].connects = false;
                clients.connected(slot, now_ns())
            }
            (Kind::Socket | Kind::Connect, Some(error)) => {
                clients.failed(slot, sys::connect_fault(&error), now_ns())
            }
            (Kind::Last, _) | (Kind::Socket, None) => return,
            // The request was sent in part or not at all.
            (Kind::Send, _) => clients.failed(slot, Fault::WriteFailed, now_ns()),
            (Kind::Receive, _) => unreachable!("receives are handled above"),
        };
        self.perform(clients, slot, action);
    }

    /// A receive brought bytes, the end of the connection, or an error.
    fn received(
        &mut self,
        clients: &mut Clients<'_>,
        slot: u32,
        generation: u32,
        entry: &cqueue::Entry,
    ) {
        let buffer = cqueue::buffer_select(entry.flags());
        let socket = &mut self.sockets[slot as usize];
        if socket.generation == generation {
            socket.receives = cqueue::more(entry.flags());
            let action = match (entry.result(), buffer) {
                (1.., Some(buffer)) => {
                    let bytes = self.buffers.bytes(buffer, entry.result() as usize);
                    clients.received(slot, bytes, PeerState::Open, now_ns())
                }
                (0, _) => clients.received(slot, &[], PeerState::Closed, now_ns()),
                (result, _) if result == -libc::ENOBUFS => {
                    self.buffers.give_more();
                    Action::Wait
                }
                (_, _) => clients.failed(slot, Fault::Reset, now_ns()),
            };
            self.perform(clients, slot, action);
            let socket = self.sockets[slot as usize];
            if socket.generation == generation && !socket.receives && socket.is_used {
                self.receive(slot);
            }
        } else if let Some(mut socket) = self.closing.take(entry.user_data()) {
            // A finished connection has only one more event: its end.
            socket.receives = cqueue::more(entry.flags());
            self.close_place(socket);
            self.free_places.push(socket.place);
        }
        if let Some(buffer) = buffer {
            self.buffers.give_back(buffer);
        }
    }

    fn receive(&mut self, slot: u32) {
        let socket = &mut self.sockets[slot as usize];
        socket.receives = true;
        let key = pack(slot, socket.generation, Kind::Receive);
        let entry = opcode::RecvMulti::new(Fixed(socket.place), GROUP).build();
        self.push(&entry.user_data(key));
    }

    /// Closes a socket. Operations under way would hold it open, so they are cancelled.
    fn close_place(&mut self, socket: Socket) {
        let key = pack(0, socket.generation, Kind::Last);
        if socket.receives || socket.connects {
            let all = CancelBuilder::fd(Fixed(socket.place)).all();
            let entry = opcode::AsyncCancel2::new(all).build();
            self.push(&entry.flags(squeue::Flags::SKIP_SUCCESS).user_data(key));
        }
        let entry = opcode::Close::new(Fixed(socket.place)).build();
        self.push(&entry.flags(squeue::Flags::SKIP_SUCCESS).user_data(key));
    }

    /// Ends finished connections that the server has left open.
    fn end_left_open(&mut self, clients: &mut Clients<'_>, now_ns: u64) {
        while let Some((socket, ending)) = self.closing.expire(now_ns) {
            if ending == Ending::Reset {
                let (address, length) = (
                    UNSPECIFIED.as_ptr().cast(),
                    size_of_val(&UNSPECIFIED) as u32,
                );
                let entry = opcode::Connect::new(Fixed(socket.place), address, length).build();
                let key = pack(0, socket.generation, Kind::Last);
                self.push(&entry.flags(squeue::Flags::SKIP_SUCCESS).user_data(key));
            }
            self.close_place(socket);
            self.free_places.push(socket.place);
            clients.counters.left_open(now_ns);
        }
    }

    #[expect(
        unsafe_code,
        reason = "the kernel reads memory that an entry points to"
    )]
    fn push(&mut self, entry: &squeue::Entry) {
        loop {
            // SAFETY: entries point to the server's address, which lives as long as the ring, and
            // to requests, which outlive the thread; `Drop` waits until nothing is under way.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return;
            }
            self.ring
                .submit()
                .expect("the queue is full of valid entries, which the kernel takes");
        }
    }
}

impl Sockets for Uring {
    const NAME: &'static str = "io_uring";

    fn new(target: Target, slots: usize) -> Result<Self> {
        let ring = make_ring().context("cannot make an io_uring")?;
        let submitter = ring.submitter();
        submitter
            .register_files_sparse((slots + closing::MAX_CLOSING) as u32)
            .context("cannot make a file table")?;
        let buffers = Buffers::new(&ring).context("cannot register receive buffers")?;
        Ok(Self {
            ring,
            buffers,
            server: Box::new(Address::from(target.server(0))),
            target,
            sockets: (0..slots as u32).map(Socket::at).collect(),
            free_places: (slots as u32..(slots + closing::MAX_CLOSING) as u32).collect(),
            closing: ClosingConnections::new(),
            batch: Vec::with_capacity(COMPLETIONS as usize),
        })
    }
}

impl Engine for Uring {
    fn open(&mut self, slot: u32) -> io::Result<()> {
        let socket = &mut self.sockets[slot as usize];
        socket.generation = socket.generation.wrapping_add(1);
        socket.connects = true;
        socket.receives = false;
        socket.is_used = true;
        let Socket {
            generation, place, ..
        } = *socket;
        if let Some(source) = self.target.source(slot) {
            // The place is filled at once, so a pending close of it must be submitted first.
            self.ring.submit()?;
            let stream = sys::socket(self.target.server(slot), Some(source))?;
            // The ring takes its own reference.
            self.ring
                .submitter()
                .register_files_update(place, &[stream.as_raw_fd()])?;
        } else {
            let family = sys::family(self.target.server(slot)).as_raw().into();
            let index = DestinationSlot::try_from_slot_target(place);
            let entry = opcode::Socket::new(family, libc::SOCK_STREAM, 0)
                .file_index(Some(index.expect("slots are far fewer than the limit")))
                .build()
                .flags(squeue::Flags::IO_LINK | squeue::Flags::SKIP_SUCCESS);
            self.push(&entry.user_data(pack(slot, generation, Kind::Socket)));
        }
        let (address, length) = self.server.as_raw();
        let entry = opcode::Connect::new(Fixed(place), address, length).build();
        self.push(&entry.user_data(pack(slot, generation, Kind::Connect)));
        Ok(())
    }

    fn send(&mut self, clients: &mut Clients<'_>, slot: u32) -> Option<Action> {
        let bytes = clients.output(slot);
        let Socket {
            generation, place, ..
        } = self.sockets[slot as usize];
        let length = bytes.len();
        let entry = opcode::Send::new(Fixed(place), bytes.as_ptr(), length as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS);
        self.push(&entry.user_data(pack(slot, generation, Kind::Send)));
        if !self.sockets[slot as usize].receives {
            self.receive(slot);
        }
        Some(clients.wrote(slot, length))
    }

    fn close(&mut self, slot: u32) {
        let socket = &mut self.sockets[slot as usize];
        if !std::mem::replace(&mut socket.is_used, false) {
            return;
        }
        let old = *socket;
        socket.generation = socket.generation.wrapping_add(1);
        self.close_place(old);
    }

    /// Also gives the slot another place.
    fn put_aside(&mut self, clients: &mut Clients<'_>, slot: u32, now_ns: u64) {
        self.end_left_open(clients, now_ns);
        let Some(place) = self.free_places.pop() else {
            return self.close(slot);
        };
        if !self.sockets[slot as usize].receives {
            self.receive(slot);
        }
        let socket = &mut self.sockets[slot as usize];
        let old = *socket;
        socket.is_used = false;
        socket.generation = socket.generation.wrapping_add(1);
        socket.place = place;
        let key = pack(slot, old.generation, Kind::Receive);
        self.closing.add(key, old, now_ns);
    }

    fn wait(&mut self, clients: &mut Clients<'_>, patience: Duration) -> Result<()> {
        let time = Timespec::from(patience);
        let args = SubmitArgs::new().timespec(&time);
        match self.ring.submitter().submit_with_args(1, &args) {
            Ok(_) => {}
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => {}
                _ => return Err(error).context("cannot wait for sockets"),
            },
        }
        let now_ns = now_ns();
        clients.counters.wake(now_ns);
        let mut batch = std::mem::take(&mut self.batch);
        batch.extend(self.ring.completion());
        for entry in &batch {
            self.handle(clients, entry);
        }
        batch.clear();
        self.batch = batch;
        self.end_left_open(clients, now_ns);
        Ok(())
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // Operations under way must end before requests and buffers are freed.
        let _ = self.ring.submit();
        let submitter = self.ring.submitter();
        let _ = submitter.register_sync_cancel(None, CancelBuilder::any());
        let _ = submitter.unregister_buf_ring(GROUP);
    }
}

/// A socket address in the kernel's format.
enum Address {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(v4) => Self::V4(libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(v4.ip().octets()),
                },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(v6) => Self::V6(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            }),
        }
    }
}

impl Address {
    /// Pointer and length; valid while the address is not moved.
    fn as_raw(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        match self {
            Self::V4(v4) => (std::ptr::from_ref(v4).cast(), size_of_val(v4) as u32),
            Self::V6(v6) => (std::ptr::from_ref(v6).cast(), size_of_val(v6) as u32),
        }
    }
}

/// Receive buffers, and the ring that passes them to the kernel.
struct Buffers {
    ring: Mapping,
    memory: Mapping,
    tail: u16,
    /// Number of buffers passed to the kernel so far.
    given: u16,
}

impl Buffers {
    #[expect(
        unsafe_code,
        reason = "the kernel writes to memory that is registered here"
    )]
    fn new(ring: &IoUring) -> io::Result<Self> {
        let mut buffers = Self {
            ring: Mapping::new(usize::from(BUFFERS) * size_of::<BufRingEntry>())?,
            memory: Mapping::new(usize::from(BUFFERS) * BUFFER_BYTES)?,
            tail: 0,
            given: 0,
        };
        let place = buffers.ring.start().as_ptr() as u64;
        // SAFETY: the mapping has room for the entries, begins at a page, and is unmapped only
        // after the ring has been unregistered or closed.
        unsafe {
            ring.submitter()
                .register_buf_ring_with_flags(place, BUFFERS, GROUP, 0)
        }?;
        buffers.give_more();
        Ok(buffers)
    }

    /// Passes a few more buffers to the kernel, if there are any.
    fn give_more(&mut self) {
        let more = self.given..BUFFERS.min(self.given + FEW_BUFFERS);
        self.given = more.end;
        more.for_each(|buffer| self.give_back(buffer));
    }

    /// The bytes that the kernel wrote to a buffer.
    #[expect(unsafe_code, reason = "the kernel shares the memory")]
    fn bytes(&self, buffer: u16, length: usize) -> &[u8] {
        assert!(
            buffer < BUFFERS && length <= BUFFER_BYTES,
            "the kernel keeps to the buffers it got"
        );
        // SAFETY: the range lies within the mapping, and the kernel does not write to a buffer
        // between its completion and `give_back`, which needs `&mut self`.
        unsafe {
            let start = self.memory.start().add(usize::from(buffer) * BUFFER_BYTES);
            std::slice::from_raw_parts(start.as_ptr(), length)
        }
    }

    /// Passes a buffer to the kernel again.
    #[expect(unsafe_code, reason = "the kernel shares the memory")]
    fn give_back(&mut self, buffer: u16) {
        assert!(buffer < BUFFERS, "the kernel keeps to the buffers it got");
        let base = self.ring.start().cast::<BufRingEntry>();
        // SAFETY: both places lie within their mappings; the kernel reads an entry only once the
        // tail has passed it, and the tail is written last.
        unsafe {
            let start = self.memory.start().add(usize::from(buffer) * BUFFER_BYTES);
            let entry = base.add(usize::from(self.tail % BUFFERS)).as_mut();
            entry.set_addr(start.as_ptr() as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(buffer);
            self.tail = self.tail.wrapping_add(1);
            let tail = BufRingEntry::tail(base.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}

/// Packs slot (24 bits), kind (8 bits) and generation of a connection into one number.
fn pack(slot: u32, generation: u32, kind: Kind) -> u64 {
    u64::from(generation) << 32 | u64::from(slot) << 8 | kind as u64
}

fn unpack(key: u64) -> (u32, u32, Kind) {
    (
        (key as u32) >> 8,
        (key >> 32) as u32,
        Kind::ALL[(key & 0xff) as usize],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unpacked_as_packed() {
        for kind in Kind::ALL {
            assert_eq!(
                unpack(pack(0xff_fffe, 0xffff_ffff, kind)),
                (0xff_fffe, 0xffff_ffff, kind)
            );
        }
    }
}
