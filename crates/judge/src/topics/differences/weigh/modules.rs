//! Finds options whose code no trial had in memory, because they are built as modules that were not loaded.

use std::collections::{BTreeMap, BTreeSet};

use record::evidence::Facts;
use record::fact;

/// Prefixes of options that belong to another option. If that is built as a module, they are part of it.
const PARTS: [(&str, &str); 24] = [
    ("BTRFS_", "BTRFS_FS"),
    ("CIFS_", "CIFS"),
    ("DM_", "BLK_DEV_DM"),
    ("DRM_", "DRM"),
    ("EROFS_FS_", "EROFS_FS"),
    ("HID_", "HID"),
    ("INFINIBAND_", "INFINIBAND"),
    ("IP_DCCP_", "IP_DCCP"),
    ("KVM_", "KVM"),
    ("MD_", "BLK_DEV_MD"),
    ("NFSD_", "NFSD"),
    ("NFS_", "NFS_FS"),
    ("NF_CONNTRACK_", "NF_CONNTRACK"),
    ("NF_CT_PROTO_", "NF_CONNTRACK"),
    ("NF_NAT_", "NF_NAT"),
    ("NVME_TARGET_", "NVME_TARGET"),
    ("RAID6_PQ_", "RAID6_PQ"),
    ("SCTP_", "IP_SCTP"),
    ("SMB_SERVER_", "SMB_SERVER"),
    ("SQUASHFS_", "SQUASHFS"),
    ("SUNRPC_", "SUNRPC"),
    ("VFIO_", "VFIO"),
    ("XFS_", "XFS_FS"),
    ("ZRAM_", "ZRAM"),
];

/// Words in names of options and modules that do not help to match them.
const IGNORED: [&str; 12] = [
    "blk", "cong", "crypto", "dev", "fs", "hw", "iosched", "lib", "net", "random", "sata", "sch",
];

/// Shorter names do not match as a part of a longer one.
const SHORTEST_PART: usize = 4;

/// Simplified names of all modules that any trial had loaded.
pub(crate) struct Loaded(BTreeSet<String>);

impl Loaded {
    /// `None` if the modules of some trial are unknown.
    pub(crate) fn of<'f>(facts: impl Iterator<Item = &'f Facts>) -> Option<Self> {
        let mut loaded = BTreeSet::new();
        for facts in facts {
            let modules = facts.values.get(fact::MODULES)?;
            loaded.extend(modules.split_whitespace().map(simplified));
        }
        Some(Self(loaded))
    }

    /// Whether no arm had this option's code in memory. In doubt, an arm had it.
    pub(crate) fn leaves_out(&self, option: &str, arms: &BTreeMap<&str, &Facts>) -> bool {
        let name = option.strip_prefix("CONFIG_").unwrap_or(option);
        let fitting = PARTS.iter().filter(|(prefix, _)| name.starts_with(prefix));
        let longest = fitting.max_by_key(|(prefix, _)| prefix.len());
        self.is_unloaded_module(name, arms)
            || longest.is_some_and(|(_, whole)| self.is_unloaded_module(whole, arms))
    }

    fn is_unloaded_module(&self, name: &str, arms: &BTreeMap<&str, &Facts>) -> bool {
        let key = format!("CONFIG_{name}");
        let mut states = arms
            .values()
            .map(|facts| facts.kernel_config.get(&key).map_or("n", String::as_str));
        let is_module = states.clone().any(|state| state == "m");
        is_module && states.all(|state| matches!(state, "m" | "n")) && !self.may_have(name)
    }

    fn may_have(&self, name: &str) -> bool {
        let name = simplified(name);
        self.0.iter().any(|module| {
            let is_part =
                |part: &str, whole: &str| part.len() >= SHORTEST_PART && whole.contains(part);
            *module == name || is_part(module, &name) || is_part(&name, module)
        })
    }
}

/// A name without ignored words and separators: `virtio` for `hw_random_virtio` and `HW_RANDOM_VIRTIO`.
fn simplified(name: &str) -> String {
    let lower = name.to_lowercase();
    let words = lower.split(['_', '-']);
    words.filter(|word| !IGNORED.contains(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_unloaded_modules_are_left_out_unless_in_doubt() {
        let facts = |config: &[(&str, &str)]| {
            let pairs = config.iter();
            let pairs = pairs.map(|(name, value)| (format!("CONFIG_{name}"), (*value).into()));
            let mut facts = Facts {
                kernel_config: pairs.collect(),
                ..Facts::default()
            };
            let modules = "veth virtio_pci_modern_dev sch_fq xfs";
            facts.values.insert("/proc/modules".into(), modules.into());
            facts
        };
        let old = facts(&[
            ("VETH", "m"),
            ("HID", "m"),
            ("HID_ALPS", "m"),
            ("BLK_DEV_MD", "y"),
        ]);
        let new = facts(&[
            ("NET_SCH_FQ", "m"),
            ("VIRTIO_PCI_LIB", "m"),
            ("XFS_FS", "m"),
            ("SCTP_COOKIE", "y"),
            ("IP_SCTP", "m"),
            ("MD_BITMAP", "y"),
        ]);
        let loaded = Loaded::of([&old, &new].into_iter()).unwrap();
        let arms = BTreeMap::from([("6.1", &old), ("7.2", &new)]);
        let is_out = |name: &&str| loaded.leaves_out(&format!("CONFIG_{name}"), &arms);
        let out = ["HID", "HID_ALPS", "HID_ANYTHING", "SCTP_COOKIE"];
        assert!(out.iter().all(is_out));
        let loaded = ["VETH", "NET_SCH_FQ", "VIRTIO_PCI_LIB"];
        let in_doubt = ["XFS_LIVE_HOOKS", "MD_BITMAP", "PREEMPT"];
        assert!(!loaded.iter().chain(&in_doubt).any(is_out));
        assert!(Loaded::of([&Facts::default()].into_iter()).is_none());
    }
}
