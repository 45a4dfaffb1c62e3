//! System calls that std does not offer: epoll, and connecting without waiting.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::time::{Duration, SystemTime};

use record::load::Fault;

/// Payload of an Ethernet frame.
const SEGMENT_BYTES: u32 = 1460;

/// Which fault an error in connecting is.
pub(crate) fn connect_fault(error: &io::Error) -> Fault {
    match error.raw_os_error() {
        Some(libc::EADDRNOTAVAIL | libc::EADDRINUSE | libc::EAGAIN) => Fault::ClientNoPort,
        Some(libc::EMFILE | libc::ENFILE) => Fault::ClientNoDescriptor,
        Some(libc::ENOMEM | libc::ENOBUFS) => Fault::ClientNoMemory,
        Some(libc::ETIMEDOUT) => Fault::ConnectTimeout,
        _ => Fault::ConnectFailed,
    }
}

/// Asks for a small receive buffer, so that a server feels how slowly its answer is read, and for segments of
/// Ethernet's size: with loopback's 64 KiB the window would open in leaps, with stalls between. To be asked
/// before connecting; the kernel doubles the buffer for its own needs.
pub(crate) fn set_window(stream: &TcpStream, bytes: u32) -> io::Result<()> {
    set_option(stream, libc::IPPROTO_TCP, libc::TCP_MAXSEG, SEGMENT_BYTES)?;
    set_option(stream, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes)
}

#[expect(unsafe_code, reason = "std sets few options of sockets")]
fn set_option(stream: &TcpStream, level: i32, option: i32, value: u32) -> io::Result<()> {
    let (place, length) = (
        std::ptr::from_ref(&value).cast(),
        size_of_val(&value) as u32,
    );
    // SAFETY: `place` holds an integer of `length` bytes.
    check(unsafe { libc::setsockopt(stream.as_raw_fd(), level, option, place, length) })?;
    Ok(())
}

/// Has the kernel note when bytes come.
pub(crate) fn stamp(stream: &TcpStream) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    set_option(stream, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags)
}

/// Reads as `read(2)` does; also how long the last of the bytes had waited, where the kernel has stamped them
/// (`socket(7)`, `SO_TIMESTAMPING`).
#[expect(unsafe_code, reason = "std reads no control messages")]
pub(crate) fn read_stamped(
    stream: &TcpStream,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<u64>)> {
    let mut piece = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // Aligned as control messages must be; three time stamps and their head need 64 bytes.
    let mut control = [0u64; 32];
    // SAFETY: an all-zero msghdr is a valid one without name, pieces and control messages.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: all that the message points to outlives the call and is as long as it says.
    let length = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, 0) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel has filled in the message, and `control` lives.
    let head = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    if head.is_null() {
        return Ok((length, None));
    }
    // SAFETY: the head lies within `control`; a message of this type begins with a `timespec`.
    let stamp = unsafe {
        let is_stamp =
            (*head).cmsg_level == libc::SOL_SOCKET && (*head).cmsg_type == libc::SCM_TIMESTAMPING;
        is_stamp.then(|| {
            libc::CMSG_DATA(head)
                .cast::<libc::timespec>()
                .read_unaligned()
        })
    };
    let waited = stamp.and_then(|stamp| {
        let since_epoch = Duration::new(stamp.tv_sec as u64, stamp.tv_nsec as u32);
        let came = SystemTime::UNIX_EPOCH + since_epoch;
        // The kernel stamps with the clock on the wall, which may be set back in between.
        SystemTime::now().duration_since(came).ok()
    });
    Ok((length, waited.map(|waited| waited.as_nanos() as u64)))
}

/// Starts to connect; the socket becomes writable once it has.
#[expect(unsafe_code, reason = "std connects only by waiting for it")]
pub(crate) fn connect(stream: &TcpStream, server: SocketAddr) -> io::Result<()> {
    let fd = stream.as_raw_fd();
    let address = Address::from(server);
    let (place, length) = address.as_raw();
    // SAFETY: `place` holds an address of `length` bytes for as long as `address` lives.
    match check(unsafe { libc::connect(fd, place, length) }) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Ok(()),
    }
}

