//! Compares each arm with the baseline on each metric, from the figures of all files.

use std::collections::{BTreeMap, BTreeSet};

use base::input::problem::Problem;
use base::input::problem::remedy_among;
use base::input::units::show_share;
use record::metric::Direction;
use record::verdict::Pair;

use super::Figures;
use crate::layout::{ArmOrder, Layout};
use crate::metric_direction::{self, Guess, Known};
use crate::observation::{FileFigures, LeftOut, Observation, Role, Run};

/// Most metrics judged together. They share the error rate, so each further metric weakens all verdicts.
const MAX_METRICS: usize = 100;

/// Most figures of an arm and metric. The judge takes the difference of every pair of figures.
const MAX_FIGURES: usize = 2000;

/// Largest product of figures and arms. Each arm is resampled some thousand times.
const MAX_FIGURES_BY_ARMS: usize = 1_000_000;

/// Most arms compared with one baseline; they share the error rate.
const MAX_ARMS: usize = 100;

/// First words of a remark about metrics that are not judged.
const LEFT_OUT: &str = "left out";

/// Arm names that mark a baseline.
pub const BASELINES: [&str; 7] = [
    "baseline", "base", "before", "old", "control", "main", "master",
];

/// Options of the import command.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Arm that the others are compared with; `None` chooses by name, else the first arm.
    pub baseline: Option<String>,
    /// Metrics to judge; if empty, all that are judged by default.
    pub metrics: Vec<String>,
    /// Direction of all metrics; `None` uses the file's or guesses.
    pub direction: Option<Direction>,
    /// Treat each sample of a run as a separate run.
    pub samples_are_runs: bool,
}

/// One arm against the baseline on one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Metric name.
    pub metric: String,
    /// Unit; may be empty.
    pub unit: String,
    /// Which direction is better.
    pub direction: Direction,
    /// Where the direction comes from, in words.
    pub direction_why: String,
    /// The arm that is compared with the baseline.
    pub arm: String,
    /// Figures of both arms.
    pub layout: Layout,
}

/// Problems and remarks collected during the comparison.
#[derive(Default)]
struct Notes {
    problems: Vec<Problem>,
    remarks: BTreeSet<String>,
    left_out: LeftOut,
    /// Whether a metric was left out only because its direction is unknown.
    asks_direction: bool,
    /// Arms in which some work failed.
    failed_arms: BTreeSet<String>,
    /// Arms in which more work failed than in the baseline, where that cannot be judged.
    failing: BTreeSet<String>,
}

impl Notes {
    fn leave_out(&mut self, why: &str, metric: &str) {
        self.left_out
            .entry(why.into())
            .or_default()
            .metrics
            .insert(metric.into());
    }

    /// Whether a left-out metric contains this text in its name.
    fn is_left_out(&self, typed: &str) -> bool {
        let mut metrics = self.left_out.values().flat_map(|entry| &entry.metrics);
        metrics.any(|metric| metric.contains(typed))
    }

    /// Turns the left-out metrics into remarks.
    fn remark_left_out(&mut self) {
        for (why, left_out) in std::mem::take(&mut self.left_out) {
            let metrics: Vec<&str> = left_out.metrics.iter().map(String::as_str).collect();
            let place = match left_out.place.as_str() {
                "" => String::new(),
                place => format!(" (first in {place})"),
            };
            let remark = format!("{LEFT_OUT}, because {why}{place}: {}", few(&metrics));
            self.remarks.insert(remark);
        }
    }

    fn wrong(&mut self, file: &str, line: usize, what: String, remedy: &str) {
        let (file, remedy) = (file.into(), remedy.into());
        self.problems.push(Problem {
            file,
            line,
            what,
            remedy,
        });
    }

    fn wrong_at(&mut self, figure: &Observation, what: String, remedy: &str) {
        self.wrong(&figure.file, figure.line, what, remedy);
    }
}

