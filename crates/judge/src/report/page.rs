//! The HTML page, section by section; the templates escape all text.

use std::collections::BTreeSet;

use doc::html::{Page, pill};
use doc::{Block, Table};
use maud::{Markup, PreEscaped, html};
use record::rundir::Run;
use record::verdict::weighed::Weight;
use record::verdict::why::Why;
use record::verdict::{Difference, Judgement};

use crate::report::chart;
use crate::topics::overview::tell as overview_tell;
use crate::topics::why::document::tree;
use crate::topics::{defects, differences, disclosure, fairness, host, run_state};
use crate::words;
use crate::words::levels::Levels;

/// The content security policy: the page loads nothing, and its style is inline.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

const STYLE: &str = include_str!("style.css");

/// The page of a run. Only pages with explanations have a script, for call trees.
pub(crate) fn run(title: &str, whys: &[Why], body: &Markup) -> String {
    let policy = match whys {
        [] => POLICY.to_string(),
        _ => format!("{POLICY}; script-src '{}'", tree::script_hash()),
    };
    let body = html! {
        main { (body) }
        @if !whys.is_empty() { script { (PreEscaped(tree::SCRIPT)) } }
    };
    whole(title, &policy, &body)
}

/// A page of sections without a script.
pub(crate) fn plain(title: &str, sections: &Markup) -> String {
    whole(title, POLICY, &html! { main { (sections) } })
}

fn whole(title: &str, policy: &str, body: &Markup) -> String {
    let page = Page {
        title,
        policy,
        style: STYLE,
        generator: &format!("bakeoff {}", record::VERSION),
        body: html! { (chart::shapes()) (body) },
    };
    page.finish()
}

/// Title and state, then the blocks of `top`.
pub(crate) fn header(run: &Run, judgement: &Judgement, top: &[Block]) -> Markup {
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
                span.dot { "·" } (run_state::tell::state(run, judgement))
                @if !began.is_empty() { span.dot { "·" } time datetime=(began) { (day(began)) } }
            }
            (doc::html::render(top))
        }
    }
}

/// The day of a time stamp in RFC 3339, with hours and minutes.
pub(crate) fn day(at: &str) -> String {
    at.chars().take(16).collect::<String>().replace('T', " ") + " UTC"
}

/// Workload by arm, with the change of each and its interval.
pub(crate) fn overview(run: &Run, judgement: &Judgement) -> Markup {
    let others = || {
        let arms = run.plan.arms.iter();
        arms.filter(|arm| arm.name != run.plan.baseline)
    };
    let rows = overview_tell::rows(run, judgement);
    let levels = overview_tell::levels(&rows);
    let against_baseline = overview_tell::against(&run.plan.baseline, &levels);
    html! {
        div.scroll { table.cards.overview {
            thead { tr {
                th { "workload" } th { "figure" } th.n { (run.plan.baseline) }
                @for arm in others() { th.n { (arm.name) } th { "against " (run.plan.baseline) div.sub { (levels.head()) } } }
            } }
            tbody { @for (number, row) in rows.into_iter().enumerate() { tr {
                th scope="row" { a href={ "#workload-" (number) } { (row.workload) } }
                td { (row.metric) " " span.sub { (row.unit) } }
                td.n data-name=(run.plan.baseline) { (row.baseline) }
                @for (arm, (figure, cell)) in others().zip(row.others) {
                    td.n data-name=(arm.name) { (figure) }
                    td data-name={ (arm.name) " " (against_baseline) } { @match cell {
                        Some(cell) => { (against(&cell, &levels)) }
                        None => { (words::NONE) }
                    } }
                }
            } } }
        } }
    }
}

/// A change with its badge, the interval and contrary secondary metrics.
fn against(cell: &overview_tell::Cell<'_>, levels: &Levels) -> Markup {
    let interval = cell.interval(levels);
    html! {
        (cell.change()) " " (pill(cell.word))
        @if !interval.is_empty() { div.sub { (interval) } }
        @for metric in &cell.against { div.sub { "but " (metric) } }
    }
}

