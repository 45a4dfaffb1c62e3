//! The section of one workload: verdicts, figures, charts and their numbers.

use base::input::units::show_change;
use doc::html::{pill, sentence, unbroken};
use doc::{Block, Medium, Table};
use maud::{Markup, html};
use plan::Plan;
use record::rundir::Run;
use record::verdict::why::Why;
use record::verdict::{ArmSummary, Comparison, Judgement, Scaling, Verdict};

use crate::report::chart::{self, Chart};
use crate::report::run;
use crate::topics::disturbances::tell as disturbances_tell;
use crate::topics::glance::find::{self as glance, GROUPS, group, latency_at};
use crate::topics::glance::{document as glance_document, tell as glance_tell};
use crate::topics::loads::tell::{self as loads_tell, Unit};
use crate::topics::metrics::document;
use crate::topics::metrics::tell::reason;
use crate::topics::robustness::document as robustness_document;
use crate::topics::scaling::tell as scaling_tell;
use crate::topics::soak::document as soak_document;
use crate::topics::why::document::section::section as why_section;
use crate::words;
use crate::words::levels::Levels;

/// The part of the workload with this number in the plan: a section of the page.
pub(crate) fn workload(
    run: &Run,
    judgement: &Judgement,
    whys: &[Why],
    number: usize,
    medium: Medium,
) -> Vec<Block> {
    let (plan, id) = (&run.plan, &run.plan.workloads[number].id);
    if medium == Medium::Html {
        let blocks = page(run, judgement, whys, number);
        let (anchor, title) = (format!("workload-{number}"), format!("Workload {id}"));
        return vec![Block::Drawing(doc::html::section(&anchor, &title, &blocks))];
    }
    let mut blocks = Vec::new();
    if plan.workloads.len() > 1 {
        blocks.push(Block::Section(id.clone()));
    }
    blocks.extend(text(run, judgement, number, medium));
    blocks
}

/// Tables and sentences for mails and terminals.
fn text(run: &Run, judgement: &Judgement, number: usize, medium: Medium) -> Vec<Block> {
    let plan = &run.plan;
    let id = &plan.workloads[number].id;
    let mut blocks = Block::table(Table::new(document::metric_rows(judgement, id), 3));
    let notes = words::interval_notes(&comparisons(judgement, id)).into_iter();
    blocks.extend(notes.map(Block::Text));
    if medium == Medium::Markdown {
        blocks.extend(sensitivity(judgement, id));
    }
    blocks.extend(soak_document::blocks(judgement, id, &plan.baseline, medium));
    blocks.extend(disturbed(judgement, id));
    for family in loads_tell::families(judgement, id) {
        let short = Table::new(loads_tell::short_rows(family), 0);
        blocks.extend(Block::titled_table(loads_tell::title(family), short));
        blocks.extend(Block::list(loads_tell::sentences(family)));
    }
    for (title, rows, text) in robustness_document::loads(judgement, &plan.baseline, id) {
        blocks.extend(Block::titled_table(title, Table::new(rows, 2)));
        blocks.push(Block::Text(text));
    }
    let groups = scaling_tell::groups(judgement, id);
    if !groups.is_empty() {
        blocks.extend([Block::Gap, Block::Heading(scaling_tell::title(&groups))]);
        blocks.extend(scaled(&groups));
    }
    let arms = Table::new(document::arm_table(judgement, id), 1);
    blocks.extend(Block::table(arms));
    blocks
}

