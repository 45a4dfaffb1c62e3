//! Samples in the docs are what the program prints.
//!
//! `<!-- sample: judge hf.json -->` stands before a block of code: the block holds what `bakeoff judge hf.json` prints in the folder
//! `docs/samples`. Lines that begin with `$` are not looked at; `...` stands for any lines. `UPDATE_EXPECT=1 cargo test --workspace
//! docs_samples` writes blocks without `...` anew.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MARK: &str = "<!-- sample: ";

/// Fewer samples than this are none that anybody would trust.
const FEWEST: usize = 6;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A marked block: the arguments of its command, and where its lines stand in the page.
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

/// What the command prints, to either stream.
fn print(arguments: &[String]) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_bakeoff"))
        .args(arguments)
        .current_dir(root().join("docs/samples"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    text.lines().map(String::from).collect()
}

/// Whether these lines are in the output, in their order; `...` leaves lines out.
fn agrees(block: &[&str], printed: &[String]) -> bool {
    let parts: Vec<&[&str]> = block.split(|line| *line == "...").collect();
    let mut at = 0;
    for (number, part) in parts.iter().enumerate() {
        let found = (at..=printed.len()).find(|from| {
            let rest = &printed[*from..];
            rest.len() >= part.len() && part.iter().zip(rest).all(|(want, have)| want == have)
        });
        match found {
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
        if agrees(&block, &printed) {
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
fn marked_samples_are_what_is_printed() {
    let docs = root().join("docs").read_dir().unwrap();
    let pages = docs.map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    let count: usize = pages
        .chain([root().join("README.md")])
        .map(|page| check(&page))
        .sum();
    assert!(count >= FEWEST, "markers were lost: {count} left");
}

#[test]
fn lines_left_out_are_any_and_others_are_exact() {
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
        assert_eq!(agrees(block, &printed), want, "{block:?}");
    }
}
