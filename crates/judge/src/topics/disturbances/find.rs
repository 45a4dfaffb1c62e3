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
//! A plan with `disturbed_blocks = "keep"` has no disturbance: its blocks count as they are, and a check of fairness says so.

use plan::{Clients, DisturbedBlocks, MachineKind, Plan};
use record::rundir::{Run, TrialRecord};
use record::verdict::finding::{CpuTaken, Disturbance};

use stats::average::median;

/// Share of CPU time, above what is usual, that the hypervisor may take. Steal of shared machines wavers by 1 or 2 %.
const STEAL: f64 = 0.05;

/// The same for other programs.
const OTHER_CPU: f64 = 0.10;

/// The share by which the host may be slower than is usual.
const SLOWER: f64 = 0.10;

/// What others took from one trial.
struct Taken {
    number: u32,
    /// Share of CPU time.
    steal: f64,
    /// Share of CPU time.
    other_cpu: f64,
    spin_ns: u64,
}

pub(crate) fn disturbance(run: &Run, workload: &str, trials: &[u32]) -> Option<Disturbance> {
    let (plan, opening) = (&run.plan, &run.opening);
    let is_kept = plan.disturbed_blocks == DisturbedBlocks::Keep;
    if is_kept || opening.ns_per_instruction.is_some() {
        return None;
    }
    let last = trials.iter().max()?;
    let records = run.struck.iter().chain(&run.attempts);
    // A run that is taken up again must decide as it would have at that time.
    let so_far =
        records.filter(|record| record.trial.workload == workload && record.trial.number <= *last);
    let mut taken: Vec<Taken> = so_far.filter_map(Taken::of).collect();
    if !can_have_other_processes(plan) {
        for one in &mut taken {
            one.other_cpu = 0.0;
        }
    }
    // How fast this host was says nothing of a box that is another machine, nor of clients on others.
    let is_elsewhere = match opening.clients {
        Some(Clients::Hosts) => true,
        Some(Clients::Host) => false,
        Some(Clients::Guest | Clients::Guest2) | None => plan.machine.kind == MachineKind::Ssh,
    };
    robbed(&taken, trials).or_else(|| slowed(&taken, trials).filter(|_| !is_elsewhere))
}

/// An injected slowdown is another process that the plan itself asked for.
fn can_have_other_processes(plan: &Plan) -> bool {
    let is_live = match plan.machine.kind {
        // On the network it is the clients' host that is seen.
        MachineKind::Local | MachineKind::Url => true,
        // A box in an arm's kernel runs nothing but the trial.
        MachineKind::Qemu | MachineKind::Ssh => false,
    };
    is_live
        && plan
            .arms
            .iter()
            .all(|arm| arm.tuning.injected_slowdown == 0.0)
}

impl Taken {
    /// Of a trial that was measured.
    fn of(record: &TrialRecord) -> Option<Self> {
        let measurement = record.outcome.measured()?;
        let usage = &measurement.usage;
        Some(Self {
            number: record.trial.number,
            steal: usage.cpu_steal,
            other_cpu: usage.cpu_other,
            spin_ns: measurement.spin_ns,
        })
    }
}

/// Others took CPU time.
fn robbed(all: &[Taken], block: &[u32]) -> Option<Disturbance> {
    let steal = most_taken(all, block, STEAL, |taken| taken.steal).map(Disturbance::Steal);
    let others = || most_taken(all, block, OTHER_CPU, |taken| taken.other_cpu);
    steal.or_else(|| others().map(Disturbance::OtherProcesses))
}

/// The trial of the block from which the most was taken, where that is more than `room` above what is usual.
fn most_taken(
    all: &[Taken],
    block: &[u32],
    room: f64,
    share: fn(&Taken) -> f64,
) -> Option<CpuTaken> {
    let of_block = all.iter().filter(|taken| block.contains(&taken.number));
    let worst = of_block.max_by(|one, other| share(one).total_cmp(&share(other)))?;
    let usual = median(&all.iter().map(share).collect::<Vec<f64>>());
    (share(worst) > usual + room).then(|| CpuTaken {
        trial: worst.number,
        share: share(worst),
        usual,
    })
}

