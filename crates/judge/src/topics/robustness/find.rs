//! What a headline depends on: a sensitivity analysis of a verdict that stands.
//!
//! ```text
//! blocks    leaves out each block in turn (a delete-one jackknife); one analysis of the rest, at the primary metric's error rate
//! margins   applies the rule, with its interim analyses and sign flips, at other margins (`margins`)
//! metric    applies the rule to another metric in place of the primary one
//! prices    applies the rule at other prices of string instructions (`prices`)
//! models    results of runs on other CPU models
//! ```
//! None of these is a test. Only the verdict has an error rate; a reader who picks among these answers has none.
//! The jackknife does one analysis instead of the run's interim analyses, because a run stops at the first block that suffices.
//! With one block less, the run's interim analyses would nearly always be undecided.

use plan::Design;
use record::hardware_counters::is_rate;
use record::instructions::CAPACITY;
use record::metric::Role;
use record::models::Standing;
use record::rundir::Run;
use record::verdict::reason::Place;
use record::verdict::robustness::{
    Agreement, ByLoad, CarryingBlock, LeftOut, OtherMetric, Robustness,
};
use record::verdict::{Comparison, Conclusion, Judgement, Pair, Verdict};

use crate::topics::headline::find::{against, contrary};
use crate::topics::robustness::margins::ByMargin;
use stats::interim;
use stats::interim::fewest_blocks;
use stats::randomization::SignFlips;
use stats::rule;
use stats::rule::Series;
use stats::sequential_test::TestSetup;

/// One entry per headline, in their order, without arms that failed.
pub(crate) fn of(run: &Run, judgement: &Judgement) -> Vec<Robustness> {
    let mut all = Vec::new();
    for headline in &judgement.headlines {
        if matches!(headline.conclusion, Conclusion::Failed(_)) {
            continue;
        }
        let (workload, arm) = (&headline.workload, &headline.arm);
        let comparisons = judgement.comparisons.iter();
        let comparisons: Vec<&Comparison> = comparisons
            .filter(|comparison| comparison.workload == *workload && comparison.arm == *arm)
            .collect();
        let by_load = judgement.by_load.iter();
        let by_load: Vec<&ByLoad> = by_load
            .filter(|curve| curve.workload == *workload && curve.arm == *arm)
            .collect();
        let Some(subject) = Subject::new(&run.plan.design, &comparisons) else {
            continue;
        };
        let by_margin = ByMargin::new(subject.design, subject.primary, &comparisons, &by_load);
        all.push(Robustness {
            workload: workload.clone(),
            arm: arm.clone(),
            blocks: subject.left_out(),
            margins: by_margin.ranges(),
            metric: subject.other_metric(),
            prices: headline.by_price.clone(),
            models: models(run, workload, arm),
        });
    }
    all
}

/// All metrics of one arm on one workload.
struct Subject<'s> {
    design: &'s Design,
    primary: &'s Comparison,
    metrics: &'s [&'s Comparison],
    key: String,
}

