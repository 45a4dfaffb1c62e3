//! Every trial counts string instructions by their bytes, or uses wall-clock time.

use record::verdict::fairness::{Detail, Outcome};
use record::verdict::finding::Kind;

use crate::topics::fairness::subject::Subject;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "accounting",
    group: Group::Measurement,
    must_hold: "Every trial counts string instructions by their bytes, or uses wall-clock time.",
    why: "bakeoff once counted 4096 instructions for a `rep stosb` of one page. Samba seemed 9.2 % faster under 7.2.",
    mend: "Run it again.",
    reads: "the instructions of each trial's window",
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
        assert_eq!(outcome(&super::CHECK, &counted().run()), Outcome::Passed);
        let before = counted().run();
        let uncharged = Finding::new("", "", Kind::UnchargedStrings);
        assert!(is_failed(&with_finding(&before, uncharged, &super::CHECK)));
        let empty = empty().with(|run| run.opening.ns_per_instruction = Some(2));
        assert!(is_unknown(&outcome(&super::CHECK, &empty.run())));
    }
}
