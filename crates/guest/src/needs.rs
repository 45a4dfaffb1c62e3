//! The kernel modules that a guest loads. The host puts only these into its initramfs.

use std::collections::BTreeMap;

use plan::{Clients, PlannedDisturbance, Tuning};
use workload::Workload;

/// Modules needed to reach the host.
pub(crate) const CHANNEL_MODULES: &[&str] = &["virtio_pci", "virtio_mmio", "virtio_console"];

/// Modules for the image and the virtual network. ext4 requests its checksum by an alias, which needs modprobe
/// to resolve, so the modules behind it are listed here; which of them exist depends on the kernel.
pub(crate) const BASE_MODULES: &[&str] = &[
    "virtio_blk",
    "virtio_rng",
    "crc32c_generic",
    "crc32c_intel",
    "crc32c_cryptoapi",
    "ext4",
    "overlay",
    "veth",
];

/// Modules of the network card through which clients outside the guest reach it.
pub(crate) const CARD_MODULES: &[&str] = &["virtio_net"];

/// Modules that a simulated drive needs.
pub const DISK_MODULES: &[&str] = &["ublk_drv"];

/// Names of all modules that a guest may load for an arm that runs a workload. `clients` says where the clients
/// run, if that is known. A kernel has some of the modules built in, and lacks others.
pub fn modules(
    sysctl: &BTreeMap<String, String>,
    tuning: &Tuning,
    workload: &dyn Workload,
    disturbances: &[PlannedDisturbance],
    clients: Option<Clients>,
) -> Vec<String> {
    let card = match clients {
        Some(Clients::Guest | Clients::Hosts) => &[],
        // `None`: the guest may get one.
        Some(Clients::Host | Clients::Guest2) | None => CARD_MODULES,
    };
    let fixed = [CHANNEL_MODULES, BASE_MODULES, card, &workload.modules()].concat();
    let mut names: Vec<String> = fixed.into_iter().map(String::from).collect();
    names.extend(modules_of_settings(
        sysctl,
        &tuning.io_scheduler,
        disturbances,
    ));
    names.push(tuning.file_system.unwrap_or_default().word().into());
    names
}

/// Modules for disturbances, and for an arm's sysctls and I/O scheduler, if they are not built in. A guest has no modprobe.
pub(crate) fn modules_of_settings(
    sysctl: &BTreeMap<String, String>,
    io_scheduler: &str,
    disturbances: &[PlannedDisturbance],
) -> Vec<String> {
    let mut names = Vec::new();
    if disturbances.iter().any(|planned| planned.kind.is_netem()) {
        names.push("sch_netem".into());
    }
    for (name, value) in sysctl {
        match name.as_str() {
            "net.ipv4.tcp_congestion_control" => names.push(format!("tcp_{value}")),
            "net.core.default_qdisc" => names.push(format!("sch_{value}")),
            _ => {}
        }
    }
    if !io_scheduler.is_empty() {
        // Some modules of I/O schedulers have the suffix, others do not.
        names.extend([io_scheduler.into(), format!("{io_scheduler}-iosched")]);
    }
    names
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
        assert_eq!(modules_of_settings(&sysctl.into(), "", &[]), ["tcp_bbr"]);
        let scheduler = modules_of_settings(&BTreeMap::new(), "kyber", &[]);
        assert_eq!(scheduler, ["kyber", "kyber-iosched"]);
        assert!(modules_of_settings(&BTreeMap::new(), "", &[]).is_empty());
    }
}
