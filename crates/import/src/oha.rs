//! oha's `--output-format json`: one file is one run of one arm.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::json::{self, Raw};
use crate::observation::{FileFigures, Observation, Run};

#[derive(Deserialize)]
struct Output<'t> {
    #[serde(borrow)]
    summary: Summary<'t>,
    #[serde(borrow, rename = "latencyPercentiles", default)]
    latencies: BTreeMap<String, Raw<'t>>,
}

#[derive(Deserialize)]
struct Summary<'t> {
    #[serde(borrow, rename = "requestsPerSec")]
    requests: Raw<'t>,
    #[serde(borrow, rename = "successRate")]
    successes: Raw<'t>,
    #[serde(borrow)]
    average: Raw<'t>,
}

/// Percentiles that are judged without being asked for.
const MAIN: [&str; 2] = ["p50", "p99"];

/// Reads one run.
pub(crate) fn read(text: &str, found: &mut FileFigures) {
    found.is_one_run = true;
    let Some(output) = json::whole::<Output<'_>>(found, text) else {
        return;
    };
    let summary = &output.summary;
    let mut figures = vec![
        (
            "requests".to_string(),
            "requests/s",
            summary.requests,
            false,
        ),
        ("success rate".to_string(), "share", summary.successes, true),
        ("latency mean".to_string(), "s", summary.average, true),
    ];
    for (name, raw) in &output.latencies {
        let aside = !MAIN.contains(&name.as_str());
        figures.push((format!("latency {name}"), "s", *raw, aside));
    }
    for (metric, unit, raw, aside) in figures {
        let Some(value) = json::number(found, text, raw, &format!(" in {metric}")) else {
            continue;
        };
        let observation = found.observation(&metric, unit, value, json::line_of(text, raw.get()));
        found.observations.push(Observation {
            aside,
            run: Run::Within("file".into()),
            ..observation
        });
    }
    let success = found
        .observations
        .iter()
        .find(|one| one.metric == "success rate");
    if success.is_some_and(|one| one.value < 1.0) {
        let remark = format!("{}: not all requests succeeded", found.file);
        found.remarks.insert(remark);
    }
}
