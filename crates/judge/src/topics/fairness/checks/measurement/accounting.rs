//! Are string instructions counted as they were executed?

use record::verdict::fairness::{Detail, Outcome};
use record::verdict::finding::Kind;

use crate::topics::fairness::subject::Subject;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "accounting",
    group: Group::Measurement,
    question: "Are string instructions counted as they were executed?",
    reads: "what each trial executed in its window, as its record has it",
    passes: "every trial has counts of its string instructions, which are charged by their bytes, or time is the wall clock's",
    why: "This program itself once counted each iteration of `rep stosb` as an instruction, 4096 for a page: Samba seemed 9.2 % faster under 7.2.",
    mend: "run it again",
    judge: Judge::Run(accounting),
    foreseen: Foreseen::Nothing,
};

fn accounting(subject: &Subject<'_>) -> Outcome {
    if subject.run.opening.ns_per_instruction.is_none() {
        return Outcome::NotApplicable;
    }
    subject.unless_found(|finding| match finding.kind {
        Kind::UnchargedStrings => Some(Detail::Workload {
            workload: String::new(),
        }),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;
    use record::verdict::finding::{Finding, Kind};

    #[test]
    fn the_accounting_of_before_is_found() {
        assert_eq!(
            outcome(&super::CHECK, &whole().run()),
            Outcome::NotApplicable
        );
        let counted = || whole().with(|run| run.opening.ns_per_instruction = Some(2));
        assert_eq!(outcome(&super::CHECK, &counted().run()), Outcome::Pass);
        let before = counted().run();
        let uncharged = Finding::new("", "", Kind::UnchargedStrings);
        assert!(is_violation(&with_finding(
            &before,
            uncharged,
            &super::CHECK
        )));
        let empty = empty().with(|run| run.opening.ns_per_instruction = Some(2));
        assert!(is_unknown(&outcome(&super::CHECK, &empty.run())));
    }
}
