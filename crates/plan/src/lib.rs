//! The plan: one experiment, validated whole before anything boots.

pub mod cpu;
pub mod fields;
pub mod kernel;
pub mod knob;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cpu::CpuModel;
use crate::fields::{Fields, Page};
use crate::kernel::KernelRef;
use input::problem::remedy_among;
use input::problem::{Problem, Problems};
use input::units;
use serde::{Deserialize, Serialize};

/// One experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What it is called.
    pub title: String,
    /// The arm that the others are compared with.
    pub baseline: String,
    /// Whether the arms' knobs are pinned or left as shipped.
    pub mode: Mode,
    /// Where arms boot.
    pub machine: MachinePlan,
    /// The user land of emulated machines; none where the machine has its own.
    pub image: Option<ImagePlan>,
    /// The arms, baseline first, the others in the file's order.
    pub arms: Vec<Arm>,
    /// The workloads in the file's order.
    pub workloads: Vec<WorkloadPlan>,
    /// How many blocks, and when a difference counts.
    pub design: Design,
    /// Whether trials are profiled: `[why]`. Every one where instructions are counted, others of their own where time is the wall clock's.
    pub why: bool,
    /// Keys that the file calls by names of earlier versions.
    pub renamed: Vec<Problem>,
}

/// The guests' root file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePlan {
    /// Name or path of its recipe.
    pub recipe: String,
    /// Debian suite of its packages, where not the recipe's own.
    pub suite: Option<String>,
}

/// What question the plan asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Knobs pinned to one value: asks about the code.
    Controlled,
    /// Defaults differ as shipped: asks about the product.
    AsShipped,
}

/// Where an arm boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineKind {
    /// A virtual machine of QEMU.
    Qemu,
    /// This host at native speed, in namespaces and a cgroup of the trial's own.
    Local,
}

/// What a trial's time is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Wall where KVM works, instructions under emulation.
    Auto,
    /// The host's time.
    Wall,
    /// Executed instructions: the guest's clock advances with each.
    Instructions,
}

/// The machine of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachinePlan {
    /// Which kind.
    pub kind: MachineKind,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Guest memory in bytes.
    pub memory_bytes: u64,
    /// Which clock.
    pub clock: Clock,
    /// Host time until the agent must have spoken.
    pub boot_timeout: Duration,
    /// Host time after which a guest that says nothing is given up.
    pub silence: Duration,
    /// Host time that a whole trial may take.
    pub trial_limit: Duration,
    /// How slow the disk is that some workloads have to themselves.
    pub disk: DiskSpeed,
    /// The CPU that guests see; `None` for the machine's own choice.
    pub cpu_model: Option<CpuModel>,
}

/// How slow a disk is made; without limits it is as fast as the host's memory and file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskSpeed {
    /// Bytes per second, reads and writes together.
    pub bytes_per_s: Option<u64>,
    /// Requests per second, reads and writes together.
    pub requests_per_s: Option<u64>,
}

/// One of the systems compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// Line of the plan that names its kernel, counted from 1.
    pub line: usize,
    /// Its kernel.
    pub kernel: KernelRef,
    /// Added to the kernel's command line.
    pub cmdline: String,
    /// Set before services start, dotted names.
    pub sysctl: BTreeMap<String, String>,
    /// CPUs that it has, where that is not what the machine gives to all.
    pub cpus: Option<u32>,
    /// What it changes beyond the kernel.
    pub tuning: Tuning,
}

/// What an arm changes in the services, and what is taken from them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// Added to the environment of services.
    pub env: BTreeMap<String, String>,
    /// Directives for the configuration of a workload's first server; each takes the place of bakeoff's of that name.
    pub config: String,
    /// A whole configuration for that server in place of bakeoff's.
    #[serde(default)]
    pub config_file: Option<ConfigFile>,
    /// The same for servers that are named.
    #[serde(default)]
    pub server_config: BTreeMap<String, ConfigChange>,
    /// Absolute paths of programs to be started in place of a service's own, by the service's name.
    pub programs: BTreeMap<String, String>,
    /// Share of every CPU that is taken away while the load runs: a slow-down whose size is known.
    #[serde(alias = "plant")]
    pub injected_slowdown: f64,
    /// Time from one stretch that is taken away to the next, where not the usual one.
    #[serde(default)]
    pub injected_period: Option<Duration>,
    /// I/O scheduler of the workload's own disk; empty for the kernel's choice.
    #[serde(default)]
    pub io_scheduler: String,
    /// What is written to files of debugfs before anything is started, by their paths below it.
    #[serde(default)]
    pub debugfs: BTreeMap<String, String>,
}

impl Tuning {
    /// Whether it changes the configuration of any server.
    pub fn has_config(&self) -> bool {
        !self.config.is_empty() || self.config_file.is_some() || !self.server_config.is_empty()
    }

    /// The texts of all files that it takes configurations from, by their paths.
    pub fn config_files(&self) -> impl Iterator<Item = &ConfigFile> {
        let named = self.server_config.values();
        let named = named.filter_map(|change| change.file.as_ref());
        self.config_file.iter().chain(named)
    }
}

/// What an arm changes in the configuration of one server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigChange {
    /// Directives; each takes the place of bakeoff's of that name, or is added.
    pub directives: String,
    /// A whole configuration in place of bakeoff's.
    #[serde(default)]
    pub file: Option<ConfigFile>,
}

/// A configuration file of the user's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigFile {
    /// Where it was found, for messages.
    pub path: String,
    /// Its text; empty in a plan that is read again after its run.
    pub text: String,
}

/// A workload of a plan, checked by the workload itself.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadPlan {
    /// Unique in the plan: its `name`, or its kind.
    pub id: String,
    /// `web-static`, ...
    pub kind: String,
    /// Its validated options in its own form.
    pub options: serde_json::Value,
    /// Guest time of warm-up and window together; the most that it may be, where a program runs to its end.
    pub length: Duration,
    /// What a program that runs to its end is expected to take.
    pub expected: Option<Duration>,
}

/// How the experiment is laid out and judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    /// Differences below this are called equivalent; a fraction.
    pub margin: f64,
    /// Chance of a wrong verdict that is accepted; a fraction.
    pub error_rate: f64,
    /// Blocks before the first look.
    pub min_blocks: u32,
    /// Blocks after which it ends undecided.
    pub max_blocks: u32,
    /// Blocks that a run was given beyond those, when it had ended undecided. The journal says so, never a plan file.
    pub more_blocks: u32,
    /// Seed of order, data and schedules.
    pub seed: u64,
}

