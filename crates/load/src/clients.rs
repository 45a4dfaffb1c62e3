//! The simulated clients of one thread: what each does next. Touches no socket and reads no clock.
//!
//! An engine owns the sockets. It tells what happened to a connection and does the `Action` that it
//! is told:
//! ```text
//! Disconnected --Open--> Connecting --Send--> Sending --> Awaiting --> Reading --+--> Idle --Send--> ...
//!    ^                                                                           |
//!    +---------------------------------Close or PutAside-------------------------+
//! ```
//! Disconnected and Idle have no request under way; every other state has one, and a deadline.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use record::load::Fault;

use crate::counters::{Counters, InFlight, Success};
use crate::expect::Expect;
use crate::prng::{Prng, WeightedChoice};
use crate::response::{KnownHead, Progress, ResponseReader};
use crate::schedule::Pacer;
use crate::script::{CookieJar, Script};
use crate::timer_wheel::TimerWheel;
use crate::tls::{ClientTls, Session};

/// How long a client waits after a connection that could not be made, so that it does not spin.
pub(crate) const BACK_OFF_NS: u64 = 100_000_000;

/// Clients of a closed loop begin so long one after the other. Ten thousand at once would overflow
/// the server's queue of new connections, which is the kernel's affair and takes seconds to heal.
const OPENING_GAP_NS: u64 = 50_000;

/// Arrivals that the client itself was too late for, counted at once: then the thread looks at its
/// sockets, however many there are.
const EXPIRED_BATCH: usize = 4096;

/// What the engine must do with a connection now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing until something happens.
    Wait,
    /// Connect.
    Open,
    /// Send what `output` holds.
    Send,
    /// Close, and then ask `closed` for the next action.
    Close,
    /// Leave the closing to the server, which has sent its last response, and ask `closed` at once.
    PutAside,
}

/// What the server does after the bytes that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerState {
    /// It may send more.
    Open,
    /// It has closed.
    Closed,
    /// It has reset the connection.
    Reset,
}

/// One request as it goes on the wire, and its response.
#[derive(Debug)]
pub(crate) struct PreparedRequest {
    pub(crate) bytes: Vec<u8>,
    pub(crate) expect: Expect,
    /// Bytes of its body, which come last.
    pub(crate) body_bytes: usize,
    /// It may be sent twice.
    pub(crate) is_repeatable: bool,
    /// Its response has no body, whatever the head says: `HEAD`.
    pub(crate) is_bodiless: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Disconnected,
    Idle,
    Connecting,
    Sending,
    Awaiting,
    Reading,
}

/// A slot's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionUse {
    None,
    /// It has served no request before this one.
    New,
    Reused,
}

struct Slot {
    state: State,
    /// The request under way, or the next one.
    request: usize,
    /// Where the visitor is in the script.
    position: usize,
    /// The next request is another visitor's.
    is_leaving: bool,
    /// Bytes of the request, or of `output`, that have been sent.
    sent: usize,
    in_flight: InFlight,
    sent_ns: u64,
    response: ResponseReader,
    /// Where connections are encrypted.
    session: Option<Box<Session>>,
    /// What is to be sent, where that is not the request as it stands: encrypted, or with cookies.
    output: Vec<u8>,
    connection: ConnectionUse,
    /// Whether the request under way is to be sent again on a new connection.
    retries: bool,
    /// Since when the client has no request.
    free_ns: u64,
    /// The client thinks, or waits after a failure, until then.
    idle_until_ns: u64,
    /// Nobody is there: the next request, or the next visitor, has not come yet.
    is_vacant: bool,
    /// How long the next visitor thinks before anything else, in an open loop.
    first_think_ns: u64,
}

