//! A walk: all versions of a line measured side by side, and which steps between neighbours are significant.
//!
//! Each step is tested by the sign flips of the two neighbours' own blocks, at the error rate over the number of steps (Bonferroni), so that
//! the chance of any wrong one among them is the plan's. Shares are of the logarithm of the whole ratio and add up to one, because each is the
//! difference of two places on the line, not an estimate of its own.

use plan::Design;
use record::bisect::{Shape, VERSION, Walk, WalkMetric, WalkStep};
use record::metric::{Direction, MetricSpec, Role};
use record::rundir::Run;
use record::trial::Measurement;
use record::verdict::{Pair, Verdict};

use crate::topics::metrics::pair::Measured;
use stats::rule::{Finding, Series, decide, typical_ratio};

/// Blocks with which a step of a line of so many can be significant: fewer have too few sign flips.
pub fn fewest_blocks(steps: usize, error_rate: f64) -> u32 {
    let each = error_rate / steps.max(1) as f64;
    // Two of the 2^n sign flips are as far out as can be.
    (1.0 - each.log2()).ceil().max(4.0) as u32
}

/// The steps of a run's arms, in the order of `line`, whose first one is its baseline.
pub fn walk(run: &Run, line: &[String]) -> Walk {
    let measured = Measured::of(run);
    let mut metrics = Vec::new();
    for workload in &run.plan.workloads {
        let specs = measured.specs(&workload.id);
        let walked = Walked {
            measured: &measured,
            design: &run.plan.design,
            workload: &workload.id,
            line,
        };
        let switches = specs.first().and_then(switches);
        for spec in specs {
            let name = spec.name.clone();
            metrics.push(walked.metric(spec, &|one| figure(one, &name)));
        }
        if let Some((spec, rate)) = switches {
            metrics.push(walked.metric(spec, &|one| {
                let rate_per_s = figure(one, &rate).filter(|rate| *rate > 0.0)?;
                Some(one.usage.context_switches_per_s / rate_per_s)
            }));
        }
    }
    let blocks = run.attempts.iter().map(|one| one.trial.block).max();
    Walk {
        version: VERSION,
        title: run.plan.title.clone(),
        line: line.to_vec(),
        blocks: blocks.unwrap_or(0),
        error_rate: run.plan.design.error_rate,
        metrics,
    }
}

fn figure(one: &Measurement, metric: &str) -> Option<f64> {
    let mut figures = one.figures.iter();
    figures
        .find(|figure| figure.spec.name == metric)
        .map(|figure| figure.value)
}

/// Context switches for each unit of work, where the primary metric is a rate; with that metric's name. No workload's metric, because
/// nobody wants them for themselves, but where they change a scheduler or a wake-up did.
fn switches(primary: &MetricSpec) -> Option<(MetricSpec, String)> {
    let work = primary.unit.strip_suffix("s/s")?;
    let spec = MetricSpec {
        name: "context-switches".into(),
        unit: format!("switches/{work}"),
        direction: Direction::Lower,
        role: Role::Guard,
    };
    Some((spec, primary.name.clone()))
}

/// One workload of a run along a line.
struct Walked<'w> {
    measured: &'w Measured<'w>,
    design: &'w Design,
    workload: &'w str,
    line: &'w [String],
}

impl Walked<'_> {
    fn metric(&self, spec: MetricSpec, value: &dyn Fn(&Measurement) -> Option<f64>) -> WalkMetric {
        let line = self.line;
        let pairs = |one: usize, other: usize| {
            let arms = (line[one].as_str(), line[other].as_str());
            self.measured.pairs_by(self.workload, arms, value)
        };
        let ratio = |place: usize| {
            let pairs = pairs(0, place);
            if pairs.is_empty() {
                return None;
            }
            let ratio = typical_ratio(series(&pairs, &spec));
            ratio.filter(|ratio| ratio.is_normal() && *ratio > 0.0)
        };
        let ratios: Vec<Option<f64>> = (0..line.len()).map(ratio).collect();
        let known: Vec<(usize, f64)> = ratios
            .iter()
            .enumerate()
            .filter_map(|(place, ratio)| Some((place, (*ratio)?)))
            .collect();
        let whole = match (known.first(), known.last()) {
            (Some((_, first)), Some((_, last))) => (last / first).ln(),
            (None, _) | (_, None) => 0.0,
        };
        let design = of_step(self.design, line.len() - 1);
        let step = |two: &[(usize, f64)]| {
            let ((before, one), (after, other)) = (two[0], two[1]);
            let pairs = pairs(before, after);
            let key = format!("step\n{}\n{before}\n{after}", self.workload);
            let finding = decided(series(&pairs, &spec), &design, &key);
            let ratio = other / one;
            WalkStep {
                before,
                after,
                ratio,
                interval: finding.as_ref().and_then(Finding::shown_interval),
                confidence: finding.as_ref().and_then(|finding| finding.confidence),
                share: (whole.abs() > f64::EPSILON).then(|| ratio.ln() / whole),
                verdict: finding.map_or(Verdict::Undecided, |finding| finding.verdict),
            }
        };
        let steps: Vec<WalkStep> = known.windows(2).map(step).collect();
        WalkMetric {
            workload: self.workload.into(),
            shape: shape(&steps),
            spec,
            ratios,
            steps,
        }
    }
}

