//! The scenes of the bench, and the results of each client.

use crate::child::{CLIENT_CPU, SERVER_CPU};
use crate::peers::Tool;
use crate::ratio::{self, Median};

/// A file that the server has.
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

/// The server of a scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    Nginx,
    /// The bench's baseline server, which costs less than any client.
    Baseline,
    /// The null server, which closes connections a second after the last response.
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
    /// CPU of the client.
    pub(crate) cpu: &'static str,
    pub(crate) tools: &'static [Tool],
}

/// h2load 1.52 prints no summary without keep-alive.
const WITHOUT_KEEP_ALIVE: &[Tool] = &[Tool::Epoll, Tool::Uring, Tool::Wrk, Tool::Ab, Tool::Oha];

/// ab waits for the server to close connections.
const LATE: &[Tool] = &[Tool::Epoll, Tool::Uring, Tool::Wrk, Tool::Oha];

/// With one connection the wake-up dominates, whatever the client.
const ONE_CONNECTION: &[Tool] = &[Tool::Epoll, Tool::Uring, Tool::Wrk];

/// The first scene: the server is the limit, and the client is woken for each response.
const BASE: Scene = Scene {
    title: "78 bytes, 64 connections, keep-alive",
    host: Host::Nginx,
    file: File::Tiny,
    connections: 64,
    keep_alive: true,
    seconds: 1,
    cpu: CLIENT_CPU,
    tools: &Tool::ALL,
};

pub(crate) const SCENES: [Scene; 8] = [
    BASE,
    // The client is the limit.
    Scene {
        title: "78 bytes, 64 connections, keep-alive, from a server that costs less than the client",
        host: Host::Baseline,
        ..BASE
    },
    // Without wake-ups between CPUs.
    Scene {
        title: "78 bytes, 64 connections, keep-alive, client and server share CPU 0",
        cpu: SERVER_CPU,
        ..BASE
    },
    Scene {
        title: "25 KB, 64 connections, keep-alive",
        file: File::Image,
        ..BASE
    },
    Scene {
        title: "78 bytes, 1 connection, keep-alive",
        connections: 1,
        tools: ONE_CONNECTION,
        ..BASE
    },
    Scene {
        title: "78 bytes, 64 connections, a connection per request",
        keep_alive: false,
        tools: WITHOUT_KEEP_ALIVE,
        ..BASE
    },
    Scene {
        title: "78 bytes, 1 connection, a connection per request",
        connections: 1,
        keep_alive: false,
        tools: ONE_CONNECTION,
        ..BASE
    },
    // envoyproxy/envoy#5788
    Scene {
        title: "78 bytes, 64 connections, a connection per request, from a server that leaves connections open for a second",
        host: Host::Late,
        keep_alive: false,
        seconds: 2,
        tools: LATE,
        ..BASE
    },
];

/// A scene with all its runs.
pub(crate) struct Contest {
    pub(crate) scene: Scene,
    pub(crate) entries: Vec<Entry>,
}

/// Results of one client in a scene: one value per round, and those of the extra runs.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) tool: Tool,
    /// CPU per request in microseconds.
    pub(crate) cpu_us: Vec<f64>,
    /// The part of it spent in the kernel.
    pub(crate) kernel_us: Vec<f64>,
    /// Requests per second of wall time, as reported by the client.
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
