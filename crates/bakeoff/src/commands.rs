//! The commands, one file each.

mod bisect;
mod cache;
mod check;
mod clients;
mod compare;
mod completions;
mod doctor;
mod explained;
mod fairness;
mod forecast;
mod gate;
mod image;
mod index;
mod judge;
mod kernel;
mod list;
mod new;
mod null_server;
mod plan_file;
mod qemu;
mod report;
mod run;
mod serve;
mod simulate;
mod watch;
mod why;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base::input::file;
use base::input::units::show_bytes;
use machine::cache::Cache;
use machine::emulator_choice;
use machine::task::{Interrupted, Progress, Task};
use plan::cpu::CpuModel;
use plan::fields::Fields;
use plan::{Checks, MachineKind, Plan, WorkloadPlan};
use record::protocol::hosts::HostCommand;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::arm_needs;
use crate::build_id;
use crate::cli::{Cli, Command, EmulatorArgs};
use crate::load_cli;
use crate::out;
use crate::prepare::OWN_FILES_BYTES;
use crate::reporter::Reporter;

/// Exit status of a job that is to be run again (`EX_TEMPFAIL` of sysexits.h): what `RequeueExit` in slurm.conf is to say.
const REQUEUE: u8 = 75;

/// Longest file that a plan names and whose text is checked, in bytes.
const NAMED_BYTES: u64 = 64 << 20;

/// How a command ended when nothing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Done.
    Done,
    /// Done, and the gate of `--fail-on` tripped.
    Tripped,
    /// Could not be done; what is wrong has been printed.
    Refused,
    /// A job of a cluster that may succeed on another node, or later.
    Requeue,
}

impl From<End> for ExitCode {
    fn from(end: End) -> Self {
        match end {
            End::Done => Self::SUCCESS,
            End::Tripped => Self::from(1),
            End::Refused => Self::from(2),
            End::Requeue => Self::from(REQUEUE),
        }
    }
}

/// Does what was typed.
pub fn run(cli: &Cli) -> Result<End> {
    match &cli.command {
        Command::Compare(args) => compare::compare(args, cli.json),
        Command::New(args) => new::new(args, cli),
        Command::List(args) => list::list(args, cli.json),
        Command::Run(args) => run::night::run_plans(args, cli.json),
        Command::Index(args) => index::index(args, cli.json),
        Command::Bisect(args) => bisect::bisect(args, cli.json),
        Command::Check(args) => check::check(args, cli.json),
        Command::Simulate(args) => simulate::simulate(args, cli.json),
        Command::Judge(args) => judge::judge(args, cli.json),
        Command::Report { dir } => report::report(dir, cli.json),
        Command::Fairness(args) => fairness::fairness(args, cli.json),
        Command::Why(args) => why::why(args, cli.json),
        Command::Watch(args) => {
            refuse_json(cli)?;
            watch::watch(args)
        }
        Command::Serve(args) => {
            refuse_json(cli)?;
            serve::serve(args)
        }
        Command::Load(args) => load_cli::run(args, cli.json),
        Command::NullServer(args) => null_server::serve(args, cli),
        Command::Kernel(command) => kernel::run(command, cli.json),
        Command::Image(command) => image::run(command, cli.json),
        Command::Cache(command) => cache::run(command, cli.json),
        Command::Agent {
            cgroup,
            hosts,
            files,
        } => {
            let build = build_id::build();
            let hosts = host_commands(hosts.as_deref())?;
            std::process::exit(match cgroup {
                Some(cgroup) => guest::live(&build, cgroup, files),
                None => guest::remote(&build, &hosts),
            })
        }
        Command::Clients(args) => clients::clients(args),
        Command::Relay { address } => machine::ssh::relay::relay(address).map(|()| End::Done),
        Command::Qemu(command) => qemu::run(command, cli.json),
        Command::Doctor(args) => doctor::doctor(args, cli.json),
        Command::Completions { shell } => {
            refuse_json(cli)?;
            Ok(completions::completions(*shell))
        }
        Command::Man { dir } => {
            refuse_json(cli)?;
            completions::man(dir)
        }
    }
}

/// An option that does not apply is a mistake: who typed it expects something of it.
fn refuse_json(cli: &Cli) -> Result<()> {
    if cli.json {
        bail!("--json does not apply: what is written has a format of its own (leave it out)");
    }
    Ok(())
}

/// How agents of hosts that clients are on are started.
fn host_commands(json: Option<&str>) -> Result<Vec<HostCommand>> {
    let commands = json.map(serde_json::from_str).transpose();
    Ok(commands.context("--hosts")?.unwrap_or_default())
}

