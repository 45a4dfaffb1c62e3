//! `alter-table`: columns and indexes come and go in a table that holds rows.

use anyhow::Result;

use crate::database::client::{Client, insert};
use crate::database::{Procedure, Scale};

/// Columns of the table at first, and how many of them get an index.
const FIRST: u64 = 8;

pub(super) struct AlterTable {
    rows: u64,
    added: u64,
    dropped: u64,
}

impl AlterTable {
    pub(super) fn new(scale: Scale) -> Self {
        let added = scale.of(100, 10);
        Self {
            rows: scale.of(1000, 50),
            added,
            // 91 of 100: the table must end narrower than it was and still have columns to check.
            dropped: added * 91 / 100,
        }
    }

    /// Columns are counted from 1; each holds its row's number plus its own.
    fn sum_of(&self, column: u64) -> u64 {
        self.rows * (self.rows - 1) / 2 + self.rows * column
    }
}

impl Procedure for AlterTable {
    fn fill(&self, client: &mut Client) -> Result<()> {
        let columns: Vec<_> = (1..=FIRST)
            .map(|at| format!("i{at} int not null"))
            .collect();
        client.define(&format!("create table altered ({})", columns.join(", ")))?;
        for row in 0..self.rows {
            let fields: Vec<_> = (1..=FIRST).map(|at| (row + at).to_string()).collect();
            client.change(&insert("altered", [fields.join(", ")]), 1)?;
        }
        Ok(())
    }

    fn ask(&self, client: &mut Client) -> Result<()> {
        let all = FIRST + self.added;
        for column in FIRST + 1..=all {
            client.define(&format!(
                "alter table altered add column i{column} int default {column}"
            ))?;
        }
        client.tells(
            &format!("select count(*), sum(i1), sum(i{FIRST}), sum(i{all}) from altered"),
            format!(
                "{}|{}|{}|{}",
                self.rows,
                self.sum_of(1),
                self.sum_of(FIRST),
                self.rows * all
            ),
        )?;
        for column in 1..=FIRST {
            client.define(&format!(
                "create index altered_{column} on altered (i{column})"
            ))?;
        }
        for column in 1..=FIRST {
            let row = self.rows / 2;
            let sql = format!(
                "select count(*) from altered where i{column} = {}",
                row + column
            );
            client.tells(&sql, 1)?;
        }
        for column in 1..=FIRST {
            client.drop_index(&format!("altered_{column}"), "altered")?;
        }
        for column in (all - self.dropped + 1..=all).rev() {
            client.define(&format!("alter table altered drop column i{column}"))?;
        }
        let left = all - self.dropped;
        client.tells(
            &format!("select count(*), sum(i1), sum(i{left}) from altered"),
            format!("{}|{}|{}", self.rows, self.sum_of(1), self.rows * left),
        )?;
        client.define("drop table altered")
    }
}
