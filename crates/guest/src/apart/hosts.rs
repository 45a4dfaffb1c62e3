//! Clients shared by several hosts, each reached by an `ssh`: prepared, started at one instant, merged.
//!
//! ```text
//! start the sshs -> greet -> all ready -> compare clocks -> one start instant -> ticks -> results -> compare clocks again
//! ```
//! All messages go through ssh, which encrypts them and knows the host by its key; nothing listens on the network. The
//! loss of a host ends the load of all: less load than asked for is another experiment.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use load::hosts::{Offset, PINGS, Ticks};
use load::{client_limits, clock};
use record::load::LoadResult;
use record::load_path::{LoadPace, LoadPath};
use record::protocol::drive::{Drive, Driven};
use record::protocol::hosts::{FromHost, HostCommand, HostJob, ToHost};
use record::protocol::{Greeting, Job, PROTOCOL};
use workload::{Timing, Wrong};

use super::counters;
use super::failure;
use super::follow::Follower;
use crate::UNPOISONED;

/// Time from sending the start to the start.
const START_DELAY: Duration = Duration::from_millis(500);

/// Longest wait for a host to log in and get ready.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// A host at work sends a message every second; one that is silent for longer is lost.
const SILENCE_LIMIT: Duration = Duration::from_secs(20);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Bytes kept of an `ssh`'s standard error.
const STDERR_BYTES: u64 = 16 << 10;

/// The CPUs of a host are numbered from a thousand times its index: the second host has 1000, 1001, ...
const CPUS_PER_HOST: u32 = 1000;

/// The hosts of a trial. Dropping it ends what runs there.
pub(crate) struct Hosts {
    all: Vec<Host>,
    messages: Receiver<(usize, Result<FromHost>)>,
    /// When each host sent its last message.
    last: Vec<Instant>,
}

struct Host {
    name: String,
    ssh: Child,
    input: ChildStdin,
    stderr: Arc<Mutex<String>>,
}

impl Drop for Host {
    fn drop(&mut self) {
        base::process::end(&mut self.ssh);
    }
}

impl Hosts {
    /// Starts the agents of all hosts. Call it from a thread that outlives them.
    pub(crate) fn start(commands: &[HostCommand]) -> Result<Self> {
        let (sender, messages) = channel();
        let hosts: Vec<Host> = commands
            .iter()
            .enumerate()
            .map(|(index, command)| Host::start(command, index, sender.clone()))
            .collect::<Result<_>>()?;
        Ok(Self {
            last: vec![Instant::now(); hosts.len()],
            all: hosts,
            messages,
        })
    }

    /// Has all hosts do their parts of a job, and follows them to the end of the drive.
    pub(crate) fn lead(
        &mut self,
        job: &Job,
        build: &str,
        timing: Timing,
        stop: &AtomicBool,
        follower: &mut dyn Follower,
    ) -> Result<Driven> {
        self.prepare(job, build, stop)?;
        let before = self.compare_clocks(stop)?;
        let start_ns = clock::now_ns() + START_DELAY.as_nanos() as u64;
        for (host, offset) in self.all.iter_mut().zip(&before) {
            let at_ns = u64::try_from(i128::from(start_ns) + offset.ns);
            let at_ns = at_ns.context("a clock before its zero")?;
            host.send(&ToHost::Start { at_ns })?;
        }
        let all = self.watch(start_ns, timing, stop, follower)?;
        let after = self.compare_clocks(stop)?;
        let names: Vec<&str> = self.all.iter().map(|host| host.name.as_str()).collect();
        merge(&names, all, Skew::from_offsets(&before, &after))
    }

    fn prepare(&mut self, job: &Job, build: &str, stop: &AtomicBool) -> Result<()> {
        let mine = Greeting {
            protocol: PROTOCOL,
            build: build.into(),
        };
        let count = self.all.len() as u32;
        for (index, host) in (0..).zip(&mut self.all) {
            host.send(&ToHost::Hello(mine.clone()))?;
            host.send(&ToHost::Prepare(Box::new(HostJob {
                job: job.clone(),
                index,
                count,
            })))?;
        }
        let mut waiting = self.all.len();
        self.last.fill(Instant::now());
        while waiting > 0 {
            match self.receive(READY_LIMIT, stop)? {
                (_, FromHost::Hello(theirs)) => {
                    record::protocol::recognise(&mine, &theirs).map_err(anyhow::Error::msg)?;
                }
                (_, FromHost::Ready) => waiting -= 1,
                (index, _) => bail!("{}: unexpected message", self.name(index)),
            }
        }
        Ok(())
    }

