//! A run while it goes on: pages that a server keeps up to date, and what a terminal says of it.
//!
//! A page is parts, each an element with an id. Whoever serves it sends those that changed, and the page's script puts them in their
//! places. All text is escaped here, so the script has no more to do than that; charts are drawn here too, and are those of the report.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use doc::html::{pill, unbroken};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use record::journal::Entry;
use record::live::{ArmNow, NightPlan, Snapshot};
use record::verdict::Comparison;
use sha2::{Digest, Sha256};

use crate::report::chart;
use crate::report::section::frame;
use crate::report::shown;
use crate::topics::live::tell as told;
use crate::words;

const STYLE: &str = include_str!("../../report/style.css");
const OWN_STYLE: &str = include_str!("../../report/live.css");
const SCRIPT: &str = include_str!("../../report/live.js");

/// Entries of the journal that are shown.
const ENTRIES: usize = 20;

/// Attempts that are shown.
const ATTEMPTS: usize = 16;

/// Defects that are shown.
const DEFECTS: usize = 50;

/// A part of a page: its element's id, and what is in it.
pub type Part = (&'static str, String);

/// What pages may load: their own style and script, and events from where they come from.
pub fn policy() -> String {
    let hash = STANDARD.encode(Sha256::digest(SCRIPT));
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    )
}

/// What a report may do that is served, wherever its file came from: show itself in its own style. In a sandbox it runs no script, not
/// even that of call trees, because whoever may run one may also send the browser elsewhere (`meta` with `refresh`).
pub const REPORT_POLICY: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A run in one line.
pub fn line(now: &Snapshot) -> String {
    told::line(now)
}

/// How a run stands.
pub fn state(now: &Snapshot) -> String {
    told::state(now)
}

/// Blocks that were looked at, and time left.
pub fn progress(now: &Snapshot) -> String {
    let left = now.left.as_ref().map(told::left);
    [Some(told::progress(now)), left]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}

/// What each arm comes to so far: a badge and a sentence; why there is none, where there is none.
pub fn verdicts(now: &Snapshot) -> Vec<(&'static str, String)> {
    match told::verdicts(now) {
        none if none.is_empty() => vec![("", told::NOTHING.into())],
        some => some,
    }
}

/// What an arm does: its trial, what that does, throughput and p99 of the last second, the system.
pub fn arm(now: &Snapshot, arm: &ArmNow) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        (
            "trial",
            format!(
                "{}, block {}",
                told::trial(&arm.attempt),
                arm.attempt.trial.block
            ),
        ),
        ("state", told::activity(arm)),
    ];
    if arm.activity.is_some() || !arm.curve.points().is_empty() {
        rows.extend([
            ("throughput", told::throughput(arm)),
            ("p99", told::p99(arm)),
            ("failed", words::count(arm.curve.faults())),
        ]);
    }
    rows.extend(told::figure_of(now, &arm.attempt).map(|figure| ("figure", figure)));
    rows.extend(told::system(arm).map(|system| ("system", system)));
    rows.push(("trials", told::counts(now, &arm.attempt.trial.arm)));
    rows
}

/// An attempt in a line: number, block, arm, how it ended or what it does, its figure.
pub fn attempt(now: &Snapshot, index: usize) -> [String; 5] {
    let one = &now.attempts[index];
    let newest = now.arms.iter().find(|arm| arm.attempt == *one);
    [
        format!(
            "{:03}{}",
            one.trial.number,
            if one.attempt > 1 {
                format!(".{}", one.attempt)
            } else {
                String::new()
            }
        ),
        one.trial.block.to_string(),
        one.trial.arm.clone(),
        newest.map_or_else(|| told::end(one), told::activity),
        told::figure_of(now, one).unwrap_or_default(),
    ]
}

/// A defect in a line, with its arm.
pub fn defect(arm: &str, number: u32, seen: &record::live::Seen) -> String {
    format!(
        "{arm}, trial {number:03}: {} ({})",
        told::defect(seen),
        told::defect_time(seen)
    )
}

/// An entry of the journal with its time.
pub fn entry(entry: &Entry) -> String {
    format!("{} {}", told::clock(&entry.at), told::entry(entry))
}

