//! `run --block`: a job of a cluster. It uses the run's copy of the plan; paths in the plan are relative to the plan file.

use anyhow::{Context, Result};
use machine::clock::HostClock;
use plan::Plan;
use record::rundir::RunDir;

use super::{End, jobs};
use crate::build_id;
use crate::cli::PlanArgs;
use crate::commands::{check_plan, watch_signals};
use crate::fleet;
use crate::fleet::JobEnd;
use crate::lab;
use crate::lab::{Finish, Lab};
use crate::out;
use crate::prepare;
use crate::prepare::Sources;
use crate::reporter::Reporter;

/// How often Slurm may restart a job; then the submitter decides.
const MAX_RESTARTS: u32 = 2;

/// Runs one block of a run on this node.
pub(super) fn run(args: &PlanArgs, block: u32, json: bool) -> Result<End> {
    let run = super::directory(args);
    let (node, build) = (fleet::this_node(), build_id::build());
    let ended = fleet::run_job(&run, block, &node, &build, |dir| {
        run_block(args, block, dir, json)
    })?;
    match ended {
        JobEnd::Done => {}
        JobEnd::AtWork => out::error_line(&format!("block {block}: another job is at work on it")),
        JobEnd::Refused(message) => {
            out::error_line(&format!("bakeoff: {message}"));
            return Ok(End::Refused);
        }
        JobEnd::Interrupted => return Ok(End::Requeue),
        JobEnd::Failed(message) => {
            out::error_line(&format!("bakeoff: {message}"));
            return Ok(if restarts() < MAX_RESTARTS {
                End::Requeue
            } else {
                End::Refused
            });
        }
    }
    Ok(End::Done)
}

/// How often Slurm has restarted this job.
fn restarts() -> u32 {
    let count = std::env::var("SLURM_RESTART_COUNT").ok();
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

fn run_block(args: &PlanArgs, block: u32, dir: &RunDir, json: bool) -> Result<Finish> {
    let run = super::directory(args);
    let options = &args.options;
    let qemu = options.emulator.named();
    let path = run.join("plan.toml");
    let text =
        plan::read_text(&path).with_context(|| format!("cannot read plan: {}", path.display()))?;
    let (text, plan): (String, Plan) = check_plan(&args.plan, text, qemu.as_deref())?;
    let interrupted = watch_signals()?;
    let reporter = Reporter::new(json);
    let sources = Sources {
        refresh: false,
        qemu,
        second_model: None,
    };
    let prepared = prepare::prepare(&plan, &args.plan, &sources, &reporter, &interrupted)?;
    prepared.note_run(dir.path())?;
    prepared.keep_details(dir)?;
    let lab = Lab {
        plan: &plan,
        dir,
        machine: &*prepared.machine,
        clock: &HostClock::start(),
        greeting: &build_id::host(),
        interrupted: &interrupted,
        jobs: jobs::for_machine(options.jobs, &plan, &*prepared.machine)?,
        extension: None,
        remeasures_ceilings: false,
        show: &|event| reporter.show(event),
    };
    let wanted = lab::fleet::undecided(&run, &plan)?;
    let ended = lab::fleet::run_block(&lab, prepared.opening(&plan, &text), block, wanted);
    let closed = prepared.machine.close();
    reporter.close();
    ended.and_then(|finish| closed.map(|()| finish))
}
