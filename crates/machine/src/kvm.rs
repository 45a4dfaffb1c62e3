//! Finds out by a short boot whether KVM can be used.
//!
//! The device may exist and still not run a stock kernel: under some nested hypervisors the guest hangs
//! and QEMU reports "KVM internal error". So only a completed boot is proof.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use base::arch::Arch;
use plan::Clock;
use plan::cpu::CpuModel;
use record::protocol::FromAgent;

use crate::acceleration::Kvm;
use crate::cache;
use crate::cache::Cache;
use crate::emulator::Program;
use crate::guest::{Boot, Guest, GuestEvent, Machine};
use crate::host_state::HostState;
use record::machine::Acceleration;

use crate::qemu::{BootFiles, Hardware, Qemu};
use crate::task::Task;

/// How long a guest under working KVM may be silent: its first output comes within two seconds, on a busy host within a few.
const PATIENCE: Duration = Duration::from_secs(10);

/// The same on a host that is itself a guest: each exit of its guests costs several, and unpacking a kernel is silent.
const PATIENCE_OF_A_GUEST: Duration = Duration::from_secs(60);

/// A kernel that still writes to its console is not stuck, but the wait ends after its patience this many times.
const MOST_PATIENCE: u32 = 6;

/// Finds out whether KVM runs this kernel: boots it, unless the answer is known already.
///
/// A certain answer is saved for this host's kernel, CPU and QEMU; `refresh` boots again.
pub fn probe(
    cache: &Cache,
    program: &Program,
    files: &BootFiles,
    refresh: bool,
    task: Task<'_>,
) -> Result<Kvm> {
    if let Some(why) = obstacle(program.arch) {
        return Ok(Kvm::Absent(why));
    }
    if let (Some(known), false) = (known(cache, program), refresh) {
        return Ok(known);
    }
    task.tell("trying a boot under KVM", None);
    let outcome = try_boot(cache, program, files, Acceleration::Kvm, task)?;
    let (kvm, sure) = if let Some(kvm) = conclude(&outcome) {
        (kvm, true)
    } else {
        task.tell("trying the same boot without KVM", None);
        let control = try_boot(cache, program, files, Acceleration::Tcg, task)?;
        (blame(&outcome), matches!(control, Outcome::Spoke))
    };
    if sure {
        cache.remember(&key(program), &kvm)?;
    }
    Ok(kvm)
}

fn try_boot(
    cache: &Cache,
    program: &Program,
    files: &BootFiles,
    accel: Acceleration,
    task: Task<'_>,
) -> Result<Outcome> {
    let dir = cache.staging(1 << 20)?;
    let hardware = Hardware {
        clients: None,
        program: program.clone(),
        accel,
        cpus: 1,
        memory_bytes: 512 << 20,
        clock: Clock::Wall,
        choices: Vec::new(),
        disk: None,
        host: None,
        cpu: CpuModel::plain(match accel {
            Acceleration::Kvm => "host",
            Acceleration::Tcg => program.arch.facts().usual_cpu(),
        }),
    };
    let patience = match accel {
        Acceleration::Kvm => patience(),
        Acceleration::Tcg => PATIENCE * 6,
    };
    let machine = Qemu::new(
        hardware,
        None,
        [("probe".to_string(), files.clone())].into(),
    );
    match machine.boot(Boot {
        arm: "probe",
        block: 1,
        dir: &dir.path,
        allowance_bytes: record::protocol::allowance(patience * MOST_PATIENCE),
        stop: task.stop,
    }) {
        Ok(guest) => watch(guest, patience, task),
        Err(why) => Ok(Outcome::Ended(format!("{why:#}"))),
    }
}

/// The result of an earlier probe.
pub fn known(cache: &Cache, program: &Program) -> Option<Kvm> {
    cache.recall(&key(program))
}

/// Whether it is known without a boot that guests are emulated here.
pub fn is_known_to_emulate(cache: &Cache, program: &Program) -> bool {
    obstacle(program.arch).is_some() || matches!(known(cache, program), Some(Kvm::Broken(_)))
}

fn patience() -> Duration {
    if HostState::at(Path::new("/")).is_guest() {
        PATIENCE_OF_A_GUEST
    } else {
        PATIENCE
    }
}

/// Why KVM cannot be tried, with the remedy.
pub fn obstacle(arch: Arch) -> Option<String> {
    if arch != Arch::HOST {
        return Some(format!(
            "KVM runs only guests of this host's architecture, {}",
            Arch::HOST
        ));
    }
    obstacle_at(Path::new("/"))
}

