//! The static binary: the host command, and the first process of a guest.

use std::process::ExitCode;

use bakeoff::cli::Cli;
use bakeoff::commands;
use bakeoff::out;
use clap::Parser;

fn main() -> ExitCode {
    if guest::is_first_process() {
        guest::init(&bakeoff::build_id::build());
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(other) => return out::of_command_line(&other),
    };
    match commands::run(&cli) {
        Ok(end) => end.into(),
        Err(why) => {
            out::error_line(&format!("bakeoff: {}", commands::error_message(&why)));
            ExitCode::from(2)
        }
    }
}
