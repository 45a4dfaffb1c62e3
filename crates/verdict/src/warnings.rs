//! What a reader must know before the figures.
//!
//! Each warning is one lowercase fragment that names workload and arm, gives its numbers, and says
//! in parentheses what it means or what to do. Gravest first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use record::journal::{Accounting, Event};
use record::load::{LoadResult, Second};
use record::metric::{Direction, Role};
use record::plan::{Arm, MachineKind};
use record::rundir::{Damage, EvidenceFile, Run, TrialRecord};
use record::trial::{Measurement, Outcome};
use record::units::{show_bytes, show_change, significant};
use record::verdict::{Comparison, Gate, Verdict};

use crate::differ;
use crate::pair::Measured;
use crate::plan;
use crate::speedup;
use crate::table::{faults, mean, total, voids};

/// Share of CPU time that may be idle before the server counts as not stressed.
const IDLE: f64 = 0.1;

/// Share of CPU time that others (the hypervisor, the sampler) may take without a warning.
const TAX: f64 = 0.01;

/// Change of the rate from the first to the last third of the window that counts as unsettled.
const DRIFT: f64 = 0.1;

/// What went wrong in a run, failed gates first.
pub(crate) fn setbacks(run: &Run, measured: &Measured<'_>, gates: &[Gate]) -> Vec<String> {
    let failed = |gate: &Gate| format!("{}: arm {} FAILS: {}", gate.workload, gate.arm, gate.what);
    let mut setbacks: Vec<String> = gates.iter().map(failed).collect();
    for workload in workloads(run) {
        setbacks.extend(failed_attempts(run, workload));
        setbacks.extend(missing_blocks(run, measured, workload));
        setbacks.extend(invalidated(run, workload));
    }
    setbacks
}

/// Everything else that is to be said of a run before its figures.
pub(crate) fn of(run: &Run, measured: &Measured<'_>, comparisons: &[Comparison]) -> Vec<String> {
    let mut warnings = Vec::new();
    warnings.extend(charged_per_byte(run));
    warnings.extend(missing_evidence(run));
    warnings.extend(extended(run));
    for workload in workloads(run) {
        warnings.extend(few_blocks(run, measured, workload));
        warnings.extend(unserved(run, measured, workload));
        warnings.extend(unsettled(run, measured, workload));
        warnings.extend(wrong_limit(run, measured, workload));
        warnings.extend(swapped(run, measured, workload));
        warnings.extend(same_kernel(run, measured, workload));
    }
    warnings.extend(unstable(run, comparisons));
    warnings.extend(not_compared(comparisons));
    warnings.extend(equal_arms(run));
    warnings.extend(shared_cpus(run));
    warnings.extend(missing_cpus(run));
    warnings.extend(nature(run));
    warnings
}

