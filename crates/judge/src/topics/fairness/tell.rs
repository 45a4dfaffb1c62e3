//! Results of the fairness checks in words.

use std::collections::{BTreeMap, BTreeSet};

use crate::topics::fairness::UnusedAcceptance;
use crate::topics::fairness::{ALL, Check, Group};
use base::input::units::{show_bytes, show_share, significant};
use record::rundir::Run;
use record::verdict::Judgement;
use record::verdict::fairness::{
    AcceptedBy, CheckResult, Detail, Missing, Outcome, Quantity, Unpinnable,
};

use crate::topics::differences::tell as weighed;
use crate::words::{count, counted, plural};

/// Details of a check beyond this number are counted only.
const FEW: usize = 5;

/// Names in a list beyond this number are counted only.
const NAMES: usize = 12;

/// Characters of a fact's value.
const VALUE: usize = 60;

const KEPT: &str = "the plan keeps disturbed blocks and runs none of them again";

/// A check's result in words.
pub(crate) struct CheckText {
    pub(crate) id: String,
    /// `failed`, `accepted: it comes with the kernels`, ...
    pub(crate) outcome: String,
    pub(crate) must_hold: String,
    /// The first few problems.
    pub(crate) details: Vec<String>,
    /// Why it matters and how to mend it; of failed checks only.
    pub(crate) why: Option<&'static str>,
    pub(crate) mend: Option<&'static str>,
}

/// `60 fairness checks: 45 passed, 6 accepted (mitigations, sysctls), 3 unknown, 6 not applicable`.
/// `None` before anything is compared.
pub(crate) fn summary(judgement: &Judgement) -> Option<String> {
    let results = &judgement.fairness;
    if results.is_empty() || judgement.headlines.is_empty() {
        return None;
    }
    let mut parts = Vec::new();
    for (status, has_names) in [
        ("failed", true),
        ("passed", false),
        ("accepted", true),
        ("unknown", true),
        ("not applicable", false),
    ] {
        let ids: Vec<&str> = with_status(results, status)
            .map(|result| result.id.as_str())
            .collect();
        match (ids.len(), has_names) {
            (0, _) => {}
            (count, false) => parts.push(format!("{count} {status}")),
            (count, true) => parts.push(format!("{count} {status} ({})", first_few(&ids))),
        }
    }
    Some(format!(
        "{} fairness checks: {}",
        results.len(),
        parts.join(", ")
    ))
}

fn with_status<'r>(
    results: &'r [CheckResult],
    status: &'static str,
) -> impl Iterator<Item = &'r CheckResult> {
    results
        .iter()
        .filter(move |result| result.outcome.word() == status)
}

/// The first names, and the number of the others.
fn first_few(names: &[&str]) -> String {
    match names.len().saturating_sub(NAMES) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..NAMES].join(", ")),
    }
}

/// Why a headline is withheld.
pub(crate) struct Withheld {
    /// What to do about it.
    pub(crate) remedy: String,
    /// Each failed check with its first problem.
    pub(crate) found: Vec<String>,
}

/// What is not fair about a comparison, and what to do.
pub(crate) fn withheld(results: &[CheckResult], failed: &[String]) -> Withheld {
    let failed: Vec<&CheckResult> = results
        .iter()
        .filter(|result| failed.contains(&result.id))
        .collect();
    let mut remedy = String::from("bakeoff show RUN --fairness explains each failed check");
    if failed.iter().any(|result| is_pinnable(result)) {
        remedy.push_str("; bakeoff show RUN --pin prints what to pin");
    }
    remedy.push_str("; bakeoff show RUN --accept ID=REASON accepts one");
    Withheld {
        remedy,
        found: failed.into_iter().map(in_short).collect(),
    }
}

/// Whether a setting of `[pinned]` would mend a failed check.
fn is_pinnable(result: &CheckResult) -> bool {
    match &result.outcome {
        Outcome::Failed { details } => details
            .iter()
            .any(|detail| matches!(detail, Detail::Pinnable { .. })),
        Outcome::Passed
        | Outcome::NotApplicable
        | Outcome::Accepted { .. }
        | Outcome::Unknown { .. } => false,
    }
}

