//! At which loads of a ramp an arm is better: curves that cross have no single winner.
//!
//! ```text
//! d_li = ln arm - ln baseline      at load l in block i; a difference where some figure is zero
//! p_l                              step-down maxT over all loads of all curves of a workload and arm (`explain::max_t`)
//! [low, high]                      of each load by itself: the shifts that the sign flips of its blocks do not refute
//! ```
//! Where the arms are the same, any load is told apart in at most the plan's error rate of runs; where they differ, a load at which
//! they do not is in at most that many. Blocks, not steps, are drawn: what one ramp does to its neighbour steps is in each block.
//!
//! The number of blocks was chosen by the primary metric's verdict, which is most often a peak of these very curves: the error rate
//! of the run's verdict and this one add up.

use record::curve::Curve;
use record::rundir::Run;
use record::verdict::robustness::{AtLoad, ByLoad};
use record::verdict::{Pair, Verdict};

use crate::topics::metrics::pair::Measured;
use stats::average::mean;
use stats::contrast::{Contrasts, Kind};
use stats::looks::fewest_blocks;
use stats::max_t;
use stats::randomization::SignFlips;

/// Ratios whose logarithms differ by less are the same.
const ALIKE: f64 = 1e-3;

/// By workload, arm and curve.
pub(crate) fn of(run: &Run, measured: &Measured<'_>) -> Vec<ByLoad> {
    let mut found = Vec::new();
    for workload in &run.plan.workloads {
        let arms = run.plan.arms.iter();
        for arm in arms.filter(|arm| arm.name != run.plan.baseline) {
            let blocks = measured.curves(&workload.id, (&run.plan.baseline, &arm.name));
            found.extend(compare(run, (&workload.id, &arm.name), &blocks));
        }
    }
    found
}

/// Curves of one block: the baseline's and the arm's.
pub(crate) type Block<'r> = [&'r [Curve]; 2];

/// One load of one curve in all blocks.
struct Row {
    /// The curve's place among the results.
    curve: usize,
    at: f64,
    contrasts: Contrasts,
}

