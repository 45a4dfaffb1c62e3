//! The page's part about one workload: what is said of it, its charts and their numbers.

use input::units::show_change;
use maud::{Markup, html};
use plan::Plan;
use record::rundir::Run;
use record::verdict::why::Why;
use record::verdict::{ArmCurve, ArmSummary, Comparison, Judgement, Scaling, Verdict};

use crate::chart::{self, Chart};
use crate::curves::{self, Unit};
use crate::headline::{headline, pill, unbroken};
use crate::words::disturbances;
use crate::{robustness, scaling, soak, why, words};

/// The section of the workload with this number in the plan.
pub(crate) fn section((run, judgement): (&Run, &Judgement), whys: &[Why], number: usize) -> Markup {
    let plan = &run.plan;
    let id = &plan.workloads[number].id;
    let its = judgement.comparisons.iter();
    let comparisons: Vec<&Comparison> = its.filter(|one| one.workload == *id).collect();
    let tables = words::tables_of(judgement, id);
    let groups = scaling::groups(judgement, id);
    let margins = chart::verdicts(run, &comparisons, number);
    let estimates = chart::estimate_history(run, &comparisons, number);
    let pages = chart::over_time(run, &tables, number);
    let each_block = chart::blocks(run, &comparisons, number);
    let latencies = chart::latency(run, &tables, number);
    let drawn = html! {
        (part("Against the margin", margins, &Markup::default()))
        (part("Estimate after each block", estimates, &measurement_noise(&comparisons)))
        @for (place, family) in curves::families(judgement, id).into_iter().enumerate() {
            @let chart = chart::curve(run, family, format!("curve-{number}-{place}"));
            @let name = words::arrowed(&family[0].typical.name, family[0].typical.direction);
            (part(&format!("Curve: {name}"), chart, &curve(family)))
        }
        (loads(&robustness::loads(judgement, &plan.baseline, id)))
        (part("Scaling", chart::cpus(run, &groups, format!("cpus-{number}")), &scaled(&groups)))
        h3 { "What each arm did" }
        (arms(plan, &tables))
        (part("Requests served over time", pages, &over_time(&tables)))
        (part("Block by block", each_block, &blocks(plan, &comparisons)))
        (part("Latency", latencies, &latency(&tables)))
    };
    html! {
        section id={ "workload-" (number) } {
            h2 { "Workload " (id) }
            @if plan.workloads.len() > 1 {
                @for one in words::headlines(run, judgement, whys) {
                    @if one.workload == id.as_str() { (headline(&one)) }
                }
            }
            (metrics(plan, &comparisons, &tables))
            (hangs_on(&robustness::table(judgement, id)))
            (soak::section(judgement, id, &plan.baseline))
            (disturbed(&disturbances::rows(judgement, id)))
            @for (place, why) in whys.iter().filter(|one| one.workload == *id).enumerate() {
                (why::section::section(why, &format!("{number}-{place}")))
            }
            (drawn)
        }
    }
}

/// A chart with its title and what belongs to it; nothing where there is nothing to draw.
fn part(title: &str, chart: Option<Chart>, rest: &Markup) -> Markup {
    html! { @if let Some(chart) = chart { h3 { (title) } (frame(&chart)) (rest) } }
}

/// Why metrics are undecided, and what would settle them.
fn open_questions(comparisons: &[&Comparison]) -> Markup {
    let open = words::undecided(comparisons);
    html! {
        @if !open.is_empty() {
            p { "Undecided, and what would settle it:" }
            ul { @for (about, reason) in open { li { b { (about) } ": " (reason) } } }
        }
    }
}

/// Noise, order effect and outliers of each metric.
fn measurement_noise(comparisons: &[&Comparison]) -> Markup {
    let rows = words::noise_rows(comparisons);
    html! {
        @if !rows.is_empty() {
            details {
                summary { "Measurement noise" }
                div.scroll { table {
                    thead { tr {
                        th { "metric" } th { "arm" } th.n { "noise of a block" }
                        th.n { "order effect" } th.n { "outliers, arm and baseline" }
                        th.n { "p of the outliers" }
                    } }
                    tbody { @for [metric, arm, noise, order_effect, outliers, p_value] in rows { tr {
                        th scope="row" { (metric) } td { (arm) } td.n { (noise) } td.n { (order_effect) }
                        td.n { (outliers) } td.n { (p_value) }
                    } } }
                } }
            }
        }
    }
}

/// What each number of CPUs did, and what that comes to.
fn scaled(groups: &[&Scaling]) -> Markup {
    if groups.is_empty() {
        return Markup::default();
    }
    let rows = scaling::rows(groups);
    let (head, steps) = rows.split_first().expect("a table has its head");
    html! {
        div.scroll { table {
            thead { tr { @for (place, cell) in head.iter().enumerate() { th.n[place > 1] { (cell) } } } }
            tbody { @for row in steps { tr {
                th scope="row" { (row[0]) } td { (row[1]) }
                @for cell in &row[2..] { td.n { (cell) } }
            } } }
        } }
        ul { @for one in scaling::sentences(groups) { li { (one) "." } } }
    }
}

