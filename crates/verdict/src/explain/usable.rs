//! Which trials of a run can be explained: measured ones of both arms, with an account and a figure.

use std::collections::BTreeMap;

use record::account::Account;
use record::rundir::Run;
use record::verdict::why::{LostReason, LostTrial};

use super::Question;
use super::rep::RepBlock;
use super::table::{self, Column, Counts};
use crate::pair::Measured;

/// What can be used of a run.
#[derive(Default)]
pub(super) struct Usable<'a> {
    pub(super) blocks: Vec<u32>,
    /// The metric, the baseline's first.
    pub(super) figures: Vec<[f64; 2]>,
    pub(super) accounts: Vec<[&'a Account; 2]>,
    pub(super) columns: Vec<[Column; 2]>,
    pub(super) lost: Vec<LostTrial>,
}

impl<'a> Usable<'a> {
    /// The usable trials of a question's arms, and why the others are not.
    pub(super) fn of(
        run: &Run,
        accounts: &'a [Account],
        question: &Question<'_>,
        metric: &str,
    ) -> Self {
        let measured = Measured::of(run);
        let arms = [run.plan.baseline.as_str(), question.arm];
        let of_trial: BTreeMap<u32, &Account> = accounts
            .iter()
            .map(|account| (account.trial, account))
            .collect();
        let trials = arms.map(|arm| measured.trials(question.workload, arm));
        let figures = arms.map(|arm| -> BTreeMap<u32, f64> {
            measured
                .figures(question.workload, arm, metric)
                .into_iter()
                .collect()
        });
        let mut usable = Self::default();
        for block in trials[0]
            .keys()
            .filter(|block| trials[1].contains_key(block))
        {
            let sides = [0, 1].map(|side| {
                let trial = trials[side][block];
                let account = of_trial.get(&trial.number).copied();
                let found = usable_trial(account, figures[side].get(block).copied());
                found.map_err(|reason| LostTrial {
                    trial: trial.number,
                    block: *block,
                    arm: trial.arm.clone(),
                    reason,
                })
            });
            match sides {
                [Ok(baseline), Ok(arm)] => {
                    usable.blocks.push(*block);
                    usable.figures.push([baseline.figure, arm.figure]);
                    usable.accounts.push([baseline.account, arm.account]);
                    usable.columns.push([baseline.column, arm.column]);
                }
                sides => usable
                    .lost
                    .extend(sides.into_iter().filter_map(Result::err)),
            }
        }
        usable
    }

    /// What string instructions take part in.
    pub(super) fn rep_blocks(&self) -> Vec<RepBlock> {
        let each = self.blocks.iter().zip(&self.columns);
        let block = |(block, columns): (&u32, &[Column; 2])| {
            let total = |of: fn(&Counts) -> f64| {
                columns
                    .each_ref()
                    .map(|column| column.values().map(of).sum::<f64>())
            };
            RepBlock {
                block: *block,
                instructions: total(|counts| counts.instructions),
                iterations: total(|counts| counts.rep),
            }
        };
        each.map(block).collect()
    }
}

/// A trial that can be used.
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
