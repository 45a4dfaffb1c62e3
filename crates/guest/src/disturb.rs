//! Disturbances: what a plan has done to the system while it is loaded, each at its instant, each undone at its end and, however the
//! load ends, before the agent does anything else.
//!
//! ```text
//! the load begins --warm-up--> the window opens --at--> begin, tick, tick ... --for--> end -> record
//! ```
//! What cannot be done is recorded with the system's own reason, and the trial goes on: whether it could be done in one arm only is for
//! others to judge.

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

use crate::defect_watch::{AskedEnds, DefectWatch};
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

const UNPOISONED: &str = "who holds the lock does not panic";

/// What disturbances are done to.
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
    /// Who is told which processes are killed.
    pub(crate) asked: AskedEnds,
}

/// A service, without a hold on it.
#[derive(Debug)]
pub(crate) struct ServicePlace {
    /// The directory of its cgroup.
    pub(crate) cgroup: PathBuf,
    /// Its first process.
    pub(crate) leader: i32,
    pub(crate) probe: Probe,
}

impl Site {
    /// Of services that run.
    fn of(
        netns: &NetnsPair,
        services: &[Running],
        (cgroup, dir): (PathBuf, PathBuf),
        (seed, asked): (u64, AskedEnds),
    ) -> Result<Self> {
        let place = |running: &Running| ServicePlace {
            cgroup: running.cgroup.dir.clone(),
            leader: i32::try_from(running.leader()).unwrap_or(0),
            probe: running.service.probe.clone(),
        };
        Ok(Self {
            server: netns.server.try_clone()?,
            client: netns.client.try_clone()?,
            services: services.iter().map(place).collect(),
            cgroup,
            dir,
            seed,
            asked,
        })
    }
}

/// What was counted of a disturbance, and whether that shows that it was felt.
#[derive(Debug, Default)]
struct Felt {
    counts: BTreeMap<String, u64>,
    is_felt: bool,
}

impl Felt {
    /// By one count, which must be above zero.
    fn by(name: &str, count: u64) -> Self {
        Self {
            counts: [(name.to_string(), count)].into(),
            is_felt: count > 0,
        }
    }

    /// With another count beside it.
    fn beside(mut self, name: &str, count: u64) -> Self {
        self.counts.insert(name.into(), count);
        self
    }
}

/// A disturbance that goes on.
trait Ongoing {
    /// Called again and again while it lasts, so that it may do more, and see what it does.
    fn tick(&mut self, _site: &Site) {}

    /// Undoes it. Whoever cannot undo all of it undoes the rest.
    fn end(&mut self, site: &Site) -> Result<Felt>;
}

/// Begins one.
fn begin(one: &PlannedDisturbance, site: &Site) -> Result<Box<dyn Ongoing>> {
    match one.kind {
        DisturbanceKind::Loss { .. }
        | DisturbanceKind::Delay { .. }
        | DisturbanceKind::Reorder { .. }
        | DisturbanceKind::Duplicate { .. }
        | DisturbanceKind::Corrupt { .. } => network::begin_netem(&one.kind, site),
        DisturbanceKind::LinkDown => network::begin_link_down(site),
        DisturbanceKind::DiskFull => system::begin_disk_full(site),
        DisturbanceKind::Memory { bytes } => memory::begin(bytes, site),
        DisturbanceKind::CpuOffline { cpu } => system::begin_cpu_offline(cpu),
        DisturbanceKind::ClockStep { step_ms } => system::begin_clock_step(step_ms),
        DisturbanceKind::KillWorker => processes::begin_kill(one.length_ms.div_ceil(1000), site),
        DisturbanceKind::SynFlood { rate_per_s } => flood::begin(rate_per_s, site),
        DisturbanceKind::SlowClients { connections } => slow_clients::begin(connections, site),
        DisturbanceKind::Descriptors => processes::begin_descriptors(site),
    }
}

/// The disturbances of a job, on a thread of their own from the load's beginning to its end.
pub(crate) struct Disturber<'j> {
    planned: &'j [PlannedDisturbance],
    warmup: Duration,
    site: Mutex<Option<Site>>,
    seconds: Mutex<SecondsAround>,
    at_work: Mutex<Option<AtWork>>,
    /// What has begun and ended, and has not been told.
    news: (Sender<BegunDisturbance>, Mutex<Receiver<BegunDisturbance>>),
}

/// The thread; it ends when `stop` is told or let go.
struct AtWork {
    stop: Sender<()>,
    thread: JoinHandle<Vec<DisturbanceRecord>>,
}

