//! System calls that std lacks: epoll, non-blocking connect, receive time stamps, memory mappings.
//! They go through rustix, or through libc where rustix lacks them.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::time::{Duration, SystemTime};

use record::load::Fault;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit};

/// Payload of an Ethernet frame.
const SEGMENT_BYTES: u32 = 1460;

/// Maps an error of connecting to a fault.
pub(crate) fn connect_fault(error: &io::Error) -> Fault {
    match error.raw_os_error() {
        Some(libc::EADDRNOTAVAIL | libc::EADDRINUSE | libc::EAGAIN) => Fault::ClientNoPort,
        Some(libc::EMFILE | libc::ENFILE) => Fault::ClientNoDescriptor,
        Some(libc::ENOMEM | libc::ENOBUFS) => Fault::ClientNoMemory,
        Some(libc::ETIMEDOUT) => Fault::ConnectTimeout,
        _ => Fault::ConnectFailed,
    }
}

/// Sets a small receive buffer, so that the server notices a slow reader, and segments of
/// Ethernet's size. With loopback's 64 KiB segments, the receive window would open in large steps.
/// Must be called before connecting. The kernel doubles the size of the buffer.
pub(crate) fn set_window(stream: &TcpStream, bytes: u32) -> io::Result<()> {
    set_option(stream, libc::IPPROTO_TCP, libc::TCP_MAXSEG, SEGMENT_BYTES)?;
    rustix::net::sockopt::set_socket_recv_buffer_size(stream, bytes as usize)?;
    Ok(())
}

/// Enables receive time stamps.
pub(crate) fn enable_stamps(stream: &TcpStream) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    set_option(stream, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags)
}

/// Sets an option that rustix does not know.
#[expect(unsafe_code, reason = "rustix knows not all options of sockets")]
fn set_option(stream: &TcpStream, level: i32, option: i32, value: u32) -> io::Result<()> {
    let place = std::ptr::from_ref(&value).cast();
    let length = size_of_val(&value) as u32;
    // SAFETY: `place` holds an integer of `length` bytes.
    check(unsafe { libc::setsockopt(stream.as_raw_fd(), level, option, place, length) })?;
    Ok(())
}

/// A control message that holds time stamps: the first is the software stamp. `rest` has room for
/// the other two.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control {
    head: libc::cmsghdr,
    stamp: libc::timespec,
    rest: [u64; 28],
}

/// Reads as `read(2)` does. Also returns how many nanoseconds the last byte had waited, if the
/// kernel has stamped it (`socket(7)`, `SO_TIMESTAMPING`).
#[expect(unsafe_code, reason = "rustix knows no control messages with stamps")]
pub(crate) fn read_stamped(
    stream: &TcpStream,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<u64>)> {
    let mut piece = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut control = Control {
        head: libc::cmsghdr {
            cmsg_len: 0,
            cmsg_level: 0,
            cmsg_type: 0,
        },
        stamp: libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        rest: [0; 28],
    };
    let mut message = libc::msghdr {
        msg_name: std::ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: &raw mut piece,
        msg_iovlen: 1,
        msg_control: (&raw mut control).cast(),
        msg_controllen: size_of::<Control>(),
        msg_flags: 0,
    };
    // SAFETY: everything that the message points to outlives the call and has the stated length.
    let length = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, 0) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    // Without a control message the head is unchanged.
    let Control { head, stamp, .. } = control;
    if head.cmsg_level != libc::SOL_SOCKET || head.cmsg_type != libc::SCM_TIMESTAMPING {
        return Ok((length, None));
    }
    let since_epoch = Duration::new(stamp.tv_sec as u64, stamp.tv_nsec as u32);
    // Stamps are of the wall clock, which may have been set back meanwhile.
    let waited = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + since_epoch);
    Ok((length, waited.ok().map(|waited| waited.as_nanos() as u64)))
}

