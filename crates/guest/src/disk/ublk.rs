//! ublk: block devices that a process serves (`Documentation/block/ublk.rst`, `include/uapi/linux/ublk_cmd.h`).
//!
//! A device is made and started by commands on `/dev/ublk-control`; its requests come over `/dev/ublkcN`: the server
//! fetches each tag once, and commits its result with the fetch of the next. All of them travel in an io_uring.

#![expect(
    unsafe_code,
    reason = "the kernel reads and writes memory by its address"
)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::mm::{MapFlags, ProtFlags, mmap};

/// Bytes of a sector.
pub(crate) const SECTOR: u64 = 512;

/// Longest request in bytes.
pub(crate) const LONGEST: u32 = 512 << 10;

/// Operations of a request.
pub(crate) const READ: u32 = 0;
pub(crate) const WRITE: u32 = 1;
pub(crate) const FLUSH: u32 = 2;

/// `_IOWR('u', number, bytes)`.
const fn command(number: u32, bytes: u32) -> u32 {
    3 << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}

const ADD_DEV: u32 = command(0x04, size_of::<ControlCommand>() as u32);
const START_DEV: u32 = command(0x06, size_of::<ControlCommand>() as u32);
const SET_PARAMS: u32 = command(0x08, size_of::<ControlCommand>() as u32);
const FETCH: u32 = command(0x20, size_of::<IoCommand>() as u32);
const COMMIT_AND_FETCH: u32 = command(0x21, size_of::<IoCommand>() as u32);

const PARAM_TYPE_BASIC: u32 = 1;
const ATTR_ROTATIONAL: u32 = 1 << 1;
const ATTR_VOLATILE_CACHE: u32 = 1 << 2;

#[repr(C)]
#[derive(Clone, Copy)]
struct ControlCommand {
    device: u32,
    queue: u16,
    length: u16,
    address: u64,
    data: u64,
    reserved: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct DeviceInfo {
    queues: u16,
    depth: u16,
    state: u16,
    pad: u16,
    longest: u32,
    device: u32,
    server: i32,
    pad_1: u32,
    flags: u64,
    server_flags: u64,
    owner: [u32; 2],
    reserved: [u64; 2],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Parameters {
    length: u32,
    types: u32,
    attributes: u32,
    /// Logical block, physical block, best and least request, as powers of two.
    shifts: [u8; 4],
    max_sectors: u32,
    chunk_sectors: u32,
    sectors: u64,
    boundary: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct IoCommand {
    queue: u16,
    tag: u16,
    result: i32,
    address: u64,
}

/// A request as the kernel describes it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Description {
    flags: u32,
    sectors: u32,
    start: u64,
    address: u64,
}

impl Description {
    pub(crate) fn operation(&self) -> u32 {
        self.flags & 0xff
    }

    /// A flush has none: what stands there may be anything.
    pub(crate) fn start_byte(&self) -> u64 {
        self.start.saturating_mul(SECTOR)
    }

    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.sectors) * SECTOR
    }
}

/// A device that is not started yet.
pub(crate) struct Control {
    file: File,
    ring: IoUring<squeue::Entry128>,
    device: u32,
    depth: u16,
}

impl Control {
    /// Adds a device of so many requests at once.
    pub(crate) fn add(depth: u16, bytes: u64, has_cache: bool) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/ublk-control")
            .context("open /dev/ublk-control (has the kernel ublk_drv?)")?;
        let ring = IoUring::builder().build(4).context("make an io_uring")?;
        let mut control = Self {
            file,
            ring,
            device: u32::MAX,
            depth,
        };
        let mut info = DeviceInfo {
            queues: 1,
            depth,
            longest: LONGEST,
            device: u32::MAX,
            server: -1,
            ..DeviceInfo::default()
        };
        let at = &raw mut info as u64;
        control
            .send(ADD_DEV, at, size_of::<DeviceInfo>(), 0)
            .context("add a ublk device")?;
        (control.device, control.depth) = (info.device, info.depth);
        if info.longest < LONGEST {
            bail!(
                "ublk gives shorter requests than asked for: {} bytes",
                info.longest
            );
        }
        let cache = if has_cache { ATTR_VOLATILE_CACHE } else { 0 };
        let mut parameters = Parameters {
            length: size_of::<Parameters>() as u32,
            types: PARAM_TYPE_BASIC,
            attributes: ATTR_ROTATIONAL | cache,
            shifts: [9, 12, 12, 12],
            max_sectors: LONGEST / SECTOR as u32,
            chunk_sectors: 0,
            sectors: bytes / SECTOR,
            boundary: 0,
        };
        let at = &raw mut parameters as u64;
        control
            .send(SET_PARAMS, at, size_of::<Parameters>(), 0)
            .context("describe the ublk device")?;
        Ok(control)
    }

    pub(crate) fn device(&self) -> u32 {
        self.device
    }

    pub(crate) fn depth(&self) -> u16 {
        self.depth
    }

    /// Shows the block device to the system; waits for its server to have fetched all tags.
    pub(crate) fn start(&mut self) -> Result<()> {
        let pid = u64::from(std::process::id());
        self.send(START_DEV, 0, 0, pid)
            .context("start the ublk device")
    }

    fn send(&mut self, operation: u32, address: u64, length: usize, data: u64) -> io::Result<()> {
        let command = ControlCommand {
            device: self.device,
            queue: u16::MAX,
            length: length as u16,
            address,
            data,
            reserved: 0,
        };
        let mut bytes = [0; 80];
        // SAFETY: a command is plain data of 32 bytes without padding, fewer than there is room for.
        let command = unsafe { std::mem::transmute::<ControlCommand, [u8; 32]>(command) };
        bytes[..command.len()].copy_from_slice(&command);
        let entry = opcode::UringCmd80::new(Fd(self.file.as_raw_fd()), operation)
            .cmd(bytes)
            .build();
        // SAFETY: what the command points to outlives the wait for its end below.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(io::Error::other)?;
        self.ring.submit_and_wait(1)?;
        let done = self.ring.completion().next();
        let result = done.map_or(-libc::EIO, |done| done.result());
        if result < 0 {
            return Err(io::Error::from_raw_os_error(-result));
        }
        Ok(())
    }
}

