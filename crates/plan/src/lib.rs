//! The plan: one experiment, validated as a whole before anything boots.

mod arm;
mod client_hosts;
pub mod cpu;
mod disclosure;
mod disturb;
pub mod fields;
mod file_system;
mod growth;
pub mod kernel;
pub mod kernel_setting;
mod machine;
mod pinned;
mod queue;
mod scheduler;
mod seek_disk;
pub mod setting;
mod ssh;
mod string_price;
mod sysctl;
mod target;
mod variation;

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::arm::{ArmContext, check_tunings, read_arms};
use crate::cpu::CpuModel;
use crate::disclosure::read_disclosure;
use crate::disturb::{DisturbContext, read_disturbances};
use crate::fields::{Fields, Page};
use crate::growth::read_growth;
use crate::kernel::KernelRef;
use crate::machine::{check_clients, read_machine, set};
use crate::pinned::{pin, read_pinned};
use base::arch::Arch;
use base::input::file;
use base::input::problem::Problems;
use base::input::tree::Tree;
use base::input::units;
use strum::{IntoStaticStr, VariantArray};

pub use crate::arm::{Arm, ConfigChange, ConfigFile, InjectedCost, Tuning};
pub use crate::client_hosts::{ClientHost, MOST_CLIENT_HOSTS};
pub use crate::disclosure::{Disclosure, TuningNote};
pub use crate::disturb::{DisturbanceKind, MOST_TIMES, PlannedDisturbance};
pub use crate::file_system::FileSystem;
pub use crate::growth::GrowthPlan;
pub use crate::machine::{Clients, Clock, DiskSpeed, MachineKind, MachinePlan};
pub use crate::pinned::Pinned;
pub use crate::scheduler::Scheduler;
pub use crate::seek_disk::SeekDisk;
pub use crate::ssh::{BootWay, Power, SshPlan};
pub use crate::string_price::StringPrice;
pub use crate::sysctl::{sysctl_name, sysctl_path};
pub use crate::target::{EvidenceSource, Target};
pub use crate::variation::{
    Confirming, KernelArm, KernelComparison, Variation, against_itself, at_error_rate,
    comparing_kernels, confirming, explained, seed_of, varied,
};
pub use toml_edit::TomlError;

/// One experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Its title.
    pub title: String,
    /// The arm with which the others are compared.
    pub baseline: String,
    /// Its question, if stated.
    pub mode: Option<Mode>,
    /// Settings of all arms; each arm's settings include them.
    pub pinned: Pinned,
    /// Where arms boot.
    pub machine: MachinePlan,
    /// The userland of emulated machines; `None` if the machine brings it.
    pub image: Option<ImagePlan>,
    /// The arms: baseline first, the others in the file's order.
    pub arms: Vec<Arm>,
    /// The workloads in the file's order.
    pub workloads: Vec<WorkloadPlan>,
    /// Planned disturbances of each trial's system, in the file's order.
    pub disturbances: Vec<PlannedDisturbance>,
    /// Blocks, error rate and margin.
    pub design: Design,
    /// Scope of a verdict of a run on several nodes.
    pub claim: Claim,
    /// What to do with blocks that an outside disturbance affected.
    pub disturbed_blocks: DisturbedBlocks,
    /// Whether trials are profiled: `[why]`. With counted instructions every trial is, with the wall clock separate ones are.
    pub why: bool,
    /// How much growth matters.
    pub growth: GrowthPlan,
    /// Who measured, who paid.
    pub disclosure: Disclosure,
}

/// The guests' root file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePlan {
    /// Name or path of its recipe.
    pub recipe: String,
    /// Debian suite of its packages; `None` for the recipe's.
    pub suite: Option<String>,
}

/// The plan's question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Mode {
    /// Compares the code: all settings are the same, as far as possible.
    Controlled,
    /// Compares the product: defaults differ as shipped.
    AsShipped,
}