/// Compares every arm with the baseline on every chosen metric.
///
/// # Errors
/// Everything that is wrong with the figures, by file and line.
pub(crate) fn compare(
    files: Vec<FileFigures>,
    options: &ImportOptions,
) -> Result<Figures, Vec<Problem>> {
    let mut notes = Notes::default();
    let first_file = files[0].file.clone();
    let mut observations = Vec::new();
    for mut file in files {
        notes.remarks.append(&mut file.remarks);
        observations.append(&mut file.observations);
        for (why, mut left_out) in file.left_out {
            let entry = notes.left_out.entry(why).or_default();
            entry.metrics.append(&mut left_out.metrics);
            if entry.place.is_empty() {
                entry.place = left_out.place;
            }
        }
    }
    let left_out = notes.left_out.values();
    let left_out: BTreeSet<&String> = left_out.flat_map(|entry| &entry.metrics).collect();
    observations.retain(|figure| !left_out.contains(&figure.metric));
    remark_failures(&observations, &mut notes);
    if options.samples_are_runs {
        take_samples_for_runs(&mut observations, &first_file, &mut notes);
    }
    let arms = distinct(observations.iter().map(|figure| figure.arm.as_str()));
    if arms.len() < 2 {
        return Err(too_few_arms(&arms, &first_file, notes));
    }
    if arms.len() > MAX_ARMS {
        let what = format!(
            "too many arms to compare, more than {MAX_ARMS}: {}",
            arms.len()
        );
        let remedy = "give two arms, or some: metrics of one arm belong into its metric column";
        notes.wrong(&first_file, 0, what, remedy);
        return Err(notes.problems);
    }
    let work = arms.len() * observations.len();
    if work > MAX_FIGURES_BY_ARMS {
        let what = format!(
            "too much to compare: {} figures of {} arms, of which the product is at most {MAX_FIGURES_BY_ARMS}",
            observations.len(),
            arms.len()
        );
        notes.wrong(&first_file, 0, what, "give fewer arms at a time");
        return Err(notes.problems);
    }
    let (baseline, baseline_why) = baseline(&arms, options, &first_file, &mut notes);
    let metrics = metrics(&observations, options, &first_file, &mut notes);
    let mut comparisons = Vec::new();
    for metric in metrics {
        let figures: Vec<&Observation> = observations
            .iter()
            .filter(|figure| figure.metric == metric)
            .collect();
        let Some((direction, direction_why)) = direction(&figures, options, &mut notes) else {
            continue;
        };
        check_units(&figures, &mut notes);
        check_signs(&figures, direction, &mut notes);
        for arm in arms.iter().filter(|arm| **arm != baseline) {
            if let Some(layout) = layout(&figures, &baseline, arm, &mut notes) {
                comparisons.push(Comparison {
                    metric: metric.clone(),
                    unit: figures[0].unit.clone(),
                    direction,
                    direction_why: direction_why.clone(),
                    arm: arm.clone(),
                    layout,
                });
            }
        }
    }
    notes.remark_left_out();
    if comparisons.is_empty() && notes.problems.is_empty() {
        let why: Vec<String> = notes.remarks.iter().cloned().collect();
        let what = format!("nothing to judge: {}", why.join("; "));
        let remedy = if notes.asks_direction {
            "add --higher-is-better or --lower-is-better, or choose with --metric NAME"
        } else {
            "repair what failed, and measure again"
        };
        notes.wrong(&first_file, 0, what, remedy);
    }
    if !notes.problems.is_empty() {
        return Err(notes.problems);
    }
    Ok(Figures {
        files: Vec::new(),
        remarks: notes.remarks.into_iter().collect(),
        baseline,
        baseline_why,
        comparisons,
        failing: notes.failing,
    })
}

fn too_few_arms(arms: &[String], file: &str, mut notes: Notes) -> Vec<Problem> {
    notes.remark_left_out();
    let what = match arms.first() {
        Some(arm) => format!("one arm only: {arm:?}"),
        None => "nothing to judge".into(),
    };
    let left_out = notes
        .remarks
        .iter()
        .filter(|remark| remark.starts_with(LEFT_OUT));
    let what = left_out.fold(what, |what, remark| format!("{what}; {remark}"));
    let remedy = "give the figures of another arm too: two files, or a column arm";
    notes.wrong(file, 0, what, remedy);
    notes.problems
}

/// Adds a remark for each arm in which work failed.
fn remark_failures(observations: &[Observation], notes: &mut Notes) {
    let mut shares = BTreeMap::<(&str, &str), Vec<f64>>::new();
    for figure in observations
        .iter()
        .filter(|figure| matches!(figure.role, Role::Failures { .. }))
    {
        shares
            .entry((&figure.metric, &figure.arm))
            .or_default()
            .push(figure.value);
    }
    for ((metric, arm), shares) in shares {
        let failed = shares.iter().filter(|share| **share > 0.0).count();
        if failed > 0 {
            notes.failed_arms.insert(arm.into());
            let largest = shares.iter().copied().fold(0.0, f64::max);
            notes.remarks.insert(format!(
                "work failed in {failed} of {} runs of {arm}: {metric}, at most {}",
                shares.len(),
                show_share(largest, 3),
            ));
        }
    }
}

