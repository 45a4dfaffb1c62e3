//! Copies of one run that are given as several: figures that no second run would repeat.

use std::collections::{BTreeMap, BTreeSet};

use crate::detect::Format;
use crate::metric_direction;
use crate::observation::{FileFigures, Observation, Run};

/// So many digits of times and fractions do not come out the same twice.
const DIGITS: usize = 8;

/// Refuses each run whose figures are those of an earlier one, in the same order.
pub(crate) fn refuse(files: &mut [FileFigures]) {
    let mut seen = BTreeMap::<Vec<(String, u64)>, Observation>::new();
    for file in files {
        let mut copy = None;
        for run in runs(file).into_iter().filter(|run| is_by_chance(run)) {
            let figures = run.iter();
            let figures = figures.map(|one| (one.metric.clone(), one.value.to_bits()));
            let earlier = seen.insert(figures.collect(), run[0].clone());
            copy = copy.or(earlier.map(|earlier| (run[0].line, earlier)));
        }
        if let Some((line, earlier)) = copy {
            let (what, remedy) = if file.format == Format::Criterion.name() {
                (
                    format!("the same samples as of {}: {}", earlier.arm, earlier.metric),
                    "criterion copies new to base when it ends; keep each run with --save-baseline NAME",
                )
            } else {
                (
                    format!("the same figures as in {}:{}", earlier.file, earlier.line),
                    "a copy is no second run: take it out, or measure again",
                )
            };
            file.wrong(line, what, remedy);
        }
    }
}

/// The figures of each run of a file; those that are runs of their own together.
fn runs(file: &FileFigures) -> Vec<Vec<&Observation>> {
    let mut runs = BTreeMap::<&Run, Vec<&Observation>>::new();
    for one in &file.observations {
        runs.entry(&one.run).or_default().push(one);
    }
    runs.into_values().collect()
}

/// Whether chance is in these figures: one metric scatters, or times and fractions have many digits.
/// Counts and sizes that are the same in each run are none.
fn is_by_chance(run: &[&Observation]) -> bool {
    let mut values = BTreeMap::<(&str, &str), BTreeSet<u64>>::new();
    for one in run {
        let metric = (one.arm.as_str(), one.metric.as_str());
        values
            .entry(metric)
            .or_default()
            .insert(one.value.to_bits());
    }
    if values.values().any(|values| values.len() > 2) {
        return true;
    }
    let is_measured =
        |one: &&&Observation| one.value.fract() != 0.0 || metric_direction::is_measured(&one.unit);
    let measured = run
        .iter()
        .filter(is_measured)
        .map(|one| one.value.to_bits());
    let measured: BTreeSet<u64> = measured.collect();
    let digits = |bits: u64| {
        let text = format!("{:e}", f64::from_bits(bits));
        let mantissa = text.split('e').next().unwrap_or_default();
        mantissa.bytes().filter(u8::is_ascii_digit).count()
    };
    measured.into_iter().map(digits).sum::<usize>() >= DIGITS
}
