//! The log of a Java virtual machine, read as it grows: how often and for how long it stops threads.
//!
//! ```text
//! [0.008s][info][gc] Using Serial
//! [0.013s][info][gc,init] Heap Max Capacity: 128M
//! [7.812s][info][gc] GC(12) Pause Young (Allocation Failure) 17M->3M(61M) 4.123ms
//! [7.813s][info][safepoint] Safepoint "GenCollectForAllocation", ..., Total: 4180000 ns
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Most bytes read at once; a log grows by far less in a second.
const MOST_BYTES: u64 = 256 << 10;

/// Bytes of the log in which Java describes itself.
const START_BYTES: u64 = 16 << 10;

/// A log that is open at the place to which it was read.
#[derive(Debug)]
pub(crate) struct JavaLog {
    file: File,
    partial: String,
    counts: BTreeMap<String, u64>,
}

impl JavaLog {
    /// `None` if the file cannot be opened.
    pub(crate) fn open(path: &Path) -> Option<Self> {
        Some(Self {
            file: File::open(path).ok()?,
            partial: String::new(),
            counts: BTreeMap::new(),
        })
    }

    /// Reads what was added, and returns the counts since the start of Java.
    pub(crate) fn read(&mut self) -> &BTreeMap<String, u64> {
        let mut added = Vec::new();
        // An unreadable log counts nothing.
        let _ = (&self.file).take(MOST_BYTES).read_to_end(&mut added);
        self.feed(&String::from_utf8_lossy(&added));
        &self.counts
    }

    fn feed(&mut self, added: &str) {
        self.partial += added;
        let end = self.partial.rfind('\n').map_or(0, |end| end + 1);
        let lines: String = self.partial.drain(..end).collect();
        for (name, us) in lines.lines().filter_map(stop) {
            *self.counts.entry(format!("{name}s")).or_default() += 1;
            *self.counts.entry(format!("{name}_us")).or_default() += us;
        }
    }
}

/// Java's version, collector and largest heap, as it logs them at its start.
pub(crate) fn facts(path: &Path) -> Vec<(&'static str, String)> {
    let Ok(file) = File::open(path) else {
        return Vec::new();
    };
    let mut start = Vec::new();
    // What was read before an error counts.
    let _ = file.take(START_BYTES).read_to_end(&mut start);
    let start = String::from_utf8_lossy(&start);
    let value = |before: &str| {
        let mut found = start.lines().filter_map(|line| line.split_once(before));
        found.next().map(|(_, value)| value.trim().to_string())
    };
    let facts = [
        ("version", value("[gc,init] Version: ")),
        ("collector", value(" Using ")),
        ("heap", value("[gc,init] Heap Max Capacity: ")),
    ];
    let known = |(name, value): (_, Option<String>)| Some((name, value?));
    facts.into_iter().filter_map(known).collect()
}

/// The kind of stop that a line reports, and its time in microseconds.
fn stop(line: &str) -> Option<(&'static str, u64)> {
    if line.contains(" Safepoint \"") {
        let (_, total) = line.rsplit_once("Total: ")?;
        let ns: u64 = total.trim_start().strip_suffix(" ns")?.parse().ok()?;
        return Some(("safepoint", ns / 1000));
    }
    let (_, pause) = line.split_once(" Pause ")?;
    let ms: f64 = pause.rsplit(' ').next()?.strip_suffix("ms")?.parse().ok()?;
    Some(("collection", (ms * 1000.0) as u64))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn java_describes_itself_at_the_start() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        assert!(facts(file.path()).is_empty());
        file.write_all(
            b"[0.005s][info][gc] Using Serial\n\
              [0.013s][info][gc,init] Version: 17.0.15+6-Debian-1deb12u1 (release)\n\
              [0.013s][info][gc,init] Heap Initial Capacity: 64M\n\
              [0.013s][info][gc,init] Heap Max Capacity: 128M\n\
              [1.012s][info][gc       ] GC(0) Pause Young (Allocation Failure) 17M->3M(61M) 4.123ms\n",
        )
        .unwrap();
        let lines: Vec<_> = facts(file.path())
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        assert_eq!(
            lines,
            [
                "version 17.0.15+6-Debian-1deb12u1 (release)",
                "collector Serial",
                "heap 128M"
            ]
        );
    }

    #[test]
    fn collections_and_safepoints_are_counted_as_the_log_grows() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut log = JavaLog::open(file.path()).unwrap();
        assert!(log.read().is_empty());
        let young = "[1.012s][info][gc       ] GC(0) Pause Young (Allocation Failure) 17M->3M(61M) 4.123ms\n";
        let (begin, end) = young.split_at(40);
        write!(file, "[0.012s][info][gc] Using Serial\n{begin}").unwrap();
        assert!(log.read().is_empty(), "the line has no end yet");
        write!(
            file,
            "{end}[1.013s][info][safepoint] Safepoint \"GenCollectForAllocation\", Time since last: 90 ns, \
             Reaching safepoint:      900 ns, At safepoint: 4179100 ns, Total:  4180000 ns\n\
             [1.1s][info][gc] GC(1) Concurrent Mark 7.1ms\n"
        )
        .unwrap();
        let counts: Vec<_> = log
            .read()
            .iter()
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        assert_eq!(
            counts,
            [
                "collection_us 4123",
                "collections 1",
                "safepoint_us 4180",
                "safepoints 1"
            ]
        );
    }
}
