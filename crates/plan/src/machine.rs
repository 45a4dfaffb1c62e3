//! `[machine]`: where arms boot.

use std::path::Path;
use std::time::Duration;

use base::input::units;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{IntoStaticStr, VariantArray};

use crate::client_hosts::{self, ClientHost};
use crate::cpu::{CpuModel, MODELS_OF_64_BITS};
use crate::fields::Fields;
use crate::kernel::{self, KernelRef};
use crate::seek_disk::{SeekDisk, read_seek_disk};
use crate::ssh::{self, SshPlan};
use crate::string_price::StringPrice;
use crate::target::{self, read_bare_url};
use crate::{Checks, WorkloadPlan};

/// Where an arm boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum MachineKind {
    /// A virtual machine of QEMU.
    Qemu,
    /// This host at native speed, in namespaces and a cgroup of the trial's own.
    Local,
    /// A box that is reached by ssh, on its own hardware.
    Ssh,
    /// Systems on the network, as they are; this host has the clients.
    Url,
}

impl MachineKind {
    /// What a plan writes.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// What a trial's time is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Clock {
    /// Wall where KVM works, instructions under emulation.
    Auto,
    /// The host's time.
    Wall,
    /// Executed instructions: the guest's clock advances with each.
    Instructions,
}

/// Where the simulated clients of a guest's servers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Clients {
    /// In the guest, beside the servers.
    Guest,
    /// On the host, in a network namespace that a virtual network card of the guest leads to.
    Host,
    /// On the host, in a guest of their own whose kernel is the same for all arms.
    Guest2,
    /// On hosts that are reached by ssh.
    #[strum(serialize = "ssh:HOST")]
    Hosts,
}

impl Clients {
    /// What a plan writes.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

impl MachinePlan {
    /// Whether the clients of a box are on other systems.
    pub fn is_box_with_clients_apart(&self) -> bool {
        self.kind == MachineKind::Ssh
            && matches!(self.clients, Some(Clients::Host | Clients::Hosts))
    }
}

/// The machine of a plan.
#[derive(Debug, Clone, PartialEq)]
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
    /// A disk with seeks in its place, which takes the guest's own time.
    pub seek_disk: Option<SeekDisk>,
    /// The CPU that guests see; `None` for the machine's own choice.
    pub cpu_model: Option<CpuModel>,
    /// What string instructions are charged where instructions are counted.
    pub string_price: StringPrice,
    /// A command that exchanges two systems on the network between their addresses; none where it is empty.
    pub swap: Vec<String>,
    /// Where clients are; `None` for the machine's own choice.
    pub clients: Option<Clients>,
    /// Whether the kernel may part clients from servers by their sessions, where both are in one guest.
    pub parts_sessions: bool,
    /// The kernel of the clients' guest, for `Clients::Guest2`; `None` for the baseline's.
    pub client_kernel: Option<KernelRef>,
    /// The hosts that clients are on, for `Clients::Hosts`; none otherwise.
    pub client_hosts: Vec<ClientHost>,
    /// The URL of a null server beside systems on the network, which tells what the clients and the network can do.
    pub ceiling: Option<String>,
    /// Whether each arm is measured once more with one client fewer, after the last block; where clients have CPUs of their own.
    pub one_client_fewer: bool,
    /// The box, for kind `Ssh`.
    pub ssh: Option<Box<SshPlan>>,
}

/// How slow a disk is made; without limits it is as fast as the host's memory and file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskSpeed {
    /// Bytes per second, reads and writes together.
    pub bytes_per_s: Option<u64>,
    /// Requests per second, reads and writes together.
    pub requests_per_s: Option<u64>,
}

impl Default for MachinePlan {
    fn default() -> Self {
        Self {
            kind: MachineKind::Qemu,
            cpus: 1,
            memory_bytes: 1 << 30,
            clock: Clock::Auto,
            boot_timeout: Duration::from_secs(120),
            silence: Duration::from_secs(120),
            trial_limit: Duration::from_secs(3600),
            disk: DiskSpeed::default(),
            seek_disk: None,
            cpu_model: None,
            string_price: StringPrice::USUAL,
            swap: Vec::new(),
            clients: None,
            parts_sessions: false,
            client_kernel: None,
            client_hosts: Vec::new(),
            ceiling: None,
            one_client_fewer: true,
            ssh: None,
        }
    }
}

