//! `[arm.NAME]`: the arms to compare.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use base::input::problem::remedy_among;
use base::input::units;
use serde::{Deserialize, Serialize};

use crate::disclosure::{TuningNote, read_tuning_note};
use crate::fields::Fields;
use crate::file_system::{self, FileSystem};
use crate::kernel::{self, KernelRef};
use crate::machine::{Clock, MachineKind, MachinePlan};
use crate::queue::read_queue;
use crate::scheduler::{self, Scheduler};
use crate::sysctl;
use crate::target::read_target;
use crate::{Checks, WorkloadPlan};

/// One of the systems compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// Line of the plan that names its kernel, counted from 1.
    pub line: usize,
    /// Its kernel.
    pub kernel: KernelRef,
    /// Additions to the kernel command line.
    pub cmdline: String,
    /// Sysctls to set before services start, by dotted name.
    pub sysctl: BTreeMap<String, String>,
    /// Its number of CPUs; `None` for the machine's.
    pub cpus: Option<u32>,
    /// Its changes beyond the kernel.
    pub tuning: Tuning,
    /// Who chose its settings, and why.
    pub tuned: TuningNote,
}

/// An arm's changes to the services and their resources.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// Additional environment variables of services.
    pub env: BTreeMap<String, String>,
    /// Directives for the configuration of a workload's first server; each replaces bakeoff's of the same name.
    pub config: String,
    /// A whole configuration for that server in place of bakeoff's.
    pub config_file: Option<ConfigFile>,
    /// Changes to the configurations of other servers, by the server's name.
    pub server_config: BTreeMap<String, ConfigChange>,
    /// The application server, in place of the one that workloads name.
    pub server: Option<String>,
    /// Absolute paths of programs to start in place of a service's, by the service's name.
    pub programs: BTreeMap<String, String>,
    /// Share of every CPU to take away while the load runs, as a slowdown of known size.
    pub injected_slowdown: f64,
    /// Period of the injected slowdown; `None` for the default.
    pub injected_period: Option<Duration>,
    /// Additional instructions of one kernel function, as a cost of known size and place.
    pub injected_cost: Option<InjectedCost>,
    /// I/O scheduler of the workload's separate disk; empty for the kernel's default.
    pub io_scheduler: String,
    /// Settings of that disk's queue and of its scheduler, by file name.
    pub queue: BTreeMap<String, String>,
    /// File system of the workload's separate disk; `None` for the default.
    pub file_system: Option<FileSystem>,
    /// Limit of open files of a service's process; `None` for bakeoff's limit.
    pub nofile: Option<u32>,
    /// Values to write to files of debugfs before anything is started, by path below debugfs.
    pub debugfs: BTreeMap<String, String>,
    /// CPU scheduler that replaces the kernel's.
    pub scheduler: Option<Scheduler>,
}

/// A kernel function that executes additional instructions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InjectedCost {
    /// Its name in `/proc/kallsyms`.
    pub function: String,
    /// Additional instructions per call, without those of the probe itself.
    pub instructions: u32,
}

impl Tuning {
    /// Whether it changes the configuration of any server.
    pub fn has_config(&self) -> bool {
        !self.config.is_empty() || self.config_file.is_some() || !self.server_config.is_empty()
    }

    /// All configuration files that it uses.
    pub fn config_files(&self) -> impl Iterator<Item = &ConfigFile> {
        let changes = self.server_config.values();
        let server_files = changes.filter_map(|change| change.file.as_ref());
        self.config_file.iter().chain(server_files)
    }
}

/// An arm's change to the configuration of one server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigChange {
    /// Directives; each replaces bakeoff's of the same name, or is added.
    pub directives: String,
    /// A whole configuration in place of bakeoff's.
    pub file: Option<ConfigFile>,
}

/// A configuration file of the user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigFile {
    /// Its path, for messages.
    pub path: String,
    /// Its text; empty if the plan is read again after its run.
    pub text: String,
}

