//! The plans of a nightly run, including those without a run.

use crate::night::Night;
use base::input::tree::Tree;

use crate::live::Problem;

/// A plan of a nightly run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NightPlan {
    /// Its name, and that of its run directory.
    pub name: String,
    /// Why it could not be run or finished.
    pub failure: Option<String>,
}

/// The plans of the nightly run in a directory, in their order; `None` if the directory has none.
///
/// # Errors
/// Its list cannot be read.
pub fn night(dir: impl Into<Tree>) -> Result<Option<Vec<NightPlan>>, Problem> {
    let night = Night::read(dir).map_err(|why| format!("{why:#}"))?;
    let plan = |plan: crate::night::NightPlan| NightPlan {
        name: plan.name,
        failure: plan.failure,
    };
    Ok(night.map(|night| night.plans.into_iter().map(plan).collect()))
}
