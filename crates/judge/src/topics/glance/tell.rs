//! Captions, the caveat, and the next steps, in words.

use base::input::units::significant;
use record::rundir::Run;
use record::verdict::why::Why;
use record::verdict::{Comparison, Conclusion, Judgement, Verdict};

use crate::topics::findings::tell as findings_tell;
use crate::topics::glance::find::{Course, Group, course, latency_at};
use crate::topics::loads::tell::Unit;
use crate::topics::metrics::document::tables_of;
use crate::words::{self, counted};

/// A unit as a page shows it. A star marks units of virtual time, which the caveat explains.
pub(crate) fn unit(run: &Run, unit: &str) -> String {
    let plain = unit.strip_prefix("virtual ").unwrap_or(unit);
    let is_of_time = ["ns", "µs", "ms", "s"].contains(&plain) || plain.ends_with("/s");
    match run.opening.ns_per_instruction {
        Some(_) if is_of_time => format!("{plain}*"),
        Some(_) | None => plain.into(),
    }
}

/// A figure and its unit.
pub(crate) struct Shown {
    pub(crate) value: String,
    pub(crate) unit: String,
}

/// A figure with three significant digits. A share is a percentage.
pub(crate) fn shown(fit: &Unit, run: &Run, value: f64) -> Shown {
    if fit.name == "share" {
        return Shown {
            value: significant(value * 100.0, 3),
            unit: "%".into(),
        };
    }
    let value = value * fit.factor;
    let digits = significant(value, 3);
    let value = match digits.parse::<u64>() {
        Ok(whole) => words::count(whole),
        Err(_) => digits,
    };
    let unit = unit(run, &fit.name);
    Shown { value, unit }
}

/// Title of a group of metrics.
pub(crate) fn group(group: Group) -> &'static str {
    match group {
        Group::Outcome => "Outcome",
        Group::Cost => "Cost",
        Group::Checks => "Checks",
    }
}

/// Caption of the table of metrics: `8 metrics: 2 worse, 1 better, 1 equivalent, 4 undecided.`
pub(crate) fn verdicts(run: &Run, comparisons: &[&Comparison]) -> String {
    let mut parts = Vec::new();
    for verdict in [
        Verdict::Worse,
        Verdict::Better,
        Verdict::Equivalent,
        Verdict::Undecided,
    ] {
        let mut of_verdict = comparisons.iter();
        let count = of_verdict
            .by_ref()
            .filter(|comparison| comparison.verdict == verdict)
            .count();
        if count > 0 {
            parts.push(format!("{count} {}", verdict.word()));
        }
    }
    let noun = match run.plan.arms.len() {
        2 => "metric",
        _ => "comparison",
    };
    format!(
        "{}: {}.",
        counted(comparisons.len() as u32, noun),
        parts.join(", ")
    )
}

/// Says that a figure follows from another one.
pub(crate) fn follows(base: &str) -> String {
    format!("follows from {base}")
}

/// Summary of the figures that follow from another one.
pub(crate) fn follow(base: &str, names: &[String]) -> String {
    let verb = if names.len() == 1 {
        "follows"
    } else {
        "follow"
    };
    format!("{} {verb} from {base}", names.join(" and "))
}

/// Says why figures follow from another one.
pub(crate) const WHY_FOLLOW: &str = "Each client waits for its answer, and one CPU does all the work, so these figures carry no news.";

/// What the latency curves show, a sentence for each arm.
pub(crate) fn latency(run: &Run, judgement: &Judgement, workload: &str) -> String {
    let tables = tables_of(judgement, workload);
    let clients_of = |arm: &str| {
        let table = tables.iter().find(|table| table.arm == arm)?;
        table.clients.as_ref()
    };
    let baseline = &run.plan.baseline;
    let ms = unit(run, "ms");
    let sentence = |arm: &str| {
        let (base, other) = (clients_of(baseline)?, clients_of(arm)?);
        let course = course_words(arm, baseline, course(base, other)?);
        let p99 = |clients| Some(significant(latency_at(clients, 0.99)?, 3));
        let (before, after) = (p99(base)?, p99(other)?);
        Some(format!(
            "{course}: p99 was {after} {ms} against {before} {ms}."
        ))
    };
    let others = run.plan.arms.iter().map(|arm| arm.name.as_str());
    let others = others.filter(|arm| arm != baseline);
    let sentences: Vec<String> = others.filter_map(sentence).collect();
    sentences.join(" ")
}

