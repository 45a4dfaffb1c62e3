//! Do all arms tell the time by the same source?

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "clocksource",
    group: Group::Arms,
    question: "Do all arms tell the time by the same source?",
    reads: "`current_clocksource`",
    passes: "all arms have the same",
    why: "A kernel that distrusts the TSC falls back on HPET, and each reading of the clock costs a microsecond.",
    mend: "look at the boot log for why the clock was found unstable; `tsc=reliable` in all arms",
    judge: Judge::Equal(&FACTS, Cause::None),
    foreseen: Foreseen::Parameters(&["clocksource", "tsc"]),
};

const FACTS: [Fact; 1] = [Fact::Must(fact::CLOCKSOURCE)];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(
            &super::CHECK,
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        );
    }
}
