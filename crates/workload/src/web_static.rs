//! `web-static`: a page of 21.5 KB with two images of 25 KB, served from memory.
//!
//! The figures are `InfoWorld`'s of 30 January 2004: Apache 2.0.48 under `ab`, Linux 2.6.0 against 2.4.23.

use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use load::expect::Expect;
use load::{Load, Request};
use record::fields::Fields;
use record::metric::Figure;
use record::units;
use serde::{Deserialize, Serialize};

use crate::apache::{self, Apache, Mpm};
use crate::figures::{self, Seen};
use crate::nginx::{self, Nginx};
use crate::probe::Probe;
use crate::service::Service;
use crate::stage::Stage;
use crate::{Checked, Driven, Kind, Timing, Watcher, Workload, data};

pub(crate) const KIND: Kind = Kind {
    word: "web-static",
    check,
    revive: |options| Ok(Box::new(Options::deserialize(options)?)),
};

/// The options of a plan, found right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    server: Server,
    connections: u32,
    keep_alive: bool,
    /// Client threads; absent for one per CPU.
    threads: Option<u32>,
    warmup_ns: u64,
    window_ns: u64,
    deadline_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Server {
    Apache(Mpm),
    Nginx,
}

impl Server {
    /// The name of its service.
    fn name(self) -> &'static str {
        match self {
            Self::Apache(_) => "apache2",
            Self::Nginx => "nginx",
        }
    }
}

/// Deadlines that make sense for a page; latencies above an hour are not told apart.
const DEADLINES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);

fn check(fields: &Fields<'_>) -> Option<Checked> {
    let server = read_server(fields);
    if !fields.has("connections") {
        fields.missing("connections", "60");
    }
    let connections = fields.count("connections", 1..=10_000);
    let keep_alive = fields.has("keep_alive");
    let keep_alive = if keep_alive {
        fields.flag("keep_alive")
    } else {
        Some(true)
    };
    let threads = fields.count("threads", 1..=64);
    if let (Some(threads), Some(connections)) = (threads, connections)
        && threads > connections
    {
        let what = format!("threads above connections ({connections}): {threads}");
        fields.wrong(
            "threads",
            what,
            "a thread without a connection does nothing: lower it",
        );
    }
    let timing = read_timing(fields);
    let deadline = read_time(fields, "deadline", Duration::from_secs(10));
    if let Some(deadline) = deadline.filter(|deadline| !DEADLINES.contains(deadline)) {
        let what = format!("deadline out of range: {}", units::show_duration(deadline));
        fields.wrong("deadline", what, "write \"1ms\" to \"1h\"");
    }
    let timing = timing?;
    let options = Options {
        server: server?,
        connections: connections? as u32,
        keep_alive: keep_alive?,
        threads: threads.map(|threads| threads as u32),
        warmup_ns: timing.warmup.as_nanos() as u64,
        window_ns: timing.window.as_nanos() as u64,
        deadline_ns: deadline?.as_nanos() as u64,
    };
    let options = serde_json::to_value(options).expect("options are plain data");
    Some(Checked { options, timing })
}

fn read_server(fields: &Fields<'_>) -> Option<Server> {
    if !fields.has("server") {
        fields.missing("server", "\"apache\" or \"nginx\"");
    }
    let apache = fields.choice("server", &[("apache", true), ("nginx", false)]);
    let mpms = [Mpm::Event, Mpm::Worker, Mpm::Prefork].map(|mpm| (mpm.word(), mpm));
    let mpm = fields.choice("mpm", &mpms);
    match apache? {
        true if fields.has("mpm") => Some(Server::Apache(mpm?)),
        true => Some(Server::Apache(Mpm::Event)),
        false if fields.has("mpm") => {
            let what = "mpm with a server that has none: nginx";
            fields.wrong("mpm", what, "remove mpm, or write server = \"apache\"");
            None
        }
        false => Some(Server::Nginx),
    }
}

fn read_timing(fields: &Fields<'_>) -> Option<Timing> {
    if !fields.has("window") {
        fields.missing("window", "\"10s\"");
    }
    let warmup = read_time(fields, "warmup", Duration::from_secs(2));
    let window = fields.read("window", units::duration)?;
    if window < Duration::from_secs(1) {
        let what = format!("window below one second: {}", units::show_duration(window));
        fields.wrong("window", what, "write window = \"10s\"");
        return None;
    }
    let warmup = warmup?;
    Some(Timing { warmup, window })
}

