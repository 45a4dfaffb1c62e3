//! What a reader must know beside the figures, in words: each one lowercase fragment that names workload and arm, gives its
//! numbers, and says in parentheses what it means or what to do.

use std::collections::BTreeSet;
use std::fmt::Display;

use base::input::units::{show_bytes, show_change, significant};
use record::hardware_counters::NoCounters;
use record::verdict::fairness::Quantity;
use record::verdict::finding::{
    CpuTaken, Disturbance, DisturbedBlock, Finding, Kind, MissingFiles, Severity, StalledClients,
};
use record::verdict::reason::Reason;
use record::verdict::{Comparison, Judgement};

use crate::topics::fairness::tell as fairness;
use crate::topics::metrics::tell::reason;
use crate::words::{counted, figure};

/// Of many names so many are told.
const FEW: usize = 6;

/// What went wrong in a run: gates, then failures.
pub fn setbacks(judgement: &Judgement) -> Vec<String> {
    texts(judgement, |severity| severity < Severity::Warning)
}

/// All warnings of a run.
pub fn warnings(judgement: &Judgement) -> Vec<String> {
    texts(judgement, |severity| severity == Severity::Warning)
}

fn texts(judgement: &Judgement, is_wanted: fn(Severity) -> bool) -> Vec<String> {
    let findings = judgement.findings.iter();
    let wanted = findings.filter(|finding| is_wanted(finding.severity()));
    wanted.map(|finding| line(judgement, finding)).collect()
}

/// A finding after the workload that it is about.
pub(crate) fn line(judgement: &Judgement, finding: &Finding) -> String {
    let text = match finding.severity() {
        Severity::Gate => format!("arm {} FAILS: {}", finding.arm, text(judgement, finding)),
        _ => text(judgement, finding),
    };
    if finding.workload.is_empty() {
        return text;
    }
    format!("{}: {text}", finding.workload)
}

/// `block 2 3 times: ...`.
fn disturbed_block(disturbed: &DisturbedBlock) -> String {
    let times = match disturbed.disturbances.len() {
        1 => String::new(),
        times => format!(" {times} times"),
    };
    let what: Vec<String> = disturbed.disturbances.iter().map(disturbance).collect();
    format!("block {}{times}: {}", disturbed.block, what.join("; "))
}

/// What disturbed a block.
pub fn disturbance(disturbance: &Disturbance) -> String {
    match disturbance {
        Disturbance::Steal(taken) => cpu_taken("the hypervisor", *taken),
        Disturbance::OtherProcesses(taken) => cpu_taken("other processes", *taken),
        Disturbance::SlowHost {
            trial,
            took_ns,
            usual_ns,
        } => {
            let took_ns = *took_ns as f64;
            format!(
                "the host was {:.0} % slower than usual beside trial {trial:03}: a fixed piece of work took {:.2} ms \
                 instead of {:.2}",
                (took_ns / usual_ns - 1.0) * 100.0,
                took_ns / 1e6,
                usual_ns / 1e6
            )
        }
    }
}

fn cpu_taken(by: &str, taken: CpuTaken) -> String {
    format!(
        "{by} took {:.1} % of the CPU time of trial {:03}, {:.1} % is usual here",
        taken.share * 100.0,
        taken.trial,
        taken.usual * 100.0
    )
}

