//! What long trials say, in sentences and in the tables of the reports of 2004.

use std::time::Duration;

use base::input::units::{show_bytes, show_duration, significant};
use record::counters::Unit;
use record::verdict::soak::{
    ArmGrowth, CONFIDENCE, Change, Growth, GrowthPlace, GrowthRule, Outage, PlannedOutage, Quality,
    Soak, SoakArm, SoakPart, WithinRuns,
};
use record::verdict::{Headline, Judgement};

use crate::words::levels::{in_words, level};
use crate::words::{NONE, count, interval_of, percent};

/// Of fewer hours a bound on their share says nothing.
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
        all.extend(
            events(arm)
                .into_iter()
                .map(|said| format!("{}: {said}", arm.arm)),
        );
    }
    all.extend(
        soak.growth
            .iter()
            .map(|one| growth(one, &soak.rule, baseline)),
    );
    all.extend(tested(soak));
    let untold = soak
        .arms
        .iter()
        .filter(|arm| arm.trials > 0 && !arm.has_counters);
    all.extend(untold.map(|arm| {
        format!("{}: whether anything grows is not known, counters were not read often enough, or not until the end of a trial", arm.arm)
    }));
    all.extend(soak.speed.iter().map(|one| speed(one, baseline)));
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
        format!("{share}: below {} with {level} confidence", bounded(bound))
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

/// An upper bound, rounded up: `5.6e-8`.
fn bounded(bound: f64) -> String {
    let step = 10.0_f64.powf(bound.log10().floor() - 1.0);
    format!("{:.1e}", (bound / step - 1e-9).ceil() * step)
}

/// What happened in an arm: trials that were cut short, an outage, changes.
fn events(arm: &SoakArm) -> Vec<String> {
    let mut all: Vec<String> = arm
        .cut_short
        .iter()
        .map(|one| {
            format!(
                "trial {:03} ended after {} of load: {}",
                one.trial,
                time(one.at_ms),
                one.reason.words()
            )
        })
        .collect();
    all.extend(arm.outage.map(outage));
    all.extend(arm.planned_outage.as_ref().map(planned_outage));
    all.extend(services(arm));
    all.extend(arm.changes.iter().map(change));
    all
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
    let told: Vec<String> = crashes.into_iter().chain(restarts).collect();
    (!told.is_empty()).then(|| format!("services: {}", told.join(", ")))
}

/// `p99 changed about 2h into trial 002: from 12.1 to 24.3 ms`.
fn change(one: &Change) -> String {
    let (name, unit, factor) = match one.quality {
        Quality::Throughput => ("throughput", " requests/s", 1.0),
        Quality::P50 => ("median latency", " ms", 1.0),
        Quality::P99 => ("p99 latency", " ms", 1.0),
        Quality::P999 => ("p99.9 latency", " ms", 1.0),
        Quality::Failures => ("share of failures", " %", 100.0),
    };
    let shown = |value: f64| match value {
        none if none >= f64::MAX => "no answer".to_string(),
        value => significant(value * factor, 4),
    };
    format!(
        "{name} changed about {} into trial {:03}: from {} to {}{unit}",
        time(one.at_ms),
        one.trial,
        shown(one.before),
        shown(one.after)
    )
}

