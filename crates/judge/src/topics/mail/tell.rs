//! Sentences and tables of the mail about a run.

use base::input::units::{show_share, significant};
use plan::kernel::KernelRef;
use record::fact;
use record::metric::Role;
use record::rundir::Run;
use record::verdict::why::Why;
use record::verdict::{Comparison, Headline, Judgement};

use crate::topics::glance::find::{Group, group};
use crate::topics::headline::tell::headline as headline_of;
use crate::topics::loads::tell::Unit;
use crate::topics::mail::find::{Basis, Change, Culprit, Range, Step, Subject, kernel, subject};
use crate::topics::models::tell::mitigations;
use crate::topics::why::tell as why_tell;
use crate::topics::{differences, disclosure, findings, host};
use crate::words;
use crate::words::NONE;
use crate::words::levels::level;

/// The kernel's rule on slower kernels, word for word.
pub(crate) const RULE: &str = "Yes, but the difference has to be significant. A five percent slow-down in a \
     micro-benchmark thus is unlikely to qualify as regression, unless it also influences the results of a broad benchmark by \
     more than one percent. If in doubt, ask for advice.";

/// The same of what does not work at all.
pub(crate) const RULE_OF_FAILURES: &str = "It's a regression if some application or practical use case running fine with one \
     Linux kernel works worse or not at all with a newer version compiled using a similar configuration.";

/// Where the rule is written.
pub(crate) const RULE_SOURCE: &str =
    "The kernel's rule (Documentation/admin-guide/reporting-regressions.rst):";

/// The rule's limit for a broad benchmark, as a share.
const BROAD: f64 = 0.01;

/// The rule's limit for a micro-benchmark, as a share.
const MICRO: f64 = 0.05;

/// Heading of the metrics that users notice.
pub(crate) const OUTCOME: &str = "Outcome";

/// Heading of the metrics of cost.
pub(crate) const COST: &str = "Cost: path length (instructions), CPI and CPU time";

/// Heading of the commands.
pub(crate) const REPRODUCE: &str = "How to reproduce";

/// Heading of the other headlines.
pub(crate) const OTHERS: &str = "Other results of this run";

/// Heading of the differences between the arms.
pub(crate) const CONFIGURATION: &str = "Configuration";

/// What failed trials, defects and fairness checks are headed by.
pub(crate) const CHECKS: &str = "Failures, defects, fairness";

/// Heading of the warnings.
pub(crate) const WARNINGS: &str = "Warnings";

/// The line without setbacks.
pub(crate) const NO_FAILURES: &str = "no failed trial affects the verdict";

/// The mail of a run without headlines.
pub(crate) const NOTHING: &str = "Nothing has been measured yet, so nothing is compared.";

/// Why a mail about a regression has no command for regzbot.
pub(crate) fn not_tracked(subject: &Subject<'_>) -> Option<String> {
    let reason = match (subject.basis, subject.is_model_dependent) {
        (Basis::Measured, false) => {
            return subject.range.is_none().then(|| {
                "No regzbot command: the arms differ in more than their kernels, or the baseline is not the older kernel.".into()
            });
        }
        (Basis::Counted, _) => "counted instructions do not show that users notice a slowdown",
        (Basis::Emulated, _) => "times of an emulator do not show that users notice a slowdown",
        (Basis::Simulated, _) => "a simulated machine shows nothing about real use",
        (Basis::Measured, true) => "the verdict depends on the CPU model",
    };
    Some(format!(
        "No regzbot command: {reason}. Confirm the difference on real hardware first."
    ))
}

