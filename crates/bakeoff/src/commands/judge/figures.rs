//! Figures of other tools: read, judged, told.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use record::metric::Direction;
use record::verdict::Verdict;
use record::verdict::reason::SampleReason;
use serde_json::json;
use stats::fixed_sample::{SampleResult, Terms};

use super::answer::Answer;
use super::format;
use crate::cli::FailOn;
use crate::cli::judge::{ERROR_RATE, JudgeArgs, MARGIN, SEED};
use crate::commands::{End, check, gate, print_json};
use crate::out;
use import::compare::ImportOptions;
use import::{self, Figures};

/// Judges files of figures.
pub(super) fn judge(args: &JudgeArgs, json: bool) -> Result<End> {
    let figures = match import::read(&args.paths, &asked(args)) {
        Err(problems) if json => {
            print_json(
                &json!({ "version": format::VERSION, "problems": check::problems_json(&problems) }),
            )?;
            return Ok(End::Refused);
        }
        read => read?,
    };
    conclude(&figures, &Origin::OtherTools, terms(args), args, json)
}

/// Who measured the figures.
pub(super) enum Origin {
    /// Nothing is known of how.
    OtherTools,
    /// Runs of bakeoff.
    Runs {
        /// The fairness checks that failed in these runs.
        failed_checks: Vec<FailedCheck>,
    },
}

/// A fairness check that failed in a run.
pub(super) struct FailedCheck {
    /// The run.
    pub(super) run: String,
    /// The check.
    pub(super) id: String,
}

/// Answers all comparisons, and says so.
pub(super) fn conclude(
    figures: &Figures,
    origin: &Origin,
    terms: Terms,
    args: &JudgeArgs,
    json: bool,
) -> Result<End> {
    let share = Terms {
        error_rate: terms.error_rate / figures.comparisons.len() as f64,
        ..terms
    };
    let answers: Vec<Answer<'_>> = figures
        .comparisons
        .iter()
        .map(|comparison| Answer::to(comparison, &figures.baseline, share))
        .collect();
    if json {
        let mut answer_json = format::json(figures, &answers, terms);
        answer_json["failed_checks"] = origin.json();
        print_json(&answer_json)?;
    } else if args.markdown {
        out::text(&format::markdown(figures, &answers, terms));
    } else {
        let width = crate::commands::report::width();
        out::text(&format::terminal(figures, &answers, terms, width));
    }
    gate(&answers, &figures.failing, origin, args.fail_on)
}

impl Origin {
    fn failed_checks(&self) -> &[FailedCheck] {
        match self {
            Self::OtherTools => &[],
            Self::Runs { failed_checks } => failed_checks,
        }
    }

    fn json(&self) -> serde_json::Value {
        let failed_checks = self.failed_checks().iter();
        failed_checks
            .map(|check| json!({ "run": check.run, "id": check.id }))
            .collect()
    }
}

fn asked(args: &JudgeArgs) -> ImportOptions {
    let direction = match (args.higher_is_better, args.lower_is_better) {
        (true, _) => Some(Direction::Higher),
        (_, true) => Some(Direction::Lower),
        (false, false) => None,
    };
    ImportOptions {
        baseline: args.baseline.clone(),
        metrics: args.metric.clone(),
        direction,
        samples_are_runs: args.samples_are_runs,
    }
}

/// What was typed, or its default. All comparisons share the error rate in equal parts, so that it holds for any wrong
/// verdict among them, however they hang together (Bonferroni).
fn terms(args: &JudgeArgs) -> Terms {
    Terms {
        margin: args.margin.unwrap_or(MARGIN),
        error_rate: args.error_rate.unwrap_or(ERROR_RATE),
        seed: args.seed.unwrap_or(SEED),
    }
}

/// Every metric of such figures is a primary one.
fn gate(
    answers: &[Answer<'_>],
    failing: &BTreeSet<String>,
    origin: &Origin,
    fail_on: Option<FailOn>,
) -> Result<End> {
    let Some(fail_on) = fail_on else {
        return Ok(End::Done);
    };
    let unfair = origin.failed_checks().iter();
    let unfair: Vec<String> = unfair
        .map(|check| format!("{} of {}", check.id, check.run))
        .collect();
    if fail_on == FailOn::Defect {
        bail!(
            "--fail-on defect with figures of other tools or two runs: defects are compared within one run (judge each run's directory)"
        );
    }
    if fail_on == FailOn::Unfair {
        if let Origin::Runs { .. } = origin {
            let found: Vec<String> = unfair
                .iter()
                .map(|check| format!("fairness: {check}"))
                .collect();
            return Ok(gate::answer(fail_on, &found, Vec::new));
        }
        bail!(
            "--fail-on unfair with figures of other tools: nothing is known of how they were measured (run a plan)"
        );
    }
    if matches!(fail_on, FailOn::Growth | FailOn::Failures) {
        bail!(
            "{}: nothing is known of what happens over time in these figures (judge the run directory)",
            fail_on.words()
        );
    }
    let statement = |answer: &Answer<'_>, what: &str| {
        format!(
            "{} of {} {what}",
            answer.comparison.metric, answer.comparison.arm
        )
    };
    let is_enough = |finding: &SampleResult| {
        finding
            .change
            .is_some_and(|change| change.interval.is_some())
            && !matches!(finding.reason, SampleReason::TooFew { .. })
    };
    let is_open = |answer: &&Answer<'_>| {
        answer.finding.verdict == Verdict::Undecided
            && (fail_on == FailOn::Regression || !is_enough(&answer.finding))
    };
    let worse = answers
        .iter()
        .filter(|answer| answer.finding.verdict == Verdict::Worse);
    let found = worse.map(|answer| statement(answer, "is worse"));
    let failing = failing
        .iter()
        .map(|arm| format!("more work failed in {arm} than in the baseline"));
    let found: Vec<String> = found.chain(failing).collect();
    Ok(gate::answer(fail_on, &found, || {
        let open = answers.iter().filter(is_open);
        let open = open.map(|answer| statement(answer, &format!("is undecided: {}", answer.why())));
        let unfair = unfair.iter();
        let unfair = unfair.map(|check| format!("a run that is compared is not fair: {check}"));
        unfair.chain(open).collect()
    }))
}
