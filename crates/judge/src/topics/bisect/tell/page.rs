//! Bisections and walks as pages: the sentences, and a table of the versions with drawings.

use doc::Block;
use doc::html::{capital, pill, unbroken};
use maud::{Markup, html};
use record::bisect::{Bisection, Conclusion, Walk, WalkMetric};

use super::{
    COLUMNS, NOTE, extremes, left_out, sentences, versions, walk_columns, walk_note, walk_rows,
    walk_sentence,
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
            p.sub { "Bisection over " (bisection.line.len()) " versions" }
            div.headline.equivalent[is_found] {
                p.said { (sentence(first)) }
                @for other in others { p { (sentence(other)) } }
            }
            (doc::html::render(&notice))
        }
        section {
            h2 { "The line of versions" }
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

/// A walk's page.
pub fn walk(walk: &Walk) -> String {
    let body = html! {
        header {
            h1 { (walk.title) }
            p.sub { (walk.line.len()) " versions side by side" }
            @if let Some(primary) = walk.metrics.first() {
                div.headline.equivalent { p.said { (sentence(&walk_sentence(walk, primary))) } }
            }
            p.sub { (sentence(&walk_note(walk))) }
        }
        @for metric in &walk.metrics { (metric_section(walk, metric)) }
    };
    plain(&walk.title, &body)
}

fn metric_section(walk: &Walk, metric: &WalkMetric) -> Markup {
    let columns = walk_columns(metric);
    let ends = extremes(metric);
    html! {
        section {
            h2 { (metric.spec.name) }
            p { (sentence(&walk_sentence(walk, metric))) }
            div.scroll { table.cards.metrics {
                thead { tr {
                    @for (place, name) in columns.iter().enumerate() { th.n[0 < place && place < 5] scope="col" { (name) } }
                    th scope="col" { "line" }
                } }
                tbody { @for row in walk_rows(walk, metric) { tr {
                    th scope="row" { code { (row.cells[0]) } }
                    @for place in 1..5 { td.n data-name=(columns[place]) { (unbroken(&row.cells[place])) } }
                    td data-name=(columns[5]) {
                        @match row.step { Some(step) => { (pill(step.verdict.word())) } None => { (row.cells[5]) } }
                    }
                    td.swing { @if let Some(ratio) = row.ratio { (dot(super::position(ratio, ends), &[])) } }
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
