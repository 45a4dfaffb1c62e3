//! The command line: commands, options, examples. Completions and man pages are made from it too.

pub mod bisect;
pub mod bundle;
pub mod check;
pub mod compare;
pub mod judge;
pub mod show;

use std::net::SocketAddr;
use std::path::PathBuf;

use base::arch::Arch;
use base::input::problem::remedy_among;
use clap::{Args, Parser, Subcommand, ValueEnum};
use plan::MOST_BLOCKS;
use plan::cpu::CpuModel;

use crate::build_id::VERSION_LINE;

/// A bake-off for operating-system kernels and server configurations.
#[derive(Debug, Parser)]
#[command(name = "bakeoff", version = VERSION_LINE, arg_required_else_help = true)]
#[command(after_help = "Example:\n  bakeoff run plans/web-static.toml\n\n\
    Exit status: 0 done, 1 the gate of --fail-on tripped, 2 wrong usage or environment, 3 the gate has no answer.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Print JSON for machines instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Print no progress
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compare kernels, sysctls or kernel command lines; bakeoff writes the plan for you
    #[command(after_help = "Examples:\n  bakeoff compare 6.1 7.2\n  \
        bakeoff compare debian:bookworm/6.1 debian:trixie-backports/7.2 --workload web-static,smb\n  \
        bakeoff compare 6.1 ./linux -- ./my-benchmark --threads 4\n  \
        bakeoff compare --sysctl net.core.somaxconn=128,4096\n  \
        bakeoff compare --kernel 6.1 --cmdline '' mitigations=off -w threads\n\n\
        The plan is put beside the run directory, runs/compare-6.1-7.2.toml. The same command goes on with\n\
        its run; to ask more, edit a copy of the plan and take bakeoff run.")]
    Compare(Box<compare::CompareArgs>),
    /// List workloads, or write a commented plan for one
    #[command(after_help = "Examples:\n  bakeoff new\n  bakeoff new web-static plan.toml")]
    New(compare::NewArgs),
    /// List runs with their verdicts
    #[command(after_help = "Examples:\n  bakeoff list\n  bakeoff list /data/runs --json")]
    List(compare::ListArgs),
    /// Run one or more plans, or resume an interrupted run
    #[command(after_help = "Examples:\n  bakeoff run plans/web-static.toml\n  \
        bakeoff run plans/web-static.toml --out /data/runs/monday --fail-on regression\n  \
        bakeoff run plans/web-static.toml --more-blocks 20\n  \
        bakeoff run plans/web-static.toml --slurm --partition lab\n  \
        bakeoff run plans/*.toml --out nights/2026-11-23 --family-wise --fail-on worse\n\n\
        Of several plans, each has its run directory in --out DIR, and DIR/index.html summarises all of them.")]
    Run(RunArgs),
    /// Show the result of a run, its fairness checks, or an index of several runs
    #[command(
        after_help = "Examples:\n  bakeoff show\n  bakeoff show runs/web-static --fail-on regression\n  \
        bakeoff show runs/web-static --markdown\n  \
        bakeoff show runs/web-static --mail --reporter 'A Name <name@example.org>' > mail.txt\n  \
        bakeoff show runs/web-static --card result.svg\n  \
        bakeoff show runs/web-static --fairness\n  \
        bakeoff show runs/web-static --accept memory='the question is how memory matters'\n  \
        bakeoff show runs/web-static --pin >> plans/web-static-pinned.toml\n  \
        bakeoff show nights/2026-11-23\n  bakeoff show nights --fail-on worse\n  \
        bakeoff show runs/a runs/b --index /tmp/index\n\n\
        Nothing in a run directory changes, unless --report or --accept is given. For a directory of runs, or several, index.html,\n\
        index.md and index.json are written; the plans are those of the newest night."
    )]
    Show(Box<show::ShowArgs>),
    /// Pack a run into one file, which others can verify, judge again and repeat
    #[command(
        after_help = "Examples:\n  bakeoff bundle runs/web-static\n  bakeoff bundle runs/web-static --key ~/.ssh/id_ed25519\n  \
        bakeoff show web-static.bakeoff.tar.zst --signers allowed_signers\n  bakeoff rerun web-static.bakeoff.tar.zst\n\n\
        tar and zstd unpack it too. It holds console logs and facts of the machines: read them before you publish a bundle."
    )]
    Bundle(bundle::BundleArgs),
    /// Run a bundle's plan again with the same kernels, and say whether both runs agree
    #[command(
        after_help = "Examples:\n  bakeoff rerun web-static.bakeoff.tar.zst\n  \
        bakeoff rerun web-static.bakeoff.tar.zst --out runs/again --signers allowed_signers\n\n\
        Paths in the plan start from the current directory, or from --files DIR. The same command resumes an interrupted run.\n\
        Exit status: 0 the runs agree, 1 they disagree, 3 there are too few blocks to tell."
    )]
    Rerun(bundle::RerunArgs),
    /// Find the version or the commit in which a metric changed
    #[command(
        after_help = "Examples:\n  bakeoff bisect plans/web-static.toml --from 6.1 --to 7.3\n  \
        bakeoff bisect plans/web-static.toml --from 6.1 --to 7.3 --series\n  \
        bakeoff bisect runs/web-static --series\n  \
        bakeoff bisect plans/web-static.toml --from 6.12 --to 7.2 --metric latency-p99 --why\n  \
        bakeoff bisect plans/web-static.toml --tree ~/linux --commits v6.12..v6.13\n  \
        bakeoff bisect plans/web-static.toml --from 6.1 --to 7.3 --dry-run\n\n\
        The same command goes on with it where it was interrupted. A version that does not build or boot is left out."
    )]
    Bisect(Box<bisect::BisectArgs>),
    /// Check a plan without booting anything; --power simulates how often it would find a difference, and how long it would take
    #[command(after_help = check::examples())]
    Check(check::CheckArgs),
    /// Judge results of other tools, or several runs against each other
    #[command(
        after_help = "Examples:\n  bakeoff judge figures.csv --margin 1%\n  bakeoff judge old.txt new.txt --markdown\n  \
        bakeoff judge before=runs/a after=runs/b"
    )]
    Judge(judge::JudgeArgs),
    /// Explain a difference by kernel mechanism, function and wait
    #[command(
        after_help = "Examples:\n  bakeoff run plan.toml --why\n  bakeoff why runs/plan\n  \
        bakeoff why runs/plan --metric latency-p99\n  bakeoff why runs/plan --folded 3 > stacks.txt"
    )]
    Why(WhyArgs),
    /// Watch a run in progress: arms side by side, curves, defects, time left, the verdict so far
    #[command(
        after_help = "Examples:\n  bakeoff watch\n  bakeoff watch runs/web-static\n  bakeoff watch runs/web-static | tee watched.txt\n  \
        bakeoff watch --web\n  bakeoff watch --web /data/runs --listen 127.0.0.1:9000\n  \
        bakeoff watch --web --listen 10.0.0.7:8990 --token-file ~/.bakeoff-token\n\n\
        Keys: q ends, arrows choose a trial, ? lists the others. Without a terminal it prints a line when something has changed.\n\
        Pages change nothing. Addresses that others can reach need a token; without --token-file one is made and printed."
    )]
    Watch(WatchArgs),
    /// Load a server with simulated clients, and check every response
    #[command(
        after_help = "Examples:\n  bakeoff load http://127.0.0.1:8080/ -c 64 -d 10s\n  \
        bakeoff load http://127.0.0.1:8080/ --capacity 'p99<5ms'"
    )]
    Load(Box<crate::load_cli::LoadArgs>),
    /// Answer each request at once, to find the highest load that clients on other hosts can measure
    #[command(
        hide = true,
        after_help = "Examples:\n  bakeoff null-server --listen 0.0.0.0:8080\n\n\
        Name it in a plan, beside systems on the network: [machine] ceiling = \"http://HOST:8080\".\n\
        GET /bytes/1000 is answered with 1000 bytes, any other path with as many as --bytes says."
    )]
    NullServer(NullServerArgs),
    /// List, prune, verify or fill the cache of kernels, guest images and QEMU
    #[command(subcommand)]
    Cache(CacheCommand),
    /// The agent of a trial on this host; started by bakeoff itself
    #[command(hide = true)]
    Agent {
        /// The trial's cgroup; without one the server is elsewhere
        cgroup: Option<PathBuf>,
        /// How agents of the hosts that clients are on are started, as JSON
        #[arg(long)]
        hosts: Option<String>,
        /// Files of the plan's own
        files: Vec<PathBuf>,
    },
    /// The clients of a trial's guest on this host; started by bakeoff itself
    #[command(hide = true)]
    Clients(ClientsArgs),
    /// The line to the agent of a box; started by bakeoff itself
    #[command(hide = true)]
    Relay {
        /// Address and port of the agent
        address: String,
    },
    /// Show what this machine, or a box reached by ssh, can do and what is missing
    #[command(
        after_help = "Examples:\n  bakeoff doctor\n  bakeoff doctor -v\n  bakeoff doctor ssh:root@box"
    )]
    Doctor(DoctorArgs),
    /// Print shell completions
    #[command(
        hide = true,
        after_help = "Example:\n  bakeoff completions bash > /etc/bash_completion.d/bakeoff"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write man pages into a directory
    #[command(
        hide = true,
        after_help = "Example:\n  bakeoff man /usr/local/share/man/man1"
    )]
    Man {
        /// The directory
        dir: PathBuf,
    },
}

/// `bakeoff clients`, a role of bakeoff's own.
#[derive(Debug, Args)]
pub struct ClientsArgs {
    /// Only make what they need, and say what this host lacks
    #[arg(long = "try")]
    pub is_trial: bool,
    /// On a host that clients are on, for an agent at the other end of an ssh
    #[arg(long)]
    pub hosted: bool,
    /// For servers on a box
    #[arg(long)]
    pub of_box: bool,
    /// How agents of the hosts that clients are on are started, as JSON
    #[arg(long)]
    pub hosts: Option<String>,
    /// Only say whether these addresses can be reached
    #[arg(long, value_delimiter = ',')]
    pub reach: Vec<SocketAddr>,
    /// Queues of the guest's network card
    #[arg(long, default_value_t = 1)]
    pub queues: u32,
}

/// `bakeoff null-server`.
#[derive(Debug, Args)]
pub struct NullServerArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: SocketAddr,
    /// Length of the answer to a path that asks for none
    #[arg(long, value_name = "SIZE", value_parser = base::input::units::bytes, default_value = "0")]
    pub bytes: u64,
    /// Threads that answer [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Certificate in PEM, for https
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Its key in PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
}

/// `bakeoff watch`.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// The directory of a run or a nightly run [default: in runs, the one in progress, else the newest; with --web all of them]
    pub run: Option<PathBuf>,
    /// Serve pages that update themselves to browsers, until Ctrl-C
    #[arg(long)]
    pub web: bool,
    /// Where to listen
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        requires = "web",
        default_value = "127.0.0.1:8990"
    )]
    pub listen: SocketAddr,
    /// File with the token that requests need, at least 16 characters [default: a new one, printed, if other hosts can reach ADDRESS]
    #[arg(long, value_name = "FILE", requires = "web")]
    pub token_file: Option<PathBuf>,
    /// A host name of the server, in addition to its addresses and localhost
    #[arg(long, value_name = "NAME", requires = "web")]
    pub host: Vec<String>,
}

/// `bakeoff doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// ssh:HOST, a box for arms; nothing on it is changed [default: this machine]
    #[arg(value_parser = box_host)]
    pub target: Option<String>,
    /// ssh's configuration file [default: the user's]
    #[arg(long, value_name = "FILE", requires = "target")]
    pub ssh_config: Option<PathBuf>,
    /// Print all details, such as the error of QEMU when KVM failed
    #[arg(short, long)]
    pub verbose: bool,
    /// Measure what string instructions cost on this host's CPU, for the prices in a plan's [machine]; takes two seconds
    #[arg(long, conflicts_with = "target")]
    pub calibrate: bool,
    /// Which QEMU.
    #[command(flatten)]
    pub emulator: EmulatorArgs,
}

/// The host in `ssh:HOST`.
fn box_host(text: &str) -> Result<String, String> {
    match text.strip_prefix("ssh:") {
        Some(host) if !host.is_empty() && !host.starts_with('-') => Ok(host.into()),
        _ => Err("not a box: write ssh:HOST, such as ssh:root@box".into()),
    }
}

/// `bakeoff cache qemu ...`.
#[derive(Debug, Subcommand)]
pub enum QemuCommand {
    /// List QEMU binaries, and which of them runs guests
    #[command(after_help = "Example:\n  bakeoff cache qemu list")]
    List {
        /// Which QEMU.
        #[command(flatten)]
        emulator: EmulatorArgs,
        /// Which architecture.
        #[command(flatten)]
        arch: ArchArgs,
    },
    /// Download Debian 13's QEMU into the cache; nothing is installed
    #[command(after_help = "Example:\n  bakeoff cache qemu fetch")]
    Fetch {
        /// Which architecture.
        #[command(flatten)]
        arch: ArchArgs,
        /// Look for a newer one
        #[arg(long)]
        refresh: bool,
    },
}

/// Which QEMU.
#[derive(Debug, Clone, Default, Args)]
pub struct EmulatorArgs {
    /// The QEMU that runs guests [default: `BAKEOFF_QEMU`, else the host's, else a downloaded one]
    #[arg(long = "qemu", value_name = "PATH")]
    path: Option<PathBuf>,
}

impl EmulatorArgs {
    /// The user's choice, by option or by variable.
    pub fn named(&self) -> Option<PathBuf> {
        machine::emulator_choice::named(self.path.as_deref())
    }

    /// Whether the option was typed. The variable holds for all that a user does, so it may name what is not needed.
    pub fn is_typed(&self) -> bool {
        self.path.is_some()
    }
}

/// The second CPU model by default: a server CPU of another vendor, with other mitigations.
const SECOND_MODEL: &str = "EPYC-Milan";

/// `bakeoff run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The plan file, or several
    #[arg(required = true, value_name = "PLAN")]
    pub plans: Vec<PathBuf>,
    /// How they are run.
    #[command(flatten)]
    pub options: RunOptions,
    /// What several plans promise together.
    #[command(flatten)]
    pub night: show::RunNightArgs,
    /// Where their blocks are run.
    #[command(flatten)]
    pub fleet: FleetArgs,
}

/// One plan of `bakeoff run`.
#[derive(Debug, Clone)]
pub struct PlanArgs {
    /// The plan file.
    pub plan: PathBuf,
    /// How it is run.
    pub options: RunOptions,
    /// Where its blocks are run.
    pub fleet: FleetArgs,
    /// The highest error rate that it may have: a night of many plans has less for each.
    pub most_error_rate: Option<f64>,
}

impl PlanArgs {
    /// A plan that this host runs.
    pub fn on_this_host(plan: PathBuf, options: RunOptions) -> Self {
        Self {
            plan,
            options,
            fleet: FleetArgs::default(),
            most_error_rate: None,
        }
    }
}

/// Which nodes of a cluster run a plan's blocks.
#[derive(Debug, Clone, Default, Args)]
pub struct FleetArgs {
    /// Run each block as a job of a Slurm cluster; all nodes must see the run directory
    #[arg(long, conflicts_with_all = ["models", "ceiling"])]
    pub slurm: bool,
    /// The partition for the jobs [default: the cluster's]
    #[arg(long, value_name = "NAME", requires = "slurm")]
    pub partition: Option<String>,
    /// The only nodes for the jobs, such as n[1-3] [default: all of the partition]
    #[arg(long, value_name = "LIST", requires = "slurm")]
    pub nodes: Option<String>,
    /// Jobs at a time [default: one for each node]
    #[arg(long, value_name = "N", requires = "slurm", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub array_width: Option<u32>,
    /// Path of bakeoff on the nodes [default: the path of this one]
    #[arg(long, value_name = "PATH", requires = "slurm")]
    pub program: Option<PathBuf>,
    /// Run one block of a run that was begun with --slurm; its jobs do
    #[arg(long, value_name = "N", hide = true, conflicts_with = "slurm")]
    #[arg(requires = "out", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_BLOCKS)))]
    pub block: Option<u32>,
}

/// `bakeoff why`.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// The run directory of a run with --why
    pub dir: PathBuf,
    /// Explain this arm's difference from the baseline [default: each arm's]
    #[arg(long, value_name = "NAME")]
    pub arm: Option<String>,
    /// Explain what differs between this arm's slow and fast boots instead
    #[arg(long, value_name = "ARM", conflicts_with_all = ["arm", "folded"])]
    pub within: Option<String>,
    /// Explain it on this workload [default: each]
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,
    /// Explain this metric [default: the primary one if it is a latency or with --within, else instructions per request, or CPU time if profiles are sampled]
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
    /// Run both arms again with and without a setting that disables a mechanism, to find its share of the difference: a mechanism, or
    /// cmdline:TEXT, sysctl:NAME=VALUE, debugfs:FILE=VALUE [default: the largest mechanism that has a setting]
    #[arg(long, value_name = "MECHANISM|SETTING", num_args = 0..=1, default_missing_value = "")]
    #[arg(conflicts_with_all = ["within", "folded", "metric"])]
    pub confirm: Option<String>,
    /// The directory of that run [default: beside RUN]
    #[arg(long, short, value_name = "DIR", requires = "confirm")]
    pub out: Option<PathBuf>,
    /// Its trials at a time
    #[arg(long, short, value_name = "N", requires = "confirm", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Which QEMU it takes.
    #[command(flatten)]
    pub emulator: EmulatorArgs,
    /// Print Markdown
    #[arg(long, conflicts_with_all = ["folded", "json"])]
    pub markdown: bool,
    /// Print one profiled trial's call paths with their instructions or samples as folded stacks, for flame graph viewers
    #[arg(long, value_name = "TRIAL", conflicts_with_all = ["arm", "workload", "metric", "json"])]
    pub folded: Option<u32>,
}

/// What `bakeoff run` and `bakeoff compare` share.
#[derive(Debug, Clone, Default, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub struct RunOptions {
    /// The run directory [default: runs/NAME, after the plan file]; for several plans, the directory of their run directories
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Gate: exit with status 1 if this is found in any arm, with 3 if there is no answer
    #[arg(long, value_name = "WHAT", value_enum)]
    pub fail_on: Option<FailOn>,
    /// Accept a failed fairness check; the reason is printed in the report and kept in the run directory
    #[arg(long, value_name = "ID=REASON")]
    pub accept: Vec<String>,
    /// Run the baseline against itself, to find the smallest difference that this machine can show [default directory: runs/NAME-a-a]
    #[arg(long)]
    pub a_a: bool,
    /// Repeat a few blocks on another emulated CPU and without mitigations, to see whether the verdict changes
    #[arg(long, value_name = "MODEL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = SECOND_MODEL, value_parser = CpuModel::parse, conflicts_with = "a_a")]
    pub models: Option<CpuModel>,
    /// Profile, as `[why]` in the plan does: every trial if instructions are counted, else additional trials that are not judged
    #[arg(long, conflicts_with = "a_a")]
    pub why: bool,
    /// Add N blocks to a run that ended undecided; this raises the chance of a wrong verdict, and the report says by how much
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_BLOCKS)))]
    pub more_blocks: Option<u32>,
    /// Measure the clients against the null server again, also for a finished run
    #[arg(long)]
    pub ceiling: bool,
    /// Look for newer kernels and packages than the cached ones
    #[arg(long)]
    pub refresh: bool,
    /// Trials at a time, if instructions are counted [default: one for each CPU, if memory allows]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Print the host time of each phase of trials, by arm
    #[arg(long)]
    pub timings: bool,
    /// Which QEMU.
    #[command(flatten)]
    pub emulator: EmulatorArgs,
}

/// What a gate may trip on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// A primary metric is worse, or another one beyond the margin (a trade-off); no answer while undecided
    Regression,
    /// A primary metric is worse; undecided passes
    Worse,
    /// A fairness check fails
    Unfair,
    /// A kernel or service of an arm reports a defect that the baseline does not have
    Defect,
    /// Long trials show a counter that grows in an arm and not likewise in the baseline
    Growth,
    /// Long trials show a failed request or an outage in an arm
    Failures,
}

/// `bakeoff cache kernel ...`.
#[derive(Debug, Subcommand)]
pub enum KernelCommand {
    /// List kernels of a Debian suite, or in the cache
    #[command(
        after_help = "Examples:\n  bakeoff cache kernel list\n  bakeoff cache kernel list debian:trixie-backports"
    )]
    List {
        /// debian:SUITE [default: what is in the cache]
        suite: Option<String>,
        /// Which architecture.
        #[command(flatten)]
        arch: ArchArgs,
        /// Download the package lists again
        #[arg(long)]
        refresh: bool,
    },
    /// Download or copy a kernel into the cache
    #[command(after_help = "Example:\n  bakeoff cache kernel fetch debian:bookworm/6.1")]
    Fetch {
        /// 6.1, debian:SUITE/VERSION, ./bzImage, the directory of a built tree, or ./FILE.deb
        kernel: String,
        /// Modules directory, for an image
        #[arg(long)]
        modules: Option<PathBuf>,
        /// Which architecture.
        #[command(flatten)]
        arch: ArchArgs,
        /// Look for a newer match
        #[arg(long)]
        refresh: bool,
    },
    /// Build a kernel from a source tree, or from a commit of its git repository, into the cache
    #[command(
        after_help = "Examples:\n  bakeoff cache kernel build ~/linux\n  bakeoff cache kernel build ~/linux --commit v6.12\n  \
        bakeoff cache kernel build ~/linux --config my.config\n\n\
        Nothing is written into the tree. What a plan calls the kernel is printed."
    )]
    Build {
        /// The tree
        tree: PathBuf,
        /// A commit [default: the tree as it is; a git repository must have no changes]
        #[arg(long, value_name = "COMMIT")]
        commit: Option<String>,
        /// The configuration [default: a small one of bakeoff's]
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Compiler processes [default: one for each CPU]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
        make_jobs: Option<u16>,
    },
}

/// Which architecture.
#[derive(Debug, Clone, Copy, Args)]
pub struct ArchArgs {
    /// Architecture of guests: x86_64 or aarch64 [default: this host's]
    #[arg(long = "arch", value_name = "ARCH", value_parser = arch)]
    typed: Option<Arch>,
}

impl ArchArgs {
    /// The user's choice, else the host's.
    pub fn arch(self) -> Arch {
        self.typed.unwrap_or(Arch::HOST)
    }

    /// The user's choice.
    pub fn typed(self) -> Option<Arch> {
        self.typed
    }
}

/// An architecture by its name.
fn arch(text: &str) -> Result<Arch, String> {
    let found = Arch::ALL
        .into_iter()
        .find(|arch| arch.facts().name() == text);
    let known = Arch::ALL.map(|arch| arch.facts().name());
    found.ok_or_else(|| format!("unknown architecture ({})", remedy_among(text, &known)))
}

/// `bakeoff cache ...`.
#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// List entries with size, origin and the runs that use them, the least recently used first
    #[command(after_help = "Example:\n  bakeoff cache list")]
    List,
    /// Remove the least recently used entries
    #[command(
        after_help = "Examples:\n  bakeoff cache prune --to 5GiB --dry-run\n  \
        bakeoff cache prune --to 5GiB\n\n\
        What a bakeoff uses now stays. What run directories name stays too, unless --named is given: a run whose\n\
        kernels or image are gone can be judged again, but cannot go on."
    )]
    Prune {
        /// Size to keep, such as 5GiB [default: `BAKEOFF_CACHE_LIMIT`, else 20GiB]
        #[arg(long, value_name = "SIZE", value_parser = base::input::units::bytes)]
        to: Option<u64>,
        /// Also remove entries that runs use
        #[arg(long)]
        named: bool,
        /// Only print what would be removed
        #[arg(long)]
        dry_run: bool,
    },
    /// Check all entries against their checksums and Debian's signed indexes; exit status 2 if one is wrong
    #[command(
        after_help = "Examples:\n  bakeoff cache verify\n  bakeoff cache verify --remove\n\n\
        A run checks what it uses, and refuses what was changed. What is removed is made or fetched anew by the next run\n\
        that needs it."
    )]
    Verify {
        /// Remove wrong entries, unless a bakeoff uses them
        #[arg(long)]
        remove: bool,
    },
    /// List, fetch and build kernels
    #[command(subcommand)]
    Kernel(KernelCommand),
    /// List and build guest images
    #[command(subcommand)]
    Image(ImageCommand),
    /// List QEMU binaries, or download a known-good one
    #[command(subcommand)]
    Qemu(QemuCommand),
}

/// `bakeoff cache image ...`.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// List recipes and built images
    #[command(after_help = "Example:\n  bakeoff cache image list")]
    List,
    /// Build an image into the cache
    #[command(
        after_help = "Examples:\n  bakeoff cache image build web\n  bakeoff cache image build web --suite trixie"
    )]
    Build {
        /// Name of a recipe, or the path of a recipe file
        recipe: String,
        /// Debian suite of its packages [default: the recipe's]
        #[arg(long)]
        suite: Option<String>,
        /// Which architecture.
        #[command(flatten)]
        arch: ArchArgs,
        /// Build again if there are newer packages
        #[arg(long)]
        refresh: bool,
    },
}
