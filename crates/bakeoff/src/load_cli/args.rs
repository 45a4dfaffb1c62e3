//! `bakeoff load ...`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use base::input::units;
use clap::{Args, ValueEnum};

/// `bakeoff load`: what was typed. Forms with a grammar of their own are read by `options`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line, and they are free of one another"
)]
pub struct LoadArgs {
    /// `http://HOST[:PORT]/PATH` or `https://HOST[:PORT]/PATH`
    #[arg(required_unless_present = "worker")]
    pub url: Option<String>,

    /// Open connections, each with one request at a time
    #[arg(short, long, value_name = "N", default_value_t = 10, help_heading = LOAD)]
    pub connections: u32,
    /// Client threads, at most one per free core
    #[arg(short, long, value_name = "N", default_value_t = 1, help_heading = LOAD)]
    pub threads: u32,
    /// Duration of the measurement [default: 10s]
    #[arg(short, long, value_name = "TIME", value_parser = units::duration)]
    #[arg(conflicts_with = "requests", help_heading = LOAD)]
    pub duration: Option<Duration>,
    /// Measure this many requests and stop
    #[arg(short = 'n', long, value_name = "N", help_heading = LOAD)]
    pub requests: Option<u64>,
    /// Load before the measurement, which is not counted [default: 1s; with -n none]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = LOAD)]
    pub warmup: Option<Duration>,
    /// Requests per second (`2k` is 2000), all connections together, whatever the server does; with
    /// --script visitors per second
    #[arg(short, long, value_name = "R", value_parser = rate, allow_negative_numbers = true)]
    #[arg(help_heading = LOAD)]
    pub rate: Option<f64>,
    /// Send the requests of --rate at random times (a Poisson process) instead of equal intervals
    #[arg(long, help_heading = LOAD)]
    pub poisson: bool,
    /// Think time of each connection between a response and its next request: `200ms`, or at random
    /// `"100ms to 300ms"`
    #[arg(long, value_name = "TIME", value_parser = units::durations, help_heading = LOAD)]
    #[arg(conflicts_with_all = ["rate", "capacity"])]
    pub think: Option<(Duration, Duration)>,
    /// One run per step: `rate=1000..8000/1000`, or `connections=1..64/x2`
    #[arg(long, value_name = "WHAT=FROM..TO/STEP", help_heading = LOAD)]
    #[arg(conflicts_with_all = ["capacity", "requests"])]
    pub ramp: Option<String>,
    /// Search for the highest rate within a limit: `p99<5ms`, `max<20ms`, or
    /// `p99.9<20ms,faults<1%`; begins at --rate [default: 1000]
    #[arg(long, value_name = "LIMIT", conflicts_with = "requests", help_heading = LOAD)]
    pub capacity: Option<String>,
    /// Open a connection for each request
    #[arg(long, help_heading = LOAD)]
    pub no_keepalive: bool,
    /// Use HTTP/2: over http:// without negotiation, over https:// by ALPN
    #[arg(long, help_heading = LOAD)]
    pub http2: bool,
    /// Concurrent requests on each HTTP/2 connection
    #[arg(long, value_name = "N", default_value_t = 10, requires = "http2", help_heading = LOAD)]
    pub streams: u32,
    /// Timeout of a request from its scheduled send time, connecting included
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "30s")]
    #[arg(help_heading = LOAD)]
    pub deadline: Duration,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = LOAD)]
    pub seed: u64,

    /// Method; without a body POST, PUT and PATCH send `Content-Length: 0`
    #[arg(short = 'X', long, value_name = "METHOD", help_heading = REQUESTS)]
    #[arg(conflicts_with = "script")]
    pub method: Option<String>,
    /// Header field, as `Name: value`; repeat it for more
    #[arg(short = 'H', long = "header", value_name = "FIELD", help_heading = REQUESTS)]
    #[arg(conflicts_with = "script")]
    pub headers: Vec<String>,
    /// Body; sets the method to POST by default
    #[arg(long, value_name = "TEXT", help_heading = REQUESTS)]
    #[arg(conflicts_with_all = ["script", "body_file"])]
    pub body: Option<String>,
    /// Body from a file
    #[arg(long, value_name = "FILE", conflicts_with = "script", help_heading = REQUESTS)]
    pub body_file: Option<PathBuf>,
    /// Paths to ask for, one per line, each with a weight before it if they are to be drawn at
    /// random
    #[arg(long, value_name = "FILE", conflicts_with = "script", help_heading = REQUESTS)]
    pub url_list: Option<PathBuf>,
    /// Simulate visitors that follow a script: pages, images, think times, forms
    #[arg(long, value_name = "FILE", help_heading = REQUESTS)]
    #[arg(conflicts_with_all = ["think", "capacity"])]
    pub script: Option<PathBuf>,

    /// Expected status [default: 200]
    #[arg(long, value_name = "STATUS", conflicts_with = "script", help_heading = CHECKS)]
    pub expect_status: Option<u16>,
    /// Expected length of the body in bytes [default: that of a first response]
    #[arg(long, value_name = "BYTES", help_heading = CHECKS)]
    #[arg(conflicts_with_all = ["script", "no_check_content"])]
    pub expect_length: Option<u64>,
    /// Expected SHA-256 of the body [default: that of a first response]
    #[arg(long, value_name = "HEX", help_heading = CHECKS)]
    #[arg(conflicts_with_all = ["script", "no_check_content"])]
    pub expect_sha256: Option<String>,
    /// Check only the status, for pages that change
    #[arg(long, help_heading = CHECKS)]
    pub no_check_content: bool,

    /// Source addresses: `127.0.0.1-127.0.0.16`, `127.1.0.0/24`, several with commas
    #[arg(long, value_name = "ADDRESSES", help_heading = CONNECTION)]
    pub source: Option<String>,
    /// Read at these speeds in bits per second, like modems: `28.8k,56k`
    #[arg(long, value_name = "SPEEDS", help_heading = CONNECTION)]
    pub slow: Option<String>,
    /// CA bundle for https, in PEM
    #[arg(long, value_name = "FILE", conflicts_with = "insecure", help_heading = CONNECTION)]
    #[arg(default_value = "/etc/ssl/certs/ca-certificates.crt")]
    pub ca: PathBuf,
    /// Accept any certificate
    #[arg(long, help_heading = CONNECTION)]
    pub insecure: bool,
    /// Full handshake for each https connection
    #[arg(long, help_heading = CONNECTION)]
    pub no_resume: bool,
    /// How the client waits for sockets
    #[arg(long, value_enum, default_value_t = Engine::Auto, help_heading = CONNECTION)]
    pub engine: Engine,
    /// The client has its CPUs to itself (see taskset): watch the clock before each scheduled send
    /// time even if there is no CPU to spare
    #[arg(long, help_heading = CONNECTION)]
    pub own_cpus: bool,

    /// Send the load from these hosts, each running --worker:
    /// `HOST:PORT,HOST:PORT`
    #[arg(long, value_name = "HOSTS", value_delimiter = ',', help_heading = HOSTS)]
    #[arg(requires = "secret_file", conflicts_with_all = ["ramp", "capacity", "source"])]
    pub coordinate: Vec<String>,
    /// Wait for a coordinator, and send a part of its load
    #[arg(long, value_name = "ADDRESS:PORT", requires = "secret_file", help_heading = HOSTS)]
    #[arg(conflicts_with_all = COORDINATOR_ONLY)]
    pub worker: Option<SocketAddr>,
    /// File with the shared secret of coordinator and workers; a worker loads any address that the coordinator names
    #[arg(long, value_name = "FILE", help_heading = HOSTS)]
    pub secret_file: Option<PathBuf>,

    /// Write the latencies as an `HdrHistogram` log
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub hdr: Option<PathBuf>,
    /// Write requests, failures and latencies of each second as CSV
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub timeline: Option<PathBuf>,
}

