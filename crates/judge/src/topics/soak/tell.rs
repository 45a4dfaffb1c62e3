//! Sentences and tables on long trials; the tables have the layout of the reports of 2004.

use std::collections::BTreeSet;
use std::time::Duration;

use base::input::units::{show_bytes, show_duration, significant};
use record::counters::Unit;
use record::verdict::soak::{
    ArmGrowth, CONFIDENCE, Change, CutShort, Growth, GrowthPlace, GrowthRule, Outage,
    PlannedOutage, Quality, Soak, SoakArm, SoakPart, WithinRuns,
};
use record::verdict::{Headline, Judgement};

use crate::words::levels::{in_words, level};
use crate::words::{NONE, count, interval_of, percent, plural, small_percent};

/// Fewest hours for a bound on the share of hours with failures.
const FEW_HOURS: u32 = 10;

/// All sentences about one workload: reliability, service over time, growth, speed.
pub(crate) fn sentences(soak: &Soak, baseline: &str) -> Vec<String> {
    let mut all = Vec::new();
    for arm in &soak.arms {
        if arm.trials == 0 {
            all.push(format!("{}: no trial of four minutes or more", arm.arm));
            continue;
        }
        all.push(format!("{}: {}", arm.arm, reliability(arm)));
        for event in events(arm) {
            all.push(format!("{}: {event}", arm.arm));
        }
    }
    for counter in &soak.growth {
        all.push(growth(counter, &soak.rule, baseline));
    }
    all.extend(tested(soak));
    for arm in &soak.arms {
        if arm.trials > 0 && !arm.has_counters {
            all.push(format!("{}: whether anything grows is not known, counters were not read often enough, or not until the end of a trial", arm.arm));
        }
    }
    for arm in &soak.speed {
        all.push(speed(arm, baseline));
    }
    all
}

/// `0 failures in 53 827 939 requests: below 5.6e-8 with 95 % confidence`.
pub(crate) fn reliability(arm: &SoakArm) -> String {
    let others = arm.requests.saturating_sub(arm.disturbed_requests);
    let bound = arm.failure_bound.map(|bound| {
        let share = match arm.failures {
            0 => String::new(),
            failures => format!(" ({:.1e})", failures as f64 / others.max(1) as f64),
        };
        let level = level(CONFIDENCE);
        format!(
            "{share}: below {} with {level} confidence",
            rounded_up(bound)
        )
    });
    let mut parts = vec![format!(
        "{} in {} requests{}",
        counted(arm.failures, "failure"),
        count(others),
        bound.unwrap_or_default()
    )];
    if arm.failures > 0 {
        parts.push(", if requests fail independently".into());
    }
    if arm.disturbed_requests > 0 {
        parts.push(format!(
            "; {} more in {} while disturbed as planned",
            count(arm.planned_failures),
            count(arm.disturbed_requests)
        ));
    }
    if let (Some(bound), true) = (arm.failure_hours_bound, arm.hours >= FEW_HOURS) {
        parts.push(format!(
            "; failures in {} of {} hours: below {} of hours",
            arm.failure_hours,
            arm.hours,
            percent(bound)
        ));
    }
    parts.concat()
}

/// An upper bound of two digits: `5.6e-8`.
fn rounded_up(bound: f64) -> String {
    let step = 10.0_f64.powf(bound.log10().floor() - 1.0);
    format!("{:.1e}", (bound / step - 1e-9).ceil() * step)
}

/// Trials that were cut short, outages, crashes of services and changes.
fn events(arm: &SoakArm) -> Vec<String> {
    let mut all: Vec<String> = arm.cut_short.iter().map(cut_short).collect();
    all.extend(arm.outage.map(outage));
    all.extend(arm.planned_outage.as_ref().map(planned_outage));
    all.extend(services(arm));
    all.extend(arm.changes.iter().map(change));
    all
}

fn cut_short(trial: &CutShort) -> String {
    format!(
        "trial {:03} ended after {} of load: {}",
        trial.trial,
        time(trial.at_ms),
        trial.reason.words()
    )
}

fn outage(outage: Outage) -> String {
    format!(
        "no right answer for {}, from {} of trial {:03} on",
        time(outage.length_ms),
        time(outage.at_ms),
        outage.trial
    )
}

/// `no right answer for 10s while disturbed as planned (link-down), from 35m of trial 002 on`.
fn planned_outage(outage: &PlannedOutage) -> String {
    format!(
        "no right answer for {} while disturbed as planned ({}), from {} of trial {:03} on",
        time(outage.length_ms),
        outage.name,
        time(outage.at_ms),
        outage.trial
    )
}

