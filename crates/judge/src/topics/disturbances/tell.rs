//! Disturbances that the plan injects, in words: a table by disturbance and arm.

use base::input::units::significant;
use plan::Plan;
use record::disturbances;
use record::verdict::planned::PlannedSummary;
use record::verdict::{Comparison, Judgement, Spread};

use crate::words::{NONE, count, counted};

/// Title of the table.
pub(crate) const TITLE: &str = "Disturbances of the plan";

/// The note below the table.
pub(crate) const NOTE: &str = "per second: successful requests, median over all times (lowest to highest); failed: requests during it and until \
    service was normal again, all times together; normal again: from its end until service was as before: three seconds \
    without more failures, and 90 % of the throughput, over so many seconds as tell that from chance";

/// The table of a workload with its head; empty if the plan injects nothing.
pub(crate) fn rows(judgement: &Judgement, workload: &str) -> Vec<Vec<String>> {
    let planned = judgement.planned.iter();
    let planned = planned.filter(|planned| planned.workload == workload);
    let mut rows: Vec<Vec<String>> = planned.map(row).collect();
    if !rows.is_empty() {
        let head = [
            "disturbance",
            "arm",
            "effect",
            "before, per second",
            "during",
            "failed",
            "normal again",
        ];
        rows.insert(0, head.map(String::from).into());
    }
    rows
}

/// Groups neighbouring comparisons by the disturbance to which their metric belongs; `None` for other metrics.
pub(crate) fn groups<'p, 'c>(
    plan: &'p Plan,
    comparisons: &'c [&'c Comparison],
) -> Vec<(Option<&'p str>, &'c [&'c Comparison])> {
    let disturbance = |comparison: &Comparison| {
        let mut names = plan
            .disturbances
            .iter()
            .map(|planned| planned.name.as_str());
        names.find(|name| disturbances::is_figure_of(name, &comparison.spec.name))
    };
    let groups = comparisons.chunk_by(|left, right| disturbance(left) == disturbance(right));
    groups.map(|group| (disturbance(group[0]), group)).collect()
}

fn row(summary: &PlannedSummary) -> Vec<String> {
    let name = if summary.name == summary.kind {
        summary.name.clone()
    } else {
        format!("{} ({})", summary.name, summary.kind)
    };
    vec![
        name,
        summary.arm.clone(),
        effect(summary),
        spread(summary.before_per_s, ""),
        spread(summary.during_per_s, ""),
        match summary.during_per_s {
            Some(_) => count(summary.failed),
            None => NONE.into(),
        },
        recovery(summary),
    ]
}

/// How often the disturbance took effect, and the counts that show it.
fn effect(summary: &PlannedSummary) -> String {
    let counts: Vec<String> = summary
        .counts
        .iter()
        .map(|(name, value)| effect_count(name, *value))
        .collect();
    let counts = counts.join(", ");
    let times = |some: u32| format!("{some} of {}", counted(summary.times, "time"));
    let word = match (summary.times, summary.took, summary.impossible) {
        (0, _, _) => return "not reached".into(),
        (all, _, impossible) if impossible == all => {
            let reason = summary.why.as_deref().unwrap_or_default();
            return format!("not possible: {reason}");
        }
        (all, took, _) if took == all => format!("felt {}", times(took)),
        (_, 0, 0) => "done, not felt".into(),
        (_, took, 0) => format!("felt {}", times(took)),
        (_, took, impossible) => {
            format!("felt {}, not possible {impossible} times", times(took))
        }
    };
    if counts.is_empty() {
        word
    } else {
        format!("{word}: {counts}")
    }
}

/// A count in words: `12 packets lost`.
fn effect_count(name: &str, value: u64) -> String {
    let words = match name {
        "lost" => "packets lost",
        "packets" => "packets sent",
        "delayed" => "packets delayed",
        "overtaking" => "packets overtaking",
        "seen-twice" => "segments seen twice",
        "bad-checksums" => "bad checksums",
        "retransmitted" => "retransmitted",
        "links-down" => "link down",
        "refused-writes" => "writes refused",
        "resident-mib" => "MiB taken",
        "cpus-off" => "CPU off",
        "stepped-ms" => "ms stepped",
        "workers-killed" if value == 1 => "worker killed",
        "workers-killed" => "workers killed",
        "waited-for" => "half open",
        "sent" => "SYNs sent",
        "cookies" => "SYN cookies",
        "held" => "connections held",
        "closed-by-server" => "closed by the server",
        "processes-limited" => "processes limited",
        other => other,
    };
    format!("{} {words}", count(value))
}

fn spread(spread: Option<Spread>, unit: &str) -> String {
    let Some(spread) = spread else {
        return NONE.into();
    };
    let show = |value: f64| significant(value, 3);
    if show(spread.lowest) == show(spread.highest) {
        return format!("{}{unit}", show(spread.typical));
    }
    format!(
        "{} ({} to {}){unit}",
        show(spread.typical),
        show(spread.lowest),
        show(spread.highest)
    )
}

fn recovery(summary: &PlannedSummary) -> String {
    let after = spread(summary.recovery_s, " s");
    let times = summary.times;
    match summary.not_recovered {
        0 => after,
        never
            if summary
                .recovery_s
                .is_some_and(|spread| spread.highest == 0.0) =>
        {
            format!("not seen ({never} of {times})")
        }
        never => format!("{after}, not within that {never} of {times}"),
    }
}
