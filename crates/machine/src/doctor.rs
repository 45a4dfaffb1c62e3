//! What this host has and lacks, each lack with its remedy.

use std::fs;
use std::path::Path;
use std::process::Command;

use record::units::show_bytes;
use rustix::process::geteuid;

use crate::apt::KEYRING;
use crate::cache::{self, Cache};
use crate::emulator;
use crate::host;
use crate::kvm::{self, Kvm};
use crate::program;
use crate::task::Task;

/// Disk that a first run of two kernels and one image takes, drafts included.
const WANTED_DISK_BYTES: u64 = 3 << 30;

/// Memory that a guest of 1 GiB and its host need.
const WANTED_MEMORY_BYTES: u64 = 2 << 30;

/// One thing looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub what: String,
    /// What was found: a version, a size, a reason.
    pub found: String,
    /// How it stands.
    pub state: State,
}

/// How a finding stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// As it should be.
    Good,
    /// bakeoff works, but less well; what would help.
    Weak(String),
    /// bakeoff cannot run without it; what to do.
    Missing(String),
}

/// A program that bakeoff calls, and the Debian package that brings it.
struct Tool {
    program: &'static str,
    package: &'static str,
    /// Argument that makes it say its version.
    version: &'static str,
}

const TOOLS: [Tool; 6] = [
    Tool {
        program: emulator::PROGRAM.0,
        package: emulator::PROGRAM.1,
        version: "--version",
    },
    Tool {
        program: "mmdebstrap",
        package: "mmdebstrap",
        version: "--version",
    },
    Tool {
        program: "mke2fs",
        package: "e2fsprogs",
        version: "-V",
    },
    Tool {
        program: "dpkg-deb",
        package: "dpkg",
        version: "--version",
    },
    Tool {
        program: "apt-get",
        package: "apt",
        version: "--version",
    },
    Tool {
        program: "unshare",
        package: "util-linux",
        version: "--version",
    },
];

/// Debian packages that bakeoff needs on the host, `uidmap` only for ordinary users.
pub fn packages() -> Vec<&'static str> {
    let mut packages: Vec<_> = TOOLS.iter().map(|tool| tool.package).collect();
    packages.extend(["debian-archive-keyring", "uidmap"]);
    packages
}

/// Looks at everything. Nothing is changed and nothing is booted: KVM is told as an earlier run found it.
pub fn examine(cache: &Cache, named: Option<&Path>, task: Task<'_>) -> Vec<Finding> {
    let mut findings: Vec<_> = TOOLS.iter().map(tool).collect();
    findings.push(keyring());
    if !geteuid().is_root() {
        findings.push(subordinate_ids());
    }
    findings.push(kvm(cache, named, task));
    findings.push(disk(cache));
    findings.push(memory());
    findings.push(stock(cache));
    findings
}

