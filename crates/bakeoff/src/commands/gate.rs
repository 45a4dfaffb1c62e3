//! The gate of `--fail-on`: whether what was found lets a change pass.
//!
//! ```text
//! status   --fail-on regression                                       worse                       unfair
//! 1        a primary metric is worse, or another beyond the margin    a primary metric is worse   a fairness check fails
//! 1        with `defect`: an arm has a defect that the baseline has not; with `growth`, `failures`: long trials show it in an arm
//! 1        always: an arm fails (no figure where the baseline gave one, faults that the baseline never has)
//! 3        a primary metric is undecided, or another one is worse in  -                           no trial has facts
//!          every block by more than the margin, too few for a verdict
//! 3        with `defect`: of some arm no trial's log was read; with `growth`, `failures`: no trial was long enough to tell
//! 3        `regression` and `worse`: the comparison is not fair
//! 3        else, always: the run is not finished, the baseline gave no figure, too few blocks to exclude anything
//! 0        else
//! ```
//! Status 0 is an answer: what was looked for could have been found, and was not.

use record::defect;
use record::metric::Role;
use record::rundir::{Run, TrialRecord};
use record::trial::Outcome as TrialOutcome;
use record::verdict::defects::{ArmDefect, Side};
use record::verdict::finding::Severity;
use record::verdict::soak::SoakArm;
use record::verdict::{Comparison, Conclusion, Headline, Judgement, Verdict, fairness};

use super::End;
use crate::cli::FailOn;
use crate::out;

