//! The report for a mail or a pull request: short, and readable before it is rendered.

use record::rundir::Run;
use record::verdict::{Comparison, Judgement};

use crate::words;

/// Verdicts in sentences, warnings, metrics, the table of each workload, failures, how to repeat
/// it.
pub(crate) fn markdown(run: &Run, judgement: &Judgement) -> String {
    let mut parts = vec![format!("## {}\n", escape(&run.plan.title))];
    parts.extend(words::headlines(judgement).map(|comparison| {
        let word = comparison.verdict.word();
        format!(
            "**{word}** - {}\n",
            escape(&words::headline(run, comparison))
        )
    }));
    parts.extend(bullets("Know before reading", &judgement.warnings));
    parts.extend(metrics(judgement));
    parts.extend(
        run.plan
            .workloads
            .iter()
            .filter_map(|workload| arms(judgement, &workload.id)),
    );
    parts.extend(bullets("Attempts without a figure", &failures(run)));
    parts.push(repeat(run));
    parts.join("\n")
}

fn bullets(title: &str, items: &[String]) -> Option<String> {
    let items: Vec<String> = items
        .iter()
        .map(|item| format!("- {}", escape(item)))
        .collect();
    (!items.is_empty()).then(|| format!("**{title}**\n\n{}\n", items.join("\n")))
}

fn metrics(judgement: &Judgement) -> Option<String> {
    let head = [
        "workload", "metric", "arm", "verdict", "change", "interval", "blocks",
    ];
    let row = |comparison: &Comparison| {
        [
            comparison.workload.clone(),
            words::directed(&comparison.spec),
            comparison.arm.clone(),
            comparison.verdict.word().into(),
            words::change(comparison.ratio),
            words::interval(comparison),
            comparison.blocks.to_string(),
        ]
    };
    let rows: Vec<_> = judgement
        .comparisons
        .iter()
        .map(|one| row(one).to_vec())
        .collect();
    table(&head.map(String::from), &rows)
}

fn arms(judgement: &Judgement, workload: &str) -> Option<String> {
    let tables = words::tables_of(judgement, workload);
    let mut head = vec![workload.to_string()];
    head.extend(tables.iter().map(|table| table.arm.clone()));
    let rows: Vec<Vec<String>> = words::arm_rows(&tables)
        .into_iter()
        .map(|(name, cells)| [vec![name], cells].concat())
        .collect();
    table(&head, &rows)
}

/// A table, or nothing without rows.
fn table(head: &[String], rows: &[Vec<String>]) -> Option<String> {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| escape(cell.trim())).collect();
        format!("| {} |", cells.join(" | "))
    };
    let mut lines = vec![line(head), format!("|{}", "---|".repeat(head.len()))];
    lines.extend(rows.iter().map(|row| line(row)));
    (!rows.is_empty()).then(|| lines.join("\n") + "\n")
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

fn repeat(run: &Run) -> String {
    let opening = &run.opening;
    format!(
        "State: {}. Machine: {}. bakeoff {}, seed {}. {} To run it again: `bakeoff run plan.toml` \
         with the plan of the run directory.\n",
        escape(&words::state(run)),
        escape(&opening.machine),
        escape(&opening.bakeoff),
        run.plan.design.seed,
        escape(&words::clock(run))
    )
}

/// Text that Markdown leaves alone: no markup, no HTML, one line. A bracket is harmless until
/// something follows it that makes it a link, so that intervals stay readable.
fn escape(text: &str) -> String {
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
    use crate::play;

    #[test]
    fn a_run_fits_into_a_mail() {
        let (run, judgement) = play::run();
        expect![[r###"
            ## Web &lt;script&gt;alert(1)&lt;/script&gt; &amp; "quotes" \| [a]\(b) 'x'

            **better** - 7.2 serves 7.36 % more requests/s than 6.1 [+7.17 %, +7.68 %], 9 blocks

            **Know before reading**

            - web-static: arm 7.2 FAILS: no figure in block 10, and 6.1 gave one in every block
            - web-static: attempts without a figure on arm 7.2: 2 of 11: kernel panic 2
            - web-static: attempts fail more often on one arm: 6.1 0, 7.2 2 (what makes them fail may also bend the figures of those that do not)
            - web-static: blocks without a figure of every arm: 1 of 10, number 10 (not compared where an arm is missing)
            - web-static: unsuccessful requests on arm 6.1: 3 (never counted as served)
            - time is counted in executed instructions (figures compare the length of the code's path: caches, memory and devices cost nothing in them)
            - the clients run inside the guest, on the server's own CPUs (figures include the clients' work, and no network)

            | workload | metric | arm | verdict | change | interval | blocks |
            |---|---|---|---|---|---|---|
            | web-static | throughput ↑ | 7.2 | better | +7.36 % | [+7.17 %, +7.68 %] | 9 |
            | web-static | latency-p50 ↓ | 7.2 | better | -6.85 % | [-7.13 %, -6.69 %] | 9 |
            | web-static | latency-p99 ↓ | 7.2 | better | -6.85 % | [-7.13 %, -6.69 %] | 9 |
            | web-static | server-cpu ↓ | 7.2 | equivalent | -0.74 % | [-0.75 %, -0.74 %] | 9 |
            | web-static | failed ↓ | 7.2 | equivalent | - | - | 9 |

            | web-static | 6.1 | 7.2 |
            |---|---|---|
            | kernel | 6.1.0-40-cloud-amd64 | 7.2.3-cloud-amd64 |
            | server | Apache/2.4.65 (Debian) | Apache/2.4.65 (Debian) |
            | trials measured | 10 | 9 |
            | average CPU, user | 7.0 % | 39.0 % |
            | average CPU, system | 93.0 % | 60.0 % |
            | memory in use | 180 MiB | 200 MiB |
            | swap in use, peak | 0 B | 0 B |
            | pages served | 228 528 | 220 853 |
            | pages per second | 2 285.3 | 2 453.9 |
            | mean time of a page | 33.390 ms | 33.448 ms |
            | unsuccessful connections | 3 | 0 |
            | connection reset | 3 | 0 |
            | attempts without a figure | 0 | 2 |
            | CPU spent on sampling | 0.2 % | 0.2 % |

            **Attempts without a figure**

            - trial 006 (arm 7.2, web-static, block 3), attempt 1: kernel panic: Kernel panic - not syncing: &lt;init&gt; killed &amp; gone
            - trial 019 (arm 7.2, web-static, block 10), attempt 1: kernel panic: Kernel panic - not syncing: &lt;init&gt; killed &amp; gone

            State: finished: all primary metrics decided. Machine: QEMU 7.2.22, emulated, clock instructions, 1 CPU, 1 GiB. bakeoff 0.1.0, seed 7. Executed instructions: the guest's clock advances by 2 ns with each. Figures compare the length of the path that the code takes for the same work, and repeat from boot to boot. Caches, memory and devices cost nothing in them, so a second is not a second of a real machine, and only ratios between arms are meant to be read. To run it again: `bakeoff run plan.toml` with the plan of the run directory.
        "###]].assert_eq(&markdown(&run, &judgement));
    }

    #[test]
    fn text_stays_text() {
        let got = escape("<b>*x*</b> | [a](b)\n`c` @team");
        expect![[r#"&lt;b&gt;\*x\*&lt;/b&gt; \| [a]\(b) \`c\` @team"#]].assert_eq(&got);
    }
}
