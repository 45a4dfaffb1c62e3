//! Each address of a system answers at least half of an even share, on average over trials.

use std::collections::BTreeMap;

use record::load::LoadResult;
use record::verdict::fairness::{Detail, Missing, Outcome};

use crate::topics::fairness::subject::{Subject, unknown, unless};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "addresses-share",
    group: Group::Bottleneck,
    must_hold: "Each address of a system answers at least half of an even share, on average over trials.",
    why: "Mindcraft 1999 had four network cards. A card that serves less leaves its CPU and its link unused.",
    mend: "Check the card's link, driver and interrupts. Remove an address that should not serve from `addresses`.",
    reads: "the requests that each of the arm's `addresses` answered",
    judge: Judge::Run(addresses_share),
    foreseen: Foreseen::Nothing,
};

/// The least part of an even share. Cards may differ, and the number of connections need not be a multiple of theirs.
const LEAST: f64 = 0.5;

fn addresses_share(subject: &Subject<'_>) -> Outcome {
    if subject.measured().next().is_none() {
        return unknown(Missing::Trial);
    }
    // Two systems may exchange addresses from block to block, so shares are computed for each trial.
    let mut shares = BTreeMap::<_, Vec<f64>>::new();
    for (workload, arm, measurement) in subject.measured() {
        for (address, share) in measurement.load.iter().flat_map(even_shares) {
            shares
                .entry((workload, arm, address))
                .or_default()
                .push(share);
        }
    }
    if shares.is_empty() {
        return Outcome::NotApplicable;
    }
    let details = shares.into_iter().map(|((workload, arm, address), all)| {
        let share = all.iter().sum::<f64>() / all.len() as f64;
        (share < LEAST).then(|| Detail::AddressShare {
            workload: workload.into(),
            arm: arm.into(),
            address: address.into(),
            share,
            limit: LEAST,
        })
    });
    unless(details.flatten().collect())
}

/// The requests that each address answered, relative to an even share.
fn even_shares(load: &LoadResult) -> impl Iterator<Item = (&str, f64)> {
    let counts = load.ok_by_address.values();
    let all = counts.fold(0, |sum: u64, answered| sum.saturating_add(*answered));
    let even = all as f64 / load.ok_by_address.len() as f64;
    let shares = load.ok_by_address.iter();
    shares.map(move |(address, answered)| (address.as_str(), *answered as f64 / even.max(1.0)))
}

#[cfg(test)]
mod tests {
    use record::load::LoadResult;
    use record::verdict::fairness::Outcome;

    use crate::topics::fairness::tests::*;

    /// The result for two addresses that answered these numbers of requests in each trial.
    fn result(answered: [u64; 2]) -> Outcome {
        let run = whole().with(|run| {
            change_measured(run, |measurement| {
                let load = measurement.load.insert(LoadResult::default());
                let addresses = ["10.1.0.1:80", "10.2.0.1:80"].map(String::from);
                load.ok_by_address = addresses.into_iter().zip(answered).collect();
            });
        });
        outcome(&super::CHECK, &run.run())
    }

    #[test]
    fn an_address_that_serves_too_little_is_found() {
        assert_eq!(result([50, 51]), Outcome::Passed);
        assert_eq!(result([100, 40]), Outcome::Passed);
        assert!(is_failed(&result([100, 30])));
        assert!(is_failed(&result([0, 30])));
        assert!(is_failed(&result([0, 0])));
        assert_eq!(
            outcome(&super::CHECK, &whole().run()),
            Outcome::NotApplicable
        );
        assert!(is_unknown(&outcome(&super::CHECK, &empty().run())));
    }
}
