//! What a reader must know before the figures, gravest first. `report` puts it into words.

use std::collections::{BTreeMap, BTreeSet};

use plan::kernel::KernelRef;
use plan::{Arm, Clients, MachineKind};
use record::disturbances::{DisturbanceRecord, PlannedSpan, overlap_ms};
use record::evidence::{Damage, EvidenceFile, Usage};
use record::fact;
use record::hardware_counters::{HardwareCounters, WHOLE_RUNNING, metrics};
use record::journal::Event;
use record::load::{LoadResult, Second};
use record::load_path::{LoadPace, LoadPath};
use record::metric::{Direction, Role, latency_quantile};
use record::rundir::Run;
use record::trial::{Measurement, VoidReason};
use record::verdict::limit::CeilingUse;
use record::verdict::warning::{
    CpuState, Disturbance, DisturbedBlock, MissingFiles, RequestCount, Setback, StalledClients,
    Warning,
};
use record::verdict::weighed::{Setting, Weighed};
use record::verdict::{Comparison, Verdict};

use crate::topics::differences::find as config_diff;
use crate::topics::differences::find::AUTOGROUP;
use crate::topics::limits::find as limits;
use crate::topics::metrics::arm_summary::{faults, total, voids};
use crate::topics::metrics::pair::Measured;
use crate::topics::scaling::find as cpu_scaling;
use stats::average::mean;
use stats::looks;

/// Share of CPU time that may be idle before the server counts as not stressed.
const IDLE: f64 = 0.1;

/// Share of CPU time that must be idle on the clients' host.
const CLIENTS_IDLE: f64 = 0.2;

/// Share of CPU time that others (the hypervisor, the sampler) may take without a warning.
const TAX: f64 = 0.01;

/// Share of the requests that are due by which more may be under way at the end than at the beginning.
const BEHIND: f64 = 0.01;

/// By how many standard deviations of a Poisson process it must be more than chance.
const CHANCE_SIGMA: f64 = 3.0;

/// Change of the rate from the first to the last third of the window that counts as unsettled.
const DRIFT: f64 = 0.1;

/// What went wrong in a run.
pub(crate) fn setbacks(run: &Run, measured: &Measured<'_>) -> Vec<Setback> {
    let mut setbacks = Vec::new();
    for workload in workloads(run) {
        setbacks.extend(failed_attempts(run, workload));
        setbacks.extend(incomplete_blocks(run, measured, workload));
        setbacks.extend(disturbed_blocks(run, workload));
    }
    setbacks
}

/// Everything else that is to be said of a run before its figures.
pub(crate) fn of(
    run: &Run,
    measured: &Measured<'_>,
    comparisons: &[Comparison],
    weighed: &Weighed,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    warnings.extend(uncharged_strings(run));
    warnings.extend(missing_evidence(run));
    warnings.extend(extended(run));
    for workload in workloads(run) {
        warnings.extend(few_blocks(run, measured, workload));
        warnings.extend(unserved(run, measured, workload));
        warnings.extend(stalled_clients(run, measured, workload));
        warnings.extend(unsettled(run, measured, workload));
        warnings.extend(falls_behind(run, measured, workload));
        warnings.extend(changed_responses(run, workload));
        warnings.extend(unused_cpu(run, measured, workload));
        warnings.extend(swapped(run, measured, workload));
        warnings.extend(same_kernel(run, measured, workload));
        warnings.extend(low_ceiling(run, measured, workload));
    }
    warnings.extend(outliers(run, comparisons));
    let of_counters = hardware_counters(run);
    let not_compared = not_compared(run, measured, comparisons, !of_counters.is_empty());
    warnings.extend(not_compared);
    warnings.extend(equal_arms(run));
    warnings.extend(shared_cpus(run));
    warnings.extend(missing_cpus(run));
    warnings.extend(of_counters);
    warnings.extend(nature(run, weighed));
    warnings
}

