//! Which rows are more than chance: two families of tests, and what is too small to be in them.

use std::collections::BTreeMap;

use record::verdict::mechanism::Mechanism;
use record::verdict::why::WaitView;

use super::table::{self, Row};
use crate::topics::why::find::waits;
use stats::max_t;
use stats::randomization::{GroupDraws, SignFlips};

/// Rows of mechanisms and functions whose difference is typically below this share of all instructions are not tested: they
/// would make the others less sure, and explain nothing. The size heeds no sign, so this favours no arm.
const SMALL: f64 = 2e-4;

/// The same of waits, as a share of all waits for the same.
const SMALL_WAIT: f64 = 0.01;

/// What all tests of an explanation share.
pub(crate) struct Test {
    draws: Kind,
    error_rate: f64,
}

enum Kind {
    /// Trials of both arms are blocks.
    Blocks(SignFlips),
    /// Trials of one arm are two groups.
    Groups(GroupDraws),
}

impl Test {
    /// Tests of so many blocks; `key` fixes their sign flips.
    pub(crate) fn of_blocks(key: &str, blocks: usize, error_rate: f64) -> Self {
        Self {
            draws: Kind::Blocks(SignFlips::draw(key, blocks, error_rate)),
            error_rate,
        }
    }

    /// Tests of two groups of these sizes, neither of them 0; `key` fixes what they are compared with.
    pub(crate) fn of_groups(key: &str, sizes: [usize; 2], error_rate: f64) -> Self {
        Self {
            draws: Kind::Groups(GroupDraws::draw(key, sizes, error_rate)),
            error_rate,
        }
    }

    /// Both ends of the interval of the mean difference; none with too few blocks, nor for groups: they were chosen by the figure.
    pub(crate) fn interval(&self, sides: &[Vec<f64>; 2]) -> (Option<f64>, Option<f64>) {
        match &self.draws {
            Kind::Blocks(flips) => {
                max_t::interval(&differences(sides), flips, self.error_rate).unzip()
            }
            Kind::Groups(_) => (None, None),
        }
    }

    /// What is tested of a row: a value for each block, or for each trial.
    fn values(&self, sides: &[Vec<f64>; 2]) -> Vec<f64> {
        match &self.draws {
            Kind::Blocks(_) => differences(sides),
            Kind::Groups(_) => {
                let all = || sides.iter().flatten();
                let mean = all().sum::<f64>() / all().count() as f64;
                all().map(|value| value - mean).collect()
            }
        }
    }

    /// The p-values of those rows that are not small; `None` for the others.
    fn p_values(&self, family: &[Tested]) -> Vec<Option<f64>> {
        let is_tested = |one: &&Tested| max_t::size(&one.values) > one.small;
        let tested: Vec<&[f64]> = family
            .iter()
            .filter(is_tested)
            .map(|one| &one.values[..])
            .collect();
        let found = match &self.draws {
            Kind::Blocks(flips) => max_t::p_values(&tested, flips),
            Kind::Groups(groups) => max_t::p_values(&tested, groups),
        };
        let mut found = found.into_iter();
        family
            .iter()
            .map(|one| is_tested(&one).then(|| found.next()).flatten())
            .collect()
    }

    pub(crate) fn is_significant(&self, p_value: Option<f64>) -> bool {
        p_value.is_some_and(|p_value| p_value <= self.error_rate)
    }
}

/// Differences of both arms, block by block.
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

/// What is known of each row; by the places of `rows` and `waits`.
pub(crate) struct Named {
    /// p-values; `None` where a row is too small to be tested.
    pub(crate) mechanisms: BTreeMap<Mechanism, Option<f64>>,
    pub(crate) functions: Vec<bool>,
    pub(crate) waits: Vec<Option<f64>>,
    /// By wait, then by cause.
    pub(crate) causes: Vec<Vec<bool>>,
}

impl Named {
    /// Tests all rows. `both` is what all instructions of the two arms come to.
    pub(crate) fn of(rows: &[Row], waits: &[waits::Row], both: f64, test: &Test) -> Self {
        let small = SMALL * both / 2.0;
        let mut of_mechanism: BTreeMap<Mechanism, Vec<&Row>> = BTreeMap::new();
        for row in rows {
            of_mechanism.entry(row.mechanism).or_default().push(row);
        }
        let small_wait = |row: &waits::Row| SMALL_WAIT * scale_of(waits, row);
        let mechanisms: Vec<Mechanism> = of_mechanism.keys().copied().collect();
        let tested = |rows: Vec<&Row>| Tested {
            values: test.values(&table::instructions(rows)),
            small,
        };
        let mut first: Vec<Tested> = of_mechanism.into_values().map(tested).collect();
        first.extend(waits.iter().map(|row| Tested {
            values: test.values(&row.sides),
            small: small_wait(row),
        }));
        let mut first = test.p_values(&first);
        let of_waits = first.split_off(mechanisms.len());
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
    let typical = |other: &waits::Row| waits::means(&other.sides).iter().sum::<f64>() / 2.0;
    let all = waits.iter().filter(alike).map(typical);
    match row.key.view {
        WaitView::Mean => all.sum(),
        WaitView::Slowest => all.fold(0.0, f64::max),
    }
}
