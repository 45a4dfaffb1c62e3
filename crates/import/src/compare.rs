//! Readings of all files in, comparisons out: this arm against the baseline, on this metric.

use std::collections::{BTreeMap, BTreeSet};

use input::problem::Problem;
use input::problem::remedy_among;
use record::metric::Direction;
use record::verdict::Pair;

use super::Figures;
use crate::layout::{ArmOrder, Layout};
use crate::metric_direction::{self, Known};
use crate::observation::{FileFigures, Observation, Run};

/// Metrics judged together: they share the error rate, and each one more makes every verdict harder.
const METRICS: usize = 100;

/// Figures of an arm and metric: their differences are taken each with each.
const FIGURES: usize = 2000;

/// Names that a baseline is likely to have.
pub const BASELINES: [&str; 7] = [
    "baseline", "base", "before", "old", "control", "main", "master",
];

/// What the user options for.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// The arm that the others are compared with.
    pub baseline: Option<String>,
    /// The metrics to judge; all usual ones where there are none.
    pub metrics: Vec<String>,
    /// Which way is better for all of them.
    pub direction: Option<Direction>,
    /// Take each sample of a run as a run of its own, on the user's word.
    pub samples_are_runs: bool,
}

/// One arm against the baseline on one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The metric.
    pub metric: String,
    /// Its unit; may be empty.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// How that is known.
    pub direction_why: String,
    /// The arm that is compared with the baseline.
    pub arm: String,
    /// The figures.
    pub layout: Layout,
}

/// What is found out on the way.
#[derive(Default)]
struct Notes {
    problems: Vec<Problem>,
    remarks: BTreeSet<String>,
    /// Metrics that are left out, by the reason.
    left_out: BTreeMap<String, BTreeSet<String>>,
}

impl Notes {
    fn leave_out(&mut self, why: &str, metric: &str) {
        self.left_out
            .entry(why.into())
            .or_default()
            .insert(metric.into());
    }

    fn wrong(&mut self, (file, line): (&str, usize), what: String, remedy: &str) {
        let (file, remedy) = (file.into(), remedy.into());
        self.problems.push(Problem {
            file,
            line,
            what,
            remedy,
        });
    }
}

/// Asks all comparisons that the files can be options.
pub(crate) fn compare(
    files: Vec<FileFigures>,
    options: &ImportOptions,
) -> Result<Figures, Vec<Problem>> {
    let mut notes = Notes::default();
    let file = files[0].file.clone();
    let mut observations = Vec::new();
    for mut found in files {
        notes.remarks.append(&mut found.remarks);
        observations.append(&mut found.observations);
    }
    if options.samples_are_runs {
        take_samples_for_runs(&mut observations, &file, &mut notes);
    }
    let arms = in_order(
        observations
            .iter()
            .map(|observation| observation.arm.as_str()),
    );
    let (baseline, baseline_why) = baseline(&arms, options, &file, &mut notes);
    let metrics = metrics(&observations, options, &file, &mut notes);
    let mut comparisons = Vec::new();
    for metric in metrics {
        let its: Vec<&Observation> = observations
            .iter()
            .filter(|one| one.metric == metric)
            .collect();
        let Some((direction, direction_why)) = direction(&its, options, &mut notes) else {
            continue;
        };
        check_units(&its, &mut notes);
        check_signs(&its, direction, &mut notes);
        for arm in arms.iter().filter(|arm| **arm != baseline) {
            if let Some(layout) = layout(&its, (&baseline, arm), &mut notes) {
                comparisons.push(Comparison {
                    metric: metric.clone(),
                    unit: its[0].unit.clone(),
                    direction,
                    direction_why: direction_why.clone(),
                    arm: arm.clone(),
                    layout,
                });
            }
        }
    }
    for (why, metrics) in std::mem::take(&mut notes.left_out) {
        let metrics: Vec<&str> = metrics.iter().map(String::as_str).collect();
        notes
            .remarks
            .insert(format!("left out, because {why}: {}", few(&metrics)));
    }
    if comparisons.is_empty() && notes.problems.is_empty() {
        let why: Vec<String> = notes.remarks.iter().cloned().collect();
        let what = format!("nothing to judge: {}", why.join("; "));
        let remedy = "add --higher-is-better or --lower-is-better, or choose with --metric NAME";
        notes.wrong((&file, 0), what, remedy);
    }
    if !notes.problems.is_empty() {
        return Err(notes.problems);
    }
    let remarks = notes.remarks.into_iter().collect();
    Ok(Figures {
        files: Vec::new(),
        remarks,
        baseline,
        baseline_why,
        comparisons,
    })
}

fn take_samples_for_runs(observations: &mut [Observation], file: &str, notes: &mut Notes) {
    if observations.iter().all(|one| one.run == Run::Own) {
        let what = "--samples-are-runs does not apply: each figure is a run of its own".into();
        notes.wrong((file, 0), what, "leave it out");
    }
    let remark = "each sample is taken as a run of its own, on your word";
    notes.remarks.insert(remark.into());
    for observation in observations {
        observation.run = Run::Own;
    }
}

