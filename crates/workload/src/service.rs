//! A service: a server program, how it is started, and how to know that it serves.

use std::path::PathBuf;
use std::time::Duration;

use crate::probe::Probe;

/// A server program that stays in the foreground. The agent starts it in the server's network
/// namespace and in a cgroup of its own, so that all its processes are counted.
#[derive(Debug, Clone)]
pub struct Service {
    /// Name in samples and messages: `apache2`.
    pub name: String,
    /// Program and arguments; the program is an absolute path.
    pub command: Vec<String>,
    /// Files that its log goes to besides standard output and error.
    pub logs: Vec<PathBuf>,
    /// Files of its configuration, hashed for the record.
    pub configuration: Vec<PathBuf>,
    /// How to know that it serves; asked from the clients' side.
    pub probe: Probe,
    /// Guest time until it must answer.
    pub patience: Duration,
    /// A command that prints its version, empty if there is none.
    pub version: Vec<String>,
}

/// Time that a server may take to start: slow emulators and thousands of workers included.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// An argument list from plain words.
pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}
