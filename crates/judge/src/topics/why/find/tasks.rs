//! Whose instructions they are: those of each kind of task, whatever code it ran.

use record::account::Account;
use record::verdict::why::TaskRow;

use super::tested::Test;
use super::{table, waits};

/// A row for each kind of task, the largest first. They sum to the account. No row is tested: mechanisms are of the same instructions.
pub(crate) fn rows(accounts: &[Vec<&Account>; 2], test: &Test) -> Vec<TaskRow> {
    let found = table::per_work(accounts, |account| {
        let tasks = account.tasks.iter();
        tasks.map(|task| (task.name.as_str(), task.instructions))
    });
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
