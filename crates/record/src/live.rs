//! What a run directory says now, while it is being written: read piece by piece, never changed, and put into words elsewhere.
//!
//! ```text
//! tail      lines that were added to a file since it was last looked at
//! curve     throughput, failures and latency of one attempt, second by second
//! attempts  which attempts there are, from the journal
//! left      how long the run will take
//! defects   what an attempt has told of defects
//! runs      which runs there are below a directory
//! night     which plans a night has, with and without a run
//! watched   one run: all of the above, and what is judged of it
//! ```
//! A directory may be locked by a run, half written, damaged, or gone from one look to the next. Each of these is a state or a
//! [`Problem`], never the end of who watches. How a run is judged comes in from outside ([`Eyes`]), so that this room knows no
//! statistics; time comes in too, so that tests need none.

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

/// What is not this room's to know.
#[derive(Clone, Copy)]
pub struct Eyes {
    /// Checks a workload of a plan.
    pub check: fn(&Fields<'_>) -> Option<WorkloadPlan>,
    /// Judges a run that need not be over.
    pub look: fn(&Run) -> Judgement,
    /// The time of day.
    pub now: fn() -> SystemTime,
    /// Time that only goes on; what judging costs is measured with it.
    pub clock: fn() -> Duration,
}

/// How often a directory is looked at.
pub const PACE: Duration = Duration::from_secs(1);

/// How often where the run is measured on this very host: who watches is then one of the things that disturb it.
pub const MEASURED_PACE: Duration = Duration::from_secs(5);
