//! Plans made of plans: a baseline against itself, another CPU, arms with settings, a profile. Comments stay.

use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, TableLike, TomlError, Value};

use crate::cpu::CpuModel;
use crate::knob::Setting;

/// The plan that compares a plan's baseline with itself: every other arm is gone, and a copy of the baseline is there.
/// `seed` takes the place of the plan's: two runs with the same coins would say the same thing twice.
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

/// What a plan is varied by, to see how far its verdicts hang on the emulated CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variation {
    /// Another CPU model.
    Model(CpuModel),
    /// The plan's own model, without mitigations in any arm.
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

/// The kernel parameter that turns all of them off.
const NO_MITIGATIONS: &str = "mitigations=off";

/// The plan with a variation and `blocks` blocks at the most.
pub fn varied(text: &str, variation: &Variation, blocks: u32) -> Result<String, TomlError> {
    let mut plan: DocumentMut = text.parse()?;
    match variation {
        Variation::Model(model) => set(
            table_in(&mut plan, "machine"),
            "cpu_model",
            model.to_string(),
        ),
        Variation::NoMitigations => {
            let setting = Setting::Cmdline(NO_MITIGATIONS.into());
            let arms = table_in(&mut plan, "arm").iter_mut();
            for arm in arms.filter_map(|(_, arm)| arm.as_table_like_mut()) {
                setting.add_to(arm);
            }
        }
    }
    let blocks = i64::from(blocks);
    let design = table_in(&mut plan, "design");
    set(design, "max_blocks", blocks);
    let least = design.get("min_blocks").and_then(Item::as_integer);
    if least.is_some_and(|least| least > blocks) {
        set(design, "min_blocks", blocks);
    }
    Ok(plan.to_string())
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
pub fn confirming(text: &str, asked: Confirming<'_>) -> Result<String, TomlError> {
    let mut plan: DocumentMut = text.parse()?;
    let mut arms = Vec::new();
    for (side, name) in asked.arms.iter().enumerate() {
        let template = arm(&plan, name);
        for (setting, _) in asked.settings.iter().filter(|(_, has)| has[side]) {
            let mut arm = template.clone();
            setting.add_to(&mut arm);
            arms.push((setting.arm_name(name), arm));
        }
        arms.push(((*name).to_string(), template));
    }
    set_arms(&mut plan, arms);
    set(plan.as_table_mut(), "baseline", asked.arms[0]);
    // Instructions are counted without a profile too.
    plan.remove("why");
    let mut workloads = workloads(&plan);
    let mut place = 0..;
    workloads.retain(|_| place.next() == Some(asked.workload));
    plan["workload"] = Item::ArrayOfTables(workloads);
    set_blocks(&mut plan, asked.blocks);
    let texts: Vec<String> = asked
        .settings
        .iter()
        .map(|(setting, _)| setting.text())
        .collect();
    retitle(&mut plan, |title| {
        format!("{title}, with {}", texts.join("; "))
    });
    Ok(plan.to_string())
}

/// One arm of a plan that asks for kernels alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelArm {
    /// The arm's name.
    pub name: String,
    /// Its kernel, as a plan names it.
    pub kernel: String,
    /// Its modules, where the kernel is a file.
    pub modules: Option<String>,
}

/// What a plan of several kernels is to be.
#[derive(Debug, Clone, Copy)]
pub struct OfKernels<'k> {
    /// Its arms, the baseline first; beside the kernel each is the plan's own baseline.
    pub arms: &'k [KernelArm],
    /// Blocks, no fewer and no more.
    pub blocks: u32,
    /// Added to the plan's seed, so that no two blocks of one bisection have one order.
    pub seed: i64,
    /// The error rate, where it is not the plan's.
    pub error_rate: Option<f64>,
    /// Whether trials are profiled.
    pub why: bool,
}

/// The plan with other kernels as arms. It must be a valid one.
pub fn of_kernels(text: &str, asked: OfKernels<'_>) -> Result<String, TomlError> {
    let mut plan: DocumentMut = text.parse()?;
    // Comments on the baseline's own kernel say nothing of the others.
    let mut template = arm(&plan, baseline(&plan));
    template.decor_mut().clear();
    template.remove("modules");
    let arms = asked.arms.iter().map(|arm| {
        let mut table = template.clone();
        table.insert("kernel", toml_edit::value(&arm.kernel));
        if let Some(modules) = &arm.modules {
            table.insert("modules", toml_edit::value(modules));
        }
        (arm.name.clone(), table)
    });
    set_arms(&mut plan, arms.collect::<Vec<_>>());
    set(plan.as_table_mut(), "baseline", &asked.arms[0].name);
    if !asked.why {
        plan.remove("why");
    } else if !plan.contains_key("why") {
        plan.insert("why", toml_edit::table());
    }
    set_blocks(&mut plan, asked.blocks);
    let design = table_in(&mut plan, "design");
    let seed = design.get("seed").and_then(Item::as_integer).unwrap_or(1);
    set(design, "seed", seed.wrapping_add(asked.seed).max(0));
    if let Some(error_rate) = asked.error_rate {
        set(design, "error_rate", error_rate);
    }
    // The plan's own title names the kernels of its own arms.
    let names: Vec<&str> = asked.arms.iter().map(|arm| arm.name.as_str()).collect();
    let title = format!("{}: {}", loads(&plan), names.join(", "));
    retitle(&mut plan, |_| title);
    Ok(plan.to_string())
}

