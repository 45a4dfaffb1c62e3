//! Bisections and version series: sentences and tables, as terminal text and as pages.

use base::input::units::show_change;
use doc::{Block, Table};
use record::bisect::{
    Bisection, Conclusion, Evidence, SeriesMetric, SeriesResult, SeriesStep, Shape, Version,
};
use record::verdict::Verdict;

use crate::words::levels::Levels;
use crate::words::{NONE, directed, large_change, percent};

pub(crate) mod page;

/// Width of a chart in columns.
const CHART: usize = 24;

/// A step with at least this share of the whole difference counts as the only one.
const ALONE: f64 = 0.8;

/// A long table leaves out unmeasured versions whose step has a lower probability.
const NEGLIGIBLE: f64 = 0.01;

/// A table of up to this many versions shows all of them.
const SHORT_SERIES: usize = 24;

/// Progress line of a bisection: `bisect: 5 blocks, 6.16.12 -> 6.17.8 71.0 %, next 6.17.8`.
pub fn line(now: &Bisection) -> String {
    let mut parts = vec![format!("bisect: {}", blocks(now.blocks))];
    let steps = now.steps.iter().enumerate();
    let likeliest = steps.max_by(|(_, left), (_, right)| left.total_cmp(right));
    if let (Some((step, probability)), true) = (likeliest, now.blocks > 0) {
        let step = step_name(now, step, step + 1);
        parts.push(format!("{step} {}", percent(*probability)));
    }
    parts.push(match &now.conclusion {
        Conclusion::Open { next } => format!("next {}", now.versions[*next].name),
        Conclusion::Found { .. } => "found".into(),
        Conclusion::Equivalent => "the ends are equivalent".into(),
        Conclusion::Undecided => "undecided".into(),
    });
    parts.join(", ")
}

/// The sentences, then a table of the versions.
pub fn terminal(bisection: &Bisection, width: usize) -> String {
    let mut blocks = vec![Block::Title(bisection.title.clone())];
    blocks.extend(sentences(bisection).into_iter().map(Block::Text));
    let mut rows = vec![with_chart(&COLUMNS, String::new())];
    rows.extend(versions(bisection).iter().map(|version| {
        let bar = version.step.map_or(String::new(), bar);
        with_chart(&version.cells, bar)
    }));
    blocks.extend(Block::table(Table::new(rows, 2)));
    blocks.extend(Block::list(left_out(bisection)));
    blocks.extend([Block::Gap, Block::List(vec![NOTE.into()])]);
    doc::terminal::render(&blocks, width)
}

const NOTE: &str = "like from, like to: blocks in which the version was nearer to that end; place: where it lies between the ends, 0 at the \
    first and 1 at the last; step: probability that the change came with this version";

fn sentences(bisection: &Bisection) -> Vec<String> {
    let metric = match &bisection.metric {
        Some(spec) => spec.name.clone(),
        None => "nothing".into(),
    };
    let line = &bisection.versions;
    let whole = bisection.ratio.map_or(NONE.into(), large_change);
    // Figures of zero have no ratio.
    let by = bisection
        .ratio
        .map_or(String::new(), |_| format!(" by {whole}"));
    let ends = format!("from {} to {}", line[0].name, line[line.len() - 1].name);
    let after = format!("after {}", blocks(bisection.blocks));
    let mut sentences = match &bisection.conclusion {
        Conclusion::Found {
            before,
            after: first,
            probability,
            share,
        } => {
            let mut all = vec![format!(
                "{metric} changes {ends}{by}, and that came with {} (probability {}, {after})",
                step_name(bisection, *before, *first),
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
            all.extend(commit_sentence(&line[*first]));
            all
        }
        Conclusion::Equivalent => vec![format!(
            "{metric} is equivalent at both ends, {ends}: {whole} {after}, so there is no step to look for (a lower margin in the plan asks for \
             smaller ones)"
        )],
        Conclusion::Open { .. } | Conclusion::Undecided => {
            let change = bisection.ratio.map_or(String::new(), |_| {
                format!(", {ends} {metric} changes by {whole}")
            });
            vec![format!(
                "no step is sure {after}{change}; that there is no difference at all has a probability of {}",
                percent(bisection.no_difference)
            )]
        }
    };
    sentences.extend(beyond_sentence(bisection));
    sentences
}

fn share_sentence(share: Option<f64>) -> Option<String> {
    let share = share?;
    let others = if share >= ALONE {
        ""
    } else {
        ": there are others (--series measures all versions)"
    };
    let share = percent(share);
    Some(format!(
        "this step has {share} of the whole difference{others}"
    ))
}

/// A commit's subject and files. `None` for a released version, which has no files.
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

fn beyond_sentence(bisection: &Bisection) -> Option<String> {
    let beyond = bisection.evidence.iter().filter(|evidence| evidence.beyond);
    let names: Vec<&str> = beyond
        .map(|evidence| bisection.versions[evidence.candidate].name.as_str())
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "the series is not monotone: {} lies beyond both ends in every block (--series measures all versions)",
            names.join(", ")
        )
    })
}

