//! Bisection with noisy measurements: between which two versions of a series did a metric change?
//!
//! ```text
//! block {from, candidate, to} -> two signs: which end is higher, which end the candidate is nearer to
//! signs of all blocks         -> posterior over steps (`posterior`) -> the version to measure next, or a conclusion
//! ```
//! This is noisy binary search (Burnashev and Zigangirov 1974; Ben-Or and Hassidim 2008; Waeber, Frazier and Henderson 2013). The
//! unknown error probability is integrated out. Only signs of a block are used, so a trial slow by half counts as much as one slow
//! by a percent. Each block measures both ends again, so blocks give independent answers about their candidates.
//!
//! The probability of a wrong step is bounded if one step makes the whole difference. If several do, the result is the step that
//! takes the metric across the middle. Its share of the whole difference
//! shows that there are others (`series` measures all of them).

pub mod series;
pub mod simulation;

use std::collections::BTreeSet;

use plan::Design;
use record::bisect::{BisectBlock, Conclusion, Evidence};
use record::metric::{Direction, MetricSpec, Role};
use record::rundir::Run;
use record::verdict::{Pair, Verdict};

use crate::topics::metrics::measured::Measured;
use stats::average::median;
use stats::posterior::{Answer, Posterior};
use stats::rule::{Series, decide_primary, typical_ratio};

/// Default number of blocks after which a bisection ends undecided. Calibration is known for this value.
pub const MAX_BLOCKS: u32 = 400;

/// A candidate is reported as beyond both ends after this many blocks, if all of them have it on the same side.
const BEYOND_BLOCKS: usize = 5;

/// Settings of a bisection.
#[derive(Debug, Clone)]
pub struct Question<'q> {
    /// Number of versions, including both ends: at least 3.
    pub versions: usize,
    /// Margin, error rate, blocks and seed.
    pub design: &'q Design,
    /// Indices of versions that cannot be measured.
    pub skipped: &'q BTreeSet<usize>,
    /// Cost of a version's first block, for which its kernel is built, relative to that of a later block.
    pub first_cost: f64,
}

/// Result of the blocks so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    /// Probability of each step in the likelier direction; step 0 lies between versions 0 and 1.
    pub steps: Vec<f64>,
    /// Probability that the ends do not differ at all. The rest up to 1 are steps in the other direction.
    pub no_difference: f64,
    /// Typical ratio of the last version to the first over all blocks.
    pub ratio: Option<f64>,
    /// Evidence on each measured version, ordered by index.
    pub evidence: Vec<Evidence>,
    /// The step, the next version to measure, or why there is none.
    pub conclusion: Conclusion,
}

/// Result of a run of one block.
#[derive(Debug, Clone, PartialEq)]
pub enum OfRun {
    /// The metric, and the figures of all three arms.
    Measured(MetricSpec, BisectBlock),
    /// Names of arms without a figure.
    Lacks(Vec<String>),
    /// The workload does not measure this metric. Names of the metrics that it measures.
    NoSuchMetric(Vec<String>),
}

/// Takes the block from a run of three arms: the first version, the candidate with its index, and the last version. `None` stands
/// for the primary metric.
pub fn of_run(
    run: &Run,
    (from, (candidate, place), to): (&str, (&str, usize), &str),
    metric: Option<&str>,
) -> OfRun {
    let measured = Measured::of(run);
    let workload = &run.plan.workloads[0].id;
    let specs = measured.specs(workload);
    let spec = specs.iter().find(|spec| match metric {
        Some(name) => spec.name == name,
        None => spec.role == Role::Primary,
    });
    let arms = [from, candidate, to];
    let Some(spec) = spec else {
        if specs.is_empty() {
            return OfRun::Lacks(arms.map(String::from).into());
        }
        return OfRun::NoSuchMetric(specs.into_iter().map(|spec| spec.name).collect());
    };
    let last = |first: &str, second: &str| {
        let mut pairs = measured.pairs(workload, first, second, &spec.name);
        pairs.pop()
    };
    let (Some(pair), Some(ends)) = (last(from, candidate), last(from, to)) else {
        let lacking = arms.into_iter().filter(|arm| last(arm, arm).is_none());
        return OfRun::Lacks(lacking.map(String::from).collect());
    };
    OfRun::Measured(
        spec.clone(),
        BisectBlock {
            candidate: place,
            from: ends.baseline,
            value: pair.arm,
            to: ends.arm,
            to_first: ends.arm_first,
        },
    )
}

/// Evaluates all blocks so far. The result depends only on the blocks, so an interrupted bisection resumes where it was.
///
/// # Panics
/// If there are fewer than three versions, or a block's candidate is not between the ends.
pub fn evaluate(question: &Question<'_>, blocks: &[BisectBlock]) -> Findings {
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
    let conclusion = conclude(question, &posterior, ends, ratio, &evidence);
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
    ends: Series<'_>,
    ratio: Option<f64>,
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
                share: share(question, evidence, before, after),
            };
        }
    }
    // Equivalence is tested only if the estimate lies within the margin, because the test is the slowest part.
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

