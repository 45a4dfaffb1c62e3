//! `app-trade`: an online stock broker on an application server with a database.
//!
//! After IBM's Trade3, used by the Linux Technology Center's web serving reports of 2004: visitors
//! log in, view quotes and their portfolio, buy, sell and log out. Sessions use cookies; each trade
//! is a transaction. A user's application may take the broker's place (`war`).
//!
//! ```text
//! visitors --HTTP, cookies--> Tomcat: Trade, Broker (images/app) -----------JDBC--> MariaDB
//!                             WildFly, Open Liberty: Trade, Trading --JPA, JDBC--> or PostgreSQL
//!                                                            afterwards:  audit ----^
//! ```
//! The audit checks conservation: no trade creates or loses a cent or a share, and no confirmed
//! trade is lost.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use load::exchange::Exchange;
use load::expect::Expect;
use load::schedule::Schedule;
use load::script::Script;
use load::traffic::{End, Mix, Traffic};
use plan::Traits;
use plan::fields::Fields;
use record::curve::Curve;
use record::metric::{Direction, Figure};
use record::prng::SplitMix64;
use serde::{Deserialize, Serialize};
use strum::VariantArray as _;

use crate::app_trade::java::{Collector, Java, Jit};
use crate::app_trade::ledger::{MarketClose, Opening};
use crate::app_trade::server::{AppServer, PORT, Setup};
use crate::app_trade::war::War;
use crate::context::WorkloadContext;
use crate::data::stream;
use crate::database;
use crate::database::client::Client;
use crate::database::server::Server as Database;
use crate::figures::{self, Seen, secondary};
use crate::options::{self, Rest};
use crate::overview::{DEADLINE, Key, Overview};
use crate::probe::Probe;
use crate::service::Service;
use crate::{Control, Driven, FromPlan, Kind, Programs, Timing, Workload, web};

mod application;
mod java;
mod ledger;
mod open_liberty;
mod server;
mod tomcat;
mod war;
mod wildfly;

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "app-trade",
    |options| Traits {
        accepts_any_content: Options::deserialize(options)
            .is_ok_and(|options| !options.checks_content()),
        ..Traits::CLIENTS
    },
    Overview {
        summary: "a stock broker's application: its server, its database, and visitors who trade",
        primary: "transactions",
        machine: &[Key::new(
            "silence",
            &["\"10m\""],
            "the first requests, for Java to warm up, say nothing",
        )],
        keys: &[
            Key::new("clients", &["8"], "visitors at once"),
            Key::new("accounts", &["100"], ""),
            Key::new("symbols", &["200"], "stocks"),
            Key::new(
                "server",
                &["\"tomcat\"", "\"wildfly\"", "\"open-liberty\""],
                "or \"wildfly\" or \"open-liberty\", both with a heap of 128 MiB or more",
            ),
            Key::new(
                "database",
                &["\"mariadb\"", "\"postgresql\""],
                "or \"postgresql\"",
            ),
            Key::new("heap", &["\"64MiB\""], "of Java"),
            Key::new(
                "collector",
                &["\"serial\""],
                "of garbage; \"auto\", \"serial\", \"parallel\" or \"g1\"",
            ),
            Key::new(
                "jit",
                &["\"quick\""],
                "so that Java has compiled what it will before the warm-up",
            ),
            Key::new("warmup_requests", &["2000"], "requests before the warm-up"),
            Key::shown(
                "think",
                &["\"1s to 3s\""],
                "between an answer and the next request; left out, none",
            ),
            Key::new("warmup", &["\"1s\""], "load that is not counted"),
            Key::new("window", &["\"5s\""], "load that is counted"),
            DEADLINE,
        ],
    },
);

/// Names of the application servers.
pub(crate) fn servers() -> Vec<&'static str> {
    AppServer::VARIANTS
        .iter()
        .map(|server| server.name())
        .collect()
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    /// Number of visitors at once, each with one request under way.
    clients: u32,
    application: Application,
    /// Time between an answer and the visitor's next request.
    rest: Rest,
    server: AppServer,
    database: Database,
    java: Java,
    /// Requests before the warm-up, so that the virtual machine has compiled the same code on every
    /// arm.
    warmup_requests: u64,
    #[serde(flatten)]
    timing: Timing,
    deadline_ns: u64,
}

