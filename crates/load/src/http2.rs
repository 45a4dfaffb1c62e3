//! HTTP/2: many requests at once on one connection, through `h2`, with an asynchronous runtime in
//! each thread.
//!
//! The engines, whose loop has one request per connection, are not used. Requests, schedules,
//! checks and counters are the same. This code is simpler and slower:
//! ```text
//! slot (one request at a time) --+
//! slot                           +--> connection (opened when first needed) --> server
//! slot --------------------------+
//! ```

mod connection;
pub mod probe;
mod request;
mod timers;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result};
use record::load::Fault;
use tokio::task::LocalSet;

use crate::clients::{BACK_OFF_NS, OPENING_GAP_NS, must_back_off};
use crate::clock::{self, now_ns};
use crate::counters::{Counters, InFlight, Success};
use crate::prng::{Prng, WeightedChoice};
use crate::schedule::Pacer;
use crate::target::Target;
use crate::thread::{Control, CpuMeter};
use crate::timeline;
use crate::traffic::{Mix, Traffic};
use crate::window::Window;
use connection::{Connection, Connector, Phase};
use request::PreparedRequest;
use timers::Timers;

/// The engine's name in results.
pub(crate) const NAME: &str = "h2";

/// Longest time until the thread checks whether to stop.
const POLL_NS: u64 = 10_000_000;
/// Time for requests under way to finish when the user ends the run.
const GRACE_NS: u64 = 50_000_000;

/// One thread's part of a load.
pub(crate) struct ThreadPart<'t> {
    pub(crate) traffic: &'t Traffic,
    /// Requests under way on one connection.
    pub(crate) streams: u32,
    pub(crate) target: Target,
    /// Connections of this thread.
    pub(crate) connections: u32,
    pub(crate) counters: Counters,
    pub(crate) pacer: Pacer,
    /// Index of this thread.
    pub(crate) thread: u32,
    pub(crate) start_ns: u64,
}

/// Runs one thread's part until all that counts has ended.
pub(crate) fn work(part: ThreadPart<'_>, control: Control<'_>) -> Result<Counters> {
    let runtime = runtime()?;
    LocalSet::new().block_on(&runtime, async {
        let timers = Rc::new(Timers::new()?);
        let state = Rc::new(ThreadState::new(part, Rc::clone(&timers))?);
        tokio::task::spawn_local(timers.run());
        for slot in 0..state.slots.borrow().len() {
            tokio::task::spawn_local(run_slot(Rc::clone(&state), slot as u32));
        }
        Ok(supervise(&state, control).await)
    })
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context("cannot make a runtime for HTTP/2")
}

/// Ends the run when all requests have ended or the user stops it.
async fn supervise(state: &ThreadState, control: Control<'_>) -> Counters {
    let mut meter = CpuMeter::default();
    let mut stopped_ns = None;
    loop {
        let now = now_ns();
        state.wake(now);
        if stopped_ns.is_none() && control.stop.load(Ordering::Relaxed) {
            stopped_ns = Some(now);
            state.stop(now);
        }
        let window = state.counters.borrow().window;
        meter.update(window, now);
        state.counters.borrow_mut().recorder.rotate(now);
        if stopped_ns.is_some_and(|stopped_ns| stopped_ns + GRACE_NS <= now) {
            state.give_up();
        }
        if state.is_over(now) {
            meter.update(state.counters.borrow().window, now_ns());
            break;
        }
        let wake_ns = meter.next_ns(window).max(now).min(now + POLL_NS);
        state.counters.borrow_mut().stall.sleep(wake_ns);
        state.timers.until(wake_ns, u32::MAX).await;
    }
    // Slots and connections may outlive the load for a moment. What they count then is discarded.
    let no_window = Window {
        open_ns: 0,
        close_ns: 0,
    };
    let discarded = Counters::new(no_window, 0, timeline::discarded());
    let mut counters = state.counters.replace(discarded);
    meter.record(&mut counters);
    counters
}

/// State shared by all slots of a thread.
struct ThreadState {
    counters: RefCell<Counters>,
    pacer: RefCell<Pacer>,
    picker: RefCell<Picker>,
    requests: Vec<PreparedRequest>,
    timers: Rc<Timers>,
    connections: Vec<Connection>,
    slots: RefCell<Vec<Slot>>,
    streams: u32,
    deadline_ns: u64,
    /// Number of arrivals in the window that slots wait for.
    reserved: Cell<u64>,
    stopped: Cell<bool>,
}

/// A slot for one request at a time.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// The next request.
    request: usize,
    in_flight: InFlight,
    /// When the last request ended.
    free_ns: u64,
    /// End of the think time, or of the wait after a failure.
    idle_until_ns: u64,
}

/// Chooses the next request.
enum Picker {
    Round,
    /// At random, by weight.
    Weighted(WeightedChoice),
}

/// When a request begins, and whether its send delay counts.
#[derive(Debug, Clone, Copy)]
struct Due {
    scheduled_ns: u64,
    is_scheduled: bool,
}

