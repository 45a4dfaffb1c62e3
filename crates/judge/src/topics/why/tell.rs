//! Why an arm differs, in words.

use base::input::units::significant;
use record::account::{WaitState, WorkUnit};
use record::verdict::mechanism::{Mechanism, Presence};
use record::verdict::why::{
    EventKind, FunctionRow, LostReason, LostTrial, MechanismRow, Unexplained, WaitRow, WaitView,
    Why, Within, excludes_zero,
};

use crate::words::levels::in_words;
use crate::words::{NONE, blocks, counted, plural, unit};

pub(crate) mod notes;
pub(crate) mod paths;
pub(crate) mod tables;

/// Most mechanisms that the sentence names; the others are counted.
const NAMED: usize = 3;

/// A count of events that differs by less than this share explains nothing.
const SAME_COUNT: f64 = 0.05;

/// Least share of a difference for events, a function or a wait to be named as its reason.
const MOST: f64 = 0.5;

/// Above this share of a function's difference, only its calls or only their cost are named.
const MOSTLY: f64 = 0.75;

/// The explanation in one sentence: the largest mechanisms, and the task that waits longer.
pub fn sentence(why: &Why) -> String {
    let waiting = waiting(why);
    let mechanisms = mechanisms(why);
    match (latency(why), waiting) {
        (Some((latency, by_ns)), Some(waiting)) => {
            format!("{latency}{}{waiting}; {mechanisms}", link(why, by_ns))
        }
        (Some((latency, _)), None) => format!("{latency}; {mechanisms}"),
        (None, Some(waiting)) => match tail(why) {
            Some(tail) => format!("{mechanisms}; {tail}{BECAUSE}{waiting}"),
            None => format!("{mechanisms}; {waiting}"),
        },
        (None, None) => mechanisms,
    }
}

/// `p99 latency rises by 3.2 ms [2.9 ms, 3.6 ms]`, and the difference in nanoseconds; `None` if the metric is no latency.
fn latency(why: &Why) -> Option<(String, f64)> {
    let to_ns = ns_per(&why.unit)?;
    let by_ns = why.difference * to_ns;
    let clause = rises_or_falls(&why.metric, by_ns)?;
    let interval = match (why.low, why.high) {
        (Some(low), Some(high)) => {
            let interval = format!("[{}, {}]", duration(low * to_ns), duration(high * to_ns));
            format!(" {}", in_words(&interval, why.confidence))
        }
        (_, _) => String::new(),
    };
    Some((clause + &interval, by_ns))
}

const BECAUSE: &str = " because ";

/// The conjunction between a latency's difference and a wait.
///
/// The wait is a reason only if it has the same direction and makes most of the difference.
fn link(why: &Why, by_ns: f64) -> &'static str {
    let wait = longest_wait(why).map_or(0.0, |row| row.difference_ns);
    match wait / by_ns {
        share if MOST <= share => BECAUSE,
        share if share < 0.0 => ", although ",
        _ => "; ",
    }
}

/// `p99 latency rises by 3.2 ms`, if that is significant and a wait is the reason.
fn tail(why: &Why) -> Option<String> {
    let tail = why.tail.as_ref()?;
    let is_significant = excludes_zero(tail.low, tail.high);
    let by_ns = tail.difference * ns_per(&tail.unit)?;
    let clause = rises_or_falls(&tail.metric, by_ns)?;
    (is_significant && link(why, by_ns) == BECAUSE).then_some(clause)
}

/// `p99 latency rises by 3.2 ms`.
fn rises_or_falls(metric: &str, by_ns: f64) -> Option<String> {
    let name = record::metric::latency(metric)?;
    let verb = if by_ns > 0.0 { "rises" } else { "falls" };
    Some(format!("{name} {verb} by {}", duration(by_ns.abs())))
}

/// Nanoseconds per unit of time.
fn ns_per(unit: &str) -> Option<f64> {
    match unit {
        "us" => Some(1e3),
        "ms" => Some(1e6),
        _ => None,
    }
}

