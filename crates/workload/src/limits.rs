//! `limits`: how many objects of a kind a kernel supports, and what each costs.
//!
//! 2.4 had PIDs up to 32,767, 256 block devices for each major number, and file systems up to 2
//! TiB; 2.6 raised all these limits. Objects of each kind are made one after the other, up to the
//! number in the plan or until the kernel refuses one. All exist at once. Then each is used: a
//! process answers, a file is read, a socket transfers a byte each way. Fewer objects than wanted
//! are a figure, not a failure. An object that does not work is a failure.

mod devices;
mod file_system;
mod files;
mod growth;
mod processes;
mod sockets;
mod threads;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use plan::Traits;
use plan::fields::Fields;
use record::curve::Curve;
use record::metric::{Direction, Figure, Role};
use serde::{Deserialize, Serialize};

use crate::context::WorkloadContext;
use crate::disk;
use crate::figures::secondary;
use crate::limits::growth::{Grown, Growth};
use crate::options;
use crate::overview::{Key, Overview};
use crate::{Control, Driven, FromPlan, Kind, Timing, Workload};

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "limits",
    |options| Traits {
        makes_devices: options["file_system_bytes"] != 0,
        ..Traits::default()
    },
    Overview {
        summary: "how many processes, threads, files, sockets, devices and TiB a kernel bears",
        primary: "reached",
        machine: &[],
        keys: &[
            Key::new("processes", &["2000"], "alive at once"),
            Key::new("threads", &["2000"], "of one process, alive at once"),
            Key::new("files", &["20000"], "open at once"),
            Key::new(
                "sockets",
                &["4000"],
                "established at once, two to a connection",
            ),
            Key::new("devices", &["20"], "block devices at once"),
            Key::new(
                "file_system",
                &["\"3TiB\""],
                "size, of which little is written",
            ),
        ],
    },
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    /// Wanted number of each kind; 0 for none.
    processes: u64,
    threads: u64,
    files: u64,
    sockets: u64,
    devices: u64,
    /// Size of the file system; 0 for none.
    file_system_bytes: u64,
    limit_ns: u64,
}

/// Most PIDs of a 64-bit kernel (`PID_MAX_LIMIT`).
const MAX_PIDS: u64 = 4 << 20;

/// Sizes of file systems; the maximum is the largest file of ext4 with blocks of 4 KiB.
const SIZES: std::ops::RangeInclusive<u64> = (1 << 30)..=(16 << 40);

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let count = |key, most| options::count(fields, key, 0..=most, 0);
        let processes = count("processes", MAX_PIDS);
        let threads = count("threads", MAX_PIDS);
        // The agent may open 2^20 files, and needs some itself.
        let files = count("files", 1_000_000);
        let sockets = count("sockets", 1_000_000);
        let devices = count("devices", 100_000);
        let file_system_bytes = options::bytes(fields, "file_system", SIZES, 0);
        let timing = options::limit(fields, Duration::from_secs(1800));
        let options = Self {
            processes: processes?,
            threads: threads?,
            files: files?,
            sockets: sockets?,
            devices: devices?,
            file_system_bytes: file_system_bytes?,
            limit_ns: timing?.window.as_nanos() as u64,
        };
        if options.wanted().is_empty() {
            let what = "no limit to look for";
            let remedy = "write processes, threads, files, sockets, devices or file_system";
            fields.wrong("kind", what, remedy);
            return None;
        }
        Some(options)
    }
}

