//! The path of a family of metrics over the looks: when each crosses a boundary, and which shifts never do.
//!
//! Three hypotheses are watched side by side: "no difference", "better by the margin", "worse by the margin".
//! ```text
//! better, worse   "no difference" is crossed
//! equivalent      "better by the margin" is crossed from below and "worse by the margin" from above
//! ```
//! The first verdict stands. Several metrics share their coins and the distribution of the largest statistic
//! (maxT: Westfall and Young 1993), so that the chance of any wrong verdict among them is what was promised.

use record::verdict::Verdict;

use crate::boundary::Boundary;
use crate::coin::Coins;
use crate::contrast::Contrasts;
use crate::inversion::{self, Search};
use crate::plan::Look;
use crate::score::{centred, scale, tukey};

/// How the interval is searched for: one test follows all looks.
const SEARCH: Search = Search {
    tries: 12,
    halvings: 9,
};

/// What all metrics of a comparison share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Course<'c> {
    pub(crate) coins: &'c Coins,
    /// 1 where the arm ran second, else -1.
    pub(crate) second: &'c [f64],
    pub(crate) looks: &'c [Look],
    /// Chance of a wrong "better" or "worse" in the family.
    pub(crate) error_rate: f64,
    /// Chance of a wrong "equivalent" on one side.
    pub(crate) equal_rate: f64,
}

/// A metric's verdict and the blocks after which it fell.
pub(crate) type Fallen = Option<(Verdict, usize)>;

/// The boundary of one hypothesis for a family.
struct Watch {
    /// In margins.
    shift: f64,
    boundary: Boundary,
    /// For each metric whether it has crossed upwards or downwards.
    crossed: Vec<Option<f64>>,
}

/// Follows a family from the first look to the last.
pub(crate) fn follow(family: &[&Contrasts], course: Course<'_>) -> Vec<Fallen> {
    let watch = |shift| Watch {
        shift,
        boundary: Boundary::new(course.coins),
        crossed: vec![None; family.len()],
    };
    let mut watches = [0.0, -1.0, 1.0].map(watch);
    let mut fallen: Vec<Fallen> = vec![None; family.len()];
    for look in course.looks {
        for watch in &mut watches {
            let rate = if watch.shift == 0.0 {
                course.error_rate
            } else {
                2.0 * course.equal_rate
            };
            watch.look(family, course, *look, rate * look.information);
        }
        let [same, worse, better] = &watches;
        for (metric, fallen) in fallen
            .iter_mut()
            .enumerate()
            .filter(|(_, one)| one.is_none())
        {
            let verdict = match (
                same.crossed[metric],
                worse.crossed[metric],
                better.crossed[metric],
            ) {
                (Some(way), _, _) if way > 0.0 => Some(Verdict::Better),
                (Some(_), _, _) => Some(Verdict::Worse),
                (None, Some(up), Some(down)) if up > 0.0 && down < 0.0 => Some(Verdict::Equivalent),
                (None, _, _) => None,
            };
            *fallen = verdict.map(|verdict| (verdict, look.blocks));
        }
        if fallen.iter().all(Option::is_some) {
            break;
        }
    }
    fallen
}

impl Watch {
    fn look(&mut self, family: &[&Contrasts], course: Course<'_>, look: Look, spent: f64) {
        let (mut paths, mut observed) = (vec![0.0f64; course.coins.rows()], Vec::new());
        for contrasts in family {
            let shift = self.shift * contrasts.margin;
            let (own, sum) = standardised(&contrasts.values, shift, course, look.blocks);
            for (path, own) in paths.iter_mut().zip(own) {
                *path = path.max(own);
            }
            observed.push(sum);
        }
        let sizes: Vec<f64> = observed.iter().map(|sum| sum.abs()).collect();
        let crossed = self
            .boundary
            .look(course.coins.beside(look.blocks), &paths, &sizes, spent);
        for ((before, crosses), sum) in self.crossed.iter_mut().zip(crossed).zip(observed) {
            if crosses && before.is_none() && sum != 0.0 {
                *before = Some(sum.signum());
            }
        }
    }
}

/// Sizes of the sums of all rows, and the sum that was observed, in standard deviations of what the coins give.
fn standardised(values: &[f64], shift: f64, course: Course<'_>, blocks: usize) -> (Vec<f64>, f64) {
    let shifted: Vec<f64> = values[..blocks].iter().map(|value| value - shift).collect();
    let scores = tukey(&centred(&shifted, &course.second[..blocks]).0);
    let deviation = scores.iter().map(|score| score * score).sum::<f64>().sqrt();
    if deviation == 0.0 {
        return (vec![0.0; course.coins.rows()], 0.0);
    }
    let mut sums = course.coins.sums(&scores);
    for sum in &mut sums {
        *sum = sum.abs() / deviation;
    }
    (sums, scores.iter().sum::<f64>() / deviation)
}

/// The shifts that one metric has crossed at no look: its interval, valid however often was looked. `None` while
/// no shift, however large, could have been crossed.
pub(crate) fn interval(
    contrasts: &Contrasts,
    centre: f64,
    course: Course<'_>,
) -> Option<(f64, f64)> {
    let blocks = course.looks.last()?.blocks;
    let spread: Vec<f64> = contrasts.values[..blocks]
        .iter()
        .map(|value| value - centre)
        .collect();
    // Figures that repeat exactly have no scale of their own.
    let step = (2.0 * scale(&spread) / (blocks as f64).sqrt()).max(contrasts.margin / 64.0);
    inversion::interval(centre, step, SEARCH, |shift| {
        is_crossed(contrasts, shift, course)
    })
}

