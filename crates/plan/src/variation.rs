//! Plans made of plans: a baseline against itself, another CPU, arms with settings, a profile.

use toml::{Table, Value};

use crate::cpu::CpuModel;
use crate::knob::Setting;

/// The plan that compares a plan's baseline with itself: every other arm is gone, and a copy of the baseline is there.
/// Comments are lost. `seed` takes the place of the plan's: two runs with the same coins would say the same thing twice.
pub fn against_itself(text: &str, seed: i64) -> Result<String, toml::de::Error> {
    let mut plan: Table = text.parse()?;
    let baseline = plan
        .get("baseline")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let name = baseline.unwrap_or_default();
    if let Some(arms) = plan.get_mut("arm").and_then(Value::as_table_mut) {
        arms.retain(|arm, _| *arm == name);
        if let Some(arm) = arms.get(&name).cloned() {
            arms.insert(format!("{name}-again"), arm);
        }
    }
    table_in(&mut plan, "design").insert("seed".into(), seed.into());
    retitle(&mut plan, |title| format!("A/A: {title}"));
    Ok(plan.to_string())
}

/// The plan with another error rate. Comments are lost.
pub fn at_error_rate(text: &str, error_rate: f64) -> Result<String, toml::de::Error> {
    let mut plan: Table = text.parse()?;
    table_in(&mut plan, "design").insert("error_rate".into(), error_rate.into());
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

/// The plan with a variation and `blocks` blocks at the most. Comments are lost.
pub fn varied(text: &str, variation: &Variation, blocks: u32) -> Result<String, toml::de::Error> {
    let mut plan: Table = text.parse()?;
    match variation {
        Variation::Model(model) => {
            let model = model.to_string();
            table_in(&mut plan, "machine").insert("cpu_model".into(), model.into());
        }
        Variation::NoMitigations => {
            let setting = Setting::Cmdline(NO_MITIGATIONS.into());
            let arms = plan.get_mut("arm").and_then(Value::as_table_mut);
            let arms = arms.into_iter().flatten();
            for arm in arms.filter_map(|(_, arm)| arm.as_table_mut()) {
                setting.add_to(arm);
            }
        }
    }
    let design = table_in(&mut plan, "design");
    design.insert("max_blocks".into(), i64::from(blocks).into());
    let least = design.get("min_blocks").and_then(Value::as_integer);
    if least.is_some_and(|least| least > i64::from(blocks)) {
        design.insert("min_blocks".into(), i64::from(blocks).into());
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
pub fn of_kernels(text: &str, asked: OfKernels<'_>) -> Result<String, toml::de::Error> {
    let mut plan: Table = text.parse()?;
    let baseline = plan.get("baseline").and_then(Value::as_str);
    let own = baseline.and_then(|name| plan.get("arm")?.get(name)?.as_table().cloned());
    let own = own.unwrap_or_default();
    let mut arms = Table::new();
    for KernelArm {
        name,
        kernel,
        modules,
    } in asked.arms
    {
        let mut arm = own.clone();
        arm.insert("kernel".into(), kernel.clone().into());
        arm.remove("modules");
        if let Some(modules) = modules {
            arm.insert("modules".into(), modules.clone().into());
        }
        arms.insert(name.clone(), arm.into());
    }
    plan.insert("arm".into(), arms.into());
    plan.insert("baseline".into(), asked.arms[0].name.clone().into());
    match (asked.why, plan.contains_key("why")) {
        (true, false) => {
            plan.insert("why".into(), Table::new().into());
        }
        (false, true) => {
            plan.remove("why");
        }
        (true, true) | (false, false) => {}
    }
    let design = table_in(&mut plan, "design");
    let seed = design.get("seed").and_then(Value::as_integer).unwrap_or(1);
    design.insert("seed".into(), seed.wrapping_add(asked.seed).max(0).into());
    design.insert("min_blocks".into(), i64::from(asked.blocks).into());
    design.insert("max_blocks".into(), i64::from(asked.blocks).into());
    if let Some(error_rate) = asked.error_rate {
        design.insert("error_rate".into(), error_rate.into());
    }
    // The plan's own title names the kernels of its own arms.
    let names: Vec<&str> = asked.arms.iter().map(|arm| arm.name.as_str()).collect();
    let title = format!("{}: {}", loads(&plan), names.join(", "));
    retitle(&mut plan, |_| title);
    Ok(plan.to_string())
}

/// What a plan's workloads are called, in a line.
fn loads(plan: &Table) -> String {
    let workloads = plan.get("workload").and_then(Value::as_array);
    let tables = workloads.into_iter().flatten().filter_map(Value::as_table);
    let word = |table: &Table| {
        let name = table.get("name").or_else(|| table.get("kind"));
        name.and_then(Value::as_str).map(String::from)
    };
    let words: Vec<String> = tables.filter_map(word).collect();
    words.join(", ")
}

/// A table of the plan, made where there is none.
pub(crate) fn table_in<'p>(plan: &'p mut Table, name: &str) -> &'p mut Table {
    let entry = plan.entry(name).or_insert_with(|| Table::new().into());
    entry
        .as_table_mut()
        .expect("plan is validated: machine and design are tables")
}

/// Gives the plan a title made of its own.
pub(crate) fn retitle(plan: &mut Table, title: impl FnOnce(&str) -> String) {
    let own = plan.get("title").and_then(Value::as_str);
    let title = title(own.unwrap_or_default());
    plan.insert("title".into(), title.into());
}

/// The seed that a plan's text names, if it is a plan.
pub fn seed_of(text: &str) -> Option<i64> {
    let plan: Table = text.parse().ok()?;
    plan.get("design")?.get("seed")?.as_integer()
}

/// The plan with `[why]`, so that every trial is profiled; the same text where it has that already.
pub fn explained(text: &str) -> String {
    match text.parse::<Table>() {
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
        let text = r#"
            title = "A"
            baseline = "old"
            [why]
            [arm.new]
            kernel = "debian:sid/7"
            [arm.old]
            kernel = "file:old"
            modules = "there"
            cmdline = "quiet"
            [design]
            seed = 7
            max_blocks = 20
            [[workload]]
            kind = "web-static"
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
        expect![[r#"
            title = "web-static: 6.1, x"
            baseline = "6.1"

            [arm."6.1"]
            kernel = "debian:bookworm/6.1"
            cmdline = "quiet"

            [arm.x]
            kernel = "file:y"
            cmdline = "quiet"
            modules = "z"

            [design]
            seed = 10
            max_blocks = 1
            min_blocks = 1
            error_rate = 0.01

            [[workload]]
            kind = "web-static"
        "#]]
        .assert_eq(&of_kernels(text, asked).unwrap());
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
