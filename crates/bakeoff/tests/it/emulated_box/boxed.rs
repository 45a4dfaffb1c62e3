//! The emulated box: QEMU, its management controller, and the control socket that injects faults
//! into trials.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
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

use crate::client_hosts::keygen;
use crate::program::{KillOnDrop, all_output, are_installed, signal, stderr, stdout};
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

/// Modules of the box's host system.
const MODULES: [&str; 6] = [
    "ahci",
    "sd_mod",
    "crc32c_generic",
    "ext4",
    "e1000e",
    "i6300esb",
];

/// A fault to inject into a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The agent is stopped, so the watchdog restarts the box.
    Hang,
    /// The kernel panics, and the power goes off before it restarts the box. The management
    /// controller must turn it on.
    PanicAndPowerOff,
    /// The network is down, so the agent returns to the host system by itself.
    Unplug,
    /// The kernel panics and restarts the box.
    Panic,
}

/// Faults, each with a prefix of the kernel release whose trials it affects.
pub(crate) type Faults<'f> = &'f [(&'f str, Fault)];

/// The last line of a kernel that has panicked.
const PANICKED: &str = "Rebooting in 5 seconds";

impl Fault {
    /// The fault in the words of act.sh.
    fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Hang => "hang",
            Self::Panic | Self::PanicAndPowerOff => "panic",
            Self::Unplug => "unplug",
        }
    }
}

/// Fields are dropped in this order.
pub(crate) struct EmulatedBox {
    _bmc: Option<KillOnDrop>,
    _qemu: KillOnDrop,
    pub(crate) dir: PathBuf,
    control: TcpListener,
    /// The network of the box's cards, if it is not QEMU's user network.
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
            // Scripts have no placeholders, and their variables must not be replaced.
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
            _bmc: Some(KillOnDrop(ipmi.spawn().unwrap())),
            _qemu: qemu,
            dir: dir.into(),
            control,
            netns: None,
        }
    }

    /// A box with three network cards (the last one has no address), with hosts for clients, and
    /// without a management controller.
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

    /// A command in the box's network that the kernel kills when this test ends.
    fn bound(&self, program: &str) -> Command {
        match &self.netns {
            Some(netns) => netns.bound(program),
            None => bound(program),
        }
    }

    /// Waits until the host system has booted this many times and its network is up.
    pub(crate) fn wait_for_own_system(&self, times: usize) {
        let console = self.dir.join("console");
        wait_until(|| count(&console, "Server listening on 0.0.0.0") >= times);
        wait_until(|| self.try_ssh("true").is_ok());
    }

    /// Runs bakeoff; returns its status and all output.
    pub(super) fn bakeoff(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = self.command(args).output().unwrap();
        (output.status.code(), all_output(&output))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.bound(self.dir.join("bakeoff").to_str().unwrap());
        command.args(args).current_dir(&self.dir);
        command
    }

    /// Runs a plan with these faults, and interrupts it after all faults and one complete block.
    /// Returns its status and all output.
    pub(super) fn run_through(&self, plan: &str, faults: Faults<'_>) -> (Option<i32>, String) {
        self.run_while(plan, faults, &has_whole_block)
    }

    /// Like `run_through`, but interrupts the run once this many trials were measured.
    pub(crate) fn run_until_measured(
        &self,
        plan: &str,
        faults: Faults<'_>,
        trials: usize,
    ) -> (Option<i32>, String) {
        let is_measured = |journal: &Path| count(journal, "\"ending\":\"measured\"") >= trials;
        self.run_while(plan, faults, &is_measured)
    }

    /// Interrupts the run once all faults were injected, the trial of the last one has ended, and
    /// `is_enough` holds for the journal.
    fn run_while(
        &self,
        plan: &str,
        faults: Faults<'_>,
        is_enough: &dyn Fn(&Path) -> bool,
    ) -> (Option<i32>, String) {
        let log_path = self.dir.join("run.log");
        let log = File::create(&log_path).unwrap();
        let mut run = self.command(&["run", plan]);
        run.stdout(log.try_clone().unwrap()).stderr(log);
        let mut run = KillOnDrop(run.spawn().unwrap());
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
                let index = faults
                    .iter()
                    .position(|(kernel, _)| release.starts_with(kernel));
                let fault = index.map_or(Fault::None, |index| faults.remove(index).1);
                endings_before_last = endings();
                let panics = count(&console, PANICKED);
                writeln!(trial, "{}", fault.word()).unwrap();
                drop(trial);
                if fault == Fault::PanicAndPowerOff {
                    // The firmware has stored the panic by now, and the restart comes in five
                    // seconds.
                    wait_until(|| count(&console, PANICKED) > panics);
                    self.qmp("stop");
                }
            }
            let is_over =
                || faults.is_empty() && endings() > endings_before_last && is_enough(&journal);
            if !is_interrupted && is_over() {
                is_interrupted = true;
                signal("INT", run.0.id());
            }
            thread::sleep(Duration::from_millis(100));
        };
        (status.code(), fs::read_to_string(log_path).unwrap())
    }

    fn qmp(&self, command: &str) {
        let mut monitor = UnixStream::connect(self.dir.join("qmp")).unwrap();
        let mut lines = BufReader::new(monitor.try_clone().unwrap()).lines();
        for command in ["qmp_capabilities", command] {
            writeln!(monitor, "{{\"execute\": \"{command}\"}}").unwrap();
            // Events may come in between.
            let answer = lines.find(|line| line.as_ref().unwrap().starts_with("{\"return\""));
            assert!(answer.is_some(), "{command}");
        }
    }

    /// Runs a script in the box's host system.
    pub(super) fn ssh(&self, script: &str) -> String {
        let result = self.try_ssh(script);
        result.unwrap_or_else(|errors| panic!("{script}: {errors}"))
    }

    /// Standard output of the script, or standard error if it or ssh fails.
    fn try_ssh(&self, script: &str) -> Result<String, String> {
        let mut ssh = self.bound("ssh");
        ssh.args(["-F", "ssh_config", "-o", "BatchMode=yes", "box", script]);
        let output = ssh.current_dir(&self.dir).output().unwrap();
        if output.status.success() {
            Ok(stdout(&output))
        } else {
            Err(stderr(&output))
        }
    }

    /// The box runs its host system, and no kernel of an arm is loaded.
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

