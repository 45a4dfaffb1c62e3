//! What the plan had done to the systems on purpose: what came of it under each arm.

use std::collections::BTreeMap;

use plan::PlannedDisturbance;
use record::disturbances::{DisturbanceRecord, Effect, ServiceAround};
use record::rundir::Run;
use record::trial::Measurement;
use record::verdict::Spread;
use record::verdict::planned::PlannedSummary;

use crate::topics::metrics::pair::Measured;

/// By workload, disturbance and arm, in the plan's order.
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
    let its: Vec<&DisturbanceRecord> = all.filter(|one| one.name == planned.name).collect();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let (mut took, mut impossible, mut reason) = (0, 0, None);
    for one in &its {
        match &one.effect {
            Effect::Took { counts: own } | Effect::Unfelt { counts: own } => {
                took += u32::from(one.effect.took());
                for (name, count) in own {
                    let sum = counts.entry(name.clone()).or_default();
                    *sum = sum.saturating_add(*count);
                }
            }
            Effect::Impossible { why } => {
                impossible += 1;
                reason = reason.or(Some(why.clone()));
            }
        }
    }
    let services: Vec<&ServiceAround> = its.iter().filter_map(|one| one.service.as_ref()).collect();
    let spread_of = |of: fn(&ServiceAround) -> f64| spread(services.iter().map(|one| of(one)));
    let not_recovered = services.iter().filter(|one| one.recovery_ms.is_none());
    PlannedSummary {
        workload: String::new(),
        arm: String::new(),
        name: planned.name.clone(),
        kind: planned.kind.word().into(),
        times: its.len() as u32,
        took,
        impossible,
        why: reason,
        counts,
        failed: services
            .iter()
            .fold(0, |sum, one| sum.saturating_add(one.all_failed())),
        before_per_s: spread_of(|one| one.before_per_s),
        during_per_s: spread_of(|one| one.during_per_s),
        recovery_s: spread_of(|one| one.at_least_ms() as f64 / 1e3),
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
