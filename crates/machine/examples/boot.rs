//! Boots one kernel to its first word and says how long it took: a trial of this crate alone.
//!
//! ```text
//! boot KERNEL [wall|instructions|auto] [TIMES] [refresh]    e.g. boot debian:bookworm/6.1 instructions 3
//! ```
//! The same binary is the guest's first process: there it loads the virtio modules, says hello on the
//! agent's line and waits to be stopped.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use machine::cache::Cache;
use machine::emulator_choice;
use machine::flavour::Flavour;
use machine::guest::{Boot, GuestEvent, Machine};
use machine::image::Request;
use machine::initramfs;
use machine::initramfs::Content;
use machine::qemu::{BootFiles, Qemu};
use machine::task::Task;
use machine::{image, kernel, kvm, qemu};
use plan::{Clock, MachinePlan};
use record::protocol::{FromAgent, Greeting, ToAgent};
use rustix::system::RebootCommand;

/// What the guest loads.
const MODULES: [&str; 4] = ["virtio_pci", "virtio_console", "virtio_blk", "ext4"];

fn main() -> Result<()> {
    if std::process::id() == 1 {
        if let Err(why) = be_guest() {
            println!("guest failed: {why:#}");
        }
        rustix::system::reboot(RebootCommand::PowerOff)?;
        return Ok(());
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(name) = words.first() else {
        bail!("no kernel named ({})", plan::kernel::FORMS);
    };
    let clock = match words.get(1).map(String::as_str) {
        None | Some("auto") => Clock::Auto,
        Some("wall") => Clock::Wall,
        Some("instructions") => Clock::Instructions,
        Some(other) => bail!("unknown clock: {other}"),
    };
    let times = words.get(2).map_or(Ok(1), |text| text.parse())?;
    let refresh = words.get(3).is_some_and(|word| word == "refresh");
    be_host(name, clock, times, refresh)
}

fn be_host(name: &str, clock: Clock, times: u32, refresh: bool) -> Result<()> {
    let stop = AtomicBool::new(false);
    let task = Task {
        tell: &|progress| eprint!("\r{progress:?}   "),
        stop: &stop,
    };
    let cache = Cache::of_user()?;
    let began = Instant::now();
    let wanted = plan::kernel::read(name, None).map_err(anyhow::Error::msg)?;
    let kernel = kernel::fetch(&cache, &wanted, Flavour::Cloud, refresh, task)?;
    eprintln!("\n{} after {:.1?}", kernel.package, began.elapsed());
    let modules = MODULES.map(String::from);
    let content = Content {
        files: &[],
        init: &std::env::current_exe()?,
        modules: &modules,
        cmdline: "",
    };
    let files = BootFiles {
        initramfs: initramfs::build(&cache, &kernel, content, task)?,
        kernel: kernel.vmlinuz,
        cmdline: String::new(),
        cpus: None,
    };
    let request = Request {
        recipe: "web",
        suite: None,
        refresh,
    };
    let image = image::build(&cache, request, task)?;
    eprintln!("\n{} after {:.1?}", image.path.display(), began.elapsed());
    let program = emulator_choice::find(emulator_choice::named(None).as_deref(), &cache, task)?;
    let kvm = kvm::probe(&cache, &program, &files, false, task)?;
    eprintln!("\n{} after {:.1?}", kvm.words(), began.elapsed());
    let plan = MachinePlan {
        clock,
        boot_timeout: Duration::from_secs(60),
        one_client_fewer: false,
        ..MachinePlan::default()
    };
    let hardware = qemu::settle(&plan, 0, &program, &kvm)?;
    let arms = BTreeMap::from([("arm".to_string(), files)]);
    let machine = Qemu::new(hardware, Some(image.path), arms);
    println!("{:?}", machine.describe());
    for _ in 0..times {
        boot_once(&machine)?;
    }
    Ok(())
}

fn boot_once(machine: &dyn Machine) -> Result<()> {
    let dir = std::env::temp_dir().join(format!("boot-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let began = Instant::now();
    let mut guest = machine.boot(Boot {
        arm: "arm",
        block: 1,
        dir: &dir,
        allowance_bytes: record::protocol::allowance(Duration::from_secs(60)),
        stop: &AtomicBool::new(false),
    })?;
    loop {
        match guest.next(Duration::from_secs(60)) {
            GuestEvent::Said(message) => match *message {
                FromAgent::Hello(greeting) => {
                    println!("{} after {:.2?}", greeting.build, began.elapsed());
                    guest.send(&ToAgent::Stop)?;
                }
                other => println!("{other:?}"),
            },
            GuestEvent::Exited(how) => {
                println!("{how} after {:.2?}", began.elapsed());
                break;
            }
            other => {
                println!("{other:?}\n{}", guest.console(20).join("\n"));
                break;
            }
        }
    }
    println!("console: {} lines", guest.console(usize::MAX).len());
    drop(guest);
    Ok(fs::remove_dir_all(dir)?)
}

fn be_guest() -> Result<()> {
    for (what, place) in [("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys")] {
        fs::create_dir_all(place)?;
        // The kernel may have mounted /dev itself.
        let _ = rustix::mount::mount(what, place, what, rustix::mount::MountFlags::empty(), None);
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    for name in MODULES {
        load(
            Path::new("/lib/modules").join(release.trim()).as_path(),
            name,
        )?;
    }
    let mut line = open_line()?;
    let build = format!("{} {}", release.trim(), block_device());
    record::protocol::send(
        &mut line,
        &FromAgent::Hello(Greeting {
            protocol: record::protocol::PROTOCOL,
            build,
        }),
    )?;
    let ToAgent::Stop = record::protocol::receive::<ToAgent>(&mut line)? else {
        bail!("expected to be stopped");
    };
    Ok(())
}

fn block_device() -> String {
    let size = fs::read_to_string("/sys/block/vda/size").unwrap_or_default();
    let serial = fs::read_to_string("/sys/block/vda/serial").unwrap_or_default();
    format!("vda {} {}", serial.trim(), size.trim())
}

fn load(modules: &Path, name: &str) -> Result<()> {
    let order = fs::read_to_string(modules.join("modules.dep"))?;
    let Some(line) = order
        .lines()
        .find(|line| line.contains(&format!("/{name}.ko:")))
    else {
        return Ok(());
    };
    for path in line.replace(':', "").split(' ').rev() {
        let file = File::open(modules.join(path)).with_context(|| path.to_string())?;
        match rustix::system::finit_module(&file, c"", 0) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(why) => bail!("cannot load {path}: {why}"),
        }
    }
    Ok(())
}

fn open_line() -> Result<File> {
    for _ in 0..200 {
        for port in fs::read_dir("/sys/class/virtio-ports")?.flatten() {
            let name = fs::read_to_string(port.path().join("name")).unwrap_or_default();
            if name.trim() == record::protocol::PORT {
                let path = Path::new("/dev").join(port.file_name());
                return Ok(File::options().read(true).write(true).open(path)?);
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    bail!("no port called {}", record::protocol::PORT)
}
