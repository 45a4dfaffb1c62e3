//! Samples in the docs are what the program prints.
//!
//! A marker such as `<!-- sample: judge hf.json -->` precedes a code block. The block must hold what `bakeoff judge hf.json`
//! prints in the directory `docs/samples`. Lines that begin with `$` are ignored; `...` stands for any lines.
//! `UPDATE_EXPECT=1 cargo test --workspace docs_samples` rewrites blocks without `...`.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::program::{all_output, command};

const MARK: &str = "<!-- sample: ";

/// Fewer samples mean that markers were lost.
const MIN_SAMPLES: usize = 6;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A marked block: the arguments of its command, and the range of its lines in the page.
struct Sample {
    arguments: Vec<String>,
    lines: Range<usize>,
}

fn samples(page: &[&str]) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (number, line) in page.iter().enumerate() {
        let Some(marked) = line.strip_prefix(MARK) else {
            continue;
        };
        let command = marked.strip_suffix(" -->").expect("a marker ends its line");
        let from = number + 2;
        assert!(page[number + 1].starts_with("```"), "no block after {line}");
        let length = page[from..].iter().position(|line| *line == "```");
        samples.push(Sample {
            arguments: command.split(' ').map(String::from).collect(),
            lines: from..from + length.expect("a block has an end"),
        });
    }
    samples
}

/// The lines that the command prints: standard output, then standard error. What `check` leaves unchecked depends on the cache of the
/// host, so those lines are dropped.
fn print(arguments: &[String]) -> Vec<String> {
    let mut command = command(&root().join("docs/samples"), &[]);
    let output = command.args(arguments).stdin(Stdio::null()).output();
    let text = all_output(&output.unwrap());
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("  unchecked "));
    lines.map(String::from).collect()
}

/// Whether the block is the output; `...` in the block stands for any lines.
fn matches_output(block: &[&str], printed: &[String]) -> bool {
    let parts: Vec<&[&str]> = block.split(|line| *line == "...").collect();
    let mut at = 0;
    for (number, part) in parts.iter().enumerate() {
        let start = (at..=printed.len()).find(|from| {
            let rest = &printed[*from..];
            rest.len() >= part.len() && part.iter().zip(rest).all(|(want, have)| want == have)
        });
        match start {
            Some(from) if number > 0 || from == 0 => at = from + part.len(),
            _ => return false,
        }
    }
    parts.last().is_some_and(|last| last.is_empty()) || at == printed.len()
}

fn check(path: &Path) -> usize {
    let text = fs::read_to_string(path).unwrap();
    let mut page: Vec<&str> = text.lines().collect();
    let mut updated = Vec::new();
    let samples = samples(&page);
    for sample in &samples {
        let block: Vec<&str> = page[sample.lines.clone()]
            .iter()
            .copied()
            .filter(|line| !line.starts_with("$ "))
            .collect();
        let printed = print(&sample.arguments);
        if matches_output(&block, &printed) {
            continue;
        }
        assert!(
            std::env::var_os("UPDATE_EXPECT").is_some() && !block.contains(&"..."),
            "{}:{}: not what bakeoff {} prints:\n{}",
            path.display(),
            sample.lines.start,
            sample.arguments.join(" "),
            printed.join("\n")
        );
        updated.push((sample.lines.clone(), printed));
    }
    for (lines, printed) in updated.iter().rev() {
        let typed = page[lines.clone()]
            .iter()
            .filter(|line| line.starts_with("$ "));
        let block: Vec<&str> = typed
            .copied()
            .chain(printed.iter().map(String::as_str))
            .collect();
        page.splice(lines.clone(), block);
    }
    if !updated.is_empty() {
        fs::write(path, page.join("\n") + "\n").unwrap();
    }
    samples.len()
}

#[test]
fn marked_samples_are_what_the_program_prints() {
    let mut count = check(&root().join("README.md"));
    let pages = root().join("docs/**/*.md");
    for page in glob::glob(pages.to_str().unwrap()).unwrap() {
        count += check(&page.unwrap());
    }
    assert!(count >= MIN_SAMPLES, "markers were lost: {count} left");
}

#[test]
fn an_ellipsis_matches_any_lines_and_others_match_exactly() {
    let printed = ["a", "b", "c", "d"].map(String::from);
    for (block, want) in [
        (&["a", "b", "c", "d"][..], true),
        (&["a", "...", "d"], true),
        (&["...", "c", "d"], true),
        (&["a", "..."], true),
        (&["a", "b"], false),
        (&["b", "..."], false),
        (&["a", "...", "b", "d"], false),
        (&["a", "x", "c", "d"], false),
    ] {
        assert_eq!(matches_output(block, &printed), want, "{block:?}");
    }
}
