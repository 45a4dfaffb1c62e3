//! `bakeoff judge ...`.

use clap::Args;
use record::plan::{MOST_ERROR_RATE, MOST_MARGIN};
use record::units;

use super::FailOn;

/// `bakeoff judge`: what was typed.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line, and they are free of one another"
)]
pub struct JudgeArgs {
    /// A run directory; or files and directories of figures, `ARM=PATH` where the arm is not in them
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<String>,
    /// Exit with status 1 when any arm has this verdict; on a primary metric, in a run directory
    #[arg(long, value_enum)]
    pub fail_on: Option<FailOn>,

    /// The arm that the others are compared with [default: one named base or old, else the first]
    #[arg(long, value_name = "ARM", help_heading = FIGURES)]
    pub baseline: Option<String>,
    /// Judge only these metrics; a part of a name will do
    #[arg(long, value_name = "NAME", help_heading = FIGURES)]
    pub metric: Vec<String>,
    /// More is better, for all metrics
    #[arg(long, conflicts_with = "lower_is_better", help_heading = FIGURES)]
    pub higher_is_better: bool,
    /// Less is better, for all metrics
    #[arg(long, help_heading = FIGURES)]
    pub lower_is_better: bool,
    /// Differences below this are called equivalent
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = margin)]
    #[arg(help_heading = FIGURES)]
    pub margin: f64,
    /// Chance of any wrong verdict, all metrics and arms together
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = error_rate)]
    #[arg(help_heading = FIGURES)]
    pub error_rate: f64,
    /// Take each sample inside a run as a run of its own; your word that they are as different
    #[arg(long, help_heading = FIGURES)]
    pub samples_are_runs: bool,
    /// Seed of the resampling
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = FIGURES)]
    pub seed: u64,
    /// Print Markdown for a pull request
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
}

const FIGURES: &str = "Figures of other tools";

fn margin(text: &str) -> Result<f64, String> {
    within(text, MOST_MARGIN)
}

fn error_rate(text: &str) -> Result<f64, String> {
    within(text, MOST_ERROR_RATE)
}

/// The limits are those of plans.
fn within(text: &str, most: f64) -> Result<f64, String> {
    match units::share(text)? {
        share if 0.0 < share && share <= most => Ok(share),
        _ => Err(format!(
            "out of range: {text:?}, write above 0 % to {} %",
            most * 100.0
        )),
    }
}
