//! What the verdict would be, if iterations of string instructions cost something else than an instruction each.
//!
//! The clock charges every iteration, of eight bytes, as an instruction. Natively one took about as long as a plain instruction with
//! its data in the nearest cache (docs/guide.md), and with fast strings a CPU moves 32 bytes and more in that time: so the truth lies
//! at 1 or below. A loop of moves takes two and a half for as many bytes: where one kernel copies by string
//! instructions and the other by such a loop, only that cost treats both alike. A verdict that does not stand from 2.5 down to
//! 1/8 is one on the clock.

use record::models::Standing;
use record::rundir::Run;
use record::verdict::why::RepCost;
use record::verdict::{Pair, Verdict};

use crate::models::MOST_MOVED;
use crate::pair::Measured;
use crate::rule::{self, Series};

/// Costs of an iteration, the clock's first.
const COSTS: [f64; 4] = [1.0, 2.5, 0.25, 0.125];

/// Share of the time of a request that its instructions must fill, so that its rate follows from them.
const LEAST_BUSY: f64 = 0.5;

/// Iterations and instructions of one trial, per request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RepCounts {
    pub(super) instructions: f64,
    pub(super) iterations: f64,
}

/// Those of blocks; the baseline's first.
#[derive(Debug, Clone, Copy)]
pub(super) struct RepBlocks<'r> {
    pub(super) blocks: &'r [u32],
    pub(super) sides: &'r [Vec<RepCounts>; 2],
}

impl RepBlocks<'_> {
    fn of(&self, block: u32) -> Option<[RepCounts; 2]> {
        let place = self.blocks.iter().position(|one| *one == block)?;
        Some([self.sides[0][place], self.sides[1][place]])
    }
}

/// The primary metric at each cost, as the run would be judged of these blocks alone; empty where it is no rate of requests and no
/// number of instructions.
pub(super) fn costs(
    run: &Run,
    (workload, arm): (&str, &str),
    blocks: RepBlocks<'_>,
) -> Vec<RepCost> {
    let measured = Measured::of(run);
    let specs = measured.specs(workload);
    let Some(primary) = specs.first() else {
        return Vec::new();
    };
    let mut pairs = measured.pairs(workload, (&run.plan.baseline, arm), &primary.name);
    pairs.retain(|pair| blocks.of(pair.block).is_some());
    let ns_per_instruction = run.opening.ns_per_instruction.map(f64::from);
    let at = |cost: f64| -> Option<RepCost> {
        let changed = changed(&pairs, blocks, cost, &primary.unit, ns_per_instruction)?;
        let series = Series {
            pairs: &changed,
            direction: primary.direction,
        };
        // What else a workload measures takes its part of the error rate, whatever it is.
        let series = vec![series; specs.len().min(2)];
        let key = format!("{workload}\n{arm}");
        let finding = rule::decide(&series, &run.plan.design, &key).remove(0);
        let interval = finding.shown_interval();
        Some(RepCost {
            cost,
            verdict: finding.verdict,
            ratio: finding.ratio,
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
        })
    };
    let costs: Option<Vec<RepCost>> = COSTS.into_iter().map(at).collect();
    costs.unwrap_or_default()
}

/// The primary metric's pairs at a cost; `None` where they do not follow from instructions.
fn changed(
    pairs: &[Pair],
    blocks: RepBlocks<'_>,
    cost: f64,
    unit: &str,
    ns_per_instruction: Option<f64>,
) -> Option<Vec<Pair>> {
    let mut changed = pairs.to_vec();
    for pair in &mut changed {
        let sides = blocks.of(pair.block)?.into_iter();
        for (figure, counts) in [&mut pair.baseline, &mut pair.arm].into_iter().zip(sides) {
            let saved = (1.0 - cost) * counts.iterations;
            *figure = match unit {
                "instructions/request" => *figure - saved,
                _ if unit.ends_with("/s") => {
                    // Of a request, in instructions; idle time is in it.
                    let whole = 1e9 / (*figure * ns_per_instruction?);
                    let busy = counts.instructions / whole;
                    if !(LEAST_BUSY..=1.02).contains(&busy) {
                        return None;
                    }
                    *figure * whole / (whole - saved)
                }
                _ => return None,
            };
        }
    }
    Some(changed)
}

/// Whether the verdict stands at all costs.
pub(super) fn standing(costs: &[RepCost], margin: f64) -> Option<Standing> {
    let (own, others) = costs.split_first()?;
    let each: Vec<Standing> = others
        .iter()
        .map(|other| beside(own, other, margin))
        .collect();
    let has = |standing| each.contains(&standing);
    Some(if has(Standing::ModelDependent) {
        Standing::ModelDependent
    } else if has(Standing::Open) {
        Standing::Open
    } else {
        Standing::Holds
    })
}

fn beside(own: &RepCost, other: &RepCost, margin: f64) -> Standing {
    let logs = own
        .ratio
        .zip(other.ratio)
        .map(|(own, other)| (own.ln(), other.ln()));
    let is_beyond = |log: f64| log.abs() > margin.ln_1p();
    let leaves = logs.is_some_and(|(own, other)| is_beyond(own) != is_beyond(other));
    let is_moved = logs.is_some_and(|(own, other)| ((other - own) / own).abs() > MOST_MOVED);
    match (own.verdict, other.verdict) {
        (Verdict::Better | Verdict::Worse, _) if is_moved || leaves => Standing::ModelDependent,
        (Verdict::Equivalent, _) if leaves => Standing::ModelDependent,
        (Verdict::Undecided, _) | (_, Verdict::Undecided) => Standing::Open,
        (own, other) if own == other => Standing::Holds,
        (_, _) => Standing::ModelDependent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(verdict: Verdict, ratio: f64) -> RepCost {
        RepCost {
            cost: 1.0,
            verdict,
            ratio: Some(ratio),
            low: None,
            high: None,
        }
    }

    #[track_caller]
    fn check(own: (Verdict, f64), other: (Verdict, f64), want: Standing) {
        let costs = [
            cost(own.0, own.1),
            cost(own.0, own.1),
            cost(other.0, other.1),
        ];
        assert_eq!(standing(&costs, 0.01), Some(want));
    }

    #[test]
    fn a_verdict_that_flips_moves_or_crosses_the_margin_is_the_models() {
        use Verdict::{Better, Equivalent, Undecided, Worse};
        check((Better, 1.15), (Better, 1.12), Standing::Holds);
        check((Better, 1.15), (Worse, 0.97), Standing::ModelDependent);
        check((Better, 1.15), (Better, 1.03), Standing::ModelDependent);
        check((Better, 1.02), (Better, 1.009), Standing::ModelDependent);
        check((Equivalent, 1.0), (Equivalent, 1.004), Standing::Holds);
        check((Equivalent, 1.0), (Better, 1.03), Standing::ModelDependent);
        check((Better, 1.15), (Undecided, 1.12), Standing::Open);
        check((Undecided, 1.15), (Better, 1.15), Standing::Open);
        assert_eq!(standing(&[], 0.01), None);
    }
}
