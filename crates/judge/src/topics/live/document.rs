//! A running run: pages that a server updates, and the texts that a terminal shows.
//!
//! A page consists of parts, each an element with an id. The server sends changed parts, and the page's script replaces them. Text is
//! escaped here and charts are drawn here, with the report's code, so the script does nothing else.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use doc::html::{pill, unbroken};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use record::journal::Entry;
use record::live::{ArmNow, NightPlan, Snapshot};
use record::verdict::Comparison;
use sha2::{Digest, Sha256};

use crate::report::chart;
use crate::report::run::headlines;
use crate::report::section::frame;
use crate::report::shown;
use crate::topics::live::tell;
pub use crate::topics::live::tell::{
    line, no_defects, state, state_class, verdicts as verdicts_so_far,
};
use crate::topics::metrics::document::metric_rows;
use crate::words;

const STYLE: &str = include_str!("../../report/style.css");
const LIVE_STYLE: &str = include_str!("../../report/live.css");
const SCRIPT: &str = include_str!("../../report/live.js");

/// Newest journal entries that are shown.
const ENTRIES: usize = 20;

/// Newest attempts that are shown.
const ATTEMPTS: usize = 16;

/// Newest defects that are shown.
const DEFECTS: usize = 50;

/// A part of a page: the id of its element, and its HTML.
pub type Part = (&'static str, String);

/// The content security policy of pages: only their inline style, their script, and events from the same server.
pub fn policy() -> String {
    let hash = STANDARD.encode(Sha256::digest(SCRIPT));
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    )
}

/// The content security policy of a served report, whose file may come from anywhere: only its inline style. The sandbox blocks all
/// scripts, even that of call trees, and redirects by `meta` with `refresh`.
pub const REPORT_POLICY: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Judged blocks, and time left.
pub fn progress(now: &Snapshot) -> String {
    match &now.left {
        Some(left) => format!("{}, {}", tell::progress(now), tell::left(left)),
        None => tell::progress(now),
    }
}

/// The verdict on each arm so far as a badge and a sentence, or a sentence why there is none.
pub fn verdicts(now: &Snapshot) -> Vec<(&'static str, String)> {
    let verdicts = tell::verdicts(now);
    if verdicts.is_empty() {
        return vec![("", tell::NOTHING.into())];
    }
    verdicts
}

/// State of an arm as names and values: its trial, throughput and p99 of the last second, and the system.
pub fn arm(now: &Snapshot, arm: &ArmNow) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        (
            "trial",
            format!(
                "{}, block {}",
                tell::trial(&arm.attempt),
                arm.attempt.trial.block
            ),
        ),
        ("state", tell::activity(arm)),
    ];
    if arm.activity.is_some() || !arm.curve.points().is_empty() {
        rows.extend([
            ("throughput", tell::throughput(arm)),
            ("p99", tell::p99(arm)),
            ("failed", words::count(arm.curve.faults())),
        ]);
    }
    rows.extend(tell::figure_of(now, &arm.attempt).map(|figure| ("figure", figure)));
    rows.extend(tell::system(arm).map(|system| ("system", system)));
    rows.push(("trials", tell::counts(now, &arm.attempt.trial.arm)));
    rows
}

/// Cells of an attempt: number, block, arm, state and figure.
pub fn attempt(now: &Snapshot, index: usize) -> [String; 5] {
    let attempt = &now.attempts[index];
    let trial = &attempt.trial;
    let newest = now.arms.iter().find(|arm| arm.attempt == *attempt);
    let number = match attempt.attempt {
        0 | 1 => format!("{:03}", trial.number),
        repeat => format!("{:03}.{repeat}", trial.number),
    };
    [
        number,
        trial.block.to_string(),
        trial.arm.clone(),
        newest.map_or_else(|| tell::end(attempt), tell::activity),
        tell::figure_of(now, attempt).unwrap_or_default(),
    ]
}

