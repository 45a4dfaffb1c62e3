//! Tables of metrics and of arms.

use std::collections::BTreeMap;

use base::input::units::{show_bytes, show_change, significant};
use record::load::Fault;
use record::verdict::{ArmClients, ArmSummary, ArmUsage, Comparison, Judgement, Verdict};

use crate::topics::limits::tell::rows as limit_rows;
use crate::topics::metrics::tell::reason;
use crate::words::{
    NONE, change_of, count, directed, fault, figure, interval, levels, percent, small_percent,
};

/// All metrics of one workload, with its name in the head.
pub(crate) fn metric_rows(judgement: &Judgement, workload: &str) -> Vec<Vec<String>> {
    let comparisons = || {
        let all = judgement.comparisons.iter();
        all.filter(|comparison| comparison.workload == workload)
    };
    let levels = levels(comparisons());
    let head = [
        workload,
        "arm",
        "verdict",
        "change",
        &levels.head(),
        "blocks",
    ];
    let row = |comparison: &Comparison| {
        vec![
            directed(&comparison.spec),
            comparison.arm.clone(),
            comparison.verdict.word().into(),
            change_of(comparison),
            levels.cell(&interval(comparison), comparison.confidence),
            comparison.blocks.to_string(),
        ]
    };
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(comparisons().map(row));
    rows
}

/// Undecided metrics and the reasons. Metrics of one arm with the same reason are joined: `throughput, latency-p99 of 7.2`.
pub(crate) fn undecided(comparisons: &[&Comparison]) -> Vec<(String, String)> {
    let mut groups: Vec<(&str, String, Vec<&str>)> = Vec::new();
    for comparison in comparisons {
        if comparison.verdict != Verdict::Undecided {
            continue;
        }
        let (arm, reason) = (comparison.arm.as_str(), reason(comparison));
        let is_same = |group: &&mut (&str, String, Vec<&str>)| group.0 == arm && group.1 == reason;
        match groups.iter_mut().find(is_same) {
            Some((_, _, metrics)) => metrics.push(&comparison.spec.name),
            None => groups.push((arm, reason, vec![&comparison.spec.name])),
        }
    }
    groups
        .into_iter()
        .map(|(arm, reason, metrics)| (format!("{} of {arm}", metrics.join(", ")), reason))
        .collect()
}

/// Measurement noise of metrics with at least two blocks: metric, arm, noise of a block, order effect, outliers of arm and baseline,
/// and their p-value.
pub(crate) fn noise_rows(comparisons: &[&Comparison]) -> Vec<[String; 6]> {
    let row = |comparison: &&Comparison| {
        let noise = comparison.noise.filter(|_| comparison.blocks > 1)?;
        let outliers = comparison.outliers;
        Some([
            directed(&comparison.spec),
            comparison.arm.clone(),
            small_percent(noise),
            comparison
                .order_effect
                .map_or(NONE.into(), |effect| show_change(1.0 + effect)),
            outliers.map_or(NONE.into(), |outliers| {
                format!("{} and {}", outliers.arm, outliers.baseline)
            }),
            outliers.map_or(NONE.into(), |outliers| significant(outliers.p_value, 2)),
        ])
    };
    comparisons.iter().filter_map(row).collect()
}

/// The table of arms on one workload, with its name in the head.
pub(crate) fn arm_table(judgement: &Judgement, workload: &str) -> Vec<Vec<String>> {
    let summaries = tables_of(judgement, workload);
    let mut rows = vec![vec![workload.to_string()]];
    rows[0].extend(summaries.iter().map(|summary| summary.arm.clone()));
    let cells = arm_rows(&summaries).into_iter();
    rows.extend(cells.map(|(name, cells)| [vec![name], cells].concat()));
    rows
}

