//! Names of the metrics that trials of a workload can have. A leading `*` in a name matches
//! anything.

use plan::WorkloadPlan;
use record::hardware_counters;

use crate::database::procedure_words;

/// Metrics of every load over HTTP.
const WEB: &[&str] = &[
    "capacity",
    "throughput",
    "latency-mean",
    "latency-p50",
    "latency-p99",
    "server-cpu",
    "cpu-time",
    "failed",
    // Of a system on the network.
    "system-cpu",
    "system-memory",
];

const RAMP: &[&str] = &["peak", "peak-at", "knee", "kept-of-peak"];

/// Names by kind. Other kinds have names that are unknown before a trial.
const NAMES: &[(&str, &[&[&str]])] = &[
    (
        "accept",
        &[&[
            "throughput-wake-all",
            "throughput-wake-one",
            "wakeups-wake-all",
            "wakeups-wake-one",
            "cpu-wake-all",
            "cpu-wake-one",
            "cpu-for-nothing",
        ]],
    ),
    (
        "app-trade",
        &[
            WEB,
            &[
                "transactions",
                "sessions",
                "database-cpu",
                "repeated",
                "collection-time",
                "safepoint-time",
            ],
        ],
    ),
    ("http", &[WEB]),
    (
        "interactive",
        &[&[
            "wakeup-p99",
            "wakeup-p50",
            "wakeup-mean",
            "wakeup-max",
            "growth",
        ]],
    ),
    (
        "io-mix",
        &[&["read-time", "read-rate", "write-rate", "read-block-max"]],
    ),
    ("locks", &[&["*-contended", "*-alone"]]),
    ("sched-yield", &[&["yield-last", "yield-first", "growth"]]),
    (
        "smb",
        &[&[
            "capacity",
            "throughput",
            "latency-mean",
            "errors",
            "server-cpu",
        ]],
    ),
    ("smb-ramp", &[RAMP, &["errors"]]),
    ("threads", &[&["total-time", "per-thread"]]),
    ("web-browse", &[WEB, &["sessions"]]),
    ("web-cgi", &[WEB, &["database-cpu"]]),
    ("web-many", &[WEB]),
    ("web-open", &[WEB]),
    ("web-ramp", &[RAMP, WEB]),
    (
        "web-slow",
        &[&["conforming", "conforming-share", "memory-each"], WEB],
    ),
    (
        "web-soak",
        &[
            WEB,
            &[
                "pages",
                "unsuccessful",
                "cpu-user",
                "cpu-system",
                "memory",
                "swap",
                "kept",
            ],
        ],
    ),
    ("web-static", &[WEB]),
];

/// Names of the metrics that a workload can have, those of hardware counters last; `None` if they
/// are unknown before a trial.
pub fn known(workload: &WorkloadPlan) -> Option<Vec<String>> {
    let mut names = without_counters(workload)?;
    names.extend(hardware_counters::metrics().map(String::from));
    Some(names)
}

fn without_counters(workload: &WorkloadPlan) -> Option<Vec<String>> {
    match workload.kind.as_str() {
        "command" => Some(of_command(workload)),
        "database" => {
            let others = ["total-time", "errors", "server-cpu"].into_iter();
            let names = others.chain(procedure_words());
            Some(names.map(String::from).collect())
        }
        kind => {
            let (_, lists) = NAMES.iter().find(|(word, _)| *word == kind)?;
            Some(lists.concat().into_iter().map(String::from).collect())
        }
    }
}

/// The time, and the metrics in the plan or of the adapter.
fn of_command(workload: &WorkloadPlan) -> Vec<String> {
    let metrics = workload.options["metrics"].as_array();
    let metrics = metrics.into_iter().flatten();
    let names = metrics.filter_map(|metric| metric["name"].as_str().map(String::from));
    std::iter::once("total-time".into()).chain(names).collect()
}

/// Whether a workload can have a metric, as far as known before a trial.
pub fn has(workload: &WorkloadPlan, metric: &str) -> bool {
    let matches = |name: &String| match name.strip_prefix('*') {
        Some(end) => metric.ends_with(end),
        None => name == metric,
    };
    known(workload).is_none_or(|names| names.iter().any(matches))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview;

    fn plan(kind: &str) -> WorkloadPlan {
        WorkloadPlan {
            traits: crate::Traits::default(),
            id: kind.into(),
            kind: kind.into(),
            options: serde_json::Value::Null,
            length: std::time::Duration::ZERO,
            window: std::time::Duration::ZERO,
            expected: None,
        }
    }

    #[test]
    fn every_kind_can_have_its_primary_metric() {
        for (kind, overview) in overview::all() {
            assert!(has(&plan(kind), overview.primary), "{kind}");
        }
        assert!(!has(&plan("web-static"), "nothere"));
        assert!(has(&plan("locks"), "pipe-alone"));
        assert!(has(&plan("limits"), "sockets"));
    }

    #[test]
    fn a_command_has_the_metrics_that_its_plan_names() {
        let mut plan = plan("command");
        plan.options = serde_json::json!({ "metrics": [{ "name": "iops" }] });
        assert_eq!(without_counters(&plan).unwrap(), ["total-time", "iops"]);
        assert!(has(&plan, "cpi") && !has(&plan, "server-cpu"));
    }
}