impl Design {
    /// Blocks at the most, those among them that the run was given later.
    pub fn most_blocks(&self) -> u32 {
        self.max_blocks.saturating_add(self.more_blocks)
    }
}

impl Plan {
    /// CPUs of an arm. `None` where it has all that its host gives.
    pub fn cpus(&self, arm: &Arm) -> Option<u32> {
        match self.machine.kind {
            MachineKind::Qemu => Some(arm.cpus.unwrap_or(self.machine.cpus)),
            MachineKind::Local => arm.cpus,
        }
    }
}

/// The plan that compares a plan's baseline with itself: every other arm is gone, and a copy of the baseline is there.
/// Comments are lost. `seed` takes the place of the plan's: two runs with the same coins would say the same thing twice.
pub fn against_itself(text: &str, seed: i64) -> Result<String, toml::de::Error> {
    let mut plan: toml::Table = text.parse()?;
    let baseline = plan
        .get("baseline")
        .and_then(toml::Value::as_str)
        .map(str::to_owned);
    let name = baseline.unwrap_or_default();
    if let Some(arms) = plan.get_mut("arm").and_then(toml::Value::as_table_mut) {
        arms.retain(|arm, _| *arm == name);
        if let Some(arm) = arms.get(&name).cloned() {
            arms.insert(format!("{name}-again"), arm);
        }
    }
    let title = plan
        .get("title")
        .and_then(toml::Value::as_str)
        .unwrap_or_default();
    let title = format!("A/A: {title}");
    let design = plan
        .entry("design")
        .or_insert_with(|| toml::Table::new().into());
    if let Some(design) = design.as_table_mut() {
        design.insert("seed".into(), seed.into());
    }
    plan.insert("title".into(), title.into());
    Ok(plan.to_string())
}

/// What a plan is varied by, to see how far its verdicts hang on the emulated CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variation {
    /// Another CPU model.
    Model(CpuModel),
    /// The plan's own model, without mitigations in any arm.
    NoMitigations,
}

impl Variation {
    /// `EPYC-Milan`, `mitigations=off`.
    pub fn name(&self) -> String {
        match self {
            Self::Model(model) => model.to_string(),
            Self::NoMitigations => NO_MITIGATIONS.into(),
        }
    }
}

/// The kernel parameter that turns all of them off.
const NO_MITIGATIONS: &str = "mitigations=off";

/// The plan with a variation and `blocks` blocks at the most. Comments are lost.
pub fn varied(text: &str, variation: &Variation, blocks: u32) -> Result<String, toml::de::Error> {
    let mut plan: toml::Table = text.parse()?;
    match variation {
        Variation::Model(model) => {
            let model = model.to_string();
            table_in(&mut plan, "machine").insert("cpu_model".into(), model.into());
        }
        Variation::NoMitigations => {
            let arms = plan.get_mut("arm").and_then(toml::Value::as_table_mut);
            for (_, arm) in arms.into_iter().flatten() {
                if let Some(arm) = arm.as_table_mut() {
                    let own = arm.get("cmdline").and_then(toml::Value::as_str);
                    let cmdline = format!("{} {NO_MITIGATIONS}", own.unwrap_or_default());
                    arm.insert("cmdline".into(), cmdline.trim().into());
                }
            }
        }
    }
    let design = table_in(&mut plan, "design");
    design.insert("max_blocks".into(), i64::from(blocks).into());
    let least = design.get("min_blocks").and_then(toml::Value::as_integer);
    if least.is_some_and(|least| least > i64::from(blocks)) {
        design.insert("min_blocks".into(), i64::from(blocks).into());
    }
    Ok(plan.to_string())
}

/// A table of the plan, made where there is none.
fn table_in<'p>(plan: &'p mut toml::Table, name: &str) -> &'p mut toml::Table {
    let entry = plan
        .entry(name)
        .or_insert_with(|| toml::Table::new().into());
    entry
        .as_table_mut()
        .expect("plan is validated: machine and design are tables")
}

/// The seed that a plan's text names, if it is a plan.
pub fn seed_of(text: &str) -> Option<i64> {
    let plan: toml::Table = text.parse().ok()?;
    plan.get("design")?.get("seed")?.as_integer()
}

/// The file of a sysctl. As in sysctl(8), dots and slashes change places unless the name has a slash first:
/// `net.ipv4.conf.eth0/1.rp_filter` is the device `eth0.1`.
pub fn sysctl_path(name: &str) -> PathBuf {
    let first = name.find(['.', '/']).map(|at| name.as_bytes()[at]);
    let path = match first {
        Some(b'/') => name.to_owned(),
        Some(_) | None => swap_dots_and_slashes(name),
    };
    Path::new(SYSCTLS).join(path)
}

/// The name of a sysctl's file, with dots first.
pub fn sysctl_name(path: &Path) -> String {
    let below = path.strip_prefix(SYSCTLS).unwrap_or(path);
    swap_dots_and_slashes(&below.to_string_lossy())
}

/// Where the kernel shows its sysctls.
const SYSCTLS: &str = "/proc/sys";

fn swap_dots_and_slashes(text: &str) -> String {
    let swap = |c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    text.chars().map(swap).collect()
}

/// Checks one `[[workload]]` table; notes its mistakes and returns `None` if there were any.
pub type CheckWorkload<'c> = dyn Fn(&Fields<'_>) -> Option<WorkloadPlan> + 'c;

/// Says what is wrong with what an arm changes in the servers of these workloads.
pub type CheckTuning<'c> = dyn Fn(&Tuning, &[WorkloadPlan]) -> Result<(), String> + 'c;

/// What reading a plan cannot know by itself.
#[derive(Clone, Copy)]
pub struct Checks<'c> {
    /// Checks a workload.
    pub workload: &'c CheckWorkload<'c>,
    /// Says what is wrong with a kernel's name.
    pub kernel: &'c dyn Fn(&KernelRef) -> Result<(), String>,
    /// Says what is wrong with a recipe's name.
    pub recipe: &'c dyn Fn(&str) -> Result<(), String>,
    /// Says what is wrong with a guest's memory, in bytes.
    pub memory: &'c dyn Fn(u64) -> Result<(), String>,
    /// Says what is wrong with a CPU model.
    pub cpu_model: &'c dyn Fn(&CpuModel) -> Result<(), String>,
    /// Reads a configuration file.
    pub file: &'c dyn Fn(&Path) -> Result<String, String>,
    /// Says what is wrong with what an arm changes in the workloads' servers.
    pub tuning: &'c CheckTuning<'c>,
    /// Says what is wrong with the suite of an image.
    pub suite: &'c dyn Fn(&str) -> Result<(), String>,
}

