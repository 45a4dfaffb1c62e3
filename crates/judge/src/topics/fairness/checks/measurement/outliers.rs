//! No arm has more outliers than chance explains.

use record::verdict::fairness::Quantity;
use record::verdict::finding::Kind;

use crate::topics::fairness::subject::beyond;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "outliers",
    group: Group::Measurement,
    must_hold: "No arm has more outliers than chance explains.",
    why: "The median hides an arm that is slow in one boot of five.",
    mend: "Run more blocks, or read `bakeoff why RUN --within ARM`.",
    reads: "trials far worse than those around them",
    judge: Judge::Run(|subject| {
        subject.unless_found(|finding| match finding.kind {
            Kind::Outliers { outliers, .. } => Some(beyond(
                &finding.workload,
                &finding.arm,
                Quantity::Outliers,
                outliers.arm.into(),
                outliers.baseline.into(),
            )),
            _ => None,
        })
    }),
    foreseen: Foreseen::ByDisturbances,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn uneven_outliers_are_found() {
        assert_eq!(outcome(&CHECK, &whole().run()), Outcome::Passed);
        let outliers = Kind::Outliers {
            metric: "throughput".into(),
            outliers: record::verdict::Outliers {
                arm: 5,
                baseline: 0,
                p_value: 0.01,
            },
        };
        assert!(is_failed(&found(outliers, &CHECK)));
        assert!(is_unknown(&outcome(&CHECK, &empty().run())));
    }
}
