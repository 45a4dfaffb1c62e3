//! The bar: what was to be reached, what was, and why not where it was not.

use std::fmt::Write as _;

use record::units::significant;

use crate::bar::Bar;
use crate::contest::Contest;
use crate::page::{Page, interval, percent};
use crate::peers::Tool;
use crate::ratio::Median;

/// One row of the bar.
struct Row {
    what: &'static str,
    reach: &'static str,
    figure: String,
    is_reached: Option<bool>,
    /// Shown only where the bar is not reached.
    cause: &'static str,
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
        rows.extend(cpu(contest));
    }
    // First with a CPU each, then with one for both.
    for contest in page.contests.iter().take(2) {
        rows.extend(rate(contest, Tool::Wrk, 1.3));
        rows.extend(rate(contest, Tool::Oha, 2.0));
        rows.extend(calls(contest));
    }
    rows.extend(lateness(page.bar));
    rows.extend(stall(page.bar));
    rows.push(Row {
        what: "accounting",
        reach: "exact against fault servers",
        figure: "exact counts asserted by the tests of crate load (tests/it/faults.rs)".into(),
        is_reached: Some(true),
        cause: "",
    });
    rows.extend(slow(page.bar));
    rows.extend(opening(page.bar));
    rows.extend(memory(page.bar));
    for row in rows {
        let (reached, cause) = match row.is_reached {
            Some(true) => ("yes", ""),
            Some(false) => ("**no**", row.cause),
            None => ("not measured", row.cause),
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

fn cpu(contest: &Contest) -> Option<Row> {
    let (tool, ratio) = better(contest, Tool::Wrk)?;
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
        cause: "not traced; in user space bakeoff needs about a fifth of wrk's instructions, so \
                what is left is the kernel's work, much of it the same for both",
    })
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
        cause: "the same as of CPU per request, whose reciprocal it is",
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
            cause: "calls are shared only by answers that wait together, and \
                    here a client is often woken for one; or neither perf nor strace may be used",
        })
    };
    asked.into_iter().filter_map(row).collect()
}

fn lateness(bar: &Bar) -> Option<Row> {
    let best = bar
        .lateness
        .iter()
        .min_by(|one, other| one.p99_us.total_cmp(&other.p99_us))?;
    Some(Row {
        what: "lateness of sending, open loop",
        reach: "p50 <= 5 us, p99 <= 50 us, core <= 70 % busy",
        figure: format!(
            "p50 {} us, p99 {} us, {} % busy ({}, CPUs {})",
            significant(best.p50_us, 3),
            significant(best.p99_us, 3),
            percent(best.busy),
            best.engine.name(),
            best.cpus
        ),
        is_reached: Some(best.p50_us <= 5.0 && best.p99_us <= 50.0 && best.busy <= 0.7),
        cause: "not traced; other processes on the two CPUs delay a client by milliseconds",
    })
}

fn stall(bar: &Bar) -> Option<Row> {
    let stall = bar.stall.as_ref()?;
    let error = |seen: f64, right: f64| (seen / right - 1.0).abs();
    let (p99, most) = (
        error(stall.own.0, stall.analytic.0),
        error(stall.own.1, stall.analytic.1),
    );
    Some(Row {
        what: "stall test: server frozen 1 s in 10 s, open loop",
        reach: "p99 and max within 2 %",
        figure: format!("p99 off by {} %, max by {} %", percent(p99), percent(most)),
        is_reached: Some(p99 <= 0.02 && most <= 0.02),
        cause: "the machine was busy when the server woke up",
    })
}

fn slow(bar: &Bar) -> Option<Row> {
    let slow = bar.slow.as_ref()?;
    Some(Row {
        what: "slow clients at 28.8, 33.6 and 56 kbit/s",
        reach: "10,000 per core, rate error <= 2 %, <= 4 KiB user memory each",
        figure: format!(
            "{} at once, {} answers, {} failed; rate error p50 {} %, p99 {} %, most {} %; {} bytes each; \
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
        cause: "not told apart: the time measured includes the wait \
                for the first byte while all clients connect within half a second",
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
        cause: "not traced; on loopback a sender also does part of its peer's TCP work",
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
        cause: "histograms touch a page when a value falls on it for the first time",
    })
}
