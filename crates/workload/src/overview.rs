//! What an author of plans is told of a workload: a line about it, what decides it, and keys to begin with.
//!
//! `bakeoff new` and `bakeoff compare` write plans from this; each workload's file has its own.

use base::input::problem::remedy_among;

use crate::KINDS;

/// A workload as its kind describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overview {
    /// What it does, in a line.
    pub summary: &'static str,
    /// The metric that decides.
    pub primary: &'static str,
    /// What its plan says in `[machine]` beyond the usual.
    pub machine: &'static [Key],
    /// What its plan says in `[[workload]]` below `kind`.
    pub keys: &'static [Key],
}

impl Overview {
    /// Whether its server is a system on the network, which it does not start.
    pub fn is_of_network(&self) -> bool {
        self.machine.iter().any(|key| key.name == "kind")
    }
}

/// A key of a plan with a value that suits a first run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Its value as TOML; on a live host the first one whose packages are there.
    pub values: &'static [&'static str],
    /// What a comment beside it says; empty where the name says all.
    pub note: &'static str,
    /// Whether a plan needs it.
    pub given: Given,
}

/// Whether a generated plan has a key, or only shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// It stands in the plan.
    Written,
    /// It stands in a comment: the value is an example, what holds without it is in the note.
    Shown,
}

impl Key {
    /// A key that stands in the plan.
    pub(crate) const fn new(
        name: &'static str,
        values: &'static [&'static str],
        note: &'static str,
    ) -> Self {
        Self {
            name,
            values,
            note,
            given: Given::Written,
        }
    }

    /// A key that is only shown.
    pub(crate) const fn shown(
        name: &'static str,
        values: &'static [&'static str],
        note: &'static str,
    ) -> Self {
        Self {
            given: Given::Shown,
            ..Self::new(name, values, note)
        }
    }
}

/// All workloads by the words that plans write.
pub fn all() -> impl Iterator<Item = (&'static str, &'static Overview)> {
    KINDS.iter().map(|kind| (kind.word, &kind.overview))
}

/// The workload of a word; or what is wrong with the word.
pub fn find(word: &str) -> Result<(&'static str, &'static Overview), String> {
    let found = all().find(|(kind, _)| *kind == word);
    found.ok_or_else(|| {
        let words: Vec<&str> = all().map(|(kind, _)| kind).collect();
        format!(
            "unknown kind of workload: {word:?} ({})",
            remedy_among(word, &words)
        )
    })
}

// What several kinds say alike.

/// Either server.
pub(crate) const SERVER: Key = Key::new("server", &["\"nginx\"", "\"apache\""], "or \"apache\"");

/// Either server, Apache where nothing speaks against it.
pub(crate) const APACHE: Key = Key::new("server", &["\"apache\"", "\"nginx\""], "or \"nginx\"");

/// How often clients ask, where that is the plan's to say.
pub(crate) const RATE: Key = Key::shown(
    "rate",
    &["500"],
    "requests per second, whether the server keeps up or not; left out, as many as it answers",
);

/// The warm-up of a guest that has nothing to fill.
pub(crate) const WARMUP: Key = Key::new("warmup", &["\"500ms\""], "load that is not counted");

/// Time enough for a slow guest to answer all that was begun.
pub(crate) const DEADLINE: Key = Key::new(
    "deadline",
    &["\"60s\""],
    "a request that takes longer has failed",
);

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::testing::read;

    fn table(word: &str, overview: &Overview, wanted: fn(&Key) -> bool, nth: usize) -> String {
        let keys = overview.keys.iter().filter(|key| wanted(key));
        let lines = keys.map(|key| {
            let value = key.values.get(nth).unwrap_or(&key.values[0]);
            format!("{} = {value}\n", key.name)
        });
        format!("kind = \"{word}\"\n{}", lines.collect::<String>())
    }

    #[test]
    fn keys_to_begin_with_are_valid_and_so_are_those_that_are_only_shown() {
        for (word, overview) in all() {
            for nth in 0..2 {
                let written = table(word, overview, |key| key.given == Given::Written, nth);
                let whole = table(word, overview, |_| true, nth);
                for text in [written, whole] {
                    let plan = read(&text);
                    assert!(plan.is_ok(), "{plan:?}\n{text}");
                }
            }
        }
    }

    #[test]
    fn the_page_about_plans_names_the_same_deciding_metric() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plan.md");
        let page = std::fs::read_to_string(path).unwrap();
        for (word, overview) in all() {
            let section = page.split("\n### ").find(|section| {
                section.starts_with(&format!("`kind = \"{word}\"`"))
                    || (section.starts_with("What each web kind adds")
                        && section.contains(&format!("| `{word}` |")))
            });
            let section = section.unwrap_or_else(|| panic!("docs/plan.md says nothing of {word}"));
            let row = section
                .lines()
                .skip_while(|line| word.starts_with("web") && !line.contains(&format!("`{word}`")))
                .collect::<Vec<_>>()
                .join("\n");
            assert!(
                row.contains(&format!("`{}`", overview.primary)),
                "{word}: {}",
                overview.primary
            );
        }
    }

    #[test]
    fn an_unknown_word_is_told_with_the_nearest_one() {
        assert_eq!(
            find("web-sttic").unwrap_err(),
            "unknown kind of workload: \"web-sttic\" (did you mean \"web-static\"?)"
        );
    }
}
