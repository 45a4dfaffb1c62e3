//! What a headline depends on, at which loads an arm is better, and the machine's A/A history, in words.

use base::input::units::{show_share, significant};
use record::models::Standing;
use record::verdict::host::{History, OneSided};
use record::verdict::reason::Place;
use record::verdict::robustness::{
    Agreement, AtLoad, ByLoad, ByPrice, CarryingBlock, LeftOut, Margins, OtherMetric, Robustness,
};
use record::verdict::{Judgement, Verdict};

use crate::topics::loads::tell::load as show_load;
use crate::topics::why::tell::notes::fraction;
use crate::words::levels::{Levels, in_words};
use crate::words::{NONE, arrowed, change, counted, interval_of};

/// At most this many blocks are named.
const NAMED: usize = 5;

/// What a headline depends on, in one line; `None` if it is undecided.
pub(crate) fn line(robustness: &Robustness) -> Option<String> {
    if robustness.blocks == LeftOut::Undecided {
        return None;
    }
    let parts: Vec<String> = changes(robustness)
        .into_iter()
        .filter_map(|(_, result)| result)
        .collect();
    Some(format!("sensitivity: {}", parts.join("; ")))
}

/// What a headline depends on, as rows: what was changed, and the result.
pub(crate) fn rows(robustness: &Robustness) -> Vec<[String; 2]> {
    changes(robustness)
        .into_iter()
        .map(|(name, result)| [name.to_string(), result.unwrap_or(NONE.into())])
        .collect()
}

fn changes(robustness: &Robustness) -> [(&'static str, Option<String>); 5] {
    [
        (
            "each block left out in turn",
            Some(blocks(&robustness.blocks)),
        ),
        ("another margin", robustness.margins.as_ref().map(margins)),
        (
            "another metric as the primary one",
            robustness.metric.as_ref().map(metric),
        ),
        (
            "another price of string instructions",
            robustness.prices.as_ref().map(prices),
        ),
        (
            "another CPU model",
            robustness.models.map(|standing| models(standing).into()),
        ),
    ]
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
            // If all other blocks ran in the same order, no test of them is possible.
            let (untestable, flipped): (Vec<&CarryingBlock>, Vec<&CarryingBlock>) = carried_by
                .iter()
                .partition(|carrying| carrying.always.is_some());
            let untestable: Vec<String> = untestable.into_iter().filter_map(one_order).collect();
            let untestable = match untestable.as_slice() {
                [] => String::new(),
                sentences => format!("; {}", sentences.join("; ")),
            };
            if flipped.is_empty() {
                let left_out = blocks - carried_by.len() as u32;
                let all = match carried_by.len() {
                    0 => format!("any one of {}", counted(*blocks, "block")),
                    _ => format!("any other one of {}", counted(left_out, "block")),
                };
                return format!("holds without {all}{range}{untestable}");
            }
            if flipped.len() == *blocks as usize {
                return format!(
                    "one block less and it does not hold, whichever of {blocks}{range}; one analysis of all says {}",
                    at_once.word()
                );
            }
            let named: Vec<String> = flipped
                .iter()
                .take(NAMED)
                .map(|carrying| carrying_block(carrying))
                .collect();
            let more = match flipped.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                "does NOT hold without block {}{more}, of {blocks} left out in turn{range}{untestable}",
                named.join(", ")
            )
        }
    }
}

/// Why a block cannot be left out: the arm ran at the same place in all others.
fn one_order(carrying: &CarryingBlock) -> Option<String> {
    let place = match carrying.always? {
        Place::First => "first",
        Place::Second => "second",
    };
    Some(format!(
        "without block {} nothing can be told, because the arm ran {place} in all others",
        carrying.block
    ))
}

/// `4 (undecided)`.
fn carrying_block(carrying: &CarryingBlock) -> String {
    let change = match carrying.loses.len() {
        0 => carrying.verdict.word().to_string(),
        _ => format!("{} speaks against it no more", carrying.loses.join(", ")),
    };
    format!("{} ({change})", carrying.block)
}

