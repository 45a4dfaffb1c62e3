//! When requests are due: the whole difference between a closed and an open loop.

use std::time::Duration;

use anyhow::{Result, ensure};

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

/// No client thread sends more requests per second than this: the kernel alone needs a microsecond for each.
pub const THREAD_RATE_PER_S: u32 = 1_000_000;

/// Refuses rates that nobody can send, for so many client threads.
pub fn check_rate(rate_per_s: f64, threads: u32) -> Result<()> {
    ensure!(
        rate_per_s.is_finite() && rate_per_s > 0.0,
        "rate out of range: {rate_per_s} (ask for more than 0 requests per second)"
    );
    let most = most_per_s(threads);
    ensure!(
        rate_per_s <= most,
        "rate out of range: {rate_per_s} (at most {most} requests per second: {THREAD_RATE_PER_S} for each of {threads} \
         client threads, which is more than one can send)"
    );
    Ok(())
}

/// The highest rate that so many client threads may be asked for.
pub(crate) fn most_per_s(threads: u32) -> f64 {
    f64::from(THREAD_RATE_PER_S) * f64::from(threads)
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

/// Random arrivals that are drawn one by one when many are passed over.
const DRAWN: u64 = 1_000_000;

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

    /// Passes over the arrivals before an instant; how many there were.
    ///
    /// Equally spaced ones are counted at once. Random ones are drawn one by one, and of more than a million the rest
    /// by their mean, which is right to a part in a thousand: who ends a run must not wait for them.
    pub(crate) fn skip_to(&mut self, until_ns: u64) -> u64 {
        let mut count = 0;
        let until = until_ns.saturating_sub(self.start_ns) as f64;
        if let Spacing::Constant {
            gap_ns,
            step,
            number,
        } = &mut self.spacing
        {
            // `number` is that of the arrival after the next one. One fewer than there are, for rounding.
            let next = *number - *step;
            count = ((until / *gap_ns) as u64).saturating_sub(next) / *step;
            count = count.saturating_sub(1);
            *number = next + count * *step;
            self.advance();
        }
        while self.next_ns < until_ns && count < DRAWN {
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

    fn stream(arrivals: Arrivals, turn: (u32, u32)) -> Stream {
        let schedule = Schedule::Open {
            rate_per_s: 1000.0 / 3.0,
            arrivals,
        };
        match Pacer::new(schedule, 1000, turn, 7) {
            Pacer::Open(stream) => stream,
            Pacer::Closed(_) => unreachable!("an open schedule has an open pacer"),
        }
    }

    #[test]
    fn arrivals_that_are_passed_over_are_those_that_would_have_come() {
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
                let (mut slow, mut fast) = (stream(arrivals, (1, 2)), stream(arrivals, (1, 2)));
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
    fn more_than_anybody_would_draw_are_passed_over_by_their_mean() {
        let mut stream = stream(Arrivals::Poisson, (0, 1));
        let day_ns = 86_400_000_000_000 + 1000;
        let count = stream.skip_to(day_ns) as f64;
        assert!((count / 28_800_000.0 - 1.0).abs() < 1e-3, "{count}");
        assert!(stream.next_ns >= day_ns);
    }

    #[test]
    fn rates_that_nobody_can_send_are_refused() {
        let said = |rate_per_s, threads| {
            check_rate(rate_per_s, threads)
                .err()
                .map(|why| why.to_string())
        };
        assert_eq!(said(2e6, 2), None);
        assert_eq!(
            said(1e12, 2).as_deref(),
            Some(
                "rate out of range: 1000000000000 (at most 2000000 requests per second: 1000000 for each of 2 client \
                 threads, which is more than one can send)"
            )
        );
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(said(wrong, 1).is_some(), "{wrong}");
        }
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
