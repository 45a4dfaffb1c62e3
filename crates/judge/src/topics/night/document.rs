//! The index of a nightly run as a page, as Markdown and as text for the terminal.

use std::fmt::Write as _;

use doc::html::{pill, unbroken};
use doc::{Block, Table};
use maud::{Markup, html};
use record::night::{Index, PlanSummary, Trend};

use crate::report::chart;
use crate::report::page::{day, plain};
use crate::report::section::frame;
use crate::topics::night::tell;
use crate::words;
use crate::words::levels::Levels;

/// The whole page. It loads nothing; its links lead to the reports of the runs.
pub fn page(index: &Index) -> String {
    let sections = html! {
        (top(index))
        (plans(index))
        (trends(index))
        (reading(index))
    };
    plain(&format!("Nightly run {}", index.night), &sections)
}

fn top(index: &Index) -> Markup {
    let regressions = tell::listed(index, |standing| standing.is_regression);
    let improvements = tell::listed(index, |standing| standing.is_improvement);
    html! {
        header {
            h1 { "Nightly run " (index.night) }
            p.sub {
                (tell::summary(index))
                @if !index.begun.is_empty() { span.dot { "·" } time datetime=(index.begun) { (day(&index.begun)) } }
            }
            @if let Some(trouble) = trouble(index) { (doc::html::render(&[trouble])) }
            @if regressions.is_empty() {
                p { "No significant regression." }
            } @else {
                section.headline.worse aria-label="Regressions" {
                    p { (pill("worse")) }
                    ul { @for sentence in &regressions { li { (unbroken(sentence)) } } }
                }
            }
            @if !improvements.is_empty() {
                section.headline.better aria-label="Improvements" {
                    p { (pill("better")) }
                    ul { @for sentence in &improvements { li { (unbroken(sentence)) } } }
                }
            }
            p.sub { (tell::rates(index)) }
        }
    }
}

fn plans(index: &Index) -> Markup {
    let levels = tell::levels(index);
    html! {
        section.night id="plans" {
            h2 { "Plans" }
            div.scroll { table.cards.overview {
                thead { tr {
                    th { "plan" } th { "arm" } th { "metric" } th { "verdict" } th { "change" div.sub { (levels.head()) } } th { "p (adjusted)" }
                } }
                tbody {
                    @for plan in &index.plans { (plan_rows(plan, &levels)) }
                }
            } }
        }
    }
}

/// The link to a run's report, followed by the plan's title if `has_title`.
fn link(plan: &PlanSummary, has_title: bool) -> Markup {
    html! {
        @match &plan.run {
            Some(run) => {
                a href={ (href(&plan.dir)) "/report.html" } { (plan.name) }
                @if has_title { div.sub.title { (run.title) } }
            }
            None => { (plan.name) }
        }
    }
}

fn plan_rows(plan: &PlanSummary, levels: &Levels) -> Markup {
    let change = format!("change, {}", levels.head());
    let lines = tell::lines_of(plan);
    html! {
        @if lines.is_empty() {
            tr {
                th scope="row" { (link(plan, true)) }
                td data-name="arm" { (words::NONE) }
                td data-name="metric" { (words::NONE) }
                td data-name="verdict" { (plan.state.word()) }
                td data-name=(change) { (words::NONE) }
                td data-name="p (adjusted)" { (words::NONE) }
            }
        }
        @for (number, line) in lines.iter().enumerate() {
            tr {
                th scope="row" { (link(plan, number == 0)) }
                td data-name="arm" { (line.arm()) div.sub { "against " (tell::baseline(plan)) } }
                td data-name="metric" {
                    (words::directed(&line.compared.spec))
                    @if line.compared.workload != plan.name { div.sub { (line.compared.workload) } }
                }
                td data-name="verdict" {
                    (pill(line.word()))
                    @if let Some(state) = tell::open_state(plan) { div.sub { (state) } }
                    @if !line.standing().is_empty() { div.sub { (line.standing()) } }
                }
                td data-name=(change) {
                    (unbroken(&line.change()))
                    div.sub { (unbroken(&levels.cell(&line.interval(), line.compared.confidence))) }
                }
                td data-name="p (adjusted)" { (line.p_value()) }
            }
        }
    }
}

