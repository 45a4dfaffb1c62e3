//! The simulated clients of one thread, as state machines without sockets and without a clock.
//!
//! An engine owns the sockets. It reports what happened to a connection and performs the `Action`
//! that is returned:
//! ```text
//! Disconnected --Open--> Connecting --Send--> Sending --> Awaiting --> Reading --+--> Idle --Send--> ...
//!    ^                                                                           |
//!    +---------------------------------Close or PutAside-------------------------+
//! ```
//! Disconnected and Idle have no request under way. All other states have one, with a deadline.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use record::load::Fault;

use crate::counters::{Counters, InFlight, Success};
use crate::expect::Expect;
use crate::prng::{Prng, WeightedChoice};
use crate::response::{KnownHead, Progress, ResponseReader};
use crate::schedule::Pacer;
use crate::script::Script;
use crate::timer_wheel::TimerWheel;
use crate::tls::{ClientTls, Session};

/// How long a client waits after a failed connection before it tries again.
pub(crate) const BACK_OFF_NS: u64 = 100_000_000;

/// Delay between the starts of two clients of a closed loop. Ten thousand at once would overflow
/// the server's accept queue, from which the kernel takes seconds to recover.
pub(crate) const OPENING_GAP_NS: u64 = 50_000;

/// Most expired arrivals that are counted before the thread handles its sockets again.
const EXPIRED_BATCH: usize = 4096;

/// What the engine must do with a connection now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Wait for an event.
    Wait,
    /// Connect to the server.
    Open,
    /// Send the bytes of `output`.
    Send,
    /// Close the connection, then call `closed` for the next action.
    Close,
    /// The last response has come: leave closing to the server and call `closed` at once.
    PutAside,
}

/// State of the server's side after the received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerState {
    /// The server may send more.
    Open,
    /// The server has closed the connection.
    Closed,
    /// The server has reset the connection.
    Reset,
}

/// A request in wire format, and the expected response.
#[derive(Debug)]
pub(crate) struct PreparedRequest {
    pub(crate) bytes: Vec<u8>,
    pub(crate) expect: Expect,
    /// Length of the body, which is the end of `bytes`.
    pub(crate) body_bytes: usize,
    /// Whether it may be sent twice.
    pub(crate) is_repeatable: bool,
    /// Whether the response has no body whatever its head says, as after `HEAD`.
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
    /// No request before this one.
    New,
    Reused,
}

struct Slot {
    state: State,
    /// The request under way, or the next one.
    request: usize,
    /// The visitor's position in the script.
    position: usize,
    /// Whether the next request is another visitor's.
    is_leaving: bool,
    /// Number of bytes of the request, or of `output`, that have been sent.
    sent: usize,
    in_flight: InFlight,
    sent_ns: u64,
    response: ResponseReader,
    /// TLS session, if connections are encrypted.
    session: Option<Box<Session>>,
    /// Bytes to send if they differ from the prepared request: encrypted, or with cookies.
    output: Vec<u8>,
    connection: ConnectionUse,
    /// Whether the request under way must be sent again on a new connection.
    retries: bool,
    /// When the last request ended.
    free_ns: u64,
    /// End of the think time, or of the wait after a failure.
    idle_until_ns: u64,
    /// Whether the slot waits for the next arrival of an open loop.
    is_vacant: bool,
    /// Think time of the next visitor before the first request, in an open loop.
    first_think_ns: u64,
}

/// All clients of one thread. Each slot has at most one connection at a time.
pub(crate) struct Clients<'o> {
    pub(crate) counters: Counters,
    requests: &'o [PreparedRequest],
    picker: Picker<'o>,
    known_heads: Vec<KnownHead>,
    slots: Vec<Slot>,
    deadlines: TimerWheel,
    pacer: Pacer,
    /// Start times and slots, the earliest on top. A slot is in it at most once.
    wake_ups: BinaryHeap<Reverse<(u64, u32)>>,
    /// Slots that wait for an arrival, the longest waiting one in front.
    free_slots: VecDeque<u32>,
    config: Config,
    tls: Option<ClientTls>,
    /// Buffer for decrypted bytes.
    plain: Vec<u8>,
    /// Buffer for a request with cookies.
    composed: Vec<u8>,
    stopped: bool,
}

