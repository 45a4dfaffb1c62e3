//! The clients' side: drives the load against servers on another system, and tells their agent.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use record::load::Tick;
use record::load_path::Side;
use record::protocol::clients::{FromClients, ToClients};
use record::protocol::drive::{Drive, Driven, tick_in_parts};
use record::protocol::hosts::HostCommand;
use record::protocol::{CeilingJob, Job};
use workload::context::WorkloadContext;
use workload::{Timing, Watcher};

use super::counters::{self, Counters};
use super::failure;
use super::follow::Follower;
use super::hosts::Hosts;
use crate::channel::Channel;
use crate::job::raise_open_files;
use crate::netns::{CLIENT, Netns, SERVER};
use crate::path::{PathSeen, PathWatch};
use crate::{ceiling, cpus, remote};

/// Questions by which the way to the servers' agent and back is measured; the median counts.
const PINGS: usize = 9;

/// Where the clients are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'p> {
    /// In this process; the word is a fact.
    Here(&'static str),
    /// On hosts that share them, led by this process, which is of this build.
    Hosts(&'p [HostCommand], &'p str),
}

/// Drives the job's load as soon as the servers are ready. What fails is told to their agent too.
pub(crate) fn perform(
    job: &Job,
    place: Place<'_>,
    servers: Channel,
    stop: &AtomicBool,
) -> Result<()> {
    let line = Line::new(servers)?;
    let driven = match place {
        Place::Here(word) => drive(job, word, &line, stop),
        Place::Hosts(commands, build) => lead(job, commands, build, &line, stop),
    };
    match driven {
        Ok(driven) => {
            for message in driven.messages() {
                line.say(&FromClients::Drive(message))?;
            }
            Ok(())
        }
        Err(why) => {
            // They may be gone, which is then what is wrong.
            let _ = line.say(&FromClients::Drive(failure::failed(&why)));
            Err(why)
        }
    }
}

fn drive(job: &Job, place: &str, line: &Arc<Line>, stop: &AtomicBool) -> Result<Driven> {
    raise_open_files().context("raise the limit of open files")?;
    let cpus = cpus::numbers()?;
    line.wait_until_ready()?;
    let round_trip = line.round_trip()?;
    let job = &told_of_null_server(job);
    let context = context_of(job, cpus.len() as u32);
    let workload = remote::load_of(job, &context)?;
    // Behind a card of QEMU's the clients' side is in the facts, and nothing is judged of it.
    let is_judged = !job.servers.is_empty();
    let ends = [(Side::Clients, &Netns::own())];
    let watch = is_judged.then(|| PathWatch::open(&ends)).transpose()?;
    let mut teller = Teller {
        line: Arc::clone(line),
        timing: workload.timing(),
        watch,
        window: None,
    };
    let mut driven = workload.drive(&context, stop, &mut teller)?;
    let window = teller.window.take();
    let window = window.context("a drive that never began")?.end()?;
    driven.facts.extend(counters::of_side(&cpus, place));
    driven.facts.extend(window.facts(round_trip, &cpus));
    driven.path = driven
        .path
        .zip(window.path)
        .map(|(path, seen)| seen.added_to(path));
    Ok(driven)
}

/// Has hosts drive it.
fn lead(
    job: &Job,
    commands: &[HostCommand],
    build: &str,
    line: &Arc<Line>,
    stop: &AtomicBool,
) -> Result<Driven> {
    let job = told_of_null_server(job);
    let (commands, job) = remote::shared_out(&job, commands);
    // They log in while the servers start.
    let mut hosts = Hosts::start(commands)?;
    line.wait_until_ready()?;
    let round_trip = line.round_trip()?;
    let workload = workload::from_options(&job.workload)?;
    let timing = match &job.ceiling {
        // The hosts reach the null server; this one may not.
        Some(_) => workload::ceiling::timing(&*workload),
        None => workload.timing(),
    };
    let mut teller = LeadTeller {
        line: Arc::clone(line),
        edges: [Ok(Duration::ZERO), Ok(Duration::ZERO)],
    };
    let mut driven = hosts.lead(&job, (build, timing), stop, &mut teller)?;
    let [opening, closing] = teller.edges;
    driven.facts.extend(times(round_trip, opening?, closing?));
    Ok(driven)
}

