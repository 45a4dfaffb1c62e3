//! The defects so far: one per kind and top, limited in number.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::kind::{Kind, Severity};

/// Number of defects per kind that are distinguished; further ones count under [`OTHERS`].
pub const LIMIT_PER_KIND: usize = 32;

/// The top of all defects of a kind beyond [`LIMIT_PER_KIND`].
pub const OTHERS: &str = "(others)";

/// Number of lines kept of a report.
pub const LINES: usize = 48;

/// Number of bytes kept of a line.
pub const LINE_BYTES: usize = 240;

/// The time of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment {
    /// Line number in the log, from 1.
    pub line: u64,
    /// The kernel's timestamp.
    pub since_boot: Option<Duration>,
    /// The reader's clock, as last set by [`crate::Reader::set_clock`].
    pub clock: Option<Duration>,
}

/// A defect and its reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    /// What happened.
    pub kind: Kind,
    /// The highest severity of all reports.
    pub severity: Severity,
    /// Distinguishes it from others of its kind, and is the same in two arms. It is the top frame (a function) if there
    /// is a stack, else a device, program or sentence; empty if the kind suffices.
    pub top: String,
    /// Number of reports.
    pub count: u64,
    /// The first report.
    pub first: Moment,
    /// The last report.
    pub last: Moment,
    /// Lines of the first report, at most [`LINES`] of [`LINE_BYTES`].
    pub lines: Vec<String>,
}

/// All defects so far, by kind and top.
#[derive(Clone, Debug, Default)]
pub(crate) struct DefectSet {
    by_key: BTreeMap<(Kind, String), Defect>,
}

impl DefectSet {
    pub(crate) fn add(&mut self, mut defect: Defect) {
        let key = (defect.kind, defect.top.clone());
        let is_new = !self.by_key.contains_key(&key);
        if is_new && self.count_of_kind(defect.kind) >= LIMIT_PER_KIND {
            defect.top = OTHERS.to_string();
        }
        let key = (defect.kind, defect.top.clone());
        match self.by_key.get_mut(&key) {
            None => {
                self.by_key.insert(key, defect);
            }
            Some(known) => {
                known.count += defect.count;
                known.severity = known.severity.max(defect.severity);
                known.last = known.last.max(defect.last);
                if defect.first < known.first {
                    known.first = defect.first;
                    known.lines = defect.lines;
                }
            }
        }
    }

    fn count_of_kind(&self, kind: Kind) -> usize {
        let first = (kind, String::new());
        let all = self.by_key.range(first..);
        all.take_while(|((other, _), _)| *other == kind).count()
    }

    /// The defects by kind, then by top.
    pub(crate) fn into_defects(self) -> Vec<Defect> {
        self.by_key.into_values().collect()
    }
}

/// A line cut to [`LINE_BYTES`].
pub(crate) fn cut_line(line: &str) -> String {
    let mut end = line.len().min(LINE_BYTES);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line[..end].to_string()
}
