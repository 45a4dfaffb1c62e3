//! Charts of changes against the baseline: each metric against the margin, and the estimate after each block.

use maud::{Markup, html};
use record::metric::Direction;
use record::rundir::Run;
use record::verdict::{Comparison, Verdict};

use super::axis::{ACROSS, Axis, BETWEEN, UPWARDS, is_beyond, ratio_log};
use super::plot::{Hit, Key, Layer, Plot, Stroke, legend, percent};
use super::{Chart, mark_id, offset, place};
use crate::words;
use crate::words::levels::{self, Levels, in_words};

/// If there are more intervals, only their area is drawn.
const MOST_INTERVALS: usize = 30;

/// All metrics of one workload against the margin; `None` if no metric has a ratio.
pub(crate) fn verdicts(run: &Run, comparisons: &[&Comparison], number: usize) -> Option<Chart> {
    let rows = rows(run, comparisons);
    if rows.is_empty() {
        return None;
    }
    let knee = knee(run);
    // The margin is always visible.
    let ends = rows.iter().flat_map(|row| [row.low, row.ratio, row.high]);
    let ends = ends.map(|ratio| ratio_log(ratio) / knee);
    let [low, high] = range(ends.chain([-2.0, 2.0]), knee);
    let axis = Axis::better(low, high, knee, BETWEEN);
    let margin = margin(run).map(|ratio| axis.at(ratio));
    let mut label = "Change of each metric: better is to the right, and the margin is shaded. The axis is logarithmic beyond the \
                     margin"
        .to_string();
    if rows.iter().any(|row| row.is_bounded) {
        let confidences = comparisons.iter().map(|comparison| comparison.confidence);
        label += "; lines are ";
        label += &levels::all(confidences);
    }
    if rows.iter().any(|row| !row.is_bounded) {
        label += "; hollow marks have no interval yet";
    }
    let drawn = html! {
        @if run.plan.arms.len() > 2 { (legend(&arms(run))) }
        div.changes {
            @for row in &rows { (row.draw(&axis, margin)) }
            div.ends {}
            svg.ticks { @for tick in &axis.ticks {
                text.x.extra[tick.is_extra] x=(percent(tick.at)) y="16" { (tick.text) }
            } }
        }
        p.axis.ways { span { "← worse" } span { "better →" } }
    };
    Some(Chart {
        id: format!("verdicts-{number}"),
        label,
        drawn,
    })
}

/// The margin as ratios.
fn margin(run: &Run) -> [f64; 2] {
    let margin = run.plan.design.margin;
    [1.0 / (1.0 + margin), 1.0 + margin]
}

/// The margin as a logarithm; 0.1 % for a plan without one.
fn knee(run: &Run) -> f64 {
    run.plan.design.margin.max(0.001).ln_1p()
}

/// The lowest and the highest ratio of an axis, with some space at its ends. `logs` are logarithms of ratios divided by `knee`.
fn range(logs: impl Iterator<Item = f64>, knee: f64) -> [f64; 2] {
    let positions = logs.map(f64::asinh);
    let (low, high) = positions.fold((0.0f64, 0.0f64), |(low, high), position| {
        (low.min(position), high.max(position))
    });
    let space = (high - low) * 0.05;
    [low - space, high + space].map(|position| (position.sinh() * knee).exp())
}

fn arms(run: &Run) -> Vec<Key> {
    let others = run.plan.arms.iter().enumerate();
    let others = others.filter(|(_, arm)| arm.name != run.plan.baseline);
    others
        .map(|(place, arm)| Key {
            place,
            text: arm.name.clone(),
            line: None,
            has_mark: true,
        })
        .collect()
}

/// A comparison with a ratio.
struct Row {
    place: usize,
    name: String,
    /// Its arm, if there are several.
    arm: Option<String>,
    change: String,
    tooltip: String,
    verdict: Verdict,
    /// How many times as good as the baseline, and the ends of its interval.
    ratio: f64,
    low: f64,
    high: f64,
    is_bounded: bool,
}

