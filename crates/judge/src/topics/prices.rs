//! What the verdict would be, if a byte that string instructions move cost something else.
//!
//! A byte of data in the nearest cache costs a CPU about 1/32 of an instruction's time, one of data in memory 1/3. The truth of a
//! workload lies between them, and no count of instructions tells where: a verdict that does not stand at both is one on the price.

use std::cmp::Ordering;

use plan::StringPrice;
use record::instructions::VIRTUAL;
use record::models::Standing;
use record::rundir::Run;
use record::trial::Measurement;
use record::verdict::reason::Reason;
use record::verdict::robustness::{AtPrice, ByPrice};
use record::verdict::{Comparison, Conclusion, Headline, Pair, Verdict};

use crate::topics::metrics::measured::Measured;
use stats::rule;
use stats::rule::Series;

/// Judges the primary metric of each headline at other prices; one that does not stand there is the model's.
pub(crate) fn judge(run: &Run, measured: &Measured<'_>, headlines: &mut [Headline]) {
    let Some(price) = run.opening.string_price else {
        return;
    };
    for headline in headlines {
        let by_price = by_price(run, measured, &headline.workload, &headline.arm, price);
        let is_dependent =
            by_price.as_ref().map(|found| found.standing) == Some(Standing::ModelDependent);
        if let Some(primary) = decided(&headline.conclusion).filter(|_| is_dependent) {
            headline.conclusion = Conclusion::ModelDependent {
                primary,
                against: headline.conclusion.against().to_vec(),
                curves: headline.conclusion.curves().to_vec(),
            };
        }
        headline.by_price = by_price;
    }
}

/// Where arms differ by more than this in the share of string instructions, times by the guest's clock are not compared.
const MOST_APART: f64 = 0.1;

/// Takes the verdict from times that are not comparable: they are scaled by the whole window's string instructions, and a request's
/// own may be more or fewer.
pub(crate) fn withdraw_times(
    baseline: &str,
    measured: &Measured<'_>,
    comparisons: &mut [Comparison],
) {
    let is_time = |comparison: &&mut Comparison| comparison.spec.unit.starts_with(VIRTUAL);
    for comparison in comparisons.iter_mut().filter(is_time) {
        let share = |arm: &str| {
            let trials = measured.of_arm(&comparison.workload, arm);
            let counted = trials
                .iter()
                .filter_map(|trial| trial.instructions.as_ref());
            let shares: Vec<f64> = counted.map(|counts| counts.window.string_share()).collect();
            shares.iter().sum::<f64>() / shares.len().max(1) as f64
        };
        let shares = [baseline, &comparison.arm].map(share);
        if (shares[1] - shares[0]).abs() > MOST_APART {
            comparison.verdict = Verdict::Undecided;
            comparison.reason = Reason::StringShares { shares };
        }
    }
}

/// What a conclusion says of the primary metric.
fn decided(conclusion: &Conclusion) -> Option<Verdict> {
    match conclusion {
        Conclusion::Better => Some(Verdict::Better),
        Conclusion::Worse => Some(Verdict::Worse),
        Conclusion::Equivalent => Some(Verdict::Equivalent),
        Conclusion::TradeOff { primary, .. } | Conclusion::ModelDependent { primary, .. } => {
            Some(*primary)
        }
        Conclusion::Undecided { .. } | Conclusion::Failed(_) | Conclusion::Withheld { .. } => None,
    }
}

fn by_price(
    run: &Run,
    measured: &Measured<'_>,
    workload: &str,
    arm: &str,
    price: StringPrice,
) -> Option<ByPrice> {
    let specs = measured.specs(workload);
    let primary = specs.first()?;
    let [low, high] = StringPrice::BYTE_RANGE;
    let at = |byte: f64| -> Option<AtPrice> {
        let price = price.with_byte(byte);
        let figure = |measurement: &Measurement| {
            let charged = measurement.instructions.as_ref()?.charged(price);
            let found = charged
                .iter()
                .find(|figure| figure.spec.name == primary.name);
            found.map(|figure| figure.value)
        };
        let pairs = measured.pairs_by(workload, &run.plan.baseline, arm, &figure);
        (!pairs.is_empty()).then(|| decide(run, workload, arm, &pairs, byte, &specs))
    };
    let at: Vec<AtPrice> = [price.byte, low, high]
        .into_iter()
        .map(at)
        .collect::<Option<_>>()?;
    let standing = standing(&at, run.plan.design.margin)?;
    Some(ByPrice { standing, at })
}

