//! Small files that once took all memory or time: each command ends within limits, with one message.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use base::skip::limits;

use crate::profiled_runs::profiled_by;
use crate::simulated_lab::{PLAN, World};

/// What a command says of a run on standard error, and its status.
fn said(words: &[&str], dir: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    command.args(words).arg(dir);
    let output = limits::run(&command);
    let error = String::from_utf8(output.stderr).unwrap();
    let place = dir.display().to_string();
    (output.status.code(), error.replace(&place, "DIR"))
}

/// A text of a megabyte that 20,000 nodes have for a name: 20 GiB, in some hundred bytes.
fn profile_bomb() -> Vec<u8> {
    let number = |out: &mut Vec<u8>, mut value: u64| {
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    };
    let mut out = b"bkprofil".to_vec();
    for value in [1, 2, 0, 1 << 20] {
        number(&mut out, value);
    }
    out.resize(out.len() + (1 << 20), b'x');
    number(&mut out, 20_001);
    for index in 1..=20_000 {
        for value in [index, 2, 1, 0] {
            number(&mut out, value);
        }
    }
    for _ in 0..2 {
        number(&mut out, 0);
    }
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    ruzstd::encoding::compress_to_vec(out.as_slice(), level)
}

#[test]
fn a_run_with_a_hostile_profile_is_judged_without_it_and_not_explained() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    profiled_by(dir, PLAN, |_| profile_bomb());
    let (status, error) = said(&["why"], dir);
    assert_eq!(status, Some(2), "{error}");
    assert!(
        error.contains("profile damaged: text too long at byte "),
        "{error}"
    );
    for words in [&["judge"][..], &["report"]] {
        let (status, error) = said(words, dir);
        assert_eq!(status, Some(0), "{error}");
        assert!(error.contains("text too long"), "{error}");
    }
}

#[test]
fn a_run_with_a_sparse_file_of_20_gb_is_refused_with_its_name() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    World::new(1.02, 0.005, &[]).run(dir, |_| false).unwrap();
    for (file, place) in [
        (
            "trials/003/trial.json",
            "lost record: DIR/trials/003/trial.json (",
        ),
        (
            "journal.jsonl",
            "cannot read journal: DIR/journal.jsonl: file longer than 128 MiB: 20.0 GiB (",
        ),
    ] {
        let sparse = File::options().write(true).open(dir.join(file)).unwrap();
        let before = fs::read(dir.join(file)).unwrap();
        sparse.set_len(20 << 30).unwrap();
        for words in [&["judge"][..], &["report"], &["fairness"]] {
            let (status, error) = said(words, dir);
            assert_eq!(status, Some(2), "{error}");
            assert!(error.contains(place), "{error}");
        }
        fs::write(dir.join(file), before).unwrap();
    }
}