fn is_crossed(contrasts: &Contrasts, shift: f64, course: Course<'_>) -> bool {
    let mut boundary = Boundary::new(course.coins);
    course.looks.iter().any(|look| {
        let (paths, sum) = standardised(&contrasts.values, shift, course, look.blocks);
        let spent = course.error_rate * look.information;
        sum != 0.0
            && boundary.look(
                course.coins.beside(look.blocks),
                &paths,
                &[sum.abs()],
                spent,
            )[0]
    })
}

#[cfg(test)]
mod tests {
    use record::metric::Direction;
    use record::plan::Design;
    use record::verdict::Pair;

    use super::*;
    use crate::design::keyed;
    use crate::plan;

    fn design(max_blocks: u32) -> Design {
        Design {
            margin: 0.02,
            error_rate: 0.01,
            min_blocks: 8,
            max_blocks,
            more_blocks: 0,
            seed: 1,
        }
    }

    /// Blocks of an arm that is faster by `effect`, with even noise of up to `noise`.
    fn blocks(effect: f64, noise: f64, count: u32) -> (Contrasts, Vec<f64>) {
        let mut dice = keyed(&format!("{effect} {noise}"));
        let mut even = || dice.bits() as f64 / u64::MAX as f64 * 2.0 - 1.0;
        let pair = |block| Pair {
            block,
            baseline: 100.0,
            arm: 100.0 * (effect + noise * even()).exp(),
            arm_first: false,
        };
        let pairs: Vec<Pair> = (1..=count).map(pair).collect();
        let second = (0..count).map(|_| if dice.bits() & 1 == 0 { 1.0 } else { -1.0 });
        let second = second.collect();
        (
            Contrasts::of(&pairs, Direction::Higher, 0.02).unwrap(),
            second,
        )
    }

    fn check(effect: f64, noise: f64, count: u32) -> (Fallen, Option<(f64, f64)>) {
        let (contrasts, second) = blocks(effect, noise, count);
        let looks = plan::looks(&second, &design(count));
        let coins = Coins::throw("test", count as usize, count as usize);
        let course = Course {
            coins: &coins,
            second: &second,
            looks: &looks,
            error_rate: 0.01,
            equal_rate: 0.01,
        };
        let fallen = follow(&[&contrasts], course)[0];
        (fallen, interval(&contrasts, effect, course))
    }

    #[test]
    fn a_gain_a_loss_and_no_difference_are_told_apart() {
        assert_eq!(check(0.05, 0.03, 40).0.unwrap().0, Verdict::Better);
        assert_eq!(check(-0.05, 0.03, 40).0.unwrap().0, Verdict::Worse);
        assert_eq!(check(0.0, 0.03, 60).0.unwrap().0, Verdict::Equivalent);
    }

    #[test]
    fn an_interval_holds_the_truth_and_excludes_what_was_crossed() {
        let (fallen, interval) = check(0.05, 0.03, 40);
        let (low, high) = interval.unwrap();
        assert!(
            0.0 < low && low < 0.05 && 0.05 < high && high < 0.08,
            "{low} {high}"
        );
        assert!(fallen.unwrap().1 < 40);
    }

    /// CPU time of this thread: other work on the machine does not count.
    fn cpu_ns() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    }

    /// The bar: one look at 300 blocks and 8 metrics takes less than 50 ms on one core.
    #[test]
    fn a_look_at_many_blocks_and_metrics_takes_no_time() {
        let (contrasts, second) = blocks(0.001, 0.05, 300);
        let coins = Coins::throw("test", 300, 300);
        let looks = [Look {
            blocks: 300,
            information: 0.9,
        }];
        let course = Course {
            coins: &coins,
            second: &second,
            looks: &looks,
            error_rate: 0.005,
            equal_rate: 0.01,
        };
        let family = [&contrasts; 8];
        let once = || {
            let since = cpu_ns();
            assert_eq!(follow(&family, course).len(), 8);
            cpu_ns() - since
        };
        let best_ms = (0..5).map(|_| once()).min().unwrap() / 1_000_000;
        println!("one look at 300 blocks and 8 metrics: {best_ms} ms of CPU");
        assert!(best_ms < 50, "{best_ms} ms");
    }

    #[test]
    fn eight_blocks_cannot_exclude_any_shift_at_one_percent() {
        let (fallen, interval) = check(0.2, 0.01, 8);
        assert_eq!((fallen.is_some(), interval.is_some()), (true, true));
        let (contrasts, second) = blocks(0.2, 0.01, 6);
        let coins = Coins::throw("test", 6, 6);
        let looks = [Look {
            blocks: 6,
            information: 1.0,
        }];
        let course = Course {
            coins: &coins,
            second: &second,
            looks: &looks,
            error_rate: 0.01,
            equal_rate: 0.01,
        };
        assert_eq!(super::interval(&contrasts, 0.2, course), None);
    }
}
