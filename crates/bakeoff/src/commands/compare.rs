//! `compare`: a first question without a plan file.
//!
//! ```text
//! what was typed -> arms (kernels, values of a sysctl, command lines) + workloads (kinds, a program)
//!                -> plan as text, checked as any plan -> written beside the run directory -> run
//! ```
//! What is run is that plan and nothing else, so that to ask more means to edit a copy of it.

mod arms;
mod program;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use machine::local;
use record::journal;
use record::journal::Event;
use serde_json::json;

use super::new::{packages_of, recipe, workload};
use super::run::{self, again, run};
use super::{End, at_work, check, check_plan, is_interrupted, plan_file, print_json};
use crate::cli::PlanArgs;
use crate::cli::compare::{CompareArgs, ERROR_RATE};
use crate::cli::judge::MARGIN;
use crate::commands::compare::program::Program;
use crate::out;
use crate::plan_text;
use crate::plan_text::{DesignText, Place, PlanText, WorkloadText};
use crate::prepare;
use workload::overview;

/// What is loaded where nothing is said.
const WORKLOAD: &str = "web-static";

/// Writes a plan for what was typed, and runs it.
pub(super) fn compare(args: &CompareArgs, json: bool) -> Result<End> {
    let arms = arms::read(args, json)?;
    let is_local = args.kernels.is_empty() && args.kernel.is_none();
    let (workloads, program) = workloads(args, is_local, json)?;
    let machine = if is_local {
        Place::Host
    } else {
        Place::Guests {
            recipe: recipe(&workloads)?,
            suite: program.as_ref().and_then(|program| program.suite.clone()),
        }
    };
    let mut draft = PlanText {
        head: vec![
            "Written by bakeoff compare. To ask more, edit it before it runs, later a copy of it (docs/plan.md has every key),".into(),
            "and take bakeoff run.".into(),
        ],
        title: format!("{}: {}", kinds(&workloads), arms.question),
        design: DesignText {
            margin: args.margin.unwrap_or(MARGIN),
            error_rate: args.error_rate.unwrap_or(ERROR_RATE),
            max_blocks: args.max_blocks.unwrap_or_else(|| machine.max_blocks()),
            seed: args.seed.unwrap_or_else(plan_file::drawn_seed),
        },
        machine,
        arms: arms.arms,
        workloads,
    };
    let files = program.as_ref().map_or(&[][..], |program| &program.files);
    let (path, text) = place(args, &arms.label, &mut draft, files)?;
    let remarks = program.map(|program| program.remarks);
    for remark in arms.remarks.iter().chain(remarks.iter().flatten()) {
        say(remark, json || args.dry_run);
    }
    let qemu = args.run.emulator.named();
    let (_, mut plan) = check_plan(&path, text.clone(), qemu.as_deref())?;
    if args.run.a_a {
        // All arms are the baseline then, and are meant to be.
        plan.arms.truncate(1);
    }
    if !args.run.refresh {
        check::refuse_missing(&plan, &path)?;
    }
    let violations = judge::report::violations(&judge::topics::fairness::of_plan(&plan));
    for warning in check::all_warnings(&plan, &[])?
        .into_iter()
        .chain(violations)
    {
        out::error_line(&format!("warning: {warning}"));
    }
    if args.dry_run {
        return tell_plan(&path, &text, json);
    }
    let is_new = !path.exists();
    plan_file::write(&path, &text)?;
    if args.plan_only && json {
        return tell_plan(&path, &text, json);
    }
    let run_args = PlanArgs::on_this_host(path, args.run.clone());
    let (plan, again) = (run_args.plan.display(), again(&run_args));
    if args.plan_only {
        say(
            &format!("plan: {plan} (edit it as you like, then: {again})"),
            json,
        );
        return Ok(End::Done);
    }
    say(
        &format!(
            "plan: {plan} (the same again or after an interruption: {again}; to ask more, edit a copy of it)"
        ),
        json,
    );
    let end = run(&run_args, json);
    if end.is_err() && is_new {
        leave_no_plan(&run_args)?;
    }
    end
}

/// Removes the plan of a run that was refused before it began. After an interruption it stays: its command was printed as the one
/// to go on with.
fn leave_no_plan(args: &PlanArgs) -> Result<()> {
    if is_interrupted() || run::has_begun(&run::directory(args)) {
        return Ok(());
    }
    fs::remove_file(&args.plan).with_context(|| format!("cannot remove {}", args.plan.display()))
}

/// For people; standard output is the machine's under `--json`, and the plan's where it is only printed.
fn say(line: &str, is_aside: bool) {
    if is_aside {
        out::error_line(line);
    } else {
        out::line(line);
    }
}

