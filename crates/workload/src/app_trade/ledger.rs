//! The broker's books: their opening state, and the audit after the last visitor.
//!
//! The audit is exact because the market is closed first, so that no trade is under way. Each order
//! is then completely in the books or not at all, whatever happened to the visitor's connection.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::app_trade::server::PORT;
use crate::context::WorkloadContext;
use crate::data::stream;
use crate::database::client::{self, Client};
use crate::database::server::Server as Database;
use crate::{Wrong, check_stop, probe};

/// The books before the first visitor. Money is in cents.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) accounts: Vec<Account>,
    prices: Vec<u64>,
}

#[derive(Debug)]
pub(super) struct Account {
    pub(super) id: u32,
    pub(super) password: String,
    cash: u64,
    /// Shares by symbol.
    holdings: BTreeMap<u32, u64>,
}

/// The market's shares of each symbol, and its cash for it.
const MARKET_SHARES: u64 = 1_000_000_000;
const MARKET_CASH: u64 = 1_000_000_000_000;

/// Rows of one `insert` statement.
const ROWS: usize = 250;

/// Tables and indices; `{number}` is the type of a rising number.
const TABLES: [&str; 7] = [
    "create table accounts (id int primary key, password char(8) not null, cash bigint not null, visits int not null)",
    "create table quotes (symbol int primary key, company varchar(40) not null, price bigint not null, \
     opened bigint not null, volume bigint not null)",
    "create index quotes_volume on quotes (volume)",
    "create table market (symbol int primary key, shares bigint not null, cash bigint not null)",
    "create table holdings (account int, symbol int, quantity bigint not null, primary key (account, symbol))",
    "create table orders (number {number} primary key, account int not null, symbol int not null, \
     quantity int not null, price bigint not null, at timestamp default current_timestamp)",
    "create index orders_account on orders (account)",
];

impl Opening {
    /// Each account has up to seven holdings, and cash for a hundred visits.
    pub(super) fn new(accounts: u32, symbols: u32, seed: u64) -> Self {
        let mut stream = stream(seed, "app-trade books");
        let account = |id| Account {
            id,
            password: format!("{:08x}", stream.bits() >> 32),
            cash: 100_000_000 + stream.below(1_000_000),
            holdings: (0..3 + stream.below(5))
                .map(|_| {
                    let symbol = 1 + stream.below(symbols.into()) as u32;
                    (symbol, 100 + stream.below(900))
                })
                .collect(),
        };
        let accounts = (1..=accounts).map(account).collect();
        let prices = (0..symbols).map(|_| 1000 + stream.below(19_000)).collect();
        Self { accounts, prices }
    }

    /// Makes and fills the tables.
    pub(super) fn fill(&self, database: Database, client: &mut Client) -> Result<()> {
        let number = match database {
            Database::Mariadb => "int auto_increment",
            Database::Postgresql => "serial",
        };
        for table in TABLES {
            client.execute(&table.replace("{number}", number))?;
        }
        let accounts = self.accounts.iter().map(|account| {
            let Account {
                id, password, cash, ..
            } = account;
            format!("{id}, '{password}', {cash}, 0")
        });
        insert(client, "accounts", &accounts.collect::<Vec<_>>())?;
        insert(client, "holdings", &self.holdings(", "))?;
        let quotes = self
            .quotes()
            .map(|(symbol, price)| format!("{symbol}, 'company {symbol}', {price}, {price}, 0"));
        insert(client, "quotes", &quotes.collect::<Vec<_>>())?;
        let market = self
            .quotes()
            .map(|(symbol, _)| format!("{symbol}, {MARKET_SHARES}, {MARKET_CASH}"));
        insert(client, "market", &market.collect::<Vec<_>>())?;
        for table in ["accounts", "holdings", "quotes", "market"] {
            client.analyze(table)?;
        }
        Ok(())
    }

    fn quotes(&self) -> impl Iterator<Item = (usize, u64)> {
        (1..).zip(self.prices.iter().copied())
    }

    /// Rows of account, symbol and number of shares.
    fn holdings(&self, gap: &str) -> Vec<String> {
        let rows = self.accounts.iter().flat_map(|account| {
            let rows = account.holdings.iter();
            rows.map(|(symbol, count)| format!("{}{gap}{symbol}{gap}{count}", account.id))
        });
        rows.collect()
    }