/// Blocks of the page: also charts, with all numbers folded below them.
fn page(run: &Run, judgement: &Judgement, whys: &[Why], number: usize) -> Vec<Block> {
    let plan = &run.plan;
    let id = &plan.workloads[number].id;
    let comparisons = comparisons(judgement, id);
    let tables = document::tables_of(judgement, id);
    let mut blocks = Vec::new();
    if plan.workloads.len() > 1 {
        blocks.extend(run::headlines(run, judgement, whys, Some(id)));
        blocks.push(Block::Drawing(glance_document::workload(
            run, judgement, number,
        )));
    }
    blocks.push(Block::Drawing(metrics(run, &comparisons, &tables)));
    blocks.extend(sensitivity(judgement, id));
    blocks.extend(soak_document::blocks(
        judgement,
        id,
        &plan.baseline,
        Medium::Html,
    ));
    blocks.extend(disturbed(judgement, id));
    for (index, why) in whys.iter().filter(|why| why.workload == *id).enumerate() {
        let section = why_section(why, &format!("{number}-{index}"));
        blocks.push(Block::Drawing(section));
    }
    let primaries: Vec<&Comparison> = words::primaries(comparisons.iter().copied()).collect();
    let is_news =
        |comparison: &&Comparison| glance::follows_from(run, &comparisons, comparison).is_none();
    let news: Vec<&Comparison> = comparisons.iter().copied().filter(is_news).collect();
    let margins = chart::verdicts(run, &news, number);
    let finding = glance_tell::largest(&news);
    blocks.extend(part("Against the margin", margins, &finding, || None));
    let estimates = chart::estimate_history(run, &comparisons, number);
    let finding = glance_tell::decisions(&primaries);
    blocks.extend(part(
        "Estimate after each block",
        estimates,
        &finding,
        || folded("Measurement noise", noise(&comparisons)),
    ));
    for (index, family) in loads_tell::families(judgement, id).into_iter().enumerate() {
        let chart = chart::curve(run, family, format!("curve-{number}-{index}"));
        let name = words::arrowed(&family[0].typical.name, family[0].typical.direction);
        let sentences = Block::list(loads_tell::sentences(family));
        let rows = || Table::new(loads_tell::rows(family), 0).long();
        blocks.extend(part(&format!("Curve: {name}"), chart, "", || {
            sentences.into_iter().chain(numbers(rows()))
        }));
    }
    blocks.extend(loads(judgement, &plan.baseline, id));
    let groups = scaling_tell::groups(judgement, id);
    let cpus = chart::cpus(run, &groups, format!("cpus-{number}"));
    blocks.extend(part("Scaling", cpus, "", || scaled(&groups)));
    blocks.push(Block::Heading("What each arm did".into()));
    blocks.push(Block::Table(arms(run, judgement, id, &tables)));
    blocks.extend(folded(
        "Latency by share of requests",
        latency(run, &tables),
    ));
    let requests = chart::over_time(run, &tables, number);
    blocks.extend(part("Requests served over time", requests, "", || {
        numbers(over_time(&tables))
    }));
    let by_block = chart::blocks(run, &comparisons, number);
    let finding = glance_tell::blocks(&primaries);
    blocks.extend(part("Block by block", by_block, &finding, || {
        numbers(block_table(plan, &comparisons))
    }));
    blocks
}

fn comparisons<'j>(judgement: &'j Judgement, workload: &str) -> Vec<&'j Comparison> {
    let all = judgement.comparisons.iter();
    all.filter(|comparison| comparison.workload == workload)
        .collect()
}

fn sensitivity(judgement: &Judgement, workload: &str) -> Vec<Block> {
    let table = Table::new(robustness_document::table(judgement, workload), usize::MAX);
    Block::titled_table(robustness_document::TITLE, table.cards("cards sensitivity"))
}

/// Planned disturbances.
fn disturbed(judgement: &Judgement, workload: &str) -> Vec<Block> {
    let table = Table::new(disturbances_tell::rows(judgement, workload), 3);
    let mut blocks = Block::titled_table(disturbances_tell::TITLE, table.cards("cards disturbed"));
    if !blocks.is_empty() {
        blocks.push(Block::Text(disturbances_tell::NOTE.into()));
    }
    blocks
}

/// A chart with its title, what it shows, and the blocks below it; empty without a chart.
fn part<B: IntoIterator<Item = Block>>(
    title: &str,
    chart: Option<Chart>,
    finding: &str,
    below: impl FnOnce() -> B,
) -> Vec<Block> {
    let Some(chart) = chart else {
        return Vec::new();
    };
    let mut blocks = vec![
        Block::Heading(title.into()),
        Block::Drawing(frame(&chart, finding)),
    ];
    blocks.extend(below());
    blocks
}

/// The numbers of a chart.
fn numbers(table: Table) -> Option<Block> {
    folded("The numbers", table)
}

