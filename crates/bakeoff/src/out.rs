//! Prints to standard output and standard error like a Unix filter: if the reader closes the pipe, the program ends quietly.
//!
//! Rust's runtime ignores SIGPIPE. That is right for sockets, but `println!` panics if it cannot write. So all text is printed
//! by this module, and a closed pipe ends bakeoff by SIGPIPE, as it ends `cat`. Such a run can be resumed, and its guests end
//! with it by their parent-death signal.

use std::io::{self, ErrorKind, IsTerminal as _, Write};
use std::process::ExitCode;

use base::input::text::{escaped, escaped_json};
use signal_hook::consts::SIGPIPE;

/// Exit status of a failed command.
const NOT_DONE: u8 = 2;

/// The exit status that a shell reports for a program that SIGPIPE ended.
const ENDED_BY_SIGPIPE: i32 = 128 + SIGPIPE;

/// Prints text on standard output. The text may quote untrusted files, so control characters are escaped.
pub fn text(text: &str) {
    write(io::stdout().lock(), &escaped(text));
}

/// Prints text of `doc::terminal` on standard output. It may be coloured, and the renderer has escaped what untrusted files hold.
pub fn coloured(text: &str) {
    write(io::stdout().lock(), text);
}

/// Whether standard output shows colours.
pub fn has_colour() -> bool {
    io::stdout().is_terminal() && !is_without_colour()
}

/// Prints JSON on standard output, as a line.
pub fn json(text: &str) {
    write(io::stdout().lock(), &format!("{}\n", escaped_json(text)));
}

/// Prints a line on standard output.
pub fn line(line: &str) {
    text(&format!("{line}\n"));
}

/// Prints a line on standard error. The line may quote untrusted files, so control characters are escaped.
pub fn error_line(line: &str) {
    write(io::stderr().lock(), &format!("{}\n", escaped(line)));
}

/// Prints help, a version, or an error of the command line. clap's own printing ignores write errors.
pub fn of_command_line(error: &clap::Error) -> ExitCode {
    let styled = error.render();
    if error.use_stderr() {
        let is_plain = !io::stderr().is_terminal();
        write(io::stderr().lock(), &render(&styled, is_plain));
        return ExitCode::from(NOT_DONE);
    }
    let is_plain = !io::stdout().is_terminal();
    write(io::stdout().lock(), &render(&styled, is_plain));
    ExitCode::SUCCESS
}

fn render(styled: &clap::builder::StyledStr, is_plain: bool) -> String {
    if is_plain || is_without_colour() {
        styled.to_string()
    } else {
        styled.ansi().to_string()
    }
}

/// Whether the user wants no colours (no-color.org).
fn is_without_colour() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

fn write(mut to: impl Write, text: &str) {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Ok(()) => {}
        Err(why) if why.kind() == ErrorKind::BrokenPipe => end_by_sigpipe(),
        Err(why) => {
            // If this fails too, the error cannot be reported.
            let _ = writeln!(
                io::stderr(),
                "bakeoff: cannot write to standard output: {why} (give it a file or a pipe that takes all of it)"
            );
            std::process::exit(NOT_DONE.into());
        }
    }
}

/// Ends like a program that does not ignore SIGPIPE.
fn end_by_sigpipe() -> ! {
    // This returns only if the signal could not be raised.
    let _ = signal_hook::low_level::emulate_default_handler(SIGPIPE);
    std::process::exit(ENDED_BY_SIGPIPE);
}
