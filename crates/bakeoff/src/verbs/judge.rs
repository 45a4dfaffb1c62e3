//! `judge`: the verdict of a run directory, computed again from its records, or of figures that
//! another tool measured.

mod figures;
mod words;

use std::path::Path;

use anyhow::{Result, bail};
use record::metric::Role;
use record::rundir;
use record::verdict::{Judgement, Verdict};

use super::{End, print_json};
use crate::cli::FailOn;
use crate::cli::judge::JudgeArgs;
use crate::foreign;

/// Judges; nothing that is judged is changed.
pub(super) fn judge(args: &JudgeArgs, json: bool) -> Result<End> {
    if foreign::is_own_run(&args.paths) {
        refuse_options(args)?;
        return own_run(Path::new(&args.paths[0]), args, json);
    }
    figures::judge(args, json)
}

/// A run has its plan, which says all that figures of other tools do not.
fn refuse_options(args: &JudgeArgs) -> Result<()> {
    let typed = args.baseline.is_some()
        || !args.metric.is_empty()
        || args.higher_is_better
        || args.lower_is_better
        || args.samples_are_runs;
    if typed {
        bail!(
            "a run directory is judged by its own plan: {} (leave out --baseline, --metric and the \
             directions)",
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
        print!("{}", report::markdown(&run, &judgement));
    } else {
        print!(
            "{}",
            report::terminal(&run, &judgement, super::report::width())
        );
    }
    Ok(gate(&judgement, args.fail_on))
}

/// Whether the gate trips: on an arm that fails, and on primary metrics, because they alone decide.
pub(super) fn gate(judgement: &Judgement, fail_on: Option<FailOn>) -> End {
    if fail_on.is_some() && !judgement.gates.is_empty() {
        return End::Tripped;
    }
    let primary = judgement
        .comparisons
        .iter()
        .filter(|one| one.spec.role == Role::Primary);
    end(primary.map(|one| one.verdict), fail_on)
}

/// How a command ends that has found these verdicts.
fn end(mut verdicts: impl Iterator<Item = Verdict>, fail_on: Option<FailOn>) -> End {
    let trips = |verdict: Verdict| match (fail_on, verdict) {
        (None, _) | (_, Verdict::Better | Verdict::Equivalent) => false,
        (Some(FailOn::Worse), verdict) => verdict == Verdict::Worse,
        (Some(FailOn::Undecided), Verdict::Worse | Verdict::Undecided) => true,
    };
    if verdicts.any(trips) {
        End::Tripped
    } else {
        End::Done
    }
}
