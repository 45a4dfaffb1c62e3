//! An arm's changes to the configuration of servers.
//!
//! ```text
//! bakeoff's configuration, or the arm's `config_file`  --+
//!                                                        +-- merged by directive --> the server's file
//! the arm's `config`                                   --+
//! ```
//! `merge` has the rules, `grammar` the properties of each server. The check of a plan refuses
//! directives that only bakeoff may set: address, documents, directories.

mod grammar;
mod merge;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;
use base::input::problem::remedy_among;
use plan::{ConfigChange, Tuning, WorkloadPlan};

use self::grammar::{Grammar, SERVERS};

/// An arm's changes to the configuration of its servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArmConfig {
    /// Changes for a workload's first server.
    first: ConfigChange,
    /// Changes for named servers.
    named: BTreeMap<String, ConfigChange>,
    /// The arm's limit of open files; if set, servers must not raise their limits.
    pub(crate) nofile: Option<u32>,
}

impl ArmConfig {
    /// The changes of an arm.
    pub fn from_tuning(tuning: &Tuning) -> Self {
        Self {
            first: ConfigChange {
                directives: tuning.config.clone(),
                file: tuning.config_file.clone(),
            },
            named: tuning.server_config.clone(),
            nofile: tuning.nofile,
        }
    }

    /// Only the changes for named servers.
    pub(crate) fn named_only(&self) -> Self {
        Self {
            first: ConfigChange::default(),
            named: self.named.clone(),
            nofile: self.nofile,
        }
    }

    fn change(&self, service: &str) -> ConfigChange {
        let named = self.named.get(service).cloned().unwrap_or_default();
        ConfigChange {
            directives: [self.first.directives.as_str(), &named.directives].join("\n"),
            file: named.file.or_else(|| self.first.file.clone()),
        }
    }
}

fn grammar(service: &str) -> &'static Grammar {
    let mut servers = SERVERS.iter();
    servers
        .find(|server| server.service == service)
        .expect("every server that writes a configuration is in SERVERS")
}

/// Checks an arm's change to a server as far as possible without running it.
fn check(service: &str, change: &ConfigChange) -> Result<(), String> {
    let grammar = grammar(service);
    let needed = grammar.needed;
    if let Some(file) = &change.file
        && let Some(name) = needed.iter().find(|name| !file.text.contains(**name))
    {
        return Err(format!(
            "config_file of {service} without {name}: {} (bakeoff puts its own in the place of {})",
            file.path,
            needed.join(" ")
        ));
    }
    let value = |name: &&'static str| {
        let value = format!("/context/{}", name.trim_matches(['{', '}']));
        (*name, value)
    };
    let target = Target {
        service: grammar.service,
        address: SocketAddr::from(([10, 77, 0, 1], 80)),
        dir: Path::new("/stage"),
        places: needed.iter().map(value).collect(),
    };
    target.render(change, grammar.sample).map(|_| ())
}

/// Checks an arm's changes to the servers of its plan's workloads.
pub fn check_tuning(tuning: &Tuning, workloads: &[WorkloadPlan]) -> Result<(), String> {
    let served = |workload| crate::with_server(workload, tuning.server.as_deref());
    let workloads: Vec<_> = workloads.iter().map(served).collect::<Result<_, _>>()?;
    if !tuning.has_config() {
        return Ok(());
    }
    let mut first: BTreeSet<&str> = BTreeSet::new();
    let mut all: BTreeSet<&str> = BTreeSet::new();
    for workload in &workloads {
        let servers = crate::servers(workload);
        first.extend(servers.first().copied());
        all.extend(servers);
    }
    let all: Vec<&str> = all.into_iter().collect();
    if all.is_empty() {
        return Err("config without a workload whose server has one (remove it)".into());
    }
    let config = ArmConfig::from_tuning(tuning);
    let is_unknown = |service: &&String| !all.contains(&service.as_str());
    if let Some(service) = config.named.keys().find(is_unknown) {
        let remedy = remedy_among(service, &all);
        return Err(format!(
            "config of a server that no workload has: {service:?} ({remedy})"
        ));
    }
    if config.first != ConfigChange::default() && first.len() > 1 {
        let first: Vec<_> = first.into_iter().collect();
        return Err(format!(
            "config for several servers: {} (name the server: config = {{ {} = \"...\" }})",
            first.join(", "),
            first[0]
        ));
    }
    for service in all {
        let change = if first.contains(service) {
            config.change(service)
        } else {
            config.named_only().change(service)
        };
        check(service, &change)?;
    }
    Ok(())
}

/// A server to configure.
pub(crate) struct Target<'t> {
    pub(crate) service: &'static str,
    pub(crate) address: SocketAddr,
    /// Directory of the server.
    pub(crate) dir: &'t Path,
    /// Values of further placeholders, such as `{root}`.
    pub(crate) places: Vec<(&'static str, String)>,
}

impl Target<'_> {
    /// The arm's file or bakeoff's text, with the arm's directives. Placeholders are filled in.
    fn render(&self, change: &ConfigChange, default: &str) -> Result<String, String> {
        let mut names = vec![
            ("{address}", self.address.to_string()),
            ("{ip}", self.address.ip().to_string()),
            ("{port}", self.address.port().to_string()),
            ("{dir}", self.dir.display().to_string()),
        ];
        names.extend(self.places.iter().cloned());
        let fill = |text: &str| {
            names.iter().fold(text.to_string(), |text, (name, value)| {
                text.replace(name, value)
            })
        };
        let base = fill(change.file.as_ref().map_or(default, |file| &file.text));
        let directives = fill(&change.directives);
        if directives.trim().is_empty() {
            return Ok(base);
        }
        let merged = grammar(self.service).merge(&base, &directives, &self.address.to_string());
        merged.map_err(|why| format!("config of {}: {why}", self.service))
    }
}

