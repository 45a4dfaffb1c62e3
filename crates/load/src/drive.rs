//! One run: threads are made, watched and merged.

#[cfg(test)]
pub(crate) mod simulated;

use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use record::load::LoadResult;

use crate::Tick;
use crate::clients::{Clients, Order, Picker, Plan, Rules};
use crate::clock::{self, now_ns};
use crate::dice::Dice;
use crate::epoll::Epoll;
use crate::host::Host;
use crate::http2;
use crate::schedule::Pacer;
use crate::sys;
use crate::tally::{self, Tally, Window};
use crate::target::Target;
use crate::thread::{self, Sockets as _, Watch};
use crate::timeline::{self, Timeline};
use crate::tls::Suite;
use crate::traffic::{Cpus, End, EngineChoice, Mix, Protocol, Traffic};
use crate::uring::{self, Uring};

/// A thread stops sleeping so long before a request is due: sleeps end up to 100 us late on most machines.
const SPIN_NS: u64 = 150_000;

/// Threads look at the clock every 50 ms at the least; so long after a second they have all handed it over.
const SETTLE_NS: u64 = 60_000_000;

/// Methods of requests that may be sent twice (RFC 9110, section 9.2.2).
pub(crate) const IDEMPOTENT: [&str; 6] = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"];

const SECOND_NS: u64 = 1_000_000_000;

/// Descriptors for all but connections.
const OTHER_DESCRIPTORS: u64 = 64;

/// Runs the load and returns what the clients saw.
///
/// A request counts when its planned instant lies in the window, however late its answer comes.
/// Setting `stop` ends the run early: the window closes at that instant, and the result is right for the
/// shorter window. Errors are mistakes in `traffic`, resources the system refuses, and a stop before the window.
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
    allow(traffic.connections)?;
    let threads = threads(traffic);
    let span = Span::new(traffic, start_ns);
    let orders = orders(traffic);
    let (diaries, mut timeline) = timeline::begin(threads, span.window.open_ns);
    let turns = (0..threads).zip(diaries).map(|(thread, diary)| {
        let turn = (thread, threads);
        let tally = Tally::new(span.window, budget(traffic.end, turn), diary);
        (turn, tally)
    });
    let chosen = choose(traffic);
    let rest = Rest {
        span,
        stop,
        spin_ns: spin_ns(traffic.cpus, threads as usize),
    };
    let onlooker = (&mut timeline, on_tick);
    let host = Host::now();
    let (tallies, engine) = if let Protocol::Http2 { streams } = traffic.protocol {
        let crew = |(turn, tally)| http2_crew(traffic, streams, (span, turn), tally);
        let crews = turns.map(crew).collect();
        (work_all(crews, &rest, onlooker, http2::work)?, http2::NAME)
    } else {
        let crew = |(turn, tally)| crew(traffic, &orders, (span, turn), tally);
        let crews = turns.map(crew).collect::<Result<_>>()?;
        match &chosen {
            Ok(()) => (
                work_all(crews, &rest, onlooker, thread::work::<Uring>)?,
                Uring::NAME,
            ),
            Err(_) => (
                work_all(crews, &rest, onlooker, thread::work::<Epoll>)?,
                Epoll::NAME,
            ),
        }
    };
    let mut result = tally::merge(&tallies, timeline);
    ensure!(
        result.window_ns > 0,
        "stopped in the warm-up: nothing was counted"
    );
    result.connections_asked = traffic.connections.into();
    host.note(&mut result);
    result.engine = engine.into();
    result.engine_note = chosen.err().unwrap_or_default();
    Ok(result)
}

/// Makes room for the descriptors of so many connections. The error names the limit that stands in the way.
pub fn allow(connections: u32) -> Result<()> {
    let descriptors = u64::from(connections) + OTHER_DESCRIPTORS;
    let Err(limit) = sys::allow_descriptors(descriptors) else {
        return Ok(());
    };
    bail!(
        "hard limit of descriptors too low for {connections} connections: {limit} (as root raise it with \
         ulimit -n {descriptors}, or ask for fewer connections)"
    )
}

/// Whether the fast engine can be used, and if not why.
fn choose(traffic: &Traffic) -> Result<(), String> {
    match traffic.engine {
        _ if traffic.protocol != Protocol::Http1 => {
            Err("HTTP/2 goes through h2, over epoll".into())
        }
        EngineChoice::Epoll => Err("epoll was asked for".into()),
        EngineChoice::Fastest if !traffic.bits_per_s.is_empty() => {
            Err("slow lines go through epoll".into())
        }
        EngineChoice::Fastest if matches!(traffic.mix, Mix::Sessions(_)) => {
            Err("sessions go through epoll".into())
        }
        EngineChoice::Fastest if traffic.tls.is_some() => Err("TLS goes through epoll".into()),
        EngineChoice::Fastest => uring::probe(),
    }
}

/// When a run begins and what of it counts.
#[derive(Debug, Clone, Copy)]
struct Span {
    start_ns: u64,
    window: Window,
}

