//! Disturbs the system while it is loaded, as the plan says. Each disturbance begins at its instant and is undone at
//! its end, or when the load ends for whatever reason.
//!
//! ```text
//! the load begins --warm-up--> the window opens --at--> begin, tick, tick ... --for--> end -> record
//! ```
//! A disturbance that fails is recorded with the system's reason, and the trial continues; fairness checks compare
//! the arms.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Result;
use plan::{DisturbanceKind, PlannedDisturbance};
use record::disturbances::{BegunDisturbance, DisturbanceRecord, Effect, SecondsAround};
use record::protocol::{FromAgent, Job};
use workload::probe::Probe;

use crate::UNPOISONED;
use crate::defect_watch::{DefectWatch, ExpectedKills};
use crate::env::Environment;
use crate::netns::{Netns, NetnsPair};
use crate::priority;
use crate::services::Running;

mod flood;
mod memory;
mod network;
mod processes;
mod slow_clients;
mod system;

/// Time between two calls of `Ongoing::tick`.
const TICK: Duration = Duration::from_millis(100);

/// The system that is disturbed.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) server: Netns,
    pub(crate) client: Netns,
    pub(crate) services: Vec<ServicePlace>,
    /// Where cgroups are made.
    pub(crate) cgroup: PathBuf,
    /// The servers' data and logs.
    pub(crate) dir: PathBuf,
    pub(crate) seed: u64,
    pub(crate) expected_kills: ExpectedKills,
}

/// Where to find a running service.
#[derive(Debug)]
pub(crate) struct ServicePlace {
    /// The directory of its cgroup.
    pub(crate) cgroup: PathBuf,
    /// Its first process.
    pub(crate) leader: i32,
    pub(crate) probe: Probe,
}

/// What was counted of a disturbance, and whether it had an effect.
#[derive(Debug, Default)]
struct Impact {
    counts: BTreeMap<String, u64>,
    has_effect: bool,
}

impl Impact {
    /// The count that shows an effect if it is above zero.
    fn new(name: &str, count: u64) -> Self {
        Self {
            counts: [(name.to_string(), count)].into(),
            has_effect: count > 0,
        }
    }

    /// Adds another count.
    fn with(mut self, name: &str, count: u64) -> Self {
        self.counts.insert(name.into(), count);
        self
    }
}

/// A disturbance that has begun.
trait Ongoing {
    /// Called every `TICK` while it lasts, to continue it and to count its effects.
    fn tick(&mut self, _site: &Site) {}

    /// Undoes it, as far as possible.
    fn end(&mut self, site: &Site) -> Result<Impact>;
}

fn begin(planned: &PlannedDisturbance, site: &Site) -> Result<Box<dyn Ongoing>> {
    match planned.kind {
        DisturbanceKind::Loss { .. }
        | DisturbanceKind::Delay { .. }
        | DisturbanceKind::Reorder { .. }
        | DisturbanceKind::Duplicate { .. }
        | DisturbanceKind::Corrupt { .. } => network::begin_netem(&planned.kind, site),
        DisturbanceKind::LinkDown => network::begin_link_down(site),
        DisturbanceKind::DiskFull => system::begin_disk_full(site),
        DisturbanceKind::Memory { bytes } => memory::begin(bytes, site),
        DisturbanceKind::CpuOffline { cpu } => system::begin_cpu_offline(cpu),
        DisturbanceKind::ClockStep { step_ms } => system::begin_clock_step(step_ms),
        DisturbanceKind::KillWorker => {
            processes::begin_kill(planned.length_ms.div_ceil(1000), site)
        }
        DisturbanceKind::SynFlood { rate_per_s } => flood::begin(rate_per_s, site),
        DisturbanceKind::SlowClients { connections } => slow_clients::begin(connections, site),
        DisturbanceKind::Descriptors => processes::begin_descriptors(site),
    }
}

