//! Which kernel modules a guest needs, and in which order they load.
//!
//! Dependencies are read from the modules themselves (`depends=` in their `.modinfo` section): Debian's
//! packages carry no `modules.dep`, and so neither kmod nor depmod is needed on the host.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base::input::file;
use object::ObjectSection as _;
use profiler::elf;

use crate::kernel::{Kernel, module_files};

/// A module for a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Module {
    /// Path below `lib/modules/RELEASE`, ending in `.ko`.
    pub(crate) path: String,
    /// The module, decompressed and without its signature.
    pub(crate) body: Vec<u8>,
    /// Names of the modules it needs, as they call themselves.
    pub(crate) depends: Vec<String>,
}

/// Largest module, packed or not, in bytes. Of Debian's the largest has 4 MiB; with debug information some have 60.
const MODULE_BYTES: u64 = 128 << 20;

/// Most modules of a guest.
const MOST_MODULES: usize = 2000;

/// The wanted modules that `dir` (a `lib/modules/RELEASE`) has, with all they depend on, sorted by path.
///
/// Without signatures: for an emulated CPU, checking one takes longer than the rest of loading a module.
pub(crate) fn collect(dir: &Path, wanted: &[String], signed: Signed) -> Result<Vec<Module>> {
    let places: BTreeMap<String, PathBuf> = module_files(dir)?
        .into_iter()
        .filter_map(|path| Some((name_of(path.file_name()?.to_str()?)?, path)))
        .collect();
    let mut by_name: BTreeMap<String, Module> = BTreeMap::new();
    let mut open: Vec<String> = wanted.iter().map(|name| plain(name)).collect();
    while let Some(name) = open.pop() {
        let (false, Some(path)) = (by_name.contains_key(&name), places.get(&name)) else {
            continue;
        };
        if by_name.len() == MOST_MODULES {
            bail!("more than {MOST_MODULES} modules are needed: {name} (name fewer)");
        }
        let mut module = read(dir, path)?;
        if signed == Signed::No {
            module.body.truncate(unsigned_length(&module.body));
        }
        open.extend(module.depends.iter().map(|name| plain(name)));
        by_name.insert(name, module);
    }
    let mut modules: Vec<_> = by_name.into_values().collect();
    modules.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(modules)
}

/// Whether a kernel loads signed modules only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signed {
    /// Modules keep their signatures.
    Only,
    /// Signatures are removed; the kernel records that as a taint.
    No,
}

/// The end of a signed module.
const SIGNATURE_MARK: &[u8] = b"~Module signature appended~\n";

/// `struct module_signature` of `include/linux/module_signature.h`; its last four bytes are the signature's length, big endian.
const SIGNATURE_HEAD_BYTES: usize = 12;

/// Length of a module without the signature that may be appended to it.
fn unsigned_length(body: &[u8]) -> usize {
    let length = || {
        let rest = body.strip_suffix(SIGNATURE_MARK)?;
        let (rest, bytes) = rest.split_last_chunk::<4>()?;
        let signature = u32::from_be_bytes(*bytes) as usize;
        rest.len().checked_sub(signature + SIGNATURE_HEAD_BYTES - 4)
    };
    length().unwrap_or(body.len())
}

/// `modules.dep` for a set of modules: each line names a module and all it needs, nearest first, so that
/// loading a line from its end to its beginning works (modules.dep(5)).
pub(crate) fn dependency_file(modules: &[Module]) -> String {
    let by_name: BTreeMap<String, &Module> = modules
        .iter()
        .filter_map(|module| Some((name_of(file_part(&module.path))?, module)))
        .collect();
    let mut text = String::new();
    for module in modules {
        let mut needed = needs(module, &by_name);
        // The collected list begins with what must load first.
        needed.reverse();
        text.push_str(&module.path);
        text.push(':');
        for path in needed {
            text.push(' ');
            text.push_str(path);
        }
        text.push('\n');
    }
    text
}