/// All clients of one thread. A slot is one connection at a time.
pub(crate) struct Clients<'o> {
    pub(crate) counters: Counters,
    requests: &'o [PreparedRequest],
    picker: Picker<'o>,
    known_heads: Vec<KnownHead>,
    slots: Vec<Slot>,
    deadlines: TimerWheel,
    pacer: Pacer,
    /// Slots that begin at an instant, the earliest on top; a slot is in it at most once.
    wake_ups: BinaryHeap<Reverse<(u64, u32)>>,
    /// Slots that wait for an arrival, the one that waits longest in front.
    free_slots: VecDeque<u32>,
    config: Config,
    tls: Option<ClientTls>,
    /// What was decrypted last.
    plain: Vec<u8>,
    /// What was composed last.
    composed: Vec<u8>,
    stopped: bool,
}

/// Which request follows.
pub(crate) enum Picker<'o> {
    /// Round and round.
    Round,
    /// By chance.
    Weighted(WeightedChoice),
    /// As a script says.
    Sessions { script: &'o Script, prng: Prng },
}

impl Picker<'_> {
    /// Chooses the first request of a slot, the `number`th of all threads.
    fn first(&mut self, slot: &mut Slot, number: u32, requests: usize) {
        match self {
            Self::Round => slot.request = number as usize % requests,
            Self::Weighted(_) => _ = self.next(slot, requests),
            Self::Sessions { .. } => {
                slot.response.keep_cookies();
                slot.idle_until_ns = self.next(slot, requests);
            }
        }
    }

    /// Chooses the request after the one that has ended; the time to think before it.
    fn next(&mut self, slot: &mut Slot, requests: usize) -> u64 {
        match self {
            Self::Round => slot.request = (slot.request + 1) % requests,
            Self::Weighted(choice) => slot.request = choice.draw(),
            Self::Sessions { script, prng } => {
                let next = script.next(slot.position, prng);
                slot.request = next.request;
                slot.position = next.next_position;
                slot.is_leaving = next.is_new_session;
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
    pub(crate) send_ns: u64,
    /// A deadline: a millisecond matters little.
    pub(crate) timer_ns: u64,
}

/// What holds for every client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    /// Whether a connection serves more than one request.
    pub(crate) keep_alive: bool,
    /// Time that a request may take, connecting included.
    pub(crate) deadline_ns: u64,
    /// When the clients begin.
    pub(crate) start_ns: u64,
    /// Addresses of the server, which slots connect to in turn.
    pub(crate) servers: u32,
    /// Number of the first slot among those of all threads.
    pub(crate) first: u32,
}

/// What the clients of one thread are to do.
pub(crate) struct Setup<'o> {
    pub(crate) counters: Counters,
    pub(crate) pacer: Pacer,
    pub(crate) picker: Picker<'o>,
    /// How connections are encrypted, if they are.
    pub(crate) tls: Option<ClientTls>,
}

impl<'o> Clients<'o> {
    /// Clients of the slots `numbers` among those of all threads.
    pub(crate) fn new(
        requests: &'o [PreparedRequest],
        numbers: Range<u32>,
        config: Config,
        setup: Setup<'o>,
    ) -> Self {
        let Setup {
            counters,
            mut pacer,
            mut picker,
            tls,
        } = setup;
        let first = numbers.start;
        let mut slots: Vec<Slot> = numbers.clone().map(|_| Slot::new()).collect();
        for (slot, number) in slots.iter_mut().zip(numbers) {
            picker.first(slot, number, requests.len());
            if let Pacer::Open(_) = pacer {
                slot.first_think_ns = std::mem::take(&mut slot.idle_until_ns);
            }
        }
        let mut wake_ups = BinaryHeap::with_capacity(slots.len());
        let mut free_slots = VecDeque::new();
        for (number, slot) in (0..).zip(&slots) {
            match &mut pacer {
                Pacer::Closed(think_times) => {
                    let wait_ns = u64::from(first + number) * OPENING_GAP_NS;
                    let think_ns = think_times.first_ns() + slot.idle_until_ns;
                    wake_ups.push(Reverse((config.start_ns + wait_ns + think_ns, number)));
                }
                Pacer::Open(_) => free_slots.push_back(number),
            }
        }
        Self {
            counters,
            requests,
            picker,
            known_heads: requests.iter().map(|_| KnownHead::new()).collect(),
            deadlines: TimerWheel::new(slots.len(), config.start_ns),
            slots,
            pacer,
            wake_ups,
            free_slots,
            config,
            tls,
            plain: Vec::new(),
            composed: Vec::new(),
            stopped: false,
        }
    }

