//! How much of a difference settings explain, in words.

use base::input::units::show_share;
use record::verdict::confirm::{Confirmation, MetricEffect, SettingEffect};

use crate::topics::why::tell::{change as counted_change, interval};
use crate::words::levels::{Levels, in_words};
use crate::words::{NONE, blocks, large_change};

/// What is asked.
pub(crate) fn title(found: &Confirmation) -> String {
    let [baseline, arm] = &found.arms;
    format!(
        "{}: what settings explain of the difference between {arm} and {baseline}",
        found.workload
    )
}

/// `init_on_alloc=0 in both arms: 22 % [21 %, 23 %] of the difference in instructions is gone`, one for each setting.
pub(crate) fn sentences(found: &Confirmation) -> Vec<String> {
    let settings = found.settings.iter();
    settings
        .map(|one| sentence(one, found.confidence))
        .collect()
}

fn sentence(one: &SettingEffect, confidence: f64) -> String {
    let setting = &one.setting;
    let Some(effect) = one.metrics.last() else {
        return format!("{setting}: no block with all four trials, so nothing is known");
    };
    let metric = &effect.metric;
    match (effect.share, effect.low, effect.high) {
        (Some(share), Some(low), Some(high)) if low > 0.0 => format!(
            "{setting} explains {} {} of the difference in {metric}",
            percent(share),
            in_words(
                &format!("[{}, {}]", percent(low), percent(high)),
                Some(confidence)
            )
        ),
        (Some(share), Some(_), Some(high)) if high < 0.0 => format!(
            "{setting} hides a part: with it the difference in {metric} is {} larger",
            percent(-share)
        ),
        (Some(_), Some(_), Some(_)) => {
            format!(
                "{setting} explains no part of the difference in {metric} that is more than chance"
            )
        }
        (Some(share), _, _) => format!(
            "{setting} explains {} of the difference in {metric}, give or take more than can be told",
            percent(share)
        ),
        (None, _, _) => format!(
            "{setting}: the difference in {metric} is no more than chance in {}, so there is nothing to explain",
            blocks(effect.blocks)
        ),
    }
}

fn percent(share: f64) -> String {
    // A sum with zero has no sign that zero could have.
    show_share((share * 1000.0).round() / 1000.0 + 0.0, 3)
}

/// A row for each setting and metric, the head first.
pub(crate) fn rows(found: &Confirmation) -> Vec<Vec<String>> {
    let interval = Levels::of([Some(found.confidence)]).head();
    let head = [
        "setting", "metric", "without", "with", "explains", &interval,
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for one in &found.settings {
        let mut name = one.setting.as_str();
        for effect in &one.metrics {
            rows.push(row(name, effect));
            name = "";
        }
    }
    rows
}

fn row(setting: &str, effect: &MetricEffect) -> Vec<String> {
    let change = |difference: f64| {
        if effect.is_absolute {
            counted_change(difference)
        } else {
            // What rounds to nothing has no sign.
            match large_change(difference) {
                nothing if nothing == "-0.00 %" => "0.00 %".into(),
                change => change,
            }
        }
    };
    vec![
        setting.into(),
        effect.metric.clone(),
        change(effect.without),
        change(effect.with),
        effect.share.map_or(NONE.into(), percent),
        interval(effect.low, effect.high, percent),
    ]
}

/// What the figures are.
pub(crate) fn note(found: &Confirmation) -> String {
    let most = found.settings.iter().flat_map(|one| &one.metrics);
    let most = most.map(|effect| effect.blocks).max().unwrap_or(0);
    format!(
        "without, with: the difference between the arms, an arm whose kernel has no such setting standing for itself; explains: the \
         share that is gone with the setting, of ratios the share of their logarithm; intervals: {} confidence, each row by \
         itself, over {}; shares of settings need not sum to 100 %",
        show_share(found.confidence, 4),
        blocks(most)
    )
}
