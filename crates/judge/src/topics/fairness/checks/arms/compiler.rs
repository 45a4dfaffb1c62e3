//! The same compiler version built all kernels.

use std::collections::BTreeMap;

use record::fact;
use record::verdict::fairness::{AcceptedBy, Detail, Outcome};
use record::verdict::weighed::Seen;

use crate::topics::fairness::subject::{Subject, kernels_differ, not_reported};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "compiler",
    group: Group::Arms,
    must_hold: "The same compiler version built all kernels. A difference that comes with the kernels is accepted.",
    why: "A compiler version changes a kernel's speed by a few percent. That is no merit of a patch.",
    mend: "Build all kernels with one compiler.",
    reads: "`/proc/version`",
    judge: Judge::Run(compiler),
    foreseen: Foreseen::Nothing,
};

fn compiler(subject: &Subject<'_>) -> Outcome {
    let (by_arm, silent) =
        subject.by_arm(|facts| compiler_of(facts.values.get(fact::KERNEL_VERSION)?));
    let varying = by_arm.iter().filter(|(_, seen)| seen.len() > 1);
    let varying: Vec<Detail> = varying
        .map(|(arm, seen)| Detail::Varies {
            fact: "compiler".into(),
            arm: (*arm).into(),
            values: seen.clone(),
        })
        .collect();
    if !varying.is_empty() {
        return Outcome::Failed { details: varying };
    }
    let most = |seen: &Vec<Seen>| Some(seen.first()?.value.clone());
    let values: BTreeMap<String, Option<String>> = by_arm
        .iter()
        .filter_map(|(arm, seen)| Some(((*arm).into(), most(seen)?)))
        .collect();
    let mut each = values.values();
    let first = each.next();
    let is_same = each.all(|compiler| Some(compiler) == first);
    let is_brought = kernels_differ(&subject.run.plan);
    if !silent.is_empty() && (is_same || is_brought) {
        return not_reported(subject, fact::KERNEL_VERSION, &silent);
    }
    if is_same {
        return Outcome::Passed;
    }
    let details = vec![Detail::Differs {
        fact: "compiler".into(),
        values,
    }];
    if is_brought {
        let by = AcceptedBy::Kernel;
        return Outcome::Accepted { by, details };
    }
    Outcome::Failed { details }
}

/// The second pair of brackets of `Linux version 6.1 (who@where) (gcc (Debian) 12.2, GNU ld 2.40) #1`, up to its comma.
pub(crate) fn compiler_of(version: &str) -> Option<&str> {
    let rest = version.split_once(") (")?.1;
    Some(rest.split_once(", GNU ld").or(rest.split_once(", LLD"))?.0)
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;

    const OLD: &str =
        "Linux version 6.1.0 (a@b) (gcc-12 (Debian 12.2) 12.2, GNU ld (2.40) 2.40) #1 SMP";

    #[test]
    fn another_compiler_is_found() {
        let same = two_arms("/proc/version", [OLD, &OLD.replace("6.1.0", "7.2.0")]);
        assert_eq!(outcome(&super::CHECK, &same.run()), Outcome::Passed);
        let other = OLD.replace("gcc-12 (Debian 12.2) 12.2", "gcc-14 (Debian 14.2) 14.2");
        let differs = || two_arms("/proc/version", [OLD, &other]);
        assert!(is_accepted(&outcome(&super::CHECK, &differs().run())));
        let of_one_kernel = differs().with(one_kernel);
        assert!(is_failed(&outcome(&super::CHECK, &of_one_kernel.run())));
        assert!(is_unknown(&outcome(&super::CHECK, &whole().run())));
    }
}
