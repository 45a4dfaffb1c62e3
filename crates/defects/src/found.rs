//! Defects found so far: one for each kind and top, and never more than fit.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::kind::{Kind, Severity};

/// So many defects of a kind are told apart; what comes after counts under [`OTHERS`].
pub const LIMIT_PER_KIND: usize = 32;

/// The top of all defects of a kind beyond [`LIMIT_PER_KIND`].
pub const OTHERS: &str = "(others)";

/// So many lines of a report are kept.
pub const LINES: usize = 48;

/// So much of a line is kept, in bytes.
pub const LINE_BYTES: usize = 240;

/// When something was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment {
    /// Number of the line in its log, from 1.
    pub line: u64,
    /// The kernel's own stamp.
    pub since_boot: Option<Duration>,
    /// The reader's clock, as it was told last ([`crate::Reader::set_clock`]).
    pub clock: Option<Duration>,
}

/// A defect, however often it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    /// What happened.
    pub kind: Kind,
    /// What it means: the gravest of all reports.
    pub severity: Severity,
    /// What tells it from others of its kind, and is the same in two arms: the top frame (a function) where there is a
    /// stack, else the device, program or sentence concerned; empty where the kind says it all.
    pub top: String,
    /// How many reports.
    pub count: u64,
    /// The first report.
    pub first: Moment,
    /// The last one.
    pub last: Moment,
    /// The lines of the first report, at most [`LINES`] of [`LINE_BYTES`].
    pub lines: Vec<String>,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    by_key: BTreeMap<(Kind, String), Defect>,
}

impl Found {
    pub(crate) fn add(&mut self, mut defect: Defect) {
        let key = (defect.kind, defect.top.clone());
        let is_new = !self.by_key.contains_key(&key);
        if is_new && self.of_kind(defect.kind) >= LIMIT_PER_KIND {
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

    fn of_kind(&self, kind: Kind) -> usize {
        let first = (kind, String::new());
        let all = self.by_key.range(first..);
        all.take_while(|((other, _), _)| *other == kind).count()
    }

    /// By kind, then by top.
    pub(crate) fn into_defects(self) -> Vec<Defect> {
        self.by_key.into_values().collect()
    }
}

/// A line as it is kept.
pub(crate) fn kept(line: &str) -> String {
    let mut end = line.len().min(LINE_BYTES);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line[..end].to_string()
}