fn obstacle_at(root: &Path) -> Option<String> {
    let device = &root.join("dev/kvm");
    if !device.exists() {
        let host = HostState::at(root);
        return Some(match (host.has_virtualization(), host.is_guest()) {
            (true, _) => "no /dev/kvm (load the module kvm_intel or kvm_amd)".into(),
            (false, true) => "no /dev/kvm: this host is itself a guest, and its CPU has neither vmx nor svm (turn nested \
                 virtualisation on in its hypervisor: kvm_intel or kvm_amd with nested=1, and a CPU model with vmx or svm)"
                .into(),
            (false, false) => "no /dev/kvm: the CPU has neither vmx nor svm (turn virtualisation on in the firmware)".into(),
        });
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

fn watch(mut guest: Box<dyn Guest>, patience: Duration, task: Task<'_>) -> Result<Outcome> {
    let began = Instant::now();
    let mut last_change = began;
    let mut last_line = Vec::new();
    while last_change.elapsed() < patience && began.elapsed() < patience * MOST_PATIENCE {
        task.go_on()?;
        let line = guest.console(1);
        if line != last_line {
            (last_line, last_change) = (line, Instant::now());
        }
        match guest.next(Duration::from_millis(200)) {
            GuestEvent::Said(message) if matches!(*message, FromAgent::Hello(_)) => {
                return Ok(Outcome::Spoke);
            }
            GuestEvent::Said(_) | GuestEvent::Quiet => {
                if let Some(error) = guest.stderr_line().filter(|line| is_kvm_error(line)) {
                    return Ok(Outcome::Ended(error));
                }
            }
            GuestEvent::Panicked(why) | GuestEvent::Exited(why) | GuestEvent::Refused(why) => {
                return Ok(Outcome::Ended(why));
            }
        }
    }
    Ok(Outcome::Silent)
}

/// The result, if a boot under KVM decides it. A kernel may also fail to boot for reasons of its
/// own, and must not spoil KVM for all others: then only a boot without KVM can tell.
fn conclude(outcome: &Outcome) -> Option<Kvm> {
    match outcome {
        Outcome::Spoke => Some(Kvm::Works),
        Outcome::Ended(why) if is_kvm_error(why) => Some(blame(outcome)),
        Outcome::Ended(_) | Outcome::Silent => None,
    }
}

fn blame(outcome: &Outcome) -> Kvm {
    let why = match outcome {
        Outcome::Spoke => return Kvm::Works,
        Outcome::Ended(why) => why.clone(),
        Outcome::Silent => format!("the guest said nothing in {} s", patience().as_secs()),
    };
    Kvm::Broken(why)
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
    fn what_kvm_itself_complains_of_settles_it() {
        let hang = Outcome::Ended("KVM internal error. Suberror: 1".into());
        let kvm = conclude(&hang).unwrap();
        assert_eq!(kvm.words(), "KVM cannot run a stock kernel here: emulating");
        assert_eq!(kvm.detail(), Some("KVM internal error. Suberror: 1"));
        assert_eq!(conclude(&Outcome::Spoke), Some(Kvm::Works));
    }

    #[test]
    fn silence_and_panics_need_a_boot_without_kvm_to_tell() {
        assert_eq!(conclude(&Outcome::Silent), None);
        let panic = Outcome::Ended("Kernel panic - not syncing: no init".into());
        assert_eq!(conclude(&panic), None);
        assert!(
            blame(&Outcome::Silent)
                .detail()
                .is_some_and(|detail| detail.contains("the guest said nothing in "))
        );
    }

    fn obstacle_of(flags: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("proc")).unwrap();
        fs::write(
            dir.path().join("proc/cpuinfo"),
            format!("flags\t: {flags}\n"),
        )
        .unwrap();
        obstacle_at(dir.path()).unwrap()
    }

    #[test]
    fn why_there_is_no_device_is_told_with_what_helps() {
        assert_eq!(
            obstacle_of("fpu svm"),
            "no /dev/kvm (load the module kvm_intel or kvm_amd)"
        );
        let why = obstacle_of("fpu hypervisor");
        assert!(
            why.contains("turn nested virtualisation on in its hypervisor"),
            "{why}"
        );
        let why = obstacle_of("fpu");
        assert!(
            why.ends_with("(turn virtualisation on in the firmware)"),
            "{why}"
        );
    }
}
