//! `run`: prepare the arms, run the lab, judge, report.

mod block;
mod calibration;
mod fleet;
pub(super) mod jobs;
mod models;
pub(super) mod night;
mod plan_change;
mod timings;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use base::input::text::shell_word;
use base::input::tree::Tree;
use clap::ValueEnum;
use indicatif::MultiProgress;
use machine::cache::eviction;
use machine::clock::HostClock;
use plan::{Claim, MachineKind, Plan};
use record::journal::{JOURNAL, Opening};
use record::rundir;
use record::rundir::{Run, RunDir};
use record::verdict::Judgement;
use serde_json::Value;

use super::report::Report;
use super::show::fairness;
use super::{End, gate, read_plan};
use crate::build_id;
use crate::cli::{FleetArgs, PlanArgs, RunOptions};
use crate::json_lines;
use crate::lab;
use crate::lab::extend::Extension;
use crate::lab::repeat::Repeated;
use crate::lab::{Finish, Lab};
use crate::out;
use crate::prepare;
use crate::prepare::Sources;
use crate::reporter::Reporter;
use plan_change::refuse_another_plan;

/// Refuses `--ceiling` for a plan without a null server.
fn refuse_ceiling(plan: &Plan) -> Result<()> {
    match plan.machine.kind {
        MachineKind::Url if plan.machine.ceiling.is_none() => bail!(
            "--ceiling without a null server (start one with bakeoff null-server on another host, and write ceiling = \
             \"http://HOST:PORT\" in [machine])"
        ),
        MachineKind::Ssh if plan.machine.is_box_with_clients_apart() => Ok(()),
        MachineKind::Qemu | MachineKind::Ssh => bail!(
            "--ceiling does not apply to a machine of kind \"{}\": the clients are beside the server (leave it out)",
            plan.machine.kind.word()
        ),
        MachineKind::Url | MachineKind::Local => Ok(()),
    }
}

/// Refuses options that do not apply to the plan.
fn check_options(args: &PlanArgs, plan: &Plan) -> Result<()> {
    let options = &args.options;
    let has_kernels = matches!(plan.machine.kind, MachineKind::Qemu | MachineKind::Ssh);
    if options.refresh && !has_kernels {
        bail!(
            "--refresh does not apply to a machine of kind \"{}\": nothing is fetched for it (leave it out)",
            plan.machine.kind.word()
        );
    }
    if plan.claim == Claim::Machines && !args.fleet.slurm {
        bail!(
            "claim = \"machines\" in [design] on one host: one machine shows nothing of others (add --slurm, or remove claim)"
        );
    }
    if options.ceiling {
        refuse_ceiling(plan)?;
    }
    super::check_emulator(&options.emulator, plan)?;
    prepare::check_plan_fits_machine(plan, &args.plan)?;
    if plan.machine.kind == MachineKind::Qemu {
        // Only the preparation of guests prunes the cache, so the limit is checked only here.
        eviction::limit()?;
    }
    if let Some(model) = &options.models {
        let qemu = options.emulator.named();
        models::check_model(plan, model, |model| {
            super::check_cpu_model(model, plan.machine.arch, qemu.as_deref())
        })?;
    }
    Ok(())
}

/// Runs or resumes a plan; writes verdict and report.
pub(super) fn run(args: &PlanArgs, json: bool) -> Result<End> {
    if let Some(block) = args.fleet.block {
        return block::run(args, block, json);
    }
    run_with_resume_command(args, json, || resume_command(args))
}

/// Runs or resumes a plan; `resume_command` is the command that resumes it after an interruption.
pub(super) fn run_with_resume_command(
    args: &PlanArgs,
    json: bool,
    resume_command: impl FnOnce() -> String,
) -> Result<End> {
    let checked = read_checked(args)?;
    let settings = RunSettings {
        file: &args.plan,
        sources: Sources {
            refresh: args.options.refresh,
            qemu: args.options.emulator.named(),
            second_model: args.options.models.clone(),
        },
        interrupted: super::watch_signals()?,
        jobs: args.options.jobs,
        json,
        night_slot: None,
        interim_analyses: InterimAnalyses::Shown,
    };
    let (dir, finish) = checked.execute(&settings)?;
    let Report { run, judgement, .. } = report_run(&dir, args, json)?;
    match finish {
        Finish::Complete => end(&run, &judgement, args),
        Finish::Interrupted => bail!(
            "interrupted; what has ended is kept: go on with {}",
            resume_command()
        ),
    }
}

