//! Headlines in words.

use base::input::units::significant;
use doc::RemarkKind;
use record::instructions::CAPACITY;
use record::rundir::Run;
use record::trial::VoidReason;
use record::verdict::why::Why;
use record::verdict::{
    Comparison, Conclusion, FailedArm, Headline as Conclude, Judgement, Verdict,
};

use crate::words::levels::in_words;

use crate::words::{NONE, blocks, change, count, counted, interval, margin, unit};

/// A headline in words; its scope is the workload where the plan has several.
pub(crate) fn headline(
    run: &Run,
    judgement: &Judgement,
    whys: &[Why],
    conclude: &Conclude,
) -> Option<doc::Headline> {
    let mut block = verdict_on(run, judgement, conclude)?;
    let (workload, arm) = (&conclude.workload, &conclude.arm);
    block.scope = (run.plan.workloads.len() > 1).then(|| workload.clone());
    let robustness = crate::topics::robustness::document::line(judgement, (workload, arm));
    block.remark(RemarkKind::Robustness, robustness);
    let is_wanted = |why: &&Why| (&why.workload, &why.arm) == (workload, arm);
    block.remark(
        RemarkKind::Cause,
        whys.iter()
            .find(is_wanted)
            .map(crate::topics::why::tell::sentence),
    );
    Some(block)
}

fn verdict_on(run: &Run, judgement: &Judgement, headline: &Conclude) -> Option<doc::Headline> {
    let mut findings = Vec::new();
    let (text, reason, is_open) = match &headline.conclusion {
        Conclusion::Withheld { violations } => {
            let withheld = crate::topics::fairness::tell::withheld(&judgement.fairness, violations);
            findings = withheld.found;
            let text = format!(
                "{} against {}: the comparison is not fair: {}",
                headline.arm,
                run.plan.baseline,
                violations.join(", ")
            );
            (text, withheld.remedy, true)
        }
        Conclusion::Failed(failed) => (
            format!("{} {}", headline.arm, failure(failed)),
            failed.last.clone(),
            true,
        ),
        conclusion => {
            let primary = primary_of(judgement, headline)?;
            let is_open = matches!(
                conclusion,
                Conclusion::Undecided { .. } | Conclusion::ModelDependent { .. }
            );
            let soak = crate::topics::soak::tell::headline(judgement, headline, &run.plan.baseline)
                .filter(|_| is_open);
            let text = soak.unwrap_or_else(|| measured(run, judgement, headline, primary));
            let reason = match (conclusion, &headline.by_price) {
                (Conclusion::ModelDependent { .. }, Some(by_price)) => {
                    crate::topics::robustness::tell::at_prices(by_price)
                }
                (_, _) => crate::topics::metrics::tell::reason(primary),
            };
            (text, reason, is_open)
        }
    };
    let mut block = doc::Headline {
        scope: None,
        badge: headline.conclusion.word(),
        text,
        is_open,
        findings,
        reason,
        remarks: Vec::new(),
    };
    block.remark(
        RemarkKind::Defects,
        crate::topics::defects::tell::under_headline(run, judgement, headline),
    );
    block.remark(
        RemarkKind::Accepted,
        crate::topics::fairness::tell::accepted(
            &judgement.fairness,
            &headline.workload,
            &headline.arm,
            &run.plan.baseline,
        ),
    );
    block.remark(
        RemarkKind::Limit,
        crate::topics::limits::tell::said_first(judgement, headline),
    );
    Some(block)
}

/// The sentence of a verdict that rests on figures.
fn measured(run: &Run, judgement: &Judgement, headline: &Conclude, primary: &Comparison) -> String {
    let pair = (&*headline.workload, &*headline.arm);
    let curves = headline.conclusion.curves();
    let by_load =
        crate::topics::robustness::tell::against_by_load(judgement, pair, primary.verdict, curves);
    let against = against(judgement, headline);
    sentence(
        run,
        primary,
        &against,
        &by_load,
        shared_cpu(judgement, primary),
    )
}

/// The comparison that a headline is about first.
fn primary_of<'j>(judgement: &'j Judgement, headline: &Conclude) -> Option<&'j Comparison> {
    let its = |one: &&Comparison| one.workload == headline.workload && one.arm == headline.arm;
    judgement.primaries().find(its)
}

