//! What differs between the arms, weighed, in words.

use std::collections::BTreeMap;

use plan::Plan;
use record::verdict::weighed::{Class, ClassCount, Effective, Pin, Seen, Setting, Weighed, Weight};
use record::verdict::{Difference, Judgement};

use crate::words::counted;

/// Characters of a value that an arm has in some of its trials.
const SEEN: usize = 60;

/// Classes that are named in a line.
const NAMED: usize = 6;

/// What matters: `what differs: preemption voluntary -> lazy, compiler gcc 12.2 -> gcc 14.2; in both: HZ 250, ...`. Nothing where no
/// trial told anything.
pub(crate) fn line(judgement: &Judgement) -> Option<String> {
    let Weighed { arms, settings, .. } = &judgement.weighed;
    // What an arm does not tell is not said to be the same there.
    let is_apart = |one: &&Effective| one.differs() || !one.is_known();
    let (differing, equal): (Vec<_>, Vec<_>) = settings.iter().partition(is_apart);
    let named = |one: &Effective| format!("{} {}", one.setting.word(), values(arms, one));
    let mut parts = Vec::new();
    if !differing.is_empty() {
        let all: Vec<String> = differing.into_iter().map(named).collect();
        parts.push(all.join(", "));
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

/// `HZ 250`; a compiler says itself what it is.
fn same(one: &Effective) -> String {
    let value = one.values.values().flatten().next();
    let value = value.map_or("not known", String::as_str);
    match one.setting {
        Setting::Compiler => value.into(),
        _ => format!("{} {value}", one.setting.word()),
    }
}

/// Values of one arm's trials: `250 in 5 of 6 trials, 1000 in trial 3`.
pub(crate) fn seen(values: &[Seen]) -> String {
    let all: usize = values.iter().map(|one| one.trials.len()).sum();
    let each = values.iter().enumerate().map(|(place, one)| {
        let value = one.value.as_deref().unwrap_or("absent");
        let value: String = value
            .lines()
            .next()
            .unwrap_or("")
            .chars()
            .take(SEEN)
            .collect();
        let numbers: Vec<String> = one.trials.iter().map(u32::to_string).collect();
        match (place, numbers.len()) {
            (0, most) => format!("{value} in {most} of {all} trials"),
            (_, 1) => format!("{value} in trial {}", numbers[0]),
            (_, _) => format!("{value} in trials {}", numbers.join(", ")),
        }
    });
    each.collect::<Vec<_>>().join(", ")
}

/// `250 -> 1000`, the baseline first; of more than two arms `250 (6.1, 6.12), 1000 (7.2)`.
fn values(arms: &[String], one: &Effective) -> String {
    let value = |arm: &str| match (one.varying.get(arm), one.values.get(arm)) {
        (Some(values), _) => seen(values),
        (None, Some(Some(value))) => value.clone(),
        (None, Some(None) | None) => "not known".into(),
    };
    if let [one, other] = arms {
        return format!("{} -> {}", value(one), value(other));
    }
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for name in arms {
        let own = value(name);
        match groups.iter_mut().find(|(value, _)| *value == own) {
            Some((_, arms)) => arms.push(name),
            None => groups.push((own, vec![name])),
        }
    }
    let group = |(value, arms): &(String, Vec<&str>)| format!("{value} ({})", arms.join(", "));
    groups.iter().map(group).collect::<Vec<_>>().join(", ")
}

/// How many differences there are, and of which classes are those that can change figures.
pub(crate) fn counts(judgement: &Judgement) -> Option<String> {
    let classes = judgement.weighed.counted();
    let kinds = numbers(&sum_of(classes.clone()));
    if kinds.is_empty() {
        return None;
    }
    let of = |weight: Weight| {
        let its = classes.clone().filter(move |one| one.weight == weight);
        its.filter(|one| one.class != Class::Unclassified)
    };
    let total = |weight: Weight| of(weight).map(all).sum::<u32>();
    let mut any: Vec<&ClassCount> = of(Weight::Any).collect();
    any.sort_by_key(|one| std::cmp::Reverse(all(one)));
    let mut names: Vec<String> = any
        .iter()
        .take(NAMED)
        .map(|one| format!("{} {}", name(one.class), all(one)))
        .collect();
    let more: u32 = any.iter().skip(NAMED).map(|one| all(one)).sum();
    names.extend((more > 0).then(|| format!("others {more}")));
    let names = match names.len() {
        0 => String::new(),
        _ => format!(" ({})", names.join(", ")),
    };
    let unclassified = classes
        .clone()
        .filter(|one| one.class == Class::Unclassified);
    Some(format!(
        "{} differ: {} can change any figure{names}, {} figures of what uses them, {} none; unclassified: {}{}",
        kinds.join(", "),
        total(Weight::Any),
        total(Weight::WhereUsed),
        total(Weight::None),
        unclassified.map(all).sum::<u32>(),
        left_out(judgement)
    ))
}

/// What is not among those that are counted, and why.
fn left_out(judgement: &Judgement) -> String {
    let left = |is_left: fn(&Difference) -> bool| {
        let all = judgement.differences.iter();
        all.filter(|one| is_left(one)).count()
    };
    let kinds = [
        (
            left(|one| one.declared),
            "named by the plan or by its kernels' names",
        ),
        (
            left(|one| !one.declared && one.class == Class::Renamed),
            "the same under another name",
        ),
    ];
    let kinds = kinds.into_iter().filter(|(count, _)| *count > 0);
    let said: Vec<String> = kinds.map(|(count, why)| format!("{count} {why}")).collect();
    match said.len() {
        0 => String::new(),
        _ => format!("; not counted: {}", said.join(", ")),
    }
}

/// Differences of a class.
pub(crate) fn all(one: &ClassCount) -> u32 {
    one.options + one.sysctls + one.others
}

/// Classes that can change any figure, a line each: `mitigations (14 kernel options, 3 other facts): ...`.
pub(crate) fn lines(judgement: &Judgement) -> Vec<String> {
    let classes = judgement.weighed.classes.iter();
    let matter = classes.filter(|one| one.weight == Weight::Any);
    let line = |one: &ClassCount| {
        let kinds = numbers(one).join(", ");
        format!("{} ({kinds}): {}", name(one.class), can(one.class))
    };
    matter.map(line).collect()
}

/// `14 kernel options`, `3 other facts`; no kind that there is none of.
fn numbers(one: &ClassCount) -> Vec<String> {
    let kinds = [
        (one.options, "kernel option"),
        (one.sysctls, "sysctl"),
        (one.others, "other fact"),
    ];
    let kinds = kinds.into_iter().filter(|(count, _)| *count > 0);
    kinds.map(|(count, what)| counted(count, what)).collect()
}

/// A table of the classes that can change any figure, its head first, and the rest in one row.
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
    let cells = |count: &ClassCount, name: &str, can: &str| {
        let numbers = [count.options, count.sysctls, count.others].map(|count| count.to_string());
        let texts = [
            vec![name.to_string()],
            numbers.to_vec(),
            vec![can.to_string()],
        ];
        texts.concat()
    };
    let mut rows = vec![head.map(String::from).to_vec()];
    let matter = classes.iter().filter(|one| one.weight == Weight::Any);
    rows.extend(matter.map(|one| cells(one, name(one.class), can(one.class))));
    for (weight, said, can) in [
        (
            Weight::WhereUsed,
            "where used",
            "only figures of what uses it",
        ),
        (Weight::None, "no effect", "nothing"),
    ] {
        let its = judgement.weighed.counted();
        let its = its.filter(|one| one.weight == weight);
        let sum = sum_of(its);
        rows.extend((all(&sum) > 0).then(|| cells(&sum, said, can)));
    }
    rows
}

/// All differences of some classes.
fn sum_of<'c>(classes: impl Iterator<Item = &'c ClassCount>) -> ClassCount {
    let none = ClassCount {
        class: Class::Unclassified,
        weight: Weight::Any,
        options: 0,
        sysctls: 0,
        others: 0,
    };
    classes.fold(none, |sum, one| ClassCount {
        options: sum.options + one.options,
        sysctls: sum.sysctls + one.sysctls,
        others: sum.others + one.others,
        ..sum
    })
}

