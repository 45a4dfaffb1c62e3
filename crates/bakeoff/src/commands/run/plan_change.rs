//! A run directory belongs to one plan: what changed in it since the run began.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use base::input::tree::Tree;
use toml::{Table, Value};

/// Characters of a value that are shown.
const SHOWN: usize = 60;

/// A key whose value is not what it was.
#[derive(Debug, PartialEq)]
struct Change {
    /// `design.seed`, `arm."6.1".cmdline`.
    key: String,
    before: Option<Value>,
    now: Option<Value>,
}

/// Refuses a plan that is not the one that the run in the directory began with.
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
        in_words(&changes, (&before, text)),
        remedy(&changes),
        dir.display()
    )
}

/// What is to be done about it, beside a new run.
fn remedy(changes: &[Change]) -> &'static str {
    let is_changed = |key: &str| changes.iter().any(|one| one.key == key);
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

/// Each key that changed, before and now; where none did, the first line that did.
fn in_words(changes: &[Change], (before, now): (&str, &str)) -> String {
    let Some((first, others)) = changes.split_first() else {
        let mut lines = before.lines().zip(now.lines());
        let line = lines.position(|(old, new)| old != new);
        let line = line.unwrap_or(before.lines().count().min(now.lines().count()));
        return format!(
            "no key has another value, but a comment, a blank or the order of keys has, line {}",
            line + 1
        );
    };
    let mut words = of_change(first);
    match others {
        [] => {}
        [second] => {
            let _ = write!(words, "; {}", of_change(second));
        }
        others => {
            let keys: Vec<&str> = others.iter().map(|one| one.key.as_str()).collect();
            let _ = write!(words, "; and so did {}", shortened(&keys.join(", ")));
        }
    }
    words
}

fn of_change(change: &Change) -> String {
    let Change { key, before, now } = change;
    match (before, now) {
        (Some(_), None) if key == "why" => "it began with --why, which is not given now".into(),
        (None, Some(_)) if key == "why" => "it began without --why, which is given now".into(),
        (Some(before), Some(now)) => {
            format!("{key} was {}, is {}", shown(before), shown(now))
        }
        (Some(before), None) => format!("{key} was {}, and is not in the plan now", shown(before)),
        (None, Some(now)) => format!("{key} was not in the plan, and is {} now", shown(now)),
        (None, None) => format!("{key} changed"),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Table(table) if table.is_empty() => "an empty table".into(),
        Value::Table(table) => {
            let keys: Vec<&str> = table.keys().map(String::as_str).collect();
            shortened(&format!("a table with {}", keys.join(", ")))
        }
        value => shortened(&value.to_string()),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into(),
    }
}

/// Keys of two plans that have other values; none where a text is no TOML.
fn changes(before: &str, now: &str) -> Vec<Change> {
    let mut changes = Vec::new();
    if let (Ok(before), Ok(now)) = (before.parse::<Table>(), now.parse::<Table>()) {
        compare_tables("", (&before, &now), &mut changes);
    }
    changes
}

fn compare_tables(place: &str, (before, now): (&Table, &Table), changes: &mut Vec<Change>) {
    let new = now.keys().filter(|key| !before.contains_key(*key));
    for key in before.keys().chain(new) {
        let place = match place {
            "" => key_word(key),
            place => format!("{place}.{}", key_word(key)),
        };
        compare_values(place, (before.get(key), now.get(key)), changes);
    }
}

fn compare_values(
    key: String,
    (before, now): (Option<&Value>, Option<&Value>),
    changes: &mut Vec<Change>,
) {
    match (before, now) {
        (Some(Value::Table(before)), Some(Value::Table(now))) => {
            compare_tables(&key, (before, now), changes);
        }
        (Some(Value::Array(before)), Some(Value::Array(now))) if is_of_tables(before, now) => {
            for place in 0..before.len().max(now.len()) {
                let key = format!("{key}[{}]", place + 1);
                compare_values(key, (before.get(place), now.get(place)), changes);
            }
        }
        (before, now) if before == now => {}
        (before, now) => changes.push(Change {
            key,
            before: before.cloned(),
            now: now.cloned(),
        }),
    }
}

/// `[[workload]]`, of which each is compared with the one in its place.
fn is_of_tables(before: &[Value], now: &[Value]) -> bool {
    before.iter().chain(now).all(Value::is_table)
}

/// A key as TOML has it in a path.
fn key_word(key: &str) -> String {
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

    fn check(before: &str, now: &str, want: &Expect) {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("plan.toml"), before).unwrap();
        let why = refuse_another_plan(temp.path(), now).unwrap_err();
        let why = why.to_string();
        let (told, _) = why.split_once(", or begin").unwrap();
        want.assert_eq(told);
    }

    #[test]
    fn another_plan_is_refused_with_the_key_and_what_to_do() {
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
    fn a_run_that_began_with_why_is_told_so_in_words() {
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
    fn a_comment_that_changed_is_told_with_its_line() {
        check(
            "# a\nseed = 1\n",
            "# b\nseed = 1\n",
            &expect![
                "the plan changed since this run began: no key has another value, but a comment, a blank or the order of keys has, line 1 (put it back"
            ],
        );
    }
}
