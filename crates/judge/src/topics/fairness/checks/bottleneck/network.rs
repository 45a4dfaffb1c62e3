//! No verdict is network-bound.

use record::verdict::fairness::{Missing, Outcome};
use record::verdict::limit::Limit;

use crate::topics::fairness::subject::{
    Subject, is_of_network, limited, limits_are_known, unknown, unless,
};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "network",
    group: Group::Bottleneck,
    must_hold: "No verdict is network-bound. A virtual link (veth) between clients and server has no line rate.",
    why: "Mindcraft 1999: four cards of 100 Mbit/s limited the figures.",
    mend: "Use a faster link or smaller responses.",
    reads: "the kind of machine, link speed, retransmits",
    judge: Judge::Run(network),
    foreseen: Foreseen::ByDisturbances,
};

fn network(subject: &Subject<'_>) -> Outcome {
    let details = limited(subject, Limit::Network);
    if !details.is_empty() || limits_are_known(subject) {
        return unless(details);
    }
    if is_of_network(&subject.run.plan) {
        return unknown(Missing::SystemOnNetwork);
    }
    let mut measured = subject.measured();
    let has_clients = measured.any(|(_, _, measurement)| measurement.load.is_some());
    match (has_clients, subject.all_are_measured()) {
        (false, _) => Outcome::NotApplicable,
        (true, false) => unknown(Missing::Trial),
        (true, true) => Outcome::Passed,
    }
}

#[cfg(test)]
mod tests {
    use super::Limit;
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn a_path_that_nobody_knows_does_not_pass() {
        assert_eq!(outcome(&super::CHECK, &whole().run()), Outcome::Passed);
        let remote = whole().with(|run| run.plan.machine.kind = plan::MachineKind::Url);
        assert!(is_unknown(&outcome(&super::CHECK, &remote.run())));
        assert_eq!(
            outcome(&super::CHECK, &empty().run()),
            Outcome::NotApplicable
        );
        assert!(is_failed(&limited_by(&super::CHECK, Limit::Network)));
        assert_eq!(limited_by(&super::CHECK, Limit::Server), Outcome::Passed);
    }
}
