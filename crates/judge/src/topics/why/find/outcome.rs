//! The rows of an explanation.

use std::cmp::Reverse;

use record::account::WaitState;
use record::verdict::mechanism::{Mechanism, Presence};
use record::verdict::why::{
    EventCount, EventKind, FunctionRow, LoneFunction, MechanismRow, Side, Unmatched, WaitCauseRow,
    WaitRow,
};

use super::table::{self, Row};
use super::tested::{Named, Test};
use super::waits;

/// Shares are given only if the net difference is at least this share of the sum of all absolute differences.
const LEAST_NET: f64 = 0.5;

/// Functions of at least this share of all instructions of an arm are listed even if they do not differ.
///
/// At most two thousand functions of each arm can reach it, which bounds the size of an explanation.
const LEAST_LISTED: f64 = 5e-4;

/// Both arms and their difference.
pub(crate) fn side([baseline, arm]: [f64; 2]) -> Side {
    Side {
        baseline,
        arm,
        difference: arm - baseline,
    }
}

/// Instructions of some rows, of the baseline and of the arm.
pub(crate) fn sum<'r>(rows: impl IntoIterator<Item = &'r Row>) -> [f64; 2] {
    rows.into_iter().fold([0.0; 2], |[baseline, arm], row| {
        let [before, after] = row.means();
        [baseline + before.instructions, arm + after.instructions]
    })
}

/// One row for each mechanism, the largest difference first.
pub(crate) fn mechanisms(rows: &[Row], named: &Named, test: &Test) -> Vec<MechanismRow> {
    let all = sum(rows);
    let whole = side(all).difference;
    let is_large = |row: &Row| {
        let mut both = row.means().into_iter().zip(all);
        both.any(|(counts, all)| LEAST_LISTED * all <= counts.instructions)
    };
    let mut mechanisms: Vec<MechanismRow> = Vec::new();
    for (mechanism, p_value) in &named.mechanisms {
        let mut members = Vec::new();
        let mut functions = Vec::new();
        for (row, is_named) in rows.iter().zip(&named.functions) {
            if row.mechanism != *mechanism {
                continue;
            }
            members.push(row);
            if *is_named || is_large(row) {
                functions.push(function(row, *is_named));
            }
        }
        functions.sort_by(|a, b| b.difference.abs().total_cmp(&a.difference.abs()));
        let totals = side(sum(members.iter().copied()));
        let (low, high) = test.interval(&table::instructions(members.iter().copied()));
        mechanisms.push(MechanismRow {
            name: *mechanism,
            baseline: totals.baseline,
            arm: totals.arm,
            difference: totals.difference,
            low,
            high,
            share: None,
            significant: test.is_significant(*p_value),
            p_value: *p_value,
            event: event(*mechanism, &members),
            functions,
            settings: Vec::new(),
        });
    }
    let gross: f64 = mechanisms.iter().map(|row| row.difference.abs()).sum();
    if whole != 0.0 && LEAST_NET * gross <= whole.abs() {
        for row in &mut mechanisms {
            row.share = Some(row.difference / whole);
        }
    }
    mechanisms.sort_by(|a, b| b.difference.abs().total_cmp(&a.difference.abs()));
    mechanisms
}

fn function(row: &Row, significant: bool) -> FunctionRow {
    let means = row.means();
    let calls = means.map(|counts| counts.calls);
    let cost_per_call =
        means.map(|counts| (counts.calls > 0.0).then(|| counts.instructions / counts.calls));
    let difference = means[1].instructions - means[0].instructions;
    let parts = match cost_per_call {
        [Some(before), Some(after)] => {
            // At the cost in the arm with more calls: an arm with few calls has no typical cost.
            let cost = if calls[0] < calls[1] { after } else { before };
            let by_calls = (calls[1] - calls[0]) * cost;
            Some((by_calls, difference - by_calls))
        }
        // A new or vanished function differs only by its calls.
        [Some(_), None] | [None, Some(_)] if row.is_only_in(0) || row.is_only_in(1) => {
            Some((difference, 0.0))
        }
        [_, _] => None,
    };
    let presence = match &row.from {
        Some(from) => Presence::Renamed { from: from.clone() },
        None if row.is_only_in(0) => Presence::Vanished,
        None if row.is_only_in(1) => Presence::New,
        None => Presence::Both,
    };
    FunctionRow {
        name: row.name.clone(),
        presence,
        calls,
        cost_per_call,
        per_request: means.map(|counts| counts.instructions),
        difference,
        by_calls: parts.map(|(by_calls, _)| by_calls),
        by_cost: parts.map(|(_, by_cost)| by_cost),
        significant,
    }
}

