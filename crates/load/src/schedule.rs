//! When requests are due, in closed and open loops.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::clock;
use crate::part::Part;
use crate::prng::Prng;

/// Think times use streams from this one on, arrivals use lower ones. A thread's choice of requests uses the same stream as the
/// think times of the thread with its number (`Prng::for_mix`).
const THINK_STREAM: u64 = 1 << 32;

/// When requests are due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Schedule {
    /// Each connection has one request under way at a time. A slow server gets fewer requests.
    Closed {
        /// Time between a response and the next request.
        think: Think,
    },
    /// Requests are due at a fixed rate, whatever the server does. An arrival that finds all
    /// connections busy waits for one, and the wait is part of its latency.
    Open {
        /// Requests per second of all connections together.
        rate_per_s: f64,
        /// How arrivals are spaced.
        arrivals: Arrivals,
    },
}

impl Schedule {
    /// Requests per second, in an open loop.
    #[must_use]
    pub fn rate_per_s(self) -> Option<f64> {
        match self {
            Self::Open { rate_per_s, .. } => Some(rate_per_s),
            Self::Closed { .. } => None,
        }
    }
}

/// Think time, uniformly distributed between two times. Clients start spread over the longer one.
///
/// Clients with a constant think time may fall into step and send their requests in bursts. That
/// depends on the kernel's timers and is no property of users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Think {
    /// The shortest time.
    pub least: Duration,
    /// The longest time; not below `least`.
    pub most: Duration,
}

impl Think {
    /// No think time.
    pub const NONE: Self = Self::always(Duration::ZERO);

    /// A constant think time.
    #[must_use]
    pub const fn always(time: Duration) -> Self {
        Self {
            least: time,
            most: time,
        }
    }

    /// Whether clients never think.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.most.is_zero()
    }
}

/// Highest rate of a client thread: the kernel alone needs a microsecond for each request.
pub const THREAD_RATE_PER_S: u32 = 1_000_000;

/// Lowest rate of a load. With fewer requests, a run that ends by count would take too long.
pub const MIN_RATE_PER_S: f64 = 0.001;

/// Checks that a rate lies in the range that `threads` client threads support.
pub fn check_rate(rate_per_s: f64, threads: u32) -> Result<()> {
    // Decimal notation of small numbers would be hundreds of zeros.
    let shown = if rate_per_s != 0.0 && rate_per_s.abs() < MIN_RATE_PER_S {
        format!("{rate_per_s:e}")
    } else {
        rate_per_s.to_string()
    };
    ensure!(
        rate_per_s.is_finite() && rate_per_s >= MIN_RATE_PER_S,
        "rate out of range: {shown} (at least {MIN_RATE_PER_S} per second, which is one in 1000 s)"
    );
    let max = max_rate_per_s(threads);
    ensure!(
        rate_per_s <= max,
        "rate out of range: {shown} (at most {max} requests per second: {THREAD_RATE_PER_S} for each of {threads} \
         client threads, which is more than one can send)"
    );
    Ok(())
}

/// Highest rate of this many client threads.
pub(crate) fn max_rate_per_s(threads: u32) -> f64 {
    f64::from(THREAD_RATE_PER_S) * f64::from(threads)
}

/// How arrivals are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    Constant,
    /// At random and independently, like requests of many users.
    Poisson,
}

/// One thread's part of a schedule.
pub(crate) enum Pacer {
    Closed(ThinkTimes),
    Open(ArrivalSequence),
}

impl Pacer {
    /// The part of one thread.
    pub(crate) fn new(schedule: Schedule, start_ns: u64, part: Part, seed: u64) -> Self {
        match schedule {
            Schedule::Closed { think } => Self::Closed(ThinkTimes::new(
                think,
                Prng::new(seed, THINK_STREAM ^ u64::from(part.index)),
            )),
            Schedule::Open {
                rate_per_s,
                arrivals,
            } => {
                let gap_ns = 1e9 / rate_per_s;
                Self::Open(match arrivals {
                    Arrivals::Constant => ArrivalSequence::constant(start_ns, gap_ns, part),
                    Arrivals::Poisson => {
                        let prng = Prng::new(seed, part.index.into());
                        ArrivalSequence::poisson(start_ns, gap_ns * f64::from(part.count), prng)
                    }
                })
            }
        }
    }

    /// Spreads the starts of closed-loop clients over at least this time.
    pub(crate) fn spread_start(mut self, time: Duration) -> Self {
        if let Self::Closed(think_times) = &mut self {
            think_times.start_spread_ns = think_times.start_spread_ns.max(clock::ns(time));
        }
        self
    }
}

/// The think times of one thread's clients.
pub(crate) struct ThinkTimes {
    least_ns: u64,
    most_ns: u64,
    /// Clients start spread over this time.
    start_spread_ns: u64,
    prng: Prng,
}

impl ThinkTimes {
    fn new(think: Think, prng: Prng) -> Self {
        Self {
            least_ns: clock::ns(think.least),
            most_ns: clock::ns(think.most),
            start_spread_ns: clock::ns(think.most),
            prng,
        }
    }