/// What the application server serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Application {
    Broker(Broker),
    War(War),
}

/// Size of the broker's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Broker {
    accounts: u32,
    symbols: u32,
}

/// Fact: what was audited after the load.
const AUDIT: &str = "app-trade:audit";

/// Largest number of accounts; each needs about 5 KiB for its visit.
const ACCOUNTS: u64 = 10_000;

/// Memory of the Java heap.
const HEAP_BYTES: (u64, u64) = (32 << 20, 64 << 30);

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let clients = options::required_count(fields, "clients", 1..=5000, "30");
        // Trade3 came with 500 users and 1000 symbols.
        let accounts = options::count(fields, "accounts", 1..=ACCOUNTS, 500);
        let symbols = options::count(fields, "symbols", 1..=100_000, 1000);
        let rest = Rest::read(fields);
        let war = War::read(fields);
        let (least, most) = HEAP_BYTES;
        let heap = options::bytes(fields, "heap", least..=most, 128 << 20);
        let server = options::variant(fields, "server", AppServer::Tomcat);
        let database = options::variant(fields, "database", Database::Mariadb);
        let collector = options::variant(fields, "collector", Collector::Auto);
        let jit = options::variant(fields, "jit", Jit::Full);
        let warmup_requests = options::count(fields, "warmup_requests", 0..=100_000_000, 2000);
        let timing = options::timing(fields);
        let deadline = options::deadline(fields);
        Some(Self {
            clients: clients? as u32,
            application: match war.ok()? {
                Some(war) => Application::War(war),
                None => Application::Broker(Broker {
                    accounts: accounts? as u32,
                    symbols: symbols? as u32,
                }),
            },
            rest: rest?,
            server: server?,
            database: database?,
            java: Java {
                heap_bytes: heap?,
                collector: collector?,
                jit: jit?,
            },
            warmup_requests: warmup_requests?,
            timing: timing?,
            deadline_ns: deadline?.as_nanos() as u64,
        })
    }
}

impl Workload for Options {
    fn packages(&self) -> Vec<&str> {
        let mut packages = self.database.packages();
        packages.extend([
            "default-jre-headless",
            server::driver_package(self.database),
        ]);
        packages.extend(self.server.packages());
        packages
    }

    fn programs(&self) -> Programs {
        self.server.programs()
    }

    fn files(&self) -> Vec<&str> {
        match &self.application {
            Application::Broker(_) => Vec::new(),
            Application::War(war) => vec![&war.file],
        }
    }

    fn check_file(&self, path: &Path) -> Result<(), String> {
        war::check_file(path)
    }

