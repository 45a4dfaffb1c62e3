//! Kernels: resolves names in a plan to files in the cache.
//!
//! ```text
//! kernels/ID/kernel.json              what it is
//! kernels/ID/vmlinuz, config          the bootable image, its configuration where there is one
//! kernels/ID/lib/modules/RELEASE/     its modules, when it has any
//! ```
//! Every kernel is copied into the cache, including files of this machine, because a kernel that is
//! rebuilt while a plan runs must not change under it.

pub mod given;

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use base::arch::Arch;
use base::input::file;
use base::input::text;
use base::input::tree::Tree;
use base::input::units::show_bytes;
use plan::kernel::KernelRef;
use serde::{Deserialize, Serialize};

use crate::apt::Suite;
use crate::cache;
use crate::cache::about::{About as Origin, Part};
use crate::cache::{Cache, Staging};
use crate::debian;
use crate::debian::Choice;
use crate::flavour::Flavour;
use crate::program;
use crate::program::command;
use crate::task::Task;

/// Version of an entry's layout, part of its identity.
const LAYOUT: &str = "kernel-2";

/// A kernel in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Its release, as `uname -r` prints it.
    pub release: String,
    /// Its source: package and version, or the path in the plan.
    pub package: String,
    /// The bootable image.
    pub vmlinuz: PathBuf,
    /// The directory `lib/modules/RELEASE`, when it has modules.
    pub modules: Option<PathBuf>,
    /// Its configuration, if it was installed with one.
    pub config: Option<PathBuf>,
    /// Hash of the kernel with all its parts.
    pub sha256: String,
}

/// Kernels in the cache with what they were made from, by release.
pub fn cached(cache: &Cache) -> Vec<(Kernel, Option<Origin>)> {
    let entries = cache.entries("kernels").into_iter();
    let mut kernels: Vec<_> = entries
        .filter_map(|(id, place)| Some((load_from(&place, &id)?, Origin::of(&place))))
        .collect();
    kernels.sort_by(|(a, _), (b, _)| (&a.release, &a.sha256).cmp(&(&b.release, &b.sha256)));
    kernels
}

/// One kernel that could be fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Offer {
    /// Its release, as `uname -r` prints it.
    pub release: String,
    /// The package's version.
    pub version: String,
    /// Size of the download, in bytes.
    pub bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct About {
    release: String,
    package: String,
}

/// Fetches a kernel into the cache.
///
/// The resolution of `debian:SUITE/VERSION` is saved, so that a filled cache needs no network and a plan
/// always has the same kernel; `refresh` looks for a newer one.
pub fn fetch(
    cache: &Cache,
    kernel: &KernelRef,
    flavour: Flavour,
    refresh: bool,
    task: Task<'_>,
) -> Result<Kernel> {
    match kernel {
        KernelRef::Version(version) => {
            let Located { suite, .. } = locate(cache, version, refresh, task)?;
            fetch_debian(cache, suite, version, flavour, refresh, task)
        }
        KernelRef::Debian { suite, version } => {
            fetch_debian(cache, suite, version, flavour, refresh, task)
        }
        KernelRef::Packages(files) => from_packages(cache, files, task),
        KernelRef::Path { path, .. } if path.is_dir() => from_tree(cache, path, task),
        KernelRef::Path { path, modules } => {
            let files = Files {
                vmlinuz: path,
                modules: modules.as_deref(),
                config: config_beside(path),
            };
            from_files(cache, String::new(), &files, task)
        }
        KernelRef::Running | KernelRef::Remote(_) => bail!(
            "kernel \"running\" cannot be booted ({})",
            plan::kernel::FORMS
        ),
    }
    .with_context(|| format!("cannot have kernel {kernel}"))
}

/// Fails if a kernel's name is wrong, as far as that shows without the network and without reading whole files.
pub fn check(kernel: &KernelRef, arch: Arch) -> Result<()> {
    match kernel {
        KernelRef::Debian { suite, .. } => crate::apt::check_suite(suite),
        KernelRef::Packages(files) => files.iter().try_for_each(|file| check_package(file)),
        KernelRef::Path { path, modules } if path.is_dir() => {
            if modules.is_some() {
                bail!(
                    "modules given for a built tree: {} (remove modules: the tree has them)",
                    path.display()
                );
            }
            check_image(&image_in(path, arch)?, arch)
        }
        KernelRef::Path { path, modules } => {
            check_image(path, arch)?;
            modules.as_deref().map_or(Ok(()), check_directory)
        }
        KernelRef::Version(_) | KernelRef::Running | KernelRef::Remote(_) => Ok(()),
    }
}

