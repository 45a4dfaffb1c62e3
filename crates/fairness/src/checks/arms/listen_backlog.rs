//! May as many connections wait to be accepted as there are clients?

use record::verdict::fairness::{Outcome, Quantity};

use crate::subject::{Subject, beyond, unless, without};
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "listen-backlog",
    group: Group::Arms,
    question: "May as many connections wait to be accepted as there are clients?",
    reads: "`net.core.somaxconn`, connections of the load",
    passes: "at least one place for each connection",
    why: "The default was 128 until Linux 5.4: what comes beyond is dropped and tried again a second later, so the tail of latencies is a timer's.",
    mend: "raise `net.core.somaxconn` in all arms, or ask with fewer connections",
    judge: Judge::Run(backlog),
};

const SYSCTL: &str = "net.core.somaxconn";

fn backlog(subject: &Subject<'_>) -> Outcome {
    let told = subject.by_arm(|facts| facts.sysctls.get(SYSCTL).map(String::as_str));
    let mut details = Vec::new();
    let mut has_clients = false;
    for (workload, arm, measurement) in subject.measured() {
        let Some(load) = &measurement.load else {
            continue;
        };
        has_clients = true;
        let Some(places) = told.get(arm).and_then(|text| text.parse::<f64>().ok()) else {
            return without("sysctl net.core.somaxconn");
        };
        let each = places / load.connections_asked.max(1) as f64;
        let detail = beyond((workload, arm), Quantity::Backlog, each, 1.0);
        if each < 1.0 && !details.contains(&detail) {
            details.push(detail);
        }
    }
    if has_clients {
        unless(details)
    } else {
        Outcome::NotApplicable
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn a_short_queue_is_found() {
        let told = |places: &str| {
            let run = two_arms("sysctl net.core.somaxconn", [places, "4096"]);
            outcome(&super::CHECK, &run.run())
        };
        assert_eq!(told("128"), Outcome::Pass);
        assert!(is_violation(&told("5")));
        assert!(is_unknown(&outcome(&super::CHECK, &whole().run())));
    }
}
