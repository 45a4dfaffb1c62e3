//! Shared by web workloads: a server, a site of a page with two images, and clients that check
//! every response.
//!
//! ```text
//! plan --Web::read--> Web --service--> the server              (prepare)
//!                         --traffic--> clients of its site     (drive)
//! ```
//! Workloads adapt the traffic: schedule, mix, addresses.

pub(crate) mod site_workload;

use std::borrow::Cow;
use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use load::client_limits;
use load::clock;
use load::exchange::Exchange;
use load::expect::Expect;
use load::merge;
use load::ramp::{Level, Step};
use load::run;
use load::traffic::{End, Mix, Traffic};
use plan::fields::Fields;
use record::curve::{Curve, Point};
use record::load::{LoadResult, Tick};
use record::load_path::LoadPath;
use record::metric::Direction;
use serde::{Deserialize, Serialize};

use crate::apache::{self, Mpm};
use crate::context::WorkloadContext;
use crate::nginx;
use crate::probe::Probe;
use crate::service::Service;
use crate::{Control, Driven, SharedStart, Timing, data, options};

/// Options of every web workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Web {
    pub(crate) server: Server,
    /// Most connections at once, each with one request under way.
    pub(crate) connections: u32,
    pub(crate) keep_alive: bool,
    /// Client threads; `None` for one per CPU.
    threads: Option<u32>,
    /// Number of source addresses; 0 for the default address.
    addresses: u32,
    #[serde(flatten)]
    pub(crate) timing: Timing,
    deadline_ns: u64,
}

/// What a server has to serve.
pub(crate) struct SetUp {
    /// Number of connections at once.
    pub(crate) connections: u32,
    pub(crate) keep_alive: bool,
    /// Directory of the files.
    pub(crate) root: PathBuf,
    /// Directory of CGI programs, served below `/cgi-bin/`; ignored by nginx.
    pub(crate) programs: Option<PathBuf>,
    /// Additional lines of configuration.
    pub(crate) extra: String,
    pub(crate) probe: Probe,
}

/// The server program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Server {
    Apache(Mpm),
    Nginx,
}

impl Server {
    /// The name of its service.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Apache(_) => "apache2",
            Self::Nginx => "nginx",
        }
    }

    /// Programs and modules that it uses.
    fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Apache(_) => &[apache::PROGRAM, apache::MODULES],
            Self::Nginx => &[nginx::PROGRAM, nginx::MODULES],
        }
    }
}

/// Largest number of connections of a plan.
pub(crate) const CONNECTIONS: u64 = 10_000;

/// Largest number of source addresses, limited by `WorkloadContext::sources`.
const ADDRESSES: u64 = 4000;

impl Web {
    /// Reads the keys of all web workloads; `example` is a number of connections.
    pub(crate) fn read(fields: &Fields<'_>, example: &str) -> Option<Self> {
        let connections = options::required_count(fields, "connections", 1..=CONNECTIONS, example);
        Self::with_connections(fields, connections)
    }

    /// Reads the keys of all web workloads but `connections`.
    pub(crate) fn with_connections(fields: &Fields<'_>, connections: Option<u64>) -> Option<Self> {
        let server = read_server(fields);
        let keep_alive = options::flag(fields, "keep_alive", true);
        let threads = fields.count("threads", 1..=64);
        if let (Some(threads), Some(connections)) = (threads, connections)
            && threads > connections
        {
            let what = format!("threads above connections ({connections}): {threads}");
            fields.wrong(
                "threads",
                what,
                "a thread without a connection does nothing: lower it",
            );
        }
        let addresses = options::count(fields, "addresses", 1..=ADDRESSES, 0);
        let timing = options::timing(fields);
        let deadline = options::deadline(fields);
        Some(Self {
            server: server?,
            connections: connections? as u32,
            keep_alive: keep_alive?,
            threads: threads.map(|threads| threads as u32),
            addresses: addresses? as u32,
            timing: timing?,
            deadline_ns: deadline?.as_nanos() as u64,
        })
    }

