//! `run PLAN PLAN...`: a night of several plans, each in a run directory of its own below one directory.
//!
//! ```text
//! read all, refuse all that is wrong -> for each plan: run, or go on, or pass over what is over -> index after each -> what all come to
//! ```
//! On this host plans run one after another, because two would disturb each other. On a cluster several have their blocks in the queue at a
//! time, each with a submitter of its own on a thread: a submitter waits for nothing but its own blocks, and the cluster shares its nodes out.
//! A plan that cannot be run does not keep the others from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    End, Looks, Ready, Reported, Seat, Setting, calibration, directory, fleet, nothing_to_compare,
    options_again, read, refuse_another_plan, run,
};
use crate::cli::{PlanArgs, RunArgs};
use crate::commands::index;
use crate::commands::index::NightDir;
use crate::commands::watch_signals;
use crate::json_lines;
use crate::lab::Finish;
use crate::lab::repeat::Repeated;
use crate::out;
use crate::prepare::Sources;

/// Plans whose blocks are in a cluster's queue at a time, where nothing is typed.
const AT_A_TIME: u16 = 4;

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
    run(&of_plan(args, plan, args.options.out.clone(), None), json)
}

fn of_plan(
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

/// What all plans of a night share.
struct Shared<'n> {
    args: &'n RunArgs,
    out: &'n Tree,
    json: bool,
    rates: Rates,
    interrupted: Arc<AtomicBool>,
    bars: MultiProgress,
    preparing: Mutex<()>,
    /// Names, and what has failed; who writes the index holds it.
    night: Mutex<Night>,
    next: Mutex<usize>,
}

