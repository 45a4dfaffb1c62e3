//! k6's summary: one file is one run of one arm.
//!
//! Three forms are read: that of `--summary-export`, that of `handleSummary`, which nests the figures one
//! level deeper, and that of `--new-machine-readable-summary`, which lists its metrics. A percentile of
//! a run is one figure, however many requests it summarizes.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::json::{self, Lines, Object, Raw};
use crate::observation::{FileFigures, Observation, Role, Run};

#[derive(Deserialize)]
struct Summary<'t> {
    #[serde(borrow)]
    metrics: Option<Object<'t>>,
    #[serde(borrow)]
    results: Option<Results<'t>>,
    #[serde(default)]
    config: Config,
}

/// The results of the machine-readable form.
#[derive(Deserialize)]
struct Results<'t> {
    #[serde(borrow)]
    metrics: Vec<Object<'t>>,
    #[serde(default)]
    checks: serde_json::Value,
}

#[derive(Default, Deserialize)]
struct Config {
    /// Duration of the run in seconds. In the machine-readable form counters have no rate.
    duration: Option<f64>,
}

/// A metric in any of the forms.
struct Metric<'t> {
    name: String,
    kind: Option<String>,
    is_time: bool,
    figures: Object<'t>,
    line: usize,
}

impl<'t> Metric<'t> {
    fn new(lines: &Lines<'_>, name: &str, outer: Object<'t>) -> Self {
        let line = outer.values().next().map_or(0, |raw| lines.of(raw.get()));
        let is_time = outer.word("contains").map_or_else(
            || name.starts_with("http_req_") || name.ends_with("_duration"),
            |contains| contains == "time",
        );
        Self {
            name: name.into(),
            kind: outer.word("type"),
            is_time,
            line,
            figures: if outer.contains_key("values") {
                outer.object("values").unwrap_or_default()
            } else {
                outer
            },
        }
    }

    /// Whether it is a share (k6's rate), not a count.
    fn is_share(&self) -> bool {
        let has = |key: &str| self.figures.contains_key(key);
        self.kind.as_deref() == Some("rate")
            || has("passes")
            || has("matches")
            || (has("rate") && !has("count"))
            || (has("value") && !has("min") && !has("count"))
    }

    /// The share, which is `value` in an export and `rate` elsewhere.
    fn share(&self) -> Option<f64> {
        self.figures
            .figure("rate")
            .or_else(|| self.figures.figure("value"))
    }
}

/// Metrics and figures that are judged by default.
const MAIN: [(&str, &str); 4] = [
    ("http_reqs", "rate"),
    ("http_req_duration", "med"),
    ("http_req_duration", "p(95)"),
    ("http_req_duration", "p(99)"),
];

/// Reads one run.
pub(crate) fn read(text: &str, file: &mut FileFigures) {
    file.is_one_run = true;
    let Some(summary) = json::whole::<Summary<'_>>(file, text) else {
        return;
    };
    let lines = &Lines::new(text);
    let mut metrics = Vec::new();
    let (mut names, mut thresholds) = (BTreeSet::new(), Vec::new());
    for (name, raw) in summary.metrics.iter().flat_map(|all| all.iter()) {
        match serde_json::from_str::<Object<'_>>(raw.get()) {
            Ok(outer) => {
                thresholds.extend(threshold_results(name, &outer, file));
                metrics.push(Metric::new(lines, name, outer));
            }
            Err(why) => {
                let line = lines.of(raw.get());
                file.wrong(
                    line,
                    format!("not a metric of k6: {name}: {why}"),
                    "export the file again",
                );
            }
        }
    }
    for outer in summary.results.iter().flat_map(|results| &results.metrics) {
        let outer: Object<'_> = outer.clone();
        let name = outer.word("name").unwrap_or_default();
        thresholds.extend(threshold_results(&name, &outer, file));
        let metric = Metric::new(lines, &name, outer);
        if !names.insert(name) {
            file.wrong(
                metric.line,
                format!("two metrics of one name: {}", metric.name),
                "export the file again",
            );
        }
        metrics.push(metric);
    }
    for metric in &metrics {
        read_metric(lines, metric, summary.config.duration, file);
    }
    failures(&metrics, summary.results.as_ref(), file);
    let failed = thresholds.iter().filter(|is_ok| !**is_ok).count();
    if !thresholds.is_empty() {
        file.failures(
            "thresholds failed",
            failed as f64 / thresholds.len() as f64,
            1,
        );
    }
}

