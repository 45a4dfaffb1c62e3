//! What a headline hangs on, at which loads an arm is better, and what is known of the machine, in words.

use base::input::units::{show_share, significant};
use record::models::Standing;
use record::verdict::host::{History, OneSided};
use record::verdict::reason::Place;
use record::verdict::robustness::{
    Agreement, AtLoad, ByLoad, ByPrice, CarryingBlock, LeftOut, Margins, OtherMetric, Robustness,
};
use record::verdict::{Judgement, Verdict};

use crate::topics::why::tell::notes::fraction;
use crate::words::levels::{Levels, in_words};

use crate::topics::loads::tell as curves;
use crate::words::{NONE, change, counted, interval_of};

/// Of many blocks only so many are named.
const NAMED: usize = 5;

/// What a headline hangs on in one line: what holds, and first what does not. Nothing where nothing is said.
pub(crate) fn line(one: &Robustness) -> Option<String> {
    if one.blocks == LeftOut::Undecided {
        return None;
    }
    let parts: Vec<String> = [
        Some(blocks(&one.blocks)),
        one.margins.as_ref().map(margins),
        one.metric.as_ref().map(metric),
        one.prices.as_ref().map(prices),
        one.models.map(|standing| models(standing).into()),
    ]
    .into_iter()
    .flatten()
    .collect();
    Some(format!("sensitivity: {}", parts.join("; ")))
}

/// The same as rows: what was changed, and what came of it.
pub(crate) fn rows(one: &Robustness) -> Vec<[String; 2]> {
    let cells = [
        ("each block left out in turn", Some(blocks(&one.blocks))),
        ("another margin", one.margins.as_ref().map(margins)),
        (
            "another metric as the primary one",
            one.metric.as_ref().map(metric),
        ),
        (
            "another price of string instructions",
            one.prices.as_ref().map(prices),
        ),
        (
            "another CPU model",
            one.models.map(|standing| models(standing).into()),
        ),
    ];
    let cells = cells.into_iter();
    cells
        .map(|(name, said)| [name.to_string(), said.unwrap_or(NONE.into())])
        .collect()
}

fn blocks(left_out: &LeftOut) -> String {
    match left_out {
        LeftOut::Undecided => "undecided with all blocks".into(),
        LeftOut::TooFew { needed } => {
            let fewest = needed - 1;
            format!(
                "no block can be left out: fewer than {fewest} would remain, of which this error rate lets nothing be said"
            )
        }
        LeftOut::Tried {
            blocks,
            range,
            at_once,
            carried_by,
        } => {
            let range = range.map_or(String::new(), |(low, high)| {
                let [low, high] = [low, high].map(|ratio| change(Some(ratio)));
                if low == high {
                    format!(" ({low})")
                } else {
                    format!(" ({low} to {high})")
                }
            });
            // Where the others ran in one order, nothing could be told whatever they showed.
            let (untold, flipped): (Vec<&CarryingBlock>, Vec<&CarryingBlock>) =
                carried_by.iter().partition(|one| one.always.is_some());
            let untold: Vec<String> = untold.into_iter().filter_map(one_way).collect();
            let untold = match untold.as_slice() {
                [] => String::new(),
                untold => format!("; {}", untold.join("; ")),
            };
            if flipped.is_empty() {
                let left_out = blocks - carried_by.len() as u32;
                let all = match carried_by.len() {
                    0 => format!("any one of {}", crate::words::blocks(*blocks)),
                    _ => format!("any other one of {}", crate::words::blocks(left_out)),
                };
                return format!("holds without {all}{range}{untold}");
            }
            if flipped.len() == *blocks as usize {
                return format!(
                    "one block less and it does not hold, whichever of {blocks}{range}; one look at all says {}",
                    at_once.word()
                );
            }
            let named: Vec<String> = flipped
                .iter()
                .take(NAMED)
                .map(|one| carrying(one))
                .collect();
            let more = match flipped.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                "does NOT hold without block {}{more}, of {blocks} left out in turn{range}{untold}",
                named.join(", ")
            )
        }
    }
}

/// A block without which the arm ran in one place of all others.
fn one_way(one: &CarryingBlock) -> Option<String> {
    let place = match one.always? {
        Place::First => "first",
        Place::Second => "second",
    };
    Some(format!(
        "without block {} nothing can be told, because the arm ran {place} in all others",
        one.block
    ))
}

/// `4 (undecided)`.
fn carrying(one: &CarryingBlock) -> String {
    let what = match one.loses.len() {
        0 => one.verdict.word().to_string(),
        _ => format!("{} speaks against it no more", one.loses.join(", ")),
    };
    format!("{} ({what})", one.block)
}

