//! Systems on the network as arms: nothing boots, and the agent is this program, with the clients on this host.
//!
//! ```text
//! swap command, if the systems are not at the addresses that the block needs
//! --> the arm's command --> agent (clients) --network--> the system
//! ```
//! Only one run at a time uses a system: two would load it together, and swap it against each other.

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

/// Longest time of a command in the plan.
const COMMAND_LIMIT: Duration = Duration::from_secs(1800);

/// The systems of a plan.
#[derive(Debug)]
pub struct Remote {
    program: PathBuf,
    plan: Plan,
    /// The plan's directory, in which its commands run.
    base: PathBuf,
    /// Whether the systems are swapped; `None` if unknown.
    is_swapped: Mutex<Option<bool>>,
    /// The hosts that clients run on; `None` if they run on this one.
    hosts: Option<ClientHosts>,
    /// Keeps other runs of this user from using the systems.
    _locks: SystemLocks,
}

/// Systems that are locked for a run, until this is dropped.
#[derive(Debug)]
pub struct SystemLocks {
    _files: Vec<File>,
}

impl SystemLocks {
    /// Waits until no other run of this user has one of the systems at these addresses. They are locked in
    /// a fixed order, so that no two runs wait for each other.
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
    /// `program` is this program; called as `bakeoff agent` it is the agent. Commands of the plan run in `base`.
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

    /// Runs the clients on other hosts.
    #[must_use]
    pub fn with_clients_on(self, hosts: ClientHosts) -> Self {
        Self {
            hosts: Some(hosts),
            ..self
        }
    }

    /// Swaps the systems, or swaps them back, if necessary.
    fn place(&self, wanted: bool, stop: &AtomicBool) -> Result<()> {
        let swap = &self.plan.machine.swap;
        let mut is_swapped = self.is_swapped.lock().expect("nobody panics with it");
        if swap.is_empty() || *is_swapped == Some(wanted) {
            return Ok(());
        }
        // Unknown while the command runs.
        *is_swapped = None;
        let mut command = self.command(swap);
        command.arg(if wanted { "swapped" } else { "straight" });
        run(&mut command, stop).context("swap")?;
        *is_swapped = Some(wanted);
        Ok(())
    }

    /// A command of the plan.
    fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new(place_of(&words[0], &self.base));
        command.args(&words[1..]);
        if !self.base.as_os_str().is_empty() {
            command.current_dir(&self.base);
        }
        command
    }
}

/// The place of a program of the plan: a name is found in `PATH`; a path is relative to the plan.
pub(crate) fn place_of(program: &str, base: &Path) -> PathBuf {
    let path = Path::new(program);
    if path.components().count() > 1 {
        std::path::absolute(base.join(path)).unwrap_or(path.into())
    } else {
        path.into()
    }
}

/// Fails if a program of a plan in directory `base` cannot be run.
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
            cpus: host::cpus().map_or(0, |cpus| cpus.len()),
        }
    }

    fn ns_per_instruction(&self) -> Option<u32> {
        None
    }

    fn close(&self) -> Result<()> {
        // After an interrupted command the state is unknown, and another command may do harm.
        let is_swapped = *self.is_swapped.lock().expect("nobody panics with it");
        if is_swapped != Some(true) {
            return Ok(());
        }
        // Swap the systems back even if the user has asked to stop.
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
        let steps = RefCell::new(Vec::new());
        // A run that has to wait is stopped.
        let tell = |progress: crate::task::Progress<'_>| {
            steps.borrow_mut().push(progress.what.to_string());
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
            *steps.borrow(),
            ["waiting for another bakeoff that measures 10.0.0.2:80"]
        );
        drop(held);
        stop.store(false, std::sync::atomic::Ordering::Relaxed);
        SystemLocks::take(&other, &cache, task).unwrap();
    }
}
