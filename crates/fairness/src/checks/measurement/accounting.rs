//! Are string instructions counted as they were executed?

use record::verdict::fairness::{Detail, Outcome};
use record::verdict::warning::Warning;

use crate::subject::Subject;
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "accounting",
    group: Group::Measurement,
    question: "Are string instructions counted as they were executed?",
    reads: "the journal's note of how a REP instruction is counted",
    passes: "the run was measured with fast strings off, or by the wall clock",
    why: "This program itself once counted a page cleared by `rep stosb` as 4096 instructions: Samba seemed 9.2 % faster under 7.2, and is equivalent as it is counted now.",
    mend: "run it again",
    judge: Judge::Run(accounting),
};

fn accounting(subject: &Subject<'_>) -> Outcome {
    if subject.run.opening.ns_per_instruction.is_none() {
        return Outcome::NotApplicable;
    }
    subject.unless_warned(|warning| match warning {
        Warning::RepPerByte => Some(Detail::Workload {
            workload: String::new(),
        }),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use crate::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn the_accounting_of_before_is_found() {
        assert_eq!(
            outcome(&super::CHECK, &whole().run()),
            Outcome::NotApplicable
        );
        let counted = || whole().with(|run| run.opening.ns_per_instruction = Some(2));
        assert_eq!(outcome(&super::CHECK, &counted().run()), Outcome::Pass);
        let before = counted().with(|run| run.opening.accounting = None).run();
        let judgement = record::verdict::Judgement {
            warnings: vec![record::verdict::warning::Warning::RepPerByte],
            ..judged(&before)
        };
        assert!(is_violation(&outcome_of(
            &super::CHECK,
            &before,
            &judgement
        )));
        let empty = empty().with(|run| run.opening.ns_per_instruction = Some(2));
        assert!(is_unknown(&outcome(&super::CHECK, &empty.run())));
    }
}