/// The dependencies of `module`, each after its own. Modules in a cycle come in some order: the kernel loads none of them.
fn needs<'m>(module: &'m Module, by_name: &BTreeMap<String, &'m Module>) -> Vec<&'m str> {
    let (mut seen, mut needed) = (BTreeSet::from([&*module.path]), Vec::new());
    // A stack of modules with their remaining dependencies, because a chain may be as long as the list of modules.
    let mut open = vec![(module, module.depends.iter())];
    while let Some((current, left)) = open.last_mut() {
        if let Some(name) = left.next() {
            let other = by_name.get(&plain(name));
            if let Some(other) = other.filter(|other| seen.insert(&*other.path)) {
                open.push((other, other.depends.iter()));
            }
        } else {
            if current.path != module.path {
                needed.push(&*current.path);
            }
            open.pop();
        }
    }
    needed
}

/// The decompressed module of this name; `None` if there is no readable one.
pub(crate) fn body(dir: &Path, name: &str) -> Option<Vec<u8>> {
    let files = module_files(dir).ok()?;
    let is_it = |path: &&PathBuf| {
        path.file_name().and_then(|file| name_of(file.to_str()?)) == Some(plain(name))
    };
    let path = files.iter().find(is_it)?;
    unpack(path, file::read(path, MODULE_BYTES).ok()?).ok()
}

impl Kernel {
    /// Whether it has a module, as a file or built in.
    pub fn has_module(&self, name: &str) -> Result<bool> {
        is_known(self, name)
    }
}

/// Whether a kernel has a module, as a file or built in.
pub(crate) fn is_known(kernel: &Kernel, name: &str) -> Result<bool> {
    let Some(dir) = &kernel.modules else {
        return Ok(false);
    };
    let is_it = |file: &str| name_of(file).as_deref() == Some(&plain(name));
    let files = module_files(dir)?;
    let mut files = files.iter().filter_map(|path| path.file_name()?.to_str());
    let builtin = fs::read_to_string(dir.join("modules.builtin")).unwrap_or_default();
    Ok(files.any(is_it) || builtin.lines().any(|line| is_it(file_part(line))))
}

fn read(dir: &Path, path: &Path) -> Result<Module> {
    let packed = file::read(path, MODULE_BYTES)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let body = unpack(path, packed)
        .with_context(|| format!("cannot decompress module {}", path.display()))?;
    let depends = depends_of(&body).with_context(|| format!("not a module: {}", path.display()))?;
    let name = path
        .strip_prefix(dir)
        .expect("module_files lists what is below")
        .to_string_lossy();
    let end = name.find(".ko").expect("name_of has found the ending") + ".ko".len();
    Ok(Module {
        path: name[..end].into(),
        body,
        depends,
    })
}

fn unpack(path: &Path, packed: Vec<u8>) -> Result<Vec<u8>> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("ko") => Ok(packed),
        Some("xz") => profiler::unpack::xz(&packed, MODULE_BYTES),
        Some("zst") => profiler::unpack::zstd(&packed, MODULE_BYTES),
        _ => bail!("unknown compression (this bakeoff reads .ko, .ko.xz and .ko.zst)"),
    }
}

/// The `depends=` line of a module's `.modinfo` section.
fn depends_of(body: &[u8]) -> Result<Vec<String>> {
    let file = object::File::parse(body)?;
    let section = elf::section(&file, ".modinfo").context("no .modinfo section")?;
    Ok(depends_in(section.data()?))
}

fn depends_in(modinfo: &[u8]) -> Vec<String> {
    modinfo
        .split(|byte| *byte == 0)
        .filter_map(|line| std::str::from_utf8(line).ok()?.strip_prefix("depends="))
        .flat_map(|names| names.split(','))
        .filter(|name| !name.is_empty())
        .map(String::from)
        .collect()
}

/// The module's name by its file: `kyber-iosched.ko.xz` is `kyber_iosched`.
fn name_of(file: &str) -> Option<String> {
    let (stem, ending) = file.split_once(".ko")?;
    ["", ".xz", ".zst", ".gz"]
        .contains(&ending)
        .then(|| plain(stem))
}

/// Module names take `-` and `_` for the same.
fn plain(name: &str) -> String {
    name.replace('-', "_")
}

