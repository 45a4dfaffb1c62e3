//! Clients of a box's servers: on this host, or on hosts that an agent of this host leads.
//!
//! ```text
//! lab --socket-- clients' agent (this host) --socket-- relay ==TCP, the secret of this boot==> servers' agent (the box)
//!                     \--ssh--> host 1, host 2, ...
//! ```
//! The relay connects only when the job is sent, because the servers' agent takes its first connection for the host's.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, anyhow};
use record::machine::BoxClients;

use super::facts::Card;
use crate::client_hosts;
use crate::client_hosts::ClientHosts;
use crate::clients::ClientsOfTrial;
use crate::host;
use crate::process_guest::{ERROR_BYTES, Limits, ProcessGuest};
use crate::task::Task;

/// Where the clients of a box's servers run.
#[derive(Debug)]
pub enum ClientsOfBox {
    /// On the box, beside the servers.
    OnBox,
    /// On this host.
    Here,
    /// On hosts that share them.
    Hosts(ClientHosts),
}

impl ClientsOfBox {
    /// Whether they reach the servers by the network.
    pub(crate) fn are_remote(&self) -> bool {
        match self {
            Self::OnBox => false,
            Self::Here | Self::Hosts(_) => true,
        }
    }

    /// Their description in records.
    pub(crate) fn describe(&self) -> Option<BoxClients> {
        match self {
            Self::OnBox => None,
            Self::Here => Some(BoxClients::Host {
                release: host::release(),
                cpus: host::cpus().map_or(0, |cpus| cpus.len()),
            }),
            Self::Hosts(hosts) => Some(BoxClients::Hosts {
                names: hosts.names(),
            }),
        }
    }

    /// Fails if a host is the box itself, or does not reach one of its cards. Under the installed OS, sshd answers at all cards,
    /// or the kernel refuses the connection. `port` is that of sshd.
    pub(crate) fn check(
        &self,
        boot_id: &str,
        cards: &[Card],
        port: u16,
        task: Task<'_>,
    ) -> Result<()> {
        let addresses = cards.iter().map(|card| (card.address, port).into());
        let addresses: Vec<SocketAddr> = addresses.collect();
        match self {
            Self::OnBox => Ok(()),
            Self::Here => client_hosts::reach(&addresses)
                .map_err(|why| anyhow!(unreached("this host", cards, &why))),
            Self::Hosts(hosts) => {
                hosts.refuse_kernel(boot_id)?;
                let explain = |host: &str, why: &str| unreached(host, cards, why);
                hosts.check_reach(&addresses, &explain, task)
            }
        }
    }

    /// Starts the agent of remote clients on this host for a trial, and prepares its relay to the servers' agent.
    pub(crate) fn start(
        &self,
        program: &Path,
        address: &str,
        secret: &str,
        allowance_bytes: u64,
    ) -> Result<(Option<ClientsOfTrial>, ClientsRelay)> {
        if !self.are_remote() {
            return Ok((None, ClientsRelay::None));
        }
        let (relay_end, mut agent_end) = UnixStream::pair().context("cannot make a socket pair")?;
        // The relay reads the secret first.
        agent_end.write_all(format!("{secret}\n").as_bytes())?;
        let mut agent = Command::new(program);
        agent.args(["clients", "--of-box"]);
        if let Self::Hosts(hosts) = self {
            let commands = serde_json::to_string(hosts.commands());
            let commands = commands.context("commands are plain data")?;
            agent.arg("--hosts").arg(commands);
        }
        let limits = Limits {
            allowance_bytes,
            file_bytes: Some(ERROR_BYTES),
        };
        let console = "/dev/null".into();
        let socket = Some(agent_end.into());
        let agent = ProcessGuest::start_with("the clients", agent, console, limits, socket)?;
        let mut relay = Command::new(program);
        let relay_end = OwnedFd::from(relay_end);
        relay.args(["relay", address]).stdin(relay_end);
        let clients = ClientsOfTrial::without_card(agent);
        Ok((Some(clients), ClientsRelay::Ready(Box::new(relay))))
    }
}

/// The message for a host that does not reach a card of the box.
fn unreached(host: &str, cards: &[Card], why: &str) -> String {
    let words = |card: &Card| format!("{} {}", card.interface, card.address);
    let cards: Vec<String> = cards.iter().map(words).collect();
    format!(
        "{host} does not reach the box's servers at {}: {why} (clients need a route to each card that serves: ip route get \
         ADDRESS there; name other interfaces = [...], or other clients)",
        cards.join(", ")
    )
}

/// The relay from the clients' agent to the servers'.
#[derive(Debug)]
pub(crate) enum ClientsRelay {
    /// This command will start it.
    Ready(Box<Command>),
    Started(#[expect(dead_code, reason = "ends when it is dropped")] Relay),
    /// There are no remote clients.
    None,
}

#[derive(Debug)]
pub(crate) struct Relay(Child);

impl Drop for Relay {
    fn drop(&mut self) {
        base::process::end(&mut self.0);
    }
}

impl ClientsRelay {
    /// Starts the relay, unless it runs already.
    pub(crate) fn start(&mut self) -> Result<()> {
        if let Self::Ready(relay) = self {
            relay.stdout(Stdio::null()).stderr(Stdio::null());
            base::process::bind(relay);
            let started = relay.spawn().context("start the line to the box")?;
            // Drops the command with its end of the socket, so that the connection closes with the relay.
            *self = Self::Started(Relay(started));
        }
        Ok(())
    }
}

/// Addresses of cards, in their order.
pub(crate) fn addresses(cards: &[Card]) -> Vec<Ipv4Addr> {
    cards.iter().map(|card| card.address).collect()
}
