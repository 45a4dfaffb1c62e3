//! Makes a load from the options. All mistakes in the options are reported at once, before any
//! connection.

use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow};
use base::input::file;
use base::input::problem::Problems;
use base::input::units::{show_duration, significant};
use load::exchange::{self, Exchange};
use load::expect::Expect;
use load::ramp::{Level, Limit};
use load::schedule::{self, Arrivals, Schedule, Think};
use load::script::Script;
use load::tls::{Tls, Trust};
use load::traffic::{Cpus, End, EngineChoice, Mix, Protocol, Traffic};

use crate::load_cli::args::{Engine, LoadArgs};
use crate::load_cli::mistakes::{MIN_TIME, Mistakes};
use crate::load_cli::options;
use crate::load_cli::output_files::Output;
use crate::load_cli::ports::Peak;
use crate::load_cli::url_list;
use crate::load_cli::url_list::Entry;
use base::secret::Secret;
use load::probe::{self, Expected, Spelling};
use load::server::Server;
use load::url::{Scheme, Url};

const DEFAULT_WINDOW: Duration = Duration::from_secs(10);
const DEFAULT_WARMUP: Duration = Duration::from_secs(1);

/// Default rate at which a search for the capacity begins.
const CAPACITY_START_PER_S: f64 = 1000.0;

/// Option names for messages about expected responses.
const OPTION_NAMES: Spelling = Spelling {
    status: "--expect-status",
    length: "--expect-length",
    sha256: "--expect-sha256",
    status_alone: "--no-check-content",
};

/// A valid load on a server that responds.
pub(crate) struct Job {
    pub(crate) url: String,
    pub(crate) traffic: Traffic,
    pub(crate) mode: Mode,
    /// Descriptions of how responses are checked.
    pub(crate) checks: Vec<String>,
    /// Text of the script, if there is one.
    pub(crate) script: Option<String>,
    /// Output file for latencies.
    pub(crate) hdr: Option<Output>,
    /// Output file for the counts of each second.
    pub(crate) timeline: Option<Output>,
}

/// One run or several.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Mode {
    Single,
    Ramp(Vec<Level>),
    Capacity(Limit),
    /// One run, sent by workers.
    Hosts(Vec<String>),
}

/// The parsed options, each of them valid.
struct Parsed {
    url: Url,
    mode: Mode,
    schedule: Schedule,
    sources: Vec<IpAddr>,
    bits_per_s: Vec<u32>,
    expected: Expected,
    requests: RequestSource,
    hdr: Option<Output>,
    timeline: Option<Output>,
}

/// The requests, before their responses are known.
enum RequestSource {
    Listed(Vec<(Option<u32>, Exchange)>),
    Script(Script, String),
}

/// Reads the options, connects to the server, and learns from it how successful responses look.
pub(crate) fn read(args: &LoadArgs) -> Result<Job> {
    let parsed = Parsed::read(args)?;
    let server = Server::reach(&parsed.url, tls(args, &parsed.url)?, protocol(args))?;
    let script = match &parsed.requests {
        RequestSource::Script(_, text) => Some(text.clone()),
        RequestSource::Listed(_) => None,
    };
    let (mix, checks) = mix(&server, parsed.requests, &parsed.expected)?;
    let traffic = Traffic {
        server: server.address,
        more_servers: Vec::new(),
        host: server.host,
        protocol: server.protocol,
        tls: server.tls,
        mix,
        schedule: parsed.schedule,
        connections: args.connections,
        keep_alive: !args.no_keepalive,
        sources: parsed.sources,
        bits_per_s: parsed.bits_per_s,
        threads: args.threads,
        deadline: args.deadline,
        warmup: args.warmup.unwrap_or(if args.requests.is_some() {
            Duration::ZERO
        } else {
            DEFAULT_WARMUP
        }),
        end: match args.requests {
            Some(count) => End::Count(count),
            None => End::After(args.duration.unwrap_or(DEFAULT_WINDOW)),
        },
        seed: args.seed,
        stamps: true,
        engine: match args.engine {
            Engine::Auto => EngineChoice::Fastest,
            Engine::Epoll => EngineChoice::Epoll,
        },
        cpus: if args.own_cpus {
            Cpus::Exclusive
        } else {
            Cpus::Shared
        },
    };
    Ok(Job {
        url: args.url.clone().unwrap_or_default(),
        traffic,
        mode: parsed.mode,
        checks,
        script,
        hdr: parsed.hdr,
        timeline: parsed.timeline,
    })
}

