//! `why`: explains the difference between two arms of a run with profiles.

mod confirm;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use plan::MachineKind;
use record::rundir;
use record::rundir::Run;
use record::verdict::why::Why;

use super::explained::{self, LoadedProfiles, Selection};
use super::report::width;
use super::{End, print_json};
use crate::cli::WhyArgs;
use crate::out;

/// Explains the differences that the user selected.
pub(super) fn why(args: &WhyArgs, json: bool) -> Result<End> {
    if let Some(what) = &args.confirm {
        return confirm::confirm(args, what, json);
    }
    let run = rundir::load(&args.dir, &workload::check)?;
    check_names(&run, args)?;
    if let Some(number) = args.folded {
        return print_folded(&args.dir, &run, number);
    }
    let selection = Selection {
        arm: args.arm.as_deref(),
        workload: args.workload.as_deref(),
        metric: args.metric.as_deref(),
        within: args.within.as_deref(),
    };
    let loaded = load_profiles(&args.dir, &run, selection)?;
    let questions = explained::questions(&run, selection);
    let mut whys = Vec::new();
    for question in &questions {
        let answer = match args.within {
            Some(_) => loaded.within(&run, question),
            None => loaded.explain(&run, question),
        };
        match answer {
            Ok(why) => whys.push(why),
            // A single question without an answer is an error; of several, the answered ones are printed.
            Err(why) if questions.len() == 1 => bail!("{}", judge::report::unexplained(&why)),
            Err(why) => out::error_line(&explained::unexplained_line(question, &why)),
        }
    }
    if whys.is_empty() {
        return Ok(End::Refused);
    }
    print(&whys, args, json)?;
    Ok(End::Done)
}

fn print(whys: &[Why], args: &WhyArgs, json: bool) -> Result<()> {
    if json {
        return print_json(&explained::json(whys));
    }
    let texts = whys.iter().map(|why| {
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

fn check_names(run: &Run, args: &WhyArgs) -> Result<()> {
    let arms: Vec<String> = run.plan.arms.iter().map(|arm| arm.name.clone()).collect();
    let mut others = arms.clone();
    others.retain(|arm| *arm != run.plan.baseline);
    let workloads = run.plan.workloads.iter();
    let workloads: Vec<String> = workloads.map(|workload| workload.id.clone()).collect();
    for (what, name, known) in [
        ("arm", &args.arm, &others),
        ("arm", &args.within, &arms),
        ("workload", &args.workload, &workloads),
    ] {
        if let Some(name) = name
            && !known.contains(name)
        {
            bail!(
                "no such {what} to explain in {}: {name} (name one of {})",
                args.dir.display(),
                known.join(", ")
            );
        }
    }
    Ok(())
}

/// Loads the profiles that the selection needs, and prints the problems of unusable ones.
///
/// # Errors
/// No profile can be used.
fn load_profiles(dir: &Path, run: &Run, selection: Selection<'_>) -> Result<LoadedProfiles> {
    let loaded = explained::load(dir, run, selection);
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
    let mut problems: BTreeMap<_, _> = loaded.lost.clone();
    problems.extend(loaded.lacks.clone());
    explained::print_problems(&problems, run);
    Ok(loaded)
}

/// Prints one trial's stacks with their instructions, one line each.
fn print_folded(dir: &Path, run: &Run, number: u32) -> Result<End> {
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