/// Rows of the table of arms, after IBM's report of 2004: a name, and a cell for each arm.
pub(crate) fn arm_rows(summaries: &[&ArmSummary]) -> Vec<(String, Vec<String>)> {
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    let mut row = |name: &str, cell: &dyn Fn(&ArmSummary) -> String| {
        let cells = summaries.iter().map(|summary| cell(summary)).collect();
        rows.push((name.to_string(), cells));
    };
    let or_none = |name: &str| if name.is_empty() { NONE } else { name }.to_string();
    // The build's number and date are too long for a table. The facts have them.
    row("kernel", &|summary| {
        or_none(summary.kernel.split(" #").next().unwrap_or_default())
    });
    row("server", &|summary| or_none(&summary.server));
    row("trials measured", &|summary| summary.measured.to_string());
    let is_of_clients = |summary: &&ArmSummary| {
        let usage = summary.usage.as_ref();
        usage.is_some_and(|usage| usage.is_of_clients)
    };
    let prefix = if summaries.iter().any(is_of_clients) {
        "clients' host: "
    } else {
        ""
    };
    let mut usage_row = |name: &str, cell: fn(&ArmUsage) -> String| {
        row(&format!("{prefix}{name}"), &|summary| {
            summary.usage.as_ref().map_or(NONE.into(), cell)
        });
    };
    usage_row("average CPU, user", |usage| percent(usage.cpu_user));
    usage_row("average CPU, system", |usage| percent(usage.cpu_system));
    usage_row("memory in use", |usage| {
        show_bytes(usage.memory_used_bytes as u64)
    });
    usage_row("swap in use, peak", |usage| {
        show_bytes(usage.swap_used_bytes)
    });
    usage_row("CPU spent on sampling", |usage| percent(usage.sampling));
    let mut clients_row = |name: &str, cell: &dyn Fn(&ArmClients) -> String| {
        row(name, &|summary| {
            summary.clients.as_ref().map_or(NONE.into(), cell)
        });
    };
    clients_row("requests served", &|clients| count(clients.served));
    clients_row("requests per second", &|clients| {
        figure(clients.served_per_s)
    });
    clients_row("served by address", &|clients| {
        served_by_address(&clients.ok_by_address)
    });
    clients_row("mean request time", &|clients| {
        format!("{} ms", figure(clients.mean_ms))
    });
    clients_row("failed requests", &|clients| {
        let faults = clients.faults.values();
        count(faults.fold(0, |sum, count| sum.saturating_add(*count)))
    });
    for class in fault_classes(summaries) {
        clients_row(&format!("  {}", fault(class)), &|clients| {
            count(clients.faults.get(&class).copied().unwrap_or(0))
        });
    }
    row("failed trials", &|summary| {
        summary.voids.values().sum::<u32>().to_string()
    });
    rows.extend(limit_rows(summaries));
    // Rows without a value of any arm are left out.
    rows.retain(|(_, cells)| cells.iter().any(|cell| cell != NONE));
    rows
}

/// Share of each address of a system in the served requests.
fn served_by_address(ok_by_address: &BTreeMap<String, u64>) -> String {
    if ok_by_address.is_empty() {
        return NONE.into();
    }
    let counts = ok_by_address.values();
    let all = counts.fold(0, |sum: u64, count| sum.saturating_add(*count));
    let mut shares = Vec::new();
    for (address, count) in ok_by_address {
        let share = *count as f64 / all.max(1) as f64;
        shares.push(format!("{address} {}", percent(share)));
    }
    shares.join(", ")
}

fn fault_classes(summaries: &[&ArmSummary]) -> Vec<Fault> {
    let mut classes: Vec<Fault> = summaries
        .iter()
        .filter_map(|summary| summary.clients.as_ref())
        .flat_map(|clients| clients.faults.keys())
        .copied()
        .collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// Summaries of one workload's arms, in the plan's order.
pub(crate) fn tables_of<'j>(judgement: &'j Judgement, workload: &str) -> Vec<&'j ArmSummary> {
    let summaries = judgement.arm_summaries.iter();
    summaries
        .filter(|summary| summary.workload == workload)
        .collect()
}