/// Files beside the records of trials that are lost or damaged, all in one warning.
fn missing_evidence(run: &Run) -> Option<String> {
    let mut places = BTreeMap::<(EvidenceFile, Damage), Vec<String>>::new();
    for one in &run.missing {
        let names = places.entry((one.file, one.damage)).or_default();
        names.push(one.attempt_name());
    }
    let told = places.iter().map(|((file, damage), names)| {
        let trials = match names.len() {
            1 => "trial",
            _ => "trials",
        };
        let (file, damage, names) = (file.name(), damage.word(), first_few(names));
        format!("{file} of {trials} {names} is {damage}")
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| {
        format!(
            "evidence is missing: {} (figures and verdict stand on trial.json, which is whole; what only these files \
             say, such as differences between the arms, is not checked for those trials)",
            told.join("; ")
        )
    })
}

/// Names in their order; of many only the first, and how many more there are.
fn first_few(names: &[String]) -> String {
    const FEW: usize = 6;
    let mut names = names.to_vec();
    names.sort_unstable();
    let more = names.len().saturating_sub(FEW);
    names.truncate(FEW);
    match more {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

fn workloads(run: &Run) -> impl Iterator<Item = &str> {
    run.plan
        .workloads
        .iter()
        .map(|workload| workload.id.as_str())
}

fn arms(run: &Run) -> impl Iterator<Item = &Arm> {
    run.plan.arms.iter()
}

fn listed<K: Display, V: Display>(items: impl IntoIterator<Item = (K, V)>) -> String {
    let items = items
        .into_iter()
        .map(|(what, count)| format!("{what} {count}"));
    items.collect::<Vec<_>>().join(", ")
}

/// Failed trials, and whether they fall on one arm.
fn failed_attempts(run: &Run, workload: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut failed = BTreeMap::new();
    for arm in arms(run) {
        let voids = voids(run, workload, &arm.name);
        let count: u32 = voids.values().sum();
        failed.insert(arm.name.as_str(), count);
        if count > 0 {
            let tried = run
                .attempts
                .iter()
                .filter(|record| record.trial.workload == workload && record.trial.arm == arm.name);
            let reasons = listed(voids.iter().map(|(reason, count)| (reason.words(), count)));
            warnings.push(format!(
                "{workload}: failed trials on arm {}: {count} of {}: {reasons}",
                arm.name,
                tried.count()
            ));
        }
    }
    let most = failed.values().max().copied().unwrap_or(0);
    let least = failed.values().min().copied().unwrap_or(0);
    if most >= 2 && most >= 3 * least {
        warnings.push(format!(
            "{workload}: attempts fail more often on one arm: {} (what makes them fail may also \
             bend the figures of those that do not)",
            listed(failed)
        ));
    }
    warnings
}

/// Blocks left out. One of which an arm was not tried yet is under way, and nothing went wrong in it.
fn missing_blocks(run: &Run, measured: &Measured<'_>, workload: &str) -> Option<String> {
    let (begun, _) = measured.begun_and_incomplete(run, workload);
    let failed = arms(run).flat_map(|arm| measured.missing(workload, &arm.name));
    let failed: BTreeSet<u32> = failed.collect();
    let numbers: Vec<String> = failed.iter().map(u32::to_string).collect();
    (!numbers.is_empty()).then(|| {
        format!(
            "{workload}: blocks without a figure of every arm: {} of {begun}, number {} (not \
             compared where an arm is missing)",
            numbers.len(),
            numbers.join(", ")
        )
    })
}

/// What it cost that the run was given more blocks.
fn extended(run: &Run) -> Option<String> {
    let design = &run.plan.design;
    let percent = |share: f64| significant(share * 100.0, 2);
    (design.more_blocks > 0).then(|| {
        format!(
            "the run was given more blocks after it had ended undecided: {} where the plan has {} (a wrong verdict has a chance of \
             at most {} %, where the plan says {} %)",
            design.most_blocks(),
            design.max_blocks,
            percent(plan::error_rate(design)),
            percent(design.error_rate),
        )
    })
}

/// Fewer whole blocks than the plan wants at least.
fn few_blocks(run: &Run, measured: &Measured<'_>, workload: &str) -> Option<String> {
    let (begun, incomplete) = measured.begun_and_incomplete(run, workload);
    let whole = begun - incomplete.len();
    let least = run.plan.design.min_blocks;
    (whole < least as usize).then(|| {
        format!(
            "{workload}: whole blocks so far: {whole}, the plan wants {least} at least (no \
             verdict before that)"
        )
    })
}

/// Blocks that were run again because something outside disturbed them.
fn invalidated(run: &Run, workload: &str) -> Option<String> {
    let mut reasons = BTreeMap::<u32, Vec<&str>>::new();
    for entry in &run.entries {
        match &entry.event {
            Event::Invalidated {
                workload: its,
                block,
                reason,
                ..
            } if its == workload => reasons.entry(*block).or_default().push(reason),
            Event::Invalidated { .. }
            | Event::Opened(_)
            | Event::Resumed { .. }
            | Event::Started { .. }
            | Event::Ended { .. }
            | Event::Looked { .. }
            | Event::Closed { .. }
            | Event::Extended { .. } => {}
        }
    }
    let told = |(block, reasons): (&u32, &Vec<&str>)| {
        let times = match reasons.len() {
            1 => String::new(),
            times => format!(" {times} times"),
        };
        format!("block {block}{times}: {}", reasons.join("; "))
    };
    let told: Vec<String> = reasons.iter().map(told).collect();
    (!told.is_empty()).then(|| {
        format!(
            "{workload}: blocks that something outside disturbed, run again: {}: {} (their first \
             figures do not count)",
            told.len(),
            told.join("; ")
        )
    })
}

/// Requests that ended in a fault or were never sent, by whose fault it was.
fn unserved(run: &Run, measured: &Measured<'_>, workload: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for arm in arms(run) {
        let trials = measured.of_arm(workload, &arm.name);
        let (clients, servers): (Vec<_>, Vec<_>) = faults(&trials)
            .into_iter()
            .partition(|(fault, _)| fault.is_clients_own());
        let mut warn = |what: &str, faults: &[(_, u64)], meaning: &str| {
            let count = total(faults.iter().map(|(_, count)| *count));
            if count > 0 {
                let name = &arm.name;
                warnings.push(format!(
                    "{workload}: {what} on arm {name}: {count} ({meaning})"
                ));
            }
        };
        warn("unsuccessful requests", &servers, "never counted as served");
        warn(
            "requests lost by the clients",
            &clients,
            "the clients were the limit, not the arm",
        );
        let unsent = trials
            .iter()
            .filter_map(|trial| Some(trial.load.as_ref()?.unsent));
        let unsent = total(unsent);
        if unsent > 0 {
            let name = &arm.name;
            warnings.push(format!(
                "{workload}: requests due and never sent on arm {name}: {unsent}"
            ));
        }
    }
    warnings
}

/// Signs that something other than the arm set the figures.
fn wrong_limit(run: &Run, measured: &Measured<'_>, workload: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    // The time of a disk is the work's own where it is measured in time.
    let is_counted = run.opening.ns_per_instruction.is_some();
    for arm in arms(run) {
        let trials = measured.of_arm(workload, &arm.name);
        let share = |of: fn(&Measurement) -> f64| mean(&trials, |trial| of(trial));
        let mut warn = |share: f64, bound: f64, what: &str, meaning: &str| {
            if share > bound {
                let percent = significant(share * 100.0, 2);
                let name = &arm.name;
                warnings.push(format!(
                    "{workload}: CPU time {what} on arm {name}: {percent} % ({meaning})"
                ));
            }
        };
        // Without clients to add, idle time is part of the work: tasks that sleep, files that are waited for. So it is on
        // the lower steps of a climb. And where clients fix the rate, it is what an arm that is fast enough has.
        let driven = trials.iter().all(|trial| {
            let mut figures = trial.figures.iter();
            let deciding = figures.find(|one| one.spec.role == Role::Primary);
            let is_pushed = deciding.is_none_or(|one| one.spec.direction == Direction::Higher);
            trial.load.is_some() && is_pushed && !climbs(trial)
        });
        let idle = |trial: &Measurement| trial.usage.cpu_idle;
        warn(
            if driven { share(idle) } else { 0.0 },
            IDLE,
            "idle",
            "the load, not the arm, may have set the figures: add connections",
        );
        let waiting = |trial: &Measurement| trial.usage.cpu_waiting;
        warn(
            if is_counted { share(waiting) } else { 0.0 },
            TAX,
            "idle while the disk was read",
            "the guest's clock runs on meanwhile, as far as chance has it: use clock = \"wall\", or read beforehand",
        );
        warn(
            share(|trial| trial.usage.cpu_steal),
            TAX,
            "taken by the hypervisor",
            "the host was busy with something else",
        );
        warn(
            share(|trial| trial.usage.sampling),
            TAX,
            "spent on sampling",
            "the figures include it",
        );
    }
    warnings
}

/// Arms whose rate had not settled: a figure from a slope says how long the window was, no more.
fn unsettled(run: &Run, measured: &Measured<'_>, workload: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for arm in arms(run) {
        let mut trials = measured.of_arm(workload, &arm.name);
        // A ramp is meant to change.
        trials.retain(|trial| !climbs(trial));
        let served = |part: fn(&[Second]) -> &[Second]| -> f64 {
            let loads = trials.iter().filter_map(|trial| trial.load.as_ref());
            let parts = loads.flat_map(|load| part(whole_seconds(load)));
            parts.map(|second| second.ok as f64).sum()
        };
        let (first, last) = (served(first_third), served(last_third));
        if first > 0.0 && !(1.0 - DRIFT..=1.0 + DRIFT).contains(&(last / first)) {
            warnings.push(format!(
                "{workload}: answers a second on arm {}, last third of the window against the \
                 first: {} (it had not settled: lengthen warmup)",
                arm.name,
                show_change(last / first)
            ));
        }
    }
    warnings
}

/// Whether a trial goes through several loads, so that its seconds are not alike by design.
fn climbs(trial: &Measurement) -> bool {
    trial.curves.iter().any(|curve| !curve.is_over_time())
}

/// The window without its last second, when that is not a whole one.
fn whole_seconds(load: &LoadResult) -> &[Second] {
    let whole = (load.window_ns / 1_000_000_000) as usize;
    &load.timeline[..whole.min(load.timeline.len())]
}

fn first_third(timeline: &[Second]) -> &[Second] {
    &timeline[..timeline.len() / 3]
}

fn last_third(timeline: &[Second]) -> &[Second] {
    &timeline[timeline.len() - timeline.len() / 3..]
}

/// Arms that ran out of memory: what they then do is not what the plan asks about.
fn swapped(run: &Run, measured: &Measured<'_>, workload: &str) -> Vec<String> {
    let swap = |arm: &Arm| {
        let trials = measured.of_arm(workload, &arm.name);
        trials
            .iter()
            .map(|trial| trial.usage.swap_used_bytes)
            .max()
            .unwrap_or(0)
    };
    let told = |arm: &Arm| {
        format!(
            "{workload}: swap in use on arm {}: {} (memory was short, so the disk is measured too)",
            arm.name,
            show_bytes(swap(arm))
        )
    };
    arms(run).filter(|arm| swap(arm) > 0).map(told).collect()
}

/// Arms whose plans name different kernels and that ran the same one.
fn same_kernel(run: &Run, measured: &Measured<'_>, workload: &str) -> Vec<String> {
    let mut ran = BTreeMap::<&str, Vec<&Arm>>::new();
    for arm in arms(run) {
        let trials = measured.of_arm(workload, &arm.name);
        if let Some(trial) = trials.last() {
            ran.entry(trial.kernel.as_str()).or_default().push(arm);
        }
    }
    let unlike = |arms: &&Vec<&Arm>| arms.iter().any(|arm| arm.kernel != arms[0].kernel);
    let told = |arms: &Vec<&Arm>| {
        let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
        format!(
            "{workload}: the plan names different kernels and the same one ran: arms {}",
            names.join(", ")
        )
    };
    ran.values().filter(unlike).map(told).collect()
}

/// Arms that have odd trials more often than the baseline, or less often.
fn unstable(run: &Run, comparisons: &[Comparison]) -> Vec<String> {
    let told = |comparison: &Comparison| {
        let stability = comparison.stability?;
        (stability.chance < run.plan.design.error_rate).then(|| {
            let name = &comparison.spec.name;
            format!(
                "{}: {name} has outliers: {} of arm {}, {} of the baseline (p = {}; the verdict is \
                 about typical trials)",
                comparison.workload,
                stability.arm,
                comparison.arm,
                stability.baseline,
                significant(stability.chance, 2)
            )
        })
    };
    comparisons.iter().filter_map(told).collect()
}

/// Metrics whose figures cannot be compared.
fn not_compared(comparisons: &[Comparison]) -> Vec<String> {
    let bad = |comparison: &&Comparison| {
        comparison.noise.is_none()
            && comparison.verdict == Verdict::Undecided
            && !comparison
                .pairs
                .iter()
                .all(|pair| pair.baseline == 0.0 && pair.arm == 0.0)
    };
    let told = |comparison: &Comparison| {
        format!(
            "{}: {} of arm {} is not compared: {}",
            comparison.workload, comparison.spec.name, comparison.arm, comparison.reason
        )
    };
    comparisons.iter().filter(bad).map(told).collect()
}

/// Arms that are the same system under two names: an A/A plan, or a slip.
fn equal_arms(run: &Run) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, arm) in run.plan.arms.iter().enumerate() {
        let twin = |other: &&Arm| {
            speedup::is_alike(other, arm) && run.plan.cpus(other) == run.plan.cpus(arm)
        };
        if let Some(twin) = run.plan.arms[..index].iter().find(twin) {
            warnings.push(format!(
                "arms {} and {} are the same system (an A/A plan: any difference between them is \
                 the rig's own)",
                twin.name, arm.name
            ));
        }
    }
    warnings
}

