//! The margins for which a headline would be the same: applies the rule at other margins.
//!
//! ```text
//! tried    margins from 0.01 % to 100 % on a logarithmic grid; a finer grid around the blocks' ratios;
//!          and both sides of each margin that equals a secondary metric's or a load's change
//! ranges   neighbouring margins with the same headline; bisection finds the border between two that differ
//! ends     rounded inwards, each tried again as it is printed
//! ```
//! The verdict as a function of the margin is piecewise constant but not monotone. It may be "equivalent" at one margin, "worse" at
//! a larger one and "equivalent" again, because the score drops outliers and the test ends at its first verdict.
//! So every margin is judged, none is interpolated. A range narrower than the grid's step may be missed; no range is reported too wide.

use plan::Design;
use record::metric::Role;
use record::verdict::robustness::{ByLoad, Margins, Range};
use record::verdict::{Comparison, Pair, Verdict};

use crate::topics::headline::find::{contrary, is_judged, may_speak};
use stats::contrast::Contrasts;
use stats::sequential_test::{TestSetup, sequential_test};

/// Lowest and highest margin to try: smaller ones are below any noise, larger ones would call a doubling equivalent.
const MARGINS: [f64; 2] = [1e-4, 1.0];

/// Most and fewest margins on the logarithmic grid; the grid around the blocks has twice as many.
const MOST_TRIED: usize = 400;
const LEAST_TRIED: usize = 24;

/// Additions that all margins together may cost, about one second.
const WORK: usize = 600_000_000;

/// Bisection steps to find the border between two margins with different headlines.
const HALVINGS: u32 = 24;

/// Largest rounding of an end, as a share of the end; as a share of the range's width it is five times that.
const NEAR: f64 = 0.01;

/// Significant digits of an end, unless the range needs more.
const DIGITS: i32 = 2;

/// Judges one arm's headline at any margin.
pub(crate) struct ByMargin<'s> {
    design: &'s Design,
    setup: TestSetup,
    primary: &'s Comparison,
    /// Secondary metrics with their verdicts at margin zero, where no metric is equivalent.
    secondary: Vec<(&'s Comparison, Verdict)>,
    by_load: &'s [&'s ByLoad],
}

/// What determines the kind of headline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Outcome {
    verdict: Verdict,
    is_contradicted: bool,
}

