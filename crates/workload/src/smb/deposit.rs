//! The deposit: a file on the share that must be unchanged after the load.

use std::fs;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use record::hash::sha256;

use crate::context::WorkloadContext;
use crate::smb::samba::{client, place};
use crate::{Wrong, data};

/// Name on the share; smbtorture only works below `clients`.
const NAME: &str = "deposit";
const BYTES: usize = 4 << 20;

/// Puts the file on the share over SMB.
pub(crate) fn put(context: &WorkloadContext, stop: &AtomicBool) -> Result<()> {
    let original = context.write("smb/original", data::image(context.seed, BYTES, NAME))?;
    let command = format!("put \"{}\" {NAME}", original.display());
    client(context, &command).run_successfully(stop, &mut || {})?;
    fs::remove_file(&original).context("remove the deposit's original")
}

/// Reads the file back over SMB. Different content is `Wrong`.
pub(crate) fn check(context: &WorkloadContext, stop: &AtomicBool) -> Result<()> {
    let copy = place(context, "copy");
    let command = format!("get {NAME} \"{}\"", copy.display());
    client(context, &command).run_successfully(stop, &mut || {})?;
    let read = fs::read(&copy).with_context(|| format!("read {}", copy.display()))?;
    fs::remove_file(&copy).context("remove the deposit's copy")?;
    let expected = sha256(&data::image(context.seed, BYTES, NAME));
    let actual = sha256(&read);
    if actual != expected {
        let length = read.len();
        let what = format!(
            "file on the share did not come back as it was: {BYTES} bytes with SHA-256 {expected} were put there, \
             {length} with {actual} came back"
        );
        return Err(Wrong(what).into());
    }
    Ok(())
}