    fn configurable(&self) -> Vec<&'static str> {
        vec![self.database.name(), self.server.name()]
    }

    fn is_driven_from_outside(&self) -> bool {
        true
    }

    fn timing(&self) -> Timing {
        self.timing
    }

    fn prepare(&self, context: &WorkloadContext) -> Result<Vec<Service>> {
        let war = match &self.application {
            Application::Broker(_) => None,
            Application::War(war) => Some(war.deploy(context)?),
        };
        let setup = Setup {
            clients: self.clients,
            java: self.java,
            database: self.database,
            war,
            probe: self.probe(context),
        };
        // Changes of an arm without a server's name are for the database.
        let server = self.server.service(&setup, &context.with_named_config())?;
        Ok(vec![database::service(self.database, context)?, server])
    }

    fn drive(&self, context: &WorkloadContext, control: &mut Control<'_>) -> Result<Driven> {
        match &self.application {
            Application::Broker(broker) => self.trade(*broker, context, control),
            Application::War(war) => {
                let traffic = self.traffic(context, Mix::Sessions(war.script()?));
                war.set_up(&traffic, control.stop)?;
                self.warm_up(&traffic, control.stop)?;
                let mut driven = web::drive(&traffic, control)?;
                driven.facts.insert(AUDIT.into(), "none".into());
                Ok(driven)
            }
        }
    }

    fn figures(&self, seen: &Seen<'_>) -> Result<Vec<Figure>, String> {
        let mut figures = figures::web(seen, self.server.name())?;
        let load = figures::checked_load(seen)?;
        if let Application::Broker(_) = self.application {
            figures[0].spec.name = "transactions".into();
            figures[0].spec.unit = "transactions/s".into();
        }
        // Think times set the rate, so the server is judged by its latency.
        if self.has_think_times() {
            figures = figures::decided_by(figures, "latency-mean");
        }
        let per_s = load.sessions as f64 / (load.window_ns as f64 / 1e9);
        figures.push(secondary(
            "sessions",
            "sessions/s",
            Direction::Higher,
            per_s,
        ));
        let database = self.database.name();
        figures.extend(figures::cpu_per_request(seen, database, "database-cpu"));
        figures.extend(seen.driven.figures.iter().cloned());
        figures.extend(java::stops(seen.samples));
        Ok(figures)
    }

    fn curves(&self, seen: &Seen<'_>) -> Vec<Curve> {
        java::curves(seen.samples)
    }
}

impl Options {
    fn connect(&self, context: &WorkloadContext) -> Result<Client> {
        let address = self.database.address(context);
        Client::connect(self.database, address, Arc::default())
    }

    /// Whether the content of every response is known.
    fn checks_content(&self) -> bool {
        match &self.application {
            Application::Broker(_) => true,
            Application::War(war) => war.script().is_ok_and(|script| script.checks_content()),
        }
    }

    /// Whether visitors wait between requests, by their script or in general.
    fn has_think_times(&self) -> bool {
        let in_script = match &self.application {
            Application::Broker(_) => false,
            Application::War(war) => war.script().is_ok_and(|script| script.has_think_times()),
        };
        in_script || !self.rest.think().is_none()
    }

    /// Drives the broker's visitors, and audits the books.
    fn trade(
        &self,
        broker: Broker,
        context: &WorkloadContext,
        control: &mut Control<'_>,
    ) -> Result<Driven> {
        let opening = Opening::new(broker.accounts, broker.symbols, context.seed);
        opening
            .fill(self.database, &mut self.connect(context)?)
            .context("fill the tables")?;
        let traffic = self.traffic(context, visits(&opening, broker.symbols, context.seed));
        self.warm_up(&traffic, control.stop)?;
        if self.warmup_requests > 0 {
            ledger::collect_garbage(context, control.stop)?;
        }
        let mut driven = web::drive(&traffic, control)?;
        let market_close = MarketClose::request(context, control.stop)?;
        opening.audit(&market_close, &mut self.connect(context)?)?;
        let repeated = market_close.repeated as f64;
        let repeated = secondary("repeated", "transactions", Direction::Lower, repeated);
        driven.figures.push(repeated);
        driven.facts.insert(AUDIT.into(), "books".into());
        Ok(driven)
    }

    /// A page of the broker without data, because the tables are filled only when the database
    /// runs; or the page that a user's application has for it.
    fn probe(&self, context: &WorkloadContext) -> Probe {
        let server = context.at(PORT);
        let (path, body) = match &self.application {
            Application::Broker(_) => ("/up".into(), Some(b"up\n".as_slice().into())),
            Application::War(war) => (war.ready.clone(), None),
        };
        Probe::Http { server, path, body }
    }

    /// Sends the warm-up requests. Failures also occur in the window, where they are reported.
    fn warm_up(&self, traffic: &Traffic, stop: &AtomicBool) -> Result<()> {
        if self.warmup_requests > 0 {
            let warmup = Traffic {
                warmup: Duration::ZERO,
                end: End::Count(self.warmup_requests),
                seed: !traffic.seed,
                ..traffic.clone()
            };
            load::run::run(&warmup, stop, &mut |_| {}).context("warm-up requests")?;
        }
        Ok(())
    }

