//! What the checks of the fairness gate found, in words.

use std::collections::BTreeMap;

use ::fairness::{ALL, Check, Group};
use input::units::{show_bytes, show_share};
use record::verdict::Judgement;
use record::verdict::fairness::{
    Declaration, Detail, Finding, Missing, Outcome, Quantity, Unpinnable,
};

use super::{counted, figure, weighed};

/// Of many details only so many are told.
const FEW: usize = 5;

/// Of many names only so many are told.
const NAMES: usize = 12;

/// Characters of a fact's value.
const VALUE: usize = 60;

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

/// `56 fairness checks: 41 passed, 6 declared (mitigations, sysctls), 3 not known, 6 not applicable`.
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

/// What is not fair about a comparison, and what to do.
pub(crate) fn withheld(findings: &[Finding], violations: &[String]) -> String {
    let told = told(findings).into_iter();
    let of_these = told.filter(|one| violations.contains(&one.id));
    let details: Vec<String> = of_these.flat_map(|one| one.details).collect();
    let first: Vec<&str> = details.iter().take(FEW).map(String::as_str).collect();
    format!(
        "{} (bakeoff fairness RUN tells more; with --accept ID=REASON it is declared)",
        first.join("; ")
    )
}

/// All findings that are told at length, violations first, then those that are declared and those that are not known.
pub(crate) fn told(findings: &[Finding]) -> Vec<Told> {
    let of = |word: &'static str| {
        findings
            .iter()
            .filter(move |one| one.outcome.word() == word)
    };
    let all = of("violation").chain(of("declared")).chain(of("not known"));
    all.filter_map(|finding| Some(tell(finding, ::fairness::find(&finding.id)?)))
        .collect()
}

/// Violations, a sentence each.
pub(crate) fn violations(findings: &[Finding]) -> Vec<String> {
    let violated = told(findings).into_iter().filter(|one| one.mend.is_some());
    let sentence = |one: Told| {
        let mend = one.mend.unwrap_or_default();
        format!(
            "{}: {} (to mend it: {mend})",
            one.id,
            one.details.join("; ")
        )
    };
    violated.map(sentence).collect()
}

/// Names of checks that found nothing amiss, by group.
pub(crate) fn passed(findings: &[Finding]) -> Vec<(&'static str, Vec<&'static str>)> {
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

fn tell(finding: &Finding, check: &'static Check) -> Told {
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
            Declaration::AsShipped => "declared: products are compared as shipped".into(),
            Declaration::NotPinnable => "declared: what can be pinned is, this cannot".into(),
            Declaration::Machine => "declared: all arms alike".into(),
            Declaration::Accepted(reason) => format!("accepted: {reason}"),
        },
        other => other.word().into(),
    }
}

fn absent(missing: &[Missing]) -> String {
    let name = |one: &Missing| match one {
        Missing::Fact { fact } => fact.clone(),
        Missing::File { file, trial } => format!("{file} of trial {trial}"),
        Missing::Trial => "a trial that was measured".into(),
        Missing::Blocks { needed } => format!("{needed} blocks"),
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
        Detail::Differs { fact, values } => format!("{fact}: {}", by_value(values)),
        Detail::Pinnable { fact, values, pin } => format!(
            "{fact}: {}; can be pinned: {}",
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
        Detail::OneSided { tuned, untuned } => format!(
            "settings of its own: {}; none: {}",
            tuned.join(", "),
            untuned.join(", ")
        ),
        Detail::Tuned { arm, by, reason } => format!("{arm}: tuned by {by}: {reason}"),
        Detail::Limited {
            workload,
            arm,
            limit,
        } => format!("{workload}, arm {arm}: {}", limit.word()),
        Detail::Arm { workload, arm } => format!("{workload}, arm {arm}"),
        Detail::Workload { workload } if workload.is_empty() => "the whole run".into(),
        Detail::Workload { workload } => format!("workload {workload}"),
    }
}

fn unpinnable(why: Unpinnable) -> &'static str {
    match why {
        Unpinnable::Built => "decided when the kernels were built",
        Unpinnable::Missing => "not in all kernels",
        Unpinnable::Fixed => "nothing that a plan can set",
    }
}

/// Each value with the arms that have it.
fn by_value(values: &BTreeMap<String, Option<String>>) -> String {
    let shown = values.iter().map(|(arm, value)| {
        let value = value
            .as_deref()
            .map_or("absent", |value| value.lines().next().unwrap_or(""));
        let text: String = value.chars().take(VALUE).collect();
        let cut = if text.len() < value.len() { "..." } else { "" };
        format!("{text}{cut} ({arm})")
    });
    shown.collect::<Vec<_>>().join(", ")
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

fn beyond(quantity: Quantity, value: f64, limit: f64) -> String {
    let (noun, bound) = noun(quantity);
    let shown = |value: f64| match quantity {
        Quantity::Swap => show_bytes(value as u64),
        _ if is_share(quantity) => show_share(value, 3),
        _ => figure(value),
    };
    let (value, limit) = (shown(value), shown(limit));
    match bound {
        Bound::AtMost => format!("{value} {noun} (at most {limit})"),
        Bound::AtLeast => format!("{value} {noun} (at least {limit})"),
        Bound::None => format!("{value} {noun}"),
        Bound::Other => format!("{value} {noun}, {limit} of the other arm"),
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

fn noun(quantity: Quantity) -> (&'static str, Bound) {
    match quantity {
        Quantity::OpenFiles => ("open files for each connection", Bound::AtLeast),
        Quantity::Backlog => ("places in the queue of each connection", Bound::AtLeast),
        Quantity::IdleCpu => ("of CPU time idle", Bound::AtMost),
        Quantity::ClientsIdleCpu => ("of the clients' CPU time idle", Bound::AtLeast),
        Quantity::LostByClients => ("requests lost by the clients", Bound::None),
        Quantity::Swap => ("of swap in use", Bound::None),
        Quantity::DiskWait => ("of CPU time waiting for the disk", Bound::AtMost),
        Quantity::FailedRequests => ("of requests failed", Bound::AtMost),
        Quantity::UnsentRequests => ("requests not sent", Bound::None),
        Quantity::Drift => (
            "times the rate at the window's end, against its beginning",
            Bound::None,
        ),
        Quantity::BacklogGrowth => ("more requests under way with each second", Bound::None),
        Quantity::Steal => ("of CPU time stolen", Bound::AtMost),
        Quantity::Sampling => ("of CPU time spent on sampling", Bound::AtMost),
        Quantity::Outliers => ("outliers", Bound::Other),
        Quantity::FailedAttempts => ("attempts failed", Bound::Other),
        Quantity::DisturbedBlocks => ("blocks run again", Bound::AtMost),
        Quantity::FirstInBlock => ("blocks in which it ran first", Bound::AtMost),
        Quantity::HostTime => (
            "times as long for work of the host beside one arm as beside the other",
            Bound::AtMost,
        ),
        Quantity::Evidence => (
            "as evidence of its A/A runs against the machine",
            Bound::AtMost,
        ),
        Quantity::ErrorRate => ("probability of a wrong verdict", Bound::AtMost),
    }
}
