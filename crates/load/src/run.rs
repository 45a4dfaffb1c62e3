//! One run: client threads are started, watched and merged.

#[cfg(test)]
pub(crate) mod simulated;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use record::load::LoadResult;

use crate::clients::{Clients, Config, Picker, PreparedRequest, Setup};
use crate::clock::{self, now_ns};
use crate::counters::{self, Counters};
use crate::epoll::Epoll;
use crate::host::HostUsage;
use crate::http2;
use crate::part::Part;
use crate::prng::{Prng, WeightedChoice};
use crate::schedule::Pacer;
use crate::sys;
use crate::target::Target;
use crate::thread::{self, ClientThread, Control, Sockets as _};
use crate::timeline::{self, Timeline};
use crate::tls::ClientTls;
use crate::traffic::{Cpus, End, EngineChoice, Mix, Protocol, Traffic};
use crate::uring::{self, Uring};
use crate::window::Window;
use record::load::Tick;

/// A thread stops sleeping so long before a request is due: sleeps end up to 100 µs late on most
/// machines.
const SPIN_NS: u64 = 150_000;

/// Threads look at the clock every 50 ms at the least; so long after a second they have all handed
/// it over.
const SETTLE_NS: u64 = 60_000_000;

const SECOND_NS: u64 = 1_000_000_000;

/// Descriptors for all but connections.
const OTHER_DESCRIPTORS: u64 = 64;

/// Runs the load and returns what the clients saw.
///
/// A request counts when its scheduled send time lies in the window, however late its response
/// comes. Setting `stop` ends the run early: the window closes at that instant, and the result is
/// right for the shorter window. Errors are mistakes in `traffic`, resources the system refuses,
/// and a stop before the window.
pub fn run(
    traffic: &Traffic,
    stop: &AtomicBool,
    on_tick: &mut dyn FnMut(Tick),
) -> Result<LoadResult> {
    run_at(traffic, now_ns(), stop, on_tick)
}

/// As `run`, beginning at an instant of `clock::now_ns` that may lie ahead.
pub fn run_at(
    traffic: &Traffic,
    start_ns: u64,
    stop: &AtomicBool,
    on_tick: &mut dyn FnMut(Tick),
) -> Result<LoadResult> {
    traffic.check()?;
    allow_connections(traffic.connections)?;
    let threads = threads(traffic);
    let times = Times::new(traffic, start_ns);
    let control = Control {
        stop,
        spin_ns: spin_ns(traffic.cpus, threads as usize),
    };
    let (recorders, timeline) = timeline::begin(threads, times.window.open_ns);
    let shares = (0..threads).zip(recorders).map(|(index, recorder)| {
        let part = Part {
            index,
            count: threads,
        };
        Share {
            part,
            times,
            counters: Counters::new(times.window, budget(traffic.end, part), recorder)
                .of(traffic.schedule),
        }
    });
    let mut observer = Observer {
        times,
        timeline,
        on_tick,
    };
    let requests = requests(traffic);
    let host = HostUsage::now();
    let obstacle = uring_obstacle(traffic);
    let (all_counters, engine) = if let Protocol::Http2 { streams } = traffic.protocol {
        let parts = shares.map(|share| http2_part(traffic, streams, share));
        let parts = parts.collect();
        let all = run_threads(parts, control, &mut observer, http2::work)?;
        (all, http2::NAME)
    } else {
        let parts = shares.map(|share| client_thread(traffic, &requests, share));
        let parts = parts.collect::<Result<_>>()?;
        if obstacle.is_none() {
            let all = run_threads(parts, control, &mut observer, thread::work::<Uring>)?;
            (all, Uring::NAME)
        } else {
            let all = run_threads(parts, control, &mut observer, thread::work::<Epoll>)?;
            (all, Epoll::NAME)
        }
    };
    let mut result = counters::merge(&all_counters, observer.timeline);
    ensure!(
        result.window_ns > 0,
        "stopped in the warm-up: nothing was counted"
    );
    result.connections_asked = traffic.connections.into();
    result.ok_by_address = ok_by_address(traffic, &all_counters);
    host.note(&mut result);
    result.engine = engine.into();
    result.engine_note = obstacle.unwrap_or_default();
    Ok(result)
}