/// A workload of a plan, checked by the workload itself.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadPlan {
    /// Unique in the plan: its `name`, or its kind.
    pub id: String,
    /// `web-static`, ...
    pub kind: String,
    /// Its validated options, as the workload serialized them.
    pub options: serde_json::Value,
    /// Its traits.
    pub traits: Traits,
    /// Guest time of warm-up and window together; the limit, if a program runs to its end.
    pub length: Duration,
    /// Guest time of the window.
    pub window: Duration,
    /// Expected time of a program that runs to its end.
    pub expected: Option<Duration>,
}

/// Traits of a workload that other crates need, so that they need not name workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the traits are independent of each other"
)]
pub struct Traits {
    /// It opens as many connections as its option `connections` or `clients` says.
    pub opens_connections: bool,
    /// It requests only files that never change.
    pub is_static: bool,
    /// It accepts any content of a response.
    pub accepts_any_content: bool,
    /// It creates block devices in the system's memory.
    pub makes_devices: bool,
    /// It runs a program of the user.
    pub runs_program: bool,
}

impl Traits {
    /// Simulated clients with any requests.
    pub const CLIENTS: Self = Self {
        opens_connections: true,
        is_static: false,
        accepts_any_content: false,
        makes_devices: false,
        runs_program: false,
    };
    /// Simulated clients that request static files.
    pub const STATIC: Self = Self {
        is_static: true,
        ..Self::CLIENTS
    };
}

/// Scope of a verdict of a run on several nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Claim {
    /// The nodes that ran it.
    #[default]
    Nodes,
    /// All machines like them.
    Machines,
}

/// What to do with a block that an outside disturbance affected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum DisturbedBlocks {
    /// Run it again; it does not count.
    #[default]
    Repeat,
    /// Count it like any other.
    Keep,
}

/// Design of the experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    /// Equivalence margin, a fraction.
    pub margin: f64,
    /// Accepted probability of a wrong verdict, a fraction.
    pub error_rate: f64,
    /// Blocks before the first interim analysis.
    pub min_blocks: u32,
    /// Blocks after which the run ends undecided.
    pub max_blocks: u32,
    /// Blocks added to those when the run had ended undecided. They come from the journal, never from a plan file.
    pub more_blocks: u32,
    /// Seed of order, data and schedules.
    pub seed: u64,
    /// Number of arms, whose order is drawn in each block.
    pub arms: u32,
}

impl Design {
    /// What a plan has that states nothing; without arms.
    pub const DEFAULTS: Self = Self {
        margin: 0.01,
        error_rate: 0.05,
        min_blocks: 4,
        max_blocks: 30,
        more_blocks: 0,
        seed: 1,
        arms: 0,
    };

    /// Number of opening blocks. Their orders are redrawn until no arm runs before the baseline in all of them, or after it in all of
    /// them. 0 if more than half of all draws would be rejected.
    pub fn opening(&self) -> u32 {
        let blocks = self.min_blocks.clamp(2, self.max_blocks.max(2));
        if self.arms > 1 && self.max_blocks > 1 && self.one_sided_share(blocks) <= 0.5 {
            blocks
        } else {
            0
        }
    }

    /// The error rate of tests, which compare a run with all orders, including those that its opening excludes. It is lower than
    /// `error_rate` by their share, so that the run keeps `error_rate`.
    pub fn test_level(&self) -> f64 {
        self.error_rate * self.drawn_share()
    }

    /// Lower bound of the share of all draws that the opening accepts.
    pub fn drawn_share(&self) -> f64 {
        match self.opening() {
            0 => 1.0,
            blocks => 1.0 - self.one_sided_share(blocks),
        }
    }

    /// Upper bound of the probability that some arm is on the same side of the baseline in all of `blocks` blocks.
    fn one_sided_share(&self, blocks: u32) -> f64 {
        f64::from(self.arms.saturating_sub(1)) * (1.0 - f64::from(blocks)).exp2()
    }

