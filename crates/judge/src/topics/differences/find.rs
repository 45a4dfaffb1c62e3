//! Finds facts that differ between arms, or between trials of one arm.
//!
//! ```text
//! trial_facts   values of each trial's facts; a missing list is unknown, not empty
//! nature        facts that vary without a change of the plan, each with the reason
//! ```

use std::collections::{BTreeMap, BTreeSet};

use plan::{Arm, Plan};
use record::fact;
use record::rundir::Run;
use record::verdict::Difference;
use record::verdict::weighed::{Class, Seen};

use self::nature::Nature;
use self::trial_facts::{ArmFacts, Values};

mod nature;
mod trial_facts;

/// Facts that are expected to differ if the plan's arms have different kernels.
const KERNEL_FACTS: [&str; 10] = [
    fact::KERNEL_VERSION,
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/version",
    "sysctl kernel.osrelease",
    "sysctl kernel.version",
    "hash:kernel",
    fact::KERNEL_NOTES,
    "hash:modules",
    "hash:vmlinuz",
    "uname",
];

/// Fact: the CPUs that an arm's servers may run on: `0,1,5`.
pub(crate) const CPUS: &str = "cpus";

/// The sysctl that makes the scheduler share the CPU by session.
pub(crate) const AUTOGROUP: &str = "kernel.sched_autogroup_enabled";

/// Facts that are expected to differ if the plan's arms have different numbers of CPUs.
const CPU_FACTS: [&str; 15] = [
    CPUS,
    fact::CPU_COUNT,
    "/proc/cpuinfo:cpu cores",
    "/proc/cpuinfo:siblings",
    fact::IRQ_AFFINITY,
    fact::CPUS_ONLINE,
    fact::CPUS_POSSIBLE,
    fact::SMT_ACTIVE,
    "hardware:cpu:caches",
    "hardware:cpu:cores",
    "hardware:cpu:sockets",
    "hardware:cpu:threads",
    fact::NUMA,
    fact::HOST_PINNING,
    "sysctl kernel.watchdog_cpumask",
];

/// Values of a fact that differ.
#[derive(Debug, Default)]
struct DifferingValues {
    /// The most frequent value of each arm.
    values: Values,
    /// All values of each arm whose trials differ.
    varying: BTreeMap<String, Vec<Seen>>,
}

/// Differences between arms, and between trials of one arm, ordered by fact. Arms without facts are not compared.
pub(crate) fn of(run: &Run) -> Vec<Difference> {
    let mut differences = BTreeMap::<String, DifferingValues>::new();
    let mut by_chance = BTreeSet::new();
    for workload in &run.plan.workloads {
        let arms = trial_facts::by_arm(run, &workload.id);
        for fact in trial_facts::names(&arms) {
            let nature = nature::of(&fact);
            if nature == Some(Nature::State) {
                continue;
            }
            let Some(differing) = compare(&arms, &fact, nature) else {
                continue;
            };
            if nature == Some(Nature::Chance) && !differing.varying.is_empty() {
                by_chance.insert(fact);
                continue;
            }
            let known = differences.entry(fact).or_insert_with(|| DifferingValues {
                values: differing.values,
                varying: BTreeMap::new(),
            });
            for (arm, values) in differing.varying {
                known.varying.entry(arm).or_insert(values);
            }
        }
    }
    differences.retain(|fact, _| !by_chance.contains(fact));
    let difference = |(fact, differing): (String, DifferingValues)| Difference {
        // A difference that the plan declares is the same in all trials of an arm.
        declared: differing.varying.is_empty() && is_declared(&run.plan, &fact, &differing.values),
        fact,
        values: differing.values,
        varying: differing.varying,
        class: Class::default(),
        formerly: None,
        pin: None,
    };
    differences.into_iter().map(difference).collect()
}

/// Values of a fact in the arms where it is known; `None` if all are the same.
fn compare(
    arms: &BTreeMap<&str, ArmFacts<'_>>,
    fact: &str,
    nature: Option<Nature>,
) -> Option<DifferingValues> {
    let known: BTreeMap<&str, _> = arms
        .iter()
        .map(|(arm, facts)| (*arm, facts.known_values(fact)))
        .collect();
    let is_same = |left: Option<&str>, right: Option<&str>| match (left, right) {
        (Some(left), Some(right)) if nature == Some(Nature::Memory) => {
            nature::is_close(left, right)
        }
        _ => left == right,
    };
    let mut all = known.values().flatten().map(|(_, value)| value.as_deref());
    let first = all.next()?;
    if all.all(|value| is_same(first, value)) {
        return None;
    }
    let mut differing = DifferingValues::default();
    for (arm, trials) in known {
        let Some((_, first)) = trials.first() else {
            continue;
        };
        let is_steady = trials
            .iter()
            .all(|(_, value)| is_same(first.as_deref(), value.as_deref()));
        let values = trials
            .iter()
            .map(|(trial, value)| (*trial, value.as_deref().map(String::from)));
        let seen = Seen::of(values);
        let most_frequent = seen.first().and_then(|seen| seen.value.clone());
        differing.values.insert(arm.into(), most_frequent);
        if !is_steady {
            differing.varying.insert(arm.into(), seen);
        }
    }
    Some(differing)
}

