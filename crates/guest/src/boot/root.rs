//! File systems of a guest: first those of the kernel, then the image under a layer in memory.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_move};
use rustix::process::{chdir, chroot};
use rustix::system::sethostname;

/// Where workloads run: in memory and outside the overlay, so that serving files does not measure overlayfs.
pub(crate) const STAGE: &str = "/srv/bakeoff";

/// The image: the guest's first disk.
const DISK: &str = "/dev/vda";

/// The image on a box: a file of the initramfs.
const FILE: &str = "/image.ext4";

/// The disk reserved for the workload, if the guest has one.
pub(crate) const SECOND_DISK: &str = "/dev/vdb";

/// Guest time for the disk to appear after its driver is loaded.
const DISK_LIMIT: Duration = Duration::from_secs(10);

struct Mount {
    kind: &'static str,
    path: &'static str,
    options: &'static str,
    /// Whether a guest can do its job without it.
    is_optional: bool,
}

const fn required(kind: &'static str, path: &'static str, options: &'static str) -> Mount {
    Mount {
        kind,
        path,
        options,
        is_optional: false,
    }
}

const fn optional(kind: &'static str, path: &'static str) -> Mount {
    Mount {
        is_optional: true,
        ..required(kind, path, "")
    }
}

/// What programs of the image expect, in the order of mounting. The initramfs needs the first three.
const MOUNTS: [Mount; 11] = [
    required("proc", "/proc", ""),
    required("sysfs", "/sys", ""),
    required("devtmpfs", "/dev", "mode=755"),
    required("devpts", "/dev/pts", "mode=620,ptmxmode=666"),
    required("tmpfs", "/dev/shm", "mode=1777"),
    required("tmpfs", "/run", "mode=755"),
    required("tmpfs", "/tmp", "mode=1777"),
    required("tmpfs", STAGE, "mode=755"),
    required("cgroup2", "/sys/fs/cgroup", ""),
    optional("securityfs", "/sys/kernel/security"),
    optional("tracefs", "/sys/kernel/tracing"),
];

/// Directories that a service manager would have made.
const DIRECTORIES: [(&str, u32); 3] = [
    ("/run/lock", 0o1777),
    ("/run/user", 0o755),
    ("/var/tmp", 0o1777),
];

/// Names in `/dev` that udev would have made.
const LINKS: [(&str, &str); 4] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// Mounts what an initramfs needs to reach anything else.
pub(crate) fn mount_first() -> Result<()> {
    let mut mounts = MOUNTS[..3].iter();
    mounts.try_for_each(|mount| mount_at(Path::new("/"), mount))
}

/// Makes the image, read-only under a writable layer in memory, the root of this process and of all that
/// it starts. The first process stays in the initramfs.
pub(crate) fn switch() -> Result<()> {
    const NEW: &str = "/new";
    let disk = image_disk()?;
    for place in ["/image", "/layer", NEW] {
        fs::create_dir_all(place).with_context(|| format!("make {place}"))?;
    }
    mount(&disk, "/image", "ext4", MountFlags::RDONLY, None)
        .with_context(|| format!("mount {} as ext4", disk.display()))?;
    mount(
        "layer",
        "/layer",
        "tmpfs",
        MountFlags::empty(),
        Some(c"mode=755"),
    )
    .context("mount a tmpfs")?;
    for place in ["/layer/upper", "/layer/work"] {
        fs::create_dir(place).with_context(|| format!("make {place}"))?;
    }
    let layers = c"lowerdir=/image,upperdir=/layer/upper,workdir=/layer/work";
    mount("root", NEW, "overlay", MountFlags::empty(), Some(layers))
        .context("mount the overlay")?;
    for mount in &MOUNTS {
        mount_at(Path::new(NEW), mount)?;
    }
    move_files(Path::new("/files"), &Path::new(NEW).join(&STAGE[1..]))?;
    enter(NEW)?;
    make_directories_and_links()
}