    /// Each host's clock minus this one's. Hosts must send no other messages meanwhile.
    fn compare_clocks(&mut self, stop: &AtomicBool) -> Result<Vec<Offset>> {
        let mut offsets = Vec::new();
        for index in 0..self.all.len() {
            let mut offset = Offset::UNKNOWN;
            for _ in 0..PINGS {
                let sent_ns = clock::now_ns();
                self.all[index].send(&ToHost::Ping)?;
                self.last.fill(Instant::now());
                let at_ns = match self.receive(SILENCE_LIMIT, stop)? {
                    (from, FromHost::Pong { at_ns }) if from == index => at_ns,
                    (from, _) => bail!("{}: unexpected message", self.name(from)),
                };
                offset.add(sent_ns, at_ns, clock::now_ns());
            }
            offsets.push(offset);
        }
        Ok(offsets)
    }

    /// Follows the hosts from the start until all have sent their results.
    fn watch(
        &mut self,
        start_ns: u64,
        timing: Timing,
        stop: &AtomicBool,
        follower: &mut dyn Follower,
    ) -> Result<Vec<Driven>> {
        let mut edges = Edges::new(start_ns, timing);
        let mut ticks = Ticks::new(self.all.len());
        let mut results: Vec<_> = self.all.iter().map(|_| Collected::default()).collect();
        let mut keep_alive = Instant::now();
        self.last.fill(Instant::now() + START_DELAY);
        while results.iter().any(|host| host.driven.is_none()) {
            edges.notify(clock::now_ns(), follower);
            if keep_alive.elapsed() >= Duration::from_secs(1) {
                keep_alive = Instant::now();
                for host in &mut self.all {
                    host.send(&ToHost::Still)?;
                }
            }
            let Some((index, message)) = self.poll(edges.time_to_next(), stop)? else {
                let is_lost = |index: &usize| {
                    results[*index].driven.is_none() && self.last[*index].elapsed() > SILENCE_LIMIT
                };
                if let Some(index) = (0..self.all.len()).find(is_lost) {
                    let silent_s = SILENCE_LIMIT.as_secs();
                    bail!("{}: silent for {silent_s} s", self.name(index));
                }
                continue;
            };
            let FromHost::Drive(drive) = message else {
                bail!("{}: unexpected message", self.name(index));
            };
            match drive {
                Drive::Tick(tick) => {
                    if let Some(all) = ticks.add(index, tick) {
                        follower.ticks(all);
                    }
                }
                Drive::Seconds(part) => results[index].seconds.extend(part),
                Drive::Driven(driven) => results[index].driven = Some(*driven),
                Drive::Failed { is_wrong, detail } => {
                    return Err(self.failure(index, is_wrong, &detail));
                }
            }
        }
        // The load may have ended before its time.
        edges.notify(u64::MAX, follower);
        let whole = |host: Collected| {
            let driven = host.driven.expect("all hosts have sent their results");
            driven.with_timeline(host.seconds)
        };
        Ok(results.into_iter().map(whole).collect())
    }

    /// The next message, and the index of its host.
    fn receive(&mut self, limit: Duration, stop: &AtomicBool) -> Result<(usize, FromHost)> {
        let until = Instant::now() + limit;
        loop {
            if let Some(received) = self.poll(POLL_INTERVAL, stop)? {
                return Ok(received);
            }
            ensure!(
                Instant::now() < until,
                "hosts of the clients are silent: {} s",
                limit.as_secs()
            );
        }
    }

