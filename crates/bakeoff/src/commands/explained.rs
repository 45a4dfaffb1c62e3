//! Explains a run's differences, for all commands that print explanations. Profiles are read and summed into accounts, from
//! which the judge finds explanations.

mod account;
mod sampled;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Error, Result, anyhow};
use base::input::tree::Tree;
use judge::topics::why::find as explain;
use judge::topics::why::find::Question;
use profiler::format::Newer;
use profiler::profile::Profile;
use record::account::{Account, WorkUnit};
use record::hash;
use record::load::LoadResult;
use record::metric::Figure;
use record::rundir;
use record::rundir::{ProfileNote, Run, Series, TrialRecord};
use record::trial::Outcome;
use record::verdict::why::{LostReason, LostTrial, Unexplained, Why};
use record::verdict::{Conclusion, Headline};
use serde_json::Value;

use crate::out;

/// Explains every arm on every workload, as far as there are profiles. Problems with profiles are printed on standard error;
/// the affected differences have no explanation. Returns nothing for a run without profiles.
pub(super) fn explained(dir: &Path, run: &Run) -> Vec<Why> {
    if !is_profiled(run) {
        return Vec::new();
    }
    let selection = Selection::default();
    let loaded = load(dir, run, selection);
    print_problems(&loaded.lost, run);
    let mut whys = Vec::new();
    for question in &questions(run, selection) {
        match loaded.explain(run, question) {
            Ok(why) => whys.push(why),
            Err(why) => out::error_line(&unexplained_line(question, &why)),
        }
    }
    whys
}

/// The content of the file with explanations; `None` for a run without profiles.
pub(super) fn file(run: &Run, explained: &[Why]) -> Result<Option<Vec<u8>>> {
    if !is_profiled(run) {
        return Ok(None);
    }
    Ok(Some(serde_json::to_vec(&json(explained))?))
}

/// Whether any trial should have a profile.
fn is_profiled(run: &Run) -> bool {
    measured(run).any(|record| record.profile.is_some())
}

/// Explanations as `bakeoff why --json` prints them.
pub(super) fn json(explained: &[Why]) -> Value {
    explained.iter().map(judge::report::why_json).collect()
}

/// The line that reports why one of several questions has no answer.
pub(super) fn unexplained_line(question: &Question<'_>, why: &Unexplained) -> String {
    format!(
        "{}, {}: {}",
        question.workload,
        question.arm,
        judge::report::unexplained(why)
    )
}

/// Which questions the user selected; `None` selects all.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Selection<'q> {
    pub(super) arm: Option<&'q str>,
    pub(super) workload: Option<&'q str>,
    pub(super) metric: Option<&'q str>,
    /// The arm whose slow and fast boots are to be compared.
    pub(super) within: Option<&'q str>,
}

impl Selection<'_> {
    /// Whether any selected question needs this trial.
    fn needs(self, run: &Run, record: &TrialRecord) -> bool {
        let arm = record.trial.arm.as_str();
        let needs_arm = match (self.within, self.arm) {
            (Some(within), _) => arm == within,
            (None, Some(selected)) => arm == selected || arm == run.plan.baseline,
            (None, None) => true,
        };
        needs_arm && self.has_workload(&record.trial.workload)
    }

    fn has_workload(self, id: &str) -> bool {
        self.workload.is_none_or(|selected| selected == id)
    }

    fn has_arm(self, name: &str, baseline: &str) -> bool {
        match self.within {
            Some(within) => name == within,
            None => name != baseline && self.arm.is_none_or(|selected| selected == name),
        }
    }
}

/// The selected questions: one for each workload and each arm other than the baseline, or for the arm of `within`.
pub(super) fn questions<'q>(run: &'q Run, selection: Selection<'q>) -> Vec<Question<'q>> {
    let mut questions = Vec::new();
    for workload in &run.plan.workloads {
        for arm in &run.plan.arms {
            if selection.has_workload(&workload.id)
                && selection.has_arm(&arm.name, &run.plan.baseline)
            {
                questions.push(Question {
                    workload: &workload.id,
                    arm: &arm.name,
                    metric: selection.metric,
                });
            }
        }
    }
    questions
}

