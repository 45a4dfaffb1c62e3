//! Directories that another user has filled. Bakeoff never writes through a link in them, and root
//! does not write to them.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

use base::input::tree::Tree;
use record::disturbances::{BegunDisturbance, DisturbanceStream};
use record::fleet::{BlockLock, Failure, note_failure};
use record::hash;
use record::rundir;
use record::rundir::RunDir;

use crate::program::{command, is_root, refusal, stderr};
use crate::simulated_lab::load_run;
use crate::watched_runs::copy;

/// A user that is not root.
const OTHER: u32 = 1000;

/// The content of each file outside, which must stay.
const KEPT: &str = "the owner of this directory may not change it";

/// A copy of a stored run, a cache, and files outside of both to which planted links point.
struct Trap {
    dir: tempfile::TempDir,
}

impl Trap {
    fn set() -> Self {
        let dir = tempfile::tempdir().unwrap();
        copy("worse", &dir.path().join("run"));
        fs::create_dir(dir.path().join("outside")).unwrap();
        Self { dir }
    }

    fn run(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    fn cache(&self) -> PathBuf {
        self.dir.path().join("home/bakeoff")
    }

    /// Replaces a file with a link to a file outside.
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

    /// Replaces a directory with a link to a directory outside.
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
                let count = fs::read_dir(&path).unwrap().count();
                assert_eq!(count, 0, "{}", path.display());
            } else {
                let text = fs::read_to_string(&path).unwrap();
                assert_eq!(text, KEPT, "{}", path.display());
                victims += 1;
            }
        }
        assert!(victims > 0);
    }

    fn bakeoff(&self, args: &[&str]) -> Output {
        command(self.dir.path(), args)
            .env("XDG_CACHE_HOME", self.dir.path().join("home"))
            .output()
            .unwrap()
    }
}

#[test]
fn reports_replace_links() {
    let trap = Trap::set();
    let files = ["verdict.json", "report.html", "report.md", "accepted.json"];
    for file in files {
        trap.plant(&trap.run().join(file));
        trap.plant(&trap.run().join(format!("{file}.draft")));
    }
    let why = refusal(&trap.bakeoff(&["show", "run", "--report"]));
    assert!(
        why.contains("not a regular file: it is a symbolic link"),
        "{why}"
    );
    // Files to read must not be links either, so remove that link.
    fs::remove_file(trap.run().join("accepted.json")).unwrap();
    let output = trap.bakeoff(&["show", "run", "--report"]);
    assert!(output.status.success(), "{}", stderr(&output));
    for file in &files[..3] {
        let metadata = trap.run().join(file).symlink_metadata().unwrap();
        assert!(metadata.is_file(), "{file}");
    }
    trap.plant(&trap.dir.path().join("night/index.html"));
    trap.plant(&trap.dir.path().join("night/index.json"));
    let output = trap.bakeoff(&["show", "run", "--index", "night"]);
    assert!(output.status.success(), "{}", stderr(&output));
    trap.assert_nothing_outside_is_changed();
}

#[test]
fn a_lock_and_a_journal_that_are_links_are_refused() {
    for file in ["lock", "journal.jsonl"] {
        let trap = Trap::set();
        trap.plant(&trap.run().join(file));
        RunDir::open(&trap.run(), "plan").unwrap_err();
        assert_eq!(
            trap.bakeoff(&["show", "run", "--report"]).status.code(),
            Some(2)
        );
        trap.assert_nothing_outside_is_changed();
    }
}

#[test]
fn writers_of_trials_and_blocks_follow_no_link() {
    let trap = Trap::set();
    let run = trap.run();
    let plan = fs::read_to_string(run.join("plan.toml")).unwrap();
    let trial = load_run(&run).attempts[0].trial.clone();
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

    // A link in place of a trial's directory or of a file in it is replaced.
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

    // If `trials` itself is a link, nothing is written.
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
        // The cache names the lock of a private apt root like this.
        let name = hash::sha256(format!("apt {suite}").as_bytes());
        cache.join(format!("locks/apt_{suite}-{}.json", &name[..12]))
    };
    trap.plant(&lock("bookworm"));
    for file in ["fetched", "settings", "apt.conf", "sources.list", "status"] {
        trap.plant(&cache.join("apt/bookworm").join(file));
    }
    refusal(&trap.bakeoff(&["cache", "kernel", "list", "debian:bookworm"]));
    trap.plant_dir(&cache.join("kernels"));
    trap.plant_dir(&cache.join("staging"));
    let verified = trap.bakeoff(&["cache", "verify", "--remove"]);
    assert!(verified.status.success(), "{}", stderr(&verified));
    let pruned = trap.bakeoff(&["cache", "prune", "--to", "1KiB"]);
    assert!(pruned.status.code().is_some());
    trap.assert_nothing_outside_is_changed();
}

#[test]
fn serve_shows_no_run_behind_a_link() {
    let trap = Trap::set();
    let runs = trap.dir.path().join("runs");
    fs::create_dir(&runs).unwrap();
    fs::rename(trap.run(), runs.join("own")).unwrap();
    symlink(runs.join("own"), runs.join("link")).unwrap();
    let directories = record::live::directories(&runs).unwrap();
    assert_eq!(directories.keys().collect::<Vec<_>>(), ["own"]);
    // A run that became a link after it was found is not read.
    let run = directories["own"].clone();
    rundir::load(&run, &workload::check).unwrap();
    fs::rename(runs.join("own"), trap.dir.path().join("elsewhere")).unwrap();
    symlink(trap.dir.path().join("elsewhere"), runs.join("own")).unwrap();
    assert!(rundir::load(&run, &workload::check).is_err());
    assert!(!rundir::is_run(&run));
}

#[test]
fn root_writes_to_no_directory_of_another_user() {
    if !is_root() {
        base::skip::skip("not root, which another user's directory needs");
        return;
    }
    let trap = Trap::set();
    chown(trap.run(), Some(OTHER), None).unwrap();
    let before = fs::read_dir(trap.run()).unwrap().count();
    let why = refusal(&trap.bakeoff(&["show", "run", "--report"]));
    assert!(
        why.contains("root does not write to a directory of user 1000: run"),
        "{why}"
    );
    assert!(why.contains("sudo -u '#1000' bakeoff"), "{why}");
    assert_eq!(fs::read_dir(trap.run()).unwrap().count(), before);
    assert!(Tree::to_write(&trap.run()).is_err());
    refusal(&trap.bakeoff(&["man", "run"]));
    // The file is refused before any request is sent.
    let load = "load http://127.0.0.1:1/ -n 1 --hdr run/x.hdr";
    let why = refusal(&trap.bakeoff(&load.split(' ').collect::<Vec<_>>()));
    assert!(
        why.contains("root does not write to a directory of user 1000: run"),
        "{why}"
    );
    assert_eq!(fs::read_dir(trap.run()).unwrap().count(), before);

    fs::create_dir_all(trap.cache()).unwrap();
    chown(trap.cache(), Some(OTHER), None).unwrap();
    let why = refusal(&trap.bakeoff(&["cache", "list"]));
    assert!(why.contains("cannot use the cache"), "{why}");
    assert_eq!(fs::read_dir(trap.cache()).unwrap().count(), 0);
}
