//! The plan: one experiment, validated whole before anything boots.

mod arm;
mod client_hosts;
pub mod cpu;
mod disclosure;
mod disturb;
pub mod fields;
mod file_system;
mod growth;
pub mod kernel;
pub mod knob;
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

use crate::arm::{Kernels, check_tunings, read_arms};
use crate::cpu::CpuModel;
use crate::disclosure::read_disclosure;
use crate::disturb::{Ground, read_disturbances};
use crate::fields::{Fields, Page};
use crate::growth::read_growth;
use crate::kernel::KernelRef;
use crate::machine::{check_clients, read_machine, set};
use crate::pinned::{pin, read_pinned};
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
    Confirming, KernelArm, OfKernels, Variation, against_itself, at_error_rate, confirming,
    explained, of_kernels, seed_of, varied,
};
pub use toml_edit::TomlError;

/// One experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What it is called.
    pub title: String,
    /// The arm that the others are compared with.
    pub baseline: String,
    /// What it asks about, where it says so.
    pub mode: Option<Mode>,
    /// What all arms have alike; they have it among their own settings.
    pub pinned: Pinned,
    /// Where arms boot.
    pub machine: MachinePlan,
    /// The user land of emulated machines; none where the machine has its own.
    pub image: Option<ImagePlan>,
    /// The arms, baseline first, the others in the file's order.
    pub arms: Vec<Arm>,
    /// The workloads in the file's order.
    pub workloads: Vec<WorkloadPlan>,
    /// What is done to each trial's system on purpose, in the file's order.
    pub disturbances: Vec<PlannedDisturbance>,
    /// How many blocks, and when a difference counts.
    pub design: Design,
    /// What a verdict of a run on several nodes is about.
    pub claim: Claim,
    /// What becomes of a block that something outside disturbed.
    pub disturbed_blocks: DisturbedBlocks,
    /// Whether trials are profiled: `[why]`. Every one where instructions are counted, others of their own where time is the wall clock's.
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
    /// Debian suite of its packages, where not the recipe's own.
    pub suite: Option<String>,
}

/// What question the plan asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Mode {
    /// What can be set alike is: asks about the code.
    Controlled,
    /// Defaults differ as shipped: asks about the product.
    AsShipped,
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
    /// What it is to other crates.
    pub traits: Traits,
    /// Guest time of warm-up and window together; the most that it may be, where a program runs to its end.
    pub length: Duration,
    /// Guest time of the window alone.
    pub window: Duration,
    /// What a program that runs to its end is expected to take.
    pub expected: Option<Duration>,
}

/// What other crates ask of a workload, so that none of them names one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the traits are independent of each other"
)]
pub struct Traits {
    /// It opens as many connections as its option `connections` or `clients` says.
    pub opens_connections: bool,
    /// It asks for files that never change, and for nothing else.
    pub is_static: bool,
    /// It takes any content of a response for right.
    pub accepts_any_content: bool,
    /// It makes block devices in the memory of the system.
    pub makes_devices: bool,
    /// It runs a program of the user.
    pub runs_program: bool,
}

impl Traits {
    /// Simulated clients that ask for anything.
    pub const CLIENTS: Self = Self {
        opens_connections: true,
        is_static: false,
        accepts_any_content: false,
        makes_devices: false,
        runs_program: false,
    };
    /// Simulated clients that ask for static files.
    pub const STATIC: Self = Self {
        is_static: true,
        ..Self::CLIENTS
    };
}

/// What a verdict of a run on several nodes is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Claim {
    /// The nodes that ran it.
    #[default]
    Nodes,
    /// Machines like them.
    Machines,
}

/// What becomes of a block that something outside disturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum DisturbedBlocks {
    /// It does not count, and is run again.
    #[default]
    Repeat,
    /// It counts as it is.
    Keep,
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
    /// Arms whose order is drawn in each block.
    pub arms: u32,
}

impl Design {
    /// The first blocks: their orders are drawn again until no arm comes before the baseline in all of them, nor after it in all.
    /// 0 where more than half of all draws would have to be drawn again; then nothing is.
    pub fn opening(&self) -> u32 {
        let blocks = self.min_blocks.clamp(2, self.max_blocks.max(2));
        if self.arms > 1 && self.max_blocks > 1 && self.one_sided_share(blocks) <= 0.5 {
            blocks
        } else {
            0
        }
    }

