//! The HTML page: sections from top to bottom, all text escaped by the template.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use record::plan::Plan;
use record::rundir::Run;
use record::units::show_change;
use record::verdict::{ArmTable, Comparison, Difference, Judgement, Verdict};

use crate::chart::{self, Chart};
use crate::words;

/// What the page may load: nothing. Its own style and script stand in it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src data: blob:";

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");

/// The whole page.
pub(crate) fn page(run: &Run, judgement: &Judgement) -> String {
    let (sections, charts) = workloads(run, judgement);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="generator" content={ "bakeoff " (record::VERSION) };
                title { (run.plan.title) " - bakeoff" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    (top(run, judgement))
                    (warnings(judgement))
                    (sections)
                    (differences(judgement))
                    (failures(run))
                    (repeat(run))
                    (reading(run, judgement))
                }
                script type="application/json" id="charts" { (PreEscaped(chart::json(&charts))) }
                script { (PreEscaped(chart::library())) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

fn top(run: &Run, judgement: &Judgement) -> Markup {
    let others = run
        .plan
        .arms
        .iter()
        .filter(|arm| arm.name != run.plan.baseline);
    let others: Vec<&str> = others.map(|arm| arm.name.as_str()).collect();
    let began = run.entries.first().map_or("", |entry| entry.at.as_str());
    html! {
        header {
            h1 { (run.plan.title) }
            p.sub {
                (others.join(", ")) " against " (run.plan.baseline)
                span.dot { "·" } (words::state(run))
                @if !began.is_empty() { span.dot { "·" } time datetime=(began) { (day(began)) } }
            }
            @for comparison in words::headlines(judgement) { (headline(run, comparison)) }
            @if judgement.comparisons.is_empty() {
                div.headline.undecided { p { "Nothing measured yet, so nothing is compared." } }
            }
        }
    }
}

/// The day of a time stamp in RFC 3339, with hours and minutes.
fn day(at: &str) -> String {
    at.chars().take(16).collect::<String>().replace('T', " ") + " UTC"
}

fn headline(run: &Run, comparison: &Comparison) -> Markup {
    html! {
        div class={ "headline " (comparison.verdict.word()) } {
            p { (pill(comparison.verdict)) @if run.plan.workloads.len() > 1 {
                span.sub { " " (comparison.workload) }
            } }
            p.said { (unbroken(&words::headline(run, comparison))) "." }
            p.sub { (comparison.reason) }
        }
    }
}

/// A number stays with its percent sign.
fn unbroken(text: &str) -> String {
    text.replace(" %", "\u{a0}%")
}

fn pill(verdict: Verdict) -> Markup {
    html! { span class={ "pill " (verdict.word()) } { (verdict.word()) } }
}

fn warnings(judgement: &Judgement) -> Markup {
    html! {
        @if !judgement.warnings.is_empty() {
            section.warnings aria-label="Know before reading" {
                h2 { "Know before reading" }
                ul { @for warning in &judgement.warnings { li { (warning) } } }
            }
        }
    }
}

/// A section for each workload, and the charts that belong into them.
fn workloads(run: &Run, judgement: &Judgement) -> (Markup, Vec<Chart>) {
    let mut charts = Vec::new();
    let mut sections = Vec::new();
    for (number, workload) in run.plan.workloads.iter().enumerate() {
        let comparisons: Vec<&Comparison> = judgement
            .comparisons
            .iter()
            .filter(|one| one.workload == workload.id)
            .collect();
        let tables = words::tables_of(judgement, &workload.id);
        let mut place = |chart: Option<Chart>| {
            let placed = chart.as_ref().map(frame);
            charts.extend(chart);
            placed.unwrap_or_default()
        };
        sections.push(html! {
            section {
                h2 { "Workload " (workload.id) }
                (metrics(&run.plan, &comparisons, &tables))
                (place(chart::verdicts(run, &comparisons, number)))
                h3 { "What each arm did" }
                (arms(&run.plan, &tables))
                @if tables.iter().any(|table| table.measured > 0) {
                    h3 { "Pages served over time" }
                    (place(chart::over_time(run, &tables, number)))
                    (over_time(&tables))
                    h3 { "Block by block" }
                    (place(chart::blocks(run, &comparisons, number)))
                    (blocks(&run.plan, &comparisons))
                    h3 { "Latency" }
                    (place(chart::latency(run, &tables, number)))
                    (latency(&tables))
                }
            }
        });
    }
    (html! { @for section in sections { (section) } }, charts)
}

fn frame(chart: &Chart) -> Markup {
    html! {
        figure {
            div.chart id=(chart.id) role="img" aria-label=(chart.label) {}
            figcaption { (chart.label) "." }
        }
    }
}

fn metrics(plan: &Plan, comparisons: &[&Comparison], tables: &[&ArmTable]) -> Markup {
    let mean = |arm: &str, name: &str| {
        let table = tables.iter().find(|table| table.arm == arm);
        let figure = table?.figures.iter().find(|(spec, _)| spec.name == name);
        figure.map(|(_, value)| words::figure(*value))
    };
    let mean = |arm: &str, name: &str| mean(arm, name).unwrap_or(words::NONE.into());
    html! {
        @if !comparisons.is_empty() {
            div.scroll { table {
                thead { tr {
                    th { "metric" } th { "arm" } th { "verdict" }
                    th.n { "change" } th.n { "interval" }
                    th.n { "baseline" } th.n { "this arm" } th { "unit" } th.n { "blocks" }
                } }
                tbody { @for one in comparisons { tr {
                    th scope="row" { (words::directed(&one.spec)) }
                    td { (one.arm) }
                    td { (pill(one.verdict)) }
                    td.n { (words::change(one.ratio)) }
                    td.n { (words::interval(one)) }
                    td.n { (mean(&plan.baseline, &one.spec.name)) }
                    td.n { (mean(&one.arm, &one.spec.name)) }
                    td { (one.spec.unit) }
                    td.n { (one.blocks) }
                } } }
            } }
            details {
                summary { "Why each verdict is what it is" }
                ul { @for one in comparisons {
                    li {
                        (one.spec.name) ", " (one.arm) ": " (one.verdict.word()) ", " (one.reason)
                    }
                } }
            }
        }
    }
}

fn arms(plan: &Plan, tables: &[&ArmTable]) -> Markup {
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
fn over_time(tables: &[&ArmTable]) -> Markup {
    let mut seconds: Vec<f64> = tables
        .iter()
        .flat_map(|table| &table.over_time)
        .map(|point| point.0)
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds.dedup();
    let cell = |table: &ArmTable, second: f64| {
        let point = table
            .over_time
            .binary_search_by(|point| point.0.total_cmp(&second))
            .ok();
        point.map_or(words::NONE.into(), |index| {
            words::figure(table.over_time[index].1)
        })
    };
    html! {
        details {
            summary { "The numbers" }
            div.scroll.tall { table {
                thead { tr { th.n { "second" } @for table in tables { th.n { (table.arm) } } } }
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
    html! {
        details {
            summary { "The numbers" }
            div.scroll.tall { table {
                thead { tr {
                    th.n { "block" } th { "ran first" } th.n { (plan.baseline) } th { "arm" }
                    th.n { "arm's figure" } th.n { "change" }
                } }
                tbody { @for one in primaries() { @for pair in &one.pairs { tr {
                    th.n scope="row" { (pair.block) }
                    td { (if pair.arm_first { &one.arm } else { &plan.baseline }) }
                    td.n { (words::figure(pair.baseline)) }
                    td { (one.arm) }
                    td.n { (words::figure(pair.arm)) }
                    td.n { (show_change(pair.arm / pair.baseline)) }
                } } } }
            } }
        }
    }
}

/// The curve at each halving of the distance to 1: points that every histogram's curve has.
fn latency(tables: &[&ArmTable]) -> Markup {
    let at = |table: &ArmTable, quantile: f64| {
        let point = table
            .latency_curve
            .iter()
            .find(|(reached, _)| *reached >= quantile - 1e-12);
        point.map_or(words::NONE.into(), |(_, ms)| words::figure(*ms))
    };
    let served = tables.iter().map(|table| table.served).max().unwrap_or(0);
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

/// Kinds of facts, in the order in which they are shown; the last takes what is left.
const KINDS: [(&str, &str); 4] = [
    ("CONFIG_", "Kernel configuration"),
    ("sysctl ", "Sysctls"),
    ("boot log: ", "Boot log"),
    ("", "Other facts"),
];

fn differences(judgement: &Judgement) -> Markup {
    let (declared, others): (Vec<_>, Vec<_>) = judgement
        .differences
        .iter()
        .partition(|difference| difference.declared);
    let kind = |fact: &str| KINDS.iter().position(|(lead, _)| fact.starts_with(lead));
    html! {
        section {
            h2 { "What differed between the arms" }
            @if judgement.differences.is_empty() { p { "No fact that was collected differs." } }
            @if !declared.is_empty() {
                h3 { "Named by the plan" }
                (facts(&declared))
            }
            @if !others.is_empty() {
                h3 { "Not named by the plan" }
                p.sub { "These follow from what the plan names, or are a flaw of the comparison." }
                @for (place, (_, name)) in KINDS.iter().enumerate().rev() {
                    @let its = |one: &&&Difference| kind(&one.fact) == Some(place);
                    @let of_kind: Vec<_> = others.iter().filter(its).copied().collect();
                    @if !of_kind.is_empty() {
                        details open[of_kind.len() <= 8] {
                            summary { (name) ": " (of_kind.len()) }
                            (facts(&of_kind))
                        }
                    }
                }
            }
        }
    }
}

fn facts(differences: &[&Difference]) -> Markup {
    let arms: Vec<&String> = differences
        .iter()
        .flat_map(|one| one.values.keys())
        .collect();
    let mut arms: Vec<&String> = arms;
    arms.sort();
    arms.dedup();
    html! {
        div.scroll.tall { table.facts {
            thead { tr { th { "fact" } @for arm in &arms { th { (arm) } } } }
            tbody { @for one in differences { tr {
                th scope="row" { (one.fact) }
                @for arm in &arms { td {
                    @match one.values.get(*arm) {
                        Some(Some(value)) => { div.value { (value) } }
                        Some(None) | None => { span.sub { "absent" } }
                    }
                } }
            } } }
        } }
    }
}

fn failures(run: &Run) -> Markup {
    let failed = words::failed(run);
    html! {
        @if !failed.is_empty() {
            section {
                h2 { "Attempts without a figure" }
                @for one in failed {
                    details {
                        summary {
                            (one.trial) ", attempt " (one.attempt) ": " b { (one.kind) }
                        }
                        p { (one.detail) }
                        @if !one.console.is_empty() { pre { (one.console.join("\n")) } }
                    }
                }
            }
        }
    }
}

fn repeat(run: &Run) -> Markup {
    let opening = &run.opening;
    html! {
        section {
            h2 { "Run it again" }
            pre { "bakeoff run plan.toml      # the plan below, or plan.toml of the run directory\n"
                  "bakeoff judge RUN-DIRECTORY   # the same verdict from the same records" }
            div.scroll { table.facts { tbody {
                tr { th scope="row" { "bakeoff" } td { (opening.bakeoff) } }
                tr { th scope="row" { "machine" } td { (opening.machine) } }
                tr { th scope="row" { "question" } td { (words::mode(run)) } }
                tr { th scope="row" { "seed" } td { (run.plan.design.seed) } }
                @for arm in &run.plan.arms {
                    tr { th scope="row" { "arm " (arm.name) } td {
                        (arm.kernel)
                        @if !arm.cmdline.is_empty() { ", command line " code { (arm.cmdline) } }
                        @for (name, value) in &arm.sysctl { ", " code { (name) "=" (value) } }
                        @for (name, value) in &arm.tuning.env { ", environment " code { (name) "=" (value) } }
                        @for (name, path) in &arm.tuning.programs { ", " (name) " is " code { (path) } }
                        @if !arm.tuning.config.is_empty() { ", configuration " code { (arm.tuning.config.trim()) } }
                        @if arm.tuning.plant > 0.0 { ", planted: " (words::percent(arm.tuning.plant)) " % of every CPU taken away" }
                    } }
                }
                @for (name, hash) in &opening.inputs {
                    tr { th scope="row" { "SHA-256 of " (name) } td { code { (hash) } } }
                }
            } } }
            details { summary { "The plan" } pre { (run.plan_text) } }
            @let looks = words::looks(run);
            @if !looks.is_empty() {
                details {
                    summary { "How the verdict ripened" }
                    ol { @for look in looks { li { (look) } } }
                }
            }
        }
    }
}

fn reading(run: &Run, judgement: &Judgement) -> Markup {
    html! {
        section {
            h2 { "How to read this" }
            h3 { "Time" }
            p { (words::clock(run)) }
            h3 { "Verdicts" }
            p { (words::reading(run)) " Rule: " (judgement.rule) "." }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::play;

    /// The page without its two scripts, which are not ours to test here.
    fn text(run: &Run, judgement: &Judgement) -> String {
        let page = page(run, judgement);
        page.split("<script").next().unwrap().to_string()
    }

    #[test]
    fn hostile_text_stays_text() {
        let (run, judgement) = play::run();
        let page = page(&run, &judgement);
        assert!(!page.contains("<script>alert") && !page.contains("</pre></script>\n\""));
        assert_eq!(
            page.matches("<script").count() - chart::library().matches("<script").count(),
            3
        );
        assert!(text(&run, &judgement).contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    }

    #[test]
    fn the_page_says_what_the_judgement_says() {
        let (run, judgement) = play::run();
        let page = text(&run, &judgement);
        for comparison in words::headlines(&judgement) {
            assert!(page.contains(&unbroken(&words::headline(&run, comparison))));
        }
        for part in [
            "CONFIG_OPTION_119",
            "kernel panic",
            "connection reset",
            "Kernel configuration: 120",
        ] {
            assert!(page.contains(part), "{part} is missing");
        }
    }

    #[test]
    fn a_run_without_figures_has_a_page_without_charts() {
        let (run, judgement) = play::empty();
        let page = page(&run, &judgement);
        assert!(page.contains("Nothing measured yet"));
        assert!(!page.contains("class=\"chart\""));
    }

    #[test]
    fn the_same_run_gives_the_same_bytes() {
        let (run, judgement) = play::run();
        assert!(page(&run, &judgement) == page(&run, &judgement));
    }
}