/// Reads the secret of coordinator and workers.
pub(crate) fn secret(args: &LoadArgs) -> Result<Secret> {
    let path = args.secret_file.as_deref().unwrap_or(Path::new(""));
    Secret::read(path).map_err(|why| anyhow!("--secret-file: {why}"))
}

fn protocol(args: &LoadArgs) -> Protocol {
    let streams = args.streams;
    if args.http2 {
        Protocol::Http2 { streams }
    } else {
        Protocol::Http1
    }
}

impl Parsed {
    fn read(args: &LoadArgs) -> Result<Self, Problems> {
        let mut mistakes = Mistakes(Vec::new());
        let url = mistakes.keep("URL", Url::read(args.url.as_deref().unwrap_or_default()));
        let sources = args
            .source
            .as_deref()
            .map_or(Ok(Vec::new()), options::sources);
        let sources = mistakes.keep("--source", sources.and_then(check_local));
        let bits_per_s = args.slow.as_deref().map_or(Ok(Vec::new()), options::speeds);
        let bits_per_s = mistakes.keep("--slow", bits_per_s);
        let mode = mode(args, &mut mistakes);
        let expected = expected(args, &mut mistakes);
        let requests = requests(args, url.as_ref(), &mut mistakes);
        let open = |path: &Option<PathBuf>| path.as_deref().map(Output::open).transpose();
        let hdr = mistakes.keep("--hdr", open(&args.hdr));
        let timeline = mistakes.keep("--timeline", open(&args.timeline));
        if let (Some(Some(hdr)), Some(Some(timeline))) = (&hdr, &timeline)
            && hdr.is_same_file(timeline)
        {
            let what = "same file as of --hdr (name two)";
            mistakes.keep::<()>("--timeline", Err(what.into()));
        }
        mistakes.amounts(args);
        mistakes.contradictions(args, url.as_ref());
        let schedule = mode
            .as_ref()
            .and_then(|mode| mistakes.keep("--rate", read_schedule(args, mode)));
        if let (Some(mode), Some(schedule), Some(sources)) = (&mode, schedule, &sources) {
            match mode {
                Mode::Hosts(hosts) => mistakes.hosts(args, hosts),
                Mode::Single | Mode::Ramp(_) | Mode::Capacity(_) => {
                    mistakes.resources(peak(args, schedule, mode), sources.len());
                }
            }
        }
        let parsed = || {
            Some(Self {
                url: url?,
                mode: mode?,
                schedule: schedule?,
                sources: sources?,
                bits_per_s: bits_per_s?,
                expected: expected?,
                requests: requests?,
                hdr: hdr?,
                timeline: timeline?,
            })
        };
        match parsed() {
            Some(parsed) if mistakes.0.is_empty() => Ok(parsed),
            Some(_) | None => Err(Problems(mistakes.0)),
        }
    }
}

fn mode(args: &LoadArgs, mistakes: &mut Mistakes) -> Option<Mode> {
    match (&args.ramp, &args.capacity) {
        (Some(ramp), _) => mistakes.keep("--ramp", options::ramp(ramp).map(Mode::Ramp)),
        (None, Some(limit)) => {
            mistakes.keep("--capacity", options::limit(limit).map(Mode::Capacity))
        }
        (None, None) if args.coordinate.is_empty() => Some(Mode::Single),
        (None, None) => Some(Mode::Hosts(args.coordinate.clone())),
    }
}

