//! google-benchmark's JSON: one file is one process of one arm, its repetitions are samples.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::json::{self, Raw};
use crate::observation::{FileFigures, Observation, Run};

#[derive(Deserialize)]
struct Output<'t> {
    #[serde(borrow)]
    benchmarks: Vec<BTreeMap<&'t str, Raw<'t>>>,
}

/// Keys that are no figures of the user's, whatever they hold.
const SETTINGS: [&str; 7] = [
    "family_index",
    "per_family_instance_index",
    "repetitions",
    "repetition_index",
    "threads",
    "iterations",
    "aggregate_unit",
];

/// Reads the repetitions of one process.
pub(crate) fn read(text: &str, found: &mut FileFigures) {
    let Some(output) = json::whole::<Output<'_>>(found, text) else {
        return;
    };
    let mut only_aggregates = !output.benchmarks.is_empty();
    for benchmark in &output.benchmarks {
        if word(benchmark, "run_type").as_deref() == Some("aggregate") {
            continue;
        }
        only_aggregates = false;
        let name = word(benchmark, "run_name").or_else(|| word(benchmark, "name"));
        let name = name.unwrap_or_default();
        if benchmark
            .get("error_occurred")
            .is_some_and(|raw| raw.get() == "true")
        {
            let line = json::line_of(text, benchmark["error_occurred"].get());
            let why = word(benchmark, "error_message").unwrap_or_default();
            let what = format!("{name} failed: {why:?}");
            found.wrong(
                line,
                what,
                "repair it, or leave it out with --benchmark_filter",
            );
            continue;
        }
        repetition(text, &name, benchmark, found);
    }
    if only_aggregates {
        let remedy = "run without --benchmark_report_aggregates_only";
        found.wrong(0, "only means and deviations, no repetitions", remedy);
    }
}

fn repetition(
    text: &str,
    name: &str,
    benchmark: &BTreeMap<&str, Raw<'_>>,
    found: &mut FileFigures,
) {
    let time_unit = word(benchmark, "time_unit").unwrap_or_else(|| "ns".into());
    for (key, raw) in benchmark {
        let is_text = raw.get().starts_with('"') && !key.ends_with("_time");
        if SETTINGS.contains(key) || is_text {
            continue;
        }
        let (unit, aside) = match *key {
            "real_time" => (time_unit.as_str(), false),
            "cpu_time" => (time_unit.as_str(), true),
            "bytes_per_second" => ("bytes/s", true),
            "items_per_second" => ("items/s", true),
            _ => ("", true),
        };
        let Some(value) = json::number(found, text, raw, &format!(" in {key}")) else {
            continue;
        };
        let metric = format!("{name} {}", key.replace('_', " "));
        let observation = found.observation(&metric, unit, value, json::line_of(text, raw.get()));
        let run = Run::Within("process".into());
        found.observations.push(Observation {
            aside,
            run,
            ..observation
        });
    }
}

fn word(benchmark: &BTreeMap<&str, Raw<'_>>, key: &str) -> Option<String> {
    serde_json::from_str(benchmark.get(key)?.get()).ok()
}
