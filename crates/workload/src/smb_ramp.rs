//! `smb-ramp`: a rising number of clients. The curve shows the knee, and what remains beyond it.
//!
//! After `NetBench` 5.01 in Mindcraft's report of April 1999: 1 to 144 clients. NT 4.0 climbed to
//! 286.7 Mbit/s, Linux 2.2.2 with Samba to 114.6; up to 30 clients Linux was 20 to 25 % ahead.

use anyhow::Result;
use plan::Traits;
use plan::fields::Fields;
use record::curve::{Curve, Point};
use record::metric::{Direction, Figure};
use serde::{Deserialize, Serialize};

use crate::context::WorkloadContext;
use crate::figures::{self, Seen, secondary};
use crate::options;
use crate::overview::{Key, Overview};
use crate::service::Service;
use crate::smb::{CLIENTS, PACKAGES, Smb};
use crate::{Control, Driven, FromPlan, Kind, Timing, Workload};

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "smb-ramp",
    |_| Traits::default(),
    Overview {
        summary: "the same with more and more clients: where is the knee?",
        primary: "peak",
        machine: &[Key::new("memory", &["\"2GiB\""], "files of 144 clients")],
        keys: &[
            Key::new("clients", &["[1, 12, 48, 144]"], "one step after the other"),
            Key::new(
                "applications",
                &["[\"EXCEL\"]"],
                "left out, the whole trace: for windows of minutes",
            ),
            Key::new("warmup", &["\"2s\""], "of each step"),
            Key::new("window", &["\"4s\""], "load that is counted, of each step"),
        ],
    },
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    #[serde(flatten)]
    smb: Smb,
    /// Clients of each step, rising.
    clients: Vec<u32>,
}

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let example = "[1, 12, 30, 60, 96, 144]";
        let steps = options::steps(fields, "clients", 1..=CLIENTS, example);
        let smb = Smb::read(fields);
        Some(Self {
            clients: steps?.into_iter().map(|step| step as u32).collect(),
            smb: smb?,
        })
    }
}

impl Workload for Options {
    fn packages(&self) -> Vec<&str> {
        PACKAGES.into()
    }

    fn configurable(&self) -> Vec<&'static str> {
        vec![crate::smb::samba::SERVICE]
    }

    fn timing(&self) -> Timing {
        self.smb.timing(&self.clients)
    }

    fn prepare(&self, context: &WorkloadContext) -> Result<Vec<Service>> {
        Ok(vec![self.smb.service(context)?])
    }

    fn drive(&self, context: &WorkloadContext, control: &mut Control<'_>) -> Result<Driven> {
        let reports = self.smb.drive(&self.clients, context, control)?;
        let points = self
            .clients
            .iter()
            .zip(&reports)
            .map(|(clients, report)| Point {
                at: f64::from(*clients),
                value: report.megabytes_per_s * 8.0,
            });
        let unexpected: u64 = reports.iter().map(|report| report.unexpected).sum();
        let errors = secondary("errors", "operations", Direction::Lower, unexpected as f64);
        Ok(Driven {
            figures: vec![errors],
            curves: vec![Curve {
                name: "throughput".into(),
                unit: "Mbit/s".into(),
                direction: Direction::Higher,
                axis: "clients".into(),
                points: points.collect(),
            }],
            ..Driven::default()
        })
    }

    fn figures(&self, seen: &Seen<'_>) -> Result<Vec<Figure>, String> {
        let mut figures = figures::ramp(&seen.driven.curves[0])?;
        figures.extend(seen.driven.figures.iter().cloned());
        Ok(figures)
    }
}