fn compare(run: &Run, (workload, arm): (&str, &str), blocks: &[Block<'_>]) -> Vec<ByLoad> {
    let Some([first, _]) = blocks.first() else {
        return Vec::new();
    };
    let design = &run.plan.design;
    let mut found: Vec<ByLoad> = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    for curve in first.iter().filter(|curve| !curve.is_over_time()) {
        let loads = curve.points.iter().filter_map(|point| {
            let pairs = pairs(blocks, &curve.name, point.at)?;
            let contrasts = Contrasts::of(&pairs, curve.direction, design.margin)?;
            let is_usable = contrasts.values.iter().all(|value| value.is_finite());
            is_usable.then_some((point.at, contrasts))
        });
        let place = found.len();
        let before = rows.len();
        rows.extend(loads.map(|(at, contrasts)| Row {
            curve: place,
            at,
            contrasts,
        }));
        // One step is no ramp.
        if rows.len() < before + 2 {
            rows.truncate(before);
            continue;
        }
        found.push(ByLoad {
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
        let is_told = p_value <= design.test_level();
        found[row.curve]
            .loads
            .push(at_load(row, is_told, &flips, design.test_level()));
    }
    for one in &mut found {
        let any = |verdict| one.beyond(verdict).next().is_some();
        one.crosses = any(Verdict::Better) && any(Verdict::Worse);
    }
    told_once(found)
}

/// Curves that differ alike at each load, as requests and the bytes of the same page do, are told once: by the first of them.
fn told_once(found: Vec<ByLoad>) -> Vec<ByLoad> {
    let mut told: Vec<ByLoad> = Vec::new();
    for one in found {
        match told.iter_mut().find(|other| is_alike(other, &one)) {
            Some(first) => first.also.push(one.curve),
            None => told.push(one),
        }
    }
    told
}

fn is_alike(one: &ByLoad, other: &ByLoad) -> bool {
    let mut each = one.loads.iter().zip(&other.loads);
    one.direction == other.direction
        && one.axis == other.axis
        && one.loads.len() == other.loads.len()
        && each.all(|(one, other)| {
            let logs = one.ratio.zip(other.ratio);
            let logs = logs.map(|(one, other)| (one.ln() - other.ln()).abs());
            one.at.total_cmp(&other.at).is_eq()
                && one.verdict == other.verdict
                && logs.is_some_and(|difference| difference < ALIKE)
        })
}

/// A curve's figures at one load; `None` where some block lacks it.
fn pairs(blocks: &[Block<'_>], curve: &str, at: f64) -> Option<Vec<Pair>> {
    let value = |curves: &[Curve]| {
        let its = curves.iter().find(|one| one.name == curve)?;
        let mut points = its.points.iter();
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

fn at_load(row: &Row, is_told: bool, flips: &SignFlips, error_rate: f64) -> AtLoad {
    let contrasts = &row.contrasts;
    let centre = mean(&contrasts.values, |value| *value);
    let verdict = match (is_told, centre > 0.0) {
        (false, _) => Verdict::Undecided,
        (true, true) => Verdict::Better,
        (true, false) => Verdict::Worse,
    };
    let is_ratio = contrasts.kind == Kind::Ratio;
    let interval = max_t::interval(&contrasts.values, flips, error_rate);
    let interval = interval
        .filter(|_| is_ratio)
        .map(|its| contrasts.shown_interval(its));
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

    /// A factor by which an arm is better, as one of figures in this direction.
    fn better(direction: Direction, factor: f64) -> f64 {
        match direction {
            Direction::Higher => factor,
            Direction::Lower => 1.0 / factor,
        }
    }

    /// Loads of the ramps, as clients.
    const LOADS: [f64; 5] = [1.0, 16.0, 48.0, 96.0, 144.0];

    /// A run of ramps: what the arm is at each load, how much a whole ramp and how much a step of it scatters.
    fn ramps(
        seed: u32,
        blocks: u32,
        truth: [f64; 5],
        [ramp, step]: [f64; 2],
        direction: Direction,
    ) -> Run {
        let mut prng = keyed(&format!("ramps {seed}"));
        let mut normal = || -> f64 {
            let even = |bits: u64| (bits >> 11) as f64 / (1u64 << 53) as f64;
            let sum: f64 = (0..12).map(|_| even(prng.bits())).sum();
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
                    let whole = ramp * normal();
                    let is_arm = record.trial.arm == "7.2";
                    let point = |(at, truth): (f64, f64)| {
                        let factor = if is_arm { truth } else { 1.0 };
                        let noise = (whole + step * normal()).exp();
                        Point {
                            at,
                            value: 1000.0 * better(direction, factor) * noise,
                        }
                    };
                    trial.curves = vec![Curve {
                        name: "throughput".into(),
                        unit: "requests/s".into(),
                        direction,
                        axis: "clients".into(),
                        points: LOADS.into_iter().zip(truth).map(point).collect(),
                    }];
                }
            })
            .run()
    }

    fn found(run: &Run) -> ByLoad {
        of(run, &Measured::of(run)).remove(0)
    }

    fn verdicts(one: &ByLoad) -> Vec<Verdict> {
        one.loads.iter().map(|load| load.verdict).collect()
    }

    const CROSSING: [f64; 5] = [1.0, 1.06, 1.06, 0.95, 0.7];

    #[test]
    fn crossing_curves_have_no_single_winner() {
        use Verdict::{Better, Worse};
        for direction in [Direction::Higher, Direction::Lower] {
            let run = ramps(1, 12, CROSSING, [0.01, 0.004], direction);
            let one = found(&run);
            assert!(one.crosses, "{one:?}");
            assert_eq!(verdicts(&one)[1..], [Better, Better, Worse, Worse]);
            for (load, truth) in one.loads.iter().zip(CROSSING) {
                let truth = better(direction, truth);
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
        let one = found(&run);
        assert!(!one.crosses && one.beyond(Verdict::Better).count() == 5);
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
        let one = found(&run);
        assert!(
            verdicts(&one).contains(&Verdict::Better) && verdicts(&one).contains(&Verdict::Worse)
        );
        assert!(!one.crosses);
    }

    #[test]
    fn curves_that_say_the_same_are_told_once() {
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
        let found = of(&run, &Measured::of(&run));
        let told: Vec<(&str, &[String])> =
            found.iter().map(|one| (&*one.curve, &*one.also)).collect();
        assert_eq!(
            told,
            [
                ("throughput", &["transfer".to_string()][..]),
                ("other", &[])
            ]
        );
    }

    /// A maximum of one trial crosses nothing.
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
    fn few_blocks_tell_no_load_apart() {
        let one = found(&ramps(1, 4, CROSSING, [0.01, 0.004], Direction::Higher));
        assert_eq!(verdicts(&one), [Verdict::Undecided; 5]);
        assert_eq!((one.blocks, one.needed), (4, 6));
        assert_eq!(one.loads[0].low, None);
    }

    #[test]
    fn loads_that_some_block_lacks_are_left_out_and_a_curve_of_one_step_is_none() {
        let mut run = ramps(1, 8, CROSSING, [0.01, 0.004], Direction::Higher);
        let cut = |run: &mut Run, keep: usize| {
            measurement(run, 3).curves[0].points.truncate(keep);
        };
        cut(&mut run, 3);
        assert_eq!(found(&run).loads.len(), 3);
        cut(&mut run, 1);
        assert!(of(&run, &Measured::of(&run)).is_empty());
    }

    /// Of equal arms any load may be told apart in 5 of 100 runs; that they cross is rarer.
    #[test]
    fn equal_arms_hardly_ever_cross() {
        let (mut any, mut crossing) = (0, 0);
        for seed in 0..200 {
            let one = found(&ramps(seed, 8, [1.0; 5], [0.02, 0.02], Direction::Higher));
            any += u32::from(
                one.loads
                    .iter()
                    .any(|load| load.verdict != Verdict::Undecided),
            );
            crossing += u32::from(one.crosses);
        }
        println!("told apart in {any} of 200, crossing in {crossing}");
        assert!(any <= 18 && crossing <= 2, "{any} {crossing}");
    }

    /// One winner at all loads, and noise that is larger than what it wins by.
    #[test]
    fn a_single_winner_hardly_ever_crosses_and_crossing_ones_are_found() {
        let crosses = |truth: [f64; 5]| {
            let runs =
                (0..200).map(|seed| found(&ramps(seed, 8, truth, [0.02, 0.02], Direction::Higher)));
            runs.filter(|one| one.crosses).count()
        };
        let (single, planted) = (crosses([1.03; 5]), crosses(CROSSING));
        println!("crossing: {single} of 200 with one winner, {planted} of 200 planted");
        assert!(single <= 2 && planted >= 100, "{single} {planted}");
    }
}
