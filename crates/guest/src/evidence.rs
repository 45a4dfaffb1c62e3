//! Monitoring data of a system on the network: an exporter's metrics or an SNMP agent's, before and after the load.

mod exporter;
mod snmp;

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use load::exchange::Exchange;
use load::expect::Expect;
use load::probe;
use load::server::{PATIENCE, Server};
use load::tls::Trust;
use plan::EvidenceSource;
use workload::Timing;
use workload::context::command;
use workload::figures::RemoteUse;

/// Connections that measure the time to connect; the median counts.
const CONNECTIONS: usize = 9;

/// Data of a system at an instant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reading {
    /// Name and version of the system.
    pub(crate) system: Option<String>,
    boot: Option<Boot>,
    /// Seconds so far that all CPUs together were busy, and idle, if they are up to date.
    cpu: Option<(f64, f64)>,
    /// Number of CPUs in `cpu`.
    cpus: Option<f64>,
    /// Memory in use without reclaimable caches, defined alike for both sources.
    memory_bytes: Option<f64>,
}

/// When a system was started.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Boot {
    /// Unix time in seconds.
    At(f64),
    /// Uptime at an instant in hundredths of a second, modulo 2^32 (497 days).
    Since { ticks: u32, at: Instant },
}

/// Data of a system over a window.
#[derive(Debug)]
pub(crate) struct Watched {
    /// As the window opened.
    before: Reading,
    /// As it closed.
    after: Reading,
    /// Average of busy CPUs, if it does not come from these two readings.
    busy_cpus: Option<f64>,
}

/// Largest difference, in seconds, between a system's uptime and the time elapsed here: clocks are adjusted, and
/// answers take time.
const CLOCK_ERROR_S: f64 = 5.0;

/// Queries the system.
pub(crate) fn read(source: &EvidenceSource) -> Result<Reading> {
    match source {
        EvidenceSource::Exporter(url) => exporter::read(url),
        EvidenceSource::Snmp { address, community } => snmp::read(address, community),
    }
}

/// Queries the system once, before the first trial.
///
/// # Errors
/// Says which source has no data of the system, what was expected of it, and the remedy.
pub fn try_source(source: &EvidenceSource) -> Result<()> {
    let (key, expected) = match source {
        EvidenceSource::Exporter(_) => (
            "exporter",
            "metrics of node_exporter or windows_exporter, with those of the CPUs",
        ),
        EvidenceSource::Snmp { .. } => (
            "snmp",
            "an SNMP agent of version 2c that tells its sysDescr to this community",
        ),
    };
    read(source).map(drop).map_err(|why| {
        anyhow!(
            "{key} that does not tell of the system: {why:#}; expected: {expected} (correct it in the plan, see to it on the \
             system, or take {key} out of the arm: then its CPU and memory are not known)"
        )
    })
}

/// The kind of source, as a fact.
pub(crate) fn name(source: Option<&EvidenceSource>) -> String {
    let word = match source {
        None => "none",
        Some(EvidenceSource::Exporter(_)) => "exporter",
        Some(EvidenceSource::Snmp { .. }) => "snmp",
    };
    word.into()
}

/// Queries the system as the window opens and as it closes; an SNMP agent also in between, because its CPU counters are
/// some seconds old.
pub(crate) fn watch(source: &EvidenceSource, timing: Timing) -> Result<Watched> {
    let begun = Instant::now();
    let Timing { warmup, window } = timing;
    thread::scope(|scope| {
        let snapshots = match source {
            EvidenceSource::Exporter(_) => None,
            EvidenceSource::Snmp { address, community } => {
                Some(scope.spawn(move || snmp::busy_cpus(address, community, begun, timing)))
            }
        };
        wait_until(begun, warmup);
        let before = read(source)?;
        wait_until(begun, warmup + window);
        let after = read(source)?;
        let busy_cpus =
            snapshots.and_then(|thread| thread.join().expect("polling counters does not panic"));
        Ok(Watched {
            before,
            after,
            busy_cpus,
        })
    })
}

fn wait_until(begun: Instant, end: Duration) {
    thread::sleep(end.saturating_sub(begun.elapsed()));
}

/// What the system used in a window. `first` is a reading from before the load. Fails if the system was restarted.
pub(crate) fn used(first: &Reading, watched: &Watched) -> Result<RemoteUse, String> {
    let Watched {
        before,
        after,
        busy_cpus,
    } = watched;
    // A restart before the window counts too.
    if is_restarted(first, after) || is_restarted(before, after) {
        return Err("the system was restarted during the trial".into());
    }
    Ok(RemoteUse {
        busy_cpus: busy_cpus.or_else(|| busy_between(before, after)),
        memory_bytes: after.memory_bytes,
    })
}

fn is_restarted(before: &Reading, after: &Reading) -> bool {
    match (before.boot, after.boot) {
        (Some(Boot::At(before)), Some(Boot::At(after))) => (after - before).abs() > CLOCK_ERROR_S,
        (
            Some(Boot::Since { ticks, at }),
            Some(Boot::Since {
                ticks: later,
                at: then,
            }),
        ) => {
            let up_s = f64::from(later.wrapping_sub(ticks)) / 100.0;
            let gone_s = then.saturating_duration_since(at).as_secs_f64();
            (up_s - gone_s).abs() > CLOCK_ERROR_S + gone_s / 100.0
        }
        (_, _) => false,
    }
}

