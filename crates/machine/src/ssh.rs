//! Arms that boot on a box of their own, which needs sshd and kexec-tools and gets nothing but a cache directory.
//!
//! ```text
//! this host: lab -> relay ==TCP, a secret of this boot==> agent on the box
//!                <- UDP, netconsole <-------------------- the arm's kernel
//!
//! own operating system --ssh: kexec--> arm: agent, job --restart--> own operating system (new boot id) -> ...
//! ```
//! An arm always starts from the box's own operating system, never from another arm. Whatever becomes of an arm brings the box
//! home: the agent restarts it at its end and when this host is gone, a panic restarts it, its watchdog ends a hang, and the
//! plan's power command what is left.

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

use self::clients::Line;
use self::facts::{BoxFacts, Card, Link};
use self::home::Away;
use self::netconsole::Netconsole;
use self::payload::Parcel;
use self::session::Session;
use self::start::Files;

pub use self::clients::ClientsOfBox;
pub use self::doctor::examine;

/// Memory that an arm needs beside what is unpacked there.
const SPARE_MEMORY_BYTES: u64 = 256 << 20;

/// A box as a machine.
#[derive(Debug)]
pub struct SshBox {
    plan: SshPlan,
    /// Where the plan lies; its power commands run there.
    base: PathBuf,
    session: Session,
    program: PathBuf,
    arms: BTreeMap<String, ArmFiles>,
    image: Parcel,
    description: MachineDescription,
    /// Where the clients of its servers are.
    clients: ClientsOfBox,
    /// Set while the box is not in its own operating system, as far as is known.
    away: Mutex<Option<Away>>,
    /// No other bakeoff of this user's has the box.
    _lock: File,
}

#[derive(Debug)]
struct ArmFiles {
    kernel: Parcel,
    initramfs: Parcel,
    cmdline: String,
    cpus: Option<u32>,
}

/// A box that has been looked at, and can be used.
#[derive(Debug)]
pub struct Looked {
    session: Session,
    facts: BoxFacts,
    link: Link,
    /// The cards that serve clients elsewhere.
    cards: Vec<Card>,
    lock: File,
}

