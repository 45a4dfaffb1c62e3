//! All versions of a series measured side by side, and which steps between neighbours are significant.
//!
//! Each step is tested by sign flips of the blocks of two neighbours. Each test gets the error rate divided by the number of steps
//! (Bonferroni), so the plan's error rate holds for all steps together. Shares are of the logarithm of the whole ratio. They add up
//! to one, because each is the difference of two positions in the series.

use plan::Design;
use record::bisect::{SeriesMetric, SeriesResult, SeriesStep, Shape, VERSION};
use record::metric::{Direction, MetricSpec, Role};
use record::rundir::Run;
use record::trial::Measurement;
use record::verdict::{Pair, Verdict};

use crate::topics::metrics::measured::Measured;
use stats::rule::{RuleResult, Series, decide, typical_ratio};

/// Smallest number of blocks with which one of `steps` steps can be significant. Fewer blocks have too few sign flips.
pub fn fewest_blocks(steps: usize, error_rate: f64) -> u32 {
    let error_rate = error_rate / steps.max(1) as f64;
    // Two of the 2^n sign flips are the most extreme, so the lowest p-value is 2 / 2^n.
    (1.0 - error_rate.log2()).ceil().max(4.0) as u32
}

/// The steps between a run's arms. `versions` names them in order, the baseline first.
pub fn evaluate(run: &Run, versions: &[String]) -> SeriesResult {
    let measured = Measured::of(run);
    let mut metrics = Vec::new();
    for workload in &run.plan.workloads {
        let specs = measured.specs(&workload.id);
        let of_workload = WorkloadSeries {
            measured: &measured,
            design: &run.plan.design,
            workload: &workload.id,
            versions,
        };
        let switches = specs.first().and_then(switches);
        for spec in specs {
            let name = spec.name.clone();
            metrics.push(of_workload.metric(spec, &|measurement| figure(measurement, &name)));
        }
        if let Some((spec, rate)) = switches {
            metrics.push(of_workload.metric(spec, &|measurement| {
                let rate_per_s = figure(measurement, &rate).filter(|rate| *rate > 0.0)?;
                Some(measurement.usage.context_switches_per_s / rate_per_s)
            }));
        }
    }
    let blocks = run.attempts.iter().map(|attempt| attempt.trial.block).max();
    SeriesResult {
        version: VERSION,
        title: run.plan.title.clone(),
        versions: versions.to_vec(),
        blocks: blocks.unwrap_or(0),
        error_rate: run.plan.design.error_rate,
        metrics,
    }
}

fn figure(measurement: &Measurement, metric: &str) -> Option<f64> {
    let mut figures = measurement.figures.iter();
    let figure = figures.find(|figure| figure.spec.name == metric)?;
    Some(figure.value)
}

/// A metric of context switches per unit of work, and the name of the primary metric; `None` unless that is a rate. Workloads do not
/// report this metric, but a change of it points to the scheduler or to wake-ups.
fn switches(primary: &MetricSpec) -> Option<(MetricSpec, String)> {
    let work = primary.unit.strip_suffix("s/s")?;
    let spec = MetricSpec {
        name: "context-switches".into(),
        unit: format!("switches/{work}"),
        direction: Direction::Lower,
        role: Role::Secondary,
    };
    Some((spec, primary.name.clone()))
}

/// One workload of a series.
struct WorkloadSeries<'w> {
    measured: &'w Measured<'w>,
    design: &'w Design,
    workload: &'w str,
    versions: &'w [String],
}

