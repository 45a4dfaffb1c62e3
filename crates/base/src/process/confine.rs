//! Confinement of a process that runs foreign code, such as an emulator with an unknown kernel.
//!
//! ```text
//! Landlock   only the named files and devices; no TCP; no signals and no abstract sockets outside (Linux 5.13 to 6.12, each
//!            part if the kernel has it)
//! user       if the starter is root and may change its user: a user that owns nothing, with one capability to read what
//!            Landlock allows
//! prctl      no_new_privs: no program that it starts gains privileges
//! ```
//! All of it applies before the program starts. Inherited files stay open, and the process may read its own memory
//! mappings, which QEMU's plugins need.

use std::io;
use std::mem;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, Scope,
};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Gid, Uid, getpid, getuid};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, configure_capability_in_ambient_set,
    set_capabilities, set_capabilities_secure_bits, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

/// The newest Landlock version that is requested; an older kernel applies what it has.
const LANDLOCK_ABI: ABI = ABI::V6;

/// User IDs for services without an account, as systemd assigns them (`DynamicUser=`); they own no files.
const USERS: std::ops::RangeInclusive<u32> = 61_184..=65_519;

/// The files and devices that a confined process may open by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confinement {
    /// Files that it may read and execute, and directories with everything below; missing ones are ignored.
    pub reads: Vec<PathBuf>,
    /// Devices that it may read, write and control.
    pub devices: Vec<PathBuf>,
}

/// Confines a command's process. Call it before `bind`, because a change of user would undo that.
///
/// # Errors
/// The kernel has Landlock but refuses the rules.
#[expect(
    unsafe_code,
    reason = "the closure makes system calls and allocates nothing"
)]
pub fn confine(command: &mut Command, confinement: &Confinement) -> io::Result<()> {
    let mut rules = Some(rules(confinement).map_err(io::Error::other)?);
    let devices = &confinement.devices;
    let is_substituted = getuid().is_root() && substitute_obstacle(devices).is_none();
    let user = is_substituted.then(|| Substitute::with(groups_of(devices)));
    // SAFETY: between fork and exec only async-signal-safe system calls are made, on values that the closure owns.
    unsafe {
        command.pre_exec(move || {
            if let Some(user) = &user {
                user.switch_user()?;
            }
            set_no_new_privs(true)?;
            let Some(rules) = rules.take() else {
                return Ok(());
            };
            let restricted = with_own_maps(rules).and_then(RulesetCreated::restrict_self);
            restricted
                .map(drop)
                .map_err(|_| io::ErrorKind::PermissionDenied.into())
        });
    }
    Ok(())
}

/// Why a confined process that root starts keeps running as root, if it does.
pub fn substitute_obstacle(devices: &[PathBuf]) -> Option<String> {
    static CAN: OnceLock<bool> = OnceLock::new();
    let is_owner_only = |device: &&PathBuf| matches!(users_of(device), Some(DeviceUsers::Owner));
    if let Some(device) = devices.iter().find(is_owner_only) {
        return Some(format!("only root may use {}", device.display()));
    }
    let can = *CAN.get_or_init(can_substitute);
    (!can).then(|| "root may not change to one here".into())
}

/// Tries it in a separate process, because a thread that drops privileges changes who may inspect the whole process.
#[expect(
    unsafe_code,
    reason = "the closure makes system calls and allocates nothing"
)]
fn can_substitute() -> bool {
    let user = Substitute::with(Vec::new());
    let mut command = Command::new("true");
    // SAFETY: between fork and exec only async-signal-safe system calls are made, on a value that the closure owns.
    unsafe { command.pre_exec(move || user.switch_user()) };
    command.status().is_ok_and(|status| status.success())
}

/// Why the kernel cannot restrict file access of processes, if it cannot.
pub fn landlock_obstacle() -> Option<&'static str> {
    // Rules apply to a thread and end with it.
    let status = thread::spawn(|| rules(&Confinement::default())?.restrict_self()).join();
    match status {
        Ok(Ok(status)) => match status.landlock {
            LandlockStatus::NotEnabled => Some("not enabled at boot (lsm=landlock,...)"),
            LandlockStatus::NotImplemented => Some("not in this kernel (Linux 5.13 or later)"),
            LandlockStatus::Available { .. } => None,
        },
        Ok(Err(_)) | Err(_) => Some("refused by the kernel"),
    }
}

fn rules(confinement: &Confinement) -> Result<RulesetCreated, RulesetError> {
    let files = AccessFs::from_read(LANDLOCK_ABI);
    let devices = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK_ABI))?
        .handle_access(AccessNet::from_all(LANDLOCK_ABI))?
        .scope(Scope::from_all(LANDLOCK_ABI))?
        .create()?;
    let granted = |path: &PathBuf| PathFd::new(path).ok();
    for file in confinement.reads.iter().filter_map(granted) {
        rules = rules.add_rule(PathBeneath::new(file, files))?;
    }
    for device in confinement.devices.iter().filter_map(granted) {
        rules = rules.add_rule(PathBeneath::new(device, devices))?;
    }
    Ok(rules)
}

/// Allows reading the process's own list of mappings. The descriptor stays open as long as the process lives, because the kernel
/// creates a new inode, which the rules do not cover, for a list that is not open.
fn with_own_maps(rules: RulesetCreated) -> Result<RulesetCreated, RulesetError> {
    let Ok(maps) = PathFd::new("/proc/self/maps") else {
        return Ok(rules);
    };
    let keep_open = fcntl_setfd(&maps, FdFlags::empty());
    let rules = rules.add_rule(PathBeneath::new(&maps, AccessFs::ReadFile));
    if keep_open.is_ok() {
        mem::forget(maps);
    }
    rules
}

