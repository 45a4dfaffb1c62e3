//! Boundaries: how large a statistic may grow under the null hypothesis, over all interim analyses together.
//!
//! The paths under other sign flips are followed beside the observed one. At most `a(t) B` of `B` paths may have crossed
//! by the analysis at information `t`, where `a(t)` is the error spent by then; the boundary is set so that exactly
//! this many do. A path that has crossed is ignored at later analyses.
//! (Lan and `DeMets` 1983 for the spending; Plamadeala and Rosenberger 2012 for boundaries from re-randomised paths.)

use crate::randomization::SignFlips;

/// One in this many paths is sampled: a prime, since rows of enumerated sign flips have the patterns of powers of two.
const SAMPLED: usize = 61;

/// The paths of one hypothesis.
#[derive(Debug, Clone)]
pub struct Boundary {
    /// Whether the path of each row has not crossed.
    alive: Vec<bool>,
    used: usize,
    /// Reused at each analysis: the largest paths with their rows.
    largest: Vec<(f64, usize)>,
    /// Reused at each analysis.
    sample: Vec<f64>,
}

impl Boundary {
    /// A boundary before its first analysis.
    pub fn new(flips: &SignFlips) -> Self {
        Self {
            alive: vec![true; flips.rows()],
            used: 0,
            largest: Vec::new(),
            sample: Vec::new(),
        }
    }

    /// Goes back to before the first analysis.
    pub fn reset(&mut self) {
        self.alive.fill(true);
        self.used = 0;
    }

    /// How many further paths may cross at a spent error of `spent`; an analysis without any changes nothing.
    pub fn quota(&self, spent: f64) -> usize {
        let quota = (spent * self.alive.len() as f64 + 1e-9).floor() as usize;
        quota.saturating_sub(self.used)
    }

    /// Whether each of the `observed` statistics crosses. `paths` holds the statistic of every row, and `uncounted` paths
    /// count in addition; `spent` is the error that may be spent by now. Several statistics share one distribution,
    /// that of the largest of them.
    pub fn test(
        &mut self,
        uncounted: usize,
        paths: &[f64],
        observed: &[f64],
        spent: f64,
    ) -> Vec<bool> {
        let quota = self.quota(spent);
        if quota == 0 {
            return vec![false; observed.len()];
        }
        self.collect(paths, quota);
        let is_beyond = |value: &f64| {
            let least = value - tolerance(*value);
            // If paths outside `largest` are as large, then all in it are, and they are more than the quota.
            let further = self.largest.iter().filter(|(path, _)| *path >= least);
            uncounted + further.count() <= quota
        };
        let crossed = observed.iter().map(is_beyond).collect();
        self.spend(quota);
        crossed
    }

    /// Collects the largest paths that have not crossed: more than `quota` of them, or all. A sample shows where they begin.
    fn collect(&mut self, paths: &[f64], quota: usize) {
        self.sample.clear();
        self.sample.extend(paths.iter().step_by(SAMPLED));
        // Those that have crossed are mostly among the largest again.
        let rank = 2 * (quota + self.used) / SAMPLED + 8;
        let mut likely = f64::NEG_INFINITY;
        if rank < self.sample.len() {
            let largest_first = |a: &f64, b: &f64| b.total_cmp(a);
            likely = *self.sample.select_nth_unstable_by(rank, largest_first).1;
        }
        // Where the sample misleads, all paths are collected.
        for least in [likely, f64::NEG_INFINITY] {
            self.largest.clear();
            let rows = paths.iter().copied().zip(0..);
            let alive = rows.filter(|(path, row)| *path >= least && self.alive[*row]);
            self.largest.extend(alive);
            if self.largest.len() > quota {
                return;
            }
        }
    }

    /// Ends the `quota` largest paths; equal ones end together or not at all.
    fn spend(&mut self, quota: usize) {
        let mut limit = f64::NEG_INFINITY;
        if quota < self.largest.len() {
            let largest_first = |(a, _): &(f64, usize), (b, _): &(f64, usize)| b.total_cmp(a);
            let (_, first_inside, _) = self.largest.select_nth_unstable_by(quota, largest_first);
            limit = first_inside.0 + tolerance(first_inside.0);
        }
        for (path, row) in &self.largest {
            if *path > limit {
                self.alive[*row] = false;
                self.used += 1;
            }
        }
    }
}

