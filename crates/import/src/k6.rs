//! k6's summary, from `--summary-export` or from `handleSummary`: one file is one run of one arm.
//!
//! A percentile of a run is one figure, however many requests are behind it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::json::{self, Raw};
use crate::observation::{FileFigures, Observation, Run};

#[derive(Deserialize)]
struct Summary<'t> {
    #[serde(borrow)]
    metrics: BTreeMap<String, BTreeMap<String, Raw<'t>>>,
}

/// Metrics and figures that are judged without being asked for.
const MAIN: [(&str, &str); 5] = [
    ("http_reqs", "rate"),
    ("http_req_duration", "med"),
    ("http_req_duration", "p(95)"),
    ("http_req_duration", "p(99)"),
    ("http_req_failed", "rate"),
];

/// Reads one run.
pub(crate) fn read(text: &str, found: &mut FileFigures) {
    found.is_one_run = true;
    let Some(summary) = json::whole::<Summary<'_>>(found, text) else {
        return;
    };
    for (name, figures) in &summary.metrics {
        // Metrics of `handleSummary` have their figures one level lower than exported ones.
        let inner = figures
            .get("values")
            .map(|raw| serde_json::from_str(raw.get()));
        let figures = match inner {
            Some(Ok(values)) => values,
            Some(Err(_)) => BTreeMap::new(),
            None => figures
                .iter()
                .map(|(figure, raw)| (figure.clone(), *raw))
                .collect(),
        };
        metric(text, name, &figures, found);
    }
}

fn metric(text: &str, name: &str, figures: &BTreeMap<String, Raw<'_>>, found: &mut FileFigures) {
    let is_trend = figures.contains_key("med");
    for (figure, raw) in figures.iter().filter(|(figure, _)| is_figure(figure)) {
        // The share of failures is `value` in an export and `rate` elsewhere.
        let is_share =
            figures.contains_key("passes") && ["value", "rate"].contains(&figure.as_str());
        let figure = if is_share { "rate" } else { figure };
        let unit = match figure {
            _ if is_share => "share",
            "rate" => "/s",
            _ if is_trend && is_time(name) => "ms",
            _ => "",
        };
        let Some(value) = json::number(found, text, raw, &format!(" in {name} {figure}")) else {
            continue;
        };
        let line = json::line_of(text, raw.get());
        let observation = found.observation(&format!("{name} {figure}"), unit, value, line);
        let aside = !MAIN.contains(&(name, figure));
        found.observations.push(Observation {
            aside,
            run: Run::Within("file".into()),
            ..observation
        });
    }
}

fn is_figure(figure: &str) -> bool {
    matches!(figure, "avg" | "med" | "min" | "max" | "rate" | "value") || figure.starts_with("p(")
}

fn is_time(name: &str) -> bool {
    name.starts_with("http_req_") || name.ends_with("_duration")
}
