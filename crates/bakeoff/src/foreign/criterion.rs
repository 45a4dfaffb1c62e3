//! criterion's raw samples: `target/criterion/.../{base,new}/{sample.json,raw.csv}`.
//!
//! The directory's name is the arm, the path above it the benchmark. A sample is the time of many
//! iterations, and all samples of a directory come from one process.

use serde::Deserialize;

use super::json::{self, Raw};
use super::sheet::{Reading, Run, Sheet};

#[derive(Deserialize)]
struct Sample<'t> {
    #[serde(borrow)]
    iters: Vec<Raw<'t>>,
    #[serde(borrow)]
    times: Vec<Raw<'t>>,
}

/// Reads `sample.json` of one arm of a benchmark.
pub(super) fn read(text: &str, (arm, benchmark): (&str, &str), sheet: &mut Sheet) {
    let Some(sample) = json::whole::<Sample<'_>>(sheet, text) else {
        return;
    };
    if sample.iters.len() != sample.times.len() {
        let what = format!(
            "{} counts and {} times",
            sample.iters.len(),
            sample.times.len()
        );
        sheet.wrong(0, what, "run the benchmark again");
        return;
    }
    for (count, time) in sample.iters.iter().zip(&sample.times) {
        let line = json::line_of(text, time.get());
        let count = json::number(sheet, text, count, " in iters");
        let time = json::number(sheet, text, time, " in times");
        push((arm, benchmark, "ns"), (time, count), line, sheet);
    }
}

/// Reads `raw.csv`, which criterion writes with its feature `csv_output`.
pub(super) fn read_csv(text: &str, (arm, benchmark): (&str, &str), sheet: &mut Sheet) {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let names = reader.headers().cloned().unwrap_or_default();
    let at = |name: &str| names.iter().position(|one| one == name);
    let columns = (
        at("sample_measured_value"),
        at("iteration_count"),
        at("unit"),
    );
    let (Some(time), Some(count), Some(unit)) = columns else {
        sheet.wrong(
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
            sheet.number(&cell(time), line, " in column \"sample_measured_value\""),
            sheet.number(&cell(count), line, " in column \"iteration_count\""),
        );
        push((arm, benchmark, &cell(unit)), figures, line, sheet);
    }
}

fn push(
    (arm, benchmark, unit): (&str, &str, &str),
    (time, count): (Option<f64>, Option<f64>),
    line: usize,
    sheet: &mut Sheet,
) {
    let (Some(time), Some(count)) = (time, count) else {
        return;
    };
    if count < 1.0 {
        sheet.wrong(
            line,
            format!("no iterations in a sample: {count}"),
            "run the benchmark again",
        );
        return;
    }
    let reading = sheet.reading(benchmark, &format!("{unit}/iteration"), time / count, line);
    let run = Run::Within("process".into());
    sheet.readings.push(Reading {
        arm: arm.into(),
        run,
        ..reading
    });
}
