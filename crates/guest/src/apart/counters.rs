//! Counters of the clients' side over the window: CPU time, network stack, network devices.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cpus;
use crate::path::softnet_dropped;
use crate::proc;
use crate::proc::text_of;

/// The prefix of keys of facts of the clients' side.
pub(crate) const PREFIX: &str = "clients:";

/// The key of a fact of the clients' side.
pub(crate) fn key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// Counters that only grow, or their increases. A counter that cannot be read is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counters(BTreeMap<&'static str, u64>);

/// Ticks of `/proc/stat` in a second (`USER_HZ`); the same on all architectures that bakeoff runs on.
const TICKS_PER_S: f64 = 100.0;

impl Counters {
    /// The counters now.
    pub(crate) fn read() -> Self {
        let cpus = cpus::numbers().unwrap_or_default();
        let mut all = BTreeMap::new();
        all.extend(cpu(&text_of("/proc/stat"), &cpus));
        all.extend(softnet(&text_of("/proc/net/softnet_stat")));
        all.extend(device(&text_of("/proc/self/net/dev")));
        all.extend(retransmitted(&text_of("/proc/self/net/snmp")));
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let used_us = used.tv_sec as u64 * 1_000_000 + used.tv_nsec as u64 / 1000;
        all.insert("cpu-us", used_us);
        Self(all)
    }

    pub(crate) fn since(&self, first: &Self) -> Self {
        let grown = |(name, now): (&&'static str, &u64)| {
            let before = first.0.get(name)?;
            Some((*name, now.saturating_sub(*before)))
        };
        Self(self.0.iter().filter_map(grown).collect())
    }

    /// Increases over a window on that many CPUs, as facts.
    pub(crate) fn facts(&self, window: Duration, cpus: usize) -> BTreeMap<String, String> {
        let count = |name: &str| self.0.get(name).copied();
        let seconds = window.as_secs_f64();
        let ticks = seconds * TICKS_PER_S * cpus as f64;
        let share = |name| Some(format!("{:.3}", count(name)? as f64 / ticks));
        let plain = |name| Some(count(name)?.to_string());
        let busy = count("cpu-us").map(|us| format!("{:.3}", us as f64 / 1e6 / seconds));
        let facts = [
            ("cpus-used", busy),
            ("idle", share("idle")),
            ("softirq", share("softirq")),
            ("softnet-drops", plain("softnet-drops")),
            ("device-drops", plain("device-drops")),
            ("device-bytes", plain("device-bytes")),
            ("retransmits", plain("retransmits")),
        ];
        let known = facts.into_iter();
        known
            .filter_map(|(name, value)| Some((key(name), value?)))
            .collect()
    }
}

/// Facts of the clients' side that do not change.
pub(crate) fn constant_facts(cpus: &[u32], place: &str) -> BTreeMap<String, String> {
    let uname = rustix::system::uname();
    let list: Vec<_> = cpus.iter().map(u32::to_string).collect();
    [
        ("place", place.to_string()),
        ("kernel", uname.release().to_string_lossy().into_owned()),
        ("cpus", list.join(",")),
    ]
    .map(|(name, value)| (key(name), value))
    .into()
}

/// Idle and softirq ticks of these CPUs.
fn cpu(stat: &str, cpus: &[u32]) -> BTreeMap<&'static str, u64> {
    let mut ticks = BTreeMap::new();
    for line in stat.lines() {
        let mut words = line.split_ascii_whitespace();
        let number = words.next().and_then(cpus::number);
        if number.is_none_or(|number| !cpus.contains(&number)) {
            continue;
        }
        // user nice system idle iowait irq softirq (proc_stat(5))
        let values: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        for (name, place) in [("idle", 3), ("softirq", 6)] {
            *ticks.entry(name).or_default() += values.get(place).copied().unwrap_or(0);
        }
    }
    ticks
}

/// Packets that a CPU's queue had no room for; `None` if a CPU's count cannot be read.
fn softnet(text: &str) -> Option<(&'static str, u64)> {
    let drops = softnet_dropped(text).sum::<Option<u64>>()?;
    (!text.is_empty()).then_some(("softnet-drops", drops))
}

/// TCP segments that were sent again.
fn retransmitted(snmp: &str) -> Option<(&'static str, u64)> {
    let (_, count) = proc::tcp(snmp).find(|(name, _)| name == "TcpRetransSegs")?;
    Some(("retransmits", count))
}

/// Bytes and drops of all network devices but the loopback, in both directions.
fn device(text: &str) -> BTreeMap<&'static str, u64> {
    let mut sums = BTreeMap::new();
    for line in text.lines() {
        let Some((name, values)) = line.split_once(':') else {
            continue;
        };
        let values = values.split_ascii_whitespace();
        let values: Vec<u64> = values.filter_map(|word| word.parse().ok()).collect();
        // bytes packets errs drop fifo frame compressed multicast, received and then sent
        if name.trim() == "lo" || values.len() < 12 {
            continue;
        }
        *sums.entry("device-bytes").or_default() += values[0] + values[8];
        *sums.entry("device-drops").or_default() += values[3] + values[11];
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_clients_own_cpus_count() {
        let stat =
            "cpu  9 9 9 9 9 9 9\ncpu0 1 0 2 30 0 0 4\ncpu1 1 0 2 50 0 0 6\ncpu10 0 0 0 7 0 0 8\n";
        assert_eq!(cpu(stat, &[0, 10]), [("idle", 37), ("softirq", 12)].into());
    }

    #[test]
    fn drops_and_retransmits_are_found_by_their_columns() {
        assert_eq!(
            softnet("00ff 0000000a 1\n0001 00000001 2\n"),
            Some(("softnet-drops", 11))
        );
        assert_eq!(softnet("00ff 0000000a 1\n0001 x 2\n"), None);
        assert_eq!(softnet(""), None);
        let snmp = "Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm RetransSegs InErrs\nTcp: 1 42 0\n";
        assert_eq!(retransmitted(snmp), Some(("retransmits", 42)));
    }

    #[test]
    fn bytes_and_drops_of_devices_are_found_by_their_columns() {
        let dev = "Inter-| Receive\n face |bytes\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n guest: 100 2 0 3 0 0 0 0 \
                   1000 4 0 5 0 0 0 0\n";
        let sums = [("device-bytes", 1100), ("device-drops", 8)].into();
        assert_eq!(device(dev), sums);
        assert!(device("").is_empty());
    }

    #[test]
    fn shares_are_of_the_clients_cpus() {
        let first = Counters([("idle", 100), ("cpu-us", 0)].into());
        let last = Counters([("idle", 200), ("cpu-us", 3_000_000), ("retransmits", 1)].into());
        let facts = last.since(&first).facts(Duration::from_secs(2), 2);
        assert_eq!(facts["clients:idle"], "0.250");
        assert_eq!(facts["clients:cpus-used"], "1.500");
        assert!(!facts.contains_key("clients:retransmits"));
    }
}
