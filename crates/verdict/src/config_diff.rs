//! Which facts are not the same in all arms.
//!
//! A fact that changes between trials of the *same* arm (a random id, a counter) is noise and no
//! difference between arms. With a single trial of each arm the two cannot be told apart, so that
//! early lists are longer than late ones.

use std::collections::{BTreeMap, BTreeSet};

use plan::{Arm, Plan};
use record::evidence::Facts;
use record::rundir::Run;
use record::trial::Outcome;
use record::verdict::Difference;
use record::verdict::weighed::Class;

/// Facts whose difference the kernel's own name in the plan declares.
const OF_THE_KERNEL: [&str; 10] = [
    "/proc/version",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/version",
    "sysctl kernel.osrelease",
    "sysctl kernel.version",
    "hash:kernel",
    "hash:kernel-notes",
    "hash:modules",
    "hash:vmlinuz",
    "uname",
];

/// The CPUs that an arm's servers may run on: `0,1,5`.
pub(crate) const CPUS: &str = "cpus";

/// Facts whose difference an arm's own number of CPUs declares.
const OF_THE_CPUS: [&str; 15] = [
    CPUS,
    "/proc/cpuinfo:count",
    "/proc/cpuinfo:cpu cores",
    "/proc/cpuinfo:siblings",
    "/proc/irq/default_smp_affinity",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/possible",
    "/sys/devices/system/cpu/smt/active",
    "hardware:cpu:caches",
    "hardware:cpu:cores",
    "hardware:cpu:sockets",
    "hardware:cpu:threads",
    "hardware:numa",
    "host:pinning",
    "sysctl kernel.watchdog_cpumask",
];

/// Words that make a line of the boot log worth comparing; the others differ between any two
/// kernels.
const NOTABLE: [&str; 8] = [
    "bug:",
    "deprecated",
    "disabled",
    "error",
    "fail",
    "unable",
    "vulnerable",
    "warning",
];

/// What is known of one fact in one arm.
#[derive(Debug, Default, PartialEq)]
struct Known {
    value: String,
    trials: usize,
    changes: bool,
}

/// All facts of one arm on one workload, and in how many trials they were collected.
#[derive(Debug, Default)]
struct ArmFacts {
    trials: usize,
    known: BTreeMap<String, Known>,
}

/// A fact's value for each arm.
type Values = BTreeMap<String, Option<String>>;

/// The differences between the arms, by fact. Arms without facts are not compared.
pub(crate) fn of(run: &Run) -> Vec<Difference> {
    let mut differences = BTreeMap::<String, Values>::new();
    let mut noise = BTreeSet::new();
    for workload in &run.plan.workloads {
        let arms = collect(run, &workload.id);
        noise.extend(arms.values().flat_map(noisy).map(str::to_string));
        for fact in arms.values().flat_map(|arm| arm.known.keys()) {
            if !differences.contains_key(fact) && differs(&arms, fact) {
                differences.insert(fact.clone(), values(&arms, fact));
            }
        }
    }
    let steady = differences
        .into_iter()
        .filter(|(fact, _)| !noise.contains(fact));
    let difference = |(fact, values): (String, Values)| Difference {
        declared: is_declared(&run.plan, &fact, &values),
        fact,
        values,
        class: Class::default(),
        formerly: None,
        pin: None,
    };
    steady.map(difference).collect()
}

fn collect<'r>(run: &'r Run, workload: &str) -> BTreeMap<&'r str, ArmFacts> {
    let mut arms = BTreeMap::<&str, ArmFacts>::new();
    for (record, facts) in run.attempts.iter().zip(&run.facts) {
        let measured = matches!(record.outcome, Outcome::Measured(_));
        if let (true, true, Some(facts)) = (measured, record.trial.workload == workload, facts) {
            arms.entry(&record.trial.arm).or_default().add(facts);
        }
    }
    arms
}

impl ArmFacts {
    fn add(&mut self, facts: &Facts) {
        self.trials += 1;
        facts
            .values
            .iter()
            .for_each(|(key, value)| self.note(key.clone(), value));
        facts
            .sysctls
            .iter()
            .for_each(|(name, value)| self.note(format!("sysctl {name}"), value));
        facts
            .kernel_config
            .iter()
            .for_each(|(name, value)| self.note(name.clone(), value));
        for line in notable(&facts.boot_log) {
            self.note(format!("boot log: {line}"), "logged");
        }
    }

    fn note(&mut self, fact: String, value: &str) {
        let known = self.known.entry(fact).or_default();
        if known.trials == 0 {
            known.value = value.into();
        }
        known.trials += 1;
        known.changes |= known.value != value;
    }
}

/// The lines that matter, each once, with their numbers blotted out: addresses and sizes vary.
fn notable(boot_log: &[String]) -> BTreeSet<String> {
    let matters = |line: &&String| {
        let line = line.to_lowercase();
        NOTABLE.iter().any(|word| line.contains(word))
    };
    boot_log
        .iter()
        .filter(matters)
        .map(|line| blot(line))
        .collect()
}

