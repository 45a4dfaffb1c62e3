//! Arms that boot in QEMU.
//!
//! A guest is a QEMU process whose console goes to a file. Its standard input is the channel to the agent
//! (`process_guest`).

use record::machine::{Acceleration, Choice, ClientsApart, GuestClock, Guests, MachineDescription};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use base::input::units::show_bytes;
use plan::cpu::{CpuModel, PERFORMANCE_MONITORING, Presence};
use plan::{Clients, Clock, DiskSpeed, MachinePlan};
use profiler::profile::Profile;
use record::protocol::code::Code;
use rustix::fs::{Mode, OFlags};

use crate::acceleration::Kvm;
use crate::clients;
use crate::clients::{ClientsOfTrial, GuestWithClients, HostClients};
use crate::console;
use crate::counting::Counter;
use crate::emulator::Program;
use crate::guest::{Boot, Guest, Machine, MachineGone};
use crate::host_state;
use crate::host_state::GuestMemory;
use crate::kvm_host::KvmHost;
use crate::pinning::Monitor;
use crate::process_guest::{Limits, ProcessGuest};
use crate::profiling;
use crate::profiling::Profiler;

/// `-icount shift=1`: each instruction takes two nanoseconds of guest time.
const ICOUNT_SHIFT: u32 = 1;

/// Longest file that QEMU may write if it has no disk: the kernel ends it there, in case bakeoff notices a flood on the
/// console too late.
const FILE_BYTES: u64 = 2 * console::LIMIT_BYTES;

/// QEMU's numbers of files that it inherits.
mod file_set {
    pub(super) const DISK: u32 = 1;
    pub(super) const CONSOLE: u32 = 2;
}

/// The machine that all arms of a plan boot on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hardware {
    /// The emulator.
    pub program: Program,
    /// What executes the guest's instructions.
    pub accel: Acceleration,
    /// Virtual CPUs of an arm that does not set their number.
    pub cpus: u32,
    /// Guest memory.
    pub memory_bytes: u64,
    /// `Wall` or `Instructions`.
    pub clock: Clock,
    /// What was decided for the user; empty if everything is as the plan says.
    pub choices: Vec<Choice>,
    /// A disk reserved for the workload, empty at each boot.
    pub disk: Option<Disk>,
    /// The CPU that guests see.
    pub cpu: CpuModel,
    /// CPUs and memory of the host for guests under KVM.
    pub host: Option<KvmHost>,
    /// Clients outside the guest; `None` if they are in it.
    pub clients: Option<ClientsPlace>,
}

/// Where clients run that are not in the servers' guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientsPlace {
    /// In a namespace of this host.
    Host(HostClients),
    /// In a second guest.
    Guest {
        /// What it boots.
        files: Box<BootFiles>,
        /// Release of its kernel.
        release: String,
    },
}

impl ClientsPlace {
    fn describe(&self) -> ClientsApart {
        match self {
            Self::Host(clients) => clients.describe(),
            Self::Guest { release, .. } => ClientsApart::Guest {
                release: release.clone(),
            },
        }
    }
}

/// A disk reserved for the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    /// Its size.
    pub bytes: u64,
    /// Its limits of speed.
    pub speed: DiskSpeed,
}

/// Decides what the plan leaves open. `disk_bytes` is the size of the disk that its workloads need, 0 for none.
pub fn settle(
    plan: &MachinePlan,
    disk_bytes: u64,
    program: &Program,
    kvm: &Kvm,
) -> Result<Hardware> {
    // Disk accesses take the host's time, which counted instructions do not include.
    let asked = match plan.clock {
        Clock::Auto if disk_bytes > 0 => Clock::Wall,
        clock => clock,
    };
    let (accel, clock) = match (asked, kvm) {
        (Clock::Auto | Clock::Wall, Kvm::Works) => (Acceleration::Kvm, Clock::Wall),
        (Clock::Wall, _) => (Acceleration::Tcg, Clock::Wall),
        (Clock::Auto | Clock::Instructions, _) => (Acceleration::Tcg, Clock::Instructions),
    };
    let mut choices = match kvm {
        Kvm::Works => Vec::new(),
        Kvm::Absent(obstacle) => vec![Choice::NoKvm {
            obstacle: obstacle.clone(),
        }],
        Kvm::Broken(_) => vec![Choice::KvmFails],
        Kvm::Unwanted => vec![Choice::CountsInstructions],
    };
    let mut cpus = plan.cpus;
    // Two virtual CPUs under -icount hang.
    if clock == Clock::Instructions && cpus > 1 {
        choices.push(Choice::OneCpu { asked: cpus });
        cpus = 1;
    }
    Ok(Hardware {
        program: program.clone(),
        cpu: settle_cpu(plan, program, accel, clock)?,
        accel,
        cpus,
        memory_bytes: plan.memory_bytes,
        clock,
        choices,
        disk: (disk_bytes > 0).then_some(Disk {
            bytes: disk_bytes,
            speed: plan.disk,
        }),
        host: None,
        clients: None,
    })
}

