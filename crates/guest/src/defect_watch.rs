//! A thread that watches the logs of the kernel and of services for defects, and reports them at most once a second.
//!
//! ```text
//! /dev/kmsg ---------> defects::Reader -----\
//! logs of services --> defects::ServiceLog ---> FromAgent::Defect, new or with a higher count
//! ends of services --> defects::service_end /
//! taint, before and after the load --------/
//! ```
//! The thread sleeps while the kernel logs nothing and no service runs, so it executes no instructions of a counted
//! clock.

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

use crate::UNPOISONED;
use crate::kernel_log::{From, KernelLog};
use crate::service_files::ServiceFiles;
use crate::services::Running;

/// Least time between reports, and between looks at services.
const INTERVAL: Duration = Duration::from_secs(1);

/// How often to postpone a report that is still being written.
const MOST_WAITS: u32 = 3;

/// Receives the messages of a watch.
pub(crate) type Reporter = Box<dyn Fn(FromAgent) + Send>;

/// A watch for defects. Ends when dropped or `finish`ed.
#[derive(Debug, Default)]
pub struct DefectWatch {
    thread: Option<JoinHandle<()>>,
    /// Closing it ends the thread; writing to it wakes the thread.
    wake: Option<UnixStream>,
    shared: Arc<Mutex<Shared>>,
}

/// State that the job shares with the thread.
#[derive(Debug, Default)]
struct Shared {
    /// When the window opens, once the load has begun.
    window: Option<Instant>,
    services: Vec<Watched>,
    /// Defects that are not from logs.
    defects: Vec<(DefectSource, Defect)>,
    taint: Option<u64>,
    /// Processes that were killed on purpose.
    killed: BTreeSet<i32>,
}

/// A service that runs.
#[derive(Debug)]
struct Watched {
    name: String,
    /// The name of its processes in the kernel's log.
    program: String,
    leader: Option<Pid>,
    files: ServiceFiles,
}

impl DefectWatch {
    /// Begins to watch; `from` is where to begin in the kernel's log.
    pub(crate) fn begin(from: From, report: Reporter) -> Result<Self> {
        let log = KernelLog::open(from);
        report(FromAgent::KernelLog(match &log {
            Ok(_) => Known::Read { lost: 0 },
            Err(why) => Known::Unread(format!("{why:#}")),
        }));
        let (wake, woken) = UnixStream::pair().context("make a socket pair")?;
        woken.set_nonblocking(true)?;
        let shared = Arc::<Mutex<Shared>>::default();
        let mut watcher = Watcher {
            log: log.ok(),
            shared: Arc::clone(&shared),
            ..Watcher::new(from == From::Now, report)
        };
        let builder = thread::Builder::new().name("defects".into());
        let thread = builder.spawn(move || watcher.run(&woken))?;
        Ok(Self {
            thread: Some(thread),
            wake: Some(wake),
            shared,
        })
    }

    /// Watches services that have been started, with their logs from the present end on.
    pub(crate) fn watch_services(&self, services: &[Running]) {
        let watched = services.iter().map(|running| {
            let (name, program) = (running.service.name.clone(), running.process_name());
            let leader = i32::try_from(running.leader()).ok();
            Watched {
                leader: leader.and_then(Pid::from_raw),
                files: ServiceFiles::open(&name, &program, &running.log_files()),
                name,
                program,
            }
        });
        let watched = watched.collect();
        self.shared().services = watched;
        // Without services, the thread may sleep without a limit.
        if let Some(mut wake) = self.wake.as_ref() {
            let _ = std::io::Write::write(&mut wake, b".");
        }
    }

    /// The load begins; its window opens after the warm-up.
    pub(crate) fn load_begins(&self, warmup: Duration) {
        let mut shared = self.shared();
        shared.window = Some(Instant::now() + warmup);
        shared.taint = taint();
    }

    /// The load has ended: taint flags that the kernel has set meanwhile are defects.
    pub(crate) fn load_ends(&self) {
        let mut shared = self.shared();
        let at = shared.moment();
        if let (Some(before), Some(after)) = (shared.taint.take(), taint()) {
            let new = defects::taint(before, after, at);
            shared.add(DefectSource::Kernel, new);
        }
    }

    /// Checks services a last time: from now on the agent ends them.
    pub(crate) fn leave_services(&self) {
        let mut shared = self.shared();
        shared.check_services();
        for service in std::mem::take(&mut shared.services) {
            shared.add(DefectSource::Service, service.files.defects());
        }
    }

    /// Reports what has not been reported, and ends.
    pub(crate) fn finish(mut self) {
        self.end();
    }

    fn end(&mut self) {
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic.
            let _ = thread.join();
        }
    }

    /// For announcing processes that are killed on purpose.
    pub(crate) fn expected_kills(&self) -> ExpectedKills {
        ExpectedKills(Arc::clone(&self.shared))
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect(UNPOISONED)
    }
}

