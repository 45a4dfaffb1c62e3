//! `select`: one table with keys of several parts; single rows, ranges, lists, counts of distinct values.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::data::stream;
use crate::database::client::{Client, insert};
use crate::database::{Procedure, Scale};

pub(super) struct Select {
    scale: Scale,
    /// By `idn`, the row's number.
    rows: Vec<Place>,
    /// Numbers of the questions.
    asked: Vec<u64>,
}

/// Where a row stands: a region of one letter, and a group in it.
struct Place {
    region: char,
    group: u64,
}

/// Regions and groups of the table.
const REGIONS: u64 = 10;
const GROUPS: u64 = 100;

impl Select {
    pub(super) fn new(scale: Scale, seed: u64) -> Self {
        let mut stream = stream(seed, "database/select");
        let count = scale.of(10_000, 100);
        let rows = (0..count).map(|_| Place {
            region: char::from(b'a' + stream.below(REGIONS) as u8),
            group: stream.below(GROUPS),
        });
        let rows: Vec<_> = rows.collect();
        let asked = (0..scale.of(200_000, 20))
            .map(|_| stream.below(count))
            .collect();
        Self { scale, rows, asked }
    }

    fn region(&self, region: char) -> impl Iterator<Item = (usize, &Place)> {
        let rows = self.rows.iter().enumerate();
        rows.filter(move |(_, place)| place.region == region)
    }

    /// The region of the n-th question.
    fn letter(n: u64) -> char {
        char::from(b'a' + (n % REGIONS) as u8)
    }

    fn single(&self, client: &mut Client) -> Result<()> {
        for idn in &self.asked {
            let Place { region, group } = &self.rows[*idn as usize];
            let reverse = self.rows.len() as u64 - 1 - idn;
            client.tells(
                &format!(
                    "select rev_idn, grp from selected where region = '{region}' and idn = {idn}"
                ),
                format!("{reverse}|{group}"),
            )?;
            client.tells(
                &format!(
                    "select idn from selected where region = '{region}' and rev_idn = {reverse}"
                ),
                idn,
            )?;
        }
        Ok(())
    }

    /// Rows of a region that lie in a range or a list of numbers.
    fn several(&self, client: &mut Client) -> Result<()> {
        let count = self.rows.len();
        for n in 0..self.scale.of(25_000, 20) {
            let region = Self::letter(n);
            let from = n as usize * 7919 % count;
            let range = from..from + count / 5;
            let found = self
                .region(region)
                .filter(|(idn, _)| range.contains(idn))
                .count();
            client.tells(
                &format!(
                    "select count(*) from selected where region = '{region}' and idn >= {from} and idn < {}",
                    range.end
                ),
                found,
            )?;
            let list: BTreeSet<_> = (0..10).map(|step| (from + step * 13) % count).collect();
            let found = list
                .iter()
                .filter(|idn| self.rows[**idn].region == region)
                .count();
            let list: Vec<_> = list.iter().map(ToString::to_string).collect();
            client.counts(
                &format!(
                    "select * from selected where region = '{region}' and idn in ({})",
                    list.join(", ")
                ),
                found as u64,
            )?;
        }
        Ok(())
    }

    fn distinct(&self, client: &mut Client) -> Result<()> {
        let mut groups = BTreeMap::<char, BTreeSet<u64>>::new();
        let mut sums = BTreeMap::<char, (u64, u64)>::new();
        for place in &self.rows {
            groups.entry(place.region).or_default().insert(place.group);
            let sum = sums.entry(place.region).or_default();
            *sum = (sum.0 + 1, sum.1 + place.group);
        }
        for n in 0..self.scale.of(2000, 10) {
            let region = Self::letter(n);
            let right = groups.get(&region).map_or(0, BTreeSet::len);
            let sql = format!("select count(distinct grp) from selected where region = '{region}'");
            client.tells(&sql, right)?;
        }
        let by_region: Vec<_> = sums
            .iter()
            .map(|(region, (rows, sum))| format!("{region}|{rows}|{sum}"))
            .collect();
        let by_group: Vec<_> = groups
            .iter()
            .map(|(region, groups)| format!("{region}|{}", groups.len()))
            .collect();
        for _ in 0..self.scale.of(1000, 5) {
            client.lists(
                "select region, count(*), sum(grp) from selected group by region order by region",
                &by_region,
            )?;
            client.lists(
                "select region, count(distinct grp) from selected group by region order by region",
                &by_group,
            )?;
        }
        Ok(())
    }
}

impl Procedure for Select {
    fn fill(&self, client: &mut Client) -> Result<()> {
        client.define(
            "create table selected (region char(1) not null, idn int not null, rev_idn int not null, \
             grp int not null, primary key (region, idn))",
        )?;
        client.define("create unique index selected_rev on selected (region, rev_idn)")?;
        client.define("create unique index selected_grp on selected (region, grp, idn)")?;
        let last = self.rows.len() - 1;
        for (idn, Place { region, group }) in self.rows.iter().enumerate() {
            let row = format!("'{region}', {idn}, {}, {group}", last - idn);
            client.change(&insert("selected", [row]), 1)?;
        }
        client.settle("selected")
    }

    fn ask(&self, client: &mut Client) -> Result<()> {
        self.single(client)?;
        self.several(client)?;
        self.distinct(client)?;
        client.define("drop table selected")
    }
}