impl WorkloadSeries<'_> {
    fn metric(
        &self,
        spec: MetricSpec,
        value: &dyn Fn(&Measurement) -> Option<f64>,
    ) -> SeriesMetric {
        let versions = self.versions;
        let pairs = |before: usize, after: usize| {
            self.measured
                .pairs_by(self.workload, &versions[before], &versions[after], value)
        };
        let ratio = |place: usize| {
            let pairs = pairs(0, place);
            if pairs.is_empty() {
                return None;
            }
            let ratio = typical_ratio(series(&pairs, &spec));
            ratio.filter(|ratio| ratio.is_normal() && *ratio > 0.0)
        };
        let ratios: Vec<Option<f64>> = (0..versions.len()).map(ratio).collect();
        let known: Vec<(usize, f64)> = ratios
            .iter()
            .enumerate()
            .filter_map(|(place, ratio)| Some((place, (*ratio)?)))
            .collect();
        let whole = match (known.first(), known.last()) {
            (Some((_, first)), Some((_, last))) => (last / first).ln(),
            (None, _) | (_, None) => 0.0,
        };
        let steps = (versions.len() - 1).max(1) as f64;
        let error_rate = self.design.error_rate / steps;
        let step = |neighbours: &[(usize, f64)]| {
            let ((before, first), (after, second)) = (neighbours[0], neighbours[1]);
            let pairs = pairs(before, after);
            let key = format!("step\n{}\n{before}\n{after}", self.workload);
            let finding = test_step(series(&pairs, &spec), self.design, error_rate, &key);
            let ratio = second / first;
            SeriesStep {
                before,
                after,
                ratio,
                interval: finding.as_ref().and_then(RuleResult::shown_interval),
                confidence: finding.as_ref().and_then(|finding| finding.confidence),
                share: (whole.abs() > f64::EPSILON).then(|| ratio.ln() / whole),
                verdict: finding.map_or(Verdict::Undecided, |finding| finding.verdict),
            }
        };
        let steps: Vec<SeriesStep> = known.windows(2).map(step).collect();
        SeriesMetric {
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

/// Tests the step between two neighbours once, after the last of the blocks that both have.
fn test_step(
    series: Series<'_>,
    design: &Design,
    error_rate: f64,
    key: &str,
) -> Option<RuleResult> {
    let blocks = series.pairs.len() as u32;
    let design = Design {
        error_rate,
        min_blocks: blocks,
        max_blocks: blocks,
        more_blocks: 0,
        ..design.clone()
    };
    (blocks >= 2).then(|| decide(&[series], &design, key).remove(0))
}

fn shape(steps: &[SeriesStep]) -> Shape {
    let any = |verdict: Verdict| steps.iter().any(|step| step.verdict == verdict);
    match (any(Verdict::Better), any(Verdict::Worse)) {
        (false, false) => Shape::Flat,
        (true, true) => Shape::Mixed,
        (true, false) | (false, true) => Shape::Monotone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::fixtures::builder::RunBuilder;

    const VERSIONS: [&str; 4] = ["6.1", "7.2", "7.3", "7.4"];

    /// Nine blocks of all versions, with a little noise.
    fn measured(levels: [f64; 4]) -> SeriesResult {
        let mut builder = RunBuilder::new().arm("7.3").arm("7.4").with(|run| {
            run.plan.design.error_rate = 0.05;
            run.plan.design.margin = 0.01;
        });
        for block in 1..=9u32 {
            for (place, (name, level)) in VERSIONS.iter().zip(levels).enumerate() {
                let noise = (block as usize * 7 + place * 3) % 10;
                let value = level * (1.0 + 0.0003 * (noise as f64 - 4.5));
                let slot = if block % 2 == 0 { place + 1 } else { 4 - place };
                builder = builder.measured(block, name, value).with(|run| {
                    let last = run.attempts.last_mut().expect("a trial was just added");
                    last.trial.slot = slot as u32;
                });
            }
        }
        evaluate(&builder.run(), &VERSIONS.map(String::from))
    }

    fn verdicts(series: &SeriesResult) -> Vec<Verdict> {
        let steps = series.metrics[0].steps.iter();
        steps.map(|step| step.verdict).collect()
    }

    #[test]
    fn shares_of_significant_steps_add_up_to_one() {
        let series = measured([100.0, 100.0, 108.0, 112.0]);
        assert_eq!(verdicts(&series)[1..], [Verdict::Better, Verdict::Better]);
        assert_ne!(verdicts(&series)[0], Verdict::Better);
        let shares: Vec<f64> = series.metrics[0]
            .steps
            .iter()
            .filter_map(|step| step.share)
            .collect();
        assert!(
            (shares.iter().sum::<f64>() - 1.0).abs() < 1e-9,
            "{shares:?}"
        );
        assert!((0.63..0.73).contains(&shares[1]), "{shares:?}");
        assert_eq!(series.metrics[0].shape, Shape::Monotone);
    }

    #[test]
    fn a_series_whose_middle_is_best_is_mixed() {
        let series = measured([100.0, 110.0, 110.0, 103.0]);
        assert_eq!(verdicts(&series)[0], Verdict::Better);
        assert_eq!(verdicts(&series)[2], Verdict::Worse);
        assert_eq!(series.metrics[0].shape, Shape::Mixed);
    }

    #[test]
    fn a_version_without_figures_is_skipped() {
        let versions = ["6.1", "none", "7.2"].map(String::from);
        let run = RunBuilder::new()
            .blocks(&[[100.0, 107.0], [100.1, 107.2], [99.9, 107.1]])
            .run();
        let series = evaluate(&run, &versions);
        let steps = &series.metrics[0].steps;
        assert_eq!(steps.len(), 1);
        assert_eq!((steps[0].before, steps[0].after), (0, 2));
        assert_eq!(series.metrics[0].ratios[1], None);
    }

    #[test]
    fn more_steps_or_a_lower_error_rate_need_more_blocks() {
        for (steps, error_rate, blocks) in [(1, 0.05, 6), (11, 0.05, 9), (11, 0.1, 8), (3, 0.05, 7)]
        {
            assert_eq!(fewest_blocks(steps, error_rate), blocks);
        }
    }
}
