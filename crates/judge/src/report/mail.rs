//! The mail about a run: one screen with the answer, then tables, checks, and how to reproduce it. Plain text of 75 columns.

use base::input::text::escaped;
use doc::terminal::{table, wrap};
use record::rundir::Run;
use record::verdict::Judgement;
use record::verdict::why::Why;

use crate::topics::mail::find::{Change, Culprit, Subject, subject};
use crate::topics::mail::tell;
use crate::topics::{defects, fairness, findings, run_state};
use crate::words;

/// Columns of the text. Only commands, plans and addresses may be longer.
const WIDTH: usize = 75;

/// Columns of the labels of facts.
const LABEL: usize = 13;

/// Defects that are named.
const DEFECTS: usize = 6;

/// What a mail says beyond the run itself.
#[derive(Debug, Clone, PartialEq)]
pub struct MailOptions {
    /// Who reports, as `Name <address>`.
    pub reporter: Option<String>,
    /// Address under which the report can be found, for `Closes:`.
    pub url: Option<String>,
    /// Result of a bisection between the two kernels.
    pub culprit: Option<Culprit>,
    /// The file with all records.
    pub bundle: Option<Bundle>,
}

/// A file with all records of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Its name or address.
    pub name: String,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
}

/// The mail, with a subject line.
pub fn mail(run: &Run, judgement: &Judgement, whys: &[Why], options: &MailOptions) -> String {
    let mut mail = Mail { lines: Vec::new() };
    let subject = subject(run, judgement);
    match &subject {
        None => {
            mail.header("Subject", &run.plan.title);
            mail.paragraph(tell::NOTHING);
        }
        Some(subject) => mail.about(run, judgement, subject, whys, options),
    }
    mail.reproduce(run, judgement, subject.as_ref(), whys, options);
    if let Some(subject) = subject.filter(Subject::is_regression) {
        mail.tags(&subject, options);
    }
    mail.plan(run);
    mail.lines.extend([
        String::new(),
        "-- ".into(),
        format!("bakeoff {}", run.opening.bakeoff),
    ]);
    mail.lines.join("\n") + "\n"
}

struct Mail {
    lines: Vec<String>,
}

impl Mail {
    /// Answer, tables and checks.
    fn about(
        &mut self,
        run: &Run,
        judgement: &Judgement,
        subject: &Subject<'_>,
        whys: &[Why],
        options: &MailOptions,
    ) {
        let headline = subject.headline;
        let why = of_headline(whys, subject);
        let culprit = options.culprit.as_ref();
        self.header("Subject", &tell::title(run, judgement, subject, why));
        if let Some(copies) = tell::copies(subject) {
            self.header("Cc", copies);
        }
        let caveat = tell::caveat(subject);
        let verdict = tell::verdict(run, judgement, headline);
        let why_sentence = why.map(|why| {
            let sentence = crate::topics::why::tell::sentence(why);
            format!("Cause: {sentence}.")
        });
        let answer: Vec<String> = [caveat, verdict, tell::also_worse(subject), why_sentence]
            .into_iter()
            .flatten()
            .collect();
        self.paragraph(&answer.join(" "));
        self.rule(subject);
        self.lines.push(String::new());
        for (label, text) in tell::facts(run, subject, culprit) {
            self.fact(label, &text);
        }
        for (title, is_cost) in [(tell::OUTCOME, false), (tell::COST, true)] {
            let rows = tell::metrics(run, judgement, headline, is_cost);
            self.table(title, &rows, 1);
            let legend = tell::legend(judgement, headline, is_cost);
            self.note(legend.as_deref().filter(|_| !rows.is_empty()));
        }
        if let Some(why) = why {
            self.table(&tell::mechanisms_title(why), &tell::mechanisms(why), 1);
        }
        self.list(
            tell::CONFIGURATION,
            tell::configuration(run, judgement, subject),
        );
        self.checks(run, judgement);
        let others = judgement
            .headlines
            .iter()
            .filter(|other| *other != headline);
        let others = others.filter_map(|other| {
            let sentence = tell::verdict(run, judgement, other)?;
            Some(format!("{}: {sentence}", other.workload))
        });
        self.list(tell::OTHERS, others.collect());
    }

