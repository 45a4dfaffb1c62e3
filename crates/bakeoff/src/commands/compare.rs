//! `compare`: answers a first question without a plan file.
//!
//! ```text
//! options -> arms (kernels, values of a sysctl, command lines) + workloads (kinds, a program)
//!         -> plan as text, checked like any plan -> written beside the run directory -> run
//! ```
//! It runs exactly that plan, so the user can ask more by editing a copy of it.

mod arms;
mod program;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use machine::local;
use record::journal;
use record::journal::Event;
use serde_json::json;

use super::new::{recipe, required_packages, workload};
use super::run::{self, resume_command, run};
use super::{End, check, check_plan, is_interrupted, plan_file, print_json, with_progress};
use crate::cli::PlanArgs;
use crate::cli::compare::{CompareArgs, ERROR_RATE};
use crate::cli::judge::MARGIN;
use crate::commands::compare::program::Program;
use crate::out;
use crate::plan_text;
use crate::plan_text::{DesignText, Place, PlanText, WorkloadText};
use crate::prepare;
use workload::overview;

/// The default workload.
const WORKLOAD: &str = "web-static";

/// Writes a plan for the options, and runs it.
pub(super) fn compare(args: &CompareArgs, json: bool) -> Result<End> {
    let arms = arms::read(args, json)?;
    let is_local = args.kernels.is_empty() && args.kernel.is_none();
    let (workloads, program) = workloads(args, is_local, json)?;
    let machine = if is_local {
        Place::Host
    } else {
        Place::Guests {
            arch: args.arch.typed(),
            recipe: recipe(&workloads)?,
            suite: program.as_ref().and_then(|program| program.suite.clone()),
        }
    };
    let mut draft = PlanText {
        head: vec![
            "Written by bakeoff compare. To ask more, edit it before it runs, later a copy of it (docs/reference/plan.md has every key),".into(),
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
    let (path, text) = choose_path(args, &arms.label, &mut draft, files)?;
    let notes = program.map(|program| program.notes);
    for note in arms.notes.iter().chain(notes.iter().flatten()) {
        print_line(note, json || args.dry_run);
    }
    let qemu = args.run.emulator.named();
    let (_, mut plan) = check_plan(&path, text.clone(), qemu.as_deref())?;
    if args.run.a_a {
        // In an A/A run all arms are copies of the baseline, so warnings about identical arms would be wrong.
        plan.arms.truncate(1);
    }
    if !args.run.refresh {
        check::check_kernels_exist(&plan, &path)?;
    }
    let failed_checks = judge::report::failed_checks(&judge::topics::fairness::of_plan(&plan));
    for warning in check::all_warnings(&plan, &[])?
        .into_iter()
        .chain(failed_checks)
    {
        out::error_line(&format!("warning: {warning}"));
    }
    if args.dry_run {
        return print_plan(&path, &text, json);
    }
    let is_new = !path.exists();
    plan_file::write(&path, &text)?;
    if args.plan_only && json {
        return print_plan(&path, &text, json);
    }
    let run_args = PlanArgs::on_this_host(path, args.run.clone());
    let (plan, resume_command) = (run_args.plan.display(), resume_command(&run_args));
    if args.plan_only {
        print_line(
            &format!("plan: {plan} (edit it as you like, then: {resume_command})"),
            json,
        );
        return Ok(End::Done);
    }
    print_line(
        &format!(
            "plan: {plan} (the same again or after an interruption: {resume_command}; to ask more, edit a copy of it)"
        ),
        json,
    );
    let end = run(&run_args, json);
    if end.is_err() && is_new {
        remove_unstarted_plan(&run_args)?;
    }
    end
}

/// Removes the plan of a run that failed before it began. After an interruption it stays, because the printed command
/// resumes it.
fn remove_unstarted_plan(args: &PlanArgs) -> Result<()> {
    if is_interrupted() || run::has_begun(&run::directory(args)) {
        return Ok(());
    }
    fs::remove_file(&args.plan).with_context(|| format!("cannot remove {}", args.plan.display()))
}

/// Prints a line for the user, on standard error if standard output has JSON or a plan.
fn print_line(line: &str, on_stderr: bool) {
    if on_stderr {
        out::error_line(line);
    } else {
        out::line(line);
    }
}

fn print_plan(path: &Path, text: &str, json: bool) -> Result<End> {
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

/// The workloads, with the user's program, if any, as the last one.
fn workloads(
    args: &CompareArgs,
    is_local: bool,
    json: bool,
) -> Result<(Vec<WorkloadText>, Option<Program>)> {
    let mut workloads: Vec<WorkloadText> = Vec::new();
    for word in &args.workload {
        let workload = workload_text(word, is_local, json)?;
        if overview::find(workload.kind).is_ok_and(|(_, overview)| overview.is_of_network()) {
            bail!(
                "workload {word} asks systems on the network, which have addresses and no kernel of ours (bakeoff new {word} writes a \
                 plan for them)"
            );
        }
        if workload.kind == "command" {
            bail!(
                "workload command without a program (write it at the end: -- ./my-benchmark ARGUMENTS)"
            );
        }
        if workloads.iter().any(|other| other.kind == workload.kind) {
            bail!(
                "workload given twice: {word} (leave one out; a plan may have both under two names)"
            );
        }
        workloads.push(workload);
    }
    if args.program.is_empty() {
        if workloads.is_empty() {
            workloads.push(workload_text(WORKLOAD, is_local, json)?);
        }
        return Ok((workloads, None));
    }
    let program = program::read(&args.program, &args.files, is_local)?;
    workloads.push(program.workload.clone());
    Ok((workloads, Some(program)))
}

/// A workload with proposed values. On this host, the proposed server is one that is installed.
fn workload_text(word: &str, is_local: bool, json: bool) -> Result<WorkloadText> {
    let first = workload(word)?;
    if !is_local {
        return Ok(first);
    }
    let second = WorkloadText::of_kind(word, 1)?;
    for workload in [&first, &second] {
        let packages = required_packages(workload)?;
        let all_installed = with_progress(json, |_, task| {
            let mut all_installed = true;
            for package in &packages {
                let mut is_installed = false;
                for name in package.split('|') {
                    is_installed = is_installed || local::has(name, task)?;
                }
                all_installed = all_installed && is_installed;
            }
            Ok(all_installed)
        })?;
        if all_installed {
            return Ok(workload.clone());
        }
    }
    // The preparation of the machine reports the missing packages.
    Ok(first)
}

/// The path and text of the plan. The path is beside the run directory, and is not taken by another plan or by a run with
/// other contents of the program's files. An existing plan of the same content keeps its seed, so the same command resumes
/// its run.
fn choose_path(
    args: &CompareArgs,
    label: &str,
    draft: &mut PlanText,
    files: &[PathBuf],
) -> Result<(PathBuf, String)> {
    let hashes = prepare::file_hashes(files)?;
    let plan_args = |plan: PathBuf| PlanArgs::on_this_host(plan, args.run.clone());
    let drawn_seed = draft.design.seed;
    let mut text_at = |path: &Path| {
        let existing_seed = || plan_file::seed(path);
        draft.design.seed = args.seed.or_else(existing_seed).unwrap_or(drawn_seed);
        plan_text::write(draft)
    };
    if let Some(out) = &args.run.out {
        let path = plan_file::beside(out);
        let text = text_at(&path);
        if !plan_file::is_free(&path, &text)? {
            bail!(
                "another plan is there: {} (name another --out, or run that one: {})",
                path.display(),
                resume_command(&plan_args(path.clone()))
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
        let plan = plan_args(Path::new("runs").join(name(number)));
        let text = text_at(&plan.plan);
        let is_same = || changed_file(&run::directory(&plan), &hashes).is_none();
        if plan_file::is_free(&plan.plan, &text)? && is_same() {
            return Ok((plan.plan, text));
        }
    }
    unreachable!("numbers do not end")
}

/// The first file whose content changed since the run in a directory began; `None` if there is no run. A damaged journal is
/// reported when the run is resumed.
fn changed_file<'h>(dir: &Path, hashes: &'h [(String, String)]) -> Option<&'h str> {
    let entries = journal::read(dir).ok()?;
    let Event::Opened(opening) = &entries.first()?.event else {
        return None;
    };
    let is_changed = |(name, sha): &&(String, String)| opening.inputs.get(name) != Some(sha);
    let (name, _) = hashes.iter().find(is_changed)?;
    Some(name)
}
