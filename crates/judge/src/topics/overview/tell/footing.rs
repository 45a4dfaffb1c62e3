//! Sentences below the verdicts, in all forms of the report.

use record::rundir::Run;
use record::verdict::Judgement;

use crate::topics::models::tell::mitigations;
use crate::topics::{defects, differences, models, robustness};
use crate::words;

/// The conditions of the run, and differences between the arms.
pub(crate) fn lines(run: &Run, judgement: &Judgement) -> Vec<String> {
    let mut lines = conditions(run, judgement);
    lines.extend(differences::tell::line(judgement));
    lines.extend(differences::tell::counts(judgement));
    lines.extend(profiled(run));
    lines
}

/// The CPU of the run, verdicts on other CPUs, the machine's A/A history, and defects.
pub(crate) fn conditions(run: &Run, judgement: &Judgement) -> Vec<String> {
    let mut lines = models::tell::sentences(run);
    lines.extend(mitigations::line(run));
    lines.extend(robustness::tell::one_sided(judgement));
    if !judgement.headlines.is_empty() {
        lines.push(robustness::tell::history(judgement));
    }
    lines.extend(defects::tell::summary(run, judgement));
    lines
}

/// Trials that were run for profiles alone.
pub(crate) fn profiled(run: &Run) -> Option<String> {
    let count = run.profiled.len() as u32;
    (count > 0).then(|| {
        format!(
            "{} run for profiles alone: sampled, not judged",
            words::counted(count, "more trial")
        )
    })
}
