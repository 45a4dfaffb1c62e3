//! Computes how much of a difference a setting explains, from what remains if both arms have the setting.
//!
//! ```text
//! d_b, e_b     difference of block b without and with the setting: instructions, or logarithms of other metrics' ratios
//! share        1 - mean(e) / mean(d)
//! interval     the shares s for which (1 - s) d_b - e_b is not significant under sign flips (as Fieller 1954, but by
//!              randomization)
//! ```

use std::collections::BTreeMap;

use record::metric::MetricSpec;
use record::rundir::Run;
use record::verdict::confirm::{Confirmation, MetricEffect, SettingEffect, VERSION};

use crate::topics::metrics::measured::Measured;
use crate::topics::why::find::{INSTRUCTIONS, TAILS};
use stats::average::mean;
use stats::interim::fewest_blocks;
use stats::max_t;
use stats::randomization::SignFlips;

/// A setting, and the names of the two arms that have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// The setting as the user wrote it.
    pub setting: String,
    /// The arms with the setting, the baseline's first. An arm whose kernel lacks the setting stands for itself.
    pub arms: [String; 2],
}

/// Computes for each setting how much it explains of the difference between two arms on a workload.
pub fn confirm(run: &Run, workload: &str, arms: [&str; 2], tried: &[Tried]) -> Confirmation {
    let measured = Measured::of(run);
    let mut specs = measured.specs(workload);
    let primary = specs.first().map(|spec| spec.name.clone());
    // A cause may change the work (instructions) or the waits (tail latencies).
    specs.retain(|spec| {
        let name = spec.name.as_str();
        Some(&spec.name) == primary.as_ref() || name == INSTRUCTIONS || TAILS.contains(&name)
    });
    let error_rate = run.plan.design.error_rate;
    let key = format!("confirm\n{}\n{workload}", run.plan.design.seed);
    let mut settings = Vec::new();
    for tried in tried {
        let sides = [arms, tried.arms.each_ref().map(String::as_str)];
        let metrics = specs.iter().filter_map(|spec| {
            let blocks = blocks(&measured, workload, sides, &spec.name);
            metric(spec, &blocks, &key, error_rate)
        });
        settings.push(SettingEffect {
            setting: tried.setting.clone(),
            arms: tried.arms.clone(),
            metrics: metrics.collect(),
        });
    }
    Confirmation {
        version: VERSION,
        workload: workload.into(),
        arms: arms.map(String::from),
        settings,
        confidence: 1.0 - error_rate,
    }
}

/// Figures of each block that has all four: `[without, with]`, each as `[baseline, arm]`.
fn blocks(
    measured: &Measured<'_>,
    workload: &str,
    sides: [[&str; 2]; 2],
    metric: &str,
) -> Vec<[[f64; 2]; 2]> {
    let [without, with] = sides.map(|[baseline, arm]| {
        let pairs = measured.pairs(workload, baseline, arm, metric);
        let by_block = pairs.into_iter();
        by_block
            .map(|pair| (pair.block, [pair.baseline, pair.arm]))
            .collect::<BTreeMap<u32, [f64; 2]>>()
    });
    without
        .into_iter()
        .filter_map(|(block, without)| Some([without, *with.get(&block)?]))
        .collect()
}