/// A table that the page shows on demand; `None` without rows.
fn folded(summary: &str, table: Table) -> Option<Block> {
    (!table.is_empty()).then(|| Block::Folded(summary.into(), vec![Block::Table(table)]))
}

/// A chart with its caption: what it shows in this run, then what is drawn.
pub(crate) fn frame(chart: &Chart, finding: &str) -> Markup {
    html! {
        figure {
            @if !finding.is_empty() { figcaption.finding { b { (unbroken(finding)) } " " (chart.label) "." } }
            div.chart id=(chart.id) role="img" aria-label=(chart.label) { (chart.drawn) }
            @if finding.is_empty() { figcaption { (chart.label) "." } }
        }
    }
}

/// Which arm is better at each load.
fn loads(judgement: &Judgement, baseline: &str, workload: &str) -> Vec<Block> {
    let all = robustness_document::loads(judgement, baseline, workload);
    let mut blocks = Vec::new();
    if !all.is_empty() {
        blocks.push(Block::Heading("Which arm at which load".into()));
    }
    for (title, rows, text) in all {
        let paragraph = html! { p { b { (title) } ": " (sentence(&text)) } };
        blocks.push(Block::Drawing(paragraph));
        blocks.extend(numbers(Table::new(rows, 0)));
    }
    blocks
}

/// The figures of each number of CPUs, and the fitted law.
fn scaled(groups: &[&Scaling]) -> Vec<Block> {
    let mut blocks = vec![Block::Table(Table::new(scaling_tell::rows(groups), 2))];
    blocks.extend(Block::list(scaling_tell::sentences(groups)));
    blocks
}

