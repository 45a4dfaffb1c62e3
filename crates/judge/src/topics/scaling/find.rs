//! Arms that differ only in CPUs: the figures of each number of CPUs, and the universal scalability law fitted to them.
//!
//! A speed-up is a ratio within a block, as in all comparisons. If less is better the ratio is inverted, so that 2
//! always means twice as good. There is no error control here: `rule` decides about pairs of arms.

use plan::Arm;
use plan::kernel::KernelRef;
use record::curve::{Curve, Point};
use record::metric::{Direction, MetricSpec, Role};
use record::rundir::Run;
use record::verdict::{ArmCurve, Scaling, ScalingLaw, ScalingStep, Spread};

use crate::topics::metrics::measured::Measured;
use stats::average::median;
use stats::usl::{self, Law};

/// An arm and its CPUs.
type Member<'r> = (u32, &'r Arm);

/// All groups of a run that have at least two numbers of CPUs, by workload.
pub(crate) fn of(run: &Run, measured: &Measured<'_>) -> Vec<Scaling> {
    let groups = groups(run);
    let names: Vec<String> = groups.iter().map(|group| name(group)).collect();
    let mut scalings = Vec::new();
    for workload in &run.plan.workloads {
        let specs = measured.specs(&workload.id);
        let Some(spec) = specs.iter().find(|spec| spec.role == Role::Primary) else {
            continue;
        };
        for (group, name) in groups.iter().zip(&names) {
            let is_unique = names.iter().filter(|other| *other == name).count() == 1;
            let arms = || group.iter().map(|(_, arm)| arm.name.as_str());
            let name = if is_unique {
                name.clone()
            } else {
                arms().collect::<Vec<_>>().join(", ")
            };
            scalings.extend(scaling(measured, &workload.id, spec, group, name));
        }
    }
    scalings
}

/// Whether two arms differ only in name and CPUs.
pub(crate) fn is_alike(a: &Arm, b: &Arm) -> bool {
    (&a.kernel, &a.cmdline, &a.sysctl, &a.tuning) == (&b.kernel, &b.cmdline, &b.sysctl, &b.tuning)
}

/// Groups in the order of the plan; the arm with the fewest CPUs is first in each.
fn groups(run: &Run) -> Vec<Vec<Member<'_>>> {
    let mut groups: Vec<Vec<Member<'_>>> = Vec::new();
    // With counted instructions all arms have one CPU.
    if run.opening.ns_per_instruction.is_some() {
        return groups;
    }
    for arm in &run.plan.arms {
        let Some(cpus) = run.plan.cpus(arm).or(run.opening.host_cpus) else {
            continue;
        };
        match groups.iter_mut().find(|group| is_alike(group[0].1, arm)) {
            Some(group) => group.push((cpus, arm)),
            None => groups.push(vec![(cpus, arm)]),
        }
    }
    for group in &mut groups {
        group.sort_by_key(|(cpus, _)| *cpus);
    }
    groups.retain(|group| group[0].0 < group[group.len() - 1].0);
    groups
}

/// The words that all names have in common, `6.1` for `6.1-1cpu` and `6.1-2cpu`; else the kernel.
fn name(group: &[Member<'_>]) -> String {
    let split = |(_, arm): &Member<'_>| -> Vec<String> {
        let words = arm.name.split(['-', '_', '+']);
        words.map(str::to_owned).collect()
    };
    let all: Vec<Vec<String>> = group.iter().map(split).collect();
    let is_common = |word: &&String| all.iter().all(|words| words.contains(word));
    let common: Vec<&str> = all[0]
        .iter()
        .filter(is_common)
        .map(String::as_str)
        .collect();
    match &group[0].1.kernel {
        _ if !common.is_empty() => common.join("-"),
        KernelRef::Running => "this host".into(),
        kernel => kernel.to_string(),
    }
}

