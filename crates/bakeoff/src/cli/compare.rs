//! `bakeoff compare`, `bakeoff new` and `bakeoff list`.

use std::path::PathBuf;

use clap::Args;
use plan::MOST_BLOCKS;

use super::judge::{error_rate, margin};
use super::{ArchArgs, RunOptions};

/// `bakeoff compare`: what was typed.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Kernels, the baseline first: 6.1, debian:SUITE/VERSION, ./bzImage, a built tree's directory, FILE.deb; NAME=KERNEL renames it
    #[arg(value_name = "KERNEL")]
    pub kernels: Vec<String>,
    /// A program with its arguments, instead of a workload or in addition to it
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<String>,

    /// What is loaded, such as web-static,smb; `bakeoff new` lists them [default: web-static]
    #[arg(long, short, value_name = "KIND", value_delimiter = ',', help_heading = QUESTION)]
    pub workload: Vec<String>,
    /// Compare values of a sysctl, on this host or with --kernel in guests; repeat it to change several together
    #[arg(long, value_name = "NAME=VALUE,VALUE", conflicts_with_all = ["kernels", "cmdline"], help_heading = QUESTION)]
    pub sysctl: Vec<String>,
    /// Compare kernel command lines, with --kernel
    #[arg(long, value_name = "TEXT", num_args = 1.., conflicts_with = "kernels", requires = "kernel")]
    #[arg(help_heading = QUESTION)]
    pub cmdline: Vec<String>,
    /// The kernel for --sysctl and --cmdline
    #[arg(long, value_name = "KERNEL", conflicts_with = "kernels", help_heading = QUESTION)]
    pub kernel: Option<String>,
    /// Which architecture.
    #[command(flatten, next_help_heading = QUESTION)]
    pub arch: ArchArgs,
    /// A file that PROGRAM needs; words of PROGRAM with a slash that name files are copied without this option, except system files
    /// (/proc, /etc, /usr, ...)
    #[arg(long = "file", value_name = "PATH", requires = "program", help_heading = QUESTION)]
    pub files: Vec<PathBuf>,

    /// Differences within this margin are equivalent [default: 2%]
    #[arg(long, value_name = "SHARE", value_parser = margin, help_heading = QUESTION)]
    pub margin: Option<f64>,
    /// Accepted chance of a wrong verdict [default: 5%]
    #[arg(long, value_name = "SHARE", value_parser = error_rate, help_heading = QUESTION)]
    pub error_rate: Option<f64>,
    /// Give up as undecided after N blocks [default: 12 in guests, 30 on this host]
    #[arg(long, value_name = "N", help_heading = QUESTION)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=i64::from(MOST_BLOCKS)))]
    pub max_blocks: Option<u32>,
    /// Seed of all random choices [default: a new one, written into the plan]
    #[arg(long, value_name = "N", help_heading = QUESTION, value_parser = clap::value_parser!(i64).range(0..))]
    pub seed: Option<i64>,

    /// Print the plan and write nothing
    #[arg(long, conflicts_with = "plan_only")]
    pub dry_run: bool,
    /// Write the plan and do not run it
    #[arg(long)]
    pub plan_only: bool,
    /// As for `bakeoff run`.
    #[command(flatten)]
    pub run: RunOptions,
}

const QUESTION: &str = "Question";

/// The default error rate, the same as in plans.
pub(crate) const ERROR_RATE: f64 = 0.05;

/// `bakeoff new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// The workload [default: list all]
    pub workload: Option<String>,
    /// The file to write [default: standard output]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// `bakeoff list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The directory that holds the runs
    #[arg(default_value = "runs")]
    pub dir: PathBuf,
}
