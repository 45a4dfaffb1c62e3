//! Draws a chart with two axes as SVG that fits any width.
//!
//! All positions are percentages, so that a phone, a wide window and paper show the same markup with letters of the same
//! size. Lines and areas need coordinates: they are in a nested SVG that is stretched, without stretching strokes.

use maud::{Markup, html};

use super::axis::Axis;
use super::{DASHES, arm_class, disturbed, mark_id};

/// Most tooltips of a chart.
const MOST_HITS: usize = 300;

/// Most points of a line; a longer one keeps the lowest and the highest point of each stretch.
const MOST_POINTS: usize = 1500;

/// A chart with two axes.
pub(crate) struct Plot {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) x_title: String,
    pub(crate) y_title: String,
    /// The margin as two values of `y`, shaded.
    pub(crate) margin: Option<(f64, f64)>,
    /// Shaded parts of the horizontal axis.
    pub(crate) spans: Vec<Span>,
    /// In the order of painting.
    pub(crate) layers: Vec<Layer>,
    pub(crate) keys: Vec<Key>,
    pub(crate) hits: Vec<Hit>,
}

/// A named part of the horizontal axis.
pub(crate) struct Span {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) text: String,
}

/// Something painted; `place` is its arm's place in the plan, which determines its colour.
pub(crate) enum Layer {
    /// The area between two values at each position: `(x, low, high)`.
    Band {
        place: usize,
        points: Vec<(f64, f64, f64)>,
    },
    Line {
        place: usize,
        points: Vec<(f64, f64)>,
        stroke: Stroke,
    },
    /// Vertical lines that join two values, without an arm's colour: `(x, low, high)`.
    Joints(Vec<(f64, f64, f64)>),
    /// Estimates with their intervals, vertical lines with caps: `(x, low, estimate, high)`.
    Intervals {
        place: usize,
        points: Vec<(f64, f64, f64, f64)>,
    },
    Marks {
        place: usize,
        marks: Vec<(f64, f64)>,
    },
}

/// The style of a line.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Stroke {
    /// The arm's pattern.
    Arm,
    /// The arm's pattern, with horizontal and vertical steps from point to point.
    Steps,
    /// Thin and dotted.
    Thin,
}

/// An entry of the legend.
pub(crate) struct Key {
    pub(crate) place: usize,
    pub(crate) text: String,
    pub(crate) line: Option<Stroke>,
    pub(crate) has_mark: bool,
}

/// A tooltip at a position of the horizontal axis.
pub(crate) struct Hit {
    pub(crate) at: f64,
    pub(crate) text: String,
}

impl Plot {
    pub(crate) fn draw(&self) -> Markup {
        let longest = self.y.ticks.iter().map(|tick| tick.text.chars().count());
        let gutter = 14 + 7 * longest.max().unwrap_or(0);
        html! {
            (legend(&self.keys))
            p.axis { (self.y_title) }
            div.plot style={ "padding-left:" (gutter) "px" } {
                svg.drawing {
                    (self.grid())
                    @if self.layers.iter().any(Layer::has_paths) {
                        svg.paths viewBox="0 0 1000 1000" preserveAspectRatio="none" {
                            @for layer in &self.layers { @if layer.has_paths() { (self.paths(layer)) } }
                        }
                    }
                    @for layer in &self.layers { (self.marks(layer)) }
                    (self.strips())
                }
            }
            p.axis.x { (self.x_title) }
        }
    }

    /// The margin, disturbances, grid lines and labels.
    fn grid(&self) -> Markup {
        html! {
            @if let Some((low, high)) = self.margin {
                @let (top, bottom) = (1.0 - self.y.at(high), 1.0 - self.y.at(low));
                @let (top, bottom) = (top.clamp(0.0, 1.0), bottom.clamp(0.0, 1.0));
                rect.margin x="0" y=(percent(top)) width="100%" height=(percent(bottom - top)) {}
            }
            @for span in &self.spans {
                @let (from, width) = disturbed::position(span, &self.x);
                rect.disturbed x=(percent(from)) y="0" width=(percent(width)) height="100%" { title { (span.text) } }
            }
            @for tick in &self.y.ticks {
                @let y = percent(1.0 - tick.at);
                line.grid x1="0" x2="100%" y1=(y) y2=(y) {}
                text.y x="-8" y=(y) { (tick.text) }
            }
            @for tick in &self.x.ticks {
                @let x = percent(tick.at);
                g.extra[tick.is_extra] {
                    line.grid x1=(x) x2=(x) y1="0" y2="100%" {}
                    text.x x=(x) y="100%" dy="18" { (tick.text) }
                }
            }
            @if let Some(at) = self.y.origin {
                @let y = percent(1.0 - at);
                line.origin x1="0" x2="100%" y1=(y) y2=(y) {}
            }
        }
    }

