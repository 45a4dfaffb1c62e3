//! Waits of either arm side by side: by task, by what they waited for, and by what that was due to.

use std::collections::BTreeMap;

use record::account::{Account, WaitSize, WaitState};
use record::verdict::why::WaitView;

use crate::arm_summary::mean;

/// The longest of a task's waits are one in so many, and a task that has no more than that in a typical trial has no longest ones
/// to speak of.
const SLOWEST_ONE_IN: f64 = 100.0;

/// Waits of one kind of task.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) view: WaitView,
    pub(super) state: WaitState,
    pub(super) task: String,
}

/// One kind of waits in all trials, the baseline's first: nanoseconds a request, or a wait for the slowest.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) key: Key,
    pub(super) sides: [Vec<f64>; 2],
    pub(super) causes: Vec<Cause>,
}

/// What some of them are due to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cause {
    pub(super) name: String,
    pub(super) sides: [Vec<f64>; 2],
}

/// One trial's waits of one kind.
#[derive(Debug, Clone, Default)]
struct Sum {
    /// How many there were, the others of the task among them.
    count: f64,
    ns: f64,
    causes: BTreeMap<String, f64>,
}

impl Sum {
    /// Adds a part of some waits, multiplied by `factor`.
    fn add(&mut self, waits: &WaitSize, factor: f64) {
        self.ns += waits.ns as f64 * factor;
        for cause in &waits.causes {
            *self.causes.entry(cause.name.clone()).or_default() += cause.ns as f64 * factor;
        }
    }
}

/// The waits of all trials, ordered by view, state and task. Accounts are usable ones.
pub(super) fn rows(accounts: &[Vec<&Account>; 2]) -> Vec<Row> {
    let none = accounts
        .each_ref()
        .map(|side| vec![Sum::default(); side.len()]);
    let mut found: BTreeMap<Key, [Vec<Sum>; 2]> = BTreeMap::new();
    for (side, accounts) in accounts.iter().enumerate() {
        for (trial, account) in accounts.iter().enumerate() {
            for (key, sum) in sums(account) {
                found.entry(key).or_insert_with(|| none.clone())[side][trial] = sum;
            }
        }
    }
    let is_known = |(key, sums): &(Key, [Vec<Sum>; 2])| match key.view {
        WaitView::Mean => true,
        WaitView::Slowest => {
            let all: Vec<&Sum> = sums.iter().flatten().collect();
            SLOWEST_ONE_IN <= mean(&all, |sum| sum.count)
        }
    };
    let known = found.into_iter().filter(is_known);
    known.map(|(key, sums)| row(key, &sums)).collect()
}

fn sums(account: &Account) -> BTreeMap<Key, Sum> {
    let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
    for waits in &account.waits {
        let key = |view| Key {
            view,
            state: waits.state,
            task: waits.task.clone(),
        };
        let all = sums.entry(key(WaitView::Mean)).or_default();
        for size in &waits.sizes {
            all.add(size, 1.0 / account.work);
        }
        *sums.entry(key(WaitView::Slowest)).or_default() = slowest(&waits.sizes);
    }
    sums
}

/// The longest waits: of the size at the border as many as are needed, at that size's mean.
fn slowest(sizes: &[WaitSize]) -> Sum {
    let count: f64 = sizes.iter().map(|size| size.count as f64).sum();
    let wanted = (count / SLOWEST_ONE_IN).max(1.0).min(count);
    let mut longest: Vec<&WaitSize> = sizes.iter().filter(|size| size.count > 0).collect();
    longest.sort_by_key(|size| std::cmp::Reverse(size.below_log2_ns));
    let (mut sum, mut left) = (Sum::default(), wanted);
    sum.count = count;
    for size in longest {
        let taken = left.min(size.count as f64);
        sum.add(size, taken / size.count as f64 / wanted);
        left -= taken;
    }
    sum
}

fn row(key: Key, sums: &[Vec<Sum>; 2]) -> Row {
    let both = |of: &dyn Fn(&Sum) -> f64| -> [Vec<f64>; 2] {
        sums.each_ref().map(|side| side.iter().map(of).collect())
    };
    let mut names: Vec<&String> = sums
        .iter()
        .flatten()
        .flat_map(|sum| sum.causes.keys())
        .collect();
    names.sort();
    names.dedup();
    let cause = |name: &String| Cause {
        name: name.clone(),
        sides: both(&|sum| sum.causes.get(name).copied().unwrap_or(0.0)),
    };
    Row {
        key,
        sides: both(&|sum| sum.ns),
        causes: names.into_iter().map(cause).collect(),
    }
}

/// Means over trials, of the baseline and of the arm.
pub(super) fn means(sides: &[Vec<f64>; 2]) -> [f64; 2] {
    sides.each_ref().map(|side| mean(side, |value| *value))
}