/// What is needed to read arms.
#[derive(Clone, Copy)]
pub(crate) struct ArmContext<'c> {
    pub(crate) machine: &'c MachinePlan,
    /// Directory of relative paths.
    pub(crate) base: &'c Path,
    pub(crate) checks: &'c Checks<'c>,
}

pub(crate) fn read_arms(
    top: &Fields<'_>,
    baseline: Option<&str>,
    context: ArmContext<'_>,
) -> Option<Vec<Arm>> {
    let Some(table) = top.table("arm") else {
        top.missing(
            "arm",
            "{ \"6.1\" = { kernel = \"debian:bookworm/6.1\" }, ... }",
        );
        return None;
    };
    let tables = table.named_tables();
    let names: Vec<_> = tables.iter().map(|(name, _)| *name).collect();
    if names.len() < 2 {
        let what = format!("one arm only: {}", names.join(", "));
        top.wrong(
            "arm",
            what,
            "a comparison needs two: add another [arm.NAME]",
        );
    }
    if let Some(baseline) = baseline.filter(|baseline| !names.contains(baseline)) {
        let what = format!("baseline is not an arm: {baseline:?}");
        top.wrong("baseline", what, remedy_among(baseline, &names));
    }
    let arms: Vec<Option<Arm>> = tables
        .iter()
        .map(|(name, fields)| read_arm(name, fields, context))
        .collect();
    // Only now, so that mistakes in all arms are noted.
    let mut arms = arms.into_iter().collect::<Option<Vec<Arm>>>()?;
    arms.sort_by_key(|arm| Some(arm.name.as_str()) != baseline);
    Some(arms)
}

/// Checks that each arm's tuning fits the workloads' servers.
pub(crate) fn check_tunings(
    top: &Fields<'_>,
    arms: &[Arm],
    workloads: &[WorkloadPlan],
    checks: Checks<'_>,
) {
    let services: BTreeSet<_> = workloads.iter().flat_map(checks.services).collect();
    let services: Vec<_> = services.into_iter().collect();
    let tables = top.table("arm").map(|table| table.named_tables());
    for (name, fields) in tables.unwrap_or_default() {
        let Some(arm) = arms.iter().find(|arm| arm.name == name) else {
            continue;
        };
        if !checks.has_run {
            check_programs(&fields, &arm.tuning, &services);
        }
        if let Err(why) = (checks.tuning)(&arm.tuning, workloads) {
            let keys = ["config", "config_file", "server"];
            let key = keys.into_iter().find(|key| fields.has(key));
            fields.wrong(key.unwrap_or("config"), why, "");
        }
    }
}

/// Refuses programs of services that no workload starts.
fn check_programs(fields: &Fields<'_>, tuning: &Tuning, services: &[&str]) {
    if services.is_empty() && !tuning.programs.is_empty() {
        let what = "program without a workload that starts a service";
        fields.wrong("program", what, "remove it");
        return;
    }
    for service in tuning.programs.keys() {
        if !services.contains(&service.as_str()) {
            let what = format!("program of a service that no workload has: {service:?}");
            fields.wrong("program", what, remedy_among(service, services));
        }
    }
}

fn read_arm(name: &str, fields: &Fields<'_>, context: ArmContext<'_>) -> Option<Arm> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    if name.is_empty() || name.len() > 40 || !name.chars().all(is_allowed) {
        let what = format!("arm name of other than letters, digits and . _ + -: {name:?}");
        fields.wrong("", what, "rename the arm, 40 characters at most");
    }
    if refuse_other_kind(fields, context.machine.kind) {
        return None;
    }
    let kernel = match context.machine.kind {
        MachineKind::Qemu | MachineKind::Ssh => read_kernel(fields, context),
        MachineKind::Local => read_running(fields),
        MachineKind::Url => return read_remote(name, fields, *context.checks),
    };
    let cmdline = read_cmdline(fields);
    let sysctl = fields
        .table("sysctl")
        .map(|table| read_sysctl(&table))
        .unwrap_or_default();
    let cpus = read_cpus(fields, context.machine);
    let tuning = read_tuning(fields, context, cpus);
    let tuned = read_tuning_note(fields);
    fields.finish();
    let line = fields.line_of("kernel");
    Some(Arm {
        name: name.into(),
        line,
        kernel: kernel?,
        cmdline,
        sysctl,
        cpus,
        tuning,
        tuned,
    })
}

