//! The agent of a host that has clients: does its part of a load for the trial's agent at the other end of an `ssh`.
//!
//! It changes nothing on the host and does not listen there. It ends when the trial's agent hangs up or is silent.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use load::clock;
use load::part::Part;
use record::load::Tick;
use record::load_path::Side;
use record::protocol::drive::{Drive, Driven, tick_in_parts};
use record::protocol::hosts::{FromHost, HostJob, ToHost};
use record::protocol::{Greeting, PROTOCOL};
use workload::context::WorkloadContext;
use workload::{Control, SharedStart, Timing, Watcher};

use super::counters::{self, Counters};
use super::driver;
use super::failure;
use crate::UNPOISONED;
use crate::channel::Channel;
use crate::cpus;
use crate::job::raise_open_files;
use crate::netns::Netns;
use crate::path::{PathSeen, PathWatch};
use crate::remote;
use crate::session;
use crate::session::{REPORTED, UNREPORTED};

/// A trial's agent that is silent for longer is gone, even if the connection is still open.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);

/// How often to check for silence.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the agent of a host that has clients, for the trial's agent at the other end of standard input and
/// output. Returns the exit status.
pub fn hosted(build: &str) -> i32 {
    let (input, output) = match super::std_channels() {
        Ok(channels) => channels,
        Err(why) => {
            eprintln!("{why:#}");
            return UNREPORTED;
        }
    };
    let trial = Arc::new(TrialAgent(Mutex::new(output)));
    match serve(input, &trial, build) {
        Ok(()) => REPORTED,
        Err(why) => {
            let sent = trial.send(&FromHost::Drive(failure::to_message(&why)));
            if sent.is_ok() { REPORTED } else { UNREPORTED }
        }
    }
}

/// The trial's agent, to which several threads send.
struct TrialAgent(Mutex<Channel>);

impl TrialAgent {
    fn send(&self, message: &FromHost) -> Result<()> {
        let mut channel = self.0.lock().expect(UNPOISONED);
        record::protocol::send(&mut *channel, message)
            .context("cannot speak to the agent of the trial")
    }
}

fn serve(mut input: Channel, trial: &Arc<TrialAgent>, build: &str) -> Result<()> {
    let mine = Greeting {
        protocol: PROTOCOL,
        build: build.into(),
    };
    trial.send(&FromHost::Hello(mine.clone()))?;
    match record::protocol::receive(&mut input).context("wait for a greeting")? {
        ToHost::Hello(theirs) => {
            record::protocol::recognise(&theirs, &mine).map_err(anyhow::Error::msg)?;
        }
        other => bail!("no greeting: {other:?}"),
    }
    let ToHost::Prepare(job) = record::protocol::receive(&mut input).context("wait for the job")?
    else {
        bail!("no job");
    };
    let starts = listen(input, Arc::clone(trial));
    let driven = drive(&job, trial, starts)?;
    for message in driven.messages() {
        trial.send(&FromHost::Drive(message))?;
    }
    // The trial's agent compares the clocks once more, then hangs up, which ends the process.
    loop {
        thread::park();
    }
}

/// Answers pings on a thread, and returns where the start will come. The process ends with the trial's agent.
fn listen(mut input: Channel, trial: Arc<TrialAgent>) -> Receiver<u64> {
    let (start, starts) = channel();
    let heard_ns = Arc::new(AtomicU64::new(clock::now_ns()));
    let last = Arc::clone(&heard_ns);
    thread::spawn(move || {
        loop {
            thread::sleep(CHECK_INTERVAL);
            let silent = clock::now_ns().saturating_sub(last.load(Ordering::Relaxed));
            if Duration::from_nanos(silent) > SILENCE_LIMIT {
                session::exit();
            }
        }
    });
    thread::spawn(move || {
        loop {
            let Ok(message) = record::protocol::receive(&mut input) else {
                session::exit();
            };
            heard_ns.store(clock::now_ns(), Ordering::Relaxed);
            let done = match message {
                ToHost::Ping => trial.send(&FromHost::Pong {
                    at_ns: clock::now_ns(),
                }),
                ToHost::Start { at_ns } => start.send(at_ns).context("started twice"),
                ToHost::Still => Ok(()),
                other @ (ToHost::Hello(_) | ToHost::Prepare(_)) => {
                    Err(anyhow::anyhow!("unexpected message: {other:?}"))
                }
            };
            if done.is_err() {
                session::exit();
            }
        }
    });
    starts
}

