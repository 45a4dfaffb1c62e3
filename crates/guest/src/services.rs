//! Services: each runs in the server's namespace and in a separate cgroup, and ends with all that it started.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use base::input::text::clean;
use plan::Tuning;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, setrlimit};
use workload::context::command;
use workload::service::Service;

use crate::cgroup::{Cgroup, Cgroups};
use crate::netns::NetnsPair;

/// Lines of each log that an error shows.
const LOG_LINES: usize = 20;

/// Time between two probes of a service that does not answer yet.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// Time for a service to end after SIGTERM, and for its other processes after SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// A service that was started. Dropping it ends it with all its descendants.
#[derive(Debug)]
pub struct Running {
    pub service: Service,
    pub cgroup: Cgroup,
    leader: Child,
    output: PathBuf,
}

/// Replaces the service's program by the arm's, if it names one.
pub fn replace_program(service: &mut Service, programs: &BTreeMap<String, String>) {
    let Some(path) = programs.get(&service.name) else {
        return;
    };
    let program = program(service).to_string();
    for word in service.command.iter_mut().chain(&mut service.version) {
        if *word == program {
            word.clone_from(path);
        }
    }
}

/// The path of a service's program. A prefix such as setpriv may precede it in the command, but not in the
/// version's.
pub(crate) fn program(service: &Service) -> &str {
    let path = service.version.first().or(service.command.first());
    path.map_or("", String::as_str)
}

/// Starts a service with the arm's environment and limit of open files. Its standard output and error go to a
/// file in `logs`.
///
/// The service ends with the thread that calls this, so that nothing is left on a live host.
pub fn start(
    service: Service,
    tuning: &Tuning,
    netns: &NetnsPair,
    cgroups: &Cgroups,
    logs: &Path,
) -> Result<Running> {
    let cgroup = cgroups.child(&service.name)?;
    let output = logs.join(format!("{}.log", service.name));
    let leader = spawn(&service, tuning, netns, &cgroup, &output);
    let leader = leader.with_context(|| format!("start {}", service.command.join(" ")))?;
    Ok(Running {
        service,
        cgroup,
        leader,
        output,
    })
}

#[expect(
    unsafe_code,
    reason = "entering namespace and cgroup and lowering a limit between fork and exec"
)]
fn spawn(
    service: &Service,
    tuning: &Tuning,
    netns: &NetnsPair,
    cgroup: &Cgroup,
    output: &Path,
) -> Result<Child> {
    let (program, arguments) = service
        .command
        .split_first()
        .context("a service without a command")?;
    let log = File::create(output).with_context(|| format!("make {}", output.display()))?;
    let cgroup_procs = cgroup.procs_file()?;
    let network = netns.server.try_clone()?;
    let open_files = tuning.nofile.map(|most| Rlimit {
        current: Some(most.into()),
        maximum: Some(most.into()),
    });
    let mut command = command(program);
    command
        .args(arguments)
        .envs(&tuning.env)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    // SAFETY: the closure makes system calls on its descriptors, and needs no lock that another thread could
    // have held at the fork.
    unsafe {
        command.pre_exec(move || {
            (&cgroup_procs).write_all(b"0")?;
            network.enter()?;
            if let Some(limit) = open_files {
                setrlimit(Resource::Nofile, limit)?;
            }
            Ok(())
        });
    }
    base::process::bind(&mut command);
    Ok(command.spawn()?)
}

impl Running {
    /// Probes the service from the clients' side until it answers correctly. Fails if the service ends or its time
    /// is over; the error has the last lines of the logs.
    pub fn wait_until_it_answers(
        &mut self,
        netns: &NetnsPair,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let deadline = Instant::now() + self.service.patience;
        loop {
            self.check_alive()?;
            let answer = netns.client.within(|| self.service.probe.ask());
            let Err(why) = answer.unwrap_or_else(|why| Err(format!("{why:#}"))) else {
                return Ok(());
            };
            if stop.load(Ordering::Relaxed) {
                return Err("stopped by the host".into());
            }
            if let Some(lines) = self.start_failure() {
                return Err(format!("{} has not started:\n  {lines}", self.service.name));
            }
            if Instant::now() >= deadline {
                let limit = base::input::units::show_duration(self.service.patience);
                let name = &self.service.name;
                return Err(
                    self.with_logs(&format!("{name} gave no right answer in {limit}: {why}"))
                );
            }
            thread::sleep(PROBE_INTERVAL);
        }
    }

    /// The service's lines about its failed start, if it goes on after one.
    fn start_failure(&self) -> Option<String> {
        let failure = self.service.start_failure?;
        let output = fs::read(&self.output).ok()?;
        failure.find(&clean(&String::from_utf8_lossy(&output)))
    }

    /// Fails if the service has ended, and says how.
    pub fn check_alive(&mut self) -> Result<(), String> {
        let name = &self.service.name;
        match self.leader.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.with_logs(&format!("{name} ended with {status}"))),
            Err(why) => Err(format!("{name} cannot be waited for: {why}")),
        }
    }

    /// Process id of the service's first process.
    pub fn leader(&self) -> u32 {
        self.leader.id()
    }

    /// The name that the kernel gives to the service's processes: 15 letters of the program's.
    pub fn process_name(&self) -> String {
        let path = program(&self.service);
        let name = path.rsplit('/').next().unwrap_or(path);
        name.chars().take(15).collect()
    }

    /// The file of its output, and its log files.
    pub fn log_files(&self) -> Vec<PathBuf> {
        let files = [&self.output].into_iter().chain(&self.service.logs);
        files.cloned().collect()
    }

    fn with_logs(&self, what: &str) -> String {
        let logs: String = self
            .log_files()
            .iter()
            .map(|file| last_lines(file))
            .collect();
        what.to_string() + &logs
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SIGTERM first, so that servers remove what would outlive them, such as shared memory.
        if let Ok(leader) = i32::try_from(self.leader.id())
            && matches!(self.leader.try_wait(), Ok(None))
        {
            signal(leader, Signal::TERM);
        }
        let grace_ends = Instant::now() + GRACE;
        while matches!(self.leader.try_wait(), Ok(None)) && Instant::now() < grace_ends {
            thread::sleep(Duration::from_millis(10));
        }
        // A process may fork while the list is read: repeat until the list is empty.
        let end = Instant::now() + GRACE;
        while Instant::now() < end {
            let left = self.cgroup.processes();
            if left.is_empty() {
                break;
            }
            for pid in left {
                signal(pid, Signal::KILL);
            }
            let _ = self.leader.try_wait();
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // Fails if the process has ended meanwhile.
        let _ = kill_process(pid, signal);
    }
}

/// The last lines of a log under its name; empty if the log is.
fn last_lines(file: &Path) -> String {
    let bytes = fs::read(file).unwrap_or_default();
    let text = clean(&String::from_utf8_lossy(&bytes));
    let lines: Vec<_> = text.lines().collect();
    if lines.is_empty() {
        return String::new();
    }
    let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    format!("\n{name}:\n  {}", last.join("\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_a_log_are_shown_under_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("error.log");
        assert_eq!(last_lines(&file), "");
        let lines = (1..=25).map(|line| format!("\u{1b}[31mline {line}\u{1b}[0m"));
        let lines: Vec<_> = lines.collect();
        fs::write(&file, lines.join("\n")).unwrap();
        let shown = last_lines(&file);
        assert!(shown.starts_with("\nerror.log:\n  line 6\n"), "{shown}");
        assert!(shown.ends_with("line 25"));
    }
}
