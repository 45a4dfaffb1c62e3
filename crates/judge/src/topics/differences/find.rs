//! Which facts are not the same in all trials: of all arms, or of one.
//!
//! ```text
//! told     what each trial's facts tell; a list that is not there tells nothing, and nothing is concluded from it
//! nature   facts that vary by themselves, each with its reason
//! ```

use std::collections::{BTreeMap, BTreeSet};

use plan::{Arm, Plan};
use record::fact;
use record::rundir::Run;
use record::verdict::Difference;
use record::verdict::weighed::{Class, Seen};

use self::nature::Nature;
use self::told::{ArmFacts, Values};

mod nature;
mod told;

/// Facts whose difference the kernel's own name in the plan declares.
const OF_THE_KERNEL: [&str; 10] = [
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

/// The CPUs that an arm's servers may run on: `0,1,5`.
pub(crate) const CPUS: &str = "cpus";

/// The sysctl by which a kernel shares the CPU by session.
pub(crate) const AUTOGROUP: &str = "kernel.sched_autogroup_enabled";

/// Facts whose difference an arm's own number of CPUs declares.
const OF_THE_CPUS: [&str; 15] = [
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

/// What differs in one fact.
#[derive(Debug, Default)]
struct Found {
    values: Values,
    varying: BTreeMap<String, Vec<Seen>>,
}

/// The differences between the arms, and between trials of one arm, by fact. Arms without facts are not compared.
pub(crate) fn of(run: &Run) -> Vec<Difference> {
    let mut differences = BTreeMap::<String, Found>::new();
    let mut by_chance = BTreeSet::new();
    for workload in &run.plan.workloads {
        let arms = told::by_arm(run, &workload.id);
        for fact in told::names(&arms) {
            let nature = nature::of(&fact);
            if nature == Some(Nature::State) {
                continue;
            }
            let Some(found) = compare(&arms, &fact, nature) else {
                continue;
            };
            if nature == Some(Nature::Chance) && !found.varying.is_empty() {
                by_chance.insert(fact);
                continue;
            }
            let known = differences.entry(fact).or_insert_with(|| Found {
                values: found.values,
                varying: BTreeMap::new(),
            });
            for (arm, values) in found.varying {
                known.varying.entry(arm).or_insert(values);
            }
        }
    }
    let others = differences
        .into_iter()
        .filter(|(fact, _)| !by_chance.contains(fact));
    let difference = |(fact, found): (String, Found)| Difference {
        // What a plan names is the same in all trials of an arm.
        declared: found.varying.is_empty() && is_declared(&run.plan, &fact, &found.values),
        fact,
        values: found.values,
        varying: found.varying,
        class: Class::default(),
        formerly: None,
        pin: None,
    };
    others.map(difference).collect()
}

/// What differs in a fact, of the arms that tell it.
fn compare(
    arms: &BTreeMap<&str, ArmFacts<'_>>,
    fact: &str,
    nature: Option<Nature>,
) -> Option<Found> {
    let told: BTreeMap<&str, _> = arms
        .iter()
        .map(|(arm, own)| (*arm, own.told(fact)))
        .collect();
    let is_same = |one: Option<&str>, other: Option<&str>| match (one, other) {
        (Some(one), Some(other)) if nature == Some(Nature::Memory) => nature::is_close(one, other),
        _ => one == other,
    };
    let mut all = told.values().flatten().map(|(_, value)| value.as_deref());
    let first = all.next()?;
    if all.all(|value| is_same(first, value)) {
        return None;
    }
    let mut found = Found::default();
    for (arm, trials) in told {
        let Some((_, first)) = trials.first() else {
            continue;
        };
        let is_steady = trials
            .iter()
            .all(|(_, value)| is_same(first.as_deref(), value.as_deref()));
        let owned = trials
            .iter()
            .map(|(trial, value)| (*trial, value.as_deref().map(String::from)));
        let seen = Seen::of(owned);
        let most = seen.first().and_then(|one| one.value.clone());
        found.values.insert(arm.into(), most);
        if !is_steady {
            found.varying.insert(arm.into(), seen);
        }
    }
    Some(found)
}

/// Whether the plan names the difference; if not, it follows from what the plan names, or it is a
/// flaw.
fn is_declared(plan: &Plan, fact: &str, values: &Values) -> bool {
    if OF_THE_KERNEL.contains(&fact) {
        return plan
            .arms
            .iter()
            .any(|arm| arm.kernel != plan.arms[0].kernel);
    }
    let mut cpus = plan.arms.iter().map(|arm| plan.cpus(arm));
    let first = cpus.next();
    let has_own_cpus = cpus.any(|cpus| Some(cpus) != first);
    if OF_THE_CPUS.contains(&fact) {
        return has_own_cpus;
    }
    if let Some(name) = fact.strip_prefix("sysctl ") {
        // Set alike in all arms, it is no difference that the plan asks about.
        let mut set = plan.arms.iter().map(|arm| set_to(arm, name));
        let first = set.next();
        return set.any(|value| Some(value) != first);
    }
    let is_set = |set: fn(&Arm) -> bool| plan.arms.iter().any(set);
    let mut kernels = plan.arms.iter().map(|arm| &arm.kernel);
    let is_one_kernel = kernels.all(|kernel| *kernel == plan.arms[0].kernel);
    if let Some((_, setting)) = fact
        .rsplit_once("/queue/")
        .filter(|_| fact.starts_with("/sys/block/"))
    {
        return is_one_kernel && sets_queue(plan, setting);
    }
    // Beside another kernel a limit is no question but a handicap.
    if fact.starts_with("limit:") && fact.ends_with(":open files") {
        return is_one_kernel && is_set(|arm| arm.tuning.nofile.is_some());
    }
    if fact == "scheduler" {
        let mut schedulers = plan.arms.iter().map(|arm| arm.tuning.scheduler);
        return schedulers.any(|own| own != plan.arms[0].tuning.scheduler);
    }
    // A server is told how many CPUs it has: nginx starts as many workers.
    if fact.starts_with("workers:") {
        return has_own_cpus;
    }
    // Where a plan limits open files, nginx is not told how many it may have; the limit has a check of its own.
    if fact.starts_with(fact::CONFIGURATION) {
        return has_own_cpus
            || is_set(|arm| arm.tuning.has_config())
            || is_set(|arm| arm.tuning.nofile.is_some());
    }
    if fact.starts_with("version:") || fact.starts_with("hash:server:") {
        return is_set(|arm| !arm.tuning.programs.is_empty());
    }
    if fact == fact::CMDLINE {
        let mut rests = plan.arms.iter().filter_map(|arm| {
            let line = values.get(&arm.name)?.as_ref()?;
            Some(without_own(line, arm))
        });
        let first = rests.next();
        return rests.all(|rest| Some(rest) == first);
    }
    false
}

/// Whether the arms of a plan set this of their disk's queue, each to its own. The kernel chooses the number of requests and the
/// throttling of writes by the scheduler.
fn sets_queue(plan: &Plan, setting: &str) -> bool {
    let differ = |of: &dyn Fn(&Arm) -> Option<String>| {
        let mut values = plan.arms.iter().map(of);
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    let follows = ["scheduler", "nr_requests", "wbt_lat_usec"].contains(&setting);
    differ(&|arm| arm.tuning.queue.get(setting).cloned())
        || follows && differ(&|arm| Some(arm.tuning.io_scheduler.clone()))
}

/// What an arm sets a sysctl to. Sysctls may be written with slashes as well as with dots.
fn set_to<'p>(arm: &'p Arm, name: &str) -> Option<&'p String> {
    let path = plan::sysctl_path(name);
    let mut own = arm.sysctl.iter();
    own.find(|(set, _)| plan::sysctl_path(set) == path)
        .map(|(_, value)| value)
}

/// The words of a command line without those that the plan adds for this arm. A box is told its CPUs there, and the agent on it
/// how to begin.
fn without_own<'l>(line: &'l str, arm: &Arm) -> Vec<&'l str> {
    let own: Vec<&str> = arm.cmdline.split_whitespace().collect();
    let cpus = arm.cpus.map(|cpus| format!("nr_cpus={cpus}"));
    let is_own = |word: &str| {
        own.contains(&word) || cpus.as_deref() == Some(word) || word.starts_with("bakeoff.")
    };
    line.split_whitespace()
        .filter(|word| !is_own(word))
        .collect()
}

#[cfg(test)]
mod tests;
