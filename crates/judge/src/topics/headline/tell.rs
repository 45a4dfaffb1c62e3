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

use crate::words::{
    NONE, blocks, counted, interval, is_multiple, margin, metric_name, signed_percent, times, unit,
};

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
    let robustness = crate::topics::robustness::document::line(judgement, workload, arm);
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
        Conclusion::Withheld { failed_checks } => {
            let withheld =
                crate::topics::fairness::tell::withheld(&judgement.fairness, failed_checks);
            findings = withheld.found;
            let text = format!(
                "{} against {}: the comparison is not fair: {}",
                headline.arm,
                run.plan.baseline,
                failed_checks.join(", ")
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
        crate::topics::limits::tell::beside_verdict(judgement, headline),
    );
    let primary = primary_of(judgement, headline);
    let shared = primary.map(|primary| {
        let throughput = shared_cpu(judgement, primary);
        throughput
            .into_iter()
            .chain(context_switches(run, judgement, primary))
    });
    block.remark(RemarkKind::Limit, shared.into_iter().flatten());
    Some(block)
}

/// The sentence of a verdict that rests on figures.
fn measured(run: &Run, judgement: &Judgement, headline: &Conclude, primary: &Comparison) -> String {
    let by_load = crate::topics::robustness::tell::against_by_load(
        judgement,
        &headline.workload,
        &headline.arm,
        primary.verdict,
        headline.conclusion.curves(),
    );
    let mut against = against(judgement, headline);
    let tail = tail(run, judgement, headline, primary);
    against.splice(
        0..0,
        tail.filter(|tail| {
            !against
                .iter()
                .any(|named| named.spec.name == tail.spec.name)
        }),
    );
    sentence(run, primary, &against, &by_load)
}

/// The comparison that a headline is about first.
fn primary_of<'j>(judgement: &'j Judgement, headline: &Conclude) -> Option<&'j Comparison> {
    judgement
        .primaries()
        .find(|primary| primary.workload == headline.workload && primary.arm == headline.arm)
}

/// A p99 with a verdict, or longer in every block: users feel the tail first.
fn tail<'j>(
    run: &Run,
    judgement: &'j Judgement,
    headline: &Conclude,
    primary: &Comparison,
) -> Option<&'j Comparison> {
    judgement.comparisons.iter().find(|comparison| {
        (&comparison.workload, &comparison.arm) == (&headline.workload, &headline.arm)
            && comparison.spec.name == "latency-p99"
            && (matches!(comparison.verdict, Verdict::Better | Verdict::Worse)
                || comparison.is_loss_in_every_block(run.plan.design.margin))
            && primary.spec.name != comparison.spec.name
    })
}