/// The host itself was slow.
fn slowed(all: &[Taken], block: &[u32]) -> Option<Disturbance> {
    let spin = |taken: &Taken| taken.spin_ns as f64;
    let of_block = all.iter().filter(|taken| block.contains(&taken.number));
    let worst = of_block.max_by_key(|taken| taken.spin_ns)?;
    let usual_ns = median(&all.iter().map(spin).collect::<Vec<f64>>());
    (spin(worst) > usual_ns * (1.0 + SLOWER)).then_some(Disturbance::SlowHost {
        trial: worst.number,
        took_ns: worst.spin_ns,
        usual_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::fixtures::builder::{RunBuilder, measurement, measurements};

    /// Trials of two arms in turn, of which the hypervisor took these shares.
    fn run(steals: &[f64]) -> Run {
        let figures: Vec<[f64; 2]> = steals.chunks(2).map(|_| [100.0, 100.0]).collect();
        let mut run = RunBuilder::new().blocks(&figures).run();
        for (record, steal) in run.attempts.iter_mut().zip(steals) {
            let measurement = record.outcome.measured_mut().unwrap();
            measurement.usage.cpu_steal = *steal;
            measurement.usage.cpu_other = 0.4;
        }
        run
    }

    #[test]
    fn a_trial_from_which_more_was_stolen_than_is_usual_trips() {
        let run = run(&[0.0, 0.01, 0.02, 0.0, 0.0, 0.3]);
        let taken = CpuTaken {
            trial: 6,
            share: 0.3,
            usual: 0.005,
        };
        assert_eq!(
            disturbance(&run, "web", &[5, 6]),
            Some(Disturbance::Steal(taken))
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
            let measurement = measurement(&mut run, index);
            measurement.spin_ns = spin;
        };
        slow(1, 7_500_000);
        slow(4, 9_100_000);
        let slow = Disturbance::SlowHost {
            trial: 5,
            took_ns: 9_100_000,
            usual_ns: 7e6,
        };
        assert_eq!(disturbance(&run, "web", &[5, 6]), Some(slow));
        assert_eq!(disturbance(&run, "web", &[1, 2]), None);
        // A record of before had none.
        measurements(&mut run).for_each(|measurement| measurement.spin_ns = 0);
        assert_eq!(disturbance(&run, "web", &[5, 6]), None);
    }

    #[test]
    fn a_block_without_a_measured_trial_is_not_disturbed() {
        let none = RunBuilder::new().void(1, "6.1").void(1, "7.2").run();
        assert_eq!(disturbance(&none, "web", &[1, 2]), None);
        let earlier = RunBuilder::new()
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
    fn a_plan_that_keeps_disturbed_blocks_has_none() {
        let mut run = run(&[0.0, 0.0, 0.0, 0.5]);
        assert!(disturbance(&run, "web", &[3, 4]).is_some());
        run.plan.disturbed_blocks = DisturbedBlocks::Keep;
        assert_eq!(disturbance(&run, "web", &[3, 4]), None);
    }

    #[test]
    fn other_programs_disturb_a_live_host_alone_and_a_plant_is_none() {
        let mut run = run(&[0.0; 6]);
        let measurement = measurement(&mut run, 5);
        measurement.usage.cpu_other = 0.6;
        assert_eq!(disturbance(&run, "web", &[5, 6]), None);
        run.plan.machine.kind = MachineKind::Local;
        let why = disturbance(&run, "web", &[5, 6]).unwrap();
        assert!(
            matches!(why, Disturbance::OtherProcesses(taken) if taken.trial == 6 && (taken.share - 0.6).abs() < 1e-12),
            "{why:?}"
        );
        run.plan.arms[1].tuning.injected_slowdown = 0.05;
        assert_eq!(disturbance(&run, "web", &[5, 6]), None);
    }
}
