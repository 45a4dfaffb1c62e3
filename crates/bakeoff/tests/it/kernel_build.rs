//! Interrupted kernel builds: processes that make has started end with bakeoff, however it ends.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use crate::program::{self, command};
use crate::real_guests::rest_of_stderr;

/// A tree whose make starts a second make, like the kernel's, which then runs for long.
const MAKEFILE: &str = r"
allnoconfig:
	cp $(KCONFIG_ALLCONFIG) $(O)/.config
bzImage:
	+$(MAKE) -f $(CURDIR)/Makefile work
work:
	echo $$$$ > $(O)/begun.new; mv $(O)/begun.new $(O)/begun; sleep 300; touch $(O)/ended
";

fn begin(dir: &Path) -> Child {
    let tree = dir.join("tree");
    fs::create_dir_all(tree.join("arch/x86")).unwrap();
    fs::write(tree.join("Kconfig"), "").unwrap();
    fs::write(tree.join("Makefile"), MAKEFILE).unwrap();
    let mut command = command(
        dir,
        &["cache", "kernel", "build", "tree", "--make-jobs", "2"],
    );
    command
        .env("XDG_CACHE_HOME", dir.join("cache"))
        .stderr(Stdio::piped());
    command.spawn().expect("the binary under test runs")
}

/// Waits until the second make runs; returns its output directory.
fn wait_until_running(dir: &Path, child: &mut Child) -> PathBuf {
    let builds = dir.join("cache/bakeoff/builds");
    loop {
        let configured = entries(&builds).into_iter().flat_map(|tree| entries(&tree));
        let mut running = configured.filter(|out| out.join("begun").exists());
        if let Some(out) = running.next() {
            return out;
        }
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "it ended: {}", rest_of_stderr(child));
        thread::sleep(Duration::from_millis(20));
    }
}

/// The paths in a directory; none if it does not exist.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Starts a build and sends it these signals. When its lock is free, none of its processes may be
/// left.
fn check(signals: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let mut child = begin(dir.path());
    let out = wait_until_running(dir.path(), &mut child);
    for signal in signals {
        program::signal(signal, child.id());
    }
    child.wait().unwrap();
    let mut locks = entries(&dir.path().join("cache/bakeoff/locks"));
    locks.retain(|path| path.to_string_lossy().contains("/locks/build_"));
    let lock = File::open(&locks[0]).unwrap();
    lock.lock().unwrap();
    let worker = fs::read_to_string(out.join("begun")).unwrap();
    // The command line of a zombie is empty.
    let left = fs::read_to_string(format!("/proc/{}/cmdline", worker.trim())).unwrap_or_default();
    assert_eq!(left, "", "{signals:?}");
    assert!(!out.join("ended").exists(), "{signals:?}");
}

#[test]
fn an_interrupted_build_leaves_no_process() {
    check(&["INT"]);
}

/// The second signal ends bakeoff at once, like SIGKILL.
#[test]
fn a_build_that_is_interrupted_twice_or_killed_leaves_no_process() {
    check(&["INT", "TERM"]);
    check(&["KILL"]);
}
