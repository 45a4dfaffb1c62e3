//! Guest images: the root file system that all arms of a plan share.
//!
//! ```text
//! recipe (TOML) --mmdebstrap, mvn--> directory --mke2fs--> image.ext4
//! images/ID/image.ext4     the file system; every guest mounts it read-only
//! images/ID/manifest.txt   what is installed, one name=version a line
//! images/ID/image.json     recipe, identity, size
//! ```
//! The identity of an image is its recipe and the versions of its packages. The builder runs in separate PID and mount
//! namespaces, so its children and mounts end with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use base::arch::Arch;
use base::input::problem::{Problems, remedy_among};
use base::input::tree::Tree;
use base::input::units;
use plan::fields::{Fields, Page};
use serde::{Deserialize, Serialize};

use crate::apt::{Package, SUITES, Source, Suite};
use crate::cache;
use crate::cache::about::{About as Origin, Part};
use crate::cache::{Cache, Staging, packages};
use crate::fetched;
use crate::maven::{self, Artifact};
use crate::program;
use crate::program::command;
use crate::task::Task;

/// Recipes that come with bakeoff.
const RECIPES: [(&str, &str); 9] = [
    ("app", include_str!("../../../images/app.toml")),
    ("database", include_str!("../../../images/database.toml")),
    ("kvm", include_str!("../../../images/kvm.toml")),
    (
        "open-liberty",
        include_str!("../../../images/open-liberty.toml"),
    ),
    ("smb", include_str!("../../../images/smb.toml")),
    ("tools", include_str!("../../../images/tools.toml")),
    ("web", include_str!("../../../images/web.toml")),
    ("web-cgi", include_str!("../../../images/web-cgi.toml")),
    ("wildfly", include_str!("../../../images/wildfly.toml")),
];

macro_rules! recipe_file {
    ($path:literal) => {
        ($path, include_str!(concat!("../../../images/", $path)))
    };
}

/// Files that bakeoff's recipes copy: the path as in `from`, and the content.
const FILES: [(&str, &str); 23] = [
    recipe_file!("app/enterprise/ejb-jar.xml"),
    recipe_file!("app/enterprise/persistence.xml"),
    recipe_file!("app/enterprise/src/Account.java"),
    recipe_file!("app/enterprise/src/EnterpriseBroker.java"),
    recipe_file!("app/enterprise/src/EnterpriseTrade.java"),
    recipe_file!("app/enterprise/src/Holding.java"),
    recipe_file!("app/enterprise/src/HoldingKey.java"),
    recipe_file!("app/enterprise/src/Quote.java"),
    recipe_file!("app/enterprise/src/Stock.java"),
    recipe_file!("app/enterprise/src/TradeOrder.java"),
    recipe_file!("app/enterprise/src/Trading.java"),
    recipe_file!("app/enterprise/web.xml"),
    recipe_file!("app/servers/archive.sh"),
    recipe_file!("app/servers/module.xml"),
    recipe_file!("app/servers/open-liberty.xml"),
    recipe_file!("app/servers/wildfly.xml"),
    recipe_file!("app/servlet/web.xml"),
    recipe_file!("app/src/Broker.java"),
    recipe_file!("app/src/Brokerage.java"),
    recipe_file!("app/src/Market.java"),
    recipe_file!("app/src/Page.java"),
    recipe_file!("app/src/Refused.java"),
    recipe_file!("app/src/Trade.java"),
];

/// Version of the builder, part of an image's identity.
const BUILDER: &str = "image-4";

/// All times in an image, so that the same packages result in the same bytes: 2026-01-01.
const DATE: &str = "1767225600";

/// UUID of the file system and seed of its directory hashes: arbitrary, but constant.
const UUID: &str = "8c8a5f0e-6f52-4d0c-9a0b-0a4b61d3c2e7";

/// Space that a build needs: downloads, the unpacked directory, the image.
const BUILD_BYTES: u64 = 1500 << 20;

/// A built image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Name of its recipe.
    pub recipe: String,
    /// Debian suite of its packages; `None` in an image of an old bakeoff that did not record it.
    pub suite: Option<String>,
    /// The ext4 file system.
    pub path: PathBuf,
    /// Lists what is installed, one `name=version` a line.
    pub manifest: PathBuf,
    /// Identity: recipe and versions of all packages.
    pub sha256: String,
    /// Size of the file system in bytes.
    pub bytes: u64,
}

/// The image to build.
#[derive(Debug, Clone, Copy)]
pub struct Request<'r> {
    /// A known name, or the path of a `.toml` file.
    pub recipe: &'r str,
    /// Debian suite that replaces the recipe's.
    pub suite: Option<&'r str>,
    /// Whether to rebuild the image if the mirror has other versions of its packages.
    pub refresh: bool,
}

impl Recipe {
    /// Whether it names a package, or an artifact as `maven:NAME`.
    fn lists(&self, wanted: &str) -> bool {
        let packages = self.packages.iter();
        let mut names = packages.filter_map(|package| package.split('=').next());
        match wanted.strip_prefix(maven::PREFIX) {
            Some(artifact) => self.maven.iter().any(|other| other.name() == artifact),
            None => names.any(|name| name == wanted),
        }
    }
}