fn in_order<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
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
    if let [arm] = arms {
        let remedy = "give the figures of another arm too: two files, or a column arm";
        notes.wrong((file, 0), format!("one arm only: {arm:?}"), remedy);
    }
    if let Some(typed) = &options.baseline {
        if !arms.contains(typed) {
            let known: Vec<&str> = arms.iter().map(String::as_str).collect();
            let what = format!("--baseline is no arm: {typed:?}");
            notes.wrong((file, 0), what, &remedy_among(typed, &known));
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
    let all = in_order(
        observations
            .iter()
            .map(|observation| observation.metric.as_str()),
    );
    let main = observations
        .iter()
        .filter(|one| !one.aside)
        .map(|one| one.metric.as_str());
    let main = in_order(main);
    let mut chosen = Vec::new();
    if options.metrics.is_empty() {
        let aside: Vec<&str> = all
            .iter()
            .map(String::as_str)
            .filter(|one| !main.iter().any(|m| m == one))
            .collect();
        if !aside.is_empty() {
            notes.remarks.insert(format!(
                "judged only when options for with --metric: {}",
                few(&aside)
            ));
        }
        chosen = if main.is_empty() { all } else { main };
    } else {
        for typed in &options.metrics {
            let found: Vec<String> = if all.contains(typed) {
                vec![typed.clone()]
            } else {
                all.iter()
                    .filter(|name| name.contains(typed))
                    .cloned()
                    .collect()
            };
            if found.is_empty() {
                let known: Vec<&str> = all.iter().map(String::as_str).take(20).collect();
                let what = format!("--metric is in no file: {typed:?}");
                notes.wrong((file, 0), what, &remedy_among(typed, &known));
            }
            chosen.extend(found);
        }
    }
    if chosen.len() > METRICS {
        let what = format!(
            "too many metrics to judge together, more than {METRICS}: {}",
            chosen.len()
        );
        let remedy = "choose with --metric NAME, a part of a name will do; metrics share the error \
                      rate, so each one more makes every verdict harder";
        notes.wrong((file, 0), what, remedy);
        chosen.clear();
    }
    chosen
}

/// A list that stays readable.
fn few(names: &[&str]) -> String {
    match names.len() {
        0..=6 => names.join(", "),
        count => format!("{} and {} more", names[..5].join(", "), count - 5),
    }
}

fn direction(its: &[&Observation], options: &ImportOptions, notes: &mut Notes) -> Option<Known> {
    let said: Vec<&&Observation> = its.iter().filter(|one| one.direction.is_some()).collect();
    if let Some(other) = said.iter().find(|one| one.direction != said[0].direction) {
        let what = format!(
            "the other direction than in line {}: {}",
            said[0].line, other.metric
        );
        notes.wrong(
            (&other.file, other.line),
            what,
            "one metric has one direction",
        );
    }
    let typed = options
        .direction
        .map(|direction| (direction, "as you say".to_string()));
    let told = said.first().and_then(|one| one.direction);
    let known = typed
        .or(told.map(|direction| (direction, "as the file says".to_string())))
        .or_else(|| metric_direction::guess(&its[0].metric, &its[0].unit));
    if known.is_none() {
        notes.leave_out("which way is better is not known", &its[0].metric);
    }
    known
}

fn check_units(its: &[&Observation], notes: &mut Notes) {
    let first = its[0];
    if let Some(other) = its.iter().find(|one| one.unit != first.unit) {
        let what = format!(
            "another unit for {} than {:?} of {}:{}: {:?}",
            first.metric, first.unit, first.file, first.line, other.unit
        );
        notes.wrong(
            (&other.file, other.line),
            what,
            "convert all figures of a metric to one unit",
        );
    }
}

/// A ratio needs figures above zero; counts and times may be zero, nothing may be below.
fn check_signs(its: &[&Observation], direction: Direction, notes: &mut Notes) {
    for one in its {
        let (what, remedy) = match direction {
            Direction::Higher if one.value <= 0.0 => (
                "zero or negative",
                "a run that served nothing has failed: leave its block out",
            ),
            Direction::Lower if one.value < 0.0 => ("negative", "repair the measurement"),
            Direction::Higher | Direction::Lower => continue,
        };
        let what = format!("{what} {}: {}", one.metric, one.value);
        notes.wrong((&one.file, one.line), what, remedy);
    }
}

fn layout(
    its: &[&Observation],
    (baseline, arm): (&str, &str),
    notes: &mut Notes,
) -> Option<Layout> {
    let of = |name: &str| -> Vec<&Observation> {
        its.iter().filter(|one| one.arm == name).copied().collect()
    };
    let (base, other) = (of(baseline), of(arm));
    if base.is_empty() || other.is_empty() {
        let lacking = if base.is_empty() { baseline } else { arm };
        notes.leave_out(&format!("{lacking} has no figure"), &its[0].metric);
        return None;
    }
    if base.len().max(other.len()) > FIGURES {
        let what = format!("more than {FIGURES} figures of one arm: {}", base[0].metric);
        let remedy = "give one figure per run, not one per request";
        notes.wrong((&base[0].file, base[0].line), what, remedy);
        return None;
    }
    let both = || base.iter().chain(&other);
    if both().all(|one| one.block.is_none()) {
        return Some(loose(&base, &other, notes));
    }
    for one in both().filter(|one| one.block.is_none()) {
        let what = format!("no block, where other figures of {} have one", one.metric);
        notes.wrong(
            (&one.file, one.line),
            what,
            "write its block, or take the column out",
        );
    }
    Some(blocks((&base, baseline), (&other, arm), notes))
}

fn loose(base: &[&Observation], other: &[&Observation], notes: &mut Notes) -> Layout {
    let (base_runs, other_runs) = (runs(base), runs(other));
    let inner = base.len().max(other.len()) > base_runs.len().max(other_runs.len());
    for (runs, its) in [(&base_runs, base), (&other_runs, other)] {
        if runs.len() == 1 && !inner {
            let what = format!("one run only of {}: {}", its[0].arm, its[0].metric);
            notes.wrong(
                (&its[0].file, its[0].line),
                what,
                "one run has no noise to judge by; add more",
            );
        }
    }
    if inner && base_runs.len().min(other_runs.len()) == 1 {
        let figures = |its: &[&Observation]| its.iter().map(|one| one.value).collect();
        let (baseline, arm): (Vec<f64>, Vec<f64>) = (figures(base), figures(other));
        if baseline.len() > 2 && baseline == arm && scatters(&arm) {
            let what = format!("the same samples as of {}: {}", base[0].arm, base[0].metric);
            let remedy = "criterion copies new to base when it ends; keep each run with --save-baseline NAME";
            notes.wrong((&other[0].file, other[0].line), what, remedy);
        }
        return Layout::OneRun { baseline, arm };
    }
    if inner {
        let remark = "samples inside a run are no repetitions: the median of each run is judged";
        notes.remarks.insert(remark.into());
    }
    let median = |runs: Vec<Vec<f64>>| runs.into_iter().map(median).collect();
    Layout::Unpaired {
        baseline: median(base_runs),
        arm: median(other_runs),
    }
}

fn scatters(values: &[f64]) -> bool {
    values
        .windows(2)
        .any(|two| two[0].total_cmp(&two[1]).is_ne())
}

/// The samples of each run, runs in the order of the file.
fn runs(its: &[&Observation]) -> Vec<Vec<f64>> {
    let (mut place, mut runs) = (BTreeMap::new(), Vec::<Vec<f64>>::new());
    for one in its {
        match &one.run {
            Run::Own => runs.push(vec![one.value]),
            Run::Within(run) => {
                let index = *place.entry(run).or_insert_with(|| {
                    runs.push(Vec::new());
                    runs.len() - 1
                });
                runs[index].push(one.value);
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
    (base, baseline): (&[&Observation], &str),
    (other, arm): (&[&Observation], &str),
    notes: &mut Notes,
) -> Layout {
    let names = in_order(
        base.iter()
            .chain(other)
            .filter_map(|one| one.block.as_deref()),
    );
    let (base_blocks, other_blocks) = (by_block(base), by_block(other));
    let (mut pairs, mut is_known) = (Vec::new(), true);
    for (index, name) in names.iter().enumerate() {
        let found = (
            base_blocks.get(name.as_str()),
            other_blocks.get(name.as_str()),
        );
        let (Some(one), Some(two)) = found else {
            let (there, lacking) = found.0.map_or((found.1, baseline), |one| (Some(one), arm));
            let there = there.expect("a block is named by a figure")[0];
            let what = format!("no {} of {lacking} in block {name}", there.metric);
            notes.wrong(
                (&there.file, there.line),
                what,
                "add it, or take the block out",
            );
            continue;
        };
        if one.len() > 1 || two.len() > 1 {
            let remark = "several figures of one arm and block are samples: their median is judged";
            notes.remarks.insert(remark.into());
        }
        let (first, second) = (one[0], two[0]);
        is_known &= first.slot.is_some() && second.slot.is_some();
        if is_known && first.slot == second.slot {
            let what = format!("both arms at one place of block {name}");
            let remedy = "the arm that ran first has the smaller slot";
            notes.wrong((&second.file, second.line), what, remedy);
        }
        let value = |its: &[&Observation]| median(its.iter().map(|one| one.value).collect());
        pairs.push(Pair {
            block: index as u32 + 1,
            baseline: value(one),
            arm: value(two),
            arm_first: second.slot < first.slot,
        });
    }
    if let [name] = &names[..] {
        let what = format!("one block only: {name}");
        let remedy = "one block has no noise to judge by; add more";
        notes.wrong((&base[0].file, base[0].line), what, remedy);
    }
    let order = if is_known {
        ArmOrder::of(&pairs)
    } else {
        ArmOrder::Unknown
    };
    Layout::Blocks { pairs, order }
}

fn by_block<'r>(its: &[&'r Observation]) -> BTreeMap<&'r str, Vec<&'r Observation>> {
    let mut blocks = BTreeMap::<_, Vec<_>>::new();
    for one in its {
        if let Some(block) = &one.block {
            blocks.entry(block.as_str()).or_default().push(*one);
        }
    }
    blocks
}