fn tool(tool: &Tool) -> Finding {
    let Some(path) = program::find(tool.program) else {
        let remedy = format!("apt-get install {}", tool.package);
        return finding(tool.program, "not found", State::Missing(remedy));
    };
    // Some tell their version on standard output, some on standard error.
    let said = Command::new(&path).arg(tool.version).output();
    match said {
        Ok(said) => {
            let text = [said.stdout, said.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            finding(
                tool.program,
                text.lines().next().unwrap_or("no version told"),
                State::Good,
            )
        }
        Err(why) => {
            let remedy = format!("apt-get install --reinstall {}", tool.package);
            finding(
                tool.program,
                &format!("does not start: {why}"),
                State::Missing(remedy),
            )
        }
    }
}

fn keyring() -> Finding {
    if Path::new(KEYRING).exists() {
        return finding("Debian's archive keys", KEYRING, State::Good);
    }
    let remedy = "apt-get install debian-archive-keyring".into();
    finding("Debian's archive keys", "not found", State::Missing(remedy))
}

/// Without root, an image is built in a user namespace that needs a range of ids.
fn subordinate_ids() -> Finding {
    let what = "ids for building images without root";
    if program::find("newuidmap").is_none() {
        let remedy = "apt-get install uidmap".into();
        return finding(what, "newuidmap not found", State::Missing(remedy));
    }
    let trial = program::enclosed("true".as_ref()).map(|mut command| command.output());
    match trial {
        Ok(Ok(said)) if said.status.success() => finding(what, "work", State::Good),
        Ok(Ok(said)) => {
            let remedy = "give yourself a line in /etc/subuid and /etc/subgid, or run as root";
            let why = program::last_words(&String::from_utf8_lossy(&said.stderr), said.status);
            finding(what, &why, State::Missing(remedy.into()))
        }
        Ok(Err(why)) => finding(what, &why.to_string(), State::Missing("run as root".into())),
        Err(why) => finding(what, &why.to_string(), State::Missing("run as root".into())),
    }
}

fn kvm(cache: &Cache, named: Option<&Path>, task: Task<'_>) -> Finding {
    let weak = "guests are emulated: figures count instructions, not time".to_string();
    if let Some(why) = kvm::obstacle() {
        return finding("KVM", &why, State::Weak(weak));
    }
    let known = emulator::find(named, task)
        .ok()
        .and_then(|program| kvm::known(cache, &program));
    match known {
        Some(Kvm::Works) => finding("KVM", "works", State::Good),
        Some(Kvm::Unusable(why)) => finding("KVM", &why, State::Weak(weak)),
        None => {
            let remedy = "the first run tries a short boot".into();
            finding(
                "KVM",
                "/dev/kvm is there, not yet tried",
                State::Weak(remedy),
            )
        }
    }
}

fn disk(cache: &Cache) -> Finding {
    let place = format!("disk at {}", cache.root().display());
    match cache::free_bytes(cache.root()) {
        Ok(free) => {
            let state = if free >= WANTED_DISK_BYTES {
                State::Good
            } else {
                let want = show_bytes(WANTED_DISK_BYTES);
                State::Weak(format!(
                    "a first run takes about {want}: free some, or set XDG_CACHE_HOME"
                ))
            };
            finding(&place, &format!("{} free", show_bytes(free)), state)
        }
        Err(why) => finding(
            &place,
            &format!("{why:#}"),
            State::Missing("check the disk".into()),
        ),
    }
}

fn memory() -> Finding {
    let available = host::available_bytes();
    let state = if available >= WANTED_MEMORY_BYTES {
        State::Good
    } else {
        State::Weak("lower memory in [machine], or end other programs".into())
    };
    finding(
        "memory",
        &format!("{} available", show_bytes(available)),
        state,
    )
}

fn stock(cache: &Cache) -> Finding {
    let count = |kind| fs::read_dir(cache.root().join(kind)).map_or(0, Iterator::count);
    let found = format!(
        "{} kernels, {} images, {}",
        count("kernels"),
        count("images"),
        show_bytes(cache.size_bytes())
    );
    match cache.draft(0) {
        Ok(_) => finding("cache", &found, State::Good),
        Err(why) => finding("cache", &found, State::Missing(format!("{why:#}"))),
    }
}

fn finding(what: &str, found: &str, state: State) -> Finding {
    Finding {
        what: what.into(),
        found: found.into(),
        state,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_missing_tool_is_told_with_its_package() {
        let missing = Tool {
            program: "no-such",
            package: "such",
            version: "-V",
        };
        let want = State::Missing("apt-get install such".into());
        assert_eq!(tool(&missing), finding("no-such", "not found", want));
    }

    #[test]
    fn a_cache_that_cannot_be_made_is_a_finding() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let stop = AtomicBool::new(false);
        let task = Task {
            tell: &|_| {},
            stop: &stop,
        };
        let findings = examine(&Cache::open(&file), None, task);
        let cache = findings
            .iter()
            .find(|finding| finding.what == "cache")
            .unwrap();
        assert!(matches!(&cache.state, State::Missing(why) if why.contains("cannot write")));
    }
}
