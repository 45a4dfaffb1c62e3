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
use indicatif::MultiProgress;
use machine::cache::eviction;
use machine::clock::HostClock;
use plan::{Claim, MachineKind, Plan};
use record::journal::JOURNAL;
use record::rundir;
use record::rundir::{Run, RunDir};
use record::verdict::Judgement;
use record::verdict::why::Why;
use serde_json::Value;

use super::{End, explained, fairness, gate, read_plan, report};
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

/// Without a null server there is nothing to measure again.
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

/// Refuses options that do not go with the plan.
fn refuse(args: &PlanArgs, plan: &Plan) -> Result<()> {
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
    super::refuse_emulator(&options.emulator, plan)?;
    prepare::refuse_unfit((plan, &args.plan))?;
    if plan.machine.kind == MachineKind::Qemu {
        // The cache is made smaller where guests are prepared, and nowhere else.
        eviction::limit()?;
    }
    if let Some(model) = &options.models {
        let qemu = options.emulator.named();
        models::refuse(plan, model, |model| {
            super::check_cpu_model(model, qemu.as_deref())
        })?;
    }
    Ok(())
}

/// Runs a plan, or goes on with it; writes verdict and report.
pub(super) fn run(args: &PlanArgs, json: bool) -> Result<End> {
    if let Some(block) = args.fleet.block {
        return block::run(args, block, json);
    }
    run_for(args, json, || again(args))
}

/// The same for another command, which is what to go on with.
pub(super) fn run_for(args: &PlanArgs, json: bool, again: impl FnOnce() -> String) -> Result<End> {
    let ready = read(args)?;
    let setting = Setting {
        file: &args.plan,
        sources: Sources {
            refresh: args.options.refresh,
            qemu: args.options.emulator.named(),
            second_model: args.options.models.clone(),
        },
        interrupted: super::watch_signals()?,
        jobs: args.options.jobs,
        json,
        seat: None,
        looks: Looks::Shown,
    };
    let (dir, finish) = ready.carry_out(&setting)?;
    let (run, judgement) = tell(&dir, args, json)?;
    match finish {
        Finish::Complete => end(&run, &judgement, args),
        Finish::Interrupted => bail!(
            "interrupted; what has ended is kept: go on with {}",
            again()
        ),
    }
}

/// A plan that was read and found right, with its options.
struct Ready<'a> {
    args: &'a PlanArgs,
    text: String,
    plan: Plan,
    accepted: BTreeMap<String, String>,
}

/// Reads a plan, and refuses options that do not go with it. Nothing is changed.
fn read(args: &PlanArgs) -> Result<Ready<'_>> {
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
    refuse(args, &plan)?;
    if options.more_blocks.is_some() && !out.join("plan.toml").exists() {
        bail!(
            "--more-blocks without a run: {} (leave it out, or name the run's directory with --out DIR)",
            out.display()
        );
    }
    Ok(Ready {
        args,
        text,
        plan,
        accepted: fairness::read(&options.accept)?,
    })
}

impl Ready<'_> {
    /// Runs it, or what is left of it, in its directory.
    fn carry_out(&self, setting: &Setting<'_>) -> Result<(RunDir, Finish)> {
        let path = directory(self.args);
        let was_there = path.exists();
        let finish = self.carry_out_in(&path, setting);
        if finish.is_err() && !was_there {
            leave_nothing(&path)?;
        }
        finish
    }

    fn carry_out_in(&self, path: &Path, setting: &Setting<'_>) -> Result<(RunDir, Finish)> {
        let (args, plan, text) = (self.args, &self.plan, &self.text);
        let dir = RunDir::open(path, text)?;
        refuse_another_plan(dir.path(), text)?;
        fleet::refuse_another_place(&dir, args.fleet.slurm)?;
        fairness::accept(&dir, self.accepted.clone())?;
        let extension = match args.options.more_blocks {
            Some(more) => Some(extend(&dir, more)?),
            None => None,
        };
        let place = Place {
            dir: &dir,
            extension,
            remeasures_ceilings: args.options.ceiling,
            model: None,
        };
        let finish = if args.fleet.slurm {
            fleet::carry_out(setting, (plan, text), place, args)?
        } else {
            carry_out(setting, plan, text, place)?
        };
        let finish = match (finish, &args.options.models) {
            (Finish::Complete, Some(model)) => models::vary(setting, (plan, text), &dir, model)?,
            (finish, _) => finish,
        };
        Ok((dir, finish))
    }
}