/// Environment variable that removes fast strings from guests of counted instructions, to measure their effect.
pub const NO_FAST_STRINGS: &str = "BAKEOFF_NO_FAST_STRINGS";

/// The CPU that guests see. With counted instructions it has all fast strings that the emulator knows, like a current
/// server. Under KVM it has the host's performance monitoring unit, so that guests can count events.
fn settle_cpu(
    plan: &MachinePlan,
    program: &Program,
    accel: Acceleration,
    clock: Clock,
) -> Result<CpuModel> {
    let arch = program.arch.facts();
    let usual = match accel {
        Acceleration::Kvm => "host",
        Acceleration::Tcg => arch.usual_cpu(),
    };
    let mut cpu = match &plan.cpu_model {
        None => CpuModel::plain(usual),
        Some(model) => {
            program.check_model(model).map_err(anyhow::Error::msg)?;
            model.clone()
        }
    };
    if accel == Acceleration::Kvm {
        // "host" has one by default, other models do not.
        if cpu.asks_for(PERFORMANCE_MONITORING).is_none() {
            let pmu = (PERFORMANCE_MONITORING.into(), Presence::Present);
            cpu.features.push(pmu);
        }
        return Ok(cpu);
    }
    if cpu.name == "host" {
        bail!(
            "cpu_model \"host\" under emulation (KVM cannot be used here: name another model, or none)"
        );
    }
    if clock == Clock::Instructions {
        let presence = match std::env::var_os(NO_FAST_STRINGS) {
            Some(_) => Presence::Absent,
            None => Presence::Present,
        };
        let known = arch.fast_strings().iter().copied();
        let known = known.filter(|feature| program.features.contains(*feature));
        let unspecified: Vec<_> = known
            .filter(|feature| cpu.asks_for(feature).is_none())
            .map(|feature| (feature.to_string(), presence))
            .collect();
        cpu.features.extend(unspecified);
    }
    Ok(cpu)
}

/// The files that an arm boots, and its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootFiles {
    /// The bootable image.
    pub kernel: PathBuf,
    /// The archive that contains the agent.
    pub initramfs: PathBuf,
    /// The arm's part of the command line.
    pub cmdline: String,
    /// The arm's number of virtual CPUs, if it sets one.
    pub cpus: Option<u32>,
}

/// QEMU as a machine.
#[derive(Debug)]
pub struct Qemu {
    hardware: Hardware,
    image: Option<PathBuf>,
    arms: BTreeMap<String, BootFiles>,
    counter: Option<Counter>,
    profiler: Option<Profiler>,
}

impl Qemu {
    /// A machine for these arms, by their names, with one image for all of them.
    pub fn new(
        hardware: Hardware,
        image: Option<PathBuf>,
        arms: BTreeMap<String, BootFiles>,
    ) -> Self {
        Self {
            hardware,
            image,
            arms,
            counter: None,
            profiler: None,
        }
    }

    /// Counts string instructions of every trial.
    #[must_use]
    pub fn with_counter(self, counter: Counter) -> Self {
        Self {
            counter: Some(counter),
            ..self
        }
    }

    /// Profiles every trial.
    #[must_use]
    pub fn with_profiler(self, profiler: Profiler) -> Self {
        Self {
            profiler: Some(profiler),
            ..self
        }
    }

    /// Adds the profiler to QEMU's command line. Returns the file that it will write, or why there is none.
    fn attach_profiler(&self, arm: &str, qemu: &mut Command) -> Result<File, String> {
        let profiler = self.profiler.as_ref().ok_or("the guest was not profiled")?;
        let Some(ns_per_instruction) = self.ns_per_instruction() else {
            return Err("profiles need counted instructions (clock = \"instructions\")".into());
        };
        let hardware = profiling::Hardware {
            memory_bytes: self.hardware.memory_bytes,
            ns_per_instruction,
        };
        let attached = profiler.attach(arm, &hardware, qemu);
        attached.map_err(|why| format!("{why:#}"))
    }

