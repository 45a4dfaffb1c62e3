//! Services: server programs, and how to start and probe them.

use std::path::PathBuf;
use std::time::Duration;

use crate::probe::Probe;

/// A server program that stays in the foreground. The agent starts it in the server's network
/// namespace and in a separate cgroup, which measures all its processes.
#[derive(Debug, Clone)]
pub struct Service {
    /// Name in samples and messages: `apache2`.
    pub name: String,
    /// Program and arguments; the program is an absolute path.
    pub command: Vec<String>,
    /// Log files besides standard output and error.
    pub logs: Vec<PathBuf>,
    /// Configuration files, which are hashed for the record.
    pub configuration: Vec<PathBuf>,
    /// Checks whether it serves; run on the clients' side.
    pub probe: Probe,
    /// Time limit to start, in guest time.
    pub patience: Duration,
    /// Command that prints the version; empty if there is none.
    pub version: Vec<String>,
}

/// Time limit of a server's start, even with thousands of workers on a slow emulator.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// An owned argument list.
pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}