    fn traffic(&self, context: &WorkloadContext, mix: Mix) -> Traffic {
        let Timing { warmup, window } = self.timing();
        Traffic {
            host: "bakeoff".into(),
            schedule: Schedule::Closed {
                think: self.rest.think(),
            },
            connections: self.clients,
            threads: context.client_threads(None, self.clients),
            deadline: Duration::from_nanos(self.deadline_ns),
            warmup,
            end: End::After(window),
            seed: context.seed,
            ..Traffic::plain(context.at(PORT), mix)
        }
    }
}

/// The visits of the broker's accounts.
fn visits(opening: &Opening, symbols: u32, seed: u64) -> Mix {
    let mut stream = stream(seed, "app-trade visits");
    let visits = opening
        .accounts
        .iter()
        .map(|account| visit(account.id, &account.password, symbols, &mut stream));
    Mix::Sessions(Script::from_visits(visits.collect()))
}

/// The visit of an account, in 12 to 14 requests. Most are quotes, as in Trade3's mix. Visitors
/// sell what they have bought, so that a run can last for days.
///
/// Every page is checked by its title. Pages that depend only on the request are checked
/// completely.
fn visit(account: u32, password: &str, symbols: u32, stream: &mut SplitMix64) -> Vec<Exchange> {
    let begins = |title: &str| Expect::begins(head(title).into_bytes());
    let symbol = |stream: &mut SplitMix64| 1 + stream.below(symbols.into());
    let quote = |symbols: &[u64]| {
        let words: Vec<_> = symbols.iter().map(ToString::to_string).collect();
        let path = format!("/quote?symbols={}", words.join(","));
        Exchange::get(path, begins(&format!("quotes of {}", words.join(" "))))
    };
    let browse = |stream: &mut SplitMix64| {
        let more = stream.below(3);
        quote(&(0..=more).map(|_| symbol(stream)).collect::<Vec<_>>())
    };
    let (bought, count) = (symbol(stream), 1 + stream.below(50));
    let trade = |verb: &str, past: &str| {
        let title = format!("{account} {past} {count} of {bought}");
        post(
            verb,
            &format!("symbol={bought}&count={count}"),
            begins(&title),
        )
    };
    let home = || Exchange::get("/home", begins(&format!("home of {account}")));
    let login = format!("user={account}&password={password}");
    let mut visit = vec![
        post(
            "/login",
            &login,
            whole(&format!("welcome {account}"), "You are logged in."),
        ),
        home(),
    ];
    visit.extend((0..2 + stream.below(2)).map(|_| browse(stream)));
    visit.extend([quote(&[bought]), trade("/buy", "bought")]);
    let portfolio = begins(&format!("portfolio of {account}"));
    visit.push(Exchange::get("/portfolio", portfolio));
    visit.extend((0..=stream.below(2)).map(|_| browse(stream)));
    visit.extend([quote(&[bought]), trade("/sell", "sold"), home()]);
    let goodbye = whole(&format!("goodbye {account}"), "You are logged out.");
    visit.push(post("/logout", "", goodbye));
    visit
}

fn post(path: &str, form: &str, expect: Expect) -> Exchange {
    let kind = "application/x-www-form-urlencoded";
    Exchange {
        method: "POST".into(),
        headers: vec![("Content-Type".into(), kind.into())],
        body: form.as_bytes().to_vec(),
        ..Exchange::get(path, expect)
    }
}

/// The beginning of a page, as in `Page.java`.
fn head(title: &str) -> String {
    format!("<!DOCTYPE html>\n<html><head><title>Trade: {title}</title></head><body>\n")
}

/// A complete page with a single line.
fn whole(title: &str, line: &str) -> Expect {
    let foot =
        "<hr><a href=\"/home\">Home</a> <a href=\"/portfolio\">Portfolio</a>\n</body></html>\n";
    Expect::body(format!("{}<p>{line}</p>\n{foot}", head(title)).into_bytes())
}

#[cfg(test)]
mod tests;
