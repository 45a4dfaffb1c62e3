//! Runs the client loop against a simulated server in simulated time, without sockets or clocks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use record::load::LoadResult;

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

/// Start of runs. It is not zero, so that errors in time differences show.
const START_NS: u64 = 1_000_000_000_000;

/// Time between two bytes of an endless head.
const DRIP_NS: u64 = 10_000_000;

/// A simulated server.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// Number of requests that are served at once; others wait in order.
    pub(crate) workers: usize,
    /// Service time of a request.
    pub(crate) service: Duration,
    /// Stall of the server, counted from the start of the run: responses are delayed until its end.
    pub(crate) stall: Range<Duration>,
    pub(crate) behaviour: Behaviour,
    /// Stall of the client, counted from the start of the run.
    pub(crate) client_stall: Range<Duration>,
}

/// How a server responds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Correct,
    /// Refuses connections.
    Refuses,
    /// Has a full accept queue.
    NeverAccepts,
    /// Never responds.
    Silent,
    /// Stops in the middle of the body.
    Half,
    /// Sends a byte of an endless head every 10 ms.
    Drips,
    /// Sends `Connection: close` and leaves the connection open.
    LeavesOpen,
}

impl Server {
    /// A server that answers at most `workers / service` requests per second.
    pub(crate) fn new(workers: usize, service: Duration) -> Self {
        Self {
            workers,
            service,
            stall: Duration::ZERO..Duration::ZERO,
            behaviour: Behaviour::Correct,
            client_stall: Duration::ZERO..Duration::ZERO,
        }
    }

    pub(crate) fn with_behaviour(behaviour: Behaviour) -> Self {
        Self {
            behaviour,
            ..Self::new(usize::MAX, Duration::from_micros(100))
        }
    }
}

/// Four clients of a closed loop, forty requests.
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

/// Runs a load to its end.
pub(crate) fn run(traffic: &Traffic, server: &Server) -> LoadResult {
    run_until(traffic, server, Duration::MAX).0
}

/// Runs a load that the user stops. Also returns how long after the start it was over.
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
        counters: Counters::new(times.window, budget, recorders.remove(0))
            .for_schedule(traffic.schedule),
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
    /// Future events, the earliest on top; those of the same instant in the order of their numbers.
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    number: u64,
    /// Number of connections of each slot so far, to recognise events of earlier ones.
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
    /// The byte with this index of an endless head.
    Drip(usize),
}

impl World<'_> {
    fn schedule(&mut self, at_ns: u64, slot: u32, kind: EventKind) {
        self.number += 1;
        let event = Event {
            slot,
            generation: self.generations[slot as usize],
            kind,
        };
        self.events.push(Reverse((at_ns, self.number, event)));
    }

    /// Handles a request.
    fn serve(&mut self, slot: u32) {
        let at_ns = self.service_ns();
        let head = head();
        let answer = match self.server.behaviour {
            Behaviour::Refuses | Behaviour::NeverAccepts | Behaviour::Silent => return,
            Behaviour::Drips => return self.schedule(at_ns, slot, EventKind::Drip(0)),
            Behaviour::Correct => [head.as_bytes(), BODY].concat(),
            Behaviour::LeavesOpen => {
                let last = head.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
                [last.as_bytes(), BODY].concat()
            }
            Behaviour::Half => [head.as_bytes(), &BODY[..5]].concat(),
        };
        self.schedule(at_ns, slot, EventKind::Bytes(answer));
    }

    /// When a request that arrives now is answered.
    fn service_ns(&mut self) -> u64 {
        let workers = self.free_ns.iter().enumerate();
        let worker = match workers.min_by_key(|(_, at_ns)| **at_ns) {
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

    fn handle(&mut self, clients: &mut Clients<'_>, event: Event) {
        let Event {
            slot,
            generation,
            kind,
        } = event;
        if self.generations[slot as usize] != generation {
            return;
        }
        let action = match kind {
            EventKind::Connected => clients.connected(slot, self.now_ns),
            EventKind::Bytes(bytes) => clients.received(slot, &bytes, PeerState::Open, self.now_ns),
            EventKind::Drip(number) => {
                self.schedule(self.now_ns + DRIP_NS, slot, EventKind::Drip(number + 1));
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

    fn open(&mut self, slot: u32) -> io::Result<()> {
        match self.server.behaviour {
            Behaviour::Refuses => return Err(io::ErrorKind::ConnectionRefused.into()),
            Behaviour::NeverAccepts => {}
            Behaviour::Correct
            | Behaviour::Silent
            | Behaviour::Half
            | Behaviour::Drips
            | Behaviour::LeavesOpen => self.schedule(self.now_ns, slot, EventKind::Connected),
        }
        Ok(())
    }

    fn send(&mut self, clients: &mut Clients<'_>, slot: u32) -> Option<Action> {
        let bytes = clients.output(slot).len();
        self.serve(slot);
        Some(clients.wrote(slot, bytes))
    }

    fn close(&mut self, slot: u32) {
        self.generations[slot as usize] += 1;
    }

    fn put_aside(&mut self, _: &mut Clients<'_>, slot: u32, _: u64) {
        self.close(slot);
    }

    fn wait(&mut self, clients: &mut Clients<'_>, patience: Duration) -> Result<()> {
        let next = self.events.peek();
        let next_ns = next.map_or(u64::MAX, |Reverse((at_ns, ..))| *at_ns);
        let wake_ns = self.now_ns.saturating_add(clock::ns(patience));
        let until_ns = next_ns.min(wake_ns).min(self.stop_ns);
        self.now_ns = self.now_ns.max(until_ns);
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
            && let Some(Reverse((.., event))) = self.events.pop()
        {
            self.handle(clients, event);
        }
        Ok(())
    }
}

mod tests;
