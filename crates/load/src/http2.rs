//! HTTP/2: many requests at once on one connection, through `h2` on a small runtime of each thread's own.
//!
//! Apart from the engines, whose loop knows one request per connection. What a request is, when it is due, how its
//! answer is checked and where it is counted are the same; the way there is slower and simpler:
//! ```text
//! seat (one request at a time) --+
//! seat                           +--> line (one connection, opened when first needed) --> server
//! seat --------------------------+
//! ```

mod alarm;
pub mod ask;
mod line;
mod order;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result};
use record::load::Fault;
use tokio::task::LocalSet;

use crate::clock::{self, now_ns};
use crate::dice::Dice;
use crate::schedule::Pacer;
use crate::tally::{Begun, Served, Tally, Window};
use crate::target::Target;
use crate::thread::{Meter, Watch};
use crate::timeline;
use crate::traffic::{Mix, Traffic};
use alarm::Alarm;
use line::{Line, Phase, Way};
use order::Order;

/// Its name in results.
pub(crate) const NAME: &str = "h2";

/// Longest time in which the thread does not look whether it is to stop.
const NAP_NS: u64 = 10_000_000;
/// Time that requests under way get when the user ends the run.
const GRACE_NS: u64 = 50_000_000;
/// How long a seat waits after a connection that could not be made, so that it does not spin.
const BACK_OFF_NS: u64 = 100_000_000;
/// Connections of a closed loop begin so long one after the other; see `clients`.
const OPENING_GAP_NS: u64 = 50_000;

/// One thread's part of a load.
pub(crate) struct Crew<'t> {
    pub(crate) traffic: &'t Traffic,
    /// Requests under way on one connection.
    pub(crate) streams: u32,
    pub(crate) target: Target,
    /// Connections of this thread.
    pub(crate) connections: u32,
    pub(crate) tally: Tally,
    pub(crate) pacer: Pacer,
    /// Number of this thread.
    pub(crate) thread: u32,
    pub(crate) start_ns: u64,
}

/// Runs the crew until all that counts has ended.
pub(crate) fn work(crew: Crew<'_>, watch: &Watch<'_>) -> Result<Tally> {
    let runtime = runtime()?;
    LocalSet::new().block_on(&runtime, async {
        let alarm = Rc::new(Alarm::new()?);
        let room = Rc::new(Room::new(crew, Rc::clone(&alarm))?);
        tokio::task::spawn_local(alarm.run());
        for seat in 0..room.seats.borrow().len() {
            tokio::task::spawn_local(sit(Rc::clone(&room), seat as u32));
        }
        Ok(conduct(&room, watch).await)
    })
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context("cannot make a runtime for HTTP/2")
}

/// Watches over the seats from outside.
async fn conduct(room: &Room, watch: &Watch<'_>) -> Tally {
    let mut meter = Meter::default();
    let mut stopped_ns = None;
    loop {
        let now = now_ns();
        if stopped_ns.is_none() && watch.stop.load(Ordering::Relaxed) {
            stopped_ns = Some(now);
            room.stop(now);
        }
        let window = room.tally.borrow().window;
        meter.look(window, now);
        room.tally.borrow_mut().diary.turn(now);
        if stopped_ns.is_some_and(|stopped_ns| stopped_ns + GRACE_NS <= now) {
            room.give_up();
        }
        if room.is_over(now) {
            meter.look(room.tally.borrow().window, now_ns());
            break;
        }
        let look_ns = meter.next_ns(window).max(now).min(now + NAP_NS);
        room.alarm.until(look_ns, u32::MAX).await;
    }
    // Seats and connections may outlive the load by a moment; what they count then is not looked at.
    let mut tally = room
        .tally
        .replace(Tally::new(NO_WINDOW, 0, timeline::unread()));
    tally.cpu_ns = meter.cpu_ns();
    tally
}

const NO_WINDOW: Window = Window {
    open_ns: 0,
    close_ns: 0,
};

/// What the seats of a thread share. There is one thread, so nothing is locked.
struct Room {
    tally: RefCell<Tally>,
    pacer: RefCell<Pacer>,
    draw: RefCell<Draw>,
    orders: Vec<Order>,
    alarm: Rc<Alarm>,
    lines: Vec<Line>,
    seats: RefCell<Vec<Seat>>,
    streams: u32,
    deadline_ns: u64,
    /// Arrivals in the window that a seat waits for.
    reserved: Cell<u64>,
    stopped: Cell<bool>,
}

/// A place for one request at a time.
#[derive(Debug, Clone, Copy)]
struct Seat {
    /// The next request.
    order: usize,
    begun: Begun,
    /// Since when it has no request.
    free_ns: u64,
    /// It rests until then.
    rests_until_ns: u64,
}

/// Which request follows.
enum Draw {
    Round,
    /// By chance; each order's weight and those before it, summed up.
    Weighted {
        sums: Vec<u64>,
        dice: Dice,
    },
}