/// A duration that may be left out.
fn read_time(fields: &Fields<'_>, key: &str, default: Duration) -> Option<Duration> {
    if fields.has(key) {
        fields.read(key, units::duration)
    } else {
        Some(default)
    }
}

const PAGE: &str = "page.html";
const IMAGES: [&str; 2] = ["left.jpg", "right.jpg"];
const PAGE_BYTES: usize = 22_016;
const IMAGE_BYTES: usize = 25_600;

/// A file of the site and its content, the page first.
fn site(seed: u64) -> Vec<(&'static str, Vec<u8>)> {
    let mut site = vec![(PAGE, data::page(seed, PAGE_BYTES, &IMAGES))];
    site.extend(IMAGES.map(|name| (name, data::image(seed, IMAGE_BYTES, name))));
    site
}

impl Workload for Options {
    fn packages(&self) -> Vec<&'static str> {
        match self.server {
            Server::Apache(_) => vec!["apache2"],
            Server::Nginx => vec!["nginx"],
        }
    }

    fn timing(&self) -> Timing {
        Timing {
            warmup: Duration::from_nanos(self.warmup_ns),
            window: Duration::from_nanos(self.window_ns),
        }
    }

    fn prepare(&self, stage: &Stage) -> Result<Vec<Service>> {
        let root = stage.make_dir("site")?;
        let site = site(stage.seed);
        for (name, content) in &site {
            stage.write(&format!("site/{name}"), content)?;
        }
        let probe = Probe::Http {
            server: stage.at(80),
            path: format!("/{PAGE}"),
            body: site[0].1.as_slice().into(),
        };
        let Self {
            connections,
            keep_alive,
            ..
        } = *self;
        let service = match self.server {
            Server::Apache(mpm) => {
                let apache = Apache {
                    mpm,
                    connections,
                    keep_alive,
                    root,
                };
                apache::service(stage, &apache, probe)?
            }
            Server::Nginx => {
                let nginx = Nginx {
                    connections,
                    keep_alive,
                    root,
                };
                nginx::service(stage, &nginx, probe)?
            }
        };
        Ok(vec![service])
    }

    fn drive(&self, stage: &Stage, stop: &AtomicBool, watcher: &mut dyn Watcher) -> Result<Driven> {
        let load = self.load(stage);
        watcher.begins();
        let load = load::run(&load, stop, &mut |tick| watcher.ticks(tick))?;
        Ok(Driven {
            load: Some(load),
            figures: Vec::new(),
        })
    }

    fn figures(&self, seen: &Seen<'_>) -> Result<Vec<Figure>, String> {
        figures::web(seen, self.server.name())
    }
}

