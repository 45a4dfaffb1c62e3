//! smbtorture's `bench.nbench`: clients run the load file for some time, and the throughput is
//! printed.
//!
//! ```text
//! 12      412  173.53 MB/sec  warmup 1 sec                       every second: number of clients, lines done by each,
//! 12     1169  140.84 MB/sec  execute 2 sec  latency 0.00 msec   mean rate since the start of its clock
//! 12     8017   72.70 MB/sec  cleanup 10 sec                     the time limit is reached
//! Throughput 72.6957 MB/sec                                      the last rate, with more digits
//! success: nbench
//! ```
//! Its clock starts before the clients connect. If the time limit is 20 s or more, the clock
//! restarts after a 20th of it, once all clients have transferred a byte. The plan's warm-up counts
//! from then, and bytes before its end are subtracted here.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;

use crate::context::WorkloadContext;
use crate::smb::load_file;
use crate::smb::samba;
use crate::{Timing, Wrong, tool};

/// A run of smbtorture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) clients: u32,
    pub(crate) warmup_s: u64,
    pub(crate) window_s: u64,
    /// Time limit of the whole run.
    pub(crate) limit: Duration,
}

/// Result of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Report {
    /// Read and written together, in 10^6 bytes.
    pub(crate) megabytes_per_s: f64,
    /// Lines of the load file per client and second.
    pub(crate) lines_per_s: f64,
    /// Operations with another status than in the load file.
    pub(crate) unexpected: u64,
}

impl Report {
    /// Mean time of an operation, since each client always has one under way.
    pub(crate) fn operation_us(&self) -> f64 {
        1e6 / self.lines_per_s
    }
}

impl Run {
    /// Runs smbtorture in the calling thread's network namespace. A partial or complete failure is
    /// `Wrong`.
    pub(crate) fn perform(
        &self,
        context: &WorkloadContext,
        stop: &AtomicBool,
        on_poll: &mut dyn FnMut(),
    ) -> Result<Report> {
        let arguments = self.arguments(context);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let tool = samba::torture(context, &arguments, self.limit);
        let output = tool.run(stop, on_poll)?;
        let report = read(&output.stdout, self).map_err(|why| {
            let what = format!("smbtorture with {} clients: {why}", self.clients);
            Wrong(what + &tool::last_lines(&output.stdout, ""))
        })?;
        Ok(report)
    }

    fn arguments(&self, context: &WorkloadContext) -> Vec<String> {
        vec![
            format!("--loadfile={}", load_file::path(context).display()),
            format!("--num-progs={}", self.clients),
            format!("--timelimit={}", self.time_limit_s()),
            format!("--maximum-runtime={}", self.limit.as_secs()),
            format!("--seed={}", context.seed as u32 >> 1),
            // A lost connection is a failure.
            "--option=torture:nretries=0".into(),
            "bench.nbench".into(),
        ]
    }

    /// Time limit; it includes connecting, unless smbtorture's clock restarts after that.
    fn time_limit_s(&self) -> u64 {
        let load_s = self.warmup_s + self.window_s;
        let all_s = load_s + self.connecting_s();
        if all_s < TORTURE_WARMUP_FROM_S {
            all_s
        } else {
            load_s.max(TORTURE_WARMUP_FROM_S)
        }
    }

    /// Time to connect: an emulated guest needs about a second for 16 clients.
    fn connecting_s(&self) -> u64 {
        u64::from(self.clients / 16)
    }

    /// smbtorture's warm-up before its time limit.
    fn torture_warmup_s(&self) -> u64 {
        self.time_limit_s() / TORTURE_WARMUP_FROM_S
    }

    /// Expected timing of the load.
    pub(crate) fn timing(&self) -> Timing {
        let all_s = self.time_limit_s() + self.torture_warmup_s();
        Timing {
            warmup: Duration::from_secs(all_s - self.window_s),
            window: Duration::from_secs(self.window_s),
        }
    }
}

/// Shortest time limit with a warm-up of smbtorture, which is a 20th of it in whole seconds.
const TORTURE_WARMUP_FROM_S: u64 = 20;

/// A line of output per second.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Tick<'o> {
    clients: u32,
    lines: u64,
    megabytes_per_s: f64,
    phase: &'o str,
}

/// Words in messages about failed clients.
const FAILURES: [&str; 4] = ["Error: ", "ERROR: ", "Reconnecting client", "Failed "];