    pub(crate) fn packages(&self) -> Vec<&'static str> {
        match self.server {
            Server::Apache(_) => vec!["apache2"],
            Server::Nginx => vec!["nginx"],
        }
    }

    /// Writes the site and the server's configuration.
    pub(crate) fn service(&self, context: &WorkloadContext, extra: &str) -> Result<Service> {
        let root = context.make_dir("site")?;
        let site = site(context.seed);
        for (name, content) in &site {
            context.write(&format!("site/{name}"), content)?;
        }
        let probe = Probe::Http {
            server: context.at(80),
            path: format!("/{PAGE}"),
            body: Some(site[0].1.as_slice().into()),
        };
        let set_up = SetUp {
            extra: extra.into(),
            ..self.set_up(root, probe)
        };
        self.service_of(context, set_up)
    }

    /// The files in a directory, and nothing else.
    pub(crate) fn set_up(&self, root: PathBuf, probe: Probe) -> SetUp {
        SetUp {
            connections: self.connections,
            keep_alive: self.keep_alive,
            root,
            programs: None,
            extra: String::new(),
            probe,
        }
    }

    /// Writes the server's configuration.
    pub(crate) fn service_of(&self, context: &WorkloadContext, set_up: SetUp) -> Result<Service> {
        match self.server {
            Server::Apache(mpm) => apache::service(context, mpm, set_up),
            Server::Nginx => nginx::service(context, set_up),
        }
    }

    /// A closed loop without think time: each client fetches page and images in turn.
    pub(crate) fn traffic(&self, context: &WorkloadContext) -> Traffic {
        let exchanges = site(context.seed)
            .into_iter()
            .map(|(name, content)| Exchange::get(format!("/{name}"), Expect::body(content)));
        let Timing { warmup, window } = self.timing;
        Traffic {
            host: "bakeoff".into(),
            connections: self.connections,
            keep_alive: self.keep_alive,
            sources: context.sources(self.addresses),
            threads: context.client_threads(self.threads, self.connections),
            more_servers: context.more_at(80),
            deadline: Duration::from_nanos(self.deadline_ns),
            warmup,
            end: End::After(window),
            seed: context.seed,
            ..Traffic::plain(context.at(80), Mix::Round(exchanges.collect()))
        }
    }
}

/// Runs a single load.
pub(crate) fn drive(traffic: &Traffic, control: &mut Control<'_>) -> Result<Driven> {
    let (traffic, start_ns) = match control.watcher.shared_start()? {
        None => (Cow::Borrowed(traffic), clock::now_ns()),
        Some(SharedStart { part, start_ns }) => {
            let (host_traffic, delay) = merge::host_part(traffic, part);
            (Cow::Owned(host_traffic), start_ns + delay.as_nanos() as u64)
        }
    };
    control.watcher.begins();
    let load = run::run_at(&traffic, start_ns, control.stop, &mut |tick| {
        control.watcher.ticks(tick);
    })?;
    let path = LoadPath {
        pace: client_limits::load_pace(&load, &traffic),
        sent_late: client_limits::late(&load),
        ..LoadPath::default()
    };
    Ok(Driven {
        path: Some(path),
        load: Some(load),
        ..Driven::default()
    })
}

/// Runs the levels of a ramp one after the other, each with its own warm-up.
pub(crate) fn ramp(
    traffic: &Traffic,
    levels: &[Level],
    control: &mut Control<'_>,
) -> Result<Vec<Step>> {
    control.watcher.begins();
    let (mut before, mut now) = (Progress::default(), Progress::default());
    let step_ms = match traffic.end {
        End::After(window) => window.as_millis() as u64,
        End::Count(_) => 0,
    };
    let mut from_ms = 0;
    let watcher = RefCell::new(&mut *control.watcher);
    let mut on_tick = |mut tick: Tick| {
        if tick.second <= now.second {
            before.add(&now);
            from_ms += step_ms;
        }
        // The windows of the steps are joined, as in the result.
        tick.ended
            .iter_mut()
            .for_each(|second| second.at_ms += from_ms);
        now = Progress {
            second: tick.second,
            ok: tick.ok,
            faults: tick.faults,
        };
        watcher.borrow_mut().ticks(Tick {
            second: before.second + tick.second,
            ok: before.ok + tick.ok,
            faults: before.faults + tick.faults,
            // Only the warm-up of the first step does not count.
            counting: tick.counting || before.second > 0,
            ..tick
        });
    };
    // Both closures are called on this thread, never at the same time.
    let mut on_step = || watcher.borrow_mut().steps();
    load::ramp::run(traffic, levels, control.stop, &mut on_step, &mut on_tick)
}

/// Counts of a step so far.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    second: u32,
    ok: u64,
    faults: u64,
}

