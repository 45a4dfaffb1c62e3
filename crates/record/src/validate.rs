//! Checks results of a guest, so that later code can rely on them.
//!
//! `session` checks everything before it is recorded, and `rundir` when it loads a run, because another program may have written the
//! directory. JSON has no infinite numbers, and histograms are checked when they are parsed (`latency`).

mod path;

use std::collections::BTreeSet;

use crate::check::{
    COUNT_LIMIT, Checked, Counts as _, FIGURES, NAMES, WORDS_BYTES, count, counts, is_measurable,
    is_name, length, most, quoted, short_text,
};
use crate::counters;
use crate::counters::Counters;
use crate::curve::Curve;
use crate::defect::FoundDefect;
use crate::disturbances::{BegunDisturbance, DisturbanceRecord, Effect};
use crate::evidence::{Facts, Sample, ServiceUse, Usage};
use crate::hardware_counters::{EventCounts, HardwareCounters, NoCounters};
use crate::instructions::Instructions;
use crate::load::{JoinedSeconds, LoadResult, Second};
use crate::metric::{Figure, MetricSpec, Role};
use crate::trial::{Measurement, Outcome};
use base::input::text;

/// Most counts of a disturbance, and longest error of one that was impossible, in bytes.
const EFFECTS: usize = 16;
const WHY_BYTES: usize = 200;

/// Most points of a curve.
const POINTS: usize = 10_000;

/// Longest top of a defect, in bytes: a service's name and a sentence.
const TOP_BYTES: usize = 512;

/// Longest key and value of a fact, in bytes.
const KEY_BYTES: usize = 4 << 10;
const VALUE_BYTES: usize = 256 << 10;

/// Longest description of a failure, in bytes; it includes the last lines of logs.
pub const DETAIL_BYTES: usize = 64 << 10;

fn figures(figures: &mut [Figure]) -> Checked {
    most("figures", figures.len(), FIGURES)?;
    let mut names = BTreeSet::new();
    for (index, Figure { spec, value }) in figures.iter_mut().enumerate() {
        // All fields by name, so that a new one is not forgotten.
        let MetricSpec {
            name,
            unit,
            direction: _,
            role,
        } = spec;
        is_name("figure", name)?;
        short_text("unit", unit)?;
        is_measurable(name, *value)?;
        // Figures are looked up by name, so a second one would be ignored.
        if !names.insert(&*name) {
            return Err(format!("two figures have one name: {name}"));
        }
        if index > 0 && *role == Role::Primary {
            return Err(format!("primary figure that is not the first: {name}"));
        }
    }
    Ok(())
}

fn curves(curves: &mut [Curve]) -> Checked {
    most("curves", curves.len(), FIGURES)?;
    let mut names = BTreeSet::new();
    for curve in curves {
        let Curve {
            name,
            unit,
            direction: _,
            axis,
            points,
        } = curve;
        is_name("curve", name)?;
        short_text("unit", unit)?;
        short_text("axis", axis)?;
        most(&format!("points of curve {name}"), points.len(), POINTS)?;
        for point in points {
            is_measurable(name, point.at)?;
            is_measurable(name, point.value)?;
        }
        if !names.insert(&*name) {
            return Err(format!("two curves have one name: {name}"));
        }
    }
    Ok(())
}

/// Checks a disturbance that has begun.
pub fn begun_disturbance(begun: &mut BegunDisturbance) -> Checked {
    let BegunDisturbance {
        name,
        begin_ms,
        end_ms,
    } = begun;
    is_name("disturbance", name)?;
    let end_ms = end_ms.unwrap_or(*begin_ms);
    counts(&[("begin_ms", *begin_ms), ("end_ms", end_ms)])?;
    if end_ms < *begin_ms {
        return Err(format!(
            "disturbance ended before it began: {end_ms} ms, {begin_ms} ms"
        ));
    }
    Ok(())
}