    /// Starts a guest for the clients, of the same hardware. The disk, and the CPUs and memory that the host reserves, are
    /// for the servers' guest only.
    fn attach_guest(
        &self,
        files: &BootFiles,
        servers: &mut Command,
        boot: &Boot<'_>,
    ) -> Result<ClientsOfTrial> {
        let hardware = Hardware {
            disk: None,
            host: None,
            ..self.hardware.clone()
        };
        let limits = Limits {
            allowance_bytes: boot.allowance_bytes,
            file_bytes: Some(hardware.file_bytes()),
        };
        clients::guest::attach(servers, boot.dir, limits, |console| {
            let qemu = hardware.command(files, self.image.as_deref(), console)?;
            self.confined(qemu, files)
        })
    }

    /// Confines a complete command to the files of a guest.
    fn confined(&self, mut qemu: Command, files: &BootFiles) -> Result<Command> {
        let mut guest: Vec<&Path> = vec![&files.kernel, &files.initramfs];
        guest.extend(self.image.as_deref());
        self.hardware.program.confine(&mut qemu, &guest)?;
        Ok(qemu)
    }

    /// Numbers of virtual CPUs of all arms.
    fn cpus(&self) -> BTreeSet<u32> {
        let default = self.hardware.cpus;
        if self.arms.is_empty() {
            return [default].into();
        }
        let cpus = |files: &BootFiles| files.cpus.unwrap_or(default);
        self.arms.values().map(cpus).collect()
    }
}

impl Machine for Qemu {
    fn describe(&self) -> MachineDescription {
        let hardware = &self.hardware;
        MachineDescription::Qemu(Guests {
            emulator: hardware.program.version.clone(),
            acceleration: hardware.accel,
            clock: match hardware.clock {
                Clock::Auto | Clock::Wall => GuestClock::Wall,
                Clock::Instructions => GuestClock::Instructions,
            },
            cpus: self.cpus(),
            cpu_model: hardware.cpu.to_string(),
            memory_bytes: hardware.memory_bytes,
            profiled: self.profiler.as_ref().is_some_and(Profiler::is_able),
            host: hardware.host.as_ref().map(KvmHost::describe),
            clients: hardware.clients.as_ref().map(ClientsPlace::describe),
            choices: hardware.choices.clone(),
        })
    }

    fn cpu_model(&self) -> Option<String> {
        Some(self.hardware.cpu.to_string())
    }

    fn ns_per_instruction(&self) -> Option<u32> {
        match self.hardware.clock {
            Clock::Instructions => Some(1 << ICOUNT_SHIFT),
            Clock::Auto | Clock::Wall => None,
        }
    }

    fn is_profiled(&self) -> bool {
        self.profiler.is_some()
    }

    fn profile(&self, arm: &str, written: &[u8], code: &Code) -> Result<Profile> {
        let profiler = self.profiler.as_ref();
        profiler
            .context("no profiler on this machine")?
            .profile(arm, written, code)
    }

    fn boot(&self, boot: Boot<'_>) -> Result<Box<dyn Guest>> {
        let Some(files) = self.arms.get(boot.arm) else {
            bail!("unknown arm: {:?}", boot.arm);
        };
        for file in [&files.kernel, &files.initramfs]
            .into_iter()
            .chain(&self.image)
        {
            if !file.exists() {
                bail!(
                    "file is gone from the cache: {} (run again to make it anew)",
                    file.display()
                );
            }
        }
        let console = boot.dir.join("console.log");
        let disk_bytes = self.hardware.disk.map_or(0, |disk| disk.bytes);
        expect_space(boot.dir, console::LIMIT_BYTES + disk_bytes)?;
        let mut qemu = self
            .hardware
            .command(files, self.image.as_deref(), &console)?;
        if let Some(disk) = self.hardware.disk {
            disk.attach(&mut qemu, boot.dir)?;
        }
        let profile = self.attach_profiler(boot.arm, &mut qemu);
        let counter = self.counter.as_ref();
        let counts = counter
            .map(|counter| counter.attach(boot.arm, &mut qemu))
            .transpose()?;
        let limits = Limits {
            allowance_bytes: boot.allowance_bytes,
            file_bytes: Some(self.hardware.file_bytes()),
        };
        let host = self.hardware.host.as_ref();
        let placement = host.and_then(|host| host.placement.as_ref().ok());
        let monitor = placement
            .map(|placement| Monitor::attach(&mut qemu, placement))
            .transpose()?;
        // After the monitor, so that clients also stay on the CPUs without a virtual CPU.
        let vcpus = files.cpus.unwrap_or(self.hardware.cpus);
        let clients = match &self.hardware.clients {
            None => None,
            Some(ClientsPlace::Host(clients)) => {
                let attached = clients.attach(&mut qemu, vcpus, boot.allowance_bytes);
                Some(attached.context("clients on this host")?)
            }
            Some(ClientsPlace::Guest { files, .. }) => {
                Some(self.attach_guest(files, &mut qemu, &boot)?)
            }
        };
        let qemu = self.confined(qemu, files)?;
        let mut guest = ProcessGuest::start("QEMU", qemu, console, limits)
            .with_context(|| format!("cannot start QEMU for arm {}", boot.arm))?;
        guest.set_profile(profile);
        guest.set_counts(counts);
        guest.set_hardware(host_state::hardware());
        if let Some(host) = host {
            let pinned = match (monitor, placement) {
                (Some(monitor), Some(placement)) => monitor.pin(guest.process(), placement)?,
                _ => None,
            };
            guest.set_host(host.begin_trial(pinned));
        }
        Ok(match clients {
            None => Box::new(guest),
            Some(clients) => Box::new(GuestWithClients::behind_card(guest, clients)),
        })
    }
}

