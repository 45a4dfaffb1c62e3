//! A night of several plans: what of its verdicts stands when all of them are counted, and how metrics change over nights and versions.
//!
//! ```text
//! run                  -> summary    its comparisons, the p-value of each primary metric, its line of versions (`p_value`, `bisect::walk`)
//! summaries of a night -> family     regressions by false discovery rate, the gate by family-wise error rate (`multiplicity`)
//! summaries of nights  -> trends     ratios to each night's own baseline, and their changes (`change_points`)
//! ```
//! Only ratios to a baseline of the same run are set beside each other: a figure of one night and one of another differ by all that a
//! machine did in between.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use plan::Arm;
use record::bisect::{Walk, WalkMetric};
use record::fact;
use record::metric::{Direction, MetricSpec, Role};
use record::night::{
    Along, Beside, Compared, Index, NightName, NightStanding, PlanSummary, RunSummary, Trend,
    TrendChange, TrendPoint, VERSION,
};
use record::rundir::Run;
use record::verdict::{Comparison, Conclusion, Headline, Judgement, Verdict};

use crate::topics::bisect::find::walk;
use crate::topics::night::p_value;
use crate::topics::night::p_value::PValues;
use stats::average::median;
use stats::change_points::{change_points, fewest};
use stats::multiplicity::{benjamini_hochberg, holm};

/// Versions of the shortest line that is walked.
const SHORTEST_LINE: usize = 3;

/// The error rates of a night.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Chance that the gate trips on any comparison whose arm is not worse.
    pub gate: f64,
    /// Share of false ones in a list that is accepted on average.
    pub fdr: f64,
}

/// A night: its name, when it began, its plans.
#[derive(Debug, Clone, PartialEq)]
pub struct OfNight {
    /// Its directory's name.
    pub name: String,
    /// When it was to be run, where no run of it says so.
    pub noted: String,
    /// The plans, in their order.
    pub plans: Vec<PlanSummary>,
}

impl OfNight {
    /// When its first run began. A night whose plans all failed is one of its own time too.
    pub fn begun(&self) -> &str {
        let runs = self.plans.iter().filter_map(|plan| plan.run.as_ref());
        let begun = runs.map(|run| run.begun.as_str());
        begun.min().unwrap_or(&self.noted)
    }
}

/// What is kept of a run; `machine` says in words what it ran on. What gates say of it is for others to add.
pub fn summary(run: &Run, judgement: &Judgement, machine: String) -> RunSummary {
    let kernels = kernels(run);
    let design = &run.plan.design;
    let compared = judgement.comparisons.iter();
    let compared = compared.map(|one| compared_of(run, judgement, &kernels, one));
    let blocks = judgement.primaries().map(|one| one.blocks).max();
    let input = |name: &str| run.opening.inputs.get(name).cloned().unwrap_or_default();
    RunSummary {
        title: run.plan.title.clone(),
        begun: run
            .entries
            .first()
            .map_or(String::new(), |entry| entry.at.clone()),
        journal_sha256: run.journal_sha256.clone().unwrap_or_default(),
        plan_sha256: input("plan"),
        machine,
        baseline: run.plan.baseline.clone(),
        baseline_kernel: kernels.get(run.plan.baseline.as_str()).cloned(),
        margin: design.margin,
        error_rate: design.error_rate,
        blocks: blocks.unwrap_or(0),
        max_blocks: design.most_blocks(),
        failures: Vec::new(),
        unanswered: Vec::new(),
        comparisons: compared.collect(),
        walk: line(run, &kernels).map(|line| walk::walk(run, &line)),
    }
}

