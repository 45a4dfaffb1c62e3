//! What is measured: the scenes, and what each client did in each.

use crate::child::{CLIENT_CPU, SERVER_CPU};
use crate::peers::Tool;
use crate::ratio::{self, Median};

/// The two files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum File {
    Tiny,
    Image,
}

impl File {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Image => "image",
        }
    }
}

/// Who serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    Nginx,
    /// The bench's own, which costs less than any client.
    Baseline,
    /// The null server, which leaves connections open for a second after the last answer.
    Late,
}

/// One way to load a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene {
    pub(crate) title: &'static str,
    pub(crate) host: Host,
    pub(crate) file: File,
    pub(crate) connections: u32,
    pub(crate) keep_alive: bool,
    pub(crate) seconds: u64,
    /// Where the client runs.
    pub(crate) cpu: &'static str,
    pub(crate) tools: &'static [Tool],
}

/// h2load 1.52 left no summary when asked to close connections, so it is left out there.
const CLOSERS: &[Tool] = &[Tool::Epoll, Tool::Uring, Tool::Wrk, Tool::Ab, Tool::Oha];

/// Those that others compare themselves with. ab waits for the server to close.
const LATE: &[Tool] = &[Tool::Epoll, Tool::Uring, Tool::Wrk, Tool::Oha];

/// One connection shows the wake-up of each client, whatever the peer.
const FEW: &[Tool] = &[Tool::Epoll, Tool::Uring, Tool::Wrk];

pub(crate) const SCENES: [Scene; 8] = [
    // The server is the limit, and the client is woken for each response.
    Scene {
        title: "78 bytes, 64 connections, keep-alive",
        host: Host::Nginx,
        file: File::Tiny,
        connections: 64,
        keep_alive: true,
        seconds: 1,
        cpu: CLIENT_CPU,
        tools: &Tool::ALL,
    },
    // The client is the limit.
    Scene {
        title: "78 bytes, 64 connections, keep-alive, from a server that costs less than the client",
        host: Host::Baseline,
        file: File::Tiny,
        connections: 64,
        keep_alive: true,
        seconds: 1,
        cpu: CLIENT_CPU,
        tools: &Tool::ALL,
    },
    // Without wake-ups between CPUs.
    Scene {
        title: "78 bytes, 64 connections, keep-alive, client and server share CPU 0",
        host: Host::Nginx,
        file: File::Tiny,
        connections: 64,
        keep_alive: true,
        seconds: 1,
        cpu: SERVER_CPU,
        tools: &Tool::ALL,
    },
    Scene {
        title: "25 KB, 64 connections, keep-alive",
        host: Host::Nginx,
        file: File::Image,
        connections: 64,
        keep_alive: true,
        seconds: 1,
        cpu: CLIENT_CPU,
        tools: &Tool::ALL,
    },
    Scene {
        title: "78 bytes, 1 connection, keep-alive",
        host: Host::Nginx,
        file: File::Tiny,
        connections: 1,
        keep_alive: true,
        seconds: 1,
        cpu: CLIENT_CPU,
        tools: FEW,
    },
    Scene {
        title: "78 bytes, 64 connections, a connection per request",
        host: Host::Nginx,
        file: File::Tiny,
        connections: 64,
        keep_alive: false,
        seconds: 1,
        cpu: CLIENT_CPU,
        tools: CLOSERS,
    },
    Scene {
        title: "78 bytes, 1 connection, a connection per request",
        host: Host::Nginx,
        file: File::Tiny,
        connections: 1,
        keep_alive: false,
        seconds: 1,
        cpu: CLIENT_CPU,
        tools: FEW,
    },
    // envoyproxy/envoy#5788
    Scene {
        title: "78 bytes, 64 connections, a connection per request, from a server that leaves connections open for a second",
        host: Host::Late,
        file: File::Tiny,
        connections: 64,
        keep_alive: false,
        seconds: 2,
        cpu: CLIENT_CPU,
        tools: LATE,
    },
];

/// A scene with all its runs.
pub(crate) struct Contest {
    pub(crate) scene: Scene,
    pub(crate) entries: Vec<Entry>,
}

/// What one client did in a scene: one value per round, and the results of the extra runs.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) tool: Tool,
    /// CPU per request in microseconds.
    pub(crate) cpu_us: Vec<f64>,
    /// The part of it that was spent in the kernel.
    pub(crate) kernel_us: Vec<f64>,
    /// Requests per second of wall time, as the client says.
    pub(crate) per_s: Vec<f64>,
    pub(crate) peak_kib: u64,
    pub(crate) failed: u64,
    /// System calls per request.
    pub(crate) calls: Option<f64>,
    /// Instructions in user space per request.
    pub(crate) instructions: Option<f64>,
}

impl Entry {
    pub(crate) fn new(tool: Tool) -> Self {
        Self {
            tool,
            cpu_us: Vec::new(),
            kernel_us: Vec::new(),
            per_s: Vec::new(),
            peak_kib: 0,
            failed: 0,
            calls: None,
            instructions: None,
        }
    }
}

impl Contest {
    pub(crate) fn entry(&self, tool: Tool) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.tool == tool)
    }

    /// CPU per request of one client divided by that of another, round by round.
    pub(crate) fn ratio(&self, ours: Tool, theirs: Tool) -> Option<Median> {
        let (ours, theirs) = (self.entry(ours)?, self.entry(theirs)?);
        Some(ratio::pairwise(&ours.cpu_us, &theirs.cpu_us))
    }
}
