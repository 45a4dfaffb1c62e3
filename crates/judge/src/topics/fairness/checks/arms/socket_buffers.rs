//! Sockets may buffer the same amount in all arms.

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "socket-buffers",
    group: Group::Arms,
    must_hold: "Sockets may buffer the same amount in all arms.",
    why: "Mindcraft 1999: only one side had a receive window for its network.",
    mend: "Pin what `bakeoff show RUN --pin` prints, or set it in the `sysctl` of all arms.",
    reads: "`net.ipv4.tcp_*mem`, `net.core.*mem_*`",
    judge: Judge::Equal(&FACTS, Cause::KernelOrMemory),
    foreseen: Foreseen::Sysctls(&[
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
        "net.ipv4.tcp_mem",
        "net.core.rmem_*",
        "net.core.wmem_*",
    ]),
};

const FACTS: [Fact; 7] = [
    Fact::Must("sysctl net.ipv4.tcp_rmem"),
    Fact::Must("sysctl net.ipv4.tcp_wmem"),
    Fact::Must("sysctl net.ipv4.tcp_mem"),
    Fact::Must("sysctl net.core.rmem_max"),
    Fact::Must("sysctl net.core.wmem_max"),
    Fact::Must("sysctl net.core.rmem_default"),
    Fact::Must("sysctl net.core.wmem_default"),
];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(&super::CHECK, "sysctl net.ipv4.tcp_rmem");
    }
}
