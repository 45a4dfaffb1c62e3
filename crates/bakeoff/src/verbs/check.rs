//! `check`: is the plan right, and what would it take?

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use record::plan::Plan;
use record::problem::{Problem, Problems};
use record::units::show_duration;
use serde_json::json;

use super::{End, print_json, read_plan};

/// Checks a plan without booting anything; all mistakes are told at once.
pub(super) fn check(path: &Path, as_json: bool) -> Result<End> {
    match read_plan(path) {
        Ok((_, plan)) if as_json => print_json(&summary(&plan))?,
        Ok((_, plan)) => print!("{}", lines(&plan)),
        Err(why) => match why.downcast::<Problems>() {
            Ok(problems) if as_json => {
                print_json(&json!({ "problems": told(&problems) }))?;
                return Ok(End::Refused);
            }
            Ok(problems) => return Err(problems.into()),
            Err(why) => return Err(why),
        },
    }
    Ok(End::Done)
}

/// Problems for machines.
pub(super) fn told(problems: &Problems) -> Vec<serde_json::Value> {
    let told = |problem: &Problem| {
        let Problem {
            file,
            line,
            what,
            remedy,
        } = problem;
        json!({ "file": file, "line": line, "what": what, "remedy": remedy })
    };
    problems.0.iter().map(told).collect()
}

fn summary(plan: &Plan) -> serde_json::Value {
    let arms: Vec<_> = plan
        .arms
        .iter()
        .map(|arm| {
            json!({
                "name": arm.name, "kernel": arm.kernel.to_string(),
                "cmdline": arm.cmdline, "sysctl": arm.sysctl,
            })
        })
        .collect();
    let workloads: Vec<_> = plan
        .workloads
        .iter()
        .map(|workload| {
            json!({
                "id": workload.id, "kind": workload.kind, "options": workload.options,
                "length_s": workload.length.as_secs_f64(),
            })
        })
        .collect();
    json!({
        "title": plan.title, "baseline": plan.baseline, "arms": arms, "workloads": workloads,
        "trials_at_least": trials(plan, plan.design.min_blocks),
        "trials_at_most": trials(plan, plan.design.max_blocks),
        "problems": [],
    })
}

fn lines(plan: &Plan) -> String {
    let arms: Vec<_> = plan
        .arms
        .iter()
        .map(|arm| format!("{} ({})", arm.name, arm.kernel))
        .collect();
    let workloads: Vec<_> = plan
        .workloads
        .iter()
        .map(|workload| workload.id.as_str())
        .collect();
    let least = trials(plan, plan.design.min_blocks);
    let most = trials(plan, plan.design.max_blocks);
    let longest: Duration = plan.workloads.iter().map(|workload| workload.length).sum();
    format!(
        "{}\n  arms       {} (baseline first)\n  workloads  {}\n  trials     {least} to {most}, \
         {} of load for each arm and block, boots not counted\n",
        plan.title,
        arms.join(", "),
        workloads.join(", "),
        show_duration(longest),
    )
}

fn trials(plan: &Plan, blocks: u32) -> usize {
    blocks as usize * plan.arms.len() * plan.workloads.len()
}