/// The disturbances of a job, on a thread that runs from the load's begin to its end.
pub(crate) struct Disturber<'j> {
    planned: &'j [PlannedDisturbance],
    warmup: Duration,
    site: Mutex<Option<Site>>,
    seconds: Mutex<SecondsAround>,
    worker: Mutex<Option<Worker>>,
    /// Begins and ends that have not been reported.
    news: (Sender<BegunDisturbance>, Mutex<Receiver<BegunDisturbance>>),
}

/// The thread; it ends when `stop` is dropped.
struct Worker {
    stop: Sender<()>,
    thread: JoinHandle<Vec<DisturbanceRecord>>,
}

impl<'j> Disturber<'j> {
    /// Disturbs running services under a load that has this warm-up.
    pub(crate) fn new(
        job: &'j Job,
        environment: &Environment,
        netns: &NetnsPair,
        services: &[Running],
        defects: &DefectWatch,
        warmup: Duration,
    ) -> Result<Self> {
        let planned = &job.disturbances[..];
        let place = |running: &Running| ServicePlace {
            cgroup: running.cgroup.dir.clone(),
            leader: i32::try_from(running.leader()).unwrap_or(0),
            probe: running.service.probe.clone(),
        };
        let site = Site {
            server: netns.server.try_clone()?,
            client: netns.client.try_clone()?,
            services: services.iter().map(place).collect(),
            cgroup: environment.cgroup.clone(),
            dir: environment.dir.clone(),
            seed: job.seed,
            expected_kills: defects.expected_kills(),
        };
        let (sender, news) = channel();
        Ok(Self {
            planned,
            warmup,
            site: Mutex::new(Some(site)),
            seconds: Mutex::new(SecondsAround::new(planned)),
            worker: Mutex::new(None),
            news: (sender, Mutex::new(news)),
        })
    }

    /// The load begins now.
    pub(crate) fn begin(&self) {
        let site = self.site.lock().expect(UNPOISONED).take();
        let Some(site) = site.filter(|_| !self.planned.is_empty()) else {
            return;
        };
        let (planned, opens) = (self.planned.to_vec(), Instant::now() + self.warmup);
        let (stop, stopped) = channel();
        let news = self.news.0.clone();
        let builder = thread::Builder::new().name("disturber".into());
        let thread = builder
            .spawn(move || {
                // Servers must not delay it, or its instants would differ between arms.
                priority::raise();
                follow(&planned, &site, opens, &stopped, &news)
            })
            .expect("one more thread can be created");
        *self.worker.lock().expect(UNPOISONED) = Some(Worker { stop, thread });
    }

    /// Disturbances that have begun or ended since the last call.
    pub(crate) fn news(&self) -> Vec<FromAgent> {
        let news = self.news.1.lock().expect(UNPOISONED);
        news.try_iter().map(FromAgent::Disturbance).collect()
    }

    /// Takes the service around disturbances from the clients' messages.
    pub(crate) fn observe(&self, message: &FromAgent) {
        if let FromAgent::Tick(tick) = message
            && !self.planned.is_empty()
        {
            let mut seconds = self.seconds.lock().expect(UNPOISONED);
            for second in &tick.ended {
                seconds.take(second);
            }
        }
    }

    /// The load is over: undoes what has not ended. Returns all records.
    pub(crate) fn end(&self) -> Vec<DisturbanceRecord> {
        let Some(Worker { stop, thread }) = self.worker.lock().expect(UNPOISONED).take() else {
            return Vec::new();
        };
        drop(stop);
        let mut records = match thread.join() {
            Ok(records) => records,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let seconds = self.seconds.lock().expect(UNPOISONED);
        seconds.tell(&mut records);
        records
    }
}

impl Drop for Disturber<'_> {
    fn drop(&mut self) {
        // Also if the job fails.
        let _ = self.end();
    }
}

/// A step of the schedule; at the same instant, an end comes before a begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    End,
    Begin,
}

/// The schedule: time in milliseconds since the window opened, step, index of the disturbance.
fn steps(planned: &[PlannedDisturbance]) -> Vec<(u64, Step, usize)> {
    let mut steps = Vec::new();
    for (index, planned) in planned.iter().enumerate() {
        for at_ms in &planned.at_ms {
            steps.push((*at_ms, Step::Begin, index));
            steps.push((at_ms + planned.length_ms, Step::End, index));
        }
    }
    steps.sort_unstable();
    steps
}

