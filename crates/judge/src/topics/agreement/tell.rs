//! Agreement of two runs, in words and a table.

use doc::{Block, Table};

use super::find::{Agreement, Estimate, Outcome, Shift, overall};
use crate::words::{NONE, change, interval_of, small_percent};

/// The outcome as one word.
fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Agrees => "agrees",
        Outcome::Disagrees => "disagrees",
        Outcome::Undecided => "undecided",
        Outcome::Missing => "missing",
    }
}

/// The table of all arms, and what it comes to.
pub fn blocks(rows: &[Agreement], margin: f64) -> Vec<Block> {
    let head = [
        "workload",
        "arm",
        "metric",
        "then",
        "now",
        "shift",
        "agreement",
    ];
    let mut table = vec![head.map(String::from).to_vec()];
    table.extend(rows.iter().map(|row| {
        vec![
            row.workload.clone(),
            row.arm.clone(),
            row.metric.clone(),
            estimate(&row.before),
            row.after.as_ref().map_or(NONE.into(), estimate),
            row.shift.map_or(NONE.into(), shift),
            word(row.outcome).into(),
        ]
    }));
    vec![
        Block::Table(Table::new(table, 3)),
        Block::Sub(
            "then, now: arm against baseline, with the run's interval. shift: the later ratio against the earlier one, with an \
             interval from the blocks of both runs."
                .into(),
        ),
        Block::Lead(sentence(overall(rows), margin)),
    ]
}

fn estimate(estimate: &Estimate) -> String {
    let word = estimate.verdict.word();
    let interval = interval_of(estimate.low, estimate.high);
    format!("{word}, {} {interval}", change(estimate.ratio))
}

fn shift(shift: Shift) -> String {
    let interval = interval_of(Some(shift.low), Some(shift.high));
    format!("{} {interval}", change(Some(shift.typical)))
}

fn sentence(outcome: Outcome, margin: f64) -> String {
    let margin = small_percent(margin);
    match outcome {
        Outcome::Agrees => {
            format!(
                "The repetition agrees: no primary metric moved by more than the margin, {margin}."
            )
        }
        Outcome::Disagrees => {
            "The repetition disagrees: a primary metric moved by more than chance explains.".into()
        }
        Outcome::Undecided => {
            format!(
                "Undecided: too few blocks to show that no primary metric moved by more than {margin}."
            )
        }
        Outcome::Missing => {
            "A primary metric of the earlier run has no figures in the repetition.".into()
        }
    }
}