fn check_directory(path: &Path) -> Result<()> {
    exists(path)?;
    if !path.is_dir() {
        bail!("not a directory: {}", path.display());
    }
    Ok(())
}

fn exists(path: &Path) -> Result<()> {
    match path.try_exists() {
        Ok(true) => Ok(()),
        Ok(false) => bail!(
            "no such file: {} (paths in a plan are taken from its directory)",
            path.display()
        ),
        Err(why) => Err(why).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn check_package(path: &Path) -> Result<()> {
    // As `ar` writes it, with the first member of deb(5).
    const HEAD: &[u8] = b"!<arch>\ndebian-binary";
    if !head(path, Some(HEAD.len()))?.starts_with(HEAD) {
        bail!("not a Debian package: {} (name .deb files)", path.display());
    }
    Ok(())
}

fn check_image(path: &Path, arch: Arch) -> Result<()> {
    let head = head(path, arch.facts().head_bytes())?;
    release_of(path, &head, arch)?;
    let about = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    given::refuse_cut_off(path, &head, about.len(), arch)
}

/// The release of a bootable image, which must be for this architecture.
fn release_of(path: &Path, image: &[u8], arch: Arch) -> Result<String> {
    let release = match Arch::of_image(image) {
        Some(other) if other != arch => bail!(
            "kernel for {other} on a machine of {arch}: {} (name another kernel, or write arch = \"{other}\" in [machine])",
            path.display()
        ),
        Some(_) => valid_release(image, arch),
        None => None,
    };
    match release {
        Some(release) => Ok(release.into()),
        None => bail!(
            "not a bootable {arch} kernel: {} (name a {} or vmlinuz)",
            path.display(),
            arch.facts().built_image().1
        ),
    }
}

/// The release that an image names, if it is a valid one: it becomes a part of paths.
fn valid_release(image: &[u8], arch: Arch) -> Option<&str> {
    let release = arch.facts().release(image);
    release.filter(|release| text::is_release(release))
}

/// The image of a tree in which it has been built.
fn image_in(tree: &Path, arch: Arch) -> Result<PathBuf> {
    let (image, target) = arch.facts().built_image();
    let vmlinuz = tree.join(image);
    if !vmlinuz.exists() {
        bail!(
            "no built kernel: {} (run make {target} modules in it)",
            vmlinuz.display()
        );
    }
    Ok(vmlinuz)
}

/// The first bytes of a regular file, or all of them up to the largest image.
fn head(path: &Path, bytes: Option<usize>) -> Result<Vec<u8>> {
    let bytes = bytes.map_or(IMAGE_BYTES, |bytes| bytes as u64);
    exists(path)?;
    let read = || -> std::io::Result<Vec<u8>> {
        file::metadata(path)?;
        let mut head = Vec::new();
        fs::File::open(path)?.take(bytes).read_to_end(&mut head)?;
        Ok(head)
    };
    read().with_context(|| format!("cannot read {}", path.display()))
}

/// Whether a kernel is available, from the cache alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It is in the cache, or in the suite's list of packages.
    Yes,
    /// The list has no such kernel: the error, with the remedy.
    No(String, String),
    /// The cache has no list of the suite.
    NotChecked(String),
}

/// Looks a kernel up in the cache and in the lists of packages there. Nothing is fetched.
pub fn look_up(cache: &Cache, kernel: &KernelRef, task: Task<'_>) -> Found {
    let (suite, version) = match kernel {
        KernelRef::Debian { suite, version } => (&**suite, version),
        KernelRef::Version(version) => match known_suite(cache, version) {
            Some(suite) => (suite, version),
            None => {
                return Found::NotChecked(format!(
                    "which Debian suite has a kernel {version:?} (bakeoff cache kernel fetch {version} looks it up)"
                ));
            }
        },
        KernelRef::Packages(_)
        | KernelRef::Path { .. }
        | KernelRef::Running
        | KernelRef::Remote(_) => return Found::Yes,
    };
    let known = cache.recall::<String>(&format!("debian:{suite}/{version}"));
    if known.is_some_and(|id| cache.peek("kernels", &id).is_some()) {
        return Found::Yes;
    }
    if !Suite::is_indexed(cache, suite) {
        return found_in(
            Err(anyhow!("no list of packages in the cache")),
            suite,
            version,
        );
    }
    found_in(in_index(cache, suite, task), suite, version)
}

/// Looks a kernel up in the list of a suite, or says why there is none.
fn found_in(kernels: Result<Vec<Choice>>, suite: &str, version: &str) -> Found {
    let fetch = format!("bakeoff cache kernel list debian:{suite} --refresh");
    let chosen = kernels.map(|kernels| debian::choose(&kernels, suite, version, Flavour::Cloud));
    match chosen {
        Ok(Ok(_)) => Found::Yes,
        Ok(Err(why)) => Found::No(
            format!("{why:#}"),
            format!("name another; the list of packages may be old: {fetch} fetches it anew"),
        ),
        Err(why) => Found::NotChecked(format!(
            "whether {suite} has a kernel {version:?}: {why:#} ({fetch} fetches the list of packages)"
        )),
    }
}

/// Kernels in the list of packages that the cache has of a suite.
fn in_index(cache: &Cache, suite: &str, task: Task<'_>) -> Result<Vec<Choice>> {
    let _lock = cache.lock(&format!("apt {suite}"), task)?;
    let index = Suite::open(cache, suite, false, task)?;
    Ok(debian::kernels(
        &index.packages(&debian::PREFIXES, task)?,
        cache.arch(),
    ))
}

/// The kernel that a Debian name was resolved to, if it is in the cache; nothing is fetched.
pub fn cached_as(cache: &Cache, kernel: &KernelRef) -> Option<Kernel> {
    let (suite, version) = in_debian(cache, kernel)?;
    let id = cache.recall::<String>(&debian_name(suite, version, Flavour::Cloud))?;
    load_from(&cache.peek("kernels", &id)?, &id)
}

/// A kernel that is in the cache, or built in a tree: its release, and its configuration. Nothing is fetched; `None` where
/// that would be needed, or if the configuration is unknown.
pub fn known(cache: &Cache, kernel: &KernelRef, flavour: Flavour) -> Option<(String, String)> {
    if let KernelRef::Path { path, .. } = kernel {
        let release = fs::read_to_string(path.join("include/config/kernel.release")).ok()?;
        let config = fs::read_to_string(path.join(".config")).ok()?;
        return Some((release.trim().into(), config));
    }
    let (suite, version) = in_debian(cache, kernel)?;
    let id = cache.recall::<String>(&debian_name(suite, version, flavour))?;
    let place = cache.peek("kernels", &id)?;
    load_from(&place, &id)?.configuration()
}

/// The suite and version of a kernel from Debian, as far as the cache knows.
fn in_debian<'k>(cache: &Cache, kernel: &'k KernelRef) -> Option<(&'k str, &'k str)> {
    match kernel {
        KernelRef::Debian { suite, version } => Some((suite, version)),
        KernelRef::Version(version) => Some((known_suite(cache, version)?, version)),
        KernelRef::Packages(_)
        | KernelRef::Path { .. }
        | KernelRef::Running
        | KernelRef::Remote(_) => None,
    }
}

