//! Bisection with measurements that scatter: between which two versions of a line did a metric change?
//!
//! ```text
//! block {from, candidate, to} -> two signs: which end is higher, which end the candidate is nearer to
//! signs of all blocks         -> posterior over steps (`posterior`) -> the version to ask next, or a conclusion
//! ```
//! Noisy binary search (Burnashev and Zigangirov 1974; Ben-Or and Hassidim 2008; Waeber, Frazier and Henderson 2013), with an error
//! probability that nobody knows: it is integrated out. Signs are all that is taken of a block, so that one trial slow by half counts as
//! much as one slow by a percent. Both ends are measured anew in each block, so that blocks say independent things of their candidates.
//!
//! The chance of a wrong step is bounded where one step makes the difference. Where several do, what is found is the step that takes the
//! metric across the middle, and its share of the whole tells that it is not alone (`walk` measures all of them).

pub mod simulation;
pub mod walk;

use std::collections::BTreeSet;

use plan::Design;
use record::bisect::{BisectBlock, Conclusion, Evidence};
use record::metric::{Direction, MetricSpec, Role};
use record::rundir::Run;
use record::verdict::{Pair, Verdict};

use crate::topics::metrics::pair::Measured;
use stats::average::median;
use stats::posterior::{Answer, Posterior};
use stats::rule::{Series, decide_primary, typical_ratio};

/// Blocks after which a bisection ends undecided where no other number is named. How often bisections are right is known for it.
pub const MAX_BLOCKS: u32 = 400;

/// Blocks that must all have a candidate beyond the same side of both ends before that is said.
const BEYOND_BLOCKS: usize = 5;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Question<'q> {
    /// Versions on the line, both ends among them: 3 at the least.
    pub versions: usize,
    /// Margin, error rate, blocks and seed.
    pub design: &'q Design,
    /// Versions that cannot be measured.
    pub skipped: &'q BTreeSet<usize>,
    /// What a block of a version costs that was never measured, in blocks of one that was: its kernel is built first.
    pub first_cost: f64,
}

/// What the blocks so far say.
#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    /// Probability of each step, in the direction that is the likelier one; step 0 lies between versions 0 and 1.
    pub steps: Vec<f64>,
    /// Probability that the ends do not differ at all. What it and the steps lack of one are steps in the other direction.
    pub no_difference: f64,
    /// Last over first version, typical over blocks.
    pub ratio: Option<f64>,
    /// What is known of each version that was measured, by place.
    pub evidence: Vec<Evidence>,
    /// What follows.
    pub conclusion: Conclusion,
}

/// What a run of one block says.
#[derive(Debug, Clone, PartialEq)]
pub enum OfRun {
    /// Figures of all three.
    Measured(MetricSpec, BisectBlock),
    /// These arms have no figure.
    Lacks(Vec<String>),
    /// The workload measures other things: these.
    NoSuchMetric(Vec<String>),
}

/// The block of a run of three arms: the line's first version, a candidate and its place, the line's last version. The metric is the
/// primary one where none is named.
pub fn of_run(
    run: &Run,
    (from, candidate, to): (&str, (&str, usize), &str),
    metric: Option<&str>,
) -> OfRun {
    let measured = Measured::of(run);
    let workload = &run.plan.workloads[0].id;
    let specs = measured.specs(workload);
    let is_it = |spec: &&MetricSpec| match metric {
        Some(name) => spec.name == name,
        None => spec.role == Role::Primary,
    };
    let Some(spec) = specs.iter().find(is_it) else {
        if specs.is_empty() {
            return OfRun::Lacks([from, candidate.0, to].map(String::from).into());
        }
        return OfRun::NoSuchMetric(specs.into_iter().map(|spec| spec.name).collect());
    };
    let last = |pair: (&str, &str)| measured.pairs(workload, pair, &spec.name).pop();
    let (Some(own), Some(ends)) = (last((from, candidate.0)), last((from, to))) else {
        let arms = [from, candidate.0, to].into_iter();
        let lacking = arms.filter(|arm| last((arm, arm)).is_none());
        return OfRun::Lacks(lacking.map(String::from).collect());
    };
    OfRun::Measured(
        spec.clone(),
        BisectBlock {
            candidate: candidate.1,
            from: ends.baseline,
            value: own.arm,
            to: ends.arm,
            to_first: ends.arm_first,
        },
    )
}