fn tolerance(value: f64) -> f64 {
    1e-9 * (1.0 + value.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::tests::{D, close};
    use crate::score::{scale, tukey};

    /// One analysis of the reference: blocks, scale, sum, quota, paths as extreme, paths ended by then.
    type Analysis = (usize, f64, f64, usize, usize, usize);

    /// Replays the reference on all 2^12 sign flips; the number of blocks at which it crosses.
    fn replay(shift: f64, wants: &[Analysis]) -> Option<usize> {
        let x = D.map(|d| d + shift);
        let flips = SignFlips::draw("whole", 12, 0.05);
        let mut boundary = Boundary::new(&flips);
        for (n, s, sum, quota, as_far, used) in wants.iter().copied() {
            let scores = tukey(&x[..n]);
            let total: f64 = scores.iter().sum();
            close(scale(&x[..n]), s, 7);
            close(total, sum, 6);
            let paths: Vec<f64> = flips.sums(&scores).iter().map(|sum| sum.abs()).collect();
            let spent = 0.05 * n as f64 / 12.0;
            assert_eq!(
                (spent * 4096.0) as usize - boundary.used,
                quota,
                "quota at {n}"
            );
            let alive = (0..paths.len()).filter(|row| boundary.alive[*row]);
            let far = alive.filter(|row| paths[*row] >= total.abs() - 1e-9);
            assert_eq!(far.count(), as_far, "at {n}");
            let crossed = boundary.test(flips.uncounted(n), &paths, &[total.abs()], spent);
            if crossed[0] {
                return Some(n);
            }
            assert_eq!(boundary.used, used, "ended by {n}");
        }
        None
    }

    #[test]
    fn the_whole_group_gives_the_analyses_of_the_reference() {
        let analyses = [
            (8, 0.035_582_4, -2.607_219, 136, 768, 128),
            (9, 0.040_030_2, -3.330_680, 25, 320, 128),
            (10, 0.035_582_4, -3.893_947, 42, 224, 160),
            (11, 0.040_030_2, -4.388_742, 27, 96, 184),
            (12, 0.038_547_6, -5.147_516, 20, 36, 204),
        ];
        assert_eq!(replay(0.0, &analyses), None);
    }

    #[test]
    fn three_percent_more_cross_at_the_first_analysis_as_in_the_reference() {
        assert_eq!(
            replay(-0.03, &[(8, 0.073_388_7, -4.068_531, 136, 32, 0)]),
            Some(8)
        );
    }

    #[test]
    fn the_collected_paths_are_the_largest_of_those_that_have_not_crossed() {
        let flips = SignFlips::draw("any", 60, 0.05);
        let mut boundary = Boundary::new(&flips);
        let mut prng = crate::design::keyed("paths");
        for (round, quota) in (0..).zip([1, 20, 300, 5000, flips.rows()]) {
            // Most are near zero, so that a sample can mislead.
            let mut path = || (prng.bits() as f64 / u64::MAX as f64).powi(1 + 8 * round);
            let paths: Vec<f64> = (0..flips.rows()).map(|_| path()).collect();
            let mut all: Vec<f64> = (0..flips.rows())
                .filter(|row| boundary.alive[*row])
                .map(|row| paths[row])
                .collect();
            boundary.collect(&paths, quota);
            let mut largest: Vec<f64> = boundary.largest.iter().map(|(path, _)| *path).collect();
            for list in [&mut all, &mut largest] {
                list.sort_unstable_by(|a, b| b.total_cmp(a));
            }
            assert!(largest.len() > quota.min(all.len() - 1), "{quota}");
            assert_eq!(largest, all[..largest.len()], "{quota}");
            boundary.spend(10 * round as usize);
            assert_eq!(boundary.used, [0, 10, 30, 60, 100][round as usize]);
        }
    }

    #[test]
    fn all_analyses_together_end_no_more_paths_than_may_be_spent() {
        let flips = SignFlips::draw("any", 60, 0.05);
        let mut boundary = Boundary::new(&flips);
        for n in 8..=60 {
            let scores: Vec<f64> = (0..n).map(|block| 1.0 + f64::from(block % 3)).collect();
            let paths: Vec<f64> = flips.sums(&scores).iter().map(|sum| sum.abs()).collect();
            boundary.test(
                flips.uncounted(n as usize),
                &paths,
                &[0.0],
                0.01 * f64::from(n) / 60.0,
            );
        }
        assert!(
            boundary.used <= 200 && boundary.used > 150,
            "{}",
            boundary.used
        );
    }
}
