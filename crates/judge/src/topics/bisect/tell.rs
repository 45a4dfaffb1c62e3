//! Bisections and walks: sentences and tables, as terminal text and as pages.

use base::input::units::show_change;
use doc::{Block, Table};
use record::bisect::{Bisection, Conclusion, Evidence, Shape, Version, Walk, WalkMetric, WalkStep};
use record::verdict::Verdict;

use crate::words::levels::Levels;
use crate::words::{NONE, directed, large_change, percent};

pub(crate) mod page;

/// Columns of a chart.
const CHART: usize = 24;

/// A share of a difference from which on a step is taken for all of it.
const ALONE: f64 = 0.8;

/// Versions below this probability are left out of a long line.
const NEGLIGIBLE: f64 = 0.01;

/// Lines of a table up to which all versions are shown.
const SHORT_LINE: usize = 24;

/// One line while it goes on: `bisect: 5 blocks, 6.16.12 -> 6.17.8 71.0 %, next 6.17.8`.
pub fn line(now: &Bisection) -> String {
    let mut parts = vec![format!("bisect: {}", blocks(now.blocks))];
    let best = now.steps.iter().enumerate();
    let best = best.max_by(|one, other| one.1.total_cmp(other.1));
    if let (Some((step, probability)), true) = (best, now.blocks > 0) {
        let step = step_name(now, step, step + 1);
        parts.push(format!("{step} {}", percent(*probability)));
    }
    parts.push(match &now.conclusion {
        Conclusion::Open { next } => format!("next {}", now.line[*next].name),
        Conclusion::Found { .. } => "found".into(),
        Conclusion::Equivalent => "the ends are equivalent".into(),
        Conclusion::Undecided => "undecided".into(),
    });
    parts.join(", ")
}

/// The sentences first, then the line of versions.
pub fn terminal(found: &Bisection, width: usize) -> String {
    let mut blocks = vec![Block::Title(found.title.clone())];
    blocks.extend(sentences(found).into_iter().map(Block::Text));
    let mut rows = vec![with(&COLUMNS, String::new())];
    rows.extend(versions(found).iter().map(|version| {
        let bar = version.step.map_or(String::new(), bar);
        with(&version.cells, bar)
    }));
    blocks.extend(Block::table(Table::new(rows, 2)));
    blocks.extend(Block::list(left_out(found)));
    blocks.extend([Block::Gap, Block::List(vec![NOTE.into()])]);
    doc::terminal::render(&blocks, width)
}

const NOTE: &str = "like from, like to: blocks in which the version was nearer to that end; place: where it lies between the ends, 0 at the \
    first and 1 at the last; step: probability that the change came with this version";

fn sentences(found: &Bisection) -> Vec<String> {
    let metric = match &found.metric {
        Some(spec) => spec.name.clone(),
        None => "nothing".into(),
    };
    let whole = found.ratio.map_or(NONE.into(), large_change);
    // Figures of zero have no ratio.
    let by = found
        .ratio
        .map_or(String::new(), |_| format!(" by {whole}"));
    let ends = format!(
        "from {} to {}",
        found.line[0].name,
        found.line[found.line.len() - 1].name
    );
    let after = format!("after {}", blocks(found.blocks));
    let mut sentences = match &found.conclusion {
        Conclusion::Found {
            before,
            after: first,
            probability,
            share,
        } => {
            let mut all = vec![format!(
                "{metric} changes {ends}{by}, and that came with {} (probability {}, {after})",
                step_name(found, *before, *first),
                percent(*probability)
            )];
            all.extend(share_sentence(*share));
            if first - before > 1 {
                all.push(format!(
                    "{} versions between them cannot be measured: it may be any of {} steps",
                    first - before - 1,
                    first - before
                ));
            }
            all.extend(commit_sentence(&found.line[*first]));
            all
        }
        Conclusion::Equivalent => vec![format!(
            "{metric} is equivalent at both ends, {ends}: {whole} {after}, so there is no step to look for (a lower margin in the plan asks for \
             smaller ones)"
        )],
        Conclusion::Open { .. } | Conclusion::Undecided => {
            let change = found.ratio.map_or(String::new(), |_| {
                format!(", {ends} {metric} changes by {whole}")
            });
            vec![format!(
                "no step is sure {after}{change}; that there is no difference at all has a probability of {}",
                percent(found.no_difference)
            )]
        }
    };
    sentences.extend(beyond_sentence(found));
    sentences
}

fn share_sentence(share: Option<f64>) -> Option<String> {
    let share = share?;
    Some(if share >= ALONE {
        format!("this step has {} of the whole difference", percent(share))
    } else {
        format!(
            "this step has {} of the whole difference: there are others (--walk measures all versions)",
            percent(share)
        )
    })
}

