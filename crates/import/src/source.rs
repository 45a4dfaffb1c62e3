//! Typed paths: files, directories, `ARM=FILE`. Assigns each file to an arm.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use base::input::problem::Problem;

use crate::observation::{FileFigures, Run};

/// Most files of one command; more mean a mistake in the path.
const MAX_FILES: usize = 10_000;

/// Most folders to search below a directory. criterion's tree has two for each benchmark.
const MAX_FOLDERS: usize = 10_000;

/// One file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// The path as the user can find it.
    pub(crate) path: PathBuf,
    /// The arm that the user typed, or the name of the file's directory.
    pub(crate) arm: Option<String>,
    /// The directory that the arm is named after, if the user typed no arm.
    pub(crate) named_after: Option<PathBuf>,
    /// For a criterion file: the arm's directory and the benchmark.
    pub(crate) criterion: Option<(String, String)>,
    /// Whether the user typed the arm of a criterion file.
    pub(crate) is_arm_typed: bool,
    /// Number of files to read, including this one.
    pub(crate) file_count: usize,
}

/// All files that the typed paths name.
pub(crate) fn find(paths: &[String], problems: &mut Vec<Problem>) -> Vec<Source> {
    let mut sources = Vec::new();
    for typed in paths {
        let (arm, path) = split(typed);
        let files = match path.metadata() {
            Ok(meta) if meta.is_dir() => match in_directory(&path, arm) {
                Ok(files) => files,
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
        if files.is_empty() {
            problems.push(problem(
                &path,
                "not a run directory, and no files of figures in it".into(),
                "",
            ));
        }
        sources.extend(files);
    }
    if sources.len() > MAX_FILES {
        let what = format!("too many files, more than {MAX_FILES}: {}", sources.len());
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
    refuse_repeated_defaults(&sources, problems);
    let file_count = sources.len();
    for source in &mut sources {
        source.file_count = file_count;
    }
    sources
}

/// Refuses criterion's default arms `base` and `new` of one benchmark in two directories: criterion uses
/// these names everywhere, so they are not one arm.
fn refuse_repeated_defaults(sources: &[Source], problems: &mut Vec<Problem>) {
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

/// Splits `ARM=FILE`, unless a file has that name.
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
        file_count: 1,
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

/// Criterion's tree, or files that are runs of an arm named after the directory, or such directories.
fn in_directory(dir: &Path, arm: Option<&str>) -> Result<Vec<Source>, Problem> {
    let runs = entries(dir)
        .into_iter()
        .filter(|path| record::rundir::is_run(path));
    let runs: Vec<String> = runs.map(|path| name(&path)).collect();
    if !runs.is_empty() {
        let what = format!("run directories in it: {}", runs.join(", "));
        return Err(problem(dir, what, "name one of them, or two"));
    }
    let mut folders_left = MAX_FOLDERS;
    let criterion = criterion_files(dir, dir, arm, &mut folders_left);
    if folders_left == 0 {
        let what = format!("more than {MAX_FOLDERS} folders in it");
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
    let file_of_dir = |path: PathBuf, dir: &Path| Source {
        named_after: Some(dir.into()),
        ..source(path, Some(name(dir)))
    };
    let mut sources: Vec<Source> = files
        .into_iter()
        .map(|path| match arm {
            Some(arm) => source(path, Some(arm.into())),
            None => file_of_dir(path, dir),
        })
        .collect();
    if sources.is_empty() {
        for dir in dirs {
            let files = entries(&dir).into_iter().filter(|path| path.is_file());
            sources.extend(files.map(|path| file_of_dir(path, &dir)));
        }
    }
    Ok(sources)
}

/// Visible entries, sorted by name.
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
        .find(|path| path.is_file());
    let Some(path) = file else {
        // A symlink may lead back up.
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
    // With ARM=DIRECTORY the arm is the newest run in it; otherwise each saved run is an arm.
    let arm_name = match arm {
        Some(_) if name(dir) != "new" => return Vec::new(),
        Some(arm) => arm.to_string(),
        None => name(dir),
    };
    vec![Source {
        criterion: Some((arm_name, benchmark)),
        is_arm_typed: arm.is_some(),
        ..source(path, None)
    }]
}

/// Removes criterion's copies. `new` is the last run, which criterion copies to `base` when it ends, or
/// to a name that the user gave. If there are user-given names, they are the arms.
fn without_copies(mut sources: Vec<Source>) -> Vec<Source> {
    let arm = |source: &Source| source.criterion.clone().unwrap_or_default().0;
    let names: BTreeSet<String> = sources.iter().map(arm).collect();
    let user_named = names
        .iter()
        .filter(|name| !["base", "new"].contains(&name.as_str()))
        .count();
    sources.retain(|source| match arm(source).as_str() {
        "base" => user_named == 0,
        "new" => user_named < 2,
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

/// Gives each observation its arm, and each run a name that is unique among all files.
pub(crate) fn name_arms(sources: &[Source], files: &mut [FileFigures]) {
    let parents: BTreeSet<_> = sources.iter().map(|source| source.path.parent()).collect();
    let stems: BTreeSet<_> = sources
        .iter()
        .map(|source| source.path.file_stem())
        .collect();
    let mut origins = BTreeMap::<String, (PathBuf, PathBuf)>::new();
    for (source, figures) in sources.iter().zip(files) {
        let named = figures.arms();
        if let Some(arm) = source.arm.as_ref().filter(|_| !named.is_empty()) {
            rename(arm, &named, figures);
        }
        let by_parent = parents.len() > 1 && (figures.is_one_run || stems.len() < sources.len());
        let (arm, origin) = match (&source.arm, source.path.parent()) {
            (Some(arm), _) => (Some(arm.clone()), source.named_after.clone()),
            (None, Some(parent)) if by_parent => (Some(name(parent)), Some(parent.into())),
            (None, _) if figures.is_one_run => (None, None),
            (None, _) => {
                let stem = source.path.file_stem();
                let stem = stem.map(|stem| stem.to_string_lossy().into_owned());
                (stem, Some(source.path.with_extension("")))
            }
        };
        let lacks_arm = figures
            .observations
            .iter()
            .any(|figure| figure.arm.is_empty());
        if arm.is_none() && lacks_arm {
            let remedy = "write ARM=FILE, or put the runs of each arm into a directory of its name";
            figures.wrong(0, "one run, of an arm that it does not name", remedy);
        }
        if let (Some(arm), Some(origin)) = (arm.as_ref().filter(|_| lacks_arm), origin) {
            let place = origin.canonicalize().unwrap_or_else(|_| origin.clone());
            let first = origins.entry(arm.clone());
            let (first_place, first) = first.or_insert_with(|| (place.clone(), origin.clone()));
            if *first_place != place {
                let (first, origin) = (first.display(), origin.display());
                let what = format!("two arms of one name: {arm} of {first} and of {origin}");
                figures.wrong(0, what, "write ARM=PATH for each");
            }
        }
        let file = figures.file.clone();
        for figure in &mut figures.observations {
            if figure.arm.is_empty() {
                figure.arm = arm.clone().unwrap_or_default();
            }
            if let Run::Within(run) = &mut figure.run {
                *run = format!("{file} {run}");
            }
        }
    }
}

/// Applies a typed arm to a file that names its arms, which works only if the file has one arm.
fn rename(arm: &str, named: &BTreeSet<String>, figures: &mut FileFigures) {
    if named.len() == 1 {
        for figure in &mut figures.observations {
            figure.arm = arm.into();
            figure.short_arm = None;
        }
    } else {
        let arms: Vec<&str> = named.iter().map(String::as_str).collect();
        let what = format!("{arm} is one arm, but the file has {}", arms.join(", "));
        figures.wrong(0, what, "give the file without ARM=");
    }
}

/// Removes the parameters from command names that are unambiguous without them.
pub(crate) fn shorten_arms(files: &mut [FileFigures]) {
    let mut arms_by_name = BTreeMap::<String, BTreeSet<String>>::new();
    for figure in files.iter().flat_map(|file| &file.observations) {
        let name = figure.short_arm.as_ref().unwrap_or(&figure.arm);
        arms_by_name
            .entry(name.clone())
            .or_default()
            .insert(figure.arm.clone());
    }
    for figure in files.iter_mut().flat_map(|file| &mut file.observations) {
        if let Some(short) = figure
            .short_arm
            .take()
            .filter(|short| arms_by_name[short].len() == 1)
        {
            figure.arm = short;
        }
    }
}
