//! Reading a log as it grows.

use std::time::Duration;

use crate::defect_set::{Defect, DefectSet, Moment};
use crate::form::Names;
use crate::line::{Caller, Line};
use crate::patterns::{CUT_HERE, Extent, Row, TABLE};
use crate::report::Report;

/// Number of bytes read of a line; the rest is skipped.
const READ_BYTES: usize = 1 << 10;

/// Most reports open at once: one for each CPU or task that prints.
const OPEN_REPORTS: usize = 8;

/// A reader of one kernel log. It is fed while the log grows, and can be queried at any time.
///
/// Its memory is bounded by [`crate::LIMIT_PER_KIND`], whatever the input.
///
/// ```
/// let mut reader = defects::Reader::new();
/// reader.feed(b"[    9.000000] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [nginx:812]\n");
/// let defects = reader.defects();
/// assert_eq!(defects[0].kind, defects::Kind::SoftLockup);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Reader {
    /// The beginning of an incomplete line.
    partial: Vec<u8>,
    lines: u64,
    clock: Option<Duration>,
    changes: u64,
    /// Reports that have not ended, the latest last.
    open: Vec<Report>,
    defects: DefectSet,
}

impl Reader {
    /// A reader that has read nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`Moment::clock`] of everything that is fed from here on.
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
        let space = READ_BYTES.saturating_sub(self.partial.len());
        self.partial
            .extend_from_slice(&bytes[..bytes.len().min(space)]);
    }

    /// Takes one whole line, with or without its newline.
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
        let matching = may_match.then(|| TABLE.find(&line.message)).flatten();
        match matching {
            Some((row, names)) => self.take_match(row, names, &line, moment),
            None if line.message.starts_with(CUT_HERE) => self.take_cut(&line, moment),
            None => self.take_other(&line, moment),
        }
    }

    /// Takes the rest of an incomplete last line, and ends all reports.
    pub fn finish(&mut self) {
        if !self.partial.is_empty() {
            let last = std::mem::take(&mut self.partial);
            self.line(&last);
        }
        while let Some(report) = self.open.pop() {
            self.close(&report);
        }
    }

    /// All defects so far, by kind and top; open reports with what is known of them.
    pub fn defects(&self) -> Vec<Defect> {
        let mut defects = self.defects.clone();
        for report in &self.open {
            if let Some(defect) = report.defect() {
                defects.add(defect);
            }
        }
        defects.into_defects()
    }

    /// A counter that grows whenever [`Reader::defects`] may have changed.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Number of lines read.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    fn take_match(&mut self, row: &'static Row, names: Names<'_>, line: &Line<'_>, moment: Moment) {
        self.changes += 1;
        self.drop_nested_cut(row, line);
        let current = self.current(line.caller);
        if let Some(index) = current
            && self.open[index].includes(row, &line.message)
        {
            self.open[index].take_match(row, names, &line.message, moment);
            return;
        }
        let report = Report::begin(row, names, line, moment);
        match row.extent {
            Extent::Line | Extent::Follow => self.close(&report),
            Extent::Trace | Extent::Exception => {
                if let Some(index) = current
                    && self.open[index].ends_before(row)
                {
                    let before = self.open.remove(index);
                    self.close(&before);
                }
                self.open(report);
            }
        }
    }

    fn take_cut(&mut self, line: &Line<'_>, moment: Moment) {
        let current = self.current(line.caller);
        match current {
            Some(index) if self.open[index].includes_cut() => {
                self.take_other(line, moment);
            }
            Some(_) | None => self.open(Report::begin_cut(line, moment)),
        }
    }

    /// Drops a `cut here` that turns out to be part of an exception. It may begin a report of another CPU, until its
    /// warning shows that it does not.
    fn drop_nested_cut(&mut self, row: &Row, line: &Line<'_>) {
        let Some(inner) = self
            .current(line.caller)
            .filter(|index| self.open[*index].has_no_kind())
        else {
            return;
        };
        let mut outer = self.open[..inner]
            .iter()
            .rev()
            .filter(|report| report.may_contain(line.caller));
        let is_nested = outer
            .next()
            .is_some_and(|outer| outer.includes(row, &line.message));
        if row.extent == Extent::Exception && is_nested {
            self.open.remove(inner);
        }
    }

    fn take_other(&mut self, line: &Line<'_>, moment: Moment) {
        let Some(index) = self.current(line.caller) else {
            return;
        };
        self.changes += 1;
        if self.open[index].take_line(&line.message, moment) {
            let report = self.open.remove(index);
            self.close(&report);
        }
    }

    /// Index of the open report that a line of this caller belongs to, if any.
    fn current(&self, caller: Option<Caller>) -> Option<usize> {
        self.open
            .iter()
            .rposition(|report| report.may_contain(caller))
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
            self.defects.add(defect);
        }
    }

    /// Ends reports that received no line for a long time.
    fn close_stale(&mut self, now: Moment) {
        while let Some(index) = self.open.iter().position(|report| report.is_stale(now)) {
            let report = self.open.remove(index);
            self.close(&report);
        }
    }
}
