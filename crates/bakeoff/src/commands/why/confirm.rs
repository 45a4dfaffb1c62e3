//! `why --confirm`: runs the two arms of a difference again, with and without a setting that turns a mechanism off.
//!
//! ```text
//! mechanism or setting -> plan with both arms, each with and without it -> run like any plan -> share of the difference that it explains
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use base::input::problem::Problems;
use base::input::text::shell_word;
use base::input::units;
use judge::topics::confirm::find::{Tried, confirm as judge};
use judge::topics::why::find as explain;
use judge::topics::why::find::Question;
use judge::topics::why::mechanism::knobs;
use plan::kernel_setting::{self, KernelSetting};
use plan::{Checks, Confirming, confirming};
use record::rundir;
use record::rundir::Run;
use record::trial::Outcome;
use record::verdict::confirm::Confirmation;
use record::verdict::mechanism::Mechanism;

use super::super::explained::Selection;
use super::super::forecast;
use super::super::report::width;
use super::super::run;
use super::super::{End, check_text, plan_file, print_json};
use crate::cli::{FleetArgs, PlanArgs, RunOptions, WhyArgs};
use crate::out;

/// A setting, and whether the kernels of the two arms have it, the baseline's first.
type SettingByArm = (KernelSetting, [bool; 2]);

/// Writes a plan that tries the settings, runs or resumes it, and prints what the settings explain.
pub(super) fn confirm(args: &WhyArgs, what: &str, json: bool) -> Result<End> {
    let before = rundir::load(&args.dir, &workload::check)?;
    super::check_names(&before, args)?;
    let workloads = before.plan.workloads.iter();
    let workload = named_or_only(
        "workload",
        workloads.map(|workload| workload.id.as_str()),
        args.workload.as_deref(),
    )?;
    let arms = before.plan.arms.iter().map(|arm| arm.name.as_str());
    let others = arms.filter(|arm| *arm != before.plan.baseline);
    let arms = [
        before.plan.baseline.as_str(),
        named_or_only("arm", others, args.arm.as_deref())?,
    ];
    let settings = settings(args, &before, workload, arms, what)?;
    let mut workloads = before.plan.workloads.iter();
    let index = workloads.position(|known| known.id == workload);
    let design = &before.plan.design;
    let confirmation = Confirming {
        workload: index.expect("the workload is one of the plan's"),
        arms,
        settings: &settings,
        blocks: design.max_blocks.max(explain::least_blocks(design)),
    };
    let path = plan_path(args, &settings);
    check_settings(args, what, &before, &path, confirmation)?;
    let text = confirming(&before.plan_text, confirmation)?;
    let text = format!("# Written by bakeoff why --confirm.\n{text}");
    if !plan_file::is_free(&path, &text)? {
        bail!(
            "another plan is there: {} (remove it, or name another directory with --out)",
            path.display()
        );
    }
    if !json {
        out::line(&cost_line(&before, workload, &text)?);
    }
    plan_file::write(&path, &text)?;
    let run_args = PlanArgs {
        options: RunOptions {
            out: Some(path.with_extension("")),
            jobs: args.jobs,
            ..options(args)
        },
        plan: path,
        fleet: FleetArgs::default(),
        most_error_rate: None,
    };
    let end = run::run_with_resume_command(&run_args, json, || resume_command(args, what))?;
    let after = rundir::load(&run::directory(&run_args), &workload::check)?;
    let tried = settings.iter().map(|setting| tried(setting, arms));
    let tried: Vec<Tried> = tried.collect();
    let confirmation = judge(&after, workload, arms, &tried);
    if json {
        print_json(&judge::report::confirmation_json(&confirmation))?;
    } else if args.markdown {
        out::text(&judge::report::confirmation_markdown(&confirmation));
    } else {
        let text = judge::report::confirmation_terminal(&confirmation, width());
        out::text(&format!("\n{text}"));
    }
    check_not_empty(&confirmation, &after)?;
    Ok(end)
}