/// A table of text, each cell of a card with its name on a narrow screen.
fn hangs_on(rows: &[Vec<String>]) -> Markup {
    let Some((head, rows)) = rows.split_first() else {
        return Markup::default();
    };
    html! {
        h3 { (robustness::TITLE) }
        div.scroll { table.cards.sensitivity {
            thead { tr { @for cell in head { th { (cell) } } } }
            tbody { @for row in rows { tr {
                th scope="row" { (row[0]) }
                @for (name, cell) in head.iter().zip(row).skip(1) { td data-name=(name) { (unbroken(cell)) } }
            } } }
        } }
    }
}

/// What the plan had done to the systems on purpose.
fn disturbed(rows: &[Vec<String>]) -> Markup {
    let Some((head, rows)) = rows.split_first() else {
        return Markup::default();
    };
    html! {
        h3 { (disturbances::TITLE) }
        div.scroll { table.cards.disturbed {
            thead { tr { @for cell in head { th { (cell) } } } }
            tbody { @for row in rows { tr {
                th scope="row" { (row[0]) }
                @for (name, cell) in head.iter().zip(row).skip(1) { td data-name=(name) { (cell) } }
            } } }
        } }
        p { (disturbances::NOTE) "." }
    }
}

/// At which loads which arm is better.
fn loads(all: &[(String, Vec<Vec<String>>, String)]) -> Markup {
    html! {
        @if !all.is_empty() { h3 { "Which arm at which load" } }
        @for (title, rows, sentence) in all {
            p { b { (title) } ": " (sentence) "." }
            details {
                summary { "The numbers" }
                div.scroll { table {
                    thead { tr { @for cell in &rows[0] { th.n { (cell) } } } }
                    tbody { @for row in &rows[1..] { tr {
                        th.n scope="row" { (row[0]) }
                        @for cell in &row[1..] { td.n { (cell) } }
                    } } }
                } }
            }
        }
    }
}

/// A curve in words, and its numbers.
fn curve(family: &[ArmCurve]) -> Markup {
    let rows = curves::rows(family);
    let (head, loads) = rows.split_first().expect("a table has its head");
    let sentences = curves::sentences(family);
    html! {
        @if !sentences.is_empty() { ul { @for one in sentences { li { (one) "." } } } }
        details {
            summary { "The numbers" }
            div.scroll.tall { table {
                thead { tr { @for cell in head { th.n { (cell) } } } }
                tbody { @for row in loads { tr {
                    th.n scope="row" { (row[0]) }
                    @for cell in &row[1..] { td.n { (cell) } }
                } } }
            } }
        }
    }
}

pub(crate) fn frame(chart: &Chart) -> Markup {
    html! {
        figure {
            div.chart id=(chart.id) role="img" aria-label=(chart.label) { (chart.drawn) }
            figcaption { (chart.label) "." }
        }
    }
}

fn metrics(plan: &Plan, comparisons: &[&Comparison], tables: &[&ArmSummary]) -> Markup {
    let mean = |arm: &str, name: &str| {
        let table = tables.iter().find(|table| table.arm == arm)?;
        let figure = table.figures.iter().find(|(spec, _)| spec.name == name);
        figure.map(|(_, value)| *value)
    };
    let levels = words::levels(comparisons.iter().copied());
    let row = |one: &Comparison| {
        let means = [
            mean(&plan.baseline, &one.spec.name),
            mean(&one.arm, &one.spec.name),
        ];
        let unit = Unit::fit(
            &one.spec.unit,
            means.into_iter().flatten().fold(0.0, f64::max),
        );
        let shown = |mean: Option<f64>| {
            let figure = mean.map(|mean| words::figure(mean * unit.factor));
            html! { @match figure {
                Some(figure) => { b { (figure) } " " span.unit { (unit.name) } }
                None => { (words::NONE) }
            } }
        };
        let [baseline, other] = means.map(shown);
        // On a narrow screen a row is a card, and each cell says what it is.
        html! { tr {
            th scope="row" { (words::directed(&one.spec)) }
            td { (pill(one.verdict.word())) }
            td data-name="arm" { (one.arm) }
            td.n data-name="blocks" { (one.blocks) }
            td.n data-name="change" { (words::change_of(one)) }
            td.n data-name=(levels.head()) {
                (words::interval(one))
                @if let Some(other) = levels.other(one.confidence) { div.sub { (other) " interval" } }
            }
            td.n.figure data-name="baseline" { (baseline) }
            td.n.figure data-name="this arm" { (other) }
        } }
    };
    html! {
        @if !comparisons.is_empty() {
            div.scroll { table.cards.metrics {
                thead { tr {
                    th { "metric" } th { "verdict" } th { "arm" } th.n { "blocks" }
                    th.n { "change" } th.n { (levels.head()) } th.n { "baseline" } th.n { "this arm" }
                } }
                @for (disturbance, its) in &words::disturbances::groups(plan, comparisons) {
                    tbody {
                        @if let Some(name) = disturbance {
                            tr.group { th colspan="8" { "while disturbed: " (name) } }
                        }
                        @for one in *its { (row(one)) }
                    }
                }
            } }
            @for note in words::interval_notes(comparisons) { p.sub { (note) } }
            (open_questions(comparisons))
            @let is_decided = |one: &&&Comparison| one.verdict != Verdict::Undecided;
            @let decided: Vec<_> = comparisons.iter().filter(is_decided).collect();
            @if !decided.is_empty() {
                details {
                    summary { "Why each verdict is what it is" }
                    ul { @for one in decided { li {
                        (one.spec.name) ", " (one.arm) ": " (one.verdict.word()) ", " (words::reason::reason(one))
                    } } }
                }
            }
        }
    }
}

