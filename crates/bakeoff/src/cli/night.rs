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
    /// Chance that the gate of several plans trips on any arm that is not worse [default: 5%]
    #[arg(long, value_name = "SHARE", value_parser = error_rate, help_heading = NIGHT)]
    pub error_rate: Option<f64>,
    /// Share of the listed regressions of several plans that may be false on average, and of the improvements [default: 5%]
    #[arg(long, value_name = "SHARE", value_parser = error_rate, help_heading = NIGHT)]
    pub fdr: Option<f64>,
}

/// What `bakeoff run` of several plans takes beside.
#[derive(Debug, Clone, Default, Args)]
pub struct RunNightArgs {
    /// The rates.
    #[command(flatten)]
    pub rates: RateArgs,
    /// Lower the error rate of each of several plans, so that what its run calls worse trips the gate of all; it takes more blocks
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
    /// A night's directory, one that holds nights, or run directories
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Where the index is written [default: DIR, where it is one and no run directory]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Exit with status 1 when a primary metric of the newest night is worse, at the error rate of the night; with 2 when that cannot be
    /// told
    #[arg(long, value_enum)]
    pub fail_on: Option<FailOn>,
    /// The rates.
    #[command(flatten)]
    pub rates: RateArgs,
}
