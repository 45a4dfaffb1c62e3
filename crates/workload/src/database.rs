//! `database`: the eight procedures of `MySQL`'s `sql-bench`, written anew after their published descriptions, against
//! `MariaDB` or `PostgreSQL`.
//!
//! ```text
//! seed, scale --new--> procedure --fill--> tables --ask--> answers, each of them checked; tables dropped
//!                                |------ its time -------|      total-time: the sum of all procedures
//! ```
//! The figures are `InfoWorld`'s of 30 January 2004: `MySQL` 3.23.58, Linux 2.6.0 against 2.4.23. The client is bakeoff
//! itself, with one connection over TCP from the clients' network namespace.

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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base::input::problem::remedy_among;
use base::input::units::show_duration;
use plan::Traits;
use plan::fields::Fields;
use record::latency::Packed;
use record::load::Tick;
use record::metric::{Direction, Figure, Role};
use serde::{Deserialize, Serialize};

use crate::context::WorkloadContext;
use crate::database::client::{Client, Progress};
use crate::database::server::Server;
use crate::figures::{Seen, guard};
use crate::options;
use crate::overview::{Key, Overview};
use crate::service::Service;
use crate::{Checked, Driven, Kind, Timing, Watcher, Workload, Wrong};

pub(crate) const KIND: Kind = Kind {
    word: "database",
    traits: |_| Traits::default(),
    overview: Overview {
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
    check,
    from_options: |options| Ok(Box::new(Options::deserialize(options)?)),
};

/// Makes a server's data directory and configuration.
pub(crate) fn service(server: Server, context: &WorkloadContext) -> Result<Service> {
    match server {
        Server::Mariadb => mariadb::service(context),
        Server::Postgresql => postgresql::service(context),
    }
}

/// One of the eight: what it does is decided by scale and seed, and made before its time begins.
trait Procedure: Send {
    /// Makes its tables.
    fn fill(&self, client: &mut Client) -> Result<()>;

    /// Asks, changes, and leaves no table behind.
    fn ask(&self, client: &mut Client) -> Result<()>;
}

/// Makes a procedure for a scale and a seed.
type New = fn(Scale, u64) -> Box<dyn Procedure>;

/// All procedures, in the order in which they run.
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

/// Share of the old sizes that is taken where the plan says nothing: minutes under emulation.
const SCALE: f64 = 0.01;

/// Time that all procedures together may take where the plan says nothing.
const LIMIT: Duration = Duration::from_secs(1800);

/// How often who waits for the procedures looks up.
const SECOND: Duration = Duration::from_secs(1);

/// The share of the old sizes that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Scale(f64);

impl Scale {
    /// How many of what were `full` once, `least` at the fewest.
    fn of(self, full: u64, least: u64) -> u64 {
        ((full as f64 * self.0).round() as u64).max(least)
    }
}

/// The options of a plan, found right.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Options {
    server: Server,
    scale: Scale,
    /// Places in `PROCEDURES`, rising.
    procedures: Vec<usize>,
    limit_ns: u64,
}