/// The secondary metrics that speak against it, the largest change first.
pub(crate) fn against<'j>(judgement: &'j Judgement, headline: &Conclude) -> Vec<&'j Comparison> {
    let named = |name: &String| {
        judgement.comparisons.iter().find(|comparison| {
            (&comparison.workload, &comparison.arm, &comparison.spec.name)
                == (&headline.workload, &headline.arm, name)
        })
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

/// A verdict in a sentence, with what speaks against it: `7.2 against 6.1, web-static (emulated, counted instructions): +7.30 %
/// requests/s [+7.07 %, +7.53 %] (95 % interval), better; p99 latency 3.6x [3.5x, 3.8x] (95 % interval), worse; 4 blocks`.
fn sentence(
    run: &Run,
    primary: &Comparison,
    against: &[&Comparison],
    by_load: &[String],
) -> String {
    let is_alone = against.is_empty() && by_load.is_empty();
    let with_verdict =
        |comparison: &Comparison| format!("{}, {}", figure(comparison), comparison.verdict.word());
    let mut parts = vec![match primary.verdict {
        Verdict::Better | Verdict::Worse if is_alone => figure(primary),
        Verdict::Better | Verdict::Worse => with_verdict(primary),
        Verdict::Equivalent => {
            let margin = margin(run.plan.design.margin);
            with_interval(
                format!("{} equal to within {margin} %", subject(primary)),
                primary,
            )
        }
        Verdict::Undecided => with_interval(format!("{} undecided", subject(primary)), primary),
    }];
    parts.extend(against.iter().take(NAMED).map(|other| with_verdict(other)));
    parts.extend(by_load.iter().cloned());
    if against.len() > NAMED {
        let more = counted((against.len() - NAMED) as u32, "more metric");
        let last = against[against.len() - 1].verdict.word();
        parts.push(format!("{more} {last}"));
    }
    if primary.blocks > 0 {
        parts.push(blocks(primary.blocks));
    }
    let workload = match run.plan.workloads.len() {
        1 => format!(", {}", primary.workload),
        _ => String::new(),
    };
    format!(
        "{} against {}{workload} ({}): {}",
        primary.arm,
        run.plan.baseline,
        crate::topics::host::tell::kind(&run.opening.machine),
        parts.join("; ")
    )
}

/// What throughput says beside a capacity, where the two have another sign or one is not half of the other.
fn shared_cpu(judgement: &Judgement, primary: &Comparison) -> Option<String> {
    let is_throughput = |other: &&Comparison| {
        other.workload == primary.workload
            && other.arm == primary.arm
            && other.spec.name == "throughput"
    };
    let throughput = judgement.comparisons.iter().find(is_throughput)?;
    let [capacity, shared] = [primary.ratio?.ln(), throughput.ratio?.ln()];
    let is_near = capacity * shared > 0.0 && (0.5..=2.0).contains(&(shared / capacity));
    let is_capacity = primary.spec.name == CAPACITY && primary.verdict != Verdict::Undecided;
    (is_capacity && !is_near).then(|| {
        format!(
            "throughput changes by {}, mostly because of how clients and server share the CPU",
            with_interval(short_change(throughput), throughput)
        )
    })
}

/// Arms differ by this factor at least in context switches per request, and by this number.
const SWITCH_FACTOR: f64 = 1.5;
const SWITCHES: f64 = 0.5;

/// Context switches per request, where a capacity depends on them: clients in the guest share the server's CPU.
fn context_switches(run: &Run, judgement: &Judgement, primary: &Comparison) -> Option<String> {
    let per_request = |arm: &String| {
        let mut summaries = judgement.arm_summaries.iter();
        let summary = summaries
            .find(|summary| (&summary.workload, &summary.arm) == (&primary.workload, arm))?;
        let served_per_s = summary.clients.as_ref()?.served_per_s;
        let usage = summary.usage.as_ref()?;
        (served_per_s > 0.0).then_some(usage.context_switches_per_s / served_per_s)
    };
    let baseline = per_request(&run.plan.baseline)?;
    let arm = per_request(&primary.arm)?;
    let (fewer, more) = (baseline.min(arm), baseline.max(arm));
    let is_large = more >= SWITCH_FACTOR * fewer && more - fewer >= SWITCHES;
    (primary.spec.name == CAPACITY && is_large).then(|| {
        format!(
            "context switches per request: {} {}, {} {}; clients share the server's CPU here, so the difference may be another with \
             clients elsewhere",
            run.plan.baseline,
            significant(baseline, 2),
            primary.arm,
            significant(arm, 2)
        )
    })
}

/// `+7.30 % requests/s [...] (95 % interval)`, `p99 latency 3.6x [...] (95 % interval)`.
fn figure(comparison: &Comparison) -> String {
    let (change, subject) = (short_change(comparison), subject(comparison));
    let text = if subject == comparison.spec.unit {
        format!("{change} {subject}")
    } else {
        format!("{subject} {change}")
    };
    with_interval(text, comparison)
}

/// The unit of a rate; the name of another metric, `p99 latency` or `server-cpu`.
fn subject(comparison: &Comparison) -> String {
    let name = &comparison.spec.name;
    if comparison.spec.unit.ends_with("/s") && name != CAPACITY {
        return comparison.spec.unit.clone();
    }
    metric_name(name)
}

fn short_change(comparison: &Comparison) -> String {
    match (comparison.ratio, comparison.difference) {
        (Some(ratio), _) if is_multiple(ratio) => times(ratio),
        (Some(ratio), _) => short_percent(ratio),
        (None, Some(shift)) => {
            let sign = if shift.typical > 0.0 { "+" } else { "" };
            let unit = unit(&comparison.spec.unit);
            format!("{sign}{} {unit}", significant(shift.typical, 3))
        }
        (None, None) => comparison.verdict.word().into(),
    }
}

fn short_percent(ratio: f64) -> String {
    format!("{} %", signed_percent(ratio))
}

/// Adds the interval, in the unit of the change, with its level. Below a level there are too few blocks for an interval: then the
/// lowest and the highest block.
fn with_interval(text: String, comparison: &Comparison) -> String {
    let shown = if comparison.ratio.is_some_and(is_multiple) {
        times
    } else {
        short_percent
    };
    let range = match (comparison.low.zip(comparison.high), comparison.range) {
        (Some((low, high)), _) => format!("[{}, {}]", shown(low), shown(high)),
        (None, Some((low, high))) if comparison.difference.is_none() && comparison.blocks > 1 => {
            format!("({}, {})", shown(low), shown(high))
        }
        (None, _) => interval(comparison),
    };
    match range {
        none if none == NONE => text,
        range if !comparison.has_interval() => {
            let range = range.trim_end_matches(')');
            format!("{text} {range}: lowest and highest block)")
        }
        interval => format!("{text} {}", in_words(&interval, comparison.confidence)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::judged;
    use record::fixtures::web;

    /// The sentence of the played run's primary metric, changed.
    fn text(change: impl FnOnce(&mut Comparison), against: &[(&str, Option<f64>)]) -> String {
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
        let others: Vec<&Comparison> = others.iter().collect();
        let sentence = sentence(&run, &primary, &others, &[]);
        let head = "7.2 against 6.1, web-static (emulated, counted instructions): ";
        sentence.strip_prefix(head).expect(&sentence).into()
    }

    fn with(verdict: Verdict, ratio: Option<f64>) -> impl FnOnce(&mut Comparison) {
        move |comparison| {
            (comparison.verdict, comparison.ratio) = (verdict, ratio);
            let near = |shift: f64| ratio.map(|ratio| ratio + shift);
            (comparison.low, comparison.high) = (near(-0.002), near(0.002));
        }
    }

    #[test]
    fn a_figure_has_three_digits_and_the_unit_of_its_interval() {
        let check = |ratio, want: &str| {
            let text = text(with(Verdict::Better, Some(ratio)), &[]);
            assert_eq!(text, format!("{want} (97.5 % interval); 9 blocks"));
        };
        check(55.3266, "55x requests/s [55x, 55x]");
        check(1.9996, "+100 % requests/s [+99.8 %, +100 %]");
        check(1.0734, "+7.34 % requests/s [+7.14 %, +7.54 %]");
        check(0.5, "-50.0 % requests/s [-50.2 %, -49.8 %]");
    }

    #[test]
    fn each_verdict_has_its_sentence() {
        let check = |verdict, ratio, want: &str| assert_eq!(text(with(verdict, ratio), &[]), want);
        check(
            Verdict::Worse,
            Some(0.93),
            "-7.00 % requests/s [-7.20 %, -6.80 %] (97.5 % interval); 9 blocks",
        );
        check(
            Verdict::Equivalent,
            Some(1.0),
            "requests/s equal to within 1.0 % [-0.20 %, +0.20 %] (97.5 % interval); 9 blocks",
        );
    }

    #[test]
    fn a_sentence_has_what_speaks_against_the_verdict() {
        let p99 = ("latency-p99", Some(3.6));
        assert_eq!(
            text(with(Verdict::Better, Some(1.15)), &[p99]),
            "+15.0 % requests/s [+14.8 %, +15.2 %] (97.5 % interval), better; p99 latency 3.6x [3.5x, 3.7x] \
             (97.5 % interval), worse; 9 blocks"
        );
        assert_eq!(
            text(
                with(Verdict::Equivalent, Some(1.0)),
                &[("server-cpu", Some(1.3))]
            ),
            "requests/s equal to within 1.0 % [-0.20 %, +0.20 %] (97.5 % interval); server-cpu +30.0 % [+20.0 %, +40.0 %] \
             (97.5 % interval), worse; 9 blocks"
        );
        let four = [
            p99,
            ("latency-p50", Some(1.5)),
            ("a", None),
            ("b", Some(0.5)),
        ];
        let text = text(with(Verdict::Better, Some(1.15)), &four);
        let end = "p50 latency +50.0 % [+40.0 %, +60.0 %] (97.5 % interval), worse; 2 more metrics worse; 9 blocks";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn without_an_interval_the_lowest_and_the_highest_block_are_shown() {
        let few = |comparison: &mut Comparison| {
            with(Verdict::Undecided, None)(comparison);
            (comparison.ratio, comparison.range, comparison.blocks) =
                (Some(1.07), Some((1.05, 1.09)), 3);
        };
        assert_eq!(
            text(few, &[]),
            "requests/s undecided (+5.00 %, +9.00 %: lowest and highest block); 3 blocks"
        );
        let alone = |comparison: &mut Comparison| {
            few(comparison);
            comparison.blocks = 1;
        };
        assert_eq!(text(alone, &[]), "requests/s undecided; 1 block");
    }

    #[test]
    fn a_capacity_has_the_context_switches_that_it_depends_on() {
        let (run, judgement) = judged(web::two_kernels());
        let switches = |metric: &str, per_s: [f64; 2]| {
            let mut judgement = judgement.clone();
            for (summary, per_s) in judgement.arm_summaries.iter_mut().zip(per_s) {
                let usage = summary.usage.as_mut().unwrap();
                usage.context_switches_per_s = per_s;
                summary.clients.as_mut().unwrap().served_per_s = 1000.0;
            }
            let mut primary = judgement.comparisons[0].clone();
            primary.spec.name = metric.into();
            context_switches(&run, &judgement, &primary)
        };
        let want = "context switches per request: 6.1 4.9, 7.2 1.7; clients share the server's CPU here, so the difference may be another \
                    with clients elsewhere";
        assert_eq!(switches(CAPACITY, [4900.0, 1700.0]).as_deref(), Some(want));
        assert_eq!(switches(CAPACITY, [4900.0, 4000.0]), None);
        assert_eq!(switches(CAPACITY, [0.3, 0.1]), None);
        assert_eq!(switches("throughput", [4900.0, 1700.0]), None);
    }

    #[test]
    fn a_failed_arm_has_its_count_and_its_reason() {
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
