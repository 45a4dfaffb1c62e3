//! `clients`: runs the clients of a trial on this host or on a client host. bakeoff itself starts this command.

use std::net::SocketAddr;

use anyhow::Result;
use machine::client_hosts;

use super::{End, host_commands};
use crate::build_id;
use crate::cli::ClientsArgs;
use crate::out;

/// Runs the clients, or a check of them. If the options ask for an agent, the process ends with it.
pub(super) fn clients(args: &ClientsArgs) -> Result<End> {
    let build = build_id::build;
    if !args.reach.is_empty() {
        return Ok(print_reached(&args.reach));
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

/// Prints whether these addresses can be reached from here.
fn print_reached(addresses: &[SocketAddr]) -> End {
    let result = client_hosts::reach(addresses);
    out::line(&result.err().unwrap_or(client_hosts::REACHED.into()));
    End::Done
}
