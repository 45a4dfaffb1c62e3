//! More blocks for a run that ended undecided: whether it may have them, and what they cost.
//!
//! The plan's error rate is spent when its last block has been looked at. So more blocks are not free: the chance of a wrong verdict
//! rises with each, to less than twice the plan's however often a run is given more (`stats::looks`).

use anyhow::{Result, bail};
use plan::{Design, MOST_BLOCKS};
use record::journal::Event;
use record::rundir::Run;
use record::verdict::Judgement;

use super::run_state::RunState;

/// What a run is given.
#[derive(Debug, Clone, PartialEq)]
pub struct Extension {
    /// Blocks that it has run.
    pub from: u32,
    /// Blocks that it may have in all.
    pub to: u32,
    /// Ids of the workloads that go on.
    pub undecided: Vec<String>,
    /// Chance of a wrong verdict that is accepted now.
    pub error_rate: f64,
}

impl Extension {
    /// Its entry in the journal.
    pub(crate) fn event(&self, bakeoff: String) -> Event {
        Event::Extended {
            bakeoff,
            from: self.from,
            to: self.to,
            undecided: self.undecided.clone(),
            error_rate: self.error_rate,
        }
    }
}

/// `more` blocks for a run.
///
/// # Errors
/// The run is not over, is decided, or did not end for want of blocks; or it would have more than any run may.
pub fn extend(run: &Run, judgement: &Judgement, more: u32) -> Result<Extension> {
    let Some(reason) = run.closed() else {
        bail!("--more-blocks for a run that is not finished (leave it out, and the run goes on)");
    };
    let is_open = |id: &&String| !judge::is_decided(&judgement.comparisons, id);
    let ids = run.plan.workloads.iter().map(|workload| &workload.id);
    let undecided: Vec<String> = ids.filter(is_open).cloned().collect();
    let (design, from) = (&run.plan.design, RunState::of(&run.entries).looked());
    if undecided.is_empty() {
        bail!(
            "--more-blocks for a run that is decided: {from} blocks (nothing is left to find out)"
        );
    }
    if from < design.most_blocks() {
        bail!(
            "--more-blocks for a run that did not end for want of blocks: {} (mend that, and begin a new run with --out DIR)",
            judge::report::close_reason(reason)
        );
    }
    let to = stats::looks::last_look(design, from.saturating_add(more));
    if to > MOST_BLOCKS {
        bail!(
            "more than {MOST_BLOCKS} blocks in all: {to} (at the most --more-blocks {})",
            MOST_BLOCKS.saturating_sub(from)
        );
    }
    let longer = Design {
        more_blocks: to - design.max_blocks,
        ..design.clone()
    };
    Ok(Extension {
        from,
        to,
        undecided,
        error_rate: stats::looks::error_rate(&longer),
    })
}
