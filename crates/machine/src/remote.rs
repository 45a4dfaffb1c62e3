//! Systems on the network as arms: nothing boots, the agent is this program with the clients on this host.
//!
//! ```text
//! swap command, where the systems are not where the block wants them
//! --> the arm's own command --> agent (clients) --network--> the system
//! ```
//! One bakeoff at a time has a system: two would be each other's load, and find it exchanged by the other's swap command.

use record::machine::MachineDescription;
use std::collections::BTreeSet;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use plan::Plan;
use rustix::fs::Access;

use crate::cache::Cache;
use crate::client_hosts::ClientHosts;
use crate::console;
use crate::guest::{Boot, Guest, Machine};
use crate::host;
use crate::process_guest::{ERROR_BYTES, Limits, ProcessGuest};
use crate::program;
use crate::task::Task;

/// Longest time that a command of the plan's may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(1800);

/// The systems of a plan.
#[derive(Debug)]
pub struct Remote {
    program: PathBuf,
    plan: Plan,
    /// Where the plan lies; its commands run there.
    base: PathBuf,
    /// Whether the systems have each other's address, as far as is known.
    is_swapped: Mutex<Option<bool>>,
    /// The hosts that clients are on; `None` where they are on this one.
    hosts: Option<ClientHosts>,
    /// No other bakeoff of this user's measures them.
    _locks: SystemLocks,
}

/// Systems that one run has to itself, until this is dropped.
#[derive(Debug)]
pub struct SystemLocks {
    _files: Vec<File>,
}

impl SystemLocks {
    /// Waits until no other bakeoff of this user's has one of the systems that answer at these addresses. They are taken in
    /// one order, so that no two runs wait for each other.
    pub fn take(places: &BTreeSet<SocketAddr>, cache: &Cache, task: Task<'_>) -> Result<Self> {
        let take = |place: &SocketAddr| {
            let words = format!("waiting for another bakeoff that measures {place}");
            cache.lock_for(&format!("system {place}"), &words, task)
        };
        let files = places.iter().map(take).collect::<Result<_>>()?;
        Ok(Self { _files: files })
    }
}

impl Remote {
    /// `program` is bakeoff's own binary; called as `bakeoff agent` it is the agent. Commands of the plan begin at `base`.
    pub fn new(program: PathBuf, plan: &Plan, base: &Path, locks: SystemLocks) -> Self {
        Self {
            program,
            plan: plan.clone(),
            base: base.into(),
            is_swapped: Mutex::new(None),
            hosts: None,
            _locks: locks,
        }
    }

    /// Has the clients on other hosts.
    #[must_use]
    pub fn with_clients_on(self, hosts: ClientHosts) -> Self {
        Self {
            hosts: Some(hosts),
            ..self
        }
    }

    /// Has the systems exchanged, or put back, where they are not as they are wanted.
    fn place(&self, wanted: bool, stop: &AtomicBool) -> Result<()> {
        let swap = &self.plan.machine.swap;
        let mut is_swapped = self.is_swapped.lock().expect("nobody panics with it");
        if swap.is_empty() || *is_swapped == Some(wanted) {
            return Ok(());
        }
        // Until it is done nobody knows where they are.
        *is_swapped = None;
        let mut command = self.command(swap);
        command.arg(if wanted { "swapped" } else { "straight" });
        run(&mut command, stop).context("swap")?;
        *is_swapped = Some(wanted);
        Ok(())
    }

    /// A command of the plan's.
    fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new(place_of(&words[0], &self.base));
        command.args(&words[1..]);
        if !self.base.as_os_str().is_empty() {
            command.current_dir(&self.base);
        }
        command
    }
}

/// Where a program of the plan's is: a name is found in `PATH`; a path begins at the plan, wherever bakeoff was started.
pub(crate) fn place_of(program: &str, base: &Path) -> PathBuf {
    let path = Path::new(program);
    if path.components().count() > 1 {
        std::path::absolute(base.join(path)).unwrap_or(path.into())
    } else {
        path.into()
    }
}

