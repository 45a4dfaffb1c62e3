//! All files of all trials can be read.

use record::verdict::fairness::{Missing, Outcome};

use crate::topics::fairness::subject::Subject;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "evidence",
    group: Group::Measurement,
    must_hold: "All files of all trials can be read.",
    why: "Nobody can check a claim without its evidence.",
    mend: "Keep the whole run directory.",
    reads: "the files beside the records",
    judge: Judge::Run(evidence),
    foreseen: Foreseen::Nothing,
};

fn evidence(subject: &Subject<'_>) -> Outcome {
    if !subject.all_are_measured() {
        return crate::topics::fairness::subject::unknown(Missing::Trial);
    }
    if subject.run.missing.is_empty() {
        return Outcome::Passed;
    }
    let missing = subject.run.missing.iter();
    Outcome::Unknown {
        missing: missing
            .map(|damage| Missing::File {
                file: damage.file.name().into(),
                trial: damage.trial.number,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn lost_files_do_not_pass() {
        assert_eq!(outcome(&super::CHECK, &whole().run()), Outcome::Passed);
        let lost = whole().with(|run| {
            run.missing.push(record::rundir::MissingEvidence {
                trial: run.attempts[0].trial.clone(),
                attempt: 1,
                file: record::evidence::EvidenceFile::Facts,
                damage: record::evidence::Damage::Lost,
            });
        });
        assert!(is_unknown(&outcome(&super::CHECK, &lost.run())));
    }
}
