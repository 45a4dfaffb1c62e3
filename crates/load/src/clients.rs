//! The simulated clients of one thread: what each does next. Touches no socket and reads no clock.
//!
//! An engine owns the sockets. It tells what happened to a connection and does the `Step` that it is told:
//! ```text
//! Resting --Open--> Connecting --Send--> Sending --> Awaiting --> Reading --+--> Idle --Send--> ...
//!    ^                                                                      |
//!    +---------------------------------Close------------- Parting <---------+
//! ```
//! Resting and Idle have no request under way; every other state but Parting has one, and a deadline.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use record::load::Fault;

use crate::answer::{Answer, KnownHead, Reading};
use crate::expect::Expect;
use crate::tally::{Begun, Tally};
use crate::wheel::Wheel;

/// How long a client waits after a connection that could not be made, so that it does not spin.
const BACK_OFF_NS: u64 = 100_000_000;

/// How long a server may take to close a connection whose last answer has come. The side that closes first
/// keeps the port for a minute, so it should be the server; but a server that forgets must not hold a client.
const PARTING_NS: u64 = 100_000_000;

/// What the engine must do with a connection now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing until something happens.
    Wait,
    /// Connect.
    Open,
    /// Send what `output` holds.
    Send,
    /// Close, and then ask `closed` for the next step.
    Close,
}

/// One request as it goes on the wire, and its answer.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) bytes: Vec<u8>,
    pub(crate) expect: Expect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Resting,
    Idle,
    Connecting,
    Sending,
    Awaiting,
    Reading,
    Parting,
}

struct Slot {
    state: State,
    /// The request under way, or the next one.
    order: usize,
    sent: usize,
    begun: Begun,
    answer: Answer,
    /// The client rests until then.
    rests_until_ns: u64,
}

/// All clients of one thread. A slot is one connection at a time.
pub(crate) struct Clients<'o> {
    pub(crate) tally: Tally,
    orders: &'o [Order],
    known_heads: Vec<KnownHead>,
    slots: Vec<Slot>,
    deadlines: Wheel,
    /// Slots that begin at an instant, the earliest on top; a slot is in it at most once.
    wakes: BinaryHeap<Reverse<(u64, u32)>>,
    rules: Rules,
    stopped: bool,
}

/// What holds for every client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// Whether a connection serves more than one request.
    pub(crate) keep_alive: bool,
    /// Time that a request may take, connecting included.
    pub(crate) deadline_ns: u64,
    /// When the clients begin.
    pub(crate) start_ns: u64,
}

impl<'o> Clients<'o> {
    /// Clients of the slots `numbers` among those of all threads.
    pub(crate) fn new(
        orders: &'o [Order],
        numbers: Range<u32>,
        rules: Rules,
        tally: Tally,
    ) -> Self {
        let slot = |number: u32| Slot {
            state: State::Resting,
            order: number as usize % orders.len(),
            sent: 0,
            begun: Begun::NONE,
            answer: Answer::new(),
            rests_until_ns: 0,
        };
        let slots: Vec<Slot> = numbers.map(slot).collect();
        let wakes = (0..slots.len() as u32).map(|slot| Reverse((rules.start_ns, slot)));
        Self {
            tally,
            orders,
            known_heads: orders.iter().map(|_| KnownHead::new()).collect(),
            deadlines: Wheel::new(slots.len(), rules.start_ns),
            wakes: wakes.collect(),
            slots,
            rules,
            stopped: false,
        }
    }

    /// Something that is due by now; to be asked until there is nothing.
    pub(crate) fn due(&mut self, now_ns: u64) -> Option<(u32, Step)> {
        if let Some(slot) = self.deadlines.ring(now_ns) {
            return Some((slot, self.time_out(slot, now_ns)));
        }
        let Reverse((at_ns, slot)) = *self.wakes.peek()?;
        if at_ns > now_ns {
            return None;
        }
        self.wakes.pop();
        Some((slot, self.begin(slot, now_ns)))
    }

    /// An instant before which nothing is due.
    pub(crate) fn next_due_ns(&self) -> u64 {
        let wake_ns = self
            .wakes
            .peek()
            .map_or(u64::MAX, |Reverse((at_ns, _))| *at_ns);
        wake_ns.min(self.deadlines.next_ns())
    }

    /// Whether all that counts has ended.
    pub(crate) fn is_over(&self, now_ns: u64) -> bool {
        self.tally.window.close_ns <= now_ns && self.tally.pending == 0
    }

    /// The user ends the run: the window closes and nothing more is begun.
    pub(crate) fn stop(&mut self, now_ns: u64) {
        self.tally.close(now_ns);
        self.stopped = true;
    }

    /// Gives up all requests under way.
    pub(crate) fn give_up(&mut self) {
        for slot in self
            .slots
            .iter_mut()
            .filter(|slot| slot.state.has_request())
        {
            self.tally.withdraw(slot.begun);
            slot.begun = Begun::NONE;
        }
    }