/// Says what is wrong with a program of a plan that lies at `base`.
pub fn check_program(program: &str, base: &Path) -> Result<(), String> {
    let path = place_of(program, base);
    if !path.is_absolute() {
        let what = || {
            format!(
                "program not found in PATH: {program} (write ./{program} if it lies beside the plan)"
            )
        };
        return program::find(program).map(drop).ok_or_else(what);
    }
    if !path.is_file() {
        return Err(format!("no such program: {}", path.display()));
    }
    rustix::fs::access(&path, Access::EXEC_OK)
        .map_err(|_| format!("program not executable: {} (chmod +x)", path.display()))
}

fn run(command: &mut Command, stop: &AtomicBool) -> Result<()> {
    let task = Task {
        tell: &|_| {},
        stop,
    };
    program::run_within(COMMAND_LIMIT, command, task).map(drop)
}

impl Machine for Remote {
    fn describe(&self) -> MachineDescription {
        MachineDescription::Url {
            exchanged: !self.plan.machine.swap.is_empty(),
            client_hosts: self
                .hosts
                .as_ref()
                .map_or_else(Vec::new, ClientHosts::names),
            release: host::release(),
            cpus: host::cpus().map_or(0, |own| own.len()),
        }
    }

    fn ns_per_instruction(&self) -> Option<u32> {
        None
    }

    fn close(&self) -> Result<()> {
        // Where a command was interrupted nobody knows where they are, and another one may do harm.
        let is_swapped = *self.is_swapped.lock().expect("nobody panics with it");
        if is_swapped != Some(true) {
            return Ok(());
        }
        // The user may have asked to stop: the systems are to stand as they are named all the same.
        let stop = AtomicBool::new(false);
        self.place(false, &stop)
            .context("the systems are left exchanged (run the plan's swap command with: straight)")
    }

    fn boot(&self, boot: Boot<'_>) -> Result<Box<dyn Guest>> {
        let console = boot.dir.join("console.log");
        console::create(&console)?;
        let is_trial = boot.block > 0;
        if is_trial {
            self.place(self.plan.is_swapped(boot.block), boot.stop)?;
        }
        let arm = self.plan.arms.iter().find(|arm| arm.name == boot.arm);
        let target = arm.and_then(|arm| self.plan.target(arm, boot.block));
        let target = target.context("an arm without an address")?;
        if is_trial && !target.before.is_empty() {
            let mut before = self.command(&target.before);
            before.env("BAKEOFF_ARM", boot.arm);
            before.env("BAKEOFF_URL", &target.url);
            run(&mut before, boot.stop).context("before")?;
        }
        let mut agent = Command::new(&self.program);
        agent.arg("agent");
        if let Some(hosts) = &self.hosts {
            let commands = serde_json::to_string(hosts.commands());
            agent
                .arg("--hosts")
                .arg(commands.context("commands are plain data")?);
        }
        let limits = Limits {
            allowance_bytes: boot.allowance_bytes,
            file_bytes: Some(ERROR_BYTES),
        };
        Ok(Box::new(ProcessGuest::start(
            "the agent",
            agent,
            console,
            limits,
        )?))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_system_is_waited_for_by_whichever_run_shares_an_address() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path());
        let stop = AtomicBool::new(false);
        let told = RefCell::new(Vec::new());
        // Whoever has to wait is stopped.
        let tell = |progress: crate::task::Progress<'_>| {
            told.borrow_mut().push(progress.what.to_string());
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        };
        let task = Task {
            tell: &tell,
            stop: &stop,
        };
        let places = |names: &[&str]| -> BTreeSet<SocketAddr> {
            names.iter().map(|name| name.parse().unwrap()).collect()
        };
        let ours = places(&["10.0.0.2:80", "10.0.0.1:80"]);
        let held = SystemLocks::take(&ours, &cache, task).unwrap();
        // Another port is another server.
        SystemLocks::take(&places(&["10.0.0.1:81"]), &cache, task).unwrap();
        let other = places(&["10.0.0.2:80", "10.0.0.3:80"]);
        let why = SystemLocks::take(&other, &cache, task).unwrap_err();
        assert!(why.to_string().starts_with("interrupted"), "{why}");
        assert_eq!(
            *told.borrow(),
            ["waiting for another bakeoff that measures 10.0.0.2:80"]
        );
        drop(held);
        stop.store(false, std::sync::atomic::Ordering::Relaxed);
        SystemLocks::take(&other, &cache, task).unwrap();
    }
}
