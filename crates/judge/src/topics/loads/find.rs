//! Finds the loads of a ramp at which an arm is better. Curves that cross have no single winner.
//!
//! ```text
//! d_li = ln arm - ln baseline      at load l in block i; a plain difference if some figure is zero
//! p_l                              step-down maxT over all loads of all curves of a workload and arm (`stats::max_t`)
//! [low, high]                      of each load by itself: the shifts that sign flips of its blocks do not reject
//! ```
//! The plan's error rate bounds the share of runs in which any load without a difference is significant, whether or not other loads
//! differ. Sign flips are drawn by block, not by step, because neighbouring steps of one ramp depend on each other.
//!
//! The primary metric's verdict decides the number of blocks, and that metric is mostly a peak of these curves. So the error rates of
//! the run's verdict and of this test add up.

use record::curve::Curve;
use record::rundir::Run;
use record::verdict::robustness::{AtLoad, ByLoad};
use record::verdict::{Pair, Verdict};

use crate::topics::metrics::measured::Measured;
use stats::average::mean;
use stats::contrast::{Contrasts, Kind};
use stats::interim::fewest_blocks;
use stats::max_t;
use stats::randomization::SignFlips;

/// Ratios whose logarithms differ by less count as equal.
const TOLERANCE: f64 = 1e-3;

/// Comparisons by load, ordered by workload, arm and curve.
pub(crate) fn of(run: &Run, measured: &Measured<'_>) -> Vec<ByLoad> {
    let mut all = Vec::new();
    for workload in &run.plan.workloads {
        let arms = run.plan.arms.iter();
        for arm in arms.filter(|arm| arm.name != run.plan.baseline) {
            let blocks = measured.curves(&workload.id, &run.plan.baseline, &arm.name);
            all.extend(compare(run, &workload.id, &arm.name, &blocks));
        }
    }
    all
}

/// Curves of one block: the baseline's and the arm's.
pub(crate) type Block<'r> = [&'r [Curve]; 2];

/// One load of one curve in all blocks.
struct Row {
    /// The curve's index in the results.
    curve: usize,
    at: f64,
    contrasts: Contrasts,
}

