//! Chooses the QEMU that runs the guests.
//!
//! ```text
//! --qemu PATH, else $BAKEOFF_QEMU          the user's choice, even if it has a known fault
//! else the host's                          if it has no known fault
//! else the one fetched into the cache      (`fetched`)
//! else the host's, with its fault          reported in one line
//! ```

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base::arch::Arch;

use crate::cache::Cache;
use crate::emulator;
use crate::emulator::{Launch, Program};
use crate::fetched;
use crate::program;
use crate::task::Task;

/// Environment variable with the path of QEMU, if the command line has none.
pub const VARIABLE: &str = "BAKEOFF_QEMU";

/// The QEMU that a user named by option or by variable; the option wins.
pub fn named(option: Option<&Path>) -> Option<PathBuf> {
    let variable = || std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
    option
        .map(Path::to_owned)
        .or_else(|| variable().map(PathBuf::from))
}

/// Finds QEMU; the error says what to install. `named` is the user's choice, if any. Without one, a fetched QEMU is
/// preferred to a host's that is missing, too old or has a known fault.
pub fn find(named: Option<&Path>, cache: &Cache, task: Task<'_>) -> Result<Program> {
    if let Some(path) = named {
        let path = &in_path(path);
        let opened = emulator::open(path, cache.arch(), Launch::of(path), task);
        return opened.with_context(|| {
            format!(
                "cannot use this QEMU: {} (see --qemu and {VARIABLE})",
                path.display()
            )
        });
    }
    match of_host(cache.arch(), task) {
        Ok(program) if program.fault().is_none() => Ok(program),
        host => fetched::known(cache, task)?.map_or(host, Ok),
    }
}

/// Finds a name without a directory among programs, so that a binary always has the same path.
fn in_path(named: &Path) -> PathBuf {
    let name = named
        .to_str()
        .filter(|_| named.parent() == Some(Path::new("")));
    name.and_then(program::find)
        .unwrap_or_else(|| named.to_owned())
}

/// The QEMU that KVM is tried with. Faults of emulation do not matter there.
pub fn for_kvm(named: Option<&Path>, cache: &Cache, task: Task<'_>) -> Result<Program> {
    match named {
        Some(_) => find(named, cache, task),
        None => {
            of_host(cache.arch(), task).or_else(|host| fetched::known(cache, task)?.ok_or(host))
        }
    }
}

/// The QEMU that will emulate guests, and how good it is.
#[derive(Debug)]
pub enum Choice {
    /// It has no known fault.
    Sound(Program),
    /// It replaces the host's, which has this fault.
    Better(Program, String),
    /// It has a fault; the fault, and why no better one is used.
    Faulty(Program, String),
}

impl Choice {
    /// The QEMU.
    pub fn program(&self) -> &Program {
        match self {
            Self::Sound(program) | Self::Better(program, _) | Self::Faulty(program, _) => program,
        }
    }

    /// A notice to the user on the choice.
    pub fn words(&self) -> Option<String> {
        match self {
            Self::Sound(_) => None,
            Self::Better(program, why) => Some(format!("using {}: {why}", program.version)),
            Self::Faulty(program, why) => {
                Some(format!("using {} all the same: {why}", program.version))
            }
        }
    }
}

/// Chooses the QEMU that emulates guests. If the user names none, and the host's is missing or has a known fault, one is
/// fetched; if that fails, the host's is used.
pub fn for_emulation(named: Option<&Path>, cache: &Cache, task: Task<'_>) -> Result<Choice> {
    if named.is_some() {
        let program = find(named, cache, task)?;
        return Ok(match program.fault() {
            None => Choice::Sound(program),
            Some(fault) => Choice::Faulty(program, fault),
        });
    }
    let host = of_host(cache.arch(), task);
    let fault = match &host {
        Ok(program) => program
            .fault()
            .map(|fault| format!("{}: {fault}", program.version)),
        Err(why) => Some(format!("{why:#}")),
    };
    match (host, fault) {
        (Ok(program), None) => Ok(Choice::Sound(program)),
        (host, fault) => {
            let fault = fault.unwrap_or_default();
            match fetched::fetch(cache, false, task) {
                Ok(program) => Ok(Choice::Better(program, fault)),
                Err(why) if task.is_stopped() => Err(why),
                Err(why) => host.map(|program| {
                    Choice::Faulty(program, format!("{fault}; and a better one: {why:#}"))
                }),
            }
        }
    }
}

/// The host's QEMU for guests of an architecture.
pub fn of_host(arch: Arch, task: Task<'_>) -> Result<Program> {
    let (name, package) = arch.facts().emulator();
    match program::find(name) {
        Some(path) => emulator::open(&path, arch, Launch::Direct, task),
        None => bail!(
            "program not found: {name} (install the Debian package {package}, or run bakeoff cache qemu fetch)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// The result of opening a script as QEMU.
    fn opened(script: &str) -> Result<Program> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("qemu");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let stop = AtomicBool::new(false);
        let task = Task::silent(&stop);
        find(Some(&path), &Cache::open(dir.path()), task)
    }

    #[test]
    fn an_emulator_that_is_too_old_is_refused_with_the_least_and_the_remedy() {
        let why = opened("echo 'QEMU emulator version 5.2.0 (Debian 1:5.2+dfsg-11)'").unwrap_err();
        let why = format!("{why:#}");
        assert!(why.contains("QEMU too old: 5.2 at "), "{why}");
        assert!(
            why.contains("the least is 7.2") && why.contains("bakeoff cache qemu fetch"),
            "{why}"
        );
    }

    #[test]
    fn what_is_no_emulator_is_refused() {
        let why = format!("{:#}", opened("echo true 1.0").unwrap_err());
        assert!(
            why.contains("not a QEMU") && why.contains("true 1.0"),
            "{why}"
        );
        let why = format!("{:#}", opened("echo gone >&2; exit 3").unwrap_err());
        assert!(
            why.contains("cannot use this QEMU") && why.ends_with("gone"),
            "{why}"
        );
    }
}