/// A finding without its workload; of a gate, why the arm fails.
#[expect(clippy::too_many_lines, reason = "one match, an arm for each kind")]
pub fn text(judgement: &Judgement, finding: &Finding) -> String {
    let arm = &finding.arm;
    match &finding.kind {
        Kind::MissingFigures { baseline, blocks } => format!(
            "no figure in block {}, and {baseline} gave one in every block",
            joined(blocks)
        ),
        Kind::NewFaults { baseline, faults } => {
            let names: Vec<&str> = faults.iter().map(|fault| fault.name()).collect();
            format!("faults that {baseline} never has: {}", names.join(", "))
        }
        Kind::FailedTrials {
            failed,
            attempts,
            reasons,
        } => {
            let reasons = reasons
                .iter()
                .map(|(reason, count)| (reason.words(), count));
            format!(
                "failed trials on arm {arm}: {failed} of {attempts}: {}",
                counts(reasons)
            )
        }
        Kind::UnevenFailures { failed } => format!(
            "attempts fail more often on one arm: {} (what makes them fail may also bend the figures of those that do not)",
            counts(failed)
        ),
        Kind::IncompleteBlocks { begun, blocks } => format!(
            "blocks without a figure of every arm: {} of {begun}, number {} (not compared where an arm is missing)",
            blocks.len(),
            joined(blocks)
        ),
        Kind::DisturbedBlocks { blocks } => {
            let texts: Vec<String> = blocks.iter().map(disturbed_block).collect();
            format!(
                "blocks that something outside disturbed, run again: {}: {} (their first figures do not count)",
                texts.len(),
                texts.join("; ")
            )
        }
        Kind::Beyond {
            quantity,
            value,
            limit,
        } => beyond(arm, *quantity, *value, *limit),
        Kind::FailedRequests { count } => {
            format!("failed requests on arm {arm}: {count} (never counted as served)")
        }
        Kind::UnchargedStrings => {
            "each iteration of a REP string instruction is counted as an instruction here (a page that is cleared by bytes counts \
             as 4096, where a CPU needs some 100 cycles: run it again)"
                .into()
        }
        Kind::MissingEvidence { files } => missing_evidence(files),
        Kind::Extended {
            blocks,
            planned_blocks,
            error_rate,
            planned_error_rate,
        } => format!(
            "the run was given more blocks after it had ended undecided: {blocks} where the plan has {planned_blocks} (a wrong \
             verdict has a probability of at most {} %, where the plan says {} %)",
            percent(*error_rate),
            percent(*planned_error_rate),
        ),
        Kind::FewBlocks {
            blocks,
            wanted,
        } => format!(
            "whole blocks so far: {blocks}, the plan wants {wanted} at least (no verdict before that)"
        ),
        Kind::StalledClients { arms } => {
            let arms: Vec<String> = arms.iter().map(stalled).collect();
            format!(
                "the clients themselves were held up {} (such latencies are not the arm's: measure again, and leave the \
                 clients' CPUs to them)",
                arms.join(" and ")
            )
        }
        Kind::LowCeiling { arms } => format!(
            "the null server served less than {}, so that no ceiling is known (start it on a host at least as fast as the \
             systems, then: bakeoff run PLAN --ceiling)",
            arms.join(", ")
        ),
        Kind::FallsBehind {
            growth_per_s,
            due_per_s,
        } => format!(
            "arm {arm} does not keep up with the rate: of {} requests a second {} more are under way with each \
             second (latencies are those of a queue and grow with the window: lower the rate)",
            figure(*due_per_s),
            figure(*growth_per_s)
        ),
        Kind::ChangedResponse {
            path,
            contents,
        } => format!(
            "{path} of arm {arm} was not the same in all trials: {contents} contents (within each trial it was; \
             figures of pages that change are not of the same work)"
        ),
        Kind::SameKernel { arms } => format!(
            "the plan names different kernels and the same one ran: arms {}",
            arms.join(", ")
        ),
        Kind::Outliers {
            metric,
            outliers,
        } => format!(
            "{metric} has outliers: {} of arm {arm}, {} of the baseline (p = {}; the verdict is about typical \
             trials)",
            outliers.arm,
            outliers.baseline,
            significant(outliers.p_value, 2)
        ),
        Kind::NotCompared {
            metric,
            lacking,
        } => {
            let comparison = judgement.comparison(&finding.workload, arm, metric);
            let mut why = comparison
                .map_or_else(String::new, |comparison| format!(": {}", reason(comparison)));
            let is_missing = |comparison: &Comparison| comparison.reason == Reason::MissingInSomeBlocks;
            if comparison.is_some_and(is_missing) && !lacking.is_empty() {
                why = format!("{why} of {}", lacking.join(" and of "));
            }
            format!("{metric} of arm {arm} is not compared{why}")
        }
        Kind::EqualArms { twin } => format!(
            "arms {arm} and {twin} are the same system (an A/A plan: any difference between them is the rig's own)"
        ),
        Kind::SharedCpus {
            cpus,
            host_cpus,
        } => format!(
            "{cpus} virtual CPUs on {host_cpus} host CPUs: arm {arm} (they take turns, so no speed-up beyond {host_cpus} \
             can show)"
        ),
        Kind::MissingCpus { cpus, planned } => format!(
            "arm {arm} ran on {cpus} CPUs, the plan says {planned} (its figures are those of {cpus})"
        ),
        Kind::NoHardwareCounters { arms, why } => no_counters(judgement, arms, why),
        Kind::FewHardwareEvents { arms } => format!(
            "the CPU does not count branch misses, or not misses of its last-level cache: {} (those figures are missing)",
            of_arms(judgement, arms)
        ),
        Kind::SharedHardwareCounters { running_share } => format!(
            "hardware counters were shared with other events, and counted {} % of a window at the least (the rest is estimated: \
             end whatever else counts, or switch kernel.nmi_watchdog off)",
            percent(*running_share)
        ),
        Kind::CountedInstructions => {
            "time is counted in executed instructions, of string instructions by their bytes (caches, memory and devices cost nothing)"
                .into()
        }
        Kind::WorkInGuest => {
            "whatever drives the work runs inside the guest, on the same CPUs (figures include it, and no network)".into()
        }
        Kind::ClientsInGuest => {
            "the clients run inside the guest, on the server's own CPUs (all figures but those of the server alone include the clients' work; no network is in any)"
                .into()
        }
        Kind::Autogroup { off, on } => format!(
            "autogroup is off in {} and on in {}, a default of their kernels, and divides the CPU between the server and its clients \
             beside it (pin kernel.sched_autogroup_enabled in [pinned.sysctl] to compare without it)",
            off.join(", "),
            on.join(", ")
        ),
        Kind::AutogroupWithoutEffect => {
            "kernel.sched_autogroup_enabled has no effect here: clients and servers in one guest are one group for the scheduler \
             (write clients_apart = \"session\" in [machine] to let sessions part them)"
                .into()
        }
        Kind::NoHystart => {
            "TCP CUBIC runs without HyStart, because round trips to clients beside the server include the wait for its CPU \
             (write cmdline = \"tcp_cubic.hystart=1\" in [pinned] to keep it)"
                .into()
        }
        Kind::ClientsOnHost => {
            "the clients run on the guests' host, outside them (figures include a virtual network card and the host's network \
             stack, and no wire)"
                .into()
        }
        Kind::ClientsInOwnGuest => {
            "the clients run in a guest of their own, with one kernel for all arms (figures include two virtual network cards and \
             the emulators between them, and no wire)"
                .into()
        }
        Kind::WorkOnBox => {
            "whatever drives the work runs on the box itself, on the server's own CPUs (figures include it, and no network)"
                .into()
        }
        Kind::ClientsOffBox => {
            "the clients are on other systems than the box (figures include the network between them, and the clients' own kernel, \
             which is the same for all arms)"
                .into()
        }
        Kind::LiveHost => {
            "all arms ran on this live host, clients and other work included (figures include the clients' work and \
             whatever else the host was doing, and no network)"
                .into()
        }
        Kind::OnNetwork {
            silent,
            silent_in_part,
        } => {
            let whole = match silent.as_slice() {
                [] => String::new(),
                arms => format!(", and nothing at all of {}", arms.join(", ")),
            };
            let part = match silent_in_part.as_slice() {
                [] => String::new(),
                arms => format!(
                    ", and of {} only what was told in trials at the address that has an exporter or an SNMP agent",
                    arms.join(", ")
                ),
            };
            format!(
                "arms are systems on the network, as they are (kernel, settings and other work of theirs are known only as far as they \
                 tell{whole}{part}; the verdict is about these two systems on this network)"
            )
        }
    }
}

