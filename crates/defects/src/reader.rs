//! Reading a log as it grows.

use std::time::Duration;

use crate::form::Names;
use crate::found::{Defect, Found, Moment};
use crate::line::{Caller, Line};
use crate::patterns::{CUT_HERE, Extent, Row, TABLE};
use crate::report::Report;

/// So much of a line is looked at, in bytes; the rest of it is passed over.
const READ_BYTES: usize = 1 << 10;

/// So many reports may be going on at once: one for each CPU or task that prints.
const OPEN_REPORTS: usize = 8;

/// A reader of one kernel's log: it is fed, for as long as the log goes on, and can be asked at any time.
///
/// Its memory is bounded by [`crate::LIMIT_PER_KIND`], whatever is fed.
///
/// ```
/// let mut reader = defects::Reader::new();
/// reader.feed(b"[    9.000000] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [nginx:812]\n");
/// let found = reader.defects();
/// assert_eq!(found[0].kind, defects::Kind::SoftLockup);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Reader {
    /// The beginning of a line whose end has not come.
    partial: Vec<u8>,
    lines: u64,
    clock: Option<Duration>,
    changes: u64,
    /// Reports that are not at their end, the latest last.
    open: Vec<Report>,
    found: Found,
}

impl Reader {
    /// A reader that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what [`Moment::clock`] of all that is fed from here on will be.
    pub fn set_clock(&mut self, now: Duration) {
        self.clock = Some(now);
    }

    /// Takes the next piece of the log, which may end anywhere.
    pub fn feed(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line = &rest[..end];
            if self.partial.is_empty() {
                self.line(line);
            } else {
                self.keep_partial(line);
                let whole = std::mem::take(&mut self.partial);
                self.line(&whole);
                self.partial = whole;
                self.partial.clear();
            }
            rest = &rest[end + 1..];
        }
        self.keep_partial(rest);
    }

    fn keep_partial(&mut self, bytes: &[u8]) {
        let room = READ_BYTES.saturating_sub(self.partial.len());
        self.partial
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Takes one whole line, with or without its end.
    pub fn line(&mut self, line: &[u8]) {
        self.lines += 1;
        let line = &line[..line.len().min(READ_BYTES)];
        let may_match = TABLE.may_match(line);
        if !may_match && self.open.is_empty() {
            return;
        }
        let line = Line::new(line);
        let moment = Moment {
            line: self.lines,
            since_boot: line.since_boot,
            clock: self.clock,
        };
        self.close_stale(moment);
        let found = may_match.then(|| TABLE.find(&line.message)).flatten();
        match found {
            Some((row, names)) => self.take_match(row, names, &line, moment),
            None if line.message.starts_with(CUT_HERE) => self.take_cut(&line, moment),
            None => self.take_other(&line, moment),
        }
    }

    /// Takes what was left of a last line, and ends all reports.
    pub fn finish(&mut self) {
        if !self.partial.is_empty() {
            let last = std::mem::take(&mut self.partial);
            self.line(&last);
        }
        while let Some(report) = self.open.pop() {
            self.close(&report);
        }
    }

    /// All defects so far, by kind and top; those whose reports are still going on with what is known of them.
    pub fn defects(&self) -> Vec<Defect> {
        let mut found = self.found.clone();
        for report in &self.open {
            if let Some(defect) = report.defect() {
                found.add(defect);
            }
        }
        found.into_defects()
    }

    /// Grows whenever [`Reader::defects`] may have changed.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// How many lines were read.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    fn take_match(&mut self, row: &'static Row, names: Names<'_>, line: &Line<'_>, moment: Moment) {
        self.changes += 1;
        self.drop_nested_cut(row, line);
        let begun = self.current(line.caller);
        if let Some(place) = begun
            && self.open[place].takes_in(row, &line.message)
        {
            self.open[place].take_match(row, names, &line.message, moment);
            return;
        }
        let report = Report::begin(row, names, line, moment);
        match row.extent {
            Extent::Line | Extent::Follow => self.close(&report),
            Extent::Trace | Extent::Exception => {
                if let Some(place) = begun
                    && self.open[place].ends_before(row)
                {
                    let before = self.open.remove(place);
                    self.close(&before);
                }
                self.open(report);
            }
        }
    }

    fn take_cut(&mut self, line: &Line<'_>, moment: Moment) {
        let begun = self.current(line.caller);
        match begun {
            Some(place) if self.open[place].takes_in_cut() => {
                self.take_other(line, moment);
            }
            Some(_) | None => self.open(Report::begin_cut(line, moment)),
        }
    }

    /// A `cut here` within an exception may begin a report of another CPU. Where its warning shows that it does not, it
    /// is a part of the exception.
    fn drop_nested_cut(&mut self, row: &Row, line: &Line<'_>) {
        let Some(inner) = self
            .current(line.caller)
            .filter(|place| self.open[*place].is_undecided())
        else {
            return;
        };
        let mut outer = self.open[..inner]
            .iter()
            .rev()
            .filter(|report| report.is_of(line.caller));
        let is_nested = outer
            .next()
            .is_some_and(|outer| outer.takes_in(row, &line.message));
        if row.extent == Extent::Exception && is_nested {
            self.open.remove(inner);
        }
    }

    fn take_other(&mut self, line: &Line<'_>, moment: Moment) {
        let Some(place) = self.current(line.caller) else {
            return;
        };
        self.changes += 1;
        if self.open[place].take_line(&line.message, moment) {
            let report = self.open.remove(place);
            self.close(&report);
        }
    }

    /// The report that a line of this caller belongs to, if any goes on.
    fn current(&self, caller: Option<Caller>) -> Option<usize> {
        self.open.iter().rposition(|report| report.is_of(caller))
    }

    fn open(&mut self, report: Report) {
        if self.open.len() == OPEN_REPORTS {
            let oldest = self.open.remove(0);
            self.close(&oldest);
        }
        self.open.push(report);
    }

    fn close(&mut self, report: &Report) {
        self.changes += 1;
        if let Some(defect) = report.defect() {
            self.found.add(defect);
        }
    }

    /// Ends reports that nothing was added to for long.
    fn close_stale(&mut self, now: Moment) {
        while let Some(place) = self.open.iter().position(|report| report.is_stale(now)) {
            let report = self.open.remove(place);
            self.close(&report);
        }
    }
}
