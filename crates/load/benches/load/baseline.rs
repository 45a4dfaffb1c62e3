//! A server that costs less than any client, alone on CPU 0.
//!
//! Against nginx, a client waits for the server and is woken for nearly every response, which
//! dominates its cost. Against this server the client is the bottleneck, so its work is measured.
//! The server answers every request with the same bytes, many with one system call. It busy-waits
//! while it has connections, so clients do not pay for waking it.

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

/// First argument of the bench that makes it this server.
pub(crate) const ROLE: &str = "baseline";

/// Number of descriptors that it can serve.
const PLACES: usize = 4096;
/// Size of a read; longer requests need several.
const READ_BYTES: usize = 1024;
/// End of a request without a body.
const END: &[u8] = b"\r\n\r\n";

const ACCEPT: u64 = u64::MAX;
/// Key of sends and closes, whose results are ignored.
const LAST: u64 = u64::MAX - 1;

/// A server process of the bench; ends when it is dropped.
pub(crate) struct BenchServer {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl BenchServer {
    /// Starts the bench in the role of a server, which prints its address first.
    pub(crate) fn start(program: &str, role: &str, argument: &str) -> Result<Self> {
        let command = [program, role, argument].map(str::to_owned);
        let mut process = bound(SERVER_CPU, &command)
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

impl Drop for BenchServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves until it is killed.
pub(crate) fn serve(body: &str) -> Result<()> {
    let body = std::fs::read(body).with_context(|| format!("cannot read {body}"))?;
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    answer.push_str(std::str::from_utf8(&body).context("body is not text")?);
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
    let mut server = Server::new(listener, answer.into_bytes())?;
    println!("{}", server.listener.local_addr()?);
    server.serve()
}

/// The ring, and state for each descriptor.
struct Server {
    ring: IoUring,
    listener: TcpListener,
    answer: Vec<u8>,
    pieces: Vec<[u8; READ_BYTES]>,
    /// How many bytes of `END` each connection has received.
    matched: Vec<u8>,
    /// Number of connections.
    open: usize,
}

impl Server {
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
            // Without connections it sleeps; otherwise it calls the kernel only if needed.
            let awaited = usize::from(self.open == 0);
            let submitted = self.ring.submit_and_wait(awaited);
            submitted.context("cannot submit")?;
            hint::spin_loop();
            let completions = self.ring.completion();
            batch.extend(completions.map(|each| (each.user_data(), each.result())));
            for (key, result) in batch.drain(..) {
                self.handle(key, result);
            }
        }
    }

    fn handle(&mut self, key: u64, result: i32) {
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

    /// Completions of successful sends are suppressed.
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
