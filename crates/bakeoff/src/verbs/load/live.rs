//! What is shown while the load runs: a moving line and a curve on a terminal, a line per second
//! elsewhere, nothing beside JSON. All of it goes to standard error, so that the result stands alone
//! on standard output.

use std::collections::VecDeque;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use load::Tick;
use load::schedule::Schedule;
use load::traffic::Traffic;

use super::summary::{show_count, show_ns};

/// Seconds that the small curve shows.
const CURVE_S: usize = 60;

/// The view of one load.
pub(super) struct Live {
    form: Form,
    last: Tick,
    rates: VecDeque<u64>,
    /// Requests under way at once and the rest between two, in a closed loop.
    closed: Option<(u32, Duration)>,
    run: u32,
}

enum Form {
    Moving(ProgressBar),
    Lines,
    Silent,
}

const START: Tick = Tick {
    second: 0,
    ok: 0,
    faults: 0,
    counting: false,
};

impl Live {
    pub(super) fn new(traffic: &Traffic, json: bool) -> Self {
        let bar = ProgressBar::new_spinner();
        let form = match (json, bar.is_hidden()) {
            (true, _) => Form::Silent,
            (false, true) => Form::Lines,
            (false, false) => {
                let style = ProgressStyle::with_template("{spinner} {wide_msg}\n  {prefix}");
                bar.set_style(style.expect("the template is a constant of known form"));
                bar.enable_steady_tick(Duration::from_millis(250));
                Form::Moving(bar)
            }
        };
        let closed = match traffic.schedule {
            Schedule::Closed { think } => Some((traffic.seats(), think)),
            Schedule::Open { .. } => None,
        };
        Self {
            form,
            last: START,
            rates: VecDeque::new(),
            closed,
            run: 1,
        }
    }

    /// The levels of a ramp differ in connections, so that the mean time cannot be told from them.
    pub(super) fn forget_connections(&mut self) {
        self.closed = None;
    }

    /// A second has passed.
    pub(super) fn tick(&mut self, tick: Tick) {
        // Seconds begin anew with each run of a ramp.
        if tick.second <= self.last.second {
            (self.last, self.run) = (START, self.run + 1);
        }
        let line = self.line(tick);
        match &self.form {
            Form::Moving(bar) => {
                bar.set_message(line);
                bar.set_prefix(self.curve());
            }
            Form::Lines => eprintln!("{line}"),
            Form::Silent => {}
        }
        self.last = tick;
    }

    fn line(&mut self, tick: Tick) -> String {
        let (ok, faults) = (tick.ok - self.last.ok, tick.faults - self.last.faults);
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
        let mean = match self.mean_ns(ok + faults) {
            Some(mean_ns) => format!("  mean {:>7}", show_ns(mean_ns)),
            None => String::new(),
        };
        format!(
            "{run}{:>3} s {:>9}/s{mean}  errors {faults}/s  all {} ok, {} errors{phase}",
            tick.second,
            show_count(ok),
            show_count(tick.ok),
            show_count(tick.faults)
        )
    }

    /// Mean time of a request by Little's law: so many clients, each with one request under way or
    /// at rest, that ended so many in a second.
    fn mean_ns(&self, ended: u64) -> Option<u64> {
        let (connections, think) = self.closed.filter(|_| ended > 0)?;
        let cycle_ns = 1e9 * f64::from(connections) / ended as f64;
        Some((cycle_ns - think.as_nanos() as f64).max(0.0) as u64)
    }

    fn curve(&self) -> String {
        const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let top = self.rates.iter().copied().max().unwrap_or(0).max(1);
        let step = |rate: &u64| STEPS[(rate * 7).div_ceil(top) as usize];
        self.rates.iter().map(step).collect()
    }

    /// Takes the moving line away.
    pub(super) fn close(self) {
        if let Form::Moving(bar) = self.form {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn live(closed: Option<(u32, Duration)>) -> Live {
        Live {
            form: Form::Silent,
            last: START,
            rates: VecDeque::new(),
            closed,
            run: 1,
        }
    }

    fn tick(second: u32, ok: u64, faults: u64) -> Tick {
        Tick {
            second,
            ok,
            faults,
            counting: second > 1,
        }
    }

    #[test]
    fn each_second_has_a_line_and_a_step_of_the_curve() {
        let mut live = live(Some((10, Duration::from_millis(1))));
        let ticks = [
            tick(1, 1000, 0),
            tick(2, 6000, 5),
            tick(3, 6000, 5),
            tick(1, 70, 0),
        ];
        let mut lines = Vec::new();
        for tick in ticks {
            if tick.second <= live.last.second {
                (live.last, live.run) = (START, live.run + 1);
            }
            lines.push(live.line(tick));
            live.last = tick;
        }
        expect![[r#"
              1 s     1,000/s  mean 9.00 ms  errors 0/s  all 1,000 ok, 0 errors  (not counted)
              2 s     5,000/s  mean  998 us  errors 5/s  all 6,000 ok, 5 errors
              3 s         0/s  errors 0/s  all 6,000 ok, 5 errors
            run 2   1 s        70/s  mean  142 ms  errors 0/s  all 70 ok, 0 errors  (not counted)"#]].assert_eq(&lines.join("\n"));
        assert_eq!(live.curve(), "▃█▁▂");
    }

    #[test]
    fn the_curve_keeps_the_last_minute() {
        let mut live = live(None);
        for second in 1..=100 {
            live.tick(tick(second, u64::from(second * second), 0));
        }
        assert_eq!(live.curve().chars().count(), 60);
    }
}
