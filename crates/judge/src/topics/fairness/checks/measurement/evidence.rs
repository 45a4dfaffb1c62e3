//! Is the evidence of all trials there?

use record::verdict::fairness::{Missing, Outcome};

use crate::topics::fairness::subject::Subject;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "evidence",
    group: Group::Measurement,
    question: "Is the evidence of all trials there?",
    reads: "files beside the records",
    passes: "all can be read",
    why: "A claim whose evidence is lost cannot be attacked, and so not be believed.",
    mend: "keep the run directory whole",
    judge: Judge::Run(evidence),
    foreseen: Foreseen::Nothing,
};

fn evidence(subject: &Subject<'_>) -> Outcome {
    if !subject.all_are_measured() {
        return crate::topics::fairness::subject::not_known(Missing::Trial);
    }
    if subject.run.missing.is_empty() {
        return Outcome::Pass;
    }
    let missing = subject.run.missing.iter();
    Outcome::NotKnown {
        missing: missing
            .map(|one| Missing::File {
                file: one.file.name().into(),
                trial: one.trial.number,
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
        assert_eq!(outcome(&super::CHECK, &whole().run()), Outcome::Pass);
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
