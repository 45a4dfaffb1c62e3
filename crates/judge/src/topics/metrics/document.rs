//! Tables of metrics, and of what each arm did.

use std::collections::BTreeMap;

use base::input::units::{show_bytes, show_change, significant};
use record::load::Fault;
use record::verdict::{ArmClients, ArmSummary, ArmUsage, Comparison, Judgement, Verdict};

use crate::words::{
    NONE, change_of, count, directed, fault, figure, interval, levels, percent, small_percent,
};

/// All metrics of one workload with its name in the head.
pub(crate) fn metric_rows(judgement: &Judgement, workload: &str) -> Vec<Vec<String>> {
    let its = || {
        let all = judgement.comparisons.iter();
        all.filter(|one| one.workload == workload)
    };
    let levels = levels(its());
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
    [head.map(String::from).to_vec()]
        .into_iter()
        .chain(its().map(row))
        .collect()
}

/// Why metrics are undecided and what would settle them: what it is about, and the reason. Metrics of one arm with the
/// same reason stand together.
pub(crate) fn undecided(comparisons: &[&Comparison]) -> Vec<(String, String)> {
    let mut groups: Vec<(&Comparison, Vec<&str>)> = Vec::new();
    let open = comparisons
        .iter()
        .filter(|one| one.verdict == Verdict::Undecided);
    for one in open {
        let same = |first: &Comparison| {
            (&first.arm, crate::topics::metrics::tell::reason(first))
                == (&one.arm, crate::topics::metrics::tell::reason(one))
        };
        match groups.iter_mut().find(|(first, _)| same(first)) {
            Some((_, names)) => names.push(&one.spec.name),
            None => groups.push((one, vec![&one.spec.name])),
        }
    }
    let told = |(first, names): (&Comparison, Vec<&str>)| {
        let about = format!("{} of {}", names.join(", "), first.arm);
        (about, crate::topics::metrics::tell::reason(first))
    };
    groups.into_iter().map(told).collect()
}

/// Measurement noise: metric, arm, noise of a block, order effect, outliers of arm and baseline, and their p-value;
/// nothing for metrics of fewer than two blocks.
pub(crate) fn noise_rows(comparisons: &[&Comparison]) -> Vec<[String; 6]> {
    let row = |one: &&Comparison| {
        let noise = one.noise.filter(|_| one.blocks > 1)?;
        let outliers = one.outliers;
        Some([
            directed(&one.spec),
            one.arm.clone(),
            small_percent(noise),
            one.order_effect
                .map_or(NONE.into(), |effect| show_change(1.0 + effect)),
            outliers.map_or(NONE.into(), |count| {
                format!("{} and {}", count.arm, count.baseline)
            }),
            outliers.map_or(NONE.into(), |one| significant(one.p_value, 2)),
        ])
    };
    comparisons.iter().filter_map(row).collect()
}

/// What each arm did on one workload, its name in the head.
pub(crate) fn arm_table(judgement: &Judgement, workload: &str) -> Vec<Vec<String>> {
    let tables = tables_of(judgement, workload);
    let mut rows = vec![vec![workload.to_string()]];
    rows[0].extend(tables.iter().map(|table| table.arm.clone()));
    let cells = arm_rows(&tables).into_iter();
    rows.extend(cells.map(|(name, cells)| [vec![name], cells].concat()));
    rows
}

/// The rows of the table that IBM's report of 2004 printed for each kernel: name, and a cell for
/// each arm.
pub(crate) fn arm_rows(tables: &[&ArmSummary]) -> Vec<(String, Vec<String>)> {
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    let mut row = |name: &str, cell: &dyn Fn(&ArmSummary) -> String| {
        let cells = tables.iter().map(|table| cell(table)).collect();
        rows.push((name.to_string(), cells));
    };
    let named = |name: &str| if name.is_empty() { NONE } else { name }.to_string();
    // The build's number and date are among the facts, and too long for a table.
    row("kernel", &|table| {
        named(table.kernel.split(" #").next().unwrap_or_default())
    });
    row("server", &|table| named(&table.server));
    row("trials measured", &|table| table.measured.to_string());
    let is_of_clients = |table: &&ArmSummary| {
        let usage = table.usage.as_ref();
        usage.is_some_and(|usage| usage.is_of_clients)
    };
    let whose = if tables.iter().any(is_of_clients) {
        "clients' host: "
    } else {
        ""
    };
    let mut used = |name: &str, cell: fn(&ArmUsage) -> String| {
        row(&format!("{whose}{name}"), &|table| {
            table.usage.as_ref().map_or(NONE.into(), cell)
        });
    };
    used("average CPU, user", |usage| percent(usage.cpu_user));
    used("average CPU, system", |usage| percent(usage.cpu_system));
    used("memory in use", |usage| {
        show_bytes(usage.memory_used_bytes as u64)
    });
    used("swap in use, peak", |usage| {
        show_bytes(usage.swap_used_bytes)
    });
    used("CPU spent on sampling", |usage| percent(usage.sampling));
    let mut seen = |name: &str, cell: &dyn Fn(&ArmClients) -> String| {
        row(name, &|table| {
            table.clients.as_ref().map_or(NONE.into(), cell)
        });
    };
    seen("requests served", &|clients| count(clients.served));
    seen("requests per second", &|clients| {
        figure(clients.served_per_s)
    });
    seen("served by address", &|clients| {
        served_by_address(&clients.ok_by_address)
    });
    seen("mean request time", &|clients| {
        format!("{} ms", figure(clients.mean_ms))
    });
    seen("failed requests", &|clients| {
        let faults = clients.faults.values();
        count(faults.fold(0, |sum, count| sum.saturating_add(*count)))
    });
    for class in fault_classes(tables) {
        let of_class = |clients: &ArmClients| clients.faults.get(&class).copied().unwrap_or(0);
        seen(&format!("  {}", fault(class)), &|clients| {
            count(of_class(clients))
        });
    }
    row("failed trials", &|table| {
        table.voids.values().sum::<u32>().to_string()
    });
    rows.extend(crate::topics::limits::tell::rows(tables));
    // A row in which no arm has anything says nothing.
    rows.retain(|(_, cells)| cells.iter().any(|cell| cell != NONE));
    rows
}

/// What each address of a system answered, as a share; nothing where it has one.
fn served_by_address(ok_by_address: &BTreeMap<String, u64>) -> String {
    if ok_by_address.is_empty() {
        return NONE.into();
    }
    let all = ok_by_address
        .values()
        .fold(0, |sum: u64, own| sum.saturating_add(*own));
    let cell = |(address, own): (&String, &u64)| {
        let share = *own as f64 / all.max(1) as f64;
        format!("{address} {}", percent(share))
    };
    ok_by_address
        .iter()
        .map(cell)
        .collect::<Vec<_>>()
        .join(", ")
}

fn fault_classes(tables: &[&ArmSummary]) -> Vec<Fault> {
    let mut classes: Vec<Fault> = tables
        .iter()
        .filter_map(|table| table.clients.as_ref())
        .flat_map(|clients| clients.faults.keys())
        .copied()
        .collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// The tables of one workload, in the plan's order of arms.
pub(crate) fn tables_of<'j>(judgement: &'j Judgement, workload: &str) -> Vec<&'j ArmSummary> {
    let tables = judgement.arm_summaries.iter();
    tables.filter(|table| table.workload == workload).collect()
}