/// Help text for scripts.
const EXIT_STATUS: &str = "Exit status: 0 done, also if some requests failed; 2 if none succeeded, a worker was lost, or the load could not run";

const LOAD: &str = "Load";
const REQUESTS: &str = "Requests";
const CHECKS: &str = "Checks";
const CONNECTION: &str = "Connection";
const HOSTS: &str = "Client hosts";
const OUTPUT: &str = "Output";

/// Options that only the coordinator takes.
const COORDINATOR_ONLY: [&str; 28] = [
    "url",
    "coordinate",
    "connections",
    "threads",
    "duration",
    "requests",
    "warmup",
    "rate",
    "poisson",
    "think",
    "ramp",
    "capacity",
    "no_keepalive",
    "http2",
    "deadline",
    "seed",
    "method",
    "headers",
    "body",
    "body_file",
    "url_list",
    "script",
    "no_check_content",
    "source",
    "slow",
    "insecure",
    "hdr",
    "timeline",
];

/// Reads `500`, `2k` or `1.5M`.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1e3),
        None => text
            .strip_suffix('M')
            .map_or((text, 1.0), |number| (number, 1e6)),
    };
    let number: Result<f64, _> = number.parse();
    number
        .map(|number| number * scale)
        .map_err(|_| format!("not a rate: {text:?}, write it like 500, 2k or 1.5M"))
}

/// How the client waits for sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// The fastest that this system allows
    Auto,
    /// epoll, which every kernel has
    Epoll,
}
