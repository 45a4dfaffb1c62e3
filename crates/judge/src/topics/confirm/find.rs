//! How much of a difference a setting explains: what is left of it where both arms have the setting.
//!
//! ```text
//! d_b, e_b     difference of block b without and with the setting: instructions, or logarithms of other metrics' ratios
//! share        1 - mean(e) / mean(d)
//! interval     the shares s for which (1 - s) d_b - e_b is no more than chance under sign flips (as Fieller 1954, but by
//!              randomization)
//! ```

use std::collections::BTreeMap;

use record::metric::MetricSpec;
use record::rundir::Run;
use record::verdict::confirm::{Confirmation, MetricEffect, SettingEffect, VERSION};

use crate::topics::metrics::pair::Measured;
use crate::topics::why::find::{INSTRUCTIONS, TAILS};
use stats::average::mean;
use stats::looks::fewest_blocks;
use stats::max_t;
use stats::randomization::SignFlips;

/// A setting, and the arms that are compared with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// As it is written.
    pub setting: String,
    /// The arms with it, the baseline's first; where a kernel has no such setting, the arm without.
    pub arms: [String; 2],
}

/// What each setting explains of the difference of two arms on a workload.
pub fn confirm(run: &Run, workload: &str, arms: [&str; 2], tried: &[Tried]) -> Confirmation {
    let measured = Measured::of(run);
    let mut specs = measured.specs(workload);
    let primary = specs.first().map(|spec| spec.name.clone());
    // A cause may be one of the work, or of the waits that make the tail.
    specs.retain(|spec| {
        let name = spec.name.as_str();
        Some(&spec.name) == primary.as_ref() || name == INSTRUCTIONS || TAILS.contains(&name)
    });
    let error_rate = run.plan.design.error_rate;
    let effect = |one: &Tried| {
        let effect = |spec: &MetricSpec| {
            let sides = [arms, one.arms.each_ref().map(String::as_str)];
            let blocks = blocks(&measured, workload, sides, &spec.name);
            let key = format!("confirm\n{}\n{workload}", run.plan.design.seed);
            metric(spec, &blocks, &key, error_rate)
        };
        SettingEffect {
            setting: one.setting.clone(),
            arms: one.arms.clone(),
            metrics: specs.iter().filter_map(effect).collect(),
        }
    };
    Confirmation {
        version: VERSION,
        workload: workload.into(),
        arms: arms.map(String::from),
        settings: tried.iter().map(effect).collect(),
        confidence: 1.0 - error_rate,
    }
}

/// Figures of the blocks that have all four: without the setting, then with it; the baseline's first.
fn blocks(
    measured: &Measured<'_>,
    workload: &str,
    sides: [[&str; 2]; 2],
    metric: &str,
) -> Vec<[[f64; 2]; 2]> {
    let of = |[baseline, arm]: [&str; 2]| -> BTreeMap<u32, [f64; 2]> {
        let pairs = measured.pairs(workload, (baseline, arm), metric);
        let pairs = pairs.into_iter();
        pairs
            .map(|pair| (pair.block, [pair.baseline, pair.arm]))
            .collect()
    };
    let [without, with] = sides.map(of);
    let both = without.into_iter();
    both.filter_map(|(block, without)| Some([without, *with.get(&block)?]))
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
        .all(|one| *one > 0.0);
    let is_absolute = spec.unit == "instructions/request" || !is_positive;
    let difference = |[baseline, arm]: [f64; 2]| {
        if is_absolute {
            arm - baseline
        } else {
            (arm / baseline).ln()
        }
    };
    let differences = |with: usize| -> Vec<f64> {
        let each = blocks.iter().map(|block| difference(block[with]));
        each.collect()
    };
    let (d, e) = (differences(0), differences(1));
    let (without, with) = (mean(&d, |one| *one), mean(&e, |one| *one));
    let flips = SignFlips::draw(key, blocks.len(), error_rate);
    let differs = fewest_blocks(error_rate) <= blocks.len()
        && max_t::is_more_than_chance(&d, &flips, error_rate);
    let share = differs.then(|| 1.0 - with / without);
    let interval = share.and_then(|share| {
        // What is left of it, with the sign that it has without the setting.
        let left = |share: f64| -> Vec<f64> {
            let both = d.iter().zip(&e);
            both.map(|(d, e)| (1.0 - share) * d - e).collect()
        };
        max_t::interval_by(share, max_t::size(&left(share)) / without.abs(), |share| {
            max_t::is_more_than_chance(&left(share), &flips, error_rate)
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

    /// A run of four arms: figures of one metric by block, in the order old, new, old with the setting, new with it.
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

    /// Six blocks in which the new arm differs by `without`, and with the setting by `with`; all scatter a little.
    fn planted(without: f64, with: f64) -> Vec<[f64; 4]> {
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
        let effect = effect(&run(&planted(20.0, 15.0), "instructions/request"));
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
        let effect = effect(&run(&planted(20.0, 0.0), "requests/s"));
        assert!(!effect.is_absolute);
        assert!((effect.without - 1.2).abs() < 0.001 && (effect.with - 1.0).abs() < 0.001);
        assert!((effect.share.unwrap() - 1.0).abs() < 0.01);
    }

    #[test]
    fn where_nothing_differs_nothing_is_explained() {
        let same = effect(&run(&planted(0.0, 15.0), "requests/s"));
        assert_eq!((same.share, same.low), (None, None));
        let few = effect(&run(&planted(20.0, 15.0)[..2], "requests/s"));
        assert_eq!((few.share, few.blocks), (None, 2));
    }
}
