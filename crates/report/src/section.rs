//! What is told of one workload: verdicts, figures, charts and their numbers.

use doc::html::{pill, sentence};
use doc::{Block, Medium, Table};
use input::units::show_change;
use maud::{Markup, html};
use plan::Plan;
use record::rundir::Run;
use record::verdict::why::Why;
use record::verdict::{ArmSummary, Comparison, Judgement, Verdict};

use crate::chart::{self, Chart};
use crate::curves::{self, Unit};
use crate::words::disturbances;
use crate::{robustness, run, scaling, soak, why, words};

/// Media with a table of what headlines hang on.
const TABLES: &[Medium] = &[Medium::Markdown, Medium::Html];

/// The part of the workload with this number in the plan: a section of the page.
pub(crate) fn workload(of: (&Run, &Judgement), whys: &[Why], number: usize) -> Vec<Block> {
    let (plan, id) = (&of.0.plan, &of.0.plan.workloads[number].id);
    let blocks = told(of, whys, number);
    let page = doc::html::section(
        &format!("workload-{number}"),
        &format!("Workload {id}"),
        &blocks,
    );
    let mut text = Vec::new();
    if plan.workloads.len() > 1 {
        text.push(Block::Section(id.clone()));
    }
    text.extend(blocks);
    vec![
        Block::Only(Medium::PAGE, vec![Block::Drawing(page)]),
        Block::Only(Medium::TEXT, text),
    ]
}

fn told((run, judgement): (&Run, &Judgement), whys: &[Why], number: usize) -> Vec<Block> {
    let plan = &run.plan;
    let id = &plan.workloads[number].id;
    let comparisons = judgement.comparisons.iter();
    let comparisons: Vec<&Comparison> = comparisons.filter(|one| one.workload == *id).collect();
    let tables = words::tables_of(judgement, id);
    let mut blocks = Vec::new();
    if plan.workloads.len() > 1 {
        let headlines = run::headlines(run, judgement, whys, Some(id));
        blocks.push(Block::Only(Medium::PAGE, headlines));
    }
    let drawn = Block::Drawing(metrics(plan, &comparisons, &tables));
    blocks.push(Block::Only(Medium::PAGE, vec![drawn]));
    blocks.push(Block::Only(
        Medium::TEXT,
        metric_table(judgement, id, &comparisons),
    ));
    let hangs_on = Table::new(robustness::table(judgement, id), usize::MAX);
    blocks.push(Block::Only(
        TABLES,
        Block::titled_table(robustness::TITLE, hangs_on.cards("cards sensitivity")),
    ));
    blocks.extend(soak::told(judgement, id, &plan.baseline));
    let disturbed = Table::new(disturbances::rows(judgement, id), 3);
    if !disturbed.is_empty() {
        let disturbed = disturbed.cards("cards disturbed");
        blocks.extend(Block::titled_table(disturbances::TITLE, disturbed));
        blocks.push(Block::Text(disturbances::NOTE.into()));
    }
    for (place, why) in whys.iter().filter(|why| why.workload == *id).enumerate() {
        let section = why::section::section(why, &format!("{number}-{place}"));
        blocks.push(Block::Drawing(section));
    }
    let margins = chart::verdicts(run, &comparisons, number);
    blocks.extend(part("Against the margin", margins));
    let estimates = chart::estimate_history(run, &comparisons, number);
    if let Some(estimates) = estimates {
        blocks.extend(part("Estimate after each block", Some(estimates)));
        blocks.extend(folded("Measurement noise", noise(&comparisons)));
    }
    blocks.extend(curve_blocks(run, judgement, number));
    blocks.extend(loads(judgement, &plan.baseline, id));
    blocks.extend(scaled(run, judgement, number));
    blocks.extend(arms(plan, judgement, id, &tables));
    let pages = chart::over_time(run, &tables, number);
    blocks.extend(with_numbers("Requests served over time", pages, || {
        over_time(&tables)
    }));
    let each_block = chart::blocks(run, &comparisons, number);
    blocks.extend(with_numbers("Block by block", each_block, || {
        each(plan, &comparisons)
    }));
    let latencies = chart::latency(run, &tables, number);
    blocks.extend(with_numbers("Latency", latencies, || latency(&tables)));
    blocks
}

/// A chart with its title; nothing where there is nothing to draw.
fn part(title: &str, chart: Option<Chart>) -> Vec<Block> {
    let Some(chart) = chart else {
        return Vec::new();
    };
    let drawing = Block::Drawing(frame(&chart));
    vec![Block::Only(
        Medium::PAGE,
        vec![Block::Heading(title.into()), drawing],
    )]
}

