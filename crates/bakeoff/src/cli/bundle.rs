//! `bakeoff bundle` and `bakeoff rerun`.

use std::path::PathBuf;

use clap::Args;

use super::EmulatorArgs;

/// `bakeoff bundle`.
#[derive(Debug, Args)]
pub struct BundleArgs {
    /// The run directory [default: the newest run in runs/]
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The file to write [default: NAME.bakeoff.tar.zst, after the run directory]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Sign with this SSH key: a private key, or a public key whose private half an ssh-agent holds
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
}

/// `bakeoff rerun`.
#[derive(Debug, Args)]
pub struct RerunArgs {
    /// The bundle
    #[arg(value_name = "BUNDLE")]
    pub bundle: PathBuf,
    /// The new run's directory [default: runs/NAME-rerun, after the bundle]
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Accept the bundle only if one of these signed it: a file of allowed signers, as ssh-keygen(1) describes it
    #[arg(long, value_name = "FILE")]
    pub signers: Option<PathBuf>,
    /// Directory that the paths in the plan start from [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub files: Option<PathBuf>,
    /// Trials at a time, if instructions are counted [default: one for each CPU, if memory allows]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Which QEMU.
    #[command(flatten)]
    pub emulator: EmulatorArgs,
}
