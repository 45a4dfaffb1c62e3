//! `database`: the eight procedures of `MySQL`'s `sql-bench`, reimplemented from their published
//! descriptions, against `MariaDB` or `PostgreSQL`.
//!
//! ```text
//! seed, scale --new--> procedure --fill--> tables --query--> results, all checked; tables dropped
//!                                |------- its time --------|      total-time: the sum of all procedures
//! ```
//! The figures are `InfoWorld`'s of 30 January 2004: `MySQL` 3.23.58, Linux 2.6.0 against 2.4.23.
//! The client is bakeoff itself, with one connection over TCP from the clients' network namespace.

mod alter_table;
mod atis;
mod big_tables;
pub(crate) mod client;
mod connect;
mod create;
mod insert;
mod mariadb;
mod postgresql;
mod select;
pub(crate) mod server;
mod wisconsin;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base::input::problem::remedy_among;
use base::input::units::show_duration;
use base::latency::Packed;
use plan::Traits;
use plan::fields::Fields;
use record::load::Tick;
use record::metric::{Direction, Figure, Role};
use serde::{Deserialize, Serialize};

use crate::context::WorkloadContext;
use crate::database::client::{Client, Progress};
use crate::database::server::Server;
use crate::figures::{Seen, secondary};
use crate::options;
use crate::overview::{Key, Overview};
use crate::service::Service;
use crate::{Control, Driven, FromPlan, Kind, Timing, Workload, Wrong, check_stop};

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "database",
    |_| Traits::default(),
    Overview {
        summary: "the eight procedures of sql-bench against MariaDB or PostgreSQL, every answer checked",
        primary: "total-time",
        machine: &[
            Key::new("memory", &["\"1536MiB\""], ""),
            Key::new(
                "silence",
                &["\"10m\""],
                "data directories are made before there is anything to tell",
            ),
            Key::new("trial_limit", &["\"2h\""], ""),
        ],
        keys: &[
            Key::new(
                "server",
                &["\"mariadb\"", "\"postgresql\""],
                "or \"postgresql\"",
            ),
            Key::new("scale", &["\"0.2%\""], "share of the sizes of sql-bench"),
            Key::shown(
                "procedures",
                &["[\"insert\", \"select\"]"],
                "left out, all eight",
            ),
            Key::new("limit", &["\"30m\""], "for all of them"),
        ],
    },
);

/// Makes a server's data directory and configuration.
pub(crate) fn service(server: Server, context: &WorkloadContext) -> Result<Service> {
    match server {
        Server::Mariadb => mariadb::service(context),
        Server::Postgresql => postgresql::service(context),
    }
}

/// A procedure. Its data depend on scale and seed, and are made before its time starts.
trait Procedure: Send {
    /// Makes and fills the tables.
    fn fill(&self, client: &mut Client) -> Result<()>;

    /// Runs queries and updates, and drops the tables.
    fn query(&self, client: &mut Client) -> Result<()>;
}

/// Makes a procedure for a scale and a seed.
type New = fn(Scale, u64) -> Box<dyn Procedure>;

/// All procedures in their order.
const PROCEDURES: [(&str, New); 8] = [
    ("alter-table", |scale, _| {
        Box::new(alter_table::AlterTable::new(scale))
    }),
    ("atis", |scale, seed| Box::new(atis::Atis::new(scale, seed))),
    ("big-tables", |scale, seed| {
        Box::new(big_tables::BigTables::new(scale, seed))
    }),
    ("connect", |scale, seed| {
        Box::new(connect::Connect::new(scale, seed))
    }),
    ("create", |scale, _| Box::new(create::Create::new(scale))),
    ("insert", |scale, seed| {
        Box::new(insert::Insert::new(scale, seed))
    }),
    ("select", |scale, seed| {
        Box::new(select::Select::new(scale, seed))
    }),
    ("wisconsin", |scale, seed| {
        Box::new(wisconsin::Wisconsin::new(scale, seed))
    }),
];

/// Default scale, which takes minutes under emulation.
const SCALE: f64 = 0.01;

/// Default time limit of all procedures together.
const LIMIT: Duration = Duration::from_secs(1800);

/// Interval of ticks.
const SECOND: Duration = Duration::from_secs(1);

/// Ratio to the sizes of `sql-bench`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Scale(f64);

impl Scale {
    /// Scales `full`, to at least `least`.
    fn scaled(self, full: u64, least: u64) -> u64 {
        ((full as f64 * self.0).round() as u64).max(least)
    }
}

/// Options of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Options {
    server: Server,
    scale: Scale,
    /// Indices in `PROCEDURES`, rising.
    procedures: Vec<usize>,
    limit_ns: u64,
}

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        if !fields.has("server") {
            fields.missing("server", "\"mariadb\" or \"postgresql\"");
        }
        let server = fields.variant("server");
        let scale = if fields.takes("scale") {
            fields.share("scale", 0.0, 10.0)
        } else {
            Some(SCALE)
        };
        let procedures = read_procedures(fields);
        let timing = options::limit(fields, LIMIT);
        Some(Self {
            server: server?,
            scale: Scale(scale?),
            procedures: procedures?,
            limit_ns: timing?.window.as_nanos() as u64,
        })
    }
}