    fn rule(&mut self, subject: &Subject<'_>) {
        let (rule, note) = match subject.change {
            Change::Worse(comparison) => (tell::RULE, tell::by_rule(comparison)),
            Change::Failed => (tell::RULE_OF_FAILURES, None),
            Change::Nothing => return,
        };
        self.paragraph(tell::RULE_SOURCE);
        self.lines.extend(wrapped(rule, "> ", "> "));
        self.note(note.as_deref());
    }

    fn checks(&mut self, run: &Run, judgement: &Judgement) {
        let mut items = findings::tell::setbacks(judgement);
        if items.is_empty() {
            items.push(tell::NO_FAILURES.into());
        }
        items.extend(defects::tell::summary(run, judgement));
        let found = defects::tell::sorted(judgement).into_iter();
        items.extend(
            found
                .take(DEFECTS)
                .map(|defect| defects::tell::of_arm(run, defect)),
        );
        items.extend(fairness::tell::summary(judgement));
        self.list(tell::CHECKS, items);
        self.list(tell::WARNINGS, findings::tell::warnings(judgement));
    }

    fn reproduce(
        &mut self,
        run: &Run,
        judgement: &Judgement,
        subject: Option<&Subject<'_>>,
        whys: &[Why],
        options: &MailOptions,
    ) {
        let is_explained = subject.is_some_and(|subject| of_headline(whys, subject).is_some());
        let is_bisected = options.culprit.is_some();
        self.heading(tell::REPRODUCE);
        let state = run_state::tell::state(run, judgement);
        let seed = run.plan.design.seed;
        self.lines
            .extend(wrapped(&format!("State: {state}; seed {seed}."), "", ""));
        for (purpose, command) in tell::commands(run, subject, is_explained, is_bisected) {
            self.lines.extend(wrapped(&purpose, "", ""));
            self.verbatim(&command);
        }
        let records = match (&options.bundle, &run.journal_sha256) {
            (Some(bundle), _) => Some((tell::bundle(&bundle.name), &bundle.sha256)),
            (None, Some(journal)) => Some((tell::JOURNAL.into(), journal)),
            (None, None) => None,
        };
        if let Some((text, sha256)) = records {
            self.lines.extend(wrapped(&text, "", ""));
            self.verbatim(sha256);
        }
    }

    fn plan(&mut self, run: &Run) {
        self.heading("plan.toml");
        for line in plan_lines(&words::plan_text(run)) {
            self.verbatim(line);
        }
    }

    fn tags(&mut self, subject: &Subject<'_>, options: &MailOptions) {
        let culprit = options.culprit.as_ref();
        if let Some(command) = tell::tracked(subject, culprit) {
            self.lines.extend([String::new(), command]);
        } else if let Some(reason) = tell::not_tracked(subject) {
            self.paragraph(&reason);
        }
        let reporter = options.reporter.iter();
        let reporter = reporter.map(|name| format!("Reported-by: {}", clean(name)));
        let url = options.url.iter();
        let url = url.map(|url| format!("Closes: {}", clean(url)));
        let tags: Vec<String> = reporter.chain(url).collect();
        if !tags.is_empty() {
            self.paragraph(tell::TAGS);
            self.lines.extend(tags);
        }
    }

    /// A line of the mail's head, folded where it is long.
    fn header(&mut self, name: &str, text: &str) {
        self.lines.extend(wrapped(text, &format!("{name}: "), " "));
    }

    fn paragraph(&mut self, text: &str) {
        self.lines.push(String::new());
        self.lines.extend(wrapped(text, "", ""));
    }

    fn note(&mut self, text: Option<&str>) {
        self.lines
            .extend(text.iter().flat_map(|text| wrapped(text, "", "")));
    }

    fn fact(&mut self, label: &str, text: &str) {
        let label = format!("{:LABEL$}", format!("{label}:"));
        self.lines.extend(wrapped(text, &label, &" ".repeat(LABEL)));
    }