    /// The error rate at which tests compare a run with all orders, those among them that its opening cannot have. It is lower
    /// than `error_rate` by the share of these, so that a run is wrong as seldom as `error_rate` says.
    pub fn test_level(&self) -> f64 {
        self.error_rate * self.drawn_share()
    }

    /// The share of all draws that the opening keeps, at the least.
    pub fn drawn_share(&self) -> f64 {
        match self.opening() {
            0 => 1.0,
            blocks => 1.0 - self.one_sided_share(blocks),
        }
    }

    /// The chance that some arm is on one side of the baseline in so many blocks, at the most.
    fn one_sided_share(&self, blocks: u32) -> f64 {
        f64::from(self.arms.saturating_sub(1)) * (1.0 - f64::from(blocks)).exp2()
    }

    /// Blocks at the most, those among them that the run was given later.
    pub fn most_blocks(&self) -> u32 {
        self.max_blocks.saturating_add(self.more_blocks)
    }
}

impl Plan {
    /// How many comparisons of a primary metric it asks for: each arm beside the baseline, on each workload.
    pub fn comparisons(&self) -> usize {
        self.workloads.len() * self.arms.len().saturating_sub(1)
    }

    /// CPUs of an arm. `None` where it has all that its host gives.
    pub fn cpus(&self, arm: &Arm) -> Option<u32> {
        match self.machine.kind {
            MachineKind::Qemu => Some(arm.cpus.unwrap_or(self.machine.cpus)),
            MachineKind::Local | MachineKind::Ssh => arm.cpus,
            MachineKind::Url => None,
        }
    }

    /// The system on the network that an arm is in a block: in every other block the two of a plan with `swap` have each other's
    /// address.
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