fn expected(args: &LoadArgs, mistakes: &mut Mistakes) -> Option<Expected> {
    let sha256 = args
        .expect_sha256
        .as_deref()
        .map(options::sha256)
        .transpose();
    let status = args.expect_status.unwrap_or(200);
    let status = if (100..600).contains(&status) {
        Ok(status)
    } else {
        Err(format!("not a status: {status} (100 to 599)"))
    };
    let sha256 = mistakes.keep("--expect-sha256", sha256);
    let status = mistakes.keep("--expect-status", status);
    Some(Expected {
        status: status?,
        length: args.expect_length,
        sha256: sha256?,
        content: !args.no_check_content,
        spelling: OPTION_NAMES,
    })
}

fn requests(args: &LoadArgs, url: Option<&Url>, mistakes: &mut Mistakes) -> Option<RequestSource> {
    if let Some(path) = &args.script {
        let text = mistakes.keep("--script", read_text(path))?;
        let script = mistakes.keep_file(Script::read(&path.display().to_string(), &text))?;
        return Some(RequestSource::Script(script, text));
    }
    let mut headers = Vec::new();
    for field in &args.headers {
        let field = options::field(field).and_then(|(name, value)| {
            to_message(exchange::check_field(&name, &value)).map(|()| (name, value))
        });
        headers.extend(mistakes.keep("--header", field));
    }
    let body = match (&args.body, &args.body_file) {
        (Some(text), _) => Some(text.clone().into_bytes()),
        (None, Some(path)) => mistakes.keep("--body-file", read_bytes(path)),
        (None, None) => Some(Vec::new()),
    }?;
    mistakes.keep(
        "--header",
        to_message(exchange::check_framing(&headers, body.len())),
    );
    let url = url?;
    let entries = match &args.url_list {
        None => vec![Entry {
            weight: None,
            path: url.path.clone(),
        }],
        Some(path) => {
            let text = mistakes.keep("--url-list", read_text(path))?;
            mistakes.keep_file(url_list::read(&path.display().to_string(), &text, url))?
        }
    };
    let method = if body.is_empty() { "GET" } else { "POST" };
    let method = args.method.clone().unwrap_or(method.into());
    let method = mistakes.keep(
        "-X",
        to_message(exchange::check_method(&method)).map(|()| method),
    )?;
    let exchange = |entry: Entry| Exchange {
        method: method.clone(),
        headers: headers.clone(),
        body: body.clone(),
        ..Exchange::get(entry.path, Expect::status(200))
    };
    let listed = entries
        .into_iter()
        .map(|entry| (entry.weight, exchange(entry)));
    Some(RequestSource::Listed(listed.collect()))
}

fn to_message(result: Result<()>) -> Result<(), String> {
    result.map_err(|why| why.to_string())
}

/// Limit on the size of files that options name.
const MAX_FILE_BYTES: u64 = 256 << 20;

fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    file::read(path, MAX_FILE_BYTES).map_err(|why| format!("cannot read {}: {why}", path.display()))
}

fn read_text(path: &Path) -> Result<String, String> {
    file::read_to_string(path, MAX_FILE_BYTES)
        .map_err(|why| format!("cannot read {}: {why}", path.display()))
}

fn read_schedule(args: &LoadArgs, mode: &Mode) -> Result<Schedule, String> {
    let ramped = match mode {
        Mode::Ramp(levels) => levels.iter().find_map(|level| match level {
            Level::RatePerS(rate) => Some(*rate),
            Level::Connections(_) => None,
        }),
        Mode::Capacity(_) => Some(args.rate.unwrap_or(CAPACITY_START_PER_S)),
        Mode::Single | Mode::Hosts(_) => None,
    };
    let Some(rate_per_s) = ramped.or(args.rate) else {
        if args.poisson {
            return Err("nothing to space at random: --poisson (give a --rate)".into());
        }
        return Ok(Schedule::Closed {
            think: args
                .think
                .map_or(Think::NONE, |(least, most)| Think { least, most }),
        });
    };
    if args.think.is_some() {
        return Err("think time beside a rate: --think (leave one of them out)".into());
    }
    // The last step of a ramp is the highest.
    let highest_per_s = match mode {
        Mode::Ramp(levels) => match levels.last() {
            Some(Level::RatePerS(rate_per_s)) => *rate_per_s,
            Some(Level::Connections(_)) | None => rate_per_s,
        },
        Mode::Capacity(_) | Mode::Single | Mode::Hosts(_) => rate_per_s,
    };
    let hosts = args.coordinate.len().max(1) as u32;
    let threads = args.threads.saturating_mul(hosts);
    // A ramp rises, so its first rate is its lowest.
    for rate_per_s in [rate_per_s, highest_per_s] {
        to_message(schedule::check_rate(rate_per_s, threads))?;
    }
    check_window(args, rate_per_s)?;
    let arrivals = if args.poisson {
        Arrivals::Poisson
    } else {
        Arrivals::Constant
    };
    Ok(Schedule::Open {
        rate_per_s,
        arrivals,
    })
}

