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
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use record::load::Fault;

use crate::answer::{Answer, KnownHead, Reading};
use crate::dice::Dice;
use crate::expect::Expect;
use crate::schedule::Pacer;
use crate::script::{Jar, Script};
use crate::tally::{Begun, Served, Tally};
use crate::tls::{Session, Suite};
use crate::wheel::Wheel;

/// How long a client waits after a connection that could not be made, so that it does not spin.
const BACK_OFF_NS: u64 = 100_000_000;

/// Clients of a closed loop begin so long one after the other. Ten thousand at once would overflow the server's
/// queue of new connections, which is the kernel's affair and takes seconds to heal.
const OPENING_GAP_NS: u64 = 50_000;

/// Arrivals that the client itself was too late for, counted at once: then the thread looks up, however many there are.
const EXPIRED: usize = 4096;

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

/// What the server does after the bytes that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    /// It may send more.
    Open,
    /// It has closed.
    Closed,
    /// It has reset the connection.
    Reset,
}

/// One request as it goes on the wire, and its answer.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) bytes: Vec<u8>,
    pub(crate) expect: Expect,
    /// Bytes of its body, which come last.
    pub(crate) body_bytes: usize,
    /// It may be sent twice.
    pub(crate) is_repeatable: bool,
    /// Its answer has no body, whatever the head says: `HEAD`.
    pub(crate) is_bodiless: bool,
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

/// A slot's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    None,
    /// It has served no request before this one.
    Fresh,
    Kept,
}

struct Slot {
    state: State,
    /// The request under way, or the next one.
    order: usize,
    /// Where the visitor is in the script, and whether the next request is another visitor's.
    act: usize,
    is_leaving: bool,
    sent: usize,
    begun: Begun,
    sent_ns: u64,
    answer: Answer,
    /// Where connections are encrypted.
    session: Option<Box<Session>>,
    /// What is to be sent, where that is not the order as it stands: encrypted, or with cookies.
    output: Vec<u8>,
    link: Link,
    /// Whether the request under way is to be sent again on a new connection.
    repeats: bool,
    /// Since when the client has no request.
    free_ns: u64,
    /// The client rests until then.
    rests_until_ns: u64,
    /// Nobody is there: the next request, or the next visitor, has not come yet.
    is_vacant: bool,
    /// How long the next visitor thinks before anything else, in an open loop.
    first_think_ns: u64,
}

/// All clients of one thread. A slot is one connection at a time.
pub(crate) struct Clients<'o> {
    pub(crate) tally: Tally,
    orders: &'o [Order],
    picker: Picker<'o>,
    known_heads: Vec<KnownHead>,
    slots: Vec<Slot>,
    deadlines: Wheel,
    pacer: Pacer,
    /// Slots that begin at an instant, the earliest on top; a slot is in it at most once.
    wakes: BinaryHeap<Reverse<(u64, u32)>>,
    /// Slots that wait for an arrival, the one that waits longest in front.
    free: VecDeque<u32>,
    rules: Rules,
    suite: Option<Suite>,
    /// What was decrypted last.
    plain: Vec<u8>,
    /// What was composed last.
    request: Vec<u8>,
    stopped: bool,
}

/// Which request follows.
pub(crate) enum Picker<'o> {
    /// Round and round.
    Round,
    /// By chance; each order's weight and those before it, summed up.
    Weighted { sums: Vec<u64>, dice: Dice },
    /// As a script says.
    Sessions { script: &'o Script, dice: Dice },
}

impl Picker<'_> {
    /// Chooses the first request of a slot, the `number`th of all threads.
    fn first(&mut self, slot: &mut Slot, number: u32, orders: usize) {
        match self {
            Self::Round => slot.order = number as usize % orders,
            Self::Weighted { .. } => _ = self.next(slot, orders),
            Self::Sessions { .. } => {
                slot.answer.keep_cookies();
                slot.rests_until_ns = self.next(slot, orders);
            }
        }
    }

    /// Chooses the request after the one that has ended; the time to think before it.
    fn next(&mut self, slot: &mut Slot, orders: usize) -> u64 {
        match self {
            Self::Round => slot.order = (slot.order + 1) % orders,
            Self::Weighted { sums, dice } => {
                let total = sums.last().expect("a mix is checked: it has an exchange");
                let drawn = dice.below(*total);
                slot.order = sums.partition_point(|sum| *sum <= drawn);
            }
            Self::Sessions { script, dice } => {
                let next = script.next(slot.act, dice);
                (slot.order, slot.act, slot.is_leaving) =
                    (next.order, next.next_act, next.is_new_session);
                return next.think_ns;
            }
        }
        0
    }
}

