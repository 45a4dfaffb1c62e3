//! A loaded run in, HTML, Markdown or terminal text out. No statistics are computed here.
//!
//! ```text
//! words      sentences and numbers, the same in all media
//! json       what was judged as data, with its sentences
//! run        the report of a run: its parts in order, and which medium has which
//! section    the part about one workload
//! page       what only the page of a run has
//! chart      its charts, as SVG
//! overview   workload by arm, the first table of a plan with several
//! curves     figures against the load, in words and numbers
//! soak       what long trials say: failures, growth, service over time
//! scaling    figures against CPUs, likewise
//! robustness what a headline hangs on, and at which loads an arm is better
//! levels     which level an interval has, wherever one is shown
//! footing    what stands under the verdicts: of the next two, and trials that were run for profiles alone
//! mitigations, models   which CPU the arms ran on, and what another one says
//! why        what made a difference: sentence, tables, call tree, JSON
//! disclosure   all that a reader who doubts the comparison must know
//! night      the index of several plans: a page, Markdown, terminal text
//! live       a run while it goes on: pages that a server keeps up to date, and what a terminal says of it
//! ```
//! Topics are told once, as blocks that the crate `doc` renders for a terminal, Markdown and pages.
//! The page stands alone: it embeds its style and, for call trees, one script that its content security policy knows by its hash; every
//! network request is forbidden to it. Whatever comes from a plan, a server or a
//! console is text to it, never markup.

use input::text::escaped;
use maud::Markup;
#[cfg(test)]
use record::{rundir::Run, verdict::Judgement};

mod bisect;
#[cfg(test)]
mod browser;
mod chart;
mod confirm;
mod curves;
mod disclosure;
mod fairness;
mod footing;
mod json;
pub mod levels;
pub mod live;
mod mitigations;
mod models;
mod night;
mod overview;
mod page;
mod robustness;
mod run;
mod scaling;
mod section;
mod soak;
mod why;
mod words;

pub use bisect::line as bisection_line;
pub use bisect::page::bisection as bisection_html;
pub use bisect::page::walk as walk_html;
pub use bisect::terminal as bisection_terminal;
pub use bisect::walk_terminal;
pub use confirm::json as confirmation_json;
pub use confirm::markdown as confirmation_markdown;
pub use confirm::terminal as confirmation_terminal;
pub use fairness::list as fairness_list;
pub use fairness::page as fairness_page;
pub use fairness::terminal as fairness_terminal;
pub use json::{VERSION as JSON_VERSION, json};
pub use night::as_markdown as night_markdown;
pub use night::as_text as night_terminal;
pub use night::page as night_html;
pub use run::html;
pub use run::markdown;
pub use run::terminal;
pub use why::json as why_json;
pub use why::markdown as why_markdown;
pub use why::terminal as why_terminal;
pub use words::apart::change;
pub use words::apart::obstacle;
pub use words::defect::of_arm as arm_defect;
pub use words::defect::told as defect;
pub use words::fairness::all_in_short as fairness_in_short;
pub use words::fairness::declared;
pub use words::fairness::early as early_violations;
pub use words::fairness::nearest_check;
pub use words::fairness::vain as accepted_in_vain;
pub use words::fairness::violations;
pub use words::fault;
pub use words::fleet::merged;
pub use words::limit::ceiling;
pub use words::limit::one_fewer;
pub use words::look::look;
pub use words::machine::machine;
pub use words::reason::reason;
pub use words::reason::sample_reason;
pub use words::reason::sample_reason_of;
pub use words::run_state::close_reason;
pub use words::soak::against_arms as growth;
pub use words::soak::failures;
pub use words::warning::disturbance;
pub use words::warning::gate;
pub use words::warning::setbacks;
pub use words::warning::warnings;
pub use words::weighed::pinned;
pub use words::why::remedy as why_remedy;
pub use words::why::sentence as why_sentence;
pub use words::why::unexplained;

/// Markup as it goes out. What would turn the direction of writing in it, or be obeyed otherwise, is written out as on a terminal.
fn shown(markup: Markup) -> String {
    escaped(&markup.into_string())
}

