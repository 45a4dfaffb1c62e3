//! A client with one connection to either server. Every result is checked: a refused statement or a
//! wrong result ends the trial as `Wrong`.
//!
//! Statements and results are text, as in `sql-bench`; there are no prepared statements.

use std::fmt::{Display, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use mysql::consts::CapabilityFlags;
use mysql::prelude::Queryable as _;
use postgres::{NoTls, SimpleQueryMessage};

use crate::Wrong;
use crate::database::server::{ACCOUNT, Server};

/// Time limit of a connection attempt.
const CONNECTING: Duration = Duration::from_secs(30);

/// Attempts per connection. Failures count as errors; the last one ends the trial.
const ATTEMPTS: u32 = 3;

/// Largest statement and row.
const PACKET_BYTES: usize = 16 << 20;

/// Length of a statement in messages, in characters.
const SHOWN: usize = 120;

/// Progress of a client, read by the drive.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Successful statements and connections.
    pub(crate) ok: AtomicU64,
    /// Connections that had to be tried again.
    pub(crate) errors: AtomicU64,
    /// Index of the current procedure.
    pub(crate) procedure: AtomicUsize,
}

/// A row as text; no value is `NULL`.
type Row = Vec<String>;

/// Result of a statement.
struct QueryResult {
    rows: Vec<Row>,
    /// Number of rows that were inserted, matched by an update, or deleted.
    affected: u64,
}

/// Why the server refused a statement.
struct Refusal {
    /// Whether a key already existed.
    is_duplicate: bool,
    why: String,
}

enum Session {
    Mariadb(mysql::Conn),
    Postgresql(Box<postgres::Client>),
}

impl Session {
    fn open(server: Server, address: SocketAddr) -> Result<Self, String> {
        match server {
            Server::Mariadb => open_mariadb(address).map(Self::Mariadb),
            Server::Postgresql => {
                open_postgresql(address).map(|client| Self::Postgresql(Box::new(client)))
            }
        }
    }

    fn query(&mut self, sql: &str) -> Result<QueryResult, Refusal> {
        match self {
            Self::Mariadb(conn) => query_mariadb(conn, sql).map_err(|why| Refusal {
                // ER_DUP_ENTRY
                is_duplicate: matches!(&why, mysql::Error::MySqlError(why) if why.code == 1062),
                why: why.to_string(),
            }),
            Self::Postgresql(client) => query_postgresql(client, sql).map_err(|why| Refusal {
                is_duplicate: why.code() == Some(&postgres::error::SqlState::UNIQUE_VIOLATION),
                why: why
                    .as_db_error()
                    .map_or_else(|| why.to_string(), ToString::to_string),
            }),
        }
    }
}

fn open_mariadb(address: SocketAddr) -> Result<mysql::Conn, String> {
    let options = mysql::OptsBuilder::new()
        .ip_or_hostname(Some(address.ip().to_string()))
        .tcp_port(address.port())
        .user(Some(ACCOUNT))
        .pass(Some(ACCOUNT))
        .db_name(Some(ACCOUNT))
        .tcp_connect_timeout(Some(CONNECTING))
        // These two avoid queries of the library, which would add to the time of connecting.
        .prefer_socket(false)
        .max_allowed_packet(Some(PACKET_BYTES))
        .additional_capabilities(CapabilityFlags::CLIENT_FOUND_ROWS);
    mysql::Conn::new(options).map_err(|why| why.to_string())
}

fn query_mariadb(conn: &mut mysql::Conn, sql: &str) -> mysql::Result<QueryResult> {
    let mut result = conn.query_iter(sql)?;
    let affected = result.affected_rows();
    let mut rows = Vec::new();
    for row in result.by_ref() {
        rows.push(row?.unwrap().iter().map(text).collect());
    }
    Ok(QueryResult { rows, affected })
}

/// The text protocol only sends bytes and `NULL`.
fn text(value: &mysql::Value) -> String {
    match value {
        mysql::Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => other.as_sql(true),
    }
}

fn open_postgresql(address: SocketAddr) -> Result<postgres::Client, String> {
    let mut config = postgres::Config::new();
    config
        .host(&address.ip().to_string())
        .hostaddr(address.ip())
        .port(address.port())
        .user(ACCOUNT)
        .dbname(ACCOUNT)
        .connect_timeout(CONNECTING);
    config
        .connect(NoTls)
        .map_err(|why| match std::error::Error::source(&why) {
            Some(source) => format!("{why}: {source}"),
            None => why.to_string(),
        })
}

fn query_postgresql(
    client: &mut postgres::Client,
    sql: &str,
) -> Result<QueryResult, postgres::Error> {
    let mut result = QueryResult {
        rows: Vec::new(),
        affected: 0,
    };
    for message in client.simple_query(sql)? {
        match message {
            SimpleQueryMessage::Row(row) => {
                let fields = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL").to_string());
                result.rows.push(fields.collect());
            }
            SimpleQueryMessage::CommandComplete(affected) => result.affected = affected,
            // Column names.
            _ => {}
        }
    }
    Ok(result)
}

/// A connected client.
pub(crate) struct Client {
    server: Server,
    address: SocketAddr,
    session: Session,
    progress: Arc<Progress>,
}

