//! `go test -bench`: one file per arm, as for benchstat.
//!
//! Each line is a sample, and all samples between two heads (`pkg:`) come from one process. Source:
//! the Go benchmark data format, golang.org/design/14313-benchmark-format.

use std::collections::BTreeMap;

use crate::observation::{FileFigures, Observation, Run};

/// Whether a line is a result of a benchmark.
pub(crate) fn is_result(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let named = words
        .next()
        .is_some_and(|word| word.starts_with("Benchmark"));
    named
        && words
            .next()
            .is_some_and(|count| count.parse::<u64>().is_ok())
        && words.count() >= 2
}

/// Reads the samples of one arm.
pub(crate) fn read(text: &str, found: &mut FileFigures) {
    let heads = text.lines().filter_map(|line| line.strip_prefix("pkg:"));
    let mut packages: BTreeMap<&str, u32> = heads.map(|name| (name.trim(), 0)).collect();
    let (are_several, mut package) = (packages.len() > 1, "");
    for (index, line) in text.lines().enumerate() {
        if let Some(name) = line.strip_prefix("pkg:") {
            package = name.trim();
            *packages.entry(package).or_default() += 1;
        } else if line.starts_with("--- FAIL") || line.trim() == "FAIL" {
            let what = format!("a benchmark failed: {:?}", line.trim());
            found.wrong(index + 1, what, "repair it, or take its lines out");
        } else if is_result(line) {
            let process = packages.get(package).copied().unwrap_or_default();
            let prefix = if are_several {
                format!("{package}.")
            } else {
                String::new()
            };
            let run = Run::Within(format!("process {process}"));
            sample((&prefix, line), index + 1, &run, found);
        }
    }
}

fn sample((prefix, line): (&str, &str), number: usize, run: &Run, found: &mut FileFigures) {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or_default();
    let name = name.strip_prefix("Benchmark").unwrap_or(name);
    let rest: Vec<&str> = words.skip(1).collect();
    for pair in rest.chunks(2) {
        let [figure, unit] = pair else {
            found.wrong(
                number,
                format!("a figure without a unit: {:?}", pair[0]),
                "",
            );
            continue;
        };
        let Some(value) = found.number(figure, number, &format!(" before {unit:?}")) else {
            continue;
        };
        let observation = found.observation(
            &format!("{prefix}{} {unit}", processors_off(name)),
            unit,
            value,
            number,
        );
        found.observations.push(Observation {
            run: run.clone(),
            ..observation
        });
    }
}

/// The name without the number of processors that Go appends: `Join-2`.
fn processors_off(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((bare, count)) if count.parse::<u32>().is_ok() => bare,
        _ => name,
    }
}
