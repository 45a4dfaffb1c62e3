//! What an explanation's tables hold: rows of cells, the head first.

use input::units::significant;
use record::account::WaitState;
use record::verdict::why::{MechanismRow, Presence, WaitView, Why};

use super::{change, duration, interval, signed_duration, thousands};
use crate::words::NONE;

/// The mechanisms, the head first; those too small to be tested are one row, and the last rows are what they sum to.
pub(crate) fn mechanism_rows(why: &Why) -> Vec<Vec<String>> {
    let head = [
        "mechanism",
        &why.baseline,
        &why.arm,
        "difference",
        "interval",
        "share",
        "significant",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    let (shown, small): (Vec<_>, Vec<_>) = why
        .mechanisms
        .iter()
        .partition(|row| row.significant || row.p_value.is_some());
    for row in shown {
        rows.push(vec![
            row.name.word().into(),
            thousands(row.baseline),
            thousands(row.arm),
            change(row.difference),
            interval(row.low, row.high, change),
            row.share.map_or(NONE.into(), |share| {
                format!("{} %", (share * 100.0).round() as i64)
            }),
            if row.significant { "yes" } else { "no" }.into(),
        ]);
    }
    let total = |name: String, [baseline, arm]: [f64; 2]| {
        let blank = NONE.to_string();
        vec![
            name,
            thousands(baseline),
            thousands(arm),
            change(arm - baseline),
            blank.clone(),
            blank.clone(),
            blank,
        ]
    };
    if !small.is_empty() {
        let sum = |of: fn(&MechanismRow) -> f64| small.iter().map(|row| of(row)).sum();
        let name = format!("{} too small to test", small.len());
        rows.push(total(name, [sum(|row| row.baseline), sum(|row| row.arm)]));
    }
    rows.push(total("all".into(), [why.account.baseline, why.account.arm]));
    rows
}

/// Functions of one mechanism that tables have; JSON has all.
const FUNCTIONS: usize = 6;

/// Functions below this share of what mechanisms differ by are in JSON alone.
const SMALL_FUNCTION: f64 = 0.005;

/// The functions that are named, by mechanism, the head first; the head alone where none is.
pub(crate) fn function_rows(why: &Why) -> Vec<Vec<String>> {
    let head = [
        "mechanism",
        "function",
        "calls a request",
        "instructions a call",
        "difference",
        "by calls",
        "by cost",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    let gross: f64 = why.mechanisms.iter().map(|row| row.difference.abs()).sum();
    let mut left_out = 0_u32;
    for mechanism in &why.mechanisms {
        for (place, function) in mechanism.functions.iter().enumerate() {
            if place >= FUNCTIONS || function.difference.abs() < SMALL_FUNCTION * gross {
                left_out += 1;
                continue;
            }
            let name = match &function.presence {
                Presence::Both => function.name.clone(),
                Presence::Vanished => format!("{} (vanished)", function.name),
                Presence::New => format!("{} (new)", function.name),
                Presence::Renamed { from } => format!("{} (was {from})", function.name),
            };
            let of = |part: Option<f64>| part.map_or(NONE.into(), change);
            let cost = |cost: Option<f64>| cost.map_or(NONE.into(), |cost| significant(cost, 3));
            let [calls_before, calls_after] = function.calls.map(|calls| significant(calls, 3));
            let [cost_before, cost_after] = function.cost_per_call.map(cost);
            rows.push(vec![
                mechanism.name.word().into(),
                name,
                format!("{calls_before} → {calls_after}"),
                format!("{cost_before} → {cost_after}"),
                change(function.difference),
                of(function.by_calls),
                of(function.by_cost),
            ]);
        }
    }
    if left_out > 0 {
        let mut row = vec![NONE.to_string(); rows[0].len()];
        row[1] = format!("{left_out} smaller ones: see --json");
        rows.push(row);
    }
    rows
}

/// Waits, the head first: significant ones and all for the CPU.
pub(crate) fn wait_rows(why: &Why) -> Vec<Vec<String>> {
    let head = [
        "waits of",
        "for",
        "which",
        &why.baseline,
        &why.arm,
        "difference",
        "interval",
        "due to",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    let shown = why
        .waits
        .iter()
        .filter(|row| row.significant || row.state == WaitState::RunQueue);
    for row in shown {
        let state = match row.state {
            WaitState::RunQueue => "the CPU",
            WaitState::Blocked => "other things",
        };
        let view = match row.view {
            WaitView::Mean => "all, a request",
            WaitView::Slowest => "slowest 1 %, each",
        };
        let causes = row.causes.iter().map(|cause| {
            format!(
                "{} {}",
                innermost(&cause.name),
                signed_duration(cause.difference_ns)
            )
        });
        let causes: Vec<String> = causes.collect();
        rows.push(vec![
            row.task.clone(),
            state.into(),
            view.into(),
            duration(row.baseline_ns),
            duration(row.arm_ns),
            signed_duration(row.difference_ns),
            interval(row.low_ns, row.high_ns, signed_duration),
            if row.significant && !causes.is_empty() {
                causes.join(", ")
            } else if row.significant {
                "several".into()
            } else {
                "not significant".into()
            },
        ]);
    }
    rows
}

/// The end of a call path, and the call before it: a whole path fills a screen.
fn innermost(path: &str) -> String {
    let frames: Vec<&str> = path.split(';').collect();
    frames[frames.len().saturating_sub(2)..].join(" > ")
}
