//! What a headline hangs on: a sensitivity analysis of a verdict that stands.
//!
//! ```text
//! blocks    each block left out in turn (a delete-one jackknife), the others looked at once at the primary metric's error rate
//! margins   the rule again, with its looks and sign flips, at other margins (`margins`)
//! metric    the rule again, with another metric in the place of the primary one
//! prices    the rule again, at other prices of string instructions (`prices`)
//! models    what runs on other CPU models said
//! ```
//! None of it is a test: the verdict has its error rate from looks that are paid for, and a reader who picks among these answers has
//! none. Without a block there is one look and not the run's looks, because a run stops at the first block that suffices: with one
//! block less its own looks would nearly always say nothing.

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
use stats::looks;
use stats::looks::fewest_blocks;
use stats::randomization::SignFlips;
use stats::rule;
use stats::rule::Series;
use stats::sequential_test::TestSetup;

/// By workload and arm as headlines are; nothing of arms that failed.
pub(crate) fn of(run: &Run, judgement: &Judgement) -> Vec<Robustness> {
    let headlines = judgement.headlines.iter();
    let said = headlines.filter(|one| !matches!(one.conclusion, Conclusion::Failed(_)));
    said.filter_map(|headline| {
        let (workload, arm) = (&headline.workload, &headline.arm);
        let its = judgement.comparisons.iter();
        let its: Vec<&Comparison> = its
            .filter(|one| one.workload == *workload && one.arm == *arm)
            .collect();
        let by_load = judgement.by_load.iter();
        let by_load: Vec<&ByLoad> = by_load
            .filter(|one| one.workload == *workload && one.arm == *arm)
            .collect();
        let subject = Subject::new(&run.plan.design, &its)?;
        Some(Robustness {
            workload: workload.clone(),
            arm: arm.clone(),
            blocks: subject.left_out(),
            margins: ByMargin::new(subject.design, subject.primary, &its, &by_load).ranges(),
            metric: subject.other_metric(),
            prices: headline.by_price.clone(),
            models: models(run, workload, arm),
        })
    })
    .collect()
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
        let primary = metrics.iter().find(|one| one.spec.role == Role::Primary)?;
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
            Verdict::Equivalent => 2.0 * looks::equivalence_error_rate(self.design),
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
        // One block is left out of as many at a time: all have the same sign flips.
        let flips = self.flips(pairs.len() - 1);
        for pair in pairs {
            let (own, loses) = self.without(Some(pair.block), &flips, &against);
            if own != verdict || (!against.is_empty() && loses.len() == against.len()) {
                carried_by.push(CarryingBlock {
                    block: pair.block,
                    verdict: own,
                    loses,
                    always: always(pairs, pair.block),
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

    /// The plan's design with one look, after so many blocks.
    fn one_look(&self, blocks: usize) -> Design {
        Design {
            min_blocks: blocks as u32,
            max_blocks: blocks as u32,
            more_blocks: 0,
            ..self.design.clone()
        }
    }

    fn flips(&self, blocks: usize) -> SignFlips {
        TestSetup::flips(blocks, &self.one_look(blocks), &self.key)
    }

    /// What one look says of the primary metric without a block, and which of some secondary ones speak against it no more.
    fn without(
        &self,
        block: Option<u32>,
        flips: &SignFlips,
        against: &[String],
    ) -> (Verdict, Vec<String>) {
        let left = |one: &Comparison| -> Vec<Pair> {
            let pairs = one.pairs.iter();
            let left = pairs.filter(|pair| Some(pair.block) != block);
            left.cloned().collect()
        };
        let primary = left(self.primary);
        let design = self.one_look(primary.len());
        let series = Series {
            pairs: &primary,
            direction: self.primary.spec.direction,
        };
        if against.is_empty() {
            let verdict = rule::with_flips(series, &design, flips, self.has_secondary());
            return (verdict.unwrap_or(self.primary.verdict), Vec::new());
        }
        let others: Vec<&Comparison> = self
            .metrics
            .iter()
            .copied()
            .filter(|one| one.spec.role == Role::Guard)
            .collect();
        let pairs: Vec<Vec<Pair>> = others.iter().map(|one| left(one)).collect();
        let of_others = others.iter().zip(&pairs).map(|(one, pairs)| Series {
            pairs,
            direction: one.spec.direction,
        });
        let all: Vec<Series<'_>> = [series].into_iter().chain(of_others).collect();
        let decisions = rule::decisions_at_stop(&all, &design, &self.key);
        let verdicts: Vec<Verdict> = decisions
            .iter()
            .map(|decision| decision.map_or(Verdict::Undecided, |decision| decision.verdict))
            .collect();
        let wanted = contrary(self.primary.verdict);
        let others = others.iter().zip(&verdicts[1..]);
        let lost =
            others.filter(|(one, verdict)| against.contains(&one.spec.name) && **verdict != wanted);
        (
            verdicts[0],
            lost.map(|(one, _)| one.spec.name.clone()).collect(),
        )
    }

    fn ratio_without(&self, block: u32) -> Option<f64> {
        let pairs = self.primary.pairs.iter();
        let left: Vec<Pair> = pairs.filter(|pair| pair.block != block).cloned().collect();
        rule::typical_ratio(Series {
            pairs: &left,
            direction: self.primary.spec.direction,
        })
    }

    /// The first secondary metric that is not the primary one in other words, else the first.
    fn other_metric(&self) -> Option<OtherMetric> {
        let own = family(&self.primary.spec.name);
        let usable = || {
            let others = self.metrics.iter();
            let others = others.filter(|one| one.spec.role == Role::Guard && !is_rate(&one.spec));
            others.filter_map(|one| Some((*one, self.as_primary(one)?)))
        };
        let is_unrelated = |one: &Comparison| {
            let family = family(&one.spec.name);
            family != own && family != Family::Shape
        };
        let unrelated = usable().find(|(one, _)| is_unrelated(one));
        let (one, verdict) = unrelated.or_else(|| usable().next())?;
        Some(OtherMetric {
            name: one.spec.name.clone(),
            verdict,
            agreement: agreement(self.primary.verdict, verdict),
        })
    }

    /// What a metric says at the primary one's error rate; `None` where it is zero throughout or missing in some block.
    fn as_primary(&self, one: &Comparison) -> Option<Verdict> {
        let is_number = |pair: &Pair| pair.baseline.is_finite() && pair.arm.is_finite();
        let is_whole = one.pairs.len() == self.primary.pairs.len();
        if one.pairs.is_empty() || !is_whole || !one.pairs.iter().all(is_number) {
            return None;
        }
        let series = Series {
            pairs: &one.pairs,
            direction: one.spec.direction,
        };
        rule::by_margin(series, self.design, &self.key, true)(self.design.margin)
    }
}

/// The place of the arm in all blocks but one, if it is the same in all.
fn always(pairs: &[Pair], without: u32) -> Option<Place> {
    let mut others = pairs.iter().filter(|pair| pair.block != without);
    let first = others.next()?.arm_first;
    others
        .all(|pair| pair.arm_first == first)
        .then_some(if first { Place::First } else { Place::Second })
}

fn agreement(own: Verdict, other: Verdict) -> Agreement {
    match (own, other) {
        (Verdict::Undecided, _) | (_, Verdict::Undecided) => Agreement::Nothing,
        (own, other) if own == other => Agreement::Same,
        (Verdict::Equivalent, _) | (_, Verdict::Equivalent) => Agreement::Other,
        (_, _) => Agreement::Opposite,
    }
}

/// Metrics that follow from each other: a rate and the times of what it counts, or what is spent on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// Rates, times and latencies.
    Service,
    /// CPU time and instructions.
    Cost,
    /// What failed.
    Faults,
    /// Memory in use.
    Memory,
    /// Where a curve bends, and what is left of it.
    Shape,
}

fn family(metric: &str) -> Family {
    let has = |words: &[&str]| words.iter().any(|word| metric.contains(word));
    // A capacity is what the server's instructions come to.
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

/// The worst of what other CPU models say.
fn models(run: &Run, workload: &str, arm: &str) -> Option<Standing> {
    let rows = run.models.as_ref()?.rows.iter();
    let its = rows.filter(|row| row.workload == workload && row.arm == arm);
    let its: Vec<Standing> = its.map(|row| row.standing).collect();
    let worst = [Standing::ModelDependent, Standing::Open, Standing::Holds];
    worst.into_iter().find(|standing| its.contains(standing))
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

    /// Blocks around a ratio, off by a few tenths of a percent.
    fn around(ratio: f64, blocks: u32) -> Vec<[f64; 2]> {
        let wobble = |block: u32| 1.0 + 0.002 * (f64::from(block * 7 % 11) / 5.0 - 1.0);
        (0..blocks)
            .map(|block| [100.0, 100.0 * ratio * wobble(block)])
            .collect()
    }

    fn carried(one: &Robustness) -> Vec<u32> {
        let LeftOut::Tried { carried_by, .. } = &one.blocks else {
            panic!("{one:?}")
        };
        carried_by.iter().map(|one| one.block).collect()
    }

    #[test]
    fn a_steady_gain_holds_without_any_block() {
        let one = robustness(&around(1.07, 12), |_| {});
        assert_eq!(carried(&one), Vec::<u32>::new());
        let LeftOut::Tried {
            range,
            blocks,
            at_once,
            ..
        } = one.blocks
        else {
            panic!("tried")
        };
        let (low, high) = range.unwrap();
        assert!(1.068 < low && low <= high && high < 1.072, "{low} {high}");
        assert_eq!((blocks, at_once), (12, Verdict::Better));
    }

    /// Gains that are small beside their noise: some are carried by some of their blocks, and without such a block a run that is looked
    /// at once says something else.
    #[test]
    fn a_headline_that_one_block_carries_names_it() {
        let mut found = 0;
        for seed in 0..80 {
            let noise = pairs(REFERENCE, 0.05, 10, (seed, 0));
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
            found += 1;
            for one in carried_by.iter().take(2) {
                let without = builder().with(|run| {
                    run.attempts
                        .retain(|record| record.trial.block != one.block);
                    run.facts.truncate(run.attempts.len());
                    (run.plan.design.min_blocks, run.plan.design.max_blocks) = (9, 9);
                });
                let said = crate::look(&without.run()).comparisons[0].verdict;
                assert!(said != verdict && said == one.verdict, "{said:?} {one:?}");
            }
            if found == 1 {
                break;
            }
        }
        assert!(found > 0);
    }

    #[test]
    fn what_is_undecided_hangs_on_nothing_and_few_blocks_cannot_spare_one() {
        let noisy: Vec<[f64; 2]> = (0..12)
            .map(|block| [100.0, 100.0 + f64::from(block * 7 % 5) * 9.0 - 18.0])
            .collect();
        let one = robustness(&noisy, |_| {});
        assert_eq!((one.blocks, one.margins), (LeftOut::Undecided, None));
        let few = robustness(&around(1.07, 7), |run| {
            (run.plan.design.max_blocks, run.plan.design.min_blocks) = (7, 7);
        });
        assert_eq!(few.blocks, LeftOut::TooFew { needed: 8 });
    }

    #[test]
    fn a_difference_has_the_largest_margin_and_equivalence_the_smallest() {
        // Better whatever the margin, but for those within which it would have been called equivalent sooner.
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
            crate::look(&run).comparisons[0].verdict
        };
        let most = robustness(&figures, |_| {}).margins.unwrap().to.unwrap();
        assert_eq!(at(most), Verdict::Better);
        assert_eq!(at(most * 1.03), Verdict::Equivalent);
    }

    /// Server CPU time as another secondary metric.
    fn with_cpu(ratio: f64) -> impl FnOnce(&mut Run) {
        move |run| {
            for record in &mut run.attempts {
                let trial = record.outcome.measured_mut().unwrap();
                let mut figure = trial.figures[0].clone();
                figure.spec.name = "server-cpu".into();
                let times = if record.trial.arm == "7.2" {
                    ratio
                } else {
                    1.0
                };
                figure.value = 5.0 * times * (1.0 + 1e-4 * f64::from(record.trial.block % 3));
                trial.figures.push(figure);
            }
        }
    }

    #[test]
    fn another_metric_as_the_primary_one_says_the_same_the_opposite_or_something_else() {
        let said = |ratio| {
            let other = robustness(&around(1.07, 12), with_cpu(ratio))
                .metric
                .unwrap();
            assert_eq!(other.name, "server-cpu");
            other.agreement
        };
        assert_eq!(said(0.9), Agreement::Same);
        assert_eq!(said(1.1), Agreement::Opposite);
        assert_eq!(said(1.0), Agreement::Other);
        assert_eq!(
            agreement(Verdict::Better, Verdict::Undecided),
            Agreement::Nothing
        );
        // The latency of these runs is the rate in other words, and is taken where there is nothing else.
        let other = robustness(&around(1.07, 12), |_| {}).metric.unwrap();
        assert_eq!(
            (&*other.name, other.agreement),
            ("latency-p99", Agreement::Same)
        );
    }

    #[test]
    fn a_trade_off_is_carried_by_what_makes_it_one() {
        let one = robustness(&around(1.07, 12), with_cpu(1.1));
        assert_eq!(carried(&one), Vec::<u32>::new());
        let margins = one.margins.unwrap();
        let most = margins.to.unwrap();
        assert!(
            0.05 < most && most <= 0.1,
            "beyond it CPU time is no trade-off any more: {most}"
        );
    }
}
