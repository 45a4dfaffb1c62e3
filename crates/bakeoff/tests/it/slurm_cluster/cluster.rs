//! Munge, slurmctld and two slurmd, in a directory of the test. All of them end with the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::program::{are_installed, is_root, stderr, stdout};
use crate::real_guests::can_boot;

/// Held by each cluster, because all have the same ports.
static PORTS: Mutex<()> = Mutex::new(());

pub(crate) struct Cluster {
    dir: PathBuf,
    /// The configuration, for the variable `SLURM_CONF`.
    pub(crate) conf: PathBuf,
    munged: Child,
    slurmctld: Option<Child>,
    slurmd: Vec<(&'static str, Option<Child>)>,
    // Dropped last.
    _ports: MutexGuard<'static, ()>,
}

impl Cluster {
    /// Whether this host can have a cluster, and boot guests.
    pub(crate) fn can_start() -> bool {
        if !is_root() {
            base::skip::skip("not root, which a Slurm cluster needs");
            return false;
        }
        let programs = [
            "/usr/sbin/munged",
            "/usr/sbin/slurmctld",
            "/usr/sbin/slurmd",
        ];
        are_installed(&programs) && can_boot()
    }

    pub(crate) fn start(dir: &Path) -> Self {
        let ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = dir.join("slurm");
        for name in ["state", "spool/n1", "spool/n2", "run", "log", "munge"] {
            fs::create_dir_all(dir.join(name)).unwrap();
        }
        let munged = start_munged(&dir);
        let conf = dir.join("slurm.conf");
        fs::write(&conf, configuration(&dir)).unwrap();
        let mut cluster = Self {
            dir,
            conf,
            munged,
            slurmctld: None,
            slurmd: vec![("n1", None), ("n2", None)],
            _ports: ports,
        };
        cluster.start_slurmctld();
        cluster.start_slurmd("n1");
        cluster.start_slurmd("n2");
        cluster.settle();
        cluster
    }

    fn daemon(&self, program: &str, args: &[&str]) -> Child {
        let log = fs::File::options()
            .append(true)
            .create(true)
            .open(self.dir.join("log/daemons.log"))
            .unwrap();
        bound(program)
            .args(["-D", "-f"])
            .arg(&self.conf)
            .args(args)
            .env("SLURM_CONF", &self.conf)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    pub(super) fn start_slurmctld(&mut self) {
        self.slurmctld = Some(self.daemon("/usr/sbin/slurmctld", &[]));
    }

    pub(super) fn kill_slurmctld(&mut self) {
        end(&mut self.slurmctld);
    }

    pub(crate) fn start_slurmd(&mut self, node: &str) {
        let child = self.daemon("/usr/sbin/slurmd", &["-N", node]);
        *self.slurmd(node) = Some(child);
    }

    pub(crate) fn kill_slurmd(&mut self, node: &str) {
        end(self.slurmd(node));
    }

    fn slurmd(&mut self, node: &str) -> &mut Option<Child> {
        let mut slurmd = self.slurmd.iter_mut();
        &mut slurmd.find(|(name, _)| *name == node).unwrap().1
    }

    /// Runs a program of Slurm, which must succeed.
    pub(super) fn run(&self, program: &str, args: &[&str]) {
        let output = self.command(program, args).output().unwrap();
        let error = stderr(&output);
        assert!(output.status.success(), "{program} {args:?}: {error}");
    }

    fn output(&self, program: &str, args: &[&str]) -> String {
        stdout(&self.command(program, args).output().unwrap())
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).env("SLURM_CONF", &self.conf);
        command
    }

    /// Resumes a node if it is drained.
    pub(super) fn resume(&self, node: &str) {
        let state = self.output("sinfo", &["-h", "-N", "-n", node, "-o", "%t"]);
        if state.starts_with("dr") {
            let node = format!("nodename={node}");
            self.run("scontrol", &["update", &node, "state=resume"]);
        }
    }

