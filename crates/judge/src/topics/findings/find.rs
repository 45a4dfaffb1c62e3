//! Findings of a run, gravest first: gates, failures, warnings about what a reader must know before the figures.

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
use record::verdict::fairness::Quantity;
use record::verdict::finding::{
    Disturbance, DisturbedBlock, Finding, Kind, MissingFiles, StalledClients,
};
use record::verdict::limit::CeilingUse;
use record::verdict::weighed::{EffectiveSetting, Weighed};
use record::verdict::{Comparison, Verdict};

use crate::topics::differences::find::{AUTOGROUP, CPUS};
use crate::topics::findings::gates;
use crate::topics::limits::find as limits;
use crate::topics::metrics::arm_summary::{faults, total, voids};
use crate::topics::metrics::measured::Measured;
use crate::topics::scaling::find::is_alike;
use stats::average::mean;
use stats::interim;

/// Share of CPU time that may be idle before the server counts as not stressed.
const IDLE: f64 = 0.1;

/// Share of CPU time that must be idle on the clients' host.
const CLIENTS_IDLE: f64 = 0.2;

/// Share of CPU time that others (the hypervisor, the sampler) may take without a warning.
const OVERHEAD: f64 = 0.01;

/// Share of the due requests by which the requests under way may grow within a window.
const BACKLOG_GROWTH: f64 = 0.01;

/// Standard deviations of a Poisson process beyond which a change is not chance.
const CHANCE_SIGMA: f64 = 3.0;

/// Change of the rate from the first to the last third of the window that counts as unsettled.
const DRIFT: f64 = 0.1;

/// All findings of a run.
pub(crate) fn of(
    run: &Run,
    measured: &Measured<'_>,
    comparisons: &[Comparison],
    weighed: &Weighed,
) -> Vec<Finding> {
    let mut finder = Finder {
        run,
        measured,
        found: gates::of(run, measured),
    };
    let workloads = || run.plan.workloads.iter().map(|workload| &*workload.id);
    for workload in workloads() {
        finder.failed_trials(workload);
        finder.incomplete_blocks(workload);
        finder.disturbed_blocks(workload);
    }
    finder.uncharged_strings();
    finder.missing_evidence();
    finder.extended();
    for workload in workloads() {
        finder.few_blocks(workload);
        finder.unserved(workload);
        finder.stalled_clients(workload);
        finder.unsettled(workload);
        finder.falls_behind(workload);
        finder.changed_responses(workload);
        finder.unused_cpu(workload);
        finder.swapped(workload);
        finder.same_kernel(workload);
        finder.low_ceiling(workload);
    }
    finder.outliers(comparisons);
    let counters = hardware_counters(run);
    finder.not_compared(comparisons, !counters.is_empty());
    finder.equal_arms();
    finder.shared_cpus();
    finder.missing_cpus();
    for kind in counters {
        finder.add("", "", kind);
    }
    finder.nature(weighed);
    finder.found
}

/// A run and what has been found in it.
struct Finder<'r> {
    run: &'r Run,
    measured: &'r Measured<'r>,
    found: Vec<Finding>,
}

impl<'r> Finder<'r> {
    fn add(&mut self, workload: &str, arm: &str, kind: Kind) {
        self.found.push(Finding::new(workload, arm, kind));
    }

    /// Adds a finding that a number is beyond its limit.
    fn add_beyond(
        &mut self,
        workload: &str,
        arm: &str,
        quantity: Quantity,
        value: f64,
        limit: f64,
    ) {
        let kind = Kind::Beyond {
            quantity,
            value,
            limit,
        };
        self.add(workload, arm, kind);
    }

    /// Adds a finding where a number is above its limit.
    fn add_above(&mut self, workload: &str, arm: &str, quantity: Quantity, value: f64, limit: f64) {
        if value > limit {
            self.add_beyond(workload, arm, quantity, value, limit);
        }
    }

    fn arms(&self) -> impl Iterator<Item = &'r Arm> + use<'r> {
        self.run.plan.arms.iter()
    }