/// The content of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// Debian suite.
    pub suite: String,
    /// Packages in addition to the minimal system; `name=version` pins one.
    pub packages: Vec<String>,
    /// Artifacts of Maven repositories, below `/opt`.
    pub maven: Vec<Artifact>,
    /// Files to copy into it.
    pub copies: Vec<FileCopy>,
    /// Shell commands to run in it, after packages and files are installed.
    pub run: String,
    /// Free space in the file system.
    pub spare_bytes: u64,
}

/// A file to copy from the host into an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCopy {
    /// Path relative to the recipe's directory.
    pub from: String,
    /// Absolute path in the image.
    pub to: String,
}

/// A file for an image.
struct Content {
    to: String,
    bytes: Vec<u8>,
    mode: u32,
}

#[derive(Serialize, Deserialize)]
struct About {
    recipe: String,
    suite: Option<String>,
    bytes: u64,
}

impl Image {
    /// Recipe and suite, for people.
    pub fn title(&self) -> String {
        let suite = self.suite.as_deref();
        suite.map_or(self.recipe.clone(), |suite| {
            format!("{} ({suite})", self.recipe)
        })
    }

    /// Whether a package is installed in it.
    pub fn has(&self, package: &str) -> Result<bool> {
        let manifest = fs::read_to_string(&self.manifest)
            .with_context(|| format!("cannot read {}", self.manifest.display()))?;
        let mut names = manifest.lines().filter_map(|line| line.split('=').next());
        Ok(names.any(|name| name == package))
    }
}

/// Names of the recipes that come with bakeoff.
pub fn recipes() -> Vec<&'static str> {
    RECIPES.iter().map(|(name, _)| *name).collect()
}

/// All images in the cache, by recipe.
pub fn list(cache: &Cache) -> Vec<(Image, Option<Origin>)> {
    let entries = cache.entries("images").into_iter();
    let mut images: Vec<_> = entries
        .filter_map(|(id, place)| Some((load_from(&place, &id)?, Origin::of(&place))))
        .collect();
    images.sort_by(|(a, _), (b, _)| (&a.recipe, &a.sha256).cmp(&(&b.recipe, &b.sha256)));
    images
}

/// An image to build: its parsed recipe and its identity.
struct Job {
    recipe: Recipe,
    contents: Vec<Content>,
    /// Everything that determines its content, except the versions of its packages.
    signature: String,
}

impl Job {
    fn read(request: Request<'_>) -> Result<Self> {
        let mut parts = parts(request.recipe)?.into_iter();
        let mut job = Self::of_part(&parts.next().expect("a recipe has at least one part"))?;
        for part in parts {
            job.join(Self::of_part(&part)?);
        }
        let suite = request.suite.filter(|suite| *suite != job.recipe.suite);
        if let Some(suite) = suite {
            check_suite(suite)?;
            job.recipe.suite = suite.into();
            job.signature.push_str("\nsuite ");
            job.signature.push_str(suite);
        }
        Ok(job)
    }

    fn of_part(part: &RecipeText) -> Result<Self> {
        let recipe = read(&part.file, &part.text)?;
        let contents = contents(&part.name, &recipe)?;
        let signature = signature(&part.text, &contents);
        Ok(Self {
            recipe,
            contents,
            signature,
        })
    }

    /// Adds another of bakeoff's recipes, which all have the same suite.
    fn join(&mut self, other: Self) {
        let Recipe {
            packages,
            maven,
            copies,
            run,
            spare_bytes,
            suite: _,
        } = other.recipe;
        let new = |package: &String| !self.recipe.packages.contains(package);
        let packages: Vec<String> = packages.into_iter().filter(new).collect();
        self.recipe.packages.extend(packages);
        self.recipe.maven.extend(maven);
        self.recipe.copies.extend(copies);
        self.recipe.run = [self.recipe.run.as_str(), &run].join("\n");
        self.recipe.spare_bytes = self.recipe.spare_bytes.max(spare_bytes);
        self.contents.extend(other.contents);
        self.signature = [self.signature.as_str(), &other.signature].join("\n");
    }

    /// Its name in the cache.
    fn name(&self) -> String {
        format!("image {}", identity(&self.signature, "", Arch::HOST))
    }

    fn built(&self, cache: &Cache) -> Result<Option<Image>> {
        match cache.recall::<String>(&self.name()) {
            Some(id) => load(cache, &id),
            None => Ok(None),
        }
    }
}

/// The image, if the cache has it.
pub fn find_built(cache: &Cache, request: Request<'_>) -> Result<Option<Image>> {
    Job::read(request)?.built(cache)
}

/// Whether the image of a recipe will have a package. `None` if that is unknown before it is built: a user's recipe may
/// install more packages than it lists.
pub fn will_have(cache: &Cache, request: Request<'_>, package: &str) -> Result<Option<bool>> {
    let job = Job::read(request)?;
    if let Some(image) = job.built(cache)? {
        return image.has(package).map(Some);
    }
    let is_listed = IN_EVERY_IMAGE.contains(&package) || job.recipe.lists(package);
    let is_users = Path::new(request.recipe).extension().is_some();
    Ok((is_listed || !is_users).then_some(is_listed))
}