/// Refuses a window in which no request is due.
fn check_window(args: &LoadArgs, rate_per_s: f64) -> Result<(), String> {
    let window = args.duration.unwrap_or(DEFAULT_WINDOW);
    let has_request = rate_per_s * window.as_secs_f64() >= 1.0;
    if args.requests.is_some() || window < MIN_TIME || has_request {
        return Ok(());
    }
    let shown = show_duration(window);
    Err(format!(
        "rate too low for the window: {rate_per_s} per second has none due in {shown} (ask for at least {}, or measure \
         longer with -d)",
        significant(1.0 / window.as_secs_f64(), 3)
    ))
}

/// The demand of the load at its highest level.
fn peak(args: &LoadArgs, schedule: Schedule, mode: &Mode) -> Peak {
    let mut peak = Peak {
        connections: args.connections,
        rate_per_s: schedule.rate_per_s(),
        keep_alive: !args.no_keepalive,
    };
    if let Mode::Ramp(levels) = mode {
        match levels.last() {
            Some(Level::Connections(connections)) => peak.connections = *connections,
            Some(Level::RatePerS(rate_per_s)) => peak.rate_per_s = Some(*rate_per_s),
            None => {}
        }
    }
    peak
}

/// Refuses source addresses of other hosts. Later, such an error would look like a lack of ports.
fn check_local(sources: Vec<IpAddr>) -> Result<Vec<IpAddr>, String> {
    for source in &sources {
        UdpSocket::bind((*source, 0)).map_err(|why| {
            format!("not an address of this machine: {source}: {why} (add it with: ip address add)")
        })?;
    }
    Ok(sources)
}

fn tls(args: &LoadArgs, url: &Url) -> Result<Option<Tls>> {
    if url.scheme == Scheme::Http {
        return Ok(None);
    }
    let trust = if args.insecure {
        Trust::Any
    } else {
        Trust::from_pem(&args.ca)?
    };
    Ok(Some(Tls {
        name: url.host.clone(),
        trust,
        resumption: !args.no_resume,
    }))
}

/// The mix of requests with their expected responses, and descriptions of the checks.
fn mix(
    server: &Server,
    requests: RequestSource,
    expected: &Expected,
) -> Result<(Mix, Vec<String>)> {
    let mut listed = match requests {
        RequestSource::Script(script, _) => {
            let words = "status, and content where the script says what to expect";
            return Ok((Mix::Sessions(script), vec![words.into()]));
        }
        RequestSource::Listed(listed) => listed,
    };
    let mut checks = Vec::new();
    for (_, exchange) in &mut listed {
        let (expect, check) = probe::learn(server, exchange, expected)?;
        exchange.expect = expect;
        checks.push(format!("{} {}: {check}", exchange.method, exchange.path));
    }
    let mix = if listed.iter().any(|(weight, _)| weight.is_some()) {
        let weighted = listed.into_iter();
        let weighted = weighted.map(|(weight, exchange)| (weight.unwrap_or(1), exchange));
        Mix::Weighted(weighted.collect())
    } else {
        Mix::Round(listed.into_iter().map(|(_, exchange)| exchange).collect())
    };
    Ok((mix, checks))
}
