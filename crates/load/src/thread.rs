//! One client thread: its loop and its CPU meter.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;

use crate::clients::{Clients, Due, Step};
use crate::clock::{now_ns, thread_cpu_ns};
use crate::sys;
use crate::tally::{Tally, Window};
use crate::target::Target;

/// Longest sleep: after it the thread looks whether it is to stop.
const NAP_NS: u64 = 50_000_000;
/// Time that requests under way get when the user ends the run.
const GRACE_NS: u64 = 500_000_000;

/// Something that owns sockets and does what clients want.
pub(crate) trait Engine: Sized {
    /// Its name in results.
    const NAME: &'static str;

    /// Made on the thread that will use it.
    fn new(target: Target, slots: usize) -> Result<Self>;

    /// Does a step, and the steps that follow from it.
    fn perform(&mut self, clients: &mut Clients<'_>, slot: u32, step: Step);

    /// Waits for something to happen and tells the clients of it.
    fn wait(&mut self, clients: &mut Clients<'_>, patience: Duration) -> Result<()>;
}

/// What ties a thread to the rest.
#[derive(Clone, Copy)]
pub(crate) struct Watch<'w> {
    /// The user ends the run.
    pub(crate) stop: &'w AtomicBool,
    /// How long before a request is due the thread stops sleeping; 0 where it would take the CPU from the server.
    pub(crate) spin_ns: u64,
}

/// Runs the clients until all that counts has ended.
pub(crate) fn work<E: Engine>(
    (mut clients, target): (Clients<'_>, Target),
    watch: &Watch<'_>,
) -> Result<Tally> {
    let mut engine = E::new(target, clients.slots())?;
    let Watch { stop, spin_ns } = *watch;
    sys::wake_sharply();
    let mut meter = Meter::default();
    let mut stopped_ns = None;
    loop {
        let now = now_ns();
        if stopped_ns.is_none() && stop.load(Ordering::Relaxed) {
            stopped_ns = Some(now);
            clients.stop(now);
        }
        meter.look(clients.tally.window, now);
        // The clock is read anew each time: doing a step takes microseconds, and they count.
        while let Some((slot, step)) = clients.due(now_ns()) {
            engine.perform(&mut clients, slot, step);
        }
        clients.tally.diary.turn(now);
        if stopped_ns.is_some_and(|stopped_ns| stopped_ns + GRACE_NS <= now) {
            clients.give_up();
        }
        if clients.is_over(now) {
            // A run that ends by count has closed its window only now.
            meter.look(clients.tally.window, now);
            break;
        }
        let patience = patience(
            clients.next_due(),
            meter.next_ns(clients.tally.window),
            spin_ns,
        );
        engine.wait(&mut clients, patience)?;
    }
    let mut tally = clients.tally;
    tally.cpu_ns = meter.cpu_ns();
    Ok(tally)
}

/// How long a thread may sleep.
fn patience(due: Due, meter_ns: u64, spin_ns: u64) -> Duration {
    let until_ns = due
        .sharp_ns
        .saturating_sub(spin_ns)
        .min(due.blunt_ns)
        .min(meter_ns);
    Duration::from_nanos(until_ns.saturating_sub(now_ns()).min(NAP_NS))
}

/// CPU time of the calling thread between the window's ends.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    open_cpu_ns: Option<u64>,
    close_cpu_ns: Option<u64>,
}

impl Meter {
    pub(crate) fn look(&mut self, window: Window, now_ns: u64) {
        if self.open_cpu_ns.is_none() && window.open_ns <= now_ns {
            self.open_cpu_ns = Some(thread_cpu_ns());
        }
        if self.close_cpu_ns.is_none() && window.close_ns <= now_ns {
            self.close_cpu_ns = Some(thread_cpu_ns());
        }
    }

    /// When it must look next.
    pub(crate) fn next_ns(&self, window: Window) -> u64 {
        match (self.open_cpu_ns, self.close_cpu_ns) {
            (None, _) => window.open_ns,
            (_, None) => window.close_ns,
            (Some(_), Some(_)) => u64::MAX,
        }
    }

    pub(crate) fn cpu_ns(&self) -> u64 {
        let (Some(open_ns), Some(close_ns)) = (self.open_cpu_ns, self.close_cpu_ns) else {
            return 0;
        };
        close_ns.saturating_sub(open_ns)
    }
}
