//! Rows with named columns: the common part of CSV and JSON lines.
//!
//! Long rows have one figure each, in `value`. Wide rows have an `arm` and a column per metric, or a
//! `block` and a column per arm. Anything else is ambiguous and is refused.

use std::collections::{BTreeMap, BTreeSet};

use record::metric::Direction;

use super::plain;
use crate::metric_direction::{self, Guess};
use crate::observation::{FileFigures, Observation};

/// Names of the known columns; the first is bakeoff's.
const ARM: &[&str] = &["arm", "system", "variant", "kernel", "configuration"];
const BLOCK: &[&str] = &["block", "pair", "round"];
const SLOT: &[&str] = &["slot", "order", "position"];
const METRIC: &[&str] = &["metric", "benchmark", "test"];
const VALUE: &[&str] = &["value", "result", "figure"];
const UNIT: &[&str] = &["unit", "units"];
const BETTER: &[&str] = &["direction", "better"];

/// Columns in which rows of one arm and metric may differ, because they number or date repetitions.
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

/// One row: its line and its cells.
pub(crate) struct Row<'t> {
    /// Line number, from 1.
    pub(crate) line: usize,
    /// Text by column; JSON `null` and an absent key give an empty text.
    pub(crate) cells: BTreeMap<&'t str, &'t str>,
}

/// Meaning of the columns: one figure per row, a column per metric, or a column per arm.
enum Form<'t> {
    Long { value: &'t str },
    Metrics { columns: Vec<MetricColumn<'t>> },
    Arms { columns: Vec<&'t str> },
}

/// A column that holds the figures of one metric.
struct MetricColumn<'t> {
    column: &'t str,
    metric: &'t str,
    unit: &'t str,
}

/// The known columns of a table.
struct Columns<'t> {
    arm: Option<&'t str>,
    block: Option<&'t str>,
    slot: Option<&'t str>,
    unit: Option<&'t str>,
    better: Option<&'t str>,
    /// The column `metric`, which names what is measured.
    quantity: Option<&'t str>,
    /// All columns that are part of a metric's name.
    metric: Vec<&'t str>,
}

impl<'t> Columns<'t> {
    fn from_names(names: &[&'t str]) -> Self {
        let metric = names.iter().filter(|name| is_any_of(name, METRIC));
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

/// Most columns of a table, because each is checked for each row.
const MAX_COLUMNS: usize = 1000;

/// Whether a first line names known columns.
pub(crate) fn are_columns(names: &[&str]) -> bool {
    let required = [ARM, BLOCK, VALUE];
    names.len() >= 2 && required.iter().any(|column| find(names, column).is_some())
}

fn find<'t>(names: &[&'t str], column: &[&str]) -> Option<&'t str> {
    names.iter().find(|name| is_any_of(name, column)).copied()
}

fn is_any_of(name: &str, column: &[&str]) -> bool {
    column
        .iter()
        .any(|known| name.trim().eq_ignore_ascii_case(known))
}

/// Reads the rows below a header with these names, at line `header`.
pub(crate) fn read<'t>(names: &[&'t str], rows: &[Row<'t>], header: usize, file: &mut FileFigures) {
    if names.len() > MAX_COLUMNS {
        let what = format!("more than {MAX_COLUMNS} columns: {}", names.len());
        let remedy = "write a row for each figure: arm,block,metric,value";
        file.wrong(header, what, remedy);
        return;
    }
    let Some(form) = form(names, header, file) else {
        return;
    };
    let columns = &Columns::from_names(names);
    refuse_blank_differences(names, rows, file);
    match &form {
        Form::Long { .. } => unread_columns(names, columns, rows, file),
        Form::Metrics { columns: metrics } => {
            for metric in metrics {
                let guess = metric_direction::guess(metric.metric, metric.unit);
                if guess == Guess::Unknown && !is_any_of(metric.column, &REPEATS) {
                    refuse_distinguishing(columns, metric.column, rows, file);
                }
            }
        }
        Form::Arms { .. } => {}
    }
    for row in rows {
        if file.is_full() {
            return;
        }
        match &form {
            Form::Long { value } => {
                let unit = cell(row, columns.unit).unwrap_or_default();
                let metric = metric(row, columns);
                read_cell(row, columns, value, &metric, unit, None, file);
            }
            Form::Metrics { columns: metrics } => {
                for metric in metrics {
                    let (name, unit) = (metric.metric, metric.unit);
                    read_cell(row, columns, metric.column, name, unit, None, file);
                }
            }
            Form::Arms { columns: arms } => {
                let metric = metric(row, columns);
                let unit = cell(row, columns.unit).unwrap_or_default();
                for column in arms {
                    let arm = Some(column.trim());
                    read_cell(row, columns, column, &metric, unit, arm, file);
                }
            }
        }
    }
}

