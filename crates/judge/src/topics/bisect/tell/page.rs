//! Bisections and version series as pages: the sentences, and a table of the versions with drawings.

use doc::Block;
use doc::html::{capital, pill, unbroken};
use maud::{Markup, html};
use record::bisect::{Bisection, Conclusion, SeriesMetric, SeriesResult};

use super::{
    COLUMNS, NOTE, extremes, left_out, sentences, series_columns, series_note, series_rows,
    series_sentence, versions,
};
use crate::report::page::plain;

/// Margin on either side of the ends, as a share of the distance between them: versions may lie there.
const BEYOND: f64 = 0.25;

/// A bisection's page.
pub fn bisection(bisection: &Bisection) -> String {
    let sentences = sentences(bisection);
    let (first, others) = sentences.split_first().expect("a bisection says something");
    let notice: Vec<Block> = Block::notice("warnings", "Left out", left_out(bisection))
        .into_iter()
        .collect();
    let is_found = matches!(bisection.conclusion, Conclusion::Found { .. });
    let body = html! {
        header {
            h1 { (bisection.title) }
            p.sub { "Bisection over " (bisection.versions.len()) " versions" }
            div.headline.equivalent[is_found] {
                p.said { (sentence(first)) }
                @for other in others { p { (sentence(other)) } }
            }
            (doc::html::render(&notice))
        }
        section {
            h2 { "The version series" }
            div.scroll { table.cards.metrics {
                thead { tr {
                    @for (place, name) in COLUMNS.iter().enumerate() { th.n[place > 1] scope="col" { (name) } }
                    th scope="col" { "between the ends" }
                    th scope="col" { "probability" }
                } }
                tbody { @for row in versions(bisection) { tr {
                    th scope="row" { code { (row.cells[0]) } }
                    @for (place, cell) in row.cells.iter().enumerate().skip(1) {
                        td.n[place > 1] data-name=(COLUMNS[place]) { (cell) }
                    }
                    td.swing { @if let Some(position) = row.position { (between(position)) } }
                    td.swing { @if let Some(step) = row.step { (bar(step)) } }
                } } }
            } }
            p.sub { (sentence(NOTE)) }
        }
    };
    plain(&bisection.title, &body)
}

/// The page of a version series.
pub fn series(series: &SeriesResult) -> String {
    let body = html! {
        header {
            h1 { (series.title) }
            p.sub { (series.versions.len()) " versions side by side" }
            @if let Some(primary) = series.metrics.first() {
                div.headline.equivalent { p.said { (sentence(&series_sentence(series, primary))) } }
            }
            p.sub { (sentence(&series_note(series))) }
        }
        @for metric in &series.metrics { (metric_section(series, metric)) }
    };
    plain(&series.title, &body)
}

fn metric_section(series: &SeriesResult, metric: &SeriesMetric) -> Markup {
    let columns = series_columns(metric);
    let (lowest, highest) = extremes(metric);
    html! {
        section {
            h2 { (metric.spec.name) }
            p { (sentence(&series_sentence(series, metric))) }
            div.scroll { table.cards.metrics {
                thead { tr {
                    @for (place, name) in columns.iter().enumerate() { th.n[0 < place && place < 5] scope="col" { (name) } }
                    th scope="col" { "line" }
                } }
                tbody { @for row in series_rows(series, metric) { tr {
                    th scope="row" { code { (row.cells[0]) } }
                    @for place in 1..5 { td.n data-name=(columns[place]) { (unbroken(&row.cells[place])) } }
                    td data-name=(columns[5]) {
                        @match row.step { Some(step) => { (pill(step.verdict.word())) } None => { (row.cells[5]) } }
                    }
                    td.swing { @if let Some(ratio) = row.ratio { (dot(super::position(ratio, lowest, highest), &[])) } }
                } } }
            } }
        }
    }
}

/// Adds a capital, a full stop and arrows, and keeps figures on one line.
fn sentence(text: &str) -> String {
    capital(&unbroken(text)).replace("->", "→") + "."
}

/// A version as a dot between two lines that stand for the ends.
fn between(position: f64) -> Markup {
    let share = |position: f64| (position + BEYOND) / (1.0 + 2.0 * BEYOND);
    dot(share(position).clamp(0.0, 1.0), &[share(0.0), share(1.0)])
}

/// A dot and vertical lines, each at a share of the width.
fn dot(share: f64, lines: &[f64]) -> Markup {
    let percent = |share: f64| format!("{:.1}%", 4.0 + 92.0 * share);
    html! {
        svg aria-hidden="true" {
            @for line in lines { line.grid x1=(percent(*line)) x2=(percent(*line)) y1="0" y2="100%" {} }
            g.arm-2 { use href="#dot" x=(percent(share)) y="9" {} }
        }
    }
}

/// A share as a bar.
fn bar(share: f64) -> Markup {
    let width = format!("{:.1}%", 100.0 * share.clamp(0.0, 1.0));
    html! { svg aria-hidden="true" { rect.less x="0" width=(width) y="4" height="10" {} } }
}
