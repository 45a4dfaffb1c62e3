//! Rows with named columns, however they are written: what CSV and JSON lines have in common.
//!
//! Long rows have one figure each, in `value`. Wide rows have an `arm` and a column per metric, or a
//! `block` and a column per arm. Anything else could be read in two ways, and is refused.

use std::collections::{BTreeMap, BTreeSet};

use record::metric::Direction;

use super::plain;
use crate::observation::{FileFigures, Observation};

/// Names of the columns that mean something, the first being ours.
const ARM: &[&str] = &["arm", "system", "variant", "kernel", "configuration"];
const BLOCK: &[&str] = &["block", "pair", "round"];
const SLOT: &[&str] = &["slot", "order", "position"];
const METRIC: &[&str] = &["metric", "benchmark", "test"];
const VALUE: &[&str] = &["value", "result", "figure"];
const UNIT: &[&str] = &["unit", "units"];
const BETTER: &[&str] = &["direction", "better"];

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
    Metrics { columns: Vec<&'t str> },
    Arms { columns: Vec<&'t str> },
}

/// Whether a first line names columns that are known here.
pub(crate) fn are_columns(names: &[&str]) -> bool {
    let known = [ARM, BLOCK, VALUE];
    names.len() >= 2 && known.iter().any(|column| find(names, column).is_some())
}

fn find<'t>(names: &[&'t str], column: &[&str]) -> Option<&'t str> {
    let meant = |name: &&&str| {
        column
            .iter()
            .any(|one| name.trim().eq_ignore_ascii_case(one))
    };
    names.iter().find(meant).copied()
}

/// Reads the rows under the columns' names.
pub(crate) fn read<'t>(names: &[&'t str], rows: &[Row<'t>], head: usize, found: &mut FileFigures) {
    let Some(form) = form(names, head, found) else {
        return;
    };
    for row in rows {
        match &form {
            Form::Long { value } => {
                let unit = cell(row, names, UNIT).unwrap_or_default().to_string();
                let name = cell(row, names, METRIC)
                    .unwrap_or(plain::METRIC)
                    .to_string();
                read_cell(row, (names, value), (&name, &unit), None, found);
            }
            Form::Metrics { columns } => {
                for column in columns {
                    let (name, unit) = name_and_unit(column);
                    read_cell(row, (names, column), (name, unit), None, found);
                }
            }
            Form::Arms { columns } => {
                let name = cell(row, names, METRIC)
                    .unwrap_or(plain::METRIC)
                    .to_string();
                let unit = cell(row, names, UNIT).unwrap_or_default().to_string();
                for column in columns {
                    read_cell(
                        row,
                        (names, column),
                        (&name, &unit),
                        Some(column.trim()),
                        found,
                    );
                }
            }
        }
    }
}

/// `throughput (req/s)` is a metric and its unit.
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
            Some(Form::Metrics { columns })
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

fn cell<'t>(row: &Row<'t>, names: &[&str], column: &[&str]) -> Option<&'t str> {
    let name = find(names, column)?;
    let text = row.cells.get(name)?.trim();
    (!text.is_empty()).then_some(text)
}

fn read_cell(
    row: &Row<'_>,
    (names, column): (&[&str], &str),
    (metric, unit): (&str, &str),
    arm: Option<&str>,
    found: &mut FileFigures,
) {
    let text = row.cells.get(column).copied().unwrap_or_default();
    let value = found.number(text, row.line, &format!(" in column {column:?}"));
    let arm = arm.or_else(|| cell(row, names, ARM));
    if arm.is_none() {
        found.wrong(
            row.line,
            "no arm in this row",
            "write its name in column \"arm\"",
        );
    }
    let slot = cell(row, names, SLOT)
        .and_then(|text| found.number(text, row.line, " in the column of the order"));
    let direction = cell(row, names, BETTER).and_then(|text| direction(text, row.line, found));
    if let (Some(value), Some(arm)) = (value, arm) {
        let block = cell(row, names, BLOCK).map(String::from);
        // Every row is one figure of its arm: two of one arm and block are samples of one run.
        found.observations.push(Observation {
            arm: arm.into(),
            block,
            slot,
            direction,
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