/// A row for each comparison that has a ratio; the rows of one metric are next to each other.
fn rows(run: &Run, comparisons: &[&Comparison]) -> Vec<Row> {
    let mut sorted: Vec<&Comparison> = comparisons.to_vec();
    sorted.sort_by_key(|comparison| {
        let mut all = comparisons.iter();
        all.position(|first| first.spec == comparison.spec)
    });
    let rows = sorted.into_iter();
    rows.filter_map(|comparison| Row::new(run, comparison))
        .collect()
}

impl Row {
    /// `None` for a comparison without a ratio.
    fn new(run: &Run, comparison: &Comparison) -> Option<Self> {
        let ratio = comparison.ratio.filter(|ratio| *ratio >= 0.0)?;
        let change = words::change(comparison.ratio);
        let interval = comparison.low.zip(comparison.high);
        let bounds = match interval {
            Some(_) => in_words(&words::interval(comparison), comparison.confidence),
            None => "no interval yet".into(),
        };
        let (name, arm, verdict) = (
            words::directed(&comparison.spec),
            &comparison.arm,
            comparison.verdict.word(),
        );
        let (low, high) = interval.unwrap_or((ratio, ratio));
        let (low, ratio, high) = match comparison.spec.direction {
            Direction::Higher => (low, ratio, high),
            Direction::Lower => (1.0 / high, 1.0 / ratio, 1.0 / low),
        };
        Some(Self {
            verdict: comparison.verdict,
            place: place(run, arm),
            tooltip: format!("{name}, {arm}: {verdict} {change} {bounds}"),
            name,
            arm: (run.plan.arms.len() > 2).then(|| arm.clone()),
            change,
            ratio,
            low,
            high,
            is_bounded: interval.is_some(),
        })
    }

    /// Name, change and drawing, three cells of the chart's grid.
    fn draw(&self, axis: &Axis, margin: [f64; 2]) -> Markup {
        let at = |ratio: f64| percent(axis.at(ratio).clamp(0.0, 1.0));
        let mark = match (is_beyond(self.ratio), self.is_bounded) {
            (true, _) if self.ratio < 1.0 => "mark-left".into(),
            (true, _) => "mark-right".into(),
            (false, _) => mark_id(self.place),
        };
        html! {
            div.name { (self.name) @if let Some(arm) = &self.arm { " " span.sub { (arm) } } }
            div.change { b.(self.verdict.word()) { (self.change) } }
            svg.(self.verdict.word()) {
                rect.margin x=(percent(margin[0])) width=(percent(margin[1] - margin[0])) height="100%" {}
                @for tick in &axis.ticks {
                    @let x = percent(tick.at);
                    line.grid.extra[tick.is_extra] x1=(x) x2=(x) y1="0" y2="100%" {}
                }
                @if let Some(origin) = axis.origin {
                    @let x = percent(origin);
                    line.origin x1=(x) x2=(x) y1="0" y2="100%" {}
                }
                @if self.is_bounded {
                    line.interval x1=(at(self.low)) x2=(at(self.high)) y1="50%" y2="50%" {}
                    @for end in [self.low, self.high] {
                        use.cap href="#cap-upright" x=(at(end)) y="50%" {}
                    }
                }
                use.open[!self.is_bounded] href={ "#" (mark) } x=(at(self.ratio)) y="50%" {}
                rect.hit width="100%" height="100%" { title { (self.tooltip) } }
            }
        }
    }
}