    /// Highest number of blocks, including those that were added later.
    pub fn most_blocks(&self) -> u32 {
        self.max_blocks.saturating_add(self.more_blocks)
    }
}

impl Plan {
    /// Number of comparisons of a primary metric: each arm except the baseline, on each workload.
    pub fn comparisons(&self) -> usize {
        self.workloads.len() * self.arms.len().saturating_sub(1)
    }

    /// Number of CPUs of an arm; `None` for all CPUs of its host.
    pub fn cpus(&self, arm: &Arm) -> Option<u32> {
        match self.machine.kind {
            MachineKind::Qemu => Some(arm.cpus.unwrap_or(self.machine.cpus)),
            MachineKind::Local | MachineKind::Ssh => arm.cpus,
            MachineKind::Url => None,
        }
    }

    /// The network system of an arm in a block. With `swap`, the two systems exchange their addresses in every other block.
    pub fn target(&self, arm: &Arm, block: u32) -> Option<Target> {
        let KernelRef::Remote(target) = &arm.kernel else {
            return None;
        };
        let mut target = (**target).clone();
        if self.is_swapped(block) {
            let mut others = self.arms.iter().filter(|other| other.name != arm.name);
            if let Some(KernelRef::Remote(other)) = others.next().map(|other| &other.kernel) {
                (target.url, target.evidence) = (other.url.clone(), other.evidence.clone());
                target.addresses.clone_from(&other.addresses);
            }
        }
        Some(target)
    }

    /// Whether the two systems have exchanged their addresses in a block, counted from 1.
    pub fn is_swapped(&self, block: u32) -> bool {
        !self.machine.swap.is_empty() && block.is_multiple_of(2)
    }

    /// Whether guests with clients beside servers switch HyStart of TCP CUBIC off: unless an arm sets it, or a disturbance delays
    /// packets as a wire would.
    pub fn disables_hystart(&self) -> bool {
        let sets_it = |arm: &Arm| arm.cmdline.contains("tcp_cubic.hystart");
        let mut disturbances = self.disturbances.iter();
        self.machine.kind == MachineKind::Qemu
            && !self.arms.iter().any(sets_it)
            && !disturbances.any(|planned| planned.kind.is_netem())
    }
}

/// Checks a `[[workload]]` table; notes its mistakes and returns `None` if there are any.
pub type CheckWorkload<'c> = dyn Fn(&Fields<'_>) -> Option<WorkloadPlan> + 'c;

/// Checks an arm's tuning of the servers of these workloads. The error says what is wrong.
pub type CheckTuning<'c> = dyn Fn(&Tuning, &[WorkloadPlan]) -> Result<(), String> + 'c;

/// Checks of other crates, needed to read a plan. Errors say what is wrong.
#[derive(Clone, Copy)]
pub struct Checks<'c> {
    /// Checks a workload.
    pub workload: &'c CheckWorkload<'c>,
    /// Checks a kernel's name, for guests of this architecture.
    pub kernel: &'c dyn Fn(&KernelRef, Arch) -> Result<(), String>,
    /// Checks a recipe's name.
    pub recipe: &'c dyn Fn(&str) -> Result<(), String>,
    /// Checks a guest's memory, in bytes.
    pub memory: &'c dyn Fn(u64) -> Result<(), String>,
    /// Checks a CPU model.
    pub cpu_model: &'c dyn Fn(&CpuModel, Arch) -> Result<(), String>,
    /// Checks a program that bakeoff runs for the plan.
    pub program: &'c dyn Fn(&str) -> Result<(), String>,
    /// Reads a configuration file.
    pub file: &'c dyn Fn(&Path) -> Result<String, String>,
    /// Checks an arm's tuning of the workloads' servers.
    pub tuning: &'c CheckTuning<'c>,
    /// The services that a workload starts, by name.
    pub services: &'c dyn Fn(&WorkloadPlan) -> Vec<&'static str>,
    /// Checks the suite of an image.
    pub suite: &'c dyn Fn(&str) -> Result<(), String>,
    /// Checks a URL.
    pub url: &'c dyn Fn(&str) -> Result<(), String>,
    /// Whether a workload's clients can run on another system than its servers.
    pub is_driven_from_outside: &'c dyn Fn(&WorkloadPlan) -> bool,
    /// Whether a workload's clients continue after failed requests, until the window ends.
    pub can_be_disturbed: &'c dyn Fn(&WorkloadPlan) -> bool,
    /// Whether several hosts can share a workload's clients.
    pub is_shareable: &'c dyn Fn(&WorkloadPlan) -> bool,
    /// Whether a workload's clients can use several addresses of its servers.
    pub takes_addresses: &'c dyn Fn(&WorkloadPlan) -> bool,
    /// Whether the plan has already run. What was accepted then is not refused now.
    pub has_run: bool,
}