    /// The next message if it comes within `limit`. Fails if a host has failed or gone.
    fn poll(&mut self, limit: Duration, stop: &AtomicBool) -> Result<Option<(usize, FromHost)>> {
        ensure!(!stop.load(Ordering::Relaxed), "stopped by the host");
        match self.messages.recv_timeout(limit) {
            Ok((index, Ok(FromHost::Drive(Drive::Failed { is_wrong, detail })))) => {
                Err(self.failure(index, is_wrong, &detail))
            }
            Ok((index, Ok(message))) => {
                self.last[index] = Instant::now();
                Ok(Some((index, message)))
            }
            Ok((index, Err(why))) => Err(self.all[index].gone(&why)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("no host of the clients is there"),
        }
    }

    fn failure(&self, index: usize, is_wrong: bool, detail: &str) -> anyhow::Error {
        failure::to_error(is_wrong, format!("{}: {detail}", self.name(index)))
    }

    fn name(&self, index: usize) -> String {
        format!("host of clients {}", self.all[index].name)
    }
}

impl Host {
    fn start(
        command: &HostCommand,
        index: usize,
        sender: Sender<(usize, Result<FromHost>)>,
    ) -> Result<Self> {
        let HostCommand { host, words } = command;
        let (program, arguments) = words.split_first().context("no command for a host")?;
        let mut ssh = Command::new(program);
        ssh.args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        base::process::bind(&mut ssh);
        let mut ssh = ssh.spawn().with_context(|| format!("start {program}"))?;
        let pipes = (ssh.stdin.take(), ssh.stdout.take(), ssh.stderr.take());
        let (Some(input), Some(mut output), Some(mut error)) = pipes else {
            bail!("no pipes to {program}");
        };
        thread::spawn(move || {
            loop {
                let message = record::protocol::receive(&mut output).map_err(anyhow::Error::from);
                let is_last = message.is_err();
                if sender.send((index, message)).is_err() || is_last {
                    return;
                }
            }
        });
        let stderr = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&stderr);
        thread::spawn(move || {
            let mut piece = [0; 1024];
            while let Ok(length @ 1..) = error.read(&mut piece) {
                let mut kept = kept.lock().expect(UNPOISONED);
                if (kept.len() as u64) < STDERR_BYTES {
                    kept.push_str(&String::from_utf8_lossy(&piece[..length]));
                }
            }
        });
        Ok(Self {
            name: host.clone(),
            ssh,
            input,
            stderr,
        })
    }

    fn send(&mut self, message: &ToHost) -> Result<()> {
        record::protocol::send(&mut self.input, message).map_err(|why| self.gone(&why.into()))
    }

    /// Why the host has gone: the messages of its `ssh`, if there are any, else `why`.
    fn gone(&mut self, why: &anyhow::Error) -> anyhow::Error {
        // They may come after the end of its output.
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until && matches!(self.ssh.try_wait(), Ok(None)) {
            thread::sleep(POLL_INTERVAL);
        }
        thread::sleep(POLL_INTERVAL);
        let stderr = self.stderr.lock().expect(UNPOISONED);
        let what = match stderr.trim() {
            "" => why.to_string(),
            lines => lines.replace('\n', "; "),
        };
        anyhow!("host of clients {} has gone: {what}", self.name)
    }
}

/// Results of a host so far.
#[derive(Default)]
struct Collected {
    seconds: Vec<record::load::Second>,
    driven: Option<Driven>,
}

/// Notifies the follower of an instant.
type NotifyEdge = fn(&mut dyn Follower);

/// The ends of the window by this clock; the hosts have the same by theirs.
struct Edges {
    /// Instants that are still to come, the next one last.
    due: Vec<(u64, NotifyEdge)>,
}

impl Edges {
    fn new(start_ns: u64, Timing { warmup, window }: Timing) -> Self {
        let at = |time: Duration| start_ns + time.as_nanos() as u64;
        let mut due: Vec<(u64, NotifyEdge)> = vec![
            (at(warmup + window), |follower| follower.closes()),
            (at(warmup), |follower| follower.opens()),
            (start_ns, |follower| follower.begins()),
        ];
        if warmup.is_zero() {
            // A window without a warm-up opens as the load begins.
            due.remove(1);
        }
        Self { due }
    }

