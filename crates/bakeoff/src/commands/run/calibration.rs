//! A/A calibration: a machine's measurement noise, the smallest difference that it can show, and whether it finds a
//! difference between two identical arms.
//!
//! The contrasts of all A/A runs of a machine are kept in `calibration/ID.json` of the user's cache. Their signs must be as
//! random as the order of the arms. Otherwise no verdict of the machine can be trusted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base::input::tree::Tree;
use base::input::units::significant;
use machine::cache::Cache;
use plan::Arm;
use record::a_a;
use record::a_a::{Ended, PastRun};
use record::hash::sha256;
use record::journal::JOURNAL;
use record::machine::MachineDescription;
use record::metric::Role;
use record::rundir;
use record::rundir::{A_A, Run, RunDir};
use record::verdict::{Comparison, Judgement, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::json;
use stats::eprocess;
use stats::eprocess::Calibration;
use stats::interim;

use crate::commands::plan_file;
use crate::json_lines;
use crate::out;

/// Limit on the size of a history file. A run adds about 100 bytes, and 20 for each block.
const MAX_HISTORY_BYTES: u64 = 64 << 20;

/// Numbers of blocks for which the smallest difference is printed.
const BLOCKS: [u32; 3] = [10, 30, 100];

/// The A/A runs of one machine, by run and workload.
#[derive(Debug, Default, Serialize, Deserialize)]
struct History(BTreeMap<String, PastRun>);

/// Copies the machine's A/A history into the directory of a new run, so that the run can be judged elsewhere. A resumed run
/// keeps the copy that it has.
pub(super) fn save_history(dir: &RunDir, machine: &MachineDescription) -> Result<()> {
    let has_begun = rundir::load_history(dir.path())?.is_some()
        || dir
            .tree()
            .metadata(JOURNAL)
            .is_ok_and(|metadata| metadata.len() > 0);
    if has_begun {
        return Ok(());
    }
    let History(runs) = read_history(&history_path(machine)?)?;
    let history = a_a::History {
        version: a_a::VERSION,
        runs: runs.into_values().collect(),
    };
    dir.write(A_A, &serde_json::to_vec_pretty(&history)?)
}

/// Adds a closed run to its machine's history if its plan compares an arm with itself: two arms that differ only in their
/// names. A plan's order depends on its seed, so a plan counts once for each seed.
pub(super) fn add_to_history(run: &Run, judgement: &Judgement) -> Result<()> {
    let [first, second] = run.plan.arms.as_slice() else {
        return Ok(());
    };
    let renamed = Arm {
        name: first.name.clone(),
        ..second.clone()
    };
    if *first != renamed || run.closed().is_none() {
        return Ok(());
    }
    let history = read_history(&history_path(&run.opening.machine)?)?;
    let begin_time = begin_time(run);
    let seed = run.plan.design.seed;
    let is_repeat = |past: &PastRun| {
        let mut workloads = run.plan.workloads.iter();
        let has_workload =
            workloads.any(|workload| past.id.ends_with(&format!(" {}", workload.id)));
        has_workload && !past.id.starts_with(begin_time) && past.ended.seed == seed.cast_signed()
    };
    if history.0.values().any(is_repeat) {
        return Ok(());
    }
    extend_history(run, judgement).map(drop)
}

fn begin_time(run: &Run) -> &str {
    run.entries.first().map_or("", |entry| entry.at.as_str())
}

/// The file of a machine's history.
fn history_path(machine: &MachineDescription) -> Result<PathBuf> {
    let id = &sha256(judge::report::machine(machine).as_bytes())[..16];
    Ok(history_dir()?.join(format!("{id}.json")))
}

/// The seed of an A/A run: that of the resumed run, else a new one. With the plan's seed, each repeat of a plan would have the
/// same random order, and an order that favours an arm by chance would be counted repeatedly.
pub(super) fn seed(out: &Path) -> i64 {
    plan_file::seed(&out.join("plan.toml")).unwrap_or_else(plan_file::drawn_seed)
}

/// Adds the run to its machine's history, and prints the machine's noise and calibration.
pub(super) fn print(run: &Run, judgement: &Judgement, json: bool) -> Result<()> {
    let history = extend_history(run, judgement)?;
    let contrasts: Vec<f64> = history
        .0
        .values()
        .flat_map(|past| &past.contrasts)
        .copied()
        .collect();
    let calibration = eprocess::calibration(&contrasts);
    let error_rate = run.plan.design.error_rate;
    if json {
        let outcome = match calibration {
            Calibration::Passed(evidence) => json!({ "passed": true, "evidence": evidence }),
            Calibration::Failed(blocks) => json!({ "passed": false, "blocks": blocks }),
        };
        let metrics: Vec<_> = judgement
            .comparisons
            .iter()
            .map(|comparison| as_json(comparison, error_rate))
            .collect();
        out::json(&json_lines::calibration(&outcome, &metrics).to_string());
        return Ok(());
    }
    out::line(&format!(
        "\nwhat this machine can show (found in 95 of 100 runs, error rate {error_rate}):"
    ));
    out::line(&format!(
        "{:12} {:14} {:>9} {:>9} {:>10} {:>9} {:>9} {:>9}",
        "workload", "metric", "noise", "order", "outliers", "10 blocks", "30", "100"
    ));
    for comparison in &judgement.comparisons {
        out::line(&table_row(comparison, error_rate));
    }
    out::line(&match calibration {
        Calibration::Passed(evidence) => format!(
            "A/A calibration passed: {} blocks of {} A/A runs on this machine, evidence against it {} (fails at 100)",
            contrasts.len(),
            history.0.len(),
            significant(evidence, 2)
        ),
        Calibration::Failed(blocks) => format!(
            "A/A CALIBRATION FAILED: an arm was told apart from itself after {blocks} blocks of A/A runs on this machine; no \
             verdict of it is worth anything (find out what favours one place in a block, then remove the file in the cache's \
             calibration folder)"
        ),
    });
    Ok(())
}

fn table_row(comparison: &Comparison, error_rate: f64) -> String {
    let percent = |share: f64| format!("{} %", significant(share * 100.0, 2));
    let none = || "-".to_owned();
    let noise = comparison.noise.filter(|_| comparison.ratio.is_some());
    let differences = BLOCKS.map(|blocks| {
        noise.map_or_else(none, |noise| {
            percent(interim::shown(noise, blocks, error_rate))
        })
    });
    let outliers = comparison
        .outliers
        .map_or_else(none, |count| (count.arm + count.baseline).to_string());
    format!(
        "{:12} {:14} {:>9} {:>9} {:>10} {:>9} {:>9} {:>9}",
        comparison.workload,
        comparison.spec.name,
        noise.map_or_else(none, percent),
        comparison
            .order_effect
            .filter(|_| noise.is_some())
            .map_or_else(none, percent),
        outliers,
        differences[0],
        differences[1],
        differences[2]
    )
}

fn as_json(comparison: &Comparison, error_rate: f64) -> serde_json::Value {
    let noise = comparison.noise.filter(|_| comparison.ratio.is_some());
    let differences: BTreeMap<String, f64> = BLOCKS
        .iter()
        .filter_map(|blocks| {
            let difference = interim::shown(noise?, *blocks, error_rate);
            Some((blocks.to_string(), difference))
        })
        .collect();
    json!({
        "workload": comparison.workload, "metric": comparison.spec.name, "noise": noise,
        "order_effect": comparison.order_effect, "outliers": comparison.outliers, "shown_by_blocks": differences,
    })
}

/// Adds this run to the machine's history, replacing an earlier judgement of the same run. Returns the history.
fn extend_history(run: &Run, judgement: &Judgement) -> Result<History> {
    let path = history_path(&run.opening.machine)?;
    let mut history = read_history(&path)?;
    let begin_time = begin_time(run);
    for comparison in &judgement.comparisons {
        if comparison.spec.role != Role::Primary {
            continue;
        }
        let usable = comparison
            .pairs
            .iter()
            .filter(|pair| pair.baseline > 0.0 && pair.arm > 0.0);
        let contrasts = usable.map(|pair| (pair.arm / pair.baseline).ln()).collect();
        let id = format!("{begin_time} {}", comparison.workload);
        let ended = Ended {
            told_apart: matches!(comparison.verdict, Verdict::Better | Verdict::Worse),
            // The primary metric alone has a smaller share, but this rate is what the run promises.
            error_rate: run.error_rate(),
            seed: run.plan.design.seed.cast_signed(),
        };
        let past = PastRun {
            id: id.clone(),
            contrasts,
            ended,
        };
        history.0.insert(id, past);
    }
    let (dir, name) = Tree::around(&path);
    let dir = Tree::to_write(&dir.path())
        .with_context(|| format!("cannot make {}", dir.path().display()))?;
    rundir::replace(&dir, name, &serde_json::to_vec(&history)?)?;
    Ok(history)
}

/// The folder of all machines' histories.
fn history_dir() -> Result<PathBuf> {
    Ok(Cache::of_user()?.root().join("calibration"))
}

fn read_history(path: &Path) -> Result<History> {
    let (dir, name) = Tree::around(path);
    match dir.read(name, MAX_HISTORY_BYTES) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .with_context(|| format!("not a record of A/A runs: {} (remove it)", path.display())),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(History::default()),
        Err(why) => Err(why).with_context(|| format!("cannot read {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_resumed_run_keeps_its_seed_and_a_new_run_draws_one() {
        let dir = tempfile::tempdir().unwrap();
        assert!(seed(dir.path()) > 1_700_000_000);
        fs::write(dir.path().join("plan.toml"), "[design]\nseed = 7\n").unwrap();
        assert_eq!(seed(dir.path()), 7);
    }
}
