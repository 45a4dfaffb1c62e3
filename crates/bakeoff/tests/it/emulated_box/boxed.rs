//! The box itself: QEMU, its management controller, and who tells trials what is to befall them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use super::lab::Netns;
use machine::cache::Cache;
use machine::flavour::Flavour;
use machine::image;
use machine::image::Request;
use machine::initramfs;
use machine::initramfs::Content;
use machine::kernel;
use machine::task::Task;
use record::journal;
use record::journal::{Ending, Event};

use crate::real_guests::{can_boot, stripped};

const FILES: [(&str, &str); 10] = [
    ("box.toml", include_str!("box.toml")),
    ("own-init.sh", include_str!("own-init.sh")),
    ("initramfs-init.sh", include_str!("initramfs-init.sh")),
    ("plan.toml", include_str!("plan.toml")),
    ("clients.toml", include_str!("clients.toml")),
    ("here.toml", include_str!("here.toml")),
    ("act.sh", include_str!("act.sh")),
    ("chassis.py", include_str!("chassis.py")),
    ("bmc.conf", include_str!("bmc.conf")),
    ("bmc.emu", include_str!("bmc.emu")),
];

/// Modules of the box's own operating system.
const MODULES: [&str; 6] = [
    "ahci",
    "sd_mod",
    "crc32c_generic",
    "ext4",
    "e1000e",
    "i6300esb",
];

/// What befalls a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The agent is stopped: the watchdog bites.
    Hang,
    /// The kernel panics, and before it has restarted the box, its power goes: the management controller must bring it back.
    PanicAndPowerOff,
    /// The network is gone: the agent goes home by itself.
    Unplug,
    /// The kernel panics, and restarts the box by itself.
    Panic,
}

/// Faults, each with how the release of the kernel begins that it befalls.
pub(crate) type Faults<'f> = &'f [(&'f str, Fault)];

/// What a kernel says last that has panicked.
const PANICKED: &str = "Rebooting in 5 seconds";

impl Fault {
    /// What act.sh is told.
    fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Hang => "hang",
            Self::Panic | Self::PanicAndPowerOff => "panic",
            Self::Unplug => "unplug",
        }
    }
}