/// Tells the watch which processes of services are killed on purpose.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExpectedKills(Arc<Mutex<Shared>>);

impl ExpectedKills {
    /// Announces that a process is about to be killed: its end is no crash.
    pub(crate) fn announce(&self, pid: Pid) {
        let mut shared = self.0.lock().expect(UNPOISONED);
        let number = pid.as_raw_nonzero().get();
        shared.killed.insert(number);
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
    /// Time since the window opened; `None` before that.
    fn clock(&self) -> Option<Duration> {
        Instant::now().checked_duration_since(self.window?)
    }

    fn moment(&self) -> Moment {
        Moment {
            clock: self.clock(),
            ..Moment::default()
        }
    }

    fn add(&mut self, source: DefectSource, defects: impl IntoIterator<Item = Defect>) {
        let defects = defects.into_iter().map(|defect| (source, defect));
        self.defects.extend(defects);
    }

    /// Reads new lines of the services' logs, and notices services that have ended.
    fn check_services(&mut self) {
        let at = self.moment();
        let mut found = Vec::new();
        for service in &mut self.services {
            service.files.read(at.clock);
            if let Some(leader) = service.leader
                && let Some(end) = ended(leader)
            {
                service.leader = None;
                let was_killed = self.killed.contains(&leader.as_raw_nonzero().get());
                found.extend(defects::service_end(&service.name, end, was_killed, at));
            }
        }
        self.add(DefectSource::Service, found);
    }

    /// All defects but those in the kernel's log.
    fn defects(&self) -> impl Iterator<Item = (DefectSource, Defect)> {
        let services = self.services.iter();
        let in_logs = services
            .flat_map(|service| service.files.defects())
            .map(|defect| (DefectSource::Service, defect));
        self.defects.iter().cloned().chain(in_logs)
    }
}

/// How a child process has ended, if it has. It can still be waited for.
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

/// State of the watch's thread.
struct Watcher {
    log: Option<KernelLog>,
    reader: defects::Reader,
    /// Whether the kernel has other work than this trial.
    is_live: bool,
    /// Lost messages that were reported.
    lost: u64,
    /// Reported defects with their count and severity.
    reported: BTreeMap<DefectKey, (u64, Severity)>,
    /// Bytes of the lines of all reported defects.
    line_bytes: usize,
    /// The reader's changes at the last report.
    changes: u64,
    /// The reader's changes at the last check, and how many checks in a row have seen new ones.
    growing: (u64, u32),
    shared: Arc<Mutex<Shared>>,
    report: Reporter,
}

impl Watcher {
    fn new(is_live: bool, report: Reporter) -> Self {
        Self {
            log: None,
            reader: defects::Reader::new(),
            is_live,
            lost: 0,
            reported: BTreeMap::new(),
            line_bytes: 0,
            changes: 0,
            growing: (0, 0),
            shared: Arc::default(),
            report,
        }
    }

    fn run(&mut self, woken: &UnixStream) {
        // When the next report is allowed.
        let mut due = Instant::now();
        loop {
            let now = Instant::now();
            let has_work = self.reader.changes() != self.changes || self.has_services();
            let limit = has_work.then(|| due.saturating_duration_since(now));
            let ends = self.wait(woken, limit);
            self.read_log();
            if ends {
                self.reader.finish();
                self.report_new();
                return;
            }
            if !has_work {
                due = Instant::now() + INTERVAL;
            } else if due <= Instant::now() {
                self.shared.lock().expect(UNPOISONED).check_services();
                if !self.is_growing() {
                    self.report_new();
                }
                due = Instant::now() + INTERVAL;
            }
        }
    }

    /// Whether the kernel is still writing a report, of which only the first lines would be reported now. `false` after
    /// `MOST_WAITS` checks.
    fn is_growing(&mut self) -> bool {
        let changes = self.reader.changes();
        let (before, times) = self.growing;
        let is_growing = changes != before && times < MOST_WAITS;
        self.growing = (changes, if is_growing { times + 1 } else { 0 });
        is_growing
    }

    fn has_services(&self) -> bool {
        !self.shared.lock().expect(UNPOISONED).services.is_empty()
    }