    /// Waits until both nodes are idle. Slurm may drain a node later if a job was started twice
    /// there, so drained nodes are resumed.
    pub(super) fn settle(&self) {
        let begin = Instant::now();
        while self.output("sinfo", &["-h", "-N", "-o", "%N %t"]) != "n1 idle\nn2 idle\n" {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "no idle cluster: {}\n{}\n{}",
                self.output("sinfo", &["-N", "-l"]),
                self.output("squeue", &[]),
                fs::read_to_string(self.dir.join("log/slurmctld.log")).unwrap_or_default()
            );
            for node in ["n1", "n2"] {
                self.resume(node);
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Whether a job runs on any of these nodes.
    pub(crate) fn is_at_work(&self, nodes: &str) -> bool {
        !self
            .output("squeue", &["-h", "-t", "RUNNING", "-w", nodes])
            .is_empty()
    }

    /// The queue, after jobs that are ending have ended.
    pub(crate) fn queue(&self) -> String {
        let begin = Instant::now();
        loop {
            let queue = self.output("squeue", &["-h", "-r", "-o", "%i %T %r"]);
            if queue.is_empty() || begin.elapsed() > Duration::from_secs(30) {
                return queue;
            }
            thread::sleep(Duration::from_millis(300));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Job steps outlive their slurmd.
        let _ = self.command("scancel", &["--user=root"]).output();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(20)
            && !self.output("squeue", &["-h"]).is_empty()
        {
            thread::sleep(Duration::from_millis(300));
        }
        for (_, slurmd) in &mut self.slurmd {
            end(slurmd);
        }
        end(&mut self.slurmctld);
        let _ = self.munged.kill();
        let _ = self.munged.wait();
    }
}

/// A command that the kernel kills when this test ends.
fn bound(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]);
    command
}

fn end(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Starts a munged with a separate key and socket. It requires directories that other users cannot
/// write to.
fn start_munged(dir: &Path) -> Child {
    let munge_dir = dir.join("munge");
    let key: Vec<u8> = (0..=255).cycle().take(1024).collect();
    fs::write(munge_dir.join("key"), key).unwrap();
    let mode = |path: &Path, mode: &str| {
        let status = Command::new("chmod").arg(mode).arg(path).status();
        assert!(status.unwrap().success());
    };
    mode(&munge_dir.join("key"), "400");
    // The socket's directory must be readable for all jobs.
    for above in dir.ancestors().take(2).chain([munge_dir.as_path()]) {
        mode(above, "755");
    }
    let path = |name: &str| munge_dir.join(name).display().to_string();
    let child = bound("/usr/sbin/munged")
        .args(["--foreground", "--force"])
        .arg(format!("--key-file={}", path("key")))
        .arg(format!("--socket={}", path("socket")))
        .arg(format!("--pid-file={}", path("pid")))
        .arg(format!("--log-file={}", path("log")))
        .arg(format!("--seed-file={}", path("seed")))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while !munge_dir.join("socket").exists() {
        let log = fs::read_to_string(munge_dir.join("log")).unwrap_or_default();
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "no munged: {log}"
        );
        thread::sleep(Duration::from_millis(100));
    }
    child
}

/// Slurm's timers are short here. By default, a requeued job waits two minutes until its credential
/// expires, and waiting jobs are scheduled once a minute.
fn configuration(dir: &Path) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim().split('.').next().unwrap();
    let dir = dir.display();
    format!(
        "ClusterName=bakeoff
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=26817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={dir}/munge/socket,cred_expire=10
CredType=cred/munge
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool/%n
SlurmctldPidFile={dir}/run/slurmctld.pid
SlurmdPidFile={dir}/run/slurmd.%n.pid
SlurmctldLogFile={dir}/log/slurmctld.log
SlurmdLogFile={dir}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/linear
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=2,batch_sched_delay=0
ReturnToService=2
JobRequeue=1
RequeueExit=75
KillWait=5
SlurmdTimeout=10
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port=26818 CPUs=2 RealMemory=1000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port=26819 CPUs=2 RealMemory=1000
PartitionName=lab Nodes=n1,n2 Default=YES OverSubscribe=EXCLUSIVE MaxTime=INFINITE State=UP
"
    )
}
