//! The files that a load leaves: an HDR histogram log and a timeline.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use record::latency::Latency;

use super::outcome::{Outcome, Run};

/// An `HdrHistogram` log, version 1.3 with histograms in V2: one interval for each run. Latencies
/// have no tag, service time and lateness are tagged so. Values are nanoseconds, the maximum is in
/// milliseconds, as the usual viewers expect.
pub(super) fn write_hdr(path: &Path, outcome: &Outcome, began: SystemTime) -> Result<()> {
    write(path, &hdr(outcome, began))
}

fn hdr(outcome: &Outcome, began: SystemTime) -> String {
    let began_s = began
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs_f64();
    let mut text = format!(
        "#[Histogram log format version 1.3]\n#[StartTime: {began_s:.3} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
    );
    let mut start_s = 0.0;
    for Run { result, .. } in &outcome.runs {
        let length_s = result.window_ns as f64 / 1e9;
        let tagged = [
            ("", &result.latency),
            ("Tag=service,", &result.service),
            ("Tag=lateness,", &result.lateness),
            ("Tag=client-delay,", &result.client_delay),
        ];
        for (tag, latency) in tagged.iter().filter(|(_, latency)| latency.count() > 0) {
            let max_ms = latency.max_ns() as f64 / 1e6;
            let histogram = encoded(latency);
            _ = writeln!(
                text,
                "{tag}{start_s:.3},{length_s:.3},{max_ms:.3},{histogram}"
            );
        }
        start_s += length_s;
    }
    text
}

/// The histogram's text form is the one of the log.
fn encoded(latency: &Latency) -> String {
    let value = serde_json::to_value(latency).expect("a histogram always has a text form");
    value.as_str().unwrap_or_default().into()
}

/// What happened in each second, as CSV; the rate is empty in a closed loop.
pub(super) fn write_timeline(path: &Path, outcome: &Outcome) -> Result<()> {
    write(path, &timeline(outcome))
}

fn timeline(outcome: &Outcome) -> String {
    let mut text = String::from("run,connections,rate_per_s,at_ms,ok,faults,body_bytes\n");
    for (number, run) in outcome.runs.iter().enumerate() {
        let connections = run.result.connections_asked;
        let rate = run
            .rate_per_s
            .map(|rate| rate.to_string())
            .unwrap_or_default();
        for second in &run.result.timeline {
            let record::load::Second {
                at_ms,
                ok,
                faults,
                body_bytes,
            } = second;
            let number = number + 1;
            _ = writeln!(
                text,
                "{number},{connections},{rate},{at_ms},{ok},{faults},{body_bytes}"
            );
        }
    }
    text
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
