//! `select`: queries of a table with composite keys: single rows, ranges, lists, distinct values.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::data::stream;
use crate::database::client::{Client, insert};
use crate::database::{Procedure, Scale};

pub(super) struct Select {
    scale: Scale,
    /// Rows by `idn`.
    rows: Vec<Place>,
    /// Values of `idn` to query.
    queried: Vec<u64>,
}

/// Region and group of a row.
struct Place {
    region: char,
    group: u64,
}

/// Number of regions and groups.
const REGIONS: u64 = 10;
const GROUPS: u64 = 100;

impl Select {
    pub(super) fn new(scale: Scale, seed: u64) -> Self {
        let mut stream = stream(seed, "database/select");
        let count = scale.scaled(10_000, 100);
        let rows = (0..count).map(|_| Place {
            region: char::from(b'a' + stream.below(REGIONS) as u8),
            group: stream.below(GROUPS),
        });
        let rows: Vec<_> = rows.collect();
        let queried = (0..scale.scaled(200_000, 20))
            .map(|_| stream.below(count))
            .collect();
        Self {
            scale,
            rows,
            queried,
        }
    }

    fn region(&self, region: char) -> impl Iterator<Item = (usize, &Place)> {
        let rows = self.rows.iter().enumerate();
        rows.filter(move |(_, place)| place.region == region)
    }

    /// Region of the n-th query.
    fn letter(n: u64) -> char {
        char::from(b'a' + (n % REGIONS) as u8)
    }

    fn single(&self, client: &mut Client) -> Result<()> {
        for idn in &self.queried {
            let Place { region, group } = &self.rows[*idn as usize];
            let reverse = self.rows.len() as u64 - 1 - idn;
            client.expect_row(
                &format!(
                    "select rev_idn, grp from selected where region = '{region}' and idn = {idn}"
                ),
                format!("{reverse}|{group}"),
            )?;
            client.expect_row(
                &format!(
                    "select idn from selected where region = '{region}' and rev_idn = {reverse}"
                ),
                idn,
            )?;
        }
        Ok(())
    }

    /// Rows of a region in a range or a list.
    fn several(&self, client: &mut Client) -> Result<()> {
        let count = self.rows.len();
        for n in 0..self.scale.scaled(25_000, 20) {
            let region = Self::letter(n);
            let from = n as usize * 7919 % count;
            let range = from..from + count / 5;
            let in_range = self.region(region).filter(|(idn, _)| range.contains(idn));
            client.expect_row(
                &format!(
                    "select count(*) from selected where region = '{region}' and idn >= {from} and idn < {}",
                    range.end
                ),
                in_range.count(),
            )?;
            let list: BTreeSet<_> = (0..10).map(|step| (from + step * 13) % count).collect();
            let is_match = |idn: &&usize| self.rows[**idn].region == region;
            let matches = list.iter().filter(is_match).count();
            let list: Vec<_> = list.iter().map(ToString::to_string).collect();
            client.expect_count(
                &format!(
                    "select * from selected where region = '{region}' and idn in ({})",
                    list.join(", ")
                ),
                matches as u64,
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
        for n in 0..self.scale.scaled(2000, 10) {
            let region = Self::letter(n);
            let right = groups.get(&region).map_or(0, BTreeSet::len);
            let sql = format!("select count(distinct grp) from selected where region = '{region}'");
            client.expect_row(&sql, right)?;
        }
        let by_region: Vec<_> = sums
            .iter()
            .map(|(region, (rows, sum))| format!("{region}|{rows}|{sum}"))
            .collect();
        let by_group: Vec<_> = groups
            .iter()
            .map(|(region, groups)| format!("{region}|{}", groups.len()))
            .collect();
        for _ in 0..self.scale.scaled(1000, 5) {
            client.expect_rows(
                "select region, count(*), sum(grp) from selected group by region order by region",
                &by_region,
            )?;
            client.expect_rows(
                "select region, count(distinct grp) from selected group by region order by region",
                &by_group,
            )?;
        }
        Ok(())
    }
}

impl Procedure for Select {
    fn fill(&self, client: &mut Client) -> Result<()> {
        client.execute(
            "create table selected (region char(1) not null, idn int not null, rev_idn int not null, \
             grp int not null, primary key (region, idn))",
        )?;
        client.execute("create unique index selected_rev on selected (region, rev_idn)")?;
        client.execute("create unique index selected_grp on selected (region, grp, idn)")?;
        let last = self.rows.len() - 1;
        for (idn, Place { region, group }) in self.rows.iter().enumerate() {
            let row = format!("'{region}', {idn}, {}, {group}", last - idn);
            client.expect_affected(&insert("selected", [row]), 1)?;
        }
        client.analyze("selected")
    }

    fn query(&self, client: &mut Client) -> Result<()> {
        self.single(client)?;
        self.several(client)?;
        self.distinct(client)?;
        client.execute("drop table selected")
    }
}
