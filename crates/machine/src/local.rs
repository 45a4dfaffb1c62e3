//! Arms that run on this host, at native speed, one after the other.
//!
//! There is no boot: the agent is this program, in PID and mount namespaces and a cgroup made for the trial.
//! Its processes and mounts end with them. Changes of the whole host (sysctls, the cgroup) are undone
//! by a janitor, a process that waits for the end of its pipe from bakeoff, so also when bakeoff is killed.
//! Only one run at a time uses the host: two would slow each other down, and one would save sysctls that the other has set.
//!
//! ```text
//! bakeoff --line--> sh: the janitor ................................. line ends: cgroup away, sysctls back
//!         --line--> unshare -> agent (pid 1) -> servers, clients      killed with all that it started
//! ```

use record::machine::MachineDescription;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use plan::{Plan, sysctl_path};
use record::protocol::ToAgent;
use rustix::process::geteuid;

use crate::guest::{Boot, Guest, GuestEvent, Machine};
use crate::host;
use crate::maven;
use crate::process_guest::{Limits, ProcessGuest};
use crate::program;
use crate::task::Task;
use base::input::tree::Tree;

/// Waits for the end of its input; then kills what is left, removes the cgroup, and restores each value.
const JANITOR: &str = r#"
trap '' INT TERM HUP
cat > /dev/null
cgroup=$1; shift
[ -e "$cgroup/cgroup.kill" ] && echo 1 > "$cgroup/cgroup.kill"
tries=0
while [ -d "$cgroup" ] && [ $tries -lt 100 ]; do
    find "$cgroup" -depth -type d -exec rmdir {} + 2> /dev/null || sleep 0.1
    tries=$((tries + 1))