pub(crate) fn read_cmdline(fields: &Fields<'_>) -> String {
    let cmdline = fields.text("cmdline").unwrap_or_default().trim();
    if cmdline.contains(['\n', '\0']) || cmdline.len() > 1500 {
        fields.wrong(
            "cmdline",
            "cmdline of several lines or above 1500 bytes",
            "shorten it",
        );
    }
    cmdline.into()
}

/// Refuses keys of another kind of machine, as all arms must be on one kind; `true` if there is one.
fn refuse_other_kind(fields: &Fields<'_>, kind: MachineKind) -> bool {
    let key = match kind {
        _ if fields.has("kind") => "kind",
        MachineKind::Url if fields.has("kernel") && !fields.has("url") => "kernel",
        MachineKind::Qemu | MachineKind::Ssh | MachineKind::Local if fields.has("url") => "url",
        MachineKind::Qemu | MachineKind::Ssh | MachineKind::Local | MachineKind::Url => {
            return false;
        }
    };
    let what = format!("{key} in an arm of machines of kind \"{}\"", kind.word());
    let remedy = "all arms are on one kind of machine: kind in [machine], \
                  then a kernel in each arm, or kind = \"url\" and a url in each";
    fields.wrong(key, what, remedy);
    true
}

/// Reads an arm that is a system on the network, which bakeoff cannot change.
fn read_remote(name: &str, fields: &Fields<'_>, checks: Checks<'_>) -> Option<Arm> {
    let target = read_target(fields, checks);
    let tuned = read_tuning_note(fields);
    fields.finish();
    Some(Arm {
        name: name.into(),
        line: fields.line_of("url"),
        kernel: KernelRef::Remote(Box::new(target?)),
        cmdline: String::new(),
        sysctl: BTreeMap::new(),
        cpus: None,
        tuning: Tuning::default(),
        tuned,
    })
}

fn read_cpus(fields: &Fields<'_>, machine: &MachinePlan) -> Option<u32> {
    let cpus = fields.count("cpus", 1..=255)? as u32;
    let is_counted = machine.kind == MachineKind::Qemu && machine.clock == Clock::Instructions;
    if is_counted && cpus > 1 {
        let what = format!("clock \"instructions\" with an arm of more than one CPU: {cpus}");
        let remedy = "write cpus = 1, or clock = \"wall\": counted instructions need one CPU";
        fields.wrong("cpus", what, remedy);
    }
    Some(cpus)
}

/// Reads the kernel of an arm on this host.
fn read_running(fields: &Fields<'_>) -> Option<KernelRef> {
    const REMEDY: &str = "remove it: the kernel is the one that runs";
    if fields.has("cmdline") {
        fields.wrong("cmdline", "cmdline on a machine of kind \"local\"", REMEDY);
    }
    match fields.text("kernel") {
        Some(text) if text != "running" => {
            let what = format!("kernel of a machine of kind \"local\": {text:?}");
            fields.wrong("kernel", what, REMEDY);
            None
        }
        Some(_) | None => Some(KernelRef::Running),
    }
}

