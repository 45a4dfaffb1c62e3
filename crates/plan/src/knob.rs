//! Knobs: settings of a kernel that turn a mechanism off or pin it, and plans that try them.

use toml::{Table, Value};

use crate::sysctl;
use crate::variation::{retitle, table_in};

/// One setting of an arm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// A word on the kernel's command line.
    Cmdline(String),
    /// A sysctl and its value.
    Sysctl(String, String),
    /// A file of debugfs and what is written to it.
    Debugfs(String, String),
}

/// How a setting is written.
pub const FORMS: &str = "cmdline:TEXT, sysctl:NAME=VALUE or debugfs:FILE=VALUE";

impl Setting {
    /// Whether a user means one, well written or not.
    pub fn is_meant(text: &str) -> bool {
        let kinds = ["cmdline:", "sysctl:", "debugfs:"];
        kinds.iter().any(|kind| text.starts_with(kind))
    }

    /// Reads a setting as a user types it.
    pub fn read(text: &str) -> Result<Self, String> {
        let pair = |rest: &str| {
            let pair = rest.split_once('=');
            let pair = pair.filter(|(name, value)| !name.is_empty() && !value.is_empty());
            let (name, value) = pair.ok_or_else(|| format!("setting without a value: {text}"))?;
            Ok::<_, String>((name.to_string(), value.to_string()))
        };
        match text.split_once(':') {
            Some(("cmdline", words)) if !words.trim().is_empty() => {
                Ok(Self::Cmdline(words.trim().into()))
            }
            Some(("sysctl", rest)) => {
                let (name, value) = pair(rest)?;
                if sysctl::name_is_good(&name) {
                    Ok(Self::Sysctl(name, value))
                } else {
                    Err(format!("not a sysctl name: {name}"))
                }
            }
            Some(("debugfs", rest)) => pair(rest).map(|(file, value)| Self::Debugfs(file, value)),
            Some(_) | None => Err(format!("not a setting: {text}")),
        }
    }

    /// The setting as it is read, but for the word before it.
    pub fn text(&self) -> String {
        match self {
            Self::Cmdline(words) => words.clone(),
            Self::Sysctl(name, value) | Self::Debugfs(name, value) => format!("{name}={value}"),
        }
    }

    /// What an arm that has it is called beside one that has not: letters, digits and `_ + - .` alone.
    fn label(&self) -> String {
        let text = self.text();
        let last = text.rsplit('/').next().unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
        let label = last.chars().map(|c| if plain(c) { c } else { '_' });
        label.take(24).collect()
    }

    /// The name of an arm with the setting.
    pub fn arm_name(&self, arm: &str) -> String {
        let label = self.label();
        let kept = arm.chars().take(40 - 1 - label.len());
        format!("{}+{label}", kept.collect::<String>())
    }

    pub(crate) fn add_to(&self, arm: &mut Table) {
        let (key, name, value) = match self {
            Self::Cmdline(words) => {
                let own = arm.get("cmdline").and_then(Value::as_str);
                let cmdline = format!("{} {words}", own.unwrap_or_default());
                arm.insert("cmdline".into(), cmdline.trim().into());
                return;
            }
            Self::Sysctl(name, value) => ("sysctl", name, value),
            Self::Debugfs(name, value) => ("debugfs", name, value),
        };
        let table = arm.entry(key).or_insert_with(|| Table::new().into());
        if let Some(table) = table.as_table_mut() {
            table.insert(name.clone(), value.as_str().into());
        }
    }
}

/// A plan that asks how much of a difference is left with settings.
#[derive(Debug, Clone, Copy)]
pub struct Confirming<'c> {
    /// Place of the workload among the plan's.
    pub workload: usize,
    /// The two arms whose difference it is, the baseline first.
    pub arms: [&'c str; 2],
    /// Settings, and which of the two arms have them.
    pub settings: &'c [(Setting, [bool; 2])],
    /// Blocks, no fewer and no more.
    pub blocks: u32,
}

/// The plan with two of its arms, each with and without each setting, on one of its workloads, not profiled. It must be a valid one.
pub fn confirming(text: &str, asked: Confirming<'_>) -> Result<String, toml::de::Error> {
    let mut plan: Table = text.parse()?;
    let arms = plan.get("arm").and_then(Value::as_table);
    let mut kept = Table::new();
    for (side, name) in asked.arms.iter().enumerate() {
        let arm = arms.and_then(|arms| arms.get(*name));
        let arm = arm.and_then(Value::as_table).cloned().unwrap_or_default();
        for (setting, has) in asked.settings {
            if has[side] {
                let mut arm = arm.clone();
                setting.add_to(&mut arm);
                kept.insert(setting.arm_name(name), arm.into());
            }
        }
        kept.insert((*name).into(), arm.into());
    }
    plan.insert("arm".into(), kept.into());
    plan.insert("baseline".into(), asked.arms[0].into());
    // Instructions are counted without a profile too.
    plan.remove("why");
    if let Some(workloads) = plan.get_mut("workload").and_then(Value::as_array_mut) {
        let mut place = 0..;
        workloads.retain(|_| place.next() == Some(asked.workload));
    }
    let design = table_in(&mut plan, "design");
    design.insert("min_blocks".into(), i64::from(asked.blocks).into());
    design.insert("max_blocks".into(), i64::from(asked.blocks).into());
    let texts: Vec<String> = asked.settings.iter().map(|(one, _)| one.text()).collect();
    retitle(&mut plan, |title| {
        format!("{title}, with {}", texts.join("; "))
    });
    Ok(plan.to_string())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn settings_are_read_as_typed() {
        let read = |text: &str| Setting::read(text).map(|setting| setting.arm_name("7.2"));
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
        let long = Setting::Cmdline("a".repeat(60)).arm_name(&"b".repeat(40));
        assert_eq!(long.len(), 40);
    }

    #[test]
    fn a_plan_gets_an_arm_more_for_each_setting_of_each_arm() {
        let text = r#"
            title = "A"
            baseline = "old"
            [why]
            [arm.new]
            kernel = "debian:sid/7"
            cmdline = "quiet"
            [arm.other]
            kernel = "debian:sid/5"
            [arm.old]
            kernel = "debian:sid/6"
            [[workload]]
            kind = "a"
            [[workload]]
            kind = "b"
            [design]
            min_blocks = 2
        "#;
        let settings = [
            (Setting::Cmdline("psi=0".into()), [true, true]),
            (
                Setting::Debugfs("sched/features".into(), "NO_X".into()),
                [false, true],
            ),
        ];
        let asked = Confirming {
            workload: 1,
            arms: ["old", "new"],
            settings: &settings,
            blocks: 6,
        };
        expect![[r#"
            title = "A, with psi=0; sched/features=NO_X"
            baseline = "old"

            [arm."old+psi_0"]
            kernel = "debian:sid/6"
            cmdline = "psi=0"

            [arm.old]
            kernel = "debian:sid/6"

            [arm."new+psi_0"]
            kernel = "debian:sid/7"
            cmdline = "quiet psi=0"

            [arm."new+features_NO_X"]
            kernel = "debian:sid/7"
            cmdline = "quiet"

            [arm."new+features_NO_X".debugfs]
            "sched/features" = "NO_X"

            [arm.new]
            kernel = "debian:sid/7"
            cmdline = "quiet"

            [[workload]]
            kind = "b"

            [design]
            min_blocks = 6
            max_blocks = 6
        "#]]
        .assert_eq(&confirming(text, asked).unwrap());
    }
}
