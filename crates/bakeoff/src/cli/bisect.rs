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
    /// The plan file: its machine, its workload, and of its baseline all but the kernel; with --walk also the directory of a run,
    /// whose arms are the line then
    pub plan: PathBuf,

    /// The version before the change: 6.1 stands for the newest 6.1 that Debian's suites have
    #[arg(long, value_name = "VERSION", requires = "to", conflicts_with = "tree", help_heading = LINE)]
    pub from: Option<String>,
    /// The version after it
    #[arg(long, value_name = "VERSION", requires = "from", help_heading = LINE)]
    pub to: Option<String>,
    /// Take all versions between them [default: the oldest and the newest of each series that Debian has]
    #[arg(long, requires = "from", help_heading = LINE)]
    pub all_versions: bool,
    /// The kernel's git repository, for a bisection over its commits
    #[arg(long, value_name = "DIR", requires = "commits", help_heading = LINE)]
    pub tree: Option<PathBuf>,
    /// The commits, along first parents: the good one, two dots, the bad one
    #[arg(long, value_name = "A..B", requires = "tree", help_heading = LINE)]
    pub commits: Option<String>,
    /// The configuration of their kernels [default: bakeoff's own, small]
    #[arg(long, value_name = "FILE", requires = "tree", help_heading = LINE)]
    pub config: Option<PathBuf>,

    /// Measure all versions side by side and tell each significant step, in place of the search for one
    #[arg(long)]
    pub walk: bool,
    /// The metric that is followed [default: the workload's primary one]
    #[arg(long, value_name = "NAME", conflicts_with = "walk")]
    pub metric: Option<String>,
    /// Profile the two versions of what was found, and explain their difference
    #[arg(long)]
    pub why: bool,
    /// Chance of a wrong step that is accepted [default: 1%; with --walk the plan's]
    #[arg(long, value_name = "SHARE", value_parser = error_rate)]
    pub error_rate: Option<f64>,
    /// Blocks after which it ends without an answer; with --walk how many there are [default: 400; with --walk as few as can tell]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub max_blocks: Option<u32>,
    /// Print the versions, what is downloaded for them, and how many boots and how much time it takes; boot nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The directory of the bisection [default: runs/bisect-NAME-FROM-TO]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Look for newer kernels and packages instead of using the cached ones
    #[arg(long)]
    pub refresh: bool,
    /// Trials to run at a time, only where instructions are counted [default: one for each CPU, memory permitting]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Which QEMU.
    #[command(flatten)]
    pub emulator: EmulatorArgs,
}

const LINE: &str = "Line of versions";