    /// How many there are.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Something that is due by now; to be asked until there is nothing.
    pub(crate) fn due(&mut self, now_ns: u64) -> Option<(u32, Action)> {
        let expired_by_ns = self.counters.stall.expired_by_ns(now_ns);
        if let Some(slot) = self.deadlines.expire(expired_by_ns) {
            return Some((slot, self.time_out(slot, now_ns)));
        }
        if let Some(Reverse((at_ns, slot))) = self.wake_ups.peek().copied()
            && at_ns <= now_ns
        {
            self.wake_ups.pop();
            let action = match &self.pacer {
                // Such a client was not due: it was held back.
                Pacer::Closed(think_times) if think_times.are_none() && !self.composes() => {
                    self.begin(slot, now_ns, now_ns)
                }
                Pacer::Closed(_) | Pacer::Open(_) => self.begin_scheduled(slot, at_ns, now_ns),
            };
            return Some((slot, action));
        }
        let Some(scheduled_ns) = self.arrival(now_ns) else {
            self.counters.stall.caught_up();
            return None;
        };
        let slot = self.free_slots.pop_front()?;
        self.advance();
        Some((slot, self.begin_visit(slot, scheduled_ns, now_ns)))
    }

    /// When to look again.
    pub(crate) fn next_due(&self) -> Due {
        let wake_ns = self
            .wake_ups
            .peek()
            .map_or(u64::MAX, |Reverse((at_ns, _))| *at_ns);
        let deadline_ns = self.deadlines.next_ns();
        let (arrival_ns, expiry_ns) = match &self.pacer {
            Pacer::Closed(_) => (u64::MAX, u64::MAX),
            Pacer::Open(arrivals) if self.free_slots.is_empty() => (
                u64::MAX,
                arrivals.next_ns.saturating_add(self.config.deadline_ns),
            ),
            Pacer::Open(arrivals) => (arrivals.next_ns, u64::MAX),
        };
        Due {
            send_ns: wake_ns.min(arrival_ns),
            timer_ns: self.counters.stall.look_ns(deadline_ns).min(expiry_ns),
        }
    }

    /// Whether all that counts has ended. Closes the window when it ends by count.
    pub(crate) fn is_over(&mut self, now_ns: u64) -> bool {
        if self.counters.pending > 0 {
            return false;
        }
        if self.counters.is_spent() {
            self.counters.close(now_ns);
        }
        let close_ns = self.counters.window.close_ns;
        let owes = match &self.pacer {
            Pacer::Closed(_) => false,
            Pacer::Open(arrivals) => !self.counters.is_spent() && arrivals.next_ns < close_ns,
        };
        close_ns <= now_ns && !owes
    }

    /// The user ends the run: the window closes and nothing more is begun.
    pub(crate) fn stop(&mut self, now_ns: u64) {
        self.counters.close(now_ns);
        if let Pacer::Open(arrivals) = &mut self.pacer {
            self.counters.leave_all_unsent(arrivals, now_ns, now_ns);
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
            self.counters.withdraw(slot.in_flight);
            slot.in_flight = InFlight::NONE;
        }
    }

