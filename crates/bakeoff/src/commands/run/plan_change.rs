//! Refuses a plan that changed since its run began, and describes the changes.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use base::input::tree::Tree;
use toml::{Table, Value};

/// Longer values are cut to this length in messages.
const MAX_CHARACTERS: usize = 60;

/// A key whose value changed.
#[derive(Debug, PartialEq)]
struct Change {
    /// `design.seed`, `arm."6.1".cmdline`.
    key: String,
    before: Option<Value>,
    after: Option<Value>,
}

/// Refuses a plan that differs from the one with which the run in the directory began.
pub(super) fn refuse_another_plan(dir: &Path, text: &str) -> Result<()> {
    let path = dir.join("plan.toml");
    let before = plan::read_text_in(&Tree::at(dir), "plan.toml")
        .with_context(|| format!("cannot read {}", path.display()))?;
    if before == text {
        return Ok(());
    }
    let changes = changes(&before, text);
    bail!(
        "the plan changed since this run began: {} ({}, or begin a new run with --out DIR; the run is in {})",
        describe_all(&changes, &before, text),
        remedy(&changes),
        dir.display()
    )
}

/// How to resume the run nevertheless.
fn remedy(changes: &[Change]) -> &'static str {
    let is_changed = |key: &str| changes.iter().any(|change| change.key == key);
    if is_changed("why") {
        "give or leave out --why as when it began"
    } else if is_changed("design.max_blocks") {
        "put it back, and use --more-blocks once it has ended undecided"
    } else if is_changed("design.error_rate") {
        "put it back, and give or leave out --family-wise as when it began"
    } else {
        "put it back"
    }
}

/// Describes the changed keys, or if there are none, the first changed line.
fn describe_all(changes: &[Change], before: &str, after: &str) -> String {
    let Some((first, others)) = changes.split_first() else {
        let mut lines = before.lines().zip(after.lines());
        let line = lines.position(|(old, new)| old != new);
        let line = line.unwrap_or(before.lines().count().min(after.lines().count()));
        return format!(
            "no key has another value, but a comment, a blank or the order of keys has, line {}",
            line + 1
        );
    };
    let mut words = describe(first);
    match others {
        [] => {}
        [second] => {
            let _ = write!(words, "; {}", describe(second));
        }
        others => {
            let keys: Vec<&str> = others.iter().map(|change| change.key.as_str()).collect();
            let _ = write!(words, "; and so did {}", shorten(&keys.join(", ")));
        }
    }
    words
}

fn describe(change: &Change) -> String {
    let Change { key, before, after } = change;
    match (before, after) {
        (Some(_), None) if key == "why" => "it began with --why, which is not given now".into(),
        (None, Some(_)) if key == "why" => "it began without --why, which is given now".into(),
        (Some(before), Some(after)) => {
            format!("{key} was {}, is {}", show(before), show(after))
        }
        (Some(before), None) => format!("{key} was {}, and is not in the plan now", show(before)),
        (None, Some(after)) => format!("{key} was not in the plan, and is {} now", show(after)),
        (None, None) => format!("{key} changed"),
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::Table(table) if table.is_empty() => "an empty table".into(),
        Value::Table(table) => {
            let keys: Vec<&str> = table.keys().map(String::as_str).collect();
            shorten(&format!("a table with {}", keys.join(", ")))
        }
        value => shorten(&value.to_string()),
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into(),
    }
}

/// The keys of two plans whose values differ; none if either text is not valid TOML.
fn changes(before: &str, after: &str) -> Vec<Change> {
    let mut changes = Vec::new();
    if let (Ok(before), Ok(after)) = (before.parse::<Table>(), after.parse::<Table>()) {
        compare_tables("", &before, &after, &mut changes);
    }
    changes
}

