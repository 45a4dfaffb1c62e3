//! What an earlier run says of the next one: its noise, and how long its trials took.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Result, bail};
use base::input::units::show_bytes;
use machine::emulator_choice;
use plan::{Clock, Design, MachineKind, Plan};
use record::journal::{Entry, Event};
use record::metric::Role;
use record::rundir;
use record::rundir::Run;
use serde::Serialize;

/// What is known of one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Known {
    /// The workload's id.
    pub(super) workload: String,
    /// Scale of a block's log-ratio, the noisiest arm's.
    pub(super) noise: f64,
    /// What not being first in a block does there, as a share.
    pub(super) order_effect: f64,
    /// Share of trials that are outliers.
    pub(super) outliers: f64,
    /// Host time of a trial, boot included, in seconds.
    pub(super) trial_s: f64,
}

/// What a plan's workload will take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Forecast {
    /// From where it is known.
    pub(super) known: Known,
    /// Blocks that show a difference of one margin in 95 of 100 runs.
    pub(super) blocks: u32,
    /// Host time of so many blocks, all arms together.
    pub(super) hours: f64,
    /// Trials that run at a time in these hours.
    pub(super) jobs: usize,
}

/// An earlier run, as far as a plan can learn from it.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// Its workloads.
    pub(super) known: Vec<Known>,
    /// In what it is not what the plan asks for.
    pub(super) warning: Option<String>,
}

/// How long the load of a trial takes, and how that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// The plan says.
    Known(Duration),
    /// Trials of this plan took so long.
    Measured(Duration),
    /// A program runs to its end, and nothing but its limit is known.
    AtMost(Duration),
}

impl Length {
    pub(super) fn time(&self) -> Duration {
        match self {
            Self::Known(time) | Self::Measured(time) | Self::AtMost(time) => *time,
        }
    }
}

/// The lengths of a plan's workloads; what trials in its own run directory took stands in the place of a limit.
pub(super) fn lengths(plan: &Plan, file: &Path) -> Vec<Length> {
    let dir = Path::new("runs").join(file.file_stem().unwrap_or(file.as_os_str()));
    let mut run = None;
    let mut lengths = Vec::new();
    for workload in &plan.workloads {
        let length = match (workload.expected, workload::runs_to_completion(workload)) {
            (Some(expected), _) => Length::Known(expected),
            (None, false) => Length::Known(workload.length),
            (None, true) => {
                let run = run.get_or_insert_with(|| rundir::load(&dir, &workload::check).ok());
                let same = run
                    .as_ref()
                    .filter(|run| run.plan.workloads.contains(workload));
                let measured = same.and_then(|run| mean_trial(&run.entries, &workload.id));
                measured.map_or(Length::AtMost(workload.length), Length::Measured)
            }
        };
        lengths.push(length);
    }
    lengths
}

/// Reads off an earlier run what is known of its workloads, and whether it holds for the plan.
pub(super) fn past(dir: &Path, plan: &Plan) -> Result<Past> {
    let run = rundir::load(dir, &workload::check)?;
    let judgement = judge::look(&run);
    let of_workload = |id: &String| {
        let (noise, noisiest) = judgement
            .comparisons
            .iter()
            .filter(|one| one.workload == *id && one.spec.role == Role::Primary)
            .filter(|one| one.ratio.is_some() && one.blocks > 1)
            .filter_map(|one| Some((one.noise?, one)))
            .max_by(|one, other| one.0.total_cmp(&other.0))?;
        let outliers = noisiest
            .outliers
            .map_or(0, |count| count.arm + count.baseline);
        Some(Known {
            workload: id.clone(),
            noise,
            order_effect: noisiest.order_effect.unwrap_or(0.0),
            outliers: f64::from(outliers) / f64::from(2 * noisiest.blocks),
            trial_s: mean_trial(&run.entries, id)?.as_secs_f64(),
        })
    };
    let ids = run.plan.workloads.iter().map(|workload| &workload.id);
    let known: Vec<Known> = ids.filter_map(of_workload).collect();
    if known.is_empty() {
        bail!(
            "no workload with two whole blocks in {} (let that run go on first)",
            dir.display()
        );
    }
    let differences = differences(&run, plan);
    let warning = (!differences.is_empty()).then(|| {
        format!(
            "{} is not what this plan asks for: {} (its noise and times may not hold)",
            dir.display(),
            differences.join("; ")
        )
    });
    Ok(Past { known, warning })
}

