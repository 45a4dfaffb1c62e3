//! `accept`: many tasks wait for connections on one socket. Does a connection wake one task or all?
//!
//! In 1999 Linux woke all tasks in `accept`, and spent 18 % of its time in the scheduler. Today
//! `accept` wakes one. Tasks that wait in epoll, each with its own instance, are still all woken.
//! Each trial measures both with the same clients: wake-ups, and CPU time of the waiting tasks, per
//! connection.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use plan::Traits;
use plan::fields::Fields;
use record::curve::{Curve, Point};
use record::metric::{Direction, Figure, Role};
use rustix::event::epoll;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::context::WorkloadContext;
use crate::figures::secondary;
use crate::options;
use crate::overview::{Key, Overview};
use crate::ticker::Ticker;
use crate::{Control, Driven, FromPlan, Kind, Timing, Workload, Wrong, check_stop};

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "accept",
    |_| Traits {
        is_static: true,
        ..Traits::default()
    },
    Overview {
        summary: "wakes tasks that wait for connections on one socket, one or all of them",
        primary: "throughput-wake-all",
        machine: &[],
        keys: &[
            Key::new(
                "waiters",
                &["[1, 16, 64]"],
                "tasks that wait, one step after the other",
            ),
            Key::new(
                "window",
                &["\"1s\""],
                "load that is counted, of each step and way",
            ),
        ],
    },
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    /// Waiting tasks of each step, rising.
    waiters: Vec<u64>,
    /// Time for each step in each of the two modes.
    window_ns: u64,
}

/// How tasks wait for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// In `accept`, which wakes one task.
    WakeOne,
    /// In epoll, each with its own instance. All tasks are woken, and all but one find nothing.
    WakeAll,
}

/// Time limit of the connections that release waiters at the end.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(100);

/// Waiters need little stack.
const STACK_BYTES: usize = 64 << 10;

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let waiters = options::steps(fields, "waiters", 1..=5000, "[1, 16, 128]");
        if fields.has("warmup") {
            fields.wrong("warmup", "warmup of a workload that has none", "remove it");
        }
        let window = options::timing(fields)?.window;
        Some(Self {
            waiters: waiters?,
            window_ns: window.as_nanos() as u64,
        })
    }
}

impl Workload for Options {
    fn timing(&self) -> Timing {
        let runs = 2 * self.waiters.len() as u32;
        Timing {
            warmup: Duration::ZERO,
            window: Duration::from_nanos(self.window_ns).saturating_mul(runs),
        }
    }

    fn drive(&self, _: &WorkloadContext, control: &mut Control<'_>) -> Result<Driven> {
        let mut ticker = Ticker::begin(control.watcher, Duration::ZERO);
        let window = Duration::from_nanos(self.window_ns);
        let mut steps = Vec::new();
        for waiters in &self.waiters {
            let one = measure(Mode::WakeOne, *waiters, window, control.stop, &mut ticker)?;
            let all = measure(Mode::WakeAll, *waiters, window, control.stop, &mut ticker)?;
            steps.push((*waiters, one, all));
        }
        Ok(Driven {
            figures: figures(&steps),
            curves: curves(&steps),
            ..Driven::default()
        })
    }
}

/// Result of a step in one mode.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Measurement {
    connections: u64,
    /// Wake-ups of all waiters, with or without a connection.
    wakeups: u64,
    /// CPU time of all waiters.
    cpu_ns: u64,
    seconds: f64,
}

impl Measurement {
    fn wakeups_each(&self) -> f64 {
        self.wakeups as f64 / self.connections as f64
    }

    fn cpu_us_each(&self) -> f64 {
        self.cpu_ns as f64 / 1e3 / self.connections as f64
    }
}

/// State shared by all waiters.
#[derive(Default)]
struct Shared {
    over: AtomicBool,
    ready: AtomicU64,
    wakeups: AtomicU64,
    accepted: AtomicU64,
    cpu_ns: AtomicU64,
}

/// Starts waiters and connects to them repeatedly until the window is over.
fn measure(
    mode: Mode,
    waiters: u64,
    window: Duration,
    stop: &AtomicBool,
    ticker: &mut Ticker<'_>,
) -> Result<Measurement> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen")?;
    listener.set_nonblocking(mode == Mode::WakeAll)?;
    let address = listener.local_addr()?;
    let shared = Shared::default();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for _ in 0..waiters {
            let builder = thread::Builder::new()
                .name("waiter".into())
                .stack_size(STACK_BYTES);
            let (listener, shared) = (&listener, &shared);
            let waiter = builder.spawn_scoped(scope, move || wait(mode, listener, shared));
            match waiter {
                Ok(waiter) => threads.push(waiter),
                Err(why) => {
                    release(shared, address, threads.len());
                    return Err(why).context("create a waiting task");
                }
            }
        }
        let seen = connect(address, waiters, window, &shared, stop, ticker);
        release(&shared, address, threads.len());
        for waiter in threads {
            let ended = waiter.join().expect("waiting does not panic");
            ended.context("wait for a connection")?;
        }
        let (connections, seconds) = seen?;
        let accepted = shared.accepted.load(Ordering::Relaxed);
        if connections == 0 || accepted < connections {
            let what = format!("connections made: {connections}, accepted: {accepted}");
            return Err(Wrong(what).into());
        }
        Ok(Measurement {
            connections,
            wakeups: shared.wakeups.load(Ordering::Relaxed),
            cpu_ns: shared.cpu_ns.load(Ordering::Relaxed),
            seconds,
        })
    })
}

