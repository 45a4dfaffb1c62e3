//! `load`: the load generator alone, on a server that is there already.

use anyhow::Result;
use load_cli::{LoadArgs, Program};

use super::{End, watch_signals};
use crate::{build_id, out};

/// Runs the load and says what the clients saw.
pub(super) fn load(args: &LoadArgs, json: bool) -> Result<End> {
    let program = Program {
        build: build_id::build(),
        print: out::text,
        print_error_line: out::error_line,
        watch_signals,
    };
    match load_cli::run(args, json, &program)? {
        load_cli::End::Whole => Ok(End::Done),
        load_cli::End::HostsLost => Ok(End::Refused),
    }
}
