//! `alter-table`: adds and drops columns and indexes of a table with rows.

use anyhow::Result;

use crate::database::client::{Client, insert};
use crate::database::{Procedure, Scale};

/// Number of initial columns, all of which get an index.
const FIRST: u64 = 8;

pub(super) struct AlterTable {
    rows: u64,
    added: u64,
    dropped: u64,
}

impl AlterTable {
    pub(super) fn new(scale: Scale) -> Self {
        let added = scale.scaled(100, 10);
        Self {
            rows: scale.scaled(1000, 50),
            added,
            // 91 of 100, so that some of the added columns remain to be checked.
            dropped: added * 91 / 100,
        }
    }

    /// Sum of a column, counted from 1. Each field is the sum of row and column numbers.
    fn sum_of(&self, column: u64) -> u64 {
        self.rows * (self.rows - 1) / 2 + self.rows * column
    }
}

impl Procedure for AlterTable {
    fn fill(&self, client: &mut Client) -> Result<()> {
        let columns: Vec<_> = (1..=FIRST)
            .map(|at| format!("i{at} int not null"))
            .collect();
        client.execute(&format!("create table altered ({})", columns.join(", ")))?;
        for row in 0..self.rows {
            let fields: Vec<_> = (1..=FIRST).map(|at| (row + at).to_string()).collect();
            client.expect_affected(&insert("altered", [fields.join(", ")]), 1)?;
        }
        Ok(())
    }

    fn query(&self, client: &mut Client) -> Result<()> {
        let all = FIRST + self.added;
        for column in FIRST + 1..=all {
            client.execute(&format!(
                "alter table altered add column i{column} int default {column}"
            ))?;
        }
        client.expect_row(
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
            client.execute(&format!(
                "create index altered_{column} on altered (i{column})"
            ))?;
        }
        for column in 1..=FIRST {
            let row = self.rows / 2;
            let sql = format!(
                "select count(*) from altered where i{column} = {}",
                row + column
            );
            client.expect_row(&sql, 1)?;
        }
        for column in 1..=FIRST {
            client.drop_index(&format!("altered_{column}"), "altered")?;
        }
        for column in (all - self.dropped + 1..=all).rev() {
            client.execute(&format!("alter table altered drop column i{column}"))?;
        }
        let left = all - self.dropped;
        client.expect_row(
            &format!("select count(*), sum(i1), sum(i{left}) from altered"),
            format!("{}|{}|{}", self.rows, self.sum_of(1), self.rows * left),
        )?;
        client.execute("drop table altered")
    }
}
