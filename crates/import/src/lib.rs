//! Figures that others measured: files of many tools in, one series per metric and arm out.
//!
//! ```text
//! source    what was typed -> files, each with the arm that it is of
//! detect    whose format a file has
//! table, json_rows, hyperfine, ...   one reader per format: text -> observations with their lines
//! observation   what one file said, and what is wrong with it
//! copies    one run that is given as several
//! compare   observations of all files -> which arm against which, on which metric
//! layout    paired in random order, paired, unpaired, or one run only
//! metric_direction   which way is better
//! ```
//! A reader never judges and never guesses: what it cannot read is a problem with its line, and all
//! problems of all files are told at once. A single one ends the judging. What the tool itself calls
//! failed or skipped is left out with its reason, and a share of failures is a metric. What a file tells
//! apart is never pooled.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use base::input::problem::{Problem, Problems};

pub mod compare;
mod copies;
mod criterion;
mod detect;
mod go_bench;
mod google_benchmark;
mod hyperfine;
mod json;
mod json_rows;
mod k6;
pub mod layout;
mod metric_direction;
mod observation;
mod oha;
mod phoronix;
mod plain;
mod rows;
mod source;
mod table;
#[cfg(test)]
mod tests;

use compare::{Comparison, ImportOptions};
use observation::{FEWER, FileFigures, MOST_FIGURES};

/// Files listed one by one.
const LISTED: usize = 6;

/// Problems told at once; the rest are counted.
const TOLD: usize = 20;

/// All figures of the files, asked for the way the user asks.
#[derive(Debug)]
pub struct Figures {
    /// One line per file: its name, whose format it has, how many figures it holds.
    pub files: Vec<String>,
    /// What a reader must know: what was left out, what was taken together.
    pub remarks: Vec<String>,
    /// The arm that the others are compared with.
    pub baseline: String,
    /// How the baseline was chosen; empty where the user named it.
    pub baseline_why: String,
    /// One arm against the baseline on one metric.
    pub comparisons: Vec<Comparison>,
    /// Arms of which more work failed than of the baseline, where too little is known to judge that.
    pub failing: BTreeSet<String>,
}

/// A run directory of ours that was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnRun {
    /// What the user calls it; its directory's name where he does not.
    pub name: String,
    /// The directory.
    pub dir: PathBuf,
}

/// Those of the paths that are run directories of ours, `NAME=DIR` or plain.
pub fn own_runs(paths: &[String]) -> Vec<OwnRun> {
    let own = |typed: &String| {
        let (name, dir) = source::split(typed);
        record::rundir::is_run(&dir).then(|| OwnRun {
            name: name.map_or_else(|| source::name(&dir), String::from),
            dir,
        })
    };
    paths.iter().filter_map(own).collect()
}

/// The first path that is nowhere.
pub fn missing(paths: &[String]) -> Option<&str> {
    let is_missing = |typed: &&String| !source::split(typed).1.exists();
    paths.iter().find(is_missing).map(String::as_str)
}

/// Reads all files.
///
/// # Errors
/// Everything that is wrong with the files, by file and line.
pub fn read(paths: &[String], options: &ImportOptions) -> Result<Figures, Problems> {
    let mut problems = Vec::new();
    let sources = source::find(paths, &mut problems);
    let mut files: Vec<FileFigures> = Vec::new();
    let mut figures = 0;
    for source in &sources {
        let mut found = detect::read(source);
        figures += found.observations.len();
        if figures > MOST_FIGURES && !found.is_full() {
            let what = format!("more than {MOST_FIGURES} figures in all files so far");
            found.wrong(0, what, FEWER);
        }
        let is_enough = figures > MOST_FIGURES || found.is_full();
        files.push(found);
        if is_enough {
            break;
        }
    }
    source::name_arms(&sources, &mut files);
    source::shorten_arms(&mut files);
    go_bench::name_metrics(&mut files);
    copies::refuse(&mut files);
    for found in &mut files {
        problems.append(&mut found.problems);
    }
    if !problems.is_empty() {
        return Err(told(problems));
    }
    let summaries = summaries(&files);
    let compared = compare::compare(files, options).map_err(told)?;
    Ok(Figures {
        files: summaries,
        ..compared
    })
}

/// One line per file, or per arm and format where there are many files.
fn summaries(files: &[FileFigures]) -> Vec<String> {
    if files.len() <= LISTED {
        return files
            .iter()
            .map(|found| format!("{}: {}", found.file, found.summary()))
            .collect();
    }
    let mut alike = BTreeMap::<String, (usize, &str)>::new();
    for found in files {
        alike.entry(found.summary()).or_insert((0, &found.file)).0 += 1;
    }
    let line = |(summary, (count, first)): (String, (usize, &str))| match count {
        1 => format!("{first}: {summary}"),
        count => format!("{count} files like {first}: each {summary}"),
    };
    alike.into_iter().map(line).collect()
}

/// The first problems by file and line, and how many more there are.
fn told(mut problems: Vec<Problem>) -> Problems {
    let mut files: Vec<String> = Vec::new();
    for problem in &problems {
        if !files.contains(&problem.file) {
            files.push(problem.file.clone());
        }
    }
    let place = |problem: &Problem| files.iter().position(|file| *file == problem.file);
    problems.sort_by_key(|problem| (place(problem), problem.line));
    if problems.len() > TOLD {
        let more = problems.len() - TOLD;
        problems.truncate(TOLD);
        let file = problems[TOLD - 1].file.clone();
        let what = format!("more problems after this one, in all files: {more}");
        problems.push(Problem {
            file,
            line: 0,
            what,
            remedy: String::new(),
        });
    }
    Problems(problems)
}
