//! For which margins a headline would be the same: the rule again, at other margins.
//!
//! ```text
//! tried    margins from 0.01 % to 100 % on a logarithmic grid; finer where a margin comes near the blocks; and both sides of each
//!          margin at which a secondary metric or a load comes to lie beyond it
//! ranges   neighbours that say the same; where two do not, the margin between them is found by halving
//! ends     rounded inwards, each tried again as it is printed
//! ```
//! The verdict at a margin is piecewise constant and not monotone: a score that gives up outliers and a test that ends at its first
//! verdict may say "equivalent" at a margin, "worse" at a larger one and "equivalent" again. So nothing is inferred from one
//! change to the next. A range narrower than the grid's step may be missed; none that is found is told wider than it is.

use plan::Design;
use record::metric::Role;
use record::verdict::robustness::{ByLoad, Margins, Range};
use record::verdict::{Comparison, Pair, Verdict};

use crate::topics::headline::find::{contrary, is_judged, may_speak};
use stats::contrast::Contrasts;
use stats::sequential_test::{TestSetup, sequential_test};

/// Margins that are tried: smaller ones are below any noise, larger ones would call a doubling equivalent.
const MARGINS: [f64; 2] = [1e-4, 1.0];

/// Margins on the logarithmic grid, and twice as many around the blocks.
const MOST_TRIED: usize = 400;
const LEAST_TRIED: usize = 24;

/// Additions that all margins together may cost: about a second.
const WORK: usize = 600_000_000;

/// How often the way between two margins is halved that say different things.
const HALVINGS: u32 = 24;

/// How far an end may be rounded, as a share of itself; and five times that of the range.
const NEAR: f64 = 0.01;

/// Significant digits of an end, where the range does not need more.
const DIGITS: i32 = 2;

/// What is said at the plan's margin and what at others.
pub(crate) struct ByMargin<'s> {
    design: &'s Design,
    setup: TestSetup,
    primary: &'s Comparison,
    /// Secondary metrics, each with the difference that is told of it where no margin calls it equivalent sooner.
    secondary: Vec<(&'s Comparison, Verdict)>,
    by_load: &'s [&'s ByLoad],
}

/// What decides what kind of headline there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Said {
    verdict: Verdict,
    is_contradicted: bool,
}

