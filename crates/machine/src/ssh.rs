//! Arms that boot on a box, a dedicated computer. It needs sshd and kexec-tools, and gets only a cache directory.
//!
//! ```text
//! this host: lab -> relay ==TCP, a secret of this boot==> agent on the box
//!                <- UDP, netconsole <-------------------- the arm's kernel
//!
//! installed OS --ssh: kexec--> arm: agent, job --restart--> installed OS (new boot id) -> ...
//! ```
//! The installed OS is the box's installed operating system. Every arm starts from it, never from another arm, and however an
//! arm ends, the box returns to it: the agent restarts the box at its end and when this host is gone, a panic restarts
//! it, the watchdog ends a hang, and the plan's power command is the last resort.

mod clients;
mod doctor;
mod facts;
mod home;
mod netconsole;
mod payload;
mod pstore;
pub mod relay;
pub(crate) mod session;
mod start;

use record::defect::{DefectSource, FoundDefect};
use record::machine::{BoxCard, MachineDescription};
use std::collections::BTreeMap;
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base::input::units::show_bytes;
use plan::{BootWay, SshPlan};
use record::protocol::ToAgent;

use crate::cache::Cache;
use crate::clients::{ClientsOfTrial, GuestWithClients};
use crate::console;
use crate::guest::{Boot, Guest, GuestEvent, Machine};
use crate::kernel::Kernel;
use crate::modules;
use crate::process_guest::{Limits, ProcessGuest};
use crate::qemu::BootFiles;
use crate::task::Task;

use self::clients::ClientsRelay;
use self::facts::{BoxFacts, Card, Link};
use self::home::Away;
use self::netconsole::Netconsole;
use self::payload::Upload;
use self::session::Session;
use self::start::Files;

pub use self::clients::ClientsOfBox;
pub use self::doctor::examine;

/// Memory that an arm needs in addition to its unpacked files.
const SPARE_MEMORY_BYTES: u64 = 256 << 20;

/// A box as a machine.
#[derive(Debug)]
pub struct SshBox {
    plan: SshPlan,
    /// The plan's directory, in which its power commands run.
    base: PathBuf,
    session: Session,
    program: PathBuf,
    arms: BTreeMap<String, ArmFiles>,
    image: Upload,
    description: MachineDescription,
    clients: ClientsOfBox,
    /// Set while the box may be outside its installed OS.
    away: Mutex<Option<Away>>,
    /// Keeps other runs of this user from using the box.
    _lock: File,
}

#[derive(Debug)]
struct ArmFiles {
    kernel: Upload,
    initramfs: Upload,
    cmdline: String,
    cpus: Option<u32>,
}

/// A box that was probed, and can be used.
#[derive(Debug)]
pub struct ProbedBox {
    session: Session,
    facts: BoxFacts,
    link: Link,
    /// The cards for remote clients.
    cards: Vec<Card>,
    lock: File,
}

impl ProbedBox {
    /// Probes a box.
    ///
    /// # Errors
    /// Says why arms cannot boot there, with all that the box lacks.
    pub fn probe(plan: &SshPlan, cache: &Cache, task: Task<'_>) -> Result<Self> {
        let lock = cache.lock(&format!("box {}", plan.host), task)?;
        let session = Session::new(&plan.host, plan.config.as_deref());
        task.tell("looking at the box", None);
        let facts = BoxFacts::parse(&session.run(facts::SCRIPT, task)?)?;
        let lacks = facts::lacks(&facts, plan.boot == BootWay::Kexec);
        if !lacks.is_empty() {
            bail!("{} cannot boot arms: {}", plan.host, lacks.join("; "));
        }
        let link = facts::choose_link(&facts, plan.interface.as_deref())
            .with_context(|| plan.host.clone())?;
        let cards = cards_of(plan, &facts, &link).with_context(|| plan.host.clone())?;
        Ok(Self {
            session,
            facts,
            link,
            cards,
            lock,
        })
    }

    /// Fails if the clients cannot reach the box's servers. Checked before anything is loaded.
    pub fn check_clients(&self, clients: &ClientsOfBox, task: Task<'_>) -> Result<()> {
        task.tell("trying the way from the clients to the box", None);
        let facts = &self.facts;
        clients.check(facts.get("boot-id"), &self.cards, facts.ssh_port(), task)
    }

    /// Names of the modules that an arm's kernel needs on this box, in addition to those of its jobs.
    pub fn modules(&self) -> Vec<String> {
        let drivers = self.link.drivers.iter().cloned();
        let cards = self.cards.iter().flat_map(|card| card.drivers.clone());
        let drivers = drivers.chain(cards).chain(self.facts.watchdog());
        let mut names: Vec<String> = drivers.map(|driver| driver.name).collect();
        names.extend(["loop", "netconsole"].map(String::from));
        names
    }