    pub(crate) fn are_none(&self) -> bool {
        self.most_ns == 0
    }

    /// How long a client waits before its first request.
    pub(crate) fn first_ns(&mut self) -> u64 {
        self.between(0, self.start_spread_ns)
    }

    /// Draws the next think time.
    pub(crate) fn next_ns(&mut self) -> u64 {
        self.between(self.least_ns, self.most_ns)
    }

    /// Draws no random number if both ends are equal.
    fn between(&mut self, least_ns: u64, most_ns: u64) -> u64 {
        if least_ns == most_ns {
            return least_ns;
        }
        self.prng.between(least_ns, most_ns)
    }
}

/// Most random arrivals that are drawn one by one when they are skipped.
const MAX_DRAWN: u64 = 1_000_000;

/// An endless sequence of scheduled send times. Arrivals that wait for a connection need no queue:
/// they are those between `next_ns` and now.
pub(crate) struct ArrivalSequence {
    /// The next arrival.
    pub(crate) next_ns: u64,
    start_ns: u64,
    spacing: Spacing,
}

enum Spacing {
    /// Computed from the number of the arrival, so rounding errors do not add up.
    Constant { gap_ns: f64, step: u64, number: u64 },
    Poisson {
        mean_ns: f64,
        after_ns: f64,
        prng: Prng,
    },
}

impl ArrivalSequence {
    /// Threads take turns, so the arrivals of all threads together are equally spaced.
    fn constant(start_ns: u64, gap_ns: f64, part: Part) -> Self {
        let spacing = Spacing::Constant {
            gap_ns,
            step: part.count.into(),
            number: part.index.into(),
        };
        Self::new(start_ns, spacing)
    }

    fn poisson(start_ns: u64, mean_ns: f64, prng: Prng) -> Self {
        let spacing = Spacing::Poisson {
            mean_ns,
            after_ns: 0.0,
            prng,
        };
        Self::new(start_ns, spacing)
    }

    fn new(start_ns: u64, spacing: Spacing) -> Self {
        let mut arrivals = Self {
            next_ns: start_ns,
            start_ns,
            spacing,
        };
        arrivals.advance();
        arrivals
    }

    /// Skips the arrivals before `until_ns` and returns their number.
    ///
    /// The number of equally spaced arrivals is computed. Random arrivals are drawn one by one.
    /// After a million, the rest is estimated from the mean, with an error of about a thousandth,
    /// because drawing would delay the end of a run.
    pub(crate) fn skip_to(&mut self, until_ns: u64) -> u64 {
        let mut count = 0;
        let until = until_ns.saturating_sub(self.start_ns) as f64;
        if let Spacing::Constant {
            gap_ns,
            step,
            number,
        } = &mut self.spacing
        {
            // `number` is that of the arrival after the next one. Skip one fewer than computed, to
            // allow for rounding.
            let next = *number - *step;
            count = ((until / *gap_ns) as u64).saturating_sub(next) / *step;
            count = count.saturating_sub(1);
            *number = next + count * *step;
            self.advance();
        }
        while self.next_ns < until_ns && count < MAX_DRAWN {
            self.advance();
            count += 1;
        }
        if let Spacing::Poisson {
            mean_ns, after_ns, ..
        } = &mut self.spacing
            && self.next_ns < until_ns
        {
            count += ((until_ns - self.next_ns) as f64 / *mean_ns).ceil() as u64;
            *after_ns = (until_ns - self.start_ns) as f64;
            self.advance();
        }
        count
    }