impl Looked {
    /// Looks at a box.
    ///
    /// # Errors
    /// Says why arms cannot boot there, with all that the box lacks.
    pub fn at(plan: &SshPlan, cache: &Cache, task: Task<'_>) -> Result<Self> {
        let lock = cache.lock(&format!("box {}", plan.host), task)?;
        let session = Session::of(plan);
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

    /// Refuses clients that the box's servers would not be reached from, before anything is loaded.
    pub fn check_clients(&self, clients: &ClientsOfBox, task: Task<'_>) -> Result<()> {
        task.tell("trying the way from the clients to the box", None);
        let facts = &self.facts;
        let box_ = (facts.get("boot-id"), &self.cards[..], facts.ssh_port());
        clients.check(box_, task)
    }

    /// Names of the modules that an arm's kernel needs on this box, beside those of its jobs.
    pub fn modules(&self) -> Vec<String> {
        let drivers = self.link.drivers.iter().cloned();
        let cards = self.cards.iter().flat_map(|card| card.drivers.clone());
        let drivers = drivers.chain(cards).chain(self.facts.watchdog());
        let mut names: Vec<String> = drivers.map(|driver| driver.name).collect();
        names.extend(["loop", "netconsole"].map(String::from));
        names
    }

    /// Refuses a kernel that would not find its way back to this host, or not to its files.
    pub fn check_kernel(&self, kernel: &Kernel) -> Result<()> {
        payload::check_kernel(kernel)?;
        let cards = self.cards.iter();
        let cards = cards.map(|card| (&card.interface, &card.drivers));
        let link = [(&self.link.interface, &self.link.drivers)];
        for (interface, drivers) in link.into_iter().chain(cards) {
            let own = drivers.first();
            let Some(driver) = own.filter(|driver| driver.is_module) else {
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

/// All that arms of a plan boot with.
pub struct Arms<'a> {
    /// By name, as for an emulated machine.
    pub files: &'a BTreeMap<String, BootFiles>,
    /// Their one user land.
    pub image: &'a Path,
    /// bakeoff's own binary.
    pub program: PathBuf,
    /// Where the plan lies.
    pub base: &'a Path,
}

impl SshBox {
    /// Makes ready what travels to the box.
    pub fn new(
        plan: &SshPlan,
        (looked, clients): (Looked, ClientsOfBox),
        arms: Arms<'_>,
        cache: &Cache,
        task: Task<'_>,
    ) -> Result<Self> {
        let Looked {
            session,
            facts,
            link,
            cards,
            lock,
        } = looked;
        let image = Parcel::image(cache, arms.image, task)?;
        let mut own = BTreeMap::new();
        for (name, files) in arms.files {
            if let Some(cpus) = files.cpus.filter(|cpus| u64::from(*cpus) > facts.cpus()) {
                bail!(
                    "more CPUs than the box has ({}): arm {name}, cpus = {cpus} (lower it)",
                    facts.cpus()
                );
            }
            let files = ArmFiles {
                kernel: Parcel::plain(&files.kernel)?,
                initramfs: Parcel::initramfs(cache, &files.initramfs, task)?,
                cmdline: files.cmdline.clone(),
                cpus: files.cpus,
            };
            own.insert(name.clone(), files);
        }
        let machine = Self {
            description: describe(plan, &facts, &link, (&cards, &clients)),
            plan: plan.clone(),
            base: arms.base.into(),
            session,
            program: arms.program,
            arms: own,
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

    /// Copies what the box does not have yet, checked after the copy.
    fn bring(&self, facts: &BoxFacts, files: &Files<'_>, task: Task<'_>) -> Result<()> {
        let missing = self.session.run(&start::missing_script(files), task)?;
        let missing: Vec<&Parcel> = files
            .all()
            .into_iter()
            .filter(|parcel| missing.lines().any(|name| name == parcel.sha256))
            .collect();
        let bytes: u64 = missing.iter().map(|parcel| parcel.bytes).sum();
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
        for parcel in missing {
            self.session
                .copy(&parcel.file, &start::part_path(parcel), task)?;
            self.session.run(&start::keep_script(parcel), task)?;
        }
        Ok(())
    }

    /// The cards that serve clients elsewhere.
    fn cards(&self, facts: &BoxFacts, link: &Link) -> Result<Vec<Card>> {
        if self.clients.are_apart() {
            cards_of(&self.plan, facts, link)
        } else {
            Ok(Vec::new())
        }
    }

    /// Starts the arm; the line to it is there when this returns, the agent is not yet.
    fn depart(&self, boot: &Boot<'_>, arm: &ArmFiles, task: Task<'_>) -> Result<Departed> {
        let said = self.session.run(facts::SCRIPT, task)?;
        let facts = BoxFacts::parse(&said)?;
        let link = facts::choose_link(&facts, self.plan.interface.as_deref())?;
        let cards = self.cards(&facts, &link)?;
        let files = self.files(arm);
        self.check_room(&facts, &files)?;
        self.bring(&facts, &files, task)?;
        let path = boot.dir.join("console.log");
        console::create(&path)?;
        let console = Netconsole::listen(&path)?;
        let cmdline = start::Line {
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
        let own = link.address.to_string();
        let address = self.plan.address.as_deref().unwrap_or(&own);
        let address = format!("{address}:{}", self.plan.port);
        let mut relay = Command::new(&self.program);
        relay.args(["relay", &address]);
        let limits = Limits {
            allowance_bytes: boot.allowance_bytes,
            file_bytes: None,
        };
        // Noted first: whatever happens from here on, the box may be away.
        *self.away.lock().expect("nobody panics with it") = Some(Away {
            boot_id: facts.get("boot-id").into(),
            dir: boot.dir.into(),
            since: Instant::now(),
        });
        self.session
            .run(&archive, task)
            .context("cannot start the arm's kernel")?;
        let mut relayed = ProcessGuest::start("the line to the box", relay, path, limits)?;
        relayed.hand_over(&format!("{secret}\n"))?;
        let end = (address.as_str(), secret.as_str());
        let (clients, second) = self
            .clients
            .start(&self.program, end, boot.allowance_bytes)?;
        let guest = BoxGuest {
            line: relayed,
            second,
            session: self.session.clone(),
            dir: boot.dir.into(),
            boot_id: facts.get("boot-id").into(),
            heard: Instant::now(),
            preparing: Duration::ZERO,
            facts: host_facts(&self.plan, &facts, &link, &cards),
            left: String::new(),
            _console: console,
        };
        Ok(Departed {
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
        let task = Task {
            tell: &|_| {},
            stop: boot.stop,
        };
        self.come_home(task)?;
        let arm = self.arms.get(boot.arm).context("unknown arm")?;
        let Departed {
            mut guest,
            clients,
            servers,
        } = self.depart(&boot, arm, task)?;
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
        // The user may have asked to stop: the box is to come home all the same.
        let stop = AtomicBool::new(false);
        let is_away = self.away.lock().expect("nobody panics with it").is_some();
        if is_away {
            let task = Task {
                tell: &|_| {},
                stop: &stop,
            };
            self.come_home(task)?;
        }
        Ok(())
    }
}

/// An arm that the box has left for, with the clients of its servers where they are elsewhere.
struct Departed {
    guest: BoxGuest,
    clients: Option<ClientsOfTrial>,
    servers: Vec<Ipv4Addr>,
}

/// The cards that serve: the plan's, else the one by which the box is reached.
fn cards_of(plan: &SshPlan, facts: &BoxFacts, link: &Link) -> Result<Vec<Card>> {
    if plan.interfaces.is_empty() {
        return Ok(vec![Card::of_link(link)]);
    }
    facts::choose_cards(facts, &plan.interfaces)
}

/// An arm on a box. Fields are dropped in their order: first the line ends, which the agent takes for the end.
struct BoxGuest {
    line: ProcessGuest,
    /// That of the clients' agent.
    second: Line,
    session: Session,
    /// The trial's.
    dir: PathBuf,
    /// Of the operating system that the box left for this arm.
    boot_id: String,
    /// When the arm said something last, or was asked for.
    heard: Instant,
    /// Time until the arm's kernel was started: the box's, not the arm's.
    preparing: Duration,
    facts: BTreeMap<String, String>,
    /// What its kernel has left in pstore, once the box was found at home.
    left: String,
    _console: Netconsole,
}

/// An arm that has said nothing for so long may be no more: a connection does not always tell.
const ASK_AFTER: Duration = Duration::from_secs(20);

const AT_HOME: &str = "the box is in its own operating system again";

impl BoxGuest {
    /// Whether another boot of the box's own operating system answers; an arm has no sshd.
    fn is_home(&self) -> bool {
        let stop = AtomicBool::new(false);
        let task = Task {
            tell: &|_| {},
            stop: &stop,
        };
        let boot_id = home::boot_id(&self.session, task);
        boot_id.is_ok_and(|boot_id| boot_id != self.boot_id)
    }

    /// A kernel whose panic did not come by the network may have left it in the firmware.
    fn end_at_home(&mut self) -> GuestEvent {
        let stop = AtomicBool::new(false);
        let task = Task {
            tell: &|_| {},
            stop: &stop,
        };
        self.left = pstore::take(&self.session, &self.dir, task);
        match pstore::panic_in(&self.left) {
            Some(line) => GuestEvent::Panicked(line),
            None => GuestEvent::Exited(AT_HOME.into()),
        }
    }
}

impl Guest for BoxGuest {
    fn send(&mut self, message: &ToAgent) -> Result<()> {
        self.line.send(message)?;
        if matches!(message, ToAgent::Run(_)) {
            self.second.dial()?;
        }
        Ok(())
    }

    fn next(&mut self, patience: Duration) -> GuestEvent {
        let event = self.line.next(patience);
        if event != GuestEvent::Quiet {
            self.heard = Instant::now();
        } else if self.heard.elapsed() > ASK_AFTER {
            if self.is_home() {
                return self.end_at_home();
            }
            self.heard = Instant::now();
        }
        event
    }

    fn console(&self, lines: usize) -> Vec<String> {
        self.line.console(lines)
    }

    /// Those of the console, and of what the kernel left where the console told none of that kind.
    fn defects(&mut self) -> Vec<FoundDefect> {
        let mut all = self.line.defects();
        let is_told = |kind| all.iter().any(|one: &FoundDefect| one.kind == kind);
        let left = pstore::defects_in(&self.left).into_iter();
        let more: Vec<_> = left
            .filter(|one| !is_told(one.kind))
            .map(|one| FoundDefect::of(DefectSource::Console, one))
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
    (cards, clients): (&[Card], &ClientsOfBox),
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

/// What is known of the box beside what the arm's kernel says.
fn host_facts(
    plan: &SshPlan,
    facts: &BoxFacts,
    link: &Link,
    cards: &[Card],
) -> BTreeMap<String, String> {
    let drivers: Vec<&str> = link.drivers.iter().map(|one| one.name.as_str()).collect();
    let watchdog = match facts.get("watchdog-identity") {
        "" => "none",
        identity => identity,
    };
    let known = [
        ("box:kernel", facts.get("kernel")),
        // An arm's kernel by kexec keeps what the one before has loaded.
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
