//! oha's `--output-format json`: one file is one run of one arm.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::json::{self, Lines, Object, Raw};
use crate::observation::{FileFigures, Observation, Role, Run};

#[derive(Deserialize)]
struct Output<'t> {
    #[serde(borrow)]
    summary: Summary<'t>,
    #[serde(borrow, rename = "latencyPercentiles", default)]
    latencies: Object<'t>,
    #[serde(rename = "statusCodeDistribution", default)]
    statuses: BTreeMap<String, u64>,
    #[serde(rename = "errorDistribution", default)]
    errors: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Summary<'t> {
    #[serde(borrow, rename = "requestsPerSec")]
    requests: Raw<'t>,
    #[serde(borrow, rename = "successRate")]
    successes: Option<Raw<'t>>,
    #[serde(borrow)]
    average: Option<Raw<'t>>,
}

/// Percentiles that are judged by default.
const MAIN: [&str; 2] = ["p50", "p99"];

/// oha's name for requests that it aborted itself at the end of a run; they do not count.
const CUT_OFF: &str = "aborted due to deadline";

/// Reads one run.
pub(crate) fn read(text: &str, file: &mut FileFigures) {
    file.is_one_run = true;
    let Some(output) = json::whole::<Output<'_>>(file, text) else {
        return;
    };
    let lines = &Lines::new(text);
    let summary = &output.summary;
    let summary = [
        (
            "requests",
            "requests/s",
            Some(summary.requests),
            Role::Judged,
        ),
        ("success rate", "share", summary.successes, Role::OnRequest),
        ("latency mean", "s", summary.average, Role::OnRequest),
    ];
    let mut figures = Vec::new();
    for (metric, unit, raw, role) in summary {
        figures.extend(raw.map(|raw| (metric.to_string(), unit, raw, role)));
    }
    for (name, raw) in output.latencies.iter() {
        let is_main = MAIN.contains(&name.as_str());
        let role = if is_main {
            Role::Judged
        } else {
            Role::OnRequest
        };
        figures.push((format!("latency {name}"), "s", *raw, role));
    }
    for (metric, unit, raw, role) in figures {
        let line = lines.of(raw.get());
        // Without a single response there is no latency, and oha writes null.
        if raw.get() == "null" {
            file.leave_out("it is null", metric, line);
            continue;
        }
        let Some(value) = json::number(file, lines, raw, &format!(" in {metric}")) else {
            continue;
        };
        let observation = file.observation(&metric, unit, value, line);
        let run = Run::Within("file".into());
        file.add(Observation {
            role,
            run,
            ..observation
        });
    }
    if let Some(share) = failed(&output) {
        file.failures("failed", share, 1);
        if share > 0.0 {
            let remark = "oha counts failed requests in its rate and latencies too";
            file.remarks.insert(remark.into());
        }
    }
}

/// The share of requests without a 2xx or 3xx response. oha's own `successRate` counts any response
/// as a success, whatever its status.
fn failed(output: &Output<'_>) -> Option<f64> {
    let (mut all, mut failed) = (0, 0);
    for (status, count) in &output.statuses {
        all += count;
        failed += if status.starts_with(['2', '3']) {
            0
        } else {
            *count
        };
    }
    for (_, count) in output.errors.iter().filter(|(error, _)| *error != CUT_OFF) {
        all += count;
        failed += count;
    }
    if all > 0 {
        return Some(failed as f64 / all as f64);
    }
    let success = output.summary.successes?.get().parse::<f64>().ok()?;
    Some(1.0 - success)
}
