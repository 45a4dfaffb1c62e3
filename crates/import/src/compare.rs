//! Readings of all files in, comparisons out: this arm against the baseline, on this metric.

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

/// Metrics judged together: they share the error rate, and each one more makes every verdict harder.
const METRICS: usize = 100;

/// Figures of an arm and metric: their differences are taken each with each.
const FIGURES: usize = 2000;

/// Figures times arms, at most: each arm is drawn anew some thousand times.
const MOST_FIGURES_BY_ARMS: usize = 1_000_000;

/// Arms compared with one baseline: they share the error rate too.
const ARMS: usize = 100;

/// How a remark begins that names what is not judged.
const LEFT_OUT: &str = "left out";

/// Names that a baseline is likely to have.
pub const BASELINES: [&str; 7] = [
    "baseline", "base", "before", "old", "control", "main", "master",
];

/// What the user asks for.
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
    left_out: LeftOut,
    /// Whether something was left out for want of a direction alone.
    asks_direction: bool,
    /// Arms of which some work failed.
    failed_arms: BTreeSet<String>,
    /// Arms of which more work failed than of the baseline, where that cannot be judged.
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

    /// Whether a metric of that name, or of that part of a name, is left out.
    fn is_left_out(&self, typed: &str) -> bool {
        let left_out = self.left_out.values().flat_map(|one| &one.metrics);
        left_out.into_iter().any(|metric| metric.contains(typed))
    }

    /// Turns what is left out into remarks.
    fn tell_left_out(&mut self) {
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

/// All comparisons that the files can be asked for.
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
        for (why, mut found) in found.left_out {
            let known = notes.left_out.entry(why).or_default();
            known.metrics.append(&mut found.metrics);
            if known.place.is_empty() {
                known.place = found.place;
            }
        }
    }
    let left_out = notes.left_out.values();
    let left_out: BTreeSet<&String> = left_out.flat_map(|one| &one.metrics).collect();
    observations.retain(|one| !left_out.contains(&one.metric));
    failures(&observations, &mut notes);
    if options.samples_are_runs {
        take_samples_for_runs(&mut observations, &file, &mut notes);
    }
    let arms = in_order(observations.iter().map(|one| one.arm.as_str()));
    if arms.len() < 2 {
        return Err(too_few_arms(&arms, &file, notes));
    }
    if arms.len() > ARMS {
        let what = format!("too many arms to compare, more than {ARMS}: {}", arms.len());
        let remedy = "give two arms, or some: metrics of one arm belong into its metric column";
        notes.wrong((&file, 0), what, remedy);
        return Err(notes.problems);
    }
    let work = arms.len() * observations.len();
    if work > MOST_FIGURES_BY_ARMS {
        let what = format!(
            "too much to compare: {} figures of {} arms, of which the product is at most {MOST_FIGURES_BY_ARMS}",
            observations.len(),
            arms.len()
        );
        notes.wrong((&file, 0), what, "give fewer arms at a time");
        return Err(notes.problems);
    }
    let (baseline, baseline_why) = baseline(&arms, options, &file, &mut notes);
    let metrics = metrics(&observations, options, &file, &mut notes);
    let mut comparisons = Vec::new();
    for metric in metrics {
        let of_metric: Vec<&Observation> = observations
            .iter()
            .filter(|one| one.metric == metric)
            .collect();
        let Some((direction, direction_why)) = direction(&of_metric, options, &mut notes) else {
            continue;
        };
        check_units(&of_metric, &mut notes);
        check_signs(&of_metric, direction, &mut notes);
        for arm in arms.iter().filter(|arm| **arm != baseline) {
            if let Some(layout) = layout(&of_metric, (&baseline, arm), &mut notes) {
                comparisons.push(Comparison {
                    metric: metric.clone(),
                    unit: of_metric[0].unit.clone(),
                    direction,
                    direction_why: direction_why.clone(),
                    arm: arm.clone(),
                    layout,
                });
            }
        }
    }
    notes.tell_left_out();
    if comparisons.is_empty() && notes.problems.is_empty() {
        let why: Vec<String> = notes.remarks.iter().cloned().collect();
        let what = format!("nothing to judge: {}", why.join("; "));
        let remedy = if notes.asks_direction {
            "add --higher-is-better or --lower-is-better, or choose with --metric NAME"
        } else {
            "repair what failed, and measure again"
        };
        notes.wrong((&file, 0), what, remedy);
    }
    if !notes.problems.is_empty() {
        return Err(notes.problems);
    }
    let remarks = notes.remarks.into_iter().collect();
    let failing = notes.failing;
    Ok(Figures {
        files: Vec::new(),
        remarks,
        baseline,
        baseline_why,
        comparisons,
        failing,
    })
}

fn too_few_arms(arms: &[String], file: &str, mut notes: Notes) -> Vec<Problem> {
    notes.tell_left_out();
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
    notes.wrong((file, 0), what, remedy);
    notes.problems
}