/// A valid plan with its options.
struct CheckedPlan<'a> {
    args: &'a PlanArgs,
    text: String,
    plan: Plan,
    accepted: BTreeMap<String, String>,
}

/// Reads a plan and checks its options. Writes nothing.
fn read_checked(args: &PlanArgs) -> Result<CheckedPlan<'_>> {
    let options = &args.options;
    let out = directory(args);
    let qemu = options.emulator.named();
    let (text, plan) = if options.a_a {
        let seed = calibration::seed(&out);
        let change = |text: &str| plan::against_itself(text, seed);
        super::read_plan_as(&args.plan, qemu.as_deref(), change)?
    } else if options.why {
        let change = |text: &str| Ok(plan::explained(text));
        super::read_plan_as(&args.plan, qemu.as_deref(), change)?
    } else {
        read_plan(&args.plan, qemu.as_deref())?
    };
    let (text, plan) = match args.most_error_rate {
        Some(most) if most < plan.design.error_rate => {
            let text = plan::at_error_rate(&text, most)?;
            super::check_plan(&args.plan, text, qemu.as_deref())?
        }
        Some(_) | None => (text, plan),
    };
    check_options(args, &plan)?;
    if options.more_blocks.is_some() && !out.join("plan.toml").exists() {
        bail!(
            "--more-blocks without a run: {} (leave it out, or name the run's directory with --out DIR)",
            out.display()
        );
    }
    Ok(CheckedPlan {
        args,
        text,
        plan,
        accepted: fairness::read(&options.accept)?,
    })
}

impl CheckedPlan<'_> {
    /// Runs or resumes the plan in its directory.
    fn execute(&self, settings: &RunSettings<'_>) -> Result<(RunDir, Finish)> {
        let path = directory(self.args);
        let existed = path.exists();
        let finish = self.execute_in(&path, settings);
        if finish.is_err() && !existed {
            remove_unstarted(&path)?;
        }
        finish
    }

    fn execute_in(&self, path: &Path, settings: &RunSettings<'_>) -> Result<(RunDir, Finish)> {
        let (args, plan, text) = (self.args, &self.plan, &self.text);
        let dir = RunDir::open(path, text)?;
        refuse_another_plan(dir.path(), text)?;
        fleet::check_same_place(&dir, args.fleet.slurm)?;
        fairness::accept(&dir, self.accepted.clone())?;
        let extension = match args.options.more_blocks {
            Some(more) => Some(extend(&dir, more)?),
            None => None,
        };
        let target = RunTarget {
            dir: &dir,
            extension,
            remeasures_ceilings: args.options.ceiling,
            model: None,
            check_opening: None,
        };
        let finish = if args.fleet.slurm {
            fleet::execute(settings, plan, text, target, args)?
        } else {
            execute(settings, plan, text, target)?
        };
        let finish = match (finish, &args.options.models) {
            (Finish::Complete, Some(model)) => {
                models::run_variations(settings, plan, text, &dir, model)?
            }
            (finish, _) => finish,
        };
        Ok((dir, finish))
    }
}

/// Removes the directory of a run that failed before it began.
fn remove_unstarted(dir: &Path) -> Result<()> {
    if !dir.exists() || has_begun(dir) {
        return Ok(());
    }
    fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))
}

/// Whether a run has begun in a directory: its journal has an entry, or its blocks are jobs of a cluster.
pub(super) fn has_begun(dir: &Path) -> bool {
    let dir = Tree::at(dir);
    let journal = dir.metadata(JOURNAL);
    journal.is_ok_and(|metadata| metadata.len() > 0) || dir.has("fleet.json")
}

/// Judges the run, writes the reports and prints the output that the user asked for.
fn report_run(dir: &RunDir, args: &PlanArgs, json: bool) -> Result<Report> {
    let report = written_report(dir)?;
    let (run, judgement) = (&report.run, &report.judgement);
    if args.options.timings {
        timings::print(run, json);
    }
    if args.options.a_a {
        calibration::print(run, judgement, json)?;
    } else {
        calibration::add_to_history(run, judgement)?;
    }
    if json {
        out::json(&json_line(&report).to_string());
    } else {
        report.print();
    }
    Ok(report)
}

/// Judges the run in a directory, and writes its reports.
fn written_report(dir: &RunDir) -> Result<Report> {
    let report = Report::read(dir.path())?;
    report.write(dir)?;
    Ok(report)
}

/// The line of a finished run.
fn json_line(report: &Report) -> Value {
    let models = report.run.models.as_ref();
    json_lines::verdict(&report.run, &report.judgement, models, &report.page())
}

