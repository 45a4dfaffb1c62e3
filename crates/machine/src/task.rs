//! Long work that can be watched and ended: fetching, building, probing.

use std::error::Error;
use std::fmt;
use std::fs::{File, TryLockError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;

/// How far a piece of work is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress<'p> {
    /// What is being done, a lowercase fragment.
    pub what: &'p str,
    /// Share done, 0 to 1, where it is known.
    pub share: Option<f64>,
}

/// Why work ended that was asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("interrupted (run the same command again to go on)")
    }
}

impl Error for Interrupted {}

/// Who watches a piece of work and may end it.
#[derive(Clone, Copy)]
pub struct Task<'t> {
    /// Told of progress, several times a second at most.
    pub tell: &'t dyn Fn(Progress<'_>),
    /// Set by someone else to end the work soon.
    pub stop: &'t AtomicBool,
}

impl Task<'_> {
    pub(crate) fn tell(self, what: &str, share: Option<f64>) {
        (self.tell)(Progress { what, share });
    }

    /// Whether it was asked to stop.
    pub(crate) fn is_stopped(self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Locks a file for itself; while another has it, says what it waits for.
    pub(crate) fn wait_for(self, file: &File, what: &str) -> Result<()> {
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) => {
                    self.tell(what, None);
                    self.go_on()?;
                    thread::sleep(Duration::from_millis(200));
                }
                Err(TryLockError::Error(why)) => return Err(why.into()),
            }
        }
    }

    /// Ends the work with an error when it was asked to stop.
    pub fn go_on(self) -> Result<()> {
        if self.is_stopped() {
            return Err(Interrupted.into());
        }
        Ok(())
    }
}
