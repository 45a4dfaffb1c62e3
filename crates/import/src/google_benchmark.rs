//! google-benchmark's JSON: one file is one process of one arm, its repetitions are samples.
//!
//! A failed or skipped benchmark, and a counter that is not a number, are left out with their
//! reason; the others are judged.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::json::{self, Lines, Object, Raw};
use crate::observation::{FileFigures, Observation, Role, Run};

#[derive(Deserialize)]
struct Output<'t> {
    #[serde(borrow)]
    benchmarks: Vec<Object<'t>>,
}

/// Keys that are never figures.
const SETTINGS: [&str; 9] = [
    "family_index",
    "per_family_instance_index",
    "repetitions",
    "repetition_index",
    "threads",
    "iterations",
    "aggregate_unit",
    "error_occurred",
    "skipped",
];

/// Reads the repetitions of one process.
pub(crate) fn read(text: &str, file: &mut FileFigures) {
    let text = &*json::with_nan_as_null(text);
    let Some(output) = json::whole::<Output<'_>>(file, text) else {
        return;
    };
    let lines = &Lines::new(text);
    let mut identities = BTreeMap::new();
    let (mut count, mut failed) = (0, 0);
    for benchmark in &output.benchmarks {
        if benchmark.word("run_type").as_deref() == Some("aggregate") {
            continue;
        }
        count += 1;
        let full_name = benchmark.word("name").unwrap_or_default();
        let name = benchmark.word("run_name").unwrap_or(full_name.clone());
        let first = benchmark.values().next();
        let line = first.map_or(0, |raw| lines.of(raw.get()));
        let family = benchmark.get("family_index").map(|raw| raw.get());
        let identity = (full_name, family);
        if *identities.entry(name.clone()).or_insert(identity.clone()) != identity {
            let remedy = "give each a name of its own, or choose one with --benchmark_filter";
            file.wrong(line, format!("two benchmarks of one name: {name}"), remedy);
        }
        if is_true(benchmark, "error_occurred") {
            failed += 1;
            leave_out(benchmark, &name, line, "failed", "error_message", file);
        } else if is_true(benchmark, "skipped") {
            leave_out(benchmark, &name, line, "was skipped", "skip_message", file);
        } else {
            repetition(lines, &name, benchmark, file);
        }
    }
    if count > 0 {
        file.failures("benchmarks failed", f64::from(failed) / f64::from(count), 1);
    } else if !output.benchmarks.is_empty() {
        let remedy = "run without --benchmark_report_aggregates_only";
        file.wrong(0, "only means and deviations, no repetitions", remedy);
    }
}

fn is_true(benchmark: &Object<'_>, key: &str) -> bool {
    benchmark.get(key).is_some_and(|raw| raw.get() == "true")
}

fn leave_out(
    benchmark: &Object<'_>,
    name: &str,
    line: usize,
    what: &str,
    message_key: &str,
    file: &mut FileFigures,
) {
    let why = benchmark.word(message_key).unwrap_or_default();
    let why = format!("it {what} with {why:?}");
    for (key, _) in figures(benchmark) {
        file.leave_out(&why, metric(name, key), line);
    }
}

/// The entries that may be figures: no settings and no texts.
fn figures<'b, 't>(benchmark: &'b Object<'t>) -> impl Iterator<Item = (&'b str, Raw<'t>)> {
    let all = benchmark.iter().map(|(key, raw)| (key.as_str(), *raw));
    all.filter(|(key, raw)| {
        let is_text = raw.get().starts_with('"') && !key.ends_with("_time");
        !SETTINGS.contains(key) && !is_text
    })
}

/// Name of a metric. Only the library's own keys lose their `_`, so that the user's counters stay distinct.
fn metric(name: &str, key: &str) -> String {
    match key {
        "real_time" | "cpu_time" => format!("{name} {}", key.replace('_', " ")),
        _ => format!("{name} {key}"),
    }
}

fn repetition(lines: &Lines<'_>, name: &str, benchmark: &Object<'_>, file: &mut FileFigures) {
    let time_unit = benchmark.word("time_unit").unwrap_or_else(|| "ns".into());
    for (key, raw) in figures(benchmark) {
        let (unit, role) = match key {
            "real_time" => (time_unit.as_str(), Role::Judged),
            "cpu_time" => (time_unit.as_str(), Role::OnRequest),
            "bytes_per_second" => ("bytes/s", Role::OnRequest),
            "items_per_second" => ("items/s", Role::OnRequest),
            _ => ("", Role::OnRequest),
        };
        let (line, metric) = (lines.of(raw.get()), metric(name, key));
        if raw.get() == "null" {
            file.leave_out("it is NaN or Infinity", metric, line);
            continue;
        }
        let is_twice = ["real time", "cpu time"].contains(&key);
        if is_twice && benchmark.contains_key(&key.replace(' ', "_")) {
            let what = format!("a counter with the name of a time: {metric}");
            file.wrong(line, what, "rename the counter");
        }
        let Some(value) = json::number(file, lines, raw, &format!(" in {key}")) else {
            continue;
        };
        file.add(Observation {
            role,
            quantity: Some(key.into()),
            run: Run::Within("process".into()),
            ..file.observation(&metric, unit, value, line)
        });
    }
}
