//! What every kind of machine offers: boot an arm, talk to its agent, stop it.

use record::defect::FoundDefect;
use record::machine::MachineDescription;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use profiler::counter::Counted;
use profiler::profile::Profile;
use record::protocol::code::Code;
use record::protocol::{FromAgent, ToAgent};

/// What to boot. Nothing in it says which workload will run.
#[derive(Debug, Clone, Copy)]
pub struct Boot<'b> {
    /// Name of the arm, for messages.
    pub arm: &'b str,
    /// The block of the trial, counted from 1; 0 for what is no trial: then nothing is done to systems on the network.
    pub block: u32,
    /// The trial's directory; the console goes to `console.log` in it.
    pub dir: &'b Path,
    /// How much the guest may say to the host in all; see `record::protocol::allowance`.
    pub allowance_bytes: u64,
    /// Set when the user wants to stop: what the machine waits for then ends.
    pub stop: &'b AtomicBool,
}

/// The machine is not there any more: no trial can begin, and somebody has to look after it.
#[derive(Debug)]
pub struct Lost(pub String);

impl fmt::Display for Lost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Lost {}

/// A place where arms boot, several at a time.
pub trait Machine: Sync {
    /// How it was resolved, in words: emulator version, acceleration, clock, CPUs, memory.
    fn describe(&self) -> MachineDescription;

    /// Guest nanoseconds per executed instruction, when the clock counts instructions.
    fn ns_per_instruction(&self) -> Option<u32>;

    /// The CPU that guests see, as the emulator was asked for it; `None` where nothing is emulated.
    fn cpu_model(&self) -> Option<String> {
        None
    }

    /// Whether trials are to be profiled.
    fn is_profiled(&self) -> bool {
        false
    }

    /// The profile of a trial, from what its guest's profiler wrote (`Guest::profiled`) and where the guest has its code.
    fn profile(&self, arm: &str, _written: &[u8], _code: &Code) -> Result<Profile> {
        anyhow::bail!("no profiler on this machine: arm {arm}")
    }

    /// Leaves the machine as it was found, once no arm is to boot any more; may take as long as a box takes to boot.
    ///
    /// # Errors
    /// Says what somebody has to do who stands before it.
    fn close(&self) -> Result<()> {
        Ok(())
    }

    /// Boots one arm. The guest is stopped when it is dropped. An error that is a `Lost` ends the run.
    fn boot(&self, boot: Boot<'_>) -> Result<Box<dyn Guest>>;
}

/// A booted arm.
pub trait Guest {
    /// Says something to the agent.
    fn send(&mut self, message: &ToAgent) -> Result<()>;

    /// Waits up to `patience` for the next thing that happens.
    fn next(&mut self, patience: Duration) -> GuestEvent;

    /// The last lines of the console, oldest first.
    fn console(&self, lines: usize) -> Vec<String>;

    /// Defects that its kernel told of on its console; none where there is no console of a kernel of its own.
    fn defects(&mut self) -> Vec<FoundDefect> {
        Vec::new()
    }

    /// How long it has waited so far for a CPU of the host that others had: no silence of its own.
    fn starved(&self) -> Duration {
        Duration::ZERO
    }

    /// What its profiler has written so far; none where it has no profiler, the error says why not.
    fn profiled(&mut self) -> Result<Vec<u8>> {
        anyhow::bail!("the guest was not profiled")
    }

    /// What was counted of string instructions in its window; `None` where nothing counts them.
    ///
    /// # Errors
    /// What was written is no account of a window.
    fn counted(&mut self) -> Result<Option<Counted>> {
        Ok(None)
    }

    /// Facts of the host that the machine runs on, by their keys, as they are now; none where they are not looked at.
    fn host_facts(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// What the machine itself, not the guest, complains of; its first line.
    fn stderr_line(&mut self) -> Option<String> {
        None
    }
}

/// What a guest may do next.
#[derive(Debug, Clone, PartialEq)]
pub enum GuestEvent {
    /// The agent said something. A guest may say anything: it is to be checked (`record::protocol::session`).
    Said(Box<FromAgent>),
    /// Nothing within the time given.
    Quiet,
    /// The kernel panicked; the line that says so.
    Panicked(String),
    /// The machine ended; its status in words.
    Exited(String),
    /// The guest did what no guest may: what came on the agent's line is no message, or there was too much of it.
    Refused(String),
}
