//! The watch for defects: a thread that reads the kernel's log and those of services, and tells what is new at most once a second.
//!
//! ```text
//! /dev/kmsg ---------> defects::Reader -----\
//! logs of services --> defects::ServiceLog ---> FromAgent::Defect, new or told more often
//! ends of services --> defects::service_end /
//! taint, before and after the load --------/
//! ```
//! While the kernel says nothing and no service runs it sleeps, so that it costs a counted clock nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use defects::{Defect, End, Kind, Moment, Severity};
use record::defect::{
    DefectKey, DefectSource, FoundDefect, KernelLog as Known, LINES_BYTES, MOST_DEFECTS,
};
use record::protocol::FromAgent;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::kernel_log::{From, KernelLog};
use crate::service_files::ServiceFiles;
use crate::services::Running;

/// Defects are told no more often, and services looked at.
const PACE: Duration = Duration::from_secs(1);

/// A report that is still being written is waited for so often.
const MOST_WAITS: u32 = 3;

const UNPOISONED: &str = "who holds the lock does not panic";

/// Who is told.
pub(crate) type Teller = Box<dyn Fn(FromAgent) + Send>;

/// The watch, as the job sees it. It ends when it is dropped or `finish`ed.
#[derive(Debug, Default)]
pub struct DefectWatch {
    thread: Option<JoinHandle<()>>,
    /// Closed, it ends the thread; written to, it has it look at once.
    wake: Option<UnixStream>,
    shared: Arc<Mutex<Shared>>,
}

/// What job and thread both know.
#[derive(Debug, Default)]
struct Shared {
    /// When the window opens, once the load has begun.
    window: Option<Instant>,
    services: Vec<Watched>,
    /// What was found otherwise than in the kernel's log, with how often.
    found: Vec<(DefectSource, Defect)>,
    taint: Option<u64>,
    /// Processes that were killed on purpose.
    asked: BTreeSet<i32>,
}

/// A service that runs.
#[derive(Debug)]
struct Watched {
    name: String,
    /// The names of its programs, as the kernel would tell them.
    program: String,
    leader: Option<Pid>,
    files: ServiceFiles,
}

impl DefectWatch {
    /// Begins to watch, the kernel's log from there on.
    pub(crate) fn begin(from: From, tell: Teller) -> Result<Self> {
        let log = KernelLog::open(from);
        tell(FromAgent::KernelLog(match &log {
            Ok(_) => Known::Read { lost: 0 },
            Err(why) => Known::Unread(format!("{why:#}")),
        }));
        let (wake, woken) = UnixStream::pair().context("make a socket pair")?;
        woken.set_nonblocking(true)?;
        let shared = Arc::<Mutex<Shared>>::default();
        let mut watcher = Watcher {
            log: log.ok(),
            reader: defects::Reader::new(),
            is_live: from == From::Now,
            lost: 0,
            told: BTreeMap::new(),
            line_bytes: 0,
            changes: 0,
            growing: (0, 0),
            shared: Arc::clone(&shared),
            tell,
        };
        let builder = thread::Builder::new().name("defects".into());
        let thread = builder.spawn(move || watcher.run(&woken))?;
        Ok(Self {
            thread: Some(thread),
            wake: Some(wake),
            shared,
        })
    }

    /// Watches services that have been started, from what their logs hold now.
    pub(crate) fn watch_services(&self, services: &[Running]) {
        let watched = services.iter().map(|running| {
            let (name, program) = (running.service.name.clone(), program_name(running));
            let leader = i32::try_from(running.leader()).ok();
            Watched {
                leader: leader.and_then(Pid::from_raw),
                files: ServiceFiles::of((&name, &program), &running.log_files()),
                name,
                program,
            }
        });
        let watched = watched.collect();
        self.shared().services = watched;
        // Its sleep has no end yet.
        if let Some(mut wake) = self.wake.as_ref() {
            let _ = std::io::Write::write(&mut wake, b".");
        }
    }

    /// The load begins, and its window opens so much later.
    pub(crate) fn load_begins(&self, warmup: Duration) {
        let mut shared = self.shared();
        shared.window = Some(Instant::now() + warmup);
        shared.taint = taint();
    }

    /// The load has ended: flags that the kernel took on meanwhile are told.
    pub(crate) fn load_ends(&self) {
        let mut shared = self.shared();
        let at = shared.moment();
        if let (Some(before), Some(after)) = (shared.taint.take(), taint()) {
            let new = defects::taint(before, after, at).into_iter();
            let new = new.map(|defect| (DefectSource::Kernel, defect));
            shared.found.extend(new);
        }
    }