/// A plan's workloads, as tables or as inline ones.
fn workloads(plan: &DocumentMut) -> ArrayOfTables {
    let workloads = plan.get("workload").cloned();
    let workloads = workloads.and_then(|item| item.into_array_of_tables().ok());
    workloads.unwrap_or_default()
}

/// What a plan's workloads are called, in a line.
fn loads(plan: &DocumentMut) -> String {
    let workloads = workloads(plan);
    let words = workloads.iter().filter_map(|table| {
        let name = table.get("name").or_else(|| table.get("kind"));
        name.and_then(Item::as_str)
    });
    words.collect::<Vec<_>>().join(", ")
}

fn baseline(plan: &DocumentMut) -> &str {
    plan.get("baseline")
        .and_then(Item::as_str)
        .unwrap_or_default()
}

/// A copy of an arm that may stand anywhere.
fn arm(plan: &DocumentMut, name: &str) -> Table {
    let arm = plan.get("arm").and_then(|arms| arms.get(name));
    let arm = arm.cloned().and_then(|arm| arm.into_table().ok());
    let mut arm = arm.unwrap_or_default();
    forget_place(&mut arm);
    arm
}

/// Tables are printed in the order of their places in the text that was read.
fn forget_place(table: &mut Table) {
    table.set_position(None);
    let tables = table.iter_mut().filter_map(|(_, item)| item.as_table_mut());
    tables.for_each(forget_place);
}

/// Gives the plan these arms in place of its own.
fn set_arms(plan: &mut DocumentMut, arms: impl IntoIterator<Item = (String, Table)>) {
    let mut table = Table::new();
    table.set_implicit(true);
    table.extend(arms);
    plan["arm"] = table.into();
}

/// Gives the plan so many blocks, no fewer and no more.
fn set_blocks(plan: &mut DocumentMut, blocks: u32) {
    let design = table_in(plan, "design");
    set(design, "min_blocks", i64::from(blocks));
    set(design, "max_blocks", i64::from(blocks));
}

/// Sets a key; what is said beside its old value stays.
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

/// A table of the plan, made where there is none.
fn table_in<'p>(plan: &'p mut DocumentMut, name: &str) -> &'p mut dyn TableLike {
    let table = plan.entry(name).or_insert_with(toml_edit::table);
    table
        .as_table_like_mut()
        .expect("plan is validated: machine, arm and design are tables")
}

/// Gives the plan a title made of its own.
fn retitle(plan: &mut DocumentMut, title: impl FnOnce(&str) -> String) {
    let before = plan.get("title").and_then(Item::as_str);
    let title = title(before.unwrap_or_default());
    set(plan.as_table_mut(), "title", title);
}

/// The seed that a plan's text names, if it is a plan.
pub fn seed_of(text: &str) -> Option<i64> {
    let plan: DocumentMut = text.parse().ok()?;
    plan.get("design")?.get("seed")?.as_integer()
}

/// The plan with `[why]`, so that every trial is profiled; the same text where it has that already.
pub fn explained(text: &str) -> String {
    match text.parse::<DocumentMut>() {
        Ok(plan) if !plan.contains_key("why") => format!("{}\n\n[why]\n", text.trim_end()),
        // What is wrong with it is told where it is read.
        Ok(_) | Err(_) => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_plan_of_kernels_keeps_what_its_baseline_has_beside_the_kernel() {
        let text = r#"# What it is for.
title = "A"
baseline = "old" # the one we know

[why]

[arm.new]
kernel = "debian:sid/7"

[arm.old]
kernel = "file:old" # built here
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
        let asked = OfKernels {
            arms: &[
                arm("6.1", "debian:bookworm/6.1", None),
                arm("x", "file:y", Some("z")),
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
            kernel = "file:y"
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
        .assert_eq(&of_kernels(text, asked).unwrap());
    }

    #[test]
    fn a_plan_gets_an_arm_more_for_each_setting_of_each_arm() {
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
        .assert_eq(&confirming(text, asked).unwrap());
    }

    #[test]
    fn inline_tables_and_dotted_keys_are_tables_too() {
        let text = "title = 'A'\nbaseline = 'old'\narm.old.kernel = 'a'\narm.new = { kernel = 'b' }\n\
                    workload = [{ kind = 'x' }, { kind = 'y' }]\ndesign = { seed = 1 }\n";
        let asked = Confirming {
            workload: 1,
            arms: ["old", "new"],
            settings: &[(Setting::Cmdline("psi=0".into()), [false, true])],
            blocks: 6,
        };
        let read = |text: String| text.parse::<toml::Table>().unwrap();
        let confirming = read(confirming(text, asked).unwrap());
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
