//! What is told of one workload: verdicts, figures, charts and their numbers.

use base::input::units::show_change;
use doc::html::{pill, sentence};
use doc::{Block, Medium, Table};
use maud::{Markup, html};
use plan::Plan;
use record::rundir::Run;
use record::verdict::why::Why;
use record::verdict::{ArmSummary, Comparison, Judgement, Scaling, Verdict};

use crate::report::chart;
use crate::report::chart::Chart;
use crate::report::run;
use crate::topics::disturbances::tell as disturbances;
use crate::topics::loads::tell as curves;
use crate::topics::loads::tell::Unit;
use crate::topics::metrics::document;
use crate::topics::robustness::document as robustness;
use crate::topics::scaling::tell as scaling;
use crate::topics::soak::document as soak;
use crate::topics::why::document as why;
use crate::words;

/// The part of the workload with this number in the plan: a section of the page.
pub(crate) fn workload(
    of: (&Run, &Judgement),
    whys: &[Why],
    number: usize,
    medium: Medium,
) -> Vec<Block> {
    let (plan, id) = (&of.0.plan, &of.0.plan.workloads[number].id);
    if medium == Medium::Html {
        let blocks = page(of, whys, number);
        let (place, title) = (format!("workload-{number}"), format!("Workload {id}"));
        return vec![Block::Drawing(doc::html::section(&place, &title, &blocks))];
    }
    let mut blocks = Vec::new();
    if plan.workloads.len() > 1 {
        blocks.push(Block::Section(id.clone()));
    }
    blocks.extend(text(of, number, medium));
    blocks
}

/// What mails and terminals have: tables and sentences.
fn text((run, judgement): (&Run, &Judgement), number: usize, medium: Medium) -> Vec<Block> {
    let plan = &run.plan;
    let id = &plan.workloads[number].id;
    let mut blocks = Block::table(Table::new(document::metric_rows(judgement, id), 3));
    let notes = words::interval_notes(&comparisons(judgement, id)).into_iter();
    blocks.extend(notes.map(Block::Text));
    if medium == Medium::Markdown {
        blocks.extend(hangs_on(judgement, id));
    }
    blocks.extend(soak::told(judgement, id, &plan.baseline, medium));
    blocks.extend(disturbed(judgement, id));
    for family in curves::families(judgement, id) {
        let short = Table::new(curves::short_rows(family), 0);
        blocks.extend(Block::titled_table(curves::title(family), short));
        blocks.extend(Block::list(curves::sentences(family)));
    }
    for (title, rows, text) in robustness::loads(judgement, &plan.baseline, id) {
        blocks.extend(Block::titled_table(title, Table::new(rows, 2)));
        blocks.push(Block::Text(text));
    }
    let groups = scaling::groups(judgement, id);
    if !groups.is_empty() {
        blocks.extend([Block::Gap, Block::Heading(scaling::title(&groups))]);
        blocks.extend(scaled(&groups));
    }
    let arms = Table::new(document::arm_table(judgement, id), 1);
    blocks.extend(Block::table(arms));
    blocks
}

/// What the page has: the same with charts, and with all numbers folded below them.
fn page((run, judgement): (&Run, &Judgement), whys: &[Why], number: usize) -> Vec<Block> {
    let plan = &run.plan;
    let id = &plan.workloads[number].id;
    let comparisons = comparisons(judgement, id);
    let tables = document::tables_of(judgement, id);
    let mut blocks = Vec::new();
    if plan.workloads.len() > 1 {
        blocks.extend(run::headlines(run, judgement, whys, Some(id)));
    }
    blocks.push(Block::Drawing(metrics(plan, &comparisons, &tables)));
    blocks.extend(hangs_on(judgement, id));
    blocks.extend(soak::told(judgement, id, &plan.baseline, Medium::Html));
    blocks.extend(disturbed(judgement, id));
    for (place, why) in whys.iter().filter(|why| why.workload == *id).enumerate() {
        let section = why::section::section(why, &format!("{number}-{place}"));
        blocks.push(Block::Drawing(section));
    }
    let margins = chart::verdicts(run, &comparisons, number);
    blocks.extend(part("Against the margin", margins, || None));
    let estimates = chart::estimate_history(run, &comparisons, number);
    blocks.extend(part("Estimate after each block", estimates, || {
        folded("Measurement noise", noise(&comparisons))
    }));
    for (place, family) in curves::families(judgement, id).into_iter().enumerate() {
        let chart = chart::curve(run, family, format!("curve-{number}-{place}"));
        let name = words::arrowed(&family[0].typical.name, family[0].typical.direction);
        let sentences = Block::list(curves::sentences(family));
        let rows = || Table::new(curves::rows(family), 0).long();
        blocks.extend(part(&format!("Curve: {name}"), chart, || {
            sentences.into_iter().chain(numbers(rows()))
        }));
    }
    blocks.extend(loads(judgement, &plan.baseline, id));
    let groups = scaling::groups(judgement, id);
    let cpus = chart::cpus(run, &groups, format!("cpus-{number}"));
    blocks.extend(part("Scaling", cpus, || scaled(&groups)));
    blocks.push(Block::Heading("What each arm did".into()));
    blocks.push(Block::Table(arms(plan, judgement, id, &tables)));
    let pages = chart::over_time(run, &tables, number);
    blocks.extend(part("Requests served over time", pages, || {
        numbers(over_time(&tables))
    }));
    let each_block = chart::blocks(run, &comparisons, number);
    blocks.extend(part("Block by block", each_block, || {
        numbers(each(plan, &comparisons))
    }));
    let latencies = chart::latency(run, &tables, number);
    blocks.extend(part("Latency", latencies, || numbers(latency(&tables))));
    blocks
}