fn drive(job: &HostJob, trial: &Arc<TrialAgent>, starts: Receiver<u64>) -> Result<Driven> {
    let HostJob { job, index, count } = job;
    raise_open_files().context("raise the limit of open files")?;
    let cpus = cpus::numbers()?;
    let count_of_cpus = cpus.len() as u32;
    let context = match &job.target {
        Some(target) => WorkloadContext {
            one_fewer: job.one_fewer,
            ..remote::context_of(target, count_of_cpus, job.seed)
        },
        None => driver::context_of(job, count_of_cpus),
    };
    let workload = remote::load_of(job, &context)?;
    let mut reporter = Reporter {
        trial: Arc::clone(trial),
        timing: workload.timing(),
        part: Part {
            index: *index,
            count: *count,
        },
        starts,
        window: None,
    };
    let mut control = Control {
        stop: &AtomicBool::new(false),
        watcher: &mut reporter,
    };
    let mut driven = workload.drive(&context, &mut control)?;
    let window = reporter.window.take();
    let window = window.context("a load that hosts cannot share: it never met the others")?;
    let (seen, facts) = window.end()?;
    driven.facts.extend(facts);
    driven.facts.extend(counters::constant_facts(&cpus, "ssh"));
    let load = driven.load.as_ref().context("clients that saw nothing")?;
    driven
        .facts
        .insert(counters::key("ok"), load.ok.to_string());
    driven.path = driven.path.map(|path| seen.added_to(path));
    Ok(driven)
}

/// Waits for the common start of all hosts, and reports progress of the drive.
struct Reporter {
    trial: Arc<TrialAgent>,
    timing: Timing,
    part: Part,
    starts: Receiver<u64>,
    window: Option<Window>,
}

impl Watcher for Reporter {
    fn shared_start(&mut self) -> Result<Option<SharedStart>> {
        self.trial.send(&FromHost::Ready)?;
        let start_ns = self.starts.recv().context("no start")?;
        let late_ns = clock::now_ns().saturating_sub(start_ns);
        ensure!(late_ns == 0, "too late for the start by {late_ns} ns");
        self.window = Some(Window::begin(start_ns, self.timing)?);
        Ok(Some(SharedStart {
            part: self.part,
            start_ns,
        }))
    }

    fn begins(&mut self) {}

    fn ticks(&mut self, tick: Tick) {
        for part in tick_in_parts(tick) {
            // If the trial's agent is gone, the listener notices.
            let _ = self.trial.send(&FromHost::Drive(Drive::Tick(part)));
        }
    }
}

/// A thread that reads this host's counters at the window's two ends, so that load never delays it.
struct Window {
    thread: JoinHandle<Result<(PathSeen, Facts)>>,
    over: Sender<()>,
}

type Facts = std::collections::BTreeMap<String, String>;

impl Window {
    fn begin(start_ns: u64, timing: Timing) -> Result<Self> {
        let path = PathWatch::open(&[(Side::Clients, &Netns::current())])?;
        let (over, is_over) = channel();
        let thread = thread::spawn(move || watch(start_ns, timing, &path, &is_over));
        Ok(Self { thread, over })
    }

    /// Closes a window that is still open because the drive has ended.
    fn end(self) -> Result<(PathSeen, Facts)> {
        drop(self.over);
        let seen = self.thread.join();
        seen.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn watch(
    start_ns: u64,
    Timing { warmup, window }: Timing,
    path: &PathWatch,
    is_over: &Receiver<()>,
) -> Result<(PathSeen, Facts)> {
    let wait = |from_start: Duration| {
        let at_ns = start_ns + from_start.as_nanos() as u64;
        let left = Duration::from_nanos(at_ns.saturating_sub(clock::now_ns()));
        is_over.recv_timeout(left) != Err(RecvTimeoutError::Disconnected)
    };
    ensure!(wait(warmup), "the load ended before its window opened");
    let (opened_ns, open, first) = (clock::now_ns(), path.read(), Counters::read());
    wait(warmup + window);
    let (length_ns, close, last) = (clock::now_ns() - opened_ns, path.read(), Counters::read());
    let cpus = cpus::numbers()?.len();
    let facts = last
        .since(&first)
        .facts(Duration::from_nanos(length_ns), cpus);
    Ok((path.between(&open, &close), facts))
}
