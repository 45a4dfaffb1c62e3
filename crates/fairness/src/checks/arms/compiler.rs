//! Are the kernels built by the same compiler?

use std::collections::BTreeMap;

use record::verdict::fairness::{Declaration, Detail, Outcome};

use crate::subject::{Subject, kernels_differ, without};
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "compiler",
    group: Group::Arms,
    question: "Are the kernels built by the same compiler?",
    reads: "`/proc/version`",
    passes: "the same compiler and version; what comes with different kernels is declared",
    why: "A compiler's version moves kernels by single percents, and a patch is not to be praised for it.",
    mend: "build both kernels with one compiler, or say that products are compared",
    judge: Judge::Run(compiler),
};

fn compiler(subject: &Subject<'_>) -> Outcome {
    let told = subject.by_arm(|facts| compiler_of(facts.values.get("/proc/version")?));
    if told.len() < subject.run.plan.arms.len() {
        return without("/proc/version");
    }
    let mut each = told.values();
    let first = each.next();
    if each.all(|one| Some(one) == first) {
        return Outcome::Pass;
    }
    let values: BTreeMap<_, _> = told
        .iter()
        .map(|(arm, text)| ((*arm).to_string(), Some((*text).to_string())))
        .collect();
    let details = vec![Detail::Differs {
        fact: "compiler".into(),
        values,
    }];
    if kernels_differ(&subject.run.plan) {
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
    use crate::tests::*;
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
