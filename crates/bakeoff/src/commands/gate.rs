//! The gate of `--fail-on`: whether what was found lets a change pass.
//!
//! ```text
//! status   --fail-on worse             any-worse             undecided
//! 1        a primary metric is worse   any metric is worse   a primary metric is worse or undecided
//! 1        with `violation`: a check of the fairness gate fails; the others, save `defect`, `growth` and `failures`, have no answer then
//! 1        with `defect`: an arm told of a defect that the baseline has not
//! 2        with `defect`: of some arm no trial's log was read
//! 1        with `growth`, `failures`: long trials show it in an arm; 2 where no trial was long enough to tell
//! 1        always: an arm fails (no figure where the baseline gave one, faults that the baseline never has)
//! 2        with `violation`: no trial has facts, so that nothing could have been found
//! 2        else, always: the run is not finished, the baseline gave no figure, too few blocks to exclude anything
//! 0        else
//! ```
//! Status 0 is an answer: what was looked for could have been found, and was not.

use anyhow::{Result, bail};
use record::defect;
use record::metric::Role;
use record::rundir::{Run, TrialRecord};
use record::trial::Outcome as TrialOutcome;
use record::verdict::defects::{ArmDefect, Side};
use record::verdict::finding::Severity;
use record::verdict::soak::SoakArm;
use record::verdict::{Comparison, Conclusion, Judgement, Verdict, fairness};

use super::End;
use crate::cli::FailOn;
use crate::out;

/// How a command ends that has judged a run.
pub(super) fn gate(run: &Run, judgement: &Judgement, fail_on: Option<FailOn>) -> Result<End> {
    let Some(fail_on) = fail_on else {
        return Ok(End::Done);
    };
    answer(fail_on, &found(run, judgement, fail_on), || {
        unanswered(run, judgement, fail_on)
    })
}

/// The same of what was found and of what is not known.
pub(super) fn answer(
    fail_on: FailOn,
    found: &[String],
    unanswered: impl FnOnce() -> Vec<String>,
) -> Result<End> {
    if !found.is_empty() {
        out::error_line(&format!(
            "{}: tripped: {}",
            fail_on.words(),
            found.join("; ")
        ));
        return Ok(End::Tripped);
    }
    let unanswered = unanswered();
    if !unanswered.is_empty() {
        bail!("{}: no answer: {}", fail_on.words(), unanswered.join("; "));
    }
    Ok(End::Done)
}

/// Arms that fail whatever their figures are: they trip every gate.
pub(super) fn failures(run: &Run, judgement: &Judgement) -> Vec<String> {
    let mut found = Vec::new();
    for finding in &judgement.findings {
        if finding.severity() == Severity::Gate {
            found.push(format!(
                "{}: arm {} fails: {}",
                finding.workload,
                finding.arm,
                judge::report::finding(judgement, finding)
            ));
        }
    }
    found.extend(failed_arms(run, judgement));
    found
}

/// What trips the gate.
fn found(run: &Run, judgement: &Judgement, fail_on: FailOn) -> Vec<String> {
    let mut found = failures(run, judgement);
    let unfair: Vec<String> = fairness::violations(&judgement.fairness)
        .map(|one| format!("fairness: {}", one.id))
        .collect();
    if fail_on == FailOn::Violation {
        found.extend(unfair);
    }
    if fail_on == FailOn::Defect {
        let new = judgement
            .defects
            .found
            .iter()
            .filter(|one| is_new_defect(one));
        found.extend(new.map(|one| judge::report::arm_defect(run, one)));
    }
    found.extend(of_soaks(run, judgement, fail_on));
    let is_over = is_over(run) && baseline_failed(run, judgement).is_empty();
    for one in watched(judgement, fail_on) {
        let trips = match (fail_on, one.verdict) {
            (FailOn::Undecided, Verdict::Undecided) => is_over && one.has_interval(),
            (FailOn::Violation | FailOn::Defect | FailOn::Growth | FailOn::Failures, _)
            | (FailOn::Worse | FailOn::AnyWorse, Verdict::Undecided)
            | (_, Verdict::Better | Verdict::Equivalent) => false,
            (_, Verdict::Worse) => true,
        };
        if trips {
            found.push(format!(
                "{}: {} of {} is {}",
                one.workload,
                one.spec.name,
                one.arm,
                one.verdict.word()
            ));
        }
    }
    found
}

