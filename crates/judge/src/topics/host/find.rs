//! Checks whether the machine favoured an arm, by measurements that no arm can influence.
//!
//! ```text
//! host speed   duration of a fixed amount of work on the host, before and after each trial:
//!              d_i = ln arm's - ln baseline's in block i; p by step-down maxT over all workloads and arms (`stats::max_t`)
//! one-sided    primary metrics of all workloads, each divided by its scale, as one row of blocks under sign flips
//! ```
//! Metrics of one workload are not independent: its rate, its latencies and its CPU time per request change together. Workloads are
//! independent, but a better kernel may be better in all of them. So one-sidedness is reported and withholds no verdict. A host that
//! was slower beside one arm does withhold, because that work did not run on the arm.
//!
//! Arms can influence other measurements, so they are not used: steal (an arm that idles less loses more), boot time, and CPU time of
//! the clients per request (a server with larger answers wakes them less often).

use plan::MachineKind;
use record::metric::{Direction, Role};
use record::rundir::Run;
use record::verdict::host::{HostSpeed, OneSided};
use record::verdict::{Comparison, Pair, Verdict};

use crate::topics::metrics::measured::Measured;
use stats::average::{less, mean};
use stats::contrast::Contrasts;
use stats::interim::fewest_blocks;
use stats::max_t;
use stats::randomization::SignFlips;
use stats::score::{hodges_lehmann, scale, tukey};

/// Fewer workloads move in one direction by chance too often.
const MIN_WORKLOADS: usize = 3;

/// The speed of the host beside each arm. Empty with counted instructions, whose number does not depend on the host, and if the arms
/// ran on another machine.
pub(crate) fn speed(run: &Run) -> Vec<HostSpeed> {
    let is_elsewhere = match run.plan.machine.kind {
        MachineKind::Url | MachineKind::Ssh => true,
        MachineKind::Qemu | MachineKind::Local => false,
    };
    if run.opening.ns_per_instruction.is_some() || is_elsewhere {
        return Vec::new();
    }
    let mut rows: Vec<(String, String, Vec<f64>)> = Vec::new();
    for workload in &run.plan.workloads {
        for arm in run
            .plan
            .arms
            .iter()
            .filter(|arm| arm.name != run.plan.baseline)
        {
            let spins = spins(run, &workload.id, &arm.name);
            let contrasts: Vec<f64> = spins.iter().map(|(base, arm)| (arm / base).ln()).collect();
            if !contrasts.is_empty() {
                rows.push((workload.id.clone(), arm.name.clone(), contrasts));
            }
        }
    }
    let error_rate = run.plan.design.test_level();
    let key = format!("host\n{}", run.plan.design.seed);
    let p_values = |values: &[&[f64]]| {
        let blocks = values.first().map_or(0, |row| row.len());
        let flips = SignFlips::draw(&key, blocks, error_rate);
        max_t::p_values(values, &flips)
    };
    let values: Vec<&[f64]> = rows.iter().map(|(_, _, row)| row.as_slice()).collect();
    // Rows of unequal length cannot share sign flips. Their p-values are adjusted by Bonferroni instead.
    let has_equal_lengths = values.windows(2).all(|rows| rows[0].len() == rows[1].len());
    let p_values: Vec<f64> = if has_equal_lengths {
        p_values(&values)
    } else {
        let count = values.len() as f64;
        let alone = values.iter().map(|row| p_values(&[row])[0]);
        alone.map(|p_value| p_value * count).collect()
    };
    let mut speeds = Vec::new();
    for ((workload, arm, row), p_value) in rows.into_iter().zip(p_values) {
        let flips = SignFlips::draw(&key, row.len(), error_rate);
        let interval = max_t::interval(&row, &flips, error_rate);
        speeds.push(HostSpeed {
            workload,
            arm,
            blocks: row.len() as u32,
            needed: fewest_blocks(error_rate) as u32,
            ratio: mean(&row, |value| *value).exp(),
            low: interval.map(|(low, _)| low.exp()),
            high: interval.map(|(_, high)| high.exp()),
            is_significant: p_value <= error_rate,
        });
    }
    speeds
}

