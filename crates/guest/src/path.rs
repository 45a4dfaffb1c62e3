//! Counters of clients and network over the window, which show what was near its limit.
//!
//! They are read from `/proc` as the window opens and as it closes. Drops of queueing disciplines come from tc(8), a
//! process, so they are read before the load and after it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};
use record::load_path::{ClientCpu, Link, LoadPath, NetworkEnd, Side};
use serde_json::Value;
use workload::context::command;

use crate::cpus;
use crate::netns::Netns;
use crate::proc;
use crate::proc::slurp;

/// Most interfaces of an end.
const LINKS: usize = 64;

/// First size of the buffer, which grows for files of many interfaces.
const BUFFER_BYTES: usize = 64 << 10;

/// Open files of the clients' CPUs and the ends of the network.
#[derive(Debug)]
pub struct PathWatch {
    stat: File,
    softnet: Option<File>,
    ends: Vec<End>,
    cpus: Vec<u32>,
}

/// Clients' CPUs and the ends of the network over a window, as far as they are on this system.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PathSeen {
    /// The CPUs that clients may run on.
    pub cpus: Vec<ClientCpu>,
    pub ends: Vec<NetworkEnd>,
}

impl PathSeen {
    /// Adds this to the path of a load.
    pub(crate) fn added_to(self, mut path: LoadPath) -> LoadPath {
        path.cpus.extend(self.cpus);
        path.ends.extend(self.ends);
        path
    }
}

#[derive(Debug)]
struct End {
    side: Side,
    netns: Netns,
    dev: File,
    snmp: File,
    netstat: File,
    /// Drops by interface before the load; `None` if tc(8) fails.
    queues: Option<BTreeMap<String, u64>>,
}

/// Counters at an instant.
#[derive(Debug)]
pub(crate) struct PathReading {
    cpus: BTreeMap<u32, CpuTicks>,
    softnet_dropped: u64,
    ends: Vec<EndReading>,
}

#[derive(Debug, Clone, Copy, Default)]
struct CpuTicks {
    idle: u64,
    interrupts: u64,
    all: u64,
}

#[derive(Debug)]
struct EndReading {
    tcp: BTreeMap<String, u64>,
    links: BTreeMap<String, LinkCounters>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LinkCounters {
    received_bytes: u64,
    received_packets: u64,
    receive_dropped: u64,
    sent_bytes: u64,
    sent_packets: u64,
}

impl PathWatch {
    /// Watches this process's CPUs, and these ends of the network.
    pub(crate) fn open(ends: &[(Side, &Netns)]) -> Result<Self> {
        let ends = ends.iter().map(|(side, netns)| End::open(*side, netns));
        Ok(Self {
            stat: File::open("/proc/stat").context("open /proc/stat")?,
            softnet: File::open("/proc/net/softnet_stat").ok(),
            ends: ends.collect::<Result<_>>()?,
            cpus: cpus::numbers()?,
        })
    }

    /// The counters now.
    pub(crate) fn read(&self) -> PathReading {
        let buffer = &mut vec![0; BUFFER_BYTES];
        let mut cpus = cpu_ticks(slurp(&self.stat, buffer));
        cpus.retain(|cpu, _| self.cpus.contains(cpu));
        let softnet = self.softnet.as_ref().map_or("", |file| slurp(file, buffer));
        PathReading {
            cpus,
            softnet_dropped: softnet_dropped(softnet).flatten().sum(),
            ends: self.ends.iter().map(|end| end.read(buffer)).collect(),
        }
    }