fn margins(margins: &Margins) -> String {
    if (margins.from, margins.to) == (None, None) {
        return "holds for any margin".into();
    }
    let again = match margins.again.as_slice() {
        [] => String::new(),
        [only] => format!(", and again {}", range(only.from, only.to)),
        // Near a border the verdict may change many times: the whole stretch suffices.
        [first, .., last] => format!(", and again for some {}", range(first.from, last.to)),
    };
    format!(
        "holds for margins {}{again}",
        range(margins.from, margins.to)
    )
}

/// The ends are rounded already: rounded again, they could lie outside the range.
fn range(from: Option<f64>, to: Option<f64>) -> String {
    let percent = |margin: f64| show_share(margin, 7);
    match (from, to) {
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

fn models(standing: Standing) -> &'static str {
    match standing {
        Standing::Holds => "holds on other CPU models",
        Standing::ModelDependent => "does NOT hold on another CPU model",
        Standing::Open => "open on other CPU models",
    }
}

fn prices(by_price: &ByPrice) -> String {
    let standing = match by_price.standing {
        Standing::Holds => "holds",
        Standing::ModelDependent => "does NOT hold",
        Standing::Open => "open",
    };
    let others = by_price.at.iter().skip(1);
    let others: Vec<String> = others
        .map(|at| format!("{} at {}", change(at.ratio), fraction(at.byte)))
        .collect();
    format!(
        "{standing} at other prices of a string byte ({} of an instruction)",
        others.join(", ")
    )
}

/// The verdict at each price of a string instruction, for headlines that depend on it.
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

/// The verdict at each load, as table rows with their head.
pub(crate) fn load_rows(curve: &ByLoad) -> Vec<Vec<String>> {
    let levels = Levels::of([curve.confidence]);
    let head = [&*curve.axis, "verdict", "change", &levels.head()].map(String::from);
    let mut rows = vec![head.to_vec()];
    rows.extend(curve.loads.iter().map(|load| {
        vec![
            show_load(load.at),
            load.verdict.word().into(),
            change(load.ratio),
            interval_of(load.low, load.high),
        ]
    }));
    rows
}

/// The title of the table of loads.
pub(crate) fn load_title(curve: &ByLoad, baseline: &str) -> String {
    let also = match curve.also.as_slice() {
        [] => String::new(),
        also => format!(" (and {}, which differs alike)", also.join(", ")),
    };
    format!(
        "{}{also} at each load, {} against {baseline}, {}",
        arrowed(&curve.curve, curve.direction),
        curve.arm,
        counted(curve.blocks, "block")
    )
}

/// The loads at which each arm is better.
pub(crate) fn load_sentence(curve: &ByLoad, baseline: &str) -> String {
    if curve.blocks < curve.needed {
        return format!(
            "{} are too few to tell loads apart ({} are needed)",
            counted(curve.blocks, "block"),
            curve.needed
        );
    }
    let loads = |verdict: Verdict| {
        let loads: Vec<String> = curve
            .beyond(verdict)
            .map(|load| show_load(load.at))
            .collect();
        loads.join(", ")
    };
    let (better, worse) = (loads(Verdict::Better), loads(Verdict::Worse));
    let (arm, axis) = (&curve.arm, &curve.axis);
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

/// The largest contradiction of a headline per curve: `throughput at 144 clients: -32.00 % [..]`.
pub(crate) fn against_by_load(
    judgement: &Judgement,
    workload: &str,
    arm: &str,
    primary: Verdict,
    curves: &[String],
) -> Vec<String> {
    let contrary = match primary {
        Verdict::Worse => Verdict::Better,
        Verdict::Better | Verdict::Equivalent | Verdict::Undecided => Verdict::Worse,
    };
    let size = |load: &AtLoad| load.ratio.map_or(f64::INFINITY, |ratio| ratio.ln().abs());
    let mut sentences = Vec::new();
    for curve in &judgement.by_load {
        if curve.workload != workload || curve.arm != arm || !curves.contains(&curve.curve) {
            continue;
        }
        let loads = curve.beyond(contrary);
        let Some(worst) = loads.max_by(|a, b| size(a).total_cmp(&size(b))) else {
            continue;
        };
        let difference = match worst.ratio {
            Some(ratio) => format!(
                "{} {}",
                change(Some(ratio)),
                in_words(&interval_of(worst.low, worst.high), curve.confidence)
            ),
            None => contrary.word().into(),
        };
        let at = show_load(worst.at);
        sentences.push(format!(
            "{} at {at} {}: {difference}",
            curve.curve, curve.axis
        ));
    }
    sentences
}

/// Results of the machine's A/A runs.
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
                counted(*blocks, "block"),
                significant(*e_value, 2),
                significant(*e_value_of_blocks, 2)
            )
        }
    }
}

