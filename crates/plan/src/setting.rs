//! Every setting of an arm in one list: the disclosure, the report's page and the check of one-sided tuning all read it.

use input::units;
use serde::{Deserialize, Serialize};

use crate::arm::{Arm, Tuning};
use crate::file_system::FileSystem;
use crate::scheduler::Scheduler;

/// One setting of an arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmSetting {
    /// Of which kind.
    pub knob: Knob,
    /// Its name; empty where the kind says all.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// What an arm may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Knob {
    /// The kernel's command line.
    CommandLine,
    /// Sysctls.
    Sysctl,
    /// The number of CPUs.
    Cpus,
    /// The servers' environment.
    Environment,
    /// The servers' configuration.
    Configuration,
    /// The servers' programs.
    Program,
    /// How many files a process of the servers may open.
    OpenFiles,
    /// The scheduler that the kernel runs in place of its own.
    Scheduler,
    /// The I/O scheduler and its queue.
    IoScheduler,
    /// The file system of the workload's disk.
    FileSystem,
    /// Files of debugfs.
    Debugfs,
    /// A slowdown or a cost of known size.
    Injected,
}

impl Knob {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 12] = [
        Self::CommandLine,
        Self::Sysctl,
        Self::Cpus,
        Self::Environment,
        Self::Configuration,
        Self::Program,
        Self::OpenFiles,
        Self::Scheduler,
        Self::IoScheduler,
        Self::FileSystem,
        Self::Debugfs,
        Self::Injected,
    ];
}

impl Arm {
    /// What it changes, by kind; none of an arm that is as it is shipped.
    pub fn settings(&self) -> Vec<ArmSetting> {
        let mut settings = Vec::new();
        // No `..`: a new key of an arm stands here too, or this does not compile.
        let Self {
            name: _,
            line: _,
            kernel: _,
            tuned: _,
            cmdline,
            sysctl,
            cpus,
            tuning,
        } = self;
        add(&mut settings, Knob::CommandLine, "", cmdline);
        for (name, value) in sysctl {
            add(&mut settings, Knob::Sysctl, name, value);
        }
        if let Some(cpus) = cpus {
            add(&mut settings, Knob::Cpus, "", &cpus.to_string());
        }
        add_tuning(&mut settings, tuning);
        settings.sort_by_key(|setting| setting.knob);
        settings
    }
}

fn add_tuning(settings: &mut Vec<ArmSetting>, tuning: &Tuning) {
    let Tuning {
        env,
        config,
        config_file,
        server_config,
        programs,
        injected_slowdown,
        injected_period,
        injected_cost,
        io_scheduler,
        queue,
        file_system,
        nofile,
        debugfs,
        scheduler,
    } = tuning;
    let mut add = |knob, name: &str, value: &str| add(settings, knob, name, value);
    for (name, value) in env {
        add(Knob::Environment, name, value);
    }
    add(Knob::Configuration, "", config.trim());
    for (server, change) in server_config {
        add(Knob::Configuration, server, change.directives.trim());
    }
    let files = server_config
        .values()
        .filter_map(|change| change.file.as_ref());
    for file in config_file.iter().chain(files) {
        add(Knob::Configuration, "file", &file.path);
    }
    for (service, path) in programs {
        add(Knob::Program, service, path);
    }
    if let Some(most) = nofile {
        add(Knob::OpenFiles, "", &most.to_string());
    }
    add(Knob::Scheduler, "", scheduler.map_or("", Scheduler::word));
    add(Knob::IoScheduler, "", io_scheduler);
    for (name, value) in queue {
        add(Knob::IoScheduler, name, value);
    }
    let other = file_system.filter(|system| *system != FileSystem::default());
    add(Knob::FileSystem, "", other.map_or("", FileSystem::word));
    for (name, value) in debugfs {
        add(Knob::Debugfs, name, value);
    }
    if *injected_slowdown > 0.0 {
        add(Knob::Injected, "slowdown", &injected_slowdown.to_string());
    }
    if let Some(period) = injected_period {
        add(Knob::Injected, "period", &units::show_duration(*period));
    }
    if let Some(cost) = injected_cost {
        add(
            Knob::Injected,
            &cost.function,
            &cost.instructions.to_string(),
        );
    }
}

fn add(settings: &mut Vec<ArmSetting>, knob: Knob, name: &str, value: &str) {
    if !value.is_empty() {
        settings.push(ArmSetting {
            knob,
            name: name.into(),
            value: value.into(),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::arm::{ConfigFile, InjectedCost};
    use crate::{KernelRef, TuningNote};

    #[test]
    fn every_key_of_an_arm_is_a_setting() {
        let value = |name: &str| [(name.to_string(), "1".to_string())].into();
        let tuning = Tuning {
            env: value("A"),
            config: "KeepAlive Off\n".into(),
            config_file: Some(ConfigFile {
                path: "whole.conf".into(),
                text: String::new(),
            }),
            server_config: [("nginx".into(), crate::ConfigChange::default())].into(),
            programs: value("nginx"),
            injected_slowdown: 0.1,
            injected_period: Some(Duration::from_millis(2)),
            injected_cost: Some(InjectedCost {
                function: "do_exit".into(),
                instructions: 10,
            }),
            io_scheduler: "bfq".into(),
            queue: value("nr_requests"),
            file_system: Some(FileSystem::Xfs),
            nofile: Some(64),
            debugfs: value("sched/features"),
            scheduler: Some(Scheduler::Fifo),
        };
        let arm = Arm {
            name: "tuned".into(),
            line: 1,
            kernel: KernelRef::Running,
            cmdline: "quiet".into(),
            sysctl: value("vm.swappiness"),
            cpus: Some(1),
            tuning,
            tuned: TuningNote::default(),
        };
        let knobs: BTreeSet<Knob> = arm.settings().iter().map(|setting| setting.knob).collect();
        assert_eq!(knobs, Knob::ALL.into());
        let names = |knob| -> Vec<String> {
            let settings = arm.settings().into_iter();
            settings
                .filter(|setting| setting.knob == knob)
                .map(|setting| setting.name)
                .collect()
        };
        assert_eq!(names(Knob::IoScheduler), ["", "nr_requests"]);
        assert_eq!(names(Knob::Injected), ["slowdown", "period", "do_exit"]);
        // A server that is named without a directive changes nothing.
        assert_eq!(names(Knob::Configuration), ["", "file"]);
    }
}