impl<'s> Subject<'s> {
    fn new(design: &'s Design, metrics: &'s [&'s Comparison]) -> Option<Self> {
        let primary = metrics
            .iter()
            .find(|metric| metric.spec.role == Role::Primary)?;
        Some(Self {
            design,
            primary,
            metrics,
            key: format!("{}\n{}", primary.workload, primary.arm),
        })
    }

    fn has_secondary(&self) -> bool {
        self.metrics.len() > 1
    }

    fn left_out(&self) -> LeftOut {
        let verdict = self.primary.verdict;
        let pairs = &self.primary.pairs;
        let share = if self.has_secondary() { 0.5 } else { 1.0 };
        let error_rate = match verdict {
            Verdict::Undecided => return LeftOut::Undecided,
            Verdict::Better | Verdict::Worse => share * self.design.error_rate,
            Verdict::Equivalent => 2.0 * interim::equivalence_error_rate(self.design),
        };
        let needed = fewest_blocks(error_rate) + 1;
        if pairs.len() < needed {
            return LeftOut::TooFew {
                needed: needed as u32,
            };
        }
        let against = against(self.metrics, contrary(verdict), self.design.margin);
        let mut carried_by = Vec::new();
        let (mut low, mut high) = (f64::INFINITY, 0.0f64);
        let mut has_ratio = true;
        // The rest always has the same number of blocks, so the sign flips are the same.
        let flips = self.flips(pairs.len() - 1);
        for pair in pairs {
            let (without, loses) = self.without(Some(pair.block), &flips, &against);
            if without != verdict || (!against.is_empty() && loses.len() == against.len()) {
                carried_by.push(CarryingBlock {
                    block: pair.block,
                    verdict: without,
                    loses,
                    always: constant_place(pairs, pair.block),
                });
            }
            match self.ratio_without(pair.block) {
                Some(ratio) => (low, high) = (low.min(ratio), high.max(ratio)),
                None => has_ratio = false,
            }
        }
        LeftOut::Tried {
            blocks: pairs.len() as u32,
            range: has_ratio.then_some((low, high)),
            at_once: self.without(None, &self.flips(pairs.len()), &[]).0,
            carried_by,
        }
    }

    /// The plan's design with a single look after `blocks` blocks.
    fn one_analysis(&self, blocks: usize) -> Design {
        Design {
            min_blocks: blocks as u32,
            max_blocks: blocks as u32,
            more_blocks: 0,
            ..self.design.clone()
        }
    }

    fn flips(&self, blocks: usize) -> SignFlips {
        TestSetup::flips(blocks, &self.one_analysis(blocks), &self.key)
    }

    /// The primary metric's verdict after one analysis without a block, and the metrics of `against` that no
    /// longer contradict it.
    fn without(
        &self,
        block: Option<u32>,
        flips: &SignFlips,
        against: &[String],
    ) -> (Verdict, Vec<String>) {
        let primary = pairs_without(self.primary, block);
        let design = self.one_analysis(primary.len());
        let series = Series {
            pairs: &primary,
            direction: self.primary.spec.direction,
        };
        if against.is_empty() {
            let verdict = rule::with_flips(series, &design, flips, self.has_secondary());
            return (verdict.unwrap_or(self.primary.verdict), Vec::new());
        }
        let secondary = self.metrics.iter().copied();
        let secondary: Vec<&Comparison> = secondary
            .filter(|metric| metric.spec.role == Role::Secondary)
            .collect();
        let pairs: Vec<Vec<Pair>> = secondary
            .iter()
            .map(|metric| pairs_without(metric, block))
            .collect();
        let mut all = vec![series];
        all.extend(secondary.iter().zip(&pairs).map(|(metric, pairs)| Series {
            pairs,
            direction: metric.spec.direction,
        }));
        let decisions = rule::decisions_at_stop(&all, &design, &self.key);
        let verdicts: Vec<Verdict> = decisions
            .iter()
            .map(|decision| decision.map_or(Verdict::Undecided, |decision| decision.verdict))
            .collect();
        let wanted = contrary(self.primary.verdict);
        let mut lost = Vec::new();
        for (metric, verdict) in secondary.iter().zip(&verdicts[1..]) {
            if against.contains(&metric.spec.name) && *verdict != wanted {
                lost.push(metric.spec.name.clone());
            }
        }
        (verdicts[0], lost)
    }

    fn ratio_without(&self, block: u32) -> Option<f64> {
        rule::typical_ratio(Series {
            pairs: &pairs_without(self.primary, Some(block)),
            direction: self.primary.spec.direction,
        })
    }

    /// The first secondary metric of another family than the primary one, else the first secondary metric.
    fn other_metric(&self) -> Option<OtherMetric> {
        let primary_family = family(&self.primary.spec.name);
        let secondary = self.metrics.iter();
        let secondary = secondary
            .filter(|metric| metric.spec.role == Role::Secondary && !is_rate(&metric.spec));
        let is_unrelated = |metric: &&&Comparison| {
            let family = family(&metric.spec.name);
            family != primary_family && family != Family::Shape
        };
        let judged = |metric: &'s &'s Comparison| Some((*metric, self.as_primary(metric)?));
        let unrelated = secondary.clone().filter(is_unrelated).find_map(judged);
        let (metric, verdict) = unrelated.or_else(|| secondary.clone().find_map(judged))?;
        Some(OtherMetric {
            name: metric.spec.name.clone(),
            verdict,
            agreement: agreement(self.primary.verdict, verdict),
        })
    }

    /// A metric's verdict at the primary one's error rate; `None` if it is zero throughout or missing in some block.
    fn as_primary(&self, metric: &Comparison) -> Option<Verdict> {
        let is_number = |pair: &Pair| pair.baseline.is_finite() && pair.arm.is_finite();
        let is_complete = metric.pairs.len() == self.primary.pairs.len();
        if metric.pairs.is_empty() || !is_complete || !metric.pairs.iter().all(is_number) {
            return None;
        }
        let series = Series {
            pairs: &metric.pairs,
            direction: metric.spec.direction,
        };
        rule::by_margin(series, self.design, &self.key, true)(self.design.margin)
    }
}

/// All blocks of a comparison except `block`.
fn pairs_without(comparison: &Comparison, block: Option<u32>) -> Vec<Pair> {
    let pairs = comparison.pairs.iter();
    let pairs = pairs.filter(|pair| Some(pair.block) != block);
    pairs.cloned().collect()
}

/// The place at which the arm ran in all blocks except `without`; `None` if it ran at both places.
fn constant_place(pairs: &[Pair], without: u32) -> Option<Place> {
    let mut others = pairs.iter().filter(|pair| pair.block != without);
    let first = others.next()?.arm_first;
    others
        .all(|pair| pair.arm_first == first)
        .then_some(if first { Place::First } else { Place::Second })
}

fn agreement(primary: Verdict, other: Verdict) -> Agreement {
    match (primary, other) {
        (Verdict::Undecided, _) | (_, Verdict::Undecided) => Agreement::Nothing,
        (primary, other) if primary == other => Agreement::Same,
        (Verdict::Equivalent, _) | (_, Verdict::Equivalent) => Agreement::Other,
        (_, _) => Agreement::Opposite,
    }
}

/// Groups of metrics that follow from each other, such as a request rate and the requests' latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// Rates, times and latencies.
    Service,
    /// CPU time and instructions.
    Cost,
    /// Failed requests and wrong answers.
    Faults,
    /// Memory in use.
    Memory,
    /// Where a curve bends or peaks, and how much it keeps beyond that.
    Shape,
}

