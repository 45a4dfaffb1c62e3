//! Defects reported by a trial's kernel and services: in the guest's messages, on disk, and in the trial's record.
//!
//! The crate `defects` parses logs; this module holds its results. A later report of a defect (same source, kind and top) replaces the
//! earlier one, with a higher count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::load::Second;
use crate::streamed::LateFile;
pub use defects::{Kind, Severity};

/// Most distinct defects of one attempt.
pub const MOST_DEFECTS: usize = 512;

/// Most bytes in the lines of all of an attempt's defects together.
pub const LINES_BYTES: usize = 256 << 10;

/// Source of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DefectSource {
    /// The kernel's log, read inside the system.
    Kernel,
    /// The console, for a kernel that can no longer be queried.
    Console,
    /// A service: its log, or its exit.
    Service,
}

/// Time of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct When {
    /// Milliseconds since the window opened; absent before that, and if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
    /// The kernel's time stamp, in milliseconds since it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_boot_ms: Option<u64>,
}

/// A defect with all of its reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundDefect {
    /// Source of the reports.
    pub source: DefectSource,
    /// Kind of defect.
    pub kind: Kind,
    /// How severe it is.
    pub severity: Severity,
    /// Distinguishes it from others of its kind: a function, a device, a program; empty if the kind is enough.
    pub top: String,
    /// Number of reports.
    pub count: u64,
    /// Time of the first report.
    pub first: When,
    /// Time of the last report.
    pub last: When,
    /// Successful requests in the second of the first report; absent outside the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok_per_s: Option<u64>,
    /// The lines of the first report. Later reports may omit them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
}

impl FoundDefect {
    /// A defect that was parsed from this source.
    pub fn of(source: DefectSource, defect: defects::Defect) -> Self {
        Self {
            source,
            kind: defect.kind,
            severity: defect.severity,
            top: defect.top,
            count: defect.count,
            first: When::of(defect.first),
            last: When::of(defect.last),
            ok_per_s: None,
            lines: defect.lines,
        }
    }

    /// Converts it back to the parser's form.
    pub fn to_defect(&self) -> defects::Defect {
        defects::Defect {
            kind: self.kind,
            severity: self.severity,
            top: self.top.clone(),
            count: self.count,
            first: self.first.moment(),
            last: self.last.moment(),
            lines: self.lines.clone(),
        }
    }

    /// Its identity among an attempt's defects.
    pub fn key(&self) -> DefectKey {
        (self.source, self.kind, self.top.clone())
    }

    fn line_bytes(&self) -> usize {
        self.lines.iter().map(String::len).sum()
    }
}

/// Identity of a defect: source, kind, top.
pub type DefectKey = (DefectSource, Kind, String);

impl When {
    /// Converts a moment whose clock counts from the window's opening.
    pub fn of(moment: defects::Moment) -> Self {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            window_ms: moment.clock.map(ms),
            since_boot_ms: moment.since_boot.map(ms),
        }
    }

    fn moment(self) -> defects::Moment {
        defects::Moment {
            line: 0,
            since_boot: self.since_boot_ms.map(Duration::from_millis),
            clock: self.window_ms.map(Duration::from_millis),
        }
    }
}

/// How much of the kernel's log was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelLog {
    /// The agent read it inside the system, to the end of the trial or of the system.
    Read {
        /// Messages that were overwritten before they were read.
        lost: u64,
    },
    /// The agent sent nothing of it; only the console is known.
    #[default]
    Console,
    /// It cannot be read, with the reason.
    Unread(String),
}

/// Defects of an attempt, in its record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefectLog {
    /// How much of the kernel's log was read.
    pub kernel_log: KernelLog,
    /// The defects, ordered by source, kind and top.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<FoundDefect>,
}

/// Defects of an attempt in progress: each report is in the file when `push` returns.
#[derive(Debug)]
pub struct DefectStream {
    file: LateFile,
    appended: usize,
    kernel_log: KernelLog,
    found: BTreeMap<DefectKey, FoundDefect>,
    line_bytes: usize,
    /// Successful requests of the last whole second of load.
    ok_per_s: Option<u64>,
    /// Defects whose first second has not ended yet.
    unsettled: Vec<DefectKey>,
}

/// Superseded lines in the file before it is rewritten.
const SPARE_LINES: usize = 1000;

impl DefectStream {
    /// No defects, and no file.
    pub fn new(path: PathBuf) -> Self {
        Self {
            file: LateFile::new(path),
            appended: 0,
            kernel_log: KernelLog::default(),
            found: BTreeMap::new(),
            line_bytes: 0,
            ok_per_s: None,
            unsettled: Vec::new(),
        }
    }

    /// Records how much of the kernel's log was read.
    pub fn set_kernel_log(&mut self, kernel_log: KernelLog) {
        self.kernel_log = kernel_log;
    }

    /// Adds a report; returns the defect with all of its reports, and whether it is new. A new defect beyond `MOST_DEFECTS` is dropped:
    /// `None`.
    pub fn push(&mut self, report: FoundDefect) -> Result<Option<(&FoundDefect, bool)>> {
        let key = report.key();
        let is_new = !self.found.contains_key(&key);
        if is_new && self.found.len() >= MOST_DEFECTS {
            return Ok(None);
        }
        self.merge(report);
        self.file.append(std::slice::from_ref(&self.found[&key]))?;
        self.appended += 1;
        if self.appended > self.found.len() + SPARE_LINES {
            self.file.rewrite(self.found.values())?;
            self.appended = self.found.len();
        }
        Ok(Some((&self.found[&key], is_new)))
    }

