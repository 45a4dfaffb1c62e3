//! What the checks of the fairness gate found, in words.

use std::collections::{BTreeMap, BTreeSet};

use crate::topics::fairness::Vain;
use crate::topics::fairness::{ALL, Check, Group};
use base::input::units::{show_bytes, show_share, significant};
use record::rundir::Run;
use record::verdict::Judgement;
use record::verdict::fairness::{
    CheckResult, Declaration, Detail, Missing, Outcome, Quantity, Unpinnable,
};

use crate::topics::differences::tell as weighed;
use crate::words::{count, counted, plural};

/// Of many details only so many are told.
const FEW: usize = 5;

/// Of many names only so many are told.
const NAMES: usize = 12;

/// Characters of a fact's value.
const VALUE: usize = 60;

const KEPT: &str = "the plan keeps blocks that something outside disturbed, and runs none again";

/// One finding in words.
pub(crate) struct Told {
    pub(crate) id: String,
    /// `violation`, `declared by the kernels`, ...
    pub(crate) outcome: String,
    pub(crate) question: &'static str,
    /// What was found, the first few.
    pub(crate) details: Vec<String>,
    /// Why it matters and how to mend it; of violations only.
    pub(crate) why: Option<&'static str>,
    pub(crate) mend: Option<&'static str>,
}

/// `60 fairness checks: 45 passed, 6 declared (mitigations, sysctls), 3 not known, 6 not applicable`.
/// Nothing before anything is compared.
pub(crate) fn summary(judgement: &Judgement) -> Option<String> {
    let findings = &judgement.fairness;
    if findings.is_empty() || judgement.headlines.is_empty() {
        return None;
    }
    let named = |word: &'static str| {
        let its = findings
            .iter()
            .filter(move |one| one.outcome.word() == word);
        its.map(|one| one.id.as_str()).collect::<Vec<_>>()
    };
    let mut parts = Vec::new();
    for (word, said, is_named) in [
        ("violation", "violated", true),
        ("pass", "passed", false),
        ("declared", "declared", true),
        ("not known", "not known", true),
        ("not applicable", "not applicable", false),
    ] {
        let ids = named(word);
        match (ids.len(), is_named) {
            (0, _) => {}
            (count, false) => parts.push(format!("{count} {said}")),
            (count, true) => parts.push(format!("{count} {said} ({})", first_few(&ids))),
        }
    }
    Some(format!(
        "{} fairness checks: {}",
        findings.len(),
        parts.join(", ")
    ))
}

/// Of many names only the first, and how many more there are.
fn first_few(ids: &[&str]) -> String {
    match ids.len().saturating_sub(NAMES) {
        0 => ids.join(", "),
        more => format!("{} and {more} more", ids[..NAMES].join(", ")),
    }
}

/// Why a headline is withheld.
pub(crate) struct Withheld {
    /// What to do about it.
    pub(crate) remedy: String,
    /// Each check that is violated, with what it found first.
    pub(crate) found: Vec<String>,
}

/// What is not fair about a comparison, and what to do.
pub(crate) fn withheld(findings: &[CheckResult], violations: &[String]) -> Withheld {
    let of_these: Vec<&CheckResult> = findings
        .iter()
        .filter(|one| violations.contains(&one.id))
        .collect();
    let mut remedy = String::from("bakeoff show RUN --fairness tells how to mend each");
    if of_these.iter().any(|one| is_pinnable(one)) {
        remedy.push_str("; bakeoff show RUN --pin prints what to pin");
    }
    remedy.push_str("; bakeoff show RUN --accept ID=REASON declares one");
    Withheld {
        remedy,
        found: of_these.into_iter().map(in_short).collect(),
    }
}

/// Whether a setting of `[pinned]` would mend a violation.
fn is_pinnable(finding: &CheckResult) -> bool {
    match &finding.outcome {
        Outcome::Violation { details } => details
            .iter()
            .any(|one| matches!(one, Detail::Pinnable { .. })),
        Outcome::Pass
        | Outcome::NotApplicable
        | Outcome::Declared { .. }
        | Outcome::NotKnown { .. } => false,
    }
}