    /// Failed trials, and whether one arm has far more of them.
    fn failed_trials(&mut self, workload: &str) {
        let mut failed_by_arm = BTreeMap::new();
        for arm in self.arms().map(|arm| &arm.name) {
            let reasons = voids(self.run, workload, arm);
            let failed: u32 = reasons.values().sum();
            // An unsupported setting always fails, so it is not counted as flakiness.
            let refused = reasons.get(&VoidReason::SettingRefused).copied();
            failed_by_arm.insert(arm.clone(), failed - refused.unwrap_or(0));
            if failed > 0 {
                let attempts = self.run.attempts.iter();
                let attempts = attempts
                    .filter(|record| record.trial.workload == workload && record.trial.arm == *arm)
                    .count() as u32;
                let kind = Kind::FailedTrials {
                    failed,
                    attempts,
                    reasons,
                };
                self.add(workload, arm, kind);
            }
        }
        let most = failed_by_arm.values().max().copied().unwrap_or(0);
        let least = failed_by_arm.values().min().copied().unwrap_or(0);
        if is_uneven(most, least) {
            let failed = failed_by_arm;
            self.add(workload, "", Kind::UnevenFailures { failed });
        }
    }

    /// Blocks that lack an arm. In the block under way an arm that was not tried yet is not missing.
    fn incomplete_blocks(&mut self, workload: &str) {
        let (begun, _) = self.measured.begun_and_incomplete(self.run, workload);
        let blocks: BTreeSet<u32> = self
            .arms()
            .flat_map(|arm| self.measured.missing(workload, &arm.name))
            .collect();
        if !blocks.is_empty() {
            let kind = Kind::IncompleteBlocks {
                begun: begun as u32,
                blocks: blocks.into_iter().collect(),
            };
            self.add(workload, "", kind);
        }
    }

    /// Blocks that were run again because something outside disturbed them.
    fn disturbed_blocks(&mut self, workload: &str) {
        let mut by_block = BTreeMap::<u32, Vec<Disturbance>>::new();
        for entry in &self.run.entries {
            if let Event::Invalidated {
                workload: disturbed,
                block,
                disturbance,
                ..
            } = &entry.event
                && disturbed == workload
            {
                by_block
                    .entry(*block)
                    .or_default()
                    .push(disturbance.clone());
            }
        }
        let mut blocks = Vec::new();
        for (block, disturbances) in by_block {
            blocks.push(DisturbedBlock {
                block,
                disturbances,
            });
        }
        if !blocks.is_empty() {
            self.add(workload, "", Kind::DisturbedBlocks { blocks });
        }
    }

    /// Measured trials whose string instructions were counted by iterations.
    fn uncharged_strings(&mut self) {
        let mut measured = self
            .run
            .attempts
            .iter()
            .filter_map(|record| record.outcome.measured());
        if self.run.opening.ns_per_instruction.is_some()
            && measured.any(|trial| trial.instructions.is_none())
        {
            self.add("", "", Kind::UnchargedStrings);
        }
    }