fn family(metric: &str) -> Family {
    let has = |words: &[&str]| words.iter().any(|word| metric.contains(word));
    // A capacity is derived from the server's instructions.
    if has(&["cpu", "instructions", "wakeups"]) || metric == CAPACITY {
        Family::Cost
    } else if has(&[
        "failed",
        "errors",
        "unsuccessful",
        "repeated",
        "conforming-share",
    ]) {
        Family::Faults
    } else if has(&["memory", "swap"]) {
        Family::Memory
    } else if has(&["peak-at", "knee", "kept", "growth"]) {
        Family::Shape
    } else {
        Family::Service
    }
}

/// The worst standing among other CPU models.
fn models(run: &Run, workload: &str, arm: &str) -> Option<Standing> {
    let rows = run.models.as_ref()?.rows.iter();
    let rows = rows.filter(|row| row.workload == workload && row.arm == arm);
    let standings: Vec<Standing> = rows.map(|row| row.standing).collect();
    let worst_first = [Standing::ModelDependent, Standing::Open, Standing::Holds];
    worst_first
        .into_iter()
        .find(|standing| standings.contains(standing))
}

#[cfg(test)]
mod tests {

    use super::*;
    use record::fixtures::builder::RunBuilder;
    use stats::noise_models::{REFERENCE, pairs};

    fn robustness(figures: &[[f64; 2]], change: impl FnOnce(&mut Run)) -> Robustness {
        let judgement = crate::judge(&RunBuilder::new().blocks(figures).with(change).run());
        judgement.robustness.into_iter().next().unwrap()
    }

    /// Blocks whose ratios differ from `ratio` by at most a few tenths of a percent.
    fn around(ratio: f64, blocks: u32) -> Vec<[f64; 2]> {
        let wobble = |block: u32| 1.0 + 0.002 * (f64::from(block * 7 % 11) / 5.0 - 1.0);
        (0..blocks)
            .map(|block| [100.0, 100.0 * ratio * wobble(block)])
            .collect()
    }

    fn carrying_blocks(robustness: &Robustness) -> Vec<u32> {
        let LeftOut::Tried { carried_by, .. } = &robustness.blocks else {
            panic!("{robustness:?}")
        };
        carried_by.iter().map(|carrying| carrying.block).collect()
    }

    #[test]
    fn a_steady_gain_holds_without_any_block() {
        let robustness = robustness(&around(1.07, 12), |_| {});
        assert_eq!(carrying_blocks(&robustness), Vec::<u32>::new());
        let LeftOut::Tried {
            range,
            blocks,
            at_once,
            ..
        } = robustness.blocks
        else {
            panic!("no block was left out: {:?}", robustness.blocks)
        };
        let (low, high) = range.unwrap();
        assert!(1.068 < low && low <= high && high < 1.072, "{low} {high}");
        assert_eq!((blocks, at_once), (12, Verdict::Better));
    }