    fn heading(&mut self, title: &str) {
        self.lines.extend([String::new(), format!("{title}:")]);
    }

    fn list(&mut self, title: &str, items: Vec<String>) {
        if !items.is_empty() {
            self.heading(title);
        }
        for item in items {
            self.lines.extend(wrapped(&item, "- ", "  "));
        }
    }

    /// A table, or lines of names and values if it is too wide.
    fn table(&mut self, title: &str, rows: &[Vec<String>], names: usize) {
        if rows.is_empty() {
            return;
        }
        self.heading(title);
        let clean_row = |row: &Vec<String>| row.iter().map(|cell| clean(cell)).collect();
        let rows: Vec<Vec<String>> = rows.iter().map(clean_row).collect();
        let lines = table(&rows, names, WIDTH).into_iter();
        self.lines.extend(lines.flat_map(|line| broken(&line, "")));
    }

    /// A command or a line of a plan, which no line break may change.
    fn verbatim(&mut self, text: &str) {
        self.lines
            .push(format!("    {}", escaped(text)).trim_end().into());
    }
}

/// The explanation of the arm that the mail is about.
fn of_headline<'w>(whys: &'w [Why], subject: &Subject<'_>) -> Option<&'w Why> {
    let headline = subject.headline;
    whys.iter().find(|why| {
        why.workload == headline.workload && why.arm == headline.arm && why.within.is_none()
    })
}

/// Lines of the plan without comments that have lines of their own. A text of several lines may have such lines, so its plan is whole.
fn plan_lines(text: &str) -> impl Iterator<Item = &str> {
    let has_long_text = text.contains("\"\"\"") || text.contains("'''");
    text.lines().filter(move |line| {
        let line = line.trim_start();
        has_long_text || !(line.is_empty() || line.starts_with('#'))
    })
}

/// Lines of at most `WIDTH` columns. The first line begins with `lead`, the others with `indent`.
fn wrapped(text: &str, lead: &str, indent: &str) -> Vec<String> {
    let width = WIDTH + lead.len() - lead.len().max(indent.len());
    let mut lines = Vec::new();
    for (place, line) in wrap(&joined(&clean(text)), lead, width).iter().enumerate() {
        let line = line.replace(JOINT, " ");
        let line = match place {
            0 => line,
            _ => format!("{indent}{}", &line[lead.len()..]),
        };
        lines.extend(broken(&line, indent));
    }
    lines
}

/// A space at which no line is broken.
const JOINT: char = '\u{2007}';

/// Joins the words of intervals, and figures with their percent signs.
fn joined(text: &str) -> String {
    const LONGEST: usize = 40;
    let mut joined = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('[') {
        let (before, from) = rest.split_at(start);
        joined += before;
        let end = from.find(']').filter(|end| *end < LONGEST).unwrap_or(1);
        let (interval, after) = from.split_at(end);
        joined.extend(interval.chars().map(|c| if c == ' ' { JOINT } else { c }));
        rest = after;
    }
    joined += rest;
    joined.replace(" %", &format!("{JOINT}%"))
}

/// Pieces of a line that is too long because of a long word, broken after a comma if there is one. Addresses stay whole.
fn broken(line: &str, indent: &str) -> Vec<String> {
    let is_address = |word: &str| word.starts_with("https://") || word.starts_with("http://");
    if line.split_whitespace().any(is_address) {
        return vec![line.into()];
    }
    let mut pieces = Vec::new();
    let mut rest: Vec<char> = line.chars().collect();
    while rest.len() > WIDTH {
        let comma = rest[..WIDTH].iter().rposition(|letter| *letter == ',');
        let end = comma
            .filter(|comma| WIDTH / 2 < *comma)
            .map_or(WIDTH, |comma| comma + 1);
        let after = rest.split_off(end);
        pieces.push(rest.iter().collect());
        rest = indent.chars().chain(after).collect();
    }
    pieces.push(rest.iter().collect());
    pieces
}