/// The same with the chart's numbers.
fn with_numbers(title: &str, chart: Option<Chart>, numbers: impl Fn() -> Table) -> Vec<Block> {
    let mut blocks = part(title, chart);
    if !blocks.is_empty() {
        blocks.extend(folded("The numbers", numbers()));
    }
    blocks
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

fn metric_table(judgement: &Judgement, workload: &str, comparisons: &[&Comparison]) -> Vec<Block> {
    let mut blocks = Block::table(Table::new(words::metric_rows(judgement, workload), 3));
    let notes = words::interval_notes(comparisons).into_iter();
    blocks.extend(notes.map(Block::Text));
    blocks
}

/// Figures against the load: a chart in the page, a short table elsewhere, and what they say.
fn curve_blocks(run: &Run, judgement: &Judgement, number: usize) -> Vec<Block> {
    let mut blocks = Vec::new();
    let families = curves::families(judgement, &run.plan.workloads[number].id);
    for (place, family) in families.into_iter().enumerate() {
        let chart = chart::curve(run, family, format!("curve-{number}-{place}"));
        let is_drawn = chart.is_some();
        let name = words::arrowed(&family[0].typical.name, family[0].typical.direction);
        blocks.extend(part(&format!("Curve: {name}"), chart));
        let short = Table::new(curves::short_rows(family), 0);
        let titled = Block::titled_table(curves::title(family), short);
        blocks.push(Block::Only(Medium::TEXT, titled));
        let sentences: Vec<Block> = Block::list(curves::sentences(family)).into_iter().collect();
        let media = if is_drawn { ALL } else { Medium::TEXT };
        blocks.push(Block::Only(media, sentences));
        let rows = Table::new(curves::rows(family), 0).long();
        blocks.extend(folded("The numbers", rows).filter(|_| is_drawn));
    }
    blocks
}

const ALL: &[Medium] = &[Medium::Terminal, Medium::Markdown, Medium::Html];

/// Which arm is better at which load.
fn loads(judgement: &Judgement, baseline: &str, workload: &str) -> Vec<Block> {
    let all = robustness::loads(judgement, baseline, workload);
    let mut blocks = Vec::new();
    if !all.is_empty() {
        let title = Block::Heading("Which arm at which load".into());
        blocks.push(Block::Only(Medium::PAGE, vec![title]));
    }
    for (title, rows, text) in all {
        let said = html! { p { b { (title) } ": " (sentence(&text)) } };
        let numbers = folded("The numbers", Table::new(rows.clone(), 0));
        let page = [Some(Block::Drawing(said)), numbers];
        blocks.push(Block::Only(
            Medium::PAGE,
            page.into_iter().flatten().collect(),
        ));
        let mut lines = Block::titled_table(title, Table::new(rows, 2));
        lines.push(Block::Text(text));
        blocks.push(Block::Only(Medium::TEXT, lines));
    }
    blocks
}

/// What each number of CPUs did, and what that comes to.
fn scaled(run: &Run, judgement: &Judgement, number: usize) -> Vec<Block> {
    let groups = scaling::groups(judgement, &run.plan.workloads[number].id);
    if groups.is_empty() {
        return Vec::new();
    }
    let mut blocks = part(
        "Scaling",
        chart::cpus(run, &groups, format!("cpus-{number}")),
    );
    let title = Block::Heading(scaling::title(&groups));
    blocks.push(Block::Only(Medium::TEXT, vec![Block::Gap, title]));
    blocks.push(Block::Table(Table::new(scaling::rows(&groups), 2)));
    blocks.extend(Block::list(scaling::sentences(&groups)));
    blocks
}

/// What each arm did, with its name in the head.
fn arms(plan: &Plan, judgement: &Judgement, workload: &str, tables: &[&ArmSummary]) -> Vec<Block> {
    let rows = words::arm_table(judgement, workload);
    let mut page = rows.clone();
    page[0][0] = String::new();
    for (cell, table) in page[0].iter_mut().skip(1).zip(tables) {
        if table.arm == plan.baseline {
            cell.push_str(" (baseline)");
        }
    }
    let page = Table::new(page, 1).cards("arms");
    vec![
        Block::Only(
            Medium::PAGE,
            vec![
                Block::Heading("What each arm did".into()),
                Block::Table(page),
            ],
        ),
        Block::Only(Medium::TEXT, Block::table(Table::new(rows, 1))),
    ]
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
    let rows = words::noise_rows(comparisons).into_iter();
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
    let open = words::undecided(comparisons);
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