    /// Looks at services a last time: what comes from now on, somebody asked for.
    pub(crate) fn leave_services(&self) {
        let mut shared = self.shared();
        shared.look_at_services();
        let services = std::mem::take(&mut shared.services);
        for one in services {
            let found = one.files.defects().into_iter();
            shared
                .found
                .extend(found.map(|defect| (DefectSource::Service, defect)));
        }
    }

    /// Tells what has not been told and ends.
    pub(crate) fn finish(mut self) {
        self.end();
    }

    fn end(&mut self) {
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            // A panic was told by its hook.
            let _ = thread.join();
        }
    }

    /// Where it is said which processes are killed on purpose.
    pub(crate) fn asked_ends(&self) -> AskedEnds {
        AskedEnds(Arc::clone(&self.shared))
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect(UNPOISONED)
    }
}

/// A hold on the watch, for who kills processes of services on purpose.
#[derive(Debug, Clone, Default)]
pub(crate) struct AskedEnds(Arc<Mutex<Shared>>);

impl AskedEnds {
    /// A process is about to be killed: its end is no crash.
    pub(crate) fn ask(&self, pid: Pid) {
        let mut shared = self.0.lock().expect(UNPOISONED);
        let number = pid.as_raw_nonzero().get();
        shared.asked.insert(number);
        for service in &mut shared.services {
            service.files.ask_end(number.unsigned_abs());
        }
    }
}

impl Drop for DefectWatch {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    /// Time since the window opened; nothing before that.
    fn clock(&self) -> Option<Duration> {
        Instant::now().checked_duration_since(self.window?)
    }

    fn moment(&self) -> Moment {
        Moment {
            clock: self.clock(),
            ..Moment::default()
        }
    }

    /// Reads what their logs have grown by, and sees who has ended.
    fn look_at_services(&mut self) {
        let at = self.moment();
        for service in &mut self.services {
            service.files.read(at.clock);
            if let Some(leader) = service.leader
                && let Some(end) = ended(leader)
            {
                service.leader = None;
                let was_asked = self.asked.contains(&leader.as_raw_nonzero().get());
                let defects = defects::service_end(&service.name, end, was_asked, at).into_iter();
                self.found
                    .extend(defects.map(|defect| (DefectSource::Service, defect)));
            }
        }
    }

    /// Everything but the kernel's log.
    fn found(&self) -> impl Iterator<Item = (DefectSource, Defect)> {
        let in_logs = self
            .services
            .iter()
            .flat_map(|service| service.files.defects());
        let in_logs = in_logs.map(|defect| (DefectSource::Service, defect));
        self.found.iter().cloned().chain(in_logs)
    }
}

/// How a process has ended that nobody has waited for; it can still be waited for.
fn ended(leader: Pid) -> Option<End> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::Pid(leader), options).ok().flatten()?;
    match (status.exit_status(), status.terminating_signal()) {
        (Some(status), _) => Some(End::Exit(status)),
        (None, Some(number)) => Some(End::Signal {
            number,
            has_core: status.dumped(),
        }),
        (None, None) => None,
    }
}

/// The flags of `/proc/sys/kernel/tainted`.
fn taint() -> Option<u64> {
    let flags = fs::read_to_string("/proc/sys/kernel/tainted").ok()?;
    flags.trim().parse().ok()
}

/// What the kernel calls a service's processes: 15 letters of the program's name.
fn program_name(running: &Running) -> String {
    let service = &running.service;
    // A prefix may stand before the program, such as setpriv; the version is asked of the program itself.
    let path = service.version.first().or(service.command.first());
    let program = path.map_or("", |path| path.rsplit('/').next().unwrap_or(path));
    program.chars().take(15).collect()
}

/// The thread.
struct Watcher {
    log: Option<KernelLog>,
    reader: defects::Reader,
    /// Whether the kernel has other work than this trial.
    is_live: bool,
    /// Lost messages, as told.
    lost: u64,
    told: BTreeMap<DefectKey, (u64, Severity)>,
    line_bytes: usize,
    /// The reader's changes when all was told last.
    changes: u64,
    /// The same when it was looked at last, and how often it had gone on changing until then.
    growing: (u64, u32),
    shared: Arc<Mutex<Shared>>,
    tell: Teller,
}

