//! A server may open at least two files for each connection.

use plan::{Arm, Plan};
use record::evidence::Facts;
use record::verdict::fairness::{Outcome, Quantity};

use crate::topics::fairness::foreseen::too_few;
use crate::topics::fairness::subject::{Subject, for_each_connection, is_named, is_of_network};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "descriptors",
    group: Group::Arms,
    must_hold: "A server may open at least two files for each connection.",
    why: "Mindcraft 1999: Apache could open 1016 files, and fell behind with more clients.",
    mend: "Raise `nofile` or `LimitNOFILE`, or use fewer connections.",
    reads: "`/proc/PID/limits`, connections of the load",
    judge: Judge::Run(descriptors),
    foreseen: Foreseen::System(foresee),
};

/// Descriptors that a connection takes: the socket, and the file that is sent or the connection to a second server.
const FOR_EACH: f64 = 2.0;

const FACT: &str = "limit:*:open files";

fn descriptors(subject: &Subject<'_>) -> Outcome {
    let served = subject.workloads();
    let is_served = served.iter().any(|workload| subject.has_server(workload));
    if !is_served && !is_of_network(&subject.run.plan) && subject.reports_services() {
        return Outcome::NotApplicable;
    }
    for_each_connection(subject, Quantity::OpenFiles, FOR_EACH, FACT, least)
}

/// The least limit of open files among the servers.
fn least(facts: &Facts) -> Option<f64> {
    let all = facts.values.iter();
    let limits = all.filter(|(name, _)| is_named(name, FACT));
    let least = limits
        .filter_map(|(_, value)| value.parse::<f64>().ok())
        .fold(f64::INFINITY, f64::min);
    least.is_finite().then_some(least)
}

fn foresee(plan: &Plan) -> Option<Outcome> {
    let files = |arm: &Arm| arm.tuning.nofile.map(f64::from);
    too_few(plan, Quantity::OpenFiles, FOR_EACH, files)
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn a_server_that_may_open_too_few_files_is_found() {
        let result = |limit: &str| {
            let run = two_arms("limit:apache2:open files", [limit, "1048576"]);
            outcome(&super::CHECK, &run.run())
        };
        assert_eq!(result("1024"), Outcome::Passed);
        // The fixture's clients have ten connections.
        assert!(is_failed(&result("16")));
        assert!(is_unknown(&outcome(&super::CHECK, &whole().run())));
    }
}