/// The context of clients whose servers another agent has started.
pub(crate) fn context_of(job: &Job, cpus: u32) -> WorkloadContext {
    let addresses = job.servers.iter().copied().map(IpAddr::V4);
    WorkloadContext {
        server: job.servers.first().copied().unwrap_or(SERVER),
        client: CLIENT,
        addresses: addresses.collect(),
        one_fewer: job.one_fewer,
        ..WorkloadContext::without_server(PathBuf::new(), cpus, job.seed)
    }
}

/// A null server that the servers' agent starts is at the servers' address.
fn told_of_null_server(job: &Job) -> Job {
    let mut job = job.clone();
    if job.ceiling == Some(CeilingJob::Own) {
        let address = job.servers.first().copied().unwrap_or(SERVER);
        job.ceiling = Some(CeilingJob::At(format!(
            "http://{address}:{}",
            ceiling::PORT
        )));
    }
    job
}

/// The line to the servers' agent. Several threads speak; one at a time listens.
struct Line {
    speak: Mutex<Channel>,
    listen: Mutex<Channel>,
}

const UNPOISONED: &str = "who holds the lock does not panic";

impl Line {
    fn new(channel: Channel) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            speak: Mutex::new(channel.try_clone()?),
            listen: Mutex::new(channel),
        }))
    }

    fn say(&self, message: &FromClients) -> Result<()> {
        let mut channel = self.speak.lock().expect(UNPOISONED);
        record::protocol::send(&mut *channel, message).context("cannot speak to the servers' agent")
    }

    fn wait_until_ready(&self) -> Result<()> {
        match self.hear().context("wait for the servers")? {
            ToClients::Ready => Ok(()),
            ToClients::Noted => bail!("the servers answered what nobody had asked"),
        }
    }

    fn hear(&self) -> Result<ToClients> {
        let mut channel = self.listen.lock().expect(UNPOISONED);
        record::protocol::receive(&mut *channel).context("the servers' agent is gone")
    }

    /// Says what a drive goes on without.
    fn tell(&self, message: &FromClients) {
        if let Err(why) = self.say(message) {
            // The drive goes on; its end cannot be told either, and that ends the job.
            eprintln!("bakeoff clients: {why:#}");
        }
    }

    fn tell_tick(&self, tick: Tick) {
        for part in tick_in_parts(tick) {
            self.tell(&FromClients::Drive(Drive::Tick(part)));
        }
    }

    /// Says something that is to be noted; the time until it was.
    fn ask(&self, message: &FromClients) -> Result<Duration> {
        let asked = Instant::now();
        self.say(message)?;
        match self.hear()? {
            ToClients::Noted => Ok(asked.elapsed()),
            ToClients::Ready => bail!("the servers were ready twice"),
        }
    }

    /// The median time to the other agent and back, without load.
    fn round_trip(&self) -> Result<Duration> {
        let mut times = (0..PINGS)
            .map(|_| self.ask(&FromClients::Ping))
            .collect::<Result<Vec<_>>>()?;
        times.sort_unstable();
        Ok(times[PINGS / 2])
    }
}

/// Tells the servers' agent how the drive goes.
struct Teller {
    line: Arc<Line>,
    timing: Timing,
    watch: Option<PathWatch>,
    window: Option<Window>,
}

impl Watcher for Teller {
    fn begins(&mut self) {
        self.tell(&FromClients::Begins);
        let watch = self.watch.take();
        self.window = Some(Window::begin(Arc::clone(&self.line), self.timing, watch));
    }

