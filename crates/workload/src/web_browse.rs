//! `web-browse`: scripted visitors: a page and its images, think times, a cookie, a form.
//!
//! After `PagePoker`: several clients that play the same sessions, under stress or at their
//! leisure.

use anyhow::{Result, anyhow};
use load::expect::Expect;
use load::script::Script;
use load::traffic::{Mix, Traffic};
use plan::Traits;
use plan::fields::Fields;
use record::metric::{Direction, Figure};
use serde::{Deserialize, Serialize};

use crate::figures::{self, Seen, secondary};
use crate::overview::{APACHE, Key, Overview};
use crate::web::site_workload::SiteWorkload;
use crate::web::{self, Server, Web};
use crate::{FromPlan, Kind};

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "web-browse",
    |_| Traits::CLIENTS,
    Overview {
        summary: "visitors with a script: pages, pictures, thinking, a form",
        primary: "latency-mean",
        machine: &[],
        keys: &[
            APACHE,
            Key::new("connections", &["30"], "visitors"),
            Key::new("warmup", &["\"1s\""], "load that is not counted"),
            Key::new("window", &["\"6s\""], "load that is counted"),
        ],
    },
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    #[serde(flatten)]
    web: Web,
    script: String,
}

/// The default script.
const SCRIPT: &str = "\
visit /page.html
fetch /left.jpg /right.jpg
think 100ms to 900ms
maybe 30% buy
visit /page.html
think 100ms to 900ms
leave
place buy
post /page.html item=7&count=1
think 50ms
visit /page.html
";

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let script = if fields.takes("script") {
            read_script(fields)
        } else {
            Some(SCRIPT.to_string())
        };
        let web = Web::read(fields, "30");
        Some(Self {
            script: script?,
            web: web?,
        })
    }
}

fn read_script(fields: &Fields<'_>) -> Option<String> {
    fields.read("script", |text| match Script::read("script", text) {
        Ok(_) => Ok(text.to_string()),
        Err(problems) => Err(problems.to_string()),
    })
}

impl SiteWorkload for Options {
    fn web(&self) -> &Web {
        &self.web
    }

    fn can_be_shared(&self) -> bool {
        true
    }

    /// Sets a cookie for each visitor, and answers forms with the page.
    fn extra(&self) -> &'static str {
        match self.web.server {
            Server::Apache(_) => {
                "LoadModule headers_module /usr/lib/apache2/modules/mod_headers.so\n\
                 Header set Set-Cookie \"visitor=known; Path=/\"\n"
            }
            Server::Nginx => {
                "add_header Set-Cookie \"visitor=known; Path=/\";\n\
                 error_page 405 =200 $uri;\n"
            }
        }
    }

    fn adapt(&self, traffic: &mut Traffic) -> Result<()> {
        let mut script = Script::read("script", &self.script)
            .map_err(|problems| anyhow!("script: {problems}"))?;
        for (name, content) in web::site(traffic.seed) {
            script.expect(&format!("/{name}"), &Expect::body(content));
        }
        traffic.mix = Mix::Sessions(script);
        Ok(())
    }

    fn conclude(&self, seen: &Seen<'_>, web: Vec<Figure>) -> Result<Vec<Figure>, String> {
        let load = figures::checked_load(seen)?;
        let per_s = load.sessions as f64 / (load.window_ns as f64 / 1e9);
        // Visitors think most of the time, so the server is judged by its latency.
        let mut figures = figures::decided_by(web, "latency-mean");
        figures.push(secondary(
            "sessions",
            "sessions/s",
            Direction::Higher,
            per_s,
        ));
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_script_is_valid() {
        Script::read("script", SCRIPT).unwrap();
    }
}