/// Builds the image of a recipe in the cache. A built image does not change, and needs no network.
pub fn build(cache: &Cache, request: Request<'_>, task: Task<'_>) -> Result<Image> {
    let job = Job::read(request)?;
    let known = job.built(cache)?;
    if let (Some(image), false) = (&known, request.refresh) {
        return Ok(image.clone());
    }
    let _lock = cache.lock(&job.name(), task)?;
    if let Some(image) = known
        && !is_outdated(cache, &image, &job.recipe, task)?
    {
        return Ok(image);
    }
    let image = make(cache, request.recipe, &job, task)
        .with_context(|| format!("cannot build image {:?}", request.recipe))?;
    cache.remember(&job.name(), &image.sha256)?;
    Ok(image)
}

/// Fails if a recipe is unknown, unreadable, or has mistakes.
pub fn check(recipe: &str) -> Result<()> {
    for part in parts(recipe)? {
        read(&part.file, &part.text)?;
    }
    Ok(())
}

/// Packages that workloads ask for and every Debian system has.
const IN_EVERY_IMAGE: [&str; 3] = ["e2fsprogs", "mount", "perl-base"];

/// The recipe for workloads that need no other packages.
const SMALLEST: &str = "web";

/// The smallest of bakeoff's recipes that has all these packages (`one|other` means either), else a combination such as
/// `smb+web`. `None` if a package is in no recipe.
pub fn covering(packages: &[&str]) -> Option<String> {
    let recipes = RECIPES.map(|(name, text)| {
        let recipe = read(name, text).expect("bakeoff's recipes are valid");
        (name, recipe)
    });
    let has = |recipe: &Recipe, wanted: &str| wanted.split('|').any(|name| recipe.lists(name));
    let wanted: Vec<&str> = packages
        .iter()
        .copied()
        .filter(|package| !IN_EVERY_IMAGE.contains(package))
        .collect();
    let smallest = |wanted: &[&str]| {
        let whole = recipes
            .iter()
            .filter(|(_, recipe)| wanted.iter().all(|name| has(recipe, name)));
        // A server from elsewhere is larger than any package.
        whole
            .min_by_key(|(_, recipe)| (recipe.maven.len(), recipe.packages.len()))
            .map(|(name, _)| *name)
    };
    if wanted.is_empty() {
        return Some(SMALLEST.into());
    }
    if let Some(name) = smallest(&wanted) {
        return Some(name.into());
    }
    let names: Option<BTreeSet<&str>> = wanted.iter().map(|name| smallest(&[name])).collect();
    let mut names: Vec<&str> = names?.into_iter().collect();
    let all_but = |names: &[&str], left_out: &str, wanted: &str| {
        let mut others = recipes.iter().filter(|(name, _)| *name != left_out);
        others.any(|(name, recipe)| names.contains(name) && has(recipe, wanted))
    };
    for name in names.clone() {
        if wanted.iter().all(|wanted| all_but(&names, name, wanted)) {
            names.retain(|other| *other != name);
        }
    }
    Some(names.join("+"))
}

/// Suites of images: backports are not a complete system.
fn suites() -> Vec<&'static str> {
    let is_whole = |suite: &&str| !suite.ends_with("-backports");
    SUITES.into_iter().filter(is_whole).collect()
}

/// Fails for a suite that no image can be made of.
pub fn check_suite(suite: &str) -> Result<()> {
    if suites().contains(&suite) {
        return Ok(());
    }
    bail!(
        "not a Debian suite for an image: {suite:?} ({})",
        remedy_among(suite, &suites())
    )
}

/// The files that a recipe copies. Of a directory, those are the files in it.
fn contents(name: &str, recipe: &Recipe) -> Result<Vec<Content>> {
    let is_own = RECIPES.iter().any(|(own, _)| *own == name);
    let mut contents = Vec::new();
    for FileCopy { from, to } in &recipe.copies {
        if is_own {
            own_contents(from, to, &mut contents);
        } else {
            let path = Path::new(name).parent().unwrap_or(Path::new("")).join(from);
            let read = read_contents(&path, to, &mut contents);
            read.with_context(|| {
                format!("cannot read what the recipe copies: {}", path.display())
            })?;
        }
    }
    Ok(contents)
}

/// Adds what bakeoff's recipes copy from a path.
fn own_contents(from: &str, to: &str, contents: &mut Vec<Content>) {
    for (path, text) in FILES {
        let to = match path.strip_prefix(from) {
            Some("") => to.to_string(),
            Some(rest) if rest.starts_with('/') => format!("{to}{rest}"),
            Some(_) | None => continue,
        };
        contents.push(Content {
            to,
            bytes: text.as_bytes().to_vec(),
            mode: 0o644,
        });
    }
}

fn read_contents(path: &Path, to: &str, contents: &mut Vec<Content>) -> std::io::Result<()> {
    let about = fs::metadata(path)?;
    if about.is_dir() {
        let mut names: Vec<_> = fs::read_dir(path)?.collect::<Result<_, _>>()?;
        names.sort_by_key(fs::DirEntry::file_name);
        return names.iter().try_for_each(|entry| {
            let to = format!("{to}/{}", entry.file_name().to_string_lossy());
            read_contents(&entry.path(), &to, contents)
        });
    }
    contents.push(Content {
        to: to.into(),
        bytes: fs::read(path)?,
        mode: about.permissions().mode() & 0o777,
    });
    Ok(())
}

/// Everything that determines an image's content, except the versions of its packages.
fn signature(text: &str, contents: &[Content]) -> String {
    contents.iter().fold(text.to_string(), |text, content| {
        let Content { to, bytes, mode } = content;
        text + &format!("\n{to} {mode:o} {}", cache::hash(bytes))
    })
}