/// A number beyond its limit, and what that means.
fn beyond(arm: &str, quantity: Quantity, value: f64, limit: f64) -> String {
    let cpu = |state: &str, meaning: &str| {
        format!(
            "CPU time {state} on arm {arm}: {} % ({meaning})",
            percent(value)
        )
    };
    match quantity {
        Quantity::LostByClients => format!(
            "requests lost by the clients on arm {arm}: {value} (the clients were the limit, not the arm)"
        ),
        Quantity::UnsentRequests => {
            format!("requests due and never sent on arm {arm}: {value}")
        }
        Quantity::IdleCpu => cpu(
            "idle",
            "the load, not the arm, may have set the figures: add connections",
        ),
        Quantity::DiskWait => cpu(
            "idle while the disk was read",
            "the guest's clock runs on meanwhile, as far as chance has it: use clock = \"wall\", or read beforehand",
        ),
        Quantity::Steal => cpu(
            "taken by the hypervisor",
            "the host was busy with something else",
        ),
        Quantity::Sampling => cpu("spent on sampling", "the figures include it"),
        Quantity::ClientsIdleCpu => format!(
            "the clients' host was {} % idle on arm {arm} (below {} % the clients may have been the limit, not the arm: ask for less, \
             or take a larger host)",
            percent(value),
            percent(limit)
        ),
        Quantity::Drift => format!(
            "answers a second on arm {arm}, last third of the window against the first: {} (it had not settled: lengthen warmup)",
            show_change(value)
        ),
        Quantity::Swap => format!(
            "swap in use on arm {arm}: {} (memory was short, so the disk is measured too)",
            show_bytes(value as u64)
        ),
        _ => format!("arm {arm}: {}", fairness::beyond(quantity, value, limit)),
    }
}

