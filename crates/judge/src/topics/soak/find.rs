//! Soaks: what long trials say of reliability, growth and service over time.
//!
//! One pair of trials of two weeks carries no verdict on speed: which arm got the better boot is chance, and nothing was drawn often enough
//! to tell. So speed is shown as it was within the trials, and what can be said is said: how rare failures are at the most, what grows, how
//! long service was out, where it changed. Trials that were cut short are evidence up to there.

use std::collections::{BTreeMap, BTreeSet};

use plan::WorkloadPlan;
use record::counters;
use record::counters::Counters;
use record::curve::{Curve, Point};
use record::defect::{DefectLog, Kind};
use record::disturbances;
use record::disturbances::{BegunDisturbance, DisturbanceRecord, PlannedSpan};
use record::latency::Packed;
use record::load::Second;
use record::metric::{Direction, Role};
use record::rundir::{LongEvidence, Run, TrialRecord};
use record::trial::{Outcome, VoidReason};
use record::verdict::soak::{CutShort, GrowthRule, Soak, SoakArm, SoakPart, WithinRuns};
use record::verdict::{ArmCurve, Comparison};

use crate::topics::soak::growth;
use crate::topics::soak::growth::{Counter, InArm, Series};
use crate::topics::soak::reliability::upper_bound;
use crate::topics::soak::service;
use stats::batches;
use stats::batches::{Reading, centred};

/// Windows shorter than this say nothing of what happens over time.
const SHORTEST_MS: u64 = record::counters::SHORTEST_MS;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Fewer answers have no latency that one in a thousand exceeds.
const ENOUGH: u64 = 1000;

/// What was not read for this share of the window at its end says nothing of growth.
const UNREAD: f64 = 1.0 / 8.0;

/// Half the width of an interval at the level of `record::verdict::soak::CONFIDENCE`, in standard errors.
pub(crate) const Z: f64 = 1.959_963_984_540_054;

/// A trial that was long enough.
struct Long<'r> {
    number: u32,
    arm: &'r str,
    timeline: &'r [Second],
    counters: &'r [Counters],
    cut_short: Option<VoidReason>,
    requests: u64,
    /// But for those that are laid to a disturbance of the plan.
    failures: u64,
    /// Those, by the instant at which theirs began.
    planned_failures: Vec<(u64, u64)>,
    /// What was done to it on purpose.
    spans: Vec<PlannedSpan<'r>>,
    defects: Option<&'r DefectLog>,
}

/// The soaks of a run: workloads with a trial that was long enough.
pub(crate) fn of(run: &Run, comparisons: &[Comparison]) -> Vec<Soak> {
    let workloads = run.plan.workloads.iter();
    workloads
        .filter_map(|workload| of_workload(run, comparisons, workload))
        .collect()
}

fn of_workload(run: &Run, comparisons: &[Comparison], workload: &WorkloadPlan) -> Option<Soak> {
    let records = run.attempts.iter();
    let its = records.filter(|record| record.trial.workload == workload.id);
    let trials: Vec<Long<'_>> = its.filter_map(|record| Long::of(record, run)).collect();
    if trials.is_empty() {
        return None;
    }
    let error_rate = run.plan.design.error_rate / trials.len() as f64;
    let counters = counters(run, &trials);
    let tell_growth = |arm: &str| {
        let mut its = counters.iter().flat_map(|counter| &counter.arms);
        its.any(|one| one.arm == arm && one.trials.iter().any(Series::tells))
    };
    let arms = run.plan.arms.iter();
    let arms = arms.map(|arm| {
        let its = trials.iter().filter(|trial| trial.arm == arm.name);
        let its: Vec<&Long<'_>> = its.collect();
        SoakArm {
            has_counters: tell_growth(&arm.name),
            ..in_arm(&arm.name, &its, error_rate)
        }
    });
    let rule = GrowthRule {
        error_rate: run.plan.design.error_rate,
        least: run.plan.growth.least,
        after_ms: run.plan.growth.after.unwrap_or(workload.length).as_millis() as u64,
        tested: 0,
        levelled_off: 0,
        small: 0,
    };
    let (growth, rule) = growth::of(&counters, rule);
    Some(Soak {
        workload: workload.id.clone(),
        arms: arms.collect(),
        rule,
        growth,
        speed: speed(run, comparisons, &workload.id, &trials),
    })
}

