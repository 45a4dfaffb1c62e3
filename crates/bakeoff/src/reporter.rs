//! What is shown while a run goes on: one line per event, and on a terminal one moving line below. All of it is on standard error;
//! with `--json` the events are on standard output as well, as JSON lines.
//!
//! The lines are made from the journal's entries, so that an old run replays as it was shown.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use base::input::units::significant;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use record::defect::{FoundDefect, Severity};
use record::journal::{Entry, Event, Opening};
use record::rundir::{ProfileNote, Series, TrialRecord};
use record::trial::{Outcome, Trial};
use serde_json::Value;

use crate::json_lines;
use crate::lab::{Activity, LabEvent};
use crate::out;

/// How a run is shown.
pub struct Reporter {
    form: Form,
    /// The emulated CPU, where it is not the run's own.
    model: Option<String>,
    /// The plan, where it is one of several.
    plan: Option<String>,
    /// Whether a line says how far the run is after each block.
    has_looks: bool,
    bar: ProgressBar,
    /// The record of the attempt that ends next: its figures belong on the line.
    record: RefCell<Option<TrialRecord>>,
    /// The step told last.
    step: RefCell<String>,
    /// What the trials under way are run for: never two things at a time.
    series: Cell<Series>,
    /// What each trial under way does, by its number.
    activity: RefCell<BTreeMap<u32, String>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Json,
}

impl Reporter {
    /// Text on standard error, and where it is asked for JSON lines on standard output.
    pub fn new(json: bool) -> Self {
        Self::of_model(json, None)
    }

    /// The same of a run on another emulated CPU.
    pub fn of_model(json: bool, model: Option<&str>) -> Self {
        Self::of(json, model, None)
    }

    /// The same of one of several plans, which share the terminal's last lines; each of its lines begins with its name.
    pub fn of_plan(json: bool, model: Option<&str>, (plan, bars): (&str, &MultiProgress)) -> Self {
        Self::of(json, model, Some((plan, bars)))
    }

    fn of(json: bool, model: Option<&str>, of_plan: Option<(&str, &MultiProgress)>) -> Self {
        let form = if json { Form::Json } else { Form::Text };
        let bar = ProgressBar::new_spinner();
        let bar = match of_plan {
            Some((_, bars)) => bars.add(bar),
            None => bar,
        };
        let style = ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}");
        bar.set_style(style.expect("the template is a constant of known form"));
        bar.enable_steady_tick(Duration::from_millis(250));
        Self {
            form,
            model: model.map(String::from),
            plan: of_plan.map(|(plan, _)| plan.into()),
            has_looks: true,
            bar,
            record: RefCell::default(),
            step: RefCell::default(),
            series: Cell::new(Series::Judged),
            activity: RefCell::default(),
        }
    }

    /// The same for a run that is one block of a larger question: it alone says nothing.
    #[must_use]
    pub fn without_looks(mut self) -> Self {
        self.has_looks = false;
        self
    }

    /// A step before the run proper: fetching, building, probing. Where there is no moving line each
    /// step is told once.
    pub fn step(&self, what: &str, share: Option<f64>) {
        if self.bar.is_hidden() && *self.step.borrow() != what {
            self.line(&format!("{what} ..."));
            *self.step.borrow_mut() = what.into();
        }
        let percent = share
            .map(|share| format!(" {:.0} %", share * 100.0))
            .unwrap_or_default();
        self.set_message(&format!("{what}{percent}"));
    }

    /// A line that stays.
    pub fn line(&self, line: &str) {
        let line = match &self.plan {
            Some(plan) => format!("{plan}  {line}"),
            None => line.into(),
        };
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

    /// A line for machines.
    fn json_line(&self, mut line: Value) {
        if let Some(plan) = &self.plan {
            line["plan"] = plan.as_str().into();
        }
        self.bar.suspend(|| out::json(&line.to_string()));
    }

    /// Shows an event of the lab.
    pub fn tell(&self, event: LabEvent<'_>) {
        match event {
            LabEvent::Record(record) => {
                *self.record.borrow_mut() = Some(record.clone());
                self.pass(&record.trial, None);
            }
            LabEvent::Activity(trial, Activity::Defect(found)) => {
                if self.form == Form::Json {
                    let line = json_lines::defect(trial, found, self.model.as_deref());
                    self.json_line(line);
                }
                if found.severity > Severity::Notice {
                    self.line(&defect_line(self.series.get(), trial, found));
                }
            }
            LabEvent::Activity(trial, activity) => {
                self.pass(trial, passing_line(self.series.get(), trial, activity));
            }
            LabEvent::Violated((blocks, min_blocks), found) => {
                if self.form == Form::Json {
                    let after = (blocks, min_blocks);
                    let line = json_lines::violations(after, found, self.model.as_deref());
                    self.json_line(line);
                }
                for line in judge::report::early_violations(blocks, min_blocks, found) {
                    self.line(&line);
                }
            }
            LabEvent::Before(entries) => {
                if self.form == Form::Json {
                    for entry in entries {
                        self.json_line(json_lines::event(entry, self.model.as_deref()));
                    }
                }
                if let Some(line) = before_line(entries) {
                    self.line(&line);
                }
            }
            LabEvent::Entry(entry) => {
                if self.form == Form::Json {
                    let line = json_lines::event(entry, self.model.as_deref());
                    self.json_line(line);
                }
                if let Some(line) = self.event_line(entry) {
                    self.line(&line);
                }
            }
        }
    }

    /// Changes what the moving line says of a trial: nothing, once it has ended.
    fn pass(&self, trial: &Trial, line: Option<String>) {
        let mut activity = self.activity.borrow_mut();
        match line {
            Some(line) => activity.insert(trial.number, line),
            None => activity.remove(&trial.number),
        };
        let lines: Vec<_> = activity.values().map(String::as_str).collect();
        self.set_message(&lines.join("; "));
    }

    /// Takes the moving line away.
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
            } => Some(judge::report::one_fewer((workload, arm), outcome)),
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
            Event::Looked { .. } | Event::Closed { .. } if !self.has_looks => None,
            Event::Looked { blocks, looks, .. } => {
                let lines = looks
                    .iter()
                    .map(|look| format!("\n    {}", judge::report::look(look)));
                let lines: Vec<String> = lines.collect();
                Some(format!("after block {blocks}:{}", lines.concat()))
            }
            Event::Closed { reason } => Some(judge::report::close_reason(reason)),
            Event::Extended {
                from,
                to,
                error_rate,
                ..
            } => Some(extended_line((*from, *to), *error_rate)),
        }
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.close();
    }
}

