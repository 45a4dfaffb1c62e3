//! Git queries for a bisection. The user's work tree is never changed.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::program;
use crate::program::command;
use crate::task::Task;

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its full hash.
    pub hash: String,
    /// The first twelve digits of the hash, as is usual for the kernel.
    pub short: String,
    /// Its subject line.
    pub subject: String,
    /// Files that it touches, against its first parent.
    pub files: Vec<String>,
}

/// The commits of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The begin of the range, then each first-parent commit up to its end.
    pub commits: Vec<Commit>,
    /// How many of them are merges, each with all its commits.
    pub merges: usize,
}

/// Whether a directory belongs to a git repository.
pub fn is_repository(dir: &Path, task: Task<'_>) -> Result<bool> {
    Ok(top(dir, task)?.is_some())
}

/// The repository's directory, when there is one.
pub(crate) fn top(dir: &Path, task: Task<'_>) -> Result<Option<PathBuf>> {
    if !dir.is_dir() {
        bail!("no such directory: {} (name a kernel tree)", dir.display());
    }
    let mut ask = git(dir)?;
    ask.args(["rev-parse", "--show-toplevel"]);
    let top = program::run(&mut ask, task).ok();
    Ok(top.map(|line| PathBuf::from(line.trim_end_matches('\n'))))
}

/// The commits of `A..B` along first parents.
///
/// # Errors
/// It is no range, an end is no commit, or the beginning does not lie on the end's line of first parents.
pub fn range(dir: &Path, range: &str, task: Task<'_>) -> Result<Range> {
    if top(dir, task)?.is_none() {
        bail!(
            "not a git repository: {} (name a clone of the kernel)",
            dir.display()
        );
    }
    let (first, last) = match range.split_once("..") {
        Some((first, last)) if !last.starts_with('.') && !first.is_empty() && !last.is_empty() => {
            (first, last)
        }
        _ => bail!("not a range of commits: {range} (write GOOD..BAD, such as v6.1..v6.2)"),
    };
    let (first, last) = (resolve(dir, first, task)?, resolve(dir, last, task)?);
    let mut command = git(dir)?;
    command
        .args(["rev-list", "--first-parent", "--parents", "--reverse"])
        .arg(format!("{first}..{last}"));
    let listed = program::run(&mut command, task)?;
    let lines: Vec<Vec<&str>> = listed
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let Some(second) = lines.first() else {
        bail!("no commit in {range} (the later one stands behind the dots)");
    };
    if second.get(1) != Some(&first.as_str()) {
        bail!(
            "{first:.12} is not on the line of first parents of {last:.12}: it came by a merge (name a first-parent ancestor, such as a tag)"
        );
    }
    let merges = lines.iter().filter(|parents| parents.len() > 2).count();
    let hashes = std::iter::once(first.as_str()).chain(lines.iter().map(|line| line[0]));
    let commits = hashes.map(|hash| commit(dir, hash, task));
    Ok(Range {
        commits: commits.collect::<Result<_>>()?,
        merges,
    })
}

/// A commit by any of its names.
pub fn commit(dir: &Path, name: &str, task: Task<'_>) -> Result<Commit> {
    let hash = resolve(dir, name, task)?;
    let mut show = git(dir)?;
    show.args(["log", "-1", "--format=%P%n%s", &hash]);
    let shown = program::run(&mut show, task)?;
    let (parents, subject) = shown.split_once('\n').unwrap_or_default();
    let mut touched = git(dir)?;
    touched.args(["diff-tree", "-r", "--no-commit-id", "--name-only"]);
    // Between two trees: for a merge alone, git would list files that differ from any of its parents.
    match parents.split_whitespace().next() {
        Some(first_parent) => touched.args([first_parent, &hash]),
        None => touched.args(["--root", &hash]),
    };
    let files = program::run(&mut touched, task)?;
    Ok(Commit {
        short: hash[..12].into(),
        subject: subject.trim().into(),
        files: files.lines().map(String::from).collect(),
        hash,
    })
}

/// The hash of all files of a commit, equal for commits with the same files.
pub(crate) fn tree_of(dir: &Path, hash: &str, task: Task<'_>) -> Result<String> {
    let mut ask = git(dir)?;
    ask.args(["rev-parse", &format!("{hash}^{{tree}}")]);
    Ok(program::run(&mut ask, task)?.trim().into())
}

