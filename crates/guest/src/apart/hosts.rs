//! Clients that several hosts share out, each reached by an `ssh` of its own: made ready, begun at one instant, merged.
//!
//! ```text
//! start the sshs -> greet -> all ready -> compare clocks -> one start instant -> ticks -> results -> compare clocks again
//! ```
//! What is said travels through ssh, which encrypts it and knows the host by its key; nothing listens on the network. A host that
//! is lost ends the load of all: less load than was asked for is another experiment.

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

/// From the last word of preparation to the start.
const LEAD: Duration = Duration::from_millis(500);

/// Longest wait for a host that logs in, or learns what is served.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// A host at work speaks every second; one that is silent for so long is lost.
const SILENCE: Duration = Duration::from_secs(20);

/// How often it is looked whether there is something to tell.
const GLANCE: Duration = Duration::from_millis(20);

/// What is kept of an `ssh`'s words on standard error.
const WORDS_BYTES: u64 = 16 << 10;

/// CPUs of a host are numbered from a thousand times its place in the plan: host 2 has 1000, 1001, ...
const CPUS_OF_A_HOST: u32 = 1000;

const UNPOISONED: &str = "who holds the lock does not panic";

/// The hosts of a trial. What runs there ends when this is dropped.
pub(crate) struct Hosts {
    all: Vec<Host>,
    heard: Receiver<(usize, Result<FromHost>)>,
    last: Vec<Instant>,
}

/// One of them.
struct Host {
    name: String,
    ssh: Child,
    input: ChildStdin,
    words: Arc<Mutex<String>>,
}

impl Drop for Host {
    fn drop(&mut self) {
        base::process::end(&mut self.ssh);
    }
}

impl Hosts {
    /// Starts the agents of all hosts; to be called from a thread that outlives them.
    pub(crate) fn start(commands: &[HostCommand]) -> Result<Self> {
        let (say, heard) = channel();
        let hosts: Vec<Host> = commands
            .iter()
            .enumerate()
            .map(|(index, command)| Host::start(command, index, say.clone()))
            .collect::<Result<_>>()?;
        Ok(Self {
            last: vec![Instant::now(); hosts.len()],
            all: hosts,
            heard,
        })
    }

    /// Has all hosts do their parts of a job, and follows them to the end of the drive.
    pub(crate) fn lead(
        &mut self,
        job: &Job,
        (build, timing): (&str, Timing),
        stop: &AtomicBool,
        follower: &mut dyn Follower,
    ) -> Result<Driven> {
        self.prepare(job, build, stop)?;
        let before = self.compare_clocks(stop)?;
        let start_ns = clock::now_ns() + LEAD.as_nanos() as u64;
        for (host, offset) in self.all.iter_mut().zip(&before) {
            let at_ns = u64::try_from(i128::from(start_ns) + offset.ns);
            let at_ns = at_ns.context("a clock before its zero")?;
            host.say(&ToHost::Start { at_ns })?;
        }
        let all = self.watch(start_ns, timing, stop, follower)?;
        let after = self.compare_clocks(stop)?;
        let names: Vec<&str> = self.all.iter().map(|host| host.name.as_str()).collect();
        let skew = Skew::of(&before, &after);
        merged(&names, all, skew)
    }

    fn prepare(&mut self, job: &Job, build: &str, stop: &AtomicBool) -> Result<()> {
        let mine = Greeting {
            protocol: PROTOCOL,
            build: build.into(),
        };
        let count = self.all.len() as u32;
        for (index, host) in (0..).zip(&mut self.all) {
            host.say(&ToHost::Hello(mine.clone()))?;
            host.say(&ToHost::Prepare(Box::new(HostJob {
                job: job.clone(),
                index,
                count,
            })))?;
        }
        let mut waiting = self.all.len();
        self.last.fill(Instant::now());
        while waiting > 0 {
            match self.hear(READY_LIMIT, stop)? {
                (_, FromHost::Hello(theirs)) => {
                    record::protocol::recognise(&mine, &theirs).map_err(anyhow::Error::msg)?;
                }
                (_, FromHost::Ready) => waiting -= 1,
                (index, _) => bail!("{}: out of turn", self.name(index)),
            }
        }
        Ok(())
    }

    /// Each host's clock less this one's. Nothing else is to be said meanwhile.
    fn compare_clocks(&mut self, stop: &AtomicBool) -> Result<Vec<Offset>> {
        let mut offsets = Vec::new();
        for index in 0..self.all.len() {
            let mut offset = Offset::UNKNOWN;
            for _ in 0..PINGS {
                let sent_ns = clock::now_ns();
                self.all[index].say(&ToHost::Ping)?;
                self.last.fill(Instant::now());
                let at_ns = match self.hear(SILENCE, stop)? {
                    (from, FromHost::Pong { at_ns }) if from == index => at_ns,
                    (from, _) => bail!("{}: out of turn", self.name(from)),
                };
                offset.add(sent_ns, at_ns, clock::now_ns());
            }
            offsets.push(offset);
        }
        Ok(offsets)
    }