impl Span {
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

/// Client threads: as many as asked for, but each has a connection and a request to count.
fn threads(traffic: &Traffic) -> u32 {
    let useful = match traffic.end {
        End::After(_) => u32::MAX,
        End::Count(count) => u32::try_from(count).unwrap_or(u32::MAX),
    };
    traffic.threads.min(traffic.connections).min(useful)
}

fn orders(traffic: &Traffic) -> Vec<Order> {
    let exchanges = traffic.mix.exchanges();
    let orders = exchanges.map(|exchange| Order {
        bytes: exchange.bytes(&traffic.host, traffic.keep_alive),
        expect: exchange.expect.clone(),
        body_bytes: exchange.body.len(),
        is_repeatable: IDEMPOTENT.contains(&exchange.method.as_str()),
        is_bodiless: exchange.method == "HEAD",
    });
    orders.collect()
}

/// The clients and the sockets of thread `turn.0` of `turn.1`.
fn crew<'o>(
    traffic: &'o Traffic,
    orders: &'o [Order],
    (span, turn): (Span, (u32, u32)),
    tally: Tally,
) -> Result<(Clients<'o>, Target)> {
    let (numbers, target) = part(traffic, turn);
    let rules = Rules {
        keep_alive: traffic.keep_alive,
        deadline_ns: clock::ns(traffic.deadline),
        start_ns: span.start_ns,
    };
    let plan = Plan {
        tally,
        pacer: pacer(traffic, span, turn),
        picker: picker(traffic, turn.0),
        suite: traffic.tls.as_ref().map(Suite::new).transpose()?,
    };
    Ok((Clients::new(orders, numbers, rules, plan), target))
}

/// As `crew`, for HTTP/2.
fn http2_crew(
    traffic: &Traffic,
    streams: u32,
    (span, turn): (Span, (u32, u32)),
    tally: Tally,
) -> http2::Crew<'_> {
    let (numbers, target) = part(traffic, turn);
    http2::Crew {
        traffic,
        streams,
        target,
        connections: numbers.end - numbers.start,
        tally,
        pacer: pacer(traffic, span, turn),
        thread: turn.0,
        start_ns: span.start_ns,
    }
}

/// Lines that are equally slow keep clients in step for long: those that began together would ask in waves.
fn pacer(traffic: &Traffic, span: Span, turn: (u32, u32)) -> Pacer {
    let pacer = Pacer::new(traffic.schedule, span.start_ns, turn, traffic.seed);
    if traffic.bits_per_s.is_empty() {
        pacer
    } else {
        pacer.opening(traffic.warmup / 2)
    }
}

/// The connections of one thread, and their two ends.
fn part(traffic: &Traffic, turn: (u32, u32)) -> (Range<u32>, Target) {
    let numbers = share(traffic.connections.into(), turn);
    let numbers = numbers.start as u32..numbers.end as u32;
    let target = Target {
        server: traffic.server,
        sources: traffic.sources.clone(),
        bits_per_s: traffic.bits_per_s.clone(),
        stamps: traffic.stamps,
        first: numbers.start,
    };
    (numbers, target)
}

/// Requests that a thread may count; 0 for any number.
fn budget(end: End, turn: (u32, u32)) -> u64 {
    match end {
        End::After(_) => 0,
        End::Count(count) => {
            let share = share(count, turn);
            share.end - share.start
        }
    }
}

fn picker(traffic: &Traffic, thread: u32) -> Picker<'_> {
    // Half of all streams are for arrivals, the others for the mix.
    let dice = Dice::new(traffic.seed, (1 << 32) | u64::from(thread));
    match &traffic.mix {
        Mix::Sessions(script) => Picker::Sessions { script, dice },
        Mix::Round(_) => Picker::Round,
        Mix::Weighted(weighted) => {
            let sums = weighted.iter().scan(0, |sum, (weight, _)| {
                *sum += u64::from(*weight);
                Some(*sum)
            });
            Picker::Weighted {
                sums: sums.collect(),
                dice,
            }
        }
    }
}

/// A thread's share of `total` things: all threads differ by one at most.
pub(crate) fn share(total: u64, (thread, threads): (u32, u32)) -> Range<u64> {
    let first = |thread: u32| {
        let product = u128::from(total) * u128::from(thread) / u128::from(threads);
        product as u64
    };
    first(thread)..first(thread + 1)
}

/// What holds for all threads of a run.
struct Rest<'r> {
    span: Span,
    /// The user ends the run.
    stop: &'r AtomicBool,
    spin_ns: u64,
}

/// Runs one thread per crew and tells of their progress until all have ended.
fn work_all<C: Send>(
    crews: Vec<C>,
    rest: &Rest<'_>,
    (timeline, on_tick): (&mut Timeline, &mut dyn FnMut(Tick)),
    work: fn(C, &Watch<'_>) -> Result<Tally>,
) -> Result<Vec<Tally>> {
    std::thread::scope(|scope| {
        let (busy, all_done) = mpsc::channel::<()>();
        let mut threads = Vec::new();
        for (index, crew) in crews.into_iter().enumerate() {
            let busy = busy.clone();
            let watch = Watch {
                stop: rest.stop,
                spin_ns: rest.spin_ns,
            };
            let thread = std::thread::Builder::new()
                .name(format!("client-{index}"))
                .spawn_scoped(scope, move || {
                    let _busy = busy;
                    work(crew, &watch)
                })
                .context("cannot start a client thread")?;
            threads.push(thread);
        }
        drop(busy);
        watch(&all_done, rest.span, |second, at_ns| {
            timeline.gather();
            on_tick(Tick {
                second,
                ok: timeline.ok,
                faults: timeline.faults,
                latency: timeline.latency(at_ns - 1, rest.span.window.open_ns),
                counting: rest.span.window.meets(at_ns - SECOND_NS, at_ns),
            });
        });
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

/// Tells of each second that has passed until the channel is closed.
fn watch(all_done: &mpsc::Receiver<()>, span: Span, mut on_second: impl FnMut(u32, u64)) {
    for second in 1.. {
        let at_ns = span.start_ns + u64::from(second) * SECOND_NS;
        let patience_ns = (at_ns + SETTLE_NS).saturating_sub(now_ns());
        let heard = all_done.recv_timeout(Duration::from_nanos(patience_ns));
        let is_over = heard == Err(RecvTimeoutError::Disconnected);
        if is_over && now_ns() < at_ns {
            return;
        }
        on_second(second, at_ns);
        if is_over {
            return;
        }
    }
}
