//! Soaks: reliability, growth and service over time in long trials.
//!
//! One pair of trials of two weeks allows no verdict on speed, because chance decides which arm gets the better boot.
//! So speed is shown as measured within the trials. Findings are an upper bound on failures, counters that grow, outages and
//! changes of service. Trials that were cut short count up to where they ended.

use std::collections::{BTreeMap, BTreeSet};

use base::latency::Packed;
use plan::WorkloadPlan;
use record::counters::{self, Counters, SHORTEST_MS};
use record::curve::{Curve, Point};
use record::defect::{DefectLog, Kind};
use record::disturbances::{self, BegunDisturbance, DisturbanceRecord, PlannedSpan};
use record::load::Second;
use record::metric::{Direction, Role};
use record::rundir::{LongEvidence, Run, TrialRecord};
use record::trial::{Outcome, VoidReason};
use record::verdict::soak::{
    Change, CutShort, GrowthRule, Outage, PlannedOutage, Soak, SoakArm, SoakPart, WithinRuns,
};
use record::verdict::{ArmCurve, Comparison};

use crate::topics::soak::growth::{self, Counter, InArm, Series};
use crate::topics::soak::reliability::upper_bound;
use crate::topics::soak::service::{self, Outages};
use stats::batches::{self, Reading, centred};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Fewest answers for a 99.9th percentile of latencies.
const ENOUGH: u64 = 1000;

/// A counter that was not read during this share of the window, at its end, is not tested for growth.
const UNREAD: f64 = 1.0 / 8.0;

/// Half the width of an interval at the level of `record::verdict::soak::CONFIDENCE`, in standard errors.
pub(crate) const Z: f64 = 1.959_963_984_540_054;

/// A trial of at least `SHORTEST_MS`.
struct LongTrial<'r> {
    number: u32,
    arm: &'r str,
    timeline: &'r [Second],
    counters: &'r [Counters],
    cut_short: Option<VoidReason>,
    requests: u64,
    /// Failures without `planned_failures`.
    failures: u64,
    /// Failures that a planned disturbance caused: (begin of the disturbance in ms, count).
    planned_failures: Vec<(u64, u64)>,
    /// When planned disturbances lasted.
    spans: Vec<PlannedSpan<'r>>,
    defects: Option<&'r DefectLog>,
}

/// One soak for each workload that has a long trial.
pub(crate) fn of(run: &Run, comparisons: &[Comparison]) -> Vec<Soak> {
    let workloads = run.plan.workloads.iter();
    workloads
        .filter_map(|workload| workload_soak(run, comparisons, workload))
        .collect()
}

fn workload_soak(run: &Run, comparisons: &[Comparison], workload: &WorkloadPlan) -> Option<Soak> {
    let records = run.attempts.iter();
    let trials: Vec<LongTrial<'_>> = records
        .filter(|record| record.trial.workload == workload.id)
        .filter_map(|record| LongTrial::new(record, run))
        .collect();
    if trials.is_empty() {
        return None;
    }
    let error_rate = run.plan.design.error_rate / trials.len() as f64;
    let counters = counters(run, &trials);
    let has_counters = |arm: &str| {
        let mut in_arms = counters.iter().flat_map(|counter| &counter.arms);
        in_arms.any(|in_arm| in_arm.arm == arm && in_arm.trials.iter().any(Series::is_testable))
    };
    let arms = run.plan.arms.iter();
    let arms = arms.map(|arm| SoakArm {
        has_counters: has_counters(&arm.name),
        ..soak_arm(&arm.name, &trials_of(&arm.name, &trials), error_rate)
    });
    let rule = GrowthRule {
        error_rate: run.plan.design.error_rate,
        least: run.plan.growth.least,
        after_ms: run.plan.growth.after.unwrap_or(workload.length).as_millis() as u64,
        tested: 0,
        levelled_off: 0,
        small: 0,
    };
    let (growth, rule) = growth::test_counters(&counters, rule);
    Some(Soak {
        workload: workload.id.clone(),
        arms: arms.collect(),
        rule,
        growth,
        speed: speed(run, comparisons, &workload.id, &trials),
    })
}

fn trials_of<'t, 'r>(arm: &str, trials: &'t [LongTrial<'r>]) -> Vec<&'t LongTrial<'r>> {
    trials.iter().filter(|trial| trial.arm == arm).collect()
}