/// The text of a recipe.
struct RecipeText {
    name: String,
    /// Its file in error messages.
    file: String,
    text: String,
}

/// Longest recipe, in bytes.
const RECIPE_BYTES: u64 = 1 << 20;

/// The recipes that a plan names: a file, or some of bakeoff's, such as `smb+web`.
fn parts(recipe: &str) -> Result<Vec<RecipeText>> {
    if Path::new(recipe)
        .extension()
        .is_some_and(|ending| ending == "toml")
    {
        let text = base::input::file::read_to_string_within(Path::new(recipe), RECIPE_BYTES)
            .with_context(|| format!("cannot read image recipe: {recipe}"))?;
        return Ok(vec![RecipeText {
            name: recipe.into(),
            file: recipe.into(),
            text,
        }]);
    }
    recipe.split('+').map(own_recipe).collect()
}

fn own_recipe(wanted: &str) -> Result<RecipeText> {
    let Some((name, text)) = RECIPES.iter().find(|(name, _)| *name == wanted) else {
        let remedy = remedy_among(wanted, &recipes());
        bail!(
            "no such image recipe: {wanted:?} ({remedy}; a path ending in .toml names one of your own)"
        )
    };
    Ok(RecipeText {
        name: (*name).into(),
        file: format!("images/{name}.toml"),
        text: (*text).into(),
    })
}

/// Parses a recipe; the error has all mistakes.
pub fn read(file: &str, text: &str) -> Result<Recipe, Problems> {
    let page = Page::new(file, text);
    let table = page.parse();
    let top = Fields::top(&page, &table);
    for (key, example) in [("suite", "\"bookworm\""), ("packages", "[\"nginx\"]")] {
        if !top.has(key) {
            top.missing(key, example);
        }
    }
    let suites = suites().into_iter();
    let suites: Vec<_> = suites.map(|suite| (suite, suite.to_string())).collect();
    let suite = top.choice("suite", &suites);
    let packages = top.texts("packages").unwrap_or_default();
    for package in &packages {
        if !is_package(package) {
            let what = format!("not a package name: {package:?}");
            top.wrong("packages", what, "write \"name\" or \"name=version\"");
        }
    }
    let maven = top.tables("maven").iter().map(Artifact::read).collect();
    let copies = top.tables("copy").iter().map(read_copy).collect();
    let run = top.text("run").unwrap_or_default().to_string();
    let spare_bytes = top.read("spare", units::bytes).unwrap_or(64 << 20);
    top.finish();
    let packages = packages.iter().map(ToString::to_string).collect();
    page.close(suite.map(|suite| Recipe {
        suite,
        packages,
        maven,
        copies,
        run,
        spare_bytes,
    }))
}

fn read_copy(fields: &Fields<'_>) -> FileCopy {
    for (key, example) in [("from", "\"./bench\""), ("to", "\"/usr/local/bin/bench\"")] {
        if !fields.has(key) {
            fields.missing(key, example);
        }
    }
    let from = fields.text("from").unwrap_or_default().to_string();
    let to = fields.text("to").unwrap_or_default().to_string();
    let is_plain = Path::new(&to)
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if fields.has("to") && !(to.starts_with('/') && is_plain) {
        let what = format!("not an absolute path: {to:?}");
        fields.wrong("to", what, "write it like \"/usr/local/bin/bench\"");
    }
    fields.finish();
    FileCopy { from, to }
}

/// Debian policy, 5.6.1 and 5.6.12.
fn is_package(text: &str) -> bool {
    let (name, version) = text.split_once('=').unwrap_or((text, "1"));
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
    let good_version = |c: char| c.is_ascii_alphanumeric() || "+-.:~".contains(c);
    name.len() > 1
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(good)
        && !version.is_empty()
        && version.chars().all(good_version)
}

/// Whether the mirror would now give other versions than the image has.
fn is_outdated(cache: &Cache, image: &Image, recipe: &Recipe, task: Task<'_>) -> Result<bool> {
    let _lock = cache.lock(&format!("apt {}", recipe.suite), task)?;
    let suite = Suite::open(cache, &recipe.suite, true, task)?;
    let would = suite.resolve(&recipe.packages, task)?;
    let manifest = fs::read_to_string(&image.manifest).context("cannot read the manifest")?;
    let is_package = |line: &&str| !line.starts_with(maven::PREFIX);
    let mut has: Vec<_> = manifest.lines().filter(is_package).collect();
    has.sort_unstable();
    Ok(would != has)
}

