//! The HTML page, section by section; the templates escape all text.

use std::collections::BTreeSet;

use doc::html::{Page, pill};
use doc::{Block, Table};
use maud::{Markup, PreEscaped, html};
use record::rundir::Run;
use record::verdict::weighed::{Class, Weight};
use record::verdict::why::Why;
use record::verdict::{Difference, Judgement};

use crate::report::chart;
use crate::topics::overview::tell as overview_tell;
use crate::topics::overview::tell::footing;
use crate::topics::why::document::tree;
use crate::topics::{defects, differences, disclosure, fairness, glance, run_state};
use crate::words;
use crate::words::levels::Levels;

/// The content security policy: the page loads nothing, and its style is inline.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

const STYLE: &str = include_str!("style.css");

/// The style of breakdowns and call trees.
const TREE_STYLE: &str = include_str!("tree.css");

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
    match whys {
        [] => whole(title, &policy, STYLE, &body),
        _ => whole(title, &policy, &format!("{STYLE}{TREE_STYLE}"), &body),
    }
}

/// A page of sections without a script.
pub(crate) fn plain(title: &str, sections: &Markup) -> String {
    whole(title, POLICY, STYLE, &html! { main { (sections) } })
}

fn whole(title: &str, policy: &str, style: &str, body: &Markup) -> String {
    let page = Page {
        title,
        policy,
        style,
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
                td { (row.metric) " " span.sub { (glance::tell::unit(run, &row.unit)) } }
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

/// The caveat of the first screen, with a link to all warnings.
pub(crate) fn caveat(line: &str, warnings: usize) -> Markup {
    html! {
        p.caveat {
            (doc::html::unbroken(line))
            @if warnings > 0 { " " a href="#warnings" { (words::counted(warnings as u32, "warning")) } }
        }
    }
}

/// Links to all sections of the page.
pub(crate) fn contents(run: &Run, judgement: &Judgement) -> Markup {
    let workloads = run.plan.workloads.iter().enumerate();
    let mut links: Vec<(String, String)> = workloads
        .map(|(number, workload)| (format!("workload-{number}"), workload.id.clone()))
        .collect();
    let sections = [
        ("differences", "What differed", true),
        (
            "fairness",
            "Fairness and conditions",
            fairness::tell::summary(judgement).is_some(),
        ),
        (
            "defects",
            defects::tell::TITLE,
            !judgement.defects.found.is_empty(),
        ),
        ("failures", "Failed trials", !words::failed(run).is_empty()),
        ("next", "What next", true),
        ("disclosure", disclosure::tell::TITLE, true),
        ("reading", "How to read this", true),
    ];
    let sections = sections.into_iter().filter(|(_, _, is_there)| *is_there);
    links.extend(sections.map(|(id, title, _)| (id.into(), title.into())));
    html! {
        nav aria-label="Contents" {
            ul { @for (id, title) in links { li { a href={ "#" (id) } { (title) } } } }
        }
    }
}

/// Differences between the arms: the likeliest causes, then all by class, folded.
pub(crate) fn differences(judgement: &Judgement) -> Markup {
    let (declared, others): (Vec<_>, Vec<_>) = judgement
        .differences
        .iter()
        .partition(|difference| difference.declared);
    html! {
        section #differences {
            h2 { "What differed between the arms" }
            @if judgement.differences.is_empty() { p { "No fact that was collected differs." } }
            @if let Some(counts) = differences::tell::counts(judgement) { p { (doc::html::sentence(&counts)) } }
            @let causes = Table::new(differences::tell::causes(judgement), usize::MAX).cards("facts causes");
            @if !causes.is_empty() {
                h3 { (differences::tell::CAUSES) }
                (doc::html::table(&causes))
            }
            @if let Some(line) = differences::tell::equal(judgement) { p.sub { (doc::html::capital(&doc::html::sentence(&line))) } }
            @if !declared.is_empty() {
                details {
                    summary { "Named by the plan: " (declared.len()) }
                    (facts(&declared))
                }
            }
            @for weight in [Weight::Any, Weight::WhereUsed, Weight::None] {
                @let is_of_weight = |difference: &&&Difference| difference.counts() && difference.class.weight() == weight;
                @let of_weight: Vec<_> = others.iter().filter(is_of_weight).copied().collect();
                @if !of_weight.is_empty() { details {
                    summary { (differences::tell::weight(weight, of_weight.len())) }
                    (classes(judgement, weight, &of_weight))
                } }
            }
            @let renamed: Vec<_> = others.iter().filter(|difference| difference.class == Class::Renamed).copied().collect();
            @if !renamed.is_empty() { details {
                summary { (differences::tell::renamed(renamed.len())) }
                (short(judgement, &renamed))
            } }
        }
    }
}

/// The differences of each class, folded.
fn classes(judgement: &Judgement, weight: Weight, differences: &[&Difference]) -> Markup {
    let counts = judgement.weighed.classes.iter();
    let classes = counts
        .filter(|count| count.weight == weight)
        .map(|count| count.class);
    html! {
        @for class in classes {
            @let of_class: Vec<_> = differences.iter().filter(|difference| difference.class == class).copied().collect();
            @if !of_class.is_empty() { details.inner {
                summary { (differences::tell::name(class)) ": " (of_class.len()) }
                p.sub { (differences::tell::can(class)) }
                @match weight {
                    Weight::Any => { (facts(&of_class)) }
                    Weight::WhereUsed | Weight::None => { (short(judgement, &of_class)) }
                }
            } }
        }
    }
}

/// Names of facts by their values, for classes that can hardly change a figure.
fn short(judgement: &Judgement, differences: &[&Difference]) -> Markup {
    html! {
        @for (values, facts) in differences::tell::by_values(&judgement.weighed.arms, differences) {
            p.short { b { (values) } ": " (facts.join(", ")) }
        }
    }
}

/// Longer values scroll.
const SHORT: usize = 60;

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
                @for arm in &arms {
                    @let value = differences::tell::value(difference, arm);
                    td { @if value.len() > SHORT { div.value { (value) } } @else { (value) } }
                }
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
                h2 { "Fairness and conditions" }
                p.sub { (summary) }
                @for line in footing::conditions(run, judgement).into_iter().chain(footing::profiled(run)) {
                    p.sub { (doc::html::capital(&doc::html::sentence(&line))) }
                }
                @for unused in fairness::tell::unused_acceptances(run, judgement) { p.sub { (unused) } }
                @let (failed, others): (Vec<_>, Vec<_>) = checks.iter().partition(|check| check.mend.is_some());
                @for check in failed { (fairness_check(check)) }
                @if !others.is_empty() { details {
                    summary { (fairness::tell::OTHERS) }
                    @for check in others { (fairness_check(check)) }
                } }
            }
        }
    }
}

/// A check that did not pass; a failed one is unfolded.
fn fairness_check(check: &fairness::tell::CheckText) -> Markup {
    html! {
        details.inner[check.mend.is_none()] open[check.mend.is_some()] {
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

/// What a reader can do next, the plan, and what each interim analysis found.
pub(crate) fn next(run: &Run, judgement: &Judgement, whys: &[Why]) -> Markup {
    html! {
        section #next {
            h2 { "What next" }
            dl.steps { @for step in glance::tell::next_steps(run, judgement, whys) {
                dt { code { (step.command) } } dd { (step.gives) }
            } }
            details { summary { "The plan" } pre { (words::plan_text(run)) } }
            @let analyses = words::interim_analyses(run);
            @if !analyses.is_empty() {
                details {
                    summary { "What each interim analysis found" }
                    ol { @for analysis in analyses { li { (analysis) } } }
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
