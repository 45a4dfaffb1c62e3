//! Why an arm differs: the difference in instructions per request by mechanism, then by function, and waits by task and cause.
//!
//! ```text
//! accounts --table--> rows by mechanism and function, a pair of figures for each block
//!          --tasks--> rows by task, likewise
//!          --waits--> rows by task, state and cause, likewise
//!          --tree---> both arms' call paths as one tree
//! rows     --max_t--> which are significant, and intervals
//!          --sampled> of sampled trials: counters, and how precise samples are
//! ```
//! Two families of rows are tested, each by the maximum statistic over its rows: mechanisms and waits, then functions and causes.
//! A row of the second family is named only if its row of the first is significant. So if the arms are equal, the error rate
//! bounds the share of runs that name anything. If they differ, it bounds wrong mechanisms and wrong functions each.

use std::collections::BTreeMap;

use plan::Design;
use record::account::Account;
use record::metric::{MetricSpec, latency};
use record::rundir::Run;
use record::verdict::why::{Tail, Unexplained, VERSION, Why, Within};

use self::tested::{Named, Test};
use self::usable::{Source, Usable};
use crate::topics::metrics::measured::Measured;
use crate::topics::why::mechanism::knobs;
use stats::interim::fewest_blocks;
use stats::randomization::GroupDraws;

mod groups;
mod outcome;
mod sampled;
mod table;
mod tasks;
mod tested;
mod tree;
mod usable;
mod waits;

/// The metric that mechanisms sum to.
pub(crate) const INSTRUCTIONS: &str = "instructions";

/// The metric that mechanisms sum to if trials were sampled.
const CPU_TIME: &str = "cpu-time";

/// CPU time of services alone. It cannot be explained, because mechanisms count all tasks, also the clients' and the kernel's.
const OF_SERVICES: [&str; 2] = ["server-cpu", "database-cpu"];

/// The metrics that depend most on waits; a workload has one of them.
pub(crate) const TAILS: [&str; 2] = ["latency-p99", "wakeup-p99"];

/// The fewest blocks with which anything can be significant.
pub fn least_blocks(design: &Design) -> u32 {
    fewest_blocks(design.error_rate) as u32
}

/// What is to be explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question<'q> {
    /// The workload's id.
    pub workload: &'q str,
    /// The arm to compare with the plan's baseline, or whose boots to compare with each other.
    pub arm: &'q str,
    /// The metric. `None` chooses the primary metric if it is a latency; else instructions per request if they were counted,
    /// or CPU time if trials were sampled; else the primary metric.
    pub metric: Option<&'q str>,
}

/// Explains one arm's difference from the baseline on one workload.
///
/// Accounts may be of any trials of the run, in any order; trials without one are listed in `Why::lost`. Sampled accounts are of
/// the extra trials that were run only for their profile.
pub fn explain(
    run: &Run,
    accounts: &[Account],
    question: &Question<'_>,
) -> Result<Why, Unexplained> {
    let Question { workload, arm, .. } = *question;
    let profiled = sampled::run(run, accounts);
    let (judged, run) = (run, profiled.as_ref().unwrap_or(run));
    let usual = profiled.as_ref().map_or(INSTRUCTIONS, |_| CPU_TIME);
    let baseline = run.plan.baseline.as_str();
    let spec = spec(run, question, Some(usual))?;
    if OF_SERVICES.contains(&spec.name.as_str()) {
        return Err(Unexplained::NotOfAllTasks { metric: spec.name });
    }
    if arm == baseline {
        return Err(Unexplained::NoArm { arm: arm.into() });
    }
    let usable = Source::new(run, accounts, workload, &spec.name).blocks(baseline, arm);
    if usable.is_empty() {
        return Err(Unexplained::NoBlock { lost: usable.lost });
    }
    let level = run.plan.design.test_level();
    let error_rate = run.plan.design.error_rate;
    let (blocks, least) = (usable.blocks.len(), fewest_blocks(level));
    let test = Test::of_blocks(&key(run, question), blocks, level);
    let tail = tail(run, question, &usable.blocks, &test);
    let mut why = account(usable, spec, &test, error_rate);
    why.tail = tail.filter(|_| latency(&why.metric).is_none());
    why.workload = workload.into();
    (why.baseline, why.arm) = (baseline.into(), arm.into());
    (why.blocks, why.least_blocks) = (blocks as u32, least as u32);
    why.confidence = (least <= blocks).then_some(1.0 - error_rate);
    if let Some(sampling) = &mut why.sampling {
        sampling.against_judged =
            [baseline, arm].map(|arm| sampled::against_judged(judged, run, workload, arm));
    }
    let releases = [baseline, arm].map(|arm| release(run, arm));
    let unsure = why.unsure().map(|row| row.name);
    for row in &mut why.mechanisms {
        if row.significant || Some(row.name) == unsure {
            let knobs = knobs::of(row.name)
                .filter(|knob| releases.iter().any(|release| knob.is_in(release)));
            row.settings = knobs.map(|knob| knob.setting().text()).collect();
        }
    }
    Ok(why)
}

