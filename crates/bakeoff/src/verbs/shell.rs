//! `completions` and `man`: from the same definitions as the command line itself.

use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;

use super::End;
use crate::cli::Cli;

/// Prints completions for a shell.
pub(super) fn completions(shell: clap_complete::Shell) -> End {
    clap_complete::generate(
        shell,
        &mut Cli::command(),
        "bakeoff",
        &mut std::io::stdout(),
    );
    End::Done
}

/// Writes one man page for each verb.
pub(super) fn man(dir: &Path) -> Result<End> {
    clap_mangen::generate_to(Cli::command(), dir)
        .with_context(|| format!("cannot write man pages: {}", dir.display()))?;
    println!("{}", dir.display());
    Ok(End::Done)
}
