//! Explanations of a run's differences, for all commands that tell them: profiles are read, and become accounts, which
//! `verdict` explains.

mod account;
mod sampled;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Error, Result, anyhow};
use base::input::tree::Tree;
use judge::topics::why::find as explain;
use judge::topics::why::find::Question;
use plan::WorkloadPlan;
use profiler::format::Newer;
use profiler::profile::Profile;
use record::account::{Account, WorkUnit};
use record::hash;
use record::load::LoadResult;
use record::metric::Figure;
use record::rundir;
use record::rundir::{ProfileNote, Run, RunDir, Series, TrialRecord};
use record::trial::Outcome;
use record::verdict::why::{LostReason, LostTrial, Unexplained, Why};
use record::verdict::{Conclusion, Headline};
use serde_json::Value;

use crate::out;

/// Explains every arm on every workload, as far as profiles go: nothing of a run that was not profiled. What is wrong with a
/// profile is told on standard error, and costs nothing but the explanation.
pub(super) fn explained(dir: &Path, run: &Run) -> Vec<Why> {
    if !is_profiled(run) {
        return Vec::new();
    }
    let asked = Asked::default();
    let loaded = load(dir, run, asked);
    tell(&loaded.lost, run);
    let questions = questions(run, asked);
    let answers = questions.iter().map(|question| {
        let why = loaded.explain(run, question);
        why.map_err(|why| out::error_line(&unexplained(question, &why)))
    });
    answers.filter_map(Result::ok).collect()
}

/// Keeps explanations in the run directory; of a run that was not profiled there is no such file.
pub(super) fn keep(dir: &RunDir, run: &Run, explained: &[Why]) -> Result<()> {
    if !is_profiled(run) {
        return Ok(());
    }
    let json = serde_json::to_vec(&json(explained))?;
    dir.write(rundir::WHY, &json)
}

/// Whether any trial was to have a profile.
fn is_profiled(run: &Run) -> bool {
    measured(run).any(|record| record.profile.is_some())
}

/// Explanations as `bakeoff why --json` prints them.
pub(super) fn json(explained: &[Why]) -> Value {
    explained.iter().map(judge::report::why_json).collect()
}

/// Why one of several questions has no answer.
pub(super) fn unexplained(question: &Question<'_>, why: &Unexplained) -> String {
    format!(
        "{}, {}: {}",
        question.workload,
        question.arm,
        judge::report::unexplained(why)
    )
}

/// Which questions are wanted; `None`: all there are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asked<'q> {
    pub(super) arm: Option<&'q str>,
    pub(super) workload: Option<&'q str>,
    pub(super) metric: Option<&'q str>,
    /// The arm whose own boots are asked about.
    pub(super) within: Option<&'q str>,
}

impl Asked<'_> {
    /// Whether any of the questions needs this trial.
    fn needs(self, run: &Run, record: &TrialRecord) -> bool {
        let arm = record.trial.arm.as_str();
        let needs_arm = match (self.within, self.arm) {
            (Some(within), _) => arm == within,
            (None, Some(asked)) => arm == asked || arm == run.plan.baseline,
            (None, None) => true,
        };
        needs_arm && self.workload.is_none_or(|one| one == record.trial.workload)
    }
}

/// Every arm but the baseline, or the one whose boots are asked about, on every workload, as far as they are asked about.
pub(super) fn questions<'q>(run: &'q Run, asked: Asked<'q>) -> Vec<Question<'q>> {
    let is_asked = |asked: Option<&str>, name: &str| asked.is_none_or(|one| one == name);
    let arms = run.plan.arms.iter().map(|arm| arm.name.as_str());
    let is_wanted = |arm: &&str| match asked.within {
        Some(within) => *arm == within,
        None => *arm != run.plan.baseline && is_asked(asked.arm, arm),
    };
    let arms: Vec<&str> = arms.filter(is_wanted).collect();
    let workloads = run.plan.workloads.iter();
    let workloads = workloads.filter(|one| is_asked(asked.workload, &one.id));
    let pairs = workloads.flat_map(|one| arms.iter().map(move |arm| (one.id.as_str(), *arm)));
    let questions = pairs.map(|(workload, arm)| Question {
        workload,
        arm,
        metric: asked.metric,
    });
    questions.collect()
}

/// What profiles of a run hold, and what is amiss, with the trials of which it is.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) accounts: Vec<Account>,
    /// Profiles that are missing or cannot be read.
    pub(super) lost: BTreeMap<String, Vec<u32>>,
    /// Why those are, by trial.
    pub(super) reasons: BTreeMap<u32, LostReason>,
    /// What those that can be read do not know.
    pub(super) lacks: BTreeMap<String, Vec<u32>>,
    /// What the run says of each arm.
    headlines: Vec<Headline>,
}

