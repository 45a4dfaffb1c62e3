//! `bundle`: packs a run into one file. Other commands open bundles here.

use std::error::Error;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use base::input::text::shell_word;
use base::input::tree::Tree;
use base::input::units::show_bytes;
use machine::cache::{Cache, Staging, hash_file};
use machine::task::Interrupted;
use record::rundir;
use serde_json::{Value, json};

use super::report::{Report, VERDICT};
use super::show::{RUNS, newest_run};
use super::{End, print_json, watch_signals};
use crate::build_id;
use crate::bundle::SUFFIX;
use crate::bundle::archive;
use crate::bundle::archive::{Content, Cover, RunFile};
use crate::bundle::signature;
use crate::bundle::signature::Signer;
use crate::bundle::statement::Statement;
use crate::cli::bundle::BundleArgs;
use crate::out;

/// Deepest directory of a run: a fleet's blocks have trials, and models have runs.
const MOST_DEPTH: usize = 8;

/// Packs a run.
pub(super) fn bundle(args: &BundleArgs, json: bool) -> Result<End> {
    let stop = watch_signals()?;
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => newest_run(Path::new(RUNS))?,
    };
    if dir.is_dir() && rundir::is_running(&dir) {
        bail!(
            "run in progress: {} (wait until it has ended)",
            dir.display()
        );
    }
    let report = Report::read(&dir)?;
    let out = out_file(args, &dir)?;
    check_out(&out, &dir)?;
    let tree = Tree::at(&dir);
    let files = run_files(&tree, report.files()?)?;
    let manifest = archive::manifest(&tree, &files, &stop)?;
    let statement = Statement::of(&report.run, &report.judgement, &manifest).text()?;
    let signature = match &args.key {
        Some(key) => Some(signature::sign(key, &statement)?),
        None => None,
    };
    let cover = Cover {
        signature,
        statement,
        manifest,
    };
    write(&out, &cover, &tree, &files, &stop)?;
    // What cannot be read again is no bundle.
    if archive::verify(&out, &stop)? != cover {
        bail!(
            "{} was changed while it was written (run the same command again)",
            out.display()
        );
    }
    let bytes = std::fs::metadata(&out)?.len();
    let sha256 = hash_file(&out)?;
    if json {
        print_json(&json!({
            "bundle": out, "bytes": bytes, "files": files.len(), "sha256": sha256,
            "is_signed": cover.signature.is_some(),
        }))?;
        return Ok(End::Done);
    }
    out::line(&format!(
        "bundle: {} ({}, {} files, sha256 {sha256})",
        out.display(),
        show_bytes(bytes),
        files.len()
    ));
    let name = shell_word(&out.to_string_lossy());
    out::line(&match &args.key {
        Some(key) => format!(
            "signed with {}: bakeoff show {name} --signers FILE checks it",
            key.display()
        ),
        None => format!("not signed (--key signs it): bakeoff show {name} checks that it is whole"),
    });
    Ok(End::Done)
}

/// The file to write.
fn out_file(args: &BundleArgs, dir: &Path) -> Result<PathBuf> {
    if let Some(out) = &args.out {
        return Ok(out.clone());
    }
    let whole = dir.canonicalize();
    let whole = whole.with_context(|| format!("cannot find {}", dir.display()))?;
    let mut name = whole.file_name().unwrap_or("run".as_ref()).to_owned();
    name.push(SUFFIX);
    Ok(name.into())
}

/// Refuses a place that holds anything but a bundle.
fn check_out(out: &Path, dir: &Path) -> Result<()> {
    let shown = out.display();
    if out.as_os_str().as_bytes().ends_with(b"/") || out.is_dir() {
        bail!("a directory in place of a file: {shown} (name a file in it)");
    }
    match std::fs::symlink_metadata(out) {
        Ok(found) if !found.is_file() => {
            bail!("not a regular file: {shown} (name a new file)")
        }
        Ok(_) if !archive::ends_as_bundle(out) => {
            bail!("{shown} is there, and is no bundle (name a new file)")
        }
        Ok(_) | Err(_) => {}
    }
    let parent = Tree::around(out).0.path().canonicalize();
    let whole = dir.canonicalize();
    if let (Ok(parent), Ok(whole)) = (parent, whole)
        && parent.starts_with(&whole)
    {
        bail!("{shown} is in the run directory (name a file elsewhere)");
    }
    Ok(())
}

