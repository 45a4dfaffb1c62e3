//! From what was typed to what is run. All mistakes in the words come at once, before anything is
//! connected to.

use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow};
use load::climb::{Level, Limit};
use load::expect::Expect;
use load::schedule::{self, Arrivals, Schedule, Think};
use load::script::Script;
use load::tls::{Tls, Trust};
use load::traffic::{self, Cpus, End, EngineChoice, Exchange, Mix, Protocol, Traffic};
use record::file;
use record::problem::{Problem, Problems};
use record::units::show_duration;

use super::files::Output;
use super::first::{self, Wanted};
use super::list::{self, Entry};
use super::ports::Ports;
use super::site::Site;
use super::typed;
use super::url::{Scheme, Url};
use super::wire::Secret;
use crate::cli::load::{Engine, LoadArgs};

/// What is measured when nothing is said.
const WINDOW: Duration = Duration::from_secs(10);
const WARMUP: Duration = Duration::from_secs(1);
/// The shortest window and the shortest deadline.
const SHORTEST: Duration = Duration::from_millis(1);
/// Where a search for the capacity begins, in requests per second.
const SEARCH_PER_S: f64 = 1000.0;

/// A valid load on a server that answers.
pub(super) struct Order {
    pub(super) url: String,
    pub(super) traffic: Traffic,
    pub(super) course: Course,
    /// How answers are checked, in words.
    pub(super) checks: Vec<String>,
    /// Text of the script, where there is one.
    pub(super) script: Option<String>,
    /// Where latencies are to be written.
    pub(super) hdr: Option<Output>,
    /// Where seconds are to be written.
    pub(super) timeline: Option<Output>,
}

/// One run or several.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Course {
    Once,
    Ramp(Vec<Level>),
    Capacity(Limit),
    /// One run, sent by followers.
    Hosts(Vec<String>),
}

/// What was typed, each part valid for itself.
struct Typed {
    url: Url,
    course: Course,
    schedule: Schedule,
    sources: Vec<IpAddr>,
    bits_per_s: Vec<u32>,
    wanted: Wanted,
    asked: Asked,
    hdr: Option<Output>,
    timeline: Option<Output>,
}

/// What is asked for, before anything is known of the answers.
enum Asked {
    Listed(Vec<(Option<u32>, Exchange)>),
    Script(Script, String),
}

/// Reads the order, reaches the server and learns from it what right answers look like.
pub(super) fn read(args: &LoadArgs) -> Result<Order> {
    let typed = Typed::read(args)?;
    let site = Site::reach(&typed.url, tls(args, &typed.url)?, protocol(args))?;
    let script = match &typed.asked {
        Asked::Script(_, text) => Some(text.clone()),
        Asked::Listed(_) => None,
    };
    let (mix, checks) = mix(&site, typed.asked, &typed.wanted)?;
    let traffic = Traffic {
        server: site.server,
        host: site.host,
        protocol: site.protocol,
        tls: site.tls,
        mix,
        schedule: typed.schedule,
        connections: args.connections,
        keep_alive: !args.no_keepalive,
        sources: typed.sources,
        bits_per_s: typed.bits_per_s,
        threads: args.threads,
        deadline: args.deadline,
        warmup: args.warmup.unwrap_or(if args.requests.is_some() {
            Duration::ZERO
        } else {
            WARMUP
        }),
        end: match args.requests {
            Some(count) => End::Count(count),
            None => End::After(args.duration.unwrap_or(WINDOW)),
        },
        seed: args.seed,
        stamps: true,
        engine: match args.engine {
            Engine::Auto => EngineChoice::Fastest,
            Engine::Epoll => EngineChoice::Epoll,
        },
        cpus: if args.own_cpus {
            Cpus::Own
        } else {
            Cpus::Shared
        },
    };
    Ok(Order {
        url: args.url.clone().unwrap_or_default(),
        traffic,
        course: typed.course,
        checks,
        script,
        hdr: typed.hdr,
        timeline: typed.timeline,
    })
}

