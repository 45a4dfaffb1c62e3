//! The program `ssh`: a script runs on the box, a file goes to it. Its own errors get names and remedies.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use plan::SshPlan;

use crate::program;
use crate::task::Task;

/// Longest time that a script on the box may take.
const SCRIPT_LIMIT: Duration = Duration::from_secs(300);

/// Longest time that a file may take to get there.
const COPY_LIMIT: Duration = Duration::from_secs(1800);

/// Nothing is asked at a terminal, and a box that has gone is noticed.
const OPTIONS: [&str; 4] = [
    "BatchMode=yes",
    "ConnectTimeout=20",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=4",
];

/// A box, as the program `ssh` reaches it.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    host: String,
    config: Option<PathBuf>,
}

impl Session {
    pub(crate) fn new(host: &str, config: Option<&Path>) -> Self {
        Self {
            host: host.into(),
            config: config.map(Path::to_path_buf),
        }
    }

    pub(crate) fn of(plan: &SshPlan) -> Self {
        Self::new(&plan.host, plan.config.as_deref())
    }

    /// Runs a script for `/bin/sh` and returns what it printed.
    pub(crate) fn run(&self, script: &str, task: Task<'_>) -> Result<String> {
        let mut input = program::in_memory("script")?;
        input.write_all(script.as_bytes())?;
        input.rewind()?;
        self.feed("exec /bin/sh -s", input, SCRIPT_LIMIT, task)
    }

    /// Writes a file of this host's to a path of the box's.
    pub(crate) fn copy(&self, from: &Path, to: &str, task: Task<'_>) -> Result<()> {
        let file = File::open(from).with_context(|| format!("cannot read {}", from.display()))?;
        self.feed(&format!("cat > {to}"), file, COPY_LIMIT, task)
            .map(drop)
    }

    fn feed(&self, words: &str, input: File, limit: Duration, task: Task<'_>) -> Result<String> {
        let mut ssh = self.command()?;
        ssh.arg(words);
        program::run_fed(limit, &mut ssh, input, task)
            .map_err(|why| anyhow!(named(&self.host, &why.to_string())))
    }

    fn command(&self) -> Result<Command> {
        let mut ssh = program::command("ssh", "openssh-client")?;
        ssh.args(self.arguments());
        Ok(ssh)
    }

    fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        if let Some(config) = &self.config {
            arguments.extend(["-F".into(), config.into()]);
        }
        for option in OPTIONS {
            arguments.extend(["-o".into(), option.into()]);
        }
        arguments.extend(["-T".into(), self.host.clone().into()]);
        arguments
    }

    /// The words that start a program on the host with its input and output here.
    pub(crate) fn words(&self, remote: &str) -> Result<Vec<String>> {
        let ssh = program::command("ssh", "openssh-client")?;
        let mut words = vec![ssh.get_program().to_os_string()];
        words.extend(self.arguments());
        words.push(remote.into());
        let plain = |word: OsString| {
            let unreadable = |word: OsString| anyhow!("a path that is no text: {}", word.display());
            word.into_string().map_err(unreadable)
        };
        words.into_iter().map(plain).collect()
    }
}

/// What is behind an error of `ssh`, from its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Its address is not known, or nobody answers there.
    Unreachable,
    /// It is not the box that is known by this name.
    HostKey,
    /// It does not let us in.
    Login,
    /// It is of the script's, or of an unknown kind.
    Other,
}

/// Words of `ssh`, by what they mean.
const WORDS: [(&str, Trouble); 10] = [
    ("Host key verification failed", Trouble::HostKey),
    ("HOST IDENTIFICATION HAS CHANGED", Trouble::HostKey),
    ("Permission denied", Trouble::Login),
    ("Could not resolve hostname", Trouble::Unreachable),
    ("Connection refused", Trouble::Unreachable),
    ("Connection timed out", Trouble::Unreachable),
    ("No route to host", Trouble::Unreachable),
    ("Network is unreachable", Trouble::Unreachable),
    ("banner exchange", Trouble::Unreachable),
    ("Connection closed by", Trouble::Unreachable),
];

pub(crate) fn trouble(said: &str) -> Trouble {
    let found = WORDS.iter().find(|(words, _)| said.contains(words));
    found.map_or(Trouble::Other, |(_, trouble)| *trouble)
}

/// The error with its name and its remedy.
fn named(host: &str, said: &str) -> String {
    match trouble(said) {
        Trouble::HostKey => format!(
            "host key refused: {host} is not the box that ssh knows by this name, or not known yet (compare the key, then: ssh \
             {host}): {said}"
        ),
        Trouble::Login => format!(
            "login refused: {host} (a key without a passphrase, or an agent that has it; ssh-copy-id {host}): {said}"
        ),
        Trouble::Unreachable => {
            format!("host unreachable: {host} (is it on, and does ssh {host} work?): {said}")
        }
        Trouble::Other => format!("{host}: {said}"),
    }
}

/// A word of a script, quoted.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_ssh_get_a_name() {
        let cases = [
            (
                "ssh failed: Host key verification failed.",
                Trouble::HostKey,
            ),
            (
                "ssh failed: root@box: Permission denied (publickey).",
                Trouble::Login,
            ),
            (
                "ssh failed: ssh: connect to host box port 22: Connection refused",
                Trouble::Unreachable,
            ),
            ("ssh failed: sh: 3: kexec: not found", Trouble::Other),
        ];
        for (said, want) in cases {
            assert_eq!(trouble(said), want, "{said}");
        }
        let said = named("root@box", cases[0].0);
        assert!(said.starts_with("host key refused: root@box "), "{said}");
    }

    #[test]
    fn a_quoted_word_is_one_word() {
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
    }
}