/// Average of busy CPUs between two readings.
fn busy_between(before: &Reading, after: &Reading) -> Option<f64> {
    let ((busy, idle), (later_busy, later_idle)) = before.cpu.zip(after.cpu)?;
    let (busy, idle) = (later_busy - busy, later_idle - idle);
    let is_valid = busy >= 0.0 && idle >= 0.0 && busy + idle > 0.0;
    // By the share of busy time: a slow exporter makes the sums wrong, but not the share.
    is_valid.then_some(busy / (busy + idle) * after.cpus?)
}

/// Adds facts on the connection to the system: address, time to connect, route. Returns the name of its server.
pub(crate) fn describe(url: &str, values: &mut BTreeMap<String, String>) -> Result<String> {
    // The load has checked the certificate.
    let server = Server::from_url(url, || Ok(Trust::Any))?;
    let mut times: Vec<Duration> = (0..CONNECTIONS)
        .map(|_| {
            let begun = Instant::now();
            TcpStream::connect_timeout(&server.address, PATIENCE)?;
            Ok(begun.elapsed())
        })
        .collect::<std::io::Result<_>>()
        .context("connect to the system")?;
    times.sort_unstable();
    let median = times[CONNECTIONS / 2].as_micros();
    values.insert("remote:address".into(), server.address.to_string());
    values.insert("remote:connect-us".into(), median.to_string());
    let route = command("ip")
        .args(["route", "get"])
        .arg(server.address.ip().to_string())
        .output();
    if let Ok(output) = route {
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().next().unwrap_or_default();
        values.insert("remote:route".into(), line.trim().into());
    }
    let exchange = Exchange::get("/", Expect::status(200));
    let name = probe::request(&server, &exchange).ok();
    Ok(name.and_then(|(_, head)| head.server).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(busy_s: f64, idle_s: f64, boot: Boot) -> Reading {
        Reading {
            system: None,
            boot: Some(boot),
            cpu: Some((busy_s, idle_s)),
            cpus: Some(2.0),
            memory_bytes: Some(5.0),
        }
    }

    #[test]
    fn what_was_used_is_the_difference_of_two_readings() {
        let boot = Boot::At(1000.0);
        let first = reading(9.0, 80.0, boot);
        let used = |busy_s, idle_s, cpus| {
            let watched = Watched {
                before: reading(10.0, 90.0, boot),
                after: Reading {
                    cpus: Some(cpus),
                    ..reading(busy_s, idle_s, boot)
                },
                busy_cpus: None,
            };
            used(&first, &watched).unwrap()
        };
        // Two CPUs, three quarters busy.
        let expected = RemoteUse {
            busy_cpus: Some(1.5),
            memory_bytes: Some(5.0),
        };
        assert_eq!(used(25.0, 95.0, 2.0), expected);
        // A slow exporter counts more time, or less.
        assert_eq!(used(40.0, 100.0, 2.0), expected);
        assert_eq!(used(40.0, 100.0, 4.0).busy_cpus, Some(3.0));
        assert_eq!(used(10.0, 90.0, 2.0).busy_cpus, None);
        assert_eq!(used(1.0, 2.0, 2.0).busy_cpus, None);
    }

    #[test]
    fn a_restart_voids_and_the_wrap_of_a_long_time_up_does_not() {
        let at = Instant::now();
        let is_restarted = |before_s: f64, after_s: f64, gone_s: u64| {
            let up = |s: f64, gone_s| {
                let ticks = (s * 100.0) as u64 as u32;
                let at = at + Duration::from_secs(gone_s);
                reading(0.0, 0.0, Boot::Since { ticks, at })
            };
            super::is_restarted(&up(before_s, 0), &up(after_s, gone_s))
        };
        assert!(!is_restarted(50.0, 60.0, 10));
        assert!(is_restarted(50.0, 3.0, 20));
        // Restarted, although the uptime has grown.
        assert!(is_restarted(2.0, 4.0, 60));
        let days = 86_400.0;
        assert!(!is_restarted(497.102 * days, 497.102 * days + 60.0, 60));
        assert!(!is_restarted(510.0 * days, 510.0 * days + 10.0, 10));
        assert!(is_restarted(510.0 * days, 5.0, 60));
        assert!(is_restarted(400.0 * days, 5.0, 60));
        let used = |first_s, before_s, after_s| {
            let boot = |at_s| reading(10.0, 90.0, Boot::At(at_s));
            let watched = Watched {
                before: boot(before_s),
                after: boot(after_s),
                busy_cpus: None,
            };
            used(&boot(first_s), &watched)
        };
        assert!(used(1000.0, 1000.0, 1001.0).is_ok());
        for (first_s, before_s) in [(1000.0, 1000.0), (1000.0, 1100.0)] {
            let why = used(first_s, before_s, 1100.0).unwrap_err();
            assert!(why.contains("restarted"), "{why}");
        }
    }
}
