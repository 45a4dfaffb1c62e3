//! Weighed differences between arms, in words.

use std::collections::BTreeMap;

use plan::Plan;
use record::verdict::weighed::{
    Class, ClassCount, Effective, EffectiveSetting, Pin, Seen, Weighed, Weight,
};
use record::verdict::{Difference, Judgement};

use crate::topics::differences::causes::{Cause, class_of, likeliest};
use crate::words::counted;

/// Longest shown value of an arm whose trials differ, in characters.
const SEEN: usize = 60;

/// A line names this many classes.
const NAMED: usize = 6;

/// Settings in effect: `what differs: preemption voluntary -> lazy, compiler gcc 12.2 -> gcc 14.2; in both: HZ 250, ...`. `None` if
/// no setting is known.
pub(crate) fn line(judgement: &Judgement) -> Option<String> {
    let Weighed { arms, settings, .. } = &judgement.weighed;
    // A setting that is unknown in some arm is not listed as equal.
    let may_differ = |setting: &&Effective| setting.differs() || !setting.is_known();
    let (differing, equal): (Vec<_>, Vec<_>) = settings.iter().partition(may_differ);
    let mut parts = Vec::new();
    if !differing.is_empty() {
        let named = differing.into_iter().map(|setting| named(arms, setting));
        parts.push(named.collect::<Vec<_>>().join(", "));
    }
    if !equal.is_empty() {
        let all: Vec<String> = equal.into_iter().map(same).collect();
        let arms = match arms.len() {
            2 => "both",
            _ => "all",
        };
        parts.push(format!("in {arms}: {}", all.join(", ")));
    }
    let lead = if settings.iter().any(Effective::differs) {
        "what differs"
    } else {
        "settings in effect"
    };
    (!parts.is_empty()).then(|| format!("{lead}: {}", parts.join("; ")))
}

/// Title of the table of causes.
pub(crate) const CAUSES: &str = "Likeliest causes";

/// The head, and a row for each of the likeliest causes: what it is, each arm's value, and what it can do to figures.
pub(crate) fn causes(judgement: &Judgement) -> Vec<Vec<String>> {
    let arms = &judgement.weighed.arms;
    let mut head = vec!["cause".to_string()];
    head.extend(arms.iter().cloned());
    head.push("what it can do to figures".into());
    let mut rows = vec![head];
    for cause in likeliest(judgement) {
        let (name, class) = match cause {
            Cause::Setting(setting) => (setting.setting.word(), class_of(setting.setting)),
            Cause::Fact(difference) => (difference.fact.as_str(), difference.class),
        };
        let mut row = vec![name.to_string()];
        row.extend(arms.iter().map(|arm| match cause {
            Cause::Setting(setting) => setting_value(setting, arm).replace(',', ", "),
            Cause::Fact(difference) => value(difference, arm),
        }));
        row.push(can(class).into());
        rows.push(row);
    }
    rows
}

/// Summary of all differences of a weight: `277 may affect any result`.
pub(crate) fn weight(weight: Weight, count: usize) -> String {
    match weight {
        Weight::Any => format!("{count} may affect any result"),
        Weight::WhereUsed => format!("{count} affect only workloads that use them"),
        Weight::None => format!("{count} affect nothing"),
    }
}

/// Summary of the differences in name alone.
pub(crate) fn renamed(count: usize) -> String {
    format!("{count} are the same under another name")
}

/// A fact's value in an arm.
pub(crate) fn value(difference: &Difference, arm: &str) -> String {
    match (difference.varying.get(arm), difference.values.get(arm)) {
        (Some(values), _) => seen(values),
        (None, Some(Some(value))) => value.clone(),
        (None, Some(None)) => "absent".into(),
        (None, None) => "not known".into(),
    }
}

/// Names of facts by their values, the baseline's first: `absent -> n` has `CONFIG_KCSAN` and others.
pub(crate) fn by_values(
    arms: &[String],
    differences: &[&Difference],
) -> BTreeMap<String, Vec<String>> {
    let separator = if arms.len() == 2 { " -> " } else { " | " };
    let mut facts = BTreeMap::<String, Vec<String>>::new();
    for difference in differences {
        let values: Vec<String> = arms.iter().map(|arm| value(difference, arm)).collect();
        let name = match &difference.formerly {
            Some(before) => format!("{} ({before})", difference.fact),
            None => difference.fact.clone(),
        };
        facts.entry(values.join(separator)).or_default().push(name);
    }
    facts
}