/// `grows in 7.2 only: slab cache filp, 12 KiB/h [11, 13], 4.1 % of memory after 14days`.
fn growth(one: &Growth, rule: &GrowthRule, baseline: &str) -> String {
    let where_it_grows = if one.against.is_empty() {
        format!("grows in {baseline}")
    } else {
        let places = one.against.iter();
        let places: Vec<String> = places
            .map(|against| place(against.place, &against.arm, baseline))
            .collect();
        places.join(", ")
    };
    let grown: Vec<&ArmGrowth> = one.arms.iter().filter(|arm| arm.grows).collect();
    let amounts = grown.iter().map(|arm| {
        let said = amount(arm, one, rule);
        match grown.len() {
            1 => said,
            _ => format!("{} in {}", said, arm.arm),
        }
    });
    let amounts: Vec<String> = amounts.collect();
    let note = if one.is_cache {
        "; given back when memory is short"
    } else {
        ""
    };
    format!(
        "{where_it_grows}: {}, {}{note}",
        counter(&one.counter),
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

fn amount(arm: &ArmGrowth, one: &Growth, rule: &GrowthRule) -> String {
    let in_unit = |value: f64| match one.unit {
        Unit::Bytes if value < 0.0 => format!("-{}", show_bytes(-value as u64)),
        Unit::Bytes => show_bytes(value as u64),
        Unit::Count => significant(value, 3),
        Unit::Permille => format!("{} %", significant(value / 10.0, 3)),
    };
    let end = |end: Option<f64>| end.map_or("-".into(), in_unit);
    let share = arm.share_after.map(|share| {
        let of = match one.unit {
            Unit::Bytes => "memory",
            Unit::Count | Unit::Permille => "its limit",
        };
        format!(", {} of {of} after {}", percent(share), time(rule.after_ms))
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

/// A counter in words.
pub(crate) fn counter(name: &str) -> String {
    let (group, own) = name.split_once(':').unwrap_or(("", name));
    let spaced = own.replace('-', " ");
    match group {
        "slab" => format!("slab cache {own}"),
        "cache" => format!("reclaimable slab cache {own}"),
        "memory" => format!("memory: {spaced}"),
        "tcp" => format!("TCP sockets: {spaced}"),
        "sockets" => format!("sockets: {spaced}"),
        "service-files" => format!("descriptors of {own}"),
        "service-rss" => format!("resident memory of {own}"),
        "service-threads" => format!("threads of {own}"),
        "service-processes" => format!("processes of {own}"),
        "fragmentation" => "fragmentation of free memory".into(),
        _ => spaced,
    }
}

/// How much was looked at, and what was found of it beside what grows.
fn tested(soak: &Soak) -> Option<String> {
    let rule = &soak.rule;
    if rule.tested == 0 {
        return None;
    }
    let what = format!(
        "{} of memory or of its limit within {}",
        percent(rule.least),
        time(rule.after_ms)
    );
    let told = soak.arms.iter().filter(|arm| arm.has_counters);
    let told: Vec<&str> = told.map(|arm| arm.arm.as_str()).collect();
    let arms = if told.len() == soak.arms.len() {
        "all arms".to_string()
    } else {
        told.join(" and ")
    };
    let found = if soak.growth.is_empty() {
        format!("nothing grows by {what}")
    } else {
        format!("growth is told from {what} on")
    };
    let mut parts = vec![
        found,
        format!(
            ": {} of {arms} tested, error rate {} for all together",
            counted(rule.tested.into(), "counter"),
            percent(rule.error_rate)
        ),
    ];
    for (number, what) in [
        (rule.levelled_off, "grew only at first"),
        (rule.small, "grow by less"),
    ] {
        if number > 0 {
            parts.push(format!("; {number} {what}"));
        }
    }
    Some(parts.concat())
}

fn speed(one: &WithinRuns, baseline: &str) -> String {
    format!(
        "no verdict on speed: {} (by what varies within trials; what boots differ by is not in it)",
        in_these_trials(one, baseline)
    )
}

fn in_these_trials(one: &WithinRuns, baseline: &str) -> String {
    let way = if one.ratio < 1.0 { "fewer" } else { "more" };
    format!(
        "in these trials {} served {} {way} requests/s than {baseline} {}",
        one.arm,
        crate::words::small_percent((one.ratio - 1.0).abs()),
        in_words(
            &interval_of(Some(one.low), Some(one.high)),
            Some(CONFIDENCE)
        )
    )
}

/// What the headline says of an arm whose blocks are too few, and whose trials are long.
pub(crate) fn headline(
    judgement: &Judgement,
    headline: &Headline,
    baseline: &str,
) -> Option<String> {
    let mut its = judgement.soaks.iter();
    let soak = its.find(|one| one.workload == headline.workload)?;
    let speed = soak.speed.iter().find(|one| one.arm == headline.arm)?;
    let arm = soak.arms.iter().find(|one| one.arm == headline.arm)?;
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

fn new_growth(soak: &Soak, arm: &str) -> Vec<String> {
    let is_new = |one: &&Growth| {
        let mut against = one.against.iter();
        !one.is_cache && against.any(|one| one.arm == arm && one.place.is_new())
    };
    let new = soak.growth.iter().filter(is_new);
    new.map(|one| counter(&one.counter)).collect()
}

/// Growth that speaks against an arm.
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

/// Failures of arms other than the baseline.
pub fn failures(soak: &Soak, baseline: &str) -> Vec<String> {
    let mut all = Vec::new();
    for arm in soak.arms.iter().filter(|arm| arm.arm != baseline) {
        if arm.failures > 0 {
            all.push(format!("{}: {}", arm.arm, reliability(arm)));
        }
        let short = arm.cut_short.iter();
        all.extend(short.map(|one| {
            let (at, why) = (time(one.at_ms), one.reason.words());
            format!(
                "{}: trial {:03} ended after {at} of load: {why}",
                arm.arm, one.trial
            )
        }));
        all.extend(
            arm.outage
                .map(|one| format!("{}: {}", arm.arm, outage(one))),
        );
    }
    all
}

/// The table of the report of 2004: an arm a column.
pub(crate) fn rows(soak: &Soak) -> Vec<Vec<String>> {
    let row = |name: &str, of: &dyn Fn(&SoakArm) -> String| {
        let cells = soak.arms.iter().map(of);
        [name.to_string()].into_iter().chain(cells).collect()
    };
    let outage = |arm: &SoakArm| arm.outage.map_or("none".into(), |one| time(one.length_ms));
    let mut rows = vec![
        row("", &|arm| arm.arm.clone()),
        row("trials", &|arm| arm.trials.to_string()),
        row("time under load", &|arm| time(arm.length_ms)),
        row("requests", &|arm| count(arm.requests)),
        row("unsuccessful requests", &|arm| count(arm.failures)),
        row(
            &format!("their share, at most ({})", level(CONFIDENCE)),
            &|arm| arm.failure_bound.map_or(NONE.into(), bounded),
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
            outage.map_or("none".into(), |one| time(one.length_ms))
        }));
    }
    rows
}

/// A table of the window in parts, all arms beside each other; the time is counted in `unit`s.
pub(crate) fn part_rows(
    soak: &Soak,
    of: fn(&SoakArm) -> &[SoakPart],
    unit: &str,
) -> Vec<Vec<String>> {
    let mut head = vec![unit.to_string()];
    let length_ms = if unit == "day" { 86_400_000 } else { 3_600_000 };
    for arm in soak.arms.iter().filter(|arm| !of(arm).is_empty()) {
        let names = [
            "requests", "failed", "p50 ms", "p99 ms", "p99.9 ms", "memory", "swap",
        ];
        head.extend(names.map(|name| format!("{} {name}", arm.arm)));
    }
    let mut numbers: Vec<u64> = soak
        .arms
        .iter()
        .flat_map(of)
        .map(|part| part.at_ms / length_ms)
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.is_empty() {
        return Vec::new();
    }
    let row = |number: u64| {
        let mut cells = vec![(number + 1).to_string()];
        for arm in soak.arms.iter().filter(|arm| !of(arm).is_empty()) {
            let part = of(arm).iter().find(|part| part.at_ms / length_ms == number);
            cells.extend(part.map_or([const { String::new() }; 7], part_cells));
        }
        cells
    };
    [head]
        .into_iter()
        .chain(numbers.into_iter().map(row))
        .collect()
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
    format!(
        "{} {}",
        count(number),
        crate::words::plural(noun, number == 1)
    )
}

/// Whole seconds.
fn time(ms: u64) -> String {
    show_duration(Duration::from_secs(ms / 1000))
}
