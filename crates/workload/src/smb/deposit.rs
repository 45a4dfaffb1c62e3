//! The deposit: a file that lies on the share while others are worked on, and must come back as it was.

use std::fs;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use record::hash::sha256;

use crate::context::WorkloadContext;
use crate::smb::samba::{client, place};
use crate::{Wrong, data};

/// Its name on the share; smbtorture works below `clients` and leaves it alone.
const NAME: &str = "deposit";
const BYTES: usize = 4 << 20;

/// Puts it on the share, over SMB.
pub(crate) fn put(context: &WorkloadContext, stop: &AtomicBool) -> Result<()> {
    let original = context.write("smb/original", data::image(context.seed, BYTES, NAME))?;
    let command = format!("put \"{}\" {NAME}", original.display());
    client(context, &command).run_well(stop, &mut || {})?;
    fs::remove_file(&original).context("remove the deposit's original")
}

/// Reads it back over SMB; another content is `Wrong`.
pub(crate) fn check(context: &WorkloadContext, stop: &AtomicBool) -> Result<()> {
    let copy = place(context, "copy");
    let command = format!("get {NAME} \"{}\"", copy.display());
    client(context, &command).run_well(stop, &mut || {})?;
    let read = fs::read(&copy).with_context(|| format!("read {}", copy.display()))?;
    fs::remove_file(&copy).context("remove the deposit's copy")?;
    let right = sha256(&data::image(context.seed, BYTES, NAME));
    let found = sha256(&read);
    if found != right {
        let length = read.len();
        let what = format!(
            "file on the share did not come back as it was: {BYTES} bytes with SHA-256 {right} were put there, \
             {length} with {found} came back"
        );
        return Err(Wrong(what).into());
    }
    Ok(())
}
