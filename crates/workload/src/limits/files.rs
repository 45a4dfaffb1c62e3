//! Open files of one process, each of which is read when all are open.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use anyhow::{Context, Result};

use crate::context::WorkloadContext;
use crate::limits::growth::{Grown, Growth, all_work};

/// Content of the file, to check each open file.
const CONTENT: &[u8] = b"open";

pub(super) fn reach(
    context: &WorkloadContext,
    growth: &mut Growth<'_>,
    wanted: u64,
) -> Result<Grown> {
    let path = context.write("limits-file", CONTENT)?;
    let mut files = Vec::with_capacity(wanted as usize);
    let grown = growth.grow("files", wanted, &mut |_| {
        files.push(File::open(&path)?);
        Ok(())
    })?;
    let mut working = 0;
    for file in &files {
        let mut read = [0; CONTENT.len()];
        file.read_exact_at(&mut read, 0)
            .context("read an open file")?;
        working += u64::from(read == CONTENT);
        growth.go_on(0)?;
    }
    all_work(&grown, working)?;
    Ok(grown)
}