fn disturbances(records: &mut [DisturbanceRecord]) -> Checked {
    most("disturbances", records.len(), plan::MOST_TIMES)?;
    for record in records {
        let DisturbanceRecord {
            name,
            begin_ms,
            end_ms,
            effect,
            service,
        } = record;
        is_name("disturbance", name)?;
        counts(&[("begin_ms", *begin_ms), ("end_ms", *end_ms)])?;
        match effect {
            Effect::Took { counts } | Effect::Unfelt { counts } => {
                most("counts of a disturbance", counts.len(), EFFECTS)?;
                for (name, value) in counts {
                    is_name("count", name)?;
                    count(name, *value)?;
                }
            }
            Effect::Impossible { why } => {
                *why = text::cut(why, WHY_BYTES).to_string();
                short_text("why", why)?;
            }
        }
        if let Some(service) = service {
            is_measurable("before_per_s", service.before_per_s)?;
            is_measurable("during_per_s", service.during_per_s)?;
            counts(&[
                ("failed", service.failed),
                ("failed_after", service.failed_after),
                ("counted_before", service.counted_before),
                ("recovery_ms", service.recovery_ms.unwrap_or(0)),
                ("watched_ms", service.watched_ms),
            ])?;
        }
    }
    Ok(())
}

/// Checks a timeline of the clients.
pub(crate) fn seconds(timeline: &[Second]) -> Checked {
    let mut last_ms = 0;
    for point in timeline {
        second(point, last_ms)?;
        last_ms = point.at_ms;
    }
    Ok(())
}

/// Checks a second of the clients' timeline; it must not be earlier than `last_ms`, the second before it.
pub fn second(second: &Second, last_ms: u64) -> Checked {
    let Second {
        at_ms,
        ok,
        faults,
        body_bytes,
        latency: _,
        joined,
    } = second;
    if *at_ms < last_ms {
        return Err(format!("seconds go back: {at_ms} ms after {last_ms} ms"));
    }
    let JoinedSeconds {
        length_ms,
        least_ok,
        most_ok,
        most_faults,
        idle,
    } = joined.unwrap_or_else(|| second.extremes());
    if length_ms == 0 {
        return Err(format!("seconds without a length: at_ms {at_ms}"));
    }
    counts(&[
        ("at_ms", *at_ms),
        ("ok", *ok),
        ("faults", *faults),
        ("body_bytes", *body_bytes),
        ("length_ms", length_ms),
        ("least_ok", least_ok),
        ("most_ok", most_ok),
        ("most_faults", most_faults),
        ("idle.longest_ms", idle.longest_ms),
        ("idle.longest_at_ms", idle.longest_at_ms),
        ("idle.first_ms", idle.first_ms),
        ("idle.last_ms", idle.last_ms),
    ])
}

/// Checks a sample of the system; it must not be earlier than `last_ms`, the sample before it.
pub fn sample(sample: &Sample, last_ms: i64) -> Checked {
    let Sample {
        at_ms,
        interval_ms,
        cpu,
        memory,
        context_switches,
        interrupts,
        forks,
        runnable,
        blocked,
        softirqs,
        pressure,
        tcp,
        java,
        disk,
        services,
        cost_us,
        joined,
    } = sample;
    if *at_ms < last_ms {
        return Err(format!("samples go back: {at_ms} ms after {last_ms} ms"));
    }
    counts(&[
        ("at_ms", at_ms.unsigned_abs()),
        ("interval_ms", *interval_ms),
        ("context_switches", *context_switches),
        ("interrupts", *interrupts),
        ("forks", *forks),
        ("runnable", *runnable),
        ("blocked", *blocked),
        ("cost_us", *cost_us),
    ])?;
    for table in [cpu.counts(), memory.counts(), disk.counts()] {
        counts(&table)?;
    }
    counts(&joined.map_or_else(Vec::new, |joined| joined.counts()))?;
    counts(&pressure.map_or_else(Vec::new, |pressure| pressure.counts()))?;
    for (kind, counters) in [("softirqs", softirqs), ("tcp", tcp), ("java", java)] {
        most(kind, counters.len(), NAMES)?;
        for (name, number) in counters {
            is_name(kind, name)?;
            count(name, *number)?;
        }
    }
    most("services", services.len(), NAMES)?;
    services.iter().try_for_each(service)
}

