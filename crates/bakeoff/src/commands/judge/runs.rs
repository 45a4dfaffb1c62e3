//! Several run directories: each arm of the later ones against the same arm of the first.
//!
//! Nothing was interleaved, so this is the weakest design that figures can have: `fixed_sample::unpaired`, and only where nothing differs that
//! would make the figures another quantity.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use judge::topics::apart::find as apart;
use judge::topics::apart::find::Apart;
use record::metric::Role;
use record::rundir;
use record::rundir::Run;
use record::trial::Outcome;
use record::verdict::{Conclusion, Headline, Judgement, fairness};
use stats::fixed_sample::Terms;

use super::figures::{self, FailedCheck, Origin};
use crate::cli::judge::{JudgeArgs, SEED};
use crate::commands::End;
use import::compare::{BASELINES, Comparison};
use import::layout::Layout;
use import::{Figures, OwnRun};

/// A run directory, read.
struct Side<'s> {
    source: &'s OwnRun,
    run: Run,
}

/// Judges the later runs against one of them.
pub(super) fn judge(runs: &[OwnRun], args: &JudgeArgs, json: bool) -> Result<End> {
    refuse_names(runs)?;
    let mut sides = Vec::new();
    for source in runs {
        let run = rundir::load(&source.dir, &workload::check)?;
        sides.push(Side { source, run });
    }
    let (place, why) = baseline(runs, args.baseline.as_deref())?;
    let before = sides.remove(place);
    let mut comparisons = Vec::new();
    let mut remarks = BTreeSet::new();
    let mut failed_checks = Vec::new();
    for side in [&before].into_iter().chain(&sides) {
        let judgement = judge::interim(&side.run);
        remarks.extend(unfair(side, &judgement));
        failed_checks.extend(
            fairness::failed(&judgement.fairness).map(|check| FailedCheck {
                run: side.source.name.clone(),
                id: check.id.clone(),
            }),
        );
    }
    for after in &sides {
        refuse_obstacles(&before, after)?;
        remarks.extend(remark(&before, after));
        let all = apart::figures(&before.run, &after.run);
        let asked = all
            .into_iter()
            .filter(|metric| is_asked(metric, &args.metric));
        comparisons.extend(asked.map(|metric| comparison(metric, &after.source.name)));
    }
    if comparisons.is_empty() {
        bail!("{}", nothing(&args.metric));
    }
    if args.metric.is_empty() {
        remarks.insert("primary metrics only, because each one more takes a share of the error rate (--metric NAME judges others)".into());
    }
    let figures = Figures {
        files: [&before].into_iter().chain(&sides).map(summary).collect(),
        remarks: remarks.into_iter().collect(),
        baseline: before.source.name.clone(),
        baseline_why: why,
        comparisons,
        failing: BTreeSet::new(),
    };
    let terms = terms(&before, &sides, args);
    figures::conclude(&figures, &Origin::Runs { failed_checks }, terms, args, json)
}

fn nothing(metrics: &[String]) -> String {
    if metrics.is_empty() {
        return "no figure in both runs to compare: no arm was measured on the same workload in both".into();
    }
    format!(
        "no metric of both runs is named so: {} (bakeoff show DIR prints the names)",
        metrics.join(", ")
    )
}

fn refuse_names(runs: &[OwnRun]) -> Result<()> {
    let mut dirs = BTreeSet::new();
    let is_again = |source: &&OwnRun| source.dir.canonicalize().is_ok_and(|dir| !dirs.insert(dir));
    if let Some(again) = runs.iter().find(is_again) {
        bail!(
            "one run named twice: {} (name two runs, or judge it alone: its arms are compared with one another)",
            again.dir.display()
        );
    }
    let mut seen = BTreeSet::new();
    match runs.iter().find(|source| !seen.insert(&source.name)) {
        Some(again) => bail!(
            "two runs of one name: {} (write NAME={})",
            again.name,
            again.dir.display()
        ),
        None => Ok(()),
    }
}

/// One line that says what must agree and does not.
fn refuse_obstacles(before: &Side<'_>, after: &Side<'_>) -> Result<()> {
    let obstacles = apart::obstacles(&before.run, &after.run);
    if obstacles.is_empty() {
        return Ok(());
    }
    bail!(
        "runs that do not measure the same: {} and {}: {} (run both as arms of one plan)",
        before.source.dir.display(),
        after.source.dir.display(),
        obstacles
            .iter()
            .map(judge::report::obstacle)
            .collect::<Vec<_>>()
            .join("; ")
    )
}

