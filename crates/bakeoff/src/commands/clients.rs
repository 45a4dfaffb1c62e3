//! The clients of a trial on this host or on one that clients are on, which bakeoff itself starts.

use std::net::SocketAddr;

use anyhow::Result;
use machine::client_hosts;

use super::{End, host_commands};
use crate::build_id;
use crate::cli::ClientsArgs;
use crate::out;

/// Does what the options ask for; where they ask for an agent, the process ends with it.
pub(super) fn clients(args: &ClientsArgs) -> Result<End> {
    let build = build_id::build;
    if !args.reach.is_empty() {
        return Ok(say_reached(&args.reach));
    }
    if args.of_box {
        let hosts = host_commands(args.hosts.as_deref())?;
        std::process::exit(guest::clients_of_box(&build(), &hosts));
    }
    if args.hosted {
        std::process::exit(guest::hosted(&build()));
    }
    if args.is_trial {
        return Ok(match guest::try_clients() {
            Ok(()) => End::Done,
            Err(why) => {
                out::error_line(&format!("{why:#}"));
                End::Refused
            }
        });
    }
    std::process::exit(guest::clients(&build(), args.queues))
}

/// Says whether these addresses can be reached from here.
fn say_reached(addresses: &[SocketAddr]) -> End {
    let said = client_hosts::reach(addresses);
    out::line(&said.err().unwrap_or(client_hosts::REACHED.into()));
    End::Done
}