    fn paths(&self, layer: &Layer) -> Markup {
        match layer {
            Layer::Band { place, points } => html! {
                path.band.(arm_class(*place)) d=(self.outline(points)) {}
            },
            Layer::Line {
                place,
                points,
                stroke,
            } => html! {
                path.line.thin[*stroke == Stroke::Thin].(arm_class(*place))
                    stroke-dasharray=(dashes(*place, *stroke)) d=(self.line(points, *stroke)) {}
            },
            Layer::Joints(_) | Layer::Intervals { .. } | Layer::Marks { .. } => html! {},
        }
    }

    fn marks(&self, layer: &Layer) -> Markup {
        match layer {
            Layer::Joints(points) => html! {
                @for (x, low, high) in points {
                    @let x = percent(self.x.at(*x));
                    line.joint x1=(x) x2=(x) y1=(self.down(*low)) y2=(self.down(*high)) {}
                }
            },
            Layer::Intervals { place, points } => html! {
                g.(arm_class(*place)) { @for (x, low, estimate, high) in points {
                    @let x = percent(self.x.at(*x));
                    line.interval x1=(x) x2=(x) y1=(self.down(*low)) y2=(self.down(*high)) {}
                    @for end in [low, high] { @if (0.0..=1.0).contains(&self.y.at(*end)) {
                        use.cap href="#cap-level" x=(x) y=(self.down(*end)) {}
                    } }
                    use href="#dot" x=(x) y=(self.down(*estimate)) {}
                } }
            },
            Layer::Marks { place, marks } => html! {
                g.(arm_class(*place)) { @for (x, y) in marks {
                    use href={ "#" (mark_id(*place)) } x=(percent(self.x.at(*x))) y=(self.down(*y)) {}
                } }
            },
            Layer::Band { .. } | Layer::Line { .. } => html! {},
        }
    }

    /// Vertical strips with tooltips; each extends halfway to its neighbours.
    fn strips(&self) -> Markup {
        let stride = self.hits.len().div_ceil(MOST_HITS).max(1);
        let hits: Vec<(f64, &Hit)> = self
            .hits
            .iter()
            .step_by(stride)
            .map(|hit| (self.x.at(hit.at), hit))
            .collect();
        let halfway = |at: f64, neighbour: Option<&(f64, &Hit)>, end: f64| {
            neighbour.map_or(end, |neighbour| f64::midpoint(at, neighbour.0))
        };
        html! {
            @for (index, (at, hit)) in hits.iter().enumerate() {
                @let left = halfway(*at, index.checked_sub(1).map(|before| &hits[before]), 0.0);
                @let right = halfway(*at, hits.get(index + 1), 1.0);
                rect.hit x=(percent(left)) width=(percent((right - left).max(0.0))) height="100%" {
                    title { (hit.text) }
                }
            }
        }
    }

    /// A value's distance from the top, clamped to the axis.
    fn down(&self, value: f64) -> String {
        percent(1.0 - self.y.at(value).clamp(0.0, 1.0))
    }

    /// The path of a line, with gaps at NaN values.
    fn line(&self, points: &[(f64, f64)], stroke: Stroke) -> String {
        let mut parts: Vec<String> = Vec::new();
        let mut before = (String::new(), String::new());
        let mut begins = true;
        for (x, y) in thinned(points) {
            if y.is_nan() {
                begins = true;
                continue;
            }
            let (x, y) = (coordinate(self.x.at(x)), coordinate(1.0 - self.y.at(y)));
            if std::mem::take(&mut begins) {
                parts.push(format!("M{x} {y}"));
            } else if stroke != Stroke::Steps {
                parts.push(format!("L{x} {y}"));
            } else if y != before.1 {
                parts.push(format!("H{x}V{y}"));
            }
            before = (x, y);
        }
        if stroke == Stroke::Steps {
            parts.push(format!("H{}", before.0));
        }
        parts.concat()
    }

    /// The path of an area: along the upper edge, and back along the lower one.
    fn outline(&self, points: &[(f64, f64, f64)]) -> String {
        let upper = points.iter().map(|(x, _, high)| (x, high));
        let lower = points.iter().rev().map(|(x, low, _)| (x, low));
        let corner = |(x, y): (&f64, &f64)| {
            // Renderers lose precision with very large coordinates.
            let down = (1.0 - self.y.at(*y)).clamp(-1.0, 2.0);
            format!("{} {}", coordinate(self.x.at(*x)), coordinate(down))
        };
        let corners: Vec<String> = upper.chain(lower).map(corner).collect();
        format!("M{}Z", corners.join("L"))
    }
}

impl Layer {
    fn has_paths(&self) -> bool {
        match self {
            Self::Band { points, .. } => !points.is_empty(),
            Self::Line { points, .. } => !points.is_empty(),
            Self::Joints(_) | Self::Intervals { .. } | Self::Marks { .. } => false,
        }
    }
}

