//! Clients in a second guest, whose kernel is the same for all arms.
//!
//! ```text
//! servers' guest (the arm's kernel)                      clients' guest (one kernel for all arms)
//!   10.77.0.1 card === QEMU ==== socket pair ==== QEMU === card 10.77.0.2
//!   servers' agent --- record::protocol::clients, socket pair --- clients' agent
//!             \------------------ this process -----------------/
//! ```
//! Without namespaces, taps or rights: unnamed socket pairs join the two guests, and end with either of them.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{ADDRESS, ClientsOfTrial, attached};
use crate::process_guest::{Limits, ProcessGuest};

/// Hardware address of the clients' card, by which their agent finds it.
const CLIENT_ADDRESS: &str = "52:54:00:77:00:02";

/// The console of the clients' guest, in the trial's directory.
const CONSOLE: &str = "clients.log";

/// Starts the clients' guest of a trial and gives the servers' guest a card that leads to it. `start` makes the command of
/// the clients' QEMU for a console.
pub(crate) fn attach(
    servers: &mut Command,
    dir: &Path,
    limits: Limits,
    start: impl FnOnce(&Path) -> Result<Command>,
) -> Result<ClientsOfTrial> {
    let console = dir.join(CONSOLE);
    let mut clients = start(&console)?;
    let pair = || UnixStream::pair().context("cannot make a socket pair");
    let ((line, other_line), (card, other_card)) = (pair()?, pair()?);
    join(servers, line, card, ADDRESS);
    join(&mut clients, other_line, other_card, CLIENT_ADDRESS);
    let agent = ProcessGuest::start("the clients' QEMU", clients, console, limits)
        .context("cannot start QEMU for the clients")?;
    Ok(ClientsOfTrial {
        agent,
        failed: None,
        vhost: None,
    })
}

/// Gives a QEMU its ends of both pairs.
fn join(qemu: &mut Command, line: UnixStream, card: UnixStream, address: &str) {
    qemu.args(arguments(line.as_raw_fd(), card.as_raw_fd(), address));
    for end in [line, card] {
        base::process::inherit(qemu, OwnedFd::from(end));
    }
}

fn arguments(line: i32, card: i32, address: &str) -> Vec<String> {
    // Packets preceded by their lengths; both QEMU 7.2 and 10 support this.
    let netdev = format!("socket,id=card,fd={card}");
    attached(line, netdev, &format!("mac={address},romfile="))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn two_guests_are_joined_by_sockets_without_a_name() {
        expect!["-netdev socket,id=card,fd=5 -device virtio-net-pci,netdev=card,mac=52:54:00:77:00:02,romfile= -chardev socket,id=clients,fd=4 -device virtserialport,chardev=clients,name=bakeoff.clients"]
            .assert_eq(&arguments(4, 5, CLIENT_ADDRESS).join(" "));
    }
}