impl Disk {
    /// Gives QEMU an unnamed file, which disappears however QEMU ends.
    fn attach(self, qemu: &mut Command, dir: &Path) -> Result<()> {
        let unnamed = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(dir, unnamed, Mode::RUSR | Mode::WUSR)
            .with_context(|| format!("cannot make a disk in {}", dir.display()))?;
        rustix::fs::ftruncate(&file, self.bytes)?;
        qemu.args(self.arguments(file.as_raw_fd()));
        base::process::inherit(qemu, file);
        Ok(())
    }

    fn arguments(self, fd: RawFd) -> Vec<String> {
        let mut limits = String::new();
        for (name, limit) in [
            ("x-bps-total", self.speed.bytes_per_s),
            ("x-iops-total", self.speed.requests_per_s),
        ] {
            if let Some(limit) = limit {
                let _ = write!(limits, ",{name}={limit}");
            }
        }
        let set = file_set::DISK;
        let file = format!("driver=file,filename=/dev/fdset/{set},locking=off,node-name=disk-file");
        [
            ("-add-fd", format!("fd={fd},set={set}")),
            ("-object", format!("throttle-group,id=disk-speed{limits}")),
            ("-blockdev", file),
            (
                "-blockdev",
                "driver=raw,file=disk-file,node-name=disk-raw".into(),
            ),
            (
                "-blockdev",
                "driver=throttle,throttle-group=disk-speed,file=disk-raw,node-name=disk".into(),
            ),
            ("-device", "virtio-blk-pci,drive=disk,serial=disk".into()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_string(), value])
        .collect()
    }
}

impl Hardware {
    /// Reserves CPUs and memory of this host for the guests of these arms, if they run under KVM.
    pub fn settle_host(&mut self, arms: &BTreeMap<String, BootFiles>) -> Result<()> {
        if self.accel == Acceleration::Kvm {
            let cpus = arms.values().map(|files| files.cpus.unwrap_or(self.cpus));
            let most = cpus.max().unwrap_or(self.cpus);
            self.host = Some(KvmHost::open(most, self.memory_bytes)?);
        }
        Ok(())
    }

    /// Decides where clients run: where the plan says, else on this host if that is possible with the wall clock.
    /// `inside` names a workload whose clients cannot leave the guest; `bakeoff` is the path of this program.
    ///
    /// # Errors
    /// The plan's choice is not possible.
    pub fn settle_clients(
        &mut self,
        asked: Option<Clients>,
        inside: Option<&str>,
        bakeoff: &Path,
    ) -> Result<()> {
        if self.clock == Clock::Instructions {
            if let Some(asked @ (Clients::Host | Clients::Guest2)) = asked {
                bail!(
                    "clients \"{}\" where instructions are counted (write clock = \"wall\", or clients = \"guest\": \
                     such a guest has a time of its own)",
                    asked.word()
                );
            }
            return Ok(());
        }
        // The caller adds a second guest, because it needs a kernel.
        if let Some(Clients::Guest | Clients::Guest2) = asked {
            return Ok(());
        }
        let opened = match inside {
            None => HostClients::open(bakeoff),
            Some(workload) => Err(format!(
                "those of workload {workload} are programs of its image"
            )),
        };
        match (opened, asked) {
            (Ok(clients), _) if self.accel == Acceleration::Kvm => {
                self.clients = Some(ClientsPlace::Host(clients.under_kvm()));
            }
            (Ok(clients), _) => self.clients = Some(ClientsPlace::Host(clients)),
            (Err(why), Some(_)) => bail!("clients \"host\" on a host that cannot have them: {why}"),
            (Err(obstacle), None) => self.choices.push(Choice::ClientsInGuest { obstacle }),
        }
        Ok(())
    }