/// One line of text for a mail: figures can be copied, arrows and units are ASCII, and no text of others is a command to regzbot.
fn clean(text: &str) -> String {
    let text = text
        .replace('\u{a0}', "")
        .replace('\u{2192}', "->")
        .replace('\u{b5}', "u")
        .replace("#regzbot", "# regzbot");
    let one_line: String = text
        .chars()
        .map(|letter| if letter.is_whitespace() { ' ' } else { letter })
        .collect();
    escaped(&one_line)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use record::fixtures::accounts::{self, Profile};
    use record::fixtures::builder::measurements;
    use record::fixtures::web;
    use record::machine::{Acceleration, MachineDescription};

    use super::*;
    use crate::report::judged;
    use crate::topics::mail::find::Step;
    use crate::topics::why::document::tests::newer;
    use crate::topics::why::find::{Question, explain};

    const NONE: MailOptions = MailOptions {
        reporter: None,
        url: None,
        culprit: None,
        bundle: None,
    };

    /// A run on a real CPU, in which the arm serves a fifth less.
    fn slower() -> Run {
        let (mut run, _) = judged(web::two_kernels());
        run.opening.ns_per_instruction = None;
        if let MachineDescription::Qemu(guests) = &mut run.opening.machine {
            guests.acceleration = Acceleration::Kvm;
        }
        let arms = run.attempts.iter().map(|record| record.trial.arm == "7.2");
        let arms: Vec<bool> = arms.collect();
        for (record, is_arm) in run.attempts.iter_mut().zip(arms) {
            let measurement = record.outcome.measured_mut().filter(|_| is_arm);
            let figures = measurement
                .into_iter()
                .flat_map(|measurement| &mut measurement.figures);
            for figure in figures.filter(|figure| figure.spec.name == "throughput") {
                figure.value *= 0.8;
            }
        }
        run
    }

    fn culprit() -> Culprit {
        Culprit {
            step: Step::Commit {
                hash: "1f2e3d4c5d6e7f8091a2b3c4d5e6f708192a3b4c".into(),
                subject: "sched: enable autogroup".into(),
            },
            probability: 0.971,
        }
    }

    #[test]
    fn a_measured_regression_has_the_lines_of_the_regression_tracker() {
        let (run, judgement) = judged(slower());
        let options = MailOptions {
            reporter: Some("A Tester <tester@example.org>\nBcc: all".into()),
            url: Some("https://example.org/report".into()),
            culprit: Some(culprit()),
            bundle: Some(Bundle {
                name: "web.tar.zst".into(),
                sha256: "5f2a".repeat(16),
            }),
        };
        let text = mail(&run, &judgement, &[], &options);
        let (text, _) = text.split_once("plan.toml:\n").unwrap();
        expect![[r#"
            Subject: [REGRESSION] web-static throughput -14.1 % [-14.3, -13.7],
             v6.1..v7.2.3
            Cc: regressions@lists.linux.dev

            Trade-off: 7.2 against 6.1, web-static (KVM): -14.1 % requests/s
            [-14.3 %, -13.7 %] (97.5 % interval), worse; p50 latency -6.86 %
            [-7.25 %, -6.65 %] (97.5 % interval), better; p99 latency -6.86 %
            [-7.25 %, -6.65 %] (97.5 % interval), better; 9 blocks.

            The kernel's rule (Documentation/admin-guide/reporting-regressions.rst):
            > Yes, but the difference has to be significant. A five percent slow-down
            > in a micro-benchmark thus is unlikely to qualify as regression, unless it
            > also influences the results of a broad benchmark by more than one
            > percent. If in doubt, ask for advice.
            web-static's throughput is worse by at least 13.7 % (97.5 % interval),
            above both of the rule's limits.

            Commit:      1f2e3d4c5d6e ("sched: enable autogroup"), posterior
                         probability 97.1 %
            Base:        6.1: 6.1.0-40-cloud-amd64 (debian:bookworm/6.1)
            Tested:      7.2: 7.2.3-cloud-amd64 (debian:trixie-backports/7.2)
            Machine:     QEMU 7.2.22, KVM, clock instructions, CPUs 1 (max), memory
                         1.00 GiB
            Mitigations: not known

            Outcome:
            metric         6.1    7.2  change [97.5 % interval]     verdict
            -----------  -----  -----  ------------------------  ----------
            throughput    2285   1963    -14.1 % [-14.3, -13.7]       worse
            latency-p50  26.25  24.45    -6.86 % [-7.25, -6.65]      better
            latency-p99  47.26  44.01    -6.86 % [-7.25, -6.65]      better
            failed           0      0                    both 0  equivalent
            Units: throughput in requests/s; latency-p50, latency-p99 in ms; failed in
            share.

            Cost: path length (instructions), CPI and CPU time:
            metric        6.1    7.2  change [90 % interval]     verdict
            ----------  -----  -----  ----------------------  ----------
            server-cpu  403.0  400.0  -0.74 % [-0.75, -0.74]  equivalent
            Units: server-cpu in us/request.

            Configuration:
            - The kernel's rule asks for similar configurations of both kernels (make
              olddefconfig). Here 120 options differ.
            - These kernels are packages of a distribution. Kernel developers ask for a
              test of kernels without its patches.
            - 124 settings differ (120 kernel options, 1 sysctl, 3 other facts): 4 may
              affect any result (boot log 2, memory management 1, network 1), 0 only
              workloads that use them, 0 nothing; unclassified: 120; not counted: 1
              named by the plan or by its kernels' names

            Failures, defects, fairness:
            - web-static: arm 7.2 FAILS: no figure in block 10, and 6.1 gave one in
              every block
            - web-static: failed trials on arm 7.2: 2 of 11: kernel panic 2
            - web-static: attempts fail more often on one arm: 6.1 0, 7.2 2 (what makes
              them fail may also bend the figures of those that do not)
            - web-static: blocks without a figure of every arm: 1 of 10, number 10 (not
              compared where an arm is missing)
            - defects in the kernel's log: not known (an earlier version made this run)
            - 60 fairness checks: 23 passed, 6 accepted (boot-log,
              kernel-configuration, sysctls, clients-apart, one-load, static-pages), 27
              unknown (clocksource, command-line, compiler, congestion-control,
              control-groups, cpu-model, cpus, descriptors, huge-pages, io-scheduler,
              limits, listen-backlog and 15 more), 4 not applicable

            Warnings:
            - web-static: failed requests on arm 6.1: 3 (never counted as served)
            - the clients run inside the guest, on the server's own CPUs (all figures
              but those of the server alone include the clients' work; no network is in
              any)

            How to reproduce:
            State: finished after 10 blocks: decided; seed 7.
            The plan below runs the comparison again:
                bakeoff run plan.toml -o runs/again
            The run's directory gives the same verdict from the same records:
                bakeoff show RUN
            Profiles name the mechanisms:
                bakeoff run plan.toml -o runs/why --why
            All records are in web.tar.zst, SHA-256:
                5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a5f2a

            #regzbot introduced: 1f2e3d4c5d6e

            A commit that fixes this may carry these tags:
            Reported-by: A Tester <tester@example.org> Bcc: all
            Closes: https://example.org/report

        "#]]
        .assert_eq(text);
    }

    #[test]
    fn without_a_bisection_the_range_of_kernels_is_named() {
        let (run, judgement) = judged(slower());
        let text = mail(&run, &judgement, &[], &NONE);
        assert!(text.contains("\n\n#regzbot introduced: v6.1..v7.2.3\n"));
        assert!(text.contains("\nCommit:      not bisected: v6.1 is good, v7.2.3 is bad\n"));
        assert!(!text.contains("Reported-by:") && !text.contains("Closes:"));
    }

    #[test]
    fn what_is_only_counted_is_said_first_and_not_tracked() {
        let mut run = slower();
        run.opening.ns_per_instruction = Some(2);
        let (run, judgement) = judged(run);
        let text = mail(&run, &judgement, &[], &NONE);
        assert!(
            text.starts_with("Subject: [counted instructions] web-static throughput"),
            "{text}"
        );
        assert!(
            text.contains("\n\nCounted instructions under emulation, not times"),
            "{text}"
        );
        assert!(
            text.contains("No regzbot command: counted instructions"),
            "{text}"
        );
        assert!(!text.contains("\n#regzbot") && !text.contains("[REGRESSION]"));
    }

    #[test]
    fn a_run_without_a_regression_has_neither_rule_nor_tags() {
        for run in [web::two_kernels(), web::just_begun()] {
            let (run, judgement) = judged(run);
            let text = mail(
                &run,
                &judgement,
                &[],
                &MailOptions {
                    reporter: Some("A Tester <tester@example.org>".into()),
                    url: Some("https://example.org/report".into()),
                    ..NONE
                },
            );
            for part in [
                "regzbot",
                "REGRESSION",
                "Closes:",
                "Reported-by:",
                "significant. A five",
            ] {
                assert!(!text.contains(part), "{part}: {text}");
            }
        }
    }

    #[test]
    fn profiles_name_the_mechanism() {
        let (run, accounts) = accounts::run(&Profile::web(), &newer(), 8, 1);
        let question = Question {
            workload: "web",
            arm: "7.2",
            metric: None,
        };
        let why = explain(&run, &accounts, &question).unwrap();
        let (run, judgement) = judged(run);
        let text = mail(&run, &judgement, &[why], &NONE);
        let (_, table) = text
            .split_once("by mechanism, significant ones:\n")
            .unwrap();
        let (table, _) = table.split_once("\n\n").unwrap();
        expect![[r#"
            mechanism      6.1      7.2  difference       95 % interval
            ---------  -------  -------  ----------  ------------------
            scheduler   14.7 k    3.7 k     -11.0 k  [-11.1 k, -11.0 k]
            zeroing      8.5 k    3.9 k      -4.6 k    [-4.6 k, -4.6 k]
            TCP/IP      17.9 k   18.4 k        +514        [+422, +612]
            all        127.8 k  112.8 k     -15.0 k                   -"#]]
        .assert_eq(table);
        assert!(text.contains("Cause: "), "{text}");
    }

    /// Lines that are too long, and are neither commands nor addresses.
    fn long_lines(text: &str) -> Vec<&str> {
        let may_be_long = |line: &&str| line.starts_with("    ") || line.contains("://");
        let lines = text.lines().filter(|line| !may_be_long(line));
        lines.filter(|line| line.chars().count() > WIDTH).collect()
    }

    #[test]
    fn no_line_has_more_than_75_columns() {
        let runs = [
            web::two_kernels(),
            web::two_workloads(),
            web::trade_off_and_failure(),
            web::without_clients(),
            web::connection_ramp(),
            web::just_begun(),
            slower(),
        ];
        for mut run in runs {
            for long in [false, true] {
                if long {
                    let name = "7.2-with-a-long-name-of-many-settings-and-more-and-more-and-more-of-them-in-one-word";
                    run.plan.arms[1].name = name.into();
                    let records = run
                        .attempts
                        .iter_mut()
                        .filter(|record| record.trial.arm == "7.2");
                    records.for_each(|record| record.trial.arm = name.into());
                    run.plan.title = "word".repeat(40);
                }
                let judgement = crate::judge(&run);
                let text = mail(&run, &judgement, &[], &NONE);
                assert_eq!(long_lines(&text), Vec::<&str>::new());
            }
        }
    }

    #[test]
    fn text_of_others_adds_no_header_and_no_command() {
        let mut run = web::just_begun();
        run.plan.title = "Web\nCc: all@example.org\u{202e}\u{1b}[2J".into();
        let (run, judgement) = judged(run);
        let text = mail(&run, &judgement, &[], &NONE);
        assert!(
            text.starts_with("Subject: Web Cc: all@example.org\\u{202e}\\u{1b}[2J\n\n"),
            "{text}"
        );

        let mut run = slower();
        for measurement in measurements(&mut run) {
            measurement.kernel = "6.1\n\n#regzbot introduced: v1..v2".into();
        }
        let (run, judgement) = judged(run);
        let text = mail(&run, &judgement, &[], &NONE);
        assert!(
            text.contains("# regzbot") && !text.contains("#regzbot"),
            "{text}"
        );
    }
}