/// A plan file as text and as a valid plan. `qemu` is the user's choice, if any.
fn read_plan(path: &Path, qemu: Option<&Path>) -> Result<(String, Plan)> {
    let text =
        plan::read_text(path).with_context(|| format!("cannot read plan: {}", path.display()))?;
    check_plan(path, text, qemu)
}

/// The same, changed after it has been found right.
fn read_plan_as(
    path: &Path,
    qemu: Option<&Path>,
    change: impl Fn(&str) -> Result<String, plan::TomlError>,
) -> Result<(String, Plan)> {
    let (text, _) = read_plan(path, qemu)?;
    check_plan(path, change(&text)?, qemu)
}

fn check_plan(path: &Path, text: String, qemu: Option<&Path>) -> Result<(String, Plan)> {
    let base = path.parent().unwrap_or(Path::new(""));
    let plan = check_text(&path.display().to_string(), base, &text, qemu)?;
    Ok((text, plan))
}

/// The text of a plan as a valid plan: `name` is what a user calls it, and its paths are taken from `base`.
fn check_text(name: &str, base: &Path, text: &str, qemu: Option<&Path>) -> Result<Plan> {
    let sizes = RefCell::default();
    let checks = Checks {
        workload: &|fields| {
            let checked = workload::check(fields)?;
            check_files(fields, &checked, base, &sizes);
            Some(checked)
        },
        kernel: &|kernel| machine::kernel::check(kernel).map_err(|why| format!("{why:#}")),
        recipe: &|recipe| machine::image::check(recipe).map_err(|why| format!("{why:#}")),
        memory: &machine::host::check_memory,
        cpu_model: &|model| check_cpu_model(model, qemu),
        program: &|program| machine::remote::check_program(program, base),
        file: &|path| {
            let read = file::read_to_string(path, NAMED_BYTES);
            read.map_err(|why| format!("cannot read {}: {why}", path.display()))
        },
        tuning: &workload::config::check_tuning,
        services: &workload::services,
        suite: &|suite| machine::image::check_suite(suite).map_err(|why| format!("{why:#}")),
        url: &check_url,
        is_driven_from_outside: &workload::is_driven_from_outside,
        can_be_disturbed: &workload::can_be_disturbed,
        is_shareable: &workload::is_shareable,
        takes_addresses: &workload::takes_addresses,
        has_run: false,
    };
    let plan = plan::read(name, text, base, checks)?;
    arm_needs::refuse(name, &plan)?;
    for workload in &plan.workloads {
        let fits = workload::check_machine(workload, plan.machine.kind);
        fits.map_err(|why| anyhow::anyhow!("{name}: {why}"))?;
    }
    Ok(plan)
}

/// Says what is wrong with the address of a system on the network.
fn check_url(text: &str) -> Result<(), String> {
    ::load::url::Url::read(text).map(drop)
}

/// Notes files of a workload's that are not there, and when those of all so far are more than can travel; `sizes` has what
/// each name of a file was found to have, in bytes.
fn check_files(
    fields: &Fields<'_>,
    workload: &WorkloadPlan,
    base: &Path,
    sizes: &RefCell<BTreeMap<OsString, u64>>,
) {
    let mut sizes = sizes.borrow_mut();
    for name in workload::host_files(workload) {
        let path = base.join(name);
        let remedy = "paths are taken from the plan's directory";
        match file::metadata(&path) {
            Ok(about) => {
                let before: u64 = sizes.values().sum();
                sizes.insert(path.file_name().unwrap_or_default().into(), about.len());
                let bytes: u64 = sizes.values().sum();
                if before <= OWN_FILES_BYTES && OWN_FILES_BYTES < bytes {
                    let what = too_large(&path, about.len(), bytes);
                    fields.wrong("files", what, too_large_remedy());
                }
            }
            Err(why) if why.kind() == ErrorKind::NotFound => {
                fields.wrong("files", format!("no such file: {}", path.display()), remedy);
            }
            Err(why) => {
                let what = format!("cannot read {}: {why}", path.display());
                fields.wrong("files", what, "name regular files");
            }
        }
    }
}

fn too_large(path: &Path, own: u64, all: u64) -> String {
    format!(
        "files of workloads too large: {}, of these {} {}",
        show_bytes(all),
        path.display(),
        show_bytes(own)
    )
}

fn too_large_remedy() -> String {
    format!(
        "at most {} together; larger ones belong in an image, with [[copy]] in its recipe",
        show_bytes(OWN_FILES_BYTES)
    )
}

