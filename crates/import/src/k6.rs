//! k6's summary: one file is one run of one arm.
//!
//! Three forms are read: that of `--summary-export`, that of `handleSummary`, whose figures stand one
//! level lower, and that of `--new-machine-readable-summary`, whose metrics are a list. A percentile of
//! a run is one figure, however many requests are behind it.

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
    /// How long the run took, in seconds: counters of the machine-readable form have no rate.
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

    /// Whether it is the share of what was so, not a count.
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

/// Metrics and figures that are judged without being asked for.
const MAIN: [(&str, &str); 4] = [
    ("http_reqs", "rate"),
    ("http_req_duration", "med"),
    ("http_req_duration", "p(95)"),
    ("http_req_duration", "p(99)"),
];

/// Reads one run.
pub(crate) fn read(text: &str, found: &mut FileFigures) {
    found.is_one_run = true;
    let Some(summary) = json::whole::<Summary<'_>>(found, text) else {
        return;
    };
    let lines = &Lines::new(text);
    let mut metrics = Vec::new();
    let (mut names, mut thresholds) = (BTreeSet::new(), Vec::new());
    for (name, raw) in summary.metrics.iter().flat_map(|all| all.iter()) {
        match serde_json::from_str::<Object<'_>>(raw.get()) {
            Ok(outer) => {
                thresholds.extend(are_thresholds_ok(name, &outer, found));
                metrics.push(Metric::new(lines, name, outer));
            }
            Err(why) => {
                let line = lines.of(raw.get());
                found.wrong(
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
        thresholds.extend(are_thresholds_ok(&name, &outer, found));
        let metric = Metric::new(lines, &name, outer);
        if !names.insert(name) {
            found.wrong(
                metric.line,
                format!("two metrics of one name: {}", metric.name),
                "export the file again",
            );
        }
        metrics.push(metric);
    }
    for metric in &metrics {
        read_metric(lines, metric, summary.config.duration, found);
    }
    failures(&metrics, summary.results.as_ref(), found);
    let failed = thresholds.iter().filter(|is_ok| !**is_ok).count();
    if !thresholds.is_empty() {
        found.failures(
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
    found: &mut FileFigures,
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
        push(lines, (name, figure, unit), raw, found);
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
            observe((name, "rate", "/s"), count / seconds, metric.line, found);
        }
        None => push(lines, (name, "count", ""), count, found),
    }
}

fn push(
    lines: &Lines<'_>,
    (name, figure, unit): (&str, &str, &str),
    raw: Raw<'_>,
    found: &mut FileFigures,
) {
    let line = lines.of(raw.get());
    if raw.get() == "null" {
        found.leave_out("it is null", format!("{name} {figure}"), line);
    } else if let Some(value) = json::number(found, lines, raw, &format!(" in {name} {figure}")) {
        observe((name, figure, unit), value, line, found);
    }
}

fn observe(
    (name, figure, unit): (&str, &str, &str),
    value: f64,
    line: usize,
    found: &mut FileFigures,
) {
    let role = match (name, figure) {
        ("http_req_failed", "rate") => Role::Failures { even_zero: true },
        // A run without a rate has the count alone.
        ("http_reqs", "count") => Role::Judged,
        pair if MAIN.contains(&pair) => Role::Judged,
        _ => Role::OnRequest,
    };
    // Tags, as in `http_reqs{name:error}`, say nothing of the direction.
    let quantity = format!("{} {figure}", name.split('{').next().unwrap_or_default());
    let observation = found.observation(&format!("{name} {figure}"), unit, value, line);
    let run = Run::Within("file".into());
    found.add(Observation {
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

/// What k6 itself calls failed, beside requests: checks, iterations that were never begun.
fn failures(metrics: &[Metric<'_>], results: Option<&Results<'_>>, found: &mut FileFigures) {
    let metric = |name: &str| metrics.iter().find(|metric| metric.name == name);
    let count = |name: &str| metric(name).and_then(|one| one.figures.figure("count"));
    let dropped = count("dropped_iterations").unwrap_or_default();
    if let Some(begun) = count("iterations").or((dropped > 0.0).then_some(0.0))
        && begun + dropped > 0.0
    {
        let line = metric("dropped_iterations").map_or(1, |metric| metric.line);
        found.failures("iterations dropped", dropped / (begun + dropped), line);
    }
    let of_list = results.and_then(|results| checks_failed(&results.checks));
    let of_map = metric("checks")
        .and_then(Metric::share)
        .map(|passed| 1.0 - passed);
    if let Some(share) = of_list.or(of_map) {
        let line = metric("checks").map_or(1, |metric| metric.line);
        found.failures("checks failed", share, line);
    }
}

/// The share of failed checks in the machine-readable form: of each check, or of all together.
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

/// Thresholds have `{"ok": false}` in `handleSummary`; in an export `true` means that one was crossed.
fn are_thresholds_ok(name: &str, outer: &Object<'_>, found: &mut FileFigures) -> Vec<bool> {
    let thresholds = outer.object("thresholds").unwrap_or_default();
    let is_ok = |raw: &Raw<'_>| {
        let threshold = serde_json::from_str::<Object<'_>>(raw.get()).ok();
        let is_ok = threshold.and_then(|threshold| Some(threshold.get("ok")?.get() == "true"));
        is_ok.unwrap_or(raw.get() == "false")
    };
    for (rule, _) in thresholds.iter().filter(|(_, raw)| !is_ok(raw)) {
        found
            .remarks
            .insert(format!("a threshold of k6 failed: {name} {rule}"));
    }
    thresholds.values().map(is_ok).collect()
}
