//! What the plan had done to the systems on purpose, in words: a table by disturbance and arm.

use base::input::units::significant;
use plan::Plan;
use record::disturbances;
use record::verdict::planned::PlannedSummary;
use record::verdict::{Comparison, Judgement, Spread};

use crate::words::{NONE, count, counted};

/// Title of the table.
pub(crate) const TITLE: &str = "Disturbances of the plan";

/// What stands below the table.
pub(crate) const NOTE: &str = "per second: successful requests, median over all times (lowest to highest); failed: requests during it and until \
    service was normal again, all times together; normal again: from its end until service was as before: three seconds \
    without more failures, and 90 % of the throughput, over so many seconds as tell that from chance";

/// The table of a workload with its head; empty where nothing was planned.
pub(crate) fn rows(judgement: &Judgement, workload: &str) -> Vec<Vec<String>> {
    let its = judgement.planned.iter();
    let its = its.filter(|one| one.workload == workload);
    let mut rows: Vec<Vec<String>> = its.map(row).collect();
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

/// Neighbouring comparisons by the disturbance that they tell of, if they do.
pub(crate) fn groups<'p, 'c>(
    plan: &'p Plan,
    comparisons: &'c [&'c Comparison],
) -> Vec<(Option<&'p str>, &'c [&'c Comparison])> {
    let about = |one: &&Comparison| {
        let mut names = plan.disturbances.iter().map(|one| one.name.as_str());
        names.find(|name| disturbances::is_figure_of(name, &one.spec.name))
    };
    let groups = comparisons.chunk_by(|one, next| about(one) == about(next));
    groups.map(|group| (about(&group[0]), group)).collect()
}

fn row(one: &PlannedSummary) -> Vec<String> {
    let name = if one.name == one.kind {
        one.name.clone()
    } else {
        format!("{} ({})", one.name, one.kind)
    };
    vec![
        name,
        one.arm.clone(),
        effect(one),
        spread(one.before_per_s, ""),
        spread(one.during_per_s, ""),
        match one.during_per_s {
            Some(_) => count(one.failed),
            None => NONE.into(),
        },
        recovery(one),
    ]
}

/// Whether it was felt, and by what that is known.
fn effect(one: &PlannedSummary) -> String {
    let counts: Vec<String> = one
        .counts
        .iter()
        .map(|(name, value)| told(name, *value))
        .collect();
    let counts = counts.join(", ");
    let times = |some: u32| format!("{some} of {}", counted(one.times, "time"));
    let word = match (one.times, one.took, one.impossible) {
        (0, _, _) => return "not reached".into(),
        (all, _, impossible) if impossible == all => {
            return format!("not possible: {}", one.why.as_deref().unwrap_or_default());
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
fn told(name: &str, value: u64) -> String {
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

fn recovery(one: &PlannedSummary) -> String {
    let after = spread(one.recovery_s, " s");
    match one.not_recovered {
        0 => after,
        never if one.recovery_s.is_some_and(|own| own.highest == 0.0) => {
            format!("not seen ({never} of {})", one.times)
        }
        never => format!("{after}, not within that {never} of {}", one.times),
    }
}