    fn memory(&self) -> GuestMemory {
        let host = self.host.as_ref();
        host.map_or(GuestMemory::Small, |host| host.memory)
    }

    /// Longest file that QEMU may write; memory in reserved pages is a file.
    fn file_bytes(&self) -> u64 {
        let disk_bytes = self.disk.map_or(0, |disk| disk.bytes);
        let memory_bytes = match self.memory() {
            GuestMemory::Reserved => self.memory_bytes,
            GuestMemory::Transparent | GuestMemory::Small => 0,
        };
        FILE_BYTES.max(disk_bytes).max(memory_bytes)
    }

    fn accel_arguments(&self) -> Vec<String> {
        let text = match (self.accel, self.clock) {
            (Acceleration::Kvm, _) => "-accel kvm",
            (Acceleration::Tcg, Clock::Auto | Clock::Wall) => "-accel tcg,thread=multi",
            (Acceleration::Tcg, Clock::Instructions) => "-accel tcg,thread=single",
        };
        let mut arguments: Vec<_> = text.split(' ').map(String::from).collect();
        if self.clock == Clock::Instructions {
            let icount = format!("shift={ICOUNT_SHIFT},sleep=off");
            arguments.extend(["-icount".into(), icount]);
            // The same date at every boot, because servers may depend on it.
            let date = "base=2026-01-01T00:00:00,clock=vm";
            arguments.extend(["-rtc".into(), date.into()]);
        }
        arguments
    }

    fn cmdline(&self, arm: &str, cpus: u32) -> String {
        let arch = self.program.arch.facts();
        let console = format!("console={}", arch.console());
        let mut words = vec![&*console, "panic=-1", "loglevel=6"];
        if self.accel == Acceleration::Tcg {
            words.extend(arch.emulated_cmdline(cpus));
        }
        if self.clock == Clock::Instructions {
            // With random addresses, 2 of 12 boots of one kernel served 0.8 and 3.4 % fewer pages than the others, during
            // the whole window; with fixed ones none did. The cause is unknown.
            words.extend(["nokaslr", "norandmaps"]);
            // Self-tests of the kernel's cryptography belong to no figure.
            words.push("cryptomgr.notests");
        }
        if !arm.is_empty() {
            words.push(arm);
        }
        words.join(" ")
    }

    /// QEMU with a guest of these files, whose console is a new file at `console`.
    fn command(&self, files: &BootFiles, image: Option<&Path>, console: &Path) -> Result<Command> {
        // QEMU inherits the open file: it may open no file for writing by name.
        let file = console::create(console)?;
        let mut qemu = self.program.command();
        qemu.args(self.arguments(files, image, file.as_raw_fd()));
        base::process::inherit(&mut qemu, file.into());
        Ok(qemu)
    }

    fn arguments(&self, files: &BootFiles, image: Option<&Path>, console: RawFd) -> Vec<String> {
        let mut arguments: Vec<String> = Vec::new();
        let mut add = |name: &str, value: &str| arguments.extend([name.into(), value.into()]);
        let machine = self.program.arch.facts().machine();
        match self.memory() {
            GuestMemory::Reserved => {
                let bytes = format!("size={}M", self.memory_bytes >> 20);
                let pages = "hugetlb=on,hugetlbsize=2M,prealloc=on";
                add(
                    "-object",
                    &format!("memory-backend-memfd,id=ram,{bytes},{pages}"),
                );
                add("-machine", &format!("{machine},memory-backend=ram"));
            }
            // QEMU requests huge pages by default.
            GuestMemory::Transparent | GuestMemory::Small => {
                add("-machine", machine);
            }
        }
        add("-cpu", &self.cpu.to_string());
        let cpus = files.cpus.unwrap_or(self.cpus);
        add("-smp", &cpus.to_string());
        add("-m", &format!("{}M", self.memory_bytes >> 20));
        add("-display", "none");
        add("-monitor", "none");
        add("-kernel", &files.kernel.display().to_string());
        add("-initrd", &files.initramfs.display().to_string());
        add("-append", &self.cmdline(&files.cmdline, cpus));
        add(
            "-add-fd",
            &format!("fd={console},set={}", file_set::CONSOLE),
        );
        let path = format!("/dev/fdset/{}", file_set::CONSOLE);
        add(
            "-chardev",
            &format!("file,id=console,append=on,path={path}"),
        );
        add("-serial", "chardev:console");
        // The channel to the agent is standard input, an inherited socket.
        add("-chardev", "socket,id=agent,fd=0");
        add("-device", "virtio-serial-pci");
        add(
            "-device",
            &format!(
                "virtserialport,chardev=agent,name={}",
                record::protocol::PORT
            ),
        );
        if let Some(image) = image {
            let image = escaped(image);
            // Several guests may read one image at a time, which QEMU's lock would prevent.
            let file = format!("file,filename={image},locking=off,node-name=file,read-only=on");
            add("-blockdev", &format!("driver={file}"));
            add(
                "-blockdev",
                "driver=raw,file=file,node-name=image,read-only=on",
            );
            add("-device", "virtio-blk-pci,drive=image,serial=image");
        }
        arguments.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(String::from));
        arguments.extend(self.accel_arguments());
        arguments
    }
}

