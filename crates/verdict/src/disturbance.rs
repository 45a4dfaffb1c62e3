//! Disturbances: whether something outside disturbed a block, so that it has to be run again.
//!
//! ```text
//! steal       CPU time that the hypervisor gave to others
//! other_cpu   CPU time in programs that are not the trial's; only on a live host, where there can be some
//! spin        what a fixed piece of work took on the host before and after the trial: a lowered clock, a busy sibling
//! tripped     above the median of all trials of the workload so far, by a fixed share: of all CPU time, or of the spin
//! ```
//! A block that is thrown away for its figures, or for its arm, would bend the verdict. So the rule is given neither:
//! it sees numbered trials, all arms alike, and of them only what others took. For the same reason pressure stall times
//! are no disturbance: they are the trial's own, and an arm that stalls more would be excused for it. Under counted
//! instructions nobody outside can disturb anything but what waits for the disk, and of that there is a warning.

use record::plan::MachineKind;
use record::rundir::{Run, TrialRecord};
use record::trial::Outcome;

use crate::score::median;

/// Share of CPU time, above what is usual, that the hypervisor may take. Steal of shared machines wavers by 1 or 2 %.
const STEAL: f64 = 0.05;

/// The same for other programs.
const OTHER_CPU: f64 = 0.10;

/// The share by which the host may be slower than is usual.
const SLOWER: f64 = 0.10;

/// What others took from one trial.
#[derive(Debug, Clone, Copy)]
struct Taken {
    number: u32,
    /// Share of CPU time.
    steal: f64,
    /// Share of CPU time.
    other_cpu: f64,
    spin_ns: u64,
}

pub(crate) fn disturbance(run: &Run, workload: &str, trials: &[u32]) -> Option<String> {
    if run.opening.ns_per_instruction.is_some() {
        return None;
    }
    let last = trials.iter().max()?;
    let records = run.struck.iter().chain(&run.attempts);
    // A run that is taken up again must decide as it would have at that time.
    let so_far =
        records.filter(|record| record.trial.workload == workload && record.trial.number <= *last);
    let others_show = can_have_other_processes(run);
    let taken: Vec<Taken> = so_far
        .filter_map(|record| taken(record, others_show))
        .collect();
    robbed(&taken, trials).or_else(|| slowed(&taken, trials))
}

/// An injected slowdown is another process that the plan itself asked for.
fn can_have_other_processes(run: &Run) -> bool {
    let is_live = match run.plan.machine.kind {
        MachineKind::Local => true,
        MachineKind::Qemu => false,
    };
    is_live && run.plan.arms.iter().all(|arm| arm.tuning.plant == 0.0)
}

fn taken(record: &TrialRecord, others_show: bool) -> Option<Taken> {
    let measurement = match &record.outcome {
        Outcome::Measured(measurement) => measurement,
        Outcome::Void(_) | Outcome::Skipped(_) => return None,
    };
    let usage = &measurement.usage;
    Some(Taken {
        number: record.trial.number,
        steal: usage.cpu_steal,
        other_cpu: if others_show { usage.cpu_other } else { 0.0 },
        spin_ns: measurement.spin_ns,
    })
}

/// Others took CPU time.
fn robbed(all: &[Taken], block: &[u32]) -> Option<String> {
    let whom = [
        (
            STEAL,
            "the hypervisor",
            (|taken| taken.steal) as fn(&Taken) -> f64,
        ),
        (OTHER_CPU, "other processes", |taken| taken.other_cpu),
    ];
    let shares = |of: fn(&Taken) -> f64| all.iter().map(of).collect::<Vec<f64>>();
    whom.into_iter().find_map(|(most, who, of)| {
        let mine = all.iter().filter(|taken| block.contains(&taken.number));
        let worst = mine.max_by(|one, other| of(one).total_cmp(&of(other)))?;
        let usual = median(&shares(of));
        (of(worst) > usual + most).then(|| {
            format!(
                "{who} took {:.1} % of the CPU time of trial {:03}, {:.1} % is usual here",
                of(worst) * 100.0,
                worst.number,
                usual * 100.0
            )
        })
    })
}