/// Starts to connect. The socket becomes writable once it is connected.
pub(crate) fn connect(stream: &TcpStream, server: SocketAddr) -> io::Result<()> {
    match rustix::net::connect(stream, &server) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes a non-blocking socket for a connection to a server.
pub(crate) fn socket(server: SocketAddr, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family(server), SocketType::STREAM, flags, None)?;
    let stream = TcpStream::from(socket);
    if let Some(source) = source {
        bind(&stream, source)?;
    }
    Ok(stream)
}

/// Resets a connection, which leaves no `TIME_WAIT`.
pub(crate) fn reset(stream: TcpStream) {
    // If this fails, the connection is closed normally.
    let _ = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
    drop(stream);
}

/// Address family of a server.
pub(crate) fn family(server: SocketAddr) -> AddressFamily {
    match server {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

/// Binds a socket to its source address and leaves the port to `connect`. So a port can be used
/// once for each pair of server and source, instead of only once.
fn bind(stream: &TcpStream, source: IpAddr) -> io::Result<()> {
    set_option(stream, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
    rustix::net::bind(stream, &SocketAddr::new(source, 0))?;
    Ok(())
}

/// Zeroed memory in separate pages, shared with the kernel.
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
    #[expect(unsafe_code, reason = "what is mapped is not owned by Rust")]
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let place = std::ptr::null_mut();
        // SAFETY: the kernel chooses a free range.
        let start = unsafe { rustix::mm::mmap_anonymous(place, bytes, access, MapFlags::PRIVATE) }?;
        let start = NonNull::new(start.cast()).expect("a mapping without a place is never at zero");
        Ok(Self { start, bytes })
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Mapping {
    #[expect(unsafe_code, reason = "what is mapped is not owned by Rust")]
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping, and nothing else refers to it.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
        unmapped.expect("a whole mapping can be unmapped");
    }
}

/// Raises the limit of descriptors to at least `count`. The error is the hard limit.
pub(crate) fn allow_descriptors(count: u64) -> Result<(), u64> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    // `None` is unlimited.
    if limit.current.is_none_or(|current| count <= current) {
        return Ok(());
    }
    let wanted = Rlimit {
        current: Some(count),
        maximum: limit.maximum.map(|maximum| maximum.max(count)),
    };
    rustix::process::setrlimit(Resource::Nofile, wanted)
        .map_err(|_| limit.maximum.unwrap_or(u64::MAX))
}

/// An epoll instance, edge-triggered throughout.
pub(crate) struct Poller {
    fd: OwnedFd,
    events: Vec<epoll::Event>,
    /// The kernel has no `epoll_pwait2`.
    is_coarse: bool,
}

/// Adds sockets to an epoll instance on which another thread waits.
pub(crate) struct Registrar(OwnedFd);

impl Registrar {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Another handle of the same instance.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// Waits on the instance, for at most `events` events at once.
    pub(crate) fn poller(self, events: u16) -> Poller {
        Poller::from_fd(self.0, events)
    }

    /// Like `Poller::add`.
    pub(crate) fn add(&self, stream: &TcpStream, key: u64) -> io::Result<()> {
        add_to(&self.0, stream, key)
    }
}

fn add_to(epoll: &OwnedFd, stream: &TcpStream, key: u64) -> io::Result<()> {
    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    epoll::add(epoll, stream, EventData::new_u64(key), flags)?;
    Ok(())
}

/// Waits up to `patience` until a socket can be read or accepted from.
pub(crate) fn wait_readable(socket: impl AsFd, patience: Duration) -> bool {
    let mut fds = [PollFd::new(&socket, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&timespec(patience))).is_ok_and(|ready| ready > 0)
}

/// An event of a socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub(crate) key: u64,
    flags: EventFlags,
}

impl Event {
    pub(crate) fn is_readable(self) -> bool {
        let readable = EventFlags::IN | EventFlags::RDHUP | EventFlags::ERR | EventFlags::HUP;
        self.flags.intersects(readable)
    }

    pub(crate) fn is_writable(self) -> bool {
        self.flags.contains(EventFlags::OUT)
    }