/// Files beside the records of trials that are lost or damaged, all in one warning.
fn missing_evidence(run: &Run) -> Option<Warning> {
    let mut attempts = BTreeMap::<(EvidenceFile, Damage), Vec<String>>::new();
    for one in &run.missing {
        let names = attempts.entry((one.file, one.damage)).or_default();
        names.push(one.attempt_name());
    }
    let mut files = Vec::new();
    for ((file, damage), mut attempts) in attempts {
        attempts.sort_unstable();
        files.push(MissingFiles {
            file,
            damage,
            attempts,
        });
    }
    (!files.is_empty()).then_some(Warning::MissingEvidence { files })
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

/// The warnings about arms, each made of the measured trials of one.
fn of_arms(
    run: &Run,
    measured: &Measured<'_>,
    workload: &str,
    warning: impl Fn(&Arm, Vec<&Measurement>) -> Option<Warning>,
) -> Vec<Warning> {
    let each = arms(run).map(|arm| warning(arm, measured.of_arm(workload, &arm.name)));
    each.flatten().collect()
}

/// Failed trials, and whether they fall on one arm.
fn failed_attempts(run: &Run, workload: &str) -> Vec<Setback> {
    let mut setbacks = Vec::new();
    let mut failed_by_arm = BTreeMap::new();
    for arm in arms(run) {
        let reasons = voids(run, workload, &arm.name);
        let failed: u32 = reasons.values().sum();
        // A setting that a kernel has not is no matter of chance.
        let refused = reasons.get(&VoidReason::SettingRefused).copied();
        failed_by_arm.insert(arm.name.clone(), failed - refused.unwrap_or(0));
        if failed > 0 {
            let tried = run
                .attempts
                .iter()
                .filter(|record| record.trial.workload == workload && record.trial.arm == arm.name);
            setbacks.push(Setback::FailedTrials {
                workload: workload.into(),
                arm: arm.name.clone(),
                failed,
                attempts: tried.count() as u32,
                reasons,
            });
        }
    }
    let most = failed_by_arm.values().max().copied().unwrap_or(0);
    let least = failed_by_arm.values().min().copied().unwrap_or(0);
    if is_uneven(most, least) {
        setbacks.push(Setback::UnevenFailures {
            workload: workload.into(),
            failed: failed_by_arm,
        });
    }
    setbacks
}

/// Blocks left out. One of which an arm was not tried yet is under way, and nothing went wrong in it.
fn incomplete_blocks(run: &Run, measured: &Measured<'_>, workload: &str) -> Option<Setback> {
    let (begun, _) = measured.begun_and_incomplete(run, workload);
    let blocks: BTreeSet<u32> = arms(run)
        .flat_map(|arm| measured.missing(workload, &arm.name))
        .collect();
    (!blocks.is_empty()).then(|| Setback::IncompleteBlocks {
        workload: workload.into(),
        begun: begun as u32,
        blocks: blocks.into_iter().collect(),
    })
}

/// What it cost that the run was given more blocks.
fn extended(run: &Run) -> Option<Warning> {
    let design = &run.plan.design;
    (design.more_blocks > 0).then(|| Warning::Extended {
        blocks: design.most_blocks(),
        planned_blocks: design.max_blocks,
        error_rate: looks::error_rate(design),
        planned_error_rate: design.error_rate,
    })
}

/// Fewer whole blocks than the plan wants at least.
fn few_blocks(run: &Run, measured: &Measured<'_>, workload: &str) -> Option<Warning> {
    let (begun, incomplete) = measured.begun_and_incomplete(run, workload);
    let (blocks, wanted) = (
        (begun - incomplete.len()) as u32,
        run.plan.design.min_blocks,
    );
    (blocks < wanted).then(|| Warning::FewBlocks {
        workload: workload.into(),
        blocks,
        wanted,
    })
}

/// Blocks that were run again because something outside disturbed them.
fn disturbed_blocks(run: &Run, workload: &str) -> Option<Setback> {
    let mut blocks = BTreeMap::<u32, Vec<Disturbance>>::new();
    for entry in &run.entries {
        match &entry.event {
            Event::Invalidated {
                workload: of,
                block,
                disturbance,
                ..
            } if of == workload => blocks.entry(*block).or_default().push(disturbance.clone()),
            Event::Invalidated { .. }
            | Event::Opened(_)
            | Event::Resumed { .. }
            | Event::Ceiling { .. }
            | Event::OneFewer { .. }
            | Event::Merged { .. }
            | Event::Started { .. }
            | Event::Ended { .. }
            | Event::Looked { .. }
            | Event::Profiling { .. }
            | Event::Profiled { .. }
            | Event::Closed { .. }
            | Event::Extended { .. } => {}
        }
    }
    let blocks: Vec<DisturbedBlock> = blocks
        .into_iter()
        .map(|(block, disturbances)| DisturbedBlock {
            block,
            disturbances,
        })
        .collect();
    (!blocks.is_empty()).then(|| Setback::DisturbedBlocks {
        workload: workload.into(),
        blocks,
    })
}

/// Requests that ended in a fault or were never sent, by whose fault it was.
fn unserved(run: &Run, measured: &Measured<'_>, workload: &str) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for arm in arms(run) {
        let trials = measured.of_arm(workload, &arm.name);
        // What fails while the plan disturbs is no surprise.
        let by_server = total(trials.iter().map(|trial| trial.unplanned_failures()));
        let faults = faults(&trials).into_iter();
        let by_clients = faults.filter(|(fault, _)| fault.is_clients_own());
        let by_clients = total(by_clients.map(|(_, count)| count));
        let unsent = trials
            .iter()
            .filter_map(|trial| Some(trial.load.as_ref()?.unsent));
        let requests = |count| RequestCount {
            workload: workload.into(),
            arm: arm.name.clone(),
            count,
        };
        let unsent = total(unsent);
        if by_server > 0 {
            warnings.push(Warning::FailedRequests(requests(by_server)));
        }
        if by_clients > 0 {
            warnings.push(Warning::LostByClients(requests(by_clients)));
        }
        if unsent > 0 {
            warnings.push(Warning::UnsentRequests(requests(unsent)));
        }
    }
    warnings
}