fn blot(line: &str) -> String {
    let mut blotted = String::with_capacity(line.len());
    for letter in line.chars() {
        match letter {
            '0'..='9' if blotted.ends_with('#') => {}
            '0'..='9' => blotted.push('#'),
            other => blotted.push(other),
        }
    }
    blotted
}

/// Facts that are not the same, or not there, in every trial of the arm.
fn noisy(arm: &ArmFacts) -> impl Iterator<Item = &str> {
    let noisy = |known: &Known| known.changes || known.trials != arm.trials;
    arm.known
        .iter()
        .filter(move |(_, known)| noisy(known))
        .map(|(fact, _)| fact.as_str())
}

fn differs(arms: &BTreeMap<&str, ArmFacts>, fact: &str) -> bool {
    let mut values = arms
        .values()
        .map(|arm| arm.known.get(fact).map(|known| &known.value));
    let first = values.next();
    values.any(|value| Some(value) != first)
}

fn values(arms: &BTreeMap<&str, ArmFacts>, fact: &str) -> Values {
    let value = |arm: &ArmFacts| arm.known.get(fact).map(|known| known.value.clone());
    arms.iter()
        .map(|(name, arm)| ((*name).to_string(), value(arm)))
        .collect()
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
    // Beside another kernel a limit is no question but a handicap.
    if fact.starts_with("limit:") && fact.ends_with(":open files") {
        let mut kernels = plan.arms.iter().map(|arm| &arm.kernel);
        let is_one_kernel = kernels.all(|kernel| *kernel == plan.arms[0].kernel);
        return is_one_kernel && is_set(|arm| arm.tuning.nofile.is_some());
    }
    // A server is told how many CPUs it has: nginx starts as many workers.
    if fact.starts_with("workers:") {
        return has_own_cpus;
    }
    if fact.starts_with("hash:configuration:") {
        return has_own_cpus || is_set(|arm| arm.tuning.has_config());
    }
    if fact.starts_with("version:") || fact.starts_with("hash:server:") {
        return is_set(|arm| !arm.tuning.programs.is_empty());
    }
    if fact == "/proc/cmdline" {
        let mut rests = plan.arms.iter().filter_map(|arm| {
            let line = values.get(&arm.name)?.as_ref()?;
            Some(without_own(line, arm))
        });
        let first = rests.next();
        return rests.all(|rest| Some(rest) == first);
    }
    false
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
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use fixtures::builder::RunBuilder;

    fn facts(pairs: &[(&str, &str)]) -> Facts {
        let values = pairs
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()));
        Facts {
            values: values.collect(),
            ..Facts::default()
        }
    }

    fn check(builder: RunBuilder, want: &Expect) {
        let lines: Vec<String> = of(&builder.run())
            .iter()
            .map(|difference| {
                let values: Vec<_> = difference.values.values().collect();
                let kind = if difference.declared {
                    "declared"
                } else {
                    "other"
                };
                format!("{kind} {}: {values:?}", difference.fact)
            })
            .collect();
        want.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn a_fact_that_changes_within_an_arm_is_noise() {
        let builder = RunBuilder::new()
            .observed(1, "6.1", facts(&[("id", "a"), ("thp", "always")]))
            .observed(1, "7.2", facts(&[("id", "b"), ("thp", "madvise")]))
            .observed(2, "6.1", facts(&[("id", "c"), ("thp", "always")]))
            .observed(2, "7.2", facts(&[("id", "d"), ("thp", "madvise")]));
        check(
            builder,
            &expect![[r#"other thp: [Some("always"), Some("madvise")]"#]],
        );
    }

    #[test]
    fn a_fact_that_comes_and_goes_is_noise_too() {
        let builder = RunBuilder::new()
            .observed(1, "6.1", facts(&[]))
            .observed(1, "7.2", facts(&[("io_uring", "yes"), ("modules", "x")]))
            .observed(2, "7.2", facts(&[("io_uring", "yes")]));
        check(
            builder,
            &expect![[r#"other io_uring: [None, Some("yes")]"#]],
        );
    }

    #[test]
    fn the_plan_declares_kernel_command_line_and_sysctls() {
        let some = |version: &str, cmdline: &str, somaxconn: &str, swappiness: &str| {
            let mut facts = facts(&[("/proc/version", version), ("/proc/cmdline", cmdline)]);
            facts
                .sysctls
                .insert("net.core.somaxconn".into(), somaxconn.into());
            facts
                .sysctls
                .insert("vm.swappiness".into(), swappiness.into());
            facts
                .kernel_config
                .insert("CONFIG_HZ".into(), version.into());
            facts
        };
        let builder = RunBuilder::new()
            .with(|run| {
                run.plan.arms[1].cmdline = "mitigations=off".into();
                run.plan.arms[1]
                    .sysctl
                    .insert("net.core.somaxconn".into(), "4096".into());
            })
            .observed(1, "6.1", some("6.1", "quiet", "128", "60"))
            .observed(1, "7.2", some("7.2", "quiet mitigations=off", "4096", "10"));
        check(
            builder,
            &expect![[r#"
            declared /proc/cmdline: [Some("quiet"), Some("quiet mitigations=off")]
            declared /proc/version: [Some("6.1"), Some("7.2")]
            other CONFIG_HZ: [Some("6.1"), Some("7.2")]
            declared sysctl net.core.somaxconn: [Some("128"), Some("4096")]
            other sysctl vm.swappiness: [Some("60"), Some("10")]"#]],
        );
    }

    #[test]
    fn another_command_line_than_the_plan_asks_for_is_not_declared() {
        let builder = RunBuilder::new()
            .observed(1, "6.1", facts(&[("/proc/cmdline", "quiet")]))
            .observed(1, "7.2", facts(&[("/proc/cmdline", "quiet mem=960M")]));
        check(
            builder,
            &expect![[r#"other /proc/cmdline: [Some("quiet"), Some("quiet mem=960M")]"#]],
        );
    }

    #[test]
    fn what_a_box_is_told_of_its_cpus_is_declared_with_them() {
        let builder = |cpus| {
            let told = "quiet nr_cpus=1 bakeoff.modules=igb";
            RunBuilder::new()
                .with(|run| run.plan.arms[0].cpus = cpus)
                .observed(1, "6.1", facts(&[("/proc/cmdline", told)]))
                .observed(
                    1,
                    "7.2",
                    facts(&[("/proc/cmdline", "quiet bakeoff.modules=igb,x")]),
                )
        };
        check(
            builder(Some(1)),
            &expect![[
                r#"declared /proc/cmdline: [Some("quiet nr_cpus=1 bakeoff.modules=igb"), Some("quiet bakeoff.modules=igb,x")]"#
            ]],
        );
        check(
            builder(None),
            &expect![[
                r#"other /proc/cmdline: [Some("quiet nr_cpus=1 bakeoff.modules=igb"), Some("quiet bakeoff.modules=igb,x")]"#
            ]],
        );
    }

    #[test]
    fn cpus_of_an_arms_own_are_declared_and_others_are_not() {
        let cpus = |list: &str, online: &str| {
            let hash = "hash:configuration:nginx:nginx.conf";
            facts(&[
                (CPUS, list),
                ("/sys/devices/system/cpu/online", online),
                (hash, list),
            ])
        };
        let run = |builder: RunBuilder| {
            builder
                .observed(1, "6.1", cpus("0", "0"))
                .observed(1, "7.2", cpus("0-3", "0-3"))
        };
        check(
            run(RunBuilder::new().with(|run| run.plan.arms[1].cpus = Some(4))),
            &expect![[r#"
                declared /sys/devices/system/cpu/online: [Some("0"), Some("0-3")]
                declared cpus: [Some("0"), Some("0-3")]
                declared hash:configuration:nginx:nginx.conf: [Some("0"), Some("0-3")]"#]],
        );
        check(
            run(RunBuilder::new()),
            &expect![[r#"
                other /sys/devices/system/cpu/online: [Some("0"), Some("0-3")]
                other cpus: [Some("0"), Some("0-3")]
                other hash:configuration:nginx:nginx.conf: [Some("0"), Some("0-3")]"#]],
        );
    }

    #[test]
    fn a_limit_of_open_files_is_declared_where_it_is_the_question() {
        let run = |change: fn(&mut Run)| {
            let limit = |files: &str| facts(&[("limit:apache2:open files", files)]);
            RunBuilder::new()
                .observed(1, "6.1", limit("64"))
                .observed(1, "7.2", limit("1048576"))
                .with(|run| run.plan.arms[0].tuning.nofile = Some(64))
                .with(change)
        };
        check(
            run(|run| run.plan.arms[1].kernel = run.plan.arms[0].kernel.clone()),
            &expect![[r#"declared limit:apache2:open files: [Some("64"), Some("1048576")]"#]],
        );
        check(
            run(|_| {}),
            &expect![[r#"other limit:apache2:open files: [Some("64"), Some("1048576")]"#]],
        );
    }

    #[test]
    fn boot_logs_are_compared_by_what_matters_and_without_numbers() {
        let log = |lines: &[&str]| Facts {
            boot_log: lines.iter().map(|line| (*line).into()).collect(),
            ..Facts::default()
        };
        let builder = RunBuilder::new()
            .observed(
                1,
                "6.1",
                log(&["Booting 6.1", "pci 0000:00: failed at 0x12"]),
            )
            .observed(
                1,
                "7.2",
                log(&["Booting 7.2", "pci 0000:00: failed at 0x99", "unable: 7"]),
            );
        check(
            builder,
            &expect![[r#"other boot log: unable: #: [None, Some("logged")]"#]],
        );
    }

    #[test]
    fn one_arm_alone_differs_in_nothing() {
        check(
            RunBuilder::new().observed(1, "6.1", facts(&[("a", "1")])),
            &expect![[""]],
        );
    }
}