/// Removes the directory of a run that was refused before it began.
fn leave_nothing(dir: &Path) -> Result<()> {
    if !dir.exists() || has_begun(dir) {
        return Ok(());
    }
    fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))
}

/// Whether a run has begun in a directory: its journal has an entry, or blocks of it are jobs of a cluster.
pub(super) fn has_begun(dir: &Path) -> bool {
    let dir = Tree::at(dir);
    let journal = dir.metadata(JOURNAL);
    journal.is_ok_and(|about| about.len() > 0) || dir.has("fleet.json")
}

/// What a run has come to, with its reports written.
struct Reported {
    run: Run,
    judgement: Judgement,
    whys: Vec<Why>,
    page: PathBuf,
}

impl Reported {
    /// Judges what is there, and writes the reports.
    fn write(dir: &RunDir) -> Result<Self> {
        let run = rundir::load(dir.path(), &workload::check)?;
        let judgement = judge::judge(&run);
        let whys = explained::explained(dir.path(), &run);
        let page = report::write(dir, &run, &judgement, &whys)?;
        Ok(Self {
            run,
            judgement,
            whys,
            page,
        })
    }

    fn json(&self) -> Value {
        let judged = (&self.run, &self.judgement);
        json_lines::verdict(judged, self.run.models.as_ref(), &self.page)
    }
}

/// Judges what is there, writes the reports and prints what was asked for.
fn tell(dir: &RunDir, args: &PlanArgs, json: bool) -> Result<(Run, Judgement)> {
    let reported = Reported::write(dir)?;
    if json {
        out::json(&reported.json().to_string());
    } else {
        out::text(&judge::report::terminal(
            &reported.run,
            &reported.judgement,
            &reported.whys,
            report::width(),
        ));
        out::line(&format!("report: {}", reported.page.display()));
    }
    let Reported { run, judgement, .. } = reported;
    if args.options.timings {
        timings::tell(&run, json);
    }
    if args.options.a_a {
        calibration::tell(&run, &judgement, json)?;
    } else {
        calibration::note(&run, &judgement)?;
    }
    Ok((run, judgement))
}

/// Why a run has no answer, with a gate or without: its baseline never gave a figure.
fn nothing_to_compare(run: &Run, judgement: &Judgement) -> Option<String> {
    let failed = gate::baseline_failed(run, judgement);
    let is_all = !failed.is_empty() && failed.len() == run.plan.workloads.len();
    is_all.then(|| format!("nothing to compare: {}", failed.join("; ")))
}

fn end(run: &Run, judgement: &Judgement, args: &PlanArgs) -> Result<End> {
    if let Some(why) = nothing_to_compare(run, judgement) {
        bail!("{why}");
    }
    gate::gate(run, judgement, args.options.fail_on)
}

/// More blocks for the run in a directory.
fn extend(dir: &RunDir, more: u32) -> Result<Extension> {
    let run = rundir::load(dir.path(), &workload::check)?;
    lab::extend::extend(&run, &judge::judge(&run), more)
        .with_context(|| format!("run in {}", dir.path().display()))
}

/// What all runs of one call share.
pub(super) struct Setting<'s> {
    /// The plan file, for paths and messages.
    pub(super) file: &'s Path,
    pub(super) sources: Sources,
    pub(super) interrupted: Arc<AtomicBool>,
    /// Trials at a time, where the user says so.
    pub(super) jobs: Option<u16>,
    pub(super) json: bool,
    /// Where it sits among several plans that are run by one call.
    pub(super) seat: Option<Seat<'s>>,
    /// Whether lines say how far the run is.
    pub(super) looks: Looks,
}

/// Whether a run is judged by itself, or is one block of a larger question, which tells how far that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Looks {
    /// By itself.
    Shown,
    /// Elsewhere.
    Elsewhere,
}

/// A plan's place among several.
#[derive(Clone, Copy)]
pub(super) struct Seat<'s> {
    /// The plan's name.
    name: &'s str,
    /// The last lines of the terminal, which all share.
    bars: &'s MultiProgress,
    /// Held while kernels and images are prepared: what two plans need is fetched and built once.
    preparing: &'s Mutex<()>,
}

