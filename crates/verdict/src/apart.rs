//! Two runs of the same arms, apart in time: what must agree before their figures are compared, and the figures.
//!
//! Arms of one run take turns, so that what the machine did meanwhile it did to all. Arms of two runs do not: only `once::unpaired` may
//! judge them.

use std::collections::BTreeSet;

use plan::Arm;
use record::journal::Accounting;
use record::metric::MetricSpec;
use record::rundir::Run;

use crate::pair::Measured;

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

/// What differs between two runs that must not: with it, figures would differ by what they are.
pub fn obstacles(before: &Run, after: &Run) -> Vec<String> {
    let mut found = Vec::new();
    let mut differ = |what: &str, one: String, other: String| {
        if one != other {
            found.push(format!("{what} was {one}, is {other}"));
        }
    };
    let (one, other) = (&before.opening, &after.opening);
    differ("clock", clock(before), clock(after));
    let accounting = |run: &Run| match run.opening.accounting() {
        Some(Accounting::RepPerByte) => "per byte",
        Some(Accounting::RepPer8Bytes) => "per 8 bytes",
        None => "none",
    };
    differ(
        "accounting of string instructions",
        accounting(before).into(),
        accounting(after).into(),
    );
    differ("machine", one.machine.clone(), other.machine.clone());
    let input = |run: &Run, name: &str| match run.opening.inputs.get(name) {
        Some(sha) => format!("{sha:.12}"),
        None => "none".into(),
    };
    differ("image", input(before, "image"), input(after, "image"));
    for arm in common_arms(before, after) {
        let name = format!("kernel of arm {}", arm.name);
        differ(&name, input(before, &name), input(after, &name));
    }
    for workload in &before.plan.workloads {
        let its = |run: &Run| {
            let mut workloads = run.plan.workloads.iter();
            let same = workloads.find(|one| one.id == workload.id);
            same.map(|one| format!("{} {}", one.kind, one.options))
        };
        if let Some(after) = its(after) {
            differ(
                &format!("workload {}", workload.id),
                its(before).unwrap_or_default(),
                after,
            );
        }
    }
    if common_arms(before, after).next().is_none() {
        found.push(format!(
            "no arm is in both: {} and {}",
            names(before),
            names(after)
        ));
    }
    found
}

/// What differs between two runs and may be what is asked about.
pub fn changes(before: &Run, after: &Run) -> Vec<String> {
    let mut changes = Vec::new();
    let arms: BTreeSet<&str> = common_arms(before, after)
        .map(|arm| arm.name.as_str())
        .collect();
    for name in arms {
        let its = |run: &Run| run.plan.arms.iter().find(|arm| arm.name == name).cloned();
        let Some((one, other)) = its(before).zip(its(after)) else {
            continue;
        };
        let keys = [
            ("cmdline", one.cmdline != other.cmdline),
            ("sysctl", one.sysctl != other.sysctl),
            ("cpus", one.cpus != other.cpus),
            ("env, config or program", one.tuning != other.tuning),
        ];
        let differs = keys
            .into_iter()
            .filter_map(|(key, differs)| differs.then_some(key));
        changes.extend(differs.map(|key| format!("{key} of arm {name}")));
    }
    let input = |run: &Run| run.opening.inputs.get("bakeoff's binary").cloned();
    if input(before) != input(after) {
        changes.push("bakeoff's own build".into());
    }
    changes
}

fn clock(run: &Run) -> String {
    match run.opening.ns_per_instruction {
        Some(ns) => format!("counted instructions, {ns} ns each"),
        None => "the wall clock".into(),
    }
}

fn common_arms<'r>(before: &'r Run, after: &Run) -> impl Iterator<Item = &'r Arm> {
    let names: BTreeSet<String> = after.plan.arms.iter().map(|arm| arm.name.clone()).collect();
    before
        .plan
        .arms
        .iter()
        .filter(move |arm| names.contains(&arm.name))
}

fn names(run: &Run) -> String {
    let names: Vec<&str> = run.plan.arms.iter().map(|arm| arm.name.as_str()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fixtures::builder::RunBuilder;

    fn run(change: impl FnOnce(&mut Run)) -> Run {
        RunBuilder::new()
            .blocks(&[[100.0, 107.0], [101.0, 108.0]])
            .with(change)
            .run()
    }

    #[test]
    fn figures_of_an_arm_stand_beside_those_of_the_same_arm() {
        let (before, after) = (run(|_| {}), run(|_| {}));
        assert_eq!(obstacles(&before, &after), Vec::<String>::new());
        let figures = figures(&before, &after);
        let first = (
            &*figures[0].arm,
            &figures[0].before[..],
            &figures[1].arm[..],
        );
        assert_eq!(first, ("6.1", &[100.0, 101.0][..], "7.2"));
        assert_eq!(changes(&before, &after), Vec::<String>::new());
    }

    #[test]
    fn what_makes_figures_another_quantity_is_an_obstacle_and_what_may_be_asked_about_is_not() {
        let before = run(|_| {});
        let counted = run(|run| run.opening.ns_per_instruction = Some(2));
        let told = obstacles(&before, &counted);
        assert_eq!(
            told,
            [
                "clock was the wall clock, is counted instructions, 2 ns each",
                "accounting of string instructions was none, is per 8 bytes"
            ]
        );
        let kernel = run(|run| {
            run.opening
                .inputs
                .insert("kernel of arm 6.1".into(), "0123456789abcdef".into());
        });
        assert_eq!(
            obstacles(&before, &kernel),
            ["kernel of arm 6.1 was none, is 0123456789ab"]
        );
        let tuned = run(|run| run.plan.arms[1].cmdline = "quiet".into());
        assert_eq!(obstacles(&before, &tuned), Vec::<String>::new());
        assert_eq!(changes(&before, &tuned), ["cmdline of arm 7.2"]);
        let others = run(|run| {
            for arm in &mut run.plan.arms {
                arm.name.insert(0, 'x');
            }
        });
        assert_eq!(
            obstacles(&before, &others),
            ["no arm is in both: 6.1, 7.2 and x6.1, x7.2"]
        );
    }
}