/// Settings in effect that are equal in all arms: `in both: HZ 250, LTO none`.
pub(crate) fn equal(judgement: &Judgement) -> Option<String> {
    let Weighed { arms, settings, .. } = &judgement.weighed;
    let equal = settings
        .iter()
        .filter(|setting| !setting.differs() && setting.is_known());
    let all: Vec<String> = equal.map(same).collect();
    let arms = match arms.len() {
        2 => "both",
        _ => "all",
    };
    (!all.is_empty()).then(|| format!("in {arms}: {}", all.join(", ")))
}

/// `HZ 250`, with values of all arms.
fn named(arms: &[String], setting: &Effective) -> String {
    format!("{} {}", setting.setting.word(), values(arms, setting))
}

/// `HZ 250`, for a setting that is equal in all arms. A compiler's value has its name.
fn same(setting: &Effective) -> String {
    let value = setting.values.values().flatten().next();
    let value = value.map_or("not known", String::as_str);
    match setting.setting {
        EffectiveSetting::Compiler => value.into(),
        _ => format!("{} {value}", setting.setting.word()),
    }
}

/// Values of one arm's trials: `250 in 5 of 6 trials, 1000 in trial 3`.
pub(crate) fn seen(values: &[Seen]) -> String {
    let all: usize = values.iter().map(|seen| seen.trials.len()).sum();
    let mut parts = Vec::new();
    for (place, seen) in values.iter().enumerate() {
        let value = seen.value.as_deref().unwrap_or("absent");
        let line = value.lines().next().unwrap_or("");
        let value: String = line.chars().take(SEEN).collect();
        let numbers: Vec<String> = seen.trials.iter().map(u32::to_string).collect();
        parts.push(match (place, numbers.len()) {
            (0, most) => format!("{value} in {most} of {all} trials"),
            (_, 1) => format!("{value} in trial {}", numbers[0]),
            (_, _) => format!("{value} in trials {}", numbers.join(", ")),
        });
    }
    parts.join(", ")
}

/// A setting's value in an arm.
fn setting_value(setting: &Effective, arm: &str) -> String {
    match (setting.varying.get(arm), setting.values.get(arm)) {
        (Some(values), _) => seen(values),
        (None, Some(Some(value))) => value.clone(),
        (None, Some(None) | None) => "not known".into(),
    }
}

/// `250 -> 1000`, the baseline first. For more than two arms `250 (6.1, 6.12), 1000 (7.2)`.
fn values(arms: &[String], setting: &Effective) -> String {
    let value = |arm: &str| setting_value(setting, arm);
    if let [baseline, arm] = arms {
        return format!("{} -> {}", value(baseline), value(arm));
    }
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for arm in arms {
        let value = value(arm);
        match groups.iter_mut().find(|(other, _)| *other == value) {
            Some((_, arms)) => arms.push(arm),
            None => groups.push((value, vec![arm])),
        }
    }
    let group = |(value, arms): &(String, Vec<&str>)| format!("{value} ({})", arms.join(", "));
    groups.iter().map(group).collect::<Vec<_>>().join(", ")
}

/// Counts differences, and names the classes of those that can change any figure.
pub(crate) fn counts(judgement: &Judgement) -> Option<String> {
    let classes = judgement.weighed.counted();
    let kinds = numbers(&sum(classes.clone()));
    if kinds.is_empty() {
        return None;
    }
    let (unclassified, classified): (Vec<&ClassCount>, Vec<&ClassCount>) =
        classes.partition(|count| count.class == Class::Unclassified);
    let of_weight = |weight: Weight| {
        let counts = classified.iter().copied();
        counts.filter(move |count| count.weight == weight)
    };
    let total = |weight: Weight| of_weight(weight).map(all).sum::<u32>();
    let mut any: Vec<&ClassCount> = of_weight(Weight::Any).collect();
    any.sort_by_key(|count| std::cmp::Reverse(all(count)));
    let mut names: Vec<String> = any
        .iter()
        .take(NAMED)
        .map(|count| format!("{} {}", name(count.class), all(count)))
        .collect();
    let more: u32 = any.iter().skip(NAMED).map(|count| all(count)).sum();
    names.extend((more > 0).then(|| format!("others {more}")));
    let names = match names.len() {
        0 => String::new(),
        _ => format!(" ({})", names.join(", ")),
    };
    let unclassified: u32 = unclassified.into_iter().map(all).sum();
    let unclassified = match unclassified {
        0 => String::new(),
        count => format!("; unclassified: {count}"),
    };
    let total_of_all: u32 = judgement.weighed.counted().map(all).sum();
    Some(format!(
        "{} ({}): {} may affect any result{names}, {} only workloads that use them, {} nothing{unclassified}{}",
        differ(total_of_all),
        kinds.join(", "),
        total(Weight::Any),
        total(Weight::WhereUsed),
        total(Weight::None),
        left_out(judgement)
    ))
}