fn run_night(args: &RunArgs, json: bool) -> Result<End> {
    let out = refuse_options(args)?;
    let named = names(&args.plans)?;
    let place = |name: &str| Some(out.join(name));
    let most_error_rate = most_error_rate(args, &named, &out)?;
    let plans: Vec<PlanArgs> = named
        .iter()
        .map(|(name, plan)| of_plan(args, plan, place(name), most_error_rate))
        .collect();
    let ready = read_all(&plans, refuse_place)?;
    let tree = Tree::to_write(&out).with_context(|| format!("cannot create {}", out.display()))?;
    let _lock = lock(&tree)?;
    let of_night = |((name, _), ready): (&(String, PathBuf), &Ready<'_>)| NightPlan {
        name: name.clone(),
        planned: ready.plan.comparisons() as u32,
        failure: None,
    };
    let begun = match Night::read(&out)? {
        Some(before) if !before.begun.is_empty() => before.begun,
        _ => HostClock::start().stamp(),
    };
    let night = Night {
        version: VERSION,
        begun,
        plans: named.iter().zip(&ready).map(of_night).collect(),
    };
    let shared = Shared {
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
    shared.update(None)?;
    let workers = if args.fleet.slurm {
        usize::from(args.night.plans_at_a_time.unwrap_or(AT_A_TIME))
    } else {
        1
    };
    let worked: Vec<Result<()>> = thread::scope(|scope| {
        let workers = workers.min(ready.len());
        let workers: Vec<_> = (0..workers)
            .map(|_| scope.spawn(|| shared.work(&ready)))
            .collect();
        let joined = workers.into_iter().map(thread::ScopedJoinHandle::join);
        joined
            .map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    worked.into_iter().collect::<Result<()>>()?;
    end(&shared)
}

/// Tells what the night came to.
fn end(shared: &Shared<'_>) -> Result<End> {
    let index = shared.update(None)?;
    if shared.json {
        let line = json_lines::night(&index, &index::page(&shared.out.path()));
        out::json(&line.to_string());
    } else {
        index::tell(&shared.out.path(), &index);
    }
    if shared.interrupted.load(Ordering::Relaxed) {
        bail!(
            "interrupted; what has ended is kept: go on with {}",
            again(shared.args)
        );
    }
    let end = index::end(&index, shared.args.options.fail_on)?;
    let failed = shared.night.lock().unwrap_or_else(PoisonError::into_inner);
    let failed = failed.plans.iter().filter(|plan| plan.failure.is_some());
    let failed: Vec<&str> = failed.map(|plan| plan.name.as_str()).collect();
    match end {
        End::Done if !failed.is_empty() => bail!(
            "{} of {} plans failed: {} (what is wrong is told above; the same command tries them again)",
            failed.len(),
            shared.args.plans.len(),
            failed.join(", ")
        ),
        end => Ok(end),
    }
}

/// Refuses what several plans cannot have; where they go.
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
    index::refuse_gate(options.fail_on, "bakeoff judge DIR/PLAN")?;
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

/// The name of each plan, which its run directory has.
fn names(plans: &[PathBuf]) -> Result<Vec<(String, PathBuf)>> {
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

/// The error rate that each plan may have, where what it calls worse is to trip the gate of all.
fn most_error_rate(args: &RunArgs, named: &[(String, PathBuf)], out: &Path) -> Result<Option<f64>> {
    if !args.night.family_wise {
        return Ok(None);
    }
    let plans: Vec<PlanArgs> = named
        .iter()
        .map(|(name, plan)| of_plan(args, plan, Some(out.join(name)), None))
        .collect();
    let all = read_all(&plans, |_| Ok(()))?;
    let family = all.iter().map(|ready| ready.plan.comparisons()).sum();
    let most = error_rate_of_plans(index::rates(&args.night.rates).gate, family);
    let wrong = all.iter().filter_map(|ready| too_few_blocks(ready, most));
    refuse_wrong(&wrong.collect::<Vec<_>>())?;
    Ok(Some(most))
}

/// That a plan has too few blocks to show anything at an error rate.
fn too_few_blocks(ready: &Ready<'_>, most: f64) -> Option<String> {
    let design = &ready.plan.design;
    // Other metrics beside the primary one take half of it.
    let of_primary = most.min(design.error_rate) / 2.0;
    let is_enough = |max_blocks: u32| {
        let longer = plan::Design {
            max_blocks,
            ..design.clone()
        };
        stats::looks::smallest(of_primary, &longer).is_some()
    };
    if is_enough(design.max_blocks) {
        return None;
    }
    let least = (design.max_blocks..=plan::MOST_BLOCKS).find(|blocks| is_enough(*blocks))?;
    Some(format!(
        "{}: --family-wise gives it an error rate of {:.3} %, at which {} blocks can show nothing (max_blocks = {least} or more in [design], or \
         leave --family-wise out)",
        ready.args.plan.display(),
        most * 100.0,
        design.max_blocks
    ))
}

/// Reads all plans, and tells of all that are wrong or refused, before anything is begun.
fn read_all(
    plans: &[PlanArgs],
    refuse: impl Fn(&Ready<'_>) -> Result<()>,
) -> Result<Vec<Ready<'_>>> {
    let (mut all, mut wrong) = (Vec::new(), Vec::new());
    for args in plans {
        let ready = read(args).and_then(|ready| refuse(&ready).map(|()| ready));
        match ready {
            Ok(ready) => all.push(ready),
            Err(why) => wrong.push(of_file(&args.plan, &why)),
        }
    }
    refuse_wrong(&wrong)?;
    Ok(all)
}

/// Refuses a plan whose run directory is another one's, or that its cluster cannot run.
fn refuse_place(ready: &Ready<'_>) -> Result<()> {
    let place = directory(ready.args);
    if place.join("plan.toml").exists() {
        refuse_another_plan(&place, &ready.text)?;
    }
    if ready.args.fleet.slurm {
        fleet::refuse(&ready.plan, ready.args)?;
    }
    Ok(())
}

/// A mistake with its plan's file, which most name by themselves.
fn of_file(plan: &Path, why: &anyhow::Error) -> String {
    let (plan, why) = (plan.display().to_string(), format!("{why:#}"));
    if why.contains(&plan) {
        why
    } else {
        format!("{plan}: {why}")
    }
}

fn refuse_wrong(wrong: &[String]) -> Result<()> {
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("{}\n(nothing was begun)", wrong.join("\n"))
}

/// Nobody else may run plans of this night meanwhile.
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

impl Shared<'_> {
    /// Runs plans until none is left.
    fn work(&self, plans: &[Ready<'_>]) -> Result<()> {
        loop {
            let place = {
                let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
                *next += 1;
                *next - 1
            };
            let Some(ready) = plans.get(place) else {
                return Ok(());
            };
            if self.interrupted.load(Ordering::Relaxed) {
                return Ok(());
            }
            let name = self.name(place);
            let which = format!("{name}: plan {} of {}", place + 1, plans.len());
            let failure = self.run_plan(ready, &name, &which);
            let failure = failure.unwrap_or_else(|why| Some(format!("{why:#}")));
            if let Some(failure) = &failure {
                self.say(&format!("{name}: failed: {failure}"));
            }
            self.update(failure.map(|failure| (place, failure)))?;
        }
    }

    fn name(&self, place: usize) -> String {
        let night = self.night.lock().unwrap_or_else(PoisonError::into_inner);
        night.plans[place].name.clone()
    }

    /// Runs one plan, unless it is over; why it failed, if it did.
    fn run_plan(&self, ready: &Ready<'_>, name: &str, which: &str) -> Result<Option<String>> {
        let dir = directory(ready.args);
        if is_over(&dir) && ready.args.options.models.is_none() {
            self.say(&format!("{which}: is over, {}", dir.display()));
            return self.ended(ready, name);
        }
        self.say(&format!("{which}: {}", dir.display()));
        let setting = Setting {
            file: &ready.args.plan,
            sources: Sources {
                refresh: ready.args.options.refresh,
                qemu: ready.args.options.emulator.named(),
                second_model: ready.args.options.models.clone(),
            },
            interrupted: Arc::clone(&self.interrupted),
            jobs: ready.args.options.jobs,
            json: self.json,
            looks: Looks::Shown,
            seat: Some(Seat {
                name,
                bars: &self.bars,
                preparing: &self.preparing,
            }),
        };
        let finish = ready.carry_out(&setting).map(|(_, finish)| finish);
        match finish {
            Ok(Finish::Complete) => self.ended(ready, name),
            Ok(Finish::Interrupted) if rundir::is_not_begun(&dir) => Ok(None),
            // What it lacks is not known yet.
            Ok(Finish::Interrupted) => self.ended(ready, name).map(|_| None),
            // What fails after Ctrl-C fails by that, but for what has failed again and again.
            Err(why) if self.interrupted.load(Ordering::Relaxed) && !why.is::<Repeated>() => {
                Ok(None)
            }
            Err(why) => Err(why),
        }
    }

    /// Writes the report of a run that has ended, or was interrupted; why it has no answer, if it has none.
    fn ended(&self, ready: &Ready<'_>, name: &str) -> Result<Option<String>> {
        let dir = RunDir::open(&directory(ready.args), &ready.text)?;
        let reported = Reported::write(&dir)?;
        if self.json {
            let mut line = reported.json();
            line["plan"] = name.into();
            out::json(&line.to_string());
        }
        let (run, judgement) = (&reported.run, &reported.judgement);
        if !ready.args.options.a_a {
            calibration::note(run, judgement)?;
        }
        Ok(nothing_to_compare(run, judgement))
    }

    /// Notes what has failed, if anything has, and writes the index.
    fn update(&self, failed: Option<(usize, String)>) -> Result<Index> {
        let mut night = self.night.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((place, failure)) = failed {
            night.plans[place].failure = Some(failure);
        }
        rundir::replace(self.out, NIGHT, &serde_json::to_vec_pretty(&*night)?)?;
        let out = self.out.path();
        let dir = out
            .canonicalize()
            .with_context(|| format!("cannot find {}", out.display()))?;
        let whole = NightDir {
            dir,
            only: BTreeSet::new(),
        };
        index::write(self.out, &[whole], self.rates)
            .with_context(|| format!("cannot write {INDEX}"))
    }

    /// A line that stays, above those that move.
    fn say(&self, line: &str) {
        self.bars.suspend(|| out::error_line(line));
    }
}

/// Whether a run has ended by itself.
fn is_over(dir: &Path) -> bool {
    let run = rundir::is_run(dir).then(|| rundir::load(dir, &workload::check));
    run.is_some_and(|run| run.is_ok_and(|run| run.closed().is_some()))
}

/// The command that goes on with a night, for a shell.
fn again(args: &RunArgs) -> String {
    let mut words = vec!["bakeoff run".to_string()];
    words.extend(
        args.plans
            .iter()
            .map(|plan| shell_word(&plan.to_string_lossy())),
    );
    words.extend(options_again(&args.options, &args.fleet));
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
