//! No verdict is client-limited.

use record::verdict::fairness::{Outcome, Quantity};
use record::verdict::limit::Limit;

use crate::topics::fairness::subject::{Subject, is_of_network, limited, limits_are_known, unless};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "clients-idle",
    group: Group::Bottleneck,
    must_hold: "No verdict is client-limited. If that is unknown, the clients' host is at least 20 % idle.",
    why: "Busy clients measure their own queue. Hyperfoil stops at the same limit.",
    mend: "Use fewer connections, a lower rate or more client hosts.",
    reads: "CPU time of the clients and their host, the ceiling of a null server",
    judge: Judge::Run(clients_idle),
    foreseen: Foreseen::ByDisturbances,
};

fn clients_idle(subject: &Subject<'_>) -> Outcome {
    let details = limited(subject, Limit::Clients);
    if !details.is_empty() || limits_are_known(subject) {
        return unless(details);
    }
    if !is_of_network(&subject.run.plan) {
        return Outcome::NotApplicable;
    }
    subject.unless_beyond(Quantity::ClientsIdleCpu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::fairness::tests::*;

    #[test]
    fn busy_clients_are_found() {
        let remote = |builder: record::fixtures::builder::RunBuilder| {
            let change =
                |run: &mut record::rundir::Run| run.plan.machine.kind = plan::MachineKind::Url;
            builder.with(change).run()
        };
        assert_eq!(outcome(&CHECK, &remote(whole())), Outcome::Passed);
        assert_eq!(outcome(&CHECK, &whole().run()), Outcome::NotApplicable);
        let busy = beyond(Quantity::ClientsIdleCpu);
        assert!(is_failed(&with_finding(&remote(whole()), busy, &CHECK)));
        assert!(is_unknown(&outcome(&CHECK, &remote(empty()))));
        assert!(is_failed(&limited_by(&CHECK, Limit::Clients)));
        assert_eq!(limited_by(&CHECK, Limit::Server), Outcome::Passed);
    }
}