fn read_metric(
    lines: &Lines<'_>,
    metric: &Metric<'_>,
    seconds: Option<f64>,
    file: &mut FileFigures,
) {
    let (name, is_share) = (metric.name.as_str(), metric.is_share());
    let is_trend = metric.figures.contains_key("med");
    let has_rate = metric.figures.contains_key("rate");
    for (figure, raw) in metric
        .figures
        .iter()
        .filter(|(figure, _)| is_figure(figure))
    {
        if is_share && figure == "value" && has_rate {
            continue;
        }
        let figure = if is_share && figure == "value" {
            "rate"
        } else {
            figure
        };
        let unit = match figure {
            _ if is_share => "share",
            "rate" => "/s",
            _ if is_trend && metric.is_time => "ms",
            _ => "",
        };
        push(lines, name, figure, unit, raw, file);
    }
    let Some(count) = metric
        .figures
        .get("count")
        .filter(|_| !has_rate && !is_trend)
    else {
        return;
    };
    match seconds.filter(|seconds| *seconds > 0.0) {
        Some(seconds) => {
            let count = metric.figures.figure("count").unwrap_or_default();
            observe(name, "rate", "/s", count / seconds, metric.line, file);
        }
        None => push(lines, name, "count", "", count, file),
    }
}

fn push(
    lines: &Lines<'_>,
    name: &str,
    figure: &str,
    unit: &str,
    raw: Raw<'_>,
    file: &mut FileFigures,
) {
    let line = lines.of(raw.get());
    if raw.get() == "null" {
        file.leave_out("it is null", format!("{name} {figure}"), line);
    } else if let Some(value) = json::number(file, lines, raw, &format!(" in {name} {figure}")) {
        observe(name, figure, unit, value, line, file);
    }
}

fn observe(name: &str, figure: &str, unit: &str, value: f64, line: usize, file: &mut FileFigures) {
    let role = match (name, figure) {
        ("http_req_failed", "rate") => Role::Failures { even_zero: true },
        // A run without a rate has only the count.
        ("http_reqs", "count") => Role::Judged,
        pair if MAIN.contains(&pair) => Role::Judged,
        _ => Role::OnRequest,
    };
    // Tags, as in `http_reqs{name:error}`, do not affect the direction.
    let quantity = format!("{} {figure}", name.split('{').next().unwrap_or_default());
    let observation = file.observation(&format!("{name} {figure}"), unit, value, line);
    let run = Run::Within("file".into());
    file.add(Observation {
        quantity: Some(quantity),
        role,
        run,
        ..observation
    });
}

fn is_figure(figure: &str) -> bool {
    matches!(figure, "avg" | "med" | "min" | "max" | "rate" | "value") || figure.starts_with("p(")
}

// ---- failures ----

/// Adds what k6 itself counts as failed beside requests: checks, and iterations that never started.
fn failures(metrics: &[Metric<'_>], results: Option<&Results<'_>>, file: &mut FileFigures) {
    let metric = |name: &str| metrics.iter().find(|metric| metric.name == name);
    let count = |name: &str| metric(name).and_then(|metric| metric.figures.figure("count"));
    let dropped = count("dropped_iterations").unwrap_or_default();
    if let Some(started) = count("iterations").or((dropped > 0.0).then_some(0.0))
        && started + dropped > 0.0
    {
        let line = metric("dropped_iterations").map_or(1, |metric| metric.line);
        file.failures("iterations dropped", dropped / (started + dropped), line);
    }
    let from_list = results.and_then(|results| checks_failed(&results.checks));
    let from_map = metric("checks")
        .and_then(Metric::share)
        .map(|passed| 1.0 - passed);
    if let Some(share) = from_list.or(from_map) {
        let line = metric("checks").map_or(1, |metric| metric.line);
        file.failures("checks failed", share, line);
    }
}

/// Share of failed checks in the machine-readable form, from each check or from the total.
fn checks_failed(checks: &serde_json::Value) -> Option<f64> {
    let mut keys = ["results", "orderedChecks"].iter();
    let Some(list) = keys.find_map(|key| checks[*key].as_array()) else {
        let all = checks["metrics"].as_array()?;
        let failed = all
            .iter()
            .find(|metric| metric["name"] == "checks_failed")?;
        return failed["values"]["rate"].as_f64();
    };
    let sum = |key: &str| {
        let counts = list.iter().filter_map(|check| check[key].as_f64());
        counts.sum::<f64>()
    };
    let (passes, fails) = (sum("passes"), sum("fails"));
    (passes + fails > 0.0).then(|| fails / (passes + fails))
}

/// Whether each threshold holds. `handleSummary` writes `{"ok": false}`; in an export `true` means crossed.
fn threshold_results(name: &str, outer: &Object<'_>, file: &mut FileFigures) -> Vec<bool> {
    let thresholds = outer.object("thresholds").unwrap_or_default();
    let is_ok = |raw: &Raw<'_>| {
        let threshold = serde_json::from_str::<Object<'_>>(raw.get()).ok();
        let is_ok = threshold.and_then(|threshold| Some(threshold.get("ok")?.get() == "true"));
        is_ok.unwrap_or(raw.get() == "false")
    };
    for (rule, _) in thresholds.iter().filter(|(_, raw)| !is_ok(raw)) {
        file.remarks
            .insert(format!("a threshold of k6 failed: {name} {rule}"));
    }
    thresholds.values().map(is_ok).collect()
}
