//! Shows a run as it goes on: one line per event, and on a terminal a progress line below. All of it goes to standard error.
//! With `--json` the events also go to standard output, as JSON lines.
//!
//! The lines are made from journal entries, so a replayed run shows the same lines.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::input::units::significant;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use record::defect::{FoundDefect, Severity};
use record::journal::{Entry, Event, Opening};
use record::rundir::{ProfileNote, Series, TrialRecord};
use record::trial::{Outcome, Trial};
use serde_json::Value;

use crate::json_lines;
use crate::lab::{Activity, LabEvent};
use crate::out;

/// Whether the user wants no progress (`--quiet`).
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Makes all reporters print nothing on standard error.
pub fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// Shows the events of a run.
pub struct Reporter {
    format: Format,
    /// The emulated CPU model, if the run is a repetition on another one.
    model: Option<String>,
    /// Name of the plan, if it is one of several.
    plan: Option<String>,
    /// Whether a line after each block shows the interim analysis.
    shows_interim_analyses: bool,
    bar: ProgressBar,
    /// The record of the attempt that ends next; its line shows a figure from it.
    record: RefCell<Option<TrialRecord>>,
    /// The step that was shown last.
    step: RefCell<String>,
    /// The series of the current trials.
    series: Cell<Series>,
    /// The activity of each current trial, by its number.
    activity: RefCell<BTreeMap<u32, String>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Json,
}

impl Reporter {
    /// Text on standard error, and if `json` is set, JSON lines on standard output.
    pub fn new(json: bool) -> Self {
        Self::for_model(json, None)
    }

    /// A reporter for a run on another emulated CPU model.
    pub fn for_model(json: bool, model: Option<&str>) -> Self {
        Self::with_bar(json, model, None, ProgressBar::new_spinner())
    }

    /// A reporter for one of several plans, which share the progress lines. Each line begins with the plan's name.
    pub fn for_plan(json: bool, model: Option<&str>, plan: &str, bars: &MultiProgress) -> Self {
        Self::with_bar(
            json,
            model,
            Some(plan),
            bars.add(ProgressBar::new_spinner()),
        )
    }