/// The line printed before the run begins: `confirming: up to 48 trials (6 arms, 8 blocks), about 12 min`.
fn cost_line(before: &Run, workload: &str, text: &str) -> Result<String> {
    let checks = Checks::of_the_past(&workload::check);
    let plan = plan::read("plan.toml", text, Path::new(""), checks)?;
    let (arms, blocks) = (plan.arms.len(), plan.design.max_blocks);
    let trials = arms as u32 * blocks;
    let time = forecast::mean_trial(&before.entries, workload).map_or_else(String::new, |trial| {
        let total = units::show_duration(Duration::from_secs((trial * trials).as_secs().max(1)));
        format!(", about {total} at what a trial took before, one at a time")
    });
    Ok(format!(
        "confirming: up to {trials} trials ({arms} arms, {blocks} blocks){time}"
    ))
}

/// Refuses settings that no plan can have, before anything is written. Messages have no line numbers, because the user did
/// not write the plan.
fn check_settings(
    args: &WhyArgs,
    what: &str,
    run: &Run,
    path: &Path,
    confirmation: Confirming<'_>,
) -> Result<()> {
    let base = path.parent().unwrap_or(Path::new(""));
    let qemu = args.emulator.named();
    let check = |name: &str, confirmation| {
        let text = confirming(&run.plan_text, confirmation)?;
        let checked = check_text(name, base, &text, qemu.as_deref());
        checked.map(drop).map_err(without_lines)
    };
    let without_settings = Confirming {
        settings: &[],
        ..confirmation
    };
    let plan_name = args.dir.join("plan.toml").display().to_string();
    check(&plan_name, without_settings)?;
    check(format!("--confirm {what}").trim_end(), confirmation)
}

/// Removes line numbers and repeated problems: both arms have the same setting.
fn without_lines(why: anyhow::Error) -> anyhow::Error {
    match why.downcast::<Problems>() {
        Ok(Problems(mut problems)) => {
            for problem in &mut problems {
                problem.line = 0;
            }
            problems.dedup();
            Problems(problems).into()
        }
        Err(why) => why,
    }
}

/// Returns an error with the last trial's failure if no setting could be tried.
fn check_not_empty(confirmation: &Confirmation, run: &Run) -> Result<()> {
    let mut settings = confirmation.settings.iter();
    if settings.any(|setting| !setting.metrics.is_empty()) {
        return Ok(());
    }
    let mut attempts = run.attempts.iter().rev();
    let last = attempts.find_map(|record| match &record.outcome {
        Outcome::Void(void) => Some(format!(
            " (trial {:03}: {})",
            record.trial.number, void.detail
        )),
        Outcome::Measured(_) | Outcome::Skipped(_) => None,
    });
    bail!(
        "no block has all four trials, so nothing is known{}",
        last.unwrap_or_default()
    );
}

/// The options that `run` shares with `why`.
fn options(args: &WhyArgs) -> RunOptions {
    RunOptions {
        out: args.out.clone(),
        emulator: args.emulator.clone(),
        ..RunOptions::default()
    }
}

/// The shell command that resumes the confirmation.
fn resume_command(args: &WhyArgs, what: &str) -> String {
    let mut words = vec![
        "bakeoff why".into(),
        shell_word(&args.dir.to_string_lossy()),
    ];
    for (option, value) in [("--workload", &args.workload), ("--arm", &args.arm)] {
        if let Some(value) = value {
            words.push(format!("{option} {}", shell_word(value)));
        }
    }
    words.extend(run::resume_options(&options(args), &FleetArgs::default()));
    words.push("--confirm".into());
    if !what.is_empty() {
        words.push(shell_word(what));
    }
    words.join(" ")
}

