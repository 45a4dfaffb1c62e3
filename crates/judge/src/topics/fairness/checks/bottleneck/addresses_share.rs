//! Did each address of a system serve its share?

use std::collections::BTreeMap;

use record::load::LoadResult;
use record::verdict::fairness::{Detail, Missing, Outcome};

use crate::topics::fairness::subject::{Subject, not_known, unless};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "addresses-share",
    group: Group::Bottleneck,
    question: "Did each address of a system serve its share?",
    reads: "requests answered by each of the arm's `addresses`",
    passes: "each answered at least half of an even share, mean over trials; not asked where systems have one address",
    why: "Mindcraft 1999 had four network cards, each bound to a CPU on one side: a card that serves less leaves its CPU and its line unused.",
    mend: "look at the card's link, driver and interrupts; take an address out of `addresses` that is not meant to serve",
    judge: Judge::Run(addresses_share),
    foreseen: Foreseen::Nothing,
};

/// Share of an even share that an address must have answered: cards may differ, and connections are no multiple of their number.
const LEAST: f64 = 0.5;

fn addresses_share(subject: &Subject<'_>) -> Outcome {
    if subject.measured().next().is_none() {
        return not_known(Missing::Trial);
    }
    // With two systems that exchange addresses an arm has others from block to block, so each trial has shares of its own.
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

/// What each address answered, of what it would have if all had answered as much.
fn even_shares(load: &LoadResult) -> impl Iterator<Item = (&str, f64)> {
    let counts = load.ok_by_address.values();
    let all = counts.fold(0, |sum: u64, own| sum.saturating_add(*own));
    let even = all as f64 / load.ok_by_address.len() as f64;
    let shares = load.ok_by_address.iter();
    shares.map(move |(address, own)| (address.as_str(), *own as f64 / even.max(1.0)))
}

#[cfg(test)]
mod tests {
    use record::load::LoadResult;
    use record::verdict::fairness::Outcome;

    use crate::topics::fairness::tests::*;

    /// Two trials of each arm in which two addresses answered so much.
    fn told(answered: [u64; 2]) -> Outcome {
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
        assert_eq!(told([50, 51]), Outcome::Pass);
        assert_eq!(told([100, 40]), Outcome::Pass);
        assert!(is_violation(&told([100, 30])));
        assert!(is_violation(&told([0, 30])));
        assert!(is_violation(&told([0, 0])));
        assert_eq!(
            outcome(&super::CHECK, &whole().run()),
            Outcome::NotApplicable
        );
        assert!(is_unknown(&outcome(&super::CHECK, &empty().run())));
    }
}
