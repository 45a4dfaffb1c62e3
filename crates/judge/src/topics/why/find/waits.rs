//! Waits of both arms side by side, by task, state and cause.

use std::collections::{BTreeMap, HashMap};

use record::account::{Account, WaitSize, WaitState};
use record::verdict::why::WaitView;

use crate::topics::why::mechanism;
use stats::average::mean;

/// One in this many waits is among the slowest. A task with fewer waits in a typical trial has no slowest ones.
const SLOWEST_ONE_IN: f64 = 100.0;

/// Waits of one kind of task.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) view: WaitView,
    pub(crate) state: WaitState,
    pub(crate) task: String,
}

/// One kind of waits in all trials, the baseline's first: nanoseconds per request, or per wait for the slowest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) key: Key,
    pub(crate) sides: [Vec<f64>; 2],
    pub(crate) causes: Vec<Cause>,
}

/// The part of a row's waits that has one cause.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cause {
    pub(crate) name: String,
    pub(crate) sides: [Vec<f64>; 2],
}

/// Names of renamed functions: the baseline's name to the arm's.
pub(crate) type Renamed<'r> = HashMap<&'r str, &'r str>;

/// One trial's waits of one kind.
#[derive(Debug, Clone, Default)]
struct Sum {
    /// Number of all waits of the task in this state.
    count: f64,
    /// Per request, or per wait for the slowest.
    ns: f64,
    /// Sum of all waits of the trial.
    whole_ns: f64,
    window_ns: f64,
    causes: BTreeMap<String, f64>,
}

impl Sum {
    /// Adds waits, multiplied by `factor`.
    fn add(&mut self, waits: &WaitSize, factor: f64, cause_of: impl Fn(&str) -> String) {
        self.ns += waits.ns as f64 * factor;
        for cause in &waits.causes {
            *self.causes.entry(cause_of(&cause.name)).or_default() += cause.ns as f64 * factor;
        }
    }
}

/// The name under which causes of both arms are compared.
fn cause_of(name: &str, state: WaitState, renamed: &Renamed<'_>) -> String {
    match state {
        WaitState::RunQueue => name.into(),
        WaitState::Blocked => {
            let function = mechanism::sleeping_function(name);
            renamed.get(function).copied().unwrap_or(function).into()
        }
    }
}

/// The waits of all trials, ordered by view, state and task. All accounts must be usable.
pub(crate) fn rows(accounts: &[Vec<&Account>; 2], renamed: &Renamed<'_>) -> Vec<Row> {
    let none = accounts
        .each_ref()
        .map(|side| vec![Sum::default(); side.len()]);
    let mut by_key: BTreeMap<Key, [Vec<Sum>; 2]> = BTreeMap::new();
    for (side, accounts) in accounts.iter().enumerate() {
        for (trial, account) in accounts.iter().enumerate() {
            for (key, sum) in sums(account, renamed) {
                by_key.entry(key).or_insert_with(|| none.clone())[side][trial] = sum;
            }
        }
    }
    let mut rows = Vec::new();
    for (key, sums) in by_key {
        let is_comparable = match key.view {
            WaitView::Mean => key.state == WaitState::RunQueue || !differs_only_by_unit(&sums),
            WaitView::Slowest => {
                let all: Vec<&Sum> = sums.iter().flatten().collect();
                SLOWEST_ONE_IN <= mean(&all, |sum| sum.count)
            }
        };
        if is_comparable {
            rows.push(row(key, &sums));
        }
    }
    rows
}

/// Tasks that always sleep differ by less than this share of the window, and of their sleep, by chance.
const IDLE_SHARE: f64 = 0.01;

/// Whether all threads of a task slept during the whole window. Accounts have no waits of threads that never woke.
fn is_idle(sum: &Sum) -> bool {
    if sum.whole_ns == 0.0 {
        return true;
    }
    let windows = sum.whole_ns / sum.window_ns;
    let threads = windows.round().max(1.0);
    (threads - windows).abs() <= IDLE_SHARE
}

