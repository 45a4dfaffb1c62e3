//! Had the server settled before it was measured?

use record::verdict::fairness::Quantity;

use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "settled",
    group: Group::Work,
    question: "Had the server settled before it was measured?",
    reads: "rate in the last third of the window over that in the first",
    passes: "within 10 %, or as near as chance explains",
    why: "Caches, JIT compilers and connection pools warm up; two arms at different points of that are not compared.",
    mend: "a longer `warmup`",
    judge: Judge::Run(|subject| subject.unless_beyond(Quantity::Drift)),
    foreseen: Foreseen::ByDisturbances,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::fairness::tests::quantity_is_watched;

    #[test]
    fn a_rate_that_climbs_is_found() {
        quantity_is_watched(&CHECK, Quantity::Drift);
    }
}