    /// Fails if a kernel could not unpack its files, or lacks the driver of a network card.
    pub fn check_kernel(&self, kernel: &Kernel) -> Result<()> {
        payload::check_kernel(kernel)?;
        let cards = self.cards.iter();
        let cards = cards.map(|card| (&card.interface, &card.drivers));
        let link = [(&self.link.interface, &self.link.drivers)];
        for (interface, drivers) in link.into_iter().chain(cards) {
            let driver = drivers.first();
            let Some(driver) = driver.filter(|driver| driver.is_module) else {
                continue;
            };
            if !modules::is_known(kernel, &driver.name)? {
                bail!(
                    "kernel {} has no driver {} for interface {interface} (cloud kernels lack most: name the general one, such \
                     as debian:bookworm/6.1.*-amd64, or build it in)",
                    kernel.release,
                    driver.name,
                );
            }
        }
        Ok(())
    }
}

/// The files of all arms of a plan.
pub struct Arms<'a> {
    /// By the arms' names, as for an emulated machine.
    pub files: &'a BTreeMap<String, BootFiles>,
    /// The user land, which all arms share.
    pub image: &'a Path,
    /// The path of this program.
    pub program: PathBuf,
    /// The plan's directory.
    pub base: &'a Path,
}

impl SshBox {
    /// Prepares all files for the box.
    pub fn new(
        plan: &SshPlan,
        probed: ProbedBox,
        clients: ClientsOfBox,
        arms: Arms<'_>,
        cache: &Cache,
        task: Task<'_>,
    ) -> Result<Self> {
        let ProbedBox {
            session,
            facts,
            link,
            cards,
            lock,
        } = probed;
        let image = Upload::image(cache, arms.image, task)?;
        let mut arm_files = BTreeMap::new();
        for (name, files) in arms.files {
            if let Some(cpus) = files.cpus.filter(|cpus| u64::from(*cpus) > facts.cpus()) {
                bail!(
                    "more CPUs than the box has ({}): arm {name}, cpus = {cpus} (lower it)",
                    facts.cpus()
                );
            }
            let files = ArmFiles {
                kernel: Upload::plain(&files.kernel)?,
                initramfs: Upload::initramfs(cache, &files.initramfs, task)?,
                cmdline: files.cmdline.clone(),
                cpus: files.cpus,
            };
            arm_files.insert(name.clone(), files);
        }
        let machine = Self {
            description: describe(plan, &facts, &link, &cards, &clients),
            plan: plan.clone(),
            base: arms.base.into(),
            session,
            program: arms.program,
            arms: arm_files,
            image,
            clients,
            away: Mutex::new(None),
            _lock: lock,
        };
        for arm in machine.arms.values() {
            machine.check_room(&facts, &machine.files(arm))?;
        }
        Ok(machine)
    }

    fn files<'f>(&'f self, arm: &'f ArmFiles) -> Files<'f> {
        Files {
            kernel: &arm.kernel,
            initramfs: &arm.initramfs,
            image: &self.image,
        }
    }

    fn check_room(&self, facts: &BoxFacts, files: &Files<'_>) -> Result<()> {
        let host = &self.plan.host;
        let need = files.memory_bytes() + SPARE_MEMORY_BYTES;
        if facts.memory_bytes() < need {
            bail!(
                "not enough memory on {host}: need {}, have {} (take a smaller image)",
                show_bytes(need),
                show_bytes(facts.memory_bytes())
            );
        }
        let need = 2 * files.initrd_bytes() + files.kernel.bytes;
        if facts.available_bytes() < need {
            bail!(
                "not enough free memory on {host} to load an arm: need {}, have {} (stop what runs there)",
                show_bytes(need),
                show_bytes(facts.available_bytes())
            );
        }
        Ok(())
    }

    /// Copies files that the box does not have yet, and checks the copies.
    fn upload(&self, facts: &BoxFacts, files: &Files<'_>, task: Task<'_>) -> Result<()> {
        let missing = self.session.run(&start::missing_script(files), task)?;
        let missing: Vec<&Upload> = files
            .all()
            .into_iter()
            .filter(|upload| missing.lines().any(|name| name == upload.sha256))
            .collect();
        let bytes: u64 = missing.iter().map(|upload| upload.bytes).sum();
        let need = bytes + files.initrd_bytes();
        if facts.cache_free_bytes() < need {
            bail!(
                "no room in {} of {}: need {}, have {} (free some there)",
                start::CACHE,
                self.plan.host,
                show_bytes(need),
                show_bytes(facts.cache_free_bytes())
            );
        }
        for upload in missing {
            self.session
                .copy(&upload.file, &start::part_path(upload), task)?;
            self.session.run(&start::keep_script(upload), task)?;
        }
        Ok(())
    }