impl<'s> ByMargin<'s> {
    /// `metrics` are all of one workload and arm, with `primary` among them.
    pub(crate) fn new(
        design: &'s Design,
        primary: &'s Comparison,
        metrics: &'s [&'s Comparison],
        by_load: &'s [&'s ByLoad],
    ) -> Self {
        let key = format!("{}\n{}", primary.workload, primary.arm);
        let setup = TestSetup::new(&primary.pairs, design, &key, metrics.len() > 1);
        let secondary: Vec<&Comparison> = metrics
            .iter()
            .copied()
            .filter(|metric| metric.spec.role == Role::Secondary && is_usable(metric, primary))
            .collect();
        let verdicts = verdicts(&secondary, 0.0, &setup);
        Self {
            design,
            setup,
            primary,
            secondary: secondary.into_iter().zip(verdicts).collect(),
            by_load,
        }
    }

    /// The margins at which the headline is the same as at the plan's margin; `None` if that one is undecided.
    pub(crate) fn ranges(&self) -> Option<Margins> {
        let plans = self.at(self.design.margin)?;
        if plans.verdict == Verdict::Undecided {
            return None;
        }
        let mut again = ranges(&self.tried(), |margin| self.at(margin) == Some(plans));
        let index = again
            .iter()
            .position(|range| range.holds(self.design.margin))?;
        let Range { from, to } = again.remove(index);
        Some(Margins { from, to, again })
    }

    fn at(&self, margin: f64) -> Option<Outcome> {
        Contrasts::of(&self.primary.pairs, self.primary.spec.direction, margin)?;
        let verdict = verdicts(&[self.primary], margin, &self.setup).remove(0);
        let is_contradicted = self.is_contradicted_by_a_metric(verdict, margin)
            || self.is_contradicted_by_a_load(verdict, margin);
        Some(Outcome {
            verdict,
            is_contradicted,
        })
    }

    /// Judges the secondary metrics at this margin too: one that is equivalent at an earlier analysis is not worse.
    fn is_contradicted_by_a_metric(&self, verdict: Verdict, margin: f64) -> bool {
        let wanted = contrary(verdict);
        let is_beyond = |metric: &Comparison| {
            let change = metric.ratio.map_or(f64::INFINITY, |ratio| ratio.ln().abs());
            may_speak(&metric.spec) && change > margin.ln_1p()
        };
        // The verdict at margin zero is cheap to compare and excludes most metrics.
        let mut secondary = self.secondary.iter();
        if !secondary.any(|(metric, at_zero)| *at_zero == wanted && is_beyond(metric)) {
            return false;
        }
        let metrics: Vec<&Comparison> = self.secondary.iter().map(|(metric, _)| *metric).collect();
        let verdicts = verdicts(&metrics, margin, &self.setup);
        let mut judged = metrics.iter().zip(verdicts);
        judged.any(|(metric, verdict)| verdict == wanted && is_beyond(metric))
    }

    fn is_contradicted_by_a_load(&self, verdict: Verdict, margin: f64) -> bool {
        let wanted = contrary(verdict);
        let curves = self.by_load.iter();
        let mut loads = curves
            .filter(|curve| is_judged(&curve.curve))
            .flat_map(|curve| &curve.loads);
        loads.any(|load| {
            let is_beyond = load.ratio.map_or(load.is_beyond_margin, |ratio| {
                ratio.ln().abs() > margin.ln_1p()
            });
            load.verdict == wanted && is_beyond
        })
    }

    /// Margins to try, ascending, with the plan's margin among them.
    fn tried(&self) -> Vec<f64> {
        let [least, most] = MARGINS;
        let blocks: usize = self
            .setup
            .analyses
            .iter()
            .map(|analysis| analysis.blocks)
            .sum();
        let mut secondary = self.secondary.iter();
        let metrics = if secondary.any(|(_, verdict)| *verdict != Verdict::Undecided) {
            1 + self.secondary.len()
        } else {
            1
        };
        let cost = self.setup.rows() * blocks.max(1) * 3 * metrics;
        let count = (WORK / cost.max(1) / 3).clamp(LEAST_TRIED, MOST_TRIED);
        let step = |index: usize| index as f64 / count as f64;
        let mut tried: Vec<f64> = (0..=count)
            .map(|index| least * (most / least).powf(step(index)))
            .collect();
        tried.push(self.design.margin);
        if let Some((low, high)) = self.around_blocks() {
            tried.extend((0..=2 * count).map(|index| low + (high - low) * step(index) / 2.0));
        }
        let secondary = self.secondary.iter();
        let secondary = secondary.filter_map(|(metric, _)| metric.ratio);
        let loads = self.by_load.iter().flat_map(|curve| &curve.loads);
        let ratios = secondary.chain(loads.filter_map(|load| load.ratio));
        for border in ratios.map(|ratio| ratio.ln().abs().exp_m1()) {
            tried.extend([border * (1.0 - 1e-7), border * (1.0 + 1e-7)]);
        }
        tried.retain(|margin| (least..=most).contains(margin));
        tried.sort_by(f64::total_cmp);
        tried.dedup();
        tried
    }

    /// The lowest and highest margin near the blocks' changes, where the test's verdict varies with the margin.
    fn around_blocks(&self) -> Option<(f64, f64)> {
        let contrasts = Contrasts::of(&self.primary.pairs, self.primary.spec.direction, 0.0)?;
        let sizes = contrasts.values.iter().map(|value| value.abs());
        let low = sizes.clone().fold(f64::INFINITY, f64::min);
        let high = sizes.fold(0.0, f64::max);
        let beside = (high - low).max(0.02 * high);
        Some(((low - beside).max(0.0).exp_m1(), (high + beside).exp_m1()))
    }
}

