//! Bundles of a stored run: verified, judged again, signed, and damaged at random.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use bakeoff::bundle::archive;
use bakeoff::bundle::archive::{Content, Cover, RunFile};
use base::input::tree::Tree;
use record::hash::sha256;
use record::prng::SplitMix64;

use crate::program::{bakeoff, refusal, stderr, stdout};

const BUNDLE: &str = "a.bakeoff.tar.zst";

fn stored_run() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/samples/runs/a")
}

/// Makes a bundle of the stored run.
fn bundle(dir: &Path, options: &[&str]) -> String {
    let run = stored_run();
    let args = [&["bundle", run.to_str().unwrap()], options].concat();
    let output = bakeoff(dir, &args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

#[test]
fn a_bundle_is_judged_again_to_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let told = bundle(dir.path(), &[]);
    assert!(told.contains("not signed (--key signs it)"), "{told}");
    let shown = bakeoff(dir.path(), &["show", BUNDLE]);
    let text = stdout(&shown);
    assert!(
        text.contains("the verdict is the same to the byte"),
        "{text}"
    );
    assert!(text.ends_with("bundle: not signed: whoever changed it could have made it again\n"));
    let json = bakeoff(dir.path(), &["show", BUNDLE, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&stdout(&json)).unwrap();
    assert_eq!(json["bundle"]["key"], serde_json::Value::Null);
    for (options, want) in [
        (&["--report"][..], "--report is for a run directory"),
        (
            &["--accept", "memory=a reason"],
            "--accept is for a run directory",
        ),
        (&["--signers", "nobody"], "not signed, and --signers nobody"),
    ] {
        let refused = refusal(&bakeoff(dir.path(), &[&["show", BUNDLE], options].concat()));
        assert!(refused.contains(want), "{refused}");
    }
    let run = stored_run();
    let run = run.to_str().unwrap();
    let refused = refusal(&bakeoff(dir.path(), &["show", run, "--signers", "x"]));
    assert!(refused.contains("--signers is for a bundle"), "{refused}");
}

/// Whoever makes a bundle can write anything into it. Judging again finds that.
#[test]
fn claims_that_the_records_do_not_give_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), &[]);
    let path = dir.path().join(BUNDLE);
    let stop = AtomicBool::new(false);
    let run = Tree::to_write(&dir.path().join("run")).unwrap();
    let cover = archive::unpack(&path, &run, &stop).unwrap();
    let verdict = run.read_to_string("verdict.json", 1 << 24).unwrap();
    let badge = verdict
        .lines()
        .find(|line| line.contains("\"badge\""))
        .unwrap();
    let verdict = verdict.replace(badge, "\"badge\": \"best\",");
    let statement = String::from_utf8(cover.statement.clone()).unwrap();
    let result = ["PASSED", "WARNED", "FAILED"]
        .into_iter()
        .find(|word| statement.contains(word))
        .unwrap();
    let other = if result == "PASSED" {
        "FAILED"
    } else {
        "PASSED"
    };
    for (name, body, result_now, want) in [
        (
            "verdict.json",
            verdict.as_str(),
            result,
            "judged again, the verdict is another one",
        ),
        (
            "report.md",
            "all is well",
            result,
            "report.md is another one than the records give",
        ),
        (
            "a-file.txt",
            "",
            other,
            "statement.json says something else",
        ),
    ] {
        let stored = run.read(name, 1 << 24).ok();
        run.replace(name, body.as_bytes()).unwrap();
        let files = stored_files(names(&cover.manifest));
        let manifest = archive::manifest(&run, &files, &stop).unwrap();
        let statement = statement
            .replace(
                &sha256(cover.manifest.as_bytes()),
                &sha256(manifest.as_bytes()),
            )
            .replace(result, result_now);
        let changed = Cover {
            statement: statement.into(),
            manifest,
            signature: None,
        };
        let mut file = fs::File::create(&path).unwrap();
        archive::write(&changed, &run, &files, &mut file, &stop).unwrap();
        let refused = refusal(&bakeoff(dir.path(), &["show", BUNDLE]));
        assert!(refused.contains(want), "{want}: {refused}");
        if let Some(stored) = stored {
            run.replace(name, &stored).unwrap();
        }
    }
}

#[test]
fn a_bundle_replaces_only_a_bundle_and_holds_only_files_of_a_run() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let copied = Command::new("cp")
        .arg("-r")
        .arg(stored_run())
        .arg(dir.join("a"))
        .status();
    assert!(copied.unwrap().success());
    fs::write(dir.join("a/id_ed25519"), "a secret").unwrap();
    fs::write(dir.join("notes.txt"), "mine").unwrap();
    std::os::unix::fs::symlink("notes.txt", dir.join("link")).unwrap();
    let pack = |out: &str| bakeoff(dir, &["bundle", "a", "--out", out]);
    for (out, want) in [
        ("/dev/full", "not a regular file"),
        ("link", "not a regular file"),
        ("notes.txt", "notes.txt is there, and is no bundle"),
        ("a/plan.toml", "is there, and is no bundle"),
        ("a/new", "is in the run directory"),
        ("new/", "a directory in place of a file"),
        (".", "a directory in place of a file"),
    ] {
        let refused = refusal(&pack(out));
        assert!(refused.contains(want), "{out}: {refused}");
    }
    assert!(!dir.join("new").exists() && !dir.join("a/new").exists());
    for _ in 0..2 {
        let packed = pack("b");
        assert_eq!(packed.status.code(), Some(0), "{}", stderr(&packed));
        assert!(stderr(&packed).contains("left out, because no run has such a file: id_ed25519"));
    }
    let cover = archive::verify(&dir.join("b"), &AtomicBool::new(false)).unwrap();
    assert!(!cover.manifest.contains("id_ed25519"));
    assert_eq!(fs::read_to_string(dir.join("notes.txt")).unwrap(), "mine");
}

