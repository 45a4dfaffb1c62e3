//! One client thread: its loop and its CPU meter.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;

use crate::clients::{Action, Clients};
use crate::clock::{now_ns, thread_cpu_ns, thread_wait_ns};
use crate::counters::Counters;
use crate::sys;
use crate::target::Target;
use crate::window::Window;

/// Longest sleep: after it the thread looks whether it is to stop. With the grace below, a run that
/// the user ends is over within 100 ms.
const POLL_NS: u64 = 20_000_000;
/// Time that requests under way get when the user ends the run.
const GRACE_NS: u64 = 50_000_000;
/// Requests begun at once: then the thread looks at its sockets and whether it is to stop, however
/// many are due.
const BATCH: usize = 256;

/// Something that does what clients want, and tells the time. In tests both are made up.
pub(crate) trait Engine {
    /// The instant that it is now.
    fn now_ns(&self) -> u64 {
        now_ns()
    }

    /// Does an action, and the actions that follow from it.
    fn perform(&mut self, clients: &mut Clients<'_>, slot: u32, action: Action);

    /// Waits for something to happen and tells the clients of it; first of all that they are awake.
    fn wait(&mut self, clients: &mut Clients<'_>, patience: Duration) -> Result<()>;
}

/// An engine that owns sockets.
pub(crate) trait Sockets: Engine + Sized {
    /// Its name in results.
    const NAME: &'static str;

    /// Made on the thread that will use it.
    fn new(target: Target, slots: usize) -> Result<Self>;
}

/// What a thread is told from outside.
#[derive(Clone, Copy)]
pub(crate) struct Control<'r> {
    /// The user ends the run.
    pub(crate) stop: &'r AtomicBool,
    /// How long before a request is due the thread stops sleeping; 0 where it would take the CPU
    /// from the server.
    pub(crate) spin_ns: u64,
}

/// The clients of one thread, and the two ends of their connections.
pub(crate) struct ClientThread<'r> {
    pub(crate) clients: Clients<'r>,
    pub(crate) target: Target,
}

/// Runs the clients over sockets until all that counts has ended.
pub(crate) fn work<E: Sockets>(
    ClientThread { clients, target }: ClientThread<'_>,
    control: Control<'_>,
) -> Result<Counters> {
    let mut engine = E::new(target, clients.slots())?;
    sys::wake_sharply();
    run(&mut engine, clients, control)
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
    (counters.cpu_ns, counters.wait_ns) = meter.used_ns();
    Ok(counters)
}

/// Begins what is due, as far as a batch goes. After the first action the clock is read anew each
/// time: doing one takes microseconds, and they count.
fn begin_due(engine: &mut impl Engine, clients: &mut Clients<'_>, now_ns: u64) {
    let mut now_ns = now_ns;
    for _ in 0..BATCH {
        let Some((slot, action)) = clients.due(now_ns) else {
            return;
        };
        engine.perform(clients, slot, action);
        now_ns = engine.now_ns();
    }
}

/// CPU time of the calling thread between the window's ends, and time that it waited for a CPU.
#[derive(Debug, Default)]
pub(crate) struct CpuMeter {
    open: Option<Used>,
    close: Option<Used>,
}

/// What a thread has used so far.
#[derive(Debug, Clone, Copy)]
struct Used {
    cpu_ns: u64,
    wait_ns: u64,
}

impl Used {
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
            self.open = Some(Used::now());
        }
        if self.close.is_none() && window.close_ns <= now_ns {
            self.close = Some(Used::now());
        }
    }

    /// When it must be updated next.
    pub(crate) fn next_ns(&self, window: Window) -> u64 {
        match (self.open, self.close) {
            (None, _) => window.open_ns,
            (_, None) => window.close_ns,
            (Some(_), Some(_)) => u64::MAX,
        }
    }

    /// Time on a CPU, and time ready and without one.
    pub(crate) fn used_ns(&self) -> (u64, u64) {
        let (Some(open), Some(close)) = (self.open, self.close) else {
            return (0, 0);
        };
        (
            close.cpu_ns.saturating_sub(open.cpu_ns),
            close.wait_ns.saturating_sub(open.wait_ns),
        )
    }
}
