//! Services: server programs, and how to start and probe them.

use std::collections::BTreeMap;
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
    /// How its output shows that it has not started, although it goes on.
    pub start_failure: Option<StartFailure>,
    /// Present if it runs in Java.
    pub java: Option<JavaService>,
}

/// What is known of a service in Java.
#[derive(Debug, Clone)]
pub struct JavaService {
    /// Java's log of collections and safepoints, which is one of the service's logs.
    pub log: PathBuf,
    /// Name and version of the server, where no command is needed to learn them.
    pub release: Option<String>,
    /// Settings by name, for the record.
    pub settings: BTreeMap<&'static str, String>,
}

/// Lines of output of a server that goes on after a failed start.
#[derive(Debug, Clone, Copy)]
pub struct StartFailure {
    /// Words of which each means that the start has failed.
    pub marks: &'static [&'static str],
    /// Words of the lines that explain it.
    pub shown: &'static [&'static str],
}

/// Lines of a failed start that a message shows.
const FAILURE_LINES: usize = 12;

impl StartFailure {
    /// The server's lines about its failed start, if its output has any.
    pub fn find(&self, output: &str) -> Option<String> {
        let has = |line: &str, words: &[&str]| words.iter().any(|word| line.contains(word));
        output.lines().find(|line| has(line, self.marks))?;
        let is_shown = |line: &&str| {
            has(line, self.marks) || has(line, self.shown) && !line.starts_with("INFO: ")
        };
        let lines = output.lines().filter(is_shown).take(FAILURE_LINES);
        Some(lines.map(str::trim).collect::<Vec<_>>().join("\n  "))
    }
}

/// Time limit of a server's start, even with thousands of workers on a slow emulator.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// An owned argument list.
pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_failed_start_is_told_in_the_servers_words() {
        let failure = StartFailure {
            marks: &["WFLYSRV0026"],
            shown: &["ERROR"],
        };
        let started = "15:00:00 INFO starting\n15:00:01 ERROR [a] WFLYCTL0013: Operation failed\n";
        assert_eq!(failure.find(started), None, "it may still start");
        let failed = format!("{started}  15:00:02 WFLYSRV0026: started (with errors)\n");
        expect![[r"
            15:00:01 ERROR [a] WFLYCTL0013: Operation failed
              15:00:02 WFLYSRV0026: started (with errors)"]]
        .assert_eq(&failure.find(&failed).unwrap());
    }
}
