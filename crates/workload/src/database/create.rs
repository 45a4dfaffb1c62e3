//! `create`: many tables at once, and tables that are created and dropped.

use anyhow::Result;

use crate::database::client::{Client, insert};
use crate::database::{Procedure, Scale};

pub(super) struct Create {
    tables: u64,
}

const COLUMNS: &str = "(i int not null, d double precision, f real, s varchar(10), v varchar(100))";

impl Create {
    pub(super) fn new(scale: Scale) -> Self {
        Self {
            tables: scale.scaled(10_000, 10),
        }
    }
}

impl Procedure for Create {
    fn fill(&self, client: &mut Client) -> Result<()> {
        for table in 0..self.tables {
            client.execute(&format!("create table many_{table} {COLUMNS}"))?;
            let row = format!("{table}, 0.5, 0.25, 'ten', 'hundred'");
            client.expect_affected(&insert(&format!("many_{table}"), [row]), 1)?;
        }
        Ok(())
    }

    fn query(&self, client: &mut Client) -> Result<()> {
        for table in 0..self.tables {
            let sql = format!("select s, count(*), sum(i) from many_{table} group by s");
            client.expect_row(&sql, format!("ten|1|{table}"))?;
        }
        let named =
            "select count(*) from information_schema.tables where table_name like 'many\\_%'";
        client.expect_row(named, self.tables)?;
        for table in 0..self.tables {
            client.execute(&format!("drop table many_{table}"))?;
        }
        client.expect_row(named, 0)?;
        for _ in 0..self.tables {
            client.execute(&format!("create table once {COLUMNS}"))?;
            client.execute("drop table once")?;
        }
        for _ in 0..self.tables {
            client.execute(&format!("create table once {COLUMNS}"))?;
            client.execute("create index once_key on once (i, s)")?;
            client.execute("drop table once")?;
        }
        Ok(())
    }
}