/// Whether a metric has a figure in all blocks of the primary one, and is not zero throughout.
fn is_usable(metric: &Comparison, primary: &Comparison) -> bool {
    let is_number = |pair: &Pair| pair.baseline.is_finite() && pair.arm.is_finite();
    metric.pairs.len() == primary.pairs.len()
        && metric.pairs.iter().all(is_number)
        && Contrasts::of(&metric.pairs, metric.spec.direction, 0.0).is_some()
}

/// Verdicts of metrics that share one error rate, at a margin. At margin zero no metric is equivalent.
fn verdicts(metrics: &[&Comparison], margin: f64, setup: &TestSetup) -> Vec<Verdict> {
    let contrasts: Vec<Contrasts> = metrics
        .iter()
        .map(|metric| {
            Contrasts::of(&metric.pairs, metric.spec.direction, margin)
                .expect("is_usable excludes metrics that are zero throughout")
        })
        .collect();
    let contrasts: Vec<&Contrasts> = contrasts.iter().collect();
    let decisions = sequential_test(&contrasts, setup).into_iter();
    decisions
        .map(|decision| decision.map_or(Verdict::Undecided, |decision| decision.verdict))
        .collect()
}

/// The ranges of ascending margins for which `holds` is true; ends rounded inwards.
fn ranges(tried: &[f64], holds: impl Fn(f64) -> bool) -> Vec<Range> {
    let results: Vec<bool> = tried.iter().map(|margin| holds(*margin)).collect();
    let border = |inside: usize, outside: usize| {
        let (mut inside, mut outside) = (tried[inside], tried[outside]);
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(inside, outside);
            if holds(middle) {
                inside = middle;
            } else {
                outside = middle;
            }
        }
        inside
    };
    let mut ranges = Vec::new();
    let mut first = 0;
    while first < results.len() {
        if !results[first] {
            first += 1;
            continue;
        }
        let last = first + results[first..].iter().take_while(|holds| **holds).count() - 1;
        let from = (first > 0).then(|| border(first, first - 1));
        let to = (last + 1 < results.len()).then(|| border(last, last + 1));
        ranges.push(rounded_inwards(from, to, &holds));
        first = last + 1;
    }
    ranges
}

