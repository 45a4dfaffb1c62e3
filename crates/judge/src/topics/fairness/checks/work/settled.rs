//! The rate in the window's last third is within 10 % of the first third, or within chance.

use record::verdict::fairness::Quantity;

use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "settled",
    group: Group::Work,
    must_hold: "The rate in the window's last third is within 10 % of the first third, or within chance.",
    why: "Caches, JIT compilers and connection pools warm up. Arms at different stages are not comparable.",
    mend: "Use a longer `warmup`.",
    reads: "the rate in the window's first and last third",
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
