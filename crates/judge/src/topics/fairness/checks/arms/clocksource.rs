//! All arms use the same clock source.

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "clocksource",
    group: Group::Arms,
    must_hold: "All arms use the same clock source.",
    why: "A kernel that distrusts the TSC falls back on HPET. Then each reading of the clock costs a microsecond.",
    mend: "Find the reason in the boot log, or set `tsc=reliable` in all arms.",
    reads: "`current_clocksource`",
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
