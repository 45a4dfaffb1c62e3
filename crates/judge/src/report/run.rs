//! The report of a run: its parts in order. Each part is told once as blocks; what only a page has stands in `page` and `section`.

use doc::{Block, Medium, Table};
use maud::{Markup, html};
use record::rundir::Run;
use record::verdict::Judgement;
use record::verdict::why::Why;

use crate::report::{page, section};
use crate::topics::disclosure::document as disclosure;
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

/// For a mail or a pull request.
pub fn markdown(run: &Run, judgement: &Judgement, whys: &[Why]) -> String {
    let mut blocks = vec![Block::Title(run.plan.title.clone())];
    blocks.extend(setbacks(judgement));
    blocks.extend(Block::table(overview(run, judgement)));
    blocks.extend(answer(run, judgement, whys));
    blocks.extend(warnings(judgement));
    blocks.extend(body(run, judgement, whys, Medium::Markdown));
    let rows = disclosure::rows(run, judgement);
    blocks.push(Block::Table(Table::new(rows, 3)));
    doc::markdown::render(&blocks) + "\n" + &repeat(run, judgement)
}

/// The whole page.
pub fn html(run: &Run, judgement: &Judgement, whys: &[Why]) -> String {
    let has_headlines = !judgement.headlines.is_empty();
    let mut top: Vec<Block> = setbacks(judgement).into_iter().collect();
    if run.plan.workloads.len() > 1 {
        top.push(Block::Drawing(page::overview(run, judgement)));
    } else {
        top.extend(headlines(run, judgement, whys, None));
    }
    top.extend(notes(run, judgement));
    if !has_headlines {
        top.push(Block::Drawing(
            html! { div.headline.undecided { p { (doc::html::capital(NOTHING)) "." } } },
        ));
    }
    let warnings: Vec<Block> = warnings(judgement).into_iter().collect();
    let body: Markup = html! {
        (page::header(run, judgement, &top))
        (doc::html::render(&warnings))
        (page::contents(run, judgement))
        (doc::html::render(&body(run, judgement, whys, Medium::Html)))
        (disclosure::section(run, judgement))
        (page::repeat(run))
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
    let headlines = judgement.headlines.iter();
    headlines
        .filter(|headline| workload.is_none_or(|workload| headline.workload == workload))
        .filter_map(|headline| {
            crate::topics::headline::tell::headline(run, judgement, whys, headline)
        })
        .map(Block::Headline)
        .collect()
}

/// The verdicts and their basis.
fn answer(run: &Run, judgement: &Judgement, whys: &[Why]) -> Vec<Block> {
    [verdicts(run, judgement, whys), basis(run, judgement)]
        .into_iter()
        .flatten()
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
    let fairness = crate::topics::fairness::tell::summary(judgement).into_iter();
    let fairness = fairness.chain(crate::topics::fairness::tell::in_vain(run, judgement));
    blocks.extend(fairness.map(Block::Sub));
    blocks
}

/// What belongs below all verdicts.
fn notes(run: &Run, judgement: &Judgement) -> Vec<Block> {
    let has_headlines = !judgement.headlines.is_empty();
    let multiplicity = overview::multiplicity(run, judgement).filter(|_| has_headlines);
    let footing = footing::lines(run, judgement);
    multiplicity
        .into_iter()
        .chain(footing)
        .map(Block::Sub)
        .collect()
}

/// Workloads, then what is told of all of them.
fn body(run: &Run, judgement: &Judgement, whys: &[Why], medium: Medium) -> Vec<Block> {
    let mut blocks = Vec::new();
    for number in 0..run.plan.workloads.len() {
        blocks.extend(section::workload((run, judgement), whys, number, medium));
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
            (confidence intervals, valid at every look; a row of another level names it)

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
            120 kernel options, 1 sysctl, 3 other facts differ: 4 can change any figure (boot log 2, memory
            management 1, network 1), 0 figures of what uses them, 0 none; unclassified: 120; not counted: 1
            named by the plan or by its kernels' names
            60 fairness checks: 23 passed, 6 accepted (boot-log, kernel-configuration, sysctls, clients-apart,
            one-load, static-pages), 27 unknown (clocksource, command-line, compiler, congestion-control,
            control-groups, cpu-model, cpus, descriptors, huge-pages, io-scheduler, limits, listen-backlog and
            15 more), 4 not applicable
            full disclosure: in report.html and report.md (tested by: not stated)

            better: 7.2 serves 7.36 % more requests/s than 6.1 [+7.12 %, +7.82 %] (97.5 % interval), 9 blocks
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
    fn a_run_fits_into_a_mail() {
        let (run, judgement) = judged(web::two_kernels());
        expect![[r###"
            ## Web &lt;script&gt;alert(1)&lt;/script&gt; &amp; "quotes" \| [a]\(b) 'x'

            **What went wrong**

            - web-static: arm 7.2 FAILS: no figure in block 10, and 6.1 gave one in every block
            - web-static: failed trials on arm 7.2: 2 of 11: kernel panic 2
            - web-static: attempts fail more often on one arm: 6.1 0, 7.2 2 (what makes them fail may also bend the figures of those that do not)
            - web-static: blocks without a figure of every arm: 1 of 10, number 10 (not compared where an arm is missing)

            **better** - 7.2 serves 7.36 % more requests/s than 6.1 [+7.12 %, +7.82 %] (97.5 % interval), 9 blocks

            A/A history of this machine: not known (an earlier version made this run, or a-a.json is gone)

            defects in the kernel's log: not known (an earlier version made this run)

            120 kernel options, 1 sysctl, 3 other facts differ: 4 can change any figure (boot log 2, memory management 1, network 1), 0 figures of what uses them, 0 none; unclassified: 120; not counted: 1 named by the plan or by its kernels' names

            60 fairness checks: 23 passed, 6 accepted (boot-log, kernel-configuration, sysctls, clients-apart, one-load, static-pages), 27 unknown (clocksource, command-line, compiler, congestion-control, control-groups, cpu-model, cpus, descriptors, huge-pages, io-scheduler, limits, listen-backlog and 15 more), 4 not applicable

            **Warnings**

            - web-static: failed requests on arm 6.1: 3 (never counted as served)
            - time is counted in executed instructions, of string instructions by their bytes (caches, memory and devices cost nothing)
            - the clients run inside the guest, on the server's own CPUs (all figures but those of the server alone include the clients' work; no network is in any)

            | web-static | arm | verdict | change | 97.5 % interval | blocks |
            |---|---|---|---|---|---|
            | throughput ↑ | 7.2 | better | +7.36 % | [+7.12 %, +7.82 %] | 9 |
            | latency-p50 ↓ | 7.2 | better | -6.86 % | [-7.25 %, -6.65 %] | 9 |
            | latency-p99 ↓ | 7.2 | better | -6.86 % | [-7.25 %, -6.65 %] | 9 |
            | server-cpu ↓ | 7.2 | equivalent | -0.74 % | [-0.75 %, -0.74 %] (90 %) | 9 |
            | failed ↓ | 7.2 | equivalent | both 0 | - | 9 |

            (confidence intervals, valid at every look; a row of another level names it)

            What the headline hangs on:

            | changed | 7.2 |
            |---|---|
            | each block left out in turn | holds without any one of 9 blocks (+7.28 % to +7.40 %) |
            | another margin | holds for margins up to 7.6 % |
            | another metric as the primary one | server-cpu in place of the primary metric says something else (equivalent) |
            | another price of string instructions | holds at other prices of a string byte (+7.36 % at 1/32, +7.36 % at 1/3 of an instruction) |
            | another CPU model | - |

            | web-static | 6.1 | 7.2 |
            |---|---|---|
            | kernel | 6.1.0-40-cloud-amd64 | 7.2.3-cloud-amd64 |
            | server | Apache/2.4.65 (Debian) | Apache/2.4.65 (Debian) |
            | trials measured | 10 | 9 |
            | average CPU, user | 7.0 % | 39.0 % |
            | average CPU, system | 93.0 % | 60.0 % |
            | memory in use | 180 MiB | 200 MiB |
            | swap in use, peak | 0 B | 0 B |
            | CPU spent on sampling | 0.2 % | 0.2 % |
            | requests served | 228 528 | 220 853 |
            | requests per second | 2 285.3 | 2 453.9 |
            | mean request time | 33.390 ms | 33.448 ms |
            | failed requests | 3 | 0 |
            | connection reset | 3 | 0 |
            | failed trials | 0 | 2 |

            What differed between the arms, by class:

            | class | options | sysctls | other facts | what it can do to figures |
            |---|---|---|---|---|
            | memory management | 0 | 0 | 1 | page faults, huge pages, reclaim: tens of percents where memory is short or large |
            | network | 0 | 1 | 0 | buffers and defaults of TCP: tens of percents over real networks, little over loopback |
            | boot log | 0 | 0 | 2 | what failed or fell back at boot: read it |
            | unclassified | 120 | 0 | 0 | not known: read them |

            **Failed trials**

            - trial 006 (arm 7.2, web-static, block 3), attempt 1: kernel panic: Kernel panic - not syncing: &lt;init&gt; killed &amp; gone
            - trial 019 (arm 7.2, web-static, block 10), attempt 1: kernel panic: Kernel panic - not syncing: &lt;init&gt; killed &amp; gone

            | Full disclosure |  |  |
            |---|---|---|
            | Test | tested by | not stated |
            |  | paid for by | not stated |
            |  | availability | not stated |
            |  | measured | 2026-01-01 10:00 to 2026-01-01 10:41, UTC |
            | Hardware | machine | QEMU 7.2.22, emulation (TCG), clock instructions, CPUs 1 (max), memory 1.00 GiB |
            |  | not known | host: product, host: firmware, host: CPU, host: CPUs, host: SMT, host: caches, host: CPU frequency, host: microcode, host: NUMA nodes, host: memory, host: disk, host: network card, guest: CPU, guest: CPUs, guest: NUMA nodes, guest: memory |
            | Software | kernel | 6.1: 6.1.0-40-cloud-amd64; 7.2: 7.2.3-cloud-amd64 |
            |  | kernel from | 6.1: debian:bookworm/6.1; 7.2: debian:trixie-backports/7.2 |
            |  | image recipe | web |
            |  | server | Apache/2.4.65 (Debian) |
            |  | bakeoff | 0.1.0 |
            |  | not known | kernel built by, command line as booted, user land, host: kernel |
            | Tuning | arm 6.1 | changes nothing; by whom and why: not stated |
            |  | arm 7.2 | changes nothing; by whom and why: not stated |
            |  | not tuned in any arm | command line, sysctls, CPUs, environment, server configuration, server programs, I/O scheduler, debugfs (defaults of kernels, packages and bakeoff, in all arms) |
            | Workloads | web-static | web-static: not known |
            | Rules | question | not declared: defaults differ as the kernels bring them (mode of the plan says whether code or products are asked about) |
            |  | order | each block runs every arm once, back to back, in an order drawn from seed 7 |
            |  | blocks | 10 run; the plan sets at least 4 and at most 30; 1 interim check during the run |
            |  | decision | margin 1 % and error rate 5 %, fixed before the first trial; the warm-up is an option of each workload |
            | Deviations | checks without an answer | clocksource, command-line, compiler, congestion-control, control-groups, cpu-model, cpus, descriptors, huge-pages, io-scheduler, limits, listen-backlog, memory, mitigations, mounts, numa, power, security-modules, server-configuration, server-program, smt, socket-buffers, swap, user-land, workers, writeback, a-a-history |
            |  | failed trials | web-static, arm 7.2: 2 of 11, listed in the report |
            |  | warnings | 3 warnings, listed above |
            | SHA-256 | journal | not known |
            |  | kernel 6.1 | 0c1d0c1d0c1d0c1d0c1d0c1d0c1d0c1d0c1d0c1d0c1d0c1d0c1d0c1d0c1d0c1d |
            |  | kernel 7.2 | 9e8f9e8f9e8f9e8f9e8f9e8f9e8f9e8f9e8f9e8f9e8f9e8f9e8f9e8f9e8f9e8f |
            |  | plan | 5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a |
            |  | not known | user land's packages |
            |  | cache key of the image | 77b177b177b177b177b177b177b177b177b177b177b177b177b177b177b177b1 |
            |  | cache keys | hashes of the sources of a kernel or image, not of a file |
            | To run it again | one command | bakeoff run plan.toml --out DIR, with plan.toml of the run directory |
            |  | the same figures | bakeoff show RUN: the journal names each trial's record by its SHA-256 |

            State: finished after 10 blocks: decided. Machine: QEMU 7.2.22, emulation (TCG), clock instructions, CPUs 1 (max), memory 1.00 GiB. bakeoff 0.1.0, seed 7. Executed instructions: the guest's clock advances by 2 ns with each. Figures compare the length of the path that the code takes for the same work, and repeat from boot to boot. Caches, memory and devices cost nothing in them, so a second is not a second of a real machine, and only ratios between arms are meant to be read. To run it again: `bakeoff run plan.toml` with the plan of the run directory.
        "###]].assert_eq(&markdown(&run, &judgement, &[]));
    }
}
