//! Growth: whether a counter of a system grows within trials, by how much, and in which arms.
//!
//! ```text
//! slope      the median of the slopes of all pairs of batch means (Theil 1950, Sen 1968)
//! p-value    twice the smaller one of two: Mann and Kendall's, its variance inflated for what neighbours have in common (`batches`),
//!            and Student's of the steps from batch to batch, inflated alike, for what wanders with a drift, as a leak by the request does
//! trials     z of several trials of an arm is added up (Stouffer 1949), each test by itself; slopes are averaged
//! family     all counters of all arms together, by Holm 1979
//! both arms  the interval of a difference from the intervals of its parts (Zou and Donner 2008)
//! ```
//! Something that grows only while it warms up grows by less in the second half than in the first: it is no growth. Something that could never matter is
//! none either, however significant.

use record::counters;
use record::counters::Unit;
use record::verdict::soak::{ArmGrowth, Growth, GrowthAgainst, GrowthPlace, GrowthRule};
use statrs::distribution::{ContinuousCDF, Normal};

use crate::topics::soak::find::Z;
use stats::average::{kendall_s, kendall_variance, median};
use stats::batches;
use stats::batches::{Reading, centred};
use stats::multiplicity::holm;

/// The share of the window that is left out at its beginning.
pub(crate) const WARM_UP: f64 = 1.0 / 8.0;

/// What grows must grow in the second half by this share of what it grows over all, and of what it grows in the first half, at the least.
const STEADY: f64 = 0.5;

/// Of the correlation of neighbours so many standard errors are added: many counters are tested at once, far out in the tail.
const ERRORS: f64 = 2.0;

/// Likewise of the steps from batch to batch, which hang together less.
const DRIFT_ERRORS: f64 = 3.0;

/// Thousandths by which something must grow that is counted in them.
const LEAST_PERMILLE: f64 = 100.0;

/// Things by which a counter without a limit must grow, beside doubling.
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

/// What a trial, or those of an arm together, say of a counter. Slopes are in an hour.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Slope {
    pub(crate) per_h: f64,
    /// Infinite where every slope fits.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Standard normal where there is no trend.
    pub(crate) z: f64,
    /// The same of the steps from batch to batch, where they have no mean.
    pub(crate) drift_z: f64,
    /// Over the first half alone.
    pub(crate) early_per_h: f64,
    /// Over the second half alone.
    pub(crate) late_per_h: f64,
    /// What it typically is.
    level: f64,
}

/// Which counters grow, and the rule with its counts. `rule` has what is asked.
pub(crate) fn of(counters: &[Counter], rule: GrowthRule) -> (Vec<Growth>, GrowthRule) {
    let mut tested = Vec::new();
    for (place, counter) in counters.iter().enumerate() {
        for arm in &counter.arms {
            tested.extend(arm.slope().map(|slope| (place, arm, slope)));
        }
    }
    let p_values: Vec<f64> = tested.iter().map(|(_, _, slope)| slope.p_value()).collect();
    let p_values = holm(&p_values);
    let mut rule = GrowthRule {
        tested: tested.len() as u32,
        ..rule
    };
    let mut by_counter: Vec<Vec<(ArmGrowth, Slope)>> = vec![Vec::new(); counters.len()];
    for ((place, arm, slope), p_value) in tested.into_iter().zip(p_values) {
        let name = &counters[place].name;
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
        by_counter[place].push((growth, slope));
    }
    let grown = counters.iter().zip(by_counter);
    let mut grown: Vec<Growth> = grown
        .filter(|(_, arms)| arms.iter().any(|(one, _)| one.grows))
        .map(|(counter, arms)| growth(counter, arms))
        .collect();
    let is_new = |one: &Growth| one.against.iter().any(|one| one.place.is_new());
    grown.sort_by_key(|one| (one.is_cache, !is_new(one)));
    (grown, rule)
}

fn growth(counter: &Counter, arms: Vec<(ArmGrowth, Slope)>) -> Growth {
    let baseline = &counter.arms[0].arm;
    let known = arms.iter().find(|(one, _)| one.arm == *baseline);
    // An arm without a slope has a counter that never varied, or none at all.
    let still = Slope {
        per_h: 0.0,
        low: 0.0,
        high: 0.0,
        z: 0.0,
        drift_z: 0.0,
        early_per_h: 0.0,
        late_per_h: 0.0,
        level: 0.0,
    };
    let (known_grows, known) = known.map_or((false, still), |(one, slope)| (one.grows, *slope));
    let against = counter.arms[1..].iter().filter_map(|arm| {
        let its = arms.iter().find(|(one, _)| one.arm == arm.arm);
        let (grows, slope) = its.map_or((false, still), |(one, slope)| (one.grows, *slope));
        let place = place((grows, &slope), (known_grows, &known))?;
        Some(GrowthAgainst {
            arm: arm.arm.clone(),
            place,
        })
    });
    Growth {
        counter: counter.name.clone(),
        unit: counters::unit(&counter.name),
        is_cache: counters::is_cache(&counter.name),
        against: against.collect(),
        arms: arms.into_iter().map(|(one, _)| one).collect(),
    }
}

/// `None` where it grows in neither.
fn place(arm: (bool, &Slope), baseline: (bool, &Slope)) -> Option<GrowthPlace> {
    let (low, high) = difference(arm.1, baseline.1);
    Some(match (arm.0, baseline.0) {
        (false, false) => return None,
        (true, true) if low > 0.0 => GrowthPlace::FasterInArm,
        (true, true) => GrowthPlace::Both,
        (true, false) if low > 0.0 => GrowthPlace::ArmOnly,
        (true, false) => GrowthPlace::ArmAtLeast,
        (false, true) if high < 0.0 => GrowthPlace::BaselineOnly,
        (false, true) => GrowthPlace::BaselineAtLeast,
    })
}