/// The selected name, or the only one if none is selected.
fn named_or_only<'n>(
    what: &str,
    names: impl Iterator<Item = &'n str>,
    selected: Option<&str>,
) -> Result<&'n str> {
    let names: Vec<&str> = names.collect();
    let name = match (selected, names.as_slice()) {
        (Some(selected), names) => names.iter().find(|name| **name == selected),
        (None, [only]) => Some(only),
        (None, _) => None,
    };
    let Some(name) = name else {
        bail!(
            "several {what}s: {} (name one with --{what})",
            names.join(", ")
        );
    };
    Ok(*name)
}

/// The settings to try: the setting that the user typed, those of a mechanism, or those of the mechanism with the largest
/// effect.
fn settings(
    args: &WhyArgs,
    run: &Run,
    workload: &str,
    arms: [&str; 2],
    what: &str,
) -> Result<Vec<SettingByArm>> {
    let releases = arms.map(|arm| explain::release(run, arm));
    let setting_by_arm = |setting: KernelSetting| -> SettingByArm {
        let has = match knobs::find(&setting) {
            Some(knob) => releases.map(|release| knob.is_in(release)),
            // The boot shows whether a kernel has it.
            None => [true, true],
        };
        (setting, has)
    };
    if KernelSetting::is_meant(what) {
        let setting = KernelSetting::read(what);
        let setting =
            setting.map_err(|why| anyhow::anyhow!("{why} (write {})", kernel_setting::FORMS))?;
        return Ok(vec![setting_by_arm(setting)]);
    }
    let mechanism_settings = |mechanism: Mechanism| -> Vec<SettingByArm> {
        let all = knobs::of(mechanism).map(|knob| setting_by_arm(knob.setting()));
        all.filter(|(_, has)| has.contains(&true)).collect()
    };
    if !what.is_empty() {
        let mechanisms = knobs::mechanisms();
        let mut known = mechanisms.iter();
        let Some(mechanism) = known.find(|mechanism| mechanism.word() == what) else {
            let words: Vec<&str> = mechanisms.iter().map(|known| known.word()).collect();
            bail!(
                "no setting is known for {what:?} (name one of {}, or a setting: {})",
                words.join(", "),
                kernel_setting::FORMS
            );
        };
        let settings = mechanism_settings(*mechanism);
        if settings.is_empty() {
            bail!(
                "neither kernel has a setting for {what}: {} (name a setting: {})",
                releases.join(", "),
                kernel_setting::FORMS
            );
        }
        return Ok(settings);
    }
    let selection = Selection {
        arm: Some(arms[1]),
        workload: Some(workload),
        ..Selection::default()
    };
    let loaded = super::load_profiles(&args.dir, run, selection)?;
    let question = Question {
        workload,
        arm: arms[1],
        metric: None,
    };
    let why = loaded
        .explain(run, &question)
        .map_err(|why| anyhow::anyhow!("{}", judge::report::unexplained(&why)))?;
    for row in why.mechanisms.iter().filter(|row| row.significant) {
        let settings = mechanism_settings(row.name);
        if !settings.is_empty() {
            return Ok(settings);
        }
    }
    bail!(
        "no significant mechanism has a known setting (name one: --confirm MECHANISM, or {})",
        kernel_setting::FORMS
    )
}

/// The path of the plan: beside the explained run, or beside the directory that the user named.
fn plan_path(args: &WhyArgs, settings: &[SettingByArm]) -> PathBuf {
    if let Some(out) = &args.out {
        return plan_file::beside(out);
    }
    let dir = args.dir.components().as_path();
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let first = settings
        .first()
        .map(|(setting, _)| setting.arm_name("confirm"));
    let name = format!("{name}-{}.toml", first.unwrap_or_default());
    dir.parent().unwrap_or(Path::new("")).join(name)
}

fn tried((setting, has): &SettingByArm, arms: [&str; 2]) -> Tried {
    let arms = [0, 1].map(|side| {
        if has[side] {
            setting.arm_name(arms[side])
        } else {
            arms[side].to_string()
        }
    });
    Tried {
        setting: setting.text(),
        arms,
    }
}