fn course_words(arm: &str, baseline: &str, course: Course) -> String {
    match course {
        Course::Alike => format!("{arm} answered as fast as {baseline}, to within 1 %"),
        Course::Faster { percent } => {
            format!(
                "{arm} was faster for {percent} % of requests, and about as fast for the others"
            )
        }
        Course::Slower { percent } => {
            format!(
                "{arm} was slower for {percent} % of requests, and about as fast for the others"
            )
        }
        Course::FasterThenSlower { until } => {
            format!("{arm} was faster for {until} % of requests, then slower")
        }
        Course::SlowerThenFaster { until } => {
            format!("{arm} was slower for {until} % of requests, then faster")
        }
        Course::Mixed { faster, slower } => {
            format!("{arm} was faster for {faster} % of requests and slower for {slower} %")
        }
    }
}

/// What the blocks show: in how many of them each arm is better.
pub(crate) fn blocks(primaries: &[&Comparison]) -> String {
    use record::metric::Direction;
    let sentence = |comparison: &&Comparison| {
        let is_better = |arm: f64, baseline: f64| match comparison.spec.direction {
            Direction::Higher => arm > baseline,
            Direction::Lower => arm < baseline,
        };
        let mut pairs = comparison.pairs.iter();
        let better = pairs
            .by_ref()
            .filter(|pair| is_better(pair.arm, pair.baseline))
            .count();
        format!(
            "{} has the better {} in {better} of {}.",
            comparison.arm,
            comparison.spec.name,
            words::blocks(comparison.pairs.len() as u32)
        )
    };
    primaries.iter().map(sentence).collect::<Vec<_>>().join(" ")
}

/// After how many blocks each arm's primary metric was decided.
pub(crate) fn decisions(primaries: &[&Comparison]) -> String {
    let sentence = |comparison: &&Comparison| {
        let (name, arm) = (&comparison.spec.name, &comparison.arm);
        match comparison.decided_at {
            Some(blocks) => format!(
                "The {name} of {arm} was decided after {}.",
                words::blocks(blocks)
            ),
            None => format!(
                "The {name} of {arm} is open after {}.",
                words::blocks(comparison.blocks)
            ),
        }
    };
    primaries.iter().map(sentence).collect::<Vec<_>>().join(" ")
}

/// The decided metric that changes most, with its direction.
pub(crate) fn largest(comparisons: &[&Comparison]) -> String {
    let decided = comparisons
        .iter()
        .filter(|comparison| matches!(comparison.verdict, Verdict::Better | Verdict::Worse));
    let size = |comparison: &Comparison| comparison.ratio.map_or(0.0, |ratio| ratio.ln().abs());
    let largest = decided.max_by(|left, right| size(left).total_cmp(&size(right)));
    largest.map_or(String::new(), |largest| {
        format!(
            "{} of {} changes most: {}, {}.",
            largest.spec.name,
            largest.arm,
            words::change_of(largest),
            largest.verdict.word()
        )
    })
}

/// The most important caveat. It is the footnote of units of virtual time, if the run has any.
pub(crate) fn caveat(run: &Run, judgement: &Judgement) -> Option<String> {
    if let Some(ns) = run.opening.ns_per_instruction {
        return Some(format!(
            "* Virtual time: {ns} ns for each executed instruction. Caches, memory and devices cost nothing, so read only ratios."
        ));
    }
    let first = findings_tell::warnings(judgement).into_iter().next()?;
    let short = first.split(" (").next().unwrap_or_default();
    Some(format!("{short}."))
}

/// A command, and what it gives.
pub(crate) struct Step {
    pub(crate) command: String,
    pub(crate) gives: &'static str,
}

