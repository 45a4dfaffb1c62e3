//! Which rows are significant: two families of tests, without rows that are too small.

use std::collections::BTreeMap;

use record::verdict::mechanism::Mechanism;
use record::verdict::why::WaitView;

use super::table::{self, Row};
use super::waits;
use stats::max_t;
use stats::randomization::{GroupDraws, SignFlips};

/// Mechanisms and functions whose typical difference is below this share of all instructions are not tested.
///
/// They would weaken the tests of the others, and explain nothing. The size ignores the sign, so this favours no arm.
const SMALL: f64 = 2e-4;

/// Waits that differ by less than this share of all waits of their view and state are not tested.
const SMALL_WAIT: f64 = 0.01;

/// The random draws and the error rate of all tests of an explanation.
pub(crate) struct Test {
    draws: Draws,
    error_rate: f64,
}

enum Draws {
    /// Trials of both arms are blocks.
    Blocks(SignFlips),
    /// Trials of one arm are two groups.
    Groups(GroupDraws),
}

impl Test {
    /// `key` determines the sign flips.
    pub(crate) fn of_blocks(key: &str, blocks: usize, error_rate: f64) -> Self {
        Self {
            draws: Draws::Blocks(SignFlips::draw(key, blocks, error_rate)),
            error_rate,
        }
    }

    /// Neither size may be 0; `key` determines the random groups.
    pub(crate) fn of_groups(key: &str, sizes: [usize; 2], error_rate: f64) -> Self {
        Self {
            draws: Draws::Groups(GroupDraws::draw(key, sizes, error_rate)),
            error_rate,
        }
    }

    /// Both ends of the interval of the mean difference.
    ///
    /// `None` with too few blocks, and for groups, because the figures themselves determined the groups.
    pub(crate) fn interval(&self, sides: &[Vec<f64>; 2]) -> (Option<f64>, Option<f64>) {
        match &self.draws {
            Draws::Blocks(flips) => {
                max_t::interval(&differences(sides), flips, self.error_rate).unzip()
            }
            Draws::Groups(_) => (None, None),
        }
    }

    /// The values of a row to test: the difference of each block, or each trial's deviation from the mean.
    fn values(&self, sides: &[Vec<f64>; 2]) -> Vec<f64> {
        match &self.draws {
            Draws::Blocks(_) => differences(sides),
            Draws::Groups(_) => {
                let all = || sides.iter().flatten();
                let mean = all().sum::<f64>() / all().count() as f64;
                all().map(|value| value - mean).collect()
            }
        }
    }

    /// The p-values of those rows that are not small; `None` for the others.
    fn p_values(&self, family: &[Tested]) -> Vec<Option<f64>> {
        let is_tested = |row: &&Tested| max_t::size(&row.values) > row.small;
        let tested: Vec<&[f64]> = family
            .iter()
            .filter(is_tested)
            .map(|row| &row.values[..])
            .collect();
        let p_values = match &self.draws {
            Draws::Blocks(flips) => max_t::p_values(&tested, flips),
            Draws::Groups(groups) => max_t::p_values(&tested, groups),
        };
        let mut p_values = p_values.into_iter();
        family
            .iter()
            .map(|row| is_tested(&row).then(|| p_values.next()).flatten())
            .collect()
    }

    pub(crate) fn is_significant(&self, p_value: Option<f64>) -> bool {
        p_value.is_some_and(|p_value| p_value <= self.error_rate)
    }
}

/// The difference of each block.
fn differences([baseline, arm]: &[Vec<f64>; 2]) -> Vec<f64> {
    let both = baseline.iter().zip(arm);
    both.map(|(baseline, arm)| arm - baseline).collect()
}

/// A row of a family of tests.
struct Tested {
    values: Vec<f64>,
    /// Differences of this size and below are not tested.
    small: f64,
}

/// Test results of all rows; vectors have the order of `rows` and `waits`.
pub(crate) struct Named {
    /// p-values; `None` for mechanisms that are too small to test.
    pub(crate) mechanisms: BTreeMap<Mechanism, Option<f64>>,
    /// Whether each function is named.
    pub(crate) functions: Vec<bool>,
    /// p-values; `None` for waits that are too small to test.
    pub(crate) waits: Vec<Option<f64>>,
    /// Whether each cause is named, by wait.
    pub(crate) causes: Vec<Vec<bool>>,
}

impl Named {
    /// Tests all rows. `both` is the sum of the instructions of both arms.
    pub(crate) fn of(rows: &[Row], waits: &[waits::Row], both: f64, test: &Test) -> Self {
        let small = SMALL * both / 2.0;
        let mut by_mechanism: BTreeMap<Mechanism, Vec<&Row>> = BTreeMap::new();
        for row in rows {
            by_mechanism.entry(row.mechanism).or_default().push(row);
        }
        let small_wait = |row: &waits::Row| SMALL_WAIT * scale(waits, row);
        let mechanisms: Vec<Mechanism> = by_mechanism.keys().copied().collect();
        let tested = |rows: Vec<&Row>| Tested {
            values: test.values(&table::instructions(rows)),
            small,
        };
        let mut first: Vec<Tested> = by_mechanism.into_values().map(tested).collect();
        first.extend(waits.iter().map(|row| Tested {
            values: test.values(&row.sides),
            small: small_wait(row),
        }));
        let mut first = test.p_values(&first);
        let wait_p_values = first.split_off(mechanisms.len());
        let mechanisms: BTreeMap<_, _> = mechanisms.into_iter().zip(first).collect();

        let function = |row: &Row| Tested {
            values: test.values(&row.instructions()),
            small,
        };
        let mut second: Vec<Tested> = rows.iter().map(function).collect();
        for row in waits {
            second.extend(row.causes.iter().map(|cause| Tested {
                values: test.values(&cause.sides),
                small: small_wait(row),
            }));
        }
        let mut second = test
            .p_values(&second)
            .into_iter()
            .map(|p_value| test.is_significant(p_value));
        let functions = rows.iter().map(|row| {
            let is_significant = second.next() == Some(true);
            is_significant && test.is_significant(mechanisms[&row.mechanism])
        });
        let functions = functions.collect();
        let causes = waits.iter().zip(&wait_p_values).map(|(row, p_value)| {
            let is_wait_significant = test.is_significant(*p_value);
            let causes = second.by_ref().take(row.causes.len());
            causes
                .map(|is_significant| is_significant && is_wait_significant)
                .collect()
        });
        Self {
            functions,
            causes: causes.collect(),
            waits: wait_p_values,
            mechanisms,
        }
    }
}

/// What a row of waits must not be small against: the sum of all waits of its view and state, or the longest of the slowest.
fn scale(waits: &[waits::Row], row: &waits::Row) -> f64 {
    let alike =
        |other: &&waits::Row| (other.key.view, other.key.state) == (row.key.view, row.key.state);
    let typical = |other: &waits::Row| waits::means(&other.sides).iter().sum::<f64>() / 2.0;
    let all = waits.iter().filter(alike).map(typical);
    match row.key.view {
        WaitView::Mean => all.sum(),
        WaitView::Slowest => all.fold(0.0, f64::max),
    }
}
