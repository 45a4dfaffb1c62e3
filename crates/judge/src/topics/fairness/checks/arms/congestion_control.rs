//! TCP has the same congestion control and queueing discipline in all arms.

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "congestion-control",
    group: Group::Arms,
    must_hold: "TCP has the same congestion control and queueing discipline in all arms.",
    why: "BBR and CUBIC behave very differently on a lossy link.",
    mend: "Set both in the `sysctl` of all arms.",
    reads: "`net.ipv4.tcp_congestion_control`, `net.core.default_qdisc`",
    judge: Judge::Equal(&FACTS, Cause::Kernel),
    foreseen: Foreseen::Sysctls(&["net.ipv4.tcp_congestion_control", "net.core.default_qdisc"]),
};

const FACTS: [Fact; 3] = [
    Fact::Must("sysctl net.ipv4.tcp_congestion_control"),
    Fact::Must("sysctl net.core.default_qdisc"),
    Fact::May(fact::CUBIC),
];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(
            &super::CHECK,
            "sysctl net.ipv4.tcp_congestion_control",
        );
    }
}
