//! Small files that once took all memory or time. Each command must end within limits, with one
//! message.

use std::fs::{self, File};
use std::path::Path;

use base::skip::limits;

use crate::profiled_runs::profiled_by;
use crate::program::{command, stderr};
use crate::simulated_lab::{PLAN, World};

/// The status and standard error of a command on a run.
fn limited(args: &[&str], dir: &Path) -> (Option<i32>, String) {
    let mut command = command(dir, args);
    command.arg(dir);
    let output = limits::run(&command);
    let path = dir.display().to_string();
    (output.status.code(), stderr(&output).replace(&path, "DIR"))
}

/// 20,000 nodes share a name of one megabyte: 20 GiB, packed into some hundred bytes.
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
    let (status, error) = limited(&["why"], dir);
    assert_eq!(status, Some(2), "{error}");
    assert!(
        error.contains("profile damaged: text too long at byte "),
        "{error}"
    );
    for args in [&["show"][..], &["show", "--report"]] {
        let (status, error) = limited(args, dir);
        assert_eq!(status, Some(0), "{error}");
        assert!(error.contains("text too long"), "{error}");
    }
}

#[test]
fn a_sparse_file_of_20_gb_is_refused_by_name() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    World::new(1.02, 0.005, &[]).run(dir, |_| false).unwrap();
    for (file, message) in [
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
        for args in [
            &["show"][..],
            &["show", "--report"],
            &["show", "--fairness"],
        ] {
            let (status, error) = limited(args, dir);
            assert_eq!(status, Some(2), "{error}");
            assert!(error.contains(message), "{error}");
        }
        fs::write(dir.join(file), before).unwrap();
    }
}
