//! `[machine]`: where arms boot.

use std::path::Path;
use std::time::Duration;

use base::arch::Arch;
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
    /// This host at native speed, with namespaces and a cgroup for each trial.
    Local,
    /// A box reached by ssh, on its own hardware.
    Ssh,
    /// Systems on the network, which bakeoff does not change; clients run on this host.
    Url,
}

impl MachineKind {
    /// Its name in a plan.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// Unit of a trial's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Clock {
    /// Wall clock with KVM, instructions under emulation.
    Auto,
    /// The host's time.
    Wall,
    /// Executed instructions: the guest's clock advances with each.
    Instructions,
}

/// Where simulated clients run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Clients {
    /// In the guest, beside the servers.
    Guest,
    /// On the host, in a network namespace connected to a virtual network card of the guest.
    Host,
    /// In a second guest on the host, whose kernel is the same for all arms.
    Guest2,
    /// On hosts reached by ssh.
    #[strum(serialize = "ssh:HOST")]
    Hosts,
}

impl Clients {
    /// Its name in a plan.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

impl MachinePlan {
    /// Whether the machine is a box whose clients run on other systems.
    pub fn is_box_with_clients_apart(&self) -> bool {
        self.kind == MachineKind::Ssh
            && matches!(self.clients, Some(Clients::Host | Clients::Hosts))
    }
}

/// The machine of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct MachinePlan {
    /// Kind of the machine.
    pub kind: MachineKind,
    /// Architecture of guests and their kernels.
    pub arch: Arch,
    /// Number of virtual CPUs.
    pub cpus: u32,
    /// Guest memory in bytes.
    pub memory_bytes: u64,
    /// Clock of trials.
    pub clock: Clock,
    /// Host time within which the agent must send its first message.
    pub boot_timeout: Duration,
    /// Host time without a message after which a guest is given up.
    pub silence: Duration,
    /// Limit of host time for a whole trial.
    pub trial_limit: Duration,
    /// Speed limits of the separate disk of some workloads.
    pub disk: DiskSpeed,
    /// A simulated disk with seeks in its place, in guest time.
    pub seek_disk: Option<SeekDisk>,
    /// CPU model of guests; `None` for the machine's default.
    pub cpu_model: Option<CpuModel>,
    /// Price of string instructions, where instructions are counted.
    pub string_price: StringPrice,
    /// Command that exchanges the addresses of two systems on the network; empty for none.
    pub swap: Vec<String>,
    /// Where clients run; `None` for the machine's default.
    pub clients: Option<Clients>,
    /// Whether clients in the servers' guest are scheduled separately, by session.
    pub parts_sessions: bool,
    /// The kernel of the clients' guest, for `Clients::Guest2`; `None` for the baseline's.
    pub client_kernel: Option<KernelRef>,
    /// The hosts of clients, for `Clients::Hosts`; otherwise empty.
    pub client_hosts: Vec<ClientHost>,
    /// URL of a null server beside systems on the network, to measure the highest rate of clients and network.
    pub ceiling: Option<String>,
    /// Whether each arm is measured once more with one client fewer, after the last block, if clients have separate CPUs.
    pub one_client_fewer: bool,
    /// The box, for kind `Ssh`.
    pub ssh: Option<Box<SshPlan>>,
}

/// Speed limits of a disk; without limits it is as fast as the host's memory and file system.
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
            arch: Arch::HOST,
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

/// Longest trial; benchmark reports of 2004 ran up to 14 days.
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
        // A server's firmware and network are slow to start.
        machine.boot_timeout = Duration::from_secs(300);
        machine.ssh = ssh::read_ssh(fields, base, checks).map(Box::new);
    } else {
        refuse_ssh_keys(fields, machine.kind);
    }
    let names = Arch::ALL.map(|arch| (arch.facts().name(), arch));
    set(&mut machine.arch, fields.choice("arch", &names));
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
    machine.client_kernel = read_client_kernel(fields, &machine, base, checks);
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