fn decide(
    run: &Run,
    workload: &str,
    arm: &str,
    pairs: &[Pair],
    byte: f64,
    specs: &[record::metric::MetricSpec],
) -> AtPrice {
    let series = Series {
        pairs,
        direction: specs[0].direction,
    };
    // What else a workload measures takes its part of the error rate, whatever it is.
    let series = vec![series; specs.len().min(2)];
    let key = format!("{workload}\n{arm}");
    let finding = rule::decide(&series, &run.plan.design, &key).remove(0);
    let interval = finding.shown_interval();
    AtPrice {
        byte,
        verdict: finding.verdict,
        ratio: finding.ratio,
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
        confidence: finding.confidence,
    }
}

/// Whether the verdict at the first price stands at the others.
fn standing(at: &[AtPrice], margin: f64) -> Option<Standing> {
    let (first, others) = at.split_first()?;
    let each: Vec<Standing> = others
        .iter()
        .map(|other| beside(first, other, margin))
        .collect();
    let worst = [Standing::ModelDependent, Standing::Open];
    let found = worst.into_iter().find(|standing| each.contains(standing));
    Some(found.unwrap_or(Standing::Holds))
}

/// A verdict does not stand where another one is said, or where the estimate has another sign or leaves its side of the margin.
fn beside(first: &AtPrice, other: &AtPrice, margin: f64) -> Standing {
    let side = |at: &AtPrice| {
        let log = at.ratio?.ln();
        Some(if log.abs() <= margin.ln_1p() {
            Ordering::Equal
        } else {
            log.total_cmp(&0.0)
        })
    };
    let sides = side(first).zip(side(other));
    let moves = sides.is_some_and(|(first, other)| first != other);
    match (first.verdict, other.verdict) {
        (Verdict::Undecided, _) => Standing::Open,
        (_, _) if moves => Standing::ModelDependent,
        (first, other) if first == other => Standing::Holds,
        (_, Verdict::Undecided) => Standing::Open,
        (_, _) => Standing::ModelDependent,
    }
}

#[cfg(test)]
mod tests {
    use record::fixtures::builder::RunBuilder;
    use record::instructions::{Executed, Instructions};
    use record::metric::{Direction, Role};

    use super::*;

    fn at(verdict: Verdict, ratio: f64) -> AtPrice {
        AtPrice {
            byte: 0.125,
            verdict,
            ratio: Some(ratio),
            low: None,
            high: None,
            confidence: None,
        }
    }

    #[track_caller]
    fn check(first: AtPrice, other: AtPrice, want: Standing) {
        let at = [first.clone(), first, other];
        assert_eq!(standing(&at, 0.01), Some(want));
    }

    #[test]
    fn a_verdict_that_flips_or_crosses_the_margin_is_the_models() {
        use Verdict::{Better, Equivalent, Undecided, Worse};
        check(at(Better, 1.15), at(Better, 1.12), Standing::Holds);
        check(at(Worse, 0.95), at(Worse, 0.98), Standing::Holds);
        check(at(Better, 1.15), at(Worse, 0.97), Standing::ModelDependent);
        check(
            at(Better, 1.15),
            at(Undecided, 0.97),
            Standing::ModelDependent,
        );
        check(
            at(Better, 1.02),
            at(Better, 1.009),
            Standing::ModelDependent,
        );
        check(at(Equivalent, 1.0), at(Equivalent, 1.004), Standing::Holds);
        check(
            at(Equivalent, 1.0),
            at(Better, 1.03),
            Standing::ModelDependent,
        );
        check(at(Better, 1.15), at(Undecided, 1.12), Standing::Open);
        check(at(Undecided, 1.15), at(Better, 1.15), Standing::Open);
        assert_eq!(standing(&[], 0.01), None);
    }

