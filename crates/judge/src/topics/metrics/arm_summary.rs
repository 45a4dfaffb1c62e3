//! Averages of one arm on one workload: a column of the table of arms.
//!
//! Averages give every trial the same weight. Counts and latency histograms are added up instead, because percentiles cannot be
//! averaged.

use std::collections::BTreeMap;

use base::latency::Latency;
use plan::MachineKind;
use record::evidence::Usage;
use record::load::{Fault, LoadResult};
use record::metric::{Figure, MetricSpec};
use record::rundir::Run;
use record::trial::{Measurement, NOT_KNOWN, Outcome, VoidReason};
use record::verdict::{ArmClients, ArmSummary, ArmUsage};

use crate::topics::limits::find as limits;
use crate::topics::metrics::measured::Measured;
use stats::average::mean;

/// Most points of a curve over time, about the width of a screen. A window of 14 days has 1.2 million seconds.
const MOST_POINTS: usize = 1000;

/// Points of the latency curve for each halving of the distance to quantile 1.
const TICKS: u32 = 8;

/// The averages of each workload and arm of the plan, measured or not.
pub(crate) fn of(run: &Run, measured: &Measured<'_>) -> Vec<ArmSummary> {
    let mut summaries = Vec::new();
    for workload in &run.plan.workloads {
        let specs = measured.specs(&workload.id);
        for arm in &run.plan.arms {
            let trials = measured.of_arm(&workload.id, &arm.name);
            let voids = voids(run, &workload.id, &arm.name);
            summaries.push(ArmSummary {
                workload: workload.id.clone(),
                arm: arm.name.clone(),
                voids,
                limit: limits::of(run, &trials, &workload.id, arm),
                ..averages(&trials, &specs, run.plan.machine.kind)
            });
        }
    }
    summaries
}

/// Failed attempts by reason, including those that were retried successfully.
pub(crate) fn voids(run: &Run, workload: &str, arm: &str) -> BTreeMap<VoidReason, u32> {
    let mut voids = BTreeMap::new();
    for record in &run.attempts {
        let is_of_arm = record.trial.workload == workload && record.trial.arm == arm;
        match &record.outcome {
            Outcome::Void(void) if is_of_arm => *voids.entry(void.reason).or_default() += 1,
            Outcome::Void(_) | Outcome::Measured(_) | Outcome::Skipped(_) => {}
        }
    }
    voids
}

/// Failed requests of all trials by class.
pub(crate) fn faults(trials: &[&Measurement]) -> BTreeMap<Fault, u64> {
    let mut faults = BTreeMap::new();
    let loads = trials.iter().filter_map(|trial| trial.load.as_ref());
    for (fault, count) in loads.flat_map(|load| &load.faults) {
        let sum = faults.entry(*fault).or_default();
        *sum = u64::saturating_add(*sum, *count);
    }
    faults
}

/// A saturating sum, because counts of a damaged record may overflow.
pub(crate) fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

fn averages(trials: &[&Measurement], specs: &[MetricSpec], machine: MachineKind) -> ArmSummary {
    ArmSummary {
        workload: String::new(),
        arm: String::new(),
        // If two systems swap places, the kernel of one of them may be known in some trials only.
        kernel: trials
            .iter()
            .rfind(|trial| trial.kernel != NOT_KNOWN)
            .or(trials.last())
            .map(|trial| trial.kernel.clone())
            .unwrap_or_default(),
        server: trials
            .last()
            .map(|trial| trial.server.clone())
            .unwrap_or_default(),
        measured: trials.len() as u32,
        voids: BTreeMap::new(),
        usage: usage(trials, machine == MachineKind::Url),
        clients: clients(trials),
        limit: None,
        figures: figures(trials, specs),
    }
}

/// The mean over trials with samples. Trials too short for a sample would count as idle.
fn usage(trials: &[&Measurement], is_of_clients: bool) -> Option<ArmUsage> {
    let usages = trials.iter().map(|trial| &trial.usage);
    let sampled: Vec<&Usage> = usages.filter(|usage| **usage != Usage::default()).collect();
    Some(ArmUsage {
        cpu_user: mean(&sampled, |usage| usage.cpu_user),
        cpu_system: mean(&sampled, |usage| usage.cpu_system),
        memory_used_bytes: mean(&sampled, |usage| usage.memory_used_bytes as f64),
        swap_used_bytes: sampled.iter().map(|usage| usage.swap_used_bytes).max()?,
        sampling: mean(&sampled, |usage| usage.sampling),
        context_switches_per_s: mean(&sampled, |usage| usage.context_switches_per_s),
        is_of_clients,
    })
}

