//! Bounds: how far a sum may go by chance, where the design's randomization is not at hand.
//!
//! Two families. With a known end, error is spent look by look on a Brownian path (Lan and `DeMets` 1983). Without
//! one, a mixture of bets covers all times at once (Howard, Ramdas, `McAuliffe` and Sekhon 2021, "Time-uniform,
//! nonparametric, nonasymptotic confidence sequences"). R* uses neither: its boundaries come from re-randomization. These
//! are what it is compared with, and what serves a stream of sums that nobody randomised.

use std::f64::consts::{E, PI};

use statrs::distribution::{ContinuousCDF, Normal};
use statrs::function::beta::ln_beta;
use statrs::function::gamma::{gamma_lr, ln_gamma};

/// Points of the grid on which a density is carried from look to look.
const GRID: usize = 1601;

/// A step of so many deviations does not happen.
const FAR: f64 = 9.0;

/// A critical value that is as good as none.
const NEVER: f64 = 8.0;

/// How the error of one tail, `a` in all, is spent by information `t`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Spending {
    /// 2 (1 - Phi(z / sqrt t)) with z the 1 - a/2 quantile: next to nothing early, as O'Brien and Fleming 1979.
    OBrienFleming,
    /// a ln(1 + (e - 1) t): evenly, as Pocock 1977.
    Pocock,
    /// a t^rho: Kim and `DeMets` 1987.
    Power(f64),
}

impl Spending {
    fn spent(self, information: f64, error_rate: f64) -> f64 {
        let t = information.min(1.0);
        match self {
            Self::OBrienFleming => {
                let z = standard().inverse_cdf(1.0 - error_rate / 2.0);
                2.0 * standard().sf(z / t.sqrt())
            }
            Self::Pocock => error_rate * ((E - 1.0) * t).ln_1p(),
            Self::Power(rho) => error_rate * t.powf(rho),
        }
    }
}

/// Two-sided critical values of z at rising information, half of `error_rate` in each tail.
///
/// The density of paths that have not crossed is carried on a grid: Armitage, `McPherson` and Rowe 1969.
pub fn lan_demets(information: &[f64], error_rate: f64, spending: Spending) -> Vec<f64> {
    let (mut spent, mut t_before) = (0.0, 0.0);
    // Before the first look every path is at zero.
    let mut paths = vec![(0.0, 1.0)];
    let look = |t: &f64| {
        let by_now = spending.spent(*t, error_rate / 2.0);
        let step = (t - t_before).sqrt();
        let edge = edge(&paths, step, by_now - spent, *t);
        paths = inside(&paths, step, edge);
        (spent, t_before) = (by_now, *t);
        edge / t.sqrt()
    };
    information.iter().map(look).collect()
}

/// The distance beyond which `tail` of the paths go upwards in one step.
fn edge(paths: &[(f64, f64)], step: f64, tail: f64, t: f64) -> f64 {
    let beyond = |edge: f64| {
        let each = paths
            .iter()
            .map(|(at, mass)| mass * standard().cdf((at - edge) / step));
        each.sum::<f64>()
    };
    let farthest = NEVER * t.sqrt();
    if tail < 1e-13 || beyond(farthest) > tail {
        return farthest;
    }
    root(|edge| beyond(edge) - tail, (farthest, 0.0))
}

/// Where the paths are after a step, those that crossed left out: places and masses.
fn inside(paths: &[(f64, f64)], step: f64, edge: f64) -> Vec<(f64, f64)> {
    let width = 2.0 * edge / (GRID - 1) as f64;
    let point = |index: usize| {
        let at = -edge + width * index as f64;
        let near = paths
            .iter()
            .filter(|(from, _)| (at - from).abs() < FAR * step);
        let each = near.map(|(from, mass)| mass * (-0.5 * ((at - from) / step).powi(2)).exp());
        let density = each.sum::<f64>() / (step * (2.0 * PI).sqrt());
        let share = if index == 0 || index == GRID - 1 {
            0.5
        } else {
            1.0
        };
        (at, density * width * share)
    };
    (0..GRID).map(point).collect()
}

/// For how much variance a mixture is best, and at which error rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuning {
    /// Sum of variances.
    pub variance: f64,
    /// A share.
    pub error_rate: f64,
}

