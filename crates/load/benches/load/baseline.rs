//! A server that costs less than any client: the bench's own, a process with CPU 0 for itself.
//!
//! Against nginx a client waits for the server, is woken for nearly every response, and what is
//! measured is the wake-up. Here the client is the limit, so what is measured is its work. The
//! server answers every request with the same bytes, many with one system call, and waits actively
//! while it has connections, so that nobody pays for waking it.

use std::hint;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::process::{Child, Stdio};
use std::ptr;

use anyhow::{Context as _, Result};
use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};

use crate::child::{SERVER_CPU, bound};

/// First argument of the bench when it is to be this server.
pub(crate) const ROLE: &str = "baseline";

/// Descriptors that it can serve.
const PLACES: usize = 4096;
/// A request is shorter; the rest of a longer one comes with the next read.
const READ_BYTES: usize = 1024;
/// What ends a request without a body.
const END: &[u8] = b"\r\n\r\n";

const ACCEPT: u64 = u64::MAX;
/// Sending and closing: what ends a connection shows when it is read.
const LAST: u64 = u64::MAX - 1;

/// A server of the bench's own, running; ends with its owner.
pub(crate) struct OwnServer {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl OwnServer {
    /// Starts the bench in a role that serves. It prints its address first.
    pub(crate) fn start(own: &str, role: &str, argument: &str) -> Result<Self> {
        let words = [own, role, argument].map(str::to_owned);
        let mut process = bound(SERVER_CPU, &words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start the {role} server"))?;
        let output = process.stdout.take().expect("the output is piped");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line
            .trim()
            .parse()
            .with_context(|| format!("the {role} server did not start"));
        if address.is_err() {
            let _ = process.kill();
            process.wait()?;
        }
        Ok(Self {
            address: address?,
            process,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves until it is killed.
pub(crate) fn play(body: &str) -> Result<()> {
    let body = std::fs::read(body).with_context(|| format!("cannot read {body}"))?;
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    answer.push_str(std::str::from_utf8(&body).context("body is not text")?);
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
    let mut room = Room::new(listener, answer.into_bytes())?;
    println!("{}", room.listener.local_addr()?);
    room.serve()
}

/// The ring, and a place for each descriptor.
struct Room {
    ring: IoUring,
    listener: TcpListener,
    answer: Vec<u8>,
    pieces: Vec<[u8; READ_BYTES]>,
    /// How much of `END` the last bytes of each connection were.
    matched: Vec<u8>,
    /// Connections.
    open: usize,
}

impl Room {
    fn new(listener: TcpListener, answer: Vec<u8>) -> Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(1024)
            .context("cannot make an io_uring")?;
        Ok(Self {
            ring,
            listener,
            answer,
            pieces: vec![[0; READ_BYTES]; PLACES],
            matched: vec![0; PLACES],
            open: 0,
        })
    }

    fn serve(&mut self) -> Result<()> {
        self.accept();
        let mut batch = Vec::with_capacity(1024);
        loop {
            // Without a connection it leaves its CPU to others; with one it never sleeps, and calls
            // the kernel only when there is something to hand over or to fetch.
            let awaited = usize::from(self.open == 0);
            self.ring
                .submit_and_wait(awaited)
                .context("cannot submit")?;
            hint::spin_loop();
            batch.extend(
                self.ring
                    .completion()
                    .map(|each| (each.user_data(), each.result())),
            );
            for (key, result) in batch.drain(..) {
                self.happened(key, result);
            }
        }
    }

    fn happened(&mut self, key: u64, result: i32) {
        match (key, usize::try_from(result)) {
            (ACCEPT, Ok(place)) if place < PLACES => {
                self.open += 1;
                self.matched[place] = 0;
                self.receive(place);
                self.accept();
            }
            (ACCEPT, _) => self.accept(),
            (LAST, _) => {}
            (place, Err(_) | Ok(0)) => self.close(place),
            (place, Ok(length)) => self.received(place as usize, length),
        }
    }

    fn received(&mut self, place: usize, length: usize) {
        for byte in 0..length {
            let is_next = self.pieces[place][byte] == END[usize::from(self.matched[place])];
            let begins = u8::from(self.pieces[place][byte] == END[0]);
            self.matched[place] = if is_next {
                self.matched[place] + 1
            } else {
                begins
            };
            if usize::from(self.matched[place]) == END.len() {
                self.matched[place] = 0;
                self.send(place);
            }
        }
        self.receive(place);
    }

    fn accept(&mut self) {
        let fd = Fd(self.listener.as_raw_fd());
        let entry = opcode::Accept::new(fd, ptr::null_mut(), ptr::null_mut()).build();
        self.push(&entry.user_data(ACCEPT));
    }

    fn receive(&mut self, place: usize) {
        let piece = self.pieces[place].as_mut_ptr();
        let entry = opcode::Recv::new(descriptor(place), piece, READ_BYTES as u32).build();
        self.push(&entry.user_data(place as u64));
    }

    /// Responses go whole into a socket that is read all the time, so nothing is heard of those
    /// that succeed.
    fn send(&mut self, place: usize) {
        let (start, length) = (self.answer.as_ptr(), self.answer.len() as u32);
        let entry = opcode::Send::new(descriptor(place), start, length)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS);
        self.push(&entry.user_data(LAST));
    }

    fn close(&mut self, place: u64) {
        self.open -= 1;
        let entry = opcode::Close::new(descriptor(place as usize)).build();
        self.push(&entry.user_data(LAST));
    }

    #[expect(unsafe_code, reason = "the kernel uses memory that an entry points to")]
    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: entries point to the response and to pieces, which never move and live as long as
        // the process.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            let submitted = self.ring.submit();
            submitted.expect("the queue is full of valid entries, which the kernel takes");
        }
    }
}

fn descriptor(place: usize) -> Fd {
    Fd(i32::try_from(place).expect("the kernel counts descriptors in an i32"))
}