impl Client {
    pub(crate) fn connect(
        server: Server,
        address: SocketAddr,
        progress: Arc<Progress>,
    ) -> Result<Self> {
        let session = open(server, address, &progress)?;
        Ok(Self {
            server,
            address,
            session,
            progress,
        })
    }

    /// Replaces the connection.
    pub(crate) fn reconnect(&mut self) -> Result<()> {
        self.session = open(self.server, self.address, &self.progress)?;
        self.count();
        Ok(())
    }

    /// Runs a statement without rows, such as `create table`.
    pub(crate) fn execute(&mut self, sql: &str) -> Result<()> {
        self.query(sql)?;
        self.count();
        Ok(())
    }

    /// Runs a statement that must affect this many rows.
    pub(crate) fn expect_affected(&mut self, sql: &str, rows: u64) -> Result<()> {
        let affected = self.query(sql)?.affected;
        self.compare_and_count(
            sql,
            &format!("{affected} rows touched"),
            &format!("{rows} rows touched"),
        )
    }

    /// Runs a query that must return exactly this row. Fields are separated by `|`.
    pub(crate) fn expect_row(&mut self, sql: &str, row: impl Display) -> Result<()> {
        let got = show(&self.query(sql)?.rows);
        self.compare_and_count(sql, &got, &row.to_string())
    }

    /// Runs a query that must return exactly these rows in this order. Fields are separated by `|`.
    pub(crate) fn expect_rows(&mut self, sql: &str, rows: &[String]) -> Result<()> {
        let got = self.query(sql)?.rows;
        self.compare_and_count(
            sql,
            &format!("{} rows", got.len()),
            &format!("{} rows", rows.len()),
        )?;
        for (got, row) in got.iter().zip(rows) {
            compare(sql, &got.join("|"), row)?;
        }
        Ok(())
    }

    /// Runs a query that must return this many rows.
    pub(crate) fn expect_count(&mut self, sql: &str, rows: u64) -> Result<()> {
        let got = self.query(sql)?.rows.len();
        self.compare_and_count(sql, &format!("{got} rows"), &format!("{rows} rows"))
    }

    /// Runs a statement that must be refused because of a duplicate key.
    pub(crate) fn expect_duplicate_key(&mut self, sql: &str) -> Result<()> {
        match self.session.query(sql) {
            Err(Refusal {
                is_duplicate: true, ..
            }) => self.count(),
            Err(Refusal { why, .. }) => return Err(wrong(sql, &why)),
            Ok(_) => return Err(wrong(sql, "a key that was there already was taken")),
        }
        Ok(())
    }

    pub(crate) fn drop_index(&mut self, index: &str, table: &str) -> Result<()> {
        match self.server {
            Server::Mariadb => self.execute(&format!("drop index {index} on {table}")),
            Server::Postgresql => self.execute(&format!("drop index {index}")),
        }
    }

    /// Updates the statistics of a filled table. Servers also do so in the background, but at
    /// unknown times.
    pub(crate) fn analyze(&mut self, table: &str) -> Result<()> {
        match self.server {
            Server::Mariadb => self.execute(&format!("analyze table {table}")),
            Server::Postgresql => self.execute(&format!("vacuum analyze {table}")),
        }
    }

    fn query(&mut self, sql: &str) -> Result<QueryResult> {
        self.session
            .query(sql)
            .map_err(|refusal| wrong(sql, &refusal.why))
    }

    fn compare_and_count(&self, sql: &str, got: &str, expected: &str) -> Result<()> {
        compare(sql, got, expected)?;
        self.count();
        Ok(())
    }

    fn count(&self) {
        self.progress.ok.fetch_add(1, Ordering::Relaxed);
    }
}

/// Connects and runs a query, to check whether the server works.
pub(crate) fn check_reachable(server: Server, address: SocketAddr) -> Result<(), String> {
    let mut session = Session::open(server, address)?;
    let answer = session.query("select 1").map_err(|refusal| refusal.why)?;
    match show(&answer.rows).as_str() {
        "1" => Ok(()),
        other => Err(format!("select 1: {}", short(other))),
    }
}

/// An `insert` statement with these rows of values.
pub(crate) fn insert<R: Display>(table: &str, rows: impl IntoIterator<Item = R>) -> String {
    let mut sql = format!("insert into {table} values");
    let mut gap = " ";
    for row in rows {
        let _ = write!(sql, "{gap}({row})");
        gap = ", ";
    }
    sql
}

fn open(server: Server, address: SocketAddr, progress: &Progress) -> Result<Session> {
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        match Session::open(server, address) {
            Ok(session) => return Ok(session),
            Err(why) => last = why,
        }
        progress.errors.fetch_add(1, Ordering::Relaxed);
    }
    Err(Wrong(format!(
        "no connection to {address} in {ATTEMPTS} attempts: {last}"
    ))
    .into())
}

fn show(rows: &[Row]) -> String {
    let rows: Vec<_> = rows.iter().map(|row| row.join("|")).collect();
    rows.join("\n")
}

fn compare(sql: &str, got: &str, expected: &str) -> Result<()> {
    if got == expected {
        return Ok(());
    }
    let what = format!("wrong answer: {}, not {}", short(got), short(expected));
    Err(wrong(sql, &what))
}

fn wrong(sql: &str, why: &str) -> anyhow::Error {
    Wrong(format!("{}: {why}", short(sql))).into()
}

fn short(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into(),
    }
}