/// Times at which clients were held up themselves, where they show in a metric or fall on one arm.
fn stalled_clients(run: &Run, measured: &Measured<'_>, workload: &str) -> Option<Warning> {
    let mut stalled = Vec::new();
    for arm in arms(run) {
        let trials = measured.of_arm(workload, &arm.name);
        let mut clients = StalledClients {
            arm: arm.name.clone(),
            stalled: 0,
            trials: trials.len() as u32,
            quantile: 1.0,
            longest_ns: 0,
            requests: 0,
        };
        for trial in trials {
            if let Some((load, quantile)) = stalled_trial(trial) {
                let incidents = load.incidents;
                clients.stalled += 1;
                clients.quantile = clients.quantile.min(quantile);
                clients.longest_ns = clients.longest_ns.max(incidents.longest_stall_ns);
                clients.requests = clients.requests.saturating_add(incidents.stalled_requests);
            }
        }
        stalled.push(clients);
    }
    let counts = || stalled.iter().map(|one| one.stalled);
    let (most, least) = (counts().max()?, counts().min()?);
    let shows = stalled.iter().any(|one| one.quantile < 1.0);
    stalled.retain(|one| one.stalled > 0);
    (shows || is_uneven(most, least)).then(|| Warning::StalledClients {
        workload: workload.into(),
        arms: stalled,
    })
}

/// The load of a trial in which stalls of the clients show, and the lowest quantile among its metrics in which they do; 1 for the
/// longest latency alone.
fn stalled_trial(trial: &Measurement) -> Option<(&LoadResult, f64)> {
    // On the server's CPUs a closed loop that waits for one waits for the server.
    let waits_for_server = |path: &LoadPath| path.is_shared && path.pace == LoadPace::Closed;
    if trial.path.as_ref().is_some_and(waits_for_server) {
        return None;
    }
    let load = trial.load.as_ref()?;
    let metrics = trial.figures.iter();
    let quantiles = metrics.filter_map(|one| latency_quantile(&one.spec.name));
    let quantile = load.stalled_quantile(quantiles.chain([1.0]))?;
    Some((load, quantile))
}

/// Whether something befell one arm so much more often than another that chance is a poor reason.
fn is_uneven(most: u32, least: u32) -> bool {
    most >= 2 && most >= 3 * least
}