/// The legend, with a sample of each line and mark.
pub(crate) fn legend(keys: &[Key]) -> Markup {
    html! {
        @if !keys.is_empty() {
            ul.legend { @for key in keys { li {
                svg.(arm_class(key.place)) width="26" height="12" aria-hidden="true" {
                    @if let Some(stroke) = key.line {
                        line.line.thin[stroke == Stroke::Thin] x1="0" x2="26" y1="6" y2="6"
                            stroke-dasharray=(dashes(key.place, stroke)) {}
                    }
                    @if key.has_mark { use href={ "#" (mark_id(key.place)) } x="13" y="6" {} }
                }
                (key.text)
            } } }
        }
    }
}

fn dashes(place: usize, stroke: Stroke) -> &'static str {
    match stroke {
        Stroke::Arm | Stroke::Steps => DASHES[place % DASHES.len()],
        Stroke::Thin => "1 4",
    }
}

/// A share of the drawing as a percentage for SVG.
pub(crate) fn percent(share: f64) -> String {
    format!("{}%", short(share * 100.0, 2))
}

/// A share of the stretched drawing as a coordinate.
fn coordinate(share: f64) -> String {
    short(share * 1000.0, 1)
}

fn short(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".into()
    } else {
        text.into()
    }
}

/// Thins a long line to the lowest and the highest point of each stretch, which keeps all spikes.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= MOST_POINTS {
        return points.to_vec();
    }
    let stretch = (2 * points.len()).div_ceil(MOST_POINTS);
    let ends = |stretch: &[(f64, f64)]| {
        let by_value = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let low = *stretch.iter().min_by(by_value)?;
        let high = *stretch.iter().max_by(by_value)?;
        Some(if low.0 < high.0 {
            [low, high]
        } else {
            [high, low]
        })
    };
    points.chunks(stretch).filter_map(ends).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::super::axis::UPWARDS;
    use super::*;

    #[test]
    fn a_line_has_a_gap_where_there_is_no_value() {
        let points = [
            (0.0, 1.0),
            (1.0, 2.0),
            (2.0, f64::NAN),
            (3.0, 2.0),
            (4.0, 1.0),
        ];
        let drawn = plot().line(&points, Stroke::Arm);
        let kinds: String = drawn.chars().filter(char::is_ascii_alphabetic).collect();
        assert_eq!(kinds, "MLML", "{drawn}");
        let outage = [
            (0.0, 1.0),
            (1.0, f64::NAN),
            (2.0, f64::NAN),
            (3.0, f64::NAN),
        ];
        assert_eq!(plot().line(&outage, Stroke::Arm).matches('M').count(), 1);
    }

    fn plot() -> Plot {
        Plot {
            x: Axis::linear(0.0, 4.0, UPWARDS),
            y: Axis::linear(0.0, 10.0, UPWARDS),
            x_title: String::new(),
            y_title: String::new(),
            margin: None,
            spans: Vec::new(),
            layers: Vec::new(),
            keys: Vec::new(),
            hits: Vec::new(),
        }
    }

    #[test]
    fn a_line_of_steps_extends_to_its_last_point() {
        let points = [(0.0, 0.0), (1.0, 5.0), (2.0, 5.0), (4.0, 5.0)];
        assert_eq!(plot().line(&points, Stroke::Steps), "M0 1000H250V500H1000");
        assert_eq!(
            plot().line(&points, Stroke::Arm),
            "M0 1000L250 500L500 500L1000 500"
        );
    }

    #[test]
    fn an_area_is_a_closed_path() {
        let points = [(0.0, 1.0, 2.0), (4.0, 0.0, 1e9)];
        assert_eq!(
            plot().outline(&points),
            "M0 800L1000 -1000L1000 1000L0 900Z"
        );
    }

    #[test]
    fn a_long_line_keeps_its_spikes() {
        let mut points: Vec<(f64, f64)> = (0..86_400).map(|at| (f64::from(at), 1.0)).collect();
        points[40_000].1 = 99.0;
        points[40_001].1 = -99.0;
        let thin = thinned(&points);
        assert!(thin.len() <= MOST_POINTS + 2, "{}", thin.len());
        assert!(thin.contains(&(40_000.0, 99.0)) && thin.contains(&(40_001.0, -99.0)));
        assert!(thin.is_sorted_by(|a, b| a.0 <= b.0));
    }

    #[test]
    fn tooltips_cover_the_whole_width() {
        let mut plot = plot();
        plot.hits = [1.0, 2.0, 4.0]
            .map(|at| Hit {
                at,
                text: format!("<{at}>"),
            })
            .into();
        let strips = plot.strips().into_string();
        let starts = [
            "x=\"0%\" width=\"37.5%\"",
            "x=\"37.5%\" width=\"37.5%\"",
            "x=\"75%\" width=\"25%\"",
        ];
        for start in starts {
            assert!(strips.contains(start), "{start} in {strips}");
        }
        assert!(strips.contains("<title>&lt;1&gt;</title>"));
    }
}
