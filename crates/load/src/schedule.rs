//! When requests are due: the whole difference between a closed and an open loop.

use std::time::Duration;

use crate::clock;
use crate::dice::Dice;

/// Stream of the dice for rests, apart from those of arrivals.
const RESTS: u64 = 1 << 32;

/// When requests are due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Schedule {
    /// Each connection has one request under way, and rests between two. A slow server gets less to do.
    Closed {
        /// Rest between an answer and the next request.
        think: Think,
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

/// How long a client rests: at random between two times, all equally likely. Clients begin spread over the longer one.
///
/// Clients that all rest for the same time may fall into step and ask as a crowd: whether they do is the kernel's
/// timers' doing, and no property of users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Think {
    /// The shortest rest.
    pub least: Duration,
    /// The longest rest; not below `least`.
    pub most: Duration,
}

impl Think {
    /// No rest at all.
    pub const NONE: Self = Self::always(Duration::ZERO);

    /// The same rest every time.
    #[must_use]
    pub const fn always(rest: Duration) -> Self {
        Self {
            least: rest,
            most: rest,
        }
    }

    /// Whether clients never rest.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.most.is_zero()
    }
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
    Closed(Rests),
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
            Schedule::Closed { think } => Self::Closed(Rests::new(
                think,
                Dice::new(seed, RESTS ^ u64::from(thread)),
            )),
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

    /// Spreads the beginnings of a closed loop over at least this time.
    pub(crate) fn opening(mut self, time: Duration) -> Self {
        if let Self::Closed(rests) = &mut self {
            rests.opening_ns = rests.opening_ns.max(clock::ns(time));
        }
        self
    }
}

/// The rests of one thread's clients.
pub(crate) struct Rests {
    least_ns: u64,
    most_ns: u64,
    /// Clients begin spread over this time.
    opening_ns: u64,
    dice: Dice,
}

impl Rests {
    fn new(think: Think, dice: Dice) -> Self {
        Self {
            least_ns: clock::ns(think.least),
            most_ns: clock::ns(think.most),
            opening_ns: clock::ns(think.most),
            dice,
        }
    }

    pub(crate) fn are_none(&self) -> bool {
        self.most_ns == 0
    }

    /// How long a client waits before its first request.
    pub(crate) fn first_ns(&mut self) -> u64 {
        self.between(0, self.opening_ns)
    }

    /// How long a client rests now.
    pub(crate) fn next_ns(&mut self) -> u64 {
        self.between(self.least_ns, self.most_ns)
    }

    /// Most clients never rest, or always as long: these draw nothing.
    fn between(&mut self, least_ns: u64, most_ns: u64) -> u64 {
        if least_ns == most_ns {
            return least_ns;
        }
        self.dice.between(least_ns, most_ns)
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

    #[test]
    fn rests_lie_between_their_ends_and_clients_begin_apart() {
        let think = Think {
            least: Duration::from_nanos(100),
            most: Duration::from_nanos(300),
        };
        let rests = |opening| {
            let pacer = Pacer::new(Schedule::Closed { think }, 0, (0, 1), 7);
            let Pacer::Closed(rests) = pacer.opening(Duration::from_nanos(opening)) else {
                unreachable!("a closed schedule has a closed pacer");
            };
            rests
        };
        let mean = |mut rests: Rests, rest: fn(&mut Rests) -> u64, least, most| {
            let all: Vec<_> = (0..10_000).map(|_| rest(&mut rests)).collect();
            assert!(all.iter().all(|rest| (least..=most).contains(rest)));
            all.iter().sum::<u64>() / 10_000
        };
        assert!((198..=202).contains(&mean(rests(0), Rests::next_ns, 100, 300)));
        assert!((146..=154).contains(&mean(rests(0), Rests::first_ns, 0, 300)));
        assert!((490..=510).contains(&mean(rests(1000), Rests::first_ns, 0, 1000)));
    }

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