/// The kernel release that an arm's last measured trial reported; empty if no trial was measured.
pub fn release<'r>(run: &'r Run, arm: &str) -> &'r str {
    let attempts = run.attempts.iter();
    let mut releases = attempts
        .filter(|record| record.trial.arm == arm)
        .filter_map(|record| record.outcome.measured()?.kernel.split_whitespace().next());
    releases.next_back().unwrap_or_default()
}

/// Explains what differs between an arm's slow boots and its fast ones.
///
/// The metric divides the boots into two groups; the worse one is compared with the better one. The arm may be the baseline.
pub fn within(
    run: &Run,
    accounts: &[Account],
    question: &Question<'_>,
) -> Result<Why, Unexplained> {
    let Question { workload, arm, .. } = *question;
    let profiled = sampled::run(run, accounts);
    let run = profiled.as_ref().unwrap_or(run);
    let spec = spec(run, question, None)?;
    let usable = Source::new(run, accounts, workload, &spec.name).groups(arm, spec.direction);
    if usable.is_empty() {
        return Err(Unexplained::OneBoot { lost: usable.lost });
    }
    let level = run.plan.design.test_level();
    let error_rate = run.plan.design.error_rate;
    let numbers = usable.trials.each_ref().map(|side| side.numbers.clone());
    let sizes = numbers.each_ref().map(Vec::len);
    let test = Test::of_groups(&key(run, question), sizes, level);
    let mut why = account(usable, spec, &test, error_rate);
    why.workload = workload.into();
    (why.baseline, why.arm) = (format!("{arm} (fast)"), format!("{arm} (slow)"));
    why.blocks = (sizes[0] + sizes[1]) as u32;
    why.least_blocks = least_boots(sizes, level) as u32;
    let [mut fast, mut slow] = numbers;
    fast.sort_unstable();
    slow.sort_unstable();
    let arm = arm.into();
    why.within = Some(Within { arm, fast, slow });
    Ok(why)
}

/// The fewest boots with which anything can be significant, given the size of the smaller group.
fn least_boots(sizes: [usize; 2], error_rate: f64) -> usize {
    let small = sizes[0].min(sizes[1]);
    let mut large = small;
    while GroupDraws::least_p_value([small, large]) > error_rate {
        large += 1;
    }
    small + large
}

/// The key that determines the random draws of a question.
fn key(run: &Run, question: &Question<'_>) -> String {
    let (seed, workload, arm) = (run.plan.design.seed, question.workload, question.arm);
    format!("why\n{seed}\n{workload}\n{arm}")
}