fn left_out(bisection: &Bisection) -> Vec<String> {
    let mut lines = Vec::new();
    for evidence in &bisection.evidence {
        if let Some(reason) = &evidence.skipped {
            let name = &bisection.versions[evidence.candidate].name;
            lines.push(format!("left out: {name}: {reason}"));
        }
    }
    lines
}

const COLUMNS: [&str; 6] = ["version", "about", "like from", "like to", "place", "step"];

/// The cells, followed by one of a chart.
fn with_chart(cells: &[impl ToString], chart: String) -> Vec<String> {
    let cells = cells.iter().map(ToString::to_string);
    cells.chain([chart]).collect()
}

/// A version's row of the table.
struct VersionRow {
    /// One cell for each of `COLUMNS`.
    cells: [String; 6],
    /// Position between the ends: 0 at the first and 1 at the last version.
    position: Option<f64>,
    /// Probability of the step from the version before it.
    step: Option<f64>,
}

fn versions(bisection: &Bisection) -> Vec<VersionRow> {
    let mut rows = Vec::new();
    let last = bisection.versions.len() - 1;
    for (place, version) in bisection.versions.iter().enumerate() {
        let mut evidence = bisection.evidence.iter();
        let evidence = evidence.find(|evidence| evidence.candidate == place);
        let step = place.checked_sub(1).map(|step| bisection.steps[step]);
        let is_end = place == 0 || place == last;
        let is_probable = step.is_some_and(|step| step >= NEGLIGIBLE);
        if bisection.versions.len() > SHORT_SERIES && !is_end && evidence.is_none() && !is_probable
        {
            continue;
        }
        let count = |count: fn(&Evidence) -> u32| match evidence {
            _ if is_end => "end".into(),
            Some(evidence) => count(evidence).to_string(),
            None => NONE.into(),
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
            count(|evidence| evidence.like_from),
            count(|evidence| evidence.like_to),
            position.map_or(NONE.into(), |position| {
                // Adding zero turns -0.00 into 0.00.
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

fn step_name(bisection: &Bisection, before: usize, after: usize) -> String {
    let name = |place: usize| &bisection.versions[place].name;
    format!("{} -> {}", name(before), name(after))
}

fn blocks(count: u32) -> String {
    match count {
        1 => "1 block".into(),
        count => format!("{count} blocks"),
    }
}

/// For each metric: a sentence with its significant steps, and a table with a chart.
pub fn series_terminal(series: &SeriesResult, width: usize) -> String {
    let mut blocks = vec![Block::Title(series.title.clone())];
    for metric in &series.metrics {
        blocks.extend([Block::Gap, Block::Text(series_sentence(series, metric))]);
        let (lowest, highest) = extremes(metric);
        let mut rows = vec![with_chart(&series_columns(metric), "line".into())];
        rows.extend(series_rows(series, metric).iter().map(|version| {
            let ratio = version.ratio;
            let point = ratio.map_or(String::new(), |ratio| point(ratio, lowest, highest));
            with_chart(&version.cells, point)
        }));
        blocks.extend(Block::table(Table::new(rows, 1)));
    }
    blocks.extend([Block::Gap, Block::List(vec![series_note(series)])]);
    doc::terminal::render(&blocks, width)
}

fn series_note(series: &SeriesResult) -> String {
    format!(
        "{}; of each metric the chance that any step is wrongly called better or worse is {}; shares are of the logarithm of the whole change and \
         add up to 100 %",
        blocks(series.blocks),
        percent(series.error_rate)
    )
}

/// `throughput: +12.1 % from 6.1 to 7.3 in 2 significant steps: 6.16.12 -> 6.17.8 +8.6 % (71.0 %), ...`, the largest first.
fn series_sentence(series: &SeriesResult, metric: &SeriesMetric) -> String {
    let last = metric.ratios.iter().rev().copied().flatten().next();
    let whole = last.map_or(NONE.into(), large_change);
    let name = &metric.spec.name;
    let is_significant =
        |step: &&SeriesStep| matches!(step.verdict, Verdict::Better | Verdict::Worse);
    let mut steps: Vec<&SeriesStep> = metric.steps.iter().filter(is_significant).collect();
    let size = |step: &SeriesStep| step.ratio.ln().abs();
    steps.sort_by(|left, right| size(right).total_cmp(&size(left)));
    let count = steps.len();
    let steps: Vec<String> = steps
        .iter()
        .map(|step| {
            let share = step
                .share
                .map_or(String::new(), |share| format!(" ({})", percent(share)));
            let (before, after) = (&series.versions[step.before], &series.versions[step.after]);
            format!("{before} -> {after} {}{share}", large_change(step.ratio))
        })
        .collect();
    let steps = steps.join("; ");
    let all = format!(
        "{name}: {whole} from {} to {}",
        series.versions[0],
        series.versions[series.versions.len() - 1]
    );
    match (metric.shape, count) {
        (Shape::Flat, _) => format!("{all}, and no step is significant"),
        (Shape::Monotone, 1) => format!("{all} in one significant step: {steps}"),
        (Shape::Monotone, _) => format!("{all} in {count} significant steps: {steps}"),
        (Shape::Mixed, _) => {
            format!("{all}, not in one direction: {count} significant steps: {steps}")
        }
    }
}

/// The lowest and the highest ratio to the first version.
fn extremes(metric: &SeriesMetric) -> (f64, f64) {
    let known = metric.ratios.iter().copied().flatten();
    known.fold((f64::MAX, f64::MIN), |(low, high), ratio| {
        (low.min(ratio), high.max(ratio))
    })
}

/// Confidence levels of the intervals of a metric's steps.
fn step_levels(metric: &SeriesMetric) -> Levels {
    Levels::of(metric.steps.iter().map(|step| step.confidence))
}

fn series_columns(metric: &SeriesMetric) -> [String; 6] {
    let name = directed(&metric.spec);
    [
        &name,
        "to the first",
        "step",
        &step_levels(metric).head(),
        "share",
        "verdict",
    ]
    .map(String::from)
}

/// A version's row of a metric's table.
struct SeriesRow<'w> {
    /// One cell for each of `series_columns`.
    cells: [String; 6],
    /// Ratio to the first version.
    ratio: Option<f64>,
    /// The step from the version before it.
    step: Option<&'w SeriesStep>,
}

fn series_rows<'w>(series: &SeriesResult, metric: &'w SeriesMetric) -> Vec<SeriesRow<'w>> {
    let levels = step_levels(metric);
    let mut rows = Vec::new();
    for (place, name) in series.versions.iter().enumerate() {
        let step = metric.steps.iter().find(|step| step.after == place);
        let ratio = metric.ratios[place];
        let interval = |step: &SeriesStep| {
            let (low, high) = step.interval?;
            let interval = format!("[{}, {}]", show_change(low), show_change(high));
            Some(levels.cell(&interval, step.confidence))
        };
        let or_none = |text: Option<String>| text.unwrap_or(NONE.into());
        let cells = [
            name.clone(),
            or_none(ratio.map(large_change)),
            or_none(step.map(|step| large_change(step.ratio))),
            or_none(step.and_then(interval)),
            or_none(step.and_then(|step| step.share).map(percent)),
            or_none(step.map(|step| step.verdict.word().into())),
        ];
        rows.push(SeriesRow { cells, ratio, step });
    }
    rows
}

/// Position of a ratio between the lowest and the highest on a logarithmic scale, 0 to 1.
fn position(ratio: f64, lowest: f64, highest: f64) -> f64 {
    let whole = (highest / lowest).ln();
    if whole > 0.0 {
        (ratio / lowest).ln() / whole
    } else {
        0.0
    }
}

fn point(ratio: f64, lowest: f64, highest: f64) -> String {
    let column = (position(ratio, lowest, highest) * (CHART - 1) as f64).round();
    format!("|{}*", " ".repeat(column as usize))
}

#[cfg(test)]
pub(crate) mod tests {
    use record::bisect::VERSION;
    use record::fixtures::night::throughput;

    use super::*;

    fn bisection(conclusion: Conclusion) -> Bisection {
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
            versions: vec![
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
    fn a_step_is_reported_with_its_evidence() {
        let bisection = bisection(Conclusion::Found {
            before: 1,
            after: 2,
            probability: 0.993,
            share: Some(0.55),
        });
        // Wide enough for each sentence to stay on one line.
        let (text, page) = (terminal(&bisection, 1000), page::bisection(&bisection));
        assert!(
            page.contains("mm/slub.c") && page.contains("99.3 %</td>"),
            "{page}"
        );
        for line in [
            "throughput changes from a0 to a4 by -10.00 %, and that came with a1 -> a2 (probability 99.3 %, after 13 blocks)",
            "this step has 55.0 % of the whole difference: there are others (--series measures all versions)",
            "the series is not monotone: a2 lies beyond both ends in every block",
            "mm/slub.c",
            "left out: a3: does not build",
        ] {
            assert!(text.contains(line), "{line:?} is not in:\n{text}");
        }
    }

    #[test]
    fn bisections_without_a_step_are_reported() {
        let text = terminal(&bisection(Conclusion::Equivalent), 1000);
        assert!(text.contains("there is no step to look for"), "{text}");
        let text = terminal(&bisection(Conclusion::Undecided), 1000);
        assert!(text.contains("no step is sure after 13 blocks"), "{text}");
        let no_ratio = Bisection {
            ratio: None,
            ..bisection(Conclusion::Undecided)
        };
        let text = terminal(&no_ratio, 1000);
        let sentence = "no step is sure after 13 blocks; that there is no difference at all has a probability of 0.1 %";
        assert!(text.contains(sentence), "{text}");
        let open = bisection(Conclusion::Open { next: 2 });
        assert_eq!(line(&open), "bisect: 13 blocks, a1 -> a2 99.3 %, next a2");
    }

    /// A series of three versions with one significant step.
    pub(crate) fn three_versions() -> SeriesResult {
        let step = |before, ratio: f64, verdict| SeriesStep {
            before,
            after: before + 1,
            ratio,
            interval: Some((ratio * 0.99, ratio * 1.01)),
            confidence: Some(0.9875),
            share: Some(ratio.ln() / 1.2f64.ln()),
            verdict,
        };
        SeriesResult {
            version: VERSION,
            title: "Static web serving".into(),
            versions: ["6.1", "6.12", "7.2"].map(String::from).to_vec(),
            blocks: 9,
            error_rate: 0.05,
            metrics: vec![SeriesMetric {
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
    fn a_series_is_reported_by_metric() {
        let series = three_versions();
        let text = series_terminal(&series, 1000);
        let line = "throughput: +20.00 % from 6.1 to 7.2 in one significant step: 6.1 -> 6.12 +15.00 % (76.7 %)";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("9 blocks; of each metric"), "{text}");
        let page = page::series(&series);
        assert!(
            page.contains("better</span>") && page.contains("+15.00"),
            "{page}"
        );
    }
}