/// How a command ends that has judged a run.
pub(super) fn gate(run: &Run, judgement: &Judgement, fail_on: Option<FailOn>) -> End {
    let Some(fail_on) = fail_on else {
        return End::Done;
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
) -> End {
    if !found.is_empty() {
        out::error_line(&format!(
            "{}: tripped: {}",
            fail_on.words(),
            found.join("; ")
        ));
        return End::Tripped;
    }
    let unanswered = unanswered();
    if !unanswered.is_empty() {
        out::error_line(&format!(
            "{}: no answer: {}",
            fail_on.words(),
            unanswered.join("; ")
        ));
        return End::Unanswered;
    }
    End::Done
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
    let unfair: Vec<String> = fairness::failed(&judgement.fairness)
        .map(|check| format!("fairness: {}", check.id))
        .collect();
    if fail_on == FailOn::Unfair {
        found.extend(unfair);
    }
    if fail_on == FailOn::Defect {
        let new = judgement
            .defects
            .found
            .iter()
            .filter(|defect| is_new_defect(defect));
        found.extend(new.map(|defect| judge::report::arm_defect(run, defect)));
    }
    found.extend(of_soaks(run, judgement, fail_on));
    for comparison in watched(judgement, fail_on) {
        if comparison.verdict == Verdict::Worse {
            found.push(format!(
                "{}: {} of {} is worse",
                comparison.workload, comparison.spec.name, comparison.arm
            ));
        }
    }
    if fail_on == FailOn::Regression {
        found.extend(judgement.headlines.iter().filter_map(trade_off));
    }
    found
}

/// What is worse in an arm whose primary metric is not.
fn trade_off(headline: &Headline) -> Option<String> {
    let conclusion = &headline.conclusion;
    let is_worse_itself = matches!(
        conclusion,
        Conclusion::TradeOff {
            primary: Verdict::Worse,
            ..
        } | Conclusion::ModelDependent {
            primary: Verdict::Worse,
            ..
        }
    );
    let curves = conclusion.curves().iter();
    let curves = curves.map(|curve| format!("{curve} at some load"));
    let worse: Vec<String> = conclusion.against().iter().cloned().chain(curves).collect();
    (!is_worse_itself && !worse.is_empty()).then(|| {
        format!(
            "{}: {} of {} is worse (a trade-off)",
            headline.workload,
            worse.join(", "),
            headline.arm
        )
    })
}

/// What the baseline has too is no news of the arm, and what is less than a defect need not be its fault.
fn is_new_defect(defect: &ArmDefect) -> bool {
    defect.side == Side::OnlyArm && defect.severity == defect::Severity::Defect
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
        let mut headlines = judgement.headlines.iter();
        headlines.any(|headline| {
            let is_its = headline.workload == workload && headline.arm == arm;
            is_its && matches!(headline.conclusion, Conclusion::Failed(_))
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
        let sentences = match fail_on {
            FailOn::Growth => judge::report::growth(soak),
            FailOn::Failures => judge::report::failures(soak, &run.plan.baseline),
            _ => continue,
        };
        found.extend(
            sentences
                .into_iter()
                .map(|sentence| format!("{}: {sentence}", soak.workload)),
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
        let soak = judgement
            .soaks
            .iter()
            .find(|soak| soak.workload == workload);
        soak.is_some_and(|soak| {
            soak.arms
                .iter()
                .any(|soak_arm| soak_arm.arm == arm && tells(soak_arm))
        })
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
        FailOn::Unfair if has_no_facts(run) => {
            let findings = judgement.fairness.iter();
            let unknown =
                findings.filter(|check| matches!(check.outcome, fairness::Outcome::Unknown { .. }));
            why.push(format!(
                "no trial has facts, so {} fairness checks are not known (run it again)",
                unknown.count()
            ));
        }
        FailOn::Unfair => {}
        FailOn::Regression | FailOn::Worse => {
            let unfair = fairness::failed(&judgement.fairness);
            why.extend(unfair.map(|check| format!("the comparison is not fair: {}", check.id)));
        }
    }
    if !is_over(run) {
        why.push("the run is not finished (go on with it: bakeoff run PLAN --out DIR)".into());
    }
    why.extend(baseline_failed(run, judgement));
    let compared = |workload: &str, arm: &str| {
        judgement
            .primaries()
            .any(|comparison| comparison.workload == workload && comparison.arm == arm)
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
    let is_open = |comparison: &&Comparison| {
        comparison.verdict == Verdict::Undecided
            && (fail_on == FailOn::Regression || !comparison.has_interval())
    };
    why.extend(
        watched(judgement, fail_on)
            .filter(is_open)
            .map(|comparison| {
                format!(
                    "{}: {} of {}: {}",
                    comparison.workload,
                    comparison.spec.name,
                    comparison.arm,
                    judge::report::reason(comparison)
                )
            }),
    );
    if fail_on == FailOn::Regression {
        why.extend(unjudged_losses(run, judgement));
    }
    why
}

/// Other metrics that are worse by more than the margin in every block, and have too few blocks for a verdict.
fn unjudged_losses(run: &Run, judgement: &Judgement) -> Vec<String> {
    let margin = run.plan.design.margin;
    let is_loss = |comparison: &&Comparison| {
        comparison.verdict == Verdict::Undecided
            && comparison.spec.role == Role::Secondary
            && comparison.is_loss_in_every_block(margin)
    };
    let losses = judgement.comparisons.iter().filter(is_loss);
    losses
        .map(|comparison| {
            format!(
                "{}: {} of {} is worse in every block, and {} are too few for a verdict (add some: --more-blocks N)",
                comparison.workload,
                comparison.spec.name,
                comparison.arm,
                comparison.blocks
            )
        })
        .collect()
}

/// Whether trials were measured, and nothing of what their systems were like is there.
fn has_no_facts(run: &Run) -> bool {
    let is_measured = |record: &TrialRecord| matches!(record.outcome, TrialOutcome::Measured(_));
    run.attempts.iter().any(is_measured) && run.facts.iter().all(Option::is_none)
}

/// The comparisons that the gate watches.
fn watched(judgement: &Judgement, fail_on: FailOn) -> impl Iterator<Item = &Comparison> {
    let is_of_speed = matches!(fail_on, FailOn::Regression | FailOn::Worse);
    judgement.primaries().filter(move |_| is_of_speed)
}

fn is_over(run: &Run) -> bool {
    run.closed().is_some()
}

/// Workloads on which the baseline gave no figure, so that nothing is known of the others.
pub(super) fn baseline_failed(run: &Run, judgement: &Judgement) -> Vec<String> {
    let headlines = judgement
        .headlines
        .iter()
        .filter(|headline| headline.arm == run.plan.baseline);
    headlines
        .filter_map(|headline| match &headline.conclusion {
            Conclusion::Failed(failed) => Some(format!(
                "{}: the baseline gave no figure: {}",
                headline.workload, failed.last
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
            Self::Regression => "--fail-on regression",
            Self::Worse => "--fail-on worse",
            Self::Unfair => "--fail-on unfair",
            Self::Defect => "--fail-on defect",
            Self::Growth => "--fail-on growth",
            Self::Failures => "--fail-on failures",
        }
    }
}

#[cfg(test)]
mod tests;
