//! More blocks for a run that ended undecided: whether they are allowed, and what error rate they imply.
//!
//! The plan's error rate is used up when its last block has been judged. So more blocks are not free: the chance of a wrong
//! verdict rises with each. It stays below twice the plan's, however often a run is extended (`stats::interim`).

use anyhow::{Result, bail};
use plan::{Design, MOST_BLOCKS};
use record::journal::Event;
use record::rundir::Run;
use record::verdict::Judgement;

use super::run_state::RunState;

/// An extension of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Extension {
    /// Blocks that the run has.
    pub from: u32,
    /// Blocks that the run may have in all.
    pub to: u32,
    /// Ids of the undecided workloads, which go on.
    pub undecided: Vec<String>,
    /// Chance of a wrong verdict including these blocks, a fraction.
    pub error_rate: f64,
}

impl Extension {
    /// The journal event of the extension.
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

/// Extends a run by `more` blocks.
///
/// # Errors
/// The run is not over, is decided, did not end because its blocks were used up, or would exceed `MOST_BLOCKS`.
pub fn extend(run: &Run, judgement: &Judgement, more: u32) -> Result<Extension> {
    let Some(reason) = run.closed() else {
        bail!("--more-blocks for a run that is not finished (leave it out, and the run goes on)");
    };
    let is_undecided = |id: &&String| !judge::is_decided(&judgement.comparisons, id);
    let ids = run.plan.workloads.iter().map(|workload| &workload.id);
    let undecided: Vec<String> = ids.filter(is_undecided).cloned().collect();
    let design = &run.plan.design;
    let from = RunState::from_entries(&run.entries).judged_blocks();
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
    let to = stats::interim::last_analysis(design, from.saturating_add(more));
    if to > MOST_BLOCKS {
        bail!(
            "more than {MOST_BLOCKS} blocks in all: {to} (at the most --more-blocks {})",
            MOST_BLOCKS.saturating_sub(from)
        );
    }
    let extended = Design {
        more_blocks: to - design.max_blocks,
        ..design.clone()
    };
    Ok(Extension {
        from,
        to,
        undecided,
        error_rate: stats::interim::error_rate(&extended),
    })
}