/// The change in each block, and estimate and interval after it; `None` before there are two blocks.
pub(crate) fn estimate_history(
    run: &Run,
    comparisons: &[&Comparison],
    number: usize,
) -> Option<Chart> {
    let primaries = words::primaries(comparisons.iter().copied());
    let primaries: Vec<&Comparison> = primaries
        .filter(|comparison| comparison.pairs.len() > 1)
        .collect();
    let spec = &primaries.first()?.spec;
    // The first intervals may be very wide, so the axis covers only the blocks and the last interval.
    let blocks = || {
        let changes = primaries.iter().flat_map(|comparison| changes(comparison));
        changes.map(|(_, change)| change)
    };
    let last = primaries
        .iter()
        .filter_map(|comparison| comparison.estimate_history.last());
    let ends = last.flat_map(|last| [last.low, last.high]);
    let knee = typical(blocks()).max(knee(run));
    let shown = blocks().chain(ends).chain(margin(run));
    let [low, high] = range(shown.map(|ratio| ratio_log(ratio) / knee), knee);
    let counts = primaries.iter().map(|comparison| comparison.pairs.len());
    let most = counts.max().unwrap_or(0);
    let [lower, upper] = margin(run);
    let (mut layers, mut keys) = (Vec::new(), Vec::new());
    for comparison in &primaries {
        layers.extend(history_layers(run, comparison));
        keys.extend(history_keys(run, comparison));
    }
    let plot = Plot {
        x: Axis::whole(0.5, most as f64 + 0.5, ACROSS),
        y: Axis::change(low, high, knee, UPWARDS),
        x_title: "blocks so far".into(),
        y_title: format!("change of {}", words::directed(spec)),
        margin: Some((lower, upper)),
        spans: Vec::new(),
        layers,
        keys,
        hits: history_hits(&primaries, most),
    };
    Some(Chart {
        id: format!("estimates-{number}"),
        label:
            "The change in each block, and estimate and interval after so many blocks; the margin \
                is shaded"
                .into(),
        drawn: plot.draw(),
    })
}

/// The median absolute logarithm of changes: up to there the axis is linear.
fn typical(ratios: impl Iterator<Item = f64>) -> f64 {
    let mut sizes: Vec<f64> = ratios.map(|ratio| ratio_log(ratio).abs()).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.get(sizes.len() / 2).copied().unwrap_or(0.0)
}

/// Number and ratio of each block that has a ratio.
fn changes(comparison: &Comparison) -> Vec<(f64, f64)> {
    let pairs = comparison.pairs.iter().enumerate();
    let ratios = pairs.map(|(index, pair)| ((index + 1) as f64, pair.arm / pair.baseline));
    ratios
        .filter(|(_, ratio)| ratio.is_finite() && *ratio >= 0.0)
        .collect()
}

/// The interval after each block as an area, the estimate as a line, and the blocks as marks.
///
/// Estimates are a little to the right of their block's mark, which would hide them.
fn history_layers(run: &Run, comparison: &Comparison) -> Vec<Layer> {
    const BEHIND: f64 = 0.15;
    let place = place(run, &comparison.arm);
    let offset = offset(run, &comparison.arm);
    let history = &comparison.estimate_history;
    let behind = if history.len() > MOST_INTERVALS {
        0.0
    } else {
        BEHIND
    };
    let (mut band, mut line, mut intervals) = (Vec::new(), Vec::new(), Vec::new());
    for estimate in history {
        let at = f64::from(estimate.blocks) + offset + behind;
        band.push((at, estimate.low, estimate.high));
        line.push((at, estimate.ratio));
        intervals.push((at, estimate.low, estimate.ratio, estimate.high));
    }
    let marks = changes(comparison).into_iter();
    let marks = marks.map(|(block, ratio)| (block + offset, ratio));
    let mut layers = vec![
        Layer::Band {
            place,
            points: band,
        },
        Layer::Line {
            place,
            points: line,
            stroke: Stroke::Arm,
        },
        Layer::Marks {
            place,
            marks: marks.collect(),
        },
    ];
    if history.len() <= MOST_INTERVALS {
        layers.push(Layer::Intervals {
            place,
            points: intervals,
        });
    }
    layers
}

