//! Hosts that clients run on, reached by ssh: each gets only this program, under its hash.
//!
//! ```text
//! this host: agent of the trial --ssh--> host 1: bakeoff clients --hosted ---\
//!                               --ssh--> host 2: bakeoff clients --hosted ----+--network--> the system
//! ```
//! A process on a host ends with its ssh. The program stays in the user's cache there for a month.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use base::input::text;
use base::input::units::show_bytes;
use plan::ClientHost;
use record::protocol::hosts::HostCommand;

use crate::cache;
use crate::cache::Cache;
use crate::ssh::session::{Session, quoted};
use crate::task::Task;

/// The only directory that is made on a host, for its shell.
const DIR: &str = "${XDG_CACHE_HOME:-$HOME/.cache}/bakeoff/clients";

/// Longest line of a host in an error.
const QUOTED_BYTES: usize = 200;

/// Hosts that are ready for clients.
#[derive(Debug)]
pub struct ClientHosts {
    commands: Vec<HostCommand>,
    looked: Vec<HostLooked>,
    /// Keeps other runs of this user from using them.
    _locks: Vec<File>,
}

/// A host that was probed.
#[derive(Debug)]
struct HostLooked {
    session: Session,
    /// Of its kernel.
    boot_id: String,
    /// Directory and name of the program there.
    program: (String, String),
}

/// Time for one of a box's addresses to answer.
const REACH_LIMIT: Duration = Duration::from_secs(5);

/// Fails if one of these addresses cannot be reached from this host. A refused connection has reached the kernel.
///
/// # Errors
/// The first unreachable address, and why.
pub fn reach(addresses: &[SocketAddr]) -> Result<(), String> {
    for address in addresses {
        match TcpStream::connect_timeout(address, REACH_LIMIT) {
            Ok(_) => {}
            Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(why) => return Err(format!("{}: {why}", address.ip())),
        }
    }
    Ok(())
}

impl ClientHosts {
    /// Probes the hosts of a plan in turn, and copies `program`, which is this program, to those that lack it.
    ///
    /// # Errors
    /// Says why clients cannot run on one of them.
    pub fn open(
        hosts: &[ClientHost],
        program: &Path,
        cache: &Cache,
        task: Task<'_>,
    ) -> Result<Self> {
        let own_program = OwnProgram::of(program)?;
        let (mut commands, mut locks, mut looked) = (Vec::new(), Vec::new(), Vec::new());
        for host in hosts {
            task.tell(&format!("looking at {}", host.name), None);
            locks.push(cache.lock(&format!("clients {}", host.name), task)?);
            let session = Session::new(&host.name, host.config.as_deref());
            let answers = own_program.bring(&host.name, &session, task)?;
            looked.push(HostLooked {
                session: session.clone(),
                boot_id: answers.get("boot").into(),
                program: (answers.get("directory").into(), own_program.sha256.clone()),
            });
            commands.push(HostCommand {
                host: host.name.clone(),
                words: session.words(&own_program.start())?,
            });
        }
        Ok(Self {
            commands,
            looked,
            _locks: locks,
        })
    }

    /// Fails if a host is the system with this boot id under another name.
    pub(crate) fn refuse_kernel(&self, boot_id: &str) -> Result<()> {
        for (command, host) in self.commands.iter().zip(&self.looked) {
            if host.boot_id == boot_id {
                bail!(
                    "the box as a host of its own clients: {} (name another host, or write clients = \"guest\")",
                    command.host
                );
            }
        }
        Ok(())
    }

    /// Has each host try to reach these addresses; `explain` makes the message for a host that cannot.
    pub(crate) fn check_reach(
        &self,
        addresses: &[SocketAddr],
        explain: &dyn Fn(&str, &str) -> String,
        task: Task<'_>,
    ) -> Result<()> {
        let words: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        for (command, host) in self.commands.iter().zip(&self.looked) {
            let (dir, name) = &host.program;
            let script = format!(
                "cd {} && ./{name} clients --reach {} || exit 0\n",
                quoted(dir),
                words.join(",")
            );
            let output = host.session.run(&script, task)?;
            if output.trim() != REACHED {
                bail!(explain(
                    &command.host,
                    text::clean_line(output.trim()).as_str()
                ));
            }
        }
        Ok(())
    }

    /// Commands by which the trial's agent starts the agents there.
    pub(crate) fn commands(&self) -> &[HostCommand] {
        &self.commands
    }

    /// For the machine's description.
    pub(crate) fn names(&self) -> Vec<String> {
        self.commands
            .iter()
            .map(|command| command.host.clone())
            .collect()
    }
}

/// The answer of a host that reaches all addresses.
pub const REACHED: &str = "reached";

/// This program, for upload.
struct OwnProgram {
    file: PathBuf,
    sha256: String,
    bytes: u64,
}

impl OwnProgram {
    fn of(file: &Path) -> Result<Self> {
        let about = std::fs::metadata(file);
        Ok(Self {
            bytes: about
                .with_context(|| format!("cannot read {}", file.display()))?
                .len(),
            sha256: cache::hash_file(file)?,
            file: file.into(),
        })
    }

    /// Prints properties of the host, and whether it has the program.
    fn look_script(&self) -> String {
        let name = &self.sha256;
        format!(
            "PATH=/usr/bin:/bin:$PATH; umask 077\n\
             echo \"system $(uname -s)\"; echo \"architecture $(uname -m)\"\n\
             dir=\"{DIR}\"; mkdir -p \"$dir\" && cd \"$dir\" || exit 1\n\
             echo \"directory $(pwd)\"\n\
             echo \"boot $(cat /proc/sys/kernel/random/boot_id)\"\n\
             set -- $(df -Pk . | tail -n 1); echo \"free $4\"\n\
             command -v sha256sum > /dev/null || {{ echo 'no program sha256sum there (install coreutils)' >&2; exit 1; }}\n\
             find . -type f -mtime +30 -exec rm -f {{}} +\n\
             if [ -f {name} ]; then\n\
             echo '{name}  {name}' | sha256sum -c --status && touch {name} && echo 'program there' || rm -f {name}\n\
             fi\n"
        )
    }

