//! An arm's BPF scheduler: loaded before anything is started, and checked at both ends of the load. An ejected
//! scheduler does not come back, so it ran in between.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::schedulers::{Counters, Loaded};
use anyhow::Context;
use plan::{Scheduler, Tuning};
use record::trial::VoidReason;

use crate::cpus::Cpus;
use crate::env::Failure;
use crate::wait_idle::wait_idle;

/// The scheduler of a trial: an arm's, or `None` for the kernel's default.
#[derive(Debug)]
pub(crate) struct Scheduled(Option<Running>);

#[derive(Debug)]
struct Running {
    scheduler: Scheduler,
    loaded: Loaded,
    /// Counts when the load began.
    before: Vec<Count>,
}

/// Name of an event, and its count since the scheduler was loaded.
type Count = (String, u64);

impl Scheduled {
    /// Loads the arm's scheduler, if it has one, once the kernel is idle.
    pub(crate) fn begin(
        tuning: &Tuning,
        cpus: &Cpus,
        max_idle_wait: Duration,
        stop: &AtomicBool,
    ) -> Result<Self, Failure> {
        let Some(scheduler) = tuning.scheduler else {
            return Ok(Self(None));
        };
        wait_idle(cpus, max_idle_wait, stop)?;
        let loaded = Loaded::load(scheduler).map_err(|why| failed(&why))?;
        Ok(Self(Some(Running {
            scheduler,
            loaded,
            before: Vec::new(),
        })))
    }

    /// The load begins; counts are since here.
    pub(crate) fn load_begins(&mut self) -> Result<(), Failure> {
        if let Some(running) = &mut self.0 {
            running.before = running.counts(&running.check()?);
        }
        Ok(())
    }

    /// The load has ended. Returns facts; fails if the scheduler was ejected, or had no place for tasks.
    pub(crate) fn load_ended(&self) -> Result<BTreeMap<String, String>, Failure> {
        let Some(running) = &self.0 else {
            return Ok(BTreeMap::new());
        };
        let after = running.check()?;
        if after.refused > 0 {
            return Err(failed(&anyhow::anyhow!(
                "tasks that found no place in the table of the scheduler {}: {} (leave kernel.pid_max at 32768, or start fewer)",
                running.scheduler.word(),
                after.refused
            )));
        }
        Ok(facts(running, &after))
    }
}

impl Running {
    /// Its counters; fails if the kernel does not run it any more.
    fn check(&self) -> Result<Counters, Failure> {
        self.loaded.check().map_err(|why| failed(&why))?;
        let counters = self.loaded.counters();
        Ok(counters.context("counters of the scheduler")?)
    }

    /// Its counters and `sched_ext`'s events; both count since it was loaded.
    fn counts(&self, counters: &Counters) -> Vec<Count> {
        let counters = counters.named().map(|(name, count)| (name.into(), count));
        let events = self.loaded.events();
        counters.into_iter().chain(events).collect()
    }
}

fn failed(why: &anyhow::Error) -> Failure {
    Failure::new(VoidReason::SchedulerFailed, format!("{why:#}"))
}

fn facts(running: &Running, after: &Counters) -> BTreeMap<String, String> {
    let counted = during(&running.before, running.counts(after)).into_iter();
    let mut facts: BTreeMap<String, String> = counted
        .map(|(name, count)| (format!("scheduler:{name}"), count.to_string()))
        .collect();
    facts.insert("scheduler".into(), running.scheduler.word().into());
    facts
}

/// Differences of two lists of counts. A count that is missing in the first was 0.
fn during(before: &[Count], after: Vec<Count>) -> Vec<Count> {
    let since = |(name, count): Count| {
        let earlier = before.iter().find(|(other, _)| *other == name);
        let earlier = earlier.map_or(0, |(_, count)| *count);
        (name, count.saturating_sub(earlier))
    };
    after.into_iter().map(since).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counts: &[(&str, u64)]) -> Vec<Count> {
        let owned = counts
            .iter()
            .map(|(name, count)| (String::from(*name), *count));
        owned.collect()
    }

    #[test]
    fn what_happened_before_the_load_is_none_of_it() {
        let before = counts(&[("picks", 70), ("SCX_EV_REFILL_SLICE_DFL", 3)]);
        let after = counts(&[
            ("SCX_EV_REFILL_SLICE_DFL", 3),
            ("picks", 90),
            ("SCX_EV_INSERT_NOT_OWNED", 2),
        ]);
        let load = counts(&[
            ("SCX_EV_REFILL_SLICE_DFL", 0),
            ("picks", 20),
            ("SCX_EV_INSERT_NOT_OWNED", 2),
        ]);
        assert_eq!(during(&before, after), load);
        assert_eq!(during(&[], before.clone()), before);
    }
}