/// The table of contents for a page of several workloads.
pub(crate) fn contents(run: &Run, judgement: &Judgement) -> Markup {
    html! {
        @if run.plan.workloads.len() > 1 {
            nav aria-label="Contents" {
                h2 { "Contents" }
                ol {
                    @for (number, workload) in run.plan.workloads.iter().enumerate() {
                        li { a href={ "#workload-" (number) } { "Workload " (workload.id) } }
                    }
                    li { a href="#differences" { "What differed between the arms" } }
                    @if !judgement.defects.found.is_empty() {
                        li { a href="#defects" { (defects::tell::TITLE) } }
                    }
                    @if !words::failed(run).is_empty() {
                        li { a href="#failures" { "Failed trials" } }
                    }
                    li { a href="#disclosure" { (disclosure::tell::TITLE) } }
                    li { a href="#repeat" { "Run it again" } }
                    li { a href="#reading" { "How to read this" } }
                }
            }
        }
    }
}

/// Differences between the arms: a summary, then all by class; classes that cannot change figures are folded.
pub(crate) fn differences(judgement: &Judgement) -> Markup {
    let (declared, others): (Vec<_>, Vec<_>) = judgement
        .differences
        .iter()
        .partition(|difference| difference.declared);
    html! {
        section #differences {
            h2 { "What differed between the arms" }
            @if judgement.differences.is_empty() { p { "No fact that was collected differs." } }
            @if let Some(line) = differences::tell::line(judgement) { p { (line) } }
            @if !declared.is_empty() {
                h3 { "Named by the plan" }
                (facts(&declared))
            }
            @if !others.is_empty() {
                h3 { "Not named by the plan" }
                p.sub { "These follow from what the plan names, or are a flaw of the comparison." }
                @if let Some(counts) = differences::tell::counts(judgement) { p { (counts) } }
                @for count in &judgement.weighed.classes {
                    @let is_in_class = |difference: &&&Difference| difference.class == count.class;
                    @let of_class: Vec<_> = others.iter().filter(is_in_class).copied().collect();
                    details open[count.weight == Weight::Any] {
                        summary { (differences::tell::name(count.class)) ": " (of_class.len()) }
                        p.sub { (differences::tell::can(count.class)) }
                        (facts(&of_class))
                    }
                }
            }
        }
    }
}

fn facts(differences: &[&Difference]) -> Markup {
    let values = differences.iter().map(|difference| &difference.values);
    let arms: BTreeSet<&String> = values.flat_map(|values| values.keys()).collect();
    html! {
        div.scroll.tall { table.facts {
            thead { tr { th { "fact" } @for arm in &arms { th { (arm) } } } }
            tbody { @for difference in differences { tr {
                th scope="row" {
                    (difference.fact)
                    @if let Some(before) = &difference.formerly { span.sub { " (" (before) ")" } }
                }
                @for arm in &arms { td {
                    @match (difference.varying.get(*arm), difference.values.get(*arm)) {
                        (Some(values), _) => { div.value { (differences::tell::seen(values)) } }
                        (None, Some(Some(value))) => { div.value { (value) } }
                        (None, Some(None)) => { span.sub { "absent" } }
                        (None, None) => { span.sub { "not known" } }
                    }
                } }
            } } }
        } }
    }
}

/// The findings of the fairness checks.
pub(crate) fn fairness(run: &Run, judgement: &Judgement) -> Markup {
    let findings = &judgement.fairness;
    let checks = fairness::tell::explained(findings);
    html! {
        @if let Some(summary) = fairness::tell::summary(judgement) {
            section #fairness {
                h2 { "Fairness" }
                p.sub { (summary) }
                @for unused in fairness::tell::in_vain(run, judgement) { p.sub { (unused) } }
                @for check in &checks {
                    details open[check.mend.is_some()] {
                        summary {
                            @if check.mend.is_some() { b { (check.id) } } @else { (check.id) }
                            ": " (check.outcome)
                        }
                        p { (check.must_hold) }
                        ul { @for detail in &check.details { li { (detail) } } }
                        @if let Some(why) = check.why { p.sub { "Why it matters: " (why) } }
                        @if let Some(remedy) = check.mend { p.sub { "To mend it: " (remedy) } }
                    }
                }
            }
        }
    }
}

/// Defects that kernels and services reported, each with the lines of its first report.
pub(crate) fn defects(run: &Run, judgement: &Judgement, rows: &Table) -> Markup {
    html! {
        @if !rows.is_empty() {
            section #defects {
                h2 { (defects::tell::TITLE) }
                (doc::html::table(rows))
                @for defect in defects::tell::sorted(judgement) {
                    @if !defect.first.lines.is_empty() {
                        details {
                            summary { (defects::tell::first(run, defect)) }
                            pre { (defect.first.lines.join("\n")) }
                        }
                    }
                }
            }
        }
    }
}

