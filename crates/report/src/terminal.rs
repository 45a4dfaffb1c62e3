//! The report on a terminal: warnings, a table, and the verdict last, where the eye is.

use record::rundir::Run;
use record::verdict::why::Why;
use record::verdict::{Comparison, Judgement};
use textwrap::{WordSeparator, WordSplitter};

use crate::words::disturbances;
use crate::{curves, footing, models, overview, robustness, scaling, soak, words};

/// Space between two columns.
const GAP: &str = "  ";

/// Plain text of lines of at most `width` columns, save for words that are longer by themselves.
pub(crate) fn terminal(run: &Run, judgement: &Judgement, whys: &[Why], width: usize) -> String {
    let mut lines = wrap(&run.plan.title, "", width);
    lines.extend(wrap(
        &format!(
            "{}; {}",
            words::machine::machine(&run.opening.machine),
            words::run_state::state(run, judgement)
        ),
        "",
        width,
    ));
    let overview = overview::table(run, judgement);
    if !overview.is_empty() {
        lines.push(String::new());
        lines.extend(table(&overview, 3, width));
    }
    lines.extend(list(
        "what went wrong:",
        &words::warning::setbacks(judgement),
        width,
    ));
    lines.extend(list(
        "warnings:",
        &words::warning::warnings(judgement),
        width,
    ));
    for workload in &run.plan.workloads {
        lines.extend(section(run, judgement, &workload.id, width));
        let baseline = &run.plan.baseline;
        lines.extend(soak::terminal_lines(
            judgement,
            &workload.id,
            baseline,
            width,
        ));
    }
    let defects = words::defect::rows(run, judgement);
    if !defects.is_empty() {
        lines.extend([String::new(), format!("{}:", words::defect::TITLE)]);
        lines.extend(table(&defects, 4, width));
    }
    let nodes = words::fleet::rows(judgement);
    if !nodes.is_empty() {
        lines.extend([String::new(), format!("{}:", words::fleet::TITLE)]);
        lines.extend(table(&nodes, 3, width));
    }
    let models = models::rows(run);
    if !models.is_empty() {
        lines.extend([String::new(), format!("{}:", models::TITLE)]);
        lines.extend(table(&models, 4, width));
    }
    lines.push(String::new());
    lines.extend(closing(run, judgement, whys, width));
    lines.join("\n") + "\n"
}

pub(crate) fn list(title: &str, items: &[String], width: usize) -> Vec<String> {
    if items.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), title.into()];
    lines.extend(items.iter().flat_map(|item| wrap(item, "- ", width)));
    lines
}

/// One workload: its metrics, its curves, and what each arm did.
fn section(run: &Run, judgement: &Judgement, workload: &str, width: usize) -> Vec<String> {
    let mut tables = vec![metrics(judgement, workload, width)];
    let disturbed = disturbances::rows(judgement, workload);
    if !disturbed.is_empty() {
        let mut lines = vec![format!("{}:", disturbances::TITLE)];
        lines.extend(table(&disturbed, 3, width));
        lines.extend(wrap(disturbances::NOTE, "", width));
        tables.push(lines);
    }
    for family in curves::families(judgement, workload) {
        let mut lines = wrap(&curves::title(family), "", width);
        lines.extend(table(&curves::short_rows(family), 0, width));
        let sentences = curves::sentences(family);
        lines.extend(sentences.iter().flat_map(|said| wrap(said, "", width)));
        tables.push(lines);
    }
    for (title, rows, sentence) in robustness::loads(judgement, &run.plan.baseline, workload) {
        let mut lines = wrap(&title, "", width);
        lines.extend(table(&rows, 2, width));
        lines.extend(wrap(&sentence, "", width));
        tables.push(lines);
    }
    let groups = scaling::groups(judgement, workload);
    if !groups.is_empty() {
        let mut lines = wrap(&scaling::title(&groups), "", width);
        lines.extend(table(&scaling::rows(&groups), 2, width));
        let sentences = scaling::sentences(&groups);
        lines.extend(sentences.iter().flat_map(|said| wrap(said, "- ", width)));
        tables.push(lines);
    }
    tables.push(arms(judgement, workload, width));
    let shown = tables.into_iter().filter(|lines| !lines.is_empty());
    shown
        .flat_map(|lines| [vec![String::new()], lines].concat())
        .collect()
}

/// The verdicts, and how sure they are together.
fn closing(run: &Run, judgement: &Judgement, whys: &[Why], width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for headline in words::headlines(run, judgement, whys) {
        let workload = match run.plan.workloads.len() {
            1 => String::new(),
            _ => format!("{}: ", headline.workload),
        };
        // "7.2 failed" needs no "failed" before it.
        let word = match headline.word {
            "failed" => String::new(),
            word => format!("{word}: "),
        };
        lines.extend(wrap(
            &format!("{workload}{word}{}", headline.said),
            "",
            width,
        ));
        let found = headline.found.iter();
        lines.extend(found.flat_map(|said| wrap(said, "    - ", width)));
        lines.extend(wrap(&headline.reason, "    ", width));
        let defects = headline.defects.iter();
        lines.extend(defects.flat_map(|said| wrap(said, "    ", width)));
        let accepted = headline.accepted.iter();
        lines.extend(accepted.flat_map(|said| wrap(said, "    ", width)));
        let limits = headline.limits.iter();
        lines.extend(limits.flat_map(|said| wrap(said, "    ", width)));
        let sensitivity = headline.sensitivity.iter();
        lines.extend(sensitivity.flat_map(|said| wrap(said, "    ", width)));
        if let Some(cause) = &headline.cause {
            lines.extend(wrap(&format!("why: {cause}"), "    ", width));
        }
    }
    if lines.is_empty() {
        lines.push("nothing measured yet, so nothing is compared".into());
    } else if let Some(said) = overview::multiplicity(run, judgement) {
        lines.extend(wrap(&said, "", width));
    }
    let fairness = words::fairness::summary(judgement);
    let disclosure = words::disclosure::pointer(run);
    for said in footing::lines(run, judgement)
        .into_iter()
        .chain(fairness)
        .chain(words::fairness::in_vain(run, judgement))
        .chain([disclosure])
    {
        lines.extend(wrap(&said, "", width));
    }
    lines
}