/// Whether the plan declares the difference. Other differences are consequences of declared ones, or flaws of the setup.
fn is_declared(plan: &Plan, fact: &str, values: &Values) -> bool {
    if KERNEL_FACTS.contains(&fact) {
        return arms_differ(plan, |arm| &arm.kernel);
    }
    let cpus_differ = arms_differ(plan, |arm| plan.cpus(arm));
    if CPU_FACTS.contains(&fact) {
        return cpus_differ;
    }
    if let Some(name) = fact.strip_prefix("sysctl ") {
        // Only a sysctl that the plan sets to different values is declared.
        return arms_differ(plan, |arm| sysctl_value(arm, name));
    }
    if arms_differ(plan, |arm| &arm.tuning.server) && is_of_service(fact) {
        return true;
    }
    let any_arm = |is_set: fn(&Arm) -> bool| plan.arms.iter().any(is_set);
    let is_one_kernel = !arms_differ(plan, |arm| &arm.kernel);
    if let Some((_, setting)) = fact
        .rsplit_once("/queue/")
        .filter(|_| fact.starts_with("/sys/block/"))
    {
        return is_one_kernel && sets_queue(plan, setting);
    }
    // If the kernels differ too, the limit is a handicap of one arm and not the question of the plan.
    if fact.starts_with("limit:") && fact.ends_with(":open files") {
        return is_one_kernel && any_arm(|arm| arm.tuning.nofile.is_some());
    }
    if fact == "scheduler" {
        return arms_differ(plan, |arm| arm.tuning.scheduler);
    }
    // nginx starts one worker for each CPU.
    if fact.starts_with("workers:") {
        return cpus_differ;
    }
    // If a plan limits open files, nginx's configuration lacks its own limit. A separate check reports the limit.
    if fact.starts_with(fact::CONFIGURATION) {
        return cpus_differ
            || any_arm(|arm| arm.tuning.has_config())
            || any_arm(|arm| arm.tuning.nofile.is_some());
    }
    if fact.starts_with(fact::JAVA) {
        return any_arm(|arm| arm.tuning.has_config()) || arms_differ(plan, |arm| &arm.tuning.env);
    }
    if fact.starts_with("version:") || fact.starts_with("hash:server:") {
        return any_arm(|arm| !arm.tuning.programs.is_empty());
    }
    if fact == fact::CMDLINE {
        let mut rests = plan.arms.iter().filter_map(|arm| {
            let line = values.get(&arm.name)?.as_ref()?;
            Some(without_arms_words(line, arm))
        });
        let first = rests.next();
        return rests.all(|rest| Some(rest) == first);
    }
    false
}

/// Whether a fact is of one service, so that it differs if the service does.
fn is_of_service(fact: &str) -> bool {
    let families = [
        "version:",
        "hash:server:",
        fact::CONFIGURATION,
        "limit:",
        "workers:",
    ];
    families.iter().any(|family| fact.starts_with(family))
}

/// Whether the plan sets this setting of the disk's queue to different values. The I/O scheduler decides the number of requests and
/// the throttling of writes too.
fn sets_queue(plan: &Plan, setting: &str) -> bool {
    let follows_scheduler = ["scheduler", "nr_requests", "wbt_lat_usec"].contains(&setting);
    arms_differ(plan, |arm| arm.tuning.queue.get(setting))
        || follows_scheduler && arms_differ(plan, |arm| &arm.tuning.io_scheduler)
}

fn arms_differ<'p, T: PartialEq>(plan: &'p Plan, value: impl Fn(&'p Arm) -> T) -> bool {
    let mut values = plan.arms.iter().map(value);
    let first = values.next();
    values.any(|value| Some(value) != first)
}

/// The value that an arm gives a sysctl. Plans may write sysctls with slashes or dots.
fn sysctl_value<'p>(arm: &'p Arm, name: &str) -> Option<&'p String> {
    let path = plan::sysctl_path(name);
    let mut sysctls = arm.sysctl.iter();
    let (_, value) = sysctls.find(|(name, _)| plan::sysctl_path(name) == path)?;
    Some(value)
}

/// The words of a command line, without those of the arm in the plan, its number of CPUs and the agent's parameters.
fn without_arms_words<'l>(line: &'l str, arm: &Arm) -> Vec<&'l str> {
    let from_plan: Vec<&str> = arm.cmdline.split_whitespace().collect();
    let cpus = arm.cpus.map(|cpus| format!("nr_cpus={cpus}"));
    let is_arms = |word: &str| {
        from_plan.contains(&word) || cpus.as_deref() == Some(word) || word.starts_with("bakeoff.")
    };
    line.split_whitespace()
        .filter(|word| !is_arms(word))
        .collect()
}

#[cfg(test)]
mod tests;