/// Why path length and cycles are not known.
fn no_counters(judgement: &Judgement, arms: &[String], why: &NoCounters) -> String {
    let why = match why {
        NoCounters::NoUnit => {
            "the system shows no performance monitoring unit; a guest has one where its hypervisor gives it one".into()
        }
        NoCounters::Refused { paranoid } => {
            let level = paranoid.map_or_else(|| "not known".into(), |level| level.to_string());
            format!("perf_event_open is refused: run as root, or set kernel.perf_event_paranoid, which is {level}, to -1")
        }
        NoCounters::NoPerfEvents => "the kernel needs CONFIG_PERF_EVENTS".into(),
        NoCounters::NoCgroupEvents => "the kernel needs CONFIG_CGROUP_PERF".into(),
        NoCounters::Shared => {
            "other events had the counters for most of the window: end whatever else counts, or switch kernel.nmi_watchdog off".into()
        }
        NoCounters::Failed { error } => error.clone(),
    };
    let compared = if arms.len() < arms_of(judgement).len() {
        ", and are not compared"
    } else {
        ""
    };
    let arms = of_arms(judgement, arms);
    format!("instructions and cycles of the CPU were not counted{compared}: {arms} ({why})")
}

/// `all arms`, or those that are named.
fn of_arms(judgement: &Judgement, named: &[String]) -> String {
    if named.len() == arms_of(judgement).len() {
        return "all arms".into();
    }
    format!("arm {}", named.join(", "))
}

fn arms_of(judgement: &Judgement) -> BTreeSet<&str> {
    let summaries = judgement.arm_summaries.iter();
    summaries.map(|summary| summary.arm.as_str()).collect()
}