/// Makes and uses objects of a kind.
type Reach = fn(&WorkloadContext, &mut Growth<'_>, u64) -> Result<Grown>;

impl Options {
    /// The wanted kinds, and the wanted number of each.
    fn wanted(&self) -> Vec<(Reach, u64)> {
        let all: [(Reach, u64); 6] = [
            (processes::reach, self.processes),
            (threads::reach, self.threads),
            (files::reach, self.files),
            (sockets::reach, self.sockets),
            (devices::reach, self.devices),
            (file_system::reach, self.file_system_bytes),
        ];
        all.into_iter().filter(|(_, wanted)| *wanted > 0).collect()
    }

    fn has_devices(&self) -> bool {
        0 < self.devices || 0 < self.file_system_bytes
    }
}

impl Workload for Options {
    fn packages(&self) -> Vec<&str> {
        if self.has_devices() {
            disk::PACKAGES.into()
        } else {
            Vec::new()
        }
    }

    fn modules(&self) -> Vec<&str> {
        if self.has_devices() {
            vec!["null_blk"]
        } else {
            Vec::new()
        }
    }

    fn timing(&self) -> Timing {
        Timing::from_ns(0, self.limit_ns)
    }

    fn drive(&self, context: &WorkloadContext, control: &mut Control<'_>) -> Result<Driven> {
        let limit = Duration::from_nanos(self.limit_ns);
        let mut growth = Growth::begin(control.watcher, limit, control.stop);
        let mut all = Vec::new();
        for (reach, wanted) in self.wanted() {
            all.push(reach(context, &mut growth, wanted)?);
        }
        Ok(Driven {
            figures: figures(&all),
            curves: curves(&all),
            facts: facts(&all),
            ..Driven::default()
        })
    }
}

/// The mean share of wanted objects that were reached; and by kind, the number of objects and their
/// cost.
fn figures(all: &[Grown]) -> Vec<Figure> {
    let shares = all.iter().map(Grown::share);
    let reached = shares.sum::<f64>() / all.len() as f64;
    let higher = Direction::Higher;
    let primary = Figure::new("reached", "share", higher, Role::Primary, reached);
    let mut figures = vec![primary];
    for grown in all {
        let name = grown.kind;
        figures.push(secondary(name, grown.unit, higher, grown.reached));
        for (what, unit, value) in &grown.costs {
            let name = format!("{name}-{what}");
            figures.push(secondary(&name, unit, Direction::Lower, *value));
        }
    }
    figures
}

fn curves(all: &[Grown]) -> Vec<Curve> {
    let with_points = all.iter().filter(|grown| !grown.points.is_empty());
    let curve = |grown: &Grown| Curve {
        name: format!("{}-time", grown.kind),
        unit: "us".into(),
        direction: Direction::Lower,
        axis: grown.kind.into(),
        points: grown.points.clone(),
    };
    with_points.map(curve).collect()
}

/// The kernel's reasons for refusals, and further facts.
fn facts(all: &[Grown]) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    for grown in all {
        let refused = grown.refused.iter().map(|why| ("refused", why));
        let others = grown.facts.iter().map(|(name, value)| (*name, value));
        for (name, value) in refused.chain(others) {
            facts.insert(format!("limits:{}-{name}", grown.kind), value.clone());
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{self, check_mistakes};

    #[test]
    fn nothing_wanted_and_too_much_are_refused() {
        check_mistakes(
            "kind = \"limits\"",
            &expect![
                "plan.toml:1: no limit to look for (write processes, threads, files, sockets, devices or file_system)"
            ],
        );
        check_mistakes(
            "kind = \"limits\"\nfiles = 2000000\nfile_system = \"17TiB\"",
            &expect![[r"
                plan.toml:2: files out of range: 2000000 (write 0 to 1000000)
                plan.toml:3: file_system out of range: 17.0 TiB (write 1.00 GiB to 16.0 TiB)"]],
        );
    }

    /// A few objects of each kind on this system.
    #[test]
    fn objects_of_each_kind_are_made_used_and_counted() {
        let text = "kind = \"limits\"\nprocesses = 50\nthreads = 40\nfiles = 60\nsockets = 20";
        let options: Options = testing::options(text).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let context = WorkloadContext::without_server(dir.path().into(), 1, 7);
        let driven = testing::drive(&options, &context).unwrap();
        let is_count = |figure: &&Figure| figure.spec.direction == Direction::Higher;
        let counts = driven.figures.iter().filter(is_count);
        let counts = counts.map(|figure| format!("{} {}", figure.spec.name, figure.value));
        assert_eq!(
            counts.collect::<Vec<_>>().join(", "),
            "reached 1, processes 50, threads 40, files 60, sockets 20"
        );
        assert_eq!(driven.curves.len(), 4);
    }

    #[test]
    fn a_refusal_is_a_figure_with_its_reason() {
        let grown = |kind, reached, wanted| Grown {
            kind,
            unit: "processes",
            reached,
            wanted,
            refused: (reached < wanted).then(|| "no room".into()),
            points: Vec::new(),
            costs: vec![("time", "us", 4.0)],
            facts: Vec::new(),
        };
        let all = [
            grown("processes", 50.0, 200.0),
            grown("threads", 10.0, 10.0),
        ];
        let figures = figures(&all);
        let values: Vec<_> = figures
            .iter()
            .map(|figure| (figure.spec.name.as_str(), figure.value))
            .collect();
        let expected = [
            ("reached", 0.625),
            ("processes", 50.0),
            ("processes-time", 4.0),
            ("threads", 10.0),
            ("threads-time", 4.0),
        ];
        assert_eq!(values, expected);
        let expected = [("limits:processes-refused".into(), "no room".into())];
        assert_eq!(facts(&all), expected.into());
    }
}
