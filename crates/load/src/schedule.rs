//! When requests are due: the whole difference between a closed and an open loop.

use std::time::Duration;

use crate::clock;
use crate::dice::Dice;

/// When requests are due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Schedule {
    /// Each connection has one request under way, and rests between two. A slow server gets less to do.
    Closed {
        /// Time between an answer and the next request.
        think: Duration,
    },
    /// Requests are due at a rate, whatever the server does: an arrival that finds all connections busy waits
    /// for one, and its latency runs.
    Open {
        /// Requests per second, all connections together.
        rate_per_s: f64,
        /// How they are spaced.
        arrivals: Arrivals,
    },
}

/// How arrivals are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Equally.
    Constant,
    /// At random and independent of each other, as those of many users.
    Poisson,
}

/// One thread's part of a schedule.
pub(crate) enum Pacer {
    Closed { think_ns: u64 },
    Open(Stream),
}

impl Pacer {
    /// The part of thread `thread` of `threads`.
    pub(crate) fn new(
        schedule: Schedule,
        start_ns: u64,
        (thread, threads): (u32, u32),
        seed: u64,
    ) -> Self {
        match schedule {
            Schedule::Closed { think } => Self::Closed {
                think_ns: clock::ns(think),
            },
            Schedule::Open {
                rate_per_s,
                arrivals,
            } => {
                let gap_ns = 1e9 / rate_per_s;
                Self::Open(match arrivals {
                    Arrivals::Constant => Stream::constant(start_ns, gap_ns, thread, threads),
                    Arrivals::Poisson => {
                        let dice = Dice::new(seed, thread.into());
                        Stream::poisson(start_ns, gap_ns * f64::from(threads), dice)
                    }
                })
            }
        }
    }
}

/// An endless sequence of planned instants.
///
/// It needs no queue: arrivals that wait for a connection are those between `next_ns` and now.
pub(crate) struct Stream {
    /// The next arrival.
    pub(crate) next_ns: u64,
    start_ns: u64,
    spacing: Spacing,
}

enum Spacing {
    /// Computed from the number of the arrival, so that no error adds up.
    Constant { gap_ns: f64, step: u64, number: u64 },
    Poisson {
        mean_ns: f64,
        after_ns: f64,
        dice: Dice,
    },
}

impl Stream {
    /// Threads take turns, so that all their arrivals together are spaced equally.
    fn constant(start_ns: u64, gap_ns: f64, thread: u32, threads: u32) -> Self {
        let (step, number) = (threads.into(), thread.into());
        Self::first(
            start_ns,
            Spacing::Constant {
                gap_ns,
                step,
                number,
            },
        )
    }

    fn poisson(start_ns: u64, mean_ns: f64, dice: Dice) -> Self {
        Self::first(
            start_ns,
            Spacing::Poisson {
                mean_ns,
                after_ns: 0.0,
                dice,
            },
        )
    }

    fn first(start_ns: u64, spacing: Spacing) -> Self {
        let mut stream = Self {
            next_ns: start_ns,
            start_ns,
            spacing,
        };
        stream.advance();
        stream
    }

    /// Goes on to the arrival after the next one.
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
                dice,
            } => {
                *after_ns -= dice.share().ln() * *mean_ns;
                *after_ns
            }
        };
        self.next_ns = self.start_ns.saturating_add(after_ns as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(rate_per_s: f64, arrivals: Arrivals, threads: u32, count: usize) -> Vec<u64> {
        let schedule = Schedule::Open {
            rate_per_s,
            arrivals,
        };
        let mut all = Vec::new();
        for thread in 0..threads {
            let Pacer::Open(mut stream) = Pacer::new(schedule, 1000, (thread, threads), 7) else {
                unreachable!("an open schedule has an open pacer");
            };
            for _ in 0..count {
                all.push(stream.next_ns - 1000);
                stream.advance();
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

    #[test]
    fn a_rate_is_kept_over_a_day() {
        let day = arrivals(3.0, Arrivals::Constant, 1, 86_400 * 3 + 1);
        assert_eq!(day.last(), Some(&86_400_000_000_000));
    }

    #[test]
    fn random_arrivals_have_the_rate_and_the_spread_of_their_law() {
        let all = arrivals(1000.0, Arrivals::Poisson, 2, 50_000);
        // Of both threads, up to where the shorter one ends.
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
