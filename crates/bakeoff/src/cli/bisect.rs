//! `bakeoff bisect ...`.

use std::path::PathBuf;

use clap::Args;

use super::EmulatorArgs;
use super::judge::error_rate;

/// The default error rate.
pub(crate) const ERROR_RATE: f64 = 0.01;

/// `bakeoff bisect`: what was typed.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub struct BisectArgs {
    /// The plan file: machine, workload and the baseline's settings; with --series also a run directory, whose arms are the versions
    pub plan: PathBuf,

    /// The version before the change; 6.1 means the newest 6.1 in Debian's suites
    #[arg(long, value_name = "VERSION", requires = "to", conflicts_with = "tree", help_heading = LINE)]
    pub from: Option<String>,
    /// The version after the change
    #[arg(long, value_name = "VERSION", requires = "from", help_heading = LINE)]
    pub to: Option<String>,
    /// Test all versions between them [default: the oldest and newest of each series in Debian]
    #[arg(long, requires = "from", help_heading = LINE)]
    pub all_versions: bool,
    /// The kernel's git repository, for a bisection over its commits
    #[arg(long, value_name = "DIR", requires = "commits", help_heading = LINE)]
    pub tree: Option<PathBuf>,
    /// The commits, along first parents: GOOD..BAD
    #[arg(long, value_name = "A..B", requires = "tree", help_heading = LINE)]
    pub commits: Option<String>,
    /// The kernels' configuration [default: a small one of bakeoff's]
    #[arg(long, value_name = "FILE", requires = "tree", help_heading = LINE)]
    pub config: Option<PathBuf>,

    /// Measure all versions and report each significant change, instead of searching for one
    #[arg(long)]
    pub series: bool,
    /// The metric to follow [default: the workload's primary one]
    #[arg(long, value_name = "NAME", conflicts_with = "series")]
    pub metric: Option<String>,
    /// Profile the two versions that were found, and explain their difference
    #[arg(long)]
    pub why: bool,
    /// Accepted chance of a wrong answer [default: 1%; with --series the plan's]
    #[arg(long, value_name = "SHARE", value_parser = error_rate)]
    pub error_rate: Option<f64>,
    /// Give up after N blocks; with --series the number of blocks [default: 400; with --series as few as can show a change]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub max_blocks: Option<u32>,
    /// Print the versions, downloads, boots and time that it would take; boot nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The directory of the bisection [default: runs/bisect-NAME-FROM-TO]
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Look for newer kernels and packages than the cached ones
    #[arg(long)]
    pub refresh: bool,
    /// Trials at a time, if instructions are counted [default: one for each CPU, if memory allows]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Which QEMU.
    #[command(flatten)]
    pub emulator: EmulatorArgs,
}

const LINE: &str = "Versions";