/// Why a run has no result, if its baseline failed on every workload.
fn nothing_to_compare(run: &Run, judgement: &Judgement) -> Option<String> {
    let failed = gate::baseline_failed(run, judgement);
    let all_failed = !failed.is_empty() && failed.len() == run.plan.workloads.len();
    all_failed.then(|| format!("nothing to compare: {}", failed.join("; ")))
}

fn end(run: &Run, judgement: &Judgement, args: &PlanArgs) -> Result<End> {
    if let Some(why) = nothing_to_compare(run, judgement) {
        bail!("{why}");
    }
    Ok(gate::gate(run, judgement, args.options.fail_on))
}

/// Extends the run in a directory by `more` blocks.
fn extend(dir: &RunDir, more: u32) -> Result<Extension> {
    let run = rundir::load(dir.path(), &workload::check)?;
    lab::extend::extend(&run, &judge::judge(&run), more)
        .with_context(|| format!("run in {}", dir.path().display()))
}

/// The settings that all runs of one command share.
pub(super) struct RunSettings<'s> {
    /// The plan file, for paths and messages.
    pub(super) file: &'s Path,
    pub(super) sources: Sources,
    pub(super) interrupted: Arc<AtomicBool>,
    /// Trials at a time, if the user set it.
    pub(super) jobs: Option<u16>,
    pub(super) json: bool,
    /// The plan's slot, if the command runs several plans.
    pub(super) night_slot: Option<NightSlot<'s>>,
    pub(super) interim_analyses: InterimAnalyses,
}

/// Whether lines show the interim analyses. They are hidden if the run is one block of a larger question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InterimAnalyses {
    Shown,
    Hidden,
}

/// The slot of one of several plans.
#[derive(Clone, Copy)]
pub(super) struct NightSlot<'s> {
    /// The plan's name.
    name: &'s str,
    /// The progress lines of all plans.
    bars: &'s MultiProgress,
    /// Held while kernels and images are prepared, so that those that two plans need are fetched and built once.
    preparing: &'s Mutex<()>,
}

impl RunSettings<'_> {
    fn reporter(&self, model: Option<&str>) -> Reporter {
        let reporter = match self.night_slot {
            Some(slot) => Reporter::for_plan(self.json, model, slot.name, slot.bars),
            None => Reporter::for_model(self.json, model),
        };
        match self.interim_analyses {
            InterimAnalyses::Shown => reporter,
            InterimAnalyses::Hidden => reporter.without_interim_analyses(),
        }
    }

    /// Waits until no other plan prepares.
    fn lock_preparation(&self) -> Option<MutexGuard<'_, ()>> {
        let lock = self.night_slot?.preparing.lock();
        // The lock guards no data, so a panic while it was held does no harm.
        Some(lock.unwrap_or_else(PoisonError::into_inner))
    }
}

/// Refuses inputs of a run.
type CheckOpening<'c> = &'c dyn Fn(&Opening) -> Result<()>;

/// One run of a command.
struct RunTarget<'p> {
    dir: &'p RunDir,
    extension: Option<Extension>,
    remeasures_ceilings: bool,
    /// The emulated CPU model, if the run is a repetition on another one.
    model: Option<&'p str>,
    /// Refuses inputs before anything boots; `None` accepts all.
    check_opening: Option<CheckOpening<'p>>,
}

/// Runs or resumes a plan that was derived from the user's plan, in the directory `path`, and writes its report.
pub(super) fn run_derived_plan(
    settings: &RunSettings<'_>,
    text: String,
    path: &Path,
) -> Result<Finish> {
    run_text(settings, text, path, None)
}

/// Runs or resumes a plan that another host ran, in the directory `path`, and writes its report. `check` refuses other inputs.
pub(super) fn repeat(
    settings: &RunSettings<'_>,
    text: String,
    path: &Path,
    check: CheckOpening<'_>,
) -> Result<Finish> {
    let existed = path.exists();
    let finish = run_text(settings, text, path, Some(check));
    if finish.is_err() && !existed {
        remove_unstarted(path)?;
    }
    finish
}

fn run_text(
    settings: &RunSettings<'_>,
    text: String,
    path: &Path,
    check_opening: Option<CheckOpening<'_>>,
) -> Result<Finish> {
    let qemu = settings.sources.qemu.as_deref();
    let (text, plan) = super::check_plan(settings.file, text, qemu)?;
    let dir = RunDir::open(path, &text)?;
    refuse_another_plan(dir.path(), &text)?;
    let target = RunTarget {
        dir: &dir,
        extension: None,
        remeasures_ceilings: false,
        model: None,
        check_opening,
    };
    // If all arms fail in the same way, the record shows it.
    let finish = match execute(settings, &plan, &text, target) {
        Err(why) if why.is::<Repeated>() => Finish::Complete,
        finish => finish?,
    };
    if finish == Finish::Complete {
        written_report(&dir)?;
    }
    Ok(finish)
}

