//! Targets, measured values, and causes of missed targets.

use std::fmt::Write as _;

use base::input::units::significant;

use crate::bar::Bar;
use crate::contest::{Contest, Entry};
use crate::page::{Page, interval, percent};
use crate::peers::Tool;
use crate::ratio::{self, Median};

/// A target.
struct Row {
    what: &'static str,
    reach: &'static str,
    figure: String,
    is_reached: Option<bool>,
    /// Shown only if the target is missed.
    cause: String,
}

pub(crate) fn write(text: &mut String, page: &Page) {
    text.push_str(
        "\n## The bar\n\n| what | reach | here | reached | cause, where not |\n|---|---|---|---|---|\n",
    );
    let mut rows = Vec::new();
    for contest in page
        .contests
        .iter()
        .filter(|contest| contest.scene.keep_alive)
    {
        rows.extend(cpu(contest, page.call_ns));
    }
    // Separate CPUs, with the server or the client as the bottleneck, and a shared CPU.
    for contest in page.contests.iter().take(3) {
        rows.extend(rate(contest, Tool::Wrk, 1.3));
        rows.extend(rate(contest, Tool::Oha, 2.0));
        rows.extend(calls(contest));
    }
    rows.extend(lateness(page.bar));
    rows.extend(stall(page.bar));
    rows.push(Row {
        what: "accounting",
        reach: "exact against fault servers",
        figure: "-".into(),
        is_reached: None,
        cause: "`make test` asserts exact counts against fault servers (crates/load/tests/it/faults.rs)".into(),
    });
    rows.extend(slow(page.bar));
    rows.extend(opening(page.bar));
    rows.extend(memory(page.bar));
    for row in rows {
        let (reached, cause) = match row.is_reached {
            Some(true) => ("yes", String::new()),
            Some(false) => ("**no**", row.cause),
            None => ("not measured here", row.cause),
        };
        let Row {
            what,
            reach,
            figure,
            ..
        } = row;
        let _ = writeln!(
            text,
            "| {what} | {reach} | {figure} | {reached} | {cause} |"
        );
    }
}

/// The better of the two engines against a peer.
fn better(contest: &Contest, peer: Tool) -> Option<(Tool, Median)> {
    let each = [Tool::Epoll, Tool::Uring].into_iter();
    let ratios = each.filter_map(|tool| Some((tool, contest.ratio(tool, peer)?)));
    ratios.min_by(|one, other| one.1.middle.total_cmp(&other.1.middle))
}

fn cpu(contest: &Contest, call_ns: f64) -> Option<Row> {
    let (tool, ratio) = better(contest, Tool::Wrk)?;
    let (bakeoff, wrk) = (contest.entry(tool)?, contest.entry(Tool::Wrk)?);
    Some(Row {
        what: "client CPU per keep-alive request against wrk",
        reach: "<= 0.70",
        figure: format!(
            "{} ({}; {})",
            interval(ratio),
            tool.name(),
            contest.scene.title
        ),
        is_reached: Some(ratio.middle <= 0.70),
        cause: kernel_work(bakeoff, wrk, call_ns),
    })
}

/// The kernel's share of the CPU time, which limits possible gains.
fn kernel_work(bakeoff: &Entry, wrk: &Entry, call_ns: f64) -> String {
    let middle = |values: &[f64]| ratio::median(values).middle;
    let (bakeoff_us, wrk_us) = (middle(&bakeoff.kernel_us), middle(&wrk.kernel_us));
    let floor = bakeoff_us / middle(&wrk.cpu_us);
    let mut text = format!(
        "the kernel's part, mostly TCP: {} of {} µs for bakeoff, {} of {} µs for wrk; with no code of its own at \
         all bakeoff would reach {}",
        significant(bakeoff_us, 3),
        significant(middle(&bakeoff.cpu_us), 3),
        significant(wrk_us, 3),
        significant(middle(&wrk.cpu_us), 3),
        significant(floor, 2),
    );
    if let (Some(bakeoff), Some(wrk)) = (bakeoff.calls, wrk.calls) {
        let saved = wrk - bakeoff;
        let _ = write!(
            text,
            "; entering the kernel {} times less saves {} µs",
            significant(saved, 2),
            significant(saved * call_ns / 1e3, 2)
        );
    }
    text
}

fn rate(contest: &Contest, peer: Tool, reach: f64) -> Option<Row> {
    let (tool, ratio) = better(contest, peer)?;
    let turned = Median {
        middle: 1.0 / ratio.middle,
        low: 1.0 / ratio.high,
        high: 1.0 / ratio.low,
    };
    let (what, asked) = match peer {
        Tool::Oha => ("requests/s per client core against oha", ">= 2"),
        Tool::Epoll | Tool::Uring | Tool::Wrk | Tool::H2load | Tool::Ab => {
            ("requests/s per client core against wrk", ">= 1.3")
        }
    };
    Some(Row {
        what,
        reach: asked,
        figure: format!(
            "{} ({}; {})",
            interval(turned),
            tool.name(),
            contest.scene.title
        ),
        is_reached: Some(turned.middle >= reach),
        cause: "the same as of CPU per request, whose reciprocal it is".into(),
    })
}

