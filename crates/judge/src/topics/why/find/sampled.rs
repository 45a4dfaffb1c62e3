//! Trials that were sampled: they are not those that were judged, and beside their samples there are counters.

use record::account::{Account, CounterUnit, SampleClock, Sampled};
use record::metric::Role;
use record::rundir::Run;
use record::verdict::why::{CounterRow, Sampling};

use super::tested::Test;
use super::{table, waits};
use crate::topics::metrics::pair::Measured;

const NS_PER_S: f64 = 1e9;

/// The run of the trials that were sampled; `None` where the accounts are of judged trials.
pub(crate) fn run(run: &Run, accounts: &[Account]) -> Option<Run> {
    let is_sampled = accounts.iter().any(|account| account.sampled.is_some());
    is_sampled.then(|| Run {
        attempts: run.profiled.clone(),
        struck: Vec::new(),
        profiled: Vec::new(),
        facts: vec![None; run.profiled.len()],
        missing: Vec::new(),
        ..run.clone()
    })
}

/// How the accounts of both sides were sampled; how these trials compare with judged ones is not filled in.
pub(crate) fn sampling(accounts: &[Vec<&Account>; 2]) -> Option<Sampling> {
    let of_side = |side: &Vec<&'_ Account>| {
        let own = side.iter().map(|account| account.sampled.clone());
        own.collect::<Option<Vec<Sampled>>>()
    };
    let sides = [of_side(&accounts[0])?, of_side(&accounts[1])?];
    let first = sides[0].first()?;
    let is_timed = sides
        .iter()
        .flatten()
        .any(|one| one.clock == SampleClock::CpuClock);
    let total = |of: fn(&Sampled) -> u64| {
        let sum = |side: &Vec<Sampled>| side.iter().map(of).sum::<u64>();
        sides.each_ref().map(sum)
    };
    let (samples, cpu_ns) = (total(|one| one.samples), total(|one| one.cpu_ns));
    let period_ns = NS_PER_S / f64::from(first.frequency_hz.max(1));
    let covered = [0, 1].map(|side| samples[side] as f64 * period_ns / cpu_ns[side].max(1) as f64);
    Some(Sampling {
        clock: if is_timed {
            SampleClock::CpuClock
        } else {
            SampleClock::Cycles
        },
        frequency_hz: first.frequency_hz,
        samples,
        lost: total(|one| one.lost),
        covered: is_timed.then_some(covered),
        against_judged: [None; 2],
    })
}

/// The primary metric of an arm's profiled trials, over that of its judged ones.
pub(crate) fn against_judged(
    (judged, profiled): (&Run, &Run),
    workload: &str,
    arm: &str,
) -> Option<f64> {
    let specs = Measured::of(judged).specs(workload);
    let primary = specs.iter().find(|spec| spec.role == Role::Primary)?;
    let middle = |run: &Run| {
        let figures = Measured::of(run).figures(workload, arm, &primary.name);
        let mut values: Vec<f64> = figures.into_iter().map(|(_, value)| value).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
        Some(f64::midpoint(values[low], values[high]))
    };
    Some(middle(profiled)? / middle(judged)?).filter(|ratio| ratio.is_finite())
}

/// Counters that any trial has, for its work; one that a trial has not is zero there.
pub(crate) fn counters(accounts: &[Vec<&Account>; 2], test: &Test) -> Vec<CounterRow> {
    let rows = table::per_work(accounts, |account| {
        let counters = account.sampled.iter().flat_map(|one| &one.counters);
        counters.map(|counter| ((counter.name.as_str(), counter.unit), counter.value))
    });
    let row = |((name, unit), sides): ((&str, CounterUnit), [Vec<f64>; 2])| {
        let [baseline, arm] = waits::means(&sides);
        let (low, high) = test.interval(&sides);
        CounterRow {
            name: name.into(),
            unit,
            baseline,
            arm,
            difference: arm - baseline,
            low,
            high,
        }
    };
    rows.into_iter().map(row).collect()
}
