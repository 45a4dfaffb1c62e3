//! A loaded run in, HTML, Markdown or terminal text out. Computes no statistics.
//!
//! ```text
//! words      sentences and numbers, the same in all three forms: nothing below this room composes a sentence for users
//! json       what was judged as data, with its sentences
//! page       the HTML page: sections from top to bottom
//! section    its part about one workload
//! headline   what the page says first of an arm; a verdict as a badge
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
//! markdown   for a mail or a pull request
//! terminal   for a terminal
//! ```
//! The page stands alone: it embeds its style and, for call trees, one script that its content security policy knows by its hash; every
//! network request is forbidden to it. Whatever comes from a plan, a server or a
//! console is text to it, never markup.

use ::fairness::Vain;
use input::text::escaped;
use maud::Markup;
use plan::Plan;
use record::bisect::{Bisection, Walk};
use record::defect::FoundDefect;
use record::fleet::Node;
use record::journal::CloseReason;
use record::load::Fault;
use record::load_path::{CeilingOutcome, OneFewerOutcome};
use record::machine::MachineDescription;
use record::night::Index;
use record::rundir::Run;
use record::verdict::apart::{Change, Obstacle};
use record::verdict::confirm::Confirmation;
use record::verdict::defects::ArmDefect;
use record::verdict::fairness::Finding;
use record::verdict::look::Look;
use record::verdict::reason::SampleReason;
use record::verdict::soak::Soak;
use record::verdict::warning::{Disturbance, Gate};
use record::verdict::why::{LostReason, Unexplained, Why};
use record::verdict::{Comparison, Judgement};
use serde_json::Value;

mod bisect;
#[cfg(test)]
mod browser;
mod chart;
mod confirm;
mod curves;
mod disclosure;
mod fairness;
mod footing;
mod headline;
mod json;
pub mod levels;
pub mod live;
mod markdown;
mod mitigations;
mod models;
mod night;
mod overview;
mod page;
mod robustness;
mod scaling;
mod section;
mod soak;
mod terminal;
mod why;
mod words;

/// Markup as it goes out. What would turn the direction of writing in it, or be obeyed otherwise, is written out as on a terminal.
fn shown(markup: Markup) -> String {
    escaped(&markup.into_string())
}

/// A self-contained page. It has a script, for call trees, where there are explanations; all else works without.
pub fn html(run: &Run, judgement: &Judgement, whys: &[Why]) -> String {
    page::page(run, judgement, whys)
}

/// For a mail or a pull request: GitHub's Markdown, readable as plain text too.
pub fn markdown(run: &Run, judgement: &Judgement, whys: &[Why]) -> String {
    escaped(&markdown::markdown(run, judgement, whys))
}

/// For a terminal of `width` columns. Plain text with a line break at its end, without colours and
/// without the control characters that a title or a console may hold.
pub fn terminal(run: &Run, judgement: &Judgement, whys: &[Why], width: usize) -> String {
    terminal::terminal(run, judgement, whys, width)
}

/// For machines: the judgement, beside each reason, gate, setback and warning its sentence, `text`, and the run's disclosure.
pub fn json(run: &Run, judgement: &Judgement) -> Value {
    json::json(run, judgement)
}

/// The index of a night: a self-contained page without a script.
pub fn night_html(index: &Index) -> String {
    night::page(index)
}

/// The same for a mail or a pull request.
pub fn night_markdown(index: &Index) -> String {
    escaped(&night::as_markdown(index))
}

/// The same for a terminal of `width` columns.
pub fn night_terminal(index: &Index, width: usize) -> String {
    night::as_text(index, width)
}

/// What the checks of the fairness gate found, for a terminal of so many columns.
pub fn fairness_terminal(run: &Run, judgement: &Judgement, width: usize) -> String {
    fairness::terminal(run, judgement, width)
}

/// What can be set alike in all arms and was not, as `[pinned]` of a plan; what cannot, as comments.
pub fn pinned(plan: &Plan, judgement: &Judgement) -> String {
    words::weighed::pinned(plan, judgement)
}

/// All checks of the fairness gate, as Markdown.
pub fn fairness_page() -> String {
    fairness::page()
}

/// Violations, a sentence each.
pub fn violations(findings: &[Finding]) -> Vec<String> {
    words::fairness::violations(findings)
}

/// What is declared, a line each.
pub fn declared(findings: &[Finding]) -> Vec<String> {
    words::fairness::declared(findings)
}

/// Violations found after so many blocks of a run that goes on, 0 for before the first, and what can be done. Its first test comes
/// after `min_blocks`.
pub fn early_violations(blocks: u32, min_blocks: u32, findings: &[Finding]) -> Vec<String> {
    words::fairness::early(blocks, min_blocks, findings)
}

/// A defect of a trial, as it is told while the run goes on.
pub fn defect(found: &FoundDefect) -> String {
    words::defect::told(found)
}

/// A defect of an arm in a sentence: `new in 7.2: 1 hung task (io_schedule)`.
pub fn arm_defect(run: &Run, defect: &ArmDefect) -> String {
    words::defect::of_arm(run, defect)
}

/// Why a reason was accepted in vain.
pub fn accepted_in_vain(one: &Vain) -> String {
    words::fairness::vain(one)
}

/// The check whose name is nearest to one that there is not.
pub fn nearest_check(id: &str) -> &'static str {
    words::fairness::nearest_check(id)
}

/// The violations of a run, and the reasons with which some were accepted, a line each.
pub fn fairness_in_short(judgement: &Judgement) -> Vec<String> {
    words::fairness::all_in_short(judgement)
}

/// All checks, for machines.
pub fn fairness_list() -> Value {
    fairness::list()
}

