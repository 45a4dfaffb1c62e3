//! The clients' own loop against a server of known behaviour, in simulated time: no socket, no
//! clock, no chance.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use record::load::{Fault, LoadResult};

use super::{Share, Times, budget, client_thread, requests, threads};
use crate::clients::{Action, Clients, PeerState};
use crate::clock;
use crate::counters::{self, Counters};
use crate::exchange::Exchange;
use crate::expect::Expect;
use crate::part::Part;
use crate::thread::{self, Control, Engine};
use crate::timeline::{self, Timeline};
use crate::traffic::{End, Mix, Traffic};

/// Body of a successful response.
pub(crate) const BODY: &[u8] = b"twenty bytes of text";

/// When runs begin: not at zero, so that a wrong difference shows.
const START_NS: u64 = 1_000_000_000_000;

/// Time between two bytes of a head without end.
const DROP_NS: u64 = 10_000_000;

/// What a server does.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// Requests that are served at once; others wait, first come, first served.
    pub(crate) workers: usize,
    /// Time that a request takes when it is served.
    pub(crate) service: Duration,
    /// The server is frozen between these two, counted from the start: what would be answered then
    /// is answered at the end.
    pub(crate) stall: Range<Duration>,
    pub(crate) behaviour: Behaviour,
    /// The client itself is held up between these two, as the server is in its stall.
    pub(crate) client_stall: Range<Duration>,
}

/// How a server responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Correct,
    /// Nobody listens.
    Refuses,
    /// The queue of new connections is full.
    NeverAccepts,
    /// It takes requests and says nothing.
    Silent,
    /// It stops in the middle of the body.
    Half,
    /// A byte of the head every 10 ms, for ever.
    Drips,
    /// Each response is the last one of its connection, which it leaves open for ever.
    LeavesOpen,
}

impl Server {
    /// A server that answers `workers / service` requests per second and not one more.
    pub(crate) fn of(workers: usize, service: Duration) -> Self {
        Self {
            workers,
            service,
            stall: Duration::ZERO..Duration::ZERO,
            behaviour: Behaviour::Correct,
            client_stall: Duration::ZERO..Duration::ZERO,
        }
    }

    pub(crate) fn that(behaviour: Behaviour) -> Self {
        Self {
            behaviour,
            ..Self::of(usize::MAX, Duration::from_micros(100))
        }
    }
}

/// Four clients of a closed loop, forty requests and not one more.
pub(crate) fn traffic() -> Traffic {
    let page = Exchange::get("/page", Expect::body(BODY));
    let server = ([127, 0, 0, 1], 1).into();
    Traffic {
        connections: 4,
        deadline: Duration::from_secs(5),
        end: End::Count(40),
        ..Traffic::plain(server, Mix::Round(vec![page]))
    }
}

/// A run that ends by itself.
pub(crate) fn run(traffic: &Traffic, server: &Server) -> LoadResult {
    run_until(traffic, server, Duration::MAX).0
}

/// A run that the user ends at an instant; also how long after the start it was over.
pub(crate) fn run_until(
    traffic: &Traffic,
    server: &Server,
    stop_at: Duration,
) -> (LoadResult, Duration) {
    traffic.check().unwrap();
    assert_eq!(threads(traffic), 1, "one thread is simulated");
    let times = Times::new(traffic, START_NS);
    let requests = requests(traffic);
    let (mut recorders, timeline) = timeline::begin(1, times.window.open_ns);
    let budget = budget(traffic.end, Part::WHOLE);
    let share = Share {
        part: Part::WHOLE,
        times,
        counters: Counters::new(times.window, budget, recorders.remove(0)).of(traffic.schedule),
    };
    let clients = client_thread(traffic, &requests, share).unwrap().clients;
    let stop = AtomicBool::new(false);
    let mut world = World {
        now_ns: START_NS,
        stop: &stop,
        stop_ns: START_NS.saturating_add(clock::ns(stop_at)),
        timeline,
        events: BinaryHeap::new(),
        number: 0,
        generations: vec![0; clients.slots()],
        free_ns: Vec::new(),
        server,
    };
    let control = Control {
        stop: &stop,
        spin_ns: 0,
    };
    let counters = thread::run(&mut world, clients, control).unwrap();
    let took = Duration::from_nanos(world.now_ns - START_NS);
    let result = counters::merge(&[counters], world.timeline);
    assert_eq!(
        result.planned,
        result.ok + result.unsent + result.fault_count()
    );
    (result, took)
}

fn head() -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", BODY.len())
}

/// Network and server of the simulation.
struct World<'w> {
    now_ns: u64,
    stop: &'w AtomicBool,
    /// When the user ends the run.
    stop_ns: u64,
    timeline: Timeline,
    /// What will happen, the earliest on top; of two at the same instant the one that was scheduled
    /// first.
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    number: u64,
    /// Connections that each slot has had, so that an event of an earlier one is not taken for its
    /// own.
    generations: Vec<u32>,
    /// When each worker is free again.
    free_ns: Vec<u64>,
    server: &'w Server,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    slot: u32,
    generation: u32,
    kind: EventKind,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum EventKind {
    Connected,
    Bytes(Vec<u8>),
    /// The byte of that number of a head without end.
    Drop(usize),
}