/// `scheduler: web-static p99 latency +54.0 % [+43.8, +61.3], v6.1.176..v7.2.12`, with a mark for regressions.
pub(crate) fn title(
    run: &Run,
    judgement: &Judgement,
    subject: &Subject<'_>,
    why: Option<&Why>,
) -> String {
    let Headline {
        workload,
        arm,
        conclusion,
        ..
    } = subject.headline;
    let between = match &subject.range {
        Some(Range { good, bad, .. }) => format!("{good}..{bad}"),
        None => format!("{arm} against {}", run.plan.baseline),
    };
    let what = match subject.change {
        Change::Worse(comparison) => format!("{workload} {}", sized(comparison)),
        Change::Failed => format!("{workload} {}", conclusion.word()),
        Change::Nothing => {
            let is_it = |comparison: &&Comparison| {
                comparison.workload == *workload && comparison.arm == *arm
            };
            let size = judgement.primaries().find(is_it).map(sized);
            let size = size.map_or(String::new(), |size| format!(", {size}"));
            format!("{workload} {}{size}", conclusion.word())
        }
    };
    let mark = match (subject.is_regression(), subject.basis) {
        (true, Basis::Measured) if subject.range.is_some() => "[REGRESSION] ",
        (_, Basis::Measured) => "",
        (_, Basis::Counted) => "[counted instructions] ",
        (_, Basis::Emulated) => "[emulated] ",
        (_, Basis::Simulated) => "[simulated] ",
    };
    let mechanism = why.and_then(mechanism).filter(|_| subject.is_regression());
    let mechanism = mechanism.map_or(String::new(), |name| format!("{name}: "));
    format!("{mark}{mechanism}{what}, {between}")
}

/// The largest significant mechanism.
fn mechanism(why: &Why) -> Option<&'static str> {
    let mut rows = why.mechanisms.iter();
    let row = rows.find(|row| row.significant && row.difference * why.account.difference > 0.0)?;
    Some(row.name.word())
}

/// `p99 latency +54.0 % [+43.8, +61.3]`, `throughput 4.9x [4.6, 5.1]`.
pub(crate) fn sized(comparison: &Comparison) -> String {
    format!(
        "{} {}",
        words::metric_name(&comparison.spec.name),
        size(comparison)
    )
}

/// A change and its interval in one unit.
fn size(comparison: &Comparison) -> String {
    let Some(ratio) = comparison.ratio else {
        let Some(shift) = comparison.difference else {
            return words::change_of(comparison);
        };
        let unit = words::unit(&comparison.spec.unit);
        let interval = bracketed(shift.low.zip(shift.high), signed);
        return format!("{} {unit}{interval}", signed(shift.typical));
    };
    let ends = comparison.low.zip(comparison.high);
    if words::is_multiple(ratio) {
        let ends = bracketed(ends, |end| significant(end, 2));
        return format!("{}{ends}", words::times(ratio));
    }
    let ends = bracketed(ends, words::signed_percent);
    format!("{} %{ends}", words::signed_percent(ratio))
}

fn bracketed(ends: Option<(f64, f64)>, show: impl Fn(f64) -> String) -> String {
    ends.map_or(String::new(), |(low, high)| {
        format!(" [{}, {}]", show(low), show(high))
    })
}

fn signed(value: f64) -> String {
    let text = significant(value, 3);
    if value > 0.0 {
        format!("+{text}")
    } else {
        text
    }
}

/// What the figures are, if they are no measurements of a real CPU, and whether the verdict depends on a model.
pub(crate) fn caveat(subject: &Subject<'_>) -> Option<String> {
    let basis = match subject.basis {
        Basis::Measured if subject.is_model_dependent => {
            return Some("The verdict depends on the CPU model.".into());
        }
        Basis::Measured => return None,
        Basis::Counted => "Counted instructions under emulation, not times",
        Basis::Emulated => "Times of an emulated CPU, not of a real one",
        Basis::Simulated => "Figures of a simulated machine, not of a real one",
    };
    let depends = if subject.is_model_dependent {
        ", and the verdict depends on the CPU model"
    } else {
        ""
    };
    Some(format!("{basis}{depends}."))
}