fn make(cache: &Cache, name: &str, job: &Job, task: Task<'_>) -> Result<Image> {
    let recipe = &job.recipe;
    let source = Source::of_host(task)?;
    let fetch = |artifact: &Artifact| artifact.fetch(cache, task);
    let artifacts: Vec<PathBuf> = recipe.maven.iter().map(fetch).collect::<Result<_>>()?;
    let size = |file: &PathBuf| fs::metadata(file).map_or(0, |about| about.len());
    // Unpacked, and again in the image.
    let work = cache.staging(BUILD_BYTES + 4 * artifacts.iter().map(size).sum::<u64>())?;
    offer(recipe, &artifacts, &work)?;
    for content in &job.contents {
        let path = work
            .path
            .join("files")
            .join(content.to.trim_start_matches('/'));
        fs::create_dir_all(path.parent().expect("a file is in a directory"))?;
        cache::write(&path, &content.bytes).map_err(|why| cache.cannot_write(&why))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(content.mode))?;
    }
    let kept = work.tree().make_dir("kept");
    let kept = kept.map_err(|why| cache.cannot_write(&why))?;
    if packages::are_there(cache) {
        packages::offer(cache, &index(cache, recipe, task)?, &kept, task)?;
    }
    let interpreter = match cache.arch() {
        arch if arch == Arch::HOST => None,
        arch => Some(fetched::user_emulator(&fetched::root(cache, task)?, arch)),
    };
    let builder = Builder {
        source: &source,
        arch: cache.arch(),
        interpreter: interpreter.as_deref(),
    };
    install(recipe, &builder, &work, &kept.path(), task)?;
    let mut manifest = read_manifest(&work.path)?;
    for artifact in &recipe.maven {
        manifest += &(artifact.manifest_line() + "\n");
    }
    fs::write(work.path.join("manifest"), &manifest)?;
    let bytes = pack(recipe, &work, task)?;
    let entry = cache.staging(0)?;
    for (from, to) in [("image.ext4", "image.ext4"), ("manifest", "manifest.txt")] {
        fs::rename(work.path.join(from), entry.path.join(to))
            .map_err(|why| cache.cannot_write(&why))?;
    }
    let name = Path::new(name)
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut parts = installed(&manifest, &packages::hashes(&kept.path())?);
    packages::keep(cache, &kept)?;
    parts.extend(recipe.maven.iter().map(Artifact::as_part));
    let copied = job.contents.iter();
    parts.extend(copied.map(|file| Part::file(Path::new(&file.to), &cache::hash(&file.bytes))));
    let source = format!("recipe {name} ({})", recipe.suite);
    Origin::now(&name, source, parts).write(cache, &entry.path)?;
    let about = About {
        recipe: name,
        suite: Some(recipe.suite.clone()),
        bytes,
    };
    let about = serde_json::to_vec_pretty(&about)?;
    cache::write(&entry.path.join("image.json"), &about).map_err(|why| cache.cannot_write(&why))?;
    let id = identity(&job.signature, &manifest, cache.arch());
    cache.keep(&entry, "images", &id)?;
    load(cache, &id)?.with_context(|| format!("image is gone from the cache: {id}"))
}

/// Writes `artifacts`, the list of files for the builder: one line each, with the place below `/opt` and the path.
fn offer(recipe: &Recipe, files: &[PathBuf], work: &Staging) -> Result<()> {
    let mut list = String::new();
    for (artifact, file) in recipe.maven.iter().zip(files) {
        let _ = writeln!(list, "{} {}", artifact.name(), file.display());
    }
    if !files.is_empty() {
        command("unzip", "unzip")?;
    }
    Ok(fs::write(work.path.join("artifacts"), list)?)
}

/// The packages of a manifest, with the hashes of the files that they were unpacked from.
fn installed(manifest: &str, hashes: &BTreeMap<String, String>) -> Vec<Part> {
    let packages = manifest
        .lines()
        .filter(|line| !line.starts_with(maven::PREFIX));
    let packages = packages.filter_map(|line| line.split_once('='));
    let part = |(name, version): (&str, &str)| {
        let start = packages::file_start(name, version);
        let file = hashes.iter().find(|(file, _)| file.starts_with(&start));
        Part {
            name: name.into(),
            version: version.into(),
            sha256: file.map_or(String::new(), |(_, sum)| sum.clone()),
        }
    };
    packages.map(part).collect()
}

/// The packages of a recipe's suite, from its signed index.
fn index(cache: &Cache, recipe: &Recipe, task: Task<'_>) -> Result<Vec<Package>> {
    let _lock = cache.lock(&format!("apt {}", recipe.suite), task)?;
    let suite = Suite::open(cache, &recipe.suite, false, task)?;
    suite.packages(&[""], task)
}

/// Installs the recipe's packages in `root` of the staging directory, and writes `manifest` and `size`.
///
/// Packages in the directory `packages` are not downloaded; downloaded ones are added to it.
fn install(
    recipe: &Recipe,
    builder: &Builder<'_>,
    work: &Staging,
    packages: &Path,
    task: Task<'_>,
) -> Result<()> {
    let script = work.path.join("build.sh");
    fs::write(&script, BUILD_SCRIPT)?;
    fs::write(work.path.join("apt.conf"), &builder.source.settings)?;
    fs::write(work.path.join("run.sh"), &recipe.run)?;
    let mmdebstrap = command("mmdebstrap", "mmdebstrap")?;
    let mut build = program::enclosed("/bin/sh".as_ref())?;
    let mut first = script;
    if let Some(interpreter) = builder.interpreter {
        first = work.path.join("foreign.sh");
        fs::write(&first, FOREIGN_SCRIPT)?;
        build
            .env("FORMAT", format_of(builder.arch, interpreter))
            .env("BUILD", "build.sh");
    }
    build
        .args(["-eu".as_ref(), first.as_os_str()])
        .current_dir(&work.path)
        .env("ARCHITECTURE", builder.arch.facts().debian())
        .env("SOURCE_DATE_EPOCH", DATE)
        .env("LC_ALL", "C.UTF-8")
        .env("MMDEBSTRAP", mmdebstrap.get_program())
        .env("SUITE", &recipe.suite)
        .env("SOURCE", builder.source.line(&recipe.suite))
        .env("PACKAGES", recipe.packages.join(","))
        .env("KEPT", packages);
    program::run_with(&mut build, task, &mut |stderr| {
        task.tell(&stage(stderr), None);
    })?;
    Ok(())
}

