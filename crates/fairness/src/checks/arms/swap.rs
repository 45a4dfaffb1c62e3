//! Do all arms have the same swap?

use crate::equal::{Cause, equal};
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "swap",
    group: Group::Arms,
    question: "Do all arms have the same swap?",
    reads: "`/proc/swaps`",
    passes: "all arms have the same",
    why: "An arm that swaps is measured by its disk.",
    mend: "give all arms the same swap, or none",
    judge: Judge::Run(|subject| equal(subject, &FACTS, Cause::None)),
};

const FACTS: [&str; 2] = ["/proc/swaps", "/proc/meminfo:SwapTotal"];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::tests::arms_must_agree(&super::CHECK, "/proc/swaps");
    }
}