/// `1 setting differs`, `1351 settings differ`.
fn differ(count: u32) -> String {
    let verb = if count == 1 { "differs" } else { "differ" };
    format!("{} {verb}", counted(count, "setting"))
}

/// Differences that are not counted, and why.
fn left_out(judgement: &Judgement) -> String {
    let differences = || judgement.differences.iter();
    let declared = differences().filter(|difference| difference.declared);
    let renamed = differences()
        .filter(|difference| !difference.declared && difference.class == Class::Renamed);
    let reasons = [
        (
            declared.count(),
            "named by the plan or by its kernels' names",
        ),
        (renamed.count(), "the same under another name"),
    ];
    let mut parts = Vec::new();
    for (count, reason) in reasons {
        if count > 0 {
            parts.push(format!("{count} {reason}"));
        }
    }
    match parts.len() {
        0 => String::new(),
        _ => format!("; not counted: {}", parts.join(", ")),
    }
}

/// Number of differences of a class.
pub(crate) fn all(count: &ClassCount) -> u32 {
    count.options + count.sysctls + count.others
}

/// A line for each class that can change any figure: `mitigations (14 kernel options, 3 other facts): ...`.
pub(crate) fn lines(judgement: &Judgement) -> Vec<String> {
    let classes = judgement.weighed.classes.iter();
    let line = |count: &ClassCount| {
        let kinds = numbers(count).join(", ");
        format!("{} ({kinds}): {}", name(count.class), can(count.class))
    };
    classes
        .filter(|count| count.weight == Weight::Any)
        .map(line)
        .collect()
}

/// `14 kernel options`, `3 other facts`, without kinds that do not occur.
fn numbers(count: &ClassCount) -> Vec<String> {
    let kinds = [
        (count.options, "kernel option"),
        (count.sysctls, "sysctl"),
        (count.others, "other fact"),
    ];
    let kinds = kinds.into_iter().filter(|(count, _)| *count > 0);
    kinds.map(|(count, noun)| counted(count, noun)).collect()
}

/// The head, a row for each class that can change any figure, and a row for each other weight.
pub(crate) fn rows(judgement: &Judgement) -> Vec<Vec<String>> {
    let classes = &judgement.weighed.classes;
    if classes.is_empty() {
        return Vec::new();
    }
    let head = [
        "class",
        "options",
        "sysctls",
        "other facts",
        "what it can do to figures",
    ];
    let row = |count: &ClassCount, name: &str, can: &str| {
        vec![
            name.into(),
            count.options.to_string(),
            count.sysctls.to_string(),
            count.others.to_string(),
            can.into(),
        ]
    };
    let mut rows = vec![head.map(String::from).to_vec()];
    let any = classes.iter().filter(|count| count.weight == Weight::Any);
    rows.extend(any.map(|count| row(count, name(count.class), can(count.class))));
    for (weight, name, can) in [
        (
            Weight::WhereUsed,
            "where used",
            "only figures of what uses it",
        ),
        (Weight::None, "no effect", "nothing"),
    ] {
        let counts = judgement.weighed.counted();
        let sum = sum(counts.filter(|count| count.weight == weight));
        if all(&sum) > 0 {
            rows.push(row(&sum, name, can));
        }
    }
    rows
}

/// The sum over classes.
fn sum<'c>(counts: impl Iterator<Item = &'c ClassCount>) -> ClassCount {
    let mut sum = ClassCount {
        class: Class::Unclassified,
        weight: Weight::Any,
        options: 0,
        sysctls: 0,
        others: 0,
    };
    for count in counts {
        sum.options += count.options;
        sum.sysctls += count.sysctls;
        sum.others += count.others;
    }
    sum
}

