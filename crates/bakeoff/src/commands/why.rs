//! `why`: what made the difference between two arms of a run whose trials were profiled.

mod account;
mod confirm;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use plan::WorkloadPlan;
use profiler::profile::Profile;
use record::account::{Account, WorkUnit};
use record::metric::Figure;
use record::rundir::{self, ProfileNote, Run, TrialRecord};
use record::trial::Outcome;
use record::verdict::why::Why;
use serde_json::Value;
use verdict::explain::{self, Question};

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
    let accounts = accounts(&args.dir, &run)?;
    let questions = questions(&run, args);
    let mut explained = Vec::new();
    for question in &questions {
        let explained_one = match args.within {
            Some(_) => explain::within(&run, &accounts, question),
            None => explain::explain(&run, &accounts, question),
        };
        match explained_one {
            Ok(why) => explained.push(why),
            // Of one question the reason is the answer; of many, those that can be answered are.
            Err(why) if questions.len() == 1 => bail!("{}", ::report::unexplained(&why)),
            Err(why) => out::error_line(&format!(
                "{}, {}: {}",
                question.workload,
                question.arm,
                ::report::unexplained(&why)
            )),
        }
    }
    if explained.is_empty() {
        return Ok(End::Refused);
    }
    print(&explained, args, json)?;
    Ok(End::Done)
}

fn print(explained: &[Why], args: &WhyArgs, json: bool) -> Result<()> {
    if json {
        let all: Vec<Value> = explained.iter().map(::report::why_json).collect();
        return print_json(&Value::Array(all));
    }
    let texts = explained.iter().map(|why| {
        if args.markdown {
            ::report::why_markdown(why)
        } else {
            ::report::why_terminal(why, width())
        }
    });
    let texts: Vec<String> = texts.collect();
    out::line(texts.join("\n").trim_end());
    Ok(())
}

/// Every arm but the baseline, or the one whose boots are asked about, on every workload, as far as they are named.
fn questions<'q>(run: &'q Run, args: &'q WhyArgs) -> Vec<Question<'q>> {
    let is_asked =
        |asked: &Option<String>, name: &str| asked.as_deref().is_none_or(|one| one == name);
    let is_one_of_them = |arm: &&str| match &args.within {
        Some(within) => arm == within,
        None => *arm != run.plan.baseline && is_asked(&args.arm, arm),
    };
    let arms = run.plan.arms.iter().map(|arm| arm.name.as_str());
    let arms: Vec<&str> = arms.filter(is_one_of_them).collect();
    let workloads = run.plan.workloads.iter();
    let workloads = workloads.filter(|one| is_asked(&args.workload, &one.id));
    let pairs = workloads.flat_map(|one| arms.iter().map(move |arm| (one.id.as_str(), *arm)));
    let questions = pairs.map(|(workload, arm)| Question {
        workload,
        arm,
        metric: args.metric.as_deref(),
    });
    questions.collect()
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

/// The accounts of all measured trials with a profile that can be read; what is wrong with others is told.
fn accounts(dir: &Path, run: &Run) -> Result<Vec<Account>> {
    let mut accounts = Vec::new();
    let mut lacks: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for record in measured(run) {
        let number = record.trial.number;
        match profile(dir, record) {
            Ok(profile) => {
                for lack in &profile.lacks {
                    lacks.entry(lack.clone()).or_default().push(number);
                }
                accounts.push(account::account(
                    &profile,
                    number,
                    work(run, record, &profile),
                ));
            }
            Err(why) => lacks.entry(format!("{why:#}")).or_default().push(number),
        }
    }
    if accounts.is_empty() {
        let reasons: Vec<String> = lacks.into_keys().collect();
        bail!(
            "no profile to explain anything by: {} ({}; profile a new run: bakeoff run PLAN --why)",
            dir.display(),
            reasons.join("; ")
        );
    }
    let count = measured(run).count();
    for (lack, mut trials) in lacks {
        trials.sort_unstable();
        let trials: Vec<String> = if trials.len() == count {
            vec!["s: all".into()]
        } else {
            trials
                .iter()
                .map(|number| format!(" {number:03}"))
                .collect()
        };
        out::error_line(&format!("{lack} (trial{})", trials.join(",")));
    }
    Ok(accounts)
}

fn measured(run: &Run) -> impl Iterator<Item = &TrialRecord> {
    let attempts = run.attempts.iter();
    attempts.filter(|record| matches!(record.outcome, Outcome::Measured(_)))
}

/// What a trial's counts are divided by: requests where there are any; nothing where the work is the same in each trial, as that of a
/// program mostly is; else seconds of guest time.
fn work(run: &Run, record: &TrialRecord, profile: &Profile) -> (f64, WorkUnit) {
    let Outcome::Measured(measurement) = &record.outcome else {
        return (0.0, WorkUnit::Request);
    };
    if let Some(load) = &measurement.load {
        return (load.served() as f64, WorkUnit::Request);
    }
    let is_time = |figure: &Figure| figure.spec.unit == "s";
    let is_program = |one: &WorkloadPlan| one.id == record.trial.workload && one.kind == "command";
    if measurement.figures.first().is_some_and(is_time) || run.plan.workloads.iter().any(is_program)
    {
        (1.0, WorkUnit::Run)
    } else {
        (profile.ran_ns() as f64 / 1e9, WorkUnit::Second)
    }
}

/// The profile of a trial, as its record says that it was written.
fn profile(dir: &Path, record: &TrialRecord) -> Result<Profile> {
    let sha256 = match &record.profile {
        Some(ProfileNote::Kept { sha256, .. }) => sha256,
        Some(ProfileNote::Missing(why)) => bail!("no profile: {why}"),
        None => bail!("the trials were not profiled"),
    };
    let path = dir.join("trials").join(record.attempt_name());
    let path = path.join(rundir::PROFILE);
    let bytes =
        input::file::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    if rundir::sha256(&bytes) != *sha256 {
        bail!("not the profile that the trial wrote: {}", path.display());
    }
    profiler::format::read(&bytes).with_context(|| path.display().to_string())
}

/// One trial's stacks with their instructions, a line each.
fn folded(dir: &Path, run: &Run, number: u32) -> Result<End> {
    let Some(record) = measured(run).find(|record| record.trial.number == number) else {
        bail!(
            "no measured trial of that number: {number} (bakeoff list names runs, trials/ has their numbers)"
        );
    };
    for line in profiler::folded::lines(&profile(dir, record)?) {
        out::line(&line);
    }
    Ok(End::Done)
}
