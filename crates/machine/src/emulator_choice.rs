//! Which QEMU runs the guests.
//!
//! ```text
//! --qemu PATH, else $BAKEOFF_QEMU          what the user names is taken, whatever it is
//! else the host's own                      if it emulates rightly
//! else the one fetched into the cache      (`fetched`)
//! else the host's own, with its fault      told in one line
//! ```

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cache::Cache;
use crate::emulator;
use crate::emulator::{Launch, PROGRAM, Program};
use crate::fetched;
use crate::program;
use crate::task::Task;

/// Names the QEMU to use, where the command line names none.
pub const VARIABLE: &str = "BAKEOFF_QEMU";

/// The QEMU that a user named by option or by variable; the option wins.
pub fn named(option: Option<&Path>) -> Option<PathBuf> {
    let variable = || std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
    option
        .map(Path::to_owned)
        .or_else(|| variable().map(PathBuf::from))
}

/// Finds QEMU; the error says what to install. `named` is the user's choice, if any; without one a fetched QEMU is
/// preferred to a host's own that is missing, too old or known to err.
pub fn find(named: Option<&Path>, cache: &Cache, task: Task<'_>) -> Result<Program> {
    if let Some(path) = named {
        let path = &in_path(path);
        return emulator::open(path, Launch::of(path), task).with_context(|| {
            format!(
                "cannot use this QEMU: {} (see --qemu and {VARIABLE})",
                path.display()
            )
        });
    }
    match of_host(task) {
        Ok(program) if program.fault().is_none() => Ok(program),
        host => fetched::known(cache, task)?.map_or(host, Ok),
    }
}

/// A name without a directory is looked for where programs lie, so that one binary has one path.
fn in_path(named: &Path) -> PathBuf {
    let name = named
        .to_str()
        .filter(|_| named.parent() == Some(Path::new("")));
    name.and_then(program::find)
        .unwrap_or_else(|| named.to_owned())
}

/// The QEMU that KVM is tried with: its emulation does not matter there, so the host's own will do.
pub fn for_kvm(named: Option<&Path>, cache: &Cache, task: Task<'_>) -> Result<Program> {
    match named {
        Some(_) => find(named, cache, task),
        None => of_host(task).or_else(|host| fetched::known(cache, task)?.ok_or(host)),
    }
}

/// What is known of the QEMU that will emulate guests.
#[derive(Debug)]
pub enum Choice {
    /// It emulates rightly.
    Sound(Program),
    /// A better one than the host's own is used; what is wrong with the host's.
    Better(Program, String),
    /// It has a fault; which one, and why no better one is used.
    Faulty(Program, String),
}

impl Choice {
    /// The QEMU itself.
    pub fn program(&self) -> &Program {
        match self {
            Self::Sound(program) | Self::Better(program, _) | Self::Faulty(program, _) => program,
        }
    }

    /// What the user should know of the choice.
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

/// Chooses the QEMU that emulates guests. Where the user names none and the host's own is missing or known to err, one is
/// fetched; where that cannot be done, the host's own has to do.
pub fn for_emulation(named: Option<&Path>, cache: &Cache, task: Task<'_>) -> Result<Choice> {
    if named.is_some() {
        let program = find(named, cache, task)?;
        return Ok(match program.fault() {
            None => Choice::Sound(program),
            Some(fault) => Choice::Faulty(program, fault),
        });
    }
    let host = of_host(task);
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

/// The host's own QEMU.
pub fn of_host(task: Task<'_>) -> Result<Program> {
    match program::find(PROGRAM.0) {
        Some(path) => emulator::open(&path, Launch::Direct, task),
        None => bail!(
            "program not found: {} (install the Debian package {}, or run bakeoff qemu fetch)",
            PROGRAM.0,
            PROGRAM.1
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// A script in the place of QEMU, and what opening it says.
    fn opened(script: &str) -> Result<Program> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("qemu");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let stop = AtomicBool::new(false);
        let task = Task {
            tell: &|_| {},
            stop: &stop,
        };
        find(Some(&path), &Cache::open(dir.path()), task)
    }

    #[test]
    fn an_emulator_that_is_too_old_is_refused_with_the_least_and_the_remedy() {
        let why = opened("echo 'QEMU emulator version 5.2.0 (Debian 1:5.2+dfsg-11)'").unwrap_err();
        let why = format!("{why:#}");
        assert!(why.contains("QEMU too old: 5.2 at "), "{why}");
        assert!(
            why.contains("the least is 7.2") && why.contains("bakeoff qemu fetch"),
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
