//! Plans derived from a plan's text, with its comments: the baseline against itself, another CPU, arms with settings, a profile.

use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, TableLike, TomlError, Value};

use crate::cpu::CpuModel;
use crate::kernel_setting::KernelSetting;

/// The plan with only its baseline and a copy of the baseline as arms. It has the given seed, because a second run with the same random
/// orders adds no evidence.
pub fn against_itself(text: &str, seed: i64) -> Result<String, TomlError> {
    let mut plan: DocumentMut = text.parse()?;
    let baseline = baseline(&plan).to_string();
    let arm = arm(&plan, &baseline);
    set_arms(
        &mut plan,
        [
            (baseline.clone(), arm.clone()),
            (format!("{baseline}-again"), arm),
        ],
    );
    set(table_in(&mut plan, "design"), "seed", seed);
    retitle(&mut plan, |title| format!("A/A: {title}"));
    Ok(plan.to_string())
}

/// The plan with another error rate.
pub fn at_error_rate(text: &str, error_rate: f64) -> Result<String, TomlError> {
    let mut plan: DocumentMut = text.parse()?;
    set(table_in(&mut plan, "design"), "error_rate", error_rate);
    Ok(plan.to_string())
}

/// A variation of a plan, to see how far its verdicts depend on the emulated CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variation {
    /// Another CPU model.
    Model(CpuModel),
    /// The plan's model, with mitigations off in all arms.
    NoMitigations,
}

impl Variation {
    /// `EPYC-Milan`, `mitigations=off`.
    pub fn name(&self) -> String {
        match self {
            Self::Model(model) => model.to_string(),
            Self::NoMitigations => NO_MITIGATIONS.into(),
        }
    }
}

/// The kernel parameter that turns all mitigations off.
const NO_MITIGATIONS: &str = "mitigations=off";

/// The plan with a variation and at most `blocks` blocks.
pub fn varied(text: &str, variation: &Variation, blocks: u32) -> Result<String, TomlError> {
    let mut plan: DocumentMut = text.parse()?;
    match variation {
        Variation::Model(model) => set(
            table_in(&mut plan, "machine"),
            "cpu_model",
            model.to_string(),
        ),
        Variation::NoMitigations => {
            let setting = KernelSetting::Cmdline(NO_MITIGATIONS.into());
            let arms = table_in(&mut plan, "arm").iter_mut();
            for arm in arms.filter_map(|(_, arm)| arm.as_table_like_mut()) {
                setting.add_to(arm);
            }
        }
    }
    let blocks = i64::from(blocks);
    let design = table_in(&mut plan, "design");
    set(design, "max_blocks", blocks);
    let min_blocks = design.get("min_blocks").and_then(Item::as_integer);
    if min_blocks.is_some_and(|min_blocks| min_blocks > blocks) {
        set(design, "min_blocks", blocks);
    }
    Ok(plan.to_string())
}

/// Parameters of `confirming`.
#[derive(Debug, Clone, Copy)]
pub struct Confirming<'c> {
    /// Index of the workload in the plan.
    pub workload: usize,
    /// The two arms, the baseline first.
    pub arms: [&'c str; 2],
    /// Settings, and which of the two arms get them.
    pub settings: &'c [(KernelSetting, [bool; 2])],
    /// Exact number of blocks.
    pub blocks: u32,
}

/// The plan with two of its arms, each with and without each setting, on one workload, without a profile. It measures how much of a
/// difference is left with the settings. The plan must be valid.
pub fn confirming(text: &str, parameters: Confirming<'_>) -> Result<String, TomlError> {
    let mut plan: DocumentMut = text.parse()?;
    let settings = parameters.settings;
    let mut arms = Vec::new();
    for (side, name) in parameters.arms.iter().enumerate() {
        let template = arm(&plan, name);
        for (setting, _) in settings.iter().filter(|(_, has)| has[side]) {
            let mut arm = template.clone();
            setting.add_to(&mut arm);
            arms.push((setting.arm_name(name), arm));
        }
        arms.push(((*name).to_string(), template));
    }
    set_arms(&mut plan, arms);
    set(plan.as_table_mut(), "baseline", parameters.arms[0]);
    // Instructions are counted without a profile too.
    plan.remove("why");
    let mut workloads = workloads(&plan);
    let mut index = 0..;
    workloads.retain(|_| index.next() == Some(parameters.workload));
    plan["workload"] = Item::ArrayOfTables(workloads);
    set_blocks(&mut plan, parameters.blocks);
    let texts: Vec<String> = settings.iter().map(|(setting, _)| setting.text()).collect();
    retitle(&mut plan, |title| {
        format!("{title}, with {}", texts.join("; "))
    });
    Ok(plan.to_string())
}

/// An arm of a plan that compares kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelArm {
    /// The arm's name.
    pub name: String,
    /// Its kernel, as a plan names it.
    pub kernel: String,
    /// Its modules, if the kernel is a file.
    pub modules: Option<String>,
}