/// Who may read and write a device.
enum DeviceUsers {
    Owner,
    Group(Gid),
    All,
}

fn users_of(device: &Path) -> Option<DeviceUsers> {
    let metadata = device.metadata().ok()?;
    let allows = |bits| metadata.mode() & bits == bits;
    Some(if allows(0o006) {
        DeviceUsers::All
    } else if allows(0o060) {
        DeviceUsers::Group(Gid::from_raw(metadata.gid()))
    } else {
        DeviceUsers::Owner
    })
}

/// Groups that may use devices which are not open to all users.
fn groups_of(devices: &[PathBuf]) -> Vec<Gid> {
    let group = |device: &PathBuf| match users_of(device)? {
        DeviceUsers::Group(group) => Some(group),
        DeviceUsers::Owner | DeviceUsers::All => None,
    };
    devices.iter().filter_map(group).collect()
}

/// The user that a process of root's switches to.
struct Substitute {
    id: u32,
    groups: Vec<Gid>,
}

impl Substitute {
    fn with(groups: Vec<Gid>) -> Self {
        let pid = getpid().as_raw_pid().unsigned_abs();
        Self {
            id: USERS.start() + pid % (USERS.end() - USERS.start()),
            groups,
        }
    }

    fn switch_user(&self) -> io::Result<()> {
        let (user, group) = (Uid::from_raw(self.id), Gid::from_raw(self.id));
        set_thread_groups(&self.groups)?;
        set_thread_res_gid(group, group, group)?;
        // Caches and run directories of root are closed to others, but the process must read what Landlock allows there.
        let read_search = CapabilitySet::DAC_READ_SEARCH;
        // Otherwise the change of user clears all capabilities.
        set_capabilities_secure_bits(CapabilitiesSecureBits::NO_SETUID_FIXUP)?;
        set_thread_res_uid(user, user, user)?;
        let capabilities = CapabilitySets {
            effective: read_search,
            permitted: read_search,
            inheritable: read_search,
        };
        set_capabilities(None, capabilities)?;
        Ok(configure_capability_in_ambient_set(read_search, true)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Stdio;

    use super::*;

    /// A shell script that may read programs and one file.
    fn confined(script: &str, readable: &Path) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script, "sh"]).arg(readable);
        let system = ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"];
        let mut reads: Vec<_> = system.map(PathBuf::from).to_vec();
        reads.push(readable.into());
        let devices = vec![PathBuf::from("/dev/null")];
        confine(&mut command, &Confinement { reads, devices }).unwrap();
        command.stdout(Stdio::piped());
        command
    }

    #[test]
    fn a_confined_process_opens_only_named_files() {
        assert_eq!(landlock_obstacle(), None, "these tests need Landlock");
        let dir = tempfile::tempdir().unwrap();
        let [named, secret] = ["named", "secret"].map(|name| dir.path().join(name));
        fs::write(&named, "words").unwrap();
        fs::write(&secret, "secret").unwrap();
        let script = r#"
            test -r "$1" && cat "$1"
            cat "${1%named}secret" 2>/dev/null || echo ", other files closed"
            ls "${1%named}" 2>/dev/null || echo "directory closed"
            (: >> "$1") 2>/dev/null || echo "not written"
            (: > "${1%named}new") 2>/dev/null || echo "nothing made"
            grep -E "NoNewPrivs:.1" /proc/self/status 2>/dev/null || echo "proc closed"
            ls / >/dev/null 2>/dev/null || echo "root closed"
            read -r line </proc/self/maps && echo "its own mappings read"
        "#;
        let output = confined(script, &named).output().unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            "words, other files closed\ndirectory closed\nnot written\nnothing made\nproc closed\nroot closed\nits own mappings read\n"
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_device_that_only_root_may_use_keeps_root() {
        let dir = tempfile::tempdir().unwrap();
        let device = dir.path().join("kvm");
        fs::write(&device, "").unwrap();
        let obstacle = |mode| {
            fs::set_permissions(&device, fs::Permissions::from_mode(mode)).unwrap();
            substitute_obstacle(std::slice::from_ref(&device))
        };
        let named = format!("only root may use {}", device.display());
        assert_eq!(obstacle(0o600), Some(named));
        assert_eq!(obstacle(0o660), obstacle(0o666));
    }

    #[test]
    fn a_process_of_root_switches_to_a_user_without_files() {
        let output = confined("id -u; id -G", Path::new("/usr"))
            .output()
            .unwrap();
        let ids = String::from_utf8(output.stdout).unwrap();
        if getuid().is_root() && substitute_obstacle(&[]).is_none() {
            let (user, groups) = ids.trim_end().split_once('\n').unwrap();
            assert!(USERS.contains(&user.parse().unwrap()), "{ids}");
            assert_eq!(user, groups, "the one group has the user's number");
        } else {
            assert!(ids.starts_with(&getuid().as_raw().to_string()), "{ids}");
        }
    }

    #[test]
    fn a_confined_process_ends_with_the_thread_that_started_it() {
        let mut child = thread::spawn(|| {
            let mut command = confined("echo begun; exec sleep 1000", Path::new("/usr"));
            crate::process::bind(&mut command);
            command.spawn().unwrap()
        })
        .join()
        .unwrap();
        let mut output = String::new();
        let mut pipe = child.stdout.take().unwrap();
        pipe.read_to_string(&mut output).unwrap();
        assert!(!child.wait().unwrap().success());
    }
}