fn read(out: &str, run: &Run) -> Result<Report, String> {
    let failed = out
        .lines()
        .find(|line| FAILURES.iter().any(|word| line.contains(word)));
    if let Some(line) = failed {
        return Err(format!("an operation failed: {line}"));
    }
    let throughput = out
        .lines()
        .find_map(|line| line.strip_prefix("Throughput ")?.strip_suffix(" MB/sec"));
    let Some(throughput) = throughput.and_then(|number| number.parse::<f64>().ok()) else {
        return Err("no throughput in its output".into());
    };
    if !out.lines().any(|line| line == "success: nbench") {
        return Err("no success in its output".into());
    }
    let Window {
        open,
        opens,
        close,
        closes,
    } = window(out, run)?;
    let seconds = (closes - opens) as f64;
    let moved = throughput * closes as f64 - open.megabytes_per_s * opens as f64;
    let lines = close.lines.saturating_sub(open.lines);
    if moved <= 0.0 || lines == 0 {
        return Err("nothing was transferred in the window".into());
    }
    Ok(Report {
        megabytes_per_s: moved / seconds,
        lines_per_s: lines as f64 / seconds,
        unexpected: out
            .lines()
            .filter(|line| line.contains("] Warning: "))
            .count() as u64,
    })
}

/// First and last tick of the window, and their numbers since the start of smbtorture's clock.
struct Window<'o> {
    open: Tick<'o>,
    opens: usize,
    close: Tick<'o>,
    closes: usize,
}

/// The window, from the end of the warm-up to the end of the time limit.
///
/// Ticks are counted instead of seconds. Each is slightly late, and the error cancels.
fn window<'o>(out: &'o str, run: &Run) -> Result<Window<'o>, String> {
    let ticks: Vec<_> = out.lines().filter_map(tick).collect();
    // After smbtorture's warm-up its clock restarts.
    let restarts = run.torture_warmup_s() > 0;
    let counts = |tick: &Tick<'_>| !(restarts && tick.phase == "warmup");
    let numbered = || ticks.iter().copied().filter(counts).zip(1..);
    let working = numbered().find(|(tick, _)| tick.phase == "execute");
    let warm = working.map_or(0, |(_, number)| {
        number + run.warmup_s.saturating_sub(1) as usize
    });
    let open = numbered().find(|(tick, number)| tick.phase == "execute" && *number >= warm);
    let close = numbered().find(|(tick, _)| tick.phase == "cleanup");
    let (Some((open, opens)), Some((close, closes))) = (open, close) else {
        return Err("its clients were not all at work before the time was up".into());
    };
    if 2 * (closes - opens) < run.window_s as usize {
        let what = "its clients were all at work for less than half of the window";
        return Err(format!("{what}: {} s", closes - opens));
    }
    let lost = numbered().find(|(tick, number)| {
        tick.phase == "execute" && *number >= opens && tick.clients != run.clients
    });
    if let Some((tick, _)) = lost {
        return Err(format!("clients at work: {}", tick.clients));
    }
    Ok(Window {
        open,
        opens,
        close,
        closes,
    })
}