/// The suite in which a version was found earlier.
fn known_suite(cache: &Cache, version: &str) -> Option<&'static str> {
    let known = cache.recall::<String>(&suite_name(version))?;
    LOOKUP_ORDER.into_iter().find(|suite| *suite == known)
}

/// The cache's key of the suite that has a version.
fn suite_name(version: &str) -> String {
    format!("suite of {version}")
}

impl Kernel {
    /// Its release, and its configuration if it has one.
    pub fn configuration(&self) -> Option<(String, String)> {
        let config = fs::read_to_string(self.config.as_ref()?).ok()?;
        Some((self.release.clone(), config))
    }
}

/// The cache's key of a resolved name.
fn debian_name(suite: &str, version: &str, flavour: Flavour) -> String {
    match flavour {
        Flavour::Cloud => format!("debian:{suite}/{version}"),
        Flavour::General => format!("debian:{suite}/{version} general"),
    }
}

/// A kernel that was named only by its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The suite that has it.
    pub suite: &'static str,
    /// Its release, as `uname -r` prints it.
    pub release: String,
}

/// Suites in which a version is looked up: releases, the newest first, then their backports, then unreleased ones.
pub(crate) const LOOKUP_ORDER: [&str; 7] = [
    "trixie",
    "bookworm",
    "bullseye",
    "trixie-backports",
    "bookworm-backports",
    "forky",
    "sid",
];

/// The Debian suite that has a kernel of this version. Indexes in the cache are searched first, and the others are
/// fetched only if none of these has it; `refresh` fetches all again.
///
/// The result is saved, so that a version always means the same kernel.
pub fn locate(cache: &Cache, version: &str, refresh: bool, task: Task<'_>) -> Result<Located> {
    let known = known_suite(cache, version).filter(|_| !refresh);
    if let Some(suite) = known.filter(|suite| Suite::is_indexed(cache, suite))
        && let Ok(kernels) = in_index(cache, suite, task)
        && let Ok(choice) = debian::choose(&kernels, suite, version, Flavour::Cloud)
    {
        let release = choice.release;
        return Ok(Located { suite, release });
    }
    let located = locate_anew(cache, version, refresh, task)?;
    // A read-only cache can still be used.
    let _ = cache.remember(&suite_name(version), &located.suite);
    Ok(located)
}

