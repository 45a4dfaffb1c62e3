//! Writes the results as a Markdown page.

use std::fmt::Write as _;

use base::input::units::{show_bytes, significant};

use crate::bar::Bar;
use crate::contest::Contest;
use crate::host::Others;
use crate::participants::{self, Peer};
use crate::peers::Tool;
use crate::ratio::{self, Median};
use crate::reach;
use crate::rounds::Effort;

/// Shares of CPU time above which the machine was not quiet.
const QUIET_TAKEN: f64 = 0.05;
const QUIET_STOLEN: f64 = 0.01;

pub(crate) struct Page<'p> {
    pub(crate) host: String,
    pub(crate) load_before: f64,
    pub(crate) others: Others,
    pub(crate) effort: Effort,
    /// Cost of a trivial system call, in nanoseconds.
    pub(crate) call_ns: f64,
    pub(crate) peers: &'p [Peer],
    pub(crate) contests: &'p [Contest],
    pub(crate) bar: &'p Bar,
}

pub(crate) fn write(page: &Page) -> String {
    let mut text = String::new();
    head(&mut text, page);
    for contest in page.contests {
        scene(&mut text, contest);
    }
    bakeoff_alone(&mut text, page.bar);
    reach::write(&mut text, page);
    text
}

fn head(text: &mut String, page: &Page) {
    let Page {
        host,
        load_before,
        others,
        effort,
        peers,
        call_ns,
        ..
    } = page;
    let mut versions = vec![format!("bakeoff {}", record::VERSION)];
    let version = |peer: &Peer| format!("{} {}", peer.tool.name(), peer.version);
    versions.extend(peers.iter().map(version));
    versions.extend(
        participants::debian("nginx").map(|version| format!("nginx {version} (the server)")),
    );
    let is_quiet = others.taken <= QUIET_TAKEN && others.stolen <= QUIET_STOLEN;
    let quiet = if is_quiet {
        "It was quiet"
    } else {
        "**It was not quiet: read the intervals**"
    };
    let _ = write!(
        text,
        "# The load generator beside its peers\n\n\
         Written by `make bench-load`; do not edit.\n\n\
         - Machine: {host}. {quiet}: load average {load_before} before the first run; during the rounds other \
         processes took {} % of all CPU time and other virtual machines {} %.\n\
         - Versions: {}.\n\
         - Server: one nginx process on CPU 0, or where the title says so the bench's own, which answers every \
         request with the same bytes and waits actively. Client: one thread, alone on CPU 1 unless the title says \
         otherwise. Loopback.\n\
         - A system call that does nothing (getppid) costs {} ns here.\n\
         - {} rounds; in each, every client runs once for a second, in random order. A ratio is taken within a \
         round, client by wrk. Given are medians over the rounds; in brackets the distribution-free interval of the \
         median (order statistics, at least 95 % where there are six rounds or more).\n\
         - CPU is user and system time of the whole client process, starting included, from `getrusage` of ended children, by requests answered. bakeoff compares every byte of every answer, records two histograms and keeps a deadline for each request; the peers do less.\n\
         - Requests/s per client core are the reciprocal: what one core could send if the server kept up.\n\
         - System calls are counted in a run of their own, by the kernel's trace point with `perf stat`, or by \
         `strace` where that may not be used. Instructions are those in user space, by callgrind, first scene only: \
         this needs no performance counters. Neither io_uring nor oha was tried under valgrind.\n",
        percent(others.taken),
        percent(others.stolen),
        versions.join(", "),
        significant(*call_ns, 3),
        effort.rounds,
    );
}

pub(crate) fn scene(text: &mut String, contest: &Contest) {
    let _ = write!(
        text,
        "\n## {}\n\n\
         | client | CPU per request, µs | in the kernel | ratio to wrk | requests/s per client core | requests/s | \
         system calls per request | instructions per request | peak memory | failed |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        contest.scene.title
    );
    for entry in &contest.entries {
        let ratio = contest.ratio(entry.tool, Tool::Wrk).map(interval);
        let cpu_us = ratio::median(&entry.cpu_us).middle;
        let kernel_us = ratio::median(&entry.kernel_us).middle;
        let _ = writeln!(
            text,
            "| {} | {} | {} % | {} | {} | {} | {} | {} | {} | {} |",
            entry.tool.name(),
            significant(cpu_us, 3),
            percent(kernel_us / cpu_us),
            ratio.unwrap_or_else(none),
            significant(1e6 / cpu_us, 3),
            significant(ratio::median(&entry.per_s).middle, 3),
            entry.calls.map_or_else(none, |calls| significant(calls, 3)),
            entry
                .instructions
                .map_or_else(none, |each| significant(each, 3)),
            show_bytes(entry.peak_kib * 1024),
            entry.failed,
        );
    }
    let missing: Vec<&str> = Tool::ALL
        .into_iter()
        .filter(|tool| contest.entry(*tool).is_none())
        .map(Tool::name)
        .collect();
    if !missing.is_empty() {
        let _ = writeln!(text, "\nNot in this scene: {}.", missing.join(", "));
    }
}

/// Measurements of bakeoff alone.
fn bakeoff_alone(text: &mut String, bar: &Bar) {
    let _ = write!(
        text,
        "\n## Open loop, 10,000 requests/s, 64 connections\n\n\
         | client | CPUs | busy | send delay p50, µs | p99, µs | most, µs |\n|---|---|---:|---:|---:|---:|\n"
    );
    for each in &bar.lateness {
        let _ = writeln!(
            text,
            "| {} | {} | {} % | {} | {} | {} |",
            each.engine.name(),
            each.cpus,
            percent(each.busy),
            significant(each.p50_us, 3),
            significant(each.p99_us, 3),
            significant(each.max_us, 3)
        );
    }
    text.push_str(
        "\nThe client is told that its CPUs are its own (`--own-cpus`), so it watches the clock for the last 150 µs \
         before a request is due, and at this rate that is always.\n",
    );
    if let Some(stall) = &bar.stall {
        text.push_str(
            "\n## The server stands still for 1 s in 10 s\n\n\
             | client | latency p99, s | most, s |\n|---|---:|---:|\n",
        );
        let rows = [
            ("analytic, open loop", Some(stall.analytic)),
            ("bakeoff, 1000 requests/s", Some(stall.bakeoff)),
            ("oha, 1000 requests/s, corrected", stall.oha),
            ("wrk, closed loop", stall.wrk),
        ];
        for (name, tail) in rows {
            let show = |value: f64| significant(value, 4);
            let (p99, most) =
                tail.map_or_else(|| (none(), none()), |(p99, most)| (show(p99), show(most)));
            let _ = writeln!(text, "| {name} | {p99} | {most} |");
        }
    }
}

pub(crate) fn interval(median: Median) -> String {
    let show = |value: f64| significant(value, 3);
    format!(
        "{} [{}, {}]",
        show(median.middle),
        show(median.low),
        show(median.high)
    )
}

pub(crate) fn percent(share: f64) -> String {
    significant(share * 100.0, 2)
}

fn none() -> String {
    "-".into()
}
