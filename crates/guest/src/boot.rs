//! The first process of a guest.
//!
//! ```text
//! pid 1: mounts, fork, reaps whatever ends ------------------ agent has ended --> power off
//!          \-- agent: modules, channel, hello, job, image ... done or failed --/
//! ```
//! A child does the work. So the first process can reap orphans in one plain loop, without taking a status
//! that a parent waits for; and even a killed agent ends in a message and a power-off, not in a kernel panic.
//!
//! On a box (`on_box`) the channel is a TCP connection, the image a file, and the end a restart.

mod modules;
mod netlink;
pub(crate) mod on_box;
mod parameters;
mod root;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use record::protocol::{FromAgent, Job, PORT, Part};
use record::trial::VoidReason;
use rustix::process::{Pid, WaitOptions, WaitStatus};
use rustix::system::{RebootCommand, reboot};
use workload::Workload;

use crate::boot::modules::Modules;
use crate::channel::Channel;
use crate::env::Environment;
use crate::hung_tasks::Unwatched;
use crate::kernel_log::From;
use crate::needs;
use crate::needs::{BASE_MODULES, CARD_MODULES, CHANNEL_MODULES, DISK_MODULES};
use crate::preload;
use crate::session;
use crate::session::{REPORTED, UNREPORTED};

/// Guest time that a kernel has to finish setting itself up; 7.2 takes 3 s of it.
const MAX_IDLE_WAIT: Duration = Duration::from_secs(60);

/// Runs a guest from its first to its last moment, in place of everything else that this program does.
/// Call it before any thread is started. `build` is the build id of this binary, as the host knows it; the
/// caller computes it without `/proc`, which is not mounted yet.
///
/// Never returns: every outcome ends in a power-off, reported to the host if it can be reached, else on
/// the console.
pub fn init(build: &str) -> ! {
    if let Err(why) = root::mount_first() {
        eprintln!("bakeoff agent: {why:#}");
    }
    match fork() {
        Ok(None) => std::process::exit(agent(build)),
        Ok(Some(agent)) => reap_until_end_of(agent),
        Err(why) => eprintln!("bakeoff agent: cannot fork: {why}"),
    }
    end()
}

/// `None` in the child.
#[expect(unsafe_code, reason = "fork has no safe form; there is one thread")]
fn fork() -> std::io::Result<Option<Pid>> {
    // SAFETY: the process has started no thread yet, so the child finds no lock taken.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        child => Ok(Pid::from_raw(child)),
    }
}

/// Reaps every process that ends, including the agent's orphans, until the agent ends.
fn reap_until_end_of(agent: Pid) {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == agent => return report_end(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(why) => return eprintln!("bakeoff agent: cannot wait for processes: {why}"),
        }
    }
}

/// Reports the agent's end to the host, unless the agent has done so.
fn report_end(status: WaitStatus) {
    if status.exit_status() == Some(REPORTED) {
        return;
    }
    let end = match (status.terminating_signal(), status.exit_status()) {
        (Some(signal), _) => format!("agent killed by signal {signal}"),
        (None, code) => format!("agent ended with status {}", code.unwrap_or(-1)),
    };
    eprintln!("bakeoff agent: {end} (see the console above)");
    if let Ok(mut channel) = Channel::open_port_now(PORT) {
        let (reason, detail) = (VoidReason::AgentFailed, end);
        let _ = record::protocol::send(&mut channel, &FromAgent::Failed { reason, detail });
    }
}

/// Ends this boot: a guest powers off, a box restarts into its installed operating system.
fn end() -> ! {
    if on_box::is_here() {
        let _ = reboot(RebootCommand::Restart);
    }
    // A machine without a power switch restarts, which ends an emulator run with `-no-reboot`.
    let _ = reboot(RebootCommand::PowerOff);
    let _ = reboot(RebootCommand::Restart);
    loop {
        thread::park();
    }
}

/// Runs the agent; returns its exit status.
fn agent(build: &str) -> i32 {
    let modules = Modules::of_this_kernel();
    let reached = if on_box::is_here() {
        on_box::reach_host(&modules).map(|(channel, network)| (channel, Some(network)))
    } else {
        reach_host(&modules).map(|channel| (channel, None))
    };
    let (channel, network) = match reached {
        Ok(reached) => reached,
        Err(why) => {
            eprintln!("bakeoff agent: {why:#}");
            return UNREPORTED;
        }
    };
    session::run(channel, From::Boot, build, end, &|job, workload| {
        prepare_environment(&modules, network.as_ref(), job, workload)
    })
}

fn reach_host(modules: &Modules) -> Result<Channel> {
    let missing = modules.load_all(CHANNEL_MODULES)?;
    Channel::open_port(PORT).with_context(|| missing_words(&missing))
}

/// What to add to an error that modules may explain.
fn missing_words(missing: &[String]) -> String {
    match missing {
        [] => "all modules for it are loaded or built in".into(),
        some => format!(
            "modules neither in the initramfs nor known as built in: {}",
            some.join(", ")
        ),
    }
}

/// Loads the modules that the job needs, then makes the image the root, which puts the initramfs and its
/// modules out of reach.
fn prepare_environment(
    modules: &Modules,
    network: Option<&on_box::BoxNetwork>,
    job: &Job,
    workload: &dyn Workload,
) -> Result<Environment> {
    parameters::check(&job.cmdline)?;
    let mut missing = modules.load_all(BASE_MODULES)?;
    missing.extend(modules.load_all(&workload.modules())?);
    if job.part != Part::Whole {
        missing.extend(modules.load_all(CARD_MODULES)?);
    }
    let scheduler = &job.tuning.io_scheduler;
    for module in needs::modules_of_settings(&job.sysctl, scheduler, &job.disturbances) {
        modules.load_all(&[&module])?;
    }
    missing.extend(modules.load_all(&[job.tuning.file_system.unwrap_or_default().word()])?);
    if job.disk.is_some() {
        modules.load_all(DISK_MODULES)?;
    }
    let network = network.filter(|_| job.part == Part::Servers);
    if let Some(network) = network {
        network.bring_up_cards()?;
    }
    let kernel_config = modules.kernel_config();
    {
        let _unwatched = Unwatched::begin(job);
        root::switch().with_context(|| missing_words(&missing))?;
        preload::programs(&workload.programs());
    }
    let seeks = job.disk.as_ref().map(crate::disk::Disk::start).transpose();
    let seeks = seeks.context("make a disk with seeks")?;
    Ok(Environment {
        dir: PathBuf::from(root::STAGE),
        cgroup: PathBuf::from("/sys/fs/cgroup/bakeoff"),
        kernel_config,
        disk: match &seeks {
            Some(disk) => Some(disk.path().into()),
            None => Path::new(root::SECOND_DISK)
                .exists()
                .then(|| root::SECOND_DISK.into()),
        },
        seeks,
        max_idle_wait: MAX_IDLE_WAIT,
        watches_path: network.is_some(),
        box_network: network.cloned(),
    })
}