/// A line about a defect, with its arm.
pub fn defect(arm: &str, number: u32, seen: &record::live::Seen) -> String {
    format!(
        "{arm}, trial {number:03}: {} ({})",
        tell::defect(seen),
        tell::defect_time(seen)
    )
}

/// A line about an entry of the journal, with its time.
pub fn entry(entry: &Entry) -> String {
    format!("{} {}", tell::clock(&entry.at), tell::entry(entry))
}

/// Warnings above everything else: watching disturbs the run, a problem, failed fairness checks.
pub fn notes(now: &Snapshot) -> Vec<String> {
    let mut notes = Vec::new();
    if now.is_measured_here {
        notes.push(tell::MEASURED_HERE.to_string());
    }
    notes.extend(now.problem.clone());
    notes.extend(tell::failed_check_count(now));
    notes
}

/// The plan's title, or the run's name if the plan cannot be read.
pub fn title(now: &Snapshot) -> String {
    let plan = now.plan.as_ref();
    plan.map_or(&now.name, |plan| &plan.title).clone()
}

/// The page of one run. `home` is the URL of the page of all runs, `events` the URL of changed parts.
pub fn run_page(title: &str, parts: &[Part], home: &str, events: &str) -> String {
    page(
        title,
        events,
        parts,
        &html! { p.sub.home { a href=(home) { "All runs" } } },
    )
}

/// The parts of the page of a run whose directory is gone.
pub fn gone_parts(name: &str) -> Vec<Part> {
    let notes = html! { section.boxed.setbacks { h2 { "Gone" } p { "The directory of this run is not there any more: " (name) } } };
    vec![("notes", shown(notes))]
}

/// The parts of the page of one run; `has_report` is whether a report can be opened.
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

/// A run in the list of all runs.
pub struct Row {
    /// Its state; the judgement may be missing.
    pub now: Snapshot,
    /// Badge and sentence of each verdict when it was last judged.
    pub verdicts: Vec<(&'static str, String)>,
    /// The URL of its page.
    pub address: String,
}

/// Time of the snapshot: hours, minutes and seconds, UTC.
pub fn time(now: &Snapshot) -> String {
    tell::time(now.at)
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

/// Name and state of a plan of a nightly run; `now` is its run, if it has one.
pub fn night_line(plan: &NightPlan, now: Option<&Snapshot>) -> String {
    format!("{}: {}", plan.name, tell::night_plan(plan, now))
}

/// The plans of a nightly run.
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
                        ": " (tell::night_plan(plan, row.map(|row| &row.now)))
                    }
                }
            }
            @if has_index { p { a href="index.html" { "What all of them come to" } } }
        }
    }
}

/// The nightly run to which the runs belong.
#[derive(Debug, Default)]
pub struct NightNow {
    /// Its plans in order; empty if the runs belong to no nightly run.
    pub plans: Vec<NightPlan>,
    /// Whether it has an index yet.
    pub has_index: bool,
}

/// The parts of the page of all runs; `problem` is why their directory cannot be read.
pub fn runs_parts(rows: &[Row], nightly: &NightNow, problem: Option<&str>) -> Vec<Part> {
    let list = html! {
        @if let Some(problem) = problem { section.boxed.setbacks { h2 { "What went wrong" } p { (problem) } } }
        @if !nightly.plans.is_empty() { (night(&nightly.plans, rows, nightly.has_index)) }
        @if rows.is_empty() && nightly.plans.is_empty() && problem.is_none() { p { "No run is here yet: bakeoff run and bakeoff compare make some." } }
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
                span.dot { "·" } (tell::progress(now))
                @if let Some(left) = &now.left { span.dot { "·" } (tell::left(left)) }
            }
            @if let Some(problem) = &now.problem { p.limit { (problem) } }
            @for (badge, sentence) in &row.verdicts { p { (pill(badge)) " " (unbroken(sentence)) "." } }
            @if !now.is_judged_whole && now.problem.is_none() { p.sub { "being judged" } }
            @if let Some(count) = tell::defect_count(now) { p.limit { (count) } }
        }
    }
}

