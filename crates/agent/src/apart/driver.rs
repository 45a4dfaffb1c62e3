//! The clients' side: drives the load against servers on another system, and tells their agent.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use load::Tick;
use protocol::Job;
use protocol::clients::{Driven, FromClients, ToClients, told};
use workload::context::WorkloadContext;
use workload::{Timing, Watcher, Wrong};

use super::counters::{self, Counters};
use crate::channel::Channel;
use crate::cpus;
use crate::job::raise_open_files;
use crate::netns::{CLIENT, SERVER};

/// Questions by which the way to the servers' agent and back is measured; the median counts.
const PINGS: usize = 9;

/// Drives the job's load from a `place` (a fact) as soon as the servers are ready. What fails is told to their agent too.
pub(crate) fn perform(job: &Job, place: &str, servers: Channel, stop: &AtomicBool) -> Result<()> {
    let line = Line::new(servers)?;
    match drive(job, place, &line, stop) {
        Ok(driven) => {
            for message in told(driven) {
                line.say(&message)?;
            }
            Ok(())
        }
        Err(why) => {
            let is_wrong = why.is::<Wrong>();
            let detail = format!("{why:#}");
            // They may be gone, which is then what is wrong.
            let _ = line.say(&FromClients::Failed { is_wrong, detail });
            Err(why)
        }
    }
}

fn drive(job: &Job, place: &str, line: &Arc<Line>, stop: &AtomicBool) -> Result<Driven> {
    let workload = workload::from_options(&job.workload)?;
    raise_open_files().context("raise the limit of open files")?;
    let cpus = cpus::numbers()?;
    let context = WorkloadContext {
        server: SERVER,
        client: CLIENT,
        ..WorkloadContext::without_server(PathBuf::new(), cpus.len() as u32, job.seed)
    };
    match line.hear().context("wait for the servers")? {
        ToClients::Ready => {}
        ToClients::Noted => bail!("the servers answered what nobody had asked"),
    }
    let round_trip = line.round_trip()?;
    let mut teller = Teller {
        line: Arc::clone(line),
        timing: workload.timing(),
        window: None,
    };
    let driven = workload.drive(&context, stop, &mut teller)?;
    let window = teller.window.take();
    let window = window.context("a drive that never began")?.end()?;
    let mut facts = driven.facts;
    facts.extend(counters::of_side(&cpus, place));
    facts.extend(window.facts(round_trip, &cpus));
    Ok(Driven {
        load: driven.load,
        figures: driven.figures,
        curves: driven.curves,
        facts,
    })
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
        protocol::send(&mut *channel, message).context("cannot speak to the servers' agent")
    }

    fn hear(&self) -> Result<ToClients> {
        let mut channel = self.listen.lock().expect(UNPOISONED);
        protocol::receive(&mut *channel).context("the servers' agent is gone")
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
    window: Option<Window>,
}

impl Watcher for Teller {
    fn begins(&mut self) {
        self.tell(&FromClients::Begins);
        self.window = Some(Window::begin(Arc::clone(&self.line), self.timing));
    }

    fn steps(&mut self) {
        self.tell(&FromClients::Step);
    }

    fn ticks(&mut self, tick: Tick) {
        for ended in protocol::ended_in_parts(tick.ended) {
            self.tell(&FromClients::Tick {
                second: tick.second,
                ok: tick.ok,
                faults: tick.faults,
                is_counting: tick.counting,
                ended,
            });
        }
    }
}

impl Teller {
    fn tell(&self, message: &FromClients) {
        if let Err(why) = self.line.say(message) {
            // The drive goes on; its end cannot be told either, and that ends the job.
            eprintln!("bakeoff clients: {why:#}");
        }
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
}

impl Window {
    fn begin(line: Arc<Line>, timing: Timing) -> Self {
        let began = Instant::now();
        let (over, is_over) = channel();
        let thread = thread::spawn(move || tell_window(&line, timing, began, &is_over));
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
    let (opened, first) = (Instant::now(), Counters::read());
    let opening = if warmup.is_zero() {
        Duration::ZERO
    } else {
        line.ask(&FromClients::Opens)?
    };
    wait(warmup + window);
    let (length, last) = (opened.elapsed(), Counters::read());
    let closing = line.ask(&FromClients::Closes)?;
    Ok(Told {
        opening,
        closing,
        length,
        counters: last.since(&first),
    })
}

impl Told {
    fn facts(&self, round_trip: Duration, cpus: &[u32]) -> BTreeMap<String, String> {
        let us = |time: Duration| time.as_micros().to_string();
        let times = [
            ("round-trip-us", us(round_trip)),
            ("open-noted-us", us(self.opening)),
            ("close-noted-us", us(self.closing)),
        ];
        let mut facts = self.counters.facts(self.length, cpus.len());
        facts.extend(times.map(|(name, value)| (counters::key(name), value)));
        facts
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Line")
    }
}