impl<'c> Checks<'c> {
    /// Checks for a plan that has run already: its kernels and recipe may be gone since.
    pub fn of_the_past(workload: &'c CheckWorkload<'c>) -> Self {
        Self {
            workload,
            kernel: &|_| Ok(()),
            recipe: &|_| Ok(()),
            memory: &|_| Ok(()),
            cpu_model: &|_| Ok(()),
            file: &|_| Ok(String::new()),
            tuning: &|_, _| Ok(()),
            suite: &|_| Ok(()),
        }
    }
}

/// Longest trial that may be asked for: the reports of 2004 ran up to 14 days.
const LONGEST_TRIAL: Duration = Duration::from_secs(15 * 24 * 3600);

/// Reads a plan. Relative paths in it are taken from `base`, the plan file's directory.
pub fn read(file: &str, text: &str, base: &Path, checks: Checks<'_>) -> Result<Plan, Problems> {
    let page = Page::new(file, text);
    let table = page.parse();
    let plan = read_top(&Fields::top(&page, &table), base, checks);
    let renamed = page.renamed();
    page.close(plan.map(|plan| Plan { renamed, ..plan }))
}

fn read_top(top: &Fields<'_>, base: &Path, checks: Checks<'_>) -> Option<Plan> {
    let title = required_text(top, "title", "\"what this compares\"");
    let mode = top.choice(
        "mode",
        &[
            ("controlled", Mode::Controlled),
            ("as-shipped", Mode::AsShipped),
        ],
    );
    let machine = top.table("machine");
    let mut machine = read_machine(machine.as_ref(), checks);
    let image = match machine.kind {
        MachineKind::Qemu => read_image(top, base, checks).map(Some),
        MachineKind::Local => refuse_image(top).then_some(None),
    };
    let baseline = required_text(top, "baseline", "the name of an arm");
    let kernels = Kernels {
        machine: &machine,
        base,
        checks,
    };
    let arms = read_arms(top, baseline.as_deref(), kernels);
    machine.clock = resolve_clock(&machine, arms.as_deref().unwrap_or_default());
    let workloads = read_workloads(top, machine.trial_limit, checks.workload);
    if let (Some(arms), Some(workloads)) = (&arms, &workloads) {
        check_tunings(top, arms, workloads, checks);
    }
    let design = read_design(top.table("design").as_ref());
    let why = read_why(top);
    top.finish();
    Some(Plan {
        title: title?,
        baseline: baseline?,
        mode: mode.unwrap_or(Mode::Controlled),
        machine,
        image: image?,
        arms: arms?,
        workloads: workloads?,
        design,
        why,
        renamed: Vec::new(),
    })
}

/// Whether there is a table `[why]`; it has no keys yet.
fn read_why(top: &Fields<'_>) -> bool {
    let Some(why) = top.table("why") else {
        return false;
    };
    why.finish();
    true
}

/// The plan with `[why]`, so that every trial is profiled; the same text where it has that already.
pub fn explained(text: &str) -> String {
    match text.parse::<toml::Table>() {
        Ok(plan) if !plan.contains_key("why") => format!("{}\n\n[why]\n", text.trim_end()),
        // What is wrong with it is told where it is read.
        Ok(_) | Err(_) => text.into(),
    }
}

fn required_text(fields: &Fields<'_>, key: &str, example: &str) -> Option<String> {
    if !fields.has(key) {
        fields.missing(key, example);
    }
    let text = fields.text(key)?.trim();
    if text.is_empty() {
        fields.wrong(
            key,
            format!("empty {key}"),
            format!("write {key} = {example}"),
        );
        return None;
    }
    Some(text.into())
}

fn read_image(top: &Fields<'_>, base: &Path, checks: Checks<'_>) -> Option<ImagePlan> {
    let Some(image) = top.table("image") else {
        top.missing("image", "{ recipe = \"web\" }");
        return None;
    };
    let recipe = required_text(&image, "recipe", "\"web\"");
    let suite = image.text("suite").map(String::from);
    if let Some(Err(why)) = suite.as_deref().map(checks.suite) {
        image.wrong("suite", why, "");
    }
    image.finish();
    let recipe = recipe.map(|recipe| match Path::new(&recipe).extension() {
        Some(ending) if ending == "toml" => base.join(&recipe).display().to_string(),
        _ => recipe,
    })?;
    match (checks.recipe)(&recipe) {
        Ok(()) => Some(ImagePlan { recipe, suite }),
        Err(why) => {
            image.wrong("recipe", why, "");
            None
        }
    }
}

/// Whether the plan leaves out what its machine has already.
fn refuse_image(top: &Fields<'_>) -> bool {
    let is_right = !top.has("image");
    if !is_right {
        // Read, so that it is not called unknown as well.
        let _ = top.table("image");
        let what = "[image] on a machine of kind \"local\"";
        top.wrong("image", what, "remove it: servers are this host's own");
    }
    is_right
}

/// Where the kernels of a plan come from.
#[derive(Clone, Copy)]
struct Kernels<'c> {
    machine: &'c MachinePlan,
    base: &'c Path,
    checks: Checks<'c>,
}

fn read_machine(fields: Option<&Fields<'_>>, checks: Checks<'_>) -> MachinePlan {
    let mut machine = MachinePlan {
        kind: MachineKind::Qemu,
        cpus: 1,
        memory_bytes: 1 << 30,
        clock: Clock::Auto,
        boot_timeout: Duration::from_secs(120),
        silence: Duration::from_secs(120),
        trial_limit: Duration::from_secs(3600),
        disk: DiskSpeed::default(),
        cpu_model: None,
    };
    let Some(fields) = fields else { return machine };
    let kinds = [("qemu", MachineKind::Qemu), ("local", MachineKind::Local)];
    let clocks = [
        ("auto", Clock::Auto),
        ("wall", Clock::Wall),
        ("instructions", Clock::Instructions),
    ];
    set(&mut machine.kind, fields.choice("kind", &kinds));
    set(
        &mut machine.cpus,
        fields.count("cpus", 1..=255).map(|cpus| cpus as u32),
    );
    set(
        &mut machine.memory_bytes,
        fields.read("memory", units::bytes),
    );
    set(&mut machine.clock, fields.choice("clock", &clocks));
    set(
        &mut machine.boot_timeout,
        fields.read("boot_timeout", units::duration),
    );
    set(
        &mut machine.silence,
        fields.read("silence", units::duration),
    );
    set(
        &mut machine.trial_limit,
        fields.read("trial_limit", units::duration),
    );
    machine.disk = DiskSpeed {
        bytes_per_s: fields.read("disk_rate", units::bytes),
        requests_per_s: fields.count("disk_requests", 1..=10_000_000),
    };
    machine.cpu_model = read_cpu_model(fields, &machine, checks);
    check_machine(fields, &machine);
    check_memory(fields, &machine, checks);
    fields.finish();
    machine
}