/// Ranges of steps, first and last included, that cannot be distinguished because the versions between them are skipped.
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

/// The version whose next block is expected to give the most information for its cost.
fn next(question: &Question<'_>, posterior: &Posterior, evidence: &[Evidence]) -> Option<usize> {
    let measured: BTreeSet<usize> = evidence
        .iter()
        .filter(|evidence| evidence.like_from + evidence.like_to > 0)
        .map(|evidence| evidence.candidate)
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
        // Before the first block almost all probability is on "no difference", so steps are weighed among themselves.
        let value = posterior.gain(before / all.max(f64::MIN_POSITIVE)) / cost;
        if best.is_none_or(|(highest, _)| value > highest * (1.0 + 1e-9)) {
            best = Some((value, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Both ends of each block. A third trial may run between them: the randomization test needs only that their order is random.
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
    let candidates: BTreeSet<usize> = blocks.iter().map(|block| block.candidate).collect();
    let mut all = Vec::new();
    for candidate in candidates {
        let blocks = blocks.iter().filter(|block| block.candidate == candidate);
        let blocks: Vec<&BisectBlock> = blocks.collect();
        let nearer_to = |is_to: bool| {
            let sides = blocks
                .iter()
                .map(|block| posterior.says_to(Answer::of(block)));
            sides.filter(|side| *side == Some(is_to)).count() as u32
        };
        let offsets = blocks.iter().map(|block| scaled(block.value, block.from));
        let offset = median_of(&offsets.collect::<Vec<_>>());
        let position = offset.zip(whole).map(|(offset, whole)| offset / whole);
        let above = |block: &&BisectBlock| block.value > block.from.max(block.to);
        let below = |block: &&BisectBlock| block.value < block.from.min(block.to);
        let is_beyond = blocks.iter().all(above) || blocks.iter().all(below);
        all.push(Evidence {
            candidate,
            like_from: nearer_to(false),
            like_to: nearer_to(true),
            position: position.filter(|position| position.is_finite()),
            beyond: is_beyond && blocks.len() >= BEYOND_BLOCKS,
            skipped: None,
        });
    }
    all
}

/// The logarithm of `value / base`, or `value - base` unless both are positive.
fn scaled(value: f64, base: f64) -> f64 {
    if value > 0.0 && base > 0.0 {
        (value / base).ln()
    } else {
        value - base
    }
}

fn median_of(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| median(values))
}

/// Share of the whole difference between two versions. `None` unless both are ends or have a position.
fn share(
    question: &Question<'_>,
    evidence: &[Evidence],
    before: usize,
    after: usize,
) -> Option<f64> {
    let position = |place: usize| {
        if place == 0 {
            Some(0.0)
        } else if place == question.versions - 1 {
            Some(1.0)
        } else {
            evidence
                .iter()
                .find(|evidence| evidence.candidate == place)
                .and_then(|evidence| evidence.position)
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
        max_blocks: 60,
        ..Design::DEFAULTS
    };

    /// Bisects versions with these values, which scatter by a thousandth, until there is a conclusion.
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
            let findings = evaluate(&question, &blocks);
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
    fn a_step_is_found_at_any_place_and_in_both_directions() {
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
    fn a_version_beyond_both_equal_ends_is_reported() {
        let (findings, _) = bisected(&[100.0, 120.0, 100.0], &[]);
        assert_eq!(findings.conclusion, Conclusion::Equivalent);
        assert!(findings.evidence[0].beyond);
    }

    #[test]
    fn the_larger_of_two_steps_is_found_with_its_share() {
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
    fn without_a_measurable_version_nothing_is_measured() {
        let (findings, blocks) = bisected(&[100.0, 100.0, 110.0], &[1]);
        assert_eq!(findings.conclusion, Conclusion::Undecided);
        assert!(blocks.is_empty());
    }

    #[test]
    fn a_built_version_is_measured_again_before_an_expensive_build() {
        let skipped = BTreeSet::new();
        let question = |first_cost| Question {
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
        let next_version = |first_cost| {
            let findings = evaluate(&question(first_cost), std::slice::from_ref(&block));
            match findings.conclusion {
                Conclusion::Open { next } => next,
                other => panic!("{other:?}"),
            }
        };
        assert!(next_version(1.0) < 32);
        assert_eq!(next_version(50.0), 32);
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
            let findings = evaluate(&question, &vec![block; 8]);
            let steps: f64 = findings.steps.iter().sum();
            let other_direction = 1.0 - steps - findings.no_difference;
            let is_likelier = other_direction > -1e-9 && other_direction <= steps + 1e-9;
            assert!(is_likelier, "{figure}: {findings:?}");
        }
    }
}
