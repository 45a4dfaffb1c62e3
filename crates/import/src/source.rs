//! What was typed: files, directories, `ARM=FILE`. Which file is of which arm.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use base::input::problem::Problem;

use crate::observation::{FileFigures, Run};

/// Files of one command; more would be a mistake in the path.
const FILES: usize = 10_000;

/// Folders below a directory that are looked into: criterion's tree has two for each benchmark.
const FOLDERS: usize = 10_000;

/// One file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// The path as the user can find it.
    pub(crate) path: PathBuf,
    /// The arm that the user typed, or whose directory the file is in.
    pub(crate) arm: Option<String>,
    /// Set where the arm is only the name of this directory.
    pub(crate) named_after: Option<PathBuf>,
    /// Set for a file of criterion's: the arm's directory and the benchmark.
    pub(crate) criterion: Option<(String, String)>,
    /// Whether the user typed the arm of a file of criterion's.
    pub(crate) is_arm_typed: bool,
    /// How many files there are to read, itself among them.
    pub(crate) of: usize,
}

/// All files behind what was typed.
pub(crate) fn find(paths: &[String], problems: &mut Vec<Problem>) -> Vec<Source> {
    let mut sources = Vec::new();
    for typed in paths {
        let (arm, path) = split(typed);
        let found = match path.metadata() {
            Ok(meta) if meta.is_dir() => match in_directory(&path, arm) {
                Ok(found) => found,
                Err(problem) => {
                    problems.push(problem);
                    continue;
                }
            },
            Ok(_) => vec![source(path.clone(), arm.map(String::from))],
            Err(why) => {
                let what = format!("cannot be read: {why}");
                problems.push(problem(&path, what, "give a file, a directory or ARM=FILE"));
                continue;
            }
        };
        if found.is_empty() {
            problems.push(problem(
                &path,
                "not a run directory, and no files of figures in it".into(),
                "",
            ));
        }
        sources.extend(found);
    }
    if sources.len() > FILES {
        let what = format!("too many files, more than {FILES}: {}", sources.len());
        problems.push(problem(
            Path::new(&paths[0]),
            what,
            "give a directory with results only",
        ));
        sources.clear();
    }
    let mut seen = BTreeSet::new();
    for source in &sources {
        let place = source
            .path
            .canonicalize()
            .unwrap_or_else(|_| source.path.clone());
        if !seen.insert(place) {
            problems.push(problem(
                &source.path,
                "given twice".into(),
                "each file is of one arm",
            ));
        }
    }
    default_names_once(&sources, problems);
    let of = sources.len();
    for source in &mut sources {
        source.of = of;
    }
    sources
}

/// criterion calls its last runs `base` and `new` in any directory: of two directories they are not one
/// arm.
fn default_names_once(sources: &[Source], problems: &mut Vec<Problem>) {
    let mut seen = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_arm_typed) {
        let Some((arm, benchmark)) = &source.criterion else {
            continue;
        };
        let is_default = ["base", "new"].contains(&arm.as_str());
        if let Some(first) = seen
            .insert((arm, benchmark), &source.path)
            .filter(|_| is_default)
        {
            let what = format!(
                "criterion's {arm} of {benchmark:?} as in {}",
                first.display()
            );
            problems.push(problem(&source.path, what, "write ARM=DIRECTORY for each"));
        }
    }
}

/// `ARM=FILE`, unless a file has that very name.
pub(crate) fn split(typed: &str) -> (Option<&str>, PathBuf) {
    match typed.split_once('=') {
        Some((arm, path)) if !arm.is_empty() && !Path::new(typed).exists() => {
            (Some(arm), PathBuf::from(path))
        }
        _ => (None, PathBuf::from(typed)),
    }
}

fn source(path: PathBuf, arm: Option<String>) -> Source {
    Source {
        path,
        arm,
        named_after: None,
        criterion: None,
        is_arm_typed: false,
        of: 1,
    }
}

