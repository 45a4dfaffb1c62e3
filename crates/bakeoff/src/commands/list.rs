//! `list`: the runs below a directory, with their verdicts. Nothing is changed.

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
struct Listed {
    dir: PathBuf,
    state: State,
    /// `None` where it is damaged, or has not begun.
    run: Option<Summary>,
    /// What is wrong with it; `None` where nothing is.
    damage: Option<String>,
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Summary {
    title: String,
    /// Baseline first.
    arms: Vec<String>,
    /// Complete blocks of the workload that has most.
    blocks: u32,
    max_blocks: u32,
    /// Trials that were run for their profile alone; they count for no verdict.
    profiled: u32,
    /// Host time, RFC 3339.
    begun: String,
    verdicts: Vec<Line>,
}

/// What is said of one arm on one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Line {
    workload: String,
    arm: String,
    metric: Option<String>,
    verdict: &'static str,
    ratio: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
}

/// Lists what is there.
pub(super) fn list(args: &ListArgs, json: bool) -> Result<End> {
    let runs = record::live::directories(&args.dir)
        .map_err(|why| anyhow!("{why} (name the directory that holds them)"))?;
    let listed: Vec<Listed> = runs.values().map(of_dir).collect();
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
    for one in &listed {
        for (text, lead) in lines(one) {
            // What is damaged is told as it is in the file.
            for line in doc::terminal::wrap(&escaped(&text), lead, width()) {
                out::line(&line);
            }
        }
    }
    Ok(End::Done)
}

fn of_dir(dir: &Tree) -> Listed {
    if rundir::is_not_begun(dir) {
        let state = if rundir::is_running(dir) {
            State::Running
        } else {
            State::NotBegun
        };
        return Listed {
            dir: dir.path(),
            state,
            run: None,
            damage: None,
        };
    }
    match rundir::load(dir, &workload::check) {
        Ok(run) => {
            let judgement = judge::quick_look(&run);
            Listed {
                dir: dir.path(),
                state: state(dir, &run, &judgement),
                run: Some(summary(&run, &judgement)),
                damage: None,
            }
        }
        Err(why) => Listed {
            dir: dir.path(),
            state: if rundir::is_running(dir) {
                State::Running
            } else {
                State::Damaged
            },
            run: None,
            damage: Some(format!("{why:#}")),
        },
    }
}

/// How far a run is.
pub(super) fn state(dir: &Tree, run: &Run, judgement: &Judgement) -> State {
    let is_open = |one: &Headline| matches!(one.conclusion, Conclusion::Undecided { .. });
    match run.closed() {
        Some(_) if judgement.headlines.iter().any(is_open) => State::Undecided,
        Some(_) => State::Complete,
        None if rundir::is_running(dir) => State::Running,
        None => State::Interrupted,
    }
}

fn summary(run: &Run, judgement: &Judgement) -> Summary {
    let blocks = judgement.primaries().map(|one| one.blocks).max();
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
            .map(|one| line(one, judgement))
            .collect(),
    }
}

fn line(headline: &Headline, judgement: &Judgement) -> Line {
    let primary = judgement
        .primaries()
        .find(|one| one.workload == headline.workload && one.arm == headline.arm);
    Line {
        workload: headline.workload.clone(),
        arm: headline.arm.clone(),
        metric: primary.map(|one| one.spec.name.clone()),
        verdict: headline.conclusion.word(),
        ratio: primary.and_then(|one| one.ratio),
        low: primary.and_then(|one| one.low),
        high: primary.and_then(|one| one.high),
    }
}

/// A run in a few lines, each with what stands before it.
fn lines(listed: &Listed) -> Vec<(String, &'static str)> {
    let (dir, state) = (listed.dir.display(), listed.state.word());
    let Some(run) = &listed.run else {
        let mut lines = vec![(format!("{dir}  {state}"), "")];
        lines.extend(listed.damage.clone().map(|damage| (damage, "    ")));
        return lines;
    };
    // Minutes are enough, and the time zone is always the same.
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
        (verdict(run), "    "),
    ]
}

/// `7.2 better +14.6 %`; with the workload where there are several.
fn verdict(run: &Summary) -> String {
    let first = run.verdicts.first().map(|line| &line.workload);
    let is_alone = run
        .verdicts
        .iter()
        .all(|line| Some(&line.workload) == first);
    let said = run.verdicts.iter().map(|line| {
        let lead = if is_alone {
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
    let said: Vec<String> = said.collect();
    if said.is_empty() {
        return "nothing measured yet".into();
    }
    said.join("; ")
}