fn locate_anew(cache: &Cache, version: &str, refresh: bool, task: Task<'_>) -> Result<Located> {
    let is_cached = |suite: &&str| !refresh && Suite::is_indexed(cache, suite);
    let (cached, others): (Vec<_>, Vec<_>) = LOOKUP_ORDER.into_iter().partition(is_cached);
    let mut newest = Vec::new();
    for suite in cached.into_iter().chain(others) {
        let _lock = cache.lock(&format!("apt {suite}"), task)?;
        let index = Suite::open(cache, suite, refresh, task)?;
        task.tell("looking for a kernel", None);
        let kernels = debian::kernels(&index.packages(&debian::PREFIXES, task)?, cache.arch());
        match debian::choose(&kernels, suite, version, Flavour::Cloud) {
            Ok(choice) => {
                let release = choice.release;
                return Ok(Located { suite, release });
            }
            Err(_) => newest.extend(
                kernels
                    .first()
                    .map(|choice| format!("{suite} {}", choice.version())),
            ),
        }
    }
    bail!(
        "no Debian suite has a kernel {version:?} (the newest are: {})",
        newest.join(", ")
    )
}

/// Kernels that a suite offers, newest first.
pub fn list(cache: &Cache, suite: &str, refresh: bool, task: Task<'_>) -> Result<Vec<Offer>> {
    crate::apt::check_suite(suite)?;
    let _lock = cache.lock(&format!("apt {suite}"), task)?;
    let suite = Suite::open(cache, suite, refresh, task)?;
    let kernels = debian::kernels(&suite.packages(&debian::PREFIXES, task)?, cache.arch());
    let offers = kernels.iter().map(|choice| Offer {
        release: choice.release.clone(),
        version: choice.version().into(),
        bytes: choice.parts.iter().map(|part| part.bytes).sum(),
    });
    Ok(offers.collect())
}

fn fetch_debian(
    cache: &Cache,
    suite: &str,
    version: &str,
    flavour: Flavour,
    refresh: bool,
    task: Task<'_>,
) -> Result<Kernel> {
    crate::apt::check_suite(suite)?;
    let name = debian_name(suite, version, flavour);
    if !refresh {
        let known = cache.recall::<String>(&name);
        if let Some(id) = known
            && let Some(kernel) = load(cache, &id)?
        {
            return Ok(kernel);
        }
    }
    let _lock = cache.lock(&format!("apt {suite}"), task)?;
    let index = Suite::open(cache, suite, refresh, task)?;
    task.tell("looking for a kernel", None);
    let kernels = debian::kernels(&index.packages(&debian::PREFIXES, task)?, cache.arch());
    let choice = debian::choose(&kernels, suite, version, flavour)?;
    let id = identity(choice.parts.iter().map(|part| part.sha256.as_str()));
    let kernel = match load(cache, &id)? {
        Some(kernel) => kernel,
        None => download(cache, &index, suite, &choice, &id, task)?,
    };
    cache.remember(&name, &id)?;
    Ok(kernel)
}

fn download(
    cache: &Cache,
    index: &Suite,
    suite: &str,
    choice: &Choice,
    id: &str,
    task: Task<'_>,
) -> Result<Kernel> {
    let bytes = choice
        .parts
        .iter()
        .map(|part| part.bytes + part.installed_bytes)
        .sum();
    // Packages and their unpacked files are there together for a while.
    let packages = cache.staging(bytes)?;
    let entry = cache.staging(0)?;
    index.download(&choice.parts, &packages.path, task)?;
    let files = files_in(&packages.path)?;
    unpack(&files, &packages.path, task)?;
    let about = About {
        release: choice.release.clone(),
        package: format!("{} {}", choice.parts[0].name, choice.version()),
    };
    stage(cache, &packages.path.join("root"), &entry, &about)?;
    let part = |package: &crate::apt::Package| Part {
        name: package.name.clone(),
        version: package.version.clone(),
        sha256: package.sha256.clone(),
    };
    let parts = choice.parts.iter().map(part).collect();
    let source = format!("debian:{suite}");
    Origin::now(&about.release, source, parts).write(cache, &entry.path)?;
    keep(cache, &entry, id)
}