/// A violation with the first that it found: `memory: MemTotal of /proc/meminfo: 469 MiB (6.1), 1.92 GiB (7.2)`.
fn in_short(finding: &CheckResult) -> String {
    let details = match &finding.outcome {
        Outcome::Declared { details, .. } | Outcome::Violation { details } => &details[..],
        Outcome::Pass | Outcome::NotApplicable | Outcome::NotKnown { .. } => &[],
    };
    let Some((first, others)) = details.split_first() else {
        return finding.id.clone();
    };
    let more = match others.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("{}: {}{more}", finding.id, detail(first))
}

/// What is declared or violated, a line each: `memory: 469 MiB (6.1), 1.92 GiB (7.2)`.
pub fn declared(findings: &[CheckResult]) -> Vec<String> {
    let is_declared = |one: &&CheckResult| matches!(one.outcome, Outcome::Declared { .. });
    let said = |one: &CheckResult| format!("{}: {}", in_short(one), outcome(&one.outcome));
    findings.iter().filter(is_declared).map(said).collect()
}

/// Violations that were found while a run goes on, and what can still be done: the first line tells how many there are.
/// Before the plan's first look, after `min_blocks`, what trials show may go away again.
pub fn early(blocks: u32, min_blocks: u32, findings: &[CheckResult]) -> Vec<String> {
    let violated: Vec<&CheckResult> = record::verdict::fairness::violations(findings).collect();
    let when = match blocks {
        0 => "before the first trial".to_string(),
        blocks => format!("after block {blocks}"),
    };
    let count = counted(violated.len() as u32, "violation");
    let is_of_plan = |one: &&CheckResult| crate::topics::fairness::is_of_plan(&one.id);
    let is_final = blocks == 0 || blocks >= min_blocks || violated.iter().any(is_of_plan);
    let mut lines = vec![if is_final {
        format!("{when}: {count} of fairness: the headline will be withheld")
    } else {
        format!(
            "{when}, so far: {count} of fairness: the headline will be withheld if it is still there after block {min_blocks}"
        )
    }];
    for one in violated {
        let mend =
            crate::topics::fairness::find(&one.id).map_or("", |check| first_clause(check.mend));
        lines.push(format!("    {}; to mend it: {mend}", in_short(one)));
    }
    if !is_final {
        return lines;
    }
    lines.push(
        "    interrupt it (Ctrl-C), mend the plan and begin again with another --out; or let it go on, and say why it is fair \
         all the same: --accept ID=REASON"
            .into(),
    );
    lines
}

/// The first of several remedies.
fn first_clause(mend: &str) -> &str {
    mend.split("; ").next().unwrap_or(mend)
}

/// Violations that bear on a headline and that the user has accepted, each with his reason.
pub(crate) fn accepted(
    checks: &[CheckResult],
    workload: &str,
    arm: &str,
    baseline: &str,
) -> Vec<String> {
    let accepted = record::verdict::fairness::accepted(checks, workload, arm, baseline);
    accepted.into_iter().map(with_reason).collect()
}

/// Violations with what they found first, then those that were accepted with their reasons.
pub fn all_in_short(judgement: &Judgement) -> Vec<String> {
    let findings = &judgement.fairness;
    let violated = record::verdict::fairness::violations(findings);
    let accepted = record::verdict::fairness::all_accepted(findings);
    violated
        .map(in_short)
        .chain(accepted.map(with_reason))
        .collect()
}

fn with_reason((one, reason): (&CheckResult, &str)) -> String {
    format!("{}; accepted: {reason}", in_short(one))
}

/// What was accepted in vain: checks that there are not, and checks that are not violated.
pub(crate) fn in_vain(run: &Run, judgement: &Judgement) -> Vec<String> {
    crate::topics::fairness::in_vain(&run.accepted, &judgement.fairness)
        .iter()
        .map(vain)
        .collect()
}

/// The check whose name is nearest to one that there is not. What begins alike is nearer than what is as long.
pub fn nearest_check(id: &str) -> &'static str {
    let names: Vec<&'static str> = ALL.iter().map(|check| check.id).collect();
    let begins = |name: &&&'static str| id.len() >= 4 && name.starts_with(id);
    let nearest = base::input::problem::nearest(id, &names).map_or("", |(_, name)| name);
    names.iter().find(begins).copied().unwrap_or(nearest)
}

