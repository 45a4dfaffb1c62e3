//! A setting that the arm names and its kernel lacks or rejects.

use std::error::Error;
use std::fmt;

/// Why the setting was refused. The trial is void because of the plan, not because the agent failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) String);

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl Error for Refused {}