fn from_packages(cache: &Cache, files: &[PathBuf], task: Task<'_>) -> Result<Kernel> {
    let mut sums = Vec::new();
    for file in files {
        sums.push(cache::hash_file(file)?);
    }
    let id = identity(sums.iter().map(String::as_str));
    if let Some(kernel) = load(cache, &id)? {
        return Ok(kernel);
    }
    let bytes: u64 = files.iter().map(|file| cache::size_of(file)).sum();
    // Known kernel packages are compressed at most five to one.
    let unpacked = cache.staging(bytes * 5)?;
    let entry = cache.staging(0)?;
    unpack(files, &unpacked.path, task)?;
    let root = unpacked.path.join("root");
    let names: Vec<_> = files.iter().filter_map(|file| file.file_name()).collect();
    let release = release_in(&root)?;
    if !text::is_release(&release) {
        bail!("not a kernel's release: {release:?} (in these packages)");
    }
    let about = About {
        release,
        package: names.join(OsStr::new(" ")).to_string_lossy().into_owned(),
    };
    stage(cache, &root, &entry, &about)?;
    let parts = files.iter().zip(&sums);
    let parts = parts.map(|(file, sum)| Part::file(file, sum)).collect();
    Origin::now(&about.release, "deb:".into(), parts).write(cache, &entry.path)?;
    keep(cache, &entry, &id)
}

pub(crate) fn unpack(files: &[PathBuf], place: &Path, task: Task<'_>) -> Result<()> {
    task.tell("unpacking packages", None);
    for file in files {
        let mut dpkg = command("dpkg-deb", "dpkg")?;
        dpkg.arg("--extract")
            .arg(fs::canonicalize(file)?)
            .arg(place.join("root"));
        program::run(&mut dpkg, task)?;
    }
    // A link could name a file of this host, which would then be taken for the package's.
    let root = Tree::at(&place.join("root"));
    root.flatten()
        .with_context(|| format!("cannot clear links out of {}", root.path().display()))
}

/// The release of the kernel in unpacked packages, which have exactly one.
fn release_in(root: &Path) -> Result<String> {
    for place in MODULE_PLACES {
        let mut names: Vec<_> = fs::read_dir(root.join(place))
            .into_iter()
            .flatten()
            .filter_map(|dir| dir.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        match names.as_slice() {
            [] => {}
            [release] => return Ok(release.clone()),
            several => bail!("packages of several kernels: {}", several.join(" ")),
        }
    }
    let boot = fs::read_dir(root.join("boot")).into_iter().flatten();
    let mut image = boot.filter_map(|file| file.ok()?.file_name().into_string().ok());
    match image.find_map(|name| Some(name.strip_prefix("vmlinuz-")?.to_string())) {
        Some(release) => Ok(release),
        None => bail!(
            "no kernel in these packages (name linux-image, or linux-binary with linux-modules)"
        ),
    }
}

/// Where packages put modules: before and after Debian merged /usr.
const MODULE_PLACES: [&str; 2] = ["lib/modules", "usr/lib/modules"];

/// Moves the kernel out of unpacked packages into an entry.
fn stage(cache: &Cache, root: &Path, entry: &Staging, about: &About) -> Result<()> {
    let release = &about.release;
    let first = |names: &[String]| {
        names
            .iter()
            .map(|name| root.join(name))
            .find(|p| p.exists())
    };
    let among = |file: &str| {
        let mut names = vec![format!("boot/{file}-{release}")];
        names.extend(MODULE_PLACES.map(|place| format!("{place}/{release}/{file}")));
        first(&names)
    };
    let Some(vmlinuz) = among("vmlinuz") else {
        bail!("no vmlinuz in the packages of kernel {release} (name linux-image or linux-binary)");
    };
    let move_to = |from: &Path, to: &str| {
        fs::rename(from, entry.path.join(to)).map_err(|why| cache.cannot_write(&why))
    };
    if let Some(config) = among("config") {
        move_to(&config, "config")?;
    }
    move_to(&vmlinuz, "vmlinuz")?;
    if let Some(modules) = first(&MODULE_PLACES.map(|place| format!("{place}/{release}"))) {
        fs::create_dir_all(entry.path.join("lib/modules"))
            .map_err(|why| cache.cannot_write(&why))?;
        move_to(&modules, &format!("lib/modules/{release}"))?;
    }
    describe(cache, entry, about)
}

/// The files of a kernel.
struct Files<'f> {
    vmlinuz: &'f Path,
    modules: Option<&'f Path>,
    config: Option<PathBuf>,
}

/// `config-6.1.0` beside `vmlinuz-6.1.0`, as in /boot, and `config` beside `vmlinuz`, as in the cache.
fn config_beside(vmlinuz: &Path) -> Option<PathBuf> {
    let rest = vmlinuz.file_name()?.to_str()?.strip_prefix("vmlinuz")?;
    let config = vmlinuz.with_file_name(format!("config{rest}"));
    config.is_file().then_some(config)
}

/// Largest bootable image, in bytes.
pub(crate) const IMAGE_BYTES: u64 = 192 << 20;

