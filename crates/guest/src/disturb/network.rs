//! The network between clients and servers: the kernel's network emulator (`sch_netem`) on both ends, and the link itself.
//!
//! An emulator sees only what leaves its device, so both ends have one: one for each direction.

use anyhow::{Context, Result};
use plan::DisturbanceKind;
use workload::context::{SOURCES, SOURCES_PREFIX};

use super::{Impact, Ongoing, Site};
use crate::netns::{CLIENT, CLIENT_END, Netns, SERVER_END};
use crate::proc;

/// Most packets in an emulator: enough that none is lost because the queue is full.
const LIMIT: u32 = 100_000;

/// The two ends of the network.
fn ends(site: &Site) -> [(&Netns, &'static str); 2] {
    [(&site.client, CLIENT_END), (&site.server, SERVER_END)]
}

struct Netem {
    kind: DisturbanceKind,
    before: TcpEvents,
}

pub(super) fn begin_netem(kind: &DisturbanceKind, site: &Site) -> Result<Box<dyn Ongoing>> {
    let words = words(kind);
    let before = TcpEvents::read(site)?;
    for (netns, device) in ends(site) {
        let limit = LIMIT.to_string();
        let mut arguments = vec![
            "qdisc", "replace", "dev", device, "root", "netem", "limit", &limit,
        ];
        arguments.extend(words.split(' '));
        if let Err(why) = netns.run("tc", &arguments) {
            remove_netem(site);
            return Err(why);
        }
    }
    Ok(Box::new(Netem {
        kind: *kind,
        before,
    }))
}

/// Arguments of `tc` for an emulator.
fn words(kind: &DisturbanceKind) -> String {
    let percent = |share: f64| format!("{:.4}%", share * 100.0);
    match *kind {
        DisturbanceKind::Loss { share } => format!("loss {}", percent(share)),
        DisturbanceKind::Duplicate { share } => format!("duplicate {}", percent(share)),
        DisturbanceKind::Corrupt { share } => format!("corrupt {}", percent(share)),
        DisturbanceKind::Reorder { share, delay_ms } => {
            format!("delay {delay_ms}ms reorder {}", percent(share))
        }
        DisturbanceKind::Delay {
            delay_ms,
            jitter_ms,
        } => format!("delay {delay_ms}ms {jitter_ms}ms"),
        DisturbanceKind::LinkDown
        | DisturbanceKind::DiskFull
        | DisturbanceKind::Memory { .. }
        | DisturbanceKind::CpuOffline { .. }
        | DisturbanceKind::ClockStep { .. }
        | DisturbanceKind::KillWorker
        | DisturbanceKind::SynFlood { .. }
        | DisturbanceKind::SlowClients { .. }
        | DisturbanceKind::Descriptors => unreachable!("the emulator does not do this"),
    }
}

/// Removes the emulators from both ends, if there are any.
fn remove_netem(site: &Site) {
    for (netns, device) in ends(site) {
        let _ = netns.run("tc", &["qdisc", "del", "dev", device, "root"]);
    }
}

impl Ongoing for Netem {
    fn end(&mut self, site: &Site) -> Result<Impact> {
        let counts = NetemCounts::read(site);
        remove_netem(site);
        let (counts, tcp) = (counts?, TcpEvents::read(site)?.since(self.before));
        let impact = match self.kind {
            DisturbanceKind::Loss { .. } => Impact::new("lost", counts.dropped),
            DisturbanceKind::Reorder { .. } => Impact::new("overtaking", counts.requeued),
            DisturbanceKind::Duplicate { .. } => Impact::new("seen-twice", tcp.duplicates),
            DisturbanceKind::Corrupt { .. } => Impact::new("bad-checksums", tcp.bad_checksums),
            _ => Impact::new("delayed", counts.packets),
        };
        Ok(impact
            .with("packets", counts.packets)
            .with("retransmitted", tcp.retransmitted))
    }
}

/// Counts of both emulators together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct NetemCounts {
    packets: u64,
    dropped: u64,
    requeued: u64,
}

