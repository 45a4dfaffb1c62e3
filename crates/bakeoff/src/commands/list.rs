//! `list`: lists the runs below a directory, with their verdicts. It only reads them.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use base::input::text::escaped;
use base::input::tree::Tree;
use base::input::units::show_change;
use record::night::State;
use record::rundir;
use record::rundir::Run;
use record::verdict::{Conclusion, Headline, Judgement};
use serde::Serialize;
use serde_json::json;

use super::report::width;
use super::{End, print_json};
use crate::cli::compare::ListArgs;
use crate::out;

/// Version of what `--json` prints.
const VERSION: u32 = 1;

/// A run directory.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct ListedRun {
    dir: PathBuf,
    state: State,
    /// `None` if the run is damaged or has not begun.
    run: Option<Summary>,
    /// How the run is damaged, if it is.
    damage: Option<String>,
}

/// The summary of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Summary {
    title: String,
    /// Baseline first.
    arms: Vec<String>,
    /// Complete blocks of the workload with the most.
    blocks: u32,
    max_blocks: u32,
    /// Trials that ran only for their profile; no verdict counts them.
    profiled: u32,
    /// Host time, RFC 3339.
    begun: String,
    verdicts: Vec<VerdictLine>,
}

/// The verdict on one arm on one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct VerdictLine {
    workload: String,
    arm: String,
    metric: Option<String>,
    verdict: &'static str,
    ratio: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
}

/// Lists the runs.
pub(super) fn list(args: &ListArgs, json: bool) -> Result<End> {
    let runs = record::live::directories(&args.dir)
        .map_err(|why| anyhow!("{why} (name the directory that holds them)"))?;
    let listed: Vec<ListedRun> = runs.values().map(list_run).collect();
    if json {
        print_json(&json!({ "version": VERSION, "runs": listed }))?;
        return Ok(End::Done);
    }
    if listed.is_empty() {
        out::line(&format!(
            "no runs in {} (bakeoff compare and bakeoff run make some)",
            args.dir.display()
        ));
        return Ok(End::Done);
    }
    for run in &listed {
        for (text, lead) in run_lines(run) {
            // The text of damage comes from files, so it is escaped.
            for line in doc::terminal::wrap(&escaped(&text), lead, width()) {
                out::line(&line);
            }
        }
    }
    Ok(End::Done)
}

fn list_run(dir: &Tree) -> ListedRun {
    let or_running = |state| {
        if rundir::is_running(dir) {
            State::Running
        } else {
            state
        }
    };
    let (state, run, damage) = if rundir::is_not_begun(dir) {
        (or_running(State::NotBegun), None, None)
    } else {
        match rundir::load(dir, &workload::check) {
            Ok(run) => {
                let judgement = judge::summary(&run);
                let state = state(dir, &run, &judgement);
                (state, Some(summary(&run, &judgement)), None)
            }
            Err(why) => (or_running(State::Damaged), None, Some(format!("{why:#}"))),
        }
    };
    ListedRun {
        dir: dir.path(),
        state,
        run,
        damage,
    }
}

/// The state of a run.
pub(super) fn state(dir: &Tree, run: &Run, judgement: &Judgement) -> State {
    let is_undecided =
        |headline: &Headline| matches!(headline.conclusion, Conclusion::Undecided { .. });
    match run.closed() {
        Some(_) if judgement.headlines.iter().any(is_undecided) => State::Undecided,
        Some(_) => State::Complete,
        None if rundir::is_running(dir) => State::Running,
        None => State::Interrupted,
    }
}

fn summary(run: &Run, judgement: &Judgement) -> Summary {
    let blocks = judgement.primaries().map(|primary| primary.blocks).max();
    Summary {
        title: run.plan.title.clone(),
        arms: run.plan.arms.iter().map(|arm| arm.name.clone()).collect(),
        blocks: blocks.unwrap_or(0),
        max_blocks: run.plan.design.most_blocks(),
        profiled: run.profiled.len() as u32,
        begun: run
            .entries
            .first()
            .map_or(String::new(), |entry| entry.at.clone()),
        verdicts: judgement
            .headlines
            .iter()
            .map(|headline| verdict_line(headline, judgement))
            .collect(),
    }
}

fn verdict_line(headline: &Headline, judgement: &Judgement) -> VerdictLine {
    let primary = judgement
        .primaries()
        .find(|primary| primary.workload == headline.workload && primary.arm == headline.arm);
    VerdictLine {
        workload: headline.workload.clone(),
        arm: headline.arm.clone(),
        metric: primary.map(|primary| primary.spec.name.clone()),
        verdict: headline.conclusion.word(),
        ratio: primary.and_then(|primary| primary.ratio),
        low: primary.and_then(|primary| primary.low),
        high: primary.and_then(|primary| primary.high),
    }
}

/// The lines about a run, each with its indentation.
fn run_lines(listed: &ListedRun) -> Vec<(String, &'static str)> {
    let (dir, state) = (listed.dir.display(), listed.state.word());
    let Some(run) = &listed.run else {
        let mut lines = vec![(format!("{dir}  {state}"), "")];
        lines.extend(listed.damage.clone().map(|damage| (damage, "    ")));
        return lines;
    };
    // The time to the minute, without the time zone, which is always UTC.
    let begun = run.begun.get(..16).unwrap_or(&run.begun).replace('T', " ");
    let (blocks, most) = (run.blocks, run.max_blocks);
    let arms = run.arms.join(", ");
    let profiled = match run.profiled {
        0 => String::new(),
        trials => format!(", {trials} unjudged for profiles"),
    };
    vec![
        (
            format!("{dir}  {state}, {blocks} of {most} blocks{profiled}, begun {begun}"),
            "",
        ),
        (format!("{} (arms {arms})", run.title), "    "),
        (verdicts_text(run), "    "),
    ]
}

/// `7.2 better +14.6 %`; with the workload's name if there are several.
fn verdicts_text(run: &Summary) -> String {
    let first = run.verdicts.first().map(|line| &line.workload);
    let is_only_workload = run
        .verdicts
        .iter()
        .all(|line| Some(&line.workload) == first);
    let verdicts = run.verdicts.iter().map(|line| {
        let lead = if is_only_workload {
            String::new()
        } else {
            format!("{}: ", line.workload)
        };
        let change = line.ratio.map(|ratio| format!(" {}", show_change(ratio)));
        format!(
            "{lead}{} {}{}",
            line.arm,
            line.verdict,
            change.unwrap_or_default()
        )
    });
    let verdicts: Vec<String> = verdicts.collect();
    if verdicts.is_empty() {
        return "nothing measured yet".into();
    }
    verdicts.join("; ")
}