    /// Notifies the follower of instants that have come.
    fn notify(&mut self, now_ns: u64, follower: &mut dyn Follower) {
        while let Some((_, notify)) = self.due.pop_if(|(at_ns, _)| *at_ns <= now_ns) {
            notify(follower);
        }
    }

    /// Time until the next instant, at most `POLL_INTERVAL`.
    fn time_to_next(&self) -> Duration {
        let next = self.due.last();
        let left = next.map(|(at_ns, _)| at_ns.saturating_sub(clock::now_ns()));
        left.map_or(POLL_INTERVAL, Duration::from_nanos)
            .min(POLL_INTERVAL)
    }
}

/// The most by which the windows of two hosts can differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Skew {
    start_ns: u64,
    end_ns: u64,
}

impl Skew {
    /// At the start, the sum of the two largest errors of offsets; at the end, of errors plus drifts.
    fn from_offsets(before: &[Offset], after: &[Offset]) -> Self {
        if before.len() < 2 {
            return Self {
                start_ns: 0,
                end_ns: 0,
            };
        }
        let mut start: Vec<u64> = before.iter().map(|offset| offset.error_ns).collect();
        let moved = before.iter().zip(after).map(|(before, after)| {
            let moved = (after.ns - before.ns).unsigned_abs();
            u64::try_from(moved)
                .unwrap_or(u64::MAX)
                .saturating_add(after.error_ns)
        });
        let mut end: Vec<u64> = moved.collect();
        let largest_two = |all: &mut Vec<u64>| {
            all.sort_unstable();
            all.iter().rev().take(2).sum()
        };
        Self {
            start_ns: largest_two(&mut start),
            end_ns: largest_two(&mut end),
        }
    }
}

/// Merges the results of all hosts into one.
fn merge(names: &[&str], all: Vec<Driven>, skew: Skew) -> Result<Driven> {
    let mut driven = Driven::default();
    let (mut load, mut path) = (LoadResult::default(), LoadPath::default());
    let mut first_pages = None;
    for (index, (name, host)) in (0..).zip(names.iter().zip(all)) {
        // Other facts are the pages that the host was served.
        let (host_facts, pages): (BTreeMap<_, _>, BTreeMap<_, _>) = host
            .facts
            .into_iter()
            .partition(|(key, _)| key.starts_with(counters::PREFIX));
        let first = first_pages.get_or_insert_with(|| pages.clone());
        if pages != *first {
            return Err(Wrong(format!(
                "hosts of clients are served different pages: {} and {name}: {first:?} and {pages:?}",
                names[0]
            ))
            .into());
        }
        for (key, value) in host_facts {
            let key = key.trim_start_matches(counters::PREFIX);
            driven
                .facts
                .insert(counters::key(&format!("{name}:{key}")), value);
        }
        let seen = host.path.unwrap_or_default();
        path.pace = worse(path.pace, seen.pace);
        path.cpus.extend(seen.cpus.into_iter().map(|mut cpu| {
            cpu.cpu += index * CPUS_PER_HOST;
            cpu
        }));
        path.ends.extend(seen.ends.into_iter().map(|mut end| {
            for link in &mut end.links {
                link.name = format!("{name}:{}", link.name);
            }
            end
        }));
        driven.figures.extend(host.figures);
        load.add(&host.load.context("clients that saw nothing")?);
    }
    driven.facts.extend(first_pages.context("no host")?);
    let us = |ns: u64| ns.div_ceil(1000).to_string();
    driven.facts.extend(
        [
            ("place", "ssh".into()),
            ("hosts", names.join(" ")),
            ("start-skew-us", us(skew.start_ns)),
            ("end-skew-us", us(skew.end_ns)),
        ]
        .map(|(name, value)| (counters::key(name), value)),
    );
    path.sent_late = client_limits::late(&load);
    driven.load = Some(load);
    driven.path = Some(path);
    Ok(driven)
}

/// The worse pace of two hosts.
fn worse(first: LoadPace, second: LoadPace) -> LoadPace {
    let rank = |pace: &LoadPace| match pace {
        LoadPace::Closed => 0,
        LoadPace::Thinking => 1,
        LoadPace::Kept => 2,
        LoadPace::Behind => 3,
        LoadPace::TooFewConnections => 4,
    };
    std::cmp::max_by_key(first, second, rank)
}

