//! `smb`: a Samba server under the load of office applications, after `NetBench`.
//!
//! The figure is `InfoWorld`'s of 30 January 2004: Samba 3.0.1 under smbtorture with 12 clients,
//! Linux 2.6.0 against 2.4.23. `Smb` is shared with `smb-ramp`:
//! ```text
//! plan --Smb::read--> Smb --service--> smbd                (prepare)
//!                         --drive----> smbtorture          (drive)
//!                     deposit: a file is put on the share before the load, and must be unchanged after it
//! ```

mod deposit;
mod load_file;
mod profile;
pub(crate) mod samba;
mod torture;

use std::time::Duration;

use anyhow::Result;
use base::input::units::show_duration;
use plan::Traits;
use plan::fields::Fields;
use record::metric::{Direction, Figure, Role};
use serde::{Deserialize, Serialize};

use crate::context::WorkloadContext;
use crate::figures::{Seen, secondary};
use crate::options;
use crate::overview::{Key, Overview};
use crate::service::Service;
use crate::smb::samba::SERVICE;
use crate::smb::torture::{Report, Run};
use crate::ticker::Ticker;
use crate::{Control, Driven, FromPlan, Kind, Timing, Workload};

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "smb",
    |_| Traits::default(),
    Overview {
        summary: "Samba under office applications of the NetBench kind, as smbtorture plays them",
        primary: "throughput",
        machine: &[],
        keys: &[
            Key::new(
                "clients",
                &["12"],
                "each is a process, and has one of smbd's",
            ),
            Key::new(
                "applications",
                &["[\"EXCEL\"]"],
                "left out, the whole trace: for windows of minutes",
            ),
            Key::new("warmup", &["\"3s\""], "load that is not counted"),
            Key::new("window", &["\"8s\""], "load that is counted"),
        ],
    },
);

/// Largest number of clients; each needs a process, and one of smbd.
pub(crate) const CLIENTS: u64 = 1000;

/// Options of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    #[serde(flatten)]
    smb: Smb,
    clients: u32,
}

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let clients = options::required_count(fields, "clients", 1..=CLIENTS, "12");
        let smb = Smb::read(fields);
        Some(Self {
            clients: clients? as u32,
            smb: smb?,
        })
    }
}

impl Workload for Options {
    fn packages(&self) -> Vec<&str> {
        PACKAGES.into()
    }

    fn configurable(&self) -> Vec<&'static str> {
        vec![samba::SERVICE]
    }

    fn timing(&self) -> Timing {
        self.smb.timing(&[self.clients])
    }

    fn prepare(&self, context: &WorkloadContext) -> Result<Vec<Service>> {
        Ok(vec![self.smb.service(context)?])
    }

    fn drive(&self, context: &WorkloadContext, control: &mut Control<'_>) -> Result<Driven> {
        let report = self.smb.drive(&[self.clients], context, control)?[0];
        let mut figures = vec![
            Figure::new(
                "throughput",
                "MB/s",
                Direction::Higher,
                Role::Primary,
                report.megabytes_per_s,
            ),
            lower("latency-mean", "us", report.operation_us()),
        ];
        figures.extend(profile::read(context, control.stop)?);
        figures.push(lower("errors", "operations", report.unexpected as f64));
        Ok(Driven {
            figures,
            ..Driven::default()
        })
    }

    fn figures(&self, seen: &Seen<'_>) -> Result<Vec<Figure>, String> {
        let mut figures = seen.driven.figures.clone();
        if let Some(cpu) = seen.cpu(SERVICE) {
            let megabytes = figures[0].value * seen.meter.window.as_secs_f64();
            let per_megabyte = cpu.as_secs_f64() * 1e3 / megabytes;
            figures.push(lower("server-cpu", "ms/MB", per_megabyte));
        }
        Ok(figures)
    }
}

fn lower(name: &str, unit: &str, value: f64) -> Figure {
    secondary(name, unit, Direction::Lower, value)
}

/// Debian packages of server, clients and load file.
pub(crate) const PACKAGES: [&str; 4] = ["samba", "samba-testsuite", "smbclient", "dbench"];

/// Options of both workloads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Smb {
    /// Applications whose part of the load file is used; empty for all.
    applications: Vec<String>,
    warmup_s: u64,
    window_s: u64,
    /// Time limit of the clients of a step, including set-up and clean-up.
    limit_s: u64,
}

impl Smb {
    /// Reads the keys of both workloads.
    pub(crate) fn read(fields: &Fields<'_>) -> Option<Self> {
        let applications = read_applications(fields);
        let timing = options::timing(fields);
        let limit = options::time(fields, "limit", Duration::from_secs(600));
        let Timing { warmup, window } = timing?;
        let warmup_s = whole_seconds(fields, "warmup", warmup);
        let window_s = whole_seconds(fields, "window", window);
        let limit_s = whole_seconds(fields, "limit", limit?);
        let (warmup_s, window_s, limit_s) = (warmup_s?, window_s?, limit_s?);
        if limit_s <= warmup_s + window_s {
            let what = format!("limit not above warmup and window: {limit_s}s");
            let remedy = "clients also connect and clear away: write limit = \"10m\"";
            fields.wrong("limit", what, remedy);
            return None;
        }
        Some(Self {
            applications: applications?,
            warmup_s,
            window_s,
            limit_s,
        })
    }