fn metric(
    spec: &MetricSpec,
    blocks: &[[[f64; 2]; 2]],
    key: &str,
    error_rate: f64,
) -> Option<MetricEffect> {
    if blocks.is_empty() {
        return None;
    }
    let is_positive = blocks
        .as_flattened()
        .as_flattened()
        .iter()
        .all(|figure| *figure > 0.0);
    let is_absolute = spec.unit == "instructions/request" || !is_positive;
    let difference = |[baseline, arm]: [f64; 2]| {
        if is_absolute {
            arm - baseline
        } else {
            (arm / baseline).ln()
        }
    };
    // The names of the module's formulas.
    let [d, e] = [0, 1].map(|side| {
        let differences = blocks.iter().map(|block| difference(block[side]));
        differences.collect::<Vec<f64>>()
    });
    let (without, with) = (mean(&d, |value| *value), mean(&e, |value| *value));
    let flips = SignFlips::draw(key, blocks.len(), error_rate);
    let differs = fewest_blocks(error_rate) <= blocks.len()
        && max_t::is_more_than_chance(&d, &flips, error_rate);
    let share = differs.then(|| 1.0 - with / without);
    let interval = share.and_then(|share| {
        let residuals = |share: f64| -> Vec<f64> {
            let differences = d.iter().zip(&e);
            differences.map(|(d, e)| (1.0 - share) * d - e).collect()
        };
        let scale = max_t::size(&residuals(share)) / without.abs();
        max_t::interval_by(share, scale, |share| {
            max_t::is_more_than_chance(&residuals(share), &flips, error_rate)
        })
    });
    let shown = |difference: f64| {
        if is_absolute {
            difference
        } else {
            difference.exp()
        }
    };
    Some(MetricEffect {
        metric: spec.name.clone(),
        unit: spec.unit.clone(),
        is_absolute,
        without: shown(without),
        with: shown(with),
        share,
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
        blocks: blocks.len() as u32,
    })
}

#[cfg(test)]
mod tests {
    use record::fixtures::builder::{RunBuilder, measurements};

    use super::*;

    /// A run of four arms. Each block has a figure of the old arm, the new one, the old with the setting and the new with it.
    fn run(figures: &[[f64; 4]], unit: &str) -> Run {
        let arms = ["6.1", "7.2", "6.1+x", "7.2+x"];
        let mut builder = RunBuilder::new().arm(arms[2]).arm(arms[3]);
        for block in 1..=figures.len() as u32 {
            for arm in arms {
                builder = builder.measured(block, arm, 1.0);
            }
        }
        let builder = builder.with(|run| {
            run.plan.design.error_rate = 0.1;
            for (measurement, figure) in measurements(run).zip(figures.as_flattened()) {
                measurement.figures.truncate(1);
                measurement.figures[0].value = *figure;
                measurement.figures[0].spec.unit = unit.into();
            }
        });
        builder.run()
    }

    fn effect(run: &Run) -> MetricEffect {
        let tried = Tried {
            setting: "x".into(),
            arms: ["6.1+x".into(), "7.2+x".into()],
        };
        let confirmation = confirm(run, "web", ["6.1", "7.2"], &[tried]);
        confirmation.settings[0].metrics[0].clone()
    }

    /// Six blocks with some noise. The arms differ by `without`, and with the setting by `with`.
    fn figures(without: f64, with: f64) -> Vec<[f64; 4]> {
        let noise = [0.3, -0.2, 0.1, -0.3, 0.2, -0.1];
        let block = |noise: &f64| {
            let old = 100.0 + noise;
            [
                old,
                old + without + noise,
                old - 5.0,
                old - 5.0 + with - noise,
            ]
        };
        noise.iter().map(block).collect()
    }

    #[test]
    fn a_quarter_of_a_difference_is_found_with_its_interval() {
        let effect = effect(&run(&figures(20.0, 15.0), "instructions/request"));
        assert!(effect.is_absolute);
        assert!((effect.without - 20.0).abs() < 1e-9 && (effect.with - 15.0).abs() < 1e-9);
        let (share, low, high) = (
            effect.share.unwrap(),
            effect.low.unwrap(),
            effect.high.unwrap(),
        );
        assert!((share - 0.25).abs() < 1e-9, "{share}");
        assert!(
            low < 0.25 && 0.25 < high && high - low < 0.1,
            "{low} {high}"
        );
    }

    #[test]
    fn other_metrics_are_ratios() {
        let effect = effect(&run(&figures(20.0, 0.0), "requests/s"));
        assert!(!effect.is_absolute);
        assert!((effect.without - 1.2).abs() < 0.001 && (effect.with - 1.0).abs() < 0.001);
        assert!((effect.share.unwrap() - 1.0).abs() < 0.01);
    }

    #[test]
    fn no_share_without_a_difference_or_with_too_few_blocks() {
        let same = effect(&run(&figures(0.0, 15.0), "requests/s"));
        assert_eq!((same.share, same.low), (None, None));
        let few = effect(&run(&figures(20.0, 15.0)[..2], "requests/s"));
        assert_eq!((few.share, few.blocks), (None, 2));
    }
}
