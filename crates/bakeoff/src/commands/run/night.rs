//! `run PLAN PLAN...`: a nightly run of several plans, with a run directory for each below one directory.
//!
//! ```text
//! read and check all plans -> for each plan: run, resume, or skip if it is over -> write the index after each -> print the result
//! ```
//! On this host plans run one after another, because two would disturb each other. On a cluster several plans have blocks in
//! the queue at a time. Each has a submitter on a separate thread, which waits only for its plan's blocks. If one plan fails,
//! the others still run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};
use base::input::text::shell_word;
use base::input::tree::Tree;
use indicatif::MultiProgress;
use judge::topics::night::find::{Rates, error_rate_of_plans};
use machine::clock::{Clock as _, HostClock};
use record::night::{INDEX, Index, NIGHT, Night, NightPlan, VERSION};
use record::rundir;
use record::rundir::RunDir;

use super::{
    CheckedPlan, End, InterimAnalyses, NightSlot, RunSettings, calibration, directory, fleet,
    json_line, nothing_to_compare, read_checked, refuse_another_plan, resume_options, run,
    written_report,
};
use crate::cli::{PlanArgs, RunArgs};
use crate::commands::show::index;
use crate::commands::show::index::NightDir;
use crate::commands::watch_signals;
use crate::json_lines;
use crate::lab::Finish;
use crate::lab::repeat::Repeated;
use crate::out;
use crate::prepare::Sources;

/// Default number of plans with blocks in a cluster's queue at a time.
const PLANS_AT_A_TIME: u16 = 4;

/// Runs one plan, or several.
pub(in crate::commands) fn run_plans(args: &RunArgs, json: bool) -> Result<End> {
    let [plan] = args.plans.as_slice() else {
        return run_night(args, json);
    };
    let night = &args.night;
    let typed = [
        (night.family_wise, "--family-wise"),
        (night.rates.error_rate.is_some(), "--error-rate"),
        (night.rates.fdr.is_some(), "--fdr"),
        (night.plans_at_a_time.is_some(), "--plans-at-a-time"),
    ];
    if let Some((_, option)) = typed.iter().find(|(is_typed, _)| *is_typed) {
        bail!(
            "{option} belongs to several plans: one is given, {} (leave it out)",
            plan.display()
        );
    }
    run(&plan_args(args, plan, args.options.out.clone(), None), json)
}

fn plan_args(
    args: &RunArgs,
    plan: &Path,
    out: Option<PathBuf>,
    most_error_rate: Option<f64>,
) -> PlanArgs {
    let mut options = args.options.clone();
    options.out = out;
    PlanArgs {
        plan: plan.to_path_buf(),
        options,
        fleet: args.fleet.clone(),
        most_error_rate,
    }
}

/// The state that all plans of a night share.
struct NightRun<'n> {
    args: &'n RunArgs,
    out: &'n Tree,
    json: bool,
    rates: Rates,
    interrupted: Arc<AtomicBool>,
    bars: MultiProgress,
    preparing: Mutex<()>,
    /// The plans' names and failures. It is locked while the index is written.
    night: Mutex<Night>,
    /// Index of the next plan.
    next: Mutex<usize>,
}

fn run_night(args: &RunArgs, json: bool) -> Result<End> {
    let out = refuse_options(args)?;
    let named = named_plans(&args.plans)?;
    let most_error_rate = most_error_rate(args, &named, &out)?;
    let plans = all_plan_args(args, &named, &out, most_error_rate);
    let checked = read_all(&plans, check_directory)?;
    let tree = Tree::to_write(&out).with_context(|| format!("cannot create {}", out.display()))?;
    let _lock = lock(&tree)?;
    let plans = named.iter().zip(&checked);
    let plans = plans.map(|((name, _), checked)| NightPlan {
        name: name.clone(),
        planned: checked.plan.comparisons() as u32,
        failure: None,
    });
    let begun = match Night::read(&out)? {
        Some(before) if !before.begun.is_empty() => before.begun,
        _ => HostClock::start().stamp(),
    };
    let night = Night {
        version: VERSION,
        begun,
        plans: plans.collect(),
    };
    let night_run = NightRun {
        args,
        out: &tree,
        json,
        rates: index::rates(&args.night.rates),
        interrupted: watch_signals()?,
        bars: MultiProgress::new(),
        preparing: Mutex::default(),
        night: Mutex::new(night),
        next: Mutex::default(),
    };
    night_run.update(None)?;
    let workers = if args.fleet.slurm {
        usize::from(args.night.plans_at_a_time.unwrap_or(PLANS_AT_A_TIME))
    } else {
        1
    };
    let results: Vec<Result<()>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers.min(checked.len()))
            .map(|_| scope.spawn(|| night_run.work(&checked)))
            .collect();
        let joined = workers.into_iter().map(thread::ScopedJoinHandle::join);
        joined
            .map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    results.into_iter().collect::<Result<()>>()?;
    end(&night_run)
}

