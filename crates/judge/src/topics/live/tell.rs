//! A running run, in words.

use std::time::{Duration, SystemTime};

use base::input::units::{show_bytes, significant};
use record::journal::{Ending, Entry, Event};
use record::live::{Activity, ArmNow, Attempt, Basis, Left, NightPlan, Seen, Snapshot, State};
use record::metric::Role;
use record::rundir::Series;
use record::trial::{Outcome, Trial};
use record::verdict::fairness::Outcome as Check;

use crate::topics::fairness::tell as fairness;
use crate::topics::findings::tell::disturbance as disturbance_text;
use crate::topics::headline::tell::headline;
use crate::topics::host::tell::machine;
use crate::topics::interim::tell::interim_analysis;
use crate::topics::limits::tell as limits;
use crate::topics::nodes::tell::merged;
use crate::topics::run_state::tell as run_state;
use crate::words::{NONE, blocks, count, counted, figure, unit};

/// Placeholder for verdicts before the first comparison.
pub(crate) const NOTHING: &str =
    "Nothing is compared yet: that takes a block in which two arms were measured.";

/// Warning if watching disturbs the trials.
pub(crate) const MEASURED_HERE: &str = "This host is being measured: watching takes CPU time from the trials, so the run is looked at \
    every 5 seconds and judged between trials only. Better: end this, and look when the run is over.";

/// State of a run, and why it is over.
pub fn state(now: &Snapshot) -> String {
    match now.judged.as_deref() {
        Some((run, judgement)) if now.state.is_over() => run_state::state(run, judgement),
        _ => now.state.word().into(),
    }
}

/// State of a plan of a nightly run; `now` is its run, if it has one.
pub(crate) fn night_plan(plan: &NightPlan, now: Option<&Snapshot>) -> String {
    let begun = now.filter(|now| match now.state {
        State::NotThere | State::NotBegun | State::Gone => false,
        State::Running
        | State::Interrupted
        | State::Finished
        | State::Undecided
        | State::Failed
        | State::Damaged => true,
    });
    match (begun, &plan.failure) {
        (Some(now), _) if now.state == State::Running => {
            let mut parts = vec![state(now), progress(now)];
            parts.extend(now.left.as_ref().map(left));
            parts.join(", ")
        }
        (_, Some(failure)) => format!("failed: {failure}"),
        (Some(now), None) => [state(now), progress(now)].join(", "),
        (None, None) => "not begun".into(),
    }
}

/// `3 of at most 10 blocks`.
pub(crate) fn progress(now: &Snapshot) -> String {
    let most = now
        .plan
        .as_ref()
        .map_or(0, |plan| plan.design.most_blocks());
    format!("{} of at most {}", now.blocks, blocks(most))
}

/// Time left, with its range and its basis.
pub(crate) fn left(left: &Left) -> String {
    let range = if rough(left.least) == rough(left.most) {
        rough(left.most)
    } else {
        format!("{} to {}", rough(left.least), rough(left.most))
    };
    let time = match left.likely {
        Some(likely) => format!("about {} left ({range})", rough(likely)),
        None => format!("{range} left"),
    };
    let basis = match left.basis {
        Basis::Ended { trials } => format!("from {}", counted(trials, "trial")),
        Basis::UnderWay => "from the trial under way".into(),
        Basis::Planned => "by the plan, boots not counted".into(),
    };
    format!("{time}, {basis}")
}

/// A duration in one unit, with at most one decimal.
pub(crate) fn rough(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let (value, unit) = match seconds {
        small if small < 90.0 => (small, "s"),
        some if some < 5400.0 => (some / 60.0, "min"),
        many if many < 172_800.0 => (many / 3600.0, "h"),
        days => (days / 86_400.0, "days"),
    };
    let is_small = value < 9.95 && unit != "s";
    let value = if is_small {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    };
    format!("{} {unit}", value.trim_end_matches(".0"))
}