/// Duration of the fixed work beside baseline and arm in each block that has both, in nanoseconds.
fn spins(run: &Run, workload: &str, arm: &str) -> Vec<(f64, f64)> {
    let spin = |name: &str, block: u32| {
        let mut records = run.attempts.iter().filter(|record| {
            let trial = &record.trial;
            (&*trial.workload, &*trial.arm, trial.block) == (workload, name, block)
        });
        records.find_map(|record| {
            let spin_ns = record.outcome.measured()?.spin_ns;
            (spin_ns > 0).then_some(spin_ns as f64)
        })
    };
    let measured = Measured::of(run);
    let blocks = measured.trials(workload, arm);
    let pairs = blocks
        .keys()
        .filter_map(|block| Some((spin(&run.plan.baseline, *block)?, spin(arm, *block)?)));
    pairs.collect()
}

/// Arms whose primary metrics moved in the same direction in all workloads, significantly.
pub(crate) fn one_sided(run: &Run, comparisons: &[Comparison]) -> Vec<OneSided> {
    let mut found = Vec::new();
    for arm in &run.plan.arms {
        if arm.name == run.plan.baseline {
            continue;
        }
        let primaries: Vec<(&[Pair], Direction)> = comparisons
            .iter()
            .filter(|each| each.arm == arm.name && each.spec.role == Role::Primary)
            .map(|each| (each.pairs.as_slice(), each.spec.direction))
            .collect();
        found.extend(moved(run, &arm.name, &primaries));
    }
    found
}