/// The secondary metrics that speak against it, the largest change first.
pub(crate) fn against<'j>(judgement: &'j Judgement, headline: &Conclude) -> Vec<&'j Comparison> {
    let named = |name: &String| {
        let its = |one: &&Comparison| {
            (&one.workload, &one.arm, &one.spec.name) == (&headline.workload, &headline.arm, name)
        };
        judgement.comparisons.iter().find(its)
    };
    headline
        .conclusion
        .against()
        .iter()
        .filter_map(named)
        .collect()
}

/// `failed: 3 of 3 trials (6 attempts), kernel panic`.
fn failure(failed: &FailedArm) -> String {
    let FailedArm {
        trials,
        attempts,
        skipped,
        reasons,
        ..
    } = failed;
    let tried = format!("failed: {trials} of {}", counted(*trials, "trial"));
    let again = if attempts > trials {
        format!(" ({attempts} attempts)")
    } else {
        String::new()
    };
    let reason = |(reason, count): (&VoidReason, &u32)| match reasons.len() {
        1 => reason.words().to_string(),
        _ => format!("{} {count}", reason.words()),
    };
    let mut parts = vec![tried + &again];
    parts.extend(reasons.iter().map(reason));
    if *skipped > 0 {
        parts.push(format!("{} not tried any more", counted(*skipped, "trial")));
    }
    parts.join(", ")
}

/// Secondary metrics that a headline names; the others are counted.
const NAMED: usize = 2;

/// A verdict in a sentence, with what speaks against it: `7.2 serves 7.30 % more requests/s than 6.1 [+7.07 %,
/// +7.53 %], but its p99 latency is 3.6 times as long [+246 %, +275 %], 4 blocks`.
fn sentence(
    run: &Run,
    comparison: &Comparison,
    against: &[&Comparison],
    by_load: &[String],
    beside: Option<String>,
) -> String {
    let (arm, baseline) = (&comparison.arm, &run.plan.baseline);
    let what = subject(comparison);
    let said = match comparison.verdict {
        Verdict::Better | Verdict::Worse => difference(run, comparison),
        Verdict::Equivalent => format!(
            "{arm} and {baseline} are equivalent in {what}, to within {} %",
            margin(run.plan.design.margin)
        ),
        Verdict::Undecided => format!("{arm} against {baseline} is undecided in {what}"),
    };
    let mut parts = vec![with_interval(said, comparison)];
    // "Its" is the arm's only where the arm is what the sentence is about.
    let whose = match comparison.verdict {
        Verdict::Equivalent | Verdict::Undecided => format!("{arm}'s"),
        Verdict::Better | Verdict::Worse => "its".into(),
    };
    let named = against.iter().take(NAMED);
    let named = named.map(|one| with_interval(format!("{whose} {}", contrary(one)), one));
    let named: Vec<String> = named.chain(by_load.iter().cloned()).collect();
    if !named.is_empty() {
        parts.push(format!("but {}", named.join(" and ")));
    }
    if against.len() > NAMED {
        let more = counted((against.len() - NAMED) as u32, "more metric");
        parts.push(format!("and {more} {}", against[0].verdict.word()));
    }
    if comparison.blocks > 0 {
        parts.push(blocks(comparison.blocks));
    }
    parts.extend(beside);
    parts.join(", ")
}

/// What throughput says beside a capacity, where the two have another sign or one is not half of the other.
fn shared_cpu(judgement: &Judgement, primary: &Comparison) -> Option<String> {
    let is_it = |one: &&Comparison| {
        one.workload == primary.workload && one.arm == primary.arm && one.spec.name == "throughput"
    };
    let throughput = judgement.comparisons.iter().find(is_it)?;
    let [capacity, shared] = [primary.ratio?.ln(), throughput.ratio?.ln()];
    let is_near = capacity * shared > 0.0 && (0.5..=2.0).contains(&(shared / capacity));
    let is_capacity = primary.spec.name == CAPACITY && primary.verdict != Verdict::Undecided;
    (is_capacity && !is_near).then(|| {
        format!(
            "while throughput changes by {} mostly by how clients and server share the CPU",
            with_interval(change(throughput.ratio), throughput)
        )
    })
}

