//! The program `ssh`: runs scripts on the box and copies files to it. Errors of `ssh` get names and remedies.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use crate::program;
use crate::task::Task;

/// Longest time that a script on the box may take.
const SCRIPT_LIMIT: Duration = Duration::from_secs(300);

/// Longest time that a copy may take.
const COPY_LIMIT: Duration = Duration::from_secs(1800);

/// Never asks at a terminal, and notices a box that is gone.
const OPTIONS: [&str; 4] = [
    "BatchMode=yes",
    "ConnectTimeout=20",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=4",
];

/// How the program `ssh` reaches a box.
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

    /// Runs a script for `/bin/sh` and returns its output.
    pub(crate) fn run(&self, script: &str, task: Task<'_>) -> Result<String> {
        let input = program::in_memory_with("script", script.as_bytes())?;
        self.feed("exec /bin/sh -s", input, SCRIPT_LIMIT, task)
    }

    /// Copies a file to a path on the box.
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

    /// The command that runs a program on the host, with its input and output here.
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

/// The kind of an error of `ssh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The address is unknown, or nobody answers there.
    Unreachable,
    /// The key is not the one that is known for this name.
    HostKey,
    /// The box refuses the login.
    Login,
    /// An error of the script, or an unknown one.
    Other,
}

/// Phrases of `ssh`, and the errors that they mean.
const PHRASES: [(&str, Trouble); 10] = [
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

pub(crate) fn trouble(error: &str) -> Trouble {
    let known = PHRASES.iter().find(|(phrase, _)| error.contains(phrase));
    known.map_or(Trouble::Other, |(_, trouble)| *trouble)
}

/// The error with its name and its remedy.
fn named(host: &str, error: &str) -> String {
    match trouble(error) {
        Trouble::HostKey => format!(
            "host key refused: {host} is not the box that ssh knows by this name, or not known yet (compare the key, then: ssh \
             {host}): {error}"
        ),
        Trouble::Login => format!(
            "login refused: {host} (a key without a passphrase, or an agent that has it; ssh-copy-id {host}): {error}"
        ),
        Trouble::Unreachable => {
            format!("host unreachable: {host} (is it on, and does ssh {host} work?): {error}")
        }
        Trouble::Other => format!("{host}: {error}"),
    }
}

/// A word, quoted for a script.
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
        for (error, want) in cases {
            assert_eq!(trouble(error), want, "{error}");
        }
        let error = named("root@box", cases[0].0);
        assert!(error.starts_with("host key refused: root@box "), "{error}");
    }

    #[test]
    fn a_quoted_word_is_one_word() {
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
    }
}
