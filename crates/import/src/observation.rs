//! What one file said: its observations, and what is wrong with it.

use std::collections::BTreeSet;

use input::problem::Problem;
use record::metric::Direction;

/// One figure and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Observation {
    /// The arm; empty where the file does not say, so that the file's own arm is meant.
    pub(crate) arm: String,
    /// What was measured: `throughput`, `BenchmarkJoin`, `BM_Copy/64 real time`.
    pub(crate) metric: String,
    /// Its unit; empty where the file does not say.
    pub(crate) unit: String,
    /// Which way is better, where the file says so.
    pub(crate) direction: Option<Direction>,
    /// Judged only when asked for by name.
    pub(crate) aside: bool,
    /// The block that it belongs to, where the file says so.
    pub(crate) block: Option<String>,
    /// Its place in the block: the smaller ran earlier.
    pub(crate) slot: Option<f64>,
    /// The run that it was taken in: observations of one run are samples, not repetitions.
    pub(crate) run: Run,
    /// The figure; finite.
    pub(crate) value: f64,
    /// The file as the user named it.
    pub(crate) file: String,
    /// Its line, counted from 1.
    pub(crate) line: usize,
}

/// What an observation is a sample of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Run {
    /// It is the figure of a run of its own.
    Own,
    /// One of many samples taken inside this run: a process, a file.
    Within(String),
}

/// One file, as far as it was read.
#[derive(Debug)]
pub(crate) struct FileFigures {
    /// The file as the user named it.
    pub(crate) file: String,
    /// Whose format it has, in words.
    pub(crate) format: &'static str,
    /// Whether the file is a single run of one arm, so that its name cannot be the arm's.
    pub(crate) is_one_run: bool,
    /// What was read.
    pub(crate) observations: Vec<Observation>,
    /// What is wrong.
    pub(crate) problems: Vec<Problem>,
    /// What a reader of the verdict must know.
    pub(crate) remarks: BTreeSet<String>,
}

impl FileFigures {
    /// Nothing read yet.
    pub(crate) fn new(file: &str) -> Self {
        Self {
            file: file.into(),
            format: "no known format",
            is_one_run: false,
            observations: Vec::new(),
            problems: Vec::new(),
            remarks: BTreeSet::new(),
        }
    }

    /// Notes something wrong.
    pub(crate) fn wrong(&mut self, line: usize, what: impl Into<String>, remedy: &str) {
        self.problems.push(Problem {
            file: self.file.clone(),
            line,
            what: what.into(),
            remedy: remedy.into(),
        });
    }

    /// An observation of this file's own arm, in a run of its own, for its reader to fill in.
    pub(crate) fn observation(
        &self,
        metric: &str,
        unit: &str,
        value: f64,
        line: usize,
    ) -> Observation {
        Observation {
            arm: String::new(),
            metric: metric.into(),
            unit: unit.into(),
            direction: None,
            aside: false,
            block: None,
            slot: None,
            run: Run::Own,
            value,
            file: self.file.clone(),
            line,
        }
    }

    /// A number as it is written, or the note that it is none. `at` says where in the line.
    pub(crate) fn number(&mut self, text: &str, line: usize, at: &str) -> Option<f64> {
        let remedy = "write a number such as 12.5";
        match text.trim().parse::<f64>() {
            Ok(value) if value.is_finite() => return Some(value),
            Ok(_) => self.wrong(
                line,
                format!("no finite number{at}: {:?}", text.trim()),
                "leave a failed run out, with its whole block",
            ),
            Err(_) if text.trim().is_empty() => {
                self.wrong(line, format!("nothing where a number belongs{at}"), remedy);
            }
            Err(_) => self.wrong(line, format!("no number{at}: {:?}", text.trim()), remedy),
        }
        None
    }

    /// The arms that the file names itself.
    pub(crate) fn arms(&self) -> BTreeSet<String> {
        let named = self
            .observations
            .iter()
            .map(|observation| observation.arm.clone());
        named.filter(|arm| !arm.is_empty()).collect()
    }

    /// What it holds, in one line.
    pub(crate) fn summary(&self) -> String {
        let arms: BTreeSet<&str> = self
            .observations
            .iter()
            .map(|one| one.arm.as_str())
            .collect();
        let arms: Vec<&str> = arms.into_iter().collect();
        let figures = self.observations.len();
        let s = if figures == 1 { "" } else { "s" };
        format!(
            "{}, {figures} figure{s} of {}",
            self.format,
            arms.join(", ")
        )
    }
}