/// `services: 2 processes crashed, 1 restart`.
fn services(arm: &SoakArm) -> Option<String> {
    let crashes = match arm.service_crashes {
        0 => None,
        1 => Some("1 process crashed".to_string()),
        more => Some(format!("{} processes crashed", count(more))),
    };
    let restarts = (arm.service_restarts > 0).then(|| counted(arm.service_restarts, "restart"));
    let parts: Vec<String> = crashes.into_iter().chain(restarts).collect();
    (!parts.is_empty()).then(|| format!("services: {}", parts.join(", ")))
}

/// `p99 latency changed about 2h into trial 002: from 12.1 to 24.3 ms`.
fn change(change: &Change) -> String {
    let (name, unit, factor) = match change.quality {
        Quality::Throughput => ("throughput", " requests/s", 1.0),
        Quality::P50 => ("median latency", " ms", 1.0),
        Quality::P99 => ("p99 latency", " ms", 1.0),
        Quality::P999 => ("p99.9 latency", " ms", 1.0),
        Quality::Failures => ("share of failures", " %", 100.0),
    };
    let shown = |value: f64| match value {
        f64::MAX.. => "no answer".to_string(),
        value => significant(value * factor, 4),
    };
    format!(
        "{name} changed about {} into trial {:03}: from {} to {}{unit}",
        time(change.at_ms),
        change.trial,
        shown(change.before),
        shown(change.after)
    )
}

/// `grows in 7.2 only: slab cache filp, 12 KiB/h [11, 13], 4.1 % of memory after 14days`.
fn growth(growth: &Growth, rule: &GrowthRule, baseline: &str) -> String {
    let where_it_grows = if growth.against.is_empty() {
        format!("grows in {baseline}")
    } else {
        let against = growth.against.iter();
        let places: Vec<String> = against
            .map(|against| place(against.place, &against.arm, baseline))
            .collect();
        places.join(", ")
    };
    let growing: Vec<&ArmGrowth> = growth.arms.iter().filter(|arm| arm.grows).collect();
    let amounts: Vec<String> = match growing.as_slice() {
        [arm] => vec![amount(arm, growth.unit, rule)],
        arms => arms
            .iter()
            .map(|arm| format!("{} in {}", amount(arm, growth.unit, rule), arm.arm))
            .collect(),
    };
    let note = if growth.is_cache {
        "; given back when memory is short"
    } else {
        ""
    };
    format!(
        "{where_it_grows}: {}, {}{note}",
        counter(&growth.counter),
        amounts.join(", ")
    )
}

fn place(place: GrowthPlace, arm: &str, baseline: &str) -> String {
    match place {
        GrowthPlace::ArmOnly => format!("grows in {arm} only"),
        GrowthPlace::BaselineOnly => format!("grows in {baseline} only"),
        GrowthPlace::FasterInArm => format!("grows in {baseline} and faster in {arm}"),
        GrowthPlace::Both => format!("grows in {baseline} and {arm}"),
        GrowthPlace::ArmAtLeast => {
            format!("grows in {arm}, in {baseline} that cannot be told")
        }
        GrowthPlace::BaselineAtLeast => {
            format!("grows in {baseline}, in {arm} that cannot be told")
        }
    }
}

fn amount(arm: &ArmGrowth, unit: Unit, rule: &GrowthRule) -> String {
    let in_unit = |value: f64| match unit {
        Unit::Bytes if value < 0.0 => format!("-{}", show_bytes(-value as u64)),
        Unit::Bytes => show_bytes(value as u64),
        Unit::Count => significant(value, 3),
        Unit::Permille => format!("{} %", significant(value / 10.0, 3)),
    };
    let end = |end: Option<f64>| end.map_or("-".into(), in_unit);
    let share = arm.share_after.map(|share| {
        let whole = match unit {
            Unit::Bytes => "memory",
            Unit::Count | Unit::Permille => "its limit",
        };
        let after = time(rule.after_ms);
        format!(", {} of {whole} after {after}", percent(share))
    });
    format!(
        "{}/h {}{}",
        in_unit(arm.per_h),
        in_words(
            &format!("[{}, {}]", end(arm.low), end(arm.high)),
            Some(CONFIDENCE)
        ),
        share.unwrap_or_default()
    )
}