/// The range of single blocks is no interval, and has no level.
fn with_interval(said: String, comparison: &Comparison) -> String {
    match interval(comparison) {
        none if none == NONE => said,
        range if !comparison.has_interval() => {
            format!(
                "{said} {}: lowest and highest block)",
                range.trim_end_matches(')')
            )
        }
        interval => format!("{said} {}", in_words(&interval, comparison.confidence)),
    }
}

/// `p99 latency is 3.6 times as long`, `server-cpu is 8.00 % higher`.
fn contrary(comparison: &Comparison) -> String {
    let name = &comparison.spec.name;
    let (name, is_time) = match record::metric::latency(name) {
        Some(latency) => (latency, true),
        None => (name.clone(), false),
    };
    let [more, less, times] = if is_time {
        ["longer", "shorter", "as long"]
    } else {
        ["higher", "lower", "as high"]
    };
    match (comparison.ratio, comparison.difference) {
        (Some(ratio), _) if ratio >= 2.0 => {
            format!("{name} is {} times {times}", significant(ratio, 2))
        }
        (Some(ratio), _) => {
            let way = if ratio > 1.0 { more } else { less };
            format!("{name} is {:.2} % {way}", ((ratio - 1.0) * 100.0).abs())
        }
        (None, Some(shift)) => {
            let way = if shift.typical > 0.0 { more } else { less };
            let by = significant(shift.typical.abs(), 2);
            format!("{name} is {way} by {by} {}", unit(&comparison.spec.unit))
        }
        (None, None) => format!("{name} is {}", comparison.verdict.word()),
    }
}

/// What is compared: its unit where that says it all, its name otherwise.
fn subject(comparison: &Comparison) -> &str {
    if is_rate(comparison) && comparison.spec.name != CAPACITY {
        &comparison.spec.unit
    } else {
        &comparison.spec.name
    }
}

fn is_rate(comparison: &Comparison) -> bool {
    comparison.spec.unit.ends_with("/s")
}