    /// The difference of two readings. Call it when the load is over: it starts a process.
    pub(crate) fn between(&self, open: &PathReading, close: &PathReading) -> PathSeen {
        let cpus = close.cpus.iter().filter_map(|(cpu, close)| {
            let open = open.cpus.get(cpu)?;
            let share = |from: u64, to: u64| {
                to.saturating_sub(from) as f64 / close.all.saturating_sub(open.all).max(1) as f64
            };
            Some(ClientCpu {
                cpu: *cpu,
                idle: share(open.idle, close.idle).min(1.0),
                interrupts: share(open.interrupts, close.interrupts).min(1.0),
            })
        });
        let softnet_dropped = close.softnet_dropped.saturating_sub(open.softnet_dropped);
        let readings = open.ends.iter().zip(&close.ends);
        let ends = self
            .ends
            .iter()
            .zip(readings)
            .map(|(end, (open, close))| NetworkEnd {
                // This counter is the whole host's, so only one end has it.
                softnet_dropped: match end.side {
                    Side::Clients => softnet_dropped,
                    Side::Server => 0,
                },
                ..end.between(open, close)
            });
        PathSeen {
            cpus: cpus.collect(),
            ends: ends.collect(),
        }
    }
}

impl End {
    fn open(side: Side, netns: &Netns) -> Result<Self> {
        let files = netns.within(|| {
            let open = |name: &str| {
                let path = format!("/proc/thread-self/net/{name}");
                File::open(&path).with_context(|| format!("open {path}"))
            };
            Ok::<_, anyhow::Error>((open("dev")?, open("snmp")?, open("netstat")?))
        })?;
        let (dev, snmp, netstat) = files?;
        Ok(Self {
            side,
            netns: netns.try_clone()?,
            dev,
            snmp,
            netstat,
            queues: queue_drops(netns),
        })
    }

    fn read(&self, buffer: &mut Vec<u8>) -> EndReading {
        let mut tcp: BTreeMap<String, u64> = proc::tcp(slurp(&self.snmp, buffer)).collect();
        tcp.extend(proc::tcp(slurp(&self.netstat, buffer)));
        EndReading {
            tcp,
            links: links(slurp(&self.dev, buffer)),
        }
    }

    fn between(&self, open: &EndReading, close: &EndReading) -> NetworkEnd {
        let tcp = |name: &str| {
            let at = |reading: &EndReading| reading.tcp.get(name).copied().unwrap_or(0);
            at(close).saturating_sub(at(open))
        };
        let now = queue_drops(&self.netns);
        let links = close.links.iter().map(|(name, close)| {
            let open = open.links.get(name).copied().unwrap_or_default();
            let dropped = |drops: &BTreeMap<String, u64>| drops.get(name).copied().unwrap_or(0);
            let queues = self.queues.as_ref().zip(now.as_ref());
            Link {
                name: name.clone(),
                received_bytes: close.received_bytes.saturating_sub(open.received_bytes),
                sent_bytes: close.sent_bytes.saturating_sub(open.sent_bytes),
                sent_packets: close.sent_packets.saturating_sub(open.sent_packets),
                received_packets: close.received_packets.saturating_sub(open.received_packets),
                receive_dropped: close.receive_dropped.saturating_sub(open.receive_dropped),
                queue_dropped: queues.map(|(old, new)| dropped(new).saturating_sub(dropped(old))),
                bits_per_s: bits_per_s(name),
            }
        });
        let links: Vec<Link> = links.take(LINKS).collect();
        NetworkEnd {
            side: self.side,
            segments_sent: tcp("TcpOutSegs"),
            segments_received: tcp("TcpInSegs"),
            retransmitted: tcp("TcpRetransSegs").saturating_sub(tcp("TcpExtTCPDSACKRecv")),
            out_of_order: tcp("TcpExtTCPOFOQueue"),
            softnet_dropped: 0,
            links,
        }
    }
}

/// Ticks of each CPU in `/proc/stat`.
fn cpu_ticks(stat: &str) -> BTreeMap<u32, CpuTicks> {
    let parse_line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let cpu = cpus::number(words.next()?)?;
        let ticks: Vec<u64> = words.map(|word| word.parse().unwrap_or(0)).collect();
        // user nice system idle iowait irq softirq steal; the rest is included in user and nice.
        let at = |place: usize| ticks.get(place).copied().unwrap_or(0);
        let ticks = CpuTicks {
            idle: at(3) + at(4),
            interrupts: at(5) + at(6),
            all: ticks.iter().take(8).sum(),
        };
        Some((cpu, ticks))
    };
    stat.lines().filter_map(parse_line).collect()
}

/// Packets that found a CPU's queue full, by CPU: the second column of `/proc/net/softnet_stat`, hexadecimal. `None` for a
/// line that has no such number.
pub(crate) fn softnet_dropped(text: &str) -> impl Iterator<Item = Option<u64>> {
    text.lines().map(|line| {
        let word = line.split_ascii_whitespace().nth(1)?;
        u64::from_str_radix(word, 16).ok()
    })
}