    /// Among gains that are small beside their noise, some depend on single blocks.
    /// A run without such a block and with a single analysis has the verdict that the analysis predicts.
    #[test]
    fn a_headline_that_one_block_carries_names_it() {
        for seed in 0..80 {
            let noise = pairs(REFERENCE, 0.05, 10, seed, 0);
            let figures: Vec<[f64; 2]> =
                noise.iter().map(|pair| [pair.baseline, pair.arm]).collect();
            let builder = || RunBuilder::new().blocks(&figures);
            let judgement = crate::judge(&builder().run());
            let verdict = judgement.comparisons[0].verdict;
            let LeftOut::Tried { carried_by, .. } = &judgement.robustness[0].blocks else {
                continue;
            };
            if !(1..10).contains(&carried_by.len()) {
                continue;
            }
            for carrying in carried_by.iter().take(2) {
                let run = builder().with(|run| {
                    run.attempts
                        .retain(|record| record.trial.block != carrying.block);
                    run.facts.truncate(run.attempts.len());
                    (run.plan.design.min_blocks, run.plan.design.max_blocks) = (9, 9);
                });
                let without = crate::interim(&run.run()).comparisons[0].verdict;
                assert_ne!(without, verdict, "{carrying:?}");
                assert_eq!(without, carrying.verdict, "{carrying:?}");
            }
            return;
        }
        panic!("no headline depends on a single block");
    }

    #[test]
    fn an_undecided_headline_depends_on_nothing_and_few_blocks_cannot_spare_one() {
        let noisy: Vec<[f64; 2]> = (0..12)
            .map(|block| [100.0, 100.0 + f64::from(block * 7 % 5) * 9.0 - 18.0])
            .collect();
        let undecided = robustness(&noisy, |_| {});
        assert_eq!(undecided.blocks, LeftOut::Undecided);
        assert_eq!(undecided.margins, None);
        let few = robustness(&around(1.07, 7), |run| {
            (run.plan.design.max_blocks, run.plan.design.min_blocks) = (7, 7);
        });
        assert_eq!(few.blocks, LeftOut::TooFew { needed: 8 });
    }

    #[test]
    fn a_difference_has_the_largest_margin_and_equivalence_the_smallest() {
        // Better at every margin up to the one at which it would have been called equivalent sooner.
        let better = robustness(&around(1.02, 12), |_| {}).margins.unwrap();
        assert_eq!(better.from, None);
        let most = better.to.unwrap();
        assert!(0.01 < most && most < 0.04, "{most}");
        let equal = robustness(&around(1.0, 12), |_| {}).margins.unwrap();
        let least = equal.from.unwrap();
        assert!(0.0005 < least && least < 0.005, "{least}");
        assert_eq!(equal.to, None);
    }

    #[test]
    fn the_margin_at_the_border_is_one_that_holds_and_a_little_more_does_not() {
        let figures = around(1.02, 12);
        let at = |margin: f64| {
            let run = RunBuilder::new().blocks(&figures);
            let run = run.with(|run| run.plan.design.margin = margin).run();
            crate::interim(&run).comparisons[0].verdict
        };
        let most = robustness(&figures, |_| {}).margins.unwrap().to.unwrap();
        assert_eq!(at(most), Verdict::Better);
        assert_eq!(at(most * 1.03), Verdict::Equivalent);
    }

    /// Adds server CPU time as another secondary metric.
    fn with_cpu(ratio: f64) -> impl FnOnce(&mut Run) {
        move |run| {
            for record in &mut run.attempts {
                let trial = record.outcome.measured_mut().unwrap();
                let mut figure = trial.figures[0].clone();
                figure.spec.name = "server-cpu".into();
                let is_arm = record.trial.arm == "7.2";
                let factor = if is_arm { ratio } else { 1.0 };
                figure.value = 5.0 * factor * (1.0 + 1e-4 * f64::from(record.trial.block % 3));
                trial.figures.push(figure);
            }
        }
    }

    #[test]
    fn another_metric_as_the_primary_one_says_the_same_the_opposite_or_something_else() {
        let agreement_with_cpu = |ratio| {
            let other = robustness(&around(1.07, 12), with_cpu(ratio))
                .metric
                .unwrap();
            assert_eq!(other.name, "server-cpu");
            other.agreement
        };
        assert_eq!(agreement_with_cpu(0.9), Agreement::Same);
        assert_eq!(agreement_with_cpu(1.1), Agreement::Opposite);
        assert_eq!(agreement_with_cpu(1.0), Agreement::Other);
        assert_eq!(
            agreement(Verdict::Better, Verdict::Undecided),
            Agreement::Nothing
        );
        // The latency of these runs follows from the rate, and is used only if there is no other metric.
        let other = robustness(&around(1.07, 12), |_| {}).metric.unwrap();
        assert_eq!(
            (&*other.name, other.agreement),
            ("latency-p99", Agreement::Same)
        );
    }

    #[test]
    fn a_trade_off_holds_up_to_the_margin_that_hides_the_other_metric() {
        let robustness = robustness(&around(1.07, 12), with_cpu(1.1));
        assert_eq!(carrying_blocks(&robustness), Vec::<u32>::new());
        let most = robustness.margins.unwrap().to.unwrap();
        assert!(
            0.05 < most && most <= 0.1,
            "beyond it CPU time is no trade-off any more: {most}"
        );
    }
}