    fn merge(&mut self, mut report: FoundDefect) {
        let key = report.key();
        if let Some(known) = self.found.get_mut(&key) {
            known.severity = known.severity.max(report.severity);
            known.count = known.count.max(report.count);
            known.last = report.last;
            return;
        }
        if report.line_bytes() > LINES_BYTES.saturating_sub(self.line_bytes) {
            report.lines.clear();
        }
        self.line_bytes += report.line_bytes();
        report.ok_per_s = self.ok_per_s.filter(|_| report.first.window_ms.is_some());
        if report.ok_per_s.is_some() {
            self.unsettled.push(key.clone());
        }
        self.found.insert(key, report);
    }

    /// Adds a whole second of load: defects that were first reported in it get its number of successful requests.
    pub fn end_second(&mut self, second: &Second) {
        self.ok_per_s = Some(second.ok);
        let begin = second.at_ms;
        let found = &mut self.found;
        self.unsettled.retain(|key| {
            let Some(defect) = found.get_mut(key) else {
                return false;
            };
            let first = defect.first.window_ms.unwrap_or(0);
            if (begin..begin + 1000).contains(&first) {
                defect.ok_per_s = Some(second.ok);
            }
            first >= begin + 1000
        });
    }

    /// Whether the agent read the kernel's log.
    pub fn has_kernel_log(&self) -> bool {
        matches!(self.kernel_log, KernelLog::Read { .. })
    }

    /// Kinds of the defects that this source reported.
    pub fn kinds_of(&self, source: DefectSource) -> BTreeSet<Kind> {
        let defects = self.found.values().filter(|defect| defect.source == source);
        defects.map(|defect| defect.kind).collect()
    }

    /// The log for the attempt's record.
    pub fn into_log(self) -> DefectLog {
        DefectLog {
            kernel_log: self.kernel_log,
            found: self.found.into_values().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn report(top: &str, count: u64, window_ms: Option<u64>) -> FoundDefect {
        let when = When {
            window_ms,
            since_boot_ms: Some(1),
        };
        FoundDefect {
            source: DefectSource::Kernel,
            kind: Kind::HungTask,
            severity: Severity::Defect,
            top: top.into(),
            count,
            first: when,
            last: when,
            ok_per_s: None,
            lines: vec![format!("INFO: task {top}")],
        }
    }

    fn second(at_ms: u64, ok: u64) -> Second {
        Second {
            at_ms,
            ok,
            ..Second::default()
        }
    }

    fn stream() -> (tempfile::TempDir, DefectStream) {
        let dir = tempfile::tempdir().unwrap();
        let stream = DefectStream::new(dir.path().join("defects.jsonl"));
        (dir, stream)
    }

    fn read(dir: &tempfile::TempDir) -> Vec<FoundDefect> {
        let text = fs::read_to_string(dir.path().join("defects.jsonl")).unwrap();
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn a_later_report_raises_the_count_and_each_is_in_the_file_at_once() {
        let (dir, mut stream) = stream();
        assert!(stream.push(report("a", 1, None)).unwrap().unwrap().1);
        let mut again = report("a", 3, None);
        again.lines.clear();
        again.last.since_boot_ms = Some(9);
        let (known, is_new) = stream.push(again).unwrap().unwrap();
        assert_eq!((known.count, known.lines.len(), is_new), (3, 1, false));
        let written = read(&dir);
        assert_eq!(written.len(), 2);
        let log = stream.into_log();
        assert_eq!(log.kernel_log, KernelLog::Console);
        assert_eq!(log.found, written[1..]);
    }

    #[test]
    fn a_defect_has_the_load_of_its_second() {
        let (_dir, mut stream) = stream();
        stream.push(report("before", 1, None)).unwrap();
        stream.end_second(&second(0, 100));
        stream.push(report("within", 1, Some(1500))).unwrap();
        stream.push(report("late", 1, Some(2000))).unwrap();
        stream.end_second(&second(1000, 7));
        stream.end_second(&second(2000, 8));
        stream.end_second(&second(3000, 9));
        let found = stream.into_log().found;
        let loads: Vec<_> = found
            .iter()
            .map(|defect| (&*defect.top, defect.ok_per_s))
            .collect();
        let expected = [("before", None), ("late", Some(8)), ("within", Some(7))];
        assert_eq!(loads, expected);
    }

    #[test]
    fn file_and_record_stay_within_their_bounds() {
        let (dir, mut stream) = stream();
        for count in 1..=3 * SPARE_LINES as u64 {
            stream.push(report("a", count, None)).unwrap();
        }
        assert!(read(&dir).len() <= SPARE_LINES + 1);
        assert_eq!(read(&dir).last().unwrap().count, 3 * SPARE_LINES as u64);
        for number in 0..MOST_DEFECTS {
            let mut long = report(&number.to_string(), 1, None);
            long.lines = vec!["x".repeat(240); 48];
            let is_taken = stream.push(long).unwrap().is_some();
            assert_eq!(is_taken, number < MOST_DEFECTS - 1);
        }
        let found = stream.into_log().found;
        let bytes: usize = found.iter().map(FoundDefect::line_bytes).sum();
        assert!(bytes <= LINES_BYTES, "{bytes}");
    }
}