/// Instants before which nothing is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    /// A request begins: to be met as closely as the system can.
    pub(crate) sharp_ns: u64,
    /// A deadline: a millisecond matters little.
    pub(crate) blunt_ns: u64,
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

/// What the clients of one thread are to do.
pub(crate) struct Plan<'o> {
    pub(crate) tally: Tally,
    pub(crate) pacer: Pacer,
    pub(crate) picker: Picker<'o>,
    /// How connections are encrypted, if they are.
    pub(crate) suite: Option<Suite>,
}

impl<'o> Clients<'o> {
    /// Clients of the slots `numbers` among those of all threads.
    pub(crate) fn new(
        orders: &'o [Order],
        numbers: Range<u32>,
        rules: Rules,
        plan: Plan<'o>,
    ) -> Self {
        let Plan {
            tally,
            mut pacer,
            mut picker,
            suite,
        } = plan;
        let first = numbers.start;
        let mut slots: Vec<Slot> = numbers.clone().map(|_| Slot::new()).collect();
        for (slot, number) in slots.iter_mut().zip(numbers) {
            picker.first(slot, number, orders.len());
            if let Pacer::Open(_) = pacer {
                slot.first_think_ns = std::mem::take(&mut slot.rests_until_ns);
            }
        }
        let all = 0..slots.len() as u32;
        let (mut wakes, mut free) = (BinaryHeap::with_capacity(slots.len()), VecDeque::new());
        match &mut pacer {
            Pacer::Closed(rests) => wakes.extend(all.map(|slot| {
                let wait_ns = u64::from(first + slot) * OPENING_GAP_NS;
                let think_ns = slots[slot as usize].rests_until_ns;
                let first_ns = rests.first_ns() + think_ns;
                Reverse((rules.start_ns + wait_ns + first_ns, slot))
            })),
            Pacer::Open(_) => free.extend(all),
        }
        Self {
            tally,
            orders,
            picker,
            known_heads: orders.iter().map(|_| KnownHead::new()).collect(),
            deadlines: Wheel::new(slots.len(), rules.start_ns),
            slots,
            pacer,
            wakes,
            free,
            rules,
            suite,
            plain: Vec::new(),
            request: Vec::new(),
            stopped: false,
        }
    }

    /// How many there are.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Something that is due by now; to be asked until there is nothing.
    pub(crate) fn due(&mut self, now_ns: u64) -> Option<(u32, Step)> {
        if let Some(slot) = self.deadlines.ring(now_ns) {
            return Some((slot, self.time_out(slot, now_ns)));
        }
        if let Some(Reverse((at_ns, slot))) = self.wakes.peek().copied()
            && at_ns <= now_ns
        {
            self.wakes.pop();
            let step = match &self.pacer {
                // Such a client was not due: it was held back.
                Pacer::Closed(rests) if rests.are_none() && !self.composes() => {
                    self.begin(slot, now_ns, now_ns)
                }
                Pacer::Closed(_) | Pacer::Open(_) => self.begin_planned(slot, at_ns, now_ns),
            };
            return Some((slot, step));
        }
        let planned_ns = self.arrival(now_ns)?;
        let slot = self.free.pop_front()?;
        self.advance();
        Some((slot, self.arrive(slot, planned_ns, now_ns)))
    }

