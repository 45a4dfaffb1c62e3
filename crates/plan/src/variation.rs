//! Plans made of plans: a baseline against itself, another CPU, a profile.

use crate::cpu::CpuModel;
use crate::knob::Setting;

/// The plan that compares a plan's baseline with itself: every other arm is gone, and a copy of the baseline is there.
/// Comments are lost. `seed` takes the place of the plan's: two runs with the same coins would say the same thing twice.
pub fn against_itself(text: &str, seed: i64) -> Result<String, toml::de::Error> {
    let mut plan: toml::Table = text.parse()?;
    let baseline = plan
        .get("baseline")
        .and_then(toml::Value::as_str)
        .map(str::to_owned);
    let name = baseline.unwrap_or_default();
    if let Some(arms) = plan.get_mut("arm").and_then(toml::Value::as_table_mut) {
        arms.retain(|arm, _| *arm == name);
        if let Some(arm) = arms.get(&name).cloned() {
            arms.insert(format!("{name}-again"), arm);
        }
    }
    table_in(&mut plan, "design").insert("seed".into(), seed.into());
    retitle(&mut plan, |title| format!("A/A: {title}"));
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
    let mut plan: toml::Table = text.parse()?;
    match variation {
        Variation::Model(model) => {
            let model = model.to_string();
            table_in(&mut plan, "machine").insert("cpu_model".into(), model.into());
        }
        Variation::NoMitigations => {
            let setting = Setting::Cmdline(NO_MITIGATIONS.into());
            let arms = plan.get_mut("arm").and_then(toml::Value::as_table_mut);
            let arms = arms.into_iter().flatten();
            for arm in arms.filter_map(|(_, arm)| arm.as_table_mut()) {
                setting.add_to(arm);
            }
        }
    }
    let design = table_in(&mut plan, "design");
    design.insert("max_blocks".into(), i64::from(blocks).into());
    let least = design.get("min_blocks").and_then(toml::Value::as_integer);
    if least.is_some_and(|least| least > i64::from(blocks)) {
        design.insert("min_blocks".into(), i64::from(blocks).into());
    }
    Ok(plan.to_string())
}

/// A table of the plan, made where there is none.
pub(crate) fn table_in<'p>(plan: &'p mut toml::Table, name: &str) -> &'p mut toml::Table {
    let entry = plan
        .entry(name)
        .or_insert_with(|| toml::Table::new().into());
    entry
        .as_table_mut()
        .expect("plan is validated: machine and design are tables")
}

/// Gives the plan a title made of its own.
pub(crate) fn retitle(plan: &mut toml::Table, title: impl FnOnce(&str) -> String) {
    let own = plan.get("title").and_then(toml::Value::as_str);
    let title = title(own.unwrap_or_default());
    plan.insert("title".into(), title.into());
}

/// The seed that a plan's text names, if it is a plan.
pub fn seed_of(text: &str) -> Option<i64> {
    let plan: toml::Table = text.parse().ok()?;
    plan.get("design")?.get("seed")?.as_integer()
}

/// The plan with `[why]`, so that every trial is profiled; the same text where it has that already.
pub fn explained(text: &str) -> String {
    match text.parse::<toml::Table>() {
        Ok(plan) if !plan.contains_key("why") => format!("{}\n\n[why]\n", text.trim_end()),
        // What is wrong with it is told where it is read.
        Ok(_) | Err(_) => text.into(),
    }
}