/// What the baseline has too is no news of the arm, and what is less than a defect need not be its fault.
fn is_new_defect(one: &ArmDefect) -> bool {
    one.side == Side::OnlyArm && one.severity == defect::Severity::Defect
}

/// Arms of which no trial's log was read, so that no defect could have been found.
fn unread_arms(judgement: &Judgement) -> Vec<String> {
    let unread = judgement.defects.logs.iter().filter(|arm| arm.read == 0);
    let unread =
        unread.map(|arm| format!("the kernel's log of arm {} was read in no trial", arm.arm));
    unread.collect()
}

/// Arms that never gave a figure where the baseline gave some, and that no gate of the run has named.
fn failed_arms(run: &Run, judgement: &Judgement) -> Vec<String> {
    let has_failed = |workload: &str, arm: &str| {
        let mut its = judgement.headlines.iter();
        its.any(|one| {
            let is_its = one.workload == workload && one.arm == arm;
            is_its && matches!(one.conclusion, Conclusion::Failed(_))
        })
    };
    let is_new = |workload: &str, arm: &str| {
        let mut findings = judgement.findings.iter();
        findings.all(|finding| {
            finding.severity() != Severity::Gate
                || finding.workload != workload
                || finding.arm != arm
        })
    };
    let mut failed = Vec::new();
    for workload in &run.plan.workloads {
        let id = workload.id.as_str();
        for arm in &run.plan.arms {
            let is_alone = has_failed(id, &arm.name) && !has_failed(id, &run.plan.baseline);
            if is_alone && is_new(id, &arm.name) {
                failed.push(format!("{id}: arm {} never gave a figure", arm.name));
            }
        }
    }
    failed
}

/// What long trials show of arms other than the baseline.
fn of_soaks(run: &Run, judgement: &Judgement, fail_on: FailOn) -> Vec<String> {
    let mut found = Vec::new();
    for soak in &judgement.soaks {
        let said = match fail_on {
            FailOn::Growth => judge::report::growth(soak),
            FailOn::Failures => judge::report::failures(soak, &run.plan.baseline),
            _ => continue,
        };
        found.extend(
            said.into_iter()
                .map(|said| format!("{}: {said}", soak.workload)),
        );
    }
    found
}

/// Arms whose trials were not long enough for what is asked.
fn too_short(run: &Run, judgement: &Judgement, fail_on: FailOn) -> Vec<String> {
    let tells = |arm: &SoakArm| match fail_on {
        FailOn::Growth => arm.has_counters,
        FailOn::Failures => arm.trials > 0,
        _ => true,
    };
    let known = |workload: &str, arm: &str| {
        let its = judgement.soaks.iter().find(|one| one.workload == workload);
        its.is_some_and(|soak| soak.arms.iter().any(|one| one.arm == arm && tells(one)))
    };
    let mut why = Vec::new();
    for workload in &run.plan.workloads {
        for arm in run
            .plan
            .arms
            .iter()
            .filter(|arm| !known(&workload.id, &arm.name))
        {
            let what = match fail_on {
                FailOn::Growth => {
                    "whose counters were read often enough and until its end (look at the warnings)"
                }
                _ => "(a longer window, where it has one)",
            };
            why.push(format!(
                "{}: arm {} has no trial of four minutes or more {what}",
                workload.id, arm.name
            ));
        }
    }
    why
}

