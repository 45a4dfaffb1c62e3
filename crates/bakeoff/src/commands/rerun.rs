//! `rerun`: runs a bundle's plan again with the same kernels, and compares both runs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base::input::text::shell_word;
use judge::topics::agreement::find::{Outcome, compare, overall};
use judge::topics::agreement::tell;
use record::journal::Opening;
use record::rundir::Run;

use super::bundle::OpenBundle;
use super::report::width;
use super::run::{self, RunSettings};
use super::{End, watch_signals};
use crate::cli::bundle::RerunArgs;
use crate::json_lines;
use crate::lab::Finish;
use crate::out;
use crate::prepare::Sources;

/// Inputs that a repetition may have in another version: they are rebuilt on each host.
const MAY_DIFFER: [&str; 2] = ["bakeoff's binary", "image"];

/// Runs or resumes the repetition, and compares it with the bundle's run.
pub(super) fn rerun(args: &RerunArgs, json: bool) -> Result<End> {
    let bundle = OpenBundle::open(&args.bundle, args.signers.as_deref())?;
    let before = bundle.judge()?;
    if !json {
        for line in bundle.lines() {
            out::line(&line);
        }
    }
    let dir = match &args.out {
        Some(dir) => dir.clone(),
        None => Path::new("runs").join(format!("{}-rerun", bundle.run_name())),
    };
    let place = args.files.as_deref().unwrap_or(Path::new(""));
    let settings = RunSettings {
        // Paths in a plan start from its directory.
        file: &place.join("plan.toml"),
        sources: Sources {
            refresh: false,
            qemu: args.emulator.named(),
            second_model: None,
        },
        interrupted: watch_signals()?,
        jobs: args.jobs,
        json,
        night_slot: None,
        interim_analyses: run::InterimAnalyses::Shown,
    };
    let text = before.run.plan_text.clone();
    let opening = &before.run.opening;
    let finish = run::repeat(&settings, text, &dir, &|now| check_inputs(&before.run, now))
        .with_context(|| format!("bundle {}", args.bundle.display()))?;
    if finish == Finish::Interrupted {
        bail!(
            "interrupted; what has ended is kept: go on with {}",
            resume_command(args, &dir)
        );
    }
    let after = super::report::Report::read(&dir)?;
    let rows = compare(before.judged(), after.judged());
    let outcome = overall(&rows);
    if json {
        let line = json_lines::agreement(&bundle.json()?, &dir, outcome, &rows);
        out::json(&line.to_string());
    } else {
        after.print();
        let form = doc::terminal::Form {
            width: width(),
            has_colour: out::has_colour(),
        };
        let blocks = tell::blocks(&rows, before.run.plan.design.margin);
        out::coloured(&doc::terminal::render(&blocks, form));
        for name in changed_freely(opening, &after.run.opening) {
            out::line(&format!("{name}: another version than in the bundle"));
        }
    }
    Ok(match outcome {
        Outcome::Agrees => End::Done,
        Outcome::Disagrees => End::Tripped,
        Outcome::Undecided | Outcome::Missing => End::Unanswered,
    })
}

/// Refuses kernels and files other than those of the bundle.
fn check_inputs(run: &Run, now: &Opening) -> Result<()> {
    let mut changes = Vec::new();
    for (name, sha256) in &run.opening.inputs {
        let is_same = now.inputs.get(name) == Some(sha256);
        if !is_same && !MAY_DIFFER.contains(&&**name) {
            let found = now.inputs.get(name).map_or("missing", |sha256| sha256);
            let version = kernel_version(run, name).unwrap_or_default();
            changes.push(format!(
                "{name} has SHA-256 {found:.12}, and {sha256:.12}{version} in the bundle"
            ));
        }
    }
    let is_new = |name: &&String| {
        !run.opening.inputs.contains_key(*name) && !MAY_DIFFER.contains(&name.as_str())
    };
    for name in now.inputs.keys().filter(is_new) {
        changes.push(format!("{name} has no SHA-256 in the bundle"));
    }
    if changes.is_empty() {
        return Ok(());
    }
    bail!(
        "not the same inputs: {} (a kernel must be in the cache, or on the mirror that BAKEOFF_DEBIAN_MIRROR names; files must be \
         below the directory of --files)",
        changes.join("; ")
    )
}

/// The version of the kernel that an input is.
fn kernel_version(run: &Run, input: &str) -> Option<String> {
    let arm = input.strip_prefix("kernel of arm ")?;
    let mut trials = run.attempts.iter().zip(&run.facts);
    let (_, facts) = trials.find(|(attempt, facts)| attempt.trial.arm == arm && facts.is_some())?;
    let version = facts.as_ref()?.values.get("/proc/version")?;
    let release = version.split(' ').nth(2)?;
    Some(format!(" ({release})"))
}

/// Inputs that differ and may.
fn changed_freely(before: &Opening, now: &Opening) -> Vec<&'static str> {
    let differs = |name: &&str| before.inputs.get(*name) != now.inputs.get(*name);
    MAY_DIFFER.into_iter().filter(differs).collect()
}

fn resume_command(args: &RerunArgs, dir: &Path) -> String {
    let word = |path: &Path| shell_word(&path.to_string_lossy());
    let mut words = vec!["bakeoff rerun".into(), word(&args.bundle)];
    words.extend(["--out".into(), word(dir)]);
    let signers: Option<&PathBuf> = args.signers.as_ref();
    words.extend(signers.map(|file| format!("--signers {}", word(file))));
    words.extend(
        args.files
            .as_ref()
            .map(|dir| format!("--files {}", word(dir))),
    );
    let typed = args.emulator.named().filter(|_| args.emulator.is_typed());
    words.extend(typed.map(|path| format!("--qemu {}", word(&path))));
    words.join(" ")
}
