//! Knobs: settings that turn a part of a mechanism off, or make it equal in all kernels, with the kernels that have them.
//!
//! The guest reports a knob that its kernel lacks after all: an unknown parameter, a missing sysctl or file
//! (`agent/src/boot/parameters.rs`, `sysctl.rs`, `debugfs.rs`).

use std::collections::BTreeSet;

use plan::kernel_setting::KernelSetting;
use record::verdict::mechanism::Mechanism;

/// One knob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knob {
    /// The mechanism that it affects.
    pub mechanism: Mechanism,
    to: To,
    /// The first kernel that has it.
    since: Version,
    /// The first kernel that no longer has it.
    until: Option<Version>,
}

/// Version and patch level: 6 and 12 of 6.12.3.
type Version = (u32, u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    Cmdline(&'static str),
    Sysctl(&'static str, &'static str),
    Debugfs(&'static str, &'static str),
}

impl Knob {
    /// The setting of an arm.
    pub fn setting(&self) -> KernelSetting {
        match self.to {
            To::Cmdline(words) => KernelSetting::Cmdline(words.into()),
            To::Sysctl(name, value) => KernelSetting::Sysctl(name.into(), value.into()),
            To::Debugfs(file, value) => KernelSetting::Debugfs(file.into(), value.into()),
        }
    }

    /// Whether a kernel of this release has it; true for a release without a version number.
    pub fn is_in(&self, release: &str) -> bool {
        version(release).is_none_or(|version| {
            self.since <= version && self.until.is_none_or(|until| version < until)
        })
    }
}

/// The first two numbers of a release: `6.1.0-50-cloud-amd64`.
fn version(release: &str) -> Option<Version> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

/// The mechanisms that have knobs.
pub fn mechanisms() -> BTreeSet<Mechanism> {
    KNOBS.iter().map(|knob| knob.mechanism).collect()
}

/// The knob with this setting.
pub fn find(setting: &KernelSetting) -> Option<&'static Knob> {
    KNOBS.iter().find(|knob| knob.setting() == *setting)
}

/// The knobs of a mechanism, the most relevant first.
pub fn of(mechanism: Mechanism) -> impl Iterator<Item = &'static Knob> {
    KNOBS.iter().filter(move |knob| knob.mechanism == mechanism)
}

const fn knob(mechanism: Mechanism, to: To, since: Version) -> Knob {
    Knob {
        mechanism,
        to,
        since,
        until: None,
    }
}

const fn until(knob: Knob, version: Version) -> Knob {
    Knob {
        until: Some(version),
        ..knob
    }
}

/// From the kernel's documentation (admin-guide/kernel-parameters.txt, admin-guide/sysctl) and kernel/sched/features.h of each release.
const KNOBS: [Knob; 25] = {
    use Mechanism as M;
    use To::{Cmdline, Debugfs, Sysctl};
    const FEATURES: &str = "sched/features";
    [
        knob(M::Zeroing, Cmdline("init_on_alloc=0"), (5, 3)),
        knob(M::Scheduler, Cmdline("psi=0"), (4, 20)),
        // With it sessions, such as clients and servers, share the CPU equally; without it tasks do.
        knob(
            M::Scheduler,
            Sysctl("kernel.sched_autogroup_enabled", "0"),
            (2, 6),
        ),
        // The only preemption model that all kernels with a choice have.
        knob(M::Scheduler, Cmdline("preempt=full"), (5, 12)),
        knob(M::Scheduler, Debugfs(FEATURES, "NO_RUN_TO_PARITY"), (6, 6)),
        knob(M::Scheduler, Debugfs(FEATURES, "NO_DELAY_DEQUEUE"), (6, 12)),
        knob(M::Scheduler, Debugfs(FEATURES, "NO_PLACE_LAG"), (6, 6)),
        // A slice of 0.1 ms instead of at least 0.7 ms.
        knob(
            M::Scheduler,
            Debugfs("sched/base_slice_ns", "100000"),
            (6, 6),
        ),
        until(
            knob(
                M::Scheduler,
                Debugfs(FEATURES, "NO_GENTLE_FAIR_SLEEPERS"),
                (2, 6),
            ),
            (6, 6),
        ),
        knob(M::Copying, Cmdline("hardened_usercopy=off"), (4, 19)),
        knob(M::Allocation, Cmdline("cgroup.memory=nokmem"), (4, 5)),
        knob(M::Allocation, Cmdline("slab_nomerge"), (3, 18)),
        knob(M::Cgroups, Cmdline("cgroup.memory=nokmem"), (4, 5)),
        knob(M::Cgroups, Cmdline("cgroup_disable=memory"), (2, 6)),
        knob(M::Paging, Cmdline("transparent_hugepage=never"), (2, 6)),
        knob(M::Paging, Cmdline("damon_stat.enabled=N"), (6, 17)),
        knob(M::Mitigations, Cmdline("mitigations=off"), (5, 2)),
        knob(
            M::EntryExit,
            Cmdline("randomize_kstack_offset=off"),
            (5, 13),
        ),
        knob(M::EntryExit, Cmdline("mitigations=off"), (5, 2)),
        knob(M::Security, Cmdline("apparmor=0"), (2, 6)),
        knob(M::Security, Cmdline("audit=0"), (2, 6)),
        knob(M::TcpIp, Sysctl("net.ipv4.tcp_timestamps", "0"), (2, 6)),
        knob(M::TcpIp, Sysctl("net.ipv4.tcp_sack", "0"), (2, 6)),
        knob(M::Timers, Cmdline("psi=0"), (4, 20)),
        knob(M::Timers, Cmdline("nohz=off"), (2, 6)),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_belong_to_kernels_that_have_them() {
        let features = |release: &str| {
            let knobs = of(Mechanism::Scheduler).filter(|knob| knob.is_in(release));
            let texts = knobs.map(|knob| knob.setting().text());
            texts.filter(|text| text.starts_with("sched")).count()
        };
        assert_eq!(features("6.1.0-50-cloud-amd64"), 1);
        assert_eq!(features("6.6"), 3);
        assert_eq!(features("7.2.12+deb13-cloud-amd64"), 4);
        assert_eq!(features("mine"), 5);
    }

    #[test]
    fn settings_can_be_typed() {
        for knob in &KNOBS {
            let setting = knob.setting();
            let word = match &setting {
                KernelSetting::Cmdline(_) => "cmdline",
                KernelSetting::Sysctl(..) => "sysctl",
                KernelSetting::Debugfs(..) => "debugfs",
            };
            let typed = format!("{word}:{}", setting.text());
            assert_eq!(KernelSetting::read(&typed), Ok(setting), "{typed}");
        }
    }
}
