//! Child processes that do not outlive their starter.
//!
//! The kernel kills a bound process when the *thread* that started it ends (`PR_SET_PDEATHSIG`), so it ends even if its
//! starter is killed. It leads a separate session and process group. So Ctrl-C at the terminal reaches only its starter, which
//! then shuts down in order, and `end` also reaches the process's children, unless they created another session.

mod confine;
mod vm_clones;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{
    self, Pid, Resource, Rlimit, Signal, getpid, getppid, kill_process_group,
    set_parent_process_death_signal, setsid,
};

pub use crate::process::confine::{Confinement, confine, landlock_obstacle, substitute_obstacle};
pub use crate::process::vm_clones::VmClones;

/// Binds a command's process to the thread that starts it, which must outlive the process.
#[expect(
    unsafe_code,
    reason = "the closure makes three system calls and allocates nothing"
)]
pub fn bind(command: &mut Command) {
    let starter = getpid();
    // SAFETY: between fork and exec only async-signal-safe calls are made: setsid, prctl and getppid.
    unsafe {
        command.pre_exec(move || {
            setsid()?;
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // If the starter died before the line above, no signal would ever be sent.
            if getppid() == Some(starter) {
                Ok(())
            } else {
                Err(io::Error::from(io::ErrorKind::Interrupted))
            }
        });
    }
}

/// Makes the kernel kill a command's process when it writes a longer file.
#[expect(
    unsafe_code,
    reason = "the closure makes one system call and allocates nothing"
)]
pub fn limit_files(command: &mut Command, bytes: u64) {
    let limit = Rlimit {
        current: Some(bytes),
        maximum: Some(bytes),
    };
    // SAFETY: between fork and exec only prlimit is called.
    unsafe {
        command.pre_exec(move || Ok(process::setrlimit(Resource::Fsize, limit)?));
    }
}

/// Keeps a file open in a command's process, under the same number.
#[expect(
    unsafe_code,
    reason = "the closure makes one system call and allocates nothing"
)]
pub fn inherit(command: &mut Command, file: OwnedFd) {
    // SAFETY: between fork and exec only fcntl is called, on a descriptor that the closure owns.
    unsafe {
        command.pre_exec(move || Ok(fcntl_setfd(&file, FdFlags::empty())?));
    }
}

/// Kills a bound process and its group, and waits for it.
pub fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It fails only if the group is gone already.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::process::Stdio;
    use std::thread;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        command
    }

    /// The remaining output of a process, until all holders of its pipe are gone.
    fn rest(child: &mut Child) -> String {
        let mut output = String::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut output)
            .unwrap();
        output
    }

    #[test]
    fn children_of_a_process_end_with_it() {
        let mut command = shell("echo begun; sleep 1000 & sleep 1000");
        bind(&mut command);
        let mut child = command.spawn().unwrap();
        end(&mut child);
        // The pipe is closed only when the sleeping processes, which hold it too, are gone.
        rest(&mut child);
        assert!(child.try_wait().unwrap().is_some());
    }

    #[test]
    fn a_process_ends_with_the_thread_that_started_it() {
        let mut child = thread::spawn(|| {
            let mut command = shell("echo begun; exec sleep 1000");
            bind(&mut command);
            command.spawn().unwrap()
        })
        .join()
        .unwrap();
        rest(&mut child);
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn an_inherited_file_is_open_under_its_number() {
        let file = tempfile::tempfile().unwrap();
        (&file).write_all(b"text").unwrap();
        // A shell would not do: dash reads `<&10` as a mistake.
        let mut command = Command::new("/bin/cat");
        command.arg(format!("/proc/self/fd/{}", file.as_raw_fd()));
        inherit(&mut command, file.into());
        assert_eq!(command.output().unwrap().stdout, b"text");
    }

    #[test]
    fn a_file_that_grows_too_long_ends_its_process() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("/bin/dd");
        command.args(["if=/dev/zero", "bs=1024", "count=9"]);
        command.arg(format!("of={}", dir.path().join("long").display()));
        limit_files(&mut command, 4096);
        assert!(!command.stderr(Stdio::null()).status().unwrap().success());
    }
}
