//! Which trials of a run can be explained: measured ones of both arms, with an account and a figure.

use std::collections::BTreeMap;

use record::account::Account;
use record::metric::Direction;
use record::rundir::Run;
use record::verdict::why::{LostReason, LostTrial};

use super::groups;
use super::table::{self, Column};
use crate::topics::metrics::measured::Measured;

/// The usable trials of a run.
#[derive(Default)]
pub(crate) struct Usable<'a> {
    /// The block of each trial if trials are paired by block; else empty.
    pub(crate) blocks: Vec<u32>,
    /// Trials of each side, the baseline's first.
    pub(crate) trials: [Trials<'a>; 2],
    pub(crate) lost: Vec<LostTrial>,
}

/// Trials of one side.
#[derive(Default)]
pub(crate) struct Trials<'a> {
    pub(crate) numbers: Vec<u32>,
    pub(crate) figures: Vec<f64>,
    pub(crate) accounts: Vec<&'a Account>,
    pub(crate) columns: Vec<Column>,
}

impl<'a> Trials<'a> {
    fn push(&mut self, trial: UsableTrial<'a>) {
        self.numbers.push(trial.account.trial);
        self.figures.push(trial.figure);
        self.accounts.push(trial.account);
        self.columns.push(trial.column);
    }
}

/// The measured trials of a workload, with their accounts and figures.
pub(crate) struct Source<'r, 'a> {
    measured: Measured<'r>,
    accounts: BTreeMap<u32, &'a Account>,
    workload: &'r str,
    metric: &'r str,
}

impl<'r, 'a> Source<'r, 'a> {
    pub(crate) fn new(
        run: &'r Run,
        accounts: &'a [Account],
        workload: &'r str,
        metric: &'r str,
    ) -> Self {
        let by_trial = accounts.iter().map(|account| (account.trial, account));
        Self {
            measured: Measured::of(run),
            accounts: by_trial.collect(),
            workload,
            metric,
        }
    }

    /// An arm's trials by block, or why a trial is not usable.
    fn trials(&self, arm: &str) -> BTreeMap<u32, Result<UsableTrial<'a>, LostTrial>> {
        let figures = self.measured.figures(self.workload, arm, self.metric);
        let figures: BTreeMap<u32, f64> = figures.into_iter().collect();
        let mut trials = BTreeMap::new();
        for (block, trial) in self.measured.trials(self.workload, arm) {
            let account = self.accounts.get(&trial.number).copied();
            let usable = usable_trial(account, figures.get(&block).copied());
            let lost = |reason| LostTrial {
                trial: trial.number,
                block,
                arm: trial.arm.clone(),
                reason,
            };
            trials.insert(block, usable.map_err(lost));
        }
        trials
    }

    /// Blocks that have a usable trial of both arms, and why trials of other blocks are not usable.
    pub(crate) fn blocks(&self, baseline: &str, arm: &str) -> Usable<'a> {
        let mut usable = Usable::default();
        let mut others = self.trials(arm);
        for (block, trial) in self.trials(baseline) {
            let Some(other) = others.remove(&block) else {
                continue;
            };
            match [trial, other] {
                [Ok(trial), Ok(other)] => {
                    usable.blocks.push(block);
                    let [baseline, arm] = &mut usable.trials;
                    baseline.push(trial);
                    arm.push(other);
                }
                sides => usable
                    .lost
                    .extend(sides.into_iter().filter_map(Result::err)),
            }
        }
        usable
    }

    /// One arm's usable trials in two groups, the better one by the metric first.
    pub(crate) fn groups(&self, arm: &str, direction: Direction) -> Usable<'a> {
        let mut usable = Usable::default();
        let mut trials = Vec::new();
        for (_, trial) in self.trials(arm) {
            match trial {
                Ok(trial) => trials.push(trial),
                Err(lost) => usable.lost.push(lost),
            }
        }
        let figure = |trial: &UsableTrial<'_>| match direction {
            Direction::Higher => -trial.figure,
            Direction::Lower => trial.figure,
        };
        trials.sort_by(|a, b| figure(a).total_cmp(&figure(b)));
        let figures: Vec<f64> = trials.iter().map(figure).collect();
        let cut = groups::cut(&figures);
        for (index, trial) in trials.into_iter().enumerate() {
            usable.trials[usize::from(cut <= index)].push(trial);
        }
        usable
    }
}

impl Usable<'_> {
    /// Whether one side has no trials.
    pub(crate) fn is_empty(&self) -> bool {
        self.trials.iter().any(|side| side.numbers.is_empty())
    }

    /// String instructions as a share of all, for the baseline and the arm.
    pub(crate) fn string_shares(&self) -> [f64; 2] {
        self.trials.each_ref().map(|side| {
            let counts = side.columns.iter().flat_map(|column| column.values());
            let sums = counts.fold([0.0; 2], |[all, strings], counts| {
                [all + counts.instructions, strings + counts.strings]
            });
            let share = sums[1] / sums[0];
            if share.is_finite() { share } else { 0.0 }
        })
    }
}

struct UsableTrial<'a> {
    account: &'a Account,
    column: Column,
    figure: f64,
}

fn usable_trial(
    account: Option<&Account>,
    figure: Option<f64>,
) -> Result<UsableTrial<'_>, LostReason> {
    let account = account.ok_or(LostReason::NoProfile)?;
    let column = table::column(account)?;
    let figure = figure
        .filter(|figure| figure.is_finite())
        .ok_or(LostReason::NoFigure)?;
    Ok(UsableTrial {
        account,
        column,
        figure,
    })
}
