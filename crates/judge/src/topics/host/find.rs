//! What no arm can move. If it moved with an arm all the same, the machine favoured that arm.
//!
//! ```text
//! host speed   a fixed piece of work on the host, before and after each trial: d_i = ln arm's - ln baseline's in block i
//!              p by step-down maxT over all workloads and arms (`explain::max_t`)
//! one-sided    primary metrics of all workloads, each in units of its own scale, as one row of blocks under sign flips
//! ```
//! That all metrics of a workload move one way says nothing: a rate, the latencies of what it counts and the CPU time that each costs
//! are one figure in other words. Workloads are unrelated, but a kernel that is better may be so in all of them. So one-sidedness is
//! told and withholds nothing; what withholds is work that ran on no arm and was slower beside one.
//!
//! Not taken, because arms can move it: steal (who idles less is robbed more), time to boot, CPU time of the clients for a request
//! (a server that answers in larger pieces wakes them less often).

use plan::MachineKind;
use record::metric::{Direction, Role};
use record::rundir::Run;
use record::verdict::host::{HostSpeed, OneSided};
use record::verdict::{Comparison, Pair, Verdict};

use crate::topics::metrics::pair::Measured;
use stats::average::{less, mean};
use stats::contrast::Contrasts;
use stats::looks::fewest_blocks;
use stats::max_t;
use stats::randomization::SignFlips;
use stats::score::{hodges_lehmann, scale, tukey};

/// Fewer workloads move one way by chance too often to be worth a sentence.
const LEAST_WORKLOADS: usize = 3;

/// How fast the host was beside each arm. Nothing where time is counted in instructions, which no host makes fewer or more, nor
/// where the arms ran on another machine than this host.
pub(crate) fn speed(run: &Run) -> Vec<HostSpeed> {
    let is_elsewhere = match run.plan.machine.kind {
        MachineKind::Url | MachineKind::Ssh => true,
        MachineKind::Qemu | MachineKind::Local => false,
    };
    if run.opening.ns_per_instruction.is_some() || is_elsewhere {
        return Vec::new();
    }
    let mut found: Vec<(String, String, Vec<f64>)> = Vec::new();
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
                found.push((workload.id.clone(), arm.name.clone(), contrasts));
            }
        }
    }
    // Rows of unequal length cannot share their flips: each then pays for all by itself.
    let error_rate = run.plan.design.test_level();
    let key = format!("host\n{}", run.plan.design.seed);
    let is_even = found.windows(2).all(|two| two[0].2.len() == two[1].2.len());
    let p_values = |values: &[&[f64]]| {
        let blocks = values.first().map_or(0, |row| row.len());
        let flips = SignFlips::draw(&key, blocks, error_rate);
        max_t::p_values(values, &flips)
    };
    let rows: Vec<&[f64]> = found.iter().map(|(_, _, row)| row.as_slice()).collect();
    let together: Vec<f64> = if is_even {
        p_values(&rows)
    } else {
        let count = rows.len() as f64;
        rows.iter().map(|row| p_values(&[row])[0] * count).collect()
    };
    let found = found.iter().zip(together);
    found
        .map(|((workload, arm, row), p_value)| {
            let flips = SignFlips::draw(&key, row.len(), error_rate);
            let interval = max_t::interval(row, &flips, error_rate);
            HostSpeed {
                workload: workload.clone(),
                arm: arm.clone(),
                blocks: row.len() as u32,
                needed: fewest_blocks(error_rate) as u32,
                ratio: mean(row, |value| *value).exp(),
                low: interval.map(|(low, _)| low.exp()),
                high: interval.map(|(_, high)| high.exp()),
                is_told: p_value <= error_rate,
            }
        })
        .collect()
}