fn moved(run: &Run, arm: &str, primaries: &[(&[Pair], Direction)]) -> Option<OneSided> {
    let is_unmeasured = primaries.iter().any(|(pairs, _)| pairs.is_empty());
    if primaries.len() < MIN_WORKLOADS || is_unmeasured {
        return None;
    }
    let (mut row, mut centres) = (Vec::new(), Vec::new());
    for (pairs, direction) in primaries {
        let contrasts = Contrasts::of(pairs, *direction, run.plan.design.margin)?;
        let centre = hodges_lehmann(&contrasts.values);
        let around = less(&contrasts.values, centre);
        // If all blocks agree exactly, their scale around the centre is zero. Then the values themselves give the unit.
        let unit = scale(&around).max(scale(&contrasts.values) * 1e-6);
        if contrasts.values.iter().any(|value| !value.is_finite()) || unit == 0.0 {
            return None;
        }
        row.extend(tukey(&contrasts.values).iter().map(|score| score / unit));
        centres.push(centre);
    }
    let is_up = centres[0] > 0.0;
    if centres
        .iter()
        .any(|centre| *centre == 0.0 || (*centre > 0.0) != is_up)
    {
        return None;
    }
    let key = format!("one-sided\n{}\n{arm}", run.plan.design.seed);
    let error_rate = run.plan.design.test_level();
    let flips = SignFlips::draw(&key, row.len(), error_rate);
    let p_value = max_t::p_values(&[&row], &flips)[0];
    let low = centres.iter().copied().fold(f64::INFINITY, f64::min);
    let high = centres.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (p_value <= error_rate).then(|| OneSided {
        arm: arm.into(),
        verdict: if is_up {
            Verdict::Better
        } else {
            Verdict::Worse
        },
        workloads: primaries.len() as u32,
        range: (low.exp(), high.exp()),
        p_value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::fixtures::builder::{RunBuilder, measurements};
    use stats::noise_models::{REFERENCE, pairs};

    /// A run whose host took `slower` times as long beside the arm, with noise.
    fn run_with_host(seed: u64, blocks: usize, slower: f64) -> Run {
        let noise = pairs(REFERENCE, 0.0, blocks as u32, seed, 0);
        RunBuilder::new()
            .blocks(&vec![[100.0, 100.0]; blocks])
            .with(|run| {
                for record in &mut run.attempts {
                    let pair = &noise[record.trial.block as usize - 1];
                    let is_arm = record.trial.arm == "7.2";
                    let time = if is_arm {
                        slower / pair.arm
                    } else {
                        1.0 / pair.baseline
                    };
                    record.outcome.measured_mut().unwrap().spin_ns = (1e10 * time) as u64;
                }
            })
            .run()
    }

    #[test]
    fn a_host_that_was_slower_beside_an_arm_is_reported() {
        let slower = speed(&run_with_host(1, 12, 1.1)).remove(0);
        assert!(
            slower.is_significant && 1.05 < slower.ratio && slower.ratio < 1.2,
            "{slower:?}"
        );
        assert_eq!((slower.blocks, slower.needed), (12, 6));
        let equal = speed(&run_with_host(1, 12, 1.0)).remove(0);
        assert!(!equal.is_significant && equal.low.unwrap() < 1.0 && 1.0 < equal.high.unwrap());
    }

    #[test]
    fn there_is_no_host_speed_without_spins_or_if_it_does_not_matter() {
        let mut without_spins = run_with_host(1, 8, 1.1);
        for measurement in measurements(&mut without_spins) {
            measurement.spin_ns = 0;
        }
        assert!(speed(&without_spins).is_empty());
        let mut counted = run_with_host(1, 8, 1.1);
        counted.opening.ns_per_instruction = Some(2);
        assert!(speed(&counted).is_empty());
        let mut elsewhere = run_with_host(1, 8, 1.1);
        elsewhere.plan.machine.kind = MachineKind::Url;
        assert!(speed(&elsewhere).is_empty());
    }

    #[test]
    fn a_steady_host_is_reported_no_more_often_than_the_error_rate_allows() {
        let reported = (0..200)
            .filter(|seed| speed(&run_with_host(*seed, 8, 1.0))[0].is_significant)
            .count();
        println!("a steady host was reported in {reported} of 200");
        // The error rate allows 10 of 200 on average.
        assert!(reported <= 18, "{reported}");
    }

    fn together(effects: [f64; 4], seed: u64) -> Option<OneSided> {
        let run = RunBuilder::new().run();
        let all: Vec<Vec<Pair>> = (0..)
            .zip(effects)
            .map(|(place, effect)| pairs(REFERENCE, effect, 8, seed, place))
            .collect();
        let primaries: Vec<(&[Pair], Direction)> = all
            .iter()
            .map(|pairs| (pairs.as_slice(), Direction::Higher))
            .collect();
        moved(&run, "7.2", &primaries)
    }

    #[test]
    fn an_arm_without_figures_of_some_workload_is_not_one_sided() {
        let run = RunBuilder::new().run();
        let pairs = pairs(REFERENCE, 0.08, 8, 1, 0);
        let up = (pairs.as_slice(), Direction::Higher);
        let none: (&[Pair], Direction) = (&[], Direction::Higher);
        assert!(moved(&run, "7.2", &[up; 3]).is_some());
        assert_eq!(moved(&run, "7.2", &[up, none, up]), None);
        assert_eq!(moved(&run, "7.2", &[none; 3]), None);
    }

    #[test]
    fn workloads_that_all_move_in_one_direction_are_found() {
        let found = (0..50)
            .filter(|seed| together([0.08; 4], *seed).is_some())
            .count();
        assert!(found >= 40, "{found}");
        let mixed = (0..50).filter(|seed| together([0.08, 0.08, -0.08, 0.08], *seed).is_some());
        assert_eq!(mixed.count(), 0);
        let equal = (0..200)
            .filter(|seed| together([0.0; 4], *seed).is_some())
            .count();
        println!("equal arms were one-sided in {equal} of 200");
        assert!(equal <= 14, "{equal}");
    }
}
