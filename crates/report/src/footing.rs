//! What stands under the verdicts, the same in all forms of the report.

use record::rundir::Run;

use crate::{mitigations, models, words};

/// What belongs under the verdicts: which CPU they were found on, and whether they stand on another.
pub(crate) fn lines(run: &Run) -> Vec<String> {
    let mut said = models::sentences(run);
    said.extend(mitigations::line(run));
    if !run.profiled.is_empty() {
        said.push(format!(
            "{} run for profiles alone: sampled, not judged",
            words::counted(run.profiled.len() as u32, "more trial")
        ));
    }
    said
}