fn problem(path: &Path, what: String, remedy: &str) -> Problem {
    Problem {
        file: path.display().to_string(),
        line: 0,
        what,
        remedy: remedy.into(),
    }
}

/// Criterion's tree, or files that are runs of an arm named like the directory, or such directories.
fn in_directory(dir: &Path, arm: Option<&str>) -> Result<Vec<Source>, Problem> {
    let runs = entries(dir)
        .into_iter()
        .filter(|path| record::rundir::is_run(path));
    let runs: Vec<String> = runs.map(|path| name(&path)).collect();
    if !runs.is_empty() {
        let what = format!("run directories in it: {}", runs.join(", "));
        return Err(problem(dir, what, "name one of them, or two"));
    }
    let mut folders_left = FOLDERS;
    let criterion = criterion_files(dir, dir, arm, &mut folders_left);
    if folders_left == 0 {
        let what = format!("more than {FOLDERS} folders in it");
        return Err(problem(dir, what, "give a directory with results only"));
    }
    let criterion = without_copies(criterion);
    if !criterion.is_empty() {
        return Ok(criterion);
    }
    let (mut files, mut dirs) = (Vec::new(), Vec::new());
    for path in entries(dir) {
        if path.is_dir() {
            dirs.push(path);
        } else {
            files.push(path);
        }
    }
    let of_dir = |path: PathBuf, dir: &Path| Source {
        named_after: Some(dir.into()),
        ..source(path, Some(name(dir)))
    };
    let mut sources: Vec<Source> = files
        .into_iter()
        .map(|path| match arm {
            Some(arm) => source(path, Some(arm.into())),
            None => of_dir(path, dir),
        })
        .collect();
    if sources.is_empty() {
        for dir in dirs {
            let files = entries(&dir).into_iter().filter(|path| path.is_file());
            sources.extend(files.map(|path| of_dir(path, &dir)));
        }
    }
    Ok(sources)
}

/// Visible entries in the order of their names.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = dir.read_dir().into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| !name(path).starts_with('.'));
    paths.sort();
    paths
}

fn criterion_files(
    root: &Path,
    dir: &Path,
    arm: Option<&str>,
    folders_left: &mut usize,
) -> Vec<Source> {
    *folders_left = folders_left.saturating_sub(1);
    if *folders_left == 0 {
        return Vec::new();
    }
    let file = ["sample.json", "raw.csv"]
        .iter()
        .map(|name| dir.join(name))
        .find(|p| p.is_file());
    let Some(path) = file else {
        // A link may lead back up.
        let dirs = entries(dir)
            .into_iter()
            .filter(|path| path.is_dir() && !path.is_symlink());
        return dirs
            .flat_map(|dir| criterion_files(root, &dir, arm, folders_left))
            .collect();
    };
    let benchmark = dir
        .parent()
        .and_then(|parent| parent.strip_prefix(root).ok());
    let benchmark = benchmark
        .map(|path| path.display().to_string())
        .unwrap_or_default();
    // With ARM=DIRECTORY the arm is the newest run in it; without, each saved run is an arm.
    let own = match arm {
        Some(_) if name(dir) != "new" => return Vec::new(),
        Some(arm) => arm.to_string(),
        None => name(dir),
    };
    vec![Source {
        criterion: Some((own, benchmark)),
        is_arm_typed: arm.is_some(),
        ..source(path, None)
    }]
}

/// Criterion's `new` is the last run, which it copies to `base` when it ends, or to the name that the user gave:
/// where there are names of the user's, they are the arms.
fn without_copies(mut sources: Vec<Source>) -> Vec<Source> {
    let arm = |source: &Source| source.criterion.clone().unwrap_or_default().0;
    let named: BTreeSet<String> = sources.iter().map(arm).collect();
    let own = named
        .iter()
        .filter(|name| !["base", "new"].contains(&name.as_str()))
        .count();
    sources.retain(|source| match arm(source).as_str() {
        "base" => own == 0,
        "new" => own < 2,
        _ => true,
    });
    sources
}

