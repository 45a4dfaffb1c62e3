//! The command line: commands, options, examples. Completions and man pages are made from it too.

pub mod bisect;
pub mod check;
pub mod compare;
pub mod judge;
pub mod night;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use plan::MOST_BLOCKS;
use plan::cpu::CpuModel;

/// A bake-off for operating-system kernels and server configurations.
#[derive(Debug, Parser)]
#[command(name = "bakeoff", version, arg_required_else_help = true)]
#[command(after_help = "Example:\n  bakeoff run plans/web-static.toml\n\n\
    Exit status: 0 done, 1 the gate of --fail-on tripped, 2 wrong usage or environment, 3 the gate has no answer.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Print JSON for machines instead of text
    #[arg(long, global = true)]
    pub json: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compare kernels, sysctls or kernel command lines without a plan file; the plan is written for you
    #[command(after_help = "Examples:\n  bakeoff compare 6.1 7.2\n  \
        bakeoff compare debian:bookworm/6.1 debian:trixie-backports/7.2 --workload web-static,smb\n  \
        bakeoff compare 6.1 ./linux -- ./my-benchmark --threads 4\n  \
        bakeoff compare --sysctl net.core.somaxconn=128,4096\n  \
        bakeoff compare --kernel 6.1 --cmdline '' mitigations=off -w threads\n\n\
        The plan is put beside the run directory, runs/compare-6.1-7.2.toml. The same command goes on with\n\
        its run; to ask more, edit a copy of the plan and take bakeoff run.")]
    Compare(Box<compare::CompareArgs>),
    /// List workloads, or write a commented plan for one
    #[command(after_help = "Examples:\n  bakeoff new\n  bakeoff new web-static --out plan.toml")]
    New(compare::NewArgs),
    /// List runs with their verdicts
    #[command(after_help = "Examples:\n  bakeoff list\n  bakeoff list /data/runs --json")]
    List(compare::ListArgs),
    /// Run a plan, or several one after another, or go on with what was interrupted
    #[command(after_help = "Examples:\n  bakeoff run plans/web-static.toml\n  \
        bakeoff run plans/web-static.toml --out /data/runs/monday --fail-on regression\n  \
        bakeoff run plans/web-static.toml --more-blocks 20\n  \
        bakeoff run plans/web-static.toml --slurm --partition lab\n  \
        bakeoff run plans/*.toml --out nights/2026-11-23 --family-wise --fail-on worse\n\n\
        Several plans are a night: each has its run directory in --out DIR, and DIR/index.html tells of all of them.")]
    Run(RunArgs),
    /// Write the index of a night of several plans again, or of several nights with trends over them
    #[command(
        after_help = "Examples:\n  bakeoff index nights/2026-11-23\n  bakeoff index nights --fail-on worse\n  \
        bakeoff index runs/a runs/b --out /tmp/index\n\n\
        index.html, index.md and index.json are written; the plans are those of the newest night."
    )]
    Index(night::IndexArgs),
    /// Find the version or the commit that a metric changed with
    #[command(
        after_help = "Examples:\n  bakeoff bisect plans/web-static.toml --from 6.1 --to 7.3\n  \
        bakeoff bisect plans/web-static.toml --from 6.1 --to 7.3 --walk\n  \
        bakeoff bisect runs/web-static --walk\n  \
        bakeoff bisect plans/web-static.toml --from 6.12 --to 7.2 --metric latency-p99 --why\n  \
        bakeoff bisect plans/web-static.toml --tree ~/linux --commits v6.12..v6.13\n  \
        bakeoff bisect plans/web-static.toml --from 6.1 --to 7.3 --dry-run\n\n\
        The same command goes on with it where it was interrupted. A version that does not build or boot is left out."
    )]
    Bisect(Box<bisect::BisectArgs>),
    /// Check a plan without booting anything; with --power, simulate what it would find, how often, after how many blocks and hours
    #[command(after_help = check::examples())]
    Check(check::CheckArgs),
    /// Judge a run directory again, several against one another, or figures that another tool measured
    #[command(
        after_help = "Examples:\n  bakeoff judge runs/web-static --fail-on regression\n  \
        bakeoff judge figures.csv --margin 1%\n  bakeoff judge old.txt new.txt --markdown\n  \
        bakeoff judge before=runs/a after=runs/b"
    )]
    Judge(judge::JudgeArgs),
    /// Write report.html and report.md of a run directory again
    #[command(after_help = "Example:\n  bakeoff report runs/web-static")]
    Report {
        /// The run directory
        dir: PathBuf,
    },
    /// Check what would make a comparison wrong: arms that differ in more than the plan names, another limit than the server
    #[command(after_help = "Examples:\n  bakeoff fairness runs/web-static\n  \
        bakeoff fairness runs/web-static --accept memory='the question is how memory matters'\n  \
        bakeoff fairness runs/web-static --pin >> plans/web-static-pinned.toml\n  \
        bakeoff fairness --list")]
    Fairness(FairnessArgs),
    /// Explain a difference: which mechanisms and functions it is made of, and who waited for whom
    #[command(
        after_help = "Examples:\n  bakeoff run plan.toml --why\n  bakeoff why runs/plan\n  \
        bakeoff why runs/plan --metric latency-p99\n  bakeoff why runs/plan --folded 3 > stacks.txt"
    )]
    Why(WhyArgs),
    /// Watch a run while it goes on: arms side by side, curves, defects, time left, the verdict so far
    #[command(
        after_help = "Examples:\n  bakeoff watch\n  bakeoff watch runs/web-static\n  bakeoff watch runs/web-static | tee watched.txt\n  \
        bakeoff watch --web\n  bakeoff watch --web /data/runs --listen 127.0.0.1:9000\n  \
        bakeoff watch --web --listen 10.0.0.7:8990 --token-file ~/.bakeoff-token\n\n\
        Keys: q ends, arrows choose a trial, ? lists the others. Without a terminal it prints a line when something has changed.\n\
        Pages change nothing. Addresses that others can reach need a token; without --token-file one is made and printed."
    )]
    Watch(WatchArgs),
    /// Load a server with simulated clients that check every response
    #[command(
        after_help = "Examples:\n  bakeoff load http://127.0.0.1:8080/ -c 64 -d 10s\n  \
        bakeoff load http://127.0.0.1:8080/ --capacity 'p99<5ms'"
    )]
    Load(Box<crate::load_cli::LoadArgs>),
    /// Answer each request at once, so that clients on other hosts can find out how much they could measure at the most
    #[command(
        hide = true,
        after_help = "Examples:\n  bakeoff null-server --listen 0.0.0.0:8080\n\n\
        Name it in a plan, beside systems on the network: [machine] ceiling = \"http://HOST:8080\".\n\
        GET /bytes/1000 is answered with 1000 bytes, any other path with as many as --bytes says."
    )]
    NullServer(NullServerArgs),
    /// List what the cache holds, make it smaller, and add kernels, guest images and a QEMU
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
    /// Say what this machine, or a box by ssh, can do and what is missing
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
    /// The run directory, or that of a night [default: of those below runs, the one that is running, else the one that began last;
    /// with --web all of them]
    pub run: Option<PathBuf>,
    /// Serve pages to browsers instead, which keep themselves up to date, until Ctrl-C
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
    /// File with the token that is asked for, 16 characters or more [default: made and printed where ADDRESS is not this host's own]
    #[arg(long, value_name = "FILE", requires = "web")]
    pub token_file: Option<PathBuf>,
    /// A name under which the server is reached, beside its addresses and localhost
    #[arg(long, value_name = "NAME", requires = "web")]
    pub host: Vec<String>,
}

/// `bakeoff doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// ssh:HOST: a box for arms; it is looked at, and nothing on it is changed [default: this machine]
    #[arg(value_parser = box_host)]
    pub target: Option<String>,
    /// Configuration file for ssh, in place of the user's
    #[arg(long, value_name = "FILE", requires = "target")]
    pub ssh_config: Option<PathBuf>,
    /// Print all that is known, such as what QEMU said when KVM failed
    #[arg(short, long)]
    pub verbose: bool,
    /// Measure what string instructions cost this host's CPU, for the prices in [machine] of a plan; a second or two
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
    /// Say which QEMU runs guests, and which others there are
    #[command(after_help = "Example:\n  bakeoff cache qemu list")]
    List {
        /// Which QEMU.
        #[command(flatten)]
        emulator: EmulatorArgs,
    },
    /// Fetch Debian 13's QEMU into the cache; nothing is installed
    #[command(after_help = "Example:\n  bakeoff cache qemu fetch")]
    Fetch {
        /// Look for a newer one
        #[arg(long)]
        refresh: bool,
    },
}

/// Which QEMU.
#[derive(Debug, Clone, Default, Args)]
pub struct EmulatorArgs {
    /// The QEMU that runs the guests [default: that of the variable `BAKEOFF_QEMU`, else the host's own, else a fetched
    /// one]
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
    pub night: night::RunNightArgs,
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
    /// Run each block as a job of a Slurm cluster; the run directory must lie where all nodes see it
    #[arg(long, conflicts_with_all = ["models", "ceiling"])]
    pub slurm: bool,
    /// The partition for the jobs [default: the cluster's]
    #[arg(long, value_name = "NAME", requires = "slurm")]
    pub partition: Option<String>,
    /// The only nodes for the jobs, such as n[1-3] [default: all of the partition]
    #[arg(long, value_name = "LIST", requires = "slurm")]
    pub nodes: Option<String>,
    /// Jobs at a time [default: as many as there are nodes]
    #[arg(long, value_name = "N", requires = "slurm", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub array_width: Option<u32>,
    /// The bakeoff of the nodes [default: this one, by its path]
    #[arg(long, value_name = "PATH", requires = "slurm")]
    pub program: Option<PathBuf>,
    /// Run one block of a run that was begun with --slurm; its jobs do
    #[arg(long, value_name = "N", hide = true, conflicts_with = "slurm")]
    #[arg(requires = "out", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_BLOCKS)))]
    pub block: Option<u32>,
}

/// `bakeoff fairness`.
#[derive(Debug, Args)]
pub struct FairnessArgs {
    /// The run directory
    #[arg(required_unless_present = "list")]
    pub dir: Option<PathBuf>,
    /// Take a violation for declared, with the reason that stands in the report; kept in the run directory
    #[arg(long, value_name = "ID=REASON")]
    pub accept: Vec<String>,
    /// Print what differs and can be set alike, as the table `[pinned]` of a plan
    #[arg(long, conflicts_with_all = ["accept", "fail_on"])]
    pub pin: bool,
    /// List all checks with what they ask and why, in Markdown
    #[arg(long, conflicts_with_all = ["dir", "accept", "pin", "fail_on"])]
    pub list: bool,
    /// Exit with status 1 where this is found
    #[arg(long, value_enum)]
    pub fail_on: Option<FailOn>,
}

/// `bakeoff why`.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// The run directory of a run with --why
    pub dir: PathBuf,
    /// Explain this arm's difference from the baseline [default: each arm's]
    #[arg(long, value_name = "NAME")]
    pub arm: Option<String>,
    /// Explain what differs between this arm's slow boots and its fast ones instead
    #[arg(long, value_name = "ARM", conflicts_with_all = ["arm", "folded"])]
    pub within: Option<String>,
    /// Explain it on this workload [default: each]
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,
    /// Explain this metric [default: the primary one where it is a latency, else instructions per request, or CPU time where profiles are sampled; with --within the primary one]
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
    /// Run both arms again with and without a setting that turns a mechanism off, and say how much of the difference it explains:
    /// of this mechanism, or cmdline:TEXT, sysctl:NAME=VALUE, debugfs:FILE=VALUE [default: the largest that has a setting]
    #[arg(long, value_name = "MECHANISM|SETTING", num_args = 0..=1, default_missing_value = "")]
    #[arg(conflicts_with_all = ["within", "folded", "metric"])]
    pub confirm: Option<String>,
    /// The directory of that run [default: beside RUN]
    #[arg(long, value_name = "DIR", requires = "confirm")]
    pub out: Option<PathBuf>,
    /// Its trials at a time
    #[arg(long, value_name = "N", requires = "confirm", value_parser = clap::value_parser!(u16).range(1..=1024))]
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
    /// The run directory [default: runs/NAME, NAME being the plan file's name]; of several plans the directory of all of theirs
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Exit with status 1 when any arm has this verdict, with 2 when that cannot be told
    #[arg(long, value_enum)]
    pub fail_on: Option<FailOn>,
    /// Take a violation of fairness for declared, with the reason that stands in the report; kept in the run directory
    #[arg(long, value_name = "ID=REASON")]
    pub accept: Vec<String>,
    /// Run the baseline against itself instead, and say what this machine can show [default directory: runs/NAME-a-a]
    #[arg(long)]
    pub a_a: bool,
    /// Then repeat a few blocks on another emulated CPU and without mitigations, and say how far the verdict moves
    #[arg(long, value_name = "MODEL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = SECOND_MODEL, value_parser = CpuModel::parse, conflicts_with = "a_a")]
    pub models: Option<CpuModel>,
    /// Profile: under counted instructions every trial, by the wall clock as many more that are sampled and not judged (as `[why]` in
    /// the plan)
    #[arg(long, conflicts_with = "a_a")]
    pub why: bool,
    /// Give a run that ended undecided N blocks more; a wrong verdict then has a greater chance, which is told
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_BLOCKS)))]
    pub more_blocks: Option<u32>,
    /// Where clients were measured against a null server before, do that again, also for a run that has ended
    #[arg(long)]
    pub ceiling: bool,
    /// Look for newer kernels and packages instead of using the cached ones
    #[arg(long)]
    pub refresh: bool,
    /// Trials to run at a time, only where instructions are counted [default: one for each CPU, memory permitting]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Print the host time of each phase of a trial, by arm
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
    /// A check of the fairness gate fails
    Violation,
    /// Its kernel or a service told of a defect that the baseline has not
    Defect,
    /// Long trials show a counter that grows in an arm, and not likewise in the baseline
    Growth,
    /// Long trials show a failed request, or an outage, in an arm
    Failures,
}

/// `bakeoff cache kernel ...`.
#[derive(Debug, Subcommand)]
pub enum KernelCommand {
    /// List the kernels of a Debian suite, or those in the cache
    #[command(
        after_help = "Examples:\n  bakeoff cache kernel list\n  bakeoff cache kernel list debian:trixie-backports"
    )]
    List {
        /// debian:SUITE [default: what is in the cache]
        suite: Option<String>,
        /// Fetch the package lists anew
        #[arg(long)]
        refresh: bool,
    },
    /// Fetch a kernel into the cache
    #[command(after_help = "Example:\n  bakeoff cache kernel fetch debian:bookworm/6.1")]
    Fetch {
        /// `debian:SUITE/VERSION`, `deb:FILE...`, `file:VMLINUZ` or `tree:DIR`
        kernel: String,
        /// Modules directory, for `file:VMLINUZ`
        #[arg(long)]
        modules: Option<PathBuf>,
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
        /// A commit [default: the tree as it is, which must be a commit's if it is a git repository]
        #[arg(long, value_name = "COMMIT")]
        commit: Option<String>,
        /// The configuration [default: bakeoff's own, small]
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Compilers at a time [default: one for each CPU]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
        jobs: Option<u16>,
    },
}

/// `bakeoff cache ...`.
#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// List entries, the least recently used first: size, origin, and which run directories name them
    #[command(after_help = "Example:\n  bakeoff cache list")]
    List,
    /// Remove the least recently used entries until the cache is small enough
    #[command(
        after_help = "Examples:\n  bakeoff cache prune --to 5GiB --dry-run\n  \
        bakeoff cache prune --to 5GiB\n\n\
        What a bakeoff uses now stays. What run directories name stays too, unless --named is given: a run whose\n\
        kernels or image are gone can be judged again, but cannot go on."
    )]
    Prune {
        /// What it may keep, such as 5GiB [default: `BAKEOFF_CACHE_LIMIT`, else 20GiB]
        #[arg(long, value_name = "SIZE", value_parser = base::input::units::bytes)]
        to: Option<u64>,
        /// Remove entries that run directories name as well
        #[arg(long)]
        named: bool,
        /// Only say what would go
        #[arg(long)]
        dry_run: bool,
    },
    /// Check all that it holds against what its names and Debian's signed indexes say; status 2 where something is wrong
    #[command(
        after_help = "Examples:\n  bakeoff cache verify\n  bakeoff cache verify --remove\n\n\
        A run checks what it uses, and refuses what was changed. What is removed is made or fetched anew by the next run\n\
        that needs it."
    )]
    Verify {
        /// Remove what is wrong, unless a bakeoff uses it
        #[arg(long)]
        remove: bool,
    },
    /// List, fetch and build kernels
    #[command(subcommand)]
    Kernel(KernelCommand),
    /// List and build guest images
    #[command(subcommand)]
    Image(ImageCommand),
    /// List the QEMU binaries, and fetch one that is known to be good
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
        /// Debian suite of its packages, in place of the recipe's
        #[arg(long)]
        suite: Option<String>,
        /// Build again with newer packages if there are any
        #[arg(long)]
        refresh: bool,
    },
}