impl<'r> LongTrial<'r> {
    /// `None` for a trial that was skipped, has no load or was too short.
    fn new(record: &'r TrialRecord, run: &'r Run) -> Option<Self> {
        let is_of_attempt = |evidence: &&LongEvidence| {
            evidence.trial.number == record.trial.number && evidence.attempt == record.attempt
        };
        let evidence = run.long.iter().find(is_of_attempt);
        let seconds = evidence.map_or(&[][..], |evidence| &evidence.seconds);
        let counters = evidence.map_or(&[][..], |evidence| &evidence.counters);
        let sum = |timeline: &[Second], value: fn(&Second) -> u64| {
            timeline.iter().map(value).fold(0, u64::saturating_add)
        };
        let mut spans = Vec::new();
        let planned_failures;
        let (timeline, failures, cut_short) = match &record.outcome {
            Outcome::Measured(measurement) => {
                let load = measurement.load.as_ref()?;
                let faults = load.faults.iter();
                let servers = faults.filter(|(fault, _)| !fault.is_clients_own());
                let failures = servers.map(|(_, count)| *count).sum();
                spans.extend(
                    measurement
                        .disturbances
                        .iter()
                        .filter_map(DisturbanceRecord::span),
                );
                planned_failures = planned_failures_of(&measurement.disturbances);
                (&*load.timeline, failures, None)
            }
            Outcome::Void(void) => {
                let failures = sum(seconds, |second| second.faults);
                let begun = evidence.map_or(&[][..], |evidence| &evidence.disturbances);
                spans.extend(begun.iter().map(BegunDisturbance::span));
                planned_failures = failures_during(seconds, &spans);
                (seconds, failures, Some(void.reason))
            }
            Outcome::Skipped(_) => return None,
        };
        let length_ms = sum(timeline, Second::length_ms);
        let requests = sum(timeline, |second| second.ok).saturating_add(failures);
        let all_planned: u64 = planned_failures.iter().map(|(_, count)| count).sum();
        (SHORTEST_MS <= length_ms).then(|| Self {
            number: record.trial.number,
            arm: &record.trial.arm,
            timeline,
            counters,
            cut_short,
            requests,
            failures: failures.saturating_sub(all_planned),
            planned_failures,
            spans,
            defects: record.defects.as_ref(),
        })
    }

    /// Failures caused by disturbances that began in a part of the window.
    fn planned_in(&self, at_ms: u64, length_ms: u64) -> u64 {
        let failures = self.planned_failures.iter();
        failures
            .filter(|(begin_ms, _)| at_ms <= *begin_ms && *begin_ms - at_ms < length_ms)
            .map(|(_, count)| *count)
            .sum()
    }

    /// Whether a reading was taken during a planned disturbance.
    fn is_disturbed(&self, reading: &Counters) -> bool {
        let Ok(at_ms) = u64::try_from(reading.at_ms) else {
            return false;
        };
        reading.joined.is_none() && disturbances::overlap_ms(&self.spans, at_ms, 1) > 0
    }

    /// Requests during planned disturbances: successful ones, by share of each second, and failures that these caused.
    fn disturbed_requests(&self) -> u64 {
        let ok = |second: &Second| {
            let disturbed_ms =
                disturbances::overlap_ms(&self.spans, second.at_ms, second.length_ms());
            (second.ok as f64 * disturbed_ms as f64 / second.length_ms().max(1) as f64).round()
                as u64
        };
        let ok: u64 = self.timeline.iter().map(ok).sum();
        ok.saturating_add(self.planned_in(0, u64::MAX))
    }

    fn length_ms(&self) -> u64 {
        self.timeline.iter().map(Second::length_ms).sum()
    }

    /// When the window ends, in milliseconds.
    fn end_ms(&self) -> u64 {
        let last = self.timeline.last();
        last.map_or(0, |last| last.at_ms.saturating_add(last.length_ms()))
    }
}

/// Failures that disturbances caused, each counted once: (begin of the disturbance in ms, count).
fn planned_failures_of(records: &[DisturbanceRecord]) -> Vec<(u64, u64)> {
    let mut failures = Vec::new();
    for record in records {
        let Some(service) = &record.service else {
            continue;
        };
        let count = service.all_failed().saturating_sub(service.counted_before);
        if count > 0 {
            failures.push((record.begin_ms, count));
        }
    }
    failures
}