/// What earlier sessions of a run have done; nothing where there was none.
fn before_line(entries: &[Entry]) -> Option<String> {
    let (mut trials, mut blocks, mut end) = (0_usize, 0, "the run is not over".to_owned());
    for entry in entries {
        match &entry.event {
            Event::Ended { .. } => trials += 1,
            Event::Looked { blocks: so_far, .. } => blocks = blocks.max(*so_far),
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
    let trials = counted(trials, "trial");
    let blocks = counted(blocks as usize, "block");
    Some(format!(
        "this run began {}: {trials} done, {blocks} complete; {end}",
        first.at
    ))
}

/// `1 trial`, `2 trials`.
fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// What more blocks cost.
fn extended_line((from, to): (u32, u32), error_rate: f64) -> String {
    let more = match to.saturating_sub(from) {
        1 => "1 block".to_owned(),
        more => format!("{more} blocks"),
    };
    format!(
        "{more} more for an undecided run, {to} at the most: a wrong verdict now has a chance of at most {} %",
        significant(round_up(error_rate * 100.0), 3)
    )
}

/// To a tenth and never down: a bound that is rounded down is none.
fn round_up(percent: f64) -> f64 {
    (percent * 10.0 - 1e-9).ceil() / 10.0
}

fn passing_line(series: Series, trial: &Trial, activity: &Activity) -> Option<String> {
    let Trial {
        number, block, arm, ..
    } = trial;
    let doing = match activity {
        Activity::Booting => "booting".to_string(),
        Activity::Phase(phase) => phase.words().to_string(),
        Activity::Tick(tick) => format!("second {}, {} served", tick.second, tick.ok),
        // Those have lines of their own.
        Activity::Defect(_) | Activity::Cancelled => return None,
    };
    let what = what(series);
    if *number == 0 {
        let what = if *block == 0 {
            "ceiling"
        } else {
            "one client fewer"
        };
        return Some(format!("{what} ({arm}): {doing}"));
    }
    Some(format!("{what} {number:03} ({arm}): {doing}"))
}

/// A defect, as soon as it was told.
fn defect_line(series: Series, trial: &Trial, found: &FoundDefect) -> String {
    let Trial {
        number,
        block,
        arm,
        workload,
        ..
    } = trial;
    let (what, said) = (what(series), judge::report::defect(found));
    format!("  block {block:2}  {what} {number:03}  {workload}  {arm:12} {said}")
}

/// What a trial is called.
fn what(series: Series) -> &'static str {
    match series {
        Series::Judged => "trial",
        Series::Profiled => "profiled, not judged,",
    }
}

fn ended_line(trial: &Trial, attempt: u32, record: Option<&TrialRecord>) -> String {
    line_of(Series::Judged, trial, attempt, &end_of(record))
}

/// A trial that was run for its profile alone: its figures, and how much was sampled.
fn profiled_line(trial: &Trial, attempt: u32, record: Option<&TrialRecord>) -> String {
    let profile = match record.and_then(|record| record.profile.as_ref()) {
        Some(ProfileNote::Sampled { samples, lost, .. }) => {
            format!(", {samples} samples, {lost} lost")
        }
        Some(ProfileNote::Missing(why)) => format!(", no profile: {why}"),
        Some(ProfileNote::Kept { .. }) | None => String::new(),
    };
    let end = format!("{}{profile}", end_of(record));
    line_of(Series::Profiled, trial, attempt, &end)
}

fn line_of(series: Series, trial: &Trial, attempt: u32, end: &str) -> String {
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
    let what = what(series);
    format!("  block {block:2}  {what} {number:03}  {workload}  {arm:12} {end}{again}")
}

fn end_of(record: Option<&TrialRecord>) -> String {
    match record.map(|record| &record.outcome) {
        // A block that another node ran: its figures are in the report.
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
