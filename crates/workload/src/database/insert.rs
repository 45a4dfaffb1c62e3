//! `insert`: inserts rows in three orders, and reads, changes and deletes them by key.

use anyhow::Result;

use crate::data::stream;
use crate::database::client::{Client, insert};
use crate::database::{Procedure, Scale};

pub(super) struct Insert {
    scale: Scale,
    /// Number of rows of each order.
    third: u64,
    /// The ids of the last third in random order.
    mixed: Vec<u64>,
}

/// Rows of a multi-row `insert` statement.
const MANY: u64 = 100;

/// Number of columns with an index in the table of many keys.
const KEYS: u64 = 16;

impl Insert {
    pub(super) fn new(scale: Scale, seed: u64) -> Self {
        let third = scale.scaled(100_000, 24);
        let mut stream = stream(seed, "database/insert");
        let mut mixed: Vec<_> = (2 * third..3 * third).collect();
        stream.shuffle(&mut mixed);
        Self {
            scale,
            third,
            mixed,
        }
    }

    fn rows(&self) -> u64 {
        3 * self.third
    }

    /// The third field of a row, which falls as the id rises.
    fn counter(&self, id: u64) -> u64 {
        self.rows() - 1 - id
    }

    fn row(&self, id: u64) -> String {
        format!("{id}, {id}, {}, 'ABCDEFGHIJ'", self.counter(id))
    }

    fn shown(&self, id: u64) -> String {
        format!("{id}|{id}|{}|ABCDEFGHIJ", self.counter(id))
    }

    /// The first row of the n-th query of `width` rows, spread evenly over the table.
    fn spread(&self, n: u64, width: u64) -> u64 {
        n * 7919 % (self.rows() - width)
    }

    fn read(&self, client: &mut Client) -> Result<()> {
        let rising: Vec<_> = (0..self.rows()).map(|id| self.shown(id)).collect();
        let falling: Vec<_> = rising.iter().rev().cloned().collect();
        for _ in 0..self.scale.scaled(10, 1) {
            client.expect_rows("select * from bench1 order by id, id2", &rising)?;
            client.expect_rows("select * from bench1 order by id3", &falling)?;
            client.expect_rows("select * from bench1 order by dummy1, id", &rising)?;
        }
        for n in 0..self.scale.scaled(10_000, 20) {
            let (from, width) = (self.spread(n, 20), 20);
            let sum = width * from + width * (width - 1) / 2;
            let to = from + width;
            client.expect_row(
                &format!(
                    "select count(*), sum(id3) from bench1 where id3 >= {from} and id3 < {to}"
                ),
                format!("{width}|{sum}"),
            )?;
        }
        for n in 0..self.scale.scaled(85_000, 20) {
            let from = self.spread(n, 10);
            let sql = format!(
                "select min(id), max(id) from bench1 where id >= {from} and id < {}",
                from + 10
            );
            client.expect_row(&sql, format!("{from}|{}", from + 9))?;
        }
        for n in 0..self.scale.scaled(50_000, 20) {
            let from = self.spread(n, 10);
            let sql = format!(
                "select count(id) from bench1 where id >= {from} and id < {}",
                from + 10
            );
            client.expect_row(&sql, 10)?;
        }
        Ok(())
    }

    fn update(&self, client: &mut Client) -> Result<()> {
        for id in 0..self.rows() {
            let sql =
                format!("update bench1 set dummy1 = 'updated' where id = {id} and id2 = {id}");
            client.expect_affected(&sql, 1)?;
        }
        client.expect_row(
            "select count(*) from bench1 where dummy1 = 'updated'",
            self.rows(),
        )?;
        let moved = self.third / 2;
        for id in 0..moved {
            let sql = format!(
                "update bench1 set id3 = id3 + {} where id = {id}",
                self.rows()
            );
            client.expect_affected(&sql, 1)?;
        }
        let sum = self.rows() * (self.rows() - 1) / 2 + moved * self.rows();
        client.expect_row("select sum(id3) from bench1", sum)
    }

