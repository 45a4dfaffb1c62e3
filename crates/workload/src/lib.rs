//! Workloads: a server, its data, its clients, its metrics and how answers are checked.

use record::fields::Fields;
use record::plan::WorkloadPlan;

/// Checks one `[[workload]]` table of a plan; notes mistakes and returns `None` if there are any.
pub fn check(fields: &Fields<'_>) -> Option<WorkloadPlan> {
    fields.wrong("kind", "not built yet", "");
    None
}
