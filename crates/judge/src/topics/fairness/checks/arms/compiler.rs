//! Are the kernels built by the same compiler?

use std::collections::BTreeMap;

use record::fact;
use record::verdict::fairness::{Declaration, Detail, Outcome};
use record::verdict::weighed::Seen;

use crate::topics::fairness::subject::{Subject, kernels_differ, not_told};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "compiler",
    group: Group::Arms,
    question: "Are the kernels built by the same compiler?",
    reads: "`/proc/version`",
    passes: "the same compiler and version; what comes with different kernels is declared",
    why: "A compiler's version moves kernels by single percents, and a patch is not to be praised for it.",
    mend: "build both kernels with one compiler, or say that products are compared",
    judge: Judge::Run(compiler),
    foreseen: Foreseen::Nothing,
};

fn compiler(subject: &Subject<'_>) -> Outcome {
    let (told, silent) =
        subject.by_arm(|facts| compiler_of(facts.values.get(fact::KERNEL_VERSION)?));
    let varying = told.iter().filter(|(_, seen)| seen.len() > 1);
    let varying: Vec<Detail> = varying
        .map(|(arm, seen)| Detail::Varies {
            fact: "compiler".into(),
            arm: (*arm).into(),
            values: seen.clone(),
        })
        .collect();
    if !varying.is_empty() {
        return Outcome::Violation { details: varying };
    }
    let most = |seen: &Vec<Seen>| Some(seen.first()?.value.clone());
    let values: BTreeMap<String, Option<String>> = told
        .iter()
        .filter_map(|(arm, seen)| Some(((*arm).into(), most(seen)?)))
        .collect();
    let mut each = values.values();
    let first = each.next();
    let is_same = each.all(|one| Some(one) == first);
    let is_brought = kernels_differ(&subject.run.plan);
    if !silent.is_empty() && (is_same || is_brought) {
        return not_told(subject, fact::KERNEL_VERSION, &silent);
    }
    if is_same {
        return Outcome::Pass;
    }
    let details = vec![Detail::Differs {
        fact: "compiler".into(),
        values,
    }];
    if is_brought {
        let by = Declaration::Kernel;
        return Outcome::Declared { by, details };
    }
    Outcome::Violation { details }
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
        assert_eq!(outcome(&super::CHECK, &same.run()), Outcome::Pass);
        let other = OLD.replace("gcc-12 (Debian 12.2) 12.2", "gcc-14 (Debian 14.2) 14.2");
        let differs = || two_arms("/proc/version", [OLD, &other]);
        assert!(is_declared(&outcome(&super::CHECK, &differs().run())));
        let of_one_kernel = differs().with(one_kernel);
        assert!(is_violation(&outcome(&super::CHECK, &of_one_kernel.run())));
        assert!(is_unknown(&outcome(&super::CHECK, &whole().run())));
    }
}
