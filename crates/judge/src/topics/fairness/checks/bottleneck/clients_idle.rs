//! Had the clients' host CPU time left?

use record::verdict::fairness::{Outcome, Quantity};
use record::verdict::limit::Limit;

use crate::topics::fairness::subject::{Subject, is_of_network, limited, limits_are_known, unless};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "clients-idle",
    group: Group::Bottleneck,
    question: "Had the clients' host CPU time left?",
    reads: "CPU time of the clients' threads and host, the ceiling of a null server",
    passes: "the verdict names no arm client-limited, or the clients' host is at least 20 % idle; not asked where clients share CPUs with the server and there is no ceiling",
    why: "Hyperfoil stops at this bound: beyond it the clients' own queue is measured.",
    mend: "fewer connections or a lower rate, more client hosts",
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
        assert_eq!(outcome(&CHECK, &remote(whole())), Outcome::Pass);
        assert_eq!(outcome(&CHECK, &whole().run()), Outcome::NotApplicable);
        let busy = beyond(Quantity::ClientsIdleCpu);
        assert!(is_violation(&with_finding(&remote(whole()), busy, &CHECK)));
        assert!(is_unknown(&outcome(&CHECK, &remote(empty()))));
        assert!(is_violation(&limited_by(&CHECK, Limit::Clients)));
        assert_eq!(limited_by(&CHECK, Limit::Server), Outcome::Pass);
    }
}
