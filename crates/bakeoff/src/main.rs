//! One static binary has every role: host command, guest's first process.

use std::process::ExitCode;

use bakeoff::cli::Cli;
use bakeoff::out;
use bakeoff::verbs;
use clap::Parser;

fn main() -> ExitCode {
    if agent::is_first_process() {
        agent::init(&bakeoff::greeting::build());
    }
    let cli = Cli::parse();
    match verbs::run(&cli) {
        Ok(end) => end.into(),
        Err(why) => {
            out::error_line(&format!("bakeoff: {why:#}"));
            ExitCode::from(2)
        }
    }
}