    /// The bytes that a slot has to send.
    pub(crate) fn output(&self, slot: u32) -> &[u8] {
        let slot = &self.slots[slot as usize];
        if self.composes() {
            &slot.output[slot.sent..]
        } else {
            &self.requests[slot.request].bytes[slot.sent..]
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

    /// When the slot's request was to be sent.
    pub(crate) fn scheduled_ns(&self, slot: u32) -> u64 {
        self.slots[slot as usize].in_flight.scheduled_ns
    }

    /// Whether the slot is amid a response.
    pub(crate) fn is_reading(&self, slot: u32) -> bool {
        self.slots[slot as usize].state == State::Reading
    }

    /// Body bytes that are still to come, as far as is known.
    pub(crate) fn left(&self, slot: u32) -> u64 {
        let slot = &self.slots[slot as usize];
        match slot.state {
            State::Reading => slot.response.left(),
            _ => u64::MAX,
        }
    }

    /// The connection is open.
    pub(crate) fn connected(&mut self, slot_number: u32, now_ns: u64) -> Action {
        self.counters.connection_opened(now_ns);
        let slot = &mut self.slots[slot_number as usize];
        slot.connection = ConnectionUse::New;
        slot.sent_ns = now_ns;
        slot.state = State::Sending;
        if let Some(tls) = &self.tls {
            slot.session = Some(Box::new(tls.connect(&mut slot.output)));
        }
        self.compose(slot_number);
        Action::Send
    }

    /// So many bytes of the output were taken.
    pub(crate) fn wrote(&mut self, slot: u32, bytes: usize) -> Action {
        let (more, composes) = (self.output(slot).len() > bytes, self.composes());
        let slot = &mut self.slots[slot as usize];
        slot.sent += bytes;
        if more {
            return Action::Send;
        }
        if composes {
            slot.output.clear();
            slot.sent = 0;
        }
        if slot.state == State::Sending {
            slot.state = State::Awaiting;
        }
        Action::Wait
    }

    /// Bytes came.
    pub(crate) fn received(
        &mut self,
        slot: u32,
        bytes: &[u8],
        peer: PeerState,
        now_ns: u64,
    ) -> Action {
        match self.slots[slot as usize].session.take() {
            Some(session) => self.decrypt(slot, session, bytes, peer, now_ns),
            None => self.take(slot, bytes, peer, now_ns),
        }
    }

    /// Bytes came on an encrypted connection.
    fn decrypt(
        &mut self,
        slot: u32,
        mut session: Box<Session>,
        bytes: &[u8],
        peer: PeerState,
        now_ns: u64,
    ) -> Action {
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let place = &mut self.slots[slot as usize];
        let shook_hands = session.is_shaking_hands();
        let decrypted = session.decrypt(bytes, &mut plain, &mut place.output);
        if shook_hands && !session.is_shaking_hands() {
            place.sent_ns = now_ns;
        }
        place.session = Some(session);
        let action = match (decrypted, peer) {
            (Err(_), _) if shook_hands => self.failed(slot, Fault::ConnectFailed, now_ns),
            (Err(_), _) => self.failed(slot, Fault::Malformed, now_ns),
            (Ok(true), PeerState::Open) => self.take(slot, &plain, PeerState::Closed, now_ns),
            (Ok(false), PeerState::Open) if plain.is_empty() => Action::Wait,
            (Ok(_), peer) => self.take(slot, &plain, peer, now_ns),
        };
        self.plain = plain;
        // TLS may have something to send of its own.
        match action {
            Action::Wait if !self.slots[slot as usize].output.is_empty() => Action::Send,
            action => action,
        }
    }

    /// Whether a request whose connection broke is sent again: only if the server had kept the
    /// connection and has answered nothing, so that it may have closed before it saw the request.
    fn retries(&mut self, slot: u32) -> bool {
        let slot = &mut self.slots[slot as usize];
        let is_unanswered = matches!(slot.state, State::Sending | State::Awaiting);
        let retries = is_unanswered
            && slot.connection == ConnectionUse::Reused
            && self.requests[slot.request].is_repeatable;
        if retries {
            self.counters.retry(slot.in_flight);
            slot.retries = true;
        }
        retries
    }

    fn take(&mut self, slot: u32, bytes: &[u8], peer: PeerState, now_ns: u64) -> Action {
        match self.slots[slot as usize].state {
            State::Disconnected | State::Connecting => Action::Wait,
            State::Sending | State::Awaiting | State::Reading => {
                self.read(slot, bytes, peer, now_ns)
            }
            // Bytes that nobody asked for: some servers say why they close an idle connection.
            State::Idle => Action::Close,
        }
    }

    /// Something failed: connecting, writing or reading.
    pub(crate) fn failed(&mut self, slot: u32, fault: Fault, now_ns: u64) -> Action {
        if matches!(fault, Fault::Reset | Fault::WriteFailed) && self.retries(slot) {
            return Action::Close;
        }
        if self.slots[slot as usize].state.has_request() {
            self.end(slot, Err(fault), now_ns);
        }
        if must_back_off(fault) {
            let slot = &mut self.slots[slot as usize];
            slot.idle_until_ns = slot.idle_until_ns.max(now_ns + BACK_OFF_NS);
        }
        Action::Close
    }

    /// The engine has closed the connection.
    pub(crate) fn closed(&mut self, slot: u32, now_ns: u64) -> Action {
        let place = &mut self.slots[slot as usize];
        let had_client = place.state != State::Idle;
        if std::mem::replace(&mut place.connection, ConnectionUse::None) != ConnectionUse::None {
            self.counters.connection_closed();
        }
        place.is_leaving = false;
        place.session = None;
        place.output.clear();
        place.sent = 0;
        if std::mem::replace(&mut place.retries, false) {
            place.state = State::Connecting;
            return Action::Open;
        }
        place.state = State::Disconnected;
        self.deadlines.clear(slot);
        // A server may close a connection that nobody uses; its client is waiting already.
        if had_client {
            self.next_request(slot, now_ns)
        } else {
            Action::Wait
        }
    }

    fn time_out(&mut self, slot: u32, now_ns: u64) -> Action {
        let place = &self.slots[slot as usize];
        let session = place.session.as_ref();
        let fault = match place.state {
            _ if session.is_some_and(|session| session.is_shaking_hands()) => Fault::ConnectTimeout,
            State::Disconnected | State::Idle => return Action::Wait,
            State::Connecting => Fault::ConnectTimeout,
            State::Sending | State::Awaiting => Fault::FirstByteTimeout,
            State::Reading => Fault::WholeTimeout,
        };
        // The server had what the client left it of the deadline.
        let is_own = self.counters.stall.held_back(place.in_flight.scheduled_ns);
        let fault = if is_own { Fault::ClientLate } else { fault };
        self.failed(slot, fault, now_ns)
    }

    /// A client that has just ended a request: begins the next one now or later.
    fn next_request(&mut self, slot: u32, now_ns: u64) -> Action {
        let idle_until_ns = self.slots[slot as usize].idle_until_ns;
        self.slots[slot as usize].free_ns = now_ns;
        let is_open = matches!(self.pacer, Pacer::Open(_));
        // Somebody who is in the middle of a visit goes on with it, whoever else may come.
        let waits_for_arrival = is_open && self.slots[slot as usize].is_vacant;
        if idle_until_ns > now_ns {
            if waits_for_arrival {
                // No connection was to be had. Whoever is due next tries as well, but not before
                // the thread has looked at its sockets.
                self.free_slots.push_back(slot);
            } else {
                self.wake_ups.push(Reverse((idle_until_ns, slot)));
            }
            return Action::Wait;
        }
        if !waits_for_arrival {
            return self.begin(slot, now_ns, now_ns);
        }
        let Some(scheduled_ns) = self.arrival(now_ns) else {
            self.free_slots.push_back(slot);
            return Action::Wait;
        };
        self.advance();
        self.begin_visit(slot, scheduled_ns, now_ns)
    }

    /// Somebody who was due at an instant comes: one request, or a visitor who makes several.
    fn begin_visit(&mut self, slot: u32, scheduled_ns: u64, now_ns: u64) -> Action {
        if !matches!(self.picker, Picker::Sessions { .. }) {
            return self.begin_scheduled(slot, scheduled_ns, now_ns);
        }
        self.counters.begin_session(now_ns);
        let place = &mut self.slots[slot as usize];
        place.is_vacant = false;
        let first_ns = scheduled_ns + std::mem::take(&mut place.first_think_ns);
        if first_ns <= now_ns {
            return self.begin_scheduled(slot, first_ns, now_ns);
        }
        self.wake_ups.push(Reverse((first_ns, slot)));
        Action::Wait
    }

    /// The arrival that is due, if any. Those that nobody could serve within their deadline are
    /// counted.
    fn arrival(&mut self, now_ns: u64) -> Option<u64> {
        for _ in 0..EXPIRED_BATCH {
            let Pacer::Open(arrivals) = &mut self.pacer else {
                return None;
            };
            if self.stopped || self.counters.is_spent() || now_ns < arrivals.next_ns {
                return None;
            }
            let scheduled_ns = arrivals.next_ns;
            if now_ns < scheduled_ns.saturating_add(self.config.deadline_ns) {
                return Some(scheduled_ns);
            }
            if self.free_slots.is_empty() && !self.counters.stall.held_back(scheduled_ns) {
                let until_ns = now_ns - self.config.deadline_ns + 1;
                let until_ns = self.counters.stall.begins_ns(scheduled_ns, until_ns);
                self.counters.leave_all_unsent(arrivals, until_ns, now_ns);
            } else {
                arrivals.advance();
                let in_flight = self.counters.begin(scheduled_ns);
                self.counters.end(in_flight, now_ns, Err(Fault::ClientLate));
            }
        }
        None
    }

    /// The arrival that was due is taken care of.
    fn advance(&mut self) {
        if let Pacer::Open(arrivals) = &mut self.pacer {
            arrivals.advance();
        }
    }

    /// Begins a request that was due at an instant, and notes how late that is. A client that was
    /// busy then is not late: it waited for the server.
    fn begin_scheduled(&mut self, slot: u32, scheduled_ns: u64, now_ns: u64) -> Action {
        let free_ns = self.slots[slot as usize].free_ns;
        let action = self.begin(slot, scheduled_ns, now_ns);
        let delay_ns = self
            .counters
            .stall
            .send_delay_ns(scheduled_ns, free_ns, now_ns);
        self.counters
            .record_send_delay(self.slots[slot as usize].in_flight, delay_ns);
        action
    }

    fn begin(&mut self, slot_number: u32, scheduled_ns: u64, now_ns: u64) -> Action {
        if self.stopped || self.counters.is_spent() {
            return Action::Wait;
        }
        self.deadlines
            .set(slot_number, scheduled_ns + self.config.deadline_ns);
        let slot = &mut self.slots[slot_number as usize];
        slot.in_flight = self.counters.begin(scheduled_ns);
        slot.sent = 0;
        slot.sent_ns = now_ns;
        let request = &self.requests[slot.request];
        slot.response.restart(&request.expect, request.is_bodiless);
        if slot.state == State::Idle {
            slot.state = State::Sending;
            slot.connection = ConnectionUse::Reused;
            self.compose(slot_number);
            return Action::Send;
        }
        slot.state = State::Connecting;
        Action::Open
    }

    /// Whether requests are not sent as they stand.
    fn composes(&self) -> bool {
        self.tls.is_some() || matches!(self.picker, Picker::Sessions { .. })
    }

    /// Puts the request where it is sent from, if that is not where it stands.
    fn compose(&mut self, slot: u32) {
        if !self.composes() {
            return;
        }
        let slot = &mut self.slots[slot as usize];
        let request = &self.requests[slot.request];
        self.composed.clear();
        let bytes = match slot.response.cookies() {
            Some(cookies) => {
                let head_bytes = request.bytes.len() - request.body_bytes;
                cookies.write(&request.bytes, head_bytes, &mut self.composed);
                &self.composed
            }
            None => &request.bytes,
        };
        match &mut slot.session {
            Some(session) => session.encrypt(bytes, &mut slot.output),
            None => slot.output.extend_from_slice(bytes),
        }
    }

    fn read(&mut self, slot: u32, bytes: &[u8], peer: PeerState, now_ns: u64) -> Action {
        if bytes.is_empty() && peer != PeerState::Open && self.retries(slot) {
            return Action::Close;
        }
        let Slot {
            request, response, ..
        } = &mut self.slots[slot as usize];
        let (expect, known) = (
            &self.requests[*request].expect,
            &mut self.known_heads[*request],
        );
        let progress = match bytes {
            [] => Progress::More,
            _ => response.read(bytes, expect, known),
        };
        let outcome = match (progress, peer) {
            (Progress::Whole(used), _) if used == bytes.len() => response.verify(expect),
            // What follows is in a protocol that nobody asked for.
            (Progress::Whole(_), _) if response.switches_protocol() => response.verify(expect),
            // More than was announced: the two sides no longer agree where a response begins.
            (Progress::Whole(_) | Progress::Malformed, _) => Err(Fault::Malformed),
            (Progress::More, PeerState::Closed) if response.is_whole_at_close() => {
                response.verify(expect)
            }
            (Progress::More, PeerState::Closed) => Err(Fault::EarlyClose),
            (Progress::More, PeerState::Reset) => Err(Fault::Reset),
            (Progress::More, PeerState::Open) => {
                let state = &mut self.slots[slot as usize].state;
                if *state == State::Awaiting {
                    *state = State::Reading;
                }
                return Action::Wait;
            }
        };
        let whole = matches!(progress, Progress::Whole(used) if used == bytes.len());
        self.end(slot, outcome, now_ns);
        self.after_response(slot, whole && peer == PeerState::Open, now_ns)
    }

    /// After a response: keeps the connection, leaves it to the server to close, or closes it.
    fn after_response(&mut self, slot: u32, may_reuse: bool, now_ns: u64) -> Action {
        let Slot {
            state,
            response,
            is_leaving,
            ..
        } = &mut self.slots[slot as usize];
        if !may_reuse || *state == State::Sending || *is_leaving {
            return Action::Close;
        }
        if self.config.keep_alive && response.keeps_alive() {
            *state = State::Idle;
            return self.next_request(slot, now_ns);
        }
        Action::PutAside
    }

    fn end(&mut self, slot: u32, outcome: Result<u64, Fault>, now_ns: u64) {
        self.deadlines.clear(slot);
        if self.config.servers > 1 && outcome.is_ok() {
            let server = (self.config.first + slot) % self.config.servers;
            let in_flight = self.slots[slot as usize].in_flight;
            self.counters.count_server(in_flight, server);
        }
        let slot = &mut self.slots[slot as usize];
        let service_ns = now_ns.saturating_sub(slot.sent_ns);
        self.counters.end(
            slot.in_flight,
            now_ns,
            outcome.map(|body_bytes| Success {
                body_bytes,
                service_ns,
            }),
        );
        slot.in_flight = InFlight::NONE;
        let session_ns = self.picker.next(slot, self.requests.len());
        match &mut self.pacer {
            Pacer::Closed(think_times) => {
                slot.idle_until_ns = now_ns + think_times.next_ns() + session_ns;
            }
            // The next visitor thinks when there is one.
            Pacer::Open(_) if slot.is_leaving => slot.first_think_ns = session_ns,
            Pacer::Open(_) => slot.idle_until_ns = now_ns + session_ns,
        }
        if slot.is_leaving {
            slot.is_vacant = true;
            self.counters.end_session(now_ns);
            slot.response
                .cookies()
                .into_iter()
                .for_each(CookieJar::clear);
        }
    }
}

/// Whether a connection could not be made, so that asking again at once would spin.
pub(crate) fn must_back_off(fault: Fault) -> bool {
    fault == Fault::ConnectFailed || fault.is_clients_own() && fault != Fault::ClientLate
}

impl Slot {
    fn new() -> Self {
        Self {
            state: State::Disconnected,
            request: 0,
            position: 0,
            is_leaving: false,
            sent: 0,
            in_flight: InFlight::NONE,
            sent_ns: 0,
            response: ResponseReader::new(),
            session: None,
            output: Vec::new(),
            connection: ConnectionUse::None,
            retries: false,
            free_ns: 0,
            idle_until_ns: 0,
            is_vacant: true,
            first_think_ns: 0,
        }
    }
}

impl State {
    fn has_request(self) -> bool {
        match self {
            Self::Disconnected | Self::Idle => false,
            Self::Connecting | Self::Sending | Self::Awaiting | Self::Reading => true,
        }
    }
}
