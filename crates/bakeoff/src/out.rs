//! Standard output and standard error of a Unix filter: who closes the pipe ends the program, quietly.
//!
//! Rust's runtime ignores SIGPIPE, which is right for sockets, whose peers come and go; but `println!` panics where it
//! cannot write. So all text goes through here. A reader that is gone ends bakeoff by SIGPIPE, as it ends `cat`. A run
//! that ends so can be gone on with, and its guests end with it by their parent-death signal.

use std::io::{self, ErrorKind, IsTerminal as _, Write};
use std::process::ExitCode;

use base::input::text::{escaped, escaped_json};
use signal_hook::consts::SIGPIPE;

/// Status of a command that was not done.
const NOT_DONE: u8 = 2;

/// What a shell reports of a program that ended by SIGPIPE.
const ENDED_BY_SIGPIPE: i32 = 128 + SIGPIPE;

/// Prints text on standard output. It may quote a file that anybody wrote, so a terminal is given nothing to obey.
pub fn text(text: &str) {
    write(io::stdout().lock(), &escaped(text));
}

/// Prints JSON on standard output, as a line.
pub fn json(text: &str) {
    write(io::stdout().lock(), &format!("{}\n", escaped_json(text)));
}

/// Prints a line on standard output.
pub fn line(line: &str) {
    text(&format!("{line}\n"));
}

/// Prints a line on standard error. It may quote a file that anybody wrote, so a terminal is given nothing to obey.
pub fn error_line(line: &str) {
    write(io::stderr().lock(), &format!("{}\n", escaped(line)));
}

/// Prints help, a version, or what is wrong with a command line. clap's own printing passes over a device that is full.
pub fn of_command_line(found: &clap::Error) -> ExitCode {
    let styled = found.render();
    if found.use_stderr() {
        let is_plain = !io::stderr().is_terminal();
        write(io::stderr().lock(), &shown(&styled, is_plain));
        return ExitCode::from(NOT_DONE);
    }
    let is_plain = !io::stdout().is_terminal();
    write(io::stdout().lock(), &shown(&styled, is_plain));
    ExitCode::SUCCESS
}

fn shown(styled: &clap::builder::StyledStr, is_plain: bool) -> String {
    let has_no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if is_plain || has_no_color {
        styled.to_string()
    } else {
        styled.ansi().to_string()
    }
}

fn write(mut to: impl Write, text: &str) {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Ok(()) => {}
        Err(why) if why.kind() == ErrorKind::BrokenPipe => end(),
        Err(why) => {
            // If this fails too, there is nobody left to tell.
            let _ = writeln!(io::stderr(), "bakeoff: {}", not_written(&why));
            std::process::exit(NOT_DONE.into());
        }
    }
}

fn not_written(why: &io::Error) -> String {
    format!(
        "cannot write to standard output: {why} (give it a file or a pipe that takes all of it)"
    )
}

/// Ends as a program does that does not ignore SIGPIPE.
fn end() -> ! {
    // It returns only where the signal could not be raised.
    let _ = signal_hook::low_level::emulate_default_handler(SIGPIPE);
    std::process::exit(ENDED_BY_SIGPIPE);
}