/// Chooses the next request.
pub(crate) enum Picker<'o> {
    /// In turn.
    Round,
    /// At random, by weight.
    Weighted(WeightedChoice),
    /// By a script.
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

    /// Chooses the request after the one that has ended. Returns the think time before it.
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

/// The earliest instants at which something is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    /// A request begins; needs the best precision that the system offers.
    pub(crate) send_ns: u64,
    /// A deadline passes; a millisecond of delay does not matter.
    pub(crate) timer_ns: u64,
}

/// Settings of all clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    /// Whether a connection serves more than one request.
    pub(crate) keep_alive: bool,
    /// Time limit of a request, including connecting.
    pub(crate) deadline_ns: u64,
    /// When the clients start.
    pub(crate) start_ns: u64,
    /// Number of server addresses, which slots use in turn.
    pub(crate) servers: u32,
    /// Number of this thread's first slot among those of all threads.
    pub(crate) first: u32,
}

/// Load of one thread's clients.
pub(crate) struct Setup<'o> {
    pub(crate) counters: Counters,
    pub(crate) pacer: Pacer,
    pub(crate) picker: Picker<'o>,
    /// TLS settings, if connections are encrypted.
    pub(crate) tls: Option<ClientTls>,
}

impl<'o> Clients<'o> {
    /// `numbers` are the numbers of this thread's slots among those of all threads.
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

    /// Number of slots.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Returns a due slot and its action. Call it until it returns `None`.
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
                // A client without think time has no scheduled time: it starts now.
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