fn missing_evidence(files: &[MissingFiles]) -> String {
    let sentence = |missing: &MissingFiles| {
        let trials = match missing.attempts.len() {
            1 => "trial",
            _ => "trials",
        };
        let (file, names, damage) = (
            missing.file.name(),
            first_few(&missing.attempts),
            missing.damage.word(),
        );
        format!("{file} of {trials} {names} is {damage}")
    };
    let sentences: Vec<String> = files.iter().map(sentence).collect();
    format!(
        "evidence is missing: {} (figures and verdict stand on trial.json, which is whole; what only these files \
         say, such as differences between the arms, is not checked for those trials)",
        sentences.join("; ")
    )
}

/// Of many names only the first, and how many more there are.
fn first_few(names: &[String]) -> String {
    match names.len().saturating_sub(FEW) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..FEW].join(", ")),
    }
}

/// `in 2 of 6 trials of 7.2, for 1020 ms at most, which shows from p50 on (requests: 512)`.
fn stalled(clients: &StalledClients) -> String {
    let StalledClients {
        arm,
        stalled,
        trials,
        quantile,
        longest_ns,
        requests,
    } = clients;
    let shown = match percent(*quantile).as_str() {
        "100" => "in the longest latency".into(),
        percent => format!("from p{percent} on"),
    };
    format!(
        "in {stalled} of {} of {arm}, for {} ms at most, which shows {shown} (requests: {requests})",
        counted(*trials, "trial"),
        significant(*longest_ns as f64 / 1e6, 3)
    )
}

/// A fraction as a number of percent.
fn percent(share: f64) -> String {
    significant(share * 100.0, 2)
}

fn joined(numbers: &[u32]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    numbers.join(", ")
}

