//! Clients run on another host, or on the guest's host.

use std::collections::BTreeSet;

use plan::Clients;
use record::verdict::fairness::{AcceptedBy, Detail, Missing, Outcome};

use crate::topics::fairness::subject::{Subject, is_of_network, unknown};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "clients-apart",
    group: Group::Bottleneck,
    must_hold: "Clients run on another host, or on the guest's host. Clients beside the server are accepted if all arms have them.",
    why: "A client in the guest runs on the compared kernel, and takes CPU time from the server.",
    mend: "Set `clients = \"host\"` in `[machine]`, or use another host.",
    reads: "the kind of machine",
    judge: Judge::Run(clients_apart),
    foreseen: Foreseen::Nothing,
};

fn clients_apart(subject: &Subject<'_>) -> Outcome {
    if !subject.all_are_measured() {
        return unknown(Missing::Trial);
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
        return Outcome::Passed;
    }
    let detail = |workload: &str| Detail::Workload {
        workload: workload.into(),
    };
    Outcome::Accepted {
        by: AcceptedBy::Machine,
        details: workloads.into_iter().map(detail).collect(),
    }
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn clients_beside_the_server_are_declared() {
        assert!(is_accepted(&outcome(&super::CHECK, &whole().run())));
        let remote = whole().with(|run| run.plan.machine.kind = plan::MachineKind::Url);
        assert_eq!(outcome(&super::CHECK, &remote.run()), Outcome::Passed);
        let on_host = whole().with(|run| run.opening.clients = Some(plan::Clients::Host));
        assert_eq!(outcome(&super::CHECK, &on_host.run()), Outcome::Passed);
        assert!(is_unknown(&outcome(&super::CHECK, &empty().run())));
    }
}
