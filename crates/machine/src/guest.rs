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

/// An arm to boot, independent of the workload.
#[derive(Debug, Clone, Copy)]
pub struct Boot<'b> {
    /// Name of the arm, for messages.
    pub arm: &'b str,
    /// The block of the trial, counted from 1. 0 if there is no trial: then systems on the network stay unchanged.
    pub block: u32,
    /// The trial's directory; the console goes to `console.log` in it.
    pub dir: &'b Path,
    /// Most bytes that the guest may send to the host; see `record::protocol::allowance`.
    pub allowance_bytes: u64,
    /// Set when the user wants to stop: it ends all waits of the machine.
    pub stop: &'b AtomicBool,
}

/// The machine is gone: no trial can begin, and it needs manual attention.
#[derive(Debug)]
pub struct MachineGone(pub String);

impl fmt::Display for MachineGone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for MachineGone {}

/// A place where arms boot, several at a time.
pub trait Machine: Sync {
    /// Its resolved properties: emulator version, acceleration, clock, CPUs, memory.
    fn describe(&self) -> MachineDescription;

    /// Guest nanoseconds per executed instruction, when the clock counts instructions.
    fn ns_per_instruction(&self) -> Option<u32>;

    /// The CPU model that the emulator was asked for; `None` if nothing is emulated.
    fn cpu_model(&self) -> Option<String> {
        None
    }

    /// Whether trials are to be profiled.
    fn is_profiled(&self) -> bool {
        false
    }

    /// The profile of a trial, from the output of its guest's profiler (`Guest::profiled`) and the places of its code.
    fn profile(&self, arm: &str, _written: &[u8], _code: &Code) -> Result<Profile> {
        anyhow::bail!("no profiler on this machine: arm {arm}")
    }

    /// Restores the machine after the last arm; may take as long as a box takes to boot.
    ///
    /// # Errors
    /// Says what to do at the machine.
    fn close(&self) -> Result<()> {
        Ok(())
    }

    /// Boots an arm. The guest stops when dropped. An error that is a `MachineGone` ends the run.
    fn boot(&self, boot: Boot<'_>) -> Result<Box<dyn Guest>>;
}

/// A booted arm.
pub trait Guest {
    /// Sends a message to the agent.
    fn send(&mut self, message: &ToAgent) -> Result<()>;

    /// Waits up to `limit` for the next event.
    fn next(&mut self, limit: Duration) -> GuestEvent;

    /// The last lines of the console, oldest first.
    fn console(&self, lines: usize) -> Vec<String>;

    /// Defects that its kernel reported on its console; none without a console.
    fn defects(&mut self) -> Vec<FoundDefect> {
        Vec::new()
    }

    /// Time so far that it has waited for a CPU of the host, which does not count as its silence.
    fn starved(&self) -> Duration {
        Duration::ZERO
    }

    /// The output of its profiler so far. Fails without a profiler, and says why there is none.
    fn profiled(&mut self) -> Result<Vec<u8>> {
        anyhow::bail!("the guest was not profiled")
    }

    /// Counts of string instructions in its window; `None` if nothing counts them.
    ///
    /// # Errors
    /// The counter's output is invalid.
    fn counted(&mut self) -> Result<Option<Counted>> {
        Ok(None)
    }

    /// Present facts of the machine's host, by their keys; none if the machine does not collect them.
    fn host_facts(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// The first line of the machine's standard error, if any.
    fn stderr_line(&mut self) -> Option<String> {
        None
    }
}

/// An event of a guest.
#[derive(Debug, Clone, PartialEq)]
pub enum GuestEvent {
    /// The agent sent a message. A guest may send anything, so check it (`record::protocol::session`).
    Said(Box<FromAgent>),
    /// Nothing happened within the limit.
    Quiet,
    /// The kernel panicked, with this line.
    Panicked(String),
    /// The machine ended, with this status.
    Exited(String),
    /// The guest sent an invalid message, or too many bytes.
    Refused(String),
}