impl<'c> Checks<'c> {
    /// Checks for a plan that has already run, whose kernels and recipe may no longer exist.
    pub fn of_the_past(workload: &'c CheckWorkload<'c>) -> Self {
        Self {
            workload,
            kernel: &|_, _| Ok(()),
            recipe: &|_| Ok(()),
            memory: &|_| Ok(()),
            cpu_model: &|_, _| Ok(()),
            program: &|_| Ok(()),
            file: &|_| Ok(String::new()),
            tuning: &|_, _| Ok(()),
            services: &|_| Vec::new(),
            suite: &|_| Ok(()),
            url: &|_| Ok(()),
            is_driven_from_outside: &|_| true,
            can_be_disturbed: &|_| true,
            is_shareable: &|_| true,
            takes_addresses: &|_| true,
            has_run: true,
        }
    }
}

/// Longest plan file, in bytes. Reading one takes about 25 times as much memory, measured with comments.
const FILE_BYTES: u64 = 1 << 20;

/// The text of a plan's file.
///
/// # Errors
/// Those of `fs::read_to_string`; the file is not regular, or too long for a plan.
pub fn read_text(path: &Path) -> io::Result<String> {
    file::read_to_string_within(path, FILE_BYTES)
}

/// Like `read_text`, for a plan in an untrusted directory.
///
/// # Errors
/// Those of `read_text`; the file is a symbolic link.
pub fn read_text_in(dir: &Tree, name: &str) -> io::Result<String> {
    dir.read_to_string_within(name, FILE_BYTES)
}

/// Reads a plan. Its relative paths are resolved against `base`, the plan file's directory.
pub fn read(file: &str, text: &str, base: &Path, checks: Checks<'_>) -> Result<Plan, Problems> {
    let page = Page::new(file, text);
    let table = page.parse();
    let plan = read_top(&Fields::top(&page, &table), base, checks);
    page.close(plan)
}

