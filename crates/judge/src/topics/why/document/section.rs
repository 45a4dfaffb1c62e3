//! An explanation in the page: the sentence, mechanisms with their functions, counters, waits, call paths, notes.

use doc::html::capital;
use maud::{Markup, html};
use record::verdict::why::{MechanismRow, Why};

use super::{Topic, sections, tree};
use crate::topics::why::tell::{self, notes, tables};

/// One arm's explanation on one workload; `id` is unique in the page.
pub(crate) fn section(why: &Why, id: &str) -> Markup {
    html! {
        h3 id={ "why-" (id) } { "Why " (why.arm) " differs from " (why.baseline) }
        p { (capital(&tell::sentence(why))) "." }
        p.sub { (tell::metric(why)) }
        (mechanisms(why))
        (others(why))
        (tree::tree(why, id))
        h4 { "Notes" }
        ul.notes { @for note in notes::all(why) { li { (note) } } }
    }
}

fn mechanisms(why: &Why) -> Markup {
    let rows = tables::mechanism_rows(why);
    let (head, rows) = rows.split_first().expect("a table has its head");
    let shown = tables::shown(why);
    let scale = scale(&shown);
    let cell = |column: usize, text: &str| html! { td.n data-name=(head[column]) { (text) } };
    html! {
        div.scroll { table.cards.mechanisms {
            thead { tr {
                @for (column, name) in head.iter().enumerate() {
                    @if column == 3 { th aria-hidden="true" {} }
                    th.n[column > 0] scope="col" { (name) }
                }
            } }
            tbody { @for (index, row) in rows.iter().enumerate() {
                @let mechanism = shown.get(index);
                tr.total[mechanism.is_none()] {
                    th scope="row" { (row[0]) }
                    (cell(1, &row[1])) (cell(2, &row[2]))
                    td.swing { @if let Some(mechanism) = mechanism { (swing(mechanism, scale)) } }
                    @for column in 3..row.len() { (cell(column, &row[column])) }
                }
                @if let Some(mechanism) = mechanism { (functions(why, mechanism)) }
            } }
        } }
    }
}

/// The largest absolute value of a table's bars and intervals.
fn scale(rows: &[&MechanismRow]) -> f64 {
    let ends = rows.iter().flat_map(|row| {
        let ends = [Some(row.difference), row.low, row.high];
        ends.into_iter().flatten().map(f64::abs)
    });
    ends.fold(f64::MIN_POSITIVE, f64::max)
}

/// A bar to the left for less and to the right for more, with its interval.
fn swing(row: &MechanismRow, scale: f64) -> Markup {
    let x = |value: f64| 50.0 + 48.0 * value / scale;
    let percent = |value: f64| format!("{value:.2}%");
    let (zero, end) = (50.0, x(row.difference));
    let style = match (row.difference < 0.0, row.significant) {
        (true, true) => "less",
        (true, false) => "less unsure",
        (false, true) => "more",
        (false, false) => "more unsure",
    };
    html! {
        svg aria-hidden="true" {
            line.grid x1="50%" x2="50%" y1="0" y2="100%" {}
            rect class=(style) x=(percent(end.min(zero))) width=(percent((end - zero).abs())) y="4" height="10" {}
            @if let (Some(low), Some(high)) = (row.low, row.high) {
                line.interval x1=(percent(x(low))) x2=(percent(x(high))) y1="9" y2="9" {}
            }
        }
    }
}

/// Most functions of a mechanism in the page; JSON has the others.
const FUNCTIONS: usize = 15;

fn functions(why: &Why, mechanism: &MechanismRow) -> Markup {
    let rows = tables::functions_of(why, mechanism, FUNCTIONS);
    let (head, rows) = rows.split_first().expect("a table has its head");
    html! {
        @if !rows.is_empty() {
            tr.functions { td colspan="8" { details {
                summary { (tables::functions_title(mechanism)) }
                div.scroll { table {
                    thead { tr { @for (column, name) in head.iter().enumerate() {
                        th.n[column > 0].path[column == 0] scope="col" { (name) }
                    } } }
                    tbody { @for row in rows { tr {
                        th.path scope="row" { (row[0]) }
                        @for cell in &row[1..] { td.n { (cell) } }
                    } } }
                } }
            } } }
        }
    }
}

/// The tables of tasks, of counters and of waits.
fn others(why: &Why) -> Markup {
    let is_drawn = |topic: &Topic| matches!(topic, Topic::Mechanisms | Topic::Functions);
    let tables = sections(why).into_iter();
    let tables = tables.filter(|section| !is_drawn(&section.topic));
    html! {
        @for section in tables {
            h4 { (capital(&section.title)) }
            (doc::html::table(&section.table))
        }
    }
}
