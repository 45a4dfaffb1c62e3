//! Compares two runs of the same arms: the figures of both, and what must agree before they are compared.
//!
//! Arms of one run alternate, so machine drift affects all of them. Arms of two runs do not alternate, so only
//! `fixed_sample::unpaired` may judge them.

use std::collections::BTreeSet;

use plan::Arm;
use record::metric::MetricSpec;
use record::rundir::Run;
use record::verdict::apart::{ArmKey, Change, Obstacle};

use crate::topics::metrics::measured::Measured;

/// Figures of one arm and one metric from both runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Apart {
    /// The workload's id.
    pub workload: String,
    /// The arm's name, the same in both runs.
    pub arm: String,
    /// The metric.
    pub spec: MetricSpec,
    /// One figure for each measured trial of the earlier run.
    pub before: Vec<f64>,
    /// One figure for each measured trial of the later run.
    pub after: Vec<f64>,
}

/// Figures of all workloads, arms and metrics that both runs have. Each workload starts with its primary metric.
pub fn figures(before: &Run, after: &Run) -> Vec<Apart> {
    let measured = [before, after].map(Measured::of);
    let mut all = Vec::new();
    for workload in &before.plan.workloads {
        for spec in measured[0].specs(&workload.id) {
            for arm in common_arms(before, after) {
                let [before, after] = measured.each_ref().map(|measured| {
                    let figures = measured.figures(&workload.id, &arm.name, &spec.name);
                    let values = figures.into_iter().map(|(_, value)| value);
                    values.collect::<Vec<f64>>()
                });
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

/// Differences between two runs that make their figures incomparable.
pub fn obstacles(before: &Run, after: &Run) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    let runs = [before, after];
    let clocks = runs.map(|run| run.opening.ns_per_instruction);
    if differ(&clocks) {
        obstacles.push(Obstacle::Clock(clocks));
    }
    let prices = runs.map(|run| run.opening.string_price);
    if differ(&prices) {
        obstacles.push(Obstacle::StringPrice(prices));
    }
    let machines = runs.map(|run| run.opening.machine.clone());
    if differ(&machines) {
        obstacles.push(Obstacle::Machine(Box::new(machines)));
    }
    let kernels = common_arms(before, after).map(|arm| format!("kernel of arm {}", arm.name));
    for name in std::iter::once("image".to_string()).chain(kernels) {
        let sha256 = runs.map(|run| run.opening.inputs.get(&name).cloned());
        if differ(&sha256) {
            obstacles.push(Obstacle::Input { name, sha256 });
        }
    }
    for workload in &before.plan.workloads {
        let mut later = after.plan.workloads.iter();
        let Some(later) = later.find(|later| later.id == workload.id) else {
            continue;
        };
        let options = [workload, later].map(|each| format!("{} {}", each.kind, each.options));
        if differ(&options) {
            let id = workload.id.clone();
            obstacles.push(Obstacle::Workload { id, options });
        }
    }
    if common_arms(before, after).next().is_none() {
        let names = |run: &Run| run.plan.arms.iter().map(|arm| arm.name.clone()).collect();
        obstacles.push(Obstacle::NoCommonArm(runs.map(names)));
    }
    obstacles
}

fn differ<T: PartialEq>([before, after]: &[T; 2]) -> bool {
    before != after
}

/// Differences between two runs that the user may want to compare.
pub fn changes(before: &Run, after: &Run) -> Vec<Change> {
    let mut changes = Vec::new();
    for arm in common_arms(before, after) {
        let mut later = after.plan.arms.iter();
        let Some(later) = later.find(|later| later.name == arm.name) else {
            continue;
        };
        let keys = [
            (ArmKey::Cmdline, arm.cmdline != later.cmdline),
            (ArmKey::Sysctl, arm.sysctl != later.sysctl),
            (ArmKey::Cpus, arm.cpus != later.cpus),
            (ArmKey::Tuning, arm.tuning != later.tuning),
        ];
        let differing = keys.into_iter().filter(|(_, differs)| *differs);
        changes.extend(differing.map(|(key, _)| Change::Arm {
            arm: arm.name.clone(),
            key,
        }));
    }
    if differ(&[before, after].map(|run| run.opening.inputs.get("bakeoff's binary"))) {
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
    fn figures_are_paired_by_arm() {
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
    fn another_clock_price_or_kernel_is_an_obstacle_and_another_command_line_a_change() {
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
