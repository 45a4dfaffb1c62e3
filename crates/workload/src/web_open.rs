//! `web-open`: an open loop with rising rates.
//!
//! After httperf: the client sets the rate and the number of connections, and counts time-outs.
//! Latency counts from the scheduled send time, so it shows a server that falls behind.

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
use crate::web::{self, Web};
use crate::{Control, Driven, FromPlan, Kind};

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "web-open",
    |_| Traits::STATIC,
    Overview {
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
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    #[serde(flatten)]
    web: Web,
    /// Requests per second of each step, rising.
    rates: Vec<u64>,
    /// Whether arrivals are spaced equally; at random otherwise.
    is_constant: bool,
}

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let rates = options::steps(fields, "rates", 1..=options::RATE, "[100, 200, 400]");
        let is_constant = if fields.takes("arrivals") {
            fields.choice("arrivals", &[("constant", true), ("poisson", false)])
        } else {
            Some(false)
        };
        let web = Web::read(fields, "64");
        Some(Self {
            rates: rates?,
            is_constant: is_constant?,
            web: web?,
        })
    }
}

impl SiteWorkload for Options {
    fn web(&self) -> &Web {
        &self.web
    }

    fn steps(&self) -> usize {
        self.rates.len()
    }

    fn adapt(&self, traffic: &mut Traffic) -> Result<()> {
        let arrivals = if self.is_constant {
            Arrivals::Constant
        } else {
            Arrivals::Poisson
        };
        traffic.schedule = Schedule::Open {
            rate_per_s: self.rates[0] as f64,
            arrivals,
        };
        Ok(())
    }

    fn send(&self, traffic: Traffic, control: &mut Control<'_>) -> Result<Driven> {
        let rates = self.rates.iter();
        let levels: Vec<_> = rates.map(|rate| Level::RatePerS(*rate as f64)).collect();
        let steps = web::ramp(&traffic, &levels, control)?;
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