fn read_cpu_model(
    fields: &Fields<'_>,
    machine: &MachinePlan,
    checks: Checks<'_>,
) -> Option<CpuModel> {
    let text = fields.text("cpu_model")?;
    if machine.kind == MachineKind::Local {
        // Refused with the other keys that only an emulator has.
        return None;
    }
    let model = match CpuModel::parse(text) {
        Ok(model) => model,
        Err(why) => {
            fields.wrong("cpu_model", why, "");
            return None;
        }
    };
    let is_wall = machine.clock == Clock::Wall;
    if model.name == "host" && !is_wall {
        let what = "cpu_model \"host\" where instructions may be counted";
        let remedy = "write clock = \"wall\": only KVM shows a guest the host's CPU";
        fields.wrong("cpu_model", what, remedy);
    }
    let fast_strings = model.fast_strings();
    if !fast_strings.is_empty() && !is_wall {
        let what = format!(
            "cpu_model with {} where instructions may be counted",
            fast_strings.join(" and ")
        );
        let remedy = "remove it, or write clock = \"wall\": each iteration of a REP string instruction would count \
                      as an instruction, 4096 of them for a page that a CPU fills in some 100 cycles";
        fields.wrong("cpu_model", what, remedy);
    }
    if !model.has_64_bits() {
        let what = format!("cpu_model without 64-bit mode: {model}");
        fields.wrong(
            "cpu_model",
            what,
            "name another, such as \"qemu64\" or \"EPYC\"",
        );
    }
    if let Err(why) = (checks.cpu_model)(&model) {
        fields.wrong("cpu_model", why, "");
    }
    Some(model)
}

fn check_machine(fields: &Fields<'_>, machine: &MachinePlan) {
    if machine.kind == MachineKind::Local {
        let keys = ["cpus", "memory", "disk_rate", "disk_requests", "cpu_model"];
        for key in keys.into_iter().filter(|key| fields.has(key)) {
            let what = format!("{key} of a machine of kind \"local\"");
            let remedy = match key {
                "cpus" => "write it in each arm that is not to have all of this host's",
                "cpu_model" => "remove it: the CPU is this host's own",
                _ => "remove it: all that this host has is used",
            };
            fields.wrong(key, what, remedy);
        }
        if machine.clock == Clock::Instructions {
            let what = "clock \"instructions\" on a machine of kind \"local\"";
            fields.wrong(
                "clock",
                what,
                "write \"wall\": only an emulator counts them",
            );
        }
    }
    if machine.disk.bytes_per_s.is_some_and(|rate| rate < 1 << 20) {
        let what = "disk_rate below 1 MiB per second";
        fields.wrong("disk_rate", what, "write disk_rate = \"50MiB\"");
    }
    if machine.clock == Clock::Instructions && machine.cpus > 1 {
        let what = format!(
            "clock \"instructions\" with more than one CPU: {}",
            machine.cpus
        );
        fields.wrong(
            "cpus",
            what,
            "write cpus = 1: counted instructions need one CPU",
        );
    }
    for (key, time) in [
        ("boot_timeout", machine.boot_timeout),
        ("silence", machine.silence),
    ] {
        if time.is_zero() {
            fields.wrong(
                key,
                format!("{key} of zero"),
                format!("write {key} = \"120s\""),
            );
        }
    }
    if machine.trial_limit > LONGEST_TRIAL {
        fields.wrong(
            "trial_limit",
            "trial_limit above 15 days",
            "write at most \"15d\"",
        );
    }
}

fn check_memory(fields: &Fields<'_>, machine: &MachinePlan, checks: Checks<'_>) {
    if !(256 << 20..=1 << 40).contains(&machine.memory_bytes) {
        let size = units::show_bytes(machine.memory_bytes);
        fields.wrong(
            "memory",
            format!("memory out of range: {size}"),
            "write 256MiB to 1TiB",
        );
    } else if machine.kind == MachineKind::Qemu
        && let Err(why) = (checks.memory)(machine.memory_bytes)
    {
        fields.wrong("memory", why, "");
    }
}