/// What each address of the server answered; none where it has one.
fn ok_by_address(traffic: &Traffic, all: &[Counters]) -> BTreeMap<String, u64> {
    if traffic.more_servers.is_empty() {
        return BTreeMap::new();
    }
    let served = |place: usize| {
        let counts = all
            .iter()
            .filter_map(|counters| counters.ok_by_server.get(place));
        counts.sum()
    };
    let servers = traffic.servers().enumerate();
    servers
        .map(|(place, server)| (server.to_string(), served(place)))
        .collect()
}

/// Makes room for the descriptors of so many connections. The error names the limit that stands in
/// the way.
pub fn allow_connections(connections: u32) -> Result<()> {
    let descriptors = u64::from(connections) + OTHER_DESCRIPTORS;
    let Err(limit) = sys::allow_descriptors(descriptors) else {
        return Ok(());
    };
    bail!(
        "hard limit of descriptors too low for {connections} connections: {limit} (as root raise it with \
         ulimit -n {descriptors}, or ask for fewer connections)"
    )
}

/// Why the fast engine cannot be used, if it cannot.
fn uring_obstacle(traffic: &Traffic) -> Option<String> {
    let obstacle = match traffic.engine {
        _ if traffic.protocol != Protocol::Http1 => "HTTP/2 goes through h2, over epoll",
        EngineChoice::Epoll => "epoll was asked for",
        EngineChoice::Fastest if !traffic.bits_per_s.is_empty() => "slow lines go through epoll",
        EngineChoice::Fastest if matches!(traffic.mix, Mix::Sessions(_)) => {
            "sessions go through epoll"
        }
        EngineChoice::Fastest if !traffic.more_servers.is_empty() => {
            "several addresses go through epoll"
        }
        EngineChoice::Fastest if traffic.tls.is_some() => "TLS goes through epoll",
        EngineChoice::Fastest => return uring::probe().err(),
    };
    Some(obstacle.into())
}

/// When a run begins and what of it counts.
#[derive(Debug, Clone, Copy)]
struct Times {
    start_ns: u64,
    window: Window,
}

impl Times {
    fn new(traffic: &Traffic, start_ns: u64) -> Self {
        let open_ns = start_ns.saturating_add(clock::ns(traffic.warmup));
        let close_ns = match traffic.end {
            End::After(window) => open_ns.saturating_add(clock::ns(window)),
            End::Count(_) => u64::MAX,
        };
        let window = Window { open_ns, close_ns };
        Self { start_ns, window }
    }
}

/// One client thread's share of a run.
struct Share {
    part: Part,
    times: Times,
    counters: Counters,
}

/// Client threads: as many as asked for, but each has a connection and a request to count.
fn threads(traffic: &Traffic) -> u32 {
    let useful = match traffic.end {
        End::After(_) => u32::MAX,
        End::Count(count) => u32::try_from(count).unwrap_or(u32::MAX),
    };
    traffic.threads.min(traffic.connections).min(useful)
}

fn requests(traffic: &Traffic) -> Vec<PreparedRequest> {
    let exchanges = traffic.mix.exchanges();
    let requests = exchanges.map(|exchange| PreparedRequest {
        bytes: exchange.bytes(&traffic.host, traffic.keep_alive),
        expect: exchange.expect.clone(),
        body_bytes: exchange.body.len(),
        is_repeatable: exchange.is_idempotent(),
        is_bodiless: exchange.method == "HEAD",
    });
    requests.collect()
}

/// The clients of one thread, and the two ends of their connections.
fn client_thread<'r>(
    traffic: &'r Traffic,
    requests: &'r [PreparedRequest],
    share: Share,
) -> Result<ClientThread<'r>> {
    let connections = connections(traffic, share.part);
    let config = Config {
        keep_alive: traffic.keep_alive,
        deadline_ns: clock::ns(traffic.deadline),
        start_ns: share.times.start_ns,
        servers: traffic.servers().count() as u32,
        first: connections.start,
    };
    let setup = Setup {
        pacer: pacer(traffic, &share),
        picker: picker(traffic, share.part.index),
        tls: traffic.tls.as_ref().map(ClientTls::new).transpose()?,
        counters: share.counters,
    };
    Ok(ClientThread {
        target: target(traffic, connections.start),
        clients: Clients::new(requests, connections, config, setup),
    })
}

/// As `client_thread`, for HTTP/2.
fn http2_part(traffic: &Traffic, streams: u32, share: Share) -> http2::ThreadPart<'_> {
    let connections = connections(traffic, share.part);
    http2::ThreadPart {
        traffic,
        streams,
        target: target(traffic, connections.start),
        connections: connections.end - connections.start,
        pacer: pacer(traffic, &share),
        thread: share.part.index,
        start_ns: share.times.start_ns,
        counters: share.counters,
    }
}