/// Phase of an attempt, such as `measuring, second 42 of 60`, or its outcome.
pub(crate) fn activity(arm: &ArmNow) -> String {
    match arm.activity {
        Some(Activity::Starting) => "booting or setting up".into(),
        Some(Activity::WarmingUp) => "warming up".into(),
        Some(Activity::Measuring { second, of_s }) => {
            let of = of_s.map_or(String::new(), |of_s| format!(" of {of_s:.0}"));
            format!("measuring, second {second:.0}{of}")
        }
        Some(Activity::Ending) => "collecting".into(),
        None => end(&arm.attempt),
    }
}

/// Outcome of an attempt.
pub(crate) fn end(attempt: &Attempt) -> String {
    let end = match attempt.ended {
        Some((_, Ending::Measured)) if attempt.is_invalidated => "measured, disturbed".into(),
        Some((_, ending)) => ending_words(ending),
        None => "interrupted".into(),
    };
    if attempt.series == Series::Profiled {
        format!("{end}, for its profile")
    } else {
        end
    }
}

fn ending_words(ending: Ending) -> String {
    match ending {
        Ending::Measured => "measured".into(),
        Ending::Void(reason) => format!("void: {}", reason.words()),
        Ending::Skipped => "skipped".into(),
    }
}

/// `trial 005`, with the number of the attempt unless it is the first.
pub(crate) fn trial(attempt: &Attempt) -> String {
    numbered(attempt.trial.number, attempt.attempt)
}

fn numbered(number: u32, attempt: u32) -> String {
    match attempt {
        1 => format!("trial {number:03}"),
        more => format!("trial {number:03}, attempt {more}"),
    }
}

/// Requests per second in the newest second.
pub(crate) fn throughput(arm: &ArmNow) -> String {
    let newest = arm.curve.newest();
    newest.map_or(NONE.into(), |point| format!("{}/s", rate(point.ok_per_s())))
}

/// p99 latency in the newest second.
pub(crate) fn p99(arm: &ArmNow) -> String {
    let p99_ms = arm.curve.newest().and_then(|point| point.p99_ms);
    p99_ms.map_or(NONE.into(), |ms| format!("{} ms", significant(ms, 3)))
}

/// A rate, with one decimal below 100.
pub(crate) fn rate(per_s: f64) -> String {
    if per_s < 100.0 {
        figure((per_s * 10.0).round() / 10.0)
    } else {
        count(per_s.round() as u64)
    }
}

/// The primary figure of an ended attempt.
pub(crate) fn figure_of(now: &Snapshot, attempt: &Attempt) -> Option<String> {
    let (run, _) = now.judged.as_deref()?;
    let mut records = match attempt.series {
        Series::Judged => run.attempts.iter().chain(&run.invalidated),
        Series::Profiled => run.profiled.iter().chain(&[]),
    };
    let name = (attempt.trial.number, attempt.attempt);
    let record = records.find(|record| (record.trial.number, record.attempt) == name)?;
    let Outcome::Measured(measured) = &record.outcome else {
        return None;
    };
    let mut figures = measured.figures.iter();
    let primary = figures.find(|figure| figure.spec.role == Role::Primary)?;
    let unit = unit(&primary.spec.unit);
    Some(format!("{} {unit}", figure(primary.value)))
}

/// How many attempts of an arm count, and how many failed: `5 measured, 1 failed`.
pub(crate) fn counts(now: &Snapshot, arm: &str) -> String {
    let (mut measured, mut failed) = (0, 0);
    for attempt in &now.attempts {
        if attempt.trial.arm == arm && attempt.series == Series::Judged {
            measured += u32::from(attempt.is_measured() && !attempt.is_invalidated);
            let ending = attempt.ended.map(|(_, ending)| ending);
            failed += u32::from(matches!(ending, Some(Ending::Void(_) | Ending::Skipped)));
        }
    }
    match failed {
        0 => format!("{measured} measured"),
        failed => format!("{measured} measured, {failed} failed"),
    }
}

