//! `--timings`: how much host time each phase of a trial takes.

use std::collections::BTreeMap;

use record::rundir::Run;
use record::trial::{HostPhase, Outcome};
use serde_json::json;

use crate::json_lines;
use crate::out;

/// The host time of a phase.
struct Row<'r> {
    phase: HostPhase,
    /// Medians over the measured trials of each arm, in seconds.
    by_arm: Vec<(&'r str, f64)>,
}

/// Prints the median host time of each phase, by workload and arm.
pub(super) fn print(run: &Run, json: bool) {
    for workload in &run.plan.workloads {
        let rows = rows(run, &workload.id);
        if json {
            let phases: Vec<_> = rows.iter().map(as_json).collect();
            out::json(&json_lines::timings(&workload.id, &phases).to_string());
        } else {
            out::text(&text(run, &workload.id, &rows));
        }
    }
}

fn rows<'r>(run: &'r Run, workload: &str) -> Vec<Row<'r>> {
    let mut times: BTreeMap<HostPhase, BTreeMap<&str, Vec<u64>>> = BTreeMap::new();
    for record in &run.attempts {
        if record.trial.workload == workload && matches!(record.outcome, Outcome::Measured(_)) {
            for time in &record.host_time {
                let arms = times.entry(time.phase).or_default();
                arms.entry(&record.trial.arm)
                    .or_default()
                    .push(time.host_ms);
            }
        }
    }
    let row = |(phase, mut arms): (HostPhase, BTreeMap<&'r str, Vec<u64>>)| {
        let names = run.plan.arms.iter().map(|arm| arm.name.as_str());
        let by_arm = names.filter_map(|arm| Some((arm, median_s(arms.get_mut(arm)?))));
        Row {
            phase,
            by_arm: by_arm.collect(),
        }
    };
    times.into_iter().map(row).collect()
}

/// The median in seconds; the lower of the two middle times if their number is even.
fn median_s(times_ms: &mut [u64]) -> f64 {
    times_ms.sort_unstable();
    let middle = times_ms.len().saturating_sub(1) / 2;
    times_ms.get(middle).copied().unwrap_or(0) as f64 / 1000.0
}

fn as_json(row: &Row<'_>) -> serde_json::Value {
    let arms: BTreeMap<_, _> = row.by_arm.iter().copied().collect();
    json!({ "phase": row.phase, "median_s": arms })
}

fn text(run: &Run, workload: &str, rows: &[Row<'_>]) -> String {
    let arms: Vec<&str> = run.plan.arms.iter().map(|arm| arm.name.as_str()).collect();
    let line = |name: &str, cells: Vec<String>| {
        let cells: Vec<_> = cells.iter().map(|cell| format!("{cell:>12}")).collect();
        format!("{name:20}{}\n", cells.concat())
    };
    let title =
        format!("\nhost time of a trial of {workload}, median of the measured ones, in seconds\n");
    let mut text = title + &line("phase", arms.iter().map(ToString::to_string).collect());
    let seconds = |times: &[(&str, f64)], arm: &str| {
        let time = times.iter().find(|(name, _)| *name == arm);
        time.map_or("-".into(), |(_, seconds)| format!("{seconds:.1}"))
    };
    let mut sums = BTreeMap::new();
    for row in rows {
        for (arm, time) in &row.by_arm {
            *sums.entry(*arm).or_insert(0.0) += time;
        }
        let cells = arms.iter().map(|arm| seconds(&row.by_arm, arm)).collect();
        text += &line(row.phase.words(), cells);
    }
    let sums: Vec<_> = sums.into_iter().collect();
    let cells = arms.iter().map(|arm| seconds(&sums, arm)).collect();
    text + &line("all", cells)
}