/// The files of a run, sorted by name. What no run has is left out, and reports are those of `made`.
fn run_files(tree: &Tree, made: Vec<(&'static str, Vec<u8>)>) -> Result<Vec<RunFile>> {
    let mut names = Vec::new();
    list(tree, "", MOST_DEPTH, &mut names)?;
    let is_stored = |name: &String| made.iter().all(|(made, _)| made != name);
    let mut files: Vec<RunFile> = names
        .into_iter()
        .filter(is_stored)
        .map(|name| RunFile {
            name,
            content: Content::Stored,
        })
        .collect();
    files.extend(made.into_iter().map(|(name, body)| RunFile {
        name: name.into(),
        content: Content::Made(body),
    }));
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

fn list(tree: &Tree, below: &str, depth: usize, names: &mut Vec<String>) -> Result<()> {
    let dir = tree.below(below);
    let cannot_list = || format!("cannot list {}", dir.path().display());
    for entry in dir.list().with_context(cannot_list)? {
        let name = &*entry.name.to_string_lossy();
        let path = if below.is_empty() {
            name.to_string()
        } else {
            format!("{below}/{name}")
        };
        let is_folder = !below.is_empty() || rundir::FOLDERS.contains(&name);
        if entry.kind.is_file() && rundir::is_record(name) {
            names.push(path);
        } else if entry.kind.is_dir() && is_folder && depth > 0 {
            list(tree, &path, depth - 1, names)?;
        } else if !rundir::is_lock(name) {
            out::error_line(&format!("left out, because no run has such a file: {path}"));
        }
    }
    Ok(())
}

fn write(
    out: &Path,
    cover: &Cover,
    tree: &Tree,
    files: &[RunFile],
    stop: &AtomicBool,
) -> Result<()> {
    let (dir, name) = Tree::around(out);
    let write = |file: &mut File| archive::write(cover, tree, files, file, stop);
    match dir.replace_by(name, write) {
        Ok(_) => Ok(()),
        Err(why) if is_interrupted(&why) => Err(Interrupted.into()),
        Err(why) => Err(why).with_context(|| format!("cannot write bundle {}", out.display())),
    }
}

fn is_interrupted(why: &io::Error) -> bool {
    why.get_ref()
        .is_some_and(<dyn Error + Send + Sync>::is::<Interrupted>)
}

/// A verified bundle. Its files are in a directory that is removed with this value.
pub(super) struct OpenBundle {
    path: PathBuf,
    unpacked: Staging,
    statement: Statement,
    manifest: String,
    signer: Option<Signer>,
}

impl OpenBundle {
    /// Unpacks a bundle, and checks its digests and its signature. With a file of allowed signers it must be signed by one of them.
    pub(super) fn open(path: &Path, signers: Option<&Path>) -> Result<Self> {
        let stop = watch_signals()?;
        let cache = Cache::of_user()?;
        let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
        let unpacked = cache.staging(bytes)?;
        let run = unpacked.tree().make_dir(archive::RUN)?;
        let cover = archive::unpack(path, &run, &stop)?;
        let named = || format!("bundle {}", path.display());
        let statement = Statement::read(&cover).with_context(named)?;
        let signer = match (&cover.signature, signers) {
            (Some(signature), signers) => Some(
                signature::check(signature, &cover.statement, signers, &unpacked.path)
                    .with_context(named)?,
            ),
            (None, Some(signers)) => bail!(
                "bundle {}: not signed, and --signers {} asks for a signature (leave it out to trust the bundle)",
                path.display(),
                signers.display()
            ),
            (None, None) => None,
        };
        Ok(Self {
            path: path.into(),
            unpacked,
            statement,
            manifest: cover.manifest,
            signer,
        })
    }

    /// The run directory.
    pub(super) fn dir(&self) -> PathBuf {
        self.unpacked.path.join(archive::RUN)
    }

    /// The name of the run: the file's, without the ending.
    pub(super) fn run_name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        name.strip_suffix(SUFFIX).unwrap_or(&name).into()
    }

    /// Judges the run again, and refuses a bundle whose verdict, reports or statement the records do not give.
    pub(super) fn judge(&self) -> Result<Report> {
        let named = || format!("bundle {}", self.path.display());
        self.judge_again().with_context(named)
    }

    fn judge_again(&self) -> Result<Report> {
        let report = Report::read(&self.dir())?;
        let stored = Tree::at(&self.dir());
        for (name, body) in report.files()? {
            // Other builds may write other pages.
            if name != VERDICT && !self.is_of_this_build() {
                continue;
            }
            let stored = stored.read(name, archive::MOST_BYTES);
            let stored = stored.with_context(|| {
                format!("no {name} in it that can be read (bakeoff bundle RUN makes another)")
            })?;
            if stored == body {
                continue;
            }
            if name == VERDICT {
                bail!(
                    "judged again, the verdict is another one: {} (it was judged by build {}, and this is build {})",
                    first_difference(&stored, &body),
                    self.statement.predicate.bakeoff_build,
                    build_id::build()
                );
            }
            bail!("{name} is another one than the records give (do not trust this bundle)");
        }
        let statement = Statement::of(&report.run, &report.judgement, &self.manifest);
        if !self.statement.agrees_with(&statement) {
            bail!("statement.json says something else than the records (do not trust this bundle)");
        }
        Ok(report)
    }

    /// Whether this build made the bundle.
    fn is_of_this_build(&self) -> bool {
        self.statement.predicate.bakeoff_build == build_id::build()
    }

    /// What was checked.
    pub(super) fn lines(&self) -> Vec<String> {
        let signed = match &self.signer {
            Some(Signer {
                name: Some(name),
                key,
            }) => format!("signed by {name}, {key}"),
            Some(Signer { name: None, key }) => format!(
                "signed by {key}; whose key that is was not checked (--signers FILE checks it)"
            ),
            None => "not signed: whoever changed it could have made it again".into(),
        };
        let pages = if self.is_of_this_build() {
            String::new()
        } else {
            let build = &self.statement.predicate.bakeoff_build;
            format!("; its pages were not compared: build {build} made them")
        };
        vec![
            format!(
                "bundle: {}, {} files as in its manifest; judged again, the verdict is the same to the byte{pages}",
                self.path.display(),
                self.files()
            ),
            format!("bundle: {signed}"),
        ]
    }

    /// The same as JSON.
    pub(super) fn json(&self) -> Result<Value> {
        let signer = self.signer.as_ref();
        Ok(json!({
            "files": self.files(), "sha256": hash_file(&self.path)?, "judged_by": self.statement.predicate.bakeoff_build,
            "key": signer.map(|signer| &signer.key), "signer": signer.and_then(|signer| signer.name.as_ref()),
        }))
    }

    fn files(&self) -> usize {
        self.manifest.lines().count()
    }
}

/// The first line in which two texts differ.
fn first_difference(stored: &[u8], again: &[u8]) -> String {
    let [stored, again] = [stored, again].map(String::from_utf8_lossy);
    let mut lines = stored.lines().zip(again.lines());
    match lines.find(|(stored, again)| stored != again) {
        Some((stored, again)) => {
            let short = |line: &str| line.trim().chars().take(60).collect::<String>();
            format!("{} was {}", short(again), short(stored))
        }
        None => "one is longer than the other".into(),
    }
}
