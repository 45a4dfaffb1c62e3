//! All settings of an arm in one list, used by the disclosure, the report's page and the check of one-sided tuning.

use base::input::units;
use serde::{Deserialize, Serialize};

use crate::arm::{Arm, Tuning};
use crate::file_system::FileSystem;
use crate::scheduler::Scheduler;

/// One setting of an arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmSetting {
    /// Its kind.
    pub kind: SettingKind,
    /// Its name; empty if the kind is enough.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Kinds of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingKind {
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
    /// The application server.
    Server,
    /// The servers' programs.
    Program,
    /// Limit of open files of the servers' processes.
    OpenFiles,
    /// The CPU scheduler that replaces the kernel's.
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

/// How a kind of setting is shown and compared.
#[derive(Debug)]
pub struct KindTraits {
    /// The kind.
    pub kind: SettingKind,
    /// Name of all settings of the kind: `sysctls`.
    pub plural: &'static str,
    /// Form of a setting without a name: `CPUs {value}`.
    pub unnamed: &'static str,
    /// Form of a setting with a name: `{name}={value}`.
    pub named: &'static str,
    /// What it tunes; kinds with the same text count as one. `None` if it only takes resources away.
    pub tunes: Option<&'static str>,
    /// Whether it is rarely set, so that its absence need not be mentioned.
    pub is_seldom: bool,
}

const NAMED: &str = "{name}={value}";

/// All kinds of settings in the order of the report. A new key of an arm needs a row here.
pub const SETTING_KINDS: [KindTraits; 13] = {
    use SettingKind::{
        CommandLine, Configuration, Cpus, Debugfs, Environment, FileSystem, Injected, IoScheduler,
        OpenFiles, Program, Scheduler, Server, Sysctl,
    };
    const fn row(
        kind: SettingKind,
        plural: &'static str,
        [unnamed, named]: [&'static str; 2],
        tunes: Option<&'static str>,
    ) -> KindTraits {
        let is_seldom = matches!(kind, Injected | OpenFiles | Scheduler | FileSystem | Server);
        KindTraits {
            kind,
            plural,
            unnamed,
            named,
            tunes,
            is_seldom,
        }
    }
    const PARAMETERS: Option<&str> = Some("kernel parameters");
    const SYSCTLS: Option<&str> = Some("sysctls");
    const DISKS: Option<&str> = Some("scheduler, queue or file system of disks");
    [
        row(
            CommandLine,
            "command line",
            ["command line {value}", NAMED],
            PARAMETERS,
        ),
        row(Sysctl, "sysctls", ["", NAMED], SYSCTLS),
        row(Cpus, "CPUs", ["CPUs {value}", NAMED], None),
        row(
            Environment,
            "environment",
            ["", "environment {name}={value}"],
            Some("environment of services"),
        ),
        row(
            Configuration,
            "server configuration",
            ["configuration {value}", "configuration of {name} {value}"],
            Some("configuration of servers"),
        ),
        row(Server, "application server", ["{value}", NAMED], None),
        row(
            Program,
            "server programs",
            ["", "{name} is {value}"],
            Some("programs"),
        ),
        row(
            OpenFiles,
            "open files",
            ["open files {value}", NAMED],
            Some("limit of open files"),
        ),
        row(
            Scheduler,
            "scheduler",
            ["scheduler {value}", NAMED],
            PARAMETERS,
        ),
        row(
            IoScheduler,
            "I/O scheduler",
            ["I/O scheduler {value}", "disk queue {name} {value}"],
            DISKS,
        ),
        row(
            FileSystem,
            "file system",
            ["file system {value}", NAMED],
            DISKS,
        ),
        row(Debugfs, "debugfs", ["", "debugfs {name}={value}"], SYSCTLS),
        row(
            Injected,
            "injected slowdown",
            ["", "injected {name} {value}"],
            None,
        ),
    ]
};

impl SettingKind {
    /// How it is shown and compared.
    pub fn traits(self) -> &'static KindTraits {
        let row = SETTING_KINDS.iter().find(|row| row.kind == self);
        row.expect("each kind has its row")
    }

    /// The first kind with the same `tunes`; `None` if it tunes nothing.
    pub fn tuned_alike(self) -> Option<Self> {
        let tunes = self.traits().tunes?;
        let mut rows = SETTING_KINDS.iter();
        let first = rows.find(|row| row.tunes == Some(tunes))?;
        Some(first.kind)
    }
}