/// Files that differ from the last commit, including untracked ones.
pub fn changed_files(dir: &Path, task: Task<'_>) -> Result<Vec<String>> {
    let mut ask = git(dir)?;
    ask.args(["status", "--porcelain", "--untracked-files=normal"]);
    let output = program::run(&mut ask, task)?;
    let files = output.lines().filter_map(|line| line.get(3..));
    Ok(files.map(String::from).collect())
}

/// A separate work tree at a commit, which uses the objects of the user's repository.
pub(crate) fn check_out(repository: &Path, place: &Path, hash: &str, task: Task<'_>) -> Result<()> {
    if !place.join(".git").exists() {
        let mut clone = command("git", "git")?;
        clone
            .args(["clone", "--quiet", "--shared", "--no-checkout"])
            .arg(repository)
            .arg(place);
        program::run(&mut clone, task)?;
    }
    // Left by a killed git: the caller holds the lock of the directory, so no git is running.
    match fs::remove_file(place.join(".git/index.lock")) {
        Err(why) if why.kind() != ErrorKind::NotFound => {
            return Err(why).context("cannot remove the lock of a git that was killed");
        }
        Ok(()) | Err(_) => {}
    }
    let mut check_out = git(place)?;
    // Hooks and filters are the user's, and are not run here.
    check_out.args([
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "advice.detachedHead=false",
    ]);
    check_out.args(["checkout", "--quiet", "--force", "--detach", hash]);
    program::run(&mut check_out, task).map(drop)
}

fn resolve(dir: &Path, name: &str, task: Task<'_>) -> Result<String> {
    let mut ask = git(dir)?;
    ask.args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
        .arg(format!("{name}^{{commit}}"));
    let hash = program::run(&mut ask, task).ok();
    hash.map(|hash| hash.trim().to_owned())
        .filter(|hash| hash.len() >= 40)
        .with_context(|| format!("no such commit: {name} (in {})", dir.display()))
}

fn git(dir: &Path) -> Result<Command> {
    let mut git = command("git", "git")?;
    git.arg("-C").arg(dir);
    // Neither a pager nor a password nor a lock of the user's index.
    git.env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_OPTIONAL_LOCKS", "0");
    Ok(git)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn git_in(dir: &Path, words: &[&str]) {
        let mut git = Command::new("git");
        git.arg("-C").arg(dir);
        git.args(["-c", "user.name=A", "-c", "user.email=a@example.org"]);
        let done = git.args(words).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }

    fn add(dir: &Path, file: &str) {
        fs::write(dir.join(file), file).unwrap();
        git_in(dir, &["add", file]);
        git_in(dir, &["commit", "-q", "-m", file]);
    }

    #[test]
    fn a_check_out_that_was_killed_is_done_again() {
        let dir = tempfile::tempdir().unwrap();
        let (user, place) = (dir.path().join("user"), dir.path().join("place"));
        fs::create_dir(&user).unwrap();
        git_in(&user, &["init", "-q", "-b", "main"]);
        add(&user, "one");
        let task = Task {
            tell: &|_| {},
            stop: &AtomicBool::new(false),
        };
        let hash = commit(&user, "main", task).unwrap().hash;
        check_out(&user, &place, &hash, task).unwrap();
        fs::remove_file(place.join("one")).unwrap();
        fs::write(place.join(".git/index.lock"), "").unwrap();
        check_out(&user, &place, &hash, task).unwrap();
        assert!(place.join("one").exists());
    }

    #[test]
    fn a_commit_has_the_files_in_which_it_differs_from_its_first_parent() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        git_in(dir, &["init", "-q", "-b", "main"]);
        add(dir, "root");
        git_in(dir, &["checkout", "-q", "-b", "side"]);
        add(dir, "of-side");
        git_in(dir, &["checkout", "-q", "main"]);
        add(dir, "of-main");
        git_in(dir, &["merge", "-q", "-m", "both", "side"]);
        let task = Task {
            tell: &|_| {},
            stop: &AtomicBool::new(false),
        };
        for (name, subject, files) in [
            ("main", "both", ["of-side"]),
            ("main^1", "of-main", ["of-main"]),
            ("main^2", "of-side", ["of-side"]),
            ("main~2", "root", ["root"]),
        ] {
            let commit = commit(dir, name, task).unwrap();
            assert_eq!(
                (&*commit.subject, &*commit.files),
                (subject, &files.map(String::from)[..])
            );
        }
    }
}
