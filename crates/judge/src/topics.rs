//! What can be said of a run, a folder for each topic.
//!
//! `find` turns the run into data and holds no prose. `tell` turns these data into sentences and tables. `document`, where a
//! topic has one, puts them into pages and text.

pub mod agreement;
pub mod apart;
pub mod bisect;
pub mod confirm;
pub(crate) mod defects;
pub(crate) mod differences;
pub(crate) mod disclosure;
pub(crate) mod disturbances;
pub mod fairness;
pub(crate) mod findings;
pub(crate) mod glance;
pub(crate) mod headline;
pub(crate) mod host;
pub(crate) mod interim;
pub(crate) mod limits;
pub mod live;
pub(crate) mod loads;
pub(crate) mod mail;
pub(crate) mod metrics;
pub mod models;
pub mod night;
pub mod nodes;
pub(crate) mod overview;
pub(crate) mod prices;
pub mod robustness;
pub(crate) mod run_state;
pub(crate) mod scaling;
pub mod soak;
pub mod why;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    /// Files with sentences: `tell` and `document` of each topic, and data that have a description each.
    fn may_have_sentences(path: &str) -> bool {
        let parts: Vec<&str> = path.split(['/', '.']).collect();
        let words = ["tell", "document", "tests", "checks"];
        let described = ["fairness.rs", "differences/find/nature.rs"];
        words.iter().any(|word| parts.contains(word)) || described.contains(&path)
    }

    fn files_below(dir: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files_below(&path, files);
            } else if path.extension().is_some_and(|end| end == "rs") {
                files.push(path);
            }
        }
    }

    /// The text literals of a line that have at least five words; names with underscores or capitals are no words.
    fn sentences(line: &str) -> impl Iterator<Item = &str> {
        let literals = line.split('"').skip(1).step_by(2);
        literals.filter(|text| {
            let words = text.split(' ');
            let is_letter = |letter: char| letter.is_ascii_lowercase() || ",.:;'-".contains(letter);
            let is_word = |word: &&str| word.len() > 1 && word.chars().skip(1).all(is_letter);
            words.filter(is_word).count() >= 5
        })
    }

    #[test]
    fn sentences_are_in_tell_and_document() {
        let topics = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/topics");
        let mut files = Vec::new();
        files_below(&topics, &mut files);
        let mut told = 0;
        for file in files {
            let path = file.strip_prefix(&topics).unwrap().to_str().unwrap();
            let source = fs::read_to_string(&file).unwrap();
            let code = source.split("#[cfg(test)]\nmod tests").next().unwrap();
            for (number, line) in code.lines().enumerate() {
                let is_for_programmers = ["//", ".expect(", "panic!(", "assert", "reason = "]
                    .iter()
                    .any(|mark| line.contains(mark));
                let count = sentences(line).count();
                if may_have_sentences(path) {
                    told += count;
                } else if !is_for_programmers {
                    assert_eq!(
                        count,
                        0,
                        "{path}:{}: move it to tell.rs: {line}",
                        number + 1
                    );
                }
            }
        }
        assert!(told > 200, "{told} sentences in tell.rs and document.rs");
    }
}