    /// Whether two systems have each other's address in a block; blocks count from 1.
    pub fn is_swapped(&self, block: u32) -> bool {
        !self.machine.swap.is_empty() && block.is_multiple_of(2)
    }
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
    /// Says what is wrong with a program that the plan has run.
    pub program: &'c dyn Fn(&str) -> Result<(), String>,
    /// Reads a configuration file.
    pub file: &'c dyn Fn(&Path) -> Result<String, String>,
    /// Says what is wrong with what an arm changes in the workloads' servers.
    pub tuning: &'c CheckTuning<'c>,
    /// The services that a workload starts, by name.
    pub services: &'c dyn Fn(&WorkloadPlan) -> Vec<&'static str>,
    /// Says what is wrong with the suite of an image.
    pub suite: &'c dyn Fn(&str) -> Result<(), String>,
    /// Says what is wrong with a URL.
    pub url: &'c dyn Fn(&str) -> Result<(), String>,
    /// Whether a workload's clients can be on another system than its servers.
    pub is_driven_from_outside: &'c dyn Fn(&WorkloadPlan) -> bool,
    /// Whether a workload's clients go on after requests have failed, for as long as its window lasts.
    pub can_be_disturbed: &'c dyn Fn(&WorkloadPlan) -> bool,
    /// Whether hosts can share a workload's clients.
    pub is_shareable: &'c dyn Fn(&WorkloadPlan) -> bool,
    /// Whether a workload's clients can use several addresses of its servers.
    pub takes_addresses: &'c dyn Fn(&WorkloadPlan) -> bool,
    /// Whether the plan has run already: what was right when it ran is not refused now.
    pub has_run: bool,
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

/// Longest plan file, in bytes: reading one takes some 25 times as much memory, tried with comments.
const FILE_BYTES: u64 = 1 << 20;

/// The text of a plan's file.
///
/// # Errors
/// As `fs::read_to_string`, for what is no regular file, and for what is too long for a plan.
pub fn read_text(path: &Path) -> io::Result<String> {
    file::read_to_string_within(path, FILE_BYTES)
}

/// The same for a plan below a directory that somebody else may have filled.
///
/// # Errors
/// As `read_text`, and for links.
pub fn read_text_in(dir: &Tree, name: &str) -> io::Result<String> {
    dir.read_to_string_within(name, FILE_BYTES)
}

/// Reads a plan. Relative paths in it are taken from `base`, the plan file's directory.
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
    let kernels = Kernels {
        machine: &machine,
        base,
        checks: &checks,
    };
    let mut arms = read_arms(top, baseline.as_deref(), kernels);
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
    let ground = Ground {
        machine: &machine,
        arms: arms.as_deref().unwrap_or_default(),
        workloads: workloads.as_deref().unwrap_or_default(),
        seed: design.seed,
        can_be_disturbed: checks.can_be_disturbed,
    };
    let disturbances = read_disturbances(top, &ground);
    if !disturbances.is_empty() {
        // What is disturbed lies in the guest, so that is where the clients are, whatever the machine would choose.
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

/// "auto" may not come to counted instructions where arms differ in CPUs: with one CPU each they would be one system.
fn resolve_clock(machine: &MachinePlan, arms: &[Arm]) -> Clock {
    let is_named = arms.iter().any(|arm| arm.cpus.is_some());
    let several = |arm: &Arm| arm.cpus.unwrap_or(machine.cpus) > 1;
    match machine.clock {
        Clock::Auto if is_named && arms.iter().any(several) => Clock::Wall,
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

/// Two systems can be exchanged, not three.
fn check_swap(top: &Fields<'_>, machine: &MachinePlan, arms: Option<&[Arm]>) {
    if let Some(arms) = arms.filter(|arms| !machine.swap.is_empty() && arms.len() != 2) {
        let what = format!("swap with {} arms", arms.len());
        top.wrong("arm", what, "compare two, or remove swap");
    }
}

/// A null server must be spoken to as the systems are, or it would be another path.
fn check_ceiling(top: &Fields<'_>, machine: &MachinePlan, arms: Option<&[Arm]>) {
    let Some(ceiling) = &machine.ceiling else {
        return;
    };
    let scheme = |url: &str| url.split("://").next().unwrap_or_default().to_string();
    let (own, mut arms) = (scheme(ceiling), arms.unwrap_or_default().iter());
    let other = arms.find_map(|arm| match &arm.kernel {
        KernelRef::Remote(target) if scheme(&target.url) != own => Some((arm, scheme(&target.url))),
        _ => None,
    });
    if let Some((arm, theirs)) = other {
        let what = format!("ceiling over {own} beside arm {} over {theirs}", arm.name);
        let remedy = match &*theirs {
            "https" => "start the null server with --cert and --key, and write https://",
            _ => "start the null server without --cert and --key, and write http://",
        };
        if let Some(machine) = top.table("machine") {
            machine.wrong("ceiling", what, remedy);
        }
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
fn refuse_image(top: &Fields<'_>, kind: MachineKind) -> bool {
    let is_right = !top.has("image");
    if !is_right {
        // Read, so that it is not called unknown as well.
        let _ = top.table("image");
        let what = format!("[image] on a machine of kind \"{}\"", kind.word());
        let remedy = match kind {
            MachineKind::Url => "remove it: the systems are as they are",
            MachineKind::Qemu | MachineKind::Ssh | MachineKind::Local => {
                "remove it: servers are this host's own"
            }
        };
        top.wrong("image", what, remedy);
    }
    is_right
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
    whole.then_some(workloads)
}

/// Largest margin that may be asked for, as a share; it must be above zero.
pub const MOST_MARGIN: f64 = 0.5;

/// Largest error rate that may be asked for.
pub const MOST_ERROR_RATE: f64 = 0.2;

/// The error rate must be above this: the sign flips that are drawn tell nothing of rarer mistakes.
pub const LEAST_ERROR_RATE: f64 = 1e-5;

/// Most blocks that a run may have. Each look judges all blocks anew, and of 500 takes less than a second.
pub const MOST_BLOCKS: u32 = 500;

fn read_design(fields: Option<&Fields<'_>>) -> (Claim, DisturbedBlocks, Design) {
    let claim = fields.and_then(|fields| fields.variant("claim"));
    let disturbed_blocks = fields.and_then(|fields| fields.variant("disturbed_blocks"));
    let (claim, disturbed_blocks) = (
        claim.unwrap_or_default(),
        disturbed_blocks.unwrap_or_default(),
    );
    let mut design = Design {
        margin: 0.01,
        error_rate: 0.05,
        min_blocks: 4,
        max_blocks: 30,
        more_blocks: 0,
        seed: 1,
        arms: 0,
    };
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
    // A plan that lowers max_blocks below the default of min_blocks means both.
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
mod tests;
