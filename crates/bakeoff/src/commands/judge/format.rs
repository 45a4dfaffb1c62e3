//! What is said of figures: on a terminal, in a pull request, to a machine.

use std::collections::{BTreeMap, BTreeSet};

use base::input::text::escaped;
use base::input::units::{show_change, show_share, significant};
use doc::markdown::text;
use doc::{Block, Table};
use judge::words::levels::{Levels, in_words};
use record::metric::Direction;
use record::verdict::Verdict;
use serde_json::{Value, json};
use stats::fixed_sample::{Change, Terms};

use super::answer::Answer;
use import::Figures;
use import::layout::Layout;

/// Version of the JSON; docs/reference/json.md is its schema.
pub(super) const VERSION: u32 = 1;

/// For a terminal of `width` columns.
pub(super) fn terminal(
    figures: &Figures,
    answers: &[Answer<'_>],
    terms: Terms,
    width: usize,
) -> String {
    let files = figures.files.iter().map(|file| escaped(file));
    let mut blocks: Vec<Block> = files.map(Block::Text).collect();
    blocks.push(Block::Text(baseline(figures)));
    let remarks = remarks(figures, answers, terms);
    blocks.extend(Block::notice("warnings", "Warnings", remarks));
    blocks.extend([Block::Gap, Block::Table(Table::new(rows(answers), 3))]);
    blocks.push(Block::Gap);
    let mut left = answers.iter().peekable();
    while let Some(answer) = left.next() {
        blocks.push(Block::Text(sentence(figures, answer)));
        let why = answer.why();
        if left.peek().is_none_or(|next| next.why() != why) {
            blocks.push(Block::Indented(vec![Block::Text(why)]));
        }
    }
    doc::terminal::render(&blocks, width)
}

/// For a pull request: a short table and the words.
pub(super) fn markdown(figures: &Figures, answers: &[Answer<'_>], terms: Terms) -> String {
    let table = doc::markdown::table(&rows(answers));
    let mut lines = vec![table];
    for answer in answers {
        let sentence_text = sentence(figures, answer);
        let why = answer.why();
        let (verdict, sentence_text) = sentence_text.split_once(": ").unwrap_or_default();
        lines.push(format!(
            "- **{verdict}**: {} - {}",
            text(sentence_text),
            text(&why)
        ));
    }
    lines.push(String::new());
    lines.push(format!(
        "<details><summary>{}</summary>\n",
        text(&baseline(figures))
    ));
    let notes = figures
        .files
        .iter()
        .cloned()
        .chain(remarks(figures, answers, terms));
    lines.extend(notes.map(|remark| format!("- {}", text(&remark))));
    lines.push("\n</details>".into());
    lines.join("\n") + "\n"
}

/// For machines.
pub(super) fn json(figures: &Figures, answers: &[Answer<'_>], terms: Terms) -> Value {
    let comparison = |answer: &Answer<'_>| {
        let (comparison, finding) = (answer.comparison, &answer.finding);
        let change = finding.change;
        let interval = change.and_then(|change| change.interval);
        let (order, counts) = match &comparison.layout {
            Layout::Blocks { pairs, order } => (Some(order), [pairs.len(), pairs.len()]),
            Layout::Unpaired { baseline, arm } | Layout::OneRun { baseline, arm } => {
                (None, [baseline.len(), arm.len()])
            }
        };
        json!({
            "metric": comparison.metric, "unit": comparison.unit, "arm": comparison.arm,
            "direction": comparison.direction, "direction_known": comparison.direction_why,
            "design": comparison.layout.name(), "order": order,
            "figures_of_baseline": counts[0], "figures_of_arm": counts[1],
            "verdict": finding.verdict, "reason": finding.reason,
            "text": answer.why(),
            "is_ratio": change.map(|change| change.is_ratio),
            "change": change.map(|change| change.typical),
            "low": interval.map(|(low, _)| low), "high": interval.map(|(_, high)| high),
            "confidence": change.and_then(|change| change.confidence),
        })
    };
    json!({
        "version": VERSION, "files": figures.files, "baseline": figures.baseline,
        "margin": terms.margin, "error_rate": terms.error_rate, "seed": terms.seed,
        "remarks": remarks(figures, answers, terms),
        "comparisons": answers.iter().map(comparison).collect::<Vec<_>>(),
    })
}

fn baseline(figures: &Figures) -> String {
    match figures.baseline_why.as_str() {
        "" => format!("baseline: {}", figures.baseline),
        why => format!("baseline: {} ({why})", figures.baseline),
    }
}

/// Design, directions, errors: each thing once.
fn remarks(figures: &Figures, answers: &[Answer<'_>], terms: Terms) -> Vec<String> {
    let mut remarks = Vec::new();
    let designs: BTreeSet<String> = answers
        .iter()
        .map(|answer| answer.comparison.layout.words())
        .collect();
    remarks.extend(designs);
    let mut directions = BTreeMap::<String, Vec<String>>::new();
    for answer in answers {
        let metrics = directions.entry(direction(answer)).or_default();
        if !metrics.contains(&named(answer)) {
            metrics.push(named(answer));
        }
    }
    let all = directions.into_iter();
    remarks.extend(all.map(|(direction, metrics)| format!("{direction}: {}", metrics.join(", "))));
    remarks.extend(figures.remarks.iter().cloned());
    let (count, rate) = (answers.len(), show_share(terms.error_rate, 2));
    remarks.push(match count {
        1 => format!("the chance of a wrong verdict is at most {rate}, if nobody looked before"),
        _ => {
            format!("{count} comparisons share a chance of {rate} of any wrong verdict among them")
        }
    });
    remarks
}

fn direction(answer: &Answer<'_>) -> String {
    let comparison = answer.comparison;
    let way = match comparison.direction {
        Direction::Higher => "higher",
        Direction::Lower => "lower",
    };
    format!("{way} is better, {}", comparison.direction_why)
}

fn named(answer: &Answer<'_>) -> String {
    let comparison = answer.comparison;
    match comparison.unit.as_str() {
        unit if unit.is_empty() || comparison.metric.ends_with(unit) => comparison.metric.clone(),
        unit => format!("{} ({unit})", comparison.metric),
    }
}

/// The table of all comparisons, its head first.
fn rows(answers: &[Answer<'_>]) -> Vec<Vec<String>> {
    let confidence = |answer: &Answer<'_>| answer.finding.change?.confidence;
    let levels = Levels::of(answers.iter().map(confidence));
    let head = ["metric", "arm", "verdict", "change", &levels.head(), "from"];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(answers.iter().map(|answer| row(answer, &levels)));
    rows
}

fn row(answer: &Answer<'_>, levels: &Levels) -> Vec<String> {
    let comparison = answer.comparison;
    let arrow = match comparison.direction {
        Direction::Higher => "↑",
        Direction::Lower => "↓",
    };
    let change = answer.finding.change;
    let from = match &comparison.layout {
        Layout::Blocks { pairs, .. } => format!("{} blocks", pairs.len()),
        Layout::Unpaired { baseline, arm } => format!("{} + {} runs", baseline.len(), arm.len()),
        Layout::OneRun { .. } => "1 + 1 runs".into(),
    };
    vec![
        format!("{} {arrow}", comparison.metric),
        comparison.arm.clone(),
        answer.finding.verdict.word().into(),
        change.map_or("-".into(), |change| {
            shown(&change, change.typical, &comparison.unit)
        }),
        change
            .as_ref()
            .and_then(|change| {
                let interval = interval(change, &comparison.unit)?;
                Some(levels.cell(&interval, change.confidence))
            })
            .unwrap_or("-".into()),
        from,
    ]
}

fn shown(change: &Change, value: f64, unit: &str) -> String {
    if change.is_ratio {
        show_change(value)
    } else {
        let sign = if value < 0.0 { "" } else { "+" };
        format!("{sign}{} {unit}", significant(value, 3))
            .trim_end()
            .to_string()
    }
}

fn interval(change: &Change, unit: &str) -> Option<String> {
    let (low, high) = change.interval?;
    Some(format!(
        "[{}, {}]",
        shown(change, low, unit),
        shown(change, high, unit)
    ))
}

/// The verdict in a sentence.
fn sentence(figures: &Figures, answer: &Answer<'_>) -> String {
    let (comparison, finding) = (answer.comparison, &answer.finding);
    let (arm, baseline, metric) = (&comparison.arm, &figures.baseline, named(answer));
    let size = finding.change.map(|change| {
        let typical = shown(&change, change.typical, &comparison.unit);
        let interval = interval(&change, &comparison.unit);
        match interval {
            Some(interval) => format!("{typical} {}", in_words(&interval, change.confidence)),
            None => typical,
        }
    });
    let size = size.unwrap_or_default();
    match finding.verdict {
        Verdict::Better => format!("better: {arm} than {baseline} in {metric}, {size}"),
        Verdict::Worse => format!("worse: {arm} than {baseline} in {metric}, {size}"),
        Verdict::Equivalent => format!("equivalent: {arm} and {baseline} in {metric}, {size}"),
        Verdict::Undecided => format!("undecided: {arm} against {baseline} in {metric}, {size}"),
    }
}
