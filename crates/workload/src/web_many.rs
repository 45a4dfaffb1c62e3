//! `web-many`: many users with different addresses, who think between requests.
//!
//! After Hammerhead 2: 256 and more users simulated from IP aliases of one machine.

use anyhow::Result;
use load::schedule::Schedule;
use load::traffic::Traffic;
use plan::Traits;
use plan::fields::Fields;
use record::metric::Figure;
use serde::{Deserialize, Serialize};

use crate::figures::{self, Seen};
use crate::options::Rest;
use crate::overview::{APACHE, DEADLINE, Key, Overview};
use crate::web::Web;
use crate::web::site_workload::SiteWorkload;
use crate::{FromPlan, Kind};

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "web-many",
    |_| Traits::STATIC,
    Overview {
        summary: "many users who rest between requests, each from an address of its own",
        primary: "latency-mean",
        machine: &[],
        keys: &[
            APACHE,
            Key::new("connections", &["256"], "users"),
            Key::new("addresses", &["256"], "source addresses that they share"),
            Key::new(
                "think",
                &["\"100ms to 300ms\""],
                "always the same rest would let users fall into step",
            ),
            Key::new("warmup", &["\"1s\""], "load that is not counted"),
            Key::new("window", &["\"4s\""], "load that is counted"),
            DEADLINE,
        ],
    },
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    #[serde(flatten)]
    web: Web,
    rest: Rest,
}

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        if !fields.has("addresses") {
            fields.missing("addresses", "256");
        }
        let rest = Rest::read(fields);
        let web = Web::read(fields, "256");
        let is_whole = fields.has("addresses");
        Some(Self {
            rest: rest?,
            web: web.filter(|_| is_whole)?,
        })
    }
}

impl SiteWorkload for Options {
    fn web(&self) -> &Web {
        &self.web
    }

    fn can_be_shared(&self) -> bool {
        true
    }

    fn adapt(&self, traffic: &mut Traffic) -> Result<()> {
        traffic.schedule = Schedule::Closed {
            think: self.rest.think(),
        };
        Ok(())
    }

    fn conclude(&self, _seen: &Seen<'_>, web: Vec<Figure>) -> Result<Vec<Figure>, String> {
        // Think times set the rate, so the server is judged by its latency.
        Ok(if self.rest.think().is_none() {
            web
        } else {
            figures::decided_by(web, "latency-mean")
        })
    }
}