/// `3.3 fewer context switches a request save 9.5 k of the 32.9 k instructions; TCP/IP costs 1.2 k`.
fn mechanisms(why: &Why) -> String {
    let significant: Vec<&MechanismRow> = why
        .mechanisms
        .iter()
        .filter(|row| row.significant)
        .collect();
    let Some((first, others)) = significant.split_first() else {
        return match (&why.within, has_enough_blocks(why)) {
            (None, true) => format!(
                "no mechanism differs by more than chance in {}",
                blocks(why.blocks)
            ),
            (None, false) => format!(
                "too few blocks to name a cause: {} (at least {})",
                why.blocks, why.least_blocks
            ),
            (Some(_), true) => "no mechanism differs by more than chance between the groups".into(),
            (Some(_), false) => format!(
                "too few boots to name a cause: {} (at least {})",
                why.blocks, why.least_blocks
            ),
        };
    };
    let whole = amount(why, why.account.difference.abs());
    let quantity = quantity(why);
    let each = |row| match fewer_or_more(row, why.per) {
        // The events are per request already.
        Some(_) => format!(" {quantity}"),
        None => format!(" {quantity} {}", per_unit(why.per)),
    };
    let first_unit = match first.share {
        Some(share) if share > 0.0 && share < 1.0 => format!(" of the {whole} {quantity}"),
        Some(_) | None => each(first),
    };
    let mut parts = match why.unsure() {
        Some(row) => vec![
            format!(
                "{} (not significant after {})",
                clause(why, row, &each(row)),
                blocks(why.blocks)
            ),
            clause(why, first, "") + &by_function(first),
        ],
        None => vec![clause(why, first, &first_unit) + &by_function(first)],
    };
    for row in others.iter().take(NAMED - 1) {
        parts.push(clause(why, row, ""));
    }
    if others.len() >= NAMED {
        let more = counted((others.len() + 1 - NAMED) as u32, "more mechanism");
        let verb = if others.len() == NAMED {
            "differs"
        } else {
            "differ"
        };
        parts.push(format!("{more} {verb}"));
    }
    parts.join("; ")
}

/// `a request`, as in `3 calls a request`.
pub(crate) fn per_unit(per: WorkUnit) -> &'static str {
    match per {
        WorkUnit::Request => "a request",
        WorkUnit::Run => "a run",
        WorkUnit::Operation => "an operation",
        WorkUnit::Second => "a second",
    }
}

/// Whether anything can be significant at the error rate.
fn has_enough_blocks(why: &Why) -> bool {
    why.least_blocks <= why.blocks
}

/// `web-static: 7.2 against 6.1`, or one arm's slow boots against its fast ones.
pub(crate) fn title(why: &Why) -> String {
    match &why.within {
        None => format!("{}: {} against {}", why.workload, why.arm, why.baseline),
        Some(Within { arm, fast, slow }) => format!(
            "{}: {} of {arm} ({}) against {} ({})",
            why.workload,
            counted(slow.len() as u32, "slow boot"),
            trials(slow),
            counted(fast.len() as u32, "fast boot"),
            trials(fast),
        ),
    }
}

/// `trials 001, 004`.
fn trials(numbers: &[u32]) -> String {
    let names: Vec<String> = numbers
        .iter()
        .map(|number| format!("{number:03}"))
        .collect();
    format!(
        "{} {}",
        plural("trial", numbers.len() == 1),
        names.join(", ")
    )
}

/// `3.3 fewer context switches a request save 9.5 k`, and `unit`.
fn clause(why: &Why, row: &MechanismRow, unit: &str) -> String {
    let (event, is_plural) = match fewer_or_more(row, why.per) {
        Some(event) => (event, true),
        None => (
            row.name.word().to_string(),
            matches!(
                row.name,
                Mechanism::Interrupts
                    | Mechanism::Locks
                    | Mechanism::Timers
                    | Mechanism::Cgroups
                    | Mechanism::Mitigations
                    | Mechanism::Processes
            ),
        ),
    };
    if why.per == WorkUnit::Second {
        // No saving: what one mechanism uses less of a second, others use more.
        return format!("{event}: {}{unit}", signed_amount(why, row.difference));
    }
    let verb = match (row.difference < 0.0, is_plural) {
        (true, true) => "save",
        (true, false) => "saves",
        (false, true) => "cost",
        (false, false) => "costs",
    };
    format!("{event} {verb} {}{unit}", amount(why, row.difference.abs()))
}