/// What who watches must know before all else.
pub fn notes(now: &Snapshot) -> Vec<String> {
    let measured = now
        .is_measured_here
        .then(|| told::MEASURED_HERE.to_string());
    let violated = told::violated(now);
    [measured, now.problem.clone(), violated]
        .into_iter()
        .flatten()
        .collect()
}

/// What a run is called.
pub fn title(now: &Snapshot) -> String {
    now.plan
        .as_ref()
        .map_or(&now.name, |plan| &plan.title)
        .clone()
}

/// The page of one run. `home` is the address of the page of all runs, `events` where changes come from.
pub fn run_page(title: &str, parts: &[Part], home: &str, events: &str) -> String {
    page(
        title,
        events,
        parts,
        &html! { p.sub.home { a href=(home) { "All runs" } } },
    )
}

/// The parts of the page of a run that is not there any more.
pub fn gone_parts(name: &str) -> Vec<Part> {
    let said = html! { section.boxed.setbacks { h2 { "Gone" } p { "The directory of this run is not there any more: " (name) } } };
    vec![("notes", shown(said))]
}

/// The parts of that page; `has_report` says whether a report can be opened.
pub fn run_parts(now: &Snapshot, has_report: bool) -> Vec<Part> {
    vec![
        ("top", shown(top(now, has_report))),
        ("notes", shown(boxes(now))),
        ("verdict", shown(verdict(now))),
        ("arms", shown(arms(now))),
        ("curves", shown(curves(now))),
        ("defects", shown(defects(now))),
        ("metrics", shown(metrics(now))),
        ("attempts", shown(attempts(now))),
        ("journal", shown(journal(now))),
    ]
}

/// A run in the list of all.
pub struct Row {
    /// How it stands; what is judged of it need not be there.
    pub now: Snapshot,
    /// What was said of it when it was judged last.
    pub verdicts: Vec<(&'static str, String)>,
    /// The address of its page.
    pub address: String,
}

/// Which verdict a state is as good as, for its colour.
pub fn state_class(state: record::live::State) -> &'static str {
    told::state_class(state)
}

/// Why no defect is shown.
pub fn no_defects(now: &Snapshot) -> &'static str {
    told::no_defects(now)
}

/// When it was looked at: hours, minutes and seconds, UTC.
pub fn time(now: &Snapshot) -> String {
    told::time(now.at)
}

/// What is said of each arm so far; nothing where nothing is compared.
pub fn verdicts_so_far(now: &Snapshot) -> Vec<(&'static str, String)> {
    told::verdicts(now)
}

/// The page of all runs below `dir`.
pub fn runs_page(dir: &str, parts: &[Part], events: &str) -> String {
    page(
        "Runs",
        events,
        parts,
        &html! { h1 { "Runs" } p.sub { (dir) } },
    )
}

/// How a plan of a night stands, after its name; `now` is its run, where it has one.
pub fn night_line(plan: &NightPlan, now: Option<&Snapshot>) -> String {
    format!("{}: {}", plan.name, told::night_plan(plan, now))
}

/// The plans of the night whose runs these are.
fn night(plans: &[NightPlan], rows: &[Row], has_index: bool) -> Markup {
    html! {
        section {
            h2 { (plans.len()) " plans" }
            ol {
                @for plan in plans {
                    @let row = rows.iter().find(|row| row.now.name == plan.name);
                    li {
                        @match row {
                            Some(row) => a href=(row.address) { (plan.name) },
                            None => (plan.name),
                        }
                        ": " (told::night_plan(plan, row.map(|row| &row.now)))
                    }
                }
            }
            @if has_index { p { a href="index.html" { "What all of them come to" } } }
        }
    }
}

/// The night that runs belong to.
#[derive(Debug, Default)]
pub struct NightNow {
    /// Its plans, in their order; none where the runs are no night's.
    pub plans: Vec<NightPlan>,
    /// Whether it has an index yet.
    pub has_index: bool,
}

