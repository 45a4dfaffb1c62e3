//! Trials that were sampled. They are not the judged trials, and they have counters besides samples.

use record::account::{Account, CounterUnit, SampleClock, Sampled};
use record::metric::Role;
use record::rundir::Run;
use record::verdict::why::{CounterRow, Sampling};

use super::tested::Test;
use super::{table, waits};
use crate::topics::metrics::measured::Measured;

const NS_PER_S: f64 = 1e9;

/// The run with only its sampled trials; `None` if the accounts are of judged trials.
pub(crate) fn run(run: &Run, accounts: &[Account]) -> Option<Run> {
    let is_sampled = accounts.iter().any(|account| account.sampled.is_some());
    is_sampled.then(|| Run {
        attempts: run.profiled.clone(),
        invalidated: Vec::new(),
        profiled: Vec::new(),
        facts: vec![None; run.profiled.len()],
        missing: Vec::new(),
        ..run.clone()
    })
}

/// How the accounts of both sides were sampled. The caller fills in `against_judged`.
pub(crate) fn sampling(accounts: &[Vec<&Account>; 2]) -> Option<Sampling> {
    let side = |side: &Vec<&Account>| -> Option<Vec<Sampled>> {
        side.iter().map(|account| account.sampled.clone()).collect()
    };
    let sides = [side(&accounts[0])?, side(&accounts[1])?];
    let first = sides[0].first()?;
    let is_timed = sides
        .iter()
        .flatten()
        .any(|sampled| sampled.clock == SampleClock::CpuClock);
    let total = |value: fn(&Sampled) -> u64| {
        sides
            .each_ref()
            .map(|side| side.iter().map(value).sum::<u64>())
    };
    let samples = total(|sampled| sampled.samples);
    let cpu_ns = total(|sampled| sampled.cpu_ns);
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
        lost: total(|sampled| sampled.lost),
        covered: is_timed.then_some(covered),
        against_judged: [None; 2],
    })
}

/// The median primary metric of an arm's profiled trials, divided by that of its judged ones.
pub(crate) fn against_judged(
    judged: &Run,
    profiled: &Run,
    workload: &str,
    arm: &str,
) -> Option<f64> {
    let specs = Measured::of(judged).specs(workload);
    let primary = specs.iter().find(|spec| spec.role == Role::Primary)?;
    let median = |run: &Run| {
        let figures = Measured::of(run).figures(workload, arm, &primary.name);
        let mut values: Vec<f64> = figures.into_iter().map(|(_, value)| value).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
        Some(f64::midpoint(values[low], values[high]))
    };
    Some(median(profiled)? / median(judged)?).filter(|ratio| ratio.is_finite())
}

/// All counters, per unit of work; zero for trials without the counter.
pub(crate) fn counters(accounts: &[Vec<&Account>; 2], test: &Test) -> Vec<CounterRow> {
    let rows = table::per_work(accounts, |account| {
        let sampled = account.sampled.iter();
        let counters = sampled.flat_map(|sampled| &sampled.counters);
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