fn margins(margins: &Margins) -> String {
    let own = (margins.from, margins.to);
    if own == (None, None) {
        return "holds for any margin".into();
    }
    let again = match margins.again.as_slice() {
        [] => String::new(),
        [one] => format!(", and again {}", range((one.from, one.to))),
        // Near a border the verdict may change with each look: where that is says enough.
        [first, .., last] => {
            let all = range((first.from, last.to));
            format!(", and again for some {all}")
        }
    };
    format!("holds for margins {}{again}", range(own))
}

/// The digits are those of the ends: rounded again, they would not be true.
fn range(ends: (Option<f64>, Option<f64>)) -> String {
    let percent = |margin: f64| show_share(margin, 7);
    match ends {
        (None, None) => "of any size".into(),
        (None, Some(to)) => format!("up to {}", percent(to)),
        (Some(from), None) => format!("from {}", percent(from)),
        (Some(from), Some(to)) => format!("from {} to {}", percent(from), percent(to)),
    }
}

fn metric(other: &OtherMetric) -> String {
    let OtherMetric {
        name,
        verdict,
        agreement,
    } = other;
    let says = match agreement {
        Agreement::Same => "the same",
        Agreement::Opposite => "the OPPOSITE",
        Agreement::Other => "something else",
        Agreement::Nothing => "nothing",
    };
    format!(
        "{name} in place of the primary metric says {says} ({})",
        verdict.word()
    )
}

/// Other CPU models.
fn models(standing: Standing) -> &'static str {
    match standing {
        Standing::Holds => "holds on other CPU models",
        Standing::ModelDependent => "does NOT hold on another CPU model",
        Standing::Open => "open on other CPU models",
    }
}

/// Other prices of string instructions.
fn prices(by_price: &ByPrice) -> String {
    let says = match by_price.standing {
        Standing::Holds => "holds",
        Standing::ModelDependent => "does NOT hold",
        Standing::Open => "open",
    };
    let others = by_price.at.iter().skip(1);
    let others: Vec<String> = others
        .map(|at| format!("{} at {}", change(at.ratio), fraction(at.byte)))
        .collect();
    format!(
        "{says} at other prices of a string byte ({} of an instruction)",
        others.join(", ")
    )
}

/// What a headline says at each price, where that is not the same.
pub(crate) fn at_prices(by_price: &ByPrice) -> String {
    let each = by_price.at.iter().map(|at| {
        let (word, change) = (at.verdict.word(), change(at.ratio));
        let interval = in_words(&interval_of(at.low, at.high), at.confidence);
        format!("{word} {change} {interval} at {}", fraction(at.byte))
    });
    let each: Vec<String> = each.collect();
    format!(
        "what a byte of a string instruction costs decides: {} of an instruction",
        each.join(", ")
    )
}

/// Loads at which an arm is better or worse, as table rows with their head.
pub(crate) fn load_rows(one: &ByLoad) -> Vec<Vec<String>> {
    let levels = Levels::of([one.confidence]);
    let head = [&*one.axis, "verdict", "change", &levels.head()].map(String::from);
    let row = |load: &AtLoad| {
        vec![
            curves::load(load.at),
            load.verdict.word().into(),
            change(load.ratio),
            interval_of(load.low, load.high),
        ]
    };
    let rows = one.loads.iter().map(row);
    [head.to_vec()].into_iter().chain(rows).collect()
}

/// The title of that table.
pub(crate) fn load_title(one: &ByLoad, baseline: &str) -> String {
    let also = match one.also.as_slice() {
        [] => String::new(),
        also => format!(" (and {}, which differs alike)", also.join(", ")),
    };
    format!(
        "{}{also} at each load, {} against {baseline}, {}",
        crate::words::arrowed(&one.curve, one.direction),
        one.arm,
        crate::words::blocks(one.blocks)
    )
}