/// Interfaces of `/proc/net/dev` except the loopback. Dropped packets include those that the interface missed.
fn links(text: &str) -> BTreeMap<String, LinkCounters> {
    let parse_line = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let numbers: Vec<u64> = rest
            .split_ascii_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let at = |place: usize| numbers.get(place).copied();
        let counters = LinkCounters {
            received_bytes: at(0)?,
            received_packets: at(1)?,
            receive_dropped: at(3)?,
            sent_bytes: at(8)?,
            sent_packets: at(9)?,
        };
        let name = name.trim();
        (name != "lo").then(|| (name.to_string(), counters))
    };
    text.lines().filter_map(parse_line).collect()
}

/// The speed of a real interface. Virtual ones have no speed, or a meaningless one.
fn bits_per_s(name: &str) -> Option<u64> {
    let dir = Path::new("/sys/class/net").join(name);
    fs::metadata(dir.join("device")).ok()?;
    let mbit_per_s = fs::read_to_string(dir.join("speed")).ok()?;
    let mbit_per_s: u64 = mbit_per_s.trim().parse().ok()?;
    Some(mbit_per_s * 1_000_000).filter(|speed| *speed > 0)
}

/// Packets that queueing disciplines have dropped so far, by interface; `None` if tc(8) fails.
fn queue_drops(netns: &Netns) -> Option<BTreeMap<String, u64>> {
    let show = || command("tc").args(["-s", "-j", "qdisc", "show"]).output();
    let output = netns.within(show).ok()?.ok()?;
    let qdiscs = serde_json::from_slice(&output.stdout).ok()?;
    output.status.success().then(|| largest_drops(&qdiscs))
}

/// The largest count of each interface. A root discipline includes its children's drops, but some count too few.
fn largest_drops(qdiscs: &Value) -> BTreeMap<String, u64> {
    let mut drops = BTreeMap::new();
    for qdisc in qdiscs.as_array().into_iter().flatten() {
        if let (Some(name), Some(count)) = (qdisc["dev"].as_str(), qdisc["drops"].as_u64()) {
            let most: &mut u64 = drops.entry(name.to_string()).or_default();
            *most = count.max(*most);
        }
    }
    drops
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn files_of_the_kernel_are_read() {
        let stat = "cpu  9 0 0 9 0 0 0 0 0 0\ncpu0 1 2 3 40 5 6 7 8 9 10\nintr 5\n";
        expect!["{0: CpuTicks { idle: 45, interrupts: 13, all: 72 }}"]
            .assert_eq(&format!("{:?}", cpu_ticks(stat)));
        let softnet = "0000000a 00000002 00000000\n0000000a 00000010 00000000\n";
        assert_eq!(softnet_dropped(softnet).flatten().sum::<u64>(), 18);
        let dev = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes\n\
                   lo: 1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n  eth0: 100 9 0 5 0 0 0 0 70 8 0 0 0 0 0 0\n";
        expect!["{\"eth0\": LinkCounters { received_bytes: 100, received_packets: 9, receive_dropped: 5, sent_bytes: 70, sent_packets: 8 }}"]
            .assert_eq(&format!("{:?}", links(dev)));
        let qdiscs = serde_json::json!([
            { "dev": "eth0", "drops": 3 }, { "dev": "eth0", "drops": 7 }, { "kind": "noqueue" }
        ]);
        assert_eq!(largest_drops(&qdiscs), [("eth0".to_string(), 7)].into());
    }

    #[test]
    fn what_happened_lies_between_two_readings() {
        let watch = PathWatch::open(&[(Side::Clients, &Netns::current())]).unwrap();
        let open = watch.read();
        let seen = watch.between(&open, &watch.read());
        assert_eq!(seen.ends.len(), 1);
        assert!(!seen.cpus.is_empty());
        assert!(seen.cpus.iter().all(|cpu| cpu.idle <= 1.0));
    }

    #[test]
    fn retransmits_of_what_had_arrived_are_no_loss() {
        let end = End::open(Side::Server, &Netns::current()).unwrap();
        let reading = |retransmits, duplicates| EndReading {
            tcp: [
                ("TcpRetransSegs".to_string(), retransmits),
                ("TcpExtTCPDSACKRecv".to_string(), duplicates),
            ]
            .into(),
            links: BTreeMap::new(),
        };
        let lost = |close| end.between(&reading(5, 2), &close).retransmitted;
        assert_eq!(lost(reading(15, 6)), 6);
        // A network that duplicates packets causes such reports, too.
        assert_eq!(lost(reading(6, 9)), 0);
    }
}
