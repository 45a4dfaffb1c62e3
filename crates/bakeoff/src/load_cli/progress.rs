//! Shows a load while it runs: a progress line and a curve on a terminal, else a line per second,
//! and nothing with `--json`. All of it goes to standard error; standard output has the result.

use std::collections::VecDeque;
use std::time::Duration;

use base::latency::Packed;
use indicatif::{ProgressBar, ProgressStyle};
use record::load::Tick;

use crate::load_cli::format::{show_count, show_ns};
use crate::out;

/// Seconds that the curve shows.
const CURVE_S: usize = 60;

/// The view of one load.
pub(crate) struct Progress {
    display: Display,
    /// The counts of the previous tick.
    last: Counts,
    rates: VecDeque<u64>,
    run: u32,
}

/// The counts of a tick: successful requests and faults since the start of the run.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    second: u32,
    ok: u64,
    faults: u64,
}

enum Display {
    ProgressLine(ProgressBar),
    Lines,
    Silent,
}

impl Progress {
    /// Shows nothing with `json`, and lines if standard error is not a terminal.
    pub(crate) fn new(json: bool) -> Self {
        let bar = ProgressBar::new_spinner();
        let display = match (json, bar.is_hidden()) {
            (true, _) => Display::Silent,
            (false, true) => Display::Lines,
            (false, false) => {
                let style = ProgressStyle::with_template("{spinner} {wide_msg}\n  {prefix}");
                bar.set_style(style.expect("the template is valid"));
                bar.enable_steady_tick(Duration::from_millis(250));
                Display::ProgressLine(bar)
            }
        };
        Self {
            display,
            last: Counts::default(),
            rates: VecDeque::new(),
            run: 1,
        }
    }

    /// Shows the counts of a second.
    pub(crate) fn tick(&mut self, tick: &Tick) {
        let line = self.line(tick);
        match &self.display {
            Display::ProgressLine(bar) => {
                bar.set_message(line);
                bar.set_prefix(self.curve());
            }
            Display::Lines => out::error_line(&line),
            Display::Silent => {}
        }
    }

    fn line(&mut self, tick: &Tick) -> String {
        // Each run of a ramp counts its seconds from 1.
        if tick.second <= self.last.second {
            self.last = Counts::default();
            self.run += 1;
        }
        let ok = tick.ok - self.last.ok;
        let faults = tick.faults - self.last.faults;
        self.last = Counts {
            second: tick.second,
            ok: tick.ok,
            faults: tick.faults,
        };
        if self.rates.len() == CURVE_S {
            self.rates.pop_front();
        }
        self.rates.push_back(ok);
        let run = if self.run > 1 {
            format!("run {} ", self.run)
        } else {
            String::new()
        };
        let phase = if tick.counting { "" } else { "  (not counted)" };
        format!(
            "{run}{:>3} s {:>9}/s{}  errors {faults}/s  all {} ok, {} errors{phase}",
            tick.second,
            show_count(ok),
            quantiles(&tick.latency),
            show_count(tick.ok),
            show_count(tick.faults)
        )
    }

    fn curve(&self) -> String {
        const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let top = self.rates.iter().copied().max().unwrap_or(0).max(1);
        let step = |rate: &u64| STEPS[(rate * 7).div_ceil(top) as usize];
        self.rates.iter().map(step).collect()
    }

    /// Removes the progress line.
    pub(crate) fn close(self) {
        if let Display::ProgressLine(bar) = self.display {
            bar.finish_and_clear();
        }
    }
}

/// The median and 99th percentile of a second's latencies.
fn quantiles(latency: &Packed) -> String {
    if latency.is_empty() {
        return String::new();
    }
    let latency = latency.unpack();
    let [p50, p99] = [0.5, 0.99].map(|quantile| show_ns(latency.quantile_ns(quantile)));
    format!("  p50 {p50:>7}  p99 {p99:>7}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::latency::Latency;
    use expect_test::expect;

    fn progress() -> Progress {
        Progress {
            display: Display::Silent,
            last: Counts::default(),
            rates: VecDeque::new(),
            run: 1,
        }
    }

    fn tick(second: u32, ok: u64, faults: u64, latencies_ns: &[u64]) -> Tick {
        let mut latency = Latency::coarse();
        for ns in latencies_ns {
            latency.record(*ns);
        }
        Tick {
            second,
            ok,
            faults,
            latency: latency.pack(),
            counting: second > 1,
            ended: Vec::new(),
        }
    }

    #[test]
    fn each_second_has_a_line_and_a_step_of_the_curve() {
        let mut progress = progress();
        let ticks = [
            tick(1, 1000, 0, &[2_000_000]),
            tick(2, 6000, 5, &[998_000, 3_000_000]),
            tick(3, 6000, 5, &[]),
            tick(1, 70, 0, &[140_000_000]),
        ];
        let lines: Vec<_> = ticks.iter().map(|tick| progress.line(tick)).collect();
        expect![[r#"
              1 s     1,000/s  p50 2.01 ms  p99 2.01 ms  errors 0/s  all 1,000 ok, 0 errors  (not counted)
              2 s     5,000/s  p50  999 µs  p99 3.01 ms  errors 5/s  all 6,000 ok, 5 errors
              3 s         0/s  errors 0/s  all 6,000 ok, 5 errors
            run 2   1 s        70/s  p50  141 ms  p99  141 ms  errors 0/s  all 70 ok, 0 errors  (not counted)"#]].assert_eq(&lines.join("\n"));
        assert_eq!(progress.curve(), "▃█▁▂");
    }

    #[test]
    fn the_curve_keeps_the_last_minute() {
        let mut progress = progress();
        for second in 1..=100 {
            progress.tick(&tick(second, u64::from(second * second), 0, &[]));
        }
        assert_eq!(progress.curve().chars().count(), 60);
    }
}