    /// Twelve blocks in which the arm executes so many plain instructions a request, and moves so many bytes by iterations of one.
    fn counted(plain: u64, bytes: u64) -> Run {
        let blocks: Vec<[f64; 2]> = (0..12).map(|_| [1.0, 1.0]).collect();
        let mut run = RunBuilder::new().blocks(&blocks).run();
        run.opening.ns_per_instruction = Some(2);
        run.opening.string_price = Some(StringPrice::USUAL);
        for record in &mut run.attempts {
            let measurement = record.outcome.measured_mut().unwrap();
            let (plain, bytes) = if record.trial.arm == "6.1" {
                (100_000, 100_000)
            } else {
                (plain, bytes)
            };
            let counts = instructions(plain, bytes, u64::from(record.trial.block));
            measurement.figures = counts.charged(StringPrice::USUAL);
            measurement.instructions = Some(Box::new(counts));
        }
        run
    }

    /// A busy second of requests that each take so many plain instructions and string bytes, a little more in some blocks.
    fn instructions(plain: u64, bytes: u64, block: u64) -> Instructions {
        let plain = plain + block * 7 % 5 * 20;
        let requests = 500_000_000 / (plain + bytes);
        let figure = |name, unit, direction, role, value| {
            record::metric::Figure::new(name, unit, direction, role, value)
        };
        Instructions {
            window: Executed {
                instructions: requests * (plain + bytes),
                starts: [0; 4],
                repeats: [requests * bytes, 0, 0, 0],
            },
            steps: Vec::new(),
            groups: std::collections::BTreeMap::new(),
            window_ns: 1_000_000_000,
            ns_per_instruction: 2,
            decider_is_named: false,
            drive_is_simulated: false,
            figures: vec![
                figure(
                    "throughput",
                    "requests/s",
                    Direction::Higher,
                    Role::Primary,
                    requests as f64,
                ),
                figure(
                    "latency-p99",
                    "us",
                    Direction::Lower,
                    Role::Secondary,
                    1e6 / requests as f64,
                ),
            ],
            curves: Vec::new(),
        }
    }

    fn judged(plain: u64, bytes: u64) -> (Conclusion, Vec<AtPrice>) {
        let judgement = crate::summary(&counted(plain, bytes));
        let headline = judgement
            .headlines
            .into_iter()
            .find(|headline| headline.arm == "7.2");
        let headline = headline.unwrap();
        (headline.conclusion, headline.by_price.unwrap().at)
    }

    #[test]
    fn bytes_are_charged_at_the_plans_price_and_at_both_ends_of_the_range() {
        // As many instructions by the guest's clock, and a fifth more of those that a CPU takes one by one.
        let (conclusion, at) = judged(120_000, 80_000);
        assert_eq!(conclusion, Conclusion::Worse);
        let ratios: Vec<f64> = at.iter().map(|at| at.ratio.unwrap()).collect();
        let want = [
            112_500.0 / 130_000.0,
            103_125.0 / 122_500.0,
            133_333.0 / 146_667.0,
        ];
        for (ratio, want) in ratios.iter().zip(want) {
            assert!((ratio - want).abs() < 2e-3, "{ratios:?}");
        }
    }

    #[test]
    fn a_verdict_whose_sign_hangs_on_the_price_is_the_models() {
        // More plain instructions, far fewer bytes: worse where bytes are cheap, better where they are dear.
        let (conclusion, at) = judged(108_000, 60_000);
        assert!(
            matches!(conclusion, Conclusion::ModelDependent { .. }),
            "{conclusion:?} {at:?}"
        );
        let verdicts: Vec<Verdict> = at.iter().map(|at| at.verdict).collect();
        assert_eq!(verdicts[1..], [Verdict::Worse, Verdict::Better]);
    }

    #[test]
    fn times_of_arms_that_differ_in_string_instructions_are_not_compared() {
        let is_withdrawn = |plain, bytes| {
            let judgement = crate::summary(&counted(plain, bytes));
            let time = judgement.comparison("web", "7.2", "latency-p99").unwrap();
            matches!(time.reason, Reason::StringShares { .. })
        };
        assert!(is_withdrawn(150_000, 50_000));
        assert!(!is_withdrawn(110_000, 95_000));
    }
}
