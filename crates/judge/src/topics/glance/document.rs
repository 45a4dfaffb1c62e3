//! The first screen of the page: main figures as bars, and the latency curves.

use doc::html::{pill, unbroken};
use maud::{Markup, html};
use record::metric::MetricSpec;
use record::rundir::Run;
use record::verdict::{ArmSummary, Comparison, Judgement};

use crate::report::chart;
use crate::report::section::frame;
use crate::topics::glance::{find, tell};
use crate::topics::loads::tell::Unit;
use crate::topics::metrics::document::tables_of;
use crate::words;

/// Main figures and latency curves of the workload with this number in the plan.
pub(crate) fn workload(run: &Run, judgement: &Judgement, number: usize) -> Markup {
    let id = &run.plan.workloads[number].id;
    let all = judgement.comparisons.iter();
    let comparisons: Vec<&Comparison> = all
        .filter(|comparison| comparison.workload == *id)
        .collect();
    let tables = tables_of(judgement, id);
    html! {
        @let figures = find::main_figures(run, &comparisons);
        @if !figures.is_empty() {
            section.tiles aria-label="Main figures" {
                @for spec in figures { (tile(run, &comparisons, &tables, spec)) }
            }
        }
        @if let Some(chart) = chart::latency(run, &tables, number) {
            div.first { (frame(&chart, &tell::latency(run, judgement, id))) }
        }
    }
}

/// One figure: a bar and a number for each arm, then the change.
fn tile(
    run: &Run,
    comparisons: &[&Comparison],
    tables: &[&ArmSummary],
    spec: &MetricSpec,
) -> Markup {
    let mean = |table: &ArmSummary| {
        let mut figures = table.figures.iter();
        let figure = figures.find(|(other, _)| other == spec)?;
        Some(figure.1)
    };
    let largest = tables
        .iter()
        .filter_map(|table| mean(table))
        .fold(0.0, f64::max);
    // Large figures have few digits.
    let fit = Unit::fit(&spec.unit, largest * 10.0);
    let unit = tell::shown(&fit, run, largest).unit;
    let of_spec: Vec<&&Comparison> = comparisons
        .iter()
        .filter(|comparison| comparison.spec == *spec)
        .collect();
    // A figure that follows from another one has no verdict of its own.
    let base = of_spec
        .first()
        .and_then(|comparison| find::follows_from(run, comparisons, comparison));
    let verdict = |arm: &str| {
        let mut rows = of_spec.iter();
        let row = rows
            .find(|comparison| comparison.arm == arm)
            .filter(|_| base.is_none());
        row.map_or("", |comparison| comparison.verdict.word())
    };
    html! {
        div.tile {
            p.what { b { (words::directed(spec)) } " " span.unit { (unit) } }
            @for table in tables { @if let Some(value) = mean(table) {
                p.duo {
                    span.name { (table.arm) } " "
                    b { (tell::shown(&fit, run, value).value) }
                    i class={ "bar " (verdict(&table.arm)) } style={ "width:" (share(value, largest)) "%" } {}
                }
            } }
            @for comparison in &of_spec {
                p.change {
                    @if of_spec.len() > 1 { (comparison.arm) " " }
                    b class=(verdict(&comparison.arm)) { (words::change_of(comparison)) }
                    @if base.is_none() { " " (pill(comparison.verdict.word())) }
                }
                @let interval = words::interval_in_words(comparison);
                @if interval != words::NONE && base.is_none() { p.sub { (unbroken(&interval)) } }
            }
            @if let Some(base) = base { p.sub { (tell::follows(&base.spec.name)) } }
        }
    }
}

/// The length of a bar in percent.
fn share(value: f64, largest: f64) -> f64 {
    if largest > 0.0 {
        (value.max(0.0) / largest * 1000.0).round() / 10.0
    } else {
        0.0
    }
}
