//! The clients' side: drives the load against servers on another system, and reports to their agent.

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
use workload::{Control, Timing, Watcher};

use super::counters::{self, Counters};
use super::failure;
use super::follow::Follower;
use super::hosts::Hosts;
use crate::UNPOISONED;
use crate::channel::Channel;
use crate::job::raise_open_files;
use crate::netns::{CLIENT, Netns, SERVER};
use crate::path::{PathSeen, PathWatch};
use crate::{ceiling, cpus, remote};

/// Messages by which the round trip to the servers' agent is measured; the median counts.
const PINGS: usize = 9;

/// Where the clients run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'p> {
    /// In this process; the name is a fact.
    Here(&'static str),
    /// On hosts that share them, led by this process; with the build id of this program.
    Hosts(&'p [HostCommand], &'p str),
}

/// Drives the job's load as soon as the servers are ready. Reports a failure to their agent too.
pub(crate) fn perform(
    job: &Job,
    place: Place<'_>,
    servers: Channel,
    stop: &AtomicBool,
) -> Result<()> {
    let servers = Servers::new(servers)?;
    let driven = match place {
        Place::Here(name) => drive(job, name, &servers, stop),
        Place::Hosts(commands, build) => lead(job, commands, build, &servers, stop),
    };
    match driven {
        Ok(driven) => {
            for message in driven.messages() {
                servers.send(&FromClients::Drive(message))?;
            }
            Ok(())
        }
        Err(why) => {
            // Fails too if the failure is that they are gone.
            let _ = servers.send(&FromClients::Drive(failure::to_message(&why)));
            Err(why)
        }
    }
}

fn drive(job: &Job, place: &str, servers: &Arc<Servers>, stop: &AtomicBool) -> Result<Driven> {
    raise_open_files().context("raise the limit of open files")?;
    let cpus = cpus::numbers()?;
    servers.wait_until_ready()?;
    let round_trip = servers.round_trip()?;
    let job = &with_null_server_address(job);
    let context = context_of(job, cpus.len() as u32);
    let workload = remote::load_of(job, &context)?;
    // Behind QEMU's network card the clients' side is recorded as facts, but not judged.
    let is_judged = !job.servers.is_empty();
    let ends = [(Side::Clients, &Netns::current())];
    let watch = is_judged.then(|| PathWatch::open(&ends)).transpose()?;
    let mut reporter = Reporter {
        servers: Arc::clone(servers),
        timing: workload.timing(),
        watch,
        window: None,
    };
    let mut control = Control {
        stop,
        watcher: &mut reporter,
    };
    let mut driven = workload.drive(&context, &mut control)?;
    let window = reporter.window.take();
    let window = window.context("a drive that never began")?.end()?;
    driven.facts.extend(counters::constant_facts(&cpus, place));
    driven.facts.extend(window.facts(round_trip, &cpus));
    driven.path = driven
        .path
        .zip(window.path)
        .map(|(path, seen)| seen.added_to(path));
    Ok(driven)
}

/// Has hosts drive the load.
fn lead(
    job: &Job,
    commands: &[HostCommand],
    build: &str,
    servers: &Arc<Servers>,
    stop: &AtomicBool,
) -> Result<Driven> {
    let job = with_null_server_address(job);
    let (commands, job) = remote::hosts_and_job(&job, commands);
    // Connects to the hosts while the servers start.
    let mut hosts = Hosts::start(commands)?;
    servers.wait_until_ready()?;
    let round_trip = servers.round_trip()?;
    let workload = workload::from_options(&job.workload)?;
    let timing = match &job.ceiling {
        // Only the hosts are known to reach the null server.
        Some(_) => workload::ceiling::timing(&*workload),
        None => workload.timing(),
    };
    let mut reporter = LeadReporter {
        servers: Arc::clone(servers),
        edges: [Ok(Duration::ZERO), Ok(Duration::ZERO)],
    };
    let mut driven = hosts.lead(&job, build, timing, stop, &mut reporter)?;
    let [opening, closing] = reporter.edges;
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

/// Adds the address of the null server that the servers' agent starts: it is the servers'.
fn with_null_server_address(job: &Job) -> Job {
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

/// The servers' agent at the other end of a channel. Several threads send; one at a time receives.
struct Servers {
    sender: Mutex<Channel>,
    receiver: Mutex<Channel>,
}

impl Servers {
    fn new(channel: Channel) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            sender: Mutex::new(channel.try_clone()?),
            receiver: Mutex::new(channel),
        }))
    }

    fn send(&self, message: &FromClients) -> Result<()> {
        let mut channel = self.sender.lock().expect(UNPOISONED);
        record::protocol::send(&mut *channel, message).context("cannot speak to the servers' agent")
    }

    fn receive(&self) -> Result<ToClients> {
        let mut channel = self.receiver.lock().expect(UNPOISONED);
        record::protocol::receive(&mut *channel).context("the servers' agent is gone")
    }

    fn wait_until_ready(&self) -> Result<()> {
        match self.receive().context("wait for the servers")? {
            ToClients::Ready => Ok(()),
            ToClients::Noted => bail!("unexpected answer of the servers' agent"),
        }
    }

    /// Sends a message that the drive does not depend on.
    fn notify(&self, message: &FromClients) {
        if let Err(why) = self.send(message) {
            // The drive continues. Its end cannot be reported either, which ends the job.
            eprintln!("bakeoff clients: {why:#}");
        }
    }

    fn notify_tick(&self, tick: Tick) {
        for part in tick_in_parts(tick) {
            self.notify(&FromClients::Drive(Drive::Tick(part)));
        }
    }

    /// Sends a message and waits until it is acknowledged; the time that this took.
    fn request(&self, message: &FromClients) -> Result<Duration> {
        let sent = Instant::now();
        self.send(message)?;
        match self.receive()? {
            ToClients::Noted => Ok(sent.elapsed()),
            ToClients::Ready => bail!("the servers were ready twice"),
        }
    }

    /// The median round trip to the other agent, without load.
    fn round_trip(&self) -> Result<Duration> {
        let mut times = (0..PINGS)
            .map(|_| self.request(&FromClients::Ping))
            .collect::<Result<Vec<_>>>()?;
        times.sort_unstable();
        Ok(times[PINGS / 2])
    }
}