fn comparisons<'j>(judgement: &'j Judgement, workload: &str) -> Vec<&'j Comparison> {
    let all = judgement.comparisons.iter();
    all.filter(|comparison| comparison.workload == workload)
        .collect()
}

fn hangs_on(judgement: &Judgement, workload: &str) -> Vec<Block> {
    let table = Table::new(robustness::table(judgement, workload), usize::MAX);
    Block::titled_table(robustness::TITLE, table.cards("cards sensitivity"))
}

/// What the plan had done to the systems on purpose.
fn disturbed(judgement: &Judgement, workload: &str) -> Vec<Block> {
    let table = Table::new(disturbances::rows(judgement, workload), 3);
    let mut blocks = Block::titled_table(disturbances::TITLE, table.cards("cards disturbed"));
    if !blocks.is_empty() {
        blocks.push(Block::Text(disturbances::NOTE.into()));
    }
    blocks
}

/// A chart with its title and what belongs to it; nothing where there is nothing to draw.
fn part<B: IntoIterator<Item = Block>>(
    title: &str,
    chart: Option<Chart>,
    below: impl FnOnce() -> B,
) -> Vec<Block> {
    let Some(chart) = chart else {
        return Vec::new();
    };
    let mut blocks = vec![Block::Heading(title.into()), Block::Drawing(frame(&chart))];
    blocks.extend(below());
    blocks
}

/// The numbers of a chart.
fn numbers(table: Table) -> Option<Block> {
    folded("The numbers", table)
}

/// A table that a page shows on demand; nothing without rows.
fn folded(summary: &str, table: Table) -> Option<Block> {
    (!table.is_empty()).then(|| Block::Folded(summary.into(), vec![Block::Table(table)]))
}

pub(crate) fn frame(chart: &Chart) -> Markup {
    html! {
        figure {
            div.chart id=(chart.id) role="img" aria-label=(chart.label) { (chart.drawn) }
            figcaption { (chart.label) "." }
        }
    }
}

/// Which arm is better at which load.
fn loads(judgement: &Judgement, baseline: &str, workload: &str) -> Vec<Block> {
    let all = robustness::loads(judgement, baseline, workload);
    let mut blocks = Vec::new();
    if !all.is_empty() {
        blocks.push(Block::Heading("Which arm at which load".into()));
    }
    for (title, rows, text) in all {
        let said = html! { p { b { (title) } ": " (sentence(&text)) } };
        blocks.push(Block::Drawing(said));
        blocks.extend(numbers(Table::new(rows, 0)));
    }
    blocks
}

/// What each number of CPUs did, and what that comes to.
fn scaled(groups: &[&Scaling]) -> Vec<Block> {
    let mut blocks = vec![Block::Table(Table::new(scaling::rows(groups), 2))];
    blocks.extend(Block::list(scaling::sentences(groups)));
    blocks
}

/// What each arm did; the head says which is the baseline.
fn arms(plan: &Plan, judgement: &Judgement, workload: &str, tables: &[&ArmSummary]) -> Table {
    let mut rows = document::arm_table(judgement, workload);
    rows[0][0] = String::new();
    for (cell, table) in rows[0].iter_mut().skip(1).zip(tables) {
        if table.arm == plan.baseline {
            cell.push_str(" (baseline)");
        }
    }
    Table::new(rows, 1).cards("arms")
}

