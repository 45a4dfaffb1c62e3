//! `run --slurm`: prepare once, submit blocks, take them over in their order.

use std::path::{Path, PathBuf, absolute};

use anyhow::{Context, Result, bail};
use machine::clock::HostClock;
use plan::{MachineKind, Plan};
use record::fleet::FLEET;
use record::journal::JOURNAL;
use record::rundir;
use record::rundir::RunDir;

use super::{Place, Setting, calibration};
use crate::build_id;
use crate::cli::PlanArgs;
use crate::commands::{explained, report};
use crate::fleet;
use crate::fleet::{Choice, SlurmFleet, Tell};
use crate::lab;
use crate::lab::repeat::Repeated;
use crate::lab::{Finish, Lab};
use crate::prepare;

/// A run whose blocks are nodes' is not gone on with by this host, nor the other way round: blocks would be of two kinds.
pub(super) fn refuse_another_place(dir: &RunDir, is_slurm: bool) -> Result<()> {
    let is_fleet = dir.path().join(FLEET).exists();
    let has_begun = dir
        .tree()
        .metadata(JOURNAL)
        .is_ok_and(|about| about.len() > 0);
    if is_fleet && !is_slurm {
        bail!(
            "a run of a cluster, begun with --slurm: {} (add --slurm, or begin a new run with --out DIR)",
            dir.path().display()
        );
    }
    if is_slurm && !is_fleet && has_begun {
        bail!(
            "--slurm for a run that this host began: {} (leave it out, or begin a new run with --out DIR)",
            dir.path().display()
        );
    }
    Ok(())
}

/// Prepares what nodes will need, and has them run what is left.
pub(super) fn carry_out(
    setting: &Setting<'_>,
    (plan, text): (&Plan, &str),
    place: Place<'_>,
    args: &PlanArgs,
) -> Result<Finish> {
    let dir = place.dir;
    refuse(plan, args)?;
    let choice = choice(args);
    let reporter = setting.reporter(None);
    let turn = setting.turn_to_prepare();
    let prepared = prepare::prepare(
        (plan, setting.file),
        &setting.sources,
        &reporter,
        &setting.interrupted,
    )?;
    drop(turn);
    if plan.why && !prepared.machine.is_profiled() {
        bail!(
            "--slurm with [why] by the wall clock: trials that are run for their profile alone belong to no block (leave out --why, \
             or write clock = \"instructions\" in [machine])"
        );
    }
    prepared.note_run(dir.path())?;
    let opening = prepared.opening(plan, text);
    calibration::keep(dir, &opening.machine)?;
    let program = program(args)?;
    fleet::begin(dir.path(), &build_id::build(), &program)?;
    let line = |text: &str| reporter.line(text);
    let step = |text: &str| reporter.step(text, None);
    let tell = Tell {
        line: &line,
        step: &step,
    };
    let words = words(dir.path(), &program, args)?;
    let mut nodes = SlurmFleet::open(dir.path(), words, choice, (&setting.interrupted, tell))?;
    let lab = Lab {
        plan,
        dir,
        machine: &*prepared.machine,
        clock: &HostClock::start(),
        greeting: &build_id::host(),
        interrupted: &setting.interrupted,
        jobs: 1,
        extension: place.extension,
        remeasures_ceilings: false,
        show: &|event| reporter.tell(event),
    };
    let ended = lab::fleet::run(&lab, &mut nodes);
    let stopped = nodes.stop();
    reporter.close();
    if ended.as_ref().is_err_and(anyhow::Error::is::<Repeated>) {
        let run = rundir::load(dir.path(), &workload::check)?;
        let whys = explained::explained(dir.path(), &run);
        report::write(dir, &run, &judge::judge(&run), &whys)?;
    }
    let finish = ended?;
    if let Err(why) = stopped {
        reporter.line(&format!(
            "jobs that wait may still be in the queue: {why:#}"
        ));
    }
    Ok(finish)
}

/// What was typed of the cluster.
fn choice(args: &PlanArgs) -> Choice {
    Choice {
        partition: args.fleet.partition.clone(),
        nodes: args.fleet.nodes.clone(),
        width: args.fleet.array_width,
    }
}

/// Refuses what no cluster can do, before anything is fetched.
pub(super) fn refuse(plan: &Plan, args: &PlanArgs) -> Result<()> {
    refuse_ceiling(plan)?;
    fleet::check(&choice(args), plan)
}

/// A ceiling is measured before the first trial, on one host.
fn refuse_ceiling(plan: &Plan) -> Result<()> {
    if plan.machine.kind == MachineKind::Url && plan.machine.ceiling.is_some() {
        bail!(
            "--slurm with ceiling in [machine]: nodes measure no ceilings (leave it out of the plan)"
        );
    }
    Ok(())
}

/// The bakeoff of the jobs.
fn program(args: &PlanArgs) -> Result<PathBuf> {
    match &args.fleet.program {
        Some(program) => Ok(program.clone()),
        None => std::env::current_exe().context("cannot find bakeoff's own binary"),
    }
}

/// What a job runs.
fn words(run: &Path, program: &Path, args: &PlanArgs) -> Result<Vec<String>> {
    let path = |path: &Path| -> Result<String> {
        let path: PathBuf =
            absolute(path).with_context(|| format!("cannot find {}", path.display()))?;
        Ok(path.to_string_lossy().into_owned())
    };
    let mut words = vec![
        path(program)?,
        "run".into(),
        path(&args.plan)?,
        "--out".into(),
        path(run)?,
        "--block".into(),
        "$block".into(),
    ];
    if let Some(jobs) = args.options.jobs {
        words.extend(["--jobs".into(), jobs.to_string()]);
    }
    if let Some(qemu) = args.options.emulator.named() {
        words.extend(["--qemu".into(), path(&qemu)?]);
    }
    Ok(words)
}