/// Longest trial that may be asked for: the reports of 2004 ran up to 14 days.
pub(crate) const LONGEST_TRIAL: Duration = Duration::from_secs(15 * 24 * 3600);

pub(crate) fn read_machine(
    fields: Option<&Fields<'_>>,
    base: &Path,
    checks: Checks<'_>,
) -> MachinePlan {
    let mut machine = MachinePlan::default();
    let Some(fields) = fields else { return machine };
    set(&mut machine.kind, fields.variant("kind"));
    if machine.kind == MachineKind::Ssh {
        // A server's firmware and its network take their time.
        machine.boot_timeout = Duration::from_secs(300);
        machine.ssh = ssh::read_ssh(fields, base, checks).map(Box::new);
    } else {
        refuse_ssh_keys(fields, machine.kind);
    }
    set(
        &mut machine.cpus,
        fields.count("cpus", 1..=255).map(|cpus| cpus as u32),
    );
    set(
        &mut machine.memory_bytes,
        fields.read("memory", units::bytes),
    );
    set(&mut machine.clock, fields.variant("clock"));
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
    machine.seek_disk = read_seek_disk(fields, machine.kind, machine.memory_bytes);
    machine.cpu_model = read_cpu_model(fields, &machine, checks);
    machine.string_price = read_string_price(fields, &machine);
    machine.swap = read_swap(fields, machine.kind, checks);
    machine.client_hosts = client_hosts::read_client_hosts(fields, machine.kind, base);
    machine.clients = if fields.is_list("clients") {
        (!machine.client_hosts.is_empty()).then_some(Clients::Hosts)
    } else {
        read_clients(fields, &machine)
    };
    machine.parts_sessions = read_parts_sessions(fields, &machine);
    check_box_clients(fields, &machine);
    machine.clients = machine.clients.or_else(|| default_box_clients(&machine));
    machine.client_kernel = read_client_kernel(fields, machine.clients, base, checks);
    machine.ceiling = read_ceiling(fields, machine.kind, checks);
    set(
        &mut machine.one_client_fewer,
        read_one_client_fewer(fields, machine.kind),
    );
    check_machine(fields, &machine);
    if !checks.has_run {
        check_times(fields, &machine);
    }
    check_memory(fields, &machine, checks);
    fields.finish();
    machine
}

/// Keys that only a box by ssh has.
fn refuse_ssh_keys(fields: &Fields<'_>, kind: MachineKind) {
    let is_of_clients = |key: &str| key == "ssh_config" && fields.is_list("clients");
    let keys = ssh::KEYS.into_iter().filter(|key| !is_of_clients(key));
    for key in keys.filter(|key| fields.has(key)) {
        let what = format!("{key} of a machine of kind \"{}\"", kind.word());
        let remedy = if key == "ssh_config" && kind == MachineKind::Url {
            "remove it, or name hosts for it: clients = [\"ssh:USER@HOST\"]"
        } else {
            "remove it, or write kind = \"ssh\": only a box by ssh has it"
        };
        fields.refuse(key, what, remedy);
    }
}

fn read_string_price(fields: &Fields<'_>, machine: &MachinePlan) -> StringPrice {
    let usual = StringPrice::USUAL;
    let keys = ["string_byte_price", "string_start_price"];
    let is_counted = machine.kind == MachineKind::Qemu && machine.clock != Clock::Wall;
    for key in keys
        .into_iter()
        .filter(|key| fields.has(key) && !is_counted)
    {
        let remedy =
            "remove it: only where instructions are counted a string instruction has a price";
        fields.refuse(
            key,
            format!("{key} where no instructions are counted"),
            remedy,
        );
    }
    let [byte, start] = keys;
    StringPrice {
        byte: fields.number(byte, 0.0..=1.0).unwrap_or(usual.byte),
        start: fields.number(start, 0.0..=1000.0).unwrap_or(usual.start),
    }
}

