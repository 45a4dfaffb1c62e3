//! The network between clients and servers: the kernel's network emulator (`sch_netem`) on both ends, and the link itself.
//!
//! An end of the pair of devices sees what leaves it, so that each direction has its own emulator.

use anyhow::{Context, Result};
use plan::DisturbanceKind;
use workload::context::{SOURCES, SOURCES_PREFIX};

use super::{Felt, Ongoing, Site};
use crate::netns::{CLIENT, CLIENT_END, Netns, SERVER_END};
use crate::proc;

/// Packets that an emulator holds at the most: so many that none is lost for want of room.
const HELD: u32 = 100_000;

/// The two ends of the network.
fn ends(site: &Site) -> [(&Netns, &'static str); 2] {
    [(&site.client, CLIENT_END), (&site.server, SERVER_END)]
}

struct Netem {
    kind: DisturbanceKind,
    before: Noticed,
}

pub(super) fn begin_netem(kind: &DisturbanceKind, site: &Site) -> Result<Box<dyn Ongoing>> {
    let words = words(kind);
    let before = Noticed::read(site)?;
    for (netns, device) in ends(site) {
        let held = HELD.to_string();
        let mut arguments = vec![
            "qdisc", "replace", "dev", device, "root", "netem", "limit", &held,
        ];
        arguments.extend(words.split(' '));
        if let Err(why) = netns.run("tc", &arguments) {
            take_out(site);
            return Err(why);
        }
    }
    Ok(Box::new(Netem {
        kind: *kind,
        before,
    }))
}

/// What `tc` calls it.
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
        | DisturbanceKind::Descriptors => unreachable!("it is no matter of the emulator's"),
    }
}

/// Takes the emulators out; an end that has none is as it should be.
fn take_out(site: &Site) {
    for (netns, device) in ends(site) {
        let _ = netns.run("tc", &["qdisc", "del", "dev", device, "root"]);
    }
}

impl Ongoing for Netem {
    fn end(&mut self, site: &Site) -> Result<Felt> {
        let passed = Passed::read(site);
        take_out(site);
        let (passed, noticed) = (passed?, Noticed::read(site)?.since(self.before));
        let felt = match self.kind {
            DisturbanceKind::Loss { .. } => Felt::by("lost", passed.dropped),
            DisturbanceKind::Reorder { .. } => Felt::by("overtaking", passed.requeued),
            DisturbanceKind::Duplicate { .. } => Felt::by("seen-twice", noticed.duplicates),
            DisturbanceKind::Corrupt { .. } => Felt::by("bad-checksums", noticed.bad_checksums),
            _ => Felt::by("delayed", passed.packets),
        };
        Ok(felt
            .beside("packets", passed.packets)
            .beside("retransmitted", noticed.retransmitted))
    }
}

/// What went through both emulators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Passed {
    packets: u64,
    dropped: u64,
    requeued: u64,
}

impl Passed {
    fn read(site: &Site) -> Result<Self> {
        let mut sum = Self::default();
        for (netns, device) in ends(site) {
            let text = netns.run("tc", &["-s", "qdisc", "show", "dev", device])?;
            let one = Self::parse(&text).context("tc tells no counts of the emulator")?;
            sum.packets += one.packets;
            sum.dropped += one.dropped;
            sum.requeued += one.requeued;
        }
        Ok(sum)
    }

    /// ` Sent 5660 bytes 12 pkt (dropped 3, overlimits 0 requeues 1)`, below the line of the emulator.
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

/// What the TCP of both sides noticed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Noticed {
    retransmitted: u64,
    duplicates: u64,
    bad_checksums: u64,
}

impl Noticed {
    fn read(site: &Site) -> Result<Self> {
        let mut sum = Self::default();
        for (netns, _) in ends(site) {
            let counters = netns.within(proc::own_tcp)??;
            let of = |name: &str| counters.get(name).copied().unwrap_or(0);
            sum.retransmitted += of("TcpRetransSegs");
            sum.duplicates += of("TcpExtTCPDSACKOldSent") + of("TcpExtTCPDSACKOfoSent");
            sum.bad_checksums += of("TcpInCsumErrors");
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
    before: Noticed,
}

/// Takes down the servers' end, so that clients meet what they meet when a cable is pulled: silence.
pub(super) fn begin_link_down(site: &Site) -> Result<Box<dyn Ongoing>> {
    let before = Noticed::read(site)?;
    site.server
        .run("ip", &["link", "set", SERVER_END, "down"])?;
    let shown = site
        .server
        .run("ip", &["-o", "link", "show", "dev", SERVER_END]);
    let is_down = shown.is_ok_and(|shown| shown.contains("state DOWN"));
    Ok(Box::new(LinkDown { is_down, before }))
}

impl Ongoing for LinkDown {
    fn end(&mut self, site: &Site) -> Result<Felt> {
        site.server.run("ip", &["link", "set", SERVER_END, "up"])?;
        // Routes through a device go with it.
        let sources = format!("{SOURCES}/{SOURCES_PREFIX}");
        let via = CLIENT.to_string();
        site.server
            .run("ip", &["route", "replace", &sources, "via", &via])?;
        let noticed = Noticed::read(site)?.since(self.before);
        let down = u64::from(self.is_down);
        Ok(Felt::by("links-down", down).beside("retransmitted", noticed.retransmitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_emulator() {
        let text = "qdisc noqueue 0: root refcnt 2\n Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)\n";
        assert_eq!(Passed::parse(text), None);
        let text = "qdisc netem 8001: root refcnt 5 limit 1000 loss 1%\n Sent 5660 bytes 12 pkt (dropped 3, overlimits 0 \
                    requeues 1) \n backlog 0b 0p requeues 1\n";
        let passed = Passed {
            packets: 12,
            dropped: 3,
            requeued: 1,
        };
        assert_eq!(Passed::parse(text), Some(passed));
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