/// The system in the newest second: `CPU 87 %, 1.2 GiB available`.
pub(crate) fn system(arm: &ArmNow) -> Option<String> {
    let sample = arm.sample.as_ref()?;
    let cpu = &sample.cpu;
    let idle = cpu.idle_ms + cpu.iowait_ms;
    let busy = cpu.user_ms + cpu.system_ms + cpu.irq_ms + cpu.softirq_ms + cpu.steal_ms;
    let share = busy as f64 / (busy + idle).max(1) as f64 * 100.0;
    let available = show_bytes(sample.memory.available_bytes);
    Some(format!("CPU {share:.0} %, {available} available"))
}

/// A defect without its arm: `hung-task in fsync, 3 times`.
pub(crate) fn defect(seen: &Seen) -> String {
    let place = if seen.top.is_empty() {
        String::new()
    } else {
        format!(" in {}", seen.top)
    };
    let times = if seen.count == 1 {
        String::new()
    } else {
        format!(", {} times", seen.count)
    };
    format!("{}{place}{times}", seen.kind)
}

/// Time of a defect's first report.
pub(crate) fn defect_time(seen: &Seen) -> String {
    match (seen.first_s, seen.since_boot_s) {
        (Some(at_s), _) => format!("second {at_s:.0}"),
        (None, Some(at_s)) => format!("{at_s:.0} s after boot"),
        (None, None) => NONE.into(),
    }
}

/// Number of defects without notices; `None` if there are none.
pub(crate) fn defect_count(now: &Snapshot) -> Option<String> {
    let defects = now.defects.iter().filter(|(_, _, seen)| !seen.is_notice());
    match defects.count() {
        0 => None,
        some => Some(counted(some as u32, "defect")),
    }
}

/// Placeholder for an empty list of defects.
pub fn no_defects(now: &Snapshot) -> &'static str {
    if now.attempts.is_empty() {
        "Nothing was run yet."
    } else {
        "No kernel or service errors logged."
    }
}

/// Fairness checks that failed so far.
pub(crate) fn failed_checks(now: &Snapshot) -> Vec<String> {
    let Some((_, judgement)) = now.judged.as_deref() else {
        return Vec::new();
    };
    fairness::failed_checks(&judgement.fairness)
}

/// Number of failed fairness checks; `None` if there are none.
pub(crate) fn failed_check_count(now: &Snapshot) -> Option<String> {
    let (_, judgement) = now.judged.as_deref()?;
    let mut failed = 0;
    for finding in &judgement.fairness {
        failed += u32::from(matches!(finding.outcome, Check::Failed { .. }));
    }
    match failed {
        0 => None,
        1 => Some("1 fairness check failed".into()),
        more => Some(format!("{more} fairness checks failed")),
    }
}

/// The verdict on each arm so far, as a badge and a sentence. Empty if nothing is compared yet.
pub fn verdicts(now: &Snapshot) -> Vec<(&'static str, String)> {
    let Some((run, judgement)) = now.judged.as_deref() else {
        return Vec::new();
    };
    let headlines = judgement.headlines.iter();
    headlines
        .filter_map(|each| headline(run, judgement, &[], each))
        .map(|headline| {
            let text = match headline.scope {
                Some(workload) => format!("{workload}: {}", headline.text),
                None => headline.text,
            };
            (headline.badge, text)
        })
        .collect()
}