/// How an image is installed.
struct Builder<'b> {
    source: &'b Source,
    arch: Arch,
    /// The emulator of single programs, for another architecture than the host's.
    interpreter: Option<&'b Path>,
}

/// A line for binfmt_misc (Documentation/admin-guide/binfmt-misc.rst) that has the kernel start ELF programs of an architecture in
/// an interpreter. `F` opens the interpreter at once, so that it is found in a chroot too.
fn format_of(arch: Arch, interpreter: &Path) -> String {
    let machine = arch.facts().elf_machine();
    format!(
        ":bakeoff:M::\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\x{:02x}\\x00:\
         \\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xfe\\xff\\xff\\xff:{}:F",
        machine & 0xff,
        interpreter.display()
    )
}

/// Runs the build script in a user namespace with a binfmt_misc inside it, which kernels have since 6.7: the host's list of formats
/// stays as it is. The namespace has the ids of this one.
const FOREIGN_SCRIPT: &str = r#"
# Without user namespaces nobody would open the pipes.
unshare --user --mount true
mkdir formats
mkfifo begun mapped
unshare --user --mount sh -euc '
    echo > begun
    read -r _ < mapped
    mount -t binfmt_misc binfmt_misc formats
    printf %s "$FORMAT" > formats/register
    exec sh -eu "$BUILD"
' &
read -r _ < begun
for ids in uid_map gid_map; do
    map=$(while read -r inside _ count; do echo "$inside $inside $count"; done < /proc/self/$ids)
    echo "$map" > /proc/$!/$ids
done
echo > mapped
wait $!
"#;

/// Why images of another architecture cannot be built here.
pub(crate) fn foreign_obstacle() -> Option<String> {
    // On a directory that every kernel has.
    let mount = "mount -t binfmt_misc binfmt_misc /proc/sys/fs";
    let trial = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", mount])
        .output();
    let why = match trial {
        Ok(output) if output.status.success() => return None,
        Ok(output) => program::last_lines(&String::from_utf8_lossy(&output.stderr), output.status),
        Err(why) => why.to_string(),
    };
    Some(format!(
        "no list of formats in a user namespace: {why} (build images on a host with Linux 6.7 or later)"
    ))
}

/// The builder's present stage, from its standard error.
fn stage(stderr: &str) -> String {
    let mut lines = stderr.lines().rev();
    let note = lines.find_map(|line| line.strip_prefix("I: "));
    match note {
        Some(note) => format!("building the image: {}", note.trim_end_matches('.')),
        None => "building the image".into(),
    }
}

