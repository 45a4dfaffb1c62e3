//! Directories that somebody else has filled: no writer of bakeoff's follows a link in them, and root writes to none of them.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use base::input::tree::Tree;
use record::disturbances::{BegunDisturbance, DisturbanceStream};
use record::fleet::{BlockLock, Failure, note_failure};
use record::hash;
use record::rundir;
use record::rundir::RunDir;

/// A user that is not root.
const OTHER: u32 = 1000;

/// What a file outside says, before and after.
const KEPT: &str = "the owner of this directory may not change it";

/// A copy of a stored run, a cache, and a file outside of both for each link that is planted in them.
struct Trap {
    dir: tempfile::TempDir,
}

impl Trap {
    fn set() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/worse");
        let copied = Command::new("cp")
            .args(["-r", "--no-preserve=all"])
            .arg(golden)
            .arg(dir.path().join("run"))
            .status();
        assert!(copied.unwrap().success());
        fs::create_dir(dir.path().join("outside")).unwrap();
        Self { dir }
    }

    fn run(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    fn cache(&self) -> PathBuf {
        self.dir.path().join("home/bakeoff")
    }

    /// Puts a link in the place of a file, to one outside.
    fn plant(&self, place: &Path) {
        let outside = self.dir.path().join("outside");
        let victim = outside.join(place.to_str().unwrap().replace('/', "_"));
        fs::write(&victim, KEPT).unwrap();
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        if place.symlink_metadata().is_ok() {
            fs::remove_file(place).unwrap();
        }
        symlink(&victim, place).unwrap();
    }

    /// The same for a directory, which is moved outside.
    fn plant_dir(&self, place: &Path) {
        let outside = self.dir.path().join("outside").join("directory");
        fs::create_dir_all(&outside).unwrap();
        if place.symlink_metadata().is_ok() {
            fs::remove_dir_all(place).unwrap();
        }
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        symlink(&outside, place).unwrap();
    }

    fn assert_nothing_outside_is_changed(&self) {
        let mut victims = 0;
        for entry in fs::read_dir(self.dir.path().join("outside")).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                assert_eq!(
                    fs::read_dir(&path).unwrap().count(),
                    0,
                    "{}",
                    path.display()
                );
            } else {
                assert_eq!(
                    fs::read_to_string(&path).unwrap(),
                    KEPT,
                    "{}",
                    path.display()
                );
                victims += 1;
            }
        }
        assert!(victims > 0);
    }

    fn bakeoff(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_bakeoff"))
            .args(args)
            .current_dir(self.dir.path())
            .env("XDG_CACHE_HOME", self.dir.path().join("home"))
            .output()
            .unwrap()
    }
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn reports_take_the_place_of_links() {
    let trap = Trap::set();
    let files = ["verdict.json", "report.html", "report.md", "accepted.json"];
    for file in files {
        trap.plant(&trap.run().join(file));
        trap.plant(&trap.run().join(format!("{file}.draft")));
    }
    let refused = trap.bakeoff(&["report", "run"]);
    assert_eq!(refused.status.code(), Some(2));
    let why = told(&refused);
    assert!(
        why.contains("not a regular file: it is a symbolic link"),
        "{why}"
    );
    // What is read may be no link either, so that one goes.
    fs::remove_file(trap.run().join("accepted.json")).unwrap();
    let output = trap.bakeoff(&["report", "run"]);
    assert!(output.status.success(), "{}", told(&output));
    for file in &files[..3] {
        let about = trap.run().join(file).symlink_metadata().unwrap();
        assert!(about.is_file(), "{file}");
    }
    trap.plant(&trap.dir.path().join("night/index.html"));
    trap.plant(&trap.dir.path().join("night/index.json"));
    let output = trap.bakeoff(&["index", "run", "--out", "night"]);
    assert!(output.status.success(), "{}", told(&output));
    trap.assert_nothing_outside_is_changed();
}

#[test]
fn a_lock_and_a_journal_that_are_links_are_refused() {
    for file in ["lock", "journal.jsonl"] {
        let trap = Trap::set();
        trap.plant(&trap.run().join(file));
        RunDir::open(&trap.run(), "plan").unwrap_err();
        assert_eq!(trap.bakeoff(&["report", "run"]).status.code(), Some(2));
        trap.assert_nothing_outside_is_changed();
    }
}

