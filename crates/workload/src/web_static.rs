//! `web-static`: a page of 21.5 KB with two images of 25 KB, served from memory.
//!
//! The figures are `InfoWorld`'s of 30 January 2004: Apache 2.0.48 under `ab`, Linux 2.6.0 against
//! 2.4.23.

use plan::Traits;
use plan::fields::Fields;
use record::metric::Figure;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::figures::{self, Seen};
use crate::overview::{Key, Overview, SERVER, WARMUP};
use crate::web::Web;
use crate::web::site_workload::SiteWorkload;
use crate::{FromPlan, Kind};

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "web-static",
    |_| Traits::STATIC,
    Overview {
        summary: "static pages in a closed loop: as many requests as the server answers",
        primary: "throughput",
        machine: &[],
        keys: &[
            SERVER,
            Key::new(
                "connections",
                &["16"],
                "clients, each with one request under way",
            ),
            Key::shown(
                "keep_alive",
                &["false"],
                "a connection for each request; left out, one for many",
            ),
            Key::shown(
                "decided_by",
                &["\"server-cpu\""],
                "CPU time of the server's own processes for a request, in place of throughput",
            ),
            WARMUP,
            Key::new("window", &["\"2s\""], "load that is counted"),
        ],
    },
);

/// Options of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Options {
    #[serde(flatten)]
    web: Web,
    /// `None` for throughput; omitted then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decided_by: Option<Decider>,
}

/// The primary figure.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
enum Decider {
    Throughput,
    /// CPU time of the server's processes per request.
    ServerCpu,
}

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        Some(Self {
            decided_by: fields.variant("decided_by"),
            ..Self::decided_by_throughput(fields)?
        })
    }
}

impl Options {
    pub(crate) fn decided_by_throughput(fields: &Fields<'_>) -> Option<Self> {
        Some(Self {
            web: Web::read(fields, "60")?,
            decided_by: None,
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

    fn conclude(&self, seen: &Seen<'_>, web: Vec<Figure>) -> Result<Vec<Figure>, String> {
        Ok(match self.decided_by {
            None | Some(Decider::Throughput) => web,
            Some(Decider::ServerCpu) if seen.ns_per_instruction.is_some() => {
                return Err(
                    "server-cpu cannot decide where the clock counts instructions: the kernel charges CPU time by its ticks (write \
                     clock = \"wall\", or take decided_by out)"
                        .into(),
                );
            }
            Some(Decider::ServerCpu) => figures::decided_by(web, figures::SERVER_CPU),
        })
    }

    fn has_one_load(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_mistakes, read};
    use expect_test::expect;
    use record::protocol::WorkloadJob;
    use std::time::Duration;

    const GOOD: &str =
        "kind = \"web-static\"\nserver = \"apache\"\nconnections = 60\nwindow = \"10s\"";

    #[test]
    fn options_are_rebuilt_in_the_guest() {
        let text = format!("{GOOD}\nmpm = \"prefork\"\nname = \"pre\"\nkeep_alive = false");
        let plan = read(&text).unwrap();
        assert_eq!((plan.id.as_str(), plan.length.as_secs()), ("pre", 12));
        expect![[r#"{"addresses":0,"connections":60,"deadline_ns":10000000000,"keep_alive":false,"server":{"apache":"prefork"},"threads":null,"warmup_ns":2000000000,"window_ns":10000000000}"#]].assert_eq(&plan.options.to_string());
        let job = WorkloadJob {
            kind: plan.kind,
            options: plan.options,
        };
        let workload = crate::from_options(&job).unwrap();
        assert_eq!(workload.packages(), ["apache2"]);
        assert_eq!(workload.timing().window, Duration::from_secs(10));
    }

    #[test]
    fn server_cpu_can_be_primary() {
        let primary = |text: &str, ns_per_instruction: Option<u32>| -> Result<String, String> {
            let workload = crate::from_plan(&read(text).unwrap()).unwrap();
            let mut load = record::load::LoadResult {
                window_ns: 1_000_000_000,
                planned: 1,
                ok: 1,
                ok_in_window: 1,
                ..record::load::LoadResult::default()
            };
            load.latency.record(1000);
            let driven = crate::Driven {
                load: Some(load),
                ..crate::Driven::default()
            };
            let meter = figures::Meter {
                window: Duration::from_secs(1),
                busy: Duration::from_millis(9),
                services: [("apache2".to_string(), Duration::from_millis(3))].into(),
            };
            let seen = Seen {
                driven: &driven,
                meter: &meter,
                samples: &[],
                ns_per_instruction,
            };
            let figures = workload.figures(&seen)?;
            Ok(format!("{} {}", figures[0].spec.name, figures[0].value))
        };
        assert_eq!(primary(GOOD, Some(2)).unwrap(), "throughput 1");
        let by_cpu = format!("{GOOD}\ndecided_by = \"server-cpu\"");
        assert_eq!(primary(&by_cpu, None).unwrap(), "server-cpu 3000");
        let refused = primary(&by_cpu, Some(2)).unwrap_err();
        assert!(refused.contains("write clock = \"wall\""), "{refused}");
        check_mistakes(
            &format!("{GOOD}\ndecided_by = \"instructions\""),
            &expect![[
                r#"plan.toml:5: unknown decided_by: "instructions" (known: throughput, server-cpu)"#
            ]],
        );
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
                plan.toml:1: missing key in the file: connections (add connections = 60)
                plan.toml:1: missing key in the file: server (add server = "apache" or "nginx")
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
    fn several_mistakes_are_reported_at_once() {
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
        let why = crate::from_options(&job).err().unwrap();
        assert!(format!("{why:#}").contains("options of workload web-static: missing field"));
    }
}
