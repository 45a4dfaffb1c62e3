//! A report of several lines: where it ends, and what belongs to it.
//!
//! ```text
//! begun by ...             ends with ...                       takes in
//! cut here, exception      ---[ end trace, ---[ end Kernel     other exceptions of the same CPU
//! message with a trace     another message, foreign lines      an exception, before its own trace has come
//! any                      a gap in time, too many lines
//! ```

use std::time::Duration;

use crate::form::Names;
use crate::found::{Defect, LINES, Moment, kept};
use crate::frame;
use crate::kind::{Kind, Severity};
use crate::line::{Caller, Line};
use crate::patterns::{Extent, Row};
use crate::top::Top;

/// A report is at its end when the next line is so much later. Its lines are stamped when they arise, whatever time a
/// console takes for them.
const GAP: Duration = Duration::from_secs(2);

/// A report without stamps, or with others in between, is at its end after so many lines.
const MOST_LINES: u64 = 400;

/// So many lines in a row that are no part of any report end one.
const FOREIGN_LINES: u32 = 16;

/// A report that goes on.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// Nothing as long as only `cut here` was seen.
    kind: Option<Kind>,
    severity: Severity,
    extent: Extent,
    top: Top,
    caller: Option<Caller>,
    cpu: Option<u32>,
    first: Moment,
    last: Moment,
    lines: Vec<String>,
    /// Lines kept up to the last one that is surely of this report.
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

    /// Whether a line that this caller printed may belong to it.
    pub(crate) fn is_of(&self, caller: Option<Caller>) -> bool {
        caller.is_none() || self.caller == caller
    }

    /// Whether only a `cut here` was seen of it.
    pub(crate) fn is_undecided(&self) -> bool {
        self.kind.is_none()
    }

    /// Whether a message within the report is a part of it, and no defect of its own.
    pub(crate) fn takes_in(&self, row: &Row, message: &str) -> bool {
        let Some(kind) = self.kind else {
            // The text of a WARN stands between `cut here` and `WARNING:`. A message that never comes with a trace is
            // somebody else's.
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

    /// The same for `cut here`, which many messages with a trace are followed by.
    pub(crate) fn takes_in_cut(&self) -> bool {
        match self.extent {
            Extent::Exception => self.kind.is_none(),
            Extent::Trace => !self.has_trace,
            Extent::Line | Extent::Follow => false,
        }
    }

    /// Whether it is at its end when this message begins another one.
    pub(crate) fn ends_before(&self, row: &Row) -> bool {
        self.extent == Extent::Trace || row.kind == Kind::Panic
    }

    fn is_other_cpu(&self, message: &str) -> bool {
        matches!((self.cpu, cpu(message)), (Some(own), Some(other)) if own != other)
    }

    /// Takes in a message of the table. The first one says what the report is.
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

    /// Takes a line; whether the report is at its end with it.
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
        let is_mark = message.starts_with("---[ end ");
        let is_own = place.is_some() || is_backtrace || is_mark || is_part(message);
        self.take(message, moment, is_own);
        let is_end = is_mark || (self.has_trace && message.starts_with("====="));
        let is_long = moment.line.saturating_sub(self.first.line) >= MOST_LINES;
        is_end || is_long || self.foreign >= FOREIGN_LINES
    }

    fn take(&mut self, message: &str, moment: Moment, is_own: bool) {
        self.cpu = self.cpu.or_else(|| cpu(message));
        self.foreign = if is_own { 0 } else { self.foreign + 1 };
        if is_own {
            self.last = moment;
        }
        self.keep(message, is_own);
    }

    fn keep(&mut self, message: &str, is_own: bool) {
        if self.lines.len() < LINES {
            self.lines.push(kept(message));
            if is_own {
                self.sure_lines = self.lines.len();
            }
        }
    }

    pub(crate) fn is_stale(&self, now: Moment) -> bool {
        let clock = match (now.since_boot, self.last.since_boot) {
            (Some(now), Some(last)) => now.saturating_sub(last),
            _ => Duration::ZERO,
        };
        clock > GAP
    }

    /// What it is, as far as it is known; nothing where a `cut here` was followed by no trace.
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

/// Whether a line is one that reports consist of.
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
    fn the_cpu_is_the_number_behind_its_name() {
        assert_eq!(cpu("CPU: 3 PID: 12 Comm: nginx"), Some(3));
        assert_eq!(
            cpu("WARNING: a.c:1 at f+0x1/0x2, CPU#12: nginx/3"),
            Some(12)
        );
        assert_eq!(cpu("CPU: x"), None);
        assert_eq!(cpu("no cpu"), None);
    }
}