impl Tuning {
    /// v / (2 ln(1/a) + ln(1 + 2 ln(1/a))).
    fn rho(self, sides: Sides) -> f64 {
        let error_rate = match sides {
            Sides::One => 2.0 * self.error_rate,
            Sides::Two => self.error_rate,
        };
        let log = -2.0 * error_rate.ln();
        self.variance / (log + log.ln_1p())
    }
}

/// Whether a sum may go too far one way or either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sides {
    /// Upwards.
    One,
    /// Both.
    Two,
}

/// The logarithm of the normal mixture at a sum `s` of variance `v`.
pub fn ln_normal_mixture(s: f64, v: f64, tuning: Tuning, sides: Sides) -> f64 {
    let rho = tuning.rho(sides);
    let both = 0.5 * (rho / (v + rho)).ln() + s * s / (2.0 * (v + rho));
    match sides {
        Sides::One => both + (2.0 * standard().cdf(s / (v + rho).sqrt())).ln(),
        Sides::Two => both,
    }
}

/// How far a sum of variance `v` may go at any time, with normal tails or lighter ones.
pub fn normal_mixture(v: f64, error_rate: f64, tuning: Tuning, sides: Sides) -> f64 {
    mixture_bound(|s| ln_normal_mixture(s, v, tuning, sides), v, error_rate)
}

/// How far a sum of variance `v` may go upwards at any time, with exponential tails of scale `c`.
pub fn gamma_exponential_mixture(v: f64, error_rate: f64, tuning: Tuning, c: f64) -> f64 {
    let rho = tuning.rho(Sides::One) / (c * c);
    let constant = rho * rho.ln() - ln_gamma(rho) - gamma_lr(rho, rho).ln();
    let ln_mixture = |s: f64| {
        let (shape, at) = (v / (c * c) + rho, s / c + v / (c * c));
        constant + ln_gamma(shape) + gamma_lr(shape, at + rho).ln() - shape * (at + rho).ln() + at
    };
    mixture_bound(ln_mixture, v, error_rate)
}

/// How far a sum of variance `v`, at least `v_min`, may go upwards at any time: stitched from bounds over epochs that
/// double, with the exponent 1.4 of their shares. It grows as the law of the iterated logarithm does.
pub fn poly_stitching(v: f64, error_rate: f64, v_min: f64) -> f64 {
    const ETA: f64 = 2.0;
    const EXPONENT: f64 = 1.4;
    let v = v.max(v_min);
    let share = (zeta(EXPONENT) / ETA.ln().powf(EXPONENT)).ln();
    let log = EXPONENT * (ETA * v / v_min).ln().ln() + share - error_rate.ln();
    let slope = (ETA.powf(0.25) + ETA.powf(-0.25)) / 2f64.sqrt();
    slope * (v * log).sqrt()
}

/// The chance of success, given so many of so many tries, at any time; best after `tuned` tries at 5 %.
///
/// A chance p is left out when the beta-binomial mixture against it reaches 1/a: with r = max(rho - p(1-p), p(1-p)/1000),
/// B(r/p + failures, r/(1-p) + successes) / B(r/p, r/(1-p)) / (p^successes (1-p)^failures).
pub fn bernoulli(successes: u32, tries: u32, error_rate: f64, tuned: f64) -> (f64, f64) {
    let (hits, misses) = (f64::from(successes), f64::from(tries - successes));
    let excess = |p: f64| {
        let spread = p * (1.0 - p);
        let rho = Tuning {
            variance: spread * tuned,
            error_rate: 0.05,
        }
        .rho(Sides::Two);
        let r = (rho - spread).max(1e-3 * spread);
        let (a, b) = (r / p, r / (1.0 - p));
        let mixture = ln_beta(a + misses, b + hits) - ln_beta(a, b);
        mixture - hits * p.ln() - misses * (1.0 - p).ln() + error_rate.ln()
    };
    let seen = hits / f64::from(tries);
    let low = if successes == 0 {
        0.0
    } else {
        root(excess, (seen, 0.0))
    };
    let high = if successes == tries {
        1.0
    } else {
        root(excess, (seen, 1.0))
    };
    (low, high)
}