fn from_files(cache: &Cache, source: String, files: &Files<'_>, task: Task<'_>) -> Result<Kernel> {
    let (vmlinuz, modules) = (files.vmlinuz, files.modules);
    let image = file::read(vmlinuz, IMAGE_BYTES)
        .with_context(|| format!("cannot read {}", vmlinuz.display()))?;
    let release = release_of(vmlinuz, &image, cache.arch())?;
    given::refuse_cut_off(vmlinuz, &image, image.len() as u64, cache.arch())?;
    let mut sums = vec![cache::hash(&image)];
    for file in modules.map(module_files).transpose()?.unwrap_or_default() {
        task.go_on()?;
        sums.push(cache::hash_file(&file)?);
    }
    let of_modules = identity(sums[1..].iter().map(String::as_str));
    if let Some(config) = &files.config {
        sums.push(cache::hash_file(config)?);
    }
    let id = identity(sums.iter().map(String::as_str));
    if let Some(kernel) = load(cache, &id)? {
        return Ok(kernel);
    }
    let bytes = image.len() as u64 + modules.map_or(0, cache::size_of);
    let entry = cache.staging(bytes)?;
    fs::write(entry.path.join("vmlinuz"), &image).map_err(|why| cache.cannot_write(&why))?;
    if let Some(modules) = modules {
        task.tell("copying modules", None);
        copy_modules(
            cache,
            modules,
            &entry.path.join("lib/modules").join(&release),
            task,
        )?;
    }
    if let Some(config) = &files.config {
        copy(cache, config, &entry.path.join("config"))?;
    }
    let mut parts = vec![Part::file(vmlinuz, &sums[0])];
    parts.extend(modules.map(|dir| Part::file(dir, &of_modules)));
    Origin::now(&release, source, parts).write(cache, &entry.path)?;
    let package = vmlinuz.display().to_string();
    describe(cache, &entry, &About { release, package })?;
    keep(cache, &entry, &id)
}

/// Takes the image and the modules of a built tree from where they were built: each line of
/// `modules.order` names one. Nothing is run in the tree, so no `make modules_install` is needed.
fn from_tree(cache: &Cache, tree: &Path, task: Task<'_>) -> Result<Kernel> {
    let vmlinuz = image_in(tree, cache.arch())?;
    let built = fs::read_to_string(tree.join("modules.order")).unwrap_or_default();
    let staged = cache.staging(cache::size_of(&vmlinuz) * 4)?;
    for line in built.lines() {
        task.go_on()?;
        // Kernels before 6.2 list .ko files, later ones .o files.
        let name = Path::new(line).with_extension("ko");
        let from = tree.join(&name);
        let to = staged.path.join("kernel").join(&name);
        copy(cache, &from, &to)?;
    }
    for name in ["modules.builtin", "modules.order"] {
        if tree.join(name).exists() {
            copy(cache, &tree.join(name), &staged.path.join(name))?;
        }
    }
    let modules = (!built.is_empty()).then_some(staged.path.as_path());
    let source = tree.display().to_string();
    let config = tree.join(".config");
    let files = Files {
        vmlinuz: &vmlinuz,
        modules,
        config: config.is_file().then_some(config),
    };
    let mut kernel = from_files(cache, source, &files, task)?;
    kernel.package = tree.display().to_string();
    Ok(kernel)
}

fn copy_modules(cache: &Cache, from: &Path, to: &Path, task: Task<'_>) -> Result<()> {
    for file in module_files(from)? {
        task.go_on()?;
        let name = file
            .strip_prefix(from)
            .expect("module_files lists what is below");
        copy(cache, &file, &to.join(name))?;
    }
    Ok(())
}

fn copy(cache: &Cache, from: &Path, to: &Path) -> Result<()> {
    // An unreadable source file is no error of the cache.
    fs::metadata(from).with_context(|| format!("cannot read {}", from.display()))?;
    let parent = to.parent().expect("the target lies in a staging");
    fs::create_dir_all(parent).map_err(|why| cache.cannot_write(&why))?;
    fs::copy(from, to).map_err(|why| cache.cannot_write(&why))?;
    Ok(())
}

