//! One client with one connection, to either server, over the wire protocol. Every answer is checked: a statement
//! that the server refuses, or answers otherwise than the data imply, ends the trial as `Wrong`.
//!
//! Statements and answers are text, as `sql-bench` sent them: no statement is prepared.

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

/// Longest wait for one connection.
const CONNECTING: Duration = Duration::from_secs(30);

/// Attempts at one connection; those that fail are counted as errors, the last one ends the trial.
const ATTEMPTS: u32 = 3;

/// Room for the longest statement and row: a thousand fields, a big string.
const PACKET_BYTES: usize = 16 << 20;

/// Most of a statement that a message shows, in characters.
const SHOWN: usize = 120;

/// What a client has done so far; read once a second by who waits for it.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Statements and connections that came out right.
    pub(crate) right: AtomicU64,
    /// Connections that had to be tried again.
    pub(crate) errors: AtomicU64,
    /// Which of the procedures is at work, counted from 0.
    pub(crate) procedure: AtomicUsize,
}

/// A row as text; no value is `NULL`.
type Row = Vec<String>;

/// What the server said to a statement.
struct Answer {
    rows: Vec<Row>,
    /// Rows that the statement inserted, found for an update, or deleted.
    touched: u64,
}

/// Why the server did not do a statement.
struct Refusal {
    /// A key was there already.
    collision: bool,
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

    fn ask(&mut self, sql: &str) -> Result<Answer, Refusal> {
        match self {
            Self::Mariadb(conn) => ask_mariadb(conn, sql).map_err(|why| Refusal {
                // ER_DUP_ENTRY
                collision: matches!(&why, mysql::Error::MySqlError(why) if why.code == 1062),
                why: why.to_string(),
            }),
            Self::Postgresql(client) => ask_postgresql(client, sql).map_err(|why| Refusal {
                collision: why.code() == Some(&postgres::error::SqlState::UNIQUE_VIOLATION),
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
        // Connecting is a procedure of its own: without these two the library would ask questions of its own.
        .prefer_socket(false)
        .max_allowed_packet(Some(PACKET_BYTES))
        .additional_capabilities(CapabilityFlags::CLIENT_FOUND_ROWS);
    mysql::Conn::new(options).map_err(|why| why.to_string())
}

fn ask_mariadb(conn: &mut mysql::Conn, sql: &str) -> mysql::Result<Answer> {
    let mut result = conn.query_iter(sql)?;
    let touched = result.affected_rows();
    let mut rows = Vec::new();
    for row in result.by_ref() {
        rows.push(row?.unwrap().iter().map(text).collect());
    }
    Ok(Answer { rows, touched })
}

/// The text protocol sends nothing but bytes and `NULL`.
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

fn ask_postgresql(client: &mut postgres::Client, sql: &str) -> Result<Answer, postgres::Error> {
    let mut answer = Answer {
        rows: Vec::new(),
        touched: 0,
    };
    for message in client.simple_query(sql)? {
        match message {
            SimpleQueryMessage::Row(row) => {
                let fields = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL").to_string());
                answer.rows.push(fields.collect());
            }
            SimpleQueryMessage::CommandComplete(touched) => answer.touched = touched,
            // Names of columns; what else there may be one day is not an answer either.
            _ => {}
        }
    }
    Ok(answer)
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

    /// Ends the connection and makes a new one.
    pub(crate) fn reconnect(&mut self) -> Result<()> {
        self.session = open(self.server, self.address, &self.progress)?;
        self.count();
        Ok(())
    }

    /// Runs a statement that touches no rows of its own, such as `create table`.
    pub(crate) fn define(&mut self, sql: &str) -> Result<()> {
        self.ask(sql)?;
        self.count();
        Ok(())
    }

    /// Runs a statement that must touch exactly so many rows.
    pub(crate) fn change(&mut self, sql: &str, rows: u64) -> Result<()> {
        let touched = self.ask(sql)?.touched;
        self.agree(
            sql,
            &format!("{touched} rows touched"),
            &format!("{rows} rows touched"),
        )
    }

    /// Asks for exactly one row, its fields parted by `|`.
    pub(crate) fn tells(&mut self, sql: &str, row: impl Display) -> Result<()> {
        let got = show(&self.ask(sql)?.rows);
        self.agree(sql, &got, &row.to_string())
    }

    /// Asks for exactly these rows in this order, their fields parted by `|`.
    pub(crate) fn lists(&mut self, sql: &str, rows: &[String]) -> Result<()> {
        let got = self.ask(sql)?.rows;
        self.agree(
            sql,
            &format!("{} rows", got.len()),
            &format!("{} rows", rows.len()),
        )?;
        for (got, row) in got.iter().zip(rows) {
            compare(sql, &got.join("|"), row)?;
        }
        Ok(())
    }

    /// Asks for so many rows, whatever is in them.
    pub(crate) fn counts(&mut self, sql: &str, rows: u64) -> Result<()> {
        let got = self.ask(sql)?.rows.len();
        self.agree(sql, &format!("{got} rows"), &format!("{rows} rows"))
    }

    /// Runs a statement that must be refused for a key that is there already.
    pub(crate) fn collides(&mut self, sql: &str) -> Result<()> {
        match self.session.ask(sql) {
            Err(Refusal {
                collision: true, ..
            }) => self.count(),
            Err(Refusal { why, .. }) => return Err(wrong(sql, &why)),
            Ok(_) => return Err(wrong(sql, "a key that was there already was taken")),
        }
        Ok(())
    }

    pub(crate) fn drop_index(&mut self, index: &str, table: &str) -> Result<()> {
        match self.server {
            Server::Mariadb => self.define(&format!("drop index {index} on {table}")),
            Server::Postgresql => self.define(&format!("drop index {index}")),
        }
    }

    /// Has the server look at a table that was filled. It does so of itself too, but at times of its own: here the
    /// time is known, and counted.
    pub(crate) fn settle(&mut self, table: &str) -> Result<()> {
        match self.server {
            Server::Mariadb => self.define(&format!("analyze table {table}")),
            Server::Postgresql => self.define(&format!("vacuum analyze {table}")),
        }
    }

    fn ask(&mut self, sql: &str) -> Result<Answer> {
        self.session
            .ask(sql)
            .map_err(|refusal| wrong(sql, &refusal.why))
    }

    fn agree(&self, sql: &str, got: &str, right: &str) -> Result<()> {
        compare(sql, got, right)?;
        self.count();
        Ok(())
    }

    fn count(&self) {
        self.progress.right.fetch_add(1, Ordering::Relaxed);
    }
}

/// Connects and asks one thing: whether the server serves.
pub(crate) fn ask_once(server: Server, address: SocketAddr) -> Result<(), String> {
    let mut session = Session::open(server, address)?;
    let answer = session.ask("select 1").map_err(|refusal| refusal.why)?;
    match show(&answer.rows).as_str() {
        "1" => Ok(()),
        other => Err(format!("select 1: {}", short(other))),
    }
}

/// Rows of values for one `insert` statement, in the order of their columns.
pub(crate) fn insert<R: Display>(table: &str, rows: impl IntoIterator<Item = R>) -> String {
    let mut sql = format!("insert into {table} values");
    for (row, gap) in rows
        .into_iter()
        .zip(std::iter::once(" ").chain(std::iter::repeat(", ")))
    {
        let _ = write!(sql, "{gap}({row})");
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

fn compare(sql: &str, got: &str, right: &str) -> Result<()> {
    if got == right {
        return Ok(());
    }
    let what = format!("wrong answer: {}, not {}", short(got), short(right));
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