impl NetemCounts {
    fn read(site: &Site) -> Result<Self> {
        let mut sum = Self::default();
        for (netns, device) in ends(site) {
            let text = netns.run("tc", &["-s", "qdisc", "show", "dev", device])?;
            let end = Self::parse(&text).context("tc shows no counts of the emulator")?;
            sum.packets += end.packets;
            sum.dropped += end.dropped;
            sum.requeued += end.requeued;
        }
        Ok(sum)
    }

    /// Parses ` Sent 5660 bytes 12 pkt (dropped 3, overlimits 0 requeues 1)`, below the line of the emulator.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        lines.find(|line| line.starts_with("qdisc netem"))?;
        let line = lines.find(|line| line.trim_start().starts_with("Sent "))?;
        let words: Vec<_> = line
            .split(|letter: char| letter.is_whitespace() || "(),".contains(letter))
            .filter(|word| !word.is_empty())
            .collect();
        let before = |name: &str| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at.checked_sub(1)?)?.parse().ok()
        };
        let after = |name: &str| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1)?.parse().ok()
        };
        Some(Self {
            packets: before("pkt")?,
            dropped: after("dropped")?,
            requeued: after("requeues")?,
        })
    }
}

/// TCP counters, summed over both sides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct TcpEvents {
    retransmitted: u64,
    duplicates: u64,
    bad_checksums: u64,
}

impl TcpEvents {
    fn read(site: &Site) -> Result<Self> {
        let mut sum = Self::default();
        for (netns, _) in ends(site) {
            let counters = netns.within(proc::thread_tcp)??;
            let count = |name: &str| counters.get(name).copied().unwrap_or(0);
            sum.retransmitted += count("TcpRetransSegs");
            sum.duplicates += count("TcpExtTCPDSACKOldSent") + count("TcpExtTCPDSACKOfoSent");
            sum.bad_checksums += count("TcpInCsumErrors");
        }
        Ok(sum)
    }

    fn since(self, before: Self) -> Self {
        Self {
            retransmitted: self.retransmitted.saturating_sub(before.retransmitted),
            duplicates: self.duplicates.saturating_sub(before.duplicates),
            bad_checksums: self.bad_checksums.saturating_sub(before.bad_checksums),
        }
    }
}

struct LinkDown {
    is_down: bool,
    before: TcpEvents,
}

/// Takes down the servers' end, so that clients get no answers, as with a pulled cable.
pub(super) fn begin_link_down(site: &Site) -> Result<Box<dyn Ongoing>> {
    let before = TcpEvents::read(site)?;
    site.server
        .run("ip", &["link", "set", SERVER_END, "down"])?;
    let shown = site
        .server
        .run("ip", &["-o", "link", "show", "dev", SERVER_END]);
    let is_down = shown.is_ok_and(|shown| shown.contains("state DOWN"));
    Ok(Box::new(LinkDown { is_down, before }))
}

impl Ongoing for LinkDown {
    fn end(&mut self, site: &Site) -> Result<Impact> {
        site.server.run("ip", &["link", "set", SERVER_END, "up"])?;
        // The kernel has removed the device's routes.
        let sources = format!("{SOURCES}/{SOURCES_PREFIX}");
        let via = CLIENT.to_string();
        site.server
            .run("ip", &["route", "replace", &sources, "via", &via])?;
        let tcp = TcpEvents::read(site)?.since(self.before);
        let down = u64::from(self.is_down);
        Ok(Impact::new("links-down", down).with("retransmitted", tcp.retransmitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_emulator() {
        let text = "qdisc noqueue 0: root refcnt 2\n Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)\n";
        assert_eq!(NetemCounts::parse(text), None);
        let text = "qdisc netem 8001: root refcnt 5 limit 1000 loss 1%\n Sent 5660 bytes 12 pkt (dropped 3, overlimits 0 \
                    requeues 1) \n backlog 0b 0p requeues 1\n";
        let counts = NetemCounts {
            packets: 12,
            dropped: 3,
            requeued: 1,
        };
        assert_eq!(NetemCounts::parse(text), Some(counts));
    }

    #[test]
    fn shares_are_percents_to_tc() {
        assert_eq!(
            words(&DisturbanceKind::Loss { share: 0.02 }),
            "loss 2.0000%"
        );
        let reorder = DisturbanceKind::Reorder {
            share: 0.25,
            delay_ms: 10,
        };
        assert_eq!(words(&reorder), "delay 10ms reorder 25.0000%");
    }
}
