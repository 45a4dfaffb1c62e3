//! Growth: whether a counter of a system grows within trials, by how much, and in which arms.
//!
//! ```text
//! slope      the median of the slopes of all pairs of batch means (Theil 1950, Sen 1968)
//! p-value    twice the smaller one of two tests: Mann and Kendall's, and Student's of the steps from batch to batch, for counters
//!            that wander with a drift, such as a leak per request; both variances inflated for autocorrelation (`batches`)
//! trials     sums z over the trials of an arm (Stouffer 1949), each test separately; averages slopes
//! family     all counters of all arms together, by Holm 1979
//! both arms  the interval of a difference from the intervals of its parts (Zou and Donner 2008)
//! ```
//! A counter that grows only during warm-up grows less in the second half than in the first, and is not reported. Nor is growth
//! that is significant but too small to matter.

use record::counters;
use record::counters::Unit;
use record::verdict::soak::{ArmGrowth, Growth, GrowthAgainst, GrowthPlace, GrowthRule};
use statrs::distribution::{ContinuousCDF, Normal};

use crate::topics::soak::find::Z;
use stats::average::{kendall_s, kendall_variance, median};
use stats::batches::{self, Reading, centred};
use stats::multiplicity::holm;

/// The share of the window that is left out at its beginning.
const WARM_UP: f64 = 1.0 / 8.0;

/// Least slope in the second half, as a share of the slope over all and of that in the first half.
const STEADY: f64 = 0.5;

/// Standard errors added to the autocorrelation, because many counters are tested at once, far out in the tail.
const ERRORS: f64 = 2.0;

/// Standard errors added to the autocorrelation of steps from batch to batch, which correlate less.
const DRIFT_ERRORS: f64 = 3.0;

/// Least growth of a counter in thousandths.
const LEAST_PERMILLE: f64 = 100.0;

/// Least growth of a counter without a limit, which must also double.
const LEAST_COUNT: f64 = 100.0;

/// A counter in one trial.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    pub(crate) readings: Vec<Reading>,
    /// When the window ended.
    pub(crate) end_s: f64,
}

/// A counter in one arm.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InArm {
    pub(crate) arm: String,
    pub(crate) limit: Option<u64>,
    pub(crate) trials: Vec<Series>,
}

/// A counter in all arms, the baseline first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Counter {
    pub(crate) name: String,
    pub(crate) arms: Vec<InArm>,
}

/// A counter's trend in one trial, or in all trials of an arm. Slopes are per hour.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Slope {
    per_h: f64,
    /// Ends of the interval; infinite if the data exclude no slope.
    low: f64,
    high: f64,
    /// Mann and Kendall's test: standard normal if there is no trend.
    z: f64,
    /// Test of the steps from batch to batch: standard normal if their mean is zero.
    drift_z: f64,
    /// Over the first half alone.
    early_per_h: f64,
    /// Over the second half alone.
    late_per_h: f64,
    /// The counter's typical value.
    level: f64,
}

/// Which counters grow, and `rule` with its counts filled in.
pub(crate) fn test_counters(counters: &[Counter], rule: GrowthRule) -> (Vec<Growth>, GrowthRule) {
    let mut tested = Vec::new();
    for (index, counter) in counters.iter().enumerate() {
        for arm in &counter.arms {
            tested.extend(arm.slope().map(|slope| (index, arm, slope)));
        }
    }
    let p_values: Vec<f64> = tested.iter().map(|(_, _, slope)| slope.p_value()).collect();
    let p_values = holm(&p_values);
    let mut rule = GrowthRule {
        tested: tested.len() as u32,
        ..rule
    };
    let mut by_counter: Vec<Vec<(ArmGrowth, Slope)>> = vec![Vec::new(); counters.len()];
    for ((index, arm, slope), p_value) in tested.into_iter().zip(p_values) {
        let name = &counters[index].name;
        let trends = p_value <= rule.error_rate && slope.rises();
        let is_steady = slope.late_per_h >= STEADY * slope.per_h.max(slope.early_per_h);
        let matters = slope.matters(name, arm.limit, &rule);
        rule.levelled_off += u32::from(trends && matters && !is_steady);
        rule.small += u32::from(trends && !matters);
        let after_h = rule.after_ms as f64 / 3.6e6;
        let share = |limit: u64| slope.per_h * after_h / limit.max(1) as f64;
        let growth = ArmGrowth {
            arm: arm.arm.clone(),
            trials: arm.trials.len() as u32,
            per_h: slope.per_h,
            low: Some(slope.low).filter(|low| low.is_finite()),
            high: Some(slope.high).filter(|high| high.is_finite()),
            p_value,
            share_after: arm.limit.map(share),
            grows: trends && is_steady && matters,
        };
        by_counter[index].push((growth, slope));
    }
    let mut growing: Vec<Growth> = counters
        .iter()
        .zip(by_counter)
        .filter(|(_, arms)| arms.iter().any(|(growth, _)| growth.grows))
        .map(|(counter, arms)| growth(counter, arms))
        .collect();
    let is_new = |growth: &Growth| growth.against.iter().any(|arm| arm.place.is_new());
    growing.sort_by_key(|growth| (growth.is_cache, !is_new(growth)));
    (growing, rule)
}

