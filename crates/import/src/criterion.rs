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
pub(crate) fn read(text: &str, (arm, benchmark): (&str, &str), file: &mut FileFigures) {
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
        push((arm, benchmark, "ns"), (time, count), line, file);
    }
}

/// Reads `raw.csv`, which criterion's feature `csv_output` writes.
pub(crate) fn read_csv(text: &str, (arm, benchmark): (&str, &str), file: &mut FileFigures) {
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
        let figures = (
            file.number(&cell(time), line, " in column \"sample_measured_value\""),
            file.number(&cell(count), line, " in column \"iteration_count\""),
        );
        push((arm, benchmark, &cell(unit)), figures, line, file);
    }
}

fn push(
    (arm, benchmark, unit): (&str, &str, &str),
    (time, count): (Option<f64>, Option<f64>),
    line: usize,
    file: &mut FileFigures,
) {
    let (Some(time), Some(count)) = (time, count) else {
        return;
    };
    if count < 1.0 {
        file.wrong(
            line,
            format!("no iterations in a sample: {count}"),
            "run the benchmark again",
        );
        return;
    }
    let observation = file.observation(benchmark, &format!("{unit}/iteration"), time / count, line);
    let run = Run::Within("process".into());
    file.add(Observation {
        arm: arm.into(),
        quantity: Some(String::new()),
        run,
        ..observation
    });
}
