//! The state of a run directory while it is being written. Files are read incrementally and never changed.
//!
//! ```text
//! tail      lines added to a file since the last read
//! curve     throughput, failures and latency of one attempt, second by second
//! attempts  the attempts so far, from the journal
//! left      remaining time of the run
//! defects   defects of an attempt so far
//! runs      the runs below a directory
//! night     the plans of a nightly run, with and without a run
//! watched   one run: all of the above, and its judgement
//! ```
//! A directory may be locked by a run, half written, damaged, or removed between two reads. Each of these is a state or a [`Problem`], and
//! never ends the program that watches. The caller supplies judging and time ([`Callbacks`]), so this module needs no statistics, and tests need
//! no clock.

mod attempts;
mod curve;
mod defects;
mod left;
mod night;
mod runs;
mod tail;
mod watched;

use std::time::{Duration, SystemTime};

use crate::rundir::Run;
use crate::verdict::Judgement;
use plan::WorkloadPlan;
use plan::fields::Fields;

pub use attempts::{Activity, Attempt};
pub use curve::{Curve, Point};
pub use defects::Seen;
pub use left::{Basis, Left};
pub use night::{NightPlan, night};
pub use runs::directories;
pub use watched::{ArmNow, Problem, Snapshot, State, Watched};

/// Functions supplied by the caller.
#[derive(Clone, Copy)]
pub struct Callbacks {
    /// Checks a workload of a plan.
    pub check: fn(&Fields<'_>) -> Option<WorkloadPlan>,
    /// Judges a run, which need not be over.
    pub judge: fn(&Run) -> Judgement,
    /// Returns the wall-clock time.
    pub now: fn() -> SystemTime,
    /// Returns monotonic time, to measure the cost of judging.
    pub clock: fn() -> Duration,
}

/// Interval between reads of a directory.
pub const PACE: Duration = Duration::from_secs(1);

/// The interval while trials run on this host, as watching disturbs them.
pub const MEASURED_PACE: Duration = Duration::from_secs(5);