/// What makes noise and lengths of trials, and is not the same.
fn differences(run: &Run, plan: &Plan) -> Vec<String> {
    let (was, is) = (&run.plan.machine, &plan.machine);
    let clock = match run.opening.ns_per_instruction {
        Some(_) => Clock::Instructions,
        None => Clock::Wall,
    };
    let mut differences = Vec::new();
    let mut differ = |differs: bool, what: String| differences.extend(differs.then_some(what));
    differ(
        was.kind != is.kind,
        format!("machine was {:?}, is {:?}", was.kind, is.kind),
    );
    // What "auto" comes to is known only of the run.
    differ(
        was.clock != is.clock && clock != is.clock,
        format!("clock was {clock:?}, is {:?}", is.clock),
    );
    let (old, new) = (cpus(&run.plan), cpus(plan));
    differ(old != new, format!("cpus were {old}, are {new}"));
    let (old, new) = (show_bytes(was.memory_bytes), show_bytes(is.memory_bytes));
    differ(
        was.memory_bytes != is.memory_bytes,
        format!("memory was {old}, is {new}"),
    );
    for workload in &plan.workloads {
        let before = run.plan.workloads.iter().find(|one| one.id == workload.id);
        let changed = before.is_some_and(|before| {
            (&before.kind, &before.options) != (&workload.kind, &workload.options)
        });
        differ(
            changed,
            format!("workload {} has other options", workload.id),
        );
    }
    differences.iter().map(|what| what.to_lowercase()).collect()
}