/// A commit's subject and files; nothing of a version.
fn commit_sentence(version: &Version) -> Option<String> {
    (!version.files.is_empty()).then(|| {
        format!(
            "{}: \"{}\", {}",
            version.name,
            version.about,
            version.files.join(", ")
        )
    })
}

fn beyond_sentence(found: &Bisection) -> Option<String> {
    let beyond = found.evidence.iter().filter(|one| one.beyond);
    let names: Vec<&str> = beyond
        .map(|one| found.line[one.candidate].name.as_str())
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "the line is not monotone: {} lies beyond both ends in every block (--walk measures all versions)",
            names.join(", ")
        )
    })
}

fn left_out(found: &Bisection) -> Vec<String> {
    let said = found.evidence.iter().filter_map(|one| {
        let why = one.skipped.as_ref()?;
        let name = &found.line[one.candidate].name;
        Some(format!("left out: {name}: {why}"))
    });
    said.collect()
}

const COLUMNS: [&str; 6] = ["version", "about", "like from", "like to", "place", "step"];

/// Cells and a drawing after them.
fn with(cells: &[impl ToString], drawn: String) -> Vec<String> {
    let cells = cells.iter().map(ToString::to_string);
    cells.chain([drawn]).collect()
}

/// A version's line of the table: its evidence, and the step that leads to it.
struct VersionRow {
    /// Of `COLUMNS`.
    cells: [String; 6],
    /// Where it lies between the ends.
    position: Option<f64>,
    /// Probability of the step that leads to it.
    step: Option<f64>,
}

fn versions(found: &Bisection) -> Vec<VersionRow> {
    let mut rows = Vec::new();
    let last = found.line.len() - 1;
    for (place, version) in found.line.iter().enumerate() {
        let evidence = found.evidence.iter().find(|one| one.candidate == place);
        let step = place.checked_sub(1).map(|step| found.steps[step]);
        let is_end = place == 0 || place == last;
        let is_probable = step.is_some_and(|step| step >= NEGLIGIBLE);
        if found.line.len() > SHORT_LINE && !is_end && evidence.is_none() && !is_probable {
            continue;
        }
        let count = |count: fn(&Evidence) -> u32| {
            evidence.map_or(NONE.into(), |evidence| count(evidence).to_string())
        };
        let position = if place == 0 {
            Some(0.0)
        } else if place == last {
            Some(1.0)
        } else {
            evidence.and_then(|evidence| evidence.position)
        };
        let cells = [
            version.name.clone(),
            short(&version.about),
            if is_end {
                "end".into()
            } else {
                count(|one| one.like_from)
            },
            if is_end {
                "end".into()
            } else {
                count(|one| one.like_to)
            },
            position.map_or(NONE.into(), |position| {
                // Never a zero below zero.
                format!("{:.2}", (100.0 * position).round() / 100.0 + 0.0)
            }),
            step.map_or(NONE.into(), percent),
        ];
        rows.push(VersionRow {
            cells,
            position,
            step,
        });
    }
    rows
}

fn short(about: &str) -> String {
    const MOST: usize = 40;
    if about.chars().count() <= MOST {
        return about.into();
    }
    about.chars().take(MOST - 3).chain("...".chars()).collect()
}

/// A share of 0 to 1 as a bar.
fn bar(share: f64) -> String {
    let length = (share.clamp(0.0, 1.0) * CHART as f64).round();
    "#".repeat(length as usize)
}

fn step_name(found: &Bisection, before: usize, after: usize) -> String {
    format!("{} -> {}", found.line[before].name, found.line[after].name)
}

fn blocks(count: u32) -> String {
    match count {
        1 => "1 block".into(),
        count => format!("{count} blocks"),
    }
}

/// Each metric: what its significant steps are, and the line as a chart.
pub fn walk_terminal(walk: &Walk, width: usize) -> String {
    let mut blocks = vec![Block::Title(walk.title.clone())];
    for metric in &walk.metrics {
        blocks.extend([Block::Gap, Block::Text(walk_sentence(walk, metric))]);
        let ends = extremes(metric);
        let mut rows = vec![with(&walk_columns(metric), "line".into())];
        rows.extend(walk_rows(walk, metric).iter().map(|version| {
            let ratio = version.ratio;
            let point = ratio.map_or(String::new(), |ratio| point(ratio, ends));
            with(&version.cells, point)
        }));
        blocks.extend(Block::table(Table::new(rows, 1)));
    }
    blocks.extend([Block::Gap, Block::List(vec![walk_note(walk)])]);
    doc::terminal::render(&blocks, width)
}

