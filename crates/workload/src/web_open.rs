//! `web-open`: an open loop with rising rates.
//!
//! After httperf: the client sets the rate and the number of connections, and counts time-outs.
//! Latency counts from the scheduled send time, so it shows a server that falls behind.

use std::sync::atomic::AtomicBool;

use anyhow::Result;
use load::ramp::Level;
use load::schedule::{Arrivals, Schedule};
use load::traffic::Traffic;
use plan::Traits;
use plan::fields::Fields;
use record::load::LoadResult;
use record::metric::{Direction, Figure};
use serde::{Deserialize, Serialize};

use crate::figures::{self, Seen};
use crate::options;
use crate::overview::{Key, Overview, SERVER, WARMUP};
use crate::web::site_workload::SiteWorkload;
use crate::web::{self, CONNECTIONS, Web};
use crate::{Checked, Driven, Kind, Watcher, Workload};

pub(crate) const KIND: Kind = Kind {
    word: "web-open",
    traits: |_| Traits::STATIC,
    overview: Overview {
        summary: "requests at given rates, whether the server keeps up or not",
        primary: "latency-p99",
        machine: &[],
        keys: &[
            SERVER,
            Key::new("connections", &["256"], "requests under way at the most"),
            Key::new(
                "rates",
                &["[250, 500, 1000, 2000]"],
                "requests per second, one step after the other",
            ),
            WARMUP,
            Key::new("window", &["\"2s\""], "load that is counted, of each step"),
            Key::new(
                "deadline",
                &["\"5s\""],
                "a request that takes longer has failed",
            ),
        ],
    },
    check,
    from_options: |options| Ok(Box::new(Options::deserialize(options)?)),
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    #[serde(flatten)]
    web: Web,
    connections: u32,
    /// Requests per second of each step, rising.
    rates: Vec<u64>,
    /// Whether arrivals are spaced equally; at random otherwise.
    is_constant: bool,
}

fn check(fields: &Fields<'_>) -> Option<Checked> {
    let connections = options::required_count(fields, "connections", 1..=CONNECTIONS, "64");
    let rates = options::steps(fields, "rates", 1..=options::RATE, "[100, 200, 400]");
    let is_constant = if fields.takes("arrivals") {
        fields.choice("arrivals", &[("constant", true), ("poisson", false)])
    } else {
        Some(false)
    };
    let web = Web::read(fields, connections);
    let options = Options {
        connections: connections? as u32,
        rates: rates?,
        is_constant: is_constant?,
        web: web?,
    };
    Some(Checked::new(&options, options.timing()))
}

impl SiteWorkload for Options {
    fn web(&self) -> &Web {
        &self.web
    }

    fn connections(&self) -> u32 {
        self.connections
    }

    fn steps(&self) -> usize {
        self.rates.len()
    }

    fn send(
        &self,
        mut traffic: Traffic,
        stop: &AtomicBool,
        watcher: &mut dyn Watcher,
    ) -> Result<Driven> {
        let arrivals = if self.is_constant {
            Arrivals::Constant
        } else {
            Arrivals::Poisson
        };
        traffic.schedule = Schedule::Open {
            rate_per_s: self.rates[0] as f64,
            arrivals,
        };
        let rates = self.rates.iter();
        let levels: Vec<_> = rates.map(|rate| Level::RatePerS(*rate as f64)).collect();
        let steps = web::ramp(&traffic, &levels, stop, watcher)?;
        let backlog = |step: &LoadResult| step.backlog_growth_per_s().max(0.0);
        let failed =
            |step: &LoadResult| (step.planned - step.ok) as f64 / step.planned.max(1) as f64;
        let (axis, lower) = ("requests/s", Direction::Lower);
        Ok(Driven {
            load: Some(web::chain(&steps)),
            curves: vec![
                web::latency_p99(axis, &steps),
                web::throughput(axis, &steps),
                // Above zero the server falls behind, and latency depends on the length of the
                // step.
                web::curve("backlog-growth", "requests/s", lower, axis, &steps, backlog),
                web::curve("failed", "share", lower, axis, &steps, failed),
            ],
            ..Driven::default()
        })
    }

    fn conclude(&self, _seen: &Seen<'_>, web: Vec<Figure>) -> Result<Vec<Figure>, String> {
        // The client sets the rate, so the server is judged by its latency.
        Ok(figures::decided_by(web, "latency-p99"))
    }
}
