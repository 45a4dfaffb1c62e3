//! Tables of an explanation: rows of cells, the head first.

use base::input::units::significant;
use record::account::{CounterUnit, WaitState};
use record::verdict::mechanism::Presence;
use record::verdict::why::{
    CounterRow, FunctionRow, MechanismRow, TaskRow, WaitRow, WaitView, Why, excludes_zero,
};

use super::{amount, change, duration, interval, per_unit, signed_amount, signed_duration};
use crate::words::levels::Levels;
use crate::words::{NONE, counted};

/// Mechanisms; the last rows are the sum of those too small to be tested, and the sum of all.
pub(crate) fn mechanism_rows(why: &Why) -> Vec<Vec<String>> {
    let head = [
        "mechanism",
        &why.baseline,
        &why.arm,
        "difference",
        &interval_head(why),
        "share",
        "significant",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    let (shown, small): (Vec<_>, Vec<_>) = why.mechanisms.iter().partition(|row| is_shown(row));
    for row in shown {
        rows.push(vec![
            row.name.word().into(),
            amount(why, row.baseline),
            amount(why, row.arm),
            signed_amount(why, row.difference),
            interval(row.low, row.high, |value| signed_amount(why, value)),
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
            amount(why, baseline),
            amount(why, arm),
            signed_amount(why, arm - baseline),
            blank.clone(),
            blank.clone(),
            blank,
        ]
    };
    if !small.is_empty() {
        let sum = |value: fn(&MechanismRow) -> f64| small.iter().map(|row| value(row)).sum();
        let name = format!("{} too small to test", small.len());
        rows.push(total(name, [sum(|row| row.baseline), sum(|row| row.arm)]));
    }
    rows.push(total("all".into(), [why.account.baseline, why.account.arm]));
    rows
}

/// The head of a column of intervals.
fn interval_head(why: &Why) -> String {
    Levels::of([why.confidence]).head()
}

/// Mechanisms that have a separate row.
pub(crate) fn shown(why: &Why) -> Vec<&MechanismRow> {
    why.mechanisms.iter().filter(|row| is_shown(row)).collect()
}

fn is_shown(row: &MechanismRow) -> bool {
    row.significant || row.p_value.is_some()
}

/// Most functions of one mechanism in a table; JSON has the others.
const FUNCTIONS: usize = 3;

/// Functions below this share of the mechanisms' absolute differences are only in JSON.
const SMALL_FUNCTION: f64 = 0.01;

/// Most characters of a function's name in a table.
const NAME_CHARS: usize = 40;

fn function_head(why: &Why) -> Vec<String> {
    let calls = format!("calls {}", per_unit(why.per));
    let head = match why.sampling {
        None => vec![
            "function",
            &calls,
            "instructions a call",
            "difference",
            "by calls",
        ],
        // Samples do not count calls.
        Some(_) => vec!["function", &why.baseline, &why.arm, "difference"],
    };
    head.iter().map(ToString::to_string).collect()
}

/// At most `most` significant functions of one mechanism; the last row counts the others.
pub(crate) fn functions_of(why: &Why, mechanism: &MechanismRow, most: usize) -> Vec<Vec<String>> {
    let mut rows = vec![function_head(why)];
    let columns = rows[0].len();
    let functions = mechanism.significant_functions();
    rows.extend(functions.take(most).map(|row| function_row(why, row)));
    let count = mechanism.significant_functions().count();
    if most < count {
        let mut row = vec![String::new(); columns];
        row[0] = format!("{} smaller ones: see why.json", count - most);
        rows.push(row);
    }
    rows
}

/// `3 significant functions of zeroing`.
pub(crate) fn functions_title(mechanism: &MechanismRow) -> String {
    let count = mechanism.significant_functions().count();
    let count = counted(count as u32, "significant function");
    format!("{count} of {}", mechanism.name.word())
}

/// Significant functions, each below a row with its mechanism.
pub(crate) fn function_rows(why: &Why) -> Vec<Vec<String>> {
    let mut rows = vec![function_head(why)];
    let columns = rows[0].len();
    let text_row = |text: String| {
        let mut row = vec![String::new(); columns];
        row[0] = text;
        row
    };
    let gross: f64 = why.mechanisms.iter().map(|row| row.difference.abs()).sum();
    let is_large = |function: &&FunctionRow| function.difference.abs() >= SMALL_FUNCTION * gross;
    let mut left_out = 0;
    for mechanism in &why.mechanisms {
        let large = mechanism.significant_functions().filter(is_large);
        let large = large.take(FUNCTIONS);
        let shown: Vec<Vec<String>> = large.map(|row| function_row(why, row)).collect();
        left_out += mechanism.significant_functions().count() - shown.len();
        if !shown.is_empty() {
            rows.push(text_row(format!("{}:", mechanism.name.word())));
            rows.extend(shown);
        }
    }
    if left_out > 0 {
        rows.push(text_row(format!("{left_out} smaller ones: see --json")));
    }
    rows
}

fn function_row(why: &Why, function: &FunctionRow) -> Vec<String> {
    let name = match &function.presence {
        Presence::Both => function.name.clone(),
        Presence::Vanished => format!("{} (vanished)", function.name),
        Presence::New => format!("{} (new)", function.name),
        Presence::Renamed { from } => format!("{} (was {from})", function.name),
    };
    let name = match name.char_indices().nth(NAME_CHARS) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name,
    };
    if why.sampling.is_some() {
        let [baseline, arm] = function.per_request.map(|value| amount(why, value));
        let difference = signed_amount(why, function.difference);
        return vec![name, baseline, arm, difference];
    }
    let cost = |cost: Option<f64>| cost.map_or(NONE.into(), |cost| significant(cost, 3));
    let [calls_before, calls_after] = function.calls.map(|calls| significant(calls, 3));
    let [cost_before, cost_after] = function.cost_per_call.map(cost);
    // Calls in programs are not counted.
    let (calls, costs) = if function.calls.iter().all(|calls| *calls <= 0.0) {
        (NONE.into(), NONE.into())
    } else {
        (
            format!("{calls_before} → {calls_after}"),
            format!("{cost_before} → {cost_after}"),
        )
    };
    vec![
        name,
        calls,
        costs,
        change(function.difference),
        function.by_calls.map_or(NONE.into(), change),
    ]
}

/// Tasks below this share of the instructions are joined in one row.
const SMALL_TASK: f64 = 0.005;

/// Instructions of each task; the last row is the sum of small tasks.
pub(crate) fn task_rows(why: &Why) -> Vec<Vec<String>> {
    let head = [
        "task",
        &why.baseline,
        &why.arm,
        "difference",
        &interval_head(why),
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    let least = SMALL_TASK * why.account.baseline.max(why.account.arm);
    let (shown, small): (Vec<&TaskRow>, Vec<&TaskRow>) =
        why.tasks.iter().partition(|row| least <= row.larger());
    let row = |name: String, [baseline, arm]: [f64; 2], interval: String| {
        let difference = signed_amount(why, arm - baseline);
        let [baseline, arm] = [baseline, arm].map(|value| amount(why, value));
        vec![name, baseline, arm, difference, interval]
    };
    rows.extend(shown.into_iter().map(|task| {
        let interval = interval(task.low, task.high, |value| signed_amount(why, value));
        row(task.name.clone(), [task.baseline, task.arm], interval)
    }));
    if !small.is_empty() {
        let sum = |value: fn(&TaskRow) -> f64| small.iter().map(|task| value(task)).sum();
        let sums = [sum(|task| task.baseline), sum(|task| task.arm)];
        let others = format!("{} smaller ones", small.len());
        rows.push(row(others, sums, NONE.into()));
    }
    rows
}

/// Counters whose intervals exclude zero, and those in `ALWAYS`.
pub(crate) fn counter_rows(why: &Why) -> Vec<Vec<String>> {
    let head = [
        "counter",
        &why.baseline,
        &why.arm,
        "difference",
        &interval_head(why),
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    let shown = why.counters.iter().filter(|row| is_counter_shown(row));
    rows.extend(shown.map(|row| {
        let (show, signed): (Show, Show) = match row.unit {
            CounterUnit::Events => (count, signed_count),
            CounterUnit::Nanoseconds => (duration, signed_duration),
        };
        vec![
            row.name.clone(),
            show(row.baseline),
            show(row.arm),
            signed(row.difference),
            interval(row.low, row.high, signed),
        ]
    }));
    rows
}

/// Formats a figure.
type Show = fn(f64) -> String;

/// Counters that are shown even if they do not differ.
const ALWAYS: [&str; 3] = ["context-switches", "cpu-migrations", "page-faults-minor"];

fn is_counter_shown(row: &CounterRow) -> bool {
    ALWAYS.contains(&row.name.as_str()) || excludes_zero(row.low, row.high)
}

fn count(value: f64) -> String {
    significant(value, 3)
}

fn signed_count(value: f64) -> String {
    let sign = if value > 0.0 { "+" } else { "" };
    format!("{sign}{}", significant(value, 3))
}

/// Waits of one view: significant ones, and all waits for the CPU.
pub(crate) fn wait_rows(why: &Why, view: WaitView) -> Vec<Vec<String>> {
    let head = [
        "task",
        "state",
        &why.baseline,
        &why.arm,
        "difference",
        &interval_head(why),
        "mostly due to",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    let waits = why.waits.iter().filter(|row| row.view == view);
    let shown = waits.filter(|row| row.significant || row.state == WaitState::RunQueue);
    rows.extend(shown.map(wait_row));
    rows
}

fn wait_row(row: &WaitRow) -> Vec<String> {
    let state = match row.state {
        WaitState::RunQueue => "run queue",
        WaitState::Blocked => "blocked",
    };
    let cause = row.causes.first().map(|cause| {
        let name = innermost(&cause.name);
        format!("{name} {}", signed_duration(cause.difference_ns))
    });
    vec![
        row.task.clone(),
        state.into(),
        duration(row.baseline_ns),
        duration(row.arm_ns),
        signed_duration(row.difference_ns),
        interval(row.low_ns, row.high_ns, signed_duration),
        match cause {
            Some(cause) if row.significant => cause,
            None if row.significant => "several".into(),
            Some(_) | None => "not significant".into(),
        },
    ]
}

/// The last function of a call path.
fn innermost(path: &str) -> &str {
    path.rsplit(';').next().unwrap_or(path)
}