#[test]
fn a_signature_is_checked_against_allowed_signers() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for key in ["alice", "bob"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-C", key, "-f", key])
            .current_dir(dir)
            .status();
        assert!(made.unwrap().success());
        let public = fs::read_to_string(dir.join(format!("{key}.pub"))).unwrap();
        fs::write(
            dir.join(format!("allowed-{key}")),
            format!("{key}@example.org {public}"),
        )
        .unwrap();
        let expired = format!("{key}@example.org valid-before=\"20200101\" {public}");
        fs::write(dir.join(format!("expired-{key}")), expired).unwrap();
    }
    bundle(dir, &["--key", "alice"]);
    let show = |signers: &[&str]| bakeoff(dir, &[&["show", BUNDLE], signers].concat());
    let text = stdout(&show(&["--signers", "allowed-alice"]));
    assert!(
        text.contains("bundle: signed by alice@example.org, ED25519 key SHA256:"),
        "{text}"
    );
    let text = stdout(&show(&[]));
    assert!(text.contains("whose key that is was not checked"), "{text}");
    for (signers, want) in [
        (
            "allowed-bob",
            "no good signature by anyone in allowed-bob: No principal matched.",
        ),
        ("expired-alice", "key has expired"),
        ("alice", "no good signature by anyone in alice"),
        ("missing", "No such file or directory"),
    ] {
        let refused = refusal(&show(&["--signers", signers]));
        assert!(refused.contains(want), "{refused}");
        assert_eq!(refused.lines().count(), 1, "{refused}");
    }
    let run = stored_run();
    let refused = refusal(&bakeoff(
        dir,
        &["bundle", run.to_str().unwrap(), "--key", "carol", "-o", "c"],
    ));
    assert!(refused.contains("cannot sign with carol"), "{refused}");
    assert!(!dir.join("c").exists());
    // A good signature of another statement.
    let stop = AtomicBool::new(false);
    let unpacked = Tree::to_write(&dir.join("run")).unwrap();
    let mut cover = archive::unpack(&dir.join(BUNDLE), &unpacked, &stop).unwrap();
    cover.statement.push(b'\n');
    let files = stored_files(names(&cover.manifest));
    let mut file = fs::File::create(dir.join(BUNDLE)).unwrap();
    archive::write(&cover, &unpacked, &files, &mut file, &stop).unwrap();
    for (signers, want) in [
        (&["--signers", "allowed-alice"][..], "no good signature"),
        (&[], "wrong signature"),
    ] {
        let refused = refusal(&show(signers));
        assert!(refused.contains(want), "{refused}");
    }
}

/// Changes one byte a thousand times. Half of the changed bundles have the SHA-256 of their changed content at their end, as
/// an attacker would write it: then the files must still be those of the manifest.
#[test]
fn every_changed_byte_of_a_bundle_is_found() {
    const TRAILER: usize = 48;
    let dir = tempfile::tempdir().unwrap();
    let run = Tree::at(&stored_run());
    let stop = AtomicBool::new(false);
    let files =
        stored_files(["journal.jsonl", "plan.toml", "trials/001/samples.jsonl"].into_iter());
    let cover = Cover {
        signature: None,
        statement: b"{}".into(),
        manifest: archive::manifest(&run, &files, &stop).unwrap(),
    };
    let place = dir.path().join(BUNDLE);
    let mut file = fs::File::create(&place).unwrap();
    archive::write(&cover, &run, &files, &mut file, &stop).unwrap();
    let good = fs::read(&place).unwrap();
    let seed = std::env::var("SEED").map_or(48, |seed| seed.parse().unwrap());
    let mut random = SplitMix64::new(seed);
    let mut same_files = 0;
    for round in 0..1000 {
        let mut changed = good.clone();
        let at = random.below(good.len() as u64) as usize;
        changed[at] ^= 1 + random.below(255) as u8;
        let is_resealed = round % 2 == 1 && at < good.len() - TRAILER;
        if is_resealed {
            let body = changed.len() - TRAILER;
            let digest = <sha2::Sha256 as sha2::Digest>::digest(&changed[..body]);
            changed[body + 16..].copy_from_slice(&digest);
        }
        fs::write(&place, &changed).unwrap();
        match archive::verify(&place, &stop) {
            Err(_) => {}
            Ok(found) => {
                let is_same = is_resealed && found.manifest == cover.manifest;
                assert!(is_same, "seed {seed}, round {round}, byte {at}");
                same_files += 1;
            }
        }
    }
    assert!(same_files < 50, "{same_files}");
}

fn stored_files<'n>(names: impl Iterator<Item = &'n str>) -> Vec<RunFile> {
    let file = |name: &str| RunFile {
        name: name.into(),
        content: Content::Stored,
    };
    names.map(file).collect()
}

/// The names in a manifest, below the run directory.
fn names(manifest: &str) -> impl Iterator<Item = &str> {
    manifest
        .lines()
        .map(|line| line.split_once("  run/").unwrap().1)
}