/// Prints the result of the night.
fn end(night_run: &NightRun<'_>) -> Result<End> {
    let index = night_run.update(None)?;
    if night_run.json {
        let line = json_lines::night(&index, &index::page_path(&night_run.out.path()));
        out::json(&line.to_string());
    } else {
        index::print(&night_run.out.path(), &index);
    }
    if night_run.interrupted.load(Ordering::Relaxed) {
        bail!(
            "interrupted; what has ended is kept: go on with {}",
            resume_command(night_run.args)
        );
    }
    let end = index::gate_end(&index, night_run.args.options.fail_on);
    let night = night_run.lock_night();
    let failed = night.plans.iter().filter(|plan| plan.failure.is_some());
    let failed: Vec<&str> = failed.map(|plan| plan.name.as_str()).collect();
    match end {
        End::Done if !failed.is_empty() => bail!(
            "{} of {} plans failed: {} (what is wrong is told above; the same command tries them again)",
            failed.len(),
            night_run.args.plans.len(),
            failed.join(", ")
        ),
        end => Ok(end),
    }
}

/// Refuses options that several plans cannot have. Returns the directory of their runs.
fn refuse_options(args: &RunArgs) -> Result<PathBuf> {
    let options = &args.options;
    if args.fleet.block.is_some() {
        bail!(
            "--block belongs to one plan: {} are given",
            args.plans.len()
        );
    }
    if options.more_blocks.is_some() {
        bail!(
            "--more-blocks belongs to one run: {} plans are given (name one, with its run directory)",
            args.plans.len()
        );
    }
    if options.timings {
        bail!(
            "--timings belongs to one run: {} plans are given (leave it out)",
            args.plans.len()
        );
    }
    index::check_gate(options.fail_on, "bakeoff show DIR/PLAN")?;
    let Some(out) = &options.out else {
        bail!(
            "{} plans and no directory for their runs (name one, such as --out nights/2026-11-23)",
            args.plans.len()
        );
    };
    if rundir::is_run(out) {
        bail!(
            "the directory of a run, not of several: {} (name another --out)",
            out.display()
        );
    }
    Ok(out.clone())
}

/// Each plan with its name, which is also that of its run directory.
fn named_plans(plans: &[PathBuf]) -> Result<Vec<(String, PathBuf)>> {
    let mut known: BTreeMap<String, &Path> = BTreeMap::new();
    let mut named = Vec::new();
    for plan in plans {
        let stem = plan.file_stem().unwrap_or(plan.as_os_str());
        let name = stem.to_string_lossy().into_owned();
        if let Some(other) = known.insert(name.clone(), plan) {
            bail!(
                "two plans of one name, which their run directories would share: {} and {} (rename one)",
                other.display(),
                plan.display()
            );
        }
        named.push((name, plan.clone()));
    }
    Ok(named)
}

/// The error rate that each plan may have with `--family-wise`.
fn most_error_rate(args: &RunArgs, named: &[(String, PathBuf)], out: &Path) -> Result<Option<f64>> {
    if !args.night.family_wise {
        return Ok(None);
    }
    let plans = all_plan_args(args, named, out, None);
    let all = read_all(&plans, |_| Ok(()))?;
    let family = all.iter().map(|checked| checked.plan.comparisons()).sum();
    let max_error_rate = error_rate_of_plans(index::rates(&args.night.rates).gate, family);
    let plans = all.iter();
    let mistakes = plans.filter_map(|checked| too_few_blocks(checked, max_error_rate));
    refuse_mistakes(&mistakes.collect::<Vec<_>>())?;
    Ok(Some(max_error_rate))
}

