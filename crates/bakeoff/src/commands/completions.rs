//! `completions` and `man`: made from the definition of the command line.

use std::path::Path;

use anyhow::{Context, Result};
use base::input::tree::Tree;
use clap::CommandFactory;

use super::End;
use crate::cli::Cli;
use crate::out;

/// Prints completions for a shell.
pub(super) fn completions(shell: clap_complete::Shell) -> End {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "bakeoff", &mut script);
    out::text(&String::from_utf8_lossy(&script));
    End::Done
}

/// Writes one man page for each command.
pub(super) fn man(dir: &Path) -> Result<End> {
    Tree::at(dir)
        .refuse_foreign()
        .with_context(|| format!("cannot write man pages: {}", dir.display()))?;
    // Without the commit, which a page need not name.
    let command = Cli::command().version(record::VERSION);
    clap_mangen::generate_to(command, dir)
        .with_context(|| format!("cannot write man pages: {}", dir.display()))?;
    out::line(&dir.display().to_string());
    Ok(End::Done)
}