fn tick(line: &str) -> Option<Tick<'_>> {
    let words: Vec<_> = line.split_whitespace().collect();
    let [clients, lines, rate, "MB/sec", phase, _, "sec", ..] = words.as_slice() else {
        return None;
    };
    Some(Tick {
        clients: clients.parse().ok()?,
        lines: lines.parse().ok()?,
        megabytes_per_s: rate.parse().ok()?,
        phase,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    /// From smbtorture 4.17: 12 clients, a time limit of 10 s.
    const SHORT: &str = "\
Running for 10 seconds with load '/usr/share/dbench/client.txt' and warmup 0 secs
Starting 12 clients
12 clients started
  12       412  173.53 MB/sec  execute 1 sec  latency 0.00 msec 
  12      1169  140.84 MB/sec  execute 2 sec  latency 0.00 msec 
  12      2064  107.47 MB/sec  execute 3 sec  latency 0.00 msec 
  12      2976  99.40 MB/sec  execute 4 sec  latency 0.00 msec 
  12      3708  92.11 MB/sec  execute 5 sec  latency 0.00 msec 
  12      4533  82.65 MB/sec  execute 6 sec  latency 0.00 msec 
  12      5367  78.11 MB/sec  execute 7 sec  latency 0.00 msec 
  12      6449  77.93 MB/sec  execute 8 sec  latency 0.00 msec 
  12      7333  77.41 MB/sec  execute 9 sec  latency 0.00 msec 
  12      8017  72.70 MB/sec  cleanup 10 sec   


Throughput 72.6957 MB/sec
time: 2026-11-21 09:28:03.018030
success: nbench
";

    /// 4 clients, a time limit of 20 s: its clock began again after a second.
    const LONG: &str = "\
Running for 20 seconds with load '/usr/share/dbench/client.txt' and warmup 1 secs
   4      3047  27.40 MB/sec  execute 1 sec  latency 0.00 msec 
   4      4264  28.56 MB/sec  execute 2 sec  latency 0.00 msec 
   4      4959  22.33 MB/sec  execute 3 sec  latency 0.00 msec 
   4      6209  23.73 MB/sec  execute 4 sec  latency 0.00 msec 
   4      8068  27.27 MB/sec  execute 5 sec  latency 0.00 msec 
   4     10371  30.92 MB/sec  execute 6 sec  latency 0.00 msec 
   4     12430  32.49 MB/sec  execute 7 sec  latency 0.00 msec 
   4     13663  31.72 MB/sec  execute 8 sec  latency 0.00 msec 
   4     15873  33.77 MB/sec  execute 9 sec  latency 0.00 msec 
   4     18192  35.07 MB/sec  execute 10 sec  latency 0.00 msec 
   4     19240  34.27 MB/sec  execute 11 sec  latency 0.00 msec 
   4     20816  33.51 MB/sec  execute 12 sec  latency 0.00 msec 
   4     22864  35.05 MB/sec  execute 13 sec  latency 0.00 msec 
   4     23520  33.25 MB/sec  execute 14 sec  latency 0.00 msec 
   4     25132  33.35 MB/sec  execute 15 sec  latency 0.00 msec 
   4     26706  33.49 MB/sec  execute 16 sec  latency 0.00 msec 
   4     28944  34.25 MB/sec  execute 17 sec  latency 0.00 msec 
   4     30084  33.78 MB/sec  execute 18 sec  latency 0.00 msec 
   4     31297  33.36 MB/sec  execute 19 sec  latency 0.00 msec 
   4     33597  34.32 MB/sec  cleanup 20 sec   
Throughput 34.3187 MB/sec
success: nbench
";

    /// 2 clients on a share of 6 MB.
    const FULL: &str = "\
2 clients started
[65] Error: WriteX should have succeeded - NT_STATUS_DISK_FULL
[65] client 0 exiting with status 1
[79] Error: WriteX should have succeeded - NT_STATUS_DISK_FULL
[79] client 1 exiting with status 1


Throughput -3.5045e-09 MB/sec
error: nbench [
Unknown error/failure. Missing torture_fail() or torture_assert_*() call?
]
";

    fn run(clients: u32, warmup_s: u64, window_s: u64) -> Run {
        Run {
            clients,
            warmup_s,
            window_s,
            limit: Duration::from_secs(600),
        }
    }

    fn check(warmup_s: u64, window_s: u64, out: &str, expected: &Expect) {
        let run = run(if out == LONG { 4 } else { 12 }, warmup_s, window_s);
        let text = match read(out, &run) {
            Ok(report) => format!("{report:?}, {:.1} us each", report.operation_us()),
            Err(why) => why,
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn bytes_before_the_window_are_subtracted() {
        // 10 s at 72.6957 MB/s, less 4 s at 99.40, over 6 s.
        check(
            4,
            6,
            SHORT,
            &expect![
                "Report { megabytes_per_s: 54.89283333333333, lines_per_s: 840.1666666666666, unexpected: 0 }, 1190.2 us each"
            ],
        );
        // Without a warm-up the window opens at the first tick at which all clients had moved
        // something.
        check(
            0,
            10,
            SHORT,
            &expect![
                "Report { megabytes_per_s: 61.491888888888894, lines_per_s: 845.0, unexpected: 0 }, 1183.4 us each"
            ],
        );
    }

    #[test]
    fn smbtortures_warm_up_is_not_counted() {
        // 20 s at 34.3187 MB/s, less 8 s at 31.72, over 12 s; the second before them has no tick.
        check(
            8,
            12,
            LONG,
            &expect![
                "Report { megabytes_per_s: 36.05116666666667, lines_per_s: 1661.1666666666667, unexpected: 0 }, 602.0 us each"
            ],
        );
        // Where its clock goes on, a tick at which some clients had moved nothing is one of the
        // time limit's.
        let slow = SHORT.replacen("execute", "warmup ", 1);
        check(
            1,
            9,
            &slow,
            &expect![
                "Report { megabytes_per_s: 55.659625, lines_per_s: 856.0, unexpected: 0 }, 1168.2 us each"
            ],
        );
    }

    #[test]
    fn a_partial_failure_gives_no_figure() {
        check(
            0,
            10,
            FULL,
            &expect![
                "an operation failed: [65] Error: WriteX should have succeeded - NT_STATUS_DISK_FULL"
            ],
        );
        let without = |words: &str| SHORT.replace(words, "");
        check(
            0,
            10,
            &without("Throughput 72.6957 MB/sec"),
            &expect!["no throughput in its output"],
        );
        check(
            0,
            10,
            &without("success: nbench"),
            &expect!["no success in its output"],
        );
        let lost = SHORT.replace("  12      5367", "  11      5367");
        check(0, 10, &lost, &expect!["clients at work: 11"]);
        let late = SHORT.replace("execute", "warmup ");
        check(
            0,
            10,
            &late,
            &expect!["its clients were not all at work before the time was up"],
        );
        check(
            6,
            20,
            SHORT,
            &expect!["its clients were all at work for less than half of the window: 4 s"],
        );
    }

    #[test]
    fn unexpected_results_of_operations_are_counted() {
        let warning = "[71] Warning: got status NT_STATUS_OK but expected NT_STATUS_NO_SUCH_FILE\n";
        let out = SHORT.to_string() + warning + warning;
        let report = read(&out, &run(12, 1, 9));
        assert_eq!(report.map(|report| report.unexpected), Ok(2));
    }
}