fn clients(trials: &[&Measurement]) -> Option<ArmClients> {
    let loads: Vec<&LoadResult> = trials
        .iter()
        .filter_map(|trial| trial.load.as_ref())
        .collect();
    let mut latency = Latency::new();
    for load in &loads {
        latency.merge(&load.latency);
    }
    (!loads.is_empty()).then(|| ArmClients {
        served: total(loads.iter().map(|load| load.ok_in_window)),
        served_per_s: mean(&loads, |load| load.ok_per_s()) * charged_ratio(trials, "throughput"),
        ok_by_address: ok_by_address(&loads),
        mean_ms: latency.mean_ns() / 1e6 * charged_ratio(trials, LATENCY),
        faults: faults(trials),
        over_time: over_time(&loads),
        latency_curve: latency_curve(&latency, charged_ratio(trials, LATENCY)),
    })
}

/// The metric by whose ratio all times of requests are scaled.
const LATENCY: &str = "latency-mean";

/// Ratio of a metric with charged string instructions to the same metric by the guest's clock, as the mean over trials. 1 if no
/// instructions are charged.
fn charged_ratio(trials: &[&Measurement], metric: &str) -> f64 {
    let value = |figures: &[Figure]| {
        let figure = figures.iter().find(|figure| figure.spec.name == metric)?;
        Some(figure.value)
    };
    let ratios = trials.iter().filter_map(|trial| {
        let raw = value(&trial.instructions.as_ref()?.figures)?;
        Some(value(&trial.figures)? / raw)
    });
    let ratio = mean(&ratios.collect::<Vec<f64>>(), |ratio| *ratio);
    if ratio.is_finite() && ratio > 0.0 {
        ratio
    } else {
        1.0
    }
}

fn ok_by_address(loads: &[&LoadResult]) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (address, count) in loads.iter().flat_map(|load| &load.ok_by_address) {
        let sum = all.entry(address.clone()).or_default();
        *sum = u64::saturating_add(*sum, *count);
    }
    all
}

fn figures(trials: &[&Measurement], specs: &[MetricSpec]) -> Vec<(MetricSpec, f64)> {
    let mut means = Vec::new();
    for spec in specs {
        let figures = trials.iter().flat_map(|trial| &trial.figures);
        let figures = figures.filter(|figure| figure.spec.name == spec.name);
        let figures: Vec<&Figure> = figures.collect();
        if !figures.is_empty() {
            means.push((spec.clone(), mean(&figures, |figure| figure.value)));
        }
    }
    means
}

/// Latency in milliseconds by quantile. The last point, at quantile 1, is the maximum.
fn latency_curve(latency: &Latency, factor: f64) -> Vec<(f64, f64)> {
    if latency.count() == 0 {
        return Vec::new();
    }
    let points = latency.curve(TICKS).into_iter();
    points
        .map(|(quantile, ns)| (quantile, ns as f64 / 1e6 * factor))
        .collect()
}

/// Requests per second over the window, averaged over trials. For windows of more than `MOST_POINTS` seconds, neighbouring seconds
/// are averaged too.
fn over_time(loads: &[&LoadResult]) -> Vec<(f64, f64)> {
    let mut seconds = BTreeMap::<u64, Rates>::new();
    for load in loads {
        for (second, length_s, rate_per_s) in whole_seconds(load) {
            let rates = seconds.entry(second).or_default();
            rates.sum += rate_per_s;
            rates.count += 1.0;
            rates.length_s = rates.length_s.max(length_s);
        }
    }
    let end = seconds.last_key_value();
    let end = end.map_or(0, |(second, last)| second + last.length_s.ceil() as u64);
    let begin = seconds.first_key_value().map_or(0, |(second, _)| *second);
    let stride = (end - begin).div_ceil(MOST_POINTS as u64).max(1);
    let points: Vec<_> = seconds.into_iter().collect();
    let group = |(second, _): &(u64, Rates)| (second - begin) / stride;
    let groups = points.chunk_by(|left, right| group(left) == group(right));
    groups.map(average).collect()
}

/// Rates of several trials in one entry of their timelines. Old entries span several seconds.
#[derive(Default)]
struct Rates {
    /// Sum of rates per second.
    sum: f64,
    /// Number of trials.
    count: f64,
    length_s: f64,
}

/// The beginning of neighbouring entries, and their mean rate.
fn average(entries: &[(u64, Rates)]) -> (f64, f64) {
    let all_s: f64 = entries.iter().map(|(_, rates)| rates.length_s).sum();
    let requests = entries
        .iter()
        .map(|(_, rates)| rates.sum / rates.count * rates.length_s);
    (entries[0].0 as f64, requests.sum::<f64>() / all_s)
}