/// Prepares a plan's machine, and runs or resumes the plan in its directory.
fn execute(
    settings: &RunSettings<'_>,
    plan: &Plan,
    text: &str,
    target: RunTarget<'_>,
) -> Result<Finish> {
    let dir = target.dir;
    let reporter = settings.reporter(target.model);
    let (sources, interrupted) = (&settings.sources, &*settings.interrupted);
    let preparation_lock = settings.lock_preparation();
    let prepared = prepare::prepare(plan, settings.file, sources, &reporter, interrupted)?;
    drop(preparation_lock);
    if sources.second_model.is_some() {
        models::require_counted_instructions(&*prepared.machine)?;
    }
    let jobs = jobs::for_machine(settings.jobs, plan, &*prepared.machine)?;
    prepared.note_run(dir.path())?;
    prepared.keep_details(dir)?;
    let lab = Lab {
        plan,
        dir,
        machine: &*prepared.machine,
        clock: &HostClock::start(),
        greeting: &build_id::host(),
        interrupted,
        jobs,
        extension: target.extension,
        remeasures_ceilings: target.remeasures_ceilings,
        show: &|event| reporter.show(event),
    };
    let opening = prepared.opening(plan, text);
    if let Some(check) = target.check_opening {
        check(&opening)?;
    }
    calibration::save_history(dir, &opening.machine)?;
    let ended = lab::run(&lab, opening);
    // The box may take minutes to return to its own system.
    if plan.machine.kind == MachineKind::Ssh {
        reporter.step("waiting for the box to be home", None);
    }
    let closed = prepared.machine.close();
    reporter.close();
    let ended = ended.and_then(|finish| closed.map(|()| finish));
    // The report shows the failure, so it is written before the command reports that the run stopped.
    if ended.as_ref().is_err_and(anyhow::Error::is::<Repeated>) {
        written_report(dir)?;
    }
    ended
}

/// The run directory: the user's choice, else `runs/NAME` below the working directory, or `runs/NAME-a-a` for an A/A run.
pub(super) fn directory(args: &PlanArgs) -> PathBuf {
    if let Some(out) = &args.options.out {
        return out.clone();
    }
    let plan = &args.plan;
    let mut name = plan.file_stem().unwrap_or(plan.as_os_str()).to_owned();
    if args.options.a_a {
        name.push("-a-a");
    }
    Path::new("runs").join(name)
}

/// The shell command that starts or resumes this run.
pub(super) fn resume_command(args: &PlanArgs) -> String {
    let plan = shell_word(&args.plan.to_string_lossy());
    let mut words = vec!["bakeoff run".into(), plan];
    words.extend(resume_options(&args.options, &args.fleet));
    words.join(" ")
}

/// The options for a command that resumes the run.
pub(super) fn resume_options(options: &RunOptions, fleet: &FleetArgs) -> Vec<String> {
    let word = |path: &Path| shell_word(&path.to_string_lossy());
    let mut words = Vec::new();
    words.extend(options.a_a.then(|| "--a-a".into()));
    words.extend(options.why.then(|| "--why".into()));
    if let Some(model) = &options.models {
        words.push(shell_word(&format!("--models={model}")));
    }
    if let Some(path) = options
        .emulator
        .named()
        .filter(|_| options.emulator.is_typed())
    {
        words.extend(["--qemu".into(), word(&path)]);
    }
    if let Some(out) = &options.out {
        words.extend(["--out".into(), word(out)]);
    }
    if let Some(name) = options
        .fail_on
        .as_ref()
        .and_then(ValueEnum::to_possible_value)
    {
        words.push(format!("--fail-on {}", name.get_name()));
    }
    words.extend(options.timings.then(|| "--timings".into()));
    words.extend(fleet.slurm.then(|| "--slurm".into()));
    let array_width = fleet.array_width.map(|width| width.to_string());
    let program = fleet.program.as_deref().map(Path::to_string_lossy);
    for (option, value) in [
        ("--partition", fleet.partition.clone()),
        ("--nodes", fleet.nodes.clone()),
        ("--array-width", array_width),
        ("--program", program.map(String::from)),
    ] {
        if let Some(value) = value {
            words.extend([option.into(), shell_word(&value)]);
        }
    }
    words
}