done
while [ $# -gt 1 ]; do
    printf '%s\n' "$2" > "$1"
    shift 2
done
"#;

/// Puts itself in the cgroup and becomes the program.
const ENTER: &str = r#"echo $$ > "$0/cgroup.procs" && exec "$@""#;

/// Locked by the run that uses the host, and by its janitor until everything is restored.
const HOST_LOCK: &str = "/run/bakeoff.lock";

/// This host as a machine.
#[derive(Debug)]
pub struct Local {
    program: PathBuf,
    cgroups: PathBuf,
    /// Files of each arm's sysctls.
    sysctls: BTreeMap<String, Vec<PathBuf>>,
    /// All CPUs that bakeoff may run on.
    cpus: Vec<usize>,
    /// The plan's files, for the workload.
    files: Vec<PathBuf>,
    /// CPUs that arms are bound to; an arm that is missing here uses all.
    bound: BTreeMap<String, Vec<usize>>,
    lock: File,
}

impl Local {
    /// Finds out whether arms can run here, and waits until no other bakeoff measures on this host. `program` is bakeoff's own binary; called as `bakeoff agent
    /// CGROUP FILE...` it is the agent. `files` are copied to the workload's directory.
    ///
    /// # Errors
    /// Says what this host lacks: rights, cgroup2, a sysctl or the CPUs that an arm names.
    pub fn open(
        program: PathBuf,
        plan: &Plan,
        files: Vec<PathBuf>,
        task: Task<'_>,
    ) -> Result<Self> {
        if !geteuid().is_root() {
            bail!(
                "machine \"local\" needs root, for namespaces, cgroups and sysctls (run bakeoff as root, \
                 or use a machine of kind \"qemu\")"
            );
        }
        let cgroups = cgroup2()
            .context("no cgroup2 file system is mounted (mount -t cgroup2 none /sys/fs/cgroup)")?;
        let cpus = host::cpus()?;
        let (mut sysctls, mut bound) = (BTreeMap::new(), BTreeMap::new());
        for arm in &plan.arms {
            let paths = arm.sysctl.keys().map(String::as_str).map(sysctl_path);
            sysctls.insert(arm.name.clone(), paths.collect::<Vec<_>>());
            if let Some(count) = plan.cpus(arm) {
                let Some(allowed) = cpus.get(..count as usize) else {
                    bail!(
                        "more CPUs than bakeoff may use on this host ({}): arm {}, cpus = {count} (lower it)",
                        cpus.len(),
                        arm.name
                    );
                };
                bound.insert(arm.name.clone(), allowed.to_vec());
            }
        }
        for (arm, files) in &sysctls {
            if let Some(missing) = files.iter().find(|file| !file.exists()) {
                bail!(
                    "this kernel has no such sysctl: arm {arm}, {} (remove it, or load its module)",
                    missing.display()
                );
            }
        }
        let (run, name) = Tree::around(HOST_LOCK.as_ref());
        let lock = run
            .lock_file(name)
            .with_context(|| format!("cannot make {HOST_LOCK}"))?;
        task.wait_for(
            &lock,
            "waiting for another bakeoff that measures on this host",
        )
        .with_context(|| format!("cannot lock {HOST_LOCK}"))?;
        Ok(Self {
            program,
            cgroups,
            sysctls,
            cpus,
            files,
            bound,
            lock,
        })
    }
}

/// Whether a Debian package is installed on this host, or an artifact of a Maven repository unpacked.
pub fn has(package: &str, task: Task<'_>) -> Result<bool> {
    if let Some(artifact) = package.strip_prefix(maven::PREFIX) {
        return Ok(Path::new("/opt").join(artifact).exists());
    }
    let mut query = program::command("dpkg-query", "dpkg")?;
    query.args(["-W", "-f", "${db:Status-Status}", package]);
    // Fails for a package that was never installed.
    Ok(program::run(&mut query, task).is_ok_and(|output| output == "installed"))
}

impl Machine for Local {
    fn describe(&self) -> MachineDescription {
        MachineDescription::Local {
            release: host::release(),
            cpus: self.cpus.len(),
        }
    }

    fn ns_per_instruction(&self) -> Option<u32> {
        None
    }

    fn boot(&self, boot: Boot<'_>) -> Result<Box<dyn Guest>> {
        let console = boot.dir.join("console.log");
        // For appending, because a long console is shortened while it is written.
        let (dir, name) = Tree::around(&console);
        let log = dir.append(name);
        let log = log.with_context(|| format!("make {}", console.display()))?;
        let cgroup = self.cgroups.join(format!("bakeoff-{}", std::process::id()));
        fs::create_dir(&cgroup).with_context(|| format!("make a cgroup: {}", cgroup.display()))?;
        let janitor = Janitor::engage(
            &cgroup,
            &self.sysctls[boot.arm],
            log,
            self.lock.try_clone()?,
        )?;
        let mut enclosed = program::enclosed(self.program.as_os_str())?;
        enclosed.arg("agent").arg(&cgroup).args(&self.files);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", ENTER]).arg(&cgroup);
        command
            .arg(enclosed.get_program())
            .args(enclosed.get_args());
        if let Some(cpus) = self.bound.get(boot.arm) {
            host::keep_to(&mut command, cpus);
        }
        let limits = Limits {
            allowance_bytes: boot.allowance_bytes,
            // Servers may write files of any length.
            file_bytes: None,
        };
        Ok(Box::new(LocalGuest {
            attached: ProcessGuest::start("the agent", command, console, limits)?,
            _janitor: janitor,
        }))
    }
}

/// Fields are dropped in their order: first the agent ends, then the janitor cleans up.
struct LocalGuest {
    attached: ProcessGuest,
    _janitor: Janitor,
}

impl Guest for LocalGuest {
    fn send(&mut self, message: &ToAgent) -> Result<()> {
        self.attached.send(message)
    }

    fn next(&mut self, limit: Duration) -> GuestEvent {
        self.attached.next(limit)
    }

    fn console(&self, lines: usize) -> Vec<String> {
        self.attached.console(lines)
    }

    fn stderr_line(&mut self) -> Option<String> {
        self.attached.stderr_line()
    }
}

/// Restores the host, however bakeoff ends.
struct Janitor(Child);

impl Janitor {
    /// The janitor's standard output is the lock, which it never writes to, so it holds the lock as long as it lives.
    fn engage(cgroup: &Path, sysctls: &[PathBuf], log: File, lock: File) -> Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", JANITOR, "janitor"]).arg(cgroup);
        for file in sysctls {
            let value = fs::read_to_string(file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            command.arg(file).arg(value.trim_end());
        }
        // In a separate process group, so that Ctrl-C at the terminal does not reach it.
        let child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(lock)
            .stderr(log)
            .spawn()
            .context("cannot start /bin/sh")?;
        Ok(Self(child))
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn cgroup2() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let place = words.next()?;
        (words.next() == Some("cgroup2")).then(|| place.into())
    })
}
