//! Planned disturbances in charts over time: vertical bands with their names.

use plan::Plan;

use super::axis::Axis;
use super::plot::{Hit, Plot, Span};

/// The addition to the axis title of a chart with bands.
const SHADED: &str = "; shaded: disturbances of the plan";

/// Marks the plan's disturbances that overlap the chart, whose horizontal axis is seconds since the window opened.
pub(crate) fn mark(plot: &mut Plot, plan: &Plan, first_s: f64, last_s: f64) {
    plot.spans.clear();
    for disturbance in &plan.disturbances {
        for at_ms in &disturbance.at_ms {
            let from = *at_ms as f64 / 1e3;
            let to = from + disturbance.length_ms as f64 / 1e3;
            if first_s <= to && from <= last_s {
                let text = disturbance.name.clone();
                plot.spans.push(Span { from, to, text });
            }
        }
    }
    if plot.spans.is_empty() {
        return;
    }
    plot.x_title += SHADED;
    // Tooltips of figures cover the bands, so they also name the disturbances.
    for hit in &mut plot.hits {
        add_disturbances(hit, &plot.spans);
    }
}

fn add_disturbances(hit: &mut Hit, spans: &[Span]) {
    let is_disturbed = |span: &&Span| span.from < hit.at + 1.0 && hit.at < span.to;
    let mut names: Vec<&str> = spans
        .iter()
        .filter(is_disturbed)
        .map(|span| &*span.text)
        .collect();
    names.dedup();
    if !names.is_empty() {
        hit.text.push_str("\nwhile disturbed: ");
        hit.text.push_str(&names.join(", "));
    }
}

/// Begin and width of a band as shares of the chart's width; a band is never too thin to be seen.
pub(crate) fn position(span: &Span, x: &Axis) -> (f64, f64) {
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
