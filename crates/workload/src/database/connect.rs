//! `connect`: many connections, small queries, and a query with a large result.

use anyhow::Result;

use crate::data::stream;
use crate::database::client::{Client, insert};
use crate::database::{Procedure, Scale};

/// Length of the long string: the maximum of `MySQL`'s `blob` in 2004.
const BIG: usize = 65_000;

pub(super) struct Connect {
    connects: u64,
    selects: u64,
    number: u64,
    big: String,
}

impl Connect {
    pub(super) fn new(scale: Scale, seed: u64) -> Self {
        let mut stream = stream(seed, "database/connect");
        let letter = |_| char::from(b'a' + stream.below(26) as u8);
        let big = (0..BIG).map(letter).collect();
        Self {
            connects: scale.scaled(10_000, 10),
            selects: scale.scaled(100_000, 20),
            number: stream.below(1_000_000),
            big,
        }
    }
}

impl Procedure for Connect {
    fn fill(&self, client: &mut Client) -> Result<()> {
        client
            .execute("create table met (a int not null, i int, s varchar(10), primary key (a))")?;
        let rows = [1, 2].map(|a| format!("{a}, {}, 'name{a}'", self.number + a));
        client.expect_affected(&insert("met", rows), 2)?;
        client.execute("create table met_big (b text not null)")?;
        client.expect_affected(&insert("met_big", [format!("'{}'", self.big)]), 1)
    }

    fn query(&self, client: &mut Client) -> Result<()> {
        let one = format!("1|{}|name1", self.number + 1);
        let two = [one.clone(), format!("2|{}|name2", self.number + 2)];
        for _ in 0..self.connects {
            client.reconnect()?;
        }
        for _ in 0..self.connects {
            client.reconnect()?;
            client.expect_row("select 1", 1)?;
        }
        for _ in 0..self.connects {
            client.reconnect()?;
            client.expect_row("select * from met where a = 1", &one)?;
        }
        for _ in 0..self.selects {
            client.expect_row("select 1", 1)?;
        }
        for _ in 0..self.selects {
            client.expect_row("select * from met where a = 1", &one)?;
        }
        for _ in 0..self.selects {
            client.expect_rows("select * from met order by a", &two)?;
        }
        let sum = 2 * (self.number + 1);
        for _ in 0..self.selects {
            client.expect_row("select i + i from met where a = 1", sum)?;
        }
        for _ in 0..self.connects {
            client.expect_row("select b from met_big", &self.big)?;
        }
        client.execute("drop table met")?;
        client.execute("drop table met_big")
    }
}