/// The metric of a row; its name may consist of `benchmark` and `metric`.
fn metric(row: &Row<'_>, columns: &Columns<'_>) -> String {
    let names = columns.metric.iter();
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

/// Splits `throughput (req/s)` into metric and unit. Columns of the same metric keep their whole text.
fn metric_columns<'t>(columns: &[&'t str]) -> Vec<MetricColumn<'t>> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for column in columns {
        *counts.entry(name_and_unit(column).0).or_default() += 1;
    }
    let metric_column = |column: &&'t str| {
        let (metric, unit) = name_and_unit(column);
        let metric = if counts[metric] > 1 { column } else { metric };
        MetricColumn {
            column,
            metric,
            unit,
        }
    };
    columns.iter().map(metric_column).collect()
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

fn form<'t>(names: &[&'t str], header: usize, file: &mut FileFigures) -> Option<Form<'t>> {
    let mut seen = BTreeSet::new();
    if let Some(duplicate) = names.iter().find(|name| !seen.insert(name.trim())) {
        let what = format!("two columns of one name: {:?}", duplicate.trim());
        file.wrong(header, what, "rename one of them, or take it out");
        return None;
    }
    for column in [ARM, BLOCK, SLOT, VALUE, UNIT, BETTER] {
        let synonyms: Vec<&str> = names
            .iter()
            .filter(|name| is_any_of(name, column))
            .copied()
            .collect();
        if synonyms.len() > 1 {
            let what = format!(
                "two columns that mean the {}: {}",
                column[0],
                synonyms.join(", ")
            );
            file.wrong(header, what, "rename one of them, or take it out");
            return None;
        }
    }
    let (arm, block) = (find(names, ARM), find(names, BLOCK));
    if let Some(value) = find(names, VALUE) {
        if arm.is_none() {
            let what = format!("no column says which arm: {}", names.join(", "));
            file.wrong(header, what, "add a column arm");
            return None;
        }
        return Some(Form::Long { value });
    }
    let reserved = [ARM, BLOCK, SLOT, METRIC, UNIT, BETTER];
    let is_free = |name: &&&str| {
        reserved
            .iter()
            .all(|column| find(&[name], column).is_none())
    };
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
            file.wrong(header, what, remedy);
            None
        }
    }
}

/// Refuses names that differ only in blanks, because they would be read as one name.
fn refuse_blank_differences(names: &[&str], rows: &[Row<'_>], file: &mut FileFigures) {
    for column in names.iter().filter(|name| {
        [ARM, BLOCK, METRIC]
            .iter()
            .any(|column| is_any_of(name, column))
    }) {
        let mut written = BTreeMap::<&str, &str>::new();
        for row in rows {
            let text = row.cells.get(column).copied().unwrap_or_default();
            let first = *written.entry(text.trim()).or_insert(text);
            if first != text {
                let what =
                    format!("only blanks tell apart in column {column:?}: {first:?} and {text:?}");
                file.wrong(row.line, what, "write each name in one way");
                break;
            }
        }
    }
}

/// An unknown column may distinguish what would otherwise be read as repetitions of one metric, such as
/// the number of threads. Such a column is refused; other unknown columns are named in a remark.
fn unread_columns(names: &[&str], columns: &Columns<'_>, rows: &[Row<'_>], file: &mut FileFigures) {
    let read = [ARM, BLOCK, SLOT, METRIC, UNIT, BETTER, VALUE, &REPEATS];
    let is_unread = |name: &&&str| read.iter().all(|column| !is_any_of(name, column));
    let mut unread = Vec::new();
    for column in names.iter().filter(is_unread) {
        refuse_failed(column, rows, file);
        if !refuse_distinguishing(columns, column, rows, file) {
            unread.push(*column);
        }
    }
    if !unread.is_empty() {
        let remark = format!(
            "{}: columns that are not read: {}",
            file.file,
            unread.join(", ")
        );
        file.remarks.insert(remark);
    }
}

