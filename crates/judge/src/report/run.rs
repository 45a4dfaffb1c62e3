//! The report of a run: its parts in order. Each part is told once as blocks; what only a page has stands in `page` and `section`.

use doc::{Block, Medium, Table};
use maud::{Markup, html};
use record::rundir::Run;
use record::verdict::Judgement;
use record::verdict::why::Why;

use crate::report::{page, section};
use crate::topics::disclosure::document as disclosure;
use crate::topics::glance::{document as glance_document, tell as glance_tell};
use crate::topics::mail::tell as mail;
use crate::topics::models::tell as models;
use crate::topics::overview::tell as overview;
use crate::topics::overview::tell::footing;
use crate::words;

/// For a terminal: the verdicts last, where the eye is.
pub fn terminal(
    run: &Run,
    judgement: &Judgement,
    whys: &[Why],
    form: impl Into<doc::terminal::Form>,
) -> String {
    let machine = crate::topics::host::tell::machine(&run.opening.machine);
    let state = crate::topics::run_state::tell::state(run, judgement);
    let mut blocks = vec![
        Block::Title(run.plan.title.clone()),
        Block::Text(format!("{machine}; {state}")),
    ];
    blocks.extend(Block::table(overview(run, judgement)));
    blocks.extend(setbacks(judgement));
    blocks.extend(warnings(judgement));
    blocks.extend(body(run, judgement, whys, Medium::Terminal));
    blocks.push(Block::Gap);
    blocks.extend(basis(run, judgement));
    blocks.push(Block::Text(crate::topics::disclosure::tell::pointer(run)));
    blocks.push(Block::Gap);
    blocks.extend(verdicts(run, judgement, whys));
    doc::terminal::render(&blocks, form)
}

/// For a pull request: the answer, a caveat and a table in the first lines, the details folded.
pub fn markdown(run: &Run, judgement: &Judgement, whys: &[Why]) -> String {
    let title = Block::Title(run.plan.title.clone());
    let mut parts = vec![doc::markdown::render(&[title])];
    let answers = answers(run, judgement, whys, None);
    let (first, others) = match answers.as_slice() {
        [] => (format!("{}.\n", doc::html::capital(NOTHING)), Vec::new()),
        [only] => (
            doc::markdown::verdict(only),
            vec![doc::markdown::details(only)],
        ),
        several => {
            let counts = Block::Lead(mail::counts(run, judgement));
            let each = several.iter();
            let each = each.flat_map(|verdict| {
                [
                    doc::markdown::verdict(verdict),
                    doc::markdown::details(verdict),
                ]
            });
            (doc::markdown::render(&[counts]), each.collect())
        }
    };
    parts.push(first);
    parts.extend(
        mail::first_caveat(run, judgement)
            .map(|text| format!("> {}\n", doc::markdown::text(&text))),
    );
    let outcome = Block::table(Table::new(mail::outcome(run, judgement), 1));
    parts.push(doc::markdown::render(&outcome));
    parts.extend(others);
    parts.push(doc::markdown::render(
        &setbacks(judgement).into_iter().collect::<Vec<_>>(),
    ));
    let mut checks = notes(run, judgement);
    checks.extend(fairness(run, judgement));
    checks.extend(warnings(judgement));
    parts.push(doc::markdown::folded(
        "Warnings, checks and settings",
        &checks,
    ));
    let mut measured: Vec<Block> = Block::table(overview(run, judgement));
    measured.extend(body(run, judgement, whys, Medium::Markdown));
    parts.push(doc::markdown::folded("All metrics and arms", &measured));
    let rows = disclosure::rows(run, judgement);
    let table = Block::Table(Table::new(rows, 3));
    parts.push(doc::markdown::folded("Full disclosure", &[table]));
    parts.push(repeat(run, judgement));
    parts.retain(|part| !part.is_empty());
    base::input::text::escaped(&parts.join("\n"))
}