/// Checks a reading of counters; it must not be earlier than `last_ms`, the reading before it.
pub fn counters(counters: &Counters, last_ms: i64) -> Checked {
    let Counters {
        at_ms,
        values,
        limits,
        joined,
    } = counters;
    if *at_ms < last_ms {
        return Err(format!("counters go back: {at_ms} ms after {last_ms} ms"));
    }
    count("at_ms", at_ms.unsigned_abs())?;
    let joined = joined.clone().unwrap_or_default();
    count("readings", joined.readings)?;
    for named in [values, limits, &joined.least, &joined.most] {
        most("counters", named.len(), counters::MOST)?;
        for (name, number) in named {
            is_name("counter", name)?;
            length("a counter's name", name, counters::NAME_BYTES)?;
            count(name, *number)?;
        }
    }
    Ok(())
}

fn service(service: &ServiceUse) -> Checked {
    let ServiceUse {
        service,
        // With 32 bits, sums cannot overflow.
        processes: _,
        threads: _,
        user_ms,
        system_ms,
        rss_bytes,
    } = service;
    is_name("service", service)?;
    counts(&[
        ("user_ms", *user_ms),
        ("system_ms", *system_ms),
        ("rss_bytes", *rss_bytes),
    ])
}

/// Checks facts, or a part of them, and removes control characters from their values.
pub fn facts(facts: &mut Facts) -> Checked {
    let Facts {
        version: _,
        values,
        sysctls,
        kernel_config,
        boot_log,
    } = facts;
    for (key, value) in values.iter_mut().chain(sysctls).chain(kernel_config) {
        if key.len() > KEY_BYTES || text::clean_line(key) != *key {
            return Err(format!("not the name of a fact: {}", quoted(key)));
        }
        length(key, value, VALUE_BYTES)?;
        *value = text::clean(value);
    }
    for line in boot_log {
        length("line of the boot log", line, VALUE_BYTES)?;
        *line = text::clean_line(line);
    }
    Ok(())
}

/// Shortens the description of a failure, and removes control characters.
pub fn detail(text: &str) -> String {
    text::clean(text::cut(text, DETAIL_BYTES))
}

/// Checks a defect, and removes control characters from its texts.
pub fn defect(defect: &mut FoundDefect) -> Checked {
    let FoundDefect {
        source: _,
        kind: _,
        severity: _,
        top,
        count,
        first,
        last,
        ok_per_s,
        lines,
    } = defect;
    length("top of a defect", top, TOP_BYTES)?;
    *top = text::clean_line(top);
    if !(1..=COUNT_LIMIT).contains(count) {
        return Err(format!("defect told so often: {count}"));
    }
    for (first, last) in [
        (first.window_ms, last.window_ms),
        (first.since_boot_ms, last.since_boot_ms),
    ] {
        if let (Some(first), Some(last)) = (first, last)
            && last < first
        {
            return Err(format!(
                "defect last told before its first time: {last} ms, {first} ms"
            ));
        }
        if first.max(last).is_some_and(|ms| ms > COUNT_LIMIT) {
            return Err("defect beyond all time".into());
        }
    }
    if ok_per_s.is_some_and(|ok| ok > COUNT_LIMIT) {
        return Err("requests beyond all measure in the second of a defect".into());
    }
    most("lines of a defect", lines.len(), defects::LINES)?;
    for line in lines {
        length("line of a defect", line, defects::LINE_BYTES)?;
        *line = text::clean_line(line);
    }
    Ok(())
}