/// The headline in a sentence, with its reason if the question is open.
pub(crate) fn verdict(run: &Run, judgement: &Judgement, headline: &Headline) -> Option<String> {
    let headline_text = headline_of(run, judgement, &[], headline)?;
    let badge = match headline_text.badge {
        "failed" => String::new(),
        badge => format!("{}: ", doc::html::capital(badge)),
    };
    let parts = [&headline_text.text]
        .into_iter()
        .chain(&headline_text.findings);
    let parts: Vec<&str> = parts.map(String::as_str).collect();
    let mut sentences = vec![format!("{badge}{}", parts.join("; "))];
    if headline_text.is_open {
        sentences.push(doc::html::capital(&headline_text.reason));
    }
    Some(sentences.join(". ") + ".")
}

/// The largest change for the worse, if the headline does not name it.
pub(crate) fn also_worse(subject: &Subject<'_>) -> Option<String> {
    let Change::Worse(comparison) = subject.change else {
        return None;
    };
    let conclusion = &subject.headline.conclusion;
    let is_named = comparison.spec.role == Role::Primary
        || conclusion.against().contains(&comparison.spec.name);
    let level = comparison.confidence.map(level);
    let level = level.map_or(String::new(), |level| format!(" ({level} interval)"));
    (!is_named).then(|| {
        format!(
            "Largest change for the worse: {}{level}.",
            sized(comparison)
        )
    })
}

/// How the change compares with the limits of the kernel's rule.
pub(crate) fn by_rule(comparison: &Comparison) -> Option<String> {
    let ends = [comparison.low?, comparison.high?];
    let least = ends.map(|ratio| (ratio - 1.0).abs());
    let least = if ends[0] < 1.0 && 1.0 < ends[1] {
        0.0
    } else {
        least[0].min(least[1])
    };
    let name = words::metric_name(&comparison.spec.name);
    let level = comparison.confidence.map(level);
    let level = level.map_or(String::new(), |level| format!(" ({level} interval)"));
    let percent = least * 100.0;
    let at_least = format!(
        "{}'s {name} is worse by at least {} %{level}",
        comparison.workload,
        format_args!("{percent:.*}", words::percent_decimals(percent))
    );
    Some(match least {
        below if below < BROAD => format!("{at_least}, below the rule's one percent."),
        between if between < MICRO => format!(
            "{at_least}: it qualifies only if {} counts as a broad benchmark.",
            comparison.workload
        ),
        _ => format!("{at_least}, above both of the rule's limits."),
    })
}

/// Commit, kernels, machine: a label and a text each.
pub(crate) fn facts(
    run: &Run,
    subject: &Subject<'_>,
    culprit: Option<&Culprit>,
) -> Vec<(&'static str, String)> {
    let (arm, baseline) = (&subject.headline.arm, &run.plan.baseline);
    let mut facts = Vec::new();
    if subject.is_regression() {
        facts.extend(commit(subject, culprit).map(|text| ("Commit", text)));
    }
    for (label, arm) in [("Base", baseline), ("Tested", arm)] {
        facts.push((label, version(run, arm)));
    }
    facts.push(("Machine", host::tell::machine(&run.opening.machine)));
    facts.extend(cpu(run).map(|text| ("CPU", text)));
    let mitigations = mitigations::line(run).map(|line| {
        let text = line.strip_prefix("mitigations: ");
        text.map_or(line.clone(), String::from)
    });
    facts.push(("Mitigations", mitigations.unwrap_or("not known".into())));
    facts
}

/// What differs between the arms.
pub(crate) fn configuration(
    run: &Run,
    judgement: &Judgement,
    subject: &Subject<'_>,
) -> Vec<String> {
    let options: u32 = judgement.weighed.counted().map(|class| class.options).sum();
    let mut lines = Vec::new();
    if options > 0 && subject.is_regression() {
        lines.push(format!(
            "The kernel's rule asks for similar configurations of both kernels (make olddefconfig). Here {options} options differ."
        ));
    }
    let is_packaged = |arm: &plan::Arm| {
        matches!(
            arm.kernel,
            KernelRef::Version(_) | KernelRef::Debian { .. } | KernelRef::Packages(_)
        )
    };
    if subject.is_regression() && run.plan.arms.iter().any(is_packaged) {
        lines.push(
            "These kernels are packages of a distribution. Kernel developers ask for a test of kernels without its patches."
                .into(),
        );
    }
    lines.extend(differences::tell::line(judgement));
    lines.extend(differences::tell::counts(judgement));
    lines
}

