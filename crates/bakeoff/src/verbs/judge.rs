//! `judge`: the verdict of a run directory, computed again from its records.

use std::path::Path;

use anyhow::Result;
use record::metric::Role;
use record::rundir;
use record::verdict::{Judgement, Verdict};

use super::{End, print_json};
use crate::cli::FailOn;

/// Judges a run directory; nothing in it is changed.
pub(super) fn judge(dir: &Path, fail_on: Option<FailOn>, json: bool) -> Result<End> {
    let run = rundir::load(dir, &workload::check)?;
    let judgement = verdict::judge(&run);
    if json {
        print_json(&judgement)?;
    } else {
        print!(
            "{}",
            report::terminal(&run, &judgement, super::report::width())
        );
    }
    Ok(gate(&judgement, fail_on))
}

/// Whether the gate trips: on an arm that fails, and on primary metrics, because they alone decide.
pub(super) fn gate(judgement: &Judgement, fail_on: Option<FailOn>) -> End {
    let trips = |verdict: Verdict| match (fail_on, verdict) {
        (None, _) | (_, Verdict::Better | Verdict::Equivalent) => false,
        (Some(FailOn::Worse), verdict) => verdict == Verdict::Worse,
        (Some(FailOn::Undecided), Verdict::Worse | Verdict::Undecided) => true,
    };
    let primary = judgement
        .comparisons
        .iter()
        .filter(|one| one.spec.role == Role::Primary);
    let fails = fail_on.is_some() && !judgement.gates.is_empty();
    let tripped = fails || primary.map(|one| one.verdict).any(trips);
    if tripped { End::Tripped } else { End::Done }
}