/// A disturbance that has begun, with its index in the plan.
struct Begun {
    index: usize,
    begin_ms: u64,
    ongoing: Box<dyn Ongoing>,
}

/// Follows the schedule to its end, or until the sender of `stopped` is dropped.
fn follow(
    planned: &[PlannedDisturbance],
    site: &Site,
    opens: Instant,
    stopped: &Receiver<()>,
    news: &Sender<BegunDisturbance>,
) -> Vec<DisturbanceRecord> {
    let report = |name: &str, begin_ms, end_ms| {
        // Fails once the load is over.
        let _ = news.send(BegunDisturbance {
            name: name.into(),
            begin_ms,
            end_ms,
        });
    };
    let since = || opens.elapsed().as_millis() as u64;
    let (mut begun, mut records): (Vec<Begun>, Vec<_>) = (Vec::new(), Vec::new());
    'schedule: for (at_ms, step, index) in steps(planned) {
        let due = opens + Duration::from_millis(at_ms);
        loop {
            let left = due.saturating_duration_since(Instant::now());
            let wait = if begun.is_empty() {
                left
            } else {
                left.min(TICK)
            };
            match stopped.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break 'schedule,
            }
            if left.is_zero() {
                break;
            }
            for disturbance in &mut begun {
                disturbance.ongoing.tick(site);
            }
        }
        let disturbance = &planned[index];
        match step {
            Step::Begin => {
                let begin_ms = since();
                match begin(disturbance, site) {
                    Ok(ongoing) => {
                        report(&disturbance.name, begin_ms, None);
                        begun.push(Begun {
                            index,
                            begin_ms,
                            ongoing,
                        });
                    }
                    Err(why) => records.push(impossible(&disturbance.name, begin_ms, &why)),
                }
            }
            Step::End => {
                let is_it = |begun: &Begun| begun.index == index;
                if let Some(place) = begun.iter().position(is_it) {
                    let record = begun.remove(place).end(&disturbance.name, site, since);
                    report(&disturbance.name, record.begin_ms, Some(record.end_ms));
                    records.push(record);
                }
            }
        }
    }
    for left in begun {
        let name = &planned[left.index].name;
        records.push(left.end(name, site, since));
    }
    records.sort_by_key(|record| record.begin_ms);
    records
}

impl Begun {
    fn end(mut self, name: &str, site: &Site, since: impl Fn() -> u64) -> DisturbanceRecord {
        let effect = match self.ongoing.end(site) {
            Ok(Impact {
                counts,
                has_effect: true,
            }) => Effect::Took { counts },
            Ok(Impact { counts, .. }) => Effect::Unfelt { counts },
            Err(why) => return impossible(name, self.begin_ms, &why),
        };
        DisturbanceRecord {
            name: name.into(),
            begin_ms: self.begin_ms,
            end_ms: since(),
            effect,
            service: None,
        }
    }
}

fn impossible(name: &str, begin_ms: u64, why: &anyhow::Error) -> DisturbanceRecord {
    DisturbanceRecord {
        name: name.into(),
        begin_ms,
        end_ms: begin_ms,
        effect: Effect::Impossible {
            why: format!("{why:#}"),
        },
        service: None,
    }
}

#[cfg(test)]
mod tests {
    use super::Step::{Begin, End};
    use super::*;

    #[test]
    fn one_ends_before_another_begins_at_the_same_instant() {
        let planned = |at_ms: &[u64], length_ms| PlannedDisturbance {
            name: "one".into(),
            kind: DisturbanceKind::LinkDown,
            at_ms: at_ms.into(),
            length_ms,
        };
        let steps = steps(&[planned(&[2000, 5000], 1000), planned(&[1000], 1000)]);
        assert_eq!(
            steps,
            [
                (1000, Begin, 1),
                (2000, End, 1),
                (2000, Begin, 0),
                (3000, End, 0),
                (5000, Begin, 0),
                (6000, End, 0)
            ]
        );
    }
}