/// Signs that something other than the arm set the figures.
fn unused_cpu(run: &Run, measured: &Measured<'_>, workload: &str) -> Vec<Warning> {
    let mut warnings = Vec::new();
    // The time of a disk is the work's own where it is measured in time.
    let is_counted = run.opening.ns_per_instruction.is_some();
    // So it is where the disk takes the guest's time.
    let is_host_disk =
        run.plan.machine.seek_disk.is_none() && !has_devices_in_memory(run, workload);
    let is_remote = run.plan.machine.kind == MachineKind::Url;
    for arm in arms(run) {
        let trials = measured.of_arm(workload, &arm.name);
        let share = |of: fn(&Measurement) -> f64| mean(&trials, |trial| of(trial));
        // What set the figures is said of the arm, where clients and network were looked at.
        let is_told = trials.iter().any(|trial| trial.path.is_some());
        let mut states = Vec::new();
        // Who waits for a drive with seeks waits for what the server was given, and more clients would only wait longer.
        let idle = if is_host_disk {
            share(|trial| trial.usage.cpu_idle)
        } else {
            share(|trial| trial.usage.cpu_idle - trial.usage.cpu_waiting)
        };
        if is_remote {
            // It is the clients' host that was sampled.
            let is_sampled = trials.iter().any(|trial| trial.usage != Usage::default());
            if is_sampled && idle < CLIENTS_IDLE && !is_told {
                warnings.push(Warning::BusyClients {
                    workload: workload.into(),
                    arm: arm.name.clone(),
                    idle,
                });
            }
        } else if !is_told && trials.iter().all(|trial| is_saturating(trial)) {
            states.push((CpuState::Idle, IDLE, idle));
        }
        if is_counted && is_host_disk {
            let waiting = share(|trial| trial.usage.cpu_waiting);
            states.push((CpuState::WaitingForDisk, TAX, waiting));
        }
        states.push((CpuState::Stolen, TAX, share(|trial| trial.usage.cpu_steal)));
        states.push((CpuState::Sampling, TAX, share(|trial| trial.usage.sampling)));
        for (state, bound, share) in states {
            if share > bound {
                warnings.push(Warning::UnusedCpu {
                    workload: workload.into(),
                    arm: arm.name.clone(),
                    state,
                    share,
                });
            }
        }
    }
    warnings
}

/// Whether a workload makes block devices of its own in the guest's memory. No host is waited for there: what waits is the work.
fn has_devices_in_memory(run: &Run, workload: &str) -> bool {
    let mut workloads = run.plan.workloads.iter();
    let own = workloads.find(|one| one.id == workload);
    own.is_some_and(|own| own.traits.makes_devices)
}

/// Whether the clients of a trial were meant to leave no CPU idle. Without clients to add, idle time is part of the work: tasks
/// that sleep, files that are waited for. So it is on the lower steps of a ramp. And where clients fix the rate, it is what an
/// arm that is fast enough has.
fn is_saturating(trial: &Measurement) -> bool {
    let mut figures = trial.figures.iter();
    let primary = figures.find(|one| one.spec.role == Role::Primary);
    let is_pushed = primary.is_none_or(|one| one.spec.direction == Direction::Higher);
    trial.load.is_some() && is_pushed && !is_ramp(trial)
}

/// Arms whose rate had not settled: a figure from a slope says how long the window was, no more.
fn unsettled(run: &Run, measured: &Measured<'_>, workload: &str) -> Vec<Warning> {
    of_arms(run, measured, workload, |arm, mut trials| {
        // A ramp is meant to change.
        trials.retain(|trial| !is_ramp(trial));
        let thirds = trials.iter().filter_map(|trial| served_in_thirds(trial));
        let zero = (0.0, 0.0);
        let [first, last] = thirds.fold([zero; 2], |sum, one| {
            [0, 1].map(|third| (sum[third].0 + one[third].0, sum[third].1 + one[third].1))
        });
        let [first_per_s, last_per_s] = [first, last].map(|(served, seconds)| served / seconds);
        // Few requests scatter by themselves.
        let error = (first.0 / first.1.powi(2) + last.0 / last.1.powi(2)).sqrt();
        let is_chance = (last_per_s - first_per_s).abs() <= CHANCE_SIGMA * error;
        let ratio = last_per_s / first_per_s;
        let is_even = (1.0 - DRIFT..=1.0 + DRIFT).contains(&ratio);
        (ratio.is_finite() && !is_chance && !is_even).then(|| Warning::Unsettled {
            workload: workload.into(),
            arm: arm.name.clone(),
            ratio,
        })
    })
}

