//! `big-tables`: reads and writes whole rows of a table with a thousand columns.

use anyhow::Result;

use crate::data::stream;
use crate::database::client::{Client, insert};
use crate::database::{Procedure, Scale};

/// Number of columns, as in `sql-bench`. `InnoDB` allows 1017, `PostgreSQL` 1600. Not scaled.
const COLUMNS: u64 = 1000;

pub(super) struct BigTables {
    loops: u64,
    /// The row that is read repeatedly.
    row: Vec<u64>,
}

impl BigTables {
    pub(super) fn new(scale: Scale, seed: u64) -> Self {
        let mut stream = stream(seed, "database/big-tables");
        Self {
            loops: scale.scaled(1000, 5),
            row: (0..COLUMNS).map(|_| stream.below(1_000_000)).collect(),
        }
    }

    fn names() -> String {
        let names: Vec<_> = (1..=COLUMNS).map(|at| format!("i{at}")).collect();
        names.join(", ")
    }

    /// The row with its first field replaced.
    fn fields(&self, first: u64, gap: &str) -> String {
        let rest = self.row[1..].iter().copied();
        let fields: Vec<_> = std::iter::once(first)
            .chain(rest)
            .map(|field| field.to_string())
            .collect();
        fields.join(gap)
    }
}

impl Procedure for BigTables {
    fn fill(&self, client: &mut Client) -> Result<()> {
        let columns: Vec<_> = (1..=COLUMNS)
            .map(|at| format!("i{at} int not null"))
            .collect();
        client.execute(&format!("create table big ({})", columns.join(", ")))?;
        client.expect_affected(&insert("big", [self.fields(0, ", ")]), 1)
    }

    fn query(&self, client: &mut Client) -> Result<()> {
        let (names, row) = (Self::names(), self.fields(0, "|"));
        for _ in 0..self.loops {
            client.expect_row("select * from big", &row)?;
        }
        for _ in 0..self.loops {
            client.expect_row(&format!("select {names} from big"), &row)?;
        }
        for id in 1..=self.loops {
            client.expect_affected(&insert("big", [self.fields(id, ", ")]), 1)?;
        }
        for id in self.loops + 1..=2 * self.loops {
            client.expect_affected(
                &insert(&format!("big ({names})"), [self.fields(id, ", ")]),
                1,
            )?;
        }
        let rows = 2 * self.loops + 1;
        client.expect_row(
            "select count(*), sum(i1), sum(i2), sum(i1000) from big",
            format!(
                "{rows}|{}|{}|{}",
                rows * (rows - 1) / 2,
                rows * self.row[1],
                rows * self.row[999]
            ),
        )?;
        client.execute("drop table big")
    }
}