/// Percent-encodes a relative path, so that no part of it can be taken for a scheme or a query.
fn href(path: &str) -> String {
    let mut encoded = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                encoded.push(char::from(byte));
            }
            byte => {
                // Writing to a string never fails.
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

fn trends(index: &Index) -> Markup {
    let primary = tell::primary_trends(index);
    let rows = tell::change_rows(index);
    html! {
        @if !index.trends.is_empty() {
            section id="trends" {
                h2 { "Versions and nightly runs" }
                @if let Some(rates) = tell::trend_rates(index) { p.sub { (rates) } }
                @for (number, trend) in primary.into_iter().enumerate() { (trend_figures(trend, number)) }
                @if rows.len() > 1 {
                    details {
                        summary { "Changes of all metrics (" (rows.len() - 1) ")" }
                        div.scroll { table.cards.arms {
                            thead { tr { @for cell in &rows[0] { th { (cell) } } } }
                            tbody { @for row in &rows[1..] { tr {
                                th scope="row" { (row[0]) }
                                td data-name="change" { (unbroken(&row[1])) }
                            } } }
                        } }
                    }
                } @else {
                    p { "No significant change." }
                }
            }
        }
    }
}

fn trend_figures(trend: &Trend, number: usize) -> Markup {
    let levels = Levels::of(trend.points.iter().map(|point| point.confidence));
    html! {
        h3 { (tell::trend_title(trend)) }
        @if trend.changes.is_empty() { p.sub { (tell::no_change(trend)) "." } }
        @for change in &trend.changes { p { (unbroken(&tell::trend_change(trend, change))) "." } }
        @if let Some(chart) = chart::trend(trend, number) { (frame(&chart, "")) }
        details {
            summary { "Figures" }
            div.scroll { table {
                thead { tr { th { "point" } th { "nightly run" } th.n { "change" } th { (levels.head()) } th { "verdict" } } }
                tbody { @for point in &trend.points { tr {
                    th scope="row" { (point.label) }
                    td { (point.night) }
                    td.n { (unbroken(&words::large_change(point.ratio))) }
                    td { (unbroken(&levels.cell(&words::interval_of(point.low, point.high), point.confidence))) }
                    td { (point.verdict.word()) }
                } } }
            } }
        }
    }
}

fn reading(index: &Index) -> Markup {
    html! {
        section id="reading" {
            h2 { "How to read this" }
            p { (tell::rates(index)) }
            p {
                "Each verdict has the error rate of its plan. With many plans, some verdicts are significant in their run but not across \
                 plans. Trends compare ratios to a baseline of the same run. They never compare figures of two nightly runs."
            }
        }
    }
}

/// Markdown for a mail or a chat.
pub fn as_markdown(index: &Index) -> String {
    let mut blocks = vec![
        Block::Title(format!("Nightly run {}", index.night)),
        Block::Text(tell::summary(index)),
    ];
    let [trouble, regressions, improvements] = listed(index);
    blocks.extend(trouble);
    blocks.push(regressions.unwrap_or(Block::Text("No significant regression.".into())));
    blocks.extend(improvements);
    blocks.extend(Block::table(Table::new(tell::rows(index), 6)));
    blocks.extend(Block::titled_table(
        "Changes over versions and nightly runs",
        Table::new(tell::change_rows(index), 1),
    ));
    blocks.extend(rates(index).into_iter().map(Block::Text));
    doc::markdown::render(&blocks)
}

/// Text for a terminal of `width` columns.
pub fn as_text(index: &Index, width: usize) -> String {
    let summary = tell::summary(index);
    let mut blocks = vec![Block::Text(format!(
        "nightly run {}: {summary}",
        index.night
    ))];
    blocks.extend(Block::table(Table::new(tell::rows(index), 6)));
    blocks.extend(listed(index).into_iter().flatten());
    let changes = tell::change_rows(index).into_iter().skip(1);
    let changes = changes.map(|row| row.join(": ")).collect();
    blocks.extend(Block::notice(
        "",
        "Changes over versions and nightly runs",
        changes,
    ));
    blocks.extend([Block::Gap, Block::List(rates(index))]);
    doc::terminal::render(&blocks, width)
}

/// Trouble, regressions and improvements.
fn listed(index: &Index) -> [Option<Block>; 3] {
    let regressions = tell::listed(index, |standing| standing.is_regression);
    let improvements = tell::listed(index, |standing| standing.is_improvement);
    [
        trouble(index),
        Block::notice("worse", "Regressions", regressions),
        Block::notice("better", "Improvements", improvements),
    ]
}

fn trouble(index: &Index) -> Option<Block> {
    Block::notice("setbacks", "What went wrong", tell::trouble(index))
}

/// The error rates of the nightly run and of the trends.
fn rates(index: &Index) -> Vec<String> {
    let mut rates = vec![tell::rates(index)];
    rates.extend(tell::trend_rates(index));
    rates
}

#[cfg(test)]
pub(crate) mod tests {
    use expect_test::expect;
    use record::fixtures::night::{run_summary, throughput};
    use record::night::{
        Along, Beside, Compared, NightName, NightStanding, State, TrendChange, TrendPoint, VERSION,
    };
    use record::verdict::Verdict;

    use super::*;

    fn compared(arm: &str, verdict: Verdict, ratio: f64, p_worse: f64) -> Compared {
        Compared {
            workload: "web".into(),
            arm: arm.into(),
            kernel: Some("7.2.13-1".into()),
            spec: throughput(),
            verdict,
            headline: Some(verdict.word().into()),
            ratio: Some(ratio),
            low: Some(ratio - 0.01),
            high: Some(ratio + 0.01),
            // A plan with another error rate has another level.
            confidence: Some(if arm == "7.2" { 0.95 } else { 0.975 }),
            blocks: 8,
            night: Some(NightStanding {
                p_worse,
                p_better: 1.0,
                fdr_worse: (3.0 * p_worse).min(1.0),
                fdr_better: 1.0,
                fwer_worse: (3.0 * p_worse).min(1.0),
                is_regression: p_worse < 0.01,
                is_improvement: false,
                trips_gate: p_worse < 0.01,
            }),
        }
    }

    fn plan(name: &str, run: Option<Vec<Compared>>) -> PlanSummary {
        PlanSummary {
            name: name.into(),
            dir: format!("{name} of #1"),
            planned: 1,
            state: if run.is_some() {
                State::Complete
            } else {
                State::Failed
            },
            why: run.is_none().then(|| "no such kernel: <6.1>".into()),
            run: run.map(|comparisons| run_summary("<script>alert(1)</script>", comparisons)),
        }
    }

    fn trend() -> Trend {
        let point = |night: u32| TrendPoint {
            label: format!("2026-11-{night:02}"),
            night: format!("2026-11-{night:02}"),
            kernel: None,
            ratio: if night < 5 { 1.0 } else { 0.95 },
            low: Some(0.94),
            high: Some(1.01),
            confidence: Some(0.95),
            verdict: Verdict::Undecided,
        };
        Trend {
            plan: "web".into(),
            workload: "web".into(),
            spec: throughput(),
            arm: Some("7.2".into()),
            along: Along::Nights,
            points: (1..=8).map(point).collect(),
            changes: vec![TrendChange {
                before: 3,
                after: 4,
                ratio: 0.95,
                p_value: Some(0.0286),
                is_worse: true,
                is_beyond_margin: true,
                beside: vec![Beside::Machine],
            }],
            error_rate: 0.05,
            least_points: 8,
        }
    }

    pub(crate) fn index() -> Index {
        let web = vec![
            compared("7.2", Verdict::Worse, 0.95, 0.004),
            compared("rc", Verdict::Equivalent, 1.0, 1.0),
        ];
        Index {
            version: VERSION,
            bakeoff: "0.1.0".into(),
            night: "2026-11-23".into(),
            begun: "2026-11-23T01:00:00Z".into(),
            error_rate: 0.05,
            fdr: 0.05,
            family: 3,
            plans: vec![plan("web", Some(web)), plan("smb", None)],
            nights: vec![NightName {
                name: "2026-11-23".into(),
                begun: "2026-11-23T01:00:00Z".into(),
            }],
            trends: vec![trend()],
        }
    }

    #[test]
    fn hostile_text_stays_text_and_links_lead_nowhere_else() {
        let page = page(&index());
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;alert(1)"));
        assert!(page.contains("no such kernel: &lt;6.1&gt;"));
        assert!(
            page.contains("href=\"web%20of%20%231/report.html\""),
            "{page}"
        );
        assert_eq!(href("javascript:alert(1)"), "javascript%3Aalert%281%29");
        assert!(page.contains("default-src 'none'"));
    }

    #[test]
    fn a_trend_is_drawn_with_its_change() {
        let page = page(&index());
        assert!(page.contains("id=\"trend-0\"") && page.contains("class=\"joint\""));
        assert!(page.contains("worse by 5.00\u{a0}% from 2026-11-04 to 2026-11-05 (p = 0.029); the machine changed at the same time."));
    }

    #[test]
    fn a_night_on_a_terminal() {
        expect![[r#"
            nightly run 2026-11-23: 2 plans, 3 comparisons: 1 regression, 0 improvements; the gate trips, and 1 plan has no answer

            web
              workload         web
              arm              7.2
              against          6.1
              metric           throughput ↑
              verdict          worse
              change           -5.00 %
              97.5 % interval  [-6.00 %, -4.00 %] (95 %)
              p                0.0040 (0.012)
              across plans     regression, trips the gate
            web
              workload         web
              arm              rc (7.2.13-1)
              against          6.1
              metric           throughput ↑
              verdict          equivalent
              change           +0.00 %
              97.5 % interval  [-1.00 %, +1.00 %]
              p                -
              across plans     
            smb
              workload         -
              arm              -
              against          -
              metric           -
              verdict          failed
              change           -
              97.5 % interval  -
              p                -
              across plans     -

            what went wrong:
            - smb: failed: no such kernel: <6.1>

            regressions:
            - web: throughput of 7.2 on web: -5.00 % [-6.00 %, -4.00 %] (95 % interval), p = 0.0040 (0.012); trips the gate

            changes over versions and nightly runs:
            - web: throughput ↑ of 7.2: worse by 5.00 % from 2026-11-04 to 2026-11-05 (p = 0.029); the machine changed at the same time

            - Across all 3 comparisons: on average, at most 5.0 % of the listed regressions are false, and at most as large a share of the improvements
              (Benjamini-Hochberg). The probability that the gate trips without a worse arm is at most 5.0 % (Holm). P-values are one-sided and hold
              whenever a run stops; those in brackets are adjusted for the list.
            - 1 trend over nightly runs: the probability that any primary metric shows a change where there is none is at most 5.0 %. The same holds for
              all other metrics. A change needs up to 8 nightly runs to show.
        "#]].assert_eq(&as_text(&index(), 140));
    }

    #[test]
    fn a_night_in_markdown() {
        expect![[r#"
            ## Nightly run 2026-11-23

            2 plans, 3 comparisons: 1 regression, 0 improvements; the gate trips, and 1 plan has no answer

            **What went wrong**

            - smb: failed: no such kernel: &lt;6.1&gt;

            **Regressions**

            - web: throughput of 7.2 on web: -5.00 % [-6.00 %, -4.00 %] (95 % interval), p = 0.0040 (0.012); trips the gate

            | plan | workload | arm | against | metric | verdict | change | 97.5 % interval | p | across plans |
            |---|---|---|---|---|---|---|---|---|---|
            | web | web | 7.2 | 6.1 | throughput ↑ | worse | -5.00 % | [-6.00 %, -4.00 %] (95 %) | 0.0040 (0.012) | regression, trips the gate |
            | web | web | rc (7.2.13-1) | 6.1 | throughput ↑ | equivalent | +0.00 % | [-1.00 %, +1.00 %] | - |  |
            | smb | - | - | - | - | failed | - | - | - | - |

            Changes over versions and nightly runs:

            | metric | change |
            |---|---|
            | web: throughput ↑ of 7.2 | worse by 5.00 % from 2026-11-04 to 2026-11-05 (p = 0.029); the machine changed at the same time |

            Across all 3 comparisons: on average, at most 5.0 % of the listed regressions are false, and at most as large a share of the improvements (Benjamini-Hochberg). The probability that the gate trips without a worse arm is at most 5.0 % (Holm). P-values are one-sided and hold whenever a run stops; those in brackets are adjusted for the list.

            1 trend over nightly runs: the probability that any primary metric shows a change where there is none is at most 5.0 %. The same holds for all other metrics. A change needs up to 8 nightly runs to show.
        "#]].assert_eq(&as_markdown(&index()));
    }
}