/// `kernel panic 2, silent guest 1`.
fn counts<K: Display, V: Display>(items: impl IntoIterator<Item = (K, V)>) -> String {
    let items = items
        .into_iter()
        .map(|(what, count)| format!("{what} {count}"));
    items.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use record::fixtures::builder::RunBuilder;
    use record::hardware_counters::HardwareCounters;
    use record::load::Fault;
    use record::metric::{Direction, Figure, Role};
    use record::rundir::Run;
    use record::trial::{Measurement, Outcome};

    use super::*;

    /// All that is told of a run beside its figures.
    fn check(run: RunBuilder, want: &Expect) {
        let judgement = crate::judge(&run.run());
        let lines = [setbacks(&judgement), warnings(&judgement)].concat();
        want.assert_eq(&lines.join("\n"));
    }

    fn whole() -> RunBuilder {
        RunBuilder::new().blocks(&[[100.0, 101.0]; 4])
    }

    fn each(run: &mut Run, change: impl Fn(&mut Measurement)) {
        for record in &mut run.attempts {
            if let Outcome::Measured(measurement) = &mut record.outcome {
                change(measurement);
            }
        }
    }

    #[test]
    fn the_arm_that_lacks_a_figure_is_named() {
        for (without, want) in [("6.1", "6.1"), ("7.2", "7.2")] {
            let run = whole().with(|run| {
                for record in &mut run.attempts {
                    let has_it = record.trial.arm != without || record.trial.block != 2;
                    if let Outcome::Measured(measurement) = &mut record.outcome
                        && has_it
                    {
                        let (lower, secondary) = (Direction::Lower, Role::Secondary);
                        let figure = Figure::new("system-cpu", "us/request", lower, secondary, 5.0);
                        measurement.figures.push(figure);
                    }
                }
            });
            let lines = warnings(&crate::judge(&run.run()));
            let want = format!(
                "web: system-cpu of arm 7.2 is not compared: not measured in every block of {want}"
            );
            assert!(lines.contains(&want), "{lines:?}");
        }
    }

    #[test]
    fn why_instructions_were_not_counted_is_told_once_with_a_remedy() {
        let warning = |arms: &[&str], why: NoCounters| {
            let run = whole().with(|run| {
                for record in &mut run.attempts {
                    if let Outcome::Measured(trial) = &mut record.outcome
                        && arms.contains(&record.trial.arm.as_str())
                    {
                        trial.hardware_counters = Some(HardwareCounters::Missing(why.clone()));
                    }
                }
            });
            let lines = warnings(&crate::judge(&run.run()));
            let [counters, _] = lines.as_slice() else {
                panic!("the reason, and where the clients are: {lines:?}")
            };
            counters.clone()
        };
        expect!["instructions and cycles of the CPU were not counted: all arms (the system shows no performance monitoring unit; a guest has one where its hypervisor gives it one)"]
            .assert_eq(&warning(&["6.1", "7.2"], NoCounters::NoUnit));
        expect!["instructions and cycles of the CPU were not counted, and are not compared: arm 7.2 (perf_event_open is refused: run as root, or set kernel.perf_event_paranoid, which is 3, to -1)"]
            .assert_eq(&warning(&["7.2"], NoCounters::Refused { paranoid: Some(3) }));
        expect!["instructions and cycles of the CPU were not counted, and are not compared: arm 7.2 (the kernel needs CONFIG_CGROUP_PERF)"]
            .assert_eq(&warning(&["7.2"], NoCounters::NoCgroupEvents));
    }

    #[test]
    fn failed_gates_stand_first() {
        let failed = whole()
            .void(5, "7.2")
            .void(5, "7.2")
            .measured(5, "6.1", 100.0);
        check(
            failed,
            &expect![[r#"
                web: arm 7.2 FAILS: no figure in block 5, and 6.1 gave one in every block
                web: failed trials on arm 7.2: 2 of 6: kernel panic 2
                web: attempts fail more often on one arm: 6.1 0, 7.2 2 (what makes them fail may also bend the figures of those that do not)
                web: blocks without a figure of every arm: 1 of 5, number 5 (not compared where an arm is missing)
                the clients run inside the guest, on the server's own CPUs (all figures but those of the server alone include the clients' work; no network is in any)"#]],
        );
    }

    #[test]
    fn requests_are_told_by_whose_fault_they_were() {
        let faults = whole().with(|run| {
            each(run, |trial| {
                let load = trial.load.as_mut().expect("every trial has a load");
                load.unsent = 5;
                load.faults = [(Fault::Reset, 2), (Fault::ClientNoPort, 4)].into();
            });
        });
        check(
            faults,
            &expect![[r#"
                web: failed requests on arm 6.1: 8 (never counted as served)
                web: requests lost by the clients on arm 6.1: 16 (the clients were the limit, not the arm)
                web: requests due and never sent on arm 6.1: 20
                web: failed requests on arm 7.2: 8 (never counted as served)
                web: requests lost by the clients on arm 7.2: 16 (the clients were the limit, not the arm)
                web: requests due and never sent on arm 7.2: 20
                the clients run inside the guest, on the server's own CPUs (all figures but those of the server alone include the clients' work; no network is in any)"#]],
        );
    }

    #[test]
    fn what_else_set_the_figures_is_told_with_a_remedy() {
        let limited = whole().with(|run| {
            run.opening.ns_per_instruction = Some(2);
            run.plan.arms[1].kernel = run.plan.arms[0].kernel.clone();
            each(run, |trial| {
                trial.usage.cpu_idle = 0.35;
                trial.usage.cpu_waiting = 0.02;
                trial.usage.cpu_steal = 0.02;
                trial.usage.sampling = 0.011;
                trial.usage.swap_used_bytes = 3 << 20;
            });
        });
        check(
            limited,
            &expect![[r#"
                each iteration of a REP string instruction is counted as an instruction here (a page that is cleared by bytes counts as 4096, where a CPU needs some 100 cycles: run it again)
                web: CPU time idle on arm 6.1: 35 % (the load, not the arm, may have set the figures: add connections)
                web: CPU time idle while the disk was read on arm 6.1: 2.0 % (the guest's clock runs on meanwhile, as far as chance has it: use clock = "wall", or read beforehand)
                web: CPU time taken by the hypervisor on arm 6.1: 2.0 % (the host was busy with something else)
                web: CPU time spent on sampling on arm 6.1: 1.1 % (the figures include it)
                web: CPU time idle on arm 7.2: 35 % (the load, not the arm, may have set the figures: add connections)
                web: CPU time idle while the disk was read on arm 7.2: 2.0 % (the guest's clock runs on meanwhile, as far as chance has it: use clock = "wall", or read beforehand)
                web: CPU time taken by the hypervisor on arm 7.2: 2.0 % (the host was busy with something else)
                web: CPU time spent on sampling on arm 7.2: 1.1 % (the figures include it)
                web: swap in use on arm 6.1: 3.00 MiB (memory was short, so the disk is measured too)
                web: swap in use on arm 7.2: 3.00 MiB (memory was short, so the disk is measured too)
                arms 6.1 and 7.2 are the same system (an A/A plan: any difference between them is the rig's own)
                time is counted in executed instructions, of string instructions by their bytes (caches, memory and devices cost nothing)
                the clients run inside the guest, on the server's own CPUs (all figures but those of the server alone include the clients' work; no network is in any)"#]],
        );
    }

    #[test]
    fn the_machine_is_told() {
        let mut facts = record::evidence::Facts::default();
        facts.values.insert("cpus".into(), "0,1".into());
        let shared = RunBuilder::new()
            .with(|run| {
                run.opening.host_cpus = Some(2);
                run.plan.arms[1].cpus = Some(4);
                run.plan.design.more_blocks = 30;
                run.plan.machine.kind = plan::MachineKind::Qemu;
            })
            .measured(1, "6.1", 100.0)
            .observed(1, "7.2", facts)
            .with(|run| each(run, |trial| trial.kernel = "6.1-amd64".into()));
        check(
            shared,
            &expect![[r#"
                the run was given more blocks after it had ended undecided: 60 where the plan has 30 (a wrong verdict has a probability of at most 7.5 %, where the plan says 5.0 %)
                web: whole blocks so far: 1, the plan wants 4 at least (no verdict before that)
                web: the plan names different kernels and the same one ran: arms 6.1, 7.2
                4 virtual CPUs on 2 host CPUs: arm 7.2 (they take turns, so no speed-up beyond 2 can show)
                arm 7.2 ran on 2 CPUs, the plan says 4 (its figures are those of 2)
                the clients run inside the guest, on the server's own CPUs (all figures but those of the server alone include the clients' work; no network is in any)"#]],
        );
        let live = whole().with(|run| run.plan.machine.kind = plan::MachineKind::Local);
        check(
            live,
            &expect![
                "all arms ran on this live host, clients and other work included (figures include the clients' work and whatever else the host was doing, and no network)"
            ],
        );
    }

    #[test]
    fn a_disturbance_is_told_with_what_is_usual() {
        let taken = CpuTaken {
            trial: 6,
            share: 0.3,
            usual: 0.005,
        };
        expect!["the hypervisor took 30.0 % of the CPU time of trial 006, 0.5 % is usual here"]
            .assert_eq(&disturbance(&Disturbance::Steal(taken)));
        expect!["other processes took 30.0 % of the CPU time of trial 006, 0.5 % is usual here"]
            .assert_eq(&disturbance(&Disturbance::OtherProcesses(taken)));
        let slow = Disturbance::SlowHost {
            trial: 5,
            took_ns: 9_100_000,
            usual_ns: 7e6,
        };
        expect!["the host was 30 % slower than usual beside trial 005: a fixed piece of work took 9.10 ms instead of 7.00"].assert_eq(&disturbance(&slow));
    }

    #[test]
    fn of_many_names_the_first_are_told() {
        let names: Vec<String> = (1..=8).map(|number| format!("{number:03}")).collect();
        assert_eq!(first_few(&names[..2]), "001, 002");
        assert_eq!(first_few(&names), "001, 002, 003, 004, 005, 006 and 2 more");
    }
}