    /// Starts the arm's kernel. The relay is running when this returns; the agent may not be up yet.
    fn boot_arm(&self, boot: &Boot<'_>, arm: &ArmFiles, task: Task<'_>) -> Result<BootedArm> {
        let facts = BoxFacts::parse(&self.session.run(facts::SCRIPT, task)?)?;
        let link = facts::choose_link(&facts, self.plan.interface.as_deref())?;
        let cards = if self.clients.are_remote() {
            cards_of(&self.plan, &facts, &link)?
        } else {
            Vec::new()
        };
        let files = self.files(arm);
        self.check_room(&facts, &files)?;
        self.upload(&facts, &files, task)?;
        let path = boot.dir.join("console.log");
        console::create(&path)?;
        let console = Netconsole::listen(&path)?;
        let cmdline = start::CommandLine {
            link: &link,
            cards: &cards,
            facts: &facts,
            port: self.plan.port,
            console_port: console.port,
            cpus: arm.cpus,
            arm: &arm.cmdline,
        };
        let secret = base::secret::fresh()?;
        let archive = start::leave_script(
            self.plan.boot,
            &files,
            &cmdline.text(),
            &payload::secret_archive(&secret)?,
        );
        let link_address = link.address.to_string();
        let address = self.plan.address.as_deref().unwrap_or(&link_address);
        let address = format!("{address}:{}", self.plan.port);
        let mut relay = Command::new(&self.program);
        relay.args(["relay", &address]);
        let limits = Limits {
            allowance_bytes: boot.allowance_bytes,
            file_bytes: None,
        };
        // Set first: whatever happens from here on, the box may be away.
        *self.away.lock().expect("nobody panics with it") = Some(Away {
            boot_id: facts.get("boot-id").into(),
            dir: boot.dir.into(),
            since: Instant::now(),
        });
        self.session
            .run(&archive, task)
            .context("cannot start the arm's kernel")?;
        let mut relay = ProcessGuest::start("the line to the box", relay, path, limits)?;
        relay.hand_over(&format!("{secret}\n"))?;
        let (clients, clients_relay) =
            self.clients
                .start(&self.program, &address, &secret, boot.allowance_bytes)?;
        let guest = BoxGuest {
            relay,
            clients_relay,
            session: self.session.clone(),
            dir: boot.dir.into(),
            boot_id: facts.get("boot-id").into(),
            heard: Instant::now(),
            preparing: Duration::ZERO,
            facts: host_facts(&self.plan, &facts, &link, &cards),
            pstore: String::new(),
            _console: console,
        };
        Ok(BootedArm {
            guest,
            clients,
            servers: clients::addresses(&cards),
        })
    }
}

impl Machine for SshBox {
    fn describe(&self) -> MachineDescription {
        self.description.clone()
    }

    fn ns_per_instruction(&self) -> Option<u32> {
        None
    }

    fn boot(&self, boot: Boot<'_>) -> Result<Box<dyn Guest>> {
        let began = Instant::now();
        let task = Task::silent(boot.stop);
        self.return_to_installed_os(task)?;
        let arm = self.arms.get(boot.arm).context("unknown arm")?;
        let BootedArm {
            mut guest,
            clients,
            servers,
        } = self.boot_arm(&boot, arm, task)?;
        guest.preparing = began.elapsed();
        Ok(match clients {
            None => Box::new(guest),
            Some(clients) => Box::new(GuestWithClients {
                guest,
                clients,
                servers,
            }),
        })
    }

    fn close(&self) -> Result<()> {
        // The box must return even if the user has asked to stop.
        let stop = AtomicBool::new(false);
        let is_away = self.away.lock().expect("nobody panics with it").is_some();
        if is_away {
            let task = Task::silent(&stop);
            self.return_to_installed_os(task)?;
        }
        Ok(())
    }
}

/// An arm whose kernel was started, and its remote clients.
struct BootedArm {
    guest: BoxGuest,
    clients: Option<ClientsOfTrial>,
    servers: Vec<Ipv4Addr>,
}

/// The cards for the load: the plan's, else the one that leads to this host.
fn cards_of(plan: &SshPlan, facts: &BoxFacts, link: &Link) -> Result<Vec<Card>> {
    if plan.interfaces.is_empty() {
        return Ok(vec![Card::of_link(link)]);
    }
    facts::choose_cards(facts, &plan.interfaces)
}

/// An arm on a box. Fields are dropped in their order: the relay first, at whose end the agent restarts the box.
struct BoxGuest {
    relay: ProcessGuest,
    /// The connection from the clients' agent.
    clients_relay: ClientsRelay,
    session: Session,
    /// The trial's directory.
    dir: PathBuf,
    /// Of the installed OS before this arm.
    boot_id: String,
    /// When the arm sent its last message, or the box was last checked.
    heard: Instant,
    /// Time until the arm's kernel was started, which is not the arm's.
    preparing: Duration,
    facts: BTreeMap<String, String>,
    /// What its kernel has left in pstore, once the box has returned.
    pstore: String,
    _console: Netconsole,
}

