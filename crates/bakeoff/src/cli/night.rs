//! `bakeoff index`, and options of `bakeoff run` for several plans.

use std::path::PathBuf;

use clap::Args;

use super::FailOn;
use super::judge::error_rate;

const NIGHT: &str = "Several plans";

/// The default error rate of a night.
pub(crate) const ERROR_RATE: f64 = 0.05;

/// The rates of a night.
#[derive(Debug, Clone, Default, Args)]
pub struct RateArgs {
    /// Chance that the gate of several plans trips although no arm is worse [default: 5%]
    #[arg(long, value_name = "SHARE", value_parser = error_rate, help_heading = NIGHT)]
    pub error_rate: Option<f64>,
    /// Average share of false ones among the listed regressions, and among the improvements [default: 5%]
    #[arg(long, value_name = "SHARE", value_parser = error_rate, help_heading = NIGHT)]
    pub fdr: Option<f64>,
}

/// What `bakeoff run` of several plans takes beside.
#[derive(Debug, Clone, Default, Args)]
pub struct RunNightArgs {
    /// The rates.
    #[command(flatten)]
    pub rates: RateArgs,
    /// Lower each plan's error rate so that every "worse" trips the gate of all plans; needs more blocks
    #[arg(long, help_heading = NIGHT)]
    pub family_wise: bool,
    /// Plans whose blocks are in the cluster's queue at a time [default: 4]
    #[arg(long, value_name = "N", requires = "slurm", help_heading = NIGHT)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=100))]
    pub plans_at_a_time: Option<u16>,
}

/// `bakeoff index`.
#[derive(Debug, Args)]
pub struct IndexArgs {
    /// The directory of a night or of several nights, or run directories
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Where to write the index [default: DIR, if there is only one and it is no run directory]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Gate: exit with status 1 if a primary metric of the newest night is worse at the night's error rate, with 3 if there is no answer
    #[arg(long, value_enum)]
    pub fail_on: Option<FailOn>,
    /// The rates.
    #[command(flatten)]
    pub rates: RateArgs,
}