fn tell_plan(path: &Path, text: &str, json: bool) -> Result<End> {
    if json {
        print_json(&json!({ "plan": path, "text": text }))?;
    } else {
        out::text(text);
    }
    Ok(End::Done)
}

fn kinds(workloads: &[WorkloadText]) -> String {
    let kinds: Vec<&str> = workloads.iter().map(WorkloadText::title).collect();
    kinds.join(", ")
}

/// What is loaded, and the program among it.
fn workloads(
    args: &CompareArgs,
    is_local: bool,
    json: bool,
) -> Result<(Vec<WorkloadText>, Option<Program>)> {
    let mut workloads: Vec<WorkloadText> = Vec::new();
    for word in &args.workload {
        let one = kind(word, is_local, json)?;
        if overview::find(one.kind).is_ok_and(|(_, own)| own.is_of_network()) {
            bail!(
                "workload {word} asks systems on the network, which have addresses and no kernel of ours (bakeoff new {word} writes a \
                 plan for them)"
            );
        }
        if one.kind == "command" {
            bail!(
                "workload command without a program (write it at the end: -- ./my-benchmark ARGUMENTS)"
            );
        }
        if workloads.iter().any(|other| other.kind == one.kind) {
            bail!(
                "workload given twice: {word} (leave one out; a plan may have both under two names)"
            );
        }
        workloads.push(one);
    }
    if args.program.is_empty() {
        if workloads.is_empty() {
            workloads.push(kind(WORKLOAD, is_local, json)?);
        }
        return Ok((workloads, None));
    }
    let program = program::read(&args.program, &args.files, is_local)?;
    workloads.push(program.workload.clone());
    Ok((workloads, Some(program)))
}

/// A workload as its kind proposes it; on this host with the server that is installed, where there is a choice.
fn kind(word: &str, is_local: bool, json: bool) -> Result<WorkloadText> {
    let first = workload(word)?;
    if !is_local {
        return Ok(first);
    }
    let second = WorkloadText::of_kind(word, 1)?;
    for one in [&first, &second] {
        let packages = packages_of(one)?;
        let is_there = at_work(json, |_, task| {
            let mut is_there = true;
            for package in &packages {
                let mut found = false;
                for name in package.split('|') {
                    found = found || local::has(name, task)?;
                }
                is_there = is_there && found;
            }
            Ok(is_there)
        })?;
        if is_there {
            return Ok(one.clone());
        }
    }
    // What is lacking is told with the remedy when the machine is prepared.
    Ok(first)
}

/// Where the plan goes, and its text: beside the run directory, under a name that no other plan has, and no run with other content
/// of the program's files. A plan that asks the same there keeps its seed, so that the same command goes on with its run.
fn place(
    args: &CompareArgs,
    label: &str,
    draft: &mut PlanText,
    files: &[PathBuf],
) -> Result<(PathBuf, String)> {
    let hashes = prepare::hashes(files)?;
    let of_plan = |plan: PathBuf| PlanArgs::on_this_host(plan, args.run.clone());
    let drawn = draft.design.seed;
    let mut text_at = |path: &Path| {
        let before = || plan_file::seed(path);
        draft.design.seed = args.seed.or_else(before).unwrap_or(drawn);
        plan_text::write(draft)
    };
    if let Some(out) = &args.run.out {
        let path = plan_file::beside(out);
        let text = text_at(&path);
        if !plan_file::is_free(&path, &text)? {
            bail!(
                "another plan is there: {} (name another --out, or run that one: {})",
                path.display(),
                again(&of_plan(path.clone()))
            );
        }
        if let Some(name) = changed_file(out, &hashes) {
            bail!(
                "a run with another content of {name} is there: {} (name another --out)",
                out.display()
            );
        }
        return Ok((path, text));
    }
    let name = |number: u32| match number {
        1 => format!("compare-{label}.toml"),
        _ => format!("compare-{label}-{number}.toml"),
    };
    for number in 1.. {
        let plan = of_plan(Path::new("runs").join(name(number)));
        let text = text_at(&plan.plan);
        let is_same = || changed_file(&run::directory(&plan), &hashes).is_none();
        if plan_file::is_free(&plan.plan, &text)? && is_same() {
            return Ok((plan.plan, text));
        }
    }
    unreachable!("numbers do not end")
}

/// The first file that the run in a directory began with another content of. What has no journal has not begun; what is
/// damaged is told when it is gone on with.
fn changed_file<'h>(dir: &Path, hashes: &'h [(String, String)]) -> Option<&'h str> {
    let entries = journal::read(dir).ok()?;
    let Event::Opened(opening) = &entries.first()?.event else {
        return None;
    };
    let is_changed = |(name, sha): &&(String, String)| opening.inputs.get(name) != Some(sha);
    let (name, _) = hashes.iter().find(is_changed)?;
    Some(name)
}
