//! Munge, slurmctld and two slurmd, in a directory of the test; all of them end with it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::real_guests::can_boot;

pub(crate) struct Cluster {
    dir: PathBuf,
    /// The configuration, which programs of Slurm find by `SLURM_CONF`.
    pub(crate) conf: PathBuf,
    munged: Child,
    slurmctld: Option<Child>,
    slurmd: Vec<(&'static str, Option<Child>)>,
}

impl Cluster {
    /// Whether this host can have one, and guests on it.
    pub(crate) fn can_start() -> bool {
        if fs::metadata("/proc/self").unwrap().uid() != 0 {
            base::skip::skip("not root, which a Slurm cluster needs");
            return false;
        }
        for program in [
            "/usr/sbin/munged",
            "/usr/sbin/slurmctld",
            "/usr/sbin/slurmd",
        ] {
            if !Path::new(program).exists() {
                base::skip::skip(&format!("program not installed: {program}"));
                return false;
            }
        }
        can_boot()
    }

    pub(crate) fn start(dir: &Path) -> Self {
        let dir = dir.join("slurm");
        for place in ["state", "spool/n1", "spool/n2", "run", "log", "munge"] {
            fs::create_dir_all(dir.join(place)).unwrap();
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
        let own = self.slurmd.iter_mut().find(|(name, _)| *name == node);
        own.unwrap().1 = Some(child);
    }

    pub(crate) fn kill_slurmd(&mut self, node: &str) {
        let own = self.slurmd.iter_mut().find(|(name, _)| *name == node);
        end(&mut own.unwrap().1);
    }

    /// Has a program of Slurm's do something.
    pub(super) fn ask(&self, program: &str, args: &[&str]) {
        let output = self.command(program, args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {args:?}: {said}");
    }

    fn said(&self, program: &str, args: &[&str]) -> String {
        let output = self.command(program, args).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).env("SLURM_CONF", &self.conf);
        command
    }

    /// Gives a node jobs again, if it was drained.
    pub(super) fn resume(&self, node: &str) {
        if self
            .said("sinfo", &["-h", "-N", "-n", node, "-o", "%t"])
            .starts_with("dr")
        {
            let node = format!("nodename={node}");
            self.ask("scontrol", &["update", &node, "state=resume"]);
        }
    }

    /// Waits until both nodes are idle. Slurm drains a node, a while later, on which it finds a job that it has begun twice: it is resumed.
    pub(super) fn settle(&self) {
        let begin = Instant::now();
        while self.said("sinfo", &["-h", "-N", "-o", "%N %t"]) != "n1 idle\nn2 idle\n" {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "no idle cluster: {}\n{}\n{}",
                self.said("sinfo", &["-N", "-l"]),
                self.said("squeue", &[]),
                fs::read_to_string(self.dir.join("log/slurmctld.log")).unwrap_or_default()
            );
            for node in ["n1", "n2"] {
                self.resume(node);
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Whether a job runs on one of these nodes.
    pub(crate) fn is_at_work(&self, nodes: &str) -> bool {
        !self
            .said("squeue", &["-h", "-t", "RUNNING", "-w", nodes])
            .is_empty()
    }

    /// What is in the queue, once jobs that end have ended.
    pub(crate) fn queue(&self) -> String {
        let begin = Instant::now();
        loop {
            let queue = self.said("squeue", &["-h", "-r", "-o", "%i %T %r"]);
            if queue.is_empty() || begin.elapsed() > Duration::from_secs(30) {
                return queue;
            }
            thread::sleep(Duration::from_millis(300));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Steps outlive their slurmd.
        let _ = self.command("scancel", &["--user=root"]).output();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(20) && !self.said("squeue", &["-h"]).is_empty()
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

/// A program that ends with this test, however that ends.
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

/// A munged with a key and a socket of its own; it insists on directories that nobody else can write to.
fn start_munged(dir: &Path) -> Child {
    let own = dir.join("munge");
    let key: Vec<u8> = (0..=255).cycle().take(1024).collect();
    fs::write(own.join("key"), key).unwrap();
    let mode = |path: &Path, mode: &str| {
        let status = Command::new("chmod").arg(mode).arg(path).status();
        assert!(status.unwrap().success());
    };
    mode(&own.join("key"), "400");
    // The socket's directory must be open to all who have a job.
    for above in dir.ancestors().take(2).chain([own.as_path()]) {
        mode(above, "755");
    }
    let path = |name: &str| own.join(name).display().to_string();
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
    while !own.join("socket").exists() {
        let log = fs::read_to_string(own.join("log")).unwrap_or_default();
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "no munged: {log}"
        );
        thread::sleep(Duration::from_millis(100));
    }
    child
}

/// Slurm's own timers are short: by default a job that is begun anew waits two minutes for its credential to expire, and jobs that wait are
/// looked at once a minute.
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