    fn steps(&mut self) {
        self.tell(&FromClients::Step);
    }

    fn ticks(&mut self, tick: Tick) {
        self.line.tell_tick(tick);
    }
}

impl Teller {
    fn tell(&self, message: &FromClients) {
        self.line.tell(message);
    }
}

/// Tells the servers' agent how hosts go on with theirs.
struct LeadTeller {
    line: Arc<Line>,
    /// Times until it had noted that the window opens, and that it closes.
    edges: [Result<Duration>; 2],
}

impl Follower for LeadTeller {
    fn begins(&mut self) {
        self.line.tell(&FromClients::Begins);
    }

    fn steps(&mut self) {
        self.line.tell(&FromClients::Step);
    }

    fn ticks(&mut self, tick: Tick) {
        self.line.tell_tick(tick);
    }

    fn opens(&mut self) {
        self.edges[0] = self.line.ask(&FromClients::Opens);
    }

    fn closes(&mut self) {
        self.edges[1] = self.line.ask(&FromClients::Closes);
    }
}

/// The window, told on a thread of its own so that load never makes it late.
struct Window {
    thread: JoinHandle<Result<Told>>,
    over: Sender<()>,
}

/// A window that is past.
struct Told {
    opening: Duration,
    closing: Duration,
    length: Duration,
    counters: Counters,
    path: Option<PathSeen>,
}

impl Window {
    fn begin(line: Arc<Line>, timing: Timing, watch: Option<PathWatch>) -> Self {
        let began = Instant::now();
        let (over, is_over) = channel();
        let thread =
            thread::spawn(move || tell_window(&line, watch.as_ref(), timing, began, &is_over));
        Self { thread, over }
    }

    /// Ends a window that is still open, with its drive.
    fn end(self) -> Result<Told> {
        drop(self.over);
        let told = self.thread.join();
        told.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn tell_window(
    line: &Line,
    watch: Option<&PathWatch>,
    timing: Timing,
    began: Instant,
    is_over: &Receiver<()>,
) -> Result<Told> {
    let wait = |instant: Duration| {
        let left = (began + instant).saturating_duration_since(Instant::now());
        is_over.recv_timeout(left) != Err(RecvTimeoutError::Disconnected)
    };
    let Timing { warmup, window } = timing;
    // A window without a warm-up opens as the load begins, which has been told.
    if !wait(warmup) {
        bail!("the load ended before its window opened");
    }
    let path = || watch.map(PathWatch::read);
    let (opened, open, first) = (Instant::now(), path(), Counters::read());
    let opening = if warmup.is_zero() {
        Duration::ZERO
    } else {
        line.ask(&FromClients::Opens)?
    };
    wait(warmup + window);
    let (length, close, last) = (opened.elapsed(), path(), Counters::read());
    let closing = line.ask(&FromClients::Closes)?;
    let ends = open.zip(close);
    Ok(Told {
        opening,
        closing,
        length,
        counters: last.since(&first),
        path: watch
            .zip(ends)
            .map(|(watch, (open, close))| watch.between(&open, &close)),
    })
}

impl Told {
    fn facts(&self, round_trip: Duration, cpus: &[u32]) -> BTreeMap<String, String> {
        let mut facts = self.counters.facts(self.length, cpus.len());
        facts.extend(times(round_trip, self.opening, self.closing));
        facts
    }
}

/// How far the two agents are from each other, as facts.
fn times(
    round_trip: Duration,
    opening: Duration,
    closing: Duration,
) -> impl Iterator<Item = (String, String)> {
    let times = [
        ("round-trip-us", round_trip),
        ("open-noted-us", opening),
        ("close-noted-us", closing),
    ];
    let fact = |(name, time): (&str, Duration)| (counters::key(name), time.as_micros().to_string());
    times.into_iter().map(fact)
}

impl std::fmt::Debug for Line {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Line")
    }
}