/// Heading of a class.
pub(crate) fn name(class: Class) -> &'static str {
    match class {
        Class::Debugging => "debugging",
        Class::Mitigations => "mitigations",
        Class::Preemption => "preemption",
        Class::Tick => "tick and idle",
        Class::Hardening => "hardening",
        Class::Compiler => "compiler",
        Class::Allocator => "allocator",
        Class::Scheduler => "scheduler",
        Class::Memory => "memory management",
        Class::Network => "network",
        Class::Block => "block and I/O",
        Class::Tracing => "tracing and BPF",
        Class::Security => "security modules",
        Class::BootLog => "boot log",
        Class::Unclassified => "unclassified",
        Class::Virtualization => "virtualization",
        Class::Checksums => "checksums and cryptography",
        Class::FileSystems => "file systems",
        Class::Drivers => "drivers and hardware",
        Class::Interfaces => "interfaces",
        Class::Sizes => "limits by memory",
        Class::Accidents => "panics and watchdogs",
        Class::Tests => "self-tests",
        Class::NotLoaded => "modules not loaded",
        Class::Absent => "off or unknown in all",
        Class::Renamed => "renamed",
        Class::Metadata => "build metadata",
    }
}

/// The effect that a class can have on figures.
pub(crate) fn can(class: Class) -> &'static str {
    match class {
        Class::Debugging => {
            "checks at run time: KASAN and lock debugging halve speed, counters cost little"
        }
        Class::Mitigations => "system calls and task switches cost up to tens of percents more",
        Class::Preemption => "tails of latency; single percents of throughput",
        Class::Tick => {
            "how long timers and idle CPUs take: latency at low load, single percents else"
        }
        Class::Hardening => {
            "zeroing and checks: single percents, more where memory is allocated much"
        }
        Class::Compiler => "other machine code of the same source: single percents",
        Class::Allocator => "each allocated page and buffer: single percents",
        Class::Scheduler => {
            "who runs when and where: tails of latency, tens of percents above full load"
        }
        Class::Memory => {
            "page faults, huge pages, reclaim: tens of percents where memory is short or large"
        }
        Class::Network => {
            "buffers and defaults of TCP: tens of percents over real networks, little over loopback"
        }
        Class::Block => "queues and schedulers of disks: factors where a disk is the limit",
        Class::Tracing => "hooks that are not used cost below one percent; used ones more",
        Class::Security => "a check at each file, socket and program: single percents",
        Class::BootLog => "what failed or fell back at boot: read it",
        Class::Unclassified => "not known: read them",
        Class::Virtualization => "guests and hosts: clocks, locks and devices of virtual machines",
        Class::Checksums => "what computes checksums, encrypts or compresses",
        Class::FileSystems => "what uses these file systems",
        Class::Drivers => "what uses this hardware",
        Class::Interfaces => "programs that use these interfaces",
        Class::Sizes => "nothing until the limit is reached",
        Class::Accidents => "nothing while nothing goes wrong",
        Class::Tests => "nothing after boot",
        Class::NotLoaded => "nothing: no trial had the code in memory",
        Class::Absent => "nothing: no kernel has it",
        Class::Renamed => "nothing: the same under another name",
        Class::Metadata => "nothing by itself",
    }
}

/// `cmdline psi=1` or `sysctl vm.swappiness = "60"`.
pub(crate) fn pin(pin: &Pin) -> String {
    match pin {
        Pin::Cmdline { word } => format!("cmdline {word}"),
        Pin::Sysctl { name, value } => format!("sysctl {name} = \"{value}\""),
    }
}

/// The TOML of `[pinned]` for the plan: the pins that it has already, and those that the run suggests. Comments list what cannot be
/// pinned.
pub fn pinned(plan: &Plan, judgement: &Judgement) -> String {
    let settings = judgement.weighed.settings.iter();
    let settings = settings.filter_map(|setting| setting.pin.as_ref());
    let differences = judgement.differences.iter();
    let differences = differences.filter_map(|difference| difference.pin.as_ref());
    let mut words: Vec<&str> = plan.pinned.cmdline.split_whitespace().collect();
    let mut sysctls: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, value) in &plan.pinned.sysctl {
        sysctls.insert(name, value);
    }
    for pin in settings.chain(differences) {
        match pin {
            Pin::Cmdline { word } => words.push(word),
            Pin::Sysctl { name, value } => {
                sysctls.insert(name, value);
            }
        }
    }
    let mut lines = vec![format!(
        "# one value for all arms, that of {} where kernels let it be chosen",
        plan.baseline
    )];
    if words.is_empty() && sysctls.is_empty() {
        lines = vec!["# nothing that differs can be pinned".to_string()];
    } else {
        lines.push("[pinned]".into());
    }
    if !words.is_empty() {
        lines.push(format!("cmdline = {}", quoted(&words.join(" "))));
    }
    if !sysctls.is_empty() {
        lines.push("[pinned.sysctl]".into());
        for (name, value) in sysctls {
            lines.push(format!("{} = {}", quoted(name), quoted(value)));
        }
    }
    let left = not_pinnable(judgement);
    if !left.is_empty() {
        lines.push(
            "# what cannot be pinned, because no parameter sets it or not all kernels have it:"
                .into(),
        );
        lines.extend(left.iter().map(|line| format!("# - {line}")));
    }
    lines.join("\n") + "\n"
}