/// Reports progress of the drive to the servers' agent.
struct Reporter {
    servers: Arc<Servers>,
    timing: Timing,
    watch: Option<PathWatch>,
    window: Option<Window>,
}

impl Watcher for Reporter {
    fn begins(&mut self) {
        self.servers.notify(&FromClients::Begins);
        let servers = Arc::clone(&self.servers);
        self.window = Some(Window::begin(servers, self.timing, self.watch.take()));
    }

    fn steps(&mut self) {
        self.servers.notify(&FromClients::Step);
    }

    fn ticks(&mut self, tick: Tick) {
        self.servers.notify_tick(tick);
    }
}

/// Reports to the servers' agent the progress of hosts that share the load.
struct LeadReporter {
    servers: Arc<Servers>,
    /// Times until the agent acknowledged the opening and the closing of the window.
    edges: [Result<Duration>; 2],
}

impl Watcher for LeadReporter {
    fn begins(&mut self) {
        self.servers.notify(&FromClients::Begins);
    }

    fn steps(&mut self) {
        self.servers.notify(&FromClients::Step);
    }

    fn ticks(&mut self, tick: Tick) {
        self.servers.notify_tick(tick);
    }
}

impl Follower for LeadReporter {
    fn opens(&mut self) {
        self.edges[0] = self.servers.request(&FromClients::Opens);
    }

    fn closes(&mut self) {
        self.edges[1] = self.servers.request(&FromClients::Closes);
    }
}

/// A thread that reports the window's two ends, so that load never delays them.
struct Window {
    thread: JoinHandle<Result<WindowReport>>,
    over: Sender<()>,
}

/// A window that has closed.
struct WindowReport {
    /// Time until the other agent acknowledged the opening.
    opening: Duration,
    /// The same for the closing.
    closing: Duration,
    length: Duration,
    counters: Counters,
    path: Option<PathSeen>,
}

impl Window {
    fn begin(servers: Arc<Servers>, timing: Timing, watch: Option<PathWatch>) -> Self {
        let began = Instant::now();
        let (over, is_over) = channel();
        let thread =
            thread::spawn(move || report_window(&servers, watch.as_ref(), timing, began, &is_over));
        Self { thread, over }
    }

    /// Closes a window that is still open because the drive has ended.
    fn end(self) -> Result<WindowReport> {
        drop(self.over);
        let report = self.thread.join();
        report.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn report_window(
    servers: &Servers,
    watch: Option<&PathWatch>,
    timing: Timing,
    began: Instant,
    is_over: &Receiver<()>,
) -> Result<WindowReport> {
    let wait = |instant: Duration| {
        let left = (began + instant).saturating_duration_since(Instant::now());
        is_over.recv_timeout(left) != Err(RecvTimeoutError::Disconnected)
    };
    let Timing { warmup, window } = timing;
    // A window without a warm-up opens as the load begins, which has been reported.
    if !wait(warmup) {
        bail!("the load ended before its window opened");
    }
    let path = || watch.map(PathWatch::read);
    let (opened, open, first) = (Instant::now(), path(), Counters::read());
    let opening = if warmup.is_zero() {
        Duration::ZERO
    } else {
        servers.request(&FromClients::Opens)?
    };
    wait(warmup + window);
    let (length, close, last) = (opened.elapsed(), path(), Counters::read());
    let closing = servers.request(&FromClients::Closes)?;
    let ends = open.zip(close);
    Ok(WindowReport {
        opening,
        closing,
        length,
        counters: last.since(&first),
        path: watch
            .zip(ends)
            .map(|(watch, (open, close))| watch.between(&open, &close)),
    })
}

impl WindowReport {
    fn facts(&self, round_trip: Duration, cpus: &[u32]) -> BTreeMap<String, String> {
        let mut facts = self.counters.facts(self.length, cpus.len());
        facts.extend(times(round_trip, self.opening, self.closing));
        facts
    }
}

/// Round trips between the two agents, as facts.
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