/// An arm that is silent for longer may have ended: a connection does not always show that.
const CHECK_AFTER: Duration = Duration::from_secs(20);

const RETURNED: &str = "the box is in its own operating system again";

impl BoxGuest {
    /// Whether another boot of the installed OS answers; an arm has no sshd.
    fn has_returned(&self) -> bool {
        let stop = AtomicBool::new(false);
        let task = Task::silent(&stop);
        let boot_id = home::boot_id(&self.session, task);
        boot_id.is_ok_and(|boot_id| boot_id != self.boot_id)
    }

    /// How the arm has ended: a panic that the network did not transmit may be in pstore.
    fn end_of_arm(&mut self) -> GuestEvent {
        let stop = AtomicBool::new(false);
        let task = Task::silent(&stop);
        self.pstore = pstore::take(&self.session, &self.dir, task);
        match pstore::panic_in(&self.pstore) {
            Some(line) => GuestEvent::Panicked(line),
            None => GuestEvent::Exited(RETURNED.into()),
        }
    }
}

impl Guest for BoxGuest {
    fn send(&mut self, message: &ToAgent) -> Result<()> {
        self.relay.send(message)?;
        if matches!(message, ToAgent::Run(_)) {
            self.clients_relay.start()?;
        }
        Ok(())
    }

    fn next(&mut self, limit: Duration) -> GuestEvent {
        let event = self.relay.next(limit);
        if event != GuestEvent::Quiet {
            self.heard = Instant::now();
        } else if self.heard.elapsed() > CHECK_AFTER {
            if self.has_returned() {
                return self.end_of_arm();
            }
            self.heard = Instant::now();
        }
        event
    }

    fn console(&self, lines: usize) -> Vec<String> {
        self.relay.console(lines)
    }

    /// Defects on the console, and those in pstore of kinds that the console does not have.
    fn defects(&mut self) -> Vec<FoundDefect> {
        let mut all = self.relay.defects();
        let is_known = |kind| all.iter().any(|found: &FoundDefect| found.kind == kind);
        let in_pstore = pstore::defects_in(&self.pstore).into_iter();
        let more: Vec<_> = in_pstore
            .filter(|defect| !is_known(defect.kind))
            .map(|defect| FoundDefect::of(DefectSource::Console, defect))
            .collect();
        all.extend(more);
        all
    }

    fn starved(&self) -> Duration {
        self.preparing
    }

    fn host_facts(&self) -> BTreeMap<String, String> {
        self.facts.clone()
    }
}

fn describe(
    plan: &SshPlan,
    facts: &BoxFacts,
    link: &Link,
    cards: &[Card],
    clients: &ClientsOfBox,
) -> MachineDescription {
    let driver = link.drivers.first();
    let card = |card: &Card| BoxCard {
        interface: card.interface.clone(),
        driver: card.driver().into(),
        address: card.address.to_string(),
    };
    let clients = clients.describe();
    MachineDescription::Ssh {
        host: plan.host.clone(),
        cpu: facts.get("cpu").into(),
        cpus: facts.cpus(),
        memory_bytes: facts.memory_bytes(),
        interface: link.interface.clone(),
        driver: driver.map_or_else(String::new, |driver| driver.name.clone()),
        boot: plan.boot.word().into(),
        cards: match clients {
            Some(_) => cards.iter().map(card).collect(),
            None => Vec::new(),
        },
        clients,
    }
}

/// Facts of the box that the arm's kernel does not report.
fn host_facts(
    plan: &SshPlan,
    facts: &BoxFacts,
    link: &Link,
    cards: &[Card],
) -> BTreeMap<String, String> {
    let drivers = link.drivers.iter().map(|driver| driver.name.as_str());
    let drivers: Vec<&str> = drivers.collect();
    let watchdog = match facts.get("watchdog-identity") {
        "" => "none",
        identity => identity,
    };
    let known = [
        ("box:kernel", facts.get("kernel")),
        // After kexec, an arm's kernel keeps the microcode of the previous kernel.
        ("box:microcode", facts.get("microcode")),
        ("box:boot", plan.boot.word()),
        ("box:interface", &link.interface),
        ("box:drivers", &drivers.join(" ")),
        ("box:watchdog", watchdog),
    ];
    let known = known.map(|(key, value)| (key.to_string(), value.to_string()));
    let cards = cards.iter().flat_map(|card| {
        let key = |name: &str| format!("box:card:{}:{name}", card.interface);
        let network = format!("{}/{}", card.address, card.prefix);
        [
            (key("address"), network),
            (key("driver"), card.driver().into()),
        ]
    });
    known.into_iter().chain(cards).collect()
}
