//! `--models`: a few blocks of the plan on another emulated CPU and without mitigations.
//!
//! Each variation is a run of its own in `models/NAME/` of the run directory, resumed and judged like any other; what they
//! say beside the run itself is kept in `models.json`, from which every report shows it again.

use std::path::Path;

use anyhow::{Context, Result, bail};
use base::input::problem::{Problem, Problems};
use machine::guest::Machine;
use plan::cpu::{CpuModel, MODELS_OF_64_BITS};
use plan::{Clock, MachineKind, Plan, Variation};
use record::models::{Models, VERSION};
use record::rundir;
use record::rundir::{MODELS, RunDir};
use record::verdict::Judgement;

use super::super::forecast;
use super::{Place, Setting, carry_out, refuse_another_plan};
use crate::lab::Finish;
use crate::out;

/// Runs the variations of a plan whose own run is complete.
pub(super) fn vary(
    setting: &Setting<'_>,
    (plan, text): (&Plan, &str),
    dir: &RunDir,
    model: &CpuModel,
) -> Result<Finish> {
    let own = judged(dir.path())?;
    let mut rows = Vec::new();
    for variation in [Variation::Model(model.clone()), Variation::NoMitigations] {
        let name = variation.name();
        out::error_line(&format!("the same on another CPU: {name}"));
        let blocks = forecast::enough(&plan.design).min(plan.design.max_blocks);
        let text = plan::varied(text, &variation, blocks)?;
        let qemu = setting.sources.qemu.as_deref();
        let (text, plan) = super::super::check_plan(setting.file, text, qemu)?;
        let place = format!("models/{}", folder(&name));
        let place = dir.tree().make_dir(place)?.path();
        let other = RunDir::open(&place, &text)?;
        refuse_another_plan(other.path(), &text)?;
        let finish = carry_out(
            setting,
            &plan,
            &text,
            Place {
                dir: &other,
                extension: None,
                remeasures_ceilings: false,
                model: Some(&name),
            },
        )?;
        if finish == Finish::Interrupted {
            return Ok(finish);
        }
        let judgement = judged(&place)?;
        rows.extend(judge::topics::models::find::compare(
            &own,
            &judgement,
            &name,
            &folder(&name),
        ));
        // After each, so that what was found is shown even if the next one fails.
        keep(dir, rows.clone())?;
    }
    Ok(Finish::Complete)
}

/// Refuses what cannot be varied, before anything boots; `known` asks the emulator.
pub(super) fn refuse(
    plan: &Plan,
    model: &CpuModel,
    known: impl Fn(&CpuModel) -> Result<(), String>,
) -> Result<()> {
    if plan.machine.kind != MachineKind::Qemu || plan.machine.clock == Clock::Wall {
        bail!("--models where instructions are not counted ({REMEDY})");
    }
    if plan.machine.cpu_model.as_ref() == Some(model) {
        bail!("--models with the plan's own model: {model} (name another with --models=MODEL)");
    }
    let mistakes = mistakes(model, known);
    if !mistakes.is_empty() {
        return Err(Problems(mistakes).into());
    }
    Ok(())
}

/// What is wrong with a model. A plan's own is checked by the same rules.
fn mistakes(model: &CpuModel, known: impl Fn(&CpuModel) -> Result<(), String>) -> Vec<Problem> {
    let mistake = |what: String, remedy: &str| Problem {
        file: format!("--models={model}"),
        line: 0,
        what,
        remedy: remedy.into(),
    };
    let uncounted = model.uncounted().into_iter().map(|(what, why)| {
        let what = format!("CPU model {what} where instructions are counted");
        mistake(what, &format!("name another: {why}"))
    });
    let mut found: Vec<_> = uncounted.collect();
    if !model.has_64_bits() {
        let what = format!("CPU model without 64-bit mode: {model}");
        found.push(mistake(what, MODELS_OF_64_BITS));
    }
    if let Err(why) = known(model) {
        found.push(mistake(why, ""));
    }
    found
}

/// Refuses a machine that was left to choose the clock, and has chosen another.
pub(super) fn refuse_machine(machine: &dyn Machine) -> Result<()> {
    if machine.ns_per_instruction().is_none() {
        bail!("--models where instructions are not counted ({REMEDY})");
    }
    Ok(())
}

const REMEDY: &str =
    "write kind = \"qemu\" and clock = \"instructions\": under KVM there is but one real CPU";

fn judged(dir: &Path) -> Result<Judgement> {
    let run = rundir::load(dir, &workload::check)?;
    if run.opening.ns_per_instruction.is_none() {
        bail!("--models where instructions are not counted ({REMEDY})");
    }
    Ok(judge::judge(&run))
}

/// A model's name as that of a directory.
fn folder(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '_'
        }
    };
    name.chars().map(plain).collect()
}

/// Longest file of other models, in bytes.
const MOST_BYTES: u64 = 64 << 20;

/// Writes the rows beside those of other models that were asked before.
fn keep(dir: &RunDir, rows: Vec<record::models::ModelRow>) -> Result<()> {
    let path = dir.path().join(MODELS);
    let mut all = match dir.tree().read(MODELS, MOST_BYTES) {
        Ok(body) => {
            serde_json::from_slice::<Models>(&body)
                .with_context(|| format!("damaged file: {} (remove it)", path.display()))?
                .rows
        }
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(why) => return Err(why).with_context(|| format!("cannot read {}", path.display())),
    };
    all.retain(|row| rows.iter().all(|new| new.model != row.model));
    all.extend(rows);
    let models = Models {
        version: VERSION,
        rows: all,
    };
    dir.write(MODELS, &serde_json::to_vec_pretty(&models)?)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_model_that_the_repetition_cannot_have_is_refused_by_the_options_name() {
        let known = |model: &CpuModel| match model.name.as_str() {
            "nonsense" => Err("CPU model that QEMU does not know: \"nonsense\"".into()),
            _ => Ok(()),
        };
        let said = |text: &str| {
            let model = CpuModel::parse(text).unwrap();
            Problems(mistakes(&model, known)).to_string()
        };
        assert_eq!(said("EPYC-Milan,-avx2"), "");
        let all = ["nonsense", "486", "host", "max,-erms", "max,-lm,-fsrm"].map(said);
        expect![[r#"
            --models=nonsense: CPU model that QEMU does not know: "nonsense"
            --models=486: CPU model without 64-bit mode: 486 (name another, such as "qemu64" or "EPYC")
            --models=host: CPU model "host" where instructions are counted (name another: only KVM shows a guest the host's CPU)
            --models=max,-erms: CPU model without erms where instructions are counted (name another: kernels would copy and clear memory in loops that no server of today runs)
            --models=max,-lm,-fsrm: CPU model without fsrm where instructions are counted (name another: kernels would copy and clear memory in loops that no server of today runs)
            --models=max,-lm,-fsrm: CPU model without 64-bit mode: max,-lm,-fsrm (name another, such as "qemu64" or "EPYC")"#]]
        .assert_eq(&all.join("\n"));
    }

    #[test]
    fn a_model_names_its_directory_without_anything_special() {
        assert_eq!(folder("EPYC-Milan"), "EPYC-Milan");
        assert_eq!(folder("max,+avx,-x.y"), "max__avx_-x.y");
        assert_eq!(folder("mitigations=off"), "mitigations_off");
    }
}
