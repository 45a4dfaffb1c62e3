//! What a system on the network tells of itself: an exporter's metrics or an SNMP agent's, before the load and after it.

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

/// Connections that are made to see how far away the system is.
const CONNECTIONS: usize = 9;

/// What a system told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reading {
    /// What it calls itself.
    pub(crate) system: Option<String>,
    /// Since when it runs, or for how long.
    boot: Option<Boot>,
    /// Seconds so far that all CPUs together were busy, and idle, where they are those of this moment.
    cpu: Option<(f64, f64)>,
    /// CPUs of the system, where it told seconds of them.
    cpus: Option<f64>,
    /// Memory in use, what Linux lends to caches left out: the same of both sources.
    memory_bytes: Option<f64>,
}

/// How a system tells when it was started.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Boot {
    /// Unix time in seconds.
    At(f64),
    /// Hundredths of a second that it had been up at a moment, modulo 2^32 (497 days).
    Since { ticks: u32, at: Instant },
}

/// What a system told of a window.
#[derive(Debug)]
pub(crate) struct Watched {
    /// As it opened.
    before: Reading,
    /// As it closed.
    after: Reading,
    /// CPUs that were busy, on average, where they are told by other answers than these two.
    busy_cpus: Option<f64>,
}

/// How far the time that a system was up may be from that which went by here, in seconds: clocks are set now and then, and
/// answers take their time.
const CLOCK_ERROR_S: f64 = 5.0;

/// Asks the system.
pub(crate) fn read(source: &EvidenceSource) -> Result<Reading> {
    match source {
        EvidenceSource::Exporter(url) => exporter::read(url),
        EvidenceSource::Snmp { address, community } => snmp::read(address, community),
    }
}

/// Asks once, before the first trial.
///
/// # Errors
/// Says which source does not tell of the system, what was expected of it, and what to do.
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

/// What is asked, in a word.
pub(crate) fn name(source: Option<&EvidenceSource>) -> String {
    let word = match source {
        None => "none",
        Some(EvidenceSource::Exporter(_)) => "exporter",
        Some(EvidenceSource::Snmp { .. }) => "snmp",
    };
    word.into()
}

/// Asks the system as the window opens and as it closes; an SNMP agent, whose CPU counters are some seconds old, also between.
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
            snapshots.and_then(|thread| thread.join().expect("looking at counters does not panic"));
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

/// What the system used in a window before which it had told `first`, or why that says nothing.
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

/// CPUs that were busy between two readings, on average.
fn busy_between(before: &Reading, after: &Reading) -> Option<f64> {
    let ((busy, idle), (later_busy, later_idle)) = before.cpu.zip(after.cpu)?;
    let (busy, idle) = (later_busy - busy, later_idle - idle);
    let is_told = busy >= 0.0 && idle >= 0.0 && busy + idle > 0.0;
    // Some exporters are slow to answer: the share is right when the sums are not.
    is_told.then_some(busy / (busy + idle) * after.cpus?)
}

/// How far away the system is and which way leads there, into the facts; what its server calls itself.
pub(crate) fn look(url: &str, values: &mut BTreeMap<String, String>) -> Result<String> {
    // It is only looked at; the load has seen to its certificate.
    let server = Server::of(url, || Ok(Trust::Any))?;
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
    let name = probe::ask(&server, &exchange).ok();
    Ok(name.and_then(|(_, head)| head.server).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(cpu: (f64, f64), boot: Boot) -> Reading {
        Reading {
            system: None,
            boot: Some(boot),
            cpu: Some(cpu),
            cpus: Some(2.0),
            memory_bytes: Some(5.0),
        }
    }

    #[test]
    fn what_was_used_is_the_difference_of_two_readings() {
        let boot = Boot::At(1000.0);
        let first = reading((9.0, 80.0), boot);
        let of = |cpu, cpus| {
            let watched = Watched {
                before: reading((10.0, 90.0), boot),
                after: Reading {
                    cpus: Some(cpus),
                    ..reading(cpu, boot)
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
        assert_eq!(of((25.0, 95.0), 2.0), expected);
        // An exporter that is slow to answer has seen more time pass, or less.
        assert_eq!(of((40.0, 100.0), 2.0), expected);
        assert_eq!(of((40.0, 100.0), 4.0).busy_cpus, Some(3.0));
        assert_eq!(of((10.0, 90.0), 2.0).busy_cpus, None);
        assert_eq!(of((1.0, 2.0), 2.0).busy_cpus, None);
    }

    #[test]
    fn a_restart_voids_and_the_wrap_of_a_long_time_up_does_not() {
        let at = Instant::now();
        let is_restarted = |before_s: f64, after_s: f64, gone_s: u64| {
            let up = |s: f64, gone_s| {
                let ticks = (s * 100.0) as u64 as u32;
                let at = at + Duration::from_secs(gone_s);
                reading((0.0, 0.0), Boot::Since { ticks, at })
            };
            super::is_restarted(&up(before_s, 0), &up(after_s, gone_s))
        };
        assert!(!is_restarted(50.0, 60.0, 10));
        assert!(is_restarted(50.0, 3.0, 20));
        // It had run for less long than it does now.
        assert!(is_restarted(2.0, 4.0, 60));
        let days = 86_400.0;
        assert!(!is_restarted(497.102 * days, 497.102 * days + 60.0, 60));
        assert!(!is_restarted(510.0 * days, 510.0 * days + 10.0, 10));
        assert!(is_restarted(510.0 * days, 5.0, 60));
        assert!(is_restarted(400.0 * days, 5.0, 60));
        let of = |first_s, before_s, after_s| {
            let boot = |at_s| reading((10.0, 90.0), Boot::At(at_s));
            let watched = Watched {
                before: boot(before_s),
                after: boot(after_s),
                busy_cpus: None,
            };
            used(&boot(first_s), &watched)
        };
        assert!(of(1000.0, 1000.0, 1001.0).is_ok());
        for (first_s, before_s) in [(1000.0, 1000.0), (1000.0, 1100.0)] {
            let why = of(first_s, before_s, 1100.0).unwrap_err();
            assert!(why.contains("restarted"), "{why}");
        }
    }
}
