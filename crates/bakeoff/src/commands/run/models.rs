//! `--models`: repeats a few blocks of the plan on another emulated CPU model, and without mitigations.
//!
//! Each variation is a separate run in `models/NAME/` of the run directory, which is resumed and judged like any other.
//! Its comparison with the run is stored in `models.json`, and every report shows it.

use std::path::Path;

use anyhow::{Context, Result, bail};
use base::arch::Arch;
use base::input::problem::{Problem, Problems};
use machine::guest::Machine;
use plan::cpu::{CpuModel, MODELS_OF_64_BITS};
use plan::{Clock, MachineKind, Plan, Variation};
use record::models::{Models, VERSION};
use record::rundir;
use record::rundir::{MODELS, RunDir};
use record::verdict::Judgement;

use super::super::forecast;
use super::{RunSettings, RunTarget, execute, refuse_another_plan};
use crate::lab::Finish;
use crate::out;

/// Runs the variations of a plan, after the plan's run is complete.
pub(super) fn run_variations(
    settings: &RunSettings<'_>,
    plan: &Plan,
    text: &str,
    dir: &RunDir,
    model: &CpuModel,
) -> Result<Finish> {
    let original = judged(dir.path())?;
    let mut rows = Vec::new();
    for variation in [Variation::Model(model.clone()), Variation::NoMitigations] {
        let name = variation.name();
        out::error_line(&format!("the same on another CPU: {name}"));
        let blocks = forecast::blocks_needed(&plan.design).min(plan.design.max_blocks);
        let text = plan::varied(text, &variation, blocks)?;
        let qemu = settings.sources.qemu.as_deref();
        let (text, plan) = super::super::check_plan(settings.file, text, qemu)?;
        let place = format!("models/{}", directory_name(&name));
        let place = dir.tree().make_dir(place)?.path();
        let variation_dir = RunDir::open(&place, &text)?;
        refuse_another_plan(variation_dir.path(), &text)?;
        let finish = execute(
            settings,
            &plan,
            &text,
            RunTarget {
                dir: &variation_dir,
                extension: None,
                remeasures_ceilings: false,
                model: Some(&name),
                check_opening: None,
            },
        )?;
        if finish == Finish::Interrupted {
            return Ok(finish);
        }
        let judgement = judged(&place)?;
        rows.extend(judge::topics::models::find::compare(
            &original,
            &judgement,
            &name,
            &directory_name(&name),
        ));
        // Saved after each variation, so that its result is shown even if the next one fails.
        save_rows(dir, rows.clone())?;
    }
    Ok(Finish::Complete)
}

/// Refuses a plan or model that cannot be repeated, before anything boots; `check_known` asks the emulator.
pub(super) fn check_model(
    plan: &Plan,
    model: &CpuModel,
    check_known: impl Fn(&CpuModel) -> Result<(), String>,
) -> Result<()> {
    if plan.machine.kind != MachineKind::Qemu || plan.machine.clock == Clock::Wall {
        bail!("--models where instructions are not counted ({REMEDY})");
    }
    if plan.machine.cpu_model.as_ref() == Some(model) {
        bail!("--models with the plan's own model: {model} (name another with --models=MODEL)");
    }
    let mistakes = mistakes(model, plan.machine.arch, check_known);
    if !mistakes.is_empty() {
        return Err(Problems(mistakes).into());
    }
    Ok(())
}

/// The problems of a model, by the same rules as for a plan's model.
fn mistakes(
    model: &CpuModel,
    arch: Arch,
    check_known: impl Fn(&CpuModel) -> Result<(), String>,
) -> Vec<Problem> {
    let mistake = |what: String, remedy: &str| Problem {
        file: format!("--models={model}"),
        line: 0,
        what,
        remedy: remedy.into(),
    };
    let uncounted = model.uncounted(arch).into_iter().map(|(what, why)| {
        let what = format!("CPU model {what} where instructions are counted");
        mistake(what, &format!("name another: {why}"))
    });
    let mut mistakes: Vec<_> = uncounted.collect();
    if !model.has_64_bits(arch) {
        let what = format!("CPU model without 64-bit mode: {model}");
        mistakes.push(mistake(what, MODELS_OF_64_BITS));
    }
    if let Err(why) = check_known(model) {
        mistakes.push(mistake(why, ""));
    }
    mistakes
}

/// Refuses a machine that does not count instructions. With clock = "auto" only the prepared machine shows that.
pub(super) fn require_counted_instructions(machine: &dyn Machine) -> Result<()> {
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

/// A model's name without characters that are special in a directory name.
fn directory_name(name: &str) -> String {
    name.replace(
        |c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c),
        "_",
    )
}

/// Limit on the size of `models.json`.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Adds rows to `models.json`, replacing those of the same models.
fn save_rows(dir: &RunDir, rows: Vec<record::models::ModelRow>) -> Result<()> {
    let path = dir.path().join(MODELS);
    let mut all = match dir.tree().read(MODELS, MAX_FILE_BYTES) {
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
        let check_known = |model: &CpuModel| match model.name.as_str() {
            "nonsense" => Err("CPU model that QEMU does not know: \"nonsense\"".into()),
            _ => Ok(()),
        };
        let messages = |text: &str| {
            let model = CpuModel::parse(text).unwrap();
            Problems(mistakes(&model, Arch::X86_64, check_known)).to_string()
        };
        assert_eq!(messages("EPYC-Milan,-avx2"), "");
        let all = ["nonsense", "486", "host", "max,-erms", "max,-lm,-fsrm"].map(messages);
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
        assert_eq!(directory_name("EPYC-Milan"), "EPYC-Milan");
        assert_eq!(directory_name("max,+avx,-x.y"), "max__avx_-x.y");
        assert_eq!(directory_name("mitigations=off"), "mitigations_off");
    }
}