    fn with_bar(json: bool, model: Option<&str>, plan: Option<&str>, bar: ProgressBar) -> Self {
        let style = ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}");
        bar.set_style(style.expect("the template is valid"));
        if is_quiet() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        bar.enable_steady_tick(Duration::from_millis(250));
        Self {
            format: if json { Format::Json } else { Format::Text },
            model: model.map(String::from),
            plan: plan.map(String::from),
            shows_interim_analyses: true,
            bar,
            record: RefCell::default(),
            step: RefCell::default(),
            series: Cell::new(Series::Judged),
            activity: RefCell::default(),
        }
    }

    /// Hides interim analyses, for a run that is one block of a larger question.
    #[must_use]
    pub fn without_interim_analyses(mut self) -> Self {
        self.shows_interim_analyses = false;
        self
    }

    /// Shows a preparation step such as fetching, building or probing; `share` is the part done, 0 to 1.
    /// Without a progress line, each step is printed once.
    pub fn step(&self, step: &str, share: Option<f64>) {
        if self.bar.is_hidden() && *self.step.borrow() != step {
            self.line(&format!("{step} ..."));
            *self.step.borrow_mut() = step.into();
        }
        let percent = share
            .map(|share| format!(" {:.0} %", share * 100.0))
            .unwrap_or_default();
        self.set_message(&format!("{step}{percent}"));
    }

    /// Prints a permanent line.
    pub fn line(&self, line: &str) {
        let line = match &self.plan {
            Some(plan) => format!("{plan}  {line}"),
            None => line.into(),
        };
        if is_quiet() {
            return;
        }
        if self.bar.is_hidden() {
            out::error_line(&line);
        } else {
            self.bar.println(line);
        }
    }

    fn set_message(&self, text: &str) {
        self.bar.set_message(match &self.plan {
            Some(plan) => format!("{plan}: {text}"),
            None => text.into(),
        });
    }

    /// Prints a JSON line, if JSON was requested. `line` makes it for the run's CPU model.
    fn json_line(&self, line: impl FnOnce(Option<&str>) -> Value) {
        if self.format == Format::Text {
            return;
        }
        let mut line = line(self.model.as_deref());
        if let Some(plan) = &self.plan {
            line["plan"] = plan.as_str().into();
        }
        self.bar.suspend(|| out::json(&line.to_string()));
    }

    /// Shows an event of the lab.
    pub fn show(&self, event: LabEvent<'_>) {
        match event {
            LabEvent::Record(record) => {
                *self.record.borrow_mut() = Some(record.clone());
                self.set_activity(&record.trial, None);
            }
            LabEvent::Activity(trial, Activity::Defect(defect)) => {
                self.json_line(|model| json_lines::defect(trial, defect, model));
                if defect.severity > Severity::Notice {
                    self.line(&defect_line(self.series.get(), trial, defect));
                }
            }
            LabEvent::Activity(trial, activity) => {
                self.set_activity(trial, activity_line(self.series.get(), trial, activity));
            }
            LabEvent::FailedChecks {
                blocks,
                min_blocks,
                checks,
            } => {
                self.json_line(|model| {
                    json_lines::failed_checks(blocks, min_blocks, checks, model)
                });
                for line in judge::report::early_failed_checks(blocks, min_blocks, checks) {
                    self.line(&line);
                }
            }
            LabEvent::Before(entries) => {
                for entry in entries {
                    self.json_line(|model| json_lines::event(entry, model));
                }
                if let Some(line) = before_line(entries) {
                    self.line(&line);
                }
            }
            LabEvent::Entry(entry) => {
                self.json_line(|model| json_lines::event(entry, model));
                if let Some(line) = self.event_line(entry) {
                    self.line(&line);
                }
            }
        }
    }

    /// Sets a trial's activity in the progress line; `None` removes the trial.
    fn set_activity(&self, trial: &Trial, line: Option<String>) {
        let mut activity = self.activity.borrow_mut();
        match line {
            Some(line) => activity.insert(trial.number, line),
            None => activity.remove(&trial.number),
        };
        let lines: Vec<_> = activity.values().map(String::as_str).collect();
        self.set_message(&lines.join("; "));
    }

    /// Removes the progress line.
    pub fn close(&self) {
        self.bar.finish_and_clear();
    }

    fn event_line(&self, entry: &Entry) -> Option<String> {
        match &entry.event {
            Event::Opened(Opening { machine, .. }) => {
                Some(format!("machine: {}", judge::report::machine(machine)))
            }
            Event::Resumed { .. } => {
                Some(format!("going on with an interrupted run, {}", entry.at))
            }
            Event::Ceiling {
                workload, outcome, ..
            } => Some(judge::report::ceiling(workload, outcome)),
            Event::OneFewer {
                workload,
                arm,
                outcome,
            } => Some(judge::report::one_fewer(workload, arm, outcome)),
            Event::Merged {
                block,
                node,
                given_up_on,
            } => Some(judge::report::merged(*block, node, given_up_on)),
            Event::Started { .. } => {
                self.series.set(Series::Judged);
                None
            }
            Event::Profiling { .. } => {
                self.series.set(Series::Profiled);
                None
            }
            Event::Profiled { trial, attempt, .. } => {
                let record = self.record.take().filter(|record| record.trial == *trial);
                Some(profiled_line(trial, *attempt, record.as_ref()))
            }
            Event::Ended { trial, attempt, .. } => {
                let record = self.record.take().filter(|record| record.trial == *trial);
                Some(ended_line(trial, *attempt, record.as_ref()))
            }
            Event::Invalidated {
                workload,
                block,
                disturbance,
                ..
            } => Some(format!(
                "  block {block:2}  {workload}  does not count and is run again: {}",
                judge::report::disturbance(disturbance)
            )),
            Event::InterimAnalysis { .. } | Event::Closed { .. }
                if !self.shows_interim_analyses =>
            {
                None
            }
            Event::InterimAnalysis {
                blocks, results, ..
            } => {
                let lines = results
                    .iter()
                    .map(|result| format!("\n    {}", judge::report::interim_analysis(result)));
                let lines: Vec<String> = lines.collect();
                Some(format!("after block {blocks}:{}", lines.concat()))
            }
            Event::Closed { reason } => Some(judge::report::close_reason(reason)),
            Event::Extended {
                from,
                to,
                error_rate,
                ..
            } => Some(extended_line(*from, *to, *error_rate)),
        }
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.close();
    }
}

