//! The agent of a host that clients are on: does its part of a load for the agent of a trial, at the other end of an `ssh`.
//!
//! Nothing on the host is changed and nothing listens there. The process ends when that agent hangs up or is silent.

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
use workload::{Meeting, Timing, Watcher};

use super::counters::{self, Counters};
use super::driver;
use super::failure;
use crate::channel::Channel;
use crate::cpus;
use crate::job::raise_open_files;
use crate::netns::Netns;
use crate::path::{PathSeen, PathWatch};
use crate::remote;
use crate::session::{SAID, UNSAID};

/// An agent of a trial that has said nothing for so long is gone, though the connection does not tell.
const SILENCE: Duration = Duration::from_secs(30);

/// How often that is looked at.
const GLANCE: Duration = Duration::from_secs(1);

const UNPOISONED: &str = "who holds the lock does not panic";

/// Serves the agent of one trial; the exit status.
pub(crate) fn serve(build: &str) -> i32 {
    let opened = Channel::given().and_then(|input| Ok((input, Channel::given_for_servers()?)));
    let (input, output) = match opened {
        Ok(channels) => channels,
        Err(why) => {
            eprintln!("{why:#}");
            return UNSAID;
        }
    };
    let line = Arc::new(Line(Mutex::new(output)));
    match serve_over(input, &line, build) {
        Ok(()) => SAID,
        Err(why) => {
            let told = line.say(&FromHost::Drive(failure::failed(&why)));
            if told.is_ok() { SAID } else { UNSAID }
        }
    }
}

/// What is said goes out whole, whichever thread says it.
struct Line(Mutex<Channel>);

impl Line {
    fn say(&self, message: &FromHost) -> Result<()> {
        let mut channel = self.0.lock().expect(UNPOISONED);
        record::protocol::send(&mut *channel, message)
            .context("cannot speak to the agent of the trial")
    }
}

fn serve_over(mut input: Channel, line: &Arc<Line>, build: &str) -> Result<()> {
    let mine = Greeting {
        protocol: PROTOCOL,
        build: build.into(),
    };
    line.say(&FromHost::Hello(mine.clone()))?;
    match record::protocol::receive(&mut input).context("wait for a greeting")? {
        ToHost::Hello(theirs) => {
            record::protocol::recognise(&theirs, &mine).map_err(anyhow::Error::msg)?
        }
        other => bail!("no greeting: {other:?}"),
    }
    let ToHost::Prepare(job) = record::protocol::receive(&mut input).context("wait for the job")?
    else {
        bail!("no job");
    };
    let starts = listen(input, Arc::clone(line));
    let driven = drive(&job, line, starts)?;
    for message in driven.messages() {
        line.say(&FromHost::Drive(message))?;
    }
    // The clocks are compared once more; who is done hangs up, and that ends the process.
    loop {
        thread::park();
    }
}

/// Answers to pings and hands on the start. The process ends with the agent of the trial.
fn listen(mut input: Channel, line: Arc<Line>) -> Receiver<u64> {
    let (start, starts) = channel();
    let heard_ns = Arc::new(AtomicU64::new(clock::now_ns()));
    let last = Arc::clone(&heard_ns);
    thread::spawn(move || {
        loop {
            thread::sleep(GLANCE);
            let silent = clock::now_ns().saturating_sub(last.load(Ordering::Relaxed));
            if Duration::from_nanos(silent) > SILENCE {
                std::process::exit(UNSAID);
            }
        }
    });
    thread::spawn(move || {
        loop {
            let Ok(message) = record::protocol::receive(&mut input) else {
                std::process::exit(UNSAID);
            };
            heard_ns.store(clock::now_ns(), Ordering::Relaxed);
            let said = match message {
                ToHost::Ping => line.say(&FromHost::Pong {
                    at_ns: clock::now_ns(),
                }),
                ToHost::Start { at_ns } => start.send(at_ns).context("started twice"),
                ToHost::Still => Ok(()),
                other @ (ToHost::Hello(_) | ToHost::Prepare(_)) => {
                    Err(anyhow::anyhow!("not a word for a running job: {other:?}"))
                }
            };
            if said.is_err() {
                std::process::exit(UNSAID);
            }
        }
    });
    starts
}

fn drive(job: &HostJob, line: &Arc<Line>, starts: Receiver<u64>) -> Result<Driven> {
    let HostJob { job, index, count } = job;
    raise_open_files().context("raise the limit of open files")?;
    let cpus = cpus::numbers()?;
    let count_of_cpus = cpus.len() as u32;
    let context = match &job.target {
        Some(target) => WorkloadContext {
            one_fewer: job.one_fewer,
            ..remote::context_of(target, (count_of_cpus, job.seed))
        },
        None => driver::context_of(job, count_of_cpus),
    };
    let workload = remote::load_of(job, &context)?;
    let mut teller = Teller {
        line: Arc::clone(line),
        timing: workload.timing(),
        part: Part {
            index: *index,
            count: *count,
        },
        starts,
        window: None,
    };
    let mut driven = workload.drive(&context, &AtomicBool::new(false), &mut teller)?;
    let window = teller.window.take();
    let window = window.context("a load that hosts cannot share: it never met the others")?;
    let (seen, facts) = window.end()?;
    driven.facts.extend(facts);
    driven.facts.extend(counters::of_side(&cpus, "ssh"));
    let load = driven.load.as_ref().context("clients that saw nothing")?;
    driven
        .facts
        .insert(counters::key("ok"), load.ok.to_string());
    driven.path = driven.path.map(|path| seen.added_to(path));
    Ok(driven)
}

/// Meets the other hosts, and tells how the drive goes.
struct Teller {
    line: Arc<Line>,
    timing: Timing,
    part: Part,
    starts: Receiver<u64>,
    window: Option<Window>,
}

impl Watcher for Teller {
    fn meet(&mut self) -> Result<Option<Meeting>> {
        self.line.say(&FromHost::Ready)?;
        let start_ns = self.starts.recv().context("no start")?;
        let late_ns = clock::now_ns().saturating_sub(start_ns);
        ensure!(late_ns == 0, "too late for the start by {late_ns} ns");
        self.window = Some(Window::begin(start_ns, self.timing)?);
        Ok(Some(Meeting {
            part: self.part,
            start_ns,
        }))
    }

    fn begins(&mut self) {}

    fn ticks(&mut self, tick: Tick) {
        for part in tick_in_parts(tick) {
            // An agent that is gone is noticed by the listener.
            let _ = self.line.say(&FromHost::Drive(Drive::Tick(part)));
        }
    }
}

/// What is read of this host at the window's two ends, on a thread of its own so that load never makes it late.
struct Window {
    thread: JoinHandle<Result<(PathSeen, Facts)>>,
    over: Sender<()>,
}

type Facts = std::collections::BTreeMap<String, String>;

impl Window {
    fn begin(start_ns: u64, timing: Timing) -> Result<Self> {
        let path = PathWatch::open(&[(Side::Clients, &Netns::own())])?;
        let (over, is_over) = channel();
        let thread = thread::spawn(move || watch(start_ns, timing, &path, &is_over));
        Ok(Self { thread, over })
    }

    /// Closes a window that is still open, with its drive.
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