/// Arms that differ from the baseline in the same direction in all workloads.
pub(crate) fn one_sided(judgement: &Judgement) -> Vec<String> {
    let sentence = |one_sided: &OneSided| {
        let (low, high) = one_sided.range;
        let speeds = judgement.host_speed.iter();
        let logs = speeds
            .filter(|speed| speed.arm == one_sided.arm)
            .map(|speed| speed.ratio.ln());
        let host = match logs.reduce(|a, b| if a.abs() < b.abs() { b } else { a }) {
            Some(largest) => format!(
                "a fixed piece of work on the host differed by {} at the most",
                change(Some(largest.exp()))
            ),
            None => "nothing is known that no arm can move".into(),
        };
        format!(
            "{} is {} in all {} workloads, {} to {}, which is rare of unrelated work and points to the rig unless the kernel explains it ({host})",
            one_sided.arm,
            one_sided.verdict.word(),
            one_sided.workloads,
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
    fn blocks_are_reported_by_whether_the_headline_holds_without_them() {
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
            "one block less and it does not hold, whichever of 6 (+7.00 % to +7.50 %); one analysis of all says better"
        );
    }

    #[test]
    fn margins_are_shown_as_a_range() {
        let shown = |from, to| {
            let again = Vec::new();
            margins(&Margins { from, to, again })
        };
        assert_eq!(shown(None, Some(0.029)), "holds for margins up to 2.9 %");
        assert_eq!(shown(Some(0.0042), None), "holds for margins from 0.42 %");
        assert_eq!(shown(None, None), "holds for any margin");
        assert_eq!(
            shown(Some(0.00459), Some(0.004_627_5)),
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
    fn other_prices_of_string_instructions_are_shown_with_their_changes() {
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
        let shown = [0.01, 0.133, 0.005, 0.004_625, 0.2].map(crate::words::margin);
        assert_eq!(shown, ["1.0", "13.3", "0.50", "0.4625", "20"]);
    }

    #[test]
    fn crossing_curves_are_named_with_their_loads() {
        let load = |at, verdict, ratio: f64| AtLoad {
            at,
            verdict,
            ratio: Some(ratio),
            low: Some(ratio - 0.01),
            high: Some(ratio + 0.01),
            is_beyond_margin: true,
        };
        let mut curve = ByLoad {
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
            load_sentence(&curve, "6.1"),
            "the curves cross, so that there is no single winner: 7.2 is better at 16 and 6.1 at 144 clients"
        );
        assert_eq!(
            load_rows(&curve)[3],
            ["144", "worse", "-32.00 %", "[-33.00 %, -31.00 %]"]
        );
        curve.loads.truncate(2);
        assert_eq!(
            load_sentence(&curve, "6.1"),
            "7.2 is better at 16 clients, and nowhere worse"
        );
        curve.blocks = 4;
        assert_eq!(
            load_sentence(&curve, "6.1"),
            "4 blocks are too few to tell loads apart (6 are needed)"
        );
    }
}
