//! Output files that a user names; those of a load are an HDR histogram log and a timeline.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use base::input::tree::Tree;
use base::latency::Packed;
use record::load::Second;

use crate::load_cli::outcome::{Outcome, Run};

/// An output file. It is opened before the load, so that an error does not come after an hour. Its
/// old content stays until the result is written.
pub(crate) struct Output {
    path: PathBuf,
    file: File,
    /// Whether the file was created here and is still empty.
    is_empty: bool,
}

impl Output {
    /// Opens the file.
    ///
    /// # Errors
    /// Why the file cannot be written.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let is_empty = !path.exists();
        let file = open(path).map_err(|why| format!("cannot write {}: {why}", path.display()))?;
        Ok(Self {
            path: path.into(),
            file,
            is_empty,
        })
    }

    /// Whether two outputs are the same regular file. A device or a pipe may take both.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        match (self.file.metadata(), other.file.metadata()) {
            (Ok(file), Ok(other)) => {
                file.is_file() && (file.dev(), file.ino()) == (other.dev(), other.ino())
            }
            _ => false,
        }
    }

    /// Replaces the content.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(mut self, text: &str) -> Result<()> {
        self.is_empty = false;
        // A pipe or a terminal cannot be truncated.
        if self.file.metadata().is_ok_and(|file| file.is_file()) {
            self.file.set_len(0).with_context(|| self.error_message())?;
        }
        let written = self.file.write_all(text.as_bytes());
        written.with_context(|| self.error_message())
    }

    fn error_message(&self) -> String {
        format!("cannot write {}", self.path.display())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.is_empty {
            // A load without a result leaves no file.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Opens a device or a pipe as it is. A file is refused for root if another user could replace it by a link.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true);
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return options.open(path);
    }
    Tree::around(path).0.refuse_foreign()?;
    options.create(true).truncate(false).open(path)
}

/// Writes an `HdrHistogram` log, version 1.3 with histograms in V2. Each run has a tagged interval
/// for each kind of time; latencies also have an untagged interval for each second, to two digits.
/// Values are in nanoseconds, and the maximum in milliseconds, as the usual viewers expect.
pub(crate) fn write_hdr(output: Output, outcome: &Outcome, began: SystemTime) -> Result<()> {
    output.write(&hdr(outcome, began))
}

fn hdr(outcome: &Outcome, began: SystemTime) -> String {
    let began_s = began
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs_f64();
    let mut text = format!(
        "#[Histogram log format version 1.3]\n#[StartTime: {began_s:.3} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
    );
    let mut start_s = 0.0;
    for Run { result, .. } in &outcome.runs {
        let length_s = result.window_ns as f64 / 1e9;
        let run_intervals = [
            ("Tag=whole,", &result.latency),
            ("Tag=service,", &result.service),
            ("Tag=lateness,", &result.lateness),
            ("Tag=client-delay,", &result.client_delay),
        ];
        let run_intervals =
            run_intervals.map(|(tag, latency)| (tag, start_s, length_s, latency.pack()));
        let seconds = result.timeline.iter().map(|second| {
            let at_s = second.at_ms as f64 / 1e3;
            let length_s = f64::min(second.length_s(), length_s - at_s);
            ("", start_s + at_s, length_s, second.latency.clone())
        });
        let intervals = run_intervals.into_iter().chain(seconds);
        for (tag, at_s, length_s, latency) in intervals.filter(|(.., latency)| !latency.is_empty())
        {
            let max_ms = latency.unpack().max_ns() as f64 / 1e6;
            let histogram = latency.text();
            _ = writeln!(text, "{tag}{at_s:.3},{length_s:.3},{max_ms:.3},{histogram}");
        }
        start_s += length_s;
    }
    text
}

/// Writes the counts of each second as CSV. The rate is empty for a closed loop. Latencies are empty
/// for a second without successful responses.
pub(crate) fn write_timeline(output: Output, outcome: &Outcome) -> Result<()> {
    output.write(&timeline(outcome))
}

fn timeline(outcome: &Outcome) -> String {
    let mut text = String::from(
        "run,connections,rate_per_s,at_ms,ok,faults,body_bytes,p50_ns,p99_ns,max_ns\n",
    );
    for (number, run) in (1..).zip(&outcome.runs) {
        let connections = run.result.connections_asked;
        let rate = run
            .rate_per_s
            .map(|rate| rate.to_string())
            .unwrap_or_default();
        for second in &run.result.timeline {
            let Second {
                at_ms,
                ok,
                faults,
                body_bytes,
                latency,
                joined: _,
            } = second;
            let latencies = latencies(latency);
            _ = writeln!(
                text,
                "{number},{connections},{rate},{at_ms},{ok},{faults},{body_bytes},{latencies}"
            );
        }
    }
    text
}

fn latencies(latency: &Packed) -> String {
    if latency.is_empty() {
        return ",,".into();
    }
    let latency = latency.unpack();
    let (p50, p99) = (latency.quantile_ns(0.5), latency.quantile_ns(0.99));
    format!("{p50},{p99},{}", latency.max_ns())
}