/// Rounds the ends of a range inwards to few digits, to more if the range is narrow.
///
/// An end stays exact if the headline does not hold at any rounded value.
fn rounded_inwards(from: Option<f64>, to: Option<f64>, holds: impl Fn(f64) -> bool) -> Range {
    let exact = Range { from, to };
    let width = to.unwrap_or(f64::INFINITY) - from.unwrap_or(0.0);
    let rounded = |end: Option<f64>, digits: i32, up: bool| {
        let Some(end) = end else {
            return Some(None);
        };
        let unit = 10f64.powi(digits - 1 - end.log10().floor() as i32);
        let places = if up {
            (end * unit - 1e-9).ceil()
        } else {
            (end * unit + 1e-9).floor()
        };
        let value = places / unit;
        let is_near = (value - end).abs() <= (NEAR * end).min(5.0 * NEAR * width);
        (exact.holds(value) && is_near && holds(value)).then_some(Some(value))
    };
    let end = |end, up| {
        let mut digits = DIGITS..=6;
        digits
            .find_map(|digits| rounded(end, digits, up))
            .unwrap_or(end)
    };
    Range {
        from: end(from, true),
        to: end(to, false),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use record::rundir::Run;

    use super::*;
    use record::fixtures::builder::RunBuilder;
    use stats::noise_models::{REFERENCE, pairs};

    /// Requests per second of a web server in six blocks: one kernel, without and with `kernel.sched_schedstats=1`.
    const SCHEDSTATS: [[f64; 2]; 6] = [
        [4413.0, 4392.0],
        [4410.0, 4392.0],
        [4413.0, 4392.0],
        [4414.0, 4392.0],
        [4411.0, 4392.0],
        [4414.0, 4390.0],
    ];

    fn schedstats(margin: f64) -> Run {
        let arm_first = [true, false, true, false, false, true];
        let mut run = run(&SCHEDSTATS, margin);
        for record in &mut run.attempts {
            let index = record.trial.block as usize - 1;
            let is_first = (record.trial.arm == "7.2") == arm_first[index];
            record.trial.slot = if is_first { 1 } else { 2 };
        }
        run
    }

    fn run(figures: &[[f64; 2]], margin: f64) -> Run {
        let builder = RunBuilder::new().blocks(figures).with(|run| {
            let blocks = figures.len() as u32;
            run.plan.design.margin = margin;
            run.plan.design.error_rate = 0.1;
            (run.plan.design.min_blocks, run.plan.design.max_blocks) = (4, blocks);
        });
        builder.run()
    }

    fn margins_of(run: &Run) -> Option<Margins> {
        crate::judge(run).robustness.remove(0).margins
    }

    /// The headline with another margin in the plan.
    fn headline(run: &Run, margin: f64) -> String {
        let mut run = run.clone();
        run.plan.design.margin = margin;
        let conclusion = crate::interim(&run).headlines.remove(0).conclusion;
        let primary = match &conclusion {
            record::verdict::Conclusion::TradeOff { primary, .. } => primary.word(),
            _ => "",
        };
        format!("{} {primary}", conclusion.word())
    }

    /// The plan's range first, then the others.
    fn all_ranges(margins: Margins) -> Vec<Range> {
        let Margins {
            from,
            to,
            mut again,
        } = margins;
        again.insert(0, Range { from, to });
        again
    }

    /// Checks the ranges' ends as they are printed, and `steps` margins between `low` and `high`:
    /// a margin lies in a range if and only if its headline is the plan's.
    #[track_caller]
    fn check_by_scan(run: &Run, [low, high]: [f64; 2], steps: u32, want: &Expect) {
        let margins = margins_of(run).unwrap();
        want.assert_eq(&format!(
            "{:?}..{:?} {:?}",
            margins.from, margins.to, margins.again
        ));
        let plans = headline(run, run.plan.design.margin);
        let ranges = all_ranges(margins);
        let ends = ranges.iter().flat_map(|range| [range.from, range.to]);
        let ends: Vec<f64> = ends.flatten().collect();
        for end in &ends {
            assert_eq!(headline(run, *end), plans, "at the end {end}");
        }
        for step in 0..=steps {
            let margin = low * (high / low).powf(f64::from(step) / f64::from(steps));
            let is_in_range = ranges.iter().any(|range| range.holds(margin));
            // Ends are rounded inwards.
            let is_near = ends
                .iter()
                .any(|end| (margin / end - 1.0).abs() < 1.1 * NEAR);
            let is_same = headline(run, margin) == plans;
            assert!(is_same || !is_in_range, "{margin} does not hold");
            assert!(is_in_range || !is_same || is_near, "{margin} holds");
        }
    }

    #[test]
    fn all_ranges_are_found_that_a_scan_finds() {
        check_schedstats_by_scan(60);
    }

    #[test]
    #[ignore = "a scan of ten times the steps: make test-all"]
    fn all_ranges_are_found_that_a_fine_scan_finds() {
        check_schedstats_by_scan(600);
    }

    fn check_schedstats_by_scan(steps: u32) {
        check_by_scan(
            &schedstats(0.005),
            [0.003, 0.01],
            steps,
            &expect!["Some(0.00492)..None [Range { from: Some(0.004587), to: Some(0.004628) }]"],
        );
        check_by_scan(
            &schedstats(0.0047),
            [0.003, 0.01],
            steps,
            &expect!["Some(0.00463)..Some(0.0049) [Range { from: None, to: Some(0.00458) }]"],
        );
        check_by_scan(
            &schedstats(0.00461),
            [0.003, 0.01],
            steps,
            &expect!["Some(0.004587)..Some(0.004628) [Range { from: Some(0.00492), to: None }]"],
        );
    }

    #[test]
    fn a_gain_that_repeats_ends_just_below_itself() {
        let run = run(&[[284.0, 343.0]; 6], 0.01);
        check_by_scan(&run, [0.18, 0.24], 100, &expect!["None..Some(0.207) []"]);
    }

    #[test]
    fn noisy_blocks_have_the_ranges_of_a_scan() {
        noisy_blocks(0, 1);
    }

    #[test]
    #[ignore = "more blocks, another seed each time: make test-all"]
    fn many_noisy_blocks_have_the_ranges_of_a_scan() {
        noisy_blocks(base::skip::seed(0), 8);
    }

    fn noisy_blocks(first: u64, wanted: u32) {
        let mut seen = 0;
        for seed in first..first + 1000 {
            let noise = pairs(REFERENCE, 0.03, 8, seed, 0);
            let figures: Vec<[f64; 2]> =
                noise.iter().map(|pair| [pair.baseline, pair.arm]).collect();
            let run = run(&figures, 0.02);
            let Some(margins) = margins_of(&run) else {
                continue;
            };
            seen += 1;
            let plans = headline(&run, 0.02);
            let ranges = all_ranges(margins);
            for step in 0..=200 {
                let margin = 1e-3 * 300f64.powf(f64::from(step) / 200.0);
                if ranges.iter().any(|range| range.holds(margin)) {
                    let at = headline(&run, margin);
                    assert_eq!(at, plans, "{seed}: {margin} of {ranges:?}");
                }
            }
            if seen == wanted {
                break;
            }
        }
        assert_eq!(seen, wanted);
    }

    #[test]
    fn an_estimate_lies_within_its_interval_at_any_margin() {
        let mut equivalent = 0;
        for step in 0..=75 {
            let margin = 0.004 + 1e-5 * f64::from(step) * 2.0;
            let judgement = crate::interim(&schedstats(margin));
            let comparison = &judgement.comparisons[0];
            let (Some(low), Some(high), Some(ratio)) =
                (comparison.low, comparison.high, comparison.ratio)
            else {
                continue;
            };
            assert!(
                low <= ratio && ratio <= high,
                "{margin}: {low} {ratio} {high}"
            );
            if comparison.verdict == Verdict::Equivalent {
                equivalent += 1;
                assert!(ratio.ln().abs() <= margin.ln_1p(), "{margin}: {ratio}");
            }
        }
        assert!(equivalent > 2, "{equivalent}");
    }

    #[test]
    fn ends_have_the_digits_that_they_need() {
        let rounded = |from, to| {
            let holds = |margin| (from..=to).contains(&margin);
            let range = rounded_inwards(Some(from), Some(to), holds);
            (range.from.unwrap(), range.to.unwrap())
        };
        assert_eq!(rounded(0.004_627_1, 0.004_911_3), (0.004_63, 0.0049));
        assert_eq!(rounded(0.001_021, 0.207_49), (0.001_03, 0.207));
        assert_eq!(rounded(0.132_64, 0.134_17), (0.1327, 0.1341));
    }

    /// The maximum of a single trial contradicts no headline.
    #[test]
    fn a_maximum_makes_no_trade_off() {
        let with = |name: &'static str| {
            let figures: Vec<[f64; 2]> = (0..12)
                .map(|block| [100.0, 107.0 + 0.1 * f64::from(block * 7 % 5)])
                .collect();
            let builder = RunBuilder::new().blocks(&figures).with(|run| {
                for record in &mut run.attempts {
                    let trial = record.outcome.measured_mut().unwrap();
                    let figure = &mut trial.figures[0];
                    figure.spec.name = name.into();
                    figure.value = if record.trial.arm == "7.2" { 40.0 } else { 4.0 };
                }
            });
            headline(&builder.run(), 0.01)
        };
        assert_eq!(with("wakeup-p99"), "trade-off better");
        assert_eq!(with("wakeup-max"), "better ");
    }
}
