//! Progress of a run, in words.

use record::verdict::look::{Look, MetricLook, Remaining, range};

use crate::words::blocks;
use crate::words::levels::in_words;

/// `web throughput: 7.2 undecided, 9 blocks, -1.8 % [-4.1, +0.6] (97.5 % interval), about 20 more (6 to 69) for a 2 % margin`.
pub fn interim_check(look: &Look) -> String {
    let Look::Metric(look) = look;
    let MetricLook {
        workload,
        metric,
        arm,
        verdict,
        ..
    } = look;
    let mut parts = vec![format!("{workload} {metric}: {arm} {}", verdict.word())];
    parts.push(match look.blocks {
        0 => "no whole block".into(),
        count => blocks(count),
    });
    let percent = |ratio: f64| format!("{:+.1}", (ratio - 1.0) * 100.0);
    match (look.ratio, look.low, look.high) {
        (Some(ratio), Some(low), Some(high)) => {
            let interval = format!("[{}, {}]", percent(low), percent(high));
            let interval = in_words(&interval, look.confidence);
            parts.push(format!("{} % {interval}", percent(ratio)));
        }
        (Some(ratio), _, _) => parts.push(format!("{} %", percent(ratio))),
        (None, _, _) => {}
    }
    match look.remaining {
        Remaining::Decided | Remaining::Unknown => {}
        Remaining::FirstTest { block } => parts.push(format!("first test after block {block}")),
        Remaining::Blocks { more, margin, most } => {
            // At most two decimals: `2`, `0.25`.
            let margin = (margin * 1e4).round() / 1e2;
            let end = if look.blocks + more > most {
                format!(" (the run ends at {most})")
            } else {
                String::new()
            };
            let (fewest, most) = range(more, look.blocks);
            parts.push(format!(
                "about {more} more ({fewest} to {most}) for a {margin} % margin{end}"
            ));
        }
    }
    parts.join(", ")
}
