//! Figures of other tools: read, judged, told.

use anyhow::Result;
use record::metric::Direction;
use record::verdict::Verdict;
use serde_json::json;
use verdict::once::{self, Finding, Terms};

use super::words;
use crate::cli::FailOn;
use crate::cli::judge::{ERROR_RATE, JudgeArgs, MARGIN, SEED};
use crate::foreign::compare::{Asked, Question};
use crate::foreign::layout::{Layout, Order};
use crate::foreign::{self, Figures};
use crate::out;
use crate::verbs::{End, check, gate, print_json};

/// One question and what is said to it.
pub(super) struct Answer<'q> {
    /// What was asked.
    pub(super) question: &'q Question,
    /// What is said.
    pub(super) finding: Finding,
}

/// Judges files of figures.
pub(super) fn judge(args: &JudgeArgs, json: bool) -> Result<End> {
    let figures = match foreign::read(&args.paths, &asked(args)) {
        Err(problems) if json => {
            print_json(&json!({ "version": words::VERSION, "problems": check::told(&problems) }))?;
            return Ok(End::Refused);
        }
        read => read?,
    };
    conclude(&figures, terms(args), args, json)
}

/// Answers all questions, and says so.
pub(super) fn conclude(
    figures: &Figures,
    terms: Terms,
    args: &JudgeArgs,
    json: bool,
) -> Result<End> {
    let share = Terms {
        error_rate: terms.error_rate / figures.questions.len() as f64,
        ..terms
    };
    let answers: Vec<Answer<'_>> = figures
        .questions
        .iter()
        .map(|question| Answer {
            question,
            finding: answer(question, share),
        })
        .collect();
    if json {
        print_json(&words::json(figures, &answers, terms))?;
    } else if args.markdown {
        out::text(&words::markdown(figures, &answers, terms));
    } else {
        let width = crate::verbs::report::width();
        out::text(&words::terminal(figures, &answers, terms, width));
    }
    gate(&answers, args.fail_on)
}

fn asked(args: &JudgeArgs) -> Asked {
    let direction = match (args.higher_is_better, args.lower_is_better) {
        (true, _) => Some(Direction::Higher),
        (_, true) => Some(Direction::Lower),
        (false, false) => None,
    };
    Asked {
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
    let told = |answer: &Answer<'_>, what: &str| {
        format!(
            "{} of {} {what}",
            answer.question.metric, answer.question.arm
        )
    };
    let has_interval = |finding: &Finding| finding.change.is_some_and(|one| one.interval.is_some());
    let trips = |answer: &&Answer<'_>| match (fail_on, answer.finding.verdict) {
        (_, Verdict::Worse) => true,
        (FailOn::Undecided, Verdict::Undecided) => has_interval(&answer.finding),
        (FailOn::Worse | FailOn::AnyWorse, Verdict::Undecided)
        | (_, Verdict::Better | Verdict::Equivalent) => false,
    };
    let is_open = |answer: &&Answer<'_>| {
        answer.finding.verdict == Verdict::Undecided && !has_interval(&answer.finding)
    };
    let found = answers.iter().filter(trips);
    let found = found.map(|one| told(one, &format!("is {}", one.finding.verdict.word())));
    gate::answer(fail_on, &found.collect::<Vec<_>>(), || {
        let open = answers.iter().filter(is_open);
        open.map(|one| told(one, &format!("is undecided: {}", one.finding.reason)))
            .collect()
    })
}

fn answer(question: &Question, terms: Terms) -> Finding {
    match &question.layout {
        Layout::Blocks { pairs, order } => {
            once::paired(pairs, *order == Order::Random, question.direction, terms)
        }
        Layout::Loose { baseline, arm } => once::unpaired(baseline, arm, question.direction, terms),
        Layout::OneRun { baseline, arm } => {
            let seen = once::unpaired(baseline, arm, question.direction, terms);
            let typical = seen.change.map(|change| once::Change {
                interval: None,
                ..change
            });
            let reason = "one run of each arm: its samples say nothing about the next run (repeat the \
                          whole run, arms in random order; or --samples-are-runs, if they are)";
            Finding {
                verdict: Verdict::Undecided,
                change: typical,
                reason: reason.into(),
            }
        }
    }
}