    /// Checks the books against their opening state and the orders since. With all orders reversed,
    /// they must equal the opening state exactly.
    pub(super) fn audit(&self, market_close: &MarketClose, client: &mut Client) -> Result<()> {
        let cash = self.accounts.iter().map(|account| account.cash);
        let cash = cash.sum::<u64>() + MARKET_CASH * self.prices.len() as u64;
        client
            .expect_row(
                "select sum(cash) from (select cash from accounts union all select cash from market) as both_sides",
                cash,
            )
            .context("cash was made or lost")?;
        client
            .expect_rows(
                "select symbol, sum(shares) from (select symbol, shares from market union all \
                 select symbol, quantity from holdings) as both_sides group by symbol order by symbol",
                &self.shares(),
            )
            .context("shares were made or lost")?;
        client
            .expect_row("select count(*) from orders", market_close.confirmed)
            .context("orders are not the trades that were confirmed")?;
        let accounts = self.accounts.iter();
        let accounts = accounts.map(|account| format!("{}|{}", account.id, account.cash));
        client
            .expect_rows(
                "select id, sum(cash) from (select id, cash from accounts union all \
                 select account, quantity * price from orders) as undone group by id order by id",
                &accounts.collect::<Vec<_>>(),
            )
            .context("an account's cash is not what its orders make it")?;
        client
            .expect_rows(
                "select account, symbol, sum(quantity) from (select account, symbol, quantity from holdings union all \
                 select account, symbol, -quantity from orders) as undone \
                 group by account, symbol having sum(quantity) <> 0 order by account, symbol",
                &self.holdings("|"),
            )
            .context("an account's shares are not what its orders make them")
    }

    /// Rows of symbol and total number of shares.
    fn shares(&self) -> Vec<String> {
        let mut shares = vec![MARKET_SHARES; self.prices.len()];
        for (symbol, count) in self.accounts.iter().flat_map(|account| &account.holdings) {
            shares[*symbol as usize - 1] += count;
        }
        let rows = (1..).zip(shares);
        rows.map(|(symbol, count): (u32, u64)| format!("{symbol}|{count}"))
            .collect()
    }
}

fn insert(client: &mut Client, table: &str, rows: &[String]) -> Result<()> {
    for rows in rows.chunks(ROWS) {
        client.expect_affected(&client::insert(table, rows), rows.len() as u64)?;
    }
    Ok(())
}

/// The application's report after closing the market: trades since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MarketClose {
    /// Trades with a confirmed commit, including those before the warm-up.
    pub(super) confirmed: u64,
    /// Transactions that the database rolled back and that were repeated.
    pub(super) repeated: u64,
}

/// Time limit for trades under way, and for a collection of garbage.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a full collection, so that garbage of the start does not cause one in the window of some trials.
pub(super) fn collect_garbage(context: &WorkloadContext, stop: &AtomicBool) -> Result<()> {
    ask(context, "/collect", stop).map(drop)
}

/// A page of the application. Repeats the request, which is safe for the pages asked here.
fn ask(context: &WorkloadContext, path: &str, stop: &AtomicBool) -> Result<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let why = match probe::page(context.at(PORT), path) {
            Ok(page) => return Ok(page),
            Err(why) => why,
        };
        check_stop(stop)?;
        if Instant::now() >= deadline {
            return Err(Wrong(format!("the application does not answer: {why}")).into());
        }
        thread::sleep(Duration::from_millis(100));
    }
}

impl MarketClose {
    /// Closes the market, which waits for trades under way.
    pub(super) fn request(context: &WorkloadContext, stop: &AtomicBool) -> Result<Self> {
        Self::read(&ask(context, "/bell", stop)?)
    }

    fn read(page: &str) -> Result<Self> {
        let count = |word: &str| -> Result<u64> {
            let mut lines = page.lines().filter_map(|line| line.split_once(' '));
            let known = lines.find(|(_, name)| *name == word);
            let (count, _) = known.with_context(|| format!("no line of {word}: {page:?}"))?;
            Ok(count.parse()?)
        };
        let uncertain = count("uncertain")?;
        if uncertain > 0 {
            let what = format!("the database did not say what became of trades: {uncertain}");
            return Err(Wrong(what).into());
        }
        Ok(Self {
            confirmed: count("confirmed")?,
            repeated: count("repeated")?,
        })
    }
}
