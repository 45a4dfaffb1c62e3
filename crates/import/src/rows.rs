//! Rows with named columns, however they are written: what CSV and JSON lines have in common.
//!
//! Long rows have one figure each, in `value`. Wide rows have an `arm` and a column per metric, or a
//! `block` and a column per arm. Anything else could be read in two ways, and is refused.

use std::collections::{BTreeMap, BTreeSet};

use record::metric::Direction;

use super::plain;
use crate::metric_direction::{self, Guess};
use crate::observation::{FileFigures, Observation};

/// Names of the columns that mean something, the first being ours.
const ARM: &[&str] = &["arm", "system", "variant", "kernel", "configuration"];
const BLOCK: &[&str] = &["block", "pair", "round"];
const SLOT: &[&str] = &["slot", "order", "position"];
const METRIC: &[&str] = &["metric", "benchmark", "test"];
const VALUE: &[&str] = &["value", "result", "figure"];
const UNIT: &[&str] = &["unit", "units"];
const BETTER: &[&str] = &["direction", "better"];

/// Columns in which rows of one arm and metric may differ: they number or date repetitions.
const REPEATS: [&str; 22] = [
    "run",
    "iteration",
    "repetition",
    "rep",
    "repeat",
    "sample",
    "trial",
    "attempt",
    "timestamp",
    "date",
    "seed",
    "index",
    "id",
    "no",
    "nr",
    "n",
    "#",
    "pid",
    "fork",
    "comment",
    "note",
    "notes",
];

/// One row: what stands in its columns, and its line.
pub(crate) struct Row<'t> {
    /// Its line, counted from 1.
    pub(crate) line: usize,
    /// Text of each column; JSON `null` and an absent key are the empty text.
    pub(crate) cells: BTreeMap<&'t str, &'t str>,
}

/// Which column is which.
enum Form<'t> {
    Long { value: &'t str },
    Metrics { columns: Vec<MetricColumn<'t>> },
    Arms { columns: Vec<&'t str> },
}

/// A column of a metric.
struct MetricColumn<'t> {
    column: &'t str,
    metric: &'t str,
    unit: &'t str,
}

/// Columns whose meaning is known, by their names.
struct Columns<'t> {
    arm: Option<&'t str>,
    block: Option<&'t str>,
    slot: Option<&'t str>,
    unit: Option<&'t str>,
    better: Option<&'t str>,
    /// The column `metric`, which says what is measured.
    quantity: Option<&'t str>,
    /// All that are parts of a metric's name.
    metric: Vec<&'t str>,
}

impl<'t> Columns<'t> {
    fn of(names: &[&'t str]) -> Self {
        let metric = names.iter().filter(|name| is_one_of(name, METRIC));
        Self {
            arm: find(names, ARM),
            block: find(names, BLOCK),
            slot: find(names, SLOT),
            unit: find(names, UNIT),
            better: find(names, BETTER),
            quantity: find(names, &["metric"]),
            metric: metric.copied().collect(),
        }
    }
}

/// Most columns of a table: each is looked at for each row.
const MOST_COLUMNS: usize = 1000;

/// Whether a first line names columns that are known here.
pub(crate) fn are_columns(names: &[&str]) -> bool {
    let known = [ARM, BLOCK, VALUE];
    names.len() >= 2 && known.iter().any(|column| find(names, column).is_some())
}

fn find<'t>(names: &[&'t str], column: &[&str]) -> Option<&'t str> {
    names.iter().find(|name| is_one_of(name, column)).copied()
}

fn is_one_of(name: &str, column: &[&str]) -> bool {
    column
        .iter()
        .any(|known| name.trim().eq_ignore_ascii_case(known))
}

