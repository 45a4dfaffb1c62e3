//! Reads measurements that other tools made, into one series per metric and arm.
//!
//! ```text
//! source    typed paths -> files, each with its arm
//! detect    the format of a file
//! table, json_rows, hyperfine, ...   one reader per format: text -> observations with their lines
//! observation   the observations and problems of one file
//! copies    refuses one run that is given as several
//! compare   observations of all files -> each arm against the baseline, per metric
//! layout    paired in random order, paired, unpaired, or one run only
//! metric_direction   which direction is better
//! ```
//! A reader never judges and never guesses. What it cannot read is a problem with its line, all problems
//! of all files are reported at once, and a single problem ends the import. Work that the tool itself
//! reports as failed or skipped is left out with its reason; the share of failures is a metric. Figures
//! that a file distinguishes are never pooled.

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

/// Up to this many files are listed individually.
const MAX_LISTED: usize = 6;

/// Most problems reported at once; the rest are counted.
const MAX_PROBLEMS: usize = 20;

/// The comparisons that the files allow.
#[derive(Debug)]
pub struct Figures {
    /// One line per file: its name, its format, its number of figures.
    pub files: Vec<String>,
    /// What a reader must know: what was left out, what was pooled.
    pub remarks: Vec<String>,
    /// Arm that the others are compared with.
    pub baseline: String,
    /// How the baseline was chosen; empty if the user named it.
    pub baseline_why: String,
    /// Each arm against the baseline, per metric.
    pub comparisons: Vec<Comparison>,
    /// Arms in which more work failed than in the baseline, where too little is known to judge that.
    pub failing: BTreeSet<String>,
}

/// A run directory of bakeoff that the user typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnRun {
    /// Name that the user typed, else the directory's name.
    pub name: String,
    /// The directory.
    pub dir: PathBuf,
}

/// The paths that are run directories of bakeoff, typed as `NAME=DIR` or `DIR`.
pub fn own_runs(paths: &[String]) -> Vec<OwnRun> {
    let own_run = |typed: &String| {
        let (name, dir) = source::split(typed);
        record::rundir::is_run(&dir).then(|| OwnRun {
            name: name.map_or_else(|| source::name(&dir), String::from),
            dir,
        })
    };
    paths.iter().filter_map(own_run).collect()
}

/// The first path that does not exist.
pub fn missing(paths: &[String]) -> Option<&str> {
    let is_missing = |typed: &&String| !source::split(typed).1.exists();
    paths.iter().find(is_missing).map(String::as_str)
}

/// Reads all files and compares their arms.
///
/// # Errors
/// Everything that is wrong with the files, by file and line.
pub fn read(paths: &[String], options: &ImportOptions) -> Result<Figures, Problems> {
    let mut problems = Vec::new();
    let sources = source::find(paths, &mut problems);
    let mut files: Vec<FileFigures> = Vec::new();
    let mut figures = 0;
    for source in &sources {
        let mut file = detect::read(source);
        figures += file.observations.len();
        if figures > MOST_FIGURES && !file.is_full() {
            let what = format!("more than {MOST_FIGURES} figures in all files so far");
            file.wrong(0, what, FEWER);
        }
        let is_enough = figures > MOST_FIGURES || file.is_full();
        files.push(file);
        if is_enough {
            break;
        }
    }
    source::name_arms(&sources, &mut files);
    source::shorten_arms(&mut files);
    go_bench::name_metrics(&mut files);
    copies::refuse(&mut files);
    for file in &mut files {
        problems.append(&mut file.problems);
    }
    if !problems.is_empty() {
        return Err(first_problems(problems));
    }
    let summaries = summaries(&files);
    let compared = compare::compare(files, options).map_err(first_problems)?;
    Ok(Figures {
        files: summaries,
        ..compared
    })
}

/// One line per file, or per arm and format if there are many files.
fn summaries(files: &[FileFigures]) -> Vec<String> {
    if files.len() <= MAX_LISTED {
        return files
            .iter()
            .map(|file| format!("{}: {}", file.file, file.summary()))
            .collect();
    }
    let mut by_summary = BTreeMap::<String, (usize, &str)>::new();
    for file in files {
        by_summary
            .entry(file.summary())
            .or_insert((0, &file.file))
            .0 += 1;
    }
    let line = |(summary, (count, first)): (String, (usize, &str))| match count {
        1 => format!("{first}: {summary}"),
        count => format!("{count} files like {first}: each {summary}"),
    };
    by_summary.into_iter().map(line).collect()
}

/// The first problems by file and line, and how many more there are.
fn first_problems(mut problems: Vec<Problem>) -> Problems {
    let mut files: Vec<String> = Vec::new();
    for problem in &problems {
        if !files.contains(&problem.file) {
            files.push(problem.file.clone());
        }
    }
    let place = |problem: &Problem| files.iter().position(|file| *file == problem.file);
    problems.sort_by_key(|problem| (place(problem), problem.line));
    if problems.len() > MAX_PROBLEMS {
        let more = problems.len() - MAX_PROBLEMS;
        problems.truncate(MAX_PROBLEMS);
        let file = problems[MAX_PROBLEMS - 1].file.clone();
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