fn metrics(judgement: &Judgement, workload: &str, width: usize) -> Vec<String> {
    let rows = words::metric_rows(judgement, workload);
    if rows.len() < 2 {
        return Vec::new();
    }
    let its = judgement.comparisons.iter();
    let its: Vec<&Comparison> = its.filter(|one| one.workload == workload).collect();
    let mut lines = table(&rows, 3, width);
    let notes = words::interval_notes(&its);
    lines.extend(notes.iter().flat_map(|note| wrap(note, "", width)));
    lines
}

fn arms(judgement: &Judgement, workload: &str, width: usize) -> Vec<String> {
    table(&words::arm_table(judgement, workload), 1, width)
}

/// A table whose first `left` columns stand at the left. Where it is too wide, every row becomes a
/// few lines of `name value`.
pub(crate) fn table(rows: &[Vec<String>], left: usize, width: usize) -> Vec<String> {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| plain(cell)).collect())
        .collect();
    let columns = rows[0].len();
    let widest = |column: usize| {
        rows.iter()
            .map(|row| length(&row[column]))
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(widest).collect();
    if widths.iter().sum::<usize>() + GAP.len() * (columns - 1) > width {
        return stacked(&rows);
    }
    let mut lines: Vec<String> = rows.iter().map(|row| aligned(row, &widths, left)).collect();
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    lines.insert(1, rule.join(GAP));
    lines
}

fn aligned(row: &[String], widths: &[usize], left: usize) -> String {
    let pad = |(column, cell): (usize, &String)| {
        let space = " ".repeat(widths[column] - length(cell));
        if column < left {
            format!("{cell}{space}")
        } else {
            format!("{space}{cell}")
        }
    };
    let cells: Vec<String> = row.iter().enumerate().map(pad).collect();
    cells.join(GAP).trim_end().to_string()
}

fn stacked(rows: &[Vec<String>]) -> Vec<String> {
    let (head, rows) = rows.split_first().expect("a table has its head");
    let names = head.iter().skip(1);
    let widest = names.map(|name| length(name)).max().unwrap_or(0);
    let mut lines = Vec::new();
    for row in rows {
        lines.push(row[0].clone());
        for (name, cell) in head.iter().zip(row).skip(1) {
            lines.push(format!(
                "  {name}{}  {cell}",
                " ".repeat(widest - length(name))
            ));
        }
    }
    lines
}

/// Lines of at most `width` columns, the first after `lead`, the others as far in.
pub(crate) fn wrap(text: &str, lead: &str, width: usize) -> Vec<String> {
    let indent = " ".repeat(length(lead));
    let options = textwrap::Options::new(width)
        .initial_indent(lead)
        .subsequent_indent(&indent)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .break_words(false);
    let text = plain(text);
    let lines = textwrap::wrap(&text, options).into_iter();
    lines.map(std::borrow::Cow::into_owned).collect()
}

/// Text without control characters: a title must not steer the terminal.
fn plain(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

/// Columns that a text takes on a terminal.
fn length(text: &str) -> usize {
    textwrap::core::display_width(text)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::judged;
    use fixtures::web;

    #[test]
    fn a_run_fits_on_a_screen() {
        let (run, judgement) = judged(web::two_kernels());
        expect![[r#"
            Web <script>alert(1)</script> & "quotes" | [a](b) 'x'
            QEMU 7.2.22, emulated, clock instructions, 1 CPU, 1 GiB; finished: all primary metrics decided

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

            better: 7.2 serves 7.36 % more requests/s than 6.1 [+7.12 %, +7.82 %] (97.5 % interval), 9 blocks
                significant after 9 blocks
                sensitivity: holds without any one of 9 blocks (+7.28 % to +7.40 %); holds for margins up to 7.6
                %; server-cpu in place of the primary metric says something else (equivalent); holds at other
                prices of a string byte (+7.36 % at 1/32, +7.36 % at 1/3 of an instruction)
            A/A history of this machine: not known (an earlier version made this run, or a-a.json is gone)
            defects in the kernel's log: not known (an earlier version made this run)
            120 kernel options, 1 sysctl, 3 other facts differ: 4 can change any figure (boot log 2, memory
            management 1, network 1), 0 figures of what uses them, 0 none; unclassified: 120; not counted: 1
            named by the plan or by its kernels' names
            60 fairness checks: 23 passed, 6 declared (boot-log, kernel-configuration, sysctls, clients-apart,
            one-load, static-pages), 27 not known (clocksource, command-line, compiler, congestion-control,
            control-groups, cpu-model, cpus, descriptors, huge-pages, io-scheduler, limits, listen-backlog and
            15 more), 4 not applicable
            full disclosure: in report.html and report.md (tested by: not stated)
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
        let long: Vec<_> = text.lines().filter(|line| length(line) > 60).collect();
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
    fn long_text_is_wrapped_between_words() {
        assert_eq!(wrap("one two three", "- ", 9), ["- one two", "  three"]);
        assert_eq!(wrap("unbreakable", "- ", 4), ["- unbreakable"]);
    }
}