fn compared_of(
    run: &Run,
    judgement: &Judgement,
    kernels: &BTreeMap<&str, String>,
    one: &Comparison,
) -> Compared {
    let is_its =
        |headline: &&Headline| headline.workload == one.workload && headline.arm == one.arm;
    let headline = judgement.headlines.iter().find(is_its);
    let is_primary = one.spec.role == Role::Primary;
    let is_fair =
        headline.is_some_and(|its| !matches!(its.conclusion, Conclusion::Withheld { .. }));
    let p_values = if is_primary && is_fair {
        let is_beside = |other: &Comparison| {
            let is_same = other.workload == one.workload && other.arm == one.arm;
            is_same && other.spec.role != Role::Primary
        };
        p_value::of(run, one, judgement.comparisons.iter().any(is_beside))
    } else {
        PValues {
            worse: 1.0,
            better: 1.0,
        }
    };
    Compared {
        workload: one.workload.clone(),
        arm: one.arm.clone(),
        kernel: kernels.get(one.arm.as_str()).cloned(),
        spec: one.spec.clone(),
        verdict: one.verdict,
        headline: headline
            .filter(|_| is_primary)
            .map(|its| its.conclusion.word().into()),
        ratio: one.ratio,
        low: one.low,
        high: one.high,
        confidence: one.confidence,
        blocks: one.blocks,
        night: is_primary.then(|| alone(p_values)),
    }
}

/// A comparison before it stands among others.
fn alone(p_values: PValues) -> NightStanding {
    NightStanding {
        p_worse: p_values.worse,
        p_better: p_values.better,
        fdr_worse: 1.0,
        fdr_better: 1.0,
        fwer_worse: 1.0,
        is_regression: false,
        is_improvement: false,
        trips_gate: false,
    }
}

/// The kernel of each arm, as its trials say it.
fn kernels(run: &Run) -> BTreeMap<&str, String> {
    let mut kernels = BTreeMap::new();
    for (record, facts) in run.attempts.iter().zip(&run.facts) {
        let is_measured = record.outcome.measured().is_some();
        let said = facts
            .as_ref()
            .and_then(|facts| facts.values.get(fact::KERNEL_VERSION));
        if let (true, Some(said)) = (is_measured, said) {
            kernels.insert(record.trial.arm.as_str(), version(said));
        }
    }
    kernels
}

/// `6.17.8-1~bpo13+1` of a kernel of Debian, whose release names no point release; else the release.
fn version(said: &str) -> String {
    let build = said.split_once('#').map_or("", |(_, build)| build);
    let of_debian = build
        .split_once(" Debian ")
        .and_then(|(_, rest)| rest.split(' ').next());
    let release = said
        .strip_prefix("Linux version ")
        .unwrap_or(said)
        .split(' ')
        .next();
    of_debian.or(release).unwrap_or_default().into()
}

/// Older kernels first. A release candidate comes before its release.
fn by_version(one: &str, other: &str) -> Ordering {
    let plain = |version: &str| {
        let candidate = version.replace("-rc", "~rc");
        candidate.split('-').next().unwrap_or_default().to_string()
    };
    deb_version::compare_versions(&plain(one), &plain(other))
        .then_with(|| deb_version::compare_versions(one, other))
}

/// The arms of a run in the order of their versions, where they are kernels that differ in nothing else.
fn line(run: &Run, kernels: &BTreeMap<&str, String>) -> Option<Vec<String>> {
    let first = run.plan.arms.first()?;
    let is_alike = |arm: &Arm| {
        let twin = Arm {
            name: arm.name.clone(),
            line: arm.line,
            kernel: arm.kernel.clone(),
            ..first.clone()
        };
        *arm == twin
    };
    let mut line = Vec::new();
    for arm in &run.plan.arms {
        line.push((kernels.get(arm.name.as_str())?, arm.name.clone()));
    }
    line.sort_by(|one, other| by_version(one.0, other.0));
    let are_distinct = line.windows(2).all(|two| two[0].0 != two[1].0);
    let is_line = SHORTEST_LINE <= line.len() && are_distinct && run.plan.arms.iter().all(is_alike);
    is_line.then(|| line.into_iter().map(|(_, name)| name).collect())
}

