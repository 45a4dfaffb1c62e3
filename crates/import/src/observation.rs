//! The observations of one file, and its problems.

use std::collections::{BTreeMap, BTreeSet};

use base::input::problem::Problem;
use base::input::units::show_bytes;
use record::metric::Direction;

/// One figure and its place in a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Observation {
    /// The arm; empty if the file does not name one, which means the file's arm.
    pub(crate) arm: String,
    /// What was measured: `throughput`, `BenchmarkJoin`, `BM_Copy/64 real time`.
    pub(crate) metric: String,
    /// The unit; empty if the file has none.
    pub(crate) unit: String,
    /// The measured quantity, if the metric's name contains a benchmark's name. The direction is
    /// guessed from it alone. Empty if the unit says all.
    pub(crate) quantity: Option<String>,
    /// Which direction is better, if the file says it.
    pub(crate) direction: Option<Direction>,
    /// Whether it is judged by default.
    pub(crate) role: Role,
    /// The block, if the file has blocks.
    pub(crate) block: Option<String>,
    /// Position in the block; the arm with the smaller slot ran earlier.
    pub(crate) slot: Option<f64>,
    /// The run it was taken in. Observations of one run are samples, not repetitions.
    pub(crate) run: Run,
    /// The figure; finite.
    pub(crate) value: f64,
    /// The file as the user named it.
    pub(crate) file: String,
    /// Line in the file, from 1.
    pub(crate) line: usize,
    /// A shorter arm name, used if it is unambiguous.
    pub(crate) short_arm: Option<String>,
    /// Further labels by which the file distinguishes figures.
    pub(crate) labels: Labels,
}

impl Observation {
    /// Length of all names in it, in bytes.
    fn names_bytes(&self) -> usize {
        let optional = [&self.quantity, &self.block, &self.short_arm];
        let run_bytes = match &self.run {
            Run::Own => 0,
            Run::Within(run) => run.len(),
        };
        let names = optional.into_iter().flatten().chain(self.labels.values());
        let names = names.chain([&self.arm, &self.metric, &self.unit, &self.file]);
        run_bytes + names.map(String::len).sum::<usize>()
    }
}

/// Labels of a Go benchmark by key: package, system, processor and name.
pub(crate) type Labels = BTreeMap<&'static str, String>;

/// Whether a figure is judged by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Judged by default.
    Judged,
    /// Judged only if the user names the metric.
    OnRequest,
    /// A share of failed work. If it is 0 in all files, it is judged only if `even_zero`.
    Failures { even_zero: bool },
}

/// The run that an observation belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Run {
    /// The observation is the only figure of its run.
    Own,
    /// One of several samples of this run, which is a process or a file.
    Within(String),
}

/// What was read of one file.
#[derive(Debug)]
pub(crate) struct FileFigures {
    /// The file as the user named it.
    pub(crate) file: String,
    /// Name of the file's format.
    pub(crate) format: &'static str,
    /// Whether the file is a single run of one arm, so that its name cannot be the arm's.
    pub(crate) is_one_run: bool,
    /// The figures.
    pub(crate) observations: Vec<Observation>,
    /// Everything that is wrong with the file.
    pub(crate) problems: Vec<Problem>,
    /// What a reader of the verdict must know.
    pub(crate) remarks: BTreeSet<String>,
    /// Metrics that cannot be judged, by reason.
    pub(crate) left_out: LeftOut,
    /// Length of all names in `observations`.
    names_bytes: usize,
    /// Whether a limit is exceeded, so that nothing more is read.
    is_full: bool,
}

/// Metrics that are left out, by reason.
pub(crate) type LeftOut = BTreeMap<String, LeftOutMetrics>;

/// Metrics that are left out for one reason.
#[derive(Debug, Default)]
pub(crate) struct LeftOutMetrics {
    /// Metric names.
    pub(crate) metrics: BTreeSet<String>,
    /// `file:line` of the first figure left out for this reason; empty if there is no place.
    pub(crate) place: String,
}

/// Most figures of all files. A hundred metrics of several arms with a hundred runs each are fewer.
pub(crate) const MOST_FIGURES: usize = 100_000;

/// Limit of all names of a file, in bytes. A name that occurs once in the file may apply to every figure.
const NAMES_BYTES: usize = 32 << 20;

/// Most problems kept per file; some twenty are shown.
const MOST_PROBLEMS: usize = 1000;

/// Remedy for too many figures.
pub(crate) const FEWER: &str = "give one figure per run instead of every request";

impl FileFigures {
    /// A file of which nothing is read yet.
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

    /// Adds a figure. Beyond the limits it adds a problem instead and marks the file as full.
    pub(crate) fn add(&mut self, observation: Observation) {
        if self.is_full {
            return;
        }
        self.names_bytes += observation.names_bytes();
        let what = if self.observations.len() == MOST_FIGURES {
            format!("more than {MOST_FIGURES} figures")
        } else if self.names_bytes > NAMES_BYTES {
            format!(
                "names longer than {} together",
                show_bytes(NAMES_BYTES as u64)
            )
        } else {
            self.observations.push(observation);
            return;
        };
        self.wrong(observation.line, what, FEWER);
        self.is_full = true;
    }

    /// Whether a limit is exceeded, so that the reader may stop.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Excludes a metric from judging, in this file and all others.
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

    /// Adds a problem.
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

    /// An observation of this file's arm, as a separate run. The reader fills in the rest.
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

    /// Parses a number, or adds a problem. `at` names the place in the line.
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

    /// The arms that the file names.
    pub(crate) fn arms(&self) -> BTreeSet<String> {
        let named = self
            .observations
            .iter()
            .map(|observation| observation.arm.clone());
        named.filter(|arm| !arm.is_empty()).collect()
    }

    /// A summary in one line.
    pub(crate) fn summary(&self) -> String {
        let arms: BTreeSet<&str> = self
            .observations
            .iter()
            .map(|observation| observation.arm.as_str())
            .collect();
        let arms: Vec<&str> = arms.into_iter().collect();
        let is_figure =
            |observation: &&Observation| !matches!(observation.role, Role::Failures { .. });
        let figures = self.observations.iter().filter(is_figure).count();
        let s = if figures == 1 { "" } else { "s" };
        format!(
            "{}, {figures} figure{s} of {}",
            self.format,
            arms.join(", ")
        )
    }
}

/// A number with a decimal comma or separators, rewritten with a point: `1,5`, `-1.234,5`, `1,234,567`.
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
    // Several commas are thousands separators.
    let has_thousands = text.matches(',').count() > 1;
    is_number.then(|| {
        if has_thousands {
            whole + part
        } else {
            format!("{whole}.{part}")
        }
    })
}