/// A class as a heading.
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

/// What a class can do to figures.
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

/// A setting as a plan has it.
pub(crate) fn pin(pin: &Pin) -> String {
    match pin {
        Pin::Cmdline { word } => format!("cmdline {word}"),
        Pin::Sysctl { name, value } => format!("sysctl {name} = \"{value}\""),
    }
}

/// All pins of a run as `[pinned]` of its plan, those that it has already among them, and as comments what cannot be pinned.
pub fn pinned(plan: &Plan, judgement: &Judgement) -> String {
    let settings = judgement.weighed.settings.iter();
    let differences = judgement.differences.iter();
    let pins = settings.filter_map(|one| one.pin.as_ref());
    let pins: Vec<&Pin> = pins
        .chain(differences.filter_map(|one| one.pin.as_ref()))
        .collect();
    let mut words: Vec<&str> = plan.pinned.cmdline.split_whitespace().collect();
    let mut sysctls: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, value) in &plan.pinned.sysctl {
        sysctls.insert(name, value);
    }
    for pin in pins {
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
        let line = |(name, value): (&&str, &&str)| format!("{} = {}", quoted(name), quoted(value));
        lines.extend(sysctls.iter().map(line));
    }
    let left = not_pinnable(judgement);
    if !left.is_empty() {
        lines.push(
            "# what cannot be pinned, because no parameter sets it or not all kernels have it:"
                .into(),
        );
        lines.extend(left.iter().map(|said| format!("# - {said}")));
    }
    lines.join("\n") + "\n"
}