/// A counter's name in words: `slab:filp` is `slab cache filp`.
pub(crate) fn counter(counter: &str) -> String {
    let (group, name) = counter.split_once(':').unwrap_or(("", counter));
    let spaced = name.replace('-', " ");
    match group {
        "slab" => format!("slab cache {name}"),
        "cache" => format!("reclaimable slab cache {name}"),
        "memory" => format!("memory: {spaced}"),
        "tcp" => format!("TCP sockets: {spaced}"),
        "sockets" => format!("sockets: {spaced}"),
        "service-files" => format!("descriptors of {name}"),
        "service-rss" => format!("resident memory of {name}"),
        "service-threads" => format!("threads of {name}"),
        "service-processes" => format!("processes of {name}"),
        "fragmentation" => "fragmentation of free memory".into(),
        _ => spaced,
    }
}

/// How many counters were tested, and how many of them grow too briefly or too little.
fn tested(soak: &Soak) -> Option<String> {
    let rule = &soak.rule;
    if rule.tested == 0 {
        return None;
    }
    let least = format!(
        "{} of memory or of its limit within {}",
        percent(rule.least),
        time(rule.after_ms)
    );
    let with_counters = soak.arms.iter().filter(|arm| arm.has_counters);
    let with_counters: Vec<&str> = with_counters.map(|arm| arm.arm.as_str()).collect();
    let arms = if with_counters.len() == soak.arms.len() {
        "all arms".to_string()
    } else {
        with_counters.join(" and ")
    };
    let growth = if soak.growth.is_empty() {
        format!("nothing grows by {least}")
    } else {
        format!("growth is told from {least} on")
    };
    let mut parts = vec![format!(
        "{growth}: {} of {arms} tested, error rate {} for all together",
        counted(rule.tested.into(), "counter"),
        percent(rule.error_rate)
    )];
    if rule.levelled_off > 0 {
        parts.push(format!("{} grew only at first", rule.levelled_off));
    }
    if rule.small > 0 {
        parts.push(format!("{} grow by less", rule.small));
    }
    Some(parts.join("; "))
}

fn speed(speed: &WithinRuns, baseline: &str) -> String {
    format!(
        "no verdict on speed: {} (by what varies within trials; what boots differ by is not in it)",
        in_these_trials(speed, baseline)
    )
}

fn in_these_trials(speed: &WithinRuns, baseline: &str) -> String {
    let fewer_or_more = if speed.ratio < 1.0 { "fewer" } else { "more" };
    let interval = interval_of(Some(speed.low), Some(speed.high));
    format!(
        "in these trials {} served {} {fewer_or_more} requests/s than {baseline} {}",
        speed.arm,
        small_percent((speed.ratio - 1.0).abs()),
        in_words(&interval, Some(CONFIDENCE))
    )
}

/// The headline of an arm with long trials and too few blocks for a verdict.
pub(crate) fn headline(
    judgement: &Judgement,
    headline: &Headline,
    baseline: &str,
) -> Option<String> {
    let mut soaks = judgement.soaks.iter();
    let soak = soaks.find(|soak| soak.workload == headline.workload)?;
    let speed = soak.speed.iter().find(|speed| speed.arm == headline.arm)?;
    let arm = soak.arms.iter().find(|arm| arm.arm == headline.arm)?;
    let mut parts = vec![
        format!("no verdict on speed: {}", in_these_trials(speed, baseline)),
        reliability(arm),
    ];
    let new = new_growth(soak, &headline.arm);
    if !new.is_empty() {
        parts.push(format!("grows: {}", new.join(", ")));
    } else if arm.has_counters {
        parts.push("nothing grows that does not grow in the baseline".into());
    }
    Some(parts.join("; "))
}

/// Counters that grow in an arm more than in the baseline, without caches.
fn new_growth(soak: &Soak, arm: &str) -> Vec<String> {
    let is_new = |growth: &&Growth| {
        let mut against = growth.against.iter();
        !growth.is_cache && against.any(|against| against.arm == arm && against.place.is_new())
    };
    let new = soak.growth.iter().filter(is_new);
    new.map(|growth| counter(&growth.counter)).collect()
}

/// Growth that the baseline does not have, a sentence per arm.
pub fn against_arms(soak: &Soak) -> Vec<String> {
    let mut all = Vec::new();
    for arm in &soak.arms {
        let new = new_growth(soak, &arm.arm);
        if !new.is_empty() {
            all.push(format!("grows in {}: {}", arm.arm, new.join(", ")));
        }
    }
    all
}