/// Which run the others are compared with, and how it was chosen.
fn baseline(runs: &[OwnRun], asked: Option<&str>) -> Result<(usize, String)> {
    let place = |name: &str| runs.iter().position(|source| source.name == name);
    if let Some(name) = asked {
        let names: Vec<&str> = runs.iter().map(|source| source.name.as_str()).collect();
        return match place(name) {
            Some(place) => Ok((place, String::new())),
            None => bail!("no run is named {name} (name one of {})", names.join(", ")),
        };
    }
    let named = BASELINES.iter().find_map(|name| place(name));
    Ok(match named {
        Some(place) => (place, "by its name; --baseline chooses another".into()),
        None => (0, "the first run; --baseline chooses another".into()),
    })
}

fn is_asked(metric: &Apart, metrics: &[String]) -> bool {
    if metrics.is_empty() {
        return metric.spec.role == Role::Primary;
    }
    metrics
        .iter()
        .any(|part| metric.spec.name.contains(part.as_str()))
}

fn comparison(metric: Apart, after: &str) -> Comparison {
    Comparison {
        metric: format!("{} {} of {}", metric.workload, metric.spec.name, metric.arm),
        unit: metric.spec.unit,
        direction: metric.spec.direction,
        direction_why: "as the workload says".into(),
        arm: after.into(),
        layout: Layout::Unpaired {
            baseline: metric.before,
            arm: metric.after,
        },
    }
}

/// What was chosen before there were figures: the stricter of the plans.
fn terms(before: &Side<'_>, after: &[Side<'_>], args: &JudgeArgs) -> Terms {
    let designs = after.iter().map(|side| &side.run.plan.design);
    let first = &before.run.plan.design;
    let (margin, error_rate) = designs.fold((first.margin, first.error_rate), |least, design| {
        (least.0.max(design.margin), least.1.min(design.error_rate))
    });
    Terms {
        margin,
        error_rate,
        seed: args.seed.unwrap_or(SEED),
    }
}

fn remark(before: &Side<'_>, after: &Side<'_>) -> Vec<String> {
    let changes = apart::changes(&before.run, &after.run);
    let (before_name, after_name) = (&before.source.name, &after.source.name);
    let known = match &changes[..] {
        [] => format!(
            "{before_name} and {after_name} have the same plan, inputs and machine: a difference is the machine's or that of a fact (facts of runs are not compared), not an arm's"
        ),
        changes => format!(
            "what differs between {before_name} and {after_name}: {}",
            changes
                .iter()
                .map(judge::report::change)
                .collect::<Vec<_>>()
                .join(", ")
        ),
    };
    let drift = "not interleaved: whatever changed on the machine between the runs is in the difference, which no test can take out (arms of \
                 one plan take turns)";
    let mut remarks = vec![known, drift.into()];
    // RFC 3339 in UTC: the order of the texts is that of the times.
    if begun(after) < begun(before) {
        remarks.push(format!(
            "{after_name} began before its baseline, {before_name}"
        ));
    }
    remarks
}

/// What is not fair in a run, and what of it was accepted: it bears on its figures here as well.
fn unfair(side: &Side<'_>, judgement: &Judgement) -> Vec<String> {
    let name = &side.source.name;
    let headlines = judgement.headlines.iter();
    let withheld =
        headlines.filter(|headline| matches!(headline.conclusion, Conclusion::Withheld { .. }));
    let withheld = withheld.map(|headline| {
        let Headline { workload, arm, .. } = headline;
        format!("{name} withholds its own headline of {arm} on {workload}: it is not fair")
    });
    let found = judge::report::fairness_in_short(judgement);
    let found = found
        .iter()
        .map(|check_text| format!("fairness of {name}: {check_text}"));
    withheld.chain(found).collect()
}

/// When a run began; empty for a run without an entry.
fn begun<'s>(side: &'s Side<'_>) -> &'s str {
    let first = side.run.entries.first();
    first.map_or("", |entry| &entry.at)
}

/// `runs/a: run of bakeoff begun 2026-01-01T00:00:00Z, measured trials: 6 of 6.1, 6 of 7.2`.
fn summary(side: &Side<'_>) -> String {
    let count = |arm: &str| {
        let records = side
            .run
            .attempts
            .iter()
            .filter(|record| record.trial.arm == arm);
        records
            .filter(|record| matches!(record.outcome, Outcome::Measured(_)))
            .count()
    };
    let arms = side.run.plan.arms.iter();
    let arms: Vec<String> = arms
        .map(|arm| format!("{} of {}", count(&arm.name), arm.name))
        .collect();
    format!(
        "{}: run of bakeoff begun {}, measured trials: {}",
        side.source.dir.display(),
        begun(side),
        arms.join(", ")
    )
}