fn read_swap(fields: &Fields<'_>, kind: MachineKind, checks: Checks<'_>) -> Vec<String> {
    if fields.has("swap") && kind != MachineKind::Url {
        let what = format!("swap of a machine of kind \"{}\"", kind.word());
        fields.wrong(
            "swap",
            what,
            "remove it: only systems on the network have addresses to exchange",
        );
    }
    target::read_command(fields, "swap", "[\"./exchange.sh\"]", checks)
}

fn read_clients(fields: &Fields<'_>, machine: &MachinePlan) -> Option<Clients> {
    let words = [Clients::Guest, Clients::Host, Clients::Guest2];
    let words = words.map(|clients| (clients.word(), clients));
    let clients = fields.choice("clients", &words);
    let remedy = match (machine.kind, clients) {
        (MachineKind::Qemu, _)
        | (MachineKind::Ssh, Some(Clients::Guest | Clients::Host) | None) => None,
        (MachineKind::Ssh, Some(Clients::Guest2 | Clients::Hosts)) => {
            Some("write \"host\", or name hosts: clients = [\"ssh:HOST\"]")
        }
        (MachineKind::Url, _) => Some("remove it, or name hosts: clients = [\"ssh:HOST\"]"),
        (MachineKind::Local, _) => {
            Some("remove it: they are beside the servers, on the arm's kernel")
        }
    };
    if fields.has("clients")
        && let Some(remedy) = remedy
    {
        let what = format!("clients of a machine of kind \"{}\"", machine.kind.word());
        fields.wrong("clients", what, remedy);
        return None;
    }
    let clients = clients?;
    if clients != Clients::Guest && machine.clock == Clock::Instructions {
        let what = format!("clients \"{}\" with clock \"instructions\"", clients.word());
        let remedy = "remove it, or write clock = \"wall\": a guest whose clock counts instructions has a time of its \
                      own, and clients outside it have the host's";
        fields.wrong("clients", what, remedy);
    }
    Some(clients)
}

fn read_parts_sessions(fields: &Fields<'_>, machine: &MachinePlan) -> bool {
    let key = "clients_apart";
    let is_apart = fields.choice(key, &[("session", true)]) == Some(true);
    let is_inside =
        machine.kind == MachineKind::Qemu && matches!(machine.clients, None | Some(Clients::Guest));
    if is_apart && !is_inside {
        let remedy =
            "remove it: only beside the servers, in a guest, clients can share their session";
        fields.refuse(key, "clients_apart of clients that are elsewhere", remedy);
    }
    is_apart
}

/// What clients of a box cannot be.
fn check_box_clients(fields: &Fields<'_>, machine: &MachinePlan) {
    let Some(ssh) = &machine.ssh else { return };
    let bare = |name: &str| name.rsplit('@').next().unwrap_or(name).to_string();
    for host in &machine.client_hosts {
        if bare(&host.name) == bare(&ssh.host) {
            let what = format!("the box as a host of its own clients: {:?}", host.name);
            let remedy = "name another host, or write clients = \"guest\": beside the servers";
            fields.wrong("clients", what, remedy);
        }
    }
    if machine.clients == Some(Clients::Guest) && !ssh.interfaces.is_empty() {
        let what = "interfaces with clients \"guest\"";
        let remedy = "remove it, or write clients = \"host\": beside the servers they use no card";
        fields.wrong("interfaces", what, remedy);
    }
}

/// Where clients of a box are whose plan does not say it: where cards are named that serve, on this host; else on the box, because
/// nobody knows how this host is wired to it.
fn default_box_clients(machine: &MachinePlan) -> Option<Clients> {
    let ssh = machine.ssh.as_ref()?;
    Some(if ssh.interfaces.is_empty() {
        Clients::Guest
    } else {
        Clients::Host
    })
}

