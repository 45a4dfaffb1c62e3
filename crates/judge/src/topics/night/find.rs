//! A nightly run of several plans: which verdicts remain significant over all plans, and trends over nights and versions.
//!
//! ```text
//! run                  -> summary    comparisons, the p-value of each primary metric (`p_value`), the version series
//!                                    (`bisect::series`)
//! summaries of a night -> family     regressions by false discovery rate, the gate by family-wise error rate (`multiplicity`)
//! summaries of nights  -> trends     ratios to the baseline of each night, and their changes (`change_points`)
//! ```
//! Trends compare only ratios to a baseline of the same run. Figures of two nights also differ by changes of the machine.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use plan::Arm;
use record::bisect::{SeriesMetric, SeriesResult};
use record::fact;
use record::metric::{Direction, MetricSpec, Role};
use record::night::{
    Along, Beside, Compared, Index, NightName, NightStanding, PlanSummary, RunSummary, Trend,
    TrendChange, TrendPoint, VERSION,
};
use record::rundir::Run;
use record::verdict::{Comparison, Conclusion, Judgement, Verdict};

use crate::topics::bisect::find::series;
use crate::topics::night::p_value::{self, PValues};
use stats::average::median;
use stats::change_points::{change_points, fewest};
use stats::multiplicity::{benjamini_hochberg, holm};

/// Fewest versions of a series.
const SHORTEST_SERIES: usize = 3;

/// The error rates of a night.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Probability that the gate trips on any comparison whose arm is not worse.
    pub gate: f64,
    /// Mean share of false positives in a list.
    pub fdr: f64,
}

/// A night with its plans.
#[derive(Debug, Clone, PartialEq)]
pub struct OfNight {
    /// The name of its directory.
    pub name: String,
    /// The begin in case that no plan has a run.
    pub noted: String,
    /// The plans, in their order.
    pub plans: Vec<PlanSummary>,
}

impl OfNight {
    /// When its first run began; `noted` if no plan has a run.
    pub fn begun(&self) -> &str {
        let runs = self.plans.iter().filter_map(|plan| plan.run.as_ref());
        let begun = runs.map(|run| run.begun.as_str());
        begun.min().unwrap_or(&self.noted)
    }
}

/// The summary of a run. `machine` describes the machine; the caller fills in failures and unanswered questions.
pub fn summary(run: &Run, judgement: &Judgement, machine: String) -> RunSummary {
    let kernels = kernels(run);
    let design = &run.plan.design;
    let comparisons = judgement.comparisons.iter();
    let comparisons = comparisons.map(|comparison| compared(run, judgement, &kernels, comparison));
    let blocks = judgement
        .primaries()
        .map(|comparison| comparison.blocks)
        .max();
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
        comparisons: comparisons.collect(),
        series: version_series(run, &kernels).map(|arms| series::evaluate(run, &arms)),
    }
}

fn compared(
    run: &Run,
    judgement: &Judgement,
    kernels: &BTreeMap<&str, String>,
    comparison: &Comparison,
) -> Compared {
    let headline = judgement.headlines.iter().find(|headline| {
        headline.workload == comparison.workload && headline.arm == comparison.arm
    });
    let is_primary = comparison.spec.role == Role::Primary;
    let is_fair = headline
        .is_some_and(|headline| !matches!(headline.conclusion, Conclusion::Withheld { .. }));
    let p_values = if is_primary && is_fair {
        let has_secondary = judgement.comparisons.iter().any(|other| {
            let is_same = other.workload == comparison.workload && other.arm == comparison.arm;
            is_same && other.spec.role != Role::Primary
        });
        p_value::of(run, comparison, has_secondary)
    } else {
        PValues {
            worse: 1.0,
            better: 1.0,
        }
    };
    Compared {
        workload: comparison.workload.clone(),
        arm: comparison.arm.clone(),
        kernel: kernels.get(comparison.arm.as_str()).cloned(),
        spec: comparison.spec.clone(),
        verdict: comparison.verdict,
        headline: headline
            .filter(|_| is_primary)
            .map(|headline| headline.conclusion.word().into()),
        ratio: comparison.ratio,
        low: comparison.low,
        high: comparison.high,
        confidence: comparison.confidence,
        blocks: comparison.blocks,
        night: is_primary.then(|| unadjusted(p_values)),
    }
}