/// Refuses a QEMU that the plan's machine has no use for, or that is none, before anything is fetched.
fn refuse_emulator(args: &EmulatorArgs, plan: &Plan) -> Result<()> {
    if plan.machine.kind != MachineKind::Qemu {
        if args.is_typed() {
            bail!(
                "--qemu does not apply to a machine of kind \"{}\": nothing is emulated (leave it out)",
                plan.machine.kind.word()
            );
        }
        return Ok(());
    }
    match args.named() {
        Some(named) => at_work(true, |cache, task| {
            emulator_choice::find(Some(&named), cache, task).map(|_| ())
        }),
        None => Ok(()),
    }
}

/// Asks QEMU whether it knows a CPU model. Where the run may yet fetch another QEMU, the question is left to the run.
fn check_cpu_model(model: &CpuModel, qemu: Option<&Path>) -> Result<(), String> {
    let stop = AtomicBool::new(false);
    let task = Task {
        tell: &|_| {},
        stop: &stop,
    };
    let cache = Cache::of_user();
    let found = cache.and_then(|cache| emulator_choice::find(qemu, &cache, task));
    match found {
        Ok(program) if qemu.is_some() || program.fault().is_none() => program.check_model(model),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Does long work with a moving line, which Ctrl-C ends; the line is gone before the result is used.
fn at_work<T>(json: bool, work: impl FnOnce(&Cache, Task<'_>) -> Result<T>) -> Result<T> {
    let stop = watch_signals()?;
    let reporter = Reporter::new(json);
    let tell = |progress: Progress<'_>| reporter.step(progress.what, progress.share);
    work(
        &Cache::of_user()?,
        Task {
            tell: &tell,
            stop: &stop,
        },
    )
}

/// The flag of the watch that was set up last.
static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Why a command ended without being done, in a line. Ctrl-C ends the programs that are at work too, so that what they
/// failed at is no fault of theirs.
pub fn why_not_done(why: &anyhow::Error) -> String {
    not_done(why, is_interrupted())
}

/// Whether Ctrl-C or a polite kill has asked this command to end.
fn is_interrupted() -> bool {
    STOP.get().is_some_and(|stop| stop.load(Ordering::Relaxed))
}

fn not_done(why: &anyhow::Error, is_stopped: bool) -> String {
    let whole = format!("{why:#}");
    if why.chain().any(<dyn std::error::Error>::is::<Interrupted>) {
        Interrupted.to_string()
    } else if is_stopped && !whole.starts_with("interrupted") {
        format!("{Interrupted}; what was under way ended with: {whole}")
    } else {
        whole
    }
}

/// A flag that Ctrl-C and a polite kill set; the second one ends bakeoff at once.
pub(crate) fn watch_signals() -> Result<Arc<AtomicBool>> {
    if let Some(stop) = STOP.get() {
        return Ok(Arc::clone(stop));
    }
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot watch for Ctrl-C")?;
    let stop = Arc::clone(STOP.get_or_init(Arc::default));
    let flag = Arc::clone(&stop);
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || obey(&mut signals, &flag))
        .context("cannot watch for Ctrl-C")?;
    Ok(stop)
}

/// A second signal so soon after the first is the same one: `timeout` sends it to a process and then to its group.
const SAME_SIGNAL: Duration = Duration::from_millis(300);

/// Sets the flag at the first signal, and ends bakeoff at the second.
fn obey(signals: &mut Signals, stop: &AtomicBool) {
    let mut first: Option<Instant> = None;
    for _ in signals.forever() {
        match first {
            None => {
                first = Some(Instant::now());
                stop.store(true, Ordering::Relaxed);
            }
            Some(first) if first.elapsed() < SAME_SIGNAL => {}
            Some(_) => {
                out::error_line(
                    "bakeoff: interrupted twice, so it ends at once; what has ended is kept (run the same command again to go on)",
                );
                std::process::exit(2);
            }
        }
    }
}

/// Prints a value as JSON on standard output.
fn print_json<T: serde::Serialize>(value: &T) -> Result<()> {
    out::json(&serde_json::to_string_pretty(value)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_is_not_told_as_a_failure_of_what_was_under_way() {
        let stopped = || anyhow::Error::from(Interrupted);
        let why = stopped().context("cannot fetch QEMU from Debian trixie");
        let interrupted = "interrupted (run the same command again to go on)";
        assert_eq!(not_done(&why, true), interrupted);
        let why = anyhow::anyhow!("apt-get failed: signal 2").context("cannot have kernel x");
        assert_eq!(
            not_done(&why, true),
            format!(
                "{interrupted}; what was under way ended with: cannot have kernel x: apt-get failed: signal 2"
            )
        );
        assert_eq!(
            not_done(&why, false),
            "cannot have kernel x: apt-get failed: signal 2"
        );
        let why = anyhow::anyhow!("interrupted; what has ended is kept: go on with x");
        assert_eq!(
            not_done(&why, true),
            "interrupted; what has ended is kept: go on with x"
        );
    }
}