impl<'r> Long<'r> {
    fn of(record: &'r TrialRecord, run: &'r Run) -> Option<Self> {
        let is_its = |one: &&LongEvidence| {
            one.trial.number == record.trial.number && one.attempt == record.attempt
        };
        let evidence = run.long.iter().find(is_its);
        let seconds = evidence.map_or(&[][..], |one| &one.seconds);
        let counters = evidence.map_or(&[][..], |one| &one.counters);
        let sum = |timeline: &[Second], of: fn(&Second) -> u64| {
            timeline.iter().map(of).fold(0, u64::saturating_add)
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
                planned_failures = planned(&measurement.disturbances);
                (&*load.timeline, failures, None)
            }
            Outcome::Void(void) => {
                let failures = sum(seconds, |one| one.faults);
                let begun = evidence.map_or(&[][..], |one| &one.disturbances);
                spans.extend(begun.iter().map(BegunDisturbance::span));
                planned_failures = while_they_lasted(seconds, &spans);
                (seconds, failures, Some(void.reason))
            }
            Outcome::Skipped(_) => return None,
        };
        let length_ms = sum(timeline, Second::length_ms);
        let requests = sum(timeline, |one| one.ok).saturating_add(failures);
        let all_planned: u64 = planned_failures.iter().map(|one| one.1).sum();
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

    /// Failures that are laid to disturbances which began in a part of the window.
    fn planned_in(&self, at_ms: u64, length_ms: u64) -> u64 {
        let its = self.planned_failures.iter();
        let its = its.filter(|(begin, _)| at_ms <= *begin && *begin - at_ms < length_ms);
        its.map(|(_, failed)| *failed).sum()
    }

    /// Whether a reading was taken while something was done to the system on purpose.
    fn is_disturbed(&self, reading: &Counters) -> bool {
        let Ok(at_ms) = u64::try_from(reading.at_ms) else {
            return false;
        };
        reading.joined.is_none() && disturbances::overlap_ms(&self.spans, at_ms, 1) > 0
    }

    /// Requests that ended well in seconds in which it was disturbed on purpose, and those that failed and are laid to that.
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

    /// Where the window ends, in milliseconds.
    fn end_ms(&self) -> u64 {
        let last = self.timeline.last();
        last.map_or(0, |last| last.at_ms.saturating_add(last.length_ms()))
    }
}

/// Failed requests that are laid to disturbances, each once, by when these began.
fn planned(records: &[DisturbanceRecord]) -> Vec<(u64, u64)> {
    let failed = |one: &DisturbanceRecord| {
        let service = one.service.as_ref()?;
        let own = service.all_failed().saturating_sub(service.counted_before);
        (own > 0).then_some((one.begin_ms, own))
    };
    records.iter().filter_map(failed).collect()
}