/// Parameters of `comparing_kernels`.
#[derive(Debug, Clone, Copy)]
pub struct KernelComparison<'k> {
    /// The arms, the baseline first. Apart from the kernel, each is a copy of the plan's baseline.
    pub arms: &'k [KernelArm],
    /// Exact number of blocks.
    pub blocks: u32,
    /// Added to the plan's seed, so that the blocks of a bisection have different orders.
    pub seed: i64,
    /// The error rate; `None` for the plan's.
    pub error_rate: Option<f64>,
    /// Whether trials are profiled.
    pub why: bool,
}

/// The plan with other kernels as arms. The plan must be valid.
pub fn comparing_kernels(
    text: &str,
    parameters: KernelComparison<'_>,
) -> Result<String, TomlError> {
    let mut plan: DocumentMut = text.parse()?;
    // Comments on the baseline's kernel do not apply to the others.
    let mut template = arm(&plan, baseline(&plan));
    template.decor_mut().clear();
    template.remove("modules");
    let arms = parameters.arms.iter().map(|arm| {
        let mut table = template.clone();
        table.insert("kernel", toml_edit::value(&arm.kernel));
        if let Some(modules) = &arm.modules {
            table.insert("modules", toml_edit::value(modules));
        }
        (arm.name.clone(), table)
    });
    set_arms(&mut plan, arms.collect::<Vec<_>>());
    set(plan.as_table_mut(), "baseline", &parameters.arms[0].name);
    if !parameters.why {
        plan.remove("why");
    } else if !plan.contains_key("why") {
        plan.insert("why", toml_edit::table());
    }
    set_blocks(&mut plan, parameters.blocks);
    let design = table_in(&mut plan, "design");
    let seed = design.get("seed").and_then(Item::as_integer).unwrap_or(1);
    set(design, "seed", seed.wrapping_add(parameters.seed).max(0));
    if let Some(error_rate) = parameters.error_rate {
        set(design, "error_rate", error_rate);
    }
    // The old title may name the kernels of the old arms.
    let arms = parameters.arms.iter();
    let names: Vec<&str> = arms.map(|arm| arm.name.as_str()).collect();
    let title = format!("{}: {}", workload_names(&plan), names.join(", "));
    set(plan.as_table_mut(), "title", title);
    Ok(plan.to_string())
}

/// A plan's workloads, from tables or inline tables.
fn workloads(plan: &DocumentMut) -> ArrayOfTables {
    let workloads = plan.get("workload").cloned();
    let workloads = workloads.and_then(|item| item.into_array_of_tables().ok());
    workloads.unwrap_or_default()
}

/// Names of a plan's workloads, separated by commas.
fn workload_names(plan: &DocumentMut) -> String {
    let workloads = workloads(plan);
    let names = workloads.iter().filter_map(|table| {
        let name = table.get("name").or_else(|| table.get("kind"));
        name.and_then(Item::as_str)
    });
    names.collect::<Vec<_>>().join(", ")
}

fn baseline(plan: &DocumentMut) -> &str {
    plan.get("baseline")
        .and_then(Item::as_str)
        .unwrap_or_default()
}

/// A copy of an arm's table, without its position in the text.
fn arm(plan: &DocumentMut, name: &str) -> Table {
    let arm = plan.get("arm").and_then(|arms| arms.get(name));
    let arm = arm.cloned().and_then(|arm| arm.into_table().ok());
    let mut arm = arm.unwrap_or_default();
    clear_position(&mut arm);
    arm
}

/// Removes the position by which tables are ordered when they are printed.
fn clear_position(table: &mut Table) {
    table.set_position(None);
    let tables = table.iter_mut().filter_map(|(_, item)| item.as_table_mut());
    tables.for_each(clear_position);
}

/// Replaces the plan's arms.
fn set_arms(plan: &mut DocumentMut, arms: impl IntoIterator<Item = (String, Table)>) {
    let mut table = Table::new();
    table.set_implicit(true);
    table.extend(arms);
    plan["arm"] = table.into();
}

/// Sets the exact number of blocks.
fn set_blocks(plan: &mut DocumentMut, blocks: u32) {
    let design = table_in(plan, "design");
    set(design, "min_blocks", i64::from(blocks));
    set(design, "max_blocks", i64::from(blocks));
}

/// Sets a key; comments beside its old value are kept.
pub(crate) fn set(table: &mut dyn TableLike, key: &str, value: impl Into<Value>) {
    let mut value = value.into();
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        None => {
            table.insert(key, value.into());
        }
    }
}

/// A table of the plan, created if it does not exist.
fn table_in<'p>(plan: &'p mut DocumentMut, name: &str) -> &'p mut dyn TableLike {
    let table = plan.entry(name).or_insert_with(toml_edit::table);
    table
        .as_table_like_mut()
        .expect("plan is validated: machine, arm and design are tables")
}

/// Derives a new title from the plan's.
fn retitle(plan: &mut DocumentMut, change: impl FnOnce(&str) -> String) {
    let old_title = plan.get("title").and_then(Item::as_str);
    let title = change(old_title.unwrap_or_default());
    set(plan.as_table_mut(), "title", title);
}

