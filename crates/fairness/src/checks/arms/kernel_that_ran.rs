//! Did each arm run the kernel that it names?

use record::verdict::fairness::Detail;
use record::verdict::warning::Warning;

use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "kernel-that-ran",
    group: Group::Arms,
    question: "Did each arm run the kernel that it names?",
    reads: "the release that each trial's kernel tells",
    passes: "arms that name different kernels ran different ones",
    why: "A boot loader that falls back on the old kernel compares it with itself.",
    mend: "look at `trials/NNN/console.log`",
    judge: Judge::Run(|subject| {
        subject.unless_warned(|warning| match warning {
            Warning::SameKernel { workload, .. } => Some(Detail::Workload {
                workload: workload.clone(),
            }),
            _ => None,
        })
    }),
};

#[cfg(test)]
mod tests {
    use crate::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn one_kernel_under_two_names_is_found() {
        assert_eq!(outcome(&super::CHECK, &whole().run()), Outcome::Pass);
        let told = warned(
            record::verdict::warning::Warning::SameKernel {
                workload: "web".into(),
                arms: vec!["6.1".into(), "7.2".into()],
            },
            &super::CHECK,
        );
        assert!(is_violation(&told));
        assert!(is_unknown(&outcome(&super::CHECK, &empty().run())));
    }
}
