//! How much of a difference settings explain, in words.

use base::input::units::show_share;
use record::verdict::confirm::{Confirmation, MetricEffect, SettingEffect};

use crate::topics::why::tell::{change as counted_change, interval};
use crate::words::levels::{Levels, in_words};
use crate::words::{NONE, blocks, large_change};

/// The title names the workload and the arms.
pub(crate) fn title(confirmation: &Confirmation) -> String {
    let [baseline, arm] = &confirmation.arms;
    format!(
        "{}: what settings explain of the difference between {arm} and {baseline}",
        confirmation.workload
    )
}

/// One sentence for each setting: `init_on_alloc=0 explains 22 % [21 %, 23 %] (90 % interval) of the difference in instructions`.
pub(crate) fn sentences(confirmation: &Confirmation) -> Vec<String> {
    let settings = confirmation.settings.iter();
    settings
        .map(|effect| sentence(effect, confirmation.confidence))
        .collect()
}

fn sentence(setting: &SettingEffect, confidence: f64) -> String {
    let metrics = &setting.metrics;
    let setting = &setting.setting;
    let Some(effect) = metrics.last() else {
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
    // Adding zero turns -0 into 0.
    show_share((share * 1000.0).round() / 1000.0 + 0.0, 3)
}

/// The head, then a row for each setting and metric.
pub(crate) fn rows(confirmation: &Confirmation) -> Vec<Vec<String>> {
    let interval = Levels::of([Some(confirmation.confidence)]).head();
    let head = [
        "setting", "metric", "without", "with", "explains", &interval,
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for setting in &confirmation.settings {
        let mut name = setting.setting.as_str();
        for effect in &setting.metrics {
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
            let change = large_change(difference);
            if change == "-0.00 %" {
                "0.00 %".into()
            } else {
                change
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

/// Explains the columns.
pub(crate) fn note(confirmation: &Confirmation) -> String {
    let settings = confirmation.settings.iter();
    let effects = settings.flat_map(|setting| &setting.metrics);
    let most = effects.map(|effect| effect.blocks).max().unwrap_or(0);
    format!(
        "without, with: the difference between the arms, an arm whose kernel has no such setting standing for itself; explains: the \
         share that is gone with the setting, of ratios the share of their logarithm; intervals: {} confidence, each row by \
         itself, over {}; shares of settings need not sum to 100 %",
        show_share(confirmation.confidence, 4),
        blocks(most)
    )
}