fn take_samples_for_runs(observations: &mut [Observation], file: &str, notes: &mut Notes) {
    if observations.iter().all(|figure| figure.run == Run::Own) {
        let what = "--samples-are-runs does not apply: each figure is a run of its own".into();
        notes.wrong(file, 0, what, "leave it out");
    }
    let remark = "each sample is taken as a run of its own, on your word";
    notes.remarks.insert(remark.into());
    for figure in observations {
        figure.run = Run::Own;
    }
}

fn distinct<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let (mut seen, mut order) = (BTreeSet::new(), Vec::new());
    for name in names {
        if seen.insert(name) {
            order.push(name.to_string());
        }
    }
    order
}

fn baseline(
    arms: &[String],
    options: &ImportOptions,
    file: &str,
    notes: &mut Notes,
) -> (String, String) {
    if let Some(typed) = &options.baseline {
        if !arms.contains(typed) {
            let known: Vec<&str> = arms.iter().map(String::as_str).collect();
            let what = format!("--baseline is no arm: {typed:?}");
            notes.wrong(file, 0, what, &remedy_among(typed, &known));
        }
        return (typed.clone(), String::new());
    }
    match arms
        .iter()
        .find(|arm| BASELINES.contains(&arm.to_lowercase().as_str()))
    {
        Some(arm) => (
            arm.clone(),
            "by its name; --baseline chooses another".into(),
        ),
        None => (
            arms[0].clone(),
            "the first arm; --baseline chooses another".into(),
        ),
    }
}

/// The metrics to judge, in the order of the files.
fn metrics(
    observations: &[Observation],
    options: &ImportOptions,
    file: &str,
    notes: &mut Notes,
) -> Vec<String> {
    let all = distinct(observations.iter().map(|figure| figure.metric.as_str()));
    // A share of failures that is 0 everywhere decides nothing, but would use up error rate.
    let is_main = |figure: &&Observation| match figure.role {
        Role::Judged => true,
        Role::OnRequest => false,
        Role::Failures { even_zero } => even_zero || figure.value > 0.0,
    };
    let main = observations.iter().filter(is_main);
    let main = distinct(main.map(|figure| figure.metric.as_str()));
    let mut chosen = Vec::new();
    if options.metrics.is_empty() {
        let on_request = observations
            .iter()
            .filter(|figure| figure.role == Role::OnRequest);
        let on_request = distinct(on_request.map(|figure| figure.metric.as_str()));
        let on_request: Vec<&str> = on_request.iter().map(String::as_str).collect();
        if !on_request.is_empty() {
            let remark = format!(
                "judged only when asked for with --metric: {}",
                few(&on_request)
            );
            notes.remarks.insert(remark);
        }
        chosen = if main.is_empty() { all } else { main };
    } else {
        for typed in &options.metrics {
            let matching: Vec<String> = if all.contains(typed) {
                vec![typed.clone()]
            } else {
                all.iter()
                    .filter(|name| name.contains(typed))
                    .cloned()
                    .collect()
            };
            if matching.is_empty() && notes.is_left_out(typed) {
                continue;
            }
            if matching.is_empty() {
                let known: Vec<&str> = all.iter().map(String::as_str).take(20).collect();
                let what = format!("--metric is in no file: {typed:?}");
                notes.wrong(file, 0, what, &remedy_among(typed, &known));
            }
            chosen.extend(matching);
        }
    }
    if chosen.len() > MAX_METRICS {
        let what = format!(
            "too many metrics to judge together, more than {MAX_METRICS}: {}",
            chosen.len()
        );
        let remedy = "choose with --metric NAME, a part of a name will do; metrics share the error \
                      rate, so each one more makes every verdict harder";
        notes.wrong(file, 0, what, remedy);
        chosen.clear();
    }
    chosen
}

/// A list of at most five names; the rest are counted.
fn few(names: &[&str]) -> String {
    match names.len() {
        0..=6 => names.join(", "),
        count => format!("{} and {} more", names[..5].join(", "), count - 5),
    }
}

