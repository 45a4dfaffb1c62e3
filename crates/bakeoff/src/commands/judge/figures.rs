//! Figures of other tools: read, judged, told.

use anyhow::{Result, bail};
use record::metric::Direction;
use record::verdict::Verdict;
use serde_json::json;
use verdict::fixed_sample::{Finding, Terms};

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
            print_json(&json!({ "version": format::VERSION, "problems": check::told(&problems) }))?;
            return Ok(End::Refused);
        }
        read => read?,
    };
    conclude(&figures, terms(args), args, json)
}

/// Answers all comparisons, and says so.
pub(super) fn conclude(
    figures: &Figures,
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
        .map(|comparison| Answer::to(comparison, share))
        .collect();
    if json {
        print_json(&format::json(figures, &answers, terms))?;
    } else if args.markdown {
        out::text(&format::markdown(figures, &answers, terms));
    } else {
        let width = crate::commands::report::width();
        out::text(&format::terminal(figures, &answers, terms, width));
    }
    gate(&answers, args.fail_on)
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
fn gate(answers: &[Answer<'_>], fail_on: Option<FailOn>) -> Result<End> {
    let Some(fail_on) = fail_on else {
        return Ok(End::Done);
    };
    if fail_on == FailOn::Violation {
        bail!(
            "--fail-on violation with figures of other tools: nothing is known of how they were measured (run a plan)"
        );
    }
    let told = |answer: &Answer<'_>, what: &str| {
        format!(
            "{} of {} {what}",
            answer.comparison.metric, answer.comparison.arm
        )
    };
    let has_interval = |finding: &Finding| finding.change.is_some_and(|one| one.interval.is_some());
    let trips = |answer: &&Answer<'_>| match (fail_on, answer.finding.verdict) {
        (_, Verdict::Worse) => true,
        (FailOn::Undecided, Verdict::Undecided) => has_interval(&answer.finding),
        (FailOn::Worse | FailOn::AnyWorse | FailOn::Violation, Verdict::Undecided)
        | (_, Verdict::Better | Verdict::Equivalent) => false,
    };
    let is_open = |answer: &&Answer<'_>| {
        answer.finding.verdict == Verdict::Undecided && !has_interval(&answer.finding)
    };
    let found = answers.iter().filter(trips);
    let found = found.map(|one| told(one, &format!("is {}", one.finding.verdict.word())));
    gate::answer(fail_on, &found.collect::<Vec<_>>(), || {
        let open = answers.iter().filter(is_open);
        open.map(|one| {
            let why = report::sample_reason(&one.finding.reason);
            told(one, &format!("is undecided: {why}"))
        })
        .collect()
    })
}