fn read_tuning(fields: &Fields<'_>, context: ArmContext<'_>, cpus: Option<u32>) -> Tuning {
    let pairs = |key: &str| -> Vec<(String, String)> {
        let table = fields.table(key);
        let scalars = table.map(|table| table.scalars()).unwrap_or_default();
        scalars
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    };
    let (env, programs) = (pairs("env"), pairs("program"));
    for (name, _) in &env {
        if name.is_empty() || name.contains(['=', '\0']) {
            let what = format!("not the name of an environment variable: {name:?}");
            fields.wrong("env", what, "rename it");
        }
    }
    for (name, path) in &programs {
        if !path.starts_with('/') {
            let what = format!("program of {name} without an absolute path: {path:?}");
            fields.wrong(
                "program",
                what,
                "write program = { nginx = \"/opt/nginx/sbin/nginx\" }",
            );
        }
    }
    let (config, server_directives) = read_config(fields);
    let (config_file, server_files) = read_config_files(fields, context);
    let mut server_config: BTreeMap<String, ConfigChange> = BTreeMap::new();
    for (service, directives) in server_directives {
        server_config.entry(service).or_default().directives = directives;
    }
    for (service, file) in server_files {
        server_config.entry(service).or_default().file = Some(file);
    }
    let io_scheduler = read_io_scheduler(fields);
    Tuning {
        queue: read_queue(fields, &io_scheduler),
        io_scheduler,
        file_system: file_system::read(fields),
        env: env.into_iter().collect(),
        config,
        config_file,
        server_config,
        server: fields.text("server").map(String::from),
        programs: programs.into_iter().collect(),
        injected_slowdown: fields.share("injected_slowdown", 0.0, 0.5).unwrap_or(0.0),
        injected_period: read_injected_period(fields),
        injected_cost: read_injected_cost(fields, context.machine.kind),
        nofile: fields.count("nofile", NOFILE).map(|limit| limit as u32),
        debugfs: read_debugfs(fields, context.machine.kind),
        scheduler: scheduler::read(fields, context.machine, cpus),
    }
}

/// Reads `config`: lines for the first server of each workload, or a table of lines by server.
fn read_config(fields: &Fields<'_>) -> (String, Vec<(String, String)>) {
    if !fields.is_table("config") {
        return (fields.lines("config").unwrap_or_default(), Vec::new());
    }
    let table = fields.table("config").expect("config is a table");
    let servers = table.keys().into_iter().filter_map(|service| {
        let lines = table.lines(service)?;
        Some((service.to_string(), lines))
    });
    (String::new(), servers.collect())
}

/// Longest configuration file, in bytes. It is sent to the guest with the job.
const LONGEST_CONFIG: usize = 256 << 10;

/// Reads `config_file`: a path for the first server of each workload, or a table of paths by server.
fn read_config_files(
    fields: &Fields<'_>,
    context: ArmContext<'_>,
) -> (Option<ConfigFile>, Vec<(String, ConfigFile)>) {
    let read = |fields: &Fields<'_>, key: &str| {
        let path = fields.text(key)?;
        let why = match (context.checks.file)(&context.base.join(path)) {
            Ok(text) if text.len() <= LONGEST_CONFIG => {
                let path = path.into();
                return Some(ConfigFile { path, text });
            }
            Ok(text) => format!(
                "configuration file of {}: {path} (at most {})",
                units::show_bytes(text.len() as u64),
                units::show_bytes(LONGEST_CONFIG as u64)
            ),
            Err(why) => why,
        };
        fields.wrong(key, why, "");
        None
    };
    if !fields.is_table("config_file") {
        return (read(fields, "config_file"), Vec::new());
    }
    let table = fields.table("config_file").expect("config_file is a table");
    let servers = table.keys().into_iter();
    let servers = servers.filter_map(|service| Some((service.into(), read(&table, service)?)));
    (None, servers.collect())
}

/// Limits of open files: with fewer no server starts, and bakeoff gives services no more.
const NOFILE: RangeInclusive<u64> = 16..=1 << 20;

/// I/O schedulers of current kernels. Whether a kernel was built with one shows when it is set.
pub(crate) const IO_SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];

fn read_injected_period(fields: &Fields<'_>) -> Option<Duration> {
    let period = fields.read("injected_period", units::duration)?;
    let limits = Duration::from_millis(1)..=Duration::from_secs(10);
    if !limits.contains(&period) {
        let what = format!("injected_period out of range: {period:?}");
        fields.wrong("injected_period", what, "write 1ms to 10s");
    }
    if !fields.has("injected_slowdown") {
        let what = "injected_period without injected_slowdown";
        fields.wrong(
            "injected_period",
            what,
            "add injected_slowdown, or remove it",
        );
    }
    Some(period)
}

