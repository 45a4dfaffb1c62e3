//! Trials whose clients are not on the servers' system: two agents that share a job.
//!
//! ```text
//! servers' agent (guest)   prepare, start, settle  --Ready-->  clients' agent (this host)
//!                          sampler, meter     <--Opens, Closes--  drive
//!                          figures, facts          <--Driven--
//! ```
//! They speak `record::protocol::clients` on a line of their own, beside the one that each has to the host.

pub(crate) mod counters;
pub(crate) mod driver;
mod failure;
pub(crate) mod follow;
pub(crate) mod hosted;
pub(crate) mod hosts;
mod tap;

use record::protocol::hosts::HostCommand;

use self::driver::Place;
use crate::channel::Channel;
use crate::session;
use crate::session::UNSAID;

/// The clients' agent on this host; its exit status. Standard input is the line to the host's side of this program, standard
/// output the one to the servers' agent, by which the guest's network cards are handed over first, `queues` of them.
///
/// To be called before any thread is started.
pub fn clients(build: &str, queues: u32) -> i32 {
    let start = || {
        let channel = Channel::given()?;
        let servers = Channel::given_for_servers()?;
        let cards = tap::make(queues)?;
        tap::hand_over(rustix::stdio::stdout(), &cards)?;
        anyhow::Ok((channel, servers))
    };
    match start() {
        Ok((channel, servers)) => {
            let place = Place::Here("host");
            session::hold_clients((channel, servers), (place, build), || {
                std::process::exit(UNSAID)
            })
        }
        Err(why) => {
            eprintln!("{why:#}");
            UNSAID
        }
    }
}

/// The clients' agent of a box's servers, on this host: with `hosts` it leads theirs, without it has the clients itself; its exit
/// status. Standard input and output are as for `clients`, but no network card is made.
pub fn clients_of_box(build: &str, hosts: &[HostCommand]) -> i32 {
    let opened = Channel::given().and_then(|own| Ok((own, Channel::given_for_servers()?)));
    let channels = match opened {
        Ok(channels) => channels,
        Err(why) => {
            eprintln!("{why:#}");
            return UNSAID;
        }
    };
    let place = match hosts {
        [] => Place::Here("host"),
        hosts => Place::Hosts(hosts, build),
    };
    session::hold_clients(channels, (place, build), || std::process::exit(UNSAID))
}

/// The agent of a host that clients are on, for the agent of a trial at the other end of standard input and output; its exit
/// status.
pub fn hosted(build: &str) -> i32 {
    hosted::serve(build)
}

/// Makes what clients on this host need, and nothing of it stays: an error says what this host lacks, with the remedy.
///
/// To be called before any thread is started.
pub fn try_clients() -> anyhow::Result<()> {
    tap::make(1).map(drop)
}