/// A page with a single message.
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
                style { (PreEscaped(STYLE)) (PreEscaped(LIVE_STYLE)) }
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
    html! { span class={ "pill " (tell::state_class(now.state)) } { (now.state.word()) } }
}

fn top(now: &Snapshot, has_report: bool) -> Markup {
    html! {
        h1 { (title(now)) }
        p.sub {
            (state_pill(now)) " " (now.name)
            @if now.state.is_over() { span.dot { "·" } (tell::state(now)) }
            span.dot { "·" } (tell::progress(now))
            @if let Some(left) = &now.left { span.dot { "·" } (tell::left(left)) }
        }
        @if has_report && now.state.is_over() { p { a href="report.html" { "The report" } } }
    }
}

fn boxes(now: &Snapshot) -> Markup {
    let notes = notes(now);
    let failed_checks = tell::failed_checks(now);
    html! {
        @if !notes.is_empty() {
            section.boxed.warnings aria-label="Warnings" {
                h2 { "Warnings" }
                ul { @for note in notes { li { (note) } } }
                @if !failed_checks.is_empty() {
                    details { summary { "Failed fairness checks" } ul { @for check in failed_checks { li { (check) } } } }
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
                (doc::html::render(&headlines(run, judgement, &[], None)))
            }
            _ => { p.sub { (tell::NOTHING) } }
        }
    }
}

fn arms(now: &Snapshot) -> Markup {
    html! {
        h2 { "Arms" }
        @if now.arms.is_empty() { p.sub { "No trial has begun yet." } }
        div.side {
            @for arm_now in &now.arms {
                section.arm {
                    h3 { span class={ "mark arm-" (arm_now.place % 6) } aria-hidden="true" { "■" } " " (arm_now.attempt.trial.arm) }
                    dl { @for (name, value) in arm(now, arm_now) { div { dt { (name) } dd { (value) } } } }
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
        @for (title, chart) in charts { @if let Some(chart) = chart { h3 { (title) } (frame(&chart, "")) } }
    }
}

fn defects(now: &Snapshot) -> Markup {
    html! {
        h2 { "Defects" }
        @if now.defects.is_empty() { p.sub { (tell::no_defects(now)) } } @else {
            div.scroll { table.cards {
                thead { tr { th { "what" } th { "arm" } th { "trial" } th { "first" } th { "severity" } } }
                tbody { @for (arm, number, seen) in now.defects.iter().rev().take(DEFECTS) { tr {
                    th scope="row" {
                        (tell::defect(seen))
                        @if !seen.line.is_empty() { div.sub { code { (seen.line) } } }
                    }
                    td data-name="arm" { (arm) }
                    td data-name="trial" { (format!("{number:03}")) }
                    td data-name="first" { (tell::defect_time(seen)) }
                    td data-name="severity" { (seen.severity) }
                } } }
            } }
        }
    }
}

/// For each workload: its metrics so far, and charts of each block's figures and of the estimate after each block. Where a window has a
/// single second, only these charts show a course.
fn metrics(now: &Snapshot) -> Markup {
    let Some((run, judgement)) = now.judged.as_deref() else {
        return Markup::default();
    };
    html! {
        @for (number, workload) in run.plan.workloads.iter().enumerate() {
            @let rows = metric_rows(judgement, &workload.id);
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
                @let comparisons: Vec<&Comparison> = judgement.comparisons.iter().filter(|each| each.workload == workload.id).collect();
                @let charts = [
                    ("Block by block", chart::blocks(run, &comparisons, number)),
                    ("Estimate after each block", chart::estimate_history(run, &comparisons, number)),
                ];
                @for (title, chart) in charts { @if let Some(chart) = chart { h3 { (title) } (frame(&chart, "")) } }
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
            ul.journal { @for entry in now.entries.iter().rev().take(ENTRIES) {
                li { time datetime=(entry.at) { (tell::clock(&entry.at)) } " " (tell::entry(entry)) }
            } }
        }
    }
}