fn all_plan_args(
    args: &RunArgs,
    named: &[(String, PathBuf)],
    out: &Path,
    most_error_rate: Option<f64>,
) -> Vec<PlanArgs> {
    let with_args = |(name, plan): &(String, PathBuf)| {
        plan_args(args, plan, Some(out.join(name)), most_error_rate)
    };
    named.iter().map(with_args).collect()
}

/// The error message for a plan with too few blocks to show anything at an error rate.
fn too_few_blocks(checked: &CheckedPlan<'_>, max_error_rate: f64) -> Option<String> {
    let design = &checked.plan.design;
    // The primary metric has half of the error rate; the other metrics share the rest.
    let primary_error_rate = max_error_rate.min(design.error_rate) / 2.0;
    let is_enough = |max_blocks: u32| {
        let design = plan::Design {
            max_blocks,
            ..design.clone()
        };
        stats::interim::smallest(primary_error_rate, &design).is_some()
    };
    if is_enough(design.max_blocks) {
        return None;
    }
    let least = (design.max_blocks..=plan::MOST_BLOCKS).find(|blocks| is_enough(*blocks))?;
    Some(format!(
        "{}: --family-wise gives it an error rate of {:.3} %, at which {} blocks can show nothing (max_blocks = {least} or more in [design], or \
         leave --family-wise out)",
        checked.args.plan.display(),
        max_error_rate * 100.0,
        design.max_blocks
    ))
}

/// Reads and checks all plans. An error reports the mistakes of all of them.
fn read_all(
    plans: &[PlanArgs],
    check: impl Fn(&CheckedPlan<'_>) -> Result<()>,
) -> Result<Vec<CheckedPlan<'_>>> {
    let (mut all, mut mistakes) = (Vec::new(), Vec::new());
    for args in plans {
        let checked = read_checked(args).and_then(|checked| check(&checked).map(|()| checked));
        match checked {
            Ok(checked) => all.push(checked),
            Err(why) => mistakes.push(with_file(&args.plan, &why)),
        }
    }
    refuse_mistakes(&mistakes)?;
    Ok(all)
}

/// Refuses a plan whose run directory belongs to another plan, or that the cluster cannot run.
fn check_directory(checked: &CheckedPlan<'_>) -> Result<()> {
    let place = directory(checked.args);
    if place.join("plan.toml").exists() {
        refuse_another_plan(&place, &checked.text)?;
    }
    if checked.args.fleet.slurm {
        fleet::check_cluster_plan(&checked.plan, checked.args)?;
    }
    Ok(())
}

/// An error message with the plan's file name, which most messages already have.
fn with_file(plan: &Path, why: &anyhow::Error) -> String {
    let (plan, why) = (plan.display().to_string(), format!("{why:#}"));
    if why.contains(&plan) {
        why
    } else {
        format!("{plan}: {why}")
    }
}

fn refuse_mistakes(mistakes: &[String]) -> Result<()> {
    if mistakes.is_empty() {
        return Ok(());
    }
    bail!("{}\n(nothing was begun)", mistakes.join("\n"))
}

