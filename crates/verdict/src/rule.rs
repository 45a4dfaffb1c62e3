//! The rule: what may be said of an arm, given its pairs with the baseline.
//!
//! First form, kept in this one file so that it can be replaced whole. With `d = ln(arm /
//! baseline)` of each block:
//!
//! ```text
//! interval     mean(d) +- t(n - 1, 1 - a/2) * sd(d) / sqrt(n)         Student 1908
//! margin       +-ln(1 + margin), so that a gain and the loss that undoes it weigh the same
//! equivalent   the interval lies wholly within the margin
//! better/worse 0 lies outside the interval, which does not lie wholly within the margin
//! undecided    anything else
//! ```
//! **Looks.** A run is looked at after every block from `min_blocks` to `max_blocks`, and each look
//! is one more chance to be wrong. The plan's error rate is therefore shared out among the looks
//! (Bonferroni): half to the first, which decides most runs where noise is small, the other half in
//! equal parts to the rest. The interval is the one at the look's own share, so all intervals that
//! a reader ever sees hold the true ratio together with the promised chance, and every verdict is
//! read off an interval: it is wrong at most as often as the plan accepts, for each metric and arm.
//!
//! **What it does not do.** It takes `d` as roughly normal: an odd slow trial widens the interval
//! and costs power. It does not share the error rate among metrics, arms or workloads. Two figures
//! that repeat exactly (a clock of instructions can do that) have an interval of no width, and are
//! believed.

use record::metric::Direction;
use record::plan::Design;
use record::units::{show_change, significant};
use record::verdict::{Pair, Verdict};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The rule's name in a judgement.
pub(crate) const NAME: &str = "paired-t";

/// What the rule says of one metric of one arm.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finding {
    /// The verdict.
    pub(crate) verdict: Verdict,
    /// Arm over baseline, geometric mean over blocks.
    pub(crate) ratio: Option<f64>,
    /// The ratio's interval.
    pub(crate) interval: Option<(f64, f64)>,
    /// Why, in a sentence.
    pub(crate) reason: String,
}

/// Decides on the pairs of one metric.
pub(crate) fn decide(pairs: &[Pair], direction: Direction, design: &Design) -> Finding {
    let silent = |reason: String| Finding {
        verdict: Verdict::Undecided,
        ratio: None,
        interval: None,
        reason,
    };
    if pairs.is_empty() {
        return silent("no block in which both arms were measured".into());
    }
    if is_all_zero(pairs) {
        let enough = pairs.len() >= design.min_blocks as usize;
        let verdict = if enough {
            Verdict::Equivalent
        } else {
            Verdict::Undecided
        };
        return Finding {
            verdict,
            ..silent("zero in every block and both arms".into())
        };
    }
    if let Some(pair) = pairs.iter().find(|pair| !has_ratio(pair)) {
        let figures = format!("{} and {}", pair.baseline, pair.arm);
        return silent(format!(
            "figures without a ratio in block {}: {figures}",
            pair.block
        ));
    }
    let logs: Vec<f64> = pairs
        .iter()
        .map(|pair| (pair.arm / pair.baseline).ln())
        .collect();
    let spread = Spread::of(&logs);
    let ratio = Some(spread.mean.exp());
    let Some(half) = spread.half_width(share(logs.len() as u32, design)) else {
        let reason = "one block only: an interval needs two".into();
        return Finding {
            ratio,
            ..silent(reason)
        };
    };
    let (low, high) = (spread.mean - half, spread.mean + half);
    let interval = Some((low.exp(), high.exp()));
    if spread.count < design.min_blocks {
        let reason = format!(
            "first look comes after {} blocks: {} so far",
            design.min_blocks, spread.count
        );
        return Finding {
            ratio,
            interval,
            ..silent(reason)
        };
    }
    let verdict = read_off((low, high), direction, design.margin.ln_1p());
    let reason = explain(verdict, &spread, half, design);
    Finding {
        verdict,
        ratio,
        interval,
        reason,
    }
}

/// Whether nothing ever happened: no errors, no swap. A ratio is not missed there.
pub(crate) fn is_all_zero(pairs: &[Pair]) -> bool {
    pairs
        .iter()
        .all(|pair| pair.baseline == 0.0 && pair.arm == 0.0)
}

fn has_ratio(pair: &Pair) -> bool {
    let good = |value: f64| value > 0.0 && value.is_finite();
    good(pair.baseline) && good(pair.arm)
}

/// The share of the error rate that the look at `blocks` blocks may spend. All looks together spend
/// it.
fn share(blocks: u32, design: &Design) -> f64 {
    let later = design.max_blocks.saturating_sub(design.min_blocks);
    match later {
        0 => design.error_rate,
        _ if blocks <= design.min_blocks => design.error_rate / 2.0,
        _ => design.error_rate / 2.0 / f64::from(later),
    }
}