    /// When to call `due` again.
    pub(crate) fn next_due(&self) -> Due {
        let first = self.wake_ups.peek();
        let wake_ns = first.map_or(u64::MAX, |Reverse((at_ns, _))| *at_ns);
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
            timer_ns: self.counters.stall.check_ns(deadline_ns).min(expiry_ns),
        }
    }

    /// Whether everything that counts has ended. Closes the window of a run that ends by count.
    pub(crate) fn is_over(&mut self, now_ns: u64) -> bool {
        if self.counters.pending > 0 {
            return false;
        }
        if self.counters.is_spent() {
            self.counters.close(now_ns);
        }
        let close_ns = self.counters.window.close_ns;
        let has_arrivals = match &self.pacer {
            Pacer::Closed(_) => false,
            Pacer::Open(arrivals) => !self.counters.is_spent() && arrivals.next_ns < close_ns,
        };
        close_ns <= now_ns && !has_arrivals
    }

    /// Ends the run early: closes the window and begins no more requests.
    pub(crate) fn stop(&mut self, now_ns: u64) {
        self.counters.close(now_ns);
        if let Pacer::Open(arrivals) = &mut self.pacer {
            self.counters.leave_all_unsent(arrivals, now_ns, now_ns);
        }
        self.stopped = true;
    }

    /// Withdraws all requests under way.
    pub(crate) fn give_up(&mut self) {
        for slot in &mut self.slots {
            if slot.state.has_request() {
                self.counters.withdraw(slot.in_flight);
                slot.in_flight = InFlight::NONE;
            }
        }
    }

    /// Bytes that a slot still has to send.
    pub(crate) fn output(&self, slot: u32) -> &[u8] {
        let slot = &self.slots[slot as usize];
        if self.composes() {
            &slot.output[slot.sent..]
        } else {
            &self.requests[slot.request].bytes[slot.sent..]
        }
    }

    /// Whether the slot is connecting.
    pub(crate) fn is_connecting(&self, slot: u32) -> bool {
        self.slots[slot as usize].state == State::Connecting
    }

    /// Whether the slot has something to send.
    pub(crate) fn is_sending(&self, slot: u32) -> bool {
        let slot = &self.slots[slot as usize];
        slot.state == State::Sending || slot.sent < slot.output.len()
    }

    /// Scheduled send time of the slot's request.
    pub(crate) fn scheduled_ns(&self, slot: u32) -> u64 {
        self.slots[slot as usize].in_flight.scheduled_ns
    }

    /// Whether part of a response has come.
    pub(crate) fn is_reading(&self, slot: u32) -> bool {
        self.slots[slot as usize].state == State::Reading
    }

    /// Body bytes still to come; `u64::MAX` if unknown.
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

    /// The socket has taken `bytes` bytes of the output.
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

    /// Bytes were received.
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

    /// Bytes were received on an encrypted connection.
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
        let client = &mut self.slots[slot as usize];
        let shook_hands = session.is_shaking_hands();
        let decrypted = session.decrypt(bytes, &mut plain, &mut client.output);
        if shook_hands && !session.is_shaking_hands() {
            client.sent_ns = now_ns;
        }
        client.session = Some(session);
        let action = match (decrypted, peer) {
            (Err(_), _) if shook_hands => self.failed(slot, Fault::ConnectFailed, now_ns),
            (Err(_), _) => self.failed(slot, Fault::Malformed, now_ns),
            (Ok(true), PeerState::Open) => self.take(slot, &plain, PeerState::Closed, now_ns),
            (Ok(false), PeerState::Open) if plain.is_empty() => Action::Wait,
            (Ok(_), peer) => self.take(slot, &plain, peer, now_ns),
        };
        self.plain = plain;
        // TLS may have to send protocol messages.
        match action {
            Action::Wait if !self.slots[slot as usize].output.is_empty() => Action::Send,
            action => action,
        }
    }

    /// Decides whether a request is sent again after its connection broke: only on a reused
    /// connection without any response, because the server may have closed it before the request
    /// arrived.
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
            // Unexpected bytes: some servers state why they close an idle connection.
            State::Idle => Action::Close,
        }
    }

    /// Connecting, writing or reading failed.
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
        let client = &mut self.slots[slot as usize];
        let had_client = client.state != State::Idle;
        if std::mem::replace(&mut client.connection, ConnectionUse::None) != ConnectionUse::None {
            self.counters.connection_closed();
        }
        client.is_leaving = false;
        client.session = None;
        client.output.clear();
        client.sent = 0;
        if std::mem::replace(&mut client.retries, false) {
            client.state = State::Connecting;
            return Action::Open;
        }
        client.state = State::Disconnected;
        self.deadlines.clear(slot);
        // If the server closed an idle connection, its client is already waiting for the next
        // request.
        if had_client {
            self.next_request(slot, now_ns)
        } else {
            Action::Wait
        }
    }

    fn time_out(&mut self, slot: u32, now_ns: u64) -> Action {
        let client = &self.slots[slot as usize];
        let session = client.session.as_ref();
        let fault = match client.state {
            _ if session.is_some_and(|session| session.is_shaking_hands()) => Fault::ConnectTimeout,
            State::Disconnected | State::Idle => return Action::Wait,
            State::Connecting => Fault::ConnectTimeout,
            State::Sending | State::Awaiting => Fault::FirstByteTimeout,
            State::Reading => Fault::WholeTimeout,
        };
        let fault = if self.counters.stall.held_back(client.in_flight.scheduled_ns) {
            // The client stalled, so the server did not have the whole deadline.
            Fault::ClientLate
        } else {
            fault
        };
        self.failed(slot, fault, now_ns)
    }

    /// After the end of a request: begins the next one now or later.
    fn next_request(&mut self, slot: u32, now_ns: u64) -> Action {
        let client = &mut self.slots[slot as usize];
        client.free_ns = now_ns;
        let idle_until_ns = client.idle_until_ns;
        // A visitor continues the visit before the slot takes another arrival.
        let waits_for_arrival = matches!(self.pacer, Pacer::Open(_)) && client.is_vacant;
        if idle_until_ns > now_ns {
            if waits_for_arrival {
                // The connection failed. The next arrival tries again, but only after the thread
                // has handled its sockets.
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

    /// Begins an arrival: a single request, or a visitor who makes several.
    fn begin_visit(&mut self, slot: u32, scheduled_ns: u64, now_ns: u64) -> Action {
        if !matches!(self.picker, Picker::Sessions { .. }) {
            return self.begin_scheduled(slot, scheduled_ns, now_ns);
        }
        self.counters.begin_session(now_ns);
        let client = &mut self.slots[slot as usize];
        client.is_vacant = false;
        let first_ns = scheduled_ns + std::mem::take(&mut client.first_think_ns);
        if first_ns <= now_ns {
            return self.begin_scheduled(slot, first_ns, now_ns);
        }
        self.wake_ups.push(Reverse((first_ns, slot)));
        Action::Wait
    }

    /// The arrival that is due, if any. Counts arrivals whose deadline has already passed.
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
                let until_ns = self
                    .counters
                    .stall
                    .server_wait_end_ns(scheduled_ns, until_ns);
                self.counters.leave_all_unsent(arrivals, until_ns, now_ns);
            } else {
                arrivals.advance();
                let in_flight = self.counters.begin(scheduled_ns);
                self.counters.end(in_flight, now_ns, Err(Fault::ClientLate));
            }
        }
        None
    }

    /// Moves on to the next arrival of an open loop.
    fn advance(&mut self) {
        if let Pacer::Open(arrivals) = &mut self.pacer {
            arrivals.advance();
        }
    }

    /// Begins a scheduled request and records its send delay. The time for which the slot was busy
    /// does not count: it waited for the server.
    fn begin_scheduled(&mut self, slot: u32, scheduled_ns: u64, now_ns: u64) -> Action {
        let action = self.begin(slot, scheduled_ns, now_ns);
        let Slot {
            free_ns, in_flight, ..
        } = self.slots[slot as usize];
        let stall = &self.counters.stall;
        let delay_ns = stall.send_delay_ns(scheduled_ns, free_ns, now_ns);
        self.counters.record_send_delay(in_flight, delay_ns);
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

    /// Whether the bytes to send differ from the prepared requests.
    fn composes(&self) -> bool {
        self.tls.is_some() || matches!(self.picker, Picker::Sessions { .. })
    }

    /// Writes the request to `output`, with cookies and encrypted, if it is not sent as prepared.
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
            // The bytes that follow are of another protocol.
            (Progress::Whole(_), _) if response.switches_protocol() => response.verify(expect),
            // More bytes than announced: client and server disagree where the next response begins.
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

    /// After a response: keeps the connection, lets the server close it, or closes it.
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
        let outcome = outcome.map(|body_bytes| Success {
            body_bytes,
            service_ns: now_ns.saturating_sub(slot.sent_ns),
        });
        self.counters.end(slot.in_flight, now_ns, outcome);
        slot.in_flight = InFlight::NONE;
        let session_ns = self.picker.next(slot, self.requests.len());
        match &mut self.pacer {
            Pacer::Closed(think_times) => {
                slot.idle_until_ns = now_ns + think_times.next_ns() + session_ns;
            }
            // The think time of the next visitor starts with the next arrival.
            Pacer::Open(_) if slot.is_leaving => slot.first_think_ns = session_ns,
            Pacer::Open(_) => slot.idle_until_ns = now_ns + session_ns,
        }
        if slot.is_leaving {
            slot.is_vacant = true;
            self.counters.end_session(now_ns);
            if let Some(cookies) = slot.response.cookies() {
                cookies.clear();
            }
        }
    }
}

/// Whether a client must wait before its next request, because no connection could be made.
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
