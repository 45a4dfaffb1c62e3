//! The table of messages that a kernel prints, and what they mean.
//!
//! A row has a kind, a severity, the extent of its report, the form of the message, and samples, which are its tests:
//! each with the top that the message alone gives. The first row whose form matches a message counts, so a special form
//! precedes a general one. To add a message, copy its format string from the kernel's source, mark what it names, and
//! add a sample.
//!
//! Forms were taken verbatim from Debian's kernels 5.10, 6.1, 6.12 and 7.2, and from the kernel's sources for what Debian
//! does not build (KASAN, KCSAN, KMSAN, UBSAN, lockdep). If a version changed a message, a comment says it and there is
//! a row, or a sample, for each.

mod blocks;
mod core;
mod files;
mod hardware;
mod locks;
mod memory;
mod network;
mod stalls;
mod user;

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::form::{Form, Names};
use crate::kind::{Kind, Severity};

/// How far the report that a message begins extends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Only the message.
    Line,
    /// Up to the end of the stack trace that follows.
    Trace,
    /// Up to `---[ end trace`, including messages of other exceptions.
    Exception,
    /// A later part of a report of the same kind, whose beginning may be lost.
    Follow,
}

/// A known message.
#[derive(Debug)]
pub(crate) struct Row {
    pub kind: Kind,
    pub severity: Severity,
    pub extent: Extent,
    pub form: &'static str,
    /// Messages of this form, each with the top that it gives alone.
    #[cfg_attr(not(test), expect(dead_code, reason = "samples are what tests run on"))]
    pub samples: &'static [(&'static str, &'static str)],
}

const fn row(
    kind: Kind,
    severity: Severity,
    extent: Extent,
    form: &'static str,
    samples: &'static [(&'static str, &'static str)],
) -> Row {
    Row {
        kind,
        severity,
        extent,
        form,
        samples,
    }
}

/// All rows, in the order in which they are tried.
pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    let tables = [
        core::ROWS,
        memory::ROWS,
        locks::ROWS,
        stalls::ROWS,
        network::ROWS,
        files::ROWS,
        blocks::ROWS,
        hardware::ROWS,
        user::ROWS,
    ];
    tables.into_iter().flatten()
}

/// The line that begins a report without naming its kind.
pub(crate) const CUT_HERE: &str = "------------[ cut here ]------------";

/// The compiled table.
pub(crate) static TABLE: LazyLock<Table> = LazyLock::new(Table::new);

/// All forms, behind one search for their longest literals.
pub(crate) struct Table {
    rows: Vec<(&'static Row, Form)>,
    needles: AhoCorasick,
    /// The rows of each needle, by index; none for [`CUT_HERE`].
    rows_by_needle: Vec<Vec<usize>>,
}

impl Table {
    fn new() -> Self {
        let rows: Vec<_> = rows().map(|row| (row, Form::new(row.form))).collect();
        let mut needles = vec![CUT_HERE];
        let mut rows_by_needle = vec![Vec::new()];
        for (index, (_, form)) in rows.iter().enumerate() {
            let needle = form.needle();
            let existing = needles.iter().position(|other| *other == needle);
            let needle_index = existing.unwrap_or_else(|| {
                needles.push(needle);
                rows_by_needle.push(Vec::new());
                needles.len() - 1
            });
            rows_by_needle[needle_index].push(index);
        }
        let needles = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            // 290 MB/s, built in 1 ms. A DFA reads 450 MB/s but takes 4 ms, which an emulated guest would pay at each boot.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&needles)
            .expect("some hundred short needles fit into an automaton");
        Self {
            rows,
            needles,
            rows_by_needle,
        }
    }

    /// Whether a line may contain a known message, in one pass whatever the number of rows.
    pub(crate) fn may_match(&self, line: &[u8]) -> bool {
        self.needles.is_match(line)
    }

    /// The first row whose form matches a message, and what it names.
    pub(crate) fn find<'a>(&self, message: &'a str) -> Option<(&'static Row, Names<'a>)> {
        let mut candidates: Vec<usize> = Vec::new();
        for needle in self.needles.find_overlapping_iter(message) {
            candidates.extend(&self.rows_by_needle[needle.pattern().as_usize()]);
        }
        candidates.sort_unstable();
        candidates.dedup();
        candidates.into_iter().find_map(|index| {
            let (row, form) = &self.rows[index];
            Some((*row, form.names(message)?))
        })
    }
}
