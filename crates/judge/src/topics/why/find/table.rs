//! Accounts of several trials as one table: a row for each function of each mechanism, a column for each trial.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::AddAssign;

use record::account::Account;
use record::verdict::mechanism::Mechanism;
use record::verdict::why::LostReason;

use crate::topics::why::mechanism;

/// Counts of one function in one trial, per request.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) calls: f64,
    pub(crate) instructions: f64,
    pub(crate) strings: f64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.instructions += other.instructions;
        self.strings += other.strings;
    }
}

/// A function of one mechanism.
pub(crate) type Key = (Mechanism, String);

/// One trial's functions.
pub(crate) type Column = BTreeMap<Key, Counts>;

/// One trial's account by mechanism and function.
///
/// A function whose name has no rule counts for the mechanism of its nearest caller with a rule, so it may be in several.
pub(crate) fn column(account: &Account) -> Result<Column, LostReason> {
    if !(account.work.is_finite() && account.work > 0.0) {
        return Err(LostReason::NoWork);
    }
    let mut sums: HashMap<(Mechanism, u32), Counts> = HashMap::new();
    let nodes = account.nodes.iter().zip(calls(account));
    for ((node, calls), mechanism) in nodes.zip(mechanisms(account)?) {
        if node.string_instructions > node.instructions {
            return Err(LostReason::Damaged);
        }
        *sums.entry((mechanism, node.function)).or_default() += Counts {
            calls: calls as f64 / account.work,
            instructions: node.instructions as f64 / account.work,
            strings: node.string_instructions as f64 / account.work,
        };
    }
    // Sorted, because the rounding of sums must not depend on the order of a hash table.
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(key, _)| *key);
    let mut column = Column::new();
    for ((mechanism, function), counts) in sums {
        let name = mechanism::compared_name(&account.functions[function as usize]);
        *column.entry((mechanism, name)).or_default() += counts;
    }
    if column.values().all(|counts| counts.instructions <= 0.0) {
        Err(LostReason::Damaged)
    } else {
        Ok(column)
    }
}

/// Calls of each node. Entries of a function that is only jumped to are not counted: its caller's entry counts already.
pub(crate) fn calls(account: &Account) -> Vec<u64> {
    let functions = account.functions.iter();
    let jumps_from: Vec<Option<&str>> = functions.clone().map(mechanism::jumps_from).collect();
    let called: HashSet<String> = functions
        .zip(&jumps_from)
        .filter(|(_, from)| from.is_none())
        .map(|(function, _)| mechanism::compared_name(function))
        .collect();
    let nodes = account.nodes.iter();
    nodes
        .map(|node| match jumps_from.get(node.function as usize) {
            Some(Some(from)) if called.contains(*from) => 0,
            Some(_) | None => node.calls,
        })
        .collect()
}

/// Counts divided by the trial's work: a row for each name, with zero for trials without it. `counts` must have each name once.
pub(crate) fn per_work<'a, K: Ord, C: Iterator<Item = (K, u64)>>(
    accounts: &[Vec<&'a Account>; 2],
    counts: impl Fn(&'a Account) -> C,
) -> BTreeMap<K, [Vec<f64>; 2]> {
    let none = || accounts.each_ref().map(|side| vec![0.0; side.len()]);
    let mut rows: BTreeMap<K, [Vec<f64>; 2]> = BTreeMap::new();
    for (side, accounts) in accounts.iter().enumerate() {
        for (trial, account) in accounts.iter().enumerate() {
            for (name, count) in counts(account) {
                rows.entry(name).or_insert_with(none)[side][trial] = count as f64 / account.work;
            }
        }
    }
    rows
}

/// The mechanism of each node: its function's, or its caller's.
pub(crate) fn mechanisms(account: &Account) -> Result<Vec<Mechanism>, LostReason> {
    let by_function: Vec<Option<Mechanism>> = account.functions.iter().map(mechanism::of).collect();
    let mut by_node: Vec<Mechanism> = Vec::with_capacity(account.nodes.len());
    for node in &account.nodes {
        let direct = *by_function
            .get(node.function as usize)
            .ok_or(LostReason::Damaged)?;
        let inherited = match node.parent {
            Some(parent) => *by_node.get(parent as usize).ok_or(LostReason::Damaged)?,
            None => Mechanism::Other,
        };
        by_node.push(direct.unwrap_or(inherited));
    }
    Ok(by_node)
}

/// A function's counts in all trials, the baseline's first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) mechanism: Mechanism,
    pub(crate) name: String,
    /// Its name in the baseline, if that differs.
    pub(crate) from: Option<String>,
    pub(crate) sides: [Vec<Counts>; 2],
}

impl Row {
    /// Instructions of each trial.
    pub(crate) fn instructions(&self) -> [Vec<f64>; 2] {
        self.sides
            .each_ref()
            .map(|side| side.iter().map(|counts| counts.instructions).collect())
    }

    /// Means over trials, of the baseline and of the arm.
    pub(crate) fn means(&self) -> [Counts; 2] {
        self.sides.each_ref().map(|side| {
            let mut sum = Counts::default();
            for counts in side {
                sum += *counts;
            }
            let trials = side.len().max(1) as f64;
            Counts {
                calls: sum.calls / trials,
                instructions: sum.instructions / trials,
                strings: sum.strings / trials,
            }
        })
    }

