//! Descriptions of workloads, from which `bakeoff new` and `bakeoff compare` write plans. Each
//! workload's file has its own.

use base::input::problem::remedy_among;

use crate::KINDS;

/// Description of a kind of workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overview {
    /// One-line summary.
    pub summary: &'static str,
    /// The primary metric.
    pub primary: &'static str,
    /// Further keys of `[machine]`.
    pub machine: &'static [Key],
    /// Keys of `[[workload]]` after `kind`.
    pub keys: &'static [Key],
}

impl Overview {
    /// Whether its server is a remote system, which is not started.
    pub fn is_of_network(&self) -> bool {
        self.machine.iter().any(|key| key.name == "kind")
    }
}

/// A key of a plan, with a value for a first run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Name.
    pub name: &'static str,
    /// TOML values; on a live host the first one with installed packages is used.
    pub values: &'static [&'static str],
    /// Comment; may be empty.
    pub note: &'static str,
    /// Whether a generated plan has the key.
    pub given: Given,
}

/// Whether a generated plan has a key, or only a comment about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// Written as a key.
    Written,
    /// Written as a comment with an example value. The note describes the default.
    Shown,
}

impl Key {
    /// A key that is written.
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

    /// A key that is only shown in a comment.
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

/// All workloads, with their names in plans.
pub fn all() -> impl Iterator<Item = (&'static str, &'static Overview)> {
    KINDS.iter().map(|kind| (kind.word, &kind.overview))
}

/// The workload with this name.
///
/// # Errors
/// The name is unknown; the message proposes similar names.
pub fn find(word: &str) -> Result<(&'static str, &'static Overview), String> {
    let kind = all().find(|(kind, _)| *kind == word);
    kind.ok_or_else(|| {
        let words: Vec<&str> = all().map(|(kind, _)| kind).collect();
        format!(
            "unknown kind of workload: {word:?} ({})",
            remedy_among(word, &words)
        )
    })
}

// Keys that several kinds share.

/// Either server.
pub(crate) const SERVER: Key = Key::new("server", &["\"nginx\"", "\"apache\""], "or \"apache\"");

/// Either server, preferably Apache.
pub(crate) const APACHE: Key = Key::new("server", &["\"apache\"", "\"nginx\""], "or \"nginx\"");

/// The rate of an open loop.
pub(crate) const RATE: Key = Key::shown(
    "rate",
    &["500"],
    "requests per second, whether the server keeps up or not; left out, as many as it answers",
);

/// A short warm-up.
pub(crate) const WARMUP: Key = Key::new("warmup", &["\"500ms\""], "load that is not counted");

/// A deadline for slow guests.
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
    fn written_and_shown_keys_are_valid() {
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
    fn the_documentation_names_the_same_primary_metric() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/plan.md");
        let page = std::fs::read_to_string(path).unwrap();
        for (word, overview) in all() {
            let section = page.split("\n### ").find(|section| {
                section.starts_with(&format!("`kind = \"{word}\"`"))
                    || (section.starts_with("What each web kind adds")
                        && section.contains(&format!("| `{word}` |")))
            });
            let section =
                section.unwrap_or_else(|| panic!("docs/reference/plan.md says nothing of {word}"));
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
    fn an_unknown_name_is_reported_with_the_nearest_one() {
        assert_eq!(
            find("web-sttic").unwrap_err(),
            "unknown kind of workload: \"web-sttic\" (did you mean \"web-static\"?)"
        );
    }
}