/// Arms with more virtual CPUs than the host has to run them on.
fn shared_cpus(run: &Run) -> Vec<String> {
    let is_virtual = run.plan.machine.kind == MachineKind::Qemu;
    let host = run.opening.host_cpus.filter(|_| is_virtual);
    // One CPU is all that there is where instructions are counted.
    let host = host.filter(|_| run.opening.ns_per_instruction.is_none());
    let told = |arm: &Arm| {
        let (host, cpus) = (host?, run.plan.cpus(arm)?);
        (cpus > host).then(|| {
            format!(
                "{cpus} virtual CPUs on {host} host CPUs: arm {} (they take turns, so no speed-up beyond {host} \
                 can show)",
                arm.name
            )
        })
    };
    arms(run).filter_map(told).collect()
}

/// Arms that did not have the CPUs that the plan gives them: a command line can keep a kernel from using them.
fn missing_cpus(run: &Run) -> Vec<String> {
    let told = |arm: &Arm| {
        let asked = arm.cpus?;
        let seen = run.attempts.iter().zip(&run.facts).rev();
        let facts = seen.filter(|(record, _)| record.trial.arm == arm.name);
        let mut lists = facts.filter_map(|(_, facts)| facts.as_ref()?.values.get(differ::CPUS));
        let list = lists.next()?;
        let had = list.split(',').count() as u32;
        (had != asked).then(|| {
            format!(
                "arm {} ran on {had} CPUs, the plan says {asked} (its figures are those of {had})",
                arm.name
            )
        })
    };
    arms(run).filter_map(told).collect()
}

