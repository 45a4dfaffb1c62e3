//! Two runs of the same arms, apart in time: what must agree before their figures are compared, and the figures.
//!
//! Arms of one run take turns, so that what the machine did meanwhile it did to all. Arms of two runs do not: only `fixed_sample::unpaired` may
//! judge them.

use std::collections::BTreeSet;

use plan::Arm;
use record::metric::MetricSpec;
use record::rundir::Run;
use record::verdict::apart::{ArmKey, Change, Obstacle};

use crate::topics::metrics::pair::Measured;

/// One arm's figures of one metric in both runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Apart {
    /// The workload's id.
    pub workload: String,
    /// The arm, of the same name in both runs.
    pub arm: String,
    /// The metric.
    pub spec: MetricSpec,
    /// A figure for each measured trial of the earlier run.
    pub before: Vec<f64>,
    /// Those of the other run.
    pub after: Vec<f64>,
}

/// Figures of all workloads, arms and metrics that both runs have; primary metrics first in each.
pub fn figures(before: &Run, after: &Run) -> Vec<Apart> {
    let (of_before, of_after) = (Measured::of(before), Measured::of(after));
    let mut all = Vec::new();
    for workload in &before.plan.workloads {
        for spec in of_before.specs(&workload.id) {
            for arm in common_arms(before, after) {
                let of = |measured: &Measured<'_>| -> Vec<f64> {
                    let figures = measured.figures(&workload.id, &arm.name, &spec.name);
                    figures.into_iter().map(|(_, figure)| figure).collect()
                };
                let (before, after) = (of(&of_before), of(&of_after));
                if !before.is_empty() && !after.is_empty() {
                    all.push(Apart {
                        workload: workload.id.clone(),
                        arm: arm.name.clone(),
                        spec: spec.clone(),
                        before,
                        after,
                    });
                }
            }
        }
    }
    all
}

/// What differs between two runs that must not.
pub fn obstacles(before: &Run, after: &Run) -> Vec<Obstacle> {
    let mut found = Vec::new();
    let runs = [before, after];
    let clocks = runs.map(|run| run.opening.ns_per_instruction);
    if differ(&clocks) {
        found.push(Obstacle::Clock(clocks));
    }
    let prices = runs.map(|run| run.opening.string_price);
    if differ(&prices) {
        found.push(Obstacle::StringPrice(prices));
    }
    let machines = runs.map(|run| run.opening.machine.clone());
    if differ(&machines) {
        found.push(Obstacle::Machine(Box::new(machines)));
    }
    let kernels = common_arms(before, after).map(|arm| format!("kernel of arm {}", arm.name));
    for name in std::iter::once("image".to_string()).chain(kernels) {
        let sha256 = runs.map(|run| run.opening.inputs.get(&name).cloned());
        if differ(&sha256) {
            found.push(Obstacle::Input { name, sha256 });
        }
    }
    for workload in &before.plan.workloads {
        let mut others = after.plan.workloads.iter();
        let Some(other) = others.find(|one| one.id == workload.id) else {
            continue;
        };
        let options = [workload, other].map(|one| format!("{} {}", one.kind, one.options));
        if differ(&options) {
            let id = workload.id.clone();
            found.push(Obstacle::Workload { id, options });
        }
    }
    if common_arms(before, after).next().is_none() {
        let names = |run: &Run| run.plan.arms.iter().map(|arm| arm.name.clone()).collect();
        found.push(Obstacle::NoCommonArm(runs.map(names)));
    }
    found
}

fn differ<T: PartialEq>([one, other]: &[T; 2]) -> bool {
    one != other
}

/// What differs between two runs and may be what is asked about.
pub fn changes(before: &Run, after: &Run) -> Vec<Change> {
    let mut changes = Vec::new();
    for one in common_arms(before, after) {
        let mut others = after.plan.arms.iter();
        let Some(other) = others.find(|other| other.name == one.name) else {
            continue;
        };
        let keys = [
            (ArmKey::Cmdline, one.cmdline != other.cmdline),
            (ArmKey::Sysctl, one.sysctl != other.sysctl),
            (ArmKey::Cpus, one.cpus != other.cpus),
            (ArmKey::Tuning, one.tuning != other.tuning),
        ];
        let differing = keys.into_iter().filter(|(_, differs)| *differs);
        changes.extend(differing.map(|(key, _)| Change::Arm {
            arm: one.name.clone(),
            key,
        }));
    }
    let build = |run: &Run| run.opening.inputs.get("bakeoff's binary").cloned();
    if build(before) != build(after) {
        changes.push(Change::Bakeoff);
    }
    changes
}

fn common_arms<'r>(before: &'r Run, after: &Run) -> impl Iterator<Item = &'r Arm> {
    let names: BTreeSet<String> = after.plan.arms.iter().map(|arm| arm.name.clone()).collect();
    before
        .plan
        .arms
        .iter()
        .filter(move |arm| names.contains(&arm.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::StringPrice;
    use record::fixtures::builder::RunBuilder;

    fn run(change: impl FnOnce(&mut Run)) -> Run {
        RunBuilder::new()
            .blocks(&[[100.0, 107.0], [101.0, 108.0]])
            .with(change)
            .run()
    }

    #[test]
    fn figures_of_an_arm_stand_beside_those_of_the_same_arm() {
        let (before, after) = (run(|_| {}), run(|_| {}));
        assert_eq!(obstacles(&before, &after), []);
        let figures = figures(&before, &after);
        let first = (
            &*figures[0].arm,
            &figures[0].before[..],
            &figures[1].arm[..],
        );
        assert_eq!(first, ("6.1", &[100.0, 101.0][..], "7.2"));
        assert_eq!(changes(&before, &after), []);
    }

    #[test]
    fn what_makes_figures_another_quantity_is_an_obstacle_and_what_may_be_asked_about_is_not() {
        let before = run(|_| {});
        let counted = run(|run| {
            run.opening.ns_per_instruction = Some(2);
            run.opening.string_price = Some(StringPrice::USUAL);
        });
        let clock = Obstacle::Clock([None, Some(2)]);
        let price = Obstacle::StringPrice([None, Some(StringPrice::USUAL)]);
        assert_eq!(obstacles(&before, &counted), [clock, price]);
        let name = "kernel of arm 6.1".to_string();
        let sha = "0123456789abcdef".to_string();
        let kernel = run(|run| {
            run.opening.inputs.insert(name.clone(), sha.clone());
        });
        let sha256 = [None, Some(sha.clone())];
        let other_kernel = Obstacle::Input {
            name: name.clone(),
            sha256,
        };
        assert_eq!(obstacles(&before, &kernel), [other_kernel]);
        let tuned = run(|run| run.plan.arms[1].cmdline = "quiet".into());
        assert_eq!(obstacles(&before, &tuned), []);
        let cmdline = Change::Arm {
            arm: "7.2".into(),
            key: ArmKey::Cmdline,
        };
        assert_eq!(changes(&before, &tuned), [cmdline]);
        let others = run(|run| {
            for arm in &mut run.plan.arms {
                arm.name.insert(0, 'x');
            }
        });
        let arms = [["6.1", "7.2"], ["x6.1", "x7.2"]];
        let arms = arms.map(|arms| arms.map(String::from).to_vec());
        assert_eq!(obstacles(&before, &others), [Obstacle::NoCommonArm(arms)]);
    }
}
