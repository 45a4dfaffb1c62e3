//! `judge`: judges figures that another tool measured, or several run directories, one against the other.

mod answer;
mod figures;
mod format;
mod runs;

use anyhow::{Result, bail};

use super::End;
use crate::cli::judge::JudgeArgs;

/// Judges; nothing that is judged is changed.
pub(super) fn judge(args: &JudgeArgs, json: bool) -> Result<End> {
    let runs = import::own_runs(&args.paths);
    if !runs.is_empty()
        && let Some(missing) = import::missing(&args.paths)
    {
        bail!("no such file or directory: {missing}");
    }
    match &runs[..] {
        [] => figures::judge(args, json),
        _ if runs.len() < args.paths.len() => bail!(
            "run directories and figures of other tools in one question: {} (give either)",
            args.paths.join(" ")
        ),
        [run] => bail!(
            "one run alone: {0} (bakeoff show {0} shows it; to compare runs, name several)",
            run.dir.display()
        ),
        runs => {
            refuse_options(&chosen(args), &args.paths)?;
            runs::judge(runs, args, json)
        }
    }
}

/// Options that a run's plan has answered before there were figures.
fn chosen(args: &JudgeArgs) -> Vec<(bool, &'static str)> {
    vec![
        (args.higher_is_better, "--higher-is-better"),
        (args.lower_is_better, "--lower-is-better"),
        (args.margin.is_some(), "--margin"),
        (args.error_rate.is_some(), "--error-rate"),
        (args.samples_are_runs, "--samples-are-runs"),
    ]
}

/// A run has its plan, which says all that figures of other tools do not. A margin that was chosen after the figures
/// were seen has no error rate.
fn refuse_options(options: &[(bool, &str)], paths: &[String]) -> Result<()> {
    let typed: Vec<&str> = options
        .iter()
        .filter_map(|(is_typed, name)| is_typed.then_some(*name))
        .collect();
    if !typed.is_empty() {
        bail!(
            "a run is judged by the plan that it was made by, because what is chosen after the figures are seen has no \
             error rate: {} with {} (leave it out, or run a plan that says so)",
            typed.join(", "),
            paths.join(" ")
        );
    }
    Ok(())
}