    /// The peer has shut down its side; bytes before that may still be unread.
    pub(crate) fn is_ended(self) -> bool {
        self.flags.contains(EventFlags::RDHUP)
    }

    pub(crate) fn is_broken(self) -> bool {
        self.flags.intersects(EventFlags::ERR | EventFlags::HUP)
    }
}

impl Poller {
    /// Waits for at most `events` events at once.
    pub(crate) fn new(events: u16) -> io::Result<Self> {
        Ok(Registrar::new()?.poller(events))
    }

    fn from_fd(fd: OwnedFd, events: u16) -> Self {
        let none = epoll::Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        };
        Self {
            fd,
            events: vec![none; events.into()],
            is_coarse: false,
        }
    }

    /// Watches a socket for all events until it is closed.
    pub(crate) fn add(&self, stream: &TcpStream, key: u64) -> io::Result<()> {
        add_to(&self.fd, stream, key)
    }

    /// Waits for events, at most as long as `patience`, and returns their number. May return early.
    ///
    /// A wait of 2 ms or more is rounded down to milliseconds, which work on every kernel. Only
    /// shorter waits need the newer system calls.
    pub(crate) fn wait(&mut self, patience: Duration) -> io::Result<usize> {
        let waited = match patience.as_millis() {
            0 if patience.is_zero() => self.take(patience),
            0 | 1 if self.is_coarse => self.wait_by_poll(patience),
            0 | 1 => self.wait_precisely(patience),
            long_ms => self.take(Duration::from_millis(long_ms.min(1 << 30) as u64)),
        };
        match waited {
            Ok(count) => Ok(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) && !self.is_coarse => {
                self.is_coarse = true;
                self.wait(patience)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the events that occur within a whole number of milliseconds.
    fn take(&mut self, patience: Duration) -> io::Result<usize> {
        let time = timespec(patience);
        Ok(epoll::wait(&self.fd, &mut self.events[..], Some(&time))?)
    }

    /// Waits with nanosecond precision; needs Linux 5.11. rustix would round to milliseconds.
    #[expect(
        unsafe_code,
        reason = "rustix calls it only if no older kernel is supported"
    )]
    fn wait_precisely(&mut self, patience: Duration) -> io::Result<usize> {
        let time = libc::timespec {
            tv_sec: patience.as_secs().cast_signed(),
            tv_nsec: patience.subsec_nanos().into(),
        };
        let no_mask = std::ptr::null::<libc::sigset_t>();
        // SAFETY: the kernel reads the time and writes at most `self.events.len()` events, whose
        // layout in rustix is the kernel's.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                self.events.as_mut_ptr(),
                libc::c_int::try_from(self.events.len()).unwrap_or(libc::c_int::MAX),
                &raw const time,
                no_mask,
                0,
            )
        };
        Ok(check(count as libc::c_int)? as usize)
    }

    /// Like `wait_precisely` for older kernels: an epoll instance can be polled.
    fn wait_by_poll(&mut self, patience: Duration) -> io::Result<usize> {
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&timespec(patience)))?;
        self.take(Duration::ZERO)
    }

    /// An event of the last wait.
    pub(crate) fn event(&self, index: usize) -> Event {
        let epoll::Event { flags, data } = self.events[index];
        let key = data.u64();
        Event { key, flags }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs().cast_signed(),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// Lowers the timer slack of the calling thread from 50 µs to the minimum.
pub(crate) fn set_precise_wakeups() {
    // A failure only costs precision, which the send delay shows.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
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
    fn all_kinds_of_waits_take_their_time() {
        for (is_coarse, patience_us) in [(false, 0), (false, 1500), (true, 1500), (true, 5000)] {
            let mut poll = Poller::new(8).unwrap();
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
    fn a_limit_of_descriptors_is_raised_or_returned() {
        assert_eq!(allow_descriptors(1), Ok(()));
        // More than any kernel allows.
        assert!(allow_descriptors(1 << 40).is_err());
    }
}
