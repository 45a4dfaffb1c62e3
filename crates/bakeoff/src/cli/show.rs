//! `bakeoff show`, and options of `bakeoff run` for several plans.

use std::path::PathBuf;

use clap::Args;

use super::FailOn;
use super::judge::error_rate;

const NIGHT: &str = "Several plans";

const RUN: &str = "One run";

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

/// `bakeoff show`.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub struct ShowArgs {
    /// A run directory or a bundle; or several, or directories of runs, for an index [default: the newest run in runs/]
    #[arg(value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Gate: exit with status 1 if this is found in any arm, with 3 if there is no answer
    #[arg(long, value_name = "WHAT", value_enum)]
    pub fail_on: Option<FailOn>,

    /// Rewrite report.html, report.md and verdict.json
    #[arg(long, help_heading = RUN, conflicts_with_all = ["fairness", "accept", "pin"])]
    pub report: bool,
    /// Print Markdown for a pull request
    #[arg(long, help_heading = RUN, group = "form")]
    pub markdown: bool,
    /// Print a plain-text mail of 75 columns, in the form of a kernel regression report
    #[arg(long, help_heading = RUN, group = "form")]
    pub mail: bool,
    /// Who reports, for the mail's tags
    #[arg(long, value_name = "NAME <ADDRESS>", help_heading = RUN, requires = "mail")]
    pub reporter: Option<String>,
    /// Where the report can be found, for the mail's Closes:
    #[arg(long, value_name = "ADDRESS", help_heading = RUN, requires = "mail")]
    pub url: Option<String>,
    /// Directory of a bisection between the two kernels; the mail names its commit
    #[arg(long, value_name = "DIR", help_heading = RUN, requires = "mail")]
    pub bisection: Option<PathBuf>,
    /// A file with the run's records; the mail names its SHA-256
    #[arg(long, value_name = "FILE", help_heading = RUN, requires = "mail")]
    pub bundle: Option<PathBuf>,
    /// Write a picture of the result, 1200 x 630, as SVG
    #[arg(long, value_name = "FILE", help_heading = RUN, conflicts_with_all = ["fairness", "accept", "pin"])]
    pub card: Option<PathBuf>,
    /// Accept a bundle only if one of these signed it: a file of allowed signers, as ssh-keygen(1) describes it
    #[arg(long, value_name = "FILE", help_heading = RUN)]
    pub signers: Option<PathBuf>,
    /// Print every fairness check: unplanned differences, or a bottleneck outside the server
    #[arg(long, help_heading = RUN, conflicts_with = "form")]
    pub fairness: bool,
    /// Accept a failed fairness check; the reason is printed in the report and kept in the run directory
    #[arg(long, value_name = "ID=REASON", help_heading = RUN, conflicts_with = "form")]
    pub accept: Vec<String>,
    /// Print settings that differ and can be made equal, as a plan's table `[pinned]`
    #[arg(long, help_heading = RUN, conflicts_with_all = ["accept", "fairness", "fail_on", "form"])]
    pub pin: bool,
    /// List all fairness checks with their reasons, in Markdown
    #[arg(long, help_heading = RUN, conflicts_with_all = ["dirs", "fail_on", "report", "form", "fairness", "accept", "pin", "index"])]
    pub checks: bool,

    /// Where to write the index [default: DIR, if there is only one and it is no run directory]
    #[arg(long, value_name = "DIR", help_heading = NIGHT, requires = "dirs")]
    pub index: Option<PathBuf>,
    /// The rates.
    #[command(flatten)]
    pub rates: RateArgs,
}
