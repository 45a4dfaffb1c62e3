//! The line that is bisected: versions that Debian offers, or commits.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use machine::git;
use machine::kernel;
use machine::kernel::Located;
use machine::kernel_line;
use machine::kernel_line::{Density, End, Offered};
use record::bisect::Version;

use crate::cli::bisect::BisectArgs;
use crate::commands::at_work;

/// Files of a commit that are kept: a merge may touch thousands.
const MOST_FILES: usize = 20;

/// A line of two versions or more.
pub(super) struct Line {
    /// The first end first.
    pub(super) versions: Vec<Version>,
    /// What is downloaded for each, in bytes, where Debian has them: 0 for one in the cache.
    pub(super) bytes: Vec<u64>,
    /// The repository, where they are commits.
    pub(super) tree: Option<PathBuf>,
    /// What the user should know of it.
    pub(super) remarks: Vec<String>,
}

impl Line {
    /// Names of the first and the last version.
    pub(super) fn ends(&self) -> [&str; 2] {
        [
            &self.versions[0].name,
            &self.versions[self.versions.len() - 1].name,
        ]
    }
}

/// Finds the line that was asked for.
pub(super) fn read(args: &BisectArgs, json: bool) -> Result<Line> {
    if let (Some(tree), Some(commits)) = (&args.tree, &args.commits) {
        return of_commits(tree, commits, json);
    }
    let (Some(from), Some(to)) = (&args.from, &args.to) else {
        bail!(
            "no line of versions (write --from VERSION --to VERSION, or --tree DIR --commits A..B)"
        );
    };
    let density = if args.all_versions {
        Density::All
    } else {
        Density::Series
    };
    let (ends, offered) = at_work(json, |cache, task| {
        let locate = |version| kernel::locate(cache, version, args.refresh, task);
        let ends = [locate(from)?, locate(to)?];
        let end = |version, place: usize| End {
            version,
            suite: ends[place].suite,
        };
        let typed = [end(from, 0), end(to, 1)];
        let offered = kernel_line::line(cache, typed, density, args.refresh, task)?;
        Ok((ends, offered))
    })?;
    let chosen = |(typed, end): (&String, &Located)| {
        format!("{typed}: debian:{}/{typed} ({})", end.suite, end.release)
    };
    let version = |one: Offered| Version {
        name: one.version,
        about: one.release,
        source: one.kernel,
        files: Vec::new(),
    };
    Ok(Line {
        bytes: offered.iter().map(|one| one.bytes).collect(),
        versions: offered.into_iter().map(version).collect(),
        tree: None,
        remarks: [from, to].into_iter().zip(&ends).map(chosen).collect(),
    })
}

fn of_commits(tree: &Path, commits: &str, json: bool) -> Result<Line> {
    let (range, changed) = at_work(json, |_, task| {
        let range = git::range(tree, commits, task)?;
        Ok((range, git::changed_files(tree, task)?))
    })?;
    let mut remarks = Vec::new();
    if range.merges > 0 {
        remarks.push(format!(
            "{} of {} commits are merges, each of which stands for all that it brought: bisect inside one with --commits MERGE^1..MERGE^2",
            range.merges,
            range.commits.len() - 1
        ));
    }
    if let Some(file) = changed.first() {
        let tree = tree.display();
        remarks.push(match changed.len() {
            1 => format!(
                "a file was changed in {tree} since its last commit, {file}: it is in no kernel that is built"
            ),
            files => format!(
                "{files} files were changed in {tree} since its last commit, such as {file}: they are in no kernel that is built"
            ),
        });
    }
    let version = |one: git::Commit| {
        let mut files = one.files;
        let more = files.len().saturating_sub(MOST_FILES);
        files.truncate(MOST_FILES);
        files.extend((more > 0).then(|| format!("{more} more")));
        Version {
            name: one.short,
            about: one.subject,
            source: one.hash,
            files,
        }
    };
    let tree = std::fs::canonicalize(tree);
    Ok(Line {
        bytes: Vec::new(),
        versions: range.commits.into_iter().map(version).collect(),
        tree: Some(tree.context("the repository is gone")?),
        remarks,
    })
}
