//! Do all arms serve with the same configuration?

use plan::{Arm, Plan};
use record::verdict::fairness::Outcome;

use crate::topics::fairness::foreseen::{by_plan, differing, differs};
use crate::topics::fairness::{Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "server-configuration",
    group: Group::Arms,
    question: "Do all arms serve with the same configuration?",
    reads: "a hash of each server's configuration as it was used",
    passes: "all arms have the same; what follows from an arm's `cpus`, `nofile` or `config` is declared; not asked of workloads without a server",
    why: "Mindcraft 1999: Samba had `wide links = no`, which costs a system call for each part of each path.",
    mend: "write `config` in all arms or in none",
    judge: Judge::OfServers(&FACTS),
    foreseen: Foreseen::System(foresee),
};

const FACTS: [Fact; 1] = [Fact::May("hash:configuration:*")];

fn foresee(plan: &Plan) -> Option<Outcome> {
    let own = |arm: &Arm| arm.tuning.has_config().then(|| "its own".to_string());
    let unlike = plan.arms.iter().any(|arm| {
        let (own, first) = (&arm.tuning, &plan.arms[0].tuning);
        (&own.config, &own.config_file, &own.server_config)
            != (&first.config, &first.config_file, &first.server_config)
    });
    let detail = differing(plan, "configuration of servers", own)
        .or_else(|| unlike.then(|| differs(plan, "configuration of servers", own)));
    Some(by_plan(vec![detail?]))
}

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(
            &super::CHECK,
            "hash:configuration:nginx:nginx.conf",
        );
    }
}