/// Runs in the namespaces. Removes everything that names this host or this mirror, so that an image depends only on recipe
/// and packages. Omits documentation, which no guest reads; Java's packages fail without the directory of manual pages, so
/// it exists while they are installed.
const BUILD_SCRIPT: &str = r#"
"$MMDEBSTRAP" --mode=root --variant=minbase --format=directory --include="$PACKAGES" \
    --architectures="$ARCHITECTURE" --skip=check/qemu \
    --aptopt=apt.conf \
    --aptopt='Acquire::Languages "none"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/info/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --skip=download/empty \
    --essential-hook='mkdir -p "$1/usr/share/man/man1"' \
    --setup-hook='mkdir -p "$1/var/cache/apt/archives/partial"; cp "$KEPT"/*.deb "$1/var/cache/apt/archives/" || true' \
    --extract-hook='cp --no-clobber "$1"/var/cache/apt/archives/*.deb "$KEPT/" || true' \
    --customize-hook='cp --no-clobber "$1"/var/cache/apt/archives/*.deb "$KEPT/" || true' \
    "$SUITE" root "$SOURCE"
if [ -d files ]; then
    chown -R 0:0 files
    cp -r --preserve=mode files/. root/
fi
# The directory in an archive has the version in its name.
while read -r name file; do
    mkdir -p root/opt
    case $file in
    *.zip)
        unzip -q "$file" -d unpacked
        chown -R 0:0 unpacked
        chmod -R a+rX unpacked
        mv unpacked/* "root/opt/$name"
        rmdir unpacked
        ;;
    *) cp "$file" "root/opt/" ;;
    esac
done < artifacts
level() {
    find root -xdev -newermt "@$SOURCE_DATE_EPOCH" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}
if [ -s run.sh ]; then
    # Java's archives of classes have the times of the files that they were made from.
    level
    # A new one would need a PID namespace that belongs to this user namespace.
    mount --rbind /proc root/proc
    chroot root /bin/sh -eu < run.sh >&2
    umount --lazy root/proc
fi
chroot root dpkg-query --show --showformat='${Package}=${Version}\n' | LC_ALL=C sort > manifest
rm -f root/etc/apt/sources.list root/etc/apt/apt.conf.d/99mmdebstrap root/etc/resolv.conf
rm -rf root/usr/share/man/* root/var/cache/apt/* root/var/lib/apt/lists/* root/var/log/*.log root/var/log/apt
echo guest > root/etc/hostname
printf '127.0.0.1 localhost guest\n::1 localhost\n' > root/etc/hosts
level
du --summarize --apparent-size --block-size=1 root | cut -f1 > size
find root | wc -l >> size
"#;

fn read_manifest(work: &Path) -> Result<String> {
    let manifest = fs::read_to_string(work.join("manifest")).context("no manifest was written")?;
    if manifest.trim().is_empty() {
        bail!("nothing was installed");
    }
    Ok(manifest)
}

/// Makes `image.ext4` of the installed files and returns its size.
fn pack(recipe: &Recipe, work: &Staging, task: Task<'_>) -> Result<u64> {
    task.tell("packing the image", None);
    let size = fs::read_to_string(work.path.join("size"))?;
    let mut numbers = size.lines().filter_map(|line| line.parse::<u64>().ok());
    let (Some(content), Some(files)) = (numbers.next(), numbers.next()) else {
        bail!("size of the installed files cannot be read: {size:?}");
    };
    // On average a file wastes half a block, and has an inode of 256 bytes; an eighth for the rest.
    let needed = content + files * (2048 + 256);
    let bytes = (needed + needed / 8 + recipe.spare_bytes).next_multiple_of(1 << 20);
    let mke2fs = command("mke2fs", "e2fsprogs")?;
    let mut pack = program::enclosed(mke2fs.get_program())?;
    let features = format!("hash_seed={UUID},root_owner=0:0,lazy_itable_init=0");
    pack.args([
        "-q",
        "-t",
        "ext4",
        "-F",
        "-O",
        "^has_journal",
        "-m",
        "0",
        "-b",
        "4096",
    ])
    .args(["-U", UUID, "-L", "bakeoff", "-E", &features])
    .args(["-N", &(files + files / 8 + 256).to_string()])
    .args(["-d", "root", "image.ext4", &format!("{}k", bytes >> 10)])
    .current_dir(&work.path)
    .env("SOURCE_DATE_EPOCH", DATE)
    .env("E2FSPROGS_FAKE_TIME", DATE);
    program::run(&mut pack, task)?;
    level_times(files, work, task)?;
    discard(&work.path.join("root"), task)?;
    Ok(bytes)
}

/// Sets times that cannot be set in a directory tree: mke2fs before 1.47.1 copies access and change times, so the same
/// packages would result in different bytes.
fn level_times(files: u64, work: &Staging, task: Task<'_>) -> Result<()> {
    let mut script = String::new();
    // The root is inode 2; other files begin at 11 (ext4's EXT2_GOOD_OLD_FIRST_INO).
    for inode in std::iter::once(2).chain(11..=files + 10) {
        for time in ["atime", "ctime", "crtime"] {
            let _ = writeln!(script, "set_inode_field <{inode}> {time} @{DATE}");
            let _ = writeln!(script, "set_inode_field <{inode}> {time}_extra 0");
        }
    }
    fs::write(work.path.join("times"), script)?;
    let mut debugfs = command("debugfs", "e2fsprogs")?;
    debugfs
        .args(["-w", "-f", "times", "image.ext4"])
        .current_dir(&work.path)
        .env("E2FSPROGS_FAKE_TIME", DATE);
    program::run(&mut debugfs, task)?;
    Ok(())
}

/// Removes the unpacked files, which may belong to subordinate ids, so that only a process in a user namespace may do it.
fn discard(root: &Path, task: Task<'_>) -> Result<()> {
    let mut rm: Command = program::enclosed("rm".as_ref())?;
    program::run(rm.arg("-rf").arg(root), task)?;
    Ok(())
}

fn load(cache: &Cache, id: &str) -> Result<Option<Image>> {
    let entry = cache.entry("images", id)?;
    Ok(entry.and_then(|entry| load_from(&entry, id)))
}

fn load_from(entry: &Path, id: &str) -> Option<Image> {
    let about: About =
        serde_json::from_slice(&Tree::at(entry).read("image.json", cache::NOTE_BYTES).ok()?)
            .ok()?;
    Some(Image {
        recipe: about.recipe,
        suite: about.suite,
        path: entry.join("image.ext4"),
        manifest: entry.join("manifest.txt"),
        sha256: id.into(),
        bytes: about.bytes,
    })
}

fn identity(recipe: &str, manifest: &str, arch: Arch) -> String {
    let mut parts = vec![BUILDER, recipe, manifest];
    if arch != Arch::HOST {
        parts.push(arch.facts().name());
    }
    cache::hash(parts.join("\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, want: &Expect) {
        let got = match read("mine.toml", text) {
            Ok(recipe) => format!("{recipe:?}"),
            Err(problems) => problems.to_string(),
        };
        want.assert_eq(&got);
    }

    #[test]
    fn the_recipes_that_come_with_bakeoff_are_sound() {
        for name in recipes() {
            let text = own_recipe(name).unwrap();
            let recipe = read(&text.file, &text.text).unwrap();
            assert_eq!(recipe.suite, "bookworm", "they are joined");
            // Without a file on this host: all that they copy comes along too.
            for copy in &recipe.copies {
                let mut files = Vec::new();
                own_contents(&copy.from, &copy.to, &mut files);
                assert!(!files.is_empty(), "{copy:?}");
            }
        }
    }

    #[test]
    fn the_smallest_recipe_that_has_all_packages_is_found_or_several_are_joined() {
        let recipe_for = |packages: &[&str]| covering(packages).unwrap_or_default();
        assert_eq!(recipe_for(&["nginx"]), "web");
        assert_eq!(recipe_for(&["fio"]), "tools");
        assert_eq!(recipe_for(&["mount", "e2fsprogs"]), "web");
        assert_eq!(recipe_for(&["postgresql|postgresql-15"]), "database");
        assert_eq!(recipe_for(&["samba", "nginx", "apache2"]), "smb+web");
        assert_eq!(recipe_for(&["libmariadb-java", "samba"]), "app+smb");
        let wildfly = ["postgresql", "default-jre-headless", "maven:wildfly-dist"];
        assert_eq!(recipe_for(&wildfly), "database+wildfly");
        assert_eq!(covering(&["no-such-package"]), None);
    }

    #[test]
    fn recipes_that_are_joined_have_all_packages_once_and_all_files() {
        let job = |recipe| {
            Job::read(Request {
                recipe,
                suite: Some("trixie"),
                refresh: false,
            })
            .unwrap()
        };
        let (app, both) = (job("app"), job("app+web"));
        assert_eq!(both.contents.len(), app.contents.len());
        assert_eq!(both.recipe.suite, "trixie");
        let named = |name: &str| {
            both.recipe
                .packages
                .iter()
                .filter(|other| *other == name)
                .count()
        };
        assert_eq!(
            (named("iproute2"), named("nginx"), named("tomcat10-common")),
            (1, 1, 1)
        );
        assert_ne!(both.name(), app.name());
        expect![[r#"no such image recipe: "wb" (did you mean "web"?; a path ending in .toml names one of your own)"#]]
            .assert_eq(&super::check("smb+wb").unwrap_err().to_string());
    }

    #[test]
    fn all_mistakes_of_a_recipe_are_told_at_once() {
        check(
            "suite = \"bookwurm\"\npackages = [\"nginx\", \"--hook=x\"]\nspare = \"lots\"\nsice = 3\n",
            &expect![[r#"
                mine.toml:1: unknown suite: "bookwurm" (did you mean "bookworm"?)
                mine.toml:2: not a package name: "--hook=x" (write "name" or "name=version")
                mine.toml:3: spare: not a size: "lots" (write it like "512MiB" or "2GiB")
                mine.toml:4: unknown key in the file: sice (did you mean "suite"?)"#]],
        );
        check(
            "",
            &expect![[r#"
            mine.toml:1: missing key in the file: suite (add suite = "bookworm")
            mine.toml:1: missing key in the file: packages (add packages = ["nginx"])"#]],
        );
    }

    #[test]
    fn a_package_may_be_pinned() {
        check(
            "suite = \"trixie\"\npackages = [\"nginx=1.26.3-3+deb13u1\"]\nspare = \"1MiB\"\n",
            &expect![[
                r#"Recipe { suite: "trixie", packages: ["nginx=1.26.3-3+deb13u1"], maven: [], copies: [], run: "", spare_bytes: 1048576 }"#
            ]],
        );
    }

    #[test]
    fn an_image_may_be_of_another_suite_than_its_recipe_names() {
        let job = |suite| {
            Job::read(Request {
                recipe: "web",
                suite,
                refresh: false,
            })
        };
        let usual = job(None).unwrap();
        assert_eq!(usual.recipe.suite, "bookworm");
        assert_eq!(job(Some("bookworm")).unwrap().name(), usual.name());
        let other = job(Some("trixie")).unwrap();
        assert_eq!(other.recipe.suite, "trixie");
        assert_eq!(other.recipe.packages, usual.recipe.packages);
        assert_ne!(other.name(), usual.name());
        let error = |suite| job(Some(suite)).map(|_| ()).unwrap_err().to_string();
        assert_eq!(
            error("trixi"),
            "not a Debian suite for an image: \"trixi\" (did you mean \"trixie\"?)"
        );
        assert_eq!(
            error("jammy-and-jelly"),
            "not a Debian suite for an image: \"jammy-and-jelly\" (known: bullseye, bookworm, trixie, forky, sid)"
        );
    }

    #[test]
    fn an_image_is_told_with_its_suite() {
        let mut image = Image {
            recipe: "web".into(),
            suite: Some("trixie".into()),
            path: PathBuf::new(),
            manifest: PathBuf::new(),
            sha256: String::new(),
            bytes: 0,
        };
        assert_eq!(image.title(), "web (trixie)");
        image.suite = None;
        assert_eq!(image.title(), "web");
    }

    #[test]
    fn an_unknown_recipe_is_told_with_the_known_ones() {
        expect![[r#"no such image recipe: "wb" (did you mean "web"?; a path ending in .toml names one of your own)"#]].assert_eq(&super::check("wb").unwrap_err().to_string());
        expect![[r#"no such image recipe: "mail-and-news" (known: app, database, kvm, open-liberty, smb, tools, web, web-cgi, wildfly; a path ending in .toml names one of your own)"#]].assert_eq(&super::check("mail-and-news").unwrap_err().to_string());
    }

    #[test]
    fn the_stage_is_the_last_note() {
        let stderr = "I: running apt-get update...\nnoise\nI: installing packages...\nmore";
        assert_eq!(stage(stderr), "building the image: installing packages");
        assert_eq!(stage(""), "building the image");
    }
}
