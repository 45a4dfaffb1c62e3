//! `limits`: how far a kernel goes where those of 2004 met limits, and what each thing more costs there.
//!
//! 2.4 had PIDs up to 32,767, block devices by 256 numbers of a major one, and file systems up to 2 TiB; 2.6 lifted all of
//! these. Each kind of thing is made one after the other, up to the number that the plan wants or to the first that the
//! kernel refuses; all of them exist at once, and then each is used: a process answers, a file is read, a socket carries a
//! byte each way. What was reached is a figure and no failure; a thing that does not work is one.

mod devices;
mod file_system;
mod files;
mod growth;
mod processes;
mod sockets;
mod threads;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use plan::Traits;
use plan::fields::Fields;
use record::curve::Curve;
use record::metric::{Direction, Figure, Role};
use serde::{Deserialize, Serialize};

use crate::context::WorkloadContext;
use crate::disk;
use crate::figures::{Seen, guard};
use crate::limits::growth::{Grown, Growth};
use crate::options;
use crate::overview::{Key, Overview};
use crate::{Checked, Driven, Kind, Timing, Watcher, Workload};

pub(crate) const KIND: Kind = Kind {
    word: "limits",
    traits: |options| Traits {
        makes_devices: options["file_system_bytes"] != 0,
        ..Traits::default()
    },
    overview: Overview {
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
    check,
    from_options: |options| Ok(Box::new(Options::deserialize(options)?)),
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    /// How many of each are wanted; 0 leaves a kind out.
    processes: u64,
    threads: u64,
    files: u64,
    sockets: u64,
    devices: u64,
    /// Size of the file system; 0 for none.
    file_system_bytes: u64,
    limit_ns: u64,
}

/// The most PIDs that a kernel of 64 bits has (`PID_MAX_LIMIT`).
const MOST_PIDS: u64 = 4 << 20;

/// File systems from here to the largest file of ext4 with blocks of 4 KiB.
const SIZES: std::ops::RangeInclusive<u64> = (1 << 30)..=(16 << 40);

fn check(fields: &Fields<'_>) -> Option<Checked> {
    let count = |key, most| options::count(fields, key, 0..=most, 0);
    let processes = count("processes", MOST_PIDS);
    let threads = count("threads", MOST_PIDS);
    // The agent may open 2^20 files, and needs some itself.
    let files = count("files", 1_000_000);
    let sockets = count("sockets", 1_000_000);
    let devices = count("devices", 100_000);
    let file_system_bytes = options::bytes(fields, "file_system", SIZES, 0);
    let timing = options::limit(fields, Duration::from_secs(1800));
    let options = Options {
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
    Some(Checked::new(&options, options.timing()))
}

/// A kind of thing of which there may be many.
type Reach = fn(&WorkloadContext, &mut Growth<'_>, u64) -> Result<Grown>;

impl Options {
    /// The kinds that are wanted, and how many of each.
    fn wanted(&self) -> Vec<(Reach, u64)> {
        let all: [(Reach, u64); 6] = [
            (processes::reach, self.processes),
            (threads::reach, self.threads),
            (files::reach, self.files),
            (sockets::reach, self.sockets),
            (devices::reach, self.devices),
            (file_system::reach, self.file_system_bytes),
        ];
        let wanted = all.into_iter().filter(|(_, most)| 0 < *most);
        wanted.collect()
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
        Timing {
            warmup: Duration::ZERO,
            window: Duration::from_nanos(self.limit_ns),
        }
    }

    fn drive(
        &self,
        context: &WorkloadContext,
        stop: &AtomicBool,
        watcher: &mut dyn Watcher,
    ) -> Result<Driven> {
        let limit = Duration::from_nanos(self.limit_ns);
        let mut growth = Growth::begin(watcher, limit, stop);
        let mut all = Vec::new();
        for (reach, most) in self.wanted() {
            all.push(reach(context, &mut growth, most)?);
        }
        Ok(Driven {
            figures: figures(&all),
            curves: curves(&all),
            facts: facts(&all),
            ..Driven::default()
        })
    }

    fn figures(&self, seen: &Seen<'_>) -> Result<Vec<Figure>, String> {
        Ok(seen.driven.figures.clone())
    }
}

/// What was reached of what was wanted decides; beside it, how many of each kind and what each of the last of them cost.
fn figures(all: &[Grown]) -> Vec<Figure> {
    let shares = all.iter().map(Grown::share);
    let reached = shares.sum::<f64>() / all.len() as f64;
    let higher = Direction::Higher;
    let mut figures = vec![Figure::new(
        "reached",
        "share",
        higher,
        Role::Primary,
        reached,
    )];
    for one in all {
        let name = one.kind;
        figures.push(guard(name, one.unit, higher, one.reached));
        for (what, unit, value) in &one.costs {
            let name = format!("{name}-{what}");
            figures.push(guard(&name, unit, Direction::Lower, *value));
        }
    }
    figures
}

fn curves(all: &[Grown]) -> Vec<Curve> {
    let grown = all.iter().filter(|one| !one.points.is_empty());
    let curve = |one: &Grown| Curve {
        name: format!("{}-time", one.kind),
        unit: "us".into(),
        direction: Direction::Lower,
        axis: one.kind.into(),
        points: one.points.clone(),
    };
    grown.map(curve).collect()
}

/// Why there were no more, where the kernel refused one; and what else is worth knowing.
fn facts(all: &[Grown]) -> BTreeMap<String, String> {
    let told = all.iter().flat_map(|one| {
        let refused = one.refused.iter().map(|why| ("refused", why.clone()));
        let own = one.facts.iter().map(|(name, value)| (*name, value.clone()));
        let named = |(name, value)| (format!("limits:{}-{name}", one.kind), value);
        refused.chain(own).map(named).collect::<Vec<_>>()
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::Nobody;

    fn options(text: &str) -> Result<Options, String> {
        let plan = crate::testing::read(text)?;
        Ok(Options::deserialize(&plan.options).unwrap())
    }

    fn check_mistake(text: &str, want: &Expect) {
        want.assert_eq(&options(text).unwrap_err());
    }

    #[test]
    fn nothing_wanted_and_too_much_are_refused() {
        check_mistake(
            "kind = \"limits\"",
            &expect![
                "plan.toml:1: no limit to look for (write processes, threads, files, sockets, devices or file_system)"
            ],
        );
        check_mistake(
            "kind = \"limits\"\nfiles = 2000000\nfile_system = \"17TiB\"",
            &expect![[r"
                plan.toml:2: files out of range: 2000000 (write 0 to 1000000)
                plan.toml:3: file_system out of range: 17.0 TiB (write 1.00 GiB to 16.0 TiB)"]],
        );
    }

    /// In this process's own system: few of each kind.
    #[test]
    fn each_is_made_used_and_counted() {
        let options =
            options("kind = \"limits\"\nprocesses = 50\nthreads = 40\nfiles = 60\nsockets = 20");
        let dir = tempfile::tempdir().unwrap();
        let context = WorkloadContext::without_server(dir.path().into(), 1, 7);
        let stop = AtomicBool::new(false);
        let driven = options
            .unwrap()
            .drive(&context, &stop, &mut Nobody)
            .unwrap();
        let counts = driven
            .figures
            .iter()
            .filter(|one| one.spec.direction == Direction::Higher);
        let told: Vec<_> = counts
            .map(|one| format!("{} {}", one.spec.name, one.value))
            .collect();
        assert_eq!(
            told,
            [
                "reached 1",
                "processes 50",
                "threads 40",
                "files 60",
                "sockets 20"
            ]
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
        let told: Vec<_> = figures(&all)
            .iter()
            .map(|one| (one.spec.name.clone(), one.value))
            .collect();
        let named = |name: &str, value| (name.to_string(), value);
        let want = [
            named("reached", 0.625),
            named("processes", 50.0),
            named("processes-time", 4.0),
            named("threads", 10.0),
            named("threads-time", 4.0),
        ];
        assert_eq!(told, want);
        let want = [(
            "limits:processes-refused".to_string(),
            "no room".to_string(),
        )];
        assert_eq!(facts(&all), want.into());
    }
}
