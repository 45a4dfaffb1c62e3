//! Figures of other tools: read, judged, told.

use anyhow::Result;
use record::metric::Direction;
use record::verdict::Verdict;
use serde_json::json;
use verdict::once::{self, Finding, Terms};

use super::words;
use crate::cli::judge::JudgeArgs;
use crate::foreign::compare::{Asked, Question};
use crate::foreign::layout::{Layout, Order};
use crate::foreign::{self, Figures};
use crate::verbs::{End, check, print_json};

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
            print_json(&json!({ "problems": check::told(&problems) }))?;
            return Ok(End::Refused);
        }
        read => read?,
    };
    let terms = terms(args, &figures);
    let answers: Vec<Answer<'_>> = figures
        .questions
        .iter()
        .map(|question| Answer {
            question,
            finding: answer(question, terms),
        })
        .collect();
    if json {
        print_json(&words::json(&figures, &answers, args))?;
    } else if args.markdown {
        print!("{}", words::markdown(&figures, &answers, args));
    } else {
        let width = crate::verbs::report::width();
        print!("{}", words::terminal(&figures, &answers, args, width));
    }
    Ok(super::end(
        answers.iter().map(|one| one.finding.verdict),
        args.fail_on,
    ))
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

/// All comparisons share the error rate in equal parts, so that it holds for any wrong verdict among
/// them, however they hang together (Bonferroni).
fn terms(args: &JudgeArgs, figures: &Figures) -> Terms {
    Terms {
        margin: args.margin,
        error_rate: args.error_rate / figures.questions.len() as f64,
        seed: args.seed,
    }
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