/// Checks the outcome of an attempt, and removes control characters from its texts.
pub fn outcome(outcome: &mut Outcome) -> Checked {
    match outcome {
        Outcome::Measured(measurement) => self::measurement(measurement),
        Outcome::Void(void) => {
            void.detail = text::clean(&void.detail);
            for line in &mut void.console {
                *line = text::clean_line(line);
            }
            Ok(())
        }
        Outcome::Skipped(why) => {
            *why = text::clean(why);
            Ok(())
        }
    }
}

/// Checks a measurement by guest and host, and removes control characters from its texts.
pub fn measurement(measurement: &mut Measurement) -> Checked {
    let Measurement {
        figures,
        curves,
        instructions,
        hardware_counters,
        load,
        path,
        disturbances,
        usage,
        boot_ms,
        spin_ns,
        kernel,
        server,
    } = measurement;
    if figures.is_empty() {
        return Err("measured without a figure".into());
    }
    self::figures(figures)?;
    self::curves(curves)?;
    let mut instructions = instructions.iter_mut();
    instructions.try_for_each(|instructions| self::instructions(instructions))?;
    let mut counters = hardware_counters.iter_mut();
    counters.try_for_each(self::hardware_counters)?;
    load.iter_mut().try_for_each(LoadResult::check)?;
    path.iter_mut().try_for_each(path::load_path)?;
    self::disturbances(disturbances)?;
    self::usage(usage)?;
    counts(&[("boot_ms", *boot_ms), ("spin_ns", *spin_ns)])?;
    short_text("kernel", kernel)?;
    short_text("server", server)?;
    let release = kernel.split(' ').next().unwrap_or_default();
    if !text::is_release(release) {
        return Err(format!("not a kernel's release: {}", quoted(release)));
    }
    Ok(())
}

/// Most control groups, as in the plugin.
const GROUPS: usize = 257;

/// Most steps of a ramp, as in the plugin.
const STEPS: usize = 4096;

fn instructions(instructions: &mut Instructions) -> Checked {
    let Instructions {
        window,
        steps,
        groups,
        window_ns,
        ns_per_instruction,
        decider_is_named: _,
        drive_is_simulated: _,
        figures,
        curves,
    } = instructions;
    most("control groups", groups.len(), GROUPS)?;
    most("steps", steps.len(), STEPS)?;
    let all = std::iter::once(&*window)
        .chain(&*steps)
        .chain(groups.values());
    for executed in all {
        if executed.iterations() > executed.instructions {
            return Err("more iterations of string instructions than instructions".into());
        }
        counts(&[
            ("instructions", executed.instructions),
            ("bytes", executed.bytes()),
        ])?;
    }
    for name in groups.keys() {
        length("control group", name, WORDS_BYTES)?;
    }
    counts(&[
        ("window_ns", *window_ns),
        ("ns_per_instruction", (*ns_per_instruction).into()),
    ])?;
    self::figures(figures)?;
    self::curves(curves)
}

/// Most services with event counts.
const SERVICES: usize = 256;

fn hardware_counters(counters: &mut HardwareCounters) -> Checked {
    match counters {
        HardwareCounters::Counted(window) => {
            most("counted services", window.services.len(), SERVICES)?;
            for (name, counts) in &window.services {
                is_name("service", name)?;
                event_counts(*counts)?;
            }
            event_counts(window.system)
        }
        HardwareCounters::Missing(NoCounters::Failed { error }) => short_text("error", error),
        HardwareCounters::Missing(
            NoCounters::NoUnit
            | NoCounters::Refused { paranoid: _ }
            | NoCounters::NoPerfEvents
            | NoCounters::NoCgroupEvents
            | NoCounters::Shared,
        ) => Ok(()),
    }
}

fn event_counts(counts: EventCounts) -> Checked {
    let EventCounts {
        instructions,
        cycles,
        branch_misses,
        llc_misses,
        running_share,
    } = counts;
    for (name, value) in [
        ("instructions", instructions),
        ("cycles", cycles),
        ("branch_misses", branch_misses.unwrap_or(0.0)),
        ("llc_misses", llc_misses.unwrap_or(0.0)),
        ("running_share", running_share),
    ] {
        is_measurable(name, value)?;
    }
    if running_share > 1.0 {
        return Err(format!("share above one: running_share {running_share}"));
    }
    Ok(())
}