/// The newest of some nights, with the trends over all of them. Without a night there is no index.
pub fn index(mut nights: Vec<OfNight>, rates: Rates) -> Option<Index> {
    nights.sort_by(|one, other| (one.begun(), &one.name).cmp(&(other.begun(), &other.name)));
    let mut newest = nights.last()?.clone();
    let family = stand(&mut newest.plans, rates);
    let names = nights.iter().map(|night| NightName {
        name: night.name.clone(),
        begun: night.begun().into(),
    });
    Some(Index {
        version: VERSION,
        bakeoff: record::VERSION.into(),
        begun: newest.begun().into(),
        night: newest.name.clone(),
        error_rate: rates.gate,
        fdr: rates.fdr,
        family: family as u32,
        nights: names.collect(),
        trends: trends(&nights, rates.gate),
        plans: newest.plans,
    })
}

/// Sets the primary metrics of all plans beside each other; how many there are, those among them that have no figures yet.
fn stand(plans: &mut [PlanSummary], rates: Rates) -> usize {
    let planned: u32 = plans.iter().map(|plan| plan.planned).sum();
    let runs = plans.iter_mut().filter_map(|plan| plan.run.as_mut());
    let compared = runs.flat_map(|run| &mut run.comparisons);
    let mut family: Vec<&mut NightStanding> =
        compared.filter_map(|one| one.night.as_mut()).collect();
    let count = family.len().max(planned as usize);
    // What has no figures yet may have some later: until then it is as little significant as can be.
    let all = |p_value: fn(&NightStanding) -> f64| {
        let mut all: Vec<f64> = family.iter().map(|one| p_value(one)).collect();
        all.resize(count, 1.0);
        all
    };
    let (worse, better) = (all(|one| one.p_worse), all(|one| one.p_better));
    let adjusted = holm(&worse)
        .into_iter()
        .zip(benjamini_hochberg(&worse))
        .zip(benjamini_hochberg(&better));
    for (one, ((fwer_worse, fdr_worse), fdr_better)) in family.iter_mut().zip(adjusted) {
        one.fwer_worse = fwer_worse;
        one.fdr_worse = fdr_worse;
        one.fdr_better = fdr_better;
        // A rate that was shared out evenly and is added up again may be off in its last digit.
        let within = |adjusted: f64, rate: f64| adjusted <= rate * (1.0 + 1e-9);
        one.is_regression = within(fdr_worse, rates.fdr) && one.p_worse < 1.0;
        one.is_improvement = within(fdr_better, rates.fdr) && one.p_better < 1.0;
        one.trips_gate = within(fwer_worse, rates.gate) && one.p_worse < 1.0;
    }
    count
}

/// The error rate at which each plan's runs may call an arm worse, so that what they call so trips the gate of a night of so many
/// comparisons: a verdict has two sides, the gate has one.
pub fn error_rate_of_plans(gate: f64, family: usize) -> f64 {
    (2.0 * gate / family.max(1) as f64).min(0.5)
}

/// One arm on one metric, night by night.
struct Series<'n> {
    plan: &'n str,
    points: Vec<(&'n str, &'n RunSummary, &'n Compared)>,
}

fn trends(nights: &[OfNight], error_rate: f64) -> Vec<Trend> {
    let Some(newest) = nights.last() else {
        return Vec::new();
    };
    let mut trends = Vec::new();
    for plan in &newest.plans {
        if let Some(run) = &plan.run {
            trends.extend(of_versions(&newest.name, &plan.name, run));
        }
    }
    let series = series(nights, newest);
    for role in [Role::Primary, Role::Guard] {
        let is_of_role = |one: &&Series<'_>| {
            let (_, _, compared) = one.points[0];
            (compared.spec.role == Role::Primary) == (role == Role::Primary)
        };
        let family: Vec<&Series<'_>> = series.iter().filter(is_of_role).collect();
        let each = error_rate / family.len().max(1) as f64;
        trends.extend(family.into_iter().map(|one| over_nights(one, each)));
    }
    trends
}

