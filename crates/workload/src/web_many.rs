//! `web-many`: many users with different addresses, who think between requests.
//!
//! After Hammerhead 2: 256 and more users simulated from IP aliases of one machine.

use std::sync::atomic::AtomicBool;

use anyhow::Result;
use load::schedule::Schedule;
use load::traffic::Traffic;
use plan::Traits;
use plan::fields::Fields;
use record::metric::Figure;
use serde::{Deserialize, Serialize};

use crate::figures::{self, Seen};
use crate::options::{self, Rest};
use crate::overview::{APACHE, DEADLINE, Key, Overview};
use crate::web::site_workload::SiteWorkload;
use crate::web::{self, CONNECTIONS, Web};
use crate::{Checked, Driven, Kind, Watcher, Workload};

pub(crate) const KIND: Kind = Kind {
    word: "web-many",
    traits: |_| Traits::STATIC,
    overview: Overview {
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
    check,
    from_options: |options| Ok(Box::new(Options::deserialize(options)?)),
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    #[serde(flatten)]
    web: Web,
    connections: u32,
    rest: Rest,
}

fn check(fields: &Fields<'_>) -> Option<Checked> {
    if !fields.has("addresses") {
        fields.missing("addresses", "256");
    }
    let connections = options::required_count(fields, "connections", 1..=CONNECTIONS, "256");
    let rest = Rest::read(fields);
    let web = Web::read(fields, connections);
    let is_whole = fields.has("addresses");
    let options = Options {
        connections: connections? as u32,
        rest: rest?,
        web: web.filter(|_| is_whole)?,
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

    fn can_be_shared(&self) -> bool {
        true
    }

    fn send(
        &self,
        mut traffic: Traffic,
        stop: &AtomicBool,
        watcher: &mut dyn Watcher,
    ) -> Result<Driven> {
        traffic.schedule = Schedule::Closed {
            think: self.rest.think(),
        };
        web::drive(&traffic, stop, watcher)
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