fn read_procedures(fields: &Fields<'_>) -> Option<Vec<usize>> {
    if !fields.takes("procedures") {
        return Some((0..PROCEDURES.len()).collect());
    }
    let words = PROCEDURES.map(|(word, _)| word);
    let mut places = Vec::new();
    let chosen = fields.texts("procedures")?;
    if chosen.is_empty() {
        fields.wrong(
            "procedures",
            "no procedure in procedures",
            "remove it for all eight",
        );
        return None;
    }
    for typed in chosen {
        let Some(place) = words.iter().position(|word| *word == typed) else {
            let what = format!("unknown procedure: {typed:?}");
            fields.wrong("procedures", what, remedy_among(typed, &words));
            return None;
        };
        places.push(place);
    }
    // The order affects the figures, so it is always the same.
    places.sort_unstable();
    places.dedup();
    Some(places)
}

impl Workload for Options {
    fn packages(&self) -> Vec<&str> {
        self.server.packages()
    }

    fn configurable(&self) -> Vec<&'static str> {
        vec![self.server.name()]
    }

    fn is_driven_from_outside(&self) -> bool {
        true
    }

    fn timing(&self) -> Timing {
        Timing::from_ns(0, self.limit_ns)
    }

    fn prepare(&self, context: &WorkloadContext) -> Result<Vec<Service>> {
        Ok(vec![service(self.server, context)?])
    }

    /// The client runs on another thread, so that this one can tick and check `stop` during
    /// statements. If the drive ends early, that thread ends when the agent stops the server.
    fn drive(&self, context: &WorkloadContext, control: &mut Control<'_>) -> Result<Driven> {
        let progress = Arc::<Progress>::default();
        let job = ClientJob {
            server: self.server,
            address: self.server.address(context),
            procedures: self.procedures(context.seed),
            progress: Arc::clone(&progress),
        };
        let (sender, receiver) = channel();
        control.watcher.begins();
        thread::spawn(move || {
            // Fails only if the drive has ended early.
            let _ = sender.send(job.perform());
        });
        let times = self.wait(&receiver, &progress, control)?;
        Ok(Driven {
            figures: figures(&times, &progress),
            ..Driven::default()
        })
    }

    fn figures(&self, seen: &Seen<'_>) -> Result<Vec<Figure>, String> {
        let mut figures = seen.driven.figures.clone();
        if let Some(cpu) = seen.cpu(self.server.name()) {
            let cpu_s = cpu.as_secs_f64();
            figures.push(secondary("server-cpu", "s", Direction::Lower, cpu_s));
        }
        Ok(figures)
    }
}

/// Names of all procedures, which are also metrics.
pub(crate) fn procedure_words() -> impl Iterator<Item = &'static str> {
    PROCEDURES.iter().map(|(word, _)| *word)
}

/// Names of procedures, and their times.
type Times = Vec<(&'static str, Duration)>;

impl Options {
    fn procedures(&self, seed: u64) -> Vec<(&'static str, Box<dyn Procedure>)> {
        let chosen = self.procedures.iter().map(|place| PROCEDURES[*place]);
        chosen
            .map(|(word, new)| (word, new(self.scale, seed)))
            .collect()
    }

    /// Waits for the client, at most until the limit, and ticks.
    fn wait(
        &self,
        receiver: &Receiver<Result<Times>>,
        progress: &Progress,
        control: &mut Control<'_>,
    ) -> Result<Times> {
        let (began, limit) = (Instant::now(), Duration::from_nanos(self.limit_ns));
        let mut second = 1;
        loop {
            let next = (began + SECOND * second).min(began + limit);
            match receiver.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Disconnected) => bail!("the client ended without a result"),
                Err(RecvTimeoutError::Timeout) => {}
            }
            check_stop(control.stop)?;
            let ok = progress.ok.load(Ordering::Relaxed);
            if began.elapsed() >= limit {
                let at = self.procedures[progress.procedure.load(Ordering::Relaxed)];
                let (word, limit) = (PROCEDURES[at].0, show_duration(limit));
                let what = format!("no end in {limit}: in {word}, after {ok} successful calls");
                return Err(Wrong(what).into());
            }
            control.watcher.ticks(Tick {
                second,
                ok,
                faults: progress.errors.load(Ordering::Relaxed),
                latency: Packed::default(),
                counting: true,
                ended: Vec::new(),
            });
            second += 1;
        }
    }
}

/// The work of the client's thread.
struct ClientJob {
    server: Server,
    address: SocketAddr,
    procedures: Vec<(&'static str, Box<dyn Procedure>)>,
    progress: Arc<Progress>,
}

impl ClientJob {
    /// Runs each procedure with a new connection, because in `sql-bench` each is a separate
    /// program.
    fn perform(self) -> Result<Times> {
        let mut times = Times::new();
        for (place, (word, procedure)) in self.procedures.into_iter().enumerate() {
            self.progress.procedure.store(place, Ordering::Relaxed);
            let began = Instant::now();
            let client = Client::connect(self.server, self.address, Arc::clone(&self.progress));
            client
                .and_then(|mut client| {
                    procedure.fill(&mut client)?;
                    procedure.query(&mut client)
                })
                .context(word)?;
            times.push((word, began.elapsed()));
        }
        Ok(times)
    }
}

/// The total, then each procedure's time.
fn figures(times: &Times, progress: &Progress) -> Vec<Figure> {
    let lower = Direction::Lower;
    let total: Duration = times.iter().map(|(_, time)| *time).sum();
    let mut figures = vec![Figure::new(
        "total-time",
        "s",
        lower,
        Role::Primary,
        total.as_secs_f64(),
    )];
    let each = times
        .iter()
        .map(|(word, time)| secondary(word, "s", lower, time.as_secs_f64()));
    figures.extend(each);
    let errors = progress.errors.load(Ordering::Relaxed);
    figures.push(secondary("errors", "connections", lower, errors as f64));
    figures
}

#[cfg(test)]
mod tests;