    /// Waits for a message of the kernel or of the job, at most for `limit`. `true` if the job has hung up.
    fn wait(&mut self, woken: &UnixStream, limit: Option<Duration>) -> bool {
        let timeout = limit.map(|time| Timespec {
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

    /// Reports defects that are new or have a higher count, and messages that were lost.
    fn report_new(&mut self) {
        let lost = self.log.as_ref().map_or(self.lost, KernelLog::lost);
        if lost != self.lost {
            self.lost = lost;
            (self.report)(FromAgent::KernelLog(Known::Read { lost }));
        }
        self.changes = self.reader.changes();
        let others: Vec<_> = self.shared.lock().expect(UNPOISONED).defects().collect();
        let in_log = self.reader.defects().into_iter();
        let mut all: Vec<_> = in_log.map(|defect| self.kernel_defect(defect)).collect();
        let has_report = all.iter().any(|found| found.severity == Severity::Defect);
        // A taint flag that stands for a report is news only without that report.
        let is_news = |(_, defect): &(DefectSource, Defect)| {
            defect.kind != Kind::Taint || defect.severity < Severity::Defect || !has_report
        };
        let others = others.into_iter().filter(is_news);
        all.extend(merged(
            others.map(|(source, defect)| FoundDefect::of(source, defect)),
        ));
        for found in all {
            self.report_defect(found);
        }
    }

    /// A defect in the kernel's log. On a live host, faults of other programs are only notices.
    fn kernel_defect(&self, defect: Defect) -> FoundDefect {
        let mut found = FoundDefect::of(DefectSource::Kernel, defect);
        let is_of_program = matches!(found.kind, Kind::UserFault | Kind::CoreDump);
        if self.is_live && is_of_program && !self.is_service(&found.top) {
            found.severity = Severity::Notice;
        }
        found
    }

    fn is_service(&self, program: &str) -> bool {
        let shared = self.shared.lock().expect(UNPOISONED);
        let mut services = shared.services.iter();
        services.any(|service| service.program == program || service.name == program)
    }

    /// Reports a defect, unless it was reported before with the same count and severity.
    fn report_defect(&mut self, mut defect: FoundDefect) {
        let key = defect.key();
        match self.reported.get(&key) {
            Some((count, severity)) if defect.count <= *count && defect.severity <= *severity => {
                return;
            }
            Some((count, _)) => {
                defect.count = defect.count.max(*count);
                defect.lines.clear();
            }
            None if self.reported.len() >= MOST_DEFECTS => return,
            None => {
                let bytes: usize = defect.lines.iter().map(String::len).sum();
                if self.line_bytes + bytes > LINES_BYTES {
                    defect.lines.clear();
                } else {
                    self.line_bytes += bytes;
                }
            }
        }
        self.reported.insert(key, (defect.count, defect.severity));
        (self.report)(FromAgent::Defect(Box::new(defect)));
    }
}

/// Merges defects that have the same source, kind and top.
fn merged(defects: impl Iterator<Item = FoundDefect>) -> impl Iterator<Item = FoundDefect> {
    let mut by_key: BTreeMap<DefectKey, FoundDefect> = BTreeMap::new();
    for defect in defects {
        match by_key.get_mut(&defect.key()) {
            None => drop(by_key.insert(defect.key(), defect)),
            Some(known) => {
                known.count += defect.count;
                known.severity = known.severity.max(defect.severity);
                known.last = defect.last;
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
        let (sender, messages) = channel();
        let report = Box::new(move |message| sender.send(message).unwrap());
        (Watcher::new(is_live, report), messages)
    }

    /// What is reported now: kind, top, count, severity, number of lines.
    fn reported(
        watcher: &mut Watcher,
        messages: &Receiver<FromAgent>,
    ) -> Vec<(&'static str, String, u64, Severity, usize)> {
        watcher.report_new();
        let defect = |message| match message {
            FromAgent::Defect(found) => (
                found.kind.name(),
                found.top,
                found.count,
                found.severity,
                found.lines.len(),
            ),
            other => panic!("{other:?}"),
        };
        messages.try_iter().map(defect).collect()
    }

    const HUNG: &[u8] =
        b"3,7,9000000,-;INFO: task jbd2/vda-8:33 blocked for more than 10 seconds.\n";

    #[test]
    fn a_defect_is_reported_once_and_again_when_it_counts_more() {
        let (mut watcher, messages) = watcher(false);
        watcher.reader.feed(HUNG);
        let first = reported(&mut watcher, &messages);
        assert_eq!((first.len(), first[0].2), (1, 1));
        assert!(first[0].4 > 0);
        assert_eq!(reported(&mut watcher, &messages), []);
        watcher.reader.feed(b"6,8,20000000,-;a line much later\n");
        watcher.reader.feed(HUNG);
        let again = reported(&mut watcher, &messages);
        assert_eq!((again.len(), again[0].2, again[0].4), (1, 2, 0));
    }

    #[test]
    fn a_report_that_is_being_written_is_waited_for_and_not_for_ever() {
        let (mut watcher, _messages) = watcher(false);
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
            let (mut watcher, messages) = watcher(is_live);
            watcher.reader.feed(fault);
            assert_eq!(reported(&mut watcher, &messages)[0].3, severity);
        }
    }

    #[test]
    fn a_taint_flag_is_news_only_without_the_report_that_it_stands_for() {
        for has_report in [false, true] {
            let (mut watcher, messages) = watcher(false);
            if has_report {
                watcher.reader.feed(HUNG);
            }
            let taint = defects::taint(0, 1 << 9 | 1 << 13, Moment::default());
            let mut shared = watcher.shared.lock().unwrap();
            shared.add(DefectSource::Kernel, taint);
            drop(shared);
            let tops: Vec<_> = reported(&mut watcher, &messages)
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
