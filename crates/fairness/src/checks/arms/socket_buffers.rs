//! May sockets buffer the same amount?

use crate::equal::{Cause, equal};
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "socket-buffers",
    group: Group::Arms,
    question: "May sockets buffer the same amount?",
    reads: "`net.ipv4.tcp_*mem`, `net.core.*mem_*`",
    passes: "all arms have the same; what comes with different kernels is declared",
    why: "Mindcraft 1999: the receive window of one side alone was set for its network.",
    mend: "set them alike in the arms' `sysctl`",
    judge: Judge::Run(|subject| equal(subject, &FACTS, Cause::Kernel)),
};

const FACTS: [&str; 7] = [
    "sysctl net.ipv4.tcp_rmem",
    "sysctl net.ipv4.tcp_wmem",
    "sysctl net.ipv4.tcp_mem",
    "sysctl net.core.rmem_max",
    "sysctl net.core.wmem_max",
    "sysctl net.core.rmem_default",
    "sysctl net.core.wmem_default",
];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::tests::arms_must_agree(&super::CHECK, "sysctl net.ipv4.tcp_rmem");
    }
}