/// A summary of the earlier sessions of a run; `None` if there are none.
fn before_line(entries: &[Entry]) -> Option<String> {
    let (mut trials, mut blocks, mut end) = (0_usize, 0, "the run is not over".to_owned());
    for entry in entries {
        match &entry.event {
            Event::Ended { .. } => trials += 1,
            Event::InterimAnalysis { blocks: so_far, .. } => blocks = blocks.max(*so_far),
            Event::Closed { reason } => end = judge::report::close_reason(reason),
            Event::Extended { .. } => end = "more blocks were asked for".into(),
            Event::Opened(_)
            | Event::Resumed { .. }
            | Event::Started { .. }
            | Event::Ceiling { .. }
            | Event::OneFewer { .. }
            | Event::Merged { .. }
            | Event::Invalidated { .. }
            | Event::Profiling { .. }
            | Event::Profiled { .. } => {}
        }
    }
    let first = entries.first()?;
    let trials = count_noun(trials, "trial");
    let blocks = count_noun(blocks as usize, "block");
    Some(format!(
        "this run began {}: {trials} done, {blocks} complete; {end}",
        first.at
    ))
}

/// `1 trial`, `2 trials`.
fn count_noun(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// The error rate that an extension implies.
fn extended_line(from: u32, to: u32, error_rate: f64) -> String {
    format!(
        "{} more for an undecided run, {to} at the most: a wrong verdict now has a chance of at most {} %",
        count_noun(to.saturating_sub(from) as usize, "block"),
        significant(round_up(error_rate * 100.0), 3)
    )
}

/// Rounds up to a tenth: an upper bound must not be rounded down.
fn round_up(percent: f64) -> f64 {
    (percent * 10.0 - 1e-9).ceil() / 10.0
}

fn activity_line(series: Series, trial: &Trial, activity: &Activity) -> Option<String> {
    let Trial {
        number, block, arm, ..
    } = trial;
    let doing = match activity {
        Activity::Booting => "booting".to_string(),
        Activity::Phase(phase) => phase.words().to_string(),
        Activity::Tick(tick) => format!("second {}, {} served", tick.second, tick.ok),
        // The caller shows defects on separate lines; cancelled trials leave the progress line.
        Activity::Defect(_) | Activity::Cancelled => return None,
    };
    let label = series_label(series);
    if *number == 0 {
        let label = if *block == 0 {
            "ceiling"
        } else {
            "one client fewer"
        };
        return Some(format!("{label} ({arm}): {doing}"));
    }
    Some(format!("{label} {number:03} ({arm}): {doing}"))
}

/// The line of a new defect.
fn defect_line(series: Series, trial: &Trial, defect: &FoundDefect) -> String {
    trial_line(series, trial, 1, &judge::report::defect(defect))
}

/// How lines call a trial of a series.
fn series_label(series: Series) -> &'static str {
    match series {
        Series::Judged => "trial",
        Series::Profiled => "profiled, not judged,",
    }
}

fn ended_line(trial: &Trial, attempt: u32, record: Option<&TrialRecord>) -> String {
    trial_line(Series::Judged, trial, attempt, &outcome_text(record))
}

/// The line of a trial that ran only for its profile: its figure, and how much was sampled.
fn profiled_line(trial: &Trial, attempt: u32, record: Option<&TrialRecord>) -> String {
    let profile = match record.and_then(|record| record.profile.as_ref()) {
        Some(ProfileNote::Sampled { samples, lost, .. }) => {
            format!(", {samples} samples, {lost} lost")
        }
        Some(ProfileNote::Missing(why)) => format!(", no profile: {why}"),
        Some(ProfileNote::Kept { .. }) | None => String::new(),
    };
    let end = format!("{}{profile}", outcome_text(record));
    trial_line(Series::Profiled, trial, attempt, &end)
}

fn trial_line(series: Series, trial: &Trial, attempt: u32, end: &str) -> String {
    let again = if attempt > 1 {
        format!(", attempt {attempt}")
    } else {
        String::new()
    };
    let Trial {
        number,
        block,
        arm,
        workload,
        ..
    } = trial;
    let label = series_label(series);
    format!("  block {block:2}  {label} {number:03}  {workload}  {arm:12} {end}{again}")
}

fn outcome_text(record: Option<&TrialRecord>) -> String {
    match record.map(|record| &record.outcome) {
        // Another node ran the block; its figures are in the report.
        None => "done".into(),
        Some(Outcome::Measured(measurement)) => match measurement.figures.first() {
            Some(figure) => {
                let value = significant(figure.value, 5);
                format!("{} {value} {}", figure.spec.name, figure.spec.unit)
            }
            None => "measured".into(),
        },
        Some(Outcome::Void(void)) => format!("void, {void}"),
        Some(Outcome::Skipped(why)) => format!("skipped, {why}"),
    }
}
