//! `judge`: the verdict of a run directory, computed again from its records, or of figures that
//! another tool measured.

mod figures;
mod words;

use std::path::Path;

use anyhow::{Result, bail};
use record::rundir;

use super::{End, print_json};
use crate::cli::judge::JudgeArgs;
use crate::foreign;
use crate::out;

/// Judges; nothing that is judged is changed.
pub(super) fn judge(args: &JudgeArgs, json: bool) -> Result<End> {
    if foreign::is_own_run(&args.paths) {
        refuse_options(args)?;
        return own_run(Path::new(&args.paths[0]), args, json);
    }
    figures::judge(args, json)
}

/// A run has its plan, which says all that figures of other tools do not. A margin that was chosen after the figures
/// were seen has no error rate.
fn refuse_options(args: &JudgeArgs) -> Result<()> {
    let typed = [
        (args.baseline.is_some(), "--baseline"),
        (!args.metric.is_empty(), "--metric"),
        (args.higher_is_better, "--higher-is-better"),
        (args.lower_is_better, "--lower-is-better"),
        (args.margin.is_some(), "--margin"),
        (args.error_rate.is_some(), "--error-rate"),
        (args.samples_are_runs, "--samples-are-runs"),
        (args.seed.is_some(), "--seed"),
    ];
    let typed: Vec<&str> = typed
        .into_iter()
        .filter_map(|(is_typed, name)| is_typed.then_some(name))
        .collect();
    if !typed.is_empty() {
        bail!(
            "a run is judged by the plan that it was made by, because what is chosen after the figures are seen has no \
             error rate: {} with {} (leave it out, or run a plan that says so)",
            typed.join(", "),
            args.paths[0]
        );
    }
    Ok(())
}

fn own_run(dir: &Path, args: &JudgeArgs, json: bool) -> Result<End> {
    let run = rundir::load(dir, &workload::check)?;
    let judgement = verdict::judge(&run);
    if json {
        print_json(&judgement)?;
    } else if args.markdown {
        out::text(&report::markdown(&run, &judgement));
    } else {
        let width = super::report::width();
        out::text(&report::terminal(&run, &judgement, width));
    }
    super::gate::gate(&run, &judgement, args.fail_on)
}
