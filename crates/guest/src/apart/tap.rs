//! The clients' network namespace on this host, and in it the host's end of a guest's network card (a tap).
//!
//! Without root, a user namespace gives the right to make both. Neither has a name outside: the namespace ends with
//! its process, the tap with the last holder of its descriptor.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use anyhow::{Context, Result, bail};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Signal, getegid, geteuid, set_parent_process_death_signal};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::netns;
use crate::netns::Netns;

/// The tap's name in its namespace.
pub(crate) const NAME: &str = "guest";

/// Most queues of a card.
pub(crate) const QUEUES: usize = 8;

const TUN: &str = "/dev/net/tun";

/// Moves this process into a new namespace, with a tap that has the clients' address. Returns the tap's queues.
pub(crate) fn make(queues: u32) -> Result<Vec<OwnedFd>> {
    enter_namespace()?;
    let count = (queues.max(1) as usize).min(QUEUES);
    let queues = (0..count)
        .map(|_| open_queue(count > 1))
        .collect::<Result<_>>()?;
    Netns::current().ip(&netns::client_side(NAME))?;
    Ok(queues)
}

#[expect(
    unsafe_code,
    reason = "rustix marks unshare for its file tables; only NEWUSER and NEWNET are used"
)]
fn enter_namespace() -> Result<()> {
    // SAFETY: descriptors stay shared with nobody; the process has one thread.
    let unshare = |flags| unsafe { unshare_unsafe(flags) };
    if geteuid().is_root() && unshare(UnshareFlags::NEWNET).is_ok() {
        return Ok(());
    }
    // Read before: inside, the process has no identity until the maps are written.
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    if let Err(why) = unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET) {
        bail!(
            "no user namespaces for this user: {why} (sysctl user.max_user_namespaces, and where it exists \
             kernel.unprivileged_userns_clone; or run as root)"
        );
    }
    let write = |name: &str, text: String| {
        fs::write(format!("/proc/self/{name}"), text)
            .with_context(|| format!("cannot write /proc/self/{name} (run as root)"))
    };
    write("setgroups", "deny".into())?;
    write("uid_map", format!("0 {user} 1"))?;
    write("gid_map", format!("0 {group} 1"))?;
    // The kernel clears it when a process gains rights.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

/// Opens a queue of the tap; all queues are one network device.
fn open_queue(is_one_of_several: bool) -> Result<OwnedFd> {
    let file = OpenOptions::new().read(true).write(true).open(TUN);
    let file = file.map_err(|why| match why.kind() {
        io::ErrorKind::NotFound => {
            anyhow::anyhow!("no {TUN} (modprobe tun)")
        }
        io::ErrorKind::PermissionDenied => {
            anyhow::anyhow!("{TUN} may not be opened (chmod 666 {TUN}, as most distributions have it; or run as root)")
        }
        _ => anyhow::anyhow!("{TUN} cannot be opened: {why} (modprobe tun)"),
    })?;
    let mut flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    if is_one_of_several {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    match set_interface(&file, flags) {
        Ok(()) => Ok(file.into()),
        Err(why) if why.kind() == io::ErrorKind::PermissionDenied => bail!(
            "the user namespace has no rights to make a network device: {why} (sysctl \
             kernel.apparmor_restrict_unprivileged_userns=0 where it exists; or run as root)"
        ),
        Err(why) => bail!("no network device from {TUN}: {why} (run as root)"),
    }
}

#[expect(unsafe_code, reason = "TUNSETIFF has no safe form")]
fn set_interface(file: &File, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: all zeros are a request without name and flags.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(NAME.bytes()) {
        *place = libc::c_char::from_ne_bytes([byte]);
    }
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the request is alive for the call, and is what TUNSETIFF takes.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Sends the queues to the other end of a socket, with one byte.
pub(crate) fn send_queues(socket: BorrowedFd<'_>, queues: &[OwnedFd]) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(QUEUES))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    let queues: Vec<_> = queues.iter().map(|queue| queue.as_fd()).collect();
    if !rights.push(SendAncillaryMessage::ScmRights(&queues)) {
        bail!("too many queues for one message: {}", queues.len());
    }
    let byte = [IoSlice::new(&[0])];
    sendmsg(socket, &byte, &mut rights, SendFlags::NOSIGNAL)
        .context("cannot hand over the guest's network card")?;
    Ok(())
}