/// Why a comparison's verdict is what it is; for an undecided one, what would settle it.
pub fn reason(comparison: &Comparison) -> String {
    words::reason::reason(comparison)
}

/// The same of figures that others took.
pub fn sample_reason(reason: &SampleReason) -> String {
    words::reason::sample_reason(reason)
}

/// The same of runs that are not as many of each arm: names and counts.
pub fn sample_reason_of(reason: &SampleReason, counts: [(&str, usize); 2]) -> String {
    words::reason::sample_reason_of(reason, counts)
}

/// Growth that speaks against arms, a line each.
pub fn growth(soak: &Soak) -> Vec<String> {
    words::soak::against_arms(soak)
}

/// Failed requests, outages and trials that were cut short, of arms other than the baseline, a line each.
pub fn failures(soak: &Soak, baseline: &str) -> Vec<String> {
    words::soak::failures(soak, baseline)
}

/// Why an arm fails.
pub fn gate(gate: &Gate) -> String {
    words::warning::gate(gate)
}

/// What came of the measurement of a workload's ceiling: a line for who watches the run.
pub fn ceiling(workload: &str, outcome: &CeilingOutcome) -> String {
    words::limit::ceiling(workload, outcome)
}

/// What came of an arm with one client fewer: a line for who watches the run.
pub fn one_fewer(of: (&str, &str), outcome: &OneFewerOutcome) -> String {
    words::limit::one_fewer(of, outcome)
}

/// What disturbed a block.
pub fn disturbance(disturbance: &Disturbance) -> String {
    words::warning::disturbance(disturbance)
}

/// What went wrong in a run, failed gates first.
pub fn setbacks(judgement: &Judgement) -> Vec<String> {
    words::warning::setbacks(judgement)
}

/// What a reader must know before the figures.
pub fn warnings(judgement: &Judgement) -> Vec<String> {
    words::warning::warnings(judgement)
}

/// How far one primary metric is at a look.
pub fn look(look: &Look) -> String {
    words::look::look(look)
}

/// What trials ran on, in one line.
pub fn machine(machine: &MachineDescription) -> String {
    words::machine::machine(machine)
}

/// That a block was taken over from a node.
pub fn merged(block: u32, node: &Node, given_up_on: &[String]) -> String {
    words::fleet::merged(block, node, given_up_on)
}

/// Why a run ended.
pub fn close_reason(reason: &CloseReason) -> String {
    words::run_state::close_reason(reason)
}

/// What keeps two runs from being compared.
pub fn obstacle(obstacle: &Obstacle) -> String {
    words::apart::obstacle(obstacle)
}

/// What differs between two runs that are compared.
pub fn change(change: &Change) -> String {
    words::apart::change(change)
}

/// What made a difference, in one sentence.
pub fn why_sentence(why: &Why) -> String {
    words::why::sentence(why)
}

/// What made a difference, for a terminal of `width` columns.
pub fn why_terminal(why: &Why, width: usize) -> String {
    why::terminal(why, width)
}

/// How much of a difference settings explain, for a terminal.
pub fn confirmation_terminal(found: &Confirmation, width: usize) -> String {
    confirm::terminal(found, width)
}

/// The same for a mail or a pull request.
pub fn confirmation_markdown(found: &Confirmation) -> String {
    escaped(&confirm::markdown(found))
}

/// The same for machines, with the sentences as `text`.
pub fn confirmation_json(found: &Confirmation) -> Value {
    confirm::json(found)
}

/// The same for a mail or a pull request.
pub fn why_markdown(why: &Why) -> String {
    escaped(&why::markdown(why))
}

/// The same for machines, with the sentence as `text`.
pub fn why_json(why: &Why) -> Value {
    why::json(why)
}

/// Why nothing can be explained.
pub fn unexplained(unexplained: &Unexplained) -> String {
    words::why::unexplained(unexplained)
}

/// What to do about trials that cannot be explained, for these reasons.
pub fn why_remedy(reasons: impl IntoIterator<Item = LostReason>) -> &'static str {
    words::why::remedy(reasons)
}

/// Where a bisection stands, in a line.
pub fn bisection_line(now: &Bisection) -> String {
    bisect::line(now)
}

/// A bisection for a terminal of `width` columns.
pub fn bisection_terminal(found: &Bisection, width: usize) -> String {
    bisect::terminal(found, width)
}

/// A bisection as a self-contained page.
pub fn bisection_html(found: &Bisection) -> String {
    bisect::page::bisection(found)
}

/// A walk as a self-contained page.
pub fn walk_html(walk: &Walk) -> String {
    bisect::page::walk(walk)
}

/// A walk for a terminal of `width` columns.
pub fn walk_terminal(walk: &Walk, width: usize) -> String {
    bisect::walk_terminal(walk, width)
}

/// A table for a terminal of `width` columns, the first row its head, the first `left` columns at the left.
/// Where it is too wide, every row becomes a few lines of `name value`.
pub fn table(rows: &[Vec<String>], left: usize, width: usize) -> Vec<String> {
    terminal::table(rows, left, width)
}

/// Text of others as GitHub's Markdown takes it for text: no markup, no HTML, one line.
pub fn markdown_text(text: &str) -> String {
    markdown::text(text)
}

/// A class of fault in words.
pub fn fault(fault: Fault) -> &'static str {
    words::fault(fault)
}

/// Lines of at most `width` columns, the first after `lead`, the others as far in.
pub fn wrap(text: &str, lead: &str, width: usize) -> Vec<String> {
    terminal::wrap(text, lead, width)
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
        let first_table: Vec<&str> = text.lines().skip(3).take(9).collect();
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