impl<'s> ByMargin<'s> {
    /// Of the metrics of one workload and arm, whose primary one this is.
    pub(crate) fn new(
        design: &'s Design,
        primary: &'s Comparison,
        metrics: &'s [&'s Comparison],
        by_load: &'s [&'s ByLoad],
    ) -> Self {
        let key = format!("{}\n{}", primary.workload, primary.arm);
        let setup = TestSetup::new(&primary.pairs, design, &key, metrics.len() > 1);
        let guards = metrics.iter().copied();
        let guards = guards.filter(|one| one.spec.role == Role::Guard);
        let guards: Vec<&Comparison> = guards.filter(|one| is_whole(one, primary)).collect();
        let verdicts = verdicts(&guards, 0.0, &setup);
        Self {
            design,
            setup,
            primary,
            secondary: guards.into_iter().zip(verdicts).collect(),
            by_load,
        }
    }

    /// The margins for which the headline is the plan's; `None` where it is undecided.
    pub(crate) fn ranges(&self) -> Option<Margins> {
        let own = self.at(self.design.margin)?;
        if own.verdict == Verdict::Undecided {
            return None;
        }
        let holds = |margin: f64| self.at(margin) == Some(own);
        let mut found = ranges(&self.tried(), holds);
        let is_own = |range: &Range| range.holds(self.design.margin);
        let place = found.iter().position(is_own)?;
        let Range { from, to } = found.remove(place);
        Some(Margins {
            from,
            to,
            again: found,
        })
    }

    fn at(&self, margin: f64) -> Option<Said> {
        Contrasts::of(&self.primary.pairs, self.primary.spec.direction, margin)?;
        let verdict = verdicts(&[self.primary], margin, &self.setup).remove(0);
        let is_contradicted = self.is_contradicted_by_a_metric(verdict, margin)
            || self.is_contradicted_by_a_load(verdict, margin);
        Some(Said {
            verdict,
            is_contradicted,
        })
    }

    /// Secondary metrics are judged at this margin too: one that is found equivalent sooner is not worse.
    fn is_contradicted_by_a_metric(&self, verdict: Verdict, margin: f64) -> bool {
        let wanted = contrary(verdict);
        let is_beyond = |one: &Comparison| {
            let change = one.ratio.map_or(f64::INFINITY, |ratio| ratio.ln().abs());
            may_speak(&one.spec) && change > margin.ln_1p()
        };
        let may = |(one, most): &(&Comparison, Verdict)| *most == wanted && is_beyond(one);
        if !self.secondary.iter().any(may) {
            return false;
        }
        let all: Vec<&Comparison> = self.secondary.iter().map(|(one, _)| *one).collect();
        let verdicts = verdicts(&all, margin, &self.setup);
        let mut judged = all.iter().zip(verdicts);
        judged.any(|(one, verdict)| verdict == wanted && is_beyond(one))
    }

    fn is_contradicted_by_a_load(&self, verdict: Verdict, margin: f64) -> bool {
        let wanted = contrary(verdict);
        let judged = self.by_load.iter().filter(|one| is_judged(&one.curve));
        let mut loads = judged.flat_map(|one| &one.loads);
        loads.any(|load| {
            let is_beyond = load.ratio.map_or(load.is_beyond_margin, |ratio| {
                ratio.ln().abs() > margin.ln_1p()
            });
            load.verdict == wanted && is_beyond
        })
    }

    /// Margins to try, rising; the plan's own is among them.
    fn tried(&self) -> Vec<f64> {
        let [least, most] = MARGINS;
        let blocks: usize = self.setup.looks.iter().map(|look| look.blocks).sum();
        let is_told = |(_, most): &&(&Comparison, Verdict)| *most != Verdict::Undecided;
        let metrics = match self.secondary.iter().find(is_told) {
            Some(_) => 1 + self.secondary.len(),
            None => 1,
        };
        let cost = self.setup.rows() * blocks.max(1) * 3 * metrics;
        let count = (WORK / cost.max(1) / 3).clamp(LEAST_TRIED, MOST_TRIED);
        let step = |index: usize| index as f64 / count as f64;
        let mut tried: Vec<f64> = (0..=count)
            .map(|index| least * (most / least).powf(step(index)))
            .collect();
        tried.push(self.design.margin);
        if let Some((low, high)) = self.near() {
            tried.extend((0..=2 * count).map(|index| low + (high - low) * step(index) / 2.0));
        }
        let secondary = self.secondary.iter().filter_map(|(one, _)| one.ratio);
        let loads = self.by_load.iter().flat_map(|one| &one.loads);
        let ratios = secondary.chain(loads.filter_map(|load| load.ratio));
        for border in ratios.map(|ratio| ratio.ln().abs().exp_m1()) {
            tried.extend([border * (1.0 - 1e-7), border * (1.0 + 1e-7)]);
        }
        tried.retain(|margin| (least..=most).contains(margin));
        tried.sort_by(f64::total_cmp);
        tried.dedup();
        tried
    }

    /// Margins that lie among the blocks, or near them: there the test changes its mind.
    fn near(&self) -> Option<(f64, f64)> {
        let contrasts = Contrasts::of(&self.primary.pairs, self.primary.spec.direction, 0.0)?;
        let sizes = || contrasts.values.iter().map(|value| value.abs());
        let (low, high) = (
            sizes().fold(f64::INFINITY, f64::min),
            sizes().fold(0.0, f64::max),
        );
        let beside = (high - low).max(0.02 * high);
        Some(((low - beside).max(0.0).exp_m1(), (high + beside).exp_m1()))
    }
}

/// Whether a metric has a figure in all blocks of the primary one, and is not zero throughout.
fn is_whole(one: &Comparison, primary: &Comparison) -> bool {
    let is_number = |pair: &Pair| pair.baseline.is_finite() && pair.arm.is_finite();
    one.pairs.len() == primary.pairs.len()
        && one.pairs.iter().all(is_number)
        && Contrasts::of(&one.pairs, one.spec.direction, 0.0).is_some()
}

/// What is said of metrics that share one error rate, at a margin; at zero nothing is equivalent.
fn verdicts(family: &[&Comparison], margin: f64, setup: &TestSetup) -> Vec<Verdict> {
    let contrasts: Vec<Contrasts> = family
        .iter()
        .map(|one| {
            Contrasts::of(&one.pairs, one.spec.direction, margin)
                .expect("a metric that is zero throughout is not asked for")
        })
        .collect();
    let contrasts: Vec<&Contrasts> = contrasts.iter().collect();
    let decisions = sequential_test(&contrasts, setup).into_iter();
    decisions
        .map(|decision| decision.map_or(Verdict::Undecided, |decision| decision.verdict))
        .collect()
}

/// The ranges of these margins, rising, for which it holds; ends rounded inwards.
fn ranges(tried: &[f64], holds: impl Fn(f64) -> bool) -> Vec<Range> {
    let said: Vec<bool> = tried.iter().map(|margin| holds(*margin)).collect();
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
    let mut found = Vec::new();
    let mut first = 0;
    while first < said.len() {
        if !said[first] {
            first += 1;
            continue;
        }
        let last = first + said[first..].iter().take_while(|holds| **holds).count() - 1;
        let from = (first > 0).then(|| border(first, first - 1));
        let to = (last + 1 < said.len()).then(|| border(last, last + 1));
        found.push(inwards(from, to, &holds));
        first = last + 1;
    }
    found
}

