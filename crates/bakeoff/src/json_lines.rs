//! The lines that `run --json` prints, one JSON object each: docs/json.md is their schema.

use std::path::Path;

use record::defect::FoundDefect;
use record::journal::Entry;
use record::models::Models;
use record::night::Index;
use record::rundir::Run;
use record::trial::Trial;
use record::verdict::Judgement;
use record::verdict::fairness::CheckResult;
use serde_json::{Value, json};

/// Version of the lines: a key that goes or means something else makes a new one; a key that comes does not.
pub const VERSION: u32 = 2;

/// An entry of the journal, of the run itself or of one on another emulated CPU.
pub fn event(entry: &Entry, model: Option<&str>) -> Value {
    json!({
        "version": VERSION, "kind": "event", "model": model, "at": entry.at, "event": entry.event,
    })
}

/// Checks of fairness that are violated, as they are found: after so many blocks, or, 0, by the plan. The first test of the run comes
/// after the second number of blocks.
pub fn violations(
    (blocks, min_blocks): (u32, u32),
    found: &[CheckResult],
    model: Option<&str>,
) -> Value {
    json!({
        "version": VERSION, "kind": "violations", "model": model, "blocks": blocks, "violations": found,
        "text": judge::report::early_violations(blocks, min_blocks, found),
    })
}

/// A defect of a trial's kernel or services, as it is told for the first time.
pub fn defect(trial: &Trial, found: &FoundDefect, model: Option<&str>) -> Value {
    json!({
        "version": VERSION, "kind": "defect", "model": model, "trial": trial, "defect": found, "text": judge::report::defect(found),
    })
}

/// What was found: the last line, unless `--timings` or `--a-a` asked for more.
pub fn verdict(
    (run, judgement): (&Run, &Judgement),
    models: Option<&Models>,
    page: &Path,
) -> Value {
    json!({
        "version": VERSION, "kind": "verdict", "judgement": judge::report::json(run, judgement), "models": models, "report": page,
    })
}

/// What several plans come to together: the last line.
pub fn night(index: &Index, page: &Path) -> Value {
    json!({ "version": VERSION, "kind": "night", "index": index, "report": page })
}

/// Where the host's time of a workload's trials goes.
pub fn timings(workload: &str, phases: &[Value]) -> Value {
    json!({ "version": VERSION, "kind": "timings", "workload": workload, "phases": phases })
}

/// What the A/A runs of a machine say of it.
pub fn calibration(outcome: &Value, metrics: &[Value]) -> Value {
    json!({ "version": VERSION, "kind": "calibration", "calibration": outcome, "metrics": metrics })
}