/// Arms that do not keep up with the rate that clients fix. Of a ramp the curve of the backlog's growth tells it.
fn falls_behind(run: &Run, measured: &Measured<'_>, workload: &str) -> Vec<Warning> {
    of_arms(run, measured, workload, |arm, mut trials| {
        trials.retain(|trial| !is_ramp(trial));
        let loads = trials.iter().filter_map(|trial| trial.load.as_ref());
        let loads: Vec<_> = loads.collect();
        let sum = |of: fn(&LoadResult) -> f64| loads.iter().map(|load| of(load)).sum::<f64>();
        let growth = sum(|load| load.backlog_close as f64 - load.backlog_open as f64);
        let planned = sum(|load| load.planned as f64);
        let is_behind = growth > f64::max(BEHIND * planned, CHANCE_SIGMA * planned.sqrt());
        is_behind.then(|| Warning::FallsBehind {
            workload: workload.into(),
            arm: arm.name.clone(),
            growth_per_s: growth / sum(LoadResult::seconds),
            due_per_s: planned / sum(LoadResult::seconds),
        })
    })
}

/// Pages of systems on the network that changed from trial to trial.
fn changed_responses(run: &Run, workload: &str) -> Vec<Warning> {
    let mut contents = BTreeMap::<(&str, &str), BTreeSet<&str>>::new();
    for (record, facts) in run.attempts.iter().zip(&run.facts) {
        let is_measured = record.outcome.measured().is_some();
        let facts = facts.as_ref();
        let facts = facts.filter(|_| is_measured && record.trial.workload == workload);
        for (fact, value) in facts.into_iter().flat_map(|facts| &facts.values) {
            if let Some(path) = fact.strip_prefix("remote:response ") {
                contents
                    .entry((&record.trial.arm, path))
                    .or_default()
                    .insert(value);
            }
        }
    }
    let several = contents
        .into_iter()
        .filter(|(_, contents)| contents.len() > 1);
    let warning =
        |((arm, path), contents): ((&str, &str), BTreeSet<&str>)| Warning::ChangedResponse {
            workload: workload.into(),
            arm: arm.into(),
            path: path.into(),
            contents: contents.len() as u32,
        };
    several.map(warning).collect()
}

/// Whether a trial goes through several loads, so that its seconds are not alike by design.
fn is_ramp(trial: &Measurement) -> bool {
    trial.curves.iter().any(|curve| !curve.is_over_time())
}