fn commit(subject: &Subject<'_>, culprit: Option<&Culprit>) -> Option<String> {
    let Some(Culprit { step, probability }) = culprit else {
        let Range { good, bad, .. } = subject.range.as_ref()?;
        return Some(format!("not bisected: {good} is good, {bad} is bad"));
    };
    let probability = show_share(*probability, 3);
    Some(match step {
        Step::Commit { hash, subject } => {
            let short = short(hash);
            format!("{short} (\"{subject}\"), posterior probability {probability}")
        }
        Step::Versions { before, after } => {
            format!("between {before} and {after}, posterior probability {probability}")
        }
    })
}

/// A commit's hash as kernel developers write it.
fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

fn version(run: &Run, arm: &str) -> String {
    let planned = run.plan.arms.iter().find(|planned| planned.name == arm);
    let source = planned.map_or(String::new(), |planned| {
        let mut parts = vec![planned.kernel.to_string()];
        parts.extend(planned.settings().iter().map(disclosure::tell::change));
        parts.join(", ")
    });
    let kernel = kernel(run, arm).unwrap_or("not known");
    format!("{arm}: {kernel} ({source})")
}

/// The CPU of the guest or host that served.
fn cpu(run: &Run) -> Option<String> {
    let value = |key: &str| {
        let mut facts = run.facts.iter().flatten();
        facts.find_map(|facts| facts.values.get(key).cloned())
    };
    let guest = value("hardware:cpu:model").or_else(|| value(fact::CPU_MODEL));
    match (guest, value("host:hardware:cpu:model")) {
        (Some(guest), Some(host)) => Some(format!("{guest}, on {host}")),
        (guest, host) => guest.or(host),
    }
}

/// The table of an arm's metrics of outcome or of cost, with its head; empty without any.
pub(crate) fn metrics(
    run: &Run,
    judgement: &Judgement,
    headline: &Headline,
    is_cost: bool,
) -> Vec<Vec<String>> {
    let shown: Vec<&Comparison> = rows_of(judgement, headline, is_cost).collect();
    metric_table(run, judgement, headline, &shown)
}

fn metric_table(
    run: &Run,
    judgement: &Judgement,
    headline: &Headline,
    shown: &[&Comparison],
) -> Vec<Vec<String>> {
    let (arm, baseline) = (&headline.arm, &run.plan.baseline);
    let levels = words::levels(shown.iter().copied());
    let mut rows: Vec<Vec<String>> = Vec::new();
    for comparison in shown {
        let factor = unit_of(judgement, comparison).factor;
        let figure = |arm: &str| {
            let mean = mean(judgement, &headline.workload, arm, &comparison.spec.name);
            mean.map_or(NONE.into(), |mean| significant(mean * factor, 4))
        };
        let verdict = comparison.verdict.word().to_string();
        rows.push(vec![
            comparison.spec.name.clone(),
            figure(baseline),
            figure(arm),
            size(comparison),
            verdict,
        ]);
    }
    if !rows.is_empty() {
        let change = format!("change [{}]", levels.head());
        let head = ["metric", baseline, arm, &change, "verdict"];
        rows.insert(0, head.map(String::from).to_vec());
    }
    rows
}

/// The unit in which both arms' figures are shown.
pub(crate) fn unit_of(judgement: &Judgement, comparison: &Comparison) -> Unit {
    let summaries = judgement.arm_summaries.iter();
    let figures = summaries
        .filter(|summary| summary.workload == comparison.workload)
        .flat_map(|summary| &summary.figures);
    let of_metric = figures.filter(|(spec, _)| spec.name == comparison.spec.name);
    let largest = of_metric.fold(0.0_f64, |most, (_, value)| most.max(*value));
    Unit::fit(&comparison.spec.unit, largest)
}

