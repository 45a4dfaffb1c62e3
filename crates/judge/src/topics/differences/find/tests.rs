//! Tests: facts that differ, and facts whose difference the plan declares.

use expect_test::{Expect, expect};

use super::*;
use record::evidence::Facts;
use record::fixtures::builder::RunBuilder;

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
    want.assert_eq(&differences(builder));
}

fn differences(builder: RunBuilder) -> String {
    let lines: Vec<String> = of(&builder.run())
        .iter()
        .map(|difference| {
            let values: Vec<_> = difference.values.values().collect();
            let kind = if difference.declared {
                "declared"
            } else {
                "other"
            };
            let varying = difference.varying.iter().map(|(arm, seen)| {
                let values = seen.iter();
                let values = values.map(|seen| format!("{:?} in {:?}", seen.value, seen.trials));
                format!("; {arm}: {}", values.collect::<Vec<_>>().join(", "))
            });
            let varying: String = varying.collect();
            format!("{kind} {}: {values:?}{varying}", difference.fact)
        })
        .collect();
    lines.join("\n")
}

#[test]
fn a_fact_that_changes_within_an_arm_is_found() {
    let builder = RunBuilder::new()
        .observed_pair(
            1,
            [
                facts(&[("agent:settled", "1 s"), ("hz", "250")]),
                facts(&[("agent:settled", "2 s"), ("hz", "250")]),
            ],
        )
        .observed_pair(
            2,
            [
                facts(&[("agent:settled", "3 s"), ("hz", "1000")]),
                facts(&[("agent:settled", "4 s"), ("hz", "250")]),
            ],
        )
        .observed(3, "6.1", facts(&[("agent:settled", "5 s"), ("hz", "250")]));
    check(
        builder,
        &expect![[
            r#"other hz: [Some("250"), Some("250")]; 6.1: Some("250") in [1, 5], Some("1000") in [3]"#
        ]],
    );
}