/// Settings that differ and have no pin, and the number of other differences that can change any figure, by class.
fn not_pinnable(judgement: &Judgement) -> Vec<String> {
    let Weighed { arms, settings, .. } = &judgement.weighed;
    let mut lines = Vec::new();
    // Defaults in the configuration that have no effect, because the setting is pinned or equal.
    let mut overruled: Vec<&str> = Vec::new();
    for setting in settings {
        let is_pinned = is_pinned(setting, judgement);
        if setting.differs() && !is_pinned {
            lines.push(named(arms, setting));
        }
        if is_pinned || (setting.is_known() && !setting.differs()) {
            overruled.extend(setting.setting.defaults());
        }
    }
    let mut counts = BTreeMap::<Class, u32>::new();
    for difference in &judgement.differences {
        let Difference { class, fact, .. } = difference;
        let is_left = difference.counts() && difference.pin.is_none();
        if is_left && class.weight() == Weight::Any && !overruled.contains(&fact.as_str()) {
            *counts.entry(*class).or_default() += 1;
        }
    }
    for (class, count) in counts {
        lines.push(format!("{}: {}", name(class), counted(count, "difference")));
    }
    lines
}

/// Whether a setting has a pin, by a word of the command line or by its sysctl.
fn is_pinned(setting: &Effective, judgement: &Judgement) -> bool {
    let mut differences = judgement.differences.iter();
    let has_pin = |difference: &Difference| {
        difference.pin.is_some() && difference.fact == setting.setting.fact()
    };
    setting.pin.is_some() || differences.any(has_pin)
}