fn direction(
    figures: &[&Observation],
    options: &ImportOptions,
    notes: &mut Notes,
) -> Option<Known> {
    let first = figures[0];
    if matches!(first.role, Role::Failures { .. }) {
        return Some((Direction::Lower, "as failures are".into()));
    }
    let mut directed = figures.iter().filter(|figure| figure.direction.is_some());
    let by_file = directed.next();
    if let Some(by_file) = by_file
        && let Some(other) = directed.find(|figure| figure.direction != by_file.direction)
    {
        let what = format!(
            "the other direction than in line {}: {}",
            by_file.line, other.metric
        );
        notes.wrong_at(other, what, "one metric has one direction");
    }
    if let Some(direction) = options.direction {
        return Some((direction, "as you say".into()));
    }
    if let Some(direction) = by_file.and_then(|figure| figure.direction) {
        return Some((direction, "as the file says".into()));
    }
    let name = first.quantity.as_ref().unwrap_or(&first.metric);
    let why = match metric_direction::guess(name, &first.unit) {
        Guess::Known(known) => return Some(known),
        Guess::Contradiction => {
            "its name and its unit say different things about which way is better"
        }
        Guess::Unknown => "which way is better is not known",
    };
    notes.asks_direction = true;
    notes.leave_out(why, &first.metric);
    None
}

fn check_units(figures: &[&Observation], notes: &mut Notes) {
    let first = figures[0];
    if let Some(other) = figures.iter().find(|figure| figure.unit != first.unit) {
        let what = format!(
            "another unit for {} than {:?} of {}:{}: {:?}",
            first.metric, first.unit, first.file, first.line, other.unit
        );
        notes.wrong_at(other, what, "convert all figures of a metric to one unit");
    }
}

/// A ratio needs figures above zero. Counts and times may be zero; no figure may be negative.
fn check_signs(figures: &[&Observation], direction: Direction, notes: &mut Notes) {
    for figure in figures {
        let (what, remedy) = match direction {
            Direction::Higher if figure.value <= 0.0 => (
                "zero or negative",
                "a run that served nothing has failed: leave its block out",
            ),
            Direction::Lower if figure.value < 0.0 => ("negative", "repair the measurement"),
            Direction::Higher | Direction::Lower => continue,
        };
        let what = format!("{what} {}: {}", figure.metric, figure.value);
        notes.wrong_at(figure, what, remedy);
    }
}

fn layout(
    figures: &[&Observation],
    baseline: &str,
    arm: &str,
    notes: &mut Notes,
) -> Option<Layout> {
    let figures_of = |name: &str| -> Vec<&Observation> {
        let mine = figures.iter().filter(|figure| figure.arm == name);
        mine.copied().collect()
    };
    let (base, other) = (figures_of(baseline), figures_of(arm));
    if base.is_empty() || other.is_empty() {
        let lacking = if base.is_empty() { baseline } else { arm };
        notes.leave_out(&format!("{lacking} has no figure"), &figures[0].metric);
        return None;
    }
    if base.len().max(other.len()) > MAX_FIGURES {
        let what = format!(
            "more than {MAX_FIGURES} figures of one arm: {}",
            base[0].metric
        );
        let remedy = "give one figure per run, not one per request";
        notes.wrong_at(base[0], what, remedy);
        return None;
    }
    let both = || base.iter().chain(&other);
    if both().all(|figure| figure.block.is_none()) {
        return unpaired(&base, &other, notes);
    }
    for figure in both().filter(|figure| figure.block.is_none()) {
        let what = format!(
            "no block, where other figures of {} have one",
            figure.metric
        );
        notes.wrong_at(figure, what, "write its block, or take the column out");
    }
    Some(blocks(&base, baseline, &other, arm, notes))
}