/// Mean of an arm's metric over trials.
pub(crate) fn mean(judgement: &Judgement, workload: &str, arm: &str, metric: &str) -> Option<f64> {
    let mut arms = judgement.arm_summaries.iter();
    let summary = arms.find(|summary| summary.workload == workload && summary.arm == arm)?;
    let mut figures = summary.figures.iter();
    let (_, value) = figures.find(|(spec, _)| spec.name == metric)?;
    Some(*value)
}

fn rows_of<'j>(
    judgement: &'j Judgement,
    headline: &'j Headline,
    is_cost: bool,
) -> impl Iterator<Item = &'j Comparison> {
    judgement.comparisons.iter().filter(move |comparison| {
        comparison.workload == headline.workload
            && comparison.arm == headline.arm
            && (group(&comparison.spec) == Group::Cost) == is_cost
    })
}

/// Units and confidence levels of a table's rows: `Units: throughput in requests/s, ... 95 % confidence intervals.`
pub(crate) fn legend(judgement: &Judgement, headline: &Headline, is_cost: bool) -> Option<String> {
    let mut units: Vec<(String, Vec<&str>)> = Vec::new();
    for comparison in rows_of(judgement, headline, is_cost) {
        let unit = unit_of(judgement, comparison).name;
        let name = comparison.spec.name.as_str();
        match units.iter_mut().find(|(known, _)| *known == unit) {
            Some((_, names)) => names.push(name),
            None => units.push((unit, vec![name])),
        }
    }
    if units.is_empty() {
        return None;
    }
    let units = units.iter();
    let units = units.map(|(unit, names)| format!("{} in {unit}", names.join(", ")));
    let units: Vec<String> = units.collect();
    let all = rows_of(judgement, headline, is_cost);
    let levels = words::levels(all);
    let others = rows_of(judgement, headline, is_cost).filter_map(|comparison| {
        let level = levels.other(comparison.confidence)?;
        Some(format!(" {} has a {level} interval.", comparison.spec.name))
    });
    Some(format!(
        "Units: {}.{}",
        units.join("; "),
        others.collect::<String>()
    ))
}

/// Heading of the mechanisms.
pub(crate) fn mechanisms_title(why: &Why) -> String {
    format!(
        "{} {} by mechanism, significant ones",
        doc::html::capital(why_tell::quantity(why)),
        why_tell::per_unit(why.per)
    )
}

/// Significant mechanisms and the sum of all, with the table's head; empty if none is significant.
pub(crate) fn mechanisms(why: &Why) -> Vec<Vec<String>> {
    const SIGNIFICANT: usize = 6;
    let all = why_tell::tables::mechanism_rows(why);
    let last = all.len() - 1;
    let rows = all.into_iter().enumerate();
    let mut shown: Vec<Vec<String>> = rows
        .filter(|(place, row)| *place == 0 || *place == last || row[SIGNIFICANT] == "yes")
        .map(|(_, row)| row[..5].to_vec())
        .collect();
    if shown.len() == 2 {
        shown.clear();
    }
    shown
}

/// Commands that repeat the run and that lead on, with what each is for.
pub(crate) fn commands(
    run: &Run,
    subject: Option<&Subject<'_>>,
    is_explained: bool,
    is_bisected: bool,
) -> Vec<(String, String)> {
    let mut commands = vec![
        (
            "The plan below runs the comparison again:".to_string(),
            "bakeoff run plan.toml -o runs/again".to_string(),
        ),
        (
            "The run's directory gives the same verdict from the same records:".into(),
            "bakeoff show RUN".into(),
        ),
    ];
    let Some(subject) = subject.filter(|subject| subject.is_regression()) else {
        return commands;
    };
    if !is_explained {
        commands.push((
            "Profiles name the mechanisms:".into(),
            "bakeoff run plan.toml -o runs/why --why".into(),
        ));
    }
    if let (Change::Worse(comparison), Some(_), false) =
        (subject.change, &subject.range, is_bisected)
    {
        let kernel = |arm: &str| {
            let planned = run.plan.arms.iter().find(|planned| planned.name == arm);
            planned.and_then(|planned| match &planned.kernel {
                KernelRef::Version(version) | KernelRef::Debian { version, .. } => {
                    Some(version.clone())
                }
                _ => None,
            })
        };
        let ends = kernel(&run.plan.baseline).zip(kernel(&subject.headline.arm));
        commands.extend(ends.map(|(from, to)| {
            let metric = &comparison.spec.name;
            (
                "A bisection finds the step:".into(),
                format!("bakeoff bisect plan.toml --from {from} --to {to} --metric {metric}"),
            )
        }));
    }
    commands
}

