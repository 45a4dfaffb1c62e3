//! The machine has an earlier A/A run, and its e-value stays below 100.

use record::verdict::fairness::{Outcome, Quantity};
use record::verdict::host::History;

use crate::topics::fairness::subject::{Subject, beyond, unless, without};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

/// The e-value that one sound machine in a hundred ever reaches.
const FAILED: f64 = 100.0;

pub(crate) const CHECK: Check = Check {
    id: "a-a-history",
    group: Group::Measurement,
    must_hold: "The machine has an earlier A/A run, and its e-value stays below 100.",
    why: "A machine that finds a difference where there is none proves nothing here.",
    mend: "Find what favours an arm or a place in the block. `bakeoff run PLAN --a-a` compares the baseline with itself.",
    reads: "earlier A/A runs of the machine (`a-a.json` of the run)",
    judge: Judge::Run(a_a_history),
    foreseen: Foreseen::Nothing,
};

fn a_a_history(subject: &Subject<'_>) -> Outcome {
    match &subject.judgement.a_a {
        History::NotKnown | History::None => without("A/A runs of this machine"),
        History::Known {
            e_value,
            e_value_of_blocks,
            has_failed,
            ..
        } => unless(
            has_failed
                .then(|| {
                    let evidence = e_value.max(*e_value_of_blocks);
                    beyond("", "", Quantity::Evidence, evidence, FAILED)
                })
                .into_iter()
                .collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::fairness::tests::*;

    fn found(a_a: History) -> Outcome {
        let run = whole().run();
        let judgement = record::verdict::Judgement {
            a_a,
            ..judged(&run)
        };
        outcome_of(&CHECK, &run, &judgement)
    }

    #[test]
    fn a_machine_that_favours_an_arm_is_found_and_one_without_a_history_does_not_pass() {
        let known = |has_failed: bool| History::Known {
            runs: 7,
            blocks: 56,
            told_apart: if has_failed { 5 } else { 0 },
            e_value: if has_failed { 400.0 } else { 0.6 },
            e_value_of_blocks: 1.2,
            has_failed,
        };
        assert_eq!(found(known(false)), Outcome::Passed);
        assert!(is_failed(&found(known(true))));
        assert!(is_unknown(&found(History::None)) && is_unknown(&found(History::NotKnown)));
    }
}
