//! One run: starts client threads, watches them and merges their counts.

#[cfg(test)]
pub(crate) mod simulated;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use record::load::{LoadResult, Tick};

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

/// Threads busy-wait for this long before a request is due: sleeps end up to 100 µs late on most
/// machines.
const SPIN_NS: u64 = 150_000;

/// Threads check the clock at least every 50 ms, so this long after the end of a second all have
/// handed over its bucket.
const SETTLE_NS: u64 = 60_000_000;

const SECOND_NS: u64 = 1_000_000_000;

/// Descriptors needed beside those of connections.
const OTHER_DESCRIPTORS: u64 = 64;

/// Runs the load and returns what the clients saw.
///
/// A request counts when its scheduled send time lies in the window, however late its response
/// comes. Setting `stop` closes the window at once, and the result covers the shorter window.
/// `on_tick` is called after each second.
///
/// # Errors
/// `traffic` is invalid, the system refuses a resource, or `stop` was set before the window opened.
pub fn run(
    traffic: &Traffic,
    stop: &AtomicBool,
    on_tick: &mut dyn FnMut(Tick),
) -> Result<LoadResult> {
    run_at(traffic, now_ns(), stop, on_tick)
}

/// Like `run`, starting at `start_ns` on the clock of `clock::now_ns`, which may lie in the future.
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
                .for_schedule(traffic.schedule),
        }
    });
    let mut observer = Observer {
        times,
        timeline,
        on_tick,
    };
    let requests = requests(traffic);
    let host = HostUsage::now();
    let no_uring = uring_obstacle(traffic);
    let (all_counters, engine) = if let Protocol::Http2 { streams } = traffic.protocol {
        let parts = shares.map(|share| http2_part(traffic, streams, share));
        let parts = parts.collect();
        let all = run_threads(parts, control, &mut observer, http2::work)?;
        (all, http2::NAME)
    } else {
        let parts = shares.map(|share| client_thread(traffic, &requests, share));
        let parts = parts.collect::<Result<_>>()?;
        if no_uring.is_none() {
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
    host.record_since(&mut result);
    result.engine = engine.into();
    result.engine_note = no_uring.unwrap_or_default();
    Ok(result)
}

/// Successful responses by server address; empty if there is only one address.
fn ok_by_address(traffic: &Traffic, all: &[Counters]) -> BTreeMap<String, u64> {
    let mut by_address = BTreeMap::new();
    if !traffic.more_servers.is_empty() {
        for (index, server) in traffic.servers().enumerate() {
            let counts = all.iter().filter_map(|each| each.ok_by_server.get(index));
            by_address.insert(server.to_string(), counts.sum());
        }
    }
    by_address
}

/// Raises the descriptor limit of this process for this many connections.
///
/// # Errors
/// The hard limit is too low.
pub fn allow_connections(connections: u32) -> Result<()> {
    let descriptors = u64::from(connections) + OTHER_DESCRIPTORS;
    sys::allow_descriptors(descriptors).map_err(|limit| {
        anyhow!(
            "hard limit of descriptors too low for {connections} connections: {limit} (as root \
             raise it with ulimit -n {descriptors}, or ask for fewer connections)"
        )
    })
}

/// Why io_uring cannot be used; `None` if it can.
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

/// When a run begins, and which part of it counts.
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

/// Number of client threads: as configured, but at most one per connection and counted request.
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

/// One thread's part of an HTTP/1.1 load.
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

/// One thread's part of an HTTP/2 load.
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

/// Over slow lines, clients start spread over half the warm-up. Equally slow connections keep
/// clients in step, so clients that start together would send their requests in waves.
fn pacer(traffic: &Traffic, share: &Share) -> Pacer {
    let start_ns = share.times.start_ns;
    let pacer = Pacer::new(traffic.schedule, start_ns, share.part, traffic.seed);
    if traffic.bits_per_s.is_empty() {
        pacer
    } else {
        pacer.spread_start(traffic.warmup / 2)
    }
}

/// The numbers of one thread's connections among those of all threads.
fn connections(traffic: &Traffic, part: Part) -> Range<u32> {
    let numbers = part.range(traffic.connections.into());
    numbers.start as u32..numbers.end as u32
}

/// The endpoints of a thread's connections, the first of which has number `first`.
fn target(traffic: &Traffic, first: u32) -> Target {
    Target {
        servers: traffic.servers().collect(),
        sources: traffic.sources.clone(),
        bits_per_s: traffic.bits_per_s.clone(),
        stamps: traffic.stamps,
        first,
    }
}

/// Number of requests that a thread may count; 0 means any number.
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

/// Runs one thread per part and reports their progress until all have ended.
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

/// How long threads busy-wait before a request is due: 0 unless every client thread has a spare
/// CPU.
fn spin_ns(cpus: Cpus, threads: usize) -> u64 {
    let count = std::thread::available_parallelism().map_or(1, NonZero::get);
    let needed = match cpus {
        Cpus::Shared => threads + 1,
        Cpus::Exclusive => threads,
    };
    if needed <= count { SPIN_NS } else { 0 }
}

/// Reports each second while the threads run.
struct Observer<'r> {
    times: Times,
    timeline: Timeline,
    on_tick: &'r mut dyn FnMut(Tick),
}

impl Observer<'_> {
    /// Reports each second that has passed until the channel is closed.
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