fn compare_tables(parent: &str, before: &Table, after: &Table, changes: &mut Vec<Change>) {
    let new = after.keys().filter(|key| !before.contains_key(*key));
    for key in before.keys().chain(new) {
        let path = match parent {
            "" => quote_key(key),
            parent => format!("{parent}.{}", quote_key(key)),
        };
        compare_values(path, before.get(key), after.get(key), changes);
    }
}

fn compare_values(
    key: String,
    before: Option<&Value>,
    after: Option<&Value>,
    changes: &mut Vec<Change>,
) {
    match (before, after) {
        (Some(Value::Table(before)), Some(Value::Table(after))) => {
            compare_tables(&key, before, after, changes);
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) if are_tables(before, after) => {
            for index in 0..before.len().max(after.len()) {
                let key = format!("{key}[{}]", index + 1);
                compare_values(key, before.get(index), after.get(index), changes);
            }
        }
        (before, after) if before == after => {}
        (before, after) => changes.push(Change {
            key,
            before: before.cloned(),
            after: after.cloned(),
        }),
    }
}

/// Whether two arrays consist of tables, such as `[[workload]]`, which are compared one by one.
fn are_tables(before: &[Value], after: &[Value]) -> bool {
    before.iter().chain(after).all(Value::is_table)
}

/// A key as it is written in a TOML path: quoted if necessary.
fn quote_key(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if !key.is_empty() && key.chars().all(is_bare) {
        key.into()
    } else {
        format!("{key:?}")
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(before: &str, after: &str, want: &Expect) {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("plan.toml"), before).unwrap();
        let why = refuse_another_plan(temp.path(), after).unwrap_err();
        let why = why.to_string();
        let (message, _) = why.split_once(", or begin").unwrap();
        want.assert_eq(message);
    }

    #[test]
    fn a_changed_plan_is_refused_with_the_key_and_a_remedy() {
        check(
            "seed = 1\n",
            "seed = 2\n",
            &expect!["the plan changed since this run began: seed was 1, is 2 (put it back"],
        );
        check(
            "[design]\nmax_blocks = 8\n",
            "[design]\nmax_blocks = 9\n",
            &expect![
                "the plan changed since this run began: design.max_blocks was 8, is 9 (put it back, and use --more-blocks once it has ended undecided"
            ],
        );
        check(
            "[design]\nerror_rate = 0.1\n",
            "[design]\nerror_rate = 0.05\n",
            &expect![
                "the plan changed since this run began: design.error_rate was 0.1, is 0.05 (put it back, and give or leave out --family-wise as when it began"
            ],
        );
        check(
            "[arm.\"6.1\"]\ncmdline = \"quiet\"\n[arm.x]\n",
            "[arm.\"6.1\"]\n[arm.y]\n",
            &expect![[
                r#"the plan changed since this run began: arm."6.1".cmdline was "quiet", and is not in the plan now; and so did arm.x, arm.y (put it back"#
            ]],
        );
        check(
            "[[workload]]\nkind = \"a\"\n",
            "[[workload]]\nkind = \"a\"\n[[workload]]\nkind = \"b\"\n",
            &expect![
                "the plan changed since this run began: workload[2] was not in the plan, and is a table with kind now (put it back"
            ],
        );
    }

    #[test]
    fn a_changed_why_is_described_in_words() {
        check(
            "seed = 1\n\n[why]\n",
            "seed = 1\n",
            &expect![
                "the plan changed since this run began: it began with --why, which is not given now (give or leave out --why as when it began"
            ],
        );
        check(
            "seed = 1\n",
            "seed = 1\n\n[why]\n",
            &expect![
                "the plan changed since this run began: it began without --why, which is given now (give or leave out --why as when it began"
            ],
        );
    }

    #[test]
    fn a_changed_comment_is_reported_with_its_line() {
        check(
            "# a\nseed = 1\n",
            "# b\nseed = 1\n",
            &expect![
                "the plan changed since this run began: no key has another value, but a comment, a blank or the order of keys has, line 1 (put it back"
            ],
        );
    }
}