/// Modules and their lists below a module directory, sorted; without the links `build` and `source`.
pub(crate) fn module_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        let entries =
            fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if kind.is_dir() {
                dirs.push(entry.path());
            } else if kind.is_file() && (name.contains(".ko") || name.starts_with("modules.")) {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

fn describe(cache: &Cache, entry: &Staging, about: &About) -> Result<()> {
    let text = serde_json::to_vec_pretty(about)?;
    cache::write(&entry.path.join("kernel.json"), &text).map_err(|why| cache.cannot_write(&why))
}

fn keep(cache: &Cache, entry: &Staging, id: &str) -> Result<Kernel> {
    cache.keep(entry, "kernels", id)?;
    load(cache, id)?.with_context(|| format!("kernel is gone from the cache: {id}"))
}

pub(crate) fn load(cache: &Cache, id: &str) -> Result<Option<Kernel>> {
    let entry = cache.entry("kernels", id)?;
    Ok(entry.and_then(|entry| load_from(&entry, id)))
}

fn load_from(place: &Path, id: &str) -> Option<Kernel> {
    let about: About = serde_json::from_slice(
        &Tree::at(place)
            .read("kernel.json", cache::NOTE_BYTES)
            .ok()?,
    )
    .ok()?;
    let modules = place.join("lib/modules").join(&about.release);
    let config = place.join("config");
    Some(Kernel {
        modules: modules.is_dir().then_some(modules),
        config: config.exists().then_some(config),
        vmlinuz: place.join("vmlinuz"),
        release: about.release,
        package: about.package,
        sha256: id.into(),
    })
}

pub(crate) fn identity<'s>(sums: impl Iterator<Item = &'s str>) -> String {
    let parts: Vec<_> = std::iter::once(LAYOUT).chain(sums).collect();
    cache::hash(parts.join("\n").as_bytes())
}

pub(crate) fn files_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}

impl Offer {
    /// A line for people.
    pub fn line(&self) -> String {
        format!(
            "{}  {}  {}",
            self.version,
            self.release,
            show_bytes(self.bytes)
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn bz_image(release: &str) -> Vec<u8> {
        let mut image = vec![0; 0x400];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x20u16.to_le_bytes());
        image[0x220..0x220 + release.len()].copy_from_slice(release.as_bytes());
        image
    }

    fn fetch(cache: &Cache, text: &str, modules: Option<PathBuf>) -> Result<Kernel> {
        let kernel = plan::kernel::read(text, modules).unwrap();
        let stop = AtomicBool::new(false);
        super::fetch(cache, &kernel, Flavour::Cloud, false, Task::silent(&stop))
    }

    #[test]
    fn a_kernel_that_a_list_lacks_is_told_apart_from_one_that_nobody_looked_up() {
        let Found::No(what, remedy) = found_in(Ok(Vec::new()), "bookworm", "9.9") else {
            panic!("the list has no such kernel");
        };
        assert!(what.starts_with("no kernel \"9.9\" in bookworm"), "{what}");
        assert!(
            remedy.contains("bakeoff cache kernel list debian:bookworm --refresh"),
            "{remedy}"
        );
        let cache = tempfile::tempdir().unwrap();
        let cache = Cache::open(cache.path());
        let kernel = plan::kernel::read("debian:bookworm/9.9", None).unwrap();
        let stop = AtomicBool::new(false);
        let task = Task::silent(&stop);
        let Found::NotChecked(why) = look_up(&cache, &kernel, task) else {
            panic!("there is no list to look it up in");
        };
        assert!(
            why.starts_with("whether bookworm has a kernel \"9.9\""),
            "{why}"
        );
    }

    #[test]
    fn the_release_is_read_from_the_image() {
        let read = |image: &[u8]| release_of(Path::new("image"), image, Arch::X86_64);
        let image = bz_image("6.1.0-50-cloud-amd64 (builder) #1 SMP");
        assert_eq!(read(&image).unwrap(), "6.1.0-50-cloud-amd64");
        read(b"MZ").unwrap_err();
        for path in ["../etc #1", ".. #1", "6.1..x #1", "6.1/x #1"] {
            read(&bz_image(path)).unwrap_err();
        }
    }

    #[test]
    fn a_file_is_copied_so_that_it_cannot_change_under_a_run() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("cache"));
        let vmlinuz = dir.path().join("vmlinuz");
        let modules = dir.path().join("modules");
        fs::create_dir_all(modules.join("kernel")).unwrap();
        fs::write(modules.join("kernel/veth.ko"), "one").unwrap();
        fs::write(&vmlinuz, bz_image("6.9.1 #1")).unwrap();
        let name = vmlinuz.display().to_string();
        let first = fetch(&cache, &name, Some(modules.clone())).unwrap();
        assert_eq!(first.release, "6.9.1");
        let module = first.modules.clone().unwrap().join("kernel/veth.ko");
        assert_eq!(fs::read_to_string(module).unwrap(), "one");