#[cfg(test)]
mod tests {
    use record::load::Tick;
    use workload::Watcher;

    use super::*;

    fn driven(ok: u64) -> Driven {
        Driven {
            load: Some(LoadResult {
                ok,
                ok_in_window: ok,
                planned: ok,
                ..LoadResult::default()
            }),
            path: Some(LoadPath {
                cpus: vec![record::load_path::ClientCpu::default()],
                ..LoadPath::default()
            }),
            facts: [("remote:response /", "5 bytes"), ("clients:idle", "0.5")]
                .map(|(key, value)| (key.into(), value.into()))
                .into(),
            ..Driven::default()
        }
    }

    #[test]
    fn hosts_add_up_and_keep_their_names() {
        let skew = Skew {
            start_ns: 1500,
            end_ns: 0,
        };
        let merged = merge(&["one", "two"], vec![driven(3), driven(4)], skew).unwrap();
        let load = merged.load.unwrap();
        assert_eq!((load.ok, load.planned), (7, 7));
        let facts: Vec<_> = merged
            .facts
            .iter()
            .map(|(key, value)| format!("{key} {value}"))
            .collect();
        assert_eq!(
            facts,
            [
                "clients:end-skew-us 0",
                "clients:hosts one two",
                "clients:one:idle 0.5",
                "clients:place ssh",
                "clients:start-skew-us 2",
                "clients:two:idle 0.5",
                "remote:response / 5 bytes",
            ]
        );
        let cpus: Vec<_> = merged
            .path
            .unwrap()
            .cpus
            .iter()
            .map(|seen| seen.cpu)
            .collect();
        assert_eq!(cpus, [0, 1000]);
    }

    #[test]
    fn hosts_that_are_served_different_pages_fail() {
        let mut other = driven(4);
        other.facts.clear();
        let skew = Skew {
            start_ns: 0,
            end_ns: 0,
        };
        let why = merge(&["one", "two"], vec![driven(3), other], skew).map(|_| ());
        assert!(why.unwrap_err().is::<Wrong>());
    }

    #[test]
    fn two_windows_can_differ_by_the_two_largest_errors() {
        let offset = |ns, error_ns| Offset { ns, error_ns };
        let before = [offset(10, 5), offset(-900, 40), offset(0, 7)];
        let after = [offset(10, 5), offset(-880, 30), offset(100, 7)];
        let want = Skew {
            start_ns: 47,
            end_ns: 157,
        };
        assert_eq!(Skew::from_offsets(&before, &after), want);
        let none = Skew {
            start_ns: 0,
            end_ns: 0,
        };
        assert_eq!(Skew::from_offsets(&before[..1], &after[..1]), none);
    }

    #[test]
    fn edges_come_in_their_order_even_when_the_load_ends_early() {
        #[derive(Default)]
        struct Noted(Vec<&'static str>);
        impl Watcher for Noted {
            fn begins(&mut self) {
                self.0.push("begins");
            }
            fn ticks(&mut self, _tick: Tick) {}
        }
        impl Follower for Noted {
            fn opens(&mut self) {
                self.0.push("opens");
            }
            fn closes(&mut self) {
                self.0.push("closes");
            }
        }
        let timing = |warmup_s| Timing {
            warmup: Duration::from_secs(warmup_s),
            window: Duration::from_secs(2),
        };
        let mut noted = Noted::default();
        let mut edges = Edges::new(100, timing(1));
        edges.notify(99, &mut noted);
        assert!(noted.0.is_empty());
        edges.notify(100, &mut noted);
        assert_eq!(noted.0, ["begins"]);
        edges.notify(u64::MAX, &mut noted);
        assert_eq!(noted.0, ["begins", "opens", "closes"]);
        let mut noted = Noted::default();
        Edges::new(100, timing(0)).notify(u64::MAX, &mut noted);
        assert_eq!(noted.0, ["begins", "closes"]);
    }
}
