//! The Java virtual machine, which is the same for all application servers.

use std::path::Path;

use record::curve::{Curve, Point};
use record::evidence::{Sample, Usage};
use record::metric::{Direction, Figure};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::database::server::as_user;
use crate::figures::secondary;

/// Debian's default Java.
pub(super) const JAVA: &str = "/usr/lib/jvm/default-java/bin/java";

/// Name of the log of collections and safepoints.
pub(super) const LOG: &str = "java.log";

/// How far the Java virtual machine compiles.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub(super) enum Jit {
    /// With all compilers, which run for minutes of load.
    Full,
    /// With the quick compiler only, which soon finishes.
    Quick,
}

/// The garbage collector.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub(super) enum Collector {
    /// Java's choice, by CPUs and memory.
    Auto,
    Serial,
    Parallel,
    G1,
}

impl Collector {
    fn option(self) -> &'static [&'static str] {
        match self {
            Self::Auto => &[],
            Self::Serial => &["-XX:+UseSerialGC"],
            Self::Parallel => &["-XX:+UseParallelGC"],
            Self::G1 => &["-XX:+UseG1GC"],
        }
    }
}

/// Heap, collector and compilers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Java {
    pub(super) heap_bytes: u64,
    pub(super) collector: Collector,
    pub(super) jit: Jit,
}

impl Java {
    /// The beginning of a server's command; `prefix` precedes Java. Its files are in `dir`.
    ///
    /// The whole heap is allocated and touched at the start, so that trials have no page faults of
    /// a growing heap.
    pub(super) fn command(&self, prefix: &[&str], dir: &Path) -> Vec<String> {
        // Methods are compiled after 50 calls, by the calling thread. So the progress of
        // compilation depends only on the number of requests, and not on the scheduling of the
        // compiler. With fewer calls, more of the start is compiled, which emulation makes slow.
        let jit: &[&str] = match self.jit {
            Jit::Full => &[],
            Jit::Quick => &[
                "-XX:TieredStopAtLevel=1",
                "-XX:CompileThresholdScaling=0.25",
                "-XX:-BackgroundCompilation",
            ],
        };
        let mut command = as_user(&[prefix, &[JAVA], jit, self.collector.option()].concat());
        let (heap_kib, dir) = (self.heap_bytes >> 10, dir.display());
        command.extend([
            format!("-Xms{heap_kib}k"),
            format!("-Xmx{heap_kib}k"),
            "-XX:+AlwaysPreTouch".into(),
            // Stack traces must fit in the last lines of a log.
            "-XX:MaxJavaStackTraceDepth=3".into(),
            // Otherwise a full collection comes whenever the classes have grown by a step, also
            // in the window.
            "-XX:MetaspaceSize=256m".into(),
            // No statistics in a mapped file.
            "-XX:-UsePerfData".into(),
            // Session ids must not wait for entropy.
            "-Djava.security.egd=file:/dev/urandom".into(),
            "-Djava.net.preferIPv4Stack=true".into(),
            format!("-Djava.io.tmpdir={dir}"),
            format!("-Xlog:gc,gc+init,safepoint:file={dir}/{LOG}"),
        ]);
        command
    }
}

/// How long Java stopped its threads in the window, by its log: for collections, and in all.
pub(super) fn stops(samples: &[Sample]) -> [Figure; 2] {
    let ms = |name, key| secondary(name, "ms", Direction::Lower, stopped_ms(samples, key));
    [
        ms("collection-time", COLLECTIONS),
        ms("safepoint-time", SAFEPOINTS),
    ]
}

/// Counters of samples, in microseconds.
const COLLECTIONS: &str = "collection_us";
const SAFEPOINTS: &str = "safepoint_us";

fn stopped_ms(samples: &[Sample], key: &str) -> f64 {
    let window = samples.iter().filter(|sample| sample.at_ms > 0);
    let us = window.filter_map(|sample| sample.java.get(key));
    us.fold(0, |sum: u64, us| sum.saturating_add(*us)) as f64 / 1e3
}

/// Largest number of points of a curve, limited by the resolution of a screen.
const POINTS: i64 = 240;

/// Shares of the time over the seconds of the window: that of busy CPUs, and those in which Java
/// stopped its threads.
pub(super) fn curves(samples: &[Sample]) -> Vec<Curve> {
    let first = samples.iter().take_while(|sample| sample.at_ms <= 0);
    let window = &samples[first.count()..];
    let end_s = window.last().map_or(0, |last| last.at_ms / 1000);
    let step_s = (end_s / POINTS).max(1);
    // A sample belongs to the second of its middle, however late it was.
    let step = |sample: &Sample| {
        let middle_ms = sample.at_ms.saturating_sub_unsigned(sample.interval_ms / 2);
        middle_ms.max(0) / 1000 / step_s
    };
    let groups: Vec<&[Sample]> = window
        .chunk_by(|one, next| step(one) == step(next))
        .collect();
    let curve = |name: &str, share: &dyn Fn(&[Sample]) -> f64| Curve {
        name: name.into(),
        unit: "share".into(),
        direction: Direction::Lower,
        axis: "s".into(),
        points: groups
            .iter()
            .map(|group| Point {
                at: (step(&group[0]) * step_s) as f64,
                value: share(group),
            })
            .collect(),
    };
    let stopped = |group: &[Sample], key| {
        let ms: u64 = group.iter().map(|sample| sample.interval_ms).sum();
        stopped_ms(group, key) / ms.max(1) as f64
    };
    vec![
        curve("cpu", &|group| {
            let usage = Usage::over(group);
            usage.cpu_user + usage.cpu_system
        }),
        curve("collections", &|group| stopped(group, COLLECTIONS)),
        curve("safepoints", &|group| stopped(group, SAFEPOINTS)),
    ]
}

#[cfg(test)]
mod tests {
    use record::evidence::Cpu;

    use super::*;

    fn sample(at_ms: i64, busy_ms: u64, collection_us: u64) -> Sample {
        Sample {
            at_ms,
            interval_ms: 1000,
            cpu: Cpu {
                user_ms: busy_ms,
                idle_ms: 1000 - busy_ms,
                ..Cpu::default()
            },
            java: [(COLLECTIONS.to_string(), collection_us)].into(),
            ..Sample::default()
        }
    }

    #[test]
    fn shares_of_the_window_are_drawn_second_by_second() {
        let samples = [
            sample(0, 1000, 900_000),
            sample(1000, 250, 0),
            sample(2003, 750, 20_000),
        ];
        let lines: Vec<_> = curves(&samples)
            .iter()
            .flat_map(|curve| {
                let points = curve.points.iter();
                points.map(|point| format!("{} {} {}", curve.name, point.at, point.value))
            })
            .collect();
        assert_eq!(
            lines,
            [
                "cpu 0 0.25",
                "cpu 1 0.75",
                "collections 0 0",
                "collections 1 0.02",
                "safepoints 0 0",
                "safepoints 1 0"
            ]
        );
        assert!((stops(&samples)[0].value - 20.0).abs() < 1e-9);
    }

    #[test]
    fn a_day_has_a_limited_number_of_points() {
        let samples: Vec<_> = (1..=86_400).map(|s| sample(s * 1000, 500, 1000)).collect();
        let curves = curves(&samples);
        assert_eq!(i64::try_from(curves[0].points.len()), Ok(POINTS));
        let mut points = curves[1].points.iter();
        assert!(points.all(|point| (point.value - 0.001).abs() < 1e-9));
        assert!(
            super::curves(&[])
                .iter()
                .all(|curve| curve.points.is_empty())
        );
    }
}