/// "auto" may not come to counted instructions where arms differ in CPUs: with one CPU each they would be one system.
fn resolve_clock(machine: &MachinePlan, arms: &[Arm]) -> Clock {
    let is_named = arms.iter().any(|arm| arm.cpus.is_some());
    let several = |arm: &Arm| arm.cpus.unwrap_or(machine.cpus) > 1;
    match machine.clock {
        Clock::Auto if is_named && arms.iter().any(several) => Clock::Wall,
        clock => clock,
    }
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

fn read_arms(top: &Fields<'_>, baseline: Option<&str>, kernels: Kernels<'_>) -> Option<Vec<Arm>> {
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
    let mut arms: Vec<Arm> = tables
        .iter()
        .map(|(name, fields)| read_arm(name, fields, kernels))
        .collect::<Vec<_>>()
        .into_iter()
        .collect::<Option<_>>()?;
    arms.sort_by_key(|arm| Some(arm.name.as_str()) != baseline);
    Some(arms)
}

/// What an arm changes must fit the servers that the workloads have.
fn check_tunings(top: &Fields<'_>, arms: &[Arm], workloads: &[WorkloadPlan], checks: Checks<'_>) {
    let tables = top.table("arm").map(|table| table.named_tables());
    for (name, fields) in tables.unwrap_or_default() {
        let Some(arm) = arms.iter().find(|arm| arm.name == name) else {
            continue;
        };
        if let Err(why) = (checks.tuning)(&arm.tuning, workloads) {
            let key = if fields.has("config") {
                "config"
            } else {
                "config_file"
            };
            fields.wrong(key, why, "");
        }
    }
}

fn read_arm(name: &str, fields: &Fields<'_>, kernels: Kernels<'_>) -> Option<Arm> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    if name.is_empty() || name.len() > 40 || !name.chars().all(plain) {
        let what = format!("arm name of other than letters, digits and . _ + -: {name:?}");
        fields.wrong("", what, "rename the arm, 40 characters at most");
    }
    let kernel = match kernels.machine.kind {
        MachineKind::Qemu => read_kernel(fields, kernels),
        MachineKind::Local => read_running(fields),
    };
    let cmdline = fields
        .text("cmdline")
        .unwrap_or_default()
        .trim()
        .to_string();
    if cmdline.contains(['\n', '\0']) || cmdline.len() > 1500 {
        fields.wrong(
            "cmdline",
            "cmdline of several lines or above 1500 bytes",
            "shorten it",
        );
    }
    let sysctl = fields
        .table("sysctl")
        .map(|table| read_sysctl(&table))
        .unwrap_or_default();
    let cpus = read_cpus(fields, kernels.machine);
    let tuning = read_tuning(fields, kernels);
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

/// The kernel of an arm that runs where bakeoff runs.
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

fn read_tuning(fields: &Fields<'_>, kernels: Kernels<'_>) -> Tuning {
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
    let (config, named) = read_config(fields);
    let (config_file, named_files) = read_config_files(fields, kernels);
    let mut server_config: BTreeMap<String, ConfigChange> = BTreeMap::new();
    for (service, directives) in named {
        server_config.entry(service).or_default().directives = directives;
    }
    for (service, file) in named_files {
        server_config.entry(service).or_default().file = Some(file);
    }
    Tuning {
        env: env.into_iter().collect(),
        config,
        config_file,
        server_config,
        programs: programs.into_iter().collect(),
        injected_slowdown: fields
            .share(fields.name_of("injected_slowdown", "plant"), 0.0, 0.5)
            .unwrap_or(0.0),
        injected_period: read_injected_period(fields),
        io_scheduler: read_io_scheduler(fields),
        debugfs: read_debugfs(fields, kernels.machine.kind),
    }
}

/// `config`: lines for the first server of each workload, or a table of lines by the server's name.
fn read_config(fields: &Fields<'_>) -> (String, Vec<(String, String)>) {
    if !fields.is_table("config") {
        return (fields.lines("config").unwrap_or_default(), Vec::new());
    }
    let table = fields.table("config").expect("config is a table");
    let named = table.keys().into_iter().filter_map(|service| {
        let lines = table.lines(service)?;
        Some((service.to_string(), lines))
    });
    (String::new(), named.collect())
}

/// Longest configuration file: it travels to the guest with the job.
const LONGEST_CONFIG: usize = 256 << 10;

/// `config_file`: a path for the first server of each workload, or a table of paths by the server's name.
fn read_config_files(
    fields: &Fields<'_>,
    kernels: Kernels<'_>,
) -> (Option<ConfigFile>, Vec<(String, ConfigFile)>) {
    let read = |fields: &Fields<'_>, key: &str| {
        let path = fields.text(key)?;
        let read = (kernels.checks.file)(&kernels.base.join(path));
        let why = match read {
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
    let named = table
        .keys()
        .into_iter()
        .filter_map(|service| Some((service.to_string(), read(&table, service)?)));
    (None, named.collect())
}

/// Kernels of today have these; which of them one has been built with shows when it is set.
const IO_SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];

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
        let is_step = |part: &str| part.is_empty() || part == "." || part == "..";
        if name.contains('\0') || name.split('/').any(is_step) {
            let what = format!("not a path below debugfs: {name:?}");
            table.wrong(name, what, "write it as \"sched/features\"");
        }
        files.insert(name.into(), value);
    }
    files
}

fn read_kernel(fields: &Fields<'_>, kernels: Kernels<'_>) -> Option<KernelRef> {
    let Kernels { base, checks, .. } = kernels;
    if !fields.has("kernel") {
        fields.missing("kernel", "\"debian:bookworm/6.1\"");
    }
    let modules = fields.text("modules").map(|dir| base.join(dir));
    match kernel::read(fields.text("kernel")?, modules) {
        Ok(KernelRef::Running) => {
            let what = "kernel \"running\" on a machine of kind \"qemu\"";
            fields.wrong("kernel", what, kernel::FORMS);
        }
        Err(why) => fields.wrong("kernel", why, kernel::FORMS),
        Ok(kernel) => {
            let kernel = settle(kernel, base);
            match (checks.kernel)(&kernel) {
                Ok(()) => return Some(kernel),
                Err(why) => fields.wrong("kernel", why, ""),
            }
        }
    }
    None
}

/// Whether this may be a sysctl's name, dotted.
fn sysctl_name_is_good(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    !name.contains("..") && name.contains('.') && name.chars().all(good)
}

