//! Processes, each of which answers when it starts and again when all exist.

use anyhow::{Context, Result};
use base::process::VmClones;

use crate::context::WorkloadContext;
use crate::limits::growth::{Grown, Growth, all_work};

pub(super) fn reach(_: &WorkloadContext, growth: &mut Growth<'_>, wanted: u64) -> Result<Grown> {
    let mut clones = VmClones::with_room_for(wanted as usize).context("room for processes")?;
    let mut highest = 0;
    let mut grown = growth.grow("processes", wanted, &mut |_| {
        highest = highest.max(clones.start()?);
        Ok(())
    })?;
    let working = clones.release().context("hear from all processes")?;
    all_work(&grown, working as u64)?;
    grown.facts.push(("highest-pid", highest.to_string()));
    Ok(grown)
}