/// The accounts of a run's profiles, and the problems of profiles with the numbers of the affected trials.
#[derive(Default)]
pub(super) struct LoadedProfiles {
    pub(super) accounts: Vec<Account>,
    /// Profiles that are missing or cannot be read: the problem, and its trials.
    pub(super) lost: BTreeMap<String, Vec<u32>>,
    /// Why the profile of a trial is lost.
    pub(super) reasons: BTreeMap<u32, LostReason>,
    /// Information that readable profiles lack, and their trials.
    pub(super) lacks: BTreeMap<String, Vec<u32>>,
    /// The run's headlines, one for each workload and arm.
    headlines: Vec<Headline>,
}

impl LoadedProfiles {
    /// Explains an arm's difference from the baseline.
    pub(super) fn explain(&self, run: &Run, question: &Question<'_>) -> Result<Why, Unexplained> {
        let mut why = self.with_reasons(explain::explain(run, &self.accounts, question))?;
        let headline = self.headlines.iter().find(|headline| {
            headline.workload == question.workload && headline.arm == question.arm
        });
        if let Some(headline) = headline
            && let Conclusion::Withheld { failed_checks } = &headline.conclusion
        {
            why.failed_checks.clone_from(failed_checks);
        }
        Ok(why)
    }

    /// Explains the difference between an arm's slow and fast boots.
    pub(super) fn within(&self, run: &Run, question: &Question<'_>) -> Result<Why, Unexplained> {
        self.with_reasons(explain::within(run, &self.accounts, question))
    }

    /// Adds the reasons why trials have no account. The judge sees only accounts, so it does not know them.
    fn with_reasons(&self, mut answer: Result<Why, Unexplained>) -> Result<Why, Unexplained> {
        let lost: &mut [LostTrial] = match &mut answer {
            Ok(why) => &mut why.lost,
            Err(Unexplained::OneBoot { lost } | Unexplained::NoBlock { lost }) => lost,
            Err(_) => &mut [],
        };
        for trial in lost {
            if let (LostReason::NoProfile, Some(known)) =
                (trial.reason, self.reasons.get(&trial.trial))
            {
                trial.reason = *known;
            }
        }
        answer
    }
}