/// Addresses that a workload's clients are to come from; 0 for those of their system.
fn own_addresses(workload: &WorkloadPlan) -> u64 {
    let addresses = workload.options.get("addresses");
    addresses.and_then(Value::as_u64).unwrap_or(0)
}

fn read_client_kernel(
    fields: &Fields<'_>,
    clients: Option<Clients>,
    base: &Path,
    checks: Checks<'_>,
) -> Option<KernelRef> {
    let text = fields.text("client_kernel")?;
    if clients != Some(Clients::Guest2) {
        let what = "client_kernel without clients = \"guest2\"";
        let remedy =
            "remove it, or add clients = \"guest2\": other clients have no kernel of their own";
        fields.wrong("client_kernel", what, remedy);
        return None;
    }
    match kernel::read(text, None) {
        Ok(KernelRef::Running) => {
            let what = "client_kernel \"running\": a guest boots a kernel of its own";
            fields.wrong("client_kernel", what, kernel::FORMS);
        }
        Err(why) => fields.wrong("client_kernel", why, kernel::FORMS),
        Ok(kernel) => {
            let kernel = kernel.settled(base);
            match (checks.kernel)(&kernel) {
                Ok(()) => return Some(kernel),
                Err(why) => fields.wrong("client_kernel", why, ""),
            }
        }
    }
    None
}

/// A workload whose clients are programs of the image cannot be asked from outside.
pub(crate) fn check_clients(
    fields: &Fields<'_>,
    machine: &MachinePlan,
    workloads: &[WorkloadPlan],
    checks: Checks<'_>,
) {
    let clients = machine.clients.filter(|clients| *clients != Clients::Guest);
    let Some(clients) = clients else {
        return;
    };
    if machine.kind == MachineKind::Ssh {
        check_workloads_of_box((fields, machine), clients, workloads, checks);
    }
    let is_outside = checks.is_driven_from_outside;
    for workload in workloads.iter().filter(|one| !is_outside(one)) {
        let what = format!(
            "clients \"{}\" with a workload that has none outside its guest: {}",
            clients.word(),
            workload.id
        );
        let remedy = "write clients = \"guest\", or give the workload a plan of its own";
        fields.wrong("clients", what, remedy);
    }
}