/// A run whose guests had fast string instructions, each iteration of which was counted.
fn charged_per_byte(run: &Run) -> Option<String> {
    match run.opening.accounting()? {
        Accounting::RepPer8Bytes => None,
        Accounting::RepPerByte => Some(
            "an earlier bakeoff measured this and charged REP string instructions per byte (a page cleared or copied counted \
             as 4096 instructions, where a CPU needs some 100 cycles: run it again)"
                .into(),
        ),
    }
}

/// What the figures are by nature, whatever happened.
fn nature(run: &Run) -> Vec<String> {
    let mut warnings = Vec::new();
    if run.opening.ns_per_instruction.is_some() {
        warnings.push(
            "time is counted in executed instructions (caches, memory and \
             devices cost nothing)"
                .into(),
        );
    }
    let loads = |record: &TrialRecord| match &record.outcome {
        Outcome::Measured(measurement) => Some(measurement.load.is_some()),
        Outcome::Void(_) | Outcome::Skipped(_) => None,
    };
    let mut loads = run.attempts.iter().filter_map(loads).peekable();
    let unserved = loads.peek().is_some() && !loads.any(|has_load| has_load);
    match run.plan.machine.kind {
        MachineKind::Qemu if unserved => warnings.push(
            "whatever drives the work runs inside the guest, on the same CPUs (figures include \
             it, and no network)"
                .into(),
        ),
        MachineKind::Qemu => warnings.push(
            "the clients run inside the guest, on the server's own CPUs (figures include the \
             clients' work, and no network)"
                .into(),
        ),
        MachineKind::Local => warnings.push(
            "all arms ran on this live host, clients and other work included (figures include \
             the clients' work and whatever else the host was doing, and no network)"
                .into(),
        ),
    }
    warnings
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use record::curve::Curve;
    use record::load::Fault;
    use record::trial::Outcome;

    use super::*;
    use crate::play::Play;

    fn check(play: Play, want: &Expect) {
        let judgement = crate::judge(&play.run());
        want.assert_eq(&[judgement.setbacks, judgement.warnings].concat().join("\n"));
    }

    fn whole() -> Play {
        Play::new().blocks(&[[100.0, 101.0]; 4])
    }

    fn change(play: Play, attempt: usize, change: impl FnOnce(&mut Measurement)) -> Play {
        play.with(|run| match &mut run.attempts[attempt].outcome {
            Outcome::Measured(measurement) => change(measurement),
            Outcome::Void(_) | Outcome::Skipped(_) => panic!("attempt {attempt} is measured"),
        })
    }

    #[test]
    fn a_sound_run_is_told_its_nature_only() {
        check(
            whole(),
            &expect![
                "the clients run inside the guest, on the server's own CPUs (figures include the clients' work, and no network)"
            ],
        );
    }

    #[test]
    fn a_rate_that_climbs_through_the_window_is_pointed_out() {
        let climb = |measurement: &mut Measurement| {
            let load = measurement
                .load
                .as_mut()
                .expect("a played trial has a load");
            let second = |(at, ok)| Second {
                at_ms: at * 1000,
                ok,
                ..Second::default()
            };
            load.window_ns = 3_000_000_000;
            load.timeline = (0u64..).zip([1100, 1700, 2500]).map(second).collect();
        };
        let play = (0..8)
            .step_by(2)
            .fold(whole(), |play, attempt| change(play, attempt, climb));
        check(
            play,
            &expect![[r#"
            web: answers a second on arm 6.1, last third of the window against the first: +127.27 % (it had not settled: lengthen warmup)
            the clients run inside the guest, on the server's own CPUs (figures include the clients' work, and no network)"#]],
        );
    }

    #[test]
    fn failures_on_one_arm_are_counted_and_pointed_out() {
        check(
            whole()
                .void(5, "7.2")
                .void(5, "7.2")
                .measured(5, "6.1", 100.0),
            &expect![[r#"
                web: arm 7.2 FAILS: no figure in block 5, and 6.1 gave one in every block
                web: failed trials on arm 7.2: 2 of 6: kernel panic 2
                web: attempts fail more often on one arm: 6.1 0, 7.2 2 (what makes them fail may also bend the figures of those that do not)
                web: blocks without a figure of every arm: 1 of 5, number 5 (not compared where an arm is missing)
                the clients run inside the guest, on the server's own CPUs (figures include the clients' work, and no network)"#]],
        );
    }

    #[test]
    fn an_unfinished_run_says_what_it_lacks() {
        check(
            Play::new(),
            &expect![[r#"
            web: whole blocks so far: 0, the plan wants 4 at least (no verdict before that)
            the clients run inside the guest, on the server's own CPUs (figures include the clients' work, and no network)"#]],
        );
        check(
            Play::new().measured(1, "6.1", 100.0),
            &expect![[r#"
                web: whole blocks so far: 0, the plan wants 4 at least (no verdict before that)
                the clients run inside the guest, on the server's own CPUs (figures include the clients' work, and no network)"#]],
        );
    }

    #[test]
    fn faults_are_laid_at_the_right_door() {
        let play = change(whole(), 1, |trial| {
            let load = trial.load.as_mut().unwrap();
            load.unsent = 5;
            load.faults = [
                (Fault::Reset, 2),
                (Fault::BadStatus, 1),
                (Fault::ClientNoPort, 4),
            ]
            .into();
        });
        check(
            play,
            &expect![[r#"
                web: arm 7.2 FAILS: faults that 6.1 never has: reset, bad-status
                web: unsuccessful requests on arm 7.2: 3 (never counted as served)
                web: requests lost by the clients on arm 7.2: 4 (the clients were the limit, not the arm)
                web: requests due and never sent on arm 7.2: 5
                the clients run inside the guest, on the server's own CPUs (figures include the clients' work, and no network)"#]],
        );
    }

    #[test]
    fn another_limit_than_the_arm_is_named() {
        let play = (0..8).fold(whole(), |play, attempt| {
            change(play, attempt, |trial| {
                trial.usage.cpu_idle = 0.35;
                trial.usage.cpu_steal = 0.02;
                trial.usage.swap_used_bytes = 3 << 20;
                trial.usage.sampling = 0.011;
            })
        });
        check(
            play,
            &expect![[r#"
                web: CPU time idle on arm 6.1: 35 % (the load, not the arm, may have set the figures: add connections)
                web: CPU time taken by the hypervisor on arm 6.1: 2.0 % (the host was busy with something else)
                web: CPU time spent on sampling on arm 6.1: 1.1 % (the figures include it)
                web: CPU time idle on arm 7.2: 35 % (the load, not the arm, may have set the figures: add connections)
                web: CPU time taken by the hypervisor on arm 7.2: 2.0 % (the host was busy with something else)
                web: CPU time spent on sampling on arm 7.2: 1.1 % (the figures include it)
                web: swap in use on arm 6.1: 3.00 MiB (memory was short, so the disk is measured too)
                web: swap in use on arm 7.2: 3.00 MiB (memory was short, so the disk is measured too)
                the clients run inside the guest, on the server's own CPUs (figures include the clients' work, and no network)"#]],
        );
    }

    #[test]
    fn a_climb_is_neither_unsettled_nor_idle() {
        let climb = |axis: &str| {
            (0..8).fold(whole(), |play, attempt| {
                change(play, attempt, |trial| {
                    trial.usage.cpu_idle = 0.35;
                    trial.curves = vec![Curve {
                        name: "throughput".into(),
                        unit: "requests/s".into(),
                        direction: Direction::Higher,
                        axis: axis.into(),
                        points: Vec::new(),
                    }];
                })
            })
        };
        let clients = "the clients run inside the guest, on the server's own CPUs (figures include the clients' work, and no network)";
        let count = |axis| crate::judge(&climb(axis).run()).warnings.len();
        let warnings = crate::judge(&climb("connections").run()).warnings;
        assert_eq!(warnings, [clients]);
        assert_eq!(count("s"), 3, "a soak has one load all the time");
    }

    #[test]
    fn work_without_clients_is_not_told_to_add_some() {
        let play = (0..8).fold(whole(), |play, attempt| {
            change(play, attempt, |trial| {
                trial.usage.cpu_idle = 0.35;
                trial.load = None;
            })
        });
        check(
            play,
            &expect![
                "whatever drives the work runs inside the guest, on the same CPUs (figures include it, and no network)"
            ],
        );
    }

    #[test]
    fn an_a_a_plan_is_called_one() {
        check(
            whole().with(|run| run.plan.arms[1].kernel = run.plan.arms[0].kernel.clone()),
            &expect![[r#"
                arms 6.1 and 7.2 are the same system (an A/A plan: any difference between them is the rig's own)
                the clients run inside the guest, on the server's own CPUs (figures include the clients' work, and no network)"#]],
        );
    }

    #[test]
    fn a_kernel_that_did_not_run_is_missed() {
        let play = (0..8).fold(whole(), |play, attempt| {
            change(play, attempt, |trial| trial.kernel = "6.1-amd64".into())
        });
        check(
            play,
            &expect![[r#"
                web: the plan names different kernels and the same one ran: arms 6.1, 7.2
                the clients run inside the guest, on the server's own CPUs (figures include the clients' work, and no network)"#]],
        );
    }

    #[test]
    fn cpus_that_were_shared_or_missing_are_told() {
        let mut had = record::evidence::Facts::default();
        had.values.insert(differ::CPUS.into(), "0,1".into());
        let play = Play::new()
            .with(|run| {
                run.opening.host_cpus = Some(2);
                run.plan.design.min_blocks = 1;
                run.plan.arms[1].cpus = Some(4);
            })
            .measured(1, "6.1", 100.0)
            .observed(1, "7.2", had);
        check(
            play,
            &expect![[r#"
            4 virtual CPUs on 2 host CPUs: arm 7.2 (they take turns, so no speed-up beyond 2 can show)
            arm 7.2 ran on 2 CPUs, the plan says 4 (its figures are those of 2)
            the clients run inside the guest, on the server's own CPUs (figures include the clients' work, and no network)"#]],
        );
    }

    #[test]
    fn counted_instructions_are_explained() {
        check(
            whole().with(|run| run.opening.ns_per_instruction = Some(2)),
            &expect![[r#"
                time is counted in executed instructions (caches, memory and devices cost nothing)
                the clients run inside the guest, on the server's own CPUs (figures include the clients' work, and no network)"#]],
        );
    }

    #[test]
    fn a_run_from_before_the_accounting_is_told_first() {
        let old = whole().with(|run| {
            run.opening.ns_per_instruction = Some(2);
            run.opening.accounting = None;
        });
        check(
            old,
            &expect![[r#"
                an earlier bakeoff measured this and charged REP string instructions per byte (a page cleared or copied counted as 4096 instructions, where a CPU needs some 100 cycles: run it again)
                time is counted in executed instructions (caches, memory and devices cost nothing)
                the clients run inside the guest, on the server's own CPUs (figures include the clients' work, and no network)"#]],
        );
        // Without counted instructions there is nothing to charge.
        let wall = whole().with(|run| run.opening.accounting = None);
        check(
            wall,
            &expect![
                "the clients run inside the guest, on the server's own CPUs (figures include the clients' work, and no network)"
            ],
        );
    }

    #[test]
    fn a_clock_that_ran_on_while_the_disk_was_read_is_told() {
        let waiting = |play| {
            change(play, 1, |trial| {
                trial.usage.cpu_idle = 1.0;
                trial.usage.cpu_waiting = 1.0;
            })
        };
        check(
            waiting(whole()).with(|run| run.opening.ns_per_instruction = Some(2)),
            &expect![[r#"
                web: CPU time idle on arm 7.2: 25 % (the load, not the arm, may have set the figures: add connections)
                web: CPU time idle while the disk was read on arm 7.2: 25 % (the guest's clock runs on meanwhile, as far as chance has it: use clock = "wall", or read beforehand)
                time is counted in executed instructions (caches, memory and devices cost nothing)
                the clients run inside the guest, on the server's own CPUs (figures include the clients' work, and no network)"#]],
        );
        // Measured in time, the disk's is as real as any.
        check(
            waiting(whole()),
            &expect![[r#"
            web: CPU time idle on arm 7.2: 25 % (the load, not the arm, may have set the figures: add connections)
            the clients run inside the guest, on the server's own CPUs (figures include the clients' work, and no network)"#]],
        );
    }

    #[test]
    fn a_metric_without_ratios_is_not_hidden() {
        let play = change(whole(), 3, |trial| trial.figures[0].value = 0.0);
        check(
            play,
            &expect![
                "the clients run inside the guest, on the server's own CPUs (figures include the clients' work, and no network)"
            ],
        );
    }
}