fn compare(run: &Run, workload: &str, arm: &str, blocks: &[Block<'_>]) -> Vec<ByLoad> {
    let Some([first, _]) = blocks.first() else {
        return Vec::new();
    };
    let design = &run.plan.design;
    let mut curves: Vec<ByLoad> = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    for curve in first.iter().filter(|curve| !curve.is_over_time()) {
        let loads = curve.points.iter().filter_map(|point| {
            let pairs = pairs(blocks, &curve.name, point.at)?;
            let contrasts = Contrasts::of(&pairs, curve.direction, design.margin)?;
            let is_usable = contrasts.values.iter().all(|value| value.is_finite());
            is_usable.then_some(Row {
                curve: curves.len(),
                at: point.at,
                contrasts,
            })
        });
        let loads: Vec<Row> = loads.collect();
        // A single step is not a ramp.
        if loads.len() < 2 {
            continue;
        }
        rows.extend(loads);
        curves.push(ByLoad {
            workload: workload.into(),
            arm: arm.into(),
            curve: curve.name.clone(),
            unit: curve.unit.clone(),
            also: Vec::new(),
            direction: curve.direction,
            axis: curve.axis.clone(),
            blocks: blocks.len() as u32,
            needed: fewest_blocks(design.error_rate) as u32,
            confidence: Some(1.0 - design.error_rate),
            crosses: false,
            loads: Vec::new(),
        });
    }
    let key = format!("loads\n{}\n{workload}\n{arm}", design.seed);
    let flips = SignFlips::draw(&key, blocks.len(), design.test_level());
    let values: Vec<&[f64]> = rows.iter().map(|row| &*row.contrasts.values).collect();
    let p_values = max_t::p_values(&values, &flips);
    for (row, p_value) in rows.iter().zip(p_values) {
        let is_significant = p_value <= design.test_level();
        let load = at_load(row, is_significant, &flips, design.test_level());
        curves[row.curve].loads.push(load);
    }
    for curve in &mut curves {
        let any = |verdict| curve.beyond(verdict).next().is_some();
        curve.crosses = any(Verdict::Better) && any(Verdict::Worse);
    }
    without_repetitions(curves)
}

/// Joins curves with the same ratios, such as requests and bytes of the same page, to the first of them.
fn without_repetitions(curves: Vec<ByLoad>) -> Vec<ByLoad> {
    let mut distinct: Vec<ByLoad> = Vec::new();
    for curve in curves {
        match distinct.iter_mut().find(|first| is_alike(first, &curve)) {
            Some(first) => first.also.push(curve.curve),
            None => distinct.push(curve),
        }
    }
    distinct
}

fn is_alike(left: &ByLoad, right: &ByLoad) -> bool {
    let mut loads = left.loads.iter().zip(&right.loads);
    left.direction == right.direction
        && left.axis == right.axis
        && left.loads.len() == right.loads.len()
        && loads.all(|(left, right)| {
            let ratios = left.ratio.zip(right.ratio);
            left.at.total_cmp(&right.at).is_eq()
                && left.verdict == right.verdict
                && ratios.is_some_and(|(left, right)| (left.ln() - right.ln()).abs() < TOLERANCE)
        })
}

/// A curve's figures at one load; `None` if some block lacks it.
fn pairs(blocks: &[Block<'_>], name: &str, at: f64) -> Option<Vec<Pair>> {
    let value = |curves: &[Curve]| {
        let curve = curves.iter().find(|curve| curve.name == name)?;
        let mut points = curve.points.iter();
        let point = points.find(|point| point.at.total_cmp(&at).is_eq())?;
        Some(point.value).filter(|value| value.is_finite())
    };
    let pair = |(number, [baseline, arm]): (usize, &Block<'_>)| {
        Some(Pair {
            block: number as u32 + 1,
            baseline: value(baseline)?,
            arm: value(arm)?,
            arm_first: false,
        })
    };
    blocks.iter().enumerate().map(pair).collect()
}

fn at_load(row: &Row, is_significant: bool, flips: &SignFlips, error_rate: f64) -> AtLoad {
    let contrasts = &row.contrasts;
    let centre = mean(&contrasts.values, |value| *value);
    let verdict = match (is_significant, centre > 0.0) {
        (false, _) => Verdict::Undecided,
        (true, true) => Verdict::Better,
        (true, false) => Verdict::Worse,
    };
    let is_ratio = contrasts.kind == Kind::Ratio;
    let interval = max_t::interval(&contrasts.values, flips, error_rate);
    let interval = interval
        .filter(|_| is_ratio)
        .map(|(low, high)| contrasts.shown_interval(low, high));
    AtLoad {
        at: row.at,
        verdict,
        ratio: is_ratio.then(|| contrasts.shown(centre)),
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
        is_beyond_margin: centre.abs() > contrasts.margin,
    }
}

#[cfg(test)]
mod tests {
    use record::curve::Point;
    use record::metric::Direction;
    use record::verdict::Conclusion;

    use super::*;
    use record::fixtures::builder::{RunBuilder, measurement, measurements};
    use stats::design::keyed;

    /// The ratio of figures of an arm that is better by a factor.
    fn ratio(direction: Direction, factor: f64) -> f64 {
        match direction {
            Direction::Higher => factor,
            Direction::Lower => 1.0 / factor,
        }
    }

    /// Loads of the ramps in clients.
    const LOADS: [f64; 5] = [1.0, 16.0, 48.0, 96.0, 144.0];

    /// A run of ramps: the arm's factor at each load, and the noise of a whole ramp and of a step.
    fn ramps(
        seed: u32,
        blocks: u32,
        factors: [f64; 5],
        [ramp_noise, step_noise]: [f64; 2],
        direction: Direction,
    ) -> Run {
        let mut prng = keyed(&format!("ramps {seed}"));
        let mut normal = || -> f64 {
            let uniform = |bits: u64| (bits >> 11) as f64 / (1u64 << 53) as f64;
            let sum: f64 = (0..12).map(|_| uniform(prng.bits())).sum();
            sum - 6.0
        };
        let flat: Vec<[f64; 2]> = (0..blocks)
            .map(|block| {
                let wobble = 1.0 + f64::from(block * 7 % 5) * 2e-4;
                [100.0, 100.0 * wobble]
            })
            .collect();
        RunBuilder::new()
            .blocks(&flat)
            .with(|run| {
                run.plan.design.error_rate = 0.05;
                for record in &mut run.attempts {
                    let trial = record.outcome.measured_mut().unwrap();
                    let ramp = ramp_noise * normal();
                    let is_arm = record.trial.arm == "7.2";
                    let point = |(at, factor): (f64, f64)| {
                        let factor = if is_arm { factor } else { 1.0 };
                        let noise = (ramp + step_noise * normal()).exp();
                        Point {
                            at,
                            value: 1000.0 * ratio(direction, factor) * noise,
                        }
                    };
                    trial.curves = vec![Curve {
                        name: "throughput".into(),
                        unit: "requests/s".into(),
                        direction,
                        axis: "clients".into(),
                        points: LOADS.into_iter().zip(factors).map(point).collect(),
                    }];
                }
            })
            .run()
    }

    fn by_load(run: &Run) -> ByLoad {
        of(run, &Measured::of(run)).remove(0)
    }

    fn verdicts(by_load: &ByLoad) -> Vec<Verdict> {
        by_load.loads.iter().map(|load| load.verdict).collect()
    }

    const CROSSING: [f64; 5] = [1.0, 1.06, 1.06, 0.95, 0.7];

    #[test]
    fn crossing_curves_have_no_single_winner() {
        use Verdict::{Better, Worse};
        for direction in [Direction::Higher, Direction::Lower] {
            let run = ramps(1, 12, CROSSING, [0.01, 0.004], direction);
            let by_load = by_load(&run);
            assert!(by_load.crosses, "{by_load:?}");
            assert_eq!(verdicts(&by_load)[1..], [Better, Better, Worse, Worse]);
            for (load, factor) in by_load.loads.iter().zip(CROSSING) {
                let truth = ratio(direction, factor);
                let inside = load.low.unwrap() - 0.01 < truth && truth < load.high.unwrap() + 0.01;
                assert!(inside, "{load:?}");
            }
            let headline = crate::judge(&run).headlines.remove(0);
            let Conclusion::TradeOff { curves, .. } = headline.conclusion else {
                panic!("{headline:?}")
            };
            assert_eq!(curves, ["throughput"]);
        }
    }

    #[test]
    fn an_arm_that_is_better_at_all_loads_has_a_plain_headline() {
        let run = ramps(1, 12, [1.1; 5], [0.01, 0.004], Direction::Higher);
        let by_load = by_load(&run);
        assert!(!by_load.crosses && by_load.beyond(Verdict::Better).count() == 5);
        let conclusion = crate::judge(&run).headlines.remove(0).conclusion;
        assert_eq!(
            conclusion,
            Conclusion::Equivalent,
            "that of the flat primary metric"
        );
    }

    #[test]
    fn a_difference_within_the_margin_crosses_nothing() {
        let run = ramps(
            1,
            12,
            [1.004, 1.004, 1.0, 0.996, 0.996],
            [0.0, 2e-4],
            Direction::Higher,
        );
        let by_load = by_load(&run);
        let verdicts = verdicts(&by_load);
        assert!(verdicts.contains(&Verdict::Better) && verdicts.contains(&Verdict::Worse));
        assert!(!by_load.crosses);
    }

    #[test]
    fn curves_with_the_same_ratios_are_joined() {
        let mut run = ramps(1, 8, CROSSING, [0.01, 0.004], Direction::Higher);
        for record in &mut run.attempts {
            let trial = record.outcome.measured_mut().unwrap();
            let mut bytes = trial.curves[0].clone();
            bytes.name = "transfer".into();
            bytes
                .points
                .iter_mut()
                .for_each(|point| point.value *= 0.0123);
            let mut other = trial.curves[0].clone();
            other.name = "other".into();
            other.points[4].value *= 1.0 + 0.01 * f64::from(record.trial.slot);
            trial.curves.extend([bytes, other]);
        }
        let curves = of(&run, &Measured::of(&run));
        let names = curves.iter().map(|each| (&*each.curve, &*each.also));
        assert_eq!(
            names.collect::<Vec<(&str, &[String])>>(),
            [
                ("throughput", &["transfer".to_string()][..]),
                ("other", &[])
            ]
        );
    }

    #[test]
    fn a_curve_of_maxima_makes_no_trade_off() {
        let conclusion = |name: &str| {
            let mut run = ramps(1, 12, CROSSING, [0.01, 0.004], Direction::Higher);
            for trial in measurements(&mut run) {
                trial.curves[0].name = name.into();
            }
            crate::judge(&run).headlines.remove(0).conclusion
        };
        assert!(matches!(
            conclusion("wakeup-p99"),
            Conclusion::TradeOff { .. }
        ));
        assert_eq!(conclusion("wakeup-max"), Conclusion::Equivalent);
    }

    #[test]
    fn with_few_blocks_no_load_is_significant() {
        let by_load = by_load(&ramps(1, 4, CROSSING, [0.01, 0.004], Direction::Higher));
        assert_eq!(verdicts(&by_load), [Verdict::Undecided; 5]);
        assert_eq!((by_load.blocks, by_load.needed), (4, 6));
        assert_eq!(by_load.loads[0].low, None);
    }

    #[test]
    fn incomplete_loads_and_curves_of_a_single_step_are_left_out() {
        let mut run = ramps(1, 8, CROSSING, [0.01, 0.004], Direction::Higher);
        let cut = |run: &mut Run, keep: usize| {
            measurement(run, 3).curves[0].points.truncate(keep);
        };
        cut(&mut run, 3);
        assert_eq!(by_load(&run).loads.len(), 3);
        cut(&mut run, 1);
        assert!(of(&run, &Measured::of(&run)).is_empty());
    }

    fn noisy(seed: u32, factors: [f64; 5]) -> ByLoad {
        by_load(&ramps(seed, 8, factors, [0.02, 0.02], Direction::Higher))
    }

    /// The error rate allows a significant load in 5 of 100 runs with equal arms. Crossing is rarer.
    #[test]
    fn equal_arms_hardly_ever_cross() {
        let (mut any, mut crossing) = (0, 0);
        for seed in 0..200 {
            let by_load = noisy(seed, [1.0; 5]);
            let is_undecided = |verdict: &Verdict| *verdict == Verdict::Undecided;
            any += u32::from(!verdicts(&by_load).iter().all(is_undecided));
            crossing += u32::from(by_load.crosses);
        }
        println!("significant in {any} of 200, crossing in {crossing}");
        assert!(any <= 18 && crossing <= 2, "{any} {crossing}");
    }

    /// One arm is better at all loads, by about as much as the noise.
    #[test]
    fn a_single_winner_hardly_ever_crosses_and_crossing_curves_are_found() {
        let crosses = |factors: [f64; 5]| {
            let seeds = (0..200).filter(|seed| noisy(*seed, factors).crosses);
            seeds.count()
        };
        let (single, crossing) = (crosses([1.03; 5]), crosses(CROSSING));
        println!("found to cross: {single} of 200 with one winner, {crossing} of 200 that cross");
        assert!(single <= 2 && crossing >= 100, "{single} {crossing}");
    }
}
