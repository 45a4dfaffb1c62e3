//! The table of messages: what a kernel prints, and what it means.
//!
//! A row has a kind, what it means for reliability, how far its report goes, the form of the message and samples, which
//! are its tests: each with the top that is found in the message alone. The first row whose form fits a message counts,
//! so a special form stands before a general one. To add a message, copy its format string from the kernel's source,
//! mark what it names, and write a sample.
//!
//! Forms were taken from the kernels 5.10, 6.1, 6.12 and 7.2 of Debian, word for word as they print them, and from the
//! kernel's sources where Debian does not build them (KASAN, KCSAN, KMSAN, UBSAN, lockdep). Where a version changed a
//! message, a comment says so and there is a row, or a sample, for each.

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

/// How far the report goes that a message begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The message is all.
    Line,
    /// Up to the end of the stack trace that follows.
    Trace,
    /// Up to `---[ end trace`; messages of other exceptions within it belong to it.
    Exception,
    /// A later part of a report of the same kind, which may have lost its beginning.
    Follow,
}

/// A message that means something.
#[derive(Debug)]
pub(crate) struct Row {
    pub kind: Kind,
    pub severity: Severity,
    pub extent: Extent,
    pub form: &'static str,
    /// Messages of this form, with the top that each of them names by itself.
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

/// What begins a report without saying what it is.
pub(crate) const CUT_HERE: &str = "------------[ cut here ]------------";

/// The table, ready to be searched.
pub(crate) static TABLE: LazyLock<Table> = LazyLock::new(Table::new);

/// All forms behind one search for their needles.
pub(crate) struct Table {
    rows: Vec<(&'static Row, Form)>,
    needles: AhoCorasick,
    /// The rows of each needle, by its number; none for [`CUT_HERE`].
    of_needle: Vec<Vec<usize>>,
}

impl Table {
    fn new() -> Self {
        let rows: Vec<_> = rows().map(|row| (row, Form::new(row.form))).collect();
        let mut needles = vec![CUT_HERE];
        let mut of_needle = vec![Vec::new()];
        for (number, (_, form)) in rows.iter().enumerate() {
            let needle = form.needle();
            let known = needles.iter().position(|known| *known == needle);
            let place = known.unwrap_or_else(|| {
                needles.push(needle);
                of_needle.push(Vec::new());
                needles.len() - 1
            });
            of_needle[place].push(number);
        }
        let needles = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            // 290 MB/s, built in 1 ms. A DFA reads 450 MB/s and takes 4 ms, which an emulated guest would pay at each boot.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&needles)
            .expect("some hundred short needles fit into an automaton");
        Self {
            rows,
            needles,
            of_needle,
        }
    }

    /// Whether a line may hold a message of the table: one pass over it, whatever the number of rows.
    pub(crate) fn may_match(&self, line: &[u8]) -> bool {
        self.needles.is_match(line)
    }

    /// The first row whose form a message has, and what it names.
    pub(crate) fn find<'a>(&self, message: &'a str) -> Option<(&'static Row, Names<'a>)> {
        let mut candidates: Vec<usize> = Vec::new();
        for needle in self.needles.find_overlapping_iter(message) {
            candidates.extend(&self.of_needle[needle.pattern().as_usize()]);
        }
        candidates.sort_unstable();
        candidates.dedup();
        candidates.into_iter().find_map(|number| {
            let (row, form) = &self.rows[number];
            Some((*row, form.names(message)?))
        })
    }
}
