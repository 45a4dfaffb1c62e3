//! Predefined metrics of well-known programs, for the output of their releases in Debian 12 and 13.

use plan::fields::Fields;
use record::metric::Direction;
use record::metric::Direction::{Higher, Lower};

use crate::command::metric::{Metric, Place};
use crate::database::server::POSTGRESQL;

/// The metrics of a program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Adapter {
    /// Name in plans.
    word: &'static str,
    /// Debian package of the program, or alternative names of it.
    pub(crate) package: &'static str,
    /// Option that makes it print the metrics, and the common prefix of its spellings; `None` if
    /// not needed.
    needs: Option<(&'static str, &'static str)>,
    /// Positions of its metrics, the primary one first.
    places: &'static [MetricSpec],
}

/// Name, unit, direction, position and factor. A position with a leading slash is a JSON pointer,
/// others are patterns.
type MetricSpec = (&'static str, &'static str, Direction, &'static str, f64);

const ADAPTERS: [Adapter; 6] = [
    Adapter {
        // With --output-format=json; the first job, reads and writes.
        word: "fio",
        package: "fio",
        needs: Some(("--output-format=json", "--output-format")),
        places: &[
            ("read-rate", "IO/s", Higher, "/jobs/0/read/iops", 1.0),
            ("write-rate", "IO/s", Higher, "/jobs/0/write/iops", 1.0),
            (
                "read-latency-mean",
                "us",
                Lower,
                "/jobs/0/read/clat_ns/mean",
                1e-3,
            ),
            (
                "write-latency-mean",
                "us",
                Lower,
                "/jobs/0/write/clat_ns/mean",
                1e-3,
            ),
        ],
    },
    Adapter {
        word: "hackbench",
        package: "rt-tests",
        needs: None,
        places: &[("total-time", "s", Lower, r"^Time: ([0-9.]+)", 1.0)],
    },
    Adapter {
        word: "pgbench",
        package: POSTGRESQL,
        needs: None,
        places: &[
            (
                "throughput",
                "transactions/s",
                Higher,
                r"^tps = ([0-9.]+)",
                1.0,
            ),
            (
                "latency-mean",
                "us",
                Lower,
                r"^latency average = ([0-9.]+) ms",
                1e3,
            ),
        ],
    },
    Adapter {
        // With --metrics-brief; the first stressor: its operations by wall-clock seconds.
        word: "stress-ng",
        package: "stress-ng",
        needs: Some(("--metrics-brief", "--metrics")),
        places: &[(
            "throughput",
            "operations/s",
            Higher,
            r"metrc: \[\d+\] [a-z][a-z0-9-]* +\d+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +([0-9.]+) +[0-9.]+",
            1.0,
        )],
    },
    Adapter {
        word: "sysbench",
        package: "sysbench",
        needs: None,
        places: &[
            (
                "throughput",
                "events/s",
                Higher,
                r"(?:events per second|Operations performed|transactions): +(?:\d+ +\()?([0-9.]+)",
                1.0,
            ),
            ("latency-mean", "us", Lower, r"avg: +([0-9.]+)", 1e3),
            (
                "latency-p95",
                "us",
                Lower,
                r"95th percentile: +([0-9.]+)",
                1e3,
            ),
        ],
    },
    Adapter {
        word: "wrk",
        package: "wrk",
        needs: None,
        places: &[(
            "throughput",
            "requests/s",
            Higher,
            r"^Requests/sec: +([0-9.]+)",
            1.0,
        )],
    },
];

/// How to get the figures of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adaptation {
    /// Use the adapter with this name.
    Ready(&'static str),
    /// There is an adapter, but it needs an option of the program.
    Lacks {
        /// Debian package of the program, or alternative names of it.
        package: &'static str,
        /// The option.
        option: &'static str,
    },
    /// There is no adapter, so the only figure is the time.
    Unknown,
}

/// How to get the figures of the program with this name and arguments.
pub fn adaptation(program: &str, arguments: &[String]) -> Adaptation {
    let Some(adapter) = ADAPTERS.iter().find(|adapter| adapter.word == program) else {
        return Adaptation::Unknown;
    };
    match adapter.needs {
        Some((option, start)) if !arguments.iter().any(|word| word.starts_with(start)) => {
            let package = adapter.package;
            Adaptation::Lacks { package, option }
        }
        Some(_) | None => Adaptation::Ready(adapter.word),
    }
}

/// The adapter in a plan, if any; `Err` if there is no such adapter.
pub(crate) fn read(fields: &Fields<'_>) -> Result<Option<Adapter>, ()> {
    if !fields.takes("adapter") {
        return Ok(None);
    }
    let words = ADAPTERS.map(|adapter| (adapter.word, adapter));
    fields.choice("adapter", &words).map(Some).ok_or(())
}

impl Adapter {
    /// The metrics, the primary one first.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let metrics = self
            .places
            .iter()
            .map(|(name, unit, better, place, factor)| {
                let place = if place.starts_with('/') {
                    Place::Json((*place).into())
                } else {
                    Place::Pattern((*place).into())
                };
                Metric::new(name, unit, *better, place).scaled(*factor)
            });
        metrics.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that an adapter extracts from output.
    fn numbers(word: &str, output: &str) -> Vec<f64> {
        let adapter = ADAPTERS.iter().find(|adapter| adapter.word == word);
        let metrics = adapter.unwrap().metrics();
        let found = metrics
            .iter()
            .filter_map(|metric| metric.find(output, "").unwrap());
        found.map(|figure| figure.value).collect()
    }

    #[test]
    fn programs_of_debian_13_are_read() {
        let hackbench = "Running in process mode with 2 groups using 40 file descriptors each (== 80 tasks)\n\
            Each sender will pass 20 messages of 100 bytes\nTime: 0.040\n";
        assert_eq!(numbers("hackbench", hackbench), [0.04]);
        let stress = "\
stress-ng: info:  [95] dispatching hogs: 1 switch
stress-ng: metrc: [95] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s
stress-ng: metrc: [95]                           (secs)    (secs)    (secs)   (real time) (usr+sys time)
stress-ng: metrc: [95] switch            20000      0.13      0.06      0.00    149174.04      335840.95
stress-ng: info:  [95] metrics untrustworthy: 0
";
        assert_eq!(numbers("stress-ng", stress), [149_174.04]);
        let sysbench = "\
CPU speed:
    events per second:   293.23

Latency (ms):
         avg:                                    3.39
         95th percentile:                       28.16
Threads fairness:
    events (avg/stddev):           296.0000/0.00
";
        assert_eq!(numbers("sysbench", sysbench), [293.23, 3390.0, 28160.0]);
        let pgbench = "\
pgbench (17.11 (Debian 17.11-0+deb13u1))
number of failed transactions: 0 (0.000%)
latency average = 58.603 ms
initial connection time = 3.833 ms
tps = 17.063870 (without initial connection time)
";
        assert_eq!(numbers("pgbench", pgbench), [17.063_87, 58_603.0]);
        let wrk = "    Req/Sec     6.89k     3.01k   12.54k    80.00%\nRequests/sec:   6935.54\nTransfer/sec:     72.34MB\n";
        assert_eq!(numbers("wrk", wrk), [6935.54]);
    }
}