/// One of them in words.
pub fn vain(one: &Vain) -> String {
    match one {
        Vain::Unknown { id } => format!(
            "accepted.json names a check that there is not: {id:?} (take it out; the nearest is {:?}, bakeoff show --checks names all)",
            nearest_check(id)
        ),
        Vain::NotViolated { id, outcome } => format!(
            "{id} was accepted without need: its outcome is {outcome:?} (the reason is kept, and counts if it is violated)"
        ),
    }
}

/// All findings that are told at length, violations first, then those that are declared and those that are not known.
pub(crate) fn told(findings: &[CheckResult]) -> Vec<Told> {
    let of = |word: &'static str| {
        findings
            .iter()
            .filter(move |one| one.outcome.word() == word)
    };
    let all = of("violation").chain(of("declared")).chain(of("not known"));
    all.filter_map(|finding| Some(tell(finding, crate::topics::fairness::find(&finding.id)?)))
        .collect()
}

/// Summary of the checks that neither passed nor found a violation.
pub(crate) const OTHERS: &str = "Declared and unknown checks, one by one";

/// Violations, a sentence each.
pub fn violations(findings: &[CheckResult]) -> Vec<String> {
    let violated = told(findings).into_iter().filter(|one| one.mend.is_some());
    let sentence = |one: Told| {
        let mend = one.mend.unwrap_or_default();
        format!(
            "{}: {} (to mend it: {mend})",
            one.id,
            one.details.join(", and ")
        )
    };
    violated.map(sentence).collect()
}

/// Names of checks that found nothing amiss, by group.
pub(crate) fn passed(findings: &[CheckResult]) -> Vec<(&'static str, Vec<&'static str>)> {
    let is_passed = |check: &Check| {
        let mut its = findings.iter();
        its.any(|one| one.id == check.id && one.outcome == Outcome::Pass)
    };
    let of_group = |group: Group| {
        let its = ALL
            .iter()
            .filter(|check| check.group == group && is_passed(check));
        (group.title(), its.map(|check| check.id).collect())
    };
    let groups = Group::ALL.into_iter().map(of_group);
    groups
        .filter(|(_, ids): &(_, Vec<_>)| !ids.is_empty())
        .collect()
}

fn tell(finding: &CheckResult, check: &'static Check) -> Told {
    let is_violation = matches!(finding.outcome, Outcome::Violation { .. });
    let details = match &finding.outcome {
        Outcome::Declared { details, .. } | Outcome::Violation { details } => few(details),
        Outcome::NotKnown { missing } => vec![format!("missing: {}", absent(missing))],
        Outcome::Pass | Outcome::NotApplicable => Vec::new(),
    };
    Told {
        id: finding.id.clone(),
        outcome: outcome(&finding.outcome),
        question: check.question,
        details,
        why: is_violation.then_some(check.why),
        mend: is_violation.then_some(check.mend),
    }
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Declared { by, .. } => match by {
            Declaration::Plan => "declared by the plan".into(),
            Declaration::Kernel => "declared: it comes with the kernels".into(),
            Declaration::KernelOrMemory => {
                "declared: it comes with the kernels, or with the memory that differs".into()
            }
            Declaration::AsShipped => "declared: products are compared as shipped".into(),
            Declaration::NotPinnable => "declared: what can be pinned is, this cannot".into(),
            Declaration::Machine => "declared: all arms alike".into(),
            Declaration::Extended => "declared: the run was given more blocks".into(),
            Declaration::Accepted(reason) => format!("accepted: {reason}"),
        },
        other => other.word().into(),
    }
}

fn absent(missing: &[Missing]) -> String {
    let name = |one: &Missing| match one {
        Missing::Fact { fact } => fact.clone(),
        Missing::OfArm { fact, arm } => format!("{fact} of arm {arm}"),
        Missing::File { file, trial } => format!("{file} of trial {trial}"),
        Missing::Trial => "a trial that was measured".into(),
        Missing::Blocks { needed } => format!("{needed} blocks"),
        Missing::Precision => "precision: the interval reaches past what passes".into(),
        Missing::SystemOnNetwork => "what a system on the network does not tell".into(),
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

/// One thing that is amiss.
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
            "{} of its own for {}, none for {}",
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
    format!("{workload}: {disturbance} was felt in {felt}, not in {unfelt}")
}

fn unpinnable(why: Unpinnable) -> &'static str {
    match why {
        Unpinnable::Built => "decided when the kernels were built",
        Unpinnable::Missing => "not in all kernels",
        Unpinnable::Fixed => "nothing that a plan can set",
    }
}