/// The seed in a plan's text, if there is one.
pub fn seed_of(text: &str) -> Option<i64> {
    let plan: DocumentMut = text.parse().ok()?;
    plan.get("design")?.get("seed")?.as_integer()
}

/// The plan with `[why]`, so that trials are profiled; unchanged if it has that already.
pub fn explained(text: &str) -> String {
    match text.parse::<DocumentMut>() {
        Ok(plan) if !plan.contains_key("why") => format!("{}\n\n[why]\n", text.trim_end()),
        // Syntax errors are reported when the plan is read.
        Ok(_) | Err(_) => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_plan_of_kernels_keeps_the_baseline_apart_from_its_kernel() {
        let text = r#"# What it is for.
title = "A"
baseline = "old" # the one we know

[why]

[arm.new]
kernel = "debian:sid/7"

[arm.old]
kernel = "./old" # built here
modules = "there"
cmdline = "quiet"

[design]
seed = 7 # lucky
max_blocks = 20

[[workload]]
kind = "web-static" # small pages
"#;
        let arm = |name: &str, kernel: &str, modules: Option<&str>| KernelArm {
            name: name.into(),
            kernel: kernel.into(),
            modules: modules.map(String::from),
        };
        let parameters = KernelComparison {
            arms: &[
                arm("6.1", "debian:bookworm/6.1", None),
                arm("x", "./y", Some("z")),
            ],
            blocks: 1,
            seed: 3,
            error_rate: Some(0.01),
            why: false,
        };
        expect![[r##"
            # What it is for.
            title = "web-static: 6.1, x"
            baseline = "6.1" # the one we know

            [arm."6.1"]
            kernel = "debian:bookworm/6.1"
            cmdline = "quiet"

            [arm.x]
            kernel = "./y"
            cmdline = "quiet"
            modules = "z"

            [design]
            seed = 10 # lucky
            max_blocks = 1
            min_blocks = 1
            error_rate = 0.01

            [[workload]]
            kind = "web-static" # small pages
        "##]]
        .assert_eq(&comparing_kernels(text, parameters).unwrap());
    }

    #[test]
    fn a_plan_gets_another_arm_for_each_setting_of_each_arm() {
        let text = r#"title = "A"
baseline = "old"

[why]

# What comes.
[arm.new]
kernel = "debian:sid/7"
cmdline = "quiet" # no chatter

[arm.other]
kernel = "debian:sid/5"

[arm.old]
kernel = "debian:sid/6"

[[workload]]
kind = "a"

# The slow one.
[[workload]]
kind = "b"

[design]
min_blocks = 2
"#;
        let settings = [
            (KernelSetting::Cmdline("psi=0".into()), [true, true]),
            (
                KernelSetting::Debugfs("sched/features".into(), "NO_X".into()),
                [false, true],
            ),
        ];
        let parameters = Confirming {
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

            # What comes.
            [arm."new+psi_0"]
            kernel = "debian:sid/7"
            cmdline = "quiet psi=0" # no chatter

            # What comes.
            [arm."new+features_NO_X"]
            kernel = "debian:sid/7"
            cmdline = "quiet" # no chatter

            [arm."new+features_NO_X".debugfs]
            "sched/features" = "NO_X"

            # What comes.
            [arm.new]
            kernel = "debian:sid/7"
            cmdline = "quiet" # no chatter

            # The slow one.
            [[workload]]
            kind = "b"

            [design]
            min_blocks = 6
            max_blocks = 6
        "#]]
        .assert_eq(&confirming(text, parameters).unwrap());
    }

    #[test]
    fn inline_tables_and_dotted_keys_are_tables_too() {
        let text = "title = 'A'\nbaseline = 'old'\narm.old.kernel = 'a'\narm.new = { kernel = 'b' }\n\
                    workload = [{ kind = 'x' }, { kind = 'y' }]\ndesign = { seed = 1 }\n";
        let parameters = Confirming {
            workload: 1,
            arms: ["old", "new"],
            settings: &[(KernelSetting::Cmdline("psi=0".into()), [false, true])],
            blocks: 6,
        };
        let read = |text: String| text.parse::<toml::Table>().unwrap();
        let confirming = read(confirming(text, parameters).unwrap());
        assert_eq!(
            confirming["workload"],
            toml::Value::Array(vec![read("kind = 'y'".into()).into()])
        );
        assert_eq!(
            confirming["arm"]["new+psi_0"]["cmdline"].as_str(),
            Some("psi=0")
        );
        assert_eq!(confirming["arm"]["old"]["kernel"].as_str(), Some("a"));
        assert_eq!(confirming["design"]["max_blocks"].as_integer(), Some(6));
        let varied = varied(text, &Variation::NoMitigations, 2).unwrap();
        assert_eq!(varied.matches("mitigations=off").count(), 2, "{varied}");
    }
}