fn growth(counter: &Counter, arms: Vec<(ArmGrowth, Slope)>) -> Growth {
    // An arm without a slope has a counter that never varied, or no such counter.
    let constant = Slope {
        per_h: 0.0,
        low: 0.0,
        high: 0.0,
        z: 0.0,
        drift_z: 0.0,
        early_per_h: 0.0,
        late_per_h: 0.0,
        level: 0.0,
    };
    let trend = |arm: &InArm| {
        let found = arms.iter().find(|(growth, _)| growth.arm == arm.arm);
        found.map_or((false, constant), |(growth, slope)| (growth.grows, *slope))
    };
    let (baseline_grows, baseline) = trend(&counter.arms[0]);
    let mut against = Vec::new();
    for arm in &counter.arms[1..] {
        let (grows, slope) = trend(arm);
        let (low, high) = difference(&slope, &baseline);
        let place = match (grows, baseline_grows) {
            (false, false) => continue,
            (true, true) if low > 0.0 => GrowthPlace::FasterInArm,
            (true, true) => GrowthPlace::Both,
            (true, false) if low > 0.0 => GrowthPlace::ArmOnly,
            (true, false) => GrowthPlace::ArmAtLeast,
            (false, true) if high < 0.0 => GrowthPlace::BaselineOnly,
            (false, true) => GrowthPlace::BaselineAtLeast,
        };
        against.push(GrowthAgainst {
            arm: arm.arm.clone(),
            place,
        });
    }
    Growth {
        counter: counter.name.clone(),
        unit: counters::unit(&counter.name),
        is_cache: counters::is_cache(&counter.name),
        against,
        arms: arms.into_iter().map(|(growth, _)| growth).collect(),
    }
}

/// The interval of arm minus baseline.
fn difference(arm: &Slope, baseline: &Slope) -> (f64, f64) {
    let middle = arm.per_h - baseline.per_h;
    let down = (arm.per_h - arm.low).hypot(baseline.high - baseline.per_h);
    let up = (arm.high - arm.per_h).hypot(baseline.per_h - baseline.low);
    (middle - down, middle + up)
}

impl InArm {
    /// The trend over all trials; `None` if every trial is too short or the counter never varies.
    fn slope(&self) -> Option<Slope> {
        let slopes: Vec<Slope> = self.trials.iter().filter_map(Series::slope).collect();
        let count = slopes.len() as f64;
        let mean = |value: fn(&Slope) -> f64| slopes.iter().map(value).sum::<f64>() / count;
        let error = |value: fn(&Slope) -> f64| {
            let squares = slopes.iter().map(|slope| value(slope).powi(2));
            squares.sum::<f64>().sqrt() / count
        };
        let per_h = mean(|slope| slope.per_h);
        (!slopes.is_empty()).then(|| Slope {
            per_h,
            low: per_h - error(|slope| slope.per_h - slope.low),
            high: per_h + error(|slope| slope.high - slope.per_h),
            z: mean(|slope| slope.z) * count.sqrt(),
            drift_z: mean(|slope| slope.drift_z) * count.sqrt(),
            early_per_h: mean(|slope| slope.early_per_h),
            late_per_h: mean(|slope| slope.late_per_h),
            level: mean(|slope| slope.level),
        })
    }
}

impl Series {
    fn batches(&self) -> Vec<(f64, f64)> {
        batches::means(&self.readings, WARM_UP * self.end_s, self.end_s)
    }

    /// Whether there are enough readings for a test.
    pub(crate) fn is_testable(&self) -> bool {
        !self.batches().is_empty()
    }