fn series<'s>(pairs: &'s [Pair], spec: &MetricSpec) -> Series<'s> {
    Series {
        pairs,
        direction: spec.direction,
    }
}

/// The design of each step's test: its share of the error rate, and one look after the last block, where all of it is spent.
fn of_step(design: &Design, steps: usize) -> Design {
    Design {
        error_rate: design.error_rate / steps.max(1) as f64,
        ..design.clone()
    }
}

/// The finding about two neighbours that have `pairs` in common.
fn decided(series: Series<'_>, design: &Design, key: &str) -> Option<Finding> {
    let blocks = series.pairs.len() as u32;
    let design = Design {
        min_blocks: blocks,
        max_blocks: blocks,
        more_blocks: 0,
        ..design.clone()
    };
    (blocks >= 2).then(|| decide(&[series], &design, key).remove(0))
}

fn shape(steps: &[WalkStep]) -> Shape {
    let is = |verdict: Verdict| steps.iter().any(|step| step.verdict == verdict);
    match (is(Verdict::Better), is(Verdict::Worse)) {
        (false, false) => Shape::Flat,
        (true, true) => Shape::Mixed,
        (true, false) | (false, true) => Shape::Monotone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::fixtures::builder::RunBuilder;

    const LINE: [&str; 4] = ["6.1", "7.2", "7.3", "7.4"];

    /// Nine blocks of the line, each version a little off in each.
    fn walked(levels: [f64; 4]) -> Walk {
        let mut builder = RunBuilder::new().arm("7.3").arm("7.4").with(|run| {
            run.plan.design.error_rate = 0.05;
            run.plan.design.margin = 0.01;
        });
        for block in 1..=9u32 {
            for (place, (name, level)) in LINE.iter().zip(levels).enumerate() {
                let off = (block as usize * 7 + place * 3) % 10;
                let value = level * (1.0 + 0.0003 * (off as f64 - 4.5));
                let slot = if block % 2 == 0 { place + 1 } else { 4 - place };
                builder = builder.measured(block, name, value).with(|run| {
                    let last = run.attempts.last_mut().expect("a trial was just added");
                    last.trial.slot = slot as u32;
                });
            }
        }
        walk(&builder.run(), &LINE.map(String::from))
    }

    fn verdicts(walk: &Walk) -> Vec<Verdict> {
        let steps = walk.metrics[0].steps.iter();
        steps.map(|step| step.verdict).collect()
    }

    #[test]
    fn significant_steps_are_told_with_shares_that_add_up() {
        let walk = walked([100.0, 100.0, 108.0, 112.0]);
        assert_eq!(verdicts(&walk)[1..], [Verdict::Better, Verdict::Better]);
        assert_ne!(verdicts(&walk)[0], Verdict::Better);
        let shares: Vec<f64> = walk.metrics[0]
            .steps
            .iter()
            .filter_map(|one| one.share)
            .collect();
        assert!(
            (shares.iter().sum::<f64>() - 1.0).abs() < 1e-9,
            "{shares:?}"
        );
        assert!((0.63..0.73).contains(&shares[1]), "{shares:?}");
        assert_eq!(walk.metrics[0].shape, Shape::Monotone);
    }

    #[test]
    fn a_line_whose_middle_is_best_is_mixed() {
        let walk = walked([100.0, 110.0, 110.0, 103.0]);
        assert_eq!(verdicts(&walk)[0], Verdict::Better);
        assert_eq!(verdicts(&walk)[2], Verdict::Worse);
        assert_eq!(walk.metrics[0].shape, Shape::Mixed);
    }

    #[test]
    fn a_version_without_figures_is_passed_over() {
        let line = ["6.1", "none", "7.2"].map(String::from);
        let run = RunBuilder::new()
            .blocks(&[[100.0, 107.0], [100.1, 107.2], [99.9, 107.1]])
            .run();
        let walk = walk(&run, &line);
        let steps = &walk.metrics[0].steps;
        assert_eq!(steps.len(), 1);
        assert_eq!((steps[0].before, steps[0].after), (0, 2));
        assert_eq!(walk.metrics[0].ratios[1], None);
    }

    #[test]
    fn so_many_blocks_can_make_a_step_significant() {
        for (steps, error_rate, blocks) in [(1, 0.05, 6), (11, 0.05, 9), (11, 0.1, 8), (3, 0.05, 7)]
        {
            assert_eq!(fewest_blocks(steps, error_rate), blocks);
        }
    }
}