fn read_off((low, high): (f64, f64), direction: Direction, margin: f64) -> Verdict {
    let within = -margin <= low && high <= margin;
    match direction {
        _ if within => Verdict::Equivalent,
        _ if low <= 0.0 && 0.0 <= high => Verdict::Undecided,
        Direction::Higher if low > 0.0 => Verdict::Better,
        Direction::Lower if high < 0.0 => Verdict::Better,
        Direction::Higher | Direction::Lower => Verdict::Worse,
    }
}

/// Log-ratios summed up.
struct Spread {
    count: u32,
    mean: f64,
    /// Standard deviation; zero for a single value.
    sd: f64,
}

impl Spread {
    fn of(logs: &[f64]) -> Self {
        let count = logs.len() as f64;
        // Measured from the first value, so that values that repeat exactly have no spread at all
        // instead of a rounding error's.
        let base = logs[0];
        let mean = base + logs.iter().map(|log| log - base).sum::<f64>() / count;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let sd = (squares / (count - 1.0).max(1.0)).sqrt();
        Self {
            count: logs.len() as u32,
            mean,
            sd,
        }
    }

    /// Half the interval's width on the log scale; `None` for a single value.
    fn half_width(&self, error: f64) -> Option<f64> {
        let freedom = self.count.checked_sub(1).filter(|freedom| *freedom > 0)?;
        Some(quantile(freedom, 1.0 - error / 2.0) * self.sd / f64::from(self.count).sqrt())
    }
}

/// The value that Student's t with `freedom` degrees stays below with the chance `below`.
fn quantile(freedom: u32, below: f64) -> f64 {
    let student = StudentsT::new(0.0, 1.0, f64::from(freedom));
    let student = student.expect("location, scale and freedom are positive and finite");
    student.inverse_cdf(below)
}

fn explain(verdict: Verdict, spread: &Spread, half: f64, design: &Design) -> String {
    let margin = format!("{} %", significant(design.margin * 100.0, 2));
    let excludes_zero = spread.mean.abs() > half;
    match verdict {
        Verdict::Better | Verdict::Worse if spread.sd == 0.0 => {
            "the same ratio in every block".into()
        }
        Verdict::Better | Verdict::Worse => "0 % lies outside the interval".into(),
        Verdict::Equivalent if excludes_zero => {
            format!("a difference, but one within the margin of {margin}")
        }
        Verdict::Equivalent => format!("the interval lies within the margin of {margin}"),
        Verdict::Undecided => {
            let change = [spread.mean - half, spread.mean + half].map(|end| show_change(end.exp()));
            let reach = format!(
                "anything from {} to {} fits the blocks",
                change[0], change[1]
            );
            format!("{reach}: {}", outlook(spread, design))
        }
    }
}

