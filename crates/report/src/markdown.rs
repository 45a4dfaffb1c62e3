//! The report for a mail or a pull request: short, and readable before it is rendered.

use record::rundir::Run;
use record::verdict::why::Why;
use record::verdict::{Comparison, Judgement};

use crate::words::disturbances;
use crate::{curves, disclosure, footing, models, overview, robustness, scaling, soak, words};

/// What went wrong, verdicts in sentences, warnings, a section for each workload, failures, how to repeat it.
pub(crate) fn markdown(run: &Run, judgement: &Judgement, whys: &[Why]) -> String {
    let mut parts = vec![format!("## {}\n", text(&run.plan.title))];
    parts.extend(bullets(
        "What went wrong",
        &words::warning::setbacks(judgement),
    ));
    parts.extend(table(&overview::table(run, judgement)));
    let headlines = words::headlines(run, judgement, whys);
    parts.extend(headlines.iter().map(|one| headline(run, one)));
    parts.extend(overview::multiplicity(run, judgement).map(|said| text(&said) + "\n"));
    let footing = footing::lines(run, judgement).into_iter();
    let fairness = words::fairness::summary(judgement);
    let in_vain = words::fairness::in_vain(run, judgement);
    let closing = footing.chain(fairness).chain(in_vain);
    parts.extend(closing.map(|said| text(&said) + "\n"));
    parts.extend(bullets("Warnings", &words::warning::warnings(judgement)));
    for workload in &run.plan.workloads {
        if run.plan.workloads.len() > 1 {
            parts.push(format!("### {}\n", text(&workload.id)));
        }
        parts.extend(section(run, judgement, &workload.id));
    }
    if let Some(rows) = table(&words::fleet::rows(judgement)) {
        parts.push(format!("{}:\n\n{rows}", words::fleet::TITLE));
    }
    if let Some(rows) = table(&models::rows(run)) {
        parts.push(format!("{}:\n\n{rows}", models::TITLE));
    }
    if let Some(rows) = table(&words::weighed::rows(judgement)) {
        parts.push(format!(
            "What differed between the arms, by class:\n\n{rows}"
        ));
    }
    if let Some(rows) = table(&words::defect::rows(run, judgement)) {
        parts.push(format!("{}:\n\n{rows}", words::defect::TITLE));
    }
    parts.extend(bullets("Failed trials", &failures(run)));
    parts.extend(table(&disclosure::rows(run, judgement)));
    parts.push(repeat(run, judgement));
    parts.join("\n")
}

fn headline(run: &Run, headline: &words::Headline<'_>) -> String {
    let mut said = headline.said.clone();
    if run.plan.workloads.len() > 1 {
        said = format!("{}: {said}", headline.workload);
    }
    // What is open needs its reason more than what is decided; what is withheld has a list of them.
    if headline.is_open && headline.found.is_empty() {
        said = format!("{said}: {}", headline.reason);
    }
    let mut parts = vec![format!("**{}** - {}\n", headline.word, text(&said))];
    if !headline.found.is_empty() {
        let found = headline.found.iter();
        let items: Vec<String> = found.map(|said| format!("- {}\n", text(said))).collect();
        parts.extend([items.concat(), text(&headline.reason) + "\n"]);
    }
    let defects = headline.defects.iter();
    parts.extend(defects.map(|said| format!("**defects** - {}\n", text(said))));
    let accepted = headline.accepted.iter();
    parts.extend(accepted.map(|said| format!("**accepted** - {}\n", text(said))));
    parts.extend(headline.limits.iter().map(|said| text(said) + "\n"));
    let cause = headline.cause.iter();
    parts.extend(cause.map(|cause| format!("**why** - {}\n", text(cause))));
    parts.join("\n")
}

/// One workload: its metrics, its curves, and what each arm did.
fn section(run: &Run, judgement: &Judgement, workload: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(table(&words::metric_rows(judgement, workload)));
    let its = judgement.comparisons.iter();
    let its: Vec<&Comparison> = its.filter(|one| one.workload == workload).collect();
    let notes = words::interval_notes(&its).into_iter();
    parts.extend(notes.map(|note| text(&note) + "\n"));
    if let Some(rows) = table(&robustness::table(judgement, workload)) {
        parts.push(format!("{}:\n\n{rows}", robustness::TITLE));
    }
    parts.extend(soak::markdown_parts(
        judgement,
        workload,
        &run.plan.baseline,
    ));
    if let Some(rows) = table(&disturbances::rows(judgement, workload)) {
        parts.push(format!("{}:\n\n{rows}", disturbances::TITLE));
        parts.push(text(disturbances::NOTE) + "\n");
    }
    for family in curves::families(judgement, workload) {
        let title = text(&curves::title(family));
        let rows = table(&curves::short_rows(family)).unwrap_or_default();
        parts.push(format!("{title}:\n\n{rows}"));
        let sentences = curves::sentences(family).into_iter();
        let items: Vec<String> = sentences
            .map(|said| format!("- {}\n", text(&said)))
            .collect();
        parts.extend((!items.is_empty()).then(|| items.concat()));
    }
    for (title, rows, sentence) in robustness::loads(judgement, &run.plan.baseline, workload) {
        let rows = table(&rows).unwrap_or_default();
        parts.push(format!("{}:\n\n{rows}", text(&title)));
        parts.push(text(&sentence) + "\n");
    }
    let groups = scaling::groups(judgement, workload);
    if !groups.is_empty() {
        let rows = table(&scaling::rows(&groups)).unwrap_or_default();
        parts.push(format!("{}:\n\n{rows}", text(&scaling::title(&groups))));
        let sentences = scaling::sentences(&groups).into_iter();
        let items = sentences.map(|said| format!("- {}\n", text(&said)));
        parts.push(items.collect());
    }
    parts.extend(table(&words::arm_table(judgement, workload)));
    parts
}