fn calls(contest: &Contest) -> Vec<Row> {
    let asked = [(Tool::Uring, 0.15, "<= 0.15"), (Tool::Epoll, 2.1, "<= 2.1")];
    let row = |(tool, most, reach): (Tool, f64, &'static str)| {
        let calls = contest.entry(tool)?.calls;
        Some(Row {
            what: "system calls per request, 64 connections",
            reach,
            figure: calls.map_or_else(
                || tool.name().to_owned(),
                |calls| {
                    format!(
                        "{} ({}; {})",
                        significant(calls, 3),
                        tool.name(),
                        contest.scene.title
                    )
                },
            ),
            is_reached: calls.map(|calls| calls <= most),
            cause: "calls are shared only by responses that wait together: a client that is faster than the server is \
                    woken for each response"
                .into(),
        })
    };
    asked.into_iter().filter_map(row).collect()
}

fn lateness(bar: &Bar) -> Option<Row> {
    let quiet = bar.lateness.iter().filter(|each| each.busy <= 0.7);
    let best = quiet.min_by(|one, other| one.p99_us.total_cmp(&other.p99_us))?;
    Some(Row {
        what: "send delay, open loop",
        reach: "p50 <= 5 µs, p99 <= 50 µs, core <= 70 % busy",
        figure: format!(
            "p50 {} µs, p99 {} µs, {} % busy ({}, CPUs {})",
            significant(best.p50_us, 3),
            significant(best.p99_us, 3),
            percent(best.busy),
            best.engine.name(),
            best.cpus
        ),
        is_reached: Some(best.p50_us <= 5.0 && best.p99_us <= 50.0),
        cause:
            "the client sleeps until a request is due, so it wakes as late as the machine lets it"
                .into(),
    })
}

fn stall(bar: &Bar) -> Option<Row> {
    let stall = bar.stall.as_ref()?;
    let error = |seen: f64, right: f64| (seen / right - 1.0).abs();
    let (p99, most) = (
        error(stall.bakeoff.0, stall.analytic.0),
        error(stall.bakeoff.1, stall.analytic.1),
    );
    Some(Row {
        what: "stall test: server frozen 1 s in 10 s, open loop",
        reach: "p99 and max within 2 %",
        figure: format!("p99 off by {} %, max by {} %", percent(p99), percent(most)),
        is_reached: Some(p99 <= 0.02 && most <= 0.02),
        cause: "the machine was busy when the server woke up".into(),
    })
}

fn slow(bar: &Bar) -> Option<Row> {
    let slow = bar.slow.as_ref()?;
    Some(Row {
        what: "slow clients at 28.8, 33.6 and 56 kbit/s",
        reach: "10,000 per core, rate error <= 2 %, <= 4 KiB user memory each",
        figure: format!(
            "{} at once, {} responses, {} failed; rate error p50 {} %, p99 {} %, most {} %; {} bytes each; \
             {} s of CPU",
            slow.clients,
            slow.answers,
            slow.failed,
            percent(slow.p50_error),
            percent(slow.p99_error),
            percent(slow.max_error),
            significant(slow.bytes_per_client, 3),
            significant(slow.cpu_s, 2)
        ),
        is_reached: Some(
            slow.clients >= 10_000
                && slow.failed == 0
                && slow.p99_error <= 0.02
                && slow.bytes_per_client <= 4096.0,
        ),
        cause: "from the first byte of a response to its last; a late timer or a server without bytes to send"
            .into(),
    })
}

fn opening(bar: &Bar) -> Vec<Row> {
    let row = |each: &crate::bar::Opening| Row {
        what: "new connections per second of client CPU, 16 source addresses",
        reach: ">= 60,000",
        figure: format!(
            "{} ({}, {} failed)",
            significant(each.per_cpu_s, 3),
            each.engine.name(),
            each.failed
        ),
        is_reached: Some(each.per_cpu_s >= 60_000.0),
        cause: format!(
            "{} of {} µs per connection are the kernel's: socket, handshake, both halves' closing; on loopback the \
             client's calls also run the server's side of the handshake",
            significant(each.kernel_us, 3),
            significant(1e6 / each.per_cpu_s, 3)
        ),
    };
    bar.opening.iter().map(row).collect()
}

fn memory(bar: &Bar) -> Option<Row> {
    let memory = bar.memory.as_ref()?;
    Some(Row {
        what: "memory over time",
        reach: "flat",
        figure: format!(
            "{} KiB after a quarter of {} s, {} KiB at the end",
            memory.early_kib, memory.seconds, memory.last_kib
        ),
        is_reached: Some(memory.last_kib as f64 <= memory.early_kib as f64 * 1.02),
        cause: "histograms touch a page when a value falls on it for the first time".into(),
    })
}
