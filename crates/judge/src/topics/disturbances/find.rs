//! Detects whether a block was disturbed from outside, so that it has to be run again.
//!
//! ```text
//! steal       CPU time that the hypervisor gave to other guests
//! other_cpu   CPU time of processes that do not belong to the trial, on a live host only
//! spin        duration of a fixed amount of work on the host before and after the trial: shows a lower clock or a busy sibling
//! disturbed   above the median of all trials of the workload so far by a fixed share: of all CPU time, or of the spin
//! ```
//! Discarding blocks by their figures or their arm would bias the verdict. So the rule sees neither: it gets numbered trials of
//! all arms, and only what was taken from them. Pressure stall times are no disturbance for the same reason: the trial itself
//! causes them, and an arm that stalls more would profit. With counted instructions only waits for the disk can be disturbed,
//! and there is a warning for them. With `disturbed_blocks = "keep"` no block is disturbed, and a fairness check reports it.

use plan::{Clients, DisturbedBlocks, MachineKind, Plan};
use record::rundir::{Run, TrialRecord};
use record::verdict::finding::{CpuTaken, Disturbance};

use stats::average::median;

/// Steal above the median that is tolerated, as a share of CPU time. It varies by 1 or 2 % on shared machines.
const MAX_STEAL: f64 = 0.05;

/// CPU time of other processes above the median that is tolerated, as a share.
const MAX_OTHER_CPU: f64 = 0.10;

/// Spin time above the median that is tolerated, as a share of the median.
const MAX_SLOWDOWN: f64 = 0.10;

/// Signs of a disturbance in one trial.
struct TrialSigns {
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
    let records = run.invalidated.iter().chain(&run.attempts);
    // Later trials are ignored, so that a resumed run decides as it did the first time.
    let so_far =
        records.filter(|record| record.trial.workload == workload && record.trial.number <= *last);
    let mut signs: Vec<TrialSigns> = so_far.filter_map(TrialSigns::of).collect();
    if !can_have_other_processes(plan) {
        for trial in &mut signs {
            trial.other_cpu = 0.0;
        }
    }
    // The spin runs on this host, so it says nothing about servers or clients on other machines.
    let is_elsewhere = match opening.clients {
        Some(Clients::Hosts) => true,
        Some(Clients::Host) => false,
        Some(Clients::Guest | Clients::Guest2) | None => plan.machine.kind == MachineKind::Ssh,
    };
    cpu_taken(&signs, trials).or_else(|| slow_host(&signs, trials).filter(|_| !is_elsewhere))
}

/// Whether a trial can have other processes beside it. A plan with an injected slowdown asked for one, so it does not count.
fn can_have_other_processes(plan: &Plan) -> bool {
    let is_live = match plan.machine.kind {
        // For a URL, it is the host of the clients.
        MachineKind::Local | MachineKind::Url => true,
        // A machine that booted an arm's kernel runs nothing but the trial.
        MachineKind::Qemu | MachineKind::Ssh => false,
    };
    is_live
        && plan
            .arms
            .iter()
            .all(|arm| arm.tuning.injected_slowdown == 0.0)
}

impl TrialSigns {
    /// `None` unless the trial was measured.
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

/// Steal, or CPU time of other processes.
fn cpu_taken(all: &[TrialSigns], block: &[u32]) -> Option<Disturbance> {
    let steal = most_taken(all, block, MAX_STEAL, |trial| trial.steal);
    let others = || most_taken(all, block, MAX_OTHER_CPU, |trial| trial.other_cpu);
    let steal = steal.map(Disturbance::Steal);
    steal.or_else(|| others().map(Disturbance::OtherProcesses))
}

/// The trial of the block with the highest share, if that is more than `tolerance` above the median.
fn most_taken(
    all: &[TrialSigns],
    block: &[u32],
    tolerance: f64,
    share: fn(&TrialSigns) -> f64,
) -> Option<CpuTaken> {
    let of_block = all.iter().filter(|trial| block.contains(&trial.number));
    let worst = of_block.max_by(|left, right| share(left).total_cmp(&share(right)))?;
    let usual = median(&all.iter().map(share).collect::<Vec<f64>>());
    (share(worst) > usual + tolerance).then(|| CpuTaken {
        trial: worst.number,
        share: share(worst),
        usual,
    })
}

/// The trial of the block with the longest spin, if that is too far above the median.
fn slow_host(all: &[TrialSigns], block: &[u32]) -> Option<Disturbance> {
    let spin = |trial: &TrialSigns| trial.spin_ns as f64;
    let of_block = all.iter().filter(|trial| block.contains(&trial.number));
    let worst = of_block.max_by_key(|trial| trial.spin_ns)?;
    let usual_ns = median(&all.iter().map(spin).collect::<Vec<f64>>());
    (spin(worst) > usual_ns * (1.0 + MAX_SLOWDOWN)).then_some(Disturbance::SlowHost {
        trial: worst.number,
        took_ns: worst.spin_ns,
        usual_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::fixtures::builder::{RunBuilder, measurement, measurements};

    /// Trials of two alternating arms, with these shares of steal.
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
    fn unusual_steal_is_a_disturbance() {
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
    fn steal_that_all_trials_have_is_no_disturbance() {
        let run = run(&[0.3, 0.31, 0.29, 0.3]);
        assert_eq!(disturbance(&run, "web", &[1, 2]), None);
        assert_eq!(disturbance(&run, "web", &[3, 4]), None);
    }

    #[test]
    fn a_slow_host_is_a_disturbance() {
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
        // Without spin times there is no disturbance.
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
    fn later_trials_are_ignored() {
        let run = run(&[0.0, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2]);
        assert!(disturbance(&run, "web", &[1, 2]).is_some());
    }

    #[test]
    fn counted_instructions_are_not_disturbed() {
        let mut run = run(&[0.0, 0.0, 0.0, 0.5]);
        run.opening.ns_per_instruction = Some(2);
        assert_eq!(disturbance(&run, "web", &[3, 4]), None);
    }

    #[test]
    fn a_plan_that_keeps_disturbed_blocks_has_no_disturbance() {
        let mut run = run(&[0.0, 0.0, 0.0, 0.5]);
        assert!(disturbance(&run, "web", &[3, 4]).is_some());
        run.plan.disturbed_blocks = DisturbedBlocks::Keep;
        assert_eq!(disturbance(&run, "web", &[3, 4]), None);
    }

    #[test]
    fn other_processes_disturb_only_a_live_host_without_an_injected_slowdown() {
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
