//! What one file said: its observations, and what is wrong with it.

use std::collections::{BTreeMap, BTreeSet};

use base::input::problem::Problem;
use base::input::units::show_bytes;
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
    /// What is measured, where the metric's name is also that of a benchmark: which way is better is
    /// guessed from this alone. Empty where the unit says all.
    pub(crate) quantity: Option<String>,
    /// Which way is better, where the file says so.
    pub(crate) direction: Option<Direction>,
    /// Whether it is judged without being asked for.
    pub(crate) role: Role,
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
    /// A shorter name of the arm, for where no other arm could be meant by it.
    pub(crate) short_arm: Option<String>,
    /// What else the file tells figures apart by.
    pub(crate) labels: Labels,
}

impl Observation {
    /// Length of all names in it.
    fn names_bytes(&self) -> usize {
        let lengths = [&self.quantity, &self.block, &self.short_arm].into_iter();
        let of_some = lengths.flatten().chain(self.labels.values());
        let of_run = match &self.run {
            Run::Own => 0,
            Run::Within(run) => run.len(),
        };
        let all = of_some.chain([&self.arm, &self.metric, &self.unit, &self.file]);
        of_run + all.map(String::len).sum::<usize>()
    }
}

/// Go's package, system, processor and name of the benchmark, by key.
pub(crate) type Labels = BTreeMap<&'static str, String>;

/// Whether a figure is judged without being asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Always.
    Judged,
    /// Never.
    OnRequest,
    /// It is a share of work that failed. Where it is 0 in all files it is judged only if `even_zero`.
    Failures { even_zero: bool },
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
    /// Metrics that cannot be judged, by the reason.
    pub(crate) left_out: LeftOut,
    /// Length of all names of `observations`.
    names_bytes: usize,
    /// Whether there was too much of something.
    is_full: bool,
}

/// Metrics that are left out, by the reason.
pub(crate) type LeftOut = BTreeMap<String, LeftOutMetrics>;

/// Metrics that are left out for one reason.
#[derive(Debug, Default)]
pub(crate) struct LeftOutMetrics {
    /// The metrics.
    pub(crate) metrics: BTreeSet<String>,
    /// The first place that gave the reason; empty where it is of no place.
    pub(crate) place: String,
}

/// Most figures of all files: a hundred metrics of several arms, a hundred runs each, are less.
pub(crate) const MOST_FIGURES: usize = 100_000;

/// Names of all figures of a file, in bytes. A name that stands once in the file may be that of each figure.
const NAMES_BYTES: usize = 32 << 20;

/// Mistakes of a file that are kept; some twenty are shown.
const MOST_PROBLEMS: usize = 1000;

/// What to do about too many figures.
pub(crate) const FEWER: &str = "give one figure per run instead of every request";

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
            left_out: LeftOut::new(),
            names_bytes: 0,
            is_full: false,
        }
    }

    /// Takes a figure, as far as there is room: beyond that the file is refused, and need not be read further.
    pub(crate) fn add(&mut self, one: Observation) {
        if self.is_full {
            return;
        }
        self.names_bytes += one.names_bytes();
        let what = if self.observations.len() == MOST_FIGURES {
            format!("more than {MOST_FIGURES} figures")
        } else if self.names_bytes > NAMES_BYTES {
            format!(
                "names longer than {} together",
                show_bytes(NAMES_BYTES as u64)
            )
        } else {
            self.observations.push(one);
            return;
        };
        self.wrong(one.line, what, FEWER);
        self.is_full = true;
    }

    /// Whether it is refused whatever else is in it.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Leaves a metric out of the judging, in this file and all others.
    pub(crate) fn leave_out(&mut self, why: &str, metric: impl Into<String>, line: usize) {
        let left_out = self.left_out.entry(why.into());
        let left_out = left_out.or_insert_with(|| LeftOutMetrics {
            metrics: BTreeSet::new(),
            place: format!("{}:{line}", self.file),
        });
        left_out.metrics.insert(metric.into());
    }

    /// Adds the share of work that failed in one run.
    pub(crate) fn failures(&mut self, metric: &str, share: f64, line: usize) {
        let role = Role::Failures { even_zero: false };
        let run = Run::Within("file".into());
        let observation = self.observation(metric, "share", share, line);
        self.add(Observation {
            role,
            run,
            ..observation
        });
    }

    /// Notes something wrong.
    pub(crate) fn wrong(&mut self, line: usize, what: impl Into<String>, remedy: &str) {
        if self.problems.len() == MOST_PROBLEMS {
            self.is_full = true;
            return;
        }
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
            quantity: None,
            direction: None,
            role: Role::Judged,
            block: None,
            slot: None,
            run: Run::Own,
            value,
            file: self.file.clone(),
            line,
            short_arm: None,
            labels: Labels::new(),
        }
    }

    /// A number as it is written, or the note that it is none. `at` says where in the line.
    pub(crate) fn number(&mut self, text: &str, line: usize, at: &str) -> Option<f64> {
        let remedy = "write a number such as 12.5";
        if let Some(point) = without_commas(text) {
            let what = format!("a decimal comma{at}: {:?}", text.trim());
            let remedy = format!("write {point}, with nothing between thousands");
            self.wrong(line, what, &remedy);
            return None;
        }
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
        let is_figure = |one: &&Observation| !matches!(one.role, Role::Failures { .. });
        let figures = self.observations.iter().filter(is_figure).count();
        let s = if figures == 1 { "" } else { "s" };
        format!(
            "{}, {figures} figure{s} of {}",
            self.format,
            arms.join(", ")
        )
    }
}

/// A number with a decimal comma as it is written with a point: `1,5`, `-1.234,5`, `1,234,567`.
pub(crate) fn without_commas(text: &str) -> Option<String> {
    let text = text.trim().trim_matches('"');
    let (whole, part) = text.rsplit_once(',')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let whole: String = whole
        .chars()
        .filter(|letter| !matches!(letter, ',' | '.' | ' '))
        .collect();
    let mantissa = part.split(['e', 'E']).next().unwrap_or_default();
    let is_number = digits(whole.trim_start_matches(['-', '+'])) && digits(mantissa);
    // Several commas stand between thousands.
    let thousands = text.matches(',').count() > 1;
    is_number.then(|| {
        if thousands {
            whole + part
        } else {
            format!("{whole}.{part}")
        }
    })
}