fn unpaired(base: &[&Observation], other: &[&Observation], notes: &mut Notes) -> Option<Layout> {
    let (base_runs, other_runs) = (runs(base), runs(other));
    let has_samples = base.len().max(other.len()) > base_runs.len().max(other_runs.len());
    let is_one_run = base_runs.len().min(other_runs.len()) == 1;
    if is_one_run && base[0].role == (Role::Failures { even_zero: false }) {
        notes.leave_out(
            "one run of an arm has no noise to judge by",
            &base[0].metric,
        );
        let largest = |figures: &[&Observation]| values(figures).into_iter().fold(0.0, f64::max);
        if largest(other) > largest(base) {
            notes.failing.insert(other[0].arm.clone());
        }
        return None;
    }
    for (runs, figures) in [(&base_runs, base), (&other_runs, other)] {
        if runs.len() == 1 && !has_samples {
            if notes.failed_arms.contains(&figures[0].arm) {
                let why = format!("one run only of {} did not fail", figures[0].arm);
                notes.leave_out(&why, &figures[0].metric);
                return None;
            }
            let what = format!("one run only of {}: {}", figures[0].arm, figures[0].metric);
            notes.wrong_at(
                figures[0],
                what,
                "one run has no noise to judge by; add more",
            );
        }
    }
    if has_samples && is_one_run {
        let (baseline, arm) = (values(base), values(other));
        return Some(Layout::OneRun { baseline, arm });
    }
    if has_samples {
        let remark = "samples inside a run are no repetitions: the median of each run is judged";
        notes.remarks.insert(remark.into());
    }
    let medians = |runs: Vec<Vec<f64>>| runs.into_iter().map(median).collect();
    Some(Layout::Unpaired {
        baseline: medians(base_runs),
        arm: medians(other_runs),
    })
}

fn values(figures: &[&Observation]) -> Vec<f64> {
    figures.iter().map(|figure| figure.value).collect()
}

/// The samples of each run, with runs in the order of the file.
fn runs(figures: &[&Observation]) -> Vec<Vec<f64>> {
    let (mut place, mut runs) = (BTreeMap::new(), Vec::<Vec<f64>>::new());
    for figure in figures {
        match &figure.run {
            Run::Own => runs.push(vec![figure.value]),
            Run::Within(run) => {
                let index = *place.entry(run).or_insert_with(|| {
                    runs.push(Vec::new());
                    runs.len() - 1
                });
                runs[index].push(figure.value);
            }
        }
    }
    runs
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() % 2 {
        1 => values[half],
        _ => f64::midpoint(values[half - 1], values[half]),
    }
}

fn blocks(
    base: &[&Observation],
    baseline: &str,
    other: &[&Observation],
    arm: &str,
    notes: &mut Notes,
) -> Layout {
    let both = base.iter().chain(other);
    let names = distinct(both.filter_map(|figure| figure.block.as_deref()));
    let (base_blocks, other_blocks) = (by_block(base), by_block(other));
    let (mut pairs, mut is_known) = (Vec::new(), true);
    for (index, name) in names.iter().enumerate() {
        let in_base = base_blocks.get(name.as_str());
        let in_other = other_blocks.get(name.as_str());
        let (Some(base), Some(other)) = (in_base, in_other) else {
            let lacking = if in_base.is_some() { arm } else { baseline };
            if notes.failed_arms.contains(lacking) {
                let remark = format!("block {name} is left out, because {lacking} failed in it");
                notes.remarks.insert(remark);
                continue;
            }
            let present = in_base.or(in_other);
            let there = present.expect("a block is named by a figure")[0];
            let what = format!("no {} of {lacking} in block {name}", there.metric);
            notes.wrong_at(there, what, "add it, or take the block out");
            continue;
        };
        if base.len() > 1 || other.len() > 1 {
            let remark = "several figures of one arm and block are samples: their median is judged";
            notes.remarks.insert(remark.into());
        }
        let (first, second) = (base[0], other[0]);
        is_known &= first.slot.is_some() && second.slot.is_some();
        if is_known && first.slot == second.slot {
            let what = format!("both arms at one place of block {name}");
            let remedy = "the arm that ran first has the smaller slot";
            notes.wrong_at(second, what, remedy);
        }
        pairs.push(Pair {
            block: index as u32 + 1,
            baseline: median(values(base)),
            arm: median(values(other)),
            arm_first: second.slot < first.slot,
        });
    }
    if let [name] = &names[..] {
        let what = format!("one block only: {name}");
        let remedy = "one block has no noise to judge by; add more";
        notes.wrong_at(base[0], what, remedy);
    }
    let order = if is_known {
        ArmOrder::of(&pairs)
    } else {
        ArmOrder::Unknown
    };
    Layout::Blocks { pairs, order }
}

fn by_block<'r>(figures: &[&'r Observation]) -> BTreeMap<&'r str, Vec<&'r Observation>> {
    let mut blocks = BTreeMap::<_, Vec<_>>::new();
    for figure in figures {
        if let Some(block) = &figure.block {
            blocks.entry(block.as_str()).or_default().push(*figure);
        }
    }
    blocks
}
