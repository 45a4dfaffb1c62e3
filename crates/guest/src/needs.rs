//! Which kernel modules a guest loads. The host puts these into its initramfs, and no others.

use std::collections::BTreeMap;

use plan::{Clients, PlannedDisturbance, Tuning};
use workload::Workload;

/// Modules without which the host cannot be reached.
pub(crate) const LINE_MODULES: &[&str] = &["virtio_pci", "virtio_mmio", "virtio_console"];

/// Modules for the image and the wire. ext4 asks for its checksum by an alias that nobody resolves here,
/// so the modules that give it are named; which of them exist depends on the kernel.
pub(crate) const GROUND_MODULES: &[&str] = &[
    "virtio_blk",
    "virtio_rng",
    "crc32c_generic",
    "crc32c_intel",
    "crc32c_cryptoapi",
    "ext4",
    "overlay",
    "veth",
];

/// Modules of the network card by which clients outside the guest reach it.
pub(crate) const CARD_MODULES: &[&str] = &["virtio_net"];

/// Modules that serve a disk with seeks.
pub const DISK_MODULES: &[&str] = &["ublk_drv"];

/// All that a guest may load for an arm that runs a workload, by name; `clients` is where they are, if that is known. A kernel has some of them built in, and lacks others.
pub fn modules(
    sysctl: &BTreeMap<String, String>,
    tuning: &Tuning,
    workload: &dyn Workload,
    disturbances: &[PlannedDisturbance],
    clients: Option<Clients>,
) -> Vec<String> {
    let card = match clients {
        Some(Clients::Guest | Clients::Hosts) => &[],
        // Whether it will have one is not yet known.
        Some(Clients::Host | Clients::Guest2) | None => CARD_MODULES,
    };
    let fixed = [LINE_MODULES, GROUND_MODULES, card, &workload.modules()].concat();
    let mut names: Vec<String> = fixed.into_iter().map(String::from).collect();
    names.extend(of_sysctls(sysctl));
    names.extend(of_disturbances(disturbances).map(String::from));
    names.extend(of_scheduler(&tuning.io_scheduler));
    names.push(tuning.file_system.unwrap_or_default().word().into());
    names
}

/// A sysctl may name a module that the kernel would ask modprobe for.
pub(crate) fn of_sysctls(sysctl: &BTreeMap<String, String>) -> impl Iterator<Item = String> {
    sysctl
        .iter()
        .filter_map(|(name, value)| match name.as_str() {
            "net.ipv4.tcp_congestion_control" => Some(format!("tcp_{value}")),
            "net.core.default_qdisc" => Some(format!("sch_{value}")),
            _ => None,
        })
}

/// The network emulator, where something is asked of it.
pub(crate) fn of_disturbances(
    disturbances: &[PlannedDisturbance],
) -> impl Iterator<Item = &'static str> {
    let is_asked = disturbances.iter().any(|one| one.kind.is_netem());
    is_asked.then_some("sch_netem").into_iter()
}

/// The file of one I/O scheduler is named after it and what it is.
pub(crate) fn of_scheduler(name: &str) -> Vec<String> {
    match name {
        "" => Vec::new(),
        name => vec![name.into(), format!("{name}-iosched")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_arm_names_needs_modules() {
        let sysctl = [
            ("net.ipv4.tcp_congestion_control", "bbr"),
            ("net.core.somaxconn", "4096"),
        ];
        let sysctl = sysctl.map(|(name, value)| (name.to_string(), value.to_string()));
        assert_eq!(of_sysctls(&sysctl.into()).collect::<Vec<_>>(), ["tcp_bbr"]);
        assert_eq!(of_scheduler("kyber"), ["kyber", "kyber-iosched"]);
        assert!(of_scheduler("").is_empty());
    }
}