/// A check with its first problem: `memory: MemTotal of /proc/meminfo: 469 MiB (6.1), 1.92 GiB (7.2)`.
fn in_short(result: &CheckResult) -> String {
    let details = match &result.outcome {
        Outcome::Accepted { details, .. } | Outcome::Failed { details } => &details[..],
        Outcome::Passed | Outcome::NotApplicable | Outcome::Unknown { .. } => &[],
    };
    let Some((first, others)) = details.split_first() else {
        return result.id.clone();
    };
    let more = match others.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("{}: {}{more}", result.id, detail(first))
}

/// Accepted differences, a line each: `memory: 469 MiB (6.1), 1.92 GiB (7.2); the plan sets it`.
pub fn accepted_differences(results: &[CheckResult]) -> Vec<String> {
    let line = |result: &CheckResult| match &result.outcome {
        Outcome::Accepted { by, .. } => Some(format!("{}; {}", in_short(result), acceptance(by))),
        Outcome::Passed
        | Outcome::NotApplicable
        | Outcome::Failed { .. }
        | Outcome::Unknown { .. } => None,
    };
    results.iter().filter_map(line).collect()
}

/// Checks that failed while a run goes on, and what the user can still do. The first line has their number.
/// Before the plan's first interim analysis, after `min_blocks`, later trials may still change what trials show.
pub fn early(blocks: u32, min_blocks: u32, results: &[CheckResult]) -> Vec<String> {
    let failed: Vec<&CheckResult> = record::verdict::fairness::failed(results).collect();
    let when = match blocks {
        0 => "before the first trial".to_string(),
        blocks => format!("after block {blocks}"),
    };
    let count = counted(failed.len() as u32, "failed fairness check");
    let is_of_plan = |result: &&CheckResult| crate::topics::fairness::is_of_plan(&result.id);
    let is_final = blocks == 0 || blocks >= min_blocks || failed.iter().any(is_of_plan);
    let mut lines = vec![if is_final {
        format!("{when}: {count}: the headline will be withheld")
    } else {
        let fails = if failed.len() == 1 {
            "it still fails"
        } else {
            "they still fail"
        };
        format!(
            "{when}, so far: {count}: the headline will be withheld if {fails} after block {min_blocks}"
        )
    }];
    for result in failed {
        let mend = crate::topics::fairness::find(&result.id)
            .map_or("", |check| first_sentence(check.mend));
        lines.push(format!("    {}. {mend}", in_short(result)));
    }
    if !is_final {
        return lines;
    }
    lines.push(
        "    stop the run (Ctrl-C), correct the plan and start again with another --out; or let it end and accept \
         the difference: bakeoff show RUN --accept ID=REASON"
            .into(),
    );
    lines
}

fn first_sentence(text: &str) -> &str {
    match text.split_once(". ") {
        Some((sentence, _)) => &text[..=sentence.len()],
        None => text,
    }
}

/// Failed checks that affect a headline and that the user accepted, each with the reason.
pub(crate) fn accepted(
    checks: &[CheckResult],
    workload: &str,
    arm: &str,
    baseline: &str,
) -> Vec<String> {
    let accepted = record::verdict::fairness::accepted_by_user(checks, workload, arm, baseline);
    accepted
        .into_iter()
        .map(|(result, reason)| with_reason(result, reason))
        .collect()
}

/// Failed checks with their first problem, then those that the user accepted, with the reasons.
pub fn all_in_short(judgement: &Judgement) -> Vec<String> {
    let results = &judgement.fairness;
    let failed = record::verdict::fairness::failed(results);
    let accepted = record::verdict::fairness::all_accepted_by_user(results);
    failed
        .map(in_short)
        .chain(accepted.map(|(result, reason)| with_reason(result, reason)))
        .collect()
}

fn with_reason(result: &CheckResult, reason: &str) -> String {
    format!("{}; accepted: {reason}", in_short(result))
}