impl Loaded {
    /// Explains an arm's difference from the baseline.
    pub(super) fn explain(&self, run: &Run, question: &Question<'_>) -> Result<Why, Unexplained> {
        let mut why = self.told(explain::explain(run, &self.accounts, question))?;
        let of_it = |one: &&Headline| one.workload == question.workload && one.arm == question.arm;
        if let Some(Conclusion::Withheld { violations }) =
            self.headlines.iter().find(of_it).map(|one| &one.conclusion)
        {
            why.violations.clone_from(violations);
        }
        Ok(why)
    }

    /// Explains what differs between an arm's slow boots and its fast ones.
    pub(super) fn within(&self, run: &Run, question: &Question<'_>) -> Result<Why, Unexplained> {
        self.told(explain::within(run, &self.accounts, question))
    }

    /// Says of trials without an account why they have none: what explains sees accounts alone.
    fn told(&self, answer: Result<Why, Unexplained>) -> Result<Why, Unexplained> {
        let tell = |lost: &mut Vec<LostTrial>| {
            for one in lost {
                if let (LostReason::NoProfile, Some(known)) =
                    (one.reason, self.reasons.get(&one.trial))
                {
                    one.reason = *known;
                }
            }
        };
        match answer {
            Ok(mut why) => {
                tell(&mut why.lost);
                Ok(why)
            }
            Err(Unexplained::OneBoot { mut lost }) => {
                tell(&mut lost);
                Err(Unexplained::OneBoot { lost })
            }
            Err(Unexplained::NoBlock { mut lost }) => {
                tell(&mut lost);
                Err(Unexplained::NoBlock { lost })
            }
            Err(other) => Err(other),
        }
    }
}

/// The accounts of the measured trials that are asked about, with a profile that can be read.
pub(super) fn load(dir: &Path, run: &Run, asked: Asked<'_>) -> Loaded {
    let mut loaded = Loaded {
        headlines: judge::quick_look(run).headlines,
        ..Loaded::default()
    };
    for record in measured(run).filter(|record| asked.needs(run, record)) {
        let number = record.trial.number;
        match profile(dir, series(run), record) {
            Ok(profile) => {
                for lack in &profile.lacks {
                    loaded.lacks.entry(lack.clone()).or_default().push(number);
                }
                let work = work(run, record, &profile);
                let account = account::account(&profile, number, work, run.opening.string_price);
                loaded.accounts.push(account);
            }
            Err(LostProfile { reason, why }) => {
                loaded.reasons.insert(number, reason);
                let trials = loaded.lost.entry(format!("{why:#}")).or_default();
                trials.push(number);
            }
        }
    }
    loaded
}

/// Says on standard error what is amiss, with the trials.
pub(super) fn tell(amiss: &BTreeMap<String, Vec<u32>>, run: &Run) {
    let count = measured(run).count();
    for (what, trials) in amiss {
        out::error_line(&format!("{what} ({})", named(trials, count)));
    }
}

/// `trial 002`, `trials 002, 003`, `trials: all` of so many.
fn named(trials: &[u32], count: usize) -> String {
    let mut trials = trials.to_vec();
    trials.sort_unstable();
    let numbers: Vec<String> = trials.iter().map(|one| format!("{one:03}")).collect();
    match &numbers[..] {
        all if all.len() == count => "trials: all".into(),
        [one] => format!("trial {one}"),
        several => format!("trials {}", several.join(", ")),
    }
}

/// Attempts that were measured, of those that have profiles.
pub(super) fn measured(run: &Run) -> impl Iterator<Item = &TrialRecord> {
    let attempts = match series(run) {
        Series::Judged => &run.attempts,
        Series::Profiled => &run.profiled,
    };
    attempts
        .iter()
        .filter(|record| matches!(record.outcome, Outcome::Measured(_)))
}

/// Which trials have profiles: those that were judged, or where profiles are sampled those that were run for them alone.
pub(super) fn series(run: &Run) -> Series {
    if run.profiled.is_empty() {
        Series::Judged
    } else {
        Series::Profiled
    }
}

/// What a trial's counts are divided by: requests where there are any; nothing where the work is the same in each trial, as that of a
/// program mostly is; operations where all that is measured is the time of one; else seconds of guest time.
fn work(run: &Run, record: &TrialRecord, profile: &Profile) -> (f64, WorkUnit) {
    let Outcome::Measured(measurement) = &record.outcome else {
        return (0.0, WorkUnit::Request);
    };
    if let Some(requests) = sampled::requests(profile, measurement) {
        return (requests, WorkUnit::Request);
    }
    if let Some(load) = &measurement.load {
        return (requests(load, profile.ran_ns()), WorkUnit::Request);
    }
    let is_program =
        |one: &WorkloadPlan| one.id == record.trial.workload && one.traits.runs_program;
    if run.plan.workloads.iter().any(is_program) {
        return (1.0, WorkUnit::Run);
    }
    work_of(&measurement.figures, profile.ran_ns())
}