    /// Files beside the records of trials that are lost or damaged, all in one warning.
    fn missing_evidence(&mut self) {
        let mut attempts = BTreeMap::<(EvidenceFile, Damage), Vec<String>>::new();
        for missing in &self.run.missing {
            let names = attempts.entry((missing.file, missing.damage)).or_default();
            names.push(missing.attempt_name());
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
        if !files.is_empty() {
            self.add("", "", Kind::MissingEvidence { files });
        }
    }

    /// The error rate of a run that was given more blocks.
    fn extended(&mut self) {
        let design = &self.run.plan.design;
        if design.more_blocks > 0 {
            let kind = Kind::Extended {
                blocks: design.most_blocks(),
                planned_blocks: design.max_blocks,
                error_rate: interim::error_rate(design),
                planned_error_rate: design.error_rate,
            };
            self.add("", "", kind);
        }
    }

    /// Fewer complete blocks than the plan's minimum.
    fn few_blocks(&mut self, workload: &str) {
        let (begun, incomplete) = self.measured.begun_and_incomplete(self.run, workload);
        let blocks = (begun - incomplete.len()) as u32;
        let wanted = self.run.plan.design.min_blocks;
        if blocks < wanted {
            self.add(workload, "", Kind::FewBlocks { blocks, wanted });
        }
    }

    /// Requests that the server failed, that the clients lost, and that were never sent.
    fn unserved(&mut self, workload: &str) {
        for arm in self.arms().map(|arm| &arm.name) {
            let trials = self.measured.of_arm(workload, arm);
            // Failures during a planned disturbance are expected.
            let count = total(trials.iter().map(|trial| trial.unplanned_failures()));
            if count > 0 {
                self.add(workload, arm, Kind::FailedRequests { count });
            }
            let lost = faults(&trials)
                .into_iter()
                .filter(|(fault, _)| fault.is_clients_own());
            let lost = total(lost.map(|(_, count)| count)) as f64;
            self.add_above(workload, arm, Quantity::LostByClients, lost, 0.0);
            let loads = trials.iter().filter_map(|trial| trial.load.as_ref());
            let unsent = total(loads.map(|load| load.unsent)) as f64;
            self.add_above(workload, arm, Quantity::UnsentRequests, unsent, 0.0);
        }
    }

    /// Times at which clients were stopped, where a latency metric shows it or one arm has far more of them.
    fn stalled_clients(&mut self, workload: &str) {
        let mut stalled = Vec::new();
        for arm in self.arms() {
            let trials = self.measured.of_arm(workload, &arm.name);
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
        let counts = || stalled.iter().map(|clients| clients.stalled);
        let most = counts().max().unwrap_or(0);
        let least = counts().min().unwrap_or(0);
        let shows = stalled.iter().any(|clients| clients.quantile < 1.0);
        stalled.retain(|clients| clients.stalled > 0);
        if shows || is_uneven(most, least) {
            self.add(workload, "", Kind::StalledClients { arms: stalled });
        }
    }

    /// CPU time that did not work for the arm. On systems on the network, the clients' host was sampled.
    fn unused_cpu(&mut self, workload: &str) {
        // A drive with seeks, or one in memory, takes the guest's time: waiting for it is part of the work.
        let is_host_disk =
            self.run.plan.machine.seek_disk.is_none() && !has_devices_in_memory(self.run, workload);
        let is_counted = self.run.opening.ns_per_instruction.is_some();
        let is_remote = self.run.plan.machine.kind == MachineKind::Url;
        for arm in self.arms().map(|arm| &arm.name) {
            let trials = self.measured.of_arm(workload, arm);
            let share = |of: fn(&Measurement) -> f64| mean(&trials, |trial| of(trial));
            // Where clients and network were watched, the topic `limits` reports what set the figures.
            let has_limit = trials.iter().any(|trial| trial.path.is_some());
            let idle = if is_host_disk {
                share(|trial| trial.usage.cpu_idle)
            } else {
                share(|trial| trial.usage.cpu_idle - trial.usage.cpu_waiting)
            };
            if is_remote {
                let is_sampled = trials.iter().any(|trial| trial.usage != Usage::default());
                if is_sampled && idle < CLIENTS_IDLE && !has_limit {
                    self.add_beyond(workload, arm, Quantity::ClientsIdleCpu, idle, CLIENTS_IDLE);
                }
            } else if !has_limit && trials.iter().all(|trial| is_saturating(trial)) {
                self.add_above(workload, arm, Quantity::IdleCpu, idle, IDLE);
            }
            if is_counted && is_host_disk {
                let waiting = share(|trial| trial.usage.cpu_waiting);
                self.add_above(workload, arm, Quantity::DiskWait, waiting, OVERHEAD);
            }
            let stolen = share(|trial| trial.usage.cpu_steal);
            self.add_above(workload, arm, Quantity::Steal, stolen, OVERHEAD);
            let sampling = share(|trial| trial.usage.sampling);
            self.add_above(workload, arm, Quantity::Sampling, sampling, OVERHEAD);
        }
    }

    /// Arms whose rate still changed within the window, so that the figure depends on the window's length.
    fn unsettled(&mut self, workload: &str) {
        for arm in self.arms().map(|arm| &arm.name) {
            let mut first = (0.0, 0.0);
            let mut last = (0.0, 0.0);
            for trial in self.measured.of_arm(workload, arm) {
                // The rate of a ramp changes by design.
                if let Some(thirds) = served_in_thirds(trial).filter(|_| !is_ramp(trial)) {
                    first = (first.0 + thirds[0].0, first.1 + thirds[0].1);
                    last = (last.0 + thirds[1].0, last.1 + thirds[1].1);
                }
            }
            let [first_per_s, last_per_s] = [first, last].map(|(served, seconds)| served / seconds);
            // Few requests scatter by chance.
            let error = (first.0 / first.1.powi(2) + last.0 / last.1.powi(2)).sqrt();
            let is_chance = (last_per_s - first_per_s).abs() <= CHANCE_SIGMA * error;
            let ratio = last_per_s / first_per_s;
            if ratio.is_finite() && !is_chance && (ratio - 1.0).abs() > DRIFT {
                self.add_beyond(workload, arm, Quantity::Drift, ratio, 1.0 + DRIFT);
            }
        }
    }

    /// Arms that do not keep up with the clients' rate. A ramp has a curve of its backlog instead.
    fn falls_behind(&mut self, workload: &str) {
        for arm in self.arms().map(|arm| &arm.name) {
            let mut trials = self.measured.of_arm(workload, arm);
            trials.retain(|trial| !is_ramp(trial));
            let loads: Vec<_> = trials
                .iter()
                .filter_map(|trial| trial.load.as_ref())
                .collect();
            let sum = |of: fn(&LoadResult) -> f64| loads.iter().map(|load| of(load)).sum::<f64>();
            let growth = sum(|load| load.backlog_close as f64 - load.backlog_open as f64);
            let planned = sum(|load| load.planned as f64);
            if growth > f64::max(BACKLOG_GROWTH * planned, CHANCE_SIGMA * planned.sqrt()) {
                let kind = Kind::FallsBehind {
                    growth_per_s: growth / sum(LoadResult::seconds),
                    due_per_s: planned / sum(LoadResult::seconds),
                };
                self.add(workload, arm, kind);
            }
        }
    }

    /// Pages of systems on the network that changed from trial to trial.
    fn changed_responses(&mut self, workload: &str) {
        let mut contents = BTreeMap::<(&str, &str), BTreeSet<&str>>::new();
        for (record, facts) in self.run.attempts.iter().zip(&self.run.facts) {
            if record.trial.workload != workload || record.outcome.measured().is_none() {
                continue;
            }
            for (fact, value) in facts.iter().flat_map(|facts| &facts.values) {
                if let Some(path) = fact.strip_prefix("remote:response ") {
                    let contents = contents.entry((&record.trial.arm, path)).or_default();
                    contents.insert(value);
                }
            }
        }
        for ((arm, path), contents) in contents {
            if contents.len() > 1 {
                let kind = Kind::ChangedResponse {
                    path: path.into(),
                    contents: contents.len() as u32,
                };
                self.add(workload, arm, kind);
            }
        }
    }

    /// Arms that ran out of memory.
    fn swapped(&mut self, workload: &str) {
        for arm in self.arms().map(|arm| &arm.name) {
            let trials = self.measured.of_arm(workload, arm);
            let most = trials.iter().map(|trial| trial.usage.swap_used_bytes).max();
            let most = most.unwrap_or(0) as f64;
            self.add_above(workload, arm, Quantity::Swap, most, 0.0);
        }
    }

    /// Arms that name different kernels and ran the same one. Build ids tell kernels of one release apart.
    fn same_kernel(&mut self, workload: &str) {
        let mut arms_of_kernel = BTreeMap::<_, Vec<&Arm>>::new();
        for arm in self.arms() {
            // The kernel of a system on the network is not chosen by the plan.
            let is_chosen = !matches!(arm.kernel, KernelRef::Remote(_));
            let trials = self.measured.of_arm(workload, &arm.name);
            if let Some(trial) = trials.last().filter(|_| is_chosen) {
                let kernel = (trial.kernel.as_str(), build_id(self.run, &arm.name));
                arms_of_kernel.entry(kernel).or_default().push(arm);
            }
        }
        for arms in arms_of_kernel.into_values() {
            if arms.iter().any(|arm| arm.kernel != arms[0].kernel) {
                let arms = names(arms);
                self.add(workload, "", Kind::SameKernel { arms });
            }
        }
    }

    /// A null server that served less than systems on the network did.
    fn low_ceiling(&mut self, workload: &str) {
        let is_above = |arm: &&Arm| {
            let trials = self.measured.of_arm(workload, &arm.name);
            let limit = limits::of(self.run, &trials, workload, arm);
            limit.is_some_and(|limit| matches!(limit.ceiling, CeilingUse::TooLow { .. }))
        };
        if self.run.plan.machine.kind == MachineKind::Url {
            let arms = names(self.arms().filter(is_above));
            if !arms.is_empty() {
                self.add(workload, "", Kind::LowCeiling { arms });
            }
        }
    }

    /// Arms with more outliers than the baseline, or fewer.
    fn outliers(&mut self, comparisons: &[Comparison]) {
        for comparison in comparisons {
            if let Some(outliers) = comparison.outliers
                && outliers.p_value < self.run.plan.design.error_rate
            {
                let kind = Kind::Outliers {
                    metric: comparison.spec.name.clone(),
                    outliers,
                };
                self.add(&comparison.workload, &comparison.arm, kind);
            }
        }
    }

    /// Metrics whose figures cannot be compared, but for hardware counters that have a warning already.
    fn not_compared(&mut self, comparisons: &[Comparison], lacks_counters: bool) {
        for comparison in comparisons {
            let lacking = lacking(self.measured, comparison, &self.run.plan.baseline);
            let is_counter = || metrics().any(|name| name == comparison.spec.name);
            if lacks_counters && !lacking.is_empty() && is_counter() {
                continue;
            }
            let is_open = comparison.noise.is_none() && comparison.verdict == Verdict::Undecided;
            let mut pairs = comparison.pairs.iter();
            if is_open && !pairs.all(|pair| pair.baseline == 0.0 && pair.arm == 0.0) {
                let kind = Kind::NotCompared {
                    metric: comparison.spec.name.clone(),
                    lacking,
                };
                self.add(&comparison.workload, &comparison.arm, kind);
            }
        }
    }

    /// Arms that are the same system under two names: an A/A plan, or a mistake.
    fn equal_arms(&mut self) {
        let plan = &self.run.plan;
        for (index, arm) in plan.arms.iter().enumerate() {
            let is_twin = |other: &&Arm| is_alike(other, arm) && plan.cpus(other) == plan.cpus(arm);
            if let Some(first) = plan.arms[..index].iter().find(is_twin) {
                let twin = arm.name.clone();
                self.add("", &first.name, Kind::EqualArms { twin });
            }
        }
    }

    /// Arms with more virtual CPUs than the host has. Where instructions are counted, all virtual CPUs share one.
    fn shared_cpus(&mut self) {
        let is_virtual = self.run.plan.machine.kind == MachineKind::Qemu;
        let is_counted = self.run.opening.ns_per_instruction.is_some();
        let host_cpus = self.run.opening.host_cpus;
        let Some(host_cpus) = host_cpus.filter(|_| is_virtual && !is_counted) else {
            return;
        };
        for arm in self.arms() {
            if let Some(cpus) = self.run.plan.cpus(arm)
                && cpus > host_cpus
            {
                self.add("", &arm.name, Kind::SharedCpus { cpus, host_cpus });
            }
        }
    }

    /// Arms with another number of CPUs than the plan's: a command line can keep a kernel from using them.
    fn missing_cpus(&mut self) {
        for arm in self.arms() {
            if let (Some(planned), Some(cpus)) = (arm.cpus, cpus_of(self.run, arm))
                && cpus != planned
            {
                self.add("", &arm.name, Kind::MissingCpus { cpus, planned });
            }
        }
    }

    /// The nature of the figures: the clock, and where the clients ran.
    fn nature(&mut self, weighed: &Weighed) {
        let opening = &self.run.opening;
        if opening.ns_per_instruction.is_some() {
            self.add("", "", Kind::CountedInstructions);
        }
        let attempts = self.run.attempts.iter();
        let mut measured = attempts
            .filter_map(|record| record.outcome.measured())
            .peekable();
        let has_no_clients =
            measured.peek().is_some() && measured.all(|trial| trial.load.is_none());
        let clients = match self.run.plan.machine.kind {
            MachineKind::Qemu if has_no_clients => Kind::WorkInGuest,
            MachineKind::Qemu => match opening.clients {
                Some(Clients::Host) => Kind::ClientsOnHost,
                Some(Clients::Guest2) => Kind::ClientsInOwnGuest,
                _ => Kind::ClientsInGuest,
            },
            MachineKind::Ssh => match opening.clients {
                Some(Clients::Host | Clients::Hosts) => Kind::ClientsOffBox,
                _ => Kind::WorkOnBox,
            },
            MachineKind::Local => Kind::LiveHost,
            MachineKind::Url => Kind::OnNetwork {
                silent: silent_arms(self.run, Silence::Whole),
                silent_in_part: silent_arms(self.run, Silence::Part),
            },
        };
        let shares_cpus = matches!(clients, Kind::ClientsInGuest | Kind::WorkOnBox);
        self.add("", "", clients);
        if shares_cpus && let Some(kind) = uneven_autogroup(self.run, weighed) {
            self.add("", "", kind);
        }
        if has_fact(self.run, fact::NO_HYSTART) {
            self.add("", "", Kind::NoHystart);
        }
    }
}

/// Whether the agent recorded this fact in any trial.
fn has_fact(run: &Run, name: &str) -> bool {
    let mut facts = run.facts.iter().flatten();
    facts.any(|facts| facts.values.contains_key(name))
}

fn names<'a>(arms: impl IntoIterator<Item = &'a Arm>) -> Vec<String> {
    arms.into_iter().map(|arm| arm.name.clone()).collect()
}

/// The load of a trial that shows stalls of the clients, and the lowest quantile among its metrics that does: 1 where only the
/// longest latency does.
fn stalled_trial(trial: &Measurement) -> Option<(&LoadResult, f64)> {
    // Where clients share the server's CPUs, a closed loop that waits for a CPU waits for the server.
    let waits_for_server = |path: &LoadPath| path.is_shared && path.pace == LoadPace::Closed;
    if trial.path.as_ref().is_some_and(waits_for_server) {
        return None;
    }
    let load = trial.load.as_ref()?;
    let metrics = trial.figures.iter();
    let quantiles = metrics.filter_map(|figure| latency_quantile(&figure.spec.name));
    let quantile = load.stalled_quantile(quantiles.chain([1.0]))?;
    Some((load, quantile))
}

/// Whether one count is so much larger than another that chance is a poor explanation.
fn is_uneven(most: u32, least: u32) -> bool {
    most >= 2 && most >= 3 * least
}

/// Whether a workload makes block devices in the guest's memory, so that no host is waited for.
fn has_devices_in_memory(run: &Run, workload: &str) -> bool {
    let mut workloads = run.plan.workloads.iter();
    workloads.any(|named| named.id == workload && named.traits.makes_devices)
}

/// Whether the clients of a trial were meant to leave no CPU idle. Not without clients, where sleeping is part of the work; not on
/// a ramp, whose lower steps leave CPUs idle; not at a fixed rate, where a fast arm has time to spare.
fn is_saturating(trial: &Measurement) -> bool {
    let mut figures = trial.figures.iter();
    let primary = figures.find(|figure| figure.spec.role == Role::Primary);
    let is_pushed = primary.is_none_or(|figure| figure.spec.direction == Direction::Higher);
    trial.load.is_some() && is_pushed && !is_ramp(trial)
}

/// Whether a trial goes through several loads, so that its seconds differ by design.
fn is_ramp(trial: &Measurement) -> bool {
    trial.curves.iter().any(|curve| !curve.is_over_time())
}

/// Requests served in the first third of a window and in the last, each with its seconds. Whole seconds only, without those of planned
/// disturbances.
fn served_in_thirds(trial: &Measurement) -> Option<[(f64, f64); 2]> {
    let load = trial.load.as_ref()?;
    let spans = trial
        .disturbances
        .iter()
        .filter_map(DisturbanceRecord::span);
    let spans: Vec<PlannedSpan<'_>> = spans.collect();
    let whole = load.window_ns / 1_000_000_000;
    let third = whole / 3;
    // Old seconds are merged into longer spans, which belong to a third in part.
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
        shares.fold((0.0, 0.0), |sum, share| (sum.0 + share.0, sum.1 + share.1))
    };
    Some([within(0, third), within(whole - third, whole)])
}