/// ` (memset: 29.5 instead of 78.1 calls)`, if one function makes most of the difference and no count of events does.
fn by_function(row: &MechanismRow) -> String {
    let is_most = |function: &&FunctionRow| {
        // Code without a symbol is named in brackets.
        !function.name.starts_with('(')
            && function.difference * row.difference > 0.0
            && MOST * row.difference.abs() <= function.difference.abs()
    };
    let largest = row.significant_functions().next();
    let Some(function) = largest
        .filter(is_most)
        .filter(|_| fewer_or_more(row, WorkUnit::Request).is_none())
    else {
        return String::new();
    };
    let name = &function.name;
    let pair = |[before, after]: [f64; 2]| {
        format!(
            "{} instead of {}",
            significant(after, 3),
            significant(before, 3)
        )
    };
    let mostly = |part: Option<f64>| {
        part.is_some_and(|part| MOSTLY * function.difference.abs() <= part.abs())
    };
    let [before, after] = function.cost_per_call;
    let cost = before
        .zip(after)
        .map(|(before, after)| pair([before, after]) + " a call");
    match (&function.presence, cost) {
        (Presence::Vanished, _) => format!(" ({name} is gone)"),
        (Presence::New, _) => format!(" ({name} is new)"),
        (Presence::Both | Presence::Renamed { .. }, Some(cost)) => {
            let calls = pair(function.calls) + " calls";
            if mostly(function.by_calls) {
                format!(" ({name}: {calls})")
            } else if mostly(function.by_cost) {
                format!(" ({name}: {cost})")
            } else {
                format!(" ({name}: {calls}, {cost})")
            }
        }
        (Presence::Both | Presence::Renamed { .. }, None) => format!(" ({name})"),
    }
}

/// `3.3 fewer context switches a request`, if that makes most of the difference.
fn fewer_or_more(row: &MechanismRow, per: WorkUnit) -> Option<String> {
    let event = row.event?;
    let [before, after] = event.per_request;
    let change = after - before;
    let cost = f64::midpoint(row.baseline / before, row.arm / after);
    let explains = change * cost / row.difference;
    if change.abs() < SAME_COUNT * before || explains < MOST {
        return None;
    }
    let fewer_or_more = if change < 0.0 { "fewer" } else { "more" };
    let events = match event.kind {
        EventKind::ContextSwitch => "context switches",
        EventKind::SystemCall => "system calls",
        EventKind::EpollWait => "calls of epoll_wait",
        EventKind::TimerInterrupt => "timer interrupts",
        EventKind::PageFault => "page faults",
    };
    Some(format!(
        "{} {fewer_or_more} {events} {}",
        significant(change.abs(), 2),
        per_unit(per)
    ))
}

/// The significant wait for the CPU to name. A wait that explains the latency takes precedence.
///
/// Else the task with the largest difference per request is named; a kernel thread that hardly ever waits may have longer waits.
/// Unless the metric is a mean or a median, the row is that of the task's slowest waits.
fn longest_wait(why: &Why) -> Option<&WaitRow> {
    let is_mean = ["-mean", "-p50"]
        .iter()
        .any(|end| why.metric.ends_with(end));
    let view = if is_mean {
        WaitView::Mean
    } else {
        WaitView::Slowest
    };
    // A task that only one arm has, such as a renamed kernel thread, does not wait longer.
    let is_in_both = |row: &&WaitRow| row.baseline_ns > 0.0 && row.arm_ns > 0.0;
    let is_candidate =
        |row: &&WaitRow| row.significant && row.state == WaitState::RunQueue && is_in_both(row);
    let candidates = || why.waits.iter().filter(is_candidate);
    let per_request = |task: &str| {
        let mean = candidates().find(|row| row.view == WaitView::Mean && row.task == task);
        mean.map_or(0.0, |row| row.difference_ns.abs())
    };
    let latency_by_ns = latency_by_ns(why);
    let is_reason =
        |row: &WaitRow| latency_by_ns.is_some_and(|by_ns| MOST <= row.difference_ns / by_ns);
    let candidates = candidates().filter(|row| row.view == view);
    candidates.max_by(|a, b| {
        let total = per_request(&a.task).total_cmp(&per_request(&b.task));
        let size = a.difference_ns.abs().total_cmp(&b.difference_ns.abs());
        is_reason(a).cmp(&is_reason(b)).then(total).then(size)
    })
}