/// The same of a workload that is no program and has no requests: its figures tell.
fn work_of(figures: &[Figure], ran_ns: u64) -> (f64, WorkUnit) {
    let ran_ns = ran_ns as f64;
    match figures {
        [first, ..] if first.spec.unit == "s" => (1.0, WorkUnit::Run),
        [only] if only.spec.unit == "ns" && only.value > 0.0 => {
            (ran_ns / only.value, WorkUnit::Operation)
        }
        _ => (ran_ns / 1e9, WorkUnit::Second),
    }
}

/// Requests of so much guest time at the rate of the clients' windows: the profile of a ramp has the warm-ups of its later
/// steps in it, as the metric has.
fn requests(load: &LoadResult, ran_ns: u64) -> f64 {
    load.ok_in_window as f64 * (ran_ns as f64 / load.window_ns as f64)
}

/// Why a trial has no profile that can be used.
pub(super) struct LostProfile {
    reason: LostReason,
    /// In words.
    pub(super) why: Error,
}

impl LostProfile {
    fn new(reason: LostReason, why: Error) -> Self {
        Self { reason, why }
    }
}

/// The profile of a trial, as its record says that it was written.
pub(super) fn profile(
    dir: &Path,
    series: Series,
    record: &TrialRecord,
) -> Result<Profile, LostProfile> {
    let sha256 = match &record.profile {
        Some(ProfileNote::Kept { sha256, .. } | ProfileNote::Sampled { sha256, .. }) => sha256,
        Some(ProfileNote::Missing(why)) => {
            let why = anyhow!("no profile: {why}");
            return Err(LostProfile::new(LostReason::NotMade, why));
        }
        None => {
            let why = anyhow!("the trials were not profiled");
            return Err(LostProfile::new(LostReason::NoProfile, why));
        }
    };
    let dir = Tree::at(dir)
        .below(series.folder())
        .below(record.attempt_name());
    let path = dir.path().join(rundir::PROFILE);
    let bytes = dir.read(rundir::PROFILE, profiler::format::PACKED_BYTES);
    let bytes = bytes.map_err(|why| {
        let is_gone = why.kind() == ErrorKind::NotFound;
        let reason = if is_gone {
            LostReason::Gone
        } else {
            LostReason::Damaged
        };
        let why = Error::new(why).context(format!("cannot read {}", path.display()));
        LostProfile::new(reason, why)
    })?;
    if hash::sha256(&bytes) != *sha256 {
        let why = anyhow!("not the profile that the trial wrote: {}", path.display());
        return Err(LostProfile::new(LostReason::Damaged, why));
    }
    let read = profiler::format::read(&bytes);
    read.map_err(|why| {
        let reason = if why.is::<Newer>() {
            LostReason::Newer
        } else {
            LostReason::Damaged
        };
        LostProfile::new(reason, why.context(path.display().to_string()))
    })
}

#[cfg(test)]
mod tests {
    use record::metric::{Direction, Role};

    use super::*;

    #[test]
    fn trials_are_named_one_by_one_unless_it_is_all_of_them() {
        assert_eq!(named(&[2], 4), "trial 002");
        assert_eq!(named(&[3, 2], 4), "trials 002, 003");
        assert_eq!(named(&[1, 2], 2), "trials: all");
    }

    #[test]
    fn the_warm_ups_of_a_ramp_count_at_the_rate_of_its_windows() {
        let load = LoadResult {
            window_ns: 8_000_000_000,
            ok: 1_000,
            ok_in_window: 1_000,
            ..LoadResult::default()
        };
        let of = |ran_ns| requests(&load, ran_ns) as u64;
        assert_eq!(of(8_000_000_000), 1_000);
        assert_eq!(of(10_000_000_000), 1_250);
    }

    #[test]
    fn counts_are_divided_by_operations_where_the_time_of_one_is_all_that_is_measured() {
        let figure = |unit: &str, value| {
            Figure::new("yield-last", unit, Direction::Lower, Role::Primary, value)
        };
        let of = |figures: &[Figure]| work_of(figures, 3_000_000_000);
        assert_eq!(
            of(&[figure("ns", 5_000.0)]),
            (600_000.0, WorkUnit::Operation)
        );
        let steps = [figure("ns", 5_000.0), figure("ns", 4_000.0)];
        assert_eq!(of(&steps), (3.0, WorkUnit::Second), "the mix is the arm's");
        assert_eq!(of(&[figure("s", 2.0)]), (1.0, WorkUnit::Run));
        assert_eq!(of(&[figure("ns", 0.0)]), (3.0, WorkUnit::Second));
    }
}