/// A process that ends with its owner, and with the test.
pub(super) struct Ended(pub(super) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Fields are dropped in their order.
pub(crate) struct EmulatedBox {
    _bmc: Option<Ended>,
    _qemu: Ended,
    pub(crate) dir: PathBuf,
    control: TcpListener,
    /// Where the box's cards end, if not in QEMU itself.
    netns: Option<Netns>,
}

impl EmulatedBox {
    pub(crate) fn start(dir: &Path) -> Self {
        let control = TcpListener::bind("127.0.0.1:0").unwrap();
        let [ssh, agent, bmc] = free_ports();
        let ports = [
            ("PORT", agent),
            ("BMC", bmc),
            ("CONTROL", control.local_addr().unwrap().port()),
        ];
        for (name, text) in FILES {
            let mut text = text.replace("DIR", &dir.display().to_string());
            // Scripts have no placeholders, and shells have variables.
            let is_script = ["own-init.sh", "initramfs-init.sh", "act.sh"].contains(&name);
            if !is_script {
                for (word, port) in ports {
                    text = text.replace(word, &port.to_string());
                }
            }
            fs::write(dir.join(name), text).unwrap();
            fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        write_keys(dir, ssh);
        let cards = format!(
            "-device e1000e,netdev=net,mac=52:54:00:12:34:56 -netdev \
             user,id=net,hostfwd=tcp:127.0.0.1:{ssh}-:22,hostfwd=tcp:127.0.0.1:{agent}-:{agent}"
        );
        let qemu = start_qemu(dir, bound("qemu-system-x86_64"), &cards);
        let mut ipmi = bound("ipmi_sim");
        ipmi.args(["-n", "-c", "bmc.conf", "-f", "bmc.emu", "-s", "bmc"]);
        ipmi.current_dir(dir).stdin(Stdio::null());
        ipmi.stdout(Stdio::null()).stderr(Stdio::null());
        Self {
            _bmc: Some(Ended(ipmi.spawn().unwrap())),
            _qemu: qemu,
            dir: dir.into(),
            control,
            netns: None,
        }
    }

    /// A box of three cards, the last one without an address, in a network with hosts for its clients, and without a management
    /// controller.
    pub(super) fn start_with_hosts(dir: &Path) -> Self {
        let control = TcpListener::bind("127.0.0.1:0").unwrap();
        for (name, text) in FILES {
            fs::write(dir.join(name), text).unwrap();
            fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        write_keys(dir, 22);
        fetch();
        let mut netns = Netns::make();
        netns.start_hosts(dir);
        let cards = "-device e1000e,netdev=net0,mac=52:54:00:12:34:56 -netdev tap,id=net0,ifname=tap0,script=no,downscript=no \
                     -device e1000e,netdev=net1,mac=52:54:00:12:34:57 -netdev tap,id=net1,ifname=tap1,script=no,downscript=no \
                     -device e1000e,mac=52:54:00:12:34:58";
        let qemu = start_qemu(dir, netns.bound("qemu-system-x86_64"), cards);
        Self {
            _bmc: None,
            _qemu: qemu,
            dir: dir.into(),
            control,
            netns: Some(netns),
        }
    }

    /// A program that is in the box's network and ends with this test.
    fn bound(&self, program: &str) -> Command {
        match &self.netns {
            Some(netns) => netns.bound(program),
            None => bound(program),
        }
    }

    /// Waits until its own operating system has come up so many times, and its card has found that it is connected.
    pub(crate) fn wait_for_own_system(&self, times: usize) {
        let console = self.dir.join("console");
        wait_until(|| count(&console, "Server listening on 0.0.0.0") >= times);
        wait_until(|| self.try_ssh("true").is_ok());
    }

    /// Runs bakeoff to its end; its status, and all that it said.
    pub(super) fn bakeoff(&self, words: &[&str]) -> (Option<i32>, String) {
        let done = self.command(words).output().unwrap();
        let said = [done.stdout, done.stderr].concat();
        (done.status.code(), String::from_utf8(said).unwrap())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.bound(self.dir.join("bakeoff").to_str().unwrap());
        command.args(words).current_dir(&self.dir);
        command
    }

    /// Runs a plan, has these things befall the trials of kernels whose release begins so, in their order, and interrupts it once
    /// each has and a block is whole; its status, and all that it said.
    pub(super) fn run_through(&self, plan: &str, faults: Faults<'_>) -> (Option<i32>, String) {
        self.run_while(plan, faults, &has_whole_block)
    }

    /// The same, but interrupts it once so many trials were measured.
    pub(crate) fn run_until_measured(
        &self,
        plan: &str,
        faults: Faults<'_>,
        trials: usize,
    ) -> (Option<i32>, String) {
        let is_measured = |journal: &Path| count(journal, "\"ending\":\"measured\"") >= trials;
        self.run_while(plan, faults, &is_measured)
    }

    /// Interrupts a run once its faults have befallen it, the trial of the last one has ended, and its journal is as it should be.
    fn run_while(
        &self,
        plan: &str,
        faults: Faults<'_>,
        is_enough: &dyn Fn(&Path) -> bool,
    ) -> (Option<i32>, String) {
        let said = self.dir.join("run.log");
        let log = File::create(&said).unwrap();
        let mut run = self.command(&["run", plan]);
        run.stdout(log.try_clone().unwrap()).stderr(log);
        let mut run = Ended(run.spawn().unwrap());
        let name = plan.trim_end_matches(".toml");
        let journal = self.dir.join("runs").join(name).join("journal.jsonl");
        let console = self.dir.join("console");
        self.control.set_nonblocking(true).unwrap();
        let mut faults = Vec::from(faults);
        let endings = || count(&journal, "\"ending\":");
        let mut endings_before_last = 0;
        let mut is_interrupted = false;
        let status = loop {
            if let Some(status) = run.0.try_wait().unwrap() {
                break status;
            }
            if let Ok((mut trial, _)) = self.control.accept() {
                let mut release = String::new();
                BufReader::new(&trial).read_line(&mut release).unwrap();
                let next = faults
                    .iter()
                    .position(|(kernel, _)| release.starts_with(kernel));
                let fault = next.map_or(Fault::None, |next| faults.remove(next).1);
                endings_before_last = endings();
                let panics = count(&console, PANICKED);
                writeln!(trial, "{}", fault.word()).unwrap();
                drop(trial);
                if fault == Fault::PanicAndPowerOff {
                    // By then firmware has what it keeps, and five seconds are left.
                    wait_until(|| count(&console, PANICKED) > panics);
                    self.qmp("stop");
                }
            }
            let is_over =
                || faults.is_empty() && endings() > endings_before_last && is_enough(&journal);
            if !is_interrupted && is_over() {
                is_interrupted = true;
                let number = run.0.id().to_string();
                let kill = Command::new("kill").args(["-INT", &number]).status();
                assert!(kill.unwrap().success());
            }
            thread::sleep(Duration::from_millis(100));
        };
        (status.code(), fs::read_to_string(said).unwrap())
    }

    fn qmp(&self, verb: &str) {
        let mut monitor = UnixStream::connect(self.dir.join("qmp")).unwrap();
        let mut lines = BufReader::new(monitor.try_clone().unwrap()).lines();
        for verb in ["qmp_capabilities", verb] {
            writeln!(monitor, "{{\"execute\": \"{verb}\"}}").unwrap();
            // Events may come between.
            let answer = lines.find(|line| line.as_ref().unwrap().starts_with("{\"return\""));
            assert!(answer.is_some(), "{verb}");
        }
    }

    /// Runs a script in the box's own operating system.
    pub(super) fn ssh(&self, script: &str) -> String {
        let said = self.try_ssh(script);
        said.unwrap_or_else(|errors| panic!("{script}: {errors}"))
    }

    /// What the script said, or what ssh has against it.
    fn try_ssh(&self, script: &str) -> Result<String, String> {
        let mut ssh = self.bound("ssh");
        ssh.args(["-F", "ssh_config", "-o", "BatchMode=yes", "box", script]);
        let done = ssh.current_dir(&self.dir).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if done.status.success() {
            Ok(text(done.stdout))
        } else {
            Err(text(done.stderr))
        }
    }

    /// It is in its own operating system, with no arm's kernel loaded.
    pub(crate) fn check_home(&self) {
        let home = self.ssh("cat /proc/cmdline /sys/kernel/kexec_loaded");
        assert!(
            !home.contains("bakeoff.") && home.ends_with("\n0\n"),
            "{home}"
        );
    }

    pub(super) fn boot_id(&self) -> String {
        self.ssh("cat /proc/sys/kernel/random/boot_id")
    }
}

/// Whether this host has what a box takes, beside what bakeoff itself asks for.
pub(crate) fn can_start() -> bool {
    for program in ["/usr/bin/ipmi_sim", "/usr/bin/ipmitool", "/sbin/debugfs"] {
        if !Path::new(program).exists() {
            base::skip::skip(&format!("program not installed: {program}"));
            return false;
        }
    }
    can_boot()
}

/// A program that the kernel ends with this test.
pub(super) fn bound(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]);
    command
}

/// For ssh and for the agent by TCP, for the management controller by UDP.
fn free_ports() -> [u16; 3] {
    let tcp = [0; 2].map(|port| TcpListener::bind(("127.0.0.1", port)).unwrap());
    let [ssh, agent] = tcp.map(|one| one.local_addr().unwrap().port());
    let bmc = UdpSocket::bind("127.0.0.1:0").unwrap();
    [ssh, agent, bmc.local_addr().unwrap().port()]
}

fn write_keys(dir: &Path, port: u16) {
    for name in ["key", "host_key", "other_key"] {
        let mut make = Command::new("ssh-keygen");
        make.args(["-q", "-t", "ed25519", "-N", "", "-f", name]);
        assert!(make.current_dir(dir).status().unwrap().success());
    }
    fs::copy(dir.join("key.pub"), dir.join("authorized_keys")).unwrap();
    for (name, key) in [
        ("ssh_config", "host_key"),
        ("ssh_config.wrong", "other_key"),
    ] {
        let public = fs::read_to_string(dir.join(key).with_extension("pub")).unwrap();
        let known = dir.join(format!("{key}.known"));
        fs::write(&known, format!("box {public}")).unwrap();
        let (key, known) = (dir.join("key"), known.display().to_string());
        let text = format!(
            "Host box\nHostName 127.0.0.1\nPort {port}\nUser root\nIdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile \
             {known}\nGlobalKnownHostsFile /dev/null\nHostKeyAlias box\nStrictHostKeyChecking yes\n",
            key.display()
        );
        fs::write(dir.join(name), text).unwrap();
    }
}

/// Has in the cache what plans here need: the namespace has no way out.
fn fetch() {
    let cache = Cache::of_user().unwrap();
    let stop = AtomicBool::new(false);
    let task = Task {
        tell: &|_| {},
        stop: &stop,
    };
    for kernel in ["debian:bookworm/6.1", "debian:trixie-backports/7.2"] {
        let wanted = plan::kernel::read(kernel, None).unwrap();
        kernel::fetch(&cache, &wanted, Flavour::General, false, task).unwrap();
    }
    let request = Request {
        recipe: "web",
        suite: None,
        refresh: false,
    };
    image::build(&cache, request, task).unwrap();
}

fn start_qemu(dir: &Path, mut qemu: Command, cards: &str) -> Ended {
    stripped(dir);
    let cache = Cache::of_user().unwrap();
    let stop = AtomicBool::new(false);
    let task = Task {
        tell: &|_| {},
        stop: &stop,
    };
    let recipe = dir.join("box.toml").display().to_string();
    let request = Request {
        recipe: &recipe,
        suite: None,
        refresh: false,
    };
    let image = image::build(&cache, request, task).unwrap();
    let wanted = plan::kernel::read("debian:bookworm/6.1", None).unwrap();
    let kernel = kernel::fetch(&cache, &wanted, Flavour::General, false, task).unwrap();
    let mut dump = Command::new("/sbin/debugfs");
    dump.args(["-R", "dump /usr/bin/busybox busybox"])
        .arg(&image.path);
    assert!(
        dump.current_dir(dir)
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
    );
    let content = Content {
        init: &dir.join("initramfs-init.sh"),
        modules: &MODULES.map(String::from),
        files: &["busybox", "authorized_keys", "host_key"].map(|name| dir.join(name)),
        cmdline: "",
    };
    fs::set_permissions(dir.join("busybox"), fs::Permissions::from_mode(0o755)).unwrap();
    // A cache of its own: keys are of this test alone.
    let own = Cache::open(&dir.join("cache"));
    let initramfs = initramfs::build(&own, &kernel, content, task).unwrap();
    let text = format!(
        "-machine q35 -accel tcg,thread=multi -cpu EPYC -smp 2 -m 2G -nodefaults -no-user-config -display none \
         -device ide-hd,drive=disk,bus=ide.0 {cards} \
         -device i6300esb -action watchdog=reset -qmp unix:qmp,server=on,wait=off \
         -object memory-backend-ram,id=erst,size=64K -device acpi-erst,memdev=erst \
         -chardev file,id=console,path=console -serial chardev:console"
    );
    qemu.args(text.split(' '));
    let disk = image.path.display();
    qemu.arg("-drive").arg(format!(
        "file={disk},format=raw,snapshot=on,if=none,id=disk,cache=unsafe,file.locking=off"
    ));
    qemu.arg("-kernel").arg(&kernel.vmlinuz);
    qemu.arg("-initrd").arg(&initramfs);
    qemu.args([
        "-append",
        "console=ttyS0 no_timer_check loglevel=4 mitigations=off",
    ]);
    let log = File::create(dir.join("qemu.log")).unwrap();
    qemu.current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    Ended(qemu.stderr(log).spawn().unwrap())
}

/// Whether both arms of a block were measured.
fn has_whole_block(journal: &Path) -> bool {
    let mut measured = BTreeMap::<u32, u32>::new();
    for entry in journal::read(journal.parent().unwrap()).unwrap() {
        if let Event::Ended {
            trial,
            ending: Ending::Measured,
            ..
        } = entry.event
        {
            *measured.entry(trial.block).or_default() += 1;
        }
    }
    measured.values().any(|arms| *arms == 2)
}

fn count(file: &Path, words: &str) -> usize {
    let text = fs::read(file).unwrap_or_default();
    String::from_utf8_lossy(&text).matches(words).count()
}

pub(super) fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::sleep(Duration::from_millis(100));
    }
}