impl Options {
    fn load(&self, stage: &Stage) -> Load {
        let requests = site(stage.seed)
            .into_iter()
            .map(|(name, content)| Request {
                path: format!("/{name}"),
                expect: Expect::body(content),
            })
            .collect();
        let Timing { warmup, window } = self.timing();
        Load {
            server: stage.at(80),
            host: "bakeoff".into(),
            requests,
            connections: self.connections,
            keep_alive: self.keep_alive,
            threads: self.threads.unwrap_or(stage.cpus.min(self.connections)),
            deadline: Duration::from_nanos(self.deadline_ns),
            warmup,
            window,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect as Snapshot, expect};
    use load::expect::Content;
    use record::fields::Page;
    use record::wire::WorkloadJob;

    const GOOD: &str =
        "kind = \"web-static\"\nserver = \"apache\"\nconnections = 60\nwindow = \"10s\"";

    fn read(text: &str) -> Result<record::plan::WorkloadPlan, String> {
        let page = Page::new("plan.toml", text);
        let table = page.parse();
        let plan = crate::check(&Fields::top(&page, &table));
        page.close(plan).map_err(|problems| problems.to_string())
    }

    fn check_mistakes(text: &str, expected: &Snapshot) {
        expected.assert_eq(&read(text).unwrap_err());
    }

    fn stage() -> Stage {
        Stage {
            dir: "/stage".into(),
            server: [10, 77, 0, 1].into(),
            client: [10, 77, 0, 2].into(),
            cpus: 2,
            seed: 7,
            config: String::new(),
        }
    }

    #[test]
    fn a_plan_survives_the_way_into_the_guest() {
        let text = format!("{GOOD}\nmpm = \"prefork\"\nname = \"pre\"\nkeep_alive = false");
        let plan = read(&text).unwrap();
        assert_eq!((plan.id.as_str(), plan.length.as_secs()), ("pre", 12));
        expect![[r#"{"connections":60,"deadline_ns":10000000000,"keep_alive":false,"server":{"apache":"prefork"},"threads":null,"warmup_ns":2000000000,"window_ns":10000000000}"#]].assert_eq(&plan.options.to_string());
        let job = WorkloadJob {
            kind: plan.kind,
            options: plan.options,
        };
        let workload = crate::revive(&job).unwrap();
        assert_eq!(workload.packages(), ["apache2"]);
        assert_eq!(workload.timing().window, Duration::from_secs(10));
    }

    #[test]
    fn mistakes_are_named_with_line_and_remedy() {
        check_mistakes(
            "server = \"apache\"",
            &expect![[r#"plan.toml:1: missing key in the file: kind (add kind = "web-static")"#]],
        );
        check_mistakes(
            "kind = \"web-statik\"\nfoo = 1",
            &expect![[
                r#"plan.toml:1: unknown kind of workload: "web-statik" (did you mean "web-static"?)"#
            ]],
        );
        check_mistakes(
            "kind = \"web-static\"",
            &expect![[r#"
            plan.toml:1: missing key in the file: server (add server = "apache" or "nginx")
            plan.toml:1: missing key in the file: connections (add connections = 60)
            plan.toml:1: missing key in the file: window (add window = "10s")"#]],
        );
        check_mistakes(
            &GOOD.replace("60", "0"),
            &expect!["plan.toml:3: connections out of range: 0 (write 1 to 10000)"],
        );
        check_mistakes(
            &GOOD.replace("10s", "10ms"),
            &expect![[r#"plan.toml:4: window below one second: 10ms (write window = "10s")"#]],
        );
        check_mistakes(
            &GOOD.replace("connections", "conections"),
            &expect![[r#"
            plan.toml:1: missing key in the file: connections (add connections = 60)
            plan.toml:3: unknown key in the file: conections (did you mean "connections"?)"#]],
        );
    }

    #[test]
    fn several_mistakes_are_told_at_once() {
        let text = "kind = \"web-static\"\nserver = \"nginx\"\nmpm = \"event\"\nconnections = 4\n\
                    threads = 8\nkeep_alive = \"yes\"\nwarmup = \"2\"\nwindow = \"10s\"\n\
                    deadline = \"0s\"\nname = \"a b\"";
        check_mistakes(
            text,
            &expect![[r#"
                plan.toml:3: mpm with a server that has none: nginx (remove mpm, or write server = "apache")
                plan.toml:5: threads above connections (4): 8 (a thread without a connection does nothing: lower it)
                plan.toml:6: wrong type for keep_alive in the file: string (write true or false)
                plan.toml:7: warmup: not a duration: "2" (write it like "500ms", "10s" or "2h")
                plan.toml:9: deadline out of range: 0s (write "1ms" to "1h")
                plan.toml:10: workload name of other than letters, digits and . _ + -: "a b" (rename it, 40 characters at most)"#]],
        );
    }

    #[test]
    fn options_of_another_version_are_refused() {
        let job = WorkloadJob {
            kind: "web-static".into(),
            options: serde_json::json!({ "connections": 1 }),
        };
        let why = crate::revive(&job).err().unwrap();
        assert!(format!("{why:#}").contains("options of workload web-static: missing field"));
    }

    #[test]
    fn every_client_asks_for_the_page_and_both_images() {
        let Ok(plan) = read(GOOD) else {
            panic!("the good plan is good")
        };
        let load = Options::deserialize(&plan.options).unwrap().load(&stage());
        let asked: Vec<_> = load
            .requests
            .iter()
            .map(|request| match &request.expect.content {
                Content::Bytes(body) => (request.path.as_str(), body.len()),
                Content::Any | Content::Hash { .. } => (request.path.as_str(), 0),
            })
            .collect();
        assert_eq!(
            asked,
            [
                ("/page.html", 22_016),
                ("/left.jpg", 25_600),
                ("/right.jpg", 25_600)
            ]
        );
        assert_eq!(load.threads, 2);
    }
}
