//! Disturbances of the plan in charts over time: upright bands with their names.

use plan::Plan;

use super::axis::Axis;
use super::plot::{Hit, Plot, Span};

/// What stands at the axis of a chart that has bands.
const SHADED: &str = "; shaded: disturbances of the plan";

/// Marks the plan's disturbances that begin within the chart; its axis counts seconds of the window.
pub(crate) fn mark(plot: &mut Plot, plan: &Plan, (first_s, last_s): (f64, f64)) {
    let planned = plan.disturbances.iter();
    let spans = planned.flat_map(|one| {
        let length_s = one.length_ms as f64 / 1e3;
        one.at_ms.iter().map(move |at_ms| {
            let from = *at_ms as f64 / 1e3;
            Span {
                from,
                to: from + length_s,
                text: one.name.clone(),
            }
        })
    });
    let is_inside = |span: &Span| first_s <= span.to && span.from <= last_s;
    plot.spans = spans.filter(is_inside).collect();
    if plot.spans.is_empty() {
        return;
    }
    plot.x_title += SHADED;
    // Strips that tell the figures lie over the bands: they tell of these too.
    for hit in &mut plot.hits {
        tell(hit, &plot.spans);
    }
}

fn tell(hit: &mut Hit, spans: &[Span]) {
    // A second lasts from its place on.
    let is_in = |span: &&Span| span.from < hit.at + 1.0 && hit.at < span.to;
    let mut names: Vec<&str> = spans.iter().filter(is_in).map(|one| &*one.text).collect();
    names.dedup();
    if !names.is_empty() {
        hit.text.push_str("\nwhile disturbed: ");
        hit.text.push_str(&names.join(", "));
    }
}

/// Where a band lies, as shares of the chart's width: its beginning and its width, which can always be seen.
pub(crate) fn place(span: &Span, x: &Axis) -> (f64, f64) {
    const THINNEST: f64 = 0.002;
    let (from, to) = (
        x.at(span.from).clamp(0.0, 1.0),
        x.at(span.to).clamp(0.0, 1.0),
    );
    (from.min(1.0 - THINNEST), (to - from).max(THINNEST))
}

#[cfg(test)]
mod tests {
    use plan::{DisturbanceKind, PlannedDisturbance};
    use record::fixtures::web;

    use crate::report::chart::over_time;
    use crate::report::judged;

    #[test]
    fn disturbances_are_bands_with_their_names() {
        let (mut run, judgement) = judged(web::two_kernels());
        let tables: Vec<_> = judgement.arm_summaries.iter().collect();
        let drawn = |run: &record::rundir::Run| {
            let chart = over_time(run, &tables, 0).unwrap();
            chart.drawn.into_string()
        };
        assert!(!drawn(&run).contains("disturb"));
        run.plan.disturbances = vec![PlannedDisturbance {
            name: "a <cable>".into(),
            kind: DisturbanceKind::LinkDown,
            at_ms: vec![1000, 500_000_000],
            length_ms: 1000,
        }];
        let drawn = drawn(&run);
        assert_eq!(drawn.matches("class=\"disturbed\"").count(), 1, "{drawn}");
        assert!(drawn.contains("<title>a &lt;cable&gt;</title>"));
        assert!(drawn.contains("\nwhile disturbed: a &lt;cable&gt;</title>"));
        assert!(drawn.contains("; shaded: disturbances of the plan"));
    }
}
