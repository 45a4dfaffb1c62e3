//! The loop of one client thread, and its CPU meter.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;

use crate::clients::{Action, Clients};
use crate::clock::{now_ns, thread_cpu_ns, thread_wait_ns};
use crate::counters::Counters;
use crate::sys;
use crate::target::Target;
use crate::window::Window;

/// Longest sleep before the thread checks whether to stop. With `GRACE_NS`, a run that the user
/// ends is over within 100 ms.
const POLL_NS: u64 = 20_000_000;
/// Time for requests under way to finish when the user ends the run.
const GRACE_NS: u64 = 50_000_000;
/// Most requests begun before the thread handles its sockets again.
const BATCH: usize = 256;

/// Performs the actions of clients and supplies the time. Tests simulate both.
pub(crate) trait Engine {
    fn now_ns(&self) -> u64 {
        now_ns()
    }

    /// Starts to connect.
    fn open(&mut self, slot: u32) -> io::Result<()>;

    /// Sends a slot's output. Returns the next action, or `None` if the socket would block.
    fn send(&mut self, clients: &mut Clients<'_>, slot: u32) -> Option<Action>;

    /// Closes a slot's connection.
    fn close(&mut self, slot: u32);

    /// Leaves closing a slot's connection to the server.
    fn put_aside(&mut self, clients: &mut Clients<'_>, slot: u32, now_ns: u64);

    /// Performs an action and all actions that follow from it.
    fn perform(&mut self, clients: &mut Clients<'_>, slot: u32, mut action: Action) {
        loop {
            action = match action {
                Action::Wait => return,
                Action::Open => match self.open(slot) {
                    Ok(()) => return,
                    Err(error) => clients.failed(slot, sys::connect_fault(&error), self.now_ns()),
                },
                Action::Send => match self.send(clients, slot) {
                    Some(action) => action,
                    None => return,
                },
                Action::Close => {
                    self.close(slot);
                    clients.closed(slot, self.now_ns())
                }
                Action::PutAside => {
                    let now_ns = self.now_ns();
                    self.put_aside(clients, slot, now_ns);
                    clients.closed(slot, now_ns)
                }
            };
        }
    }

    /// Waits for events for at most `patience` and passes them to the clients. Calls
    /// `clients.counters.wake` first.
    fn wait(&mut self, clients: &mut Clients<'_>, patience: Duration) -> Result<()>;
}

/// An engine that owns sockets.
pub(crate) trait Sockets: Engine + Sized {
    /// The engine's name in results.
    const NAME: &'static str;

    /// Must be called on the thread that uses the engine.
    fn new(target: Target, slots: usize) -> Result<Self>;
}

/// Settings that all client threads share.
#[derive(Clone, Copy)]
pub(crate) struct Control<'r> {
    /// Set when the user ends the run.
    pub(crate) stop: &'r AtomicBool,
    /// How long before a request is due the thread busy-waits; 0 if that would take CPU time from
    /// the server.
    pub(crate) spin_ns: u64,
}

/// The clients of one thread, and the endpoints of their connections.
pub(crate) struct ClientThread<'r> {
    pub(crate) clients: Clients<'r>,
    pub(crate) target: Target,
}

/// Runs the clients over sockets until all that counts has ended.
pub(crate) fn work<E: Sockets>(thread: ClientThread<'_>, control: Control<'_>) -> Result<Counters> {
    let mut engine = E::new(thread.target, thread.clients.slots())?;
    sys::set_precise_wakeups();
    run(&mut engine, thread.clients, control)
}

/// Runs the clients until all that counts has ended, by the engine's clock.
pub(crate) fn run(
    engine: &mut impl Engine,
    mut clients: Clients<'_>,
    control: Control<'_>,
) -> Result<Counters> {
    let Control { stop, spin_ns } = control;
    let mut meter = CpuMeter::default();
    let mut stopped_ns = None;
    loop {
        let now = engine.now_ns();
        if stopped_ns.is_none() && stop.load(Ordering::Relaxed) {
            stopped_ns = Some(now);
            clients.stop(now);
        }
        meter.update(clients.counters.window, now);
        clients.counters.wake(now);
        begin_due(engine, &mut clients, now);
        clients.counters.recorder.rotate(now);
        if stopped_ns.is_some_and(|stopped_ns| stopped_ns + GRACE_NS <= now) {
            clients.give_up();
        }
        if clients.is_over(now) {
            // A run that ends by count has closed its window only now.
            meter.update(clients.counters.window, now);
            break;
        }
        let due = clients.next_due();
        let meter_ns = meter.next_ns(clients.counters.window);
        let until_ns = due
            .send_ns
            .saturating_sub(spin_ns)
            .min(due.timer_ns)
            .min(meter_ns);
        let now = engine.now_ns();
        clients.counters.wake(now);
        let patience_ns = until_ns.saturating_sub(now).min(POLL_NS);
        clients.counters.stall.sleep(now + patience_ns);
        engine.wait(&mut clients, Duration::from_nanos(patience_ns))?;
    }
    let mut counters = clients.counters;
    meter.record(&mut counters);
    Ok(counters)
}

/// Begins what is due, at most one batch. The clock is read again after each action, because an
/// action takes microseconds.
fn begin_due(engine: &mut impl Engine, clients: &mut Clients<'_>, mut now_ns: u64) {
    for _ in 0..BATCH {
        let Some((slot, action)) = clients.due(now_ns) else {
            return;
        };
        engine.perform(clients, slot, action);
        now_ns = engine.now_ns();
    }
}

/// Measures the CPU time and the run-queue wait of the calling thread within the window.
#[derive(Debug, Default)]
pub(crate) struct CpuMeter {
    open: Option<ThreadTimes>,
    close: Option<ThreadTimes>,
}

/// Times of a thread since it started.
#[derive(Debug, Clone, Copy)]
struct ThreadTimes {
    cpu_ns: u64,
    wait_ns: u64,
}

impl ThreadTimes {
    fn now() -> Self {
        Self {
            cpu_ns: thread_cpu_ns(),
            wait_ns: thread_wait_ns(),
        }
    }
}

impl CpuMeter {
    pub(crate) fn update(&mut self, window: Window, now_ns: u64) {
        if self.open.is_none() && window.open_ns <= now_ns {
            self.open = Some(ThreadTimes::now());
        }
        if self.close.is_none() && window.close_ns <= now_ns {
            self.close = Some(ThreadTimes::now());
        }
    }

    /// When `update` must be called next.
    pub(crate) fn next_ns(&self, window: Window) -> u64 {
        match (self.open, self.close) {
            (None, _) => window.open_ns,
            (_, None) => window.close_ns,
            (Some(_), Some(_)) => u64::MAX,
        }
    }

    /// Adds the times within the window to the counters of the thread.
    pub(crate) fn record(&self, counters: &mut Counters) {
        let (cpu_ns, wait_ns) = match (self.open, self.close) {
            (Some(open), Some(close)) => (
                close.cpu_ns.saturating_sub(open.cpu_ns),
                close.wait_ns.saturating_sub(open.wait_ns),
            ),
            _ => (0, 0),
        };
        counters.record_cpu(cpu_ns, wait_ns);
    }
}