fn history_keys(run: &Run, comparison: &Comparison) -> Vec<Key> {
    let (place, arm) = (place(run, &comparison.arm), &comparison.arm);
    let history = &comparison.estimate_history;
    let mut keys = Vec::new();
    if !history.is_empty() {
        let levels = Levels::of(history.iter().map(|estimate| estimate.confidence));
        keys.push(Key {
            place,
            text: format!("{arm}, estimate and {}", levels.head()),
            line: Some(Stroke::Arm),
            has_mark: false,
        });
    }
    keys.push(Key {
        place,
        text: format!("{arm}, each block"),
        line: None,
        has_mark: true,
    });
    keys
}

fn history_hits(comparisons: &[&Comparison], most: usize) -> Vec<Hit> {
    let line = |comparison: &Comparison, blocks: usize| {
        let pair = comparison.pairs.get(blocks - 1)?;
        let mut parts = vec![format!(
            "{}: block {} {}",
            comparison.arm,
            pair.block,
            words::change(Some(pair.arm / pair.baseline))
        )];
        for estimate in &comparison.estimate_history {
            if estimate.blocks as usize == blocks {
                let interval = words::interval_of(Some(estimate.low), Some(estimate.high));
                parts.push(format!(
                    "estimate after {}: {} {}",
                    words::counted(estimate.blocks, "block"),
                    words::change(Some(estimate.ratio)),
                    in_words(&interval, estimate.confidence)
                ));
            }
        }
        Some(parts.join("; "))
    };
    let hit = |blocks: usize| {
        let lines: Vec<String> = comparisons
            .iter()
            .filter_map(|comparison| line(comparison, blocks))
            .collect();
        Hit {
            at: blocks as f64,
            text: lines.join("\n"),
        }
    };
    (1..=most).map(hit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::judged;
    use record::fixtures::web;

    #[test]
    fn a_huge_change_is_drawn_beside_small_ones() {
        let (run, mut judgement) = judged(web::two_kernels());
        let huge = &mut judgement.comparisons[1];
        (huge.ratio, huge.low, huge.high) = (Some(45.0), None, None);
        let zero = &mut judgement.comparisons[2];
        (zero.ratio, zero.low, zero.high) = (Some(0.0), Some(0.0), Some(0.5));
        let comparisons: Vec<_> = judgement.comparisons.iter().collect();
        let chart = verdicts(&run, &comparisons, 0).unwrap();
        assert!(chart.label.ends_with("hollow marks have no interval yet"));
        let drawn = chart.drawn.into_string();
        assert_eq!(drawn.matches("class=\"name\"").count(), 4);
        // Both are latencies: 45 times as long is worse, and none at all is better.
        let open = drawn.matches("class=\"open\" href=\"#mark-1\"");
        assert_eq!(open.count(), 1);
        assert_eq!(drawn.matches("href=\"#mark-right\" x=\"100%\"").count(), 1);
        assert!(drawn.contains(">45x<") && !drawn.contains("NaN"));
    }

    #[test]
    fn the_estimate_is_drawn_block_by_block() {
        let (run, judgement) = judged(web::two_kernels());
        let primary = &judgement.comparisons[0];
        let drawn = estimate_history(&run, &[primary], 0).unwrap().drawn;
        let drawn = drawn.into_string();
        assert_eq!(
            drawn.matches("href=\"#mark-1\"").count(),
            primary.pairs.len() + 1
        );
        assert_eq!(
            drawn.matches("class=\"interval\"").count(),
            primary.estimate_history.len()
        );
        assert!(drawn.contains("class=\"margin\"") && drawn.contains("7.2: block 1 +7.26 %"));
    }

    #[test]
    fn a_block_without_a_ratio_is_left_out() {
        let (_, mut judgement) = judged(web::two_kernels());
        let pairs = &mut judgement.comparisons[0].pairs;
        (pairs[0].baseline, pairs[1].baseline) = (0.0, -1.0);
        let blocks = changes(&judgement.comparisons[0]);
        assert_eq!((blocks.len(), blocks[0].0), (7, 3.0));
    }
}
