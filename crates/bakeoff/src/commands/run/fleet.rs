//! `run --slurm`: prepare once, submit the blocks, and merge them in block order.

use std::path::{Path, PathBuf, absolute};

use anyhow::{Context, Result, bail};
use machine::clock::HostClock;
use plan::{MachineKind, Plan};
use record::fleet::FLEET;
use record::journal::JOURNAL;
use record::rundir::RunDir;

use super::{RunSettings, RunTarget, calibration};
use crate::build_id;
use crate::cli::PlanArgs;
use crate::fleet;
use crate::fleet::{Choice, SlurmFleet, Tell};
use crate::lab;
use crate::lab::repeat::Repeated;
use crate::lab::{Finish, Lab};
use crate::prepare;

/// Refuses to resume a cluster's run on this host, or this host's run on a cluster: its blocks would be of two kinds.
pub(super) fn check_same_place(dir: &RunDir, is_slurm: bool) -> Result<()> {
    let is_fleet = dir.path().join(FLEET).exists();
    let has_begun = dir
        .tree()
        .metadata(JOURNAL)
        .is_ok_and(|metadata| metadata.len() > 0);
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

/// Prepares the files that nodes need, and has the nodes run the remaining blocks.
pub(super) fn execute(
    settings: &RunSettings<'_>,
    plan: &Plan,
    text: &str,
    target: RunTarget<'_>,
    args: &PlanArgs,
) -> Result<Finish> {
    let dir = target.dir;
    check_cluster_plan(plan, args)?;
    let choice = choice(args);
    let reporter = settings.reporter(None);
    let preparation_lock = settings.lock_preparation();
    let prepared = prepare::prepare(
        plan,
        settings.file,
        &settings.sources,
        &reporter,
        &settings.interrupted,
    )?;
    drop(preparation_lock);
    if plan.why && !prepared.machine.is_profiled() {
        bail!(
            "--slurm with [why] by the wall clock: trials that are run for their profile alone belong to no block (leave out --why, \
             or write clock = \"instructions\" in [machine])"
        );
    }
    prepared.note_run(dir.path())?;
    let opening = prepared.opening(plan, text);
    calibration::save_history(dir, &opening.machine)?;
    let program = program(args)?;
    fleet::begin(dir.path(), &build_id::build(), &program)?;
    let line = |text: &str| reporter.line(text);
    let step = |text: &str| reporter.step(text, None);
    let tell = Tell {
        line: &line,
        step: &step,
    };
    let command = job_command(dir.path(), &program, args)?;
    let mut nodes = SlurmFleet::open(dir.path(), command, choice, &settings.interrupted, tell)?;
    let lab = Lab {
        plan,
        dir,
        machine: &*prepared.machine,
        clock: &HostClock::start(),
        greeting: &build_id::host(),
        interrupted: &settings.interrupted,
        jobs: 1,
        extension: target.extension,
        remeasures_ceilings: false,
        show: &|event| reporter.show(event),
    };
    let ended = lab::fleet::run(&lab, &mut nodes);
    let stopped = nodes.stop();
    reporter.close();
    if ended.as_ref().is_err_and(anyhow::Error::is::<Repeated>) {
        super::written_report(dir)?;
    }
    let finish = ended?;
    if let Err(why) = stopped {
        reporter.line(&format!(
            "jobs that wait may still be in the queue: {why:#}"
        ));
    }
    Ok(finish)
}

/// The user's options about the cluster.
fn choice(args: &PlanArgs) -> Choice {
    Choice {
        partition: args.fleet.partition.clone(),
        nodes: args.fleet.nodes.clone(),
        width: args.fleet.array_width,
    }
}

/// Refuses plans that no cluster can run, before anything is fetched.
pub(super) fn check_cluster_plan(plan: &Plan, args: &PlanArgs) -> Result<()> {
    refuse_ceiling(plan)?;
    fleet::check(&choice(args), plan)
}

/// Refuses a plan with a ceiling, which is measured on one host before the first trial.
fn refuse_ceiling(plan: &Plan) -> Result<()> {
    if plan.machine.kind == MachineKind::Url && plan.machine.ceiling.is_some() {
        bail!(
            "--slurm with ceiling in [machine]: nodes measure no ceilings (leave it out of the plan)"
        );
    }
    Ok(())
}

/// The `bakeoff` program that the jobs run.
fn program(args: &PlanArgs) -> Result<PathBuf> {
    match &args.fleet.program {
        Some(program) => Ok(program.clone()),
        None => std::env::current_exe().context("cannot find bakeoff's own binary"),
    }
}

/// The command that a job runs; `$block` stands for the block's number.
fn job_command(run: &Path, program: &Path, args: &PlanArgs) -> Result<Vec<String>> {
    let absolute_path = |path: &Path| -> Result<String> {
        let path = absolute(path).with_context(|| format!("cannot find {}", path.display()))?;
        Ok(path.to_string_lossy().into_owned())
    };
    let mut command = vec![
        absolute_path(program)?,
        "run".into(),
        absolute_path(&args.plan)?,
        "--out".into(),
        absolute_path(run)?,
        "--block".into(),
        "$block".into(),
    ];
    if let Some(jobs) = args.options.jobs {
        command.extend(["--jobs".into(), jobs.to_string()]);
    }
    if let Some(qemu) = args.options.emulator.named() {
        command.extend(["--qemu".into(), absolute_path(&qemu)?]);
    }
    Ok(command)
}
