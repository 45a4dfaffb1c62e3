//! All servers have the same configuration.

use plan::{Arm, Plan};
use record::verdict::fairness::Outcome;

use crate::topics::fairness::foreseen::{by_plan, differing, differs};
use crate::topics::fairness::{Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "server-configuration",
    group: Group::Arms,
    must_hold: "All servers have the same configuration. Differences due to an arm's `cpus`, `nofile` or `config` are accepted.",
    why: "Mindcraft 1999: Samba ran with `wide links = no`. That costs a system call for each part of a path.",
    mend: "Write `config` in all arms or in none.",
    reads: "a hash of the configuration of each server",
    judge: Judge::OfServers(&FACTS),
    foreseen: Foreseen::System(foresee),
};

const FACTS: [Fact; 1] = [Fact::May("hash:configuration:*")];

fn foresee(plan: &Plan) -> Option<Outcome> {
    let configuration = |arm: &Arm| {
        arm.tuning
            .has_config()
            .then(|| "set by the arm".to_string())
    };
    let unlike = plan.arms.iter().any(|arm| {
        let (tuning, first) = (&arm.tuning, &plan.arms[0].tuning);
        (&tuning.config, &tuning.config_file, &tuning.server_config)
            != (&first.config, &first.config_file, &first.server_config)
    });
    let detail = differing(plan, "configuration of servers", configuration)
        .or_else(|| unlike.then(|| differs(plan, "configuration of servers", configuration)));
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