/// The interval of arm minus baseline.
fn difference(arm: &Slope, baseline: &Slope) -> (f64, f64) {
    let middle = arm.per_h - baseline.per_h;
    let down = (arm.per_h - arm.low).hypot(baseline.high - baseline.per_h);
    let up = (arm.high - arm.per_h).hypot(baseline.per_h - baseline.low);
    (middle - down, middle + up)
}

impl InArm {
    /// All trials together; `None` where none tells, and where the counter never varies.
    fn slope(&self) -> Option<Slope> {
        let slopes: Vec<Slope> = self.trials.iter().filter_map(Series::slope).collect();
        let count = slopes.len() as f64;
        let mean = |of: fn(&Slope) -> f64| slopes.iter().map(of).sum::<f64>() / count;
        let root = |of: fn(&Slope) -> f64| {
            slopes.iter().map(|one| of(one).powi(2)).sum::<f64>().sqrt() / count
        };
        let per_h = mean(|one| one.per_h);
        (!slopes.is_empty()).then(|| Slope {
            per_h,
            low: per_h - root(|one| one.per_h - one.low),
            high: per_h + root(|one| one.high - one.per_h),
            z: mean(|one| one.z) * count.sqrt(),
            drift_z: mean(|one| one.drift_z) * count.sqrt(),
            early_per_h: mean(|one| one.early_per_h),
            late_per_h: mean(|one| one.late_per_h),
            level: mean(|one| one.level),
        })
    }
}

impl Series {
    fn batches(&self) -> Vec<(f64, f64)> {
        batches::means(&self.readings, (WARM_UP * self.end_s, self.end_s))
    }

    /// Whether it says anything of growth.
    pub(crate) fn tells(&self) -> bool {
        !self.batches().is_empty()
    }

    /// `None` of a trial that is too short, and of a counter that never varies.
    pub(crate) fn slope(&self) -> Option<Slope> {
        let batches = self.batches();
        let y: Vec<f64> = batches.iter().map(|batch| batch.1).collect();
        let first = y.first()?;
        if y.iter().all(|value| value.total_cmp(first).is_eq()) {
            return None;
        }
        let slopes = slopes(&batches);
        let per_s = median(&slopes);
        let rest: Vec<f64> = batches.iter().map(|(x, y)| y - per_s * x).collect();
        let inflated = batches::inflation(&centred(&rest), ERRORS);
        let deviation = (kendall_variance(&y) * inflated).sqrt();
        let s = kendall_s(&y);
        let z = s.signum() * (s.abs() - 1.0).max(0.0) / deviation;
        let drift = Drift::of(&batches);
        let intervals = [inside(&slopes, Z * deviation), drift.around(per_s)];
        let (low, high) = narrower(intervals);
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

/// The ends of a slope's interval, of all slopes in order; infinite where every slope fits.
fn inside(slopes: &[f64], reach: f64) -> (f64, f64) {
    let count = slopes.len() as f64;
    let edge = |place: f64| {
        let inside = 0.0 <= place && place < count;
        inside.then(|| slopes[place as usize])
    };
    let low = edge(((count - reach) / 2.0).floor());
    let high = edge((f64::midpoint(count, reach)).ceil());
    (
        low.unwrap_or(f64::NEG_INFINITY),
        high.unwrap_or(f64::INFINITY),
    )
}

/// Each is by far the wider one where the other one's test is the right one.
fn narrower([one, other]: [(f64, f64); 2]) -> (f64, f64) {
    if other.1 - other.0 < one.1 - one.0 {
        other
    } else {
        one
    }
}

/// The mean of the steps from batch to batch, in a second. What wanders without a drift has steps that hang on each other little, however
/// much its values do.
struct Drift {
    per_s: f64,
    error: f64,
    /// Student's t as the normal value of about the same probability (Wallace 1959).
    z: f64,
}

impl Drift {
    fn of(batches: &[(f64, f64)]) -> Self {
        let steps = batches.windows(2);
        let steps: Vec<f64> = steps
            .map(|pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0))
            .collect();
        let count = steps.len() as f64;
        let per_s = steps.iter().sum::<f64>() / count;
        let rest: Vec<f64> = steps.iter().map(|step| step - per_s).collect();
        let degrees = count - 1.0;
        let variance = rest.iter().map(|step| step * step).sum::<f64>() / degrees;
        let error = (variance / count * batches::inflation(&rest, DRIFT_ERRORS)).sqrt();
        let t = if error > 0.0 { per_s / error } else { 0.0 };
        let z = t * (1.0 - 0.25 / degrees) / (1.0 + t * t / (2.0 * degrees)).sqrt();
        Self { per_s, error, z }
    }

    /// Its interval, widened to a slope.
    fn around(&self, per_s: f64) -> (f64, f64) {
        let reach = Z * self.error;
        let (low, high) = (self.per_s - reach, self.per_s + reach);
        (low.min(per_s), high.max(per_s))
    }
}

impl Slope {
    /// Two-sided; of two tests, twice the smaller one.
    fn p_value(&self) -> f64 {
        (4.0 * Normal::standard().sf(self.strongest().abs())).min(1.0)
    }

    /// Whether it and the test that tells more go up.
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

/// Of all pairs of points, in order.
fn slopes(points: &[(f64, f64)]) -> Vec<f64> {
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    for (index, one) in points.iter().enumerate() {
        for other in &points[index + 1..] {
            slopes.push((other.1 - one.1) / (other.0 - one.0));
        }
    }
    slopes.sort_by(f64::total_cmp);
    slopes
}

#[cfg(test)]
mod tests;
