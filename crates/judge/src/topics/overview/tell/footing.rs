//! What stands under the verdicts, the same in all forms of the report.

use record::rundir::Run;
use record::verdict::Judgement;

use crate::topics::models::tell as models;
use crate::topics::models::tell::mitigations;
use crate::words;

/// What belongs under the verdicts: which CPU they were found on, whether they stand on another, what the machine
/// showed of itself, and what differed between the arms.
pub(crate) fn lines(run: &Run, judgement: &Judgement) -> Vec<String> {
    let mut said = models::sentences(run);
    said.extend(mitigations::line(run));
    said.extend(crate::topics::robustness::tell::one_sided(judgement));
    if !judgement.headlines.is_empty() {
        said.push(crate::topics::robustness::tell::history(judgement));
    }
    said.extend(crate::topics::defects::tell::summary(run, judgement));
    said.extend(crate::topics::differences::tell::line(judgement));
    said.extend(crate::topics::differences::tell::counts(judgement));
    if !run.profiled.is_empty() {
        said.push(format!(
            "{} run for profiles alone: sampled, not judged",
            words::counted(run.profiled.len() as u32, "more trial")
        ));
    }
    said
}
