//! The version series to bisect: versions that Debian offers, or commits.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use machine::git;
use machine::kernel;
use machine::kernel::Located;
use machine::kernel_versions;
use machine::kernel_versions::{Density, End, Offered};
use record::bisect::Version;

use crate::cli::bisect::BisectArgs;
use crate::commands::with_progress;

/// Limit on the listed files of a commit: a merge may touch thousands.
const MAX_FILES: usize = 20;

/// A series of two versions or more.
pub(super) struct VersionSeries {
    /// The versions in order.
    pub(super) versions: Vec<Version>,
    /// Bytes to download for each version, 0 for one in the cache; empty for commits.
    pub(super) bytes: Vec<u64>,
    /// The repository, if the versions are commits.
    pub(super) tree: Option<PathBuf>,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
}

impl VersionSeries {
    /// Names of the first and the last version.
    pub(super) fn ends(&self) -> [&str; 2] {
        [
            &self.versions[0].name,
            &self.versions[self.versions.len() - 1].name,
        ]
    }
}

/// Finds the version series that the user named.
pub(super) fn read(args: &BisectArgs, json: bool) -> Result<VersionSeries> {
    if let (Some(tree), Some(commits)) = (&args.tree, &args.commits) {
        return read_commits(tree, commits, json);
    }
    let (Some(from), Some(to)) = (&args.from, &args.to) else {
        bail!(
            "no version series (write --from VERSION --to VERSION, or --tree DIR --commits A..B)"
        );
    };
    let density = if args.all_versions {
        Density::All
    } else {
        Density::Series
    };
    let (located, offered) = with_progress(json, |cache, task| {
        let locate = |version| kernel::locate(cache, version, args.refresh, task);
        let located = [locate(from)?, locate(to)?];
        let end = |version, located: &Located| End {
            version,
            suite: located.suite,
        };
        let ends = [end(from, &located[0]), end(to, &located[1])];
        let offered = kernel_versions::range(cache, ends, density, args.refresh, task)?;
        Ok((located, offered))
    })?;
    let note = |(version, located): (&String, &Located)| {
        let Located { suite, release, .. } = located;
        format!("{version}: debian:{suite}/{version} ({release})")
    };
    let version = |offered: Offered| Version {
        name: offered.version,
        about: offered.release,
        source: offered.kernel,
        files: Vec::new(),
    };
    Ok(VersionSeries {
        bytes: offered.iter().map(|offered| offered.bytes).collect(),
        versions: offered.into_iter().map(version).collect(),
        tree: None,
        notes: [from, to].into_iter().zip(&located).map(note).collect(),
    })
}

fn read_commits(tree: &Path, commits: &str, json: bool) -> Result<VersionSeries> {
    let (range, changed) = with_progress(json, |_, task| {
        let range = git::range(tree, commits, task)?;
        Ok((range, git::changed_files(tree, task)?))
    })?;
    let mut notes = Vec::new();
    if range.merges > 0 {
        notes.push(format!(
            "{} of {} commits are merges, each of which stands for all that it brought: bisect inside one with --commits MERGE^1..MERGE^2",
            range.merges,
            range.commits.len() - 1
        ));
    }
    if let Some(file) = changed.first() {
        let tree = tree.display();
        notes.push(match changed.len() {
            1 => format!(
                "a file was changed in {tree} since its last commit, {file}: it is in no kernel that is built"
            ),
            files => format!(
                "{files} files were changed in {tree} since its last commit, such as {file}: they are in no kernel that is built"
            ),
        });
    }
    let version = |commit: git::Commit| {
        let mut files = commit.files;
        if files.len() > MAX_FILES {
            let more = files.len() - MAX_FILES;
            files.truncate(MAX_FILES);
            files.push(format!("{more} more"));
        }
        Version {
            name: commit.short,
            about: commit.subject,
            source: commit.hash,
            files,
        }
    };
    let tree = std::fs::canonicalize(tree);
    Ok(VersionSeries {
        bytes: Vec::new(),
        versions: range.commits.into_iter().map(version).collect(),
        tree: Some(tree.context("the repository is gone")?),
        notes,
    })
}