/// Loads the profiles of the measured trials that the selection needs.
pub(super) fn load(dir: &Path, run: &Run, selection: Selection<'_>) -> LoadedProfiles {
    let mut loaded = LoadedProfiles {
        headlines: judge::summary(run).headlines,
        ..LoadedProfiles::default()
    };
    for record in measured(run).filter(|record| selection.needs(run, record)) {
        let number = record.trial.number;
        match profile(dir, series(run), record) {
            Ok(profile) => {
                for lack in &profile.lacks {
                    loaded.lacks.entry(lack.clone()).or_default().push(number);
                }
                let (work, unit) = work(run, record, &profile);
                let price = run.opening.string_price;
                let account = account::account(&profile, number, work, unit, price);
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

/// Prints problems of profiles with their trials on standard error.
pub(super) fn print_problems(problems: &BTreeMap<String, Vec<u32>>, run: &Run) {
    let count = measured(run).count();
    for (problem, trials) in problems {
        out::error_line(&format!("{problem} ({})", trial_list(trials, count)));
    }
}

/// `trial 002`, `trials 002, 003`, or `trials: all` if there are `count` of them.
fn trial_list(trials: &[u32], count: usize) -> String {
    let mut trials = trials.to_vec();
    trials.sort_unstable();
    let numbers: Vec<String> = trials.iter().map(|number| format!("{number:03}")).collect();
    match &numbers[..] {
        all if all.len() == count => "trials: all".into(),
        [number] => format!("trial {number}"),
        several => format!("trials {}", several.join(", ")),
    }
}

/// The measured attempts of the series that has profiles.
pub(super) fn measured(run: &Run) -> impl Iterator<Item = &TrialRecord> {
    let attempts = match series(run) {
        Series::Judged => &run.attempts,
        Series::Profiled => &run.profiled,
    };
    attempts
        .iter()
        .filter(|record| matches!(record.outcome, Outcome::Measured(_)))
}

/// The series that has profiles: the judged trials, or if profiles are sampled, the trials that ran only for their profile.
pub(super) fn series(run: &Run) -> Series {
    if run.profiled.is_empty() {
        Series::Judged
    } else {
        Series::Profiled
    }
}

/// The amount of work by which a trial's counts are divided, and its unit. The first of these that applies: requests; 1 for a
/// program, whose work is mostly the same in each trial; operations, if the only figure is the time of one; seconds of
/// guest time.
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
    let mut workloads = run.plan.workloads.iter();
    let workload = workloads.find(|workload| workload.id == record.trial.workload);
    if workload.is_some_and(|workload| workload.traits.runs_program) {
        return (1.0, WorkUnit::Run);
    }
    work_from_figures(&measurement.figures, profile.ran_ns())
}

/// The amount of work of a workload that is not a program and has no requests.
fn work_from_figures(figures: &[Figure], ran_ns: u64) -> (f64, WorkUnit) {
    let ran_ns = ran_ns as f64;
    match figures {
        [first, ..] if first.spec.unit == "s" => (1.0, WorkUnit::Run),
        [only] if only.spec.unit == "ns" && only.value > 0.0 => {
            (ran_ns / only.value, WorkUnit::Operation)
        }
        _ => (ran_ns / 1e9, WorkUnit::Second),
    }
}

/// The requests in `ran_ns` of guest time, at the rate of the clients' windows. The profile of a ramp includes the warm-ups
/// of its later steps, as the metric does.
fn requests(load: &LoadResult, ran_ns: u64) -> f64 {
    load.ok_in_window as f64 * (ran_ns as f64 / load.window_ns as f64)
}

/// Why a trial has no usable profile.
pub(super) struct LostProfile {
    reason: LostReason,
    pub(super) why: Error,
}

impl LostProfile {
    fn new(reason: LostReason, why: Error) -> Self {
        Self { reason, why }
    }
}

/// Reads the profile of a trial and checks it against the SHA-256 sum in the record.
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
        assert_eq!(trial_list(&[2], 4), "trial 002");
        assert_eq!(trial_list(&[3, 2], 4), "trials 002, 003");
        assert_eq!(trial_list(&[1, 2], 2), "trials: all");
    }

    #[test]
    fn the_warm_ups_of_a_ramp_count_at_the_rate_of_its_windows() {
        let load = LoadResult {
            window_ns: 8_000_000_000,
            ok: 1_000,
            ok_in_window: 1_000,
            ..LoadResult::default()
        };
        assert_eq!(requests(&load, 8_000_000_000) as u64, 1_000);
        assert_eq!(requests(&load, 10_000_000_000) as u64, 1_250);
    }

    #[test]
    fn counts_are_divided_by_operations_where_the_time_of_one_is_all_that_is_measured() {
        let figure = |unit: &str, value| {
            Figure::new("yield-last", unit, Direction::Lower, Role::Primary, value)
        };
        let work = |figures: &[Figure]| work_from_figures(figures, 3_000_000_000);
        assert_eq!(
            work(&[figure("ns", 5_000.0)]),
            (600_000.0, WorkUnit::Operation)
        );
        let steps = [figure("ns", 5_000.0), figure("ns", 4_000.0)];
        let seconds = (3.0, WorkUnit::Second);
        assert_eq!(work(&steps), seconds, "the arm determines the mix");
        assert_eq!(work(&[figure("s", 2.0)]), (1.0, WorkUnit::Run));
        assert_eq!(work(&[figure("ns", 0.0)]), seconds);
    }
}
