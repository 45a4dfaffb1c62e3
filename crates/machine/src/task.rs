//! Progress and interruption of long work: fetching, building, probing.

use std::error::Error;
use std::fmt;
use std::fs::{File, TryLockError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;

/// Progress of a piece of work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress<'p> {
    /// The present step, a lowercase fragment.
    pub what: &'p str,
    /// Share done, 0 to 1, if known.
    pub share: Option<f64>,
}

/// The error of work that was asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("interrupted (run the same command again to go on)")
    }
}

impl Error for Interrupted {}

impl Interrupted {
    /// Fails if the work was asked to stop.
    ///
    /// # Errors
    /// The flag is set.
    pub fn check(stop: &AtomicBool) -> Result<(), Self> {
        if stop.load(Ordering::Relaxed) {
            return Err(Self);
        }
        Ok(())
    }
}

/// How a piece of work reports progress, and how to stop it.
#[derive(Clone, Copy)]
pub struct Task<'t> {
    /// Receives progress, at most several times a second.
    pub tell: &'t dyn Fn(Progress<'_>),
    /// Set by the caller to stop the work soon.
    pub stop: &'t AtomicBool,
}

impl<'t> Task<'t> {
    /// A task that reports no progress.
    pub(crate) fn silent(stop: &'t AtomicBool) -> Self {
        Self {
            tell: &|_| {},
            stop,
        }
    }
}

impl Task<'_> {
    pub(crate) fn tell(self, what: &str, share: Option<f64>) {
        (self.tell)(Progress { what, share });
    }

    pub(crate) fn is_stopped(self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Locks a file. While another process has the lock, reports `what` as the present step.
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

    /// Fails if the work was asked to stop.
    pub fn go_on(self) -> Result<()> {
        Ok(Interrupted::check(self.stop)?)
    }
}