/// What would settle it: the blocks after which the interval, at this noise and mean, would either
/// exclude no difference or fit into the margin, whichever comes first.
fn outlook(spread: &Spread, design: &Design) -> String {
    let room = spread
        .mean
        .abs()
        .max(design.margin.ln_1p() - spread.mean.abs());
    let error = share(design.max_blocks, design);
    let settles = |blocks: &u32| {
        quantile(blocks - 1, 1.0 - error / 2.0) * spread.sd <= room * f64::from(*blocks).sqrt()
    };
    // Past a few thousand blocks the figure no longer matters, only that it is out of reach.
    let blocks: Vec<u32> = (spread.count + 1..=spread.count + 5000).collect();
    match blocks
        .get(blocks.partition_point(|blocks| !settles(blocks)))
        .copied()
    {
        Some(blocks) if blocks <= design.max_blocks => {
            format!(
                "about {} blocks more would settle it at this noise",
                blocks - spread.count
            )
        }
        Some(blocks) => format!(
            "about {blocks} blocks would settle it at this noise (raise max_blocks from {}, or \
             make the window longer)",
            design.max_blocks
        ),
        None => "more blocks of this noise would not settle it (make the window longer)".into(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::design::Dice;

    const DESIGN: Design = Design {
        margin: 0.01,
        error_rate: 0.05,
        min_blocks: 4,
        max_blocks: 30,
        seed: 7,
    };

    fn pairs(figures: &[[f64; 2]]) -> Vec<Pair> {
        let pair = |(index, [baseline, arm]): (usize, &[f64; 2])| Pair {
            block: index as u32 + 1,
            baseline: *baseline,
            arm: *arm,
            arm_first: false,
        };
        figures.iter().enumerate().map(pair).collect()
    }

    fn check(figures: &[[f64; 2]], want: &Expect) {
        let finding = decide(&pairs(figures), Direction::Higher, &DESIGN);
        let show = |ratio: f64| format!("{ratio:.5}");
        let interval = finding.interval.map_or("none".into(), |(low, high)| {
            format!("[{}, {}]", show(low), show(high))
        });
        let ratio = finding.ratio.map_or("none".into(), show);
        let word = finding.verdict.word();
        want.assert_eq(&format!("{word} {ratio} {interval}: {}", finding.reason));
    }

    #[test]
    fn students_quantiles_are_those_of_the_tables() {
        // Two-sided 5 % and 1 % points as printed in every statistics textbook.
        let table = [
            (1, 0.975, 12.7062),
            (2, 0.975, 4.3027),
            (3, 0.975, 3.1824),
            (3, 0.9875, 4.1765),
            (5, 0.995, 4.0321),
            (9, 0.975, 2.2622),
            (29, 0.975, 2.0452),
            (29, 0.9995, 3.6594),
            (120, 0.995, 2.6174),
        ];
        for (freedom, below, want) in table {
            let got = quantile(freedom, below);
            assert!(
                (got - want).abs() < 1e-4,
                "t({freedom}, {below}) is {got}, not {want}"
            );
        }
    }

    #[test]
    fn quantiles_invert_the_distribution_at_every_look_of_any_plan() {
        for freedom in [1, 2, 3, 5, 8, 13, 30, 100, 1000, 9999] {
            let student = StudentsT::new(0.0, 1.0, f64::from(freedom)).unwrap();
            for upper in [0.1, 0.025, 0.0125, 1e-3, 1e-4, 1e-6] {
                let back = 1.0 - student.cdf(quantile(freedom, 1.0 - upper));
                assert!(
                    (back / upper - 1.0).abs() < 1e-6,
                    "t({freedom}), {upper}: {back}"
                );
            }
        }
    }

    #[test]
    fn all_looks_together_spend_the_error_rate() {
        for (min_blocks, max_blocks) in [(2, 2), (2, 3), (4, 30), (9, 10_000)] {
            let design = Design {
                min_blocks,
                max_blocks,
                ..DESIGN
            };
            let spent: f64 = (min_blocks..=max_blocks).map(|n| share(n, &design)).sum();
            assert!(
                (spent - 0.05).abs() < 1e-12,
                "{min_blocks}..={max_blocks} spend {spent}"
            );
        }
    }

    #[test]
    fn verdicts_follow_the_interval() {
        check(
            &[
                [100.0, 107.2],
                [100.1, 107.5],
                [99.9, 107.1],
                [100.0, 107.4],
            ],
            &expect!["better 1.07300 [1.07068, 1.07533]: 0 % lies outside the interval"],
        );
        check(
            &[[100.0, 92.0], [100.1, 93.0], [99.9, 92.5], [100.0, 92.2]],
            &expect!["worse 0.92424 [0.91583, 0.93273]: 0 % lies outside the interval"],
        );
        check(
            &[
                [100.0, 100.1],
                [100.1, 100.0],
                [99.9, 100.0],
                [100.0, 100.0],
            ],
            &expect![
                "equivalent 1.00025 [0.99825, 1.00225]: the interval lies within the margin of 1.0 %"
            ],
        );
        check(
            &[
                [100.0, 100.5],
                [100.0, 100.5],
                [100.0, 100.6],
                [100.0, 100.4],
            ],
            &expect![
                "equivalent 1.00500 [1.00330, 1.00671]: a difference, but one within the margin of 1.0 %"
            ],
        );
        check(
            &[
                [100.0, 103.0],
                [100.0, 99.0],
                [100.0, 105.0],
                [100.0, 100.0],
            ],
            &expect![
                "undecided 1.01722 [0.96143, 1.07625]: anything from -3.86 % to +7.63 % fits the blocks: about 34 blocks would settle it at this noise (raise max_blocks from 30, or make the window longer)"
            ],
        );
        check(
            &[[100.0, 150.0], [100.0, 60.0], [100.0, 170.0], [100.0, 58.0]],
            &expect![
                "undecided 0.97058 [0.29067, 3.24086]: anything from -70.93 % to +224.09 % fits the blocks: about 4080 blocks would settle it at this noise (raise max_blocks from 30, or make the window longer)"
            ],
        );
    }

    #[test]
    fn figures_that_repeat_exactly_have_an_interval_of_no_width() {
        check(
            &[[100.0, 100.0]; 4],
            &expect![
                "equivalent 1.00000 [1.00000, 1.00000]: the interval lies within the margin of 1.0 %"
            ],
        );
        check(
            &[[100.0, 100.5]; 4],
            &expect![
                "equivalent 1.00500 [1.00500, 1.00500]: a difference, but one within the margin of 1.0 %"
            ],
        );
        check(
            &[[100.3, 103.7]; 4],
            &expect!["better 1.03390 [1.03390, 1.03390]: the same ratio in every block"],
        );
    }

    #[test]
    fn too_little_is_undecided_with_its_reason() {
        check(
            &[],
            &expect!["undecided none none: no block in which both arms were measured"],
        );
        check(
            &[[100.0, 107.0]],
            &expect!["undecided 1.07000 none: one block only: an interval needs two"],
        );
        check(
            &[[100.0, 107.0], [100.0, 107.1]],
            &expect![
                "undecided 1.07050 [1.05785, 1.08330]: first look comes after 4 blocks: 2 so far"
            ],
        );
    }

    #[test]
    fn figures_without_a_ratio_are_undecided_and_never_nan() {
        check(
            &[[1.0, 1.0], [0.0, 3.0]],
            &expect!["undecided none none: figures without a ratio in block 2: 0 and 3"],
        );
        check(
            &[[0.0, 0.0]; 4],
            &expect!["equivalent none none: zero in every block and both arms"],
        );
        check(
            &[[-1.0, 2.0]; 4],
            &expect!["undecided none none: figures without a ratio in block 1: -1 and 2"],
        );
        check(
            &[[f64::NAN, 2.0]; 4],
            &expect!["undecided none none: figures without a ratio in block 1: NaN and 2"],
        );
    }

    #[test]
    fn lower_is_better_turns_the_words_and_not_the_numbers() {
        let figures = pairs(&[[100.0, 92.0], [100.1, 93.0], [99.9, 92.5], [100.0, 92.2]]);
        let higher = decide(&figures, Direction::Higher, &DESIGN);
        let lower = decide(&figures, Direction::Lower, &DESIGN);
        assert_eq!(
            (higher.verdict, lower.verdict),
            (Verdict::Worse, Verdict::Better)
        );
        assert_eq!(higher.interval, lower.interval);
    }

    /// Box and Muller.
    fn normal(dice: &mut Dice) -> f64 {
        let mut uniform = || (dice.next() >> 11) as f64 / (1u64 << 53) as f64;
        let (radius, angle) = ((1.0 - uniform()).ln(), uniform());
        (-2.0 * radius).sqrt() * (std::f64::consts::TAU * angle).cos()
    }

    /// Runs one campaign to its first verdict, and says whether every interval held the truth.
    fn campaign(dice: &mut Dice, shift: f64, noise: f64) -> (Verdict, bool) {
        let (mut figures, mut held) = (Vec::new(), true);
        loop {
            let log = shift + noise * normal(dice);
            figures.push([100.0, 100.0 * log.exp()]);
            let finding = decide(&pairs(&figures), Direction::Higher, &DESIGN);
            if let (true, Some((low, high))) = (figures.len() >= 4, finding.interval) {
                held &= low <= shift.exp() && shift.exp() <= high;
            }
            let over = figures.len() == DESIGN.max_blocks as usize;
            if finding.verdict != Verdict::Undecided || over {
                return (finding.verdict, held);
            }
        }
    }

    #[test]
    fn looking_after_every_block_keeps_the_error_rate() {
        let mut dice = Dice::keyed("an A/A campaign");
        let runs: Vec<_> = (0..800).map(|_| campaign(&mut dice, 0.0, 0.03)).collect();
        let wrong =
            |(verdict, _): &&(Verdict, bool)| matches!(verdict, Verdict::Better | Verdict::Worse);
        // 40 are allowed; Bonferroni is on the safe side, so fewer come.
        let false_verdicts = runs.iter().filter(wrong).count();
        assert!(
            (4..=40).contains(&false_verdicts),
            "{false_verdicts} of 800"
        );
        assert!(runs.iter().filter(|(_, held)| !held).count() <= 40);
    }

    #[test]
    fn a_planted_loss_is_found_and_never_in_the_wrong_direction() {
        let mut dice = Dice::keyed("a planted loss");
        let runs: Vec<_> = (0..500)
            .map(|_| campaign(&mut dice, -0.05, 0.02).0)
            .collect();
        let count = |wanted| runs.iter().filter(|verdict| **verdict == wanted).count();
        assert!(
            count(Verdict::Worse) >= 294,
            "{} of 300",
            count(Verdict::Worse)
        );
        assert_eq!(count(Verdict::Better) + count(Verdict::Equivalent), 0);
    }
}