/// Reads the rows under the columns' names.
pub(crate) fn read<'t>(names: &[&'t str], rows: &[Row<'t>], head: usize, found: &mut FileFigures) {
    if names.len() > MOST_COLUMNS {
        let what = format!("more than {MOST_COLUMNS} columns: {}", names.len());
        let remedy = "write a row for each figure: arm,block,metric,value";
        found.wrong(head, what, remedy);
        return;
    }
    let Some(form) = form(names, head, found) else {
        return;
    };
    let known = &Columns::of(names);
    blanks(names, rows, found);
    match &form {
        Form::Long { .. } => unread_columns((names, known), rows, found),
        Form::Metrics { columns } => {
            for one in columns {
                let guess = metric_direction::guess(one.metric, one.unit);
                if guess == Guess::Unknown && !is_one_of(one.column, &REPEATS) {
                    refuse_told_apart(known, one.column, rows, found);
                }
            }
        }
        Form::Arms { .. } => {}
    }
    for row in rows {
        if found.is_full() {
            return;
        }
        match &form {
            Form::Long { value } => {
                let unit = cell(row, known.unit).unwrap_or_default().to_string();
                read_cell(
                    row,
                    (known, value),
                    (&metric(row, known), &unit),
                    None,
                    found,
                );
            }
            Form::Metrics { columns } => {
                for MetricColumn {
                    column,
                    metric,
                    unit,
                } in columns
                {
                    read_cell(row, (known, column), (metric, unit), None, found);
                }
            }
            Form::Arms { columns } => {
                let name = metric(row, known);
                let unit = cell(row, known.unit).unwrap_or_default().to_string();
                for column in columns {
                    read_cell(
                        row,
                        (known, column),
                        (&name, &unit),
                        Some(column.trim()),
                        found,
                    );
                }
            }
        }
    }
}

/// The metric of a row: `benchmark` and `metric` are two parts of its name.
fn metric(row: &Row<'_>, known: &Columns<'_>) -> String {
    let names = known.metric.iter();
    let parts: Vec<&str> = names
        .filter_map(|name| row.cells.get(name))
        .map(|text| text.trim())
        .filter(|text| !text.is_empty())
        .collect();
    if parts.is_empty() {
        plain::METRIC.into()
    } else {
        parts.join(" ")
    }
}

/// `throughput (req/s)` is a metric and its unit; of two with one name each keeps its whole text.
fn metric_columns<'t>(columns: &[&'t str]) -> Vec<MetricColumn<'t>> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for column in columns {
        *counts.entry(name_and_unit(column).0).or_default() += 1;
    }
    let named = |column: &&'t str| {
        let (metric, unit) = name_and_unit(column);
        let metric = if counts[metric] > 1 { column } else { metric };
        MetricColumn {
            column,
            metric,
            unit,
        }
    };
    columns.iter().map(named).collect()
}

fn name_and_unit(column: &str) -> (&str, &str) {
    let column = column.trim();
    match column
        .strip_suffix(')')
        .and_then(|column| column.rsplit_once('('))
    {
        Some((name, unit)) if !name.trim().is_empty() => (name.trim(), unit.trim()),
        _ => (column, ""),
    }
}

fn form<'t>(names: &[&'t str], head: usize, found: &mut FileFigures) -> Option<Form<'t>> {
    let mut seen = BTreeSet::new();
    if let Some(twice) = names.iter().find(|name| !seen.insert(name.trim())) {
        let what = format!("two columns of one name: {:?}", twice.trim());
        found.wrong(head, what, "rename one of them, or take it out");
        return None;
    }
    for column in [ARM, BLOCK, SLOT, VALUE, UNIT, BETTER] {
        let meant: Vec<&str> = names
            .iter()
            .filter(|name| is_one_of(name, column))
            .copied()
            .collect();
        if meant.len() > 1 {
            let what = format!(
                "two columns that mean the {}: {}",
                column[0],
                meant.join(", ")
            );
            found.wrong(head, what, "rename one of them, or take it out");
            return None;
        }
    }
    let (arm, block) = (find(names, ARM), find(names, BLOCK));
    if let Some(value) = find(names, VALUE) {
        if arm.is_none() {
            let what = format!("no column says which arm: {}", names.join(", "));
            found.wrong(head, what, "add a column arm");
            return None;
        }
        return Some(Form::Long { value });
    }
    let known = [ARM, BLOCK, SLOT, METRIC, UNIT, BETTER];
    let is_free = |name: &&&str| known.iter().all(|column| find(&[name], column).is_none());
    let columns: Vec<&str> = names.iter().filter(is_free).copied().collect();
    match (arm, block) {
        (Some(_), _) if !columns.is_empty() && find(names, METRIC).is_none() => {
            Some(Form::Metrics {
                columns: metric_columns(&columns),
            })
        }
        (None, Some(_)) if columns.len() >= 2 => Some(Form::Arms { columns }),
        _ => {
            let what = format!(
                "columns that could mean several things: {}",
                names.join(", ")
            );
            let remedy = "accepted: arm,block,metric,value with slot, unit and direction if known; \
                          arm,block and a column per metric; block and a column per arm";
            found.wrong(head, what, remedy);
            None
        }
    }
}