/// The arms of the newest night that were measured in another night too.
fn series<'n>(nights: &'n [OfNight], newest: &'n OfNight) -> Vec<Series<'n>> {
    let mut all = Vec::new();
    for plan in &newest.plans {
        for own in plan.run.iter().flat_map(|run| &run.comparisons) {
            let is_same = |one: &&Compared| {
                one.workload == own.workload && one.arm == own.arm && one.spec.name == own.spec.name
            };
            let of_night = |night: &'n OfNight| {
                let its = night.plans.iter().find(|one| one.name == plan.name)?;
                let run = its.run.as_ref()?;
                let compared = run.comparisons.iter().find(is_same)?;
                let is_usable = compared
                    .ratio
                    .is_some_and(|ratio| ratio.is_normal() && ratio > 0.0);
                is_usable.then_some((night.name.as_str(), run, compared))
            };
            let points: Vec<_> = nights.iter().filter_map(of_night).collect();
            if points.len() > 1 {
                all.push(Series {
                    plan: &plan.name,
                    points,
                });
            }
        }
    }
    all
}

fn over_nights(series: &Series<'_>, error_rate: f64) -> Trend {
    let mut points = series.points.clone();
    let mut kernels: Vec<&str> = points
        .iter()
        .filter_map(|(_, _, one)| one.kernel.as_deref())
        .collect();
    kernels.sort_unstable();
    kernels.dedup();
    // Where each night had another kernel the question is which, not when.
    let along = if kernels.len() == points.len() {
        Along::VersionsOfNights
    } else {
        Along::Nights
    };
    if along == Along::VersionsOfNights {
        let kernel = |of: &(&str, &RunSummary, &Compared)| of.2.kernel.clone().unwrap_or_default();
        points.sort_by(|one, other| by_version(&kernel(one), &kernel(other)));
    }
    let (_, newest, own) = series.points[series.points.len() - 1];
    let ratios: Vec<f64> = points.iter().filter_map(|(_, _, one)| one.ratio).collect();
    let found = change_points(&ratios, error_rate);
    let places: Vec<usize> = found.iter().map(|one| one.place).collect();
    let changes = found.iter().enumerate().map(|(number, one)| {
        let ratio = level_after(&ratios, &places, number) / level_before(&ratios, &places, number);
        TrendChange {
            p_value: Some(one.p_value),
            beside: beside(points[one.place - 1].1, points[one.place].1),
            ..change((one.place - 1, one.place), ratio, &own.spec, newest.margin)
        }
    });
    Trend {
        plan: series.plan.into(),
        workload: own.workload.clone(),
        spec: own.spec.clone(),
        arm: Some(own.arm.clone()),
        along,
        changes: changes.collect(),
        points: points.iter().map(|one| point(*one, along)).collect(),
        error_rate,
        least_points: fewest(error_rate) as u32,
    }
}

fn point((night, _, one): (&str, &RunSummary, &Compared), along: Along) -> TrendPoint {
    let label = match (along, &one.kernel) {
        (Along::VersionsOfNights | Along::Versions, Some(kernel)) => kernel.clone(),
        (Along::Nights, _) | (_, None) => night.into(),
    };
    TrendPoint {
        label,
        night: night.into(),
        kernel: one.kernel.clone(),
        ratio: one.ratio.unwrap_or(1.0),
        low: one.low,
        high: one.high,
        confidence: one.confidence,
        verdict: one.verdict,
    }
}

/// The typical ratio from the change before to this one.
fn level_before(ratios: &[f64], places: &[usize], number: usize) -> f64 {
    let from = number.checked_sub(1).map_or(0, |before| places[before]);
    median(&ratios[from..places[number]])
}

