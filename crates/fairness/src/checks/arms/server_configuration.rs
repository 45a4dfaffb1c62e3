//! Do all arms serve with the same configuration?

use crate::{Check, Fact, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "server-configuration",
    group: Group::Arms,
    question: "Do all arms serve with the same configuration?",
    reads: "a hash of each server's configuration as it was used",
    passes: "all arms have the same; what follows from an arm's `cpus`, `nofile` or `config` is declared; not asked of workloads without a server",
    why: "Mindcraft 1999: Samba had `wide links = no`, which costs a system call for each part of each path.",
    mend: "write `config` in all arms or in none",
    judge: Judge::OfServers(&FACTS),
};

const FACTS: [Fact; 1] = [Fact::May("hash:configuration:*")];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::tests::arms_must_agree(&super::CHECK, "hash:configuration:nginx:nginx.conf");
    }
}