/// A socket for connections to a server, that never waits.
#[expect(unsafe_code, reason = "std makes no socket that is not connected")]
pub(crate) fn socket(server: SocketAddr, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is passed.
    let fd = check(unsafe { libc::socket(family(server), kind, 0) })?;
    // SAFETY: the descriptor is new and belongs to nobody else.
    let stream = unsafe { TcpStream::from_raw_fd(fd) };
    if let Some(source) = source {
        bind(&stream, source)?;
    }
    Ok(stream)
}

/// The address family of a server.
pub(crate) fn family(server: SocketAddr) -> libc::c_int {
    match server {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    }
}

/// Gives a socket its source address and leaves the port to `connect`, which knows the server's and so can
/// use a port once for each server and source. Bound here, a port could be used only once in all.
#[expect(unsafe_code, reason = "std binds only sockets that listen")]
fn bind(stream: &TcpStream, source: IpAddr) -> io::Result<()> {
    set_option(stream, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
    let fd = stream.as_raw_fd();
    let address = Address::from(SocketAddr::new(source, 0));
    let (place, length) = address.as_raw();
    // SAFETY: `place` holds an address of `length` bytes for as long as `address` lives.
    check(unsafe { libc::bind(fd, place, length) })?;
    Ok(())
}

/// A socket address as the kernel wants it.
pub(crate) enum Address {
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
    /// Place and length; valid as long as the address stays where it is.
    pub(crate) fn as_raw(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        match self {
            Self::V4(v4) => (std::ptr::from_ref(v4).cast(), size_of_val(v4) as u32),
            Self::V6(v6) => (std::ptr::from_ref(v6).cast(), size_of_val(v6) as u32),
        }
    }
}

/// Memory of its own pages, shared with the kernel.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

#[expect(
    unsafe_code,
    reason = "a mapping belongs to whoever holds it, on any thread"
)]
// SAFETY: nothing about a mapping is tied to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Zeroes.
    #[expect(unsafe_code, reason = "std maps no memory")]
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: the kernel chooses a place where nothing is.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).expect("a mapping without a place is never at zero");
        Ok(Self { start, bytes })
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Mapping {
    #[expect(unsafe_code, reason = "std maps no memory")]
    fn drop(&mut self) {
        // SAFETY: the mapping is whole and nobody else holds it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Makes room for so many descriptors; the limit that stands in the way, if it cannot be raised.
#[expect(unsafe_code, reason = "std does not offer limits")]
pub(crate) fn allow_descriptors(count: u64) -> Result<(), u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for the one structure that the call writes.
    let status = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    assert_eq!(status, 0, "the limit of descriptors can be read");
    if count <= limit.rlim_cur {
        return Ok(());
    }
    let wanted = libc::rlimit {
        rlim_cur: count,
        rlim_max: limit.rlim_max.max(count),
    };
    // SAFETY: the structure is read during the call.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wanted) } {
        0 => Ok(()),
        _ => Err(limit.rlim_max),
    }
}

/// An epoll instance, edge-triggered throughout.
pub(crate) struct Poll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
    room: i32,
    /// The kernel has no `epoll_pwait2`.
    is_coarse: bool,
}

/// What happened to a socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub(crate) key: u64,
    flags: u32,
}

impl Event {
    pub(crate) fn is_readable(self) -> bool {
        self.flags & (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLERR | libc::EPOLLHUP) as u32
            != 0
    }

    pub(crate) fn is_writable(self) -> bool {
        self.flags & libc::EPOLLOUT as u32 != 0
    }

    /// The peer will send no more than what is already here.
    pub(crate) fn is_ended(self) -> bool {
        self.flags & libc::EPOLLRDHUP as u32 != 0
    }

    pub(crate) fn is_broken(self) -> bool {
        self.flags & (libc::EPOLLERR | libc::EPOLLHUP) as u32 != 0
    }
}

impl Poll {
    /// At most `events` events are taken at once.
    #[expect(unsafe_code, reason = "std does not offer epoll")]
    pub(crate) fn new(events: u16) -> io::Result<Self> {
        // SAFETY: no memory is passed, and the descriptor is new.
        let fd = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        let buffer = vec![libc::epoll_event { events: 0, u64: 0 }; events.into()];
        Ok(Self {
            fd,
            events: buffer,
            room: events.into(),
            is_coarse: false,
        })
    }