impl Watcher {
    fn run(&mut self, woken: &UnixStream) {
        // When the pace allows the next word.
        let mut due = Instant::now();
        loop {
            let now = Instant::now();
            let is_paced = self.reader.changes() != self.changes || self.has_services();
            let patience = is_paced.then(|| due.saturating_duration_since(now));
            let ends = self.wait(woken, patience);
            self.read_log();
            if ends {
                self.reader.finish();
                self.tell_new();
                return;
            }
            if !is_paced {
                due = Instant::now() + PACE;
            } else if due <= Instant::now() {
                self.shared.lock().expect(UNPOISONED).look_at_services();
                if !self.is_growing() {
                    self.tell_new();
                }
                due = Instant::now() + PACE;
            }
        }
    }

    /// Whether a report is being written still: told then, it would be about its first lines. One that does not end is told all the same.
    fn is_growing(&mut self) -> bool {
        let changes = self.reader.changes();
        let (before, times) = self.growing;
        let goes_on = changes != before && times < MOST_WAITS;
        self.growing = (changes, if goes_on { times + 1 } else { 0 });
        goes_on
    }

    fn has_services(&self) -> bool {
        !self.shared.lock().expect(UNPOISONED).services.is_empty()
    }

    /// Waits for the kernel, the job, or so long; whether the job has hung up.
    fn wait(&mut self, woken: &UnixStream, patience: Option<Duration>) -> bool {
        let timeout = patience.map(|time| Timespec {
            tv_sec: time.as_secs().cast_signed(),
            tv_nsec: i64::from(time.subsec_nanos()),
        });
        let kmsg: Option<BorrowedFd<'_>> = self.log.as_ref().map(|log| log.file().as_fd());
        let mut waited = vec![PollFd::new(woken, PollFlags::IN)];
        waited.extend(kmsg.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)));
        if poll(&mut waited, timeout.as_ref()).is_err() {
            return false;
        }
        let mut bytes = [0; 16];
        let mut woken = woken;
        matches!(std::io::Read::read(&mut woken, &mut bytes), Ok(0))
    }

    fn read_log(&mut self) {
        let Some(log) = &mut self.log else {
            return;
        };
        let clock = self.shared.lock().expect(UNPOISONED).clock();
        if let Some(clock) = clock {
            self.reader.set_clock(clock);
        }
        let reader = &mut self.reader;
        if !log.read(&mut |line| reader.line(line)) {
            self.log = None;
        }
    }

    /// Tells defects that are new or came again, and messages that were lost.
    fn tell_new(&mut self) {
        let lost = self.log.as_ref().map_or(self.lost, KernelLog::lost);
        if lost != self.lost {
            self.lost = lost;
            (self.tell)(FromAgent::KernelLog(Known::Read { lost }));
        }
        self.changes = self.reader.changes();
        let found: Vec<_> = self.shared.lock().expect(UNPOISONED).found().collect();
        let in_log = self.reader.defects().into_iter();
        let in_log: Vec<_> = in_log.map(|one| self.of_kernel(one)).collect();
        let mut all = in_log;
        let is_known = all.iter().any(|one| one.severity == Severity::Defect);
        // A flag that says that there was a report is news only where there is none.
        let tells = |(_, one): &(DefectSource, Defect)| {
            one.kind != Kind::Taint || one.severity < Severity::Defect || !is_known
        };
        let found = found.into_iter().filter(tells);
        let found = found.map(|(source, one)| FoundDefect::of(source, one));
        all.extend(joined(found));
        for one in all {
            self.tell_one(one);
        }
    }

    /// Faults of other programs on a live host are no fault of the arm's.
    fn of_kernel(&self, defect: Defect) -> FoundDefect {
        let mut found = FoundDefect::of(DefectSource::Kernel, defect);
        let is_of_program = matches!(found.kind, Kind::UserFault | Kind::CoreDump);
        if self.is_live && is_of_program && !self.is_own(&found.top) {
            found.severity = Severity::Notice;
        }
        found
    }

    fn is_own(&self, program: &str) -> bool {
        let shared = self.shared.lock().expect(UNPOISONED);
        let mut own = shared.services.iter();
        own.any(|one| one.program == program || one.name == program)
    }

    fn tell_one(&mut self, mut found: FoundDefect) {
        let key = found.key();
        match self.told.get(&key) {
            Some((count, severity)) if found.count <= *count && found.severity <= *severity => {
                return;
            }
            Some((count, _)) => {
                found.count = found.count.max(*count);
                found.lines.clear();
            }
            None if self.told.len() >= MOST_DEFECTS => return,
            None => {
                let bytes: usize = found.lines.iter().map(String::len).sum();
                if self.line_bytes + bytes > LINES_BYTES {
                    found.lines.clear();
                } else {
                    self.line_bytes += bytes;
                }
            }
        }
        self.told.insert(key, (found.count, found.severity));
        (self.tell)(FromAgent::Defect(Box::new(found)));
    }
}