fn check(fields: &Fields<'_>) -> Option<Checked> {
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
    let options = Options {
        server: server?,
        scale: Scale(scale?),
        procedures: procedures?,
        limit_ns: timing?.window.as_nanos() as u64,
    };
    Some(Checked::new(&options, options.timing()))
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
    // Their order is part of what is measured, so it is always the same.
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
        Timing {
            warmup: Duration::ZERO,
            window: Duration::from_nanos(self.limit_ns),
        }
    }

    fn prepare(&self, context: &WorkloadContext) -> Result<Vec<Service>> {
        Ok(vec![service(self.server, context)?])
    }

    /// The client works on a thread of its own, so that this one can tell the time and hear `stop` while a statement
    /// runs. Where it ends early, that thread ends with its server, which the agent ends next.
    fn drive(
        &self,
        context: &WorkloadContext,
        stop: &AtomicBool,
        watcher: &mut dyn Watcher,
    ) -> Result<Driven> {
        let progress = Arc::<Progress>::default();
        let play = Play {
            server: self.server,
            address: self.server.address(context),
            procedures: self.procedures(context.seed),
            progress: Arc::clone(&progress),
        };
        let (tell, told) = channel();
        watcher.begins();
        thread::spawn(move || {
            // Nobody listens any more if the drive has ended early.
            let _ = tell.send(play.perform());
        });
        let times = self.wait(&told, &progress, stop, watcher)?;
        Ok(Driven {
            figures: figures(&times, &progress),
            ..Driven::default()
        })
    }

    fn figures(&self, seen: &Seen<'_>) -> Result<Vec<Figure>, String> {
        let mut figures = seen.driven.figures.clone();
        if let Some(cpu) = seen.cpu(self.server.name()) {
            let cpu_s = cpu.as_secs_f64();
            figures.push(guard("server-cpu", "s", Direction::Lower, cpu_s));
        }
        Ok(figures)
    }
}

/// The words of all procedures, which are metrics.
pub(crate) fn procedure_words() -> impl Iterator<Item = &'static str> {
    PROCEDURES.iter().map(|(word, _)| *word)
}

/// A procedure's word and the time that it took.
type Times = Vec<(&'static str, Duration)>;

impl Options {
    fn procedures(&self, seed: u64) -> Vec<(&'static str, Box<dyn Procedure>)> {
        let chosen = self.procedures.iter().map(|place| PROCEDURES[*place]);
        chosen
            .map(|(word, new)| (word, new(self.scale, seed)))
            .collect()
    }

    /// Waits for the client's end, at most until the limit, and ticks.
    fn wait(
        &self,
        told: &Receiver<Result<Times>>,
        progress: &Progress,
        stop: &AtomicBool,
        watcher: &mut dyn Watcher,
    ) -> Result<Times> {
        let (began, limit) = (Instant::now(), Duration::from_nanos(self.limit_ns));
        let mut second = 1;
        loop {
            let next = (began + SECOND * second).min(began + limit);
            match told.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Disconnected) => bail!("the client ended without a word"),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if stop.load(Ordering::Relaxed) {
                bail!("stopped by the host");
            }
            let right = progress.right.load(Ordering::Relaxed);
            if began.elapsed() >= limit {
                let at = self.procedures[progress.procedure.load(Ordering::Relaxed)];
                let (word, limit) = (PROCEDURES[at].0, show_duration(limit));
                let what = format!("no end in {limit}: in {word}, after {right} successful calls");
                return Err(Wrong(what).into());
            }
            watcher.ticks(Tick {
                second,
                ok: right,
                faults: progress.errors.load(Ordering::Relaxed),
                latency: Packed::default(),
                counting: true,
                ended: Vec::new(),
            });
            second += 1;
        }
    }
}

/// What the client's thread is to do.
struct Play {
    server: Server,
    address: SocketAddr,
    procedures: Vec<(&'static str, Box<dyn Procedure>)>,
    progress: Arc<Progress>,
}

impl Play {
    /// Each procedure with a connection of its own, as each was a program of its own.
    fn perform(self) -> Result<Times> {
        let mut times = Times::new();
        for (place, (word, procedure)) in self.procedures.into_iter().enumerate() {
            self.progress.procedure.store(place, Ordering::Relaxed);
            let began = Instant::now();
            let client = Client::connect(self.server, self.address, Arc::clone(&self.progress));
            client
                .and_then(|mut client| {
                    procedure.fill(&mut client)?;
                    procedure.ask(&mut client)
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
        .map(|(word, time)| guard(word, "s", lower, time.as_secs_f64()));
    figures.extend(each);
    let errors = progress.errors.load(Ordering::Relaxed);
    figures.push(guard("errors", "connections", lower, errors as f64));
    figures
}

#[cfg(test)]
mod tests;