/// The same from this change to the next.
fn level_after(ratios: &[f64], places: &[usize], number: usize) -> f64 {
    let to = places.get(number + 1).copied().unwrap_or(ratios.len());
    median(&ratios[places[number]..to])
}

fn beside(before: &RunSummary, after: &RunSummary) -> Vec<Beside> {
    let all = [
        (
            Beside::Baseline,
            before.baseline_kernel != after.baseline_kernel,
        ),
        (Beside::Machine, before.machine != after.machine),
        (Beside::Plan, before.plan_sha256 != after.plan_sha256),
    ];
    let changed = all.into_iter().filter(|(_, is_changed)| *is_changed);
    changed.map(|(one, _)| one).collect()
}

fn change(
    (before, after): (usize, usize),
    ratio: f64,
    spec: &MetricSpec,
    margin: f64,
) -> TrendChange {
    let is_worse = match spec.direction {
        Direction::Higher => ratio < 1.0,
        Direction::Lower => ratio > 1.0,
    };
    TrendChange {
        before: before as u32,
        after: after as u32,
        ratio,
        p_value: None,
        is_worse,
        is_beyond_margin: ratio.ln().abs() > margin.ln_1p(),
        beside: Vec::new(),
    }
}

/// A run's line of versions, a trend for each metric; its significant steps are the changes.
fn of_versions(night: &str, plan: &str, run: &RunSummary) -> Vec<Trend> {
    let Some(walk) = &run.walk else {
        return Vec::new();
    };
    let trend = |metric: &WalkMetric| Trend {
        plan: plan.into(),
        workload: metric.workload.clone(),
        spec: metric.spec.clone(),
        arm: None,
        along: Along::Versions,
        points: points_of(night, walk, metric, run),
        changes: changes_of(metric, run.margin),
        error_rate: walk.error_rate,
        least_points: SHORTEST_LINE as u32,
    };
    walk.metrics.iter().map(trend).collect()
}

/// The versions that have figures, each over the first; the interval of a version is that of its own comparison, where the first one is
/// the baseline.
fn points_of(night: &str, walk: &Walk, metric: &WalkMetric, run: &RunSummary) -> Vec<TrendPoint> {
    let mut points = Vec::new();
    for (name, ratio) in walk.line.iter().zip(&metric.ratios) {
        let Some(ratio) = ratio else {
            continue;
        };
        let is_its = |one: &&Compared| {
            one.arm == *name && one.workload == metric.workload && one.spec.name == metric.spec.name
        };
        let own = run.comparisons.iter().find(is_its);
        let ends = own.filter(|_| walk.line[0] == run.baseline);
        let is_baseline = *name == run.baseline;
        points.push(TrendPoint {
            label: name.clone(),
            night: night.into(),
            kernel: match own {
                Some(own) => own.kernel.clone(),
                None => run.baseline_kernel.clone().filter(|_| is_baseline),
            },
            ratio: *ratio,
            low: ends.and_then(|one| one.low),
            high: ends.and_then(|one| one.high),
            confidence: ends.and_then(|one| one.confidence),
            verdict: own.map_or(Verdict::Equivalent, |one| one.verdict),
        });
    }
    points
}

fn changes_of(metric: &WalkMetric, margin: f64) -> Vec<TrendChange> {
    // Places among the versions that have figures.
    let known: Vec<usize> = (0..metric.ratios.len())
        .filter(|place| metric.ratios[*place].is_some())
        .collect();
    let place = |of: usize| known.iter().position(|one| *one == of);
    let mut changes = Vec::new();
    for step in &metric.steps {
        let is_worse = match step.verdict {
            Verdict::Better => false,
            Verdict::Worse => true,
            Verdict::Equivalent | Verdict::Undecided => continue,
        };
        if let (Some(before), Some(after)) = (place(step.before), place(step.after)) {
            changes.push(TrendChange {
                is_worse,
                ..change((before, after), step.ratio, &metric.spec, margin)
            });
        }
    }
    changes
}

#[cfg(test)]
mod tests;
