//! Builds kernels from source: from a commit of a git repository, or from a tree.
//!
//! ```text
//! builds/ID/source/        a separate work tree, at the commit that was built last (the user's is never changed)
//! builds/ID/CONFIG/        make's output directory: files without changes since the last commit are not compiled again
//! kernels/SHA/             the result, like any other kernel
//! names/built:KEY          the kernel that was built from a tree, a configuration and a compiler
//! ```
//! The build is as reproducible as the kernel's: it contains no time, user, host or count. Commits that change no code result in
//! the same kernel.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use base::arch::Arch;
use base::input::file;

use crate::cache;
use crate::cache::Cache;
use crate::cache::about::About;
use crate::flavour::Flavour;
use crate::git;
use crate::kernel;
use crate::kernel::Kernel;
use crate::program;
use crate::program::{command, find};
use crate::task::Task;
use plan::kernel::KernelRef;
use record::bisect::KernelConfig;

/// bakeoff's configuration: what its guests need is built in, and little else.
const MINIMAL: &str = include_str!("kernel_build/minimal.config");

/// Version of the way of building, part of the key.
const LAYOUT: &str = "build-1";

/// Programs that a build needs, with their Debian packages.
const PROGRAMS: [(&str, &str); 6] = [
    ("make", "make"),
    ("gcc", "gcc"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("perl", "perl-base"),
];

/// Headers that the kernel's build tools need, with their Debian packages. No OpenSSL, because nothing is signed.
const HEADERS: [(&str, &str); 1] = [("gelf.h", "libelf-dev")];

/// Options that every guest needs, built in or as modules.
const NEEDED: [&str; 13] = [
    "64BIT",
    "BLK_DEV_INITRD",
    "BINFMT_ELF",
    "DEVTMPFS",
    "TMPFS",
    "CGROUPS",
    "NET_NS",
    "SERIAL_8250_CONSOLE",
    "VIRTIO_PCI",
    "VIRTIO_CONSOLE",
    "VIRTIO_BLK",
    "EXT4_FS",
    "OVERLAY_FS",
];

/// How kernels are built.
#[derive(Debug, Clone, Default)]
pub struct BuildOptions {
    /// A configuration that replaces bakeoff's.
    pub config: Option<PathBuf>,
    /// Number of parallel compilers; by default one on each CPU.
    pub jobs: Option<u16>,
}

/// Lists everything that a build lacks on this host.
pub fn refuse_lacks() -> Result<()> {
    let mut lacks: Vec<&str> = Vec::new();
    for (program, package) in PROGRAMS {
        if find(program).is_none() {
            lacks.push(package);
        }
    }
    for (header, package) in HEADERS {
        let places = ["/usr/include", "/usr/local/include"];
        if !places
            .iter()
            .any(|dir| Path::new(dir).join(header).exists())
        {
            lacks.push(package);
        }
    }
    if lacks.is_empty() {
        return Ok(());
    }
    bail!(
        "kernels cannot be built here, packages are missing: {} (apt-get install {})",
        lacks.join(", "),
        lacks.join(" ")
    )
}

/// The hash of the configuration, which shows whether it has changed.
///
/// # Errors
/// The file cannot be read, or is no configuration.
pub fn configuration(options: &BuildOptions) -> Result<KernelConfig> {
    let config = Config::read(options)?;
    let file = options.config.as_ref();
    Ok(KernelConfig {
        name: file.map(|path| path.display().to_string()),
        sha256: config.id,
    })
}

/// Builds a commit of a repository, unless the cache has a kernel of the same files, configuration and compiler.
pub fn build_commit(
    cache: &Cache,
    repository: &Path,
    hash: &str,
    options: &BuildOptions,
    task: Task<'_>,
) -> Result<Kernel> {
    refuse_lacks()?;
    let Some(top) = git::top(repository, task)? else {
        bail!("not a git repository: {}", repository.display());
    };
    let config = Config::read(options)?;
    let key = {
        let tree = git::tree_of(&top, hash, task)?;
        let parts = [LAYOUT, &tree, &config.id, &compiler(task)?];
        cache::hash(parts.join("\n").as_bytes())
    };
    let name = format!("built:{key}");
    let known = cache.recall::<String>(&name);
    if let Some(id) = known
        && let Some(kernel) = kernel::load(cache, &id)?
    {
        return Ok(kernel);
    }
    let place = Place::take(cache, &top, task)?;
    let source = place.dir.join("source");
    task.tell(&format!("checking out {hash:.12}"), None);
    git::check_out(&top, &source, hash, task)?;
    let what = format!("commit {hash:.12}");
    let kernel = make(cache, &source, &place, &config, options, &what, task)?;
    cache.remember(&name, &kernel.sha256)?;
    Ok(kernel)
}

/// Builds a tree. Make finds what has changed since the last build.
pub fn build_tree(
    cache: &Cache,
    tree: &Path,
    options: &BuildOptions,
    task: Task<'_>,
) -> Result<Kernel> {
    refuse_lacks()?;
    let config = Config::read(options)?;
    let tree =
        fs::canonicalize(tree).with_context(|| format!("no such directory: {}", tree.display()))?;
    let place = Place::take(cache, &tree, task)?;
    make(cache, &tree, &place, &config, options, "the tree", task)
}

/// The build directory of a tree, locked against other builds and eviction.
struct Place {
    dir: PathBuf,
    /// Also held by make and its children, so that it is free only when they have ended.
    lock: File,
}

impl Place {
    fn take(cache: &Cache, tree: &Path, task: Task<'_>) -> Result<Self> {
        let hash = cache::hash(tree.as_os_str().as_encoded_bytes());
        let id = &hash[..16];
        let lock = cache.lock(&format!("build {id}"), task)?;
        let dir = cache.dir("builds")?.path().join(id);
        while cache.work_dir("builds", id).is_none() {
            fs::create_dir_all(&dir).map_err(|why| cache.cannot_write(&why))?;
        }
        if About::of(&dir).is_none() {
            let title = format!("builds of {}", tree.display());
            About::now(&title, tree.display().to_string(), Vec::new()).write(cache, &dir)?;
        }
        Ok(Self { dir, lock })
    }
}

/// A configuration.
struct Config {
    text: String,
    is_own: bool,
    id: String,
}

/// Longest configuration of a kernel, in bytes: one of all options has 400 KiB.
const CONFIG_BYTES: u64 = 4 << 20;

impl Config {
    fn read(options: &BuildOptions) -> Result<Self> {
        let text = match &options.config {
            Some(path) => file::read_to_string_within(path, CONFIG_BYTES)
                .with_context(|| format!("cannot read configuration {}", path.display()))?,
            None => MINIMAL.into(),
        };
        if !text.lines().any(|line| line.starts_with("CONFIG_")) {
            bail!("not a kernel configuration: no line begins with CONFIG_ (name a .config)");
        }
        let is_own = options.config.is_none();
        let id = cache::hash(format!("{is_own}\n{text}").as_bytes());
        Ok(Self { text, is_own, id })
    }

    /// Writes it to the output directory, where make drops options that the kernel does not know or allow.
    fn apply(&self, source: &Path, out: &Path, lock: &File, task: Task<'_>) -> Result<()> {
        let wanted = out.join("bakeoff.config");
        fs::write(&wanted, &self.text)?;
        let mut make = make_command(source, out)?;
        if self.is_own {
            make.env("KCONFIG_ALLCONFIG", &wanted).arg("allnoconfig");
        } else {
            fs::write(out.join(".config"), &self.text)?;
            make.arg("olddefconfig");
        }
        program::run_group(&make, lock, task, &mut |_| {})
            .context("cannot configure the kernel")?;
        let settled = fs::read_to_string(out.join(".config"))?;
        let has = |option: &&&str| {
            let line = |value| {
                settled
                    .lines()
                    .any(|line| line == format!("CONFIG_{option}={value}"))
            };
            line("y") || line("m")
        };
        let lacks: Vec<&str> = NEEDED
            .iter()
            .filter(|option| !has(option))
            .copied()
            .collect();
        if !lacks.is_empty() {
            bail!(
                "this configuration cannot boot here, options are off: {} (set them to y, or leave --config out)",
                lacks.join(", ")
            );
        }
        Ok(())
    }
}

fn make(
    cache: &Cache,
    source: &Path,
    place: &Place,
    config: &Config,
    options: &BuildOptions,
    what: &str,
    task: Task<'_>,
) -> Result<Kernel> {
    let arch = Arch::HOST.facts();
    if !source.join("Kconfig").exists() || !source.join(arch.source_dir()).is_dir() {
        bail!(
            "not a kernel tree: {} (it has no Kconfig and {})",
            source.display(),
            arch.source_dir()
        );
    }
    let out = place.dir.join(&config.id[..16]);
    fs::create_dir_all(&out).map_err(|why| cache.cannot_write(&why))?;
    cache.expect_space(2 << 30)?;
    config.apply(source, &out, &place.lock, task)?;
    let mut make = make_command(source, &out)?;
    let jobs = options.jobs.map_or_else(cpus, usize::from);
    make.arg(format!("-j{jobs}")).arg(arch.built_image().1);
    let settled = fs::read_to_string(out.join(".config"))?;
    if settled.lines().any(|line| line == "CONFIG_MODULES=y") {
        make.arg("modules");
    }
    let began = std::time::Instant::now();
    task.tell(&format!("building {what}"), None);
    program::run_group(&make, &place.lock, task, &mut |_| {
        let minutes = began.elapsed().as_secs() / 60;
        if minutes > 0 {
            task.tell(&format!("building {what}, {minutes} min"), None);
        }
    })
    .with_context(|| format!("{what} does not build"))?;
    kernel::fetch(cache, &KernelRef::path(out), Flavour::Cloud, false, task)
}

/// Make in an output directory, at low priority, without anything that would differ between builds.
fn make_command(source: &Path, out: &Path) -> Result<Command> {
    let mut make = command("nice", "coreutils")?;
    make.args(["-n", "10", "make", "-s", "-C"]).arg(source);
    let mut output = std::ffi::OsString::from("O=");
    output.push(out);
    make.arg(output);
    if find("ccache").is_some() {
        make.arg("CC=ccache gcc");
    }
    make.env("KBUILD_BUILD_TIMESTAMP", "1970-01-01")
        .env("KBUILD_BUILD_USER", "bakeoff")
        .env("KBUILD_BUILD_HOST", "bakeoff")
        .env("KBUILD_BUILD_VERSION", "1")
        .env("LOCALVERSION", "");
    Ok(make)
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The compiler's version line, because another compiler results in another kernel.
fn compiler(task: Task<'_>) -> Result<String> {
    let output = program::run(command("gcc", "gcc")?.arg("--version"), task)?;
    Ok(output.lines().next().unwrap_or_default().into())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::cache::eviction;
    use crate::cache::eviction::{Mode, Named};

    #[test]
    fn a_tree_that_is_being_built_is_not_evicted() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("cache");
        let builder = Cache::open(&root);
        let task = Task {
            tell: &|_| {},
            stop: &AtomicBool::new(false),
        };
        let place = Place::take(&builder, Path::new("/src/linux"), task).unwrap();
        let built = place.dir.join("vmlinux");
        fs::write(&built, vec![1; 1 << 20]).unwrap();
        let other = Cache::open(&root);
        let prune = || eviction::prune(&other, 0, Named::MayGo, Mode::Remove).unwrap();
        let kept = prune().kept;
        assert_eq!(
            kept[0].about.as_ref().unwrap().title,
            "builds of /src/linux"
        );
        assert!(built.exists());
        let dir = place.dir.clone();
        drop((builder, place));
        // A child that another test starts right now has the lock too, until it executes its program.
        while prune().removed.is_empty() {
            std::thread::yield_now();
        }
        assert!(!dir.exists());
    }
}
