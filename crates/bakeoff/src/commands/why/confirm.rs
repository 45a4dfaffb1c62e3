//! `why --confirm`: the two arms of a difference, run again with and without a setting that turns a mechanism off.
//!
//! ```text
//! mechanism or setting -> plan of the two arms, each with and without it -> run as any plan -> share of the difference that is gone
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
use plan::knob::{self, Setting};
use plan::{Checks, Confirming, confirming};
use record::rundir;
use record::rundir::Run;
use record::trial::Outcome;
use record::verdict::confirm::Confirmation;
use record::verdict::mechanism::Mechanism;

use super::super::explained::Asked;
use super::super::forecast;
use super::super::report::width;
use super::super::run;
use super::super::{End, check_text, plan_file, print_json};
use crate::cli::{FleetArgs, PlanArgs, RunOptions, WhyArgs};
use crate::out;

/// A setting and which of the two arms' kernels have it, the baseline's first.
type Sided = (Setting, [bool; 2]);

/// Runs the plan that was made for what was asked, or goes on with it, and tells what the settings explain.
pub(super) fn confirm(args: &WhyArgs, what: &str, json: bool) -> Result<End> {
    let before = rundir::load(&args.dir, &workload::check)?;
    super::refuse_unknown(&before, args)?;
    let workload = one_of(
        "workload",
        before.plan.workloads.iter().map(|one| one.id.as_str()),
        args.workload.as_deref(),
    )?;
    let arms = before.plan.arms.iter().map(|arm| arm.name.as_str());
    let others = arms.filter(|arm| *arm != before.plan.baseline);
    let arms = [
        before.plan.baseline.as_str(),
        one_of("arm", others, args.arm.as_deref())?,
    ];
    let settings = settings(args, &before, (workload, arms), what)?;
    let place = before
        .plan
        .workloads
        .iter()
        .position(|one| one.id == workload);
    let design = &before.plan.design;
    let asked = Confirming {
        workload: place.expect("the workload is one of the plan's"),
        arms,
        settings: &settings,
        blocks: design.max_blocks.max(explain::least_blocks(design)),
    };
    let path = place_of(args, &settings);
    refuse(args, what, (&before, &path), asked)?;
    let text = confirming(&before.plan_text, asked)?;
    let text = format!("# Written by bakeoff why --confirm.\n{text}");
    if !plan_file::is_free(&path, &text)? {
        bail!(
            "another plan is there: {} (remove it, or name another directory with --out)",
            path.display()
        );
    }
    if !json {
        out::line(&price(&before, workload, &text)?);
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
    let end = run::run_for(&run_args, json, || again(args, what))?;
    let after = rundir::load(&run::directory(&run_args), &workload::check)?;
    let tried: Vec<Tried> = settings.iter().map(|sided| tried(sided, arms)).collect();
    let found = judge(&after, workload, arms, &tried);
    if json {
        print_json(&judge::report::confirmation_json(&found))?;
    } else if args.markdown {
        out::text(&judge::report::confirmation_markdown(&found));
    } else {
        out::text(&format!(
            "\n{}",
            judge::report::confirmation_terminal(&found, width())
        ));
    }
    refuse_nothing(&found, &after)?;
    Ok(end)
}

/// What a confirmation costs, told before it begins: `confirming: up to 48 trials (6 arms, 8 blocks), about 12 min`.
fn price(before: &Run, workload: &str, text: &str) -> Result<String> {
    let checks = Checks::of_the_past(&workload::check);
    let plan = plan::read("plan.toml", text, Path::new(""), checks)?;
    let (arms, blocks) = (plan.arms.len(), plan.design.max_blocks);
    let trials = arms as u32 * blocks;
    let time = forecast::mean_trial(&before.entries, workload).map_or_else(String::new, |trial| {
        let whole = units::show_duration(Duration::from_secs((trial * trials).as_secs().max(1)));
        format!(", about {whole} at what a trial took before, one at a time")
    });
    Ok(format!(
        "confirming: up to {trials} trials ({arms} arms, {blocks} blocks){time}"
    ))
}

/// Refuses settings that no plan can have, before anything is written: the plan is made, so none of its lines is the
/// user's.
fn refuse(
    args: &WhyArgs,
    what: &str,
    (run, path): (&Run, &Path),
    asked: Confirming<'_>,
) -> Result<()> {
    let base = path.parent().unwrap_or(Path::new(""));
    let qemu = args.emulator.named();
    let check = |name: &str, asked| {
        let text = confirming(&run.plan_text, asked)?;
        let checked = check_text(name, base, &text, qemu.as_deref());
        checked.map(drop).map_err(without_lines)
    };
    let without = Confirming {
        settings: &[],
        ..asked
    };
    check(&args.dir.join("plan.toml").display().to_string(), without)?;
    check(format!("--confirm {what}").trim_end(), asked)
}

/// The same mistakes, each once: both arms have a setting.
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

/// Where no setting could be tried at all, that is the answer, with the reason of the last trial.
fn refuse_nothing(found: &Confirmation, run: &Run) -> Result<()> {
    if found.settings.iter().any(|one| !one.metrics.is_empty()) {
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

/// What `run` has under the same name.
fn options(args: &WhyArgs) -> RunOptions {
    RunOptions {
        out: args.out.clone(),
        emulator: args.emulator.clone(),
        ..RunOptions::default()
    }
}

/// The command that goes on.
fn again(args: &WhyArgs, what: &str) -> String {
    let mut words = vec![
        "bakeoff why".into(),
        shell_word(&args.dir.to_string_lossy()),
    ];
    let mut name = |option: &str, value: Option<&str>| {
        words.extend(value.map(|value| format!("{option} {}", shell_word(value))));
    };
    name("--workload", args.workload.as_deref());
    name("--arm", args.arm.as_deref());
    words.extend(run::options_again(&options(args), &FleetArgs::default()));
    words.push("--confirm".into());
    words.extend(Some(what).filter(|what| !what.is_empty()).map(shell_word));
    words.join(" ")
}

/// The one that was named, or the only one that there is.
fn one_of<'n>(
    what: &str,
    mut names: impl Iterator<Item = &'n str> + Clone,
    asked: Option<&str>,
) -> Result<&'n str> {
    let all = names.clone();
    let found = match asked {
        Some(asked) => names.find(|name| *name == asked),
        None => names.next().filter(|_| names.next().is_none()),
    };
    let Some(found) = found else {
        let all: Vec<&str> = all.collect();
        bail!(
            "several {what}s: {} (name one with --{what})",
            all.join(", ")
        );
    };
    Ok(found)
}

/// What is to be tried: a setting as typed, those of a mechanism, or those of the mechanism that saves or costs most.
fn settings(
    args: &WhyArgs,
    run: &Run,
    (workload, arms): (&str, [&str; 2]),
    what: &str,
) -> Result<Vec<Sided>> {
    let releases = arms.map(|arm| explain::release(run, arm));
    let sided = |setting: Setting| -> Sided {
        let has = match knobs::find(&setting) {
            Some(knob) => releases.map(|release| knob.is_in(release)),
            // Whether a kernel has it shows when it is booted.
            None => [true, true],
        };
        (setting, has)
    };
    if Setting::is_meant(what) {
        let setting = Setting::read(what);
        let setting = setting.map_err(|why| anyhow::anyhow!("{why} (write {})", knob::FORMS))?;
        return Ok(vec![sided(setting)]);
    }
    let known = |mechanism: Mechanism| -> Vec<Sided> {
        let all = knobs::of(mechanism).map(|knob| sided(knob.setting()));
        all.filter(|(_, has)| has.contains(&true)).collect()
    };
    if !what.is_empty() {
        let Some(mechanism) = knobs::mechanisms()
            .into_iter()
            .find(|one| one.word() == what)
        else {
            let words: Vec<&str> = knobs::mechanisms().iter().map(|one| one.word()).collect();
            bail!(
                "no setting is known for {what:?} (name one of {}, or a setting: {})",
                words.join(", "),
                knob::FORMS
            );
        };
        let settings = known(mechanism);
        if settings.is_empty() {
            bail!(
                "neither kernel has a setting for {what}: {} (name a setting: {})",
                releases.join(", "),
                knob::FORMS
            );
        }
        return Ok(settings);
    }
    let asked = Asked {
        arm: Some(arms[1]),
        workload: Some(workload),
        ..Asked::default()
    };
    let loaded = super::loaded(&args.dir, run, asked)?;
    let question = Question {
        workload,
        arm: arms[1],
        metric: None,
    };
    let why = loaded
        .explain(run, &question)
        .map_err(|why| anyhow::anyhow!("{}", judge::report::unexplained(&why)))?;
    let sure = why.mechanisms.iter().filter(|row| row.significant);
    let found = sure
        .map(|row| known(row.name))
        .find(|known| !known.is_empty());
    let Some(found) = found else {
        bail!(
            "no significant mechanism has a known setting (name one: --confirm MECHANISM, or {})",
            knob::FORMS
        );
    };
    Ok(found)
}

/// Where the plan goes: beside the run that is asked about, or beside the directory that was named.
fn place_of(args: &WhyArgs, settings: &[Sided]) -> PathBuf {
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

fn tried((setting, has): &Sided, arms: [&str; 2]) -> Tried {
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
