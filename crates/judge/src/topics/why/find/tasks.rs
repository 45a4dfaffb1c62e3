//! Instructions of each kind of task, in any code.

use record::account::Account;
use record::verdict::why::TaskRow;

use super::tested::Test;
use super::{table, waits};

/// A row for each kind of task, the largest first; their sum is the account. No row is tested: mechanisms have the same instructions.
pub(crate) fn rows(accounts: &[Vec<&Account>; 2], test: &Test) -> Vec<TaskRow> {
    let by_task = table::per_work(accounts, |account| {
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
    let mut rows: Vec<TaskRow> = by_task.into_iter().map(row).collect();
    rows.sort_by(|a, b| b.larger().total_cmp(&a.larger()));
    rows
}
