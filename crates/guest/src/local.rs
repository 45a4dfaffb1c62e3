//! The agent on a live host: the same job in namespaces of its own, on a file system that forgets.
//!
//! Whoever starts it has made a PID and a mount namespace, so that what it starts dies with it and what it mounts is
//! seen by nobody else. Servers write to `/run`, `/var` and the like as they are used to: the root is
//! covered by a layer in memory, which goes with the namespace. What is not a file - sysctls of the whole
//! kernel, the cgroup - the starter puts back.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use record::protocol::hosts::HostCommand;
use rustix::mount::{MountFlags, mount, mount_bind_recursive};
use rustix::process::{chdir, chroot};

use crate::channel::Channel;
use crate::env::Environment;
use crate::kernel_log::From;
use crate::session;
use crate::session::UNSAID;

/// Where workloads run: in memory, outside the layer.
const STAGE: &str = "/run/bakeoff";

/// What the kernel shows of itself; taken along as it is.
const KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

/// A live host may have work of its own that never ends.
const MAX_IDLE_WAIT: Duration = Duration::from_secs(10);

/// As `crate::live`.
pub(crate) fn serve(build: &str, cgroup: &Path, files: &[PathBuf]) -> i32 {
    let channel = match Channel::given() {
        Ok(channel) => channel,
        Err(why) => {
            eprintln!("bakeoff agent: {why:#}");
            return UNSAID;
        }
    };
    let end = || std::process::exit(UNSAID);
    // What the host's kernel said before is nobody's.
    session::hold((channel, From::Now), build, end, &|_, _| {
        prepare(cgroup, files)
    })
}

/// As `crate::remote`.
pub(crate) fn serve_remote(build: &str, hosts: &[HostCommand]) -> i32 {
    let end = || std::process::exit(UNSAID);
    match Channel::given() {
        Ok(channel) => session::hold_clients_of_others(channel, hosts, build, end),
        Err(why) => {
            eprintln!("bakeoff agent: {why:#}");
            UNSAID
        }
    }
}

fn prepare(cgroup: &Path, files: &[PathBuf]) -> Result<Environment> {
    // They may lie in a directory that is about to be covered.
    let opened: Vec<_> = files.iter().map(|path| open(path)).collect::<Result<_>>()?;
    cover_root().context("cover the root with a layer in memory (is overlayfs there?)")?;
    bring_files(opened)?;
    Ok(Environment {
        dir: STAGE.into(),
        cgroup: cgroup.join("trial"),
        kernel_config: None,
        disk: None,
        seeks: None,
        max_idle_wait: MAX_IDLE_WAIT,
        watches_path: true,
        box_network: None,
    })
}

/// A file of the plan's own, by its name.
fn open(path: &Path) -> Result<(OsString, File)> {
    let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    Ok((path.file_name().unwrap_or_default().into(), file))
}

/// Copies the plan's own files to the workload's directory.
fn bring_files(files: Vec<(OsString, File)>) -> Result<()> {
    let dir = Path::new(STAGE).join(workload::context::FILES);
    fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
    for (name, mut from) in files {
        let path = dir.join(name);
        let mut copy = || -> io::Result<()> {
            let mode = from.metadata()?.permissions();
            io::copy(&mut from, &mut File::create(&path)?)?;
            fs::set_permissions(&path, mode)
        };
        copy().with_context(|| format!("bring {}", path.display()))?;
    }
    Ok(())
}

/// Makes the root, under a writable layer in memory, the root of this process and of all that it starts.
fn cover_root() -> Result<()> {
    const LAYER: &str = "/tmp";
    const NEW: &str = "/tmp/root";
    mount(
        "layer",
        LAYER,
        "tmpfs",
        MountFlags::empty(),
        Some(c"mode=755"),
    )
    .context("mount a tmpfs")?;
    for place in ["/tmp/upper", "/tmp/work", NEW] {
        fs::create_dir(place).with_context(|| format!("make {place}"))?;
    }
    let layers = c"lowerdir=/,upperdir=/tmp/upper,workdir=/tmp/work";
    mount("root", NEW, "overlay", MountFlags::empty(), Some(layers))
        .context("mount the overlay")?;
    for place in KERNEL {
        let inside = inside(NEW, place);
        mount_bind_recursive(place, &inside).with_context(|| format!("bind {place}"))?;
    }
    for place in ["/run", "/tmp"] {
        let inside = inside(NEW, place);
        mount(
            "memory",
            &inside,
            "tmpfs",
            MountFlags::NOSUID,
            Some(c"mode=1777"),
        )
        .with_context(|| format!("mount a tmpfs at {place}"))?;
    }
    chroot(NEW).context("change the root")?;
    chdir("/").context("enter the root")?;
    for place in ["/run/lock", STAGE] {
        fs::create_dir_all(place).with_context(|| format!("make {place}"))?;
    }
    Ok(())
}

fn inside(root: &str, place: &str) -> PathBuf {
    Path::new(root).join(place.trim_start_matches('/'))
}
