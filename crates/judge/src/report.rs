//! A loaded run in, HTML, Markdown or terminal text out. No statistics are computed here.
//!
//! ```text
//! run        all topics in order, and which medium has which
//! section    the part about one workload
//! page       what only the page of a run has
//! chart      its charts, as SVG
//! card       a summary as one SVG
//! mail       plain text for a mailing list
//! json       the judgement as data, with its sentences
//! ```
//! Each topic makes blocks, which the crate `doc` renders for a terminal, Markdown and pages.
//! The page stands alone: it embeds its style and, for call trees, one script that its content security policy knows by its hash; every
//! network request is forbidden to it. Whatever comes from a plan, a server or a
//! console is text to it, never markup.

use base::input::text::escaped;
use maud::Markup;
#[cfg(test)]
use record::{rundir::Run, verdict::Judgement};

#[cfg(test)]
pub(crate) mod browser;
pub(crate) mod card;
pub(crate) mod chart;
pub(crate) mod json;
pub(crate) mod mail;
pub(crate) mod page;
pub(crate) mod run;
pub(crate) mod section;

pub use crate::topics::apart::tell::change;
pub use crate::topics::apart::tell::obstacle;
pub use crate::topics::bisect::tell::line as bisection_line;
pub use crate::topics::bisect::tell::page::bisection as bisection_html;
pub use crate::topics::bisect::tell::page::series as series_html;
pub use crate::topics::bisect::tell::series_terminal;
pub use crate::topics::bisect::tell::terminal as bisection_terminal;
pub use crate::topics::confirm::document::json as confirmation_json;
pub use crate::topics::confirm::document::markdown as confirmation_markdown;
pub use crate::topics::confirm::document::terminal as confirmation_terminal;
pub use crate::topics::defects::tell::defect;
pub use crate::topics::defects::tell::of_arm as arm_defect;
pub use crate::topics::differences::tell::pinned;
pub use crate::topics::fairness::document::list as fairness_list;
pub use crate::topics::fairness::document::page as fairness_page;
pub use crate::topics::fairness::document::terminal as fairness_terminal;
pub use crate::topics::fairness::tell::accepted_differences;
pub use crate::topics::fairness::tell::all_in_short as fairness_in_short;
pub use crate::topics::fairness::tell::early as early_failed_checks;
pub use crate::topics::fairness::tell::failed_checks;
pub use crate::topics::fairness::tell::nearest_check;
pub use crate::topics::fairness::tell::unused_acceptance;
pub use crate::topics::findings::tell::disturbance;
pub use crate::topics::findings::tell::setbacks;
pub use crate::topics::findings::tell::text as finding;
pub use crate::topics::findings::tell::warnings;
pub use crate::topics::host::tell::machine;
pub use crate::topics::interim::tell::interim_analysis;
pub use crate::topics::limits::tell::ceiling;
pub use crate::topics::limits::tell::one_fewer;
pub use crate::topics::mail::find::{Culprit, Step};
pub use crate::topics::metrics::tell::reason;
pub use crate::topics::metrics::tell::sample_reason;
pub use crate::topics::metrics::tell::sample_reason_of;
pub use crate::topics::night::document::as_markdown as night_markdown;
pub use crate::topics::night::document::as_text as night_terminal;
pub use crate::topics::night::document::page as night_html;
pub use crate::topics::nodes::tell::merged;
pub use crate::topics::run_state::tell::close_reason;
pub use crate::topics::soak::tell::against_arms as growth;
pub use crate::topics::soak::tell::failures;
pub use crate::topics::why::document::json as why_json;
pub use crate::topics::why::document::markdown as why_markdown;
pub use crate::topics::why::document::terminal as why_terminal;
pub use crate::topics::why::tell::remedy as why_remedy;
pub use crate::topics::why::tell::sentence as why_sentence;
pub use crate::topics::why::tell::unexplained;
pub use crate::words::fault;
pub use card::card;
pub use json::{VERSION as JSON_VERSION, json};
pub use mail::{Bundle, MailOptions, mail};
pub use run::html;
pub use run::markdown;
pub use run::terminal;

/// Markup as it goes out. What would turn the direction of writing in it, or be obeyed otherwise, is written out as on a terminal.
pub(crate) fn shown(markup: Markup) -> String {
    escaped(&markup.into_string())
}

/// A run with what is to be reported of it.
#[cfg(test)]
pub(crate) fn judged(run: Run) -> (Run, Judgement) {
    let judgement = crate::judge(&run);
    (run, judgement)
}

#[cfg(test)]
pub(crate) mod tests {
    use expect_test::expect;

    use record::fixtures::web;

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
            web-static: trade-off: 7.2 against 6.1 (emulated, counted instructions): +7.36 % requests/s [+7.12
            %, +7.82 %] (97.5 % interval), better; p99 latency 3.4x [3.3x, 3.4x] (97.5 % interval), worse; 9
            blocks
                significant after 9 blocks
                sensitivity: holds without any one of 9 blocks (+7.28 % to +7.40 %); holds for margins up to 7.6
                %; server-cpu in place of the primary metric says something else (equivalent); holds at other
                prices of a string byte (+7.36 % at 1/32, +7.36 % at 1/3 of an instruction)
            web-static: 7.2-tuned failed: 10 of 10 trials (11 attempts), kernel panic
                Kernel panic - not syncing: <init> killed & gone
            web-nginx: trade-off: 7.2 against 6.1 (emulated, counted instructions): +7.36 % requests/s [+7.12 %,
            +7.82 %] (97.5 % interval), better; p99 latency 3.4x [3.3x, 3.4x] (97.5 % interval), worse; 9 blocks
                significant after 9 blocks
                sensitivity: holds without any one of 9 blocks (+7.28 % to +7.40 %); holds for margins up to 7.6
                %; server-cpu in place of the primary metric says something else (equivalent); holds at other
                prices of a string byte (+7.36 % at 1/32, +7.36 % at 1/3 of an instruction)
            web-nginx: 7.2-tuned failed: 10 of 10 trials (11 attempts), kernel panic
                Kernel panic - not syncing: <init> killed & gone
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
            **trade-off** - web-static: 7.2 against 6.1 (emulated, counted instructions): +7.36 % requests/s [+7.12 %, +7.82 %] (97.5 % interval), better; p99 latency 3.4x [3.3x, 3.4x] (97.5 % interval), worse; 9 blocks
            **failed** - web-static: 7.2-tuned failed: 10 of 10 trials (11 attempts), kernel panic: Kernel panic - not syncing: &lt;init&gt; killed &amp; gone
            **trade-off** - web-nginx: 7.2 against 6.1 (emulated, counted instructions): +7.36 % requests/s [+7.12 %, +7.82 %] (97.5 % interval), better; p99 latency 3.4x [3.3x, 3.4x] (97.5 % interval), worse; 9 blocks
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