/// The table of arms; its head marks the baseline.
fn arms(run: &Run, judgement: &Judgement, workload: &str, tables: &[&ArmSummary]) -> Table {
    let mut rows = document::arm_table(judgement, workload);
    rows[0][0] = String::new();
    for (cell, table) in rows[0].iter_mut().skip(1).zip(tables) {
        if table.arm == run.plan.baseline {
            cell.push_str(" (baseline)");
        }
    }
    let ms = glance_tell::unit(run, "ms");
    for cell in rows.iter_mut().flatten() {
        if let Some(time) = cell.strip_suffix(" ms") {
            *cell = format!("{time} {ms}");
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
    let clients = tables.iter().filter_map(|table| table.clients.as_ref());
    let mut seconds: Vec<f64> = clients
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

/// A row with a name and a cell for each arm.
fn by_arm(
    name: String,
    tables: &[&ArmSummary],
    cell: impl Fn(&ArmSummary) -> Option<String>,
) -> Vec<String> {
    let mut row = vec![name];
    for table in tables {
        row.push(cell(table).unwrap_or(words::NONE.into()));
    }
    row
}

/// A row for each block and arm.
fn block_table(plan: &Plan, comparisons: &[&Comparison]) -> Table {
    let primaries: Vec<&Comparison> = words::primaries(comparisons.iter().copied()).collect();
    let pairs = primaries.iter().flat_map(|comparison| &comparison.pairs);
    let most = pairs.fold(0.0, |most: f64, pair| most.max(pair.baseline).max(pair.arm));
    let unit = primaries.first().map_or("", |primary| &primary.spec.unit);
    let unit = Unit::fit(unit, most);
    let figure = |value: f64| words::figure(value * unit.factor);
    let mut rows = Vec::new();
    for Comparison { arm, pairs, .. } in primaries {
        for pair in pairs {
            let first = if pair.arm_first { arm } else { &plan.baseline };
            rows.push(vec![
                pair.block.to_string(),
                first.clone(),
                arm.clone(),
                figure(pair.baseline),
                figure(pair.arm),
                show_change(pair.arm / pair.baseline),
            ]);
        }
    }
    let head = [
        "block",
        "ran first",
        "arm",
        &format!("{}, {}", plan.baseline, unit.name),
        &format!("arm's figure, {}", unit.name),
        "change",
    ];
    Table::new(with_head(&head, rows.into_iter()), 3).long()
}

/// Latencies at quantiles whose distance to 1 is halved from row to row: every histogram's curve has these points.
fn latency(run: &Run, tables: &[&ArmSummary]) -> Table {
    let at = |table: &ArmSummary, quantile: f64| {
        let latency_ms = latency_at(table.clients.as_ref()?, quantile)?;
        Some(words::figure(latency_ms))
    };
    let clients = tables.iter().filter_map(|table| table.clients.as_ref());
    let Some(served) = clients.map(|clients| clients.served).max() else {
        return Table::new(Vec::new(), 0);
    };
    // Beyond the number of pages served, a curve only repeats its largest latency.
    let halvings = 1..=served.max(2).ilog2();
    let row = |halving: u32| {
        let pages = 1u64 << halving;
        let quantile = 1.0 - 1.0 / pages as f64;
        by_arm(words::count(pages), tables, |table| at(table, quantile))
    };
    let ms = glance_tell::unit(run, "ms");
    let head = by_arm("all but one request in".into(), tables, |table| {
        Some(format!("{}, {ms}", table.arm))
    });
    let last = by_arm("none".into(), tables, |table| at(table, 1.0));
    let rows = [head].into_iter().chain(halvings.map(row)).chain([last]);
    Table::new(rows.collect(), 0)
}

/// Why metrics are undecided, and what would decide them.
fn open_questions(comparisons: &[&Comparison]) -> Markup {
    let open = document::undecided(comparisons);
    html! {
        @if !open.is_empty() {
            p { "Undecided, and what would decide it:" }
            ul { @for (about, reason) in open { li { b { (about) } ": " (reason) } } }
        }
    }
}

/// The table of metrics by group, and reasons of the verdicts.
fn metrics(run: &Run, comparisons: &[&Comparison], tables: &[&ArmSummary]) -> Markup {
    let columns = Columns::of(run, comparisons);
    let base_of = |comparison: &Comparison| glance::follows_from(run, comparisons, comparison);
    let news: Vec<&Comparison> = comparisons
        .iter()
        .copied()
        .filter(|comparison| base_of(comparison).is_none())
        .collect();
    let rows = |base: &Comparison| {
        let is_its = |comparison: &&&Comparison| {
            base_of(comparison).is_some_and(|other| std::ptr::eq(other, base))
        };
        let derived: Vec<&Comparison> = comparisons.iter().filter(is_its).copied().collect();
        html! { (row(run, &columns, tables, base)) (follow(run, tables, base, &derived)) }
    };
    html! {
        @if !comparisons.is_empty() {
            div.scroll { table.cards.metrics {
                caption { (glance_tell::verdicts(run, &news)) }
                thead { tr {
                    th scope="col" { "metric" } th scope="col" { "verdict" }
                    @if columns.has_several_arms { th scope="col" { "arm" } }
                    th.n scope="col" { "blocks" } th.n scope="col" { "change" } th.n scope="col" { (columns.levels.head()) }
                    th.n scope="col" { (columns.baseline) } th.n scope="col" { (columns.arm) }
                } }
                @for (disturbance, of_disturbance) in &disturbances_tell::groups(&run.plan, &news) {
                    @if let Some(name) = disturbance {
                        tbody {
                            tr.group { th colspan="8" scope="rowgroup" { "while disturbed: " (name) } }
                            @for comparison in *of_disturbance { (rows(comparison)) }
                        }
                    } @else {
                        @for kind in GROUPS {
                            @let in_group = |comparison: &&&Comparison| group(&comparison.spec) == kind;
                            @let in_group: Vec<_> = of_disturbance.iter().filter(in_group).collect();
                            @if !in_group.is_empty() { tbody {
                                tr.group { th colspan="8" scope="rowgroup" { (glance_tell::group(kind)) } }
                                @for comparison in in_group { (rows(comparison)) }
                            } }
                        }
                    }
                }
            } }
            @for note in words::interval_notes(comparisons) { p.sub { (note) } }
            (open_questions(&news))
            @let is_decided = |comparison: &&&Comparison| comparison.verdict != Verdict::Undecided;
            @let decided: Vec<_> = news.iter().filter(is_decided).collect();
            @if !decided.is_empty() {
                details {
                    summary { "Why each verdict is what it is" }
                    ul { @for decided in decided { li {
                        (decided.spec.name) ", " (decided.arm) ": " (decided.verdict.word()) ", " (reason(decided))
                    } } }
                }
            }
        }
    }
}

/// Means of baseline and arm in a unit that fits both, as numbers and the unit.
fn means(
    run: &Run,
    tables: &[&ArmSummary],
    comparison: &Comparison,
) -> ([Option<String>; 2], String) {
    let means = [&run.plan.baseline, &comparison.arm].map(|arm| {
        let table = tables.iter().find(|table| table.arm == *arm)?;
        let mut figures = table.figures.iter();
        let figure = figures.find(|(spec, _)| spec.name == comparison.spec.name)?;
        Some(figure.1)
    });
    let largest = means.into_iter().flatten().fold(0.0, f64::max);
    let unit = match Unit::fit(&comparison.spec.unit, largest * 10.0) {
        share if share.name == "share" => Unit {
            name: "%".into(),
            factor: 100.0,
        },
        unit => unit,
    };
    let shown = means.map(|mean| Some(words::figure(mean? * unit.factor)));
    (shown, glance_tell::unit(run, &unit.name))
}

/// Names of the columns. A table of a single arm names it in the head instead of every row.
struct Columns<'r> {
    levels: Levels,
    has_several_arms: bool,
    baseline: &'r str,
    arm: &'r str,
}

impl<'r> Columns<'r> {
    fn of(run: &'r Run, comparisons: &[&Comparison]) -> Self {
        let mut others = run
            .plan
            .arms
            .iter()
            .filter(|arm| arm.name != run.plan.baseline);
        let (first, second) = (others.next(), others.next());
        let (baseline, arm) = match (first, second) {
            (Some(arm), None) => (run.plan.baseline.as_str(), arm.name.as_str()),
            (_, _) => ("baseline", "this arm"),
        };
        Self {
            levels: words::levels(comparisons.iter().copied()),
            has_several_arms: second.is_some(),
            baseline,
            arm,
        }
    }
}

/// A row of the table of metrics. On a narrow screen it is a card, and each cell shows its data-name.
fn row(
    run: &Run,
    columns: &Columns<'_>,
    tables: &[&ArmSummary],
    comparison: &Comparison,
) -> Markup {
    let levels = &columns.levels;
    let (means, unit) = means(run, tables, comparison);
    let [baseline, other] = means.map(|mean| {
        html! { @match mean {
            Some(figure) => { b { (figure) } " " span.unit { (unit) } }
            None => { (words::NONE) }
        } }
    });
    html! { tr {
        th scope="row" { (words::directed(&comparison.spec)) }
        td { (pill(comparison.verdict.word())) }
        @if columns.has_several_arms { td data-name="arm" { (comparison.arm) } }
        td.n data-name="blocks" { (comparison.blocks) }
        td.n data-name="change" { (words::change_of(comparison)) }
        td.n data-name=(levels.head()) {
            (words::interval(comparison))
            @if let Some(other) = levels.other(comparison.confidence) { div.sub { (other) " interval" } }
        }
        td.n.figure data-name=(columns.baseline) { (baseline) }
        td.n.figure data-name=(columns.arm) { (other) }
    } }
}

/// Metrics that follow from this one, folded below its row.
fn follow(run: &Run, tables: &[&ArmSummary], base: &Comparison, derived: &[&Comparison]) -> Markup {
    let names: Vec<String> = derived
        .iter()
        .map(|comparison| words::directed(&comparison.spec))
        .collect();
    html! {
        @if !derived.is_empty() {
            tr.follow { td colspan="8" { details {
                summary { (glance_tell::follow(&base.spec.name, &names)) }
                p.sub { (glance_tell::WHY_FOLLOW) }
                ul { @for comparison in derived {
                    @let ([baseline, other], unit) = means(run, tables, comparison);
                    @let [baseline, other] = [baseline, other].map(|mean| mean.unwrap_or(words::NONE.into()));
                    li {
                        (words::directed(&comparison.spec)) ": " (baseline) " to " (other) " " (unit) ", "
                        (words::change_of(comparison)) " " (words::interval_in_words(comparison))
                    }
                } }
            } } }
        }
    }
}
