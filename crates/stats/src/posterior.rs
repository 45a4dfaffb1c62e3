//! Posterior probability of each step in a bisection, given answers that are wrong at an unknown rate.
//!
//! ```text
//! no difference:              every sign is a fair coin
//! step k, the ends differ:    the higher end is the right one with probability 1 - q, the candidate is nearer to the right end
//!                             with probability 1 - p; p and q are uniform below one half
//! ```
//! A likelihood with a fixed error rate would be wrong whenever that rate is assumed too low, and after three blocks it is
//! always a guess. Integrating over the rate costs some blocks and gives little weight to few answers.

use record::bisect::BisectBlock;
use statrs::function::beta::{beta_reg, ln_beta};

/// Prior probability that the ends do not differ at all.
const PRIOR_NO_DIFFERENCE: f64 = 0.5;

/// The signs that one block gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    candidate: usize,
    /// Whether the last version is above the first; `None` if they are equal.
    rises: Option<bool>,
    /// Whether the candidate is above the middle of both; `None` if it is equal.
    above: Option<bool>,
}

impl Answer {
    /// The answer of a block's figures.
    pub fn of(block: &BisectBlock) -> Self {
        let BisectBlock {
            candidate,
            from,
            value,
            to,
            to_first: _,
        } = *block;
        // Positive figures are compared by their ratios.
        let middle = if from > 0.0 && to > 0.0 {
            (from * to).sqrt()
        } else {
            f64::midpoint(from, to)
        };
        let sign = |value: f64, other: f64| {
            let order = value.partial_cmp(&other).filter(|order| order.is_ne());
            order.map(std::cmp::Ordering::is_gt)
        };
        Self {
            candidate,
            rises: sign(to, from),
            above: sign(value, middle),
        }
    }

    /// Whether the candidate is above the middle of both ends; `None` if it is equal.
    pub fn is_above(self) -> Option<bool> {
        self.above
    }
}

/// Posterior probabilities. The rest to one belongs to steps in the less likely direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Posterior {
    /// Of each step in the likelier direction; step 0 lies between versions 0 and 1.
    pub steps: Vec<f64>,
    /// That first and last version do not differ.
    pub no_difference: f64,
    /// Whether the last version is probably the higher one.
    rises: bool,
    /// Probability that the next answer is wrong.
    error: f64,
}

impl Posterior {
    /// The posterior of a version series with `steps` steps.
    pub fn of(steps: usize, answers: &[Answer]) -> Self {
        let count = |has: fn(&&Answer) -> bool| answers.iter().filter(has).count();
        let rising = count(|answer| answer.rises == Some(true));
        let ends = count(|answer| answer.rises.is_some());
        let informative = count(|answer| answer.above.is_some());
        let contradicted = contradicted(steps, answers);
        // In a falling series a step contradicts the answers that it does not contradict in a rising one.
        let wrong = |step: usize, rises: bool| {
            if rises {
                contradicted[step]
            } else {
                informative - contradicted[step]
            }
        };
        let marginals = marginals(informative);
        let prior = ((1.0 - PRIOR_NO_DIFFERENCE) / (2.0 * steps as f64)).ln();
        let end_weights = [true, false].map(|rises| {
            let wrong = if rises { ends - rising } else { rising };
            prior + ln_marginal(wrong, ends - wrong)
        });
        let weight = |step: usize, rises: bool| {
            end_weights[usize::from(!rises)] + marginals[wrong(step, rises)]
        };
        let no_difference =
            PRIOR_NO_DIFFERENCE.ln() - (ends + informative) as f64 * std::f64::consts::LN_2;
        let weights: Vec<[f64; 2]> = (0..steps)
            .map(|step| [weight(step, true), weight(step, false)])
            .collect();
        let all_weights = weights.iter().flatten().copied();
        let largest = all_weights.fold(no_difference, f64::max);
        let share = |weight: f64| (weight - largest).exp();
        let [up, down] = [0, 1].map(|way| {
            let shares = weights.iter().map(|both| share(both[way]));
            shares.sum::<f64>()
        });
        let all = up + down + share(no_difference);
        // Only steps in the likelier direction may be found.
        let way = usize::from(down > up);
        let steps_posterior: Vec<f64> = weights.iter().map(|both| share(both[way]) / all).collect();
        let best = (0..steps).max_by(|a, b| steps_posterior[*a].total_cmp(&steps_posterior[*b]));
        let best = best.expect("a line has a step");
        let least = wrong(best, way == 0);
        Self {
            no_difference: share(no_difference) / all,
            steps: steps_posterior,
            rises: way == 0,
            error: ((least + 1) as f64 / (informative + 2) as f64).min(0.49),
        }
    }

    /// Whether an answer puts its candidate beside the last version.
    pub fn says_to(&self, answer: Answer) -> Option<bool> {
        answer.above.map(|above| above == self.rises)
    }

    /// Information of a candidate's answer in bits, if a step lies before it with probability `before`.
    pub fn gain(&self, before: f64) -> f64 {
        let yes = before * (1.0 - self.error) + (1.0 - before) * self.error;
        entropy(yes) - entropy(self.error)
    }
}