fn walk_note(walk: &Walk) -> String {
    format!(
        "{}; of each metric the chance that any step is wrongly called better or worse is {}; shares are of the logarithm of the whole change and \
         add up to 100 %",
        blocks(walk.blocks),
        percent(walk.error_rate)
    )
}

/// `throughput: +12.1 % from 6.1 to 7.3 in 2 significant steps: 6.16.12 -> 6.17.8 +8.6 % (71.0 %), ...`, the largest first.
fn walk_sentence(walk: &Walk, metric: &WalkMetric) -> String {
    let last = metric.ratios.iter().rev().copied().flatten().next();
    let whole = last.map_or(NONE.into(), large_change);
    let name = &metric.spec.name;
    let is_significant =
        |step: &&WalkStep| matches!(step.verdict, Verdict::Better | Verdict::Worse);
    let mut steps: Vec<&WalkStep> = metric.steps.iter().filter(is_significant).collect();
    steps.sort_by(|one, other| other.ratio.ln().abs().total_cmp(&one.ratio.ln().abs()));
    let told: Vec<String> = steps
        .iter()
        .map(|step| {
            let share = step
                .share
                .map_or(String::new(), |share| format!(" ({})", percent(share)));
            let (before, after) = (&walk.line[step.before], &walk.line[step.after]);
            format!("{before} -> {after} {}{share}", large_change(step.ratio))
        })
        .collect();
    let all = format!(
        "{name}: {whole} from {} to {}",
        walk.line[0],
        walk.line[walk.line.len() - 1]
    );
    match (metric.shape, told.len()) {
        (Shape::Flat, _) => format!("{all}, and no step is significant"),
        (Shape::Monotone, 1) => format!("{all} in one significant step: {}", told.join("; ")),
        (Shape::Monotone, steps) => {
            format!("{all} in {steps} significant steps: {}", told.join("; "))
        }
        (Shape::Mixed, steps) => format!(
            "{all}, not in one direction: {steps} significant steps: {}",
            told.join("; ")
        ),
    }
}

/// The lowest and the highest ratio of a line.
fn extremes(metric: &WalkMetric) -> (f64, f64) {
    let known = metric.ratios.iter().copied().flatten();
    known.fold((f64::MAX, f64::MIN), |(low, high), ratio| {
        (low.min(ratio), high.max(ratio))
    })
}

/// The levels of the intervals of a metric's steps.
fn step_levels(metric: &WalkMetric) -> Levels {
    Levels::of(metric.steps.iter().map(|step| step.confidence))
}

fn walk_columns(metric: &WalkMetric) -> [String; 6] {
    let first = directed(&metric.spec);
    [
        &first,
        "to the first",
        "step",
        &step_levels(metric).head(),
        "share",
        "verdict",
    ]
    .map(String::from)
}

/// A version's line of a metric's table.
struct WalkRow<'w> {
    /// Of `walk_columns`.
    cells: [String; 6],
    /// To the first version.
    ratio: Option<f64>,
    /// The step that leads to it.
    step: Option<&'w WalkStep>,
}

fn walk_rows<'w>(walk: &Walk, metric: &'w WalkMetric) -> Vec<WalkRow<'w>> {
    let levels = step_levels(metric);
    let mut rows = Vec::new();
    for (place, name) in walk.line.iter().enumerate() {
        let step = metric.steps.iter().find(|step| step.after == place);
        let ratio = metric.ratios[place];
        let interval = |step: &WalkStep| {
            let (low, high) = step.interval?;
            let interval = format!("[{}, {}]", show_change(low), show_change(high));
            Some(levels.cell(&interval, step.confidence))
        };
        let told = |text: Option<String>| text.unwrap_or(NONE.into());
        let cells = [
            name.clone(),
            told(ratio.map(large_change)),
            told(step.map(|step| large_change(step.ratio))),
            told(step.and_then(interval)),
            told(step.and_then(|step| step.share).map(percent)),
            told(step.map(|step| step.verdict.word().into())),
        ];
        rows.push(WalkRow { cells, ratio, step });
    }
    rows
}

/// Where a ratio lies between the lowest and the highest, 0 to 1.
fn share_of(ratio: f64, (lowest, highest): (f64, f64)) -> f64 {
    let whole = (highest / lowest).ln();
    if whole > 0.0 {
        (ratio / lowest).ln() / whole
    } else {
        0.0
    }
}

fn point(ratio: f64, ends: (f64, f64)) -> String {
    let column = (share_of(ratio, ends) * (CHART - 1) as f64).round();
    format!("|{}*", " ".repeat(column as usize))
}

#[cfg(test)]
pub(crate) mod tests {
    use record::bisect::VERSION;
    use record::fixtures::night::throughput;