/// Warns of each arm in which work failed.
fn failures(observations: &[Observation], notes: &mut Notes) {
    let mut shares = BTreeMap::<(&str, &str), Vec<f64>>::new();
    for one in observations
        .iter()
        .filter(|one| matches!(one.role, Role::Failures { .. }))
    {
        shares
            .entry((&one.metric, &one.arm))
            .or_default()
            .push(one.value);
    }
    for ((metric, arm), shares) in shares {
        let failed = shares.iter().filter(|share| **share > 0.0).count();
        if failed > 0 {
            notes.failed_arms.insert(arm.into());
            let most = shares.iter().copied().fold(0.0, f64::max);
            notes.remarks.insert(format!(
                "work failed in {failed} of {} runs of {arm}: {metric}, at most {}",
                shares.len(),
                show_share(most, 3),
            ));
        }
    }
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
    let all = in_order(observations.iter().map(|one| one.metric.as_str()));
    // A share of failures that is 0 everywhere decides nothing, and would take a part of the error rate.
    let is_main = |one: &&Observation| match one.role {
        Role::Judged => true,
        Role::OnRequest => false,
        Role::Failures { even_zero } => even_zero || one.value > 0.0,
    };
    let main = observations.iter().filter(is_main);
    let main = in_order(main.map(|one| one.metric.as_str()));
    let mut chosen = Vec::new();
    if options.metrics.is_empty() {
        let aside = observations
            .iter()
            .filter(|one| one.role == Role::OnRequest);
        let aside = in_order(aside.map(|one| one.metric.as_str()));
        let aside: Vec<&str> = aside.iter().map(String::as_str).collect();
        if !aside.is_empty() {
            let remark = format!("judged only when asked for with --metric: {}", few(&aside));
            notes.remarks.insert(remark);
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
            if found.is_empty() && notes.is_left_out(typed) {
                continue;
            }
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

fn direction(
    figures: &[&Observation],
    options: &ImportOptions,
    notes: &mut Notes,
) -> Option<Known> {
    let first = figures[0];
    if matches!(first.role, Role::Failures { .. }) {
        return Some((Direction::Lower, "as failures are".into()));
    }
    let mut told = figures.iter().filter(|one| one.direction.is_some());
    let by_file = told.next();
    if let Some(by_file) = by_file
        && let Some(other) = told.find(|one| one.direction != by_file.direction)
    {
        let what = format!(
            "the other direction than in line {}: {}",
            by_file.line, other.metric
        );
        let place = (other.file.as_str(), other.line);
        notes.wrong(place, what, "one metric has one direction");
    }
    if let Some(direction) = options.direction {
        return Some((direction, "as you say".into()));
    }
    if let Some(direction) = by_file.and_then(|one| one.direction) {
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
        return loose(&base, &other, notes);
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

fn loose(base: &[&Observation], other: &[&Observation], notes: &mut Notes) -> Option<Layout> {
    let (base_runs, other_runs) = (runs(base), runs(other));
    let inner = base.len().max(other.len()) > base_runs.len().max(other_runs.len());
    let is_one = base_runs.len().min(other_runs.len()) == 1;
    if is_one && base[0].role == (Role::Failures { even_zero: false }) {
        notes.leave_out(
            "one run of an arm has no noise to judge by",
            &base[0].metric,
        );
        let most = |its: &[&Observation]| its.iter().map(|one| one.value).fold(0.0, f64::max);
        if most(other) > most(base) {
            notes.failing.insert(other[0].arm.clone());
        }
        return None;
    }
    for (runs, its) in [(&base_runs, base), (&other_runs, other)] {
        if runs.len() == 1 && !inner {
            if notes.failed_arms.contains(&its[0].arm) {
                let why = format!("one run only of {} did not fail", its[0].arm);
                notes.leave_out(&why, &its[0].metric);
                return None;
            }
            let what = format!("one run only of {}: {}", its[0].arm, its[0].metric);
            notes.wrong(
                (&its[0].file, its[0].line),
                what,
                "one run has no noise to judge by; add more",
            );
        }
    }
    if inner && is_one {
        let figures = |its: &[&Observation]| its.iter().map(|one| one.value).collect();
        let (baseline, arm): (Vec<f64>, Vec<f64>) = (figures(base), figures(other));
        return Some(Layout::OneRun { baseline, arm });
    }
    if inner {
        let remark = "samples inside a run are no repetitions: the median of each run is judged";
        notes.remarks.insert(remark.into());
    }
    let median = |runs: Vec<Vec<f64>>| runs.into_iter().map(median).collect();
    Some(Layout::Unpaired {
        baseline: median(base_runs),
        arm: median(other_runs),
    })
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
            if notes.failed_arms.contains(lacking) {
                let remark = format!("block {name} is left out, because {lacking} failed in it");
                notes.remarks.insert(remark);
                continue;
            }
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