/// A comparison's standing before `adjust` corrects for multiple comparisons.
fn unadjusted(p_values: PValues) -> NightStanding {
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

/// The kernel of each arm that its trials reported.
fn kernels(run: &Run) -> BTreeMap<&str, String> {
    let mut kernels = BTreeMap::new();
    for (record, facts) in run.attempts.iter().zip(&run.facts) {
        let facts = facts
            .as_ref()
            .filter(|_| record.outcome.measured().is_some());
        if let Some(banner) = facts.and_then(|facts| facts.values.get(fact::KERNEL_VERSION)) {
            kernels.insert(record.trial.arm.as_str(), version(banner));
        }
    }
    kernels
}

/// The package version of a Debian kernel, `6.17.8-1~bpo13+1`, because its release has no point release; else the release.
fn version(banner: &str) -> String {
    let build = banner.split_once('#').map_or("", |(_, build)| build);
    let debian = build
        .split_once(" Debian ")
        .and_then(|(_, rest)| rest.split(' ').next());
    let release = banner
        .strip_prefix("Linux version ")
        .unwrap_or(banner)
        .split(' ')
        .next();
    debian.or(release).unwrap_or_default().into()
}

/// Older kernels first. A release candidate comes before its release.
fn by_version(a: &str, b: &str) -> Ordering {
    let plain = |version: &str| {
        let candidate = version.replace("-rc", "~rc");
        candidate.split('-').next().unwrap_or_default().to_string()
    };
    deb_version::compare_versions(&plain(a), &plain(b))
        .then_with(|| deb_version::compare_versions(a, b))
}

/// The arms of a run in the order of their versions; `None` unless they are kernels that differ in nothing else.
fn version_series(run: &Run, kernels: &BTreeMap<&str, String>) -> Option<Vec<String>> {
    let first = run.plan.arms.first()?;
    let is_alike = |arm: &Arm| {
        let expected = Arm {
            name: arm.name.clone(),
            line: arm.line,
            kernel: arm.kernel.clone(),
            ..first.clone()
        };
        *arm == expected
    };
    let mut arms = Vec::new();
    for arm in &run.plan.arms {
        arms.push((kernels.get(arm.name.as_str())?, arm.name.clone()));
    }
    arms.sort_by(|a, b| by_version(a.0, b.0));
    let are_distinct = arms.windows(2).all(|pair| pair[0].0 != pair[1].0);
    let is_series =
        SHORTEST_SERIES <= arms.len() && are_distinct && run.plan.arms.iter().all(is_alike);
    is_series.then(|| arms.into_iter().map(|(_, name)| name).collect())
}

/// The index of the newest night, with the trends over all nights; `None` without nights.
pub fn index(mut nights: Vec<OfNight>, rates: Rates) -> Option<Index> {
    nights.sort_by(|a, b| (a.begun(), &a.name).cmp(&(b.begun(), &b.name)));
    let mut newest = nights.last()?.clone();
    let family = adjust(&mut newest.plans, rates);
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

/// Adjusts the p-values of the primary metrics of all plans; returns their number, including those without figures yet.
fn adjust(plans: &mut [PlanSummary], rates: Rates) -> usize {
    let planned: u32 = plans.iter().map(|plan| plan.planned).sum();
    let runs = plans.iter_mut().filter_map(|plan| plan.run.as_mut());
    let comparisons = runs.flat_map(|run| &mut run.comparisons);
    let mut family: Vec<&mut NightStanding> = comparisons
        .filter_map(|compared| compared.night.as_mut())
        .collect();
    let count = family.len().max(planned as usize);
    // Comparisons without figures yet have p = 1.
    let p_values = |p_value: fn(&NightStanding) -> f64| {
        let mut p_values: Vec<f64> = family.iter().map(|standing| p_value(standing)).collect();
        p_values.resize(count, 1.0);
        p_values
    };
    let worse = p_values(|standing| standing.p_worse);
    let better = p_values(|standing| standing.p_better);
    let adjusted = holm(&worse)
        .into_iter()
        .zip(benjamini_hochberg(&worse))
        .zip(benjamini_hochberg(&better));
    // The sum of equal shares of a rate may differ from the rate in its last digit.
    let within = |adjusted: f64, rate: f64| adjusted <= rate * (1.0 + 1e-9);
    for (standing, ((fwer_worse, fdr_worse), fdr_better)) in family.iter_mut().zip(adjusted) {
        standing.fwer_worse = fwer_worse;
        standing.fdr_worse = fdr_worse;
        standing.fdr_better = fdr_better;
        standing.is_regression = within(fdr_worse, rates.fdr) && standing.p_worse < 1.0;
        standing.is_improvement = within(fdr_better, rates.fdr) && standing.p_better < 1.0;
        standing.trips_gate = within(fwer_worse, rates.gate) && standing.p_worse < 1.0;
    }
    count
}

/// The error rate for each plan of a night of `family` comparisons at which every "worse" trips the gate.
///
/// It is twice the gate's share, because a verdict has two sides and the gate one.
pub fn error_rate_of_plans(gate: f64, family: usize) -> f64 {
    (2.0 * gate / family.max(1) as f64).min(0.5)
}

/// One arm's metric, night by night.
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
            trends.extend(version_trends(&newest.name, &plan.name, run));
        }
    }
    let series = series(nights, newest);
    let (primary, others): (Vec<_>, Vec<_>) = series.iter().partition(|series| {
        let (_, _, compared) = series.points[0];
        compared.spec.role == Role::Primary
    });
    for family in [primary, others] {
        let error_rate = error_rate / family.len().max(1) as f64;
        for series in family {
            trends.push(night_trend(series, error_rate));
        }
    }
    trends
}

