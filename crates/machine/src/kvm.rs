//! Whether KVM can be used, found out by a short boot.
//!
//! The device may be there and still not run a stock kernel: under some nested hypervisors the guest hangs
//! and QEMU says "KVM internal error". So nothing but a boot that comes up counts as an answer.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use record::plan::Clock;
use record::wire::FromAgent;
use serde::{Deserialize, Serialize};

use crate::cache::{self, Cache};
use crate::guest::{Boot, Guest, Happening, Machine};
use crate::qemu::{Accel, BootFiles, Hardware, Program, Qemu};
use crate::task::Task;

/// A guest under working KVM speaks within two seconds, on a busy host within a few.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is known of KVM on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kvm {
    /// A stock kernel came up.
    Works,
    /// It cannot be used; why, in words.
    Unusable(String),
}

impl Kvm {
    /// The finding in words.
    pub fn words(&self) -> String {
        match self {
            Self::Works => "KVM works".into(),
            Self::Unusable(why) => format!("{why}; emulating"),
        }
    }
}

/// Finds out whether KVM runs this kernel, by booting it unless the answer is known already.
///
/// A sure answer is remembered for this host's kernel, CPU and QEMU; `refresh` asks again.
pub fn probe(
    cache: &Cache,
    program: &Program,
    files: &BootFiles,
    refresh: bool,
    task: Task<'_>,
) -> Result<Kvm> {
    if let Some(why) = obstacle() {
        return Ok(Kvm::Unusable(why));
    }
    if let (Some(known), false) = (known(cache, program), refresh) {
        return Ok(known);
    }
    task.tell("trying a boot under KVM", None);
    let dir = cache.draft(1 << 20)?;
    let hardware = Hardware {
        program: program.clone(),
        accel: Accel::Kvm,
        cpus: 1,
        memory_bytes: 512 << 20,
        clock: Clock::Wall,
        why: String::new(),
    };
    let machine = Qemu::new(
        hardware,
        None,
        [("probe".to_string(), files.clone())].into(),
    );
    let began = Instant::now();
    let guest = machine.boot(Boot {
        arm: "probe",
        dir: &dir.path,
    });
    let outcome = match guest {
        Ok(guest) => watch(guest, began, task)?,
        Err(why) => Outcome::Ended(format!("{why:#}")),
    };
    let (kvm, sure) = conclude(outcome);
    if sure {
        cache.remember(&key(program), &kvm)?;
    }
    Ok(kvm)
}

/// What an earlier probe found.
pub fn known(cache: &Cache, program: &Program) -> Option<Kvm> {
    cache.recall(&key(program))
}

/// Why KVM cannot even be tried.
pub(crate) fn obstacle() -> Option<String> {
    let device = Path::new("/dev/kvm");
    if !device.exists() {
        return Some(
            "no /dev/kvm (load the module kvm_intel or kvm_amd, or allow nested virtualisation)"
                .into(),
        );
    }
    match File::options().read(true).write(true).open(device) {
        Ok(_) => None,
        Err(why) => Some(format!(
            "/dev/kvm cannot be opened: {why} (add yourself to the group kvm)"
        )),
    }
}

enum Outcome {
    Spoke,
    Ended(String),
    Silent,
}

fn watch(mut guest: Box<dyn Guest>, began: Instant, task: Task<'_>) -> Result<Outcome> {
    while began.elapsed() < PATIENCE {
        task.go_on()?;
        match guest.next(Duration::from_millis(200)) {
            Happening::Said(message) if matches!(*message, FromAgent::Hello(_)) => {
                return Ok(Outcome::Spoke);
            }
            Happening::Said(_) | Happening::Quiet => {
                if let Some(error) = guest.complaint().filter(|line| is_kvm_error(line)) {
                    return Ok(Outcome::Ended(error));
                }
            }
            Happening::Panicked(why) | Happening::Exited(why) | Happening::Garbled(why) => {
                return Ok(Outcome::Ended(why));
            }
        }
    }
    Ok(Outcome::Silent)
}

/// The finding, and whether it is sure enough to be remembered: a kernel that does not come up for
/// reasons of its own must not spoil KVM for all others.
fn conclude(outcome: Outcome) -> (Kvm, bool) {
    match outcome {
        Outcome::Spoke => (Kvm::Works, true),
        Outcome::Ended(why) if is_kvm_error(&why) => (
            Kvm::Unusable(format!("KVM present but cannot run a stock kernel: {why}")),
            true,
        ),
        Outcome::Ended(why) => (
            Kvm::Unusable(format!("KVM present but a trial boot failed: {why}")),
            false,
        ),
        Outcome::Silent => {
            let time = PATIENCE.as_secs();
            let why = format!("KVM present but a trial boot was silent for {time} s");
            (Kvm::Unusable(why), false)
        }
    }
}

fn is_kvm_error(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    line.contains("kvm") && (line.contains("error") || line.contains("fail"))
}

fn key(program: &Program) -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu
        .lines()
        .find(|line| line.starts_with("model name"))
        .unwrap_or_default();
    let host = read("/proc/sys/kernel/osrelease");
    let id = cache::hash(format!("{host}\n{model}\n{}", program.version).as_bytes());
    format!("kvm-{}", &id[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sure_findings_are_remembered() {
        let hang = Outcome::Ended("KVM internal error. Suberror: 1".into());
        let (kvm, sure) = conclude(hang);
        assert!(sure);
        assert_eq!(
            kvm.words(),
            "KVM present but cannot run a stock kernel: KVM internal error. Suberror: 1; emulating"
        );
        let (_, sure) = conclude(Outcome::Ended("Kernel panic - not syncing: no init".into()));
        assert!(!sure);
        assert_eq!(conclude(Outcome::Spoke), (Kvm::Works, true));
        assert!(!conclude(Outcome::Silent).1);
    }
}