/// Whether this host has the programs for a box.
pub(crate) fn can_start() -> bool {
    are_installed(&["/usr/bin/ipmi_sim", "/usr/bin/ipmitool", "/sbin/debugfs"]) && can_boot()
}

/// A command that the kernel kills when this test ends.
pub(super) fn bound(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]);
    command
}

/// TCP ports for ssh and the agent, and a UDP port for the management controller.
fn free_ports() -> [u16; 3] {
    let tcp = [0; 2].map(|port| TcpListener::bind(("127.0.0.1", port)).unwrap());
    let [ssh, agent] = tcp.map(|listener| listener.local_addr().unwrap().port());
    let bmc = UdpSocket::bind("127.0.0.1:0").unwrap();
    [ssh, agent, bmc.local_addr().unwrap().port()]
}

fn write_keys(dir: &Path, port: u16) {
    for name in ["key", "host_key", "other_key"] {
        keygen(&dir.join(name));
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

/// Fetches what the plans need, because the namespace has no route to the network.
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

fn start_qemu(dir: &Path, mut qemu: Command, cards: &str) -> KillOnDrop {
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
    // A separate cache, because the keys are made for this test.
    let separate_cache = Cache::open(&dir.join("cache"));
    let initramfs = initramfs::build(&separate_cache, &kernel, content, task).unwrap();
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
    KillOnDrop(qemu.stderr(log).spawn().unwrap())
}

/// Whether a block has measurements of both arms.
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

fn count(file: &Path, part: &str) -> usize {
    let text = fs::read(file).unwrap_or_default();
    String::from_utf8_lossy(&text).matches(part).count()
}

pub(super) fn wait_until(holds: impl Fn() -> bool) {
    while !holds() {
        thread::sleep(Duration::from_millis(100));
    }
}
