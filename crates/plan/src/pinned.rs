//! `[pinned]`: settings that all arms have alike.

use std::collections::BTreeMap;

use crate::arm::{Arm, read_cmdline, read_sysctl};
use crate::fields::Fields;
use crate::machine::MachineKind;
use crate::{Checks, sysctl_path};

/// Settings that all arms have alike. Each arm of the plan has them among its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pinned {
    /// On all kernels' command lines.
    pub cmdline: String,
    /// Of all arms, dotted names.
    pub sysctl: BTreeMap<String, String>,
}

/// Reads the table. What the machine cannot have is a mistake.
pub(crate) fn read_pinned(top: &Fields<'_>, kind: MachineKind, checks: Checks<'_>) -> Pinned {
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
    if !checks.has_run {
        check(&fields, &cmdline, &sysctl);
    }
    Pinned { cmdline, sysctl }
}

/// Parameters that may stand on a command line several times, each for itself.
const REPEATED: [&str; 8] = [
    "console",
    "earlycon",
    "memmap",
    "hugepages",
    "hugepagesz",
    "blacklist",
    "initcall_blacklist",
    "cgroup_disable",
];

/// What parameters that are pinned often can be; what comes after a comma is free.
const VALUES: [(&str, &[&str]); 4] = [
    ("preempt", &["none", "voluntary", "full", "lazy"]),
    ("mitigations", &["off", "auto"]),
    ("transparent_hugepage", &["always", "madvise", "never"]),
    ("psi", &["0", "1", "on", "off", "y", "n", "yes", "no"]),
];

/// Sysctls that tell what a kernel is, and that nobody sets.
const READ_ONLY: [&str; 4] = [
    "kernel.osrelease",
    "kernel.ostype",
    "kernel.version",
    "kernel.random.boot_id",
];

/// Notes what pins nothing, what says two things and what cannot be.
fn check(fields: &Fields<'_>, cmdline: &str, sysctl: &BTreeMap<String, String>) {
    if fields.has("cmdline") && cmdline.is_empty() {
        fields.wrong(
            "cmdline",
            "cmdline of [pinned] is empty: \"\"",
            "write parameters, or remove it",
        );
    }
    if fields.keys().is_empty()
        || (fields.has("sysctl") && sysctl.is_empty() && fields.is_table("sysctl"))
    {
        let key = if fields.has("sysctl") {
            "[pinned.sysctl]"
        } else {
            "[pinned]"
        };
        let what = format!("nothing in {key}");
        fields.wrong("sysctl", what, "write what is pinned, or remove the table");
    }
    check_words(fields, cmdline);
    let Some(table) = fields.table("sysctl") else {
        return;
    };
    let mut files = BTreeMap::new();
    for (name, value) in sysctl {
        if value.trim().is_empty() || value.contains(['\n', '\0']) {
            let what = format!("no value for a sysctl that is pinned: {name} = {value:?}");
            table.wrong(name, what, "write its value in one line, or remove it");
        }
        let file = sysctl_path(name);
        if READ_ONLY.iter().any(|own| sysctl_path(own) == file) {
            let what = format!("a sysctl that cannot be set: {name}");
            table.wrong(name, what, "remove it");
        }
        if let Some(before) = files.insert(file, name) {
            let what = format!("one sysctl pinned twice: {before} and {name}");
            table.wrong(name, what, "leave one of them");
        }
    }
}

fn check_words(fields: &Fields<'_>, cmdline: &str) {
    let mut before = BTreeMap::<String, &str>::new();
    for word in cmdline.split_whitespace() {
        let key = key(word);
        let value = word.split_once('=').map(|(_, value)| value);
        if let Some((_, known)) = VALUES.iter().find(|(name, _)| *name == key) {
            let first = value
                .unwrap_or_default()
                .split([',', ';'])
                .next()
                .unwrap_or_default();
            if !known.contains(&first) {
                let what = format!("no value of a parameter that is pinned: {word}");
                fields.wrong(
                    "cmdline",
                    what,
                    format!("write {key}= and one of {}", known.join(", ")),
                );
            }
        }
        if word.contains('=') && value == Some("") {
            let what = format!("no value for a parameter that is pinned: {word}");
            fields.wrong("cmdline", what, "write its value, or remove it");
        }
        let other = before
            .insert(key.clone(), word)
            .filter(|other| *other != word);
        if let Some(other) = other.filter(|_| !REPEATED.contains(&key.as_str())) {
            let what = format!("a parameter pinned to two values: {other} {word}");
            fields.wrong("cmdline", what, "leave one of them");
        }
    }
}

/// A parameter's name, as the kernel compares it: dashes are underscores.
fn key(word: &str) -> String {
    word.split('=').next().unwrap_or_default().replace('-', "_")
}

/// Gives all arms what is pinned. What an arm sets itself is a mistake: it would not be pinned.
pub(crate) fn pin(top: &Fields<'_>, pinned: &Pinned, arms: &mut [Arm]) {
    let words = || pinned.cmdline.split_whitespace();
    for arm in arms {
        let own = arm.cmdline.split_whitespace();
        let twice = own.filter(|own| words().any(|word| key(word) == key(own)));
        for word in twice {
            let what = format!("arm {} has a parameter that is pinned: {word}", arm.name);
            top.wrong("pinned", what, "remove it there or here");
        }
        for (name, value) in &arm.sysctl {
            let mut all = pinned.sysctl.iter();
            let is_pinned = |(set, _): &(&String, &String)| sysctl_path(set) == sysctl_path(name);
            if let Some((_, alike)) = all.find(is_pinned) {
                let what = format!(
                    "arm {} has a sysctl that is pinned: {name} = {value}, pinned to {alike}",
                    arm.name
                );
                top.wrong("pinned", what, "remove it there or here");
            }
        }
        let cmdline = format!("{} {}", pinned.cmdline, arm.cmdline);
        arm.cmdline = cmdline.trim().into();
        arm.sysctl.extend(pinned.sysctl.clone());
    }
}
