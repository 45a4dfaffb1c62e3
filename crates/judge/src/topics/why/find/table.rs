//! Accounts of several trials as one table: a row for each function of each mechanism, a column for each trial.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::AddAssign;

use record::account::Account;
use record::verdict::mechanism::Mechanism;
use record::verdict::why::LostReason;

use crate::topics::why::mechanism;

/// What one function counts in one trial, per request.
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

/// One trial's account by mechanism and function. A function that says nothing by its name counts for the mechanism of the
/// nearest caller that does, so it may stand in several.
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
    // In the order of functions: sums of fractions must not hang on that of a hash.
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(place, _)| *place);
    let mut column = Column::new();
    for ((mechanism, function), counts) in sums {
        let name = mechanism::compared_name(&account.functions[function as usize]);
        *column.entry((mechanism, name)).or_default() += counts;
    }
    let is_empty = column.values().all(|counts| counts.instructions <= 0.0);
    if is_empty {
        Err(LostReason::Damaged)
    } else {
        Ok(column)
    }
}

/// Calls of each node, without those of a function that only another one jumps to: the profile counts its entries too.
pub(crate) fn calls(account: &Account) -> Vec<u64> {
    let functions = account.functions.iter();
    let jumps_from: Vec<Option<&str>> = functions.clone().map(mechanism::jumps_from).collect();
    let whole = functions
        .zip(&jumps_from)
        .filter(|(_, from)| from.is_none());
    let called: HashSet<String> = whole
        .map(|(one, _)| mechanism::compared_name(one))
        .collect();
    let nodes = account.nodes.iter();
    nodes
        .map(|node| match jumps_from.get(node.function as usize) {
            Some(Some(from)) if called.contains(*from) => 0,
            Some(_) | None => node.calls,
        })
        .collect()
}

/// What trials count under names of their own, for their work: a row for each name, zero in a trial that has it not. A trial has a
/// name once.
pub(crate) fn per_work<'a, K: Ord, C: Iterator<Item = (K, u64)>>(
    accounts: &[Vec<&'a Account>; 2],
    counts: impl Fn(&'a Account) -> C,
) -> BTreeMap<K, [Vec<f64>; 2]> {
    let none = || accounts.each_ref().map(|side| vec![0.0; side.len()]);
    let mut rows: BTreeMap<K, [Vec<f64>; 2]> = BTreeMap::new();
    for (side, own) in accounts.iter().enumerate() {
        for (trial, account) in own.iter().enumerate() {
            for (name, count) in counts(account) {
                rows.entry(name).or_insert_with(none)[side][trial] = count as f64 / account.work;
            }
        }
    }
    rows
}

/// What each node counts for: its function's mechanism, or its caller's.
pub(crate) fn mechanisms(account: &Account) -> Result<Vec<Mechanism>, LostReason> {
    let known: Vec<Option<Mechanism>> = account.functions.iter().map(mechanism::of).collect();
    let mut of_node: Vec<Mechanism> = Vec::with_capacity(account.nodes.len());
    for node in &account.nodes {
        let own = *known
            .get(node.function as usize)
            .ok_or(LostReason::Damaged)?;
        let inherited = match node.parent {
            Some(parent) => *of_node.get(parent as usize).ok_or(LostReason::Damaged)?,
            None => Mechanism::Other,
        };
        of_node.push(own.unwrap_or(inherited));
    }
    Ok(of_node)
}

/// A function in all trials, the baseline's first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) mechanism: Mechanism,
    pub(crate) name: String,
    /// Its name in the baseline, where that is another one.
    pub(crate) from: Option<String>,
    pub(crate) sides: [Vec<Counts>; 2],
}