fn difference(run: &Run, comparison: &Comparison) -> String {
    let change = match (comparison.ratio, comparison.difference) {
        (Some(ratio), _) => (ratio - 1.0) * 100.0,
        (None, Some(shift)) => shift.typical,
        (None, None) => 0.0,
    };
    let by = match (comparison.ratio, comparison.difference) {
        (None, Some(shift)) => significant(shift.typical.abs(), 3),
        // As in tables: hundredths of thousands are no digits.
        _ if change >= 100.0 => format!("{} %", count(change.round() as u64)),
        _ => format!("{:.2} %", change.abs()),
    };
    let verb = match (is_rate(comparison), comparison.spec.name.as_str()) {
        (true, CAPACITY) => "can serve",
        (true, _) => "serves",
        (false, _) => "has",
    };
    let way = match (is_rate(comparison), change > 0.0) {
        (true, true) => "more",
        (true, false) => "fewer",
        (false, true) => "higher",
        (false, false) => "lower",
    };
    let what = if is_rate(comparison) {
        &comparison.spec.unit
    } else {
        &comparison.spec.name
    };
    format!(
        "{} {verb} {by} {way} {what} than {}",
        comparison.arm, run.plan.baseline
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::judged;
    use record::fixtures::web;

    /// The sentence of the played run's primary metric, changed.
    fn said(change: impl FnOnce(&mut Comparison), against: &[(&str, Option<f64>)]) -> String {
        let (run, judgement) = judged(web::two_kernels());
        let mut primary = judgement.comparisons[0].clone();
        change(&mut primary);
        let other = |(name, ratio): &(&str, Option<f64>)| {
            let mut other = judgement.comparisons[1].clone();
            (other.spec.name, other.ratio, other.verdict) =
                ((*name).into(), *ratio, Verdict::Worse);
            (other.low, other.high) = (ratio.map(|r| r - 0.1), ratio.map(|r| r + 0.1));
            other
        };
        let others: Vec<Comparison> = against.iter().map(other).collect();
        sentence(
            &run,
            &primary,
            &others.iter().collect::<Vec<_>>(),
            &[],
            None,
        )
    }

    fn with(verdict: Verdict, ratio: Option<f64>) -> impl FnOnce(&mut Comparison) {
        move |one| {
            (one.verdict, one.ratio) = (verdict, ratio);
            (one.low, one.high) = (ratio.map(|r| r - 0.002), ratio.map(|r| r + 0.002));
        }
    }

    #[test]
    fn a_large_change_has_no_hundredths_in_its_sentence() {
        let text = said(with(Verdict::Better, Some(55.3266)), &[]);
        assert!(text.contains("5\u{a0}433 % more"), "{text}");
    }

    #[test]
    fn each_verdict_has_its_sentence() {
        let check = |verdict, ratio, want: &str| assert_eq!(said(with(verdict, ratio), &[]), want);
        check(
            Verdict::Better,
            Some(1.073),
            "7.2 serves 7.30 % more requests/s than 6.1 [+7.10 %, +7.50 %] (97.5 % interval), 9 blocks",
        );
        check(
            Verdict::Worse,
            Some(0.93),
            "7.2 serves 7.00 % fewer requests/s than 6.1 [-7.20 %, -6.80 %] (97.5 % interval), 9 blocks",
        );
        check(
            Verdict::Equivalent,
            Some(1.0),
            "7.2 and 6.1 are equivalent in requests/s, to within 1.0 % [-0.20 %, +0.20 %] \
             (97.5 % interval), 9 blocks",
        );
    }

    #[test]
    fn what_speaks_against_a_verdict_stands_in_its_sentence() {
        let p99 = ("latency-p99", Some(3.6));
        assert_eq!(
            said(with(Verdict::Better, Some(1.15)), &[p99]),
            "7.2 serves 15.00 % more requests/s than 6.1 [+14.80 %, +15.20 %] (97.5 % interval), but its p99 latency is 3.6 times as long \
             [+250 %, +270 %] (97.5 % interval), 9 blocks"
        );
        assert_eq!(
            said(
                with(Verdict::Equivalent, Some(1.0)),
                &[("server-cpu", Some(1.3))]
            ),
            "7.2 and 6.1 are equivalent in requests/s, to within 1.0 % [-0.20 %, +0.20 %] (97.5 % interval), but 7.2's server-cpu is \
             30.00 % higher [+20.00 %, +40.00 %] (97.5 % interval), 9 blocks"
        );
        let four = [
            p99,
            ("latency-p50", Some(1.5)),
            ("a", None),
            ("b", Some(0.5)),
        ];
        assert!(
            said(with(Verdict::Better, Some(1.15)), &four)
                .ends_with("and its p50 latency is 50.00 % longer [+40.00 %, +60.00 %] (97.5 % interval), and 2 more metrics worse, 9 blocks")
        );
    }

    #[test]
    fn without_an_interval_the_lowest_and_the_highest_block_are_shown() {
        let few = |one: &mut Comparison| {
            with(Verdict::Undecided, None)(one);
            (one.ratio, one.range, one.blocks) = (Some(1.07), Some((1.05, 1.09)), 3);
        };
        assert_eq!(
            said(few, &[]),
            "7.2 against 6.1 is undecided in requests/s (+5.00 %, +9.00 %: lowest and highest block), 3 blocks"
        );
        let alone = |one: &mut Comparison| {
            few(one);
            one.blocks = 1;
        };
        assert_eq!(
            said(alone, &[]),
            "7.2 against 6.1 is undecided in requests/s, 1 block"
        );
    }

    #[test]
    fn an_arm_that_failed_is_told_with_its_count_and_its_reason() {
        let mut failed = FailedArm {
            trials: 3,
            attempts: 6,
            skipped: 0,
            reasons: [(VoidReason::Panic, 6)].into(),
            last: "VFS".into(),
        };
        assert_eq!(
            failure(&failed),
            "failed: 3 of 3 trials (6 attempts), kernel panic"
        );
        failed.reasons = [(VoidReason::Panic, 4), (VoidReason::Silent, 2)].into();
        failed.skipped = 5;
        assert_eq!(
            failure(&failed),
            "failed: 3 of 3 trials (6 attempts), silent guest 2, kernel panic 4, 5 trials not tried any more"
        );
    }
}
