//! Why an arm differs: the difference in instructions a request by mechanism, then by function, and waits by task and cause.
//!
//! ```text
//! accounts --table--> rows by mechanism and function, a pair of figures for each block
//!          --waits--> rows by task, state and cause, likewise
//! rows     --max_t--> which are more than chance, and intervals
//!          --rep----> whether the verdict hangs on what a string instruction is charged
//! ```
//! Two families of rows are tested, each by the largest statistic of all its rows: mechanisms and tasks, then functions and causes. Of
//! the second nothing is named whose row of the first is not. So where the arms are the same, anything is named in no more runs than
//! the error rate says; where they are not, a wrong mechanism and a wrong function each are.

use record::account::Account;
use record::metric::MetricSpec;
use record::rundir::Run;
use record::verdict::why::{Rep, Unexplained, VERSION, Why};

use self::tested::{Named, Test};
use self::usable::Usable;
use crate::fixed_sample::fewest_blocks;
use crate::pair::Measured;

mod max_t;
mod outcome;
mod rep;
mod table;
mod tested;
mod usable;
mod waits;

/// The metric that mechanisms sum to.
const INSTRUCTIONS: &str = "instructions";

/// What is to be explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question<'q> {
    /// The workload's id.
    pub workload: &'q str,
    /// The arm, against the plan's baseline.
    pub arm: &'q str,
    /// The metric; `None`: instructions a request, or the primary metric where those were not counted.
    pub metric: Option<&'q str>,
}

/// Explains one arm's difference on one workload. Accounts may be of any trials of the run, in any order; what there is none of is
/// told.
pub fn explain(
    run: &Run,
    accounts: &[Account],
    question: &Question<'_>,
) -> Result<Why, Unexplained> {
    let Question { workload, arm, .. } = *question;
    let spec = spec(run, question)?;
    let usable = Usable::of(run, accounts, question, &spec.name);
    if usable.blocks.is_empty() {
        return Err(Unexplained::NoBlock { lost: usable.lost });
    }
    let design = &run.plan.design;
    let (blocks, least) = (usable.blocks.len(), fewest_blocks(design.error_rate));
    let key = format!("why\n{}\n{workload}\n{arm}", design.seed);
    let test = Test::new(&key, blocks, design.error_rate);
    let figures = waits::means(&usable.figures);
    let (low, high) = test.interval(&waits::differences(&usable.figures));
    let rep_blocks = usable.rep_blocks();
    let waits = waits::rows(&usable.accounts);
    let rows = table::join_renamed(&table::rows(usable.columns));
    let account = outcome::side(outcome::sum(&rows));
    let named = Named::of(&rows, &waits, account.baseline + account.arm, &test);
    let difference = figures[1] - figures[0];
    let is_counted = spec.unit == "instructions/request";
    let costs = rep::costs(run, (workload, arm), &rep_blocks);
    Ok(Why {
        version: VERSION,
        workload: workload.into(),
        baseline: run.plan.baseline.clone(),
        arm: arm.into(),
        metric: spec.name,
        unit: spec.unit,
        figures,
        difference,
        low,
        high,
        remainder: is_counted.then_some(difference - account.difference),
        account,
        blocks: blocks as u32,
        least_blocks: least as u32,
        error_rate: design.error_rate,
        confidence: (least <= blocks).then_some(1.0 - design.error_rate),
        lost: usable.lost,
        mechanisms: outcome::mechanisms(&rows, &named, &test),
        unmatched: outcome::unmatched(&rows),
        waits: outcome::wait_rows(&waits, &named, &test),
        rep: Rep {
            share: outcome::rep_shares(&rep_blocks),
            standing: rep::standing(&costs, design.margin),
            costs,
        },
    })
}

/// The metric that is asked about.
fn spec(run: &Run, question: &Question<'_>) -> Result<MetricSpec, Unexplained> {
    let Question {
        workload,
        arm,
        metric,
    } = *question;
    if run.plan.workloads.iter().all(|one| one.id != workload) {
        let workload = workload.into();
        return Err(Unexplained::NoWorkload { workload });
    }
    if arm == run.plan.baseline || run.plan.arms.iter().all(|one| one.name != arm) {
        return Err(Unexplained::NoArm { arm: arm.into() });
    }
    let specs = Measured::of(run).specs(workload);
    let named = |name: &str| specs.iter().find(|spec| spec.name == name).cloned();
    let found = match metric {
        Some(name) => named(name),
        None => named(INSTRUCTIONS).or_else(|| specs.first().cloned()),
    };
    found.ok_or_else(|| Unexplained::NoMetric {
        metric: metric.unwrap_or(INSTRUCTIONS).into(),
        known: specs.into_iter().map(|spec| spec.name).collect(),
    })
}

#[cfg(test)]
mod tests;