/// At which loads which arm is better.
pub(crate) fn load_sentence(one: &ByLoad, baseline: &str) -> String {
    if one.blocks < one.needed {
        return format!(
            "{} are too few to tell loads apart ({} are needed)",
            crate::words::blocks(one.blocks),
            one.needed
        );
    }
    let at = |verdict: Verdict| {
        let loads = one.beyond(verdict);
        loads
            .map(|load| curves::load(load.at))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let (better, worse) = (at(Verdict::Better), at(Verdict::Worse));
    let (arm, axis) = (&one.arm, &one.axis);
    match (better.is_empty(), worse.is_empty()) {
        (true, true) => format!("{arm} and {baseline} differ at no load by more than the margin"),
        (false, true) => format!("{arm} is better at {better} {axis}, and nowhere worse"),
        (true, false) => {
            format!("{arm} is worse at {worse} {axis}, and nowhere better by more than the margin")
        }
        (false, false) => format!(
            "the curves cross, so that there is no single winner: {arm} is better at {better} and {baseline} at {worse} {axis}"
        ),
    }
}

/// What curves say against a headline: `at 144 clients its throughput is 32.0 % lower [..]`.
pub(crate) fn against_by_load(
    judgement: &Judgement,
    (workload, arm): (&str, &str),
    primary: Verdict,
    curves: &[String],
) -> Vec<String> {
    let contrary = match primary {
        Verdict::Worse => Verdict::Better,
        Verdict::Better | Verdict::Equivalent | Verdict::Undecided => Verdict::Worse,
    };
    let its = judgement
        .by_load
        .iter()
        .filter(|one| one.workload == workload && one.arm == arm && curves.contains(&one.curve));
    let worst = its.filter_map(|one| {
        let size = |load: &AtLoad| load.ratio.map_or(f64::INFINITY, |ratio| ratio.ln().abs());
        let worst = one
            .beyond(contrary)
            .max_by(|one, other| size(one).total_cmp(&size(other)))?;
        let by = match worst.ratio {
            Some(ratio) => format!(
                "{} {}",
                change(Some(ratio)),
                in_words(&interval_of(worst.low, worst.high), one.confidence)
            ),
            None => contrary.word().into(),
        };
        let at = curves::load(worst.at);
        Some(format!("{} at {at} {}: {by}", one.curve, one.axis))
    });
    worst.collect()
}

/// What is known of the machine from its A/A runs.
pub(crate) fn history(judgement: &Judgement) -> String {
    match &judgement.a_a {
        History::NotKnown => {
            "A/A history of this machine: not known (an earlier version made this run, or a-a.json is gone)".into()
        }
        History::None => {
            "A/A history of this machine: none (bakeoff run PLAN --a-a makes one)".into()
        }
        History::Known {
            runs,
            blocks,
            told_apart,
            e_value,
            e_value_of_blocks,
            has_failed,
        } => {
            let verdict = if *has_failed {
                ": no verdict of this machine is worth anything"
            } else {
                ""
            };
            format!(
                "A/A history of this machine: {} of {}, {told_apart} told apart, e-value {}, of blocks {} (fails at 100){verdict}",
                counted(*runs, "run"),
                crate::words::blocks(*blocks),
                significant(*e_value, 2),
                significant(*e_value_of_blocks, 2)
            )
        }
    }
}

/// Arms that moved one way in all workloads.
pub(crate) fn one_sided(judgement: &Judgement) -> Vec<String> {
    let sentence = |one: &OneSided| {
        let (low, high) = one.range;
        let beside = judgement
            .host_speed
            .iter()
            .filter(|speed| speed.arm == one.arm);
        let logs: Vec<f64> = beside.map(|speed| speed.ratio.ln()).collect();
        let host =
            match logs.iter().copied().reduce(
                |one, other| {
                    if one.abs() < other.abs() { other } else { one }
                },
            ) {
                Some(most) => format!(
                    "a fixed piece of work on the host differed by {} at the most",
                    change(Some(most.exp()))
                ),
                None => "nothing is known that no arm can move".into(),
            };
        format!(
            "{} is {} in all {} workloads, {} to {}, which is rare of unrelated work and points to the rig unless the kernel explains it ({host})",
            one.arm,
            one.verdict.word(),
            one.workloads,
            change(Some(low)),
            change(Some(high))
        )
    };
    judgement.one_sided.iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use record::verdict::robustness::{AtPrice, Range};

    use super::*;

    fn tried(carried_by: Vec<CarryingBlock>) -> String {
        blocks(&LeftOut::Tried {
            blocks: 6,
            range: Some((1.07, 1.075)),
            at_once: Verdict::Better,
            carried_by,
        })
    }

    fn block(block: u32, loses: &[&str]) -> CarryingBlock {
        CarryingBlock {
            block,
            verdict: Verdict::Undecided,
            always: None,
            loses: loses.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn blocks_are_told_as_what_holds_and_what_does_not() {
        assert_eq!(
            tried(Vec::new()),
            "holds without any one of 6 blocks (+7.00 % to +7.50 %)"
        );
        assert_eq!(
            tried(vec![block(2, &[]), block(5, &["latency-p99"])]),
            "does NOT hold without block 2 (undecided), 5 (latency-p99 speaks against it no more), of 6 left out in turn \
             (+7.00 % to +7.50 %)"
        );
        assert_eq!(
            tried((1..=6).map(|number| block(number, &[])).collect()),
            "one block less and it does not hold, whichever of 6 (+7.00 % to +7.50 %); one look at all says better"
        );
    }

    #[test]
    fn margins_are_told_as_a_range() {
        let said = |from, to| {
            let again = Vec::new();
            margins(&Margins { from, to, again })
        };
        assert_eq!(said(None, Some(0.029)), "holds for margins up to 2.9 %");
        assert_eq!(said(Some(0.0042), None), "holds for margins from 0.42 %");
        assert_eq!(said(None, None), "holds for any margin");
        assert_eq!(
            said(Some(0.00459), Some(0.004_627_5)),
            "holds for margins from 0.459 % to 0.46275 %"
        );
        let again = |ranges: &[(f64, f64)]| {
            let again = ranges.iter().map(|(from, to)| Range {
                from: Some(*from),
                to: Some(*to),
            });
            let (from, to, again) = (None, Some(0.0446), again.collect());
            margins(&Margins { from, to, again })
        };
        assert_eq!(
            again(&[(0.0447, 0.046)]),
            "holds for margins up to 4.46 %, and again from 4.47 % to 4.6 %"
        );
        assert_eq!(
            again(&[(0.0447, 0.046), (0.0462, 0.0463)]),
            "holds for margins up to 4.46 %, and again for some from 4.47 % to 4.63 %"
        );
    }

    #[test]
    fn other_prices_of_string_instructions_are_told_with_what_is_said_there() {
        let at = |byte, ratio| AtPrice {
            byte,
            verdict: Verdict::Worse,
            ratio: Some(ratio),
            low: Some(ratio - 0.002),
            high: Some(ratio + 0.002),
            confidence: Some(0.95),
        };
        let by_price = |standing| ByPrice {
            standing,
            at: vec![at(0.125, 0.95), at(1.0 / 32.0, 0.932), at(1.0 / 3.0, 0.98)],
        };
        assert_eq!(
            prices(&by_price(Standing::Holds)),
            "holds at other prices of a string byte (-6.80 % at 1/32, -2.00 % at 1/3 of an instruction)"
        );
        assert!(prices(&by_price(Standing::ModelDependent)).starts_with("does NOT hold at other"));
    }

    #[test]
    fn a_block_without_which_the_order_is_one_sided_is_no_flip() {
        let one_sided = CarryingBlock {
            always: Some(Place::Second),
            ..block(3, &[])
        };
        assert_eq!(
            tried(vec![one_sided.clone()]),
            "holds without any other one of 5 blocks (+7.00 % to +7.50 %); without block 3 nothing can be told, because the arm \
             ran second in all others"
        );
        assert_eq!(
            tried(vec![block(2, &[]), one_sided]),
            "does NOT hold without block 2 (undecided), of 6 left out in turn (+7.00 % to +7.50 %); without block 3 nothing can \
             be told, because the arm ran second in all others"
        );
        assert_eq!(
            blocks(&LeftOut::TooFew { needed: 7 }),
            "no block can be left out: fewer than 6 would remain, of which this error rate lets nothing be said"
        );
    }

    #[test]
    fn a_margin_has_the_digits_that_it_needs() {
        let said = [0.01, 0.133, 0.005, 0.004_625, 0.2].map(crate::words::margin);
        assert_eq!(said, ["1.0", "13.3", "0.50", "0.4625", "20"]);
    }

    #[test]
    fn crossing_curves_are_told_with_their_loads() {
        let load = |at, verdict, ratio: f64| AtLoad {
            at,
            verdict,
            ratio: Some(ratio),
            low: Some(ratio - 0.01),
            high: Some(ratio + 0.01),
            is_beyond_margin: true,
        };
        let mut one = ByLoad {
            workload: "web".into(),
            arm: "7.2".into(),
            curve: "throughput".into(),
            unit: "requests/s".into(),
            also: Vec::new(),
            direction: record::metric::Direction::Higher,
            axis: "clients".into(),
            blocks: 8,
            needed: 6,
            confidence: Some(0.95),
            crosses: true,
            loads: vec![
                load(16.0, Verdict::Better, 1.06),
                load(48.0, Verdict::Undecided, 1.0),
                load(144.0, Verdict::Worse, 0.68),
            ],
        };
        assert_eq!(
            load_sentence(&one, "6.1"),
            "the curves cross, so that there is no single winner: 7.2 is better at 16 and 6.1 at 144 clients"
        );
        assert_eq!(
            load_rows(&one)[3],
            ["144", "worse", "-32.00 %", "[-33.00 %, -31.00 %]"]
        );
        one.loads.truncate(2);
        assert_eq!(
            load_sentence(&one, "6.1"),
            "7.2 is better at 16 clients, and nowhere worse"
        );
        one.blocks = 4;
        assert_eq!(
            load_sentence(&one, "6.1"),
            "4 blocks are too few to tell loads apart (6 are needed)"
        );
    }
}