    /// `None` if the trial is too short or the counter never varies.
    fn slope(&self) -> Option<Slope> {
        let batches = self.batches();
        let y: Vec<f64> = batches.iter().map(|batch| batch.1).collect();
        let first = y.first()?;
        if y.iter().all(|value| value.total_cmp(first).is_eq()) {
            return None;
        }
        let slopes = slopes(&batches);
        let per_s = median(&slopes);
        let residuals: Vec<f64> = batches.iter().map(|(x, y)| y - per_s * x).collect();
        let inflation = batches::inflation(&centred(&residuals), ERRORS);
        let deviation = (kendall_variance(&y) * inflation).sqrt();
        let s = kendall_s(&y);
        let z = s.signum() * (s.abs() - 1.0).max(0.0) / deviation;
        let drift = Drift::new(&batches);
        let rank_interval = rank_interval(&slopes, Z * deviation);
        let drift_interval = drift.interval_with(per_s);
        // Each interval is by far the wider one if the other one's test is appropriate.
        let width = |(low, high): (f64, f64)| high - low;
        let (low, high) = if width(drift_interval) < width(rank_interval) {
            drift_interval
        } else {
            rank_interval
        };
        let (early, late) = batches.split_at(batches.len() / 2);
        let half_per_h = |half: &[(f64, f64)]| median(&self::slopes(half)) * 3600.0;
        Some(Slope {
            per_h: per_s * 3600.0,
            low: low * 3600.0,
            high: high * 3600.0,
            z,
            drift_z: drift.z,
            early_per_h: half_per_h(early),
            late_per_h: half_per_h(late),
            level: median(&y),
        })
    }
}

/// The ends of a slope's interval among all slopes, sorted; infinite if the data exclude no slope.
fn rank_interval(slopes: &[f64], reach: f64) -> (f64, f64) {
    let count = slopes.len() as f64;
    let slope_at = |rank: f64| {
        let exists = 0.0 <= rank && rank < count;
        exists.then(|| slopes[rank as usize])
    };
    let low = slope_at(((count - reach) / 2.0).floor());
    let high = slope_at((f64::midpoint(count, reach)).ceil());
    (
        low.unwrap_or(f64::NEG_INFINITY),
        high.unwrap_or(f64::INFINITY),
    )
}

/// The mean of the steps from batch to batch, per second.
///
/// The steps of a counter that wanders without a drift correlate little, even if its values correlate strongly.
struct Drift {
    per_s: f64,
    error: f64,
    /// Student's t as the normal value of about the same probability (Wallace 1959).
    z: f64,
}

impl Drift {
    fn new(batches: &[(f64, f64)]) -> Self {
        let steps = batches.windows(2);
        let steps: Vec<f64> = steps
            .map(|pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0))
            .collect();
        let count = steps.len() as f64;
        let per_s = steps.iter().sum::<f64>() / count;
        let residuals: Vec<f64> = steps.iter().map(|step| step - per_s).collect();
        let degrees = count - 1.0;
        let variance = residuals.iter().map(|step| step * step).sum::<f64>() / degrees;
        let error = (variance / count * batches::inflation(&residuals, DRIFT_ERRORS)).sqrt();
        let t = if error > 0.0 { per_s / error } else { 0.0 };
        let z = t * (1.0 - 0.25 / degrees) / (1.0 + t * t / (2.0 * degrees)).sqrt();
        Self { per_s, error, z }
    }

    /// The interval of the drift, widened so that it contains the slope `per_s`.
    fn interval_with(&self, per_s: f64) -> (f64, f64) {
        let reach = Z * self.error;
        let (low, high) = (self.per_s - reach, self.per_s + reach);
        (low.min(per_s), high.max(per_s))
    }
}

impl Slope {
    /// Two-sided; twice the smaller p-value of the two tests.
    fn p_value(&self) -> f64 {
        (4.0 * Normal::standard().sf(self.strongest().abs())).min(1.0)
    }

    /// Whether both the slope and the stronger test are positive.
    fn rises(&self) -> bool {
        self.per_h > 0.0 && self.strongest() > 0.0
    }

    fn strongest(&self) -> f64 {
        if self.drift_z.abs() > self.z.abs() {
            self.drift_z
        } else {
            self.z
        }
    }

    fn matters(&self, name: &str, limit: Option<u64>, rule: &GrowthRule) -> bool {
        let grown = self.per_h * rule.after_ms as f64 / 3.6e6;
        match (counters::unit(name), limit) {
            (Unit::Permille, _) => grown >= LEAST_PERMILLE,
            (_, Some(limit)) => grown >= rule.least * limit as f64,
            (_, None) => grown >= self.level.max(LEAST_COUNT),
        }
    }
}

/// The slopes of all pairs of points, sorted.
fn slopes(points: &[(f64, f64)]) -> Vec<f64> {
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    for (index, (x0, y0)) in points.iter().enumerate() {
        for (x1, y1) in &points[index + 1..] {
            slopes.push((y1 - y0) / (x1 - x0));
        }
    }
    slopes.sort_by(f64::total_cmp);
    slopes
}

#[cfg(test)]
mod tests;