fn read_top(top: &Fields<'_>, base: &Path, checks: Checks<'_>) -> Option<Plan> {
    let title = required_text(top, "title", "\"what this compares\"");
    let mode = top.variant("mode");
    let machine_fields = top.table("machine");
    let mut machine = read_machine(machine_fields.as_ref(), base, checks);
    let image = match machine.kind {
        MachineKind::Qemu | MachineKind::Ssh => read_image(top, base, checks).map(Some),
        kind @ (MachineKind::Local | MachineKind::Url) => refuse_image(top, kind).then_some(None),
    };
    let baseline = required_text(top, "baseline", "the name of an arm");
    let context = ArmContext {
        machine: &machine,
        base,
        checks: &checks,
    };
    let mut arms = read_arms(top, baseline.as_deref(), context);
    let pinned = read_pinned(top, machine.kind, checks);
    if let Some(arms) = &mut arms {
        pin(top, &pinned, arms);
    }
    machine.clock = resolve_clock(&machine, arms.as_deref().unwrap_or_default());
    let workloads = read_workloads(top, machine.trial_limit, checks.workload);
    if let (Some(arms), Some(workloads)) = (&arms, &workloads) {
        check_tunings(top, arms, workloads, checks);
    }
    if let (Some(fields), Some(workloads)) = (&machine_fields, &workloads) {
        check_clients(fields, &machine, workloads, checks);
    }
    let (claim, disturbed_blocks, mut design) = read_design(top.table("design").as_ref());
    design.arms = arms.as_ref().map_or(0, Vec::len) as u32;
    let context = DisturbContext {
        machine: &machine,
        arms: arms.as_deref().unwrap_or_default(),
        workloads: workloads.as_deref().unwrap_or_default(),
        seed: design.seed,
        can_be_disturbed: checks.can_be_disturbed,
    };
    let disturbances = read_disturbances(top, &context);
    if !disturbances.is_empty() {
        // The guest's network is disturbed, so the clients must be in the guest, even if the default is another.
        machine.clients = machine.clients.or(guest_clients(machine.kind));
    }
    let why = read_why(top, machine.kind);
    let growth = read_growth(top);
    let disclosure = read_disclosure(top);
    check_swap(top, &machine, arms.as_deref());
    check_ceiling(top, &machine, arms.as_deref());
    top.finish();
    Some(Plan {
        title: title?,
        baseline: baseline?,
        mode,
        pinned,
        machine,
        image: image?,
        arms: arms?,
        workloads: workloads?,
        disturbances,
        design,
        claim,
        disturbed_blocks,
        why,
        growth,
        disclosure,
    })
}

/// Turns "auto" into the wall clock if arms differ in CPUs: with counted instructions they would all have one.
fn resolve_clock(machine: &MachinePlan, arms: &[Arm]) -> Clock {
    let sets_cpus = arms.iter().any(|arm| arm.cpus.is_some());
    let has_several = |arm: &Arm| arm.cpus.unwrap_or(machine.cpus) > 1;
    match machine.clock {
        Clock::Auto if sets_cpus && arms.iter().any(has_several) => Clock::Wall,
        Clock::Auto if matches!(machine.kind, MachineKind::Ssh | MachineKind::Url) => Clock::Wall,
        clock => clock,
    }
}

fn guest_clients(kind: MachineKind) -> Option<Clients> {
    (kind == MachineKind::Qemu).then_some(Clients::Guest)
}

/// Whether there is a table `[why]`; it has no keys yet.
fn read_why(top: &Fields<'_>, kind: MachineKind) -> bool {
    let Some(why) = top.table("why") else {
        return false;
    };
    why.finish_without_keys();
    if kind == MachineKind::Url {
        let what = "[why] on a machine of kind \"url\"";
        top.wrong("why", what, "remove it: nobody can look into these systems");
    }
    true
}

/// Refuses `swap` with more or fewer than two arms.
fn check_swap(top: &Fields<'_>, machine: &MachinePlan, arms: Option<&[Arm]>) {
    if let Some(arms) = arms.filter(|arms| !machine.swap.is_empty() && arms.len() != 2) {
        let what = format!("swap with {} arms", arms.len());
        top.wrong("arm", what, "compare two, or remove swap");
    }
}