/// Failures during disturbances of a trial that was cut short: (second in ms, count). Joined seconds are left out.
fn failures_during(seconds: &[Second], spans: &[PlannedSpan<'_>]) -> Vec<(u64, u64)> {
    let is_disturbed = |second: &&Second| {
        second.joined.is_none()
            && second.faults > 0
            && disturbances::overlap_ms(spans, second.at_ms, 1000) > 0
    };
    let disturbed = seconds.iter().filter(is_disturbed);
    disturbed
        .map(|second| (second.at_ms, second.faults))
        .collect()
}

fn soak_arm(arm: &str, trials: &[&LongTrial<'_>], error_rate: f64) -> SoakArm {
    let requests: u64 = trials.iter().map(|trial| trial.requests).sum();
    let disturbed_requests: u64 = trials.iter().map(|trial| trial.disturbed_requests()).sum();
    let failures = trials.iter().map(|trial| trial.failures).sum();
    let (mut hours, mut failure_hours) = (0, 0);
    let (mut unplanned_outages, mut planned_outages) = (Vec::new(), Vec::new());
    let (mut changes, mut cut_short) = (Vec::new(), Vec::new());
    for trial in trials {
        // Requests may fail in the hour after the one in which their disturbance began.
        let mut planned_failures = 0;
        for part in parts(&[trial], HOUR_MS) {
            planned_failures += trial.planned_in(part.at_ms, HOUR_MS);
            hours += 1;
            failure_hours += u32::from(part.failures > planned_failures);
            planned_failures = planned_failures.saturating_sub(part.failures);
        }
        let Outages { unplanned, planned } = service::outages(trial.timeline, &trial.spans);
        unplanned_outages.extend(unplanned.map(|outage| Outage {
            trial: trial.number,
            ..outage
        }));
        planned_outages.extend(planned.map(|outage| PlannedOutage {
            trial: trial.number,
            ..outage
        }));
        let trial_changes = service::changes(trial.timeline, error_rate).into_iter();
        changes.extend(trial_changes.map(|change| Change {
            trial: trial.number,
            ..change
        }));
        cut_short.extend(trial.cut_short.map(|reason| CutShort {
            trial: trial.number,
            at_ms: trial.end_ms(),
            reason,
        }));
    }
    let defects = |kinds: &[Kind]| {
        let logs = trials.iter().filter_map(|trial| trial.defects);
        logs.flat_map(|log| &log.found)
            .filter(|defect| kinds.contains(&defect.kind))
            .map(|defect| defect.count)
            .fold(0, u64::saturating_add)
    };
    let by_day = parts(trials, DAY_MS);
    SoakArm {
        arm: arm.into(),
        trials: trials.len() as u32,
        cut_short,
        length_ms: trials.iter().map(|trial| trial.length_ms()).sum(),
        requests,
        failures,
        disturbed_requests,
        failure_bound: upper_bound(failures, requests.saturating_sub(disturbed_requests)),
        hours,
        failure_hours,
        failure_hours_bound: upper_bound(failure_hours.into(), hours.into()),
        planned_failures: trials
            .iter()
            .map(|trial| trial.planned_in(0, u64::MAX))
            .sum(),
        outage: unplanned_outages
            .into_iter()
            .max_by_key(|outage| outage.length_ms),
        planned_outage: planned_outages
            .into_iter()
            .max_by_key(|outage| outage.length_ms),
        service_crashes: defects(&[Kind::ServiceCrash, Kind::ServiceExit]),
        service_restarts: defects(&[Kind::ServiceRestart]),
        changes,
        by_hour: parts(trials, HOUR_MS),
        by_day: if by_day.len() > 1 { by_day } else { Vec::new() },
        has_counters: false,
    }
}

/// Sums over a part of the window.
#[derive(Default)]
struct Part<'r> {
    length_ms: u64,
    ok: u64,
    failures: u64,
    latencies: Vec<&'r Packed>,
    /// Sum of readings in bytes, and their number.
    memory: (f64, f64),
    swap: Option<u64>,
}

/// The window in parts of `step_ms` each, summed over trials.
fn parts(trials: &[&LongTrial<'_>], step_ms: u64) -> Vec<SoakPart> {
    let mut parts = BTreeMap::<u64, Part<'_>>::new();
    for trial in trials {
        for second in trial.timeline {
            let part = parts.entry(second.at_ms / step_ms).or_default();
            part.length_ms += second.length_ms();
            part.ok += second.ok;
            part.failures += second.faults;
            part.latencies.push(&second.latency);
        }
        for reading in trial.counters {
            let Ok(at_ms) = u64::try_from(reading.at_ms) else {
                continue;
            };
            // A reading at the very end of the window lies in no part.
            let Some(part) = parts.get_mut(&(at_ms / step_ms)) else {
                continue;
            };
            if let Some(used) = reading.values.get(counters::MEMORY_USED) {
                let weight = reading.readings() as f64;
                part.memory.0 += *used as f64 * weight;
                part.memory.1 += weight;
            }
            part.swap = part.swap.max(reading.most(counters::SWAP_USED));
        }
    }
    let mut soak_parts = Vec::new();
    for (number, part) in parts {
        let latency = Packed::sum(part.latencies).unpack();
        let quantile = |quantile: f64, least: u64| {
            (latency.count() >= least).then(|| latency.quantile_ns(quantile) as f64 / 1e6)
        };
        soak_parts.push(SoakPart {
            at_ms: number * step_ms,
            length_ms: part.length_ms,
            ok: part.ok,
            failures: part.failures,
            p50_ms: quantile(0.5, 1),
            p99_ms: quantile(0.99, ENOUGH / 10),
            p999_ms: quantile(0.999, ENOUGH),
            memory_used_bytes: (part.memory.1 > 0.0)
                .then(|| (part.memory.0 / part.memory.1) as u64),
            swap_used_bytes: part.swap,
        });
    }
    soak_parts
}

/// Memory, swap and failures by the hour, as curves over time; none for trials of one hour or less.
pub(crate) fn curves(soaks: &[Soak]) -> Vec<ArmCurve> {
    type ValueOf = fn(&SoakPart) -> Option<f64>;
    let all: [(&str, &str, ValueOf); 3] = [
        ("memory-in-use", "MiB", |part| {
            part.memory_used_bytes.map(mebibytes)
        }),
        ("swap-in-use", "MiB", |part| {
            part.swap_used_bytes.map(mebibytes)
        }),
        ("failed-in-the-hour", "requests", |part| {
            Some(part.failures as f64)
        }),
    ];
    let mut curves = Vec::new();
    for soak in soaks {
        for (name, unit, value_of) in all {
            for arm in soak.arms.iter().filter(|arm| arm.by_hour.len() > 1) {
                let parts = arm.by_hour.iter();
                let points: Vec<Point> = parts
                    .filter_map(|part| {
                        let at = part.at_ms as f64 / 1e3;
                        value_of(part).map(|value| Point { at, value })
                    })
                    .collect();
                if points.is_empty() {
                    continue;
                }
                let values: Vec<f64> = points.iter().map(|point| point.value).collect();
                curves.push(ArmCurve {
                    workload: soak.workload.clone(),
                    arm: arm.arm.clone(),
                    trials: arm.trials,
                    typical: Curve {
                        name: name.into(),
                        unit: unit.into(),
                        direction: Direction::Lower,
                        axis: "s".into(),
                        points,
                    },
                    lowest: values.clone(),
                    highest: values,
                    shape: None,
                });
            }
        }
    }
    curves
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// All counters of all arms, the baseline's first.
fn counters(run: &Run, trials: &[LongTrial<'_>]) -> Vec<Counter> {
    let readings = trials.iter().flat_map(|trial| trial.counters);
    let names: BTreeSet<&str> = readings
        .flat_map(|reading| reading.values.keys().map(String::as_str))
        .collect();
    let baseline = &run.plan.baseline;
    let mut arms: Vec<&str> = run.plan.arms.iter().map(|arm| &*arm.name).collect();
    arms.sort_by_key(|arm| *arm != *baseline);
    let in_arm = |arm: &str, name: &str| {
        let trials = trials_of(arm, trials);
        InArm {
            arm: arm.into(),
            limit: trials.iter().find_map(|trial| limit(trial.counters, name)),
            trials: trials
                .iter()
                .map(|trial| series(trial, name))
                .filter(|series| !series.readings.is_empty())
                .collect(),
        }
    };
    let counter = |name: &str| Counter {
        name: name.into(),
        arms: arms.iter().map(|arm| in_arm(arm, name)).collect(),
    };
    names.into_iter().map(counter).collect()
}

/// The most a counter can be: its own limit, or the memory.
fn limit(readings: &[Counters], name: &str) -> Option<u64> {
    let limit_of = |name: &str| {
        let mut readings = readings.iter();
        readings
            .find_map(|reading| reading.limits.get(name))
            .copied()
    };
    limit_of(name).or_else(|| match counters::unit(name) {
        counters::Unit::Bytes => limit_of(counters::MEMORY_TOTAL),
        counters::Unit::Count | counters::Unit::Permille => None,
    })
}

/// A counter's readings outside planned disturbances; none if it was not read until the end of the trial.
fn series(trial: &LongTrial<'_>, name: &str) -> Series {
    let end_s = trial.end_ms() as f64 / 1e3;
    let next = trial.counters.iter().skip(1).map(|reading| reading.at_ms);
    let next = next.chain([i64::try_from(trial.end_ms()).unwrap_or(i64::MAX)]);
    let mut readings = Vec::new();
    for (reading, next_ms) in trial.counters.iter().zip(next) {
        let Some(value) = reading.values.get(name) else {
            continue;
        };
        if trial.is_disturbed(reading) {
            continue;
        }
        let weight = reading.readings() as f64;
        // Joined readings have the time of the first; the last of them was before the next reading.
        let to_middle_ms =
            (next_ms - reading.at_ms).max(0) as f64 * (weight - 1.0) / (2.0 * weight);
        readings.push(Reading {
            at_s: (reading.at_ms as f64 + to_middle_ms) / 1e3,
            value: *value as f64,
            weight,
        });
    }
    let last_s = readings.last().map_or(0.0, |reading| reading.at_s);
    if last_s < (1.0 - UNREAD) * end_s {
        readings.clear();
    }
    Series { readings, end_s }
}

/// Throughput against the baseline of arms that have too few blocks for an interval.
fn speed(
    run: &Run,
    comparisons: &[Comparison],
    workload: &str,
    trials: &[LongTrial<'_>],
) -> Vec<WithinRuns> {
    let is_open = |arm: &str| {
        let primary = comparisons.iter().find(|comparison| {
            comparison.spec.role == Role::Primary
                && comparison.workload == workload
                && comparison.arm == arm
        });
        primary.is_some_and(|primary| !primary.has_interval())
    };
    let mut speeds = Vec::new();
    for arm in &run.plan.arms {
        if arm.name == run.plan.baseline || !is_open(&arm.name) {
            continue;
        }
        let rates =
            [&arm.name, &run.plan.baseline].map(|arm| mean_log_rate(&trials_of(arm, trials)));
        let [Some((rate, variance)), Some((base_rate, base_variance))] = rates else {
            continue;
        };
        let (middle, reach) = (rate - base_rate, Z * (variance + base_variance).sqrt());
        speeds.push(WithinRuns {
            arm: arm.name.clone(),
            ratio: middle.exp(),
            low: (middle - reach).exp(),
            high: (middle + reach).exp(),
        });
    }
    speeds
}

/// The mean logarithm of throughput over complete trials, and its variance; `None` without complete trials.
fn mean_log_rate(trials: &[&LongTrial<'_>]) -> Option<(f64, f64)> {
    let complete = trials.iter().filter(|trial| trial.cut_short.is_none());
    let rates: Vec<(f64, f64)> = complete.filter_map(|trial| log_rate(trial)).collect();
    let count = rates.len() as f64;
    let mean = rates.iter().map(|rate| rate.0).sum::<f64>() / count;
    let variance = rates.iter().map(|rate| rate.1).sum::<f64>() / (count * count);
    (!rates.is_empty()).then_some((mean, variance))
}

/// The logarithm of a trial's mean throughput, and its variance from the variation within the trial (the delta method).
fn log_rate(trial: &LongTrial<'_>) -> Option<(f64, f64)> {
    let readings: Vec<Reading> = trial
        .timeline
        .iter()
        .map(|second| Reading {
            at_s: second.at_ms as f64 / 1e3,
            value: second.ok as f64 / second.length_s(),
            weight: second.length_s(),
        })
        .collect();
    let batches = batches::means(&readings, 0.0, trial.end_ms() as f64 / 1e3);
    let rates: Vec<f64> = batches.iter().map(|batch| batch.1).collect();
    let count = rates.len() as f64;
    let served: u64 = trial.timeline.iter().map(|second| second.ok).sum();
    if rates.is_empty() || served == 0 {
        return None;
    }
    let mean = served as f64 / (trial.length_ms() as f64 / 1e3);
    let spread = rates
        .iter()
        .map(|rate| (rate / mean - 1.0).powi(2))
        .sum::<f64>()
        / (count - 1.0);
    let variance = spread / count * batches::inflation(&centred(&rates), 1.0);
    Some((mean.ln(), variance))
}

#[cfg(test)]
mod tests;