/// Looks at all blocks so far. The same blocks give the same findings, so that a bisection that was interrupted goes on as if it had
/// not been.
///
/// # Panics
/// There are fewer than three versions, or a block names none of those between the ends.
pub fn look(question: &Question<'_>, blocks: &[BisectBlock]) -> Findings {
    let versions = question.versions;
    assert!(versions >= 3, "nothing lies between two neighbours");
    let is_between = |block: &BisectBlock| 0 < block.candidate && block.candidate < versions - 1;
    assert!(blocks.iter().all(is_between), "ends are in every block");
    let answers: Vec<Answer> = blocks.iter().map(Answer::of).collect();
    let posterior = Posterior::of(versions - 1, &answers);
    let pairs = end_pairs(blocks);
    let ends = Series {
        pairs: &pairs,
        direction: Direction::Higher,
    };
    let ratio = if blocks.is_empty() {
        None
    } else {
        typical_ratio(ends)
    };
    let evidence = evidence(blocks, &posterior);
    let conclusion = conclude(question, &posterior, (ends, ratio), &evidence);
    Findings {
        no_difference: posterior.no_difference,
        steps: posterior.steps,
        ratio,
        evidence,
        conclusion,
    }
}

fn conclude(
    question: &Question<'_>,
    posterior: &Posterior,
    (ends, ratio): (Series<'_>, Option<f64>),
    evidence: &[Evidence],
) -> Conclusion {
    for (first, last) in groups(question) {
        let probability: f64 = posterior.steps[first..=last].iter().sum();
        if probability >= 1.0 - question.design.error_rate {
            let (before, after) = (first, last + 1);
            return Conclusion::Found {
                before,
                after,
                probability,
                share: share(question, evidence, (before, after)),
            };
        }
    }
    // What lies within the margin is tested only where it may be: the test costs more than all else here.
    let margin = question.design.margin;
    let is_small = ratio.is_some_and(|ratio| ratio.ln().abs() < margin.ln_1p());
    if is_small {
        let decided = decide_primary(ends, question.design, "ends of a bisection");
        if decided.is_some_and(|(verdict, _)| verdict == Verdict::Equivalent) {
            return Conclusion::Equivalent;
        }
    }
    if ends.pairs.len() >= question.design.max_blocks as usize {
        return Conclusion::Undecided;
    }
    match next(question, posterior, evidence) {
        Some(next) => Conclusion::Open { next },
        None => Conclusion::Undecided,
    }
}

/// Steps that no version between them tells apart, as ranges with both ends.
fn groups(question: &Question<'_>) -> Vec<(usize, usize)> {
    let mut groups = Vec::new();
    let mut first = 0;
    for step in 0..question.versions - 1 {
        let after = step + 1;
        if after == question.versions - 1 || !question.skipped.contains(&after) {
            groups.push((first, step));
            first = after;
        }
    }
    groups
}

/// The version whose next answer tells most for its cost.
fn next(question: &Question<'_>, posterior: &Posterior, evidence: &[Evidence]) -> Option<usize> {
    let measured: BTreeSet<usize> = evidence
        .iter()
        .filter(|one| one.like_from + one.like_to > 0)
        .map(|one| one.candidate)
        .collect();
    let mut best: Option<(f64, usize)> = None;
    let mut before = 0.0;
    let all: f64 = posterior.steps.iter().sum();
    for candidate in 1..question.versions - 1 {
        before += posterior.steps[candidate - 1];
        if question.skipped.contains(&candidate) {
            continue;
        }
        let cost = if measured.contains(&candidate) {
            1.0
        } else {
            question.first_cost
        };
        // At the very first all is "no difference or not"; the shares of the steps among themselves are what is asked for.
        let value = posterior.gain(before / all.max(f64::MIN_POSITIVE)) / cost;
        if best.is_none_or(|(most, _)| value > most * (1.0 + 1e-9)) {
            best = Some((value, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Both ends of each block. That there is a third trial between them is no concern of a randomization test, as long as their order was drawn.
fn end_pairs(blocks: &[BisectBlock]) -> Vec<Pair> {
    let pair = |(place, block): (usize, &BisectBlock)| Pair {
        block: place as u32 + 1,
        baseline: block.from,
        arm: block.to,
        arm_first: block.to_first,
    };
    blocks.iter().enumerate().map(pair).collect()
}

fn evidence(blocks: &[BisectBlock], posterior: &Posterior) -> Vec<Evidence> {
    let differences = blocks.iter().map(|block| scaled(block.to, block.from));
    let whole = median_of(&differences.collect::<Vec<_>>());
    let of_candidate = |candidate: usize| {
        let own: Vec<&BisectBlock> = blocks
            .iter()
            .filter(|block| block.candidate == candidate)
            .collect();
        let says_to = |block: &&&BisectBlock| posterior.says_to(Answer::of(block)) == Some(true);
        let says_from = |block: &&&BisectBlock| posterior.says_to(Answer::of(block)) == Some(false);
        let offsets = own.iter().map(|block| scaled(block.value, block.from));
        let offset = median_of(&offsets.collect::<Vec<_>>());
        let position = offset.zip(whole).map(|(offset, whole)| offset / whole);
        let above = |block: &&BisectBlock| block.value > block.from.max(block.to);
        let below = |block: &&BisectBlock| block.value < block.from.min(block.to);
        let is_beyond = own.iter().all(above) || own.iter().all(below);
        Evidence {
            candidate,
            like_from: own.iter().filter(says_from).count() as u32,
            like_to: own.iter().filter(says_to).count() as u32,
            position: position.filter(|position| position.is_finite()),
            beyond: is_beyond && own.len() >= BEYOND_BLOCKS,
            skipped: None,
        }
    };
    let asked: BTreeSet<usize> = blocks.iter().map(|block| block.candidate).collect();
    asked.into_iter().map(of_candidate).collect()
}

/// One figure over another on the logarithm, or their difference where either is not above zero.
fn scaled(one: f64, other: f64) -> f64 {
    if one > 0.0 && other > 0.0 {
        (one / other).ln()
    } else {
        one - other
    }
}

fn median_of(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| median(values))
}

/// What of the whole difference lies between two versions, both of them measured or ends.
fn share(
    question: &Question<'_>,
    evidence: &[Evidence],
    (before, after): (usize, usize),
) -> Option<f64> {
    let position = |place: usize| {
        if place == 0 {
            Some(0.0)
        } else if place == question.versions - 1 {
            Some(1.0)
        } else {
            evidence
                .iter()
                .find(|one| one.candidate == place)
                .and_then(|one| one.position)
        }
    };
    Some(position(after)? - position(before)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESIGN: Design = Design {
        margin: 0.02,
        error_rate: 0.01,
        min_blocks: 4,
        max_blocks: 60,
        more_blocks: 0,
        seed: 1,
        arms: 0,
    };

    /// Asks a line whose figures scatter by a thousandth until it has an answer.
    fn bisected(line: &[f64], skipped: &[usize]) -> (Findings, Vec<BisectBlock>) {
        let skipped = skipped.iter().copied().collect();
        let question = Question {
            versions: line.len(),
            design: &DESIGN,
            skipped: &skipped,
            first_cost: 1.0,
        };
        let mut blocks = Vec::new();
        loop {
            let findings = look(&question, &blocks);
            let Conclusion::Open { next } = findings.conclusion else {
                return (findings, blocks);
            };
            let scattered = |value: f64, step: usize| {
                let place = (blocks.len() * 7 + step * 3) % 10;
                value * (1.0 + 0.0002 * (place as f64 - 4.5))
            };
            let block = BisectBlock {
                candidate: next,
                from: scattered(line[0], 0),
                value: scattered(line[next], 1),
                to: scattered(line[line.len() - 1], 2),
                to_first: blocks.len() % 2 == 0,
            };
            blocks.push(block);
        }
    }

    fn step(line: &[f64]) -> (usize, usize, f64) {
        match bisected(line, &[]).0.conclusion {
            Conclusion::Found {
                before,
                after,
                share,
                ..
            } => (before, after, share.unwrap()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_step_is_found_wherever_it_lies_and_whichever_way_it_goes() {
        for versions in [3, 4, 9, 40] {
            for place in 1..versions {
                for height in [90.0, 110.0] {
                    let line: Vec<f64> = (0..versions)
                        .map(|at| if at < place { 100.0 } else { height })
                        .collect();
                    let (before, after, share) = step(&line);
                    assert_eq!((before, after), (place - 1, place), "{versions} {height}");
                    assert!((share - 1.0).abs() < 0.1, "{share}");
                }
            }
        }
    }

    #[test]
    fn ends_that_do_not_differ_are_equivalent_after_few_blocks() {
        let (findings, blocks) = bisected(&[100.0; 20], &[]);
        assert_eq!(findings.conclusion, Conclusion::Equivalent);
        assert!(blocks.len() <= 14, "{}", blocks.len());
    }

    #[test]
    fn a_middle_that_is_beyond_equal_ends_is_told() {
        let (findings, _) = bisected(&[100.0, 120.0, 100.0], &[]);
        assert_eq!(findings.conclusion, Conclusion::Equivalent);
        assert!(findings.evidence[0].beyond);
    }

    #[test]
    fn of_two_steps_the_one_across_the_middle_is_found_with_its_share() {
        let (before, after, share) = step(&[100.0, 103.0, 103.0, 103.0, 110.0, 110.0]);
        assert_eq!((before, after), (3, 4));
        assert!((0.6..0.75).contains(&share), "{share}");
    }

    #[test]
    fn versions_that_cannot_be_measured_leave_a_range() {
        let line = [100.0, 100.0, 100.0, 110.0, 110.0, 110.0];
        let (findings, blocks) = bisected(&line, &[2, 3]);
        let Conclusion::Found { before, after, .. } = findings.conclusion else {
            panic!("{findings:?}");
        };
        assert_eq!((before, after), (1, 4));
        assert!(
            blocks
                .iter()
                .all(|block| ![2, 3].contains(&block.candidate))
        );
    }

    #[test]
    fn without_a_version_that_can_be_measured_nothing_is_asked() {
        let (findings, blocks) = bisected(&[100.0, 100.0, 110.0], &[1]);
        assert_eq!(findings.conclusion, Conclusion::Undecided);
        assert!(blocks.is_empty());
    }

    #[test]
    fn what_was_built_is_asked_again_before_something_is_built_for_little() {
        let skipped = BTreeSet::new();
        let dear = |first_cost| Question {
            versions: 65,
            design: &DESIGN,
            skipped: &skipped,
            first_cost,
        };
        let block = BisectBlock {
            candidate: 32,
            from: 100.0,
            value: 110.0,
            to: 110.0,
            to_first: false,
        };
        let asked =
            |first_cost| match look(&dear(first_cost), std::slice::from_ref(&block)).conclusion {
                Conclusion::Open { next } => next,
                other => panic!("{other:?}"),
            };
        assert!(asked(1.0) < 32);
        assert_eq!(asked(50.0), 32);
    }

    #[test]
    fn no_figure_panics() {
        let skipped = BTreeSet::new();
        let question = Question {
            versions: 4,
            design: &DESIGN,
            skipped: &skipped,
            first_cost: 1.0,
        };
        for figure in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, 1.0] {
            let block = BisectBlock {
                candidate: 1,
                from: figure,
                value: 1.0,
                to: 0.0,
                to_first: false,
            };
            let findings = look(&question, &vec![block; 8]);
            let of_steps: f64 = findings.steps.iter().sum();
            // Steps in the other direction, which is the less likely one.
            let other = 1.0 - of_steps - findings.no_difference;
            let is_likelier = other > -1e-9 && other <= of_steps + 1e-9;
            assert!(is_likelier, "{figure}: {findings:?}");
        }
    }
}
