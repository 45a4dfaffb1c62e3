//! Limits from the client's ports: each connection to a server needs a port of a source address.

use anyhow::{Context, Result, ensure};

const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

const REMEDY: &str = "name more addresses with --source";

/// The peak demand of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Peak {
    /// Connections at once.
    pub(crate) connections: u32,
    /// Requests per second, if the load has a rate.
    pub(crate) rate_per_s: Option<f64>,
    /// Whether a connection serves more than one request.
    pub(crate) keep_alive: bool,
}

/// Ports to connect from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ports {
    /// Ports of each source address.
    each: u64,
    addresses: u64,
}

impl Ports {
    /// The ports of a number of source addresses; 0 means the single address that the kernel chooses.
    pub(crate) fn read(addresses: usize) -> Result<Self> {
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

    /// Refuses more connections at once than there are ports.
    pub(crate) fn check_connections(self, peak: Peak) -> Result<()> {
        let Self { each, addresses } = self;
        let connections = peak.connections;
        ensure!(
            u64::from(connections) <= each * addresses,
            "more connections than ports ({addresses} source addresses with {each} ports): \
             {connections} ({REMEDY})"
        );
        Ok(())
    }

    /// Refuses more new connections per second than there are ports.
    ///
    /// If this side closes a connection first, its port stays in use for at least a second
    /// (`net.ipv4.tcp_tw_reuse`). So the number of ports also limits new connections per second.
    pub(crate) fn check_rate(self, peak: Peak) -> Result<()> {
        let Self { each, addresses } = self;
        let new_per_s = match peak.rate_per_s {
            Some(rate_per_s) if !peak.keep_alive => rate_per_s,
            Some(_) | None => 0.0,
        };
        ensure!(
            new_per_s <= (each * addresses) as f64,
            "more new connections per second than ports ({addresses} source addresses with {each} \
             ports): {new_per_s} ({REMEDY}, or keep connections alive)"
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
        let peak = |connections, rate_per_s, keep_alive| Peak {
            connections,
            rate_per_s,
            keep_alive,
        };
        assert!(ports.check_connections(peak(200, None, true)).is_ok());
        assert!(ports.check_connections(peak(201, None, true)).is_err());
        assert!(ports.check_rate(peak(1, Some(1e6), true)).is_ok());
        assert!(ports.check_rate(peak(1, Some(201.0), false)).is_err());
        assert!(ports.check_rate(peak(1, Some(200.0), false)).is_ok());
    }
}