        fs::write(modules.join("kernel/veth.ko"), "two").unwrap();
        let second = fetch(&cache, &name, Some(modules)).unwrap();
        assert_ne!(first.sha256, second.sha256);
        assert!(first.vmlinuz.exists());
    }

    #[test]
    fn a_configuration_beside_a_file_comes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("cache"));
        let config_of = |name: &str| {
            let vmlinuz = dir.path().join(name);
            fs::write(&vmlinuz, bz_image("6.9.1 #1")).unwrap();
            let kernel = fetch(&cache, &vmlinuz.display().to_string(), None).unwrap();
            Some(fs::read_to_string(kernel.config?).unwrap())
        };
        fs::write(dir.path().join("config-6.9.1"), "CONFIG_VETH=m\n").unwrap();
        assert_eq!(config_of("vmlinuz-6.9.1").unwrap(), "CONFIG_VETH=m\n");
        assert_eq!(config_of("vmlinuz-6.9.1.old"), None);
        assert_eq!(config_of("vmlinuz"), None);
        assert_eq!(config_of("bzImage"), None);
        fs::write(dir.path().join("config"), "CONFIG_VETH=y\n").unwrap();
        assert_eq!(config_of("vmlinuz").unwrap(), "CONFIG_VETH=y\n");
    }

    #[test]
    fn a_built_tree_gives_its_image_and_modules() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("cache"));
        let tree = dir.path().join("linux");
        fs::create_dir_all(tree.join("arch/x86/boot")).unwrap();
        fs::create_dir_all(tree.join("drivers/net")).unwrap();
        fs::write(tree.join("arch/x86/boot/bzImage"), bz_image("6.9.1+ #1")).unwrap();
        fs::write(tree.join("drivers/net/veth.ko"), "module").unwrap();
        fs::write(tree.join("modules.order"), "drivers/net/veth.o\n").unwrap();
        fs::write(tree.join(".config"), "CONFIG_VETH=m\n").unwrap();
        let kernel = fetch(&cache, &tree.display().to_string(), None).unwrap();
        assert_eq!(kernel.release, "6.9.1+");
        let config = fs::read_to_string(kernel.config.unwrap()).unwrap();
        assert_eq!(config, "CONFIG_VETH=m\n");
        assert!(
            kernel
                .modules
                .unwrap()
                .join("kernel/drivers/net/veth.ko")
                .exists()
        );
    }

    #[test]
    fn a_tree_that_was_not_built_is_told_what_to_run() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("cache"));
        let why = fetch(&cache, &dir.path().display().to_string(), None).unwrap_err();
        assert!(
            format!("{why:#}").contains("run make bzImage modules"),
            "{why:#}"
        );
    }

    #[test]
    fn what_is_no_kernel_is_told_before_anything_is_fetched() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let outcome = |kernel: &str, modules: Option<PathBuf>| {
            let kernel = plan::kernel::read(kernel, modules).unwrap();
            let outcome = check(&kernel, Arch::X86_64)
                .map_or_else(|why| format!("{why:#}"), |()| "good".into());
            outcome.replace(&*dir.path().to_string_lossy(), "DIR")
        };
        fs::create_dir_all(dir.path().join("built/arch/x86/boot")).unwrap();
        fs::write(path("built/arch/x86/boot/bzImage"), bz_image("6.9.1 #1")).unwrap();
        fs::write(path("passwd"), "root:x:0:0::/root:/bin/sh\n").unwrap();
        fs::copy(path("passwd"), path("passwd.deb")).unwrap();
        fs::create_dir(path("etc")).unwrap();
        let image = path("built/arch/x86/boot/bzImage");
        let cases = [
            (path("built"), "good"),
            (image.clone(), "good"),
            (
                path("etc"),
                "no built kernel: DIR/etc/arch/x86/boot/bzImage (run make bzImage modules in it)",
            ),
            (
                path("passwd"),
                "not a bootable x86_64 kernel: DIR/passwd (name a bzImage or vmlinuz)",
            ),
            (
                path("passwd.deb"),
                "not a Debian package: DIR/passwd.deb (name .deb files)",
            ),
        ];
        for (kernel, want) in cases {
            assert_eq!(outcome(&kernel, None), want);
        }
        let modules = Some(PathBuf::from(path("passwd")));
        assert_eq!(
            outcome(&image, modules.clone()),
            "not a directory: DIR/passwd"
        );
        let want = "modules given for a built tree: DIR/built (remove modules: the tree has them)";
        assert_eq!(outcome(&path("built"), modules), want);
    }

    #[test]
    fn a_file_that_is_no_kernel_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("cache"));
        let file = dir.path().join("notes.txt");
        fs::write(&file, "hello").unwrap();
        let why = fetch(&cache, &file.display().to_string(), None).unwrap_err();
        assert!(
            format!("{why:#}").contains("not a bootable x86_64 kernel"),
            "{why:#}"
        );
    }
}