/// Names that differ only in blanks would be taken for one.
fn blanks(names: &[&str], rows: &[Row<'_>], found: &mut FileFigures) {
    for column in names.iter().filter(|name| {
        [ARM, BLOCK, METRIC]
            .iter()
            .any(|known| is_one_of(name, known))
    }) {
        let mut written = BTreeMap::<&str, &str>::new();
        for row in rows {
            let text = row.cells.get(column).copied().unwrap_or_default();
            let first = *written.entry(text.trim()).or_insert(text);
            if first != text {
                let what =
                    format!("only blanks tell apart in column {column:?}: {first:?} and {text:?}");
                found.wrong(row.line, what, "write each name in one way");
                break;
            }
        }
    }
}

/// A column that is not known here may tell apart what would be taken for repetitions of one metric:
/// a number of threads, or `ok` and `failed`. Then it is refused; else it is told that nobody reads it.
fn unread_columns(
    (names, known): (&[&str], &Columns<'_>),
    rows: &[Row<'_>],
    found: &mut FileFigures,
) {
    let read = [ARM, BLOCK, SLOT, METRIC, UNIT, BETTER, VALUE, &REPEATS];
    let is_unread = |name: &&&str| read.iter().all(|column| !is_one_of(name, column));
    let mut unread = Vec::new();
    for column in names.iter().filter(is_unread) {
        refuse_failed(column, rows, found);
        if !refuse_told_apart(known, column, rows, found) {
            unread.push(*column);
        }
    }
    if !unread.is_empty() {
        let remark = format!(
            "{}: columns that are not read: {}",
            found.file,
            unread.join(", ")
        );
        found.remarks.insert(remark);
    }
}

/// Columns that say whether a row's run failed, and what they say of one that did not. An empty cell says nothing.
const OUTCOMES: [(&[&str], &[&str]); 3] = [
    (
        &[
            "exit_code",
            "exit code",
            "exit_status",
            "exit status",
            "returncode",
            "return_code",
            "rc",
        ],
        &["0"],
    ),
    (
        &["error", "errors", "failed", "failure", "failures"],
        &["0", "false", "no", "none", "null", "-"],
    ),
    (
        &["ok", "success", "passed"],
        &["1", "true", "yes", "ok", "passed", "pass", "success"],
    ),
];

/// Words of a column `status`, `state` or `outcome` that say that a run failed.
const FAILED: [&str; 8] = [
    "failed", "fail", "failure", "error", "timeout", "crashed", "killed", "aborted",
];

/// Refuses rows that say that their run failed: its figure is that of no work done.
fn refuse_failed(column: &str, rows: &[Row<'_>], found: &mut FileFigures) {
    let outcomes = OUTCOMES.iter().find(|(names, _)| is_one_of(column, names));
    let has_failed = |row: &&Row<'_>| {
        let text = row.cells.get(column).copied().unwrap_or_default().trim();
        match outcomes {
            Some((_, fine)) => !text.is_empty() && !is_one_of(text, fine),
            None => is_one_of(column, &["status", "state", "outcome"]) && is_one_of(text, &FAILED),
        }
    };
    let failed: Vec<&Row<'_>> = rows.iter().filter(has_failed).collect();
    if let Some(first) = failed.first() {
        let text = first.cells.get(column).copied().unwrap_or_default().trim();
        let what = format!(
            "rows that say that they failed: {} of {}, the first with {column} {text:?}",
            failed.len(),
            rows.len()
        );
        found.wrong(
            first.line,
            what,
            "repair what failed, or leave those rows out",
        );
    }
}

/// Whether a column tells figures of one arm and metric apart, which is refused.
fn refuse_told_apart(
    known: &Columns<'_>,
    column: &str,
    rows: &[Row<'_>],
    found: &mut FileFigures,
) -> bool {
    let Some((line, first, text)) = told_apart(known, column, rows) else {
        return false;
    };
    let what = format!(
        "figures of one arm and metric that differ in column {column:?}: {first:?} and {text:?}"
    );
    let remedy = "write it into the metric's name, or take the column out";
    found.wrong(line, what, remedy);
    true
}

/// Two rows of one arm and metric that the column tells apart, by words or by numbers that stand
/// in rows of every arm. What was measured along, a deviation for example, is another number each time.
fn told_apart<'t>(
    known: &Columns<'_>,
    column: &str,
    rows: &[Row<'t>],
) -> Option<(usize, &'t str, &'t str)> {
    let mut by_arm = BTreeMap::<&str, BTreeSet<&str>>::new();
    let mut by_figure = BTreeMap::new();
    let mut differing = None;
    for row in rows {
        let text = row.cells.get(column).copied().unwrap_or_default().trim();
        let arm = cell(row, known.arm).unwrap_or_default();
        by_arm.entry(arm).or_default().insert(text);
        let figure = (arm, metric(row, known));
        let first: &'t str = by_figure.entry(figure).or_insert(text);
        if first != text {
            differing = differing.or(Some((row.line, first, text)));
        }
    }
    let arms: BTreeSet<&BTreeSet<&str>> = by_arm.values().collect();
    let is_word = |text: &&str| !text.is_empty() && text.parse::<f64>().is_err();
    let words = by_arm.values().flatten().copied().filter(is_word);
    let counts = words.fold(BTreeMap::<&str, usize>::new(), |mut counts, word| {
        *counts.entry(word).or_default() += 1;
        counts
    });
    let is_shared = counts.values().any(|arms| *arms > 1);
    differing.filter(|_| arms.len() == 1 || is_shared)
}

fn cell<'t>(row: &Row<'t>, column: Option<&str>) -> Option<&'t str> {
    let text = row.cells.get(column?)?.trim();
    (!text.is_empty()).then_some(text)
}

fn read_cell(
    row: &Row<'_>,
    (known, column): (&Columns<'_>, &str),
    (metric, unit): (&str, &str),
    arm: Option<&str>,
    found: &mut FileFigures,
) {
    let text = row.cells.get(column).copied().unwrap_or_default();
    let value = found.number(text, row.line, &format!(" in column {column:?}"));
    let arm = arm.or_else(|| cell(row, known.arm));
    if arm.is_none() {
        found.wrong(
            row.line,
            "no arm in this row",
            "write its name in column \"arm\"",
        );
    }
    let slot = cell(row, known.slot)
        .and_then(|text| found.number(text, row.line, " in the column of the order"));
    let direction = cell(row, known.better).and_then(|text| direction(text, row.line, found));
    if let (Some(value), Some(arm)) = (value, arm) {
        let block = cell(row, known.block).map(String::from);
        // Every row is one figure of its arm: two of one arm and block are samples of one run.
        found.add(Observation {
            arm: arm.into(),
            block,
            slot,
            direction,
            quantity: cell(row, known.quantity).map(String::from),
            ..found.observation(metric, unit, value, row.line)
        });
    }
}

fn direction(text: &str, line: usize, found: &mut FileFigures) -> Option<Direction> {
    match text.to_ascii_lowercase().as_str() {
        "higher" | "higher-is-better" | "up" => Some(Direction::Higher),
        "lower" | "lower-is-better" | "down" => Some(Direction::Lower),
        _ => {
            found.wrong(
                line,
                format!("no direction: {text:?}"),
                "write higher or lower",
            );
            None
        }
    }
}