/// Lines for regzbot: the commit, or the range of kernels; `None` if it is nothing for the regression tracker.
pub(crate) fn tracked(subject: &Subject<'_>, culprit: Option<&Culprit>) -> Option<String> {
    let Range { good, bad, .. } = subject.range.as_ref()?;
    if !subject.is_for_tracker() {
        return None;
    }
    let introduced = match culprit.map(|culprit| &culprit.step) {
        Some(Step::Commit { hash, .. }) => short(hash).to_string(),
        Some(Step::Versions { before, after }) => format!("v{before}..v{after}"),
        None => format!("{good}..{bad}"),
    };
    Some(format!("#regzbot introduced: {introduced}"))
}

/// The lists that get a copy of a regression.
pub(crate) fn copies(subject: &Subject<'_>) -> Option<&'static str> {
    let is_stable = subject.range.as_ref()?.is_stable;
    subject.is_for_tracker().then_some(if is_stable {
        "regressions@lists.linux.dev, stable@vger.kernel.org"
    } else {
        "regressions@lists.linux.dev"
    })
}

/// What the tags are for.
pub(crate) const TAGS: &str = "A commit that fixes this may carry these tags:";

/// The records that stand behind the mail.
pub(crate) fn bundle(name: &str) -> String {
    format!("All records are in {name}, SHA-256:")
}

/// The journal's hash, without a bundle.
pub(crate) const JOURNAL: &str =
    "The run's journal names every record by its hash. SHA-256 of the journal:";

/// What a card compares: `web-static: 7.2 against 6.1`.
pub(crate) fn compared(run: &Run, headline: &Headline) -> String {
    let Headline { workload, arm, .. } = headline;
    format!("{workload}: {arm} against {}", run.plan.baseline)
}

/// A change with its verdict: `p99 latency +54.0 % [+43.8, +61.3], worse`.
pub(crate) fn judged(comparison: &Comparison) -> String {
    format!("{}, {}", sized(comparison), comparison.verdict.word())
}

/// The metric that speaks against a headline: `but p50 latency -4.21 % [-5.47, -2.80], better`.
pub(crate) fn contrary(comparison: &Comparison) -> String {
    format!("but {}", judged(comparison))
}

/// The better direction of a metric.
pub(crate) fn direction(is_higher: bool) -> &'static str {
    if is_higher {
        "more is better"
    } else {
        "less is better"
    }
}

/// What intervals and figures come from: `95 % interval, 6 blocks`.
pub(crate) fn basis(judgement: &Judgement, headline: Option<&Headline>) -> String {
    let primary = headline.and_then(|headline| {
        let is_it = |comparison: &&Comparison| {
            comparison.workload == headline.workload && comparison.arm == headline.arm
        };
        judgement.primaries().find(is_it)
    });
    let Some(primary) = primary else {
        return String::new();
    };
    let blocks = words::blocks(primary.blocks);
    let basis = match primary.confidence.map(level) {
        Some(level) => format!("{level} interval, {blocks}"),
        None => format!("{blocks}, too few for an interval"),
    };
    match judgement.headlines.len() {
        0 | 1 => basis,
        all => format!("1 of {all} verdicts, {basis}"),
    }
}

/// The first caveat of a run: what its figures are, what went wrong, or a warning.
pub(crate) fn first_caveat(run: &Run, judgement: &Judgement) -> Option<String> {
    let about = subject(run, judgement);
    let mut caveats = about.as_ref().and_then(caveat).into_iter();
    caveats.next().or_else(|| {
        let mut found = findings::tell::setbacks(judgement);
        found.extend(findings::tell::warnings(judgement));
        (!found.is_empty()).then(|| found.swap_remove(0))
    })
}