fn mixture_bound(ln_mixture: impl Fn(f64) -> f64, v: f64, error_rate: f64) -> f64 {
    let excess = |s: f64| ln_mixture(s) + error_rate.ln();
    let mut far = v.max(1.0);
    while excess(far) < 0.0 {
        far *= 2.0;
    }
    root(excess, (0.0, far))
}

/// Where `f` passes from below zero at the first place to above zero at the second, by halving.
fn root(f: impl Fn(f64) -> f64, (mut below, mut above): (f64, f64)) -> f64 {
    for _ in 0..60 {
        let middle = f64::midpoint(below, above);
        if f(middle) > 0.0 {
            above = middle;
        } else {
            below = middle;
        }
    }
    f64::midpoint(below, above)
}

/// Riemann's zeta for s > 1: a sum, and Euler and Maclaurin for the rest of it.
fn zeta(s: f64) -> f64 {
    let n = 200f64;
    let sum: f64 = (1..200).map(|k| f64::from(k).powf(-s)).sum();
    let rest = n.powf(1.0 - s) / (s - 1.0) + 0.5 * n.powf(-s) + s / 12.0 * n.powf(-s - 1.0);
    sum + rest - s * (s + 1.0) * (s + 2.0) / 720.0 * n.powf(-s - 3.0)
}

fn standard() -> Normal {
    Normal::standard()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::tests::close;

    #[track_caller]
    fn five_looks(error_rate: f64, spending: Spending, want: [f64; 5]) {
        let got = lan_demets(&[0.2, 0.4, 0.6, 0.8, 1.0], error_rate, spending);
        for (got, want) in got.into_iter().zip(want) {
            close(got, want, 4);
        }
    }

    #[test]
    fn spending_boundaries_are_those_published() {
        five_looks(
            0.05,
            Spending::OBrienFleming,
            [4.8769, 3.3570, 2.6803, 2.2898, 2.0310],
        );
        five_looks(
            0.05,
            Spending::Pocock,
            [2.4380, 2.4268, 2.4102, 2.3966, 2.3860],
        );
        five_looks(
            0.01,
            Spending::Power(1.5),
            [3.3218, 3.1175, 2.9880, 2.8850, 2.7977],
        );
    }

    #[test]
    fn many_looks_have_the_boundaries_of_the_reference() {
        let information: Vec<f64> = (8..=150).map(|n| f64::from(n) / 150.0).collect();
        let got = lan_demets(&information, 0.01, Spending::Power(1.5));
        let want = [
            (8, 3.8397),
            (16, 3.8950),
            (24, 3.7633),
            (32, 3.6609),
            (48, 3.5057),
            (60, 3.4148),
            (150, 2.9971),
        ];
        for (n, want) in want {
            close(got[n - 8], want, 4);
        }
    }

    #[test]
    fn mixtures_are_those_of_the_reference() {
        let tuning = Tuning {
            variance: 20.0,
            error_rate: 0.05,
        };
        close(
            normal_mixture(30.0, 0.05, tuning, Sides::Two),
            16.673_784_363_0,
            10,
        );
        close(
            ln_normal_mixture(12.0, 30.0, tuning, Sides::Two),
            0.935_236_845_7,
            10,
        );
        close(
            ln_normal_mixture(12.0, 30.0, tuning, Sides::One),
            1.670_301_279_2,
            10,
        );
        close(
            normal_mixture(30.0, 0.01, tuning, Sides::One),
            18.369_655_786_9,
            10,
        );
        let tuning = Tuning {
            variance: 10.0,
            ..tuning
        };
        close(
            gamma_exponential_mixture(10.0, 0.05, tuning, 1.0),
            11.549_351_556_1,
            10,
        );
        close(poly_stitching(100.0, 0.05, 10.0), 35.680_490_298_9, 10);
    }

    #[test]
    fn chances_of_success_have_the_interval_of_the_reference() {
        let (low, high) = bernoulli(28, 30, 0.05, 20.0);
        close(low, 0.718_127_424_7, 10);
        close(high, 0.999_915_464_2, 10);
        let (low, high) = bernoulli(20, 30, 0.05, 20.0);
        close(low, 0.384_150_277_6, 10);
        close(high, 0.892_707_276_0, 10);
        assert_eq!(bernoulli(30, 30, 0.05, 20.0).1.to_bits(), 1f64.to_bits());
    }
}