    use super::*;

    fn found(conclusion: Conclusion) -> Bisection {
        let version = |name: &str, about: &str, files: &[&str]| Version {
            name: name.into(),
            about: about.into(),
            source: name.into(),
            files: files.iter().map(ToString::to_string).collect(),
        };
        let evidence = |candidate, like_from, like_to, position| Evidence {
            candidate,
            like_from,
            like_to,
            position: Some(position),
            beyond: candidate == 2,
            skipped: None,
        };
        let mut skipped = evidence(3, 0, 0, 0.0);
        (skipped.position, skipped.skipped) = (None, Some("does not build".into()));
        Bisection {
            version: VERSION,
            title: "Static web serving".into(),
            metric: Some(throughput()),
            line: vec![
                version("a0", "the first", &[]),
                version("a1", "net: more", &["net/core/dev.c"]),
                version("a2", "mm: less", &["mm/slub.c"]),
                version("a3", "broken", &["fs/exec.c"]),
                version("a4", "the last", &["init/main.c"]),
            ],
            evidence: vec![evidence(1, 6, 0, 0.02), evidence(2, 0, 7, 1.1), skipped],
            steps: vec![0.001, 0.993, 0.002, 0.003],
            no_difference: 0.001,
            ratio: Some(0.9),
            blocks: 13,
            max_blocks: 60,
            error_rate: 0.01,
            conclusion,
        }
    }

    #[test]
    fn a_step_is_told_with_its_evidence() {
        let found = found(Conclusion::Found {
            before: 1,
            after: 2,
            probability: 0.993,
            share: Some(0.55),
        });
        // Wide enough that no sentence is broken.
        let (text, page) = (terminal(&found, 1000), page::bisection(&found));
        assert!(
            page.contains("mm/slub.c") && page.contains("99.3 %</td>"),
            "{page}"
        );
        for said in [
            "throughput changes from a0 to a4 by -10.00 %, and that came with a1 -> a2 (probability 99.3 %, after 13 blocks)",
            "this step has 55.0 % of the whole difference: there are others (--walk measures all versions)",
            "the line is not monotone: a2 lies beyond both ends in every block",
            "mm/slub.c",
            "left out: a3: does not build",
        ] {
            assert!(text.contains(said), "{said:?} is not in:\n{text}");
        }
    }

    #[test]
    fn what_was_not_found_is_told() {
        let text = terminal(&found(Conclusion::Equivalent), 1000);
        assert!(text.contains("there is no step to look for"), "{text}");
        let text = terminal(&found(Conclusion::Undecided), 1000);
        assert!(text.contains("no step is sure after 13 blocks"), "{text}");
        let no_ratio = Bisection {
            ratio: None,
            ..found(Conclusion::Undecided)
        };
        let text = terminal(&no_ratio, 1000);
        let said = "no step is sure after 13 blocks; that there is no difference at all has a probability of 0.1 %";
        assert!(text.contains(said), "{text}");
        let open = found(Conclusion::Open { next: 2 });
        assert_eq!(line(&open), "bisect: 13 blocks, a1 -> a2 99.3 %, next a2");
    }

    /// A walk of three versions with one significant step.
    pub(crate) fn walked() -> Walk {
        let step = |before, ratio: f64, verdict| WalkStep {
            before,
            after: before + 1,
            ratio,
            interval: Some((ratio * 0.99, ratio * 1.01)),
            confidence: Some(0.9875),
            share: Some(ratio.ln() / 1.2f64.ln()),
            verdict,
        };
        Walk {
            version: VERSION,
            title: "Static web serving".into(),
            line: ["6.1", "6.12", "7.2"].map(String::from).to_vec(),
            blocks: 9,
            error_rate: 0.05,
            metrics: vec![WalkMetric {
                workload: "web".into(),
                spec: throughput(),
                ratios: vec![Some(1.0), Some(1.15), Some(1.2)],
                steps: vec![
                    step(0, 1.15, Verdict::Better),
                    step(1, 1.2 / 1.15, Verdict::Undecided),
                ],
                shape: Shape::Monotone,
            }],
        }
    }

    #[test]
    fn a_walk_is_told_by_metric() {
        let walk = walked();
        let text = walk_terminal(&walk, 1000);
        let said = "throughput: +20.00 % from 6.1 to 7.2 in one significant step: 6.1 -> 6.12 +15.00 % (76.7 %)";
        assert!(text.contains(said), "{text}");
        assert!(text.contains("9 blocks; of each metric"), "{text}");
        let page = page::walk(&walk);
        assert!(
            page.contains("better</span>") && page.contains("+15.00"),
            "{page}"
        );
    }
}
