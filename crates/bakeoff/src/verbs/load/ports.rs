//! What the client's ports allow: a source address has so many, and each connection to a server
//! takes one.

use anyhow::{Context, Result, ensure};

const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Ports to connect from, all source addresses together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ports {
    each: u64,
    addresses: u64,
}

impl Ports {
    /// The ports of so many source addresses; none means the one that the kernel chooses.
    pub(super) fn read(addresses: usize) -> Result<Self> {
        let text =
            std::fs::read_to_string(RANGE).with_context(|| format!("cannot read {RANGE}"))?;
        let mut ends = text.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(low)), Some(Ok(high))) = (ends.next(), ends.next()) else {
            anyhow::bail!("not a range of ports: {text:?} (look at {RANGE})");
        };
        Ok(Self {
            each: (high + 1).saturating_sub(low),
            addresses: addresses.max(1) as u64,
        })
    }

    /// Refuses more connections at once, or more new ones per second, than there are ports.
    ///
    /// A port that this side closed first is free again after a second at the earliest
    /// (`net.ipv4.tcp_tw_reuse`), so ports are also the most new connections per second.
    pub(super) fn check(self, (connections, rate): (u32, Option<f64>), keep: bool) -> Result<()> {
        let Self { each, addresses } = self;
        let ports = each * addresses;
        let remedy = "name more addresses with --source";
        ensure!(
            u64::from(connections) <= ports,
            "more connections than ports ({addresses} source addresses with {each} ports): \
             {connections} ({remedy})"
        );
        let new_per_s = if keep { 0.0 } else { rate.unwrap_or(0.0) };
        ensure!(
            new_per_s <= ports as f64,
            "more new connections per second than ports ({addresses} source addresses with {each} \
             ports): {new_per_s} ({remedy}, or keep connections alive)"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_limit_connections_and_their_rate() {
        let ports = Ports {
            each: 100,
            addresses: 2,
        };
        let refused = |peak, keep| ports.check(peak, keep).is_err();
        assert!(!refused((200, None), true));
        assert!(refused((201, None), true));
        assert!(!refused((1, Some(1e6)), true));
        assert!(refused((1, Some(201.0)), false));
        assert!(!refused((1, Some(200.0)), false));
    }
}
