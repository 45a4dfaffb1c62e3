//! May servers open as many files as there are clients?

use record::verdict::fairness::{Outcome, Quantity};

use crate::subject::{Subject, beyond, unless, without};
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "descriptors",
    group: Group::Arms,
    question: "May servers open as many files as there are clients?",
    reads: "`/proc/PID/limits`, connections of the load",
    passes: "at least two descriptors for each connection",
    why: "Mindcraft 1999: Apache could open 1016 files against a limit of 1024, and fell behind where clients were more.",
    mend: "raise `LimitNOFILE`, or ask with fewer connections",
    judge: Judge::Run(descriptors),
};

/// Descriptors that a connection takes: the socket, and the file that is sent or the connection to a second server.
const FOR_EACH: f64 = 2.0;

fn descriptors(subject: &Subject<'_>) -> Outcome {
    let mut details = Vec::new();
    let mut is_known = false;
    let mut has_clients = false;
    for (workload, arm, measurement) in subject.measured() {
        let Some(load) = &measurement.load else {
            continue;
        };
        has_clients = true;
        let least = subject
            .facts()
            .filter(|(own, of_arm, _)| (*own, *of_arm) == (workload, arm))
            .flat_map(|(_, _, facts)| &facts.values)
            .filter(|(name, _)| name.starts_with("limit:") && name.ends_with(":open files"))
            .filter_map(|(_, value)| value.parse::<f64>().ok())
            .fold(f64::INFINITY, f64::min);
        is_known |= least.is_finite();
        let each = least / load.connections_asked.max(1) as f64;
        let detail = beyond((workload, arm), Quantity::OpenFiles, each, FOR_EACH);
        if each < FOR_EACH && !details.contains(&detail) {
            details.push(detail);
        }
    }
    match (has_clients, is_known) {
        (false, _) => Outcome::NotApplicable,
        (true, false) => without("limit:SERVER:open files"),
        (true, true) => unless(details),
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn a_server_that_may_open_too_few_files_is_found() {
        let told = |limit: &str| {
            let run = two_arms("limit:apache2:open files", [limit, "1048576"]);
            outcome(&super::CHECK, &run.run())
        };
        assert_eq!(told("1024"), Outcome::Pass);
        // The fixture's clients have ten connections.
        assert!(is_violation(&told("16")));
        assert!(is_unknown(&outcome(&super::CHECK, &whole().run())));
    }
}