/// An entry of the journal without its time.
pub(crate) fn entry(entry: &Entry) -> String {
    match &entry.event {
        Event::Opened(opening) => {
            format!("the run began on {}", machine(&opening.machine))
        }
        Event::Resumed { .. } => "the run goes on after an interruption".into(),
        Event::Ceiling {
            workload, outcome, ..
        } => limits::ceiling(workload, outcome),
        Event::OneFewer {
            workload,
            arm,
            outcome,
        } => limits::one_fewer(workload, arm, outcome),
        Event::Merged {
            block,
            node,
            given_up_on,
        } => merged(*block, node, given_up_on),
        Event::Started { trial, attempt } => started(trial, *attempt, ""),
        Event::Profiling { trial, attempt } => started(trial, *attempt, ", for its profile"),
        Event::Ended {
            trial,
            attempt,
            ending,
            ..
        }
        | Event::Profiled {
            trial,
            attempt,
            ending,
            ..
        } => {
            let number = numbered(trial.number, *attempt);
            format!("{number} of {}: {}", trial.arm, ending_words(*ending))
        }
        Event::Invalidated {
            block, disturbance, ..
        } => {
            let why = disturbance_text(disturbance);
            format!("block {block} does not count and is run again: {why}")
        }
        Event::InterimAnalysis {
            blocks: judged,
            results,
            ..
        } => {
            let results: Vec<String> = results.iter().map(interim_analysis).collect();
            format!("after {}: {}", blocks(*judged), results.join("; "))
        }
        Event::Closed { reason } => run_state::close_reason(reason),
        Event::Extended { from, to, .. } => {
            let more = blocks(to.saturating_sub(*from));
            format!("{more} more, {to} at the most")
        }
    }
}

fn started(trial: &Trial, attempt: u32, purpose: &str) -> String {
    let number = numbered(trial.number, attempt);
    format!(
        "{number} of {} began, block {}{purpose}",
        trial.arm, trial.block
    )
}

/// Hours, minutes and seconds of an RFC 3339 time stamp.
pub(crate) fn clock(at: &str) -> &str {
    at.get(11..19).unwrap_or(at)
}

/// Hours, minutes and seconds of a time, UTC.
pub(crate) fn time(at: SystemTime) -> String {
    clock(&humantime::format_rfc3339_seconds(at).to_string()).into()
}

/// The run in one line, for a pipe.
pub fn line(now: &Snapshot) -> String {
    let mut parts = vec![format!("{} {}", time(now.at), state(now)), progress(now)];
    for arm in now.arms.iter().filter(|arm| arm.activity.is_some()) {
        let attempt = &arm.attempt;
        let (trial, name, activity) = (trial(attempt), &attempt.trial.arm, activity(arm));
        let throughput = match arm.curve.newest() {
            Some(_) => format!(", {}", throughput(arm)),
            None => String::new(),
        };
        parts.push(format!("{trial} of {name}: {activity}{throughput}"));
    }
    for (badge, sentence) in verdicts(now) {
        parts.push(format!("{badge}: {sentence}"));
    }
    parts.extend(defect_count(now));
    parts.extend(now.left.as_ref().map(left));
    parts.extend(now.problem.clone());
    parts.join("; ")
}

/// The verdict whose colour a state has.
pub fn state_class(state: State) -> &'static str {
    match state {
        State::Finished => "better",
        State::Running => "equivalent",
        State::Undecided | State::Interrupted | State::NotBegun | State::NotThere => "undecided",
        State::Failed | State::Damaged | State::Gone => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_one_unit() {
        let rough = |seconds| rough(Duration::from_secs(seconds));
        assert_eq!(
            [0, 59, 89, 90, 600, 5399, 5400, 36_000, 172_800, 1_209_600].map(rough),
            [
                "0 s", "59 s", "89 s", "1.5 min", "10 min", "90 min", "1.5 h", "10 h", "2 days",
                "14 days"
            ]
        );
    }

    #[test]
    fn time_left_has_a_range_and_a_basis() {
        let mut time = Left {
            least: Duration::from_secs(120),
            likely: Some(Duration::from_secs(600)),
            most: Duration::from_secs(3600),
            basis: Basis::Ended { trials: 6 },
        };
        assert_eq!(
            left(&time),
            "about 10 min left (2 min to 60 min), from 6 trials"
        );
        (time.likely, time.least, time.basis) = (None, time.most, Basis::Planned);
        assert_eq!(left(&time), "60 min left, by the plan, boots not counted");
    }
}