/// The whole page.
pub fn html(run: &Run, judgement: &Judgement, whys: &[Why]) -> String {
    let has_headlines = !judgement.headlines.is_empty();
    let has_one_workload = run.plan.workloads.len() == 1;
    let mut top: Vec<Block> = setbacks(judgement).into_iter().collect();
    if has_one_workload {
        top.extend(headlines(run, judgement, whys, None));
    } else {
        top.push(Block::Drawing(page::overview(run, judgement)));
    }
    top.extend(multiplicity(run, judgement).map(Block::Sub));
    let count = crate::topics::findings::tell::warnings(judgement).len();
    let caveat = glance_tell::caveat(run, judgement);
    top.extend(caveat.map(|line| Block::Drawing(page::caveat(&line, count))));
    if has_one_workload {
        top.push(Block::Drawing(glance_document::workload(run, judgement, 0)));
    }
    if !has_headlines {
        top.push(Block::Drawing(
            html! { div.headline.undecided { p { (doc::html::capital(NOTHING)) "." } } },
        ));
    }
    let warnings: Vec<Block> = warnings(judgement).into_iter().collect();
    let body: Markup = html! {
        (page::header(run, judgement, &top))
        (page::contents(run, judgement))
        (doc::html::render(&warnings))
        (doc::html::render(&body(run, judgement, whys, Medium::Html)))
        (page::next(run, judgement, whys))
        (disclosure::section(run, judgement))
        (page::reading(run, judgement))
    };
    page::run(&run.plan.title, whys, &body)
}

const NOTHING: &str = "nothing measured yet, so nothing is compared";

fn setbacks(judgement: &Judgement) -> Option<Block> {
    let items = crate::topics::findings::tell::setbacks(judgement);
    Block::notice("setbacks", "What went wrong", items)
}

fn warnings(judgement: &Judgement) -> Option<Block> {
    Block::notice(
        "warnings",
        "Warnings",
        crate::topics::findings::tell::warnings(judgement),
    )
}

fn overview(run: &Run, judgement: &Judgement) -> Table {
    Table::new(overview::table(run, judgement), 3)
}

/// Verdicts of one workload, or of all.
pub(crate) fn headlines(
    run: &Run,
    judgement: &Judgement,
    whys: &[Why],
    workload: Option<&str>,
) -> Vec<Block> {
    let answers = answers(run, judgement, whys, workload).into_iter();
    answers.map(Block::Headline).collect()
}

fn answers(
    run: &Run,
    judgement: &Judgement,
    whys: &[Why],
    workload: Option<&str>,
) -> Vec<doc::Headline> {
    let headlines = judgement.headlines.iter();
    headlines
        .filter(|headline| workload.is_none_or(|workload| headline.workload == workload))
        .filter_map(|headline| {
            crate::topics::headline::tell::headline(run, judgement, whys, headline)
        })
        .collect()
}

fn verdicts(run: &Run, judgement: &Judgement, whys: &[Why]) -> Vec<Block> {
    let mut blocks = headlines(run, judgement, whys, None);
    if blocks.is_empty() {
        blocks.push(Block::Text(NOTHING.into()));
    }
    blocks
}

/// What all verdicts share: error rate, machine, differences, fairness.
fn basis(run: &Run, judgement: &Judgement) -> Vec<Block> {
    let mut blocks = notes(run, judgement);
    blocks.extend(fairness(run, judgement));
    blocks
}

fn fairness(run: &Run, judgement: &Judgement) -> Vec<Block> {
    let summary = crate::topics::fairness::tell::summary(judgement).into_iter();
    let all = summary.chain(crate::topics::fairness::tell::unused_acceptances(
        run, judgement,
    ));
    all.map(Block::Sub).collect()
}

/// What belongs below all verdicts.
fn notes(run: &Run, judgement: &Judgement) -> Vec<Block> {
    let footing = footing::lines(run, judgement);
    multiplicity(run, judgement)
        .into_iter()
        .chain(footing)
        .map(Block::Sub)
        .collect()
}

/// The error rate of all verdicts together, below the verdicts.
fn multiplicity(run: &Run, judgement: &Judgement) -> Option<String> {
    let has_headlines = !judgement.headlines.is_empty();
    overview::multiplicity(run, judgement).filter(|_| has_headlines)
}