/// A TOML string.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use record::fixtures::web;

    use super::*;
    use crate::report::judged;

    fn effective(
        setting: EffectiveSetting,
        values: &[(&str, &str)],
        pin: Option<&str>,
    ) -> Effective {
        let values = values.iter();
        let values = values.map(|(arm, value)| ((*arm).into(), Some((*value).into())));
        Effective {
            setting,
            values: values.collect(),
            varying: BTreeMap::new(),
            pin: pin.map(|word| Pin::Cmdline { word: word.into() }),
        }
    }

    fn weighed() -> (record::rundir::Run, Judgement) {
        let (run, mut judgement) = judged(web::two_kernels());
        judgement.weighed.settings = vec![
            effective(
                EffectiveSetting::Hz,
                &[("6.1", "250"), ("7.2", "1000")],
                None,
            ),
            effective(
                EffectiveSetting::Preemption,
                &[("6.1", "voluntary"), ("7.2", "lazy")],
                Some("preempt=full"),
            ),
            effective(
                EffectiveSetting::InitOnAlloc,
                &[("6.1", "on"), ("7.2", "on")],
                None,
            ),
            effective(
                EffectiveSetting::Compiler,
                &[("6.1", "gcc 12.2"), ("7.2", "gcc 12.2")],
                None,
            ),
        ];
        (run, judgement)
    }

    #[test]
    fn unknown_and_varying_settings_are_not_listed_as_equal() {
        let (_, mut judgement) = weighed();
        let settings = &mut judgement.weighed.settings;
        settings.truncate(3);
        let seen = |value: &str, trials: &[u32]| Seen {
            value: Some(value.into()),
            trials: trials.into(),
        };
        settings[0].values.insert("7.2".into(), Some("250".into()));
        let varying = vec![seen("250", &[2, 4, 5, 8, 9]), seen("1000", &[3])];
        settings[0].varying.insert("7.2".into(), varying);
        settings[2].values.insert("7.2".into(), None);
        expect!["what differs: HZ 250 -> 250 in 5 of 6 trials, 1000 in trial 3, preemption voluntary -> lazy, init_on_alloc on -> not known"]
            .assert_eq(&line(&judgement).unwrap());
    }

    #[test]
    fn settings_in_effect_are_one_line() {
        let (_, mut judgement) = weighed();
        let line = |judgement: &Judgement| line(judgement).unwrap();
        expect!["what differs: HZ 250 -> 1000, preemption voluntary -> lazy; in both: init_on_alloc on, gcc 12.2"].assert_eq(&line(&judgement));
        judgement.weighed.arms = ["6.1", "6.12", "7.2"].map(String::from).into();
        let old = Some("250".to_string());
        let hz = &mut judgement.weighed.settings[0];
        hz.values.insert("6.12".into(), old);
        expect!["what differs: HZ 250 (6.1, 6.12), 1000 (7.2), preemption voluntary (6.1), not known (6.12), lazy (7.2); in all: init_on_alloc on, gcc 12.2"].assert_eq(&line(&judgement));
    }

    #[test]
    fn pins_are_a_table_for_the_plan() {
        let (mut run, mut judgement) = weighed();
        judgement.differences[0].pin = Some(Pin::Sysctl {
            name: "vm.x".into(),
            value: "1 \"2\"".into(),
        });
        run.plan.pinned.cmdline = "psi=0".into();
        expect![[r##"
            # one value for all arms, that of 6.1 where kernels let it be chosen
            [pinned]
            cmdline = "psi=0 preempt=full"
            [pinned.sysctl]
            "net.ipv4.tcp_rmem" = "4096 131072"
            "vm.x" = "1 \"2\""
            # what cannot be pinned, because no parameter sets it or not all kernels have it:
            # - HZ 250 -> 1000
            # - memory management: 1 difference
            # - boot log: 2 differences
            # - unclassified: 120 differences
        "##]]
        .assert_eq(&pinned(&run.plan, &judgement));
    }

    #[test]
    fn pinned_settings_are_not_listed_as_unpinnable() {
        let (run, mut judgement) = weighed();
        let difference = |fact: &str, class, pin| Difference {
            fact: fact.into(),
            class,
            pin,
            declared: false,
            formerly: None,
            ..judgement.differences[0].clone()
        };
        let autogroup = "kernel.sched_autogroup_enabled";
        let pin = Pin::Sysctl {
            name: autogroup.into(),
            value: "0".into(),
        };
        judgement.differences = vec![
            difference(&format!("sysctl {autogroup}"), Class::Scheduler, Some(pin)),
            difference("CONFIG_PREEMPT_LAZY", Class::Preemption, None),
            difference("CONFIG_PREEMPT_VOLUNTARY", Class::Preemption, None),
            // Zeroing is on in both arms, so the default in the configuration has no effect.
            difference("CONFIG_INIT_ON_ALLOC_DEFAULT_ON", Class::Hardening, None),
            difference("CONFIG_UBSAN", Class::Hardening, None),
        ];
        let values = [("6.1", "off"), ("7.2", "on")];
        let settings = &mut judgement.weighed.settings;
        settings.push(effective(EffectiveSetting::Autogroup, &values, None));
        expect![[r#"
            # one value for all arms, that of 6.1 where kernels let it be chosen
            [pinned]
            cmdline = "preempt=full"
            [pinned.sysctl]
            "kernel.sched_autogroup_enabled" = "0"
            # what cannot be pinned, because no parameter sets it or not all kernels have it:
            # - HZ 250 -> 1000
            # - hardening: 1 difference
        "#]]
        .assert_eq(&pinned(&run.plan, &judgement));
    }

    #[test]
    fn classes_are_counted_and_those_that_can_change_any_figure_have_rows() {
        let (_, judgement) = weighed();
        expect!["124 settings differ (120 kernel options, 1 sysctl, 3 other facts): 4 may affect any result (boot log 2, memory management 1, network 1), 0 only workloads that use them, 0 nothing; unclassified: 120; not counted: 1 named by the plan or by its kernels' names"].assert_eq(&counts(&judgement).unwrap());
        let rows: Vec<String> = rows(&judgement).iter().map(|row| row.join(" | ")).collect();
        expect![[r#"
            class | options | sysctls | other facts | what it can do to figures
            memory management | 0 | 0 | 1 | page faults, huge pages, reclaim: tens of percents where memory is short or large
            network | 0 | 1 | 0 | buffers and defaults of TCP: tens of percents over real networks, little over loopback
            boot log | 0 | 0 | 2 | what failed or fell back at boot: read it
            unclassified | 120 | 0 | 0 | not known: read them"#]].assert_eq(&rows.join("\n"));
    }
}