fn read_injected_cost(fields: &Fields<'_>, kind: MachineKind) -> Option<InjectedCost> {
    let table = fields.table("injected_cost")?;
    if kind == MachineKind::Local {
        let what = "injected_cost on a machine of kind \"local\"";
        fields.wrong("injected_cost", what, "remove it: the whole host would pay");
    }
    if !table.has("function") {
        table.missing("function", "\"tcp_sendmsg_locked\"");
    }
    if !table.has("instructions") {
        table.missing("instructions", "4000");
    }
    let function = table.text("function");
    let function = function.filter(|name| {
        let is_symbol = |byte: u8| byte.is_ascii_alphanumeric() || b"_.".contains(&byte);
        let fits = !name.is_empty() && name.len() <= 127 && name.bytes().all(is_symbol);
        if !fits {
            let what = format!("not the name of a kernel's function: {name:?}");
            table.wrong("function", what, "write one of /proc/kallsyms");
        }
        fits
    });
    // A BPF program may have a million instructions.
    let instructions = table.count("instructions", 1..=900_000);
    table.finish();
    Some(InjectedCost {
        function: function?.into(),
        instructions: instructions? as u32,
    })
}

fn read_io_scheduler(fields: &Fields<'_>) -> String {
    let words = IO_SCHEDULERS.map(|word| (word, word));
    let chosen = fields.choice("io_scheduler", &words);
    chosen.unwrap_or_default().into()
}

fn read_debugfs(fields: &Fields<'_>, kind: MachineKind) -> BTreeMap<String, String> {
    let Some(table) = fields.table("debugfs") else {
        return BTreeMap::new();
    };
    if kind == MachineKind::Local {
        let what = "debugfs on a machine of kind \"local\"";
        fields.wrong("debugfs", what, "remove it: nothing would put it back");
    }
    let mut files = BTreeMap::new();
    for (name, value) in table.scalars() {
        let is_special = |part: &str| part.is_empty() || part == "." || part == "..";
        if name.contains('\0') || name.split('/').any(is_special) {
            let what = format!("not a path below debugfs: {name:?}");
            table.wrong(name, what, "write it as \"sched/features\"");
        }
        files.insert(name.into(), value);
    }
    files
}

fn read_kernel(fields: &Fields<'_>, context: ArmContext<'_>) -> Option<KernelRef> {
    let ArmContext { base, checks, .. } = context;
    if !fields.has("kernel") {
        fields.missing("kernel", "\"debian:bookworm/6.1\"");
    }
    let modules = fields.text("modules").map(|dir| base.join(dir));
    match kernel::read(fields.text("kernel")?, modules) {
        Ok(KernelRef::Running) => {
            let kind = context.machine.kind.word();
            let what = format!("kernel \"running\" on a machine of kind \"{kind}\"");
            fields.wrong("kernel", what, kernel::FORMS);
        }
        Err(why) => fields.wrong("kernel", why, kernel::FORMS),
        Ok(kernel) => {
            let kernel = kernel.resolved(base);
            match (checks.kernel)(&kernel, context.machine.arch) {
                Ok(()) => return Some(kernel),
                Err(why) => fields.wrong("kernel", why, ""),
            }
        }
    }
    None
}

pub(crate) fn read_sysctl(fields: &Fields<'_>) -> BTreeMap<String, String> {
    let mut sysctl = BTreeMap::new();
    for (name, value) in fields.scalars() {
        if !sysctl::is_name(name) {
            let what = format!("not a sysctl name: {name:?}");
            fields.wrong(
                name,
                what,
                "write it dotted and quoted: \"net.core.somaxconn\"",
            );
        }
        sysctl.insert(name.into(), value);
    }
    sysctl
}