/// A range with ends of few digits that lie within it; with more where it is narrow, and as they are where no digits are true.
fn inwards(from: Option<f64>, to: Option<f64>, holds: impl Fn(f64) -> bool) -> Range {
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

    /// Requests a second of a web server on two boots of one kernel, the second one with `kernel.sched_schedstats=1`: six blocks.
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
        run(&SCHEDSTATS, margin).with_slots(&arm_first)
    }

    trait Slots {
        fn with_slots(self, arm_first: &[bool]) -> Self;
    }

    impl Slots for Run {
        fn with_slots(mut self, arm_first: &[bool]) -> Self {
            for record in &mut self.attempts {
                let place = record.trial.block as usize - 1;
                let is_first = (record.trial.arm == "7.2") == arm_first[place];
                record.trial.slot = if is_first { 1 } else { 2 };
            }
            self
        }
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

    fn found(run: &Run) -> Option<Margins> {
        crate::judge(run).robustness.remove(0).margins
    }

    /// The headline with another margin in the plan, and nothing else changed.
    fn headline(run: &Run, margin: f64) -> String {
        let mut run = run.clone();
        run.plan.design.margin = margin;
        let conclusion = crate::look(&run).headlines.remove(0).conclusion;
        let primary = match &conclusion {
            record::verdict::Conclusion::TradeOff { primary, .. } => primary.word(),
            _ => "",
        };
        format!("{} {primary}", conclusion.word())
    }

    /// Every margin of a scan lies in a range just when its headline is the plan's; so do the ends as they are printed.
    #[track_caller]
    /// Headlines of the ends, and of so many margins between `low` and `high`.
    fn check_by_scan(run: &Run, [low, high]: [f64; 2], steps: u32, want: &Expect) {
        let margins = found(run).unwrap();
        want.assert_eq(&format!(
            "{:?}..{:?} {:?}",
            margins.from, margins.to, margins.again
        ));
        let own = headline(run, run.plan.design.margin);
        let plans = Range {
            from: margins.from,
            to: margins.to,
        };
        let all: Vec<Range> = [plans].into_iter().chain(margins.again).collect();
        for end in all.iter().flat_map(|one| [one.from, one.to]).flatten() {
            assert_eq!(headline(run, end), own, "at the end {end}");
        }
        for step in 0..=steps {
            let margin = low * (high / low).powf(f64::from(step) / f64::from(steps));
            let is_told = all.iter().any(|one| one.holds(margin));
            // Ends are rounded inwards.
            let is_near = all.iter().any(|one| {
                let ends = [one.from, one.to].into_iter().flatten();
                ends.into_iter()
                    .any(|end| (margin / end - 1.0).abs() < 1.1 * NEAR)
            });
            let is_same = headline(run, margin) == own;
            assert!(is_same || !is_told, "{margin} does not hold");
            assert!(is_told || !is_same || is_near, "{margin} holds");
        }
    }

    #[test]
    fn all_ranges_are_found_that_a_scan_finds() {
        ranges_of_scans(60);
    }

    #[test]
    #[ignore = "a scan of ten times the steps: make test-all"]
    fn all_ranges_are_found_that_a_fine_scan_finds() {
        ranges_of_scans(600);
    }

    fn ranges_of_scans(steps: u32) {
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
            let noise = pairs(REFERENCE, 0.03, 8, (seed, 0));
            let figures: Vec<[f64; 2]> =
                noise.iter().map(|pair| [pair.baseline, pair.arm]).collect();
            let run = run(&figures, 0.02);
            let Some(margins) = found(&run) else { continue };
            seen += 1;
            let own = headline(&run, 0.02);
            let mut all = margins.again.clone();
            all.push(Range {
                from: margins.from,
                to: margins.to,
            });
            for step in 0..=200 {
                let margin = 1e-3 * 300f64.powf(f64::from(step) / 200.0);
                if all.iter().any(|one| one.holds(margin)) {
                    assert_eq!(headline(&run, margin), own, "{seed}: {margin} of {all:?}");
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
            let judgement = crate::look(&schedstats(margin));
            let one = &judgement.comparisons[0];
            let (Some(low), Some(high), Some(ratio)) = (one.low, one.high, one.ratio) else {
                continue;
            };
            assert!(
                low <= ratio && ratio <= high,
                "{margin}: {low} {ratio} {high}"
            );
            if one.verdict == Verdict::Equivalent {
                equivalent += 1;
                assert!(ratio.ln().abs() <= margin.ln_1p(), "{margin}: {ratio}");
            }
        }
        assert!(equivalent > 2, "{equivalent}");
    }

    #[test]
    fn ends_have_the_digits_that_they_need() {
        let told = |from, to| {
            let range = inwards(Some(from), Some(to), |margin| (from..=to).contains(&margin));
            (range.from.unwrap(), range.to.unwrap())
        };
        assert_eq!(told(0.004_627_1, 0.004_911_3), (0.004_63, 0.0049));
        assert_eq!(told(0.001_021, 0.207_49), (0.001_03, 0.207));
        assert_eq!(told(0.132_64, 0.134_17), (0.1327, 0.1341));
    }

    /// A maximum of one trial speaks against nothing.
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
