//! criterion's raw samples: `target/criterion/.../{base,new}/{sample.json,raw.csv}`.
//!
//! The directory's name is the arm, the path above it the benchmark. A sample is the time of many
//! iterations, and all samples of a directory come from one process.

use serde::Deserialize;

use crate::json::{self, Lines, Raw};
use crate::observation::{FileFigures, Observation, Run};

#[derive(Deserialize)]
struct Sample<'t> {
    #[serde(borrow)]
    iters: Vec<Raw<'t>>,
    #[serde(borrow)]
    times: Vec<Raw<'t>>,
}

/// Reads `sample.json` of one arm and benchmark.
pub(crate) fn read(text: &str, arm: &str, benchmark: &str, file: &mut FileFigures) {
    let Some(sample) = json::whole::<Sample<'_>>(file, text) else {
        return;
    };
    if sample.iters.len() != sample.times.len() {
        let what = format!(
            "{} counts and {} times",
            sample.iters.len(),
            sample.times.len()
        );
        file.wrong(0, what, "run the benchmark again");
        return;
    }
    let lines = &Lines::new(text);
    for (count, time) in sample.iters.iter().zip(&sample.times) {
        let line = lines.of(time.get());
        let count = json::number(file, lines, count, " in iters");
        let time = json::number(file, lines, time, " in times");
        if let (Some(time), Some(count)) = (time, count) {
            push(arm, benchmark, "ns", time, count, line, file);
        }
    }
}

/// Reads `raw.csv`, which criterion's feature `csv_output` writes.
pub(crate) fn read_csv(text: &str, arm: &str, benchmark: &str, file: &mut FileFigures) {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let names = reader.headers().cloned().unwrap_or_default();
    let at = |name: &str| names.iter().position(|column| column == name);
    let columns = (
        at("sample_measured_value"),
        at("iteration_count"),
        at("unit"),
    );
    let (Some(time), Some(count), Some(unit)) = columns else {
        file.wrong(
            1,
            "not criterion's columns",
            "give the directory target/criterion",
        );
        return;
    };
    for record in reader.records().flatten() {
        let line = record.position().map_or(0, |at| at.line() as usize);
        let cell = |column: usize| record.get(column).unwrap_or_default().to_string();
        let time = file.number(&cell(time), line, " in column \"sample_measured_value\"");
        let count = file.number(&cell(count), line, " in column \"iteration_count\"");
        if let (Some(time), Some(count)) = (time, count) {
            push(arm, benchmark, &cell(unit), time, count, line, file);
        }
    }
}

fn push(
    arm: &str,
    benchmark: &str,
    unit: &str,
    time: f64,
    count: f64,
    line: usize,
    file: &mut FileFigures,
) {
    if count < 1.0 {
        let what = format!("no iterations in a sample: {count}");
        file.wrong(line, what, "run the benchmark again");
        return;
    }
    let unit = format!("{unit}/iteration");
    file.add(Observation {
        arm: arm.into(),
        quantity: Some(String::new()),
        run: Run::Within("process".into()),
        ..file.observation(benchmark, &unit, time / count, line)
    });
}
