//! May sockets buffer the same amount?

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "socket-buffers",
    group: Group::Arms,
    question: "May sockets buffer the same amount?",
    reads: "`net.ipv4.tcp_*mem`, `net.core.*mem_*`",
    passes: "all arms have the same; what comes with different kernels is declared",
    why: "Mindcraft 1999: the receive window of one side alone was set for its network.",
    mend: "pin them in `[pinned]` of the plan (`bakeoff show RUN --pin` prints it), or set them alike in the arms' `sysctl`",
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