    /// Timing of successive steps with these numbers of clients.
    pub(crate) fn timing(&self, steps: &[u32]) -> Timing {
        let timings = steps.iter().map(|clients| self.run(*clients).timing());
        let all: Duration = timings.map(|step| step.warmup + step.window).sum();
        let warmup = self.run(steps[0]).timing().warmup;
        Timing {
            warmup,
            window: all.saturating_sub(warmup),
        }
    }

    /// Writes the share, the load file and the server's configuration.
    pub(crate) fn service(&self, context: &WorkloadContext) -> Result<Service> {
        let service = samba::service(context)?;
        load_file::write(context, &self.applications)?;
        Ok(service)
    }

    /// Runs steps with these numbers of clients, after putting the deposit on the share, and then
    /// checks it.
    pub(crate) fn drive(
        &self,
        steps: &[u32],
        context: &WorkloadContext,
        control: &mut Control<'_>,
    ) -> Result<Vec<Report>> {
        deposit::put(context, control.stop)?;
        let mut ticker = Ticker::begin(control.watcher, self.timing(steps).warmup);
        let mut reports = Vec::new();
        for clients in steps {
            let run = self.run(*clients);
            reports.push(run.perform(context, control.stop, &mut || ticker.tick(0))?);
        }
        deposit::check(context, control.stop)?;
        Ok(reports)
    }

    fn run(&self, clients: u32) -> Run {
        Run {
            clients,
            warmup_s: self.warmup_s,
            window_s: self.window_s,
            limit: Duration::from_secs(self.limit_s),
        }
    }
}

fn read_applications(fields: &Fields<'_>) -> Option<Vec<String>> {
    if !fields.takes("applications") {
        return Some(Vec::new());
    }
    let words = fields.texts("applications")?;
    let unknown = words
        .iter()
        .find(|word| !load_file::APPLICATIONS.contains(word));
    if let Some(word) = unknown {
        let known = load_file::APPLICATIONS.join(", ");
        let what = format!("no such application in the load file: {word:?}");
        fields.wrong("applications", what, format!("known: {known}"));
        return None;
    }
    Some(words.into_iter().map(String::from).collect())
}

/// smbtorture takes whole seconds only.
fn whole_seconds(fields: &Fields<'_>, key: &str, time: Duration) -> Option<u64> {
    if time.subsec_nanos() == 0 {
        return Some(time.as_secs());
    }
    let what = format!("{key} of other than whole seconds: {}", show_duration(time));
    let remedy = format!(
        "smbtorture counts in seconds: write {key} = \"{}s\"",
        time.as_secs() + 1
    );
    fields.wrong(key, what, remedy);
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_mistakes, read};
    use expect_test::expect;

    #[test]
    fn options_are_rebuilt_in_the_guest() {
        let text = "kind = \"smb\"\nclients = 12\nwindow = \"40s\"\napplications = [\"EXCEL\"]";
        let plan = read(text).unwrap();
        // 40 s, 2 s of the plan's warm-up, and 2 s of smbtorture's own warm-up.
        assert_eq!(plan.length.as_secs(), 44);
        expect![[
            r#"{"applications":["EXCEL"],"clients":12,"limit_s":600,"warmup_s":2,"window_s":40}"#
        ]]
        .assert_eq(&plan.options.to_string());
        let job = record::protocol::WorkloadJob {
            kind: plan.kind,
            options: plan.options,
        };
        assert_eq!(crate::from_options(&job).unwrap().packages(), PACKAGES);
    }

    #[test]
    fn all_mistakes_are_reported() {
        check_mistakes(
            "kind = \"smb\"\nclients = 0\nwindow = \"1500ms\"\napplications = [\"EXCELL\"]\nspeed = 1",
            &expect![[r#"
                plan.toml:2: clients out of range: 0 (write 1 to 1000)
                plan.toml:3: window of other than whole seconds: 1s 500ms (smbtorture counts in seconds: write window = "2s")
                plan.toml:4: no such application in the load file: "EXCELL" (known: WORD, EXCEL, PWRPNT, COREL, WORDPRO, PM, PARADOX, ACCESS, SEED)
                plan.toml:5: unknown key in the file: speed (known: applications, clients, kind, limit, name, warmup, window)"#]],
        );
        check_mistakes(
            "kind = \"smb\"\nclients = 1001\nwindow = \"10s\"\nlimit = \"12s\"",
            &expect![[r#"
                plan.toml:2: clients out of range: 1001 (write 1 to 1000)
                plan.toml:4: limit not above warmup and window: 12s (clients also connect and clear away: write limit = "10m")"#]],
        );
    }
}
