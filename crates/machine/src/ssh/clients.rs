//! Clients of a box's servers: on this host, or on hosts that an agent of this host leads.
//!
//! ```text
//! lab --socket-- clients' agent (this host) --socket-- relay ==TCP, the secret of this boot==> servers' agent (the box)
//!                     \--ssh--> host 1, host 2, ...
//! ```
//! The second line is dialled when the job is given: the servers' agent takes the first one for the host's.

use std::fs::File;
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

/// Where the clients of a box's servers are.
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
    /// Whether the network is between them and the servers.
    pub(crate) fn are_apart(&self) -> bool {
        match self {
            Self::OnBox => false,
            Self::Here | Self::Hosts(_) => true,
        }
    }

    /// What a run records of them.
    pub(crate) fn describe(&self) -> Option<BoxClients> {
        match self {
            Self::OnBox => None,
            Self::Here => Some(BoxClients::Host {
                release: host::release(),
                cpus: host::cpus().map_or(0, |own| own.len()),
            }),
            Self::Hosts(hosts) => Some(BoxClients::Hosts {
                names: hosts.names(),
            }),
        }
    }

    /// Refuses hosts that are the box itself, and those that do not reach each card: sshd of the box's own operating system
    /// answers at all of them, or its kernel refuses the connection.
    pub(crate) fn check(
        &self,
        (boot_id, cards, port): (&str, &[Card], u16),
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
                let told = |host: &str, why: &str| unreached(host, cards, why);
                hosts.check_reach(&addresses, &told, task)
            }
        }
    }

    /// Starts their agent on this host for a trial, where they are not on the box, and gets the line ready that will lead from it to
    /// the servers' agent.
    pub(crate) fn start(
        &self,
        program: &Path,
        (address, secret): (&str, &str),
        allowance_bytes: u64,
    ) -> Result<(Option<ClientsOfTrial>, Line)> {
        if !self.are_apart() {
            return Ok((None, Line::None));
        }
        let (line, mut agents) = UnixStream::pair().context("cannot make a socket pair")?;
        // Whoever relays reads it first.
        agents.write_all(format!("{secret}\n").as_bytes())?;
        let mut own = Command::new(program);
        own.args(["clients", "--of-box"]);
        if let Self::Hosts(hosts) = self {
            let commands = serde_json::to_string(hosts.commands());
            own.arg("--hosts")
                .arg(commands.context("commands are plain data")?);
        }
        let limits = Limits {
            allowance_bytes,
            file_bytes: Some(ERROR_BYTES),
        };
        let console = "/dev/null".into();
        let agent =
            ProcessGuest::start_with("the clients", own, console, limits, Some(agents.into()))?;
        let mut relay = Command::new(program);
        relay.args(["relay", address]).stdin(OwnedFd::from(line));
        let clients = ClientsOfTrial::without_card(agent);
        Ok((Some(clients), Line::Ready(Box::new(relay))))
    }
}

/// A host that a card of the box's cannot be reached from.
fn unreached(host: &str, cards: &[Card], why: &str) -> String {
    let words = |card: &Card| format!("{} {}", card.interface, card.address);
    let cards: Vec<String> = cards.iter().map(words).collect();
    format!(
        "{host} does not reach the box's servers at {}: {why} (clients need a route to each card that serves: ip route get \
         ADDRESS there; name other interfaces = [...], or other clients)",
        cards.join(", ")
    )
}

/// The line from the clients' agent to the servers'.
#[derive(Debug)]
pub(crate) enum Line {
    /// It will be dialled by this.
    Ready(Box<Command>),
    /// It is dialled, or there.
    Dialled(#[expect(dead_code, reason = "ends when it is dropped")] Relay),
    /// There is none.
    None,
}

#[derive(Debug)]
pub(crate) struct Relay(Child);

impl Drop for Relay {
    fn drop(&mut self) {
        base::process::end(&mut self.0);
    }
}

impl Line {
    /// Dials, where that has not been done.
    pub(crate) fn dial(&mut self) -> Result<()> {
        if let Self::Ready(relay) = self {
            let nowhere = || File::options().write(true).open("/dev/null");
            relay.stdout(nowhere()?).stderr(Stdio::null());
            base::process::bind(relay);
            let started = relay.spawn().context("start the line to the box")?;
            // Its end of the socket goes with the command, so that the line closes with the relay.
            *self = Self::Dialled(Relay(started));
        }
        Ok(())
    }
}

/// Addresses of cards, in their order.
pub(crate) fn addresses(cards: &[Card]) -> Vec<Ipv4Addr> {
    cards.iter().map(|card| card.address).collect()
}
