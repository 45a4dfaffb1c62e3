//! The program under test.

use std::path::Path;
use std::process::{Command, Output};

/// The program with its arguments, to be started in a directory.
pub(crate) fn command(dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    command.args(words).current_dir(dir);
    command
}

/// How it ends, and what it prints.
pub(crate) fn bakeoff(dir: &Path, words: &[&str]) -> Output {
    let output = command(dir, words).output();
    output.expect("the binary under test runs")
}

/// The same with a cache of its own, empty at first.
pub(crate) fn bakeoff_with_new_cache(dir: &Path, words: &[&str]) -> Output {
    let mut command = command(dir, words);
    command.env("XDG_CACHE_HOME", dir.join("cache"));
    command.output().expect("the binary under test runs")
}