/// The parts of that page; `problem` is what keeps their directory from being read.
pub fn runs_parts(rows: &[Row], of_night: &NightNow, problem: Option<&str>) -> Vec<Part> {
    let list = html! {
        @if let Some(problem) = problem { section.boxed.setbacks { h2 { "What went wrong" } p { (problem) } } }
        @if !of_night.plans.is_empty() { (night(&of_night.plans, rows, of_night.has_index)) }
        @if rows.is_empty() && of_night.plans.is_empty() && problem.is_none() { p { "No run is here yet: bakeoff run and bakeoff compare make some." } }
        @for row in rows { (run_row(row)) }
    };
    vec![("runs", shown(list))]
}

fn run_row(row: &Row) -> Markup {
    let now = &row.now;
    html! {
        section.run {
            h2 { a href=(row.address) { (title(now)) } }
            p.sub {
                (state_pill(now)) " " (now.name)
                span.dot { "·" } (told::progress(now))
                @if let Some(left) = &now.left { span.dot { "·" } (told::left(left)) }
            }
            @if let Some(problem) = &now.problem { p.limit { (problem) } }
            @for (word, said) in &row.verdicts { p { (pill(word)) " " (unbroken(said)) "." } }
            @if !now.is_judged_whole && now.problem.is_none() { p.sub { "being judged" } }
            @if let Some(count) = told::defect_count(now) { p.limit { (count) } }
        }
    }
}

/// Where a page that has nothing else to say ends: one message.
pub fn message_page(title: &str, text: &str) -> String {
    page(
        title,
        "",
        &[("message", html! { p { (text) } }.into_string())],
        &html! { h1 { (title) } },
    )
}

fn page(title: &str, events: &str, parts: &[Part], head: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                link rel="icon" href="data:,";
                title { (title) " - bakeoff" }
                style { (PreEscaped(STYLE)) (PreEscaped(OWN_STYLE)) }
            }
            body data-events=(events) {
                (chart::shapes())
                main.live {
                    (head)
                    @for (id, part) in parts { div id=(id) { (PreEscaped(part)) } }
                    p.sub #lost hidden { "Not connected: what stands here is not new any more. Trying again." }
                    noscript { p.sub { "Without scripts the page does not change by itself: load it again." } }
                }
                @if !events.is_empty() { script { (PreEscaped(SCRIPT)) } }
            }
        }
    };
    shown(page)
}

fn state_pill(now: &Snapshot) -> Markup {
    html! { span class={ "pill " (told::state_class(now.state)) } { (now.state.word()) } }
}

fn top(now: &Snapshot, has_report: bool) -> Markup {
    html! {
        h1 { (title(now)) }
        p.sub {
            (state_pill(now)) " " (now.name)
            @if now.state.is_over() { span.dot { "·" } (told::state(now)) }
            span.dot { "·" } (told::progress(now))
            @if let Some(left) = &now.left { span.dot { "·" } (told::left(left)) }
        }
        @if has_report && now.state.is_over() { p { a href="report.html" { "The report" } } }
    }
}

fn boxes(now: &Snapshot) -> Markup {
    let notes = notes(now);
    let violations = told::violations(now);
    html! {
        @if !notes.is_empty() {
            section.boxed.warnings aria-label="Warnings" {
                h2 { "Warnings" }
                ul { @for note in notes { li { (note) } } }
                @if !violations.is_empty() {
                    details { summary { "Violations" } ul { @for one in violations { li { (one) } } } }
                }
            }
        }
    }
}

fn verdict(now: &Snapshot) -> Markup {
    let title = if now.state.is_over() {
        "Verdict"
    } else {
        "Verdict so far"
    };
    html! {
        h2 { (title) }
        @match now.judged.as_deref() {
            Some((run, judgement)) if !judgement.headlines.is_empty() => {
                (doc::html::render(&crate::report::run::headlines(run, judgement, &[], None)))
            }
            _ => { p.sub { (told::NOTHING) } }
        }
    }
}