/// Refuses keys that only boxes have.
fn refuse_ssh_keys(fields: &Fields<'_>, kind: MachineKind) {
    for key in ssh::KEYS {
        let is_for_clients = key == "ssh_config" && fields.is_list("clients");
        if is_for_clients || !fields.has(key) {
            continue;
        }
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
    let (byte_key, start_key) = ("string_byte_price", "string_start_price");
    let is_counted = machine.kind == MachineKind::Qemu && machine.clock != Clock::Wall;
    for key in [byte_key, start_key] {
        if fields.has(key) && !is_counted {
            let what = format!("{key} where no instructions are counted");
            let remedy =
                "remove it: only where instructions are counted a string instruction has a price";
            fields.refuse(key, what, remedy);
        }
    }
    let byte = fields.number(byte_key, 0.0..=1.0);
    let start = fields.number(start_key, 0.0..=1000.0);
    StringPrice {
        byte: byte.unwrap_or(usual.byte),
        start: start.unwrap_or(usual.start),
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
    let are_in_guest =
        machine.kind == MachineKind::Qemu && matches!(machine.clients, None | Some(Clients::Guest));
    if is_apart && !are_in_guest {
        let remedy =
            "remove it: only beside the servers, in a guest, clients can share their session";
        fields.refuse(key, "clients_apart of clients that are elsewhere", remedy);
    }
    is_apart
}

/// Refuses impossible clients of a box.
fn check_box_clients(fields: &Fields<'_>, machine: &MachinePlan) {
    let Some(ssh) = &machine.ssh else { return };
    let without_user = |name: &str| name.rsplit('@').next().unwrap_or(name).to_string();
    for host in &machine.client_hosts {
        if without_user(&host.name) == without_user(&ssh.host) {
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

/// Default of a box's clients: on this host if the plan names the box's network cards, otherwise on the box, because the connection
/// to this host is unknown.
fn default_box_clients(machine: &MachinePlan) -> Option<Clients> {
    let ssh = machine.ssh.as_ref()?;
    Some(if ssh.interfaces.is_empty() {
        Clients::Guest
    } else {
        Clients::Host
    })
}

/// Number of source addresses of a workload's clients; 0 for those of their system.
fn source_addresses(workload: &WorkloadPlan) -> u64 {
    let addresses = workload.options.get("addresses");
    addresses.and_then(Value::as_u64).unwrap_or(0)
}

fn read_client_kernel(
    fields: &Fields<'_>,
    machine: &MachinePlan,
    base: &Path,
    checks: Checks<'_>,
) -> Option<KernelRef> {
    let text = fields.text("client_kernel")?;
    if machine.clients != Some(Clients::Guest2) {
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
            let kernel = kernel.resolved(base);
            match (checks.kernel)(&kernel, machine.arch) {
                Ok(()) => return Some(kernel),
                Err(why) => fields.wrong("client_kernel", why, ""),
            }
        }
    }
    None
}

/// Refuses clients outside the guest for workloads whose clients are programs of the image.
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
        check_box_workloads(fields, machine, clients, workloads, checks);
    }
    for workload in workloads {
        if (checks.is_driven_from_outside)(workload) {
            continue;
        }
        let what = format!(
            "clients \"{}\" with a workload that has none outside its guest: {}",
            clients.word(),
            workload.id
        );
        let remedy = "write clients = \"guest\", or give the workload a plan of its own";
        fields.wrong("clients", what, remedy);
    }
}

/// Refuses workloads that do not work over the network between a box and its clients.
fn check_box_workloads(
    fields: &Fields<'_>,
    machine: &MachinePlan,
    clients: Clients,
    workloads: &[WorkloadPlan],
    checks: Checks<'_>,
) {
    let cards = machine.ssh.as_ref().map_or(0, |ssh| ssh.interfaces.len());
    for workload in workloads {
        if !(checks.is_driven_from_outside)(workload) {
            continue;
        }
        let id = &workload.id;
        if clients == Clients::Hosts && !(checks.is_shareable)(workload) {
            let what = format!("a workload that hosts cannot share: {id}");
            let remedy = "write clients = \"host\": this host can have all of them; or give it a plan of its own";
            fields.wrong("clients", what, remedy);
        }
        if source_addresses(workload) > 0 {
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
    // Reading the key also marks it as known.
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
    let value = fields.flag("one_client_fewer")?;
    if !matches!(kind, MachineKind::Url | MachineKind::Ssh) {
        let what = format!("one_client_fewer of a machine of kind \"{}\"", kind.word());
        let remedy =
            "remove it: only boxes and systems on the network have clients with CPUs of their own";
        fields.wrong("one_client_fewer", what, remedy);
        return None;
    }
    Some(value)
}

fn read_cpu_model(
    fields: &Fields<'_>,
    machine: &MachinePlan,
    checks: Checks<'_>,
) -> Option<CpuModel> {
    let text = fields.text("cpu_model")?;
    if machine.kind != MachineKind::Qemu {
        // `check_machine` refuses it with the other keys of emulators.
        return None;
    }
    let model = match CpuModel::parse(text) {
        Ok(model) => model,
        Err(why) => {
            fields.wrong("cpu_model", why, "");
            return None;
        }
    };
    if machine.clock != Clock::Wall {
        for (what, why) in model.uncounted(machine.arch) {
            let what = format!("cpu_model {what} where instructions may be counted");
            let remedy = format!("remove it, or write clock = \"wall\": {why}");
            fields.wrong("cpu_model", what, remedy);
        }
    }
    if model.name == "host" && machine.arch != Arch::HOST {
        let what = format!("cpu_model \"host\" with arch \"{}\"", machine.arch);
        let remedy =
            "name another model, or none: KVM runs only guests of this host's architecture";
        fields.wrong("cpu_model", what, remedy);
    }
    if !model.has_64_bits(machine.arch) {
        let what = format!("cpu_model without 64-bit mode: {model}");
        fields.wrong("cpu_model", what, MODELS_OF_64_BITS);
    }
    if let Err(why) = (checks.cpu_model)(&model, machine.arch) {
        fields.wrong("cpu_model", why, "");
    }
    Some(model)
}

fn check_machine(fields: &Fields<'_>, machine: &MachinePlan) {
    if machine.kind != MachineKind::Qemu {
        let word = machine.kind.word();
        let keys = [
            "arch",
            "cpus",
            "memory",
            "disk_rate",
            "disk_requests",
            "cpu_model",
        ];
        for key in keys.into_iter().filter(|key| fields.has(key)) {
            let what = format!("{key} of a machine of kind \"{word}\"");
            let remedy = match (machine.kind, key) {
                (MachineKind::Url, _) => "remove it: the systems are as they are",
                (_, "arch") => "remove it: an arm boots on the machine's own architecture",
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

/// Refuses times in the plan that no trial can reach.
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

/// Replaces a default by the plan's value, if it has one.
pub(crate) fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}