/// Verdicts of a run with several: `4 verdicts against 6.1: 2 trade-off, 2 failed`.
pub(crate) fn counts(run: &Run, judgement: &Judgement) -> String {
    let mut counts: Vec<(&str, u32)> = Vec::new();
    for headline in &judgement.headlines {
        let word = headline.conclusion.word();
        match counts.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => counts.push((word, 1)),
        }
    }
    let counts = counts.iter().map(|(word, count)| format!("{count} {word}"));
    let counts: Vec<String> = counts.collect();
    let all = words::counted(judgement.headlines.len() as u32, "verdict");
    format!("{all} against {}: {}", run.plan.baseline, counts.join(", "))
}

/// The table below the answer: the outcome of one arm, or a row for each verdict.
pub(crate) fn outcome(run: &Run, judgement: &Judgement) -> Vec<Vec<String>> {
    let [only] = judgement.headlines.as_slice() else {
        return verdicts(judgement);
    };
    let all = judgement.comparisons.iter();
    let of_arm =
        all.filter(|comparison| comparison.workload == only.workload && comparison.arm == only.arm);
    let shown = of_arm.filter(|comparison| {
        let name = comparison.spec.name.as_str();
        let others = [
            "throughput",
            "latency-p99",
            "wakeup-p99",
            "server-instructions",
            "server-cpu",
            "failed",
        ];
        comparison.spec.role == Role::Primary || others.contains(&name)
    });
    let mut shown: Vec<&Comparison> = shown.collect();
    // The table stays below the answer on one screen: of two costs and two rates, the first is enough.
    for (first, second) in [
        ("server-instructions", "server-cpu"),
        ("capacity", "throughput"),
    ] {
        if shown.iter().any(|comparison| comparison.spec.name == first) {
            shown.retain(|comparison| comparison.spec.name != second);
        }
    }
    let levels = words::levels(shown.iter().copied());
    let mut rows = metric_table(run, judgement, only, &shown);
    for (row, comparison) in rows.iter_mut().skip(1).zip(shown) {
        row[0] = format!("{}, {}", row[0], unit_of(judgement, comparison).name);
        if comparison.has_interval() {
            row[3] = levels.cell(&row[3], comparison.confidence);
        }
    }
    rows
}

fn verdicts(judgement: &Judgement) -> Vec<Vec<String>> {
    let of_arm = |headline: &Headline, is_wanted: fn(&Comparison) -> bool| {
        judgement.comparisons.iter().find(|comparison| {
            comparison.workload == headline.workload
                && comparison.arm == headline.arm
                && comparison.blocks > 0
                && is_wanted(comparison)
        })
    };
    let shown: Vec<[Option<&Comparison>; 2]> = judgement
        .headlines
        .iter()
        .map(|headline| {
            [
                of_arm(headline, |comparison| comparison.spec.role == Role::Primary),
                of_arm(headline, |comparison| {
                    comparison.spec.name.ends_with("-p99")
                }),
            ]
        })
        .collect();
    let levels = [0, 1].map(|column| words::levels(shown.iter().filter_map(|row| row[column])));
    let mut rows = Vec::new();
    for (headline, comparisons) in judgement.headlines.iter().zip(&shown) {
        let cell = |column: usize| {
            comparisons[column].map_or(NONE.into(), |comparison| {
                levels[column].cell(&sized(comparison), comparison.confidence)
            })
        };
        rows.push(vec![
            headline.workload.clone(),
            headline.arm.clone(),
            headline.conclusion.word().into(),
            cell(0),
            cell(1),
        ]);
    }
    if !rows.is_empty() {
        let head = |name: &str, column: usize| format!("{name}, {}", levels[column].head());
        let head = [
            "workload".to_string(),
            "arm".into(),
            "verdict".into(),
            head("primary metric", 0),
            head("p99", 1),
        ];
        rows.insert(0, head.to_vec());
    }
    rows
}
