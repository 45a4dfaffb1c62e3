//! What a system on the network tells of itself: an exporter's metrics or an SNMP agent's, before the load and after it.

mod exporter;
mod snmp;

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use load::exchange::Exchange;
use load::expect::Expect;
use load::probe;
use load::server::{PATIENCE, Server};
use load::tls::Trust;
use plan::EvidenceSource;
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
    /// Seconds so far that all CPUs together were busy, and idle.
    cpu: Option<(f64, f64)>,
    /// CPUs of the system.
    cpus: Option<f64>,
    /// Memory in use, what Linux lends to caches left out: the same of both sources.
    memory_bytes: Option<f64>,
}

/// How a system tells when it was started.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Boot {
    /// Unix time in seconds.
    At(f64),
    /// Seconds that it has been up.
    Since(f64),
}

/// Asks the system.
pub(crate) fn read(source: &EvidenceSource) -> Result<Reading> {
    match source {
        EvidenceSource::Exporter(url) => exporter::read(url),
        EvidenceSource::Snmp { address, community } => snmp::read(address, community),
    }
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

/// What the system used between two readings, or why that says nothing.
pub(crate) fn between(before: &Reading, after: &Reading) -> Result<RemoteUse, String> {
    let is_restarted = match (before.boot, after.boot) {
        // Clocks are set now and then.
        (Some(Boot::At(before)), Some(Boot::At(after))) => (after - before).abs() > 5.0,
        (Some(Boot::Since(before)), Some(Boot::Since(after))) => after < before,
        (_, _) => false,
    };
    if is_restarted {
        return Err("the system was restarted during the trial".into());
    }
    let cpu = before.cpu.zip(after.cpu);
    let cpu =
        cpu.map(|((busy, idle), (later_busy, later_idle))| (later_busy - busy, later_idle - idle));
    let share = cpu
        .filter(|(busy, idle)| *busy >= 0.0 && *idle >= 0.0 && busy + idle > 0.0)
        .map(|(busy, idle)| busy / (busy + idle));
    Ok(RemoteUse {
        // Agents tell what they found some seconds ago, and some are slow to answer: the share is right when the sums are not.
        busy_cpus: share.zip(after.cpus).map(|(share, cpus)| share * cpus),
        memory_bytes: after.memory_bytes,
    })
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
        let before = reading((10.0, 90.0), Boot::Since(50.0));
        let mut after = reading((25.0, 95.0), Boot::Since(60.0));
        // Two CPUs, three quarters busy.
        let expected = RemoteUse {
            busy_cpus: Some(1.5),
            memory_bytes: Some(5.0),
        };
        assert_eq!(between(&before, &after).unwrap(), expected);
        // An agent that looks every few seconds has seen more time pass, or less.
        after.cpu = Some((40.0, 100.0));
        assert_eq!(between(&before, &after).unwrap(), expected);
        after.cpus = Some(4.0);
        assert_eq!(between(&before, &after).unwrap().busy_cpus, Some(3.0));
        after.cpu = before.cpu;
        assert_eq!(between(&before, &after).unwrap().busy_cpus, None);
    }

    #[test]
    fn a_restart_voids_and_a_counter_that_falls_is_absent() {
        let before = reading((10.0, 90.0), Boot::Since(50.0));
        let after = reading((1.0, 2.0), Boot::Since(3.0));
        assert!(between(&before, &after).unwrap_err().contains("restarted"));
        let before = reading((10.0, 90.0), Boot::At(1000.0));
        let mut after = reading((1.0, 2.0), Boot::At(1001.0));
        assert_eq!(between(&before, &after).unwrap().busy_cpus, None);
        after.boot = Some(Boot::At(1100.0));
        assert!(between(&before, &after).is_err());
    }
}