#[test]
fn writers_of_a_trial_and_of_blocks_follow_no_link() {
    let trap = Trap::set();
    let run = trap.run();
    let (plan, check) = (
        fs::read_to_string(run.join("plan.toml")).unwrap(),
        workload::check,
    );
    let trial = rundir::load(&run, &check).unwrap().attempts[0]
        .trial
        .clone();
    for file in ["blocks/007.lock", "blocks/008.failures.jsonl"] {
        trap.plant(&run.join(file));
    }
    let dir = RunDir::open(&run, &plan).unwrap();
    BlockLock::take(&run, 7).unwrap_err();
    let failure = Failure {
        node: "n1".into(),
        is_refusal: false,
        message: "none".into(),
    };
    note_failure(&run, 8, &failure).unwrap_err();

    // A trial's directory that is a link is replaced, and so is a file in it.
    let place = run.join(format!("trials/{:03}", trial.number));
    trap.plant_dir(&place);
    let made = dir.trial_dir(rundir::Series::Judged, &trial, 1).unwrap();
    assert_eq!(made, place);
    assert!(place.symlink_metadata().unwrap().is_dir());
    trap.plant(&place.join("disturbances.jsonl"));
    let mut stream = DisturbanceStream::new(place.join("disturbances.jsonl"));
    let begun = BegunDisturbance {
        name: "loss".into(),
        begin_ms: 1,
        end_ms: None,
    };
    stream.push(&begun).unwrap();

    // Where the directory of all trials is one, nothing is written at all.
    trap.plant_dir(&run.join("trials"));
    dir.trial_dir(rundir::Series::Judged, &trial, 1)
        .unwrap_err();
    dir.write("trials/trial.json", b"{}").unwrap_err();
    trap.assert_nothing_outside_is_changed();
}

#[test]
fn writers_of_the_cache_follow_no_link() {
    let trap = Trap::set();
    let cache = trap.cache();
    let lock = |suite: &str| {
        // As the cache names the lock of a private apt root.
        let name = hash::sha256(format!("apt {suite}").as_bytes());
        cache.join(format!("locks/apt_{suite}-{}.json", &name[..12]))
    };
    trap.plant(&lock("bookworm"));
    for file in ["fetched", "settings", "apt.conf", "sources.list", "status"] {
        trap.plant(&cache.join("apt/bookworm").join(file));
    }
    let refused = trap.bakeoff(&["kernel", "list", "debian:bookworm"]);
    assert_eq!(refused.status.code(), Some(2), "{}", told(&refused));
    trap.plant_dir(&cache.join("kernels"));
    trap.plant_dir(&cache.join("staging"));
    let verified = trap.bakeoff(&["cache", "verify", "--remove"]);
    assert!(verified.status.success(), "{}", told(&verified));
    let pruned = trap.bakeoff(&["cache", "prune", "--to", "1KiB"]);
    assert!(pruned.status.code().is_some());
    trap.assert_nothing_outside_is_changed();
}

#[test]
fn what_serve_shows_is_no_link() {
    let trap = Trap::set();
    let runs = trap.dir.path().join("runs");
    fs::create_dir(&runs).unwrap();
    fs::rename(trap.run(), runs.join("own")).unwrap();
    symlink(runs.join("own"), runs.join("link")).unwrap();
    let found = record::live::directories(&runs).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["own"]);
    // A run that was found, and then became a link, is not read any more.
    let own = found["own"].clone();
    assert!(rundir::load(&own, &workload::check).is_ok());
    fs::rename(runs.join("own"), trap.dir.path().join("elsewhere")).unwrap();
    symlink(trap.dir.path().join("elsewhere"), runs.join("own")).unwrap();
    assert!(rundir::load(&own, &workload::check).is_err());
    assert!(!rundir::is_run(&own));
}

#[test]
fn root_writes_to_no_directory_of_another_user() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        base::skip::skip("not root, which another user's directory needs");
        return;
    }
    let trap = Trap::set();
    chown(trap.run(), Some(OTHER), None).unwrap();
    let before = fs::read_dir(trap.run()).unwrap().count();
    let refused = trap.bakeoff(&["report", "run"]);
    assert_eq!(refused.status.code(), Some(2));
    let why = told(&refused);
    assert!(
        why.contains("root does not write to a directory of user 1000: run"),
        "{why}"
    );
    assert!(why.contains("sudo -u '#1000' bakeoff"), "{why}");
    assert_eq!(fs::read_dir(trap.run()).unwrap().count(), before);
    assert!(Tree::to_write(&trap.run()).is_err());
    let refused = trap.bakeoff(&["man", "run"]);
    assert_eq!(refused.status.code(), Some(2), "{}", told(&refused));
    // A file is refused before anybody is asked for a response.
    let refused = trap.bakeoff(&[
        "load",
        "http://127.0.0.1:1/",
        "-n",
        "1",
        "--hdr",
        "run/x.hdr",
    ]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        told(&refused).contains("root does not write to a directory of user 1000: run"),
        "{}",
        told(&refused)
    );
    assert_eq!(fs::read_dir(trap.run()).unwrap().count(), before);

    fs::create_dir_all(trap.cache()).unwrap();
    chown(trap.cache(), Some(OTHER), None).unwrap();
    let refused = trap.bakeoff(&["cache", "list"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        told(&refused).contains("cannot use the cache"),
        "{}",
        told(&refused)
    );
    assert_eq!(fs::read_dir(trap.cache()).unwrap().count(), 0);
}
