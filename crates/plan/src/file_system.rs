//! `file_system`: file system of a workload's separate disk.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::fields::Fields;

/// A file system of a disk.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum FileSystem {
    /// ext4, the default.
    #[default]
    Ext4,
    /// XFS.
    Xfs,
    /// btrfs, without a second copy of its metadata.
    Btrfs,
    /// JFS, which few current kernels have.
    Jfs,
}

impl FileSystem {
    /// Its name in a plan, as a module and for mount(8).
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// The option of kernels with it, `y` or `m`.
    pub fn kernel_option(self) -> &'static str {
        match self {
            Self::Ext4 => "CONFIG_EXT4_FS",
            Self::Xfs => "CONFIG_XFS_FS",
            Self::Btrfs => "CONFIG_BTRFS_FS",
            Self::Jfs => "CONFIG_JFS_FS",
        }
    }

    /// The Debian package of its mkfs program.
    pub fn package(self) -> &'static str {
        match self {
            Self::Ext4 => "e2fsprogs",
            Self::Xfs => "xfsprogs",
            Self::Btrfs => "btrfs-progs",
            Self::Jfs => "jfsutils",
        }
    }
}

/// Reads `file_system` of an arm.
pub(crate) fn read(fields: &Fields<'_>) -> Option<FileSystem> {
    fields.variant("file_system")
}
