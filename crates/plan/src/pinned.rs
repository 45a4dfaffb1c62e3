//! `[pinned]`: settings of all arms.

use std::collections::BTreeMap;

use crate::arm::{Arm, read_cmdline, read_sysctl};
use crate::fields::Fields;
use crate::machine::MachineKind;
use crate::{Checks, sysctl_path};

/// Settings of all arms. Each arm's settings include them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pinned {
    /// Additions to the kernel command line.
    pub cmdline: String,
    /// Sysctls by dotted name.
    pub sysctl: BTreeMap<String, String>,
}

/// Reads the table, and refuses settings that the machine cannot have.
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

/// Parameters that may be repeated on a command line.
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

/// Allowed values of common parameters; what follows a comma is not checked.
const VALUES: [(&str, &[&str]); 4] = [
    ("preempt", &["none", "voluntary", "full", "lazy"]),
    ("mitigations", &["off", "auto"]),
    ("transparent_hugepage", &["always", "madvise", "never"]),
    ("psi", &["0", "1", "on", "off", "y", "n", "yes", "no"]),
];

/// Sysctls that describe a kernel and cannot be set.
const READ_ONLY: [&str; 4] = [
    "kernel.osrelease",
    "kernel.ostype",
    "kernel.version",
    "kernel.random.boot_id",
];

/// Refuses empty, contradictory and impossible settings.
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
        if READ_ONLY
            .iter()
            .any(|read_only| sysctl_path(read_only) == file)
        {
            let what = format!("a sysctl that cannot be set: {name}");
            table.wrong(name, what, "remove it");
        }
        if let Some(earlier) = files.insert(file, name) {
            let what = format!("one sysctl pinned twice: {earlier} and {name}");
            table.wrong(name, what, "leave one of them");
        }
    }
}

fn check_words(fields: &Fields<'_>, cmdline: &str) {
    let mut seen = BTreeMap::<String, &str>::new();
    for word in cmdline.split_whitespace() {
        let key = key(word);
        let value = word.split_once('=').map(|(_, value)| value);
        if let Some((_, known)) = VALUES.iter().find(|(name, _)| *name == key) {
            let first = value.unwrap_or_default().split([',', ';']).next();
            if !known.contains(&first.unwrap_or_default()) {
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
        let is_repeatable = REPEATED.contains(&key.as_str());
        if let Some(earlier) = seen.insert(key, word)
            && earlier != word
            && !is_repeatable
        {
            let what = format!("a parameter pinned to two values: {earlier} {word}");
            fields.wrong("cmdline", what, "leave one of them");
        }
    }
}

/// A parameter's name, with dashes replaced by underscores, as the kernel compares names.
fn key(word: &str) -> String {
    word.split('=').next().unwrap_or_default().replace('-', "_")
}

/// Adds the pinned settings to all arms. An arm must not set them itself.
pub(crate) fn pin(top: &Fields<'_>, pinned: &Pinned, arms: &mut [Arm]) {
    const REMEDY: &str = "remove it there or here";
    let pinned_keys: Vec<String> = pinned.cmdline.split_whitespace().map(key).collect();
    for arm in arms {
        for word in arm.cmdline.split_whitespace() {
            if pinned_keys.contains(&key(word)) {
                let what = format!("arm {} has a parameter that is pinned: {word}", arm.name);
                top.wrong("pinned", what, REMEDY);
            }
        }
        for (name, value) in &arm.sysctl {
            let is_same = |pinned: &&String| sysctl_path(pinned) == sysctl_path(name);
            if let Some(key) = pinned.sysctl.keys().find(is_same) {
                let what = format!(
                    "arm {} has a sysctl that is pinned: {name} = {value}, pinned to {}",
                    arm.name, pinned.sysctl[key]
                );
                top.wrong("pinned", what, REMEDY);
            }
        }
        let cmdline = format!("{} {}", pinned.cmdline, arm.cmdline);
        arm.cmdline = cmdline.trim().into();
        arm.sysctl.extend(pinned.sysctl.clone());
    }
}
