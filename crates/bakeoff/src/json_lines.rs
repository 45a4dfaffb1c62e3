//! The lines that `run --json` prints, one JSON object each. docs/reference/json.md is their schema.

use std::path::Path;

use judge::topics::agreement::find::{Agreement, Outcome};
use record::defect::FoundDefect;
use record::journal::Entry;
use record::models::Models;
use record::night::Index;
use record::rundir::Run;
use record::trial::Trial;
use record::verdict::Judgement;
use record::verdict::fairness::CheckResult;
use serde_json::{Value, json};

/// Version of the lines. It rises if a key is removed or changes its meaning, but not for a new key.
pub const VERSION: u32 = 1;

/// A journal entry; `model` is the emulated CPU model if the run is a repetition on another one.
pub fn event(entry: &Entry, model: Option<&str>) -> Value {
    json!({
        "version": VERSION, "kind": "event", "model": model, "at": entry.at, "event": entry.event,
    })
}

/// Fairness checks that failed since the last such line. `blocks` is the number of blocks so far, 0 if the plan alone shows
/// them; `min_blocks` is the number of blocks before the first test.
pub fn failed_checks(
    blocks: u32,
    min_blocks: u32,
    checks: &[CheckResult],
    model: Option<&str>,
) -> Value {
    json!({
        "version": VERSION, "kind": "failed-checks", "model": model, "blocks": blocks, "failed_checks": checks,
        "text": judge::report::early_failed_checks(blocks, min_blocks, checks),
    })
}

/// A new defect of a trial's kernel or services.
pub fn defect(trial: &Trial, defect: &FoundDefect, model: Option<&str>) -> Value {
    json!({
        "version": VERSION, "kind": "defect", "model": model, "trial": trial, "defect": defect, "text": judge::report::defect(defect),
    })
}

/// The verdict: the last line, unless `--timings` or `--a-a` adds more.
pub fn verdict(run: &Run, judgement: &Judgement, models: Option<&Models>, page: &Path) -> Value {
    json!({
        "version": VERSION, "kind": "verdict", "judgement": judge::report::json(run, judgement), "models": models, "report": page,
    })
}

/// The summary of several plans: the last line.
pub fn night(index: &Index, page: &Path) -> Value {
    json!({ "version": VERSION, "kind": "night", "index": index, "report": page })
}

/// Whether a repetition agrees with a bundle's run: the last line of `rerun`.
pub fn agreement(bundle: &Value, dir: &Path, outcome: Outcome, rows: &[Agreement]) -> Value {
    json!({
        "version": VERSION, "kind": "agreement", "bundle": bundle, "run": dir, "outcome": outcome, "rows": rows,
    })
}

/// The host time of each phase of a workload's trials.
pub fn timings(workload: &str, phases: &[Value]) -> Value {
    json!({ "version": VERSION, "kind": "timings", "workload": workload, "phases": phases })
}

/// The result of a machine's A/A calibration.
pub fn calibration(outcome: &Value, metrics: &[Value]) -> Value {
    json!({ "version": VERSION, "kind": "calibration", "calibration": outcome, "metrics": metrics })
}