/// Columns that report the outcome of a row's run, and their values for success. An empty cell means nothing.
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

/// Values of a column `status`, `state` or `outcome` that report a failed run.
const FAILED: [&str; 8] = [
    "failed", "fail", "failure", "error", "timeout", "crashed", "killed", "aborted",
];

/// Refuses rows that report a failed run, because its figure measures no work.
fn refuse_failed(column: &str, rows: &[Row<'_>], file: &mut FileFigures) {
    let outcomes = OUTCOMES.iter().find(|(names, _)| is_any_of(column, names));
    let has_failed = |row: &&Row<'_>| {
        let text = row.cells.get(column).copied().unwrap_or_default().trim();
        match outcomes {
            Some((_, successful)) => !text.is_empty() && !is_any_of(text, successful),
            None => is_any_of(column, &["status", "state", "outcome"]) && is_any_of(text, &FAILED),
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
        file.wrong(
            first.line,
            what,
            "repair what failed, or leave those rows out",
        );
    }
}

/// Reports a column that distinguishes figures of one arm and metric; returns whether it does.
fn refuse_distinguishing(
    columns: &Columns<'_>,
    column: &str,
    rows: &[Row<'_>],
    file: &mut FileFigures,
) -> bool {
    let Some((line, first, text)) = distinguished_rows(columns, column, rows) else {
        return false;
    };
    let what = format!(
        "figures of one arm and metric that differ in column {column:?}: {first:?} and {text:?}"
    );
    let remedy = "write it into the metric's name, or take the column out";
    file.wrong(line, what, remedy);
    true
}

/// Two rows of one arm and metric that the column distinguishes, by words or by numbers that recur
/// in every arm. A further measured quantity, such as a deviation, has a different number each time.
fn distinguished_rows<'t>(
    columns: &Columns<'_>,
    column: &str,
    rows: &[Row<'t>],
) -> Option<(usize, &'t str, &'t str)> {
    let mut by_arm = BTreeMap::<&str, BTreeSet<&str>>::new();
    let mut by_figure = BTreeMap::new();
    let mut differing = None;
    for row in rows {
        let text = row.cells.get(column).copied().unwrap_or_default().trim();
        let arm = cell(row, columns.arm).unwrap_or_default();
        by_arm.entry(arm).or_default().insert(text);
        let figure = (arm, metric(row, columns));
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
    columns: &Columns<'_>,
    column: &str,
    metric: &str,
    unit: &str,
    arm: Option<&str>,
    file: &mut FileFigures,
) {
    let text = row.cells.get(column).copied().unwrap_or_default();
    let value = file.number(text, row.line, &format!(" in column {column:?}"));
    let arm = arm.or_else(|| cell(row, columns.arm));
    if arm.is_none() {
        file.wrong(
            row.line,
            "no arm in this row",
            "write its name in column \"arm\"",
        );
    }
    let slot = cell(row, columns.slot)
        .and_then(|text| file.number(text, row.line, " in the column of the order"));
    let direction = cell(row, columns.better).and_then(|text| direction(text, row.line, file));
    if let (Some(value), Some(arm)) = (value, arm) {
        let block = cell(row, columns.block).map(String::from);
        // Several rows of one arm and block are samples of one run.
        file.add(Observation {
            arm: arm.into(),
            block,
            slot,
            direction,
            quantity: cell(row, columns.quantity).map(String::from),
            ..file.observation(metric, unit, value, row.line)
        });
    }
}

fn direction(text: &str, line: usize, file: &mut FileFigures) -> Option<Direction> {
    match text.to_ascii_lowercase().as_str() {
        "higher" | "higher-is-better" | "up" => Some(Direction::Higher),
        "lower" | "lower-is-better" | "down" => Some(Direction::Lower),
        _ => {
            file.wrong(
                line,
                format!("no direction: {text:?}"),
                "write higher or lower",
            );
            None
        }
    }
}
