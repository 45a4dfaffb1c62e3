//! Refuses copies of one run that are given as several runs.

use std::collections::{BTreeMap, BTreeSet};

use crate::detect::Format;
use crate::metric_direction;
use crate::observation::{FileFigures, Observation, Run};

/// Two runs never agree in this many digits of times and fractions by chance.
const DIGITS: usize = 8;

/// Reports each run that has the same figures, in the same order, as an earlier run.
pub(crate) fn refuse(files: &mut [FileFigures]) {
    let mut seen = BTreeMap::<Vec<(String, u64)>, Observation>::new();
    for file in files {
        let mut copy = None;
        for run in runs(file).into_iter().filter(|run| has_noise(run)) {
            let figures = run.iter();
            let figures = figures.map(|figure| (figure.metric.clone(), figure.value.to_bits()));
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

/// The figures of each run of a file. All figures with `Run::Own` form one group.
fn runs(file: &FileFigures) -> Vec<Vec<&Observation>> {
    let mut runs = BTreeMap::<&Run, Vec<&Observation>>::new();
    for figure in &file.observations {
        runs.entry(&figure.run).or_default().push(figure);
    }
    runs.into_values().collect()
}

/// Whether these figures carry measurement noise, so that a second run would differ.
/// A metric that varies has noise, and so have times and fractions with many digits.
fn has_noise(run: &[&Observation]) -> bool {
    let mut values = BTreeMap::<(&str, &str), BTreeSet<u64>>::new();
    for figure in run {
        let metric = (figure.arm.as_str(), figure.metric.as_str());
        values
            .entry(metric)
            .or_default()
            .insert(figure.value.to_bits());
    }
    if values.values().any(|values| values.len() > 2) {
        return true;
    }
    let is_measured = |figure: &&&Observation| {
        figure.value.fract() != 0.0 || metric_direction::is_measured(&figure.unit)
    };
    let measured = run
        .iter()
        .filter(is_measured)
        .map(|figure| figure.value.to_bits());
    let measured: BTreeSet<u64> = measured.collect();
    let digits = |bits: u64| {
        let text = format!("{:e}", f64::from_bits(bits));
        let mantissa = text.split('e').next().unwrap_or_default();
        mantissa.bytes().filter(u8::is_ascii_digit).count()
    };
    measured.into_iter().map(digits).sum::<usize>() >= DIGITS
}