/// Moves the plan's files from the initramfs to the workload's directory: both are memory, so one copy is enough.
fn move_files(from: &Path, stage: &Path) -> Result<()> {
    if !from.exists() {
        return Ok(());
    }
    let to = stage.join(workload::context::FILES);
    fs::create_dir(&to).with_context(|| format!("make {}", to.display()))?;
    for entry in fs::read_dir(from).context("read the plan's files")? {
        let file = entry.context("read the plan's files")?;
        // A copy keeps the mode; the initramfs and the stage are two file systems.
        fs::copy(file.path(), to.join(file.file_name()))
            .and_then(|_| fs::remove_file(file.path()))
            .with_context(|| format!("bring {}", file.path().display()))?;
    }
    Ok(())
}

/// Moves the new root over the old one, like `switch_root(8)`: programs that make namespaces need a real root.
fn enter(new: &str) -> Result<()> {
    chdir(new).context("enter the new root")?;
    mount_move(".", "/").context("move the new root")?;
    chroot(".").context("change the root")?;
    chdir("/").context("enter the root")
}

/// Makes what a service manager and udev would have made.
fn make_directories_and_links() -> Result<()> {
    for (place, mode) in DIRECTORIES {
        fs::create_dir_all(place).with_context(|| format!("make {place}"))?;
        fs::set_permissions(place, fs::Permissions::from_mode(mode))
            .with_context(|| format!("set the mode of {place}"))?;
    }
    for (target, link) in LINKS {
        // Kernels with devtmpfs from a running system may have them already.
        let _ = symlink(target, link);
    }
    sethostname(b"bakeoff").context("set the host name")
}

/// The block device of the image: a guest's first disk, or a file of the initramfs as a loop device.
fn image_disk() -> Result<PathBuf> {
    if Path::new(FILE).exists() {
        return loop_device(Path::new(FILE)).with_context(|| format!("make a disk of {FILE}"));
    }
    wait_for_disk()?;
    Ok(DISK.into())
}

/// Makes a file a read-only block device (loop(4)).
#[expect(unsafe_code, reason = "these two requests have no safe form")]
fn loop_device(file: &Path) -> Result<PathBuf> {
    const LOOP_SET_FD: libc::c_ulong = 0x4c00;
    const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4c82;
    let control = File::open("/dev/loop-control").context("no loop devices")?;
    // SAFETY: the request takes no argument and returns a number.
    let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) };
    if number < 0 {
        return Err(io::Error::last_os_error()).context("no free loop device");
    }
    let path = PathBuf::from(format!("/dev/loop{number}"));
    // A loop device takes its mode from this descriptor: read-only.
    let device = File::open(&path).with_context(|| format!("open {}", path.display()))?;
    let image = File::open(file)?;
    // SAFETY: the request takes a descriptor, which is open; the kernel holds the file itself from then on.
    let done = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_SET_FD as _, image.as_raw_fd()) };
    if done < 0 {
        return Err(io::Error::last_os_error()).context("bind it");
    }
    Ok(path)
}

fn wait_for_disk() -> Result<()> {
    let deadline = Instant::now() + DISK_LIMIT;
    while !Path::new(DISK).exists() {
        if Instant::now() >= deadline {
            let disks = crate::sampler::whole_disks().join(", ");
            anyhow::bail!("no disk {DISK} among: {disks}");
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn mount_at(root: &Path, entry: &Mount) -> Result<()> {
    let path = root.join(entry.path.trim_start_matches('/'));
    let made = fs::create_dir_all(&path);
    let flags = match entry.kind {
        "proc" | "sysfs" | "cgroup2" | "securityfs" | "tracefs" => {
            MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC
        }
        _ => MountFlags::NOSUID,
    };
    let options = std::ffi::CString::new(entry.options).expect("mount options hold no zero byte");
    let done = made.map_err(anyhow::Error::from).and_then(|()| {
        match mount(entry.kind, &path, entry.kind, flags, Some(&*options)) {
            // The kernel may have mounted it before it started the first process.
            Ok(()) | Err(Errno::BUSY) => Ok(()),
            Err(why) => Err(why.into()),
        }
    });
    match done {
        Err(_) if entry.is_optional => Ok(()),
        done => done.with_context(|| format!("mount {} at {}", entry.kind, path.display())),
    }
}