/// Requests served in the whole seconds of the first third of a window, and of the last, but for those in which it was disturbed on
/// purpose; and how many seconds that are.
fn served_in_thirds(trial: &Measurement) -> Option<[(f64, f64); 2]> {
    let load = trial.load.as_ref()?;
    let spans = trial
        .disturbances
        .iter()
        .filter_map(DisturbanceRecord::span);
    let spans: Vec<PlannedSpan<'_>> = spans.collect();
    let whole = load.window_ns / 1_000_000_000;
    let third = whole / 3;
    // Seconds that are one where they are old belong to a third in part.
    let within = |from: u64, to: u64| {
        let [from_ms, to_ms] = [from, to].map(|second| second as f64 * 1e3);
        let share = |second: &Second| {
            let (begin_ms, length_ms) = (second.at_ms as f64, second.length_ms() as f64);
            let inside_ms = (begin_ms + length_ms).min(to_ms) - begin_ms.max(from_ms);
            let is_usual = overlap_ms(&spans, second.at_ms, second.length_ms()) == 0;
            let inside_ms = if is_usual { inside_ms.max(0.0) } else { 0.0 };
            (second.ok as f64 * inside_ms / length_ms, inside_ms / 1e3)
        };
        let shares = load.timeline.iter().map(share);
        shares.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    Some([within(0, third), within(whole - third, whole)])
}

/// Arms that ran out of memory: what they then do is not what the plan asks about.
fn swapped(run: &Run, measured: &Measured<'_>, workload: &str) -> Vec<Warning> {
    of_arms(run, measured, workload, |arm, trials| {
        let most = trials.iter().map(|trial| trial.usage.swap_used_bytes).max();
        let bytes = most.filter(|bytes| *bytes > 0)?;
        Some(Warning::Swapped {
            workload: workload.into(),
            arm: arm.name.clone(),
            bytes,
        })
    })
}

/// Arms whose plans name different kernels and that ran the same one: kernels of one release are told apart by their build ids.
fn same_kernel(run: &Run, measured: &Measured<'_>, workload: &str) -> Vec<Warning> {
    let mut arms_of_kernel = BTreeMap::<_, Vec<&Arm>>::new();
    // A system on the network has the kernel that it has, if that is known at all.
    let is_chosen = |arm: &&Arm| !matches!(arm.kernel, KernelRef::Remote(_));
    for arm in arms(run).filter(is_chosen) {
        let trials = measured.of_arm(workload, &arm.name);
        if let Some(trial) = trials.last() {
            let kernel = (trial.kernel.as_str(), build_id(run, &arm.name));
            arms_of_kernel.entry(kernel).or_default().push(arm);
        }
    }
    let mut warnings = Vec::new();
    for arms in arms_of_kernel.into_values() {
        if arms.iter().any(|arm| arm.kernel != arms[0].kernel) {
            warnings.push(Warning::SameKernel {
                workload: workload.into(),
                arms: arms.iter().map(|arm| arm.name.clone()).collect(),
            });
        }
    }
    warnings
}

/// What tells an arm's kernel from others of its release; `None` where no trial has it.
fn build_id<'r>(run: &'r Run, arm: &str) -> Option<&'r str> {
    let attempts = run.attempts.iter().zip(&run.facts);
    let its = attempts.filter(|(attempt, _)| attempt.trial.arm == arm);
    let mut known = its.filter_map(|(_, facts)| facts.as_ref()?.values.get(fact::KERNEL_NOTES));
    known.next_back().map(String::as_str)
}

/// Arms that have outliers more often than the baseline, or less often.
fn outliers(run: &Run, comparisons: &[Comparison]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for comparison in comparisons {
        let uneven = comparison
            .outliers
            .filter(|outliers| outliers.p_value < run.plan.design.error_rate);
        warnings.extend(uneven.map(|outliers| Warning::Outliers {
            workload: comparison.workload.clone(),
            metric: comparison.spec.name.clone(),
            arm: comparison.arm.clone(),
            outliers,
        }));
    }
    warnings
}

/// What the CPUs' counters did not say, once for the run: each reason with its arms.
fn hardware_counters(run: &Run) -> Vec<Warning> {
    let (mut missing, mut few) = (BTreeMap::<_, BTreeSet<&str>>::new(), BTreeSet::new());
    let mut running_share = 1.0_f64;
    for record in &run.attempts {
        let Some(measurement) = record.outcome.measured() else {
            continue;
        };
        let arm = record.trial.arm.as_str();
        match &measurement.hardware_counters {
            None => {}
            Some(HardwareCounters::Missing(why)) => {
                missing.entry(why).or_default().insert(arm);
            }
            Some(HardwareCounters::Counted(window)) => {
                running_share = running_share.min(window.running_share());
                if window.lacks_events() {
                    few.insert(arm);
                }
            }
        }
    }
    let in_order = |names: &BTreeSet<&str>| -> Vec<String> {
        let own = arms(run).filter(|arm| names.contains(arm.name.as_str()));
        own.map(|arm| arm.name.clone()).collect()
    };
    let mut warnings = Vec::new();
    for (why, names) in missing {
        warnings.push(Warning::NoHardwareCounters {
            arms: in_order(&names),
            why: why.clone(),
        });
    }
    if !few.is_empty() {
        let arms = in_order(&few);
        warnings.push(Warning::FewHardwareEvents { arms });
    }
    if running_share < WHOLE_RUNNING {
        warnings.push(Warning::SharedHardwareCounters { running_share });
    }
    warnings
}