pub(crate) fn name(path: &Path) -> String {
    let name = path.file_name().or_else(|| path.parent()?.file_name());
    name.map_or_else(
        || path.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// Gives each observation its arm, and each run a name that no other file's run has.
pub(crate) fn name_arms(sources: &[Source], files: &mut [FileFigures]) {
    let parents: BTreeSet<_> = sources.iter().map(|source| source.path.parent()).collect();
    let stems: BTreeSet<_> = sources
        .iter()
        .map(|source| source.path.file_stem())
        .collect();
    let mut origins = BTreeMap::<String, (PathBuf, PathBuf)>::new();
    for (source, found) in sources.iter().zip(files) {
        let named = found.arms();
        if let Some(arm) = source.arm.as_ref().filter(|_| !named.is_empty()) {
            rename(arm, &named, found);
        }
        let by_parent = parents.len() > 1 && (found.is_one_run || stems.len() < sources.len());
        let (own, origin) = match (&source.arm, source.path.parent()) {
            (Some(arm), _) => (Some(arm.clone()), source.named_after.clone()),
            (None, Some(parent)) if by_parent => (Some(name(parent)), Some(parent.into())),
            (None, _) if found.is_one_run => (None, None),
            (None, _) => {
                let stem = source.path.file_stem();
                let stem = stem.map(|stem| stem.to_string_lossy().into_owned());
                (stem, Some(source.path.with_extension("")))
            }
        };
        let is_asked = found
            .observations
            .iter()
            .any(|observation| observation.arm.is_empty());
        if own.is_none() && is_asked {
            let remedy = "write ARM=FILE, or put the runs of each arm into a directory of its name";
            found.wrong(0, "one run, of an arm that it does not name", remedy);
        }
        if let (Some(arm), Some(origin)) = (own.as_ref().filter(|_| is_asked), origin) {
            let place = origin.canonicalize().unwrap_or_else(|_| origin.clone());
            let first = origins.entry(arm.clone());
            let (first_place, first) = first.or_insert_with(|| (place.clone(), origin.clone()));
            if *first_place != place {
                let (first, origin) = (first.display(), origin.display());
                let what = format!("two arms of one name: {arm} of {first} and of {origin}");
                found.wrong(0, what, "write ARM=PATH for each");
            }
        }
        let file = found.file.clone();
        for observation in &mut found.observations {
            if observation.arm.is_empty() {
                observation.arm = own.clone().unwrap_or_default();
            }
            if let Run::Within(run) = &mut observation.run {
                *run = format!("{file} {run}");
            }
        }
    }
}

/// A file that names its arms itself may be given a name only where it holds one arm.
fn rename(arm: &str, named: &BTreeSet<String>, found: &mut FileFigures) {
    if named.len() == 1 {
        for observation in &mut found.observations {
            observation.arm = arm.into();
            observation.short_arm = None;
        }
    } else {
        let arms: Vec<&str> = named.iter().map(String::as_str).collect();
        let what = format!("{arm} is one arm, but the file has {}", arms.join(", "));
        found.wrong(0, what, "give the file without ARM=");
    }
}

/// Takes the parameters off the names of commands that are known without them.
pub(crate) fn shorten_arms(files: &mut [FileFigures]) {
    let mut meant = BTreeMap::<String, BTreeSet<String>>::new();
    for one in files.iter().flat_map(|file| &file.observations) {
        let name = one.short_arm.as_ref().unwrap_or(&one.arm);
        meant
            .entry(name.clone())
            .or_default()
            .insert(one.arm.clone());
    }
    for one in files.iter_mut().flat_map(|file| &mut file.observations) {
        if let Some(short) = one.short_arm.take().filter(|short| meant[short].len() == 1) {
            one.arm = short;
        }
    }
}