/// Connects, reads the waiter's byte and closes, repeatedly. Returns the number of connections and
/// the time in seconds.
fn connect(
    address: SocketAddr,
    waiters: u64,
    window: Duration,
    shared: &Shared,
    stop: &AtomicBool,
    ticker: &mut Ticker<'_>,
) -> Result<(u64, f64)> {
    while shared.ready.load(Ordering::Relaxed) < waiters {
        thread::sleep(Duration::from_millis(1));
    }
    // Waiters need a few more instructions before they sleep.
    thread::sleep(Duration::from_millis(10));
    let began = Instant::now();
    let mut connections = 0;
    while began.elapsed() < window {
        check_stop(stop)?;
        let mut stream = TcpStream::connect(address).context("connect to a waiting task")?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut byte = [0];
        stream
            .read_exact(&mut byte)
            .context("read from a waiting task")?;
        connections += 1;
        ticker.tick(1);
    }
    Ok((connections, began.elapsed().as_secs_f64()))
}

/// Ends all waiters. In `accept` each needs a connection; in epoll any connection wakes all.
fn release(shared: &Shared, address: SocketAddr, waiters: usize) {
    shared.over.store(true, Ordering::Relaxed);
    for _ in 0..waiters {
        let _ = TcpStream::connect_timeout(&address, RELEASE_TIMEOUT);
    }
}

/// Runs a waiter.
fn wait(mode: Mode, listener: &TcpListener, shared: &Shared) -> std::io::Result<()> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    if mode == Mode::WakeAll {
        let data = epoll::EventData::new_u64(0);
        epoll::add(&set, listener, data, epoll::EventFlags::IN)?;
    }
    let mut events = Vec::with_capacity(1);
    let (cpu_before, sleeps_before) = (cpu_ns(), sleeps()?);
    shared.ready.fetch_add(1, Ordering::Relaxed);
    let mut accepted = 0;
    loop {
        if mode == Mode::WakeAll {
            events.clear();
            epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), None)?;
            // The last connection is not accepted, so it wakes all waiters.
            if shared.over.load(Ordering::Relaxed) {
                break;
            }
        }
        let stream = listener.accept();
        if shared.over.load(Ordering::Relaxed) {
            break;
        }
        if let Ok((mut stream, _)) = stream {
            accepted += 1;
            let _ = stream.write_all(b"!");
        }
    }
    let (cpu_after, sleeps_after) = (cpu_ns(), sleeps()?);
    shared.accepted.fetch_add(accepted, Ordering::Relaxed);
    shared
        .cpu_ns
        .fetch_add(cpu_after - cpu_before, Ordering::Relaxed);
    // The last wake-up is that of the end.
    let wakeups = (sleeps_after - sleeps_before).saturating_sub(1);
    shared.wakeups.fetch_add(wakeups, Ordering::Relaxed);
    Ok(())
}

/// How often the calling thread has slept, and so was woken. Spurious wake-ups within `epoll_wait`
/// do not return to the program, so only the kernel can count them.
fn sleeps() -> std::io::Result<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let count = line.and_then(|count| count.trim().parse().ok());
    count.ok_or_else(|| {
        std::io::Error::other("no voluntary_ctxt_switches in /proc/thread-self/status")
    })
}

/// CPU time of the calling thread.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Number of waiters, and the results of `WakeOne` and `WakeAll`.
type Step = (u64, Measurement, Measurement);

/// The figures of the step with the most waiters.
fn figures(steps: &[Step]) -> Vec<Figure> {
    let (_, one, all) = steps.last().expect("there is a step");
    let lower = |name, unit, value| secondary(name, unit, Direction::Lower, value);
    let rate = |step: &Measurement| step.connections as f64 / step.seconds;
    // The excess over waking one is spent on tasks that find nothing.
    let beyond = 1.0 - one.cpu_us_each() / all.cpu_us_each();
    let primary = "throughput-wake-all";
    vec![
        Figure::new(
            primary,
            "connections/s",
            Direction::Higher,
            Role::Primary,
            rate(all),
        ),
        secondary(
            "throughput-wake-one",
            "connections/s",
            Direction::Higher,
            rate(one),
        ),
        lower("wakeups-wake-all", "wakeups/connection", all.wakeups_each()),
        lower("wakeups-wake-one", "wakeups/connection", one.wakeups_each()),
        lower("cpu-wake-all", "us/connection", all.cpu_us_each()),
        lower("cpu-wake-one", "us/connection", one.cpu_us_each()),
        lower("cpu-for-nothing", "share", beyond.max(0.0)),
    ]
}

fn curves(steps: &[Step]) -> Vec<Curve> {
    let curve = |name: &str, unit: &str, value: &dyn Fn(&Step) -> f64| Curve {
        name: name.into(),
        unit: unit.into(),
        direction: Direction::Lower,
        axis: "waiting tasks".into(),
        points: steps
            .iter()
            .map(|step| Point {
                at: step.0 as f64,
                value: value(step),
            })
            .collect(),
    };
    let (wakeups, cpu) = ("wakeups/connection", "us/connection");
    vec![
        curve("wakeups-wake-all", wakeups, &|step| step.2.wakeups_each()),
        curve("wakeups-wake-one", wakeups, &|step| step.1.wakeups_each()),
        curve("cpu-wake-all", cpu, &|step| step.2.cpu_us_each()),
        curve("cpu-wake-one", cpu, &|step| step.1.cpu_us_each()),
    ]
}