    /// From the start to the results of all.
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
        let mut still = Instant::now();
        self.last.fill(Instant::now() + LEAD);
        while results.iter().any(|host| host.driven.is_none()) {
            edges.tell(clock::now_ns(), follower);
            if still.elapsed() >= Duration::from_secs(1) {
                still = Instant::now();
                for host in &mut self.all {
                    host.say(&ToHost::Still)?;
                }
            }
            let Some((index, message)) = self.glance(edges.patience(), stop)? else {
                let busy = results.iter().zip(&self.last);
                let lost = busy
                    .enumerate()
                    .find(|(_, (host, last))| host.driven.is_none() && last.elapsed() > SILENCE);
                if let Some((index, _)) = lost {
                    bail!("{}: silent for {} s", self.name(index), SILENCE.as_secs());
                }
                continue;
            };
            let FromHost::Drive(drive) = message else {
                bail!("{}: out of turn", self.name(index));
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
        edges.tell_rest(follower);
        let whole = |host: Collected| {
            let driven = host.driven.expect("all have handed in their results");
            driven.with_timeline(host.seconds)
        };
        Ok(results.into_iter().map(whole).collect())
    }

    /// What is said next, and by which host.
    fn hear(&mut self, limit: Duration, stop: &AtomicBool) -> Result<(usize, FromHost)> {
        let until = Instant::now() + limit;
        loop {
            if let Some(heard) = self.glance(GLANCE, stop)? {
                return Ok(heard);
            }
            ensure!(
                Instant::now() < until,
                "hosts of the clients are silent: {} s",
                limit.as_secs()
            );
        }
    }

    /// The same, if it is said soon. A host that has failed or gone is an error.
    fn glance(
        &mut self,
        patience: Duration,
        stop: &AtomicBool,
    ) -> Result<Option<(usize, FromHost)>> {
        ensure!(!stop.load(Ordering::Relaxed), "stopped by the host");
        match self.heard.recv_timeout(patience) {
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
        failure::failure(is_wrong, format!("{}: {detail}", self.name(index)))
    }

    fn name(&self, index: usize) -> String {
        format!("host of clients {}", self.all[index].name)
    }
}

impl Host {
    fn start(
        command: &HostCommand,
        index: usize,
        say: Sender<(usize, Result<FromHost>)>,
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
        let (Some(input), Some(mut output), Some(error)) = pipes else {
            bail!("no pipes to {program}");
        };
        thread::spawn(move || {
            loop {
                let message = record::protocol::receive(&mut output).map_err(anyhow::Error::from);
                let is_last = message.is_err();
                if say.send((index, message)).is_err() || is_last {
                    return;
                }
            }
        });
        let words = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&words);
        thread::spawn(move || {
            let mut error = error;
            let mut piece = [0; 1024];
            while let Ok(length @ 1..) = error.read(&mut piece) {
                let mut kept = kept.lock().expect(UNPOISONED);
                if (kept.len() as u64) < WORDS_BYTES {
                    kept.push_str(&String::from_utf8_lossy(&piece[..length]));
                }
            }
        });
        Ok(Self {
            name: host.clone(),
            ssh,
            input,
            words,
        })
    }

    fn say(&mut self, message: &ToHost) -> Result<()> {
        record::protocol::send(&mut self.input, message).map_err(|why| self.gone(&why.into()))
    }

    /// Why it is not there any more: its `ssh`'s own words, where there are some.
    fn gone(&mut self, why: &anyhow::Error) -> anyhow::Error {
        // They may come after the end of what it said.
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until && matches!(self.ssh.try_wait(), Ok(None)) {
            thread::sleep(GLANCE);
        }
        thread::sleep(GLANCE);
        let said = self
            .words
            .lock()
            .expect(UNPOISONED)
            .trim()
            .replace('\n', "; ");
        let what = if said.is_empty() {
            why.to_string()
        } else {
            said
        };
        anyhow!("host of clients {} has gone: {what}", self.name)
    }
}

/// What a host has handed in.
#[derive(Default)]
struct Collected {
    seconds: Vec<record::load::Second>,
    driven: Option<Driven>,
}

/// Tells of an instant.
type TellEdge = fn(&mut dyn Follower);

/// The ends of the window by this clock; the hosts have the same by theirs.
struct Edges {
    /// Instants that are still to come, the next one last.
    due: Vec<(u64, TellEdge)>,
}

impl Edges {
    fn new(start_ns: u64, Timing { warmup, window }: Timing) -> Self {
        let at = |time: Duration| start_ns + time.as_nanos() as u64;
        let mut due: Vec<(u64, TellEdge)> = vec![
            (at(warmup + window), |own| own.closes()),
            (at(warmup), |own| own.opens()),
            (start_ns, |own| own.begins()),
        ];
        if warmup.is_zero() {
            // A window without a warm-up opens as the load begins.
            due.remove(1);
        }
        Self { due }
    }

