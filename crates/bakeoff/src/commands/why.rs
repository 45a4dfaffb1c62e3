//! `why`: what made the difference between two arms of a run whose trials were profiled.

mod confirm;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use plan::MachineKind;
use record::rundir;
use record::rundir::Run;
use record::verdict::why::Why;

use super::explained::{self, Asked, Loaded};
use super::report::width;
use super::{End, print_json};
use crate::cli::WhyArgs;
use crate::out;

/// Explains each arm's difference on each workload that is asked about.
pub(super) fn why(args: &WhyArgs, json: bool) -> Result<End> {
    if let Some(what) = &args.confirm {
        return confirm::confirm(args, what, json);
    }
    let run = rundir::load(&args.dir, &workload::check)?;
    refuse_unknown(&run, args)?;
    if let Some(number) = args.folded {
        return folded(&args.dir, &run, number);
    }
    let asked = Asked {
        arm: args.arm.as_deref(),
        workload: args.workload.as_deref(),
        metric: args.metric.as_deref(),
        within: args.within.as_deref(),
    };
    let loaded = loaded(&args.dir, &run, asked)?;
    let questions = explained::questions(&run, asked);
    let mut found = Vec::new();
    for question in &questions {
        let answer = match args.within {
            Some(_) => loaded.within(&run, question),
            None => loaded.explain(&run, question),
        };
        match answer {
            Ok(why) => found.push(why),
            // Of one question the reason is the answer; of many, those that can be answered are.
            Err(why) if questions.len() == 1 => bail!("{}", judge::report::unexplained(&why)),
            Err(why) => out::error_line(&explained::unexplained(question, &why)),
        }
    }
    if found.is_empty() {
        return Ok(End::Refused);
    }
    print(&found, args, json)?;
    Ok(End::Done)
}

fn print(found: &[Why], args: &WhyArgs, json: bool) -> Result<()> {
    if json {
        return print_json(&explained::json(found));
    }
    let texts = found.iter().map(|why| {
        if args.markdown {
            judge::report::why_markdown(why)
        } else {
            judge::report::why_terminal(why, width())
        }
    });
    let texts: Vec<String> = texts.collect();
    out::line(texts.join("\n").trim_end());
    Ok(())
}

fn refuse_unknown(run: &Run, args: &WhyArgs) -> Result<()> {
    let arms: Vec<String> = run.plan.arms.iter().map(|arm| arm.name.clone()).collect();
    let mut others = arms.clone();
    others.retain(|arm| *arm != run.plan.baseline);
    let workloads = run.plan.workloads.iter().map(|one| one.id.clone());
    let workloads: Vec<String> = workloads.collect();
    for (what, asked, known) in [
        ("arm", &args.arm, &others),
        ("arm", &args.within, &arms),
        ("workload", &args.workload, &workloads),
    ] {
        if let Some(asked) = asked
            && !known.contains(asked)
        {
            bail!(
                "no such {what} to explain in {}: {asked} (name one of {})",
                args.dir.display(),
                known.join(", ")
            );
        }
    }
    Ok(())
}

/// What there is of the measured trials that are asked about, with one profile at least that can be read; what is wrong with others is told.
fn loaded(dir: &Path, run: &Run, asked: Asked<'_>) -> Result<Loaded> {
    let loaded = explained::load(dir, run, asked);
    if loaded.accounts.is_empty() {
        let remedy = match run.plan.machine.kind {
            MachineKind::Url => "systems on the network are not profiled",
            MachineKind::Qemu | MachineKind::Ssh | MachineKind::Local => {
                judge::report::why_remedy(loaded.reasons.values().copied())
            }
        };
        let reasons: Vec<String> = loaded.lost.into_keys().collect();
        bail!(
            "no profile to explain anything by: {} ({}; {remedy})",
            dir.display(),
            reasons.join("; ")
        );
    }
    let amiss = loaded.lost.iter().chain(&loaded.lacks);
    let amiss: BTreeMap<_, _> = amiss
        .map(|(what, trials)| (what.clone(), trials.clone()))
        .collect();
    explained::tell(&amiss, run);
    Ok(loaded)
}

/// One trial's stacks with their instructions, a line each.
fn folded(dir: &Path, run: &Run, number: u32) -> Result<End> {
    let Some(record) = explained::measured(run).find(|record| record.trial.number == number) else {
        bail!(
            "no measured trial of that number: {number} (bakeoff list names runs, trials/ has their numbers)"
        );
    };
    let series = explained::series(run);
    let profile = explained::profile(dir, series, record).map_err(|lost| lost.why)?;
    for line in profiler::folded::lines(&profile) {
        out::line(&line);
    }
    Ok(End::Done)
}