/// For each step, the number of answers that it contradicts in a rising series.
fn contradicted(steps: usize, answers: &[Answer]) -> Vec<usize> {
    // A version at or after a step is like the last one; step k lies before all versions above k.
    let mut like_from = vec![0usize; steps + 1];
    let mut like_to = vec![0usize; steps + 1];
    for answer in answers {
        match answer.above {
            Some(true) => like_to[answer.candidate] += 1,
            Some(false) => like_from[answer.candidate] += 1,
            None => {}
        }
    }
    let mut wrong = Vec::with_capacity(steps);
    // All versions but the first lie after step 0.
    let mut contradicted: usize = like_from.iter().skip(1).sum();
    for step in 0..steps {
        wrong.push(contradicted);
        let passed = step + 1;
        contradicted = contradicted + like_to[passed] - like_from[passed];
    }
    wrong
}

/// Log marginal likelihood by the number of wrong answers among `all`.
fn marginals(all: usize) -> Vec<f64> {
    (0..=all)
        .map(|wrong| ln_marginal(wrong, all - wrong))
        .collect()
}

/// ln of the integral of 2 p^wrong (1 - p)^right over p from 0 to one half.
fn ln_marginal(wrong: usize, right: usize) -> f64 {
    let (a, b) = (wrong as f64 + 1.0, right as f64 + 1.0);
    std::f64::consts::LN_2 + ln_beta(a, b) + beta_reg(a, b, 0.5).max(f64::MIN_POSITIVE).ln()
}

/// Entropy of a probability, in bits.
pub fn entropy(p: f64) -> f64 {
    let term = |p: f64| if p > 0.0 { -p * p.log2() } else { 0.0 };
    term(p) + term(1.0 - p)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(signs: &[(usize, bool)]) -> Vec<Answer> {
        let answer = |(candidate, above): &(usize, bool)| Answer {
            candidate: *candidate,
            rises: Some(true),
            above: Some(*above),
        };
        signs.iter().map(answer).collect()
    }

    #[test]
    fn the_integral_has_known_values() {
        // 2 (1 - p) from 0 to one half is 3/4; 2 p is 1/4; 2 p (1 - p) is 1/6.
        for (wrong, right, value) in [(0, 1, 0.75), (1, 0, 0.25), (1, 1, 1.0 / 6.0)] {
            assert!((ln_marginal(wrong, right).exp() - value).abs() < 1e-12);
        }
    }

    #[test]
    fn answers_are_counted_against_the_steps_that_they_contradict() {
        // Versions 0 to 4. Version 2 is like the last one: steps 2 and 3, which come after it, are contradicted.
        assert_eq!(contradicted(4, &answers(&[(2, true)])), [0, 0, 1, 1]);
        assert_eq!(contradicted(4, &answers(&[(2, false)])), [1, 1, 0, 0]);
        let both = answers(&[(1, false), (3, true), (3, true), (2, true)]);
        assert_eq!(contradicted(4, &both), [1, 0, 1, 3]);
    }

    #[test]
    fn before_the_first_block_all_steps_are_equally_probable() {
        let posterior = Posterior::of(4, &[]);
        assert!(
            posterior
                .steps
                .iter()
                .all(|step| (step - 0.0625).abs() < 1e-12)
        );
    }

    #[test]
    fn no_difference_is_distinguished_from_a_step_in_the_other_direction() {
        let none = |answers: &[Answer]| Posterior::of(2, answers).no_difference;
        assert!((none(&[]) - 0.5).abs() < 1e-12);
        let tie = Answer {
            candidate: 1,
            rises: None,
            above: None,
        };
        assert!((none(&[tie; 6]) - 0.5).abs() < 1e-12);
        // Two signs that are right with 3/4, or wrong with 1/4, on a line of two steps; a fair coin gives each pair of signs 1/4.
        // Up: (3/4 + 1/4) * 3/4; down: (3/4 + 1/4) * 1/4; each of these four cases has a prior of 1/8.
        let of_steps = (0.75 * (0.75 + 0.25) + 0.25 * (0.75 + 0.25)) / 8.0;
        let of_none = 0.5 * 0.25;
        let posterior = none(&answers(&[(1, true)]));
        assert!(
            (posterior - of_none / (of_none + of_steps)).abs() < 1e-12,
            "{posterior}"
        );
    }

    #[test]
    fn one_answer_proves_little_and_eight_prove_a_step() {
        let after = |count| Posterior::of(2, &answers(&vec![(1, true); count])).steps[0];
        assert!(after(1) < 0.6, "{}", after(1));
        assert!(after(5) < 0.99, "{}", after(5));
        assert!(after(8) > 0.99, "{}", after(8));
    }

    #[test]
    fn answers_that_contradict_each_other_settle_nothing() {
        let signs: Vec<_> = (0..40).map(|turn| (1, turn % 2 == 0)).collect();
        let posterior = Posterior::of(2, &answers(&signs));
        assert!(
            posterior.steps.iter().all(|step| *step < 0.6),
            "{posterior:?}"
        );
    }

    #[test]
    fn a_line_that_falls_is_one_that_rises_upside_down() {
        let rising = answers(&[(1, false), (2, true), (2, true), (1, true)]);
        let falling: Vec<Answer> = rising
            .iter()
            .map(|answer| Answer {
                rises: Some(false),
                above: answer.above.map(|above| !above),
                ..*answer
            })
            .collect();
        let (up, down) = (Posterior::of(3, &rising), Posterior::of(3, &falling));
        for (rising, falling) in up.steps.iter().zip(&down.steps) {
            assert!((rising - falling).abs() < 1e-12);
        }
        assert_eq!(up.says_to(rising[0]), down.says_to(falling[0]));
    }
}