/// When a request begins, and whether that instant was planned.
#[derive(Debug, Clone, Copy)]
struct Turn {
    planned_ns: u64,
    is_planned: bool,
}

impl Room {
    fn new(crew: Crew<'_>, alarm: Rc<Alarm>) -> Result<Self> {
        let Crew {
            traffic,
            streams,
            target,
            connections,
            ..
        } = crew;
        let exchanges: Vec<_> = traffic.mix.exchanges().collect();
        let orders: Result<Vec<_>> = exchanges
            .iter()
            .map(|exchange| Order::new(exchange, &traffic.host, traffic.tls.is_some()))
            .collect();
        let mut pacer = crew.pacer;
        let first = target.first * streams;
        let seat = |seat: u32| Seat {
            order: (first + seat) as usize % exchanges.len(),
            begun: Begun::NONE,
            free_ns: crew.start_ns,
            rests_until_ns: match &mut pacer {
                Pacer::Closed(rests) => {
                    let wait_ns = u64::from(first + seat) / u64::from(streams) * OPENING_GAP_NS;
                    crew.start_ns + wait_ns + rests.first_ns()
                }
                Pacer::Open(_) => 0,
            },
        };
        let seats = (0..connections * streams).map(seat).collect();
        let way = Rc::new(Way::new(target, traffic.tls.as_ref())?);
        let line = |number| Line::new(number, Rc::clone(&way));
        Ok(Self {
            draw: RefCell::new(Draw::new(traffic, crew.thread)),
            tally: RefCell::new(crew.tally),
            pacer: RefCell::new(pacer),
            orders: orders?,
            alarm,
            lines: (0..connections).map(line).collect(),
            seats: RefCell::new(seats),
            streams,
            deadline_ns: clock::ns(traffic.deadline),
            reserved: Cell::new(0),
            stopped: Cell::new(false),
        })
    }

    /// Nothing more is begun.
    fn is_closed(&self) -> bool {
        self.stopped.get() || self.tally.borrow().is_spent()
    }

    /// Whether all that counts has ended.
    fn is_over(&self, now_ns: u64) -> bool {
        let tally = self.tally.borrow();
        let owes = match &*self.pacer.borrow() {
            Pacer::Closed { .. } => false,
            Pacer::Open(stream) => !self.is_closed() && stream.next_ns < tally.window.close_ns,
        };
        let waits = !tally.is_spent() && self.reserved.get() > 0;
        tally.pending == 0 && tally.window.close_ns <= now_ns && !owes && !waits
    }

    /// The user ends the run: what was due and not begun stays unsent, and nothing more is begun.
    fn stop(&self, now_ns: u64) {
        let mut tally = self.tally.borrow_mut();
        tally.close(now_ns);
        if let Pacer::Open(stream) = &mut *self.pacer.borrow_mut() {
            tally.leave_all_unsent(stream, now_ns, now_ns);
        }
        self.stopped.set(true);
        self.alarm.ring_all();
    }

    /// Gives up all requests under way.
    fn give_up(&self) {
        let mut tally = self.tally.borrow_mut();
        for seat in self.seats.borrow_mut().iter_mut() {
            tally.withdraw(std::mem::replace(&mut seat.begun, Begun::NONE));
        }
    }

    /// Waits until the seat's next request is due; nothing if there is none.
    async fn turn(&self, seat: u32) -> Option<Turn> {
        let is_planned = match &*self.pacer.borrow() {
            Pacer::Closed(rests) => Some(!rests.are_none()),
            Pacer::Open(_) => None,
        };
        match is_planned {
            Some(is_planned) => self.rest(seat, is_planned).await,
            None => self.arrival(seat).await,
        }
    }

    /// Rests between two requests of a closed loop. A client that does not think is never late.
    async fn rest(&self, seat: u32, is_planned: bool) -> Option<Turn> {
        let rests_until_ns = self.seats.borrow()[seat as usize].rests_until_ns;
        if now_ns() < rests_until_ns {
            self.alarm.until(rests_until_ns, seat).await;
        }
        let planned_ns = if is_planned { rests_until_ns } else { now_ns() };
        (!self.is_closed()).then_some(Turn {
            planned_ns,
            is_planned,
        })
    }

    /// Takes the next arrival of an open loop and waits for it.
    async fn arrival(&self, seat: u32) -> Option<Turn> {
        // After a connection that could not be made: arrivals wait, as they would for a busy connection.
        let rests_until_ns = self.seats.borrow()[seat as usize].rests_until_ns;
        if now_ns() < rests_until_ns {
            self.alarm.until(rests_until_ns, seat).await;
        }
        loop {
            let planned_ns = self.next_arrival()?;
            let counts = self.tally.borrow().window.contains(planned_ns);
            self.reserved.update(|count| count + u64::from(counts));
            self.alarm.until(planned_ns, seat).await;
            self.reserved.update(|count| count - u64::from(counts));
            let mut tally = self.tally.borrow_mut();
            if tally.is_spent() {
                return None;
            }
            if self.stopped.get() {
                tally.leave_unsent(planned_ns, now_ns());
                return None;
            }
            if now_ns() < planned_ns.saturating_add(self.deadline_ns) {
                return Some(Turn {
                    planned_ns,
                    is_planned: true,
                });
            }
            let begun = tally.plan(planned_ns);
            tally.end(begun, now_ns(), Err(Fault::ClientLate));
        }
    }