impl ArmSetting {
    /// Shows the setting with `value` in place of its value.
    pub fn show(&self, value: &str) -> String {
        let traits = self.kind.traits();
        let form = match self.name.as_str() {
            "" => traits.unnamed,
            _ => traits.named,
        };
        form.replace("{name}", &self.name).replace("{value}", value)
    }
}

impl Arm {
    /// Its settings by kind; empty for an arm with defaults only.
    pub fn settings(&self) -> Vec<ArmSetting> {
        let mut settings = Vec::new();
        // Without `..`, so that a new key of an arm is not forgotten.
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
        add(&mut settings, SettingKind::CommandLine, "", cmdline);
        for (name, value) in sysctl {
            add(&mut settings, SettingKind::Sysctl, name, value);
        }
        if let Some(cpus) = cpus {
            add(&mut settings, SettingKind::Cpus, "", &cpus.to_string());
        }
        add_tuning(&mut settings, tuning);
        settings.sort_by_key(|setting| setting.kind);
        settings
    }
}

fn add_tuning(settings: &mut Vec<ArmSetting>, tuning: &Tuning) {
    let Tuning {
        env,
        config,
        config_file,
        server_config,
        server,
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
    let mut add = |kind, name: &str, value: &str| add(settings, kind, name, value);
    for (name, value) in env {
        add(SettingKind::Environment, name, value);
    }
    add(SettingKind::Configuration, "", config.trim());
    for (server, change) in server_config {
        add(SettingKind::Configuration, server, change.directives.trim());
    }
    let files = server_config
        .values()
        .filter_map(|change| change.file.as_ref());
    for file in config_file.iter().chain(files) {
        add(SettingKind::Configuration, "file", &file.path);
    }
    add(SettingKind::Server, "", server.as_deref().unwrap_or(""));
    for (service, path) in programs {
        add(SettingKind::Program, service, path);
    }
    if let Some(limit) = nofile {
        add(SettingKind::OpenFiles, "", &limit.to_string());
    }
    add(
        SettingKind::Scheduler,
        "",
        scheduler.map_or("", Scheduler::word),
    );
    add(SettingKind::IoScheduler, "", io_scheduler);
    for (name, value) in queue {
        add(SettingKind::IoScheduler, name, value);
    }
    let file_system = file_system.filter(|system| *system != FileSystem::default());
    let file_system = file_system.map_or("", FileSystem::word);
    add(SettingKind::FileSystem, "", file_system);
    for (name, value) in debugfs {
        add(SettingKind::Debugfs, name, value);
    }
    if *injected_slowdown > 0.0 {
        add(
            SettingKind::Injected,
            "slowdown",
            &injected_slowdown.to_string(),
        );
    }
    if let Some(period) = injected_period {
        add(
            SettingKind::Injected,
            "period",
            &units::show_duration(*period),
        );
    }
    if let Some(cost) = injected_cost {
        add(
            SettingKind::Injected,
            &cost.function,
            &cost.instructions.to_string(),
        );
    }
}

fn add(settings: &mut Vec<ArmSetting>, kind: SettingKind, name: &str, value: &str) {
    if !value.is_empty() {
        settings.push(ArmSetting {
            kind,
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
            server: Some("wildfly".into()),
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
        let kinds: BTreeSet<SettingKind> =
            arm.settings().iter().map(|setting| setting.kind).collect();
        let all: BTreeSet<SettingKind> = SETTING_KINDS.iter().map(|row| row.kind).collect();
        assert_eq!(kinds, all);
        let names = |kind| -> Vec<String> {
            let settings = arm.settings().into_iter();
            settings
                .filter(|setting| setting.kind == kind)
                .map(|setting| setting.name)
                .collect()
        };
        assert_eq!(names(SettingKind::IoScheduler), ["", "nr_requests"]);
        assert_eq!(
            names(SettingKind::Injected),
            ["slowdown", "period", "do_exit"]
        );
        // A server without directives has no setting.
        assert_eq!(names(SettingKind::Configuration), ["", "file"]);
    }
}
