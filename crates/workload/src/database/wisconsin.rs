//! `wisconsin`: the Wisconsin benchmark (Bitton, `DeWitt`, Turbyfill: Benchmarking database
//! systems, 1983). It has selections of 1 and 10 percent, joins, projections, aggregates and
//! updates on relations with known attributes.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::data::stream;
use crate::database::client::{Client, insert};
use crate::database::{Procedure, Scale};

pub(super) struct Wisconsin {
    /// Number of rounds.
    rounds: u64,
    /// `unique1` by `unique2` of each relation: `onek`, then three with ten times its size.
    relations: [(&'static str, Vec<u64>); 4],
}

const COLUMNS: &str = "(unique1 int not null, unique2 int not null, two int not null, four int not null, \
    ten int not null, twenty int not null, hundred int not null, thousand int not null, \
    two_thousand int not null, five_thousand int not null, ten_thousand int not null, odd int not null, \
    even int not null, stringu1 varchar(52) not null, stringu2 varchar(52) not null, \
    string4 varchar(52) not null)";

/// The four strings of the attribute `string4`.
const STRINGS: [&str; 4] = ["aaaaxxx", "hhhhxxx", "ooooxxx", "vvvvxxx"];

impl Wisconsin {
    pub(super) fn new(scale: Scale, seed: u64) -> Self {
        let small = scale.scaled(1000, 20);
        let relation = |name: &'static str, rows: u64| {
            let mut unique: Vec<_> = (0..rows).collect();
            stream(seed, name).shuffle(&mut unique);
            (name, unique)
        };
        Self {
            rounds: scale.scaled(3, 1),
            relations: [
                relation("onek", small),
                relation("tenk1", 10 * small),
                relation("tenk2", 10 * small),
                relation("bprime", 10 * small),
            ],
        }
    }

    /// Number of rows of the larger relations.
    fn rows(&self) -> u64 {
        self.relations[1].1.len() as u64
    }

    /// `unique1` of `tenk1`, by `unique2`.
    fn unique(&self) -> &[u64] {
        &self.relations[1].1
    }

    fn selections(&self, client: &mut Client) -> Result<()> {
        let rows = self.rows();
        for part in [rows / 100, rows / 10] {
            let from = rows / 3;
            for key in ["unique1", "unique2"] {
                let within = format!("where {key} >= {from} and {key} < {}", from + part);
                client.expect_count(&format!("select * from tenk1 {within}"), part)?;
                client.execute(&format!("create table selection {COLUMNS}"))?;
                let sql = format!("insert into selection select * from tenk1 {within}");
                client.expect_affected(&sql, part)?;
                let sum = part * from + part * (part - 1) / 2;
                client.expect_row(&format!("select sum({key}) from selection"), sum)?;
                client.execute("drop table selection")?;
            }
        }
        let at = rows / 2;
        let unique = self.unique()[at as usize];
        client.expect_row(
            &format!("select unique1 from tenk1 where unique2 = {at}"),
            unique,
        )?;
        client.expect_row(
            &format!("select unique2 from tenk1 where unique1 = {unique}"),
            at,
        )
    }

    /// Joins of two relations by either key, restricted to a tenth of the rows; then of three.
    fn joins(&self, client: &mut Client) -> Result<()> {
        let part = self.rows() / 10;
        let sum: u64 = self.unique()[..part as usize].iter().sum();
        for other in ["tenk2", "bprime"] {
            client.expect_row(
                &format!(
                    "select count(*), sum(t.unique1) from tenk1 t, {other} o \
                     where t.unique2 = o.unique2 and o.unique2 < {part}"
                ),
                format!("{part}|{sum}"),
            )?;
            client.expect_row(
                &format!(
                    "select count(*), sum(o.unique1) from tenk1 t, {other} o \
                     where t.unique1 = o.unique1 and t.unique1 < {part}"
                ),
                format!("{part}|{}", part * (part - 1) / 2),
            )?;
        }
        let part = self.relations[0].1.len() as u64;
        client.expect_row(
            "select count(*), sum(t.unique1) from onek o, tenk1 t, tenk2 u \
             where o.unique2 = t.unique2 and t.unique2 = u.unique2",
            format!("{part}|{sum}"),
        )
    }

    fn projections(&self, client: &mut Client) -> Result<()> {
        let rows = self.unique().iter().zip(0..);
        let kinds: BTreeSet<_> = rows
            .map(|(unique1, unique2)| (unique1 % 100, unique2 % 4))
            .collect();
        let all = "two, four, ten, twenty, hundred, string4";
        client.expect_count(
            &format!("select distinct {all} from tenk1"),
            kinds.len() as u64,
        )?;
        client.expect_count(
            "select distinct unique1, unique2, two from tenk1",
            self.rows(),
        )
    }

    fn aggregates(&self, client: &mut Client) -> Result<()> {
        let mut groups = vec![(u64::MAX, 0); 100];
        for (unique1, unique2) in self.unique().iter().zip(0..) {
            let (least, sum) = &mut groups[(unique1 % 100) as usize];
            *least = unique2.min(*least);
            *sum += unique2;
        }
        client.expect_row(
            "select min(unique2), max(unique1) from tenk1",
            format!("0|{}", self.rows() - 1),
        )?;
        let least: Vec<_> = groups
            .iter()
            .zip(0..)
            .map(|((least, _), at)| format!("{at}|{least}"))
            .collect();
        client.expect_rows(
            "select hundred, min(unique2) from tenk1 group by hundred order by hundred",
            &least,
        )?;
        let sums: Vec<_> = groups
            .iter()
            .zip(0..)
            .map(|((_, sum), at)| format!("{at}|{sum}"))
            .collect();
        client.expect_rows(
            "select hundred, sum(unique2) from tenk1 group by hundred order by hundred",
            &sums,
        )
    }

    /// Inserts a row, changes its keys and deletes it.
    fn updates(&self, client: &mut Client) -> Result<()> {
        let new = 2 * self.rows();
        client.expect_affected(&insert("tenk1", [row(new, new)]), 1)?;
        let moved = format!(
            "update tenk1 set unique2 = {} where unique2 = {new}",
            new + 1
        );
        client.expect_affected(&moved, 1)?;
        let moved = format!(
            "update tenk1 set unique1 = {} where unique1 = {new}",
            new + 1
        );
        client.expect_affected(&moved, 1)?;
        client.expect_row(
            &format!("select unique1 from tenk1 where unique2 = {}", new + 1),
            new + 1,
        )?;
        client.expect_affected(&format!("delete from tenk1 where unique2 = {}", new + 1), 1)?;
        client.expect_affected("update tenk2 set odd = odd + 2", self.rows())?;
        let sum: u64 = self.rows() * (self.rows() - 1) / 2;
        client.expect_row(
            "select count(*), sum(unique1) from tenk1",
            format!("{}|{sum}", self.rows()),
        )
    }
}

/// A row of a relation. All attributes follow from the two keys.
fn row(unique1: u64, unique2: u64) -> String {
    let modulo = |divisor: u64| unique1 % divisor;
    format!(
        "{unique1}, {unique2}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, '{}', '{}', '{}'",
        modulo(2),
        modulo(4),
        modulo(10),
        modulo(20),
        modulo(100),
        modulo(1000),
        modulo(2000),
        modulo(5000),
        modulo(10_000),
        modulo(100) * 2 + 1,
        modulo(100) * 2,
        letters(unique1),
        letters(unique2),
        STRINGS[(unique2 % 4) as usize],
    )
}

/// A number in letters, `aaaaaaa` for zero.
fn letters(mut number: u64) -> String {
    let mut letters = [b'a'; 7];
    for letter in letters.iter_mut().rev() {
        *letter += (number % 26) as u8;
        number /= 26;
    }
    String::from_utf8_lossy(&letters).into_owned()
}

impl Procedure for Wisconsin {
    fn fill(&self, client: &mut Client) -> Result<()> {
        for (name, unique) in &self.relations {
            client.execute(&format!("create table {name} {COLUMNS}"))?;
            for (unique1, unique2) in unique.iter().zip(0..) {
                client.expect_affected(&insert(name, [row(*unique1, unique2)]), 1)?;
            }
            for key in ["unique1", "unique2", "hundred"] {
                client.execute(&format!("create index {name}_{key} on {name} ({key})"))?;
            }
            client.analyze(name)?;
        }
        Ok(())
    }

    fn query(&self, client: &mut Client) -> Result<()> {
        for _ in 0..self.rounds {
            self.selections(client)?;
            self.joins(client)?;
            self.projections(client)?;
            self.aggregates(client)?;
            self.updates(client)?;
        }
        for (name, _) in &self.relations {
            client.execute(&format!("drop table {name}"))?;
        }
        Ok(())
    }
}