impl ThreadState {
    fn new(part: ThreadPart<'_>, timers: Rc<Timers>) -> Result<Self> {
        let ThreadPart {
            traffic,
            streams,
            target,
            connections,
            ..
        } = part;
        let mut requests = Vec::new();
        for exchange in traffic.mix.exchanges() {
            let is_encrypted = traffic.tls.is_some();
            requests.push(PreparedRequest::new(exchange, &traffic.host, is_encrypted)?);
        }
        let mut pacer = part.pacer;
        let mut slots = Vec::new();
        let first = target.first * streams;
        for number in first..first + connections * streams {
            let idle_until_ns = match &mut pacer {
                Pacer::Closed(think_times) => {
                    let wait_ns = u64::from(number / streams) * OPENING_GAP_NS;
                    part.start_ns + wait_ns + think_times.first_ns()
                }
                Pacer::Open(_) => 0,
            };
            slots.push(Slot {
                request: number as usize % requests.len(),
                in_flight: InFlight::NONE,
                free_ns: part.start_ns,
                idle_until_ns,
            });
        }
        let connector = Rc::new(Connector::new(target, traffic.tls.as_ref())?);
        let connection = |number| Connection::new(number, Rc::clone(&connector));
        Ok(Self {
            picker: RefCell::new(Picker::new(traffic, part.thread)),
            counters: RefCell::new(part.counters),
            pacer: RefCell::new(pacer),
            requests,
            timers,
            connections: (0..connections).map(connection).collect(),
            slots: RefCell::new(slots),
            streams,
            deadline_ns: clock::ns(traffic.deadline),
            reserved: Cell::new(0),
            stopped: Cell::new(false),
        })
    }

    /// Records a stall that has just ended. Called by whatever task runs first.
    fn wake(&self, now_ns: u64) {
        let mut counters = self.counters.borrow_mut();
        if counters.stall.is_late(now_ns) {
            counters.wake(now_ns);
        }
    }

    /// Whether no more requests are begun.
    fn is_closed(&self) -> bool {
        self.stopped.get() || self.counters.borrow().is_spent()
    }

    /// Whether everything that counts has ended.
    fn is_over(&self, now_ns: u64) -> bool {
        let counters = self.counters.borrow();
        let close_ns = counters.window.close_ns;
        let has_arrivals = match &*self.pacer.borrow() {
            Pacer::Closed { .. } => false,
            Pacer::Open(arrivals) => !self.is_closed() && arrivals.next_ns < close_ns,
        };
        let has_reserved = !counters.is_spent() && self.reserved.get() > 0;
        counters.pending == 0 && close_ns <= now_ns && !has_arrivals && !has_reserved
    }

    /// Ends the run early: due requests stay unsent, and no more are begun.
    fn stop(&self, now_ns: u64) {
        let mut counters = self.counters.borrow_mut();
        counters.close(now_ns);
        if let Pacer::Open(arrivals) = &mut *self.pacer.borrow_mut() {
            counters.leave_all_unsent(arrivals, now_ns, now_ns);
        }
        self.stopped.set(true);
        self.timers.wake_all();
    }

    /// Withdraws all requests under way.
    fn give_up(&self) {
        let mut counters = self.counters.borrow_mut();
        for slot in self.slots.borrow_mut().iter_mut() {
            counters.withdraw(std::mem::replace(&mut slot.in_flight, InFlight::NONE));
        }
    }

    /// Waits until the slot's next request is due. Returns `None` if there is none.
    async fn due(&self, slot: u32) -> Option<Due> {
        let is_scheduled = match &*self.pacer.borrow() {
            Pacer::Closed(think_times) => Some(!think_times.are_none()),
            Pacer::Open(_) => None,
        };
        match is_scheduled {
            Some(is_scheduled) => self.think(slot, is_scheduled).await,
            None => self.arrival(slot).await,
        }
    }

    /// Waits for the think time of a closed loop. Without think time there is no send delay.
    async fn think(&self, slot: u32, is_scheduled: bool) -> Option<Due> {
        let idle_until_ns = self.slots.borrow()[slot as usize].idle_until_ns;
        if now_ns() < idle_until_ns {
            self.timers.until(idle_until_ns, slot).await;
        }
        let scheduled_ns = if is_scheduled {
            idle_until_ns
        } else {
            now_ns()
        };
        (!self.is_closed()).then_some(Due {
            scheduled_ns,
            is_scheduled,
        })
    }

    /// Takes the next arrival of an open loop and waits for it.
    async fn arrival(&self, slot: u32) -> Option<Due> {
        // After a failed connection arrivals wait, as for a busy connection.
        let idle_until_ns = self.slots.borrow()[slot as usize].idle_until_ns;
        if now_ns() < idle_until_ns {
            self.timers.until(idle_until_ns, slot).await;
        }
        loop {
            let scheduled_ns = self.next_arrival()?;
            let counts = self.counters.borrow().window.contains(scheduled_ns);
            self.reserved.update(|count| count + u64::from(counts));
            self.timers.until(scheduled_ns, slot).await;
            self.reserved.update(|count| count - u64::from(counts));
            let mut counters = self.counters.borrow_mut();
            if counters.is_spent() {
                return None;
            }
            if self.stopped.get() {
                counters.leave_unsent(scheduled_ns, now_ns());
                return None;
            }
            if now_ns() < scheduled_ns.saturating_add(self.deadline_ns) {
                return Some(Due {
                    scheduled_ns,
                    is_scheduled: true,
                });
            }
            let in_flight = counters.begin(scheduled_ns);
            counters.end(in_flight, now_ns(), Err(Fault::ClientLate));
        }
    }