/// A fact as a sentence names it: `MemTotal of /proc/meminfo`, `limit of open files of nginx`.
fn name_of(fact: &str) -> String {
    let parts: Vec<&str> = fact.splitn(4, ':').collect();
    match parts[..] {
        ["limit", server, limit] => format!("limit of {limit} of {server}"),
        ["hash", "configuration", server, file] => format!("{file} of {server} (SHA-256)"),
        ["hash", "server", server] => format!("program of {server} (SHA-256)"),
        ["workers", server] => format!("workers of {server}"),
        ["version", server] => format!("version of {server}"),
        [file, name] if file.starts_with("/proc/") => format!("{name} of {file}"),
        _ => fact.into(),
    }
}

/// Each value with the arms that have it. Of long ones only what differs is told.
fn by_value(values: &BTreeMap<String, Option<String>>) -> String {
    let all: Vec<&str> = values.values().flatten().map(String::as_str).collect();
    let is_common = |line: &&str| {
        all.iter()
            .all(|value| value.lines().any(|own| own == *line))
    };
    let first_line = |value: &Option<String>| {
        let value = value.as_deref()?;
        let own = value.lines().find(|line| !is_common(line));
        Some(readable(own.or(value.lines().next()).unwrap_or("")))
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
            .map_or("absent".into(), |line| own_words(line, &common));
        format!("{value} ({arm})")
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// A value as people write it: sizes in their unit, hashes by their first digits.
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
        let own: BTreeSet<&str> = words(line).collect();
        common.intersection(&own).copied().collect()
    })
}

/// A line without the words that all lines have, and no more of it than can be read.
fn own_words(line: &str, common: &BTreeSet<&str>) -> String {
    if common.is_empty() {
        return cut(line);
    }
    let own: Vec<&str> = words(line).filter(|word| !common.contains(word)).collect();
    match own[..] {
        [] => "nothing more".into(),
        _ => cut(&format!("... {}", own.join(" "))),
    }
}

fn cut(line: &str) -> String {
    let text: String = line.chars().take(VALUE).collect();
    let cut = if text.len() < line.len() { "..." } else { "" };
    format!("{text}{cut}")
}

/// How a number is bounded, in words.
enum Bound {
    AtMost,
    AtLeast,
    /// None at all is right.
    None,
    /// The other arm's number.
    Other,
}

pub(crate) fn beyond(quantity: Quantity, value: f64, limit: f64) -> String {
    let (noun, rest, bound) = noun(quantity);
    // What is beyond a limit must not look like it.
    let is_told = |digits: &u8| {
        value.to_bits() == limit.to_bits()
            || shown(quantity, value, *digits) != shown(quantity, limit, *digits)
    };
    let digits = (3..9).find(is_told).unwrap_or(9);
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
        Bound::Other => format!("{value} {noun}, {limit} of the other arm"),
    }
}

/// Whole numbers whole, others with the digits that bear on a limit.
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

