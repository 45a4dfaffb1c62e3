//! Accounts of several trials as one table: a row for each function of each mechanism, a column for each trial.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::AddAssign;

use record::account::Account;
use record::verdict::why::{LostReason, Mechanism};

use crate::mechanism;

/// What one function counts in one trial, per request.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) calls: f64,
    pub(super) instructions: f64,
    pub(super) rep: f64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.instructions += other.instructions;
        self.rep += other.rep;
    }
}

/// A function of one mechanism.
pub(super) type Key = (Mechanism, String);

/// One trial's functions.
pub(super) type Column = BTreeMap<Key, Counts>;

/// One trial's account by mechanism and function. A function that says nothing by its name counts for the mechanism of the
/// nearest caller that does, so it may stand in several.
pub(super) fn column(account: &Account) -> Result<Column, LostReason> {
    if !(account.requests.is_finite() && account.requests > 0.0) {
        return Err(LostReason::NoRequests);
    }
    let known: Vec<Option<Mechanism>> = account.functions.iter().map(mechanism::of).collect();
    let mut sums: HashMap<(Mechanism, u32), Counts> = HashMap::new();
    let mut of_node: Vec<Mechanism> = Vec::with_capacity(account.nodes.len());
    for node in &account.nodes {
        let own = *known
            .get(node.function as usize)
            .ok_or(LostReason::Damaged)?;
        let inherited = match node.parent {
            Some(parent) => *of_node.get(parent as usize).ok_or(LostReason::Damaged)?,
            None => Mechanism::Other,
        };
        if node.rep_iterations > node.instructions {
            return Err(LostReason::Damaged);
        }
        let mechanism = own.unwrap_or(inherited);
        of_node.push(mechanism);
        *sums.entry((mechanism, node.function)).or_default() += Counts {
            calls: node.calls as f64 / account.requests,
            instructions: node.instructions as f64 / account.requests,
            rep: node.rep_iterations as f64 / account.requests,
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

/// A function in all blocks, the baseline first in each.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) mechanism: Mechanism,
    pub(super) name: String,
    /// Its name in the baseline, where that is another one.
    pub(super) from: Option<String>,
    pub(super) blocks: Vec<[Counts; 2]>,
}

impl Row {
    /// Differences in instructions, block by block.
    pub(super) fn differences(&self) -> Vec<f64> {
        let difference = |[baseline, arm]: &[Counts; 2]| arm.instructions - baseline.instructions;
        self.blocks.iter().map(difference).collect()
    }

    /// Means over blocks, of the baseline and of the arm.
    pub(super) fn means(&self) -> [Counts; 2] {
        [0, 1].map(|side| {
            let mut sum = Counts::default();
            self.blocks.iter().for_each(|block| sum += block[side]);
            let blocks = self.blocks.len().max(1) as f64;
            Counts {
                calls: sum.calls / blocks,
                instructions: sum.instructions / blocks,
                rep: sum.rep / blocks,
            }
        })
    }

    /// Whether all blocks of one arm have it.
    fn is_steady(&self, side: usize) -> bool {
        self.blocks
            .iter()
            .all(|block| block[side].instructions > 0.0)
    }

    /// Whether no block of one arm has it.
    fn is_absent(&self, side: usize) -> bool {
        self.blocks
            .iter()
            .all(|block| block[side].instructions <= 0.0)
    }

    /// Whether one arm alone executed it, in all of its trials.
    pub(super) fn is_only_in(&self, side: usize) -> bool {
        self.is_steady(side) && self.is_absent(1 - side)
    }
}

/// The rows of all blocks, by mechanism and name.
pub(super) fn rows(columns: Vec<[Column; 2]>) -> Vec<Row> {
    let blocks = columns.len();
    let mut rows: BTreeMap<Key, Vec<[Counts; 2]>> = BTreeMap::new();
    for (block, sides) in columns.into_iter().enumerate() {
        for (side, column) in sides.into_iter().enumerate() {
            for (key, counts) in column {
                let row = rows.entry(key);
                row.or_insert_with(|| vec![<[Counts; 2]>::default(); blocks])[block][side] = counts;
            }
        }
    }
    let row = |((mechanism, name), blocks)| Row {
        mechanism,
        name,
        from: None,
        blocks,
    };
    rows.into_iter().map(row).collect()
}

/// Functions that each arm has under another name become one row, named as in the arm: same mechanism, calls and cost within
/// `NEAR`, and no other function that would do nearly as well.
pub(super) fn join_renamed(rows: &[Row]) -> Vec<Row> {
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
            for (block, before) in row.blocks.iter_mut().zip(&old.blocks) {
                block[0] = before[0];
            }
        }
        joined.push(row);
    }
    joined
}

/// Two functions are taken for one where calls and cost of a call differ by no more than this, as a logarithm.
const NEAR: f64 = 0.05;

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
        if rows[*other].mechanism != rows[index].mechanism {
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