/// What a reader can do next, the most useful first.
pub(crate) fn next_steps(run: &Run, judgement: &Judgement, whys: &[Why]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut step = |command: &str, gives| {
        let command = command.to_string();
        steps.push(Step { command, gives });
    };
    let has = |is_wanted: fn(&Conclusion) -> bool| {
        let mut headlines = judgement.headlines.iter();
        headlines.any(|headline| is_wanted(&headline.conclusion))
    };
    let is_decided = has(|conclusion| {
        matches!(
            conclusion,
            Conclusion::Better | Conclusion::Worse | Conclusion::TradeOff { .. }
        )
    });
    if has(|conclusion| matches!(conclusion, Conclusion::Undecided { .. })) {
        let more = judgement
            .primaries()
            .filter_map(|primary| primary.more)
            .max();
        let more = more.unwrap_or(run.plan.design.max_blocks);
        step(
            &format!("bakeoff run PLAN --more-blocks {more}"),
            "Narrows the interval until the question is decided.",
        );
    }
    if is_decided && whys.is_empty() {
        step(
            "bakeoff run PLAN --why",
            "Breaks the difference down into kernel functions and mechanisms.",
        );
    }
    let settings = judgement.weighed.settings.iter();
    let mut pins = settings.filter_map(|setting| setting.pin.as_ref()).chain(
        judgement
            .differences
            .iter()
            .filter_map(|difference| difference.pin.as_ref()),
    );
    if pins.next().is_some() {
        step(
            "bakeoff show RUN --pin",
            "Prints the settings that differ as a [pinned] table. A plan with this table compares the code alone.",
        );
    }
    if run.opening.ns_per_instruction.is_some() {
        step(
            "bakeoff run PLAN   # on a host with KVM",
            "Measures wall-clock time, with caches, memory and devices.",
        );
    }
    if steps.is_empty() {
        let command = "bakeoff run PLAN".into();
        let gives = "Repeats this run with the plan below.";
        steps.push(Step { command, gives });
    }
    steps
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use record::fixtures::web;

    use super::*;
    use crate::report::judged;

    #[test]
    fn captions_state_what_the_run_shows() {
        let (run, judgement) = judged(web::trade_off_and_failure());
        let comparisons: Vec<&Comparison> = judgement.comparisons.iter().take(5).collect();
        let primaries: Vec<&Comparison> = words::primaries(comparisons.iter().copied()).collect();
        let captions = [
            verdicts(&run, &comparisons),
            largest(&comparisons),
            blocks(&primaries),
            decisions(&primaries),
            latency(&run, &judgement, "web-static"),
        ];
        expect![[r#"
            5 comparisons: 1 worse, 2 better, 2 equivalent.
            latency-p99 of 7.2 changes most: +235 %, worse.
            7.2 has the better throughput in 9 of 9 blocks.
            The throughput of 7.2 was decided after 9 blocks.
            7.2 was faster for 89 % of requests and slower for 11 %: p99 was 236 ms* against 228 ms*."#]].assert_eq(&captions.join("\n"));
    }

    #[test]
    fn units_of_virtual_time_have_a_star() {
        let (mut run, _) = judged(web::two_kernels());
        let units = [
            "ms",
            "virtual µs",
            "requests/s",
            "instructions/request",
            "share",
        ];
        run.opening.ns_per_instruction = Some(2);
        let stars = units.map(|each| unit(&run, each));
        assert_eq!(
            stars,
            ["ms*", "µs*", "requests/s*", "instructions/request", "share"]
        );
        run.opening.ns_per_instruction = None;
        let plain = units.map(|each| unit(&run, each));
        assert_eq!(
            plain,
            ["ms", "µs", "requests/s", "instructions/request", "share"]
        );
    }

    #[test]
    fn the_caveat_is_the_footnote_of_virtual_time_or_the_first_warning() {
        let (mut run, judgement) = judged(web::two_kernels());
        let mut caveat_at = |ns| {
            run.opening.ns_per_instruction = ns;
            caveat(&run, &judgement).unwrap()
        };
        expect!["* Virtual time: 2 ns for each executed instruction. Caches, memory and devices cost nothing, so read only ratios."].assert_eq(&caveat_at(Some(2)));
        expect!["web-static: failed requests on arm 6.1: 3."].assert_eq(&caveat_at(None));
    }

    #[test]
    fn the_next_steps_depend_on_what_is_open() {
        let (mut run, mut judgement) = judged(web::two_kernels());
        let commands = |run: &Run, judgement: &Judgement| {
            let steps = next_steps(run, judgement, &[]).into_iter();
            steps.map(|step| step.command).collect::<Vec<_>>()
        };
        run.opening.ns_per_instruction = None;
        assert_eq!(
            commands(&run, &judgement),
            ["bakeoff run PLAN --why", "bakeoff show RUN --pin"]
        );
        judgement.differences.clear();
        judgement.headlines[0].conclusion = Conclusion::Undecided {
            against: Vec::new(),
        };
        judgement.comparisons[0].more = Some(7);
        run.opening.ns_per_instruction = Some(2);
        assert_eq!(
            commands(&run, &judgement),
            [
                "bakeoff run PLAN --more-blocks 7",
                "bakeoff run PLAN   # on a host with KVM"
            ]
        );
        judgement.headlines.clear();
        run.opening.ns_per_instruction = None;
        assert_eq!(commands(&run, &judgement), ["bakeoff run PLAN"]);
    }
}
