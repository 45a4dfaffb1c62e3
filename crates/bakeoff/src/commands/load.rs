//! `load`: the load generator alone, on a server that is there already.

use crate::load_cli::{LoadArgs, Program};
use anyhow::Result;

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
    match crate::load_cli::run(args, json, &program)? {
        crate::load_cli::End::Whole => Ok(End::Done),
        crate::load_cli::End::HostsLost => Ok(End::Refused),
    }
}