/// Refuses a null server with another scheme than the systems, as its requests would differ from theirs.
fn check_ceiling(top: &Fields<'_>, machine: &MachinePlan, arms: Option<&[Arm]>) {
    let Some(ceiling) = &machine.ceiling else {
        return;
    };
    let scheme = |url: &str| url.split("://").next().unwrap_or_default().to_string();
    let ceiling_scheme = scheme(ceiling);
    for arm in arms.unwrap_or_default() {
        let KernelRef::Remote(target) = &arm.kernel else {
            continue;
        };
        let arm_scheme = scheme(&target.url);
        if arm_scheme == ceiling_scheme {
            continue;
        }
        let what = format!(
            "ceiling over {ceiling_scheme} beside arm {} over {arm_scheme}",
            arm.name
        );
        let remedy = match &*arm_scheme {
            "https" => "start the null server with --cert and --key, and write https://",
            _ => "start the null server without --cert and --key, and write http://",
        };
        if let Some(machine) = top.table("machine") {
            machine.wrong("ceiling", what, remedy);
        }
        return;
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
        Some(extension) if extension == "toml" => base.join(&recipe).display().to_string(),
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

/// Refuses an image for a machine that has a userland; `true` if there is none.
fn refuse_image(top: &Fields<'_>, kind: MachineKind) -> bool {
    if !top.has("image") {
        return true;
    }
    // Read, so that `finish` does not report the key again.
    let _ = top.table("image");
    let what = format!("[image] on a machine of kind \"{}\"", kind.word());
    let remedy = match kind {
        MachineKind::Url => "remove it: the systems are as they are",
        MachineKind::Qemu | MachineKind::Ssh | MachineKind::Local => {
            "remove it: servers are this host's own"
        }
    };
    top.wrong("image", what, remedy);
    false
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
    let mut is_complete = true;
    for table in &tables {
        let Some(workload) = check(table) else {
            is_complete = false;
            continue;
        };
        if workloads.iter().any(|other| other.id == workload.id) {
            let what = format!("two workloads of one name: {:?}", workload.id);
            table.wrong("kind", what, "give one of them another name = \"...\"");
        }
        if workload.length >= trial_limit {
            let length = units::show_duration(workload.length);
            let limit = units::show_duration(trial_limit);
            let (key, subject) = if table.has("limit") {
                ("limit", "limit")
            } else {
                ("window", "warmup and window")
            };
            let what = format!("{subject} longer than a trial can be ({limit}): {length}");
            let remedy = format!("shorten {key}, or raise trial_limit in [machine]");
            table.wrong(key, what, remedy);
        }
        workloads.push(workload);
    }
    is_complete.then_some(workloads)
}

/// Highest margin, as a share; it must be above zero.
pub const MOST_MARGIN: f64 = 0.5;

/// Highest error rate.
pub const MOST_ERROR_RATE: f64 = 0.2;

/// The error rate must be above this: the number of drawn sign flips cannot resolve lower ones.
pub const LEAST_ERROR_RATE: f64 = 1e-5;

/// Most blocks of a run. Each interim analysis judges all blocks, which takes less than a second for 500.
pub const MOST_BLOCKS: u32 = 500;

fn read_design(fields: Option<&Fields<'_>>) -> (Claim, DisturbedBlocks, Design) {
    let claim = fields.and_then(|fields| fields.variant("claim"));
    let disturbed_blocks = fields.and_then(|fields| fields.variant("disturbed_blocks"));
    let (claim, disturbed_blocks) = (
        claim.unwrap_or_default(),
        disturbed_blocks.unwrap_or_default(),
    );
    let mut design = Design::DEFAULTS;
    let Some(fields) = fields else {
        return (claim, disturbed_blocks, design);
    };
    set(&mut design.margin, fields.share("margin", 0.0, MOST_MARGIN));
    set(
        &mut design.error_rate,
        fields.share("error_rate", LEAST_ERROR_RATE, MOST_ERROR_RATE),
    );
    set(
        &mut design.max_blocks,
        fields
            .count("max_blocks", 1..=u64::from(MOST_BLOCKS))
            .map(|n| n as u32),
    );
    // A max_blocks below the default of min_blocks lowers both.
    design.min_blocks = design.min_blocks.min(design.max_blocks);
    set(
        &mut design.min_blocks,
        fields
            .count("min_blocks", 1..=u64::from(MOST_BLOCKS))
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
    (claim, disturbed_blocks, design)
}

#[cfg(test)]
pub(crate) mod tests;