/// Locks the night's directory, so that no other bakeoff runs its plans meanwhile.
fn lock(out: &Tree) -> Result<File> {
    let path = out.path();
    let file = out
        .lock_file("night.lock")
        .with_context(|| format!("cannot create {}", path.join("night.lock").display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!(
            "another bakeoff is at work on this night: {} (wait for it, or name another directory with --out)",
            path.display()
        ),
        Err(TryLockError::Error(why)) => Err(why.into()),
    }
}

impl NightRun<'_> {
    /// Runs plans until none is left.
    fn work(&self, plans: &[CheckedPlan<'_>]) -> Result<()> {
        loop {
            let index = {
                let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
                *next += 1;
                *next - 1
            };
            let Some(checked) = plans.get(index) else {
                return Ok(());
            };
            if self.interrupted.load(Ordering::Relaxed) {
                return Ok(());
            }
            let name = self.lock_night().plans[index].name.clone();
            let title = format!("{name}: plan {} of {}", index + 1, plans.len());
            let failure = self.run_plan(checked, &name, &title);
            let failure = failure.unwrap_or_else(|why| Some(format!("{why:#}")));
            if let Some(failure) = &failure {
                self.print_line(&format!("{name}: failed: {failure}"));
            }
            self.update(failure.map(|failure| (index, failure)))?;
        }
    }

    fn lock_night(&self) -> MutexGuard<'_, Night> {
        self.night.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one plan, unless it is over. Returns why it has no result, if it has none.
    fn run_plan(
        &self,
        checked: &CheckedPlan<'_>,
        name: &str,
        title: &str,
    ) -> Result<Option<String>> {
        let dir = directory(checked.args);
        if is_over(&dir) && checked.args.options.models.is_none() {
            self.print_line(&format!("{title}: is over, {}", dir.display()));
            return self.report_run(checked, name);
        }
        self.print_line(&format!("{title}: {}", dir.display()));
        let settings = RunSettings {
            file: &checked.args.plan,
            sources: Sources {
                refresh: checked.args.options.refresh,
                qemu: checked.args.options.emulator.named(),
                second_model: checked.args.options.models.clone(),
            },
            interrupted: Arc::clone(&self.interrupted),
            jobs: checked.args.options.jobs,
            json: self.json,
            interim_analyses: InterimAnalyses::Shown,
            night_slot: Some(NightSlot {
                name,
                bars: &self.bars,
                preparing: &self.preparing,
            }),
        };
        let finish = checked.execute(&settings).map(|(_, finish)| finish);
        match finish {
            Ok(Finish::Complete) => self.report_run(checked, name),
            Ok(Finish::Interrupted) if rundir::is_not_begun(&dir) => Ok(None),
            // The run may still get a result when it is resumed.
            Ok(Finish::Interrupted) => self.report_run(checked, name).map(|_| None),
            // Ctrl-C causes failures, which do not count. A repeated failure does.
            Err(why) if self.interrupted.load(Ordering::Relaxed) && !why.is::<Repeated>() => {
                Ok(None)
            }
            Err(why) => Err(why),
        }
    }

    /// Writes the report of an ended or interrupted run. Returns why it has no result, if it has none.
    fn report_run(&self, checked: &CheckedPlan<'_>, name: &str) -> Result<Option<String>> {
        let dir = RunDir::open(&directory(checked.args), &checked.text)?;
        let report = written_report(&dir)?;
        if self.json {
            let mut line = json_line(&report);
            line["plan"] = name.into();
            out::json(&line.to_string());
        }
        let (run, judgement) = (&report.run, &report.judgement);
        if !checked.args.options.a_a {
            calibration::add_to_history(run, judgement)?;
        }
        Ok(nothing_to_compare(run, judgement))
    }

    /// Records a plan's failure, if any, and writes the index.
    fn update(&self, failed: Option<(usize, String)>) -> Result<Index> {
        let mut night = self.lock_night();
        if let Some((index, failure)) = failed {
            night.plans[index].failure = Some(failure);
        }
        rundir::replace(self.out, NIGHT, &serde_json::to_vec_pretty(&*night)?)?;
        let out = self.out.path();
        let dir = out
            .canonicalize()
            .with_context(|| format!("cannot find {}", out.display()))?;
        let night_dir = NightDir {
            dir,
            only: BTreeSet::new(),
        };
        index::write(self.out, &[night_dir], self.rates)
            .with_context(|| format!("cannot write {INDEX}"))
    }

    /// Prints a permanent line above the progress lines.
    fn print_line(&self, line: &str) {
        self.bars.suspend(|| out::error_line(line));
    }
}

/// Whether a run is over.
fn is_over(dir: &Path) -> bool {
    let run = rundir::is_run(dir).then(|| rundir::load(dir, &workload::check));
    run.is_some_and(|run| run.is_ok_and(|run| run.closed().is_some()))
}

/// The shell command that resumes a night.
fn resume_command(args: &RunArgs) -> String {
    let mut words = vec!["bakeoff run".to_string()];
    words.extend(
        args.plans
            .iter()
            .map(|plan| shell_word(&plan.to_string_lossy())),
    );
    words.extend(resume_options(&args.options, &args.fleet));
    let night = &args.night;
    if night.family_wise {
        words.push("--family-wise".into());
    }
    let rates = &night.rates;
    for (option, rate) in [("--error-rate", rates.error_rate), ("--fdr", rates.fdr)] {
        words.extend(rate.map(|rate| format!("{option} {}%", rate * 100.0)));
    }
    let at_a_time = night.plans_at_a_time;
    words.extend(at_a_time.map(|count| format!("--plans-at-a-time {count}")));
    words.join(" ")
}
