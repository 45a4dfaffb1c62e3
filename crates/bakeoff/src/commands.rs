//! The commands, one file each.

mod bisect;
mod bundle;
mod cache;
mod check;
mod clients;
mod compare;
mod completions;
mod doctor;
mod explained;
mod forecast;
mod gate;
mod judge;
mod list;
mod new;
mod null_server;
mod plan_file;
mod report;
mod rerun;
mod run;
mod show;
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
use base::arch::Arch;
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
use crate::reporter;
use crate::reporter::Reporter;

/// Exit status of a job that should be requeued (`EX_TEMPFAIL` of sysexits.h); `RequeueExit` in slurm.conf must name it.
const REQUEUE: u8 = 75;

/// Limit on the size of a file that a plan names and whose text is checked.
const MAX_NAMED_FILE_BYTES: u64 = 64 << 20;

/// How a command ended, if it did not return an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Done.
    Done,
    /// Done, and the gate of `--fail-on` tripped.
    Tripped,
    /// Failed; the command has printed why.
    Refused,
    /// Done, and the gate of `--fail-on` has no answer.
    Unanswered,
    /// A job of a cluster that may succeed on another node, or later.
    Requeue,
}

impl From<End> for ExitCode {
    fn from(end: End) -> Self {
        match end {
            End::Done => Self::SUCCESS,
            End::Tripped => Self::from(1),
            End::Refused => Self::from(2),
            End::Unanswered => Self::from(3),
            End::Requeue => Self::from(REQUEUE),
        }
    }
}

