//! google-benchmark's JSON: one file is one process of one arm, its repetitions are samples.
//!
//! A benchmark that failed or was skipped, and a counter that is no number, are left out with their
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

/// Keys that are no figures of the user's, whatever they hold.
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
pub(crate) fn read(text: &str, found: &mut FileFigures) {
    let text = &*json::with_nan_as_null(text);
    let Some(output) = json::whole::<Output<'_>>(found, text) else {
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
            found.wrong(line, format!("two benchmarks of one name: {name}"), remedy);
        }
        if is_true(benchmark, "error_occurred") {
            failed += 1;
            leave_out(benchmark, (&name, line, "failed", "error_message"), found);
        } else if is_true(benchmark, "skipped") {
            leave_out(
                benchmark,
                (&name, line, "was skipped", "skip_message"),
                found,
            );
        } else {
            repetition(lines, &name, benchmark, found);
        }
    }
    if count > 0 {
        found.failures("benchmarks failed", f64::from(failed) / f64::from(count), 1);
    } else if !output.benchmarks.is_empty() {
        let remedy = "run without --benchmark_report_aggregates_only";
        found.wrong(0, "only means and deviations, no repetitions", remedy);
    }
}

fn is_true(benchmark: &Object<'_>, key: &str) -> bool {
    benchmark.get(key).is_some_and(|raw| raw.get() == "true")
}

fn leave_out(
    benchmark: &Object<'_>,
    (name, line, what, message): (&str, usize, &str, &str),
    found: &mut FileFigures,
) {
    let why = benchmark.word(message).unwrap_or_default();
    let why = format!("it {what} with {why:?}");
    for (key, _) in figures(benchmark) {
        found.leave_out(&why, metric(name, key), line);
    }
}

/// What may be a figure: settings and texts are none.
fn figures<'b, 't>(benchmark: &'b Object<'t>) -> impl Iterator<Item = (&'b str, Raw<'t>)> {
    let all = benchmark.iter().map(|(key, raw)| (key.as_str(), *raw));
    all.filter(|(key, raw)| {
        let is_text = raw.get().starts_with('"') && !key.ends_with("_time");
        !SETTINGS.contains(key) && !is_text
    })
}

/// Only the library's own keys lose their `_`: two counters of the user's stay two.
fn metric(name: &str, key: &str) -> String {
    match key {
        "real_time" | "cpu_time" => format!("{name} {}", key.replace('_', " ")),
        _ => format!("{name} {key}"),
    }
}

fn repetition(lines: &Lines<'_>, name: &str, benchmark: &Object<'_>, found: &mut FileFigures) {
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
            found.leave_out("it is NaN or Infinity", metric, line);
            continue;
        }
        let is_twice = ["real time", "cpu time"].contains(&key);
        if is_twice && benchmark.contains_key(&key.replace(' ', "_")) {
            let what = format!("a counter with the name of a time: {metric}");
            found.wrong(line, what, "rename the counter");
        }
        let Some(value) = json::number(found, lines, raw, &format!(" in {key}")) else {
            continue;
        };
        found.add(Observation {
            role,
            quantity: Some(key.into()),
            run: Run::Within("process".into()),
            ..found.observation(&metric, unit, value, line)
        });
    }
}