/// The difference of the metric if it is a latency, else that of the slowest requests.
fn latency_by_ns(why: &Why) -> Option<f64> {
    if record::metric::latency(&why.metric).is_some() {
        return Some(why.difference * ns_per(&why.unit)?);
    }
    let tail = why.tail.as_ref()?;
    Some(tail.difference * ns_per(&tail.unit)?)
}

/// `the slowest 1 % of nginx's waits for the CPU are 0.47 ms longer, behind bakeoff`.
fn waiting(why: &Why) -> Option<String> {
    let row = longest_wait(why)?;
    let longer_or_shorter = if row.difference_ns > 0.0 {
        "longer"
    } else {
        "shorter"
    };
    let by = duration(row.difference_ns.abs());
    let causes: Vec<&str> = row
        .causes
        .iter()
        .filter(|cause| cause.difference_ns * row.difference_ns > 0.0 && !cause.name.is_empty())
        .map(|cause| cause.name.as_str())
        .take(2)
        .collect();
    let behind = match causes[..] {
        [] => String::new(),
        _ => format!(", behind {}", causes.join(" and ")),
    };
    Some(match row.view {
        WaitView::Mean => format!(
            "{} waits {by} {} {longer_or_shorter} for the CPU{behind}",
            row.task,
            per_unit(why.per)
        ),
        WaitView::Slowest => {
            format!(
                "the slowest 1 % of {}'s waits for the CPU are {by} {longer_or_shorter}{behind}",
                row.task
            )
        }
    })
}

/// Why a difference cannot be explained, with the remedy.
pub fn unexplained(unexplained: &Unexplained) -> String {
    match unexplained {
        Unexplained::NoWorkload { workload } => {
            format!("no such workload: {workload} (see the plan's [[workload]])")
        }
        Unexplained::NoArm { arm } => {
            format!("no arm to explain: {arm} (name one of the plan's, other than the baseline)")
        }
        Unexplained::NoMetric { metric, known } if known.is_empty() => {
            format!("no figures, so no metric: {metric} (the workload has no measured trial)")
        }
        Unexplained::NoMetric { metric, known } => {
            format!("no such metric: {metric} (there are {})", known.join(", "))
        }
        Unexplained::NotOfAllTasks { metric } => {
            format!(
                "{metric} is of the services' tasks alone, and the profile counts all tasks: the clients' and the kernel's with them (leave \
                 --metric out; the table of tasks has the services' rows)"
            )
        }
        Unexplained::OneBoot { lost } => {
            format!(
                "fewer than two boots that can be compared: {} ({})",
                reasons(lost, "none other was measured"),
                remedy(lost.iter().map(|trial| trial.reason))
            )
        }
        Unexplained::NoBlock { lost } => {
            format!(
                "no block that can be explained: {} ({})",
                reasons(lost, "none was measured of both arms"),
                remedy(lost.iter().map(|trial| trial.reason))
            )
        }
    }
}

/// What the user can do about lost trials. Profiles that exist take precedence over profiles that were never made.
pub fn remedy(reasons: impl IntoIterator<Item = LostReason>) -> &'static str {
    let rank = |reason: &LostReason| match reason {
        LostReason::Newer => 0,
        LostReason::Damaged | LostReason::Gone => 1,
        LostReason::NotMade => 2,
        LostReason::NoProfile => 3,
        LostReason::NoWork | LostReason::NoFigure => 4,
    };
    match reasons.into_iter().min_by_key(rank) {
        Some(LostReason::Newer) => {
            "explain it with the bakeoff that has written it, or a later one"
        }
        Some(LostReason::Damaged | LostReason::Gone) => {
            "put the trials' files back from a copy, or profile a new run: bakeoff run PLAN --why"
        }
        Some(LostReason::NotMade) => {
            "mend what kept profiles from being made, and profile a new run: bakeoff run PLAN --why"
        }
        Some(LostReason::NoProfile) => "profile a new run: bakeoff run PLAN --why",
        Some(LostReason::NoWork | LostReason::NoFigure) | None => {
            "see the failed trials in the report"
        }
    }
}

