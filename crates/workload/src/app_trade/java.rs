//! The Java virtual machine, which is the same for all application servers.

use std::path::Path;

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::database::server::as_user;

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