/// Workloads, then what is told of all of them.
fn body(run: &Run, judgement: &Judgement, whys: &[Why], medium: Medium) -> Vec<Block> {
    let mut blocks = Vec::new();
    for number in 0..run.plan.workloads.len() {
        blocks.extend(section::workload(run, judgement, whys, number, medium));
    }
    let nodes = Table::new(crate::topics::nodes::tell::rows(judgement), 3).cards("cards");
    blocks.extend(part(
        "nodes",
        crate::topics::nodes::tell::TITLE,
        nodes,
        medium,
    ));
    let models = Table::new(models::rows(run), 4);
    blocks.extend(part("models", models::TITLE, models, medium));
    let defects = Table::new(crate::topics::defects::tell::rows(run, judgement), 4);
    if medium == Medium::Html {
        let drawings = [
            page::differences(judgement),
            page::fairness(run, judgement),
            page::defects(run, judgement, &defects),
            page::failures(run),
        ];
        blocks.extend(drawings.map(Block::Drawing));
        return blocks;
    }
    if medium == Medium::Markdown {
        let title = "What differed between the arms, by class";
        let by_class = Table::new(crate::topics::differences::tell::rows(judgement), 1);
        blocks.extend(Block::titled_table(title, by_class));
    }
    blocks.extend(Block::titled_table(
        crate::topics::defects::tell::TITLE,
        defects,
    ));
    if medium == Medium::Markdown {
        let failed = words::failed(run).iter().map(words::Failed::line).collect();
        blocks.extend(Block::notice("failed", "Failed trials", failed));
    }
    blocks
}

/// A table that is a section of the page; nothing without rows.
fn part(id: &str, title: &'static str, table: Table, medium: Medium) -> Vec<Block> {
    if medium != Medium::Html || table.is_empty() {
        return Block::titled_table(title, table);
    }
    let section = doc::html::section(id, title, &[Block::Table(table)]);
    vec![Block::Drawing(section)]
}

