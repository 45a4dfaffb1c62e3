//! Knobs: kernel settings that disable or pin a mechanism.

use toml_edit::{Item, TableLike};

use crate::sysctl;
use crate::variation::set;

/// One setting of an arm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelSetting {
    /// Parameters on the kernel command line.
    Cmdline(String),
    /// A sysctl and its value.
    Sysctl(String, String),
    /// A file of debugfs and its value.
    Debugfs(String, String),
}

/// Forms of a setting, for messages.
pub const FORMS: &str = "cmdline:TEXT, sysctl:NAME=VALUE or debugfs:FILE=VALUE";

impl KernelSetting {
    /// Whether a text is meant to be a setting, valid or not.
    pub fn is_meant(text: &str) -> bool {
        let kinds = ["cmdline:", "sysctl:", "debugfs:"];
        kinds.iter().any(|kind| text.starts_with(kind))
    }

    /// Reads a setting in the form that users type.
    pub fn read(text: &str) -> Result<Self, String> {
        let pair = |rest: &str| match rest.split_once('=') {
            Some((name, value)) if !name.is_empty() && !value.is_empty() => {
                Ok((name.to_string(), value.to_string()))
            }
            _ => Err(format!("setting without a value: {text}")),
        };
        match text.split_once(':') {
            Some(("cmdline", words)) if !words.trim().is_empty() => {
                Ok(Self::Cmdline(words.trim().into()))
            }
            Some(("sysctl", rest)) => {
                let (name, value) = pair(rest)?;
                if sysctl::is_name(&name) {
                    Ok(Self::Sysctl(name, value))
                } else {
                    Err(format!("not a sysctl name: {name}"))
                }
            }
            Some(("debugfs", rest)) => pair(rest).map(|(file, value)| Self::Debugfs(file, value)),
            Some(_) | None => Err(format!("not a setting: {text}")),
        }
    }

    /// The setting without its prefix.
    pub fn text(&self) -> String {
        match self {
            Self::Cmdline(words) => words.clone(),
            Self::Sysctl(name, value) | Self::Debugfs(name, value) => format!("{name}={value}"),
        }
    }

    /// A suffix for the names of arms, only of letters, digits and `_ + - .`.
    fn label(&self) -> String {
        let text = self.text();
        let last = text.rsplit('/').next().unwrap_or_default();
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
        let label = last.chars().map(|c| if is_allowed(c) { c } else { '_' });
        label.take(24).collect()
    }

    /// The name of an arm with the setting, at most 40 characters.
    pub fn arm_name(&self, arm: &str) -> String {
        let label = self.label();
        let kept = arm.chars().take(40 - 1 - label.len());
        format!("{}+{label}", kept.collect::<String>())
    }

    /// Adds the setting to an arm's table.
    pub(crate) fn add_to(&self, arm: &mut dyn TableLike) {
        let (key, name, value) = match self {
            Self::Cmdline(words) => {
                let before = arm.get("cmdline").and_then(Item::as_str);
                let cmdline = format!("{} {words}", before.unwrap_or_default());
                return set(arm, "cmdline", cmdline.trim());
            }
            Self::Sysctl(name, value) => ("sysctl", name, value),
            Self::Debugfs(name, value) => ("debugfs", name, value),
        };
        let table = arm.entry(key).or_insert_with(toml_edit::table);
        if let Some(table) = table.as_table_like_mut() {
            set(table, name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn settings_are_read_as_typed() {
        let read = |text: &str| KernelSetting::read(text).map(|setting| setting.arm_name("7.2"));
        let names = [
            "cmdline:init_on_alloc=0",
            "cmdline:psi=0 audit=0",
            "sysctl:net.ipv4.tcp_sack=0",
            "debugfs:sched/features=NO_X",
        ];
        expect![[r#"
            Ok("7.2+init_on_alloc_0")
            Ok("7.2+psi_0_audit_0")
            Ok("7.2+net.ipv4.tcp_sack_0")
            Ok("7.2+features_NO_X")"#]]
        .assert_eq(&names.map(|name| format!("{:?}", read(name))).join("\n"));
        let wrong = [
            "psi",
            "cmdline: ",
            "sysctl:x=1",
            "sysctl:net.x",
            "debugfs:=1",
            "x:y=1",
        ];
        expect![[r#"
            Err("not a setting: psi")
            Err("not a setting: cmdline: ")
            Err("not a sysctl name: x")
            Err("setting without a value: sysctl:net.x")
            Err("setting without a value: debugfs:=1")
            Err("not a setting: x:y=1")"#]]
        .assert_eq(&wrong.map(|name| format!("{:?}", read(name))).join("\n"));
        let long = KernelSetting::Cmdline("a".repeat(60)).arm_name(&"b".repeat(40));
        assert_eq!(long.len(), 40);
    }
}
