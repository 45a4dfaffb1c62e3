//! Sentences below the verdicts, in all forms of the report.

use record::rundir::Run;
use record::verdict::Judgement;

use crate::topics::models::tell::mitigations;
use crate::topics::{defects, differences, models, robustness};
use crate::words;

/// The CPU of the run, verdicts on other CPUs, the machine's A/A history, defects, and differences between the arms.
pub(crate) fn lines(run: &Run, judgement: &Judgement) -> Vec<String> {
    let mut lines = models::tell::sentences(run);
    lines.extend(mitigations::line(run));
    lines.extend(robustness::tell::one_sided(judgement));
    if !judgement.headlines.is_empty() {
        lines.push(robustness::tell::history(judgement));
    }
    lines.extend(defects::tell::summary(run, judgement));
    lines.extend(differences::tell::line(judgement));
    lines.extend(differences::tell::counts(judgement));
    if !run.profiled.is_empty() {
        lines.push(format!(
            "{} run for profiles alone: sampled, not judged",
            words::counted(run.profiled.len() as u32, "more trial")
        ));
    }
    lines
}