/// Equally slow connections keep clients in step for long: those that began together would ask in
/// waves.
fn pacer(traffic: &Traffic, share: &Share) -> Pacer {
    let start_ns = share.times.start_ns;
    let pacer = Pacer::new(traffic.schedule, start_ns, share.part, traffic.seed);
    if traffic.bits_per_s.is_empty() {
        pacer
    } else {
        pacer.opening(traffic.warmup / 2)
    }
}

/// The connections of one thread, by their numbers among those of all.
fn connections(traffic: &Traffic, part: Part) -> Range<u32> {
    let numbers = part.range(traffic.connections.into());
    numbers.start as u32..numbers.end as u32
}

/// The two ends of a thread's connections, the first of which has number `first`.
fn target(traffic: &Traffic, first: u32) -> Target {
    Target {
        servers: traffic.servers().collect(),
        sources: traffic.sources.clone(),
        bits_per_s: traffic.bits_per_s.clone(),
        stamps: traffic.stamps,
        first,
    }
}

/// Requests that a thread may count; 0 for any number.
fn budget(end: End, part: Part) -> u64 {
    match end {
        End::After(_) => 0,
        End::Count(count) => part.size(count),
    }
}

fn picker(traffic: &Traffic, thread: u32) -> Picker<'_> {
    match &traffic.mix {
        Mix::Sessions(script) => Picker::Sessions {
            script,
            prng: Prng::for_mix(traffic.seed, thread),
        },
        Mix::Round(_) => Picker::Round,
        Mix::Weighted(weighted) => Picker::Weighted(WeightedChoice::new(
            weighted,
            Prng::for_mix(traffic.seed, thread),
        )),
    }
}

/// Runs one thread per part and tells of their progress until all have ended.
fn run_threads<P: Send>(
    parts: Vec<P>,
    control: Control<'_>,
    observer: &mut Observer<'_>,
    work: fn(P, Control<'_>) -> Result<Counters>,
) -> Result<Vec<Counters>> {
    std::thread::scope(|scope| {
        let (is_busy, all_done) = mpsc::channel::<()>();
        let mut threads = Vec::new();
        for (index, part) in parts.into_iter().enumerate() {
            let is_busy = is_busy.clone();
            let thread = std::thread::Builder::new()
                .name(format!("client-{index}"))
                .spawn_scoped(scope, move || {
                    // Dropped when the thread ends, however it does.
                    let _is_busy = is_busy;
                    work(part, control)
                })
                .context("cannot start a client thread")?;
            threads.push(thread);
        }
        drop(is_busy);
        observer.watch(&all_done);
        threads
            .into_iter()
            .map(|thread| thread.join().expect("client threads do not panic"))
            .collect()
    })
}

/// Waiting actively is for machines that have a CPU to spare for each client thread.
fn spin_ns(cpus: Cpus, threads: usize) -> u64 {
    let count = std::thread::available_parallelism().map_or(1, NonZero::get);
    let needed = match cpus {
        Cpus::Shared => threads + 1,
        Cpus::Own => threads,
    };
    if needed <= count { SPIN_NS } else { 0 }
}

/// Tells of the seconds while the threads run.
struct Observer<'r> {
    times: Times,
    timeline: Timeline,
    on_tick: &'r mut dyn FnMut(Tick),
}

impl Observer<'_> {
    /// Tells of each second that has passed until the channel is closed.
    fn watch(&mut self, all_done: &mpsc::Receiver<()>) {
        for second in 1.. {
            let at_ns = self.times.start_ns + u64::from(second) * SECOND_NS;
            let patience_ns = (at_ns + SETTLE_NS).saturating_sub(now_ns());
            let received = all_done.recv_timeout(Duration::from_nanos(patience_ns));
            let is_over = received == Err(RecvTimeoutError::Disconnected);
            if is_over && now_ns() < at_ns {
                return;
            }
            self.tick(second, at_ns);
            if is_over {
                return;
            }
        }
    }

    fn tick(&mut self, second: u32, at_ns: u64) {
        let window = self.times.window;
        self.timeline.collect();
        (self.on_tick)(Tick {
            second,
            ok: self.timeline.ok,
            faults: self.timeline.faults,
            latency: self.timeline.latency(at_ns - 1, window.open_ns),
            counting: window.meets(at_ns - SECOND_NS, at_ns),
            ended: self.timeline.ended(at_ns, window),
        });
    }
}