    /// The next arrival that can still be served. Those that nobody could serve in time are counted.
    fn next_arrival(&self) -> Option<u64> {
        let mut pacer = self.pacer.borrow_mut();
        let Pacer::Open(stream) = &mut *pacer else {
            return None;
        };
        let now_ns = now_ns();
        if stream.next_ns.saturating_add(self.deadline_ns) <= now_ns && !self.is_closed() {
            let until_ns = now_ns - self.deadline_ns + 1;
            let mut tally = self.tally.borrow_mut();
            tally.leave_all_unsent(stream, until_ns, now_ns);
        }
        if self.is_closed() {
            return None;
        }
        let planned_ns = stream.next_ns;
        stream.advance();
        Some(planned_ns)
    }

    fn begin(&self, seat: u32, turn: Turn) -> Begun {
        let now_ns = now_ns();
        let mut tally = self.tally.borrow_mut();
        let seat = &mut self.seats.borrow_mut()[seat as usize];
        seat.begun = tally.plan(turn.planned_ns);
        if turn.is_planned {
            let due_ns = turn.planned_ns.max(seat.free_ns);
            tally.late(seat.begun, now_ns.saturating_sub(due_ns));
        }
        seat.begun
    }

    fn end(&self, seat: u32, outcome: Result<Served, Fault>) {
        let now_ns = now_ns();
        let think_ns = match &mut *self.pacer.borrow_mut() {
            Pacer::Closed(rests) => rests.next_ns(),
            Pacer::Open(_) => 0,
        };
        let failed =
            outcome.is_err_and(|fault| fault == Fault::ConnectFailed || fault.is_clients_own());
        let mut tally = self.tally.borrow_mut();
        let seat = &mut self.seats.borrow_mut()[seat as usize];
        // Given up already, when a run is ended early.
        if seat.begun != Begun::NONE || !self.stopped.get() {
            tally.end(seat.begun, now_ns, outcome);
        }
        seat.begun = Begun::NONE;
        seat.free_ns = now_ns;
        let back_off_ns = if failed { BACK_OFF_NS } else { 0 };
        seat.rests_until_ns = now_ns + think_ns.max(back_off_ns);
        self.draw
            .borrow_mut()
            .next(&mut seat.order, self.orders.len());
        if tally.is_spent() && tally.pending == 0 {
            tally.close(now_ns);
        }
    }
}

/// A seat's life: one request after the other.
async fn sit(room: Rc<Room>, seat: u32) {
    while let Some(turn) = room.turn(seat).await {
        let begun = room.begin(seat, turn);
        let order = &room.orders[room.seats.borrow()[seat as usize].order];
        let line = &room.lines[(seat / room.streams) as usize];
        let phase = Cell::new(Phase::Connecting);
        let exchange = line.exchange(order, &phase, &room.tally, begun);
        let deadline_ns = turn.planned_ns.saturating_add(room.deadline_ns);
        let outcome = room.alarm.within(deadline_ns, seat, exchange).await;
        room.end(seat, outcome.unwrap_or_else(|| Err(phase.get().time_out())));
    }
}

impl Draw {
    fn new(traffic: &Traffic, thread: u32) -> Self {
        match &traffic.mix {
            Mix::Round(_) | Mix::Sessions(_) => Self::Round,
            Mix::Weighted(weighted) => {
                let sums = weighted.iter().scan(0, |sum, (weight, _)| {
                    *sum += u64::from(*weight);
                    Some(*sum)
                });
                Self::Weighted {
                    sums: sums.collect(),
                    dice: Dice::new(traffic.seed, (1 << 32) | u64::from(thread)),
                }
            }
        }
    }

    fn next(&mut self, order: &mut usize, orders: usize) {
        match self {
            Self::Round => *order = (*order + 1) % orders,
            Self::Weighted { sums, dice } => {
                let total = sums.last().expect("a mix is checked: it has an exchange");
                let drawn = dice.below(*total);
                *order = sums.partition_point(|sum| *sum <= drawn);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weighted_draw_keeps_its_weights() {
        let mut draw = Draw::Weighted {
            sums: vec![1, 1, 4],
            dice: Dice::new(1, 1),
        };
        let (mut order, mut seen) = (0, [0; 3]);
        for _ in 0..40_000 {
            draw.next(&mut order, 3);
            seen[order] += 1;
        }
        assert_eq!(seen[1], 0, "{seen:?}");
        assert!((9_500..10_500).contains(&seen[0]), "{seen:?}");
    }
}
