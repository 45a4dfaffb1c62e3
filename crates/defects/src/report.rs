//! A report of several lines: which lines belong to it, and where it ends.
//!
//! ```text
//! begun by ...             ends with ...                       includes
//! cut here, exception      ---[ end trace, ---[ end Kernel     other exceptions of the same CPU
//! message with a trace     another message, foreign lines      an exception before its own trace
//! any                      a gap in time, too many lines
//! ```

use std::time::Duration;

use crate::defect_set::{Defect, LINES, Moment, cut_line};
use crate::form::Names;
use crate::frame;
use crate::kind::{Kind, Severity};
use crate::line::{Caller, Line};
use crate::patterns::{Extent, Row};
use crate::top::Top;

/// A line this much later ends a report. Lines are stamped when they are printed, however slow the console is.
const MAX_GAP: Duration = Duration::from_secs(2);

/// Number of lines after which a report ends that has no timestamps, or other lines in between.
const MAX_LINES: u64 = 400;

/// This many consecutive foreign lines end a report.
const MAX_FOREIGN_LINES: u32 = 16;

/// A report that has not ended.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// `None` while only `cut here` was seen.
    kind: Option<Kind>,
    severity: Severity,
    extent: Extent,
    top: Top,
    caller: Option<Caller>,
    cpu: Option<u32>,
    first: Moment,
    last: Moment,
    lines: Vec<String>,
    /// Number of kept lines up to the last one that certainly belongs to this report.
    sure_lines: usize,
    foreign: u32,
    has_trace: bool,
}

impl Report {
    pub(crate) fn begin(row: &Row, names: Names<'_>, line: &Line<'_>, moment: Moment) -> Self {
        let mut report = Self::empty(line.caller, moment);
        report.take_match(row, names, &line.message, moment);
        report
    }

    pub(crate) fn begin_cut(line: &Line<'_>, moment: Moment) -> Self {
        let mut report = Self::empty(line.caller, moment);
        report.keep(&line.message, true);
        report
    }

    fn empty(caller: Option<Caller>, moment: Moment) -> Self {
        Self {
            kind: None,
            severity: Severity::Defect,
            extent: Extent::Exception,
            top: Top::default(),
            caller,
            cpu: None,
            first: moment,
            last: moment,
            lines: Vec::new(),
            sure_lines: 0,
            foreign: 0,
            has_trace: false,
        }
    }

    /// Whether a line that this caller printed may belong to the report.
    pub(crate) fn may_contain(&self, caller: Option<Caller>) -> bool {
        caller.is_none() || self.caller == caller
    }

    /// Whether only its `cut here` was seen.
    pub(crate) fn has_no_kind(&self) -> bool {
        self.kind.is_none()
    }

    /// Whether a message within the report is part of it, not a separate defect.
    pub(crate) fn includes(&self, row: &Row, message: &str) -> bool {
        let Some(kind) = self.kind else {
            // The text of a WARN stands between `cut here` and `WARNING:`. A message that never has a trace is unrelated.
            let may_be_text = matches!(row.extent, Extent::Trace | Extent::Exception);
            return may_be_text && row.kind != Kind::Panic;
        };
        match row.extent {
            Extent::Line | Extent::Trace => false,
            Extent::Follow => row.kind == kind,
            Extent::Exception => match self.extent {
                Extent::Exception => !self.is_other_cpu(message),
                Extent::Trace => !self.has_trace && !self.is_other_cpu(message),
                Extent::Line | Extent::Follow => false,
            },
        }
    }

    /// Whether a `cut here` is part of the report; it follows many messages that have a trace.
    pub(crate) fn includes_cut(&self) -> bool {
        match self.extent {
            Extent::Exception => self.kind.is_none(),
            Extent::Trace => !self.has_trace,
            Extent::Line | Extent::Follow => false,
        }
    }

    /// Whether this message, as the beginning of another report, ends it.
    pub(crate) fn ends_before(&self, row: &Row) -> bool {
        self.extent == Extent::Trace || row.kind == Kind::Panic
    }

    fn is_other_cpu(&self, message: &str) -> bool {
        matches!((self.cpu, cpu(message)), (Some(this), Some(other)) if this != other)
    }

    /// Adds a known message. The first one defines the report.
    pub(crate) fn take_match(
        &mut self,
        row: &Row,
        names: Names<'_>,
        message: &str,
        moment: Moment,
    ) {
        if self.kind.is_none() {
            let is_cut = !self.lines.is_empty();
            self.kind = Some(row.kind);
            self.severity = row.severity;
            self.extent = if is_cut {
                Extent::Exception
            } else {
                row.extent
            };
        } else {
            self.severity = self.severity.max(row.severity);
            if row.extent == Extent::Exception {
                self.extent = Extent::Exception;
            }
        }
        self.top.take_names(names);
        self.take(message, moment, true);
    }