pub(crate) fn failures(run: &Run) -> Markup {
    let failed = words::failed(run);
    html! {
        @if !failed.is_empty() {
            section #failures {
                h2 { "Failed trials" }
                @for attempt in failed {
                    details {
                        summary {
                            (attempt.trial) ", attempt " (attempt.attempt) ": " b { (attempt.kind) }
                        }
                        p { (attempt.detail) }
                        @if !attempt.console.is_empty() { pre { (attempt.console.join("\n")) } }
                    }
                }
            }
        }
    }
}

pub(crate) fn repeat(run: &Run) -> Markup {
    let opening = &run.opening;
    html! {
        section #repeat {
            h2 { "Run it again" }
            pre { "bakeoff run plan.toml      # the plan below, or plan.toml of the run directory\n"
                  "bakeoff show RUN   # the same verdict from the same records" }
            div.scroll { table.facts { tbody {
                tr { th scope="row" { "bakeoff" } td { (opening.bakeoff) } }
                tr { th scope="row" { "machine" } td { (host::tell::machine(&opening.machine)) } }
                tr { th scope="row" { "question" } td { (words::mode(run)) } }
                tr { th scope="row" { "seed" } td { (run.plan.design.seed) } }
                @for arm in &run.plan.arms {
                    tr { th scope="row" { "arm " (arm.name) } td {
                        (arm.kernel)
                        @for setting in arm.settings() { ", " (disclosure::tell::change(&setting)) }
                    } }
                }
                @for (name, hash) in &opening.inputs {
                    tr { th scope="row" { "SHA-256 of " (name) } td { code { (hash) } } }
                }
            } } }
            details { summary { "The plan" } pre { (words::plan_text(run)) } }
            @let looks = words::looks(run);
            @if !looks.is_empty() {
                details {
                    summary { "What each look said" }
                    ol { @for look in looks { li { (look) } } }
                }
            }
        }
    }
}

pub(crate) fn reading(run: &Run, judgement: &Judgement) -> Markup {
    html! {
        section #reading {
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
    use crate::report::{html, judged};
    use crate::topics::headline::tell::headline;
    use doc::html::unbroken;
    use record::fixtures::web;

    #[test]
    fn hostile_text_stays_text() {
        let (run, judgement) = judged(web::two_kernels());
        let page = html(&run, &judgement, &[]);
        assert!(!page.contains("<script"));
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    }

    #[test]
    fn the_page_has_headline_facts_and_failures() {
        let (run, judgement) = judged(web::two_kernels());
        let page = html(&run, &judgement, &[]);
        let [judged_headline] = judgement.headlines.as_slice() else {
            panic!("{:?}", judgement.headlines);
        };
        let headline = headline(&run, &judgement, &[], judged_headline).unwrap();
        assert!(page.contains(&unbroken(&headline.text)));
        for part in [
            "CONFIG_OPTION_119",
            "kernel panic",
            "connection reset",
            "unclassified: 120",
        ] {
            assert!(page.contains(part), "{part} is missing");
        }
    }

    #[test]
    fn a_run_without_figures_has_a_page_without_charts() {
        let (run, judgement) = judged(web::just_begun());
        let page = html(&run, &judgement, &[]);
        assert!(page.contains("Nothing measured yet"));
        assert!(!page.contains("class=\"chart\"") && !page.contains("<figure"));
    }

    #[test]
    fn a_workload_without_clients_has_no_row_and_no_chart_about_them() {
        let (run, judgement) = judged(web::without_clients());
        let page = html(&run, &judgement, &[]);
        // Fairness checks of other workloads name connections.
        let (above, fairness) = page.split_once("<section id=\"fairness\">").unwrap();
        let (_, below) = fairness.split_once("</section>").unwrap();
        let page = [above, below].concat();
        for part in ["ages served", "connections", "Latency", "average CPU"] {
            assert!(!page.contains(part), "{part}");
        }
        assert!(page.contains("Block by block") && page.contains("trials measured"));
    }

    #[test]
    fn the_same_run_gives_the_same_bytes() {
        let (run, judgement) = judged(web::two_kernels());
        assert!(html(&run, &judgement, &[]) == html(&run, &judgement, &[]));
    }
}