/// The entries of a timeline: begin in seconds, length in seconds, and rate per second. The last one is mostly cut off by the
/// window's end. It is left out if it is shorter than half a second, because its rate would be inaccurate.
fn whole_seconds(load: &LoadResult) -> impl Iterator<Item = (u64, f64, f64)> {
    let window_ms = load.window_ns as f64 / 1e6;
    load.timeline.iter().filter_map(move |second| {
        let left_ms = window_ms - second.at_ms as f64;
        let length_ms = left_ms.min(second.length_ms() as f64);
        let rate_per_s = second.ok as f64 / length_ms * 1e3;
        (length_ms >= 500.0).then_some((second.at_ms / 1000, second.length_s(), rate_per_s))
    })
}

#[cfg(test)]
mod tests {
    use record::load::Second;

    use super::*;
    use record::fixtures::builder::{RunBuilder, measurement};

    fn summaries(builder: RunBuilder) -> Vec<ArmSummary> {
        let run = builder.run();
        of(&run, &Measured::of(&run))
    }

    #[test]
    fn an_arm_is_averaged_over_its_trials() {
        let summaries = summaries(
            RunBuilder::new()
                .blocks(&[[100.0, 200.0], [120.0, 220.0]])
                .void(3, "7.2"),
        );
        let [old, new] = summaries.as_slice() else {
            panic!("two arms have two summaries")
        };
        let clients = old.clients.as_ref().unwrap();
        assert_eq!((old.measured, clients.served), (2, 440));
        assert!((clients.served_per_s - 110.0).abs() < 1e-9);
        let mean_ms = clients.mean_ms;
        assert!((mean_ms - 1e3 / 110.0).abs() < 0.02, "{mean_ms}");
        assert_eq!(old.figures[0].0.name, "throughput");
        assert!((new.figures[0].1 - 210.0).abs() < 1e-9);
        assert_eq!(new.voids, BTreeMap::from([(VoidReason::Panic, 1)]));
        let clients = new.clients.as_ref().unwrap();
        assert_eq!(clients.over_time, [(0.0, 210.0), (1.0, 210.0)]);
        assert_eq!(
            (new.kernel.as_str(), new.server.as_str()),
            ("7.2-amd64", "Apache/2.4")
        );
    }

    #[test]
    fn the_curve_ends_with_the_largest_latency() {
        let summaries = summaries(RunBuilder::new().blocks(&[[100.0, 200.0]]));
        let clients = summaries[0].clients.as_ref().unwrap();
        let (quantile, ms) = *clients.latency_curve.last().unwrap();
        assert!(
            (quantile - 1.0).abs() < 1e-9 && (ms - 10.0).abs() < 0.02,
            "{quantile} {ms}"
        );
    }

    #[test]
    fn an_arm_without_a_trial_has_no_usage_and_no_clients() {
        let summary = &summaries(RunBuilder::new())[0];
        assert_eq!(
            (summary.measured, &summary.usage, &summary.clients),
            (0, &None, &None)
        );
    }

    #[test]
    fn trials_without_clients_or_samples_do_not_count_as_zero() {
        let builder = RunBuilder::new().blocks(&[[1.0, 2.0]; 2]).with(|run| {
            for (index, record) in run.attempts.iter_mut().enumerate() {
                let trial = record.outcome.measured_mut().unwrap();
                trial.load = None;
                if index < 3 {
                    trial.usage = Usage::default();
                }
            }
        });
        let summaries = summaries(builder);
        assert_eq!((&summaries[0].usage, &summaries[0].clients), (&None, &None));
        // Only one of the arm's two trials has samples, and its 40 % are not halved.
        let cpu_user = summaries[1].usage.as_ref().unwrap().cpu_user;
        assert!((cpu_user - 0.4).abs() < 1e-12, "{cpu_user}");
    }

    #[test]
    fn a_long_window_is_thinned_without_losing_its_mean() {
        let second = |at: u64| Second {
            at_ms: at * 1000,
            ok: at % 10,
            ..Second::default()
        };
        let builder = RunBuilder::new().measured(1, "6.1", 1.0).with(|run| {
            let trial = measurement(run, 0);
            let load = trial.load.as_mut().unwrap();
            load.window_ns = 10_000 * 1_000_000_000;
            load.timeline = (0..10_000).map(second).collect();
        });
        let summaries = summaries(builder);
        let points = &summaries[0].clients.as_ref().unwrap().over_time;
        assert_eq!(points.len(), 1000);
        assert!(
            points
                .iter()
                .all(|(_, rate_per_s)| (rate_per_s - 4.5).abs() < 1e-9)
        );
        assert!((points[1].0 - 10.0).abs() < 1e-9);
    }
}