impl World<'_> {
    fn schedule(&mut self, at_ns: u64, slot: u32, kind: EventKind) {
        let generation = self.generations[slot as usize];
        self.number += 1;
        let events = Event {
            slot,
            generation,
            kind,
        };
        self.events.push(Reverse((at_ns, self.number, events)));
    }

    /// A request has come to the server.
    fn serve(&mut self, slot: u32) {
        let at_ns = self.service_ns();
        let head = head();
        let answer = match self.server.behaviour {
            Behaviour::Refuses | Behaviour::NeverAccepts | Behaviour::Silent => return,
            Behaviour::Drips => return self.schedule(at_ns, slot, EventKind::Drop(0)),
            Behaviour::Correct => [head.as_bytes(), BODY].concat(),
            Behaviour::LeavesOpen => {
                let last = head.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
                [last.as_bytes(), BODY].concat()
            }
            Behaviour::Half => [head.as_bytes(), &BODY[..5]].concat(),
        };
        self.schedule(at_ns, slot, EventKind::Bytes(answer));
    }

    /// When a request that comes now is answered.
    fn service_ns(&mut self) -> u64 {
        let earliest = self
            .free_ns
            .iter()
            .enumerate()
            .min_by_key(|(_, at_ns)| **at_ns);
        let worker = match earliest {
            Some((worker, at_ns)) if *at_ns <= self.now_ns => worker,
            Some((worker, _)) if self.free_ns.len() >= self.server.workers => worker,
            Some(_) | None => {
                self.free_ns.push(0);
                self.free_ns.len() - 1
            }
        };
        let begins_ns = self.free_ns[worker].max(self.now_ns);
        let mut ends_ns = begins_ns + clock::ns(self.server.service);
        let stall = &self.server.stall;
        let [from_ns, to_ns] = [stall.start, stall.end].map(|at| START_NS + clock::ns(at));
        if from_ns <= ends_ns && ends_ns < to_ns {
            ends_ns = to_ns;
        }
        self.free_ns[worker] = ends_ns;
        ends_ns
    }

    fn handle(&mut self, clients: &mut Clients<'_>, events: Event) {
        let Event {
            slot,
            generation,
            kind,
        } = events;
        if self.generations[slot as usize] != generation {
            return;
        }
        let action = match kind {
            EventKind::Connected => clients.connected(slot, self.now_ns),
            EventKind::Bytes(bytes) => clients.received(slot, &bytes, PeerState::Open, self.now_ns),
            EventKind::Drop(number) => {
                self.schedule(self.now_ns + DROP_NS, slot, EventKind::Drop(number + 1));
                let byte = head().as_bytes()[number % head().len()];
                clients.received(slot, &[byte], PeerState::Open, self.now_ns)
            }
        };
        self.perform(clients, slot, action);
    }
}

impl Engine for World<'_> {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn perform(&mut self, clients: &mut Clients<'_>, slot: u32, mut action: Action) {
        loop {
            action = match action {
                Action::Wait => return,
                Action::Open => match self.server.behaviour {
                    Behaviour::Refuses => clients.failed(slot, Fault::ConnectFailed, self.now_ns),
                    Behaviour::NeverAccepts => return,
                    Behaviour::Correct
                    | Behaviour::Silent
                    | Behaviour::Half
                    | Behaviour::Drips
                    | Behaviour::LeavesOpen => {
                        return self.schedule(self.now_ns, slot, EventKind::Connected);
                    }
                },
                Action::Send => {
                    let bytes = clients.output(slot).len();
                    self.serve(slot);
                    clients.wrote(slot, bytes)
                }
                Action::Close | Action::PutAside => {
                    self.generations[slot as usize] += 1;
                    clients.closed(slot, self.now_ns)
                }
            };
        }
    }

    fn wait(&mut self, clients: &mut Clients<'_>, patience: Duration) -> Result<()> {
        let next_ns = self
            .events
            .peek()
            .map_or(u64::MAX, |Reverse((at_ns, ..))| *at_ns);
        let wake_ns = self.now_ns.saturating_add(clock::ns(patience));
        self.now_ns = self
            .now_ns
            .max(next_ns.min(wake_ns).min(self.stop_ns.max(self.now_ns)));
        let stall = &self.server.client_stall;
        let [from_ns, to_ns] = [stall.start, stall.end].map(|at| START_NS + clock::ns(at));
        if from_ns <= self.now_ns && self.now_ns < to_ns {
            self.now_ns = to_ns;
        }
        clients.counters.wake(self.now_ns);
        if self.stop_ns <= self.now_ns {
            self.stop.store(true, Ordering::Relaxed);
            self.stop_ns = u64::MAX;
        }
        self.timeline.collect();
        while let Some(Reverse((at_ns, ..))) = self.events.peek()
            && *at_ns <= self.now_ns
            && let Some(Reverse((.., events))) = self.events.pop()
        {
            self.handle(clients, events);
        }
        Ok(())
    }
}

mod tests;
