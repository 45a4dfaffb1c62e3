//! The index of a night: a page, Markdown, and lines of a terminal.

use std::fmt::Write as _;

use doc::html::{pill, unbroken};
use doc::{Block, Table};
use maud::{Markup, html};
use record::night::{Index, PlanSummary, Trend};

use crate::report::chart;
use crate::report::page::{day, plain};
use crate::report::section::frame;
use crate::topics::night::tell as night;
use crate::words;
use crate::words::levels::Levels;

/// The whole page. It loads nothing; its links lead to the reports of its runs.
pub fn page(index: &Index) -> String {
    let sections = html! {
        (top(index))
        (plans(index))
        (trends(index))
        (reading(index))
    };
    plain(&format!("Night {}", index.night), &sections)
}

fn top(index: &Index) -> Markup {
    let regressions = night::listed(index, |one| one.is_regression);
    let improvements = night::listed(index, |one| one.is_improvement);
    html! {
        header {
            h1 { "Night " (index.night) }
            p.sub {
                (night::summary(index))
                @if !index.begun.is_empty() { span.dot { "·" } time datetime=(index.begun) { (day(&index.begun)) } }
            }
            @if let Some(trouble) = trouble(index) { (doc::html::render(&[trouble])) }
            @if regressions.is_empty() {
                p { "No significant regression." }
            } @else {
                section.headline.worse aria-label="Regressions" {
                    p { (pill("worse")) }
                    ul { @for said in &regressions { li { (unbroken(said)) } } }
                }
            }
            @if !improvements.is_empty() {
                section.headline.better aria-label="Improvements" {
                    p { (pill("better")) }
                    ul { @for said in &improvements { li { (unbroken(said)) } } }
                }
            }
            p.sub { (night::rates(index)) }
        }
    }
}