/// Why nothing can be said.
pub(super) fn unanswered(run: &Run, judgement: &Judgement, fail_on: FailOn) -> Vec<String> {
    let mut why = Vec::new();
    match fail_on {
        // A comparison of speed that is not fair leaves a defect a defect, and what grows growing.
        FailOn::Growth | FailOn::Failures => return too_short(run, judgement, fail_on),
        FailOn::Defect => why.extend(unread_arms(judgement)),
        FailOn::Violation if has_no_facts(run) => {
            let findings = judgement.fairness.iter();
            let unknown =
                findings.filter(|one| matches!(one.outcome, fairness::Outcome::NotKnown { .. }));
            why.push(format!(
                "no trial has facts, so {} fairness checks are not known (run it again)",
                unknown.count()
            ));
        }
        FailOn::Violation => {}
        FailOn::Worse | FailOn::AnyWorse | FailOn::Undecided => {
            let unfair = fairness::violations(&judgement.fairness);
            why.extend(unfair.map(|one| format!("the comparison is not fair: {}", one.id)));
        }
    }
    if !is_over(run) {
        why.push("the run is not finished (go on with it: bakeoff run PLAN --out DIR)".into());
    }
    why.extend(baseline_failed(run, judgement));
    let compared = |workload: &str, arm: &str| {
        judgement
            .primaries()
            .any(|one| one.workload == workload && one.arm == arm)
    };
    for workload in &run.plan.workloads {
        let others = run
            .plan
            .arms
            .iter()
            .filter(|arm| arm.name != run.plan.baseline);
        for arm in others.filter(|arm| !compared(&workload.id, &arm.name)) {
            why.push(format!("{}: arm {} gave no figure", workload.id, arm.name));
        }
    }
    // A metric that cannot be compared at all has a warning; it would never be answered.
    let is_open = |one: &&Comparison| {
        let can_be_compared = one.spec.role == Role::Primary || one.noise.is_some();
        one.verdict == Verdict::Undecided && !one.has_interval() && can_be_compared
    };
    why.extend(watched(judgement, fail_on).filter(is_open).map(|one| {
        format!(
            "{}: {} of {}: {}",
            one.workload,
            one.spec.name,
            one.arm,
            judge::report::reason(one)
        )
    }));
    why
}

/// Whether trials were measured, and nothing of what their systems were like is there.
fn has_no_facts(run: &Run) -> bool {
    let is_measured = |one: &TrialRecord| matches!(one.outcome, TrialOutcome::Measured(_));
    run.attempts.iter().any(is_measured) && run.facts.iter().all(Option::is_none)
}

/// The comparisons that the gate looks at.
fn watched(judgement: &Judgement, fail_on: FailOn) -> impl Iterator<Item = &Comparison> {
    let is_watched = move |one: &&Comparison| match fail_on {
        FailOn::AnyWorse => true,
        FailOn::Worse | FailOn::Undecided => one.spec.role == Role::Primary,
        FailOn::Violation | FailOn::Defect | FailOn::Growth | FailOn::Failures => false,
    };
    judgement.comparisons.iter().filter(is_watched)
}

fn is_over(run: &Run) -> bool {
    run.closed().is_some()
}

/// Workloads on which the baseline gave no figure, so that nothing is known of the others.
pub(super) fn baseline_failed(run: &Run, judgement: &Judgement) -> Vec<String> {
    let its = judgement
        .headlines
        .iter()
        .filter(|one| one.arm == run.plan.baseline);
    its.filter_map(|one| match &one.conclusion {
        Conclusion::Failed(failed) => Some(format!(
            "{}: the baseline gave no figure: {}",
            one.workload, failed.last
        )),
        Conclusion::Better
        | Conclusion::Worse
        | Conclusion::Equivalent
        | Conclusion::Undecided { .. }
        | Conclusion::TradeOff { .. }
        | Conclusion::ModelDependent { .. }
        | Conclusion::Withheld { .. } => None,
    })
    .collect()
}

impl FailOn {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Worse => "--fail-on worse",
            Self::AnyWorse => "--fail-on any-worse",
            Self::Undecided => "--fail-on undecided",
            Self::Violation => "--fail-on violation",
            Self::Defect => "--fail-on defect",
            Self::Growth => "--fail-on growth",
            Self::Failures => "--fail-on failures",
        }
    }
}

#[cfg(test)]
mod tests;