/// Whether tasks sleep equally long in both arms, or during the whole window.
///
/// Then their times per request differ only because the arms served different numbers of requests.
fn differs_only_by_unit(sums: &[Vec<Sum>; 2]) -> bool {
    let [before, after] = sums.each_ref().map(|side| mean(side, |sum| sum.whole_ns));
    sums.iter().flatten().all(is_idle) || (after - before).abs() < IDLE_SHARE * before.max(after)
}

fn sums(account: &Account, renamed: &Renamed<'_>) -> BTreeMap<Key, Sum> {
    let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
    for waits in &account.waits {
        let key = |view| Key {
            view,
            state: waits.state,
            task: waits.task.clone(),
        };
        let cause_of = |name: &str| cause_of(name, waits.state, renamed);
        let all = sums.entry(key(WaitView::Mean)).or_default();
        all.window_ns = account.window_ns as f64;
        for size in &waits.sizes {
            all.whole_ns += size.ns as f64;
            all.add(size, 1.0 / account.work, cause_of);
        }
        *sums.entry(key(WaitView::Slowest)).or_default() = slowest(&waits.sizes, cause_of);
    }
    sums
}

/// The mean of the longest waits. Of the last size class, only as many waits as needed count, at the mean of the class.
fn slowest(sizes: &[WaitSize], cause_of: impl Fn(&str) -> String) -> Sum {
    let count: f64 = sizes.iter().map(|size| size.count as f64).sum();
    let wanted = (count / SLOWEST_ONE_IN).max(1.0).min(count);
    let mut longest: Vec<&WaitSize> = sizes.iter().filter(|size| size.count > 0).collect();
    longest.sort_by_key(|size| std::cmp::Reverse(size.below_log2_ns));
    let (mut sum, mut left) = (Sum::default(), wanted);
    sum.count = count;
    for size in longest {
        let taken = left.min(size.count as f64);
        sum.add(size, taken / size.count as f64 / wanted, &cause_of);
        left -= taken;
    }
    sum
}

fn row(key: Key, sums: &[Vec<Sum>; 2]) -> Row {
    let both = |value: &dyn Fn(&Sum) -> f64| -> [Vec<f64>; 2] {
        sums.each_ref().map(|side| side.iter().map(value).collect())
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
    let mut row = Row {
        sides: both(&|sum| sum.ns),
        causes: names.into_iter().map(cause).collect(),
        key,
    };
    if row.key.state == WaitState::Blocked {
        join_lone(&mut row);
    }
    row
}

/// Joins the largest causes that each arm alone has, if one of them is larger than the row's whole difference.
///
/// Such causes are most likely one cause under two names.
fn join_lone(row: &mut Row) {
    let [before, after] = means(&row.sides);
    let whole = (after - before).abs();
    let size = |cause: &Cause| means(&cause.sides).iter().sum::<f64>();
    loop {
        let largest = |side: usize| {
            let is_lone = |index: &usize| {
                let mut other_side = row.causes[*index].sides[1 - side].iter();
                other_side.all(|ns| *ns <= 0.0)
            };
            (0..row.causes.len())
                .filter(is_lone)
                .max_by(|a, b| size(&row.causes[*a]).total_cmp(&size(&row.causes[*b])))
        };
        let (Some(old), Some(new)) = (largest(0), largest(1)) else {
            return;
        };
        if old == new || size(&row.causes[old]).max(size(&row.causes[new])) <= whole {
            return;
        }
        let [old_cause, new_cause] = [old, new].map(|index| row.causes[index].clone());
        let [ns, _] = old_cause.sides;
        let [_, after_ns] = new_cause.sides;
        row.causes[old] = Cause {
            name: format!("{} → {}", old_cause.name, new_cause.name),
            sides: [ns, after_ns],
        };
        row.causes.remove(new);
    }
}

/// Means over trials, of the baseline and of the arm.
pub(crate) fn means(sides: &[Vec<f64>; 2]) -> [f64; 2] {
    sides.each_ref().map(|side| mean(side, |value| *value))
}
