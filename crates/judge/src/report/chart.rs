//! The page's charts, drawn as SVG without scripts when the page is written.
//!
//! Colours are in the page's style, which has a light and a dark variant: elements have a class for their arm's place in
//! the plan. Each chart has a table with its numbers, and shows them as tooltips.
//!
//! ```text
//! axis      positions of values, and labels
//! plot      a chart with two axes: lines, areas, marks
//! changes   charts of changes against the baseline
//! figures   charts of figures: over blocks, time and quantiles
//! loads     charts of figures against the load and against CPUs
//! live      charts of trials while they run
//! trend     ratios over versions and over nights
//! ```

use maud::{Markup, html};
use record::rundir::Run;

mod axis;
mod changes;
mod disturbed;
mod figures;
mod live;
mod loads;
mod plot;
mod trend;

pub(crate) use changes::{estimate_history, verdicts};
pub(crate) use figures::{blocks, latency, over_time};
pub(crate) use live::{latency_now, throughput_now};
pub(crate) use loads::{cpus, curve};
pub(crate) use trend::trend;

/// A chart of the page.
pub(crate) struct Chart {
    /// Its element's id.
    pub(crate) id: String,
    /// What it shows.
    pub(crate) label: String,
    /// The drawing with its legend and its axes.
    pub(crate) drawn: Markup,
}

/// Number of colours and shapes; further arms repeat them.
const KINDS: usize = 6;

/// Shapes of marks around 0, 0: arms also differ in shape, for print and for colour-blind readers.
const MARKS: [&str; KINDS] = [
    "M-5 0A5 5 0 1 0 5 0A5 5 0 1 0 -5 0Z",
    "M0-6L6 0L0 6L-6 0Z",
    "M-4.5-4.5H4.5V4.5H-4.5Z",
    "M0-6L5.5 4.5H-5.5Z",
    "M-1.8-5.5H1.8V-1.8H5.5V1.8H1.8V5.5H-1.8V1.8H-5.5V-1.8H-1.8Z",
    "M0-6.5L1.7-2.1L6.3-2L2.7 0.9L3.9 5.4L0 2.8L-3.9 5.4L-2.7 0.9L-6.3-2L-1.7-2.1Z",
];

/// Patterns of lines, in the order of the arms.
const DASHES: [&str; KINDS] = ["3 3", "none", "9 5", "9 4 3 4", "16 5", "16 4 3 4"];

/// Definitions of the shapes that all charts use, once per page.
pub(crate) fn shapes() -> Markup {
    html! {
        svg.shapes width="0" height="0" aria-hidden="true" { defs {
            @for (place, shape) in MARKS.iter().enumerate() { path id=(mark_id(place)) d=(shape) {} }
            path id="mark-left" d="M-7 0L5-6V6Z" {}
            path id="mark-right" d="M7 0L-5-6V6Z" {}
            path id="dot" d="M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0Z" {}
            path id="cap-level" d="M-5 0H5" {}
            path id="cap-upright" d="M0-9V9" {}
        } }
    }
}

fn mark_id(place: usize) -> String {
    format!("mark-{}", place % KINDS)
}

/// The class for an arm's colour.
fn arm_class(place: usize) -> String {
    format!("arm-{}", place % KINDS)
}

/// An arm's place in the plan, which determines its colour.
fn place(run: &Run, arm: &str) -> usize {
    let mut arms = run.plan.arms.iter();
    arms.position(|planned| planned.name == arm)
        .expect("a judgement names arms of its plan")
}

/// The horizontal offset of an arm's mark from its block, in blocks, so that arms with equal figures do not overlap.
///
/// The baseline has no offset, and neither has a single other arm.
fn offset(run: &Run, arm: &str) -> f64 {
    const DISTANCE: f64 = 0.12;
    let arms = run.plan.arms.iter();
    let others = arms.filter(|other| other.name != run.plan.baseline);
    let place = others.clone().position(|other| other.name == arm);
    let middle = (others.count() as f64 - 1.0) / 2.0;
    place.map_or(0.0, |place| {
        let distance = DISTANCE.min(0.8 / (2.0 * middle + 1.0));
        (place as f64 - middle) * distance
    })
}
