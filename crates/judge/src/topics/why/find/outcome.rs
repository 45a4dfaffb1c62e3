//! What was found, as the rows that a reader sees.

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

/// Shares are told where the difference is no less than this share of what mechanisms differ by, signs apart.
const LEAST_NET: f64 = 0.5;

/// Functions that come to this share of all instructions in either arm are told, whatever they differ by: less than two thousand
/// of each arm can, so that an explanation stays short however many functions a kernel has.
const LEAST_TOLD: f64 = 5e-4;

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
        both.any(|(counts, all)| LEAST_TOLD * all <= counts.instructions)
    };
    let mut found: Vec<MechanismRow> = Vec::new();
    for (mechanism, p_value) in &named.mechanisms {
        let its = || {
            rows.iter()
                .zip(&named.functions)
                .filter(|(row, _)| row.mechanism == *mechanism)
        };
        let totals = side(sum(its().map(|(row, _)| row)));
        let (low, high) = test.interval(&table::instructions(its().map(|(row, _)| row)));
        let told = its().filter(|(row, is_named)| **is_named || is_large(row));
        let mut functions: Vec<FunctionRow> = told
            .map(|(row, is_named)| function(row, *is_named))
            .collect();
        functions.sort_by(|one, other| other.difference.abs().total_cmp(&one.difference.abs()));
        found.push(MechanismRow {
            name: *mechanism,
            baseline: totals.baseline,
            arm: totals.arm,
            difference: totals.difference,
            low,
            high,
            share: None,
            significant: test.is_significant(*p_value),
            p_value: *p_value,
            event: event(*mechanism, its().map(|(row, _)| row)),
            functions,
            settings: Vec::new(),
        });
    }
    let gross: f64 = found.iter().map(|row| row.difference.abs()).sum();
    if whole != 0.0 && LEAST_NET * gross <= whole.abs() {
        for row in &mut found {
            row.share = Some(row.difference / whole);
        }
    }
    found.sort_by(|one, other| other.difference.abs().total_cmp(&one.difference.abs()));
    found
}

fn function(row: &Row, significant: bool) -> FunctionRow {
    let means = row.means();
    let calls = means.map(|counts| counts.calls);
    let cost_per_call =
        means.map(|counts| (counts.calls > 0.0).then(|| counts.instructions / counts.calls));
    let difference = means[1].instructions - means[0].instructions;
    let parts = match cost_per_call {
        [Some(before), Some(after)] => {
            // At the cost in the arm that calls it more: where the other one hardly calls it, its cost there says nothing.
            let cost = if calls[0] < calls[1] { after } else { before };
            let by_calls = (calls[1] - calls[0]) * cost;
            Some((by_calls, difference - by_calls))
        }
        // A function that is new or gone differs by its calls alone.
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

/// What a mechanism is there for, and functions that are called once for each; the first that both arms have is counted.
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

fn event<'r>(mechanism: Mechanism, rows: impl Iterator<Item = &'r Row>) -> Option<EventCount> {
    let (_, kind, functions) = EVENTS.iter().find(|event| event.0 == mechanism)?;
    let rows: Vec<&Row> = rows.collect();
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

/// What one arm alone executed, and what was taken for one function under two names.
pub(crate) fn unmatched(rows: &[Row]) -> Unmatched {
    let only = |side: usize| -> Vec<LoneFunction> {
        let its = rows
            .iter()
            .filter(|row| row.from.is_none() && row.is_only_in(side));
        let mut found: Vec<LoneFunction> = its
            .map(|row| LoneFunction {
                name: row.name.clone(),
                mechanism: row.mechanism,
                instructions: row.means()[side].instructions,
            })
            .collect();
        found.sort_by(|one, other| other.instructions.total_cmp(&one.instructions));
        found
    };
    let (mut vanished, mut new) = (only(0), only(1));
    let mut joined: Vec<&Row> = rows.iter().filter(|row| row.from.is_some()).collect();
    joined.sort_by_key(|row| Reverse(row.means()[1].instructions as u64));
    let pair = |row: &&Row| Some([row.from.clone()?, row.name.clone()]);
    let (vanished_count, new_count) = (vanished.len() as u32, new.len() as u32);
    vanished.truncate(Unmatched::MOST_NAMED);
    new.truncate(Unmatched::MOST_NAMED);
    Unmatched {
        vanished,
        vanished_count,
        new,
        new_count,
        renamed: joined
            .iter()
            .take(Unmatched::MOST_NAMED)
            .filter_map(pair)
            .collect(),
        renamed_count: joined.len() as u32,
    }
}

/// Rows of waits that are large enough to be tested; all others are left out.
pub(crate) fn wait_rows(waits: &[waits::Row], named: &Named, test: &Test) -> Vec<WaitRow> {
    let mut found = Vec::new();
    for ((row, p_value), sure) in waits.iter().zip(&named.waits).zip(&named.causes) {
        if p_value.is_none() {
            continue;
        }
        let [baseline_ns, arm_ns] = waits::means(&row.sides);
        let (low_ns, high_ns) = test.interval(&row.sides);
        let causes = row
            .causes
            .iter()
            .zip(sure)
            .filter(|(_, is_named)| **is_named);
        let mut causes: Vec<WaitCauseRow> = causes.map(|(cause, _)| wait_cause(cause)).collect();
        causes.sort_by(|one, other| {
            other
                .difference_ns
                .abs()
                .total_cmp(&one.difference_ns.abs())
        });
        found.push(WaitRow {
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
    // Tasks are blocked most of the time because nobody asks anything of them: what waits for the CPU goes first.
    let is_blocked = |row: &WaitRow| row.state == WaitState::Blocked;
    found.sort_by(|one, other| {
        let size = other
            .difference_ns
            .abs()
            .total_cmp(&one.difference_ns.abs());
        (Reverse(one.significant), is_blocked(one), one.view)
            .cmp(&(Reverse(other.significant), is_blocked(other), other.view))
            .then(size)
    });
    found
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