    /// Whether all trials of one side executed it.
    fn is_steady(&self, side: usize) -> bool {
        self.sides[side]
            .iter()
            .all(|counts| counts.instructions > 0.0)
    }

    /// Whether no trial of one side executed it.
    fn is_absent(&self, side: usize) -> bool {
        self.sides[side]
            .iter()
            .all(|counts| counts.instructions <= 0.0)
    }

    /// Whether all trials of one side executed it, and none of the other.
    pub(crate) fn is_only_in(&self, side: usize) -> bool {
        self.is_steady(side) && self.is_absent(1 - side)
    }
}

/// The rows of all trials, by mechanism and name.
pub(crate) fn rows(columns: [Vec<Column>; 2]) -> Vec<Row> {
    let none = columns
        .each_ref()
        .map(|side| vec![Counts::default(); side.len()]);
    let mut rows: BTreeMap<Key, [Vec<Counts>; 2]> = BTreeMap::new();
    for (side, columns) in columns.into_iter().enumerate() {
        for (trial, column) in columns.into_iter().enumerate() {
            for (key, counts) in column {
                rows.entry(key).or_insert_with(|| none.clone())[side][trial] = counts;
            }
        }
    }
    let row = |((mechanism, name), sides)| Row {
        mechanism,
        name,
        from: None,
        sides,
    };
    rows.into_iter().map(row).collect()
}

/// Instructions of each trial, summed over rows.
pub(crate) fn instructions<'r>(rows: impl IntoIterator<Item = &'r Row>) -> [Vec<f64>; 2] {
    let mut sums: [Vec<f64>; 2] = Default::default();
    for row in rows {
        for (sum, side) in sums.iter_mut().zip(row.instructions()) {
            sum.resize(side.len(), 0.0);
            for (sum, instructions) in sum.iter_mut().zip(side) {
                *sum += instructions;
            }
        }
    }
    sums
}

/// Joins a vanished and a new function to one row, named as in the arm, if they are most likely one function with two names.
///
/// Both have the same mechanism, words of the name in common, calls and cost within `NEAR`, and no other candidate is nearly as close.
pub(crate) fn join_renamed(rows: &[Row]) -> Vec<Row> {
    let lone = |side: usize| -> Vec<usize> {
        let is_lone = |index: &usize| is_lone(&rows[*index], side);
        (0..rows.len()).filter(is_lone).collect()
    };
    let sides = [lone(0), lone(1)];
    let mut log_costs: HashMap<usize, [f64; 2]> = HashMap::new();
    for (side, indices) in sides.iter().enumerate() {
        for index in indices {
            log_costs.insert(*index, log_cost(rows[*index].means()[side]));
        }
    }
    let [vanished, new] = &sides;
    let nearest = |index: usize, others: &[usize]| nearest(rows, &log_costs, index, others);
    let mut from: HashMap<usize, usize> = HashMap::new();
    for index in vanished {
        let Some(other) = nearest(*index, new) else {
            continue;
        };
        if nearest(other, vanished) == Some(*index) {
            from.insert(other, *index);
        }
    }
    let old_rows: HashSet<usize> = from.values().copied().collect();
    let mut joined = Vec::with_capacity(rows.len() - old_rows.len());
    for (index, row) in rows.iter().enumerate() {
        if old_rows.contains(&index) {
            continue;
        }
        let mut row = row.clone();
        if let Some(old) = from.get(&index) {
            let old = &rows[*old];
            row.from = Some(old.name.clone());
            row.sides[0].clone_from(&old.sides[0]);
        }
        joined.push(row);
    }
    joined
}

/// Largest difference of the logarithms of calls and of cost per call between two names of one function.
const NEAR: f64 = 0.05;

/// Least number of letters in common words: `tcp` alone is in too many names.
const LETTERS: usize = 4;

/// Among thousands of functions some have the same calls and cost by chance; a renamed one keeps some words of its name.
fn have_words_in_common(a: &str, b: &str) -> bool {
    let words = |name| str::split(name, ['_', '.']);
    let common = words(a).filter(|word| words(b).any(|other| other == *word));
    LETTERS <= common.map(str::len).sum()
}

fn is_lone(row: &Row, side: usize) -> bool {
    row.mechanism != Mechanism::User && row.is_only_in(side) && row.means()[side].calls > 0.0
}

/// Logarithms of calls and of cost per call.
fn log_cost(counts: Counts) -> [f64; 2] {
    [counts.calls.ln(), (counts.instructions / counts.calls).ln()]
}

/// The nearest of `others`, if it is near and no other is nearly as near.
fn nearest(
    rows: &[Row],
    log_costs: &HashMap<usize, [f64; 2]>,
    index: usize,
    others: &[usize],
) -> Option<usize> {
    let [calls, cost] = log_costs[&index];
    let mut nearest = None;
    let (mut least, mut second) = (f64::INFINITY, f64::INFINITY);
    for other in others {
        if rows[*other].mechanism != rows[index].mechanism
            || !have_words_in_common(&rows[*other].name, &rows[index].name)
        {
            continue;
        }
        let [other_calls, other_cost] = log_costs[other];
        let distance = (other_calls - calls).abs().max((other_cost - cost).abs());
        if distance < least {
            (second, least) = (least, distance);
            nearest = Some(*other);
        } else {
            second = second.min(distance);
        }
    }
    nearest.filter(|_| least <= NEAR && least + NEAR <= second)
}