/// The configuration of a server: bakeoff's text with the arm's changes.
pub(crate) fn render(arm: &ArmConfig, target: &Target<'_>, default: &str) -> Result<String> {
    let text = target.render(&arm.change(target.service), default);
    text.map_err(anyhow::Error::msg)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use plan::Checks;

    use super::*;

    /// Checks a plan with this arm and these workloads.
    fn check(arm: &str, workloads: &[&str], expected: &Expect) {
        let tables = workloads.iter().enumerate().map(|(number, workload)| {
            format!("[[workload]]\nname = \"w{number}\"\nwindow = \"1s\"\n{workload}\n")
        });
        let text = format!(
            "title = \"t\"\nbaseline = \"one\"\n[machine]\nkind = \"local\"\n[arm.one]\n[arm.two]\n{arm}\n{}",
            tables.collect::<String>()
        );
        let checks = Checks {
            file: &|path| match path {
                path if path.ends_with("good.conf") => Ok("listen {address}; root {root};".into()),
                _ => Ok("x".repeat(300 << 10)),
            },
            tuning: &check_tuning,
            ..Checks::of_the_past(&crate::check)
        };
        let result = match plan::read("plan.toml", &text, Path::new(""), checks) {
            Ok(plan) => format!("{:?}", plan.arms[1].tuning.config),
            Err(problems) => problems.to_string(),
        };
        expected.assert_eq(&result);
    }

    const NGINX: &str = "kind = \"web-static\"\nserver = \"nginx\"\nconnections = 1";
    const TRADE: &str = "kind = \"app-trade\"\nclients = 1";

    #[test]
    fn config_may_be_a_list_or_by_server() {
        let list = "config = [\"gzip on;\", \"sendfile off;\"]";
        check(list, &[NGINX], &expect![[r#""gzip on;\nsendfile off;""#]]);
        let table = "config = { nginx = [\"gzip on;\"], tomcat = \"<Connector maxThreads='9'/>\" }";
        check(table, &[NGINX, TRADE], &expect![[r#""""#]]);
        check("config_file = \"good.conf\"", &[NGINX], &expect![[r#""""#]]);
    }

    #[test]
    fn invalid_config_is_refused_with_its_line() {
        let several = "config = \"gzip on;\"";
        check(
            several,
            &[NGINX, TRADE],
            &expect![[
                r#"plan.toml:7: config for several servers: mariadbd, nginx (name the server: config = { mariadbd = "..." })"#
            ]],
        );
        let tasks = "kind = \"interactive\"\ntasks = [1]";
        check(
            several,
            &[tasks],
            &expect!["plan.toml:7: config without a workload whose server has one (remove it)"],
        );
        let unknown = "config = { ngnix = \"gzip on;\" }";
        check(
            unknown,
            &[NGINX],
            &expect![[
                r#"plan.toml:7: config of a server that no workload has: "ngnix" (did you mean "nginx"?)"#
            ]],
        );
        check(
            "config = \"root /srv;\"",
            &[NGINX],
            &expect!["plan.toml:7: config of nginx: root /srv: only bakeoff sets this (remove it)"],
        );
        check(
            "config = 7",
            &[NGINX],
            &expect![[
                r#"plan.toml:7: wrong type for config in [arm."two"]: integer (write a text, or a list of texts)"#
            ]],
        );
        let lacking = "config_file = { tomcat = \"good.conf\" }";
        check(
            lacking,
            &[TRADE],
            &expect![
                "plan.toml:7: config_file of tomcat without {ip}: good.conf (bakeoff puts its own in the place of {ip} {port} {application} {database})"
            ],
        );
        check(
            "config_file = \"long.conf\"",
            &[NGINX],
            &expect!["plan.toml:7: configuration file of 300 KiB: long.conf (at most 256 KiB)"],
        );
    }

    #[test]
    fn an_arm_may_name_the_application_server() {
        let wildfly = "server = \"wildfly\"\nconfig = { wildfly = \"<jdbc/>\" }";
        check(
            wildfly,
            &[TRADE],
            &expect![
                "plan.toml:8: config of wildfly: <jdbc: no place for it (write it inside the block that it belongs to)"
            ],
        );
        check(
            "server = \"jboss\"",
            &[TRADE],
            &expect![[
                r#"plan.toml:7: unknown server of an arm: "jboss" (write one of tomcat, wildfly, open-liberty with a workload of kind "app-trade")"#
            ]],
        );
        check(
            "server = \"wildfly\"",
            &[NGINX],
            &expect![[
                r#"plan.toml:7: server of an arm for workload w0 (write one of tomcat, wildfly, open-liberty with a workload of kind "app-trade")"#
            ]],
        );
    }

    #[test]
    fn a_config_file_is_filled_in_and_merged_with_directives() {
        let file = plan::ConfigFile {
            path: "mine.conf".into(),
            text: "http { sendfile on; server { listen {address}; root {root}; } }".into(),
        };
        let tuning = Tuning {
            config: "sendfile off;".into(),
            config_file: Some(file),
            ..Tuning::default()
        };
        let config = ArmConfig::from_tuning(&tuning);
        let target = Target {
            service: "nginx",
            address: ([10, 77, 0, 1], 80).into(),
            dir: Path::new("/context/nginx"),
            places: vec![("{root}", "/context/site".into())],
        };
        let text = render(&config, &target, "bakeoff's own").unwrap();
        expect![[r"
            http {
                sendfile off;
                server {
                    listen 10.77.0.1:80;
                    root /context/site;
                }
            }
        "]]
        .assert_eq(&text);
        let other = render(&config.named_only(), &target, "own").unwrap();
        assert_eq!(other, "own", "it is meant for the first server alone");
    }
}