/// Runs the command.
pub fn run(cli: &Cli) -> Result<End> {
    if cli.quiet {
        reporter::be_quiet();
    }
    match &cli.command {
        Command::Compare(args) => compare::compare(args, cli.json),
        Command::New(args) => new::new(args, cli),
        Command::List(args) => list::list(args, cli.json),
        Command::Run(args) => run::night::run_plans(args, cli.json),
        Command::Show(args) => show::show(args, cli.json),
        Command::Bundle(args) => bundle::bundle(args, cli.json),
        Command::Rerun(args) => rerun::rerun(args, cli.json),
        Command::Bisect(args) => bisect::bisect(args, cli.json),
        Command::Check(args) => check::check(args, cli.json),
        Command::Judge(args) => judge::judge(args, cli.json),
        Command::Why(args) => why::why(args, cli.json),
        Command::Watch(args) => {
            refuse_json(cli)?;
            watch::watch(args)
        }
        Command::Load(args) => load_cli::run(args, cli.json),
        Command::NullServer(args) => null_server::serve(args, cli),
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

/// Refuses `--json` for a command without JSON output. The user expects an effect, so ignoring the option would mislead.
fn refuse_json(cli: &Cli) -> Result<()> {
    if cli.json {
        bail!("--json does not apply: what is written has a format of its own (leave it out)");
    }
    Ok(())
}

/// Reads the commands that start the agents of client hosts.
fn host_commands(json: Option<&str>) -> Result<Vec<HostCommand>> {
    let commands = json.map(serde_json::from_str).transpose();
    Ok(commands.context("--hosts")?.unwrap_or_default())
}

/// Reads a plan file; returns its text and the valid plan. `qemu` is the user's choice, if any.
fn read_plan(path: &Path, qemu: Option<&Path>) -> Result<(String, Plan)> {
    let text =
        plan::read_text(path).with_context(|| format!("cannot read plan: {}", path.display()))?;
    check_plan(path, text, qemu)
}

/// Reads a plan file, checks it, and returns a changed version of it.
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

/// Checks the text of a plan. `name` is the name for messages; paths in the plan are relative to `base`.
fn check_text(name: &str, base: &Path, text: &str, qemu: Option<&Path>) -> Result<Plan> {
    let sizes = RefCell::default();
    let checks = Checks {
        workload: &|fields| {
            let checked = workload::check(fields)?;
            check_files(fields, &checked, base, &sizes);
            Some(checked)
        },
        kernel: &|kernel, arch| {
            machine::kernel::check(kernel, arch).map_err(|why| format!("{why:#}"))
        },
        recipe: &|recipe| machine::image::check(recipe).map_err(|why| format!("{why:#}")),
        memory: &machine::host::check_memory,
        cpu_model: &|model, arch| check_cpu_model(model, arch, qemu),
        program: &|program| machine::remote::check_program(program, base),
        file: &|path| {
            let read = file::read_to_string(path, MAX_NAMED_FILE_BYTES);
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
    arm_needs::check_arms(name, &plan)?;
    for workload in &plan.workloads {
        let fits = workload::check_machine(workload, plan.machine.kind);
        fits.map_err(|why| anyhow::anyhow!("{name}: {why}"))?;
    }
    Ok(plan)
}

/// Checks the address of a system on the network.
fn check_url(text: &str) -> Result<(), String> {
    ::load::url::Url::read(text).map(drop)
}

/// Reports files of a workload that do not exist, and the file with which the total size exceeds the limit. `sizes` has the
/// sizes in bytes of all files so far, by name.
fn check_files(
    fields: &Fields<'_>,
    workload: &WorkloadPlan,
    base: &Path,
    sizes: &RefCell<BTreeMap<OsString, u64>>,
) {
    let mut sizes = sizes.borrow_mut();
    let key = if fields.has("war") { "war" } else { "files" };
    for name in workload::host_files(workload) {
        let path = base.join(name);
        let remedy = "paths are taken from the plan's directory";
        match file::metadata(&path) {
            Ok(metadata) => {
                let before: u64 = sizes.values().sum();
                sizes.insert(path.file_name().unwrap_or_default().into(), metadata.len());
                let bytes: u64 = sizes.values().sum();
                if before <= OWN_FILES_BYTES && OWN_FILES_BYTES < bytes {
                    let what = too_large(&path, metadata.len(), bytes);
                    fields.wrong(key, what, too_large_remedy());
                } else if let Err(what) = workload::check_host_file(workload, &path) {
                    fields.wrong(key, what, "name a file of the right kind");
                }
            }
            Err(why) if why.kind() == ErrorKind::NotFound => {
                fields.wrong(key, format!("no such file: {}", path.display()), remedy);
            }
            Err(why) => {
                let what = format!("cannot read {}: {why}", path.display());
                fields.wrong(key, what, "name regular files");
            }
        }
    }
}

fn too_large(path: &Path, file_bytes: u64, total_bytes: u64) -> String {
    format!(
        "files of workloads too large: {}, of these {} {}",
        show_bytes(total_bytes),
        path.display(),
        show_bytes(file_bytes)
    )
}

fn too_large_remedy() -> String {
    format!(
        "at most {} together; larger ones belong in an image, with [[copy]] in its recipe",
        show_bytes(OWN_FILES_BYTES)
    )
}

/// Refuses `--qemu` if the plan's machine does not emulate, or if it does not name a QEMU.
fn check_emulator(args: &EmulatorArgs, plan: &Plan) -> Result<()> {
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
        Some(named) => with_progress(true, |cache, task| {
            emulator_choice::find(Some(&named), cache, task).map(|_| ())
        }),
        None => Ok(()),
    }
}

/// Asks QEMU whether it knows a CPU model. If the run may fetch another QEMU, the run checks the model.
fn check_cpu_model(model: &CpuModel, arch: Arch, qemu: Option<&Path>) -> Result<(), String> {
    let stop = AtomicBool::new(false);
    let task = Task {
        tell: &|_| {},
        stop: &stop,
    };
    let cache = Cache::of_user();
    match cache.and_then(|cache| emulator_choice::find(qemu, &cache.of_arch(arch), task)) {
        Ok(program) if qemu.is_some() || program.fault().is_none() => program.check_model(model),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Does long work with a progress line; Ctrl-C stops it. The line is removed before the function returns.
fn with_progress<T>(json: bool, work: impl FnOnce(&Cache, Task<'_>) -> Result<T>) -> Result<T> {
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

/// The flag that `watch_signals` sets up.
static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The message for a failed command, in one line. Ctrl-C also stops child programs, so their errors are then reported as
/// part of the interruption.
pub fn error_message(why: &anyhow::Error) -> String {
    message_of(why, is_interrupted())
}

/// Whether a signal has asked this command to stop.
fn is_interrupted() -> bool {
    STOP.get().is_some_and(|stop| stop.load(Ordering::Relaxed))
}

fn message_of(why: &anyhow::Error, is_stopped: bool) -> String {
    let message = format!("{why:#}");
    if why.chain().any(<dyn std::error::Error>::is::<Interrupted>) {
        Interrupted.to_string()
    } else if is_stopped && !message.starts_with("interrupted") {
        format!("{Interrupted}; what was under way ended with: {message}")
    } else {
        message
    }
}

/// Returns a flag that SIGINT, SIGTERM and SIGHUP set. The second signal ends bakeoff at once.
pub(crate) fn watch_signals() -> Result<Arc<AtomicBool>> {
    if let Some(stop) = STOP.get() {
        return Ok(Arc::clone(stop));
    }
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot watch for Ctrl-C")?;
    let stop = Arc::clone(STOP.get_or_init(Arc::default));
    let flag = Arc::clone(&stop);
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || handle_signals(&mut signals, &flag))
        .context("cannot watch for Ctrl-C")?;
    Ok(stop)
}

/// A second signal this soon after the first counts as the same one: `timeout` signals a process and then its group.
const SAME_SIGNAL: Duration = Duration::from_millis(300);

/// Sets the flag at the first signal, and ends bakeoff at the second.
fn handle_signals(signals: &mut Signals, stop: &AtomicBool) {
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
    fn an_interruption_is_not_reported_as_a_failure_of_child_programs() {
        let stopped = || anyhow::Error::from(Interrupted);
        let why = stopped().context("cannot fetch QEMU from Debian trixie");
        let interrupted = "interrupted (run the same command again to go on)";
        assert_eq!(message_of(&why, true), interrupted);
        let why = anyhow::anyhow!("apt-get failed: signal 2").context("cannot have kernel x");
        assert_eq!(
            message_of(&why, true),
            format!(
                "{interrupted}; what was under way ended with: cannot have kernel x: apt-get failed: signal 2"
            )
        );
        assert_eq!(
            message_of(&why, false),
            "cannot have kernel x: apt-get failed: signal 2"
        );
        let why = anyhow::anyhow!("interrupted; what has ended is kept: go on with x");
        assert_eq!(
            message_of(&why, true),
            "interrupted; what has ended is kept: go on with x"
        );
    }
}