fn arms(plan: &Plan, tables: &[&ArmSummary]) -> Markup {
    html! {
        div.scroll { table.arms {
            thead { tr { th {} @for table in tables { th.n {
                (table.arm) @if table.arm == plan.baseline { " (baseline)" }
            } } } }
            tbody { @for (name, cells) in words::arm_rows(tables) { tr {
                th.in[name.starts_with(' ')] scope="row" { (name.trim()) }
                @for cell in cells { td.n { (cell) } }
            } } }
        } }
    }
}

/// The chart's numbers: a row for each second, a column for each arm.
fn over_time(tables: &[&ArmSummary]) -> Markup {
    let seen = tables.iter().filter_map(|table| table.clients.as_ref());
    let mut seconds: Vec<f64> = seen
        .flat_map(|clients| &clients.over_time)
        .map(|point| point.0)
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds.dedup();
    let cell = |table: &ArmSummary, second: f64| {
        let over_time = &table.clients.as_ref()?.over_time;
        let index = over_time.binary_search_by(|point| point.0.total_cmp(&second));
        Some(words::figure(over_time[index.ok()?].1))
    };
    let cell = |table, second| cell(table, second).unwrap_or(words::NONE.into());
    html! {
        details {
            summary { "The numbers" }
            div.scroll.tall { table {
                thead { tr { th.n { "second" } @for table in tables {
                    th.n { (table.arm) ", requests/s" }
                } } }
                tbody { @for second in seconds { tr {
                    th.n scope="row" { (second) }
                    @for table in tables { td.n { (cell(table, second)) } }
                } } }
            } }
        }
    }
}

fn blocks(plan: &Plan, comparisons: &[&Comparison]) -> Markup {
    let primaries = || words::primaries(comparisons.iter().copied());
    let pairs = primaries().flat_map(|one| &one.pairs);
    let most = pairs.fold(0.0, |most: f64, pair| most.max(pair.baseline).max(pair.arm));
    let unit = Unit::fit(primaries().next().map_or("", |one| &one.spec.unit), most);
    html! {
        details {
            summary { "The numbers" }
            div.scroll.tall { table {
                thead { tr {
                    th.n { "block" } th { "ran first" } th.n { (plan.baseline) ", " (unit.name) }
                    th { "arm" } th.n { "arm's figure, " (unit.name) } th.n { "change" }
                } }
                tbody { @for one in primaries() { @for pair in &one.pairs { tr {
                    th.n scope="row" { (pair.block) }
                    td { (if pair.arm_first { &one.arm } else { &plan.baseline }) }
                    td.n { (words::figure(pair.baseline * unit.factor)) }
                    td { (one.arm) }
                    td.n { (words::figure(pair.arm * unit.factor)) }
                    td.n { (show_change(pair.arm / pair.baseline)) }
                } } } }
            } }
        }
    }
}

/// The curve at each halving of the distance to 1: points that every histogram's curve has.
fn latency(tables: &[&ArmSummary]) -> Markup {
    let at = |table: &ArmSummary, quantile: f64| {
        let mut curve = table.clients.as_ref()?.latency_curve.iter();
        let point = curve.find(|(reached, _)| *reached >= quantile - 1e-12)?;
        Some(words::figure(point.1))
    };
    let at = |table, quantile| at(table, quantile).unwrap_or(words::NONE.into());
    let seen = tables.iter().filter_map(|table| table.clients.as_ref());
    let served = seen.map(|clients| clients.served).max().unwrap_or(0);
    // Beyond the number of pages served a curve only repeats its largest latency.
    let halvings = 1..=served.max(2).ilog2();
    html! {
        details {
            summary { "The numbers" }
            div.scroll { table {
                thead { tr { th.n { "all but one page in" } @for table in tables {
                    th.n { (table.arm) ", ms" }
                } } }
                tbody {
                    @for halving in halvings { tr {
                        th.n scope="row" { (words::count(1u64 << halving)) }
                        @let quantile = 1.0 - 1.0 / (1u64 << halving) as f64;
                        @for table in tables { td.n { (at(table, quantile)) } }
                    } }
                    tr {
                        th.n scope="row" { "none" }
                        @for table in tables { td.n { (at(table, 1.0)) } }
                    }
                }
            } }
        }
    }
}
