//! One attempt at a trial: boot, greet, give the job, listen until the agent is done.
//!
//! ```text
//! boot -> Hello? -> Run -> (Phase | Progress | Sample)* -> Done | Failed
//!           |                     |
//!       boot time-out        silence, overrun, panic, exit: each its own Void
//! ```

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, bail};
use machine::guest::{Boot, Guest, Happening};
use record::evidence::{Facts, Sample, Usage};
use record::plan::{Arm, WorkloadPlan};
use record::rundir::Evidence;
use record::trial::{Measurement, Outcome, Trial, Void, VoidReason};
use record::units::show_duration;
use record::wire::{FromAgent, Job, ToAgent, WorkloadJob, Yield, recognise};

use super::{Lab, News, Passing, guest_cpu};

/// Longest wait in one go, so that Ctrl-C is noticed.
const GLANCE: Duration = Duration::from_millis(200);

/// Lines of the console that a void trial keeps in its record.
const LAST_LINES: usize = 20;

/// Runs the attempt; `None` when the user interrupted it.
pub(crate) fn run(
    lab: &Lab<'_>,
    workload: &WorkloadPlan,
    trial: &Trial,
    dir: &Path,
) -> Result<Option<(Outcome, Evidence)>> {
    (lab.show)(News::Passing(trial, Passing::Booting));
    let spin = Spin::begin(lab);
    let start = lab.clock.now();
    let mut guest = match lab.machine.boot(Boot {
        arm: &trial.arm,
        dir,
    }) {
        Ok(guest) => guest,
        Err(why) => {
            let outcome = void(VoidReason::StartFailed, format!("{why:#}"), vec![]);
            return Ok(Some((outcome, Evidence::default())));
        }
    };
    let mut talk = Talk {
        lab,
        trial,
        guest: guest.as_mut(),
        start,
        last_word: start,
        boot: None,
        samples: Vec::new(),
    };
    let arm = lab.plan.arms.iter().find(|arm| arm.name == trial.arm);
    let arm = arm.expect("trials are made of the plan's arms");
    let end = talk.hold(&job(lab, arm, workload))?;
    let samples = talk.samples;
    let (outcome, facts) = match end {
        End::Interrupted => return Ok(None),
        End::Void(reason, detail) => (void(reason, detail, guest.console(LAST_LINES)), None),
        End::Done(mut done, boot) => {
            drop(guest);
            guest_cpu::note(lab.machine, &mut done.facts);
            match guest_cpu::obstacle(lab.machine, &done.facts) {
                Some(why) => (
                    void(VoidReason::WrongMachine, why, vec![]),
                    Some(done.facts),
                ),
                None => measured(*done, Usage::over(&samples), (boot, spin.end(lab))),
            }
        }
    };
    Ok(Some((outcome, Evidence { samples, facts })))
}

/// How fast the host is, which nothing within a guest should decide on: its kernel is what is compared.
struct Spin(Duration);

impl Spin {
    fn begin(lab: &Lab<'_>) -> Self {
        Self(Self::now(lab))
    }

    /// The longer one of now and then.
    fn end(self, lab: &Lab<'_>) -> Duration {
        self.0.max(Self::now(lab))
    }

    /// Under counted instructions the host's speed does not matter.
    fn now(lab: &Lab<'_>) -> Duration {
        match lab.machine.ns_per_instruction() {
            None => lab.clock.spin(),
            Some(_) => Duration::ZERO,
        }
    }
}

fn job(lab: &Lab<'_>, arm: &Arm, workload: &WorkloadPlan) -> Job {
    let WorkloadPlan { kind, options, .. } = workload.clone();
    Job {
        sysctl: arm.sysctl.clone(),
        tuning: arm.tuning.clone(),
        workload: WorkloadJob { kind, options },
        seed: lab.plan.design.seed,
        ns_per_instruction: lab.machine.ns_per_instruction(),
    }
}

fn void(reason: VoidReason, detail: String, console: Vec<String>) -> Outcome {
    Outcome::Void(Void {
        reason,
        detail,
        console,
    })
}

fn measured(
    done: Yield,
    usage: Usage,
    (boot, spin): (Duration, Duration),
) -> (Outcome, Option<Facts>) {
    let Yield {
        figures,
        curves,
        load,
        facts,
        kernel,
        server,
    } = done;
    let odd_figure = figures
        .iter()
        .find(|figure| !figure.value.is_finite())
        .map(|figure| &figure.spec.name);
    let odd_curve = curves
        .iter()
        .find(|curve| curve.points.iter().any(|point| !point.value.is_finite()))
        .map(|curve| &curve.name);
    if let Some(odd) = odd_figure.or(odd_curve) {
        let detail = format!("figure is not a number: {odd}");
        return (void(VoidReason::AgentFailed, detail, vec![]), None);
    }
    // Figures are found by name: of two of one name the second would pass unseen.
    let names: BTreeSet<&str> = figures
        .iter()
        .map(|figure| figure.spec.name.as_str())
        .collect();
    if names.len() < figures.len() {
        let detail = "two figures have one name".to_string();
        return (void(VoidReason::AgentFailed, detail, vec![]), None);
    }
    let boot_ms = boot.as_millis() as u64;
    let measurement = Measurement {
        figures,
        curves,
        load,
        usage,
        boot_ms,
        spin_ns: spin.as_nanos() as u64,
        kernel,
        server,
    };
    (Outcome::Measured(Box::new(measurement)), Some(facts))
}

