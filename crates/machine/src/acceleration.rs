//! Whether guests run on the CPUs of this host, or are emulated.

use serde::{Deserialize, Serialize};

/// What is known of KVM on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kvm {
    /// A stock kernel came up.
    Works,
    /// It cannot even be tried; why, and what would help.
    Absent(String),
    /// A stock kernel does not come up under it; all that QEMU or the guest said.
    Broken(String),
    /// It was not asked for: instructions are counted.
    Unwanted,
}

impl Kvm {
    /// The finding in one line.
    pub fn words(&self) -> String {
        match self {
            Self::Works => "KVM works".into(),
            Self::Absent(why) => format!("{why}; emulating"),
            Self::Broken(_) => "KVM cannot run a stock kernel here: emulating".into(),
            Self::Unwanted => "counting instructions needs emulation".into(),
        }
    }

    /// What QEMU or the guest said when it failed, where there is more than the one line.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Broken(why) => Some(why),
            Self::Works | Self::Absent(_) | Self::Unwanted => None,
        }
    }
}
