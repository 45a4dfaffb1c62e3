//! Summarises the disturbances that the plan injects, by workload, disturbance and arm.

use std::collections::BTreeMap;

use plan::PlannedDisturbance;
use record::disturbances::{DisturbanceRecord, Effect, ServiceAround};
use record::rundir::Run;
use record::trial::Measurement;
use record::verdict::Spread;
use record::verdict::planned::PlannedSummary;

use crate::topics::metrics::measured::Measured;

/// Summaries of arms with measured trials, in the plan's order.
pub(crate) fn of(run: &Run, measured: &Measured<'_>) -> Vec<PlannedSummary> {
    let mut all = Vec::new();
    for workload in &run.plan.workloads {
        for planned in &run.plan.disturbances {
            for arm in &run.plan.arms {
                let trials = measured.of_arm(&workload.id, &arm.name);
                if !trials.is_empty() {
                    all.push(PlannedSummary {
                        workload: workload.id.clone(),
                        arm: arm.name.clone(),
                        ..summary(planned, &trials)
                    });
                }
            }
        }
    }
    all
}

fn summary(planned: &PlannedDisturbance, trials: &[&Measurement]) -> PlannedSummary {
    let all = trials.iter().flat_map(|trial| &trial.disturbances);
    let records: Vec<&DisturbanceRecord> =
        all.filter(|record| record.name == planned.name).collect();
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let (mut took, mut impossible, mut reason) = (0, 0, None);
    for record in &records {
        match &record.effect {
            Effect::Took { counts } | Effect::Unfelt { counts } => {
                took += u32::from(record.effect.took());
                for (name, count) in counts {
                    let sum = sums.entry(name.clone()).or_default();
                    *sum = sum.saturating_add(*count);
                }
            }
            Effect::Impossible { why } => {
                impossible += 1;
                reason = reason.or(Some(why.clone()));
            }
        }
    }
    let services = records.iter();
    let services = services.filter_map(|record| record.service.as_ref());
    let services: Vec<&ServiceAround> = services.collect();
    let spread_of =
        |value: fn(&ServiceAround) -> f64| spread(services.iter().map(|service| value(service)));
    let mut failed: u64 = 0;
    for service in &services {
        failed = failed.saturating_add(service.all_failed());
    }
    let not_recovered = services.iter();
    let not_recovered = not_recovered.filter(|service| service.recovery_ms.is_none());
    PlannedSummary {
        workload: String::new(),
        arm: String::new(),
        name: planned.name.clone(),
        kind: planned.kind.word().into(),
        times: records.len() as u32,
        took,
        impossible,
        why: reason,
        counts: sums,
        failed,
        before_per_s: spread_of(|service| service.before_per_s),
        during_per_s: spread_of(|service| service.during_per_s),
        recovery_s: spread_of(|service| service.at_least_ms() as f64 / 1e3),
        not_recovered: not_recovered.count() as u32,
    }
}

fn spread(values: impl Iterator<Item = f64>) -> Option<Spread> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let typical = if values.len().is_multiple_of(2) {
        f64::midpoint(*values.get(middle.checked_sub(1)?)?, values[middle])
    } else {
        values[middle]
    };
    Some(Spread {
        typical,
        lowest: *values.first()?,
        highest: *values.last()?,
    })
}
