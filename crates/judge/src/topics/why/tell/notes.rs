//! Notes on an explanation: its error rate, missing trials, and limits of the method.

use base::input::units::show_share;
use record::account::SampleClock;
use record::verdict::why::{LostReason, Sampling, Why};

use super::{has_enough_blocks, per_unit, quantity, signed_amount};
use crate::words::{blocks, change as ratio_change, counted};

pub(crate) fn all(why: &Why) -> Vec<String> {
    let mut notes: Vec<String> = withheld(why).into_iter().collect();
    notes.extend(sampling(why));
    notes.extend(why.remainder.map(|value| remainder(why, value)));
    match why.confidence {
        None if why.within.is_some() => notes.push(groups(why)),
        Some(level) => notes.push(format!(
            "intervals: {} confidence, each row by itself, over {}; significant: at most {} of runs of equal arms \
             name anything",
            show_share(level, 4),
            blocks(why.blocks),
            show_share(why.error_rate, 2)
        )),
        None => notes.push(format!(
            "{}: no intervals, and nothing is named, below {} at an error rate of {}",
            blocks(why.blocks),
            blocks(why.least_blocks),
            show_share(why.error_rate, 2)
        )),
    }
    if why.mechanisms.iter().all(|row| row.share.is_none()) && why.mechanisms.len() > 1 {
        notes.push("no shares: mechanisms cancel each other for the most part".into());
    }
    notes.extend(strings(why.string_shares));
    notes.extend(unmatched(why));
    notes.extend(lost_calls(why));
    notes.extend(lost(why));
    notes.extend(settings(why));
    notes
}

/// Why the run has no headline on this difference.
fn withheld(why: &Why) -> Option<String> {
    (!why.failed_checks.is_empty()).then(|| {
        format!(
            "the headline of this run is withheld, because the comparison is not fair: {} (bakeoff show RUN --fairness tells how to mend each)",
            why.failed_checks.join(", ")
        )
    })
}

/// Least share of calls without a known caller that is reported.
const LOST_CALLS: f64 = 1e-3;

/// Calls without a known caller.
fn lost_calls(why: &Why) -> Option<String> {
    let arms = [&why.baseline, &why.arm].into_iter().zip(why.lost_calls);
    let lost: Vec<String> = arms
        .filter(|(_, share)| LOST_CALLS < *share)
        .map(|(arm, share)| format!("{} of the calls of {arm}", show_share(share, 2)))
        .collect();
    (!lost.is_empty()).then(|| {
        format!(
            "call paths: {} have lost their callers, and what they execute may be in another mechanism",
            lost.join(" and ")
        )
    })
}

/// Settings with which the user can confirm a mechanism.
fn settings(why: &Why) -> Option<String> {
    let mechanisms = why.mechanisms.iter();
    let settings: Vec<String> = mechanisms
        .filter(|row| !row.settings.is_empty())
        .map(|row| format!("{} ({})", row.name.word(), row.settings.join(", ")))
        .collect();
    (!settings.is_empty()).then(|| {
        format!(
            "to be tried with bakeoff why RUN --confirm MECHANISM: {}",
            settings.join("; ")
        )
    })
}

/// How one arm's boots were divided into groups, and the error rate.
fn groups(why: &Why) -> String {
    let rate = show_share(why.error_rate, 2);
    let method = format!(
        "the groups are the two that differ least among themselves in {}, so intervals would say nothing",
        why.metric
    );
    if has_enough_blocks(why) {
        format!(
            "{method}; significant: between random groups of these sizes anything is named at most {rate} of the time"
        )
    } else {
        format!(
            "{method}; nothing is named below {} at an error rate of {rate}",
            counted(why.least_blocks, "boot")
        )
    }
}

/// How profiles were sampled, and the limits of samples.
fn sampling(why: &Why) -> Vec<String> {
    let Some(sampling) = &why.sampling else {
        return Vec::new();
    };
    let Sampling { samples, lost, .. } = sampling;
    let clock = match sampling.clock {
        SampleClock::Cycles => "CPU cycles",
        SampleClock::CpuClock => "the kernel's timer, for want of a cycle counter",
    };
    let mut notes = vec![format!(
        "sampled, not counted: {} and {} samples by {clock}, {} a second of each CPU; {} lost; in trials of their own, which are not judged",
        samples[0],
        samples[1],
        sampling.frequency_hz,
        lost[0] + lost[1]
    )];
    if let Some([baseline, arm]) = sampling.covered {
        notes.push(format!(
            "samples cover {} and {} of the CPU time; each stands for its share of the whole",
            show_share(baseline, 2),
            show_share(arm, 2)
        ));
    }
    if let [Some(baseline), Some(arm)] = sampling.against_judged {
        notes.push(format!(
            "the primary metric of profiled trials is {} and {} from that of judged ones",
            ratio_change(Some(baseline)),
            ratio_change(Some(arm))
        ));
    }
    if sampling.clock == SampleClock::CpuClock {
        notes.push(
            "not attributable: the timer cannot interrupt code that runs with interrupts off, so its time is seen where they are \
             switched on again"
                .into(),
        );
    }
    notes
}

/// The part of the metric's difference that is in no mechanism.
fn remainder(why: &Why, remainder: f64) -> String {
    let part = match (remainder / why.difference).abs() {
        share if share.is_finite() => format!(" ({} of the difference)", show_share(share, 2)),
        _ => String::new(),
    };
    match remainder.abs() {
        size if size < 0.95 => "mechanisms sum to the metric's difference".into(),
        _ => format!(
            "{} {} {}{part} are in the metric and in no mechanism",
            signed_amount(why, remainder),
            quantity(why),
            per_unit(why.per)
        ),
    }
}

/// String instructions as a share of all.
fn strings(shares: [f64; 2]) -> Option<String> {
    shares.iter().any(|share| *share > 0.0).then(|| {
        let [baseline, arm] = shares.map(|share| show_share(share, 2));
        format!(
            "string instructions, charged by their bytes: {baseline} of the baseline's instructions, {arm} of the arm's"
        )
    })
}

/// `1/4`, `2.5`.
pub(crate) fn fraction(cost: f64) -> String {
    if cost < 1.0 {
        format!("1/{:.0}", 1.0 / cost)
    } else {
        format!("{cost}")
    }
}

fn unmatched(why: &Why) -> Option<String> {
    let unmatched = &why.unmatched;
    let counts = [
        (unmatched.renamed_count, "renamed"),
        (unmatched.vanished_count, "only in the baseline"),
        (unmatched.new_count, "only in the arm"),
    ];
    let parts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| format!("{count} {kind}"))
        .collect();
    (!parts.is_empty()).then(|| {
        format!(
            "functions: {}; compilers inline and rename",
            parts.join(", ")
        )
    })
}

fn lost(why: &Why) -> Vec<String> {
    let notes = why.lost.iter().map(|lost| {
        let (block, trial) = (lost.block, lost.trial);
        let reason = reason(lost.reason);
        if why.within.is_some() {
            return format!("trial {trial:03} is left out: {reason}");
        }
        format!(
            "block {block} is left out: {reason} (trial {trial:03}, arm {})",
            lost.arm
        )
    });
    notes.collect()
}

pub(crate) fn reason(reason: LostReason) -> &'static str {
    match reason {
        LostReason::NoProfile => "it was not profiled",
        LostReason::NotMade => "no profile could be made",
        LostReason::Gone => "its profile is missing",
        LostReason::Newer => "a profile of a newer bakeoff",
        LostReason::NoWork => "no request served",
        LostReason::Damaged => "a damaged profile",
        LostReason::NoFigure => "no figure of the metric",
    }
}