/// Doubles commas, because a single comma ends an option's value.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// Fails without enough disk space. The error ends the run: it is no arm's fault, and the next trial has no more.
fn expect_space(dir: &Path, need_bytes: u64) -> Result<()> {
    let free = crate::cache::free_bytes(dir)?;
    if free < need_bytes {
        let lack = format!(
            "not enough disk space at {}: need {}, have {} (free some, then the same command goes on)",
            dir.display(),
            show_bytes(need_bytes),
            show_bytes(free)
        );
        return Err(MachineGone(lack).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::arch::Arch;
    use expect_test::{Expect, expect};
    use plan::{MachineKind, StringPrice};

    use super::*;
    use crate::emulator::{Launch, Release};

    fn plan(clock: Clock, cpus: u32) -> MachinePlan {
        MachinePlan {
            kind: MachineKind::Qemu,
            arch: Arch::X86_64,
            cpus,
            memory_bytes: 1 << 30,
            clock,
            boot_timeout: Duration::from_secs(1),
            silence: Duration::from_secs(1),
            trial_limit: Duration::from_secs(1),
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
            one_client_fewer: false,
            ssh: None,
        }
    }

    fn program() -> Program {
        let words = |text: &str| text.split(' ').map(String::from).collect();
        Program {
            arch: Arch::X86_64,
            path: "qemu".into(),
            version: "QEMU 7.2.22".into(),
            release: Release { major: 7, minor: 2 },
            launch: Launch::Direct,
            models: words("EPYC host max"),
            features: words("avx2 erms fsrm"),
            has_seccomp: true,
        }
    }

    fn machine(clock: Clock, cpus: u32, kvm: &Kvm) -> Qemu {
        let hardware = settle(&plan(clock, cpus), 0, &program(), kvm).unwrap();
        Qemu::new(hardware, Some("image,1.ext4".into()), BTreeMap::new())
    }

    fn check(clock: Clock, cpus: u32, kvm: &Kvm, want: &Expect) {
        let machine = machine(clock, cpus, kvm);
        let files = BootFiles {
            kernel: "vmlinuz".into(),
            initramfs: "initramfs.cpio".into(),
            cmdline: "mitigations=off".into(),
            cpus: None,
        };
        let arguments = machine
            .hardware
            .arguments(&files, machine.image.as_deref(), 5);
        let text = arguments.join(" ").replace(" -", "\n-");
        want.assert_eq(&format!("{:?}\n{text}\n", machine.describe()));
    }

    fn broken() -> Kvm {
        Kvm::Absent("no /dev/kvm".into())
    }

    #[test]
    fn too_little_disk_ends_a_run_rather_than_a_trial() {
        let dir = tempfile::tempdir().unwrap();
        expect_space(dir.path(), 1).unwrap();
        let why = expect_space(dir.path(), u64::MAX).unwrap_err();
        assert!(why.is::<MachineGone>());
        let what = format!("not enough disk space at {}: need ", dir.path().display());
        assert!(why.to_string().starts_with(&what), "{why}");
    }

    #[test]
    fn without_kvm_auto_counts_instructions_on_one_cpu_and_says_so() {
        check(
            Clock::Auto,
            2,
            &broken(),
            &expect![[r#"
                Qemu(Guests { emulator: "QEMU 7.2.22", acceleration: Tcg, clock: Instructions, cpus: {1}, cpu_model: "max,+erms,+fsrm", memory_bytes: 1073741824, profiled: false, host: None, clients: None, choices: [NoKvm { obstacle: "no /dev/kvm" }, OneCpu { asked: 2 }] })
                -machine q35,usb=off,vmport=off
                -cpu max,+erms,+fsrm
                -smp 1
                -m 1024M
                -display none
                -monitor none
                -kernel vmlinuz
                -initrd initramfs.cpio
                -append console=ttyS0 panic=-1 loglevel=6 no_timer_check nokaslr norandmaps cryptomgr.notests mitigations=off
                -add-fd fd=5,set=2
                -chardev file,id=console,append=on,path=/dev/fdset/2
                -serial chardev:console
                -chardev socket,id=agent,fd=0
                -device virtio-serial-pci
                -device virtserialport,chardev=agent,name=bakeoff.agent
                -blockdev driver=file,filename=image,,1.ext4,locking=off,node-name=file,read-only=on
                -blockdev driver=raw,file=file,node-name=image,read-only=on
                -device virtio-blk-pci,drive=image,serial=image
                -nodefaults
                -no-user-config
                -no-reboot
                -accel tcg,thread=single
                -icount shift=1,sleep=off
                -rtc base=2026-01-01T00:00:00,clock=vm
            "#]],
        );
    }

    #[test]
    fn with_kvm_auto_takes_the_wall_clock() {
        check(
            Clock::Auto,
            2,
            &Kvm::Works,
            &expect![[r#"
                Qemu(Guests { emulator: "QEMU 7.2.22", acceleration: Kvm, clock: Wall, cpus: {2}, cpu_model: "host,+pmu", memory_bytes: 1073741824, profiled: false, host: None, clients: None, choices: [] })
                -machine q35,usb=off,vmport=off
                -cpu host,+pmu
                -smp 2
                -m 1024M
                -display none
                -monitor none
                -kernel vmlinuz
                -initrd initramfs.cpio
                -append console=ttyS0 panic=-1 loglevel=6 mitigations=off
                -add-fd fd=5,set=2
                -chardev file,id=console,append=on,path=/dev/fdset/2
                -serial chardev:console
                -chardev socket,id=agent,fd=0
                -device virtio-serial-pci
                -device virtserialport,chardev=agent,name=bakeoff.agent
                -blockdev driver=file,filename=image,,1.ext4,locking=off,node-name=file,read-only=on
                -blockdev driver=raw,file=file,node-name=image,read-only=on
                -device virtio-blk-pci,drive=image,serial=image
                -nodefaults
                -no-user-config
                -no-reboot
                -accel kvm
            "#]],
        );
    }

    #[test]
    fn reserved_pages_are_allocated_before_the_guest_begins() {
        let machine = machine(Clock::Wall, 1, &Kvm::Works);
        let host = KvmHost::open(1, 1 << 30).unwrap();
        let arguments = |memory| {
            let hardware = Hardware {
                host: Some(host.with_memory(memory)),
                ..machine.hardware.clone()
            };
            let files = BootFiles {
                kernel: "vmlinuz".into(),
                initramfs: "initramfs.cpio".into(),
                cmdline: String::new(),
                cpus: None,
            };
            let arguments = hardware.arguments(&files, None, 5);
            (arguments.join(" "), hardware.file_bytes())
        };
        let (reserved, bytes) = arguments(GuestMemory::Reserved);
        let object = "-object memory-backend-memfd,id=ram,size=1024M,hugetlb=on,hugetlbsize=2M,prealloc=on \
                      -machine q35,usb=off,vmport=off,memory-backend=ram";
        assert!(reserved.starts_with(object), "{reserved}");
        assert_eq!(bytes, 1 << 30, "the memory is a file to the kernel");
        let (transparent, bytes) = arguments(GuestMemory::Transparent);
        assert!(!transparent.contains("memory-backend"), "{transparent}");
        assert_eq!(bytes, FILE_BYTES);
    }

    #[test]
    fn the_wall_clock_can_be_had_under_emulation() {
        let machine = machine(Clock::Wall, 2, &broken());
        assert_eq!(
            machine.hardware.accel_arguments(),
            ["-accel", "tcg,thread=multi"]
        );
        assert_eq!(machine.ns_per_instruction(), None);
        let cmdline = |cpus| machine.hardware.cmdline("quiet", cpus);
        let one_cpu = "console=ttyS0 panic=-1 loglevel=6 no_timer_check quiet";
        assert_eq!(cmdline(1), one_cpu);
        let two_cpus = one_cpu.replace("quiet", "tsc=nowatchdog quiet");
        assert_eq!(cmdline(2), two_cpus);
    }

    #[test]
    fn an_arm_boots_with_its_own_number_of_cpus() {
        let files = |cpus| BootFiles {
            kernel: "vmlinuz".into(),
            initramfs: "initramfs.cpio".into(),
            cmdline: String::new(),
            cpus,
        };
        let mut machine = machine(Clock::Wall, 2, &broken());
        for (arm, cpus) in [("two", None), ("one", Some(1)), ("four", Some(4))] {
            machine.arms.insert(arm.into(), files(cpus));
        }
        let smp = |arm: &str| {
            let arguments = machine.hardware.arguments(&machine.arms[arm], None, 5);
            let place = arguments.iter().position(|word| word == "-smp").unwrap();
            arguments[place + 1].clone()
        };
        assert_eq!(["one", "two", "four"].map(smp), ["1", "2", "4"]);
        assert_eq!(machine.cpus(), [1, 2, 4].into());
    }

    fn cpu(clock: Clock, model: &str, kvm: &Kvm) -> Result<String> {
        let plan = MachinePlan {
            cpu_model: Some(CpuModel::parse(model).unwrap()),
            ..plan(clock, 1)
        };
        settle(&plan, 0, &program(), kvm).map(|hardware| hardware.cpu.to_string())
    }

    #[test]
    fn guests_of_counted_instructions_have_fast_strings_whatever_their_model() {
        let counted = |model| cpu(Clock::Instructions, model, &Kvm::Works).unwrap();
        assert_eq!(counted("EPYC,-avx2"), "EPYC,-avx2,+erms,+fsrm");
        assert_eq!(counted("EPYC,+erms"), "EPYC,+erms,+fsrm");
        let wall = cpu(Clock::Wall, "EPYC,-erms", &broken()).unwrap();
        assert_eq!(wall, "EPYC,-erms");
    }

    #[test]
    fn guests_under_kvm_can_count_what_their_cpus_execute_unless_the_plan_says_otherwise() {
        let under = |model, kvm: &Kvm| cpu(Clock::Wall, model, kvm).unwrap();
        assert_eq!(under("EPYC", &Kvm::Works), "EPYC,+pmu");
        assert_eq!(under("host,-pmu", &Kvm::Works), "host,-pmu");
        assert_eq!(under("EPYC", &broken()), "EPYC");
    }

    #[test]
    fn a_model_that_cannot_be_had_is_refused() {
        let why = |model| cpu(Clock::Wall, model, &broken()).unwrap_err().to_string();
        assert!(why("host").starts_with("cpu_model \"host\" under emulation"));
        assert!(why("EPIC").contains("CPU model that QEMU 7.2.22 does not know"));
    }

    #[test]
    fn instructions_are_counted_even_where_kvm_works() {
        let machine = machine(Clock::Instructions, 1, &Kvm::Works);
        assert_eq!(machine.hardware.accel, Acceleration::Tcg);
        assert_eq!(machine.ns_per_instruction(), Some(2));
        assert_eq!(machine.hardware.choices, []);
    }

    /// Where clients run, on a host that can have them or not.
    fn clients(
        clock: Clock,
        kvm: &Kvm,
        asked: Option<Clients>,
        inside: Option<&str>,
        is_able: bool,
    ) -> String {
        let program = Path::new(if is_able { "/bin/true" } else { "/bin/false" });
        let mut hardware = machine(clock, 1, kvm).hardware;
        match hardware.settle_clients(asked, inside, program) {
            Ok(()) => match &hardware.clients {
                // With vhost or without, which depends on the test's host.
                Some(_) => "host".into(),
                None => format!("guest, {:?}", hardware.choices),
            },
            Err(why) => why.to_string(),
        }
    }

    #[test]
    fn clients_leave_a_guest_that_goes_by_the_wall_clock_where_they_can() {
        let under_kvm =
            |asked, inside, is_able| clients(Clock::Auto, &Kvm::Works, asked, inside, is_able);
        assert_eq!(under_kvm(None, None, true), "host");
        let emulated = clients(Clock::Wall, &broken(), None, None, true);
        assert_eq!(emulated, "host");
        let in_guest = under_kvm(Some(Clients::Guest), None, true);
        assert_eq!(in_guest, "guest, []");
        expect![[r#"guest, [ClientsInGuest { obstacle: "exit status: 1" }]"#]]
            .assert_eq(&under_kvm(None, None, false));
        expect![[r#"guest, [ClientsInGuest { obstacle: "those of workload smb are programs of its image" }]"#]]
            .assert_eq(&under_kvm(None, Some("smb"), true));
        expect![[r#"guest, [NoKvm { obstacle: "no /dev/kvm" }]"#]].assert_eq(&clients(
            Clock::Auto,
            &broken(),
            None,
            None,
            true,
        ));
    }

    #[test]
    fn clients_that_are_asked_for_and_cannot_be_had_are_refused() {
        let host = Some(Clients::Host);
        expect![[r#"clients "host" on a host that cannot have them: exit status: 1"#]]
            .assert_eq(&clients(Clock::Auto, &Kvm::Works, host, None, false));
        expect![[r#"clients "host" where instructions are counted (write clock = "wall", or clients = "guest": such a guest has a time of its own)"#]]
            .assert_eq(&clients(Clock::Auto, &broken(), host, None, true));
    }
}