/// How to run it again, as Markdown.
fn repeat(run: &Run, judgement: &Judgement) -> String {
    use doc::markdown::text;
    let opening = &run.opening;
    let paragraph = format!(
        "State: {}. Machine: {}. bakeoff {}, seed {}. {} To run it again: `bakeoff run plan.toml` \
         with the plan of the run directory.\n",
        text(&crate::topics::run_state::tell::state(run, judgement)),
        text(&crate::topics::host::tell::machine(&opening.machine)),
        text(&opening.bakeoff),
        run.plan.design.seed,
        text(&words::clock(run))
    );
    base::input::text::escaped(&paragraph)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::report::judged;
    use record::fixtures::web;

    #[test]
    fn a_run_fits_on_a_screen() {
        let (run, judgement) = judged(web::two_kernels());
        expect![[r#"
            Web <script>alert(1)</script> & "quotes" | [a](b) 'x'
            QEMU 7.2.22, emulation (TCG), clock instructions, CPUs 1 (max), memory 1.00 GiB; finished after 10
            blocks: decided

            what went wrong:
            - web-static: arm 7.2 FAILS: no figure in block 10, and 6.1 gave one in every block
            - web-static: failed trials on arm 7.2: 2 of 11: kernel panic 2
            - web-static: attempts fail more often on one arm: 6.1 0, 7.2 2 (what makes them fail may also bend
              the figures of those that do not)
            - web-static: blocks without a figure of every arm: 1 of 10, number 10 (not compared where an arm is
              missing)

            warnings:
            - web-static: failed requests on arm 6.1: 3 (never counted as served)
            - time is counted in executed instructions, of string instructions by their bytes (caches, memory
              and devices cost nothing)
            - the clients run inside the guest, on the server's own CPUs (all figures but those of the server
              alone include the clients' work; no network is in any)

            web-static     arm  verdict      change            97.5 % interval  blocks
            -------------  ---  ----------  -------  -------------------------  ------
            throughput ↑   7.2  better      +7.36 %         [+7.12 %, +7.82 %]       9
            latency-p50 ↓  7.2  better      -6.86 %         [-7.25 %, -6.65 %]       9
            latency-p99 ↓  7.2  better      -6.86 %         [-7.25 %, -6.65 %]       9
            server-cpu ↓   7.2  equivalent  -0.74 %  [-0.75 %, -0.74 %] (90 %)       9
            failed ↓       7.2  equivalent   both 0                          -       9
            (confidence intervals, valid at every interim analysis; a row of another level names it)

            web-static                                6.1                     7.2
            ---------------------  ----------------------  ----------------------
            kernel                   6.1.0-40-cloud-amd64       7.2.3-cloud-amd64
            server                 Apache/2.4.65 (Debian)  Apache/2.4.65 (Debian)
            trials measured                            10                       9
            average CPU, user                       7.0 %                  39.0 %
            average CPU, system                    93.0 %                  60.0 %
            memory in use                         180 MiB                 200 MiB
            swap in use, peak                         0 B                     0 B
            CPU spent on sampling                   0.2 %                   0.2 %
            requests served                       228 528                 220 853
            requests per second                   2 285.3                 2 453.9
            mean request time                   33.390 ms               33.448 ms
            failed requests                             3                       0
              connection reset                          3                       0
            failed trials                               0                       2

            A/A history of this machine: not known (an earlier version made this run, or a-a.json is gone)
            defects in the kernel's log: not known (an earlier version made this run)
            124 settings differ (120 kernel options, 1 sysctl, 3 other facts): 4 may affect any result (boot log
            2, memory management 1, network 1), 0 only workloads that use them, 0 nothing; unclassified: 120;
            not counted: 1 named by the plan or by its kernels' names
            60 fairness checks: 23 passed, 6 accepted (boot-log, kernel-configuration, sysctls, clients-apart,
            one-load, static-pages), 27 unknown (clocksource, command-line, compiler, congestion-control,
            control-groups, cpu-model, cpus, descriptors, huge-pages, io-scheduler, limits, listen-backlog and
            15 more), 4 not applicable
            full disclosure: in report.html and report.md (tested by: not stated)

            better: 7.2 against 6.1, web-static (emulated, counted instructions): +7.36 % requests/s [+7.12 %,
            +7.82 %] (97.5 % interval), better; p99 latency -6.86 % [-7.25 %, -6.65 %] (97.5 % interval),
            better; 9 blocks
                significant after 9 blocks
                sensitivity: holds without any one of 9 blocks (+7.28 % to +7.40 %); holds for margins up to 7.6
                %; server-cpu in place of the primary metric says something else (equivalent); holds at other
                prices of a string byte (+7.36 % at 1/32, +7.36 % at 1/3 of an instruction)
        "#]].assert_eq(&terminal(&run, &judgement, &[], 100));
    }

    #[test]
    fn a_workload_without_clients_has_only_rows_that_say_something() {
        let (run, judgement) = judged(web::without_clients());
        let text = terminal(&run, &judgement, &[], 100);
        let (_, table) = text.rsplit_once("\n\nweb-static ").unwrap();
        let (table, _) = table.split_once("\n\n").unwrap();
        expect![[r#"
                                   6.1                7.2
            ---------------  --------------------  -----------------
            kernel           6.1.0-40-cloud-amd64  7.2.3-cloud-amd64
            trials measured                    10                  9
            failed trials                       0                  2"#]]
        .assert_eq(table);
    }

    #[test]
    fn a_narrow_terminal_gets_stacked_rows() {
        let (run, judgement) = judged(web::two_kernels());
        let text = terminal(&run, &judgement, &[], 60);
        let long: Vec<_> = text
            .lines()
            .filter(|line| line.chars().count() > 60)
            .collect();
        assert_eq!(long, Vec::<&str>::new());
        assert!(text.contains("  verdict          better"), "{text}");
    }

    #[test]
    fn an_empty_run_says_so() {
        let (run, judgement) = judged(web::just_begun());
        let text = terminal(&run, &judgement, &[], 80);
        assert!(
            text.contains("\n\nnothing measured yet, so nothing is compared\n"),
            "{text}"
        );
    }

    #[test]
    fn no_escape_sequence_reaches_the_terminal() {
        let (mut run, judgement) = judged(web::two_kernels());
        run.plan.title = "red \u{1b}[31m alert\u{7}\r\n".into();
        let text = terminal(&run, &judgement, &[], 80);
        assert!(
            text.chars()
                .all(|letter| letter == '\n' || !letter.is_control()),
            "{text:?}"
        );
    }

    #[test]
    fn the_first_lines_for_a_pull_request_have_answer_caveat_and_figures() {
        let first = |run: Run| {
            let (run, judgement) = judged(run);
            let text = markdown(&run, &judgement, &[]);
            let lines: Vec<&str> = text.lines().take(12).collect();
            lines.join("\n")
        };
        expect![[r###"
            ## Web &lt;script&gt;alert(1)&lt;/script&gt; &amp; "quotes" \| [a]\(b) 'x'

            **better** - 7.2 against 6.1, web-static (emulated, counted instructions): +7.36 % requests/s [+7.12 %, +7.82 %] (97.5 % interval), better; p99 latency -6.86 % [-7.25 %, -6.65 %] (97.5 % interval), better; 9 blocks

            > Counted instructions under emulation, not times.

            | metric | 6.1 | 7.2 | change [97.5 % interval] | verdict |
            |---|---|---|---|---|
            | throughput, requests/s | 2285 | 2454 | +7.36 % [+7.12, +7.82] | better |
            | latency-p99, ms | 47.26 | 44.01 | -6.86 % [-7.25, -6.65] | better |
            | server-cpu, µs/request | 403.0 | 400.0 | -0.74 % [-0.75, -0.74] (90 %) | equivalent |
            | failed, share | 0 | 0 | both 0 | equivalent |"###]].assert_eq(&first(web::two_kernels()));
        expect![[r###"
            ## Web &lt;script&gt;alert(1)&lt;/script&gt; &amp; "quotes" \| [a]\(b) 'x'

            **4 verdicts against 6.1: 2 trade-off, 2 failed**

            > Counted instructions under emulation, not times.

            | workload | arm | verdict | primary metric, 97.5 % interval | p99, 97.5 % interval |
            |---|---|---|---|---|
            | web-static | 7.2 | trade-off | throughput +7.36 % [+7.12, +7.82] | p99 latency 3.4x [3.3, 3.4] |
            | web-static | 7.2-tuned | failed | - | - |
            | web-nginx | 7.2 | trade-off | throughput +7.36 % [+7.12, +7.82] | p99 latency 3.4x [3.3, 3.4] |
            | web-nginx | 7.2-tuned | failed | - | - |"###]].assert_eq(&first(web::trade_off_and_failure()));
        expect![[r###"
            ## Web &lt;script&gt;alert(1)&lt;/script&gt; &amp; "quotes" \| [a]\(b) 'x'

            Nothing measured yet, so nothing is compared.

            > web-static: whole blocks so far: 0, the plan wants 4 at least (no verdict before that)

            <details><summary>Warnings, checks and settings</summary>

            **Warnings**

            - web-static: whole blocks so far: 0, the plan wants 4 at least (no verdict before that)
            - time is counted in executed instructions, of string instructions by their bytes (caches, memory and devices cost nothing)"###]].assert_eq(&first(web::just_begun()));
    }

    #[test]
    fn details_are_folded_and_failures_are_not() {
        let (run, judgement) = judged(web::two_kernels());
        let text = markdown(&run, &judgement, &[]);
        let folds: Vec<&str> = text.split("<details>").collect();
        assert!(folds[0].contains("**What went wrong**"), "{}", folds[0]);
        let titles = folds[1..].iter().map(|fold| fold.lines().next().unwrap());
        expect![[r#"
            <summary>Warnings, checks and settings</summary>
            <summary>All metrics and arms</summary>
            <summary>Full disclosure</summary>"#]]
        .assert_eq(&titles.collect::<Vec<_>>().join("\n"));
        assert_eq!(text.matches("</details>").count(), folds.len() - 1);
    }
}
