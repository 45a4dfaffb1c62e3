//! Does TCP have the same congestion control and queueing discipline?

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "congestion-control",
    group: Group::Arms,
    question: "Does TCP have the same congestion control and queueing discipline?",
    reads: "`net.ipv4.tcp_congestion_control`, `net.core.default_qdisc`",
    passes: "all arms have the same; what comes with different kernels is declared",
    why: "BBR and CUBIC share a lossy line very differently.",
    mend: "set both alike in the arms' `sysctl`",
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