/// Metrics whose figures cannot be compared. Those of counters that some trial lacks are told of with the counters.
fn not_compared(
    run: &Run,
    measured: &Measured<'_>,
    comparisons: &[Comparison],
    lacks_counters: bool,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for comparison in comparisons {
        let lacking = lacking(measured, comparison, &run.plan.baseline);
        let mut of_counters = metrics();
        if lacks_counters
            && !lacking.is_empty()
            && of_counters.any(|name| name == comparison.spec.name)
        {
            continue;
        }
        let is_open = comparison.noise.is_none() && comparison.verdict == Verdict::Undecided;
        let mut pairs = comparison.pairs.iter();
        if is_open && !pairs.all(|pair| pair.baseline == 0.0 && pair.arm == 0.0) {
            warnings.push(Warning::NotCompared {
                workload: comparison.workload.clone(),
                metric: comparison.spec.name.clone(),
                arm: comparison.arm.clone(),
                lacking,
            });
        }
    }
    warnings
}

/// Which of an arm and its baseline has measured trials without a figure of the metric that is compared.
fn lacking(measured: &Measured<'_>, comparison: &Comparison, baseline: &str) -> Vec<String> {
    let (workload, metric) = (&comparison.workload, &comparison.spec.name);
    let arms = [baseline, &comparison.arm];
    let lacks = |arm: &&str| {
        let figures = measured.figures(workload, arm, metric);
        figures.len() < measured.trials(workload, arm).len()
    };
    arms.into_iter().filter(lacks).map(String::from).collect()
}

/// A null server that served less than arms on the network did.
fn low_ceiling(run: &Run, measured: &Measured<'_>, workload: &str) -> Option<Warning> {
    if run.plan.machine.kind != MachineKind::Url {
        return None;
    }
    let is_above = |arm: &&Arm| {
        let trials = measured.of_arm(workload, &arm.name);
        let limit = limits::of(run, &trials, workload, arm);
        limit.is_some_and(|own| matches!(own.ceiling, CeilingUse::TooLow { .. }))
    };
    let arms: Vec<String> = arms(run)
        .filter(is_above)
        .map(|arm| arm.name.clone())
        .collect();
    (!arms.is_empty()).then(|| Warning::LowCeiling {
        workload: workload.into(),
        arms,
    })
}

/// Arms that are the same system under two names: an A/A plan, or a slip.
fn equal_arms(run: &Run) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (index, arm) in run.plan.arms.iter().enumerate() {
        let is_twin = |other: &&Arm| {
            cpu_scaling::is_alike(other, arm) && run.plan.cpus(other) == run.plan.cpus(arm)
        };
        if let Some(first) = run.plan.arms[..index].iter().find(is_twin) {
            warnings.push(Warning::EqualArms {
                arm: first.name.clone(),
                twin: arm.name.clone(),
            });
        }
    }
    warnings
}

/// Arms with more virtual CPUs than the host has to run them on.
fn shared_cpus(run: &Run) -> Vec<Warning> {
    let is_virtual = run.plan.machine.kind == MachineKind::Qemu;
    // One CPU is all that there is where instructions are counted.
    let is_counted = run.opening.ns_per_instruction.is_some();
    let Some(host_cpus) = run.opening.host_cpus.filter(|_| is_virtual && !is_counted) else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    for arm in arms(run) {
        let cpus = run.plan.cpus(arm).filter(|cpus| *cpus > host_cpus);
        warnings.extend(cpus.map(|cpus| Warning::SharedCpus {
            arm: arm.name.clone(),
            cpus,
            host_cpus,
        }));
    }
    warnings
}

/// Arms that did not have the CPUs that the plan gives them: a command line can keep a kernel from using them.
fn missing_cpus(run: &Run) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for arm in arms(run) {
        if let (Some(planned), Some(cpus)) = (arm.cpus, cpus_of(run, arm))
            && cpus != planned
        {
            warnings.push(Warning::MissingCpus {
                arm: arm.name.clone(),
                cpus,
                planned,
            });
        }
    }
    warnings
}

/// CPUs that the servers of an arm's last trial could run on.
fn cpus_of(run: &Run, arm: &Arm) -> Option<u32> {
    let trials = run.attempts.iter().zip(&run.facts).rev();
    let facts = trials
        .filter(|(record, _)| record.trial.arm == arm.name)
        .filter_map(|(_, facts)| facts.as_ref());
    let mut lists = facts.filter_map(|facts| facts.values.get(config_diff::CPUS));
    Some(lists.next()?.split(',').count() as u32)
}

