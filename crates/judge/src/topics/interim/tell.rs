//! Progress of a run, in words.

use record::verdict::interim::{InterimMetric, InterimResult, Remaining, range};

use crate::words::blocks;
use crate::words::levels::in_words;

/// `web throughput: 7.2 undecided, 9 blocks, -1.8 % [-4.1, +0.6] (97.5 % interval), about 20 more (6 to 69) for a 2 % margin`.
pub fn interim_analysis(result: &InterimResult) -> String {
    let InterimResult::Metric(metric_result) = result;
    let InterimMetric {
        workload,
        metric,
        arm,
        verdict,
        ..
    } = metric_result;
    let mut parts = vec![format!("{workload} {metric}: {arm} {}", verdict.word())];
    parts.push(match metric_result.blocks {
        0 => "no whole block".into(),
        count => blocks(count),
    });
    let percent = |ratio: f64| format!("{:+.1}", (ratio - 1.0) * 100.0);
    match (metric_result.ratio, metric_result.low, metric_result.high) {
        (Some(ratio), Some(low), Some(high)) => {
            let interval = format!("[{}, {}]", percent(low), percent(high));
            let interval = in_words(&interval, metric_result.confidence);
            parts.push(format!("{} % {interval}", percent(ratio)));
        }
        (Some(ratio), _, _) => parts.push(format!("{} %", percent(ratio))),
        (None, _, _) => {}
    }
    match metric_result.remaining {
        Remaining::Decided | Remaining::Unknown => {}
        Remaining::FirstTest { block } => parts.push(format!("first test after block {block}")),
        Remaining::Blocks { more, margin, most } => {
            // At most two decimals: `2`, `0.25`.
            let margin = (margin * 1e4).round() / 1e2;
            let end = if metric_result.blocks + more > most {
                format!(" (the run ends at {most})")
            } else {
                String::new()
            };
            let (fewest, most) = range(more, metric_result.blocks);
            parts.push(format!(
                "about {more} more ({fewest} to {most}) for a {margin} % margin{end}"
            ));
        }
    }
    parts.join(", ")
}
