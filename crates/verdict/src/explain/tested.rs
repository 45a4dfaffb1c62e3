//! Which rows are more than chance: two families of tests, and what is too small to be in them.

use std::collections::BTreeMap;

use record::verdict::why::{Mechanism, WaitView};

use super::table::Row;
use super::{max_t, waits};
use crate::randomization::SignFlips;

/// Rows of mechanisms and functions whose difference is typically below this share of all instructions are not tested: they
/// would make the others less sure, and explain nothing. The size heeds no sign, so this favours no arm.
const SMALL: f64 = 2e-4;

/// The same of waits, as a share of all waits for the same.
const SMALL_WAIT: f64 = 0.01;

/// What all tests of an explanation share.
pub(super) struct Test {
    flips: SignFlips,
    error_rate: f64,
}

impl Test {
    /// Tests of so many blocks; `key` fixes their sign flips.
    pub(super) fn new(key: &str, blocks: usize, error_rate: f64) -> Self {
        Self {
            flips: SignFlips::draw(key, blocks, blocks),
            error_rate,
        }
    }

    /// Both ends of the interval of a mean; none with too few blocks.
    pub(super) fn interval(&self, differences: &[f64]) -> (Option<f64>, Option<f64>) {
        max_t::interval(differences, &self.flips, self.error_rate).unzip()
    }

    /// The p-values of those rows that are not small; `None` for the others.
    fn p_values(&self, family: &[Tested]) -> Vec<Option<f64>> {
        let is_tested = |one: &&Tested| max_t::size(&one.differences) > one.small;
        let tested: Vec<&[f64]> = family
            .iter()
            .filter(is_tested)
            .map(|one| &one.differences[..])
            .collect();
        let mut found = max_t::p_values(&tested, &self.flips).into_iter();
        family
            .iter()
            .map(|one| is_tested(&one).then(|| found.next()).flatten())
            .collect()
    }

    pub(super) fn is_significant(&self, p_value: Option<f64>) -> bool {
        p_value.is_some_and(|p_value| p_value <= self.error_rate)
    }
}

/// A row of a family of tests.
struct Tested {
    differences: Vec<f64>,
    /// Differences of this size and below are not tested.
    small: f64,
}

/// What is known of each row; by the places of `rows` and `waits`.
pub(super) struct Named {
    /// p-values; `None` where a row is too small to be tested.
    pub(super) mechanisms: BTreeMap<Mechanism, Option<f64>>,
    pub(super) functions: Vec<bool>,
    pub(super) waits: Vec<Option<f64>>,
    /// By wait, then by cause.
    pub(super) causes: Vec<Vec<bool>>,
}

impl Named {
    /// Tests all rows. `both` is what all instructions of the two arms come to.
    pub(super) fn of(rows: &[Row], waits: &[waits::Row], both: f64, test: &Test) -> Self {
        let small = SMALL * both / 2.0;
        let mut sums: BTreeMap<Mechanism, Vec<f64>> = BTreeMap::new();
        for row in rows {
            let differences = row.differences();
            let sum = sums
                .entry(row.mechanism)
                .or_insert_with(|| vec![0.0; differences.len()]);
            sum.iter_mut()
                .zip(differences)
                .for_each(|(sum, one)| *sum += one);
        }
        let small_wait = |row: &waits::Row| SMALL_WAIT * scale_of(waits, row);
        let mechanisms: Vec<Mechanism> = sums.keys().copied().collect();
        let tested = |(_, differences)| Tested { differences, small };
        let mut first: Vec<Tested> = sums.into_iter().map(tested).collect();
        first.extend(waits.iter().map(|row| Tested {
            differences: waits::differences(&row.blocks),
            small: small_wait(row),
        }));
        let mut first = test.p_values(&first);
        let of_waits = first.split_off(mechanisms.len());
        let mechanisms: BTreeMap<_, _> = mechanisms.into_iter().zip(first).collect();

        let function = |row: &Row| Tested {
            differences: row.differences(),
            small,
        };
        let mut second: Vec<Tested> = rows.iter().map(function).collect();
        for row in waits {
            second.extend(row.causes.iter().map(|cause| Tested {
                differences: waits::differences(&cause.blocks),
                small: small_wait(row),
            }));
        }
        let mut second = test
            .p_values(&second)
            .into_iter()
            .map(|one| test.is_significant(one));
        let functions = rows.iter().map(|row| {
            let is_open = test.is_significant(mechanisms[&row.mechanism]);
            second.next() == Some(true) && is_open
        });
        let functions = functions.collect();
        let causes = waits.iter().zip(&of_waits).map(|(row, p_value)| {
            let is_open = test.is_significant(*p_value);
            let its = second.by_ref().take(row.causes.len());
            its.map(|is_sure| is_sure && is_open).collect()
        });
        Self {
            functions,
            causes: causes.collect(),
            waits: of_waits,
            mechanisms,
        }
    }
}

/// What the waits of a row are small beside: all waits for the same thing, or the longest of the slowest.
fn scale_of(waits: &[waits::Row], row: &waits::Row) -> f64 {
    let alike =
        |other: &&waits::Row| (other.key.view, other.key.state) == (row.key.view, row.key.state);
    let typical = |other: &waits::Row| waits::means(&other.blocks).iter().sum::<f64>() / 2.0;
    let all = waits.iter().filter(alike).map(typical);
    match row.key.view {
        WaitView::Mean => all.sum(),
        WaitView::Slowest => all.fold(0.0, f64::max),
    }
}
