//! Charts of changes against the baseline: each metric against the margin, and the estimate after each block.

use maud::{Markup, html};
use record::rundir::Run;
use record::verdict::Comparison;

use super::axis::{ACROSS, Axis, BETWEEN, UPWARDS, is_beyond, ratio_log};
use super::plot::{Hit, Key, Layer, Plot, Stroke, legend, percent};
use super::{Chart, arm_class, beside, mark_id, place};
use crate::words;
use crate::words::levels;
use crate::words::levels::{Levels, in_words};

/// Most intervals that are drawn with ends; of more, the shaded area is enough.
const MOST_INTERVALS: usize = 30;

/// All metrics of one workload against the margin; `None` when none has a ratio.
pub(crate) fn verdicts(run: &Run, comparisons: &[&Comparison], number: usize) -> Option<Chart> {
    let rows = rows(run, comparisons);
    if rows.is_empty() {
        return None;
    }
    let knee = knee(run);
    // The margin takes part of the picture, whatever the changes are.
    let ends = rows.iter().flat_map(|row| [row.low, row.ratio, row.high]);
    let ends = ends.map(|ratio| ratio_log(ratio) / knee);
    let [low, high] = reach(ends.chain([-2.0, 2.0]), knee);
    let axis = Axis::change(low, high, knee, BETWEEN);
    let margin = margin(run).map(|ratio| axis.at(ratio));
    let mut label = "Change of each metric, drawn against the margin (shaded); the arrow points to what is better. The axis is \
                     logarithmic beyond the margin"
        .to_string();
    if rows.iter().any(|row| row.is_bounded) {
        let confidences = comparisons.iter().map(|one| one.confidence);
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
        p.axis.x { "change against the baseline" }
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

/// The margin as a logarithm; a plan without one has 0.1 % here.
fn knee(run: &Run) -> f64 {
    run.plan.design.margin.max(0.001).ln_1p()
}

/// The ratios between which some places lie, which are logarithms over `knee` spread by `asinh`, with a little room.
fn reach(places: impl Iterator<Item = f64>, knee: f64) -> [f64; 2] {
    let (low, high) = places
        .map(f64::asinh)
        .fold((0.0f64, 0.0f64), |(low, high), one| {
            (low.min(one), high.max(one))
        });
    let air = (high - low) * 0.05;
    [low - air, high + air].map(|place| (place.sinh() * knee).exp())
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
    /// Its arm, where there are several.
    arm: Option<String>,
    change: String,
    told: String,
    ratio: f64,
    low: f64,
    high: f64,
    is_bounded: bool,
}

/// A row for each metric that has a ratio; where several arms meet the baseline, metric by metric.
fn rows(run: &Run, comparisons: &[&Comparison]) -> Vec<Row> {
    let mut order: Vec<&Comparison> = comparisons.to_vec();
    order.sort_by_key(|one| comparisons.iter().position(|first| first.spec == one.spec));
    let rows = order.into_iter().filter_map(|one| Row::of(run, one));
    rows.collect()
}

impl Row {
    fn of(run: &Run, comparison: &Comparison) -> Option<Self> {
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
        Some(Self {
            place: place(run, arm),
            told: format!("{name}, {arm}: {verdict} {change} {bounds}"),
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
            div.change { (self.change) }
            svg.(arm_class(self.place)) {
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
                rect.hit width="100%" height="100%" { title { (self.told) } }
            }
        }
    }
}

/// Estimate after each block: the change in each block, and estimate and interval after so many blocks; `None` before
/// there are two.
pub(crate) fn estimate_history(
    run: &Run,
    comparisons: &[&Comparison],
    number: usize,
) -> Option<Chart> {
    let primaries = words::primaries(comparisons.iter().copied());
    let grown: Vec<&Comparison> = primaries.filter(|one| one.pairs.len() > 1).collect();
    let spec = &grown.first()?.spec;
    // The first intervals may be as wide as a house: the axis follows the blocks and the last interval.
    let blocks = || {
        grown
            .iter()
            .flat_map(|one| changes(one))
            .map(|(_, change)| change)
    };
    let ends = grown.iter().filter_map(|one| one.estimate_history.last());
    let ends = ends.flat_map(|last| [last.low, last.high]);
    let knee = typical(blocks()).max(knee(run));
    let shown = blocks().chain(ends).chain(margin(run));
    let [low, high] = reach(shown.map(|ratio| ratio_log(ratio) / knee), knee);
    let most = grown.iter().map(|one| one.pairs.len()).max().unwrap_or(0);
    let [lower, upper] = margin(run);
    let plot = Plot {
        x: Axis::whole(0.5, most as f64 + 0.5, ACROSS),
        y: Axis::change(low, high, knee, UPWARDS),
        x_title: "blocks so far".into(),
        y_title: format!("change of {}", words::directed(spec)),
        margin: Some((lower, upper)),
        spans: Vec::new(),
        layers: grown.iter().flat_map(|one| running(run, one)).collect(),
        keys: grown
            .iter()
            .flat_map(|one| running_keys(run, one))
            .collect(),
        hits: running_hits(&grown, most),
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

/// The middle one of some changes, as a logarithm without its sign: what an axis shows evenly.
fn typical(ratios: impl Iterator<Item = f64>) -> f64 {
    let mut sizes: Vec<f64> = ratios.map(|ratio| ratio_log(ratio).abs()).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.get(sizes.len() / 2).copied().unwrap_or(0.0)
}

/// Place and ratio of each block that has one.
fn changes(comparison: &Comparison) -> Vec<(f64, f64)> {
    let pairs = comparison.pairs.iter().enumerate();
    let ratios = pairs.map(|(index, pair)| ((index + 1) as f64, pair.arm / pair.baseline));
    ratios
        .filter(|(_, ratio)| ratio.is_finite() && *ratio >= 0.0)
        .collect()
}

/// The interval after so many blocks as an area, the estimate as a line, and the blocks as marks. Estimates stand a
/// little behind their block's mark, which would hide them.
fn running(run: &Run, comparison: &Comparison) -> Vec<Layer> {
    const BEHIND: f64 = 0.15;
    let place = place(run, &comparison.arm);
    let aside = beside(run, &comparison.arm);
    let history = &comparison.estimate_history;
    let behind = if history.len() > MOST_INTERVALS {
        0.0
    } else {
        BEHIND
    };
    let at = |blocks: u32| f64::from(blocks) + aside + behind;
    let intervals = history
        .iter()
        .map(|one| (at(one.blocks), one.low, one.high));
    let line = history.iter().map(|one| (at(one.blocks), one.ratio));
    let blocks = changes(comparison).into_iter();
    let mut layers = vec![
        Layer::Band {
            place,
            points: intervals.collect(),
        },
        Layer::Line {
            place,
            points: line.collect(),
            stroke: Stroke::Arm,
        },
        Layer::Marks {
            place,
            marks: blocks
                .map(|(block, ratio)| (block + aside, ratio))
                .collect(),
        },
    ];
    if history.len() <= MOST_INTERVALS {
        let points = history
            .iter()
            .map(|one| (at(one.blocks), one.low, one.ratio, one.high));
        let points = points.collect();
        layers.push(Layer::Intervals { place, points });
    }
    layers
}

fn running_keys(run: &Run, comparison: &Comparison) -> Vec<Key> {
    let (place, arm) = (place(run, &comparison.arm), &comparison.arm);
    let estimate = (!comparison.estimate_history.is_empty()).then(|| Key {
        place,
        text: format!(
            "{arm}, estimate and {}",
            Levels::of(comparison.estimate_history.iter().map(|one| one.confidence)).head()
        ),
        line: Some(Stroke::Arm),
        has_mark: false,
    });
    let blocks = Key {
        place,
        text: format!("{arm}, each block"),
        line: None,
        has_mark: true,
    };
    estimate.into_iter().chain([blocks]).collect()
}

fn running_hits(grown: &[&Comparison], most: usize) -> Vec<Hit> {
    let told = |one: &Comparison, at: usize| {
        let pair = one.pairs.get(at - 1)?;
        let block = words::change(Some(pair.arm / pair.baseline));
        let estimate = one.estimate_history.iter();
        let estimate = estimate.filter(|estimate| estimate.blocks as usize == at);
        let estimate = estimate.map(|estimate| {
            let confidence = estimate.confidence;
            let [ratio, low, high] = [estimate.ratio, estimate.low, estimate.high]
                .map(|ratio| words::change(Some(ratio)));
            format!(
                "; estimate after {}: {ratio} {}",
                words::counted(at as u32, "block"),
                in_words(&format!("[{low}, {high}]"), confidence)
            )
        });
        let estimate: String = estimate.collect();
        Some(format!(
            "{}: block {} {block}{estimate}",
            one.arm, pair.block
        ))
    };
    let hit = |at: usize| {
        let lines: Vec<String> = grown.iter().filter_map(|one| told(one, at)).collect();
        Hit {
            at: at as f64,
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
    fn a_change_that_dwarfs_all_others_leaves_them_their_room() {
        let (run, mut judgement) = judged(web::two_kernels());
        let wild = &mut judgement.comparisons[1];
        (wild.ratio, wild.low, wild.high) = (Some(45.0), None, None);
        let nothing = &mut judgement.comparisons[2];
        (nothing.ratio, nothing.low, nothing.high) = (Some(0.0), Some(0.0), Some(0.5));
        let comparisons: Vec<_> = judgement.comparisons.iter().collect();
        let chart = verdicts(&run, &comparisons, 0).unwrap();
        assert!(chart.label.ends_with("hollow marks have no interval yet"));
        let drawn = chart.drawn.into_string();
        assert_eq!(drawn.matches("class=\"name\"").count(), 4);
        assert_eq!(drawn.matches("class=\"open\" href=\"#mark-1\"").count(), 1);
        assert_eq!(drawn.matches("href=\"#mark-left\" x=\"0%\"").count(), 1);
        assert!(drawn.contains("+4\u{a0}400 %") && !drawn.contains("NaN"));
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