#[test]
fn a_fact_that_comes_and_goes_is_found_too() {
    let builder = RunBuilder::new()
        .observed_pair(
            1,
            [
                facts(&[("thp", "always")]),
                facts(&[("io_uring", "yes"), ("thp", "always")]),
            ],
        )
        .observed(2, "7.2", facts(&[("thp", "always")]));
    check(
        builder,
        &expect![[r#"other io_uring: [None, Some("yes")]; 7.2: Some("yes") in [2], None in [3]"#]],
    );
}

#[test]
fn a_difference_within_an_arm_is_not_declared() {
    let version = |release: &str| facts(&[("/proc/version", release)]);
    let builder = RunBuilder::new()
        .observed_pair(1, [version("6.1"), version("7.2")])
        .observed(2, "7.2", version("6.1"));
    check(
        builder,
        &expect![[
            r#"other /proc/version: [Some("6.1"), Some("7.2")]; 7.2: Some("7.2") in [2], Some("6.1") in [3]"#
        ]],
    );
}

#[test]
fn a_list_that_is_missing_in_one_arm_is_no_difference() {
    let with = |config: &[(&str, &str)], sysctls: &[(&str, &str)]| {
        let map = |pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()));
            pairs.collect()
        };
        Facts {
            kernel_config: map(config),
            sysctls: map(sysctls),
            ..facts(&[("thp", "always")])
        }
    };
    let full = || {
        with(
            &[("CONFIG_HZ", "250")],
            &[("net.core.rmem_max", "1"), ("vm.x", "1")],
        )
    };
    let builder = |other: Facts| RunBuilder::new().observed_pair(1, [full(), other]);
    check(builder(with(&[], &[])), &expect![[""]]);
    check(builder(Facts::default()), &expect![[""]]);
    // What is missing in a list that is there counts as absent from the kernel.
    check(
        builder(with(&[("CONFIG_PSI", "y")], &[("vm.y", "1")])),
        &expect![[r#"
            other CONFIG_HZ: [Some("250"), None]
            other CONFIG_PSI: [None, Some("y")]
            other sysctl net.core.rmem_max: [Some("1"), None]
            other sysctl vm.x: [Some("1"), None]
            other sysctl vm.y: [None, Some("1")]"#]],
    );
}

#[test]
fn close_sizes_of_memory_are_no_difference() {
    let memory = |size: &str| facts(&[("/proc/meminfo:MemTotal", size)]);
    let builder = |other: &str| {
        RunBuilder::new()
            .observed_pair(1, [memory("995364 kB"), memory("995360 kB")])
            .observed_pair(2, [memory("995364 kB"), memory(other)])
    };
    check(builder("995364 kB"), &expect![[""]]);
    check(
        builder("495364 kB"),
        &expect![[
            r#"other /proc/meminfo:MemTotal: [Some("995364 kB"), Some("995360 kB")]; 7.2: Some("995360 kB") in [2], Some("495364 kB") in [4]"#
        ]],
    );
}

#[test]
fn nginx_configurations_are_declared_to_differ_if_an_arm_limits_open_files() {
    let hash = |hash: &str| facts(&[("hash:configuration:nginx:nginx.conf", hash)]);
    let run = |nofile| {
        RunBuilder::new()
            .observed_pair(1, [hash("a"), hash("b")])
            .with(move |run| run.plan.arms[0].tuning.nofile = nofile)
    };
    for (nofile, kind) in [(Some(64), "declared"), (None, "other")] {
        let want = r#"hash:configuration:nginx:nginx.conf: [Some("a"), Some("b")]"#;
        assert_eq!(differences(run(nofile)), format!("{kind} {want}"));
    }
}

#[test]
fn settings_of_java_are_declared_by_its_environment_and_by_the_servers_config() {
    type Change = fn(&mut plan::Tuning);
    let run = |change: Change| {
        let collector = |name: &str| facts(&[("java:collector", name)]);
        RunBuilder::new()
            .observed_pair(1, [collector("Serial"), collector("G1")])
            .with(move |run| change(&mut run.plan.arms[1].tuning))
    };
    let changes: [(&str, Change); 4] = [
        ("other", |_| {}),
        ("other", |tuning| tuning.server = Some("wildfly".into())),
        ("declared", |tuning| tuning.config = "<executor/>".into()),
        ("declared", |tuning| {
            tuning.env = [("JDK_JAVA_OPTIONS".into(), "-XX:+UseG1GC".into())].into();
        }),
    ];
    for (kind, change) in changes {
        let want = r#"java:collector: [Some("Serial"), Some("G1")]"#;
        assert_eq!(differences(run(change)), format!("{kind} {want}"));
    }
}

#[test]
fn the_plan_declares_kernel_command_line_and_sysctls() {
    let trial = |version: &str, cmdline: &str, somaxconn: &str, swappiness: &str| {
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
        .observed_pair(
            1,
            [
                trial("6.1", "quiet", "128", "60"),
                trial("7.2", "quiet mitigations=off", "4096", "10"),
            ],
        );
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
    let builder = RunBuilder::new().observed_pair(
        1,
        [
            facts(&[("/proc/cmdline", "quiet")]),
            facts(&[("/proc/cmdline", "quiet mem=960M")]),
        ],
    );
    check(
        builder,
        &expect![[r#"other /proc/cmdline: [Some("quiet"), Some("quiet mem=960M")]"#]],
    );
}

#[test]
fn a_limit_of_cpus_on_the_command_line_is_declared_if_the_plan_sets_it() {
    let builder = |cpus| {
        let cmdline = "quiet nr_cpus=1 bakeoff.modules=igb";
        RunBuilder::new()
            .with(|run| run.plan.arms[0].cpus = cpus)
            .observed(1, "6.1", facts(&[("/proc/cmdline", cmdline)]))
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
fn differing_cpus_are_declared_if_the_plan_sets_them() {
    let cpus = |list: &str, online: &str| {
        let hash = "hash:configuration:nginx:nginx.conf";
        facts(&[
            (CPUS, list),
            ("/sys/devices/system/cpu/online", online),
            (hash, list),
        ])
    };
    let run = |builder: RunBuilder| builder.observed_pair(1, [cpus("0", "0"), cpus("0-3", "0-3")]);
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
fn schedulers_and_queues_of_disks_are_declared_if_the_plan_sets_them() {
    let queue = |name: &str| format!("/sys/block/ublkb0/queue/{name}");
    let run = |change: fn(&mut Run)| {
        let queue_facts = |value: &str| {
            let names = ["scheduler", "nr_requests", "read_ahead_kb"].map(queue);
            facts(&names.each_ref().map(|name| (name.as_str(), value)))
        };
        RunBuilder::new()
            .observed_pair(1, [queue_facts("1"), queue_facts("2")])
            .with(|run| run.plan.arms[1].kernel = run.plan.arms[0].kernel.clone())
            .with(change)
    };
    check(
        run(|run| run.plan.arms[0].tuning.io_scheduler = "bfq".into()),
        &expect![[r#"
            declared /sys/block/ublkb0/queue/nr_requests: [Some("1"), Some("2")]
            other /sys/block/ublkb0/queue/read_ahead_kb: [Some("1"), Some("2")]
            declared /sys/block/ublkb0/queue/scheduler: [Some("1"), Some("2")]"#]],
    );
    check(
        run(|run| {
            run.plan.arms[0].tuning.queue = [("read_ahead_kb".into(), "0".into())].into();
        }),
        &expect![[r#"
            other /sys/block/ublkb0/queue/nr_requests: [Some("1"), Some("2")]
            declared /sys/block/ublkb0/queue/read_ahead_kb: [Some("1"), Some("2")]
            other /sys/block/ublkb0/queue/scheduler: [Some("1"), Some("2")]"#]],
    );
}

#[test]
fn a_limit_of_open_files_is_declared_if_the_kernels_are_the_same() {
    let run = |change: fn(&mut Run)| {
        let limit = |files: &str| facts(&[("limit:apache2:open files", files)]);
        RunBuilder::new()
            .observed_pair(1, [limit("64"), limit("1048576")])
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
fn only_notable_lines_of_boot_logs_are_compared_and_without_numbers() {
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
fn a_single_arm_has_no_differences() {
    check(
        RunBuilder::new().observed(1, "6.1", facts(&[("a", "1")])),
        &expect![[""]],
    );
}