    fn delete(&self, client: &mut Client) -> Result<()> {
        let single = self.scale.scaled(10_000, 10);
        for id in 0..single {
            client.expect_affected(
                &format!("delete from bench1 where id = {id} and id2 = {id}"),
                1,
            )?;
        }
        let left = self.rows() - single;
        client.expect_row("select count(*) from bench1", left)?;
        let piece = left / 24;
        for n in 0..12 {
            let from = single + n * piece;
            let to = from + piece;
            client.expect_affected(
                &format!("delete from bench1 where id >= {from} and id < {to}"),
                piece,
            )?;
        }
        client.expect_affected("delete from bench1", left - 12 * piece)?;
        client.execute("drop table bench1")
    }

    fn copy(&self, client: &mut Client) -> Result<()> {
        client.execute("create table bench2 (id int not null, id2 int not null, id3 int not null, dummy1 varchar(30))")?;
        client.expect_affected("insert into bench2 select * from bench1", self.rows())?;
        let sum = self.rows() * (self.rows() - 1) / 2;
        client.expect_row(
            "select count(*), sum(id) from bench2",
            format!("{}|{sum}", self.rows()),
        )?;
        client.execute("drop table bench2")
    }

    /// Inserts rows by the hundred, then single rows into a table with an index on every column.
    fn insert_many(&self, client: &mut Client) -> Result<()> {
        client.execute("create table bench3 (id int not null primary key, s varchar(30))")?;
        for from in (0..self.third).step_by(MANY as usize) {
            let to = self.third.min(from + MANY);
            let rows = (from..to).map(|id| format!("{id}, 'many {id}'"));
            client.expect_affected(&insert("bench3", rows), to - from)?;
        }
        let sum = self.third * (self.third - 1) / 2;
        client.expect_row(
            "select count(*), sum(id) from bench3",
            format!("{}|{sum}", self.third),
        )?;
        client.execute("drop table bench3")?;

        let columns: Vec<_> = (1..=KEYS).map(|at| format!("k{at} int not null")).collect();
        client.execute(&format!("create table bench4 ({})", columns.join(", ")))?;
        for at in 1..=KEYS {
            client.execute(&format!("create index bench4_{at} on bench4 (k{at})"))?;
        }
        for id in 0..self.third {
            let fields: Vec<_> = (1..=KEYS)
                .map(|at| (id * at % self.third).to_string())
                .collect();
            client.expect_affected(&insert("bench4", [fields.join(", ")]), 1)?;
        }
        for at in 1..=KEYS {
            let right = (0..self.third)
                .filter(|id| id * at % self.third == 0)
                .count();
            client.expect_row(
                &format!("select count(*) from bench4 where k{at} = 0"),
                right,
            )?;
        }
        client.execute("drop table bench4")
    }
}

impl Procedure for Insert {
    fn fill(&self, client: &mut Client) -> Result<()> {
        client.execute(
            "create table bench1 (id int not null, id2 int not null, id3 int not null, \
             dummy1 varchar(30), primary key (id, id2))",
        )?;
        client.execute("create index bench1_id3 on bench1 (id3)")?;
        let rising = 0..self.third;
        let falling = (self.third..2 * self.third).rev();
        for id in rising.chain(falling).chain(self.mixed.iter().copied()) {
            client.expect_affected(&insert("bench1", [self.row(id)]), 1)?;
        }
        client.analyze("bench1")
    }

    fn query(&self, client: &mut Client) -> Result<()> {
        let sum = self.rows() * (self.rows() - 1) / 2;
        let whole = format!("{}|{sum}|{sum}", self.rows());
        client.expect_row("select count(*), sum(id), sum(id3) from bench1", &whole)?;
        for id in 0..self.third {
            client.expect_duplicate_key(&insert("bench1", [self.row(id)]))?;
        }
        client.expect_row("select count(*), sum(id), sum(id3) from bench1", &whole)?;
        self.read(client)?;
        self.copy(client)?;
        self.update(client)?;
        self.delete(client)?;
        self.insert_many(client)
    }
}