/// Defects of one source, kind and top as one.
fn joined(found: impl Iterator<Item = FoundDefect>) -> impl Iterator<Item = FoundDefect> {
    let mut by_key: BTreeMap<DefectKey, FoundDefect> = BTreeMap::new();
    for one in found {
        match by_key.get_mut(&one.key()) {
            None => drop(by_key.insert(one.key(), one)),
            Some(known) => {
                known.count += one.count;
                known.severity = known.severity.max(one.severity);
                known.last = one.last;
            }
        }
    }
    by_key.into_values()
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    fn watcher(is_live: bool) -> (Watcher, Receiver<FromAgent>) {
        let (tell, told) = channel();
        let watcher = Watcher {
            log: None,
            reader: defects::Reader::new(),
            is_live,
            lost: 0,
            told: BTreeMap::new(),
            line_bytes: 0,
            changes: 0,
            growing: (0, 0),
            shared: Arc::default(),
            tell: Box::new(move |message| tell.send(message).unwrap()),
        };
        (watcher, told)
    }

    /// What is told now: kind, top, count, severity, lines.
    fn told(
        watcher: &mut Watcher,
        told: &Receiver<FromAgent>,
    ) -> Vec<(&'static str, String, u64, Severity, usize)> {
        watcher.tell_new();
        let defect = |message| match message {
            FromAgent::Defect(one) => (
                one.kind.name(),
                one.top,
                one.count,
                one.severity,
                one.lines.len(),
            ),
            other => panic!("{other:?}"),
        };
        told.try_iter().map(defect).collect()
    }

    const HUNG: &[u8] =
        b"3,7,9000000,-;INFO: task jbd2/vda-8:33 blocked for more than 10 seconds.\n";

    #[test]
    fn a_defect_is_told_once_and_again_when_it_counts_more() {
        let (mut watcher, said) = watcher(false);
        watcher.reader.feed(HUNG);
        let first = told(&mut watcher, &said);
        assert_eq!((first.len(), first[0].2), (1, 1));
        assert!(first[0].4 > 0);
        assert_eq!(told(&mut watcher, &said), []);
        watcher.reader.feed(b"6,8,20000000,-;a line much later\n");
        watcher.reader.feed(HUNG);
        let again = told(&mut watcher, &said);
        assert_eq!((again.len(), again[0].2, again[0].4), (1, 2, 0));
    }

    #[test]
    fn a_report_that_is_being_written_is_waited_for_and_not_for_ever() {
        let (mut watcher, _said) = watcher(false);
        assert!(!watcher.is_growing());
        for round in 0..8 {
            watcher.reader.feed(HUNG);
            assert_eq!(watcher.is_growing(), round % 4 != 3, "{round}");
        }
        assert!(!watcher.is_growing() || !watcher.is_growing());
    }

    #[test]
    fn a_fault_of_a_program_that_is_none_of_the_arms_is_a_notice() {
        let fault = b"6,1,1,-;firefox[99]: segfault at 0 ip 0 sp 0 error 4\n";
        for (is_live, severity) in [(true, Severity::Notice), (false, Severity::Defect)] {
            let (mut watcher, said) = watcher(is_live);
            watcher.reader.feed(fault);
            assert_eq!(told(&mut watcher, &said)[0].3, severity);
        }
    }

    #[test]
    fn a_taint_flag_is_news_only_without_the_report_that_it_stands_for() {
        let warning = || defects::taint(0, 1 << 9 | 1 << 13, Moment::default());
        for has_report in [false, true] {
            let (mut watcher, said) = watcher(false);
            if has_report {
                watcher.reader.feed(HUNG);
            }
            let found = warning().into_iter();
            let found = found.map(|one| (DefectSource::Kernel, one));
            watcher.shared.lock().unwrap().found.extend(found);
            let tops: Vec<_> = told(&mut watcher, &said)
                .into_iter()
                .filter_map(|(kind, top, ..)| (kind == "taint").then_some(top))
                .collect();
            let expected: &[&str] = if has_report { &["E"] } else { &["E", "W"] };
            assert_eq!(tops, expected);
        }
    }

    #[test]
    fn the_end_of_a_process_is_seen_and_left_to_who_waits_for_it() {
        let mut child = Command::new("/bin/sh")
            .args(["-c", "kill -KILL $$"])
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
        let end = loop {
            if let Some(end) = ended(pid) {
                break end;
            }
            thread::yield_now();
        };
        let killed = End::Signal {
            number: 9,
            has_core: false,
        };
        assert_eq!(end, killed);
        assert!(!child.wait().unwrap().success());
        assert_eq!(ended(pid), None);
    }
}