/// The host itself was slow.
fn slowed(all: &[Taken], block: &[u32]) -> Option<String> {
    let spin = |taken: &Taken| taken.spin_ns as f64;
    let mine = all.iter().filter(|taken| block.contains(&taken.number));
    let worst = mine.max_by_key(|taken| taken.spin_ns)?;
    let usual = median(&all.iter().map(spin).collect::<Vec<f64>>());
    (spin(worst) > usual * (1.0 + SLOWER)).then(|| {
        format!(
            "the host was {:.0} % slower than usual beside trial {:03}: a fixed piece of work took {:.2} ms instead of {:.2}",
            (spin(worst) / usual - 1.0) * 100.0,
            worst.number,
            spin(worst) / 1e6,
            usual / 1e6
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::play::Play;

    /// Trials of two arms in turn, of which the hypervisor took these shares.
    fn run(steals: &[f64]) -> Run {
        let figures: Vec<[f64; 2]> = steals.chunks(2).map(|_| [100.0, 100.0]).collect();
        let mut run = Play::new().blocks(&figures).run();
        for (record, steal) in run.attempts.iter_mut().zip(steals) {
            let Outcome::Measured(measurement) = &mut record.outcome else {
                panic!("all are measured");
            };
            measurement.usage.cpu_steal = *steal;
            measurement.usage.cpu_other = 0.4;
        }
        run
    }

    #[test]
    fn a_trial_from_which_more_was_stolen_than_is_usual_trips() {
        let run = run(&[0.0, 0.01, 0.02, 0.0, 0.0, 0.3]);
        let why = disturbance(&run, "web", &[5, 6]).unwrap();
        assert_eq!(
            why,
            "the hypervisor took 30.0 % of the CPU time of trial 006, 0.5 % is usual here"
        );
        assert_eq!(disturbance(&run, "web", &[3, 4]), None);
    }

    #[test]
    fn what_is_taken_from_every_trial_alike_is_usual() {
        let run = run(&[0.3, 0.31, 0.29, 0.3]);
        assert_eq!(disturbance(&run, "web", &[1, 2]), None);
        assert_eq!(disturbance(&run, "web", &[3, 4]), None);
    }

    #[test]
    fn a_host_that_slows_down_trips() {
        let mut run = run(&[0.0; 6]);
        let mut slow = |index: usize, spin: u64| {
            let Outcome::Measured(measurement) = &mut run.attempts[index].outcome else {
                panic!("all are measured");
            };
            measurement.spin_ns = spin;
        };
        slow(1, 7_500_000);
        slow(4, 9_100_000);
        let why = disturbance(&run, "web", &[5, 6]).unwrap();
        assert_eq!(
            why,
            "the host was 30 % slower than usual beside trial 005: a fixed piece of work took 9.10 ms instead of 7.00"
        );
        assert_eq!(disturbance(&run, "web", &[1, 2]), None);
        // A record of before had none.
        run.attempts.iter_mut().for_each(|record| {
            if let Outcome::Measured(measurement) = &mut record.outcome {
                measurement.spin_ns = 0;
            }
        });
        assert_eq!(disturbance(&run, "web", &[5, 6]), None);
    }

    #[test]
    fn a_block_without_a_measured_trial_is_not_disturbed() {
        let none = Play::new().void(1, "6.1").void(1, "7.2").run();
        assert_eq!(disturbance(&none, "web", &[1, 2]), None);
        let earlier = Play::new()
            .blocks(&[[100.0, 100.0]])
            .void(2, "6.1")
            .void(2, "7.2")
            .run();
        assert_eq!(disturbance(&earlier, "web", &[3, 4]), None);
        assert_eq!(disturbance(&none, "web", &[]), None);
    }

    #[test]
    fn trials_that_came_later_change_nothing() {
        let run = run(&[0.0, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2]);
        assert!(disturbance(&run, "web", &[1, 2]).is_some());
    }

    #[test]
    fn nobody_disturbs_counted_instructions() {
        let mut run = run(&[0.0, 0.0, 0.0, 0.5]);
        run.opening.ns_per_instruction = Some(2);
        assert_eq!(disturbance(&run, "web", &[3, 4]), None);
    }

    #[test]
    fn other_programs_disturb_a_live_host_alone_and_a_plant_is_none() {
        let mut run = run(&[0.0; 6]);
        let Outcome::Measured(measurement) = &mut run.attempts[5].outcome else {
            panic!("all are measured");
        };
        measurement.usage.cpu_other = 0.6;
        assert_eq!(disturbance(&run, "web", &[5, 6]), None);
        run.plan.machine.kind = MachineKind::Local;
        let why = disturbance(&run, "web", &[5, 6]).unwrap();
        assert!(why.starts_with("other processes took 60.0 %"), "{why}");
        run.plan.arms[1].tuning.plant = 0.05;
        assert_eq!(disturbance(&run, "web", &[5, 6]), None);
    }
}
