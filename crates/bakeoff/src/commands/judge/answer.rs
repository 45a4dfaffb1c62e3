//! What is said to one comparison of figures, as far as their layout allows.

use import::compare::Comparison;
use import::layout::{ArmOrder, Layout};
use record::verdict::Verdict;
use record::verdict::reason::SampleReason;
use stats::fixed_sample;
use stats::fixed_sample::{SampleResult, Terms};

/// One comparison and what is said to it.
pub(super) struct Answer<'q> {
    /// What was asked.
    pub(super) comparison: &'q Comparison,
    /// What is said.
    pub(super) finding: SampleResult,
    /// The arm that it is compared with.
    baseline: String,
}

impl<'q> Answer<'q> {
    /// The answer to a comparison.
    pub(super) fn to(comparison: &'q Comparison, baseline: &str, terms: Terms) -> Self {
        let finding = find(comparison, terms);
        Self {
            comparison,
            finding,
            baseline: baseline.into(),
        }
    }

    /// Why, in words; with the runs of each arm where these are not as many.
    pub(super) fn why(&self) -> String {
        match &self.comparison.layout {
            Layout::Unpaired { baseline, arm } => {
                let counts = [
                    (&*self.baseline, baseline.len()),
                    (&*self.comparison.arm, arm.len()),
                ];
                judge::report::sample_reason_of(&self.finding.reason, counts)
            }
            Layout::Blocks { .. } | Layout::OneRun { .. } => {
                judge::report::sample_reason(&self.finding.reason)
            }
        }
    }
}

fn find(comparison: &Comparison, terms: Terms) -> SampleResult {
    match &comparison.layout {
        Layout::Blocks { pairs, order } => fixed_sample::paired(
            pairs,
            *order == ArmOrder::Random,
            comparison.direction,
            terms,
        ),
        Layout::Unpaired { baseline, arm } => {
            fixed_sample::unpaired(baseline, arm, comparison.direction, terms)
        }
        Layout::OneRun { baseline, arm } => {
            let seen = fixed_sample::unpaired(baseline, arm, comparison.direction, terms);
            let typical = seen.change.map(|change| fixed_sample::Change {
                interval: None,
                ..change
            });
            SampleResult {
                verdict: Verdict::Undecided,
                change: typical,
                reason: SampleReason::OneRunOfEach,
            }
        }
    }
}