/// What is counted, without its plural, what follows it, and how it is bounded.
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
            "times the rate at the window's end, against its beginning",
            Bound::None,
        ),
        Quantity::BacklogGrowth => ("", "more requests under way with each second", Bound::None),
        Quantity::Steal => ("", "of CPU time stolen", Bound::AtMost),
        Quantity::Sampling => ("", "of CPU time spent on sampling", Bound::AtMost),
        Quantity::Outliers => ("outlier", "", Bound::Other),
        Quantity::FailedAttempts => ("failed attempt", "", Bound::Other),
        Quantity::DisturbedBlocks => ("block", " run again", Bound::AtMost),
        Quantity::FirstInBlock => ("block", " in which it ran first", Bound::AtMost),
        Quantity::HostTime => (
            "",
            "times as long for work of the host beside one arm as beside the other",
            Bound::AtMost,
        ),
        Quantity::Evidence => (
            "",
            "as evidence of its A/A runs against the machine",
            Bound::AtMost,
        ),
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

    fn said(one: &Detail, want: &Expect) {
        want.assert_eq(&detail(one));
    }

    #[test]
    fn what_later_trials_can_set_right_is_told_so_far() {
        let violation = |id: &str| CheckResult {
            id: id.into(),
            outcome: Outcome::Violation {
                details: Vec::new(),
            },
        };
        let first = |blocks, ids: &[&str]| {
            let found: Vec<CheckResult> = ids.iter().map(|id| violation(id)).collect();
            let lines = early(blocks, 4, &found);
            let is_last = lines
                .last()
                .is_some_and(|line| line.contains("interrupt it"));
            (lines[0].clone(), is_last)
        };
        let so_far = "after block 1, so far: 1 violation of fairness: the headline will be withheld if it is still there after block 4";
        assert_eq!(first(1, &["host-speed"]), (so_far.into(), false));
        let last = "after block 4: 1 violation of fairness: the headline will be withheld";
        assert_eq!(first(4, &["host-speed"]), (last.into(), true));
        // No trial changes what the plan says.
        let plan = "after block 1: 2 violations of fairness: the headline will be withheld";
        let found = first(1, &["host-speed", "one-sided-tuning"]);
        assert_eq!(found, (plan.into(), true));
    }

    #[test]
    fn a_value_is_told_by_what_differs() {
        said(
            &differs(
                "/proc/meminfo:MemTotal",
                &[("6.1", "480416 kB"), ("7.2", "2015600 kB")],
            ),
            &expect!["MemTotal of /proc/meminfo: 469 MiB (6.1), 1.92 GiB (7.2)"],
        );
        let long = "console=ttyS0 panic=-1 loglevel=6 no_timer_check nokaslr norandmaps";
        said(
            &differs(
                "/proc/cmdline",
                &[("6.1", &format!("{long} mem=480M")), ("7.2", long)],
            ),
            &expect!["/proc/cmdline: ... mem=480M (6.1), nothing more (7.2)"],
        );
        said(
            &differs(
                "limit:nginx:open files",
                &[("6.1", "24"), ("7.2", "1048576")],
            ),
            &expect!["limit of open files of nginx: 24 (6.1), 1048576 (7.2)"],
        );
        said(
            &differs(
                "/proc/mounts",
                &[("6.1", "a /\nb /b rw"), ("7.2", "a /\nb /b ro")],
            ),
            &expect!["/proc/mounts: b /b rw (6.1), b /b ro (7.2)"],
        );
        let hashes = ["a".repeat(64), "b".repeat(64)];
        said(
            &differs(
                "hash:configuration:nginx:nginx.conf",
                &[("6.1", &hashes[0]), ("7.2", &hashes[1])],
            ),
            &expect!["nginx.conf of nginx (SHA-256): aaaaaaaaaaaa... (6.1), bbbbbbbbbbbb... (7.2)"],
        );
        said(
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
        let told = |quantity, value| beyond(quantity, value, 2.0);
        assert_eq!(
            told(Quantity::OpenFiles, 0.5),
            "0.5 open files for each connection (at least 2)"
        );
        assert_eq!(
            told(Quantity::OpenFiles, 1.0),
            "1 open file for each connection (at least 2)"
        );
        assert_eq!(
            told(Quantity::OpenFiles, 0.333_333),
            "0.333 open files for each connection (at least 2)"
        );
        assert_eq!(
            beyond(Quantity::IdleCpu, 0.100_04, 0.1),
            "10.004 % of CPU time idle (at most 10 %)"
        );
        assert_eq!(
            told(Quantity::Outliers, 1.0),
            "1 outlier, 2 of the other arm"
        );
        assert_eq!(
            told(Quantity::HostTime, 2.0),
            "2 times as long for work of the host beside one arm as beside the other (at most 2)"
        );
        assert_eq!(
            told(Quantity::UnsentRequests, 12_345.0),
            "12\u{a0}345 requests not sent"
        );
    }
}