/// The numbers of CPUs that arms have: `1` or `1, 2, 4`.
fn cpus(plan: &Plan) -> String {
    let counts: BTreeSet<Option<u32>> = plan.arms.iter().map(|arm| plan.cpus(arm)).collect();
    let word = |count: &Option<u32>| count.map_or("all".to_owned(), |count| count.to_string());
    counts.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// What the plan takes, for each of its workloads that is known.
pub(super) fn of(plan: &Plan, known: &[Known], jobs: usize) -> Vec<Forecast> {
    let fewest = enough(&plan.design);
    let forecast = |id: &String| {
        let known = known.iter().find(|known| known.workload == *id)?.clone();
        let needed = stats::looks::needed(known.noise, plan.design.margin, plan.design.error_rate);
        let blocks = needed.max(fewest);
        let hours = f64::from(blocks) * hours_of_block(plan, known.trial_s, jobs);
        Some(Forecast {
            known,
            blocks,
            hours,
            jobs,
        })
    };
    let ids = plan.workloads.iter().map(|workload| &workload.id);
    ids.filter_map(forecast).collect()
}

/// Host time of one block, all arms together, where `jobs` trials run at a time.
pub(super) fn hours_of_block(plan: &Plan, trial_s: f64, jobs: usize) -> f64 {
    plan.arms.len() as f64 * trial_s / jobs as f64 / 3600.0
}

/// Whether a run of this plan would count instructions here, as far as that is known before it.
pub(super) fn counts_instructions(plan: &Plan, qemu: Option<&Path>) -> Result<bool> {
    match plan.machine.clock {
        Clock::Instructions => Ok(true),
        Clock::Wall => Ok(false),
        Clock::Auto if plan.machine.kind == MachineKind::Local => Ok(false),
        Clock::Auto => super::at_work(true, |cache, task| {
            let program = emulator_choice::for_kvm(qemu, cache, task);
            Ok(program.is_ok_and(|program| machine::kvm::is_known_to_emulate(cache, &program)))
        }),
    }
}

/// The fewest blocks after which the plan can tell a difference; `None` when its most is too few.
pub(super) fn smallest(design: &Design) -> Option<u32> {
    // Every workload measures several metrics, so the primary one has half of the error rate.
    stats::looks::smallest(design.error_rate / 2.0, design)
}

/// Blocks after which a difference can be told: the plan's, or those of the shortest longer plan that can.
pub(super) fn enough(design: &Design) -> u32 {
    let shortest = || stats::looks::fewest_blocks(design.error_rate / 2.0) as u32;
    smallest(design).unwrap_or_else(shortest)
}

/// Mean host time from the start of a trial's attempt to its end.
pub(super) fn mean_trial(entries: &[Entry], workload: &str) -> Option<Duration> {
    let (mut sum, mut count, mut began) = (Duration::ZERO, 0, BTreeMap::new());
    for entry in entries {
        match &entry.event {
            Event::Started { trial, .. } if trial.workload == workload => {
                began.insert(trial.number, at(entry));
            }
            Event::Ended { trial, .. } if trial.workload == workload => {
                let end = began.remove(&trial.number).flatten().zip(at(entry));
                if let Some(length) = end.and_then(|(from, to)| to.duration_since(from).ok()) {
                    sum += length;
                    count += 1;
                }
            }
            // Time between two sessions is not a trial's.
            Event::Resumed { .. } | Event::Extended { .. } => began.clear(),
            Event::Started { .. }
            | Event::Ended { .. }
            | Event::Opened(_)
            | Event::Ceiling { .. }
            | Event::OneFewer { .. }
            | Event::Merged { .. }
            | Event::Invalidated { .. }
            | Event::Looked { .. }
            | Event::Profiling { .. }
            | Event::Profiled { .. }
            | Event::Closed { .. } => {}
        }
    }
    (count > 0).then(|| sum / count)
}

fn at(entry: &Entry) -> Option<SystemTime> {
    humantime::parse_rfc3339(&entry.at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::journal::Ending;
    use record::trial::Trial;

    #[test]
    fn a_plan_that_is_too_short_is_told_how_long_it_must_be() {
        let design = |max_blocks| Design {
            margin: 0.02,
            error_rate: 0.01,
            min_blocks: 2,
            max_blocks,
            more_blocks: 0,
            seed: 1,
            arms: 0,
        };
        assert_eq!((smallest(&design(5)), enough(&design(5))), (None, 9));
        assert_eq!(smallest(&design(9)), Some(9));
        assert_eq!(smallest(&design(30)), Some(enough(&design(30))));
    }

    fn entry(at: &str, event: Event) -> Entry {
        Entry {
            at: at.into(),
            event,
        }
    }

    fn trial(number: u32) -> Trial {
        Trial {
            number,
            block: 1,
            slot: 1,
            arm: "a".into(),
            workload: "web".into(),
        }
    }

    fn started(number: u32, at: &str) -> Entry {
        entry(
            at,
            Event::Started {
                trial: trial(number),
                attempt: 1,
            },
        )
    }

    fn ended(number: u32, at: &str) -> Entry {
        entry(
            at,
            Event::Ended {
                trial: trial(number),
                attempt: 1,
                ending: Ending::Measured,
                record: String::new(),
                facts: None,
            },
        )
    }

    #[test]
    fn an_interrupted_trial_does_not_lengthen_the_mean() {
        let bakeoff = "0.1.0".to_string();
        let entries = [
            started(1, "2026-01-01T00:00:00Z"),
            ended(1, "2026-01-01T00:00:10Z"),
            started(2, "2026-01-01T00:00:10Z"),
            entry("2026-01-02T00:00:00Z", Event::Resumed { bakeoff }),
            started(2, "2026-01-02T00:00:00Z"),
            ended(2, "2026-01-02T00:00:20Z"),
        ];
        assert_eq!(mean_trial(&entries, "web"), Some(Duration::from_secs(15)));
        assert_eq!(mean_trial(&entries, "other"), None);
    }

    #[test]
    fn each_of_several_trials_at_a_time_has_its_own_length() {
        let entries = [
            started(1, "2026-01-01T00:00:00Z"),
            started(2, "2026-01-01T00:00:05Z"),
            ended(1, "2026-01-01T00:00:20Z"),
            started(3, "2026-01-01T00:00:20Z"),
            ended(2, "2026-01-01T00:00:25Z"),
            ended(3, "2026-01-01T00:00:40Z"),
        ];
        assert_eq!(mean_trial(&entries, "web"), Some(Duration::from_secs(20)));
    }
}