/// The same of a trial that was cut short: what failed while they lasted, in seconds that are single.
fn while_they_lasted(seconds: &[Second], spans: &[PlannedSpan<'_>]) -> Vec<(u64, u64)> {
    let is_disturbed = |at_ms: u64| disturbances::overlap_ms(spans, at_ms, 1000) > 0;
    let its = seconds
        .iter()
        .filter(|one| one.joined.is_none() && one.faults > 0 && is_disturbed(one.at_ms));
    its.map(|one| (one.at_ms, one.faults)).collect()
}

fn in_arm(arm: &str, trials: &[&Long<'_>], error_rate: f64) -> SoakArm {
    let requests: u64 = trials.iter().map(|one| one.requests).sum();
    let disturbed_requests: u64 = trials.iter().map(|one| one.disturbed_requests()).sum();
    let failures = trials.iter().map(|one| one.failures).sum();
    let (mut hours, mut failure_hours) = (0, 0);
    for trial in trials {
        // What began in one hour may have failed in the next.
        let mut planned = 0;
        for part in parts(&[trial], HOUR_MS) {
            planned += trial.planned_in(part.at_ms, HOUR_MS);
            hours += 1;
            failure_hours += u32::from(part.failures > planned);
            planned = planned.saturating_sub(part.failures);
        }
    }
    let outages = trials.iter().map(|one| {
        let mut outages = service::outages(one.timeline, &one.spans);
        let numbers = outages.unplanned.iter_mut().map(|one| &mut one.trial);
        let numbers = numbers.chain(outages.planned.iter_mut().map(|one| &mut one.trial));
        numbers.for_each(|trial| *trial = one.number);
        outages
    });
    let outages: Vec<service::Outages> = outages.collect();
    let unplanned = outages.iter().filter_map(|one| one.unplanned);
    let by_plan = outages.iter().filter_map(|one| one.planned.clone());
    let told = |kinds: &[Kind]| {
        let found = trials.iter().filter_map(|one| one.defects);
        let found = found.flat_map(|log| &log.found);
        let its = found.filter(|one| kinds.contains(&one.kind));
        its.map(|one| one.count).fold(0, u64::saturating_add)
    };
    let changes = trials.iter().flat_map(|one| {
        let changes = service::changes(one.timeline, error_rate).into_iter();
        changes.map(|change| record::verdict::soak::Change {
            trial: one.number,
            ..change
        })
    });
    let cut_short = trials.iter().filter_map(|one| {
        Some(CutShort {
            trial: one.number,
            at_ms: one.end_ms(),
            reason: one.cut_short?,
        })
    });
    let by_day = parts(trials, DAY_MS);
    SoakArm {
        arm: arm.into(),
        trials: trials.len() as u32,
        cut_short: cut_short.collect(),
        length_ms: trials.iter().map(|one| one.length_ms()).sum(),
        requests,
        failures,
        disturbed_requests,
        failure_bound: upper_bound(failures, requests.saturating_sub(disturbed_requests)),
        hours,
        failure_hours,
        failure_hours_bound: upper_bound(failure_hours.into(), hours.into()),
        planned_failures: trials.iter().map(|one| one.planned_in(0, u64::MAX)).sum(),
        outage: unplanned.max_by_key(|one| one.length_ms),
        planned_outage: by_plan.max_by_key(|one| one.length_ms),
        service_crashes: told(&[Kind::ServiceCrash, Kind::ServiceExit]),
        service_restarts: told(&[Kind::ServiceRestart]),
        changes: changes.collect(),
        by_hour: parts(trials, HOUR_MS),
        by_day: if by_day.len() > 1 { by_day } else { Vec::new() },
        has_counters: false,
    }
}

/// Some of the window under way.
#[derive(Default)]
struct Part<'r> {
    length_ms: u64,
    ok: u64,
    failures: u64,
    latencies: Vec<&'r Packed>,
    memory: (f64, f64),
    swap: Option<u64>,
}

/// The window in parts of one length, trials together.
fn parts(trials: &[&Long<'_>], step_ms: u64) -> Vec<SoakPart> {
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
            // What was read as the window closed is in no part of it.
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
    let part = |(number, part): (u64, Part<'_>)| {
        let latency = Packed::sum(part.latencies).unpack();
        let quantile = |quantile: f64, least: u64| {
            (latency.count() >= least).then(|| latency.quantile_ns(quantile) as f64 / 1e6)
        };
        SoakPart {
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
        }
    };
    parts.into_iter().map(part).collect()
}

/// Memory, swap and failures by the hour, as curves over time; those of one hour or less are none.
pub(crate) fn curves(soaks: &[Soak]) -> Vec<ArmCurve> {
    type Of = fn(&SoakPart) -> Option<f64>;
    let all: [(&str, &str, Of); 3] = [
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
        for (name, unit, of) in all {
            let arms = soak.arms.iter().filter(|arm| arm.by_hour.len() > 1);
            curves.extend(arms.filter_map(|arm| {
                let points = arm.by_hour.iter().filter_map(|part| {
                    let at = part.at_ms as f64 / 1e3;
                    of(part).map(|value| Point { at, value })
                });
                let points: Vec<Point> = points.collect();
                let values: Vec<f64> = points.iter().map(|point| point.value).collect();
                (!points.is_empty()).then(|| ArmCurve {
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
                })
            }));
        }
    }
    curves
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// All counters of all arms, the baseline's first.
fn counters(run: &Run, trials: &[Long<'_>]) -> Vec<Counter> {
    let values = trials.iter().flat_map(|one| one.counters);
    let names: BTreeSet<&str> = values
        .flat_map(|reading| reading.values.keys().map(String::as_str))
        .collect();
    let baseline = &run.plan.baseline;
    let mut arms: Vec<&str> = run.plan.arms.iter().map(|arm| &*arm.name).collect();
    arms.sort_by_key(|arm| *arm != *baseline);
    let counter = |name: &str| Counter {
        name: name.into(),
        arms: arms
            .iter()
            .map(|arm| {
                let its = trials.iter().filter(|trial| trial.arm == *arm);
                let its: Vec<&Long<'_>> = its.collect();
                InArm {
                    arm: (*arm).into(),
                    limit: its.iter().find_map(|trial| limit(trial.counters, name)),
                    trials: its
                        .iter()
                        .map(|trial| series(trial, name))
                        .filter(|series| !series.readings.is_empty())
                        .collect(),
                }
            })
            .collect(),
    };
    names.into_iter().map(counter).collect()
}

/// What a counter cannot exceed: its own limit, or the memory.
fn limit(readings: &[Counters], name: &str) -> Option<u64> {
    let own = |name: &str| {
        readings
            .iter()
            .find_map(|one| one.limits.get(name))
            .copied()
    };
    own(name).or_else(|| match counters::unit(name) {
        counters::Unit::Bytes => own(counters::MEMORY_TOTAL),
        counters::Unit::Count | counters::Unit::Permille => None,
    })
}

/// What a counter was while nothing was done to the system on purpose; nothing of one that was not read until the trial's end.
fn series(trial: &Long<'_>, name: &str) -> Series {
    let end_s = trial.end_ms() as f64 / 1e3;
    let next = trial.counters.iter().skip(1).map(|one| one.at_ms);
    let next = next.chain([i64::try_from(trial.end_ms()).unwrap_or(i64::MAX)]);
    let mut readings = Vec::new();
    for (one, next_ms) in trial.counters.iter().zip(next) {
        let Some(value) = one.values.get(name).filter(|_| !trial.is_disturbed(one)) else {
            continue;
        };
        let weight = one.readings() as f64;
        // Of several the time of the first is known; they end before the next reading.
        let to_middle_ms = (next_ms - one.at_ms).max(0) as f64 * (weight - 1.0) / (2.0 * weight);
        readings.push(Reading {
            at_s: (one.at_ms as f64 + to_middle_ms) / 1e3,
            value: *value as f64,
            weight,
        });
    }
    let last_s = readings.last().map_or(0.0, |one| one.at_s);
    if last_s < (1.0 - UNREAD) * end_s {
        readings.clear();
    }
    Series { readings, end_s }
}

/// Arms whose blocks exclude nothing, against the baseline.
fn speed(
    run: &Run,
    comparisons: &[Comparison],
    workload: &str,
    trials: &[Long<'_>],
) -> Vec<WithinRuns> {
    let is_open = |arm: &str| {
        let its = |one: &&Comparison| one.workload == workload && one.arm == arm;
        let mut primaries = comparisons
            .iter()
            .filter(|one| one.spec.role == Role::Primary);
        primaries.find(its).is_some_and(|one| !one.has_interval())
    };
    let whole = |arm: &str| {
        let its = trials.iter().filter(|one| one.arm == arm);
        let rates: Vec<(f64, f64)> = its
            .filter(|one| one.cut_short.is_none())
            .filter_map(log_rate)
            .collect();
        let count = rates.len() as f64;
        let mean = rates.iter().map(|rate| rate.0).sum::<f64>() / count;
        let variance = rates.iter().map(|rate| rate.1).sum::<f64>() / (count * count);
        (!rates.is_empty()).then_some((mean, variance))
    };
    let others = run.plan.arms.iter();
    let others = others.filter(|arm| arm.name != run.plan.baseline && is_open(&arm.name));
    others
        .filter_map(|arm| {
            let (own, base) = (whole(&arm.name)?, whole(&run.plan.baseline)?);
            let (middle, reach) = (own.0 - base.0, Z * (own.1 + base.1).sqrt());
            Some(WithinRuns {
                arm: arm.name.clone(),
                ratio: middle.exp(),
                low: (middle - reach).exp(),
                high: (middle + reach).exp(),
            })
        })
        .collect()
}

/// The logarithm of a trial's mean throughput, and its variance by what that varies within the trial (the delta method).
fn log_rate(trial: &Long<'_>) -> Option<(f64, f64)> {
    let readings: Vec<Reading> = trial
        .timeline
        .iter()
        .map(|one| Reading {
            at_s: one.at_ms as f64 / 1e3,
            value: one.ok as f64 / one.length_s(),
            weight: one.length_s(),
        })
        .collect();
    let batches = batches::means(&readings, (0.0, trial.end_ms() as f64 / 1e3));
    let rates: Vec<f64> = batches.iter().map(|batch| batch.1).collect();
    let count = rates.len() as f64;
    let served: u64 = trial.timeline.iter().map(|one| one.ok).sum();
    if rates.is_empty() || served == 0 {
        return None;
    }
    let mean = served as f64 / (trial.length_ms() as f64 / 1e3);
    let spread = rates
        .iter()
        .map(|rate| (rate / mean - 1.0).powi(2))
        .sum::<f64>()
        / (count - 1.0);
    Some((
        mean.ln(),
        spread / count * batches::inflation(&centred(&rates), 1.0),
    ))
}

#[cfg(test)]
mod tests;