fn usage(usage: &Usage) -> Checked {
    let Usage {
        cpu_user,
        cpu_system,
        cpu_idle,
        cpu_waiting,
        cpu_steal,
        cpu_other,
        memory_used_bytes,
        swap_used_bytes,
        context_switches_per_s,
        interrupts_per_s,
        sampling,
    } = *usage;
    for (name, share) in [
        ("cpu_user", cpu_user),
        ("cpu_system", cpu_system),
        ("cpu_idle", cpu_idle),
        ("cpu_waiting", cpu_waiting),
        ("cpu_steal", cpu_steal),
        ("cpu_other", cpu_other),
    ] {
        is_measurable(name, share)?;
        if share > 1.0 {
            return Err(format!("share above one: {name} {share}"));
        }
    }
    is_measurable("context_switches_per_s", context_switches_per_s)?;
    is_measurable("interrupts_per_s", interrupts_per_s)?;
    is_measurable("sampling", sampling)?;
    counts(&[
        ("memory_used_bytes", memory_used_bytes),
        ("swap_used_bytes", swap_used_bytes),
    ])
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::curve::Point;
    use crate::hardware_counters::CountedWindow;
    use crate::load_path::{LoadPath, NetworkEnd, Side};
    use crate::metric::Direction;

    fn figure(name: &str, value: f64) -> Figure {
        Figure::new(name, "s", Direction::Lower, Role::Secondary, value)
    }

    pub(crate) fn good() -> Measurement {
        Measurement {
            figures: vec![figure("time", 1.0)],
            load: Some(LoadResult {
                window_ns: 1_000_000_000,
                ..LoadResult::default()
            }),
            kernel: "6.1.0-40-cloud-amd64 #1 SMP Debian".into(),
            server: "nginx 1.22".into(),
            ..Measurement::default()
        }
    }

    fn curve(points: Vec<Point>) -> Curve {
        Curve {
            name: "ramp".into(),
            unit: "1/s".into(),
            direction: Direction::Higher,
            axis: "s".into(),
            points,
        }
    }

    fn refused(change: impl Fn(&mut Measurement), why: &str) {
        let mut changed = good();
        change(&mut changed);
        assert_eq!(measurement(&mut changed), Err(why.into()));
    }

    #[test]
    fn figures_that_cannot_be_compared_are_refused() {
        assert_eq!(measurement(&mut good()), Ok(()));
        for (value, why) in [
            (f64::NAN, "figure is not a number: time"),
            (f64::INFINITY, "figure beyond all measure: time inf"),
            (-1e-9, "figure below zero: time -0.000000001"),
        ] {
            refused(|result| result.figures[0].value = value, why);
        }
        refused(
            |result| result.figures.push(figure("time", 2.0)),
            "two figures have one name: time",
        );
        let nan = Point {
            at: 1.0,
            value: f64::NAN,
        };
        refused(
            |result| result.curves = vec![curve(vec![nan])],
            "figure is not a number: ramp",
        );
        refused(
            |result| {
                let mut second = figure("second", 1.0);
                second.spec.role = Role::Primary;
                result.figures.push(second);
            },
            "primary figure that is not the first: second",
        );
    }

    #[test]
    fn event_counts_are_checked() {
        let with = |change: fn(&mut EventCounts)| {
            move |result: &mut Measurement| {
                let mut window = CountedWindow::default();
                change(&mut window.system);
                result.hardware_counters = Some(HardwareCounters::Counted(window));
            }
        };
        let mut counted = good();
        with(|_| {})(&mut counted);
        assert_eq!(measurement(&mut counted), Ok(()));
        refused(
            with(|counts| counts.cycles = -1.0),
            "figure below zero: cycles -1",
        );
        refused(
            with(|counts| counts.llc_misses = Some(f64::INFINITY)),
            "figure beyond all measure: llc_misses inf",
        );
        refused(
            with(|counts| counts.running_share = 1.5),
            "share above one: running_share 1.5",
        );
    }

    #[test]
    fn there_is_one_network_end_per_client_host_and_one_of_the_servers() {
        let end = NetworkEnd {
            side: Side::Clients,
            segments_sent: 1,
            segments_received: 1,
            retransmitted: 0,
            out_of_order: 0,
            softnet_dropped: 0,
            links: Vec::new(),
        };
        let with_ends = |count| {
            let path = LoadPath {
                ends: vec![end.clone(); count],
                ..LoadPath::default()
            };
            move |result: &mut Measurement| result.path = Some(path.clone())
        };
        let mut many = good();
        with_ends(257)(&mut many);
        assert_eq!(measurement(&mut many), Ok(()));
        let why = "more than 257 ends of the network: 258";
        refused(with_ends(258), why);
    }

    #[test]
    fn names_and_lists_are_bounded() {
        refused(
            |result| result.figures[0].spec.name = "\u{1b}[2Jtime".into(),
            "not a name of figure: \"time\"",
        );
        refused(
            |result| result.figures = (0..1001).map(|n| figure(&n.to_string(), 1.0)).collect(),
            "more than 1000 figures: 1001",
        );
        refused(
            |result| result.server = "x".repeat(5000),
            "longer than 4096 bytes: server, 5000",
        );
        let points = vec![
            Point {
                at: 0.0,
                value: 0.0
            };
            10_001
        ];
        refused(
            |result| result.curves = vec![curve(points.clone())],
            "more than 10000 points of curve ramp: 10001",
        );
    }

    #[test]
    fn a_release_must_not_be_a_path() {
        for release in ["../../etc", "6.1..2", "", "6.1/x"] {
            let why = format!("not a kernel's release: {release:?}");
            refused(|result| result.kernel = format!("{release} #1"), &why);
        }
    }

    #[test]
    fn numbers_that_cannot_be_added_up_are_refused() {
        fn load(result: &mut Measurement) -> &mut LoadResult {
            result.load.as_mut().unwrap()
        }
        let most = u64::MAX;
        refused(
            |result| load(result).ok = most,
            "number beyond all measure: ok 18446744073709551615",
        );
        refused(
            |result| load(result).window_ns = 0,
            "window without a length: 0 ns",
        );
        let second = |at_ms| Second {
            at_ms,
            ..Second::default()
        };
        refused(
            |result| load(result).timeline = vec![second(2000), second(1000)],
            "seconds go back: 1000 ms after 2000 ms",
        );
    }

    #[test]
    fn a_sample_is_bounded_and_ordered() {
        let at = |at_ms| Sample {
            at_ms,
            ..Sample::default()
        };
        assert_eq!(sample(&at(0), 0), Ok(()));
        assert_eq!(
            sample(&at(-1), 0),
            Err("samples go back: -1 ms after 0 ms".into())
        );
        let mut large = at(0);
        large.memory.total_bytes = 1 << 60;
        assert!(sample(&large, 0).unwrap_err().contains("total_bytes"));
        let mut misnamed = at(0);
        misnamed.tcp.insert("\u{7}".into(), 1);
        assert!(sample(&misnamed, 0).unwrap_err().contains("name of tcp"));
        assert!(sample(&at(i64::MIN), i64::MIN).is_err());
    }

    #[test]
    fn control_characters_are_removed() {
        let mut result = good();
        result.server = "\u{1b}]0;owned\u{7}nginx".into();
        measurement(&mut result).unwrap();
        assert_eq!(result.server, "nginx");
        let mut facts = Facts::default();
        facts
            .values
            .insert("/proc/version".into(), "a\tb\u{1b}[1m".into());
        facts.boot_log.push("\u{9b}2Jbooting".into());
        super::facts(&mut facts).unwrap();
        assert_eq!(facts.values["/proc/version"], "a\tb");
        assert_eq!(facts.boot_log, ["booting"]);
    }
}