impl Row {
    /// Instructions of each trial.
    pub(crate) fn instructions(&self) -> [Vec<f64>; 2] {
        let of = |side: &Vec<Counts>| side.iter().map(|counts| counts.instructions).collect();
        self.sides.each_ref().map(of)
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

    /// Whether all trials of one side have it.
    fn is_steady(&self, side: usize) -> bool {
        self.sides[side]
            .iter()
            .all(|counts| counts.instructions > 0.0)
    }

    /// Whether no trial of one side has it.
    fn is_absent(&self, side: usize) -> bool {
        self.sides[side]
            .iter()
            .all(|counts| counts.instructions <= 0.0)
    }

    /// Whether one arm alone executed it, in all of its trials.
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

/// Instructions of all trials, the rows taken together.
pub(crate) fn instructions<'r>(rows: impl IntoIterator<Item = &'r Row>) -> [Vec<f64>; 2] {
    let mut sums: [Vec<f64>; 2] = Default::default();
    for row in rows {
        for (sum, side) in sums.iter_mut().zip(row.instructions()) {
            sum.resize(side.len(), 0.0);
            sum.iter_mut().zip(side).for_each(|(sum, one)| *sum += one);
        }
    }
    sums
}

/// Functions that each arm has under another name become one row, named as in the arm: same mechanism, words of the name in common,
/// calls and cost within `NEAR`, and no other function that would do nearly as well.
pub(crate) fn join_renamed(rows: &[Row]) -> Vec<Row> {
    let lone = |side: usize| -> Vec<usize> {
        let its = |index: &usize| is_lone(&rows[*index], side);
        (0..rows.len()).filter(its).collect()
    };
    let (vanished, new) = (lone(0), lone(1));
    let marks: HashMap<usize, [f64; 2]> = [(0, &vanished), (1, &new)]
        .into_iter()
        .flat_map(|(side, indices)| indices.iter().map(move |index| (*index, side)))
        .map(|(index, side)| (index, mark(rows[index].means()[side])))
        .collect();
    let best = |index: usize, others: &[usize]| best(rows, &marks, index, others);
    let mut from: HashMap<usize, usize> = HashMap::new();
    for index in &vanished {
        let Some(other) = best(*index, &new) else {
            continue;
        };
        if best(other, &vanished) == Some(*index) {
            from.insert(other, *index);
        }
    }
    let gone: HashSet<usize> = from.values().copied().collect();
    let mut joined = Vec::with_capacity(rows.len() - gone.len());
    for (index, row) in rows.iter().enumerate() {
        if gone.contains(&index) {
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

/// Two functions are taken for one where calls and cost of a call differ by no more than this, as a logarithm.
const NEAR: f64 = 0.05;

/// Letters in common from which on two names are about one thing: `tcp` alone is in too many.
const LETTERS: usize = 4;

/// Among thousands of functions some have the same calls and cost by chance: of one that has another name the old one's words remain.
fn have_words_in_common(one: &str, other: &str) -> bool {
    let words = |name| str::split(name, ['_', '.']);
    let common = words(one).filter(|word| words(other).any(|its| its == *word));
    LETTERS <= common.map(str::len).sum()
}

fn is_lone(row: &Row, side: usize) -> bool {
    row.mechanism != Mechanism::User && row.is_only_in(side) && row.means()[side].calls > 0.0
}

/// Calls and cost of a call, as logarithms.
fn mark(counts: Counts) -> [f64; 2] {
    [counts.calls.ln(), (counts.instructions / counts.calls).ln()]
}

/// The one of `others` that is nearest, if it is near and no other is.
fn best(
    rows: &[Row],
    marks: &HashMap<usize, [f64; 2]>,
    index: usize,
    others: &[usize],
) -> Option<usize> {
    let own = marks[&index];
    let distance = |other: usize| {
        let [calls, cost] = marks[&other];
        (calls - own[0]).abs().max((cost - own[1]).abs())
    };
    let (mut first, mut second) = ((f64::INFINITY, None), f64::INFINITY);
    for other in others {
        let is_alike = rows[*other].mechanism == rows[index].mechanism
            && have_words_in_common(&rows[*other].name, &rows[index].name);
        if !is_alike {
            continue;
        }
        let far = distance(*other);
        if far < first.0 {
            (second, first) = (first.0, (far, Some(*other)));
        } else {
            second = second.min(far);
        }
    }
    first
        .1
        .filter(|_| first.0 <= NEAR && first.0 + NEAR <= second)
}