    /// Adds a line; returns whether it ends the report.
    pub(crate) fn take_line(&mut self, message: &str, moment: Moment) -> bool {
        let place = frame::place(message);
        if let Some(place) = place {
            let is_chain = self.kind == Some(Kind::Lockdep) && !self.has_trace;
            self.has_trace |= !is_chain;
            self.top.take_place(place, is_chain);
        }
        let start = message.trim_start();
        let is_backtrace = ["Call Trace:", "Call trace:", "stack backtrace:"]
            .iter()
            .any(|mark| start.starts_with(mark));
        self.has_trace |= is_backtrace;
        let is_end_mark = message.starts_with("---[ end ");
        let belongs = place.is_some() || is_backtrace || is_end_mark || is_part(message);
        self.take(message, moment, belongs);
        let is_end = is_end_mark || (self.has_trace && message.starts_with("====="));
        let is_long = moment.line.saturating_sub(self.first.line) >= MAX_LINES;
        is_end || is_long || self.foreign >= MAX_FOREIGN_LINES
    }

    fn take(&mut self, message: &str, moment: Moment, belongs: bool) {
        self.cpu = self.cpu.or_else(|| cpu(message));
        self.foreign = if belongs { 0 } else { self.foreign + 1 };
        if belongs {
            self.last = moment;
        }
        self.keep(message, belongs);
    }

    fn keep(&mut self, message: &str, belongs: bool) {
        if self.lines.len() < LINES {
            self.lines.push(cut_line(message));
            if belongs {
                self.sure_lines = self.lines.len();
            }
        }
    }

    pub(crate) fn is_stale(&self, now: Moment) -> bool {
        let gap = match (now.since_boot, self.last.since_boot) {
            (Some(now), Some(last)) => now.saturating_sub(last),
            _ => Duration::ZERO,
        };
        gap > MAX_GAP
    }

    /// The defect as far as it is known; `None` if no trace followed a `cut here`.
    pub(crate) fn defect(&self) -> Option<Defect> {
        let cut = self.has_trace.then_some(Kind::Warning);
        Some(Defect {
            kind: self.kind.or(cut)?,
            severity: self.severity,
            top: self.top.get(),
            count: 1,
            first: self.first,
            last: self.first,
            lines: self.lines[..self.sure_lines].to_vec(),
        })
    }
}

/// The CPU that a message names: `CPU: 3 PID: ..`, `CPU#3`.
fn cpu(message: &str) -> Option<u32> {
    let rest = ["CPU: ", "CPU#"].iter().find_map(|mark| {
        let (_, rest) = message.split_once(mark)?;
        Some(rest)
    })?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[..digits].parse().ok()
}

/// Whether a line is typical of reports.
fn is_part(message: &str) -> bool {
    message.starts_with(' ')
        || message.is_empty()
        || PARTS.iter().any(|part| message.starts_with(part))
}

/// Beginnings of lines within reports.
const PARTS: &[&str] = &[
    "Call Trace:",
    "Call trace:",
    "CPU: ",
    "RIP: ",
    "RSP: ",
    "RAX: ",
    "RDX: ",
    "RBP: ",
    "R10: ",
    "R13: ",
    "FS: ",
    "CS: ",
    "CR2: ",
    "DR0: ",
    "DR3: ",
    "PKRU: ",
    "Code: ",
    "pc : ",
    "lr : ",
    "sp : ",
    "pstate: ",
    "Modules linked in:",
    "Hardware name:",
    "Workqueue: ",
    "task:",
    "Not tainted",
    "Tainted: ",
    "\"echo 0 >",
    "irq event stamp:",
    "hardirqs ",
    "softirqs ",
    "Sending NMI ",
    "NMI backtrace ",
    "INFO: ",
    "Mem-Info:",
    "Node ",
    "active_anon:",
    "Tasks state",
    "oom-kill:",
    "oom_reaper:",
    "#PF: ",
    "PGD ",
    "note: ",
    "page:",
    "page dumped",
    "raw: ",
    "flags: ",
    "head:",
    "stack backtrace:",
    "other info ",
    "Possible ",
    "but ",
    "which ",
    "the existing ",
    "-> #",
    "rcu: ",
    "(detected by",
    "Read of size",
    "Write of size",
    "Allocated by",
    "Freed by",
    "The buggy",
    "Memory state",
    "Showing ",
    "pool ",
    "workqueue ",
    "kasan: ",
    "-----",
    "=====",
    "Kernel Offset:",
    "in_atomic():",
    "preempt_count:",
    "handlers:",
];

#[cfg(test)]
mod tests {
    use super::cpu;

    #[test]
    fn the_cpu_is_the_number_after_its_name() {
        assert_eq!(cpu("CPU: 3 PID: 12 Comm: nginx"), Some(3));
        assert_eq!(
            cpu("WARNING: a.c:1 at f+0x1/0x2, CPU#12: nginx/3"),
            Some(12)
        );
        assert_eq!(cpu("CPU: x"), None);
        assert_eq!(cpu("no cpu"), None);
    }
}
