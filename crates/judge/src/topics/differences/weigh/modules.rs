//! Options whose code no trial had in memory: built as modules that were not loaded.

use std::collections::{BTreeMap, BTreeSet};

use record::evidence::Facts;
use record::fact;

/// Beginnings of options that are part of another one, a module where that is one.
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

/// Words of options and modules that say nothing of which they are.
const EMPTY: [&str; 12] = [
    "blk", "cong", "crypto", "dev", "fs", "hw", "iosched", "lib", "net", "random", "sata", "sch",
];

/// Shortest name that may be a part of another one's.
const SHORTEST_PART: usize = 4;

/// The modules that any trial had loaded, by what is left of their names.
pub(crate) struct Loaded(BTreeSet<String>);

impl Loaded {
    /// `None` where some trial does not tell its modules.
    pub(crate) fn of<'f>(facts: impl Iterator<Item = &'f Facts>) -> Option<Self> {
        let mut loaded = BTreeSet::new();
        for facts in facts {
            let modules = facts.values.get(fact::MODULES)?;
            loaded.extend(modules.split_whitespace().map(core_of));
        }
        Some(Self(loaded))
    }

    /// Whether no arm had this option's code in memory. Where names leave a doubt it had.
    pub(crate) fn leaves_out(&self, option: &str, arms: &BTreeMap<&str, &Facts>) -> bool {
        let name = option.strip_prefix("CONFIG_").unwrap_or(option);
        let fitting = PARTS.iter().filter(|(begin, _)| name.starts_with(begin));
        let longest = fitting.max_by_key(|(begin, _)| begin.len());
        let whole = longest.map(|(_, whole)| *whole);
        let is_out = |name: &str| self.is_out(name, arms);
        is_out(name) || whole.filter(|whole| *whole != name).is_some_and(is_out)
    }

    fn is_out(&self, name: &str, arms: &BTreeMap<&str, &Facts>) -> bool {
        let key = format!("CONFIG_{name}");
        let mut states = arms
            .values()
            .map(|facts| facts.kernel_config.get(&key).map_or("n", String::as_str));
        let is_module = states.clone().any(|state| state == "m");
        is_module && states.all(|state| matches!(state, "m" | "n")) && !self.has(name)
    }

    fn has(&self, name: &str) -> bool {
        let name = core_of(name);
        self.0.iter().any(|module| {
            let is_part =
                |part: &str, whole: &str| part.len() >= SHORTEST_PART && whole.contains(part);
            *module == name || is_part(module, &name) || is_part(&name, module)
        })
    }
}

/// `hw_random_virtio` and `HW_RANDOM_VIRTIO` are `virtio`.
fn core_of(name: &str) -> String {
    let lower = name.to_lowercase();
    let words = lower.split(['_', '-']);
    words.filter(|word| !EMPTY.contains(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_loaded_is_left_out_and_doubts_are_not() {
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
        let out = |name: &str| loaded.leaves_out(&format!("CONFIG_{name}"), &arms);
        assert!(out("HID") && out("HID_ALPS") && out("HID_ANYTHING") && out("SCTP_COOKIE"));
        assert!(!out("VETH") && !out("NET_SCH_FQ") && !out("VIRTIO_PCI_LIB"));
        assert!(!out("XFS_LIVE_HOOKS") && !out("MD_BITMAP") && !out("PREEMPT"));
        assert!(Loaded::of([&Facts::default()].into_iter()).is_none());
    }
}