    /// The bytes that a slot has to send.
    pub(crate) fn output(&self, slot: u32) -> &'o [u8] {
        let slot = &self.slots[slot as usize];
        &self.orders[slot.order].bytes[slot.sent..]
    }

    /// Whether the slot waits for its connection.
    pub(crate) fn is_connecting(&self, slot: u32) -> bool {
        self.slots[slot as usize].state == State::Connecting
    }

    /// Whether the slot has something to send.
    pub(crate) fn is_sending(&self, slot: u32) -> bool {
        self.slots[slot as usize].state == State::Sending
    }

    /// The connection is open.
    pub(crate) fn connected(&mut self, slot: u32, now_ns: u64) -> Step {
        self.tally.open(now_ns);
        self.slots[slot as usize].state = State::Sending;
        Step::Send
    }

    /// So many bytes of the output were taken.
    pub(crate) fn wrote(&mut self, slot: u32, bytes: usize) -> Step {
        let length = self.orders[self.slots[slot as usize].order].bytes.len();
        let slot = &mut self.slots[slot as usize];
        slot.sent += bytes;
        if slot.sent < length {
            return Step::Send;
        }
        slot.state = State::Awaiting;
        Step::Wait
    }

    /// Bytes came, and with `ended` the server will send no more.
    pub(crate) fn received(&mut self, slot: u32, bytes: &[u8], ended: bool, now_ns: u64) -> Step {
        match self.slots[slot as usize].state {
            State::Resting | State::Connecting => Step::Wait,
            State::Sending | State::Awaiting | State::Reading => {
                self.read(slot, bytes, ended, now_ns)
            }
            State::Parting if !ended => Step::Wait,
            // Bytes that nobody asked for: some servers say why they close an idle connection.
            State::Parting | State::Idle => Step::Close,
        }
    }

    /// Something failed: connecting, writing or reading.
    pub(crate) fn failed(&mut self, slot: u32, fault: Fault, now_ns: u64) -> Step {
        if self.slots[slot as usize].state.has_request() {
            self.end(slot, Err(fault), now_ns);
        }
        if fault == Fault::ConnectFailed || fault.is_clients_own() {
            self.slots[slot as usize].rests_until_ns = now_ns + BACK_OFF_NS;
        }
        Step::Close
    }

    /// The engine has closed the connection.
    pub(crate) fn closed(&mut self, slot: u32, now_ns: u64) -> Step {
        self.deadlines.clear(slot);
        self.slots[slot as usize].state = State::Resting;
        self.go_on(slot, now_ns)
    }

    fn time_out(&mut self, slot: u32, now_ns: u64) -> Step {
        let fault = match self.slots[slot as usize].state {
            State::Resting | State::Idle => return Step::Wait,
            State::Parting => return Step::Close,
            State::Connecting => Fault::ConnectTimeout,
            State::Sending | State::Awaiting => Fault::FirstByteTimeout,
            State::Reading => Fault::WholeTimeout,
        };
        self.failed(slot, fault, now_ns)
    }

    /// A client without a request: begins the next one now or later.
    fn go_on(&mut self, slot: u32, now_ns: u64) -> Step {
        let until_ns = self.slots[slot as usize].rests_until_ns;
        if until_ns <= now_ns {
            return self.begin(slot, now_ns);
        }
        self.wakes.push(Reverse((until_ns, slot)));
        Step::Wait
    }

    fn begin(&mut self, slot: u32, now_ns: u64) -> Step {
        if self.stopped {
            return Step::Wait;
        }
        self.deadlines.set(slot, now_ns + self.rules.deadline_ns);
        let slot = &mut self.slots[slot as usize];
        slot.begun = self.tally.plan(now_ns);
        slot.sent = 0;
        slot.answer.restart(&self.orders[slot.order].expect);
        if slot.state == State::Idle {
            slot.state = State::Sending;
            return Step::Send;
        }
        slot.state = State::Connecting;
        Step::Open
    }

    fn read(&mut self, slot: u32, bytes: &[u8], ended: bool, now_ns: u64) -> Step {
        let Slot { order, answer, .. } = &mut self.slots[slot as usize];
        let (expect, known) = (&self.orders[*order].expect, &mut self.known_heads[*order]);
        let reading = match bytes {
            [] => Reading::More,
            _ => answer.read(bytes, expect, known),
        };
        let outcome = match reading {
            Reading::Whole(used) if used == bytes.len() => answer.verify(expect),
            // More than was announced: the two sides no longer agree where an answer begins.
            Reading::Whole(_) | Reading::Malformed => Err(Fault::Malformed),
            Reading::More if ended && answer.is_whole_at_close() => answer.verify(expect),
            Reading::More if ended => Err(Fault::EarlyClose),
            Reading::More => {
                let state = &mut self.slots[slot as usize].state;
                if *state == State::Awaiting {
                    *state = State::Reading;
                }
                return Step::Wait;
            }
        };
        let whole = matches!(reading, Reading::Whole(used) if used == bytes.len());
        self.end(slot, outcome, now_ns);
        self.part(slot, whole && !ended, now_ns)
    }

    /// After an answer: keeps the connection, waits for the server to close it, or closes it.
    fn part(&mut self, slot: u32, whole: bool, now_ns: u64) -> Step {
        let Slot { state, answer, .. } = &mut self.slots[slot as usize];
        if !whole || *state == State::Sending {
            return Step::Close;
        }
        if self.rules.keep_alive && answer.keeps_alive() {
            *state = State::Idle;
            return self.go_on(slot, now_ns);
        }
        *state = State::Parting;
        self.deadlines.set(slot, now_ns + PARTING_NS);
        Step::Wait
    }

    fn end(&mut self, slot: u32, outcome: Result<u64, Fault>, now_ns: u64) {
        self.deadlines.clear(slot);
        let slot = &mut self.slots[slot as usize];
        self.tally.end(slot.begun, now_ns, outcome);
        slot.begun = Begun::NONE;
        slot.order = (slot.order + 1) % self.orders.len();
    }
}

impl State {
    fn has_request(self) -> bool {
        match self {
            Self::Resting | Self::Idle | Self::Parting => false,
            Self::Connecting | Self::Sending | Self::Awaiting | Self::Reading => true,
        }
    }
}
