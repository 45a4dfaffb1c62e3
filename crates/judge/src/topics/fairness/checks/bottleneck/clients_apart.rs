//! Have the clients CPUs of their own?

use std::collections::BTreeSet;

use plan::Clients;
use record::verdict::fairness::{Declaration, Detail, Missing, Outcome};

use crate::topics::fairness::subject::{Subject, is_of_network, not_known};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "clients-apart",
    group: Group::Bottleneck,
    question: "Have the clients CPUs of their own?",
    reads: "the machine's kind",
    passes: "clients are on another host, or on the guest's host; declared where they are beside the server, in all arms alike",
    why: "A client in the guest runs on the kernel that is compared, and takes CPU time from the server.",
    mend: "`clients = \"host\"` in `[machine]`, or clients on another host; or read the figures as those of both together",
    judge: Judge::Run(clients_apart),
    foreseen: Foreseen::Nothing,
};

fn clients_apart(subject: &Subject<'_>) -> Outcome {
    if !subject.all_are_measured() {
        return not_known(Missing::Trial);
    }
    let workloads: BTreeSet<_> = subject
        .measured()
        .filter(|(_, _, measurement)| measurement.load.is_some())
        .map(|(workload, _, _)| workload)
        .collect();
    if workloads.is_empty() {
        return Outcome::NotApplicable;
    }
    let is_apart = match subject.run.opening.clients {
        Some(Clients::Host | Clients::Guest2 | Clients::Hosts) => true,
        Some(Clients::Guest) | None => false,
    };
    if is_apart || is_of_network(&subject.run.plan) {
        return Outcome::Pass;
    }
    let detail = |workload: &str| Detail::Workload {
        workload: workload.into(),
    };
    Outcome::Declared {
        by: Declaration::Machine,
        details: workloads.into_iter().map(detail).collect(),
    }
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn clients_beside_the_server_are_declared() {
        assert!(is_declared(&outcome(&super::CHECK, &whole().run())));
        let remote = whole().with(|run| run.plan.machine.kind = plan::MachineKind::Url);
        assert_eq!(outcome(&super::CHECK, &remote.run()), Outcome::Pass);
        let on_host = whole().with(|run| run.opening.clients = Some(plan::Clients::Host));
        assert_eq!(outcome(&super::CHECK, &on_host.run()), Outcome::Pass);
        assert!(is_unknown(&outcome(&super::CHECK, &empty().run())));
    }
}