impl Setting<'_> {
    fn reporter(&self, model: Option<&str>) -> Reporter {
        let reporter = match self.seat {
            Some(seat) => Reporter::of_plan(self.json, model, (seat.name, seat.bars)),
            None => Reporter::of_model(self.json, model),
        };
        match self.looks {
            Looks::Shown => reporter,
            Looks::Elsewhere => reporter.without_looks(),
        }
    }

    /// Waits until no other plan prepares.
    fn turn_to_prepare(&self) -> Option<MutexGuard<'_, ()>> {
        let preparing = self.seat.map(|seat| seat.preparing.lock());
        // A plan that panicked while it prepared has left nothing that others rely on.
        preparing.map(|turn| turn.unwrap_or_else(PoisonError::into_inner))
    }
}

/// One run of a call.
struct Place<'p> {
    dir: &'p RunDir,
    extension: Option<Extension>,
    remeasures_ceilings: bool,
    /// The emulated CPU, where it is not the run's own.
    model: Option<&'p str>,
}

/// Runs a plan that was made from the one that was typed, or goes on with it, in a directory of its own, and writes its report.
pub(super) fn run_made(setting: &Setting<'_>, text: String, place: &Path) -> Result<Finish> {
    let qemu = setting.sources.qemu.as_deref();
    let (text, plan) = super::check_plan(setting.file, text, qemu)?;
    let dir = RunDir::open(place, &text)?;
    refuse_another_plan(dir.path(), &text)?;
    let finish = carry_out(
        setting,
        &plan,
        &text,
        Place {
            dir: &dir,
            extension: None,
            remeasures_ceilings: false,
            model: None,
        },
    );
    // That all arms fail in one way is in the record, like everything else.
    let finish = match finish {
        Err(why) if why.is::<Repeated>() => Finish::Complete,
        finish => finish?,
    };
    if finish == Finish::Complete {
        let run = rundir::load(dir.path(), &workload::check)?;
        let whys = explained::explained(dir.path(), &run);
        report::write(&dir, &run, &judge::judge(&run), &whys)?;
    }
    Ok(finish)
}

/// Prepares a plan's machine, and runs what is left of it in its directory.
fn carry_out(setting: &Setting<'_>, plan: &Plan, text: &str, place: Place<'_>) -> Result<Finish> {
    let dir = place.dir;
    let reporter = setting.reporter(place.model);
    let (sources, interrupted) = (&setting.sources, &*setting.interrupted);
    let turn = setting.turn_to_prepare();
    let prepared = prepare::prepare((plan, setting.file), sources, &reporter, interrupted)?;
    drop(turn);
    if sources.second_model.is_some() {
        models::refuse_machine(&*prepared.machine)?;
    }
    let jobs = jobs::settle(setting.jobs, plan, &*prepared.machine)?;
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
        extension: place.extension,
        remeasures_ceilings: place.remeasures_ceilings,
        show: &|event| reporter.tell(event),
    };
    let opening = prepared.opening(plan, text);
    calibration::keep(dir, &opening.machine)?;
    let ended = lab::run(&lab, opening);
    // A machine that is left as it was found may take minutes to be so.
    if plan.machine.kind == MachineKind::Ssh {
        reporter.step("waiting for the box to be home", None);
    }
    let closed = prepared.machine.close();
    reporter.close();
    let ended = ended.and_then(|finish| closed.map(|()| finish));
    // What failed is in the report; it is written before it is said that the run stopped.
    if ended.as_ref().is_err_and(anyhow::Error::is::<Repeated>) {
        let run = rundir::load(dir.path(), &workload::check)?;
        let whys = explained::explained(dir.path(), &run);
        report::write(dir, &run, &judge::judge(&run), &whys)?;
    }
    ended
}

/// The run directory: what was typed, else `runs/NAME` below the working directory, `runs/NAME-a-a` for a baseline against
/// itself.
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

/// The command that begins this run or goes on with it, for a shell.
pub(super) fn again(args: &PlanArgs) -> String {
    let plan = shell_word(&args.plan.to_string_lossy());
    let mut words = vec!["bakeoff run".into(), plan];
    words.extend(options_again(&args.options, &args.fleet));
    words.join(" ")
}

/// The options that were typed and bear on what is run.
pub(super) fn options_again(options: &RunOptions, fleet: &FleetArgs) -> Vec<String> {
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
    words.extend(fleet.slurm.then(|| "--slurm".into()));
    let mut name = |option: &str, value: Option<String>| {
        if let Some(value) = value {
            words.extend([option.into(), shell_word(&value)]);
        }
    };
    name("--partition", fleet.partition.clone());
    name("--nodes", fleet.nodes.clone());
    name(
        "--array-width",
        fleet.array_width.map(|width| width.to_string()),
    );
    let program = fleet.program.as_deref().map(Path::to_string_lossy);
    name("--program", program.map(String::from));
    words
}
