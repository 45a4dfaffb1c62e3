//! Tests of reading other tools' files. Each section covers a kind of fault that users of such tools
//! reported; the number of a public report is noted.

use std::fmt::Write;
use std::path::Path;

use record::metric::Direction;

use crate::compare::ImportOptions;
use crate::layout::Layout;
use crate::{Figures, read};

mod failures;
mod formats;
mod limits;
mod names;

type Files<'f> = &'f [(&'f str, &'f str)];

/// Reads files from a temporary directory, by the given paths.
fn judge(files: Files<'_>, paths: &[&str], options: &ImportOptions) -> Result<Figures, String> {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let full = |path: &&str| match path.split_once('=') {
        Some((arm, path)) => format!("{arm}={}", dir.path().join(path).display()),
        None => dir.path().join(path).display().to_string(),
    };
    let paths: Vec<String> = paths.iter().map(full).collect();
    match read(&paths, options) {
        Ok(mut figures) => {
            for remark in &mut figures.remarks {
                *remark = without(dir.path(), remark);
            }
            Ok(figures)
        }
        Err(problems) => Err(without(dir.path(), &problems.to_string())),
    }
}

fn without(dir: &Path, text: &str) -> String {
    text.replace(&format!("{}/", dir.display()), "")
}

fn read_all(files: Files<'_>, paths: &[&str]) -> Figures {
    judge(files, paths, &ImportOptions::default()).unwrap()
}

/// The comparisons, one per line: metric, unit, direction, arm, figures of baseline and arm.
fn rendered(figures: &Figures) -> String {
    let mut lines = String::new();
    for comparison in &figures.comparisons {
        let sign = match comparison.direction {
            Direction::Higher => "+",
            Direction::Lower => "-",
        };
        let (name, baseline, arm) = match &comparison.layout {
            Layout::Blocks { pairs, .. } => {
                let baseline = pairs.iter().map(|pair| pair.baseline).collect();
                (
                    "blocks",
                    baseline,
                    pairs.iter().map(|pair| pair.arm).collect(),
                )
            }
            Layout::Unpaired { baseline, arm } => ("runs", baseline.clone(), arm.clone()),
            Layout::OneRun { baseline, arm } => ("samples", baseline.clone(), arm.clone()),
        };
        let (metric, unit, against): (_, _, &String) =
            (&comparison.metric, &comparison.unit, &comparison.arm);
        let values = |values: Vec<f64>| format!("{values:?}");
        let (baseline, arm) = (values(baseline), values(arm));
        writeln!(
            lines,
            "{metric} [{unit}] {sign} {against}: {name} {baseline} {arm}"
        )
        .unwrap();
    }
    lines
}

#[track_caller]
fn check(files: Files<'_>, paths: &[&str], want: &expect_test::Expect) {
    want.assert_eq(&rendered(&read_all(files, paths)));
}

/// Checks that a remark contains all these words.
#[track_caller]
fn remarks(figures: &Figures, words: &[&str]) {
    let has = |remark: &&String| words.iter().all(|word| remark.contains(word));
    let matching = figures.remarks.iter().find(has);
    assert!(matching.is_some(), "{words:?} in {:#?}", figures.remarks);
}

#[track_caller]
fn refuse(files: Files<'_>, paths: &[&str], words: &[&str]) {
    match judge(files, paths, &ImportOptions::default()) {
        Ok(figures) => panic!(
            "not refused: {}\n{:#?}",
            rendered(&figures),
            figures.remarks
        ),
        Err(why) => {
            for word in words {
                assert!(why.contains(word), "{word:?} in {why}");
            }
        }
    }
}
