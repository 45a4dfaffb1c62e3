//! `[pinned]`: settings that all arms have alike.

use std::collections::BTreeMap;

use crate::arm::{Arm, read_cmdline, read_sysctl};
use crate::fields::Fields;
use crate::machine::MachineKind;
use crate::sysctl_path;

/// Settings that all arms have alike. Each arm of the plan has them among its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pinned {
    /// On all kernels' command lines.
    pub cmdline: String,
    /// Of all arms, dotted names.
    pub sysctl: BTreeMap<String, String>,
}

/// Reads the table. What the machine cannot have is a mistake.
pub(crate) fn read_pinned(top: &Fields<'_>, kind: MachineKind) -> Pinned {
    let Some(fields) = top.table("pinned") else {
        return Pinned::default();
    };
    let cmdline = read_cmdline(&fields);
    let table = fields.table("sysctl");
    let sysctl = table.map(|table| read_sysctl(&table)).unwrap_or_default();
    let refuse = |key: &str| {
        if fields.has(key) {
            let what = format!("{key} of [pinned] on a machine of kind \"{}\"", kind.word());
            fields.wrong(key, what, "remove it: it cannot be set from here");
        }
    };
    match kind {
        MachineKind::Qemu | MachineKind::Ssh => {}
        MachineKind::Local => refuse("cmdline"),
        MachineKind::Url => {
            refuse("cmdline");
            refuse("sysctl");
        }
    }
    fields.finish();
    Pinned { cmdline, sysctl }
}

/// Gives all arms what is pinned. What an arm sets itself is a mistake: it would not be pinned.
pub(crate) fn pin(top: &Fields<'_>, pinned: &Pinned, arms: &mut [Arm]) {
    let words = || pinned.cmdline.split_whitespace();
    for arm in arms {
        let key = |word: &str| word.split('=').next().unwrap_or_default().replace('-', "_");
        let own = arm.cmdline.split_whitespace();
        let twice = own.filter(|own| words().any(|word| key(word) == key(own)));
        for word in twice {
            let what = format!("arm {} has a parameter that is pinned: {word}", arm.name);
            top.wrong("pinned", what, "remove it there or here");
        }
        for name in arm.sysctl.keys() {
            let is_pinned = |set: &String| sysctl_path(set) == sysctl_path(name);
            if pinned.sysctl.keys().any(is_pinned) {
                let what = format!("arm {} has a sysctl that is pinned: {name}", arm.name);
                top.wrong("pinned", what, "remove it there or here");
            }
        }
        let cmdline = format!("{} {}", pinned.cmdline, arm.cmdline);
        arm.cmdline = cmdline.trim().into();
        arm.sysctl.extend(pinned.sysctl.clone());
    }
}
