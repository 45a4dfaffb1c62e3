//! The agent on a live host: the same job in separate namespaces, on a file system that keeps nothing.
//!
//! The starter has made a PID and a mount namespace, so all processes end with the agent and its mounts stay
//! invisible outside. Servers write to `/run`, `/var` and the like as usual: a layer in memory covers the
//! root and disappears with the namespace. The starter restores what is not a file: sysctls of the whole
//! kernel, the cgroup.

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
use crate::session::UNREPORTED;

/// Where workloads run: in memory, outside the overlay.
const STAGE: &str = "/run/bakeoff";

/// File systems of the kernel, which the new root shares with the old one.
const KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

/// A live host may have other work that never ends.
const MAX_IDLE_WAIT: Duration = Duration::from_secs(10);

/// Does one job on a live host, for the host's side of this program at the other end of standard input.
/// Returns the exit status. Call it as root, in PID and mount namespaces made for it. `cgroup` is the one
/// that this process is in; `files` are the plan's files, for the workload.
pub fn live(build: &str, cgroup: &Path, files: &[PathBuf]) -> i32 {
    let channel = match Channel::from_stdin() {
        Ok(channel) => channel,
        Err(why) => {
            eprintln!("bakeoff agent: {why:#}");
            return UNREPORTED;
        }
    };
    // Messages of the kernel before the trial are none of its defects.
    session::run(channel, From::Now, build, session::exit, &|_, _| {
        prepare(cgroup, files)
    })
}

/// Does one job whose server is a system on the network. Its clients are on this host, or on others that
/// `hosts` reach. Like `live`, but needs neither root nor namespaces.
pub fn remote(build: &str, hosts: &[HostCommand]) -> i32 {
    match Channel::from_stdin() {
        Ok(channel) => session::run_remote(channel, hosts, build),
        Err(why) => {
            eprintln!("bakeoff agent: {why:#}");
            UNREPORTED
        }
    }
}

fn prepare(cgroup: &Path, files: &[PathBuf]) -> Result<Environment> {
    // Opened first: their directory may be covered below.
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

/// Opens one of the plan's files; its name and the file.
fn open(path: &Path) -> Result<(OsString, File)> {
    let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    Ok((path.file_name().unwrap_or_default().into(), file))
}

/// Copies the plan's files to the workload's directory.
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

/// Covers the root with a writable layer in memory, for this process and all that it starts.
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
