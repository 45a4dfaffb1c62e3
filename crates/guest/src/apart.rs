//! Trials whose clients run on another system than the servers: two agents share a job.
//!
//! ```text
//! servers' agent (guest)   prepare, start, settle  --Ready-->  clients' agent (this host)
//!                          sampler, meter     <--Opens, Closes--  drive
//!                          figures, facts          <--Driven--
//! ```
//! They speak `record::protocol::clients` on a separate connection, beside the one that each has to the host.

pub(crate) mod counters;
pub(crate) mod driver;
mod failure;
pub(crate) mod follow;
pub(crate) mod hosted;
pub(crate) mod hosts;
mod tap;

use anyhow::Result;
use record::protocol::hosts::HostCommand;

use self::driver::Place;
use crate::channel::Channel;
use crate::session;
use crate::session::UNREPORTED;

/// Runs the clients' agent on this host; returns its exit status. Standard input is the connection to the host's
/// side of this program. Standard output is the one to the servers' agent; first it passes on `queues` queues
/// of the guest's network card.
///
/// Call it before any thread is started.
pub fn clients(build: &str, queues: u32) -> i32 {
    let make_card = || {
        let queues = tap::make(queues)?;
        tap::send_queues(rustix::stdio::stdout(), &queues)
    };
    run_clients(Place::Here("host"), build, make_card)
}

/// Runs the clients' agent for a box's servers, on this host; returns its exit status. With `hosts` it leads the
/// clients there, without it has them itself. Standard input and output are as for `clients`, but no network card is
/// made.
pub fn clients_of_box(build: &str, hosts: &[HostCommand]) -> i32 {
    let place = match hosts {
        [] => Place::Here("host"),
        hosts => Place::Hosts(hosts, build),
    };
    run_clients(place, build, || Ok(()))
}

fn run_clients(place: Place<'_>, build: &str, prepare: impl FnOnce() -> Result<()>) -> i32 {
    match std_channels().and_then(|channels| prepare().map(|()| channels)) {
        Ok((channel, servers)) => session::run_clients(channel, servers, place, build),
        Err(why) => {
            eprintln!("{why:#}");
            UNREPORTED
        }
    }
}

/// Standard input and standard output as channels.
fn std_channels() -> Result<(Channel, Channel)> {
    Ok((Channel::from_stdin()?, Channel::from_stdout()?))
}

/// Makes and removes what clients on this host need. An error says what this host lacks, with the remedy.
///
/// Call it before any thread is started.
pub fn try_clients() -> Result<()> {
    tap::make(1).map(drop)
}