    fn tell(&mut self, now_ns: u64, follower: &mut dyn Follower) {
        while let Some((_, tell)) = self.due.pop_if(|(at_ns, _)| *at_ns <= now_ns) {
            tell(follower);
        }
    }

    /// How long nothing needs to be told.
    fn patience(&self) -> Duration {
        let next = self.due.last();
        let left = next.map(|(at_ns, _)| at_ns.saturating_sub(clock::now_ns()));
        left.map_or(GLANCE, Duration::from_nanos).min(GLANCE)
    }

    /// The load has ended before its time.
    fn tell_rest(&mut self, follower: &mut dyn Follower) {
        self.tell(u64::MAX, follower);
    }
}

/// The most by which the windows of two hosts can lie apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Skew {
    start_ns: u64,
    end_ns: u64,
}

impl Skew {
    /// At the start the two clocks whose offsets are known worst; at the end what they have moved since besides.
    fn of(before: &[Offset], after: &[Offset]) -> Self {
        if before.len() < 2 {
            return Self {
                start_ns: 0,
                end_ns: 0,
            };
        }
        let mut start: Vec<u64> = before.iter().map(|own| own.error_ns).collect();
        let moved = before.iter().zip(after).map(|(before, after)| {
            let moved = (after.ns - before.ns).unsigned_abs();
            u64::try_from(moved)
                .unwrap_or(u64::MAX)
                .saturating_add(after.error_ns)
        });
        let mut end: Vec<u64> = moved.collect();
        let worst_two = |all: &mut Vec<u64>| {
            all.sort_unstable();
            all.iter().rev().take(2).sum()
        };
        Self {
            start_ns: worst_two(&mut start),
            end_ns: worst_two(&mut end),
        }
    }
}

/// One result of all hosts'.
fn merged(names: &[&str], all: Vec<Driven>, skew: Skew) -> Result<Driven> {
    let mut driven = Driven::default();
    let (mut load, mut path) = (LoadResult::default(), LoadPath::default());
    let mut found_first = None;
    for (index, (name, host)) in (0..).zip(names.iter().zip(all)) {
        let (of_host, found): (BTreeMap<_, _>, BTreeMap<_, _>) = host
            .facts
            .into_iter()
            .partition(|(key, _)| key.starts_with(counters::PREFIX));
        let first = found_first.get_or_insert_with(|| found.clone());
        if found != *first {
            return Err(Wrong(format!(
                "hosts of clients are served unlike pages: {} and {name}: {first:?} and {found:?}",
                names[0]
            ))
            .into());
        }
        for (key, value) in of_host {
            let key = key.trim_start_matches(counters::PREFIX);
            driven
                .facts
                .insert(counters::key(&format!("{name}:{key}")), value);
        }
        let seen = host.path.unwrap_or_default();
        path.pace = worse(path.pace, seen.pace);
        path.cpus.extend(seen.cpus.into_iter().map(|mut cpu| {
            cpu.cpu += index * CPUS_OF_A_HOST;
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
    driven.facts.extend(found_first.context("no host")?);
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

/// The pace of the host that kept up less.
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
        let merged = merged(&["one", "two"], vec![driven(3), driven(4)], skew).unwrap();
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
    fn hosts_that_are_served_unlike_pages_are_no_one_load() {
        let mut other = driven(4);
        other.facts.clear();
        let skew = Skew {
            start_ns: 0,
            end_ns: 0,
        };
        let why = merged(&["one", "two"], vec![driven(3), other], skew).map(|_| ());
        assert!(why.unwrap_err().is::<Wrong>());
    }

    #[test]
    fn two_windows_can_lie_apart_by_the_two_worst_errors() {
        let offset = |ns, error_ns| Offset { ns, error_ns };
        let before = [offset(10, 5), offset(-900, 40), offset(0, 7)];
        let after = [offset(10, 5), offset(-880, 30), offset(100, 7)];
        let want = Skew {
            start_ns: 47,
            end_ns: 157,
        };
        assert_eq!(Skew::of(&before, &after), want);
        let none = Skew {
            start_ns: 0,
            end_ns: 0,
        };
        assert_eq!(Skew::of(&before[..1], &after[..1]), none);
    }

    #[test]
    fn the_window_is_told_in_its_order_even_when_the_load_ends_early() {
        #[derive(Default)]
        struct Noted(Vec<&'static str>);
        impl Follower for Noted {
            fn begins(&mut self) {
                self.0.push("begins");
            }
            fn steps(&mut self) {}
            fn ticks(&mut self, _tick: Tick) {}
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
        edges.tell(99, &mut noted);
        assert!(noted.0.is_empty());
        edges.tell(100, &mut noted);
        assert_eq!(noted.0, ["begins"]);
        edges.tell_rest(&mut noted);
        assert_eq!(noted.0, ["begins", "opens", "closes"]);
        let mut noted = Noted::default();
        Edges::new(100, timing(0)).tell_rest(&mut noted);
        assert_eq!(noted.0, ["begins", "closes"]);
    }
}