    /// Moves on to the following arrival.
    pub(crate) fn advance(&mut self) {
        let after_ns = match &mut self.spacing {
            Spacing::Constant {
                gap_ns,
                step,
                number,
            } => {
                let after_ns = *number as f64 * *gap_ns;
                *number += *step;
                after_ns
            }
            Spacing::Poisson {
                mean_ns,
                after_ns,
                prng,
            } => {
                *after_ns -= prng.unit().ln() * *mean_ns;
                *after_ns
            }
        };
        self.next_ns = self.start_ns.saturating_add(after_ns as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn think_times_lie_between_their_bounds_and_clients_start_spread() {
        let think = Think {
            least: Duration::from_nanos(100),
            most: Duration::from_nanos(300),
        };
        let think_times = |spread| {
            let pacer = Pacer::new(Schedule::Closed { think }, 0, Part::WHOLE, 7);
            let Pacer::Closed(think_times) = pacer.spread_start(Duration::from_nanos(spread))
            else {
                unreachable!("a closed schedule has a closed pacer");
            };
            think_times
        };
        let mean = |mut think_times: ThinkTimes, draw: fn(&mut ThinkTimes) -> u64, least, most| {
            let all: Vec<_> = (0..10_000).map(|_| draw(&mut think_times)).collect();
            assert!(all.iter().all(|time_ns| (least..=most).contains(time_ns)));
            all.iter().sum::<u64>() / 10_000
        };
        assert!((198..=202).contains(&mean(think_times(0), ThinkTimes::next_ns, 100, 300)));
        assert!((146..=154).contains(&mean(think_times(0), ThinkTimes::first_ns, 0, 300)));
        assert!((490..=510).contains(&mean(think_times(1000), ThinkTimes::first_ns, 0, 1000)));
    }

    fn arrivals(rate_per_s: f64, arrivals: Arrivals, threads: u32, count: usize) -> Vec<u64> {
        let schedule = Schedule::Open {
            rate_per_s,
            arrivals,
        };
        let mut all = Vec::new();
        for index in 0..threads {
            let part = Part {
                index,
                count: threads,
            };
            let Pacer::Open(mut arrivals) = Pacer::new(schedule, 1000, part, 7) else {
                unreachable!("an open schedule has an open pacer");
            };
            for _ in 0..count {
                all.push(arrivals.next_ns - 1000);
                arrivals.advance();
            }
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn threads_together_are_spaced_equally() {
        let expected: Vec<u64> = (0..12).map(|index| index * 1_000_000).collect();
        assert_eq!(arrivals(1000.0, Arrivals::Constant, 3, 4), expected);
    }

    fn sequence(arrivals: Arrivals, part: Part) -> ArrivalSequence {
        let schedule = Schedule::Open {
            rate_per_s: 1000.0 / 3.0,
            arrivals,
        };
        match Pacer::new(schedule, 1000, part, 7) {
            Pacer::Open(arrivals) => arrivals,
            Pacer::Closed(_) => unreachable!("an open schedule has an open pacer"),
        }
    }

    #[test]
    fn skipped_arrivals_are_counted_exactly() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            for until_ns in [
                0,
                1000,
                1001,
                3_001_000,
                3_001_001,
                999_999_937,
                60_000_001_000,
            ] {
                let part = Part { index: 1, count: 2 };
                let mut slow = sequence(arrivals, part);
                let mut fast = sequence(arrivals, part);
                let mut count = 0;
                while slow.next_ns < until_ns {
                    slow.advance();
                    count += 1;
                }
                assert_eq!(fast.skip_to(until_ns), count, "{arrivals:?} {until_ns}");
                for _ in 0..3 {
                    assert_eq!(fast.next_ns, slow.next_ns, "{arrivals:?} {until_ns}");
                    fast.advance();
                    slow.advance();
                }
            }
        }
    }

    #[test]
    fn many_random_arrivals_are_skipped_by_their_mean() {
        let mut arrivals = sequence(Arrivals::Poisson, Part::WHOLE);
        let day_ns = 86_400_000_000_000 + 1000;
        let count = arrivals.skip_to(day_ns) as f64;
        assert!((count / 28_800_000.0 - 1.0).abs() < 1e-3, "{count}");
        assert!(arrivals.next_ns >= day_ns);
    }

    #[test]
    fn rates_out_of_range_are_refused() {
        let refusal = |rate_per_s, threads| {
            let checked = check_rate(rate_per_s, threads);
            checked.err().map(|why| why.to_string())
        };
        assert_eq!(refusal(2e6, 2), None);
        assert_eq!(
            refusal(1e12, 2).as_deref(),
            Some(
                "rate out of range: 1000000000000 (at most 2000000 requests per second: 1000000 for each of 2 client \
                 threads, which is more than one can send)"
            )
        );
        let least = "(at least 0.001 per second, which is one in 1000 s)";
        for (wrong, shown) in [(-5.0, "-5"), (0.0, "0"), (1e-9, "1e-9"), (1e-300, "1e-300")] {
            let expected = format!("rate out of range: {shown} {least}");
            assert_eq!(refusal(wrong, 1), Some(expected));
        }
        assert_eq!(refusal(0.001, 1), None);
        for wrong in [f64::NAN, f64::INFINITY] {
            assert!(refusal(wrong, 1).is_some(), "{wrong}");
        }
    }

    #[test]
    fn a_rate_is_kept_over_a_day() {
        let day = arrivals(3.0, Arrivals::Constant, 1, 86_400 * 3 + 1);
        assert_eq!(day.last(), Some(&86_400_000_000_000));
    }

    #[test]
    fn random_arrivals_have_an_exponential_distribution() {
        let all = arrivals(1000.0, Arrivals::Poisson, 2, 50_000);
        // Up to the end of the shorter thread.
        let all = &all[..95_000];
        let rate_per_s = all.len() as f64 / (all[all.len() - 1] as f64 / 1e9);
        assert!(
            (rate_per_s / 1000.0 - 1.0).abs() < 0.02,
            "rate is {rate_per_s}"
        );
        let gaps: Vec<f64> = all
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64 / 1e6)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| gap * gap).sum::<f64>() / gaps.len() as f64;
        assert!(
            (square / (mean * mean) - 2.0).abs() < 0.1,
            "second moment is {square}"
        );
    }
}