fn plans(index: &Index) -> Markup {
    let levels = night::levels(index);
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

/// The link to a run's report, with the plan's title below the first one.
fn link(plan: &PlanSummary, is_first: bool) -> Markup {
    html! {
        @match &plan.run {
            Some(run) => {
                a href={ (href(&plan.dir)) "/report.html" } { (plan.name) }
                @if is_first { div.sub.title { (run.title) } }
            }
            None => { (plan.name) }
        }
    }
}

fn plan_rows(plan: &PlanSummary, levels: &Levels) -> Markup {
    let change = format!("change, {}", levels.head());
    let lines = night::lines_of(plan);
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
                td data-name="arm" { (line.arm()) div.sub { "against " (night::baseline(plan)) } }
                td data-name="metric" {
                    (words::directed(&line.compared.spec))
                    @if line.compared.workload != plan.name { div.sub { (line.compared.workload) } }
                }
                td data-name="verdict" {
                    (pill(line.word()))
                    @if let Some(state) = night::open_state(plan) { div.sub { (state) } }
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

/// A relative path as a link has it: nothing of a directory's name may be taken for something else.
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
    let primary = night::primary_trends(index);
    let rows = night::change_rows(index);
    html! {
        @if !index.trends.is_empty() {
            section id="trends" {
                h2 { "Over versions and nights" }
                @if let Some(said) = night::trend_rates(index) { p.sub { (said) } }
                @for (number, trend) in primary.into_iter().enumerate() { (one_trend(trend, number)) }
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

fn one_trend(trend: &Trend, number: usize) -> Markup {
    let levels = Levels::of(trend.points.iter().map(|one| one.confidence));
    html! {
        h3 { (night::trend_title(trend)) }
        @if trend.changes.is_empty() { p.sub { (night::no_change(trend)) "." } }
        @for one in &trend.changes { p { (unbroken(&night::trend_change(trend, one))) "." } }
        @if let Some(chart) = chart::trend(trend, number) { (frame(&chart)) }
        details {
            summary { "Figures" }
            div.scroll { table {
                thead { tr { th { "point" } th { "night" } th.n { "change" } th { (levels.head()) } th { "verdict" } } }
                tbody { @for one in &trend.points { tr {
                    th scope="row" { (one.label) }
                    td { (one.night) }
                    td.n { (unbroken(&words::large_change(one.ratio))) }
                    td { (unbroken(&levels.cell(&words::interval_of(one.low, one.high), one.confidence))) }
                    td { (one.verdict.word()) }
                } } }
            } }
        }
    }
}

fn reading(index: &Index) -> Markup {
    html! {
        section id="reading" {
            h2 { "How to read this" }
            p { (night::rates(index)) }
            p {
                "A verdict is its run's own, at its plan's error rate. Many plans have many chances to be wrong, so that some verdicts that \
                 are significant in their run are not so over the night. Trends set ratios to a baseline of the same run beside each other, \
                 never figures of one night and another."
            }
        }
    }
}

/// The same for a mail or a chat.
pub fn as_markdown(index: &Index) -> String {
    let mut blocks = vec![
        Block::Title(format!("Night {}", index.night)),
        Block::Text(night::summary(index)),
    ];
    let [trouble, regressions, improvements] = listed(index);
    blocks.extend(trouble);
    blocks.push(regressions.unwrap_or(Block::Text("No significant regression.".into())));
    blocks.extend(improvements);
    blocks.extend(Block::table(Table::new(night::rows(index), 6)));
    blocks.extend(Block::titled_table(
        "Changes over versions and nights",
        Table::new(night::change_rows(index), 1),
    ));
    blocks.extend(rates(index).into_iter().map(Block::Text));
    doc::markdown::render(&blocks)
}

/// The same for a terminal of so many columns.
pub fn as_text(index: &Index, width: usize) -> String {
    let summary = night::summary(index);
    let mut blocks = vec![Block::Text(format!("night {}: {summary}", index.night))];
    blocks.extend(Block::table(Table::new(night::rows(index), 6)));
    blocks.extend(listed(index).into_iter().flatten());
    let changes = night::change_rows(index).into_iter().skip(1);
    let changes = changes.map(|row| row.join(": ")).collect();
    blocks.extend(Block::notice(
        "",
        "Changes over versions and nights",
        changes,
    ));
    blocks.extend([Block::Gap, Block::List(rates(index))]);
    doc::terminal::render(&blocks, width)
}

/// What went wrong, became worse and became better.
fn listed(index: &Index) -> [Option<Block>; 3] {
    let regressions = night::listed(index, |standing| standing.is_regression);
    let improvements = night::listed(index, |standing| standing.is_improvement);
    [
        trouble(index),
        Block::notice("worse", "Regressions", regressions),
        Block::notice("better", "Improvements", improvements),
    ]
}

fn trouble(index: &Index) -> Option<Block> {
    Block::notice("setbacks", "What went wrong", night::trouble(index))
}

/// How often any of it is wrong.
fn rates(index: &Index) -> Vec<String> {
    let all = [night::rates(index)].into_iter();
    all.chain(night::trend_rates(index)).collect()
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
            // A plan with an error rate of its own has another level.
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
        assert!(page.contains("worse by 5.00\u{a0}% from 2026-11-04 to 2026-11-05 (p = 0.029); the machine changed there too."));
    }

    #[test]
    fn a_night_is_told_on_a_terminal() {
        expect![[r#"
            night 2026-11-23: 2 plans, 3 comparisons: 1 regression, 0 improvements; the gate trips, and 1 plan has no answer

            web
              workload         web
              arm              7.2
              against          6.1
              metric           throughput ↑
              verdict          worse
              change           -5.00 %
              97.5 % interval  [-6.00 %, -4.00 %] (95 %)
              p                0.0040 (0.012)
              over the night   regression, trips the gate
            web
              workload         web
              arm              rc (7.2.13-1)
              against          6.1
              metric           throughput ↑
              verdict          equivalent
              change           +0.00 %
              97.5 % interval  [-1.00 %, +1.00 %]
              p                -
              over the night   
            smb
              workload         -
              arm              -
              against          -
              metric           -
              verdict          failed
              change           -
              97.5 % interval  -
              p                -
              over the night   -

            what went wrong:
            - smb: failed: no such kernel: <6.1>

            regressions:
            - web: throughput of 7.2 on web: -5.00 % [-6.00 %, -4.00 %] (95 % interval), p = 0.0040 (0.012); trips the gate

            changes over versions and nights:
            - web: throughput ↑ of 7.2: worse by 5.00 % from 2026-11-04 to 2026-11-05 (p = 0.029); the machine changed there too

            - Of all 3 comparisons together: of the regressions listed, 5.0 % are false on average at the most, and so of the improvements (Benjamini
              and Hochberg); the chance that the gate trips on any arm that is not worse is 5.0 % at the most (Holm). P-values are of one side, and hold
              whenever a run stopped; in brackets, adjusted for the list.
            - 1 trend over nights, primary metrics and all others apart: the chance that any of either shows a change where there is none is 5.0 % at
              the most. It takes up to 8 nights to show one.
        "#]].assert_eq(&as_text(&index(), 140));
    }

    #[test]
    fn a_night_is_told_in_markdown() {
        expect![[r#"
            ## Night 2026-11-23

            2 plans, 3 comparisons: 1 regression, 0 improvements; the gate trips, and 1 plan has no answer

            **What went wrong**

            - smb: failed: no such kernel: &lt;6.1&gt;

            **Regressions**

            - web: throughput of 7.2 on web: -5.00 % [-6.00 %, -4.00 %] (95 % interval), p = 0.0040 (0.012); trips the gate

            | plan | workload | arm | against | metric | verdict | change | 97.5 % interval | p | over the night |
            |---|---|---|---|---|---|---|---|---|---|
            | web | web | 7.2 | 6.1 | throughput ↑ | worse | -5.00 % | [-6.00 %, -4.00 %] (95 %) | 0.0040 (0.012) | regression, trips the gate |
            | web | web | rc (7.2.13-1) | 6.1 | throughput ↑ | equivalent | +0.00 % | [-1.00 %, +1.00 %] | - |  |
            | smb | - | - | - | - | failed | - | - | - | - |

            Changes over versions and nights:

            | metric | change |
            |---|---|
            | web: throughput ↑ of 7.2 | worse by 5.00 % from 2026-11-04 to 2026-11-05 (p = 0.029); the machine changed there too |

            Of all 3 comparisons together: of the regressions listed, 5.0 % are false on average at the most, and so of the improvements (Benjamini and Hochberg); the chance that the gate trips on any arm that is not worse is 5.0 % at the most (Holm). P-values are of one side, and hold whenever a run stopped; in brackets, adjusted for the list.

            1 trend over nights, primary metrics and all others apart: the chance that any of either shows a change where there is none is 5.0 % at the most. It takes up to 8 nights to show one.
        "#]].assert_eq(&as_markdown(&index()));
    }
}