/// Events of a mechanism, and functions that are called once for each event; the first one that both arms have is counted.
const EVENTS: [(Mechanism, EventKind, &[&str]); 5] = [
    (
        Mechanism::Scheduler,
        EventKind::ContextSwitch,
        &["finish_task_switch", "__switch_to", "__switch_to_asm"],
    ),
    (
        Mechanism::EntryExit,
        EventKind::SystemCall,
        &["do_syscall_64"],
    ),
    (
        Mechanism::Epoll,
        EventKind::EpollWait,
        &["do_epoll_wait", "ep_poll"],
    ),
    (
        Mechanism::Interrupts,
        EventKind::TimerInterrupt,
        &[
            "__sysvec_apic_timer_interrupt",
            "sysvec_apic_timer_interrupt",
        ],
    ),
    (
        Mechanism::Paging,
        EventKind::PageFault,
        &["exc_page_fault", "do_user_addr_fault", "handle_mm_fault"],
    ),
];

fn event(mechanism: Mechanism, rows: &[&Row]) -> Option<EventCount> {
    let (_, kind, functions) = EVENTS.iter().find(|event| event.0 == mechanism)?;
    let calls = |name: &&str| {
        let row = rows.iter().find(|row| row.name == **name)?;
        let calls = row.means().map(|counts| counts.calls);
        calls.iter().all(|calls| *calls > 0.0).then_some(calls)
    };
    let per_request = functions.iter().find_map(calls)?;
    Some(EventCount {
        kind: *kind,
        per_request,
    })
}

/// Functions that only one arm executed, and functions that were joined as renamed.
pub(crate) fn unmatched(rows: &[Row]) -> Unmatched {
    let only = |side: usize| -> Vec<LoneFunction> {
        let lone = rows
            .iter()
            .filter(|row| row.from.is_none() && row.is_only_in(side));
        let mut functions: Vec<LoneFunction> = lone
            .map(|row| LoneFunction {
                name: row.name.clone(),
                mechanism: row.mechanism,
                instructions: row.means()[side].instructions,
            })
            .collect();
        functions.sort_by(|a, b| b.instructions.total_cmp(&a.instructions));
        functions
    };
    let (mut vanished, mut new) = (only(0), only(1));
    let mut renamed: Vec<&Row> = rows.iter().filter(|row| row.from.is_some()).collect();
    renamed.sort_by_key(|row| Reverse(row.means()[1].instructions as u64));
    let names = |row: &&Row| Some([row.from.clone()?, row.name.clone()]);
    let (vanished_count, new_count) = (vanished.len() as u32, new.len() as u32);
    vanished.truncate(Unmatched::MOST_NAMED);
    new.truncate(Unmatched::MOST_NAMED);
    Unmatched {
        vanished,
        vanished_count,
        new,
        new_count,
        renamed: renamed
            .iter()
            .take(Unmatched::MOST_NAMED)
            .filter_map(names)
            .collect(),
        renamed_count: renamed.len() as u32,
    }
}

/// Rows of waits that were large enough to be tested.
pub(crate) fn wait_rows(waits: &[waits::Row], named: &Named, test: &Test) -> Vec<WaitRow> {
    let mut rows = Vec::new();
    for ((row, p_value), are_named) in waits.iter().zip(&named.waits).zip(&named.causes) {
        if p_value.is_none() {
            continue;
        }
        let [baseline_ns, arm_ns] = waits::means(&row.sides);
        let (low_ns, high_ns) = test.interval(&row.sides);
        let causes = row.causes.iter().zip(are_named);
        let mut causes: Vec<WaitCauseRow> = causes
            .filter(|(_, is_named)| **is_named)
            .map(|(cause, _)| wait_cause(cause))
            .collect();
        causes.sort_by(|a, b| b.difference_ns.abs().total_cmp(&a.difference_ns.abs()));
        rows.push(WaitRow {
            task: row.key.task.clone(),
            state: row.key.state,
            view: row.key.view,
            baseline_ns,
            arm_ns,
            difference_ns: arm_ns - baseline_ns,
            low_ns,
            high_ns,
            significant: test.is_significant(*p_value),
            p_value: *p_value,
            causes,
        });
    }
    // Waits for the CPU go first: blocked tasks mostly have no work.
    let is_blocked = |row: &WaitRow| row.state == WaitState::Blocked;
    let rank = |row: &WaitRow| (Reverse(row.significant), is_blocked(row), row.view);
    rows.sort_by(|a, b| {
        let size = b.difference_ns.abs().total_cmp(&a.difference_ns.abs());
        rank(a).cmp(&rank(b)).then(size)
    });
    rows
}

fn wait_cause(cause: &waits::Cause) -> WaitCauseRow {
    let [baseline_ns, arm_ns] = waits::means(&cause.sides);
    WaitCauseRow {
        name: cause.name.clone(),
        baseline_ns,
        arm_ns,
        difference_ns: arm_ns - baseline_ns,
    }
}