    /// When to look again.
    pub(crate) fn next_due(&self) -> Due {
        let wake_ns = self
            .wakes
            .peek()
            .map_or(u64::MAX, |Reverse((at_ns, _))| *at_ns);
        let deadline_ns = self.deadlines.next_ns();
        let (arrival_ns, expiry_ns) = match &self.pacer {
            Pacer::Closed(_) => (u64::MAX, u64::MAX),
            Pacer::Open(stream) if self.free.is_empty() => (
                u64::MAX,
                stream.next_ns.saturating_add(self.rules.deadline_ns),
            ),
            Pacer::Open(stream) => (stream.next_ns, u64::MAX),
        };
        Due {
            sharp_ns: wake_ns.min(arrival_ns),
            blunt_ns: deadline_ns.min(expiry_ns),
        }
    }

    /// Whether all that counts has ended. Closes the window when it ends by count.
    pub(crate) fn is_over(&mut self, now_ns: u64) -> bool {
        if self.tally.pending > 0 {
            return false;
        }
        if self.tally.is_spent() {
            self.tally.close(now_ns);
        }
        let close_ns = self.tally.window.close_ns;
        let owes = match &self.pacer {
            Pacer::Closed(_) => false,
            Pacer::Open(stream) => !self.tally.is_spent() && stream.next_ns < close_ns,
        };
        close_ns <= now_ns && !owes
    }