/// Why trials were lost, with the number of trials of each reason; `none` if there are no lost trials.
fn reasons(lost: &[LostTrial], none: &str) -> String {
    let mut counts: Vec<(LostReason, u32)> = Vec::new();
    for trial in lost {
        match counts
            .iter_mut()
            .find(|(reason, _)| *reason == trial.reason)
        {
            Some((_, count)) => *count += 1,
            None => counts.push((trial.reason, 1)),
        }
    }
    if counts.is_empty() {
        return none.into();
    }
    let reasons: Vec<String> = counts
        .into_iter()
        .map(|(reason, count)| format!("{}: {}", counted(count, "trial"), notes::reason(reason)))
        .collect();
    reasons.join(", ")
}

/// `instructions: 141.0 k → 108.1 k instructions/request, -32.9 k [-33.1 k, -32.7 k]`.
pub(crate) fn metric(why: &Why) -> String {
    let is_instructions = why.unit == "instructions/request";
    let is_cpu_time = why.unit == "ns/request";
    // Other metrics need four digits: the arms may differ by less than a thousandth.
    let show = |value: f64| match (is_instructions, is_cpu_time) {
        (true, _) => thousands(value),
        (_, true) => duration(value),
        (_, _) => significant(value, 4),
    };
    let [baseline, arm] = why.figures.map(show);
    let places = decimals(&baseline).max(decimals(&arm));
    let show_change = |value: f64| match (is_instructions, is_cpu_time) {
        (true, _) => change(value),
        (_, true) => signed_duration(value),
        (_, _) => signed_beside(value, places),
    };
    let range = match interval(why.low, why.high, show_change) {
        none if none == NONE => String::new(),
        range => format!(" {}", in_words(&range, why.confidence)),
    };
    let unit = if is_cpu_time {
        "a request".into()
    } else {
        unit(&why.unit)
    };
    format!(
        "{}: {baseline} → {arm} {unit}, {}{range}",
        why.metric,
        show_change(why.difference)
    )
}

/// A difference of three digits, or with as many decimals as the figures beside it have.
fn signed_beside(value: f64, places: usize) -> String {
    let sign = if value > 0.0 { "+" } else { "" };
    let short = significant(value, 3);
    if places < decimals(&short) {
        format!("{sign}{short}")
    } else {
        format!("{sign}{value:.places$}")
    }
}

fn decimals(number: &str) -> usize {
    number.split_once('.').map_or(0, |(_, after)| after.len())
}

/// The quantity that mechanisms sum to.
pub(crate) fn quantity(why: &Why) -> &'static str {
    match why.sampling {
        None => "instructions",
        Some(_) => "CPU time",
    }
}

/// An amount of instructions or of CPU time.
pub(crate) fn amount(why: &Why, value: f64) -> String {
    match why.sampling {
        None => thousands(value),
        Some(_) => duration(value),
    }
}

/// An amount of instructions or of CPU time with its sign.
pub(crate) fn signed_amount(why: &Why, value: f64) -> String {
    match why.sampling {
        None => change(value),
        Some(_) => signed_duration(value),
    }
}

pub(crate) fn interval(
    low: Option<f64>,
    high: Option<f64>,
    show: impl Fn(f64) -> String,
) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!("[{}, {}]", show(low), show(high)),
        (_, _) => NONE.into(),
    }
}

/// `950`, `9.5 k`, `1.24 M`; less than one instruction is `0`.
fn thousands(value: f64) -> String {
    match value.abs() {
        size if size >= 999_950.0 => format!("{:.2} M", value / 1e6),
        size if size >= 999.5 => format!("{:.1} k", value / 1e3),
        size if size >= 99.5 => format!("{value:.0}"),
        size if size >= 0.95 => significant(value, 2),
        _ => "0".into(),
    }
}

/// A difference in instructions.
pub(crate) fn change(value: f64) -> String {
    let sign = if value >= 0.95 { "+" } else { "" };
    format!("{sign}{}", thousands(value))
}

/// `950 ns`, `81 µs`, `0.47 ms`.
fn duration(ns: f64) -> String {
    match ns.abs() {
        size if size >= 9.995e8 => format!("{} s", significant(ns / 1e9, 3)),
        size if size >= 99_950.0 => format!("{} ms", significant(ns / 1e6, 2)),
        size if size >= 999.5 => format!("{} µs", significant(ns / 1e3, 2)),
        size if size >= 0.5 => format!("{} ns", significant(ns, 2)),
        _ => "0 ns".into(),
    }
}

fn signed_duration(ns: f64) -> String {
    let sign = if ns > 0.0 { "+" } else { "" };
    format!("{sign}{}", duration(ns))
}
