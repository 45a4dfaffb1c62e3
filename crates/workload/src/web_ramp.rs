//! `web-ramp`: a rising number of clients. The curve shows the knee, and whether the server
//! collapses beyond it.
//!
//! After `WebBench` 2.0 in Mindcraft's report of April 1999: 1 to 288 client threads in a closed
//! loop. NT 4.0 climbed to 3771 requests/s; Linux 2.2.2 peaked at about 1000/s and 160 threads, and
//! fell to 7 % of it.

use anyhow::Result;
use load::ramp::Level;
use load::traffic::Traffic;
use plan::Traits;
use plan::fields::Fields;
use record::load::LoadResult;
use record::metric::{Direction, Figure};
use serde::{Deserialize, Serialize};

use crate::figures::{self, Seen};
use crate::options;
use crate::overview::{APACHE, DEADLINE, Key, Overview, WARMUP};
use crate::web::site_workload::SiteWorkload;
use crate::web::{self, CONNECTIONS, Web};
use crate::{Control, Driven, FromPlan, Kind};

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "web-ramp",
    |_| Traits::STATIC,
    Overview {
        summary: "more and more connections: peak, knee, and what is left past it",
        primary: "peak",
        machine: &[],
        keys: &[
            APACHE,
            Key::new(
                "connections",
                &["[1, 16, 64, 160, 288]"],
                "one step after the other",
            ),
            WARMUP,
            Key::new("window", &["\"2s\""], "load that is counted, of each step"),
            DEADLINE,
        ],
    },
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    #[serde(flatten)]
    web: Web,
    /// Connections of each step, rising.
    steps: Vec<u32>,
}

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let example = "[1, 8, 32, 96, 160, 288]";
        let steps = options::steps(fields, "connections", 1..=CONNECTIONS, example);
        let least = steps.as_ref().and_then(|steps| steps.first().copied());
        let web = Web::with_connections(fields, least);
        let steps: Vec<_> = steps?.into_iter().map(|step| step as u32).collect();
        let mut web = web?;
        web.connections = *steps.last()?;
        Some(Self { web, steps })
    }
}

impl SiteWorkload for Options {
    fn web(&self) -> &Web {
        &self.web
    }

    fn steps(&self) -> usize {
        self.steps.len()
    }

    fn send(&self, traffic: Traffic, control: &mut Control<'_>) -> Result<Driven> {
        let steps = self.steps.iter().copied();
        let levels: Vec<_> = steps.map(Level::Connections).collect();
        let steps = web::ramp(&traffic, &levels, control)?;
        let axis = "connections";
        let mbit_per_s = |step: &LoadResult| step.body_bytes as f64 * 8e3 / step.window_ns as f64;
        let higher = Direction::Higher;
        Ok(Driven {
            load: Some(web::chain(&steps)),
            curves: vec![
                web::throughput(axis, &steps),
                web::curve("transfer", "Mbit/s", higher, axis, &steps, mbit_per_s),
                web::latency_p99(axis, &steps),
            ],
            ..Driven::default()
        })
    }

    fn conclude(&self, seen: &Seen<'_>, web: Vec<Figure>) -> Result<Vec<Figure>, String> {
        let mut figures = figures::ramp(&seen.driven.curves[0])?;
        // The mean throughput over all steps adds nothing to the curve.
        let others = web.into_iter();
        figures.extend(others.filter(|figure| figure.spec.name != "throughput"));
        Ok(figures)
    }
}