fn arms(now: &Snapshot) -> Markup {
    html! {
        h2 { "Arms" }
        @if now.arms.is_empty() { p.sub { "No trial has begun yet." } }
        div.side {
            @for one in &now.arms {
                section.arm {
                    h3 { span class={ "mark arm-" (one.place % 6) } aria-hidden="true" { "■" } " " (one.attempt.trial.arm) }
                    dl { @for (name, value) in arm(now, one) { div { dt { (name) } dd { (value) } } } }
                }
            }
        }
    }
}

fn curves(now: &Snapshot) -> Markup {
    let charts = [
        ("Throughput", chart::throughput_now(now)),
        ("Latency", chart::latency_now(now)),
    ];
    html! {
        @for (title, chart) in charts { @if let Some(chart) = chart { h3 { (title) } (frame(&chart)) } }
    }
}

fn defects(now: &Snapshot) -> Markup {
    html! {
        h2 { "Defects" }
        @if now.defects.is_empty() { p.sub { (told::no_defects(now)) } } @else {
            div.scroll { table.cards {
                thead { tr { th { "what" } th { "arm" } th { "trial" } th { "first" } th { "severity" } } }
                tbody { @for (arm, number, seen) in now.defects.iter().rev().take(DEFECTS) { tr {
                    th scope="row" {
                        (told::defect(seen))
                        @if !seen.line.is_empty() { div.sub { code { (seen.line) } } }
                    }
                    td data-name="arm" { (arm) }
                    td data-name="trial" { (format!("{number:03}")) }
                    td data-name="first" { (told::defect_time(seen)) }
                    td data-name="severity" { (seen.severity) }
                } } }
            } }
        }
    }
}

/// Every metric so far, and how the estimate developed.
fn metrics(now: &Snapshot) -> Markup {
    let Some((run, judgement)) = now.judged.as_deref() else {
        return Markup::default();
    };
    html! {
        @for (number, workload) in run.plan.workloads.iter().enumerate() {
            @let rows = crate::topics::metrics::document::metric_rows(judgement, &workload.id);
            @if rows.len() > 1 {
                h2 { "Metrics of " (workload.id) }
                div.scroll { table.cards {
                    thead { tr { @for cell in &rows[0] { th { (cell) } } } }
                    tbody { @for row in &rows[1..] { tr {
                        th scope="row" { (row[0]) }
                        td data-name="arm" { (row[1]) }
                        td data-name="verdict" { (pill_of(&row[2])) }
                        td data-name="change" { (unbroken(&row[3])) }
                        td data-name=(rows[0][4]) { (unbroken(&row[4])) }
                        td data-name="blocks" { (row[5]) }
                    } } }
                } }
                @let its: Vec<&Comparison> = judgement.comparisons.iter().filter(|one| one.workload == workload.id).collect();
                @if let Some(chart) = chart::estimate_history(run, &its, number) {
                    h3 { "Estimate after each block" }
                    (frame(&chart))
                }
            }
        }
    }
}

fn pill_of(word: &str) -> Markup {
    html! { span class={ "pill " (word) } { (word) } }
}

fn attempts(now: &Snapshot) -> Markup {
    let from = now.attempts.len().saturating_sub(ATTEMPTS);
    html! {
        @if !now.attempts.is_empty() {
            h2 { "Trials" }
            div.scroll { table.cards {
                thead { tr { th { "trial" } th { "block" } th { "arm" } th { "state" } th { "figure" } } }
                tbody { @for index in (from..now.attempts.len()).rev() {
                    @let [number, block, arm, state, figure] = attempt(now, index);
                    tr {
                        th scope="row" { (number) }
                        td data-name="block" { (block) }
                        td data-name="arm" { (arm) }
                        td data-name="state" { (state) }
                        td data-name="figure" { (figure) }
                    }
                } }
            } }
            @if from > 0 { p.sub { "The last " (ATTEMPTS) " of " (now.attempts.len()) "." } }
        }
    }
}

fn journal(now: &Snapshot) -> Markup {
    html! {
        @if !now.entries.is_empty() {
            h2 { "Journal" }
            ul.journal { @for one in now.entries.iter().rev().take(ENTRIES) {
                li { time datetime=(one.at) { (told::clock(&one.at)) } " " (told::entry(one)) }
            } }
        }
    }
}
