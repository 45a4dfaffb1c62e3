//! Each planned disturbance takes effect in all arms, or in none.

use record::verdict::fairness::{Detail, Missing, Outcome};

use crate::topics::fairness::subject::{Subject, unknown, unless};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "planned-disturbances",
    group: Group::Measurement,
    must_hold: "Each planned disturbance takes effect in all arms, or in none.",
    why: "A kernel without the network emulator loses no packets, and serves more.",
    mend: "Read the reason in the table of disturbances. Remove the disturbance, or use kernels that support it.",
    reads: "lost packets, refused writes and killed workers by arm",
    judge: Judge::Run(planned_disturbances),
    foreseen: Foreseen::Nothing,
};

fn planned_disturbances(subject: &Subject<'_>) -> Outcome {
    if subject.run.plan.disturbances.is_empty() {
        return Outcome::NotApplicable;
    }
    if !subject.all_are_measured() {
        return unknown(Missing::Trial);
    }
    let mut details = Vec::new();
    for workload in subject.workloads() {
        for planned in &subject.run.plan.disturbances {
            let of_arm = |arm: &str| {
                let trials = subject.measured();
                let mut recorded = trials
                    .filter(|(on, by, _)| *on == workload && *by == arm)
                    .flat_map(|(_, _, trial)| &trial.disturbances)
                    .filter(|disturbance| disturbance.name == planned.name);
                recorded.any(|disturbance| disturbance.effect.took())
            };
            let arms = subject.arms().map(String::from);
            let (felt, unfelt): (Vec<_>, Vec<_>) = arms.partition(|arm| of_arm(arm));
            if !felt.is_empty() && !unfelt.is_empty() {
                details.push(Detail::Unfelt {
                    workload: workload.into(),
                    disturbance: planned.name.clone(),
                    felt,
                    unfelt,
                });
            }
        }
    }
    unless(details)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use plan::{DisturbanceKind, PlannedDisturbance};
    use record::disturbances::{DisturbanceRecord, Effect};
    use record::rundir::Run;
    use record::trial::Outcome as TrialOutcome;
    use record::verdict::fairness::Outcome;

    use super::CHECK;
    use crate::topics::fairness::tests::*;

    /// A run in which packets were lost in these arms, and could not be lost in the others.
    fn felt_by(arms: &[&str]) -> Run {
        let mut run = whole().run();
        run.plan.disturbances = vec![PlannedDisturbance {
            name: "loss".into(),
            kind: DisturbanceKind::Loss { share: 0.01 },
            at_ms: vec![1000],
            length_ms: 1000,
        }];
        for record in &mut run.attempts {
            let is_felt = arms.contains(&record.trial.arm.as_str());
            if let TrialOutcome::Measured(measurement) = &mut record.outcome {
                let effect = if is_felt {
                    Effect::Took {
                        counts: BTreeMap::new(),
                    }
                } else {
                    Effect::Impossible {
                        why: "no such qdisc".into(),
                    }
                };
                measurement.disturbances = vec![DisturbanceRecord {
                    name: "loss".into(),
                    begin_ms: 1000,
                    end_ms: 2000,
                    effect,
                    service: None,
                }];
            }
        }
        run
    }

    #[test]
    fn a_disturbance_of_one_arm_alone_is_found() {
        assert_eq!(outcome(&CHECK, &whole().run()), Outcome::NotApplicable);
        assert_eq!(outcome(&CHECK, &felt_by(&["6.1", "7.2"])), Outcome::Passed);
        assert_eq!(outcome(&CHECK, &felt_by(&[])), Outcome::Passed);
        assert!(is_failed(&outcome(&CHECK, &felt_by(&["7.2"]))));
    }
}