/// Workloads that the network between a box and its clients does not fit.
fn check_workloads_of_box(
    (fields, machine): (&Fields<'_>, &MachinePlan),
    clients: Clients,
    workloads: &[WorkloadPlan],
    checks: Checks<'_>,
) {
    let cards = machine.ssh.as_ref().map_or(0, |ssh| ssh.interfaces.len());
    for workload in workloads
        .iter()
        .filter(|one| (checks.is_driven_from_outside)(one))
    {
        let id = &workload.id;
        if clients == Clients::Hosts && !(checks.is_shareable)(workload) {
            let what = format!("a workload that hosts cannot share: {id}");
            let remedy = "write clients = \"host\": this host can have all of them; or give it a plan of its own";
            fields.wrong("clients", what, remedy);
        }
        if own_addresses(workload) > 0 {
            let what = format!("addresses of clients on a real network: workload {id}");
            let remedy = "write clients = \"guest\", or remove addresses: hosts have those of their own cards";
            fields.wrong("clients", what, remedy);
        }
        if cards > 1 && !(checks.takes_addresses)(workload) {
            let what = format!("several interfaces with a workload that uses one: {id}");
            let remedy = "name one, or give the workload a plan of its own";
            fields.wrong("interfaces", what, remedy);
        }
    }
}

fn read_ceiling(fields: &Fields<'_>, kind: MachineKind, checks: Checks<'_>) -> Option<String> {
    // Asked for, so that it is not unknown as well.
    if fields.text("ceiling").is_some() && kind != MachineKind::Url {
        let what = format!("ceiling of a machine of kind \"{}\"", kind.word());
        let remedy = match kind {
            MachineKind::Local | MachineKind::Ssh => {
                "remove it: bakeoff starts its null server itself"
            }
            MachineKind::Qemu | MachineKind::Url => {
                "remove it: only systems on the network have clients of their own to measure"
            }
        };
        fields.wrong("ceiling", what, remedy);
        return None;
    }
    read_bare_url(
        fields,
        "ceiling",
        checks,
        "remove the path: a null server answers each",
    )
}

fn read_one_client_fewer(fields: &Fields<'_>, kind: MachineKind) -> Option<bool> {
    let asked = fields.flag("one_client_fewer")?;
    if !matches!(kind, MachineKind::Url | MachineKind::Ssh) {
        let what = format!("one_client_fewer of a machine of kind \"{}\"", kind.word());
        let remedy =
            "remove it: only boxes and systems on the network have clients with CPUs of their own";
        fields.wrong("one_client_fewer", what, remedy);
        return None;
    }
    Some(asked)
}

fn read_cpu_model(
    fields: &Fields<'_>,
    machine: &MachinePlan,
    checks: Checks<'_>,
) -> Option<CpuModel> {
    let text = fields.text("cpu_model")?;
    if machine.kind != MachineKind::Qemu {
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
    let uncounted = model.uncounted().into_iter().filter(|_| !is_wall);
    for (what, why) in uncounted {
        let what = format!("cpu_model {what} where instructions may be counted");
        let remedy = format!("remove it, or write clock = \"wall\": {why}");
        fields.wrong("cpu_model", what, remedy);
    }
    if !model.has_64_bits() {
        let what = format!("cpu_model without 64-bit mode: {model}");
        fields.wrong("cpu_model", what, MODELS_OF_64_BITS);
    }
    if let Err(why) = (checks.cpu_model)(&model) {
        fields.wrong("cpu_model", why, "");
    }
    Some(model)
}

fn check_machine(fields: &Fields<'_>, machine: &MachinePlan) {
    if machine.kind != MachineKind::Qemu {
        let word = machine.kind.word();
        let keys = ["cpus", "memory", "disk_rate", "disk_requests", "cpu_model"];
        for key in keys.into_iter().filter(|key| fields.has(key)) {
            let what = format!("{key} of a machine of kind \"{word}\"");
            let remedy = match (machine.kind, key) {
                (MachineKind::Url, _) => "remove it: the systems are as they are",
                (MachineKind::Ssh, "cpus") => {
                    "write it in each arm that is not to have all of the box's"
                }
                (MachineKind::Ssh, "cpu_model") => "remove it: the CPU is the box's own",
                (MachineKind::Ssh, _) => "remove it: all that the box has is used",
                (_, "cpus") => "write it in each arm that is not to have all of this host's",
                (_, "cpu_model") => "remove it: the CPU is this host's own",
                (_, _) => "remove it: all that this host has is used",
            };
            fields.wrong(key, what, remedy);
        }
        if machine.clock == Clock::Instructions {
            let what = format!("clock \"instructions\" on a machine of kind \"{word}\"");
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

/// Refuses times that no trial can reach, as far as the plan names them.
fn check_times(fields: &Fields<'_>, machine: &MachinePlan) {
    let limit = machine.trial_limit;
    for (key, time) in [
        ("boot_timeout", machine.boot_timeout),
        ("silence", machine.silence),
    ] {
        if fields.has(key) && limit < time {
            let what = format!(
                "{key} longer than a trial can be ({}): {}",
                units::show_duration(limit),
                units::show_duration(time)
            );
            fields.wrong(key, what, format!("shorten {key}, or raise trial_limit"));
        }
    }
}

fn check_memory(fields: &Fields<'_>, machine: &MachinePlan, checks: Checks<'_>) {
    if !(256 << 20..=1 << 40).contains(&machine.memory_bytes) {
        let what = format!("memory out of range: {}", fields.written("memory"));
        fields.wrong("memory", what, "write 256MiB to 1TiB");
    } else if machine.kind == MachineKind::Qemu
        && let Err(why) = (checks.memory)(machine.memory_bytes)
    {
        fields.wrong("memory", why, "");
    }
}

pub(crate) fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}