/// The one queue of a device, and memory for what is read and written.
pub(crate) struct Queue {
    file: File,
    ring: IoUring,
    descriptions: *const Description,
    buffers: Vec<Box<[u8]>>,
}

impl Queue {
    /// Opens the queue in the thread that will serve it.
    pub(crate) fn open(device: u32, depth: u16) -> Result<Self> {
        let path = format!("/dev/ublkc{device}");
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.with_context(|| format!("open {path}"))?;
        let page = rustix::param::page_size();
        let length = (usize::from(depth) * size_of::<Description>()).next_multiple_of(page);
        // SAFETY: a new mapping at a place of the kernel's choice, which stays until the process ends.
        let mapped = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ,
                MapFlags::SHARED | MapFlags::POPULATE,
                &file,
                0,
            )
        };
        let descriptions = mapped.context("map the requests")?.cast::<Description>();
        let entries = u32::from(depth).next_power_of_two();
        let ring = IoUring::new(entries).context("make an io_uring")?;
        let buffer = |_| vec![0; LONGEST as usize].into_boxed_slice();
        let mut queue = Self {
            file,
            ring,
            descriptions,
            buffers: (0..depth).map(buffer).collect(),
        };
        for tag in 0..depth {
            queue.push(FETCH, tag, -1)?;
        }
        Ok(queue)
    }

    /// What a tag asks for, and its memory. The tag must have come, and not been given back.
    pub(crate) fn request(&mut self, tag: u16) -> (Description, &mut [u8]) {
        let buffer = &mut self.buffers[usize::from(tag)];
        // SAFETY: the mapping has a description for each tag, and there is a buffer for each. The kernel has written it before
        // it gave the tag, and writes neither until the tag is given back.
        let description = unsafe { self.descriptions.add(usize::from(tag)).read_volatile() };
        (description, buffer)
    }

    /// Ends a request with its bytes or a negative error, and asks for the next of its tag; sent with the next `wait`.
    pub(crate) fn commit(&mut self, tag: u16, result: i32) -> Result<()> {
        self.push(COMMIT_AND_FETCH, tag, result)
    }

    fn push(&mut self, operation: u32, tag: u16, result: i32) -> Result<()> {
        let command = IoCommand {
            queue: 0,
            tag,
            result,
            address: self.buffers[usize::from(tag)].as_mut_ptr() as u64,
        };
        // SAFETY: a command is plain data of 16 bytes without padding.
        let bytes = unsafe { std::mem::transmute::<IoCommand, [u8; 16]>(command) };
        let entry = opcode::UringCmd16::new(Fd(self.file.as_raw_fd()), operation)
            .cmd(bytes)
            .build()
            .user_data(tag.into());
        // SAFETY: the buffer lives as long as the queue, and is not looked at before the tag comes.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.context("one entry for each tag fits")
    }

    /// Sends what was committed and waits for requests, for so long at the most; the tags that have come.
    pub(crate) fn wait(&mut self, longest: Option<Duration>, came: &mut Vec<u16>) -> Result<()> {
        let waited = match longest {
            None => self.ring.submit_and_wait(1),
            Some(longest) => {
                let longest = Timespec::from(longest);
                let until = SubmitArgs::new().timespec(&longest);
                self.ring.submitter().submit_with_args(1, &until)
            }
        };
        match waited.map_err(|why| why.raw_os_error()) {
            Ok(_) | Err(Some(libc::ETIME | libc::EINTR)) => {}
            Err(code) => bail!(
                "wait for requests: {:?}",
                code.map(io::Error::from_raw_os_error)
            ),
        }
        for done in self.ring.completion() {
            if done.result() < 0 {
                let why = io::Error::from_raw_os_error(-done.result());
                return Err(why).context("fetch a request");
            }
            came.push(done.user_data() as u16);
        }
        Ok(())
    }
}