enum End {
    Done(Box<Yield>, Duration),
    Void(VoidReason, String),
    Interrupted,
}

/// The conversation with one guest.
struct Talk<'t> {
    lab: &'t Lab<'t>,
    trial: &'t Trial,
    guest: &'t mut dyn Guest,
    start: Duration,
    last_word: Duration,
    boot: Option<Duration>,
    samples: Vec<Sample>,
}

impl Talk<'_> {
    /// Listens and answers until the attempt has an end.
    fn hold(&mut self, job: &Job) -> Result<End> {
        loop {
            if self.lab.interrupted.load(Ordering::Relaxed) {
                return Ok(End::Interrupted);
            }
            let (left, late) = self.patience();
            if left.is_zero() {
                return Ok(late);
            }
            let end = match self.guest.next(left.min(GLANCE)) {
                Happening::Quiet => None,
                Happening::Said(word) => self.hear(*word, job)?,
                Happening::Panicked(line) => Some(End::Void(VoidReason::Panic, line)),
                Happening::Exited(status) => Some(End::Void(VoidReason::MachineExit, status)),
                Happening::Garbled(why) => {
                    let detail = format!("the agent's line is garbled: {why}");
                    Some(End::Void(VoidReason::AgentFailed, detail))
                }
            };
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    /// How long to wait still, and what it is called when that is over.
    fn patience(&self) -> (Duration, End) {
        let machine = &self.lab.plan.machine;
        let now = self.lab.clock.now();
        let limit = |from: Duration, limit: Duration| (from + limit).saturating_sub(now);
        let boot = (
            limit(self.start, machine.boot_timeout),
            VoidReason::BootTimeout,
            format!(
                "no word from the agent in {}",
                show_duration(machine.boot_timeout)
            ),
        );
        let silence = (
            limit(self.last_word, machine.silence),
            VoidReason::Silent,
            format!("agent silent for {}", show_duration(machine.silence)),
        );
        let overrun = (
            limit(self.start, machine.trial_limit),
            VoidReason::Overrun,
            format!(
                "trial ran past its limit of {}",
                show_duration(machine.trial_limit)
            ),
        );
        let first = if self.boot.is_none() { boot } else { silence };
        let (left, reason, detail) = if overrun.0 < first.0 { overrun } else { first };
        (left, End::Void(reason, detail))
    }

    fn hear(&mut self, word: FromAgent, job: &Job) -> Result<Option<End>> {
        self.last_word = self.lab.clock.now();
        match (word, self.boot) {
            (FromAgent::Hello(theirs), None) => {
                if let Err(why) = recognise(self.lab.greeting, &theirs) {
                    bail!("{why} (the cache holds an agent of another build: run bakeoff again)");
                }
                self.boot = Some(self.last_word.saturating_sub(self.start));
                return Ok(self.give(job).err().map(|why| {
                    let detail = format!("the job could not be handed over: {why:#}");
                    End::Void(VoidReason::AgentFailed, detail)
                }));
            }
            (FromAgent::Failed { reason, detail }, _) => {
                return Ok(Some(End::Void(reason, detail)));
            }
            (FromAgent::Done(done), Some(boot)) => return Ok(Some(End::Done(done, boot))),
            (FromAgent::Phase(phase), Some(_)) => self.pass(Passing::Phase(phase)),
            (FromAgent::Progress { second, ok, .. }, Some(_)) => {
                self.pass(Passing::Progress { second, ok });
            }
            (FromAgent::Sample(sample), Some(_)) => self.samples.push(*sample),
            (FromAgent::Hello(_), Some(_))
            | (
                FromAgent::Done(_)
                | FromAgent::Phase(_)
                | FromAgent::Progress { .. }
                | FromAgent::Sample(_),
                None,
            ) => {
                let detail = "the agent spoke out of turn".to_string();
                return Ok(Some(End::Void(VoidReason::AgentFailed, detail)));
            }
        }
        Ok(None)
    }

    fn give(&mut self, job: &Job) -> Result<()> {
        self.guest
            .send(&ToAgent::Hello(self.lab.greeting.clone()))?;
        self.guest.send(&ToAgent::Run(Box::new(job.clone())))
    }

    fn pass(&self, passing: Passing) {
        (self.lab.show)(News::Passing(self.trial, passing));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::metric::{Direction, Figure, MetricSpec, Role};

    fn outcome(named: &[(&str, f64)]) -> Outcome {
        let figure = |(name, value): &(&str, f64)| Figure {
            spec: MetricSpec {
                name: name.to_string(),
                unit: "s".into(),
                direction: Direction::Lower,
                role: Role::Primary,
            },
            value: *value,
        };
        let done = Yield {
            figures: named.iter().map(figure).collect(),
            curves: vec![],
            load: None,
            facts: Facts::default(),
            kernel: "k".into(),
            server: "s".into(),
        };
        measured(done, Usage::default(), (Duration::ZERO, Duration::ZERO)).0
    }

    #[test]
    fn figures_that_cannot_be_compared_void_the_trial() {
        for (figures, why) in [
            (
                &[("time", 1.0), ("time", 2.0)][..],
                "two figures have one name",
            ),
            (&[("time", f64::NAN)], "figure is not a number: time"),
        ] {
            let Outcome::Void(void) = outcome(figures) else {
                panic!("{why} is no reason");
            };
            assert_eq!(void.detail, why);
        }
        assert!(matches!(outcome(&[("time", 1.0)]), Outcome::Measured(_)));
    }
}