    /// The next arrival whose deadline has not passed. Counts those whose deadline has.
    fn next_arrival(&self) -> Option<u64> {
        let mut pacer = self.pacer.borrow_mut();
        let Pacer::Open(arrivals) = &mut *pacer else {
            return None;
        };
        let now_ns = now_ns();
        self.wake(now_ns);
        while arrivals.next_ns.saturating_add(self.deadline_ns) <= now_ns && !self.is_closed() {
            let scheduled_ns = arrivals.next_ns;
            let mut counters = self.counters.borrow_mut();
            if counters.stall.held_back(scheduled_ns) {
                arrivals.advance();
                let in_flight = counters.begin(scheduled_ns);
                counters.end(in_flight, now_ns, Err(Fault::ClientLate));
            } else {
                let until_ns = now_ns - self.deadline_ns + 1;
                let until_ns = counters.stall.server_wait_end_ns(scheduled_ns, until_ns);
                counters.leave_all_unsent(arrivals, until_ns, now_ns);
            }
        }
        if self.is_closed() {
            return None;
        }
        let scheduled_ns = arrivals.next_ns;
        if now_ns < scheduled_ns {
            self.counters.borrow_mut().stall.caught_up();
        }
        arrivals.advance();
        Some(scheduled_ns)
    }

    fn begin(&self, slot: u32, due: Due) -> InFlight {
        let now_ns = now_ns();
        self.wake(now_ns);
        let mut counters = self.counters.borrow_mut();
        let slot = &mut self.slots.borrow_mut()[slot as usize];
        slot.in_flight = counters.begin(due.scheduled_ns);
        if due.is_scheduled {
            let (scheduled_ns, free_ns) = (due.scheduled_ns, slot.free_ns);
            let delay_ns = counters.stall.send_delay_ns(scheduled_ns, free_ns, now_ns);
            counters.record_send_delay(slot.in_flight, delay_ns);
        }
        slot.in_flight
    }

    fn end(&self, slot: u32, outcome: Result<Success, Fault>) {
        let now_ns = now_ns();
        self.wake(now_ns);
        let think_ns = match &mut *self.pacer.borrow_mut() {
            Pacer::Closed(think_times) => think_times.next_ns(),
            Pacer::Open(_) => 0,
        };
        let back_off_ns = match outcome {
            Err(fault) if must_back_off(fault) => BACK_OFF_NS,
            Ok(_) | Err(_) => 0,
        };
        let mut counters = self.counters.borrow_mut();
        let slot = &mut self.slots.borrow_mut()[slot as usize];
        // The request may have been withdrawn when the user ended the run.
        if slot.in_flight != InFlight::NONE || !self.stopped.get() {
            counters.end(slot.in_flight, now_ns, outcome);
        }
        slot.in_flight = InFlight::NONE;
        slot.free_ns = now_ns;
        slot.idle_until_ns = now_ns + think_ns.max(back_off_ns);
        let mut picker = self.picker.borrow_mut();
        slot.request = picker.next(slot.request, self.requests.len());
        if counters.is_spent() && counters.pending == 0 {
            counters.close(now_ns);
        }
    }
}

/// Sends the requests of a slot, one after the other.
async fn run_slot(state: Rc<ThreadState>, slot: u32) {
    while let Some(due) = state.due(slot).await {
        let in_flight = state.begin(slot, due);
        let request = &state.requests[state.slots.borrow()[slot as usize].request];
        let connection = &state.connections[(slot / state.streams) as usize];
        let phase = Cell::new(Phase::Connecting);
        let exchange = connection.exchange(request, &phase, &state.counters, in_flight);
        let deadline_ns = due.scheduled_ns.saturating_add(state.deadline_ns);
        let outcome = state.timers.within(deadline_ns, slot, exchange).await;
        let outcome = outcome.unwrap_or_else(|| {
            let stall = state.counters.borrow().stall;
            Err(if stall.held_back(due.scheduled_ns) {
                // The client stalled, so the server did not have the whole deadline.
                Fault::ClientLate
            } else {
                phase.get().time_out()
            })
        });
        state.end(slot, outcome);
    }
}

impl Picker {
    fn new(traffic: &Traffic, thread: u32) -> Self {
        match &traffic.mix {
            Mix::Round(_) | Mix::Sessions(_) => Self::Round,
            Mix::Weighted(weighted) => {
                let prng = Prng::for_mix(traffic.seed, thread);
                Self::Weighted(WeightedChoice::new(weighted, prng))
            }
        }
    }

    /// Index of the request after `request`, out of `requests`.
    fn next(&mut self, request: usize, requests: usize) -> usize {
        match self {
            Self::Round => (request + 1) % requests,
            Self::Weighted(choice) => choice.draw(),
        }
    }
}
