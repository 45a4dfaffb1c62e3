//! An arm's own scheduler: loaded before anything is started, and asked for at both ends of the load whether the kernel still
//! runs it. Once ejected it does not come back, so that it ran in between.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use plan::{Scheduler, Tuning};
use record::trial::VoidReason;
use schedulers::{Counters, Loaded};

use crate::cpus::Cpus;
use crate::job::{Environment, Failure};
use crate::wait_idle::wait_idle;

/// The kernel's scheduler in a trial: an arm's, or its own.
#[derive(Debug)]
pub(crate) struct Scheduled(Option<Running>);

#[derive(Debug)]
struct Running {
    scheduler: Scheduler,
    loaded: Loaded,
    /// What it had counted when the load began.
    before: Counters,
}

impl Scheduled {
    /// Loads the arm's scheduler, if it has one, when the kernel has set itself up.
    pub(crate) fn begin(
        tuning: &Tuning,
        (cpus, environment): (&Cpus, &Environment),
        stop: &AtomicBool,
    ) -> Result<Self, Failure> {
        let Some(scheduler) = tuning.scheduler else {
            return Ok(Self(None));
        };
        wait_idle(cpus, environment.max_idle_wait, stop)?;
        let loaded = Loaded::load(scheduler).map_err(|why| failed(&why))?;
        Ok(Self(Some(Running {
            scheduler,
            loaded,
            before: Counters::default(),
        })))
    }

    /// The load begins: counters count from here.
    pub(crate) fn load_begins(&mut self) -> Result<(), Failure> {
        if let Some(running) = &mut self.0 {
            running.before = running.still()?;
        }
        Ok(())
    }

    /// The load has ended: what there is to tell, if the scheduler has run all the time.
    pub(crate) fn load_ended(&self) -> Result<BTreeMap<String, String>, Failure> {
        let Some(running) = &self.0 else {
            return Ok(BTreeMap::new());
        };
        let after = running.still()?;
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
    /// What it has counted, if the kernel still runs it.
    fn still(&self) -> Result<Counters, Failure> {
        self.loaded.check().map_err(|why| failed(&why))?;
        let counters = self.loaded.counters();
        Ok(counters.context("counters of the scheduler")?)
    }
}

fn failed(why: &anyhow::Error) -> Failure {
    Failure {
        reason: VoidReason::SchedulerFailed,
        detail: format!("{why:#}"),
    }
}

fn facts(running: &Running, after: &Counters) -> BTreeMap<String, String> {
    let counted = after.named().into_iter().zip(running.before.named());
    let counted = counted.map(|((name, after), (_, before))| (name.into(), after - before));
    let events = running.loaded.events();
    let all = counted.chain(events);
    let mut facts: BTreeMap<String, String> = all
        .map(|(name, count): (String, u64)| (format!("scheduler:{name}"), count.to_string()))
        .collect();
    facts.insert("scheduler".into(), running.scheduler.word().into());
    facts
}