/// Failed requests, trials cut short and outages of arms other than the baseline.
pub fn failures(soak: &Soak, baseline: &str) -> Vec<String> {
    let mut all = Vec::new();
    for arm in soak.arms.iter().filter(|arm| arm.arm != baseline) {
        let failed = (arm.failures > 0).then(|| reliability(arm));
        let cut_short = arm.cut_short.iter().map(cut_short);
        let sentences = failed
            .into_iter()
            .chain(cut_short)
            .chain(arm.outage.map(outage));
        all.extend(sentences.map(|sentence| format!("{}: {sentence}", arm.arm)));
    }
    all
}

/// The table of the report of 2004, a column per arm.
pub(crate) fn rows(soak: &Soak) -> Vec<Vec<String>> {
    let row = |name: &str, cell: &dyn Fn(&SoakArm) -> String| {
        let mut row = vec![name.to_string()];
        row.extend(soak.arms.iter().map(cell));
        row
    };
    let outage = |arm: &SoakArm| {
        arm.outage
            .map_or("none".into(), |outage| time(outage.length_ms))
    };
    let mut rows = vec![
        row("", &|arm| arm.arm.clone()),
        row("trials", &|arm| arm.trials.to_string()),
        row("time under load", &|arm| time(arm.length_ms)),
        row("requests", &|arm| count(arm.requests)),
        row("unsuccessful requests", &|arm| count(arm.failures)),
        row(
            &format!("their share, at most ({})", level(CONFIDENCE)),
            &|arm| arm.failure_bound.map_or(NONE.into(), rounded_up),
        ),
        row("hours with one", &|arm| {
            format!("{} of {}", arm.failure_hours, arm.hours)
        }),
        row("longest outage", &outage),
        row("service crashes; restarts", &|arm| {
            format!(
                "{}; {}",
                count(arm.service_crashes),
                count(arm.service_restarts)
            )
        }),
        row("changes of service", &|arm| arm.changes.len().to_string()),
        row("trials cut short", &|arm| arm.cut_short.len().to_string()),
    ];
    let is_planned = |arm: &SoakArm| arm.planned_outage.is_some() || arm.planned_failures > 0;
    if soak.arms.iter().any(is_planned) {
        rows.push(row("unsuccessful while disturbed as planned", &|arm| {
            count(arm.planned_failures)
        }));
        rows.push(row("longest outage while disturbed as planned", &|arm| {
            let outage = arm.planned_outage.as_ref();
            outage.map_or("none".into(), |outage| time(outage.length_ms))
        }));
    }
    rows
}

/// A table of the window in parts of a `unit` each, with its head and columns for each arm.
pub(crate) fn part_rows(
    soak: &Soak,
    parts: fn(&SoakArm) -> &[SoakPart],
    unit: &str,
) -> Vec<Vec<String>> {
    let mut head = vec![unit.to_string()];
    let length_ms = if unit == "day" { 86_400_000 } else { 3_600_000 };
    for arm in soak.arms.iter().filter(|arm| !parts(arm).is_empty()) {
        let names = [
            "requests", "failed", "p50 ms", "p99 ms", "p99.9 ms", "memory", "swap",
        ];
        head.extend(names.map(|name| format!("{} {name}", arm.arm)));
    }
    let all_parts = soak.arms.iter().flat_map(parts);
    let numbers: BTreeSet<u64> = all_parts.map(|part| part.at_ms / length_ms).collect();
    if numbers.is_empty() {
        return Vec::new();
    }
    let mut rows = vec![head];
    for number in numbers {
        let mut row = vec![(number + 1).to_string()];
        for parts in soak
            .arms
            .iter()
            .map(parts)
            .filter(|parts| !parts.is_empty())
        {
            let part = parts.iter().find(|part| part.at_ms / length_ms == number);
            row.extend(part.map_or([const { String::new() }; 7], part_cells));
        }
        rows.push(row);
    }
    rows
}

fn part_cells(part: &SoakPart) -> [String; 7] {
    let ms = |value: Option<f64>| value.map_or(NONE.into(), |ms| significant(ms, 4));
    let bytes = |value: Option<u64>| value.map_or(NONE.into(), show_bytes);
    [
        count(part.ok),
        count(part.failures),
        ms(part.p50_ms),
        ms(part.p99_ms),
        ms(part.p999_ms),
        bytes(part.memory_used_bytes),
        bytes(part.swap_used_bytes),
    ]
}

fn counted(number: u64, noun: &str) -> String {
    format!("{} {}", count(number), plural(noun, number == 1))
}

/// A duration in whole seconds.
fn time(ms: u64) -> String {
    show_duration(Duration::from_secs(ms / 1000))
}