/// A run with what is to be reported of it.
#[cfg(test)]
fn judged(run: Run) -> (Run, Judgement) {
    let judgement = verdict::judge(&run);
    (run, judgement)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use fixtures::web;

    use super::*;

    #[test]
    fn what_turns_the_direction_of_writing_is_written_out_in_all_forms() {
        let (mut run, judgement) = judged(web::trade_off_and_failure());
        run.plan.title = "good\u{202e}dab\u{2066}\u{200f}\u{1b}[2J".into();
        let page = html(&run, &judgement, &[]);
        for text in [page, markdown(&run, &judgement, &[])] {
            assert!(text.contains(r"good\u{202e}dab\u{2066}\u{200f}"));
            assert!(!text.contains(['\u{202e}', '\u{2066}', '\u{200f}', '\u{1b}']));
        }
    }

    #[test]
    fn a_trade_off_and_a_failed_arm_are_told_alike_in_all_forms() {
        let (run, judgement) = judged(web::trade_off_and_failure());
        let text = terminal(&run, &judgement, &[], 100);
        let (_, closing) = text.rsplit_once("\n\n").unwrap();
        expect![[r#"
            web-static: trade-off: 7.2 serves 7.36 % more requests/s than 6.1 [+7.12 %, +7.82 %] (97.5 %
            interval), but its p99 latency is 3.4 times as long [+234 %, +236 %] (97.5 % interval), 9 blocks
                significant after 9 blocks
                sensitivity: holds without any one of 9 blocks (+7.28 % to +7.40 %); holds for margins up to 7.6
                %; server-cpu in place of the primary metric says something else (equivalent); holds at other
                prices of a string byte (+7.36 % at 1/32, +7.36 % at 1/3 of an instruction)
            web-static: 7.2-tuned failed: 10 of 10 trials (11 attempts), kernel panic
                Kernel panic - not syncing: <init> killed & gone
            web-nginx: trade-off: 7.2 serves 7.36 % more requests/s than 6.1 [+7.12 %, +7.82 %] (97.5 %
            interval), but its p99 latency is 3.4 times as long [+234 %, +236 %] (97.5 % interval), 9 blocks
                significant after 9 blocks
                sensitivity: holds without any one of 9 blocks (+7.28 % to +7.40 %); holds for margins up to 7.6
                %; server-cpu in place of the primary metric says something else (equivalent); holds at other
                prices of a string byte (+7.36 % at 1/32, +7.36 % at 1/3 of an instruction)
            web-nginx: 7.2-tuned failed: 10 of 10 trials (11 attempts), kernel panic
                Kernel panic - not syncing: <init> killed & gone
            Each workload and arm has an error rate of its own, 5.0 %. With 2 workloads and 2 arms against the
            baseline, the chance that at least one of 4 verdicts calls better or worse what is equal is up to 20
            %.
            A/A history of this machine: not known (an earlier version made this run, or a-a.json is gone)
            defects in the kernel's log: not known (an earlier version made this run)
            120 kernel options, 1 sysctl, 3 other facts differ: 4 can change any figure (boot log 2, memory
            management 1, network 1), 0 figures of what uses them, 0 none; unclassified: 120; not counted: 1
            named by the plan or by its kernels' names
            60 fairness checks: 1 violated (trials-fail-alike), 22 passed, 6 declared (boot-log,
            kernel-configuration, sysctls, clients-apart, one-load, static-pages), 27 not known (clocksource,
            command-line, compiler, congestion-control, control-groups, cpu-model, cpus, descriptors,
            huge-pages, io-scheduler, limits, listen-backlog and 15 more), 4 not applicable
            full disclosure: in report.html and report.md (tested by: not stated)
        "#]].assert_eq(closing);
        let first_table: Vec<&str> = text.lines().skip(4).take(9).collect();
        expect![[r#"
            web-static
              figure                        throughput ↑
              unit                          requests/s
              6.1                           2 285.3
              7.2                           2 453.9
              against 6.1, 97.5 % interval  +7.36 % [+7.12 %, +7.82 %] trade-off: latency-p99 +235 %
              7.2-tuned                     -
              against 6.1, 97.5 % interval  failed
            web-nginx"#]]
        .assert_eq(&first_table.join("\n"));
        let text = markdown(&run, &judgement, &[]);
        let bold = text
            .lines()
            .filter(|line| line.starts_with("**trade-off**") || line.starts_with("**failed**"));
        expect![[r#"
            **trade-off** - web-static: 7.2 serves 7.36 % more requests/s than 6.1 [+7.12 %, +7.82 %] (97.5 % interval), but its p99 latency is 3.4 times as long [+234 %, +236 %] (97.5 % interval), 9 blocks
            **failed** - web-static: 7.2-tuned failed: 10 of 10 trials (11 attempts), kernel panic: Kernel panic - not syncing: &lt;init&gt; killed &amp; gone
            **trade-off** - web-nginx: 7.2 serves 7.36 % more requests/s than 6.1 [+7.12 %, +7.82 %] (97.5 % interval), but its p99 latency is 3.4 times as long [+234 %, +236 %] (97.5 % interval), 9 blocks
            **failed** - web-nginx: 7.2-tuned failed: 10 of 10 trials (11 attempts), kernel panic: Kernel panic - not syncing: &lt;init&gt; killed &amp; gone"#]].assert_eq(&bold.collect::<Vec<_>>().join("\n"));
        let page = html(&run, &judgement, &[]);
        let (overview, rest) = page.split_once("</table>").unwrap();
        assert_eq!(
            overview.matches("pill trade-off").count(),
            2,
            "two workloads in the overview"
        );
        assert_eq!(overview.matches("pill failed").count(), 2);
        assert_eq!(overview.matches("but latency-p99 +").count(), 2);
        assert_eq!(rest.matches("headline trade-off").count(), 2);
        assert_eq!(rest.matches("headline failed").count(), 2);
        let conclusion = serde_json::to_value(&judgement.headlines[0].conclusion).unwrap();
        expect![[r#"{"against":["latency-p99"],"badge":"trade-off","primary":"better"}"#]]
            .assert_eq(&conclusion.to_string());
    }
}
