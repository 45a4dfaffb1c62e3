//! Kernel builds that are interrupted: what make has started ends with bakeoff, however that ends.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// A tree whose make starts another one, as the kernel's does, which then works for long.
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
    let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    command
        .args(["kernel", "build", "tree", "--jobs", "2"])
        .current_dir(dir)
        .env("XDG_CACHE_HOME", dir.join("cache"))
        .stderr(Stdio::piped());
    command.spawn().expect("the binary under test runs")
}

/// Waits until make's make is at work, in the output directory that is returned.
fn at_work(dir: &Path, child: &mut Child) -> PathBuf {
    let builds = dir.join("cache/bakeoff/builds");
    loop {
        let configured = entries(&builds).into_iter().flat_map(|one| entries(&one));
        let mut begun = configured.filter(|out| out.join("begun").exists());
        if let Some(out) = begun.next() {
            return out;
        }
        if child.try_wait().unwrap().is_some() {
            let mut said = String::new();
            child
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut said)
                .unwrap();
            panic!("it ended: {said}");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// What a directory has; nothing if it is none.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Once the lock is free, so that another build may begin, nothing of the first one is left.
fn check(signals: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let mut child = begin(dir.path());
    let out = at_work(dir.path(), &mut child);
    for signal in signals {
        let kill = Command::new("kill")
            .args([signal, child.id().to_string().as_str()])
            .status();
        assert!(kill.unwrap().success());
    }
    child.wait().unwrap();
    let mut locks = entries(&dir.path().join("cache/bakeoff/locks"));
    locks.retain(|path| path.to_string_lossy().contains("/locks/build_"));
    let lock = File::open(&locks[0]).unwrap();
    lock.lock().unwrap();
    let worker = fs::read_to_string(out.join("begun")).unwrap();
    // Of a process that has ended and was not waited for it is empty.
    let left = fs::read_to_string(format!("/proc/{}/cmdline", worker.trim())).unwrap_or_default();
    assert_eq!(left, "", "{signals:?}");
    assert!(!out.join("ended").exists(), "{signals:?}");
}

#[test]
fn what_make_has_started_ends_with_a_build_that_is_interrupted() {
    check(&["-INT"]);
}

/// The second signal ends bakeoff at once, as nothing else does but one that cannot be caught.
#[test]
fn what_make_has_started_ends_with_a_build_that_is_interrupted_twice_or_killed() {
    check(&["-INT", "-TERM"]);
    check(&["-KILL"]);
}