    /// Watches a socket until it is closed; once is enough for all that happens to it.
    #[expect(unsafe_code, reason = "std does not offer epoll")]
    pub(crate) fn add(&self, stream: &TcpStream, key: u64) -> io::Result<()> {
        let flags = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event {
            events: flags as u32,
            u64: key,
        };
        let (poll, socket) = (self.fd.as_raw_fd(), stream.as_raw_fd());
        // SAFETY: `event` is valid during the call, and the kernel keeps a copy.
        check(unsafe { libc::epoll_ctl(poll, libc::EPOLL_CTL_ADD, socket, &raw mut event) })?;
        Ok(())
    }

    /// Waits for events, at most as long as `patience`; how many there are. May return early.
    ///
    /// A wait that is long does with milliseconds, which every kernel counts in the same way; only the last two
    /// of them are worth the newer calls.
    pub(crate) fn wait(&mut self, patience: Duration) -> io::Result<usize> {
        let waited = match patience.as_millis() {
            0 if patience.is_zero() => self.take(0),
            0 | 1 if self.is_coarse => self.wait_otherwise(patience),
            0 | 1 => self.wait_precisely(patience),
            long_ms => self.take(long_ms.min(1 << 30) as i32),
        };
        match waited {
            Ok(count) => Ok(count as usize),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) && !self.is_coarse => {
                self.is_coarse = true;
                self.wait(patience)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the events that are there or come within some milliseconds.
    #[expect(unsafe_code, reason = "std does not offer epoll")]
    fn take(&mut self, patience_ms: i32) -> io::Result<libc::c_int> {
        let (place, room) = (self.events.as_mut_ptr(), self.room);
        // SAFETY: the kernel writes at most `room` events to a place of that size.
        check(unsafe { libc::epoll_wait(self.fd.as_raw_fd(), place, room, patience_ms) })
    }

    /// Waits to the nanosecond; since Linux 5.11.
    #[expect(unsafe_code, reason = "std does not offer epoll")]
    fn wait_precisely(&mut self, patience: Duration) -> io::Result<libc::c_int> {
        let (place, room) = (self.events.as_mut_ptr(), self.room);
        let time = timespec(patience);
        let (fd, no_mask) = (self.fd.as_raw_fd(), std::ptr::null::<libc::sigset_t>());
        // SAFETY: the kernel writes at most `room` events to a place of that size and reads the time.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                fd,
                place,
                room,
                &raw const time,
                no_mask,
                0,
            )
        };
        check(count as libc::c_int)
    }

    /// As `wait_precisely`, for older kernels: an epoll instance can itself be polled.
    #[expect(unsafe_code, reason = "std does not offer poll")]
    fn wait_otherwise(&mut self, patience: Duration) -> io::Result<libc::c_int> {
        let mut poll = libc::pollfd {
            fd: self.fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let time = timespec(patience);
        // SAFETY: one descriptor is passed, as said, and a time to read.
        check(unsafe { libc::ppoll(&raw mut poll, 1, &raw const time, std::ptr::null()) })?;
        self.take(0)
    }

    /// One of the events of the last wait.
    pub(crate) fn event(&self, index: usize) -> Event {
        let libc::epoll_event { events, u64 } = self.events[index];
        Event {
            key: u64,
            flags: events,
        }
    }
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: time.as_secs().cast_signed(),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// Asks the kernel to wake the calling thread as close to its time as it can, instead of 50 us around it.
#[expect(unsafe_code, reason = "std does not offer prctl")]
pub(crate) fn wake_sharply() {
    // SAFETY: no memory is passed. A refusal costs precision, which the lateness shows.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

fn check(status: libc::c_int) -> io::Result<libc::c_int> {
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn every_way_of_waiting_waits() {
        for (is_coarse, patience_us) in [(false, 0), (false, 1500), (true, 1500), (true, 5000)] {
            let mut poll = Poll::new(8).unwrap();
            poll.is_coarse = is_coarse;
            let start = Instant::now();
            assert_eq!(poll.wait(Duration::from_micros(patience_us)).unwrap(), 0);
            let waited_us = start.elapsed().as_micros();
            assert!(
                waited_us >= u128::from(patience_us),
                "{waited_us} of {patience_us} us"
            );
        }
    }

    #[test]
    fn a_limit_of_descriptors_is_raised_or_named() {
        assert_eq!(allow_descriptors(1), Ok(()));
        // More than any kernel allows.
        assert!(allow_descriptors(1 << 40).is_err());
    }
}