/// Acceptances without effect: of checks that do not exist, and of checks that did not fail.
pub(crate) fn unused_acceptances(run: &Run, judgement: &Judgement) -> Vec<String> {
    crate::topics::fairness::unused_acceptances(&run.accepted, &judgement.fairness)
        .iter()
        .map(unused_acceptance)
        .collect()
}

/// The check whose name is nearest to an unknown one. A common beginning counts more than the length.
pub fn nearest_check(id: &str) -> &'static str {
    let names: Vec<&'static str> = ALL.iter().map(|check| check.id).collect();
    let begins = |name: &&&'static str| id.len() >= 4 && name.starts_with(id);
    let nearest = base::input::problem::nearest(id, &names).map_or("", |(_, name)| name);
    names.iter().find(begins).copied().unwrap_or(nearest)
}

/// An acceptance without effect, in words.
pub fn unused_acceptance(acceptance: &UnusedAcceptance) -> String {
    match acceptance {
        UnusedAcceptance::NoSuchCheck { id } => format!(
            "accepted.json names an unknown check: {id:?} (remove it; the nearest is {:?}; bakeoff show --checks lists all)",
            nearest_check(id)
        ),
        UnusedAcceptance::NotFailed { id, outcome } => format!(
            "{id} was accepted without need: the check is {outcome:?} (the reason is kept, and counts if the check fails)"
        ),
    }
}

/// All results that need an explanation: failed checks first, then accepted and unknown ones.
pub(crate) fn explained(results: &[CheckResult]) -> Vec<CheckText> {
    let statuses = ["failed", "accepted", "unknown"].into_iter();
    statuses
        .flat_map(|status| with_status(results, status))
        .filter_map(|result| {
            let check = crate::topics::fairness::find(&result.id)?;
            Some(explain(result, check))
        })
        .collect()
}

/// Title of the folded checks that neither passed nor failed.
pub(crate) const OTHERS: &str = "Accepted and unknown checks, one by one";

/// Failed checks, a sentence each with the remedy.
pub fn failed_checks(results: &[CheckResult]) -> Vec<String> {
    let sentence = |check: CheckText| {
        let mend = check.mend?;
        Some(format!(
            "{}: {}. {mend}",
            check.id,
            check.details.join(", and ")
        ))
    };
    explained(results)
        .into_iter()
        .filter_map(sentence)
        .collect()
}

/// Names of passed checks, by group.
pub(crate) fn passed(results: &[CheckResult]) -> Vec<(&'static str, Vec<&'static str>)> {
    let is_passed = |check: &Check| {
        results
            .iter()
            .any(|result| result.id == check.id && result.outcome == Outcome::Passed)
    };
    let mut groups = Vec::new();
    for group in Group::ALL {
        let checks = ALL
            .iter()
            .filter(|check| check.group == group && is_passed(check));
        let ids: Vec<&str> = checks.map(|check| check.id).collect();
        if !ids.is_empty() {
            groups.push((group.title(), ids));
        }
    }
    groups
}

fn explain(result: &CheckResult, check: &'static Check) -> CheckText {
    let is_failed = matches!(result.outcome, Outcome::Failed { .. });
    let details = match &result.outcome {
        Outcome::Accepted { details, .. } | Outcome::Failed { details } => few(details),
        Outcome::Unknown { missing } => vec![format!("missing: {}", absent(missing))],
        Outcome::Passed | Outcome::NotApplicable => Vec::new(),
    };
    CheckText {
        id: result.id.clone(),
        outcome: outcome(&result.outcome),
        must_hold: check.must_hold(),
        details,
        why: is_failed.then_some(check.why),
        mend: is_failed.then_some(check.mend),
    }
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Accepted { by, .. } => format!("accepted: {}", acceptance(by)),
        other => other.word().into(),
    }
}

/// Why a difference is accepted.
fn acceptance(by: &AcceptedBy) -> &str {
    match by {
        AcceptedBy::Plan => "the plan sets it",
        AcceptedBy::Kernel => "it comes with the kernels",
        AcceptedBy::KernelOrMemory => "it comes with the kernels, or with different memory",
        AcceptedBy::AsShipped => "the plan compares products as shipped",
        AcceptedBy::NotPinnable => "no setting can make the arms equal",
        AcceptedBy::Machine => "it is the same in all arms",
        AcceptedBy::Extended => "the user added blocks",
        AcceptedBy::User(reason) => reason,
    }
}