    /// Checks the copied program, keeps it, and starts it once.
    fn keep_script(&self, dir: &str, part: &str) -> String {
        let name = &self.sha256;
        format!(
            "cd {} && echo '{name}  {part}' | sha256sum -c --status && chmod 700 {part} && mv {part} {name} || {{\n\
             rm -f {part}; echo 'the program came there damaged (its disk?)' >&2; exit 1; }}\n",
            quoted(dir)
        )
    }

    fn try_script(&self, dir: &str) -> String {
        format!(
            "cd {} && ./{} --version > /dev/null || exit 1\n",
            quoted(dir),
            self.sha256
        )
    }

    /// The shell command that starts the agent on the host.
    fn start(&self) -> String {
        let line = format!("exec \"{DIR}/{}\" clients --hosted", self.sha256);
        format!("exec /bin/sh -c {}", quoted(&line))
    }

    fn bring(&self, host: &str, session: &Session, task: Task<'_>) -> Result<Looked> {
        let output = session.run(&self.look_script(), task)?;
        let looked = Looked::parse(&output)?;
        looked.check(host, self.bytes)?;
        let dir = looked.get("directory");
        if !looked.has_program {
            task.tell(&format!("copying bakeoff to {host}"), None);
            let part = format!("{}.{}.part", self.sha256, std::process::id());
            let path = quoted(&format!("{dir}/{part}"));
            let copied = session.copy(&self.file, &path, task);
            if let Err(why) = copied {
                // An error here has the same cause as the reported one.
                let _ = session.run(&format!("rm -f {path}\n"), task);
                return Err(why);
            }
            session.run(&self.keep_script(dir, &part), task)?;
        }
        session.run(&self.try_script(dir), task).map_err(|why| {
            anyhow!(
                "bakeoff does not start on {host}, from {dir} (a file system without programs, noexec? another C library? a \
                 static build needs none): {why}"
            )
        })?;
        Ok(looked)
    }
}

/// Properties of a host.
struct Looked {
    values: BTreeMap<String, String>,
    has_program: bool,
}

impl Looked {
    fn parse(output: &str) -> Result<Self> {
        let mut looked = Self {
            values: BTreeMap::new(),
            has_program: false,
        };
        for line in output.lines() {
            match line.split_once(' ') {
                Some(("program", _)) => looked.has_program = true,
                Some((key, value)) => {
                    looked.values.insert(key.into(), value.into());
                }
                None => {}
            }
        }
        for key in ["system", "architecture", "directory", "free"] {
            if !looked.values.contains_key(key) {
                let output = text::clean_line(text::cut(output, QUOTED_BYTES));
                bail!(
                    "a login that does not say its {key} (does its shell print a greeting?): {output:?}"
                );
            }
        }
        Ok(looked)
    }

    fn get(&self, key: &str) -> &str {
        self.values.get(key).map_or("", String::as_str)
    }

    /// Fails if the program cannot be stored on the host, or cannot run there.
    fn check(&self, host: &str, bytes: u64) -> Result<()> {
        let (system, architecture) = (self.get("system"), self.get("architecture"));
        let here = std::env::consts::ARCH;
        if (system, architecture) != ("Linux", here) {
            bail!(
                "another system than this host's (Linux {here}): {host} is {system} {architecture} (name one of the same kind: \
                 this program is copied there)"
            );
        }
        let free_bytes = self.get("free").parse::<u64>().unwrap_or(0) << 10;
        if !self.has_program && free_bytes < bytes {
            bail!(
                "no room in {} of {host}: need {}, have {} (free some there)",
                self.get("directory"),
                show_bytes(bytes),
                show_bytes(free_bytes)
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(output: &str, want: &Expect) {
        let result =
            match Looked::parse(output).and_then(|answers| answers.check("client1", 50 << 20)) {
                Ok(()) => "fits".into(),
                Err(why) => why.to_string(),
            };
        want.assert_eq(&result);
    }

    #[test]
    fn a_host_that_cannot_have_clients_is_named_with_the_reason() {
        let fits = "system Linux\narchitecture x86_64\ndirectory /home/a b\nfree 60000\n";
        check(fits, &expect!["fits"]);
        check(
            &fits.replace("x86_64", "aarch64"),
            &expect![
                "another system than this host's (Linux x86_64): client1 is Linux aarch64 (name one of the same kind: this program is copied there)"
            ],
        );
        let full = fits.replace("60000", "1024");
        check(
            &full,
            &expect![
                "no room in /home/a b of client1: need 50.0 MiB, have 1.00 MiB (free some there)"
            ],
        );
        check(&format!("{full}program there\n"), &expect!["fits"]);
        check(
            "Welcome!\n",
            &expect![[
                r#"a login that does not say its system (does its shell print a greeting?): "Welcome! ""#
            ]],
        );
    }

    #[test]
    fn the_agent_is_started_by_a_shell_that_every_login_shell_can_start() {
        let own_program = OwnProgram {
            file: "bakeoff".into(),
            sha256: "ab12".into(),
            bytes: 1,
        };
        assert_eq!(
            own_program.start(),
            "exec /bin/sh -c 'exec \"${XDG_CACHE_HOME:-$HOME/.cache}/bakeoff/clients/ab12\" clients --hosted'"
        );
    }
}