/// What the fixed work took beside baseline and arm, block by block, where it was tried.
fn spins(run: &Run, workload: &str, arm: &str) -> Vec<(f64, f64)> {
    let of = |name: &str, block: u32| {
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
    let pairs = blocks.keys().filter_map(|block| {
        let baseline = of(&run.plan.baseline, *block)?;
        Some((baseline, of(arm, *block)?))
    });
    pairs.collect()
}

/// Arms whose primary metrics moved one way in all workloads, by more than chance.
pub(crate) fn one_sided(run: &Run, comparisons: &[Comparison]) -> Vec<OneSided> {
    let arms = run.plan.arms.iter();
    arms.filter(|arm| arm.name != run.plan.baseline)
        .filter_map(|arm| {
            let its = comparisons.iter();
            let its = its.filter(|one| one.arm == arm.name && one.spec.role == Role::Primary);
            let primaries: Vec<(&[Pair], Direction)> = its
                .map(|one| (one.pairs.as_slice(), one.spec.direction))
                .collect();
            moved(run, &arm.name, &primaries)
        })
        .collect()
}

fn moved(run: &Run, arm: &str, primaries: &[(&[Pair], Direction)]) -> Option<OneSided> {
    // A workload that the arm was never measured on moved no way.
    if primaries.len() < LEAST_WORKLOADS || primaries.iter().any(|(pairs, _)| pairs.is_empty()) {
        return None;
    }
    let (mut row, mut centres) = (Vec::new(), Vec::new());
    for (pairs, direction) in primaries {
        let contrasts = Contrasts::of(pairs, *direction, run.plan.design.margin)?;
        let centre = hodges_lehmann(&contrasts.values);
        let around = less(&contrasts.values, centre);
        // Blocks that agree to the digit have no scale; then they are their own.
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

    /// A run of these blocks whose host took this much longer beside the arm, in an order that is drawn.
    fn beside(seed: u64, blocks: usize, slower: f64) -> Run {
        let noise = pairs(REFERENCE, 0.0, blocks as u32, (seed, 0));
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
    fn a_host_that_was_slower_beside_an_arm_is_told() {
        let one = speed(&beside(1, 12, 1.1)).remove(0);
        assert!(
            one.is_told && 1.05 < one.ratio && one.ratio < 1.2,
            "{one:?}"
        );
        assert_eq!((one.blocks, one.needed), (12, 6));
        let equal = speed(&beside(1, 12, 1.0)).remove(0);
        assert!(!equal.is_told && equal.low.unwrap() < 1.0 && 1.0 < equal.high.unwrap());
    }

    #[test]
    fn nothing_is_said_where_the_work_was_not_tried_or_does_not_matter() {
        let mut untried = beside(1, 8, 1.1);
        for one in measurements(&mut untried) {
            one.spin_ns = 0;
        }
        assert!(speed(&untried).is_empty());
        let mut counted = beside(1, 8, 1.1);
        counted.opening.ns_per_instruction = Some(2);
        assert!(speed(&counted).is_empty());
        let mut elsewhere = beside(1, 8, 1.1);
        elsewhere.plan.machine.kind = MachineKind::Url;
        assert!(speed(&elsewhere).is_empty());
    }

    #[test]
    fn a_sound_host_is_hardly_ever_told() {
        let told = (0..200)
            .filter(|seed| speed(&beside(*seed, 8, 1.0))[0].is_told)
            .count();
        println!("a sound host was told in {told} of 200");
        // 10 of 200 are what the error rate allows on average.
        assert!(told <= 18, "{told}");
    }

    fn together(effects: [f64; 4], seed: u64) -> Option<OneSided> {
        let run = RunBuilder::new().run();
        let all: Vec<Vec<Pair>> = (0..)
            .zip(effects)
            .map(|(place, effect)| pairs(REFERENCE, effect, 8, (seed, place)))
            .collect();
        let primaries: Vec<(&[Pair], Direction)> = all
            .iter()
            .map(|pairs| (pairs.as_slice(), Direction::Higher))
            .collect();
        moved(&run, "7.2", &primaries)
    }

    #[test]
    fn an_arm_that_was_never_measured_on_a_workload_moves_no_way() {
        let run = RunBuilder::new().run();
        let pairs = pairs(REFERENCE, 0.08, 8, (1, 0));
        let up = (pairs.as_slice(), Direction::Higher);
        let none: (&[Pair], Direction) = (&[], Direction::Higher);
        assert!(moved(&run, "7.2", &[up; 3]).is_some());
        assert_eq!(moved(&run, "7.2", &[up, none, up]), None);
        assert_eq!(moved(&run, "7.2", &[none; 3]), None);
    }

    #[test]
    fn workloads_that_all_move_one_way_are_told_together() {
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