pub(crate) fn bullets(title: &str, items: &[String]) -> Option<String> {
    let items: Vec<String> = items
        .iter()
        .map(|item| format!("- {}", text(item)))
        .collect();
    (!items.is_empty()).then(|| format!("**{title}**\n\n{}\n", items.join("\n")))
}

/// A table, the first row its head, or nothing without others.
pub(crate) fn table(rows: &[Vec<String>]) -> Option<String> {
    let line = |cells: &Vec<String>| {
        let cells: Vec<String> = cells.iter().map(|cell| text(cell.trim())).collect();
        format!("| {} |", cells.join(" | "))
    };
    let (head, rest) = rows.split_first()?;
    let mut lines = vec![line(head), format!("|{}", "---|".repeat(head.len()))];
    lines.extend(rest.iter().map(line));
    (!rest.is_empty()).then(|| lines.join("\n") + "\n")
}

fn failures(run: &Run) -> Vec<String> {
    let told = |failed: words::Failed<'_>| {
        format!(
            "{}, attempt {}: {}: {}",
            failed.trial, failed.attempt, failed.kind, failed.detail
        )
    };
    words::failed(run).into_iter().map(told).collect()
}

fn repeat(run: &Run, judgement: &Judgement) -> String {
    let opening = &run.opening;
    format!(
        "State: {}. Machine: {}. bakeoff {}, seed {}. {} To run it again: `bakeoff run plan.toml` \
         with the plan of the run directory.\n",
        text(&words::run_state::state(run, judgement)),
        text(&words::machine::machine(&opening.machine)),
        text(&opening.bakeoff),
        run.plan.design.seed,
        text(&words::clock(run))
    )
}

/// Text that Markdown leaves alone: no markup, no HTML, one line. A bracket is harmless until
/// something follows it that makes it a link, so that intervals stay readable.
pub(crate) fn text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '(' | ':' | '[' if escaped.ends_with(']') => escaped.extend(['\\', letter]),
            '\\' | '`' | '*' | '_' | '|' | '#' | '~' => escaped.extend(['\\', letter]),
            letter if letter.is_control() => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::judged;
    use fixtures::web;

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

            60 fairness checks: 23 passed, 6 declared (boot-log, kernel-configuration, sysctls, clients-apart, one-load, static-pages), 27 not known (clocksource, command-line, compiler, congestion-control, control-groups, cpu-model, cpus, descriptors, huge-pages, io-scheduler, limits, listen-backlog and 15 more), 4 not applicable

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
            | Hardware | machine | QEMU 7.2.22, emulated, clock instructions, 1 CPU, 1 GiB |
            |  | not known | host: product, host: firmware, host: CPU, host: CPUs, host: SMT, host: caches, host: CPU frequency, host: microcode, host: NUMA nodes, host: memory, host: disk, host: network card, guest: CPU, guest: CPUs, guest: NUMA nodes, guest: memory |
            | Software | kernel | 6.1: 6.1.0-40-cloud-amd64; 7.2: 7.2.3-cloud-amd64 |
            |  | kernel from | 6.1: debian:bookworm/6.1; 7.2: debian:trixie-backports/7.2 |
            |  | image recipe | web |
            |  | server | Apache/2.4.65 (Debian) |
            |  | bakeoff | 0.1.0 |
            |  | not known | kernel built by, command line as booted, user land, host: kernel |
            | Tuning | arm 6.1 | changes nothing; by whom and why: not stated |
            |  | arm 7.2 | changes nothing; by whom and why: not stated |
            |  | not tuned in any arm | command line, sysctls, CPUs, environment, server configuration, server programs, I/O scheduler, debugfs (as kernels and packages ship them, and as bakeoff sets them for all arms alike) |
            | Workloads | web-static | web-static: not known |
            | Rules | question | not declared: defaults differ as the kernels bring them (mode of the plan says whether code or products are asked about) |
            |  | order | each block runs every arm once, back to back, in an order drawn from seed 7 |
            |  | blocks | 10 run; the plan says at least 4 and at most 30; 1 look while it ran |
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
            |  | cache keys | hashes of what a kernel or image was made from, not of a file |
            | To run it again | one command | bakeoff run plan.toml --out DIR, with plan.toml of the run directory |
            |  | the same figures | bakeoff judge RUN-DIRECTORY: the journal names each trial's record by its SHA-256 |

            State: finished: all primary metrics decided. Machine: QEMU 7.2.22, emulated, clock instructions, 1 CPU, 1 GiB. bakeoff 0.1.0, seed 7. Executed instructions: the guest's clock advances by 2 ns with each. Figures compare the length of the path that the code takes for the same work, and repeat from boot to boot. Caches, memory and devices cost nothing in them, so a second is not a second of a real machine, and only ratios between arms are meant to be read. To run it again: `bakeoff run plan.toml` with the plan of the run directory.
        "###]].assert_eq(&markdown(&run, &judgement, &[]));
    }

    #[test]
    fn text_stays_text() {
        let got = text("<b>*x*</b> | [a](b)\n`c` @team");
        expect![[r#"&lt;b&gt;\*x\*&lt;/b&gt; \| [a]\(b) \`c\` @team"#]].assert_eq(&got);
    }
}
