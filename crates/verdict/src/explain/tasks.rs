//! Whose instructions they are: those of each kind of task, whatever code it ran.

use std::collections::BTreeMap;

use record::account::Account;
use record::verdict::why::TaskRow;

use super::tested::Test;
use super::waits;

/// A row for each kind of task, the largest first. They sum to the account. No row is tested: mechanisms are of the same instructions.
pub(super) fn rows(accounts: &[Vec<&Account>; 2], test: &Test) -> Vec<TaskRow> {
    let mut found: BTreeMap<&str, [Vec<f64>; 2]> = BTreeMap::new();
    let none = || accounts.each_ref().map(|side| vec![0.0; side.len()]);
    for (side, own) in accounts.iter().enumerate() {
        for (trial, account) in own.iter().enumerate() {
            for task in &account.tasks {
                let row = found.entry(&task.name).or_insert_with(none);
                row[side][trial] += task.instructions as f64 / account.work;
            }
        }
    }
    let row = |(name, sides): (&str, [Vec<f64>; 2])| {
        let [baseline, arm] = waits::means(&sides);
        let (low, high) = test.interval(&sides);
        TaskRow {
            name: name.into(),
            baseline,
            arm,
            difference: arm - baseline,
            low,
            high,
        }
    };
    let mut rows: Vec<TaskRow> = found.into_iter().map(row).collect();
    rows.sort_by(|one, other| other.larger().total_cmp(&one.larger()));
    rows
}