impl Progress {
    fn add(&mut self, step: &Self) {
        self.second += step.second;
        self.ok += step.ok;
        self.faults += step.faults;
    }
}

/// A curve over the steps of a ramp.
pub(crate) fn curve(
    name: &str,
    unit: &str,
    direction: Direction,
    axis: &str,
    steps: &[Step],
    value: impl Fn(&LoadResult) -> f64,
) -> Curve {
    let points = steps.iter().map(|step| Point {
        at: match step.level {
            Level::Connections(connections) => connections.into(),
            Level::RatePerS(rate_per_s) => rate_per_s,
        },
        value: value(&step.result),
    });
    Curve {
        name: name.into(),
        unit: unit.into(),
        direction,
        axis: axis.into(),
        points: points.collect(),
    }
}

/// Successful requests a second over the steps of a ramp.
pub(crate) fn throughput(axis: &str, steps: &[Step]) -> Curve {
    curve(
        "throughput",
        "requests/s",
        Direction::Higher,
        axis,
        steps,
        LoadResult::ok_per_s,
    )
}

/// The 99th percentile of latency over the steps of a ramp.
pub(crate) fn latency_p99(axis: &str, steps: &[Step]) -> Curve {
    let p99_us = |step: &LoadResult| step.latency.quantile_ns(0.99) as f64 / 1e3;
    curve("latency-p99", "us", Direction::Lower, axis, steps, p99_us)
}

/// Adds up all steps of a ramp.
pub(crate) fn chain(steps: &[Step]) -> LoadResult {
    let results: Vec<_> = steps.iter().map(|step| step.result.clone()).collect();
    merge::chain(&results)
}

fn read_server(fields: &Fields<'_>) -> Option<Server> {
    if !fields.has("server") {
        fields.missing("server", "\"apache\" or \"nginx\"");
    }
    let apache = fields.choice("server", &[("apache", true), ("nginx", false)]);
    let mpm = fields.variant("mpm");
    match apache? {
        true if fields.has("mpm") => Some(Server::Apache(mpm?)),
        true => Some(Server::Apache(Mpm::Event)),
        false if fields.has("mpm") => {
            let what = "mpm with a server that has none: nginx";
            fields.wrong("mpm", what, "remove mpm, or write server = \"apache\"");
            None
        }
        false => Some(Server::Nginx),
    }
}

pub(crate) const PAGE: &str = "page.html";
pub(crate) const IMAGES: [&str; 2] = ["left.jpg", "right.jpg"];
const PAGE_BYTES: usize = 22_016;
const IMAGE_BYTES: usize = 25_600;

/// Names and contents of the site's files, the page first: 21.5 KB and twice 25 KB, the sizes of
/// `InfoWorld`'s site of 30 January 2004.
pub(crate) fn site(seed: u64) -> Vec<(&'static str, Vec<u8>)> {
    let mut site = vec![(PAGE, data::page(seed, PAGE_BYTES, &IMAGES))];
    site.extend(IMAGES.map(|name| (name, data::image(seed, IMAGE_BYTES, name))));
    site
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::expect::Content;

    #[test]
    fn every_client_requests_the_page_and_both_images() {
        let web = Web {
            server: Server::Nginx,
            connections: 60,
            keep_alive: true,
            threads: None,
            addresses: 3,
            timing: Timing::from_ns(0, 1),
            deadline_ns: 1,
        };
        let traffic = web.traffic(&WorkloadContext::example());
        let Mix::Round(exchanges) = &traffic.mix else {
            panic!("each client goes round")
        };
        let requested = exchanges.iter().map(|get| match &get.expect.content {
            Content::Bytes(body) => (get.path.as_str(), body.len()),
            Content::Any | Content::Hash { .. } | Content::Begins(_) => (get.path.as_str(), 0),
        });
        let right = [
            ("/page.html", 22_016),
            ("/left.jpg", 25_600),
            ("/right.jpg", 25_600),
        ];
        assert_eq!(requested.collect::<Vec<_>>(), right);
        assert_eq!((traffic.threads, traffic.sources.len()), (2, 3));
    }

    #[test]
    fn a_ramp_takes_the_time_of_all_its_steps() {
        let step = Timing::from_ns(1_000_000_000, 4_000_000_000);
        let Timing { warmup, window } = step.of_steps(3);
        assert_eq!((warmup.as_secs(), window.as_secs()), (1, 14));
    }
}