/// Settings that differ and have no pin, and how many other differences that can change figures are left.
fn not_pinnable(judgement: &Judgement) -> Vec<String> {
    let Weighed { arms, settings, .. } = &judgement.weighed;
    let fixed = settings
        .iter()
        .filter(|one| one.differs() && !is_pinned(one, judgement));
    let named = |one: &Effective| format!("{} {}", one.setting.word(), values(arms, one));
    let mut said: Vec<String> = fixed.map(named).collect();
    let overruled: Vec<&str> = settings
        .iter()
        .filter(|one| is_pinned(one, judgement) || (one.is_known() && !one.differs()))
        .flat_map(|one| one.setting.defaults().iter().copied())
        .collect();
    let mut counts = BTreeMap::<Class, u32>::new();
    let left = judgement.differences.iter();
    for one in left.filter(|one| one.counts() && one.pin.is_none()) {
        let matters = one.class.weight() == Weight::Any;
        if matters && !overruled.contains(&one.fact.as_str()) {
            *counts.entry(one.class).or_default() += 1;
        }
    }
    let line = |(class, count): (&Class, &u32)| {
        format!("{}: {}", name(*class), counted(*count, "difference"))
    };
    said.extend(counts.iter().map(line));
    said
}

/// Whether a word of the command line pins a setting, or the sysctl that is the setting.
fn is_pinned(one: &Effective, judgement: &Judgement) -> bool {
    let mut differences = judgement.differences.iter();
    let is_fact = |other: &Difference| other.pin.is_some() && other.fact == one.setting.fact();
    one.pin.is_some() || differences.any(is_fact)
}

/// A text as TOML has it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use record::fixtures::web;

    use super::*;
    use crate::report::judged;

    fn effective(setting: Setting, values: &[(&str, &str)], pin: Option<&str>) -> Effective {
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
            effective(Setting::Hz, &[("6.1", "250"), ("7.2", "1000")], None),
            effective(
                Setting::Preemption,
                &[("6.1", "voluntary"), ("7.2", "lazy")],
                Some("preempt=full"),
            ),
            effective(Setting::InitOnAlloc, &[("6.1", "on"), ("7.2", "on")], None),
            effective(
                Setting::Compiler,
                &[("6.1", "gcc 12.2"), ("7.2", "gcc 12.2")],
                None,
            ),
        ];
        (run, judgement)
    }

    #[test]
    fn what_one_arm_does_not_tell_or_varies_in_is_not_the_same_in_both() {
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
    fn what_matters_is_one_line() {
        let (_, mut judgement) = weighed();
        let said = |judgement: &Judgement| line(judgement).unwrap();
        expect!["what differs: HZ 250 -> 1000, preemption voluntary -> lazy; in both: init_on_alloc on, gcc 12.2"].assert_eq(&said(&judgement));
        judgement.weighed.arms = ["6.1", "6.12", "7.2"].map(String::from).into();
        let old = Some("250".to_string());
        let hz = &mut judgement.weighed.settings[0];
        hz.values.insert("6.12".into(), old);
        expect!["what differs: HZ 250 (6.1, 6.12), 1000 (7.2), preemption voluntary (6.1), not known (6.12), lazy (7.2); in all: init_on_alloc on, gcc 12.2"].assert_eq(&said(&judgement));
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
    fn what_is_pinned_is_not_listed_as_what_cannot_be_pinned() {
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
            // Zeroing is on in both, whatever is built in.
            difference("CONFIG_INIT_ON_ALLOC_DEFAULT_ON", Class::Hardening, None),
            difference("CONFIG_UBSAN", Class::Hardening, None),
        ];
        let values = [("6.1", "off"), ("7.2", "on")];
        let settings = &mut judgement.weighed.settings;
        settings.push(effective(Setting::Autogroup, &values, None));
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
    fn classes_are_counted_and_those_that_matter_have_rows() {
        let (_, judgement) = weighed();
        expect!["120 kernel options, 1 sysctl, 3 other facts differ: 4 can change any figure (boot log 2, memory management 1, network 1), 0 figures of what uses them, 0 none; unclassified: 120; not counted: 1 named by the plan or by its kernels' names"].assert_eq(&counts(&judgement).unwrap());
        let rows: Vec<String> = rows(&judgement).iter().map(|row| row.join(" | ")).collect();
        expect![[r#"
            class | options | sysctls | other facts | what it can do to figures
            memory management | 0 | 0 | 1 | page faults, huge pages, reclaim: tens of percents where memory is short or large
            network | 0 | 1 | 0 | buffers and defaults of TCP: tens of percents over real networks, little over loopback
            boot log | 0 | 0 | 2 | what failed or fell back at boot: read it
            unclassified | 120 | 0 | 0 | not known: read them"#]].assert_eq(&rows.join("\n"));
    }
}