fn absent(missing: &[Missing]) -> String {
    let name = |missing: &Missing| match missing {
        Missing::Fact { fact } => fact.clone(),
        Missing::OfArm { fact, arm } => format!("{fact} of arm {arm}"),
        Missing::File { file, trial } => format!("{file} of trial {trial}"),
        Missing::Trial => "a measured trial".into(),
        Missing::Blocks { needed } => format!("{needed} blocks"),
        Missing::Precision => "precision: the interval reaches beyond the limit".into(),
        Missing::SystemOnNetwork => "facts of a system on the network".into(),
    };
    let names: Vec<String> = missing.iter().map(name).collect();
    first_few(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

fn few(details: &[Detail]) -> Vec<String> {
    let mut lines: Vec<String> = details.iter().take(FEW).map(detail).collect();
    if let Some(more) = details.len().checked_sub(FEW).filter(|more| *more > 0) {
        lines.push(format!("and {more} more"));
    }
    lines
}

/// One problem that a check found.
pub(crate) fn detail(detail: &Detail) -> String {
    match detail {
        Detail::Differs { fact, values } => format!("{}: {}", name_of(fact), by_value(values)),
        Detail::Varies { fact, arm, values } => {
            format!("{}: {} ({arm})", name_of(fact), weighed::seen(values))
        }
        Detail::Pinnable { fact, values, pin } => format!(
            "{}: {}; can be pinned: {}",
            name_of(fact),
            by_value(values),
            weighed::pin(pin)
        ),
        Detail::NotPinnable { class, facts, why } => format!(
            "{}: {}, {}",
            weighed::name(*class),
            counted(*facts, "difference"),
            unpinnable(*why)
        ),
        Detail::Beyond {
            workload,
            arm,
            quantity,
            value,
            limit,
        } => {
            let place = match (workload.as_str(), arm.as_str()) {
                ("", "") => String::new(),
                (workload, "") => format!("{workload}: "),
                (workload, arm) => format!("{workload}, arm {arm}: "),
            };
            format!("{place}{}", beyond(*quantity, *value, *limit))
        }
        Detail::OneSided {
            tuned,
            untuned,
            settings,
        } => format!(
            "{} in {}, none in {}",
            settings
                .and_then(|kind| kind.traits().tunes)
                .unwrap_or("settings"),
            tuned.join(", "),
            untuned.join(", ")
        ),
        Detail::Tuned { arm, by, reason } => format!("{arm}: tuned by {by}: {reason}"),
        Detail::Limited {
            workload,
            arm,
            limit,
        } => format!("{workload}, arm {arm}: {}", limit.word()),
        Detail::AddressShare {
            workload,
            arm,
            address,
            share,
            limit,
        } => format!(
            "{workload}, arm {arm}: {address} answered {} of an even share (at least {})",
            show_share(*share, 2),
            show_share(*limit, 2)
        ),
        Detail::Arm { workload, arm } if workload.is_empty() => format!("arm {arm}"),
        Detail::Arm { workload, arm } => format!("{workload}, arm {arm}"),
        Detail::Unfelt {
            workload,
            disturbance,
            felt,
            unfelt,
        } => one_sided_disturbance(workload, disturbance, [felt, unfelt]),
        Detail::DisturbedBlocksKept => KEPT.into(),
        Detail::Workload { workload } if workload.is_empty() => "the whole run".into(),
        Detail::Workload { workload } => format!("workload {workload}"),
    }
}

fn one_sided_disturbance(workload: &str, disturbance: &str, arms: [&[String]; 2]) -> String {
    let [felt, unfelt] = arms.map(|names| names.join(", "));
    format!("{workload}: {disturbance} took effect in {felt}, not in {unfelt}")
}

fn unpinnable(why: Unpinnable) -> &'static str {
    match why {
        Unpinnable::Built => "set by the kernels' build",
        Unpinnable::Missing => "not in all kernels",
        Unpinnable::Fixed => "no setting of a plan",
    }
}

/// The readable name of a fact: `MemTotal of /proc/meminfo`, `limit of open files of nginx`.
fn name_of(fact: &str) -> String {
    let parts: Vec<&str> = fact.splitn(4, ':').collect();
    match parts[..] {
        ["limit", server, limit] => format!("limit of {limit} of {server}"),
        ["hash", "configuration", server, file] => format!("{file} of {server} (SHA-256)"),
        ["hash", "server", server] => format!("program of {server} (SHA-256)"),
        ["workers", server] => format!("workers of {server}"),
        ["java", setting] => format!("{} of Java", setting.replace('-', " ")),
        ["version", server] => format!("version of {server}"),
        [file, name] if file.starts_with("/proc/") => format!("{name} of {file}"),
        _ => fact.into(),
    }
}

/// The value of each arm. Long values are reduced to what differs.
fn by_value(values: &BTreeMap<String, Option<String>>) -> String {
    let all: Vec<&str> = values.values().flatten().map(String::as_str).collect();
    let is_common = |line: &&str| {
        all.iter()
            .all(|value| value.lines().any(|other| other == *line))
    };
    let first_line = |value: &Option<String>| {
        let value = value.as_deref()?;
        let differing = value.lines().find(|line| !is_common(line));
        Some(readable(differing.or(value.lines().next()).unwrap_or("")))
    };
    let lines: Vec<_> = values
        .iter()
        .map(|(arm, value)| (arm, first_line(value)))
        .collect();
    let is_long = |line: &Option<String>| {
        line.as_ref()
            .is_some_and(|line| line.chars().count() > VALUE)
    };
    let common = if lines.iter().any(|(_, line)| is_long(line)) {
        common_words(lines.iter().filter_map(|(_, line)| line.as_deref()))
    } else {
        BTreeSet::new()
    };
    let shown = lines.iter().map(|(arm, line)| {
        let value = line
            .as_deref()
            .map_or("absent".into(), |line| without_common(line, &common));
        format!("{value} ({arm})")
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// A readable value: sizes with a unit, only the first digits of hashes.
fn readable(value: &str) -> String {
    if let Some(kilobytes) = value
        .strip_suffix(" kB")
        .and_then(|text| text.parse::<u64>().ok())
    {
        return show_bytes(kilobytes * 1024);
    }
    let is_hash = value.len() == 64 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    match value {
        hash if is_hash => format!("{}...", &hash[..12]),
        "" => "empty".into(),
        "notsupported" => "not supported".into(),
        "notimplemented" => "not implemented".into(),
        other => other.into(),
    }
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split([' ', ',']).filter(|word| !word.is_empty())
}

/// Words that all lines have.
fn common_words<'l>(mut lines: impl Iterator<Item = &'l str>) -> BTreeSet<&'l str> {
    let first: BTreeSet<&str> = lines.next().into_iter().flat_map(words).collect();
    lines.fold(first, |common, line| {
        let others: BTreeSet<&str> = words(line).collect();
        common.intersection(&others).copied().collect()
    })
}

/// A line without the words that all lines have, cut to a readable length.
fn without_common(line: &str, common: &BTreeSet<&str>) -> String {
    if common.is_empty() {
        return cut(line);
    }
    let rest: Vec<&str> = words(line).filter(|word| !common.contains(word)).collect();
    match rest[..] {
        [] => "nothing more".into(),
        _ => cut(&format!("... {}", rest.join(" "))),
    }
}

fn cut(line: &str) -> String {
    let text: String = line.chars().take(VALUE).collect();
    let cut = if text.len() < line.len() { "..." } else { "" };
    format!("{text}{cut}")
}

/// How a number is limited, in words.
enum Bound {
    AtMost,
    AtLeast,
    /// Only zero passes.
    None,
    /// The other arm's number.
    Other,
}

pub(crate) fn beyond(quantity: Quantity, value: f64, limit: f64) -> String {
    let (noun, rest, bound) = noun(quantity);
    // A value beyond the limit must not be printed like the limit.
    let is_distinct = |digits: &u8| {
        value.to_bits() == limit.to_bits()
            || shown(quantity, value, *digits) != shown(quantity, limit, *digits)
    };
    let digits = (3..9).find(is_distinct).unwrap_or(9);
    let (value, limit) = (
        shown(quantity, value, digits),
        shown(quantity, limit, digits),
    );
    let noun = match noun {
        "" => rest.to_string(),
        noun => format!("{}{rest}", plural(noun, value == "1")),
    };
    match bound {
        Bound::AtMost => format!("{value} {noun} (at most {limit})"),
        Bound::AtLeast => format!("{value} {noun} (at least {limit})"),
        Bound::None => format!("{value} {noun}"),
        Bound::Other => format!("{value} {noun}, {limit} in the other arm"),
    }
}

/// Whole numbers in full, others with as many digits as the limit needs.
fn shown(quantity: Quantity, value: f64, digits: u8) -> String {
    if quantity == Quantity::Swap {
        return show_bytes(value as u64);
    }
    if is_share(quantity) {
        return show_share(value, digits);
    }
    if value.fract() == 0.0 && (0.0..1e15).contains(&value) {
        return count(value as u64);
    }
    let text = significant(value, digits);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').into()
    } else {
        text
    }
}

fn is_share(quantity: Quantity) -> bool {
    matches!(
        quantity,
        Quantity::IdleCpu
            | Quantity::ClientsIdleCpu
            | Quantity::DiskWait
            | Quantity::FailedRequests
            | Quantity::Steal
            | Quantity::Sampling
            | Quantity::ErrorRate
    )
}

/// What is counted, in the singular; the words after it; and its limit.
fn noun(quantity: Quantity) -> (&'static str, &'static str, Bound) {
    match quantity {
        Quantity::OpenFiles => ("open file", " for each connection", Bound::AtLeast),
        Quantity::Backlog => (
            "place",
            " in the listen queue for each connection",
            Bound::AtLeast,
        ),
        Quantity::IdleCpu => ("", "of CPU time idle", Bound::AtMost),
        Quantity::ClientsIdleCpu => ("", "of the clients' CPU time idle", Bound::AtLeast),
        Quantity::LostByClients => ("request", " lost by the clients", Bound::None),
        Quantity::Swap => ("", "of swap in use", Bound::None),
        Quantity::DiskWait => ("", "of CPU time waiting for the disk", Bound::AtMost),
        Quantity::FailedRequests => ("", "of requests failed", Bound::AtMost),
        Quantity::UnsentRequests => ("request", " not sent", Bound::None),
        Quantity::Drift => (
            "",
            "times the initial rate at the window's end",
            Bound::None,
        ),
        Quantity::BacklogGrowth => ("", "more requests under way each second", Bound::None),
        Quantity::Steal => ("", "of CPU time stolen", Bound::AtMost),
        Quantity::Sampling => ("", "of CPU time spent on sampling", Bound::AtMost),
        Quantity::Outliers => ("outlier", "", Bound::Other),
        Quantity::FailedAttempts => ("failed attempt", "", Bound::Other),
        Quantity::DisturbedBlocks => ("block", " run again", Bound::AtMost),
        Quantity::FirstInBlock => ("block", " in which it ran first", Bound::AtMost),
        Quantity::HostTime => (
            "",
            "times as long for the same work on the host as beside the other arm",
            Bound::AtMost,
        ),
        Quantity::Evidence => ("", "as e-value of the machine's A/A runs", Bound::AtMost),
        Quantity::ErrorRate => ("", "probability of a wrong verdict", Bound::AtMost),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn differs(fact: &str, values: &[(&str, &str)]) -> Detail {
        let values = values.iter();
        Detail::Differs {
            fact: fact.into(),
            values: values
                .map(|(arm, value)| ((*arm).into(), Some((*value).into())))
                .collect(),
        }
    }

    fn check(problem: &Detail, want: &Expect) {
        want.assert_eq(&detail(problem));
    }

    #[test]
    fn a_problem_that_later_trials_may_change_is_reported_so_far() {
        let failed = |id: &str| CheckResult {
            id: id.into(),
            outcome: Outcome::Failed {
                details: Vec::new(),
            },
        };
        let first = |blocks, ids: &[&str]| {
            let found: Vec<CheckResult> = ids.iter().map(|id| failed(id)).collect();
            let lines = early(blocks, 4, &found);
            let is_last = lines
                .last()
                .is_some_and(|line| line.contains("stop the run"));
            (lines[0].clone(), is_last)
        };
        let so_far = "after block 1, so far: 1 failed fairness check: the headline will be withheld if it still fails after block 4";
        assert_eq!(first(1, &["host-speed"]), (so_far.into(), false));
        let last = "after block 4: 1 failed fairness check: the headline will be withheld";
        assert_eq!(first(4, &["host-speed"]), (last.into(), true));
        // No trial changes what the plan shows.
        let plan = "after block 1: 2 failed fairness checks: the headline will be withheld";
        let found = first(1, &["host-speed", "one-sided-tuning"]);
        assert_eq!(found, (plan.into(), true));
    }

    #[test]
    fn only_the_differing_part_of_a_value_is_printed() {
        check(
            &differs(
                "/proc/meminfo:MemTotal",
                &[("6.1", "480416 kB"), ("7.2", "2015600 kB")],
            ),
            &expect!["MemTotal of /proc/meminfo: 469 MiB (6.1), 1.92 GiB (7.2)"],
        );
        let long = "console=ttyS0 panic=-1 loglevel=6 no_timer_check nokaslr norandmaps";
        check(
            &differs(
                "/proc/cmdline",
                &[("6.1", &format!("{long} mem=480M")), ("7.2", long)],
            ),
            &expect!["/proc/cmdline: ... mem=480M (6.1), nothing more (7.2)"],
        );
        check(
            &differs(
                "limit:nginx:open files",
                &[("6.1", "24"), ("7.2", "1048576")],
            ),
            &expect!["limit of open files of nginx: 24 (6.1), 1048576 (7.2)"],
        );
        check(
            &differs(
                "/proc/mounts",
                &[("6.1", "a /\nb /b rw"), ("7.2", "a /\nb /b ro")],
            ),
            &expect!["/proc/mounts: b /b rw (6.1), b /b ro (7.2)"],
        );
        let hashes = ["a".repeat(64), "b".repeat(64)];
        check(
            &differs(
                "hash:configuration:nginx:nginx.conf",
                &[("6.1", &hashes[0]), ("7.2", &hashes[1])],
            ),
            &expect!["nginx.conf of nginx (SHA-256): aaaaaaaaaaaa... (6.1), bbbbbbbbbbbb... (7.2)"],
        );
        check(
            &differs(
                "/sys/devices/system/cpu/smt/control",
                &[("6.1", "notsupported"), ("7.2", "notimplemented")],
            ),
            &expect![
                "/sys/devices/system/cpu/smt/control: not supported (6.1), not implemented (7.2)"
            ],
        );
    }

    #[test]
    fn a_number_has_few_digits_and_its_noun_a_plural_where_it_needs_one() {
        let text = |quantity, value| beyond(quantity, value, 2.0);
        assert_eq!(
            text(Quantity::OpenFiles, 0.5),
            "0.5 open files for each connection (at least 2)"
        );
        assert_eq!(
            text(Quantity::OpenFiles, 1.0),
            "1 open file for each connection (at least 2)"
        );
        assert_eq!(
            text(Quantity::OpenFiles, 0.333_333),
            "0.333 open files for each connection (at least 2)"
        );
        assert_eq!(
            beyond(Quantity::IdleCpu, 0.100_04, 0.1),
            "10.004 % of CPU time idle (at most 10 %)"
        );
        assert_eq!(
            text(Quantity::Outliers, 1.0),
            "1 outlier, 2 in the other arm"
        );
        assert_eq!(
            text(Quantity::HostTime, 2.0),
            "2 times as long for the same work on the host as beside the other arm (at most 2)"
        );
        assert_eq!(
            text(Quantity::UnsentRequests, 12_345.0),
            "12\u{a0}345 requests not sent"
        );
    }
}