    /// The user ends the run: the window closes and nothing more is begun.
    pub(crate) fn stop(&mut self, now_ns: u64) {
        self.tally.close(now_ns);
        if let Pacer::Open(stream) = &mut self.pacer {
            self.tally.leave_all_unsent(stream, now_ns, now_ns);
        }
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
    pub(crate) fn output(&self, slot: u32) -> &[u8] {
        let slot = &self.slots[slot as usize];
        if self.composes() {
            &slot.output[slot.sent..]
        } else {
            &self.orders[slot.order].bytes[slot.sent..]
        }
    }

    /// Whether the slot waits for its connection.
    pub(crate) fn is_connecting(&self, slot: u32) -> bool {
        self.slots[slot as usize].state == State::Connecting
    }

    /// Whether the slot has something to send.
    pub(crate) fn is_sending(&self, slot: u32) -> bool {
        let slot = &self.slots[slot as usize];
        slot.state == State::Sending || slot.sent < slot.output.len()
    }

    /// Whether the slot is amid an answer.
    pub(crate) fn is_reading(&self, slot: u32) -> bool {
        self.slots[slot as usize].state == State::Reading
    }

    /// Body bytes that are still to come, as far as is known.
    pub(crate) fn left(&self, slot: u32) -> u64 {
        let slot = &self.slots[slot as usize];
        match slot.state {
            State::Reading => slot.answer.left(),
            _ => u64::MAX,
        }
    }

    /// The connection is open.
    pub(crate) fn connected(&mut self, slot_number: u32, now_ns: u64) -> Step {
        self.tally.open(now_ns);
        let slot = &mut self.slots[slot_number as usize];
        slot.link = Link::Fresh;
        slot.sent_ns = now_ns;
        slot.state = State::Sending;
        if let Some(suite) = &self.suite {
            slot.session = Some(Box::new(suite.connect(&mut slot.output)));
        }
        self.compose(slot_number);
        Step::Send
    }

    /// So many bytes of the output were taken.
    pub(crate) fn wrote(&mut self, slot: u32, bytes: usize) -> Step {
        let (more, composes) = (self.output(slot).len() > bytes, self.composes());
        let slot = &mut self.slots[slot as usize];
        slot.sent += bytes;
        if more {
            return Step::Send;
        }
        if composes {
            slot.output.clear();
            slot.sent = 0;
        }
        if slot.state == State::Sending {
            slot.state = State::Awaiting;
        }
        Step::Wait
    }

    /// Bytes came.
    pub(crate) fn received(&mut self, slot: u32, bytes: &[u8], tail: Tail, now_ns: u64) -> Step {
        match self.slots[slot as usize].session.take() {
            Some(session) => self.decrypt(slot, session, (bytes, tail), now_ns),
            None => self.take(slot, bytes, tail, now_ns),
        }
    }

    /// Bytes came on an encrypted connection.
    fn decrypt(
        &mut self,
        slot: u32,
        mut session: Box<Session>,
        (bytes, tail): (&[u8], Tail),
        now_ns: u64,
    ) -> Step {
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let place = &mut self.slots[slot as usize];
        let shook_hands = session.is_shaking_hands();
        let heard = session.hear(bytes, &mut plain, &mut place.output);
        if shook_hands && !session.is_shaking_hands() {
            place.sent_ns = now_ns;
        }
        place.session = Some(session);
        let step = match (heard, tail) {
            (Err(_), _) if shook_hands => self.failed(slot, Fault::ConnectFailed, now_ns),
            (Err(_), _) => self.failed(slot, Fault::Malformed, now_ns),
            (Ok(true), Tail::Open) => self.take(slot, &plain, Tail::Closed, now_ns),
            (Ok(false), Tail::Open) if plain.is_empty() => Step::Wait,
            (Ok(_), tail) => self.take(slot, &plain, tail, now_ns),
        };
        self.plain = plain;
        // The two sides may have something to say of their own.
        match step {
            Step::Wait if !self.slots[slot as usize].output.is_empty() => Step::Send,
            step => step,
        }
    }

    /// Whether a request whose connection broke is sent again: only if the server had kept the connection and
    /// has answered nothing, so that it may have closed before it saw the request.
    fn repeats(&mut self, slot: u32) -> bool {
        let slot = &mut self.slots[slot as usize];
        let is_unanswered = matches!(slot.state, State::Sending | State::Awaiting);
        let repeats =
            is_unanswered && slot.link == Link::Kept && self.orders[slot.order].is_repeatable;
        if repeats {
            self.tally.repeat(slot.begun);
            slot.repeats = true;
        }
        repeats
    }

    fn take(&mut self, slot: u32, bytes: &[u8], tail: Tail, now_ns: u64) -> Step {
        match self.slots[slot as usize].state {
            State::Resting | State::Connecting => Step::Wait,
            State::Sending | State::Awaiting | State::Reading => {
                self.read(slot, bytes, tail, now_ns)
            }
            State::Parting if tail == Tail::Open => Step::Wait,
            // Bytes that nobody asked for: some servers say why they close an idle connection.
            State::Parting | State::Idle => Step::Close,
        }
    }

    /// Something failed: connecting, writing or reading.
    pub(crate) fn failed(&mut self, slot: u32, fault: Fault, now_ns: u64) -> Step {
        if matches!(fault, Fault::Reset | Fault::WriteFailed) && self.repeats(slot) {
            return Step::Close;
        }
        if self.slots[slot as usize].state.has_request() {
            self.end(slot, Err(fault), now_ns);
        }
        if fault == Fault::ConnectFailed || fault.is_clients_own() {
            let slot = &mut self.slots[slot as usize];
            slot.rests_until_ns = slot.rests_until_ns.max(now_ns + BACK_OFF_NS);
        }
        Step::Close
    }

    /// The engine has closed the connection.
    pub(crate) fn closed(&mut self, slot: u32, now_ns: u64) -> Step {
        let place = &mut self.slots[slot as usize];
        let had_client = place.state != State::Idle;
        if std::mem::replace(&mut place.link, Link::None) != Link::None {
            self.tally.shut();
        }
        place.is_leaving = false;
        place.session = None;
        place.output.clear();
        place.sent = 0;
        if std::mem::replace(&mut place.repeats, false) {
            place.state = State::Connecting;
            return Step::Open;
        }
        place.state = State::Resting;
        self.deadlines.clear(slot);
        // A server may close a connection that nobody uses; its client is waiting already.
        if had_client {
            self.go_on(slot, now_ns)
        } else {
            Step::Wait
        }
    }

    fn time_out(&mut self, slot: u32, now_ns: u64) -> Step {
        let place = &self.slots[slot as usize];
        let session = place.session.as_ref();
        let fault = match place.state {
            _ if session.is_some_and(|session| session.is_shaking_hands()) => Fault::ConnectTimeout,
            State::Resting | State::Idle => return Step::Wait,
            State::Parting => return Step::Close,
            State::Connecting => Fault::ConnectTimeout,
            State::Sending | State::Awaiting => Fault::FirstByteTimeout,
            State::Reading => Fault::WholeTimeout,
        };
        self.failed(slot, fault, now_ns)
    }

    /// A client that has just ended a request: begins the next one now or later.
    fn go_on(&mut self, slot: u32, now_ns: u64) -> Step {
        let rests_until_ns = self.slots[slot as usize].rests_until_ns;
        self.slots[slot as usize].free_ns = now_ns;
        let is_open = matches!(self.pacer, Pacer::Open(_));
        // Somebody who is in the middle of a visit goes on with it, whoever else may come.
        let waits_for_arrival = is_open && self.slots[slot as usize].is_vacant;
        if rests_until_ns > now_ns {
            if waits_for_arrival {
                // No connection was to be had. Whoever is due next tries as well, but not before the thread has looked up.
                self.free.push_back(slot);
            } else {
                self.wakes.push(Reverse((rests_until_ns, slot)));
            }
            return Step::Wait;
        }
        if !waits_for_arrival {
            return self.begin(slot, now_ns, now_ns);
        }
        let Some(planned_ns) = self.arrival(now_ns) else {
            self.free.push_back(slot);
            return Step::Wait;
        };
        self.advance();
        self.arrive(slot, planned_ns, now_ns)
    }

    /// Somebody who was due at an instant comes: one request, or a visitor who makes several.
    fn arrive(&mut self, slot: u32, planned_ns: u64, now_ns: u64) -> Step {
        if !matches!(self.picker, Picker::Sessions { .. }) {
            return self.begin_planned(slot, planned_ns, now_ns);
        }
        let place = &mut self.slots[slot as usize];
        place.is_vacant = false;
        let first_ns = planned_ns + std::mem::take(&mut place.first_think_ns);
        if first_ns <= now_ns {
            return self.begin_planned(slot, first_ns, now_ns);
        }
        self.wakes.push(Reverse((first_ns, slot)));
        Step::Wait
    }

    /// The arrival that is due, if any. Those that nobody could serve within their deadline are counted.
    fn arrival(&mut self, now_ns: u64) -> Option<u64> {
        for _ in 0..EXPIRED {
            let Pacer::Open(stream) = &mut self.pacer else {
                return None;
            };
            if self.stopped || self.tally.is_spent() || now_ns < stream.next_ns {
                return None;
            }
            let planned_ns = stream.next_ns;
            if now_ns < planned_ns.saturating_add(self.rules.deadline_ns) {
                return Some(planned_ns);
            }
            if self.free.is_empty() {
                let until_ns = now_ns - self.rules.deadline_ns + 1;
                self.tally.leave_all_unsent(stream, until_ns, now_ns);
            } else {
                stream.advance();
                let begun = self.tally.plan(planned_ns);
                self.tally.end(begun, now_ns, Err(Fault::ClientLate));
            }
        }
        None
    }

    /// The arrival that was due is taken care of.
    fn advance(&mut self) {
        if let Pacer::Open(stream) = &mut self.pacer {
            stream.advance();
        }
    }

    /// Begins a request that was due at an instant, and notes how late that is. A client that was busy then
    /// is not late: it waited for the server.
    fn begin_planned(&mut self, slot: u32, planned_ns: u64, now_ns: u64) -> Step {
        let due_ns = planned_ns.max(self.slots[slot as usize].free_ns);
        let step = self.begin(slot, planned_ns, now_ns);
        self.tally.late(
            self.slots[slot as usize].begun,
            now_ns.saturating_sub(due_ns),
        );
        step
    }

    fn begin(&mut self, slot_number: u32, planned_ns: u64, now_ns: u64) -> Step {
        if self.stopped || self.tally.is_spent() {
            return Step::Wait;
        }
        self.deadlines
            .set(slot_number, planned_ns + self.rules.deadline_ns);
        let slot = &mut self.slots[slot_number as usize];
        slot.begun = self.tally.plan(planned_ns);
        slot.sent = 0;
        slot.sent_ns = now_ns;
        let order = &self.orders[slot.order];
        slot.answer.restart(&order.expect, order.is_bodiless);
        if slot.state == State::Idle {
            slot.state = State::Sending;
            slot.link = Link::Kept;
            self.compose(slot_number);
            return Step::Send;
        }
        slot.state = State::Connecting;
        Step::Open
    }

    /// Whether requests are not sent as they stand.
    fn composes(&self) -> bool {
        self.suite.is_some() || matches!(self.picker, Picker::Sessions { .. })
    }

    /// Puts the request where it is sent from, if that is not where it stands.
    fn compose(&mut self, slot: u32) {
        if !self.composes() {
            return;
        }
        let slot = &mut self.slots[slot as usize];
        let order = &self.orders[slot.order];
        self.request.clear();
        let bytes = match slot.answer.jar() {
            Some(jar) => {
                let head_bytes = order.bytes.len() - order.body_bytes;
                jar.write(&order.bytes, head_bytes, &mut self.request);
                &self.request
            }
            None => &order.bytes,
        };
        match &mut slot.session {
            Some(session) => session.say(bytes, &mut slot.output),
            None => slot.output.extend_from_slice(bytes),
        }
    }

    fn read(&mut self, slot: u32, bytes: &[u8], tail: Tail, now_ns: u64) -> Step {
        if bytes.is_empty() && tail != Tail::Open && self.repeats(slot) {
            return Step::Close;
        }
        let Slot { order, answer, .. } = &mut self.slots[slot as usize];
        let (expect, known) = (&self.orders[*order].expect, &mut self.known_heads[*order]);
        let reading = match bytes {
            [] => Reading::More,
            _ => answer.read(bytes, expect, known),
        };
        let outcome = match (reading, tail) {
            (Reading::Whole(used), _) if used == bytes.len() => answer.verify(expect),
            // More than was announced: the two sides no longer agree where an answer begins.
            (Reading::Whole(_) | Reading::Malformed, _) => Err(Fault::Malformed),
            (Reading::More, Tail::Closed) if answer.is_whole_at_close() => answer.verify(expect),
            (Reading::More, Tail::Closed) => Err(Fault::EarlyClose),
            (Reading::More, Tail::Reset) => Err(Fault::Reset),
            (Reading::More, Tail::Open) => {
                let state = &mut self.slots[slot as usize].state;
                if *state == State::Awaiting {
                    *state = State::Reading;
                }
                return Step::Wait;
            }
        };
        let whole = matches!(reading, Reading::Whole(used) if used == bytes.len());
        self.end(slot, outcome, now_ns);
        self.part(slot, whole && tail == Tail::Open, now_ns)
    }

    /// After an answer: keeps the connection, waits for the server to close it, or closes it.
    fn part(&mut self, slot: u32, whole: bool, now_ns: u64) -> Step {
        let Slot {
            state,
            answer,
            is_leaving,
            ..
        } = &mut self.slots[slot as usize];
        if !whole || *state == State::Sending || *is_leaving {
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
        let served_ns = now_ns.saturating_sub(slot.sent_ns);
        self.tally.end(
            slot.begun,
            now_ns,
            outcome.map(|body_bytes| Served {
                body_bytes,
                served_ns,
            }),
        );
        slot.begun = Begun::NONE;
        let session_ns = self.picker.next(slot, self.orders.len());
        match &mut self.pacer {
            Pacer::Closed(rests) => slot.rests_until_ns = now_ns + rests.next_ns() + session_ns,
            // The next visitor thinks when there is one.
            Pacer::Open(_) if slot.is_leaving => slot.first_think_ns = session_ns,
            Pacer::Open(_) => slot.rests_until_ns = now_ns + session_ns,
        }
        if slot.is_leaving {
            slot.is_vacant = true;
            self.tally.end_session(now_ns);
            slot.answer.jar().into_iter().for_each(Jar::clear);
        }
    }
}

impl Slot {
    fn new() -> Self {
        Self {
            state: State::Resting,
            order: 0,
            act: 0,
            is_leaving: false,
            sent: 0,
            begun: Begun::NONE,
            sent_ns: 0,
            answer: Answer::new(),
            session: None,
            output: Vec::new(),
            link: Link::None,
            repeats: false,
            free_ns: 0,
            rests_until_ns: 0,
            is_vacant: true,
            first_think_ns: 0,
        }
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