/// A default of kernels that decides who goes first, clients or servers, where they share CPUs. A plan that sets it for an arm asks
/// for the difference.
fn uneven_autogroup(run: &Run, weighed: &Weighed) -> Option<Warning> {
    let mut facts = run.facts.iter().flatten();
    let is_one = facts.any(|facts| facts.values.contains_key(fact::ONE_CPU_GROUP));
    let is_set = arms(run).any(|arm| arm.sysctl.contains_key(AUTOGROUP));
    if is_one || is_set {
        return (is_one && is_set).then_some(Warning::AutogroupWithoutEffect);
    }
    let mut settings = weighed.settings.iter();
    let values = &settings
        .find(|one| one.setting == Setting::Autogroup)?
        .values;
    let having = |wanted: &str| -> Vec<String> {
        let names = arms(run).map(|arm| &arm.name);
        let having = names.filter(|name| {
            values
                .get(*name)
                .is_some_and(|own| own.as_deref() == Some(wanted))
        });
        having.cloned().collect()
    };
    let (off, on) = (having("off"), having("on"));
    let differs = !off.is_empty() && !on.is_empty();
    differs.then_some(Warning::Autogroup { off, on })
}

/// A run with measured trials of whose string instructions each iteration was counted.
fn uncharged_strings(run: &Run) -> Option<Warning> {
    run.opening.ns_per_instruction?;
    let mut measured = run.attempts.iter().filter_map(|one| one.outcome.measured());
    let is_uncharged = measured.any(|one| one.instructions.is_none());
    is_uncharged.then_some(Warning::UnchargedStrings)
}

/// What the figures are by nature, whatever happened.
fn nature(run: &Run, weighed: &Weighed) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if run.opening.ns_per_instruction.is_some() {
        warnings.push(Warning::CountedInstructions);
    }
    let mut measured = run
        .attempts
        .iter()
        .filter_map(|one| one.outcome.measured())
        .peekable();
    let is_without_clients = measured.peek().is_some() && measured.all(|one| one.load.is_none());
    let clients = match run.plan.machine.kind {
        MachineKind::Qemu if is_without_clients => Warning::WorkInGuest,
        MachineKind::Qemu if run.opening.clients == Some(Clients::Host) => Warning::ClientsOnHost,
        MachineKind::Qemu if run.opening.clients == Some(Clients::Guest2) => {
            Warning::ClientsInOwnGuest
        }
        MachineKind::Qemu => Warning::ClientsInGuest,
        MachineKind::Ssh if matches!(run.opening.clients, Some(Clients::Host | Clients::Hosts)) => {
            Warning::ClientsOffBox
        }
        MachineKind::Ssh => Warning::WorkOnBox,
        MachineKind::Local => Warning::LiveHost,
        MachineKind::Url => Warning::OnNetwork {
            silent: silent_arms(run, Silence::Whole),
            silent_in_part: silent_arms(run, Silence::Part),
        },
    };
    let shares_cpus = matches!(clients, Warning::ClientsInGuest | Warning::WorkOnBox);
    warnings.push(clients);
    if shares_cpus {
        warnings.extend(uneven_autogroup(run, weighed));
    }
    warnings
}

/// How much of a run a system on the network was silent in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Silence {
    Whole,
    /// Those blocks in which it had an address of which nobody is asked.
    Part,
}

/// Systems on the network that tell nothing of themselves for so much of the run.
fn silent_arms(run: &Run, silence: Silence) -> Vec<String> {
    let is_silent = |arm: &&Arm| {
        // Where systems are exchanged, an even block has them at the other place.
        let targets = [1, 2].map(|block| run.plan.target(arm, block));
        let silent = targets.iter().flatten();
        match silent.filter(|target| target.evidence.is_none()).count() {
            2 => silence == Silence::Whole,
            1 => silence == Silence::Part,
            _ => false,
        }
    };
    arms(run)
        .filter(is_silent)
        .map(|arm| arm.name.clone())
        .collect()
}

#[cfg(test)]
mod tests;