/// `None` if no member of the group has figures.
fn scaling(
    measured: &Measured<'_>,
    workload: &str,
    spec: &MetricSpec,
    group: &[Member<'_>],
    name: String,
) -> Option<Scaling> {
    let values = |arm: &Arm| measured.figures(workload, &arm.name, &spec.name);
    let members: Vec<Member<'_>> = group
        .iter()
        .copied()
        .filter(|(_, arm)| !values(arm).is_empty())
        .collect();
    let (fewest, base) = *members.first()?;
    let figures: Vec<Vec<(u32, f64)>> = members.iter().map(|(_, arm)| values(arm)).collect();
    let spreads: Vec<Spread> = figures
        .iter()
        .map(|figures| spread(&values_of(figures)).expect("a member has figures"))
        .collect();
    let mut steps = Vec::new();
    for ((cpus, arm), figures) in members.iter().zip(&figures) {
        let pairs = measured.pairs(workload, &base.name, &arm.name, &spec.name);
        let speed_ups: Vec<f64> = pairs
            .iter()
            .filter(|pair| pair.baseline > 0.0 && pair.arm > 0.0)
            .map(|pair| speed(spec, pair.arm) / speed(spec, pair.baseline))
            .collect();
        let speed_up = spread(&speed_ups);
        let cpu_ratio = f64::from(*cpus) / f64::from(fewest);
        steps.push(ScalingStep {
            cpus: *cpus,
            arm: arm.name.clone(),
            trials: figures.len() as u32,
            speed_up,
            efficiency: speed_up.map(|speed_up| speed_up.typical / cpu_ratio),
        });
    }
    let points = steps.iter().zip(&spreads).map(|(step, spread)| Point {
        at: f64::from(step.cpus),
        value: spread.typical,
    });
    let points: Vec<Point> = points.collect();
    let cpus: Vec<u32> = members.iter().map(|(cpus, _)| *cpus).collect();
    Some(Scaling {
        law: law(spec, &cpus, &figures),
        curve: ArmCurve {
            workload: workload.into(),
            arm: name,
            trials: steps.iter().map(|step| step.trials).max().unwrap_or(0),
            lowest: spreads.iter().map(|spread| spread.lowest).collect(),
            highest: spreads.iter().map(|spread| spread.highest).collect(),
            shape: None,
            typical: Curve {
                name: spec.name.clone(),
                unit: spec.unit.clone(),
                direction: spec.direction,
                axis: "CPUs".into(),
                points,
            },
        },
        steps,
    })
}

fn values_of(figures: &[(u32, f64)]) -> Vec<f64> {
    figures.iter().map(|(_, value)| *value).collect()
}

/// Converts a figure to a speed, of which more is better, or a speed to a figure.
fn speed(spec: &MetricSpec, value: f64) -> f64 {
    match spec.direction {
        Direction::Higher => value,
        Direction::Lower => 1.0 / value,
    }
}

/// Fits the law to each block that has all numbers of CPUs, or to the medians if there is no such block.
fn law(spec: &MetricSpec, cpus: &[u32], figures: &[Vec<(u32, f64)>]) -> Option<ScalingLaw> {
    let fit_block = |block: u32| -> Option<Law> {
        let point = |(cpus, figures): (&u32, &Vec<(u32, f64)>)| {
            let index = figures.binary_search_by_key(&block, |(block, _)| *block);
            Some((f64::from(*cpus), figures[index.ok()?].1))
        };
        let points: Option<Vec<(f64, f64)>> = cpus.iter().zip(figures).map(point).collect();
        fit(spec, &points?)
    };
    let blocks = figures.first()?.iter().map(|(block, _)| *block);
    let mut laws: Vec<Law> = blocks.filter_map(fit_block).collect();
    let blocks = laws.len() as u32;
    if laws.is_empty() {
        let medians = cpus.iter().zip(figures);
        let medians: Vec<(f64, f64)> = medians
            .map(|(cpus, figures)| (f64::from(*cpus), median(&values_of(figures))))
            .collect();
        laws.push(fit(spec, &medians)?);
    }
    let over_blocks = |parameter: fn(&Law) -> f64| {
        let values: Vec<f64> = laws.iter().map(parameter).collect();
        spread(&values).expect("a law was fitted")
    };
    let contention = over_blocks(|law| law.alpha);
    let coherence = over_blocks(|law| law.beta);
    let typical = Law {
        gamma: over_blocks(|law| law.gamma).typical,
        alpha: contention.typical,
        beta: coherence.typical,
    };
    let (first, last) = (*cpus.first()?, *cpus.last()?);
    let line = (first..=last).map(|n| Point {
        at: f64::from(n),
        value: speed(spec, typical.throughput(f64::from(n))),
    });
    Some(ScalingLaw {
        contention,
        coherence,
        peak: typical.peak().map(|(n, _)| n),
        blocks,
        line: line.filter(|point| point.value.is_finite()).collect(),
    })
}

/// `None` if a speed is zero or infinite.
fn fit(spec: &MetricSpec, points: &[(f64, f64)]) -> Option<Law> {
    let speeds: Vec<(f64, f64)> = points
        .iter()
        .map(|(n, value)| (*n, speed(spec, *value)))
        .collect();
    let is_speed = |(_, speed): &(f64, f64)| speed.is_finite() && *speed > 0.0;
    let law = usl::fit(&speeds).filter(|_| speeds.iter().all(is_speed))?;
    [law.gamma, law.alpha, law.beta]
        .iter()
        .all(|number| number.is_finite())
        .then_some(law)
}

fn spread(values: &[f64]) -> Option<Spread> {
    if values.is_empty() {
        return None;
    }
    let typical = median(values);
    Some(Spread {
        typical,
        lowest: values.iter().copied().fold(typical, f64::min),
        highest: values.iter().copied().fold(typical, f64::max),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use record::fixtures::builder::{RunBuilder, measurements};

    #[track_caller]
    fn check_close(got: f64, want: f64, digits: i32) {
        let tolerance = 0.5001 * 10f64.powi(-digits);
        assert!((got - want).abs() <= tolerance, "{got} is not {want}");
    }

    const TRUTH: Law = Law {
        gamma: 500.0,
        alpha: 0.08,
        beta: 0.004,
    };

    /// Arms `6.1-Ncpu` and `7.2-Ncpu` for each number of CPUs.
    fn on_cpus(cpus: &[u32]) -> RunBuilder {
        RunBuilder::new().with(|run| {
            for kernel in std::mem::take(&mut run.plan.arms) {
                for count in cpus {
                    let mut arm = kernel.clone();
                    arm.name = format!("{}-{count}cpu", kernel.name);
                    arm.cpus = Some(*count);
                    run.plan.arms.push(arm);
                }
            }
            run.plan.baseline.clone_from(&run.plan.arms[0].name);
        })
    }

    fn scalings(builder: RunBuilder) -> Vec<Scaling> {
        let run = builder.run();
        of(&run, &Measured::of(&run))
    }

    #[test]
    fn a_planted_law_is_found_again_in_each_group() {
        let cpus = [8, 1, 4, 2];
        let mut builder = on_cpus(&cpus);
        for (block, n) in (1..=5).flat_map(|block| cpus.map(|n| (block, n))) {
            let pace = 1.0 + 0.01 * f64::from(block);
            let rate = pace * TRUTH.throughput(f64::from(n));
            builder = builder.measured(block, &format!("6.1-{n}cpu"), rate);
            builder = builder.measured(block, &format!("7.2-{n}cpu"), pace * 300.0 * f64::from(n));
        }
        let scalings = scalings(builder);
        let names: Vec<&str> = scalings.iter().map(|group| &*group.curve.arm).collect();
        assert_eq!(names, ["6.1", "7.2"]);
        let law = scalings[0].law.as_ref().unwrap();
        check_close(law.contention.typical, TRUTH.alpha, 6);
        check_close(law.coherence.highest, TRUTH.beta, 7);
        check_close(law.peak.unwrap(), TRUTH.peak().unwrap().0, 3);
        assert_eq!((law.blocks, law.line.len()), (5, 8));
        check_close(law.line[0].value, TRUTH.gamma * 1.03, 3);
        let last = &scalings[0].steps[3];
        assert_eq!((last.cpus, last.trials), (8, 5));
        let up = TRUTH.throughput(8.0) / TRUTH.gamma;
        check_close(last.speed_up.unwrap().typical, up, 6);
        check_close(last.efficiency.unwrap(), up / 8.0, 6);
        // Without contention and coherence, scaling is linear.
        let linear = &scalings[1];
        check_close(linear.steps[3].speed_up.unwrap().typical, 8.0, 6);
        check_close(linear.law.as_ref().unwrap().contention.typical, 0.0, 6);
    }

    fn check(builder: RunBuilder, want: &Expect) {
        let describe = |group: &Scaling| {
            let step = |step: &ScalingStep| {
                let up = step.speed_up.map(|up| format!("{:.3}", up.typical));
                format!(
                    "{} of {}: {up:?}, {:.3?}",
                    step.cpus, step.arm, step.efficiency
                )
            };
            let steps: Vec<String> = group.steps.iter().map(step).collect();
            let law = group.law.as_ref().map(|law| law.blocks);
            format!("{} {law:?}\n  {}", group.curve.arm, steps.join("\n  "))
        };
        let groups: Vec<String> = scalings(builder).iter().map(describe).collect();
        want.assert_eq(&groups.join("\n"));
    }

    #[test]
    fn two_numbers_of_cpus_have_a_speed_up_and_no_law() {
        let builder = on_cpus(&[1, 2])
            .measured(1, "6.1-1cpu", 100.0)
            .measured(1, "6.1-2cpu", 190.0)
            .measured(2, "6.1-2cpu", 400.0);
        check(
            builder,
            &expect![[r#"
            6.1 None
              1 of 6.1-1cpu: Some("1.000"), Some(1.000)
              2 of 6.1-2cpu: Some("1.900"), Some(0.950)"#]],
        );
    }

    #[test]
    fn if_less_is_better_half_is_a_speed_up_of_two() {
        let lower = |run: &mut Run| {
            for measurement in measurements(run) {
                let figure = &mut measurement.figures[1];
                assert_eq!(figure.spec.role, Role::Primary);
                figure.spec.direction = Direction::Lower;
            }
        };
        let builder = on_cpus(&[1, 2, 4])
            .measured(1, "6.1-1cpu", 100.0)
            .measured(1, "6.1-2cpu", 50.0)
            .measured(1, "6.1-4cpu", 30.0)
            .with(lower);
        check(
            builder,
            &expect![[r#"
            6.1 Some(1)
              1 of 6.1-1cpu: Some("1.000"), Some(1.000)
              2 of 6.1-2cpu: Some("2.000"), Some(1.000)
              4 of 6.1-4cpu: Some("3.333"), Some(0.833)"#]],
        );
    }

    #[test]
    fn without_a_whole_block_the_medians_are_fitted() {
        let builder = on_cpus(&[1, 2, 4])
            .measured(1, "7.2-1cpu", 100.0)
            .measured(2, "7.2-2cpu", 150.0)
            .measured(3, "7.2-4cpu", 200.0);
        check(
            builder,
            &expect![[r#"
            7.2 Some(0)
              1 of 7.2-1cpu: Some("1.000"), Some(1.000)
              2 of 7.2-2cpu: None, None
              4 of 7.2-4cpu: None, None"#]],
        );
    }

    #[test]
    fn arms_that_differ_in_more_than_cpus_are_no_group() {
        let other = |run: &mut Run| run.plan.arms[1].cmdline = "mitigations=off".into();
        let builder = on_cpus(&[1, 2])
            .measured(1, "6.1-1cpu", 100.0)
            .measured(1, "6.1-2cpu", 190.0)
            .with(other);
        check(builder, &expect![[""]]);
        let counted = |run: &mut Run| run.opening.ns_per_instruction = Some(2);
        check(two_cpus().with(counted), &expect![[""]]);
    }

    fn two_cpus() -> RunBuilder {
        on_cpus(&[1, 2])
            .measured(1, "6.1-1cpu", 100.0)
            .measured(1, "6.1-2cpu", 190.0)
    }

    #[test]
    fn groups_with_the_same_name_are_named_after_their_arms() {
        let rename = |run: &mut Run| {
            for (arm, name) in run.plan.arms.iter_mut().zip(["a-x", "b-x", "c-x", "d-x"]) {
                arm.name = name.into();
            }
        };
        let builder = on_cpus(&[1, 2])
            .with(rename)
            .measured(1, "a-x", 1.0)
            .measured(1, "c-x", 1.0);
        let names: Vec<String> = scalings(builder)
            .into_iter()
            .map(|group| group.curve.arm)
            .collect();
        assert_eq!(names, ["a-x, b-x", "c-x, d-x"]);
    }

    #[test]
    fn a_group_without_a_word_in_common_is_named_after_its_kernel() {
        let name_of = |kernel: KernelRef| {
            let run = on_cpus(&[1, 2]).run();
            let mut arms = run.plan.arms;
            for (arm, name) in arms.iter_mut().zip(["one", "two"]) {
                (arm.name, arm.kernel) = (name.into(), kernel.clone());
            }
            name(&[(1, &arms[0]), (2, &arms[1])])
        };
        assert_eq!(name_of(KernelRef::Running), "this host");
        let tree = KernelRef::path("/src/linux");
        assert_eq!(name_of(tree), "/src/linux");
    }
}