/// Compares the trials of two sides. The caller fills in the names of workload and arms, and the numbers of blocks.
fn account(usable: Usable<'_>, spec: MetricSpec, test: &Test, error_rate: f64) -> Why {
    let string_shares = usable.string_shares();
    let [baseline, arm] = usable.trials;
    let figures = [baseline.figures, arm.figures];
    let (low, high) = test.interval(&figures);
    let figures = waits::means(&figures);
    let per = baseline.accounts[0].unit;
    let accounts = [baseline.accounts, arm.accounts];
    let rows = table::join_renamed(&table::rows([baseline.columns, arm.columns]));
    let renamed = rows
        .iter()
        .filter_map(|row| Some((row.from.as_deref()?, row.name.as_str())));
    let waits = waits::rows(&accounts, &renamed.collect());
    let account = outcome::side(outcome::sum(&rows));
    let named = Named::of(&rows, &waits, account.baseline + account.arm, test);
    let difference = figures[1] - figures[0];
    let is_counted = spec.unit == "instructions/request" || spec.name == CPU_TIME;
    Why {
        version: VERSION,
        workload: String::new(),
        baseline: String::new(),
        arm: String::new(),
        within: None,
        per,
        metric: spec.name,
        unit: spec.unit,
        figures,
        difference,
        low,
        high,
        remainder: is_counted.then_some(difference - account.difference),
        account,
        blocks: 0,
        least_blocks: 0,
        error_rate,
        confidence: None,
        failed_checks: Vec::new(),
        lost: usable.lost,
        mechanisms: outcome::mechanisms(&rows, &named, test),
        tasks: tasks::rows(&accounts, test),
        unmatched: outcome::unmatched(&rows),
        waits: outcome::wait_rows(&waits, &named, test),
        string_shares,
        tail: None,
        tree: tree::tree(&accounts, &rows),
        lost_calls: accounts.each_ref().map(|side| {
            let shares = side.iter().map(|account| account.lost_calls);
            shares.fold(0.0, f64::max)
        }),
        sampling: sampled::sampling(&accounts),
        counters: sampled::counters(&accounts, test),
    }
}

/// The difference in the latency of the slowest requests; `None` if some block has no such latency.
fn tail(run: &Run, question: &Question<'_>, blocks: &[u32], test: &Test) -> Option<Tail> {
    let measured = Measured::of(run);
    let Question { workload, arm, .. } = *question;
    let specs = measured.specs(workload);
    let is_tail = |spec: &MetricSpec| TAILS.contains(&spec.name.as_str());
    let spec = specs.into_iter().find(is_tail)?;
    let figures = [run.plan.baseline.as_str(), arm].map(|arm| {
        let figures = measured.figures(workload, arm, &spec.name);
        let figures: BTreeMap<u32, f64> = figures.into_iter().collect();
        let figure = |block: &u32| {
            figures
                .get(block)
                .copied()
                .filter(|value| value.is_finite())
        };
        blocks.iter().map(figure).collect::<Option<Vec<f64>>>()
    });
    let [Some(baseline), Some(arm)] = figures else {
        return None;
    };
    let figures = [baseline, arm];
    let [baseline, arm] = waits::means(&figures);
    let (low, high) = test.interval(&figures);
    Some(Tail {
        metric: spec.name,
        unit: spec.unit,
        difference: arm - baseline,
        low,
        high,
    })
}

/// The metric that the question names; if it names none, `usual` or the primary metric.
fn spec(
    run: &Run,
    question: &Question<'_>,
    usual: Option<&str>,
) -> Result<MetricSpec, Unexplained> {
    let Question {
        workload,
        arm,
        metric,
    } = *question;
    if run.plan.workloads.iter().all(|plan| plan.id != workload) {
        let workload = workload.into();
        return Err(Unexplained::NoWorkload { workload });
    }
    if run.plan.arms.iter().all(|plan| plan.name != arm) {
        return Err(Unexplained::NoArm { arm: arm.into() });
    }
    let specs = Measured::of(run).specs(workload);
    let find = |name: &str| specs.iter().find(|spec| spec.name == name).cloned();
    let spec = if let Some(name) = metric {
        find(name)
    } else {
        let primary = specs.first();
        let is_latency = primary.is_some_and(|spec| latency(&spec.name).is_some());
        let usual = usual.filter(|_| !is_latency).and_then(find);
        usual.or_else(|| primary.cloned())
    };
    spec.ok_or_else(|| Unexplained::NoMetric {
        metric: metric.or(usual).unwrap_or_default().into(),
        known: specs.into_iter().map(|spec| spec.name).collect(),
    })
}

#[cfg(test)]
mod tests;