fn read_sysctl(fields: &Fields<'_>) -> BTreeMap<String, String> {
    let mut sysctl = BTreeMap::new();
    for (name, value) in fields.scalars() {
        if !sysctl_name_is_good(name) {
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

/// Paths are written relative to the plan file.
fn settle(kernel: KernelRef, base: &Path) -> KernelRef {
    match kernel {
        KernelRef::Deb(files) => KernelRef::Deb(files.iter().map(|file| base.join(file)).collect()),
        KernelRef::File { vmlinuz, modules } => KernelRef::File {
            vmlinuz: base.join(vmlinuz),
            modules,
        },
        KernelRef::Tree(dir) => KernelRef::Tree(base.join(dir)),
        KernelRef::Debian { .. } | KernelRef::Running => kernel,
    }
}

fn read_workloads(
    top: &Fields<'_>,
    trial_limit: Duration,
    check: &CheckWorkload<'_>,
) -> Option<Vec<WorkloadPlan>> {
    let tables = top.tables("workload");
    if tables.is_empty() {
        top.wrong(
            "workload",
            "no workload",
            "add [[workload]] with kind = \"web-static\"",
        );
        return None;
    }
    let mut workloads: Vec<WorkloadPlan> = Vec::new();
    let mut whole = true;
    for table in &tables {
        let Some(workload) = check(table) else {
            whole = false;
            continue;
        };
        if workloads.iter().any(|other| other.id == workload.id) {
            let what = format!("two workloads of one name: {:?}", workload.id);
            table.wrong("kind", what, "give one of them another name = \"...\"");
        }
        if workload.length >= trial_limit {
            let length = units::show_duration(workload.length);
            let limit = units::show_duration(trial_limit);
            let what = format!("warmup and window longer than a trial can be ({limit}): {length}");
            table.wrong(
                "window",
                what,
                "shorten window, or raise trial_limit in [machine]",
            );
        }
        workloads.push(workload);
    }
    whole.then_some(workloads)
}

/// Largest margin that may be asked for, as a share; it must be above zero.
pub const MOST_MARGIN: f64 = 0.5;

/// Largest error rate that may be asked for; it must be above zero.
pub const MOST_ERROR_RATE: f64 = 0.2;

/// Most blocks that a run may have.
pub const MOST_BLOCKS: u32 = 10_000;

fn read_design(fields: Option<&Fields<'_>>) -> Design {
    let mut design = Design {
        margin: 0.01,
        error_rate: 0.05,
        min_blocks: 4,
        max_blocks: 30,
        more_blocks: 0,
        seed: 1,
    };
    let Some(fields) = fields else { return design };
    set(&mut design.margin, fields.share("margin", 0.0, MOST_MARGIN));
    set(
        &mut design.error_rate,
        fields.share("error_rate", 0.0, MOST_ERROR_RATE),
    );
    set(
        &mut design.max_blocks,
        fields
            .count("max_blocks", 2..=u64::from(MOST_BLOCKS))
            .map(|n| n as u32),
    );
    // A plan that lowers max_blocks below the default of min_blocks means both.
    design.min_blocks = design.min_blocks.min(design.max_blocks);
    set(
        &mut design.min_blocks,
        fields
            .count("min_blocks", 2..=u64::from(MOST_BLOCKS))
            .map(|n| n as u32),
    );
    set(&mut design.seed, fields.count("seed", 0..=i64::MAX as u64));
    if design.min_blocks > design.max_blocks {
        let what = format!("min_blocks above max_blocks: {}", design.min_blocks);
        fields.wrong(
            "min_blocks",
            what,
            format!("write at most {}", design.max_blocks),
        );
    }
    fields.finish();
    design
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    const GOOD: &str = r#"
title = "two kernels"
baseline = "6.1"
[machine]
cpus = 2
memory = "2GiB"
[image]
recipe = "web"
[arm."7.2"]
kernel = "debian:trixie-backports/7.2"
cmdline = "mitigations=off"
sysctl = { "net.core.somaxconn" = 4096 }
[arm."6.1"]
kernel = "debian:bookworm/6.1"
[[workload]]
kind = "toy"
window = "10s"
[design]
margin = "2%"
max_blocks = 3
"#;

    fn toy(fields: &Fields<'_>) -> Option<WorkloadPlan> {
        fields.choice("kind", &[("toy", ())])?;
        let length = fields.read("window", units::duration)?;
        fields.finish();
        let kind = "toy".to_string();
        Some(WorkloadPlan {
            id: kind.clone(),
            kind,
            options: serde_json::Value::Null,
            length,
            expected: None,
        })
    }

    /// `edits` replace text in the good plan; what is wrong with the result is compared.
    fn check(edits: &[(&str, &str)], want: &Expect) {
        let mut text = GOOD.to_string();
        for (from, to) in edits {
            assert!(text.contains(from), "the good plan has no {from:?}");
            text = text.replacen(from, to, 1);
        }
        let got = match read(
            "plan.toml",
            &text,
            Path::new("/plans"),
            Checks::of_the_past(&toy),
        ) {
            Ok(plan) => format!("{} arms", plan.arms.len()),
            Err(problems) => problems.to_string(),
        };
        want.assert_eq(&got);
    }

    #[test]
    fn a_good_plan_is_read_whole_with_its_baseline_first() {
        let plan = read(
            "plan.toml",
            GOOD,
            Path::new("/plans"),
            Checks::of_the_past(&toy),
        )
        .unwrap();
        let names: Vec<_> = plan.arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(names, ["6.1", "7.2"]);
        assert_eq!(plan.arms[1].sysctl["net.core.somaxconn"], "4096");
        assert_eq!((plan.design.min_blocks, plan.design.max_blocks), (3, 3));
        assert!((plan.design.margin - 0.02).abs() < 1e-12);
    }

    #[test]
    fn a_misspelt_key_is_named_with_the_right_one() {
        check(
            &[("memory", "memmory"), ("baseline", "base_line")],
            &expect![[r#"
                plan.toml:1: missing key in the file: baseline (add baseline = the name of an arm)
                plan.toml:3: unknown key in the file: base_line (did you mean "baseline"?)
                plan.toml:6: unknown key in [machine]: memmory (did you mean "memory"?)"#]],
        );
    }

    #[test]
    fn a_baseline_that_is_no_arm_is_refused() {
        check(
            &[("baseline = \"6.1\"", "baseline = \"6.2\"")],
            &expect![[r#"plan.toml:3: baseline is not an arm: "6.2" (did you mean "6.1"?)"#]],
        );
    }

    #[test]
    fn one_arm_is_not_a_comparison() {
        check(
            &[
                ("[arm.\"6.1\"]\nkernel = \"debian:bookworm/6.1\"\n", ""),
                ("\"6.1\"", "\"7.2\""),
            ],
            &expect![
                "plan.toml:9: one arm only: 7.2 (a comparison needs two: add another [arm.NAME])"
            ],
        );
    }

    #[test]
    fn a_window_longer_than_a_trial_is_refused() {
        check(
            &[("\"10s\"", "\"2h\"")],
            &expect![
                "plan.toml:17: warmup and window longer than a trial can be (1h): 2h (shorten window, or raise trial_limit in [machine])"
            ],
        );
    }

    #[test]
    fn counted_instructions_need_one_cpu() {
        check(
            &[("cpus = 2", "cpus = 2\nclock = \"instructions\"")],
            &expect![[
                r#"plan.toml:5: clock "instructions" with more than one CPU: 2 (write cpus = 1: counted instructions need one CPU)"#
            ]],
        );
    }

    #[test]
    fn a_cpu_model_is_checked_by_its_form_its_clock_and_the_emulator() {
        let wrong = |line: &str| [("cpus = 2", line.to_string())];
        let check_line = |line: &str, want: &Expect| {
            let edits = wrong(line);
            check(&[(edits[0].0, edits[0].1.as_str())], want);
        };
        check_line("cpu_model = \"EPYC,-avx2\"", &expect!["2 arms"]);
        check_line(
            "clock = \"wall\"\ncpu_model = \"max,+erms\"",
            &expect!["2 arms"],
        );
        check_line(
            "cpu_model = \"max,+erms,+fsrm\"",
            &expect![[
                r#"plan.toml:5: cpu_model with erms and fsrm where instructions may be counted (remove it, or write clock = "wall": each iteration of a REP string instruction would count as an instruction, 4096 of them for a page that a CPU fills in some 100 cycles)"#
            ]],
        );
        check_line(
            "cpu_model = \"host\"",
            &expect![[
                r#"plan.toml:5: cpu_model "host" where instructions may be counted (write clock = "wall": only KVM shows a guest the host's CPU)"#
            ]],
        );
        check_line(
            "cpu_model = \"486\"",
            &expect![[
                r#"plan.toml:5: cpu_model without 64-bit mode: 486 (name another, such as "qemu64" or "EPYC")"#
            ]],
        );
        check_line(
            "cpu_model = \"max,kvm=off\"",
            &expect![[
                r#"plan.toml:5: feature without + or -: "kvm=off" (write it like "EPYC" or "Haswell-noTSX,-avx2")"#
            ]],
        );
        let text = GOOD.replacen("cpus = 2", "cpu_model = \"Hasswell\"", 1);
        let mut checks = Checks::of_the_past(&toy);
        checks.cpu_model = &|model| Err(format!("unknown CPU model: {}", model.name));
        let why = read("plan.toml", &text, Path::new("/plans"), checks).unwrap_err();
        assert_eq!(why.to_string(), "plan.toml:5: unknown CPU model: Hasswell");
    }

    #[test]
    fn memory_is_checked_by_what_the_host_has() {
        let mut checks = Checks::of_the_past(&toy);
        let host = |bytes| match bytes {
            0..=0x8000_0000 => Ok(()),
            more => Err(format!("too much: {more}")),
        };
        checks.memory = &host;
        let said = |text: &str| match read("plan.toml", text, Path::new("/plans"), checks) {
            Ok(plan) => plan.machine.memory_bytes.to_string(),
            Err(problems) => problems.to_string(),
        };
        assert_eq!(said(GOOD), "2147483648");
        let greedy = GOOD.replacen("2GiB", "3GiB", 1);
        assert_eq!(said(&greedy), "plan.toml:6: too much: 3221225472");
        let none = GOOD.replacen("2GiB", "2TiB", 1);
        assert!(said(&none).contains("memory out of range"));
    }

    #[test]
    fn counted_instructions_need_one_cpu_in_each_arm() {
        let arm = "kernel = \"debian:bookworm/6.1\"";
        check(
            &[
                ("cpus = 2", "clock = \"instructions\""),
                (arm, &format!("{arm}\ncpus = 4")),
                ("cmdline", "cpus = 0\ncmdline"),
            ],
            &expect![[r#"
                plan.toml:11: cpus out of range: 0 (write 1 to 255)
                plan.toml:16: clock "instructions" with an arm of more than one CPU: 4 (write cpus = 1, or clock = "wall": counted instructions need one CPU)"#]],
        );
    }

    #[test]
    fn an_arm_may_have_cpus_of_its_own_and_then_time_is_the_walls() {
        let read_with = |arm: &str| {
            let arm = format!("kernel = \"debian:bookworm/6.1\"\n{arm}");
            let text = GOOD.replacen("kernel = \"debian:bookworm/6.1\"", &arm, 1);
            let checks = Checks::of_the_past(&toy);
            let plan = read("plan.toml", &text, Path::new("/plans"), checks).unwrap();
            let cpus: Vec<_> = plan.arms.iter().map(|arm| plan.cpus(arm)).collect();
            (plan.machine.clock, cpus)
        };
        assert_eq!(read_with("cpus = 4"), (Clock::Wall, vec![Some(4), Some(2)]));
        assert_eq!(read_with("cpus = 1"), (Clock::Wall, vec![Some(1), Some(2)]));
        assert_eq!(read_with(""), (Clock::Auto, vec![Some(2), Some(2)]));
    }

    #[test]
    fn an_arm_of_a_live_host_has_all_cpus_or_so_many() {
        let (head, _) = GOOD.split_once("[machine]").unwrap();
        let (_, rest) = GOOD.split_once("[[workload]]").unwrap();
        let text = format!(
            "{head}[machine]\nkind = \"local\"\n[arm.\"6.1\"]\n[arm.one]\ncpus = 1\n[[workload]]{rest}"
        );
        let checks = Checks::of_the_past(&toy);
        let plan = read("plan.toml", &text, Path::new("/plans"), checks).unwrap();
        let cpus: Vec<_> = plan.arms.iter().map(|arm| plan.cpus(arm)).collect();
        assert_eq!(cpus, [None, Some(1)]);
    }

    #[test]
    fn many_mistakes_are_told_at_once() {
        check(
            &[
                ("\"2GiB\"", "\"lots\""),
                ("debian:bookworm/6.1", "6.1"),
                ("kind = \"toy\"", "kind = \"tot\""),
                ("margin = \"2%\"", "margin = \"200%\"\nmin_blocks = 9"),
                ("\"net.core.somaxconn\" = 4096", "somaxconn = [1]"),
            ],
            &expect![[r#"
                plan.toml:6: memory: not a size: "lots" (write it like "512MiB" or "2GiB")
                plan.toml:12: wrong type for somaxconn in [arm."7.2".sysctl]: array (write a number or a text)
                plan.toml:14: unknown kind of kernel: "6.1" (write debian:SUITE/VERSION, deb:FILE..., file:VMLINUZ, tree:DIR or running)
                plan.toml:16: unknown kind: "tot" (did you mean "toy"?)
                plan.toml:19: margin out of range: "200%" (write above 0 % to 50 %)
                plan.toml:20: min_blocks above max_blocks: 9 (write at most 3)"#]],
        );
    }

    #[test]
    fn a_sysctl_without_quotes_is_told_to_have_some() {
        check(
            &[("\"net.core.somaxconn\" = 4096", "net.core.somaxconn = 3")],
            &expect![[
                r#"plan.toml:12: dotted name without quotes in [arm."7.2".sysctl]: net.core.somaxconn (quote the dotted name: "net.core.somaxconn" = ...)"#
            ]],
        );
    }

    #[test]
    fn the_sysctls_of_a_plan_become_paths_as_in_sysctl_8() {
        let path = |name| sysctl_path(name).display().to_string();
        assert_eq!(path("net.core.somaxconn"), "/proc/sys/net/core/somaxconn");
        assert_eq!(
            path("net.ipv4.conf.eth0/1.rp_filter"),
            "/proc/sys/net/ipv4/conf/eth0.1/rp_filter"
        );
        assert_eq!(path("kernel/pid_max"), "/proc/sys/kernel/pid_max");
        for name in ["net.core.somaxconn", "net.ipv4.conf.eth0/1.rp_filter"] {
            assert_eq!(sysctl_name(&sysctl_path(name)), name);
        }
    }

    #[test]
    fn a_plan_against_itself_has_its_baseline_twice() {
        let text = against_itself(GOOD, 99).unwrap();
        let checks = Checks::of_the_past(&toy);
        let plan = read("plan.toml", &text, Path::new("/plans"), checks).unwrap();
        let names: Vec<_> = plan.arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(names, ["6.1", "6.1-again"]);
        assert_eq!(plan.arms[0].kernel, plan.arms[1].kernel);
        assert!(plan.title.starts_with("A/A: "));
        assert_eq!((plan.design.seed, seed_of(&text)), (99, Some(99)));
    }

    #[test]
    fn a_plan_is_varied_by_its_model_or_by_its_mitigations() {
        let read_varied = |variation: &Variation| {
            let text = varied(GOOD, variation, 2).unwrap();
            let checks = Checks::of_the_past(&toy);
            read("plan.toml", &text, Path::new("/plans"), checks).unwrap()
        };
        let model = CpuModel::parse("EPYC-Milan,-avx2").unwrap();
        let plan = read_varied(&Variation::Model(model.clone()));
        assert_eq!(plan.machine.cpu_model, Some(model));
        assert_eq!((plan.design.min_blocks, plan.design.max_blocks), (2, 2));
        let plan = read_varied(&Variation::NoMitigations);
        assert_eq!(plan.machine.cpu_model, None);
        let cmdlines: Vec<_> = plan.arms.iter().map(|arm| arm.cmdline.as_str()).collect();
        assert_eq!(
            cmdlines,
            ["mitigations=off", "mitigations=off mitigations=off"]
        );
    }

    #[test]
    fn a_live_host_brings_kernel_image_and_size_itself() {
        check(
            &[(
                "[machine]",
                "[machine]\nkind = \"local\"\nclock = \"instructions\"\ncpu_model = \"max\"",
            )],
            &expect![[r#"
                plan.toml:6: clock "instructions" on a machine of kind "local" (write "wall": only an emulator counts them)
                plan.toml:7: cpu_model of a machine of kind "local" (remove it: the CPU is this host's own)
                plan.toml:8: cpus of a machine of kind "local" (write it in each arm that is not to have all of this host's)
                plan.toml:8: clock "instructions" with more than one CPU: 2 (write cpus = 1: counted instructions need one CPU)
                plan.toml:9: memory of a machine of kind "local" (remove it: all that this host has is used)
                plan.toml:10: [image] on a machine of kind "local" (remove it: servers are this host's own)
                plan.toml:13: kernel of a machine of kind "local": "debian:trixie-backports/7.2" (remove it: the kernel is the one that runs)
                plan.toml:14: cmdline on a machine of kind "local" (remove it: the kernel is the one that runs)
                plan.toml:17: kernel of a machine of kind "local": "debian:bookworm/6.1" (remove it: the kernel is the one that runs)"#]],
        );
    }

    #[test]
    fn what_an_arm_changes_in_its_services_is_read_and_checked() {
        let tuned = "kernel = \"debian:bookworm/6.1\"\nenv = { GOMAXPROCS = 2 }\n\
                     program = { nginx = \"sbin/nginx\" }\ninjected_slowdown = \"60%\"";
        check(
            &[("kernel = \"debian:bookworm/6.1\"", tuned)],
            &expect![[r#"
                plan.toml:16: program of nginx without an absolute path: "sbin/nginx" (write program = { nginx = "/opt/nginx/sbin/nginx" })
                plan.toml:17: injected_slowdown out of range: "60%" (write above 0 % to 50 %)"#]],
        );
        let right = tuned.replace("sbin", "/opt/sbin").replace("60%", "1%");
        let text = GOOD.replacen("kernel = \"debian:bookworm/6.1\"", &right, 1);
        let checks = Checks::of_the_past(&toy);
        let plan = read("plan.toml", &text, Path::new("/plans"), checks).unwrap();
        let tuning = &plan.arms[0].tuning;
        assert_eq!(tuning.env["GOMAXPROCS"], "2");
        assert_eq!(tuning.programs["nginx"], "/opt/sbin/nginx");
        assert!((tuning.injected_slowdown - 0.01).abs() < 1e-12);
    }

    #[test]
    fn a_key_by_its_earlier_name_is_read_and_named() {
        let old = "kernel = \"debian:bookworm/6.1\"\nplant = \"1%\"";
        let text = GOOD.replacen("kernel = \"debian:bookworm/6.1\"", old, 1);
        let checks = Checks::of_the_past(&toy);
        let plan = read("plan.toml", &text, Path::new("/plans"), checks).unwrap();
        assert!((plan.arms[0].tuning.injected_slowdown - 0.01).abs() < 1e-12);
        expect![
            "plan.toml:15: plant is called injected_slowdown now (write injected_slowdown = ...)"
        ]
        .assert_eq(&Problems(plan.renamed).to_string());
        let both = format!("{old}\ninjected_slowdown = \"1%\"");
        check(
            &[("kernel = \"debian:bookworm/6.1\"", &both)],
            &expect![
                "plan.toml:15: injected_slowdown twice, once by its earlier name: plant (take the earlier one out)"
            ],
        );
    }

    #[test]
    fn broken_syntax_has_its_line() {
        check(
            &[("cpus = 2", "cpus = ")],
            &expect![
                "plan.toml:5: string values must be quoted, expected literal string (see docs/plan.md for the form)"
            ],
        );
    }

    #[test]
    fn paths_are_taken_from_the_plan_files_directory() {
        let text = GOOD.replacen("debian:bookworm/6.1", "file:boot/vmlinuz", 1);
        let plan = read(
            "plan.toml",
            &text,
            Path::new("/plans"),
            Checks::of_the_past(&toy),
        )
        .unwrap();
        assert_eq!(plan.arms[0].kernel.to_string(), "file:/plans/boot/vmlinuz");
    }
}