/// Noise, order effect and outliers of each metric.
fn noise(comparisons: &[&Comparison]) -> Table {
    let head = [
        "metric",
        "arm",
        "noise of a block",
        "order effect",
        "outliers, arm and baseline",
        "p of the outliers",
    ];
    let rows = document::noise_rows(comparisons).into_iter();
    Table::new(with_head(&head, rows.map(Vec::from)), 2)
}

fn with_head(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Vec<Vec<String>> {
    let head = head.iter().map(ToString::to_string).collect();
    [head].into_iter().chain(rows).collect()
}

/// A row for each second, a column for each arm.
fn over_time(tables: &[&ArmSummary]) -> Table {
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
    let row = |second: f64| by_arm(second.to_string(), tables, |table| cell(table, second));
    let head = by_arm("second".into(), tables, |table| {
        Some(format!("{}, requests/s", table.arm))
    });
    let rows = seconds.into_iter().map(row);
    Table::new([head].into_iter().chain(rows).collect(), 0).long()
}

/// A row with a cell for each arm.
fn by_arm(
    name: String,
    tables: &[&ArmSummary],
    cell: impl Fn(&ArmSummary) -> Option<String>,
) -> Vec<String> {
    let cells = tables
        .iter()
        .map(|table| cell(table).unwrap_or(words::NONE.into()));
    [name].into_iter().chain(cells).collect()
}

/// A row for each block and arm.
fn each(plan: &Plan, comparisons: &[&Comparison]) -> Table {
    let primaries = || words::primaries(comparisons.iter().copied());
    let pairs = primaries().flat_map(|one| &one.pairs);
    let most = pairs.fold(0.0, |most: f64, pair| most.max(pair.baseline).max(pair.arm));
    let unit = Unit::fit(primaries().next().map_or("", |one| &one.spec.unit), most);
    let figure = |value: f64| words::figure(value * unit.factor);
    let rows = primaries().flat_map(|compared| {
        compared.pairs.iter().map(|pair| {
            let first = if pair.arm_first {
                &compared.arm
            } else {
                &plan.baseline
            };
            vec![
                pair.block.to_string(),
                first.clone(),
                compared.arm.clone(),
                figure(pair.baseline),
                figure(pair.arm),
                show_change(pair.arm / pair.baseline),
            ]
        })
    });
    let head = [
        "block",
        "ran first",
        "arm",
        &format!("{}, {}", plan.baseline, unit.name),
        &format!("arm's figure, {}", unit.name),
        "change",
    ];
    Table::new(with_head(&head, rows), 3).long()
}

/// The curve at each halving of the distance to 1: points that every histogram's curve has.
fn latency(tables: &[&ArmSummary]) -> Table {
    let at = |table: &ArmSummary, quantile: f64| {
        let mut curve = table.clients.as_ref()?.latency_curve.iter();
        let point = curve.find(|(reached, _)| *reached >= quantile - 1e-12)?;
        Some(words::figure(point.1))
    };
    let seen = tables.iter().filter_map(|table| table.clients.as_ref());
    let served = seen.map(|clients| clients.served).max().unwrap_or(0);
    // Beyond the number of pages served a curve only repeats its largest latency.
    let halvings = 1..=served.max(2).ilog2();
    let row = |halving: u32| {
        let pages = 1u64 << halving;
        let quantile = 1.0 - 1.0 / pages as f64;
        by_arm(words::count(pages), tables, |table| at(table, quantile))
    };
    let head = by_arm("all but one page in".into(), tables, |table| {
        Some(format!("{}, ms", table.arm))
    });
    let last = by_arm("none".into(), tables, |table| at(table, 1.0));
    let rows = [head].into_iter().chain(halvings.map(row)).chain([last]);
    Table::new(rows.collect(), 0)
}

/// Why metrics are undecided, and what would settle them.
fn open_questions(comparisons: &[&Comparison]) -> Markup {
    let open = document::undecided(comparisons);
    html! {
        @if !open.is_empty() {
            p { "Undecided, and what would settle it:" }
            ul { @for (about, reason) in open { li { b { (about) } ": " (reason) } } }
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
                @for (disturbance, its) in &crate::topics::disturbances::tell::groups(plan, comparisons) {
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
                        (one.spec.name) ", " (one.arm) ": " (one.verdict.word()) ", " (crate::topics::metrics::tell::reason(one))
                    } } }
                }
            }
        }
    }
}