/// What leader and followers know.
pub(super) fn secret(args: &LoadArgs) -> Result<Secret> {
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

impl Typed {
    fn read(args: &LoadArgs) -> Result<Self, Problems> {
        let mut notes = Notes(Vec::new());
        let url = notes.keep("URL", Url::read(args.url.as_deref().unwrap_or_default()));
        let sources = args
            .source
            .as_deref()
            .map_or(Ok(Vec::new()), typed::sources);
        let sources = notes.keep("--source", sources.and_then(owned));
        let bits_per_s = args.slow.as_deref().map_or(Ok(Vec::new()), typed::speeds);
        let bits_per_s = notes.keep("--slow", bits_per_s);
        let course = course(args, &mut notes);
        let wanted = wanted(args, &mut notes);
        let asked = asked(args, url.as_ref(), &mut notes);
        let open = |path: &Option<PathBuf>| path.as_deref().map(Output::open).transpose();
        let hdr = notes.keep("--hdr", open(&args.hdr));
        let timeline = notes.keep("--timeline", open(&args.timeline));
        notes.amounts(args);
        notes.contradictions(args, url.as_ref());
        let schedule = course
            .as_ref()
            .and_then(|course| notes.keep("--rate", read_schedule(args, course)));
        if let (Some(course), Some(schedule), Some(sources)) = (&course, schedule, &sources) {
            match course {
                Course::Hosts(hosts) => notes.hosts(args, hosts),
                Course::Once | Course::Ramp(_) | Course::Capacity(_) => {
                    notes.room(args, peak(args, schedule, course), sources.len());
                }
            }
        }
        let typed = || {
            Some(Self {
                url: url?,
                course: course?,
                schedule: schedule?,
                sources: sources?,
                bits_per_s: bits_per_s?,
                wanted: wanted?,
                asked: asked?,
                hdr: hdr?,
                timeline: timeline?,
            })
        };
        match typed() {
            Some(typed) if notes.0.is_empty() => Ok(typed),
            Some(_) | None => Err(Problems(notes.0)),
        }
    }
}

/// Mistakes found so far.
struct Notes(Vec<Problem>);

impl Notes {
    /// Keeps what was read of an option, or notes why it could not be.
    fn keep<T>(&mut self, option: &str, read: Result<T, String>) -> Option<T> {
        let note = |what| {
            let (file, remedy) = (option.into(), String::new());
            self.0.push(Problem {
                file,
                line: 0,
                what,
                remedy,
            });
        };
        read.map_err(note).ok()
    }

    /// Amounts of which some is needed.
    fn amounts(&mut self, args: &LoadArgs) {
        let least = |of: &str, remedy: &str| format!("too few {of}: 0 ({remedy})");
        let one = "ask for at least 1";
        let amounts = [
            ("-c", args.connections == 0, least("connections", one)),
            ("-t", args.threads == 0, least("client threads", one)),
            ("-n", args.requests == Some(0), least("requests", one)),
            ("--streams", args.streams == 0, least("streams", one)),
            (
                "-d",
                args.duration.is_some_and(|time| time < SHORTEST),
                format!(
                    "window too short: {} (measure for at least 1ms)",
                    show_duration(args.duration.unwrap_or_default())
                ),
            ),
        ];
        for (option, is_wrong, what) in amounts {
            if is_wrong {
                self.keep::<()>(option, Err(what));
            }
        }
        self.keep("--deadline", check_deadline(args.deadline));
    }

    /// Options that do not go together, as far as the command line's own rules cannot tell.
    fn contradictions(&mut self, args: &LoadArgs, url: Option<&Url>) {
        let remedy = "leave that out, or go over HTTP/1.1";
        let barred = [
            ("--script", args.script.is_some()),
            ("--slow", args.slow.is_some()),
            ("--no-keepalive", args.no_keepalive),
        ];
        let barred = barred.into_iter().filter(|(_, given)| *given && args.http2);
        let barred: Vec<&str> = barred.map(|(option, _)| option).collect();
        if !barred.is_empty() {
            let what = format!("not over HTTP/2: {} ({remedy})", barred.join(", "));
            self.keep::<()>("--http2", Err(what));
        }
        let is_plain = url.is_some_and(|url| url.scheme == Scheme::Http);
        let secure = [
            ("--insecure", args.insecure),
            ("--no-resume", args.no_resume),
        ];
        for (option, _) in secure.into_iter().filter(|(_, given)| *given && is_plain) {
            let what = "nothing is encrypted over http:// (leave it out, or write https://)";
            self.keep::<()>(option, Err(what.into()));
        }
    }

    /// Each host needs a part; ports and descriptors are its own affair.
    fn hosts(&mut self, args: &LoadArgs, hosts: &[String]) {
        if let Some(path) = &args.secret_file {
            self.keep("--secret-file", Secret::read(path));
        }
        for (index, host) in hosts.iter().enumerate() {
            if hosts[..index].contains(host) {
                let what = format!("host named twice: {host} (name each once)");
                self.keep::<()>("--coordinate", Err(what));
            }
        }
        let count = hosts.len() as u64;
        let parts = [
            ("-c", "connections", u64::from(args.connections)),
            ("-n", "requests", args.requests.unwrap_or(u64::MAX)),
        ];
        for (option, of, parts) in parts {
            if 0 < parts && parts < count {
                let what = format!("fewer {of} than hosts: {parts} (ask for {count} or more)");
                self.keep::<()>(option, Err(what));
            }
        }
    }

    /// What the ports and descriptors of this machine do not allow.
    fn room(&mut self, args: &LoadArgs, peak: (u32, Option<f64>), sources: usize) {
        let (connections, rate) = peak;
        let ports = |peak| Ports::read(sources)?.check(peak, !args.no_keepalive);
        let checks = [
            ("-c", ports((connections, None))),
            ("-c", load::drive::allow(connections)),
            ("--rate", ports((0, rate))),
        ];
        for (option, checked) in checks {
            self.keep(option, checked.map_err(|why| format!("{why:#}")));
        }
    }

    /// As `keep`, for a file with mistakes of its own.
    fn keep_file<T>(&mut self, read: Result<T, Problems>) -> Option<T> {
        read.map_err(|problems| self.0.extend(problems.0)).ok()
    }
}

fn check_deadline(deadline: Duration) -> Result<(), String> {
    let shown = show_duration(deadline);
    if deadline < SHORTEST {
        Err(format!(
            "deadline too short: {shown} (allow at least 1ms: below that the client's own timers decide what is late)"
        ))
    } else if typed::LONGEST < deadline {
        Err(format!(
            "deadline too long: {shown} (allow at most 1h: longer latencies are not told apart)"
        ))
    } else {
        Ok(())
    }
}

fn course(args: &LoadArgs, notes: &mut Notes) -> Option<Course> {
    match (&args.ramp, &args.capacity) {
        (Some(ramp), _) => notes.keep("--ramp", typed::ramp(ramp).map(Course::Ramp)),
        (None, Some(limit)) => notes.keep("--capacity", typed::limit(limit).map(Course::Capacity)),
        (None, None) if args.coordinate.is_empty() => Some(Course::Once),
        (None, None) => Some(Course::Hosts(args.coordinate.clone())),
    }
}

fn wanted(args: &LoadArgs, notes: &mut Notes) -> Option<Wanted> {
    let sha256 = args.expect_sha256.as_deref().map(typed::sha256).transpose();
    let status = args.expect_status.unwrap_or(200);
    let status = if (100..600).contains(&status) {
        Ok(status)
    } else {
        Err(format!("not a status: {status} (100 to 599)"))
    };
    let (sha256, status) = (
        notes.keep("--expect-sha256", sha256),
        notes.keep("--expect-status", status),
    );
    Some(Wanted {
        status: status?,
        length: args.expect_length,
        sha256: sha256?,
        content: !args.no_check_content,
    })
}

fn asked(args: &LoadArgs, url: Option<&Url>, notes: &mut Notes) -> Option<Asked> {
    if let Some(path) = &args.script {
        let text = notes.keep("--script", read_text(path))?;
        let script = notes.keep_file(Script::read(&path.display().to_string(), &text))?;
        return Some(Asked::Script(script, text));
    }
    let mut headers = Vec::new();
    for field in &args.headers {
        let field = typed::field(field).and_then(|(name, value)| {
            checked(traffic::check_field(&name, &value)).map(|()| (name, value))
        });
        headers.extend(notes.keep("--header", field));
    }
    let body = match (&args.body, &args.body_file) {
        (Some(text), _) => Some(text.clone().into_bytes()),
        (None, Some(path)) => notes.keep("--body-file", read_bytes(path)),
        (None, None) => Some(Vec::new()),
    }?;
    let url = url?;
    let entries = match &args.url_list {
        None => vec![Entry {
            weight: None,
            path: url.path.clone(),
        }],
        Some(path) => {
            let text = notes.keep("--url-list", read_text(path))?;
            notes.keep_file(list::read(&path.display().to_string(), &text, url))?
        }
    };
    let method = if body.is_empty() { "GET" } else { "POST" };
    let method = args.method.clone().unwrap_or(method.into());
    let method = notes.keep(
        "-X",
        checked(traffic::check_method(&method)).map(|()| method),
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
    Some(Asked::Listed(listed.collect()))
}

fn checked(result: Result<()>) -> Result<(), String> {
    result.map_err(|why| why.to_string())
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    file::read(path).map_err(|why| format!("cannot read {}: {why}", path.display()))
}

fn read_text(path: &Path) -> Result<String, String> {
    file::read_to_string(path).map_err(|why| format!("cannot read {}: {why}", path.display()))
}

fn read_schedule(args: &LoadArgs, course: &Course) -> Result<Schedule, String> {
    let ramped = match course {
        Course::Ramp(levels) => levels.iter().find_map(|level| match level {
            Level::RatePerS(rate) => Some(*rate),
            Level::Connections(_) => None,
        }),
        Course::Capacity(_) => Some(args.rate.unwrap_or(SEARCH_PER_S)),
        Course::Once | Course::Hosts(_) => None,
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
    let hardest = match course {
        Course::Ramp(levels) => levels.iter().fold(rate_per_s, |most, level| match level {
            Level::RatePerS(rate) => most.max(*rate),
            Level::Connections(_) => most,
        }),
        Course::Capacity(_) | Course::Once | Course::Hosts(_) => rate_per_s,
    };
    let hosts = args.coordinate.len().max(1) as u32;
    checked(schedule::check_rate(
        hardest,
        args.threads.saturating_mul(hosts),
    ))?;
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

/// The hardest level: connections, and requests per second where there is a rate.
fn peak(args: &LoadArgs, schedule: Schedule, course: &Course) -> (u32, Option<f64>) {
    let rate = match schedule {
        Schedule::Open { rate_per_s, .. } => Some(rate_per_s),
        Schedule::Closed { .. } => None,
    };
    match course {
        Course::Once | Course::Hosts(_) | Course::Capacity(_) => (args.connections, rate),
        Course::Ramp(levels) => match levels.last() {
            Some(Level::Connections(connections)) => (*connections, rate),
            Some(Level::RatePerS(rate_per_s)) => (args.connections, Some(*rate_per_s)),
            None => (args.connections, rate),
        },
    }
}

/// A source address must be one of this machine; finding out later would look like a lack of ports.
fn owned(sources: Vec<IpAddr>) -> Result<Vec<IpAddr>, String> {
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
        Trust::Anything
    } else {
        Trust::from_pem(&args.ca)?
    };
    Ok(Some(Tls {
        name: url.host.clone(),
        trust,
        resumption: !args.no_resume,
    }))
}

/// What is asked for, with what right answers look like.
fn mix(site: &Site, asked: Asked, wanted: &Wanted) -> Result<(Mix, Vec<String>)> {
    let mut listed = match asked {
        Asked::Script(script, _) => {
            let words = "status, and content where the script says what to expect";
            return Ok((Mix::Sessions(script), vec![words.into()]));
        }
        Asked::Listed(listed) => listed,
    };
    let mut checks = Vec::new();
    for (_, exchange) in &mut listed {
        let (expect, check) = first::learn(site, exchange, wanted)?;
        exchange.expect = expect;
        checks.push(format!("{} {}: {check}", exchange.method, exchange.path));
    }
    let mix = if listed.iter().any(|(weight, _)| weight.is_some()) {
        let weigh = |(weight, exchange): (Option<u32>, _)| (weight.unwrap_or(1), exchange);
        Mix::Weighted(listed.into_iter().map(weigh).collect())
    } else {
        Mix::Round(listed.into_iter().map(|(_, exchange)| exchange).collect())
    };
    Ok((mix, checks))
}