/// The metrics of the newest night that were also measured in another night.
fn series<'n>(nights: &'n [OfNight], newest: &'n OfNight) -> Vec<Series<'n>> {
    let mut all = Vec::new();
    for plan in &newest.plans {
        for newest in plan.run.iter().flat_map(|run| &run.comparisons) {
            let is_same = |compared: &&Compared| {
                compared.workload == newest.workload
                    && compared.arm == newest.arm
                    && compared.spec.name == newest.spec.name
            };
            let point = |night: &'n OfNight| {
                let mut plans = night.plans.iter();
                let run = plans.find(|other| other.name == plan.name)?.run.as_ref()?;
                let compared = run.comparisons.iter().find(is_same)?;
                let is_usable = compared
                    .ratio
                    .is_some_and(|ratio| ratio.is_normal() && ratio > 0.0);
                is_usable.then_some((night.name.as_str(), run, compared))
            };
            let points: Vec<_> = nights.iter().filter_map(point).collect();
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

fn night_trend(series: &Series<'_>, error_rate: f64) -> Trend {
    let mut points = series.points.clone();
    let mut kernels: Vec<&str> = points
        .iter()
        .filter_map(|(_, _, compared)| compared.kernel.as_deref())
        .collect();
    kernels.sort_unstable();
    kernels.dedup();
    // If each night had a different kernel, order the points by kernel.
    let along = if kernels.len() == points.len() {
        points.sort_by(|(_, _, a), (_, _, b)| {
            let [a, b] = [a, b].map(|compared| compared.kernel.as_deref().unwrap_or_default());
            by_version(a, b)
        });
        Along::VersionsOfNights
    } else {
        Along::Nights
    };
    let (_, newest_run, newest) = series.points[series.points.len() - 1];
    let ratios = points.iter().filter_map(|(_, _, compared)| compared.ratio);
    let ratios: Vec<f64> = ratios.collect();
    let change_points = change_points(&ratios, error_rate);
    let mut edges = vec![0];
    edges.extend(change_points.iter().map(|change_point| change_point.place));
    edges.push(ratios.len());
    let mut changes = Vec::new();
    for (change_point, edge) in change_points.iter().zip(edges.windows(3)) {
        let after = change_point.place;
        let level_before = median(&ratios[edge[0]..edge[1]]);
        let level_after = median(&ratios[edge[1]..edge[2]]);
        let ratio = level_after / level_before;
        changes.push(TrendChange {
            p_value: Some(change_point.p_value),
            beside: beside(points[after - 1].1, points[after].1),
            ..change(after - 1, after, ratio, &newest.spec, newest_run.margin)
        });
    }
    Trend {
        plan: series.plan.into(),
        workload: newest.workload.clone(),
        spec: newest.spec.clone(),
        arm: Some(newest.arm.clone()),
        along,
        changes,
        points: points
            .iter()
            .map(|(night, _, compared)| point(night, compared, along))
            .collect(),
        error_rate,
        least_points: fewest(error_rate) as u32,
    }
}

fn point(night: &str, compared: &Compared, along: Along) -> TrendPoint {
    let label = match (along, &compared.kernel) {
        (Along::VersionsOfNights | Along::Versions, Some(kernel)) => kernel.clone(),
        (Along::Nights, _) | (_, None) => night.into(),
    };
    TrendPoint {
        label,
        night: night.into(),
        kernel: compared.kernel.clone(),
        ratio: compared.ratio.unwrap_or(1.0),
        low: compared.low,
        high: compared.high,
        confidence: compared.confidence,
        verdict: compared.verdict,
    }
}

/// What else changed between two nights.
fn beside(before: &RunSummary, after: &RunSummary) -> Vec<Beside> {
    let mut changed = Vec::new();
    if before.baseline_kernel != after.baseline_kernel {
        changed.push(Beside::Baseline);
    }
    if before.machine != after.machine {
        changed.push(Beside::Machine);
    }
    if before.plan_sha256 != after.plan_sha256 {
        changed.push(Beside::Plan);
    }
    changed
}

/// `before` and `after` are indices of points.
fn change(before: usize, after: usize, ratio: f64, spec: &MetricSpec, margin: f64) -> TrendChange {
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

/// A trend over the versions of a run for each metric; significant steps are its changes.
fn version_trends(night: &str, plan: &str, run: &RunSummary) -> Vec<Trend> {
    let Some(series) = &run.series else {
        return Vec::new();
    };
    let trend = |metric: &SeriesMetric| Trend {
        plan: plan.into(),
        workload: metric.workload.clone(),
        spec: metric.spec.clone(),
        arm: None,
        along: Along::Versions,
        points: version_points(night, series, metric, run),
        changes: version_changes(metric, run.margin),
        error_rate: series.error_rate,
        least_points: SHORTEST_SERIES as u32,
    };
    series.metrics.iter().map(trend).collect()
}

/// The versions that have figures, as ratios to the first version.
///
/// A version has the interval of its comparison if the first version is the baseline, else none.
fn version_points(
    night: &str,
    series: &SeriesResult,
    metric: &SeriesMetric,
    run: &RunSummary,
) -> Vec<TrendPoint> {
    let mut points = Vec::new();
    for (name, ratio) in series.versions.iter().zip(&metric.ratios) {
        let Some(ratio) = ratio else {
            continue;
        };
        let compared = run.comparisons.iter().find(|compared| {
            compared.arm == *name
                && compared.workload == metric.workload
                && compared.spec.name == metric.spec.name
        });
        let against_first = compared.filter(|_| series.versions[0] == run.baseline);
        let is_baseline = *name == run.baseline;
        points.push(TrendPoint {
            label: name.clone(),
            night: night.into(),
            kernel: match compared {
                Some(compared) => compared.kernel.clone(),
                None => run.baseline_kernel.clone().filter(|_| is_baseline),
            },
            ratio: *ratio,
            low: against_first.and_then(|compared| compared.low),
            high: against_first.and_then(|compared| compared.high),
            confidence: against_first.and_then(|compared| compared.confidence),
            verdict: compared.map_or(Verdict::Equivalent, |compared| compared.verdict),
        });
    }
    points
}

fn version_changes(metric: &SeriesMetric, margin: f64) -> Vec<TrendChange> {
    // The index of a version among those that have figures.
    let point = |version: usize| {
        let ratio = metric.ratios.get(version).copied().flatten();
        ratio.map(|_| metric.ratios[..version].iter().flatten().count())
    };
    let mut changes = Vec::new();
    for step in &metric.steps {
        let is_worse = match step.verdict {
            Verdict::Better => false,
            Verdict::Worse => true,
            Verdict::Equivalent | Verdict::Undecided => continue,
        };
        if let (Some(before), Some(after)) = (point(step.before), point(step.after)) {
            changes.push(TrendChange {
                is_worse,
                ..change(before, after, step.ratio, &metric.spec, margin)
            });
        }
    }
    changes
}

#[cfg(test)]
mod tests;