/// The build id of an arm's kernel; `None` where no trial has it.
fn build_id<'r>(run: &'r Run, arm: &str) -> Option<&'r str> {
    let attempts = run.attempts.iter().zip(&run.facts);
    let of_arm = attempts.filter(|(attempt, _)| attempt.trial.arm == arm);
    let mut known = of_arm.filter_map(|(_, facts)| facts.as_ref()?.values.get(fact::KERNEL_NOTES));
    known.next_back().map(String::as_str)
}

/// What the CPUs' counters lack, once for the run: each reason with its arms.
fn hardware_counters(run: &Run) -> Vec<Kind> {
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
    let in_order = |arms: &BTreeSet<&str>| {
        let planned = run.plan.arms.iter();
        names(planned.filter(|arm| arms.contains(arm.name.as_str())))
    };
    let mut kinds = Vec::new();
    for (why, arms) in missing {
        kinds.push(Kind::NoHardwareCounters {
            arms: in_order(&arms),
            why: why.clone(),
        });
    }
    if !few.is_empty() {
        let arms = in_order(&few);
        kinds.push(Kind::FewHardwareEvents { arms });
    }
    if running_share < WHOLE_RUNNING {
        kinds.push(Kind::SharedHardwareCounters { running_share });
    }
    kinds
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

/// CPUs that the servers of an arm's last trial could run on.
fn cpus_of(run: &Run, arm: &Arm) -> Option<u32> {
    let trials = run.attempts.iter().zip(&run.facts).rev();
    let facts = trials
        .filter(|(record, _)| record.trial.arm == arm.name)
        .filter_map(|(_, facts)| facts.as_ref());
    let mut lists = facts.filter_map(|facts| facts.values.get(CPUS));
    Some(lists.next()?.split(',').count() as u32)
}

/// Whether kernels differ in autogroup, which divides shared CPUs between clients and servers. A plan that sets it for an arm asks for
/// the difference.
fn uneven_autogroup(run: &Run, weighed: &Weighed) -> Option<Kind> {
    let is_one_group = has_fact(run, fact::ONE_CPU_GROUP);
    let is_set = run
        .plan
        .arms
        .iter()
        .any(|arm| arm.sysctl.contains_key(AUTOGROUP));
    if is_one_group || is_set {
        return (is_one_group && is_set).then_some(Kind::AutogroupWithoutEffect);
    }
    let mut settings = weighed.settings.iter();
    let values = &settings
        .find(|weighed| weighed.setting == EffectiveSetting::Autogroup)?
        .values;
    let having = |wanted: &str| -> Vec<String> {
        let names = run.plan.arms.iter().map(|arm| &arm.name);
        let having = names.filter(|name| {
            values
                .get(*name)
                .is_some_and(|value| value.as_deref() == Some(wanted))
        });
        having.cloned().collect()
    };
    let (off, on) = (having("off"), having("on"));
    let differs = !off.is_empty() && !on.is_empty();
    differs.then_some(Kind::Autogroup { off, on })
}

/// How much of a run lacks evidence of a system on the network.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Silence {
    Whole,
    /// Only in blocks in which it had the address that has no exporter and no agent.
    Part,
}

/// Systems on the network without evidence for so much of the run.
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
    names(run.plan.arms.iter().filter(is_silent))
}

#[cfg(test)]
mod tests;