fn file_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use base::skip::limits;
    use expect_test::expect;

    use super::*;

    fn module(path: &str, depends: &[&str]) -> Module {
        let depends = depends.iter().map(ToString::to_string).collect();
        Module {
            path: path.into(),
            body: Vec::new(),
            depends,
        }
    }

    #[test]
    fn each_line_can_be_loaded_from_its_end() {
        let modules = [
            module("kernel/drivers/virtio/virtio.ko", &["virtio_ring"]),
            module(
                "kernel/drivers/virtio/virtio_pci.ko",
                &["virtio", "virtio_ring", "modern-dev"],
            ),
            module("kernel/drivers/virtio/virtio_ring.ko", &[]),
            module("kernel/drivers/virtio/modern_dev.ko", &["built_in_one"]),
        ];
        expect![[r"
            kernel/drivers/virtio/virtio.ko: kernel/drivers/virtio/virtio_ring.ko
            kernel/drivers/virtio/virtio_pci.ko: kernel/drivers/virtio/modern_dev.ko kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko
            kernel/drivers/virtio/virtio_ring.ko:
            kernel/drivers/virtio/modern_dev.ko:
        "]]
        .assert_eq(&dependency_file(&modules));
    }

    #[test]
    fn dependencies_are_read_from_modinfo() {
        let modinfo = b"license=GPL\0depends=virtio,virtio_ring\0retpoline=Y\0";
        assert_eq!(depends_in(modinfo), ["virtio", "virtio_ring"]);
        assert!(depends_in(b"depends=\0name=x\0").is_empty());
    }

    #[test]
    fn names_of_modules_are_plain_and_free_of_endings() {
        assert_eq!(
            name_of("kyber-iosched.ko.xz").as_deref(),
            Some("kyber_iosched")
        );
        assert_eq!(name_of("veth.ko").as_deref(), Some("veth"));
        assert_eq!(name_of("modules.order"), None);
        assert_eq!(name_of("veth.ko.sig"), None);
    }

    #[test]
    fn a_file_that_is_no_module_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("veth.ko"), "text").unwrap();
        let collect = |name: &str| collect(dir.path(), &[name.into()], Signed::No);
        let why = collect("veth").unwrap_err().to_string();
        assert!(why.starts_with("not a module: "), "{why}");
        assert!(collect("overlay").unwrap().is_empty());
    }

    #[test]
    fn modules_that_need_each_other_come_in_some_order() {
        let modules = [
            module("a.ko", &["b"]),
            module("b.ko", &["c", "b"]),
            module("c.ko", &["a"]),
        ];
        expect![[r"
            a.ko: b.ko c.ko
            b.ko: c.ko a.ko
            c.ko: a.ko b.ko
        "]]
        .assert_eq(&dependency_file(&modules));
    }

    #[test]
    fn a_chain_of_needs_may_be_as_long_as_there_are_modules() {
        let chain: Vec<Module> = (0..MOST_MODULES)
            .map(|number| module(&format!("m{number}.ko"), &[&format!("m{}", number + 1)]))
            .collect();
        let text = dependency_file(&chain);
        let first = text.lines().next().unwrap();
        assert_eq!(first.split(' ').count(), MOST_MODULES);
    }

    #[test]
    fn a_module_that_unpacks_without_end_is_refused_within_limits() {
        let zeros = || std::io::Read::take(std::io::repeat(0), MODULE_BYTES + 1);
        let mut zst = Vec::new();
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        ruzstd::encoding::compress(zeros(), &mut zst, level);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("veth.ko.zst");
        fs::write(&path, zst).unwrap();
        let collect = || collect(dir.path(), &["veth".into()], Signed::No);
        let why = limits::refusal(collect).replace(&path.display().to_string(), "FILE");
        assert!(why.ends_with(".ko.zst: zstd: longer than 128 MiB"), "{why}");
    }

    #[test]
    fn a_signature_is_found_by_its_length() {
        let mut signed = b"\x7fELFbody".to_vec();
        signed.extend(b"signature");
        signed.extend([0, 0, 2, 0, 0, 0, 0, 0]);
        signed.extend(9u32.to_be_bytes());
        signed.extend(SIGNATURE_MARK);
        assert_eq!(&signed[..unsigned_length(&signed)], b"\x7fELFbody");
        assert_eq!(unsigned_length(b"\x7fELFbody"), 8);
        // One that claims to be longer than the file is none.
        let at = signed.len() - SIGNATURE_MARK.len() - 4;
        signed[at] = 0xff;
        assert_eq!(unsigned_length(&signed), signed.len());
    }
}
