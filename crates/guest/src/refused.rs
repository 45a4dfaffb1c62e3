//! A setting that an arm asks for, and its kernel has not or does not take.

use std::error::Error;
use std::fmt;

/// The trial is void for the plan's sake, not for what the agent could not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) String);

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl Error for Refused {}
