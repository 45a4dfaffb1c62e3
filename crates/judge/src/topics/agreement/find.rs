//! Compares the effects that two runs of one plan found.
//!
//! Each block of a run gives one ratio, arm over baseline. The ratios of two runs are two independent samples, so the
//! interval of their shift is that of Hodges and Lehmann for unpaired samples (`fixed_sample::unpaired`). What a host adds
//! to both arms of a block cancels in the ratio.

use record::metric::Role;
use record::rundir::Run;
use record::verdict::{Comparison, Judgement, Verdict};
use serde::Serialize;
use stats::fixed_sample::{Terms, unpaired};

use crate::topics::metrics::measured::Measured;

/// Whether two estimates of one effect agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// They differ by less than the plan's margin.
    Agrees,
    /// They differ, and by no less than the margin.
    Disagrees,
    /// The interval includes both.
    Undecided,
    /// One of the runs has no estimate.
    Missing,
}

/// An effect as one run found it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// The verdict.
    pub verdict: Verdict,
    /// Arm over baseline.
    pub ratio: Option<f64>,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
    /// Blocks with both arms.
    pub blocks: u32,
}

/// The shift between two estimates: later ratio over earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Shift {
    /// The typical one.
    pub typical: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// Confidence level of the interval, a fraction.
    pub confidence: f64,
}

/// The primary metric of one arm, from both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agreement {
    /// The workload's id.
    pub workload: String,
    /// The arm.
    pub arm: String,
    /// The metric.
    pub metric: String,
    /// What the earlier run found.
    pub before: Estimate,
    /// What the later run found.
    pub after: Option<Estimate>,
    /// The shift between them; `None` with too few blocks.
    pub shift: Option<Shift>,
    /// Whether they agree.
    pub outcome: Outcome,
}

/// A run with its verdict.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'r> {
    /// The run.
    pub run: &'r Run,
    /// Its verdict.
    pub judgement: &'r Judgement,
}

/// Compares each primary metric of the earlier run with the later one.
pub fn compare(before: Judged<'_>, after: Judged<'_>) -> Vec<Agreement> {
    let measured = [before.run, after.run].map(Measured::of);
    let plan = &before.run.plan;
    let design = &plan.design;
    let terms = Terms {
        margin: design.margin,
        error_rate: design.error_rate,
        seed: design.seed,
    };
    let primaries = before
        .judgement
        .comparisons
        .iter()
        .filter(|comparison| comparison.spec.role == Role::Primary);
    primaries
        .map(|comparison| {
            let (workload, arm) = (&*comparison.workload, &*comparison.arm);
            let metric = &*comparison.spec.name;
            let ratios = measured.each_ref().map(|measured| {
                let pairs = measured.pairs(workload, &plan.baseline, arm, metric);
                let ratios = pairs.iter().map(|pair| pair.arm / pair.baseline);
                ratios.collect::<Vec<f64>>()
            });
            let mut others = after.judgement.comparisons.iter();
            let later = others.find(|other| {
                (&*other.workload, &*other.arm, &*other.spec.name) == (workload, arm, metric)
            });
            let shift = shift(&ratios, comparison, terms);
            Agreement {
                workload: workload.into(),
                arm: arm.into(),
                metric: metric.into(),
                before: estimate(comparison),
                after: later.map(estimate),
                shift,
                outcome: if later.is_none() {
                    Outcome::Missing
                } else {
                    shift.map_or(Outcome::Undecided, |shift| outcome(shift, terms.margin))
                },
            }
        })
        .collect()
}

fn estimate(comparison: &Comparison) -> Estimate {
    Estimate {
        verdict: comparison.verdict,
        ratio: comparison.ratio,
        low: comparison.low,
        high: comparison.high,
        blocks: comparison.blocks,
    }
}

fn shift(ratios: &[Vec<f64>; 2], comparison: &Comparison, terms: Terms) -> Option<Shift> {
    let [before, after] = ratios;
    let is_ratio = |ratio: &f64| ratio.is_finite() && *ratio > 0.0;
    if before.is_empty() || after.is_empty() || !before.iter().chain(after).all(is_ratio) {
        return None;
    }
    if before
        .iter()
        .chain(after)
        .all(|ratio| ratio.total_cmp(&before[0]).is_eq())
    {
        return Some(Shift {
            typical: 1.0,
            low: 1.0,
            high: 1.0,
            confidence: 1.0 - terms.error_rate,
        });
    }
    let change = unpaired(before, after, comparison.spec.direction, terms).change?;
    let (low, high) = change.interval?;
    Some(Shift {
        typical: change.typical,
        low,
        high,
        confidence: change.confidence?,
    })
}

fn outcome(shift: Shift, margin: f64) -> Outcome {
    let most = 1.0 + margin;
    if 1.0 / most <= shift.low && shift.high <= most {
        Outcome::Agrees
    } else if shift.low <= 1.0 && 1.0 <= shift.high {
        Outcome::Undecided
    } else {
        Outcome::Disagrees
    }
}

/// What all rows come to: the worst of them.
pub fn overall(rows: &[Agreement]) -> Outcome {
    let order = [
        Outcome::Disagrees,
        Outcome::Missing,
        Outcome::Undecided,
        Outcome::Agrees,
    ];
    let has = |outcome: &Outcome| rows.iter().any(|row| row.outcome == *outcome);
    order.into_iter().find(has).unwrap_or(Outcome::Missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_estimates_agree_within_the_margin() {
        let outcome = |low, high| {
            let shift = Shift {
                typical: 1.0,
                low,
                high,
                confidence: 0.95,
            };
            outcome(shift, 0.02)
        };
        assert_eq!(outcome(0.99, 1.01), Outcome::Agrees);
        // Surely apart, but by less than the plan asks.
        assert_eq!(outcome(1.005, 1.015), Outcome::Agrees);
        assert_eq!(outcome(0.9, 1.1), Outcome::Undecided);
        assert_eq!(outcome(1.01, 1.1), Outcome::Disagrees);
        assert_eq!(outcome(0.8, 0.9), Outcome::Disagrees);
    }

    #[test]
    fn the_worst_row_decides() {
        let row = |outcome| Agreement {
            workload: "web".into(),
            arm: "new".into(),
            metric: "throughput".into(),
            before: Estimate {
                verdict: Verdict::Better,
                ratio: None,
                low: None,
                high: None,
                blocks: 0,
            },
            after: None,
            shift: None,
            outcome,
        };
        let all = [Outcome::Agrees, Outcome::Undecided, Outcome::Missing];
        assert_eq!(overall(&all.map(row)), Outcome::Missing);
        assert_eq!(overall(&[row(Outcome::Agrees)]), Outcome::Agrees);
        assert_eq!(overall(&[]), Outcome::Missing);
    }
}