impl<'j> Disturber<'j> {
    /// Of services that run, for a load with such a warm-up.
    pub(crate) fn of(
        job: &'j Job,
        environment: &Environment,
        (netns, services, defects): (&NetnsPair, &[Running], &DefectWatch),
        warmup: Duration,
    ) -> Result<Self> {
        let planned = &job.disturbances[..];
        let places = (environment.cgroup.clone(), environment.dir.clone());
        let of_job = (job.seed, defects.asked_ends());
        let site = Site::of(netns, services, places, of_job)?;
        let (told, news) = channel();
        Ok(Self {
            planned,
            warmup,
            site: Mutex::new(Some(site)),
            seconds: Mutex::new(SecondsAround::new(planned)),
            at_work: Mutex::new(None),
            news: (told, Mutex::new(news)),
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
        let told = self.news.0.clone();
        let builder = thread::Builder::new().name("disturber".into());
        let thread = builder
            .spawn(move || {
                // Its instants are the same in all arms only if no server keeps it waiting.
                priority::raise();
                follow(&planned, &site, opens, &stopped, &told)
            })
            .expect("a thread more can be had");
        *self.at_work.lock().expect(UNPOISONED) = Some(AtWork { stop, thread });
    }

    /// What has begun or ended since this was last asked.
    pub(crate) fn news(&self) -> Vec<FromAgent> {
        let news = self.news.1.lock().expect(UNPOISONED);
        news.try_iter().map(FromAgent::Disturbance).collect()
    }

    /// Looks at what the clients tell.
    pub(crate) fn sees(&self, message: &FromAgent) {
        if let FromAgent::Tick(tick) = message
            && !self.planned.is_empty()
        {
            let mut seconds = self.seconds.lock().expect(UNPOISONED);
            for second in &tick.ended {
                seconds.take(second);
            }
        }
    }

    /// The load is over: undoes what goes on still, and tells all.
    pub(crate) fn end(&self) -> Vec<DisturbanceRecord> {
        let Some(AtWork { stop, thread }) = self.at_work.lock().expect(UNPOISONED).take() else {
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
        // However the job ends, nothing goes on after it.
        let _ = self.end();
    }
}

/// What the schedule holds, in the order of time: an end comes before a beginning at the same instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    End,
    Begin,
}

/// Steps of a schedule: when, in milliseconds since the window opened, which, and of which disturbance.
fn steps(planned: &[PlannedDisturbance]) -> Vec<(u64, Step, usize)> {
    let steps = planned.iter().enumerate().flat_map(|(index, one)| {
        let length_ms = one.length_ms;
        let both = move |at: &u64| {
            [
                (*at, Step::Begin, index),
                (at + length_ms, Step::End, index),
            ]
        };
        one.at_ms.iter().flat_map(both)
    });
    let mut steps: Vec<_> = steps.collect();
    steps.sort_unstable();
    steps
}

/// One that has begun.
struct Begun {
    index: usize,
    begin_ms: u64,
    ongoing: Box<dyn Ongoing>,
}

/// Follows the schedule to its end, or until `stopped` is told or let go.
fn follow(
    planned: &[PlannedDisturbance],
    site: &Site,
    opens: Instant,
    stopped: &Receiver<()>,
    told: &Sender<BegunDisturbance>,
) -> Vec<DisturbanceRecord> {
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
            for one in &mut begun {
                one.ongoing.tick(site);
            }
        }
        let one = &planned[index];
        match step {
            Step::Begin => {
                let begin_ms = since();
                match begin(one, site) {
                    Ok(ongoing) => {
                        tell(told, one, begin_ms, None);
                        begun.push(Begun {
                            index,
                            begin_ms,
                            ongoing,
                        });
                    }
                    Err(why) => records.push(impossible(one, begin_ms, &why)),
                }
            }
            Step::End => {
                if let Some(place) = begun.iter().position(|one| one.index == index) {
                    let ended = begun.remove(place).end(one, site, since);
                    tell(told, one, ended.begin_ms, Some(ended.end_ms));
                    records.push(ended);
                }
            }
        }
    }
    for left in begun {
        let one = &planned[left.index];
        records.push(left.end(one, site, since));
    }
    records.sort_by_key(|record| record.begin_ms);
    records
}

fn tell(
    told: &Sender<BegunDisturbance>,
    one: &PlannedDisturbance,
    begin_ms: u64,
    end_ms: Option<u64>,
) {
    // Nobody listens once the load is over.
    let _ = told.send(BegunDisturbance {
        name: one.name.clone(),
        begin_ms,
        end_ms,
    });
}

impl Begun {
    fn end(
        mut self,
        one: &PlannedDisturbance,
        site: &Site,
        since: impl Fn() -> u64,
    ) -> DisturbanceRecord {
        let felt = self.ongoing.end(site);
        let effect = match felt {
            Ok(Felt {
                counts,
                is_felt: true,
            }) => Effect::Took { counts },
            Ok(Felt { counts, .. }) => Effect::Unfelt { counts },
            Err(why) => return impossible(one, self.begin_ms, &why),
        };
        DisturbanceRecord {
            name: one.name.clone(),
            begin_ms: self.begin_ms,
            end_ms: since(),
            effect,
            service: None,
        }
    }
}

fn impossible(one: &PlannedDisturbance, begin_ms: u64, why: &anyhow::Error) -> DisturbanceRecord {
    DisturbanceRecord {
        name: one.name.clone(),
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
