//! `bakeoff judge ...`.

use base::input::units;
use clap::Args;
use plan::{LEAST_ERROR_RATE, MOST_ERROR_RATE, MOST_MARGIN};

use super::FailOn;

/// `bakeoff judge`: what was typed.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line, and they are free of one another"
)]
pub struct JudgeArgs {
    /// Several run directories, `NAME=DIR`; or files and directories of other tools' results, `ARM=PATH` if they do not name the arm
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<String>,
    /// Gate: exit with status 1 if this is found in any arm, with 3 if there is no answer
    #[arg(long, value_name = "WHAT", value_enum)]
    pub fail_on: Option<FailOn>,

    /// The baseline arm [default: one named base or old, else the first]
    #[arg(long, value_name = "ARM", help_heading = FIGURES)]
    pub baseline: Option<String>,
    /// Judge only these metrics; a part of a name is enough
    #[arg(long, value_name = "NAME", help_heading = FIGURES)]
    pub metric: Vec<String>,
    /// Higher is better, for all metrics
    #[arg(long, conflicts_with = "lower_is_better", help_heading = FIGURES)]
    pub higher_is_better: bool,
    /// Lower is better, for all metrics
    #[arg(long, help_heading = FIGURES)]
    pub lower_is_better: bool,
    /// Differences within this margin are equivalent [default: 2%]
    #[arg(long, value_name = "SHARE", value_parser = margin, help_heading = FIGURES)]
    pub margin: Option<f64>,
    /// Accepted chance of any wrong verdict, over all metrics and arms [default: 1%]
    #[arg(long, value_name = "SHARE", value_parser = error_rate, help_heading = FIGURES)]
    pub error_rate: Option<f64>,
    /// Treat each sample within a run as a separate run; you vouch that samples vary as much as runs
    #[arg(long, help_heading = FIGURES)]
    pub samples_are_runs: bool,
    /// Seed of the resampling [default: 1]
    #[arg(long, value_name = "N", help_heading = FIGURES)]
    pub seed: Option<u64>,
    /// Print Markdown for a pull request
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
}

/// The default margin.
pub(crate) const MARGIN: f64 = 0.02;

/// The default error rate.
pub(crate) const ERROR_RATE: f64 = 0.01;

/// The default seed.
pub(crate) const SEED: u64 = 1;

const FIGURES: &str = "Figures of other tools";

pub(super) fn margin(text: &str) -> Result<f64, String> {
    within(text, 0.0, MOST_MARGIN)
}

pub(super) fn error_rate(text: &str) -> Result<f64, String> {
    within(text, LEAST_ERROR_RATE, MOST_ERROR_RATE)
}

/// Reads a share within limits, which are the same as in plans.
fn within(text: &str, least: f64, most: f64) -> Result<f64, String> {
    match units::share(text)? {
        share if least < share && share <= most => Ok(share),
        _ => Err(format!(
            "out of range: {text:?}, write above {} to {}",
            units::show_share(least, 3),
            units::show_share(most, 3)
        )),
    }
}
